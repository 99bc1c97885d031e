;;; gemini-companion-menu.el --- All commands in one place -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A menu of all commands, and a keymap of them for users to bind.  The package itself binds no
;; global key.

;;; Code:

(require 'transient)
(require 'gemini-companion)
(require 'gemini-companion-compose)
(require 'gemini-companion-context)
(require 'gemini-companion-decide)
(require 'gemini-companion-doctor)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-review-history)
(require 'gemini-companion-review-list)
(require 'gemini-companion-run)
(require 'gemini-companion-send)
(require 'gemini-companion-setup)
(require 'gemini-companion-status)

(defun gemini-companion-menu--no-cli-p ()
  "Return non-nil if there is no CLI to talk to."
  (not (gemini-companion-cli-p)))

(defun gemini-companion-menu--no-review-p ()
  "Return non-nil if no change awaits a decision."
  (zerop (gemini-companion-review-count)))

(defun gemini-companion-menu--title ()
  "Return the line above the commands, which says what the state is."
  (concat (propertize "Gemini companion: " 'face 'transient-heading)
          (propertize (gemini-companion-state) 'face 'transient-value)))

;; The columns fit in a terminal of 80.
;;;###autoload (autoload 'gemini-companion-menu "gemini-companion-menu" nil t)
(transient-define-prefix gemini-companion-menu ()
  "Menu of all commands of gemini-companion.
Above them it says what the mode line shows, in words; what makes no
sense now is grey."
  [:description
   gemini-companion-menu--title
   ["The CLI"
    ("r" "run, show, hide" gemini-companion-run)
    ("R" "run another" gemini-companion-run-other)
    ("S" "set up" gemini-companion-setup)
    ("y" "answer yes" gemini-companion-answer-yes :inapt-if gemini-companion-menu--no-cli-p)
    ("n" "answer no" gemini-companion-answer-no :inapt-if gemini-companion-menu--no-cli-p)]
   ["Say"
    ("p" "prompt" gemini-companion-send-prompt :inapt-if gemini-companion-menu--no-cli-p)
    ("e" "compose" gemini-companion-compose :inapt-if gemini-companion-menu--no-cli-p)
    ("s" "region" gemini-companion-send-region :inapt-if gemini-companion-menu--no-cli-p)
    ("f" "file" gemini-companion-send-file :inapt-if gemini-companion-menu--no-cli-p)
    ("d" "diagnostic" gemini-companion-send-diagnostic
     :inapt-if gemini-companion-menu--no-cli-p)]
   ["Changes"
    ("v" "view next" gemini-companion-review-next :inapt-if gemini-companion-menu--no-review-p)
    ("a" "accept" gemini-companion-accept :inapt-if gemini-companion-menu--no-review-p)
    ("k" "reject" gemini-companion-reject :inapt-if gemini-companion-menu--no-review-p)
    ("l" "list" gemini-companion-review-list)
    ("h" "history" gemini-companion-review-history)]
   ["Companion"
    ("c" "what is told" gemini-companion-show-context)
    ("t" (lambda () (if gemini-companion-context-paused "resume" "pause"))
     gemini-companion-toggle-context)
    ("i" "status" gemini-companion-status)
    ("D" "doctor" gemini-companion-doctor)
    ("L" "log" gemini-companion-log)
    ("m" (lambda () (if gemini-companion-mode "switch off" "switch on"))
     gemini-companion-mode)]])

(provide 'gemini-companion-menu)
;;; gemini-companion-menu.el ends here

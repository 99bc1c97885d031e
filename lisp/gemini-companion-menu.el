;;; gemini-companion-menu.el --- The main commands in one place -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A menu of the main commands; `gemini-companion-command-map' has the same keys for most of them.

;;; Code:

(require 'transient)
(require 'gemini-companion-context)
(require 'gemini-companion-host)
(require 'gemini-companion-review)

;; Not the main file, which must not be loaded when Emacs compiles the package that it installs.
(declare-function gemini-companion-state "gemini-companion")
(defvar gemini-companion-mode)

;; The menu fits in a terminal of 80 columns and 24 lines, where a change may be on screen.
;;;###autoload (autoload 'gemini-companion-menu "gemini-companion-menu" nil t)
(transient-define-prefix gemini-companion-menu ()
  "Menu of the main commands of gemini-companion.
The line above the commands describes the state.  Most commands that cannot
do anything now are gray."
  [:description
   (lambda () (concat "Gemini companion: " (gemini-companion-state)))
   ["The CLI"
    ("r" "run, show, hide" gemini-companion-run)
    ("R" "run another" gemini-companion-run-other)
    ("u" "resume a session" gemini-companion-resume)
    ("y" "answer yes" gemini-companion-answer-yes :inapt-if-not gemini-companion-any-cli-p)
    ("n" "answer no" gemini-companion-answer-no :inapt-if-not gemini-companion-any-cli-p)
    ("i" "list" gemini-companion-cli-list)
    ("g" "what a CLI wants" gemini-companion-next)
    ("o" "visit mentioned" gemini-companion-visit-mentioned
     :inapt-if-not gemini-companion-any-cli-p)
    ("S" "set up" gemini-companion-setup)]
   ["Send"
    ("p" "prompt" gemini-companion-send-prompt :inapt-if-not gemini-companion-any-cli-p)
    ("e" "compose" gemini-companion-compose :inapt-if-not gemini-companion-any-cli-p)
    ("s" "region" gemini-companion-send-region :inapt-if-not gemini-companion-any-cli-p)
    ("f" "file" gemini-companion-send-file :inapt-if-not gemini-companion-any-cli-p)
    ("d" "diagnostic" gemini-companion-send-diagnostic :inapt-if-not gemini-companion-any-cli-p)
    ("m" "comment on line" gemini-companion-comment)
    (";" "all comments" gemini-companion-comments-send :inapt-if-not gemini-companion-any-cli-p)]
   ["Changes"
    ("v" "view next" gemini-companion-review-next :inapt-if-not gemini-companion-review-all-open)
    ("a" "accept" gemini-companion-accept :inapt-if-not gemini-companion-review-all-open)
    ("k" "reject" gemini-companion-reject :inapt-if-not gemini-companion-review-all-open)
    ("A" "accept all" gemini-companion-accept-all :inapt-if-not gemini-companion-review-all-open)
    ("l" "list" gemini-companion-review-list)
    ("h" "history" gemini-companion-history-list)]
   ["Companion"
    ("c" "show context" gemini-companion-show-context)
    ("t" (lambda () (if gemini-companion-context-paused "resume" "pause"))
     gemini-companion-toggle-context)
    ("I" "status" gemini-companion-status)
    ("D" "doctor" gemini-companion-doctor)
    ("L" "log" gemini-companion-log)
    ("C" "connect to a host" gemini-companion-connect)
    ("X" "disconnect from one" gemini-companion-disconnect :inapt-if-nil gemini-companion-host-all)
    ;; The mode would reject the changes that wait, and unlike the menu bar, it does not ask.
    ("M" (lambda () (if gemini-companion-mode "turn off" "turn on")) gemini-companion-mode
     :inapt-if gemini-companion-review-all-open)]])

(provide 'gemini-companion-menu)
;;; gemini-companion-menu.el ends here

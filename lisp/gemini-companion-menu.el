;;; gemini-companion-menu.el --- All commands in one place -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A menu of all commands, and a keymap of them for users to bind.  The package itself binds no
;; global key.

;;; Code:

(require 'transient)
(require 'gemini-companion-context-view)
(require 'gemini-companion-doctor)
(require 'gemini-companion-review-list)
(require 'gemini-companion-run)
(require 'gemini-companion-setup)
(require 'gemini-companion-status)
(require 'gemini-companion-talk)

(declare-function gemini-companion-mode "gemini-companion")

;;;###autoload (autoload 'gemini-companion-menu "gemini-companion-menu" nil t)
(transient-define-prefix gemini-companion-menu ()
  "Menu of all commands of gemini-companion."
  [["The CLI"
    ("r" "run, show or hide" gemini-companion-run)
    ("R" "run another agent" gemini-companion-run-other)
    ("S" "set up to connect" gemini-companion-setup)
    ("y" "answer yes" gemini-companion-answer-yes)
    ("n" "answer no" gemini-companion-answer-no)]
   ["Say"
    ("p" "prompt" gemini-companion-send-prompt)
    ("e" "compose a prompt" gemini-companion-compose)
    ("s" "region" gemini-companion-send-region)
    ("f" "file" gemini-companion-send-file)
    ("d" "diagnostic" gemini-companion-send-diagnostic)]
   ["Changes"
    ("v" "view the next" gemini-companion-review-next)
    ("a" "accept" gemini-companion-accept)
    ("k" "reject" gemini-companion-reject)
    ("l" "list" gemini-companion-review-list)
    ("h" "history" gemini-companion-review-history)]
   ["Companion"
    ("c" "what clients are told" gemini-companion-show-context)
    ("t" "pause, go on" gemini-companion-toggle-context)
    ("i" "status" gemini-companion-status)
    ("D" "doctor" gemini-companion-doctor)
    ("L" "log" gemini-companion-log)
    ("m" "mode on, off" gemini-companion-mode)]])

(provide 'gemini-companion-menu)
;;; gemini-companion-menu.el ends here

;;; gemini-companion-cli-events.el --- What the hooks of CLIs tell -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The hooks of a CLI call the tool noteEvent when a session or a turn begins or ends, and when the
;; CLI asks the user something.  Emacs can answer two of them: to a prompt it adds what the user
;; wants the model to know, and before an edit it can have the CLI propose that edit here, even if
;; the user lets the CLI edit without asking.

;;; Code:

(require 'gemini-companion-agent)
(require 'gemini-companion-cli)
(require 'gemini-companion-file)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-private)
(require 'gemini-companion-tool)

(declare-function gemini-companion-cli-run-terminal-named "gemini-companion-cli-run")
(declare-function gemini-companion-comment-add-to-prompt "gemini-companion-comment")

;;;###autoload (custom-add-load 'gemini-companion-review 'gemini-companion-cli-events)
(defcustom gemini-companion-review-always nil
  "Globs for files of which you want to review every change.
Gemini CLI then proposes changes of these files in Emacs even if you let it
edit files without asking, in the approval modes \"auto edit\" and \"YOLO\".
It also does so for files with unsaved edits.  This needs the hooks that
`gemini-companion-tools-enable' installs.

A glob with a slash must match the end of the absolute file name, one
without a slash its last component.  Case does not matter."
  :type '(repeat (string :tag "Glob"))
  :group 'gemini-companion-review)

(defconst gemini-companion-cli-events--max-text 10000
  "Maximum number of characters of a prompt or a question.")

(defun gemini-companion-cli-events--note (call event session process directory text path terminal)
  "Answer CALL, which reports EVENT of a CLI.
SESSION is the id of its conversation, PROCESS its process id or nil, and
DIRECTORY where it works.  For TEXT see `gemini-companion-cli-note'; PATH is
the file if EVENT is about an edit, and empty if the file is not known.
TERMINAL names the terminal of Emacs in which the CLI runs, if it is on a
host."
  (let* ((agent (gemini-companion-tool-call-agent call))
         (hooks (plist-get (gemini-companion-agent-get agent :extension) :hooks))
         (what (car (assq (intern-soft event) hooks)))
         (directory (or (gemini-companion-tool-call-directory call) directory))
         (process (gemini-companion-tool-process call process))
         (known (gemini-companion-cli-of-process process)))
    (unless what
      (user-error "There is no event %s" event))
    ;; Emacs asks about an edit by a review.
    (if (and (eq what 'asks) path known (gemini-companion-cli-reviews-here-p known)) ""
      (let ((cli (gemini-companion-cli-note
                  what agent process (seq-take session 200) directory
                  (and text (seq-take text gemini-companion-cli-events--max-text)))))
        (when (and cli terminal)
          (gemini-companion-cli-events--note-terminal call cli terminal))
        (or (pcase (and cli what)
              ('prompt (gemini-companion-log-errors "adding to a prompt"
                         (gemini-companion-comment-add-to-prompt cli)))
              ('edit (gemini-companion-cli-events--ask call cli path)))
            "")))))

(defun gemini-companion-cli-events--note-terminal (call cli name)
  "Record that CLI, the client of CALL, runs in the terminal with NAME.
That must be a terminal of the same host."
  (when-let* (((featurep 'gemini-companion-cli-run)) ; else there is none
              (host (gemini-companion-tool-call-host call))
              (terminal (gemini-companion-cli-run-terminal-named
                         name (gemini-companion-host-prefix host))))
    (gemini-companion-cli-set-terminal cli terminal)))

(defun gemini-companion-cli-events--ask (call cli path)
  "Return why CLI is to ask about its edit of the file PATH in CALL, or nil.
If CLI could not propose the edit in Emacs, nor had a terminal, it would ask
nobody and wait forever."
  (when-let* ((path)
              ((file-name-absolute-p path))
              ((gemini-companion-cli-reviews-here-p cli))
              (file (gemini-companion-tool-name call path))
              ((not (and (gemini-companion-tool-call-host call)
                         (gemini-companion-tool-secret-p call file)))))
    (let ((buffer (gemini-companion-file-visiting file)))
      (cond ((and buffer (buffer-modified-p buffer))
             "This file has unsaved edits in Emacs, so Emacs shows you the change")
            ((gemini-companion-private-match-p gemini-companion-review-always file)
             "`gemini-companion-review-always' has Emacs show you the change")))))

;;;###autoload
(defun gemini-companion-cli-events-define ()
  "Define the tool of this file, for the hooks of CLIs."
  (gemini-companion-tool-define "noteEvent"
    :hidden t
    :hosts t
    :description "Tell Emacs what a CLI does; return what the hook answers."
    :arguments '(("event" string "What has happened")
                 ("session" string "The id of the conversation")
                 ("process" integer "The process id of the CLI" optional)
                 ("directory" string "Where the CLI works" optional)
                 ("text" string "The prompt, the question or the reason" optional)
                 ("path" string "The file" optional)
                 ("terminal" string "The name of the terminal" optional))
    :function #'gemini-companion-cli-events--note))
;;;###autoload (add-hook 'gemini-companion-tool-hook #'gemini-companion-cli-events-define)

(provide 'gemini-companion-cli-events)
;;; gemini-companion-cli-events.el ends here

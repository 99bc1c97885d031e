;;; gemini-companion-tool-hooks.el --- What the hooks of CLIs report -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The hooks of a CLI call three tools that no model sees: hasClient finds the Emacs of the CLI, if
;; several have the project open; noteEvent reports that a session or a turn begins or ends, that an
;; edit is to come, or that the CLI asks something; noteEdit reports an edit.
;;
;; Emacs can answer.  To a prompt it adds what the user wants the model to know.  Before an edit, it
;; can have the CLI propose the edit here, even if the user lets the CLI edit without asking.
;; After an edit, it tells which diagnostics are new; the edit goes to the history, where the user
;; can look at it and undo it, and is shown at once if the user wants that.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-agent)
(require 'gemini-companion-change)
(require 'gemini-companion-cli)
(require 'gemini-companion-file)
(require 'gemini-companion-history)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-private)
(require 'gemini-companion-tool)
(require 'gemini-companion-tool-diagnostics)
(require 'gemini-companion-write)

(declare-function gemini-companion-cli-run-terminal-named "gemini-companion-cli-run")
(declare-function gemini-companion-comment-add-to-prompt "gemini-companion-comment")

;;;###autoload (custom-add-load 'gemini-companion-review 'gemini-companion-tool-hooks)
(defcustom gemini-companion-follow nil
  "Non-nil means show each file that a CLI has edited, at its first changed line.
It appears in a window other than the selected one, which stays selected,
when you are not busy.  This needs the hooks that
`gemini-companion-tools-enable' installs."
  :type 'boolean
  :group 'gemini-companion-review)

(defcustom gemini-companion-review-always nil
  "Globs for files of which you want to review every change.
Gemini CLI then proposes changes to these files in Emacs even if you let it
edit files without asking, in the approval modes \"auto edit\" and \"YOLO\".
It also does so for files with unsaved edits.  This needs the hooks that
`gemini-companion-tools-enable' installs.

A glob with a slash must match the end of the absolute file name, one
without a slash its last component.  Case does not matter."
  :type '(repeat (string :tag "Glob"))
  :group 'gemini-companion-review)

;;;; Events

(defun gemini-companion-tool-hooks--has-client (call process)
  "Return \"yes\" if the client of CALL with the id PROCESS is connected, or \"\"."
  (let ((cli (gemini-companion-cli-of-process (gemini-companion-tool-process call process))))
    (if (and cli (gemini-companion-cli-open-session cli)) "yes" "")))

(defun gemini-companion-tool-hooks--note-event
    (call event session process directory text path terminal)
  "Answer CALL, which reports EVENT of a CLI.
The tool noteEvent says what SESSION, PROCESS, DIRECTORY, TEXT, PATH and
TERMINAL are; each but SESSION may be nil."
  (let* ((agent (gemini-companion-tool-call-agent call))
         (hooks (plist-get (gemini-companion-agent-get agent :extension) :hooks))
         (what (car (assq (intern-soft event) hooks)))
         (directory (or (gemini-companion-tool-call-directory call) directory))
         (process (gemini-companion-tool-process call process))
         (known (gemini-companion-cli-of-process process)))
    (unless what
      (user-error "There is no event %s" event))
    (gemini-companion-tool-hooks--change-hooks #'add-hook) ; the mode was perhaps off meanwhile
    (gemini-companion-tool-diagnostics-observe)
    ;; Files may change before a prompt, and in a turn, without a hook that reports it.
    (when (and directory (memq what '(prompt ran done))
               (not (gemini-companion-tool-call-host call)))
      (gemini-companion-tool-hooks--refresh-buffers directory))
    ;; About an edit, Emacs asks with a review.
    (if (and (eq what 'asks) path known (gemini-companion-cli-reviews-here-p known)) ""
      (let ((cli (gemini-companion-cli-note
                  what agent process (seq-take session 200) directory
                  (and text (seq-take text 10000)))))
        (when-let* ((cli)
                    ((featurep 'gemini-companion-cli-run)) ; else there is no terminal
                    (host (gemini-companion-tool-call-host call))
                    (buffer (gemini-companion-cli-run-terminal-named
                             terminal (gemini-companion-host-prefix host))))
          (gemini-companion-cli-set-terminal cli buffer))
        (or (pcase (and cli what)
              ;; What nobody waits for would be lost.
              ((and 'prompt (guard (and (gemini-companion-tool-live-p call)
                                        (not (gemini-companion-tool-hooks--script-p process)))))
               (gemini-companion-log-errors "adding to a prompt"
                 (gemini-companion-comment-add-to-prompt
                  cli #'gemini-companion-tool-fits-p)))
              ('edit (gemini-companion-tool-hooks--ask call cli path)))
            "")))))

(defun gemini-companion-tool-hooks--script-p (process)
  "Return non-nil if a script has prompted PROCESS, a CLI, as a Git hook may.
The user has written comments for no such prompt.  It is an argument, or
its input or output is no terminal, and no other front end either."
  (ignore-errors                        ; other systems have no such files
    (with-temp-buffer
      (insert-file-contents-literally (format "/proc/%d/cmdline" process))
      (or (re-search-forward "\0\\(?:-p\\|--prompt\\)[\0=]" nil t)
          (not (or (re-search-forward "\0--\\(?:experimental-\\)?acp\0" nil t)
                   (cl-loop for name in '("0" "1")
                            for file = (format "/proc/%d/fd/%s" process name)
                            always (string-match-p "\\`/dev/\\(?:pts/\\|tty\\)"
                                                   (file-symlink-p file)))))))))

(defun gemini-companion-tool-hooks--refresh-buffers (directory)
  "Revert buffers of files in DIRECTORY, which a CLI may have changed."
  (dolist (buffer (buffer-list))
    (when (string-prefix-p (file-name-as-directory directory)
                           (or (gemini-companion-file-truename buffer) ""))
      (gemini-companion-tool-refresh-buffer buffer))))

(defun gemini-companion-tool-hooks--ask (call cli path)
  "Return why CLI is to ask about its edit of the file PATH in CALL, or nil."
  (when-let* ((path)
              ((file-name-absolute-p path))
              ;; Otherwise it might ask nobody, and wait forever.
              ((gemini-companion-cli-reviews-here-p cli))
              (file (gemini-companion-tool-name call path))
              ((not (and (gemini-companion-tool-call-host call)
                         (gemini-companion-tool-secret-p call file)))))
    (let ((buffer (gemini-companion-file-visiting file))
          (target (if (gemini-companion-tool-call-host call) file
                    (gemini-companion-file-real-name file))))
      (cond ((and buffer (buffer-modified-p buffer))
             "This file has unsaved edits in Emacs, so Emacs shows you the change")
            ((gemini-companion-private-match-p gemini-companion-review-always (list file target))
             "`gemini-companion-review-always' has Emacs show you the change")))))

;;;; Edits

(defvar-local gemini-companion-tool-hooks--before nil
  "The diagnostics before the buffer took an edit, as (TIME . SNAPSHOT), or nil.
SNAPSHOT is `unknown' if nothing had checked the buffer by then.")

(defun gemini-companion-tool-hooks--note-edit
    (call path tool before after &optional session process modified)
  "Answer CALL, which reports that TOOL has edited the file PATH.
The tool noteEdit says what BEFORE, AFTER, SESSION, PROCESS and MODIFIED are."
  (if (string-empty-p tool) ""          ; a hook wants to see that Emacs is not blocked
    (let ((file (gemini-companion-tool-name call path))
          (process (gemini-companion-tool-process call process)))
      (when session
        (gemini-companion-cli-note 'edited (gemini-companion-tool-call-agent call) process
                                   (seq-take session 200)
                                   (gemini-companion-tool-call-directory call)))
      (when (and after
                 (not (equal before after)) ; there is nothing to undo
                 (file-name-absolute-p path)
                 (gemini-companion-tool-hooks--made-p call file after))
        (if-let* ((known (gemini-companion-tool-hooks--known file before after)))
            (gemini-companion-history-note-written known)
          (gemini-companion-tool-hooks--record call file tool before after process))
        (gemini-companion-log-run-hook 'gemini-companion-review-change-hook))
      ;; This tells the client nothing.
      (when-let* ((buffer (gemini-companion-tool-buffer call file)))
        (gemini-companion-tool-refresh-buffer buffer))
      (unless (gemini-companion-tool-secret-p call file)
        (gemini-companion-tool-hooks--take call file before after modified))
      (let ((buffer (gemini-companion-tool-buffer call (gemini-companion-tool-file call path))))
        (if (and buffer
                 (not (buffer-modified-p buffer))
                 (gemini-companion-tool-diagnostics-checked-p buffer))
            (gemini-companion-tool-hooks--compare call buffer)
          "")))))

(defun gemini-companion-tool-hooks--made-p (call file after)
  "Return non-nil if the client of CALL can have made AFTER the text of FILE.
Whoever has the token can report any edit, and an undo writes its old text."
  (if (gemini-companion-file-host file)
      ;; Emacs asks the host only when the user undoes it.
      (not (gemini-companion-tool-secret-p call file))
    (and (cl-loop for name in (list file (gemini-companion-file-real-name file))
                  never (gemini-companion-tool-secret-p call name))
         (gemini-companion-file-written-p file after))))

(defun gemini-companion-tool-hooks--take (call file before after modified)
  "Take what CALL reports, that the text of FILE was BEFORE and is now AFTER.
If FILE is on a host, and contains exactly AFTER since MODIFIED, give AFTER
to its buffer.  If the user follows the CLI, show FILE."
  (let ((buffer (gemini-companion-tool-buffer call file))
        (prefix (gemini-companion-file-host file)))
    (when (and buffer modified prefix)
      (unless (gemini-companion-file-written-p file after)
        (gemini-companion-file-note file (encode-coding-string after 'utf-8-unix)
                                    (number-to-string modified) modified))
      (when (or (not (gemini-companion-file-newer-in-p file buffer))
                ;; The file had a time in the future, as when clocks differ.
                (equal (gemini-companion-review-text-of-buffer buffer)
                       (gemini-companion-file-plain (or before ""))))
        (unless (gemini-companion-write-held-p file)
          (gemini-companion-log-errors "reverting a buffer"
            (gemini-companion-write-revert-now file)))))
    ;; Emacs visits no file on a host without the user.
    (when (and gemini-companion-follow after (or buffer (not prefix)))
      (gemini-companion-tool-hooks--follow call file before after))))

;;;; Showing edited files

(defvar gemini-companion-tool-hooks--followed nil
  "What will be shown when the user is not busy, as (CALL FILE LINE), or nil.")

(defvar gemini-companion-tool-hooks--shown nil
  "Where a file was shown last, as (WINDOW . BUFFER), or nil.")

(defun gemini-companion-tool-hooks--follow (call file before after)
  "Show FILE of CALL when the user is not busy.
Its texts were BEFORE, which may be nil, and AFTER."
  (let* ((waits gemini-companion-tool-hooks--followed)
         ;; A client may report the one as it is in the file, and the other with LF line ends.
         (regions (gemini-companion-change-regions (gemini-companion-file-plain (or before ""))
                                                   (gemini-companion-file-plain after)))
         (line (if (seq-empty-p regions) 1 (1+ (aref (aref regions 0) 2)))))
    (setq gemini-companion-tool-hooks--followed (list call file line))
    (unless waits
      (gemini-companion-log-when-free "following a CLI" #'gemini-companion-tool-hooks--show))))

(defun gemini-companion-tool-hooks--show ()
  "Show the file that was edited last, unless the user is in it."
  (pcase-let ((`(,call ,file ,line) gemini-companion-tool-hooks--followed))
    (setq gemini-companion-tool-hooks--followed nil)
    (gemini-companion-log-errors "following a CLI"
      (unless (eq (window-buffer) (gemini-companion-tool-buffer call file))
        (let ((window (gemini-companion-tool-display call file line
                                                     (gemini-companion-tool-hooks--action))))
          (setq gemini-companion-tool-hooks--shown
                (and window (cons window (window-buffer window)))))))))

(defun gemini-companion-tool-hooks--action ()
  "Return a display action for the next file: the window of the last one, if any.
In a frame without room for two windows, it displays nothing."
  (pcase-let* ((`(,window . ,buffer) gemini-companion-tool-hooks--shown)
               (again (and (window-live-p window) (eq buffer (window-buffer window)))))
    `((display-buffer-reuse-window
       ,@(and again '(display-buffer-in-previous-window))
       gemini-companion-ui-display-beside-review
       display-buffer-pop-up-window
       display-buffer-use-some-window
       display-buffer-no-window)
      (previous-window . ,window)
      (allow-no-window . t)
      (inhibit-same-window . t))))

;;;; The history

(defun gemini-companion-tool-hooks--record (call file tool before after process)
  "Record that the client of CALL, PROCESS, has edited FILE with TOOL.
BEFORE and AFTER are as in `gemini-companion-tool-hooks--note-edit'."
  (gemini-companion-history-add
   :client (format "%s, %s"
                   (gemini-companion-agent-get (gemini-companion-tool-call-agent call) :title)
                   (truncate-string-to-width tool 40))
   :path file
   :host (gemini-companion-file-host file)
   :prompt (gemini-companion-cli-prompt-of-process process)
   :outcome 'unreviewed
   :before (gemini-companion-tool-hooks--encode file before)
   :after after))

(defun gemini-companion-tool-hooks--encode (file before)
  "Return BEFORE, an earlier text of FILE, as bytes; nil if that is nil.
Return `unreadable' if the client could not decode those."
  (cond ((not before) nil)
        ((string-search "\ufffd" before) 'unreadable)
        (t (gemini-companion-file-encode before (gemini-companion-file-read file)))))

(defun gemini-companion-tool-hooks--known (file before after)
  "Return the last change of FILE in the history if that made its text AFTER.
The user decided it, or the client reports it twice, with the same BEFORE."
  (let* ((target (if (gemini-companion-file-host file) file
                   (gemini-companion-file-real-name file)))
         (entry (seq-find (lambda (it) (equal target (gemini-companion-history-target it)))
                          (gemini-companion-history-all))))
    (and entry
         (gemini-companion-ui-recent-p (float-time (gemini-companion-history-time entry)) 60)
         (gemini-companion-file-same-p
          (gemini-companion-file-plain (gemini-companion-history-after entry))
          (gemini-companion-file-plain after))
         (pcase (gemini-companion-history-outcome entry)
           ((or 'accepted 'accepted-there 'closed 'unwritten) t)
           ;; If it differs, the user has edited the file in between, and only this entry has that.
           ;; This reads the file, so it comes last.
           ('unreviewed (equal (gemini-companion-history-before entry)
                               (gemini-companion-tool-hooks--encode file before))))
         entry)))

;;;; Diagnostics

(defun gemini-companion-tool-hooks--compare (call buffer)
  "Answer CALL with the diagnostics of BUFFER that are new since the edit."
  ;; A hook has made the snapshot when Emacs took the edit.
  (with-current-buffer buffer
    (let ((before (if (gemini-companion-tool-hooks--before-p)
                      (cdr gemini-companion-tool-hooks--before)
                    (gemini-companion-tool-diagnostics-list buffer))))
      (setq gemini-companion-tool-hooks--before nil)
      (gemini-companion-tool-diagnostics-when-fresh
       call (list buffer) 10
       (lambda (found)
         (gemini-companion-tool-answer
          call (gemini-companion-tool-hooks--describe
                (gemini-companion-tool-hooks--new before (cadar found)) (eq before 'unknown))))))))

(defun gemini-companion-tool-hooks--new (snapshot diagnostics)
  "Return those of DIAGNOSTICS that are not in SNAPSHOT, an earlier list.
If that is `unknown', return all.  Lines may have moved meanwhile, so only
severities and texts count."
  (let ((known (make-hash-table :test #'equal)))
    (dolist (diagnostic (and (listp snapshot) snapshot))
      (cl-incf (gethash (cddr diagnostic) known 0)))
    (cl-loop for diagnostic in diagnostics
             if (< (cl-decf (gethash (cddr diagnostic) known 0)) 0) collect diagnostic)))

(defun gemini-companion-tool-hooks--describe (diagnostics &optional all)
  "Return DIAGNOSTICS as text for the model, empty if there are none.
If ALL is non-nil, it is not known which of them are new."
  (if (null diagnostics) ""
    (concat (if all "The editor's diagnostics, old and new ones:\n"
              "New in the editor's diagnostics since this edit:\n")
            (mapconcat (pcase-lambda (`(,line ,column ,severity ,text))
                         (format "%d:%d: %s: %s" line column severity text))
                       (seq-take diagnostics 10) "\n")
            (and (length> diagnostics 10) (format "\n(%d more)" (- (length diagnostics) 10))))))

(defun gemini-companion-tool-hooks--before-p ()
  "Return non-nil if the current buffer has a snapshot of the last 60 seconds."
  (and gemini-companion-tool-hooks--before
       (<= 0 (- (float-time) (car gemini-companion-tool-hooks--before)) 60)))

(defun gemini-companion-tool-hooks--note-diagnostics (&rest _)
  "Remember the diagnostics of the current buffer, whose file was edited."
  (gemini-companion-log-errors "diagnostics before an edit"
    (when (and (not (gemini-companion-tool-hooks--before-p))
               (gemini-companion-tool-diagnostics-checked-p (current-buffer)))
      (setq gemini-companion-tool-hooks--before
            (cons (float-time) (if (gemini-companion-tool-diagnostics-begun-p)
                                   (gemini-companion-tool-diagnostics-list (current-buffer))
                                 'unknown))))))

(defun gemini-companion-tool-hooks--change-hooks (change)
  "Add or remove, with the function CHANGE, hooks for buffers that are reverted.
Emacs may revert one before the client reports the edit."
  (funcall change 'before-revert-hook #'gemini-companion-tool-hooks--note-diagnostics)
  ;; That is too late for Flycheck, whose own function there forgets the errors first.
  (if (eq change #'add-hook)
      (advice-add 'flycheck-teardown :before #'gemini-companion-tool-hooks--note-diagnostics)
    (advice-remove 'flycheck-teardown #'gemini-companion-tool-hooks--note-diagnostics)))

(add-hook 'gemini-companion-mode-off-hook
          (lambda () (gemini-companion-tool-hooks--change-hooks #'remove-hook)))

;;;; Their definitions

;;;###autoload
(defun gemini-companion-tool-hooks-define ()
  "Define the tools of this file, for the hooks of CLIs."
  (gemini-companion-tool-hooks--change-hooks #'add-hook)
  (gemini-companion-tool-define "hasClient"
    :hidden t
    :hosts t
    :description "Return \"yes\" if a CLI is connected to this Emacs."
    :arguments '(("process" integer "The process id of the CLI"))
    :function #'gemini-companion-tool-hooks--has-client)
  (gemini-companion-tool-define "noteEvent"
    :hidden t
    :hosts t
    :description "Tell Emacs what a CLI does; return what the hook answers."
    :arguments '(("event" string "What has happened")
                 ("session" string "The id of the conversation")
                 ("process" integer "The process id of the CLI" optional)
                 ("directory" string "Where the CLI works" optional)
                 ("text" string "The prompt, the question or the reason" optional)
                 ("path" string "The file of an edit, empty if it is not known" optional)
                 ("terminal" string "The name of the terminal of Emacs" optional))
    :function #'gemini-companion-tool-hooks--note-event)
  (gemini-companion-tool-define "noteEdit"
    :hidden t
    :hosts t
    :description "Tell Emacs that a file was edited; return new diagnostics."
    :arguments '(("path" string "The file")
                 ("tool" string "The tool that has edited it")
                 ("before" string "Its text before, missing if it is new" optional)
                 ("after" string "Its text now, missing if that is not known" optional)
                 ("session" string "The id of the conversation" optional)
                 ("process" integer "The process id of the CLI" optional)
                 ("modified" integer "When it was written, if it has just that text, in seconds \
since 1970" optional))
    :function #'gemini-companion-tool-hooks--note-edit))
;;;###autoload (add-hook 'gemini-companion-tool-hook #'gemini-companion-tool-hooks-define -50)

(provide 'gemini-companion-tool-hooks)
;;; gemini-companion-tool-hooks.el ends here

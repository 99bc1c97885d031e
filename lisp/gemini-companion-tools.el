;;; gemini-companion-tools.el --- Tools of Emacs for the model -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The model of a client can call tools of this Emacs: what the checkers have found, where a symbol
;; is defined, which files have unsaved edits.  This file has the table of the tools, the calls, and
;; three tools about buffers.  It is loaded when a client first wants the tools.
;;
;; A tool is a function of Lisp, called in a timer.  It returns the answer, or answers later: nothing
;; may wait on the main thread.  A client that gives up cancels its call.
;;
;; Answers go to a remote model.  So the names of files, in arguments and in results, pass the rules
;; for the context: private files and files outside of the client's scope are withheld, and the model
;; learns only how many.  Only open buffers are used; a file is visited only to be shown.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'gemini-companion-bridge)
(require 'gemini-companion-context)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

;; Not loaded in every Emacs.
(defvar vc-follow-symlinks)

;;;; Limits

(defconst gemini-companion-tools-max-lines 100
  "Maximum number of lines of an answer.")

(defconst gemini-companion-tools--max-characters 30000
  "Maximum number of characters of an answer.")

(defvar gemini-companion-tools--slice 0.01
  "Seconds for which Emacs works on many items before it does something else.")

(defconst gemini-companion-tools-patience 15
  "Seconds for which a call waits for checkers or the user.
The client is sent an error after 20.")

;;;; The table

(cl-defstruct (gemini-companion-tools--tool (:copier nil))
  "A tool that the model can call."
  (name nil :documentation "What the model calls it, a string.")
  (description nil :documentation "What it does, for the model.")
  (arguments nil :documentation "As in `gemini-companion-define-tool'.")
  (read-only nil :documentation "Non-nil if it changes nothing.")
  (hidden nil :documentation "Non-nil if it is not listed.")
  (function nil :documentation "As in `gemini-companion-define-tool'."))

(defvar gemini-companion-tools--table nil
  "The defined tools, the first one first.")

(defvar gemini-companion-tools--wanted nil
  "Non-nil once a client has wanted the tools.")

(defvar gemini-companion-tools-hook nil
  "Hook run when a client first wants the tools.
Its functions define them with `gemini-companion-define-tool'.")

;;;###autoload
(defun gemini-companion-define-tool (name &rest properties)
  "Define a tool with NAME, a string, that the model of a client can call.
PROPERTIES is a plist:

:description  What the tool does, for the model.
:arguments    A list of (NAME TYPE DESCRIPTION &optional OPTIONAL); TYPE is
              `string', `integer' or `boolean'.
:read-only    Non-nil if it changes nothing, so that clients may let the
              model call it without asking the user.
:hidden       Non-nil if it works but is not listed.
:function     What it does, for Emacs.

The function is called with a call, an object, and the value of each
argument, nil where it is missing or false.  If it returns a string, that
is the answer.  Otherwise it must answer later, by
`gemini-companion-tool-answer' or `gemini-companion-tool-fail'; Emacs must
not wait.  If it signals an error, the call fails.

The answer goes to the model.  For names of files that the model gives use
`gemini-companion-tool-file', for those in the answer
`gemini-companion-tool-visible-p'.

A tool with the same NAME is replaced.  To replace one of ours do so in
`gemini-companion-tools-hook'."
  (declare (indent 1))
  (let ((tool (apply #'make-gemini-companion-tools--tool :name name properties)))
    (setq gemini-companion-tools--table
          (if (gemini-companion-tools--find name)
              (mapcar (lambda (old)
                        (if (equal (gemini-companion-tools--tool-name old) name) tool old))
                      gemini-companion-tools--table)
            (append gemini-companion-tools--table (list tool))))
    (when gemini-companion-tools--wanted (gemini-companion-tools--announce))))

(defun gemini-companion-tools--find (name)
  "Return the tool with NAME, or nil."
  (cl-find name gemini-companion-tools--table
           :key #'gemini-companion-tools--tool-name :test #'equal))

(defun gemini-companion-tools--announce ()
  "Let clients know the tools."
  (gemini-companion-bridge-set-tools
   (mapcar (lambda (tool)
             (vector (gemini-companion-tools--tool-name tool)
                     (gemini-companion-tools--tool-description tool)
                     (and (gemini-companion-tools--tool-read-only tool) t)
                     (not (gemini-companion-tools--tool-hidden tool))
                     (vconcat (mapcar (pcase-lambda (`(,name ,type ,description ,optional))
                                        (vector name (symbol-name type) description
                                                (not optional)))
                                      (gemini-companion-tools--tool-arguments tool)))))
           gemini-companion-tools--table)))

;;;###autoload
(defun gemini-companion-tools-announce ()
  "Define the tools if that was not done yet, and let clients know them."
  (unless gemini-companion-tools--wanted
    (gemini-companion-log-run-hook 'gemini-companion-tools-hook)
    (setq gemini-companion-tools--wanted t))
  (gemini-companion-tools--announce))
;;;###autoload (put 'tools-wanted 'gemini-companion-handler #'gemini-companion-tools-announce)

(defun gemini-companion-tools-signatures ()
  "Return the listed tools as text for the user, such as \"showFile(path, line?)\"."
  (cl-loop for tool in gemini-companion-tools--table
           unless (gemini-companion-tools--tool-hidden tool)
           collect (format "%s(%s)" (gemini-companion-tools--tool-name tool)
                           (mapconcat (pcase-lambda (`(,name ,_ ,_ ,optional))
                                        (concat name (and optional "?")))
                                      (gemini-companion-tools--tool-arguments tool) ", "))))

;;;; Calls

(cl-defstruct (gemini-companion-tool-call (:copier nil))
  "A call of a tool."
  (id nil :documentation "The number by which the module knows it.")
  (tool nil :documentation "The name of the tool.")
  (agent nil :documentation "The agent of the client, such as `gemini'.")
  (directory nil :documentation "Where the client works, or nil if that is not known.")
  (subject nil :documentation "The name of the file that it is about, for the user, or nil.")
  (started (float-time) :documentation "When it came, in seconds since 1970.")
  (ended nil :documentation "When it ended, or nil.")
  (outcome nil :documentation "How it ended, as text for the user, or nil.")
  (withheld 0 :documentation "The number of results that are withheld."))

(defvar gemini-companion-tools--calls nil
  "The last calls, the newest first.")

(defvar gemini-companion-tools-change-hook nil
  "Hook run when a call has begun or ended.")

(defun gemini-companion-tools-calls ()
  "Return the last calls, the newest first."
  gemini-companion-tools--calls)

;;;###autoload
(defun gemini-companion-tools-call (id agent name arguments directory)
  "Call the tool NAME of a client of AGENT, with ARGUMENTS, a vector.
ID is the number of the call, DIRECTORY where the client works, or nil."
  (let ((tool (gemini-companion-tools--find name))
        (call (make-gemini-companion-tool-call :id id :tool name :agent agent
                                               :directory directory)))
    (setq gemini-companion-tools--calls
          (cons call (seq-take gemini-companion-tools--calls 19)))
    (gemini-companion-log-run-hook 'gemini-companion-tools-change-hook)
    (cond ((not tool) (gemini-companion-tool-fail call "There is no such tool"))
          ((gemini-companion-workspace-pending-p)
           ;; Nothing is in any scope yet.
           (gemini-companion-workspace-hasten)
           (gemini-companion-tool-poll
            call
            (lambda ()
              (unless (gemini-companion-workspace-pending-p)
                (gemini-companion-tools--run call tool arguments)
                t))))
          (t (gemini-companion-tools--run call tool arguments)))))
;;;###autoload (put 'call-tool 'gemini-companion-handler #'gemini-companion-tools-call)

(defmacro gemini-companion-tool-go-on (call &rest body)
  "Evaluate BODY for CALL, unless that has ended; return nil.
If BODY signals an error, CALL fails.  For timers and other callbacks: the
current buffer, point there and the match data stay as they are."
  (declare (indent 1) (debug t))
  `(gemini-companion-tools--go-on ,call (lambda () ,@body)))

(defun gemini-companion-tools--run (call tool arguments)
  "Call the function of TOOL for CALL, with ARGUMENTS, a vector."
  (gemini-companion-tool-go-on call
    (let ((answer (apply (gemini-companion-tools--tool-function tool)
                         call (append arguments nil))))
      (when (stringp answer)
        (gemini-companion-tool-answer call answer)))))

(defun gemini-companion-tools--go-on (call function)
  "Call FUNCTION for CALL; see `gemini-companion-tool-go-on'."
  (when (gemini-companion-tool-live-p call)
    (condition-case problem
        (save-excursion
          (save-match-data
            (let ((inhibit-quit nil)
                  (throw-on-input nil))
              (funcall function))))
      (quit (gemini-companion-tool-fail call "The user has interrupted this"))
      (error (gemini-companion-tool-fail call (gemini-companion-ui-error-text problem)))))
  nil)

;;;###autoload
(defun gemini-companion-tools-cancel (id)
  "Record that nobody waits for the answer to the call ID any more."
  (when-let* ((call (cl-find id gemini-companion-tools--calls
                             :key #'gemini-companion-tool-call-id)))
    (gemini-companion-tools--end call "cancelled")))
;;;###autoload (put 'cancel-call 'gemini-companion-handler #'gemini-companion-tools-cancel)

(defun gemini-companion-tools--cancel-all (_clients)
  "If the companion was stopped, record that nobody waits for any answer.
Another companion may give its calls the same numbers."
  (unless (gemini-companion-bridge-running-p)
    (dolist (call gemini-companion-tools--calls)
      (gemini-companion-tools--end call "cancelled"))))

(add-hook 'gemini-companion-clients-functions #'gemini-companion-tools--cancel-all)

(defun gemini-companion-tool-live-p (call)
  "Return non-nil if somebody waits for the answer to CALL."
  (and (not (gemini-companion-tool-call-outcome call))
       (or (gemini-companion-bridge-awaited-p (gemini-companion-tool-call-id call))
           ;; That is not known yet.
           (ignore (gemini-companion-tools--end call "cancelled")))))

(defun gemini-companion-tool-answer (call text)
  "Answer CALL with TEXT, truncated if long.
Return nil if nobody waits for it any more."
  (when (gemini-companion-tool-live-p call)
    (let* ((withheld (gemini-companion-tool-call-withheld call))
           (some (> withheld 0))
           (text (concat (gemini-companion-tools--cut text)
                         (and some (format "\n(%d more in withheld files)" withheld)))))
      (gemini-companion-bridge-answer (gemini-companion-tool-call-id call) text)
      (gemini-companion-tools--end
       call (concat (format "answered, %d characters" (length text))
                    (and some (format ", %d withheld" withheld)))))))

(defun gemini-companion-tool-fail (call reason)
  "Answer CALL with an error, for REASON, a string.
Return nil if nobody waits for it any more."
  (when (gemini-companion-tool-live-p call)
    (gemini-companion-bridge-fail (gemini-companion-tool-call-id call) reason)
    (gemini-companion-tools--end call (concat "failed: " reason))))

(defun gemini-companion-tools--end (call outcome)
  "Record that CALL has ended with OUTCOME, and log it."
  (unless (gemini-companion-tool-call-outcome call)
    (setf (gemini-companion-tool-call-outcome call) outcome
          (gemini-companion-tool-call-ended call) (float-time))
    (gemini-companion-log-add "tool %s" (gemini-companion-tools-describe-call call))
    (gemini-companion-log-run-hook 'gemini-companion-tools-change-hook))
  t)

(defun gemini-companion-tools-describe-call (call)
  "Return a line about CALL for the user."
  (let ((ended (gemini-companion-tool-call-ended call)))
    (gemini-companion-ui-one-line
     (concat (gemini-companion-tool-call-tool call)
             (when-let* ((subject (gemini-companion-tool-call-subject call)))
               (concat " " subject))
             (format " for %s: %s" (gemini-companion-tool-call-agent call)
                     (or (gemini-companion-tool-call-outcome call) "not answered yet"))
             (and ended (format ", %.0f ms"
                                (* 1000 (- ended (gemini-companion-tool-call-started call)))))))))

(defun gemini-companion-tool-poll (call check)
  "Call CHECK for CALL every few milliseconds, until it returns non-nil.
Stop when CALL has ended; an error of CHECK fails it."
  (gemini-companion-tools-repeat
   (lambda ()
     (let ((done t))                    ; unless CHECK returns nil
       (gemini-companion-tool-go-on call
         (setq done (funcall check)))
       done))))

(defun gemini-companion-tool-each (call items function finish)
  "Call FUNCTION with each of ITEMS for CALL, then FINISH; return nil.
If that takes long, go on in timers, so that the user need not wait."
  (let ((slice (lambda ()
                 (let ((end (+ (float-time) gemini-companion-tools--slice)))
                   (while (and items
                               (progn (funcall function (pop items)) t)
                               (< (float-time) end))))
                 (unless items
                   (funcall finish)
                   t))))
    (unless (funcall slice)
      (gemini-companion-tool-poll call slice))
    nil))

(defun gemini-companion-tools-repeat (check)
  "Call CHECK in a timer, until it returns non-nil or signals an error."
  (let ((timer nil))
    (setq timer (run-at-time
                 0.05 0.05
                 (lambda ()
                   (let ((done t))      ; after an error, too
                     (gemini-companion-log-errors "tools"
                       (save-current-buffer
                         (setq done (funcall check))))
                     (when done (cancel-timer timer))))))))

;;;; What may be told

(defun gemini-companion-tool-file (call path)
  "Return the absolute name of the file that PATH means in CALL.
PATH is absolute, or relative to the directory of the client.  Signal a
`user-error' if the model may not know of that file."
  (let* ((directory (gemini-companion-tool-call-directory call))
         ;; A name from a client must not make Emacs open a connection.
         (file (let ((file-name-handler-alist nil))
                 (unless (or directory (file-name-absolute-p path))
                   (user-error "Emacs does not know your working directory: give an absolute path"))
                 (expand-file-name path directory))))
    (setf (gemini-companion-tool-call-subject call) file)
    (when (gemini-companion-tools--withheld-p call file)
      (user-error "This file is withheld: %s" path))
    file))

(defun gemini-companion-tool-visible-p (call file &optional count)
  "Return non-nil if the model may know of FILE in the answer to CALL.
If not, this counts as COUNT results that are withheld, by default one."
  (or (not (gemini-companion-tools--withheld-p call file))
      (ignore (cl-incf (gemini-companion-tool-call-withheld call) (or count 1)))))

(defun gemini-companion-tools--withheld-p (call file)
  "Return non-nil if the model may not know of FILE in CALL."
  (or gemini-companion-context-paused (gemini-companion-tool-secret-p call file)))

(defun gemini-companion-tool-secret-p (call file)
  "Return non-nil if FILE is remote, private, or not in the scope of CALL.
What is not absolute is no file, but perhaps the address of something else."
  (or (not (file-name-absolute-p file))
      (gemini-companion-host-remote-p file)
      (let* ((file-name-handler-alist nil)
             (truename (file-truename file)))
        (not (gemini-companion-workspace-in-scope-p
              file truename
              (gemini-companion-workspace-scope-of (gemini-companion-tool-call-directory call)))))
      (gemini-companion-context-private-reason-of file (gemini-companion-tool-buffer file))))

(defun gemini-companion-tool-buffer (file)
  "Return the buffer that visits FILE, or nil."
  (let ((file-name-handler-alist nil))
    (find-buffer-visiting file)))

(defun gemini-companion-tool-open-buffer (call path)
  "Return the buffer that visits PATH in CALL; see `gemini-companion-tool-file'.
Signal a `user-error' if there is none."
  (let ((file (gemini-companion-tool-file call path)))
    (or (gemini-companion-tool-buffer file)
        (user-error "%s is not open in Emacs; showFile opens it"
                    (gemini-companion-tool-file-name call file)))))

;;;; Answers

(defun gemini-companion-tool-file-name (call file)
  "Return the name of FILE for the answer to CALL.
It is relative to the directory of the client if FILE is below that."
  (let* ((file-name-handler-alist nil)
         (directory (gemini-companion-tool-call-directory call))
         (directory (and directory (file-name-as-directory directory))))
    (gemini-companion-ui-one-line
     (if (not directory) file
       (or (cl-loop for name in (list file (file-truename file))
                    if (string-prefix-p directory name)
                    return (string-remove-prefix directory name))
           file)))))

(defun gemini-companion-tool-line (format &rest arguments)
  "Return FORMAT with ARGUMENTS as one line, truncated if long."
  (let* ((text (apply #'format format arguments))
         ;; To replace blanks would take long in a long text.
         (start (substring text 0 (min (length text) 4000)))
         (line (string-trim (replace-regexp-in-string "[[:space:]\n\r]+" " " start))))
    (if (or (length> line 400) (length< start (length text)))
        (concat (substring line 0 (min (length line) 400)) "...")
      line)))

(defun gemini-companion-tool-trim-end (text chars)
  "Return TEXT without those of CHARS that it ends with.
CHARS are as for `skip-chars-backward'.  What a language server answers may
have a million blanks in the middle, for which `string-trim-right' would
take minutes."
  (with-temp-buffer
    (insert text)
    (skip-chars-backward chars)
    (buffer-substring (point-min) (point))))

(defun gemini-companion-tools--cut (text)
  "Return TEXT as far as it may be answered, and say if there is more."
  (let* ((text (gemini-companion-tool-trim-end (substring-no-properties text) "\n"))
         (lines (split-string text "\n"))
         (more (- (length lines) gemini-companion-tools-max-lines))
         (kept (if (> more 0)
                   (string-join (seq-take lines gemini-companion-tools-max-lines) "\n")
                 text))
         (rest (- (length kept) gemini-companion-tools--max-characters)))
    (concat (if (> rest 0) (substring kept 0 gemini-companion-tools--max-characters) kept)
            (cond ((> rest 0) "\n(The answer is too long and was truncated here)")
                  ((> more 0) (format "\n(%d more lines)" more))))))

;;;; Open files

(defun gemini-companion-tools--get-open-files (call)
  "Answer CALL with the open files, one per line."
  (let ((lines nil))
    (gemini-companion-tool-each
     call (seq-filter #'buffer-file-name (buffer-list))
     (lambda (buffer)
       (when-let* ((file (and (buffer-live-p buffer) (buffer-file-name buffer))))
         (when (gemini-companion-tool-visible-p call file)
           (push (gemini-companion-tools--describe-buffer call file buffer) lines))))
     (lambda ()
       (gemini-companion-tool-answer
        call (if lines (string-join (nreverse lines) "\n") "No files."))))))

(defun gemini-companion-tools--describe-buffer (call file buffer)
  "Return a line for the answer to CALL about FILE, which BUFFER visits."
  (gemini-companion-tool-line
   "%s (%s%s%s)" (gemini-companion-tool-file-name call file)
   (string-remove-suffix "-mode" (symbol-name (buffer-local-value 'major-mode buffer)))
   (if (buffer-modified-p buffer) ", unsaved edits" "")
   (if (get-buffer-window buffer t) ", on screen" "")))

(defun gemini-companion-tools--get-unsaved (call path line)
  "Return the answer to CALL: the text of PATH with unsaved edits, from LINE on."
  (with-current-buffer (gemini-companion-tool-open-buffer call path)
    (if (not (buffer-modified-p)) "There are no unsaved edits: the file has all of the text."
      (save-excursion
        (save-restriction
          (widen)
          (goto-char (gemini-companion-ui-line-start (max 1 (or line 1))))
          (gemini-companion-tools--part
           (buffer-substring-no-properties
            (point) (min (point-max) (+ (point) gemini-companion-tools--max-characters)))
           (line-number-at-pos)
           (line-number-at-pos (point-max))))))))

(defun gemini-companion-tools--part (text first last)
  "Return as many lines of TEXT as may be answered, and say which they are.
TEXT begins at line FIRST of a buffer whose last line is LAST."
  (let* ((most (- gemini-companion-tools--max-characters 100))
         (lines (cl-loop for line in (split-string text "\n")
                         for size = (1+ (length line)) then (+ size 1 (length line))
                         for first-line = t then nil
                         repeat (- gemini-companion-tools-max-lines 2)
                         while (or first-line (<= size most))
                         collect line))
         (end (+ first (length lines) -1)))
    (concat (format "Lines %d to %d of %d:\n" first end last)
            (string-join lines "\n")
            (when (< end last)
              (format "\n(call again with line %d for the rest)" (1+ end))))))

;;;; Showing a file

(defun gemini-companion-tools--show-file (call path line)
  "Show the file PATH at LINE for CALL when the user is not busy."
  (let ((file (gemini-companion-tool-file call path))
        (deadline (+ (float-time) gemini-companion-tools-patience)))
    (gemini-companion-tools--check-file call file)
    (gemini-companion-tool-poll
     call
     (lambda ()
       (cond ((null (gemini-companion-ui-busy))
              (gemini-companion-tools--display (gemini-companion-tools--visit call file) line)
              (gemini-companion-tool-answer call "Shown.")
              t)
             ((> (float-time) deadline)
              (user-error "The user is busy, so Emacs did not show it: call again later")))))))

(defun gemini-companion-tools--check-file (call file)
  "Signal a `user-error' if FILE of CALL cannot be shown without a question."
  (unless (gemini-companion-tool-buffer file)
    (let* ((file-name-handler-alist nil)
           (name (gemini-companion-tool-file-name call file)))
      (unless (file-exists-p file) (user-error "No such file: %s" name))
      (unless (file-regular-p file) (user-error "%s is not a regular file" name))
      (unless (file-readable-p file) (user-error "Cannot read %s" name))
      (when (and large-file-warning-threshold
                 (> (file-attribute-size (file-attributes (file-truename file)))
                    large-file-warning-threshold))
        (user-error "%s is too large to show without asking the user" name)))))

(defun gemini-companion-tools--visit (call file)
  "Return the buffer that visits FILE for CALL, if needed a new one.
No question is asked: neither Emacs nor a hook may interrupt the user.  Of
local variables only safe ones are obeyed."
  (or (gemini-companion-tool-buffer file)
      (let ((before (buffer-list))
            (inhibit-interaction t)
            (enable-local-variables :safe)
            (enable-local-eval nil)
            (vc-follow-symlinks nil)
            (large-file-warning-threshold nil))
        (condition-case problem
            (let ((buffer (find-file-noselect file 'nowarn)))
              ;; Its local variables may mark it as private.
              (when (gemini-companion-tools--withheld-p call file)
                (user-error "This file is withheld"))
              buffer)
          (error
           (when-let* ((buffer (gemini-companion-tool-buffer file)))
             (unless (memq buffer before) (gemini-companion-ui-kill-buffer buffer)))
           (signal (car problem) (cdr problem)))))))

(defun gemini-companion-tools--display (buffer line)
  "Show BUFFER at LINE, unless that is nil, in another than the selected window."
  (let ((window (display-buffer buffer '(nil (inhibit-same-window . t)))))
    (unless window (user-error "There is no window to show it in"))
    (when line
      (with-selected-window window
        (goto-char (gemini-companion-ui-line-start line))
        (recenter)))))

;;;; Their definitions

;;;###autoload
(defun gemini-companion-tools-add-own ()
  "Define the tools of this file."
  (gemini-companion-define-tool "getOpenFiles"
    :description "Files that are open in Emacs, the one used last first, and which of them \
have unsaved edits."
    :read-only t
    :function #'gemini-companion-tools--get-open-files)
  (gemini-companion-define-tool "getUnsaved"
    :description "Text of a file that is open in Emacs with the user's unsaved edits, which \
reading the file does not show."
    :arguments '(("path" string "File")
                 ("line" integer "First line, by default 1" optional))
    :read-only t
    :function #'gemini-companion-tools--get-unsaved)
  (gemini-companion-define-tool "showFile"
    :description "Show a file to the user in Emacs, without moving the cursor there."
    :arguments '(("path" string "File")
                 ("line" integer "Line to show" optional))
    :read-only t
    :function #'gemini-companion-tools--show-file))
;;;###autoload (add-hook 'gemini-companion-tools-hook #'gemini-companion-tools-add-own)

(provide 'gemini-companion-tools)
;;; gemini-companion-tools.el ends here

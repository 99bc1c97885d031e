;;; gemini-companion-tool.el --- Tools of Emacs for the model -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The model of a client can call tools of this Emacs: what the checkers have found, where a symbol
;; is defined, which files have unsaved edits.  This file has the table of the tools, the calls, and
;; three tools about buffers.  They are defined when a client first wants the tools.  A tool is a
;; function that returns the answer, or answers later: nothing may wait on the main thread.
;;
;; Answers go to a remote model.  So the rules for the context hold for names of files, in arguments
;; and in results: of private files and files outside of the client's scope, the model learns only
;; how many there are.  Tools are about open buffers; they visit a file only to show it, and read
;; others only to find and quote lines.
;;
;; A client on a host has only the tools that are for hosts.  It uses the names that files have
;; there, and learns only of files there, not even how many are withheld elsewhere.  Emacs asks a
;; host for nothing, so it visits no file there.

;;; Code:

(require 'cl-lib)
(require 'gemini-companion-answer)
(require 'gemini-companion-bridge)
(require 'gemini-companion-context)
(require 'gemini-companion-file)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)
(require 'gemini-companion-write)

(defvar treesit-auto-install-grammar)

;;;; Limits

(defconst gemini-companion-tool-max-lines 100
  "Maximum number of lines of an answer.")

(defconst gemini-companion-tool--max-characters 30000
  "Maximum number of characters of an answer.")

(defconst gemini-companion-tool-patience 15
  "Seconds for which a call waits for checkers or the user.
The client is sent an error after 20.")

;;;; The table

(defvar gemini-companion-tool--table nil
  "Alist of the names of tools and their properties, the newest tool first.
See `gemini-companion-tool-define' for the properties.")

(defvar gemini-companion-tool--wanted nil
  "Non-nil once a client has asked for the tools.")

(defvar gemini-companion-tool-hook nil
  "Hook run when a client first asks for the tools.
Its functions define them with `gemini-companion-tool-define'.")

;;;###autoload
(defun gemini-companion-tool-define (name &rest properties)
  "Define a tool with NAME, a string, that the model of a client can call.
PROPERTIES is a plist:

:description  What the tool does, for the model.
:arguments    A list of (NAME TYPE DESCRIPTION &optional OPTIONAL); TYPE is
              `string', `integer' or `boolean'.
:read-only    Non-nil if it changes nothing, so that clients may let the
              model call it without asking the user.
:hidden       Non-nil if it works but is not listed.  It is called even if its
              client has given up waiting for the answer.
:hosts        Non-nil if clients on other machines have it, too.  Then it must
              not reveal anything on this machine, nor wait for Tramp.
:function     What it does, for Emacs.

The function is called with an object for the call and the value of each
argument, nil where it is missing or false.  If it returns a string, that
is the answer.  Otherwise it must answer later, with
`gemini-companion-tool-answer' or `gemini-companion-tool-fail'; Emacs must
not wait.  If it signals an error, the call fails.

The answer goes to the model.  Check the names of files that the model gives
with `gemini-companion-tool-file', those in the answer with
`gemini-companion-tool-visible-p'.

This replaces a tool with the same NAME.  To replace one of ours, do so in
`gemini-companion-tool-hook'."
  (declare (indent 1))
  (setf (alist-get name gemini-companion-tool--table nil nil #'equal) properties)
  (when gemini-companion-tool--wanted (gemini-companion--handle-tools-wanted)))

(defun gemini-companion--handle-tools-wanted ()
  "Define the tools unless they are defined, and announce them to clients."
  (unless gemini-companion-tool--wanted
    (gemini-companion-log-run-hook 'gemini-companion-tool-hook)
    (setq gemini-companion-tool--wanted t))
  (gemini-companion-bridge-set-tools
   (cl-loop for (name . tool) in (reverse gemini-companion-tool--table)
            for arguments = (cl-loop for (argument type description optional)
                                     in (plist-get tool :arguments)
                                     collect (vector argument (symbol-name type) description
                                                     (not optional)))
            collect (vector name (plist-get tool :description) (and (plist-get tool :read-only) t)
                            (not (plist-get tool :hidden)) (vconcat arguments)
                            (and (plist-get tool :hosts) t)))))

(defun gemini-companion-tool-signatures ()
  "Return the listed tools as text for the user, such as \"showFile(path, line?)\"."
  (cl-loop for (name . tool) in (reverse gemini-companion-tool--table)
           unless (plist-get tool :hidden)
           collect (format "%s(%s)" name
                           (mapconcat (pcase-lambda (`(,argument ,_ ,_ ,optional))
                                        (concat argument (and optional "?")))
                                      (plist-get tool :arguments) ", "))))

;;;; Calls

(cl-defstruct (gemini-companion-tool-call (:copier nil))
  "A call of a tool."
  (id nil :documentation "The number by which the module knows it.")
  (tool nil :documentation "The name of the tool.")
  (properties nil :documentation "Those of the tool, nil if there is no such tool.")
  (agent nil :documentation "The agent of the client, such as `gemini'.")
  (directory nil :documentation "Where the client works, or nil if that is not known.")
  (host nil :documentation "The `gemini-companion-host' of the client, nil for this machine,
`elsewhere' if the host is no longer served.")
  (subject nil :documentation "The name of the file that it is about, for the user, or nil.")
  (started (float-time) :documentation "When it came, in seconds since 1970.")
  (outcome nil :documentation "How it ended, and how long it took, as text for the user, or nil.")
  (files nil :documentation "The files that its client may know of, as found so far.")
  (withheld 0 :documentation "The number of results that are withheld."))

;; Events by which clients call tools.
;;;###autoload (autoload 'gemini-companion--handle-tools-wanted "gemini-companion-tool")
;;;###autoload (autoload 'gemini-companion--handle-call-tool "gemini-companion-tool")
;;;###autoload (autoload 'gemini-companion--handle-cancel-call "gemini-companion-tool")

(defvar gemini-companion-tool-calls nil
  "The last calls, the newest first.")

(defvar gemini-companion-tool-change-hook nil
  "Hook run when a call has begun or ended.")

(defun gemini-companion--handle-call-tool (id agent name arguments directory)
  "Call the tool NAME for a client of AGENT, with ARGUMENTS, a vector.
ID is the number of the call, DIRECTORY where the client works, or nil."
  (let* ((properties (alist-get name gemini-companion-tool--table nil nil #'equal))
         (host (and directory (gemini-companion-workspace-machine directory)))
         (call (make-gemini-companion-tool-call :id id :tool name :properties properties
                                                :agent agent :directory directory :host host)))
    (setq gemini-companion-tool-calls
          (cons call (seq-take gemini-companion-tool-calls 199)))
    (gemini-companion-log-run-hook 'gemini-companion-tool-change-hook)
    (cond ((not properties) (gemini-companion-tool-fail call "There is no such tool"))
          ((eq host 'elsewhere)
           (gemini-companion-tool-fail call "Emacs has disconnected from this machine"))
          ;; On this machine, the extension shows that the user allows it.  On a host, whoever can
          ;; read its files needs none; and a CLI's own sandbox has none: some other program calls.
          ((and host (not (eq 'always (gemini-companion-answer-get
                                       (gemini-companion-tool-question host)))))
           (gemini-companion-tool-fail call "Your user does not let the models of this machine \
use Emacs; M-x gemini-companion-tools-enable in a buffer of it allows that"))
          ((gemini-companion-tool--run call arguments))
          (t (gemini-companion-tool-poll
              call (lambda () (gemini-companion-tool--run call arguments)))))))

(defun gemini-companion-tool-question (host)
  "Return the question whether models on HOST may use Emacs.
It is for `gemini-companion-answer-get'."
  (cons 'tools (gemini-companion-host-prefix host)))

(defun gemini-companion-tool--run (call arguments)
  "Call the function of the tool of CALL with ARGUMENTS, a vector.
Return nil if it is too early for that."
  (unless gemini-companion-workspace-pending ; nothing is in any scope yet
    (gemini-companion-tool-go-on
     call
     (lambda ()
       (let ((answer (apply (plist-get (gemini-companion-tool-call-properties call) :function)
                            call (append arguments nil))))
         (when (stringp answer)
           (setf (gemini-companion-tool-call-files call) nil) ; that was a moment ago
           (gemini-companion-tool-answer call answer)))))
    t))

(defun gemini-companion-tool-go-on (call function)
  "Call FUNCTION for CALL, unless that has ended.
If it signals an error, CALL fails.  For timers and other callbacks: the
current buffer and the match data stay as they are."
  (save-match-data
    ;; A hidden tool tells Emacs something, even if nobody waits for the answer.
    (when (if (gemini-companion-tool-hidden-p call)
              (not (gemini-companion-tool-call-outcome call))
            (gemini-companion-tool-live-p call))
      (condition-case problem
          (save-current-buffer
            (let ((inhibit-quit nil)
                  (throw-on-input nil))
              (funcall function)))
        (quit (gemini-companion-tool-fail call "The user has interrupted this"))
        (user-error (gemini-companion-tool-fail call (gemini-companion-ui-error-text problem)))
        (error (gemini-companion-tool--fail-by-fault
                call (gemini-companion-ui-error-text problem)))))))

(defun gemini-companion-tool-hidden-p (call)
  "Return non-nil if CALL is of a tool for hooks, which models do not know."
  (plist-get (gemini-companion-tool-call-properties call) :hidden))

(defun gemini-companion-tool--fail-by-fault (call text)
  "Answer CALL with an error, for a fault whose message is TEXT.
Do not send TEXT to a host, since it may name files of this machine."
  (if (not (gemini-companion-tool-call-host call)) (gemini-companion-tool-fail call text)
    (gemini-companion-log-add "tool %s: %s" (gemini-companion-tool-call-tool call) text)
    (gemini-companion-tool-fail call "Something went wrong in Emacs; its log says what")))

(defun gemini-companion--handle-cancel-call (id)
  "Record that nobody waits any longer for the answer to the call ID."
  (when-let* ((call (cl-find id gemini-companion-tool-calls
                             :key #'gemini-companion-tool-call-id)))
    (gemini-companion-tool--end call "cancelled")))

(defun gemini-companion-tool--cancel-all (_clients)
  "If the companion was stopped, record that nobody waits for any answer.
Another companion may give its calls the same numbers."
  (unless (gemini-companion-bridge-running-p)
    (dolist (call gemini-companion-tool-calls)
      (gemini-companion-tool--end call "cancelled"))))

(add-hook 'gemini-companion-bridge-clients-functions #'gemini-companion-tool--cancel-all)

(defun gemini-companion-tool-live-p (call)
  "Return non-nil if somebody waits for the answer to CALL."
  (and (not (gemini-companion-tool-call-outcome call))
       (or (gemini-companion-bridge-awaited-p (gemini-companion-tool-call-id call))
           ;; The cancellation is not handled yet.
           (ignore (gemini-companion-tool--end call "cancelled")))))

(defun gemini-companion-tool-answer (call text)
  "Answer CALL with TEXT, truncated if long.
If the user has meanwhile withheld a file that it is about, fail instead.
Return nil if nobody waits for it any more."
  (when (gemini-companion-tool-live-p call)
    (if (seq-some (apply-partially #'gemini-companion-tool--withheld-p call)
                  (gemini-companion-tool-call-files call))
        (gemini-companion-tool-fail call "Your user has withheld this in the meantime")
      (let* ((withheld (gemini-companion-tool-call-withheld call))
             (text (concat (gemini-companion-tool--cut text)
                           (and (> withheld 0) (format "\n(%d more in withheld files)" withheld)))))
        (gemini-companion-bridge-answer (gemini-companion-tool-call-id call) text)
        (gemini-companion-tool--end
         call (concat "answered, " (gemini-companion-ui-count (length text) "character")
                      (and (> withheld 0) (format ", %d withheld" withheld))))))))

(defun gemini-companion-tool-fail (call reason)
  "Answer CALL with an error, for REASON, a string.
Return nil if nobody waits for it any more."
  (when (gemini-companion-tool-live-p call)
    (gemini-companion-bridge-fail (gemini-companion-tool-call-id call) reason)
    (gemini-companion-tool--end call (concat "failed: " reason))))

(defun gemini-companion-tool--end (call outcome)
  "Record that CALL has ended with OUTCOME, and log it."
  (unless (gemini-companion-tool-call-outcome call)
    (setf (gemini-companion-tool-call-outcome call)
          (format "%s, %.0f ms" outcome
                  (* 1000 (- (float-time) (gemini-companion-tool-call-started call)))))
    (gemini-companion-log-add "tool %s" (gemini-companion-tool-describe-call call))
    (gemini-companion-log-run-hook 'gemini-companion-tool-change-hook))
  t)

(defun gemini-companion-tool-describe-call (call)
  "Return a line about CALL for the user."
  (let ((subject (gemini-companion-tool-call-subject call)))
    (gemini-companion-ui-one-line
     (concat (gemini-companion-tool-call-tool call)
             (and subject (concat " " subject))
             (format " for %s%s: %s" (gemini-companion-tool-call-agent call)
                     (gemini-companion-host-mark (gemini-companion-tool-call-directory call))
                     (or (gemini-companion-tool-call-outcome call) "not answered yet"))))))

(defun gemini-companion-tool-poll (call check)
  "Call CHECK for CALL in a timer, until it returns non-nil.
Stop when CALL has ended; an error of CHECK fails it."
  (run-at-time 0.05 nil
               #'gemini-companion-tool-go-on
               call (lambda () (unless (funcall check) (gemini-companion-tool-poll call check)))))

;;;; What the model may know

(defun gemini-companion-tool-name (call path)
  "Return the absolute name of the file that PATH means in CALL.
PATH is absolute, or relative to the directory of the client."
  (let ((directory (gemini-companion-tool-call-directory call))
        (host (gemini-companion-tool-call-host call))
        ;; A name from a client must not make Emacs open a connection.
        (file-name-handler-alist nil))
    (unless (if host (not (string-prefix-p "~" path)) ; the host has another home
              (or directory (file-name-absolute-p path)))
      (user-error "Emacs does not know your working directory: give an absolute path"))
    (if (not host) (expand-file-name path directory)
      (gemini-companion-host-name-here
       (concat (gemini-companion-host-prefix host)
               (expand-file-name path (gemini-companion-host-local-name host directory)))))))

(defun gemini-companion-tool-process (call process)
  "Return PROCESS, an id on the machine of CALL's client or nil, as Lisp has it.
See `gemini-companion-bridge-session'; on a host it is always a string."
  (if-let* ((host (gemini-companion-tool-call-host call)))
      (format "%s%s" (gemini-companion-host-prefix host) (or process ""))
    process))

(defun gemini-companion-tool-file (call path)
  "Return the absolute name of the file that PATH means in CALL.
PATH is as in `gemini-companion-tool-name'.  Signal a `user-error' if the
model may not know of that file."
  (let ((file (gemini-companion-tool-name call path)))
    (setf (gemini-companion-tool-call-subject call) file)
    (when (gemini-companion-tool--withheld-p call file)
      (user-error "This file is withheld: %s" path))
    (push file (gemini-companion-tool-call-files call))
    file))

(defun gemini-companion-tool-visible-p (call file &optional count)
  "Return non-nil if the model may know of FILE in the answer to CALL.
If not, this counts as COUNT results that are withheld, by default one,
unless the machine of the client does not have FILE."
  (and (gemini-companion-tool--there-p call file)
       (if (gemini-companion-tool--withheld-p call file)
           (ignore (cl-incf (gemini-companion-tool-call-withheld call) (or count 1)))
         ;; Each of many results may be about the same one.
         (cl-pushnew file (gemini-companion-tool-call-files call) :test #'equal))))

(defun gemini-companion-tool--withheld-p (call file)
  "Return non-nil if the model may not know of FILE in CALL."
  (or gemini-companion-context-paused (gemini-companion-tool-secret-p call file)))

(defun gemini-companion-tool-secret-p (call file)
  "Return non-nil if FILE is private, or not in the scope of CALL.
A name that is not absolute may be the address of something else."
  (or (not (file-name-absolute-p file))
      (not (gemini-companion-tool--there-p call file))
      (let* ((buffer (gemini-companion-tool-buffer call file))
             (truename (cond ((not (gemini-companion-workspace-machine file))
                              (gemini-companion-file-real-name file))
                             (buffer (gemini-companion-file-truename buffer))
                             (t file)))) ; as far as Emacs knows it
        (or (not (gemini-companion-tool--there-p call truename))
            (gemini-companion-workspace-out-of-scope-reason
             file truename
             (gemini-companion-workspace-scope-of (gemini-companion-tool-call-directory call)))
            (gemini-companion-private-reason-of file buffer)))))

(defun gemini-companion-tool--there-p (call file)
  "Return non-nil if the machine of the client of CALL has FILE.
A container may have files of this machine."
  (if-let* ((host (gemini-companion-tool-call-host call)))
      (gemini-companion-host-name-there host file)
    (not (gemini-companion-workspace-machine file))))

(defun gemini-companion-tool-buffer (call file)
  "Return the buffer that visits FILE, or nil.
In a container FILE may be a link to what the client of CALL does not have."
  (when-let* ((buffer (gemini-companion-file-visiting file)))
    (and (gemini-companion-tool--there-p call (gemini-companion-file-truename buffer))
         buffer)))

(defun gemini-companion-tool-open-buffer (call path)
  "Return the buffer that visits PATH in CALL; see `gemini-companion-tool-file'.
Signal a `user-error' if there is none."
  (let ((file (gemini-companion-tool-file call path)))
    (or (gemini-companion-tool-buffer call file)
        (user-error "%s is not open in Emacs%s" (gemini-companion-tool-file-name call file)
                    (if (gemini-companion-workspace-machine file) "" "; showFile opens it")))))

(defun gemini-companion-tool-refresh-buffer (buffer)
  "Revert BUFFER if its file is local and has changed, and that loses nothing."
  (let ((file (buffer-file-name buffer)))
    (unless (or (gemini-companion-host-remote-p file)
                (verify-visited-file-modtime buffer)
                (buffer-modified-p buffer)
                (gemini-companion-write-held-p file))
      (gemini-companion-log-errors "reverting a buffer"
        (gemini-companion-write-revert-now file)))))

;;;; Answers

(defun gemini-companion-tool-file-name (call file)
  "Return the client's name of FILE, for the answer to CALL."
  (gemini-companion-ui-one-line
   (gemini-companion-workspace-client-name file (gemini-companion-tool-call-directory call))))

(defun gemini-companion-tool-line (format &rest arguments)
  "Return FORMAT with ARGUMENTS as one line, truncated if long."
  (let* ((text (apply #'format format arguments))
         ;; Replacing blanks would be slow in a long text.
         (start (seq-take text 4000))
         (line (string-trim (replace-regexp-in-string "[[:space:]\n\r]+" " " start))))
    (if (or (length> line 400) (length< start (length text)))
        (concat (seq-take line 400) "...")
      line)))

(defun gemini-companion-tool-fits-p (text)
  "Return non-nil if an answer may contain all of TEXT."
  (and (length< text (1+ gemini-companion-tool--max-characters))
       (length< (split-string text "\n") (1+ gemini-companion-tool-max-lines))))

(defun gemini-companion-tool--cut (text)
  "Return as much of TEXT as an answer may contain, and say if there is more."
  (let* ((text (gemini-companion-ui-trim-end (substring-no-properties text) "\n"))
         (lines (split-string text "\n"))
         (more (- (length lines) gemini-companion-tool-max-lines))
         (kept (string-join (seq-take lines gemini-companion-tool-max-lines) "\n")))
    (concat (seq-take kept gemini-companion-tool--max-characters)
            (cond ((length> kept gemini-companion-tool--max-characters)
                   "\n(The answer is too long and was truncated here)")
                  ((> more 0) (format "\n(%s)" (gemini-companion-ui-count more "more line")))))))

;;;; Open files

(defun gemini-companion-tool--get-open-files (call)
  "Return the answer to CALL: the open files, one per line."
  (let ((lines (cl-loop for buffer in (buffer-list)
                        for file = (buffer-file-name buffer)
                        for mode = (symbol-name (buffer-local-value 'major-mode buffer))
                        if (and file (gemini-companion-tool-visible-p call file))
                        collect (gemini-companion-tool-line
                                 "%s (%s%s%s)" (gemini-companion-tool-file-name call file)
                                 (string-remove-suffix "-mode" mode)
                                 (if (buffer-modified-p buffer) ", unsaved edits" "")
                                 (if (get-buffer-window buffer t) ", on screen" "")))))
    (if lines (string-join lines "\n") "No files.")))

(defun gemini-companion-tool--get-unsaved (call path line)
  "Return the answer to CALL: the text of PATH with unsaved edits, from LINE on."
  (with-current-buffer (gemini-companion-tool-open-buffer call path)
    (gemini-companion-ui-widened
      (goto-char (gemini-companion-ui-line-start (max 1 (or line 1))))
      (if (not (buffer-modified-p))
          "There are no unsaved edits: the file has all of the text."
        (gemini-companion-tool--part
         (buffer-substring-no-properties
          (point) (min (point-max) (+ (point) gemini-companion-tool--max-characters)))
         (line-number-at-pos)
         (line-number-at-pos (point-max)))))))

(defun gemini-companion-tool--part (text first last)
  "Return as many lines of TEXT as fit in an answer, and say which they are.
TEXT begins at line FIRST of a buffer whose last line is LAST."
  (let* ((room (- gemini-companion-tool--max-characters 100))
         (lines (cl-loop for line in (split-string text "\n")
                         for first-line = t then nil
                         repeat (- gemini-companion-tool-max-lines 2)
                         while (or (>= (cl-decf room (1+ (length line))) 0) first-line)
                         collect line))
         (end (+ first (length lines) -1)))
    (concat (format "Lines %d to %d of %d:\n" first end last)
            (string-join lines "\n")
            (when (< end last)
              (format "\n(call again with line %d for the rest)" (1+ end))))))

;;;; Showing a file

(defun gemini-companion-tool--show-file (call path line)
  "Show the file PATH at LINE for CALL when the user is not busy."
  (let ((file (gemini-companion-tool-file call path))
        (deadline (+ (float-time) gemini-companion-tool-patience)))
    (gemini-companion-tool--check-file call file)
    (gemini-companion-tool-poll
     call
     (lambda ()
       (cond ((null (gemini-companion-ui-busy))
              (let ((window (gemini-companion-tool-display call file line
                                                           '(nil (inhibit-same-window . t)))))
                (unless window (user-error "There is no window to show it in"))
                (gemini-companion-tool-answer call "Shown.")
                t))
             ((> (float-time) deadline)
              (user-error "The user is busy, so Emacs did not show it: call again later")))))))

(defun gemini-companion-tool-display (call file line action)
  "Show FILE at LINE, which may be nil, for CALL, and return its window or nil.
ACTION is for `display-buffer'; do not select the window.  If Emacs would
have to ask a question, signal a `user-error'."
  (gemini-companion-tool--check-file call file)
  (let* ((buffer (gemini-companion-tool--visit call file))
         (window (display-buffer buffer action)))
    (gemini-companion-tool-refresh-buffer buffer)
    (when (and window line)
      (with-selected-window window
        (goto-char (gemini-companion-ui-line-start line))
        (recenter)))
    window))

(defun gemini-companion-tool--check-file (call file)
  "Signal a `user-error' if FILE of CALL cannot be shown without a question."
  (unless (gemini-companion-tool-buffer call file)
    (let* ((packed (memq (find-file-name-handler file 'insert-file-contents)
                         '(jka-compr-handler epa-file-handler age-file-handler)))
           (file-name-handler-alist nil)
           (real (file-truename file))
           (name (gemini-companion-tool-file-name call file)))
      (when (gemini-companion-workspace-machine file)
        (user-error "%s is not open in Emacs, which does not visit files on other machines \
without its user" name))
      ;; Once it is open, other tools tell what it says.  The CLI itself reads no such file.
      (when (gemini-companion-tool-secret-p call real)
        (user-error "%s leads out of the project" name))
      (unless (file-exists-p file) (user-error "No such file: %s" name))
      (unless (file-regular-p file) (user-error "%s is not a regular file" name))
      (unless (file-readable-p file) (user-error "Cannot read %s" name))
      ;; Any directory of a project may look like one, and VC runs Git there.
      (when (gemini-companion-file-in-repository-p real)
        (user-error "%s is part of a repository" name))
      ;; A few kilobytes may become gigabytes.
      (when packed (user-error "%s is compressed or encrypted" name))
      (when (and large-file-warning-threshold
                 (> (file-attribute-size (file-attributes real)) large-file-warning-threshold))
        (user-error "%s is too large to show without asking the user" name)))))

(defun gemini-companion-tool--visit (call file)
  "Return the buffer that visits FILE for CALL, a new one if necessary.
Ask no question: neither Emacs nor a hook may interrupt the user.  Obey only
safe local variables."
  (or (gemini-companion-tool-buffer call file)
      (let ((inhibit-interaction t)
            (treesit-auto-install-grammar nil) ; Emacs 31 asks
            (enable-local-variables :safe)
            (enable-local-eval nil)
            (ignored-local-variables (cons 'mode ignored-local-variables)) ; a minor mode
            (vc-follow-symlinks nil)
            (non-essential t) ; the file schemas.xml beside it could have nXML mode log in elsewhere
            (large-file-warning-threshold nil)
            (known (gemini-companion-file-visiting file)))
        (condition-case problem
            (let ((buffer (cl-letf (((symbol-function 'set-auto-mode-0)
                                     (apply-partially #'gemini-companion-tool--set-mode
                                                      (symbol-function 'set-auto-mode-0))))
                            (find-file-noselect file 'nowarn))))
              ;; Its local variables may mark it as private.
              (when (gemini-companion-tool-secret-p call file)
                (user-error "This file is withheld"))
              buffer)
          (error
           ;; A buffer of the user may be known by a link that a container has changed since.
           (unless known
             (gemini-companion-ui-kill-buffer (gemini-companion-file-visiting file)))
           (signal (car problem) (cdr problem)))))))

(defun gemini-companion-tool--set-mode (function mode &rest more)
  "Unless MODE is a minor mode, call FUNCTION with it and MORE.
FUNCTION is `set-auto-mode-0'.  A text can name Flymake, which may run it."
  (let ((mode-function (autoload-do-load (indirect-function mode) mode)))
    (unless (seq-some (lambda (minor) (eq mode-function (indirect-function minor)))
                      minor-mode-list)
      (apply function mode more))))

;;;; Their definitions

;;;###autoload
(defun gemini-companion-tool-add-own ()
  "Define the tools of this file."
  (gemini-companion-tool-define "getOpenFiles"
    :description "Files that are open in Emacs, the one used last first, and which of them \
have unsaved edits."
    :read-only t
    :hosts t
    :function #'gemini-companion-tool--get-open-files)
  (gemini-companion-tool-define "getUnsaved"
    :description "Text of a file that is open in Emacs with the user's unsaved edits, which \
reading the file does not show."
    :arguments '(("path" string "File")
                 ("line" integer "First line, by default 1" optional))
    :read-only t
    :hosts t
    :function #'gemini-companion-tool--get-unsaved)
  (gemini-companion-tool-define "showFile"
    :description "Show a file to the user in Emacs, without moving the cursor there."
    :arguments '(("path" string "File")
                 ("line" integer "Line to show" optional))
    :read-only t
    :hosts t
    :function #'gemini-companion-tool--show-file))
;;;###autoload (add-hook 'gemini-companion-tool-hook #'gemini-companion-tool-add-own -50)

(provide 'gemini-companion-tool)
;;; gemini-companion-tool.el ends here

;;; gemini-companion-bridge.el --- Events from the native module -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The Lisp end of the bridge to the server's thread.  It owns the running companion, and alone
;; calls the functions of the native module, `gemini-companion--mod-...'.
;;
;; The server queues events; Lisp drains the queue.  Three things make it do so: a byte on a pipe
;; (prompt, but starved while the user types), a timer that commands start (when the user types,
;; and a client is there), and a repeating timer (for whatever the other two miss, and where there
;; is no pipe).  That is quick while a client waits for the user, slow while clients are connected,
;; and off otherwise; where there is no pipe it is quick while clients are connected, else slow.
;;
;; The bridge names no feature: other files define handlers for their events.

;;; Code:

(require 'subr-x)
(require 'gemini-companion-log)

(defmacro gemini-companion-bridge--declare (&rest functions)
  "Declare FUNCTIONS of the module, each a list (NAME ARGUMENT...)."
  `(progn
     ,@(mapcar (lambda (function)
                 `(declare-function
                   ,(intern (format "gemini-companion--mod-%s" (car function)))
                   "ext:gemini-companion-module" ,(cdr function) t))
               functions)))

(gemini-companion-bridge--declare
 (start agents port roots max-message) (ping companion) (restart companion) (stop companion)
 (port companion) (port-fault companion) (token companion agent) (context-json files) (ignored-p ignore-file path)
 (sessions companion) (disconnect companion key) (set-tracing companion on)
 (discovery-fault companion) (discovery-files companion) (damaged-files companion)
 (set-roots companion roots) (attach-bell companion process)
 (awaited-p companion call) (next-event companion) (publish-contexts companion contexts) (places companion) (answer-call companion call text may-omit)
 (fail-call companion call reason) (accept-review companion review text may-omit)
 (reject-review companion review))

(defconst gemini-companion-bridge--batch 64
  "Events handled in one go, so that the user is never kept waiting for long.")

(defconst gemini-companion-bridge--fast 0.05
  "Seconds between looks for events while a client waits for the user.")

(defconst gemini-companion-bridge--slow 1.0
  "Seconds between looks for events that something else should have told of.")

(defvar gemini-companion-clients-functions nil
  "Functions called with the number of sessions when that has changed.")

;;;; State

(defvar gemini-companion-bridge--companion nil
  "The running companion, an opaque object of the native module, or nil.")

(defvar gemini-companion-bridge--pipe nil
  "The pipe process whose filter tells that events wait, or nil if there is none.")

(defvar gemini-companion-bridge--timer nil
  "The timer that looks for events, or nil.")

(defvar gemini-companion-bridge--soon nil
  "The timer of no delay that the pipe's filter started, or nil.")

(defvar gemini-companion-bridge--after-command nil
  "The timer that a command started, or nil.")

(defvar gemini-companion-bridge--draining nil
  "Non-nil while events are being handled.")

(defvar gemini-companion-bridge--clients 0
  "Number of sessions connected.")

(defvar gemini-companion-bridge--awaited nil
  "Non-nil while a client waits for the user.")

(defun gemini-companion-bridge--set-level (option level)
  "Set OPTION to LEVEL, and log accordingly from now on."
  (set-default-toplevel-value option level)
  (when gemini-companion-bridge--companion
    (gemini-companion-bridge--adjust-log)))

(defcustom gemini-companion-log-level 'events
  "What `gemini-companion-log' shows.
If `events', what went wrong and what is worth knowing.  If `protocol',
each message of a client and each one to it, too: a line with an arrow,
the session and the message, of which long strings are cut.  Tokens are
never logged, but the beginnings of files are then."
  :type '(choice (const :tag "What is worth knowing" events)
                 (const :tag "Each message, too" protocol))
  :group 'gemini-companion
  :set #'gemini-companion-bridge--set-level
  :initialize #'custom-initialize-default)

;;;; The companion

(defun gemini-companion-bridge-start (agents port roots max-message)
  "Start a companion for AGENTS on PORT (0: a free one).
AGENTS is a list of vectors [NAME TITLE DIRECTORIES FILE TELLS-PROCESS
PROCESSES], see `gemini-companion-agent-profiles'.  DIRECTORIES and
PROCESSES, the ids that an agent may take for that of Emacs, are vectors.
ROOTS is a list of workspace roots, MAX-MESSAGE the size in bytes over
which a message is refused.  Signal an error if it cannot start."
  (setq gemini-companion-bridge--companion
        (gemini-companion--mod-start (vconcat agents) port (vconcat roots) max-message))
  (unless (eq system-type 'windows-nt)
    (setq gemini-companion-bridge--pipe (gemini-companion-bridge--make-pipe))
    (gemini-companion--mod-attach-bell gemini-companion-bridge--companion
                                       gemini-companion-bridge--pipe))
  (gemini-companion-bridge--adjust-log)
  (gemini-companion-bridge--adjust-polling)
  (gemini-companion-bridge-drain))

(defun gemini-companion-bridge--adjust-log ()
  "Log what `gemini-companion-log-level' says."
  (gemini-companion--mod-set-tracing gemini-companion-bridge--companion
                                     (eq gemini-companion-log-level 'protocol)))

(defun gemini-companion-bridge-restart ()
  "Start the server of the running companion anew.
It keeps its port, and clients their sessions and open reviews.
Discovery files that are gone or were changed are written again."
  (gemini-companion--mod-restart gemini-companion-bridge--companion))

(defun gemini-companion-bridge-stop ()
  "Stop the companion.  Open reviews are rejected, the discovery file is deleted."
  (unwind-protect
      (when gemini-companion-bridge--companion
        (gemini-companion--mod-stop gemini-companion-bridge--companion))
    (setq gemini-companion-bridge--companion nil
          gemini-companion-bridge--clients 0
          gemini-companion-bridge--awaited nil)
    (gemini-companion-bridge--adjust-polling)
    (dolist (timer (list gemini-companion-bridge--soon gemini-companion-bridge--after-command))
      (when timer (cancel-timer timer)))
    (setq gemini-companion-bridge--soon nil
          gemini-companion-bridge--after-command nil)
    ;; After the server: it must never write to a pipe that is gone.
    (when gemini-companion-bridge--pipe
      (delete-process gemini-companion-bridge--pipe)
      (setq gemini-companion-bridge--pipe nil))))

(defun gemini-companion-bridge-running-p ()
  "Return non-nil if a companion runs."
  (and gemini-companion-bridge--companion t))

(defun gemini-companion-bridge-check ()
  "Signal a `user-error' unless a companion runs.  For commands that need one."
  (unless gemini-companion-bridge--companion
    (user-error "Gemini companion is off: M-x gemini-companion-mode")))

(defun gemini-companion-bridge-port ()
  "Return the port of the running companion."
  (gemini-companion--mod-port gemini-companion-bridge--companion))

(defun gemini-companion-bridge-token (&optional agent)
  "Return the token for AGENT, by default `gemini', or nil if that is not served.
Never print or log it."
  (gemini-companion--mod-token gemini-companion-bridge--companion
                               (symbol-name (or agent 'gemini))))

(defun gemini-companion-bridge-port-fault ()
  "Return why the port is not the one that was wanted, or nil if it is."
  (gemini-companion--mod-port-fault gemini-companion-bridge--companion))

(defun gemini-companion-bridge-discovery-fault ()
  "Return why clients cannot find the discovery file, or nil."
  (gemini-companion--mod-discovery-fault gemini-companion-bridge--companion))

(defun gemini-companion-bridge-discovery-files ()
  "Return the names of the discovery files that were written."
  (append (gemini-companion--mod-discovery-files gemini-companion-bridge--companion) nil))

(defun gemini-companion-bridge-damaged-files ()
  "Return the names of those discovery files that are gone or were changed."
  (append (gemini-companion--mod-damaged-files gemini-companion-bridge--companion) nil))

(defun gemini-companion-bridge-clients ()
  "Return the number of sessions connected."
  gemini-companion-bridge--clients)

;;;; To the clients

(defun gemini-companion-bridge-set-roots (roots)
  "Announce the list ROOTS as the workspace roots."
  (when gemini-companion-bridge--companion
    (gemini-companion--mod-set-roots gemini-companion-bridge--companion (vconcat roots))))

(defun gemini-companion-bridge-places ()
  "Return the directories in which clients work, each once.
One of them is nil if there are clients of which that is not known."
  (and gemini-companion-bridge--companion
       (append (gemini-companion--mod-places gemini-companion-bridge--companion) nil)))

(defun gemini-companion-bridge-publish-contexts (contexts)
  "Tell the clients what the user looks at.
CONTEXTS is an alist: clients that work in the directory which is the car,
see `gemini-companion-bridge-places', hear of the FILES which are the cdr.
That is a list of vectors [PATH TIMESTAMP ACTIVE LINE CHARACTER SELECTION],
the file focused last first; only the active file has the last three."
  (when gemini-companion-bridge--companion
    (gemini-companion--mod-publish-contexts
     gemini-companion-bridge--companion
     (vconcat (mapcar (pcase-lambda (`(,directory . ,files))
                        (vector directory (gemini-companion-bridge--encode-files files)))
                      contexts)))))

(defun gemini-companion-bridge-context-json (files)
  "Return as JSON what the clients are told of FILES.
These are as in `gemini-companion-bridge-publish-contexts'."
  (gemini-companion--mod-context-json (gemini-companion-bridge--encode-files files)))

(defun gemini-companion-bridge-ignored (ignore-file path)
  "Return t if IGNORE-FILE, a .geminiignore, names PATH, a file below it.
Return nil if it does not, or there is none, and a string that says, as
what IGNORE-FILE does, why this cannot be known: \"cannot be read: ...\"."
  (gemini-companion--mod-ignored-p
   (gemini-companion-bridge--encode-name ignore-file)
   (gemini-companion-bridge--encode-name path)))

(defun gemini-companion-bridge--encode-name (name)
  "Return the file name NAME in the bytes that the system knows it by."
  (encode-coding-string name (or file-name-coding-system default-file-name-coding-system
                                 'utf-8-unix)
                        t))

(defun gemini-companion-bridge--encode-files (files)
  "Return the list FILES as a vector, with the selections as UTF-8 bytes."
  (vconcat (mapcar (lambda (file)
                     (let ((file (copy-sequence file)))
                       (when (aref file 5)
                         (aset file 5 (gemini-companion-bridge--encode (aref file 5))))
                       file))
                   files)))

(defun gemini-companion-bridge-accept (review text &optional may-omit)
  "Report that the user accepted the review with id REVIEW, now reading TEXT.
If MAY-OMIT is non-nil, that is what the client proposed, and the session
that did is not told it; all others are.
Return nil if it was no longer open: `close-review' is on its way then."
  (and gemini-companion-bridge--companion
       (gemini-companion--mod-accept-review gemini-companion-bridge--companion review
                                            (gemini-companion-bridge--encode text)
                                            may-omit)))

(defun gemini-companion-bridge-reject (review)
  "Report that the user rejected the review with id REVIEW.
Return nil if it was no longer open: `close-review' is on its way then."
  (and gemini-companion-bridge--companion
       (gemini-companion--mod-reject-review gemini-companion-bridge--companion review)))

(defun gemini-companion-bridge-ping ()
  "Ask each client for a sign of life; `pong' events follow.
Return the number of clients that were asked."
  (gemini-companion--mod-ping gemini-companion-bridge--companion))

(defun gemini-companion-bridge-sessions ()
  "Return the sessions of clients, the oldest first, as a list of vectors.
Each is [KEY CLIENT PROCESS SECONDS STREAM REVIEWS UNHEARD DIRECTORY]: a
string that tells it from others, the client's name, its process id or
nil, the age of the session, `never', `open' or `lost', the number of open
reviews, that of outcomes that wait for the stream, and where the client
works, nil if that is not known, t if it is being found out."
  (and gemini-companion-bridge--companion
       (append (gemini-companion--mod-sessions gemini-companion-bridge--companion) nil)))

(defun gemini-companion-bridge-disconnect (key)
  "End the session with KEY; return nil if there is none."
  (and gemini-companion-bridge--companion
       (gemini-companion--mod-disconnect gemini-companion-bridge--companion key)))

(defun gemini-companion-bridge-awaited-p (call)
  "Return non-nil if somebody still waits for the answer to CALL."
  (and gemini-companion-bridge--companion
       (gemini-companion--mod-awaited-p gemini-companion-bridge--companion call)))

(defun gemini-companion-bridge-answer (call text &optional may-omit)
  "Answer the tool call with id CALL with TEXT.
For MAY-OMIT see `gemini-companion-bridge-accept'."
  (when gemini-companion-bridge--companion
    (gemini-companion--mod-answer-call gemini-companion-bridge--companion call
                                       (gemini-companion-bridge--encode text)
                                       may-omit)))

(defun gemini-companion-bridge-fail (call reason)
  "Answer the tool call with id CALL with an error, the string REASON."
  (when gemini-companion-bridge--companion
    (gemini-companion--mod-fail-call gemini-companion-bridge--companion call
                                     (gemini-companion-bridge--encode reason))))

(defun gemini-companion-bridge--encode (text)
  "Return TEXT in UTF-8, as the module wants it.
The module cannot take a multibyte string that holds a raw byte."
  (encode-coding-string text 'utf-8-unix t))

(defun gemini-companion-bridge-set-awaited (awaited)
  "Say whether a client waits for the user: non-nil AWAITED makes looks frequent."
  (unless (eq awaited gemini-companion-bridge--awaited)
    (setq gemini-companion-bridge--awaited awaited)
    (gemini-companion-bridge--adjust-polling)))

;;;; From the clients

;; Not generic functions: to dispatch these on symbols, Emacs would load its byte compiler.
(defmacro gemini-companion-define-handler (type arguments docstring &rest body)
  "Define what is done about events of TYPE, a symbol: evaluate BODY.
DOCSTRING says what that is.  For the ARGUMENTS of each type see
`gemini-companion--mod-next-event'."
  (declare (indent 2) (doc-string 3) (debug (symbolp sexp stringp body)))
  (let ((function (intern (format "gemini-companion--handle-%s" type))))
    `(progn
       (defun ,function ,arguments ,docstring ,@body)
       (put ',type 'gemini-companion-handler #',function))))

(defun gemini-companion-handle-event (type &rest arguments)
  "Handle an event of TYPE, a symbol, with ARGUMENTS."
  (apply (get type 'gemini-companion-handler) arguments))

(gemini-companion-define-handler clients (count)
  "Note COUNT, the number of sessions, and pass it on."
  (setq gemini-companion-bridge--clients count)
  (gemini-companion-bridge--adjust-polling)
  (run-hook-with-args 'gemini-companion-clients-functions count)
  (force-mode-line-update t))

(gemini-companion-define-handler trace (direction session text)
  "Log TEXT, a message of SESSION, with its DIRECTION."
  (gemini-companion-log-add "%s %s %s" (if (eq direction 'from-client) "<-" "->")
                            (if (string-empty-p session) "(no session)" session) text))

(gemini-companion-define-handler warning (text)
  "Log and show TEXT."
  (gemini-companion-log-add "%s" text)
  (message "gemini-companion: %s" text))

(defun gemini-companion-bridge-drain ()
  "Handle the events that wait.  Never signals.
A quit waits until that is done, as in timers, which mostly call this."
  (when (and gemini-companion-bridge--companion (not gemini-companion-bridge--draining))
    (let ((gemini-companion-bridge--draining t)
          ;; An event that was taken is nowhere else: nobody would hear of it again.
          (inhibit-quit t)
          (left gemini-companion-bridge--batch)
          event)
      (while (and (> left 0)
                  gemini-companion-bridge--companion
                  (setq event (gemini-companion--mod-next-event
                               gemini-companion-bridge--companion)))
        (setq left (1- left))
        (gemini-companion-bridge--dispatch event))
      (when (zerop left) (gemini-companion-bridge--drain-soon)))))

(defun gemini-companion-bridge--dispatch (event)
  "Handle EVENT.  What that signals is logged, so that the others are handled.
A handler may ask the user something, who may quit that."
  (condition-case problem
      (apply #'gemini-companion-handle-event (append event nil))
    ((error quit)
     (gemini-companion-log-add "event %s: %s" (aref event 0) (error-message-string problem)))))

(defun gemini-companion-bridge--drain-soon ()
  "Drain from a timer: nothing visible may happen inside a process filter."
  (unless gemini-companion-bridge--soon
    (gemini-companion-bridge--drain-after 0 'gemini-companion-bridge--soon)))

(defun gemini-companion-bridge--note-command ()
  "Drain a moment after a command, of many in that moment once."
  (unless gemini-companion-bridge--after-command
    (gemini-companion-bridge--drain-after gemini-companion-bridge--fast
                                          'gemini-companion-bridge--after-command)))

(defun gemini-companion-bridge--drain-after (seconds variable)
  "Drain after SECONDS, by a timer that VARIABLE holds until then."
  (set variable (run-at-time seconds nil
                             (lambda ()
                               (set variable nil)
                               (gemini-companion-bridge-drain)))))

(defun gemini-companion-bridge--make-pipe ()
  "Return a pipe process whose filter drains the events."
  (let* (;; With adaptive buffering Emacs delays reads of single bytes by up to 50 ms.
         (process-adaptive-read-buffering nil)
         ;; With none it takes one of the name of the process, which may be the user's.
         (buffer (generate-new-buffer " *gemini-companion-pipe*" t))
         (pipe (make-pipe-process
                :name "gemini-companion" :noquery t :buffer buffer :coding 'no-conversion
                :filter (lambda (_pipe _bytes) (gemini-companion-bridge--drain-soon))
                :sentinel #'ignore)))
    (set-process-buffer pipe nil)
    (kill-buffer buffer)
    pipe))

(defun gemini-companion-bridge--adjust-polling ()
  "Look for events as often as the present state needs."
  (if (and gemini-companion-bridge--companion (> gemini-companion-bridge--clients 0))
      (add-hook 'post-command-hook #'gemini-companion-bridge--note-command)
    (remove-hook 'post-command-hook #'gemini-companion-bridge--note-command))
  (when gemini-companion-bridge--timer
    (cancel-timer gemini-companion-bridge--timer)
    (setq gemini-companion-bridge--timer nil))
  (when-let* ((interval (gemini-companion-bridge--interval)))
    (setq gemini-companion-bridge--timer
          (run-at-time interval interval #'gemini-companion-bridge-drain))))

(defun gemini-companion-bridge--interval ()
  "Return the seconds between looks for events, or nil for none."
  (cond ((not gemini-companion-bridge--companion) nil)
        (gemini-companion-bridge--awaited gemini-companion-bridge--fast)
        ((zerop gemini-companion-bridge--clients)
         (unless gemini-companion-bridge--pipe gemini-companion-bridge--slow))
        (gemini-companion-bridge--pipe gemini-companion-bridge--slow)
        (t gemini-companion-bridge--fast)))

(provide 'gemini-companion-bridge)
;;; gemini-companion-bridge.el ends here

;;; gemini-companion-bridge.el --- Events from the native module -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The Lisp end of the bridge to the server's thread.  This file owns the running companion: only it
;; calls those functions of the native module, `gemini-companion--mod-...', that need one.
;;
;; The server queues events, and a timer of Lisp drains the queue.  A byte on a pipe starts it; so
;; does each command while a client is connected, as Emacs does not read the pipe while input is
;; pending.  A repeating timer catches the rest; without a pipe, as on MS-Windows, it does it all.
;;
;; The bridge knows no feature: other files define handlers for their events.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-log)
(require 'gemini-companion-ui)

(declare-function gemini-companion--mod-context-json "ext:gemini-companion-module"
                  (files trusted) t)
(declare-function gemini-companion--mod-host-programs "ext:gemini-companion-module" () t)
(declare-function gemini-companion--mod-ignored-p "ext:gemini-companion-module"
                  (ignore-file path) t)
(declare-function gemini-companion--mod-start "ext:gemini-companion-module"
                  (agents port roots max-message) t)
(declare-function gemini-companion--mod-tools-adapter "ext:gemini-companion-module" () t)

(defvar gemini-companion-bridge-clients-functions nil
  "Functions called with the number of sessions when it has changed.")

;;;; State

(defvar gemini-companion-bridge--companion nil
  "The running companion, an opaque object of the native module, or nil.")

(defvar gemini-companion-bridge--pipe nil
  "The pipe process to which the server writes when events wait, or nil.")

(defvar gemini-companion-bridge--draining nil
  "Non-nil while events are being handled.")

(defvar gemini-companion-bridge-clients 0
  "Number of connected sessions.")

(defvar gemini-companion-bridge-tracing nil
  "Non-nil if `gemini-companion-bridge-trace' has each message logged.")

;;;; The companion

(defmacro gemini-companion-bridge--call (function &rest arguments)
  "Call FUNCTION of the module with the running companion, if any, and ARGUMENTS."
  (declare (debug (symbolp &rest form)))
  `(progn (declare-function ,function "ext:gemini-companion-module")
          (when gemini-companion-bridge--companion
            (,function gemini-companion-bridge--companion ,@arguments))))

(defun gemini-companion-bridge-start (agents port roots max-message)
  "Start a companion that serves AGENTS on PORT; 0 means a free port.
AGENTS is a list of vectors [NAME TITLE DIRECTORIES FILE TELLS-PROCESS
PROCESSES], see `gemini-companion-agent-profiles'.  DIRECTORIES and
PROCESSES, ids that an agent may take for that of Emacs, are vectors.
ROOTS is a list of workspace roots, MAX-MESSAGE the maximum size of a
message in bytes."
  (setq gemini-companion-bridge--companion
        (gemini-companion--mod-start (vconcat agents) port (vconcat roots) max-message))
  (unless (eq system-type 'windows-nt)
    (setq gemini-companion-bridge--pipe (gemini-companion-bridge--make-pipe))
    (gemini-companion-bridge--call gemini-companion--mod-set-wake-pipe
                                   gemini-companion-bridge--pipe))
  (gemini-companion-bridge-trace gemini-companion-bridge-tracing)
  (gemini-companion-bridge--adjust-polling)
  (gemini-companion-bridge-drain))

(defun gemini-companion-bridge-trace (on)
  "Log each message from and to clients from now on if ON is non-nil.
Tokens are never logged, but the beginnings of files are."
  (setq gemini-companion-bridge-tracing on)
  (gemini-companion-bridge--call gemini-companion--mod-set-tracing on))

(defun gemini-companion-bridge-restart ()
  "Restart the server of the running companion, and keep sessions and reviews.
Discovery files that are missing or were changed are written again."
  (gemini-companion-bridge--call gemini-companion--mod-restart))

(defun gemini-companion-bridge-stop ()
  "Stop the companion: reject open reviews, delete the discovery files."
  (unwind-protect
      (gemini-companion-bridge--call gemini-companion--mod-stop)
    (setq gemini-companion-bridge--companion nil)
    (gemini-companion-bridge-handle-event 'clients 0)
    (cancel-function-timers #'gemini-companion-bridge-drain)
    ;; The server has stopped: it must never write to a closed pipe.
    (when gemini-companion-bridge--pipe
      (delete-process gemini-companion-bridge--pipe)
      (setq gemini-companion-bridge--pipe nil))))

(defun gemini-companion-bridge-running-p ()
  "Return non-nil if a companion is running."
  (and gemini-companion-bridge--companion t))

(defun gemini-companion-bridge-check ()
  "Signal a `user-error' unless a companion is running."
  (unless gemini-companion-bridge--companion
    (user-error "Gemini companion is off; M-x gemini-companion-mode turns it on")))

(defun gemini-companion-bridge-port ()
  "Return the port of the running companion."
  (gemini-companion-bridge--call gemini-companion--mod-port))

(defun gemini-companion-bridge-token (&optional agent)
  "Return the token of AGENT, by default `gemini', nil if AGENT is not served.
Never print or log it."
  (gemini-companion-bridge--call gemini-companion--mod-token (symbol-name (or agent 'gemini))))

(defun gemini-companion-bridge-port-fault ()
  "Return why the port is not the requested one, or nil if it is."
  (gemini-companion-bridge--call gemini-companion--mod-port-fault))

(defun gemini-companion-bridge-discovery-fault ()
  "Return why some clients cannot find a discovery file, or nil."
  (gemini-companion-bridge--call gemini-companion--mod-discovery-fault))

(defun gemini-companion-bridge-discovery-files ()
  "Return the names of the discovery files."
  (append (gemini-companion-bridge--call gemini-companion--mod-discovery-files) nil))

(defun gemini-companion-bridge-damaged-files ()
  "Return the names of discovery files that are missing or were changed."
  (append (gemini-companion-bridge--call gemini-companion--mod-damaged-files) nil))

;;;; To the clients

(defun gemini-companion-bridge-set-roots (roots)
  "Announce ROOTS, a list of directories, as the workspace roots."
  (gemini-companion-bridge--call gemini-companion--mod-set-roots (vconcat roots)))

(defun gemini-companion-bridge-places ()
  "Return the directories in which clients work, each once.
One of them is nil if there are clients whose directory is not known.  A
directory on a host begins with the prefix of its host."
  (append (gemini-companion-bridge--call gemini-companion--mod-places) nil))

(defun gemini-companion-bridge-publish-contexts (contexts)
  "Publish CONTEXTS, a list of vectors [DIRECTORY FILES TRUSTED].
Clients that work in DIRECTORY, see `gemini-companion-bridge-places', are
sent FILES, a vector of vectors [PATH TIMESTAMP ACTIVE LINE CHARACTER
SELECTION], the most recently focused file first.  Only the active file
has the last three elements.  A PATH on a host is without its prefix.
TRUSTED is non-nil if the user trusts DIRECTORY."
  (gemini-companion-bridge--call gemini-companion--mod-publish-contexts (vconcat contexts)))

(defun gemini-companion-bridge-context-json (files trusted)
  "Return the JSON that clients are sent for FILES and TRUSTED.
They are as in `gemini-companion-bridge-publish-contexts'."
  (gemini-companion--mod-context-json (vconcat files) trusted))

(defun gemini-companion-bridge-ignored (ignore-file path)
  "Return t if IGNORE-FILE, such as .geminiignore, matches PATH, a file below it.
Return nil if it does not, or does not exist.  If that cannot be known,
return a string that says why: \"cannot be read: ...\"."
  (let ((coding (if (memq system-type '(windows-nt darwin))
                    'utf-8              ; for the module and macOS, not decomposed
                  (or file-name-coding-system default-file-name-coding-system 'utf-8))))
    (gemini-companion--mod-ignored-p (encode-coding-string ignore-file coding t)
                                     (encode-coding-string path coding t))))

(defun gemini-companion-bridge-accept (review text &optional may-omit)
  "Report that the user has accepted the review with id REVIEW as TEXT.
If MAY-OMIT is non-nil, TEXT is what the client proposed, and the session
that proposed it is not sent it again.  Return nil if the review was no
longer open; an event `close-review' follows then."
  (gemini-companion-bridge--call gemini-companion--mod-accept-review review text may-omit))

(defun gemini-companion-bridge-reject (review)
  "Report that the user has rejected the review with id REVIEW.
For the value see `gemini-companion-bridge-accept'."
  (gemini-companion-bridge--call gemini-companion--mod-reject-review review))

(defun gemini-companion-bridge-ping ()
  "Ping the clients that have an open stream, and return their number.
Each answer is an event `pong'."
  (gemini-companion-bridge--call gemini-companion--mod-ping))

(cl-defstruct (gemini-companion-bridge-session (:type vector) (:constructor nil) (:copier nil))
  "A session, as the native module describes it."
  (key nil :documentation "A string that identifies it.")
  (client nil :documentation "The name of the client.")
  (process nil :documentation "The process id of the client, a number, nil if it is not known;
on a host, a string that begins with the prefix of the host.")
  (age nil :documentation "How old it is, in seconds.")
  (stream nil :documentation "The state of its stream: `never' opened, `open' or `lost'.")
  (reviews nil :documentation "The number of its open reviews.")
  (outcomes nil :documentation "The number of outcomes that wait for the stream.")
  (directory nil :documentation "Where the client works, nil if that is not known.")
  (own-front nil :documentation "Non-nil if its user decides changes in another front end.")
  (agent nil :documentation "Its agent.")
  (knows-tools nil :documentation "Non-nil once it has asked for tools: it proposes changes here."))

(defun gemini-companion-bridge-sessions ()
  "Return the sessions, each a `gemini-companion-bridge-session', the oldest first."
  (append (gemini-companion-bridge--call gemini-companion--mod-sessions) nil))

(defun gemini-companion-bridge-disconnect (key)
  "End the session with KEY; return nil if there is none."
  (gemini-companion-bridge--call gemini-companion--mod-disconnect key))

(defun gemini-companion-bridge-awaited-p (call)
  "Return non-nil if the client still waits for the answer to CALL."
  (gemini-companion-bridge--call gemini-companion--mod-awaited-p call))

(defun gemini-companion-bridge-answer (call text &optional may-omit)
  "Answer the tool call with id CALL with TEXT.
For MAY-OMIT see `gemini-companion-bridge-accept'."
  (gemini-companion-bridge--call gemini-companion--mod-answer-call call text may-omit))

(defun gemini-companion-bridge-fail (call reason)
  "Answer the tool call with id CALL with an error, the string REASON."
  (gemini-companion-bridge--call gemini-companion--mod-fail-call call reason))

(defun gemini-companion-bridge-tools-adapter ()
  "Return the JavaScript program that lets a CLI use the tools of Emacs."
  (gemini-companion--mod-tools-adapter))

(defun gemini-companion-bridge-set-tools (tools)
  "Offer TOOLS, a list of vectors, to the models of clients, and no others.
Each is [NAME DESCRIPTION READ-ONLY LISTED ARGUMENTS HOSTS], ARGUMENTS a
vector of [NAME TYPE DESCRIPTION REQUIRED]; TYPE is \"string\", \"integer\"
or \"boolean\".  Clients on hosts have those with HOSTS only."
  (gemini-companion-bridge--call gemini-companion--mod-set-tools (vconcat tools)))

;;;; Hosts

(defun gemini-companion-bridge-open-host (prefix &optional mounts sandbox)
  "Serve clients on the host whose files begin with PREFIX in Emacs.
It has MOUNTS, as in `gemini-companion-host-mounts'; if it is a SANDBOX,
serve no other file there.  Return an alist of agents and the tokens of
their clients there.  Never print or log them."
  (mapcar (pcase-lambda (`[,agent ,token]) (cons (intern agent) token))
          (gemini-companion-bridge--call
           gemini-companion--mod-open-host
           prefix (vconcat (mapcar #'car mounts)) (vconcat (mapcar #'cdr mounts)) sandbox)))

(defun gemini-companion-bridge-close-host (prefix)
  "Stop serving clients on the host with PREFIX; their reviews end."
  (gemini-companion-bridge--call gemini-companion--mod-close-host prefix))

(defun gemini-companion-bridge-set-host-reachable (prefix reachable)
  "Record whether clients on the host with PREFIX are REACHABLE.
Clients that do not return then count as ended."
  (gemini-companion-bridge--call gemini-companion--mod-set-host-reachable prefix reachable))

(defun gemini-companion-bridge-host-sessions (prefix)
  "Return the sessions of clients on the host with PREFIX."
  (cl-loop for session in (gemini-companion-bridge-sessions)
           for directory = (gemini-companion-bridge-session-directory session)
           if (and directory (string-prefix-p prefix directory))
           collect session))

(defun gemini-companion-bridge-open-wire (prefix command environment script)
  "Open a wire to the host with PREFIX, which is open, and return its number.
COMMAND, a list, runs a shell there, which reads SCRIPT; ENVIRONMENT is as
in `process-environment'."
  (gemini-companion-bridge--call
   gemini-companion--mod-open-wire
   prefix (vconcat command)
   (let ((coding (if (eq system-type 'windows-nt) 'utf-8 locale-coding-system)))
     (vconcat (mapcar (lambda (entry) (encode-coding-string entry coding t)) environment)))
   script))

(defun gemini-companion-bridge-write-wire (wire message)
  "Send MESSAGE, an object of JSON, to the keeper at the end of WIRE."
  (gemini-companion-bridge--call gemini-companion--mod-write-wire wire message))

(defun gemini-companion-bridge-close-wire (wire)
  "Close WIRE, which then sends no more events."
  (gemini-companion-bridge--call gemini-companion--mod-close-wire wire))

(defun gemini-companion-bridge-host-program (name)
  "Return the text of the program for hosts that is called NAME, a symbol."
  (elt (gemini-companion--mod-host-programs) (seq-position '(bootstrap keeper relay editor) name)))

(defun gemini-companion-bridge-host-ignored (prefix root name)
  "Return t if the .geminiignore in ROOT matches the file NAME below it.
Both are names on the host with PREFIX.  Return nil if it does not, and a
string that says why if that cannot be known."
  (if gemini-companion-bridge--companion
      (gemini-companion-bridge--call gemini-companion--mod-host-ignored-p prefix root name)
    "not known"))

;;;; From the clients

(defun gemini-companion-bridge-handle-event (type &rest arguments)
  "Handle an event of TYPE, a symbol, with ARGUMENTS.
The function `gemini-companion--handle-TYPE' does so; for the ARGUMENTS of
each type see `gemini-companion--mod-next-event'."
  ;; Not a generic function: to dispatch on symbols, Emacs would load its byte compiler.
  (apply (intern (format "gemini-companion--handle-%s" type)) arguments))

(defun gemini-companion--handle-clients (count)
  "Record COUNT, the number of sessions."
  (setq gemini-companion-bridge-clients count)
  (gemini-companion-bridge--adjust-polling)
  (gemini-companion-log-run-hook 'gemini-companion-bridge-clients-functions count)
  (force-mode-line-update t))

(defun gemini-companion--handle-trace (direction session text)
  "Log TEXT, a message of SESSION in DIRECTION."
  (gemini-companion-log-add "%s %s %s" (if (eq direction 'from-client) "<-" "->")
                            (if (string-empty-p session) "(no session)" session) text))

(defun gemini-companion--handle-warning (text)
  "Log and show TEXT."
  (gemini-companion-log-add "%s" text)
  (gemini-companion-ui-message 'warning "gemini-companion: %s" text))

(defun gemini-companion-bridge-drain ()
  "Handle the pending events.  Never signal an error.
A quit waits until that is done, as it does in timers."
  (when (and gemini-companion-bridge--companion (not gemini-companion-bridge--draining))
    (let ((gemini-companion-bridge--draining t)
          ;; A quit would lose the event just taken off the queue.
          (inhibit-quit t))
      ;; If there are more, the user need not wait until all are handled.
      (when (cl-loop with end = (+ (float-time) 0.2)
                     repeat 64
                     for event = (gemini-companion-bridge--call gemini-companion--mod-next-event)
                     always event
                     do (gemini-companion-bridge--dispatch event)
                     while (< (float-time) end))
        (gemini-companion-bridge--drain-soon)))))

(defun gemini-companion-bridge--dispatch (event)
  "Handle EVENT; log errors, so that the following events are handled, too.
A handler may ask a question that the user quits."
  (condition-case problem
      (save-match-data
        (apply #'gemini-companion-bridge-handle-event (append event nil)))
    ((error quit)
     (gemini-companion-log-add "event %s: %s" (aref event 0) (error-message-string problem)))))

(defun gemini-companion-bridge--drain-soon (&rest _)
  "Drain the events in a timer, since a process filter must change nothing visible."
  (gemini-companion-ui-adjust-timer t 0 nil #'gemini-companion-bridge-drain))

(defun gemini-companion-bridge--make-pipe ()
  "Return a pipe process whose filter drains the events."
  (let* (;; With adaptive buffering Emacs delays reads of single bytes by up to 50 ms.
         (process-adaptive-read-buffering nil)
         (pipe (make-pipe-process
                :name "gemini-companion" :noquery t :coding 'no-conversion
                ;; Otherwise it gets a buffer with its name, which may be the user's.
                :buffer (current-buffer)
                :filter #'gemini-companion-bridge--drain-soon
                :sentinel #'ignore)))
    (set-process-buffer pipe nil)
    pipe))

(defun gemini-companion-bridge--adjust-polling ()
  "Poll events as often as the present state requires."
  (let* ((clients (> gemini-companion-bridge-clients 0))
         (interval (cond ((not gemini-companion-bridge--companion) nil)
                         (gemini-companion-bridge--pipe (and clients 1.0))
                         (t (if clients 0.05 1.0)))))
    (funcall (if clients #'add-hook #'remove-hook)
             'post-command-hook #'gemini-companion-bridge--drain-soon)
    (cancel-function-timers #'gemini-companion-bridge--drain-soon)
    (when interval
      (run-at-time interval interval #'gemini-companion-bridge--drain-soon))))

(provide 'gemini-companion-bridge)
;;; gemini-companion-bridge.el ends here

;;; gemini-companion-bridge.el --- Events from the native module -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The Lisp end of the bridge to the server's thread.  This file owns the running companion and
;; calls the functions of the native module, `gemini-companion--mod-...'.
;;
;; The server queues events, and Lisp drains the queue.  Three things trigger that: a byte on a
;; pipe, which is fast but starved while the user types; a timer that each command starts while
;; clients are connected; and a repeating timer for what the other two miss.  The last one is fast
;; while a client waits for the user, slow while clients are connected, and off otherwise.  Without
;; a pipe, as on MS-Windows, it is fast while clients are connected, and slow otherwise.
;;
;; The bridge knows no feature: other files define handlers for their events.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)

(defmacro gemini-companion-bridge--declare (&rest functions)
  "Declare FUNCTIONS of the module, each a list (NAME ARGUMENTS...)."
  `(progn
     ,@(mapcar (lambda (function)
                 `(declare-function
                   ,(intern (format "gemini-companion--mod-%s" (car function)))
                   "ext:gemini-companion-module" ,(cdr function) t))
               functions)))

(gemini-companion-bridge--declare
 (start agents port roots max-message) (restart companion) (stop companion)
 (port companion) (port-fault companion) (token companion agent) (set-tracing companion on)
 (discovery-fault companion) (discovery-files companion) (damaged-files companion)
 (set-roots companion roots) (ignored-p ignore-file path)
 (places companion) (publish-contexts companion contexts) (context-json files trusted)
 (set-wake-pipe companion pipe) (next-event companion)
 (sessions companion) (disconnect companion key) (ping companion)
 (accept-review companion review text may-omit) (reject-review companion review)
 (awaited-p companion call) (answer-call companion call text may-omit)
 (fail-call companion call reason) (set-tools companion tools) (tools-adapter)
 (open-host companion prefix) (close-host companion prefix) (host-programs)
 (set-host-reachable companion prefix reachable)
 (host-ignored-p companion prefix root name))

(defconst gemini-companion-bridge--batch 64
  "Maximum number of events handled at once, so that the user need not wait.")

(defconst gemini-companion-bridge--fast 0.05
  "Interval in seconds at which events are polled while a client waits.")

(defconst gemini-companion-bridge--slow 1.0
  "Interval in seconds at which events are polled as a precaution.")

(defvar gemini-companion-clients-functions nil
  "Functions called with the number of sessions when it has changed.")

;;;; State

(defvar gemini-companion-bridge--companion nil
  "The running companion, an opaque object of the native module, or nil.")

(defvar gemini-companion-bridge--pipe nil
  "The pipe process to which the server writes when events wait, or nil.")

(defvar gemini-companion-bridge--timer nil
  "The repeating timer that polls events, or nil.")

(defvar gemini-companion-bridge--soon nil
  "The timer without delay that the filter of the pipe has started, or nil.")

(defvar gemini-companion-bridge--after-command nil
  "The timer that the last command has started, or nil.")

(defvar gemini-companion-bridge--draining nil
  "Non-nil while events are being handled.")

(defvar gemini-companion-bridge--clients 0
  "Number of connected sessions.")

(defun gemini-companion-bridge--set-level (option level)
  "Set OPTION to LEVEL, and apply it."
  (set-default-toplevel-value option level)
  (when gemini-companion-bridge--companion
    (gemini-companion-bridge--adjust-log)))

(defcustom gemini-companion-log-level 'events
  "What goes into the log that \\[gemini-companion-log] shows.
If `events', errors and notable events.  If `protocol', also each message
from and to clients: an arrow, the session, and the message with its long
strings truncated.  Tokens are never logged, but with `protocol' the
beginnings of files are."
  :type '(choice (const :tag "Errors and notable events" events)
                 (const :tag "Also each message" protocol))
  :group 'gemini-companion-server
  :set #'gemini-companion-bridge--set-level
  :initialize #'custom-initialize-default
  :package-version '(gemini-companion . "0.1.0"))

;;;; The companion

(defun gemini-companion-bridge-start (agents port roots max-message)
  "Start a companion that serves AGENTS on PORT; 0 means a free port.
AGENTS is a list of vectors [NAME TITLE DIRECTORIES FILE TELLS-PROCESS
PROCESSES], see `gemini-companion-agent-profiles'.  DIRECTORIES and
PROCESSES, ids that an agent may take for that of Emacs, are vectors.
ROOTS is a list of workspace roots, MAX-MESSAGE the maximum size of a
message in bytes.  Signal an error if the companion cannot start."
  (setq gemini-companion-bridge--companion
        (gemini-companion--mod-start (vconcat agents) port (vconcat roots) max-message))
  (unless (eq system-type 'windows-nt)
    (setq gemini-companion-bridge--pipe (gemini-companion-bridge--make-pipe))
    (gemini-companion--mod-set-wake-pipe gemini-companion-bridge--companion
                                         gemini-companion-bridge--pipe))
  (gemini-companion-bridge--adjust-log)
  (gemini-companion-bridge--adjust-polling)
  (gemini-companion-bridge-drain))

(defun gemini-companion-bridge--adjust-log ()
  "Log messages if `gemini-companion-log-level' says so."
  (gemini-companion--mod-set-tracing gemini-companion-bridge--companion
                                     (eq gemini-companion-log-level 'protocol)))

(defun gemini-companion-bridge-restart ()
  "Restart the server of the running companion.
The port, the sessions of clients and the open reviews are kept.
Discovery files that are missing or were changed are written again."
  (gemini-companion--mod-restart gemini-companion-bridge--companion))

(defun gemini-companion-bridge-stop ()
  "Stop the companion: reject open reviews, delete the discovery files."
  (unwind-protect
      (when gemini-companion-bridge--companion
        (gemini-companion--mod-stop gemini-companion-bridge--companion))
    (setq gemini-companion-bridge--companion nil)
    (gemini-companion-handle-event 'clients 0)
    (dolist (timer (list gemini-companion-bridge--soon gemini-companion-bridge--after-command))
      (when timer (cancel-timer timer)))
    (setq gemini-companion-bridge--soon nil
          gemini-companion-bridge--after-command nil)
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
    (user-error "Gemini companion is off: M-x gemini-companion-mode")))

(defun gemini-companion-bridge-port ()
  "Return the port of the running companion."
  (gemini-companion--mod-port gemini-companion-bridge--companion))

(defun gemini-companion-bridge-token (&optional agent)
  "Return the token of AGENT, by default `gemini', nil if AGENT is not served.
Never print or log it."
  (gemini-companion--mod-token gemini-companion-bridge--companion
                               (symbol-name (or agent 'gemini))))

(defun gemini-companion-bridge-port-fault ()
  "Return why the port is not the requested one, or nil if it is."
  (gemini-companion--mod-port-fault gemini-companion-bridge--companion))

(defun gemini-companion-bridge-discovery-fault ()
  "Return why some clients cannot find a discovery file, or nil."
  (gemini-companion--mod-discovery-fault gemini-companion-bridge--companion))

(defun gemini-companion-bridge-discovery-files ()
  "Return the names of the discovery files."
  (append (gemini-companion--mod-discovery-files gemini-companion-bridge--companion) nil))

(defun gemini-companion-bridge-damaged-files ()
  "Return the names of discovery files that are missing or were changed."
  (append (gemini-companion--mod-damaged-files gemini-companion-bridge--companion) nil))

(defun gemini-companion-bridge-clients ()
  "Return the number of connected sessions."
  gemini-companion-bridge--clients)

;;;; To the clients

(defun gemini-companion-bridge-set-roots (roots)
  "Announce ROOTS, a list of directories, as the workspace roots."
  (when gemini-companion-bridge--companion
    (gemini-companion--mod-set-roots gemini-companion-bridge--companion (vconcat roots))))

(defun gemini-companion-bridge-places ()
  "Return the directories in which clients work, each once.
One of them is nil if there are clients whose directory is not known.  A
directory on a host begins with the prefix of that."
  (and gemini-companion-bridge--companion
       (append (gemini-companion--mod-places gemini-companion-bridge--companion) nil)))

(defun gemini-companion-bridge-publish-contexts (contexts)
  "Publish CONTEXTS, a list of (DIRECTORY FILES TRUSTED).
Clients that work in DIRECTORY, see `gemini-companion-bridge-places', are
sent FILES, a list of vectors [PATH TIMESTAMP ACTIVE LINE CHARACTER
SELECTION], the most recently focused file first.  Only the active file
has the last three elements.  A PATH on a host is without its prefix.  They
are told that the user trusts DIRECTORY if TRUSTED is non-nil."
  (when gemini-companion-bridge--companion
    (gemini-companion--mod-publish-contexts
     gemini-companion-bridge--companion
     (vconcat (mapcar (pcase-lambda (`(,directory ,files ,trusted))
                        (vector directory (vconcat files) trusted))
                      contexts)))))

(defun gemini-companion-bridge-context-json (files trusted)
  "Return the JSON that clients are sent for FILES and TRUSTED.
They are as in `gemini-companion-bridge-publish-contexts'."
  (gemini-companion--mod-context-json (vconcat files) trusted))

(defun gemini-companion-bridge-ignored (ignore-file path)
  "Return t if IGNORE-FILE, a .geminiignore, matches PATH, a file below it.
Return nil if it does not, or does not exist.  If that cannot be known,
return a string that says why: \"cannot be read: ...\"."
  (gemini-companion--mod-ignored-p
   (gemini-companion-bridge--encode-name ignore-file)
   (gemini-companion-bridge--encode-name path)))

(defun gemini-companion-bridge--encode-name (name)
  "Return the file name NAME encoded for the file system."
  (encode-coding-string name (or file-name-coding-system default-file-name-coding-system
                                 'utf-8-unix)
                        t))

(defun gemini-companion-bridge-accept (review text &optional may-omit)
  "Report that the user has accepted the review with id REVIEW as TEXT.
If MAY-OMIT is non-nil, TEXT is what the client proposed, and the session
that proposed it is not sent it again.  Return nil if the review was no
longer open; an event `close-review' follows then."
  (and gemini-companion-bridge--companion
       (gemini-companion--mod-accept-review gemini-companion-bridge--companion review text
                                            may-omit)))

(defun gemini-companion-bridge-reject (review)
  "Report that the user has rejected the review with id REVIEW.
Return nil if the review was no longer open; an event `close-review'
follows then."
  (and gemini-companion-bridge--companion
       (gemini-companion--mod-reject-review gemini-companion-bridge--companion review)))

(defun gemini-companion-bridge-ping ()
  "Ping each client; each answer is an event `pong'.
Return the number of clients."
  (gemini-companion--mod-ping gemini-companion-bridge--companion))

(defun gemini-companion-bridge-sessions ()
  "Return the sessions as a list of vectors, the oldest first.
Each is [KEY CLIENT PROCESS SECONDS STREAM REVIEWS OUTCOMES DIRECTORY
OWN-FRONT]: a string that identifies the session, the name of the client,
its process id or nil, the age of the session, the state of its
stream (`never', `open' or `lost'), the number of its open reviews, the
number of outcomes that wait for the stream, the directory in which the
client works, nil if that is not known, t if it is not known yet, and t if
its user decides changes in a front of its own, such as an editor that
speaks ACP with it."
  (and gemini-companion-bridge--companion
       (append (gemini-companion--mod-sessions gemini-companion-bridge--companion) nil)))

(defun gemini-companion-bridge-disconnect (key)
  "End the session with KEY; return nil if there is none."
  (and gemini-companion-bridge--companion
       (gemini-companion--mod-disconnect gemini-companion-bridge--companion key)))

(defun gemini-companion-bridge-awaited-p (call)
  "Return non-nil if the client still waits for the answer to CALL."
  (and gemini-companion-bridge--companion
       (gemini-companion--mod-awaited-p gemini-companion-bridge--companion call)))

(defun gemini-companion-bridge-answer (call text &optional may-omit)
  "Answer the tool call with id CALL by TEXT.
For MAY-OMIT see `gemini-companion-bridge-accept'."
  (when gemini-companion-bridge--companion
    (gemini-companion--mod-answer-call gemini-companion-bridge--companion call text may-omit)))

(defun gemini-companion-bridge-fail (call reason)
  "Answer the tool call with id CALL by an error, the string REASON."
  (when gemini-companion-bridge--companion
    (gemini-companion--mod-fail-call gemini-companion-bridge--companion call reason)))

(defun gemini-companion-bridge-tools-adapter ()
  "Return the program that lets a CLI use the tools of Emacs, as JavaScript."
  (gemini-companion--mod-tools-adapter))

(defun gemini-companion-bridge-set-tools (tools)
  "Offer TOOLS, a list of vectors, to the models of clients, and no others.
Each is [NAME DESCRIPTION READ-ONLY LISTED ARGUMENTS], ARGUMENTS a vector
of [NAME TYPE DESCRIPTION REQUIRED]; TYPE is \"string\", \"integer\" or
\"boolean\"."
  (when gemini-companion-bridge--companion
    (gemini-companion--mod-set-tools gemini-companion-bridge--companion (vconcat tools))))

;;;; Hosts

(defun gemini-companion-bridge-open-host (prefix)
  "Serve clients on the host whose files begin with PREFIX in Emacs.
Return an alist of agents and the tokens of their clients there, which
stay the same until the host is closed.  Never print or log them."
  (mapcar (pcase-lambda (`[,agent ,token]) (cons (intern agent) token))
          (gemini-companion--mod-open-host gemini-companion-bridge--companion prefix)))

(defun gemini-companion-bridge-close-host (prefix)
  "Serve clients on the host with PREFIX no longer; their reviews end."
  (when gemini-companion-bridge--companion
    (gemini-companion--mod-close-host gemini-companion-bridge--companion prefix)))

(defun gemini-companion-bridge-set-host-reachable (prefix reachable)
  "Record whether clients on the host with PREFIX can reach this Emacs.
They can if REACHABLE is non-nil; those who do not return then have ended."
  (when gemini-companion-bridge--companion
    (gemini-companion--mod-set-host-reachable gemini-companion-bridge--companion
                                              prefix reachable)))

(defun gemini-companion-bridge-host-sessions (prefix)
  "Return the sessions of clients on the host with PREFIX.
For their form see `gemini-companion-bridge-sessions'."
  (cl-loop for session in (gemini-companion-bridge-sessions)
           for directory = (aref session 7)
           if (and (stringp directory) (string-prefix-p prefix directory))
           collect session))

(defun gemini-companion-bridge-host-programs ()
  "Return the texts of the programs that run on hosts, (RELAY . KEEPER)."
  (pcase-let ((`[,relay ,keeper] (gemini-companion--mod-host-programs)))
    (cons relay keeper)))

(defun gemini-companion-bridge-host-ignored (prefix root name)
  "Return t if the .geminiignore in ROOT matches the file NAME below it.
Both are names on the host with PREFIX.  Return nil if it does not, and a
string that says why if that cannot be known."
  (if gemini-companion-bridge--companion
      (gemini-companion--mod-host-ignored-p gemini-companion-bridge--companion prefix root name)
    "not known"))

;;;; From the clients

;; Not generic functions: to dispatch these on symbols, Emacs would load its byte compiler.
(defmacro gemini-companion-define-handler (type arguments docstring &rest body)
  "Define a handler for events of TYPE, a symbol, that evaluates BODY.
DOCSTRING is its documentation.  For the ARGUMENTS of each type see
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
  "Record COUNT, the number of sessions."
  (setq gemini-companion-bridge--clients count)
  (gemini-companion-bridge--adjust-polling)
  (gemini-companion-log-run-hook 'gemini-companion-clients-functions count)
  (force-mode-line-update t))

(gemini-companion-define-handler trace (direction session text)
  "Log TEXT, a message of SESSION in DIRECTION."
  (gemini-companion-log-add "%s %s %s" (if (eq direction 'from-client) "<-" "->")
                            (if (string-empty-p session) "(no session)" session) text))

(gemini-companion-define-handler warning (text)
  "Log and show TEXT."
  (gemini-companion-log-add "%s" text)
  (gemini-companion-ui-message 'warning "gemini-companion: %s" text))

(defun gemini-companion-bridge-drain ()
  "Handle the pending events.  Never signal an error.
A quit is delayed until that is done, as in timers, from which this is
mostly called."
  (when (and gemini-companion-bridge--companion (not gemini-companion-bridge--draining))
    (let ((gemini-companion-bridge--draining t)
          ;; An event that was taken off the queue would be lost.
          (inhibit-quit t)
          (remaining gemini-companion-bridge--batch)
          event)
      (while (and (> remaining 0)
                  gemini-companion-bridge--companion
                  (setq event (gemini-companion--mod-next-event
                               gemini-companion-bridge--companion)))
        (setq remaining (1- remaining))
        (gemini-companion-bridge--dispatch event))
      (when (zerop remaining) (gemini-companion-bridge--drain-soon)))))

(defun gemini-companion-bridge--dispatch (event)
  "Handle EVENT; log errors, so that the following events are handled, too.
A handler may ask a question that the user quits."
  (condition-case problem
      (save-match-data
        (apply #'gemini-companion-handle-event (append event nil)))
    ((error quit)
     (gemini-companion-log-add "event %s: %s" (aref event 0) (error-message-string problem)))))

(defun gemini-companion-bridge--drain-soon ()
  "Drain the events from a timer, for a process filter must change nothing visible."
  (unless gemini-companion-bridge--soon
    (gemini-companion-bridge--drain-after 0 'gemini-companion-bridge--soon)))

(defun gemini-companion-bridge--note-command ()
  "Drain the events shortly after this command, and those that follow it quickly."
  (unless gemini-companion-bridge--after-command
    (gemini-companion-bridge--drain-after gemini-companion-bridge--fast
                                          'gemini-companion-bridge--after-command)))

(defun gemini-companion-bridge--drain-after (seconds variable)
  "Drain the events after SECONDS; until then VARIABLE holds the timer."
  (set variable (run-at-time seconds nil
                             (lambda ()
                               (set variable nil)
                               (gemini-companion-bridge-drain)))))

(defun gemini-companion-bridge--make-pipe ()
  "Return a pipe process whose filter drains the events."
  (let* (;; With adaptive buffering Emacs delays reads of single bytes by up to 50 ms.
         (process-adaptive-read-buffering nil)
         (pipe (make-pipe-process
                :name "gemini-companion" :noquery t :coding 'no-conversion
                ;; Otherwise it gets a buffer with its name, which may be the user's.
                :buffer (current-buffer)
                :filter (lambda (_pipe _bytes) (gemini-companion-bridge--drain-soon))
                :sentinel #'ignore)))
    (set-process-buffer pipe nil)
    pipe))

(defun gemini-companion-bridge--adjust-polling ()
  "Poll events as often as the present state requires."
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
  "Return the interval in seconds at which events are polled, nil for never."
  (cond ((not gemini-companion-bridge--companion) nil)
        ((zerop gemini-companion-bridge--clients)
         (unless gemini-companion-bridge--pipe gemini-companion-bridge--slow))
        (gemini-companion-bridge--pipe gemini-companion-bridge--slow)
        (t gemini-companion-bridge--fast)))

(provide 'gemini-companion-bridge)
;;; gemini-companion-bridge.el ends here

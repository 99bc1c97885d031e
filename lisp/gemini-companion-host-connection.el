;;; gemini-companion-host-connection.el --- One connection to a host -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; For each host, a program such as the user's ssh runs a shell there, which starts the keeper from
;; the script that it reads.  The keeper announces this Emacs as long as the connection lasts, and
;; passes on what clients there say, over the standard input and output of that program: the wire,
;; which the native module owns.  When a connection breaks, Emacs makes it again.
;;
;; Nothing here waits for a host, opens its files by Tramp, or trusts what it says.

;;; Code:

(require 'cl-lib)
(require 'json)
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-host)
(require 'gemini-companion-host-command)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)

;;;; State

(cl-defstruct (gemini-companion-host-connection
               (:include gemini-companion-host)
               (:constructor gemini-companion-host-connection--make)
               (:copier nil))
  "A connection to a host, which is that host itself."
  (name nil :documentation "The name of the host for users, \"me@build\".")
  (hops nil :documentation "The way to the host, as `tramp-file-name's.")
  (state 'new :documentation "`new', `connecting', `ready', `lost', `failed' or `closed'.")
  (since (float-time) :documentation "When it entered that state.")
  (fault nil :documentation "Why it is lost or has failed, and what to do, (TEXT . TEXT), or nil.")
  (warnings nil :documentation "What the keeper warns of, the newest first.")
  (keeper nil :documentation "The process id of the keeper.")
  (hostname nil :documentation "What the host calls itself.")
  (slot nil :documentation "The number of this Emacs's configuration there.")
  (editor nil :documentation "The program that CLIs there take for an editor, or nil.")
  (proven nil :documentation "Non-nil if it was ready before.")
  (sharing-options nil :documentation "Options by which ssh uses a connection that exists.")
  (sharing nil :documentation "Non-nil if ssh gets these options.")
  (connect-timeout 20 :documentation "Seconds that ssh may take until the host answers.")
  (wire nil :documentation "The number of the wire, or nil.")
  (check nil :documentation "The program that must end before the wire is opened, or nil.")
  (project nil :documentation "The project here that it was made for, or nil.")
  (requests nil :documentation "Alist of the numbers of requests and functions for the answers.")
  (logged-in nil :documentation "Non-nil once the shell on the host has answered.")
  (lines nil :documentation "The last lines not from the keeper, the newest first.")
  (timer nil :documentation "The timer that ends an attempt or begins the next, or nil.")
  (lost-since nil :documentation "When it was lost, after it had held for a while, or nil.")
  (waiters nil :documentation "Functions to call when it is ready or has failed."))

(defvar gemini-companion-host-connection-edit-functions nil
  "Functions called with a connection and a message about a text to edit, an alist.")

(defvar gemini-companion-host-connection-all nil
  "The connections, and those that have failed, the oldest first.")

;;;; Limits

(defvar gemini-companion-host-connection--patience 30
  "Seconds within which a host must send its next message, until it is ready.")

(defvar gemini-companion-host-connection--first-pause 0.5
  "Seconds until the first attempt to connect again; they grow to 15.")

;;;; Connections

(defun gemini-companion-host-connection-of-directory (directory)
  "Return the connection to the host of DIRECTORY, a remote name, or nil.
It may have failed."
  (seq-find (lambda (it) (string-prefix-p (gemini-companion-host-prefix it) directory))
            gemini-companion-host-connection-all))

(defun gemini-companion-host-connection-add (prefix name hops &rest slots)
  "Return the connection to the host with PREFIX, or a new one with NAME, by HOPS.
SLOTS are keywords and values for a new one.  The host is served from now on."
  (or (gemini-companion-host-named prefix)
      (let ((failed (gemini-companion-host-connection-of-directory prefix))
            (connection (apply #'gemini-companion-host-connection--make
                               :prefix prefix :name name :hops hops slots)))
        (setq gemini-companion-host-connection-all
              (append (remq failed gemini-companion-host-connection-all) (list connection)))
        (gemini-companion-host-add connection))))

(defun gemini-companion-host-connection-add-root (connection root)
  "Make ROOT, a directory name on the host of CONNECTION, a workspace root.
Ignore an empty one, or one with a \"~\": the keeper sends the home directory."
  (unless (or (string-empty-p root) (string-prefix-p "~" root))
    (gemini-companion-host-set-roots
     connection `(,@(gemini-companion-host-roots connection) ,root))))

(defun gemini-companion-host-connection-when-ready (connection function)
  "Call FUNCTION once CONNECTION is ready or has failed, perhaps at once.
Its argument is nil if it is ready, or else why not, as text for the user."
  (pcase (gemini-companion-host-connection-state connection)
    ('ready (funcall function nil))
    ((or 'failed 'closed) (funcall function
                                   (gemini-companion-host-connection-explanation connection)))
    (_ (cl-callf append (gemini-companion-host-connection-waiters connection) (list function)))))

(defun gemini-companion-host-connection--call-later (function &rest arguments)
  "Call FUNCTION with ARGUMENTS, but not while Emacs handles an event."
  (run-at-time 0 nil (lambda ()
                       (gemini-companion-log-errors "a connection"
                         (apply function arguments)))))

;;;; Making a connection

(defun gemini-companion-host-connection-start (connection &optional sharing)
  "Begin to make CONNECTION; if SHARING is non-nil, over a shared one."
  (gemini-companion-log-errors "a connection"
    (gemini-companion-host-connection--set-state connection 'connecting)
    (setf (gemini-companion-host-connection-sharing connection) sharing
          (gemini-companion-host-connection-sharing-options connection)
          (gemini-companion-host-connection--sharing-options
           (gemini-companion-host-connection-hops connection))
          (gemini-companion-host-connection-logged-in connection) nil
          (gemini-companion-host-connection-lines connection) nil
          (gemini-companion-host-connection-warnings connection) nil)
    (gemini-companion-host-connection--set-deadline connection)
    (if-let* ((inspection (gemini-companion-host-command-inspection
                           (gemini-companion-host-connection-hops connection))))
        (gemini-companion-host-connection--ask
         connection inspection
         (lambda (_status output)
           (setf (gemini-companion-host-mounts connection)
                 (gemini-companion-host-command-mounts
                  output (gemini-companion-host-prefix connection)))
           (gemini-companion-host-connection--open connection)))
      (gemini-companion-host-connection--open connection))))

(defun gemini-companion-host-connection--open (connection)
  "Open a wire to the host of CONNECTION."
  (condition-case problem
      (pcase-let* (((cl-struct gemini-companion-host-connection
                               prefix mounts sandbox connect-timeout)
                    connection)
                   (default-directory gemini-companion-agent-neutral-directory)
                   (`(,program . ,arguments)
                    (gemini-companion-host-connection--shell
                     connection "exec sh" nil
                     "-o" (format "ConnectTimeout=%d" connect-timeout)
                     "-o" "ServerAliveInterval=15" ; if Emacs exits after a cut, it ends
                     "-o" "ClearAllForwardings=yes"))
                   (file (or (executable-find program)
                             (error "Cannot find the program %s" program))))
        (gemini-companion-bridge-open-host prefix mounts sandbox)
        (setf (gemini-companion-host-connection-wire connection)
              (gemini-companion-bridge-open-wire
               prefix (cons file arguments)
               (gemini-companion-host-command-environment)
               (string-replace "@KEEPER@" (gemini-companion-host-command-quote
                                           (gemini-companion-bridge-host-program 'keeper))
                               (gemini-companion-bridge-host-program 'bootstrap)))))
    (error (gemini-companion-host-connection--end
            connection 'program (gemini-companion-ui-error-text problem)))))

(defun gemini-companion-host-connection--set-state (connection state &optional fault)
  "Set the state of CONNECTION to STATE, because of FAULT.
What waits for CONNECTION looks at that soon."
  (setf (gemini-companion-host-connection-state connection) state
        (gemini-companion-host-connection-since connection) (float-time)
        (gemini-companion-host-connection-fault connection) fault
        (gemini-companion-host-lost connection)
        (and (gemini-companion-host-connection-proven connection)
             (memq state '(connecting lost failed))
             (or (gemini-companion-host-lost connection) (float-time))))
  (force-mode-line-update t)
  (gemini-companion-bridge-set-host-reachable (gemini-companion-host-prefix connection)
                                              (eq state 'ready))
  (dolist (function (gemini-companion-host-connection-waiters connection))
    (gemini-companion-host-connection--call-later
     #'gemini-companion-host-connection-when-ready connection function))
  (setf (gemini-companion-host-connection-waiters connection) nil))

(defun gemini-companion-host-connection--shell (connection command terminal &rest options)
  "Return what runs the shell command COMMAND on the host of CONNECTION.
It has a terminal if TERMINAL is non-nil.  OPTIONS are more options of ssh."
  (gemini-companion-host-command
   (gemini-companion-host-connection-hops connection) command
   ;; It forwards neither the user's agent nor a display; nobody sees it, unless it has a terminal.
   `(,@(unless terminal '("-T" "-a" "-x" "-o" "PermitLocalCommand=no" "-o" "BatchMode=yes"))
     "-o" "RemoteCommand=none"
     ,@(if (gemini-companion-host-connection-sharing connection)
           (gemini-companion-host-connection-sharing-options connection)
         '("-o" "ControlMaster=no" "-o" "ControlPath=none"))
     ,@options)
   terminal))

(defun gemini-companion-host-connection-command (connection command &optional terminal)
  "Return what runs COMMAND in a login shell on the host of CONNECTION.
CONNECTION is ready.  The value is a list of the program and its
arguments.  If TERMINAL is non-nil, COMMAND has a terminal."
  (gemini-companion-host-connection--shell
   connection (gemini-companion-host-command-login command) terminal))

(defun gemini-companion-host-connection--set-deadline (connection)
  "End CONNECTION unless its host sends its next message in time."
  (gemini-companion-host-connection--set-timer
   connection gemini-companion-host-connection--patience
   #'gemini-companion-host-connection--end connection 'silent))

(defun gemini-companion-host-connection--set-timer (connection &optional seconds &rest call)
  "Make CONNECTION call the function and arguments CALL after SECONDS.
Cancel what it was to call before; without SECONDS, do only that."
  (when-let* ((timer (gemini-companion-host-connection-timer connection)))
    (cancel-timer timer))
  (setf (gemini-companion-host-connection-timer connection)
        (and seconds (apply #'run-at-time seconds nil call))))

(defun gemini-companion-host-connection-send (connection message)
  "Send MESSAGE, for `json-encode', to the keeper of CONNECTION."
  (gemini-companion-bridge-write-wire (gemini-companion-host-connection-wire connection)
                                      (json-encode message)))

;;;; Shared connections

;; ssh cannot ask for a password.  If it cannot log in, there may be a connection that Tramp or the
;; user's configuration shares.

(defun gemini-companion-host-connection--sharing-options (hops)
  "Return the options by which ssh uses a connection by HOPS that is shared."
  (let ((path (and (not (gemini-companion-host-command-container-p hops))
                   (gemini-companion-host-command-tramp-path hops))))
    `("-o" "ControlMaster=no" ,@(and path (list "-o" (concat "ControlPath=" path))))))

(defun gemini-companion-host-connection--share (connection detail)
  "Make CONNECTION over a shared one: ssh cannot log in, as DETAIL says.
If there is none, or that was tried, end CONNECTION."
  (pcase-let (((cl-struct gemini-companion-host-connection sharing-options sharing hops) connection)
              (end (lambda ()
                     (gemini-companion-host-connection--end connection 'authentication detail))))
    (gemini-companion-host-connection--release connection)
    (if sharing (funcall end)
      (gemini-companion-host-connection--set-deadline connection)
      (gemini-companion-host-connection--ask
       ;; Otherwise ssh would try to log in once more, and some hosts count failures.
       connection `(,gemini-companion-ssh-program
                    "-O" "check" ,@sharing-options ,@(gemini-companion-host-command-target hops))
       (lambda (status _output)
         (if (eql 0 status) (gemini-companion-host-connection-start connection t)
           (funcall end)))))))

(defun gemini-companion-host-connection--ask (connection command function)
  "Run COMMAND, a list, before opening the wire of CONNECTION.
Unless the attempt has ended, call FUNCTION with its exit status and output."
  (let ((process-environment (gemini-companion-host-command-environment)))
    (condition-case problem
        (setf (gemini-companion-host-connection-check connection)
              (gemini-companion-agent-run
               command
               (lambda (process output)
                 (when (eq process (gemini-companion-host-connection-check connection))
                   (setf (gemini-companion-host-connection-check connection) nil)
                   (funcall function (process-exit-status process) output)))))
      (error (gemini-companion-host-connection--end
              connection 'program (gemini-companion-ui-error-text problem))))))

;;;; What the host says

(defun gemini-companion-host-connection--of-wire (wire)
  "Return the connection that has WIRE, or nil."
  (seq-find (lambda (it) (eql wire (gemini-companion-host-connection-wire it)))
            gemini-companion-host-connection-all))

;; `gemini-companion-bridge-handle-event' calls this and the next two by name.
(defun gemini-companion--handle-wire-line (wire line)
  "Handle LINE, which the program of WIRE or a shell on its host has printed."
  (when-let* ((connection (gemini-companion-host-connection--of-wire wire)))
    (pcase (cons (gemini-companion-host-connection-state connection) line)
      ('(connecting . "gemini-companion: shell")
       (setf (gemini-companion-host-connection-logged-in connection) t)
       (gemini-companion-host-connection--set-deadline connection))
      (`(connecting . ,(pred (string-prefix-p "gemini-companion: fault node ")))
       (gemini-companion-host-connection--end
        connection 'node (gemini-companion-host-connection--shown
                          (string-remove-prefix "gemini-companion: fault node " line))))
      (_                                ; it may say why the connection ends
       (setf (gemini-companion-host-connection-lines connection)
             (seq-take (cons (string-remove-suffix "\r" line) ; ssh ends its own lines so
                             (gemini-companion-host-connection-lines connection))
                       20))))))

(defun gemini-companion--handle-wire-message (wire text)
  "Handle the message TEXT from the other end of WIRE, supposedly its keeper."
  (when-let* ((connection (gemini-companion-host-connection--of-wire wire)))
    (let ((message (ignore-errors (gemini-companion-ui-read-json text))))
      (pcase (and (consp message) (alist-get 'say message))
        ("home" (gemini-companion-host-connection--take-home connection (alist-get 'home message)))
        ("root" (gemini-companion-host-connection--take-root connection (alist-get 'root message)))
        ("ready" (gemini-companion-host-connection--ready connection message))
        ("file" (gemini-companion-host-connection--take-file connection message))
        ((or "edit" "unedited")
         (gemini-companion-log-run-hook 'gemini-companion-host-connection-edit-functions
                                        connection message))
        ("warning" (gemini-companion-host-connection--warn connection (alist-get 'text message)))
        ("fault" (gemini-companion-host-connection--end
                  connection (if (equal (alist-get 'kind message) "owner") 'owner 'keeper)
                  (gemini-companion-host-connection--shown (alist-get 'text message))))
        (_ (gemini-companion-host-connection--end connection 'broken))))))

(defun gemini-companion--handle-wire-ended (wire reason)
  "Handle the end of WIRE for REASON, as in `gemini-companion--mod-next-event'."
  (when-let* ((connection (gemini-companion-host-connection--of-wire wire)))
    (setf (gemini-companion-host-connection-wire connection) nil)
    (pcase reason
      ((pred stringp) (gemini-companion-host-connection--end connection 'program reason))
      ((or 'silent 'flood 'broken) (gemini-companion-host-connection--end connection reason))
      (_ (gemini-companion-host-connection--ended connection)))))

(defun gemini-companion-host-connection--shown (text)
  "Return TEXT, which a host has sent, for the user, or nil if it is no string."
  (and (stringp text)
       (truncate-string-to-width (gemini-companion-ui-one-line text) 300 nil nil "...")))

(defun gemini-companion-host-connection--warn (connection text)
  "Keep TEXT, a warning of the keeper of CONNECTION."
  (when-let* ((text (gemini-companion-host-connection--shown text)))
    (gemini-companion-log-add "%s warns: %s" (gemini-companion-host-connection-name connection)
                              text)
    (setf (gemini-companion-host-connection-warnings connection)
          (seq-take (cons text (delete text (gemini-companion-host-connection-warnings connection)))
                    5))))

(defun gemini-companion-host-connection--take-home (connection home)
  "Announce CONNECTION on its host.
If it has no workspace root, use the project that it was made for, if the
host mounts that, or else HOME."
  (when (and (stringp home) (eq (gemini-companion-host-connection-state connection) 'connecting))
    (pcase-let (((cl-struct gemini-companion-host-connection project roots) connection))
      (unless roots
        (gemini-companion-host-connection--take-root
         connection
         (or (and project (gemini-companion-host-name-there connection project)) home))))
    (gemini-companion-host-connection--set-deadline connection)
    (gemini-companion-host-connection--announce connection)))

(defun gemini-companion-host-connection--take-root (connection root)
  "Make ROOT, from the keeper of CONNECTION, a workspace root if it can be one."
  (when (and (stringp root)
             (string-match-p "\\`/[^[:cntrl:]]*\\'" root)
             ;; It must be a directory name in the form that Emacs uses.
             (not (string-match-p "//\\|/\\.\\.?\\(?:/\\|\\'\\)" root))
             ;; The host may send any number.
             (length< (gemini-companion-host-roots connection) 100))
    (gemini-companion-host-connection-add-root connection root)))

(defun gemini-companion-host-connection--ready (connection message)
  "Record that CONNECTION is ready; MESSAGE, an alist, is about its keeper."
  (let-alist message
    (when (and (natnump .pid) (natnump .slot) (stringp .host)
               (eq (gemini-companion-host-connection-state connection) 'connecting))
      (gemini-companion-host-connection--set-timer connection)
      (setf (gemini-companion-host-connection-connect-timeout connection)
            ;; After a cut, short attempts find out soonest that it is back.
            (max 5 (* 2 (- (float-time) (gemini-companion-host-connection-since connection)))))
      (gemini-companion-host-connection--set-state connection 'ready)
      (setf (gemini-companion-host-connection-proven connection) t
            (gemini-companion-host-connection-keeper connection) .pid
            (gemini-companion-host-connection-slot connection) .slot
            (gemini-companion-host-connection-editor connection) (and (stringp .editor) .editor)
            (gemini-companion-host-connection-hostname connection)
            (gemini-companion-host-connection--shown .host))
      (gemini-companion-log-add "connected to %s, where process %s of %s announces this Emacs"
                                (gemini-companion-host-connection-name connection) .pid
                                (gemini-companion-host-connection-hostname connection))
      ;; There may be new ones since the announcement.
      (gemini-companion-host-connection--send-roots connection))))

;;;; Messages to the keeper

(defun gemini-companion-host-connection--announce (connection)
  "Let the keeper of CONNECTION announce this Emacs."
  (let ((relay (gemini-companion-bridge-host-program 'relay)))
    (gemini-companion-host-connection-send
     connection
     `((do . announce)
       (relay . ,relay)
       (hash . ,(substring (secure-hash 'sha256 (encode-coding-string relay 'utf-8)) 0 16))
       (editor . ,(gemini-companion-bridge-host-program 'editor))
       ;; This distinguishes the configuration of this user from others on a host.
       (id . ,(replace-regexp-in-string
               "[^A-Za-z0-9._]" "_" (format "%s-%s" (system-name) (user-login-name)) t t))
       ;; This distinguishes this Emacs from all others.
       (emacs . ,(secure-hash 'md5 (format "%s %s %s %S" (gemini-companion-host-prefix connection)
                                           (system-name) (emacs-pid) before-init-time)))
       ;; Otherwise another Emacs that connects again could take the slot, with the clients.
       (slot . ,(gemini-companion-host-connection-slot connection))
       (roots . ,(vconcat (gemini-companion-host-roots connection)))
       (sandbox . ,(if (gemini-companion-host-sandbox connection) t :json-false))
       (agents . ,(cl-loop for agent in (gemini-companion-agent-names)
                           if (gemini-companion-agent-get agent :stdio)
                           vconcat `[((name . ,agent)
                                      (file . ,(gemini-companion-agent-get agent :file))
                                      (directory . ,(vconcat (gemini-companion-agent-get
                                                              agent :directory))))]))))))

(defun gemini-companion-host-connection--send-roots (connection)
  "Send the workspace roots to the keeper of CONNECTION."
  (gemini-companion-host-connection-send
   connection `((do . roots) (roots . ,(vconcat (gemini-companion-host-roots connection))))))

;;;; Files of the CLIs

(defun gemini-companion-host-connection-read-file (connection file function)
  "Read FILE on the host of CONNECTION, and call FUNCTION with its contents.
FILE is (VARIABLE DEFAULT NAME), as `:settings' in
`gemini-companion-agent-profiles'.  The argument of FUNCTION is an alist:
`name' is what the host calls the file; `error', a message, says why it
cannot be read; otherwise `text' is its contents, nil if there is no such
file."
  (gemini-companion-host-connection--request connection function
                                             `((do . read) (file . ,(vconcat file)))))

(defun gemini-companion-host-connection-write-file (connection file old text function)
  "Write TEXT to FILE on the host of CONNECTION, or remove it if TEXT is nil.
OLD is what was read from it before; if it has changed since, that is an
error.  For FILE and FUNCTION, see
`gemini-companion-host-connection-read-file'."
  (gemini-companion-host-connection--request
   connection function
   `((do . write) (file . ,(vconcat file)) (old . ,old) (text . ,text))))

(defun gemini-companion-host-connection--request (connection function request)
  "Send REQUEST to the keeper of CONNECTION; call FUNCTION with the answer."
  (let ((id (1+ (or (caar (gemini-companion-host-connection-requests connection)) 0))))
    (push (cons id function) (gemini-companion-host-connection-requests connection))
    (if (eq (gemini-companion-host-connection-state connection) 'ready)
        (gemini-companion-host-connection-send connection `((id . ,id) ,@request))
      ;; Nobody would answer: so FUNCTION gets an error, but only later, as it gets an answer.
      (gemini-companion-host-connection--drop-requests connection))))

(defun gemini-companion-host-connection--take-file (connection answer)
  "Pass ANSWER, an alist, from the keeper of CONNECTION to its function."
  (let-alist answer
    (when-let* ((request (assq .id (gemini-companion-host-connection-requests connection))))
      (setf (alist-get .id (gemini-companion-host-connection-requests connection) nil t) nil)
      (gemini-companion-host-connection--call-later
       (cdr request) `((name . ,(gemini-companion-host-connection--shown .name))
                       (error . ,(gemini-companion-host-connection--shown .error))
                       (text . ,(and (stringp .text) .text)))))))

(defun gemini-companion-host-connection--drop-requests (connection)
  "Call the functions that wait for answers on CONNECTION with an error."
  (pcase-dolist (`(,_ . ,function) (gemini-companion-host-connection-requests connection))
    (gemini-companion-host-connection--call-later
     function `((error . ,(format "the connection to %s was lost"
                                  (gemini-companion-host-connection-name connection))))))
  (setf (gemini-companion-host-connection-requests connection) nil))

;;;; Faults

(defconst gemini-companion-host-connection--faults
  '((program "the program for it cannot be run"
             "Install it, or set `gemini-companion-ssh-program' or `gemini-companion-containers'")
    (authentication "ssh cannot log in without asking for a password"
                    "Add your key to ssh-agent, or visit a file there first")
    (host-key "ssh does not trust the key of the host"
              "Log in once with ssh in a terminal, and check the key")
    (unreachable "it cannot be reached" "Check its name and the network")
    (node "Node.js is missing there" "Install it where your login shell finds it")
    (owner "a directory in which a CLI looks for its editor belongs to another user there"
           "Set TMPDIR there to a directory of your own, in a file that all shells read")
    (silent "it does not answer" "Log in with ssh in a terminal, to see what it waits for")
    (flood "it sends far more than it should"
           "Look at what the startup files of your shell there print")
    (broken "what it sends makes no sense"
            "Look at what the startup files of your shell there print")
    (keeper "it cannot announce this Emacs" "M-x gemini-companion-log says more")
    (ended "the program that leads there has ended" "M-x gemini-companion-log says more"))
  "Alist of kinds of faults, what they mean, and what to do.")

(defconst gemini-companion-host-connection--ssh-errors
  '(("Permission denied\\|Too many authentication failures\\|No more authentication methods\
\\|no mutual signature"
     . authentication)
    ("Host key verification failed\\|HOST IDENTIFICATION HAS CHANGED\\|host key is known for\
\\|no matching host key"
     . host-key)
    ("Could not resolve\\|[Cc]onnection timed out\\|Connection refused\\|No route to host\
\\|Network is unreachable\\|Operation timed out\\|Name or service not known\
\\|[Cc]onnection closed by\\|Connection reset by\\|banner exchange"
     . unreachable))
  "Alist of regexps for what ssh prints and kinds of faults.")

(defun gemini-companion-host-connection-explanation (connection)
  "Return why CONNECTION is not ready, and what to do, as text for the user."
  (pcase-let ((`(,text . ,remedy) (gemini-companion-host-connection-diagnosis connection)))
    (concat text (and remedy (concat ".  " remedy)))))

(defun gemini-companion-host-connection-diagnosis (connection)
  "Return why CONNECTION is not ready, as (TEXT . REMEDY); REMEDY may be nil."
  (pcase-let (((cl-struct gemini-companion-host-connection
                          name (fault `(,reason . ,remedy)))
               connection))
    (cons (concat name " is not connected" (and reason (concat ": " reason))) remedy)))

(defun gemini-companion-host-connection-describe-state (connection)
  "Return the state of CONNECTION as text for the user, without its name."
  (pcase-let* (((cl-struct gemini-companion-host-connection
                           state since lost-since (fault `(,reason . ,_)) hostname keeper proven)
                connection)
               ;; `since' is only when the last attempt failed.
               (start (if (eq state 'lost) lost-since since))
               (duration (gemini-companion-ui-duration (- (float-time) start))))
    (pcase state
      ('ready (format "connected for %s (%s, process %s there)" duration hostname keeper))
      ('connecting (if proven "lost, connecting again..." "connecting..."))
      ('lost (format "lost for %s, trying again: %s" duration reason))
      (_ (format "not connected: %s" reason)))))

;;;; The end of a connection

(defun gemini-companion-host-connection--ended (connection)
  "Handle the end of the program that held CONNECTION."
  (pcase-let* (((cl-struct gemini-companion-host-connection lines hops logged-in) connection)
               (lines (seq-remove #'string-blank-p lines))
               (detail (gemini-companion-host-connection--shown (car lines)))
               ;; Once it has logged in, these may be from a program there.
               (kind (or (and (gemini-companion-host-command-ssh-p hops)
                              (not logged-in)
                              (assoc-default (string-join lines "\n")
                                             gemini-companion-host-connection--ssh-errors
                                             #'string-match-p))
                         'ended)))
    (if (eq kind 'authentication)
        (gemini-companion-host-connection--share connection detail)
      (gemini-companion-host-connection--end connection kind detail))))

(defun gemini-companion-host-connection--release (connection)
  "End the wire, the process and the timer of CONNECTION."
  (pcase-let (((cl-struct gemini-companion-host-connection wire check) connection))
    (setf (gemini-companion-host-connection-wire connection) nil
          (gemini-companion-host-connection-check connection) nil)
    (gemini-companion-host-connection--set-timer connection)
    (gemini-companion-host-connection--drop-requests connection)
    ;; The keeper cleans up.
    (when wire (gemini-companion-bridge-close-wire wire))
    (when check (delete-process check))))

(defun gemini-companion-host-connection--end (connection kind &optional detail)
  "End this attempt at CONNECTION because of a fault of KIND, and maybe retry.
DETAIL, text for the user, may say more."
  (gemini-companion-log-errors "the end of a connection"
    (gemini-companion-host-connection--release connection)
    (pcase-let* ((`(,reason ,remedy) (alist-get kind gemini-companion-host-connection--faults))
                 (fault (cons (concat reason (and detail (format " (%s)" detail))) remedy)))
      (if (and (gemini-companion-host-connection-proven connection)
               ;; These faults pass, so it makes sense to connect again.  If a program that has run
               ;; cannot be run now, there may be too many open files.
               (memq kind '(unreachable silent ended broken program)))
          (gemini-companion-host-connection--lose connection fault)
        (gemini-companion-host-connection--fail connection fault)))))

(defun gemini-companion-host-connection--fail (connection fault)
  "Give up CONNECTION, because of FAULT."
  (gemini-companion-host-connection--set-state connection 'failed fault)
  (let ((text (gemini-companion-host-connection-explanation connection)))
    (gemini-companion-log-add "%s" text)
    (if (gemini-companion-host-connection-proven connection)
        ;; Open reviews stay, as the user may connect again.
        (gemini-companion-ui-message connection "%s; then M-x gemini-companion-connect" text)
      (gemini-companion-host-remove connection)
      (gemini-companion-bridge-close-host (gemini-companion-host-prefix connection)))))

(defun gemini-companion-host-connection--lose (connection fault)
  "Connect CONNECTION again after a pause; it was lost because of FAULT."
  (pcase-let* (((cl-struct gemini-companion-host-connection state since lost-since) connection)
               (now (float-time))
               (ready (eq state 'ready))
               (held (and ready (> (- now since) 30))) ; otherwise, the pauses go on growing
               (start (if (or held (null lost-since)) now lost-since)))
    (gemini-companion-host-connection--set-state connection 'lost fault)
    (setf (gemini-companion-host-connection-lost-since connection) start)
    ;; Only the status shows further attempts.
    (when (or ready (null lost-since))
      (gemini-companion-log-add "%s; trying again"
                                (car (gemini-companion-host-connection-diagnosis connection))))
    (gemini-companion-host-connection--set-timer
     connection
     ;; A tenth of the time for which it has been lost.
     (max gemini-companion-host-connection--first-pause (min (/ (- now start) 10) 15))
     #'gemini-companion-host-connection-start connection)))

(defun gemini-companion-host-connection-close (connection)
  "End CONNECTION for good."
  (setq gemini-companion-host-connection-all
        (remq connection gemini-companion-host-connection-all))
  (gemini-companion-host-connection--set-state connection 'closed)
  (gemini-companion-log-add "disconnected from %s"
                            (gemini-companion-host-connection-name connection))
  (gemini-companion-host-connection--release connection)
  (gemini-companion-host-remove connection)
  (gemini-companion-bridge-close-host (gemini-companion-host-prefix connection)))

;;;; Hosts that are served

(defun gemini-companion-host-connection--sync ()
  "End connections to hosts that are no longer served; send others the roots."
  (dolist (connection gemini-companion-host-connection-all)
    (let ((state (gemini-companion-host-connection-state connection)))
      (cond ((memq connection gemini-companion-host-all)
             (when (eq state 'ready)
               (gemini-companion-log-errors "workspace roots"
                 (gemini-companion-host-connection--send-roots connection))))
            ;; The user may want to know why the first attempt has failed.
            ((or (not (eq state 'failed)) (gemini-companion-host-connection-proven connection))
             (gemini-companion-host-connection-close connection))))))

(add-hook 'gemini-companion-host-change-hook #'gemini-companion-host-connection--sync)

(provide 'gemini-companion-host-connection)
;;; gemini-companion-host-connection.el ends here

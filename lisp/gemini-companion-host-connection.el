;;; gemini-companion-host-connection.el --- One connection to a host -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; For each host the user's ssh runs a shell there, which gets a script on its standard input, the
;; keeper.  The keeper announces this Emacs as long as the connection lasts.  Clients there reach
;; the server by a socket that ssh forwards.  A connection that breaks is made again.
;;
;; Nothing here waits, or uses Tramp.  What a host says is not trusted.

;;; Code:

(require 'cl-lib)
(require 'json)
(require 'seq)
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-host)
(require 'gemini-companion-host-ssh)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)

;;;; State

(cl-defstruct (gemini-companion-host-connection
               (:constructor gemini-companion-host-connection--make)
               (:copier nil))
  "A connection to a host."
  (host nil :documentation "The `gemini-companion-host'.")
  (name nil :documentation "What users call the host, \"me@build\".")
  (target nil :documentation "The arguments of ssh that lead to the host.")
  (tramp-path nil :documentation "The control path of what Tramp shares, or nil.")
  (state 'new :documentation "`new', `connecting', `ready', `lost', `failed' or `closed'.")
  (since (float-time) :documentation "When it got into that state.")
  (fault nil :documentation "Why it is lost or has failed, (KIND . DETAIL), or nil.")
  (warnings nil :documentation "What the keeper warns of, the newest first.")
  (keeper nil :documentation "The process id of the keeper, a string.")
  (hostname nil :documentation "What the host calls itself.")
  (slot nil :documentation "Which of the configurations there is that of this Emacs.")
  (proven nil :documentation "Non-nil if it was ready before.")
  (routes nil :documentation "The routes still to be tried; the first one is in use.")
  (process nil :documentation "The ssh that holds the connection, or nil.")
  (told nil :documentation "The roots that its keeper was told last.")
  (forward nil :documentation "The ssh that asks for the socket, or nil.")
  (socket nil :documentation "The name of the socket on the host.")
  (directory nil :documentation "The temporary directory of the control socket, or nil.")
  (stage nil :documentation "What the host is to say next: `shell', `socket' or `ready'.")
  (tail "" :documentation "The beginning of a line that is not complete.")
  (received 0 :documentation "How many characters came from the host.")
  (errors nil :documentation "The last lines not from the keeper, the newest first.")
  (timer nil :documentation "The timer that ends an attempt or begins the next, or nil.")
  (pause nil :documentation "Seconds until the next attempt.")
  (lost nil :documentation "When it was lost first, t once the user knows, or nil.")
  (waiters nil :documentation "Functions to call when it is ready or has failed."))

(defvar gemini-companion-host-connection--all nil
  "The connections, and those that have failed, the oldest first.")

;;;; Limits

(defvar gemini-companion-host-connection--patience 30
  "Seconds in which a host must say what it is to say next.")

(defvar gemini-companion-host-connection--first-pause 0.5
  "Seconds until the first attempt to connect again; later ones take longer.")

(defvar gemini-companion-host-connection--notice-delay 30
  "Seconds after which the user is told that a connection is lost.")

;;;; Connections

(defun gemini-companion-host-connection-all ()
  "Return the connections, the oldest first, also those that have failed."
  gemini-companion-host-connection--all)

(defun gemini-companion-host-connection-prefix (connection)
  "Return the prefix of the names of CONNECTION's files in Emacs."
  (gemini-companion-host-prefix (gemini-companion-host-connection-host connection)))

(defun gemini-companion-host-connection-of-directory (directory)
  "Return the connection to the host of DIRECTORY, a remote name, or nil.
It may have failed."
  (seq-find (lambda (it) (string-prefix-p (gemini-companion-host-connection-prefix it) directory))
            gemini-companion-host-connection--all))

(defun gemini-companion-host-connection-add (host name hops)
  "Return a new connection to HOST, which is called NAME and reached by HOPS.
If it replaces one that has failed, it goes on with the clients of that."
  (let* ((failed
          (gemini-companion-host-connection-of-directory (gemini-companion-host-prefix host)))
         (connection (gemini-companion-host-connection--make
                      :host host :name name
                      :target (gemini-companion-host-ssh-target hops)
                      :tramp-path (gemini-companion-host-ssh-tramp-path hops)
                      :pause gemini-companion-host-connection--first-pause
                      :proven (and failed (gemini-companion-host-connection-proven failed))
                      :slot (and failed (gemini-companion-host-connection-slot failed)))))
    (setq gemini-companion-host-connection--all
          (append (remq failed gemini-companion-host-connection--all) (list connection)))
    connection))

(defun gemini-companion-host-connection-add-root (connection root)
  "Make ROOT, a directory name on the host of CONNECTION, a workspace root.
An empty one stands for the home directory, which the keeper will tell."
  (unless (or (string-empty-p root) (string-prefix-p "~" root))
    (let ((host (gemini-companion-host-connection-host connection)))
      (gemini-companion-host-set-roots host `(,@(gemini-companion-host-roots host) ,root)))))

(defun gemini-companion-host-connection-when-ready (connection function)
  "Call FUNCTION once CONNECTION is ready or has failed, perhaps at once.
Its argument is nil if it is ready, or else why not, as text for the user."
  (pcase (gemini-companion-host-connection-state connection)
    ('ready (funcall function nil))
    ((or 'failed 'closed) (funcall function
                                   (gemini-companion-host-connection-explanation connection)))
    (_ (setf (gemini-companion-host-connection-waiters connection)
             (append (gemini-companion-host-connection-waiters connection) (list function))))))

(defun gemini-companion-host-connection--tell-waiters (connection)
  "Call the functions that wait for CONNECTION, but not in a process filter."
  (dolist (function (gemini-companion-host-connection-waiters connection))
    (run-at-time 0 nil (lambda ()
                         (gemini-companion-log-errors "a connection"
                           (gemini-companion-host-connection-when-ready connection function)))))
  (setf (gemini-companion-host-connection-waiters connection) nil))

(defun gemini-companion-host-connection-ssh-arguments (connection)
  "Return the arguments of ssh for another login on the host of CONNECTION.
The login outlives CONNECTION, unless both need what Tramp or the user
shares."
  (append (unless (gemini-companion-host-connection--own-p connection)
            (gemini-companion-host-connection--control connection))
          (gemini-companion-host-connection-target connection)))

;;;; Making a connection

(defun gemini-companion-host-connection-start (connection)
  "Begin to make CONNECTION, by its best route."
  (gemini-companion-log-errors "a connection"
    (let ((tramp (gemini-companion-host-connection-tramp-path connection)))
      (setf (gemini-companion-host-connection-routes connection)
            `(own
              ,@(and tramp `(("-o" "ControlMaster=no" "-o" ,(concat "ControlPath=" tramp))))
              ("-o" "ControlMaster=no"))))
    (gemini-companion-host-connection--attempt connection)))

(defun gemini-companion-host-connection--attempt (connection)
  "Begin to make CONNECTION by its current route."
  (gemini-companion-host-connection--set-state connection 'connecting)
  (setf (gemini-companion-host-connection-stage connection) 'shell
        (gemini-companion-host-connection-tail connection) ""
        (gemini-companion-host-connection-received connection) 0
        (gemini-companion-host-connection-errors connection) nil
        (gemini-companion-host-connection-warnings connection) nil)
  (gemini-companion-host-connection--await connection)
  (condition-case problem
      (let ((default-directory gemini-companion-agent-neutral-directory))
        (unless (executable-find gemini-companion-ssh-program)
          (error "Cannot find the program %s" gemini-companion-ssh-program))
        (setf (gemini-companion-host-connection-directory connection) (make-temp-file "gc-" t))
        (gemini-companion-host-connection--run-master connection))
    (error
     ;; If it could be run before, there may be too many open files.
     (gemini-companion-host-connection--end
      connection (if (gemini-companion-host-connection-proven connection) 'ended 'program)
      (gemini-companion-ui-error-text problem)))))

(defun gemini-companion-host-connection--set-state (connection state &optional fault)
  "Bring CONNECTION into STATE, for the reason FAULT."
  (setf (gemini-companion-host-connection-state connection) state
        (gemini-companion-host-connection-since connection) (float-time)
        (gemini-companion-host-connection-fault connection) fault)
  (gemini-companion-bridge-set-host-reachable (gemini-companion-host-connection-prefix connection)
                                              (eq state 'ready)))

(defconst gemini-companion-host-connection--quiet-options
  '("-T" "-a" "-x" "-o" "PermitLocalCommand=no" "-o" "BatchMode=yes" "-o" "RemoteCommand=none")
  "Options for each ssh.
Nobody sees it: it forwards neither the user's agent nor a display.")

(defun gemini-companion-host-connection--run-master (connection)
  "Start the ssh that holds CONNECTION."
  (let ((process
         (gemini-companion-host-connection--run
          connection
          `(,@gemini-companion-host-connection--quiet-options
            "-o" "ConnectTimeout=10" "-o" "ServerAliveInterval=15" "-o" "ServerAliveCountMax=2"
            "-o" "ClearAllForwardings=yes" "-o" "ControlPersist=no"
            ,@(and (gemini-companion-host-connection--own-p connection) '("-M"))
            ,@(gemini-companion-host-connection--control connection)
            ,@(gemini-companion-host-connection-target connection)
            "exec sh")
          (lambda (text) (gemini-companion-host-connection--receive connection text))
          (lambda (_status) (gemini-companion-host-connection--ended connection)))))
    (setf (gemini-companion-host-connection-process connection) process)
    ;; The rest follows when the shell has answered: this process reads nothing until it has logged
    ;; in, and Emacs would wait for that once the pipe is full.  It may have ended already.
    (ignore-errors
      (process-send-string process "echo; echo 'gemini-companion: shell'\n"))))

(defun gemini-companion-host-connection--run (connection command output ended)
  "Run ssh with the arguments COMMAND for CONNECTION, and return its process.
Call OUTPUT with each part of its output, and ENDED with its exit status,
unless CONNECTION has released it."
  (let ((current-p (lambda (process)
                     (memq process (list (gemini-companion-host-connection-process connection)
                                         (gemini-companion-host-connection-forward connection))))))
    (gemini-companion-host-ssh-make-process
     command
     :filter (lambda (process text)
               (when (funcall current-p process)
                 (gemini-companion-log-errors "output of ssh" (funcall output text))))
     :sentinel (lambda (process _event)
                 (when (and (not (process-live-p process)) (funcall current-p process))
                   (gemini-companion-log-errors "the end of ssh"
                     (funcall ended (process-exit-status process))))))))

(defun gemini-companion-host-connection--await (connection)
  "Give the host of CONNECTION some time to say what it is to say next."
  (gemini-companion-host-connection--set-timer
   connection gemini-companion-host-connection--patience
   #'gemini-companion-host-connection--end connection 'silent))

(defun gemini-companion-host-connection--set-timer (connection &optional seconds &rest call)
  "Let CONNECTION call the function and arguments CALL after SECONDS, if any.
It does no longer what it was to do before."
  (when-let* ((timer (gemini-companion-host-connection-timer connection)))
    (cancel-timer timer))
  (setf (gemini-companion-host-connection-timer connection)
        (and seconds (apply #'run-at-time seconds nil call))))

(defun gemini-companion-host-connection--send (connection text)
  "Send the line TEXT to the keeper of CONNECTION."
  (process-send-string (gemini-companion-host-connection-process connection) (concat text "\n")))

;;;; Routes

;; The first route is `own', an ssh of our own.  It cannot ask for a password, so if it may not log
;; in, there may be a connection that Tramp or the user's configuration shares: the others are lists
;; of ssh's options for that.

(defun gemini-companion-host-connection--control (connection)
  "Return ssh's options for what CONNECTION shares."
  (if (gemini-companion-host-connection--own-p connection)
      (list "-S" (expand-file-name "c" (gemini-companion-host-connection-directory connection)))
    (car (gemini-companion-host-connection-routes connection))))

(defun gemini-companion-host-connection--own-p (connection)
  "Return non-nil if CONNECTION has an ssh of its own, and shares none."
  (eq 'own (car (gemini-companion-host-connection-routes connection))))

(defun gemini-companion-host-connection--next-route (connection fault)
  "Make CONNECTION by its next route, if that is open.
If no route is left, end it because of FAULT, (KIND . DETAIL)."
  (gemini-companion-host-connection--release connection)
  (if (null (cdr (gemini-companion-host-connection-routes connection)))
      (gemini-companion-host-connection--end connection (car fault) (cdr fault))
    (pop (gemini-companion-host-connection-routes connection))
    (gemini-companion-host-connection--await connection)
    ;; Otherwise ssh would try to log in once more, and some hosts count failures.
    (setf (gemini-companion-host-connection-process connection)
          (gemini-companion-host-connection--run
           connection
           `("-O" "check" ,@(gemini-companion-host-connection--control connection)
             ,@(gemini-companion-host-connection-target connection))
           #'ignore
           (lambda (status)
             (if (eql 0 status) (gemini-companion-host-connection--attempt connection)
               (gemini-companion-host-connection--next-route connection fault)))))))

;;;; What the host says

(defun gemini-companion-host-connection--receive (connection text)
  "Handle TEXT, the next output of the host of CONNECTION, or of its ssh."
  (let* ((process (gemini-companion-host-connection-process connection))
         (lines (split-string (concat (gemini-companion-host-connection-tail connection) text)
                              "\n")))
    (setf (gemini-companion-host-connection-tail connection) (car (last lines)))
    (if (> (cl-incf (gemini-companion-host-connection-received connection) (length text))
           (* 64 1024))
        (gemini-companion-host-connection--end connection 'flood)
      (dolist (line (butlast lines))
        ;; A line may have ended the connection.
        (when (eq process (gemini-companion-host-connection-process connection))
          ;; What the keeper says begins with this.
          (if (string-prefix-p "gemini-companion: " line)
              (gemini-companion-host-connection--line
               connection (string-remove-prefix "gemini-companion: " line))
            (setf (gemini-companion-host-connection-errors connection)
                  (seq-take (cons line (gemini-companion-host-connection-errors connection))
                            20))))))))

(defun gemini-companion-host-connection--line (connection line)
  "Handle LINE, from the keeper of CONNECTION, or from a host that pretends."
  (pcase-let ((stage (gemini-companion-host-connection-stage connection))
              ;; The text before the first space, and after it.
              (`(,word ,rest) (and (string-match "\\`\\([^ ]*\\) ?\\(.*\\)" line)
                                   (list (match-string 1 line) (match-string 2 line)))))
    (pcase (cons stage word)
      ('(shell . "shell")
       (setf (gemini-companion-host-connection-stage connection) 'socket)
       (gemini-companion-host-connection--await connection)
       (gemini-companion-host-connection--send
        connection (gemini-companion-host-connection--script connection)))
      ('(socket . "home") (gemini-companion-host-connection--take-home connection rest))
      ('(socket . "socket") (gemini-companion-host-connection--forward connection rest))
      ('(ready . "ready") (gemini-companion-host-connection--ready connection rest))
      (`(,_ . "warning")
       (let ((text (gemini-companion-host-connection--shown rest))
             (known (gemini-companion-host-connection-warnings connection)))
         (gemini-companion-log-add "%s warns: %s" (gemini-companion-host-connection-name connection)
                                   text)
         (setf (gemini-companion-host-connection-warnings connection)
               (seq-take (cons text (delete text known)) 5))))
      (`(,_ . "fault")
       (gemini-companion-host-connection--end
        connection
        (cond ((string-prefix-p "no node" rest) 'node)
              ((string-search "belongs to another user" rest) 'owner)
              (t 'keeper))
        (gemini-companion-host-connection--shown rest))))))

(defun gemini-companion-host-connection--shown (text)
  "Return TEXT, which a host or ssh has printed, for the user."
  (truncate-string-to-width (gemini-companion-ui-one-line text) 300 nil nil "..."))

(defun gemini-companion-host-connection--take-home (connection home)
  "Make HOME the workspace root of the host of CONNECTION if it has none."
  (when (and (null (gemini-companion-host-roots (gemini-companion-host-connection-host connection)))
             (string-match-p "\\`/[^[:cntrl:]]*\\'" home)
             ;; It must be the name of a directory as Emacs writes it.
             (not (string-match-p "//\\|/\\.\\.?\\(?:/\\|\\'\\)" home)))
    (gemini-companion-host-connection-add-root connection home)))

(defun gemini-companion-host-connection--forward (connection path)
  "Let the server be reached as the socket PATH on the host of CONNECTION."
  ;; The rest means something to ssh, which would put variables of its environment into the name.
  (if (not (string-match-p "\\`/[^:%$\\[:cntrl:]]\\{1,120\\}\\'" path))
      (gemini-companion-host-connection--end connection 'keeper "it names no socket")
    (setf (gemini-companion-host-connection-stage connection) 'ready)
    (gemini-companion-host-connection--await connection)
    (let ((output ""))
      (setf (gemini-companion-host-connection-socket connection) path
            (gemini-companion-host-connection-forward connection)
            (gemini-companion-host-connection--run
             connection
             (gemini-companion-host-connection--control-forward connection "forward" path)
             (lambda (text) (setq output (concat output text)))
             (lambda (status)
               (gemini-companion-host-connection--forwarded connection status output)))))))

(defun gemini-companion-host-connection--control-forward (connection command path)
  "Return the arguments of ssh for COMMAND about the socket PATH of CONNECTION."
  `(;; What the user's configuration forwards is no business of this connection.
    ,@(and (gemini-companion-host-connection--own-p connection) '("-F" "/dev/null"))
    ,@(gemini-companion-host-connection--control connection)
    "-O" ,command "-R" ,(format "%s:127.0.0.1:%d" path (gemini-companion-bridge-port))
    ,@(gemini-companion-host-connection-target connection)))

(defun gemini-companion-host-connection--forwarded (connection status output)
  "Tell the keeper of CONNECTION that the socket is there, if STATUS is 0.
OUTPUT is what ssh has printed."
  (setf (gemini-companion-host-connection-forward connection) nil)
  (if (not (eql status 0))
      (gemini-companion-host-connection--end
       connection
       ;; A host that has forwarded before is not configured wrong.
       (if (gemini-companion-host-connection-proven connection) 'ended 'forwarding)
       (gemini-companion-host-connection--last-line output))
    (setf (gemini-companion-host-connection-told connection) nil)
    (gemini-companion-host-connection--send-roots connection)
    ;; Otherwise another Emacs that is also connected again could take it, and the clients with it.
    (when-let* ((slot (gemini-companion-host-connection-slot connection)))
      (gemini-companion-host-connection--send connection (concat "slot " slot)))
    (gemini-companion-host-connection--send connection "forwarded")))

(defun gemini-companion-host-connection--ready (connection words)
  "CONNECTION is ready; WORDS are the keeper's process id, its host, and a number."
  (when (string-match "\\`\\([1-9][0-9]\\{,9\\}\\) \\([[:alnum:]._-]\\{1,64\\}\\) \
\\([0-9]\\{1,4\\}\\)\\'" words)
    (let ((keeper (match-string 1 words))
          (hostname (match-string 2 words))
          (slot (match-string 3 words))
          (name (gemini-companion-host-connection-name connection)))
      (gemini-companion-host-connection--set-timer connection)
      (gemini-companion-host-connection--set-state connection 'ready)
      (setf (gemini-companion-host-connection-stage connection) nil
            (gemini-companion-host-connection-proven connection) t
            (gemini-companion-host-connection-keeper connection) keeper
            (gemini-companion-host-connection-slot connection) slot
            (gemini-companion-host-connection-hostname connection) hostname)
      (gemini-companion-log-add "connected to %s, where process %s of %s announces this Emacs"
                                name keeper hostname)
      (when (eq (gemini-companion-host-connection-lost connection) t)
        (gemini-companion-ui-message connection "The connection to %s is back" name))
      (setf (gemini-companion-host-connection-lost connection) nil)
      ;; Some may have been added since the keeper was told.
      (gemini-companion-host-connection--send-roots connection)
      (gemini-companion-host-connection--tell-waiters connection))))

;;;; What the keeper is told

(defun gemini-companion-host-connection--script (connection)
  "Return the keeper for the host of CONNECTION, with everything filled in."
  (pcase-let* ((prefix (gemini-companion-host-connection-prefix connection))
               (tokens (gemini-companion-bridge-open-host prefix))
               (`(,relay . ,keeper) (gemini-companion-bridge-host-programs))
               (`(,workspace . ,roots) (gemini-companion-host-connection--roots connection))
               (hash (substring (secure-hash 'sha256 (encode-coding-string relay 'utf-8)) 0 16))
               ;; What tells the configuration of this user from others' on a host.
               (id (replace-regexp-in-string
                    "[^A-Za-z0-9._]" "_" (format "%s-%s" (system-name) (user-login-name)) t t))
               ;; What tells this Emacs from all others.
               (emacs (secure-hash 'md5 (format "%s %s %s %S" prefix (system-name) (emacs-pid)
                                                before-init-time)))
               (words `(("@RELAY@" . ,relay) ("@HASH@" . ,hash) ("@ID@" . ,id) ("@EMACS@" . ,emacs)
                        ("@WORKSPACE@" . ,workspace) ("@ROOTS@" . ,roots))))
    (replace-regexp-in-string
     "@[A-Z]+@"
     (lambda (placeholder)
       (pcase (assoc placeholder words)
         (`(,_ . ,text) (gemini-companion-host-ssh-quote text))
         (_ (if (equal placeholder "@AGENTS@") (gemini-companion-host-connection--agents tokens)
              placeholder))))
     keeper t t)))

(defun gemini-companion-host-connection--roots (connection)
  "Return the roots of CONNECTION as (STRING . ARRAY), both JSON."
  (let ((roots (gemini-companion-host-roots (gemini-companion-host-connection-host connection))))
    (cons (json-encode-string (string-join roots ":"))
          (json-encode (vconcat roots)))))

(defun gemini-companion-host-connection--send-roots (connection)
  "Tell the keeper of CONNECTION the workspace roots, unless it knows them."
  (let ((roots (gemini-companion-host-connection--roots connection)))
    (unless (equal roots (gemini-companion-host-connection-told connection))
      (setf (gemini-companion-host-connection-told connection) roots)
      (gemini-companion-host-connection--send connection
                                              (format "roots\t%s\t%s" (car roots) (cdr roots))))))

(defun gemini-companion-host-connection--agents (tokens)
  "Return the lines of the keeper that announce the agents of TOKENS, an alist."
  (cl-loop for (agent . token) in tokens
           for directory = (gemini-companion-agent-get agent :directory)
           if (gemini-companion-agent-get agent :stdio)
           concat (concat
                   "agent "
                   (mapconcat #'gemini-companion-host-ssh-quote
                              `(,(symbol-name agent)
                                ,(json-encode
                                  `((host . ,(format "127.0.0.1:%d" (gemini-companion-bridge-port)))
                                    (token . ,token)))
                                ,(gemini-companion-agent-get agent :file)
                                ,(symbol-name (car directory))
                                ,@(cdr directory))
                              " ")
                   "\n")))

;;;; Faults

(defconst gemini-companion-host-connection--faults
  '((program "ssh cannot be run" "Install OpenSSH, or set `gemini-companion-ssh-program'")
    (authentication "ssh cannot log in without asking for a password"
                    "Add your key to ssh-agent, or visit a file there first")
    (host-key "ssh does not trust the key of the host"
              "Log in once by ssh in a terminal, and check the key")
    (unreachable "it cannot be reached" "Check its name and the network")
    (forwarding "it refuses to forward a socket"
                "Its sshd must not forbid AllowTcpForwarding and AllowStreamLocalForwarding")
    (node "Node.js is missing there" "Install it where a shell that is not interactive finds it")
    (owner "a directory that a CLI looks into belongs to another user there"
           "Set TMPDIR there to a directory of your own, in a file that all shells read")
    (silent "it does not answer" "Log in by ssh in a terminal, to see what it waits for")
    (flood "it sends far more than it should"
           "Look at what the startup files of your shell there print")
    (keeper "it cannot announce this Emacs" "M-x gemini-companion-log says more")
    (ended "ssh has ended" "M-x gemini-companion-log says more"))
  "Alist of kinds of faults, what they mean, and what to do.")

(defun gemini-companion-host-connection-explanation (connection)
  "Return why CONNECTION is not ready, and what to do, as text for the user."
  (pcase-let ((`(,text . ,remedy) (gemini-companion-host-connection-diagnosis connection)))
    (concat text (and remedy (concat ".  " remedy)))))

(defun gemini-companion-host-connection-diagnosis (connection)
  "Return why CONNECTION is not ready, as (TEXT . REMEDY); REMEDY may be nil."
  (let ((kind (car (gemini-companion-host-connection-fault connection)))
        (reason (gemini-companion-host-connection--reason connection)))
    (cons (concat (gemini-companion-host-connection-name connection) " is not connected"
                  (and reason (concat ": " reason)))
          (cadr (alist-get kind gemini-companion-host-connection--faults)))))

(defun gemini-companion-host-connection--reason (connection)
  "Return why CONNECTION is not ready as text for the user, nil if unknown."
  (pcase (gemini-companion-host-connection-fault connection)
    (`(,kind . ,detail)
     (concat (car (alist-get kind gemini-companion-host-connection--faults))
             (and detail (format " (%s)" detail))))))

(defconst gemini-companion-host-connection--errors
  '((authentication . "Permission denied\\|Too many authentication failures\
\\|No more authentication methods\\|no mutual signature")
    (host-key . "Host key verification failed\\|HOST IDENTIFICATION HAS CHANGED\
\\|host key is known for\\|no matching host key")
    (unreachable . "Could not resolve\\|[Cc]onnection timed out\\|Connection refused\
\\|No route to host\\|Network is unreachable\\|Operation timed out\\|Name or service not known\
\\|[Cc]onnection closed by\\|Connection reset by\\|banner exchange"))
  "Alist of kinds of faults and regexps for what ssh prints then.")

(defun gemini-companion-host-connection--last-line (text)
  "Return the last line of TEXT, which ssh has printed, or nil if it is empty."
  (let ((line (car (last (split-string text "[\r\n]+" t "[ \t]+")))))
    (and line (gemini-companion-host-connection--shown line))))

(defun gemini-companion-host-connection-describe-state (connection)
  "Return the state of CONNECTION as text for the user, without its name."
  (let ((duration (gemini-companion-ui-duration
                   (- (float-time) (gemini-companion-host-connection-since connection)))))
    (pcase (gemini-companion-host-connection-state connection)
      ('ready (format "connected for %s (%s, process %s there)" duration
                      (gemini-companion-host-connection-hostname connection)
                      (gemini-companion-host-connection-keeper connection)))
      ('connecting (if (gemini-companion-host-connection-proven connection)
                       "lost, connecting again..."
                     "connecting..."))
      ('lost (format "lost for %s, trying again: %s" duration
                     (gemini-companion-host-connection--reason connection)))
      (_ (format "not connected: %s" (gemini-companion-host-connection--reason connection))))))

;;;; The end of a connection

(defun gemini-companion-host-connection--ended (connection)
  "Handle the end of the ssh that held CONNECTION."
  (let* ((errors (string-join
                  (reverse (cons (gemini-companion-host-connection-tail connection)
                                 (gemini-companion-host-connection-errors connection)))
                  "\n"))
         (detail (gemini-companion-host-connection--last-line errors))
         ;; Once it has logged in, this may be what a program there has printed.
         (kind (or (and (eq (gemini-companion-host-connection-stage connection) 'shell)
                        (car (seq-find (lambda (entry) (string-match-p (cdr entry) errors))
                                       gemini-companion-host-connection--errors)))
                   'ended)))
    (if (eq kind 'authentication)
        (gemini-companion-host-connection--next-route connection (cons kind detail))
      (gemini-companion-host-connection--end connection kind detail))))

(defun gemini-companion-host-connection--release (connection)
  "End all processes and timers of CONNECTION, and delete its directory."
  (pcase-let (((cl-struct gemini-companion-host-connection process forward directory) connection))
    (setf (gemini-companion-host-connection-process connection) nil
          (gemini-companion-host-connection-forward connection) nil
          (gemini-companion-host-connection-directory connection) nil)
    (gemini-companion-host-connection--set-timer connection)
    (when process (delete-process process))
    (when forward (delete-process forward))
    (when directory
      (ignore-errors (delete-directory directory t)))))

(defun gemini-companion-host-connection--end (connection kind &optional detail)
  "End this attempt at CONNECTION because of a fault of KIND, and maybe retry.
DETAIL, text for the user, may say more."
  (gemini-companion-log-errors "the end of a connection"
    (gemini-companion-host-connection--release connection)
    (if (and (gemini-companion-host-connection-proven connection)
             ;; These pass, so that it makes sense to connect again.
             (memq kind '(unreachable silent ended)))
        (gemini-companion-host-connection--lose connection (cons kind detail))
      (gemini-companion-host-connection--fail connection (cons kind detail)))))

(defun gemini-companion-host-connection--fail (connection fault)
  "Make CONNECTION no more, because of FAULT."
  (gemini-companion-host-connection--set-state connection 'failed fault)
  (let ((text (gemini-companion-host-connection-explanation connection)))
    (gemini-companion-log-add "%s" text)
    (if (gemini-companion-host-connection-proven connection)
        ;; Open reviews stay, as the user may connect again.
        (gemini-companion-ui-message connection "%s; then M-x gemini-companion-connect" text)
      (gemini-companion-host-remove (gemini-companion-host-connection-host connection))
      (gemini-companion-bridge-close-host (gemini-companion-host-connection-prefix connection))))
  (gemini-companion-host-connection--tell-waiters connection))

(defun gemini-companion-host-connection--lose (connection fault)
  "Connect CONNECTION again after a pause; it was lost because of FAULT."
  (let* ((now (float-time))
         (lost (gemini-companion-host-connection-lost connection))
         (pause (if (and (eq (gemini-companion-host-connection-state connection) 'ready)
                         (> (- now (gemini-companion-host-connection-since connection)) 30))
                    gemini-companion-host-connection--first-pause
                  (gemini-companion-host-connection-pause connection))))
    (gemini-companion-host-connection--set-state connection 'lost fault)
    (gemini-companion-log-add "%s; trying again in %s s"
                              (car (gemini-companion-host-connection-diagnosis connection)) pause)
    (cond ((null lost) (setf (gemini-companion-host-connection-lost connection) now))
          ((and (numberp lost) (> (- now lost) gemini-companion-host-connection--notice-delay))
           (setf (gemini-companion-host-connection-lost connection) t)
           (gemini-companion-ui-message connection "Lost the connection to %s; trying again"
                                        (gemini-companion-host-connection-name connection))))
    (setf (gemini-companion-host-connection-pause connection) (min 60 (* 2 pause)))
    (gemini-companion-host-connection--set-timer
     connection pause #'gemini-companion-host-connection-start connection)))

(defun gemini-companion-host-connection-close (connection)
  "End CONNECTION for good."
  (setq gemini-companion-host-connection--all
        (remq connection gemini-companion-host-connection--all))
  (gemini-companion-host-connection--set-state connection 'closed)
  (gemini-companion-log-add "disconnected from %s"
                            (gemini-companion-host-connection-name connection))
  (gemini-companion-host-connection--dismiss connection)
  (gemini-companion-host-connection--release connection)
  (gemini-companion-bridge-close-host (gemini-companion-host-connection-prefix connection))
  (gemini-companion-host-connection--tell-waiters connection))

(defun gemini-companion-host-connection--dismiss (connection)
  "Let the keeper of CONNECTION clean up, and ssh end with it, if it is ready."
  (pcase-let (((cl-struct gemini-companion-host-connection process stage socket) connection))
    (when (and (process-live-p process) (null stage))
      (unless (gemini-companion-host-connection--own-p connection)
        ;; What is shared goes on, and should not forward any longer.
        (ignore-errors
          (gemini-companion-host-ssh-make-process
           (gemini-companion-host-connection--control-forward connection "cancel" socket))))
      (setf (gemini-companion-host-connection-process connection) nil)
      (ignore-errors (process-send-eof process))
      ;; The keeper may take that long to clean up.
      (run-at-time 5 nil #'delete-process process))))

;;;; Hosts that are served

(defun gemini-companion-host-connection--sync ()
  "End the connections of hosts that are served no longer; tell others the roots."
  (dolist (connection gemini-companion-host-connection--all)
    (let ((state (gemini-companion-host-connection-state connection)))
      (cond ((memq (gemini-companion-host-connection-host connection) (gemini-companion-host-all))
             (when (eq state 'ready)
               (gemini-companion-log-errors "workspace roots"
                 (gemini-companion-host-connection--send-roots connection))))
            ;; The user may want to know why the first attempt has failed.
            ((or (not (eq state 'failed)) (gemini-companion-host-connection-proven connection))
             (gemini-companion-host-connection-close connection))))))

(add-hook 'gemini-companion-host-change-hook #'gemini-companion-host-connection--sync)

;;;; Commands on the host

(defun gemini-companion-host-connection-command (connection command)
  "Return what runs COMMAND in a login shell on the host of CONNECTION.
CONNECTION is ready.  The value is a list of the program and its arguments."
  `(,gemini-companion-ssh-program
    ,@gemini-companion-host-connection--quiet-options
    "-o" "ControlMaster=no"
    ,@(gemini-companion-host-connection--control connection)
    ,@(gemini-companion-host-connection-target connection)
    ,(gemini-companion-host-ssh-login-command command)))

(provide 'gemini-companion-host-connection)
;;; gemini-companion-host-connection.el ends here

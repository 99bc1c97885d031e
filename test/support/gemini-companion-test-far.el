;;; gemini-companion-test-far.el --- Hosts on this machine  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A host that Emacs reaches by ssh, on this machine.  It is either a login: an
;; sshd that any user can run, on a port of 127.0.0.1, with a home and a temporary
;; directory of its own; or, where the tests have root's rights, a machine of its
;; own in namespaces (far-machine.sh), with the users dev and mallory.
;;
;; An Emacs with `gemini-companion-test-far-environment' runs an ssh that knows
;; all hosts that have been started, and nothing of the user's.  Its connections
;; go over a wire (wire.mjs) that can be cut, mended, broken and made slow.  For
;; the tests themselves the name with \"direct-\" before it leads there, too.

;;; Code:

(require 'gemini-companion-test-cli)

(cl-defstruct (gemini-companion-test-far
               (:constructor gemini-companion-test-far--make)
               (:copier nil))
  "A host on this machine."
  (name nil :documentation "Its name for ssh.")
  (directory nil :documentation "A directory for its files.")
  (program nil :documentation "The process of its sshd, or the program that is the machine.")
  (root "" :documentation "Where this machine finds its root directory.")
  (process nil :documentation "The first process of a machine, or nil.")
  (address "127.0.0.1" :documentation "Its address.")
  (port 22 :documentation "The port of its sshd.")
  (user nil :documentation "Who logs in.")
  (home nil :documentation "The user's home, as the host names it.")
  (tmp nil :documentation "Its temporary directory, as the host names it.")
  (key nil :documentation "The file of the key that opens it.")
  (method "ssh" :documentation "The method of Tramp by which Emacs reaches it.")
  (wire nil :documentation "The program wire.mjs."))

;;;; Whether there can be one

(defun gemini-companion-test-far-sshd ()
  "Return the program sshd as an absolute file name, or nil."
  (let ((exec-path (append exec-path '("/usr/sbin" "/usr/local/sbin"))))
    (executable-find "sshd")))

(defun gemini-companion-test-require-far (&optional machine)
  "Skip the current test, with a message, where there can be no host.
With MACHINE non-nil it needs one that is a machine of its own."
  (gemini-companion-test-require-real-client)
  (unless (and (gemini-companion-test-far-sshd) (executable-find "ssh-keygen"))
    (gemini-companion-test-skip "sshd is missing"))
  (unless (gemini-companion-test-far--terminals-p)
    (gemini-companion-test-skip "sshd would need the rights of root for a terminal"))
  (when machine
    (let ((reason (gemini-companion-test-far--why-no-machine)))
      (when reason
        (gemini-companion-test-skip "%s" reason)))))

(defun gemini-companion-test-far-require-podman ()
  "Skip the current test, with a message, where podman can run no containers."
  (unless (and (executable-find "podman") (executable-find "runc"))
    (gemini-companion-test-skip "podman or runc is missing")))

(defun gemini-companion-test-far--terminals-p ()
  "Return non-nil if an sshd of this user can make a terminal.
It gives that to the group tty, which it may if that has it already."
  (or (zerop (user-uid))
      (let ((process (make-process :name "terminal" :command '("cat") :noquery t
                                   :connection-type 'pty)))
        (unwind-protect
            (equal "tty" (file-attribute-group-id
                          (file-attributes (process-tty-name process) 'string)))
          (delete-process process)))))

(defun gemini-companion-test-far--why-no-machine ()
  "Return why there can be no machine in namespaces, or nil."
  (cond ((not (zerop (user-uid))) "this needs the rights of root")
        ((not (executable-find "ip")) "the program ip is missing")
        ((not (string-match-p "\\`/usr/\\(?:local/\\)?bin/"
                              (file-truename (gemini-companion-test-node))))
         "Node is not where other users find it")
        ((not (eql 0 (call-process "unshare" nil nil nil
                                   "--mount" "--uts" "--ipc" "--net" "--pid" "--fork"
                                   "mount" "-t" "tmpfs" "far" "/mnt")))
         "the system allows no namespaces")))

;;;; The user's ssh

(defvar gemini-companion-test-far--ssh nil
  "The directory of the key and the configuration of ssh, once it is there.")

(defun gemini-companion-test-far--directory ()
  "Return a new directory with a short name, as sockets need it."
  (let ((temporary-file-directory "/tmp/"))
    (gemini-companion-test-temp-directory)))

(defun gemini-companion-test-far-ssh-file (name)
  "Return the file NAME in the directory of the user's ssh."
  (unless gemini-companion-test-far--ssh
    (let ((directory (gemini-companion-test-far--directory)))
      (gemini-companion-test-on-exit directory
                                     (lambda (it) (delete-directory it t)))
      (gemini-companion-test-far--make-key (expand-file-name "key" directory))
      (make-directory (expand-file-name "hosts" directory))
      (gemini-companion-test-write
       (expand-file-name "config" directory)
       (format "Include %shosts/*
Host *
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile %sknown_hosts
  GlobalKnownHostsFile none
  StrictHostKeyChecking no
  LogLevel ERROR\n" directory directory))
      (gemini-companion-test-far--write-program
       (expand-file-name "bin/ssh" directory)
       (format "exec %s -F %sconfig \"$@\"\n" (executable-find "ssh") directory))
      (setq gemini-companion-test-far--ssh directory)))
  (expand-file-name name gemini-companion-test-far--ssh))

(defun gemini-companion-test-far--make-key (file &optional passphrase)
  "Write a new key of ssh, which needs PASSPHRASE if any, to FILE."
  (unless (eql 0 (call-process "ssh-keygen" nil nil nil
                               "-q" "-t" "ed25519" "-N" (or passphrase "") "-f" file))
    (error "No key was made")))

(defun gemini-companion-test-far--write-program (file text)
  "Write a program for the shell with TEXT to FILE, at once."
  (let ((new (concat file ".new")))
    (gemini-companion-test-write new (concat "#!/bin/sh\n" text))
    (set-file-modes new #o755)
    (rename-file new file t)))

(defun gemini-companion-test-far-environment ()
  "Return what an Emacs needs in its environment to reach the hosts."
  (list (format "PATH=%s:%s"
                (directory-file-name (gemini-companion-test-far-ssh-file "bin/"))
                (getenv "PATH"))))

(defun gemini-companion-test-far--write-host (far)
  "Write the names of FAR for ssh."
  (let ((wire (gemini-companion-test-far--wire-port far)))
    (gemini-companion-test-write
     (gemini-companion-test-far-ssh-file
      (concat "hosts/" (gemini-companion-test-far-name far)))
     (mapconcat
      (pcase-lambda (`(,prefix ,address ,port ,user . ,more))
        (format "Host %s%s\n  HostName %s\n  Port %d\n  User %s\n  IdentityFile %s\n%s"
                prefix (gemini-companion-test-far-name far) address port user
                (gemini-companion-test-far-key far) (string-join more)))
      (let ((address (gemini-companion-test-far-address far))
            (port (gemini-companion-test-far-port far))
            (user (gemini-companion-test-far-user far)))
        `(("" "127.0.0.1" ,wire ,user)
          ("direct-" ,address ,port ,user)
          ("jumped-" ,address ,port ,user
           ,(format "  ProxyJump direct-%s\n" (gemini-companion-test-far-name far)))
          ,@(and (gemini-companion-test-far-process far)
                 `(("mallory-" ,address ,port "mallory")
                   ("root-" ,address ,port "root")))))
      ""))))

(defun gemini-companion-test-far-call (far command &optional user)
  "Run COMMAND, a string for the shell, on FAR; return its status and output.
USER is \"direct\" for the user who works there, the default, or \"mallory\"."
  (with-temp-buffer
    (let* ((coding-system-for-read 'utf-8-unix)
           (coding-system-for-write 'utf-8-unix)
           (status (call-process
                    (gemini-companion-test-far-ssh-file "bin/ssh") nil t nil
                    "-o" "ConnectTimeout=10"
                    (concat (or user "direct") "-" (gemini-companion-test-far-name far))
                    command)))
      (cons status (buffer-string)))))

(defun gemini-companion-test-far-run (far command &optional user)
  "Run COMMAND on FAR as USER and return its output; fail if it fails.
The arguments are as in `gemini-companion-test-far-call'."
  (pcase-let ((`(,status . ,output) (gemini-companion-test-far-call far command user)))
    (unless (eql status 0)
      (error "On the host %S failed: %s" command output))
    output))

(defun gemini-companion-test-far-lock (far passphrase)
  "Let only a new key with PASSPHRASE open FAR, a login, from now on."
  (let ((key (expand-file-name "locked" (gemini-companion-test-far-directory far))))
    (gemini-companion-test-far--make-key key passphrase)
    (copy-file (concat key ".pub") (gemini-companion-test-far--authorized far) t)
    (setf (gemini-companion-test-far-key far) key)
    (gemini-companion-test-far--write-host far)))

(defun gemini-companion-test-far--authorized (far)
  "Return the file of the keys that open FAR, a login."
  (expand-file-name "authorized_keys" (gemini-companion-test-far-directory far)))

;;;; Files of a host

(defun gemini-companion-test-far-file (far name)
  "Return the file NAME in the project on FAR, as the host names it."
  (concat (gemini-companion-test-far-home far) "/project/" name))

(defun gemini-companion-test-far-prefix (far)
  "Return the prefix of names of files on FAR."
  (format "/%s:%s:" (gemini-companion-test-far-method far) (gemini-companion-test-far-name far)))

(defun gemini-companion-test-far-tramp (far name)
  "Return the file NAME in the project on FAR, as Emacs names it."
  (concat (gemini-companion-test-far-prefix far) (gemini-companion-test-far-file far name)))

(defun gemini-companion-test-far-local (far file)
  "Return the name under which this machine has FILE, a name of FAR."
  (concat (gemini-companion-test-far-root far) file))

(defun gemini-companion-test-far-write (far name text)
  "Write TEXT to the file NAME in the project on FAR; return its name there."
  (let ((file (gemini-companion-test-far-file far name)))
    (gemini-companion-test-write (gemini-companion-test-far-local far file) text)
    (gemini-companion-test-far--own far)
    file))

(defun gemini-companion-test-far-bytes (far name)
  "Return the bytes of the file NAME in the project on FAR, nil if there is none."
  (let ((file (gemini-companion-test-far-local
               far (gemini-companion-test-far-file far name))))
    (and (file-exists-p file) (gemini-companion-test-bytes file))))

(defun gemini-companion-test-far--own (far)
  "Let the user of FAR own all files in the home there."
  (when (gemini-companion-test-far-process far)
    (call-process "chown" nil nil nil "-R" "4242:4242"
                  (gemini-companion-test-far-local far (gemini-companion-test-far-home far)))))

;;;; Starting and stopping


(defun gemini-companion-test-far-start (name &rest options)
  "Start the host NAME, a login on this machine; return it.
OPTIONS are lines for the configuration of its sshd."
  (let* ((directory (gemini-companion-test-far--directory))
         (far (gemini-companion-test-far--make
               :name name :directory directory :user (user-login-name)
               :home (concat directory "home") :tmp (concat directory "tmp"))))
    (gemini-companion-test-on-exit far #'gemini-companion-test-far-stop)
    (dolist (each '("home/project/.git" "tmp"))
      (make-directory (expand-file-name each directory) t))
    (set-file-modes (gemini-companion-test-far-tmp far) #o1777)
    (gemini-companion-test-far--make-key (expand-file-name "host-key" directory))
    (copy-file (gemini-companion-test-far-ssh-file "key.pub")
               (gemini-companion-test-far--authorized far))
    ;; sshd asks for this if it is root.
    (when (zerop (user-uid)) (make-directory "/run/sshd" t))
    (gemini-companion-test-far--start-sshd far options)
    (gemini-companion-test-far--started far)))

(defun gemini-companion-test-far--started (far)
  "Make the host FAR, whose sshd listens, ready for use; return it."
  (setf (gemini-companion-test-far-key far) (gemini-companion-test-far-ssh-file "key")
        (gemini-companion-test-far-wire far)
        (gemini-companion-test-program-start
         (list (gemini-companion-test-node)
               (gemini-companion-test-path "test" "support" "wire.mjs")
               (gemini-companion-test-far-address far)
               (number-to-string (gemini-companion-test-far-port far)))
         temporary-file-directory nil))
  ;; What a login shell has.
  (gemini-companion-test-write
   (gemini-companion-test-far-local
    far (concat (gemini-companion-test-far-home far) "/.profile"))
   "PATH=$HOME/bin:$PATH\n")
  (gemini-companion-test-far--own far)
  (gemini-companion-test-far--write-host far)
  far)

(defun gemini-companion-test-far--start-sshd (far options)
  "Start the sshd of FAR, a login, with OPTIONS, and wait until it listens."
  (let* ((directory (gemini-companion-test-far-directory far))
         (config (expand-file-name "sshd_config" directory))
         (log (expand-file-name "sshd.log" directory))
         (tries 0))
    (while (not (process-live-p (gemini-companion-test-far-program far)))
      (when (> (cl-incf tries) 10) (error "No sshd: %s" (gemini-companion-test-read log)))
      (setf (gemini-companion-test-far-port far) (gemini-companion-test-far--free-port))
      (gemini-companion-test-write
       config
       (string-join
        (append
         options
         (list (format "ListenAddress 127.0.0.1:%d" (gemini-companion-test-far-port far))
               (format "HostKey %shost-key" directory)
               (concat "AuthorizedKeysFile " (gemini-companion-test-far--authorized far))
               "PidFile none" "UsePAM no" "StrictModes no" "PasswordAuthentication no"
               "PermitRootLogin yes" "PrintMotd no" "PrintLastLog no" "MaxStartups 100"
               "Subsystem sftp internal-sftp"
               (format "SetEnv HOME=%s TMPDIR=%s LANG=C.UTF-8"
                       (gemini-companion-test-far-home far)
                       (gemini-companion-test-far-tmp far))
               ""))
        "\n"))
      (gemini-companion-test-write log "")
      (let ((process (make-process
                      :name "sshd" :noquery t :connection-type 'pipe
                      ;; It ends with this Emacs, even if that is killed.
                      :command (list "/bin/sh" "-c" "exec 3<&0; \"$@\" & sshd=$!
(cat <&3 >/dev/null; kill $sshd 2>/dev/null) & wait $sshd"
                                     "sh" (gemini-companion-test-far-sshd)
                                     "-D" "-f" config "-E" log)
                      :sentinel #'ignore)))
        (setf (gemini-companion-test-far-program far) process)
        ;; It ends if somebody has taken the port.
        (gemini-companion-test-wait
         "sshd to listen"
         (lambda () (or (not (process-live-p process))
                        (string-search "Server listening" (gemini-companion-test-read log)))))))))

(defun gemini-companion-test-far--free-port ()
  "Return a port of this machine that nobody uses."
  (let ((server (make-network-process :name "port" :server t :host "127.0.0.1"
                                      :service t :family 'ipv4 :noquery t)))
    (prog1 (process-contact server :service)
      (delete-process server))))

(defvar gemini-companion-test-far--machines 0
  "How many machines have been started.")

(defun gemini-companion-test-far--network ()
  "Return the number of a network that no other machine has now."
  (mod (+ (* 4 (emacs-pid)) (mod (cl-incf gemini-companion-test-far--machines) 4)) 16384))

(defun gemini-companion-test-far-start-machine (name &rest options)
  "Start the host NAME, a machine of its own; return it.
OPTIONS are as in `gemini-companion-test-far-start'."
  (gemini-companion-test-far--start-machine name options))

(defun gemini-companion-test-far--start-machine (name options &optional environment)
  "Start the host NAME with OPTIONS for its sshd; return it.
ENVIRONMENT is more of that for far-machine.sh."
  (let* ((directory (gemini-companion-test-far--directory))
         (far (gemini-companion-test-far--make
               :name name :directory directory :user "dev"
               :home "/home/dev" :tmp "/tmp"))
         (program (gemini-companion-test-program-start
                   `(,(gemini-companion-test-path "test" "support" "far-machine.sh")
                     ,(directory-file-name directory)
                     ,(gemini-companion-test-far-ssh-file "key.pub")
                     ,(file-truename (expand-file-name
                                      "node_modules" gemini-companion-test-client-directory))
                     ,(number-to-string (gemini-companion-test-far--network))
                     "PermitRootLogin no"
                     ,@options)
                   temporary-file-directory
                   `(,(concat "PATH=" (getenv "PATH") ":/usr/sbin:/sbin") ,@environment))))
    (setf (gemini-companion-test-far-program far) program)
    (gemini-companion-test-on-exit far #'gemini-companion-test-far-stop)
    (let ((up (gemini-companion-test-wait
               "the machine"
               (lambda ()
                 (or (car (gemini-companion-test-program-lines program))
                     (not (process-live-p (gemini-companion-test-program-process program))))))))
      (when (eq up t)
        (let ((fault (gemini-companion-test-read (gemini-companion-test-program-stderr program))))
          (if environment (gemini-companion-test-skip "podman runs no container: %s" fault)
            (error "No machine: %s" fault))))
      (setf (gemini-companion-test-far-process far) (alist-get 'pid up)
            (gemini-companion-test-far-address far) (alist-get 'address up)
            (gemini-companion-test-far-root far) (format "/proc/%d/root" (alist-get 'pid up))))
    (make-directory (gemini-companion-test-far-local
                     far (gemini-companion-test-far-file far ".git"))
                    t)
    (gemini-companion-test-far--started far)))

(defun gemini-companion-test-far-start-container (name &optional podman emacs)
  "Start the host NAME, a container, which Emacs reaches by podman; return it.
If PODMAN is nil, it is a machine of its own, which a program that stands
in for podman enters.  Neither needs an image or a network.  The project of
EMACS, if non-nil, is mounted as the project there."
  (let ((directory (and emacs (directory-file-name (gemini-companion-test-project emacs)))))
    (if (not podman) (gemini-companion-test-far--stand-in name directory)
      (let ((far (gemini-companion-test-far--start-machine
                  name nil
                  `(,(concat "FAR_PODMAN=" name)
                    ,@(and directory (list (concat "FAR_VOLUME=" directory ":/home/dev/project")))))))
        (gemini-companion-test-far--write-program
         (gemini-companion-test-far-ssh-file "bin/podman")
         (format "exec %spodman \"$@\"\n" (gemini-companion-test-far-directory far)))
        (setf (gemini-companion-test-far-method far) "podman")
        far))))

(defun gemini-companion-test-far--stand-in (name directory)
  "Start the host NAME, to which a program leads that stands in for podman.
For DIRECTORY see `gemini-companion-test-far-start-container'."
  (let* ((far (gemini-companion-test-far-start-machine name))
         (process (gemini-companion-test-far-process far))
         (stopped (expand-file-name "stopped" (gemini-companion-test-far-directory far))))
    (setf (gemini-companion-test-far-method far) "podman")
    (gemini-companion-test-far--write-program
     (gemini-companion-test-far-ssh-file "bin/podman")
     (format "terminal=
case $1 in
  inspect) exec cat %s ;;
  kill) touch %s; exec nsenter -t %d -m -p -r pkill -KILL -u 4242 ;;
  start) exec rm %s ;;
  exec) shift ;;
  *) exit 125 ;;
esac
while :; do
  case $1 in
    -t | -it) terminal=yes; shift ;;
    -i) shift ;;
    *) break ;;
  esac
done
[ \"$1\" = %s ] && [ ! -e %s ] || { echo \"Error: no container with name $1\" >&2; exit 125; }
shift
# A shell needs a terminal whose session is there.
exec nsenter -t %d -m -u -i -n -p -r -w ${terminal:+setsid -c -w} setpriv --reuid 4242 --regid 4242 --clear-groups \\
  env -i HOME=/home/dev PATH=\"$PATH\" LANG=C.UTF-8 TERM=\"$TERM\" \"$@\"\n"
             (gemini-companion-test-far--mounts far) stopped process stopped name stopped process))
    (when directory (gemini-companion-test-far--mount far directory))
    far))

(defun gemini-companion-test-far--mounts (far)
  "Return the file of what podman tells of the mounts of FAR, a container."
  (expand-file-name "mounts" (gemini-companion-test-far-directory far)))

(defun gemini-companion-test-far--mount (far directory)
  "Mount DIRECTORY of this machine as the project of FAR, no container of podman."
  (let ((there (directory-file-name (gemini-companion-test-far-file far "")))
        (process (number-to-string (gemini-companion-test-far-process far))))
    ;; Without the root directory of its processes.
    (unless (eql 0 (call-process "nsenter" nil nil nil "-t" process "-m" "mount" "--bind"
                                 directory
                                 (concat (gemini-companion-test-far-directory far) "fs/root"
                                         there)))
      (error "Nothing was mounted"))
    (gemini-companion-test-write
     (gemini-companion-test-far--mounts far)
     (decode-coding-string
      (gemini-companion-test-json-encode
       `[((Type . "bind") (Source . ,directory) (Destination . ,there)
          (RW . t))
         ((Type . "volume") (Source . "/var") (Destination . "/var"))])
      'utf-8))))

(defun gemini-companion-test-far-podman (far &rest arguments)
  "Let podman do what ARGUMENTS say to FAR, a container."
  (unless (eql 0 (apply #'call-process (gemini-companion-test-far-ssh-file "bin/podman") nil nil nil
                        `(,@arguments ,(gemini-companion-test-far-name far))))
    (error "Podman has failed: %S" arguments)))

(defun gemini-companion-test-far-stop (far)
  "End the host FAR with all its processes, and remove its files."
  (let ((program (gemini-companion-test-far-program far)))
    (cond ((processp program) (gemini-companion-test-far--end-tree program))
          (program
           (process-send-eof (gemini-companion-test-program-process program))
           (ignore-errors
             (gemini-companion-test-wait
              "the machine to end"
              (lambda () (not (process-live-p
                               (gemini-companion-test-program-process program))))))
           (gemini-companion-test-program-stop program))))
  (when (gemini-companion-test-far-wire far)
    (gemini-companion-test-program-stop (gemini-companion-test-far-wire far)))
  (gemini-companion-test-forget far)
  (ignore-errors
    (delete-file (gemini-companion-test-far-ssh-file
                  (concat "hosts/" (gemini-companion-test-far-name far)))))
  (ignore-errors (delete-directory (gemini-companion-test-far-directory far) t)))

(defun gemini-companion-test-far--end-tree (process)
  "End PROCESS, an sshd, and all that it has started."
  (let ((ids (gemini-companion-test-far--descendants (process-id process))))
    (delete-process process)
    (dolist (id ids)
      (gemini-companion-test-end-process id 'SIGHUP))))

(defun gemini-companion-test-far--descendants (id)
  "Return the ids of all processes that the process ID has started."
  (let ((parents (mapcar (lambda (it) (cons it (alist-get 'ppid (process-attributes it))))
                         (list-system-processes)))
        (found nil) (next (list id)))
    (while next
      (let ((each (pop next)))
        (pcase-dolist (`(,child . ,parent) parents)
          (when (eql parent each)
            (push child found)
            (push child next)))))
    found))

(defmacro gemini-companion-test-with-far (spec &rest body)
  "Run BODY with a host, which is stopped afterwards.
SPEC is (VARIABLE FORM), where FORM starts the host."
  (declare (indent 1) (debug ((symbolp form) body)))
  `(let ((,(car spec) ,(cadr spec)))
     (unwind-protect (progn ,@body)
       (gemini-companion-test-far-stop ,(car spec)))))

(defmacro gemini-companion-test-with-far-emacs (spec &rest body)
  "Run BODY with an Emacs that reaches the hosts of this machine.
SPEC is as in `gemini-companion-test-with-emacs', without an environment."
  (declare (indent 1) (debug ((symbolp &rest form) body)))
  `(gemini-companion-test-with-emacs
       (,(car spec) ,@(cdr spec) :environment (gemini-companion-test-far-environment))
     ,@body))

;;;; The wire

(defun gemini-companion-test-far--wire-port (far)
  "Return the port at which the wire of FAR begins."
  (alist-get 'port
             (gemini-companion-test-far--wire-event far "listening")))

(defun gemini-companion-test-far--wire-event (far event)
  "Wait until the wire of FAR has said EVENT, and return what it said."
  (gemini-companion-test-wait
   (format "the wire to say %s" event)
   (lambda ()
     (gemini-companion-test-program-find
      (gemini-companion-test-far-wire far)
      (lambda (line) (equal (alist-get 'event line) event))))))

(defun gemini-companion-test-far-wire-do (far command &rest arguments)
  "Let the wire to FAR obey COMMAND with ARGUMENTS, a plist.
See the commentary in wire.mjs."
  (let ((wire (gemini-companion-test-far-wire far)))
    (setf (gemini-companion-test-program-lines wire) nil)
    (gemini-companion-test-program-send wire `(:command ,command ,@arguments))
    (gemini-companion-test-far--wire-event far command)))

;;;; The real CLI on a host

(defun gemini-companion-test-far--model (far record)
  "Start the stand-in for the model on FAR, which writes requests to RECORD."
  (let ((process (gemini-companion-test-far-process far)))
    (gemini-companion-test-program-start
     `(,@(and process (list (executable-find "nsenter") "-t" (number-to-string process) "-n"))
       ,(gemini-companion-test-node)
       ,(expand-file-name "model.mjs" gemini-companion-test-client-directory)
       ,record)
     temporary-file-directory (list "LANG=C.UTF-8"))))

(defun gemini-companion-test-far-cli-make (far &optional settings)
  "Make the program gemini on FAR run a new CLI; return that.
It is not started.  SETTINGS are those of the user there, if they are not
`gemini-companion-test-cli--settings'."
  (let* ((cli (gemini-companion-test-cli--make
               :directory (gemini-companion-test-temp-directory)))
         (home (gemini-companion-test-far-home far))
         (log (format "%s/debug-%s.log" home
                      (file-name-nondirectory
                       (directory-file-name (gemini-companion-test-cli-directory cli)))))
         (process (gemini-companion-test-far-process far)))
    (gemini-companion-test-on-exit cli #'gemini-companion-test-cli-stop)
    (setf (gemini-companion-test-cli-model cli)
          (gemini-companion-test-far--model
           far (gemini-companion-test-cli-file cli "requests.jsonl")))
    (make-symbolic-link (gemini-companion-test-far-local far log)
                        (gemini-companion-test-cli-file cli "debug.log"))
    (make-symbolic-link (gemini-companion-test-far-local far (concat log ".pid"))
                        (gemini-companion-test-cli-file cli "pid"))
    (gemini-companion-test-write
     (gemini-companion-test-far-local far (concat home "/.gemini/settings.json"))
     (decode-coding-string
      (gemini-companion-test-json-encode (or settings (gemini-companion-test-cli--settings)))
      'utf-8))
    (gemini-companion-test-far--write-program
     (gemini-companion-test-far-local far (concat home "/bin/gemini"))
     (format "echo $$ >%s.pid\nexec env -i %s %s \"$@\"\n"
             log
             (mapconcat (apply-partially #'format "${%1$s:+%1$s=\"$%1$s\"}")
                        '("GEMINI_CLI_IDE_PID" "GEMINI_COMPANION_TERMINAL" "VISUAL") " ")
             (mapconcat
              #'shell-quote-argument
              `(,(concat "HOME=" home) ,(concat "TMPDIR=" (gemini-companion-test-far-tmp far))
                "SSH_CONNECTION=1" "PATH=/usr/local/bin:/usr/bin:/bin" "LANG=C.UTF-8"
                "GEMINI_API_KEY=none"
                ,(format "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:%d"
                         (gemini-companion-test-model-port (gemini-companion-test-cli-model cli)))
                ,(concat "GEMINI_DEBUG_LOG_FILE=" log)
                "GEMINI_CLI_NO_RELAUNCH=true" "GEMINI_CLI_TRUST_WORKSPACE=true"
                "GEMINI_TELEMETRY_ENABLED=false" "NO_BROWSER=1" "TERM=xterm-256color"
                "NO_COLOR=1"
                ,(gemini-companion-test-node)
                ,(concat (if process "/opt/client"
                           (expand-file-name "node_modules"
                                             gemini-companion-test-client-directory))
                         "/@google/gemini-cli/bundle/gemini.js"))
              " ")))
    (gemini-companion-test-far--own far)
    cli))

(defun gemini-companion-test-far-cli-start (far)
  "Start a CLI in the project on FAR, as its user does who logs in; return it.
Wait until it is connected."
  (let ((cli (gemini-companion-test-far-cli-make far)))
    (gemini-companion-test-cli--start
     cli
     (lambda (cli)
       (gemini-companion-test-tmux-start
        (gemini-companion-test-cli-file cli "tmux") '(120 . 45)
        (list (gemini-companion-test-far-ssh-file "bin/ssh") "-t"
              (concat "direct-" (gemini-companion-test-far-name far))
              (shell-quote-argument
               (format "cd %s && exec $SHELL -lc 'exec gemini'"
                       (shell-quote-argument (gemini-companion-test-far-file far ""))))))
       (string-to-number
        (gemini-companion-test-cli--tmux cli "list-panes" "-a" "-F" "#{pane_pid}"))))))

(defun gemini-companion-test-far-cli-run (far emacs &optional tools)
  "Start a CLI on FAR by `gemini-companion-run' in EMACS; return it.
EMACS visits a file of the project there, and has not been connected with
FAR.  IDE mode is not on in its settings there.  If TOOLS is non-nil, let
models there use Emacs.  Wait until the CLI is connected."
  (gemini-companion-test-cli--start
   (gemini-companion-test-far-cli-make
    far (assq-delete-all 'ide (gemini-companion-test-cli--settings)))
   (lambda (cli)
     (setf (gemini-companion-test-cli-emacs cli) emacs)
     (gemini-companion-test-eval emacs '(progn (setq gemini-companion-terminal 'term) nil))
     (when tools
       (gemini-companion-test-eval emacs '(progn (setq gemini-companion-answer--unsaved nil) nil))
       ;; Otherwise a run would not ask for those there.
       (gemini-companion-test-enable-tools emacs))
     (gemini-companion-test-m-x emacs "gemini-companion-run")
     (dolist (question '("Connect\\? (y or n)" "connects by itself\\? (y or n)"))
       (gemini-companion-test-wait-screen emacs question)
       (gemini-companion-test-keys emacs "y"))
     (when tools
       (gemini-companion-test-wait-screen emacs "Writes extensions")
       (gemini-companion-test-keys emacs "y"))
     (gemini-companion-test-wait-eval
      emacs '(let ((process (get-buffer-process (window-buffer))))
               (and (derived-mode-p 'term-mode) process (process-id process)))))))

(defun gemini-companion-test-far-cli-id (cli)
  "Return the process id of CLI on its host."
  (string-to-number (gemini-companion-test-read (gemini-companion-test-cli-file cli "pid"))))

(defun gemini-companion-test-far-cli-signal (far cli signal)
  "Send SIGNAL, a name without \"SIG\", to CLI on FAR."
  (gemini-companion-test-far-run
   far (format "kill -%s %d" signal (gemini-companion-test-far-cli-id cli))))

(provide 'gemini-companion-test-far)
;;; gemini-companion-test-far.el ends here

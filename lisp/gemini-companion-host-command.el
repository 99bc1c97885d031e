;;; gemini-companion-host-command.el --- Command lines that lead to hosts -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Command lines that run something on a host that Tramp names: another machine, by ssh, or a
;; container, on this machine or on one that ssh leads to.  Names that a program could misunderstand
;; are errors, and programs get no secrets in their environment, since the user's configuration may
;; send variables to the host.

;;; Code:

(require 'cl-lib)
(require 'json)
(require 'gemini-companion-agent)
(require 'gemini-companion-ui)
(eval-when-compile (require 'tramp))    ; it takes a tenth of a second to load

(declare-function tramp-compute-multi-hops "tramp")
(declare-function tramp-dissect-file-name "tramp")
(declare-function tramp-ssh-controlmaster-options "tramp-sh")
(declare-function tramp-ssh-or-plink-options "tramp-sh" (vec) t) ; its name in Emacs 30.2

;;;###autoload (custom-add-load 'gemini-companion-clients 'gemini-companion-host-command)
(defcustom gemini-companion-ssh-program "ssh"
  "Program for connections to other machines: OpenSSH's client."
  :type 'string
  :group 'gemini-companion-clients
  :risky t)

(defcustom gemini-companion-containers
  '(("docker" "docker" "exec" "-i" terminal ("-u" "%u") "%h")
    ("podman" "podman" "exec" "-i" terminal ("-u" "%u") "%h")
    ("dockercp" "docker" "exec" "-i" terminal ("-u" "%u") "%h")
    ("podmancp" "podman" "exec" "-i" terminal ("-u" "%u") "%h"))
  "Alist of Tramp methods and what runs a command in their containers.
Each element is (METHOD PROGRAM ARGUMENT...), to which the command is
added.  In an argument, %h stands for the name of the container, and %u
for that of the user; Emacs leaves out a list of arguments if Tramp's file
name has no user.  The symbol `terminal' stands for -t if the command needs
a terminal.

For Kubernetes, toolbox and Apptainer, for example, you can add

  (\"kubernetes\" \"kubectl\" \"exec\" \"-i\" terminal \"%h\" \"--\")
  (\"toolbox\" \"toolbox\" \"run\" \"-c\" \"%h\")
  (\"apptainer\" \"apptainer\" \"exec\" \"instance://%h\")"
  :type '(alist :key-type (string :tag "Method")
                :value-type (repeat (choice string (const terminal) (repeat string))))
  :group 'gemini-companion-clients
  :risky t)

;;;; Hosts

(defun gemini-companion-host-command-method-p (method)
  "Return non-nil if METHOD, a method of Tramp or nil, leads to a host."
  (or (member method '("ssh" "sshx" "scp" "scpx" "rsync")) ; these log in by ssh
      (assoc method gemini-companion-containers)))

(defun gemini-companion-host-command-hops (directory)
  "Return the hops to DIRECTORY, a remote name, as a list of `tramp-file-name's.
Signal a `user-error' if no known program leads there."
  (require 'tramp-sh)
  (let ((proxies tramp-default-proxies-alist))
    (condition-case problem
        (let ((hops (tramp-compute-multi-hops (tramp-dissect-file-name directory))))
          (mapc #'gemini-companion-host-command--check-hop hops)
          (when (seq-some #'gemini-companion-host-command--container (butlast hops))
            (error "A container must be the last hop"))
          hops)
      (error
       ;; Tramp has remembered the hops for other names.
       (setq tramp-default-proxies-alist proxies)
       (user-error "%s: %s" directory (gemini-companion-ui-error-text problem))))))

(defun gemini-companion-host-command-local-name (name)
  "Return what NAME, if it is remote, has after its host: \"\" if it is only that.
Once Tramp is connected, `file-local-name' would return the home directory."
  (and (file-remote-p name)
       (tramp-file-name-localname (tramp-dissect-file-name name))))

(defun gemini-companion-host-command--check-hop (hop)
  "Signal an error if no program is known for HOP, or could misunderstand it."
  (unless (gemini-companion-host-command-method-p (tramp-file-name-method hop))
    (error "Clients can connect to this Emacs through ssh or a container, not %s: \
see `gemini-companion-containers'"
           (tramp-file-name-method hop)))
  (dolist (part (list (tramp-file-name-user hop) (tramp-file-name-host hop)
                      (tramp-file-name-port hop)))
    ;; It could be an option, or the user's configuration could pass it to a shell.
    (when (and part
               (string-match-p "\\`-\\|[][[:cntrl:][:space:]'`\"$\\;&<>|(){}*?!#,/]" part))
      (error "A shell or ssh could misread %s; give the host another name" part))))

(defun gemini-companion-host-command--container (hop)
  "Return the element of `gemini-companion-containers' for HOP, or nil."
  (if (not (equal (tramp-file-name-method hop) "sandbox"))
      (assoc (tramp-file-name-method hop) gemini-companion-containers)
    (let ((directory (string-replace "%" "%%" (tramp-file-name-localname hop))))
      `("sandbox" "env" "-u" "XDG_RUNTIME_DIR" "-u" "TMP" "-u" "TEMP"
        ,(concat "XDG_CACHE_HOME=" directory) ,(concat "TMPDIR=" directory)))))

(defun gemini-companion-host-command-sandbox-hop (name directory)
  "Return the hop to the sandbox NAME, in which DIRECTORY is mounted.
It leads to this machine, where programs use DIRECTORY for temporary files."
  (make-tramp-file-name :method "sandbox" :host name :localname directory))

(defun gemini-companion-host-command-container-p (hops)
  "Return non-nil if HOPS lead to a container."
  (gemini-companion-host-command--container (car (last hops))))

(defun gemini-companion-host-command-inspection (hops)
  "Return a command that prints the mounts of the container at HOPS, or nil.
Only those of a container on this machine are useful here.  The value is a
list of a program, which prints JSON, and its arguments."
  (pcase-let* ((`(,method . ,words) (gemini-companion-host-command--container (car hops)))
               ;; The program may be sudo, or have options that choose a machine.
               (end (and (member method '("docker" "podman" "dockercp" "podmancp"))
                         (seq-position words "exec"))))
    (and end
         `(,@(seq-take words end)
           "inspect" "--format" "{{json .Mounts}}" ,(tramp-file-name-host (car hops))))))

(defun gemini-companion-host-command-mounts (output prefix)
  "Return the mounts in OUTPUT of an inspection of the container with PREFIX.
The value is as in `gemini-companion-host-mounts'.  What is no directory of
this machine has names with PREFIX, and so has the root directory: whoever
mounts that does not work in it."
  (let ((file-name-handler-alist nil))
    (ignore-errors
      (cl-loop for mount across (gemini-companion-ui-read-json output)
               for here = (alist-get 'Source mount)
               for there = (alist-get 'Destination mount)
               for is-here = (and (equal (alist-get 'Type mount) "bind")
                                  (stringp here) (file-name-absolute-p here)
                                  (file-directory-p here)
                                  (not (equal (file-truename here) "/")))
               if (and (stringp there) (file-name-absolute-p there))
               nconc (cl-loop for name in (if is-here (delete-dups (list here (file-truename here)))
                                            (list (concat prefix there)))
                              collect (cons (directory-file-name there)
                                            (directory-file-name name)))))))

(defun gemini-companion-host-command-ssh-p (hops)
  "Return non-nil if HOPS begin with ssh, not with a container on this machine."
  (not (gemini-companion-host-command--container (car hops))))

(defun gemini-companion-host-command-name (hops)
  "Return the name for users of the host to which HOPS lead."
  (mapconcat (lambda (hop)
               (concat (and (gemini-companion-host-command--container hop)
                            (concat (tramp-file-name-method hop) ":"))
                       (gemini-companion-host-command--hop hop "#")))
             hops "|"))

(defun gemini-companion-host-command--hop (hop mark)
  "Return HOP as USER@HOST, with its port after MARK if it has one."
  (pcase-let (((cl-struct tramp-file-name user host port) hop))
    (substring-no-properties
     (concat (and user (concat user "@"))
             (if (string-search ":" host) (format "[%s]" host) host)
             (and port (concat mark port))))))

;;;; Command lines

(defun gemini-companion-host-command (hops command &optional options terminal)
  "Return what runs the shell command COMMAND on the host to which HOPS lead.
The value is a list of the program and its arguments.  OPTIONS are for
ssh, if the program is ssh.  If TERMINAL is non-nil, COMMAND has a terminal."
  (let* ((hop (car (last hops)))
         (container (gemini-companion-host-command--container hop))
         (words (and container
                     (append (gemini-companion-host-command--arguments (cdr container) hop terminal)
                             (list "sh" "-c" command)))))
    (if (not (gemini-companion-host-command-ssh-p hops)) words
      `(,gemini-companion-ssh-program
        ,@(and terminal '("-t" "-e" "none")) ; otherwise a tilde that begins a line is for ssh
        ,@options ,@(gemini-companion-host-command-target hops)
        ,(if container
             (concat "exec " (mapconcat #'gemini-companion-host-command-quote words " "))
           command)))))

(defun gemini-companion-host-command--arguments (template hop terminal)
  "Return the arguments that TEMPLATE stands for, for the container HOP.
TERMINAL is as in `gemini-companion-host-command'."
  (let* ((user (tramp-file-name-user hop))
         (fill (lambda (word)
                 (format-spec word `((?h . ,(tramp-file-name-host hop)) (?u . ,user))))))
    (cl-loop for argument in template
             append (pcase argument
                      ('terminal (and terminal '("-t")))
                      ((pred listp) (and user (mapcar fill argument)))
                      (_ (list (funcall fill argument)))))))

(defun gemini-companion-host-command-target (hops)
  "Return the arguments of ssh that lead to the last machine among HOPS."
  (pcase-let* ((hops (seq-remove #'gemini-companion-host-command--container hops))
               ((cl-struct tramp-file-name user host port) (car (last hops)))
               (jumps (butlast hops)))
    `(,@(and jumps
             (list "-J" (mapconcat (lambda (jump) (gemini-companion-host-command--hop jump ":"))
                                   jumps ",")))
      ,@(and user (list "-l" (substring-no-properties user)))
      ,@(and port (list "-p" (substring-no-properties port)))
      "--" ,(substring-no-properties host))))

(defun gemini-companion-host-command-quote (text)
  "Return TEXT as one word of a shell on a host, which may be fish or csh."
  ;; Between single quotes a backslash means something to fish, and an exclamation mark to csh.
  (concat "'" (replace-regexp-in-string "['\\!]" "'\\\\\\&'" text t) "'"))

(defun gemini-companion-host-command-login (command)
  "Return what runs the shell command COMMAND in a login shell on a host.
Such a shell finds the programs that the user has installed."
  (format "exec sh -c %s sh %s"
          (gemini-companion-host-command-quote
           "case ${SHELL##*/} in *csh) exec \"$SHELL\" -c \"$1\" ;; \
*) exec \"${SHELL:-/bin/sh}\" -ilc \"$1\" ;; esac")
          (gemini-companion-host-command-quote command)))

(defun gemini-companion-host-command-environment (&optional environment)
  "Return ENVIRONMENT, by default that of Emacs, without what leads clients here."
  (let ((names (cl-loop for agent in (gemini-companion-agent-names)
                        collect (gemini-companion-agent-get agent :workspace)
                        nconc (mapcar #'car (gemini-companion-agent-get agent :variables)))))
    (seq-remove (lambda (entry)
                  (member (substring entry 0 (string-search "=" entry)) names))
                (or environment (default-toplevel-value 'process-environment)))))

(defun gemini-companion-host-command-tramp-path (hops)
  "Return the control path of the connection by HOPS that Tramp shares, or nil.
The first time, Tramp may run ssh to find out what that can do."
  (let ((options (ignore-errors
                   (funcall (if (fboundp 'tramp-ssh-or-plink-options) #'tramp-ssh-or-plink-options
                              #'tramp-ssh-controlmaster-options)
                            (car (last hops))))))
    (and (stringp options)
         (string-match "ControlPath=\\([^ ]+\\)" options)
         (not (equal (match-string 1 options) "none"))
         (expand-file-name (string-replace "%%" "%" (match-string 1 options))
                           tramp-compat-temporary-file-directory))))

(provide 'gemini-companion-host-command)
;;; gemini-companion-host-command.el ends here

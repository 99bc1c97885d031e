;;; gemini-companion-host-ssh.el --- The command lines of ssh -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What leads ssh to a host that Tramp names, and what it runs there.  Names that ssh could
;; misunderstand are refused, and ssh gets no secrets in its environment, since the user's
;; configuration may send variables to the host.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'tramp)
(require 'gemini-companion-agent)
(require 'gemini-companion-ui)

(declare-function tramp-ssh-controlmaster-options "tramp-sh")

;;;###autoload (custom-add-load 'gemini-companion-clients 'gemini-companion-host-ssh)
(defcustom gemini-companion-ssh-program "ssh"
  "Program for connections to other machines: OpenSSH's client."
  :type 'string
  :group 'gemini-companion-clients
  :risky t
  :package-version '(gemini-companion . "0.1.0"))

;;;; Hosts

(defconst gemini-companion-host-ssh-methods '("ssh" "sshx" "scp" "scpx" "rsync")
  "Methods of Tramp that log in by ssh.")

(defun gemini-companion-host-ssh-hops (directory)
  "Return the hops to DIRECTORY, a remote name, as a list of `tramp-file-name's.
Signal a `user-error' if ssh does not lead there."
  (require 'tramp-sh)
  (let ((proxies tramp-default-proxies-alist))
    (condition-case problem
        (let ((hops (tramp-compute-multi-hops (tramp-dissect-file-name directory))))
          (mapc #'gemini-companion-host-ssh--check-hop hops)
          hops)
      (error
       ;; Tramp has remembered the hops for other names.
       (setq tramp-default-proxies-alist proxies)
       (user-error "%s: %s" directory (gemini-companion-ui-error-text problem))))))

(defun gemini-companion-host-ssh--check-hop (hop)
  "Signal an error if ssh cannot be used for HOP, or could misunderstand it."
  (unless (member (tramp-file-name-method hop) gemini-companion-host-ssh-methods)
    (error "Clients can connect to this Emacs only through ssh, not %s"
           (tramp-file-name-method hop)))
  (dolist (part (list (tramp-file-name-user hop) (tramp-file-name-host hop)
                      (tramp-file-name-port hop)))
    ;; It could be an option, or go to a shell by the user's configuration.
    (when (and part
               (string-match-p "\\`-\\|[][[:cntrl:][:space:]'`\"$\\;&<>|(){}*?!#,/]" part))
      (error "This name could mean something else to ssh: %s" part))))

(defun gemini-companion-host-ssh-target (hops)
  "Return the arguments of ssh that lead to the last of HOPS."
  (let* ((hop (car (last hops)))
         (jumps (butlast hops))
         (user (tramp-file-name-user hop))
         (port (tramp-file-name-port hop)))
    `(,@(and jumps (list "-J" (mapconcat (lambda (jump) (gemini-companion-host-ssh--hop jump ":"))
                                         jumps ",")))
      ,@(and user (list "-l" (substring-no-properties user)))
      ,@(and port (list "-p" (substring-no-properties port)))
      "--" ,(substring-no-properties (tramp-file-name-host hop)))))

(defun gemini-companion-host-ssh-name (hops)
  "Return what users call the host to which HOPS lead."
  (mapconcat (lambda (hop) (gemini-companion-host-ssh--hop hop "#")) hops "|"))

(defun gemini-companion-host-ssh--hop (hop mark)
  "Return HOP as USER@HOST, with its port after MARK if it has one."
  (let ((user (tramp-file-name-user hop))
        (host (tramp-file-name-host hop))
        (port (tramp-file-name-port hop)))
    (substring-no-properties
     (concat (and user (concat user "@"))
             (if (string-search ":" host) (format "[%s]" host) host)
             (and port (concat mark port))))))

;;;; Running ssh

(defun gemini-companion-host-ssh-environment (environment)
  "Return ENVIRONMENT without what leads clients to this Emacs."
  (let ((names (cl-loop for agent in (gemini-companion-agent-names)
                        nconc (mapcar #'car (gemini-companion-agent-get agent :variables))
                        if (gemini-companion-agent-get agent :workspace)
                        collect (gemini-companion-agent-get agent :workspace))))
    (seq-remove (lambda (entry)
                  (member (substring entry 0 (string-search "=" entry)) names))
                environment)))

(defun gemini-companion-host-ssh-make-process (command &rest arguments)
  "Run COMMAND, a list of ssh's arguments, and return its process.
For ARGUMENTS see `make-process'."
  (let ((default-directory gemini-companion-agent-neutral-directory)
        (process-environment (gemini-companion-host-ssh-environment
                              (default-toplevel-value 'process-environment)))
        (process-adaptive-read-buffering nil))
    (apply #'make-process :name "gemini-companion-ssh" :noquery t :connection-type 'pipe
           :coding 'utf-8-unix
           :command (cons gemini-companion-ssh-program command)
           arguments)))

(defun gemini-companion-host-ssh-tramp-path (hops)
  "Return the control path of the connection by HOPS that Tramp shares, or nil.
The first time Tramp may run ssh, to see what that can do."
  (let ((options (ignore-errors (tramp-ssh-controlmaster-options (car (last hops))))))
    (and (stringp options)
         (string-match "ControlPath=\\([^ ]+\\)" options)
         (not (equal (match-string 1 options) "none"))
         (expand-file-name (string-replace "%%" "%" (match-string 1 options))
                           tramp-compat-temporary-file-directory))))

;;;; Commands on a host

(defun gemini-companion-host-ssh-quote (text)
  "Return TEXT as one word of a shell on a host."
  (concat "'" (string-replace "'" "'\\''" text) "'"))

(defun gemini-companion-host-ssh-login-command (command)
  "Return what runs the shell command COMMAND in a login shell on a host.
That knows where programs are that the user has installed."
  (format "exec sh -c %s sh %s"
          (gemini-companion-host-ssh-quote
           "case ${SHELL##*/} in *csh) exec \"$SHELL\" -c \"$1\" ;; \
*) exec \"${SHELL:-/bin/sh}\" -ilc \"$1\" ;; esac")
          (gemini-companion-host-ssh-quote command)))

(provide 'gemini-companion-host-ssh)
;;; gemini-companion-host-ssh.el ends here

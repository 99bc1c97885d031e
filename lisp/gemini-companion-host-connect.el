;;; gemini-companion-host-connect.el --- Connecting other machines -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The commands that connect a host, after one question for each, and disconnect it; and what a
;; CLI's own sandbox needs.  For the connection itself, see gemini-companion-host-connection.el.

;;; Code:

(require 'cl-lib)
(require 'gemini-companion-agent)
(require 'gemini-companion-answer)
(require 'gemini-companion-bridge)
(require 'gemini-companion-host)
(require 'gemini-companion-host-connection)
(require 'gemini-companion-host-command)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function gemini-companion-turn-on "gemini-companion")
(declare-function gemini-companion-tool-extension-keep-current "gemini-companion-tool-extension")
(declare-function tramp-get-completion-function "tramp")

;;;; Commands

;;;###autoload
(defun gemini-companion-connect (directory)
  "Let clients on the host of DIRECTORY, a remote name, connect to this Emacs.
If the current directory is remote, use that; otherwise, or with a prefix
argument, prompt for a host, such as /ssh:build:.  The project of DIRECTORY
becomes a workspace root.  If DIRECTORY names only a host, the root is the
current project if a container there mounts it, and otherwise your home
directory there.

Emacs asks for your consent once for each host.  It connects with ssh, which
must be able to log in without asking for a password, or with the program of
a container, such as docker.  When the connection breaks, Emacs connects
again.  \\[gemini-companion-disconnect] ends the connection, and so does
turning `gemini-companion-mode' off."
  (interactive
   (list (if (and (not current-prefix-arg) (file-remote-p default-directory))
             default-directory
           (gemini-companion-host-connect--parse
            (completing-read "Connect to: " (gemini-companion-host-connect--candidates))))))
  ;; Signal an error before Tramp looks for the project.
  (gemini-companion-host-command-hops directory)
  (let* ((connection
          (gemini-companion-host-connect-to
           (gemini-companion-host-connect--root directory)
           (unless (file-remote-p default-directory)
             (gemini-companion-workspace-project default-directory))))
         (name (gemini-companion-host-connection-name connection)))
    (unless (eq (gemini-companion-host-connection-state connection) 'ready)
      (gemini-companion-ui-message connection "Connecting to %s..." name))
    (gemini-companion-host-connection-when-ready
     connection
     (lambda (fault)
       (cond ((null fault)
              (gemini-companion-ui-message connection "Connected to %s: a CLI that \
starts there now finds this Emacs" name))
             ((eq (gemini-companion-host-connection-state connection) 'failed)
              (gemini-companion-ui-message connection "%s" fault)))))))

;;;###autoload
(defun gemini-companion-disconnect (name)
  "End the connection to the host with NAME.
Clients there no longer find this Emacs, and their open changes end."
  (interactive
   (list (let* ((names (mapcar #'gemini-companion-host-connection-name
                               gemini-companion-host-connection-all))
                (here (gemini-companion-host-connection-of-directory default-directory))
                (default (if here (gemini-companion-host-connection-name here) (car names))))
           (cond ((null names) (user-error "No host is connected"))
                 ((cdr names) (completing-read (format-prompt "Disconnect" default)
                                               names nil t nil nil default))
                 (t default)))))
  (let ((connection (or (seq-find (lambda (connection)
                                    (equal (gemini-companion-host-connection-name connection) name))
                                  gemini-companion-host-connection-all)
                        (user-error "%s is not connected" name))))
    (gemini-companion-host-connection-close connection)
    (message "%s is disconnected" name)))

(defun gemini-companion-host-connect--root (directory)
  "Return the root of the project in DIRECTORY, a remote name.
If DIRECTORY names only a host, or Emacs would have to wait until Tramp
connects, return DIRECTORY."
  (if (or (equal "" (gemini-companion-host-command-local-name directory))
          (not (file-remote-p directory nil 'connected)))
      directory
    (gemini-companion-workspace-project directory)))

;;;; Reading a host

(defun gemini-companion-host-connect--parse (text)
  "Return the remote name that TEXT, the user's input, stands for."
  (let* ((text (string-trim text))
         (name (format "/ssh:%s:" text)))
    (cond ((string-empty-p text) (user-error "Enter a host"))
          ((file-remote-p text) text)
          ;; In "build:22", Tramp would take the port for a file.
          ((equal "" (gemini-companion-host-command-local-name name)) name)
          (t (user-error "%s is not the name of a host; type a name such as me@build or build#22"
                         text)))))

(defun gemini-companion-host-connect--candidates ()
  "Return the remote names of known hosts, without contacting any of them."
  (delete-dups
   (append
    (cl-loop for buffer in (buffer-list)
             for directory = (buffer-local-value 'default-directory buffer)
             if (gemini-companion-host-command-method-p (file-remote-p directory 'method))
             collect (file-remote-p directory))
    (mapcar (lambda (name) (format "/ssh:%s:" (string-replace "|" "|ssh:" name)))
            (append (gemini-companion-host-connect--allowed)
                    (gemini-companion-host-connect--known-hosts))))))

(defun gemini-companion-host-connect--allowed ()
  "Return the names of the hosts for which the user has given consent."
  (cl-loop for answer in (gemini-companion-answer-all)
           when (pcase answer (`((connect . ,(and (pred stringp) name)) . always) name))
           collect it))

(defun gemini-companion-host-connect--known-hosts ()
  "Return the hosts that ssh and Tramp know, as USER@HOST or HOST."
  (require 'tramp)
  (cl-loop for (function file) in (tramp-get-completion-function "ssh")
           ;; Some sources of passwords ask for one.
           unless (eq function 'tramp-parse-auth-sources)
           nconc (cl-loop for (user host) in (ignore-errors (funcall function file))
                          if host collect (if user (concat user "@" host) host))))

;;;; Connecting

(defun gemini-companion-host-connect-to (directory &optional project)
  "Connect to the host of DIRECTORY, a remote name, which becomes a root there.
If that is only a host, PROJECT, a directory here, may be mounted there.
Ask for the user's consent if it was not given.  Return the
`gemini-companion-host-connection', which need not be ready."
  (let* ((hops (gemini-companion-host-command-hops directory))
         ;; Without a directory, Tramp would ask the host for the home directory.
         (top (expand-file-name (concat (file-remote-p directory) "/")))
         (prefix (file-remote-p top))
         (name (gemini-companion-host-command-name hops))
         (method (file-remote-p top 'method)))
    (gemini-companion-host-connect--ask name)
    (gemini-companion-turn-on)
    (gemini-companion-bridge-check)
    (let ((connection
           (gemini-companion-host-connection-add
            prefix
            (if (or (equal method "ssh") (gemini-companion-host-command-container-p hops)) name
              (concat method ":" name))
            hops)))
      (setf (gemini-companion-host-connection-project connection) project)
      (gemini-companion-host-connection-add-root
       connection (gemini-companion-host-command-local-name directory))
      (when (memq (gemini-companion-host-connection-state connection) '(new lost failed))
        (gemini-companion-host-connection-when-ready
         connection
         (lambda (fault)
           (unless fault (gemini-companion-tool-extension-keep-current connection))))
        (setf (gemini-companion-host-connection-hops connection) hops) ; a new way to the host
        (gemini-companion-host-connection-start connection))
      connection)))

(defun gemini-companion-host-connect--ask (name)
  "Ask for the user's consent to connect the host NAME, unless it was given.
Signal a `user-error' if the user does not consent."
  (unless (member name (gemini-companion-host-connect--allowed))
    (unless (gemini-companion-ui-y-or-n-p
             (format "Anyone with root on %s can see which of its files are open here, with point \
and selection, and propose changes.  Connect? " name))
      (user-error "%s is not connected" name))
    (gemini-companion-answer-set (cons 'connect name) 'always)))

;;;; A CLI in its own sandbox

;; With --sandbox, GEMINI_SANDBOX or tools.sandbox, Gemini CLI starts itself again in a container.
;; The project has the same name there, but the discovery files and the network of this machine are
;; missing.  For each such CLI there is a host: a keeper on this machine, whose files are in a
;; directory that the CLI mounts in the container.  There, Emacs serves only files of the project.

(defun gemini-companion-host-connect-sandbox (buffer root)
  "Return a connection to the sandbox in which a CLI will work in ROOT, in BUFFER.
It ends with BUFFER."
  (require 'tramp)
  (let* ((directory (file-truename (make-temp-file "gemini-" t)))
         (name (file-name-nondirectory directory))
         ;; This is what the CLI calls its directory.
         (there (directory-file-name (file-truename root)))
         (connection (gemini-companion-host-connection-add
                      (format "/sandbox:%s:" name) (concat "sandbox:" name)
                      (list (gemini-companion-host-command-sandbox-hop name directory))
                      :sandbox buffer :directory directory
                      :mounts (delete-dups (list (cons there (directory-file-name root))
                                                 (cons there there))))))
    (with-current-buffer buffer
      (add-hook 'kill-buffer-hook #'gemini-companion-host-connect--close-sandbox nil t))
    (gemini-companion-host-connection-add-root connection there)
    (gemini-companion-host-connection-start connection)
    connection))

(defun gemini-companion-host-connect-sandbox-environment (buffer agent environment)
  "Return ENVIRONMENT, so that AGENT mounts the directory of BUFFER's sandbox."
  (let* ((directory (gemini-companion-host-directory
                     (seq-find (lambda (host) (eq buffer (gemini-companion-host-sandbox host)))
                               gemini-companion-host-all)))
         (name (cadr (gemini-companion-agent-get agent :directory)))
         (mounts (delq nil (list (gemini-companion-agent-getenv "SANDBOX_MOUNTS" environment)
                                 (concat directory ":" directory ":ro")
                                 (format "%s/%s:/tmp/%s:ro" directory name name)))))
    (cons (concat "SANDBOX_MOUNTS=" (string-join mounts ",")) environment)))

(defun gemini-companion-host-connect--close-sandbox ()
  "End the connection to the sandbox of the CLI in the current buffer."
  (dolist (host gemini-companion-host-all)
    (when (eq (current-buffer) (gemini-companion-host-sandbox host))
      (gemini-companion-host-remove host))))
(put 'gemini-companion-host-connect--close-sandbox 'permanent-local-hook t)

;;;; Reports

(defun gemini-companion-host-connect-describe ()
  "Return the connections for the user, each as (LINE PREFIX BUTTON...).
A button is (LABEL . FUNCTION)."
  (mapcar
   (pcase-lambda ((and connection
                       (cl-struct gemini-companion-host-connection name state prefix roots)))
     (let ((sessions (length (gemini-companion-bridge-host-sessions prefix))))
       `(,(gemini-companion-ui-one-line
           (concat name ": " (gemini-companion-host-connection-describe-state connection)
                   ", " (gemini-companion-ui-count sessions "session")
                   (and roots (concat ", " (string-join roots ", ")))))
         ,prefix
         ,@(and (memq state '(lost failed))
                `(("connect" . ,(lambda () (gemini-companion-connect prefix)))))
         ("disconnect" . ,(lambda () (gemini-companion-disconnect name))))))
   gemini-companion-host-connection-all))

(provide 'gemini-companion-host-connect)
;;; gemini-companion-host-connect.el ends here

;;; gemini-companion-host-sandbox.el --- A CLI in its own sandbox -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; With --sandbox, GEMINI_SANDBOX or tools.sandbox, Gemini CLI starts itself again in a container,
;; in which the project has the same name, but which lacks the discovery files of this machine and
;; its network.  For each such CLI there is a host: a keeper on this machine, whose files are in a
;; directory that the CLI mounts in the container.  Of the files in the container, Emacs serves only
;; those of the project.

;;; Code:

(require 'cl-lib)
(require 'gemini-companion-agent)
(require 'gemini-companion-host)
(require 'gemini-companion-host-command)
(require 'gemini-companion-host-connection)

(defvar-local gemini-companion-host-sandbox--here nil
  "What the CLI in this buffer has, (HOST . DIRECTORY), or nil.
HOST is a `gemini-companion-host', DIRECTORY what it mounts in its sandbox.")
(put 'gemini-companion-host-sandbox--here 'permanent-local t)

;;;; Making it

(defun gemini-companion-host-sandbox-open (buffer root)
  "Return a connection to the sandbox in which a CLI will work in ROOT, in BUFFER.
It ends with BUFFER."
  (let* ((directory (file-truename (make-temp-file "gemini-" t)))
         (name (gemini-companion-host-sandbox--name root))
         (host (gemini-companion-host-add (format "/sandbox:%s:" name)))
         ;; This is what the CLI calls its directory.
         (there (directory-file-name (file-truename root)))
         (connection (gemini-companion-host-connection-add
                      host (concat "sandbox:" name)
                      (list (gemini-companion-host-command-sandbox-hop name directory)))))
    (setf (gemini-companion-host-sandbox host) buffer
          (gemini-companion-host-mounts host)
          (delete-dups (list (cons there (directory-file-name root)) (cons there there))))
    (with-current-buffer buffer
      (setq gemini-companion-host-sandbox--here (cons host directory))
      (add-hook 'kill-buffer-hook #'gemini-companion-host-sandbox--close nil t))
    (add-hook 'kill-emacs-hook #'gemini-companion-host-sandbox--close-all)
    (gemini-companion-host-connection-add-root connection there)
    (gemini-companion-host-connection-start connection)
    connection))

(defun gemini-companion-host-sandbox--name (root)
  "Return the name of a new sandbox for the project in ROOT."
  (cl-loop with base = (replace-regexp-in-string
                        "[^[:alnum:]_.-]" "_" (file-name-nondirectory (directory-file-name root)))
           for number from 1
           for name = (if (= number 1) base (format "%s-%d" base number))
           unless (gemini-companion-host-named (format "/sandbox:%s:" name)) return name))

(defun gemini-companion-host-sandbox-environment (buffer agent environment)
  "Return ENVIRONMENT, so that AGENT mounts the directory of BUFFER's sandbox."
  (let* ((directory (cdr (buffer-local-value 'gemini-companion-host-sandbox--here buffer)))
         (process-environment (copy-sequence environment))
         (name (cadr (gemini-companion-agent-get agent :directory))))
    (setenv "SANDBOX_MOUNTS"
            (string-join
             (delq nil (list (getenv "SANDBOX_MOUNTS")
                             (concat directory ":" directory ":ro")
                             (format "%s/%s:/tmp/%s:ro" directory name name)))
             ","))
    process-environment))

;;;; Its end

(defun gemini-companion-host-sandbox--close ()
  "End the connection to the sandbox of the CLI in the current buffer."
  (pcase gemini-companion-host-sandbox--here
    (`(,host . ,directory)
     (setq gemini-companion-host-sandbox--here nil)
     (gemini-companion-host-remove host)
     (delete-directory directory t))))
(put 'gemini-companion-host-sandbox--close 'permanent-local-hook t)

(defun gemini-companion-host-sandbox--close-all ()
  "End the connections to the sandboxes of all CLIs."
  (dolist (buffer (buffer-list))
    (with-current-buffer buffer
      (gemini-companion-host-sandbox--close))))

(provide 'gemini-companion-host-sandbox)
;;; gemini-companion-host-sandbox.el ends here

;;; gemini-companion-environment.el --- How a client finds us -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Two things lead a client to this Emacs: the discovery file, whose directory is computed here
;; the way the client does it, and environment variables for the processes that Emacs starts,
;; which break the tie between several Emacsen.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'gemini-companion-bridge)

(defconst gemini-companion-environment--variables
  '("GEMINI_CLI_IDE_SERVER_PORT" "GEMINI_CLI_IDE_PID" "GEMINI_CLI_IDE_AUTH_TOKEN")
  "The variables that a client reads.")

(defvar gemini-companion-environment--saved nil
  "Alist of the variables and the values they had before, or nil.")

(defun gemini-companion-environment-directory ()
  "Return the directory of discovery files: Node's `os.tmpdir()' + \"/gemini/ide\"."
  (concat (gemini-companion-environment--temporary-directory) "/gemini/ide"))

(defun gemini-companion-environment--temporary-directory ()
  "Return what `os.tmpdir()' is for a process that Emacs starts, without slash."
  (let* ((windows (eq system-type 'windows-nt))
         (set (seq-find (lambda (value) (not (member value '(nil ""))))
                        (mapcar #'gemini-companion-environment--get
                                (if windows '("TEMP" "TMP") '("TMPDIR" "TMP" "TEMP")))))
         (directory (or set
                        (if windows
                            (concat (or (getenv "SystemRoot") (getenv "windir") "") "/temp")
                          "/tmp"))))
    (if (> (length directory) 1)
        (replace-regexp-in-string "[/\\]\\'" "" directory)
      directory)))

(defun gemini-companion-environment-set ()
  "Lead the processes that Emacs will start to the running companion."
  ;; The token is fetched here, since arguments show in backtraces.
  (let ((values (list (number-to-string (gemini-companion-bridge-port))
                      (number-to-string (emacs-pid))
                      (gemini-companion-bridge-token))))
    (unless gemini-companion-environment--saved
      (setq gemini-companion-environment--saved
            (mapcar (lambda (name) (cons name (gemini-companion-environment--get name)))
                    gemini-companion-environment--variables)))
    (cl-mapc #'gemini-companion-environment--put
             gemini-companion-environment--variables values)))

(defun gemini-companion-environment-restore ()
  "Put the variables back to what they were."
  (pcase-dolist (`(,name . ,value) gemini-companion-environment--saved)
    (gemini-companion-environment--put name value))
  (setq gemini-companion-environment--saved nil))

;; The global value, since a buffer or a caller may have an environment of its own.

(defun gemini-companion-environment--get (name)
  "Return the value of the environment variable NAME, or nil."
  (getenv-internal name (default-toplevel-value 'process-environment)))

(defun gemini-companion-environment--put (name value)
  "Set the environment variable NAME to VALUE; nil removes it."
  (set-default-toplevel-value
   'process-environment
   (setenv-internal (copy-sequence (default-toplevel-value 'process-environment))
                    name value nil)))

(provide 'gemini-companion-environment)
;;; gemini-companion-environment.el ends here

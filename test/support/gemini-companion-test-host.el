;;; gemini-companion-test-host.el --- Hosts that Tramp can reach  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A host is this machine under another name: the method "mock", as in Emacs's
;; own tests of Tramp, runs a shell here.  So buffers that visit files there
;; are real remote ones.  A client is the fake one, which tells what a relay
;; would.  What Tramp asks a host is counted.

;;; Code:

(require 'cl-lib)
(require 'tramp)
(require 'tramp-sh)
(require 'gemini-companion-host-connect nil t)
(require 'gemini-companion-file)
(require 'gemini-companion-host)
(require 'gemini-companion-test-companion)

;;;; Tramp

(setq tramp-verbose 0
      tramp-persistency-file-name nil)
(add-to-list 'tramp-methods
             '("mock"
               (tramp-login-program "env")
               ;; Methods that do not name the host must reach this machine.
               (tramp-login-args (("-u") ("%h") ("sh") ("-i")))
               (tramp-remote-shell "/bin/sh")
               (tramp-remote-shell-args ("-c"))
               (tramp-connection-timeout 10)))

(defvar gemini-companion-test-host-commands nil
  "What Tramp has asked hosts, the newest first.")

(defun gemini-companion-test-host--count (_vec command &rest _)
  "Record that Tramp sends COMMAND to a host."
  (push command gemini-companion-test-host-commands))
(advice-add 'tramp-send-command :before #'gemini-companion-test-host--count)

(defmacro gemini-companion-test-host-unasked (&rest body)
  "Evaluate BODY; fail if Tramp has asked a host for something meanwhile."
  (declare (indent 0) (debug t))
  `(let ((gemini-companion-test-host-commands nil))
     (prog1 (progn ,@body)
       (should-not gemini-companion-test-host-commands))))

;;;; A host and its client

(defconst gemini-companion-test-host-prefix "/mock:build:"
  "The prefix of the host of most tests.")

(defun gemini-companion-test-host-file (name)
  "Return what Emacs calls the file NAME of the test's project on a host."
  (concat gemini-companion-test-host-prefix (gemini-companion-test-file name)))

(defun gemini-companion-test-host-add (prefix)
  "Return the host with PREFIX, which is served from now on, without a connection."
  (or (gemini-companion-host-named prefix)
      (gemini-companion-host-add (gemini-companion-host--make :prefix prefix))))

(defun gemini-companion-test-host-open (prefix &rest roots)
  "Serve the host with PREFIX; its workspace ROOTS are names in the test's project.
Return the token of Gemini CLI there."
  (gemini-companion-host-set-roots (gemini-companion-test-host-add prefix)
                                   (mapcar #'gemini-companion-test-file roots))
  (alist-get 'gemini (gemini-companion-bridge-open-host prefix)))

(defun gemini-companion-test-host-close (prefix)
  "Serve the host with PREFIX no longer."
  (when-let* ((host (gemini-companion-host-named prefix)))
    (gemini-companion-host-remove host)
    (gemini-companion-bridge-close-host prefix)))

(defun gemini-companion-test-host-connect (token directory)
  "Return a client that works in DIRECTORY, and whose host has TOKEN."
  (fake-cli-connect-to `((port . ,(gemini-companion-bridge-port)) (authToken . ,token))
                       directory))

(defmacro gemini-companion-test-with-host (client &rest body)
  "Evaluate BODY with the mode on and CLIENT connected on a host, in a new project.
The project is a workspace root there, and the file a.txt in it has two
lines; no buffer visits it."
  (declare (indent 1) (debug (symbolp body)))
  `(gemini-companion-test-with-project
     (gemini-companion-test-file "a.txt" "one\ntwo\n")
     (unwind-protect
         (let ((gemini-companion-history--entries nil))
           (gemini-companion-mode 1)
           (let ((,client (gemini-companion-test-host-connect
                           (gemini-companion-test-host-open gemini-companion-test-host-prefix ".")
                           (directory-file-name gemini-companion-test-project))))
             (unwind-protect (progn ,@body)
               (fake-cli-disconnect ,client))))
       (mapc #'gemini-companion-host-remove gemini-companion-host-all))))

;;;; What the relay tells

(defun gemini-companion-test-host-state (file)
  "Return what a relay tells of FILE, a local name, as a plist."
  (let ((attributes (file-attributes file)))
    (if (not attributes) '(:current :null :stamp :null :modified :null)
      (let* ((bytes (gemini-companion-test-bytes file))
             (text (decode-coding-string bytes 'utf-8-unix t))
             (modified (file-attribute-modification-time attributes)))
        (list :current (if (memq 'eight-bit (find-charset-string text))
                           `(:base64 ,(base64-encode-string bytes t))
                         `(:text ,text))
              :stamp (format "%S %d %d" modified (file-attribute-size attributes)
                             (file-attribute-inode-number attributes))
              :modified (time-convert modified 'integer))))))

(defun gemini-companion-test-host-propose (client name text &optional state)
  "Let CLIENT, on a host, propose TEXT for the file NAME; return the review.
STATE is what is told of the file, by default how it is."
  (let ((path (gemini-companion-test-file name)))
    (gemini-companion-test-open-diff
     client path text gemini-companion-test-host-prefix
     `(:proposal ,(format "%s" (random)) ,@(or state (gemini-companion-test-host-state path))))))

(defun gemini-companion-test-host-tell (client name &optional state)
  "Let CLIENT tell what the file NAME contains, by default as it is.
STATE is as in `gemini-companion-test-host-propose'."
  (let* ((path (gemini-companion-test-file name))
         (told (lambda ()
                 (cdr (assoc (concat gemini-companion-test-host-prefix path)
                             gemini-companion-file--states))))
         (before (funcall told)))
    (fake-cli-call-tool client "fileWritten"
                        `( :filePath ,path
                           ,@(or state (gemini-companion-test-host-state path))))
    (gemini-companion-test-wait
     "what was told" (lambda () (not (eq before (funcall told)))))))

(defun gemini-companion-test-host-write (client name bytes)
  "Let CLIENT write BYTES to the file NAME, and tell of it; wait for its buffer."
  (let ((coding-system-for-write 'no-conversion)
        (file-name-handler-alist nil))
    (write-region bytes nil (gemini-companion-test-file name) nil 'quiet))
  (gemini-companion-test-host-tell client name)
  (gemini-companion-test-wait-followed (gemini-companion-test-host-file name)))

(provide 'gemini-companion-test-host)
;;; gemini-companion-test-host.el ends here

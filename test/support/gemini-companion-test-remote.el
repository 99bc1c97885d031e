;;; gemini-companion-test-remote.el --- An Emacs that is connected with a host  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Emacs visits files on a host by Tramp, the real CLI runs there, and its reviews
;; are here.

;;; Code:

(require 'gemini-companion-test-far)
(require 'gemini-companion-test-review)

;;;; Connecting

(defun gemini-companion-test-remote-visit (emacs far name)
  "Visit the file NAME in the project on FAR in EMACS, by Tramp."
  (gemini-companion-test-run
   emacs `(progn (find-file ,(gemini-companion-test-far-tramp far name)) nil) 60))

(defun gemini-companion-test-remote-connect (emacs)
  "Connect EMACS with the host of its current file, as its user does."
  (gemini-companion-test-m-x emacs "gemini-companion-connect")
  (when (string-match-p
         "(y or n)"
         (gemini-companion-test-wait-screen emacs "(y or n)\\|Connect\\(?:ing\\|ed\\) to"))
    (gemini-companion-test-keys emacs "y"))
  (gemini-companion-test-remote-wait-connected emacs))

(defun gemini-companion-test-remote-wait-connected (emacs &optional host)
  "Wait until EMACS is connected with HOST, or with the host of its current file.
HOST is a `gemini-companion-test-far' or the prefix of names of its files."
  (gemini-companion-test-wait
   (lambda () (format "a connection; there is %S" (gemini-companion-test-remote-state emacs host)))
   (lambda () (eq 'ready (gemini-companion-test-remote-state emacs host)))))

(defun gemini-companion-test-remote-state (emacs &optional host)
  "Return the state of the connection of EMACS with HOST.
The arguments are as in `gemini-companion-test-remote-wait-connected'."
  (gemini-companion-test-eval
   emacs `(let ((prefix ,(cond ((null host) '(file-remote-p default-directory))
                               ;; Newer Emacsen leave out the hosts on the way.
                               ((stringp host) `(file-remote-p ,host))
                               (t (gemini-companion-test-far-prefix host)))))
            (and (featurep 'gemini-companion-host-connect)
                 (when-let* ((connection
                              (seq-find (lambda (it)
                                          (equal prefix (gemini-companion-host-prefix it)))
                                        gemini-companion-host-connection-all)))
                   (gemini-companion-host-connection-state connection))))))

;;;; What is on the host

(defun gemini-companion-test-remote-discovery-files (far)
  "Return the discovery files in the temporary directory of FAR, named as here."
  (file-expand-wildcards
   (gemini-companion-test-far-local
    far (concat (gemini-companion-test-far-tmp far)
                "/gemini/ide/gemini-ide-server-*.json"))))

(defun gemini-companion-test-remote-cache (far)
  "Return the files that we have put into the cache of FAR, named as here."
  (let ((directory (gemini-companion-test-far-local
                    far (concat (gemini-companion-test-far-home far)
                                "/.cache/gemini-companion"))))
    (and (file-directory-p directory)
         (directory-files directory t directory-files-no-dot-files-regexp))))

(defun gemini-companion-test-remote-there (far files)
  "Return FILES, named as here, as FAR names them."
  (mapcar (lambda (it) (string-remove-prefix (gemini-companion-test-far-root far) it)) files))

(defun gemini-companion-test-remote-wait-only-relay (far)
  "Wait until nothing of ours is on FAR but the relay."
  (gemini-companion-test-wait
   (lambda () (format "only the relay to be left; there is %S"
                      (append (gemini-companion-test-remote-discovery-files far)
                              (gemini-companion-test-remote-cache far))))
   (lambda ()
     (and (null (gemini-companion-test-remote-discovery-files far))
          (equal 1 (length (gemini-companion-test-remote-cache far)))
          (string-match-p "/relay-[0-9a-f]+\\.mjs\\'"
                          (car (gemini-companion-test-remote-cache far)))))))

;;;; What Tramp is asked

(defun gemini-companion-test-remote-count (emacs)
  "Let EMACS record from now on what Tramp sends, with the Lisp that wants it."
  (gemini-companion-test-eval
   emacs '(progn
            (require 'tramp-sh)
            (defvar gemini-companion-test-inner-sent nil)
            (setq gemini-companion-test-inner-sent nil)
            (advice-add 'tramp-send-command :before
                        (lambda (_ command &rest _)
                          (push (cons command
                                      (seq-filter
                                       (lambda (it)
                                         (string-match-p "gemini-companion"
                                                         (format "%s" it)))
                                       (mapcar #'cadr (backtrace-frames))))
                                gemini-companion-test-inner-sent))
                        '((name . gemini-companion-test-inner)))
            nil)))

(defun gemini-companion-test-remote-sent (emacs)
  "Return what Tramp has sent in EMACS, see `gemini-companion-test-remote-count'."
  (gemini-companion-test-eval emacs 'gemini-companion-test-inner-sent))

;;;; Starting

(defmacro gemini-companion-test-with-remote (spec &rest body)
  "Run BODY with a host and an Emacs that is connected with it.
SPEC is (EMACS FAR FILES [START]): two variables, files of the project
there as (NAME . TEXT) pairs, and the function that starts the host.
Emacs visits the first file, and counts what it asks Tramp after that."
  (declare (indent 1) (debug ((symbolp symbolp form &optional form) body)))
  (pcase-let ((`(,emacs ,far ,files ,start) spec))
    `(progn
       (gemini-companion-test-require-far)
       (gemini-companion-test-with-far
           (,far (funcall ,(or start '#'gemini-companion-test-far-start) "far"))
         (gemini-companion-test-with-far-emacs (,emacs)
           (gemini-companion-test-remote-prepare ,emacs ,far ,files)
           ,@body)))))

(defun gemini-companion-test-remote-prepare (emacs far files &optional connected)
  "Create FILES on FAR, visit the first one in EMACS, and connect them.
With CONNECTED they are connected already."
  (pcase-dolist (`(,name . ,text) files)
    (gemini-companion-test-far-write far name text))
  (gemini-companion-test-remote-visit emacs far (caar files))
  (unless connected (gemini-companion-test-remote-connect emacs))
  (gemini-companion-test-remote-count emacs))

(defmacro gemini-companion-test-with-remote-cli (spec &rest body)
  "Run BODY with a host, an Emacs that is connected with it, and a CLI there.
They may have been used by another test.  SPEC is (EMACS FAR CLI FILES):
three variables, and files as in `gemini-companion-test-with-remote'."
  (declare (indent 1) (debug ((symbolp symbolp symbolp form) body)))
  (pcase-let ((`(,emacs ,far ,cli ,files) spec))
    `(gemini-companion-test-remote--call
      ,files (lambda (,emacs ,far ,cli)
               (ignore ,emacs ,far ,cli)
               ,@body))))

(defvar gemini-companion-test-remote--spare nil
  "A host, an Emacs and a CLI of an earlier test, for the next one: a list.")

(defun gemini-companion-test-remote--call (files function)
  "Call FUNCTION with an Emacs that visits FILES, their host, and a CLI there."
  (gemini-companion-test-require-far)
  (pcase-let* ((spare (prog1 gemini-companion-test-remote--spare
                        (setq gemini-companion-test-remote--spare nil)))
               ;; Another test may start another host with the usual name.
               (far (or (pop spare) (gemini-companion-test-far-start "shared")))
               (emacs (or (pop spare)
                          (gemini-companion-test-start
                           :environment (gemini-companion-test-far-environment))))
               (cli (pop spare))
               (passed nil))
    (unwind-protect
        (progn
          (gemini-companion-test-remote-prepare emacs far files cli)
          (unless cli
            (setq cli (gemini-companion-test-far-cli-start far)))
          (funcall function emacs far cli)
          (setq passed t))
      (unless passed
        (when cli (message "%s" (gemini-companion-test-cli-report cli)))
        (message "%s" (gemini-companion-test-report emacs)))
      (if (and passed (gemini-companion-test-remote--reset emacs far cli))
          (setq gemini-companion-test-remote--spare (list far emacs cli))
        (when cli (gemini-companion-test-cli-stop cli))
        (gemini-companion-test-stop emacs)
        (gemini-companion-test-far-stop far)))))

(defun gemini-companion-test-remote--reset (emacs far cli)
  "Reset EMACS, FAR and CLI, which stay connected.  Return non-nil on success."
  (and (gemini-companion-test-alive-p emacs)
       (string-empty-p (gemini-companion-test-stderr emacs))
       (eq 'ready (gemini-companion-test-remote-state emacs far))
       (gemini-companion-test-cli--reset cli)
       (gemini-companion-test-eval
        emacs '(and (zerop (gemini-companion-review-count))
                    (let ((kill-buffer-query-functions nil))
                      (delete-other-windows)
                      (switch-to-buffer "*scratch*")
                      (dolist (buffer (buffer-list))
                        (unless (string-match-p "\\`[ *]" (buffer-name buffer))
                          (with-current-buffer buffer (set-buffer-modified-p nil))
                          (kill-buffer buffer)))
                      (setq gemini-companion-history--entries nil)
                      t)))
       (let ((directory (gemini-companion-test-far-local
                         far (gemini-companion-test-far-file far ""))))
         (delete-directory directory t)
         (make-directory (concat directory ".git") t)
         t)))

;;;; Reviews

(defun gemini-companion-test-remote-review (emacs cli file text)
  "Let the model of CLI propose TEXT for FILE; wait until EMACS shows that."
  (gemini-companion-test-cli-propose cli file text)
  (gemini-companion-test-wait-review emacs text))

(defun gemini-companion-test-remote-wait-file (far name text &optional timeout)
  "Wait until the file NAME in the project on FAR has TEXT.
TIMEOUT is in seconds."
  (let ((bytes (encode-coding-string text 'utf-8-unix)))
    (gemini-companion-test-wait
     (lambda () (format "%S in %s; there is %S" text name
                        (gemini-companion-test-far-bytes far name)))
     (lambda () (equal (gemini-companion-test-far-bytes far name) bytes))
     timeout)))

(defun gemini-companion-test-remote-wait-buffer (emacs far name text)
  "Wait until TEXT is what EMACS has of the file NAME in the project on FAR."
  (let ((form `(with-current-buffer
                   ;; By name alone, which asks nobody.
                   (seq-find (lambda (it)
                               (equal (buffer-file-name it)
                                      ,(gemini-companion-test-far-tramp far name)))
                             (buffer-list))
                 (list (buffer-string) (buffer-modified-p)))))
    (gemini-companion-test-wait
     (lambda ()
       (format "%S in the buffer of %s; there is %S" text name
               (gemini-companion-test-eval emacs form)))
     (lambda ()
       (equal (gemini-companion-test-eval emacs form) (list text nil))))))

(defun gemini-companion-test-remote-wait-done (cli)
  "Wait until the model of CLI was told what became of its proposal."
  (gemini-companion-test-cli-wait-screen cli "All done"))

(defun gemini-companion-test-remote-connected-p (cli)
  "Return non-nil if CLI says that it is connected."
  (gemini-companion-test-cli-submit cli "/ide status" "Connected to Emacs"))

(defun gemini-companion-test-remote-context (cli)
  "Let CLI ask its model something; return the context that was sent along."
  (gemini-companion-test-cli-submit cli "hello")
  (gemini-companion-test-request-context (gemini-companion-test-cli-wait-requests cli 1)))

(provide 'gemini-companion-test-remote)
;;; gemini-companion-test-remote.el ends here

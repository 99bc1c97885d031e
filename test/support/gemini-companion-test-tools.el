;;; gemini-companion-test-tools.el --- Calls of tools without a client  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Calls of tools as events, and their answers, without a server between.

;;; Code:

(require 'cl-lib)
(require 'gemini-companion-test-companion)
(require 'project)
(require 'gemini-companion-tool)

(defvar gemini-companion-test-tools--answers nil
  "Alist of calls and their answers; that of a failure is a list of the reason.")

(defvar gemini-companion-test-tools--last 0
  "The number of the last call.")

(defvar gemini-companion-test-tools--awaited nil
  "The calls that somebody waits for.")

(defvar gemini-companion-test-tools-set nil
  "The tools that the module was given last.")

(defmacro gemini-companion-test-with-tools (&rest body)
  "Evaluate BODY with the mode on in a new project, and calls that we answer."
  (declare (indent 0) (debug t))
  `(gemini-companion-test-with-project
     (make-directory (gemini-companion-test-file ".git"))
     (let ((gemini-companion-test-tools--answers nil)
           (gemini-companion-test-tools--awaited nil)
           (gemini-companion-test-tools-set nil)
           (gemini-companion-tool-calls nil)
           (inhibit-message t))
       (cl-letf (((symbol-function 'gemini-companion-bridge-awaited-p)
                  (lambda (id)
                    (and (gemini-companion-bridge-running-p)
                         (memq id gemini-companion-test-tools--awaited))))
                 ((symbol-function 'gemini-companion-bridge-answer)
                  (lambda (id text &optional _)
                    (gemini-companion-test-tools--end id text)))
                 ((symbol-function 'gemini-companion-bridge-fail)
                  (lambda (id reason)
                    (gemini-companion-test-tools--end id (list reason))))
                 ((symbol-function 'gemini-companion-bridge-set-tools)
                  (lambda (tools) (setq gemini-companion-test-tools-set tools))))
         (gemini-companion-workspace-roots)
         (gemini-companion-mode 1)
         (gemini-companion-test-open ".gitignore" "")
         (gemini-companion-workspace-announce)
         (gemini-companion--handle-tools-wanted)
         ,@body))))

(defun gemini-companion-test-open (name text)
  "Return a buffer that visits the file NAME of the project, with TEXT."
  (let ((enable-local-variables :safe))
    (find-file-noselect (gemini-companion-test-file name text))))

(defun gemini-companion-test-tools--end (id answer)
  "Record that the call ID got ANSWER."
  (when (memq id gemini-companion-test-tools--awaited)
    (setq gemini-companion-test-tools--awaited
          (delq id gemini-companion-test-tools--awaited))
    (push (cons id answer) gemini-companion-test-tools--answers)))

(defun gemini-companion-test-tools-begin (tool &rest arguments)
  "Call TOOL with ARGUMENTS; return the number of the call."
  (gemini-companion-test-tools-begin-in
   (directory-file-name gemini-companion-test-project) tool arguments))

(defun gemini-companion-test-tools-begin-in (directory tool arguments)
  "Call TOOL with ARGUMENTS for a client in DIRECTORY; return its number."
  (let ((id (cl-incf gemini-companion-test-tools--last))
        (declared (cl-find tool gemini-companion-test-tools-set
                           :key (lambda (it) (aref it 0)) :test #'equal)))
    (push id gemini-companion-test-tools--awaited)
    (gemini-companion-bridge-handle-event
     'call-tool id 'gemini tool
     (vconcat arguments (make-list (max 0 (- (length (and declared (aref declared 4)))
                                             (length arguments)))
                                   nil))
     directory)
    id))

(defun gemini-companion-test-tools-answer (id)
  "Return the answer to the call ID, nil if there is none yet."
  (alist-get id gemini-companion-test-tools--answers))

(defun gemini-companion-test-tools-wait (id)
  "Wait for the answer to the call ID, and return it."
  (gemini-companion-test-wait "the answer of a tool"
                              (lambda () (gemini-companion-test-tools-answer id))))

(defun gemini-companion-test-call-tool (tool &rest arguments)
  "Call TOOL with ARGUMENTS and return its answer.
That of a call that failed is a list of the reason."
  (gemini-companion-test-tools-wait
   (apply #'gemini-companion-test-tools-begin tool arguments)))

;;;; A language server

(declare-function eglot "ext:eglot")
(declare-function eglot-current-server "ext:eglot" ())
(declare-function eglot-shutdown "ext:eglot")
(declare-function jsonrpc--process "ext:jsonrpc")
(defvar eglot-autoreconnect)
(defvar eglot-autoshutdown)


(defvar eglot-sync-connect)

(define-derived-mode gemini-companion-test-served-mode prog-mode "Served"
  "A mode whose buffers have a language server.")

(defun gemini-companion-test-server-order (name &optional remove)
  "Give the language server the order NAME, or REMOVE it."
  (let ((file (gemini-companion-test-file (concat "server/" name))))
    (if remove (delete-file file)
      (gemini-companion-test-write file ""))))

(defun gemini-companion-test-server-log ()
  "Return the methods of the messages that the language server has got."
  (let ((log (gemini-companion-test-file "server/log")))
    (and (file-exists-p log)
         (split-string (gemini-companion-test-read log) "\n" t))))

(defmacro gemini-companion-test-with-flycheck (check &rest body)
  "Evaluate BODY with a Flycheck that calls CHECK to check the current buffer.
Its errors are lists (LINE COLUMN LEVEL MESSAGE)."
  (declare (indent 1) (debug t))
  `(cl-letf (((symbol-function 'flycheck-buffer) ,check)
             ((symbol-function 'flycheck-stop) #'ignore)
             ((symbol-function 'flycheck-running-p) #'ignore)
             ((symbol-function 'flycheck-error-buffer) #'ignore)
             ((symbol-function 'flycheck-error-line) (apply-partially #'nth 0))
             ((symbol-function 'flycheck-error-column) (apply-partially #'nth 1))
             ((symbol-function 'flycheck-error-level) (apply-partially #'nth 2))
             ((symbol-function 'flycheck-error-message) (apply-partially #'nth 3)))
     ,@body))

(defmacro gemini-companion-test-with-server (buffer text &rest body)
  "Evaluate BODY with BUFFER visiting a file a.served with TEXT and a server.
Skip the test if this Emacs has no Eglot, or if there is no Node."
  (declare (indent 2) (debug (symbolp form body)))
  `(progn
     (skip-unless (require 'eglot nil t))
     (skip-unless (executable-find "node"))
     (gemini-companion-test-with-tools
       (make-directory (gemini-companion-test-file "server"))
       (let ((,buffer (gemini-companion-test-open "a.served" ,text)))
         (with-current-buffer ,buffer
           (gemini-companion-test-served-mode)
           (let ((server (gemini-companion-test-connect-server)))
             (unwind-protect (progn ,@body)
               (when (process-live-p (jsonrpc--process server))
                 (ignore-errors (eglot-shutdown server))))))))))

(defun gemini-companion-test-connect-server ()
  "Start a language server for the current buffer, and return it."
  (let ((eglot-sync-connect t)
        (eglot-autoreconnect nil)
        (eglot-autoshutdown nil))
    (eglot '(gemini-companion-test-served-mode)
           (project-current) 'eglot-lsp-server
           (list "node" (expand-file-name "fake-language-server.mjs"
                                          gemini-companion-test-support-directory)
                 (gemini-companion-test-file "server"))
           '("served"))
    (eglot-current-server)))

(provide 'gemini-companion-test-tools)
;;; gemini-companion-test-tools.el ends here

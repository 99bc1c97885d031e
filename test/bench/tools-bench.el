;;; tools-bench.el --- Typing while a tool of the model waits  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; In an interactive Emacs: how long it is from a key until its command has run, while two calls wait for
;; a language server that does not answer, and while there is none.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path (file-name-directory (macroexp-file-name))))
(require 'gemini-companion-bench)
(require 'gemini-companion-test-served)

(defconst gemini-companion-bench--key-pause 0.03
  "Seconds between two keys.")

(defun gemini-companion-bench-key-delays (emacs count)
  "Type COUNT keys in EMACS; return how long each one waited, in milliseconds.
That is from when tmux is told to press it until its command has run."
  (gemini-companion-test-eval
   emacs '(progn
            (defvar typed nil)
            (setq typed nil)
            (add-hook 'post-command-hook
                      (lambda ()
                        (when (eq this-command 'self-insert-command)
                          (push (float-time) typed))))
            nil))
  (let* ((next (float-time))
         (pressed (cl-loop repeat count
                           do (cl-incf next gemini-companion-bench--key-pause)
                           do (while (> next (float-time))
                                (accept-process-output nil (max 0 (- next (float-time)))))
                           collect (float-time)
                           do (gemini-companion-test-type emacs "x"))))
    (gemini-companion-test-wait-eval emacs `(= (length typed) ,count))
    (cl-mapcar (lambda (done begun) (* 1000 (- done begun)))
               (nreverse (gemini-companion-test-eval emacs 'typed)) pressed)))

(defun gemini-companion-bench-tools ()
  "Measure keys with and without calls that wait for a language server."
  (gemini-companion-test-with-served
      (emacs tools '(("a.served" . "bad one\n"))
             (gemini-companion-test-served-fake emacs "a.served"))
    (gemini-companion-test-keys emacs "M->")
    (gemini-companion-test-served-call tools "getDiagnostics" :path "a.served")
    (gemini-companion-bench-add "key to command: no tool is called" "ms"
                                (gemini-companion-bench-key-delays emacs 100))
    (dolist (request '("publish" "references"))
      (gemini-companion-test-served-hold emacs request t))
    (gemini-companion-test-type emacs "y")
    (let ((calls (list (gemini-companion-test-served-begin
                        tools "getDiagnostics" :path "a.served")
                       (gemini-companion-test-served-begin
                        tools "findReferences" :path "a.served" :line 1 :symbol "one"))))
      (gemini-companion-test-wait
       "the server to be asked"
       (lambda ()
         (string-search "textDocument/references"
                        (gemini-companion-test-read
                         (gemini-companion-test-emacs-file emacs "server/log")))))
      (gemini-companion-bench-add "key to command: two calls wait for a server" "ms"
                                  (gemini-companion-bench-key-delays emacs 100)
                                  "key to command: no tool is called")
      (when (seq-some (lambda (call) (gemini-companion-test-served-answered tools call)) calls)
        (error "A call was answered early")))))

(if (gemini-companion-test-served-eglot-p)
    (gemini-companion-bench-tools)
  (message "Not measured, since this Emacs has no Eglot: tools of the model"))

;;; tools-bench.el ends here

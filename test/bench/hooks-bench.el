;;; hooks-bench.el --- What the hooks of a CLI cost  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; For how long a CLI waits for the shell command of a hook: with an Emacs, and without one.  A turn
;; has two of them, each edit has two.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path (file-name-directory (macroexp-file-name))))
(require 'gemini-companion-bench)
(require 'gemini-companion-test-cli)

(defun gemini-companion-bench-hooks-times (command input)
  "Run COMMAND, of a shell, with the file INPUT; return how long that takes, in ms."
  (let ((run (lambda () (call-process "bash" input nil nil "-c" command))))
    (funcall run)                       ; what is slow only once
    (cl-loop repeat 20
             collect (* 1000 (car (benchmark-run 1 (funcall run)))))))

(defun gemini-companion-bench-hooks ()
  "Measure hooks with and without an Emacs."
  (gemini-companion-test-with-emacs
      (emacs :mode t :lisp (gemini-companion-bench-lisp) :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-enable-tools emacs)
    (gemini-companion-test-wait-announced emacs (gemini-companion-test-project emacs))
    (let* ((default-directory (gemini-companion-test-project emacs))
           (process-environment (append (gemini-companion-test-client-environment emacs)
                                        process-environment))
           (input (make-temp-file "gc-hook" nil nil
                                  (gemini-companion-test-json-encode
                                   (list :cwd (directory-file-name default-directory)
                                         :session_id "bench" :prompt "Hello"))))
           (command (string-replace
                     "${extensionPath}"
                     (expand-file-name ".gemini/extensions/emacs" (gemini-companion-test-home emacs))
                     (gemini-companion-test-eval
                      emacs '(progn (require 'gemini-companion-tool-extension)
                                    (gemini-companion-tool-extension--hook-command
                                     'gemini 'prompt))))))
      (gemini-companion-bench-add "hook of a CLI: a shell that does nothing" "ms"
                                  (gemini-companion-bench-hooks-times "exit 0" input))
      (let ((process-environment (cons "TMPDIR=/nowhere" process-environment)))
        (gemini-companion-bench-add "hook of a CLI: no Emacs" "ms"
                                    (gemini-companion-bench-hooks-times command input)
                                    "hook of a CLI: a shell that does nothing"))
      (gemini-companion-bench-add "hook of a CLI: a program for Node that does nothing" "ms"
                                  (gemini-companion-bench-hooks-times "node -e 0" input)
                                  "hook of a CLI: a shell that does nothing")
      (gemini-companion-bench-add "hook of a CLI: Emacs is told of a prompt" "ms"
                                  (gemini-companion-bench-hooks-times command input)
                                  "hook of a CLI: a program for Node that does nothing")
      (unless (equal (gemini-companion-test-eval
                      emacs '(car (gemini-companion-cli-prompt (car (gemini-companion-cli-all)))))
                     "Hello")
        (error "Emacs was not told"))
      (delete-file input))))

(gemini-companion-bench-hooks)

;;; hooks-bench.el ends here

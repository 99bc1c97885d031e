;;; gemini-companion-environment-test.el --- Tests of the environment  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-environment)

(defmacro gemini-companion-environment-test--with (variables &rest body)
  "Evaluate BODY with the global environment VARIABLES, a list of strings."
  (declare (indent 1) (debug t))
  `(let ((before (default-toplevel-value 'process-environment)))
     (unwind-protect
         (progn (set-default-toplevel-value 'process-environment ,variables)
                ,@body)
       (set-default-toplevel-value 'process-environment before))))

(ert-deftest gemini-companion-environment/the-directory-is-where-node-looks ()
  (pcase-dolist (`(,directory . ,variables)
                 '(("/tmp/gemini/ide")
                   ("/tmp/gemini/ide" "TMPDIR=")
                   ("/a/gemini/ide" "TMPDIR=/a/" "TMP=/b" "TEMP=/c")
                   ("/b/gemini/ide" "TMPDIR=" "TMP=/b" "TEMP=/c")
                   ("/c/gemini/ide" "TEMP=/c")
                   ("/a//gemini/ide" "TMPDIR=/a//")
                   ("//gemini/ide" "TMPDIR=/")))
    (gemini-companion-environment-test--with variables
      (should (equal (gemini-companion-environment-directory) directory)))))

(ert-deftest gemini-companion-environment/variables-are-put-back-as-they-were ()
  (gemini-companion-environment-test--with '("GEMINI_CLI_IDE_PID=7" "OTHER=x")
    (cl-letf* ((get (lambda (name) (gemini-companion-environment--get name)))
               (port 4711)
               ((symbol-function 'gemini-companion-bridge-port) (lambda () port))
               ((symbol-function 'gemini-companion-bridge-token) (lambda () "token")))
      (gemini-companion-environment-set)
      (setq port 4712)
      (gemini-companion-environment-set)
      (should (equal (funcall get "GEMINI_CLI_IDE_SERVER_PORT") "4712"))
      (should (equal (funcall get "GEMINI_CLI_IDE_PID") (number-to-string (emacs-pid))))
      (should (equal (funcall get "GEMINI_CLI_IDE_AUTH_TOKEN") "token"))
      (gemini-companion-environment-restore)
      (should (equal (default-toplevel-value 'process-environment)
                     '("GEMINI_CLI_IDE_PID=7" "OTHER=x"))))))

;;; gemini-companion-environment-test.el ends here

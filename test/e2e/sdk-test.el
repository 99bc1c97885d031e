;;; sdk-test.el --- MCP's client SDKs, old and new  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Gemini CLI pins a version of MCP's TypeScript SDK, and each version has bugs
;; of its own.  Here one client after the other uses all that we serve, by
;; test/e2e/sdk/matrix.mjs; any error that a client reports fails its test.

;;; Code:

(require 'gemini-companion-test-client)
(require 'gemini-companion-test-review)

(defconst gemini-companion-sdk-test--directory
  (gemini-companion-test-path "test" "e2e" "sdk")
  "The directory in which the clients are installed.")

(defun gemini-companion-sdk-test--require (package)
  "Skip the current test, with a message, where the client PACKAGE cannot run."
  (let ((reason
         (cond ((not (gemini-companion-test-node)) "Node 20 or newer is missing")
               ((not (file-directory-p
                      (expand-file-name (concat "node_modules/" package)
                                        gemini-companion-sdk-test--directory)))
                (format "%s is not installed (test/e2e/sdk)" package)))))
    (when reason
      (gemini-companion-test-skip "%s" reason))))

;;;; The program that drives a client

(defun gemini-companion-sdk-test--start (emacs package mode)
  "Start the client PACKAGE and let it connect to EMACS; return the program.
MODE, a string or nil, is how it negotiates the revision."
  (let* ((project (gemini-companion-test-project emacs))
         (discovery (gemini-companion-test-wait-announced emacs project))
         (program (gemini-companion-test-program-start
                   (list (gemini-companion-test-node)
                         (expand-file-name
                          "matrix.mjs" gemini-companion-sdk-test--directory))
                   project (gemini-companion-test-client-environment emacs))))
    (gemini-companion-test-program-send
     program
     `( :package ,package
        :url ,(format "http://127.0.0.1:%d/mcp" (alist-get 'port discovery))
        :token ,(alist-get 'authToken discovery)
        :directory ,(directory-file-name project)
        ,@(and mode (list :mode mode))))
    program))

(defun gemini-companion-sdk-test--line (program number)
  "Wait for line NUMBER of PROGRAM, counted from 0, and return it."
  (gemini-companion-test-wait
   (lambda ()
     (format "line %d of the client\n%S\n%s" number
             (gemini-companion-test-program-lines program)
             (gemini-companion-test-read
              (gemini-companion-test-program-stderr program))))
   (lambda ()
     (nth number (reverse (gemini-companion-test-program-lines program))))
   ;; Longer than its own deadlines.
   (* 2 gemini-companion-test-timeout)))

(defun gemini-companion-sdk-test--checks (emacs program)
  "Act in EMACS as PROGRAM asks until it is done.
Return its checks, in order.  Fail at the first one that fails."
  (let ((number 0) checks line)
    (while (not (alist-get 'done (setq line (gemini-companion-sdk-test--line
                                             program number))))
      (setq number (1+ number))
      (cond ((alist-get 'need line)
             (gemini-companion-sdk-test--do emacs line)
             (gemini-companion-test-program-send program '(:done t)))
            ((alist-get 'ok line) (push line checks))
            (t (ert-fail (list "A check of the client failed" line)))))
    (nreverse checks)))

;;;; The user of Emacs

(defun gemini-companion-sdk-test--do (emacs line)
  "Act in EMACS as the client asks in LINE."
  (let ((need (alist-get 'need line)))
    (if (equal need "next-line")
        (gemini-companion-test-keys emacs "C-n")
      (gemini-companion-test-wait-review emacs (alist-get 'newContent line))
      (unless (equal need "show")
        (gemini-companion-sdk-test--decide
         emacs (intern (concat "gemini-companion-" need)))))))

(defun gemini-companion-sdk-test--decide (emacs command)
  "Call COMMAND in EMACS, which decides the review on its screen."
  (gemini-companion-test-run emacs `(progn (call-interactively #',command) nil))
  (gemini-companion-test-wait-no-review emacs))

;;;; The tests

(defun gemini-companion-sdk-test--run (package revision mode)
  "Let the client PACKAGE perform its checks, in MODE, with an Emacs.
REVISION is the revision of MCP that must be negotiated."
  (gemini-companion-sdk-test--require package)
  (gemini-companion-test-with-emacs
      (emacs :files '(("a.txt" . "one\ntwo\nthree\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (let ((program (gemini-companion-sdk-test--start emacs package mode)))
      (unwind-protect
          (let ((checks (gemini-companion-sdk-test--checks emacs program)))
            (message "%s: %d checks, %S" package (length checks)
                     (seq-filter #'cddr checks))
            (should (equal (alist-get 'revision (car checks)) revision))
            (gemini-companion-test-wait-no-review emacs)
            (gemini-companion-test-wait-eval
             emacs '(zerop gemini-companion-bridge-clients)))
        (gemini-companion-test-program-stop program)))))

(defmacro gemini-companion-sdk-test--define (package revision &optional mode)
  "Define the test of the client PACKAGE, which uses REVISION of MCP.
MODE is how it negotiates the revision."
  `(ert-deftest ,(intern (concat "gemini-companion-sdk/" package
                                 (and mode (concat "-" mode))))
       ()
     ,(format "The client %s uses all that we serve, and reports no error." package)
     ;; What differs between clients concerns only the module.
     :tags '(any-emacs)
     (gemini-companion-sdk-test--run ,package ,revision ,mode)))

(gemini-companion-sdk-test--define "sdk-1.11.0" "2024-11-05")
(gemini-companion-sdk-test--define "sdk-1.15.1" "2025-06-18")
(gemini-companion-sdk-test--define "sdk-1.23.0" "2025-06-18") ; that of Gemini CLI
(gemini-companion-sdk-test--define "sdk-1.24.3" "2025-11-25")
(gemini-companion-sdk-test--define "sdk-1.32.2" "2025-11-25")
(gemini-companion-sdk-test--define "client-2.4.0" "2025-11-25")
(gemini-companion-sdk-test--define "client-2.4.0" "2025-11-25" "auto")

;;; sdk-test.el ends here

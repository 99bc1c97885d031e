;;; llxprt-test.el --- LLxprt Code, a fork of Gemini CLI  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A stand-in for LLxprt Code, test/e2e/sdk/llxprt.mjs, in terminals of Emacs.
;; It finds its editor only by process, and disconnects if it receives no
;; context in time.

;;; Code:

(require 'gemini-companion-test-client)
(require 'gemini-companion-test-review)

(defconst gemini-companion-llxprt-test--script
  (gemini-companion-test-path "test" "e2e" "sdk" "llxprt.mjs")
  "The stand-in for LLxprt Code, a file for Node.")

(defun gemini-companion-llxprt-test--require ()
  "Skip the current test, with a message, where the stand-in cannot run."
  (let ((reason
         (cond ((not (gemini-companion-test-node)) "Node 20 or newer is missing")
               ((not (executable-find "ps")) "the program ps is missing")
               ((not (file-directory-p
                      (gemini-companion-test-path "test" "e2e" "sdk" "node_modules" "sdk-1.32.2")))
                "the SDK of MCP is not installed (test/e2e/sdk)"))))
    (when reason
      (gemini-companion-test-skip "%s" reason))))

(defmacro gemini-companion-llxprt-test--with (emacs &rest body)
  "Run BODY with EMACS, in which LLxprt Code is used, and no file is open."
  (declare (indent 1) (debug (symbolp body)))
  `(progn
     (gemini-companion-llxprt-test--require)
     (gemini-companion-test-with-emacs
         (,emacs :mode nil :files '((".git/HEAD" . "") ("a.txt" . "one\ntwo\n")))
       (gemini-companion-llxprt-test--install ,emacs)
       (gemini-companion-test-mode-on ,emacs)
       ,@body)))

(defun gemini-companion-llxprt-test--install (emacs)
  "Install the stand-in for EMACS, as a program that has been used."
  (let ((program (gemini-companion-test-emacs-file emacs "llxprt")))
    (make-directory (expand-file-name ".llxprt" (gemini-companion-test-home emacs)))
    (gemini-companion-test-write
     program
     (format "#!/bin/sh\nLLXPRT_TEST_OUTPUT=%s exec %s %s\n"
             (gemini-companion-llxprt-test--output emacs)
             (gemini-companion-test-node) gemini-companion-llxprt-test--script))
    (set-file-modes program #o755)
    (gemini-companion-test-eval emacs `(setq gemini-companion-agent 'llxprt
                                             gemini-companion-program ,program
                                             gemini-companion-terminal 'term))))

(defun gemini-companion-llxprt-test--output (emacs)
  "Return the file to which the program in EMACS writes."
  (gemini-companion-test-emacs-file emacs "output"))

(defun gemini-companion-llxprt-test--lines (emacs)
  "Return the output of the program in EMACS, the newest line first."
  (let ((file (gemini-companion-llxprt-test--output emacs)))
    (and (file-exists-p file)
         (nreverse (mapcar (lambda (line)
                             (gemini-companion-test-json-decode
                              (encode-coding-string line 'utf-8)))
                           (butlast (split-string (gemini-companion-test-read file) "\n")))))))

(defun gemini-companion-llxprt-test--wait (emacs predicate)
  "Wait for a line of the program in EMACS that matches PREDICATE; return it."
  (gemini-companion-test-wait
   (lambda () (format "a line like %S\n%S" predicate (gemini-companion-llxprt-test--lines emacs)))
   (lambda () (seq-find predicate (gemini-companion-llxprt-test--lines emacs)))))

(defun gemini-companion-llxprt-test--wait-status (emacs)
  "Wait until the program in EMACS has connected or failed to; return its line."
  (gemini-companion-llxprt-test--wait emacs (lambda (line) (assq 'status line))))

(defun gemini-companion-llxprt-test--run (emacs)
  "Run the program in EMACS in a terminal and wait until it is connected.
Then hide its terminal, in which keys would go to the program."
  (gemini-companion-test-m-x emacs "gemini-companion-run")
  (gemini-companion-llxprt-test--connected emacs)
  (gemini-companion-test-run emacs '(gemini-companion-run)))

(defun gemini-companion-llxprt-test--connected (emacs)
  "Wait until the program in EMACS is connected; return its line."
  (let ((line (gemini-companion-llxprt-test--wait-status emacs)))
    (should (equal (alist-get 'status line) "connected"))
    (should (equal (alist-get 'ide line) "Emacs"))
    line))

(defun gemini-companion-llxprt-test--send (emacs id command &rest arguments)
  "Send COMMAND with ARGUMENTS, a plist, to the program in EMACS.
Its answer has ID."
  (gemini-companion-test-eval
   emacs `(progn
            (process-send-string
             (seq-find (lambda (process) (eq 'run (process-status process)))
                       (delq nil (mapcar #'get-buffer-process (buffer-list))))
             ,(concat (decode-coding-string
                       (gemini-companion-test-json-encode
                        `(:id ,id :command ,command ,@arguments))
                       'utf-8)
                      "\n"))
            nil)))

(defun gemini-companion-llxprt-test--propose (emacs id text)
  "Let the program in EMACS propose TEXT for a.txt, and wait for the review.
Its answer, which has the outcome, has ID."
  (gemini-companion-llxprt-test--send
   emacs id "openDiff" :filePath (gemini-companion-test-project emacs "a.txt") :newContent text)
  (gemini-companion-test-wait-review emacs text))

(defun gemini-companion-llxprt-test--result (emacs id)
  "Wait for the result with ID of the program in EMACS, and return it."
  (let ((line (gemini-companion-llxprt-test--wait
               emacs (lambda (line) (eql id (alist-get 'id line))))))
    (should-not (assq 'error line))
    (alist-get 'result line)))

;;;; The tests

(ert-deftest gemini-companion-llxprt/in-a-terminal-of-emacs ()
  "It connects though no file is open, learns of one, and gets the user's edits."
  (gemini-companion-llxprt-test--with emacs
    (gemini-companion-llxprt-test--run emacs)
    (should (equal (car (last (seq-filter #'identity
                                          (mapcar (lambda (line) (assq 'context line))
                                                  (gemini-companion-llxprt-test--lines emacs)))))
                   '(context (workspaceState (openFiles)))))
    (should (equal (gemini-companion-test-eval
                    emacs '(mapcar (lambda (session) (aref session 1))
                                   (gemini-companion-bridge-sessions)))
                   '("LLxprt Code 1.0.0")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-llxprt-test--wait
     emacs (lambda (line) (string-search "a.txt" (format "%S" (alist-get 'context line)))))
    (gemini-companion-llxprt-test--propose emacs 1 "one\nTWO\n")
    (gemini-companion-test-accept emacs "mine\n")
    (should (equal (gemini-companion-llxprt-test--result emacs 1)
                   '((status . "accepted") (content . "one\nTWO\nmine\n"))))))

(ert-deftest gemini-companion-llxprt/in-a-shell-of-emacs ()
  "In a shell it may search for another process.  Its own yes takes the edits."
  (gemini-companion-llxprt-test--with emacs
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-wait-eval emacs '(gemini-companion-workspace-announced))
    (gemini-companion-test-eval
     emacs '(save-window-excursion
              (shell)
              (process-send-string nil (concat gemini-companion-program "\n"))
              nil))
    (gemini-companion-llxprt-test--connected emacs)
    (gemini-companion-llxprt-test--propose emacs 1 "one\nTWO\n")
    (gemini-companion-test-append-to-proposal emacs "mine\n")
    (gemini-companion-llxprt-test--send
     emacs 2 "resolve" :filePath (gemini-companion-test-project emacs "a.txt")
     :outcome "accepted")
    (should (equal (gemini-companion-llxprt-test--result emacs 1)
                   '((status . "accepted") (content . "one\nTWO\nmine\n"))))
    (gemini-companion-test-wait-no-review emacs)
    (should-not (gemini-companion-test-eval
                 emacs '(with-current-buffer "*Messages*"
                          (save-excursion
                            (goto-char (point-min))
                            (search-forward "ignores your edits" nil t)))))))

(ert-deftest gemini-companion-llxprt/it-connects-while-emacs-is-busy ()
  "The context that it waits for comes from the server's thread."
  (gemini-companion-llxprt-test--with emacs
    (let ((free (gemini-companion-test-emacs-file emacs "free")))
      (gemini-companion-test-eval
       emacs `(progn (run-at-time 0 nil (lambda ()
                                          (gemini-companion-run)
                                          ;; Emacs does nothing else until that file exists.
                                          (while (not (file-exists-p ,free)))))
                     nil))
      (unwind-protect
          (progn
            (gemini-companion-llxprt-test--connected emacs)
            (should (seq-some (lambda (line)
                                (equal (alist-get 'context line)
                                       '((workspaceState (openFiles)))))
                              (gemini-companion-llxprt-test--lines emacs))))
        (gemini-companion-test-write free "")))))

(ert-deftest gemini-companion-llxprt/a-wrong-token-is-refused ()
  (gemini-companion-llxprt-test--with emacs
    (gemini-companion-llxprt-test--run emacs)
    (delete-file (gemini-companion-llxprt-test--output emacs))
    (gemini-companion-llxprt-test--send emacs 1 "connect" :token "wrong")
    (let ((line (gemini-companion-llxprt-test--wait-status emacs)))
      (should (equal (alist-get 'status line) "disconnected"))
      (should (string-search "token is missing or wrong" (alist-get 'reason line))))))

(ert-deftest gemini-companion-llxprt/elsewhere-it-finds-emacs-by-variables ()
  "No file is named after the process that it finds, and a variable names another editor."
  (gemini-companion-llxprt-test--with emacs
    (let* ((project (gemini-companion-test-project emacs))
           (variables (split-string
                       (string-remove-prefix
                        "export "
                        (gemini-companion-test-eval
                         emacs '(gemini-companion-agent--command)))))
           (program (gemini-companion-test-program-start
                     (list (gemini-companion-test-node) gemini-companion-llxprt-test--script)
                     project
                     (append variables
                             (list "TERM_PROGRAM=vscode"
                                   (concat "LLXPRT_CODE_IDE_WORKSPACE_PATH=" project))
                             (gemini-companion-test-client-environment emacs)))))
      (unwind-protect
          (should (equal (alist-get 'status
                                    (gemini-companion-test-wait
                                     "the program to search for Emacs"
                                     (lambda ()
                                       (gemini-companion-test-program-find
                                        program (lambda (line) (assq 'status line))))))
                         "connected"))
        (gemini-companion-test-program-stop program)))))

;;; llxprt-test.el ends here

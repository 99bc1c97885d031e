;;; doctor-test.el --- The doctor, with real clients  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The doctor's replay of the client's search, compared with the real client;
;; and the report in an interactive Emacs and in batch mode.

;;; Code:

(require 'gemini-companion-cli-search)
(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-client)

;;;; The search

(defun gemini-companion-doctor-test--one-of (choices)
  "Return one of CHOICES, a list, at random."
  (nth (random (length choices)) choices))

(defun gemini-companion-doctor-test--random-content (top number)
  "Return a random text for the discovery file NUMBER, with roots in TOP."
  (let* ((root (lambda ()
                 (gemini-companion-doctor-test--one-of
                  (list (concat top "a") (concat top "a/") (concat top "a/b") (concat top "link")
                        (concat top "ab") (concat top "gone") "" "/nowhere" "relative"))))
         (object `((port . ,(gemini-companion-doctor-test--one-of '(1 2 3)))
                   (authToken . "x")
                   (workspacePath . ,(string-join (list (funcall root) (funcall root)) ":"))
                   (ideInfo . ((name . "emacs") (displayName . ,(format "E%d" number)))))))
    (pcase (random 12)
      (0 "{\"port\":")
      (2 "null")
      (3 (json-encode (assq-delete-all 'workspacePath object)))
      (4 (setf (alist-get 'workspacePath object) "")
         (json-encode object))
      (5 (setf (alist-get 'ideInfo object) '((name . "emacs")))
         (json-encode object))
      (6 (json-encode (assq-delete-all 'port object)))
      (_ (json-encode object)))))

(defun gemini-companion-doctor-test--random-environment (top processes)
  "Return a random environment, with PROCESSES, and directories below TOP."
  (delq nil
        (list (concat "PATH=" (getenv "PATH"))
              (concat "HOME=" top "home")
              (gemini-companion-doctor-test--one-of
               (list (format "TMPDIR=%stmp" top) (format "TMPDIR=%stmp/" top) "TMPDIR="))
              (format "TMP=%stmp" top)
              (pcase (random 3) (0 (format "GEMINI_CLI_IDE_SERVER_PORT=%d" (1+ (random 4)))))
              (pcase (random 3)
                (0 (format "GEMINI_CLI_IDE_PID=%s"
                           (gemini-companion-doctor-test--one-of
                            (append processes '("0" "x" "7x" "")))))))))

(ert-deftest gemini-companion-doctor/it-finds-what-the-real-client-finds ()
  "With random files, environments and directories both find the same editor.
The client is a child process of this Emacs."
  ;; The doctor runs in the Emacs that runs the tests.
  :tags '(any-emacs)
  (gemini-companion-test-require-real-client)
  (random "gemini-companion")
  (let* ((top (file-truename (gemini-companion-test-temp-directory)))
         (place (concat top "tmp/gemini/ide/"))
         (client (gemini-companion-test-real-client-start
                  top (list (concat "PATH=" (getenv "PATH")) (concat "HOME=" top))))
         (process (process-id (gemini-companion-test-program-process
                               (gemini-companion-test-real-client-program client))))
         (found nil))
    (unwind-protect
        (progn
          (dolist (directory '("a/b/c" "ab" "tmp/gemini/ide" "home"))
            (make-directory (concat top directory) t))
          (make-symbolic-link (concat top "a/b") (concat top "link"))
          (dotimes (_ 80)
            (delete-directory place t)
            (make-directory place)
            (let* ((processes (list (emacs-pid) process 1 999999 999998))
                   (environment (gemini-companion-doctor-test--random-environment
                                 top processes))
                   (directory (concat top (gemini-companion-doctor-test--one-of
                                           '("a" "a/b" "a/b/c" "link" "link/c" "ab" "")))))
              (dotimes (number (random 5))
                (let ((process (gemini-companion-doctor-test--one-of processes)))
                  (gemini-companion-test-write
                   (concat place
                           (gemini-companion-doctor-test--one-of
                            (list (format "gemini-ide-server-%d-%d.json" process number)
                                  (format "gemini-ide-server-%d-%d.json" process number)
                                  (format "gemini-ide-server-%d-%d.json.x" process number))))
                   (gemini-companion-doctor-test--random-content top number))))
              (let* ((search (gemini-companion-cli-search-find 'gemini directory environment process))
                     (chosen (gemini-companion-cli-search-result-chosen search))
                     (ours (list (gemini-companion-cli-search-result-wanted search)
                                 (cdr (and chosen (gemini-companion-cli-search-ide chosen)))))
                     (theirs (gemini-companion-test-real-client-find
                              client directory environment)))
                (ert-info ((format "%s in %s, %S"
                                   (mapcar (lambda (file)
                                             (cons (file-name-nondirectory file)
                                                   (gemini-companion-test-read file)))
                                           (directory-files place t "gemini"))
                                   directory environment))
                  (should (equal ours theirs)))
                (push (cadr ours) found))))
          ;; Not all cases were trivial.
          (should (> (length (delq nil found)) 20)))
      (gemini-companion-test-client-stop client)
      (delete-directory top t))))

;;;; The report

(defun gemini-companion-doctor-test--batch (emacs)
  "Return (STATUS . TEXT), the report of a batch Emacs in the project of EMACS."
  (let ((default-directory (gemini-companion-test-project emacs))
        (process-environment (gemini-companion-test-client-environment emacs)))
    (with-temp-buffer
      (cons (call-process (gemini-companion-test-emacs-program emacs) nil t nil
                          "-Q" "--batch" "-L" (gemini-companion-test-path "lisp")
                          "-l" "gemini-companion-doctor" "-f" "gemini-companion-doctor-batch")
            (buffer-string)))))

(ert-deftest gemini-companion-doctor/in-batch-mode ()
  "It names the editor that a CLI there would find, and whether that answers."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-wait-announced emacs (gemini-companion-test-project emacs))
    (let* ((port (gemini-companion-test-eval emacs '(gemini-companion-bridge-port)))
           (token (gemini-companion-test-eval emacs '(gemini-companion-bridge-token)))
           (check (lambda (report &rest patterns)
                    (should-not (string-search token (cdr report)))
                    (dolist (pattern patterns)
                      (ert-info ((format "%s in\n%s" pattern (cdr report)))
                        (should (string-match-p pattern (cdr report))))))))
      (funcall check (gemini-companion-doctor-test--batch emacs)
               (format "A CLI that you start here uses .*-%d-%d.json, of Emacs"
                       (gemini-companion-test-emacs-pid emacs) port)
               (format "The Emacs on port %d answers a client after [0-9]+ ms" port)
               "IDE mode is off: ide.enabled is not set in ~/.gemini/settings.json")
      (let ((report (gemini-companion-test-call-stopped
                     emacs (lambda () (gemini-companion-doctor-test--batch emacs)))))
        (should (eq (car report) 1))
        (funcall check report (format "The Emacs on port %d does not answer" port)
                 "In that Emacs: M-x gemini-companion-restart")))))

(defun gemini-companion-doctor-test--wait-report (emacs &rest patterns)
  "Wait until the report in EMACS matches all PATTERNS."
  (let ((report (lambda ()
                  (gemini-companion-test-eval
                   emacs '(with-current-buffer "*gemini doctor*"
                            (buffer-substring-no-properties (point-min) (point-max)))))))
    (gemini-companion-test-wait
     (lambda () (format "%s in\n%s" patterns (funcall report)))
     (lambda ()
       (let ((report (funcall report)))
         (seq-every-p (lambda (pattern) (string-match-p pattern report)) patterns))))))

(ert-deftest gemini-companion-doctor/in-an-interactive-emacs ()
  "A user calls it, reads the report and presses a button."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")) :mode nil)
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-m-x emacs "gemini-companion-doctor" "The companion is off in this Emacs")
    (gemini-companion-test-press emacs "Tab Enter" "uses this Emacs's file")
    (gemini-companion-test-wait-screen emacs "The server of this Emacs answers")
    (should (gemini-companion-test-eval emacs 'gemini-companion-mode))
    (gemini-companion-test-run emacs '(with-current-buffer "*gemini doctor*"
                                        (let ((inhibit-read-only t)) (erase-buffer))))
    (gemini-companion-test-press emacs "g" "The server of this Emacs answers")
    (gemini-companion-test-press emacs "q" '(equal (buffer-name) "a.txt"))))

(ert-deftest gemini-companion-doctor/in-the-terminal-of-a-cli ()
  "It examines the CLI that runs there, and says that it is connected."
  (gemini-companion-test-require-real-client)
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-with-cli
        (cli (gemini-companion-test-cli-start-in-term emacs))
      (gemini-companion-test-eval
       emacs `(setq gemini-companion-program "gemini.js"))
      (gemini-companion-test-run emacs '(gemini-companion-doctor))
      (gemini-companion-doctor-test--wait-report
       emacs "The CLI in this terminal is connected" "IDE mode is on in .*home/.gemini")
      (gemini-companion-test-run emacs '(progn (quit-window) nil))
      (gemini-companion-test-cli-submit cli "/ide disable")
      (gemini-companion-test-wait-eval emacs '(zerop gemini-companion-bridge-clients))
      (gemini-companion-test-run emacs '(with-current-buffer "*gemini doctor*" (revert-buffer)))
      (gemini-companion-doctor-test--wait-report
       emacs "The CLI, process [0-9]+, is not connected: it looks"))))

;;; doctor-test.el ends here

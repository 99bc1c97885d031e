;;; lifecycle-test.el --- Starting and stopping, with nothing left behind  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What is in Emacs's process and on the disk when the mode is switched on and
;; off, when Emacs ends or is killed, and where the companion cannot start.

;;; Code:

(require 'gemini-companion-test-client)
(require 'gemini-companion-test-fake-client)
(require 'gemini-companion-test-review)

;;;; On and off

(defconst gemini-companion-lifecycle-test--lisp-state
  '(let ((named (lambda (kind names)
                  (mapcar (lambda (name) (format "%s %s" kind name)) names))))
     (append
      (funcall named "timer" (mapcar #'timer--function
                                     (append timer-list timer-idle-list)))
      (funcall named "process"
               ;; Not the connection that evaluates this form.
               (seq-remove (lambda (name)
                             (string-match-p "\\`s\\(?: <\\|\\'\\)" name))
                           (mapcar #'process-name (process-list))))
      (funcall named "buffer" (mapcar #'buffer-name (buffer-list)))
      (funcall named "variable"
               (seq-filter (lambda (it) (string-match-p "GEMINI_CLI" it))
                           process-environment))
      (funcall named "mode line" (list mode-line-format mode-line-misc-info
                                       global-mode-string))
      (let (hooks)
        (mapatoms
         (lambda (symbol)
           (when (and (boundp symbol)
                      (string-match-p "-\\(?:hooks?\\|functions\\)\\'"
                                      (symbol-name symbol)))
             (dolist (function (ensure-list (default-value symbol)))
               (push (format "%s %s" symbol function) hooks)))))
        hooks)))
  "Form that returns the state of Lisp as a list of strings.")

(defun gemini-companion-lifecycle-test--state (emacs)
  "Return the state of EMACS and of the disk as a list of strings."
  (let ((proc (format "/proc/%d/" (gemini-companion-test-emacs-pid emacs))))
    (append
     (mapcar (lambda (_) "thread")
             (directory-files (concat proc "task") nil "\\`[0-9]"))
     (gemini-companion-lifecycle-test--descriptors proc)
     (gemini-companion-test-discovery-files emacs)
     (gemini-companion-test-eval emacs
                                 gemini-companion-lifecycle-test--lisp-state))))

(defun gemini-companion-lifecycle-test--descriptors (proc)
  "Return the targets of the open descriptors of the process PROC.
Omit the numbers of pipes and sockets."
  (delq nil
        (mapcar (lambda (file)
                  (let ((target (file-symlink-p file)))
                    (and target
                         (concat "descriptor "
                                 (replace-regexp-in-string
                                  ":\\[.*" "" target)))))
                (directory-files (concat proc "fd") t "\\`[0-9]"))))

(defun gemini-companion-lifecycle-test--added (before now)
  "Return the elements of the list NOW that are not in the list BEFORE."
  (dolist (it before)
    (setq now (cl-remove it now :test #'equal :count 1)))
  now)

(defun gemini-companion-lifecycle-test--wait-nothing-added (emacs before)
  "Wait until the state of EMACS has nothing that BEFORE lacks."
  (let (added)
    (gemini-companion-test-wait
     (lambda () (format "the end of %S" added))
     (lambda ()
       (null (setq added (gemini-companion-lifecycle-test--added
                          before
                          (gemini-companion-lifecycle-test--state emacs))))))))

(defun gemini-companion-lifecycle-test--toggle (emacs times)
  "Switch the mode of EMACS on and off TIMES times."
  (gemini-companion-test-run
   emacs `(dotimes (_ ,times)
            (gemini-companion-mode 1)
            (sit-for 0.01)
            (gemini-companion-mode -1))
   120))

(defun gemini-companion-lifecycle-test--before (emacs)
  "Return the state of EMACS before the mode is first switched on.
Load libraries that add functions to hooks, and include the log, which
stays once it exists."
  (gemini-companion-test-eval
   emacs '(mapc #'require '(ediff project gemini-companion-cli-watch gemini-companion-review-window)))
  (cons "buffer *gemini log*"
        (gemini-companion-lifecycle-test--state emacs)))

(defmacro gemini-companion-lifecycle-test--with-state (emacs before &rest body)
  "Run BODY with EMACS; BEFORE is its state before the mode is switched on."
  (declare (indent 2) (debug (symbolp symbolp body)))
  `(progn
     (skip-unless (file-directory-p "/proc/self/fd"))
     (gemini-companion-test-with-emacs (,emacs :mode nil
                                               :files '(("a.txt" . "a\n")))
       (gemini-companion-test-visit ,emacs "a.txt")
       (let ((,before (gemini-companion-lifecycle-test--before ,emacs)))
         ,@body))))

(ert-deftest gemini-companion-lifecycle/switching-on-and-off-leaves-nothing-behind ()
  "Switching on and off 50 times leaves nothing behind."
  (gemini-companion-lifecycle-test--with-state emacs before
    (gemini-companion-lifecycle-test--toggle emacs 1)
    (gemini-companion-lifecycle-test--wait-nothing-added emacs before)
    (gemini-companion-lifecycle-test--toggle emacs 50)
    (gemini-companion-lifecycle-test--wait-nothing-added emacs before)))

(ert-deftest gemini-companion-lifecycle/switching-off-with-clients-leaves-nothing-behind ()
  "Switching off with a client and a review leaves nothing behind."
  (gemini-companion-lifecycle-test--with-state emacs before
    (dotimes (_ 3)
      (gemini-companion-test-mode-on emacs)
      (gemini-companion-test-with-client (client 'fake emacs)
        (let ((handle (gemini-companion-test-client-open-diff
                       client (gemini-companion-test-project emacs "a.txt")
                       "b\n")))
          (gemini-companion-test-wait-review emacs "b\n")
          (gemini-companion-test-m-x emacs "gemini-companion-mode")
          (should (equal (gemini-companion-test-client-wait-outcome
                          client handle)
                         '(rejected)))
          (gemini-companion-test-wait-no-review emacs)
          ;; The stream has ended properly.
          (gemini-companion-test-wait
           "the end of the stream"
           (lambda () (fake-cli-stream-state
                       (gemini-companion-test-fake-client-cli client))))
          (should (eq (fake-cli-stream-state
                       (gemini-companion-test-fake-client-cli client))
                      t))))
      (gemini-companion-lifecycle-test--wait-nothing-added emacs before))))

(gemini-companion-test-with-clients gemini-companion-lifecycle/clients-can-connect-again-after-off-and-on kind
  "A client can connect again after the mode has been off."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "a\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-with-client (client kind emacs)
      (should (gemini-companion-test-client-connected-p client)))
    (gemini-companion-test-m-x emacs "gemini-companion-mode")
    (gemini-companion-test-wait
     "the discovery file to be deleted"
     (lambda () (null (gemini-companion-test-discovery-files emacs))))
    (gemini-companion-test-mode-on emacs)
    (gemini-companion-test-with-client (client kind emacs)
      (should (gemini-companion-test-client-connected-p client)))))

;;;; The discovery file

(ert-deftest gemini-companion-lifecycle/the-discovery-file-is-private-and-complete ()
  "The discovery file is private and complete."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "a\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (let* ((file (car (gemini-companion-test-discovery-files emacs)))
           (pid (gemini-companion-test-emacs-pid emacs))
           (root (directory-file-name (gemini-companion-test-project emacs)))
           (object (gemini-companion-test-wait
                    "the project in the discovery file"
                    (lambda ()
                      (let ((it (gemini-companion-test-json-decode
                                 (gemini-companion-test-bytes file))))
                        (and (equal (alist-get 'workspacePath it) root)
                             it))))))
      (should (= (file-modes file) #o600))
      (should (equal (file-name-nondirectory file)
                     (format "gemini-ide-server-%d-%d.json" pid
                             (alist-get 'port object))))
      (should (>= (length (alist-get 'authToken object)) 43))
      (should (equal (alist-get 'ideInfo object)
                     '((displayName . "Emacs") (name . "emacs"))))
      (should (equal (gemini-companion-test-eval
                      emacs '(list (getenv "GEMINI_CLI_IDE_SERVER_PORT")
                                   (getenv "GEMINI_CLI_IDE_PID")
                                   (getenv "GEMINI_CLI_IDE_AUTH_TOKEN")
                                   (getenv "GEMINI_CLI_IDE_WORKSPACE_PATH")))
                     (list (number-to-string (alist-get 'port object))
                           (number-to-string pid)
                           (alist-get 'authToken object)
                           nil))))))

(ert-deftest gemini-companion-lifecycle/leaving-emacs-removes-the-discovery-file ()
  "The discovery file is deleted when Emacs ends, by command or by SIGTERM."
  (gemini-companion-test-with-emacs (emacs)
    (should (gemini-companion-test-discovery-files emacs))
    (gemini-companion-test-keys emacs "C-x" "C-c")
    (gemini-companion-test-wait-gone emacs)
    (should-not (gemini-companion-test-discovery-files emacs)))
  (gemini-companion-test-with-emacs (emacs)
    (should (gemini-companion-test-discovery-files emacs))
    (signal-process (gemini-companion-test-emacs-pid emacs) 'SIGTERM)
    (gemini-companion-test-wait-gone emacs)
    (should-not (gemini-companion-test-discovery-files emacs))))

(ert-deftest gemini-companion-lifecycle/the-next-start-removes-the-file-of-a-killed-emacs ()
  "The next start removes the file that a killed Emacs has left, and no other."
  (let* ((directory (gemini-companion-test-temp-directory))
         (first (gemini-companion-test-start :directory directory))
         (stale (gemini-companion-test-discovery-files first))
         (foreign (expand-file-name "gemini-ide-server-4000000-1.json"
                                    (file-name-directory (car stale)))))
    (unwind-protect
        (progn
          (gemini-companion-test-kill first)
          (gemini-companion-test-stop first t)
          (should (file-exists-p (car stale)))
          (gemini-companion-test-write
           foreign "{\"port\": 1, \"workspacePath\": \"/\", \"authToken\": \"x\",
\"ideInfo\": {\"name\": \"vscode\", \"displayName\": \"VS Code\"}}")
          (gemini-companion-test-with-emacs (second :directory directory)
            (let ((files (gemini-companion-test-discovery-files second)))
              (should (= (length files) 2))
              (should (member foreign files))
              (should-not (member (car stale) files)))))
      (gemini-companion-test-stop first))))

(gemini-companion-test-with-clients gemini-companion-lifecycle/leaving-emacs-rejects-reviews kind
  "A client that awaits a review receives a rejection when Emacs ends."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "a\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-with-client (client kind emacs)
      (let ((handle (gemini-companion-test-client-open-diff
                     client (gemini-companion-test-project emacs "a.txt")
                     "b\n")))
        (gemini-companion-test-wait-review emacs "b\n")
        (gemini-companion-test-exit emacs)
        (should (equal (gemini-companion-test-client-wait-outcome
                        client handle)
                       '(rejected)))
        (should-not (gemini-companion-test-discovery-files emacs))))))

;;;; Where it cannot start

(ert-deftest gemini-companion-lifecycle/without-module-and-cargo-there-is-one-message ()
  "Without the module and cargo there is one message, and the mode stays off."
  (let* ((place (gemini-companion-test-temp-directory))
         (lisp (expand-file-name "checkout/lisp" place)))
    (unwind-protect
        (progn
          (gemini-companion-lifecycle-test--copy-lisp lisp)
          (gemini-companion-test-with-emacs (emacs :mode nil :lisp lisp)
            (gemini-companion-test-run
             emacs '(progn (setenv "PATH" "/nonexistent")
                           (setq exec-path '("/nonexistent"))
                           nil))
            (gemini-companion-test-m-x emacs "gemini-companion-mode" "cargo")
            (should-not (gemini-companion-test-eval
                         emacs 'gemini-companion-mode))
            (should-not (gemini-companion-test-discovery-files emacs))
            (should-not (string-match-p
                         "Backtrace\\|Debugger"
                         (gemini-companion-test-screen emacs)))))
      (delete-directory place t))))

(defun gemini-companion-lifecycle-test--copy-lisp (directory)
  "Copy the Lisp files of the package to DIRECTORY, without the module."
  (make-directory directory t)
  (dolist (file (directory-files (gemini-companion-test-path "lisp") t
                                 "\\.el\\'"))
    (copy-file file (file-name-as-directory directory))))

(defun gemini-companion-lifecycle-test--wait-warning (emacs &rest parts)
  "Wait until EMACS shows a warning that names all PARTS."
  (gemini-companion-test-wait-screen emacs "Warning")
  (gemini-companion-test-wait-eval
   emacs `(with-current-buffer "*Warnings*"
            (seq-every-p (lambda (part) (string-search part (buffer-string)))
                         ',parts)))
  ;; There is only one.
  (should (= (gemini-companion-test-eval
              emacs '(with-current-buffer "*Warnings*"
                       (how-many "Warning (" (point-min) (point-max))))
             1)))

(defun gemini-companion-lifecycle-test--check-serves-all-the-same (emacs)
  "Check that EMACS serves clients that it starts, and that the mode can be off."
  (should (gemini-companion-test-eval emacs 'gemini-companion-mode))
  (should (gemini-companion-test-eval
           emacs '(getenv "GEMINI_CLI_IDE_SERVER_PORT")))
  (gemini-companion-test-m-x emacs "gemini-companion-mode" '(not gemini-companion-mode))
  (should-not (gemini-companion-test-eval
               emacs '(getenv "GEMINI_CLI_IDE_SERVER_PORT"))))

(ert-deftest gemini-companion-lifecycle/a-warning-names-an-unusable-temporary-directory ()
  "Where the discovery file cannot be written, a warning says why.
The server still runs: programs started by Emacs find it."
  (dolist (make-unusable
           '(;; A file where the directory should be.
             (lambda (tmp) (gemini-companion-test-write
                            (expand-file-name "gemini" tmp) ""))
             ;; The whole temporary directory is a file.
             (lambda (tmp) (delete-directory tmp t)
               (gemini-companion-test-write tmp ""))))
    (gemini-companion-test-with-emacs (emacs :mode nil)
      (let ((tmp (gemini-companion-test-tmpdir emacs)))
        (funcall make-unusable tmp)
        (gemini-companion-test-m-x emacs "gemini-companion-mode")
        (gemini-companion-lifecycle-test--wait-warning emacs tmp)
        (gemini-companion-lifecycle-test--check-serves-all-the-same emacs)))))

(ert-deftest gemini-companion-lifecycle/a-warning-names-a-directory-of-another-user ()
  "The directory of another user is not used, and a warning names it."
  (skip-unless (zerop (user-uid)))
  (gemini-companion-test-with-emacs (emacs :mode nil)
    (let ((directory (expand-file-name
                      "gemini/ide" (gemini-companion-test-tmpdir emacs))))
      (make-directory directory t)
      (call-process "chown" nil nil nil "65534" directory)
      (gemini-companion-test-m-x emacs "gemini-companion-mode")
      (gemini-companion-lifecycle-test--wait-warning emacs directory
                                                     "another user" "TMPDIR")
      (should-not (gemini-companion-test-discovery-files emacs))
      (gemini-companion-lifecycle-test--check-serves-all-the-same emacs))))

(ert-deftest gemini-companion-lifecycle/at-start-no-other-library-is-loaded ()
  "The user waits while libraries are loaded, and some compile code then."
  (let ((lisp (getenv "GEMINI_COMPANION_TEST_LISP")))
    (unless (and lisp (file-exists-p (expand-file-name "gemini-companion.elc" lisp)))
      (gemini-companion-test-skip "the package is not compiled"))
    (with-temp-buffer
      (should (zerop (call-process (gemini-companion-test--program) nil '(t nil) nil
                                   "-Q" "--batch" "-L" lisp "--eval"
                                   (prin1-to-string '(let ((before features))
                                                       (require 'gemini-companion)
                                                       (gemini-companion-mode 1)
                                                       (print features)
                                                       (print before))))))
      (goto-char (point-min))
      (let ((after (read (current-buffer))))
        (should-not (seq-remove (lambda (feature)
                                  (string-match-p "\\`\\(?:gemini-companion.*\\|subr-x\\)\\'"
                                                  (symbol-name feature)))
                                (seq-difference after (read (current-buffer)))))))))

(ert-deftest gemini-companion-lifecycle/switching-off-says-which-changes-that-rejects ()
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n") ("b.txt" . "one\n")))
    (dolist (name '("a.txt" "b.txt"))
      (gemini-companion-test-fake-propose emacs client "two\n" name))
    (gemini-companion-test-m-x emacs "gemini-companion-mode")
    (gemini-companion-test-wait-screen emacs "a.txt: rejected, .*; b.txt: rejected, ")))

;;;; When it does not answer

(ert-deftest gemini-companion-lifecycle/an-emacs-that-computes-is-reported-and-quit ()
  "A \\`C-g' that ends only one of several commands is followed by others."
  (skip-unless (file-readable-p "/proc/self/status"))
  (let ((emacs (gemini-companion-test-start :mode nil)))
    (gemini-companion-test-eval
     emacs '(progn (global-set-key
                    [f8] (lambda ()
                           (interactive)
                           (message "Computing")
                           (redisplay t)
                           (dotimes (_ 3) (condition-case nil (while t) (quit)))))
                   nil))
    (gemini-companion-test-press emacs "F8" "^Computing")
    (let ((report (gemini-companion-test-report emacs)))
      (dolist (line '("State:\tR" "SigPnd:" "ShdPnd:" "SigBlk:" "Thread emacs"))
        (should (string-search (concat "\n" line) report))))
    (gemini-companion-test-quit emacs)))

;;; lifecycle-test.el ends here

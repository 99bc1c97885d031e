;;; gemini-companion-environment-test.el --- Tests of the environment  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-test-companion)

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
      (should (equal (car (gemini-companion-agent-directories 'gemini)) directory)))))

(defun gemini-companion-environment-test--get (name)
  "Return the global value of the environment variable NAME, or nil."
  (getenv-internal name (default-toplevel-value 'process-environment)))

(ert-deftest gemini-companion-environment/variables-are-restored ()
  (gemini-companion-environment-test--with '("GEMINI_CLI_IDE_PID=7" "OTHER=x")
    (cl-letf* ((get #'gemini-companion-environment-test--get)
               (port 4711)
               ((symbol-function 'gemini-companion-bridge-port) (lambda () port))
               ((symbol-function 'gemini-companion-bridge-token) (lambda (&rest _) "token")))
      (gemini-companion-agent-set-environment)
      (setq port 4712)
      (gemini-companion-agent-set-environment)
      (should (equal (funcall get "GEMINI_CLI_IDE_SERVER_PORT") "4712"))
      (should (equal (funcall get "GEMINI_CLI_IDE_PID") (number-to-string (emacs-pid))))
      (should (equal (funcall get "GEMINI_CLI_IDE_AUTH_TOKEN") "token"))
      (gemini-companion-agent-restore-environment)
      (should (equal (default-toplevel-value 'process-environment)
                     '("GEMINI_CLI_IDE_PID=7" "OTHER=x"))))))

(ert-deftest gemini-companion-environment/variables-that-were-removed-or-empty-are-so-again ()
  "The user has evaluated (setenv \"GEMINI_CLI_IDE_SERVER_PORT\" nil)."
  (gemini-companion-environment-test--with '("GEMINI_CLI_IDE_SERVER_PORT" "GEMINI_CLI_IDE_PID="
                                             "REMOTE_CONTAINERS" "OTHER=x")
    (gemini-companion-test-with-project
      (let ((gemini-companion-agent--container-files nil))
        (gemini-companion-mode 1)
        ;; A CLI gets the port, and can run.
        (let ((process-environment (gemini-companion-cli-run--environment 'gemini "/p/")))
          (should (equal (getenv "GEMINI_CLI_IDE_SERVER_PORT")
                         (number-to-string (gemini-companion-bridge-port))))
          (should-not (getenv "REMOTE_CONTAINERS")))
        (gemini-companion-mode -1)
        (should-not (gemini-companion-environment-test--get "GEMINI_CLI_IDE_AUTH_TOKEN"))
        (let ((process-environment (default-toplevel-value 'process-environment)))
          (should-not (getenv "GEMINI_CLI_IDE_SERVER_PORT"))
          (should (equal (getenv "GEMINI_CLI_IDE_PID") "")))))))

(ert-deftest gemini-companion-environment/what-the-user-has-set-since-stays ()
  "Off takes away only what on has added; the user may have had the same before."
  (gemini-companion-environment-test--with '("REMOTE_CONTAINERS=true" "OTHER=x")
    (gemini-companion-test-with-project
      (let ((gemini-companion-agent--container-files '("/")))
        (gemini-companion-mode 1)
        (set-default-toplevel-value
         'process-environment (setenv-internal (default-toplevel-value 'process-environment)
                                               "GEMINI_CLI_IDE_PID" "7" t))
        (gemini-companion-mode -1)
        (should (equal (gemini-companion-environment-test--get "GEMINI_CLI_IDE_PID") "7"))
        (should (equal (gemini-companion-environment-test--get "REMOTE_CONTAINERS") "true"))
        (should-not (gemini-companion-environment-test--get "GEMINI_CLI_IDE_SERVER_PORT"))))))

(ert-deftest gemini-companion-environment/other-directories-are-announced-once ()
  (gemini-companion-environment-test--with '("TMPDIR=/a")
    (let ((gemini-companion-temporary-directories '("/b/" "/a" "~")))
      (should (equal (gemini-companion-agent-directories 'gemini)
                     (list "/a/gemini/ide" "/b/gemini/ide"
                           (concat (expand-file-name "~") "/gemini/ide")))))))

(ert-deftest gemini-companion-environment/each-directory-has-a-discovery-file ()
  (gemini-companion-test-with-project
    (let* ((other (gemini-companion-test-file "tmp/"))
           (gemini-companion-temporary-directories (list other))
           (files (lambda () (directory-files (concat other "gemini/ide") nil "json\\'"))))
      (make-directory other)
      (gemini-companion-mode 1)
      (should (= (length (funcall files)) 1))
      (gemini-companion-mode -1)
      (should-not (funcall files)))))

(ert-deftest gemini-companion-environment/buffer-local-environments-get-the-variables ()
  "Eshell and packages that set up environments of projects make such buffers."
  (with-temp-buffer
    (setq-local process-environment '("OTHER=x"))
    (gemini-companion-test-with-project
      (gemini-companion-mode 1)
      (should (equal (getenv "GEMINI_CLI_IDE_SERVER_PORT")
                     (number-to-string (gemini-companion-bridge-port))))
      (should (equal (with-temp-buffer
                       (process-file-shell-command "echo $GEMINI_CLI_IDE_PID" nil t)
                       (buffer-string))
                     (format "%d\n" (emacs-pid))))
      (gemini-companion-mode -1)
      (should (equal process-environment '("OTHER=x"))))))

(ert-deftest gemini-companion-environment/the-roots-can-be-exported ()
  (gemini-companion-test-with-project
    (find-file-noselect (gemini-companion-test-file "one/a" ""))
    (let ((exported (lambda () (gemini-companion-environment-test--get
                                "GEMINI_CLI_IDE_WORKSPACE_PATH"))))
      (gemini-companion-mode 1)
      (should-not (funcall exported))
      (gemini-companion-mode -1)
      (let ((gemini-companion-export-workspace t))
        (gemini-companion-mode 1))
      (should (member (gemini-companion-test-file "one")
                      (split-string (funcall exported) ":")))
      (find-file-noselect (gemini-companion-test-file "two/a" ""))
      (gemini-companion-test-wait
       "the second root"
       (lambda () (member (gemini-companion-test-file "two")
                          (split-string (funcall exported) ":"))))
      (gemini-companion-mode -1)
      (should-not (funcall exported)))))

(ert-deftest gemini-companion-environment/a-root-is-exported-as-one-directory ()
  "A repository may have a directory with the separator of roots in its name."
  (gemini-companion-test-with-project
    (let* ((root (gemini-companion-test-file "x:/home/"))
           (value (lambda (environment)
                    (split-string (getenv-internal "GEMINI_CLI_IDE_WORKSPACE_PATH" environment)
                                  ":" t)))
           (gemini-companion-export-workspace t))
      (find-file-noselect (gemini-companion-test-file "one/a" ""))
      (find-file-noselect (expand-file-name "a" root))
      (gemini-companion-mode 1)
      (should (member (directory-file-name root) (gemini-companion-workspace-announced)))
      (let ((exported (funcall value process-environment)))
        (should (member (gemini-companion-test-file "one") exported))
        (should-not (member "/home" exported)))
      (should-not (funcall value (gemini-companion-cli-run--environment 'gemini root))))))

(ert-deftest gemini-companion-environment/a-cli-finds-emacs-and-its-own-node ()
  "Direnv may set TMPDIR in a buffer; started from a desktop, Emacs has a short PATH."
  (gemini-companion-test-with-project
    (let* ((gemini-companion-program (gemini-companion-test-file "node/bin/gemini" "#!/bin/sh\n"))
           (process-environment (cons "TMPDIR=/tmp/nix-shell.1" process-environment))
           (get (lambda (name)
                  (getenv-internal name (gemini-companion-cli-run--environment 'gemini "/p/"))))
           (path (getenv "PATH"))
           (directory (gemini-companion-test-file "node/bin")))
      (set-file-modes gemini-companion-program #o700)
      (should (equal (concat (funcall get "TMPDIR") "/gemini/ide")
                     (car (gemini-companion-agent-directories 'gemini))))
      ;; First, since there may be another Node.js, which is too old for it.
      (should (equal (funcall get "PATH") (concat directory ":" path)))
      (push (concat "PATH=" path ":" directory) process-environment)
      (should (equal (funcall get "PATH") (concat path ":" directory)))
      (let ((gemini-companion-temporary-directories '("/tmp/nix-shell.1")))
        (should (equal (funcall get "TMPDIR") "/tmp/nix-shell.1"))))))

(ert-deftest gemini-companion-environment/windows-has-another-home-and-shell ()
  "Node takes USERPROFILE for the home directory, and Emacs sets HOME to another one."
  (let* ((system-type 'windows-nt)
         (environment '("HOME=/Users/me/AppData/Roaming" "USERPROFILE=/Users/me" "TEMP=/a/../t/")))
    (should (equal (gemini-companion-agent-settings-file 'gemini environment)
                   "/Users/me/.gemini/settings.json"))
    (should (equal (gemini-companion-agent-temporary-directory environment) "/t"))
    (cl-letf (((symbol-function 'gemini-companion-agent-variables)
               (lambda () '(("A" . "1") ("B" . "/O'Brien';calc;'")))))
      (should (equal (gemini-companion-agent--command)
                     "$env:A='1'; $env:B='/O''Brien'';calc;'''")))
    (let ((gemini-companion-terminal 'auto))
      (should (string-search "in another terminal"
                             (cadr (should-error (gemini-companion-cli-terminals-choose)
                                                 :type 'user-error)))))))

(ert-deftest gemini-companion-environment/a-command-for-other-terminals-can-be-copied ()
  (gemini-companion-test-with-project
    (let ((kill-ring '("before"))
          (kill-ring-yank-pointer nil)
          (inhibit-message t))
      (setq kill-ring-yank-pointer kill-ring)
      (should-error (gemini-companion-copy-environment) :type 'user-error)
      (gemini-companion-mode 1)
      (gemini-companion-copy-environment)
      (let ((printed (with-temp-buffer
                       (let ((process-environment '("PATH=/usr/bin:/bin")))
                         (call-process "sh" nil t nil "-c"
                                       (concat (car kill-ring)
                                               "; echo $GEMINI_CLI_IDE_SERVER_PORT"
                                               " $GEMINI_CLI_IDE_AUTH_TOKEN")))
                       (buffer-string))))
        (should (equal printed (format "%d %s\n" (gemini-companion-bridge-port)
                                       (gemini-companion-bridge-token)))))
      (should (equal (get-text-property 0 'x-kde-passwordManagerHint (car kill-ring))
                     "secret"))
      (kill-new "after")
      (gemini-companion-agent--forget-copy)
      (should (equal kill-ring '("after" "before")))
      (should (equal (current-kill 0 t) "after"))
      (gemini-companion-copy-environment)
      ;; Switching off makes the token invalid.
      (gemini-companion-mode -1)
      (should (equal kill-ring '("after" "before")))
      (should (equal (current-kill 0 t) "after")))))

;;; gemini-companion-environment-test.el ends here

;;; gemini-companion-agent-test.el --- Tests of several programs at once  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'cus-edit)
(require 'ert)
(require 'gemini-companion-test-companion)
(require 'gemini-companion-agent)
(require 'gemini-companion-cli-run)

(defvar tool-bar-map)

(defmacro gemini-companion-agent-test--with (qwen &rest body)
  "Evaluate BODY in a new project with the mode on and a home of Qwen Code.
QWEN is bound to the object in its discovery file.  The current buffer
visits the file a.txt."
  (declare (indent 1) (debug (symbolp body)))
  `(let ((before (default-toplevel-value 'process-environment)))
     (unwind-protect
         (gemini-companion-test-with-project
           (make-directory (gemini-companion-test-file "qwen"))
           (set-default-toplevel-value
            'process-environment
            (cons (concat "QWEN_HOME=" (gemini-companion-test-file "qwen")) before))
           (switch-to-buffer
            (find-file-noselect (gemini-companion-test-file "a.txt" "one\ntwo\n")))
           (let ((inhibit-message t))
             (gemini-companion-mode 1)
             (gemini-companion-workspace-announce)
             (let ((,qwen (gemini-companion-test-json-decode
                           (gemini-companion-test-bytes
                            (gemini-companion-test-file
                             (format "qwen/ide/%d.lock" (gemini-companion-bridge-port)))))))
               ,@body)))
       (set-default-toplevel-value 'process-environment before))))

(ert-deftest gemini-companion-agent/each-agent-has-its-own-file-and-token ()
  (gemini-companion-agent-test--with qwen
    (let ((gemini (fake-cli-discover temporary-file-directory gemini-companion-test-project)))
      (should (equal (alist-get 'port qwen) (gemini-companion-bridge-port)))
      (should (equal (alist-get 'ppid qwen) (emacs-pid)))
      (should-not (assq 'ppid gemini))
      (dolist (member '(port workspacePath ideInfo))
        (should (equal (alist-get member qwen) (alist-get member gemini))))
      (should-not (equal (alist-get 'authToken qwen) (alist-get 'authToken gemini)))
      (should (equal (alist-get 'authToken qwen) (gemini-companion-bridge-token 'qwen)))
      (should (equal (getenv "QWEN_CODE_IDE_SERVER_PORT")
                     (number-to-string (gemini-companion-bridge-port)))))
    (gemini-companion-mode -1)
    (should-not (directory-files (gemini-companion-test-file "qwen/ide") nil "lock"))
    (should-not (getenv "QWEN_CODE_IDE_SERVER_PORT"))))

(ert-deftest gemini-companion-agent/an-agent-without-its-home-is-not-announced ()
  (gemini-companion-agent-test--with _qwen
    (gemini-companion-mode -1)
    (delete-directory (gemini-companion-test-file "qwen") t)
    (gemini-companion-mode 1)
    (should-not (file-exists-p (gemini-companion-test-file "qwen")))
    (make-directory (gemini-companion-test-file "qwen"))
    (let ((gemini-companion-agents '(gemini)))
      (gemini-companion-mode -1)
      (gemini-companion-mode 1)
      (should-not (file-exists-p (gemini-companion-test-file "qwen/ide")))
      (should-not (gemini-companion-bridge-token 'qwen))
      (should-not (getenv "QWEN_CODE_IDE_SERVER_PORT")))))

(ert-deftest gemini-companion-agent/only-a-valid-home-is-used ()
  (pcase-dolist (`(,home ,directories)
                 `(("" nil) ("relative" nil) (,temporary-file-directory t)))
    (let ((before (default-toplevel-value 'process-environment)))
      (unwind-protect
          (progn
            (set-default-toplevel-value
             'process-environment (list (concat "QWEN_HOME=" home)
                                        (concat "HOME=" (expand-file-name "nowhere" "/"))))
            (let ((default-directory temporary-file-directory)
                  (process-environment (list "HOME=/nowhere")))
              (make-directory "relative" t)
              (should (eq directories
                          (and (gemini-companion-agent-directories 'qwen) t)))))
        (set-default-toplevel-value 'process-environment before)))))

(ert-deftest gemini-companion-agent/agents-receive-nothing-of-each-other ()
  (gemini-companion-agent-test--with qwen
    (let ((one (fake-cli-connect temporary-file-directory gemini-companion-test-project))
          (other (fake-cli-connect-to qwen))
          (path (gemini-companion-test-file "a.txt")))
      (unwind-protect
          (let ((review (gemini-companion-test-propose one "a.txt" "1\n"))
                (second (gemini-companion-test-propose other "a.txt" "2\n")))
            (should (equal (mapcar #'gemini-companion-review-agent (list review second))
                           '(gemini qwen)))
            (gemini-companion-review-show second 'keep)
            (gemini-companion-review-commands-accept second)
            (fake-cli-wait-notification other "ide/diffAccepted")
            (gemini-companion-review-reject review)
            (fake-cli-wait-notification one "ide/diffRejected")
            (should-not (fake-cli-find-notification one "ide/diffAccepted"))
            (should-not (fake-cli-find-notification other "ide/diffRejected"))
            ;; The token of one agent gives no access to the session of another.
            (setf (alist-get 'authToken (fake-cli-discovery other))
                  (gemini-companion-bridge-token 'gemini))
            (should-error (fake-cli-call-tool other "openDiff"
                                              `(:filePath ,path :newContent "3\n"))))
        (fake-cli-disconnect one)
        (fake-cli-disconnect other)))))

(ert-deftest gemini-companion-agent/edits-that-a-client-ignores-are-reported ()
  "Qwen Code writes its own proposal when the user says yes there."
  (gemini-companion-agent-test--with qwen
    (let ((client (fake-cli-connect-to qwen)))
      (unwind-protect
          (pcase-dolist (`(,text ,named) '(("2\n" nil) ("2, mine\n" t)))
            (let ((review (gemini-companion-test-propose client "a.txt" "2\n"))
                  (messages nil))
              (setf (gemini-companion-review-text review) text)
              (cl-letf (((symbol-function 'message)
                         (lambda (format &rest arguments)
                           (when format
                             (push (apply #'format-message format arguments) messages)))))
                (fake-cli-call-tool
                 client "closeDiff" (list :filePath (gemini-companion-test-file "a.txt")
                                          :suppressNotification t)))
              (should (eq named (and (seq-some (lambda (text)
                                                 (string-match-p
                                                  "ignores your edits .*; those to .*list\\'" text))
                                               messages)
                                     t)))
              (should (equal (gemini-companion-history-after
                              (car (gemini-companion-history-all)))
                             text))))
        (fake-cli-disconnect client)))))

;;;; LLxprt Code

(defmacro gemini-companion-agent-test--with-environment (variables &rest body)
  "Evaluate BODY in a new project, with VARIABLES in the global environment."
  (declare (indent 1) (debug t))
  `(let ((before (default-toplevel-value 'process-environment)))
     (unwind-protect
         (gemini-companion-test-with-project
           (make-directory (gemini-companion-test-file "tmp/"))
           (set-default-toplevel-value
            'process-environment
            (append ,variables
                    (list (concat "TMPDIR=" (gemini-companion-test-file "tmp"))
                          (concat "HOME=" (gemini-companion-test-file "home")))
                    before))
           (let ((inhibit-message t)) ,@body))
       (set-default-toplevel-value 'process-environment before))))

(defun gemini-companion-agent-test--files (directory)
  "Return the names of the files in DIRECTORY below the temporary directory."
  (let ((directory (gemini-companion-test-file (concat "tmp/" directory))))
    (and (file-directory-p directory)
         (directory-files directory nil directory-files-no-dot-files-regexp))))

(defun gemini-companion-agent-test--llxprt-names ()
  "Return the names under which LLxprt Code finds this Emacs, sorted."
  (sort (mapcar (lambda (process)
                  (format "llxprt-ide-server-%d-%d.json" process (gemini-companion-bridge-port)))
                (cons (emacs-pid) (gemini-companion-agent-process-aliases (emacs-pid))))
        #'string<))

(ert-deftest gemini-companion-agent/llxprt-has-a-file-for-each-process-it-may-look-for ()
  (gemini-companion-agent-test--with-environment nil
    (make-directory (gemini-companion-test-file "home/.llxprt") t)
    (gemini-companion-mode 1)
    (let* ((names (gemini-companion-agent-test--llxprt-names))
           (file (gemini-companion-test-file (concat "tmp/llxprt/ide/" (car names))))
           (content (gemini-companion-test-json-decode (gemini-companion-test-bytes file))))
      ;; The grandparent of its shell, if Emacs runs the shell.
      (should (member (format "llxprt-ide-server-%d-%d.json"
                              (gemini-companion-agent-parent-process (emacs-pid))
                              (gemini-companion-bridge-port))
                      names))
      (should (equal (gemini-companion-agent-test--files "llxprt/ide") names))
      (should (equal (alist-get 'ppid content) (emacs-pid)))
      (should (equal (alist-get 'displayName (alist-get 'ideInfo content)) "Emacs"))
      (should (equal (alist-get 'authToken content) (gemini-companion-bridge-token 'llxprt)))
      (should-not (equal (gemini-companion-bridge-token 'llxprt)
                         (gemini-companion-bridge-token 'gemini)))
      (should (equal (getenv "LLXPRT_CODE_IDE_SERVER_PORT")
                     (number-to-string (gemini-companion-bridge-port))))
      (should (equal (getenv "LLXPRT_CODE_IDE_AUTH_TOKEN")
                     (gemini-companion-bridge-token 'llxprt)))
      (delete-file file)
      (gemini-companion-restart)
      (should (equal (gemini-companion-agent-test--files "llxprt/ide") names)))
    (gemini-companion-mode -1)
    (should-not (gemini-companion-agent-test--files "llxprt/ide"))
    (should-not (getenv "LLXPRT_CODE_IDE_AUTH_TOKEN"))))

(ert-deftest gemini-companion-agent/llxprt-is-announced-only-where-it-is-used ()
  (pcase-dolist (`(,used ,directory . ,variables)
                 '((nil "home")
                   (t "home/.llxprt")
                   (t "home/.config/llxprt-code")
                   (t "xdg/llxprt-code" "XDG_CONFIG_HOME=%s/xdg")
                   (t "own" "LLXPRT_CONFIG_HOME=%s/own")
                   (nil "own" "LLXPRT_CONFIG_HOME=")
                   (nil "own" "LLXPRT_CONFIG_HOME=own")))
    (gemini-companion-agent-test--with-environment
        (mapcar (lambda (variable)
                  (format variable (directory-file-name (gemini-companion-test-file ""))))
                variables)
      (make-directory (gemini-companion-test-file directory) t)
      (gemini-companion-mode 1)
      (should (eq used (and (gemini-companion-agent-test--files "llxprt/ide") t)))
      (should (eq used (and (gemini-companion-bridge-token 'llxprt) t))))))

(ert-deftest gemini-companion-agent/processes-that-a-client-takes-for-emacs ()
  "Emacs is process 50; a client runs in it, with or without a shell."
  (pcase-dolist (`(,taken . ,processes)
                 '(;; A daemon: its ancestors do not count.
                   (nil (50 1 "emacs"))
                   ;; From a menu: the session and the user's first process.
                   ((40 30) (50 40 "emacs") (40 30 "gnome-shell") (30 1 "systemd --user"))
                   ;; From a terminal: the shell's grandparent counts.
                   ((40 20) (50 40 "emacs -nw") (40 30 "/bin/bash") (30 20 "xterm") (20 1 "i3"))
                   ((40 30) (50 40 "emacs -nw") (40 30 "bash") (30 1 "tmux"))
                   ((40) (50 40 "emacs -nw") (40 1 "tmux"))))
    (cl-letf (((symbol-function 'process-attributes)
               (lambda (process)
                 (pcase (assq process processes)
                   (`(,_ ,parent ,arguments) `((ppid . ,parent) (args . ,arguments)))))))
      (should (equal (gemini-companion-agent-process-aliases 50) taken)))))

;;;; The example of a fork

(defun gemini-companion-agent-test--example ()
  "Return the form in the manual that adds a row for a fork."
  (with-temp-buffer
    (insert-file-contents (gemini-companion-test-path "docs" "gemini-companion.texi"))
    (search-forward "@section Adding a Program")
    (search-forward "@lisp\n")
    (read (current-buffer))))

(ert-deftest gemini-companion-agent/the-example-in-the-manual-works ()
  (let ((gemini-companion-agent-profiles nil)
        (gemini-companion-agents '(gemini))
        (gemini-companion-export-workspace t))
    (eval (gemini-companion-agent-test--example) t)
    (gemini-companion-agent-test--with-environment nil
      (gemini-companion-mode 1)
      (should (equal (gemini-companion-agent-test--files "other/ide")
                     (list (format "other-ide-server-%d-%d.json" (emacs-pid)
                                   (gemini-companion-bridge-port)))))
      (should (member (concat "OTHER_CODE_IDE_AUTH_TOKEN=" (gemini-companion-bridge-token 'other))
                      (gemini-companion-cli-run--environment 'other gemini-companion-test-project)))
      (should (equal (gemini-companion-cli-run-program 'other) "other")))))

;;;; Ours and the user's

(ert-deftest gemini-companion-agent/what-the-user-leaves-out-is-ours ()
  "So later versions of this package reach those who have customized it."
  (let ((gemini-companion-agent-profiles '((gemini :program "my-gemini" :takes-edits nil)
                                           (other :title "Other")))
        (gemini-companion-agents '(other gemini stranger)))
    (should (equal (gemini-companion-agent-get 'gemini :program) "my-gemini"))
    (should-not (gemini-companion-agent-get 'gemini :takes-edits))
    (should (equal (gemini-companion-agent-get 'gemini :title) "Gemini CLI"))
    (should (equal (gemini-companion-agent-get 'other :title) "Other"))
    (should (equal (gemini-companion-agent-served) '(other gemini)))
    (should (equal (sort (gemini-companion-agent-names) #'string<)
                   '(gemini llxprt other qwen)))))

;;;; Customize

(ert-deftest gemini-companion-agent/the-table-matches-its-custom-type ()
  (let ((type (widget-convert (get 'gemini-companion-agent-profiles 'custom-type))))
    (should (widget-apply type :match gemini-companion-agent--known))
    (should-not (widget-apply type :match '((other . "other"))))))

(ert-deftest gemini-companion-agent/the-table-can-be-customized ()
  (let ((inhibit-message t)
        ;; Customize uses it, but an Emacs without a window system does not define it.
        (tool-bar-map (make-sparse-keymap)))
    (save-window-excursion
      (customize-option 'gemini-companion-agent-profiles)
      (unwind-protect
          (progn
            ;; Otherwise it would be shown as edited and be saved with the next option.
            (should (eq (widget-get (car custom-options) :custom-state) 'standard)))
        (kill-buffer)))))

;;;; Document 004

(ert-deftest gemini-companion-agent/the-commands-of-document-004-work-as-printed ()
  "The commands of its section \"Debugging\", with port and token filled in."
  (unless (executable-find "curl")
    (ert-skip "curl is not installed"))
  (gemini-companion-test-with-project
    (switch-to-buffer (find-file-noselect (gemini-companion-test-file "a.txt" "one\n")))
    (gemini-companion-mode 1)
    (let* ((fill (lambda (command)
                   (string-replace
                    "<token>" (gemini-companion-bridge-token)
                    (string-replace "<PORT>" (number-to-string (gemini-companion-bridge-port))
                                    command))))
           (answer (shell-command-to-string
                    (funcall fill "curl -s -H \"Authorization: Bearer <token>\" \\
     -H \"Content-Type: application/json\" \\
     -d '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}' \\
     http://127.0.0.1:<PORT>/mcp")))
           (events (make-process
                    :name "curl" :buffer (generate-new-buffer "curl") :noquery t
                    :connection-type 'pipe
                    :command
                    (list "sh" "-c"
                          (funcall fill "exec curl -s -N -H \"Authorization: Bearer <token>\" \\
     http://127.0.0.1:<PORT>/events")))))
      (should (string-search "\"serverInfo\":{\"name\":\"gemini-companion\"" answer))
      (unwind-protect
          (gemini-companion-test-wait
           (lambda () (with-current-buffer (process-buffer events) (buffer-string)))
           (lambda ()
             (with-current-buffer (process-buffer events)
               (save-excursion
                 (goto-char (point-min))
                 (re-search-forward "^data: {.*notifications/context-update.*a\\.txt" nil t)))))
        (delete-process events)))))

;;; gemini-companion-agent-test.el ends here

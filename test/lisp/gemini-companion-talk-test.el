;;; gemini-companion-talk-test.el --- Tests of what is sent to the CLI  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'dired)
(require 'gemini-companion-talk)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-talk-test--with (sent &rest body)
  "Evaluate BODY in a new project with a terminal that a program reads.
SENT becomes a function that returns what that has read."
  (declare (indent 1) (debug (symbolp body)))
  (let ((terminal (make-symbol "terminal")))
    `(gemini-companion-test-with-project
       (let* ((gemini-companion-talk--look 0.001)
              (inhibit-message t)
              (,terminal (generate-new-buffer "terminal"))
              (,sent (lambda () (with-current-buffer ,terminal (buffer-string)))))
         (with-current-buffer ,terminal
           (setq gemini-companion-run-root gemini-companion-test-project))
         (make-process :name "cli" :buffer ,terminal :command '("cat") :noquery t
                       :connection-type 'pipe :coding 'utf-8-unix :sentinel #'ignore)
         (unwind-protect (progn ,@body)
           (when-let ((process (get-buffer-process ,terminal)))
             (delete-process process)))))))

(defun gemini-companion-talk-test--wait (sent text)
  "Wait until the function SENT returns TEXT."
  (gemini-companion-test-wait (lambda () (format "%S; %S was sent" text (funcall sent)))
                              (lambda () (equal (funcall sent) text))))

(ert-deftest gemini-companion-talk/prompts-are-pasted-and-sent ()
  (gemini-companion-talk-test--with sent
    (gemini-companion-send-prompt "hello ä𝕏")
    (gemini-companion-talk-test--wait sent "\e[200~hello ä𝕏\e[201~\r")
    (should-error (gemini-companion-send-prompt " ") :type 'user-error)))

(ert-deftest gemini-companion-talk/a-text-presses-no-keys ()
  (gemini-companion-talk-test--with sent
    (gemini-companion-talk-send "a\e[201~\C-c\r\nb\rc\td\177\u009b" t)
    (gemini-companion-talk-test--wait sent "\e[200~a[201~\nb\nc\td\e[201~\r")))

(ert-deftest gemini-companion-talk/long-texts-arrive-whole-and-in-order ()
  (gemini-companion-talk-test--with sent
    (let ((text (mapconcat #'number-to-string (number-sequence 1 20000) " ")))
      (gemini-companion-talk-send text t)
      (gemini-companion-talk-send "next" t)
      (gemini-companion-answer-yes)
      (gemini-companion-answer-no)
      (gemini-companion-talk-test--wait
       sent (concat "\e[200~" text "\e[201~\r\e[200~next\e[201~\r\r\e")))))

(ert-deftest gemini-companion-talk/a-region-says-where-it-is-from ()
  (gemini-companion-talk-test--with sent
    (switch-to-buffer (find-file-noselect (gemini-companion-test-file "sub/a.txt" "1\n2\n3\n")))
    (gemini-companion-send-region 3 7 t)
    (gemini-companion-talk-test--wait
     sent "\e[200~sub/a.txt, lines 2 to 3:\n```\n2\n3\n```\n\e[201~\r")))

(ert-deftest gemini-companion-talk/files-are-mentioned-as-the-cli-reads-them ()
  (gemini-companion-talk-test--with sent
    (switch-to-buffer (find-file-noselect
                       (gemini-companion-test-file "sub/a (b) $c\\d [e].txt" "")))
    (gemini-companion-send-file t)
    (gemini-companion-talk-test--wait
     sent "\e[200~@sub/a\\ \\(b\\)\\ \\$c\\\\d\\ \\[e\\].txt \e[201~\r")
    (should (equal (gemini-companion-talk--mention "/etc/hosts" gemini-companion-test-project)
                   "@/etc/hosts"))))

(ert-deftest gemini-companion-talk/in-dired-marked-files-are-mentioned ()
  (gemini-companion-talk-test--with sent
    (gemini-companion-test-file "a" "")
    (gemini-companion-test-file "b" "")
    (switch-to-buffer (dired-noselect gemini-companion-test-project))
    (dired-mark-files-regexp "\\`[ab]\\'")
    (gemini-companion-send-file t)
    (gemini-companion-talk-test--wait sent "\e[200~@a @b \e[201~\r")))

(ert-deftest gemini-companion-talk/without-a-cli-it-says-how-to-run-one ()
  (gemini-companion-test-with-project
    (should (string-search "gemini-companion-run"
                           (cadr (should-error (gemini-companion-send-prompt "x")
                                               :type 'user-error))))))

(ert-deftest gemini-companion-talk/composed-prompts-are-kept-until-sent ()
  (gemini-companion-talk-test--with sent
    (let ((gemini-companion-talk-history '("before")))
      (gemini-companion-compose)
      (insert "one\ntwo")
      ;; Left and taken up again.
      (bury-buffer)
      (switch-to-buffer (generate-new-buffer "elsewhere"))
      (gemini-companion-compose)
      (should (equal (buffer-string) "one\ntwo"))
      (gemini-companion-compose-send)
      (gemini-companion-talk-test--wait sent "\e[200~one\ntwo\e[201~\r")
      (should (equal gemini-companion-talk-history '("one\ntwo" "before")))
      (gemini-companion-compose)
      (should (equal (buffer-string) ""))
      (gemini-companion-compose-previous)
      (gemini-companion-compose-previous)
      (should (equal (buffer-string) "before"))
      (should-error (gemini-companion-compose-previous) :type 'user-error)
      (gemini-companion-compose-next)
      (should (equal (buffer-string) "one\ntwo"))
      (gemini-companion-compose-quit))))

(ert-deftest gemini-companion-talk/a-prompt-outlives-its-cli ()
  (gemini-companion-talk-test--with _sent
    (gemini-companion-compose)
    (insert "precious")
    (delete-process (get-buffer-process gemini-companion-compose--terminal))
    (should-error (gemini-companion-compose-send) :type 'user-error)
    (should (equal (buffer-string) "precious"))))

(ert-deftest gemini-companion-talk/files-are-completed-after-an-at ()
  (gemini-companion-talk-test--with _sent
    (gemini-companion-test-file "two words.txt" "")
    (gemini-companion-compose)
    (insert "look at @two")
    (pcase-let ((`(,start ,end ,table . ,_) (gemini-companion-compose--complete)))
      (should (equal (buffer-substring start end) "two"))
      (should (equal (all-completions "two" table) '("two\\ words.txt"))))
    (dolist (key '("TAB" "M-TAB"))
      (insert " @two")
      (call-interactively (key-binding (kbd key)))
      (should (looking-back " @two\\\\ words\\.txt" (line-beginning-position))))
    (insert " mail@two")
    (should-not (gemini-companion-compose--complete))))

(defvar flycheck-checkers)
(defvar flycheck-current-errors)
(declare-function flycheck-buffer "ext:flycheck")
(declare-function flycheck-mode "ext:flycheck")

(ert-deftest gemini-companion-talk/what-flycheck-says-is-sent ()
  "At the line of an error, wherever in it."
  (let ((load-path (append (file-expand-wildcards
                            "/usr/share/emacs/site-lisp/elpa-src/*")
                           load-path)))
    (unless (and (require 'flycheck nil t) (executable-find "bash"))
      (message "SKIPPED %s: elpa-flycheck is not installed" (ert-test-name (ert-running-test)))
      (ert-skip "elpa-flycheck is not installed")))
  (gemini-companion-talk-test--with sent
    (switch-to-buffer (find-file-noselect
                       (gemini-companion-test-file "a.sh" "#!/bin/sh\necho 1\n  fi\n")))
    (setq-local flycheck-checkers '(sh-posix-bash))
    (flycheck-mode 1)
    (flycheck-buffer)
    (gemini-companion-test-wait "Flycheck" (lambda () flycheck-current-errors))
    (goto-char (point-min))
    (should-error (gemini-companion-send-diagnostic) :type 'user-error)
    (forward-line 2)
    (end-of-line)
    (gemini-companion-send-diagnostic t)
    (gemini-companion-test-wait
     (lambda () (funcall sent))
     (lambda () (string-match-p "a\\.sh, line 3: .*syntax error.*fi" (funcall sent))))))

;;; gemini-companion-talk-test.el ends here

;;; gemini-companion-cli-edit-test.el --- Tests of editing for a CLI  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; With a shell script that runs $VISUAL in place of the CLI; test/e2e/run-test.el has the real one.

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-edit)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-cli-edit-test--with (command &rest body)
  "Evaluate BODY while a CLI lets the user edit prompt.txt, by the shell COMMAND.
It is selected, and prints END and the exit code once the user is done."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-project
     (let ((gemini-companion-program
            (gemini-companion-test-file
             "program" (concat "#!/bin/sh\n" ,command "\necho \"END $?\"; read line\n")))
           (gemini-companion-terminal 'term))
       (set-file-modes gemini-companion-program #o755)
       (gemini-companion-test-file "prompt.txt" "One\nzwei é")
       (gemini-companion-mode 1)
       (cl-letf (((symbol-function 'gemini-companion-ui-user-frame-p) #'always))
         (save-window-excursion
           (gemini-companion-run)
           (unwind-protect (progn ,@body)
             (pcase-dolist (`(,buffer . ,_) (gemini-companion-cli-run-terminals))
               (delete-process (get-buffer-process buffer)))))))))

(defun gemini-companion-cli-edit-test--buffer ()
  "Return the buffer in which the user is to edit, once there is one."
  (gemini-companion-test-wait
   "a text to edit" (lambda () (seq-find (lambda (buffer)
                                           (string-prefix-p "*edit " (buffer-name buffer)))
                                         (buffer-list)))))

(defun gemini-companion-cli-edit-test--ended (&optional code)
  "Wait until the program of the CLI has ended with CODE; all must be gone."
  (gemini-companion-test-wait
   "the end of the editor"
   (lambda ()
     (seq-some (pcase-lambda (`(,buffer . ,_))
                 (with-current-buffer buffer
                   (string-search (format "END %d" (or code 0)) (buffer-string))))
               (gemini-companion-cli-run-terminals))))
  (should-not (seq-find (lambda (process)
                          (and (string-prefix-p "gemini edit" (process-name process))
                               (not (eq process gemini-companion-cli-edit--server))))
                        (process-list))))

(ert-deftest gemini-companion-cli-edit/the-text-goes-back-to-the-cli ()
  "The window is selected, and not there any more afterwards."
  (gemini-companion-cli-edit-test--with "$VISUAL --wait prompt.txt"
    (let ((terminal (window-buffer)))
      (with-current-buffer (gemini-companion-cli-edit-test--buffer)
        (gemini-companion-test-wait "its window" (lambda () (eq (window-buffer) (current-buffer))))
        (should (equal (buffer-string) "One\nzwei é"))
        (should (equal default-directory gemini-companion-test-project))
        (should-not buffer-file-name)
        (goto-char (point-max))
        (insert "\ndrei\n")
        (gemini-companion-compose-send))
      (gemini-companion-cli-edit-test--ended)
      (should (equal (gemini-companion-test-read "prompt.txt") "One\nzwei é\ndrei\n"))
      (should (eq (window-buffer) terminal))
      (should-not gemini-companion-cli-send-history))))

(ert-deftest gemini-companion-cli-edit/a-cancel-changes-nothing ()
  "Nor is what was typed lost; a buffer that is killed is one, too."
  (dolist (cancel (list #'gemini-companion-compose-quit #'kill-buffer))
    (gemini-companion-cli-edit-test--with "$VISUAL prompt.txt"
      (with-current-buffer (gemini-companion-cli-edit-test--buffer)
        (gemini-companion-test-wait "its window" (lambda () (eq (window-buffer) (current-buffer))))
        (erase-buffer)
        (insert "Lost?")
        (let ((gemini-companion-cli-send-history nil))
          (funcall cancel)
          (when (eq cancel #'gemini-companion-compose-quit)
            (should (equal gemini-companion-cli-send-history '("Lost?"))))))
      (gemini-companion-cli-edit-test--ended)
      (should (equal (gemini-companion-test-read "prompt.txt") "One\nzwei é")))))

(ert-deftest gemini-companion-cli-edit/an-empty-screen-is-drawn-again ()
  "Gemini CLI needs a reason if the text is the same."
  (gemini-companion-cli-edit-test--with "$VISUAL prompt.txt; clear; stty raw -echo; head -c 6 >keys"
    (kill-buffer (gemini-companion-cli-edit-test--buffer))
    (gemini-companion-cli-edit-test--ended)
    (should (equal (gemini-companion-test-read "keys") "\e[O\e[I"))))

(ert-deftest gemini-companion-cli-edit/a-window-is-not-taken-from-the-user ()
  "If the user has not pressed a key in that terminal, as when the model runs git."
  (gemini-companion-cli-edit-test--with "$VISUAL prompt.txt </dev/null"
    (let ((window (selected-window))
          (buffer (gemini-companion-cli-edit-test--buffer)))
      (gemini-companion-test-wait "its window" (lambda () (get-buffer-window buffer)))
      (should (eq (selected-window) window))
      (kill-buffer buffer)
      (gemini-companion-cli-edit-test--ended))))

(ert-deftest gemini-companion-cli-edit/a-cli-that-has-ended-gets-nothing ()
  (gemini-companion-cli-edit-test--with "$VISUAL prompt.txt"
    (let ((process (get-buffer-process (window-buffer)))
          (buffer (gemini-companion-cli-edit-test--buffer)))
      (delete-process process)
      (with-current-buffer buffer
        (gemini-companion-test-wait
         "the end of the program"
         (lambda () (not (process-live-p gemini-companion-cli-edit--client))))
        (insert "x")
        (should-error (gemini-companion-compose-send) :type 'user-error)
        (should (equal (gemini-companion-test-read "prompt.txt") "One\nzwei é"))
        (kill-buffer)))))

(ert-deftest gemini-companion-cli-edit/what-is-no-file-is-not-edited ()
  "Nothing asks another machine, either."
  (dolist (file '("missing" "/" "/ssh:nowhere.invalid:/x"))
    (gemini-companion-cli-edit-test--with (format "$VISUAL '%s'" file)
      (gemini-companion-cli-edit-test--ended 1))))

(ert-deftest gemini-companion-cli-edit/it-ends-with-the-mode ()
  "Nobody else can reach it before."
  (gemini-companion-cli-edit-test--with "echo \"<$VISUAL>\""
    (gemini-companion-cli-edit-test--ended)
    (let* ((program (process-get gemini-companion-cli-edit--server 'program))
           (directory (file-name-directory program)))
      (should (= (file-modes directory) #o700))
      (should (string-search (format "<env %s>" program)
                             (string-replace "\n" "" (with-current-buffer (window-buffer)
                                                       (buffer-string)))))
      (gemini-companion-mode -1)
      (should-not (file-exists-p directory))
      (should-not gemini-companion-cli-edit--server))))

(ert-deftest gemini-companion-cli-edit/the-user-may-want-another-editor ()
  (let ((process-environment (cons "VISUAL=mine" process-environment))
        (gemini-companion-edit-in-emacs nil))
    (gemini-companion-cli-edit-test--with "echo \"<$VISUAL>\""
      (gemini-companion-cli-edit-test--ended)
      (should (string-search "<mine>" (with-current-buffer (window-buffer) (buffer-string))))
      (should-not gemini-companion-cli-edit--server))))

(provide 'gemini-companion-cli-edit-test)
;;; gemini-companion-cli-edit-test.el ends here

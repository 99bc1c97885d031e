;;; gemini-companion-cli-edit-test.el --- Tests of editing for a CLI  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; With a shell script that runs $VISUAL in place of the CLI; test/e2e/run-test.el has the real one.

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-edit)
(require 'gemini-companion-host-connection)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-cli-edit-test--with (command &rest body)
  "Evaluate BODY while a CLI lets the user edit prompt.txt, by the shell COMMAND.
It is selected, and prints END and the exit code once the user is done."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-project
     (let ((gemini-companion-program
            (gemini-companion-test-file
             "program" (concat "#!/bin/sh\n" ,command "\necho \"END $?\"; read line\n")))
           (gemini-companion-terminal 'term)
           (gemini-companion-cli-send-history nil))
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

(defun gemini-companion-cli-edit-test--selected ()
  "Return the same once it is in the selected window, where the user can edit it."
  (let ((buffer (gemini-companion-cli-edit-test--buffer)))
    (gemini-companion-test-wait "its window" (lambda () (eq (window-buffer) buffer)))
    buffer))

(defun gemini-companion-cli-edit-test--ended (&optional code)
  "Wait until the program of the CLI has ended with CODE; all must be gone."
  (gemini-companion-test-wait
   "the end of the editor"
   (lambda ()
     (seq-some (pcase-lambda (`(,buffer . ,_))
                 (with-current-buffer buffer
                   (string-search (format "END %d" (or code 0)) (buffer-string))))
               (gemini-companion-cli-run-terminals))))
  (should-not (gemini-companion-cli-edit-test--client)))

(defun gemini-companion-cli-edit-test--client ()
  "Return the process of a CLI that waits for a text, or nil."
  (seq-find (lambda (process)
              (and (string-prefix-p "gemini edit" (process-name process))
                   (not (eq process gemini-companion-cli-edit--server))))
            (process-list)))

(ert-deftest gemini-companion-cli-edit/the-text-goes-back-to-the-cli ()
  "The window is selected, and not there any more afterwards."
  (gemini-companion-cli-edit-test--with "$VISUAL --wait prompt.txt"
    (let ((terminal (window-buffer)))
      (with-current-buffer (gemini-companion-cli-edit-test--selected)
        (should (equal (buffer-string) "One\nzwei é"))
        (should (equal default-directory gemini-companion-test-project))
        (should-not buffer-file-name)
        (goto-char (point-max))
        (insert "\ndrei\n")
        (gemini-companion-compose-send))
      (gemini-companion-cli-edit-test--ended)
      (should (equal (gemini-companion-test-read "prompt.txt") "One\nzwei é\ndrei\n"))
      (should (eq (window-buffer) terminal))
      (should (equal gemini-companion-cli-send-history (list "One\nzwei é\ndrei\n"))))))

(ert-deftest gemini-companion-cli-edit/a-text-is-not-added-to-the-prompt-that-is-edited ()
  "It would be lost, such as the name of a file that is dropped on the terminal."
  (gemini-companion-cli-edit-test--with "$VISUAL prompt.txt"
    (let ((terminal (window-buffer))
          (buffer (gemini-companion-cli-edit-test--buffer)))
      (should (equal (cadr (should-error (gemini-companion-cli-send-text "lost?" nil terminal)))
                     "Gemini CLI waits for what you edit in *edit prompt.txt*, and would lose the \
text; insert it there"))
      (kill-buffer buffer)
      (gemini-companion-cli-edit-test--ended)
      (should-not (string-search "edit" (with-current-buffer terminal
                                          (or (gemini-companion-cli-send--fault) "")))))))

(ert-deftest gemini-companion-cli-edit/a-cancel-changes-nothing ()
  "Nor is what was typed lost; a buffer that is killed is one, too."
  (dolist (cancel (list #'gemini-companion-compose-quit #'kill-buffer))
    (gemini-companion-cli-edit-test--with "$VISUAL prompt.txt"
      (with-current-buffer (gemini-companion-cli-edit-test--selected)
        (erase-buffer)
        (insert "Lost?")
        (let ((gemini-companion-cli-send-history nil))
          (funcall cancel)
          (should (equal gemini-companion-cli-send-history '("Lost?")))))
      (gemini-companion-cli-edit-test--ended)
      (should (equal (gemini-companion-test-read "prompt.txt") "One\nzwei é")))))

(ert-deftest gemini-companion-cli-edit/a-plan-hides-nothing ()
  "A model writes it: some characters look like nothing, and some blocked Emacs for minutes."
  (gemini-companion-cli-edit-test--with "printf 'a\\342\\201\\250b' >prompt.txt; $VISUAL prompt.txt"
    (with-current-buffer (gemini-companion-cli-edit-test--buffer)
      (should (equal (buffer-string) "a\u2068b"))
      (should (eq (aref glyphless-char-display #x2068) 'hex-code))
      (should-not bidi-display-reordering)
      (kill-buffer))
    (gemini-companion-cli-edit-test--ended)))

(ert-deftest gemini-companion-cli-edit/an-empty-screen-is-drawn-again ()
  "Gemini CLI needs a reason if the text is the same."
  (gemini-companion-cli-edit-test--with "$VISUAL prompt.txt; clear; stty raw -echo; head -c 6 >keys"
    (let ((buffer (gemini-companion-cli-edit-test--buffer)))
      (gemini-companion-test-wait "the text to be shown" (lambda () (get-buffer-window buffer)))
      (kill-buffer buffer))
    (gemini-companion-cli-edit-test--ended)
    (should (equal (gemini-companion-test-read "keys") "\e[O\e[I"))))

(ert-deftest gemini-companion-cli-edit/an-error-of-the-user-does-not-hang-the-cli ()
  "The text can be edited all the same."
  (let ((text-mode-hook (list (lambda () (error "My hook")))))
    (gemini-companion-cli-edit-test--with "$VISUAL prompt.txt"
      (with-current-buffer (gemini-companion-cli-edit-test--selected)
        (should (equal (buffer-string) "One\nzwei é"))
        (insert " und")
        (gemini-companion-compose-send))
      (gemini-companion-cli-edit-test--ended)
      (should (equal (gemini-companion-test-read "prompt.txt") "One\nzwei é und")))))

(ert-deftest gemini-companion-cli-edit/a-screen-with-a-prompt-is-left-alone ()
  "The timers, which find that, do not change the match data either."
  (gemini-companion-cli-edit-test--with
      (concat "$VISUAL prompt.txt; printf '──────────\\n > Type your message\\n──────────\\n'; "
              "stty raw -echo; head -c 1 >keys")
    (let ((terminal (window-buffer)))
      (kill-buffer (gemini-companion-cli-edit-test--buffer))
      (gemini-companion-test-wait
       "the prompt" (lambda () (with-current-buffer terminal (gemini-companion-cli-screen-prompt))))
      (gemini-companion-test-wait
       "the timers" (lambda () (not (gemini-companion-test-timers #'gemini-companion-cli-edit--wake))))
      (should (equal (gemini-companion-test-read "keys") "")))))

(ert-deftest gemini-companion-cli-edit/a-text-for-a-user-who-has-gone-elsewhere-is-the-same ()
  "Names of files are those of the project, and an empty screen is drawn again."
  (gemini-companion-cli-edit-test--with
      "read line; $VISUAL prompt.txt; clear; stty raw -echo; head -c 6 >keys"
    (let ((terminal (window-buffer)))
      (with-temp-buffer
        (setq default-directory "/")
        (switch-to-buffer (current-buffer))
        (process-send-string (get-buffer-process terminal) "\n")
        (let ((buffer (gemini-companion-cli-edit-test--buffer)))
          (gemini-companion-test-wait "the text to be shown" (lambda () (get-buffer-window buffer)))
          (should (eq (window-buffer) (current-buffer)))
          (with-current-buffer buffer
            (should (equal default-directory gemini-companion-test-project))
            (kill-buffer)))
        (gemini-companion-cli-edit-test--ended)
        (should (equal (gemini-companion-test-read (gemini-companion-test-file "keys"))
                       "\e[O\e[I"))))))

(ert-deftest gemini-companion-cli-edit/a-window-is-not-taken-from-the-user ()
  "If the user has not pressed a key in that terminal, as when the model runs git."
  (gemini-companion-cli-edit-test--with "$VISUAL prompt.txt </dev/null"
    (let ((window (selected-window))
          (buffer (gemini-companion-cli-edit-test--buffer)))
      (gemini-companion-test-wait "its window" (lambda () (get-buffer-window buffer)))
      (should (eq (selected-window) window))
      (kill-buffer buffer)
      (gemini-companion-cli-edit-test--ended))))

(ert-deftest gemini-companion-cli-edit/the-user-may-kill-it-before-it-appears ()
  (let ((busy "you are typing"))
    (cl-letf (((symbol-function 'gemini-companion-ui-busy) (lambda () busy)))
      (gemini-companion-test-with-answer nil
        (gemini-companion-cli-edit-test--with "$VISUAL prompt.txt </dev/null"
          (let ((buffer (gemini-companion-cli-edit-test--buffer)))
            (gemini-companion-test-wait "a message" (lambda () gemini-companion-test-messages))
            (kill-buffer buffer)
            (setq busy nil
                  gemini-companion-test-messages nil)
            (gemini-companion-cli-edit-test--ended)
            ;; A later timer has run, too.
            (let ((done nil))
              (gemini-companion-log-when-free "a test" (lambda () (setq done t)))
              (gemini-companion-test-wait "the user to be free" (lambda () done)))
            (should-not gemini-companion-test-messages)))))))

(ert-deftest gemini-companion-cli-edit/a-cli-that-has-ended-gets-nothing ()
  (gemini-companion-cli-edit-test--with "$VISUAL prompt.txt"
    (let ((process (get-buffer-process (window-buffer)))
          (buffer (gemini-companion-cli-edit-test--buffer)))
      (delete-process process)
      (with-current-buffer buffer
        (gemini-companion-test-wait
         "the end of the program"
         (lambda () (not (gemini-companion-cli-edit-test--client))))
        (insert "x")
        (should-error (gemini-companion-compose-send) :type 'user-error)
        (should (equal (gemini-companion-test-read "prompt.txt") "One\nzwei é"))
        (kill-buffer)))))

(ert-deftest gemini-companion-cli-edit/what-is-no-text-is-not-edited ()
  "Nothing asks another machine, either."
  (dolist (file '("missing" "/" "/ssh:nowhere.invalid:/x" "latin-1.txt"))
    (gemini-companion-cli-edit-test--with (format "printf '\\351' >latin-1.txt; $VISUAL '%s'" file)
      (gemini-companion-cli-edit-test--ended 1))))

(ert-deftest gemini-companion-cli-edit/it-ends-with-the-mode ()
  "But a CLI that goes on knows no other program.  Nobody else can reach it."
  (gemini-companion-cli-edit-test--with "echo \"<$VISUAL>\""
    (gemini-companion-cli-edit-test--ended)
    (let* ((program (process-get gemini-companion-cli-edit--server 'program))
           (directory (file-name-directory program)))
      (should (= (file-modes directory) #o700))
      (should (string-search (format "<node %s>" program)
                             (string-replace "\n" "" (with-current-buffer (window-buffer)
                                                       (buffer-string)))))
      (gemini-companion-mode -1)
      (should (file-exists-p program))
      (gemini-companion-mode 1)
      (delete-process (get-buffer-process (window-buffer)))
      (gemini-companion-mode -1)
      (should-not (file-exists-p directory))
      (should-not gemini-companion-cli-edit--server))))

;; The CLI clears the screen, so the text was lost without a word.
(ert-deftest gemini-companion-cli-edit/a-text-that-the-cli-cannot-take-is-easy-to-get-back ()
  "As on a full disk; blocks have 512 bytes."
  (gemini-companion-test-with-answer nil
    (gemini-companion-cli-edit-test--with "trap '' XFSZ; ulimit -f 2; $VISUAL prompt.txt"
      (let ((text (make-string 5000 ?x)))
        (with-current-buffer (gemini-companion-cli-edit-test--selected)
          (erase-buffer)
          (insert text)
          (gemini-companion-compose-send))
        (let ((message (gemini-companion-test-wait
                        "a message"
                        (lambda () (seq-find (lambda (it) (string-search "EFBIG" it))
                                             gemini-companion-test-messages)))))
          (should (string-match-p "\\`A CLI could not take the text that you edited: EFBIG: .*; \
M-x gemini-companion-compose M-p brings it back\\'" message)))
        (gemini-companion-test-wait "it to hang up"
                                    (lambda () (not (gemini-companion-cli-edit-test--client))))
        (gemini-companion-cli-edit-test--ended 1)
        (should (equal (gemini-companion-test-read "prompt.txt") "One\nzwei é"))
        (save-window-excursion
          (gemini-companion-compose)
          (gemini-companion-compose-previous)
          (should (equal (buffer-string) text))
          (kill-buffer))))))

;; Ctrl+G failed in each CLI until Emacs was restarted.
(ert-deftest gemini-companion-cli-edit/a-program-that-was-deleted-is-there-for-the-next-cli ()
  "Something may delete old files in temporary directories."
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (let ((program (lambda ()
                     (string-remove-prefix
                      "VISUAL=" (car (gemini-companion-cli-edit-environment 'qwen))))))
      (unwind-protect
          (dotimes (_ 2)
            (should (file-executable-p (funcall program)))
            (delete-directory (file-name-directory (funcall program)) t))
        (gemini-companion-cli-edit-stop)))))

;; It ran vi in its terminal, and Emacs pressed Ctrl+G, with which it lists files.
(ert-deftest gemini-companion-cli-edit/llxprt-code-edits-here-by-another-key ()
  (let ((gemini-companion-agent 'llxprt)
        (pressed nil))
    (gemini-companion-cli-edit-test--with "$VISUAL prompt.txt"
      (with-current-buffer (gemini-companion-cli-edit-test--selected)
        (should (equal (buffer-string) "One\nzwei é"))
        (gemini-companion-compose-quit))
      (gemini-companion-cli-edit-test--ended)
      (cl-letf (((symbol-function 'gemini-companion-cli-starting-p) #'ignore)
                ((symbol-function 'gemini-companion-cli-send-key)
                 (lambda (key _) (setq pressed key))))
        (gemini-companion-compose t))
      (should (equal pressed "\C-x")))))

(ert-deftest gemini-companion-cli-edit/the-user-may-want-another-editor ()
  (let ((process-environment (cons "VISUAL=mine" process-environment))
        (gemini-companion-edit-in-emacs nil))
    (gemini-companion-cli-edit-test--with "echo \"<$VISUAL>\""
      (gemini-companion-cli-edit-test--ended)
      (should (string-search "<mine>" (with-current-buffer (window-buffer) (buffer-string))))
      (should-not gemini-companion-cli-edit--server))))

(ert-deftest gemini-companion-cli-edit/without-a-socket-the-cli-has-the-editor-of-the-user ()
  "The name of the directory for temporary files is too long for one."
  (let* ((directory (gemini-companion-test-temp-directory))
         (temporary-file-directory (expand-file-name (concat (make-string 100 ?d) "/") directory))
         (process-environment (cons "VISUAL=mine" process-environment)))
    (make-directory temporary-file-directory)
    (unwind-protect
        (gemini-companion-cli-edit-test--with "echo \"<$VISUAL>\""
          (gemini-companion-cli-edit-test--ended)
          (should (string-search "<mine>" (with-current-buffer (window-buffer) (buffer-string))))
          (should-not (directory-files temporary-file-directory nil "\\`gemini-companion-edit"))
          (should (string-search "cannot be the editor of CLIs"
                                 (car (gemini-companion-log-last 1)))))
      (delete-directory directory t))))

(ert-deftest gemini-companion-cli-edit/without-a-temporary-directory-the-cli-runs ()
  "Emacs was started from a shell whose TMPDIR is deleted at its end."
  (gemini-companion-cli-edit-test--with "echo \"<$VISUAL>\""
    (gemini-companion-cli-edit-stop)
    (gemini-companion-cli-edit-test--ended)
    (let ((kill-buffer-query-functions nil))
      (kill-buffer (window-buffer)))
    (let ((temporary-file-directory (gemini-companion-test-file "gone/"))
          (process-environment (cons "VISUAL=mine" process-environment)))
      (gemini-companion-run)
      (gemini-companion-cli-edit-test--ended)
      (should (string-search "<mine>" (with-current-buffer (window-buffer) (buffer-string)))))))

;;;; Hosts

(defmacro gemini-companion-cli-edit-test--with-host (connection told &rest body)
  "Evaluate BODY with CONNECTION to a host whose keeper is here.
TOLD is what it was told about texts, the last first, lists of number and text."
  (declare (indent 2) (debug (symbolp symbolp body)))
  `(let* ((,connection (gemini-companion-host-connection--make
                        :prefix "/mock:a:" :name "a" :state 'ready :keeper 7))
          (gemini-companion-cli-edit--far nil)
          (gemini-companion-cli-send-history nil)
          (,told nil))
     (cl-letf (((symbol-function 'gemini-companion-host-connection-send)
                (lambda (_ message)
                  (should (equal (alist-get 'do message) 'edited))
                  (push (list (alist-get 'id message) (alist-get 'text message)) ,told))))
       (unwind-protect (save-window-excursion ,@body)
         (dolist (buffer (buffer-list))
           (when (string-prefix-p "*edit " (buffer-name buffer))
             (kill-buffer buffer)))))))

(defun gemini-companion-cli-edit-test--say (connection word id &rest message)
  "Let the keeper of CONNECTION say WORD about the text ID; MESSAGE is a plist."
  (gemini-companion-cli-edit-note-far
   connection `((say . ,word) (id . ,id)
                ,@(cl-loop for (name value) on message by #'cddr
                           collect (cons (intern (substring (symbol-name name) 1)) value)))))

(ert-deftest gemini-companion-cli-edit/a-host-gets-what-the-user-has-made-of-its-text ()
  (gemini-companion-cli-edit-test--with-host connection told
    (gemini-companion-cli-edit-test--say connection "edit" 1
                                         :name "p.txt" :text "-*- eval: (error) -*-\n")
    (switch-to-buffer (gemini-companion-cli-edit-test--buffer))
    (insert "é")
    (gemini-companion-compose-send)
    (should (equal told '((1 "-*- eval: (error) -*-\né"))))
    ;; It may not have arrived.
    (should (equal (car gemini-companion-cli-send-history) "-*- eval: (error) -*-\né"))
    (gemini-companion-cli-edit-test--say connection "edit" 2 :name "p.txt" :text "x")
    (switch-to-buffer (gemini-companion-cli-edit-test--buffer))
    (gemini-companion-compose-quit)
    (should (equal (car told) '(2 nil)))))

(ert-deftest gemini-companion-cli-edit/a-text-for-which-nobody-waits-stays ()
  "The CLI has ended, or the connection was lost, perhaps to come back."
  (dolist (end '(nil lost again))
    (gemini-companion-cli-edit-test--with-host connection told
      (gemini-companion-cli-edit-test--say connection "edit" 1 :name "p.txt" :text "x")
      (with-current-buffer (gemini-companion-cli-edit-test--buffer)
        (insert "the user's"))
      (pcase end
        ('nil (gemini-companion-cli-edit-test--say connection "unedited" 1))
        ('lost (setf (gemini-companion-host-connection-state connection) 'lost))
        (_ (setf (gemini-companion-host-connection-keeper connection) 8)))
      (with-current-buffer (gemini-companion-cli-edit-test--buffer)
        (should-error (gemini-companion-compose-send) :type 'user-error)
        (kill-buffer))
      (should-not told))))

(ert-deftest gemini-companion-cli-edit/a-hostile-host-gets-nothing-but-that ()
  "It has few buffers here, and what it says need make no sense."
  (gemini-companion-cli-edit-test--with-host connection told
    (gemini-companion-cli-edit-test--say connection "edit" 1 :name '(1) :text "x")
    (gemini-companion-cli-edit-test--say connection "edit" 2 :name "p.txt")
    (gemini-companion-cli-edit-test--say connection "edit" 3 :name "p\n.txt" :text "x" :terminal 1)
    (should (equal told '((2 nil) (1 nil))))
    (gemini-companion-test-with-answer nil
      (gemini-companion-cli-edit-test--say connection "edit" 4 :failure "no\nroom")
      (gemini-companion-cli-edit-test--say connection "unedited" 4)
      (should (string-search "edited: no^Jroom; " (car gemini-companion-test-messages))))
    (dotimes (number 100)
      (gemini-companion-cli-edit-test--say connection "edit" (+ 10 number) :name "p.txt" :text "x")
      (when (< number 50)
        (gemini-companion-cli-edit-test--say connection "unedited" (+ 10 number))))
    (should (= 8 (seq-count (lambda (buffer) (string-prefix-p "*edit p" (buffer-name buffer)))
                            (buffer-list))))
    ;; Those of a connection that was lost are not in the way of others.
    (setf (gemini-companion-host-connection-keeper connection) 8)
    (gemini-companion-cli-edit-test--say connection "edit" 200 :name (make-string 1000 ?n) :text "x")
    (should (seq-find (lambda (buffer) (string-match-p "\\`\\*edit n\\{50,60\\}[.…]+\\*\\'"
                                                       (buffer-name buffer)))
                      (buffer-list)))))

(provide 'gemini-companion-cli-edit-test)
;;; gemini-companion-cli-edit-test.el ends here

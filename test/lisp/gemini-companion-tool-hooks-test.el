;;; gemini-companion-tool-hooks-test.el --- Tests of edits that a CLI has made  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'flymake)
(require 'gemini-companion-tool-hooks)
(require 'gemini-companion-history-list)
(require 'gemini-companion-test-lists)
(require 'gemini-companion-test-tools)

(declare-function flycheck-buffer "ext:flycheck" ())
(declare-function flycheck-teardown "ext:flycheck" (&optional ignore-global))
(defvar flycheck-current-errors)
(defvar flycheck-last-status-change)
(defvar flycheck-mode)

(defun gemini-companion-tool-hooks-test--check (report &rest _)
  "Pass the bad words in the current buffer to REPORT, for Flymake."
  (let ((found nil))
    (save-excursion
      (goto-char (point-min))
      (while (re-search-forward "bad[a-z]*" nil t)
        (push (flymake-make-diagnostic (current-buffer) (match-beginning 0) (match-end 0)
                                       :error (match-string 0))
              found)))
    (funcall report found)))

(defun gemini-companion-tool-hooks-test--open (text)
  "Visit a.txt, with TEXT, in a buffer with a checker, and return the buffer."
  (let ((buffer (gemini-companion-test-open "a.txt" text)))
    (with-current-buffer buffer
      (setq-local flymake-diagnostic-functions '(gemini-companion-tool-hooks-test--check))
      (flymake-mode 1)
      (flymake-start))
    buffer))

(defun gemini-companion-tool-hooks-test--edit (before after)
  "Let a client write AFTER to a.txt and tell of it; return the answer.
BEFORE is what it says that was there."
  (let ((file (gemini-companion-test-file "a.txt" after)))
    (set-file-times file (time-add nil 2))
    (gemini-companion-test-call-tool "noteEdit" file "replace" before after)))

(defmacro gemini-companion-tool-hooks-test--with-history (&rest body)
  "Evaluate BODY with tools and an empty history."
  (declare (indent 0) (debug t))
  `(let ((gemini-companion-history--entries nil))
     (gemini-companion-test-with-tools ,@body)))

;;;; Showing what was edited

(defun gemini-companion-tool-hooks-test--follow (name before after)
  "Let a client edit the file NAME from BEFORE to AFTER; return where it is shown.
That is a window, where point is in its buffer, and the number of windows."
  (let ((file (gemini-companion-test-file name after)))
    (set-file-times file (time-add nil 2))
    (gemini-companion-test-call-tool "noteEdit" file "replace" before after)
    (gemini-companion-test-wait "nothing to be shown any more"
                                (lambda () (not gemini-companion-tool-hooks--followed)))
    (let ((window (and (get-buffer name) (get-buffer-window name))))
      (list window
            (and window (with-selected-window window (line-number-at-pos)))
            (length (window-list))))))

(ert-deftest gemini-companion-tool-hooks/the-user-can-follow ()
  "In one window, which is not selected, at the first change."
  (gemini-companion-tool-hooks-test--with-history
    (cl-letf (((symbol-function 'gemini-companion-ui-busy) #'ignore))
      (save-window-excursion
        (delete-other-windows)
        (switch-to-buffer "*scratch*")
        (should (equal (gemini-companion-tool-hooks-test--follow "a.txt" "a\n" "b\n") '(nil nil 1)))
        (let* ((gemini-companion-follow t)
               (selected (selected-window))
               (window (car (gemini-companion-tool-hooks-test--follow
                             "a.txt" "a\nb\n" "a\nb\nc\n"))))
          (should window)
          (should-not (eq window selected))
          (should (equal (gemini-companion-tool-hooks-test--follow "b.txt" nil "a\n")
                         (list window 1 2)))
          (should (equal (gemini-companion-tool-hooks-test--follow
                          "a.txt" "a\nb\nc\n" "a\nx\nc\n")
                         (list window 2 2)))
          (should (equal (with-current-buffer "a.txt" (buffer-string)) "a\nx\nc\n"))
          (should (equal (gemini-companion-tool-hooks-test--follow "a.txt" "a\nx\nc\n" "a\nx\n")
                         (list window 3 2)))
          (should (eq (selected-window) selected))
          ;; What the user looks at stays as it is.
          (select-window window)
          (should (equal (gemini-companion-tool-hooks-test--follow "a.txt" "a\nx\n" "b\nx\n")
                         (list window 3 2)))
          ;; The same text once more is no error.
          (should (equal (gemini-companion-test-call-tool
                          "noteEdit" (gemini-companion-test-file "a.txt") "replace" "a\n" "a\n")
                         ""))
          (gemini-companion-test-wait "nothing to be shown any more"
                                      (lambda () (not gemini-companion-tool-hooks--followed)))
          ;; Also while clients are told nothing.
          (let ((gemini-companion-context-paused t))
            (should (equal (gemini-companion-tool-hooks-test--follow "c.txt" "" "c\n")
                           (list (get-buffer-window "c.txt") 1 2))))
          ;; One text may have line ends and a byte order mark as the file has, the other not.
          (should (equal (gemini-companion-tool-hooks-test--follow
                          "d.txt" "\ufeffa\r\nb\r\nc\r\n" "a\nb\nx\n")
                         (list (get-buffer-window "d.txt") 3 2)))
          ;; Not what the model must not know.
          (make-symbolic-link (executable-find "sh") (gemini-companion-test-file "link"))
          (gemini-companion-test-call-tool
           "noteEdit" (gemini-companion-test-file "link") "replace" "a\n" "b\n")
          (gemini-companion-test-wait "nothing to be shown any more"
                                      (lambda () (not gemini-companion-tool-hooks--followed)))
          (should-not (get-buffer "link"))
          (gemini-companion-test-file ".env" "one\n")
          (ignore-errors
            (gemini-companion-tool-hooks-test--follow ".env" "" "one\n"))
          (should-not (get-buffer ".env")))))))

;;;; Buffers of what was edited

(ert-deftest gemini-companion-tool-hooks/a-buffer-shows-what-was-edited-without-a-question ()
  "Also where no checker looks, unless a command holds positions in it."
  (gemini-companion-tool-hooks-test--with-history
    (save-window-excursion
      (switch-to-buffer (gemini-companion-test-open "a.txt" "one\n"))
      (gemini-companion-tool-hooks-test--edit "one\n" "two\n")
      (should (equal (buffer-string) "two\n"))
      (should (verify-visited-file-modtime))
      (let ((this-command 'query-replace))
        (gemini-companion-tool-hooks-test--edit "two\n" "three\n")
        (should (equal (buffer-string) "two\n"))))))

;;;; The selected window

(ert-deftest gemini-companion-tool-hooks/point-stays-on-its-line-whatever-was-edited ()
  "Also if Emacs replaces all of the text, or a list in the selected window."
  (gemini-companion-tool-hooks-test--with-history
    (save-window-excursion
      (switch-to-buffer (gemini-companion-tool-hooks-test--open "1\n2\n3\n4\n"))
      (pcase-dolist (`(,compared ,after) '((100 "a\n2\n3\n4\n") (0 "q\nr\ns\nt\n")))
        (let ((gemini-companion-heavy--max-compared compared)
              (before (buffer-string)))
          (goto-char (point-min))
          (forward-line 2)
          (gemini-companion-tool-hooks-test--edit before after)
          (should (equal (buffer-string) after))
          (should (= (line-number-at-pos) 3))))
      (gemini-companion-history-list)
      (let ((entry (tabulated-list-get-id)))
        (should entry)
        (gemini-companion-tool-hooks-test--edit "q\nr\ns\nt\n" "1\n")
        (should (length= (gemini-companion-history-all) 3))
        (should (eq (tabulated-list-get-id) entry))))))

;;;; Diagnostics

(ert-deftest gemini-companion-tool-hooks/the-model-is-told-what-is-new ()
  (gemini-companion-tool-hooks-test--with-history
    (with-current-buffer (gemini-companion-tool-hooks-test--open "one\nbadone\n")
      (should (equal (gemini-companion-tool-hooks-test--edit "one\nbadone\n" "new\none\nbadone\n") ""))
      (should (equal (buffer-string) "new\none\nbadone\n"))
      (should (equal (gemini-companion-tool-hooks-test--edit "" "new\none badtwo\nbadone\n")
                     "New in the editor's diagnostics since this edit:\n2:5: error: badtwo"))
      ;; What it was told of is not new any more, but a second one of the kind is.
      (should (equal (gemini-companion-tool-hooks-test--edit "" "badtwo\nbadtwo\nbadone\n")
                     "New in the editor's diagnostics since this edit:\n2:1: error: badtwo"))
      (should (equal (gemini-companion-tool-hooks-test--edit "" "good\n") "")))))

(ert-deftest gemini-companion-tool-hooks/emacs-may-take-the-edit-first ()
  (dolist (take (list (lambda () (revert-buffer t t t))
                      (lambda () (gemini-companion-write-revert-now buffer-file-name))))
    (gemini-companion-tool-hooks-test--with-history
      (gemini-companion-test-call-tool "noteEvent" "prompt" "conversation" nil default-directory)
      (with-current-buffer (gemini-companion-tool-hooks-test--open "badone\n")
        (let ((file (gemini-companion-test-file "a.txt" "badone badtwo\n")))
          (set-file-times file (time-add nil 2))
          (funcall take)
          (flymake-start)
          (should (equal (gemini-companion-test-call-tool "noteEdit" file "replace" "badone\n"
                                                          "badone badtwo\n")
                         "New in the editor's diagnostics since this edit:\n1:8: error: badtwo")))))))

(ert-deftest gemini-companion-tool-hooks/nothing-is-called-new-where-nothing-was-checked ()
  "Flymake does not check a buffer that was never on screen."
  (gemini-companion-tool-hooks-test--with-history
    (gemini-companion-test-call-tool "noteEvent" "prompt" "conversation" nil default-directory)
    (with-current-buffer (gemini-companion-test-open "a.txt" "badone\n")
      (setq-local flymake-diagnostic-functions '(gemini-companion-tool-hooks-test--check))
      (flymake-mode 1)
      (should (equal (gemini-companion-tool-hooks-test--edit "badone\n" "badone\nbadtwo\n")
                     "The editor's diagnostics, old and new ones:
1:1: error: badone
2:1: error: badtwo"))
      ;; It knows the next time.
      (should (equal (gemini-companion-tool-hooks-test--edit "" "badone\nbadtwo\nbadnew\n")
                     "New in the editor's diagnostics since this edit:\n3:1: error: badnew")))))

(ert-deftest gemini-companion-tool-hooks/what-flycheck-has-found-before-is-not-new ()
  "It forgets that when the buffer is reverted, before our hook runs."
  (gemini-companion-tool-hooks-test--with-history
    (gemini-companion-test-call-tool "noteEvent" "prompt" "conversation" nil default-directory)
    (with-current-buffer (gemini-companion-test-open "a.txt" "badone\n")
      (defalias 'flycheck-teardown (lambda (&rest _) (setq flycheck-current-errors nil)))
      (add-hook 'before-revert-hook #'flycheck-teardown nil t)
      (setq-local flycheck-mode t
                  flycheck-last-status-change 'finished
                  flycheck-current-errors nil)
      (gemini-companion-test-with-flycheck
          (lambda ()
            (setq flycheck-current-errors
                  (save-excursion
                    (goto-char (point-min))
                    (cl-loop while (re-search-forward "bad[a-z]+" nil t)
                             collect (list nil nil 'error (match-string 0))))))
        (unwind-protect
            (progn
              (flycheck-buffer)
              (should (equal (gemini-companion-tool-hooks-test--edit
                              "badone\n" "badone\nbadtwo\n")
                             "New in the editor's diagnostics since this edit:
1:1: error: badtwo")))
          (fmakunbound 'flycheck-teardown))))))

(ert-deftest gemini-companion-tool-hooks/what-a-cli-has-changed-is-shown ()
  "After a command of it, and, as no hook tells of /rewind or a command of the
user, before a prompt and at the end of a turn."
  (dolist (event '("ran" "prompt" "done"))
    (ert-info (event)
      (gemini-companion-tool-hooks-test--with-history
        (let ((buffers (mapcar (lambda (name) (gemini-companion-test-open name "old\n"))
                               '("a.txt" "sub/b.txt" "edited.txt"))))
          (with-current-buffer (nth 2 buffers) (insert "mine "))
          (dolist (buffer buffers)
            (let ((file (buffer-file-name buffer)))
              (gemini-companion-test-write file "new\n")
              (set-file-times file (time-add nil 2))))
          (gemini-companion-test-call-tool "noteEvent" event "conversation" nil
                                           (file-truename default-directory))
          (should (equal (mapcar (lambda (buffer) (with-current-buffer buffer (buffer-string)))
                                 buffers)
                         '("new\n" "new\n" "mine old\n"))))))))

(ert-deftest gemini-companion-tool-hooks/a-cli-in-the-root-directory-asks-no-host ()
  (gemini-companion-test-with-tools
    (with-temp-buffer
      (let ((buffer-file-name "/ssh:nowhere.invalid:/a.txt")
            (buffer-file-truename "/ssh:nowhere.invalid:/a.txt"))
        (cl-letf* ((buffer (current-buffer))
                   ((symbol-function 'verify-visited-file-modtime)
                    (lambda (it) (should-not (eq it buffer)))))
          (gemini-companion-tool-hooks--refresh-buffers "/"))))))

(ert-deftest gemini-companion-tool-hooks/a-script-takes-no-comments ()
  "Such as a Git hook that runs gemini -p, or git diff | gemini, to write a message."
  (gemini-companion-test-with-tools
    (cl-letf (((symbol-function 'gemini-companion-comment-add-to-prompt)
               (lambda (&rest _) "1 comment")))
      (pcase-dolist (`(,arguments ,answer . ,process-connection-type)
                     '((() "1 comment" . t) (("-i" "how does grep -p work") "1 comment" . t)
                       (("-p" "hello") "" . t) (("--prompt=hello") "" . t)
                       ;; An editor that speaks ACP passes on what its user writes.
                       (("hello") "") (("--acp") "1 comment")))
        (let ((process (apply #'start-process "cli" nil
                              "sh" "-c" "echo; read line" "gemini" arguments)))
          ;; It has printed a line, so it has these arguments.
          (should (accept-process-output process 10))
          (should (equal (gemini-companion-test-call-tool
                          "noteEvent" "prompt" "conversation" (process-id process)
                          (file-truename default-directory) "hello")
                         answer))
          (delete-process process))))))

(ert-deftest gemini-companion-tool-hooks/an-edit-in-another-project-is-shown-but-not-recorded ()
  "The CLI may work in several directories, but Emacs tells it only of one."
  (gemini-companion-tool-hooks-test--with-history
    (let ((buffer (gemini-companion-test-open "a.txt" "old\n")))
      (cl-letf (((symbol-function 'gemini-companion-tool-secret-p) #'always))
        (should (string-search "is withheld"
                               (car (gemini-companion-tool-hooks-test--edit "old\n" "new\n")))))
      (should (equal (with-current-buffer buffer (buffer-string)) "new\n"))
      (should-not (gemini-companion-history-all)))))

(ert-deftest gemini-companion-tool-hooks/off-leaves-no-hook ()
  (let ((ours (lambda ()
                (seq-filter (lambda (it)
                              (and (symbolp it)
                                   (string-prefix-p "gemini-companion-" (symbol-name it))))
                            (default-value 'before-revert-hook)))))
    (gemini-companion-tool-hooks-test--with-history
      (gemini-companion-test-call-tool "noteEvent" "prompt" "conversation" nil default-directory)
      (should (memq #'gemini-companion-tool-hooks--note-diagnostics (funcall ours)))
      (gemini-companion-mode -1)
      (should-not (funcall ours))
      (should-not (advice-member-p #'gemini-companion-tool-hooks--note-diagnostics
                                   'flycheck-teardown)))))

(ert-deftest gemini-companion-tool-hooks/an-old-snapshot-gives-way-to-a-new-one ()
  "An edit that nobody reported has left it."
  (gemini-companion-tool-hooks-test--with-history
    (with-current-buffer (gemini-companion-tool-hooks-test--open "badone\n")
      (dolist (age '(100 -100))
        (let ((time (- (float-time) age)))
          (setq gemini-companion-tool-hooks--before (list time))
          (gemini-companion-tool-hooks--note-diagnostics)
          (should-not (equal (car gemini-companion-tool-hooks--before) time))
          (should (equal (mapcar #'cddr (cdr gemini-companion-tool-hooks--before))
                         '(("error" "badone"))))))
      (let ((kept (list (- (float-time) 10))))
        (setq gemini-companion-tool-hooks--before kept)
        (gemini-companion-tool-hooks--note-diagnostics)
        (should (eq gemini-companion-tool-hooks--before kept))))))

(ert-deftest gemini-companion-tool-hooks/few-words-are-told ()
  (gemini-companion-tool-hooks-test--with-history
    (with-current-buffer (gemini-companion-tool-hooks-test--open "good\n")
      (let ((answer (gemini-companion-tool-hooks-test--edit
                     "" (mapconcat (lambda (n) (make-string n ?x))
                                   (number-sequence 1 3) "\n"))))
        (should (equal answer "")))
      (let ((answer (gemini-companion-tool-hooks-test--edit
                     "" (mapconcat (lambda (n) (concat "bad" (make-string n ?a)))
                                   (number-sequence 1 15) "\n"))))
        (should (= 12 (length (split-string answer "\n"))))
        (should (string-suffix-p "(5 more)" answer))))))

(ert-deftest gemini-companion-tool-hooks/nothing-is-told-of-other-buffers ()
  (gemini-companion-tool-hooks-test--with-history
    ;; It is not open.
    (should (equal (gemini-companion-tool-hooks-test--edit "" "bad\n") ""))
    (with-current-buffer (gemini-companion-tool-hooks-test--open "one\n")
      ;; The user's edits are not those of the client.
      (insert "mine")
      (should (equal (gemini-companion-tool-hooks-test--edit "" "bad\n") ""))
      (should (equal (buffer-string) "mineone\n"))
      (set-buffer-modified-p nil)
      (gemini-companion-write-revert-now buffer-file-name)
      (flymake-mode -1)
      (should (equal (gemini-companion-tool-hooks-test--edit "" "bad bad\n") "")))))

(ert-deftest gemini-companion-tool-hooks/nothing-is-told-of-withheld-files ()
  (gemini-companion-tool-hooks-test--with-history
    (with-current-buffer (gemini-companion-tool-hooks-test--open "one\n")
      (setq-local gemini-companion-private t)
      (should (consp (gemini-companion-tool-hooks-test--edit "one\n" "bad\n")))
      (should-not (gemini-companion-history-all)))))

;;;; The history

(defun gemini-companion-tool-hooks-test--entry ()
  "Return the only entry of the history as (CLIENT OUTCOME BEFORE AFTER)."
  (let ((entries (gemini-companion-history-all)))
    (should (= 1 (length entries)))
    (list (gemini-companion-history-client (car entries))
          (gemini-companion-history-outcome (car entries))
          (gemini-companion-history-before (car entries))
          (gemini-companion-history-after (car entries)))))

(ert-deftest gemini-companion-tool-hooks/an-edit-without-a-review-can-be-undone ()
  (gemini-companion-tool-hooks-test--with-history
    (let ((file (gemini-companion-test-file "a.txt")))
      ;; Clients read any line ends as LF.
      (gemini-companion-test-write file "two\r\nä\r\n")
      (gemini-companion-test-call-tool "noteEdit" file "write_file" "one\nä\n" "two\nä\n")
      (should (equal (gemini-companion-tool-hooks-test--entry)
                     `("Gemini CLI, write_file" unreviewed
                       ,(encode-coding-string "one\r\nä\r\n" 'utf-8) "two\nä\n")))
      (let ((entry (car (gemini-companion-history-all))))
        (cl-letf (((symbol-function 'y-or-n-p) #'always))
          (gemini-companion-history-list-undo entry)
          (should (equal (gemini-companion-file-read file)
                         (encode-coding-string "one\r\nä\r\n" 'utf-8)))
          (gemini-companion-history-list-undo entry)
          (should (equal (gemini-companion-file-read file)
                         (encode-coding-string "two\r\nä\r\n" 'utf-8))))))))

(ert-deftest gemini-companion-tool-hooks/an-undo-writes-crlf-also-in-a-text-with-a-cr-alone ()
  (gemini-companion-tool-hooks-test--with-history
    (let ((file (gemini-companion-test-file "a.csv" "1;\"a\rb\"\r\nthree\r\n")))
      (gemini-companion-test-call-tool
       "noteEdit" file "replace" "1;\"a\rb\"\n3\n" "1;\"a\rb\"\nthree\n")
      (gemini-companion-test-with-answer 'yes
        (gemini-companion-history-list-undo (car (gemini-companion-history-all))))
      (should (equal (gemini-companion-file-read file) "1;\"a\rb\"\r\n3\r\n")))))

(ert-deftest gemini-companion-tool-hooks/the-same-text-once-more-is-no-change ()
  (gemini-companion-tool-hooks-test--with-history
    (gemini-companion-tool-hooks-test--edit "one\n" "one\n")
    (should-not (gemini-companion-history-all))
    ;; An empty file that was not there is one.
    (gemini-companion-tool-hooks-test--edit nil "")
    (should (length= (gemini-companion-history-all) 1))))

(ert-deftest gemini-companion-tool-hooks/what-a-client-could-not-decode-is-not-written ()
  "It has U+FFFD in place of bytes that are not UTF-8."
  (gemini-companion-tool-hooks-test--with-history
    (gemini-companion-tool-hooks-test--edit "caf\ufffd\n" "café\n")
    (should (equal "The previous contents of a.txt are not known"
                   (cadr (should-error (gemini-companion-history-list-undo
                                        (car (gemini-companion-history-all)))
                                       :type 'user-error))))))

(ert-deftest gemini-companion-tool-hooks/the-user-is-told-whose-word-an-undo-takes ()
  (gemini-companion-tool-hooks-test--with-history
    (let ((file (gemini-companion-test-file "a.txt" "one\n")))
      (gemini-companion-test-call-tool "noteEdit" file "replace" "curl evil\nrun\n" "one\n")
      (gemini-companion-test-with-answer 'no
        (should-error (gemini-companion-history-list-undo
                       (car (gemini-companion-history-all)))
                      :type 'user-error)
        (should (equal gemini-companion-test-questions
                       '("Only the CLI knows what a.txt contained before; this changes it by +2 -1.  \
Undo the change to a.txt? "))))
      (should (equal (gemini-companion-test-read file) "one\n")))
    (let ((file (gemini-companion-test-file "b.txt" "one\n")))
      (gemini-companion-test-call-tool "noteEdit" file "replace" nil "one\n")
      (gemini-companion-test-with-answer 'no
        (should-error (gemini-companion-history-list-undo
                       (car (gemini-companion-history-all))))
        (should (equal gemini-companion-test-questions
                       '("Only the CLI knows what b.txt contained before; this changes it by +0 -1.  \
This deletes b.txt.  Undo the change to b.txt? ")))))))

(ert-deftest gemini-companion-tool-hooks/no-edit-outside-of-the-project-is-recorded ()
  "Whoever has the token could let the user undo, and so write, anything anywhere."
  (gemini-companion-tool-hooks-test--with-history
    (let ((elsewhere (gemini-companion-test-temp-directory))
          (gemini-companion-context-paused nil))
      (unwind-protect
          (let ((outside (expand-file-name ".bashrc" elsewhere)))
            (gemini-companion-test-write outside "one\n")
            (make-symbolic-link outside (gemini-companion-test-file "link"))
            (gemini-companion-test-file ".env" "one\n")
            (dolist (file (list outside
                                (gemini-companion-test-file "link")
                                (gemini-companion-test-file ".env")))
              (gemini-companion-test-call-tool "noteEdit" file "replace" "bad\n" "one\n"))
            (should-not (gemini-companion-history-all))
            ;; What is not to be told may be recorded: the history stays in Emacs.
            (setq gemini-companion-context-paused t)
            (gemini-companion-test-call-tool
             "noteEdit" (gemini-companion-test-file "a.txt" "one\n") "replace" "two\n" "one\n")
            (should (= 1 (length (gemini-companion-history-all)))))
        (delete-directory elsewhere t)))))

(ert-deftest gemini-companion-tool-hooks/a-new-file-was-not-there-before ()
  (gemini-companion-tool-hooks-test--with-history
    (gemini-companion-tool-hooks-test--edit nil "new\n")
    (should (equal (cdr (gemini-companion-tool-hooks-test--entry)) '(unreviewed nil "new\n")))))

(ert-deftest gemini-companion-tool-hooks/what-was-decided-in-emacs-is-there-once ()
  (gemini-companion-tool-hooks-test--with-history
    (let ((file (gemini-companion-test-file "a.txt")))
      (gemini-companion-history-add :client "x" :path file :outcome 'accepted
                                    :before "one\n" :after "two\n")
      (gemini-companion-tool-hooks-test--edit "one\n" "two\n")
      (should (eq 'accepted (nth 1 (gemini-companion-tool-hooks-test--entry))))
      ;; The next edit of it is another one, however often it is told.
      (dotimes (_ 2)
        (gemini-companion-tool-hooks-test--edit "two\n" "three\n"))
      (should (equal (mapcar #'gemini-companion-history-outcome (gemini-companion-history-all))
                     '(unreviewed accepted))))))

(ert-deftest gemini-companion-tool-hooks/what-is-written-late-is-there-once ()
  "As by a CLI that was suspended when the user accepted."
  (gemini-companion-tool-hooks-test--with-history
    (gemini-companion-history-add :client "x" :path (gemini-companion-test-file "a.txt")
                                  :outcome 'unwritten :before "one\n" :after "two\n")
    (gemini-companion-history-list)
    (gemini-companion-tool-hooks-test--edit "one\n" "two\n")
    (should (equal (gemini-companion-test-list-column "*gemini history*" 1) '("accepted")))))

(ert-deftest gemini-companion-tool-hooks/an-edit-of-the-users-in-between-can-be-restored ()
  "The client has written over it what it had written before."
  (gemini-companion-tool-hooks-test--with-history
    (gemini-companion-tool-hooks-test--edit "one\n" "two\n")
    (gemini-companion-test-file "a.txt" "mine\n")
    (gemini-companion-tool-hooks-test--edit "mine\n" "two\n")
    (should (equal (mapcar #'gemini-companion-history-before (gemini-companion-history-all))
                   '("mine\n" "one\n")))))

(ert-deftest gemini-companion-tool-hooks/only-what-the-file-contains-is-recorded ()
  (gemini-companion-tool-hooks-test--with-history
    (let ((file (gemini-companion-test-file "a.txt" "real\n")))
      (dolist (path (list file (concat "/ssh:nowhere.invalid:" file) "/no/such/file" "a.txt"))
        (gemini-companion-test-call-tool "noteEdit" path "replace" "before\n" "claimed\n"))
      (gemini-companion-test-call-tool "noteEdit" file "replace" "before\n" nil)
      (should-not (gemini-companion-history-all)))))

(ert-deftest gemini-companion-tool-hooks/a-hook-that-waits-sees-that-emacs-lives ()
  (gemini-companion-test-with-tools
    (should (equal (gemini-companion-test-call-tool
                    "noteEdit" (directory-file-name gemini-companion-test-project) "")
                   ""))))

;;; gemini-companion-tool-hooks-test.el ends here

;;; gemini-companion-cli-compose-test.el --- Tests of rejections with a reason  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-compose)
(require 'gemini-companion-review-list)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-cli-compose-test--with (client answer &rest body)
  "Evaluate BODY with CLIENT connected and an empty kill ring.
The form ANSWER is evaluated when Emacs asks for the reason."
  (declare (indent 2) (debug (symbolp form body)))
  `(gemini-companion-test-with-client ,client
     (let ((kill-ring nil))
       (cl-letf (((symbol-function 'read-string) (lambda (&rest _) ,answer)))
         (gemini-companion-test-with-answer nil ,@body)))))

;; Of 13 lines, the file had one, without its mode line.
(ert-deftest gemini-companion-cli-compose/the-window-leaves-lines-to-the-file ()
  (save-window-excursion
    (dolist (height '(10 13 18))
      (delete-other-windows)
      (split-window nil height)
      (let ((file (selected-window)))
        (gemini-companion-cli-compose-show (get-buffer-create " *a prompt*"))
        (should (<= (min 12 (- height window-min-height)) (window-total-height) 12))
        (should (>= (window-total-height file) window-min-height))))
    (kill-buffer " *a prompt*")))

(ert-deftest gemini-companion-cli-compose/leaving-emacs-offers-to-save-a-prompt ()
  (dolist (text '("do it" ""))
    (with-current-buffer (get-buffer-create "*a prompt*")
      (gemini-companion-compose-mode)
      (insert text)
      (let ((questions nil))
        (cl-letf (((symbol-function 'map-y-or-n-p)
                   (lambda (ask _ buffers &rest _)
                     (setq questions (delq nil (mapcar ask buffers)))
                     0)))
          (save-some-buffers nil t))
        (should (equal questions
                       (unless (string-empty-p text) '("Save buffer *a prompt*? ")))))
      (set-buffer-modified-p nil)
      (kill-buffer))))

(ert-deftest gemini-companion-cli-compose/for-a-client-elsewhere-it-is-in-the-kill-ring ()
  (gemini-companion-cli-compose-test--with client " use tabs "
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (gemini-companion-review-show review 'keep)
      (let ((current-prefix-arg '(4))
            (last-command 'kill-region))
        (call-interactively #'gemini-companion-reject)
        ;; The user's next kill is not appended to it.
        (should-not (eq last-command 'kill-region)))
      (should (equal (gemini-companion-review-reason review) "rejected"))
      (fake-cli-wait-notification client "ide/diffRejected")
      (should (equal kill-ring '("use tabs")))
      (should (equal (car gemini-companion-test-messages)
                     "a.txt: rejected.  What you wrote is in the kill ring: \
yank it into Gemini CLI")))))

(ert-deftest gemini-companion-cli-compose/without-a-reason-the-change-is-just-rejected ()
  (gemini-companion-cli-compose-test--with client "  "
    (gemini-companion-cli-compose-reject (gemini-companion-test-propose client "a.txt" "2\n"))
    (fake-cli-wait-notification client "ide/diffRejected")
    (should-not kill-ring)))

(ert-deftest gemini-companion-cli-compose/quitting-does-not-reject ()
  (gemini-companion-cli-compose-test--with client (signal 'quit nil)
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (should (eq (condition-case nil (gemini-companion-cli-compose-reject review) (quit 'quit))
                  'quit))
      (should (gemini-companion-review-open-p review)))))

(ert-deftest gemini-companion-cli-compose/it-is-kept-if-the-change-ends-first ()
  "The client decides while the user types; Emacs receives it before or after."
  (gemini-companion-cli-compose-test--with client
      (progn (fake-cli-call-tool client "closeDiff"
                                 (list :filePath (gemini-companion-test-file "a.txt")
                                       :suppressNotification t))
             "use tabs")
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (should (equal (cadr (should-error (gemini-companion-cli-compose-reject review)
                                         :type 'user-error))
                     "a.txt: decided in Gemini CLI; the reason is in the kill ring"))
      (should (equal kill-ring '("use tabs")))))
  (gemini-companion-cli-compose-test--with client
      (progn (gemini-companion-bridge-reject
              (gemini-companion-review-id (car (gemini-companion-review-all-open))))
             "use tabs")
    (gemini-companion-cli-compose-reject (gemini-companion-test-propose client "a.txt" "2\n"))
    (should (equal kill-ring '("use tabs")))))

(ert-deftest gemini-companion-cli-compose/it-can-be-given-in-the-list ()
  (gemini-companion-cli-compose-test--with client "use tabs"
    (gemini-companion-test-propose client "a.txt" "2\n")
    (gemini-companion-review-list)
    (let ((current-prefix-arg '(4)))
      (call-interactively (key-binding "r")))
    (should (equal kill-ring '("use tabs")))))

(ert-deftest gemini-companion-cli-compose/it-goes-to-the-terminal-of-the-client ()
  "It is found by the client's process, or by its agent and the file's project."
  (gemini-companion-test-with-project
    (let* ((buffers (mapcar (lambda (name)
                              (let ((buffer (generate-new-buffer name)))
                                (make-process :name name :buffer buffer :noquery t
                                              :command '("sleep" "100") :sentinel #'ignore)
                                buffer))
                            '("outer" "inner" "other")))
           (directories '("" "sub/" "sub/"))
           (outer (process-id (get-process "outer")))
           (gemini-companion-cli--all nil)
           (review (gemini-companion-review-make
                    :agent 'gemini :path (gemini-companion-test-file "sub/a.txt"))))
      (cl-mapc (lambda (buffer agent)
                 (with-current-buffer buffer
                   (setq gemini-companion-cli-run-agent agent)))
               buffers '(gemini gemini qwen))
      (gemini-companion-cli--add 'gemini outer)
      (unwind-protect
          (cl-letf (((symbol-function 'gemini-companion-cli-run-terminals)
                     (lambda ()
                       (cl-mapcar (lambda (buffer directory)
                                    (cons buffer (gemini-companion-test-file directory)))
                                  buffers directories))))
            (pcase-dolist (`(,agent ,process ,name)
                           `((gemini nil "inner")
                             (qwen nil "other")
                             (gemini ,outer "outer")
                             (gemini ,(emacs-pid) nil)))
              (setf (gemini-companion-review-agent review) agent
                    (gemini-companion-review-process review) process)
              (let ((terminal (gemini-companion-cli-run-terminal-of review)))
                (should (equal (and terminal (process-name (get-buffer-process terminal)))
                               name))))
            ;; One in a container does not run in a terminal in which another is known to run.
            (gemini-companion-cli--add 'gemini (process-id (get-process "inner"))
                                       (get-buffer "inner"))
            (setf (gemini-companion-cli-terminal (gemini-companion-cli-of-process outer))
                  (get-buffer "outer")
                  (gemini-companion-review-agent review) 'gemini
                  (gemini-companion-review-process review) "/docker:c1:77")
            (should-not (gemini-companion-cli-run-terminal-of review)))
        (dolist (buffer buffers)
          (delete-process (get-buffer-process buffer)))))))

(ert-deftest gemini-companion-cli-compose/a-prompt-is-for-one-cli-whatever-its-terminal-is-called ()
  "But once that has ended, for the next one."
  (gemini-companion-test-with-project
    (let* ((run (lambda (name)
                  (let ((buffer (generate-new-buffer name)))
                    (set-process-query-on-exit-flag (start-process "cat" buffer "cat") nil)
                    buffer)))
           (compose (lambda (terminal)
                      (gemini-companion-cli-compose--new terminal)
                      (should (eq gemini-companion-cli-compose-terminal terminal))
                      (buffer-string)))
           (one (funcall run "*gemini: app*"))
           (other (funcall run "*gemini: app*")))
      (should (equal (funcall compose one) ""))
      (insert "for one")
      (with-current-buffer one (rename-buffer "mine"))
      (with-current-buffer other (rename-buffer "*gemini: app*"))
      (should (equal (funcall compose other) ""))
      (insert "for other")
      (should (equal (funcall compose one) "for one"))
      (kill-buffer one)
      (kill-buffer other)
      (should (equal (funcall compose (funcall run "*gemini: app*")) "for one")))))

(ert-deftest gemini-companion-cli-compose/a-hook-that-fails-does-not-hide-the-cli ()
  "The user sees the error, and goes on."
  (gemini-companion-test-with-project
    (let ((text-mode-hook (list (lambda () (error "Not today"))))
          (terminal (current-buffer)))
      (should-error (gemini-companion-cli-compose--new terminal))
      (should (eq (buffer-local-value 'gemini-companion-cli-compose-terminal (window-buffer))
                  terminal)))))

(ert-deftest gemini-companion-cli-compose/the-keys-fit-in-a-terminal-of-80-columns ()
  (with-temp-buffer
    (gemini-companion-compose-mode)
    (dolist (gemini-companion-cli-compose-finish-function (list nil #'ignore))
      (let ((header (eval (cadr header-line-format) t)))
        (should (string-match-p "C-c C-c .*C-c C-k .*M-p " header))
        (should (<= (string-width header) 80))))))

(ert-deftest gemini-companion-cli-compose/it-is-no-command-of-the-cli ()
  (let ((sent nil))
    (cl-letf (((symbol-function 'gemini-companion-cli-send-at-rest)
               (lambda (text &rest _) (push text sent)))
              ((symbol-function 'gemini-companion-cli-run-terminal-of)
               (lambda (_) (current-buffer)))
              (inhibit-message t))
      (dolist (reason '("/usr is wrong" "use /opt"))
        (gemini-companion-cli-compose--send
         (gemini-companion-review-make :agent 'gemini :path "/a.txt" :text "") reason t)))
    (should (equal sent '("use /opt" "Reason: /usr is wrong")))))

(ert-deftest gemini-companion-cli-compose/where-it-is-hides-not-behind-the-decision ()
  "Both are told once the user, who is in the minibuffer, can see them."
  (let ((review (gemini-companion-review-make :agent 'gemini :path "/a.txt" :text ""))
        (gemini-companion-ui--messages nil)
        (kill-ring nil)
        (asked t))
    (cl-letf (((symbol-function 'gemini-companion-ui-key-expected) (lambda () asked)))
      (setf (gemini-companion-review-reason review) "decided in Gemini CLI")
      (gemini-companion-cli-compose-send-comments review 'withdrawn "a.txt:1: why?")
      (setf (gemini-companion-review-reason review) "rejected in Gemini CLI")
      (gemini-companion-review-announce-ending review)
      (setq asked nil)
      (gemini-companion-test-with-answer nil
        (gemini-companion-ui--show-messages)
        (should (string-match-p
                 "What you wrote is in the kill ring.*; a\\.txt: rejected in Gemini CLI"
                 (car gemini-companion-test-messages)))))))

(ert-deftest gemini-companion-cli-compose/where-it-is-stays-on-screen ()
  "What became of the change does not take the place of that."
  (pcase-dolist
      (`(,end ,outcome ,time)
       '(("closeDiff" accepted-there 60) ("closeDiff" rejected-there 0.1) ("openDiff" withdrawn 0.1)))
    (let ((gemini-companion-write--decision-time time))
      (gemini-companion-cli-compose-test--with client nil
        (let* ((file (gemini-companion-test-file "b.txt" "one\n"))
               (review (gemini-companion-test-propose client "b.txt" "2\n")))
          (gemini-companion-review-show review 'keep)
          (gemini-companion-comment-add (gemini-companion-review-proposal review) 1 1 "why?" nil)
          (fake-cli-call-tool client end (list :filePath file :newContent "3\n"))
          (when (eq outcome 'accepted-there)
            (gemini-companion-test-file "b.txt" "2\n"))
          (gemini-companion-test-wait
           "the outcome"
           (lambda () (when-let* ((entry (gemini-companion-review-entry review)))
                        (eq (gemini-companion-history-outcome entry) outcome))))
          (should (equal kill-ring '("Comments on the change to b.txt:\nb.txt:1 `2`: why?")))
          (should (string-match-p "What you wrote is in the kill ring"
                                  (seq-find (lambda (it) (string-prefix-p "b.txt:" it))
                                            gemini-companion-test-messages))))))))

(ert-deftest gemini-companion-cli-compose/other-buffers-stay ()
  "M-x offers the commands everywhere."
  (let ((gemini-companion-cli-send-history '("earlier")))
    (with-temp-buffer
      (insert "mine")
      (dolist (command (list #'gemini-companion-compose-send #'gemini-companion-compose-quit
                             #'gemini-companion-compose-previous #'gemini-companion-compose-next))
        (should (string-prefix-p "This buffer is not for a prompt"
                                 (cadr (should-error (call-interactively command)
                                                     :type 'user-error))))
        (should (equal (buffer-string) "mine"))))))

;;; gemini-companion-cli-compose-test.el ends here

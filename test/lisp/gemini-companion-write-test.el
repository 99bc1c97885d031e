;;; gemini-companion-write-test.el --- Tests of accepts sent without the text  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-companion)
(require 'gemini-companion-test-lists)

(defmacro gemini-companion-write-test--with (client &rest body)
  "Evaluate BODY with CLIENT, to which an unedited proposal is not sent back.
Checks of whether it writes the text have short time-outs."
  (declare (indent 1) (debug (symbolp body)))
  `(let ((gemini-companion-accept-without-text 'always)
         (gemini-companion-write--poll-interval 0.02)
         (gemini-companion-write--decision-time 0.1)
         (gemini-companion-write--text-time 0.1)
         (gemini-companion-history--entries nil))
     (gemini-companion-test-with-client ,client
       (with-current-buffer (gemini-companion-log--buffer)
         (let ((inhibit-read-only t)) (erase-buffer)))
       ;; No buffer visits the file.
       (gemini-companion-test-file "b.txt" "one\ntwo\n")
       ,@body)))

(defun gemini-companion-write-test--accept (client text &optional edited)
  "Have CLIENT propose TEXT for b.txt and accept it; with EDITED, accept that text.
Return the content that CLIENT receives."
  (let ((review (gemini-companion-test-propose client "b.txt" text)))
    (gemini-companion-review-show review 'select)
    (when edited
      (gemini-companion-write-test--edit review edited))
    (gemini-companion-accept)
    (alist-get 'content (fake-cli-wait-notification client "ide/diffAccepted"))))

(defun gemini-companion-write-test--edit (review text)
  "Change the proposal of REVIEW, which is on screen, to TEXT."
  (with-current-buffer (gemini-companion-review-proposal review)
    (erase-buffer)
    (insert text)))

(defun gemini-companion-write-test--close (client text &optional edited)
  "Have CLIENT propose TEXT for b.txt and close the review; return the answer.
If EDITED is non-nil, the user has changed the text to that before."
  (let ((review (gemini-companion-test-propose client "b.txt" text)))
    (when edited
      (gemini-companion-review-show review 'select)
      (gemini-companion-write-test--edit review edited)))
  (fake-cli-result-text
   (fake-cli-call-tool client "closeDiff"
                       (list :filePath (gemini-companion-test-file "b.txt")
                             :suppressNotification t))))

(defun gemini-companion-write-test--wait-message (regexp function)
  "Call FUNCTION and wait for a message that matches REGEXP."
  (let (messages)
    (cl-letf (((symbol-function 'message)
               (lambda (format &rest arguments)
                 (when format
                   (push (apply #'format-message format arguments) messages)))))
      (funcall function)
      (gemini-companion-test-wait
       (lambda () (format "the message %S; there were %S" regexp messages))
       (lambda () (seq-some (lambda (text) (string-match-p regexp text)) messages))))))

(defun gemini-companion-write-test--wait-log (line)
  "Wait until a line of the log ends with LINE."
  (gemini-companion-test-wait
   (format "%S in the log" line)
   (lambda () (seq-some (lambda (it) (string-suffix-p line it))
                        (gemini-companion-log-last 10)))))

;;;; Omitting the text

(ert-deftest gemini-companion-write/tested-versions-get-no-text ()
  (let ((gemini-companion-agent-profiles
         '((one :needs-no-text (("its client" "1.2.0" "1.10.3"))) (other))))
    (pcase-dolist (`(,agent ,name ,version ,known)
                   '((one "its client" "1.2.0" t) (one "its client" "1.9" t)
                     (one "its client" "1.10.3" t) (one "its client" "1.10.4" nil)
                     (one "its client" "1.1.9" nil) (one "its client" "2" nil)
                     (one "its client" "1.3.0-preview.1" nil) (one "its client" "" nil)
                     (one "another" "1.2.0" nil) (other "its client" "1.2.0" nil)
                     (stranger "its client" "1.2.0" nil)))
      (ert-info ((format "%s %s %s" agent name version))
        (pcase-dolist (`(,option ,left-out) `((tried ,known) (always t) (never nil)))
          (let ((gemini-companion-accept-without-text option)
                (review (gemini-companion-review-make
                         :agent agent :info (cons name version) :path "/no such file"
                         :proposed "a\n")))
            (should (eq (and (gemini-companion-write-may-omit-p review "a\n") t)
                        left-out))))))))

(ert-deftest gemini-companion-write/only-what-the-client-proposed-is-not-sent ()
  "An empty text always is, since the user has been asked about it."
  (pcase-dolist (`(,text ,proposed ,same)
                 '(("a\nb" "a\nb" t) ("a\r\nb" "a\r\nb" t) ("a\r\nb" "a\nb" nil)
                   ("a\n" "a" nil) ("a" "\ufeffa" nil) ("" "" nil) ("" "a" nil)))
    (ert-info ((format "%S for %S" text proposed))
      (let ((gemini-companion-accept-without-text 'always)
            (review (gemini-companion-review-make :agent 'gemini :info '("a" . "1")
                                                  :path "/no such file" :proposed proposed)))
        (should (eq (and (gemini-companion-write-may-omit-p review text) t) same))))))

(ert-deftest gemini-companion-write/an-edited-text-is-sent ()
  (gemini-companion-write-test--with client
    (should (equal (gemini-companion-write-test--accept client "2\n" "2, mine\n")
                   "2, mine\n"))))

(ert-deftest gemini-companion-write/the-text-is-sent-if-the-file-has-changed ()
  "The client would apply its change to the new text."
  (gemini-companion-write-test--with client
    (let ((review (gemini-companion-test-propose client "b.txt" "2\n")))
      (gemini-companion-review-show review 'select)
      (gemini-companion-test-file "b.txt" "another's\n")
      (cl-letf (((symbol-function 'read-multiple-choice) (lambda (&rest _) '(?a))))
        (gemini-companion-accept))
      (should (equal (alist-get 'content
                                (fake-cli-wait-notification client "ide/diffAccepted"))
                     "2\n")))
    (let ((review (gemini-companion-test-propose client "b.txt" "3\n")))
      (gemini-companion-test-file "b.txt" "and again\n")
      (should (equal (fake-cli-result-text
                      (gemini-companion-test-close-diff client review))
                     "{\"content\":\"3\\n\"}")))))

;;;; After the accept

(ert-deftest gemini-companion-write/the-written-file-is-checked ()
  (gemini-companion-write-test--with client
    (should (equal (gemini-companion-write-test--accept client "2\n") ""))
    (gemini-companion-test-file "b.txt" "2\n")
    (gemini-companion-write-test--wait-log ": written as accepted")))

(ert-deftest gemini-companion-write/a-text-that-the-client-loses-can-be-written ()
  "Emacs names a client that writes an empty text or nothing."
  (dolist (written '("" nil))
    (gemini-companion-write-test--with client
      (gemini-companion-test-file "b.txt" "one\r\ntwo\r\n")
      (gemini-companion-write-test--wait-message
       (if written
           "b\\.txt now differs from the text that you accepted.*history-list writes your text"
         "has not written the change to b\\.txt that you accepted.*history-list writes it")
       (lambda ()
         (should (equal (gemini-companion-write-test--accept client "2\nä\n") ""))
         (when written
           (gemini-companion-test-file "b.txt" written))))
      (should (string-match-p "Write the text of this change to b\\.txt"
                              (gemini-companion-test-list-press-newest "w" nil)))
      (should (equal (gemini-companion-test-read (gemini-companion-test-file "b.txt"))
                     (or written "one\r\ntwo\r\n")))
      (gemini-companion-test-list-press-newest "w" t)
      (should (equal (gemini-companion-test-bytes (gemini-companion-test-file "b.txt"))
                     "2\r\n\303\244\r\n"))
      (should (string-match-p "already has this text"
                              (gemini-companion-test-list-press-newest "w" t))))))

(ert-deftest gemini-companion-write/an-edited-text-that-is-cut-off-can-be-written ()
  "As on a full disk, also within a character; a formatter may remove blanks."
  (dolist (written '("" "mine\n\303" "mine\n\303\244\nend"))
    (gemini-companion-write-test--with client
      (gemini-companion-test-with-answer nil
        (setq gemini-companion-write--text-time 1) ; the file is written below in that time
        (gemini-companion-write-test--accept client "2\n" "mine\nä\nend \n\n")
        (let ((coding-system-for-write 'no-conversion))
          (write-region written nil (gemini-companion-test-file "b.txt") nil 'silent))
        (gemini-companion-write-test--wait-log " as accepted")
        (should (eq (and (seq-some (lambda (text)
                                     (string-match-p "b\\.txt now differs from the text that you \
accepted.*history-list writes your text" text))
                                   gemini-companion-test-messages)
                         t)
                    (not (string-suffix-p "end" written))))))))

(ert-deftest gemini-companion-write/a-final-newline-is-written-only-once-it-is-there ()
  (gemini-companion-write-test--with client
    (gemini-companion-test-file "b.txt" "two")
    (gemini-companion-write-test--wait-message
     "has not written the change to b\\.txt that you accepted"
     (lambda () (gemini-companion-write-test--accept client "two\n")))))

(ert-deftest gemini-companion-write/a-formatter-may-write-the-file-before-emacs-looks ()
  "The hook of the client has told Emacs by then that it has written."
  (gemini-companion-write-test--with client
    (gemini-companion-test-with-answer nil
      (setq gemini-companion-write--text-time 1) ; the file is written below in that time
      (gemini-companion-write-test--accept client "2\n")
      (gemini-companion-history-note-written (car (gemini-companion-history-all)))
      (gemini-companion-test-file "b.txt" "  2\n")
      (gemini-companion-write-test--wait-log " as accepted")
      (should-not (seq-some (lambda (text) (string-match-p "that you accepted" text))
                            gemini-companion-test-messages)))))

(ert-deftest gemini-companion-write/what-a-slow-client-writes-late-counts ()
  (pcase-dolist (`(,decide ,message ,before ,after)
                 '((gemini-companion-write-test--accept
                    "has not written the change to b\\.txt that you accepted" unwritten accepted)
                   (gemini-companion-write-test--close
                    "b\\.txt: rejected in Gemini CLI" rejected-there accepted-there)))
    (gemini-companion-write-test--with client
      (gemini-companion-write-test--wait-message message (lambda () (funcall decide client "2\n")))
      (let ((entry (car (gemini-companion-history-all))))
        (should (eq (gemini-companion-history-outcome entry) before))
        (gemini-companion-test-file "b.txt" "2\n")
        (gemini-companion-test-wait "the history to say so"
                                    (lambda () (eq (gemini-companion-history-outcome entry) after)))))))

(ert-deftest gemini-companion-write/a-client-that-asks-something-may-write-later ()
  "Qwen Code writes nothing until all questions of a turn are answered."
  (pcase-dolist (`(,decide . ,message)
                 '((gemini-companion-write-test--accept . "has not written the change to b\\.txt")
                   (gemini-companion-write-test--close . "b\\.txt: rejected in Gemini CLI")))
    (gemini-companion-write-test--with client
      (let ((gemini-companion-write--slow-interval 0.02)
            cli)
        (gemini-companion-test-with-answer nil
          (funcall decide client "2\n")
          (setq cli (car (gemini-companion-cli-all)))
          (setf (gemini-companion-cli-terminal cli) (current-buffer))
          (gemini-companion-cli-enter cli 'asking)
          (gemini-companion-test-wait-seconds 0.3)
          (should-not (seq-some (lambda (text) (string-match-p message text))
                                gemini-companion-test-messages)))
        (gemini-companion-write-test--wait-message
         message (lambda () (gemini-companion-cli-enter cli 'working)))))))

(ert-deftest gemini-companion-write/a-suspended-client-may-write-later ()
  "Its user suspends it to decide in an Emacs in the same terminal."
  (skip-unless (not (eq system-type 'windows-nt)))
  (gemini-companion-write-test--with client
    (let ((gemini-companion-write--slow-interval 0.02)
          (program (make-process :name "suspended" :command '("sleep" "100") :noquery t)))
      (unwind-protect
          (let ((review (gemini-companion-test-propose client "b.txt" "2\n")))
            (setf (gemini-companion-review-process review) (process-id program))
            (signal-process program 'SIGSTOP)
            (gemini-companion-test-with-answer nil
              (gemini-companion-review-show review 'select)
              (gemini-companion-accept)
              (gemini-companion-test-wait-seconds 0.3)
              (should-not (seq-some (lambda (text) (string-match-p "has not written" text))
                                    gemini-companion-test-messages)))
            (gemini-companion-write-test--wait-message
             "has not written the change to b\\.txt that you accepted"
             (lambda () (signal-process program 'SIGCONT))))
        (delete-process program)))))

(ert-deftest gemini-companion-write/a-rejected-text-cannot-be-written ()
  (gemini-companion-write-test--with client
    (gemini-companion-review-show (gemini-companion-test-propose client "b.txt" "2\n") 'select)
    (gemini-companion-reject)
    (should (string-match-p "was rejected" (gemini-companion-test-list-press-newest "w" t)))
    (should (equal (gemini-companion-test-read (gemini-companion-test-file "b.txt"))
                   "one\ntwo\n"))))

(ert-deftest gemini-companion-write/a-rejected-text-may-be-written-all-the-same ()
  "Gemini CLI does so if it is told to accept edits while it asks."
  (dolist (edited '(nil t))
    (gemini-companion-write-test--with client
      (let ((gemini-companion-write--decision-time 60.0)
            (buffer (find-file-noselect (gemini-companion-test-file "b.txt"))))
        ;; Another file gets the same text.
        (gemini-companion-review-reject (gemini-companion-test-propose client "c.txt" "2\n"))
        (gemini-companion-write-test--wait-message
         "has written the change to b\\.txt that you rejected.* u in"
         (lambda ()
           (let ((review (gemini-companion-test-propose client "b.txt" "2\n")))
             (gemini-companion-review-show review 'select)
             (when edited
               (gemini-companion-write-test--edit review "mine\n"))
             (gemini-companion-reject))
           (gemini-companion-test-file "b.txt" "2\n")))
        (gemini-companion-test-wait
         "the buffer" (lambda () (equal (with-current-buffer buffer (buffer-string)) "2\n")))
        (gemini-companion-test-list-press-newest "u" t)
        (should (equal (gemini-companion-test-read (gemini-companion-test-file "b.txt"))
                       "one\ntwo\n"))))))

(ert-deftest gemini-companion-write/what-others-write-after-a-rejection-is-read-once ()
  (gemini-companion-write-test--with client
    (let ((gemini-companion-write--decision-time 0.5)
          (reads 0))
      (gemini-companion-review-show (gemini-companion-test-propose client "b.txt" "2\n") 'select)
      (gemini-companion-reject)
      (gemini-companion-test-file "b.txt" "mine\n")
      (cl-letf* ((read-file (symbol-function 'gemini-companion-file-read))
                 ((symbol-function 'gemini-companion-file-read)
                  (lambda (path) (cl-incf reads) (funcall read-file path))))
        (gemini-companion-test-wait
         "the file to be checked"
         (lambda () (not (gemini-companion-test-timers #'gemini-companion-write--poll-now)))))
      (should (= reads 1)))))

(ert-deftest gemini-companion-write/what-others-write-after-a-rejection-is-not-the-clients ()
  (gemini-companion-write-test--with client
    (let ((gemini-companion-write--decision-time 0.5)
          (gemini-companion-write--revert-time 0.5)
          (reject (lambda ()
                    (gemini-companion-review-show
                     (gemini-companion-test-propose client "b.txt" "2\n") 'select)
                    (gemini-companion-reject)))
          (check (lambda ()
                   (gemini-companion-test-wait
                    "the file to be checked"
                    (lambda () (not (gemini-companion-test-timers #'gemini-companion-write--poll-now))))
                   (should-not (memq 'accepted-there
                                     (mapcar #'gemini-companion-history-outcome
                                             (gemini-companion-history-all)))))))
      ;; Such as what the user saves.
      (funcall reject)
      (gemini-companion-test-file "b.txt" "mine\n")
      (funcall check)
      ;; The client proposes it again, and now the user accepts.
      (funcall reject)
      (gemini-companion-write-test--accept client "2\n")
      (gemini-companion-test-file "b.txt" "2\n")
      (funcall check))))

;; With two CLIs, the history said that both were accepted.
(ert-deftest gemini-companion-write/what-another-client-is-writing-is-no-yes ()
  (gemini-companion-write-test--with client
    (gemini-companion-write-test--close client "3\n")
    (let ((entry (car (gemini-companion-history-all))))
      (gemini-companion-write-test--accept client "2\n")
      ;; CLIs empty a file before they write it.
      (gemini-companion-test-file "b.txt" "")
      (cl-letf* ((contains-p (symbol-function 'gemini-companion-write--contains-p))
                 ((symbol-function 'gemini-companion-write--contains-p)
                  (lambda (review)
                    (run-at-time 0 nil #'gemini-companion-test-file "b.txt" "2\n")
                    (funcall contains-p review))))
        (gemini-companion-test-wait
         "the outcome" (lambda () (not (eq 'closed (gemini-companion-history-outcome entry))))))
      (should (eq 'rejected-there (gemini-companion-history-outcome entry))))))

;; The history said that the user had accepted the change.
(ert-deftest gemini-companion-write/a-file-that-is-written-as-it-was-is-no-yes ()
  (gemini-companion-write-test--with client
    (gemini-companion-write-test--close client "3\n")
    (set-file-times (gemini-companion-test-file "b.txt") 1)
    (let ((entry (car (gemini-companion-history-all))))
      (gemini-companion-test-wait
       "the outcome" (lambda () (not (eq 'closed (gemini-companion-history-outcome entry)))))
      (should (eq 'rejected-there (gemini-companion-history-outcome entry))))))

(ert-deftest gemini-companion-write/only-a-yes-in-the-client-is-checked ()
  (gemini-companion-write-test--with client
    (should (equal (gemini-companion-write-test--close client "2\n") "{\"content\":null}"))
    (gemini-companion-test-file "b.txt" "2\n")
    (gemini-companion-write-test--wait-log ": written as accepted")
    (gemini-companion-write-test--wait-message
     "b\\.txt now differs from the text that you accepted"
     (lambda ()
       (gemini-companion-write-test--close client "3\n")
       (gemini-companion-test-file "b.txt" "")))
    (gemini-companion-write-test--wait-message
     "b\\.txt: rejected in Gemini CLI\\'"
     (lambda () (gemini-companion-write-test--close client "4\n")))
    (gemini-companion-write-test--wait-message
     "b\\.txt: rejected in Gemini CLI; your edits are in M-x gemini-companion-history-list"
     (lambda () (gemini-companion-write-test--close client "5\n" "mine\n")))))

;; The buffer is reverted first, and then is as if the user had saved it.
(ert-deftest gemini-companion-write/an-edited-text-is-accepted-in-the-client-too ()
  (gemini-companion-write-test--with client
    (let ((gemini-companion-write--decision-time 60.0)
          (buffer (find-file-noselect (gemini-companion-test-file "b.txt"))))
      (gemini-companion-write-test--wait-message
       "b\\.txt: accepted in Gemini CLI"
       (lambda ()
         (gemini-companion-write-test--close client "2\n" "mine\n")
         (gemini-companion-test-file "b.txt" "mine\n")
         (gemini-companion-test-wait
          "the buffer" (lambda () (equal (with-current-buffer buffer (buffer-string))
                                         "mine\n"))))))))

(ert-deftest gemini-companion-write/a-text-with-a-final-newline-restored-is-accepted-and-undone ()
  "Gemini CLI restores that, and the buffer is reverted first."
  (gemini-companion-write-test--with client
    (let ((gemini-companion-write--decision-time 1.0))
      (find-file-noselect (gemini-companion-test-file "b.txt"))
      (gemini-companion-write-test--wait-message
       "b\\.txt: \\(accepted\\|rejected\\) in Gemini CLI"
       (lambda ()
         (gemini-companion-write-test--close client "2\n" "mine")
         (gemini-companion-test-file "b.txt" "mine\n")))
      (gemini-companion-test-list-press-newest "u" t)
      (should (equal (gemini-companion-test-read (gemini-companion-test-file "b.txt"))
                     "one\ntwo\n")))))

(ert-deftest gemini-companion-write/a-client-may-keep-the-coding-system ()
  "As Qwen Code does."
  (gemini-companion-write-test--with client
    (gemini-companion-test-write-bytes "b.txt" "caf\351\n")
    (let ((gemini-companion-write--decision-time 60.0)
          (buffer (find-file-noselect (gemini-companion-test-file "b.txt"))))
      (gemini-companion-write-test--wait-message
       "b\\.txt: accepted in Gemini CLI"
       (lambda ()
         (gemini-companion-write-test--close client "café 2\n")
         (gemini-companion-test-write-bytes "b.txt" "caf\351 2\n")
         (gemini-companion-test-wait
          "the buffer" (lambda () (equal (with-current-buffer buffer (buffer-string))
                                         "café 2\n"))))))
    (should-error (gemini-companion-history-list-write (car (gemini-companion-history-all)))
                  :type 'user-error)))

(ert-deftest gemini-companion-write/to-save-the-file-is-no-yes ()
  (gemini-companion-write-test--with client
    (with-current-buffer (find-file-noselect (gemini-companion-test-file "b.txt"))
      (gemini-companion-write-test--wait-message
       "b\\.txt: rejected in Gemini CLI"
       (lambda ()
         (gemini-companion-write-test--close client "2\n")
         (let ((create-lockfiles nil)) (insert "mine\n"))
         (save-buffer))))))

(ert-deftest gemini-companion-write/to-accept-another-change-is-no-yes ()
  "After a no in the client, whether the same one or another proposes it."
  (gemini-companion-write-test--with client
    (let ((gemini-companion-write--decision-time 1.0))
      (gemini-companion-write-test--wait-message
       "b\\.txt: rejected in Gemini CLI"
       (lambda ()
         (gemini-companion-write-test--close client "2\n")
         (gemini-companion-write-test--accept client "3\n")
         (gemini-companion-test-file "b.txt" "3\n"))))))

(ert-deftest gemini-companion-write/a-yes-in-the-client-may-take-effect-late ()
  "Qwen Code writes nothing until all changes of a turn are decided."
  (gemini-companion-write-test--with client
    (let ((other (gemini-companion-test-propose client "c.txt" "c\n")))
      (gemini-companion-test-with-answer nil
        (gemini-companion-write-test--close client "2\n")
        (gemini-companion-test-wait-seconds 0.5)
        (should-not (seq-some (lambda (text) (string-match-p "\\(?:accept\\|reject\\)ed in" text))
                              gemini-companion-test-messages)))
      (gemini-companion-write-test--wait-message
       "b\\.txt: accepted in Gemini CLI"
       (lambda ()
         (gemini-companion-review-reject other)
         (gemini-companion-test-file "b.txt" "2\n"))))))

(ert-deftest gemini-companion-write/what-is-proposed-next-is-not-waited-for ()
  "A client may try again, after a no there, before Emacs has told of that."
  (gemini-companion-write-test--with client
    (gemini-companion-write-test--wait-message
     "b\\.txt: rejected in Gemini CLI"
     (lambda ()
       (gemini-companion-write-test--close client "2\n")
       (gemini-companion-test-propose client "b.txt" "3\n")))))

(defmacro gemini-companion-write-test--with-clock (now look &rest body)
  "Evaluate BODY, in which LOOK calls what a timer would, and NOW is the time.
Both are variables."
  (declare (indent 2) (debug (symbolp symbolp body)))
  `(let ((,now 0)
         (,look nil))
     (cl-letf (((symbol-function 'run-at-time)
                (lambda (_time _repeat function &rest arguments)
                  (setq ,look (lambda () (apply function arguments)))))
               ((symbol-function 'float-time) (lambda (&rest _) ,now)))
       ,@body)))

(ert-deftest gemini-companion-write/other-changes-may-be-decided-first ()
  (gemini-companion-write-test--with-clock now look
    (let ((state 'busy)
          (ended 0))
      (gemini-companion-write--poll 3.5 (lambda () state)
                                    (lambda (seen) (should-not seen) (cl-incf ended)))
      (setq now 100)
      (funcall look)
      (setq state nil)
      (dotimes (_ 3)
        (setq now (1+ now))
        (funcall look))
      (should (= ended 0))
      (setq now (1+ now))
      (funcall look)
      (should (= ended 1)))))

(ert-deftest gemini-companion-write/a-clock-set-back-prolongs-the-wait-only-once ()
  (gemini-companion-write-test--with-clock now look
    (let ((ended 0))
      (setq now 1000)
      (gemini-companion-write--poll 3.5 #'ignore (lambda (_) (cl-incf ended)))
      (setq now 100)
      (dotimes (_ 4)
        (funcall look)
        (should (= ended 0))
        (setq now (1+ now)))
      (funcall look)
      (should (= ended 1)))))

;;; gemini-companion-write-test.el ends here

;;; gemini-companion-apply-test.el --- Tests of decisions of clients  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-apply)
(require 'gemini-companion-test-companion)

(defun gemini-companion-apply-test--call (client tool)
  "Let CLIENT call TOOL for the file a.txt; return the text of the answer.
That is a list of one if it is an error."
  (let* ((result (fake-cli-call-tool client tool
                                     `(:filePath ,(gemini-companion-test-file "a.txt"))))
         (text (fake-cli-result-text result)))
    (if (eq (alist-get 'isError result) t) (list text) text)))

(ert-deftest gemini-companion-apply/an-accept-is-written-and-shown ()
  (gemini-companion-test-with-client client
    (let ((inhibit-message t)
          (review (gemini-companion-test-propose client "a.txt" "proposed\n")))
      (setf (gemini-companion-review-text review) "proposed, edited ä\n")
      (should (equal (gemini-companion-apply-test--call client "acceptDiff")
                     (concat "Accepted, and applied to " (gemini-companion-test-file "a.txt"))))
      (should (equal (gemini-companion-test-read (gemini-companion-test-file "a.txt"))
                     "proposed, edited ä\n"))
      (should (equal (buffer-string) "proposed, edited ä\n"))
      (should-not (buffer-modified-p))
      (should (equal (alist-get 'content (fake-cli-wait-notification
                                          client "ide/diffAccepted"))
                     "proposed, edited ä\n"))
      (let ((entry (car (gemini-companion-history-list))))
        (should (eq (gemini-companion-history-outcome entry) 'accepted))
        (should (equal (gemini-companion-history-before entry) "one\ntwo\n")))
      (should (equal (gemini-companion-apply-test--call client "acceptDiff")
                     (list (format "no diff of %s is open"
                                   (gemini-companion-test-file "a.txt"))))))))

(ert-deftest gemini-companion-apply/a-reject-leaves-the-file ()
  (gemini-companion-test-with-client client
    (let ((inhibit-message t))
      (gemini-companion-test-propose client "a.txt" "proposed\n")
      (should (equal (gemini-companion-apply-test--call client "rejectDiff")
                     (concat "Rejected: " (gemini-companion-test-file "a.txt"))))
      (should (equal (gemini-companion-test-read (gemini-companion-test-file "a.txt"))
                     "one\ntwo\n"))
      (fake-cli-wait-notification client "ide/diffRejected")
      (should (eq (gemini-companion-history-outcome (car (gemini-companion-history-list)))
                  'rejected)))))

(ert-deftest gemini-companion-apply/nothing-of-the-users-is-overwritten ()
  (gemini-companion-test-with-client client
    (let ((inhibit-message t)
          (file (gemini-companion-test-file "a.txt")))
      (gemini-companion-test-propose client "a.txt" "proposed\n")
      (insert "mine")
      (should (equal (gemini-companion-apply-test--call client "acceptDiff")
                     '("The user has unsaved edits of this file in Emacs")))
      (should (equal (gemini-companion-test-read file) "one\ntwo\n"))
      (save-buffer)
      (should (equal (gemini-companion-apply-test--call client "acceptDiff")
                     '("The file has changed since this diff was opened")))
      (should (equal (gemini-companion-test-read file) "mineone\ntwo\n"))
      ;; The user decides.
      (should (= (gemini-companion-review-count) 1))
      (gemini-companion-reject))))

(ert-deftest gemini-companion-apply/elsewhere-and-for-much-only-the-user-accepts ()
  "Outside of the workspace, for private files, and for what lacks most of the file."
  (gemini-companion-test-with-client client
    (let ((inhibit-message t)
          (outside (make-temp-file "gemini-companion-outside-"))
          (private (gemini-companion-test-file ".env" "A=1\n"))
          (long (gemini-companion-test-file
                 "long.txt" (apply #'concat (make-list 100 "line\n")))))
      (unwind-protect
          (pcase-dolist (`(,file . ,reason) `((,outside . "Outside of the workspace")
                                              (,private . "it is named by")
                                              (,long . "lacks most of the file")))
            (let ((before (gemini-companion-test-read file)))
              (fake-cli-call-tool client "openDiff" `(:filePath ,file :newContent "x\n"))
              (gemini-companion-test-wait "the review"
                                          (lambda () (= 1 (gemini-companion-review-count))))
              (let ((result (fake-cli-call-tool client "acceptDiff" `(:filePath ,file))))
                (should (eq (alist-get 'isError result) t))
                (should (string-search reason (fake-cli-result-text result))))
              (should (equal (gemini-companion-test-read file) before))
              (gemini-companion-review-reject
               (car (gemini-companion-review-list-open)))))
        (delete-file outside)))))

(ert-deftest gemini-companion-apply/what-was-decided-meanwhile-is-not-written ()
  (gemini-companion-test-with-client client
    (let ((inhibit-message t))
      (gemini-companion-test-propose client "a.txt" "proposed\n")
      (cl-letf (((symbol-function 'gemini-companion-bridge-accept) #'ignore))
        (should (equal (gemini-companion-apply-test--call client "acceptDiff")
                       '("This diff was decided meanwhile"))))
      (should (equal (gemini-companion-test-read (gemini-companion-test-file "a.txt"))
                     "one\ntwo\n"))
      ;; One that nobody waits for any more, as after a time-out.
      (gemini-companion-apply-decision
       (gemini-companion-review-id (car (gemini-companion-review-list-open))) t 4711)
      (should (equal (gemini-companion-test-read (gemini-companion-test-file "a.txt"))
                     "one\ntwo\n"))
      (should (= 1 (gemini-companion-review-count)))
      (gemini-companion-reject))))

(ert-deftest gemini-companion-apply/line-ends-and-marks-stay ()
  (pcase-dolist (`(,base ,text ,bytes) '((nil "a\n" "a\n")
                                         ("a\nb\n" "ä\n" "\303\244\n")
                                         ("a\r\nb\r\n" "c\nd\n" "c\r\nd\r\n")
                                         ("a\r\nb\r\n" "c\r\nd\n" "c\r\nd\n")
                                         ("\357\273\277a\n" "b\n" "\357\273\277b\n")
                                         ("\357\273\277a\n" "\ufeffb\n" "\357\273\277b\n")
                                         (unreadable "b\n" "b\n")))
    (should (equal (gemini-companion-apply--encode text base) bytes))))

(ert-deftest gemini-companion-apply/words-of-a-client-are-shown ()
  (gemini-companion-test-with-client client
    (let ((shown nil))
      (cl-letf (((symbol-function 'message)
                 (lambda (format &rest arguments)
                   (when format (push (apply #'format-message format arguments) shown)))))
        (fake-cli-post client (list :method "notifications/message"
                                    :params '(:level "info" :data "Hello\e[2J")))
        (gemini-companion-test-wait "the words"
                                    (lambda () (member "fake-cli 1 says: Hello^[[2J" shown)))))))

;;; gemini-companion-apply-test.el ends here

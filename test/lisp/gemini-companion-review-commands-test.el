;;; gemini-companion-review-commands-test.el --- Tests of the changes of a turn  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-history)
(require 'gemini-companion-review-commands)
(require 'gemini-companion-test-companion)

(ert-deftest gemini-companion-review-commands/the-same-again-is-accepted-once ()
  "If it was not written, and only the same."
  (gemini-companion-test-with-client client
    (let* ((first (gemini-companion-test-propose client "a.txt" "2\n"))
           (again (lambda (text)
                    (fake-cli-call-tool client "openDiff"
                                        (list :filePath (gemini-companion-test-file "a.txt")
                                              :newContent text))
                    (gemini-companion-bridge-drain)
                    (car (gemini-companion-review-all-open)))))
      (gemini-companion-review-show first 'keep)
      (gemini-companion-review-commands-accept first)
      (fake-cli-wait-notification client "ide/diffAccepted")
      (let ((other (funcall again "3\n")))
        (should other)
        (gemini-companion-review-reject other)
        (fake-cli-wait-notification client "ide/diffRejected"))
      (should-not (funcall again "2\n"))
      (should (fake-cli-wait-notification client "ide/diffAccepted"))
      (should (eq (gemini-companion-history-outcome (gemini-companion-review-entry first))
                  'cancelled))
      (should (funcall again "2\n"))
      (gemini-companion-review-end-all))))

(ert-deftest gemini-companion-review-commands/a-new-file-that-was-undone-is-asked-about-again ()
  "The client has written it, although the file is as it was before."
  (gemini-companion-test-with-client client
    (let* ((first (gemini-companion-test-propose client "new.txt" "1\n"))
           (file (gemini-companion-review-path first)))
      (gemini-companion-review-show first 'keep)
      (gemini-companion-review-commands-accept first)
      (gemini-companion-test-write file "1\n")
      (gemini-companion-test-wait "Emacs to notice"
                                  (lambda () (gemini-companion-history-written
                                              (gemini-companion-review-entry first))))
      (delete-file file)
      (fake-cli-call-tool client "openDiff" `(:filePath ,file :newContent "1\n"))
      (gemini-companion-bridge-drain)
      (should (gemini-companion-review-all-open))
      (gemini-companion-review-end-all))))

(ert-deftest gemini-companion-review-commands/an-accept-is-forgotten-after-a-while ()
  "The user is asked about the same change then."
  (gemini-companion-test-with-client client
    (let ((gemini-companion-review-commands--accepted nil)
          (gemini-companion-review-commands--memory 0)
          (review (gemini-companion-test-propose client "a.txt" "2\n")))
      (gemini-companion-review-show review 'keep)
      (gemini-companion-review-commands-accept review)
      (should gemini-companion-review-commands--accepted)
      (gemini-companion-test-wait "Emacs to forget"
                                  (lambda () (null gemini-companion-review-commands--accepted)))
      (should (gemini-companion-test-propose client "a.txt" "2\n"))
      (gemini-companion-review-end-all))))

(ert-deftest gemini-companion-review-commands/what-is-accepted-in-advance-is-asked-about-if-it-loses-something ()
  (gemini-companion-test-with-client client
    (let ((first (gemini-companion-test-propose client "a.txt" "2\n"))
          (question nil))
      (gemini-companion-test-file "b.txt" "1\n")
      (gemini-companion-test-file "c.txt" (make-string 100 ?\n))
      (setf (gemini-companion-review-queued first)
            (mapcar #'gemini-companion-test-file '("b.txt" "c.txt")))
      (gemini-companion-review-show first 'keep)
      (cl-letf (((symbol-function 'y-or-n-p) (lambda (text) (setq question text) t)))
        (gemini-companion-accept-all))
      (should (string-match-p "\\`Accept 3 changes: .*a\\.txt, b\\.txt, c\\.txt\\? " question))
      (let ((propose (lambda (name)
                       (fake-cli-call-tool client "openDiff"
                                           (list :filePath (gemini-companion-test-file name)
                                                 :newContent "new\n"))
                       (gemini-companion-bridge-drain)
                       (mapcar #'gemini-companion-review-file
                               (gemini-companion-review-all-open)))))
        (should-not (funcall propose "b.txt"))
        ;; This one empties most of its file.
        (should (equal (funcall propose "c.txt") '("c.txt")))
        ;; And nobody has said anything of this one.
        (should (equal (funcall propose "d.txt") '("c.txt" "d.txt"))))
      (gemini-companion-review-end-all))))

(ert-deftest gemini-companion-review-commands/all-that-wait-are-accepted-but-what-loses-something ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-file "c.txt" (make-string 100 ?\n))
    (let ((first (gemini-companion-test-propose client "a.txt" "2\n"))
          (question nil))
      (dolist (name '("b.txt" "c.txt" "d.txt"))
        (gemini-companion-test-propose client name "2\n"))
      ;; These two are of other CLIs.
      (setf (gemini-companion-review-client (gemini-companion-test-propose client "e.txt" "2\n"))
            "another")
      (setf (gemini-companion-review-process (gemini-companion-test-propose client "f.txt" "2\n")) 1)
      ;; And this one would lose edits of the user.
      (gemini-companion-test-propose client "g.txt" "2\n")
      (with-current-buffer (find-file-noselect (gemini-companion-test-file "g.txt"))
        (insert "mine"))
      (gemini-companion-review-show first 'keep)
      (cl-letf (((symbol-function 'y-or-n-p) (lambda (text) (setq question text) t)))
        (gemini-companion-accept-all))
      (should (equal question "Accept 5 changes: a.txt, b.txt, c.txt, d.txt, g.txt? "))
      ;; The first one empties most of its file.
      (should (equal (mapcar #'gemini-companion-review-file (gemini-companion-review-all-open))
                     '("c.txt" "e.txt" "f.txt" "g.txt")))
      (gemini-companion-review-end-all))))

;; A model often edits a file by several calls.
(ert-deftest gemini-companion-review-commands/several-changes-of-a-file-are-accepted-in-advance ()
  (gemini-companion-test-with-client client
    (let* ((first (gemini-companion-test-propose client "a.txt" "2\n"))
           (file (gemini-companion-review-path first)))
      (setf (gemini-companion-review-queued first) (list file file))
      (gemini-companion-review-show first 'keep)
      (gemini-companion-test-with-answer 'yes (gemini-companion-accept-all))
      (pcase-dolist (`(,text . ,open) '(("3\n" . nil) ("4\n" . nil) ("5\n" . t)))
        (fake-cli-call-tool client "openDiff" (list :filePath file :newContent text))
        (gemini-companion-bridge-drain)
        (should (eq (consp (gemini-companion-review-all-open)) open)))
      ;; Nothing is kept when the last one was accepted: the texts may be large.
      (should-not gemini-companion-review-commands--rest)
      (gemini-companion-review-end-all))))

(ert-deftest gemini-companion-review-commands/what-was-written-is-named-beside-unsaved-edits ()
  "Also if it is written only while the question is open."
  (dolist (time '(before meanwhile))
    (gemini-companion-test-with-client client
      (let* ((review (gemini-companion-test-propose client "a.txt" "2\n"))
             (file (gemini-companion-review-path review))
             (questions nil))
        (with-current-buffer (find-file-noselect file)
          (insert "mine"))
        (gemini-companion-review-show review 'keep)
        (when (eq time 'before)
          (gemini-companion-test-write file "theirs\n"))
        (cl-letf (((symbol-function 'read-multiple-choice)
                   (lambda (question choices)
                     (push question questions)
                     (should (string-search "in place of what is on disk"
                                            (nth 2 (assq ?a choices))))
                     (when (eq time 'meanwhile)
                       (gemini-companion-test-write file "theirs\n")
                       (setq time 'written))
                     (if (string-search "on disk" question) '(?c) '(?a)))))
          (should-error (gemini-companion-accept) :type 'user-error))
        (should (equal (car questions)
                       "a.txt has changed on disk since the client made this text, \
and has unsaved edits that it lacks."))
        (should (equal (cdr questions)
                       (and (eq time 'written)
                            '("a.txt has unsaved edits that this text lacks."))))
        (should (gemini-companion-review-open-p review))))))

(ert-deftest gemini-companion-review-commands/nothing-is-accepted-in-advance-after-a-no-in-the-cli ()
  "That may come while Emacs asks."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n"))
          (other (gemini-companion-test-propose client "b.txt" "2\n")))
      (setf (gemini-companion-review-queued review) (list (gemini-companion-test-file "c.txt")))
      (gemini-companion-review-show review 'keep)
      (cl-letf (((symbol-function 'y-or-n-p) #'always)
                ((symbol-function 'gemini-companion-bridge-accept) #'ignore))
        (gemini-companion-accept-all review))
      (should-not (gemini-companion-review-commands-rest-of))
      (should (gemini-companion-review-open-p other))
      (gemini-companion-review-end-all))))

(provide 'gemini-companion-review-commands-test)
;;; gemini-companion-review-commands-test.el ends here

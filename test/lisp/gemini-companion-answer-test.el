;;; gemini-companion-answer-test.el --- Tests of keeping the user's answers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-answer)
(require 'gemini-companion-test-companion)

(defun gemini-companion-answer-test--logged (text)
  "Return how many lines of the log contain TEXT."
  (seq-count (lambda (line) (string-search text line)) (gemini-companion-log-last 1000)))

(defun gemini-companion-answer-test--last-message ()
  "Return the last line of the messages."
  (with-current-buffer (messages-buffer)
    (save-excursion
      (goto-char (point-max))
      (buffer-substring (line-beginning-position 0) (line-end-position 0)))))

(defun gemini-companion-answer-test--bytes (file)
  "Return the contents of FILE as bytes."
  (gemini-companion-file-read-as-named file))

(ert-deftest gemini-companion-answer/an-answer-is-found-again ()
  "Another Emacs may read the file, whatever the printer is set to."
  (gemini-companion-test-with-project
    (let ((print-length 1)
          (print-level 1))
      (should-not (gemini-companion-answer-get 'eat))
      (gemini-companion-answer-set 'eat 'never)
      (gemini-companion-answer-set '(connect . "me@bü\n\"|ld") 'always)
      (gemini-companion-answer-set '(setup gemini . "/ssh:build:") 'never)
      (gemini-companion-answer-set '(setup gemini . "/ssh:build:") 'always))
    (should-not gemini-companion-answer--unsaved)
    (should (eq (gemini-companion-answer-get 'eat) 'never))
    (should (eq (gemini-companion-answer-get '(connect . "me@bü\n\"|ld")) 'always))
    (should (eq (gemini-companion-answer-get '(setup gemini . "/ssh:build:")) 'always))
    (should (= (length (gemini-companion-answer-all)) 3))))

(ert-deftest gemini-companion-answer/the-user-can-delete-a-line ()
  (gemini-companion-test-with-project
    (gemini-companion-answer-set 'eat 'never)
    (gemini-companion-answer-set 'tools 'never)
    (with-temp-file gemini-companion-answer--file
      (insert-file-contents gemini-companion-answer--file)
      (flush-lines "^(eat "))
    (should (equal (gemini-companion-answer-all) '((tools . never))))))

(ert-deftest gemini-companion-answer/the-file-is-private ()
  "So is its directory, if that is new."
  (gemini-companion-test-with-project
    (gemini-companion-answer-set 'eat 'never)
    (should (= (file-modes gemini-companion-answer--file) #o600))
    (should (= (file-modes (file-name-directory gemini-companion-answer--file)) #o700))
    (should (equal (directory-files (file-name-directory gemini-companion-answer--file) nil
                                    directory-files-no-dot-files-regexp)
                   '("answers.eld")))))

(ert-deftest gemini-companion-answer/a-file-that-holds-no-answers-is-ignored-and-kept ()
  "That is logged, nothing in it is evaluated, and the next answer tells the user."
  (dolist (text '("" "((eat . never)" "(eat . never)" "eat" "((eat . yes))" "(eat)" "((eat . never) . x)"
                  "#1=((eat . never) . #1#)" "((eat . (error \"Evaluated\")))" "\377\0"
                  "#.(error \"Evaluated\")"))
    (ert-info (text)
      (gemini-companion-test-with-project
        (gemini-companion-test-file "answers/answers.eld" text)
        (let ((before (gemini-companion-answer-test--logged "answers.eld is ignored: ")))
          (should-not (gemini-companion-answer-get 'eat))
          (should (= (gemini-companion-answer-test--logged "answers.eld is ignored: ")
                     (1+ before))))
        (gemini-companion-answer-set 'eat 'never)
        (should (string-match-p "There is a mistake in .*/answers.eld: correct or delete it"
                                (gemini-companion-answer-test--last-message)))
        (should (equal (gemini-companion-answer-test--bytes gemini-companion-answer--file)
                       (string-to-unibyte text)))
        (should (equal (gemini-companion-answer-all) '((eat . never))))))))

(ert-deftest gemini-companion-answer/a-file-that-cannot-be-read-is-kept ()
  "Here since it is too large."
  (gemini-companion-test-with-project
    (let ((text "((tools . never))")
          (gemini-companion-file-largest 5)
          (before (gemini-companion-answer-test--logged "holds only until Emacs exits")))
      (gemini-companion-test-file "answers/answers.eld" text)
      (gemini-companion-answer-set 'eat 'never)
      (should (equal (gemini-companion-answer-test--bytes gemini-companion-answer--file) text))
      (should (equal (gemini-companion-answer-all) '((eat . never))))
      (should (= (gemini-companion-answer-test--logged "holds only until Emacs exits")
                 (1+ before))))))

(ert-deftest gemini-companion-answer/where-nothing-can-be-written-it-holds-until-emacs-exits ()
  (dolist (make (list (lambda () (gemini-companion-test-file "answers" "a file"))
                      (lambda () (make-directory gemini-companion-answer--file t))
                      (lambda ()
                        (make-directory (file-name-directory gemini-companion-answer--file))
                        (call-process "mkfifo" nil nil nil gemini-companion-answer--file))))
    (gemini-companion-test-with-project
      (funcall make)
      (let ((before (gemini-companion-answer-test--logged "holds only until Emacs exits")))
        (gemini-companion-answer-set 'eat 'never)
        (should (= (gemini-companion-answer-test--logged "holds only until Emacs exits")
                   (1+ before)))
        (should (string-prefix-p "Your answer holds only until Emacs exits: "
                                 (gemini-companion-answer-test--last-message))))
      (should (equal (gemini-companion-answer-all) '((eat . never)))))))

(ert-deftest gemini-companion-answer/batch-mode-touches-no-file-of-the-user ()
  (gemini-companion-test-with-project
    (let ((process-environment (cons (concat "HOME=" gemini-companion-test-project)
                                     process-environment)))
      (gemini-companion-test-file ".emacs.d/gemini-companion/answers.eld" "((tools . never))")
      (with-temp-buffer
        (call-process (expand-file-name invocation-name invocation-directory) nil t nil
                      "-Q" "--batch" "-L" (gemini-companion-test-path "lisp")
                      "-l" "gemini-companion-answer" "--eval"
                      (prin1-to-string '(let ((noninteractive nil))
                                          (gemini-companion-answer-set 'eat 'never)
                                          (prin1 (gemini-companion-answer-all)))))
        (should (equal (buffer-string) "((eat . never))")))
      (should (equal (gemini-companion-test-read
                      (gemini-companion-test-file ".emacs.d/gemini-companion/answers.eld"))
                     "((tools . never))")))))

;;; gemini-companion-answer-test.el ends here

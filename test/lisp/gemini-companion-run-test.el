;;; gemini-companion-run-test.el --- Tests of the CLI in a terminal  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What is not the same in each emulator, with a stand-in for Ghostel, which no distribution has;
;; test/e2e/run-test.el has what real emulators do.

;;; Code:

(require 'ert)
(require 'gemini-companion-run)
(require 'gemini-companion-test-companion)

(defvar gemini-companion-run-test--asked nil
  "What was asked, the last question first.")

(defvar ghostel-use-native-pty)
(defvar ghostel-query-before-killing)

(defmacro gemini-companion-run-test--with-ghostel (exec &rest body)
  "Evaluate BODY in a new project where EXEC is what Ghostel does.
That is called with a buffer, a program and arguments.  Questions are
answered with no."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-project
     (let ((ghostel-use-native-pty t)
           (gemini-companion-terminal 'ghostel)
           (gemini-companion-program "cat")
           (gemini-companion-run-test--asked nil))
       (gemini-companion-mode 1)
       (provide 'ghostel)
       (cl-letf (((symbol-function 'ghostel-exec) ,exec)
                 ((symbol-function 'yes-or-no-p)
                  (lambda (question) (push question gemini-companion-run-test--asked) nil)))
         (unwind-protect (progn ,@body)
           (setq features (delq 'ghostel features))
           (pcase-dolist (`(,buffer . ,_) (gemini-companion-run-terminals))
             (delete-process (get-buffer-process buffer))))))))

(defun gemini-companion-run-test--ghostel-exec (buffer program arguments)
  "Run PROGRAM with ARGUMENTS in BUFFER, as Ghostel does it."
  ;; By itself it has a process that is not the program.
  (should-not ghostel-use-native-pty)
  (make-process :name "ghostel" :buffer buffer :command (cons program arguments)
                :noquery t :sentinel #'ignore))

(ert-deftest gemini-companion-run/emacs-asks-though-an-emulator-does-not ()
  "It asks once, before it kills a terminal with a CLI that runs."
  (gemini-companion-run-test--with-ghostel #'gemini-companion-run-test--ghostel-exec
    (gemini-companion-run)
    (let ((terminal (caar (gemini-companion-run-terminals))))
      (should-not (kill-buffer terminal))
      (should (= (length gemini-companion-run-test--asked) 1))
      (should-not (buffer-local-value 'ghostel-query-before-killing terminal))
      (delete-process (get-buffer-process terminal))
      ;; The next one takes its place.
      (gemini-companion-run t)
      (should-not (buffer-live-p terminal))
      (should (= (length gemini-companion-run-test--asked) 1)))))

(ert-deftest gemini-companion-run/what-fails-leaves-nothing-behind ()
  "Nor does it ask."
  (let ((process nil))
    (gemini-companion-run-test--with-ghostel
        (lambda (buffer program arguments)
          (setq process (gemini-companion-run-test--ghostel-exec buffer program arguments))
          (set-process-query-on-exit-flag process t)
          (error "It does not work"))
      (let ((buffers (buffer-list)))
        (should (equal (cadr (should-error (gemini-companion-run))) "It does not work"))
        (should-not (process-live-p process))
        (should-not (seq-difference (buffer-list) buffers))
        (should-not gemini-companion-run-test--asked)))))

;;;; Term

(ert-deftest gemini-companion-run/titles-are-no-text ()
  "Wherever the output of a program is cut."
  (let ((text "a\e]0;title ◇\ab\e[31mred\e]2;x\e\\c\e]8;;http://x\adone\e(B\e[0m"))
    (dotimes (one (length text))
      (dolist (other (number-sequence one (1- (length text))))
        (let ((function (gemini-companion-run--without-titles)))
          (should (equal (concat (funcall function (substring text 0 one))
                                 (funcall function (substring text one other))
                                 (funcall function (substring text other)))
                         "ab\e[31mredcdone\e(B\e[0m"))))))
  ;; What is no title after all is not kept for ever.
  (let ((function (gemini-companion-run--without-titles))
        (long (concat "\e]" (make-string 2000 ?x))))
    (should (equal (funcall function long) long))))

(ert-deftest gemini-companion-run/on-a-light-background-term-has-no-colors ()
  (let ((output (lambda (terminal)
                  (with-current-buffer terminal
                    (gemini-companion-test-wait
                     "the output" (lambda () (string-search "end" (buffer-string))))
                    (buffer-string)))))
    (pcase-dolist (`(,background ,own ,colors) '((light nil "1") (nil nil "1") (dark nil "none")
                                                 (light "NO_COLOR=" "") (light "FORCE_COLOR=1" "none")))
      (gemini-companion-test-with-project
        (let* ((process-environment
                (append (and own (list own))
                        (seq-remove (lambda (it) (string-match-p "\\`\\(?:NO\\|FORCE\\)_COLOR=" it))
                                    process-environment)))
               (gemini-companion-terminal 'term)
               (gemini-companion-program
                (gemini-companion-test-file
                 "program" "#!/bin/sh\nprintf '\\033]0;title\\007<%s>' \"${NO_COLOR-none}\"; echo end"))
               (before (frame-parameter nil 'background-mode)))
          (set-file-modes gemini-companion-program #o755)
          (gemini-companion-mode 1)
          (unwind-protect
              (progn
                (set-frame-parameter nil 'background-mode background)
                (gemini-companion-run)
                ;; Its program may have ended by now.
                (should (string-prefix-p (format "<%s>end" colors)
                                         (funcall output (window-buffer)))))
            (set-frame-parameter nil 'background-mode before)))))))

;;; gemini-companion-run-test.el ends here

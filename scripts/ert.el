;;; ert.el --- Run ERT suites and leave the numbers in a file -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; emacs -Q --batch ... -l scripts/ert.el -- RESULT MATCH FILE...
;;
;; Load each test FILE and run the tests whose names match the regexp MATCH, or all if it is
;; empty, and which $GEMINI_COMPANION_TEST_SELECTOR selects, if set.  scripts/test reads the file
;; RESULT, which exists only if the run finished:
;;
;;   passed N
;;   failed N
;;   skipped N
;;   FAILED NAME
;;   SKIPPED NAME: REASON
;;   FLAKY NAME
;;
;; With $GEMINI_COMPANION_TEST_RETRY, run failed tests once more when the others are done.  A test
;; that passes then is flaky, and counts as passed.

;;; Code:

(require 'ert)
(require 'seq)

(defun gemini-companion-ert--locate (locate &rest arguments)
  "Call LOCATE with ARGUMENTS, and kill the buffers that it creates.
To tell where a failed test is, ERT visits its file: later tests would take
that for one that the user has open."
  (let ((buffers (buffer-list)))
    (prog1 (apply locate arguments)
      (mapc #'kill-buffer (seq-difference (buffer-list) buffers)))))

(defun gemini-companion-ert-run (result match files)
  "Run the tests of FILES that match the regexp MATCH, then write file RESULT."
  (when (fboundp 'ert-test-location) ; Emacs 29
    (advice-add 'ert-test-location :around #'gemini-companion-ert--locate))
  (let* ((broken (seq-remove #'gemini-companion-ert--load files))
         (stats (ert-run-tests-batch
                 (list 'and
                       (if (equal match "") t match)
                       (read (or (getenv "GEMINI_COMPANION_TEST_SELECTOR") "t")))))
         (failed (gemini-companion-ert--failed stats))
         (flaky (and failed (not (member (getenv "GEMINI_COMPANION_TEST_RETRY") '(nil "")))
                     (seq-difference failed (gemini-companion-ert--failed
                                             (ert-run-tests-batch `(member ,@failed)))))))
    (with-temp-file result
      (insert (format "passed %d\nfailed %d\nskipped %d\n"
                      (+ (ert-stats-completed-expected stats) (length flaky))
                      (+ (- (length failed) (length flaky)) (length broken))
                      (ert-stats-skipped stats)))
      (dolist (file broken)
        (insert (format "FAILED %s cannot be loaded\n" file)))
      (dolist (name flaky)
        (insert (format "FLAKY %s\n" name)))
      (seq-doseq (test (ert--stats-tests stats))
        (insert (gemini-companion-ert--line test))))
    (kill-emacs 0)))

(defun gemini-companion-ert--load (file)
  "Load FILE.  Return non-nil if that worked."
  (condition-case problem
      (load (expand-file-name file) nil t t)
    (error (message "%s: %s" file (error-message-string problem))
           nil)))

(defun gemini-companion-ert--failed (stats)
  "Return the names of the failed tests in STATS."
  (seq-map #'ert-test-name (seq-filter #'gemini-companion-ert--failed-p (ert--stats-tests stats))))

(defun gemini-companion-ert--failed-p (test)
  "Return non-nil if TEST failed when it last ran."
  (let ((outcome (ert-test-most-recent-result test)))
    (not (or (ert-test-skipped-p outcome)
             (ert-test-result-expected-p test outcome)))))

(defun gemini-companion-ert--line (test)
  "Return the line with the result of TEST, empty if it passed."
  (let ((outcome (ert-test-most-recent-result test)))
    (cond ((ert-test-skipped-p outcome)
           (format "SKIPPED %s: %s\n" (ert-test-name test)
                   (gemini-companion-ert--reason
                    (cadr (ert-test-result-with-condition-condition outcome)))))
          ((gemini-companion-ert--failed-p test)
           (format "FAILED %s\n" (ert-test-name test)))
          (t ""))))

(defun gemini-companion-ert--reason (reason)
  "Return the REASON given to `ert-skip' or `skip-unless' as one line."
  (replace-regexp-in-string
   "[ \n]+" " " (if (stringp reason) reason (prin1-to-string reason))))

;; Test no stale .elc files, print backtraces for a log, and do not spend half of the time collecting
;; garbage.
(setq load-prefer-newer t
      ert-batch-backtrace-right-margin 160
      gc-cons-threshold (* 64 1024 1024))

(when (equal (car command-line-args-left) "--")
  (pop command-line-args-left))
(let ((arguments command-line-args-left))
  (setq command-line-args-left nil)
  (gemini-companion-ert-run (nth 0 arguments) (nth 1 arguments) (nthcdr 2 arguments)))

;;; ert.el ends here

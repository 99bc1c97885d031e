;;; monkey-endurance-test.el --- Random keys and clients, for a long time  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Runs of `gemini-companion-test-monkey' by `make endurance': one seed after
;; the other, each in an Emacs of its own, until the time is over.  Each run
;; prints its line of a table on standard output, and a report if there is a
;; fault.

;;; Code:

(require 'ert)
(require 'gemini-companion-test-monkey)

(defun gemini-companion-monkey-endurance-test--number (variable default)
  "Return the environment VARIABLE as a number, or DEFAULT."
  (let ((value (getenv variable)))
    (if (member value '(nil "")) default (string-to-number value))))

(defun gemini-companion-monkey-endurance-test--print (text)
  "Print TEXT at once: output of `princ' is lost if a long run is killed."
  (send-string-to-terminal text))

(defun gemini-companion-monkey-endurance-test--row (seed steps rate result)
  "Print a line: SEED, the number of STEPS, RATE per second and RESULT."
  (gemini-companion-monkey-endurance-test--print
   (format "%10s %8s %10s  %s\n" seed steps rate result)))

(defun gemini-companion-monkey-endurance-test--one (seed steps)
  "Run STEPS random steps with SEED and print the result.
If SEED is odd, a CLI runs in a terminal.  Return the number of steps that
were performed, and a report or nil."
  (let* ((start (float-time))
         (report (gemini-companion-test-monkey-run
                  seed steps (and (cl-oddp seed) (gemini-companion-test-node))))
         (done (if (and report (string-match "^Seed [0-9]+, step \\([0-9]+\\)" report))
                   (string-to-number (match-string 1 report))
                 steps)))
    (gemini-companion-monkey-endurance-test--row
     seed done (format "%.1f" (/ done (- (float-time) start)))
     (if report (car (split-string report "\n")) (gemini-companion-test-monkey-summary)))
    (when report
      (gemini-companion-monkey-endurance-test--print (concat "\n" report "\n")))
    (list done report)))

(ert-deftest gemini-companion-monkey-endurance/no-rule-is-violated ()
  "No rule is violated when a user and clients act concurrently."
  (let* ((minutes (gemini-companion-monkey-endurance-test--number "ENDURANCE_MONKEY_MINUTES" 10))
         (steps (gemini-companion-monkey-endurance-test--number "ENDURANCE_MONKEY_STEPS" 60))
         (first (gemini-companion-monkey-endurance-test--number "ENDURANCE_MONKEY_SEED"
                                                                (progn (random t) (random 100000))))
         (start (float-time))
         (seed first) (done 0) (faults 0))
    (gemini-companion-monkey-endurance-test--row "seed" "steps" "per second" "result")
    (while (< (- (float-time) start) (* 60 minutes))
      (pcase-let ((`(,count ,report) (gemini-companion-monkey-endurance-test--one seed steps)))
        (cl-incf done count)
        (cl-incf seed)
        (when report (cl-incf faults))))
    (gemini-companion-monkey-endurance-test--row
     (format "%d runs" (- seed first)) done
     (format "%.1f" (/ done (max 1 (- (float-time) start))))
     (format "%d with a fault" faults))
    (should (zerop faults))))

;;; monkey-endurance-test.el ends here

;;; hands-endurance-test.el --- Hands and clients, for as long as there is time  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What `make endurance' runs of `gemini-companion-test-hands': seed after seed,
;; each in an Emacs of its own, until the time is over.  Each run prints its
;; line of a table, and one with a fault its report, on standard output.

;;; Code:

(require 'ert)
(require 'gemini-companion-test-hands)

(defun gemini-companion-hands-endurance-test--number (variable default)
  "Return what the environment VARIABLE says as a number, or DEFAULT."
  (let ((value (getenv variable)))
    (if (member value '(nil "")) default (string-to-number value))))

(defun gemini-companion-hands-endurance-test--print (text)
  "Print TEXT at once: what `princ' prints is lost if a long run is killed."
  (send-string-to-terminal text))

(defun gemini-companion-hands-endurance-test--row (seed steps rate result)
  "Print a line: SEED, STEPS that were done, RATE per second and RESULT."
  (gemini-companion-hands-endurance-test--print
   (format "%10s %8s %10s  %s\n" seed steps rate result)))

(defun gemini-companion-hands-endurance-test--one (seed steps)
  "Run STEPS steps drawn from SEED and print what became of it.
Return the number of steps that were done, and the report of a fault."
  (let* ((start (float-time))
         (report (gemini-companion-test-hands-run seed steps))
         (done (if (and report (string-match "^Seed [0-9]+, step \\([0-9]+\\)" report))
                   (string-to-number (match-string 1 report))
                 steps)))
    (gemini-companion-hands-endurance-test--row
     seed done (format "%.1f" (/ done (- (float-time) start)))
     (if report (car (split-string report "\n")) (gemini-companion-test-hands-tally)))
    (when report
      (gemini-companion-hands-endurance-test--print (concat "\n" report "\n")))
    (list done report)))

(ert-deftest gemini-companion-hands-endurance/nothing-goes-astray ()
  "Nothing goes astray when hands and clients act at the same moment."
  :tags '(e2e)
  (let* ((minutes (gemini-companion-hands-endurance-test--number "ENDURANCE_HANDS_MINUTES" 10))
         (steps (gemini-companion-hands-endurance-test--number "ENDURANCE_HANDS_STEPS" 60))
         (first (gemini-companion-hands-endurance-test--number "ENDURANCE_HANDS_SEED"
                                                               (progn (random t) (random 100000))))
         (start (float-time))
         (seed first) (done 0) (faults 0))
    (gemini-companion-hands-endurance-test--row "seed" "steps" "per second" "what happened")
    (while (< (- (float-time) start) (* 60 minutes))
      (pcase-let ((`(,count ,report) (gemini-companion-hands-endurance-test--one seed steps)))
        (cl-incf done count)
        (cl-incf seed)
        (when report (cl-incf faults))))
    (gemini-companion-hands-endurance-test--row
     (format "%d runs" (- seed first)) done
     (format "%.1f" (/ done (max 1 (- (float-time) start))))
     (format "%d with a fault" faults))
    (should (zerop faults))))

;;; hands-endurance-test.el ends here

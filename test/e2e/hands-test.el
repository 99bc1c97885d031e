;;; hands-test.el --- Hands and clients that act at the same moment  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A few runs of `gemini-companion-test-hands', with seeds that bring each view
;; and each policy; `make endurance' does as many as there is time for.  A run
;; that failed is played again by
;;
;;   GEMINI_COMPANION_HANDS_SEED=7 GEMINI_COMPANION_HANDS_STEPS=40 \
;;     make test SUITE=e2e MATCH=hands/replay
;;
;; and with GEMINI_COMPANION_HANDS_IGNORE=REGEXP as if faults did not matter
;; that REGEXP matches.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path
               (expand-file-name "../support"
                                 (file-name-directory (macroexp-file-name)))))
(require 'ert)
(require 'gemini-companion-test-hands)

(defun gemini-companion-hands-test--run (seed steps)
  "Fail if STEPS steps drawn from SEED end in a fault."
  (let ((report (gemini-companion-test-hands-run seed steps)))
    (when report
      (message "%s" report)
      (ert-fail (car (split-string report "\n"))))))

(defmacro gemini-companion-hands-test--define (&rest runs)
  "Define one test for each of RUNS, lists (SEED STEPS WHAT).
WHAT was drawn for it."
  `(progn
     ,@(mapcar
        (pcase-lambda (`(,seed ,steps ,what))
          `(ert-deftest ,(intern (format "gemini-companion-hands/%s" what)) ()
             "Nothing goes astray when hands and clients act at the same moment."
             :tags '(e2e)
             (gemini-companion-hands-test--run ,seed ,steps)))
        runs)))

(gemini-companion-hands-test--define
 (5 20 ediff-keeps-the-focus)
 (6 20 diff-keeps-the-focus)
 (16 20 diff-keeps-the-focus-with-repeat-mode)
 (10 20 ediff-keeps-the-focus-with-repeat-mode)
 (30 20 ediff-takes-the-focus)
 (35 20 diff-takes-the-focus-with-repeat-mode)
 (1 25 ediff-waits-in-the-queue))

(ert-deftest gemini-companion-hands/replay ()
  "What the environment asks for is played again."
  :tags '(e2e)
  (let ((seed (getenv "GEMINI_COMPANION_HANDS_SEED")))
    (when seed
      (gemini-companion-hands-test--run
       (string-to-number seed)
       (string-to-number (or (getenv "GEMINI_COMPANION_HANDS_STEPS") "40"))))))

;;; hands-test.el ends here

;;; monkey-test.el --- Random keys and clients, concurrently  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A few runs of `gemini-companion-test-monkey', with seeds that cover each view
;; and each policy; `make endurance' does as many as there is time for.  A run
;; that failed is repeated by
;;
;;   GEMINI_COMPANION_MONKEY_SEED=7 GEMINI_COMPANION_MONKEY_STEPS=40 \
;;     make test SUITE=e2e MATCH=monkey/replay
;;
;; with GEMINI_COMPANION_MONKEY_IGNORE=REGEXP ignoring faults that REGEXP matches.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path
               (expand-file-name "../support"
                                 (file-name-directory (macroexp-file-name)))))
(require 'ert)
(require 'gemini-companion-test-monkey)

(defun gemini-companion-monkey-test--run (seed steps)
  "Fail if STEPS random steps with SEED end in a fault."
  (let ((report (gemini-companion-test-monkey-run seed steps)))
    (when report
      (message "%s" report)
      (ert-fail (car (split-string report "\n"))))))

(defmacro gemini-companion-monkey-test--define (&rest runs)
  "Define one test for each of RUNS, lists (SEED STEPS NAME).
NAME describes the options that SEED leads to."
  `(progn
     ,@(mapcar
        (pcase-lambda (`(,seed ,steps ,name))
          `(ert-deftest ,(intern (format "gemini-companion-monkey/%s" name)) ()
             "No rule is violated when a user and clients act concurrently."
             :tags '(e2e)
             (gemini-companion-monkey-test--run ,seed ,steps)))
        runs)))

(gemini-companion-monkey-test--define
 (5 20 ediff-keeps-the-focus)
 (6 20 diff-keeps-the-focus)
 (16 20 diff-keeps-the-focus-with-repeat-mode)
 (10 20 ediff-keeps-the-focus-with-repeat-mode)
 (30 20 ediff-takes-the-focus)
 (35 20 diff-takes-the-focus-with-repeat-mode)
 (1 25 ediff-waits-in-the-queue))

(ert-deftest gemini-companion-monkey/replay ()
  "Repeat the run that the environment asks for, if any."
  :tags '(e2e)
  (let ((seed (getenv "GEMINI_COMPANION_MONKEY_SEED")))
    (when seed
      (gemini-companion-monkey-test--run
       (string-to-number seed)
       (string-to-number (or (getenv "GEMINI_COMPANION_MONKEY_STEPS") "40"))))))

;;; monkey-test.el ends here

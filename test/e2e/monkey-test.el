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

(require 'ert)
(require 'gemini-companion-test-monkey)

(defun gemini-companion-monkey-test--run (seed steps &optional terminal)
  "Fail if STEPS random steps with SEED end in a fault.
TERMINAL is as in `gemini-companion-test-monkey-run'."
  (when (and terminal (not (gemini-companion-test-node)))
    (ert-skip "Node 20 or newer is missing"))
  (let ((report (gemini-companion-test-monkey-run seed steps terminal)))
    (when report
      (message "%s" report)
      (ert-fail (car (split-string report "\n"))))))

(defmacro gemini-companion-monkey-test--define (&rest runs)
  "Define one test for each of RUNS, lists (SEED STEPS NAME [TERMINAL]).
NAME describes the options that SEED leads to; with TERMINAL non-nil, a CLI
runs in a terminal of Emacs."
  `(progn
     ,@(mapcar
        (pcase-lambda (`(,seed ,steps ,name . ,terminal))
          `(ert-deftest ,(intern (format "gemini-companion-monkey/%s" name)) ()
             "No rule is violated when a user and clients act concurrently."
             (gemini-companion-monkey-test--run ,seed ,steps ,@terminal)))
        runs)))

(gemini-companion-monkey-test--define
 (5 20 ediff-keeps-the-focus)
 (11 20 inline-keeps-the-focus)
 (16 20 ediff-keeps-the-focus-with-repeat-mode)
 (10 20 inline-keeps-the-focus-with-repeat-mode)
 (13 20 ediff-takes-the-focus)
 (30 20 inline-takes-the-focus)
 (20 25 ediff-waits-in-the-queue)
 (513 20 terminal-and-ediff t)
 (511 20 terminal-and-inline t)
 (517 20 terminal-and-ediff-takes-the-focus t))

(when (getenv "GEMINI_COMPANION_MONKEY_SEED")
  (ert-deftest gemini-companion-monkey/replay ()
    "Repeat the run that the environment asks for."
    (gemini-companion-monkey-test--run
     (string-to-number (getenv "GEMINI_COMPANION_MONKEY_SEED"))
     (string-to-number (or (getenv "GEMINI_COMPANION_MONKEY_STEPS") "40"))
     (getenv "GEMINI_COMPANION_MONKEY_TERMINAL"))))

;;; monkey-test.el ends here

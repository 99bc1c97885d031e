;;; gemini-companion-log-test.el --- Tests of the log  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-log)

(ert-deftest gemini-companion-log/durations-in-words ()
  (pcase-dolist (`(,seconds ,words) '((-5 "0 s") (3.9 "3 s") (59 "59 s") (125 "2 min")
                                      (7300 "2 h") (200000 "2 d")))
    (should (equal (gemini-companion-log-duration seconds) words))))

;;; gemini-companion-log-test.el ends here

;;; gemini-companion-bench-proc.el --- What the kernel says of a process  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Loads nothing: it is loaded by an Emacs whose start is measured, too.

;;; Code:

(defun gemini-companion-bench-proc (process field)
  "Return the number in the FIELD of the status of PROCESS.
PROCESS is its id, \"self\", or for a thread \"ID/task/THREAD\"."
  (with-temp-buffer
    (insert-file-contents (format "/proc/%s/status" process))
    (re-search-forward (format "^%s:\\s-*\\([0-9]+\\)" field))
    (string-to-number (match-string 1))))

(provide 'gemini-companion-bench-proc)
;;; gemini-companion-bench-proc.el ends here

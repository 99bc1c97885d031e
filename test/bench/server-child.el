;;; server-child.el --- An Emacs that only serves  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Loaded by a batch Emacs of its own: switches the mode on, prints a line, PORT TOKEN, and then is
;; idle, or with $BENCH_BUSY set is busy with Lisp for ever.

;;; Code:

(require 'gemini-companion)

(gemini-companion-mode 1)
;; Not `princ', which keeps it until the end.
(send-string-to-terminal (format "%s %s\n" (getenv "GEMINI_CLI_IDE_SERVER_PORT")
                                 (getenv "GEMINI_CLI_IDE_AUTH_TOKEN")))
(if (getenv "BENCH_BUSY")
    (while t)
  (while t (accept-process-output nil 1000)))

;;; server-child.el ends here

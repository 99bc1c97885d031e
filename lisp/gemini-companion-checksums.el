;;; gemini-companion-checksums.el --- What the published modules must be -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Written by scripts/checksums when a release is made.  Empty in a checkout between releases: no
;; module is published for it, and it is built from the sources.

;;; Code:



(defconst gemini-companion-checksums
  '()
  "Alist of the files of published modules and their SHA-256, in hex.")

(provide 'gemini-companion-checksums)
;;; gemini-companion-checksums.el ends here

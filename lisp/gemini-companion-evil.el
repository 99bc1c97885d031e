;;; gemini-companion-evil.el --- What users of Evil need -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Our major modes have commands on single keys.  Evil would have its own on them.

;;; Code:

(defvar evil-emacs-state-modes)

(defun gemini-companion-evil-keep-keys (mode)
  "Let Evil begin in its Emacs state in buffers of MODE, whose keys work there.
MODE is the symbol of a major mode.  To be called before Evil looks at
the buffer, which is when the mode's hooks run.  A user who prefers
other keys can define them for that state, or set another state in the
hook of MODE."
  (when (boundp 'evil-emacs-state-modes)
    (add-to-list 'evil-emacs-state-modes mode)))

(provide 'gemini-companion-evil)
;;; gemini-companion-evil.el ends here

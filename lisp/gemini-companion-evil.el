;;; gemini-companion-evil.el --- What users of Evil need -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Our major modes have commands on single keys.  Evil would have its own on them; and where one
;; types at once, in a prompt or in a CLI, letters would be its commands, too.

;;; Code:

(declare-function evil-emacs-state "ext:evil-states" t t)
(declare-function evil-initial-state "ext:evil-core")
(declare-function evil-initial-state-for-buffer "ext:evil-core")
(defvar evil-emacs-state-modes)
(defvar evil-insert-state-modes)
(defvar evil-state)

(defun gemini-companion-evil-keep-keys (mode)
  "Let Evil begin in its Emacs state in buffers of MODE, whose keys work there.
MODE is the symbol of a major mode.  To be called before Evil looks at
the buffer, which is when the mode's hooks run.  A user who prefers
other keys can define them for that state, or set another state in the
hook of MODE."
  (when (boundp 'evil-emacs-state-modes)
    (add-to-list 'evil-emacs-state-modes mode)))

(defun gemini-companion-evil-begin-to-type (mode)
  "Let Evil begin in its insert state in buffers of MODE, the symbol of a mode.
Unless it was told in which one.  For the rest see
`gemini-companion-evil-keep-keys'."
  (when (and (boundp 'evil-insert-state-modes)
             (not (evil-initial-state mode)))
    (add-to-list 'evil-insert-state-modes mode)))

(add-hook 'gemini-companion-compose-mode-hook #'gemini-companion-evil--compose)

(defun gemini-companion-evil--compose ()
  "Let Evil begin in its insert state where a prompt is composed."
  (gemini-companion-evil-begin-to-type 'gemini-companion-compose-mode))

(defun gemini-companion-evil-pass-keys ()
  "Let Evil pass all keys to the program in the current buffer, a terminal.
Unless it was told in which state it begins there: by the user, by Evil
Collection, or by itself, as for Term."
  (when (and (eq (bound-and-true-p evil-state) 'normal)
             (not (evil-initial-state-for-buffer)))
    (evil-emacs-state)))

(provide 'gemini-companion-evil)
;;; gemini-companion-evil.el ends here

;;; gemini-companion-calm.el --- When windows may change -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Whether the user is in the middle of something: a prompt, a key sequence, a search, or just
;; typing.  Windows appear and go away only at a calm moment.

;;; Code:



(defconst gemini-companion-calm--seconds 0.5
  "Seconds for which the user must have pressed no key.")

(defun gemini-companion-calm-undisturbed-p ()
  "Return non-nil if nothing waits for the user's next key.
That could be a prompt, the rest of a key sequence, or a search."
  (and (zerop (recursion-depth))
       (null this-command)
       (zerop (length (this-command-keys-vector)))
       (null prefix-arg)
       (not (active-minibuffer-window))
       (not (bound-and-true-p isearch-mode))
       (not defining-kbd-macro)
       (not executing-kbd-macro)
       (not (input-pending-p))
       (not throw-on-input)
       ;; The map of Repeat mode is there until another key is pressed, which may be in an hour.
       (or (null overriding-terminal-local-map)
           (bound-and-true-p repeat-in-progress))
       (not (bound-and-true-p transient--prefix))))

(defun gemini-companion-calm-idle-p (seconds)
  "Return non-nil if the user has pressed no key for SECONDS."
  (let ((idle (current-idle-time)))
    (or (null idle) (> (float-time idle) seconds))))

(defun gemini-companion-calm-p ()
  "Return non-nil if windows may appear: the user is in the middle of nothing."
  (and (gemini-companion-calm-undisturbed-p)
       (gemini-companion-calm-user-frame-p)
       (gemini-companion-calm-idle-p gemini-companion-calm--seconds)))

(defun gemini-companion-calm-user-frame-p ()
  "Return non-nil if the selected frame is one that a user sees.
A daemon has a frame that nobody sees."
  (not (equal (terminal-name (frame-terminal)) "initial_terminal")))

(provide 'gemini-companion-calm)
;;; gemini-companion-calm.el ends here

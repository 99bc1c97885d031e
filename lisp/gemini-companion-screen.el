;;; gemini-companion-screen.el --- What a CLI does, as its screen says -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A CLI in a terminal of Emacs tells nobody what it does but its user, by what it draws.  So that is
;; read: whether it asks something, is at work or at rest, and what is in its prompt.

;;; Code:

(require 'subr-x)

(defvar ghostel--input-mode)
(defvar vterm-copy-mode)

(defconst gemini-companion-screen--below 5
  "Lines that may be below a question: a word on it, what a terminal left behind.")

(defconst gemini-companion-screen--choice "^ *│ *[●›❯] *[0-9]+\\. "
  "What the selected choice of a question looks like, in a box.")

(defconst gemini-companion-screen--composer "^ *\\(?:[─▀▄]\\{8\\}\\|[>!*] \\)"
  "What is around and before the prompt that the user types.")

(defconst gemini-companion-screen--prompt-box
  "^ *[─▀▄]\\{8,\\}\n\\(?:[─▀▄]+\n\\)?\\( *\\([>!*]\\) \\(?:.*\n\\)+?\\) *[─▀▄]\\{8\\}"
  "What the user's prompt looks like, with the lines around it.
The first may be a column wider than the terminal.")

(defconst gemini-companion-screen-empty "\\`>Typeyourmessageor@"
  "What is in a prompt in which nothing is typed, without spaces.")

(defconst gemini-companion-screen--working "esc to cancel"
  "What a CLI that is at work says, some lines above the prompt.")

(defconst gemini-companion-screen--around 10
  "Lines that may be above and below the prompt: what a CLI says of its work.
A terminal whose size was changed may have left some behind.")

;;;; Questions

(defun gemini-companion-screen-question-p ()
  "Return non-nil if the CLI in the current buffer asks for one of some choices.
These are in the last box, and the user's prompt is not below that."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char (point-max))
      (skip-chars-backward " \t\n")
      (let* ((limit (save-excursion
                      (forward-line (- gemini-companion-screen--below))
                      (point)))
             (bottom (re-search-backward "^ *╰" limit t)))
        (and bottom
             (not (save-excursion
                    (re-search-forward gemini-companion-screen--composer nil t)))
             (progn (re-search-backward "^ *╭" nil 'move)
                    (re-search-forward gemini-companion-screen--choice bottom t))
             t)))))

;;;; The prompt

(defun gemini-companion-screen-prompt ()
  "Return what is in the prompt of the CLI in the current buffer, without spaces.
It begins with the sign of the prompt.  Return `works' if the CLI does,
and nil if there is no prompt."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char (point-max))
      (skip-chars-backward " \t\n")
      (let ((limit (line-beginning-position (- gemini-companion-screen--around))))
        (when (and (re-search-backward gemini-companion-screen--prompt-box nil t)
                   (> (match-end 0) limit))
          (let ((text (match-string-no-properties 1)))
            (if (re-search-backward gemini-companion-screen--working
                                    (line-beginning-position (- gemini-companion-screen--around))
                                    t)
                'works
              (gemini-companion-screen-without-spaces text))))))))

(defun gemini-companion-screen-without-spaces (text)
  "Return TEXT without what a terminal may have added to or changed in it."
  (replace-regexp-in-string "[[:space:]\u00a0]+" "" text))

;;;; The terminal

(defun gemini-companion-screen-frozen-p ()
  "Return non-nil if the current buffer does not follow its terminal."
  (or (bound-and-true-p vterm-copy-mode)
      (eq (bound-and-true-p ghostel--input-mode) 'copy)))

(provide 'gemini-companion-screen)
;;; gemini-companion-screen.el ends here

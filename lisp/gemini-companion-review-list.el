;;; gemini-companion-review-list.el --- The list of open changes -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The changes that await a decision, where each can be shown and decided.

;;; Code:

(require 'tabulated-list)
(require 'gemini-companion-decide)
(require 'gemini-companion-evil)
(require 'gemini-companion-list)
(require 'gemini-companion-log)
(require 'gemini-companion-queue)
(require 'gemini-companion-review)

(declare-function gemini-companion-reason-reject "gemini-companion-reason")

(defconst gemini-companion-review-list--pace 5
  "Seconds after which the list of open changes is printed anew, for their age.")

(defvar gemini-companion-review-list-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'gemini-companion-review-list-visit)
    (define-key map (kbd "a") #'gemini-companion-review-list-accept)
    (define-key map (kbd "k") #'gemini-companion-review-list-reject)
    ;; The last is the one that is shown.
    (define-key map (kbd "r") #'gemini-companion-review-list-reject)
    (define-key map (kbd "h") 'gemini-companion-review-history)
    (define-key map [mouse-2] #'gemini-companion-review-list-visit)
    map)
  "Keys in the list of open changes.")

(define-derived-mode gemini-companion-review-list-mode tabulated-list-mode "Gemini-Reviews"
  "Major mode for the list of changes that await your decision.
\\{gemini-companion-review-list-mode-map}"
  :interactive nil
  (gemini-companion-evil-keep-keys 'gemini-companion-review-list-mode)
  (setq gemini-companion-list-columns
        `(("File" t)
          ("Client" t)
          ("Age" ,(gemini-companion-list-younger #'gemini-companion-review-created)
           :right-align t)
          ("Change" nil)
          ("State" t))
        gemini-companion-list-find #'gemini-companion-review-list--lines
        gemini-companion-list-offer #'gemini-companion-review-list--offer-decisions)
  (gemini-companion-list-follow gemini-companion-review-list--pace))

;;;###autoload
(defun gemini-companion-review-list ()
  "List the changes that await your decision, to show or to decide them."
  (interactive)
  (gemini-companion-list-pop-to "*gemini reviews*"
                                #'gemini-companion-review-list-mode))

(defun gemini-companion-review-list--lines ()
  "Return what the list of open changes shows, for `tabulated-list-entries'."
  (mapcar (lambda (review)
            (list review
                  (vector (gemini-companion-list-link
                           review (gemini-companion-review-path review) "show this change")
                          (gemini-companion-log-one-line
                           (gemini-companion-review-client review))
                          (gemini-companion-log-duration
                           (float-time
                            (time-since (gemini-companion-review-created review))))
                          (gemini-companion-list-size
                           (gemini-companion-review-change review))
                          (gemini-companion-review-list--state review))))
          (gemini-companion-review-list-open)))

(defun gemini-companion-review-list--offer-decisions ()
  "Return the keys that work on the current line of the list of open changes."
  `(,(when (zerop (gemini-companion-review-count)) "No change awaits your decision")
    ,@(when (tabulated-list-get-id)
        '((gemini-companion-review-list-visit . "show")
          (gemini-companion-review-list-accept . "accept")
          (gemini-companion-review-list-reject . "reject")))
    (gemini-companion-review-history . "history")
    (quit-window . "quit")))

(defun gemini-companion-review-list--state (review)
  "Return in words where REVIEW is, and what an accept would miss."
  (concat (cond ((gemini-companion-review-hide review) "on screen")
                ((gemini-companion-review-fault review)
                 (propertize (concat "cannot be shown: " (gemini-companion-review-fault review))
                             'face 'error))
                ((gemini-companion-review-postponed review) "put off")
                (t "waiting"))
          (pcase (gemini-companion-review-find-conflict review)
            ('unsaved (propertize ", unsaved edits" 'face 'warning))
            ('changed (propertize ", changed on disk" 'face 'warning)))))

(defun gemini-companion-review-list--review ()
  "Return the open review on the current line."
  (let ((review (gemini-companion-list-at-point)))
    (gemini-companion-review-check-open review)
    review))

(defun gemini-companion-review-list-visit (review)
  "Show REVIEW, the one on the current line, and go there."
  (interactive (list (gemini-companion-review-list--review))
               gemini-companion-review-list-mode)
  (gemini-companion-review-visit review))

(defun gemini-companion-review-list-accept (review)
  "Accept REVIEW, the one on the current line; the client writes the file.
If it was never on screen, show it instead.  If to accept would lose
something, ask first."
  (interactive (list (gemini-companion-review-list--review))
               gemini-companion-review-list-mode)
  (gemini-companion-review-accept review))

(defun gemini-companion-review-list-reject (review &optional with-reason)
  "Reject REVIEW, the one on the current line; the file stays as it is.
For WITH-REASON, interactively the prefix argument, see
`gemini-companion-reject'."
  (interactive (list (gemini-companion-review-list--review) current-prefix-arg)
               gemini-companion-review-list-mode)
  (if with-reason
      (gemini-companion-reason-reject review)
    (gemini-companion-review-reject review)))

(provide 'gemini-companion-review-list)
;;; gemini-companion-review-list.el ends here

;;; gemini-companion-whole.el --- A review of a new file -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows a review of a file that there is not yet: the proposal alone, in one window.  It is there to
;; be read, so letters scroll it, as in View mode, until the user wants to edit it.

;;; Code:

(require 'subr-x)
(require 'gemini-companion-header)
(require 'gemini-companion-queue)
(require 'gemini-companion-review)
(require 'gemini-companion-texts)
(require 'gemini-companion-view)

(cl-defstruct (gemini-companion-whole
               (:include gemini-companion-view)
               (:constructor gemini-companion-whole--make)
               (:copier nil))
  "A review shown as its proposal.")

(defvar gemini-companion-whole-mode-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map special-mode-map)
    (define-key map (kbd "RET") #'gemini-companion-whole-edit)
    (define-key map (kbd "e") #'gemini-companion-whole-edit)
    (define-key map (kbd "q") #'gemini-companion-review-quit)
    (define-key map (kbd "g") #'undefined)
    (define-key map [remap read-only-mode] #'gemini-companion-whole-edit)
    map)
  "Keys in the proposal of a new file while that is read.")

(define-minor-mode gemini-companion-whole-mode
  "Read the proposal of a new file; letters do not insert themselves.
\\<gemini-companion-whole-mode-map>\\[gemini-companion-whole-edit] ends this mode, for you to edit.

\\{gemini-companion-whole-mode-map}"
  :interactive nil
  :lighter nil
  (setq buffer-read-only gemini-companion-whole-mode))

(defun gemini-companion-whole-edit ()
  "Let the proposal be edited."
  (interactive)
  (gemini-companion-review-check-open gemini-companion-review-of-buffer)
  (gemini-companion-whole-mode -1)
  (force-mode-line-update))

(defun gemini-companion-whole-show (review focus)
  "Show REVIEW as its proposal.  Return a function that takes it off the screen.
FOCUS is `keep' or `select', see `gemini-companion-diff-focus'."
  (let ((view (gemini-companion-whole--make :review review)))
    (gemini-companion-view-begin view focus)
    (condition-case error
        (gemini-companion-whole--start view)
      ((error quit)
       (gemini-companion-whole--hide view)
       (signal (car error) (cdr error))))
    (lambda () (gemini-companion-whole--hide view))))

(defun gemini-companion-whole--start (view)
  "Show the proposal of VIEW."
  (let* ((review (gemini-companion-whole-review view))
         (proposal (gemini-companion-texts-proposal review))
         (window (gemini-companion-view-make-room view)))
    (with-current-buffer proposal
      (gemini-companion-texts-set-header #'gemini-companion-whole--header)
      (gemini-companion-whole-mode))
    (set-window-buffer window proposal)
    (select-window window)
    (gemini-companion-view-shown view)
    (gemini-companion-view-watch view)))

(cl-defmethod gemini-companion-view-buffers ((view gemini-companion-whole))
  "Return the living buffers of VIEW that the user sees."
  (seq-filter #'buffer-live-p
              (list (gemini-companion-review-proposal (gemini-companion-whole-review view)))))

(defun gemini-companion-whole--hide (view)
  "Take VIEW off the screen."
  (gemini-companion-view-end view #'ignore)
  (let ((proposal (gemini-companion-review-proposal (gemini-companion-whole-review view))))
    (when (buffer-live-p proposal)
      (with-current-buffer proposal
        ;; What has ended stays read-only.
        (when (gemini-companion-review-open-p (gemini-companion-whole-review view))
          (gemini-companion-whole-mode -1))
        (gemini-companion-texts-set-header nil)))))

(defun gemini-companion-whole--header (review)
  "Return the header line for the proposal of REVIEW."
  (gemini-companion-header
   review nil
   `((gemini-companion-accept "accepts")
     (gemini-companion-reject "rejects")
     ,@(and gemini-companion-whole-mode '((gemini-companion-whole-edit "edits"))))))

(provide 'gemini-companion-whole)
;;; gemini-companion-whole.el ends here

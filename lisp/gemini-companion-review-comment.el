;;; gemini-companion-review-comment.el --- Comments on lines of a change -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The user comments on lines of a change, in any view.  When the change is decided, all comments
;; are sent to the client together: they are the reason of a rejection, or else the next prompt.
;;
;; A comment is an overlay in the proposal, so it stays at its lines while that is edited, and
;; shows itself below them.  One on removed lines is at the line that takes their place, and quotes
;; them.  Views that show the proposal in a buffer of their own have copies of the overlays.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'seq)
(require 'gemini-companion-comment)
(require 'gemini-companion-log)
(require 'gemini-companion-review)

(declare-function gemini-companion-cli-compose-send-comments "gemini-companion-cli-compose")

(defvar-local gemini-companion-review-comment-place-function nil
  "Function that returns the place of a comment on lines of this buffer.
It is called with positions in the first and in the last line, and returns
the buffer of the proposal, the first and the last line there, and, for
removed lines, their text.  The default is for the proposal itself.")

(defvar gemini-companion-review-comment-change-hook nil
  "Hook run in the buffer of a proposal when its comments have changed.")

;;;; Commenting

;;;###autoload
(defun gemini-companion-review-comment ()
  "Comment on the line at point, or on the lines of the region.
If there is a comment already, edit it; to remove it, leave it empty.  Emacs
sends all comments on a change when you have accepted or rejected it."
  (interactive nil gemini-companion-review-mode)
  (gemini-companion-review-check-open
   (or gemini-companion-review-of-buffer (user-error "No proposed change is shown here")))
  (pcase-let* ((`(,start . ,end) (gemini-companion-comment-bounds))
               (review gemini-companion-review-of-buffer)
               (`(,proposal ,first ,last ,quote)
                (funcall (or gemini-companion-review-comment-place-function
                             #'gemini-companion-review-comment--place)
                         (save-excursion (goto-char start) (line-beginning-position))
                         end))
               (`(,_ ,_ ,_ ,before ,overlay)
                (seq-find (pcase-lambda (`(,line ,_ ,quoted . ,_))
                            (and (= line first) (equal quoted quote)))
                          (gemini-companion-comment-list proposal)))
               (text (gemini-companion-comment-read first before)))
    (gemini-companion-review-check-open review)
    (when overlay
      (delete-overlay overlay))
    (unless (string-empty-p text)
      (gemini-companion-comment-add proposal first last text quote))
    (deactivate-mark)
    (force-mode-line-update t)
    (with-current-buffer proposal
      (gemini-companion-log-run-hook 'gemini-companion-review-comment-change-hook))))

(defun gemini-companion-review-comment--place (start end)
  "Return the place of a comment on the lines from START to END of a proposal."
  (unless (eq (current-buffer)
              (gemini-companion-review-proposal gemini-companion-review-of-buffer))
    (user-error "Comment on lines of the proposed text"))
  (list (current-buffer) (line-number-at-pos start t) (line-number-at-pos end t) nil))

;;;; The comments on a change

(defun gemini-companion-review-comment-mirror (proposal position-of)
  "Show the comments in the buffer PROPOSAL in the current buffer, too.
POSITION-OF returns the position, in the last line of a comment here, given
that line in the proposal, and the text of removed lines or nil."
  (mapc #'delete-overlay gemini-companion-comment-overlays)
  (setq gemini-companion-comment-overlays nil)
  (pcase-dolist (`(,_ ,last ,quote ,text ,_) (gemini-companion-comment-list proposal))
    (save-excursion
      (goto-char (funcall position-of last quote))
      (gemini-companion-comment-show (line-beginning-position) text quote))))

(defun gemini-companion-review-comment-count (review)
  "Return the number of comments on REVIEW."
  (let ((proposal (gemini-companion-review-proposal review)))
    ;; A header line asks.
    (if (buffer-live-p proposal)
        (seq-count #'overlay-buffer
                   (buffer-local-value 'gemini-companion-comment-overlays proposal))
      0)))

(defun gemini-companion-review-comment-save (review)
  "Save the comments on REVIEW, whose proposal is being killed."
  (setf (gemini-companion-review-comments review)
        (mapcar #'butlast
                (gemini-companion-comment-list (gemini-companion-review-proposal review)))))

(defun gemini-companion-review-comment-restore (review)
  "Show the comments on REVIEW that were saved in its proposal, which is new."
  (pcase-dolist (`(,first ,last ,quote ,text) (gemini-companion-review-comments review))
    (gemini-companion-comment-add (gemini-companion-review-proposal review)
                                  first last text quote)))

;;;###autoload
(defun gemini-companion-review-comment-send (review outcome)
  "Send the comments on REVIEW, which has ended with OUTCOME."
  (when-let* ((prompt (gemini-companion-review-comment--prompt review)))
    (gemini-companion-cli-compose-send-comments review outcome prompt)))
;;;###autoload (add-hook 'gemini-companion-review-end-functions #'gemini-companion-review-comment-send)

(defun gemini-companion-review-comment--prompt (review)
  "Return the comments on REVIEW as a prompt, or nil if there are none.
Each has the name of the file, the lines, what these say and the comment."
  (when (buffer-live-p (gemini-companion-review-proposal review))
    (gemini-companion-review-comment-save review))
  (when-let* ((comments (gemini-companion-review-comments review))
              (name (gemini-companion-review-project-path review))
              (lines (split-string (gemini-companion-review-current-text review) "\n")))
    (mapconcat
     (pcase-lambda (`(,first ,last ,quote ,text))
       (gemini-companion-comment-format
        name first last
        ;; For Gemini CLI an @ stands before the name of a file.
        (string-replace "@" "\\@" (or quote (nth (1- first) lines) ""))
        text quote))
     comments "\n")))

(provide 'gemini-companion-review-comment)
;;; gemini-companion-review-comment.el ends here

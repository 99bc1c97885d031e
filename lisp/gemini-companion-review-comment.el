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
(require 'subr-x)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)

(defface gemini-companion-review-comment
  '((((min-colors 88) (background light)) :background "#ffffd7" :foreground "#444444" :extend t)
    (((min-colors 88) (background dark)) :background "#444400" :foreground "#eeeeee" :extend t)
    (t :inherit highlight :extend t))
  "Face for your comments on lines of a change."
  :group 'gemini-companion-review
  :package-version '(gemini-companion . "0.1.0"))

(defvar-local gemini-companion-review-comment-place-function nil
  "Function that returns the place of a comment on lines of this buffer.
It is called with positions in the first and in the last line, and returns
the buffer of the proposal, the first and the last line there, and, for
removed lines, their text.  The default is for the proposal itself.")

(defvar gemini-companion-review-comment-change-hook nil
  "Hook run in the buffer of a proposal when its comments have changed.")

(defvar gemini-companion-review-comment-send-functions nil
  "Functions that may send the comments on a review that has ended.
Each is called with the review, its outcome and the comments as a prompt.")

(defvar-local gemini-companion-review-comment--overlays nil
  "The comments in this buffer, with some that were deleted.")
(put 'gemini-companion-review-comment--overlays 'permanent-local t)

(defvar gemini-companion-review-comment--history nil
  "History of comments.")

;;;; Commenting

;;;###autoload
(defun gemini-companion-review-comment ()
  "Comment on the line at point, or on the lines of the region.
If there is a comment already, edit it; to remove it, leave it empty.  Emacs
sends all comments on a change when you have accepted or rejected it."
  (interactive nil gemini-companion-review-mode)
  (let ((review (or gemini-companion-review-of-buffer
                    (user-error "No proposed change is shown here")))
        (start (if (use-region-p) (region-beginning) (point)))
        (end (if (use-region-p) (max (region-beginning) (1- (region-end))) (point))))
    (gemini-companion-review-check-open review)
    (pcase-let* ((`(,proposal ,first ,last ,quote)
                  (funcall (or gemini-companion-review-comment-place-function
                               #'gemini-companion-review-comment--place)
                           (save-excursion (goto-char start) (line-beginning-position))
                           end))
                 (`(,_ ,_ ,_ ,before ,overlay)
                  (seq-find (pcase-lambda (`(,line ,_ ,quoted . ,_))
                              (and (= line first) (equal quoted quote)))
                            (gemini-companion-review-comment--list proposal)))
                 (text (string-trim
                        (read-string (format "Comment on line %d: " first) before
                                     'gemini-companion-review-comment--history))))
      (gemini-companion-review-check-open review)
      (when overlay (delete-overlay overlay))
      (unless (string-empty-p text)
        (gemini-companion-review-comment--add proposal first last quote text))
      (deactivate-mark)
      (force-mode-line-update t)
      (with-current-buffer proposal
        (gemini-companion-log-run-hook 'gemini-companion-review-comment-change-hook)))))

(defun gemini-companion-review-comment--place (start end)
  "Return the place of a comment on the lines from START to END of a proposal."
  (unless (eq (current-buffer)
              (gemini-companion-review-proposal gemini-companion-review-of-buffer))
    (user-error "Comment on lines of the proposed text"))
  (list (current-buffer) (line-number-at-pos start t) (line-number-at-pos end t) nil))

(defun gemini-companion-review-comment--add (proposal first last quote text)
  "Add a comment, TEXT, on the lines FIRST to LAST of the buffer PROPOSAL.
QUOTE is as in `gemini-companion-review-comment-place-function'."
  (with-current-buffer proposal
    (save-restriction
      (widen)
      (gemini-companion-review-comment--show (gemini-companion-ui-line-start first)
                                             (gemini-companion-ui-line-start last)
                                             text quote))))

(defun gemini-companion-review-comment--show (start last text quote)
  "Show a comment of TEXT on QUOTE below the line that starts at LAST.
It is on the lines from START on.  They may be empty."
  (let ((overlay (make-overlay start (save-excursion (goto-char last) (line-end-position)))))
    (push overlay gemini-companion-review-comment--overlays)
    (overlay-put overlay 'gemini-companion-review-comment text)
    (overlay-put overlay 'gemini-companion-quote quote)
    (overlay-put overlay 'after-string
                 (concat (propertize "\n" 'cursor t)
                         (propertize (concat "» " (string-fill text 70)
                                             ;; As far as the line above is colored.
                                             (propertize " " 'display '(space :align-to right)))
                                     'face 'gemini-companion-review-comment
                                     'line-prefix "" 'wrap-prefix "  ")))))

;;;; The comments on a change

(defun gemini-companion-review-comment--list (buffer)
  "Return the comments in BUFFER, in the order of its lines.
Each is a list of the first and the last line, the text of removed lines or
nil, the comment, and its overlay."
  ;; Not `overlays-in', for a difference in Ediff has several.
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (mapcar (lambda (it)
                (list (line-number-at-pos (overlay-start it) t)
                      (line-number-at-pos (overlay-end it) t)
                      (overlay-get it 'gemini-companion-quote)
                      (overlay-get it 'gemini-companion-review-comment)
                      it))
              (sort (seq-filter #'overlay-buffer gemini-companion-review-comment--overlays)
                    (lambda (one other) (< (overlay-start one) (overlay-start other))))))))

(defun gemini-companion-review-comment-mirror (proposal position-of)
  "Show the comments in the buffer PROPOSAL in the current buffer, too.
POSITION-OF returns the start of the last line of a comment here, given that
line in the proposal, and the text of removed lines or nil."
  (mapc #'delete-overlay gemini-companion-review-comment--overlays)
  (setq gemini-companion-review-comment--overlays nil)
  (pcase-dolist (`(,_ ,last ,quote ,text ,_) (gemini-companion-review-comment--list proposal))
    (let ((start (funcall position-of last quote)))
      (gemini-companion-review-comment--show start start text quote))))

(defun gemini-companion-review-comment-count (review)
  "Return the number of comments on REVIEW."
  (let ((proposal (gemini-companion-review-proposal review)))
    ;; A header line asks.
    (if (buffer-live-p proposal)
        (seq-count #'overlay-buffer
                   (buffer-local-value 'gemini-companion-review-comment--overlays proposal))
      0)))

(defun gemini-companion-review-comment-save (review)
  "Save the comments on REVIEW, whose proposal is being killed."
  (setf (gemini-companion-review-comments review)
        (mapcar #'butlast
                (gemini-companion-review-comment--list (gemini-companion-review-proposal review)))))

(defun gemini-companion-review-comment-restore (review)
  "Show the comments on REVIEW that were saved in its proposal, which is new."
  (pcase-dolist (`(,first ,last ,quote ,text) (gemini-companion-review-comments review))
    (gemini-companion-review-comment--add (gemini-companion-review-proposal review)
                                          first last quote text)))

;;;###autoload
(defun gemini-companion-review-comment-send (review outcome)
  "Have the comments on REVIEW sent, which has ended with OUTCOME."
  (when-let* ((prompt (gemini-companion-review-comment--prompt review)))
    (gemini-companion-log-run-hook 'gemini-companion-review-comment-send-functions
                                   review outcome prompt)))
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
       (format "%s:%s%s `%s`: %s" name
               (if (= first last) first (format "%d-%d" first last))
               (if quote " (removed)" "")
               ;; For Gemini CLI an @ stands before the name of a file.
               (string-replace "@" "\\@"
                               (string-trim (or quote (nth (1- first) lines) "")))
               text))
     comments "\n")))

(provide 'gemini-companion-review-comment)
;;; gemini-companion-review-comment.el ends here

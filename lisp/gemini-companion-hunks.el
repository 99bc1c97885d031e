;;; gemini-companion-hunks.el --- Views of hunks -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the views share that show a review in one buffer, hunk by hunk: the diff, and the view in the
;; window of the file.
;;
;; When the user drops a hunk, the proposal is changed to agree with the file there.  So the
;; proposal is always what an accept sends.  A view remembers nothing of its hunks: it compares the
;; texts again after each change.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-comment)
(require 'gemini-companion-log)
(require 'gemini-companion-proposal)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)
(require 'gemini-companion-view)

(declare-function gemini-companion-ediff-show "gemini-companion-ediff")

(defconst gemini-companion-hunks--pause 0.3
  "Seconds after the last edit of the proposal until its view shows it.")

(cl-defstruct (gemini-companion-hunks
               (:include gemini-companion-view)
               (:constructor nil)
               (:copier nil))
  "A review shown hunk by hunk.  Each such view includes this structure."
  (buffer nil :documentation "The buffer that shows the hunks.")
  (current nil :documentation "A hidden buffer with the file as it is now.")
  (count 0 :documentation "The number of hunks.")
  (tick nil :documentation "The modification tick of the proposal that the buffer shows.")
  (edited nil :documentation "The position of the last edit of the proposal since then, or nil.")
  (timer nil :documentation "The timer that waits for a pause in editing, or nil."))

(defvar-local gemini-companion-hunks-of-buffer nil
  "The view to which this buffer belongs.")
(put 'gemini-companion-hunks-of-buffer 'permanent-local t)

(cl-defgeneric gemini-companion-hunks-compare (view line)
  "Show in the buffer of VIEW how its proposal and the file differ now.
Go to LINE of the proposal.  Call `gemini-companion-hunks-note-shown'.")

(cl-defgeneric gemini-companion-hunks-line (view)
  "Return the line of the proposal at point in the current buffer, that of VIEW.")

(cl-defgeneric gemini-companion-hunks-position (view line removed)
  "Return the position of LINE of the proposal in the current buffer, that of VIEW.
If REMOVED is non-nil, it is the text of lines that were removed before
LINE: return the position of the last of these, if it is there.")

(cl-defgeneric gemini-companion-hunks-removed-line (view)
  "Return the text of the line at point, if VIEW shows that it is removed.
VIEW is that of the current buffer.")

;;;; Starting and ending

(defun gemini-companion-hunks-show (view focus)
  "Show VIEW.  Return a function that takes it off the screen.
FOCUS is `keep' or `select', see `gemini-companion-diff-focus'.  Show a
new file, or three texts, as `gemini-companion-ediff-show' does."
  (let ((review (gemini-companion-view-review view)))
    (if (or (gemini-companion-review-with-base review)
            (not (gemini-companion-proposal-file-p review)))
        (gemini-companion-ediff-show review focus)
      (gemini-companion-view-show view focus))))

(defun gemini-companion-hunks-start (view buffer)
  "Have VIEW show its hunks in BUFFER, and follow edits of its proposal."
  (setf (gemini-companion-hunks-buffer view) buffer)
  (with-current-buffer buffer
    (setq gemini-companion-hunks-of-buffer view
          gemini-companion-comment-place-function #'gemini-companion-hunks--comment-place))
  (with-current-buffer (gemini-companion-proposal-buffer (gemini-companion-view-review view))
    (setq gemini-companion-hunks-of-buffer view)
    (add-hook 'gemini-companion-comment-change-hook #'gemini-companion-hunks--show-comments nil t)
    (add-hook 'after-change-functions #'gemini-companion-hunks--proposal-changed nil t))
  (gemini-companion-hunks--read-file view))

(defun gemini-companion-hunks--read-file (view)
  "Read the file of VIEW as it is now."
  (let ((before (gemini-companion-hunks-current view))
        (current (gemini-companion-proposal-file-buffer (gemini-companion-view-review view))))
    (with-current-buffer current
      ;; A leading space hides it.
      (rename-buffer (concat " " (buffer-name)) t))
    (setf (gemini-companion-hunks-current view) current
          ;; What is shown is now out of date.
          (gemini-companion-hunks-tick view) nil)
    (gemini-companion-ui-kill-buffer before)))

(cl-defmethod gemini-companion-view-buffers ((view gemini-companion-hunks))
  "Return the buffer of VIEW and the proposal, which may be shown."
  (list (gemini-companion-hunks-buffer view) (gemini-companion-view-proposal view)))

(cl-defmethod gemini-companion-view-clean-up ((view gemini-companion-hunks))
  "Kill the buffers of VIEW, and stop watching the proposal."
  (gemini-companion-hunks--cancel-timer view)
  (when-let* ((proposal (gemini-companion-view-proposal view)))
    (with-current-buffer proposal
      (setq gemini-companion-hunks-of-buffer nil)
      (remove-hook 'gemini-companion-comment-change-hook
                   #'gemini-companion-hunks--show-comments t)
      (remove-hook 'after-change-functions #'gemini-companion-hunks--proposal-changed t)))
  (gemini-companion-ui-kill-buffer (gemini-companion-hunks-buffer view))
  (gemini-companion-ui-kill-buffer (gemini-companion-hunks-current view)))

;;;; Keeping it up to date

(defun gemini-companion-hunks-note-shown (view count)
  "Record that VIEW shows COUNT hunks, of its texts as they are now."
  (gemini-companion-hunks--cancel-timer view)
  (with-current-buffer (gemini-companion-hunks-buffer view)
    (set-buffer-modified-p nil))
  (setf (gemini-companion-hunks-tick view)
        (buffer-chars-modified-tick (gemini-companion-view-proposal view))
        (gemini-companion-hunks-edited view) nil
        (gemini-companion-hunks-count view) count)
  (gemini-companion-hunks--show-comments view)
  (force-mode-line-update t))

(defun gemini-companion-hunks--proposal-changed (start _end _length)
  "Compare again soon, since the proposal in the current buffer changed at START."
  (when-let* ((view gemini-companion-hunks-of-buffer))
    (gemini-companion-hunks--cancel-timer view)
    (setf (gemini-companion-hunks-edited view) start
          (gemini-companion-hunks-timer view)
          (run-at-time gemini-companion-hunks--pause nil
                       (lambda ()
                         (gemini-companion-log-errors "comparing"
                           (with-local-quit
                             (gemini-companion-hunks-update view))))))))
;; It stays if the user gives the proposal another major mode.
(put 'gemini-companion-hunks--proposal-changed 'permanent-local-hook t)

(defun gemini-companion-hunks--cancel-timer (view)
  "Cancel the timer of VIEW."
  (when-let* ((timer (gemini-companion-hunks-timer view)))
    (setf (gemini-companion-hunks-timer view) nil)
    (cancel-timer timer)))

(defun gemini-companion-hunks-update (view)
  "Compare again, and go to the last edit of the proposal of VIEW.
If there is none, stay at the line where point is."
  (gemini-companion-hunks-compare
   view
   (if-let* ((position (gemini-companion-hunks-edited view)))
       (with-current-buffer (gemini-companion-view-proposal view)
         (save-restriction
           (widen)
           (line-number-at-pos (min position (point-max)))))
     (with-current-buffer (gemini-companion-hunks-buffer view)
       (gemini-companion-hunks-line view)))))

(defun gemini-companion-hunks-revert (&rest _)
  "Read the file again and compare."
  (let ((view (gemini-companion-hunks-view-here)))
    (gemini-companion-hunks--read-file view)
    (gemini-companion-hunks-update view)))

;;;; Commands

(defun gemini-companion-hunks-view-here ()
  "Return the view of the current buffer, whose review must be open."
  (let ((view gemini-companion-hunks-of-buffer))
    (unless (and view
                 (eq (current-buffer) (gemini-companion-hunks-buffer view))
                 ;; If that was killed, the view is about to go away.
                 (gemini-companion-view-proposal view))
      (user-error "No proposed change is shown here"))
    (gemini-companion-review-check-open (gemini-companion-view-review view))
    view))

(defun gemini-companion-hunks-current-view ()
  "Return the view of the current buffer, which must be up to date.
Otherwise update it, and signal a `user-error': its hunks would mean other
lines."
  (let ((view (gemini-companion-hunks-view-here)))
    (unless (buffer-live-p (gemini-companion-hunks-current view))
      (gemini-companion-hunks-revert)
      (user-error "The file was read again: check the change, then try again"))
    (unless (and (eql (gemini-companion-hunks-tick view)
                      (buffer-chars-modified-tick (gemini-companion-view-proposal view)))
                 (not (buffer-modified-p)))
      (gemini-companion-hunks-update view)
      (user-error "The change was edited: check it, then try again"))
    view))

(defun gemini-companion-hunks-drop (view replacements)
  "Drop hunks of VIEW: make REPLACEMENTS in its proposal, and compare again.
For their form see `gemini-companion-hunks-replace'."
  (gemini-companion-hunks-replace (gemini-companion-view-proposal view) replacements)
  (deactivate-mark)
  ;; At the hunk, not at what was changed last.
  (setf (gemini-companion-hunks-edited view) nil)
  (gemini-companion-hunks-update view)
  (message "%s"
           (substitute-command-keys
            (format "Dropped, %s left; \\[gemini-companion-hunks-undo] brings it back"
                    (pcase (gemini-companion-hunks-count view)
                      (0 "none is")
                      (1 "one is")
                      (count (format "%d are" count)))))))

(defun gemini-companion-hunks-replace (buffer replacements)
  "Make REPLACEMENTS in BUFFER, as one step for undo.
They are a list of ((FIRST . NUMBER) . TEXT), the last ones first: NUMBER
lines from FIRST on are replaced by TEXT."
  (with-current-buffer buffer
    (save-restriction
      (widen)
      (undo-boundary)
      (save-excursion
        (pcase-dolist (`(,lines . ,text) replacements)
          (pcase-let ((`(,start ,end) (gemini-companion-hunks-bounds lines))
                      (inhibit-read-only t))
            (delete-region start end)
            (goto-char start)
            (insert text))))
      (undo-boundary))))

(defun gemini-companion-hunks-bounds (lines)
  "Return the start and the end of LINES, a cons of the first line and a number."
  (save-excursion
    (goto-char (point-min))
    (let ((cache-long-scans nil)) ; as in `gemini-companion-proposal-positions'
      (forward-line (1- (car lines)))
      (list (point) (progn (forward-line (cdr lines)) (point))))))

(defun gemini-companion-hunks-undo ()
  "Undo the last change of the proposal, such as a dropped hunk."
  (interactive nil gemini-companion-diff-mode gemini-companion-inline-mode)
  (let ((view (gemini-companion-hunks-view-here)))
    (with-current-buffer (gemini-companion-view-proposal view)
      (deactivate-mark)
      (when (gemini-companion-hunks--undone-p)
        (user-error "No further undo information"))
      (undo-boundary)
      ;; Do not continue the undo of another buffer.
      (let ((last-command nil) (this-command nil))
        (undo-only))
      (undo-boundary))
    (gemini-companion-hunks-update view)))

(defun gemini-companion-hunks--undone-p ()
  "Return non-nil if there is nothing to undo in the current buffer.
In that case `undo-only' would undo the last undo."
  (let ((list buffer-undo-list))
    (while (consp list)
      ;; Skip boundaries; from an undo go on with what was still to be undone, t for nothing.
      (setq list (if (car list)
                     (gethash list undo-equiv-table 'no-undo)
                   (cdr list))))
    (memq list '(nil t))))

;;;; Comments

(defun gemini-companion-hunks--comment-place (start end)
  "Return where in the proposal the lines from START to END are.
See `gemini-companion-comment-place-function'."
  (let ((view (gemini-companion-hunks-current-view))
        (lines nil)
        (removed nil)
        (texts nil))
    (save-excursion
      (goto-char start)
      (while (let ((line (gemini-companion-hunks-line view))
                   (text (gemini-companion-hunks-removed-line view)))
               (push line (if text removed lines))
               (when text
                 (push text texts))
               (and (zerop (forward-line)) (<= (point) end) (not (eobp))))))
    ;; One on other lines, too, is a comment on the proposal.
    (if lines
        (list (gemini-companion-view-proposal view) (apply #'min lines) (apply #'max lines) nil)
      (let ((line (apply #'min removed)))
        (list (gemini-companion-view-proposal view) line line
              (string-join (nreverse texts) "\n"))))))

(defun gemini-companion-hunks--show-comments (&optional view)
  "Show the comments on the proposal of VIEW.
By default that is the view of the current buffer."
  (let* ((view (or view gemini-companion-hunks-of-buffer))
         (proposal (gemini-companion-view-proposal view)))
    (with-current-buffer (gemini-companion-hunks-buffer view)
      (gemini-companion-comment-mirror
       proposal (apply-partially #'gemini-companion-hunks-position view)))))

;;;; Windows

(defun gemini-companion-hunks-rows ()
  "Return an alist of the windows of the current buffer, with the row of point."
  (mapcar (lambda (window)
            (cons window (min (count-lines (window-start window)
                                           (save-excursion
                                             (goto-char (window-point window))
                                             (line-beginning-position)))
                              (window-body-height window))))
          (get-buffer-window-list nil nil t)))

(defun gemini-companion-hunks-scroll (rows)
  "Have the windows in ROWS, an alist, show point in the row in which theirs was."
  (pcase-dolist (`(,window . ,row) rows)
    (set-window-point window (point))
    (set-window-start window
                      (save-excursion (forward-line (- row)) (point))
                      'unless-point-is-not-visible-then)))

(provide 'gemini-companion-hunks)
;;; gemini-companion-hunks.el ends here

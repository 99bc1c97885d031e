;;; gemini-companion-diff.el --- A review as one diff -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows a review in one buffer: the unified diff from the file as it is now to the proposal.
;;
;; A client has written the text of the diff, and most commands of Diff mode visit the files that
;; a diff names, so none of them has a key here.

;;; Code:

(require 'diff-mode)
(require 'subr-x)
(require 'gemini-companion-review-commands)
(require 'gemini-companion-heavy)
(require 'gemini-companion-hunks)
(require 'gemini-companion-proposal)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)
(require 'gemini-companion-view)

(defconst gemini-companion-diff--max-refined 20000
  "Maximum size in characters of a diff in which changes within lines are shown.")

(cl-defstruct (gemini-companion-diff--view
               (:include gemini-companion-hunks)
               (:constructor gemini-companion-diff--make)
               (:conc-name gemini-companion-diff--)
               (:copier nil))
  "A review shown as one diff."
  (separate nil :documentation "Non-nil if each change has a hunk of its own."))

;;;; The mode

(defvar gemini-companion-diff-mode-map
  (let ((map (make-sparse-keymap)))
    ;; Not that of Diff mode, which has the commands that visit files.
    (set-keymap-parent map special-mode-map)
    (define-key map (kbd "n") #'gemini-companion-diff-next)
    (define-key map (kbd "p") #'gemini-companion-diff-previous)
    (define-key map (kbd "TAB") #'gemini-companion-diff-next)
    (define-key map (kbd "<backtab>") #'gemini-companion-diff-previous)
    (define-key map (kbd "C-c C-b") #'diff-refine-hunk)
    (define-key map (kbd "k") #'gemini-companion-diff-drop)
    (define-key map (kbd "s") #'gemini-companion-diff-split)
    (define-key map (kbd "u") #'gemini-companion-hunks-undo)
    (define-key map [remap undo] #'gemini-companion-hunks-undo)
    (define-key map [remap undo-only] #'gemini-companion-hunks-undo)
    (define-key map (kbd "RET") #'gemini-companion-diff-edit)
    (define-key map (kbd "o") #'gemini-companion-diff-edit)
    (define-key map (kbd "e") #'gemini-companion-diff-edit)
    (define-key map (kbd "c") #'gemini-companion-comment)
    (define-key map (kbd "q") #'gemini-companion-review-quit)
    (define-key map [remap read-only-mode] #'undefined)
    ;; These behave differently in Diff mode: the first applies the diff, and commits it.
    (define-key map [remap vc-next-action] #'undefined)
    (define-key map [remap add-change-log-entry] #'undefined)
    (define-key map [remap add-change-log-entry-other-window] #'undefined)
    map)
  "Keys in a review shown as one diff.")

(defconst gemini-companion-diff--unwanted
  '(minor-mode-overriding-map-alist
    diff-mode-read-only
    read-only-mode-hook
    view-mode-hook
    next-error-function
    add-log-current-defun-function
    add-log-buffer-file-name-function
    write-contents-functions)
  "Variables of Diff mode that provide its keys, or the files that a diff names.")

(define-derived-mode gemini-companion-diff-mode diff-mode "Gemini-Diff"
  "Major mode for a proposed change as one diff.
You accept or reject all hunks together, but can drop some first.

\\<gemini-companion-review-mode-map>\
\\[gemini-companion-accept] accepts the change as it now reads, \
\\[gemini-companion-reject] rejects it.

\\{gemini-companion-diff-mode-map}"
  :interactive nil
  (mapc #'kill-local-variable gemini-companion-diff--unwanted)
  (setq-local diff-font-lock-syntax nil
              face-remapping-alist gemini-companion-proposal-diff-faces)
  (setq-local revert-buffer-function #'gemini-companion-hunks-revert)
  (buffer-disable-undo)
  (setq buffer-read-only t))

;;;; Showing

;;;###autoload
(defun gemini-companion-diff-show (review focus)
  "Show REVIEW as one diff.  Return a function that takes it off the screen.
FOCUS is `keep' or `select', see `gemini-companion-diff-focus'.  Show a
new file, or three texts, like `gemini-companion-ediff-show'."
  (gemini-companion-hunks-show (gemini-companion-diff--make :review review) focus))

(put 'gemini-companion-diff-show 'gemini-companion-steps
     (lambda (review)
       (gemini-companion-proposal-steps review #'gemini-companion-change-diff nil)))

(cl-defmethod gemini-companion-view-start ((view gemini-companion-diff--view))
  "Show the diff of VIEW."
  (let* ((review (gemini-companion-view-review view))
         (buffer (gemini-companion-proposal-make-buffer review "diff")))
    (gemini-companion-ui-keep-keys 'gemini-companion-diff-mode)
    (with-current-buffer buffer
      ;; Otherwise Diff mode would keep the headers of hunks right.
      (let ((diff-update-on-the-fly nil))
        (gemini-companion-proposal-set-mode #'gemini-companion-diff-mode))
      (gemini-companion-proposal-set-up review #'gemini-companion-diff--header))
    (gemini-companion-hunks-start view buffer)
    (gemini-companion-hunks-compare view 1)
    (let ((window (gemini-companion-view-make-window view)))
      (set-window-buffer window buffer)
      ;; The header line says what is above the first hunk.
      (set-window-start window (with-current-buffer buffer (point)))
      (set-window-point window (with-current-buffer buffer (point)))
      (select-window window))))

(defun gemini-companion-diff--header (review)
  "Return the header line for the diff of REVIEW in the current buffer."
  (let* ((view gemini-companion-hunks-of-buffer)
         (hunks (gemini-companion-hunks-count view)))
    (gemini-companion-proposal-header
     review (pcase hunks
              (0 nil)
              (1 "1 hunk")
              (_ (format "%d hunks" hunks)))
     `((gemini-companion-accept "accepts")
       (gemini-companion-reject "rejects")
       ,@(and (> hunks 0) '((gemini-companion-diff-drop "drops")))
       (gemini-companion-diff-edit "edits")
       (gemini-companion-comment "comments")
       (gemini-companion-accept-all "accepts all")
       (gemini-companion-hunks-undo "undoes")
       (gemini-companion-diff-split
        ,(if (gemini-companion-diff--separate view) "joins" "splits"))))))

;;;; The diff

(cl-defmethod gemini-companion-hunks-compare ((view gemini-companion-diff--view) line)
  "Show the diff of VIEW again, and go to LINE of the proposal."
  (let* ((review (gemini-companion-view-review view))
         (diff (gemini-companion-review-call-once
                review #'gemini-companion-change-diff
                (gemini-companion-proposal-text (gemini-companion-hunks-current view))
                (gemini-companion-proposal-text (gemini-companion-review-proposal review))
                (gemini-companion-diff--separate view)))
         (name (gemini-companion-review-project-path review)))
    (with-current-buffer (gemini-companion-hunks-buffer view)
      (widen)
      (let ((rows (gemini-companion-hunks-rows))
            (inhibit-read-only t))
        (erase-buffer)
        (if (string-empty-p diff)
            (insert (format "No hunk is left: the proposal is identical to %s.\n" name))
          (insert (format "--- %s (%s)\n+++ %s (proposal)\n" name
                          (if (gemini-companion-proposal-file-p review) "on disk" "no file yet")
                          name)
                  diff))
        (gemini-companion-hunks-note-shown
         view (how-many diff-hunk-header-re-unified (point-min)))
        (gemini-companion-diff--adjust-highlighting)
        (goto-char (gemini-companion-diff--position line))
        (gemini-companion-hunks-scroll rows)))))

(defun gemini-companion-diff--adjust-highlighting ()
  "Highlight the diff in the current buffer, unless it is too large."
  (setq-local diff-refine (and (gemini-companion-heavy-fontify)
                               (<= (buffer-size) gemini-companion-diff--max-refined)
                               (default-value 'diff-refine))))

;;;; Lines and hunks

(defun gemini-companion-diff--lines (group)
  "Return the lines in the header of a hunk: a cons of the first and the number.
The header was just matched.  GROUP is 1 for the lines of the file, 3 for
those of the proposal."
  (let ((first (string-to-number (match-string group)))
        (count (string-to-number (or (match-string (1+ group)) "1"))))
    ;; If there are no lines, the header names the line before.
    (cons (if (zerop count) (1+ first) first) count)))

(defun gemini-companion-diff--hunk ()
  "Go to the start of the hunk at point, or of the first hunk.
Return a cons of its lines in the file and in the proposal."
  (end-of-line)
  (unless (or (re-search-backward diff-hunk-header-re-unified nil t)
              (re-search-forward diff-hunk-header-re-unified nil t))
    (user-error "No hunk is left"))
  (goto-char (match-beginning 0))
  (cons (gemini-companion-diff--lines 1) (gemini-companion-diff--lines 3)))

(defun gemini-companion-diff--position (line)
  "Return the position of LINE of the proposal in the current buffer, a diff.
If it is in no hunk, return the position of the next one, or of the last."
  (save-excursion
    (goto-char (point-min))
    (let ((position (point)) (found nil))
      (while (and (not found) (re-search-forward diff-hunk-header-re-unified nil t))
        (pcase-let ((`(,first . ,count) (gemini-companion-diff--lines 3)))
          (setq position (line-beginning-position)
                found (< line (+ first count)))
          (when (and found (> line first))
            (setq position (gemini-companion-diff--forward (- line first))))))
      position)))

(defun gemini-companion-diff--forward (count)
  "Move from the header of a hunk past COUNT lines of the proposal; return point."
  (forward-line)
  (while (and (> count 0) (not (eobp)))
    (when (memq (char-after) '(?\s ?+))
      (setq count (1- count)))
    (forward-line))
  (point))

(cl-defmethod gemini-companion-hunks-position ((_view gemini-companion-diff--view) line removed)
  "Return where LINE of the proposal is in the diff, or text REMOVED before it."
  (save-excursion
    (goto-char (gemini-companion-diff--position line))
    (while (memq (char-after) '(?- ?+))
      (forward-line -1))
    (unless (and removed
                 (search-forward (format "\n-%s\n" (car (last (split-string removed "\n"))))
                                 nil t))
      (goto-char (gemini-companion-diff--position line))
      (while (eq (char-after) ?-)
        (forward-line))
      (forward-line))
    (line-beginning-position 0)))

(cl-defmethod gemini-companion-hunks-removed-line ((_view gemini-companion-diff--view))
  "Return the text of the line at point if it is a removed one."
  (when (eq (char-after (line-beginning-position)) ?-)
    (buffer-substring-no-properties (1+ (line-beginning-position)) (line-end-position))))

(cl-defmethod gemini-companion-hunks-line ((_view gemini-companion-diff--view))
  "Return the line of the proposal at point, or 1 if there is no hunk."
  (save-excursion
    (let ((end (line-beginning-position)))
      (condition-case nil
          (let ((line (cadr (gemini-companion-diff--hunk))))
            (forward-line)
            ;; At the header, it is the first line that is changed.
            (while (if (< (point) end)
                       (not (eobp))
                     (and (<= end (line-beginning-position 0))
                          (eq (char-after) ?\s)))
              (when (memq (char-after) '(?\s ?+))
                (setq line (1+ line)))
              (forward-line))
            line)
        (user-error 1)))))

;;;; Commands

(defun gemini-companion-diff-next (count)
  "Go to the next hunk, or, with a prefix argument, COUNT hunks further."
  (interactive "p" gemini-companion-diff-mode)
  (gemini-companion-diff--move count))

(defun gemini-companion-diff-previous (count)
  "Go to the previous hunk, or, with a prefix argument, COUNT hunks back."
  (interactive "p" gemini-companion-diff-mode)
  (gemini-companion-diff--move (- count)))

(defun gemini-companion-diff--move (count)
  "Move COUNT hunks forward, or backward if it is negative.
If there are not so many, say so and stay."
  ;; From the header of the last one, `diff-hunk-next' would go to its end.
  (unless (save-excursion
            (when (> count 0) (end-of-line))
            (re-search-forward diff-hunk-header-re-unified nil t count))
    (user-error "There is no %s hunk" (if (> count 0) "next" "previous")))
  (diff-hunk-next count))

(defun gemini-companion-diff-drop ()
  "Drop the hunk at point, or the changes in the region if that is active.
The proposal then agrees with the file there.
\\<gemini-companion-diff-mode-map>\\[gemini-companion-hunks-undo] brings it back."
  (interactive nil gemini-companion-diff-mode)
  (gemini-companion-hunks-drop
   (gemini-companion-hunks-current-view)
   (gemini-companion-diff--reversals
    (and (use-region-p) (cons (region-beginning) (region-end))))))

(defun gemini-companion-diff--reversals (region)
  "Return the replacements that drop the hunk at point.
If REGION is non-nil, they drop the changes in it.  For their form see
`gemini-companion-hunks-replace'."
  (save-excursion
    (when region
      (goto-char (max (car region) (1- (cdr region)))))
    (let ((reversals nil)
          (lines (cdr (gemini-companion-diff--hunk))))
      (while lines
        (push (cons lines (gemini-companion-diff--reversed region)) reversals)
        (setq lines (and region
                         (< (car region) (point))
                         (re-search-backward diff-hunk-header-re-unified nil t)
                         (gemini-companion-diff--lines 3))))
      (nreverse reversals))))

(defun gemini-companion-diff--reversed (region)
  "Return the text of the hunk, whose header is at point, without its changes.
If REGION is non-nil, only the changes in it are dropped."
  (save-excursion
    (let ((texts nil) (kept nil))
      (while (progn (forward-line) (memq (char-after) '(?\s ?+ ?- ?\\)))
        (if (eq (char-after) ?\\)
            ;; The line before ends without a newline.
            (when kept
              (push (substring (pop texts) 0 -1) texts))
          (setq kept (eq (char-after) (if (gemini-companion-diff--in-p region) ?- ?+)))
          (when (or kept (setq kept (eq (char-after) ?\s)))
            (push (buffer-substring-no-properties (1+ (point)) (line-beginning-position 2))
                  texts))))
      (string-join (nreverse texts)))))

(defun gemini-companion-diff--in-p (region)
  "Return non-nil if the line at point is in REGION, or if REGION is nil."
  (or (null region)
      (and (< (point) (cdr region))
           (<= (car region) (line-end-position)))))

(defun gemini-companion-diff-split ()
  "Give each change a hunk of its own, or join adjacent ones again."
  (interactive nil gemini-companion-diff-mode)
  (let ((view (gemini-companion-hunks-current-view)))
    (setf (gemini-companion-diff--separate view) (not (gemini-companion-diff--separate view)))
    (gemini-companion-hunks-update view)))

(defun gemini-companion-diff-edit ()
  "Edit the proposal in another window, at the line at point.
When you pause, the diff is updated."
  (interactive nil gemini-companion-diff-mode)
  (let* ((view (gemini-companion-hunks-view-here))
         (proposal (gemini-companion-view-proposal view))
         (line (gemini-companion-hunks-line view)))
    (select-window (or (get-buffer-window proposal)
                       (condition-case nil
                           (cadr (gemini-companion-view-split view (selected-window) 2))
                         ;; It is too small for two.
                         (error (selected-window)))))
    (set-window-buffer nil proposal)
    (set-buffer proposal)
    (widen)
    (goto-char (gemini-companion-ui-line-start line))))

(provide 'gemini-companion-diff)
;;; gemini-companion-diff.el ends here

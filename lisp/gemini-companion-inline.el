;;; gemini-companion-inline.el --- A review in the window of its file -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows a review in one read-only buffer that takes the place of the file in its window, at the same
;; line: the whole proposal, and between its lines those that it removes.  All of it is text, so one
;; can search and narrow as in the file.
;;
;; When the user drops a hunk, the proposal is changed to agree with the file there, so it is always
;; what an accept sends.  The view remembers nothing of its hunks: it compares the texts again.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'gemini-companion-comment)
(require 'gemini-companion-history)
(require 'gemini-companion-inline-text)
(require 'gemini-companion-log)
(require 'gemini-companion-proposal)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)
(require 'gemini-companion-view)

(declare-function gemini-companion-ediff-show "gemini-companion-ediff")

(defconst gemini-companion-inline--write-time 0.7
  "Seconds for which an accepted change stays until its file has been written.")

(cl-defstruct (gemini-companion-inline--view
               (:include gemini-companion-view)
               (:constructor gemini-companion-inline--make)
               (:conc-name gemini-companion-inline--)
               (:copier nil))
  "A review in the window of its file."
  (buffer nil :documentation "The buffer that shows the change.")
  (current nil :documentation "A hidden buffer with the file as it is now.")
  (tick nil :documentation "The modification tick of the proposal that the buffer shows.")
  (edited nil :documentation "The position of the last edit of the proposal since then, or nil.")
  (timer nil :documentation "The timer that waits for a pause in editing, or nil."))

(defvar-local gemini-companion-inline--of-buffer nil
  "The view to which this buffer belongs.")
(put 'gemini-companion-inline--of-buffer 'permanent-local t)

;;;; The mode

(defvar gemini-companion-inline-mode-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map special-mode-map)
    ;; In modal editing letters have other meanings, so each command has a longer key, too.
    (pcase-dolist (`(,keys ,command)
                   '((("n" "TAB" "C-c C-n") gemini-companion-inline-next)
                     (("p" "<backtab>" "C-c C-p") gemini-companion-inline-previous)
                     (("y" "C-c C-y") gemini-companion-inline-keep)
                     (("k" "C-c C-d") gemini-companion-inline-drop)
                     (("u" "C-c C-u") gemini-companion-inline-undo)
                     (("e" "RET" "C-c C-o") gemini-companion-inline-edit)
                     (("c") gemini-companion-comment)
                     (("q") gemini-companion-review-quit)
                     (("?") gemini-companion-inline-show-keys)
                     (("<remap> <undo>" "<remap> <undo-only>") gemini-companion-inline-undo)
                     (("<remap> <goto-line>") gemini-companion-inline-goto-line)
                     (("<remap> <read-only-mode>") gemini-companion-inline-edit)))
      (dolist (key keys)
        (define-key map (kbd key) command)))
    map)
  "Keys in a review in the window of its file.")

(define-derived-mode gemini-companion-inline-mode special-mode "Gemini-Review"
  "Major mode for a proposed change in the window of its file.
It contains the proposed text, with the lines that the change removes.  You
accept or reject all hunks together, but can drop some first.

\\<gemini-companion-review-mode-map>\
\\[gemini-companion-accept] accepts the change as it now reads, \
\\[gemini-companion-reject] rejects it.

\\{gemini-companion-inline-mode-map}"
  :interactive nil
  (setq-local revert-buffer-function #'gemini-companion-inline--revert
              imenu-create-index-function #'gemini-companion-inline-text-index)
  (buffer-disable-undo)
  (setq buffer-read-only t))

(defun gemini-companion-inline-show-keys ()
  "Describe the keys for the change in the echo area."
  (interactive nil gemini-companion-inline-mode)
  (message "%s" "\
n p      next, previous hunk      k        drop the hunk, or the region's lines
y        keep the hunk, go on     u        undo
e RET    edit the text here       c        comment on the line or region
C-c C-c  accept                   C-c C-k  reject
C-c C-a  accept all of the turn   C-c C-v  another view
q        accept, reject or decide later"))

;;;; Showing

;;;###autoload
(defun gemini-companion-inline-show (review focus)
  "Show REVIEW in the window of its file.
Return a function that takes it off the screen.  FOCUS is `keep' or
`select', see `gemini-companion-diff-focus'.  If `keep', the window in which
you type is not taken over while its frame has the focus.  Show a new file,
or three texts, as `gemini-companion-ediff-show' does."
  (if (or (gemini-companion-review-with-base review)
          (not (gemini-companion-proposal-file-p review)))
      (gemini-companion-ediff-show review focus)
    (gemini-companion-view-show (gemini-companion-inline--make :review review) focus)))

(put 'gemini-companion-inline-show 'gemini-companion-steps #'gemini-companion-proposal-steps)

;;;###autoload
(define-obsolete-function-alias 'gemini-companion-diff-show #'gemini-companion-inline-show "0.1.0")

(cl-defmethod gemini-companion-view-start ((view gemini-companion-inline--view))
  "Show VIEW in the window of its file, and follow edits of the proposal."
  (let* ((review (gemini-companion-view-review view))
         (proposal (gemini-companion-proposal-buffer review))
         (buffer (gemini-companion-proposal-make-buffer review "review")))
    (setf (gemini-companion-inline--buffer view) buffer)
    (with-current-buffer proposal
      (setq gemini-companion-inline--of-buffer view)
      (add-hook 'gemini-companion-comment-change-hook #'gemini-companion-inline--show-comments nil t)
      (add-hook 'after-change-functions #'gemini-companion-inline--proposal-changed nil t))
    (with-current-buffer buffer
      (gemini-companion-proposal-set-mode #'gemini-companion-inline-mode)
      (gemini-companion-proposal-set-up review #'gemini-companion-inline--header)
      (gemini-companion-proposal-enable-modal-modes)
      (setq gemini-companion-inline--of-buffer view
            gemini-companion-comment-place-function #'gemini-companion-inline--comment-place)
      (gemini-companion-inline--read-file view)
      (gemini-companion-inline--look-like proposal (gemini-companion-review-visiting review))
      (gemini-companion-inline-text-decorate
       (with-current-buffer proposal (line-number-at-pos (point-max) t))
       proposal (gemini-companion-inline--current view)))
    (gemini-companion-inline--compare view 1)
    (select-window (gemini-companion-inline--display view))))

(defun gemini-companion-inline--look-like (proposal visiting)
  "Have the current buffer look like the buffer VISITING, if that is not nil.
PROPOSAL is the one with the proposal, which has the major mode of the file."
  (set-syntax-table (with-current-buffer proposal (syntax-table)))
  ;; For commands that read the text.
  (gemini-companion-inline--copy-variables
   '(comment-start comment-start-skip comment-end
                   outline-regexp outline-level outline-heading-alist)
   proposal)
  (gemini-companion-proposal-take-over-display gemini-companion-review-of-buffer)
  (when visiting
    (gemini-companion-inline--copy-variables
     '(line-spacing face-remapping-alist ctl-arrow buffer-display-table cursor-type
                    bidi-display-reordering bidi-paragraph-direction show-trailing-whitespace)
     visiting)))

(defun gemini-companion-inline--copy-variables (variables buffer)
  "Give VARIABLES the values that they have in BUFFER, if they are local there."
  (dolist (variable variables)
    (when (local-variable-p variable buffer)
      (set (make-local-variable variable) (buffer-local-value variable buffer)))))

(cl-defmethod gemini-companion-view-buffers ((view gemini-companion-inline--view))
  "Return the buffer of VIEW and the proposal, which may be shown."
  (list (gemini-companion-inline--buffer view) (gemini-companion-view-proposal view)))

(cl-defmethod gemini-companion-view-parts ((view gemini-companion-inline--view))
  "Return the buffer of VIEW, or the proposal while that is edited in its place."
  (let ((proposal (gemini-companion-view-proposal view)))
    (list (if (gemini-companion-ui-window-of proposal) proposal
            (gemini-companion-inline--buffer view)))))

(cl-defmethod gemini-companion-view-clean-up ((view gemini-companion-inline--view))
  "Kill the buffers of VIEW, and stop watching and editing the proposal."
  (gemini-companion-inline--cancel-timer view)
  (when-let* ((proposal (gemini-companion-view-proposal view)))
    (with-current-buffer proposal
      (gemini-companion-inline-edit-mode -1)
      (setq gemini-companion-inline--of-buffer nil)
      (remove-hook 'gemini-companion-comment-change-hook #'gemini-companion-inline--show-comments t)
      (remove-hook 'after-change-functions #'gemini-companion-inline--proposal-changed t)))
  (gemini-companion-ui-kill-buffer (gemini-companion-inline--buffer view))
  (gemini-companion-ui-kill-buffer (gemini-companion-inline--current view)))

(defun gemini-companion-inline--header (review)
  "Return the header line for the change of REVIEW in the current buffer."
  (gemini-companion-proposal-header
   review (cons 1 (gemini-companion-inline-text-describe-place))
   `((gemini-companion-accept "accepts")
     (gemini-companion-reject "rejects")
     ,@(unless (null gemini-companion-inline-text-hunks)
         '((gemini-companion-inline-drop "drops") (gemini-companion-inline-keep "keeps")))
     (gemini-companion-inline-edit "edits")
     (gemini-companion-comment "comments")
     (gemini-companion-accept-all "accepts all")
     (gemini-companion-inline-undo "undoes"))))

;;;; The window

(defun gemini-companion-inline--display (view)
  "Display VIEW, at the line at which the user is in the file; return the window."
  (let ((window (gemini-companion-view-display
                 view (gemini-companion-inline--buffer view)
                 #'gemini-companion-inline--display-in-file-window)))
    (with-selected-window window
      (set-window-hscroll window 0)
      (gemini-companion-inline--go-where-file-was view)
      (when-let* ((first (car gemini-companion-inline-text-hunks)))
        (let ((visible (gemini-companion-inline--visible-hunk)))
          (gemini-companion-inline--go (or visible first) visible))))
    window))

(defun gemini-companion-inline--display-in-file-window (buffer alist)
  "Display BUFFER in a window of the file, for `display-buffer' with ALIST.
Return nil if there is none that may be taken over."
  (when-let* ((view (alist-get 'gemini-companion-view alist))
              (visiting (gemini-companion-review-visiting (gemini-companion-view-review view)))
              (buffers (seq-filter (lambda (it)
                                     (memq visiting (list it (buffer-base-buffer it))))
                                   (cons visiting (buffer-list))))
              (window (seq-find (lambda (window)
                                  (not (or (window-dedicated-p window)
                                           (< (window-body-height window) 4)
                                           (and (eq window (selected-window))
                                                (gemini-companion-view-typing-p view)))))
                                (mapcan #'gemini-companion-ui-windows-of buffers))))
    (set-window-buffer window buffer)
    window))

(defun gemini-companion-inline--go-where-file-was (view)
  "Go to the line at which the selected window was in the file of VIEW.
If VIEW has not taken it over, or it showed another buffer, do nothing."
  (pcase-let ((`(,_ ,buffer ,start ,point ,_) (gemini-companion-view-taken view)))
    (when (and buffer
               (eq (or (buffer-base-buffer buffer) buffer)
                   (gemini-companion-review-visiting (gemini-companion-view-review view))))
      ;; The header line takes the first line of the window, so that the others can stay.
      (set-window-start nil (gemini-companion-inline-text-file-position
                             (+ (cdr start) (if (= (car start) 1) 0 1))))
      (goto-char (gemini-companion-inline-text-file-position (cdr point))))))

(defun gemini-companion-inline--visible-hunk ()
  "Return the first hunk whose start is visible in the selected window, or nil."
  ;; To find out whether a position is visible takes a while.
  (when-let* ((hunk (seq-find (lambda (it)
                                (>= (gemini-companion-hunk-start it) (window-start)))
                              gemini-companion-inline-text-hunks)))
    (and (pos-visible-in-window-p (gemini-companion-hunk-start hunk))
         hunk)))

(defun gemini-companion-inline--go (hunk &optional stay)
  "Go to HUNK, and show all of it if possible; do not scroll if STAY is non-nil.
If it is outside of what the user has narrowed to, widen."
  (unless (<= (point-min) (gemini-companion-hunk-start hunk) (point-max))
    (widen))
  (goto-char (gemini-companion-hunk-start hunk))
  (let ((height (window-body-height))
        (end (gemini-companion-hunk-end hunk)))
    (unless (or stay
                (not (eq (window-buffer) (current-buffer)))
                (and (>= (point) (window-start))
                     (pos-visible-in-window-p (max (point-min) (1- end)))))
      (recenter (if (< (count-lines (point) end) (/ height 2)) (/ height 3)
                  (min 3 (/ height 4))))))
  (force-mode-line-update))

;;;; Keeping it up to date

(defun gemini-companion-inline--read-file (view)
  "Read the file of VIEW as it is now."
  (let ((before (gemini-companion-inline--current view))
        (current (gemini-companion-proposal-file-buffer (gemini-companion-view-review view))))
    (with-current-buffer current
      ;; A leading space hides it.
      (rename-buffer (concat " " (buffer-name)) t))
    (setf (gemini-companion-inline--current view) current
          ;; What is shown is now out of date.
          (gemini-companion-inline--tick view) nil)
    (gemini-companion-ui-kill-buffer before)))

(defun gemini-companion-inline--compare (view line)
  "Make the text of VIEW again, and go to LINE of the proposal."
  (gemini-companion-inline--cancel-timer view)
  (let* ((current (gemini-companion-inline--current view))
         (proposal (gemini-companion-view-proposal view))
         (regions (gemini-companion-review-call-once
                   (gemini-companion-view-review view) #'gemini-companion-change-regions
                   (gemini-companion-proposal-text current)
                   (gemini-companion-proposal-text proposal))))
    (with-current-buffer (gemini-companion-inline--buffer view)
      (widen)
      (let ((rows (gemini-companion-inline-text-rows))
            (at-hunk (or (gemini-companion-inline--edited view)
                         (gemini-companion-inline-text-removed-line))))
        (gemini-companion-inline-text-fill current proposal regions)
        (set-buffer-modified-p nil)
        (setf (gemini-companion-inline--tick view) (buffer-chars-modified-tick proposal)
              (gemini-companion-inline--edited view) nil)
        (gemini-companion-inline--show-comments view)
        (goto-char (gemini-companion-inline-text-position line))
        (when at-hunk
          (gemini-companion-inline-text-go-to-removed))
        (gemini-companion-inline-text-scroll rows))))
  (force-mode-line-update t))

(defun gemini-companion-inline--proposal-changed (start _end _length)
  "Compare again soon, since the proposal in the current buffer changed at START."
  (when-let* ((view gemini-companion-inline--of-buffer))
    (gemini-companion-inline--cancel-timer view)
    (setf (gemini-companion-inline--edited view) start
          (gemini-companion-inline--timer view)
          (run-at-time 0.3 nil (lambda ()
                                 (gemini-companion-log-errors "comparing"
                                   (with-local-quit
                                     (gemini-companion-inline--update view))))))))
;; It stays if the user gives the proposal another major mode.
(put 'gemini-companion-inline--proposal-changed 'permanent-local-hook t)

(defun gemini-companion-inline--cancel-timer (view)
  "Cancel the timer of VIEW."
  (when-let* ((timer (gemini-companion-inline--timer view)))
    (setf (gemini-companion-inline--timer view) nil)
    (cancel-timer timer)))

(defun gemini-companion-inline--update (view)
  "Compare again, and go to the last edit of the proposal of VIEW.
If there is none, stay at the line where point is."
  (gemini-companion-inline--compare
   view
   (if-let* ((position (gemini-companion-inline--edited view)))
       (with-current-buffer (gemini-companion-view-proposal view)
         (line-number-at-pos (min position (1+ (buffer-size))) t))
     (with-current-buffer (gemini-companion-inline--buffer view)
       (gemini-companion-inline-text-line)))))

(defun gemini-companion-inline--revert (&rest _)
  "Read the file again and compare."
  (let ((view (gemini-companion-inline--view-here)))
    (gemini-companion-inline--read-file view)
    (gemini-companion-inline--update view)))

(defun gemini-companion-inline--view-here ()
  "Return the view of the current buffer, whose review must be open."
  (let ((view gemini-companion-inline--of-buffer))
    (unless (and view
                 (eq (current-buffer) (gemini-companion-inline--buffer view))
                 ;; If that was killed, the view is about to go away.
                 (gemini-companion-view-proposal view))
      (user-error "No proposed change is shown here"))
    (gemini-companion-review-check-open (gemini-companion-view-review view))
    view))

(defun gemini-companion-inline--current-view ()
  "Return the view of the current buffer, which must be up to date.
Otherwise update it, and signal a `user-error': its hunks would mean other
lines."
  (let ((view (gemini-companion-inline--view-here)))
    (unless (buffer-live-p (gemini-companion-inline--current view))
      (gemini-companion-inline--revert)
      (user-error "The file has been read again; check the change, then try again"))
    (unless (and (eql (gemini-companion-inline--tick view)
                      (buffer-chars-modified-tick (gemini-companion-view-proposal view)))
                 (not (buffer-modified-p)))
      (gemini-companion-inline--update view)
      (user-error "The change has been edited; check it, then try again"))
    view))

;;;; Comments

(defun gemini-companion-inline--comment-place (start end)
  "Return where in the proposal the lines from START to END are.
See `gemini-companion-comment-place-function'."
  (cons (gemini-companion-view-proposal (gemini-companion-inline--current-view))
        (gemini-companion-inline-text-place start end)))

(defun gemini-companion-inline--show-comments (&optional view)
  "Show the comments on the proposal of VIEW.
By default that is the view of the current buffer."
  (let* ((view (or view gemini-companion-inline--of-buffer))
         (proposal (gemini-companion-view-proposal view)))
    (with-current-buffer (gemini-companion-inline--buffer view)
      (gemini-companion-comment-mirror proposal #'gemini-companion-inline-text-position))))

;;;; Hunks

(defun gemini-companion-inline--hunk-here ()
  "Return the hunk on the current line, or signal a `user-error'."
  (or (gemini-companion-inline-text-hunk-at (line-beginning-position))
      (user-error "%s" (substitute-command-keys "No hunk here: \
\\<gemini-companion-inline-mode-map>\\[gemini-companion-inline-next] goes to the next one"))))

(defun gemini-companion-inline-next (count)
  "Go to the next hunk; with a prefix argument, COUNT hunks forward."
  (interactive "p" gemini-companion-inline-mode)
  (gemini-companion-inline--current-view)
  (let* ((point (point))
         (line (line-beginning-position))
         (starts (mapcar #'gemini-companion-hunk-start gemini-companion-inline-text-hunks))
         (others (if (> count 0)
                     (seq-filter (lambda (start) (> start point)) starts)
                   (nreverse (seq-filter (lambda (start) (< start line)) starts)))))
    (gemini-companion-inline--go
     (gemini-companion-inline-text-hunk-at
      (or (nth (1- (abs count)) others)
          (user-error "There is no %s hunk" (if (> count 0) "next" "previous")))))))

(defun gemini-companion-inline-previous (count)
  "Go to the previous hunk; with a prefix argument, COUNT hunks back."
  (interactive "p" gemini-companion-inline-mode)
  (gemini-companion-inline-next (- count)))

(defun gemini-companion-inline-goto-line (line)
  "Go to LINE of the proposed text."
  (interactive (list (if current-prefix-arg (prefix-numeric-value current-prefix-arg)
                       (read-number "Go to line of the proposed text: ")))
               gemini-companion-inline-mode)
  (push-mark)
  (widen)
  (goto-char (gemini-companion-inline-text-position (max 1 line))))

(defun gemini-companion-inline-drop ()
  "Drop the hunk at point, or the changes in the region if that is active.
The proposed text is then the same as the file there.
\\<gemini-companion-inline-mode-map>\\[gemini-companion-inline-undo] brings it back."
  (interactive nil gemini-companion-inline-mode)
  (let* ((view (gemini-companion-inline--current-view))
         (region (and (use-region-p) (cons (region-beginning) (region-end))))
         (hunks (if region
                    (seq-filter (lambda (it)
                                  (and (< (gemini-companion-hunk-start it) (cdr region))
                                       (< (car region) (gemini-companion-hunk-end it))))
                                gemini-companion-inline-text-hunks)
                  (list (gemini-companion-inline--hunk-here)))))
    (unless hunks
      (user-error "No hunk in the region"))
    (gemini-companion-inline-text-replace
     (gemini-companion-view-proposal view)
     (nreverse (mapcar (lambda (hunk)
                         (cons (gemini-companion-inline-text-added-lines hunk)
                               (gemini-companion-inline-text-without hunk region)))
                       hunks)))
    (deactivate-mark)
    (gemini-companion-inline--go-on view)
    (message "%s" (substitute-command-keys
                   (format "Dropped, %s left; \\[gemini-companion-inline-undo] brings it back"
                           (pcase (length gemini-companion-inline-text-hunks)
                             (0 "none is")
                             (1 "one is")
                             (count (format "%d are" count))))))))

(defun gemini-companion-inline--go-on (view)
  "Show VIEW again, and go to the next hunk unless there is one at point."
  ;; Start from there, not from what was changed last.
  (setf (gemini-companion-inline--edited view) nil)
  (gemini-companion-inline--update view)
  (unless (gemini-companion-inline-text-hunk-at (line-beginning-position))
    (ignore-error user-error
      (gemini-companion-inline-next 1))))

(defun gemini-companion-inline-keep ()
  "Keep the hunk at point, and go to the next one.
It then looks as if the file had it already; accepting still sends it.
\\<gemini-companion-inline-mode-map>\\[gemini-companion-inline-undo] shows it as a hunk again."
  (interactive nil gemini-companion-inline-mode)
  (let* ((view (gemini-companion-inline--current-view))
         (hunk (gemini-companion-inline--hunk-here))
         (current (gemini-companion-inline--current view))
         (proposal (gemini-companion-view-proposal view))
         (added (gemini-companion-inline-text-added-lines hunk)))
    (with-current-buffer proposal
      (undo-boundary)
      (gemini-companion-inline--set-lines
       current (gemini-companion-inline-text-removed-lines hunk)
       (gemini-companion-inline-text-lines proposal added) (car added))
      (undo-boundary))
    (gemini-companion-inline--go-on view)
    (when (null gemini-companion-inline-text-hunks)
      (message "%s" (substitute-command-keys "That was the last hunk: \
\\<gemini-companion-review-mode-map>\\[gemini-companion-accept] accepts the change")))))

(defun gemini-companion-inline--set-lines (buffer lines text line)
  "Replace LINES of BUFFER, a copy of the file that nobody sees, by TEXT.
LINE is where that is in the proposal, the current buffer.  It is recorded
among the changes of that, so that one command undoes both, in order.  If
the file was read again since, it is another buffer, and there is nothing
to do."
  (if (not (buffer-live-p buffer))
      (push '(apply ignore) buffer-undo-list) ; each undo has something to be undone in turn
    (push `(apply gemini-companion-inline--set-lines
                  ,buffer ,(cons (car lines) (gemini-companion-inline-text-count-lines text))
                  ,(gemini-companion-inline-text-lines buffer lines) ,line)
          buffer-undo-list)
    (let ((inhibit-modification-hooks t))
      (gemini-companion-inline-text-replace buffer (list (cons lines text))))
    ;; The proposal is as before, but what is shown is out of date.
    (setf (gemini-companion-inline--tick gemini-companion-inline--of-buffer) nil
          (gemini-companion-inline--edited gemini-companion-inline--of-buffer)
          (gemini-companion-ui-line-start line))))

(defun gemini-companion-inline-undo ()
  "Undo the last edit of the proposed text, such as a dropped hunk."
  (interactive nil gemini-companion-inline-mode)
  (let ((view (gemini-companion-inline--view-here)))
    (with-current-buffer (gemini-companion-view-proposal view)
      (deactivate-mark)
      (when (gemini-companion-inline-text-undone-p)
        (user-error "No further undo information"))
      (undo-boundary)
      ;; Do not continue the undo of another buffer.
      (let ((last-command nil) (this-command nil))
        (undo-only))
      (undo-boundary))
    (gemini-companion-inline--update view)))

;;;; Editing

(defvar gemini-companion-inline-edit-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-o") #'gemini-companion-inline-return)
    map)
  "Keys while the proposal is edited in place of the change.")

(define-minor-mode gemini-companion-inline-edit-mode
  "Edit the proposed text in place of the change, and go back.
\\{gemini-companion-inline-edit-mode-map}"
  :interactive nil
  :lighter nil
  (setq gemini-companion-proposal-save-function
        (and gemini-companion-inline-edit-mode #'gemini-companion-inline-return))
  (gemini-companion-proposal-set-header
   (and gemini-companion-inline-edit-mode #'gemini-companion-inline--edit-header)))

(defun gemini-companion-inline--edit-header (review)
  "Return the header line for the proposal of REVIEW while it is edited."
  (gemini-companion-proposal-header
   review "Proposal"
   '((gemini-companion-accept "accepts")
     (gemini-companion-reject "rejects")
     (gemini-companion-inline-return "goes back"))))

(defun gemini-companion-inline-edit ()
  "Edit the proposed text in this window, at the line at point.
\\<gemini-companion-inline-edit-mode-map>\\[gemini-companion-inline-return] \
or \\[save-buffer] goes back."
  (interactive nil gemini-companion-inline-mode)
  (let* ((view (gemini-companion-inline--current-view))
         (proposal (gemini-companion-view-proposal view))
         (line (gemini-companion-inline-text-line))
         (column (current-column))
         (row (gemini-companion-inline--row)))
    (set-window-buffer nil proposal)
    (set-buffer proposal)
    (gemini-companion-inline-edit-mode)
    (widen)
    (goto-char (gemini-companion-ui-line-start line))
    (move-to-column column)
    (recenter row)
    (message "%s" (substitute-command-keys "Edit the proposed text; \
\\<gemini-companion-inline-edit-mode-map>\\[gemini-companion-inline-return] goes back"))))

(defun gemini-companion-inline-return ()
  "Go back from the proposed text to the change, at the same line."
  (interactive nil gemini-companion-inline-edit-mode)
  (let* ((view gemini-companion-inline--of-buffer)
         (line (line-number-at-pos nil t))
         (row (gemini-companion-inline--row)))
    (gemini-companion-inline-edit-mode -1)
    (set-window-buffer nil (gemini-companion-inline--buffer view))
    (set-buffer (gemini-companion-inline--buffer view))
    (gemini-companion-inline--compare view line)
    (recenter row)))

(defun gemini-companion-inline--row ()
  "Return the row of point in the selected window."
  (count-screen-lines (window-start) (line-beginning-position)))

;;;; After an accept

;; The client writes the file a moment later.  Until then the change stays, for the file would show
;; its old text.  A key that is pressed meanwhile is for the file.

(defvar gemini-companion-inline--frozen-map
  (let ((map (make-sparse-keymap)))
    (define-key map [t] (lambda () (interactive) (gemini-companion-inline--pass-key)))
    map)
  "Keymap of a change that was accepted and is about to go away.")

(cl-defmethod gemini-companion-view-leave ((view gemini-companion-inline--view))
  "Take VIEW off the screen; if it was accepted, once the file was written."
  (let ((leave (lambda () (cl-call-next-method))))
    (if (and (gemini-companion-inline--to-be-written-p view)
             (progn
               (gemini-companion-log-errors "going back to a change"
                 (gemini-companion-inline--end-editing view))
               (get-buffer-window (gemini-companion-inline--buffer view) t)))
        (gemini-companion-inline--freeze view leave)
      (funcall leave))))

(defun gemini-companion-inline--to-be-written-p (view)
  "Return non-nil if the client writes the file that VIEW has taken the place of."
  (when-let* ((review (gemini-companion-view-review view))
              (entry (gemini-companion-review-entry review)))
    (and (memq (gemini-companion-history-outcome entry) '(accepted closed))
         (gemini-companion-view-taken view)
         (buffer-live-p (gemini-companion-inline--buffer view))
         (gemini-companion-review-visiting review))))

(defun gemini-companion-inline--end-editing (view)
  "If the proposal of VIEW is edited in place of the change, go back to that."
  (when-let* ((proposal (gemini-companion-view-proposal view))
              (window (gemini-companion-ui-window-of proposal))
              ((buffer-local-value 'gemini-companion-inline-edit-mode proposal)))
    (with-selected-window window
      (gemini-companion-inline-return))))

(defun gemini-companion-inline--freeze (view leave)
  "Leave VIEW on the screen until its file is written, or for a moment.
Then call LEAVE."
  (gemini-companion-view-select-other view)
  (let* ((visiting (gemini-companion-review-visiting (gemini-companion-view-review view)))
         (timer (run-at-time gemini-companion-inline--write-time nil
                             #'gemini-companion-view-leave-now)))
    (with-current-buffer visiting
      (add-hook 'after-revert-hook #'gemini-companion-view-leave-now nil t))
    (with-current-buffer (gemini-companion-inline--buffer view)
      (overlay-put (make-overlay (point-min) (point-max) nil nil t)
                   'keymap gemini-companion-inline--frozen-map))
    (setq gemini-companion-view-leaving
          (lambda ()
            (cancel-timer timer)
            (when (buffer-live-p visiting)
              (with-current-buffer visiting
                (remove-hook 'after-revert-hook #'gemini-companion-view-leave-now t)))
            (funcall leave)))))

(defun gemini-companion-inline--pass-key ()
  "Take the change off the screen, and have the key pressed again."
  (let ((keys (this-command-keys-vector)))
    (setq prefix-arg current-prefix-arg
          this-command last-command)
    (gemini-companion-view-leave-now)
    (setq unread-command-events (append (mapcar (lambda (key) (cons t key)) keys)
                                        unread-command-events))))

(provide 'gemini-companion-inline)
;;; gemini-companion-inline.el ends here

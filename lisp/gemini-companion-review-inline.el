;;; gemini-companion-review-inline.el --- A review in the window of its file -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows a review in one read-only buffer that takes the place of the file in its window, at the
;; same line: the whole proposal and, between its lines, the lines that it removes.  All of it is
;; text, so the user can search and narrow as in the file.  The view remembers nothing of its hunks:
;; after each edit of the proposal, such as a dropped hunk, it compares the texts again.

;;; Code:

(require 'cl-lib)
(require 'gemini-companion-comment)
(require 'gemini-companion-history)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-review-buffer)
(require 'gemini-companion-review-hunk)
(require 'gemini-companion-review-window)
(require 'gemini-companion-ui)

(declare-function undo-tree-undo "ext:undo-tree")

(defconst gemini-companion-review-inline--write-time 0.7
  "Seconds for which an accepted change stays until its file has been written.")

(cl-defstruct (gemini-companion-review-inline--view
               (:include gemini-companion-review-window)
               (:constructor gemini-companion-review-inline--make)
               (:conc-name gemini-companion-review-inline--)
               (:copier nil))
  "A review in the window of its file."
  (current nil :documentation "A hidden buffer with the file as it is now.")
  (tick nil :documentation "The modification tick of the proposal that the buffer shows.")
  (edited nil :documentation "The position of the last edit of the proposal since then, or nil."))

;;;; The mode

(define-derived-mode gemini-companion-review-inline-mode special-mode "Gemini-Review"
  "Major mode for a proposed change in the window of its file.
It contains the proposed text, with the lines that the change removes.  You
accept or reject all hunks together, but can drop some first.

\\{gemini-companion-review-inline-mode-map}"
  :interactive nil
  (setq-local revert-buffer-function #'gemini-companion-review-inline--revert
              ;; Its face is green by default, as if the first removed line of each hunk were added.
              global-hl-line-mode nil)
  ;; What the user copies, and yanks elsewhere, has no colors and signs.
  (add-function :filter-return (local 'filter-buffer-substring-function) #'substring-no-properties)
  (buffer-disable-undo))

(gemini-companion-ui-bind gemini-companion-review-inline-mode-map
  ;; Modal editing uses the letters, so most commands have a longer key, too.
  ("n" "TAB" "C-c C-n") #'gemini-companion-review-inline-next
  ("p" "<backtab>" "C-c C-p") #'gemini-companion-review-inline-previous
  ("y" "C-c C-y") #'gemini-companion-review-inline-keep
  ("k" "C-c C-d") #'gemini-companion-review-inline-drop
  ("u" "C-c C-u") #'gemini-companion-review-inline-undo
  ("RET" "C-c C-o" "e") #'gemini-companion-review-inline-edit ; the header line names the last
  "c" #'gemini-companion-review-comment
  "q" #'gemini-companion-review-quit
  "?" #'gemini-companion-review-inline-show-keys
  ("<remap> <undo>" "<remap> <undo-only>" "<remap> <undo-tree-undo>" "<remap> <evil-undo>"
   "<remap> <undo-fu-only-undo>")
  #'gemini-companion-review-inline-undo
  ("<remap> <goto-line>" "<remap> <consult-goto-line>") #'gemini-companion-review-inline-goto-line
  "<remap> <read-only-mode>" #'gemini-companion-review-inline-edit)

(defun gemini-companion-review-inline-show-keys ()
  "Describe the keys for the change in the echo area."
  (interactive nil gemini-companion-review-inline-mode)
  ;; A terminal of 24 lines shows no more than five.
  (message "%s" "\
n p      next, previous hunk   k        drop hunk or region   u  undo
y        keep hunk, go on      e RET    edit the text here    c  comment
C-c C-c  accept                C-c C-k  reject                q  decide or wait
C-c C-a  accept all of turn    C-c C-v  the other view
C-c C-t  compare three texts   C-c C-e  merge missing edits"))

;;;; Showing

;;;###autoload
(defun gemini-companion-review-inline-show (review focus)
  "Show REVIEW in the window of its file.
Return a function that takes it off the screen.  FOCUS is `keep' or
`select', see `gemini-companion-diff-focus'.  If `keep', the window in which
you type is not taken over while its frame has the focus."
  (gemini-companion-review-window-show (gemini-companion-review-inline--make :review review) focus))

(cl-defmethod gemini-companion-review-window-start ((view gemini-companion-review-inline--view))
  "Show VIEW in the window of its file, and follow edits of the proposal."
  (let* ((review (gemini-companion-review-window-review view))
         (proposal (gemini-companion-review-buffer-proposal review))
         (buffer (gemini-companion-review-buffer-make-buffer review "review")))
    (setf (gemini-companion-review-window-main view) buffer)
    (with-current-buffer proposal
      (add-hook 'gemini-companion-comment-change-hook
                #'gemini-companion-review-inline--show-comments nil t)
      (add-hook 'after-change-functions #'gemini-companion-review-inline--proposal-changed nil t))
    (with-current-buffer buffer
      (gemini-companion-review-buffer-set-mode #'gemini-companion-review-inline-mode)
      (gemini-companion-review-buffer-set-up #'gemini-companion-review-inline--header)
      (gemini-companion-review-buffer-enable-modal-modes)
      (setq gemini-companion-comment-place-function #'gemini-companion-review-inline--comment-place)
      (add-hook 'window-buffer-change-functions
                #'gemini-companion-review-inline--follow-edits nil t)
      (gemini-companion-review-inline--read-file view)
      (gemini-companion-review-inline--look-like proposal (gemini-companion-review-visiting review))
      (gemini-companion-review-hunk-decorate
       (with-current-buffer proposal (line-number-at-pos (point-max) t))
       proposal (gemini-companion-review-inline--current view))
      (gemini-companion-log-run-hook 'gemini-companion-review-inline-mode-hook))
    (gemini-companion-review-inline--compare view)
    (select-window (gemini-companion-review-inline--display view))))

(defun gemini-companion-review-inline--look-like (proposal visiting)
  "Make the current buffer look like the buffer VISITING, or else like PROPOSAL.
That is the buffer with the proposal, in the major mode of the file.  If
VISITING has no cursor, it shows an image in place of the text."
  (set-syntax-table (with-current-buffer proposal (syntax-table)))
  (gemini-companion-review-buffer-copy-variables
   `(,@gemini-companion-review-buffer-display-variables
     ctl-arrow buffer-display-table cursor-type
     bidi-display-reordering show-trailing-whitespace)
   (if (and visiting (buffer-local-value 'cursor-type visiting)) visiting proposal)))

(cl-defmethod gemini-companion-review-window-clean-up ((view gemini-companion-review-inline--view))
  "Stop watching and editing the proposal of VIEW."
  (cancel-function-timers #'gemini-companion-review-inline--follow-edits)
  (when-let* ((main (gemini-companion-review-window-main view))
              (proposal (gemini-companion-review-window-proposal view)))
    (with-current-buffer proposal
      (when (and (buffer-live-p main)
                 (not (buffer-local-value 'gemini-companion-review-inline-edit-mode proposal)))
        ;; For the next view, and for this one when it is shown again.
        (goto-char (gemini-companion-ui-line-start
                    (with-current-buffer main (gemini-companion-review-hunk-line)))))
      (gemini-companion-review-inline-edit-mode -1)
      (remove-hook 'gemini-companion-comment-change-hook
                   #'gemini-companion-review-inline--show-comments t)
      (remove-hook 'after-change-functions #'gemini-companion-review-inline--proposal-changed t))))

(defun gemini-companion-review-inline--header (review)
  "Return the header line for the change of REVIEW in the current buffer."
  (gemini-companion-review-buffer-header
   review
   (unless (or (gemini-companion-change-new (gemini-companion-review-effect-change review))
               ;; All of the text is then shown, as that of a new file.
               (and (eq (gemini-companion-review-conflict review) 'deleted)
                    (null gemini-companion-review-hunk-list)))
     (cons 1 (gemini-companion-review-hunk-describe-place)))
   `((gemini-companion-accept "accepts")
     (gemini-companion-reject "rejects")
     ,@(when gemini-companion-review-hunk-list
         '((gemini-companion-review-inline-drop "drops")
           (gemini-companion-review-inline-keep "keeps")))
     (gemini-companion-review-inline-edit "edits")
     (gemini-companion-review-comment "comments")
     (gemini-companion-accept-all "accepts all")
     (gemini-companion-review-inline-undo "undoes"))))

;;;; The window

(defun gemini-companion-review-inline--display (view)
  "Display VIEW at the line where the user is in the file; return the window."
  (let ((window (gemini-companion-review-window-display
                 view (gemini-companion-review-window-main view)
                 #'gemini-companion-review-inline--display-in-file-window)))
    (with-selected-window window
      (set-window-hscroll window 0)
      (gemini-companion-review-inline--go-where-file-was view)
      (let* ((line (with-current-buffer (gemini-companion-review-window-proposal view)
                     (line-number-at-pos nil t)))
             (again (> line 1))         ; the user has been there
             (from (if again (gemini-companion-review-hunk-position line) (window-start)))
             (hunks gemini-companion-review-hunk-list)
             (next (seq-find (lambda (it)
                               (<= from (if again (gemini-companion-review-hunk-end it)
                                          (gemini-companion-review-hunk-start it))))
                             hunks))
             (visible (and next (pos-visible-in-window-p
                                 (gemini-companion-review-hunk-start next)))))
        (when hunks
          (gemini-companion-review-inline--go (or (and (or again visible) next) (car hunks))
                                              (and visible (not again)
                                                   (gemini-companion-review-window-taken view))))))
    window))

(defun gemini-companion-review-inline--display-in-file-window (buffer _alist)
  "Display BUFFER in a window of the file, for `display-buffer'.
Return nil if there is none that may be taken over."
  (when-let* ((view gemini-companion-review-window-current)
              (visiting
               (gemini-companion-review-visiting (gemini-companion-review-window-review view)))
              (buffers (seq-filter (lambda (it)
                                     (memq visiting (list it (buffer-base-buffer it))))
                                   (cons visiting (buffer-list))))
              (windows (seq-remove (lambda (window)
                                     (or (window-dedicated-p window)
                                         (< (window-body-height window) 4)
                                         (and (eq window (selected-window))
                                              (gemini-companion-review-window-typing-p view))))
                                   (mapcan #'gemini-companion-ui-windows-of buffers)))
              ;; A low one only if there is no other.
              (window (or (seq-find (lambda (it) (< 8 (window-body-height it))) windows)
                          (car windows))))
    (set-window-buffer window buffer)
    window))

(defun gemini-companion-review-inline--go-where-file-was (view)
  "Go to the line at which the selected window was in the file of VIEW.
If VIEW has not taken it over, or it showed another buffer, do nothing."
  (pcase-let ((`(,_ ,buffer ,point ,start ,_) (gemini-companion-review-window-taken view)))
    (when (and buffer
               (eq (or (buffer-base-buffer buffer) buffer)
                   (gemini-companion-review-visiting (gemini-companion-review-window-review view))))
      ;; The header line takes the first line of the window, so that the others can stay.
      (set-window-start nil (if (= (car start) 1) (point-min)
                              (gemini-companion-review-hunk-file-position (1+ (cdr start)))))
      (goto-char (gemini-companion-review-hunk-file-position (cdr point))))))

(defun gemini-companion-review-inline--go (hunk &optional stay)
  "Go to HUNK, and show all of it if possible; do not scroll if STAY is non-nil.
If it is outside of what the user has narrowed to, widen."
  (unless (<= (point-min) (gemini-companion-review-hunk-start hunk) (point-max))
    (widen))
  (goto-char (gemini-companion-review-hunk-start hunk))
  (let ((height (window-body-height))
        (end (gemini-companion-review-hunk-end hunk)))
    (unless (or stay
                (and (>= (point) (window-start))
                     (pos-visible-in-window-p (1- end))))
      (recenter (if (< (gemini-companion-review-window-count-lines (point) end) (/ height 2))
                    (/ height 3)
                  (min 3 (/ height 4))))))
  (gemini-companion-review-window-go-into-line (gemini-companion-review-hunk-difference hunk))
  (force-mode-line-update))

;;;; Keeping it up to date

(defun gemini-companion-review-inline--read-file (view)
  "Read the file of VIEW as it is now."
  (let ((before (gemini-companion-review-inline--current view))
        (current
         (gemini-companion-review-buffer-file-buffer (gemini-companion-review-window-review view))))
    (with-current-buffer current
      (rename-buffer (concat " " (buffer-name)) t))
    (setf (gemini-companion-review-inline--current view) current
          ;; What is shown is now out of date.
          (gemini-companion-review-inline--tick view) nil)
    (gemini-companion-ui-kill-buffer before)))

(defun gemini-companion-review-inline--compare (view &optional line)
  "Compare the texts of VIEW again; if LINE is non-nil, go to it in the proposal."
  (cancel-function-timers #'gemini-companion-review-inline--follow-edits)
  (let* ((review (gemini-companion-review-window-review view))
         (current (gemini-companion-review-inline--current view))
         (proposal (gemini-companion-review-window-proposal view))
         ;; All of a new file would be one hunk.
         (regions (if (gemini-companion-review-new-p review) []
                    (gemini-companion-review-call-once
                     review #'gemini-companion-change-regions
                     (gemini-companion-review-text-of-buffer current)
                     (gemini-companion-review-text-of-buffer proposal)))))
    (with-current-buffer (gemini-companion-review-window-main view)
      (widen)
      (let* ((window (get-buffer-window nil t))
             (row (and window (gemini-companion-review-inline--row window)))
             (at-hunk (or (gemini-companion-review-inline--edited view)
                          (gemini-companion-review-hunk-removed-line))))
        ;; The user may see it in other windows, too.
        (gemini-companion-ui-keep-point
         (lambda (position)
           (save-excursion
             (goto-char position)
             (gemini-companion-review-hunk-line)))
         #'gemini-companion-review-hunk-position
         (lambda () (gemini-companion-review-hunk-fill current proposal regions)))
        (set-buffer-modified-p nil)
        (setf (gemini-companion-review-inline--tick view) (buffer-chars-modified-tick proposal)
              (gemini-companion-review-inline--edited view) nil)
        (gemini-companion-review-inline--show-comments)
        (when line
          (goto-char (gemini-companion-review-hunk-position line)))
        (when at-hunk
          (gemini-companion-review-hunk-go-to-removed))
        (when window
          (set-window-point window (point))
          (set-window-start window (if row (line-beginning-position (- 1 row)) (point-min))
                            'if-point-is-visible)))))
  (force-mode-line-update t))

(defun gemini-companion-review-inline--proposal-changed (start _end _length)
  "Compare again soon, since the proposal in the current buffer changed at START."
  (when-let* ((view gemini-companion-review-window-current))
    (setf (gemini-companion-review-inline--edited view) start)
    (cancel-function-timers #'gemini-companion-review-inline--follow-edits)
    (run-at-time 0.3 nil #'gemini-companion-review-inline--follow-edits)))
;; Keep it if the user gives the proposal another major mode.
(put 'gemini-companion-review-inline--proposal-changed 'permanent-local-hook t)
(put 'gemini-companion-review-inline--show-comments 'permanent-local-hook t)

(defun gemini-companion-review-inline--follow-edits (&rest _)
  "Compare again, since the user pauses after edits of the proposal.
If the view is in no window, do so when it is in one again."
  (gemini-companion-log-errors "comparing"
    (when-let* ((view gemini-companion-review-window-current) ; not after an accept
                ((gemini-companion-review-inline--edited view))
                ((get-buffer-window (gemini-companion-review-window-main view) t)))
      (let ((throw-on-input nil))
        (with-local-quit
          (gemini-companion-review-inline--update view))))))

(defun gemini-companion-review-inline--update (view)
  "Compare again, and go to the last edit of the proposal of VIEW.
If there is none, stay at the line where point is."
  (gemini-companion-review-inline--compare
   view
   (when-let* ((position (gemini-companion-review-inline--edited view)))
     (with-current-buffer (gemini-companion-review-window-proposal view)
       (gemini-companion-ui-widened
         (line-number-at-pos (min position (point-max))))))))

(defun gemini-companion-review-inline--revert (&rest _)
  "Read the file again and compare."
  (let ((view (gemini-companion-review-inline--view-here)))
    (gemini-companion-review-inline--read-file view)
    (gemini-companion-review-inline--update view)))

(defun gemini-companion-review-inline--view-here ()
  "Return the view of the current buffer, whose review must be open."
  (let ((view gemini-companion-review-window-current))
    (gemini-companion-review-check-here
     (and view
          (eq (current-buffer) (gemini-companion-review-window-main view))
          ;; If that was killed, the view is about to go away.
          (gemini-companion-review-window-proposal view)))
    (gemini-companion-review-check-open (gemini-companion-review-window-review view))
    view))

(defun gemini-companion-review-inline--updated-view ()
  "Return the view of the current buffer, whose hunks must be up to date.
Otherwise update it, and signal a `user-error'."
  (let ((view (gemini-companion-review-inline--view-here)))
    (unless (and (eql (gemini-companion-review-inline--tick view)
                      (buffer-chars-modified-tick (gemini-companion-review-window-proposal view)))
                 (not (buffer-modified-p)))
      (gemini-companion-review-inline--update view)
      (user-error "The change has been edited; check it, then try again"))
    view))

;;;; Comments

(defun gemini-companion-review-inline--comment-place (start end)
  "Return where in the proposal the lines from START to END are.
See `gemini-companion-comment-place-function'."
  (cons (gemini-companion-review-window-proposal (gemini-companion-review-inline--updated-view))
        (gemini-companion-review-hunk-place start end)))

(defun gemini-companion-review-inline--show-comments ()
  "Show the comments on the proposal in the view of the current buffer."
  (let* ((view gemini-companion-review-window-current)
         (proposal (gemini-companion-review-window-proposal view)))
    (with-current-buffer (gemini-companion-review-window-main view)
      (gemini-companion-comment-mirror proposal #'gemini-companion-review-hunk-position))))

;;;; Hunks

(defun gemini-companion-review-inline--hunk-here ()
  "Return the hunk on the current line, or signal a `user-error'."
  (or (gemini-companion-review-hunk-at (line-beginning-position))
      (user-error "No hunk here: %s"
                  (if (null gemini-companion-review-hunk-list) "none is left"
                    (gemini-companion-ui-key 'gemini-companion-review-inline-next
                                             "goes to the next one")))))

(defun gemini-companion-review-inline-next (count)
  "Go to the next hunk; with a prefix argument, COUNT hunks forward."
  (interactive "p" gemini-companion-review-inline-mode)
  (gemini-companion-review-inline--updated-view)
  (let ((others (if (> count 0)
                    (seq-filter (lambda (it) (< (point) (gemini-companion-review-hunk-start it)))
                                gemini-companion-review-hunk-list)
                  (seq-filter (lambda (it) (< (gemini-companion-review-hunk-start it)
                                              (line-beginning-position)))
                              (reverse gemini-companion-review-hunk-list)))))
    (unless (zerop count)
      (gemini-companion-review-inline--go
       (or (nth (1- (abs count)) others)
           (user-error "There is no %s hunk" (if (> count 0) "next" "previous")))))))

(defun gemini-companion-review-inline-previous (count)
  "Go to the previous hunk; with a prefix argument, COUNT hunks back."
  (interactive "p" gemini-companion-review-inline-mode)
  (gemini-companion-review-inline-next (- count)))

(defun gemini-companion-review-inline-goto-line (line)
  "Go to LINE of the proposed text."
  (interactive (progn
                 (gemini-companion-review-inline--view-here)
                 (list (if current-prefix-arg (prefix-numeric-value current-prefix-arg)
                         (read-number "Go to line of the proposed text: "))))
               gemini-companion-review-inline-mode)
  (push-mark)
  (widen)
  (goto-char (gemini-companion-review-hunk-position (max 1 line))))

(defun gemini-companion-review-inline-drop ()
  "Drop the hunk at point, or the changes in the region if that is active.
The proposed text is then the same as the file there.
\\<gemini-companion-review-inline-mode-map>\\[gemini-companion-review-inline-undo] brings it back."
  (interactive nil gemini-companion-review-inline-mode)
  (let* ((view (gemini-companion-review-inline--updated-view))
         (region (and (use-region-p) (cons (region-beginning) (region-end))))
         (hunks (if (not region) (list (gemini-companion-review-inline--hunk-here))
                  (or (seq-filter (lambda (it)
                                    (and (< (gemini-companion-review-hunk-start it) (cdr region))
                                         (< (car region) (gemini-companion-review-hunk-end it))))
                                  gemini-companion-review-hunk-list)
                      (user-error "No hunk in the region")))))
    (gemini-companion-review-hunk-replace
     (gemini-companion-review-window-proposal view)
     (nreverse (mapcar (lambda (hunk)
                         (cons (gemini-companion-review-hunk-added hunk)
                               (gemini-companion-review-hunk-without hunk region)))
                       hunks)))
    (deactivate-mark)
    (gemini-companion-review-inline--go-on view)
    (message (substitute-command-keys
              "Dropped (%d left); \\[gemini-companion-review-inline-undo] brings it back")
             (length gemini-companion-review-hunk-list))))

(defun gemini-companion-review-inline--go-on (view)
  "Show VIEW again, and go to the next hunk unless there is one at point."
  ;; Start from point, not from the last edit.
  (setf (gemini-companion-review-inline--edited view) nil)
  (gemini-companion-review-inline--update view)
  (unless (gemini-companion-review-hunk-at (line-beginning-position))
    (ignore-error user-error
      (gemini-companion-review-inline-next 1))))

(defun gemini-companion-review-inline-keep ()
  "Keep the hunk at point, and go to the next one.
It then looks as if the file had it already; accepting still sends it.
\\<gemini-companion-review-inline-mode-map>\\[gemini-companion-review-inline-undo] \
shows it as a hunk again."
  (interactive nil gemini-companion-review-inline-mode)
  (let* ((view (gemini-companion-review-inline--updated-view))
         (hunk (gemini-companion-review-inline--hunk-here))
         (current (gemini-companion-review-inline--current view))
         (proposal (gemini-companion-review-window-proposal view))
         (added (gemini-companion-review-hunk-added hunk)))
    (with-current-buffer proposal
      (gemini-companion-review-inline--set-lines
       current (gemini-companion-review-hunk-removed hunk)
       (gemini-companion-review-hunk-lines proposal added) (cdr added) (car added))
      (undo-boundary))
    (gemini-companion-review-inline--go-on view)
    (unless gemini-companion-review-hunk-list
      (message "%s" (substitute-command-keys "That was the last hunk: \
\\<gemini-companion-review-mode-map>\\[gemini-companion-accept] accepts the change")))))

(defun gemini-companion-review-inline--set-lines (buffer lines text count line)
  "Replace LINES of BUFFER, a copy of the file that nobody sees, by TEXT.
TEXT has COUNT lines, and is at LINE of the proposal, the current buffer.
Record this in its undo list, so that changes of both are undone in order."
  (if (not (buffer-live-p buffer))      ; since the file was read again
      (push '(apply ignore) buffer-undo-list) ; so that this undo can be undone
    (push `(apply gemini-companion-review-inline--set-lines
                  ,buffer (,(car lines) . ,count)
                  ,(gemini-companion-review-hunk-lines buffer lines) ,(cdr lines) ,line)
          buffer-undo-list)
    (let ((inhibit-modification-hooks t))
      (gemini-companion-review-hunk-replace buffer (list (cons lines text))))
    ;; The proposal is as before, but what is shown is out of date.
    (setf (gemini-companion-review-inline--tick gemini-companion-review-window-current) nil
          (gemini-companion-review-inline--edited gemini-companion-review-window-current)
          (gemini-companion-ui-line-start line))))

(defun gemini-companion-review-inline-undo ()
  "Undo the last edit of the proposed text, or the last hunk that was kept."
  (interactive nil gemini-companion-review-inline-mode)
  (let ((view (gemini-companion-review-inline--view-here)))
    (with-current-buffer (gemini-companion-review-window-proposal view)
      (deactivate-mark)
      (let ((tree (bound-and-true-p undo-tree-mode))) ; it empties Emacs's own list
        (when (and (not tree) (gemini-companion-review-hunk-all-undone-p))
          (user-error "No further undo information"))
        (undo-boundary)
        ;; Do not continue the undo of another buffer.
        (let ((last-command nil) (this-command nil))
          (save-restriction
            (widen)
            (if tree (undo-tree-undo) (undo-only)))))
      (undo-boundary))
    (gemini-companion-review-inline--update view)))

;;;; Editing

(define-minor-mode gemini-companion-review-inline-edit-mode
  "Edit the proposed text in place of the change, and go back.
\\{gemini-companion-review-inline-edit-mode-map}"
  :interactive nil
  :keymap (make-sparse-keymap))

(gemini-companion-ui-bind gemini-companion-review-inline-edit-mode-map
  ("C-c C-o" "<remap> <save-buffer>") #'gemini-companion-review-inline-return)

;; Keep it through a change of the major mode, also by `gemini-companion-heavy-fontify-in-steps'.
(put 'gemini-companion-review-inline-edit-mode 'permanent-local t)

(defun gemini-companion-review-inline-edit ()
  "Edit the proposed text in this window, at the line at point.
\\<gemini-companion-review-inline-edit-mode-map>\\[gemini-companion-review-inline-return] \
or the key that saves a buffer goes back."
  (interactive nil gemini-companion-review-inline-mode)
  (let* ((view (gemini-companion-review-inline--updated-view))
         (proposal (gemini-companion-review-window-proposal view))
         (line (gemini-companion-review-hunk-line))
         (column (current-column))
         (row (gemini-companion-review-inline--row)))
    (set-window-buffer nil proposal)
    (set-buffer proposal)
    (gemini-companion-review-inline-edit-mode)
    (widen)
    (goto-char (gemini-companion-ui-line-start line))
    (move-to-column column)
    (gemini-companion-review-inline--recenter row)
    (message "%s" (substitute-command-keys "Edit the proposed text; \
\\<gemini-companion-review-inline-edit-mode-map>\
\\[gemini-companion-review-inline-return] goes back"))))

(defun gemini-companion-review-inline-return ()
  "Go back from the proposed text to the change, to the same place."
  (interactive (gemini-companion-review-check-here gemini-companion-review-inline-edit-mode)
               gemini-companion-review-inline-edit-mode)
  (let* ((view gemini-companion-review-window-current)
         (line (line-number-at-pos nil t))
         (offset (- (point) (line-beginning-position)))
         (row (gemini-companion-review-inline--row)))
    (gemini-companion-review-inline-edit-mode -1)
    (set-window-buffer nil (gemini-companion-review-window-main view))
    (set-buffer (gemini-companion-review-window-main view))
    (gemini-companion-review-inline--compare view line)
    (gemini-companion-review-inline--recenter row)
    (gemini-companion-review-window-go-into-line (min (+ (point) offset) (line-end-position)))))

(defun gemini-companion-review-inline--row (&optional window)
  "Return the row of point in WINDOW, by default the selected one.
Return nil if WINDOW shows the text from its beginning."
  (unless (= (window-start window) (point-min))
    (save-excursion
      (goto-char (window-point window))
      (count-screen-lines (window-start window) (line-beginning-position) nil window))))

(defun gemini-companion-review-inline--recenter (row)
  "Show point in ROW of the selected window, or the text from its beginning.
Otherwise, lines that are removed there would be above the window."
  (if row (recenter row) (set-window-start nil (point-min) 'if-point-is-visible)))

;;;; After an accept

;; The client writes the file a moment later.  Until then the change stays on screen, since the file
;; would show its old text.  A key that is pressed meanwhile is for the file.

(cl-defmethod gemini-companion-review-window-stop ((view gemini-companion-review-inline--view))
  "Take VIEW off the screen, after an accept once the file has been written."
  (let ((stop (lambda () (cl-call-next-method)))
        (review (gemini-companion-review-window-review view)))
    (if-let* ((entry (gemini-companion-review-entry review))
              ((memq (gemini-companion-history-outcome entry) '(accepted closed)))
              ((gemini-companion-review-window-taken view))
              ((buffer-live-p (gemini-companion-review-window-main view)))
              (visiting (gemini-companion-review-visiting review)))
        (gemini-companion-review-inline--freeze view visiting stop)
      (funcall stop))))

(defun gemini-companion-review-inline--freeze (view visiting stop)
  "Call STOP to take VIEW off the screen when VISITING is reverted, or soon."
  (run-at-time gemini-companion-review-inline--write-time nil
               #'gemini-companion-review-window-stop-now)
  (setq gemini-companion-review-window-stopping
        (lambda ()
          (cancel-function-timers #'gemini-companion-review-window-stop-now)
          (when (buffer-live-p visiting)
            (with-current-buffer visiting
              (remove-hook 'after-revert-hook #'gemini-companion-review-window-stop-now t)))
          (funcall stop)))
  (with-current-buffer visiting
    (add-hook 'after-revert-hook #'gemini-companion-review-window-stop-now nil t))
  (gemini-companion-log-errors "going back to a change"
    (when-let* ((proposal (gemini-companion-review-window-proposal view))
                (window (gemini-companion-ui-window-of proposal))
                ((buffer-local-value 'gemini-companion-review-inline-edit-mode proposal)))
      (with-selected-window window
        (let ((gemini-companion-review-window-current view))
          (gemini-companion-review-inline-return)))))
  (gemini-companion-review-window-select-other view)
  (with-current-buffer (gemini-companion-review-window-main view)
    ;; Not a keymap: those of Evil would come before it.
    (add-hook 'pre-command-hook
              (lambda ()
                (setq this-command (lambda ()
                                     (interactive)
                                     (gemini-companion-review-inline--pass-keys))))
              nil t)))

(defun gemini-companion-review-inline--pass-keys ()
  "Take the change off the screen, and repeat the keys of the current command."
  (let ((keys (this-command-keys-vector)))
    (setq prefix-arg current-prefix-arg
          this-command last-command)
    (gemini-companion-review-window-stop-now)
    (setq unread-command-events (append (mapcar (lambda (key)
                                                  ;; A macro that is being defined has them.
                                                  (cons (if defining-kbd-macro 'no-record t) key))
                                                keys)
                                        unread-command-events))))

(provide 'gemini-companion-review-inline)
;;; gemini-companion-review-inline.el ends here

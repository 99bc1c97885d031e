;;; gemini-companion-inline.el --- A review in the window of its file -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows a review in one read-only buffer that takes the place of the file in its window, at the same
;; line: the whole proposal, and between its lines those that it removes.  All of it is text, so one
;; can search and narrow as in the file.
;;
;; `display-buffer' chooses the window, so users can choose another by `display-buffer-alist'.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'gemini-companion-history)
(require 'gemini-companion-hunks)
(require 'gemini-companion-inline-text)
(require 'gemini-companion-log)
(require 'gemini-companion-proposal)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)
(require 'gemini-companion-view)

(defconst gemini-companion-inline--min-height 4
  "Minimum height of a window that is taken over.")

(defconst gemini-companion-inline--write-time 0.7
  "Seconds for which an accepted change stays until its file has been written.")

(defconst gemini-companion-inline--display
  '(line-spacing face-remapping-alist ctl-arrow buffer-display-table cursor-type
                 bidi-display-reordering bidi-paragraph-direction show-trailing-whitespace)
  "Variables that say how the file is displayed, besides those of a proposal.")

(defconst gemini-companion-inline--syntax
  '(comment-start comment-start-skip comment-end outline-regexp outline-level outline-heading-alist)
  "Variables of the major mode of the file for commands that read the text.")

(cl-defstruct (gemini-companion-inline--view
               (:include gemini-companion-hunks)
               (:constructor gemini-companion-inline--make)
               (:conc-name gemini-companion-inline--)
               (:copier nil))
  "A review in the window of its file.")

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
                     (("u" "C-c C-u") gemini-companion-hunks-undo)
                     (("e" "RET" "C-c C-o") gemini-companion-inline-edit)
                     (("c") gemini-companion-comment)
                     (("q") gemini-companion-review-quit)
                     (("?") gemini-companion-inline-show-keys)
                     (("<remap> <undo>" "<remap> <undo-only>") gemini-companion-hunks-undo)
                     (("<remap> <goto-line>") gemini-companion-inline-goto-line)
                     (("<remap> <read-only-mode>") gemini-companion-inline-edit)))
      (dolist (key keys)
        (define-key map (kbd key) command)))
    map)
  "Keys in a review in the window of its file.")

(define-derived-mode gemini-companion-inline-mode special-mode "Gemini-Review"
  "Major mode for a proposed change in the window of its file.
The text is the proposal, with the lines that it removes.  You accept or
reject all hunks together, but can drop some first.

\\<gemini-companion-review-mode-map>\
\\[gemini-companion-accept] accepts the change as it now reads, \
\\[gemini-companion-reject] rejects it.

\\{gemini-companion-inline-mode-map}"
  :interactive nil
  (setq-local revert-buffer-function #'gemini-companion-hunks-revert
              imenu-create-index-function #'gemini-companion-inline--index)
  (buffer-disable-undo)
  (setq buffer-read-only t))

(defun gemini-companion-inline-show-keys ()
  "Describe the keys of the review in the echo area."
  (interactive nil gemini-companion-inline-mode)
  (message "%s" "\
n p      next, previous hunk      k        drop the hunk, or the region's lines
y        keep the hunk, go on     u        undo
e RET    edit the proposal here   c        comment on the line or region
C-c C-c  accept                   C-c C-k  reject
C-c C-a  accept all that wait     C-c C-v  another view
q        accept, reject or decide later"))

;;;; Showing

;;;###autoload
(defun gemini-companion-inline-show (review focus)
  "Show REVIEW in the window of its file.
Return a function that takes it off the screen.  FOCUS is `keep' or
`select', see `gemini-companion-diff-focus'.  If `keep', the window in which
you type is not taken over while its frame has the focus.  Show a new file,
or three texts, as `gemini-companion-ediff-show' does."
  (gemini-companion-hunks-show (gemini-companion-inline--make :review review) focus))

(put 'gemini-companion-inline-show 'gemini-companion-steps
     (lambda (review)
       (gemini-companion-proposal-steps review #'gemini-companion-change-regions)))

(cl-defmethod gemini-companion-view-start ((view gemini-companion-inline--view))
  "Show VIEW in the window of its file."
  (let* ((review (gemini-companion-view-review view))
         (buffer (gemini-companion-proposal-make-buffer review "review")))
    (with-current-buffer buffer
      (gemini-companion-proposal-set-mode #'gemini-companion-inline-mode)
      (gemini-companion-proposal-set-up review #'gemini-companion-inline--header)
      (gemini-companion-proposal-enable-modal-modes))
    (gemini-companion-hunks-start view buffer)
    (let ((proposal (gemini-companion-view-proposal view)))
      (with-current-buffer buffer
        (gemini-companion-inline--look-like proposal (gemini-companion-review-visiting review))
        (gemini-companion-inline-text-decorate
         (with-current-buffer proposal (line-number-at-pos (point-max) t))
         proposal (gemini-companion-hunks-current view))))
    (gemini-companion-hunks-compare view 1)
    (select-window (gemini-companion-inline--display view))))

(defun gemini-companion-inline--look-like (proposal visiting)
  "Have the current buffer look like the buffer VISITING, if that is not nil.
PROPOSAL is the one with the proposal, which has the major mode of the file."
  (set-syntax-table (with-current-buffer proposal (syntax-table)))
  (gemini-companion-inline--copy-variables gemini-companion-inline--syntax proposal)
  (gemini-companion-proposal-take-over-display gemini-companion-review-of-buffer)
  (when visiting
    (gemini-companion-inline--copy-variables gemini-companion-inline--display visiting)))

(defun gemini-companion-inline--copy-variables (variables buffer)
  "Give VARIABLES the values that they have in BUFFER, if they are local there."
  (dolist (variable variables)
    (when (local-variable-p variable buffer)
      (set (make-local-variable variable) (buffer-local-value variable buffer)))))

(cl-defmethod gemini-companion-view-parts ((view gemini-companion-inline--view))
  "Return the buffer of VIEW, or the proposal while that is edited in its place."
  (let ((proposal (gemini-companion-view-proposal view)))
    (list (if (gemini-companion-ui-window-of proposal) proposal
            (gemini-companion-hunks-buffer view)))))

(cl-defmethod gemini-companion-view-clean-up ((view gemini-companion-inline--view))
  "Kill the buffers of VIEW; if the proposal was edited here, end that."
  (when-let* ((proposal (gemini-companion-view-proposal view)))
    (with-current-buffer proposal
      (gemini-companion-inline-edit-mode -1)))
  (cl-call-next-method))

(defun gemini-companion-inline--header (review)
  "Return the header line for the change of REVIEW in the current buffer."
  (gemini-companion-proposal-header
   review (cons 1 (gemini-companion-inline--describe-place gemini-companion-inline-text-hunks))
   `((gemini-companion-accept "accepts")
     (gemini-companion-reject "rejects")
     ,@(unless (seq-empty-p gemini-companion-inline-text-hunks)
         '((gemini-companion-inline-drop "drops") (gemini-companion-inline-keep "keeps")))
     (gemini-companion-inline-edit "edits")
     (gemini-companion-comment "comments")
     (gemini-companion-accept-all "accepts all")
     (gemini-companion-hunks-undo "undoes"))))

(defun gemini-companion-inline--describe-place (hunks)
  "Return at which of HUNKS point is, for the header line."
  (let ((here (seq-position hunks (gemini-companion-inline-text-hunk-at (line-beginning-position))
                            #'eq))
        (count (length hunks)))
    (cond (here (format "hunk %d of %d" (1+ here) count))
          ((= count 0) "no hunk left")
          (t (format (ngettext "%d hunk" "%d hunks" count) count)))))

;;;; The window

(cl-defmethod gemini-companion-view-suitable-frame ((view gemini-companion-inline--view))
  "Return the frame on which the file of VIEW is visible, else the usual one."
  (if-let* ((window (gemini-companion-inline--file-window view)))
      (window-frame window)
    (cl-call-next-method)))

(defun gemini-companion-inline--file-window (view)
  "Return a window that shows the file of VIEW and may be taken over, or nil."
  (when-let* ((visiting (gemini-companion-review-visiting (gemini-companion-view-review view))))
    (seq-find (lambda (window)
                (and (not (window-dedicated-p window))
                     (>= (window-body-height window) gemini-companion-inline--min-height)
                     (not (and (eq window (selected-window))
                               (gemini-companion-inline--typing-p view)))))
              (mapcan #'gemini-companion-ui-windows-of
                      (cons visiting (seq-filter (lambda (it)
                                                   (eq (buffer-base-buffer it) visiting))
                                                 (buffer-list)))))))

(defun gemini-companion-inline--typing-p (view)
  "Return non-nil if the user is to go on typing in the selected window.
That is so, by the focus of VIEW, unless the user is known to be in another
program."
  (and (eq (gemini-companion-view-focus view) 'keep)
       (frame-focus-state)))

(defun gemini-companion-inline--display (view)
  "Display VIEW, at the line at which the user is in the file; return the window."
  (let ((window (display-buffer (gemini-companion-hunks-buffer view)
                                `((display-buffer-reuse-window
                                   gemini-companion-inline-display-in-file-window
                                   gemini-companion-inline-display-in-new-window)
                                  (inhibit-same-window
                                   . ,(gemini-companion-inline--typing-p view))))))
    (with-selected-window window
      (set-window-hscroll window 0)
      (apply #'gemini-companion-inline--go-where-file-was view
             (gemini-companion-view-take view window))
      (unless (seq-empty-p gemini-companion-inline-text-hunks)
        (let ((visible (gemini-companion-inline--visible-hunk)))
          (gemini-companion-inline--go (or visible (aref gemini-companion-inline-text-hunks 0))
                                       visible))))
    window))

(defun gemini-companion-inline-display-in-file-window (buffer _alist)
  "Display BUFFER, one of a review, in a window of the file.
This is an action function for `display-buffer'.  A window in which the
user types is not used."
  (when-let* ((view (buffer-local-value 'gemini-companion-hunks-of-buffer buffer))
              (window (gemini-companion-inline--file-window view)))
    (set-window-buffer window buffer)
    window))

(defun gemini-companion-inline-display-in-new-window (buffer _alist)
  "Display BUFFER, one of a review, in a window above those of the user.
This is an action function for `display-buffer'."
  (when-let* ((view (buffer-local-value 'gemini-companion-hunks-of-buffer buffer))
              (window (gemini-companion-view-make-window view)))
    (set-window-buffer window buffer)
    window))

(defun gemini-companion-inline--go-where-file-was (view &optional buffer start point)
  "Go to the line at which the selected window was in the file of VIEW.
BUFFER, START and POINT are what `gemini-companion-view-take' has returned."
  (when (and buffer
             (eq (or (buffer-base-buffer buffer) buffer)
                 (gemini-companion-review-visiting (gemini-companion-view-review view))))
    ;; The header line takes the first line of the window, so that the others can stay.
    (set-window-start nil (gemini-companion-inline-text-file-position
                           (- (cdr start) (if (= (car start) 1) 1 0))))
    (goto-char (gemini-companion-inline-text-file-position (1- (cdr point))))))

(defun gemini-companion-inline--visible-hunk ()
  "Return the first hunk whose start is visible in the selected window, or nil."
  ;; To find out whether a position is visible takes a while.
  (when-let* ((hunk (seq-find (lambda (it)
                                (>= (gemini-companion-inline-text-hunk-start it) (window-start)))
                              gemini-companion-inline-text-hunks)))
    (and (pos-visible-in-window-p (gemini-companion-inline-text-hunk-start hunk))
         hunk)))

(defun gemini-companion-inline--go (hunk &optional stay)
  "Go to HUNK, and show all of it if possible; do not scroll if STAY is non-nil.
If it is outside of what the user has narrowed to, widen."
  (unless (<= (point-min) (gemini-companion-inline-text-hunk-start hunk) (point-max))
    (widen))
  (goto-char (gemini-companion-inline-text-hunk-start hunk))
  (let ((height (window-body-height))
        (end (gemini-companion-inline-text-hunk-end hunk)))
    (unless (or stay
                (not (eq (window-buffer) (current-buffer)))
                (and (>= (point) (window-start))
                     (pos-visible-in-window-p (max (point-min) (1- end)))))
      (recenter (if (< (count-lines (point) end) (/ height 2)) (/ height 3)
                  (min 3 (/ height 4))))))
  (force-mode-line-update))

;;;; Hunks

(cl-defmethod gemini-companion-hunks-compare ((view gemini-companion-inline--view) line)
  "Make the text of VIEW again, and go to LINE of the proposal."
  (let* ((current (gemini-companion-hunks-current view))
         (proposal (gemini-companion-view-proposal view))
         (regions (gemini-companion-review-call-once
                   (gemini-companion-view-review view) #'gemini-companion-change-regions
                   (gemini-companion-proposal-text current)
                   (gemini-companion-proposal-text proposal))))
    (with-current-buffer (gemini-companion-hunks-buffer view)
      (widen)
      (let ((rows (gemini-companion-hunks-rows))
            (at-hunk (or (gemini-companion-hunks-edited view)
                         (gemini-companion-inline-text-removed-p))))
        (gemini-companion-inline-text-fill current proposal regions)
        (gemini-companion-hunks-note-shown view (length regions))
        (goto-char (gemini-companion-inline-text-position (1- line)))
        (when at-hunk
          (gemini-companion-inline--go-to-removed))
        (gemini-companion-hunks-scroll rows)))))

(defun gemini-companion-inline--go-to-removed ()
  "If a hunk without added lines ends at point, go to its start."
  (when-let* ((hunk (and (> (point) (point-min))
                         (gemini-companion-inline-text-hunk-at (1- (point))))))
    (when (= (gemini-companion-inline-text-hunk-middle hunk)
             (gemini-companion-inline-text-hunk-end hunk)
             (point))
      (goto-char (gemini-companion-inline-text-hunk-start hunk)))))

(cl-defmethod gemini-companion-hunks-line ((_view gemini-companion-inline--view))
  "Return the line of the proposal at point."
  (1+ (gemini-companion-inline-text-line)))

(cl-defmethod gemini-companion-hunks-position ((_view gemini-companion-inline--view) line removed)
  "Return where LINE of the proposal is.
If REMOVED is non-nil, return where the last line of that is, before LINE."
  (or (and removed
           (gemini-companion-inline-text-removed-position
            (1- line) (car (last (split-string removed "\n")))))
      (gemini-companion-inline-text-position (1- line))))

(cl-defmethod gemini-companion-hunks-removed-line ((_view gemini-companion-inline--view))
  "Return the text of the line at point if it is a removed one."
  (and (gemini-companion-inline-text-removed-p)
       (buffer-substring-no-properties (line-beginning-position) (line-end-position))))

(defun gemini-companion-inline--hunk-here ()
  "Return the hunk on the current line, or signal a `user-error'."
  (or (gemini-companion-inline-text-hunk-at (line-beginning-position))
      (user-error "%s" (substitute-command-keys "No hunk here: \
\\<gemini-companion-inline-mode-map>\\[gemini-companion-inline-next] goes to the next one"))))

(defun gemini-companion-inline-next (count)
  "Go to the next hunk, or, with a prefix argument, COUNT hunks further."
  (interactive "p" gemini-companion-inline-mode)
  (gemini-companion-hunks-current-view)
  (let* ((hunks (append gemini-companion-inline-text-hunks nil))
         (line (line-beginning-position))
         (others (if (> count 0)
                     (seq-filter (lambda (it)
                                   (> (gemini-companion-inline-text-hunk-start it) (point)))
                                 hunks)
                   (nreverse (seq-filter (lambda (it)
                                           (< (gemini-companion-inline-text-hunk-start it) line))
                                         hunks)))))
    (gemini-companion-inline--go
     (or (nth (1- (abs count)) others)
         (user-error "There is no %s hunk" (if (> count 0) "next" "previous"))))))

(defun gemini-companion-inline-previous (count)
  "Go to the previous hunk, or, with a prefix argument, COUNT hunks back."
  (interactive "p" gemini-companion-inline-mode)
  (gemini-companion-inline-next (- count)))

(defun gemini-companion-inline-goto-line (line)
  "Go to LINE of the proposal."
  (interactive (list (if current-prefix-arg (prefix-numeric-value current-prefix-arg)
                       (read-number "Go to line of the proposal: ")))
               gemini-companion-inline-mode)
  (push-mark)
  (widen)
  (goto-char (gemini-companion-inline-text-position (1- (max 1 line)))))

(defun gemini-companion-inline--index ()
  "Return the hunks as an index for Imenu."
  (cl-loop for hunk across gemini-companion-inline-text-hunks
           for start = (gemini-companion-inline-text-hunk-start hunk)
           collect (cons (format "%d: %s" (1+ (gemini-companion-inline-text-hunk-b hunk))
                                 (save-excursion
                                   (goto-char start)
                                   (string-trim (buffer-substring start (line-end-position)))))
                         (copy-marker start))))

(defun gemini-companion-inline-drop ()
  "Drop the hunk at point, or the changes in the region if that is active.
The proposal then agrees with the file there.
\\<gemini-companion-inline-mode-map>\\[gemini-companion-hunks-undo] brings it back."
  (interactive nil gemini-companion-inline-mode)
  (let* ((view (gemini-companion-hunks-current-view))
         (region (and (use-region-p) (cons (region-beginning) (region-end))))
         (hunks (if region
                    (seq-filter (lambda (it)
                                  (and (< (gemini-companion-inline-text-hunk-start it) (cdr region))
                                       (< (car region) (gemini-companion-inline-text-hunk-end it))))
                                gemini-companion-inline-text-hunks)
                  (list (gemini-companion-inline--hunk-here)))))
    (unless hunks
      (user-error "No hunk is in the region"))
    (gemini-companion-hunks-drop
     view
     (nreverse (mapcar (lambda (hunk)
                         (cons (gemini-companion-inline-text-added-lines hunk)
                               (gemini-companion-inline-text-without hunk region)))
                       hunks)))
    (gemini-companion-inline--go-on)))

(defun gemini-companion-inline--go-on ()
  "Go to the hunk at point, or to the next one if there is one."
  (unless (gemini-companion-inline-text-hunk-at (line-beginning-position))
    (ignore-error user-error
      (gemini-companion-inline-next 1))))

(defun gemini-companion-inline-keep ()
  "Keep the hunk at point, and go to the next one.
It is then shown as if it was in the file; what an accept sends is the same.
\\<gemini-companion-inline-mode-map>\\[gemini-companion-hunks-undo] shows it as a hunk again."
  (interactive nil gemini-companion-inline-mode)
  (let* ((view (gemini-companion-hunks-current-view))
         (hunk (gemini-companion-inline--hunk-here))
         (current (gemini-companion-hunks-current view))
         (proposal (gemini-companion-view-proposal view))
         (first (gemini-companion-inline-text-hunk-a hunk))
         (added (gemini-companion-inline-text-added-lines hunk)))
    (with-current-buffer proposal
      (undo-boundary)
      (gemini-companion-inline--set-lines
       current (cons (1+ first) (- (gemini-companion-inline-text-hunk-a-end hunk) first))
       (gemini-companion-inline--lines proposal added) (car added))
      (undo-boundary))
    ;; From here to the next one.
    (setf (gemini-companion-hunks-edited view) nil)
    (gemini-companion-hunks-update view)
    (if (zerop (gemini-companion-hunks-count view))
        (message "%s" (substitute-command-keys "That was the last hunk: \
\\<gemini-companion-review-mode-map>\\[gemini-companion-accept] accepts the change"))
      (gemini-companion-inline--go-on))))

(defun gemini-companion-inline--lines (buffer lines)
  "Return LINES of BUFFER, a cons of the first one and a number, as text."
  (with-current-buffer buffer
    (save-restriction
      (widen)
      (apply #'buffer-substring-no-properties (gemini-companion-hunks-bounds lines)))))

(defun gemini-companion-inline--set-lines (buffer lines text line)
  "Replace LINES of BUFFER, a copy of the file that nobody sees, by TEXT.
LINE is where that is in the proposal, the current buffer.  It is recorded
among the changes of that, so that one command undoes both, in order.  If
the file was read again since, it is another buffer, and there is nothing
to do."
  (if (not (buffer-live-p buffer))
      (push '(apply ignore) buffer-undo-list) ; each undo has something to be undone in turn
    (push `(apply gemini-companion-inline--set-lines
                  ,buffer ,(cons (car lines) (gemini-companion-inline--count-lines text))
                  ,(gemini-companion-inline--lines buffer lines) ,line)
          buffer-undo-list)
    (let ((inhibit-modification-hooks t))
      (gemini-companion-hunks-replace buffer (list (cons lines text))))
    ;; The proposal is as before, but what is shown is out of date.
    (setf (gemini-companion-hunks-tick gemini-companion-hunks-of-buffer) nil
          (gemini-companion-hunks-edited gemini-companion-hunks-of-buffer)
          (gemini-companion-ui-line-start line))))

(defun gemini-companion-inline--count-lines (text)
  "Return the number of lines of TEXT, of which the last may lack a newline."
  (+ (cl-count ?\n text) (if (string-match-p "[^\n]\\'" text) 1 0)))

;;;; Editing

(defvar gemini-companion-inline-edit-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-o") #'gemini-companion-inline-return)
    map)
  "Keys while the proposal is edited in place of the change.")

(define-minor-mode gemini-companion-inline-edit-mode
  "Edit the proposal in place of the change, and go back to that.
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
  "Edit the proposal in this window, at the line at point.
\\<gemini-companion-inline-edit-mode-map>\\[gemini-companion-inline-return] \
or \\[save-buffer] goes back."
  (interactive nil gemini-companion-inline-mode)
  (let* ((view (gemini-companion-hunks-current-view))
         (line (gemini-companion-hunks-line view))
         (column (current-column))
         (row (gemini-companion-inline--row)))
    (gemini-companion-inline--switch (gemini-companion-view-proposal view))
    (gemini-companion-inline-edit-mode)
    (widen)
    (goto-char (gemini-companion-ui-line-start line))
    (move-to-column column)
    (recenter row)
    (message "%s" (substitute-command-keys "Edit the proposal; \
\\<gemini-companion-inline-edit-mode-map>\\[gemini-companion-inline-return] goes back"))))

(defun gemini-companion-inline-return ()
  "Go back from the proposal to the change, at the same line."
  (interactive nil gemini-companion-inline-edit-mode)
  (let* ((view gemini-companion-hunks-of-buffer)
         (line (line-number-at-pos nil t))
         (row (gemini-companion-inline--row)))
    (gemini-companion-inline-edit-mode -1)
    (gemini-companion-inline--switch (gemini-companion-hunks-buffer view))
    (gemini-companion-hunks-compare view line)
    (recenter row)))

(defun gemini-companion-inline--row ()
  "Return the row of point in the selected window."
  (count-screen-lines (window-start) (line-beginning-position)))

(defun gemini-companion-inline--switch (buffer)
  "Have the selected window show BUFFER of the same view."
  (set-window-buffer nil buffer)
  (set-buffer buffer))

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
               (get-buffer-window (gemini-companion-hunks-buffer view) t)))
        (gemini-companion-inline--freeze view leave)
      (funcall leave))))

(defun gemini-companion-inline--to-be-written-p (view)
  "Return non-nil if the client writes the file that VIEW has taken the place of."
  (let ((entry (gemini-companion-review-entry (gemini-companion-view-review view))))
    (and entry
         (memq (gemini-companion-history-outcome entry) '(accepted closed))
         (gemini-companion-view-taken view)
         (buffer-live-p (gemini-companion-hunks-buffer view))
         (gemini-companion-review-visiting (gemini-companion-view-review view)))))

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
    (with-current-buffer (gemini-companion-hunks-buffer view)
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

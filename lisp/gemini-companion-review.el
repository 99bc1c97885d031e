;;; gemini-companion-review.el --- One proposed change -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A review is one proposal of a client for one file.  This file has the object, the list of those
;; that are open, what a review changes in its file, and whether an accept would lose something.
;; Its state is changed only by gemini-companion-queue.el.
;;
;; Texts are compared and merged in the native module, which takes bounded time whatever is in them,
;; and needs neither a program nor a temporary file.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-file)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function gemini-companion--mod-decode "ext:gemini-companion-module" (bytes unix) t)
(declare-function gemini-companion--mod-diff "ext:gemini-companion-module"
                  (before after context apart) t)
(declare-function gemini-companion--mod-merge "ext:gemini-companion-module"
                  (base ours theirs) t)
(declare-function gemini-companion--mod-regions "ext:gemini-companion-module" (a b c most) t)

;;;; Reviews

(cl-defstruct (gemini-companion-review
               (:constructor gemini-companion-review-make)
               (:copier nil))
  "One proposed change to one file."
  (id nil :documentation "The number by which the native module knows it.")
  (agent nil :documentation "The name of its program, as in `gemini-companion-agent-profiles'.")
  (client nil :documentation "The name of the client, for the user.")
  (info nil :documentation "A cons of the name and the version that the client reports.")
  (process nil :documentation "The process id of the client, nil if that is not known.")
  (path nil :documentation "The absolute name of the file, exactly as the client wrote it.
If the file is on a host, it begins with the prefix of that.")
  (host nil :documentation "The prefix of the host that the file is on, nil if it is local.")
  (proposed nil :documentation "The text as the client proposed it.")
  (created nil :documentation "The time at which it was proposed.")
  (prompt nil :documentation "The prompt that led to it, a cons of its text and the time at which
it was sent, the same for all changes of one prompt; nil if that is not known.")
  (base nil :documentation "The contents of the file then as bytes, nil if there was none.")
  (stamp nil :documentation "The stamp of the file then, see `gemini-companion-file-stamp'.")
  (other-stamp nil :documentation "The last stamp with which the file had other contents, or nil.")
  (known-change nil :documentation "A list of the base and a version of the text, as they
were compared last, and their `gemini-companion-change'; or nil.")
  (merged nil :documentation "The `gemini-companion-review-merge-states' in which the proposal
contained the unsaved edits of the user, or nil.")
  (unmerged nil :documentation "A list of (TEXT BASE STAMP): `text', `base' and `stamp' before each
merge of what was written to the file, the last one first.")
  (conflict nil :documentation "What an accept would lose: `unsaved', `changed' or nil.")
  (text nil :documentation "The text as it was last read from `proposal'.")
  (tick nil :documentation "The modification tick of `proposal' then.")
  (file-text nil :documentation "A cons of contents of its file and the text that they are, or nil.")
  (result nil :documentation "A cons of a call that took long and its value, see
`gemini-companion-review-call-once'.")
  (proposal nil :documentation "The buffer with the proposal, which the user may edit, or nil.")
  (comments nil :documentation "The comments of the user when `proposal' was last killed,
see `gemini-companion-comment-save'.")
  (chosen-view nil :documentation "The function by which the user has it shown, or nil for the usual
one, see `gemini-companion-diff-function'.")
  (front nil :documentation "While shown, the main buffer of the view, or nil.")
  (intact-function nil :documentation "While shown, a function that returns non-nil if all
of it is on screen, or nil.")
  (with-base nil :documentation "Non-nil to show also the text from which it was made.")
  (hide-function nil :documentation "While shown, a function that takes it off the screen.")
  (state 'waiting :documentation "`waiting', `shown', `asked' or `ended'.")
  (seen nil :documentation "Non-nil once it was on screen.")
  (postponed nil :documentation "Non-nil if the user wants to decide later.")
  (held nil :documentation "What kept it from being shown at the last attempt, or nil.")
  (fault nil :documentation "Why it could not be shown at the last attempt, or nil.")
  (entry nil :documentation "Once it has ended, its `gemini-companion-history-entry'.")
  (turn nil :documentation "What the screen of its client shows of its turn, or nil: a
list of its number, the number of all changes, and the files that follow,
by absolute names.")
  (ending nil :documentation "How it has ended, text for the user; nil while it is open.")
  (writer nil :documentation "If Emacs is to write the file when the user accepts,
a function that does so and tells the client.  It is called with the review and
the text, and returns nil if the review was decided meanwhile.")
  (waiter nil :documentation "A function to be called with the outcome, or nil."))

(defconst gemini-companion-review--edit-pause 0.3
  "Seconds after an edit of a proposal before it is compared again.")

(defvar gemini-companion-review--edited nil
  "Reviews that a timer will compare again.")

(defvar-local gemini-companion-review-of-buffer nil
  "The review to which this buffer belongs.")
(put 'gemini-companion-review-of-buffer 'permanent-local t)

(defvar gemini-companion-review-change-hook nil
  "Hook run when the list of open reviews, or one of them, has changed.")

(defvar gemini-companion-review--open nil
  "The reviews that await a decision, the oldest first.")

(defun gemini-companion-review-open-p (review)
  "Return non-nil if REVIEW still awaits a decision."
  (not (eq (gemini-companion-review-state review) 'ended)))

(defun gemini-companion-review-check-open (review)
  "If REVIEW has ended, signal a `user-error' that says how."
  (unless (gemini-companion-review-open-p review)
    (user-error "%s: %s" (gemini-companion-review-file review)
                (gemini-companion-review-ending review))))

(defun gemini-companion-review-list-open ()
  "Return the reviews that await a decision, the oldest first."
  (copy-sequence gemini-companion-review--open))

(defun gemini-companion-review-count ()
  "Return the number of reviews that await a decision."
  (length gemini-companion-review--open))

(defun gemini-companion-review-waiting-p ()
  "Return non-nil if a review awaits a decision."
  (and gemini-companion-review--open t))

(defun gemini-companion-review-shown ()
  "Return the review on screen, or nil."
  (cl-loop for review in gemini-companion-review--open
           if (gemini-companion-review-hide-function review) return review))

(defun gemini-companion-review-with-id (id)
  "Return the open review with ID, or nil."
  (cl-loop for review in gemini-companion-review--open
           if (eql (gemini-companion-review-id review) id) return review))

(defun gemini-companion-review-add (review)
  "Add REVIEW to those that await a decision."
  (setq gemini-companion-review--open (append gemini-companion-review--open (list review))))

(defun gemini-companion-review-remove (review)
  "Remove REVIEW from those that await a decision, if it is there."
  (setq gemini-companion-review--open (delq review gemini-companion-review--open)))

(add-hook 'gemini-companion-file-needed-functions #'gemini-companion-review--of-file-p)

(defun gemini-companion-review--of-file-p (path)
  "Return non-nil if a review of the file PATH awaits a decision."
  (cl-loop for review in gemini-companion-review--open
           thereis (equal (gemini-companion-review-path review) path)))

;;;; Texts and names

(defun gemini-companion-review-current-text (review)
  "Return the present text of the proposal of REVIEW."
  (unless (gemini-companion-review--text-known-p review)
    (let ((proposal (gemini-companion-review-proposal review)))
      (setf (gemini-companion-review-text review) (gemini-companion-review-buffer-text proposal)
            (gemini-companion-review-tick review) (buffer-chars-modified-tick proposal))))
  (gemini-companion-review-text review))

(defun gemini-companion-review--text-known-p (review)
  "Return non-nil unless the proposal of REVIEW was edited since it was last read."
  (let ((proposal (gemini-companion-review-proposal review)))
    (or (not (buffer-live-p proposal))
        (eql (buffer-chars-modified-tick proposal) (gemini-companion-review-tick review)))))

(defun gemini-companion-review-set-proposal (review buffer)
  "Make BUFFER the proposal of REVIEW; it contains the present text of REVIEW."
  (setf (gemini-companion-review-proposal review) buffer
        (gemini-companion-review-tick review) (buffer-chars-modified-tick buffer)))

(defun gemini-companion-review-buffer-text (buffer)
  "Return the whole text of BUFFER."
  (with-current-buffer buffer
    (save-restriction
      (widen)
      (buffer-substring-no-properties (point-min) (point-max)))))

(defun gemini-companion-review-file (review)
  "Return the name of the file of REVIEW without its directory, for the user."
  (gemini-companion-file-short-title (gemini-companion-review-path review)
                                     (gemini-companion-review-host review)))

(defun gemini-companion-review-project-path (review)
  "Return the name of the file of REVIEW relative to its project, for the user."
  (gemini-companion-review-project-name (gemini-companion-review-path review)
                                        (gemini-companion-review-host review)))

(defun gemini-companion-review-project-name (path host)
  "Return the file name PATH relative to its project, for the user.
HOST is as in `gemini-companion-review'."
  (if host (gemini-companion-file-title path host)
    (gemini-companion-ui-one-line
     (if-let* ((root (gemini-companion-workspace-innermost path)))
         (string-remove-prefix (cdr root) path)
       (gemini-companion-file-abbreviate path)))))

(defun gemini-companion-review-client-title (review)
  "Return what users call the program of REVIEW."
  (or (gemini-companion-agent-get (gemini-companion-review-agent review) :title)
      (gemini-companion-ui-one-line (gemini-companion-review-client review))))

(defun gemini-companion-review-same-client-p (one other)
  "Return non-nil if the reviews ONE and OTHER are of the same client.
The process of one of them may be unknown."
  (let ((process (gemini-companion-review-process one))
        (another (gemini-companion-review-process other)))
    (and (equal (gemini-companion-review-client one) (gemini-companion-review-client other))
         (or (null process) (null another) (eql process another)))))

(defun gemini-companion-review-position (review)
  "Return a cons of the number of REVIEW in its turn and how many there are.
That is known if its client's screen shows it, or if others wait in Emacs.
Return nil if there is no other."
  (pcase (gemini-companion-review-turn review)
    (`(,number ,count . ,_) (and (> count 1) (cons number count)))
    (_ (let ((open (gemini-companion-review-list-open)))
         (and (cdr open) (memq review open)
              (cons (- (length open) (length (memq review open)) -1) (length open)))))))

(defun gemini-companion-review-visiting (review)
  "Return the buffer that visits the file of REVIEW, or nil."
  (gemini-companion-file-visiting (gemini-companion-review-path review)))

;;;; How texts differ

(defconst gemini-companion-review--max-counted 4000000
  "Number of characters of both texts beyond which no lines are counted.")

(defconst gemini-companion-review--context 3
  "Number of context lines around changes in a diff.")

(defconst gemini-companion-review--max-regions 1000
  "Maximum number of regions of which `gemini-companion-review-regions' tells.")

(defun gemini-companion-review-diff (before after &optional apart)
  "Return the hunks of a unified diff from the text BEFORE to AFTER.
If APART is non-nil, each change has a hunk of its own."
  (aref (gemini-companion--mod-diff before after gemini-companion-review--context apart) 3))

(defun gemini-companion-review-regions (a b &optional c)
  "Return where the texts A and B, and C unless that is nil, differ.
The value is a vector of [A-START A-END B-START B-END C-START C-END ODD],
in the order of the texts: lines counted from 0, the end exclusive, nil for
a text that is nil.  ODD is the number, from 0, of the one text that
differs from the other two there, or nil."
  (gemini-companion--mod-regions a b c gemini-companion-review--max-regions))

(defun gemini-companion-review-call-once (review function &rest arguments)
  "Return the value of FUNCTION for ARGUMENTS, texts of REVIEW.
REVIEW keeps the last value, so that FUNCTION is not called again for it."
  (let ((call (cons function arguments))
        (known (gemini-companion-review-result review)))
    (cdr (if (and known (equal call (car known)))
             known
           (setf (gemini-companion-review-result review)
                 (cons call (apply function arguments)))))))

(defun gemini-companion-review--count-lines (before after)
  "Return the number of lines added from BEFORE to AFTER, removed, and in BEFORE."
  (pcase-let ((`[,added ,removed ,total ,_] (gemini-companion--mod-diff before after nil nil)))
    (list added removed total)))

(defun gemini-companion-review-merge-texts (base ours theirs)
  "Return the text BASE with the changes that OURS and THEIRS make to it.
If they change the same lines, or neighboring ones, in different ways
return the number of the first such line in THEIRS."
  (gemini-companion--mod-merge base ours theirs))

(defun gemini-companion-review-decode (path bytes proposed)
  "Return BYTES, the contents of the file PATH, to be compared with PROPOSED.
For a file with CRLF line ends clients propose a text with LF, and write
CRLF again.  They read any file as UTF-8; what is not UTF-8 is decoded as
Emacs does."
  (let ((inhibit-eol-conversion (string-search "\r" proposed))
        ;; Emacs looks at the name, and would ask a host whether case matters there.
        (file-name-handler-alist nil))
    (or (gemini-companion--mod-decode bytes (not inhibit-eol-conversion))
        (with-temp-buffer
          (insert bytes)
          (decode-coding-inserted-region (point-min) (point-max) path)
          (buffer-string)))))

(defun gemini-companion-review-text-of-file (review bytes)
  "Return BYTES, contents of the file of REVIEW, as text.
REVIEW keeps it, since that may take long."
  (let ((known (gemini-companion-review-file-text review)))
    (cdr (if (and known (eq (car known) bytes))
             known
           (setf (gemini-companion-review-file-text review)
                 (cons bytes
                       (gemini-companion-review-decode (gemini-companion-review-path review) bytes
                                                       (gemini-companion-review-proposed
                                                        review))))))))

;;;; Changes

(cl-defstruct (gemini-companion-change
               (:constructor gemini-companion-change--make)
               (:copier nil))
  "The effect of a new text on a file."
  (new nil :documentation "Non-nil if there is no file yet.")
  (large nil :documentation "Non-nil if the texts are too large for lines to be counted.")
  (added nil :documentation "The number of added lines, nil if that is not known.")
  (removed nil :documentation "The number of removed lines, nil if that is not known.")
  (remarks nil :documentation "Short remarks for the user about what is unusual."))

(defun gemini-companion-change-of (path bytes text)
  "Return the change of the file PATH from BYTES to TEXT.
BYTES are nil if there is no file, `unreadable' if they are not known."
  (let ((change (gemini-companion-change--make :new (null bytes)))
        (bytes (or bytes "")))
    (cond
     ((not (stringp bytes)))
     ((> (+ (length bytes) (length text)) gemini-companion-review--max-counted)
      (setf (gemini-companion-change-large change) t))
     (t
      (let ((before (gemini-companion-review-decode path bytes text)))
        (pcase-let ((`(,added ,removed ,total) (gemini-companion-review--count-lines before text)))
          (setf (gemini-companion-change-added change) added
                (gemini-companion-change-removed change) removed
                (gemini-companion-change-remarks change)
                (gemini-companion-change--remark change before text total))))))
    change))

(defun gemini-companion-change--remark (change before text total)
  "Return remarks about CHANGE from the text BEFORE, of TOTAL lines, to TEXT."
  (let ((added (gemini-companion-change-added change))
        (removed (gemini-companion-change-removed change)))
    (delq nil
          (list (cond ((and (string-empty-p text) (not (string-empty-p before)))
                       "Empties the file")
                      ((gemini-companion-change-deletion-p total (+ total added (- removed)))
                       (format "Removes %d of %d lines" removed total))
                      ((and (zerop added) (zerop removed) (not (gemini-companion-change-new change)))
                       "Changes nothing"))
                (and (not (string-empty-p text))
                     (not (string-suffix-p "\n" text))
                     (or (string-empty-p before) (string-suffix-p "\n" before))
                     "No newline at the end")))))

(defun gemini-companion-change-deletion-p (before after)
  "Return non-nil if AFTER lines in place of BEFORE means that most are removed."
  (and (> before 9)
       (< (* 4 after) before)))

(defun gemini-companion-change-size (change)
  "Return the size of CHANGE as short text, such as \"+6 -4\"."
  (let ((added (gemini-companion-change-added change))
        (removed (gemini-companion-change-removed change)))
    (cond ((gemini-companion-change-large change) "large")
          ((not added) "?")
          ((gemini-companion-change-new change) (format "+%d" added))
          (t (format "+%d -%d" added removed)))))

;;;; What a review changes

(defun gemini-companion-review-change (review)
  "Return the `gemini-companion-change' that an accept of REVIEW makes.
While the proposal is being edited this may lag behind for a moment."
  (let ((known (gemini-companion-review-known-change review)))
    (cond ((not (and known (eq (car known) (gemini-companion-review-base review))))
           (gemini-companion-review--find-change review))
          ((not (eql (cadr known) (gemini-companion-review--version review)))
           (gemini-companion-review--find-change-soon review)))
    (caddr (gemini-companion-review-known-change review))))

(defun gemini-companion-review--version (review)
  "Return a value that changes with the text of REVIEW, as compared by `eql'.
While the proposal is being edited its text is not read for this."
  (if (gemini-companion-review--text-known-p review)
      (gemini-companion-review-text review)
    (buffer-chars-modified-tick (gemini-companion-review-proposal review))))

(defun gemini-companion-review--find-change (review)
  "Compare the present text of REVIEW with its file."
  (let ((path (gemini-companion-review-path review))
        (text (gemini-companion-review-current-text review)))
    (setf (gemini-companion-review-known-change review)
          (list (gemini-companion-review-base review)
                text
                (or (gemini-companion-log-errors "comparing"
                      (gemini-companion-change-of
                       path (gemini-companion-review-before review) text))
                    (gemini-companion-change-of path 'unreadable ""))))))

(defun gemini-companion-review--find-change-soon (review)
  "Compare the text of REVIEW, which is being edited, after a pause."
  (unless (memq review gemini-companion-review--edited)
    (push review gemini-companion-review--edited)
    (run-at-time gemini-companion-review--edit-pause nil
                 #'gemini-companion-review--find-changes)))

(defun gemini-companion-review--find-changes ()
  "Compare the texts that were edited, and show the result."
  (mapc #'gemini-companion-review--find-change gemini-companion-review--edited)
  (setq gemini-companion-review--edited nil)
  (force-mode-line-update t)
  (gemini-companion-log-run-hook 'gemini-companion-review-change-hook))

(defun gemini-companion-review-describe (review)
  "Return what REVIEW proposes for the user: \"a change to src/app.py, +6 -4\"."
  (let ((change (gemini-companion-review-change review)))
    (format "%s %s, %s"
            (if (gemini-companion-change-new change) "a new file" "a change to")
            (gemini-companion-review-project-path review)
            (gemini-companion-change-size change))))

(defun gemini-companion-review-announce-ending (review)
  "Tell the user how REVIEW has ended."
  (gemini-companion-ui-message review "%s: %s" (gemini-companion-review-file review)
                               (gemini-companion-review-ending review)))

;;;; What an accept would lose

(defun gemini-companion-review-find-conflict (review)
  "Return what an accept of REVIEW would lose now, or nil.
`unsaved': a buffer that visits the file has edits that the text lacks.
`changed': the file was written since the change was proposed."
  (let ((buffer (gemini-companion-review-visiting review)))
    (cond ((and buffer (buffer-modified-p buffer)
                (not (gemini-companion-review--merged-p review buffer)))
           'unsaved)
          ((or (gemini-companion-review-written-p review)
               ;; The client has not told yet of what the user has just saved on its host.
               (and buffer (gemini-companion-review-host review)
                    (gemini-companion-file-newer-in-p (gemini-companion-review-path review)
                                                      buffer)))
           'changed))))

(defun gemini-companion-review--merged-p (review buffer)
  "Return non-nil if the text of REVIEW contains the unsaved edits in BUFFER."
  (let ((states (gemini-companion-review-merge-states review buffer))
        (merged (gemini-companion-review-merged review)))
    (or (equal states merged)
        (and (equal (car states) (car merged))
             ;; What was merged may have been undone.
             (equal (gemini-companion-review-merge-with
                     review (gemini-companion-review-buffer-text buffer))
                    (gemini-companion-review-current-text review))
             (setf (gemini-companion-review-merged review) states)))))

(defun gemini-companion-review-merge-states (review buffer)
  "Return a cons that changes with the text of BUFFER or of REVIEW.
Its car depends on BUFFER alone: see `gemini-companion-write-revert'."
  (cons (cons buffer (buffer-chars-modified-tick buffer))
        (gemini-companion-review-current-text review)))

(defun gemini-companion-review-merged-state (review)
  "Return which edits REVIEW contains, for `gemini-companion-write-revert'."
  (when-let* ((buffer (gemini-companion-review-visiting review)))
    (and (gemini-companion-review--merged-p review buffer)
         (car (gemini-companion-review-merged review)))))

(defun gemini-companion-review-merge-with (review text)
  "Return the text of REVIEW with the changes that TEXT makes to its file.
For the value on a conflict see `gemini-companion-review-merge-texts'."
  (gemini-companion-review-merge-texts
   (gemini-companion-review-text-of-file review (or (gemini-companion-review-base review) ""))
   text
   (gemini-companion-review-current-text review)))

(defun gemini-companion-review-written-p (review)
  "Return non-nil if the file of REVIEW has changed since that was proposed.
What was merged into it since does not count."
  (gemini-companion-review--forget-undone-merge review)
  (let* ((path (gemini-companion-review-path review))
         (stamp (gemini-companion-file-stamp path)))
    (cond ((equal stamp (gemini-companion-review-stamp review)) nil)
          ;; A timer asks each second.
          ((equal stamp (gemini-companion-review-other-stamp review)) t)
          ((and (gemini-companion-review-base review)
                (equal (gemini-companion-file-read path) (gemini-companion-review-base review)))
           ;; Written with the same contents.
           (setf (gemini-companion-review-stamp review) stamp)
           nil)
          (t (setf (gemini-companion-review-other-stamp review) stamp)
             t))))

(defun gemini-companion-review--forget-undone-merge (review)
  "If the user has undone a merge of the file into REVIEW, forget that merge."
  (when-let* ((unmerged (gemini-companion-review-unmerged review))
              (before (assoc (gemini-companion-review-current-text review) unmerged)))
    (pcase-let ((`(,_ ,base ,stamp) before))
      (setf (gemini-companion-review-base review) base
            (gemini-companion-review-stamp review) stamp
            (gemini-companion-review-unmerged review) (cdr (memq before unmerged))))))

(defun gemini-companion-review-warning (review)
  "Return a warning about the conflict of REVIEW, or nil."
  (pcase (gemini-companion-review-conflict review)
    ('unsaved (format "The buffer of %s has unsaved edits that this text does not contain"
                      (gemini-companion-review-file review)))
    ('changed (format "%s has changed on disk since this text was made"
                      (gemini-companion-review-file review)))))

(defun gemini-companion-review-remarks (review)
  "Return a list of short remarks that the user should see before accepting REVIEW."
  (append (pcase (gemini-companion-review-conflict review)
            ('unsaved '("Unsaved edits"))
            ('changed '("Changed on disk")))
          (gemini-companion-change-remarks (gemini-companion-review-change review))))

(defun gemini-companion-review-before (review)
  "Return the contents of the file of REVIEW when that was proposed, as bytes.
Return nil if there was no file, `unreadable' if it could not be read."
  (or (gemini-companion-review-base review)
      (and (gemini-companion-review-stamp review) 'unreadable)))

(defun gemini-companion-review-bytes (review)
  "Return the present contents of the file of REVIEW as bytes.
Return nil if there is no file, `unreadable' if it cannot be read."
  (let* ((path (gemini-companion-review-path review))
         (stamp (gemini-companion-file-stamp path)))
    (cond ((not stamp) nil)
          ((if (equal stamp (gemini-companion-review-stamp review))
               (gemini-companion-review-base review)
             (gemini-companion-file-read path)))
          (t 'unreadable))))

(provide 'gemini-companion-review)
;;; gemini-companion-review.el ends here

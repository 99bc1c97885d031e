;;; gemini-companion-review.el --- One proposed change -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A review is one proposal of a client for one file.  Here is what it is: its texts, what it changes
;; in the file, and what an accept would miss.  What becomes of it, and when it is on screen, is the
;; business of gemini-companion-queue.el, the only file that changes its state.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-history)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function gemini-companion--mod-diff "ext:gemini-companion-module"
                  (before after context apart) t)
(declare-function gemini-companion--mod-merge "ext:gemini-companion-module"
                  (base ours theirs) t)

;;;; How texts differ

(defconst gemini-companion-review--max-counted 4000000
  "Size in characters of both texts beyond which no lines are counted.")

(defconst gemini-companion-review--context 3
  "Lines around the changes in a diff.")

;;;; Texts

(defun gemini-companion-review-diff (before after &optional apart)
  "Return the hunks of a unified diff from the text BEFORE to AFTER.
If APART is non-nil, changes that are near to each other do not share a
hunk."
  (gemini-companion-review--decode
   (aref (gemini-companion--mod-diff (gemini-companion-review--encode before)
                                     (gemini-companion-review--encode after)
                                     gemini-companion-review--context apart)
         3)))

(defun gemini-companion-review--count-lines (before after)
  "Return how many lines only the text AFTER has, only BEFORE has, and BEFORE has."
  (pcase-let ((`[,added ,removed ,total ,_]
               (gemini-companion--mod-diff (gemini-companion-review--encode before)
                                           (gemini-companion-review--encode after) nil nil)))
    (list added removed total)))

(defun gemini-companion-review-merge-texts (base ours theirs)
  "Return the text BASE with what the texts OURS and THEIRS changed of it.
If they changed the same lines, or neighbouring ones, in different ways
return the number of the first such line in THEIRS."
  (let ((merged (apply #'gemini-companion--mod-merge
                       (mapcar #'gemini-companion-review--encode (list base ours theirs)))))
    (if (stringp merged) (gemini-companion-review--decode merged) merged)))

(defun gemini-companion-review--encode (text)
  "Return TEXT as bytes, which can be all that a text of Emacs can."
  (encode-coding-string text 'utf-8-emacs-unix t))

(defun gemini-companion-review--decode (bytes)
  "Return the text of which BYTES are the encoded form."
  (decode-coding-string bytes 'utf-8-emacs-unix t))

(defun gemini-companion-review-file-text (path bytes proposed)
  "Return BYTES of the file PATH as a text to be compared with the text PROPOSED.
Clients propose LF for a file with CRLF, and write CRLF again."
  (let ((inhibit-eol-conversion (string-search "\r" proposed)))
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (insert bytes)
      (goto-char (point-min))
      (let ((coding (find-operation-coding-system
                     'insert-file-contents
                     (cons path (current-buffer)))))
        (decode-coding-string bytes (or (car-safe coding) 'undecided))))))

;;;; Changes

(cl-defstruct (gemini-companion-change
               (:constructor gemini-companion-change--make)
               (:copier nil))
  "What becomes of a file when it gets another text."
  (new nil :documentation "Non-nil if there is no file yet.")
  (large nil :documentation "Non-nil if the texts are too large for lines to be counted.")
  (added nil :documentation "How many lines it gets, nil if that is not known.")
  (removed nil :documentation "How many lines it loses, nil if that is not known.")
  (remarks nil :documentation "What is unusual about it, short texts for the user."))

(defun gemini-companion-change-of (path bytes text)
  "Return the change that it is for the file PATH to get TEXT.
BYTES are what is in it, nil if there is no file, `unreadable' if they are
not known."
  (let ((change (gemini-companion-change--make :new (null bytes)))
        (bytes (or bytes "")))
    (cond
     ((not (stringp bytes)))
     ((> (+ (length bytes) (length text)) gemini-companion-review--max-counted)
      (setf (gemini-companion-change-large change) t))
     (t
      (let ((before (gemini-companion-review-file-text path bytes text)))
        (pcase-let ((`(,added ,removed ,total) (gemini-companion-review--count-lines before text)))
          (setf (gemini-companion-change-added change) added
                (gemini-companion-change-removed change) removed
                (gemini-companion-change-remarks change)
                (gemini-companion-change--remark change before text total))))))
    change))

(defun gemini-companion-change--remark (change before text total)
  "Return what is unusual about CHANGE, from the text BEFORE to TEXT.
The former has TOTAL lines."
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
  "Return non-nil if most lines go of a file.
It has BEFORE lines, and then AFTER lines."
  (and (> before 9)
       (< (* 4 after) before)))

(defun gemini-companion-change-size (change)
  "Return in a few characters how large CHANGE is."
  (let ((added (gemini-companion-change-added change))
        (removed (gemini-companion-change-removed change)))
    (cond ((gemini-companion-change-large change) "large")
          ((not added) "?")
          ((gemini-companion-change-new change) (format "+%d" added))
          (t (format "+%d -%d" added removed)))))

;;;; Reviews

(cl-defstruct (gemini-companion-review
               (:constructor gemini-companion-review-make)
               (:copier nil))
  "One proposed change of one file."
  (id nil :documentation "The number by which the native module knows it.")
  (agent nil :documentation "The name of its program, as in `gemini-companion-agent-profiles'.")
  (client nil :documentation "Who the client is, in words for the user.")
  (info nil :documentation "Name and version of the client, a cons, as it says them itself.")
  (process nil :documentation "The id of the client's process, nil if that is not known.")
  (path nil :documentation "The absolute name of the file, exactly as the client wrote it.")
  (proposed nil :documentation "The text as the client proposed it.")
  (created nil :documentation "When it came.")
  (prompt nil :documentation "The prompt that it came after, a cons of its text and when it was
sent, the same for all changes of one prompt; nil if that is not known.")
  (base nil :documentation "The bytes of the file then, nil if there was none.")
  (stamp nil :documentation "What tells whether the file has been written since, see
`gemini-companion-history-stamp'.")
  (known-change nil :documentation "For which text, and what, `gemini-companion-review-change'
found out.")
  (merged nil :documentation "If the proposal contains the unsaved edits of the user, for which
states of the user's buffer and of the proposal that is known.")
  (conflict nil :documentation "Why an accept would miss something: `unsaved', `changed' or nil.")
  (text nil :documentation "The text as it was when `proposal' was last killed.")
  (proposal nil :documentation "The buffer with the proposal, or nil.  The user may edit it.")
  (front nil :documentation "While shown, the buffer to go to, if it is not `proposal'.")
  (with-base nil :documentation "Non-nil to show the text it was made from, too.")
  (hide nil :documentation "While shown, a function that takes the view off the screen.")
  (state 'waiting :documentation "`waiting', `shown', `asked' or `ended'; see the commentary.")
  (seen nil :documentation "Non-nil once it was on screen.")
  (postponed nil :documentation "Non-nil if the user wants to decide later.")
  (fault nil :documentation "Why it could not be shown when that was tried last, or nil.")
  (ending nil :documentation "Once it has ended, how, in words.")
  (writer nil :documentation "If Emacs is to write the file when the user accepts,
the function that does so and tells the client.  Called with the review and
the text, it returns nil if the review was decided meanwhile.")
  (waiter nil :documentation "A function to be called with the outcome, or nil."))

(defconst gemini-companion-review--edit-pause 0.3
  "Seconds after an edit of a proposal until it is found out what that changes.")

(defvar gemini-companion-review--edited nil
  "Reviews of which a timer will find out what they change now.")

(defvar-local gemini-companion-review-of-buffer nil
  "The review of which this buffer is a part.")
(put 'gemini-companion-review-of-buffer 'permanent-local t)

(defvar gemini-companion-review-change-hook nil
  "Functions called without arguments when the list of reviews has changed.
Or what is known of one that is on it.")

(defvar gemini-companion-review--open nil
  "The reviews that await a decision, the oldest first.")

(defun gemini-companion-review-open-p (review)
  "Return non-nil if REVIEW still awaits a decision."
  (not (eq (gemini-companion-review-state review) 'ended)))

(defun gemini-companion-review-check-open (review)
  "Signal a `user-error' that says how REVIEW has ended, if it has."
  (unless (gemini-companion-review-open-p review)
    (user-error "%s: %s" (gemini-companion-review-file review)
                (gemini-companion-review-ending review))))

(defun gemini-companion-review-list-open ()
  "Return the reviews that await a decision, the oldest first."
  (copy-sequence gemini-companion-review--open))

(defun gemini-companion-review-count ()
  "Return the number of reviews that await a decision."
  (length gemini-companion-review--open))

(defun gemini-companion-review-shown ()
  "Return the review on screen, or nil."
  (cl-loop for review in gemini-companion-review--open
           if (gemini-companion-review-hide-function review) return review))

(defun gemini-companion-review-with-id (id)
  "Return the open review that has ID, or nil."
  (cl-loop for review in gemini-companion-review--open
           if (eql (gemini-companion-review-id review) id) return review))

(defun gemini-companion-review-add (review)
  "Add REVIEW to those that await a decision."
  (setq gemini-companion-review--open (append gemini-companion-review--open (list review))))

(defun gemini-companion-review-remove (review)
  "Take REVIEW off those that await a decision, if it is one."
  (setq gemini-companion-review--open (delq review gemini-companion-review--open)))

;;;; Texts and names

(defun gemini-companion-review-current-text (review)
  "Return what the proposal of REVIEW says now."
  (let ((proposal (gemini-companion-review-proposal review)))
    (if (buffer-live-p proposal)
        (gemini-companion-review-buffer-text proposal)
      (gemini-companion-review-text review))))

(defun gemini-companion-review-buffer-text (buffer)
  "Return the whole text of BUFFER."
  (with-current-buffer buffer
    (save-restriction
      (widen)
      (buffer-substring-no-properties (point-min) (point-max)))))

(defun gemini-companion-review-file (review)
  "Return the name of the file of REVIEW without its directory, in one line."
  (gemini-companion-ui-one-line
   (file-name-nondirectory (gemini-companion-review-path review))))

(defun gemini-companion-review-project-path (review)
  "Return the name of the file of REVIEW as it is in its project, in one line."
  (let ((path (gemini-companion-review-path review))
        (file-name-handler-alist nil))
    (gemini-companion-ui-one-line
     (if-let* ((root (gemini-companion-workspace-innermost path)))
         (string-remove-prefix (cdr root) path)
       (abbreviate-file-name path)))))

(defun gemini-companion-review-client-title (review)
  "Return what users call the program of REVIEW."
  (or (gemini-companion-agent-get (gemini-companion-review-agent review) :title)
      (gemini-companion-ui-one-line (gemini-companion-review-client review))))

(defun gemini-companion-review-visiting (review)
  "Return the buffer that visits the file of REVIEW, or nil."
  (let ((file-name-handler-alist nil))
    (find-buffer-visiting (gemini-companion-review-path review))))

;;;; What it changes

(defun gemini-companion-review-change (review)
  "Return what an accept of REVIEW does to its file, a `gemini-companion-change'.
While its proposal is being edited that is what it did a moment ago."
  (let ((known (gemini-companion-review-known-change review)))
    (cond ((null known) (gemini-companion-review--find-change review))
          ((not (eql (car known) (gemini-companion-review--version review)))
           (gemini-companion-review--find-change-soon review)))
    (cdr (gemini-companion-review-known-change review))))

(defun gemini-companion-review--version (review)
  "Return something that is another when the text of REVIEW has changed."
  (let ((proposal (gemini-companion-review-proposal review)))
    (if (buffer-live-p proposal)
        (buffer-chars-modified-tick proposal)
      (gemini-companion-review-text review))))

(defun gemini-companion-review--find-change (review)
  "Find out what an accept of REVIEW does to its file as the text now reads."
  (let ((path (gemini-companion-review-path review)))
    (setf (gemini-companion-review-known-change review)
          (cons (gemini-companion-review--version review)
                (or (gemini-companion-log-errors "comparing"
                      (gemini-companion-change-of
                       path
                       (or (gemini-companion-review-base review)
                           (and (gemini-companion-review-stamp review) 'unreadable))
                       (gemini-companion-review-current-text review)))
                    (gemini-companion-change-of path 'unreadable ""))))))

(defun gemini-companion-review--find-change-soon (review)
  "Find out what REVIEW changes, whose text was edited, when that goes on no more."
  (unless (memq review gemini-companion-review--edited)
    (push review gemini-companion-review--edited)
    (run-at-time gemini-companion-review--edit-pause nil
                 #'gemini-companion-review--find-changes)))

(defun gemini-companion-review--find-changes ()
  "Find out what the reviews change whose texts were edited, and show it."
  (mapc #'gemini-companion-review--find-change gemini-companion-review--edited)
  (setq gemini-companion-review--edited nil)
  (force-mode-line-update t)
  (run-hooks 'gemini-companion-review-change-hook))

(defun gemini-companion-review-describe (review)
  "Return in words what REVIEW proposes: \"a change to src/app.py, +6 -4\"."
  (let ((change (gemini-companion-review-change review)))
    (format "%s %s, %s"
            (if (gemini-companion-change-new change) "a new file" "a change to")
            (gemini-companion-review-project-path review)
            (gemini-companion-change-size change))))

(defun gemini-companion-review-announce-ending (review)
  "Tell the user how REVIEW has ended."
  (gemini-companion-ui-message review "%s: %s" (gemini-companion-review-file review)
                           (gemini-companion-review-ending review)))

;;;; What an accept would miss

(defun gemini-companion-review-find-conflict (review)
  "Return why an accept of REVIEW would miss something, or nil.
`unsaved': a buffer that visits the file has edits that are not in it.
`changed': the file was written since the proposal was made."
  (let ((buffer (gemini-companion-review-visiting review)))
    (cond ((and buffer (buffer-modified-p buffer)
                (not (gemini-companion-review--merged-p review buffer)))
           'unsaved)
          ((gemini-companion-review-written-p review) 'changed))))

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
  "Return a pair that is another when the text of BUFFER or of REVIEW has changed.
Its car is for BUFFER alone: see `gemini-companion-write-revert'."
  (cons (cons buffer (buffer-chars-modified-tick buffer))
        (gemini-companion-review--version review)))

(defun gemini-companion-review-merged-state (review)
  "Return which edits REVIEW contains, for `gemini-companion-write-revert'."
  (when-let* ((buffer (gemini-companion-review-visiting review)))
    (and (gemini-companion-review--merged-p review buffer)
         (car (gemini-companion-review-merged review)))))

(defun gemini-companion-review-merge-with (review text)
  "Return the text of REVIEW with what TEXT has changed of its file.
For the value if that cannot be see `gemini-companion-review-merge-texts'."
  (gemini-companion-review-merge-texts
   (gemini-companion-review-file-text (gemini-companion-review-path review)
                                      (or (gemini-companion-review-base review) "")
                                      (gemini-companion-review-proposed review))
   text
   (gemini-companion-review-current-text review)))

(defun gemini-companion-review-written-p (review)
  "Return non-nil if the file of REVIEW is not what it was when it came."
  (let* ((path (gemini-companion-review-path review))
         (stamp (gemini-companion-history-stamp path)))
    (cond ((equal stamp (gemini-companion-review-stamp review)) nil)
          ((not (equal (gemini-companion-history-read path)
                       (gemini-companion-review-base review))))
          ;; Written, and with the same text.
          (t (setf (gemini-companion-review-stamp review) stamp)
             nil))))

(defun gemini-companion-review-warning (review)
  "Return what the user should know before accepting REVIEW, or nil."
  (pcase (gemini-companion-review-conflict review)
    ('unsaved (format "The buffer of %s has unsaved edits that this text does not contain"
                      (gemini-companion-review-file review)))
    ('changed (format "%s has changed on disk since this text was made"
                      (gemini-companion-review-file review)))))

(defun gemini-companion-review-remarks (review)
  "Return what the user should know before accepting REVIEW, a list of short texts."
  (append (pcase (gemini-companion-review-conflict review)
            ('unsaved '("Unsaved edits"))
            ('changed '("Changed on disk")))
          (gemini-companion-change-remarks (gemini-companion-review-change review))))

(defun gemini-companion-review-bytes (review)
  "Return the bytes of the file of REVIEW as it is now, or nil if there is none.
Return `unreadable' if there is one that cannot be read."
  (let* ((path (gemini-companion-review-path review))
         (stamp (gemini-companion-history-stamp path)))
    (cond ((not stamp) nil)
          ((if (equal stamp (gemini-companion-review-stamp review))
               (gemini-companion-review-base review)
             (gemini-companion-history-read path)))
          (t 'unreadable))))

(provide 'gemini-companion-review)
;;; gemini-companion-review.el ends here

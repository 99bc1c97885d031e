;;; gemini-companion-review-effect.el --- What an accept would change, and lose -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a review changes in its file, and what the user should know before accepting it: the file
;; may be written after the client has proposed, and its buffer may have unsaved edits, which the
;; client would overwrite.  The user can merge them into the proposal.

;;; Code:

(require 'gemini-companion-bridge)
(require 'gemini-companion-change)
(require 'gemini-companion-file)
(require 'gemini-companion-heavy)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

;;;; What a review changes

(defun gemini-companion-review-effect-change (review)
  "Return the `gemini-companion-change' that an accept of REVIEW makes.
While the proposal is being edited this may lag behind for a moment."
  (let ((before (gemini-companion-review-before review)))
    (pcase (alist-get #'gemini-companion-review-effect--compare
                      (gemini-companion-review-results review))
      ((and `((,_ ,(pred (eq before)) ,_) . ,change)
            (guard (not (gemini-companion-review-text-known-p review))))
       (gemini-companion-ui-adjust-timer t 0.3 nil
                                         #'gemini-companion-review-effect--read review)
       change)
      (_ (gemini-companion-review-call-once
          review #'gemini-companion-review-effect--compare
          (gemini-companion-review-path review) before
          (gemini-companion-review-current-text review))))))

(defun gemini-companion-review-effect--compare (path before text)
  "Return the change of the file PATH from BEFORE to TEXT, unknown after an error."
  (or (gemini-companion-log-errors "comparing"
        (gemini-companion-change-of path before text))
      (gemini-companion-change-of path 'unreadable "")))

(defun gemini-companion-review-effect--read (review)
  "Read the text of REVIEW, which is being edited, to compare it."
  (gemini-companion-review-current-text review)
  (gemini-companion-review-note-change))

(defun gemini-companion-review-effect-describe (review)
  "Return what REVIEW proposes, for the user: \"a change to src/app.py, +6 -4\"."
  (let ((change (gemini-companion-review-effect-change review)))
    (format "%s %s, %s"
            (if (gemini-companion-change-new change) "a new file" "a change to")
            (gemini-companion-review-effect-file review)
            (gemini-companion-change-size change))))

(defun gemini-companion-review-effect-file (review)
  "Return the name of the file of REVIEW relative to its project, for the user.
It begins with the name of the project if clients work in other projects,
or if changes wait there."
  (let* ((file-name-handler-alist nil)
         (path (gemini-companion-review-path review))
         (root (car (gemini-companion-workspace-innermost path))))
    (gemini-companion-review-name-in-project
     path (gemini-companion-review-host review)
     (seq-some (lambda (name)
                 (not (memq (car (gemini-companion-workspace-innermost name)) (list nil root))))
               (append (mapcar #'file-name-as-directory (remq nil (gemini-companion-bridge-places)))
                       (mapcar #'gemini-companion-review-path
                               (gemini-companion-review-all-open)))))))

(defun gemini-companion-review-effect-remarks (review)
  "Return a list of short remarks that the user should see before accepting REVIEW."
  (append (pcase (gemini-companion-review-conflict review)
            ('unsaved '("Unsaved edits"))
            ('changed '("Changed on disk"))
            ('deleted '("Deleted on disk")))
          (and (gemini-companion-review-effect--unmarks-p review)
               '("Drops the byte order mark"))
          (gemini-companion-change-remarks (gemini-companion-review-effect-change review))))

(defun gemini-companion-review-effect--unmarks-p (review)
  "Return non-nil if the client of REVIEW would drop a byte order mark."
  (and (gemini-companion-change-unmarked (gemini-companion-review-effect-change review))
       ;; Others keep it, as they write the text in their own way.
       (gemini-companion-agent-get (gemini-companion-review-agent review) :takes-edits)))

;;;; What an accept would lose

(add-hook 'gemini-companion-review-waiting-functions
          #'gemini-companion-review-effect-check-conflict -90)

(defun gemini-companion-review-effect-check-conflict (review)
  "Record what an accept of REVIEW would lose now, and return it."
  (setf (gemini-companion-review-conflict review)
        (gemini-companion-review-effect-conflict review)))

(defun gemini-companion-review-effect-conflict (review)
  "Return what an accept of REVIEW would lose now, or nil.
`changed' or `deleted': the file was, since the change was proposed.
`unsaved': only a buffer that visits the file has edits that the text lacks."
  (let ((path (gemini-companion-review-path review)))
    (cond ((or (gemini-companion-review-effect-file-changed-p review)
               ;; The client has not reported yet what the user has just saved on its host.
               (when-let* (((gemini-companion-review-host review))
                           (buffer (gemini-companion-review-visiting review)))
                 (and (gemini-companion-file-newer-in-p path buffer)
                      ;; If that is a link, Tramp has the time of the link.
                      (not (gemini-companion-file-written-p
                            path (gemini-companion-review-text-of-buffer buffer))))))
           (if (gemini-companion-file-exists-p path) 'changed 'deleted))
          ((gemini-companion-review-effect--unsaved-p review) 'unsaved))))

(defun gemini-companion-review-effect--unsaved-p (review)
  "Return non-nil if a buffer that visits the file of REVIEW has edits it lacks."
  (when-let* ((buffer (gemini-companion-review-visiting review)))
    (and (buffer-modified-p buffer)
         (not (gemini-companion-review-effect-merged-state review)))))

(defun gemini-companion-review-effect-merged-state (review)
  "Return (BUFFER . TICK) if REVIEW contains the unsaved edits in BUFFER, or nil.
TICK is the `buffer-chars-modified-tick' of BUFFER."
  (when-let* ((buffer (gemini-companion-review-visiting review))
              ((buffer-modified-p buffer))
              (tick (buffer-chars-modified-tick buffer))
              ;; A timer asks each second, and the text may be large.
              ((gemini-companion-review-call-once
                review #'gemini-companion-review-effect--merged-p
                review buffer tick (buffer-local-value 'buffer-file-coding-system buffer)
                (gemini-companion-review-base review)
                (gemini-companion-review-current-text review))))
    (cons buffer tick)))

(defun gemini-companion-review-effect--merged-p (review buffer &rest _)
  "Return non-nil if a merge of BUFFER into REVIEW would change nothing."
  (equal (gemini-companion-review-effect--merge-with
          review (gemini-companion-review-text-of-visiting review buffer))
         (gemini-companion-review-current-text review)))

(defun gemini-companion-review-effect--merge-with (review text)
  "Return the text of REVIEW with the changes that TEXT makes to its file.
For the value on a conflict see `gemini-companion-change-merge'."
  (gemini-companion-review-call-once
   review #'gemini-companion-change-merge
   (gemini-companion-review-text-of-file review (or (gemini-companion-review-base review) ""))
   text
   (gemini-companion-review-current-text review)))

(defun gemini-companion-review-effect-file-changed-p (review)
  "Return non-nil if the file of REVIEW has changed since that was proposed.
What was merged into it since does not count."
  (gemini-companion-review-effect--forget-undone-merge review)
  (pcase-let* (((cl-struct gemini-companion-review path base stamp unmerged) review)
               (now (gemini-companion-file-stamp path)))
    (not (or (equal now stamp)
             ;; A timer asks each second.
             (gemini-companion-review-call-once
              review #'gemini-companion-review-effect--note-known-text review now base unmerged)))))

(defun gemini-companion-review-effect--note-known-text (review stamp base unmerged)
  "If the file of REVIEW, which now has STAMP, has nothing new, note that.
It may have BASE again, or just the edits that were merged, which were
unsaved then.  UNMERGED is as in REVIEW.  Return non-nil if so."
  (when-let* ((bytes (gemini-companion-file-read (gemini-companion-review-path review)))
              ((or (equal bytes base)
                   (and unmerged
                        ;; On a host, the client may have written its own proposal.
                        (not (gemini-companion-review-host review))
                        (equal (gemini-companion-review-effect--merge-with
                                review (gemini-companion-review-text-of-file review bytes))
                               (gemini-companion-review-current-text review))))))
    (setf (gemini-companion-review-base review) bytes
          (gemini-companion-review-stamp review) stamp)))

(defun gemini-companion-review-effect--forget-undone-merge (review)
  "If the user has undone a merge into REVIEW, forget that merge."
  (when-let* ((unmerged (gemini-companion-review-unmerged review))
              (before (assoc (gemini-companion-review-current-text review) unmerged)))
    (pcase-let ((`(,_ ,base ,stamp) before))
      (setf (gemini-companion-review-base review) base
            (gemini-companion-review-stamp review) stamp
            (gemini-companion-review-unmerged review) (cdr (memq before unmerged))))))

(defun gemini-companion-review-effect-warning (review)
  "Return a warning about the conflict of REVIEW, or nil."
  (when-let* ((text (pcase (gemini-companion-review-conflict review)
                      ('unsaved "%s has unsaved edits that this text lacks")
                      ('changed "%s has changed on disk since the client made this text")
                      ('deleted "%s was deleted since the client made this text"))))
    (concat (format text (gemini-companion-review-file review))
            (and (not (eq (gemini-companion-review-conflict review) 'unsaved))
                 (gemini-companion-review-effect--unsaved-p review)
                 ", and has unsaved edits that it lacks"))))

(defun gemini-companion-review-effect-question (review)
  "Return the question to ask before an accept of REVIEW, or nil."
  (pcase-let* (((cl-struct gemini-companion-review base proposed) review)
               (title (gemini-companion-review-agent-title review))
               (text (gemini-companion-review-current-text review))
               (change (gemini-companion-review-effect-change review))
               (`(,before . ,after)
                (or (gemini-companion-change-lines change)
                    (cons (gemini-companion-review-effect-count-lines (or base ""))
                          (gemini-companion-review-effect-count-lines text))))
               (byte (gemini-companion-review-effect--byte review)))
    (cond ((and (string-empty-p text) (not (string-empty-p proposed)))
           (format "%s ignores an empty text, and would write its own proposal.  Accept? " title))
          ((or (gemini-companion-change-deletion-p before after)
               (and (string-empty-p text) (not (member base '(nil "")))))
           (format "%s would write a text of %s in place of %s.  Accept? "
                   title (gemini-companion-ui-count after "line")
                   (gemini-companion-ui-count before "line")))
          (byte
           (format "%s would write U+FFFD in place of %s, which is not valid in UTF-8.  Accept? "
                   title byte))
          ((gemini-companion-review-effect--unmarks-p review)
           (format "%s has a byte order mark, which %s would drop.  Accept? "
                   (gemini-companion-review-file review) title))
          ((gemini-companion-change-recoded change)
           (format "%s is not in UTF-8; %s would write all of it in UTF-8%s.  Accept? "
                   (gemini-companion-review-file review) title
                   (if (string-search "\ufffd" text) ", with U+FFFD for what it could not read"
                     ""))))))

(defun gemini-companion-review-effect-harmless-p (review)
  "Return non-nil if an accept of REVIEW would lose nothing, and ask nothing."
  (not (or (gemini-companion-review-effect-question review)
           (gemini-companion-review-effect-conflict review))))

(defun gemini-companion-review-effect--byte (review)
  "Return the first byte in the proposal of REVIEW that is no character, or nil."
  (when-let* (((string-search "\ufffd" (gemini-companion-review-current-text review)))
              (proposal (gemini-companion-review-proposal review))
              ((buffer-live-p proposal))
              (text (gemini-companion-review-text-of-buffer proposal))
              (start (string-match-p gemini-companion-review-no-unicode text)))
    (substring text start (1+ start))))

(defun gemini-companion-review-effect-count-lines (text)
  "Return the number of lines of TEXT, which may have megabytes."
  (with-temp-buffer
    ;; Otherwise Emacs would convert each byte.
    (set-buffer-multibyte (multibyte-string-p text))
    (insert text)
    (count-lines (point-min) (point-max))))

;;;; Merging

(defun gemini-companion-review-effect-merge (review)
  "Merge into the text of REVIEW what an accept would lose.
Signal a `user-error' if the edits of a buffer overlap; what was written to
the file is merged all the same."
  (let ((buffer (gemini-companion-review-effect--edited-buffer review)))
    (when (gemini-companion-review-effect-file-changed-p review)
      (gemini-companion-review-effect--merge-file review))
    (when buffer
      (gemini-companion-review-effect--merge-text
       review (gemini-companion-review-text-of-visiting review buffer)))))

(defun gemini-companion-review-effect--edited-buffer (review)
  "Return the buffer with unsaved edits of the file of REVIEW, or nil.
Signal a `user-error' if they are edits of another text than the file has."
  (when-let* ((buffer (gemini-companion-review-visiting review))
              ((buffer-modified-p buffer)))
    (when-let* ((fault (cond ((not (gemini-companion-file-agrees-p
                                    (gemini-companion-review-path review) buffer))
                              "was changed on disk")
                             ((gemini-companion-review-effect--converted-p review buffer)
                              "reads differently in its buffer"))))
      (user-error "%s %s: save or revert its buffer, then merge"
                  (gemini-companion-review-file review) fault))
    buffer))

(defun gemini-companion-review-effect--converted-p (review buffer)
  "Return non-nil if the client of REVIEW reads its file differently than BUFFER.
A merge would take the difference for edits of the user."
  (or (gemini-companion-file-converted-p (gemini-companion-review-path review) buffer)
      (let ((bytes (gemini-companion-review-bytes review)))
        (and (stringp bytes)
             ;; Emacs may have taken UTF-8 for Latin-1.
             (not (equal (gemini-companion-file-plain
                          (decode-coding-string
                           bytes (if (buffer-local-value 'enable-multibyte-characters buffer)
                                     (buffer-local-value 'buffer-file-coding-system buffer)
                                   'raw-text)))
                         (gemini-companion-file-plain
                          (gemini-companion-review-text-of-file review bytes))))))))

(defun gemini-companion-review-effect--merge-file (review)
  "Merge on-disk changes of its file into the text of REVIEW."
  (let* ((path (gemini-companion-review-path review))
         (now (gemini-companion-file-stamp path))
         (bytes (gemini-companion-file-read path)))
    (unless bytes
      (user-error "Nothing to merge: %s was deleted, or cannot be read"
                  (gemini-companion-review-path-in-project review)))
    (gemini-companion-review-effect--merge-text
     review (gemini-companion-review-text-of-file review bytes))
    (setf (gemini-companion-review-base review) bytes
          (gemini-companion-review-stamp review) now)))

(defun gemini-companion-review-effect--merge-text (review text)
  "Merge into the text of REVIEW the changes from its file to TEXT."
  (pcase-let (((cl-struct gemini-companion-review proposal base stamp) review)
              (merged (gemini-companion-review-effect--merge-with review text))
              (before (gemini-companion-review-current-text review)))
    (unless (stringp merged)
      (user-error "The edits and the change overlap, first at line %d of the proposed text: %s"
                  merged
                  (gemini-companion-ui-key 'gemini-companion-review-three-way "shows all texts")))
    (unless (equal before merged)
      (push (list before base stamp) (gemini-companion-review-unmerged review)))
    (if (not (buffer-live-p proposal))
        (setf (gemini-companion-review-text review) merged)
      (with-temp-buffer
        (insert merged)
        (let ((source (current-buffer))
              (inhibit-read-only t))
          (with-current-buffer proposal
            (save-restriction
              (widen)
              ;; As one step for undo.
              (atomic-change-group (gemini-companion-heavy-replace-text source))
              (undo-boundary))))))))

(provide 'gemini-companion-review-effect)
;;; gemini-companion-review-effect.el ends here

;;; gemini-companion-review-history.el --- The list of decided changes -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The changes that were decided, by the prompts after which they came, where each can be shown again
;; and, if the client has made it, undone.
;;
;; Here this package writes to the user's files, after a question: an undo puts back the bytes that
;; the file had before, and what a client did not write though it was accepted can be written.

;;; Code:

(require 'cl-lib)
(require 'diff-mode)
(require 'seq)
(require 'subr-x)
(require 'tabulated-list)
(require 'gemini-companion-history)
(require 'gemini-companion-log)
(require 'gemini-companion-proposal)
(require 'gemini-companion-review)
(require 'gemini-companion-review-list)
(require 'gemini-companion-ui)
(require 'gemini-companion-write)

(defconst gemini-companion-review-history--outcomes
  '((accepted . "accepted")
    (rejected . "rejected")
    (closed . "in the CLI")
    (withdrawn . "withdrawn")
    (undone . "undone"))
  "Outcomes, and what the history calls them.")

(defvar gemini-companion-review-history-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'gemini-companion-review-history-show)
    (define-key map (kbd "u") #'gemini-companion-review-history-undo)
    (define-key map (kbd "U") #'gemini-companion-review-history-undo-prompt)
    (define-key map (kbd "w") #'gemini-companion-review-history-write)
    (define-key map [mouse-2] #'gemini-companion-review-history-show)
    map)
  "Keys in the history of changes.")

(defconst gemini-companion-review-history--history-name "*gemini history*"
  "Name of the buffer with the history.")

(define-derived-mode gemini-companion-review-history-mode tabulated-list-mode "Gemini-History"
  "Major mode for the history of changes that were decided.
\\{gemini-companion-review-history-mode-map}"
  :interactive nil
  (gemini-companion-ui-keep-keys 'gemini-companion-review-history-mode)
  (setq gemini-companion-list-columns
        `(("Time" ,(gemini-companion-list-younger #'gemini-companion-history-time))
          ("Outcome" t)
          ("File" t)
          ("Client" t)
          ("Change" nil))
        gemini-companion-list-find #'gemini-companion-review-history--history-lines
        gemini-companion-list-offer #'gemini-companion-review-history--offer-history
        tabulated-list-printer #'gemini-companion-review-history--print-entry)
  (gemini-companion-list-follow))

;;;###autoload
(defun gemini-companion-review-history ()
  "List the changes that were decided, the newest first.
They can be shown again, and undone."
  (interactive)
  (gemini-companion-list-pop-to gemini-companion-review-history--history-name
                                #'gemini-companion-review-history-mode))

(defun gemini-companion-review-history--history-lines ()
  "Return what the history shows, for `tabulated-list-entries'."
  (mapcar (lambda (entry)
            (list entry
                  (vector (gemini-companion-review-history--clock
                           (gemini-companion-history-time entry))
                          (gemini-companion-review-history--outcome entry)
                          (gemini-companion-list-link
                           entry (gemini-companion-history-path entry) "show before and after")
                          (gemini-companion-ui-one-line
                           (gemini-companion-history-client entry))
                          (gemini-companion-review-history--change-of-entry entry))))
          (gemini-companion-history-list)))

(defun gemini-companion-review-history--clock (time)
  "Return TIME in words, with the day unless that is today."
  (format-time-string (if (equal (format-time-string "%F") (format-time-string "%F" time))
                          "%T"
                        "%m-%d %R")
                      time))

(defun gemini-companion-review-history--offer-history ()
  "Return the keys that work on the current line of the history."
  (let ((it (tabulated-list-get-id)))
    `(,(unless (gemini-companion-history-list) "No change was decided yet")
      ,@(when (gemini-companion-history-entry-p it)
          (cons '(gemini-companion-review-history-show . "before and after")
                (gemini-companion-review-history--offer-undo it)))
      ,@(when (gemini-companion-review-history--made-by (gemini-companion-review-history--prompt it))
          '((gemini-companion-review-history-undo-prompt . "undo the prompt's changes")))
      (quit-window . "quit"))))

(defun gemini-companion-review-history--offer-undo (entry)
  "Return the keys that change the file of ENTRY."
  (pcase (gemini-companion-history-outcome entry)
    ('undone '((gemini-companion-review-history-undo . "make again")))
    ((or 'accepted 'closed)
     '((gemini-companion-review-history-undo . "undo")
       (gemini-companion-review-history-write . "write")))))

(defun gemini-companion-review-history--outcome (entry)
  "Return the outcome of ENTRY in words."
  (alist-get (gemini-companion-history-outcome entry) gemini-companion-review-history--outcomes))

(defun gemini-companion-review-history--prompt (it)
  "Return the prompt of IT, what is listed on a line of the history, or nil.
That is the entry of a change, or a prompt itself."
  (if (gemini-companion-history-entry-p it)
      (gemini-companion-history-prompt it)
    it))

(defun gemini-companion-review-history--made-by (prompt)
  "Return the entries of changes that came after PROMPT and were accepted.
The newest is the first."
  (and prompt
       (seq-filter (lambda (entry)
                     (and (eq (gemini-companion-history-prompt entry) prompt)
                          (memq (gemini-companion-history-outcome entry) '(accepted closed))))
                   (gemini-companion-history-list))))

(defun gemini-companion-review-history--print-entry (entry columns)
  "Print the COLUMNS of ENTRY, below its prompt if that is new.
Only where the changes of a prompt are together, which is by time."
  (let ((prompt (gemini-companion-history-prompt entry))
        (above (and (not (bobp)) (tabulated-list-get-id (1- (point))))))
    (unless (or (eq prompt (gemini-companion-review-history--prompt above))
                (not (member (car tabulated-list-sort-key) '(nil "Time"))))
      (gemini-companion-review-history--print-prompt prompt)))
  (tabulated-list-print-entry entry columns))

(defun gemini-companion-review-history--print-prompt (prompt)
  "Print PROMPT, which may be nil, as a heading."
  (let ((line (if (not prompt) "No prompt is known of these:"
                (format "Prompt of %s: %s"
                        (gemini-companion-review-history--clock (cdr prompt))
                        (gemini-companion-ui-one-line
                         (replace-regexp-in-string "[[:space:]]+" " " (car prompt)))))))
    (insert (propertize (concat (truncate-string-to-width
                                 line (gemini-companion-list-room) nil nil t)
                                "\n")
                        'face (if prompt 'bold 'shadow)
                        'help-echo (car prompt)
                        'tabulated-list-id prompt))))

(defun gemini-companion-review-history--change-of-entry (entry)
  "Return the size of the change of ENTRY."
  (gemini-companion-list-remember
   entry 'change
   (lambda ()
     (gemini-companion-list-size
      (gemini-companion-change-of (gemini-companion-history-path entry)
                                  (gemini-companion-history-before entry)
                                  (gemini-companion-history-after entry))))))

(defun gemini-companion-review-history--entry-file (entry)
  "Return the name of the file of ENTRY without its directory, in one line."
  (gemini-companion-ui-one-line
   (file-name-nondirectory (gemini-companion-history-path entry))))

;;;; Before and after

(defvar gemini-companion-review-diff-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "n") #'diff-hunk-next)
    (define-key map (kbd "p") #'diff-hunk-prev)
    (define-key map (kbd "u") #'gemini-companion-review-history-undo)
    (define-key map (kbd "w") #'gemini-companion-review-history-write)
    map)
  "Keys where a change of the history is shown.")

(defconst gemini-companion-review-history--change-name "*gemini change*"
  "Name of the buffer with before and after.")

(defvar-local gemini-companion-review-history--shown nil
  "The entry whose change this buffer shows.")

(defun gemini-companion-review-history--entry ()
  "Return the entry on the current line, or that which the current buffer shows."
  (gemini-companion-list-follow-click)
  (or gemini-companion-review-history--shown
      (let ((it (gemini-companion-list-at-point)))
        (if (gemini-companion-history-entry-p it) it
          (user-error "No change on this line")))))

(define-derived-mode gemini-companion-review-diff-mode special-mode "Gemini-Change"
  "Major mode for a change of the history.
It has the looks of Diff mode, but none of its commands, for these edit
files, and nothing that looks at files for the sake of colors."
  :interactive nil
  (gemini-companion-ui-keep-keys 'gemini-companion-review-diff-mode)
  (setq-local font-lock-defaults diff-font-lock-defaults
              diff-font-lock-syntax nil
              diff-font-lock-prettify nil
              diff-refine nil
              bidi-inhibit-bpa t))

(defun gemini-companion-review-history-show (entry)
  "Show the change of ENTRY, the one on the current line: before and after."
  (interactive (list (gemini-companion-review-history--entry))
               gemini-companion-review-history-mode)
  (let* ((path (gemini-companion-history-path entry))
         (before (gemini-companion-history-before entry))
         (name (gemini-companion-ui-one-line path))
         (text (gemini-companion-review-diff
                (gemini-companion-review-history--decode path before
                                                         (gemini-companion-history-after entry))
                (gemini-companion-history-after entry))))
    (pop-to-buffer (get-buffer-create gemini-companion-review-history--change-name))
    (gemini-companion-review-diff-mode)
    (setq gemini-companion-review-history--shown entry)
    (let ((inhibit-read-only t))
      (erase-buffer)
      (if (string-empty-p text)
          (insert "No line differs.\n")
        (insert (format "--- %s\t%s\n+++ %s\tafter\n" name
                        (if before "before" "no file before") name)
                text))
      (set-buffer-modified-p nil)
      (goto-char (point-min)))
    (font-lock-mode (if (gemini-companion-proposal-small-p) 1 -1))
    (gemini-companion-review-history--show-title)))

(defun gemini-companion-review-history--show-title ()
  "Say above the change in the current buffer what became of it.
And which keys work there."
  (let ((entry gemini-companion-review-history--shown))
    (setq header-line-format
          (gemini-companion-list-keys
           `(,@(gemini-companion-review-history--offer-undo entry)
             (diff-hunk-next . "next")
             (diff-hunk-prev . "previous")
             (quit-window . "quit")
             ,(format "%s, %s, %s, %s"
                      (gemini-companion-review-history--entry-file entry)
                      (gemini-companion-review-history--outcome entry)
                      (gemini-companion-review-history--clock (gemini-companion-history-time entry))
                      (gemini-companion-ui-one-line
                       (gemini-companion-history-client entry))))))))

;;;; Undo

(defun gemini-companion-review-history-undo (entry)
  "Undo the change of ENTRY, the one on the current line or shown; ask first.
The file gets the bytes that it had before.  If the change was undone
already, make it again."
  (interactive (list (gemini-companion-review-history--entry))
               gemini-companion-review-history-mode gemini-companion-review-diff-mode)
  (let* ((undone (eq (gemini-companion-history-outcome entry) 'undone))
         (bytes (if undone
                    (cdr (gemini-companion-history-undone entry))
                  (gemini-companion-history-before entry)))
         (current (gemini-companion-review-history--current entry)))
    (gemini-companion-review-history--check-undo entry bytes current)
    (gemini-companion-review-history--ask
     (gemini-companion-review-history--question entry bytes current))
    (gemini-companion-review-history--replace entry current bytes)
    (if undone
        (gemini-companion-history-note-redone entry)
      (gemini-companion-history-note-undone entry current))
    (gemini-companion-review-history--say-done entry (if undone "made again" "undone"))))

(defun gemini-companion-review-history--current (entry)
  "Return the bytes that the file of ENTRY has now.
It is nil if there is none, `unreadable' if it cannot be read."
  (let ((file-name-handler-alist nil)
        (path (gemini-companion-history-path entry)))
    (or (gemini-companion-history-read path)
        (and (file-exists-p path) 'unreadable))))

(defun gemini-companion-review-history--ask (question)
  "Signal a `user-error' unless the user says yes to QUESTION."
  (unless (y-or-n-p question)
    (user-error "Left as it is")))

(defun gemini-companion-review-history--replace (entry current bytes)
  "Give the file of ENTRY BYTES in place of CURRENT, if it still has these."
  (unless (equal (gemini-companion-review-history--current entry) current)
    (user-error "%s was written just now; left as it is"
                (gemini-companion-review-history--entry-file entry)))
  (gemini-companion-history-write (gemini-companion-history-path entry) bytes))

(defun gemini-companion-review-history--say-done (entry done)
  "The change of ENTRY is DONE, a word: tell the user, and show it."
  (let ((buffer (gemini-companion-review-history--note-done entry done)))
    (gemini-companion-review-history--refresh)
    (message "Change of %s %s%s"
             (gemini-companion-review-history--entry-file entry)
             done
             (gemini-companion-review-history--left-in buffer))))

(defun gemini-companion-review-history--note-done (entry done)
  "The change of ENTRY is DONE, a word: log it, and let buffers follow.
Return the buffer that could not, or nil."
  (let ((path (gemini-companion-history-path entry)))
    (gemini-companion-log-add "change of %s %s" path done)
    (gemini-companion-write-revert-now path)))

(defun gemini-companion-review-history--left-in (buffer)
  "Return in words how BUFFER, which may be nil, differs from its file."
  (cond ((not buffer) "")
        ((buffer-modified-p buffer)
         (format "; unsaved edits in %s are kept" (buffer-name buffer)))
        (t (format "; %s still has the text" (buffer-name buffer)))))

(defun gemini-companion-review-history--refresh ()
  "Show what is new of the history, in the buffers that there are of it."
  (when-let* ((list (get-buffer gemini-companion-review-history--history-name)))
    (with-current-buffer list
      (gemini-companion-list-print)))
  (when-let* ((change (get-buffer gemini-companion-review-history--change-name)))
    (with-current-buffer change
      (gemini-companion-review-history--show-title))))

(defun gemini-companion-review-history--check-undo (entry bytes current)
  "Signal a `user-error' if the file of ENTRY cannot or need not get BYTES.
CURRENT are the bytes it has now."
  (when-let* ((fault (gemini-companion-review-history--undo-fault entry bytes current)))
    (user-error "%s" fault)))

(defun gemini-companion-review-history--undo-fault (entry bytes current)
  "Return why the file of ENTRY cannot or need not get BYTES, or nil.
CURRENT are the bytes it has now."
  (let ((file (gemini-companion-review-history--entry-file entry))
        (outcome (gemini-companion-history-outcome entry)))
    (cond ((memq outcome '(rejected withdrawn))
           (format "Nothing to undo: the change of %s was %s" file outcome))
          ((eq bytes 'unreadable)
           (format "What %s was before is not known" file))
          ((eq current 'unreadable)
           (format "%s cannot be read" file))
          ((not (equal current bytes)) nil)
          ((eq outcome 'undone)
           (format "%s is as it was before the undo already" file))
          (t (format "%s is as it was before the change already" file)))))

(defun gemini-companion-review-history--question (entry bytes current)
  "Return the question before the file of ENTRY gets BYTES in place of CURRENT."
  (let ((file (gemini-companion-review-history--entry-file entry)))
    (concat (cond ((not current)
                   (format "%s is gone by now.  " file))
                  ((not (gemini-companion-review-history--as-left-p entry current))
                   (format "%s has changed since; later changes would be lost, too.  " file)))
            (format (if (eq (gemini-companion-history-outcome entry) 'undone)
                        "Make the change of %s again"
                      "Undo the change of %s")
                    file)
            (if bytes "? " ", which is to delete the file? "))))

(defun gemini-companion-review-history--as-left-p (entry bytes)
  "Return non-nil if BYTES are what the change of ENTRY, or its undo, left."
  (if (eq (gemini-companion-history-outcome entry) 'undone)
      (equal bytes (gemini-companion-history-before entry))
    ;; The client may have written the text with the line ends, the mark and the coding system
    ;; that the file had.
    (let* ((path (gemini-companion-history-path entry))
           (after (gemini-companion-history-after entry))
           (wanted (gemini-companion-history-plain after)))
      (seq-some (lambda (text) (equal (gemini-companion-history-plain text) wanted))
                (list (decode-coding-string bytes 'utf-8-unix)
                      (gemini-companion-review-file-text path bytes after))))))

;;;; Undo of all that came after a prompt

(defun gemini-companion-review-history-undo-prompt (prompt)
  "Undo all accepted changes that came after PROMPT, the one of the current line.
Say what will happen, and ask first.  What cannot be undone is named, and
left alone."
  (interactive (list (or (gemini-companion-review-history--prompt
                          (gemini-companion-list-at-point))
                         (user-error "After which prompt this change came is not known")))
               gemini-companion-review-history-mode)
  (let* ((plan (gemini-companion-review-history--plan
                (or (gemini-companion-review-history--made-by prompt)
                    (user-error "Nothing to undo: no change of this prompt is accepted"))))
         (steps (seq-remove #'gemini-companion-review-history--step-fault plan))
         (faults (delq nil (mapcar #'gemini-companion-review-history--step-fault plan))))
    (unless steps
      (user-error "%s" (string-join faults "; ")))
    (gemini-companion-review-history--ask-plan steps faults)
    (gemini-companion-review-history--follow-plan steps faults)))

(cl-defstruct (gemini-companion-review-history--step
               (:constructor gemini-companion-review-history--make-step)
               (:copier nil))
  "What is to become of one of several changes."
  (entry nil :documentation "The change.")
  (current nil :documentation "The bytes that its file will have when its turn comes.")
  (fault nil :documentation "Why it is left alone, or nil."))

(defun gemini-companion-review-history--plan (entries)
  "Return the steps to undo the changes ENTRIES, of which the newest is the first."
  (let ((known nil) (kept nil))
    (mapcar
     (lambda (entry)
       (let* ((path (gemini-companion-history-path entry))
              (before (gemini-companion-history-before entry))
              (current (if-let* ((now (assoc path known))) (cdr now)
                         (gemini-companion-review-history--current entry)))
              (fault (if (member path kept)
                         (format "A later change of %s stays"
                                 (gemini-companion-review-history--entry-file entry))
                       (gemini-companion-review-history--undo-fault entry before current))))
         (cond ((not fault) (push (cons path before) known))
               ((memq 'unreadable (list before current)) (push path kept)))
         (gemini-companion-review-history--make-step :entry entry :current current :fault fault)))
     entries)))

(defun gemini-companion-review-history--ask-plan (steps faults)
  "Ask whether to do STEPS, which are shown with FAULTS of others."
  (with-current-buffer-window "*gemini undo*"
      '((display-buffer-below-selected) (window-height . fit-window-to-buffer))
      (lambda (window _)
        (unwind-protect
            (gemini-companion-review-history--ask
             (format "Undo %s? " (gemini-companion-review-history--count-changes steps)))
          (when (window-live-p window)
            (quit-restore-window window 'kill))))
    (insert "This will be undone:\n")
    (dolist (step steps)
      (insert "  " (gemini-companion-review-history--step-words step) "\n"))
    (when faults
      (insert "This is left alone:\n")
      (dolist (fault faults)
        (insert "  " fault "\n")))))

(defun gemini-companion-review-history--step-words (step)
  "Return in words what STEP will do."
  (let* ((entry (gemini-companion-review-history--step-entry step))
         (current (gemini-companion-review-history--step-current step))
         (name (gemini-companion-list-name
                entry (gemini-companion-history-path entry))))
    (concat name "  " (gemini-companion-review-history--change-of-entry entry)
            (unless (gemini-companion-history-before entry) ", the file is deleted")
            (cond ((not current) ", is gone by now")
                  ((not (gemini-companion-review-history--as-left-p entry current))
                   ", has changed since: later changes are lost, too")))))

(defun gemini-companion-review-history--follow-plan (steps faults)
  "Do STEPS, each if its file is still what it was; tell the user, also of FAULTS."
  (let ((done nil) (left ""))
    (dolist (step steps)
      (let ((entry (gemini-companion-review-history--step-entry step))
            (current (gemini-companion-review-history--step-current step)))
        (condition-case error
            (progn
              (gemini-companion-review-history--replace
               entry current (gemini-companion-history-before entry))
              (gemini-companion-history-note-undone entry current)
              (push step done)
              (setq left (concat left (gemini-companion-review-history--left-in
                                       (gemini-companion-review-history--note-done
                                        entry "undone")))))
          (error (push (gemini-companion-ui-error-text error) faults)))))
    (gemini-companion-review-history--refresh)
    (message "%s undone%s%s" (gemini-companion-review-history--count-changes done) left
             (mapconcat (lambda (fault) (concat "; " fault)) faults ""))))

(defun gemini-companion-review-history--count-changes (list)
  "Return in words how many changes LIST has."
  (if (= (length list) 1) "1 change" (format "%d changes" (length list))))

;;;; Accepted, and not written

(defun gemini-companion-review-history-write (entry)
  "Write the text of ENTRY, the one on the current line or shown, to its file.
Ask first.  For a change that you accepted and its client did not write,
or not with your edits."
  (interactive (list (gemini-companion-review-history--entry))
               gemini-companion-review-history-mode gemini-companion-review-diff-mode)
  (let ((current (gemini-companion-review-history--current entry)))
    (gemini-companion-review-history--check-write entry current)
    (gemini-companion-review-history--ask
     (format (if current
                 "Write the text of this change to %s, in place of what is there? "
               "Write the text of this change to %s? ")
             (gemini-companion-review-history--entry-file entry)))
    (gemini-companion-review-history--replace
     entry current
     (gemini-companion-history-encode (gemini-companion-history-after entry)
                                      (gemini-companion-history-before entry)))
    (gemini-companion-review-history--say-done entry "written")))

(defun gemini-companion-review-history--check-write (entry current)
  "Signal a `user-error' if the text of ENTRY cannot or need not be written.
CURRENT are the bytes that its file has now."
  (let ((path (gemini-companion-history-path entry))
        (file (gemini-companion-review-history--entry-file entry))
        (outcome (gemini-companion-history-outcome entry)))
    (cond ((not (memq outcome '(accepted closed)))
           (user-error "Nothing to write: the change of %s was %s" file outcome))
          ((eq current 'unreadable)
           (user-error "%s cannot be read" file))
          ((gemini-companion-history-written-p path (gemini-companion-history-after entry))
           (user-error "%s has this text already" file)))))

(defun gemini-companion-review-history--decode (path before after)
  "Return the bytes BEFORE of the file PATH as text to be compared with AFTER.
If they are not bytes, return an empty text."
  (if (stringp before)
      (gemini-companion-review-file-text path before after)
    ""))

(provide 'gemini-companion-review-history)
;;; gemini-companion-review-history.el ends here

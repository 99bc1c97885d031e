;;; gemini-companion-review-list.el --- Lists of open and of decided changes -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Two lists: of the changes that await a decision, where each can be decided, and of those that
;; were decided, where each can be shown again and, if the client has made it, undone.  These are
;; listed by the prompt that they came after, where that is known, and can be undone by it.
;;
;; The header line says which keys work on the current line; the names of the columns are a line
;; of the text.
;;
;; Here this package writes to the user's files, after a question: an undo puts back the bytes that
;; the file had before, and what a client did not write though it was accepted can be written.

;;; Code:

(require 'cl-lib)
(require 'diff-mode)
(require 'project)
(require 'seq)
(require 'subr-x)
(require 'tabulated-list)
(require 'gemini-companion-compare)
(require 'gemini-companion-decide)
(require 'gemini-companion-evil)
(require 'gemini-companion-follow)
(require 'gemini-companion-header)
(require 'gemini-companion-history)
(require 'gemini-companion-log)
(require 'gemini-companion-queue)
(require 'gemini-companion-review)
(require 'gemini-companion-texts)

(declare-function gemini-companion-reason-reject "gemini-companion-reason")

(defconst gemini-companion-review-list--pace 5
  "Seconds after which the list of open changes is printed anew, for their age.")

(defconst gemini-companion-review-list--widest 26
  "Columns that are kept for any but the name of a file.")

(defconst gemini-companion-review-list--shrink '(("File" . 24) ("Client" . 10) ("File" . 10))
  "What becomes narrower if there is no room for all, and how narrow, in order.")

(defvar-local gemini-companion-review-list--columns nil
  "The columns of the current list, each (NAME SORT PROPERTY...).
As in `tabulated-list-format', but without widths.")

(defvar-local gemini-companion-review-list--find nil
  "Function that returns what the current list shows, as `tabulated-list-entries'.")

(defvar-local gemini-companion-review-list--offer nil
  "Function that returns which keys work on the current line.
Its value is as `gemini-companion-review-list--keys' wants it.")

(defvar-local gemini-companion-review-list--offered nil
  "What the function `gemini-companion-review-list--offer' returned last.")

(defvar-local gemini-companion-review-list--printed nil
  "The width for which the current list was printed.")

(defvar gemini-companion-review-list--known (make-hash-table :test #'eq :weakness 'key)
  "What was found out about a review or an entry, lists (WHAT VERSION VALUE).")

;;;; The list of open changes

(defvar gemini-companion-review-list-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'gemini-companion-review-list-visit)
    (define-key map (kbd "a") #'gemini-companion-review-list-accept)
    (define-key map (kbd "k") #'gemini-companion-review-list-reject)
    ;; The last is the one that is shown.
    (define-key map (kbd "r") #'gemini-companion-review-list-reject)
    (define-key map (kbd "h") #'gemini-companion-review-history)
    (define-key map [mouse-2] #'gemini-companion-review-list-visit)
    map)
  "Keys in the list of open changes.")

(define-derived-mode gemini-companion-review-list-mode tabulated-list-mode "Gemini-Reviews"
  "Major mode for the list of changes that await your decision.
\\{gemini-companion-review-list-mode-map}"
  :interactive nil
  (gemini-companion-evil-keep-keys 'gemini-companion-review-list-mode)
  (setq gemini-companion-review-list--columns
        `(("File" t)
          ("Client" t)
          ("Age" ,(gemini-companion-review-list--younger #'gemini-companion-review-created)
           :right-align t)
          ("Change" nil)
          ("State" t))
        gemini-companion-review-list--find #'gemini-companion-review-list--lines
        gemini-companion-review-list--offer #'gemini-companion-review-list--offer-decisions)
  (gemini-companion-review-list--follow gemini-companion-review-list--pace))

;;;###autoload
(defun gemini-companion-review-list ()
  "List the changes that await your decision, to show or to decide them."
  (interactive)
  (gemini-companion-review-list--pop-to "*gemini reviews*"
                                        #'gemini-companion-review-list-mode))

(defun gemini-companion-review-list--lines ()
  "Return what the list of open changes shows, for `tabulated-list-entries'."
  (mapcar (lambda (review)
            (list review
                  (vector (gemini-companion-review-list--link
                           review (gemini-companion-review-path review) "show this change")
                          (gemini-companion-log-one-line
                           (gemini-companion-review-client review))
                          (gemini-companion-log-duration
                           (float-time
                            (time-since (gemini-companion-review-created review))))
                          (gemini-companion-review-list--size
                           (gemini-companion-review-change review))
                          (gemini-companion-review-list--state review))))
          (gemini-companion-review-list-open)))

(defun gemini-companion-review-list--offer-decisions ()
  "Return the keys that work on the current line of the list of open changes."
  `(,(when (zerop (gemini-companion-review-count)) "No change awaits your decision")
    ,@(when (tabulated-list-get-id)
        '((gemini-companion-review-list-visit . "show")
          (gemini-companion-review-list-accept . "accept")
          (gemini-companion-review-list-reject . "reject")))
    (gemini-companion-review-history . "history")
    (quit-window . "quit")))

(defun gemini-companion-review-list--state (review)
  "Return in words where REVIEW is, and what an accept would miss."
  (concat (cond ((gemini-companion-review-hide review) "on screen")
                ((gemini-companion-review-fault review)
                 (propertize (concat "cannot be shown: " (gemini-companion-review-fault review))
                             'face 'error))
                ((gemini-companion-review-postponed review) "put off")
                (t "waiting"))
          (pcase (gemini-companion-review-find-conflict review)
            ('unsaved (propertize ", unsaved edits" 'face 'warning))
            ('changed (propertize ", changed on disk" 'face 'warning)))))

(defun gemini-companion-review-list--review ()
  "Return the open review on the current line."
  (let ((review (gemini-companion-review-list--at-point)))
    (gemini-companion-review-check-open review)
    review))

(defun gemini-companion-review-list-visit (review)
  "Show REVIEW, the one on the current line, and go there."
  (interactive (list (gemini-companion-review-list--review))
               gemini-companion-review-list-mode)
  (gemini-companion-review-visit review))

(defun gemini-companion-review-list-accept (review)
  "Accept REVIEW, the one on the current line; the client writes the file.
If it was never on screen, show it instead.  If to accept would lose
something, ask first."
  (interactive (list (gemini-companion-review-list--review))
               gemini-companion-review-list-mode)
  (gemini-companion-review-accept review))

(defun gemini-companion-review-list-reject (review &optional with-reason)
  "Reject REVIEW, the one on the current line; the file stays as it is.
For WITH-REASON, interactively the prefix argument, see
`gemini-companion-reject'."
  (interactive (list (gemini-companion-review-list--review) current-prefix-arg)
               gemini-companion-review-list-mode)
  (if with-reason
      (gemini-companion-reason-reject review)
    (gemini-companion-review-reject review)))

;;;; The history

(defconst gemini-companion-review-list--outcomes
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

(defconst gemini-companion-review-list--history-name "*gemini history*"
  "Name of the buffer with the history.")

(define-derived-mode gemini-companion-review-history-mode tabulated-list-mode "Gemini-History"
  "Major mode for the history of changes that were decided.
\\{gemini-companion-review-history-mode-map}"
  :interactive nil
  (gemini-companion-evil-keep-keys 'gemini-companion-review-history-mode)
  (setq gemini-companion-review-list--columns
        `(("Time" ,(gemini-companion-review-list--younger #'gemini-companion-history-time))
          ("Outcome" t)
          ("File" t)
          ("Client" t)
          ("Change" nil))
        gemini-companion-review-list--find #'gemini-companion-review-list--history-lines
        gemini-companion-review-list--offer #'gemini-companion-review-list--offer-history
        tabulated-list-printer #'gemini-companion-review-list--print-entry)
  (gemini-companion-review-list--follow))

;;;###autoload
(defun gemini-companion-review-history ()
  "List the changes that were decided, the newest first.
They can be shown again, and undone."
  (interactive)
  (gemini-companion-review-list--pop-to gemini-companion-review-list--history-name
                                        #'gemini-companion-review-history-mode))

(defun gemini-companion-review-list--history-lines ()
  "Return what the history shows, for `tabulated-list-entries'."
  (mapcar (lambda (entry)
            (list entry
                  (vector (gemini-companion-review-list--clock
                           (gemini-companion-history-time entry))
                          (gemini-companion-review-list--outcome entry)
                          (gemini-companion-review-list--link
                           entry (gemini-companion-history-path entry) "show before and after")
                          (gemini-companion-log-one-line
                           (gemini-companion-history-client entry))
                          (gemini-companion-review-list--change-of-entry entry))))
          (gemini-companion-history-list)))

(defun gemini-companion-review-list--clock (time)
  "Return TIME in words, with the day unless that is today."
  (format-time-string (if (equal (format-time-string "%F") (format-time-string "%F" time))
                          "%T"
                        "%m-%d %R")
                      time))

(defun gemini-companion-review-list--offer-history ()
  "Return the keys that work on the current line of the history."
  (let ((it (tabulated-list-get-id)))
    `(,(unless (gemini-companion-history-list) "No change was decided yet")
      ,@(when (gemini-companion-history-entry-p it)
          (cons '(gemini-companion-review-history-show . "before and after")
                (gemini-companion-review-list--offer-undo it)))
      ,@(when (gemini-companion-review-list--made-by (gemini-companion-review-list--prompt it))
          '((gemini-companion-review-history-undo-prompt . "undo the prompt's changes")))
      (quit-window . "quit"))))

(defun gemini-companion-review-list--offer-undo (entry)
  "Return the keys that change the file of ENTRY."
  (pcase (gemini-companion-history-outcome entry)
    ('undone '((gemini-companion-review-history-undo . "make again")))
    ((or 'accepted 'closed)
     '((gemini-companion-review-history-undo . "undo")
       (gemini-companion-review-history-write . "write")))))

(defun gemini-companion-review-list--outcome (entry)
  "Return the outcome of ENTRY in words."
  (alist-get (gemini-companion-history-outcome entry) gemini-companion-review-list--outcomes))

(defun gemini-companion-review-list--prompt (it)
  "Return the prompt of IT, what is listed on a line of the history, or nil.
That is the entry of a change, or a prompt itself."
  (if (gemini-companion-history-entry-p it)
      (gemini-companion-history-prompt it)
    it))

(defun gemini-companion-review-list--made-by (prompt)
  "Return the entries of changes that came after PROMPT and were accepted.
The newest is the first."
  (and prompt
       (seq-filter (lambda (entry)
                     (and (eq (gemini-companion-history-prompt entry) prompt)
                          (memq (gemini-companion-history-outcome entry) '(accepted closed))))
                   (gemini-companion-history-list))))

(defun gemini-companion-review-list--print-entry (entry columns)
  "Print the COLUMNS of ENTRY, below its prompt if that is new.
Only where the changes of a prompt are together, which is by time."
  (let ((prompt (gemini-companion-history-prompt entry))
        (above (and (not (bobp)) (tabulated-list-get-id (1- (point))))))
    (unless (or (eq prompt (gemini-companion-review-list--prompt above))
                (not (member (car tabulated-list-sort-key) '(nil "Time"))))
      (gemini-companion-review-list--print-prompt prompt)))
  (tabulated-list-print-entry entry columns))

(defun gemini-companion-review-list--print-prompt (prompt)
  "Print PROMPT, which may be nil, as a heading."
  (let ((line (if (not prompt) "No prompt is known of these:"
                (format "Prompt of %s: %s"
                        (gemini-companion-review-list--clock (cdr prompt))
                        (gemini-companion-log-one-line
                         (replace-regexp-in-string "[[:space:]]+" " " (car prompt)))))))
    (insert (propertize (concat (truncate-string-to-width
                                 line (gemini-companion-review-list--room) nil nil t)
                                "\n")
                        'face (if prompt 'bold 'shadow)
                        'help-echo (car prompt)
                        'tabulated-list-id prompt))))

(defun gemini-companion-review-list--change-of-entry (entry)
  "Return the size of the change of ENTRY."
  (gemini-companion-review-list--remember
   entry 'change nil
   (lambda ()
     (gemini-companion-review-list--size
      (gemini-companion-change-of (gemini-companion-history-path entry)
                                  (gemini-companion-history-before entry)
                                  (gemini-companion-history-after entry))))))

(defun gemini-companion-review-list--size (change)
  "Return how large CHANGE is, and whether it is a new file."
  (concat (and (gemini-companion-change-new change) "new, ")
          (gemini-companion-change-size change)))

(defun gemini-companion-review-list--entry-file (entry)
  "Return the name of the file of ENTRY without its directory, in one line."
  (gemini-companion-log-one-line
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

(defconst gemini-companion-review-list--change-name "*gemini change*"
  "Name of the buffer with before and after.")

(defvar-local gemini-companion-review-list--entry nil
  "The entry of the history whose change this buffer shows.")

(define-derived-mode gemini-companion-review-diff-mode special-mode "Gemini-Change"
  "Major mode for a change of the history.
It has the looks of Diff mode, but none of its commands, for these edit
files, and nothing that looks at files for the sake of colors."
  :interactive nil
  (gemini-companion-evil-keep-keys 'gemini-companion-review-diff-mode)
  (setq-local font-lock-defaults diff-font-lock-defaults
              diff-font-lock-syntax nil
              diff-font-lock-prettify nil
              diff-refine nil
              bidi-inhibit-bpa t))

(defun gemini-companion-review-history-show (entry)
  "Show the change of ENTRY, the one on the current line: before and after."
  (interactive (list (gemini-companion-review-list--entry))
               gemini-companion-review-history-mode)
  (let* ((path (gemini-companion-history-path entry))
         (before (gemini-companion-history-before entry))
         (name (gemini-companion-log-one-line path))
         (text (gemini-companion-compare-diff
                (gemini-companion-review-list--decode path before
                                                      (gemini-companion-history-after entry))
                (gemini-companion-history-after entry))))
    (pop-to-buffer (get-buffer-create gemini-companion-review-list--change-name))
    (gemini-companion-review-diff-mode)
    (setq gemini-companion-review-list--entry entry)
    (let ((inhibit-read-only t))
      (erase-buffer)
      (if (string-empty-p text)
          (insert "No line differs.\n")
        (insert (format "--- %s\t%s\n+++ %s\tafter\n" name
                        (if before "before" "no file before") name)
                text))
      (set-buffer-modified-p nil)
      (goto-char (point-min)))
    (font-lock-mode (if (gemini-companion-texts-modest-p) 1 -1))
    (gemini-companion-review-list--show-title)))

(defun gemini-companion-review-list--show-title ()
  "Say above the change in the current buffer what became of it.
And which keys work there."
  (let ((entry gemini-companion-review-list--entry))
    (setq header-line-format
          (gemini-companion-review-list--keys
           `(,@(gemini-companion-review-list--offer-undo entry)
             (diff-hunk-next . "next")
             (diff-hunk-prev . "previous")
             (quit-window . "quit")
             ,(format "%s, %s, %s, %s"
                      (gemini-companion-review-list--entry-file entry)
                      (gemini-companion-review-list--outcome entry)
                      (gemini-companion-review-list--clock (gemini-companion-history-time entry))
                      (gemini-companion-log-one-line
                       (gemini-companion-history-client entry))))))))

;;;; Undo

(defun gemini-companion-review-history-undo (entry)
  "Undo the change of ENTRY, the one on the current line or shown; ask first.
The file gets the bytes that it had before.  If the change was undone
already, make it again."
  (interactive (list (gemini-companion-review-list--entry))
               gemini-companion-review-history-mode gemini-companion-review-diff-mode)
  (let* ((undone (eq (gemini-companion-history-outcome entry) 'undone))
         (bytes (if undone
                    (cdr (gemini-companion-history-undone entry))
                  (gemini-companion-history-before entry)))
         (current (gemini-companion-review-list--current entry)))
    (gemini-companion-review-list--check-undo entry bytes current)
    (gemini-companion-review-list--ask
     (gemini-companion-review-list--question entry bytes current))
    (gemini-companion-review-list--replace entry current bytes)
    (if undone
        (gemini-companion-history-note-redone entry)
      (gemini-companion-history-note-undone entry current))
    (gemini-companion-review-list--say-done entry (if undone "made again" "undone"))))

(defun gemini-companion-review-list--current (entry)
  "Return the bytes that the file of ENTRY has now.
It is nil if there is none, `unreadable' if it cannot be read."
  (let ((file-name-handler-alist nil)
        (path (gemini-companion-history-path entry)))
    (or (gemini-companion-history-read path)
        (and (file-exists-p path) 'unreadable))))

(defun gemini-companion-review-list--ask (question)
  "Signal a `user-error' unless the user says yes to QUESTION."
  (unless (y-or-n-p question)
    (user-error "Left as it is")))

(defun gemini-companion-review-list--replace (entry current bytes)
  "Give the file of ENTRY BYTES in place of CURRENT, if it still has these."
  (unless (equal (gemini-companion-review-list--current entry) current)
    (user-error "%s was written just now; left as it is"
                (gemini-companion-review-list--entry-file entry)))
  (gemini-companion-history-write (gemini-companion-history-path entry) bytes))

(defun gemini-companion-review-list--say-done (entry done)
  "The change of ENTRY is DONE, a word: tell the user, and show it."
  (let ((buffer (gemini-companion-review-list--note-done entry done)))
    (gemini-companion-review-list--refresh)
    (message "Change of %s %s%s"
             (gemini-companion-review-list--entry-file entry)
             done
             (gemini-companion-review-list--left-in buffer))))

(defun gemini-companion-review-list--note-done (entry done)
  "The change of ENTRY is DONE, a word: log it, and let buffers follow.
Return the buffer that could not, or nil."
  (let ((path (gemini-companion-history-path entry)))
    (gemini-companion-log-add "change of %s %s" path done)
    (gemini-companion-follow-now path)))

(defun gemini-companion-review-list--left-in (buffer)
  "Return in words how BUFFER, which may be nil, differs from its file."
  (cond ((not buffer) "")
        ((buffer-modified-p buffer)
         (format "; unsaved edits in %s are kept" (buffer-name buffer)))
        (t (format "; %s still has the text" (buffer-name buffer)))))

(defun gemini-companion-review-list--refresh ()
  "Show what is new of the history, in the buffers that there are of it."
  (when-let* ((list (get-buffer gemini-companion-review-list--history-name)))
    (with-current-buffer list
      (gemini-companion-review-list--print)))
  (when-let* ((change (get-buffer gemini-companion-review-list--change-name)))
    (with-current-buffer change
      (gemini-companion-review-list--show-title))))

(defun gemini-companion-review-list--check-undo (entry bytes current)
  "Signal a `user-error' if the file of ENTRY cannot or need not get BYTES.
CURRENT are the bytes it has now."
  (when-let* ((fault (gemini-companion-review-list--undo-fault entry bytes current)))
    (user-error "%s" fault)))

(defun gemini-companion-review-list--undo-fault (entry bytes current)
  "Return why the file of ENTRY cannot or need not get BYTES, or nil.
CURRENT are the bytes it has now."
  (let ((file (gemini-companion-review-list--entry-file entry))
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

(defun gemini-companion-review-list--question (entry bytes current)
  "Return the question before the file of ENTRY gets BYTES in place of CURRENT."
  (let ((file (gemini-companion-review-list--entry-file entry)))
    (concat (cond ((not current)
                   (format "%s is gone by now.  " file))
                  ((not (gemini-companion-review-list--as-left-p entry current))
                   (format "%s has changed since; later changes would be lost, too.  " file)))
            (format (if (eq (gemini-companion-history-outcome entry) 'undone)
                        "Make the change of %s again"
                      "Undo the change of %s")
                    file)
            (if bytes "? " ", which is to delete the file? "))))

(defun gemini-companion-review-list--as-left-p (entry bytes)
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
                      (gemini-companion-compare-text path bytes after))))))

;;;; Undo of all that came after a prompt

(defun gemini-companion-review-history-undo-prompt (prompt)
  "Undo all accepted changes that came after PROMPT, the one of the current line.
Say what will happen, and ask first.  What cannot be undone is named, and
left alone."
  (interactive (list (or (gemini-companion-review-list--prompt
                          (gemini-companion-review-list--at-point))
                         (user-error "After which prompt this change came is not known")))
               gemini-companion-review-history-mode)
  (let* ((plan (gemini-companion-review-list--plan
                (or (gemini-companion-review-list--made-by prompt)
                    (user-error "Nothing to undo: no change of this prompt is accepted"))))
         (steps (seq-remove #'gemini-companion-review-list--step-fault plan))
         (faults (delq nil (mapcar #'gemini-companion-review-list--step-fault plan))))
    (unless steps
      (user-error "%s" (string-join faults "; ")))
    (gemini-companion-review-list--ask-plan steps faults)
    (gemini-companion-review-list--follow-plan steps faults)))

(cl-defstruct (gemini-companion-review-list--step
               (:constructor gemini-companion-review-list--make-step)
               (:copier nil))
  "What is to become of one of several changes."
  (entry nil :documentation "The change.")
  (current nil :documentation "The bytes that its file will have when its turn comes.")
  (fault nil :documentation "Why it is left alone, or nil."))

(defun gemini-companion-review-list--plan (entries)
  "Return the steps to undo the changes ENTRIES, of which the newest is the first."
  (let ((known nil) (kept nil))
    (mapcar
     (lambda (entry)
       (let* ((path (gemini-companion-history-path entry))
              (before (gemini-companion-history-before entry))
              (current (if-let* ((now (assoc path known))) (cdr now)
                         (gemini-companion-review-list--current entry)))
              (fault (if (member path kept)
                         (format "A later change of %s stays"
                                 (gemini-companion-review-list--entry-file entry))
                       (gemini-companion-review-list--undo-fault entry before current))))
         (cond ((not fault) (push (cons path before) known))
               ((memq 'unreadable (list before current)) (push path kept)))
         (gemini-companion-review-list--make-step :entry entry :current current :fault fault)))
     entries)))

(defun gemini-companion-review-list--ask-plan (steps faults)
  "Ask whether to do STEPS, which are shown with FAULTS of others."
  (with-current-buffer-window "*gemini undo*"
      '((display-buffer-below-selected) (window-height . fit-window-to-buffer))
      (lambda (window _)
        (unwind-protect
            (gemini-companion-review-list--ask
             (format "Undo %s? " (gemini-companion-review-list--count-changes steps)))
          (when (window-live-p window)
            (quit-restore-window window 'kill))))
    (insert "This will be undone:\n")
    (dolist (step steps)
      (insert "  " (gemini-companion-review-list--step-words step) "\n"))
    (when faults
      (insert "This is left alone:\n")
      (dolist (fault faults)
        (insert "  " fault "\n")))))

(defun gemini-companion-review-list--step-words (step)
  "Return in words what STEP will do."
  (let* ((entry (gemini-companion-review-list--step-entry step))
         (current (gemini-companion-review-list--step-current step))
         (name (gemini-companion-review-list--name
                entry (gemini-companion-history-path entry))))
    (concat name "  " (gemini-companion-review-list--change-of-entry entry)
            (unless (gemini-companion-history-before entry) ", the file is deleted")
            (cond ((not current) ", is gone by now")
                  ((not (gemini-companion-review-list--as-left-p entry current))
                   ", has changed since: later changes are lost, too")))))

(defun gemini-companion-review-list--follow-plan (steps faults)
  "Do STEPS, each if its file is still what it was; tell the user, also of FAULTS."
  (let ((done nil) (left ""))
    (dolist (step steps)
      (let ((entry (gemini-companion-review-list--step-entry step))
            (current (gemini-companion-review-list--step-current step)))
        (condition-case error
            (progn
              (gemini-companion-review-list--replace
               entry current (gemini-companion-history-before entry))
              (gemini-companion-history-note-undone entry current)
              (push step done)
              (setq left (concat left (gemini-companion-review-list--left-in
                                       (gemini-companion-review-list--note-done
                                        entry "undone")))))
          (error (push (gemini-companion-log-reason error) faults)))))
    (gemini-companion-review-list--refresh)
    (message "%s undone%s%s" (gemini-companion-review-list--count-changes done) left
             (mapconcat (lambda (fault) (concat "; " fault)) faults ""))))

(defun gemini-companion-review-list--count-changes (list)
  "Return in words how many changes LIST has."
  (if (= (length list) 1) "1 change" (format "%d changes" (length list))))

;;;; Accepted, and not written

(defun gemini-companion-review-history-write (entry)
  "Write the text of ENTRY, the one on the current line or shown, to its file.
Ask first.  For a change that you accepted and its client did not write,
or not with your edits."
  (interactive (list (gemini-companion-review-list--entry))
               gemini-companion-review-history-mode gemini-companion-review-diff-mode)
  (let ((current (gemini-companion-review-list--current entry)))
    (gemini-companion-review-list--check-write entry current)
    (gemini-companion-review-list--ask
     (format (if current
                 "Write the text of this change to %s, in place of what is there? "
               "Write the text of this change to %s? ")
             (gemini-companion-review-list--entry-file entry)))
    (gemini-companion-review-list--replace
     entry current
     (gemini-companion-history-encode (gemini-companion-history-after entry)
                                      (gemini-companion-history-before entry)))
    (gemini-companion-review-list--say-done entry "written")))

(defun gemini-companion-review-list--check-write (entry current)
  "Signal a `user-error' if the text of ENTRY cannot or need not be written.
CURRENT are the bytes that its file has now."
  (let ((path (gemini-companion-history-path entry))
        (file (gemini-companion-review-list--entry-file entry))
        (outcome (gemini-companion-history-outcome entry)))
    (cond ((not (memq outcome '(accepted closed)))
           (user-error "Nothing to write: the change of %s was %s" file outcome))
          ((eq current 'unreadable)
           (user-error "%s cannot be read" file))
          ((gemini-companion-history-written-p path (gemini-companion-history-after entry))
           (user-error "%s has this text already" file)))))

;;;; Both lists

(defun gemini-companion-review-list--pop-to (name mode)
  "Show the list in the buffer NAME, of the major mode MODE."
  (pop-to-buffer (get-buffer-create name))
  (unless (derived-mode-p mode) (funcall mode))
  (gemini-companion-review-list--print)
  (unless (tabulated-list-get-id)
    (gemini-companion-review-list--goto-first)
    (gemini-companion-review-list--show-keys)))

(defun gemini-companion-review-list--goto-first ()
  "Go to the first change that is listed."
  (goto-char (point-min))
  (while (not (or (eobp) (tabulated-list-get-entry)))
    (forward-line)))

(defun gemini-companion-review-list--follow (&optional seconds)
  "Set up the current list, and print it anew when reviews come or go.
With SECONDS do so after that time, too, if it is on screen."
  (setq-local revert-buffer-function
              (lambda (&rest _) (gemini-companion-review-list--print))
              tabulated-list-use-header-line nil)
  (add-hook 'post-command-hook #'gemini-companion-review-list--show-keys nil t)
  (add-hook 'window-size-change-functions #'gemini-companion-review-list--resize nil t)
  (let* ((buffer (current-buffer))
         (print (lambda ()
                  (gemini-companion-log-errors "list of changes"
                    (with-current-buffer buffer (gemini-companion-review-list--print)))))
         (timer (and seconds
                     (run-at-time seconds seconds
                                  (lambda ()
                                    (when (get-buffer-window buffer t) (funcall print))))))
         (unfollow (lambda ()
                     (remove-hook 'gemini-companion-review-functions print)
                     (when timer (cancel-timer timer)))))
    (add-hook 'gemini-companion-review-functions print)
    (add-hook 'kill-buffer-hook unfollow nil t)
    (add-hook 'change-major-mode-hook unfollow nil t)))

(defun gemini-companion-review-list--print ()
  "Print the current list anew.  Point stays on its line, in each window."
  (let ((place (gemini-companion-review-list--place (point)))
        (places (mapcar (lambda (window)
                          (cons window (gemini-companion-review-list--place
                                        (window-point window))))
                        (get-buffer-window-list nil nil t))))
    (gemini-companion-review-list--lay-out (funcall gemini-companion-review-list--find))
    (tabulated-list-print)
    (goto-char (gemini-companion-review-list--position place))
    (pcase-dolist (`(,window . ,place) places)
      (set-window-point window (gemini-companion-review-list--position place))))
  (gemini-companion-review-list--show-keys))

(defun gemini-companion-review-list--place (position)
  "Return where POSITION is: what is listed on its line, its line and its column."
  (save-excursion
    (goto-char position)
    (list (tabulated-list-get-id) (line-number-at-pos) (- position (line-beginning-position)))))

(defun gemini-companion-review-list--position (place)
  "Return the position of PLACE; if its line is gone, in the one that came there."
  (pcase-let ((`(,id ,line ,column) place))
    (save-excursion
      (goto-char (point-min))
      (while (not (or (eobp) (and id (eq (tabulated-list-get-id) id))))
        (forward-line))
      (when (eobp)
        (goto-char (point-min))
        (forward-line (1- line))
        (when (and (eobp) (not (bobp)) id)
          (forward-line -1)))
      (min (+ (point) column) (line-end-position)))))

(defun gemini-companion-review-list--at-point ()
  "Return what is listed on the current line, or on that which was clicked."
  (gemini-companion-review-list--follow-click)
  (or (tabulated-list-get-id)
      (user-error "No change on this line")))

(defun gemini-companion-review-list--follow-click ()
  "If a command was called by a click on text, go there."
  (when (mouse-event-p last-input-event)
    (let ((position (event-end last-input-event)))
      (unless (posn-area position)
        (posn-set-point position)))))

(defun gemini-companion-review-list--entry ()
  "Return the entry on the current line, or that which the current buffer shows."
  (gemini-companion-review-list--follow-click)
  (or gemini-companion-review-list--entry
      (let ((it (gemini-companion-review-list--at-point)))
        (if (gemini-companion-history-entry-p it) it
          (user-error "No change on this line")))))

(defun gemini-companion-review-list--younger (time)
  "Return a function that sorts lines: the younger first.
TIME is a function that returns the time of what is listed."
  (lambda (one other)
    (time-less-p (funcall time (car other)) (funcall time (car one)))))

(defun gemini-companion-review-list--link (object path does)
  "Return the name of the file PATH, that of OBJECT, to be clicked.
DOES says what that does."
  (propertize (gemini-companion-review-list--name object path)
              'mouse-face 'highlight
              'help-echo (format "%s\nmouse-1, RET: %s"
                                 (gemini-companion-log-one-line path) does)))

(defun gemini-companion-review-list--name (object path)
  "Return PATH, that of OBJECT, as seen from its project or home, in one line."
  (gemini-companion-review-list--remember
   object 'name nil
   (lambda ()
     (gemini-companion-log-one-line (gemini-companion-review-list--abbreviate path)))))

(defun gemini-companion-review-list--abbreviate (path)
  "Return PATH as seen from its project, with the project's name, or from home."
  (let* ((file-name-handler-alist nil)
         (non-essential t)
         (home (abbreviate-file-name path))
         (project (gemini-companion-log-errors "project"
                    (project-current nil (file-name-directory path))))
         (root (and project (directory-file-name (expand-file-name (project-root project)))))
         (name (and root (file-relative-name path (file-name-directory root)))))
    (if (and name
             (not (string-prefix-p "../" name))
             (< (length name) (length home)))
        name
      home)))

;;;; Room for columns

(defun gemini-companion-review-list--resize (window)
  "Lay out the list in WINDOW anew if it has another width."
  (gemini-companion-log-errors "list of changes"
    (with-current-buffer (window-buffer window)
      (unless (eql gemini-companion-review-list--printed
                   (gemini-companion-review-list--room))
        (gemini-companion-review-list--print)))))

(defun gemini-companion-review-list--room ()
  "Return the width in characters of the narrowest window of the current buffer."
  (let ((windows (or (get-buffer-window-list nil nil 'visible) (list (selected-window)))))
    (- (apply #'min (mapcar #'window-max-chars-per-line windows))
       (if display-line-numbers (+ 2 (line-number-display-width)) 0))))

(defun gemini-companion-review-list--lay-out (lines)
  "Let the current list show LINES, with columns that fit them and its windows."
  (let* ((room (gemini-companion-review-list--room))
         (widths (gemini-companion-review-list--widths lines room))
         (file (seq-position gemini-companion-review-list--columns "File"
                             (lambda (column name) (equal (car column) name)))))
    (pcase-dolist (`(,_ ,cells) lines)
      (aset cells file (gemini-companion-review-list--end-of (aref cells file)
                                                             (nth file widths))))
    (setq gemini-companion-review-list--printed room
          tabulated-list-entries lines
          tabulated-list-format
          (vconcat (cl-mapcar (pcase-lambda (`(,name . ,rest) width)
                                (cons name (cons width rest)))
                              gemini-companion-review-list--columns
                              ;; The last takes what room there is.
                              (append (butlast widths) '(0))))))
  (tabulated-list-init-header))

(defun gemini-companion-review-list--widths (lines room)
  "Return the widths of the columns of LINES in a window of ROOM characters."
  (let* ((columns gemini-companion-review-list--columns)
         (widths (seq-map-indexed
                  (lambda (column index)
                    (gemini-companion-review-list--width column index lines))
                  columns)))
    (pcase-dolist (`(,name . ,least) gemini-companion-review-list--shrink)
      (let* ((index (seq-position (mapcar #'car columns) name))
             (width (nth index widths))
             (excess (- (apply #'+ (1- (length widths)) widths) room)))
        (when (and (> excess 0) (> width least))
          (setf (nth index widths) (max least (- width excess))))))
    widths))

(defun gemini-companion-review-list--width (column index lines)
  "Return the width that COLUMN, the one with INDEX in LINES, is to have."
  (let ((widest (apply #'max
                       ;; The column by which is sorted has a mark behind its name.
                       (+ (string-width (car column)) (if (cadr column) 2 0))
                       (mapcar (pcase-lambda (`(,_ ,cells)) (string-width (aref cells index)))
                               lines))))
    (if (equal (car column) "File") widest
      (min widest gemini-companion-review-list--widest))))

(defun gemini-companion-review-list--end-of (name room)
  "Return NAME, or of one that is wider than ROOM the end."
  (let ((width (string-width name)))
    (if (<= width room)
        name
      (apply #'propertize
             (concat "…" (truncate-string-to-width name width (- width room -1)))
             (text-properties-at 0 name)))))

;;;; Keys

(defun gemini-companion-review-list--show-keys ()
  "Say in the header line which keys work on the current line."
  (gemini-companion-log-errors "keys of a list"
    (let ((offer (funcall gemini-companion-review-list--offer)))
      (unless (equal offer gemini-companion-review-list--offered)
        (setq gemini-companion-review-list--offered offer
              header-line-format (gemini-companion-review-list--keys offer))))))

(defun gemini-companion-review-list--keys (offer)
  "Return a line that says what OFFER has, for `header-line-format'.
That is a list of texts and of commands with what they do, each (COMMAND
. LABEL); nil is passed over."
  (concat " " (mapconcat (lambda (it)
                           (if (stringp it)
                               (string-replace "%" "%%" it)
                             (gemini-companion-header-key (car it) (cdr it))))
                         (delq nil offer) "  ")))

;;;; Sizes of changes

(defun gemini-companion-review-list--remember (object what version find)
  "Return WHAT is known of OBJECT; let the function FIND find it out if need be.
That is when nothing is known, or for another VERSION."
  (let* ((known (gethash object gemini-companion-review-list--known))
         (old (alist-get what known)))
    (unless (and old (eql (car old) version))
      (setq old (list version (funcall find)))
      (setf (alist-get what known) old)
      (puthash object known gemini-companion-review-list--known))
    (cadr old)))

(defun gemini-companion-review-list--decode (path before after)
  "Return the bytes BEFORE of the file PATH as text to be compared with AFTER.
If they are not bytes, return an empty text."
  (if (stringp before)
      (gemini-companion-compare-text path before after)
    ""))

(provide 'gemini-companion-review-list)
;;; gemini-companion-review-list.el ends here

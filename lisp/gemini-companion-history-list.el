;;; gemini-companion-history-list.el --- The list of decided changes -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Lists the changes that were decided, grouped by the prompts that they came after.  The user can
;; show each again and, if its client has made it, undo it.
;;
;; This file writes to the user's files, after asking: to undo a change, it restores the contents
;; that the file had before, and it can write an accepted text that the client did not write.  A
;; file on a host is read and written through Tramp, for which the user waits.

;;; Code:

(require 'diff-mode)
(require 'tabulated-list)
(require 'gemini-companion-file)
(require 'gemini-companion-history)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-review-buffer)
(require 'gemini-companion-review-list)
(require 'gemini-companion-ui)
(require 'gemini-companion-write)

;;;; The list

(define-derived-mode gemini-companion-history-list-mode tabulated-list-mode "Gemini-History"
  "Major mode for the history of changes.

\\{gemini-companion-history-list-mode-map}"
  :interactive nil
  (setq gemini-companion-review-list-columns
        `(("Time" ,(gemini-companion-review-list-by-time #'gemini-companion-history-time))
          ("Outcome" t)
          ("File" t :shrink t)
          ("Client" t)
          ("Change" nil))
        gemini-companion-review-list-entries-function #'gemini-companion-history-list--entries
        gemini-companion-review-list-keys-function #'gemini-companion-history-list--keys
        tabulated-list-printer #'gemini-companion-history-list--print-entry)
  (gemini-companion-review-list-set-up))

(gemini-companion-ui-bind gemini-companion-history-list-mode-map
  ("RET" "<mouse-2>") #'gemini-companion-history-list-show
  "u" #'gemini-companion-history-list-undo
  "U" #'gemini-companion-history-list-undo-prompt
  "w" #'gemini-companion-history-list-write)

;;;###autoload
(defun gemini-companion-history-list ()
  "List the changes that were decided, newest first.
You can show them again, and undo them."
  (interactive)
  (gemini-companion-review-list-pop-to "*gemini history*"
                                       #'gemini-companion-history-list-mode))

(defun gemini-companion-history-list--entries ()
  "Return the decided changes for `tabulated-list-entries'."
  (mapcar (pcase-lambda ((and entry
                              (cl-struct gemini-companion-history-entry
                                         time path host client before after)))
            (list entry
                  (vector (gemini-companion-history-list--time time)
                          (gemini-companion-history-list--outcome entry)
                          (gemini-companion-review-list-link path host "show before and after")
                          (gemini-companion-ui-one-line client)
                          (or (gemini-companion-history-size entry)
                              (setf (gemini-companion-history-size entry)
                                    (gemini-companion-review-list-size
                                     (gemini-companion-change-of path before after)))))))
          (gemini-companion-history-all)))

(defun gemini-companion-history-list--print-entry (entry columns)
  "Print the COLUMNS of ENTRY, after its prompt if the line above has another.
The changes of a prompt are together only if the list is sorted by time."
  (let ((prompt (gemini-companion-history-prompt entry))
        (above (and (not (bobp)) (tabulated-list-get-id (1- (point))))))
    (unless (or (eq prompt (gemini-companion-history-list--prompt above))
                (not (member (car tabulated-list-sort-key) '(nil "Time"))))
      (insert (propertize (concat (truncate-string-to-width
                                   (gemini-companion-history-list--prompt-line prompt)
                                   (gemini-companion-review-list-width) nil nil t)
                                  "\n")
                          'face (if prompt 'gemini-companion-heading 'shadow)
                          'help-echo (car prompt)
                          'tabulated-list-id prompt))))
  (tabulated-list-print-entry entry columns))

(defun gemini-companion-history-list--prompt-line (prompt)
  "Return a line about PROMPT, which may be nil, for the user."
  (if (not prompt) "Prompt unknown:"
    (format "Prompt of %s: %s" (gemini-companion-history-list--time (cdr prompt))
            (gemini-companion-ui-prompt-line (car prompt)))))

(defun gemini-companion-history-list--keys ()
  "Return the keys that work on the current line of the history."
  (let* ((id (tabulated-list-get-id))
         (entry (gemini-companion-history-entry-p id))
         (prompt-keys (gemini-companion-history-list--undo-keys
                       (gemini-companion-history-list--prompt id))))
    `(,(unless (gemini-companion-history-all) "No change has been decided yet")
      ,(cond (entry '(gemini-companion-history-list-show . "before and after"))
             (prompt-keys '(gemini-companion-history-list-show . "all its changes")))
      ,@(and entry (gemini-companion-history-list--undo-keys id))
      ,@prompt-keys
      (quit-window . "quit"))))

(defun gemini-companion-history-list--undo-keys (what)
  "Return the keys that write files of WHAT, a change, a prompt or nil."
  (if (not (gemini-companion-history-entry-p what))
      (and (gemini-companion-history-list--made what)
           '((gemini-companion-history-list-undo-prompt . "undo the prompt's changes")))
    (let ((outcome (gemini-companion-history-outcome what)))
      (append (cond ((eq outcome 'undone)
                     '((gemini-companion-history-list-undo . "make again")))
                    ((gemini-companion-history-made-p what)
                     '((gemini-companion-history-list-undo . "undo"))))
              (and (memq outcome '(accepted accepted-there unwritten))
                   (not (gemini-companion-history-written what))
                   '((gemini-companion-history-list-write . "write")))))))

;;;; Entries and prompts

(defvar-local gemini-companion-history-list--shown nil
  "Entry or prompt whose change this buffer shows.")

(defun gemini-companion-history-list--at-point ()
  "Return the entry or prompt of the current buffer, or of the current line."
  (or gemini-companion-history-list--shown
      (gemini-companion-review-list-at-point)))

(defun gemini-companion-history-list--entry ()
  "Return the entry that the current buffer shows, or that of the current line."
  (let ((id (gemini-companion-history-list--at-point)))
    (if (gemini-companion-history-entry-p id) id
      (user-error "This line is a prompt; go to one of its changes"))))

(defun gemini-companion-history-list--prompt (id)
  "Return the prompt of ID, an entry or a prompt itself."
  (if (gemini-companion-history-entry-p id)
      (gemini-companion-history-prompt id)
    id))

(defun gemini-companion-history-list--made (prompt)
  "Return the changes that came after PROMPT and were made, newest first."
  (and prompt
       (seq-filter (lambda (entry)
                     (and (eq (gemini-companion-history-prompt entry) prompt)
                          (gemini-companion-history-made-p entry)))
                   (gemini-companion-history-all))))

(defun gemini-companion-history-list--time (time)
  "Return TIME as text for the user, with the date unless that is today."
  (format-time-string (if (equal (format-time-string "%F") (format-time-string "%F" time))
                          "%T"
                        "%m-%d %R")
                      time))

(defun gemini-companion-history-list--outcome (entry)
  "Return the outcome of ENTRY as text for the user."
  (pcase (gemini-companion-history-outcome entry)
    ('accepted-there "accepted in CLI")
    ('rejected-there "rejected in CLI")
    ('closed "decided in CLI")
    ('unwritten "not written")
    (outcome (symbol-name outcome))))

(defun gemini-companion-history-list--refuse (entry action)
  "Signal a `user-error': there is nothing to ACTION, since ENTRY was not made."
  (user-error "Nothing to %s: the change to %s was %s" action
              (gemini-companion-history-list--file entry)
              (if (eq (gemini-companion-history-outcome entry) 'closed)
                  "decided in the CLI just now, and Emacs does not know yet how"
                (gemini-companion-history-list--outcome entry))))

(defun gemini-companion-history-list--file (entry)
  "Return the name of the file of ENTRY without its directory."
  (gemini-companion-file-short-title (gemini-companion-history-path entry)
                                     (gemini-companion-history-host entry)))

;;;; Before and after

(defconst gemini-companion-history-list--diff-buffer "*gemini change*"
  "Name of the buffer that shows a change of the history.")

(define-derived-mode gemini-companion-history-diff-mode special-mode "Gemini-Change"
  "Major mode for a change in the history.
It highlights diffs like Diff mode, but has none of the commands that edit
files, and reads no files for their syntax.

\\{gemini-companion-history-diff-mode-map}"
  :interactive nil
  (gemini-companion-ui-keep-keys 'gemini-companion-history-diff-mode)
  (setq-local font-lock-defaults diff-font-lock-defaults
              diff-font-lock-syntax nil
              diff-font-lock-prettify nil
              diff-refine nil
              face-remapping-alist gemini-companion-review-buffer-diff-faces
              bidi-inhibit-bpa t
              gemini-companion-comment-place-function #'gemini-companion-history-list--place))

(gemini-companion-ui-bind gemini-companion-history-diff-mode-map
  "n" #'diff-hunk-next
  "p" #'diff-hunk-prev
  "u" #'gemini-companion-history-list-undo
  "U" #'gemini-companion-history-list-undo-prompt
  "w" #'gemini-companion-history-list-write
  "c" 'gemini-companion-comment)

(defun gemini-companion-history-list-show (what)
  "Show WHAT, by default on the current line, as a diff.
WHAT is a change of the history, or a prompt: then show what it has changed
in all files."
  (interactive (list (gemini-companion-history-list--at-point))
               gemini-companion-history-list-mode)
  (let ((text (gemini-companion-history-list--diff what)))
    (gemini-companion-ui-pop-to gemini-companion-history-list--diff-buffer)
    (gemini-companion-history-diff-mode)
    (setq gemini-companion-history-list--shown what)
    (let ((inhibit-read-only t))
      (erase-buffer)
      (insert text)
      (set-buffer-modified-p nil)
      (goto-char (point-min)))
    (gemini-companion-heavy-shorten-lines)
    ;; Redisplay may fontify it, since this mode does not parse.
    (font-lock-mode (if (gemini-companion-heavy-p) -1 1))
    (gemini-companion-history-list--show-header)))

(defun gemini-companion-history-list--diff (what)
  "Return a diff of WHAT, a change or a prompt."
  (let* ((changes (if (gemini-companion-history-entry-p what) (list what)
                    (or (reverse (gemini-companion-history-list--made what))
                        (user-error "This prompt has left no change"))))
         (diffs (mapcar (pcase-lambda (`(,_ . ,entries))
                          (gemini-companion-history-list--diff-between
                           (car entries) (car (last entries))))
                        (seq-group-by #'gemini-companion-history-path changes)))
         (text (string-join (delete "" diffs) "\n")))
    (if (string-empty-p text) "No line differs.\n" text)))

(defun gemini-companion-history-list--diff-between (first last)
  "Return a diff from before the change FIRST to after LAST, of the same file.
It is empty if no line differs."
  (let* ((path (gemini-companion-history-path first))
         (name (gemini-companion-ui-one-line path))
         (before (gemini-companion-history-before first))
         (after (gemini-companion-history-after last))
         (hunks (gemini-companion-change-diff
                 (if (stringp before) (gemini-companion-change-decode path before after) "")
                 after)))
    (if (string-empty-p hunks) ""
      ;; `format' would find out how wide all of it is on screen.
      (concat "--- " name (if before "\tbefore" "\tno file before") "\n+++ " name "\tafter\n"
              (propertize hunks 'gemini-companion-history-list--entry last)))))

(defun gemini-companion-history-list--place (&rest _)
  "Return the line of a file that the diff shows at point.
See `gemini-companion-comment-place-function'."
  (save-excursion
    (forward-line 0)
    (let* ((entry (get-text-property (point) 'gemini-companion-history-list--entry))
           (path (if (and entry (looking-at "[ +]")) (gemini-companion-history-path entry)
                   (user-error "The file has no such line")))
           (text (string-remove-suffix
                  "\r" (buffer-substring-no-properties (1+ (point)) (line-end-position))))
           (end (point))
           (line (progn (re-search-backward "^@@ .*\\+\\([0-9]+\\)")
                        (+ (string-to-number (match-string 1)) (how-many "^[ +]" (point) end)))))
      (unless (equal (file-remote-p path) (gemini-companion-history-host entry))
        (user-error "This name would lead to another machine"))
      (with-current-buffer (or (gemini-companion-file-visiting path) (find-file-noselect path))
        (gemini-companion-ui-widened
          (goto-char (gemini-companion-ui-line-start line))
          (unless (equal text (buffer-substring-no-properties (point) (line-end-position)))
            (user-error "%s has changed since: comment on the line there" (buffer-name))))
        (list (current-buffer) line line nil)))))

(defun gemini-companion-history-list--show-header ()
  "Show keys, and what the current buffer shows, in its header line."
  (let* ((what gemini-companion-history-list--shown)
         (entry (and (gemini-companion-history-entry-p what) what)))
    (setq header-line-format
          (gemini-companion-review-list-header
           `(,@(gemini-companion-history-list--undo-keys what)
             (diff-hunk-next . "next")
             (diff-hunk-prev . "previous")
             (gemini-companion-comment . "comment")
             (quit-window . "quit")
             ,(if (not entry) (gemini-companion-history-list--prompt-line what)
                (format "%s, %s, %s, %s"
                        (gemini-companion-history-list--file entry)
                        (gemini-companion-history-list--outcome entry)
                        (gemini-companion-history-list--time (gemini-companion-history-time entry))
                        (gemini-companion-ui-one-line
                         (gemini-companion-history-client entry)))))))))

;;;; Undo

(defun gemini-companion-history-list-undo (entry)
  "Undo the change of ENTRY, on the current line or in this buffer; ask first.
This restores the file's previous contents.  If the change has already been
undone, make it again."
  (interactive (list (gemini-companion-history-list--entry))
               gemini-companion-history-list-mode gemini-companion-history-diff-mode)
  (gemini-companion-history-list--note-late-write entry)
  (unless (or (eq (gemini-companion-history-outcome entry) 'undone)
              (gemini-companion-history-made-p entry))
    (gemini-companion-history-list--refuse entry "undo"))
  (gemini-companion-history-list--restore (list entry)))

(defun gemini-companion-history-list-undo-prompt (prompt)
  "Undo all changes that PROMPT, on the current line, led to.
First name the files, and the changes that Emacs cannot undo, and ask."
  (interactive (list (or (gemini-companion-history-list--prompt
                          (gemini-companion-history-list--at-point))
                         (user-error "The prompt that led to this change is unknown")))
               gemini-companion-history-list-mode gemini-companion-history-diff-mode)
  (dolist (entry (gemini-companion-history-all))
    (when (eq (gemini-companion-history-prompt entry) prompt)
      (ignore-error (user-error file-error)
        (gemini-companion-history-list--note-late-write entry))))
  (gemini-companion-history-list--restore
   (or (gemini-companion-history-list--made prompt)
       (user-error "This prompt has left nothing to undo"))
   (and (gethash prompt gemini-companion-history-incomplete)
        '("The first changes of this prompt are no longer in the history"))))

(defun gemini-companion-history-list--note-late-write (entry)
  "Record it if the client of ENTRY has written its text after all."
  (when (and (memq (gemini-companion-history-outcome entry) '(unwritten closed))
             (not (gemini-companion-history-list--warning
                   entry (gemini-companion-history-list--read entry))))
    (gemini-companion-history-note-written entry)))

(defun gemini-companion-history-list--restore (entries &optional faults)
  "Undo the changes ENTRIES, the newest first, or make one again that was undone.
Ask first, and say what cannot be undone; FAULTS are texts about other changes."
  (let* ((redo (gemini-companion-history-undone (car entries)))
         (steps (mapcar (pcase-lambda (`(,_ . ,changes))
                          (gemini-companion-history-list--step changes))
                        (seq-group-by #'gemini-companion-history-target entries)))
         (faults (append (seq-filter #'stringp steps) faults))
         (steps (seq-remove #'stringp steps))
         (done nil))
    (when steps
      (gemini-companion-history-list--ask (gemini-companion-history-list--question steps faults)))
    (dolist (step steps)
      (condition-case error
          (setq done (append (gemini-companion-history-list--run step) done))
        (error (push (gemini-companion-ui-error-text error) faults))))
    (unless done
      (user-error "%s" (string-join faults "; ")))
    (gemini-companion-history-list--finish done (if redo "made again" "undone") faults)))

(defun gemini-companion-history-list--step (entries)
  "Return what restores the file of ENTRIES, its changes, the newest first.
The value is (BYTES CURRENT . ENTRIES), where the file gets BYTES in place of
CURRENT, or text: why it stays as it is."
  (condition-case error
      (pcase-let* (((cl-struct gemini-companion-history-entry before undone)
                    (car (last entries)))
                   (file (gemini-companion-history-list--file (car entries)))
                   (bytes (if undone (cdr undone) before))
                   (current (gemini-companion-history-list--read (car entries))))
        (cond ((memq 'unreadable (cons bytes (mapcar #'gemini-companion-history-before entries)))
               (format "The previous contents of %s are not known" file))
              ((equal current bytes)
               (format "%s is already as it was before the %s" file (if undone "undo" "change")))
              (t `(,bytes ,current . ,entries))))
    (error (gemini-companion-ui-error-text error))))

(defun gemini-companion-history-list--run (step)
  "Restore the file of STEP, see `gemini-companion-history-list--step'.
Return its changes, and others of the file that this undoes or makes again, too."
  (pcase-let* ((`(,bytes ,current . ,entries) step)
               (oldest (car (last entries)))
               (file (gemini-companion-history-target oldest))
               (all (seq-filter (lambda (entry)
                                  (equal file (gemini-companion-history-target entry)))
                                (gemini-companion-history-all))))
    (gemini-companion-history-list--replace (car entries) current bytes)
    (if (gemini-companion-history-undone oldest)
        (dolist (entry all)
          (let ((text (gemini-companion-history-before (car entries))))
            ;; It was undone with the later one.
            (when (and text (eq text (cdr (gemini-companion-history-undone entry))))
              (push entry entries))))
      (setq entries (cl-loop for entry in all
                             if (gemini-companion-history-made-p entry) collect entry
                             until (eq entry oldest))))
    (dolist (entry entries entries)
      (if (gemini-companion-history-undone entry) (gemini-companion-history-note-redone entry)
        (gemini-companion-history-note-undone entry current)
        ;; As if they were undone one after another, so that each can be made again.
        (setq current (gemini-companion-history-before entry))))))

(defun gemini-companion-history-list--read (entry)
  "Return the bytes that the file of ENTRY contains now, nil if there is none.
Signal a `user-error' if it cannot be read, or if its name leads elsewhere."
  (gemini-companion-history-list--access
   entry
   (lambda (path)
     (let ((host (gemini-companion-history-host entry))
           (file (gemini-companion-history-list--file entry)))
       (cond
        ;; A program may have replaced a directory by a link, to have another file written.
        ((gemini-companion-history-moved-p entry)
         (user-error "%s now leads to another file" file))
        ((not (file-exists-p path)) nil)
        ((if host
             (and (file-regular-p path) (gemini-companion-file-read-as-named path))
           (gemini-companion-file-read path)))
        (t (user-error "%s cannot be read" file)))))))

(defun gemini-companion-history-list--access (entry function)
  "Return the value of FUNCTION, called with the name of the file of ENTRY.
No file name handler is called, but on a host that of Tramp."
  (let* ((path (gemini-companion-history-path entry))
         (host (gemini-companion-history-host entry))
         (served (and host (gemini-companion-host-named host))))
    (if (not host)
        (let ((file-name-handler-alist nil)) (funcall function path))
      (when (and served (gemini-companion-host-lost served)) ; Tramp would wait for it
        (user-error "The connection to %s is lost; try again when it is back"
                    (gemini-companion-host-title host)))
      (require 'tramp)
      (let ((remote-file-name-inhibit-cache (current-time)) ; it may just have been written
            (file-name-handler-alist (seq-filter (lambda (handler)
                                                   (eq (cdr handler) 'tramp-file-name-handler))
                                                 file-name-handler-alist)))
        ;; The client has chosen the name.
        (unless (and (equal (file-remote-p path) (file-remote-p (concat host "/")))
                     (equal (file-local-name path) (string-remove-prefix host path)))
          (user-error "Tramp would take the name of %s for another file"
                      (gemini-companion-history-list--file entry)))
        (funcall function path)))))

(defun gemini-companion-history-list--ask (question)
  "Signal a `user-error' unless the user says yes to QUESTION."
  (unless (gemini-companion-ui-y-or-n-p question)
    (user-error "Left as it is")))

(defun gemini-companion-history-list--question (steps faults)
  "Return the question before STEPS are run, with remarks, and FAULTS of others."
  (let* ((entries (seq-mapcat #'cddr steps))
         (several (cdr entries))
         (file (gemini-companion-history-list--file (car entries)))
         (remarks (mapconcat (lambda (remark) (concat remark ".  "))
                             (append faults
                                     (seq-mapcat (lambda (step)
                                                   (gemini-companion-history-list--remarks
                                                    step several))
                                                 steps))
                             "")))
    (cond (several
           (format "%s: %s.  %sUndo them? "
                   (gemini-companion-ui-count (length entries) "change")
                   (mapconcat (pcase-lambda (`(,bytes ,_ ,entry . ,_))
                                (concat (gemini-companion-review-name-in-project
                                         (gemini-companion-history-path entry)
                                         (gemini-companion-history-host entry))
                                        (unless bytes " (will be deleted)")))
                              steps ", ")
                   remarks))
          ((gemini-companion-history-undone (car entries))
           (format "%sMake the change to %s again? " remarks file))
          (t (format "%sUndo the change to %s? " remarks file)))))

(defun gemini-companion-history-list--remarks (step several)
  "Return sentences that the user should read before STEP is run.
If it is one of SEVERAL, they are few, so that all can be read."
  (pcase-let* ((`(,bytes ,current . ,entries) step)
               ((cl-struct gemini-companion-history-entry path after outcome) (car entries))
               (file (gemini-companion-history-list--file (car entries)))
               ;; The user may have edited the file between two changes, too.
               (warning (cl-loop for text = current then (gemini-companion-history-before entry)
                                 for entry in entries
                                 thereis (gemini-companion-history-list--warning entry text))))
    (delq nil
          (list (and warning (concat file " " warning))
                (and (not several) (eq outcome 'unreviewed)
                     (format "Only the CLI knows what %s contained before; this changes it by %s"
                             file
                             (gemini-companion-change-size
                              (gemini-companion-change-of
                               path current
                               (gemini-companion-change-decode path (or bytes "") after)))))
                (and (not several) (not bytes)
                     (format "This deletes %s" file))))))

(defun gemini-companion-history-list--warning (entry current)
  "Return a warning unless CURRENT is what the change of ENTRY, or its undo, left."
  (pcase-let (((cl-struct gemini-companion-history-entry path before after outcome) entry))
    (cond ((if (eq outcome 'undone) (equal current before) ; nil for a new file
             (and current (gemini-companion-file-text-p path current after)))
           nil)
          ((not current) "is gone")
          (t "has changed since then; you would lose later changes, too"))))

(defun gemini-companion-history-list--replace (entry current bytes)
  "Write BYTES to the file of ENTRY if it still contains CURRENT."
  (unless (equal (gemini-companion-history-list--read entry) current)
    (user-error "%s has just been written; left as it is"
                (gemini-companion-history-list--file entry)))
  (gemini-companion-history-list--access
   entry
   (lambda (path)
     (gemini-companion-file-write path bytes)
     (when (gemini-companion-history-host entry)
       ;; Its buffer takes it from there.
       (gemini-companion-file-note
        path bytes (format-time-string "written by Emacs at %s.%N")
        (and bytes (time-convert (file-attribute-modification-time (file-attributes path))
                                 'integer)))))))

(defun gemini-companion-history-list--finish (entries done &optional faults)
  "Update buffers after the changes of ENTRIES were DONE, a word; tell the user.
FAULTS are texts about others."
  (let ((rests (mapcar (lambda (entry) (gemini-companion-history-list--revert entry done))
                       entries)))
    (gemini-companion-log-run-hook 'gemini-companion-review-change-hook)
    (when-let* ((diff (get-buffer gemini-companion-history-list--diff-buffer)))
      (with-current-buffer diff
        (gemini-companion-history-list--show-header)))
    (message "%s %s"
             (if (cdr entries) (gemini-companion-ui-count (length entries) "change")
               (concat "Change to " (gemini-companion-history-list--file (car entries))))
             ;; Several changes may be of one file.
             (string-join (cons done (append (delete-dups (delq nil rests)) faults)) "; "))))

(defun gemini-companion-history-list--revert (entry done)
  "Log that the change of ENTRY was DONE, a word, and revert its buffer.
Return how the buffer still differs from the file, as text for the user."
  (let ((path (gemini-companion-history-path entry)))
    (gemini-companion-log-add "change to %s %s" path done)
    (when-let* ((buffer (gemini-companion-write-revert-now path)))
      (format (if (buffer-modified-p buffer) "unsaved edits in %s are kept"
                "the buffer %s keeps its text")
              (buffer-name buffer)))))

;;;; Writing an accepted change

(defun gemini-companion-history-list-write (entry)
  "Write the text of ENTRY, on the current line or in this buffer, to its file.
Ask first.  Use this if the client did not write a change that you accepted,
or wrote it without your edits."
  (interactive (list (gemini-companion-history-list--entry))
               gemini-companion-history-list-mode gemini-companion-history-diff-mode)
  (unless (memq (gemini-companion-history-outcome entry)
                '(accepted accepted-there unwritten unreviewed))
    (gemini-companion-history-list--refuse entry "write"))
  (pcase-let (((cl-struct gemini-companion-history-entry path before after) entry)
              (file (gemini-companion-history-list--file entry))
              (current (gemini-companion-history-list--read entry)))
    (when (and current (gemini-companion-file-text-p path current after))
      (user-error "%s already has this text" file))
    (gemini-companion-history-list--ask
     (concat (and (not (member current (list nil before)))
                  (format "%s %s.  " file (gemini-companion-history-list--warning entry current)))
             (and current
                  (gemini-companion-change-recoded (gemini-companion-change-of path current after))
                  (format "%s is not in UTF-8, but will be.  " file))
             (format "Write the text of this change to %s? " file)))
    (gemini-companion-history-list--replace
     entry current (gemini-companion-file-encode after before))
    (gemini-companion-history-note-written entry)
    (gemini-companion-history-list--finish (list entry) "written")))

(provide 'gemini-companion-history-list)
;;; gemini-companion-history-list.el ends here

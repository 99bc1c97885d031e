;;; gemini-companion-review-list.el --- Lists of open and of decided changes -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Two lists: of the changes that await a decision, where each can be decided, and of those that
;; were decided, where each can be shown again and, if the client has made it, undone.
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
(require 'gemini-companion-evil)
(require 'gemini-companion-follow)
(require 'gemini-companion-history)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-texts)

(defconst gemini-companion-review-list--pace 5
  "Seconds after which the list of open changes is printed anew, for their age.")

(defconst gemini-companion-review-list--max-compared 4000000
  "Size in characters of both texts beyond which no lines are counted.")

(defconst gemini-companion-review-list--file-width 30
  "Width of the column of files.")

(defvar gemini-companion-review-list--known (make-hash-table :test #'eq :weakness 'key)
  "What was found out about a review or an entry, lists (WHAT VERSION VALUE).")

;;;; The list of open changes

(defvar gemini-companion-review-list-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'gemini-companion-review-list-visit)
    (define-key map (kbd "a") #'gemini-companion-review-list-accept)
    (define-key map (kbd "r") #'gemini-companion-review-list-reject)
    (define-key map (kbd "k") #'gemini-companion-review-list-reject)
    (define-key map (kbd "h") #'gemini-companion-review-history)
    map)
  "Keys in the list of open changes.")

(define-derived-mode gemini-companion-review-list-mode tabulated-list-mode "Gemini-Reviews"
  "Major mode for the list of changes that await your decision.
\\{gemini-companion-review-list-mode-map}"
  :interactive nil
  (gemini-companion-evil-keep-keys 'gemini-companion-review-list-mode)
  (setq tabulated-list-format
        `[("File" ,gemini-companion-review-list--file-width t)
          ("Client" 10 t)
          ("Age" 6 ,(gemini-companion-review-list--younger #'gemini-companion-review-created)
           :right-align t)
          ("Change" 11 nil)
          ("State" 0 t)]
        tabulated-list-entries #'gemini-companion-review-list--lines)
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
                  (vector (gemini-companion-review-list--file-name
                           review (gemini-companion-review-path review))
                          (gemini-companion-log-one-line
                           (gemini-companion-review-client review))
                          (gemini-companion-log-duration
                           (float-time
                            (time-since (gemini-companion-review-created review))))
                          (gemini-companion-review-list--change-of-review review)
                          (gemini-companion-review-list--state review))))
          (gemini-companion-review-list-open)))

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

(defun gemini-companion-review-list--change-of-review (review)
  "Return the size of the change that REVIEW proposes, as it now reads."
  (let ((proposal (gemini-companion-review-proposal review))
        (path (gemini-companion-review-path review)))
    (gemini-companion-review-list--remember
     review 'change
     (if (buffer-live-p proposal)
         (buffer-chars-modified-tick proposal)
       (gemini-companion-review-text review))
     (lambda ()
       (gemini-companion-review-list--change
        path
        (or (gemini-companion-review-base review)
            (and (gemini-companion-review-stamp review) 'unreadable))
        (gemini-companion-review-current-text review))))))

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

(defun gemini-companion-review-list-reject (review)
  "Reject REVIEW, the one on the current line; the file stays as it is."
  (interactive (list (gemini-companion-review-list--review))
               gemini-companion-review-list-mode)
  (gemini-companion-review-reject review))

;;;; The history

(defconst gemini-companion-review-list--outcomes
  '((accepted . "accepted")
    (rejected . "rejected")
    (closed . "in the client")
    (withdrawn . "withdrawn")
    (undone . "undone"))
  "Outcomes, and what the history calls them.")

(defvar gemini-companion-review-history-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'gemini-companion-review-history-show)
    (define-key map (kbd "u") #'gemini-companion-review-history-undo)
    (define-key map (kbd "w") #'gemini-companion-review-history-write)
    map)
  "Keys in the history of changes.")

(define-derived-mode gemini-companion-review-history-mode tabulated-list-mode "Gemini-History"
  "Major mode for the history of changes that were decided.
\\{gemini-companion-review-history-mode-map}"
  :interactive nil
  (gemini-companion-evil-keep-keys 'gemini-companion-review-history-mode)
  (setq tabulated-list-format
        `[("Time" 14 ,(gemini-companion-review-list--younger #'gemini-companion-history-time))
          ("Outcome" 13 t)
          ("File" ,gemini-companion-review-list--file-width t)
          ("Client" 10 t)
          ("Change" 0 nil)]
        tabulated-list-entries #'gemini-companion-review-list--history-lines)
  (gemini-companion-review-list--follow))

;;;###autoload
(defun gemini-companion-review-history ()
  "List the changes that were decided, the newest first.
They can be shown again, and undone."
  (interactive)
  (gemini-companion-review-list--pop-to "*gemini history*"
                                        #'gemini-companion-review-history-mode))

(defun gemini-companion-review-list--history-lines ()
  "Return what the history shows, for `tabulated-list-entries'."
  (mapcar (lambda (entry)
            (list entry
                  (vector (format-time-string "%m-%d %T" (gemini-companion-history-time entry))
                          (gemini-companion-review-list--outcome entry)
                          (gemini-companion-review-list--file-name
                           entry (gemini-companion-history-path entry))
                          (gemini-companion-log-one-line
                           (gemini-companion-history-client entry))
                          (gemini-companion-review-list--change-of-entry entry))))
          (gemini-companion-history-list)))

(defun gemini-companion-review-list--outcome (entry)
  "Return the outcome of ENTRY in words."
  (alist-get (gemini-companion-history-outcome entry) gemini-companion-review-list--outcomes))

(defun gemini-companion-review-list--change-of-entry (entry)
  "Return the size of the change of ENTRY."
  (gemini-companion-review-list--remember
   entry 'change nil
   (lambda ()
     (gemini-companion-review-list--change (gemini-companion-history-path entry)
                                           (gemini-companion-history-before entry)
                                           (gemini-companion-history-after entry)))))

(defun gemini-companion-review-list--entry-file (entry)
  "Return the name of the file of ENTRY without its directory, in one line."
  (gemini-companion-log-one-line
   (file-name-nondirectory (gemini-companion-history-path entry))))

;;;; Before and after

(defvar gemini-companion-review-diff-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "n") #'diff-hunk-next)
    (define-key map (kbd "p") #'diff-hunk-prev)
    map)
  "Keys where a change of the history is shown.")

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
  (interactive (list (gemini-companion-review-list--at-point))
               gemini-companion-review-history-mode)
  (let* ((path (gemini-companion-history-path entry))
         (before (gemini-companion-history-before entry))
         (name (gemini-companion-log-one-line path))
         (text (gemini-companion-compare-diff
                (gemini-companion-review-list--decode path before
                                                      (gemini-companion-history-after entry))
                (gemini-companion-history-after entry))))
    (pop-to-buffer (get-buffer-create "*gemini change*"))
    (gemini-companion-review-diff-mode)
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
    (setq header-line-format
          (string-replace "%" "%%" (gemini-companion-review-list--title entry)))))

(defun gemini-companion-review-list--title (entry)
  "Return one line that says what became of ENTRY."
  (format " %s  %s, %s, %s"
          (gemini-companion-review-list--entry-file entry)
          (gemini-companion-log-one-line (gemini-companion-history-client entry))
          (gemini-companion-review-list--outcome entry)
          (format-time-string "%F %T" (gemini-companion-history-time entry))))

;;;; Undo

(defun gemini-companion-review-history-undo (entry)
  "Undo the change of ENTRY, the one on the current line; ask first.
The file gets the bytes that it had before.  If the change was undone
already, make it again."
  (interactive (list (gemini-companion-review-list--at-point))
               gemini-companion-review-history-mode)
  (let* ((file-name-handler-alist nil)
         (path (gemini-companion-history-path entry))
         (undone (eq (gemini-companion-history-outcome entry) 'undone))
         (bytes (if undone
                    (cdr (gemini-companion-history-undone entry))
                  (gemini-companion-history-before entry)))
         (current (gemini-companion-history-read path)))
    (gemini-companion-review-list--check-undo entry bytes current)
    (gemini-companion-review-list--replace
     entry current bytes (gemini-companion-review-list--question entry bytes current))
    (if undone
        (gemini-companion-history-note-redone entry)
      (gemini-companion-history-note-undone entry current))
    (gemini-companion-review-list--say-done entry (if undone "made again" "undone"))))

(defun gemini-companion-review-list--replace (entry current bytes question)
  "Ask QUESTION, then give the file of ENTRY BYTES in place of CURRENT."
  (let ((path (gemini-companion-history-path entry)))
    (unless (y-or-n-p question)
      (user-error "Left as it is"))
    (unless (equal (gemini-companion-history-read path) current)
      (user-error "%s was written just now; left as it is"
                  (gemini-companion-review-list--entry-file entry)))
    (gemini-companion-history-write path bytes)))

(defun gemini-companion-review-list--say-done (entry done)
  "The change of ENTRY is DONE, a word: tell the user, and show it."
  (let ((path (gemini-companion-history-path entry)))
    (gemini-companion-log-add "change of %s %s" path done)
    (when (derived-mode-p 'gemini-companion-review-history-mode)
      (gemini-companion-review-list--print))
    (let ((buffer (gemini-companion-follow-now path)))
      (message "Change of %s %s%s"
               (gemini-companion-review-list--entry-file entry)
               done
               (cond ((not buffer) "")
                     ((buffer-modified-p buffer)
                      (format "; unsaved edits in %s are kept" (buffer-name buffer)))
                     (t (format "; %s still has the text" (buffer-name buffer))))))))

(defun gemini-companion-review-list--check-undo (entry bytes current)
  "Signal a `user-error' if the file of ENTRY cannot or need not get BYTES.
CURRENT are the bytes it has now."
  (let ((file (gemini-companion-review-list--entry-file entry))
        (outcome (gemini-companion-history-outcome entry)))
    (cond ((memq outcome '(rejected withdrawn))
           (user-error "Nothing to undo: the change of %s was %s" file outcome))
          ((eq bytes 'unreadable)
           (user-error "What %s was before is not known" file))
          ((and (not current) (file-exists-p (gemini-companion-history-path entry)))
           (user-error "%s cannot be read" file))
          ((not (equal current bytes)))
          ((eq outcome 'undone)
           (user-error "%s is as it was before the undo already" file))
          (t (user-error "%s is as it was before the change already" file)))))

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

;;;; Accepted, and not written

(defun gemini-companion-review-history-write (entry)
  "Write the text of ENTRY, the one on the current line, to its file; ask first.
For a change that you accepted and its client did not write, or not with
your edits."
  (interactive (list (gemini-companion-review-list--at-point))
               gemini-companion-review-history-mode)
  (let* ((file-name-handler-alist nil)
         (path (gemini-companion-history-path entry))
         (text (gemini-companion-history-after entry))
         (current (gemini-companion-history-read path)))
    (gemini-companion-review-list--check-write entry current)
    (gemini-companion-review-list--replace
     entry current
     (gemini-companion-history-encode text (gemini-companion-history-before entry))
     (format (if current
                 "Write the text of this change to %s, in place of what is there? "
               "Write the text of this change to %s? ")
             (gemini-companion-review-list--entry-file entry)))
    (gemini-companion-review-list--say-done entry "written")))

(defun gemini-companion-review-list--check-write (entry current)
  "Signal a `user-error' if the text of ENTRY cannot or need not be written.
CURRENT are the bytes that its file has now."
  (let ((path (gemini-companion-history-path entry))
        (file (gemini-companion-review-list--entry-file entry))
        (outcome (gemini-companion-history-outcome entry)))
    (cond ((not (memq outcome '(accepted closed)))
           (user-error "Nothing to write: the change of %s was %s" file outcome))
          ((and (not current) (file-exists-p path))
           (user-error "%s cannot be read" file))
          ((gemini-companion-history-written-p path (gemini-companion-history-after entry))
           (user-error "%s has this text already" file)))))

;;;; Both lists

(defun gemini-companion-review-list--pop-to (name mode)
  "Show the list in the buffer NAME, of the major mode MODE."
  (pop-to-buffer (get-buffer-create name))
  (unless (derived-mode-p mode) (funcall mode))
  (gemini-companion-review-list--print))

(defun gemini-companion-review-list--follow (&optional seconds)
  "Set up the current list, and print it anew when reviews come or go.
With SECONDS do so after that time, too, if it is on screen."
  (tabulated-list-init-header)
  (setq-local revert-buffer-function
              (lambda (&rest _) (gemini-companion-review-list--print)))
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
    (tabulated-list-print)
    (goto-char (gemini-companion-review-list--position place))
    (pcase-dolist (`(,window . ,place) places)
      (set-window-point window (gemini-companion-review-list--position place)))))

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
      (while (not (or (eobp) (eq (tabulated-list-get-id) id)))
        (forward-line))
      (when (eobp)
        (goto-char (point-min))
        (forward-line (1- line))
        (when (and (eobp) (not (bobp)) id)
          (forward-line -1)))
      (min (+ (point) column) (line-end-position)))))

(defun gemini-companion-review-list--at-point ()
  "Return the review or the entry on the current line."
  (or (tabulated-list-get-id)
      (user-error "No change on this line")))

(defun gemini-companion-review-list--younger (time)
  "Return a function that sorts lines: the younger first.
TIME is a function that returns the time of what is listed."
  (lambda (one other)
    (time-less-p (funcall time (car other)) (funcall time (car one)))))

(defun gemini-companion-review-list--file-name (object path)
  "Return PATH, that of OBJECT, as seen from its project or home.
If that is too long, it has the end."
  (gemini-companion-review-list--remember
   object 'name nil
   (lambda ()
     (let* ((name (gemini-companion-log-one-line
                   (gemini-companion-review-list--abbreviate path)))
            (room gemini-companion-review-list--file-width)
            (width (string-width name)))
       (propertize (if (<= width room)
                       name
                     (concat "…" (truncate-string-to-width name width (- width room -1))))
                   'help-echo (gemini-companion-log-one-line path))))))

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

(defun gemini-companion-review-list--change (path before after)
  "Return in words how much the text AFTER differs from the bytes BEFORE.
They are of the file PATH, nil if there is none, `unreadable' if they are
not known."
  (let ((new (if before "" "new, ")))
    (cond ((eq before 'unreadable) "?")
          ((> (+ (length before) (length after)) gemini-companion-review-list--max-compared)
           (concat new "large"))
          (t
           (pcase (gemini-companion-log-errors "diff"
                    (gemini-companion-compare-count
                     (gemini-companion-review-list--decode path before after) after))
             ('nil (concat new "?"))
             (`(0 0 ,_) (if before "none" "new, empty"))
             (`(,added ,removed ,_)
              (if before (format "+%d -%d" added removed)
                (format "new, +%d" added))))))))

(defun gemini-companion-review-list--decode (path before after)
  "Return the bytes BEFORE of the file PATH as text to be compared with AFTER.
If they are not bytes, return an empty text."
  (if (stringp before)
      (gemini-companion-compare-text path before after)
    ""))

(provide 'gemini-companion-review-list)
;;; gemini-companion-review-list.el ends here

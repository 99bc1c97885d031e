;;; gemini-companion-review-list.el --- The list of open changes -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Lists the changes that await a decision.  The second half of this file is for the lists of
;; decided changes and of CLIs, too.  They are updated when reviews change, while point stays where
;; it is.  Their columns fit the contents and the windows.  The header line shows the keys that work
;; on the current line, so the names of the columns are in the text.

;;; Code:

(require 'cl-lib)
(require 'tabulated-list)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-review-commands)
(require 'gemini-companion-review-popup)
(require 'gemini-companion-ui)

(declare-function gemini-companion-cli-compose-reject "gemini-companion-cli-compose")

(defvar-local gemini-companion-review-list-columns nil
  "Columns of the current list, each (NAME SORT PROPERTY...).
This is like `tabulated-list-format', but without widths.  The column with
the property :shrink has names, which get the width that the others leave.")

(defvar-local gemini-companion-review-list-entries-function nil
  "Function that returns the value of `tabulated-list-entries' for the list.")

(defvar-local gemini-companion-review-list-keys-function nil
  "Function that returns the keys that work on the current line of the list.
Its value is an argument for `gemini-companion-review-list-header'.")

;;;; The list of open changes

(defvar gemini-companion-review-list--interval 5
  "Seconds between updates of the list, which shows the age of changes.")

(define-derived-mode gemini-companion-review-list-mode tabulated-list-mode "Gemini-Changes"
  "Major mode for the list of changes that wait for your decision.

\\{gemini-companion-review-list-mode-map}"
  :interactive nil
  (setq gemini-companion-review-list-columns
        `(("File" t :shrink t)
          ("Client" t)
          ("Age" ,(gemini-companion-review-list-by-time #'gemini-companion-review-created)
           :right-align t)
          ("Change" nil)
          ("State" t))
        gemini-companion-review-list-entries-function #'gemini-companion-review-list--entries
        gemini-companion-review-list-keys-function #'gemini-companion-review-list--keys)
  (gemini-companion-review-list-set-up gemini-companion-review-list--interval))

(gemini-companion-ui-bind gemini-companion-review-list-mode-map
  ("RET" "<mouse-2>") #'gemini-companion-review-list-visit
  "a" #'gemini-companion-review-list-accept
  ;; The header line shows the last one.
  ("k" "r") #'gemini-companion-review-list-reject
  "h" 'gemini-companion-history-list)

;;;###autoload
(defun gemini-companion-review-list ()
  "List the changes that wait for your decision."
  (interactive)
  (gemini-companion-review-list-pop-to "*gemini changes*"
                                       #'gemini-companion-review-list-mode))

(defun gemini-companion-review-list-visit (review)
  "Show and select the change on the current line, REVIEW."
  (interactive (list (gemini-companion-review-list--review)) gemini-companion-review-list-mode)
  (gemini-companion-review-visit review))

(defun gemini-companion-review-list-accept (review)
  "Accept the change on the current line, REVIEW.
The client then writes the file.  If you have not seen the change yet, show
it instead.  If accepting it would lose something, ask first."
  (interactive (list (gemini-companion-review-list--review)) gemini-companion-review-list-mode)
  (gemini-companion-review-commands-check-early review)
  (gemini-companion-review-commands-accept review))

(defun gemini-companion-review-list-reject (review &optional with-reason)
  "Reject the change on the current line, REVIEW; the file stays as it is.
For WITH-REASON, interactively the prefix argument, see
`gemini-companion-reject'."
  (interactive (list (gemini-companion-review-list--review) current-prefix-arg)
               gemini-companion-review-list-mode)
  (if with-reason
      (gemini-companion-cli-compose-reject review)
    (gemini-companion-review-reject review)))

(defun gemini-companion-review-list--review ()
  "Return the open review on the current line."
  (gemini-companion-review-check-open (gemini-companion-review-list-at-point)))

(defun gemini-companion-review-list--entries ()
  "Return the open reviews for `tabulated-list-entries'."
  (mapcar (pcase-lambda ((and review (cl-struct gemini-companion-review path host client created)))
            (list review
                  (vector (gemini-companion-review-list-link path host "show this change")
                          (gemini-companion-ui-one-line client)
                          (gemini-companion-ui-duration (float-time (time-since created)))
                          (gemini-companion-review-list-size
                           (gemini-companion-review-effect-change review))
                          (gemini-companion-review-list--state review))))
          (gemini-companion-review-all-open)))

(defun gemini-companion-review-list--state (review)
  "Return where REVIEW is and what accepting it would lose, as text for the user."
  (concat (propertize (gemini-companion-review-popup-state review)
                      'face (and (eq (gemini-companion-review-state review) 'failed) 'error))
          (pcase (gemini-companion-review-effect-conflict review)
            ('unsaved (propertize ", unsaved edits" 'face 'warning))
            ('changed (propertize ", changed on disk" 'face 'warning))
            ('deleted (propertize ", deleted on disk" 'face 'warning)))))

(defun gemini-companion-review-list--keys ()
  "Return the keys that work on the current line of the list of open changes."
  `(,(unless (gemini-companion-review-all-open) "No change awaits your decision")
    ,@(when (tabulated-list-get-id)
        '((gemini-companion-review-list-visit . "show")
          (gemini-companion-review-list-accept . "accept")
          (gemini-companion-review-list-reject . "reject")))
    (gemini-companion-history-list . "history")
    (quit-window . "quit")))

;;;; Showing and updating a list

(defvar-local gemini-companion-review-list--moved-at 0
  "The time at which lines came, went or moved without a command.")

(defun gemini-companion-review-list-pop-to (name mode)
  "Show the list in the buffer NAME, in the major mode MODE.
Unless it is on screen, go to the first line."
  (let ((shown (get-buffer-window name 'visible)))
    (gemini-companion-ui-pop-to name mode)
    (gemini-companion-review-list-print)
    (setq gemini-companion-review-list--moved-at 0)
    (unless (and shown (tabulated-list-get-id))
      (goto-char (or (text-property-not-all (point-min) (point-max) 'tabulated-list-entry nil)
                     (point-max)))
      (gemini-companion-review-list--show-keys))))

(defun gemini-companion-review-list-set-up (&optional seconds hook)
  "Set up the current list, and update it when reviews or its windows change.
While it is on screen, also update it every SECONDS, and when HOOK is run."
  (setq-local revert-buffer-function (lambda (&rest _) (gemini-companion-review-list-print))
              tabulated-list-use-header-line nil)
  ;; Because of them, Emacs would shift the names of columns, which are not in the header line.
  (gemini-companion-ui-omit-line-numbers)
  (gemini-companion-ui-keep-keys major-mode)
  (add-hook 'post-command-hook #'gemini-companion-review-list--show-keys nil t)
  ;; This is run also when another buffer was in the window.
  (add-hook 'window-size-change-functions
            (gemini-companion-ui-keep-current
             (lambda ()
               (gemini-companion-log-errors "list of changes"
                 (gemini-companion-review-list-print)))
             `(gemini-companion-review-change-hook ,@(and hook (list hook)))
             seconds)
            nil t))

(defun gemini-companion-review-list-print ()
  "Update the current list.  Point stays on its line, in each window."
  (let ((ids (mapcar #'car tabulated-list-entries)))
    (gemini-companion-ui-keep-subject
     ;; `tabulated-list-print' can keep point too, but not in other windows.
     'tabulated-list-id
     (lambda ()
       (gemini-companion-review-list--lay-out
        (funcall gemini-companion-review-list-entries-function))
       (tabulated-list-print)))
    ;; A line that was added at the end, but not to an empty list, has moved no other.
    (unless (or this-command
                (equal ids (seq-take (mapcar #'car tabulated-list-entries) (max 1 (length ids)))))
      (setq gemini-companion-review-list--moved-at (float-time))))
  (gemini-companion-review-list--show-keys))

;;;; The current line

(defun gemini-companion-review-list-at-point (&optional kind)
  "Return the id of the current line, or of the line that was clicked.
Signal a `user-error' if it may be another one than the user has seen, or if
there is none; KIND is what it would be, by default a change."
  (when (gemini-companion-ui-recent-p gemini-companion-review-list--moved-at
                                      gemini-companion-ui-reaction-time)
    (user-error "The list has just changed; look, and try again"))
  (when (mouse-event-p last-input-event)
    (let ((position (event-end last-input-event)))
      ;; Not if it was on the mode line, for example.
      (unless (posn-area position)
        (posn-set-point position))))
  (or (tabulated-list-get-id)
      (user-error "No %s on this line" (or kind "change"))))

(defun gemini-companion-review-list--show-keys ()
  "Show in the header line which keys work on the current line."
  (gemini-companion-log-errors "keys of a list"
    (setq header-line-format (gemini-companion-review-list-header
                              (funcall gemini-companion-review-list-keys-function)))))

(defun gemini-companion-review-list-header (keys)
  "Return a value of `header-line-format' that shows KEYS.
KEYS are strings, nil, which is ignored, and commands as (COMMAND . LABEL)."
  (concat " " (mapconcat (lambda (it)
                           (if (stringp it)
                               (string-replace "%" "%%" it)
                             (gemini-companion-ui-header-key (car it) (cdr it))))
                         (delq nil keys) "  ")))

;;;; The contents of columns

(defun gemini-companion-review-list-by-time (time)
  "Return a predicate that sorts the entries of a list, the newest first.
TIME is a function that returns the time of an id."
  (lambda (one other)
    (time-less-p (funcall time (car other)) (funcall time (car one)))))

(defun gemini-companion-review-list-size (change)
  "Return the size of CHANGE, and whether it creates the file."
  (concat (and (gemini-companion-change-new change) "new, ")
          (gemini-companion-change-size change)))

(defun gemini-companion-review-list-link (path host action)
  "Return the name of the file PATH as a link; ACTION says what a click does.
HOST is the prefix of the host that it is on, or nil."
  (propertize (gemini-companion-review-name-in-project path host t)
              'mouse-face 'highlight
              'help-echo (format "%s\nmouse-1, RET: %s"
                                 (gemini-companion-ui-one-line path) action)))

;;;; The width of columns

(defun gemini-companion-review-list-width ()
  "Return the width in characters of the narrowest window of the current buffer."
  (let ((windows (or (get-buffer-window-list nil nil 'visible) (list (selected-window)))))
    ;; This selects each window, and so moves point there.
    (save-excursion
      (apply #'min (mapcar #'window-max-chars-per-line windows)))))

(defun gemini-companion-review-list--lay-out (entries)
  "Make the current list show ENTRIES, with columns that fit its windows."
  (let* ((columns gemini-companion-review-list-columns)
         (file (cl-position-if (lambda (column) (plist-get (nthcdr 2 column) :shrink)) columns))
         (widths (gemini-companion-review-list--widths entries file)))
    (pcase-dolist (`(,_ ,cells) entries)
      (cl-callf gemini-companion-ui-shorten (aref cells file) (nth file widths)))
    (setq tabulated-list-entries entries
          tabulated-list-format
          (vconcat (cl-mapcar (pcase-lambda (`(,name . ,rest) width)
                                (cons name (cons width rest)))
                              ;; The last column takes the remaining width.
                              columns (append (butlast widths) '(0))))))
  (tabulated-list-init-header))

(defun gemini-companion-review-list--widths (entries file)
  "Return the widths of the columns of ENTRIES.
Names of files, in the column FILE, get what the others leave."
  (let* ((available (gemini-companion-review-list-width))
         (most (max 10 (min 26 (/ available 4))))
         (widths (cl-loop for (name sort) in gemini-companion-review-list-columns
                          for index from 0
                          for widest = (cl-loop for (_ cells) in entries
                                                maximize (string-width (aref cells index)))
                          ;; The name of a column that can be sorted has a mark after it.
                          for width = (max (+ (string-width name) (if sort 2 0)) (or widest 0))
                          collect (if (= index file) width (min width most))))
         (excess (- (apply #'+ (1- (length widths)) widths) available)))
    (cl-callf (lambda (width) (min width (max 10 (- width excess)))) (nth file widths))
    widths))

(provide 'gemini-companion-review-list)
;;; gemini-companion-review-list.el ends here

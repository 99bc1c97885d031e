;;; gemini-companion-review-list.el --- The lists of changes, and that of open ones -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A list is printed anew when reviews change, its columns fit its content and its windows, and its
;; header line says which keys work on the current line; the names of the columns are a line of the
;; text.  Point stays where it is.

;;; Code:

(require 'cl-lib)
(require 'project)
(require 'seq)
(require 'subr-x)
(require 'tabulated-list)
(require 'gemini-companion-decide)
(require 'gemini-companion-log)
(require 'gemini-companion-queue)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)

(declare-function gemini-companion-reject-with-reason "gemini-companion-compose")

(defconst gemini-companion-review-list--widest 26
  "Columns that are kept for any but the name of a file.")

(defconst gemini-companion-review-list--shrink '(("File" . 24) ("Client" . 10) ("File" . 10))
  "What becomes narrower if there is no room for all, and how narrow, in order.")

(defvar-local gemini-companion-list-columns nil
  "The columns of the current list, each (NAME SORT PROPERTY...).
As in `tabulated-list-format', but without widths.")

(defvar-local gemini-companion-list-find nil
  "Function that returns what the current list shows, as `tabulated-list-entries'.")

(defvar-local gemini-companion-list-offer nil
  "Function that returns which keys work on the current line.
Its value is as `gemini-companion-list-keys' wants it.")

(defvar-local gemini-companion-review-list--offered nil
  "What the function `gemini-companion-list-offer' returned last.")

(defvar-local gemini-companion-review-list--printed nil
  "The width for which the current list was printed.")

(defvar gemini-companion-list-known (make-hash-table :test #'eq :weakness 'key)
  "What was found out about a review or an entry, alists.")

;;;; Lines

(defun gemini-companion-list-pop-to (name mode)
  "Show the list in the buffer NAME, of the major mode MODE."
  (pop-to-buffer (get-buffer-create name))
  (unless (derived-mode-p mode) (funcall mode))
  (gemini-companion-list-print)
  (unless (tabulated-list-get-id)
    (gemini-companion-list-goto-first)
    (gemini-companion-review-list--show-keys)))

(defun gemini-companion-list-goto-first ()
  "Go to the first change that is listed."
  (goto-char (point-min))
  (while (not (or (eobp) (tabulated-list-get-entry)))
    (forward-line)))

(defun gemini-companion-list-follow (&optional seconds)
  "Set up the current list, and print it anew when reviews come or go.
With SECONDS do so after that time, too, if it is on screen."
  (setq-local revert-buffer-function
              (lambda (&rest _) (gemini-companion-list-print))
              tabulated-list-use-header-line nil)
  (add-hook 'post-command-hook #'gemini-companion-review-list--show-keys nil t)
  (add-hook 'window-size-change-functions #'gemini-companion-review-list--resize nil t)
  (let* ((buffer (current-buffer))
         (print (lambda ()
                  (gemini-companion-log-errors "list of changes"
                    (with-current-buffer buffer (gemini-companion-list-print)))))
         (timer (and seconds
                     (run-at-time seconds seconds
                                  (lambda ()
                                    (when (get-buffer-window buffer t) (funcall print))))))
         (unfollow (lambda ()
                     (remove-hook 'gemini-companion-review-change-hook print)
                     (when timer (cancel-timer timer)))))
    (add-hook 'gemini-companion-review-change-hook print)
    (add-hook 'kill-buffer-hook unfollow nil t)
    (add-hook 'change-major-mode-hook unfollow nil t)))

(defun gemini-companion-list-print ()
  "Print the current list anew.  Point stays on its line, in each window."
  (let ((place (gemini-companion-review-list--place (point)))
        (places (mapcar (lambda (window)
                          (cons window (gemini-companion-review-list--place
                                        (window-point window))))
                        (get-buffer-window-list nil nil t))))
    (gemini-companion-review-list--lay-out (funcall gemini-companion-list-find))
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

(defun gemini-companion-list-at-point ()
  "Return what is listed on the current line, or on that which was clicked."
  (gemini-companion-list-follow-click)
  (or (tabulated-list-get-id)
      (user-error "No change on this line")))

(defun gemini-companion-list-follow-click ()
  "If a command was called by a click on text, go there."
  (when (mouse-event-p last-input-event)
    (let ((position (event-end last-input-event)))
      (unless (posn-area position)
        (posn-set-point position)))))

(defun gemini-companion-list-younger (time)
  "Return a function that sorts lines: the younger first.
TIME is a function that returns the time of what is listed."
  (lambda (one other)
    (time-less-p (funcall time (car other)) (funcall time (car one)))))

(defun gemini-companion-list-link (object path does)
  "Return the name of the file PATH, that of OBJECT, to be clicked.
DOES says what that does."
  (propertize (gemini-companion-list-name object path)
              'mouse-face 'highlight
              'help-echo (format "%s\nmouse-1, RET: %s"
                                 (gemini-companion-ui-one-line path) does)))

(defun gemini-companion-list-name (object path)
  "Return PATH, that of OBJECT, as seen from its project or home, in one line."
  (gemini-companion-list-remember
   object 'name
   (lambda ()
     (gemini-companion-ui-one-line (gemini-companion-list-abbreviate path)))))

(defun gemini-companion-list-abbreviate (path)
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
                   (gemini-companion-list-room))
        (gemini-companion-list-print)))))

(defun gemini-companion-list-room ()
  "Return the width in characters of the narrowest window of the current buffer."
  (let ((windows (or (get-buffer-window-list nil nil 'visible) (list (selected-window)))))
    (- (apply #'min (mapcar #'window-max-chars-per-line windows))
       (if display-line-numbers (+ 2 (line-number-display-width)) 0))))

(defun gemini-companion-review-list--lay-out (lines)
  "Let the current list show LINES, with columns that fit them and its windows."
  (let* ((room (gemini-companion-list-room))
         (widths (gemini-companion-review-list--widths lines room))
         (file (seq-position gemini-companion-list-columns "File"
                             (lambda (column name) (equal (car column) name)))))
    (pcase-dolist (`(,_ ,cells) lines)
      (aset cells file (gemini-companion-review-list--end-of (aref cells file)
                                                             (nth file widths))))
    (setq gemini-companion-review-list--printed room
          tabulated-list-entries lines
          tabulated-list-format
          (vconcat (cl-mapcar (pcase-lambda (`(,name . ,rest) width)
                                (cons name (cons width rest)))
                              gemini-companion-list-columns
                              ;; The last takes what room there is.
                              (append (butlast widths) '(0))))))
  (tabulated-list-init-header))

(defun gemini-companion-review-list--widths (lines room)
  "Return the widths of the columns of LINES in a window of ROOM characters."
  (let* ((columns gemini-companion-list-columns)
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
    (let ((offer (funcall gemini-companion-list-offer)))
      (unless (equal offer gemini-companion-review-list--offered)
        (setq gemini-companion-review-list--offered offer
              header-line-format (gemini-companion-list-keys offer))))))

(defun gemini-companion-list-keys (offer)
  "Return a line that says what OFFER has, for `header-line-format'.
That is a list of texts and of commands with what they do, each (COMMAND
. LABEL); nil is passed over."
  (concat " " (mapconcat (lambda (it)
                           (if (stringp it)
                               (string-replace "%" "%%" it)
                             (gemini-companion-ui-header-key (car it) (cdr it))))
                         (delq nil offer) "  ")))

;;;; What is known of a change

(defun gemini-companion-list-remember (object what find)
  "Return WHAT is known of OBJECT.
If nothing is, let the function FIND find it out."
  (let ((known (gethash object gemini-companion-list-known)))
    (cdr (or (assq what known)
             (let ((found (cons what (funcall find))))
               (puthash object (cons found known) gemini-companion-list-known)
               found)))))

(defun gemini-companion-list-size (change)
  "Return how large CHANGE is, and whether it is a new file."
  (concat (and (gemini-companion-change-new change) "new, ")
          (gemini-companion-change-size change)))

;;;; The list of open reviews

(defconst gemini-companion-review-list--pace 5
  "Seconds after which the list of open changes is printed anew, for their age.")

(defvar gemini-companion-review-list-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'gemini-companion-review-list-visit)
    (define-key map (kbd "a") #'gemini-companion-review-list-accept)
    (define-key map (kbd "k") #'gemini-companion-review-list-reject)
    ;; The last is the one that is shown.
    (define-key map (kbd "r") #'gemini-companion-review-list-reject)
    (define-key map (kbd "h") 'gemini-companion-review-history)
    (define-key map [mouse-2] #'gemini-companion-review-list-visit)
    map)
  "Keys in the list of open changes.")

(define-derived-mode gemini-companion-review-list-mode tabulated-list-mode "Gemini-Reviews"
  "Major mode for the list of changes that await your decision.
\\{gemini-companion-review-list-mode-map}"
  :interactive nil
  (gemini-companion-ui-keep-keys 'gemini-companion-review-list-mode)
  (setq gemini-companion-list-columns
        `(("File" t)
          ("Client" t)
          ("Age" ,(gemini-companion-list-younger #'gemini-companion-review-created)
           :right-align t)
          ("Change" nil)
          ("State" t))
        gemini-companion-list-find #'gemini-companion-review-list--lines
        gemini-companion-list-offer #'gemini-companion-review-list--offer-decisions)
  (gemini-companion-list-follow gemini-companion-review-list--pace))

;;;###autoload
(defun gemini-companion-review-list ()
  "List the changes that await your decision, to show or to decide them."
  (interactive)
  (gemini-companion-list-pop-to "*gemini reviews*"
                                #'gemini-companion-review-list-mode))

(defun gemini-companion-review-list--lines ()
  "Return what the list of open changes shows, for `tabulated-list-entries'."
  (mapcar (lambda (review)
            (list review
                  (vector (gemini-companion-list-link
                           review (gemini-companion-review-path review) "show this change")
                          (gemini-companion-ui-one-line
                           (gemini-companion-review-client review))
                          (gemini-companion-ui-duration
                           (float-time
                            (time-since (gemini-companion-review-created review))))
                          (gemini-companion-list-size
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
  (concat (cond ((gemini-companion-review-hide-function review) "on screen")
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
  (let ((review (gemini-companion-list-at-point)))
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
      (gemini-companion-reject-with-reason review)
    (gemini-companion-review-reject review)))

(provide 'gemini-companion-review-list)
;;; gemini-companion-review-list.el ends here

;;; gemini-companion-test-lists.el --- The lists of changes  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Reads the lists of open and of decided changes in a batch Emacs, and presses
;; their keys.

;;; Code:

(require 'gemini-companion-test-companion)
(require 'gemini-companion-history-list)
(require 'gemini-companion-review-list)

(defvar gemini-companion-test-list-width 120
  "Width the lists are laid out for; the window of a batch Emacs has ten columns.")

(defmacro gemini-companion-test-with-lists (client &rest body)
  "Evaluate BODY with CLIENT connected and an empty history."
  (declare (indent 1) (debug (symbolp body)))
  `(let ((gemini-companion-history--entries nil))
     (cl-letf (((symbol-function 'gemini-companion-review-list-width)
                (lambda () gemini-companion-test-list-width)))
       (gemini-companion-test-with-client ,client ,@body))))

(defun gemini-companion-test-list-rows (buffer)
  "Return the lines of the list BUFFER, each a list of its columns."
  (with-current-buffer buffer
    (save-excursion
      (goto-char (point-min))
      (let (rows)
        (while (not (eobp))
          (when (tabulated-list-get-entry)
            (push (mapcar #'substring-no-properties (tabulated-list-get-entry)) rows))
          (forward-line))
        (nreverse rows)))))

(defun gemini-companion-test-list-column (buffer column)
  "Return the texts in COLUMN of the list BUFFER, counted from zero."
  (mapcar (lambda (row) (nth column row))
          (gemini-companion-test-list-rows buffer)))

(defun gemini-companion-test-list-files (buffer column)
  "Return the names of the files in COLUMN of the list BUFFER, counted from zero."
  (mapcar #'file-name-nondirectory
          (gemini-companion-test-list-column buffer column)))

(defun gemini-companion-test-list-goto (buffer number)
  "Make BUFFER current and go to its line NUMBER, counted from its header at zero."
  (set-buffer buffer)
  (goto-char (point-min))
  (forward-line number))

(defun gemini-companion-test-list-press (key)
  "Run the command of KEY in the current list, as the command loop does."
  (let ((this-command (key-binding (kbd key))))
    (call-interactively this-command)))

(defun gemini-companion-test-history-press (key number)
  "List the decided changes, and press KEY on line NUMBER, counted from one."
  (gemini-companion-history-list)
  (gemini-companion-test-list-goto "*gemini history*" number)
  (gemini-companion-test-list-press key))

(defun gemini-companion-test-accept-and-write (client name text &optional bytes)
  "Have CLIENT propose TEXT for the file NAME, accept it and write the file.
It is written with the string BYTES if given."
  (let ((review (gemini-companion-test-propose client name text)))
    (gemini-companion-review-show review 'keep)
    (cl-letf (((symbol-function 'y-or-n-p) #'always))
      (gemini-companion-review-commands-accept review))
    (gemini-companion-test-write-bytes name (or bytes (encode-coding-string text 'utf-8-unix)))
    (gemini-companion-write-stop)
    (gemini-companion-write-revert-now (gemini-companion-test-file name))))

(defun gemini-companion-test-write-bytes (name bytes)
  "Write BYTES to the file NAME of the project."
  (let ((file (gemini-companion-test-file name))
        (coding-system-for-write 'no-conversion)
        (create-lockfiles nil))
    (make-directory (file-name-directory file) t)
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (insert bytes)
      ;; Locking another name, Emacs does not ask about a buffer with edits.
      (write-region nil nil file nil 0 (concat file ".lock")))))

(defun gemini-companion-test-file-bytes (name)
  "Return the bytes of the file NAME of the project."
  (gemini-companion-test-bytes (gemini-companion-test-file name)))

(defun gemini-companion-test-list-press-newest (key answer)
  "Press KEY on the newest decided change and answer ANSWER; return the question.
If nothing was asked, return the message of the error."
  (gemini-companion-history-list)
  (gemini-companion-test-list-goto "*gemini history*" 1)
  (let (asked)
    (cl-letf (((symbol-function 'y-or-n-p)
               (lambda (question) (setq asked question) answer)))
      (condition-case error
          (gemini-companion-test-list-press key)
        (user-error (setq asked (or asked (cadr error))))))
    asked))

(defun gemini-companion-test-list-undo (answer)
  "Undo the newest change by its key, answering with ANSWER; return the question."
  (gemini-companion-test-list-press-newest "u" answer))

(defun gemini-companion-test-wait-outcome (outcome)
  "Wait until OUTCOME is what became of the newest change in the history."
  (gemini-companion-test-wait
   (format "the outcome %s" outcome)
   (lambda ()
     (eq outcome (gemini-companion-history-outcome (car (gemini-companion-history-all)))))))

(defun gemini-companion-test-list-lines (buffer)
  "Return the lines that BUFFER shows, without spaces at their ends."
  (with-current-buffer buffer
    (let ((position (point-min)) (text ""))
      (while (< position (point-max))
        (let ((next (next-single-property-change position 'display nil (point-max)))
              (shown (get-text-property position 'display))
              (column (string-width (car (last (split-string text "\n"))))))
          (setq text (concat text
                             (pcase shown
                               ((pred stringp) shown)
                               (`(space :align-to ,(and to (pred integerp)))
                                (make-string (max 0 (- to column)) ?\s))
                               (_ (buffer-substring-no-properties position next))))
                position next)))
      (mapcar #'string-trim-right (split-string text "\n" t)))))

(defun gemini-companion-test-list-keys ()
  "Return the header line of the current buffer as after a command."
  (run-hooks 'post-command-hook)
  (substring-no-properties header-line-format))

(provide 'gemini-companion-test-lists)
;;; gemini-companion-test-lists.el ends here

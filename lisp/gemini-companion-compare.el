;;; gemini-companion-compare.el --- How texts differ -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the native module finds out about texts: how two differ, line by line, what two changes of
;; one text make together; and what is worth saying about a change.  It takes bounded time, whatever
;; is in them, and needs neither a program nor a temporary file.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)

(declare-function gemini-companion--mod-diff "ext:gemini-companion-module"
                  (before after context apart) t)
(declare-function gemini-companion--mod-merge "ext:gemini-companion-module"
                  (base ours theirs) t)

(defconst gemini-companion-compare--max-counted 4000000
  "Size in characters of both texts beyond which no lines are counted.")

(defconst gemini-companion-compare--context 3
  "Lines around the changes in a diff.")

;;;; Texts

(defun gemini-companion-compare-diff (before after &optional apart)
  "Return the hunks of a unified diff from the text BEFORE to AFTER.
If APART is non-nil, changes that are near to each other do not share a
hunk."
  (gemini-companion-compare--decode
   (aref (gemini-companion--mod-diff (gemini-companion-compare--encode before)
                                     (gemini-companion-compare--encode after)
                                     gemini-companion-compare--context apart)
         3)))

(defun gemini-companion-compare-count (before after)
  "Return how many lines only the text AFTER has, only BEFORE has, and BEFORE has."
  (pcase-let ((`[,added ,removed ,total ,_]
               (gemini-companion--mod-diff (gemini-companion-compare--encode before)
                                           (gemini-companion-compare--encode after) nil nil)))
    (list added removed total)))

(defun gemini-companion-compare-merge (base ours theirs)
  "Return the text BASE with what the texts OURS and THEIRS changed of it.
If they changed the same lines, or neighbouring ones, in different ways
return the number of the first such line in THEIRS."
  (let ((merged (apply #'gemini-companion--mod-merge
                       (mapcar #'gemini-companion-compare--encode (list base ours theirs)))))
    (if (stringp merged) (gemini-companion-compare--decode merged) merged)))

(defun gemini-companion-compare--encode (text)
  "Return TEXT as bytes, which can be all that a text of Emacs can."
  (encode-coding-string text 'utf-8-emacs-unix t))

(defun gemini-companion-compare--decode (bytes)
  "Return the text of which BYTES are the encoded form."
  (decode-coding-string bytes 'utf-8-emacs-unix t))

(defun gemini-companion-compare-text (path bytes proposed)
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
     ((> (+ (length bytes) (length text)) gemini-companion-compare--max-counted)
      (setf (gemini-companion-change-large change) t))
     (t
      (let ((before (gemini-companion-compare-text path bytes text)))
        (pcase-let ((`(,added ,removed ,total) (gemini-companion-compare-count before text)))
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

(provide 'gemini-companion-compare)
;;; gemini-companion-compare.el ends here

;;; gemini-companion-history.el --- Changes that were decided -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What became of the changes that clients proposed, with the file before and the text after, so
;; that an accepted change can be looked at again and undone, byte for byte.  Kept in memory, in
;; bounded number and size.
;;
;; The functions that read and write files as bytes are here, too.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)

(defconst gemini-companion-history--max-entries 100
  "Maximum number of changes that are kept.")

(defconst gemini-companion-history--max-size (* 64 1024 1024)
  "Maximum length of all texts of the changes that are kept.")

(defvar gemini-companion-history--entries nil
  "The decided changes, the newest first.")

(cl-defstruct (gemini-companion-history-entry
               (:constructor gemini-companion-history--make)
               (:conc-name gemini-companion-history-)
               (:copier nil))
  "One decided change."
  (client nil :documentation "Name and version of the client.")
  (path nil :documentation "The absolute name of the file.")
  (time nil :documentation "When it was decided.")
  (prompt nil :documentation "The prompt that led to it, as in `gemini-companion-review'.")
  (outcome nil :documentation "`accepted', `rejected', `closed' (decided in the client),
`withdrawn' (the client has gone away), `unreviewed' (the client did not ask) or
`undone'.")
  (before nil :documentation "The contents of the file before, nil if there was none,
`unreadable' if they are not known.")
  (after nil :documentation "The text of the change when it was decided.")
  (undone nil :documentation "If undone, a cons of the outcome before that and the contents
of the file that the undo replaced, nil if there was no file."))

(cl-defun gemini-companion-history-add (&key client path outcome before after prompt)
  "Record that the change of the file PATH by CLIENT had OUTCOME.
The other arguments are as in `gemini-companion-history-entry'."
  (push (gemini-companion-history--make :client client :path path :outcome outcome
                                        :before before :after after :prompt prompt
                                        :time (current-time))
        gemini-companion-history--entries)
  (gemini-companion-history--trim))

(defun gemini-companion-history-made-p (entry)
  "Return non-nil if the change of ENTRY was made, and not undone."
  (memq (gemini-companion-history-outcome entry) '(accepted closed unreviewed)))

(defun gemini-companion-history-list ()
  "Return the decided changes, the newest first."
  (copy-sequence gemini-companion-history--entries))

(defun gemini-companion-history--trim ()
  "Remove the oldest entries beyond the limits, but never the newest."
  (let ((size 0) (count 0))
    (setq gemini-companion-history--entries
          (cl-loop for entry in gemini-companion-history--entries
                   do (setq count (1+ count)
                            size (+ size (gemini-companion-history--size entry)))
                   while (or (= count 1)
                             (and (<= count gemini-companion-history--max-entries)
                                  (<= size gemini-companion-history--max-size)))
                   collect entry))))

(defun gemini-companion-history--size (entry)
  "Return the length of all texts of ENTRY."
  (cl-loop for text in (list (gemini-companion-history-before entry)
                             (gemini-companion-history-after entry)
                             (cdr (gemini-companion-history-undone entry)))
           if (stringp text) sum (length text)))

(defun gemini-companion-history-note-undone (entry replaced)
  "Record that the change of ENTRY was undone.
REPLACED is what the file contained until then, nil if there was none."
  (setf (gemini-companion-history-undone entry)
        (cons (gemini-companion-history-outcome entry) replaced)
        (gemini-companion-history-outcome entry) 'undone)
  (gemini-companion-history--trim))

(defun gemini-companion-history-note-redone (entry)
  "Record that the change of ENTRY, which was undone, was made again."
  (setf (gemini-companion-history-outcome entry)
        (car (gemini-companion-history-undone entry))
        (gemini-companion-history-undone entry) nil))

;;;; Files

(defun gemini-companion-history-read (path)
  "Return the contents of the file PATH as bytes, nil if it cannot be read."
  (let ((file-name-handler-alist nil))
    (when (file-regular-p path)
      (with-temp-buffer
        (set-buffer-multibyte nil)
        (ignore-errors
          (insert-file-contents-literally path)
          (buffer-string))))))

(defun gemini-companion-history-write (path bytes)
  "Write BYTES to the file PATH; if they are nil, delete it.
An existing file keeps its modes, and a symbolic link is followed."
  (let ((file-name-handler-alist nil))
    (when (and (file-exists-p path) (not (file-regular-p path)))
      (error "%s is no regular file" path))
    (if (not bytes)
        (delete-file (file-truename path) t)
      (make-directory (file-name-directory path) t)
      (with-temp-buffer
        (set-buffer-multibyte nil)
        (insert bytes)
        (let ((coding-system-for-write 'no-conversion)
              (write-region-annotate-functions nil)
              (write-region-post-annotation-function nil)
              (create-lockfiles nil)
              ;; With its own name, Emacs would ask whether to edit a buffer that visits the
              ;; file, and would release the lock of one with unsaved edits.
              (lock (make-temp-name (expand-file-name "gc-" temporary-file-directory))))
          (write-region nil nil path nil 'quiet lock))))))

(defun gemini-companion-history-stamp (path)
  "Return a value that changes when the file PATH is written, nil without a file."
  (let* ((file-name-handler-alist nil)
         ;; A write changes the target of a link, not the link.
         (attributes (file-attributes (or (ignore-errors (file-truename path)) path))))
    (and attributes
         ;; Nothing else is ever opened: Emacs would wait for a FIFO.
         (file-regular-p path)
         (list (file-attribute-modification-time attributes)
               (file-attribute-size attributes)
               (file-attribute-inode-number attributes)))))

;;;; Encoding

(defun gemini-companion-history-encode (text base)
  "Return TEXT as bytes for a file that contained BASE, bytes or nil.
Line ends and a byte order mark stay as they were."
  (let* ((base (if (stringp base) base ""))
         (dos (and (string-search "\r\n" base) (not (string-search "\r" text))))
         (mark (unibyte-string #xef #xbb #xbf))
         (bytes (encode-coding-string text (if dos 'utf-8-dos 'utf-8-unix) t)))
    (if (and (string-prefix-p mark base) (not (string-prefix-p mark bytes)))
        (concat mark bytes)
      bytes)))

(defun gemini-companion-history-plain (text)
  "Return TEXT without a byte order mark, and with LF line ends."
  (string-replace "\r\n" "\n" (string-remove-prefix "\ufeff" text)))

(defun gemini-companion-history-written-p (path text)
  "Return non-nil if the file PATH contains TEXT, as a client writes it."
  (when-let* ((bytes (gemini-companion-history-read path)))
    (equal (gemini-companion-history-plain (decode-coding-string bytes 'utf-8-unix t))
           (gemini-companion-history-plain text))))

(provide 'gemini-companion-history)
;;; gemini-companion-history.el ends here

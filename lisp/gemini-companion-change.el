;;; gemini-companion-change.el --- How two texts of a file differ -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a new text changes in a file: its size and what is unusual about it, a diff, where the texts
;; differ, and a three-way merge.  The native module compares and merges: it takes bounded time
;; whatever the texts contain, and needs neither a program nor a temporary file.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)

(declare-function gemini-companion--mod-decode "ext:gemini-companion-module" (bytes unix) t)
(declare-function gemini-companion--mod-diff "ext:gemini-companion-module" (before after context) t)
(declare-function gemini-companion--mod-merge "ext:gemini-companion-module" (base ours theirs) t)
(declare-function gemini-companion--mod-regions "ext:gemini-companion-module" (a b c most) t)

;;;; Texts

(defun gemini-companion-change-decode (path bytes proposed)
  "Return BYTES, the contents of the file PATH, to be compared with PROPOSED.
For a file with CRLF line ends clients propose a text with LF, and write
CRLF again.  They read any file as UTF-8; what is not UTF-8 is decoded as
Emacs does."
  (or (gemini-companion-change--decode-utf-8 bytes proposed)
      (gemini-companion-change--guess path bytes proposed)))

(defun gemini-companion-change--decode-utf-8 (bytes proposed)
  "Return the text of BYTES, as in `gemini-companion-change-decode' for PROPOSED.
Return nil if they are not UTF-8."
  (when-let* ((text (gemini-companion--mod-decode bytes (not (string-search "\r\n" proposed)))))
    (gemini-companion-change-mark text (gemini-companion-change--marked-p bytes) proposed)))

(defun gemini-companion-change-mark (text marked proposed)
  "Return TEXT with a byte order mark if PROPOSED has one, and MARKED is non-nil.
Clients keep that of a text that they edit."
  (if (and marked (string-prefix-p "\ufeff" proposed)) (concat "\ufeff" text) text))

(defun gemini-companion-change--marked-p (bytes)
  "Return non-nil if BYTES begin with a byte order mark in UTF-8."
  (string-prefix-p (unibyte-string #xef #xbb #xbf) bytes))

(defun gemini-companion-change--guess (path bytes proposed)
  "Return the text of BYTES, of the file PATH, as Emacs decodes it.
For PROPOSED see `gemini-companion-change-decode'."
  (let* ((inhibit-eol-conversion (string-search "\r" proposed))
         ;; Emacs looks at the name, and would ask a host whether case matters there.
         (file-name-handler-alist nil)
         (buffer (find-buffer-visiting path))
         ;; The user may have chosen it by C-x RET c or C-x RET r.
         (chosen (car (and buffer (buffer-local-value 'buffer-file-coding-system-explicit buffer))))
         (coding-system-for-read (and chosen (coding-system-base chosen))))
    (with-temp-buffer
      (insert bytes)
      (decode-coding-inserted-region (point-min) (point-max) path)
      ;; Clients read all but a few bytes of it as text, and so must the user, who may keep it.
      (when (eq (coding-system-type last-coding-system-used) 'raw-text)
        (decode-coding-region (point-min) (point-max) 'utf-8-unix))
      (buffer-string))))

(defun gemini-companion-change-diff (before after)
  "Return the hunks of a unified diff from the text BEFORE to AFTER."
  (aref (gemini-companion--mod-diff before after 3) 3))

(defun gemini-companion-change-regions (a b &optional c)
  "Return where the texts A and B, and C unless that is nil, differ.
The value is a vector of at most 1000 [A-START A-END B-START B-END C-START
C-END ODD], in the order of the texts: lines counted from 0, the end
exclusive, nil for a text that is nil.  ODD is the number, from 0, of the
one text that differs from the other two there, or nil."
  (gemini-companion--mod-regions a b c 1000))

(defun gemini-companion-change-merge (base ours theirs)
  "Return the text BASE with the changes that OURS and THEIRS make to it.
If they change the same lines, or neighboring ones, in different ways,
return the number of the first such line in THEIRS."
  (gemini-companion--mod-merge base ours theirs))

;;;; Changes

(cl-defstruct (gemini-companion-change
               (:constructor gemini-companion-change--make)
               (:copier nil))
  "The effect of a new text on a file."
  (new nil :documentation "Non-nil if there is no file yet.")
  (large nil :documentation "Non-nil if the texts are too large for lines to be counted.")
  (added nil :documentation "The number of added lines, nil if that is not known.")
  (removed nil :documentation "The number of removed lines, nil if that is not known.")
  (lines nil :documentation "(BEFORE . AFTER), the lines of both, nil if that is not known.")
  (unmarked nil :documentation "Non-nil if the file has a byte order mark, and the text has none.")
  (recoded nil :documentation "Non-nil if the file is not in UTF-8, which it becomes.")
  (remarks nil :documentation "Short remarks for the user about what is unusual."))

(defun gemini-companion-change-of (path bytes text)
  "Return the change of the file PATH from BYTES to TEXT.
BYTES are nil if there is no file, `unreadable' if they are not known."
  (let ((new (null bytes))
        (bytes (or bytes "")))
    (cond ((not (stringp bytes)) (gemini-companion-change--make))
          ((> (+ (length bytes) (length text)) 4000000)
           (gemini-companion-change--make :new new :large t))
          (t
           (pcase-let* ((utf-8 (gemini-companion-change--decode-utf-8 bytes text))
                        (before (or utf-8 (gemini-companion-change--guess path bytes text)))
                        (`[,added ,removed ,total ,_]
                         (gemini-companion--mod-diff before text nil))
                        (after (+ total added (- removed))))
             (gemini-companion-change--make
              :new new :added added :removed removed :recoded (not utf-8)
              :lines (cons total after)
              :unmarked (and (gemini-companion-change--marked-p bytes)
                             (not (string-prefix-p "\ufeff" text)))
              :remarks
              (delq nil
                    (list (cond ((and (string-empty-p text) (not (string-empty-p before)))
                                 "Empties the file")
                                ((gemini-companion-change-deletion-p total after)
                                 (format "Removes %d of %d lines" removed total))
                                ((and (zerop (+ added removed)) (not new))
                                 "Changes nothing"))
                          (and (not (string-empty-p text))
                               (not (string-suffix-p "\n" text))
                               (or (string-empty-p before) (string-suffix-p "\n" before))
                               "No newline at the end")
                          ;; Clients write such a file so, and no view shows that.
                          (and (string-search "\r\n" bytes)
                               (string-match-p "[^\r]\n" bytes)
                               (not (string-search "\r\n" text))
                               "All line ends become CRLF")
                          (and (not utf-8) "Encoding becomes UTF-8")))))))))

(defun gemini-companion-change-ascii-p (text)
  "Return non-nil if TEXT is ASCII, as most texts are, or unibyte.
This takes no time, unlike a search."
  (= (string-bytes text) (length text)))

(defun gemini-companion-change-deletion-p (before after)
  "Return non-nil if a change from BEFORE to AFTER lines removes most of them."
  (and (> before 9)
       (< (* 4 after) before)))

(defun gemini-companion-change-size (change)
  "Return the size of CHANGE as short text, such as \"+6 -4\"."
  (pcase-let (((cl-struct gemini-companion-change new large added removed) change))
    (cond (large "large")
          ((not added) "?")
          (new (format "+%d" added))
          (t (format "+%d -%d" added removed)))))

(provide 'gemini-companion-change)
;;; gemini-companion-change.el ends here

;;; gemini-companion-apply.el --- Decisions that clients make -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Clients of document 004 may decide an open review as the user would, by the tools `acceptDiff'
;; and `rejectDiff'.  An accept of theirs is applied to the file here, by Emacs, so that the buffer
;; and the file agree afterwards.  Nothing of the user's is overwritten: then it fails.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-bridge)
(require 'gemini-companion-follow)
(require 'gemini-companion-history)
(require 'gemini-companion-review)

(defun gemini-companion-apply-decision (id accept call)
  "Accept the review ID if ACCEPT is non-nil, else reject it; answer CALL."
  (let ((review (gemini-companion-review-with-id id)))
    (if (not review)
        (gemini-companion-bridge-fail call "this diff is not open in Emacs any more")
      (condition-case error
          (let ((path (gemini-companion-review-path review)))
            (if accept
                (gemini-companion-apply--accept review)
              (gemini-companion-review-reject review))
            (gemini-companion-bridge-answer
             call (format (if accept "Accepted, and applied to %s" "Rejected: %s") path)))
        (error (gemini-companion-bridge-fail call (error-message-string error)))))))

(defun gemini-companion-apply--accept (review)
  "Accept REVIEW as its text now reads, and write that to its file."
  (pcase (gemini-companion-review-find-conflict review)
    ('unsaved (error "The user has unsaved edits of this file in Emacs"))
    ('changed (error "The file has changed since this diff was opened")))
  (let ((path (gemini-companion-review-path review))
        (text (gemini-companion-review-current-text review)))
    (gemini-companion-review-decide
     review 'accepted
     (lambda (id)
       (gemini-companion-history-write
        path (gemini-companion-apply--encode text (gemini-companion-review-base review)))
       (gemini-companion-bridge-accept id text)))
    (gemini-companion-follow-now path)))

(defun gemini-companion-apply--encode (text base)
  "Return TEXT as bytes for a file that was BASE, bytes or nil.
Line ends and a byte order mark stay what they were."
  (let* ((base (if (stringp base) base ""))
         (dos (and (string-search "\r\n" base) (not (string-search "\r" text))))
         (mark (unibyte-string #xef #xbb #xbf))
         (bytes (encode-coding-string text (if dos 'utf-8-dos 'utf-8-unix) t)))
    (if (and (string-prefix-p mark base) (not (string-prefix-p mark bytes)))
        (concat mark bytes)
      bytes)))

(provide 'gemini-companion-apply)
;;; gemini-companion-apply.el ends here

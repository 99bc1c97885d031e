;;; gemini-companion-apply.el --- Decisions that clients make -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Clients of document 004 may decide an open review as the user would, by the tools `acceptDiff'
;; and `rejectDiff'.  An accept of theirs is applied to the file here, by Emacs, so that the buffer
;; and the file agree afterwards.  It fails where the user would be asked first, outside of the
;; workspace, and for private files.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-bridge)
(require 'gemini-companion-follow)
(require 'gemini-companion-history)
(require 'gemini-companion-private)
(require 'gemini-companion-review)
(require 'gemini-companion-workspace)

(defun gemini-companion-apply-decision (id accept call)
  "Accept the review ID if ACCEPT is non-nil, else reject it; answer CALL."
  (let ((review (gemini-companion-review-with-id id)))
    (cond
     ;; Its client has given up: it must not be decided behind its back.
     ((not (gemini-companion-bridge-awaited-p call)))
     ((not review)
      (gemini-companion-bridge-fail call "this diff is not open in Emacs any more"))
     (t
      (condition-case error
          (let ((path (gemini-companion-review-path review)))
            (if accept
                (gemini-companion-apply--accept review)
              (gemini-companion-review-decide review 'rejected
                                              #'gemini-companion-bridge-reject 'by-client))
            (gemini-companion-bridge-answer
             call (format (if accept "Accepted, and applied to %s" "Rejected: %s") path)))
        (error (gemini-companion-bridge-fail call (error-message-string error))))))))

(defun gemini-companion-apply--accept (review)
  "Accept REVIEW as its text now reads, and write that to its file."
  (gemini-companion-apply--check review)
  (let ((path (gemini-companion-review-path review))
        (text (gemini-companion-review-current-text review))
        (done nil))
    (gemini-companion-review-decide
     review 'accepted
     (lambda (id)
       ;; First: it may have been decided elsewhere while Emacs was busy.
       (when (gemini-companion-bridge-accept id text)
         (gemini-companion-history-write
          path (gemini-companion-apply--encode text (gemini-companion-review-base review)))
         (setq done t)))
     'by-client)
    (unless done (error "This diff was decided meanwhile"))
    (gemini-companion-log-errors "follow"
      (gemini-companion-follow-now path))))

(defun gemini-companion-apply--check (review)
  "Signal an error if a client must not accept REVIEW without the user.
Then the user can do so all the same."
  (let ((path (gemini-companion-review-path review)))
    (pcase (gemini-companion-review-find-conflict review)
      ('unsaved (error "The user has unsaved edits of this file in Emacs"))
      ('changed (error "The file has changed since this diff was opened")))
    (unless (gemini-companion-workspace-roots-of (file-truename path))
      (error "Outside of the workspace only the user accepts"))
    (when-let ((reason (gemini-companion-private-reason-of path)))
      (error "Only the user accepts a change of this file: it is %s" reason))
    (when (gemini-companion-review-question review)
      (error "Only the user accepts a text that lacks most of the file"))
    (unless (file-writable-p path)
      (error "This file cannot be written"))))

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

;;; gemini-companion-apply.el --- Decisions that clients make -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Clients of document 004 may decide an open review as the user would, by the tools `acceptDiff'
;; and `rejectDiff'.  An accept of theirs is applied to the file here, by Emacs, so that the buffer
;; and the file agree afterwards.
;;
;; Whoever has the token can call these tools, also a program that the CLI runs in a sandbox.  So
;; an accept of a client's is no way around the user: it needs that the change was on screen, and
;; fails where the user would be asked first, outside of projects, for private files, and for
;; files by which others run programs.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'gemini-companion-bridge)
(require 'gemini-companion-decide)
(require 'gemini-companion-follow)
(require 'gemini-companion-history)
(require 'gemini-companion-log)
(require 'gemini-companion-private)
(require 'gemini-companion-queue)
(require 'gemini-companion-review)
(require 'gemini-companion-scope)
(require 'gemini-companion-workspace)

(defcustom gemini-companion-accept-by-client 'seen
  "Whether clients of an older protocol may accept changes of their own.
They do so when you say yes there, and Emacs then writes the file.  If
`seen', that needs that the change was on screen in Emacs.  If `ask', you
are asked each time, and accept or reject it in Emacs.  If nil, only you
accept."
  :group 'gemini-companion
  :type '(choice (const :tag "Changes that were on screen" seen)
                 (const :tag "Ask in Emacs each time" ask)
                 (const :tag "None" nil))
  :risky t)

(defconst gemini-companion-apply--git-hooks
  '("applypatch-msg" "pre-applypatch" "post-applypatch" "pre-commit" "pre-merge-commit"
    "prepare-commit-msg" "commit-msg" "post-commit" "pre-rebase" "post-checkout" "post-merge"
    "pre-push" "pre-receive" "update" "proc-receive" "post-receive" "post-update"
    "reference-transaction" "push-to-checkout" "pre-auto-gc" "post-rewrite"
    "sendemail-validate" "fsmonitor-watchman" "post-index-change")
  "Names of programs that Git runs, wherever its configuration says that they are.")

;;;; Decisions

;;;###autoload
(defun gemini-companion-apply-decision (id accept call directory)
  "Accept the review ID if ACCEPT is non-nil, else reject it; answer CALL.
DIRECTORY is where the client works, or nil if that is not known."
  ;; No name that a client gives makes Emacs connect to another machine.
  (let ((file-name-handler-alist nil)
        (review (gemini-companion-review-with-id id)))
    (cond
     ;; Its client has given up: it must not be decided behind its back.
     ((not (gemini-companion-bridge-awaited-p call)))
     ((not review)
      (gemini-companion-bridge-fail call "this diff is not open in Emacs any more"))
     (t
      (condition-case error
          (if accept
              (gemini-companion-apply--accept review call directory)
            (gemini-companion-review-decide review 'rejected
                                            #'gemini-companion-bridge-reject 'by-client)
            (gemini-companion-apply--answer review 'rejected call))
        (error (gemini-companion-bridge-fail call (gemini-companion-log-reason error))))))))
;;;###autoload (put 'decide-review 'gemini-companion-handler #'gemini-companion-apply-decision)

(defun gemini-companion-apply--accept (review call directory)
  "Accept REVIEW for its client, or have the user asked; answer CALL.
The client works in DIRECTORY, or that is nil."
  (pcase gemini-companion-accept-by-client
    ('nil (error "In this Emacs only the user accepts"))
    ('ask
     (gemini-companion-apply--check review directory)
     (gemini-companion-review-request
      review #'gemini-companion-apply--write
      (lambda (outcome) (gemini-companion-apply--answer review outcome call))))
    (_
     (unless (gemini-companion-review-seen review)
       (error "The user has not seen this diff in Emacs yet"))
     (gemini-companion-apply--check review directory)
     (let ((text (gemini-companion-review-current-text review)))
       (gemini-companion-review-decide
        review 'accepted
        (lambda (_id) (gemini-companion-apply--write review text))
        'by-client))
     (when (gemini-companion-review-open-p review)
       (error "This diff was decided meanwhile"))
     (gemini-companion-apply--answer review 'accepted call))))

(defun gemini-companion-apply--answer (review outcome call)
  "Tell CALL that REVIEW has ended with OUTCOME, a symbol."
  (let ((path (gemini-companion-review-path review)))
    (pcase outcome
      ('accepted
       (gemini-companion-bridge-answer call (format "Accepted, and applied to %s" path))
       (gemini-companion-log-errors "follow"
         (gemini-companion-follow-now path)))
      ('rejected (gemini-companion-bridge-answer call (format "Rejected: %s" path)))
      (_ (gemini-companion-bridge-fail call "This diff was decided meanwhile")))))

(defun gemini-companion-apply--write (review text)
  "Write TEXT to the file of REVIEW, then tell its clients that it was accepted.
Return nil if it was decided meanwhile; the file is then as before."
  (let* ((file-name-handler-alist nil)
         (file (file-truename (gemini-companion-review-path review)))
         (before (gemini-companion-history-read file)))
    ;; First: what is told has happened.
    (gemini-companion-history-write
     file (gemini-companion-history-encode text (gemini-companion-review-base review)))
    (or (gemini-companion-bridge-accept (gemini-companion-review-id review) text)
        (ignore (gemini-companion-history-write file before)))))

;;;; Limits

(defun gemini-companion-apply--check (review directory)
  "Signal an error if a client in DIRECTORY must not accept REVIEW by itself.
Then the user can do so all the same."
  (let* ((path (gemini-companion-review-path review))
         (file (file-truename path))
         (root (gemini-companion-apply--root file directory)))
    (pcase (gemini-companion-review-find-conflict review)
      ('unsaved (error "The user has unsaved edits of this file in Emacs"))
      ('changed (error "The file has changed since this diff was opened")))
    (when-let* ((reason (gemini-companion-private-reason-of path)))
      (error "Only the user accepts a change of this file: it is %s" reason))
    (when-let* ((reason (or (gemini-companion-apply--guarded path root)
                            (gemini-companion-apply--guarded file root))))
      (error "Only the user accepts a change of this file: %s" reason))
    (when (gemini-companion-review-question review)
      (error "Only the user accepts a text that lacks most of the file"))
    (unless (gemini-companion-apply--writable-p file)
      (error "This file cannot be written"))))

(defun gemini-companion-apply--root (file directory)
  "Return the root of FILE in which a client in DIRECTORY may accept changes.
Signal an error if there is none.  A client that works in no root, or of
which it is not known, is not known to work in another project."
  (let ((names (gemini-companion-scope-names (gemini-companion-scope-of directory))))
    (cond ((cl-loop for name in names if (string-prefix-p name file) return name))
          (names
           (error "The client works in another project: only the user accepts this change"))
          ((cdr (gemini-companion-workspace-innermost file 'only-project)))
          (t (error "Outside of projects only the user accepts")))))

(defun gemini-companion-apply--guarded (file root)
  "Return why FILE, in the workspace ROOT, is one by which others run programs.
Return nil if it is not known to be one."
  (let ((names (split-string file "/" t))
        (below (split-string (string-remove-prefix (file-name-as-directory root) file)
                             "/" t)))
    (cond ((cl-some (lambda (name) (member (downcase name) '(".git" ".hg" ".svn" ".bzr" ".jj")))
                    names)
           "it is part of a repository")
          ((gemini-companion-apply--in-repository-p file)
           "it is part of a repository")
          ((cl-some (lambda (name) (string-prefix-p "." name)) below)
           "a name that begins with a dot often configures programs")
          ((and (member (car (last names)) gemini-companion-apply--git-hooks)
                (string-search "hooks" (or (car (last names 2)) "")))
           "Git runs it")
          ((string-prefix-p (file-name-as-directory (file-truename user-emacs-directory))
                            (file-truename file))
           "Emacs loads such files"))))

(defun gemini-companion-apply--in-repository-p (file)
  "Return non-nil if FILE is in a directory that Git keeps, whatever its name."
  (let ((directory (file-name-directory file))
        (found nil))
    (while (and directory (not found))
      (let ((there (lambda (name) (file-exists-p (concat directory name))))
            (parent (file-name-directory (directory-file-name directory))))
        (setq found (and (funcall there "HEAD")
                         (or (funcall there "commondir")
                             (and (funcall there "objects/") (funcall there "refs/"))))
              directory (and (not (equal parent directory)) parent))))
    found))

(defun gemini-companion-apply--writable-p (file)
  "Return non-nil if FILE is a regular file that can be written, or can be made."
  (if (file-exists-p file)
      (and (file-regular-p file) (file-readable-p file) (file-writable-p file))
    ;; Its directories may have to be made, too.
    (let ((directory (file-name-directory file)))
      (while (not (file-exists-p directory))
        (setq directory (file-name-directory (directory-file-name directory))))
      (and (file-directory-p directory) (file-writable-p directory)))))

(provide 'gemini-companion-apply)
;;; gemini-companion-apply.el ends here

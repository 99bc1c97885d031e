;;; gemini-companion-decide.el --- Decisions of users and clients -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The user's commands for the review of the current buffer, or the one on screen: accept it, reject
;; it, go to it, put it off, merge into it what it lacks; and the questions that they ask.
;;
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
(require 'gemini-companion-context)
(require 'gemini-companion-history)
(require 'gemini-companion-log)
(require 'gemini-companion-queue)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)
(require 'gemini-companion-write)

(declare-function gemini-companion-reject-with-reason "gemini-companion-compose")

;;;; Accept and reject

;;;###autoload
(defun gemini-companion-accept ()
  "Accept the proposed change as its text now reads.
The client then writes the file.  Decides the review of the current
buffer, else the one on screen.  If none is on screen, show the oldest
instead.  If to accept would lose something, ask first."
  (interactive)
  (gemini-companion-decide--decide-current #'gemini-companion-review-accept))

;;;###autoload
(defun gemini-companion-reject (&optional with-reason)
  "Reject the proposed change; the file stays as it is.
Decides the review of the current buffer, else the one on screen.  If
none is on screen, show the oldest instead.  With WITH-REASON,
interactively the prefix argument, ask for a reason, which becomes the
next prompt of the client if that runs in a terminal of Emacs."
  (interactive "P")
  (gemini-companion-decide--decide-current (if with-reason
                                               #'gemini-companion-reject-with-reason
                                             #'gemini-companion-review-reject)))

(defun gemini-companion-decide--decide-current (decide)
  "Call DECIDE with the review that a command is about.
If the user sees nothing of that, show it instead."
  (let ((review (gemini-companion-review-current)))
    (when (or (eq review gemini-companion-review-of-buffer)
              (gemini-companion-review-on-screen-p review)
              (not (gemini-companion-decide--show-first review)))
      (funcall decide review))))

(defun gemini-companion-decide--show-first (review)
  "Show REVIEW, which a command would have decided, and say so.
Return nil if it cannot be shown."
  (condition-case nil
      (progn
        (gemini-companion-review-show-again review 'keep)
        (message "%s was not on screen: look at it, then decide"
                 (gemini-companion-review-file review)))
    (error nil)))

(defun gemini-companion-review-accept (review)
  "Accept REVIEW as its text now reads; if that would lose something, ask first.
If it has never been on screen, show it instead, or ask if it cannot be
shown."
  (gemini-companion-review-check-open review)
  (cond ((gemini-companion-review-seen review)
         (gemini-companion-decide--accept-seen review))
        ((gemini-companion-decide--show-first review))
        (t
         (gemini-companion-decide--ask-unseen review)
         (gemini-companion-decide--accept-seen review))))

(defun gemini-companion-decide--accept-seen (review)
  "Accept REVIEW, of which the user knows what it says."
  (gemini-companion-decide--check review)
  (gemini-companion-write-revert (gemini-companion-review-path review)
                                 (gemini-companion-review-merged-state review))
  (let ((text (gemini-companion-review-current-text review))
        (tell (or (gemini-companion-review-writer review)
                  #'gemini-companion-decide--tell-accepted)))
    (gemini-companion-review-decide review 'accepted
                                    (lambda (_id) (funcall tell review text)))))

(defun gemini-companion-decide--tell-accepted (review text)
  "Tell the client of REVIEW that the user has accepted TEXT.
Return nil if it was decided meanwhile."
  (let ((may-omit (gemini-companion-write-may-omit-p review text)))
    (when (gemini-companion-bridge-accept (gemini-companion-review-id review) text may-omit)
      (when may-omit
        (gemini-companion-write-await-text review text))
      t)))

;;;; Going there, and later

;;;###autoload
(defun gemini-companion-review-next ()
  "Show the next change that awaits your decision, and go there.
If none but that on screen does, go there."
  (interactive)
  (let* ((current (gemini-companion-review-current))
         (open (gemini-companion-review-list-open))
         (next (if (gemini-companion-review-on-screen-p current)
                   (or (cadr (memq current open)) (car open))
                 current)))
    (gemini-companion-review-visit next)))

;;;###autoload
(defun gemini-companion-review-quit ()
  "Ask what to do with the change on screen: accept it, reject it, or decide later."
  (interactive)
  (let* ((review (gemini-companion-review-current))
         (title (gemini-companion-review-client-title review))
         (answer (gemini-companion-review-ask
                  review
                  (lambda ()
                    (condition-case nil
                        (car (read-multiple-choice
                              "Proposed change:"
                              `((?a "accept" ,(concat title " writes the text as it now reads"))
                                (?r "reject" "The file stays as it is")
                                (?l "later" ,(concat title " keeps waiting")))))
                      (quit nil))))))
    (pcase answer
      (?a (gemini-companion-review-accept review))
      (?r (gemini-companion-review-reject review))
      (_ (gemini-companion-review-postpone review)))))

;;;###autoload
(defun gemini-companion-review-three-way ()
  "Show the change with the text from which it was made, or without it again.
Beside the proposal you then see the text as you have it, with edits that
are not saved."
  (interactive)
  (let ((review (gemini-companion-review-current)))
    (gemini-companion-decide--show-with-base
     review (not (gemini-companion-review-with-base review)))))

(defun gemini-companion-decide--show-with-base (review with-base)
  "Show REVIEW, if WITH-BASE is non-nil with the text from which it was made."
  (gemini-companion-review-check-open review)
  (setf (gemini-companion-review-with-base review) with-base)
  (gemini-companion-review-show-again review 'select))

;;;; Merging

(defconst gemini-companion-decide--replace-time 1.0
  "Seconds beyond which the text of a proposal is replaced as a whole.")

;;;###autoload
(defun gemini-companion-review-merge ()
  "Merge what the proposed text lacks into it, if that is about other lines.
These are the edits that you have not saved, or what was written to the
file since the change was proposed.  Nothing is saved or accepted."
  (interactive)
  (let ((review (gemini-companion-review-current)))
    (gemini-companion-review-check-open review)
    (unless (setf (gemini-companion-review-conflict review)
                  (gemini-companion-review-find-conflict review))
      (user-error "Nothing to merge: the proposed text lacks nothing of %s"
                  (gemini-companion-review-file review)))
    (gemini-companion-decide--merge review)
    (message "%s" (substitute-command-keys
                   "Merged into the proposed text; \\[gemini-companion-accept] accepts it"))))

(defun gemini-companion-decide--merge (review)
  "Merge into the text of REVIEW what it lacks, and show it anew."
  (when (gemini-companion-review-written-p review)
    (gemini-companion-decide--merge-file review))
  (when-let* ((buffer (gemini-companion-review-visiting review)))
    (when (buffer-modified-p buffer)
      (gemini-companion-decide--merge-buffer review buffer)))
  (let ((focus (if (eq gemini-companion-review-of-buffer review) 'select 'keep)))
    (gemini-companion-review-show-again review focus)))

(defun gemini-companion-decide--merge-file (review)
  "Merge into the text of REVIEW what was written to its file since it came."
  (let* ((path (gemini-companion-review-path review))
         (stamp (gemini-companion-history-stamp path))
         (bytes (gemini-companion-history-read path)))
    (unless bytes
      (user-error "There is nothing to merge: %s is gone, or cannot be read" path))
    (gemini-companion-decide--merge-text
     review (gemini-companion-review-file-text path bytes (gemini-companion-review-proposed review)))
    (setf (gemini-companion-review-base review) bytes
          (gemini-companion-review-stamp review) stamp)))

(defun gemini-companion-decide--merge-buffer (review buffer)
  "Merge into the text of REVIEW the edits in BUFFER, which visits its file."
  (unless (verify-visited-file-modtime buffer)
    (user-error "%s was written since its buffer was: save that or revert it, then merge"
                (gemini-companion-review-file review)))
  (gemini-companion-decide--merge-text review (gemini-companion-review-buffer-text buffer))
  (setf (gemini-companion-review-merged review)
        (gemini-companion-review-merge-states review buffer)))

(defun gemini-companion-decide--merge-text (review text)
  "Merge into the text of REVIEW what TEXT has changed of the file."
  (let ((merged (gemini-companion-review-merge-with review text)))
    (unless (stringp merged)
      (user-error "Both change the same lines, first at line %d of the proposed text: %s" merged
                  (substitute-command-keys
                   "\\[gemini-companion-review-three-way] shows all texts")))
    (gemini-companion-decide--set-text review merged)))

(defun gemini-companion-decide--set-text (review text)
  "Make the proposal of REVIEW say TEXT, in one step for undo."
  (let ((proposal (gemini-companion-review-proposal review)))
    (if (not (buffer-live-p proposal))
        (setf (gemini-companion-review-text review) text)
      (with-current-buffer proposal
        (save-restriction
          (widen)
          (let ((inhibit-read-only t))
            (undo-boundary)
            (replace-region-contents (point-min) (point-max) (lambda () text)
                                     gemini-companion-decide--replace-time)
            (undo-boundary)))))))

;;;; Questions before an accept

(defun gemini-companion-decide--check (review)
  "Ask before REVIEW is accepted if that would lose something.
Signal a `user-error' if the user does not want it."
  (gemini-companion-decide--check-text review)
  (when (setf (gemini-companion-review-conflict review)
              (gemini-companion-review-find-conflict review))
    (pcase (gemini-companion-review-ask
            review
            (lambda ()
              (car (read-multiple-choice
                    (concat (gemini-companion-review-warning review) ".")
                    '((?a "accept" "Have this text written; unsaved edits stay in their buffer")
                      (?m "merge" "Add what is missing to this text, and decide then")
                      (?t "three-way" "Show all texts side by side, and decide then")
                      (?c "cancel" "Decide later"))))))
      (?a)
      (?m (gemini-companion-decide--merge review)
          (user-error "Merged, and not accepted yet: look at the text, then accept it"))
      (?t (gemini-companion-decide--show-with-base review t)
          (user-error "Not accepted: copy what is missing, then accept again"))
      (_ (user-error "Not accepted")))))

(defun gemini-companion-decide--check-text (review)
  "Ask before an accept of REVIEW that removes all or most of the file."
  (when-let* ((question (gemini-companion-review-question review)))
    (gemini-companion-decide--confirm review question)))

(defun gemini-companion-decide--ask-unseen (review)
  "Ask before an accept of REVIEW, which cannot be shown."
  (gemini-companion-decide--confirm
   review
   (format "%s cannot be shown (%s).  Accept it unseen, %d lines in place of %d? "
           (gemini-companion-ui-one-line (gemini-companion-review-path review))
           (gemini-companion-review-fault review)
           (gemini-companion-decide--count-lines
            (gemini-companion-review-current-text review))
           (gemini-companion-decide--count-lines
            (or (gemini-companion-review-base review) "")))))

(defun gemini-companion-decide--confirm (review question)
  "Signal a `user-error' unless the user says yes to QUESTION, about REVIEW."
  (unless (gemini-companion-review-ask review (lambda () (y-or-n-p question)))
    (user-error "Not accepted")))

(defun gemini-companion-review-question (review)
  "Return what to ask before an accept of REVIEW, or nil."
  (let ((text (gemini-companion-review-current-text review)))
    (if (string-empty-p text)
        (and (not (string-empty-p (gemini-companion-review-proposed review)))
             (format "%s takes an empty text for none, and would write its own proposal.  \
Accept? "
                     (gemini-companion-review-client-title review)))
      (gemini-companion-decide--deletion review text))))

(defun gemini-companion-decide--deletion (review text)
  "Return a question if TEXT, that of REVIEW, lacks most lines of the file."
  (let* ((base (or (gemini-companion-review-base review) ""))
         (before (gemini-companion-decide--count-lines base))
         (after (gemini-companion-decide--count-lines text)))
    (and (gemini-companion-change-deletion-p before after)
         (format "%s would write a text of %d lines in place of %d lines.  Accept? "
                 (gemini-companion-review-client-title review) after before))))

(defun gemini-companion-decide--count-lines (text)
  "Return the number of newlines in TEXT, which may be of megabytes."
  (with-temp-buffer
    (set-buffer-multibyte (multibyte-string-p text))
    (insert text)
    (1- (line-number-at-pos (point-max)))))

;;;; Decisions of clients

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

(defconst gemini-companion-decide--git-hooks
  '("applypatch-msg" "pre-applypatch" "post-applypatch" "pre-commit" "pre-merge-commit"
    "prepare-commit-msg" "commit-msg" "post-commit" "pre-rebase" "post-checkout" "post-merge"
    "pre-push" "pre-receive" "update" "proc-receive" "post-receive" "post-update"
    "reference-transaction" "push-to-checkout" "pre-auto-gc" "post-rewrite"
    "sendemail-validate" "fsmonitor-watchman" "post-index-change")
  "Names of programs that Git runs, wherever its configuration says that they are.")

;;;; Decisions

;;;###autoload
(defun gemini-companion-decide-for-client (id accept call directory)
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
              (gemini-companion-decide--accept review call directory)
            (gemini-companion-review-decide review 'rejected
                                            #'gemini-companion-bridge-reject 'by-client)
            (gemini-companion-decide--answer review 'rejected call))
        (error (gemini-companion-bridge-fail call (gemini-companion-ui-error-text error))))))))
;;;###autoload (put 'decide-review 'gemini-companion-handler #'gemini-companion-decide-for-client)

(defun gemini-companion-decide--accept (review call directory)
  "Accept REVIEW for its client, or have the user asked; answer CALL.
The client works in DIRECTORY, or that is nil."
  (pcase gemini-companion-accept-by-client
    ('nil (error "In this Emacs only the user accepts"))
    ('ask
     (gemini-companion-decide--check-client review directory)
     (gemini-companion-review-request
      review #'gemini-companion-decide--write
      (lambda (outcome) (gemini-companion-decide--answer review outcome call))))
    (_
     (unless (gemini-companion-review-seen review)
       (error "The user has not seen this diff in Emacs yet"))
     (gemini-companion-decide--check-client review directory)
     (let ((text (gemini-companion-review-current-text review)))
       (gemini-companion-review-decide
        review 'accepted
        (lambda (_id) (gemini-companion-decide--write review text))
        'by-client))
     (when (gemini-companion-review-open-p review)
       (error "This diff was decided meanwhile"))
     (gemini-companion-decide--answer review 'accepted call))))

(defun gemini-companion-decide--answer (review outcome call)
  "Tell CALL that REVIEW has ended with OUTCOME, a symbol."
  (let ((path (gemini-companion-review-path review)))
    (pcase outcome
      ('accepted
       (gemini-companion-bridge-answer call (format "Accepted, and applied to %s" path))
       (gemini-companion-log-errors "follow"
         (gemini-companion-write-revert-now path)))
      ('rejected (gemini-companion-bridge-answer call (format "Rejected: %s" path)))
      (_ (gemini-companion-bridge-fail call "This diff was decided meanwhile")))))

(defun gemini-companion-decide--write (review text)
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

(defun gemini-companion-decide--check-client (review directory)
  "Signal an error if a client in DIRECTORY must not accept REVIEW by itself.
Then the user can do so all the same."
  (let* ((path (gemini-companion-review-path review))
         (file (file-truename path))
         (root (gemini-companion-decide--root file directory)))
    (pcase (gemini-companion-review-find-conflict review)
      ('unsaved (error "The user has unsaved edits of this file in Emacs"))
      ('changed (error "The file has changed since this diff was opened")))
    (when-let* ((reason (gemini-companion-context-private-reason-of path)))
      (error "Only the user accepts a change of this file: it is %s" reason))
    (when-let* ((reason (or (gemini-companion-decide--guarded path root)
                            (gemini-companion-decide--guarded file root))))
      (error "Only the user accepts a change of this file: %s" reason))
    (when (gemini-companion-review-question review)
      (error "Only the user accepts a text that lacks most of the file"))
    (unless (gemini-companion-decide--writable-p file)
      (error "This file cannot be written"))))

(defun gemini-companion-decide--root (file directory)
  "Return the root of FILE in which a client in DIRECTORY may accept changes.
Signal an error if there is none.  A client that works in no root, or of
which it is not known, is not known to work in another project."
  (let ((names (gemini-companion-workspace-scope-names
                (gemini-companion-workspace-scope-of directory))))
    (cond ((cl-loop for name in names if (string-prefix-p name file) return name))
          (names
           (error "The client works in another project: only the user accepts this change"))
          ((cdr (gemini-companion-workspace-innermost file 'only-project)))
          (t (error "Outside of projects only the user accepts")))))

(defun gemini-companion-decide--guarded (file root)
  "Return why FILE, in the workspace ROOT, is one by which others run programs.
Return nil if it is not known to be one."
  (let ((names (split-string file "/" t))
        (below (split-string (string-remove-prefix (file-name-as-directory root) file)
                             "/" t)))
    (cond ((cl-some (lambda (name) (member (downcase name) '(".git" ".hg" ".svn" ".bzr" ".jj")))
                    names)
           "it is part of a repository")
          ((gemini-companion-decide--in-repository-p file)
           "it is part of a repository")
          ((cl-some (lambda (name) (string-prefix-p "." name)) below)
           "a name that begins with a dot often configures programs")
          ((and (member (car (last names)) gemini-companion-decide--git-hooks)
                (string-search "hooks" (or (car (last names 2)) "")))
           "Git runs it")
          ((string-prefix-p (file-name-as-directory (file-truename user-emacs-directory))
                            (file-truename file))
           "Emacs loads such files"))))

(defun gemini-companion-decide--in-repository-p (file)
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

(defun gemini-companion-decide--writable-p (file)
  "Return non-nil if FILE is a regular file that can be written, or can be made."
  (if (file-exists-p file)
      (and (file-regular-p file) (file-readable-p file) (file-writable-p file))
    ;; Its directories may have to be made, too.
    (let ((directory (file-name-directory file)))
      (while (not (file-exists-p directory))
        (setq directory (file-name-directory (directory-file-name directory))))
      (and (file-directory-p directory) (file-writable-p directory)))))

(provide 'gemini-companion-decide)
;;; gemini-companion-decide.el ends here

;;; gemini-companion-decide.el --- Decisions of users and clients -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The user's commands for the review of the current buffer, or the one on screen: accept it, reject
;; it, go to it, postpone it, merge into it what it lacks; and the questions that they ask.
;;
;; Clients of document 004 may decide an open review as the user would, by the tools `acceptDiff'
;; and `rejectDiff'.  Then Emacs writes the file, so that its buffer and the file agree.
;;
;; Whoever has the token can call these tools, including programs that the CLI runs in a sandbox.
;; So a client cannot use them to bypass the user: an accept fails unless the change was on screen,
;; and where the user would be asked first, outside of projects, for private files, and for files
;; that make other programs run something.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'gemini-companion-bridge)
(require 'gemini-companion-context)
(require 'gemini-companion-file)
(require 'gemini-companion-heavy)
(require 'gemini-companion-history)
(require 'gemini-companion-log)
(require 'gemini-companion-popup)
(require 'gemini-companion-queue)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)
(require 'gemini-companion-write)

(declare-function gemini-companion-reject-with-reason "gemini-companion-compose")

;;;###autoload (custom-add-load 'gemini-companion-review 'gemini-companion-decide)
(defcustom gemini-companion-accept-by-client 'ask
  "Whether clients of an older protocol may accept their own changes.
They do so when you answer yes in the client, and Emacs then writes the
file.  If `ask', you are asked to accept or reject it in Emacs each time.
If `seen', the change must only have been on screen in Emacs: then any
program that you run, and that knows the token, can have Emacs write files
of the project while you are away.  If nil, only you can accept."
  :group 'gemini-companion-review
  :type '(choice (const :tag "Ask in Emacs each time" ask)
                 (const :tag "Changes that were on screen" seen)
                 (const :tag "None" nil))
  :risky t
  :package-version '(gemini-companion . "0.1.0"))

(defconst gemini-companion-decide--git-hook-names
  '("applypatch-msg" "pre-applypatch" "post-applypatch" "pre-commit" "pre-merge-commit"
    "prepare-commit-msg" "commit-msg" "post-commit" "pre-rebase" "post-checkout" "post-merge"
    "pre-push" "pre-receive" "update" "proc-receive" "post-receive" "post-update"
    "reference-transaction" "push-to-checkout" "pre-auto-gc" "post-rewrite"
    "sendemail-validate" "fsmonitor-watchman" "post-index-change")
  "Names of programs that Git runs, in any directory of hooks.")

;;;; Accepting and rejecting

;;;###autoload
(defun gemini-companion-accept ()
  "Accept the proposed change as its text now reads.
The client then writes the file.  This decides the review of the current
buffer, or else the one on screen.  If none is on screen, show the oldest
instead.  If accepting would lose something, ask first."
  (interactive)
  (gemini-companion-decide--decide-current #'gemini-companion-review-accept))

;;;###autoload
(defun gemini-companion-reject (&optional with-reason)
  "Reject the proposed change; the file stays as it is.
This decides the review of the current buffer, or else the one on screen.
If none is on screen, show the oldest instead.  With WITH-REASON,
interactively the prefix argument, ask for a reason, which becomes the
next prompt of the client if that runs in a terminal of Emacs."
  (interactive "P")
  (gemini-companion-decide--decide-current (if with-reason
                                               #'gemini-companion-reject-with-reason
                                             #'gemini-companion-review-reject)))

(defun gemini-companion-decide--decide-current (decide)
  "Call DECIDE with the review that a command is about.
If that is not on screen, show it instead."
  (gemini-companion-decide-seen (gemini-companion-review-current) decide))

(defun gemini-companion-decide-seen (review decide)
  "Call DECIDE with REVIEW; if that is not on screen, show it instead.
If the user accepts in the windows of REVIEW, the next one is selected."
  (let ((inside (eq review gemini-companion-review-of-buffer)))
    (when (or inside
              (gemini-companion-review-on-screen-p review)
              (not (gemini-companion-decide--show-first review)))
      (when (and (funcall decide review) inside
                 ;; After a rejection the CLI cancels the others.
                 (eq decide #'gemini-companion-review-accept))
        (gemini-companion-popup-follow)))))

(defun gemini-companion-decide--show-first (review)
  "Show REVIEW, which a command was about to decide, and say so.
Return nil if it cannot be shown."
  (condition-case nil
      (progn
        (gemini-companion-review-show-again review 'keep)
        ;; Unlike `message', replace a pending message about REVIEW, that it still waits.
        (gemini-companion-ui-message review "%s was not on screen: check it, then decide"
                                     (gemini-companion-review-file review))
        t)
    (error nil)))

(defun gemini-companion-review-accept (review)
  "Accept REVIEW as its text now reads; ask first if that would lose something.
If it has never been on screen, show it instead, or ask if it cannot be
shown."
  (gemini-companion-review-check-open review)
  (cond ((gemini-companion-review-seen review)
         (gemini-companion-decide--accept-seen review))
        ((gemini-companion-decide--show-first review))
        (t
         (gemini-companion-decide--ask-unseen review)
         (gemini-companion-decide--accept-seen review))))

(defun gemini-companion-decide--accept-seen (review &optional by)
  "Accept REVIEW, which the user has seen or accepts unseen.
BY is as in `gemini-companion-review-decide'; unless it is nil, ask nothing."
  (unless by
    (gemini-companion-decide--check review))
  (gemini-companion-ui-delay-gc
    (let ((text (gemini-companion-review-current-text review))
          (tell (or (gemini-companion-review-writer review)
                    #'gemini-companion-decide--tell-accepted)))
      (gemini-companion-write-revert (gemini-companion-review-path review)
                                     (gemini-companion-review-merged-state review) text nil review)
      (gemini-companion-review-decide review 'accepted
                                      (lambda (_id) (funcall tell review text)) by))))

(defun gemini-companion-decide--plain-p (review)
  "Return non-nil if an accept of REVIEW would lose nothing, and ask nothing."
  (not (or (gemini-companion-decide--question review)
           (gemini-companion-review-find-conflict review))))

(defun gemini-companion-decide--tell-accepted (review text)
  "Tell the client of REVIEW that the user has accepted TEXT.
Return nil if the client has decided it already."
  (let ((may-omit (gemini-companion-write-may-omit-p review text)))
    (when (gemini-companion-bridge-accept (gemini-companion-review-id review) text may-omit)
      (gemini-companion-decide--remember review text)
      ;; While the connection to a host is cut, the CLI there may go on without Emacs.
      (gemini-companion-write-await-text
       review text (or may-omit (gemini-companion-review-host review)))
      t)))

;;;; Several changes of a turn

(defvar gemini-companion-decide--rest nil
  "The changes that the user has accepted before the client proposes them.
A list of the review that was accepted with them, the names of their files,
and the time at which the last one was accepted.")

(defconst gemini-companion-decide--rest-time 30
  "Seconds for which the user's consent waits for the next change of a turn.")

;;;###autoload
(defun gemini-companion-accept-all (&optional review)
  "Accept all changes of this turn of the CLI, after a question that names them.
It is the turn of REVIEW, by default the current one.  These are the ones
that wait in Emacs, and those that the CLI will propose next, as far as its
terminal in Emacs shows their files.  A change of which an accept would lose
something is shown to you, not accepted."
  (interactive)
  (let* ((review (or review (gemini-companion-review-current)))
         (open (cons review (gemini-companion-write-others review)))
         (rest (nth 2 (gemini-companion-review-turn review)))
         (host (gemini-companion-review-host review))
         (names (append (mapcar #'gemini-companion-review-project-path open)
                        (mapcar (lambda (file) (gemini-companion-review-project-name file host))
                                rest))))
    (gemini-companion-decide--confirm
     review (format (ngettext "Accept %d change: %s? " "Accept %d changes: %s? " (length names))
                    (length names) (string-join names ", ")))
    (dolist (each open)
      (when (and (gemini-companion-review-open-p each)
                 (or (eq each review) (gemini-companion-decide--plain-p each)))
        (gemini-companion-decide--accept-seen each)))
    ;; Not before, for the user may have taken it back when asked about one of them.
    (gemini-companion-decide--expect-rest review rest)))

(defun gemini-companion-decide--expect-rest (review names)
  "Expect changes of the files NAMES to follow REVIEW, and to be accepted."
  (setq gemini-companion-decide--rest (and names (list review names (float-time)))))

(defun gemini-companion-decide-forget-rest (review)
  "Accept nothing in advance any more if that was said with REVIEW."
  (when (eq review (car gemini-companion-decide--rest))
    (setq gemini-companion-decide--rest nil)))

(defun gemini-companion-decide-rest-of ()
  "Return the review with which the user has accepted others in advance, or nil."
  (car gemini-companion-decide--rest))

(defun gemini-companion-decide--accept-rest (review)
  "Accept REVIEW if the user has done so in advance.  Return non-nil then."
  (pcase-let ((`(,first ,names ,time) gemini-companion-decide--rest))
    (when (and first
               (gemini-companion-review-same-client-p first review)
               (< (- (float-time) time) gemini-companion-decide--rest-time))
      (let ((path (gemini-companion-review-path review)))
        (when (and (member path names)
                   (gemini-companion-decide--plain-p review))
          (gemini-companion-decide--expect-rest first (remove path names))
          (gemini-companion-decide--accept-by-rule review))))))

(defvar gemini-companion-decide--accepted nil
  "Reviews that were accepted in the last minute, with the text, the newest first.")

(defconst gemini-companion-decide--again-time 60
  "Seconds for which an accept holds for the same change, proposed again.")

(defvar gemini-companion-decide-last-accept nil
  "A cons of the review that was accepted last and the time.")

(defun gemini-companion-decide--remember (review text)
  "Remember that the user has accepted REVIEW with TEXT, and when."
  (setq gemini-companion-decide-last-accept (cons review (float-time)))
  (setq gemini-companion-decide--accepted
        (cons (list review text (float-time))
              (seq-filter (pcase-lambda (`(,_ ,_ ,time))
                            (< (- (float-time) time) gemini-companion-decide--again-time))
                          gemini-companion-decide--accepted))))

(defun gemini-companion-decide--accept-again (review)
  "Accept REVIEW if the user has just accepted the same, which was not written.
A CLI that was interrupted when it asked does not say so, ignores the
accept, and may propose the same again.  Return non-nil if so."
  (when-let* ((before (seq-find (lambda (it) (gemini-companion-decide--same-p (car it) review))
                                gemini-companion-decide--accepted))
              ((null (gemini-companion-review-find-conflict review))))
    (setq gemini-companion-decide--accepted (delq before gemini-companion-decide--accepted))
    (gemini-companion-history-note (gemini-companion-review-entry (car before)) 'cancelled)
    (setf (gemini-companion-review-text review) (nth 1 before))
    (prog1 (gemini-companion-decide--accept-by-rule review)
      ;; Only once: a client may be unable to write.
      (setq gemini-companion-decide--accepted
            (assq-delete-all review gemini-companion-decide--accepted)))))

(defun gemini-companion-decide--same-p (one other)
  "Return non-nil if the reviews ONE and OTHER propose the same, to the same text."
  (and (gemini-companion-review-same-client-p one other)
       (equal (gemini-companion-review-path one) (gemini-companion-review-path other))
       (equal (gemini-companion-review-stamp one) (gemini-companion-review-stamp other))
       (equal (gemini-companion-review-proposed one) (gemini-companion-review-proposed other))))

(defun gemini-companion-decide--accept-by-rule (review)
  "Accept REVIEW, as the user has said before.  Return non-nil if that was done."
  (gemini-companion-decide--accept-seen review 'rule))

(defun gemini-companion-decide-forget ()
  "Forget what the user has accepted, since the companion stops."
  (setq gemini-companion-decide--rest nil
        gemini-companion-decide--accepted nil
        gemini-companion-decide-last-accept nil))

(add-hook 'gemini-companion-mode-off-hook #'gemini-companion-decide-forget)
;;;###autoload
(defun gemini-companion-decide-at-once (review)
  "Accept REVIEW, just proposed, if the user has said so before.
Return non-nil if that was done."
  (or (gemini-companion-decide--accept-rest review)
      (gemini-companion-decide--accept-again review)))
;;;###autoload (add-hook 'gemini-companion-queue-decide-functions #'gemini-companion-decide-at-once)

;;;; Showing and postponing

;;;###autoload
(defun gemini-companion-review-next ()
  "Show the next change that awaits your decision, and select its window.
If there is only the one on screen, select its window."
  (interactive)
  (let ((current (gemini-companion-review-current))
        (open (gemini-companion-review-list-open)))
    (gemini-companion-review-visit
     (if (gemini-companion-review-intact-p current)
         (or (cadr (memq current open)) (car open))
       current))))

;;;###autoload
(defun gemini-companion-review-quit ()
  "Ask whether to accept or reject the change on screen, or decide later."
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

(defconst gemini-companion-decide--views
  '(gemini-companion-ediff-show gemini-companion-inline-show gemini-companion-diff-show)
  "The views of a review, in the order in which a command shows them.")

;;;###autoload
(defun gemini-companion-review-other-view ()
  "Show the change in another view, with all that you have dropped or edited."
  (interactive)
  (let* ((review (gemini-companion-review-current))
         (views gemini-companion-decide--views)
         (view (or (cadr (memq (gemini-companion-review-view review) views)) (car views))))
    (gemini-companion-review-check-open review)
    (unless (gemini-companion-file-exists-p (gemini-companion-review-path review))
      (user-error "A new file has only one view"))
    (setf (gemini-companion-review-with-base review) nil
          (gemini-companion-review-chosen-view review) view)
    (gemini-companion-review-show-again review 'select)))

;;;###autoload
(defun gemini-companion-review-three-way ()
  "Show or hide the text from which the change was made.
While it is shown, the proposal is compared with the text as you have it,
including unsaved edits."
  (interactive)
  (let ((review (gemini-companion-review-current)))
    (gemini-companion-decide--show-with-base
     review (not (gemini-companion-review-with-base review)))))

(defun gemini-companion-decide--show-with-base (review with-base)
  "Show REVIEW, and if WITH-BASE is non-nil the text from which it was made."
  (gemini-companion-review-check-open review)
  (setf (gemini-companion-review-with-base review) with-base)
  (gemini-companion-review-show-again review 'select))

;;;; Merging

;;;###autoload
(defun gemini-companion-review-merge ()
  "Merge your edits of the file into the proposed text, if they do not overlap.
These are your unsaved edits, and what was written to the file since the
change was proposed.  Nothing is saved or accepted."
  (interactive)
  (let ((review (gemini-companion-review-current)))
    (gemini-companion-review-check-open review)
    (unless (setf (gemini-companion-review-conflict review)
                  (gemini-companion-review-find-conflict review))
      (user-error "Nothing to merge: the proposed text contains all edits of %s"
                  (gemini-companion-review-file review)))
    (gemini-companion-decide--merge review)
    (message "%s" (substitute-command-keys
                   "Merged into the proposed text; \\[gemini-companion-accept] accepts it"))))

(defun gemini-companion-decide--merge (review)
  "Merge into the text of REVIEW the edits that it lacks, and show it again."
  (let ((buffer (gemini-companion-decide--edited-buffer review)))
    (when (gemini-companion-review-written-p review)
      (gemini-companion-decide--merge-file review))
    (unwind-protect
        (when buffer
          (gemini-companion-decide--merge-buffer review buffer))
      ;; Even if the edits of the buffer overlap, those of the file are merged.
      (gemini-companion-review-show-again
       review (if (eq gemini-companion-review-of-buffer review) 'select 'keep)))))

(defun gemini-companion-decide--edited-buffer (review)
  "Return the buffer with unsaved edits of the file of REVIEW, or nil.
Signal a `user-error' if they are edits of another text than the file has."
  (when-let* ((buffer (gemini-companion-review-visiting review))
              ((buffer-modified-p buffer)))
    (unless (gemini-companion-file-agrees-p (gemini-companion-review-path review) buffer)
      (user-error "%s was changed on disk: save or revert its buffer, then merge"
                  (gemini-companion-review-file review)))
    buffer))

(defun gemini-companion-decide--merge-file (review)
  "Merge into the text of REVIEW how its file has changed on disk."
  (let* ((path (gemini-companion-review-path review))
         (stamp (gemini-companion-file-stamp path))
         (bytes (gemini-companion-file-read path))
         (before (gemini-companion-review-current-text review)))
    (unless bytes
      (user-error "Nothing to merge: %s was deleted, or cannot be read"
                  (gemini-companion-review-project-path review)))
    (gemini-companion-decide--merge-text
     review (gemini-companion-review-text-of-file review bytes))
    (unless (equal before (gemini-companion-review-current-text review))
      (push (list before (gemini-companion-review-base review)
                  (gemini-companion-review-stamp review))
            (gemini-companion-review-unmerged review)))
    (setf (gemini-companion-review-base review) bytes
          (gemini-companion-review-stamp review) stamp)))

(defun gemini-companion-decide--merge-buffer (review buffer)
  "Merge into the text of REVIEW the edits in BUFFER, which visits its file."
  (gemini-companion-decide--merge-text review (gemini-companion-review-buffer-text buffer))
  (setf (gemini-companion-review-merged review)
        (gemini-companion-review-merge-states review buffer)))

(defun gemini-companion-decide--merge-text (review text)
  "Merge into the text of REVIEW the changes from its file to TEXT."
  (let ((merged (gemini-companion-review-merge-with review text)))
    (unless (stringp merged)
      (user-error "Both change the same lines, first at line %d of the proposed text: %s" merged
                  (substitute-command-keys
                   "\\[gemini-companion-review-three-way] shows all texts")))
    (gemini-companion-decide--set-text review merged)))

(defun gemini-companion-decide--set-text (review text)
  "Replace the text of REVIEW by TEXT, as one step for undo."
  (let ((proposal (gemini-companion-review-proposal review)))
    (if (not (buffer-live-p proposal))
        (setf (gemini-companion-review-text review) text)
      (with-current-buffer proposal
        (save-restriction
          (widen)
          (let ((inhibit-read-only t))
            (undo-boundary)
            (gemini-companion-heavy-replace-text text)
            (undo-boundary)))))))

;;;; Questions before an accept

(defun gemini-companion-decide--check (review)
  "Ask before an accept of REVIEW that would lose something.
Signal a `user-error' unless the user wants it."
  (when-let* ((question (gemini-companion-decide--question review)))
    (gemini-companion-decide--confirm review question))
  (when (setf (gemini-companion-review-conflict review)
              (gemini-companion-review-find-conflict review))
    (pcase (gemini-companion-review-ask
            review
            (lambda ()
              (car (read-multiple-choice
                    (concat (gemini-companion-review-warning review) ".")
                    '((?a "accept" "Have this text written; unsaved edits remain in their buffer")
                      (?m "merge" "Merge the edits into this text, then decide")
                      (?t "three-way" "Show all texts side by side, then decide")
                      (?c "cancel" "Decide later"))))))
      (?a)
      (?m (gemini-companion-decide--merge review)
          (user-error "Merged, but not accepted yet: check the text, then accept it"))
      (?t (gemini-companion-decide--show-with-base review t)
          (user-error "Not accepted: copy what is missing, then accept again"))
      (_ (user-error "Not accepted")))))

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

(defun gemini-companion-decide--question (review)
  "Return the question to ask before an accept of REVIEW, or nil."
  (let* ((title (gemini-companion-review-client-title review))
         (text (gemini-companion-review-current-text review))
         (after (gemini-companion-decide--count-lines text))
         (before (gemini-companion-decide--count-lines
                  (or (gemini-companion-review-base review) ""))))
    (cond ((string-empty-p text)
           (unless (string-empty-p (gemini-companion-review-proposed review))
             (format "%s ignores an empty text, and would write its own proposal.  Accept? "
                     title)))
          ((gemini-companion-change-deletion-p before after)
           (format "%s would write a text of %d lines in place of %d lines.  Accept? "
                   title after before)))))

(defun gemini-companion-decide--count-lines (text)
  "Return the number of newlines in TEXT, which may have megabytes."
  (with-temp-buffer
    ;; Otherwise each byte would be converted.
    (set-buffer-multibyte (multibyte-string-p text))
    (insert text)
    (1- (line-number-at-pos (point-max)))))

;;;; Decisions of clients

;;;###autoload
(defun gemini-companion-decide-for-client (id accept call directory)
  "Accept the review ID if ACCEPT is non-nil, else reject it; answer CALL.
DIRECTORY is where the client works, or nil if that is not known."
  ;; A file name from a client must not make Emacs connect to another machine.
  (let ((file-name-handler-alist nil)
        (review (gemini-companion-review-with-id id)))
    (cond
     ;; The client has given up: nobody would know of the decision.
     ((not (gemini-companion-bridge-awaited-p call)))
     ((not review)
      (gemini-companion-bridge-fail call "this diff is not open in Emacs any more"))
     ((gemini-companion-review-host review)
      (gemini-companion-bridge-fail call "Only the user decides changes on another machine"))
     (t
      (condition-case error
          (if accept
              (gemini-companion-decide--accept-for-client review call directory)
            (gemini-companion-review-decide review 'rejected
                                            #'gemini-companion-bridge-reject 'client)
            (gemini-companion-decide--answer-client review 'rejected call))
        (error (gemini-companion-bridge-fail call (gemini-companion-ui-error-text error))))))))
;;;###autoload (put 'decide-review 'gemini-companion-handler #'gemini-companion-decide-for-client)

(defun gemini-companion-decide--accept-for-client (review call directory)
  "Accept REVIEW for its client, or ask the user to do so; answer CALL.
DIRECTORY is as in `gemini-companion-decide-for-client'."
  (pcase gemini-companion-accept-by-client
    ('nil (error "In this Emacs only the user accepts"))
    ('ask
     (let ((file (gemini-companion-decide--check-client review directory)))
       (gemini-companion-review-request
        review
        (lambda (review text) (gemini-companion-decide--write-file review text file directory))
        (lambda (outcome) (gemini-companion-decide--answer-client review outcome call)))))
    (_
     (unless (gemini-companion-review-seen review)
       (error "The user has not seen this diff in Emacs yet"))
     (let ((file (gemini-companion-decide--check-client review directory))
           (text (gemini-companion-review-current-text review)))
       (gemini-companion-review-decide
        review 'accepted
        (lambda (_id) (gemini-companion-decide--write-file review text file directory))
        'client))
     (when (gemini-companion-review-open-p review)
       (error "This diff was decided meanwhile"))
     (gemini-companion-decide--answer-client review 'accepted call))))

(defun gemini-companion-decide--answer-client (review outcome call)
  "Answer CALL: REVIEW has ended with OUTCOME, a symbol."
  (let ((path (gemini-companion-review-path review)))
    (pcase outcome
      ('accepted
       (gemini-companion-bridge-answer call (format "Accepted, and applied to %s" path))
       (gemini-companion-log-errors "reverting a buffer"
         (gemini-companion-write-revert-now path)))
      ('rejected (gemini-companion-bridge-answer call (format "Rejected: %s" path)))
      (_ (gemini-companion-bridge-fail call "This diff was decided meanwhile")))))

(defun gemini-companion-decide--write-file (review text file directory)
  "Write TEXT to FILE, that of REVIEW, then report that it was accepted.
FILE and DIRECTORY are those of `gemini-companion-decide--check-client'.
Return nil if it was decided meanwhile; the file is then as before."
  (let* ((file-name-handler-alist nil)
         (before (gemini-companion-file-read file)))
    ;; The user may have been asked for minutes, in which a program can replace a directory by a link.
    (unless (equal file (file-truename (gemini-companion-review-path review)))
      (error "%s now leads to another file: reject this change"
             (gemini-companion-review-file review)))
    (gemini-companion-decide--check-place review directory)
    ;; First, so that the report is true.
    (gemini-companion-file-write
     file (gemini-companion-file-encode text (gemini-companion-review-base review)))
    (or (gemini-companion-bridge-accept (gemini-companion-review-id review) text)
        (ignore (gemini-companion-file-write file before)))))

;;;; What clients may not accept

(defun gemini-companion-decide--check-client (review directory)
  "Signal an error if only the user may accept REVIEW.
DIRECTORY is as in `gemini-companion-decide-for-client'.  Return the name
of the file without symbolic links."
  (pcase (gemini-companion-review-find-conflict review)
    ('unsaved (error "The user has unsaved edits of this file in Emacs"))
    ('changed (error "The file has changed since this diff was opened")))
  (when (gemini-companion-decide--question review)
    (error "Only the user accepts a text that lacks most of the file"))
  (gemini-companion-decide--check-place review directory))

(defun gemini-companion-decide--check-place (review directory)
  "Signal an error if only the user may change the file of REVIEW.
For DIRECTORY and the value see `gemini-companion-decide--check-client'."
  (let* ((path (gemini-companion-review-path review))
         (file (file-truename path))
         (root (gemini-companion-decide--root file directory)))
    (when-let* ((reason (gemini-companion-context-private-reason-of
                         path (gemini-companion-review-visiting review))))
      (error "Only the user accepts a change to this file: it is %s" reason))
    (when-let* ((reason (or (gemini-companion-decide--guard-reason path root)
                            (gemini-companion-decide--guard-reason file root))))
      (error "Only the user accepts a change to this file: %s" reason))
    ;; What cannot be read could not be written again if the report fails.
    (when (or (eq (gemini-companion-review-bytes review) 'unreadable)
              (not (gemini-companion-decide--writable-p file)))
      (error "This file cannot be read or written"))
    file))

(defun gemini-companion-decide--root (file directory)
  "Return the root of FILE in which a client in DIRECTORY may accept changes.
Signal an error if there is none.  If DIRECTORY is nil or in no root, FILE
may be in any project."
  (let ((names (gemini-companion-workspace-scope-names (gemini-companion-workspace-scope-of directory))))
    (cond ((cl-loop for name in names if (string-prefix-p name file) return name))
          (names
           (error "The client works in another project: only the user accepts this change"))
          ((cdr (gemini-companion-workspace-innermost file 'only-project)))
          (t (error "Outside of projects only the user accepts")))))

(defun gemini-companion-decide--guard-reason (file root)
  "Return why FILE, in the workspace ROOT, can make programs run something.
Return nil if it is not known to."
  (let ((names (split-string file "/" t))
        (below (split-string (string-remove-prefix (file-name-as-directory root) file)
                             "/" t)))
    (cond ((or (cl-intersection (mapcar #'downcase names) '(".git" ".hg" ".svn" ".bzr" ".jj")
                                :test #'equal)
               (gemini-companion-decide--in-repository-p file))
           "it is part of a repository")
          ((cl-some (lambda (name) (string-prefix-p "." name)) below)
           "a name that begins with a dot often configures programs")
          ((and (member (car (last names)) gemini-companion-decide--git-hook-names)
                (string-search "hooks" (or (car (last names 2)) "")))
           "Git runs it")
          ((string-prefix-p (file-name-as-directory (file-truename user-emacs-directory))
                            (file-truename file))
           "Emacs loads such files"))))

(defun gemini-companion-decide--in-repository-p (file)
  "Return non-nil if FILE is in a repository of Git, whatever its name is."
  (cl-loop for directory = (file-name-directory file) then parent
           for parent = (file-name-directory (directory-file-name directory))
           for there = (lambda (name) (file-exists-p (concat directory name)))
           thereis (and (funcall there "HEAD")
                        (or (funcall there "commondir")
                            (and (funcall there "objects/") (funcall there "refs/"))))
           until (equal parent directory)))

(defun gemini-companion-decide--writable-p (file)
  "Return non-nil if FILE is a regular file that can be written, or created."
  (if (file-exists-p file)
      (and (file-regular-p file) (file-readable-p file) (file-writable-p file))
    ;; Its directories may have to be created, too.
    (when-let* ((directory (locate-dominating-file file #'file-directory-p)))
      (file-writable-p directory))))

(provide 'gemini-companion-decide)
;;; gemini-companion-decide.el ends here

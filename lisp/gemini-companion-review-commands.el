;;; gemini-companion-review-commands.el --- The commands that decide a review -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The user's commands for the review of the current buffer, or the one on screen: accept it, reject
;; it, go to it, postpone it, merge into it what it lacks; and the questions that they ask.  In one
;; turn a CLI may propose several changes, one after the other, which the user can accept with one
;; answer.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-bridge)
(require 'gemini-companion-file)
(require 'gemini-companion-history)
(require 'gemini-companion-review)
(require 'gemini-companion-review-effect)
(require 'gemini-companion-review-popup)
(require 'gemini-companion-ui)
(require 'gemini-companion-write)

(declare-function gemini-companion-cli-compose-reject "gemini-companion-cli-compose")

;;;; Accepting and rejecting

;;;###autoload
(defun gemini-companion-accept (&optional review)
  "Accept the proposed change as its text now reads.
The client then writes the file.  This decides the change in the current
buffer, or else the one on screen; from Lisp, REVIEW.  If it is not on
screen, show it, or the oldest, instead.  If accepting would lose something,
ask first."
  (interactive)
  (let* ((review (or review (gemini-companion-review-current)))
         (inside (eq review gemini-companion-review-of-buffer)))
    (when (and (gemini-companion-review-commands--decide
                review #'gemini-companion-review-commands-accept)
               inside)
      ;; After a rejection, the CLI cancels the others.
      (gemini-companion-review-popup-follow))))

;;;###autoload
(defun gemini-companion-reject (&optional with-reason review)
  "Reject the proposed change; the file stays as it is.
This decides the change in the current buffer, or else the one on screen;
from Lisp, REVIEW.  If it is not on screen, show it, or the oldest, instead.
With WITH-REASON, interactively the prefix argument, ask for a reason, which
becomes the next prompt of the client if that runs in a terminal of Emacs."
  (interactive "P")
  (gemini-companion-review-commands--decide (or review (gemini-companion-review-current))
                                            (if with-reason
                                                #'gemini-companion-cli-compose-reject
                                              #'gemini-companion-review-reject)))

(defun gemini-companion-review-commands--decide (review decide)
  "Call DECIDE with REVIEW; if that is not on screen, show it instead."
  (let* ((inside (eq review gemini-companion-review-of-buffer))
         (visible (or inside (gemini-companion-review-on-screen-p review))))
    (when (and visible (not inside))
      (gemini-companion-review-commands-check-early review))
    (when (or visible (not (gemini-companion-review-commands--show-first review)))
      (funcall decide review))))

(defun gemini-companion-review-commands-check-early (review)
  "Refuse a key that decides REVIEW before the user can have looked at it.
It would have shown REVIEW, but that appeared by itself meanwhile, or the same
key has just shown it."
  (when (and (memq this-command '(gemini-companion-accept
                                  gemini-companion-reject
                                  gemini-companion-terminal-interrupt
                                  gemini-companion-review-list-accept))
             ;; A command's name takes longer.
             (not (eq this-original-command 'execute-extended-command))
             (gemini-companion-ui-recent-p (or (gemini-companion-review-seen review) 0)
                                           gemini-companion-ui-reaction-time))
    (user-error "%s has just appeared: check it, then decide"
                (gemini-companion-review-file review))))

(defun gemini-companion-review-commands--show-first (review)
  "Show REVIEW, which a command was about to decide, and say so.
Return nil if it cannot be shown."
  (ignore-errors
    (gemini-companion-review-show review 'keep)
    (unless (gemini-companion-review-on-screen-p review) ; in a frame behind this one
      (gemini-companion-review-visit review))
    ;; Its windows may have been out of sight, or the user may have put it off.
    (setf (gemini-companion-review-seen review) (float-time))
    ;; Not `message': this replaces a pending message that REVIEW still waits.
    (gemini-companion-ui-message review "%s was not on screen: check it, then decide"
                                 (gemini-companion-review-file review))
    t))

(defun gemini-companion-review-commands-accept (review)
  "Accept REVIEW as its text now reads; ask first if that would lose something.
If it has never been on screen, show it instead."
  (cond ((gemini-companion-review-seen review)
         (gemini-companion-review-commands-accept-seen review))
        ((gemini-companion-review-commands--show-first review))
        (t (user-error "%s was never on screen (%s); decide in %s"
                       (gemini-companion-review-file review)
                       (gemini-companion-review-reason review)
                       (gemini-companion-review-agent-title review)))))

(defun gemini-companion-review-commands-accept-seen (review &optional by)
  "Accept REVIEW, which the user has seen or accepts by its name.
BY is as in `gemini-companion-review-decide'; unless it is nil, ask nothing."
  (unless by
    (gemini-companion-review-commands--check review))
  (gemini-companion-ui-delay-gc
    (let ((text (gemini-companion-review-current-text review))
          (tell (or (car (gemini-companion-review-request review))
                    #'gemini-companion-review-commands--tell-accepted)))
      (gemini-companion-review-decide review 'accepted by
                                      (lambda () (funcall tell review text))))))

(defun gemini-companion-review-commands--tell-accepted (review text)
  "Tell the client of REVIEW that the user has accepted TEXT.
Return nil if the client has decided it already."
  (let ((may-omit (gemini-companion-write-may-omit-p review text))
        (before (gemini-companion-file-stamp (gemini-companion-review-path review))))
    (when (gemini-companion-bridge-accept (gemini-companion-review-id review) text may-omit)
      (gemini-companion-write-revert-when-written review text before)
      ;; While the connection to a host is cut, the CLI there may go on without Emacs.
      (gemini-companion-write-await-text
       review text before (not (or may-omit (gemini-companion-review-host review))))
      t)))

;;;; Showing and postponing

;;;###autoload
(defun gemini-companion-review-next ()
  "Select the window of the change on screen; there, show the next one that waits."
  (interactive)
  (let ((current (gemini-companion-review-current))
        (open (gemini-companion-review-all-open)))
    (gemini-companion-review-visit
     (if (and (eq (selected-window) (gemini-companion-review-visible-window current))
              (gemini-companion-review-intact-p current))
         (or (cadr (memq current open)) (car open))
       current))))

;;;###autoload
(defun gemini-companion-review-quit ()
  "Ask whether to accept or reject the change on screen, or decide later."
  (interactive)
  (let* ((review (gemini-companion-review-current))
         (title (gemini-companion-review-agent-title review))
         (answer (gemini-companion-review-ask
                  review
                  (lambda ()
                    (car (read-multiple-choice
                          "Proposed change:"
                          `((?a "accept" ,(concat title " writes the text as it now reads"))
                            (?r "reject" "The file stays as it is")
                            (?l "later" ,(concat title " keeps waiting")))))))))
    (pcase answer
      (?a (gemini-companion-accept review))
      (?r (gemini-companion-review-reject review))
      (_ (gemini-companion-review-postpone review)))))

;;;###autoload
(defun gemini-companion-review-other-view ()
  "Show the change in the other view, with your edits, without dropped hunks."
  (interactive)
  (let* ((review (gemini-companion-review-current))
         (front (gemini-companion-review-front review))
         ;; The frame may have another size than when it was shown.
         (view (if (memq (if (buffer-live-p front) (buffer-local-value 'major-mode front)
                           (gemini-companion-review-view review))
                         '(ediff-mode gemini-companion-review-ediff-show))
                   'gemini-companion-review-inline-show
                 'gemini-companion-review-ediff-show)))
    (when (gemini-companion-review-new-p review)
      (user-error "There is no file, so there is only one view"))
    (setf (gemini-companion-review-with-base review) nil
          (gemini-companion-review-chosen-view review) view)
    (gemini-companion-review-show review 'select)))

;;;###autoload
(defun gemini-companion-review-three-way ()
  "Show or hide the text that the change is based on.
While it is shown, compare the proposed text with your own text, including
unsaved edits."
  (interactive)
  (let ((review (gemini-companion-review-current)))
    (when (and (gemini-companion-review-new-p review)
               ;; It was deleted since, or its buffer has another text, unsaved.
               (not (or (gemini-companion-review-conflict review)
                        (gemini-companion-review-with-base review))))
      (user-error "A new file has only one text"))
    (cl-callf not (gemini-companion-review-with-base review))
    (gemini-companion-review-show review 'select)))

;;;; Merging

;;;###autoload
(defun gemini-companion-review-merge ()
  "Merge your edits to the file into the proposed text, if they do not overlap.
These are your unsaved edits, and what was written to the file since the
client proposed the change.  Save and accept nothing."
  (interactive)
  (let ((review (gemini-companion-review-current)))
    (unless (gemini-companion-review-effect-check-conflict review)
      (user-error "Nothing to merge: the proposed text contains all edits to %s"
                  (gemini-companion-review-file review)))
    (gemini-companion-review-commands--merge review)
    (message "Merged into the proposed text; %s"
             (gemini-companion-ui-key 'gemini-companion-accept "accepts it"))))

(defun gemini-companion-review-commands--merge (review)
  "Merge into the text of REVIEW the edits that it lacks, and show it again."
  (unwind-protect
      (gemini-companion-review-effect-merge review)
    ;; Even if the edits of the buffer overlap, those of the file are merged.
    (gemini-companion-review-show
     review (if (eq gemini-companion-review-of-buffer review) 'select 'keep))))

;;;; Questions before an accept

(defun gemini-companion-review-commands--check (review)
  "Ask before an accept of REVIEW that would lose something.
Signal a `user-error' unless the user wants it."
  (when-let* ((question (gemini-companion-review-effect-question review)))
    (gemini-companion-review-commands-confirm review question))
  (when (gemini-companion-review-effect-check-conflict review)
    (let* ((path (gemini-companion-review-path review))
           (stamp (gemini-companion-file-stamp path)))
      (pcase (gemini-companion-review-ask
              review
              (lambda ()
                (car (read-multiple-choice
                      (concat (gemini-companion-review-effect-warning review) ".")
                      `((?a "accept" "Accept this text in place of what is on disk; \
any unsaved edits stay in their buffer")
                        ,@(unless (eq 'deleted (gemini-companion-review-conflict review))
                            '((?m "merge" "Merge the edits into this text, then decide")))
                        (?t "three-way" "Show all texts side by side, then decide")
                        (?c "cancel" "Decide later"))))))
        ;; The file may have been written while the question was open.
        (?a (unless (equal stamp (gemini-companion-file-stamp path))
              (gemini-companion-review-commands--check review)))
        (?m (gemini-companion-review-commands--merge review)
            (user-error "Merged, but not accepted yet: check the text, then accept it"))
        (?t (setf (gemini-companion-review-with-base review) t)
            (gemini-companion-review-show review 'select)
            (user-error "Not accepted: copy what is missing, then accept again"))
        (_ (user-error "Not accepted"))))))

(defun gemini-companion-review-commands-confirm (review question)
  "Signal a `user-error' unless the user says yes to QUESTION, about REVIEW."
  (unless (gemini-companion-review-ask review (lambda () (gemini-companion-ui-y-or-n-p question)))
    (user-error "Not accepted")))

;;;; All changes of a turn

;; Changes that the client has not proposed yet are accepted as they come.  And if it proposes an
;; accepted change once more, since it did not learn of the accept, that is accepted once more.

(defvar gemini-companion-review-commands--rest nil
  "The changes that the user has accepted before the client proposes them.
A list (REVIEW NAMES TIME): a change of the turn, the files still to come, in
order, and when the last one was accepted.")

(defvar gemini-companion-review-commands--memory 60
  "Seconds for which an accept is remembered.")

(defvar gemini-companion-review-commands--accepted nil
  "What was accepted in the last minute: (REVIEW TEXT TIME AGAIN), newest first.
AGAIN is non-nil if the user had accepted the same before.")

;;;###autoload
(defun gemini-companion-accept-all (&optional review)
  "Ask, naming the files, then accept all changes of this turn of the CLI.
REVIEW is a change of the turn, by default the current one.  This accepts
the changes that wait in Emacs, and those that the CLI will propose next if
its terminal in Emacs shows their files.  If accepting REVIEW would lose
something, ask first; leave other such changes for you to decide."
  (interactive)
  (let* ((review (or review (gemini-companion-review-current)))
         (others (gemini-companion-write-others review))
         (rest (gemini-companion-review-queued review))
         (host (gemini-companion-review-host review))
         (names (mapcar (lambda (path) (gemini-companion-review-name-in-project path host))
                        (append (mapcar #'gemini-companion-review-path (cons review others))
                                rest)))
         ;; All of them should be in sight.
         (max-mini-window-height 0.5)
         (width (- (/ (* 2 (frame-width) (frame-height)) (* 5 (length names))) 2)))
    (gemini-companion-review-commands-confirm
     review (format "Accept %s: %s? " (gemini-companion-ui-count (length names) "change")
                    (mapconcat (lambda (name) (gemini-companion-ui-shorten name (max width 10)))
                               names ", ")))
    ;; The user may quit when asked about it, or have said no in the CLI.
    (when (gemini-companion-review-commands-accept-seen review)
      (dolist (each others)
        (when (and (gemini-companion-review-open-p each)
                   (gemini-companion-review-effect-harmless-p each))
          (gemini-companion-review-commands-accept-seen each)))
      (setq gemini-companion-review-commands--rest (and rest (list review rest (float-time)))))))

(defun gemini-companion-review-commands-forget-rest ()
  "Accept no more changes in advance."
  (setq gemini-companion-review-commands--rest nil))

(defun gemini-companion-review-commands-rest-of ()
  "Return the review with which the user has accepted others in advance, or nil."
  (car gemini-companion-review-commands--rest))

(defun gemini-companion-review-commands--accept-rest (review)
  "If the user has accepted REVIEW in advance, accept it, and return non-nil."
  (pcase-let* ((`(,first ,names ,time) gemini-companion-review-commands--rest)
               (names (member (gemini-companion-review-path review) names))
               (rest (cdr names)))
    (when (and first
               (gemini-companion-review-same-client-p first review)
               (gemini-companion-ui-recent-p time 30)
               names
               (gemini-companion-review-effect-harmless-p review))
      (setq gemini-companion-review-commands--rest (and rest (list first rest (float-time))))
      (gemini-companion-review-commands-accept-seen review 'rule))))

(defun gemini-companion-review-commands-last-accept ()
  "Return the review that was accepted last, within a minute, and when, or nil."
  (pcase (car gemini-companion-review-commands--accepted)
    (`(,review ,_ ,time . ,_) (cons review time))))

;;;###autoload
(defun gemini-companion-review-commands-remember (review outcome)
  "If the OUTCOME of REVIEW is that it was accepted, remember that.
If Emacs has written the file, that is not needed."
  (when (and (eq outcome 'accepted) (not (gemini-companion-review-request review)))
    (let ((accepted (list review (gemini-companion-review-current-text review) (float-time) nil)))
      (push accepted gemini-companion-review-commands--accepted)
      (run-at-time gemini-companion-review-commands--memory nil
                   #'gemini-companion-review-commands--forget-accept accepted))))
;;;###autoload (add-hook 'gemini-companion-review-end-functions #'gemini-companion-review-commands-remember)

(defun gemini-companion-review-commands--forget-accept (accepted)
  "Forget ACCEPTED, an element of `gemini-companion-review-commands--accepted'."
  (setq gemini-companion-review-commands--accepted
        (delq accepted gemini-companion-review-commands--accepted)))

(defun gemini-companion-review-commands--accept-again (review)
  "Accept REVIEW if the user has just accepted the same; return non-nil if so.
A CLI that was interrupted when it asked ignores the accept, and asks again."
  (when-let* ((before (seq-find (pcase-lambda (`(,earlier ,_ ,_ ,again))
                                  ;; Only once: a client may be unable to write.
                                  (and (not again)
                                       ;; The user may have removed a new file since.
                                       (not (gemini-companion-history-written
                                             (gemini-companion-review-entry earlier)))
                                       (gemini-companion-review-commands--same-p earlier review)))
                                gemini-companion-review-commands--accepted))
              ((null (gemini-companion-review-effect-conflict review))))
    (gemini-companion-review-commands--forget-accept before)
    (gemini-companion-history-note (gemini-companion-review-entry (car before)) 'cancelled)
    (setf (gemini-companion-review-text review) (nth 1 before))
    (prog1 (gemini-companion-review-commands-accept-seen review 'rule)
      (when-let* ((now (assq review gemini-companion-review-commands--accepted)))
        (setf (nth 3 now) t)))))

(defun gemini-companion-review-commands--same-p (one other)
  "Return non-nil if the reviews ONE and OTHER propose the same, to the same text."
  (and (gemini-companion-review-same-client-p one other)
       (equal (gemini-companion-review-path one) (gemini-companion-review-path other))
       (equal (gemini-companion-review-stamp one) (gemini-companion-review-stamp other))
       (equal (gemini-companion-review-proposed one) (gemini-companion-review-proposed other))))

(defun gemini-companion-review-commands-forget ()
  "Forget what the user has accepted, since the companion stops."
  (cancel-function-timers #'gemini-companion-review-commands--forget-accept)
  (setq gemini-companion-review-commands--rest nil
        gemini-companion-review-commands--accepted nil))

(add-hook 'gemini-companion-mode-off-hook #'gemini-companion-review-commands-forget)

;;;###autoload
(defun gemini-companion-review-commands-at-once (review)
  "Accept REVIEW, and return non-nil, if the user has accepted it before."
  (or (gemini-companion-review-commands--accept-rest review)
      (gemini-companion-review-commands--accept-again review)))
;;;###autoload (add-hook 'gemini-companion-review-decide-functions #'gemini-companion-review-commands-at-once)

(provide 'gemini-companion-review-commands)
;;; gemini-companion-review-commands.el ends here

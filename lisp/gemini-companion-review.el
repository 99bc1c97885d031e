;;; gemini-companion-review.el --- Proposed changes, and their states -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A review is one proposed change to one file, from the client's proposal to its outcome.  It is in
;; one of these states; only the functions below "State" move it to another one:
;;
;;   waiting    open, not on screen; shown automatically as soon as nothing holds it back
;;   shown      open, put on screen; one review at a time is, even if the user does not see it now
;;   postponed  open, not on screen; shown again when the user asks for it
;;   failed     open, could not be shown; tried again when the user asks for it
;;   ended      accepted, rejected, closed by its client...; it stays so
;;
;; The user and clients act at the same time: see "Invariants" in ARCHITECTURE.md.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-change)
(require 'gemini-companion-file)
(require 'gemini-companion-history)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function gemini-companion-cli-terminals-call-following "gemini-companion-cli-terminals")

;;;; Options

(defcustom gemini-companion-diff-function 'auto
  "Function that shows a change.
If `auto', use Ediff where its windows fit side by side with 80 columns
each, or one above the other with 12 lines each; in a smaller frame, use the
window of the file.  Space that a terminal beside or below takes does not
count.
`gemini-companion-review-ediff-show' compares the file and the proposed text in
Ediff.  `gemini-companion-review-inline-show' shows the proposed text, with the
lines that the change removes, in the window of the file.
\\<gemini-companion-review-mode-map>\\[gemini-companion-review-other-view] \
shows a change in the other view.

Any other function is called with a `gemini-companion-review' and `keep' or
`select', as in `gemini-companion-diff-focus'.  It displays the buffer that
`gemini-companion-review-buffer-proposal' returns, and returns a function of no
arguments that takes the change off the screen again."
  :group 'gemini-companion-review
  :type '(choice (const :tag "Ediff, or the file's window in a small frame" auto)
                 (function-item :tag "Ediff" gemini-companion-review-ediff-show)
                 (function-item :tag "In the window of the file"
                                gemini-companion-review-inline-show)
                 (function :tag "Another function"))
  :risky t)

(defcustom gemini-companion-review-waiting-hook nil
  "Hook run when a change begins to wait, and when one appears.
While it runs, `gemini-companion-review-waiting' is the change; for example,
`gemini-companion-review-path' returns the name of its file."
  :group 'gemini-companion-review
  :type 'hook)

;;;; The record

(cl-defstruct (gemini-companion-review
               (:constructor gemini-companion-review-make)
               (:copier nil))
  "One proposed change to one file."
  ;; What the client has said.
  (id nil :documentation "The number by which the native module knows it.")
  (agent nil :documentation "The name of its program, as in `gemini-companion-agent-profiles'.")
  (client nil :documentation "The name of the client, for the user.")
  (info nil :documentation "A cons of the name and the version that the client reports.")
  (process nil :documentation "The process id of the client, as in `gemini-companion-cli'.")
  (path nil :documentation "The absolute name of the file, exactly as the client wrote it,
after the prefix of the host.")
  (host nil :documentation "The prefix of the host that the file is on, nil if it is local.")
  (proposed nil :documentation "The text as the client proposed it.")
  (created nil :documentation "The time at which it was proposed.")
  (prompt nil :documentation "The prompt that led to it, (TEXT . TIME); `eq' for all its changes.")
  (queued nil :documentation "The files whose changes follow, as the screen of its client shows.")
  (request nil :documentation "While its client asks the user to accept it, (WRITER . WAITER), see
`gemini-companion-review-request-accept'.")
  ;; Where it is.
  (state 'waiting :documentation "See the commentary of gemini-companion-review.el.")
  (reason nil :documentation "Why, as text for the user: the first condition that holds it back,
why it cannot be shown, or how it ended.")
  (seen nil :documentation "When it was on screen first, in seconds since 1970, or nil.")
  (hide-function nil :documentation "While on screen, a function that takes it off.")
  (front nil :documentation "While on screen, the main buffer of its view, or nil.")
  (intact-function nil :documentation "While on screen, a function that tells if all is visible,
or nil.")
  (chosen-view nil :documentation "The function by which the user wants it shown, or nil.")
  (with-base nil :documentation "Non-nil to show also the text from which it was made.")
  (entry nil :documentation "Once it has ended, its `gemini-companion-history-entry'.")
  ;; Its text, and what it was made from.
  (proposal nil :documentation "The buffer with the proposal, which the user may edit, or nil.")
  (text nil :documentation "The text as it was last read from `proposal'.")
  (tick nil :documentation "The modification tick of `proposal' then.")
  (comments nil :documentation "The comments of the user when `proposal' was last killed,
see `gemini-companion-comment-save'.")
  (base nil :documentation "The contents of the file when the client proposed, or at the last
merge, as bytes; nil if there was no file.")
  (stamp nil :documentation "The stamp of the file then, see `gemini-companion-file-stamp'.")
  (unmerged nil :documentation "A list of (TEXT BASE STAMP): `text', `base' and `stamp' before each
merge into it, the last one first.")
  (conflict nil :documentation "What an accept would lose, as last checked, see
`gemini-companion-review-effect-check-conflict'.")
  ;; What took long to compute.
  (results nil :documentation "Alist of functions and (ARGUMENTS . VALUE), see
`gemini-companion-review-call-once'."))

(defvar-local gemini-companion-review-of-buffer nil
  "The review to which this buffer belongs.")
(put 'gemini-companion-review-of-buffer 'permanent-local t)

;;;; Hooks

(defvar gemini-companion-review-change-hook nil
  "Hook run when the list of open reviews, or one of them, has changed.")

(defvar gemini-companion-review-decide-functions nil
  "Functions that may decide a review at once, because the user wants that.
Each is called with the new review, and returns non-nil if it has decided it.")

(defvar gemini-companion-review-waiting-functions nil
  "Functions called with a review that was proposed, or is shown.
For this package; users have `gemini-companion-review-waiting-hook'.")

(defvar gemini-companion-review-end-functions nil
  "Functions called with a review that has ended, and its outcome, a symbol.")

(defvar gemini-companion-review-waiting nil
  "While `gemini-companion-review-waiting-hook' runs, the review in question.")

;;;; All reviews

(defvar gemini-companion-review--open nil
  "The reviews that await a decision, the oldest first.")

(defvar gemini-companion-review--ended-on-screen nil
  "Reviews that have ended, but are still on screen because the user was busy.")

(defun gemini-companion-review-open-p (review)
  "Return non-nil if REVIEW still awaits a decision."
  (not (eq (gemini-companion-review-state review) 'ended)))

(defun gemini-companion-review-check-open (review)
  "Return REVIEW; if it has ended, signal a `user-error' that says how."
  (if (gemini-companion-review-open-p review) review
    (user-error "%s: %s" (gemini-companion-review-file review)
                (gemini-companion-review-reason review))))

(defun gemini-companion-review-check-here (here)
  "Signal a `user-error' if HERE is nil.
\\[execute-extended-command] calls commands of a review in any buffer."
  (unless here
    (user-error "No proposed change is shown here")))

(defun gemini-companion-review-all-open ()
  "Return the reviews that await a decision, the oldest first."
  (copy-sequence gemini-companion-review--open))

(defun gemini-companion-review-count ()
  "Return the number of reviews that await a decision."
  (length gemini-companion-review--open))

(defun gemini-companion-review-with-id (id)
  "Return the open review with ID, or nil."
  (cl-loop for review in gemini-companion-review--open
           if (eql (gemini-companion-review-id review) id) return review))

(defun gemini-companion-review-shown ()
  "Return the open review that was shown, or nil; it may be out of sight."
  (seq-find #'gemini-companion-review-shown-p gemini-companion-review--open))

(defun gemini-companion-review-shown-p (review)
  "Return non-nil if REVIEW is open, and was shown; it may be out of sight."
  (eq (gemini-companion-review-state review) 'shown))

(defun gemini-companion-review-on-screen-p (review)
  "Return non-nil if the user can see REVIEW on the selected terminal."
  (and (gemini-companion-review-hide-function review)
       (gemini-companion-review-visible-window review)))

(defun gemini-companion-review-visible-window (review)
  "Return a window on the selected terminal that shows REVIEW, or nil."
  (or (gemini-companion-ui-window-of (gemini-companion-review-front review))
      (gemini-companion-ui-window-of (gemini-companion-review-proposal review))))

(defun gemini-companion-review-intact-p (review)
  "Return non-nil if all of REVIEW is on screen, as it was shown."
  (let ((intact (gemini-companion-review-intact-function review)))
    (and (gemini-companion-review-on-screen-p review)
         (or (null intact) (funcall intact)))))

(defun gemini-companion-review-current ()
  "Return the review to which a command applies.
That is the one of the current buffer, else the one on screen, else the
oldest.  Signal a `user-error' if there is none, or if the one of the
current buffer has ended; then take that off the screen."
  (let ((mine gemini-companion-review-of-buffer))
    (cond ((null mine)
           (or (gemini-companion-review-shown)
               (car gemini-companion-review--open)
               (user-error "No change awaits your decision")))
          ((gemini-companion-review-open-p mine) mine)
          (t
           (gemini-companion-review--remove mine)
           (gemini-companion-review-check-open mine)))))

;;;; State: proposed

(defun gemini-companion-review-add (review)
  "Let REVIEW, which a client has just proposed, wait for a decision."
  (setq gemini-companion-review--open (append gemini-companion-review--open (list review)))
  (pcase-let (((cl-struct gemini-companion-review id path client) review))
    (gemini-companion-log-add "review %d opened: %s (%s)" id path client))
  (gemini-companion-review-note-change)
  (unless (gemini-companion-log-errors "deciding a change"
            (run-hook-with-args-until-success 'gemini-companion-review-decide-functions review))
    (gemini-companion-review--run-waiting-hook review)))

(defun gemini-companion-review-request-accept (review writer waiter)
  "Ask the user to accept REVIEW, for its client.
WRITER writes the file and tells the client.  It is called with REVIEW and
the text, and returns nil if REVIEW was decided meanwhile.  WAITER is called
with the outcome.  An earlier WAITER is called with `asked-again'."
  (when-let* ((before (cdr (gemini-companion-review-request review))))
    (funcall before 'asked-again))
  (setf (gemini-companion-review-request review) (cons writer waiter))
  ;; Show it again.
  (unless (gemini-companion-review-shown-p review)
    (gemini-companion-review--enter review 'waiting))
  (gemini-companion-review-note-change)
  (gemini-companion-ui-message
   review "%s asks you to accept the change to %s"
   (gemini-companion-review-agent-title review) (gemini-companion-review-file review)))

(defun gemini-companion-review--enter (review state &optional reason)
  "Move REVIEW to STATE for REASON, text for the user or nil.
One that has ended stays so."
  (unless (or (not (or (eq state 'ended) (gemini-companion-review-open-p review)))
              (and (eq state (gemini-companion-review-state review))
                   (equal reason (gemini-companion-review-reason review))))
    (setf (gemini-companion-review-state review) state
          (gemini-companion-review-reason review) reason)
    (gemini-companion-log-add "review %d: %s" (gemini-companion-review-id review)
                              (or reason state))))

(defun gemini-companion-review-note-reason (review reason)
  "Record that REASON, text for the user or nil, is why REVIEW is in its state."
  (gemini-companion-review--enter review (gemini-companion-review-state review) reason))

(defun gemini-companion-review-note-change ()
  "Update all that depends on the open reviews, of which one has changed."
  (funcall (if gemini-companion-review--open #'add-hook #'remove-hook)
           'window-selection-change-functions #'gemini-companion-review--note-selection)
  (force-mode-line-update t)
  (gemini-companion-log-run-hook 'gemini-companion-review-change-hook))

(defun gemini-companion-review--note-selection (&rest _)
  "Make header lines show the keys that work in the window now selected."
  (force-mode-line-update t))

(defun gemini-companion-review-query-exit (&optional verb)
  "Return non-nil if Emacs may exit; ask if a change or a CLI awaits a decision.
VERB is what Emacs does instead of exiting, if that ends all reviews, too."
  (let ((ask (lambda (count one many)
               (or (zerop count)
                   (yes-or-no-p (format (ngettext one many count) (or verb "exit") count))))))
    (or (not (gemini-companion-ui-user-frame-p))
        (and (funcall ask (gemini-companion-review-count)
                      "A proposed change waits for your decision.  Reject it and %s? "
                      "%2$d changes wait for your decision.  Reject them and %1$s? ")
             (funcall ask (max (apply #'+ (mapcar #'gemini-companion-bridge-session-outcomes
                                                  (gemini-companion-bridge-sessions)))
                               (gemini-companion-history-count-unconfirmed))
                      "A decision may not have reached its CLI.  Perhaps lose it and %s? "
                      "%2$d decisions may not have reached their CLIs.  \
Perhaps lose them and %1$s? ")
             (progn
               (when-let* ((review (gemini-companion-review-shown)))
                 ;; Desktop saves the windows before `kill-emacs-hook' is run.
                 (gemini-companion-review--hide review)
                 ;; The user may say no to the next question, and Emacs stay.
                 (gemini-companion-review--enter review 'waiting)
                 (gemini-companion-review-note-change))
               t)))))

(defun gemini-companion-review--run-waiting-hook (review)
  "Run the hooks for REVIEW, which was proposed or is shown."
  (let ((gemini-companion-review-waiting review))
    (gemini-companion-log-run-hook 'gemini-companion-review-waiting-hook))
  (gemini-companion-log-run-hook 'gemini-companion-review-waiting-functions review))

;;;; State: on screen or not

(defun gemini-companion-review-view (&optional review)
  "Return the function that shows REVIEW in the selected frame.
`gemini-companion-diff-function' decides, unless the user has chosen another."
  (let ((view (or (and review (gemini-companion-review-chosen-view review))
                  gemini-companion-diff-function)))
    (cond ((not (memq view '(auto gemini-companion-review-ediff-show
                                  gemini-companion-review-inline-show)))
           view)
          ;; Only Ediff shows three texts; and if there is only one, it has nothing to compare.
          ((and review (gemini-companion-review-with-base review))
           'gemini-companion-review-ediff-show)
          ((and review (gemini-companion-review-new-p review))
           'gemini-companion-review-inline-show)
          ((not (eq view 'auto)) view)
          ;; Side windows, such as those of terminals, do not count.
          ((let ((columns (window-total-width (window-main-window)))
                 (lines (window-total-height (window-main-window))))
             ;; Ediff's windows side by side, or above each other, are large enough then.
             (or (and (>= columns 160) (>= lines 23))
                 (and (>= columns 80) (>= lines 41))))
           'gemini-companion-review-ediff-show)
          (t 'gemini-companion-review-inline-show))))

(defun gemini-companion-review-new-p (review)
  "Return non-nil if the file of REVIEW does not exist."
  (not (gemini-companion-file-exists-p (gemini-companion-review-path review))))

(defun gemini-companion-review-show (review focus)
  "Show REVIEW, again if it is on screen, in place of the one that is shown.
FOCUS is `select' or `keep', as in `gemini-companion-diff-focus'.  If
REVIEW cannot be shown, record why, and signal the error."
  (gemini-companion-review-check-open review)
  (gemini-companion-ui-check-frame)
  (gemini-companion-review-remove-ended 'now)
  (when-let* ((shown (gemini-companion-review-shown)))
    (gemini-companion-review--hide shown))
  (condition-case error
      (let ((hide (funcall (gemini-companion-review-view review) review focus)))
        (unless (functionp hide)
          (error "`gemini-companion-diff-function' has not returned a function"))
        (setf (gemini-companion-review-hide-function review) hide)
        (cl-callf or (gemini-companion-review-seen review) (float-time))
        (unless (gemini-companion-review-open-p review)
          ;; The view has waited, and the client decided meanwhile.
          (gemini-companion-review--remove review)
          (gemini-companion-review-check-open review))
        (gemini-companion-review--enter review 'shown))
    ((error quit)
     (gemini-companion-review--hide review)
     (if (eq (car error) 'quit)
         (gemini-companion-review--enter review 'postponed)
       (gemini-companion-review--enter
        review 'failed (concat "cannot be shown: " (gemini-companion-ui-error-text error))))
     (gemini-companion-review-note-change)
     (signal (car error) (cdr error))))
  (gemini-companion-review-note-change)
  (gemini-companion-review--run-waiting-hook review))

(defun gemini-companion-review-visit (review)
  "Select REVIEW; if a part of it is not visible, show it in the selected frame."
  (if (not (gemini-companion-review-intact-p review))
      ;; Its windows may have been deleted, or be on another terminal.
      (gemini-companion-review-show review 'select)
    (let ((window (gemini-companion-review-visible-window review)))
      (select-frame-set-input-focus (window-frame window))
      (select-window window))))

(defun gemini-companion-review--hide (review)
  "Take REVIEW off the screen if it is there; if it is open, it is postponed."
  (when-let* ((hide (gemini-companion-review-hide-function review))
              (inhibit-quit t))         ; all or nothing
    (setf (gemini-companion-review-hide-function review) nil)
    (when (gemini-companion-review-open-p review)
      (gemini-companion-review--enter review 'postponed))
    (gemini-companion-log-errors "hiding a review" (funcall hide))))

(defun gemini-companion-review-postpone (review)
  "Take REVIEW off the screen, undecided; it is not shown again automatically.
But if the last frame of a daemon was closed, it waits for the next one."
  (gemini-companion-review--hide review)
  (gemini-companion-review--enter review
                                  (if (gemini-companion-ui-seen-p) 'postponed 'waiting))
  (gemini-companion-review-note-change)
  (gemini-companion-review-remind review))

(defun gemini-companion-review-remind (review)
  "Tell the user that REVIEW, which is not on screen, still waits."
  (gemini-companion-ui-message
   review "%s still waits: %s" (gemini-companion-review-agent-title review)
   (gemini-companion-ui-key 'gemini-companion-review-next "shows the change again")))

(defun gemini-companion-review-dismissed (review)
  "Postpone REVIEW, whose view the user has closed; if it has ended, let it go."
  (gemini-companion-log-errors "a closed review"
    (if (gemini-companion-review-open-p review)
        (gemini-companion-review-postpone review)
      (gemini-companion-review--remove review))))

;;;; State: decided

(defun gemini-companion-review-ask (review question)
  "Call QUESTION, a function that asks the user about REVIEW, and return its value.
Signal a `user-error' if REVIEW has ended meanwhile, or the frame was closed:
the next key was meant for something else."
  (gemini-companion-ui-check-frame)
  (let ((frame (selected-frame)))
    (prog1 (gemini-companion-cli-terminals-call-following
            (lambda () (gemini-companion-ui-ask question)))
      (gemini-companion-review-check-open review)
      (unless (frame-live-p frame)
        (user-error "The frame with this question was closed")))))

(defun gemini-companion-review-decide (review outcome &optional by accept)
  "End REVIEW with OUTCOME, a symbol; return nil if its client has decided already.
BY is nil if a command of the user decides, `client' if the client does, and
`rule' if the user has decided in advance.  ACCEPT is called to tell the
client of an accept, and returns nil if it is too late; without ACCEPT, tell
the client that REVIEW was rejected."
  (let (;; The client may write the file after the report.
        (before (gemini-companion-review-bytes review))
        ;; Once the client knows, a quit would leave the review open, and its comments unsent.
        (inhibit-quit t)
        (file (gemini-companion-review-file review))
        (title (gemini-companion-review-agent-title review)))
    (cond ((not (if accept (funcall accept)
                  (gemini-companion-bridge-reject (gemini-companion-review-id review))))
           ;; The event `close-review' must be answered with the present text.
           (gemini-companion-bridge-drain)
           (unless by
             (message "The change to %s has already been decided in %s" file title))
           nil)
          (t
           (gemini-companion-review-end
            review outcome before
            (if (eq by 'client) (format "%s in %s" outcome title) (symbol-name outcome))
            (not by))
           (unless by
             (message "Change to %s %s%s" file outcome
                      (gemini-companion-review--consequence review outcome)))
           t))))

(defun gemini-companion-review--consequence (review outcome)
  "Return what else OUTCOME of REVIEW means in its turn, as the end of a message."
  (let ((rest (length (gemini-companion-review-queued review)))
        (host (gemini-companion-host-named (gemini-companion-review-host review))))
    (concat
     (unless (or (zerop rest) (not (eq outcome 'rejected)))
       (format (ngettext "; %s cancels %d more that waits behind it"
                         "; %s cancels %d more that wait behind it" rest)
               (gemini-companion-review-agent-title review) rest))
     (when (and host (gemini-companion-host-lost host))
       (format "; %s is told when %s is connected again"
               (gemini-companion-review-agent-title review)
               (gemini-companion-host-title (gemini-companion-host-prefix host)))))))

(defun gemini-companion-review-reject (review)
  "Reject REVIEW; the file stays as it is.
Return nil if its client has decided it already."
  (gemini-companion-review-decide review 'rejected))

(defun gemini-companion-review-cancel (review)
  "End REVIEW, which its client has given up without saying so.
The client proposes nothing else until this has an outcome, so send one."
  (when (gemini-companion-review-open-p review)
    (gemini-companion-review-decide review 'cancelled 'client)))

(defun gemini-companion-review-end (review outcome before reason &optional at-once)
  "End REVIEW with OUTCOME, a symbol, for REASON, text for the user.
BEFORE is what its file contained until then.  If AT-ONCE is non-nil, a
command that tells the user has ended it: take it off the screen at once.
Otherwise, tell the user, and do so when the user is not busy."
  (pcase-let (((cl-struct gemini-companion-review client path host prompt request proposal) review))
    (when (buffer-live-p proposal)
      (with-current-buffer proposal
        ;; Whatever the user types from now on would be lost.
        (setq buffer-read-only t)))
    (gemini-companion-ui-drop-message review)
    (gemini-companion-review--enter review 'ended reason)
    (setq gemini-companion-review--open (delq review gemini-companion-review--open))
    (gemini-companion-log-errors "the history"
      (setf (gemini-companion-review-entry review)
            (gemini-companion-history-add
             :client client :path path :host host :prompt prompt :outcome outcome
             :before before :after (gemini-companion-review-current-text review))))
    (when request
      (gemini-companion-log-errors "telling an outcome" (funcall (cdr request) outcome)))
    ;; What the hook says, for example where comments are now, is more important.
    (unless at-once
      (gemini-companion-review-announce-ending review))
    (gemini-companion-log-run-hook 'gemini-companion-review-end-functions review outcome)
    (push review gemini-companion-review--ended-on-screen)
    (if at-once (gemini-companion-review--remove review)
      (gemini-companion-review-remove-ended)))
  (gemini-companion-review-note-change))

(defun gemini-companion-review-end-all ()
  "Reject all reviews, since the companion stops.
If a command has stopped it, also take them off the screen at once."
  (dolist (review (gemini-companion-review-all-open))
    (gemini-companion-log-errors "ending a review"
      ;; A hook may have ended it with another one.
      (when (gemini-companion-review-open-p review)
        (gemini-companion-review-end review 'rejected (gemini-companion-review-bytes review)
                                     "rejected, the companion was turned off"))))
  ;; If the server has died, the user may be typing.
  (when (and this-command (not (active-minibuffer-window)))
    (gemini-companion-review-remove-ended 'now))
  ;; A hook may have signaled an error, or a quit, before the end of one was noted.
  (gemini-companion-review-note-change))

(defun gemini-companion-review-announce-ending (review)
  "Tell the user how REVIEW has ended."
  (gemini-companion-ui-message review "%s: %s" (gemini-companion-review-file review)
                               (gemini-companion-review-reason review)))

(defun gemini-companion-review-where-edits-are (review)
  "Return where the user's edits of REVIEW are, if any, as the end of a message."
  (unless (equal (gemini-companion-review-current-text review)
                 (gemini-companion-review-proposed review))
    "; your edits are in M-x gemini-companion-history-list"))

;;;; Ended, but still on screen

(defun gemini-companion-review-ended-on-screen-p ()
  "Return non-nil if a review that has ended is still on screen."
  (and gemini-companion-review--ended-on-screen t))

(defun gemini-companion-review-remove-ended (&optional now)
  "Take reviews that have ended off the screen, unless the user is busy there.
If NOW is non-nil, do so even then."
  (dolist (review gemini-companion-review--ended-on-screen)
    (when (or now (gemini-companion-review--may-remove-p review))
      (gemini-companion-review--remove review))))

(defun gemini-companion-review--may-remove-p (review)
  "Return non-nil if REVIEW, which has ended, may be taken off the screen.
If one of its windows is selected, the next key would go to another buffer."
  (or (not (or (gemini-companion-review-hide-function review)
               ;; The user may look at the proposal of a postponed review.
               (gemini-companion-ui-window-of (gemini-companion-review-proposal review))))
      (and (not (gemini-companion-ui-key-expected))
           (or (not (eq review (buffer-local-value 'gemini-companion-review-of-buffer
                                                   (window-buffer))))
               (null (frame-focus-state))
               (gemini-companion-ui-idle-p 2)))))

(defun gemini-companion-review--remove (review)
  "Take REVIEW, which has ended, off the screen, and kill its proposal."
  (cl-callf2 remq review gemini-companion-review--ended-on-screen)
  (unwind-protect
      (gemini-companion-review--hide review)
    (gemini-companion-log-errors "killing a proposal"
      (gemini-companion-ui-kill-buffer (gemini-companion-review-proposal review)))))

;;;; Texts and names

(defconst gemini-companion-review-no-unicode "[^\0-\ud7ff\ue000-\U0010ffff]"
  "Regexp for what a buffer can contain, but not the text that a client gets.")

(defun gemini-companion-review-current-text (review)
  "Return the present text of the proposal of REVIEW, as its client gets it.
That has U+FFFD in place of bytes that are no characters."
  (unless (gemini-companion-review-text-known-p review)
    (let* ((proposal (gemini-companion-review-proposal review))
           (text (gemini-companion-review-text-of-buffer proposal))
           (case-fold-search nil))      ; with it, compiling the regexp would take 5 ms
      (setf (gemini-companion-review-text review)
            ;; Searching 10 MB takes 0.2 s.
            (if (gemini-companion-change-ascii-p text) text
              (replace-regexp-in-string gemini-companion-review-no-unicode "\ufffd" text t t))
            (gemini-companion-review-tick review) (buffer-chars-modified-tick proposal))))
  (gemini-companion-review-text review))

(defun gemini-companion-review-text-known-p (review)
  "Return non-nil unless the proposal of REVIEW was edited since it was last read."
  (let ((proposal (gemini-companion-review-proposal review)))
    (or (not (buffer-live-p proposal))
        (eql (buffer-chars-modified-tick proposal) (gemini-companion-review-tick review)))))

(defun gemini-companion-review-text-of-buffer (buffer)
  "Return the whole text of BUFFER."
  (with-current-buffer buffer
    (gemini-companion-ui-widened
      (buffer-substring-no-properties (point-min) (point-max)))))

(defun gemini-companion-review-file (review)
  "Return the name of the file of REVIEW without its directory, for the user."
  (gemini-companion-file-short-title (gemini-companion-review-path review)
                                     (gemini-companion-review-host review)))

(defun gemini-companion-review-path-in-project (review)
  "Return the name of the file of REVIEW relative to its project, for the user."
  (gemini-companion-review-name-in-project (gemini-companion-review-path review)
                                           (gemini-companion-review-host review)))

(defun gemini-companion-review-name-in-project (path host &optional with-project)
  "Return the file name PATH relative to its project, for the user.
HOST is as in `gemini-companion-review'.  If WITH-PROJECT is non-nil, the
name begins with that of the project."
  (if host (gemini-companion-file-title path host)
    (let* ((file-name-handler-alist nil)
           (path (expand-file-name path))) ; on Windows, CLIs use backslashes
      (gemini-companion-ui-one-line
       (if-let* ((root (cdr (gemini-companion-workspace-innermost path))))
           (if with-project (gemini-companion-workspace-title path root)
             (string-remove-prefix root path))
         (gemini-companion-file-abbreviate path))))))

(defun gemini-companion-review-agent-title (review)
  "Return the name of the program of REVIEW, for the user."
  (or (gemini-companion-agent-get (gemini-companion-review-agent review) :title)
      (gemini-companion-ui-one-line (gemini-companion-review-client review))))

(defun gemini-companion-review-same-client-p (one other)
  "Return non-nil if the reviews ONE and OTHER are of the same client.
The process of one of them may be unknown."
  (let ((process (gemini-companion-review-process one))
        (another (gemini-companion-review-process other)))
    (and (equal (gemini-companion-review-client one) (gemini-companion-review-client other))
         (or (null process) (null another) (equal process another)))))

(defun gemini-companion-review-position (review)
  "Return (NUMBER . COUNT): REVIEW is the NUMBERth of COUNT changes that wait.
These are open, or queued behind REVIEW.  Return nil if there is no other."
  (let* ((open (gemini-companion-review-all-open))
         (count (+ (length open) (length (gemini-companion-review-queued review)))))
    (and (> count 1) (memq review open)
         (cons (- (length open) (length (memq review open)) -1) count))))

(defun gemini-companion-review-visiting (review)
  "Return the buffer that visits the file of REVIEW, or nil."
  (gemini-companion-file-visiting (gemini-companion-review-path review)))

(defun gemini-companion-review-call-once (review function &rest arguments)
  "Return the value of FUNCTION for ARGUMENTS, texts of REVIEW.
REVIEW keeps the last value, since FUNCTION may take long."
  (let ((known (alist-get function (gemini-companion-review-results review))))
    (cdr (if (equal arguments (car known)) known
           (setf (alist-get function (gemini-companion-review-results review))
                 (cons arguments (apply function arguments)))))))

(defun gemini-companion-review-text-of-file (review bytes)
  "Return BYTES, contents of the file of REVIEW, as text."
  (gemini-companion-review-call-once
   review #'gemini-companion-change-decode
   (gemini-companion-review-path review) bytes (gemini-companion-review-proposed review)))

(defun gemini-companion-review-text-of-visiting (review buffer)
  "Return the text of BUFFER, which visits the file of REVIEW.
If the file has a byte order mark, and the proposal, too, begin with that."
  (gemini-companion-change-mark
   (gemini-companion-review-text-of-buffer buffer)
   (coding-system-get (buffer-local-value 'buffer-file-coding-system buffer) :bom)
   (gemini-companion-review-proposed review)))

(defun gemini-companion-review-before (review)
  "Return the contents of the file from which REVIEW was made, as bytes.
Return nil if there was no file, `unreadable' if it could not be read."
  (or (gemini-companion-review-base review)
      (and (gemini-companion-review-stamp review) 'unreadable)))

(defun gemini-companion-review-bytes (review)
  "Return the present contents of the file of REVIEW as bytes.
Return nil if there is no file, `unreadable' if it cannot be read."
  (let* ((path (gemini-companion-review-path review))
         (stamp (gemini-companion-file-stamp path)))
    (cond ((not stamp) nil)
          ((equal stamp (gemini-companion-review-stamp review))
           (gemini-companion-review-before review))
          ((gemini-companion-file-read path))
          (t 'unreadable))))

(provide 'gemini-companion-review)
;;; gemini-companion-review.el ends here

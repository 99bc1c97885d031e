;;; gemini-companion-queue.el --- The reviews that wait for a decision -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A review is always in one of four states, and only this file moves it from one to another:
;;
;;   waiting  in the queue, not on screen: it has not been shown yet, or was put off
;;   shown    on screen; one review at a time is
;;   asked    on screen or not, while a question about it is in the minibuffer
;;   ended    accepted, rejected, or closed by its client; nothing leaves this state
;;
;; The user and clients act at the same time, so three rules hold.  A command refers to one review,
;; and checks after each question whether the client has closed it.  What was never on screen is
;; not decided, but shown.  And a client is answered at once, but windows change only while the
;; user is not busy.
;;
;; `gemini-companion-diff-function' shows a review.  After an accept the client writes the file,
;; not Emacs.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-bridge)
(require 'gemini-companion-comment)
(require 'gemini-companion-file)
(require 'gemini-companion-history)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)
(require 'gemini-companion-write)

;;;; Options

(defcustom gemini-companion-diff-function 'auto
  "Function that shows a review.
If `auto', use Ediff in a frame in which its windows are side by side with
80 columns each, or have 12 lines, and show the change in the window of its
file in a smaller one.  What a terminal beside or below takes does not count.
`gemini-companion-ediff-show' compares the file and the proposal in Ediff.
`gemini-companion-inline-show' shows the proposal, with the lines that it
removes, in the window of the file.
`gemini-companion-diff-show' shows one unified diff.
\\<gemini-companion-review-mode-map>\\[gemini-companion-review-other-view] in a review shows it in another way.

Any other function is called with a `gemini-companion-review' and `keep'
or `select', as in `gemini-companion-diff-focus'.  It shows the buffer that
`gemini-companion-proposal-buffer' returns, or lets the user change that
in another way, and returns a function of no arguments that takes the
review off the screen again."
  :group 'gemini-companion-review
  :type '(choice (const :tag "Ediff, or the file's window in a small frame" auto)
                 (function-item :tag "Ediff" gemini-companion-ediff-show)
                 (function-item :tag "In the window of the file" gemini-companion-inline-show)
                 (function-item :tag "One diff, hunk by hunk" gemini-companion-diff-show)
                 (function :tag "Another function"))
  :risky t
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-diff-on-kill 'later
  "What happens when you kill a buffer of a review, or its frame or tab.
If `later', the client keeps waiting, and you can have the change shown
again.  If `reject', the change is rejected."
  :group 'gemini-companion-review
  :type '(choice (const :tag "Decide later" later)
                 (const :tag "Reject the change" reject))
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-review-waiting-hook nil
  "Hook run when a client has proposed a change, and when a change is shown.
Meanwhile `gemini-companion-review-waiting' is the review; for example,
`gemini-companion-review-path' returns the name of its file."
  :group 'gemini-companion-review
  :type 'hook
  :package-version '(gemini-companion . "0.1.0"))

(defconst gemini-companion-queue--wide-ediff '(160 . 23)
  "Columns and lines of a frame in which Ediff's windows are wide enough.
They are side by side then.  Menu bar and echo area do not count.")

(defconst gemini-companion-queue--high-ediff '(80 . 41)
  "Columns and lines of a frame in which Ediff's windows are high enough.
They are above each other then.")

(defun gemini-companion-review-view (&optional review)
  "Return the function that shows REVIEW in the selected frame.
Without REVIEW, or if the user has not chosen another view of it, see
`gemini-companion-diff-function'."
  (cond ((and review (gemini-companion-review-chosen-view review)))
        ((not (eq gemini-companion-diff-function 'auto)) gemini-companion-diff-function)
        ((or (gemini-companion-queue--frame-has-p gemini-companion-queue--wide-ediff)
             (gemini-companion-queue--frame-has-p gemini-companion-queue--high-ediff))
         'gemini-companion-ediff-show)
        (t 'gemini-companion-inline-show)))

(defun gemini-companion-queue--frame-has-p (size)
  "Return non-nil if the selected frame has SIZE, a cons of columns and lines.
Side windows, such as those of terminals, do not count."
  (let ((main (window-main-window)))
    (and (>= (window-total-width main) (car size))
         (>= (window-total-height main) (cdr size)))))

;;;; State

(defconst gemini-companion-queue--idle-time 2.0
  "Seconds without a key before a selected review that has ended is removed.")

(defvar gemini-companion-queue--ended nil
  "Reviews that have ended, but are still on screen since the user was busy.")

(defvar gemini-companion-queue-closed-at 0
  "The time at which a client last closed the review on screen, in seconds.")

(defvar gemini-companion-queue-prompt-functions nil
  "Functions that may know which prompt led to a review.
Each is called with the review and returns the prompt, as in
`gemini-companion-review', or nil.")

(defvar gemini-companion-queue-decide-functions nil
  "Functions that may decide a review at once, as the user wants that.
Each is called with a review that was just proposed, and returns non-nil if
it has decided it.")

(defvar gemini-companion-queue-waiting-functions nil
  "Functions called with a review that was proposed, or is shown.
For this package; users have `gemini-companion-review-waiting-hook'.")

(defvar gemini-companion-queue-comments-functions nil
  "Functions called when a review has ended on which the user has commented.
They get the review, its outcome and the comments as text.")

(defvar gemini-companion-review-waiting nil
  "While `gemini-companion-review-waiting-hook' runs, the review in question.")

;;;; The current review

(defun gemini-companion-review-current ()
  "Return the review to which a command applies.
That is the one of the current buffer, else the one on screen, else the
oldest.  Signal a `user-error' if there is none.  If the one of the current
buffer has ended, take it off the screen and signal a `user-error'."
  (let ((mine gemini-companion-review-of-buffer))
    (cond ((null mine)
           (or (gemini-companion-review-shown)
               (car (gemini-companion-review-list-open))
               (user-error "No change awaits your decision")))
          ((gemini-companion-review-open-p mine) mine)
          (t
           (gemini-companion-queue--take-down mine)
           (gemini-companion-review-check-open mine)))))

(defun gemini-companion-review-on-screen-p (review)
  "Return non-nil if the user can see REVIEW on the selected terminal."
  (and (gemini-companion-review-hide-function review)
       (or (gemini-companion-ui-window-of (gemini-companion-review-front review))
           (gemini-companion-ui-window-of (gemini-companion-review-proposal review)))
       t))

(defun gemini-companion-review-intact-p (review)
  "Return non-nil if all of REVIEW is on screen, as it was shown."
  (let ((intact (gemini-companion-review-intact-function review)))
    (and (gemini-companion-review-on-screen-p review)
         (or (null intact) (funcall intact)))))

;;;; Events

(gemini-companion-define-handler open-review (id agent client path text name version process)
  "Queue the review ID: CLIENT, of AGENT, proposes TEXT for the file PATH.
NAME and VERSION are what the client reports; PROCESS is its id, or nil."
  (condition-case error
      (gemini-companion-queue--add
       (gemini-companion-review-make
        :id id :agent agent :client client :info (cons name version)
        :process process :path path :host (gemini-companion-queue--host path)
        :proposed text :text text
        :created (current-time)
        :stamp (gemini-companion-file-stamp path)
        :base (gemini-companion-file-read path)))
    (error
     ;; Nobody would ever decide it.
     (gemini-companion-bridge-reject id)
     (gemini-companion-review-remove (gemini-companion-review-with-id id))
     (gemini-companion-ui-message id "The change to %s was rejected: %s"
                                  (gemini-companion-ui-one-line path)
                                  (gemini-companion-ui-error-text error))
     (signal (car error) (cdr error)))))

(defun gemini-companion-queue--host (path)
  "Return the prefix of the host that the file PATH is on, nil if it is local.
Signal an error if nobody has told what the file contains."
  (when-let* ((prefix (gemini-companion-file-host path)))
    (unless (gemini-companion-file-known-p path)
      (error "It is not known what %s contains" path))
    prefix))

(defun gemini-companion-queue--add (review)
  "Let REVIEW wait for a decision."
  (setf (gemini-companion-review-prompt review)
        (gemini-companion-log-errors "looking for a prompt"
          (run-hook-with-args-until-success 'gemini-companion-queue-prompt-functions review)))
  (gemini-companion-review-add review)
  (gemini-companion-log-add "review %d opened: %s (%s)" (gemini-companion-review-id review)
                            (gemini-companion-review-path review)
                            (gemini-companion-review-client review))
  (gemini-companion-queue--changed)
  (unless (gemini-companion-log-errors "deciding a change"
            (run-hook-with-args-until-success 'gemini-companion-queue-decide-functions review))
    (gemini-companion-queue--run-waiting-hook review)))

(gemini-companion-define-handler close-review (id call)
  "Close the review ID; if CALL is non-nil, answer it with the text."
  (let ((review (gemini-companion-review-with-id id)))
    (cond (review
           (gemini-companion-log-add "review %d closed by the client" id)
           (if call
               (gemini-companion-queue--close review call)
             (gemini-companion-queue--withdraw review)))
          (call
           (gemini-companion-bridge-fail call "this diff is not open in Emacs any more")))))

(defun gemini-companion-queue--withdraw (review)
  "End REVIEW, whose client has gone away."
  (gemini-companion-queue--end
   review 'withdrawn (gemini-companion-review-bytes review)
   (format "withdrawn, %s has gone away" (gemini-companion-review-client-title review)))
  (gemini-companion-review-announce-ending review))

(defun gemini-companion-queue--close (review call)
  "End REVIEW, which the user has answered in the client, and answer CALL."
  (let* ((path (gemini-companion-review-path review))
         (text (gemini-companion-review-current-text review))
         (may-omit (gemini-companion-write-may-omit-p review text))
         ;; On a host the client does not wait long for our answer.
         (made (gemini-companion-write-made-p review text))
         ;; After the answer the client may write the file.
         (before (if made (gemini-companion-review-before review)
                   (gemini-companion-review-bytes review)))
         (stamp (if made (gemini-companion-review-stamp review)
                  (gemini-companion-file-stamp path))))
    (gemini-companion-write-revert path (gemini-companion-review-merged-state review) text made
                                   review)
    (gemini-companion-bridge-answer call text may-omit)
    (gemini-companion-queue--end
     review 'closed before
     (concat "decided in " (gemini-companion-review-client-title review)))
    (gemini-companion-review-announce-ending review)
    (gemini-companion-write-await-decision
     review stamp (and (or may-omit (gemini-companion-review-host review)) text)
     (gemini-companion-write-warn-of-lost-edits review))))

;;;; Deciding

(defun gemini-companion-review-decide (review outcome report &optional by)
  "End REVIEW with OUTCOME, a symbol.
REPORT is called with its id to tell the client.  If it returns nil, the
client has decided already; return nil then.  BY is nil if a command of the
user decides, `client' if the client does, and `rule' if the user has said
so before."
  (let (;; After the report the client may write the file.
        (before (gemini-companion-review-bytes review))
        (file (gemini-companion-review-file review)))
    (cond ((not (funcall report (gemini-companion-review-id review)))
           ;; The event `close-review' must be answered with the present text.
           (gemini-companion-bridge-drain)
           (message "The change to %s was decided in %s already" file
                    (gemini-companion-review-client-title review))
           nil)
          (t
           (gemini-companion-log-add "review %d %s" (gemini-companion-review-id review) outcome)
           (gemini-companion-queue--end
            review outcome before
            (if (eq by 'client)
                (format "%s in %s" outcome (gemini-companion-review-client-title review))
              (symbol-name outcome))
            (not by))
           (if by
               (gemini-companion-review-announce-ending review)
             (message "Change to %s %s%s" file outcome
                      (gemini-companion-queue--consequence review outcome)))
           t))))

(defun gemini-companion-queue--consequence (review outcome)
  "Return what else OUTCOME of REVIEW means in its turn, to be added to a message."
  (let ((rest (length (nth 2 (gemini-companion-review-turn review)))))
    (if (or (zerop rest) (not (eq outcome 'rejected))) ""
      (format (ngettext "; %s cancels %d more that waits behind it"
                        "; %s cancels %d more that wait behind it" rest)
              (gemini-companion-review-client-title review) rest))))

(defun gemini-companion-review-cancel (review)
  "End REVIEW, which its client has given up without saying so.
The client proposes nothing else until this has an outcome, so send one."
  (when (gemini-companion-review-open-p review)
    (gemini-companion-review-decide review 'cancelled #'gemini-companion-bridge-reject 'client)))

(defun gemini-companion-review-reject (review)
  "Reject REVIEW; the file stays as it is.
Return nil if its client has decided it already."
  (gemini-companion-review-check-open review)
  (gemini-companion-review-decide review 'rejected #'gemini-companion-bridge-reject))

(defun gemini-companion-review-request (review writer waiter)
  "Ask the user to accept REVIEW, for its client.
WRITER and WAITER are as in `gemini-companion-review'.  WAITER replaces an
earlier one, which is called with `asked-again'."
  (when-let* ((before (gemini-companion-review-waiter review)))
    (funcall before 'asked-again))
  (setf (gemini-companion-review-writer review) writer
        (gemini-companion-review-waiter review) waiter
        ;; Show it again.
        (gemini-companion-review-postponed review) nil)
  (gemini-companion-queue--changed)
  (gemini-companion-ui-message
   review "%s asks you to accept the change to %s"
   (gemini-companion-review-client-title review) (gemini-companion-review-file review)))

(defun gemini-companion-review-ask (review question)
  "Call QUESTION, a function that asks the user about REVIEW, and return its value.
Signal a `user-error' if REVIEW has ended meanwhile."
  (let ((before (gemini-companion-review-state review)))
    (setf (gemini-companion-review-state review) 'asked)
    (prog1 (unwind-protect (funcall question)
             (when (eq (gemini-companion-review-state review) 'asked)
               (setf (gemini-companion-review-state review)
                     (cond ((eq before 'asked) before)
                           ((gemini-companion-review-hide-function review) 'shown)
                           (t 'waiting)))))
      (gemini-companion-review-check-open review))))

;;;; Ending

(defun gemini-companion-queue--end (review outcome before ending &optional by-command)
  "End REVIEW with OUTCOME, a symbol; ENDING is that for the user.
BEFORE is what its file contained until then.  If BY-COMMAND is non-nil the
user has ended it, and it is taken off the screen at once; otherwise that
is done when the user is not busy."
  (let ((shown (gemini-companion-review-hide-function review)))
    ;; What the user types from now on would be lost.
    (gemini-companion-queue--freeze review)
    (setf (gemini-companion-review-state review) 'ended
          (gemini-companion-review-ending review) ending)
    (gemini-companion-review-remove review)
    (gemini-companion-log-errors "the history"
      (setf (gemini-companion-review-entry review)
            (gemini-companion-history-add
             :client (gemini-companion-review-client review)
             :path (gemini-companion-review-path review)
             :host (gemini-companion-review-host review)
             :prompt (gemini-companion-review-prompt review)
             :outcome outcome
             :before before
             :after (gemini-companion-review-current-text review))))
    (when-let* ((waiter (gemini-companion-review-waiter review)))
      (gemini-companion-log-errors "telling an outcome" (funcall waiter outcome)))
    (gemini-companion-log-errors "sending comments"
      (when-let* ((comments (gemini-companion-comment-prompt review)))
        (gemini-companion-log-run-hook 'gemini-companion-queue-comments-functions
                                       review outcome comments)))
    (push review gemini-companion-queue--ended)
    (cond (by-command (gemini-companion-queue--take-down review))
          (t (when shown
               (setq gemini-companion-queue-closed-at (float-time)))
             (gemini-companion-queue-take-down-ended))))
  (gemini-companion-queue--changed))

(defun gemini-companion-queue--freeze (review)
  "Save the text of the proposal of REVIEW, and make the buffer read-only."
  (let ((proposal (gemini-companion-review-proposal review)))
    (when (buffer-live-p proposal)
      (gemini-companion-review-current-text review)
      (with-current-buffer proposal
        (setq buffer-read-only t)))))

(defun gemini-companion-queue-take-down-ended ()
  "Take reviews that have ended off the screen, unless the user is busy there.
Return non-nil if some are still on screen."
  (dolist (review (copy-sequence gemini-companion-queue--ended))
    (when (gemini-companion-queue--may-take-down-p review)
      (gemini-companion-queue--take-down review)))
  (gemini-companion-queue-ended-p))

(defun gemini-companion-queue-ended-p ()
  "Return non-nil if a review that has ended is still on screen."
  (and gemini-companion-queue--ended t))

(defun gemini-companion-queue--may-take-down-p (review)
  "Return non-nil if what the user sees of REVIEW, which has ended, may go away.
If one of its windows is selected, the next key would go to another buffer:
then the user must have pressed no key for a while, or use another frame."
  (or (not (or (gemini-companion-review-hide-function review)
               ;; The user may have gone to the proposal of a review that was put off.
               (gemini-companion-ui-window-of (gemini-companion-review-proposal review))))
      (and (gemini-companion-ui-no-key-expected-p)
           (or (not (eq review (buffer-local-value 'gemini-companion-review-of-buffer
                                                   (window-buffer))))
               (null (frame-focus-state))
               (gemini-companion-ui-idle-p gemini-companion-queue--idle-time)))))

(defun gemini-companion-queue--take-down (review)
  "Take REVIEW, which has ended, off the screen, and kill its proposal."
  (setq gemini-companion-queue--ended (delq review gemini-companion-queue--ended))
  (unwind-protect
      (gemini-companion-queue--hide review)
    (gemini-companion-log-errors "killing a proposal"
      (gemini-companion-ui-kill-buffer (gemini-companion-review-proposal review)))))

(defun gemini-companion-queue--take-down-all ()
  "Take all reviews that have ended off the screen."
  (mapc #'gemini-companion-queue--take-down
        (copy-sequence gemini-companion-queue--ended)))

(defun gemini-companion-queue--hide (review)
  "Take REVIEW off the screen if it is there."
  (when-let* ((hide (gemini-companion-review-hide-function review)))
    (setf (gemini-companion-review-hide-function review) nil)
    (when (eq (gemini-companion-review-state review) 'shown)
      (setf (gemini-companion-review-state review) 'waiting))
    (gemini-companion-log-errors "hiding a review" (funcall hide))))

(defun gemini-companion-review-end-all ()
  "Reject all reviews, since the companion stops.
Those on screen are taken down at once if a command has stopped it."
  (dolist (review (gemini-companion-review-list-open))
    (gemini-companion-log-errors "ending a review"
      (gemini-companion-queue--end review 'rejected (gemini-companion-review-bytes review)
                                   "rejected, the companion was switched off")))
  ;; If the server has died, the user may be typing.
  (if (and this-command (not (active-minibuffer-window)))
      (gemini-companion-queue--take-down-all)
    (gemini-companion-queue-take-down-ended))
  (gemini-companion-queue--changed)
  (gemini-companion-write-stop))

;;;; Showing

(defun gemini-companion-queue--changed ()
  "Update all that depends on which reviews are open, and which is shown."
  (if (gemini-companion-review-waiting-p)
      (add-hook 'kill-emacs-query-functions #'gemini-companion-queue--query-exit)
    (remove-hook 'kill-emacs-query-functions #'gemini-companion-queue--query-exit))
  (force-mode-line-update t)
  (gemini-companion-log-run-hook 'gemini-companion-review-change-hook))

(defun gemini-companion-queue--query-exit ()
  "Ask whether to exit Emacs while changes await a decision."
  (or noninteractive
      (not (gemini-companion-ui-user-frame-p))
      (let ((count (gemini-companion-review-count)))
        (yes-or-no-p (format "%s for your decision.  Reject %s and exit? "
                             (if (= count 1) "A proposed change waits"
                               (format "%d proposed changes wait" count))
                             (if (= count 1) "it" "them"))))))

(defun gemini-companion-review-show (review focus)
  "Show REVIEW in place of the one that is shown.
FOCUS is `select' or `keep', as in `gemini-companion-diff-focus'.  If
REVIEW cannot be shown, record why, and signal the error."
  (gemini-companion-review-check-open review)
  (unless (gemini-companion-review-hide-function review)
    (gemini-companion-queue--take-down-all)
    (when-let* ((shown (gemini-companion-review-shown)))
      (setf (gemini-companion-review-postponed shown) t)
      (gemini-companion-queue--hide shown))
    ;; If this fails it is not tried again and again.
    (setf (gemini-companion-review-postponed review) t
          (gemini-companion-review-conflict review)
          (gemini-companion-review-find-conflict review))
    (condition-case error
        (let ((hide (funcall (gemini-companion-review-view review) review focus)))
          ;; Else it would not count as shown, and be shown again and again.
          (unless (functionp hide)
            (error "`gemini-companion-diff-function' has not returned a function"))
          (gemini-companion-queue--note-shown review hide))
      (error
       (let ((fault (gemini-companion-ui-error-text error)))
         (setf (gemini-companion-review-fault review) fault)
         (gemini-companion-log-add "showing review %d: %s"
                                   (gemini-companion-review-id review) fault)
         (gemini-companion-queue--changed)
         (signal (car error) (cdr error)))))))

(defun gemini-companion-review-show-again (review focus)
  "Show REVIEW anew, even if it is on screen.
For FOCUS see `gemini-companion-review-show'."
  (gemini-companion-queue--hide review)
  (gemini-companion-review-show review focus))

(defun gemini-companion-queue--note-shown (review hide)
  "Record that REVIEW is on screen, from which the function HIDE takes it."
  (setf (gemini-companion-review-hide-function review) hide
        (gemini-companion-review-seen review) t
        (gemini-companion-review-fault review) nil
        (gemini-companion-review-held review) nil
        (gemini-companion-review-postponed review) nil)
  (when (eq (gemini-companion-review-state review) 'waiting)
    (setf (gemini-companion-review-state review) 'shown))
  (gemini-companion-queue--changed)
  (gemini-companion-queue--run-waiting-hook review))

(defun gemini-companion-review-visit (review)
  "Select REVIEW; if a part of it is not visible, show it in the selected frame."
  (gemini-companion-review-check-open review)
  (if (gemini-companion-review-intact-p review)
      (let ((window (or (gemini-companion-ui-window-of (gemini-companion-review-front review))
                        (gemini-companion-ui-window-of
                         (gemini-companion-review-proposal review)))))
        (select-frame-set-input-focus (window-frame window))
        (select-window window))
    ;; Its windows may have been deleted, or be on another terminal.
    (gemini-companion-review-show-again review 'select)))

(defun gemini-companion-review-postpone (review)
  "Take REVIEW off the screen, undecided; it is not shown again automatically."
  (when (gemini-companion-review-open-p review)
    (setf (gemini-companion-review-postponed review) t)
    (gemini-companion-queue--hide review)
    (gemini-companion-queue--changed)
    (gemini-companion-ui-message
     review "%s"
     (substitute-command-keys
      (format "%s still waits: \\[gemini-companion-review-next] shows the change again"
              (gemini-companion-review-client-title review))))))

(defun gemini-companion-review-taken-down (review)
  "Postpone or reject REVIEW, whose view the user has closed.
See `gemini-companion-diff-on-kill'."
  (gemini-companion-log-errors "a closed review"
    (cond ((not (gemini-companion-review-hide-function review)))
          ((not (gemini-companion-review-open-p review))
           (gemini-companion-queue--take-down review))
          ((eq gemini-companion-diff-on-kill 'reject)
           (gemini-companion-review-reject review))
          (t (gemini-companion-review-postpone review)))))

(defun gemini-companion-queue--run-waiting-hook (review)
  "Run the hooks for REVIEW, which was proposed or is shown."
  (let ((gemini-companion-review-waiting review))
    (gemini-companion-log-run-hook 'gemini-companion-review-waiting-hook))
  (gemini-companion-log-run-hook 'gemini-companion-queue-waiting-functions review))

(provide 'gemini-companion-queue)
;;; gemini-companion-queue.el ends here

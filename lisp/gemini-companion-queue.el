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
;; The user's hands and clients act at the same time, so three rules hold.  A command holds the
;; review that it is about, and looks again after each question: the client may have closed it.
;; What was never on screen is not decided, but shown.  And a client is answered at once, but
;; windows change only at a calm moment, when the user is in the middle of nothing.
;;
;; How a review is shown is the business of `gemini-companion-diff-function'.  After an accept the
;; client writes the file, never we.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-calm)
(require 'gemini-companion-follow)
(require 'gemini-companion-history)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-thrift)

;;;; Options

(defcustom gemini-companion-diff-function 'gemini-companion-ediff-show
  "Function that shows a review.
It is called with a `gemini-companion-review' and where the focus shall
be, `keep' or `select' as in `gemini-companion-diff-focus'.  It shows the
buffer that `gemini-companion-texts-proposal' makes, or lets the user
change it in another way, and returns a function of no arguments that
takes the review off the screen again."
  :group 'gemini-companion
  :type '(choice (function-item :tag "Ediff" gemini-companion-ediff-show)
                 (function-item :tag "One diff, hunk by hunk" gemini-companion-diff-show)
                 (function :tag "Another function"))
  :risky t)

(defcustom gemini-companion-diff-policy 'pop-up
  "What happens when a client proposes a change.
If `pop-up', it is shown as soon as you pause and no prompt is open.  If
`queue', it waits until you ask for it, for instance with
\\[gemini-companion-review-next]; the mode line says how many wait."
  :group 'gemini-companion
  :type '(choice (const :tag "Show it" pop-up)
                 (const :tag "Let it wait" queue)))

(defcustom gemini-companion-diff-focus 'keep
  "Where the focus is when a change is shown by itself.
If `keep', the selected window stays selected, so that what you type
still goes where it went; the review is above it.  If `select', the
review is selected, and your windows become as small as they can be.
If `announce', nothing is shown: a message says that a change waits."
  :group 'gemini-companion
  :type '(choice (const :tag "Stays where it is" keep)
                 (const :tag "Goes to the review" select)
                 (const :tag "Only announce the change" announce)))

(defcustom gemini-companion-diff-on-kill 'later
  "What it means to kill a buffer of a review, or its frame or tab.
If `later', the review waits and you can have it shown again; the client
keeps waiting, too.  If `reject', the change is rejected."
  :group 'gemini-companion
  :type '(choice (const :tag "Decide later" later)
                 (const :tag "Reject the change" reject)))

(defcustom gemini-companion-review-waiting-hook nil
  "Hook run when a change begins to wait for you, or is shown.
Whatever has the focus.  Meanwhile `gemini-companion-review-waiting' is
the review; `gemini-companion-review-path', for instance, says more."
  :group 'gemini-companion
  :type 'hook)

(defconst gemini-companion-queue--retry 0.2
  "Seconds between tries to show a review.")

(defconst gemini-companion-queue--look 1.0
  "Seconds between looks at the file of the review on screen.")

(defconst gemini-companion-queue--reaction 0.7
  "Seconds after which a user may have seen that a review has taken the focus.
Keys that come before were meant for another window, and so were those
that follow each other as fast.")

(defconst gemini-companion-queue--hands-off 2.0
  "Seconds for which the user must have pressed no key in a review that ended.")

(defconst gemini-companion-queue--pause 1.0
  "Seconds without a review after a client has closed the one on screen.
A key that was meant for that one must not decide the next.")

(defconst gemini-companion-queue--held-after 2.0
  "Seconds for which a review is held back before the user is told.")

(defconst gemini-companion-queue--write-time 3.0
  "Seconds within which a client whose user said yes has written the file.")

(defconst gemini-companion-queue--text-time 5.0
  "Seconds within which a client that was not told the text has written it.")

;;;; State

(defvar gemini-companion-queue--open nil
  "The reviews that await a decision, the oldest first.")

(defvar gemini-companion-queue--timer nil
  "The timer that waits for a moment to show the next review, or nil.")

(defvar gemini-companion-queue--watch nil
  "The timer that looks at the file of the review on screen, or nil.")

(defvar gemini-companion-queue--leaving nil
  "Reviews that have ended and are still on screen until there is a calm moment.")

(defvar gemini-companion-queue--news nil
  "What to tell the user at the next calm moment, the newest first.
An alist of reviews and texts: of each review the last.")

(defvar gemini-companion-queue--unexpected nil
  "The review that has taken the focus by itself, and when.
Or instead the time of the last key that was ignored.")

(defvar gemini-companion-queue--not-before 0
  "The time, as a number of seconds, before which no review is shown by itself.")

(defvar gemini-companion-queue--held nil
  "Since when a review is held back by what the user does, a number of seconds.
It is `told' once the user was told; nil if none is.")

(defvar gemini-companion-queue-prompt-functions nil
  "Functions that may know after which prompt a review has come.
Each is called with the review and returns that, as in
`gemini-companion-review', or nil.")

(defvar gemini-companion-queue-waiting-functions nil
  "Functions of this package that are called with a review that begins to wait.
Or is shown.")

(defvar gemini-companion-review-waiting nil
  "While `gemini-companion-review-waiting-hook' runs, the review in question.")

;;;; What there is

(defun gemini-companion-review-list-open ()
  "Return the reviews that await a decision, the oldest first."
  (copy-sequence gemini-companion-queue--open))

(defun gemini-companion-review-count ()
  "Return the number of reviews that await a decision."
  (length gemini-companion-queue--open))

(defun gemini-companion-review-shown ()
  "Return the review on screen, or nil."
  (cl-loop for review in gemini-companion-queue--open
           if (gemini-companion-review-hide review) return review))

(defun gemini-companion-review-with-id (id)
  "Return the open review that has ID, or nil."
  (cl-loop for review in gemini-companion-queue--open
           if (eql (gemini-companion-review-id review) id) return review))

(defun gemini-companion-review-current ()
  "Return the review that a command is about.
That is the one of the current buffer, else the one on screen, else the
oldest.  Signal a `user-error' if there is none, or if that of the current
buffer has ended: then that is taken off the screen."
  (let ((mine gemini-companion-review-of-buffer))
    (cond ((null mine)
           (or (gemini-companion-review-shown)
               (car gemini-companion-queue--open)
               (user-error "No change awaits your decision")))
          ((gemini-companion-review-open-p mine) mine)
          (t
           (gemini-companion-queue--leave mine)
           (gemini-companion-review-check-open mine)))))

(defun gemini-companion-review-on-screen-p (review)
  "Return non-nil if the user can see REVIEW on the present terminal."
  (and (gemini-companion-review-hide review)
       (or (gemini-companion-queue--window-of (gemini-companion-review-front review))
           (gemini-companion-queue--window-of (gemini-companion-review-proposal review)))
       t))

(defun gemini-companion-queue--window-of (buffer)
  "Return a window of BUFFER, which may be dead or nil, that the user can see."
  (and (buffer-live-p buffer)
       (cl-loop for window in (get-buffer-window-list buffer 'no-minibuffer t)
                if (gemini-companion-queue--visible-p window) return window)))

(defun gemini-companion-queue--visible-p (window)
  "Return non-nil if the user can see WINDOW from the selected frame.
A text terminal shows one frame at a time."
  (let ((frame (window-frame window)))
    (or (eq frame (selected-frame))
        (and (display-graphic-p frame)
             (eq (frame-terminal frame) (frame-terminal))
             (eq (frame-visible-p frame) t)))))

;;;; Events

(gemini-companion-define-handler open-review (id agent client path text name version process)
  "Queue the review ID: CLIENT, of AGENT, proposes TEXT for the file PATH.
NAME and VERSION are what the client says itself; PROCESS is its id, or nil."
  (condition-case error
      (gemini-companion-queue--add
       (gemini-companion-review--make
        :id id :agent agent :client client :info (cons name version)
        :process process :path path :proposed text :text text
        :created (current-time)
        :stamp (gemini-companion-follow-stamp path)
        :base (gemini-companion-history-read path)))
    (error
     ;; Nobody would ever decide it.
     (gemini-companion-bridge-reject id)
     (setq gemini-companion-queue--open
           (delq (gemini-companion-review-with-id id) gemini-companion-queue--open))
     (signal (car error) (cdr error)))))

(defun gemini-companion-queue--add (review)
  "Let REVIEW wait for a decision."
  (setf (gemini-companion-review-prompt review)
        (gemini-companion-log-errors "looking for a prompt"
          (run-hook-with-args-until-success 'gemini-companion-queue-prompt-functions review)))
  (setq gemini-companion-queue--open
        (append gemini-companion-queue--open (list review)))
  (gemini-companion-log-add "review %d opened: %s (%s)" (gemini-companion-review-id review)
                            (gemini-companion-review-path review)
                            (gemini-companion-review-client review))
  (gemini-companion-queue--changed)
  (unless (gemini-companion-queue--pops-up-p)
    (gemini-companion-queue--announce review))
  (gemini-companion-queue--note-waiting review))

(gemini-companion-define-handler close-review (id call)
  "Close the review ID without asking; CALL, unless nil, waits for its text."
  (let ((review (gemini-companion-review-with-id id)))
    (cond (review
           (gemini-companion-log-add "review %d closed by the client" id)
           (if call
               (gemini-companion-queue--close review call)
             (gemini-companion-queue--withdraw review)))
          (call
           (gemini-companion-bridge-fail call "this diff is not open in Emacs any more")))))

(defun gemini-companion-queue--withdraw (review)
  "End REVIEW, whose client is gone."
  (gemini-companion-queue--end
   review 'withdrawn (gemini-companion-review-bytes review)
   (format "withdrawn, %s is gone" (gemini-companion-review-client-title review)))
  (gemini-companion-queue--say-ending review))

(defun gemini-companion-queue--close (review call)
  "End REVIEW, which the user has answered in the client, and answer CALL."
  (let* ((path (gemini-companion-review-path review))
         (text (gemini-companion-review-current-text review))
         (may-omit (gemini-companion-queue-may-omit-p review text))
         ;; Once it is answered the client may write the file.
         (before (gemini-companion-review-bytes review))
         (stamp (gemini-companion-follow-stamp path)))
    (gemini-companion-follow path (gemini-companion-review-merged-state review))
    (gemini-companion-bridge-answer call text may-omit)
    (gemini-companion-queue--end
     review 'closed before
     (concat "decided in " (gemini-companion-review-client-title review)))
    (gemini-companion-queue--say-ending review)
    (unless (gemini-companion-queue--warn-of-lost-edits review)
      (gemini-companion-queue--await-write review stamp (and may-omit text)))))

;;;; What clients write

(defun gemini-companion-queue--await-write (review stamp text)
  "Tell the user which answer the client of REVIEW, closed there, has got.
The client does not say: it writes the file, whose stamp then is another
than STAMP, or it does not.  If TEXT is non-nil, the client was not told it
and must write it all the same."
  (let ((path (gemini-companion-review-path review))
        (there (gemini-companion-review-client-title review)))
    (gemini-companion-queue--await
     gemini-companion-queue--write-time
     (lambda () (not (equal (gemini-companion-follow-stamp path) stamp)))
     (lambda (written)
       (setf (gemini-companion-review-ending review)
             (concat (if written "accepted in " "rejected in ") there))
       (gemini-companion-queue--say-ending review)
       (when (and written text)
         (gemini-companion-queue-await-text review text))))))

(defun gemini-companion-queue--await (seconds look finish)
  "Call the function LOOK until it returns non-nil, but for no more than SECONDS.
Then call FINISH with its last value.  While that is `busy' no time passes."
  (let ((left seconds)
        (timer nil))
    (setq timer
          (run-at-time
           gemini-companion-queue--retry gemini-companion-queue--retry
           (lambda ()
             (let ((seen (gemini-companion-log-errors "looking at a file" (funcall look))))
               (unless (eq seen 'busy)
                 (setq left (- left gemini-companion-queue--retry))
                 (when (or seen (<= left 0))
                   (cancel-timer timer)
                   (funcall finish seen)))))))))

(defun gemini-companion-queue-may-omit-p (review text)
  "Return non-nil if the client of REVIEW need not be told TEXT to write it."
  (pcase-let ((`(,name . ,version) (gemini-companion-review-info review)))
    (and (gemini-companion-thrift-p (gemini-companion-review-agent review) name version)
         (gemini-companion-thrift-untouched-p text
                                              (gemini-companion-review-proposed review)
                                              (gemini-companion-review-base review))
         ;; In another file than it has read the client would make its change again.
         (not (gemini-companion-review-written-p review)))))

(defun gemini-companion-queue-await-text (review text)
  "Tell the user if the client of REVIEW, not told TEXT, does not write it.
It may have other changes decided first."
  (let ((path (gemini-companion-review-path review))
        (last 'unknown))
    (gemini-companion-queue--await
     gemini-companion-queue--text-time
     (lambda ()
       (let ((stamp (gemini-companion-follow-stamp path)))
         (cond ((and (not (equal stamp last))
                     (gemini-companion-history-written-p path text)))
               (t (setq last stamp)
                  (and (gemini-companion-queue--others-open-p review) 'busy)))))
     (lambda (written)
       (gemini-companion-log-add "review %d: %s as accepted" (gemini-companion-review-id review)
                                 (if written "written" "not written"))
       (unless written
         (gemini-companion-queue--warn-of-lost-text review))))))

(defun gemini-companion-queue--others-open-p (review)
  "Return non-nil if the user has changes to decide of the client of REVIEW."
  (cl-loop for other in gemini-companion-queue--open
           thereis (equal (gemini-companion-review-client other)
                          (gemini-companion-review-client review))))

(defun gemini-companion-queue--warn-of-lost-text (review)
  "Say that the client of REVIEW did not write the text that was accepted."
  (gemini-companion-review-say
   review
   "%s has not made %s what you accepted: M-x gemini-companion-review-history, there w, writes it"
   (gemini-companion-review-client-title review) (gemini-companion-review-file review)))

(defun gemini-companion-queue--warn-of-lost-edits (review)
  "Say where the user's edits are if the client of REVIEW leaves them behind.
It closes the review, for the user answered there.  Return nil if it does
not leave any."
  (unless (or (gemini-companion-agent-get (gemini-companion-review-agent review) :takes-edits)
              (equal (gemini-companion-review-text review)
                     (gemini-companion-review-proposed review)))
    (gemini-companion-log-add "the edits of review %d are in the history only"
                              (gemini-companion-review-id review))
    (gemini-companion-review-say
     review
     "%s takes no edits along when you say yes there: yours of %s are kept in \
M-x gemini-companion-review-history"
     (gemini-companion-review-client review) (gemini-companion-review-file review))
    t))

;;;; Deciding

(defun gemini-companion-review-decide (review outcome report &optional by-client)
  "End REVIEW with OUTCOME, a symbol.
REPORT is called with its id to tell the client; it returns nil if that
has decided already, and so does this function.  BY-CLIENT is non-nil if
not a command of the user but the client itself decides."
  (let (;; Once it knows, the client writes the file.
        (before (gemini-companion-review-bytes review))
        (file (gemini-companion-review-file review)))
    (cond ((not (funcall report (gemini-companion-review-id review)))
           ;; The client has closed it; the event that says so must answer with this very text.
           (gemini-companion-bridge-drain)
           (message "The change of %s was decided in %s already" file
                    (gemini-companion-review-client-title review))
           nil)
          (t
           (gemini-companion-log-add "review %d %s" (gemini-companion-review-id review) outcome)
           (gemini-companion-queue--end
            review outcome before
            (if by-client
                (format "%s in %s" outcome (gemini-companion-review-client-title review))
              (symbol-name outcome))
            (not by-client))
           (if by-client
               (gemini-companion-queue--say-ending review)
             (message "Change of %s %s" file outcome))
           t))))

(defun gemini-companion-review-reject (review)
  "Reject REVIEW; the file stays as it is.
Return nil if its client has decided it already."
  (gemini-companion-review-check-open review)
  (gemini-companion-review-decide review 'rejected #'gemini-companion-bridge-reject))

(defun gemini-companion-review-request (review writer waiter)
  "Ask the user to accept REVIEW, as its client wants.
WRITER and WAITER are as in `gemini-companion-review'.  If somebody waits
already, WAITER takes the place of that."
  (when-let* ((before (gemini-companion-review-waiter review)))
    (funcall before 'asked-again))
  (setf (gemini-companion-review-writer review) writer
        (gemini-companion-review-waiter review) waiter
        ;; It is to be shown again.
        (gemini-companion-review-postponed review) nil)
  (gemini-companion-queue--changed)
  (gemini-companion-review-say
   review "%s asks you to accept the change of %s"
   (gemini-companion-review-client-title review) (gemini-companion-review-file review)))

(defun gemini-companion-review-ask (review question)
  "Call QUESTION, a function that asks about REVIEW, and return its value.
Signal a `user-error' if REVIEW has ended by then."
  (let ((before (gemini-companion-review-state review)))
    (setf (gemini-companion-review-state review) 'asked)
    (prog1 (unwind-protect (funcall question)
             (when (eq (gemini-companion-review-state review) 'asked)
               (setf (gemini-companion-review-state review)
                     (cond ((eq before 'asked) before)
                           ((gemini-companion-review-hide review) 'shown)
                           (t 'waiting)))))
      (gemini-companion-review-check-open review))))

;;;; Ending

(defun gemini-companion-queue--end (review outcome before ending &optional by-command)
  "REVIEW has ended with OUTCOME, a symbol; ENDING says so in words.
BEFORE are the bytes of its file until then.  With BY-COMMAND non-nil the
user has ended it, and it is taken off the screen at once; else when the
user is in the middle of nothing."
  (let ((shown (gemini-companion-review-hide review)))
    ;; What the user types from now on would be in no text that anybody gets.
    (gemini-companion-queue--freeze review)
    (setf (gemini-companion-review-state review) 'ended
          (gemini-companion-review-ending review) ending
          gemini-companion-queue--open (delq review gemini-companion-queue--open))
    (gemini-companion-log-errors "the history"
      (gemini-companion-history-add
       :client (gemini-companion-review-client review)
       :path (gemini-companion-review-path review)
       :prompt (gemini-companion-review-prompt review)
       :outcome outcome
       :before before
       :after (gemini-companion-review-current-text review)))
    (when-let* ((waiter (gemini-companion-review-waiter review)))
      (gemini-companion-log-errors "telling an outcome" (funcall waiter outcome)))
    (push review gemini-companion-queue--leaving)
    (cond (by-command (gemini-companion-queue--leave review))
          (t (when shown
               (setq gemini-companion-queue--not-before
                     (+ (float-time) gemini-companion-queue--pause)))
             (gemini-companion-queue--clear-screen))))
  (gemini-companion-queue--changed))

(defun gemini-companion-queue--freeze (review)
  "Keep what the proposal of REVIEW says, and let it be edited no more."
  (let ((proposal (gemini-companion-review-proposal review)))
    (when (buffer-live-p proposal)
      (setf (gemini-companion-review-text review)
            (gemini-companion-review-current-text review))
      (with-current-buffer proposal
        (setq buffer-read-only t)))))

(defun gemini-companion-queue--clear-screen ()
  "Take reviews that have ended off the screen, those that may go now."
  (dolist (review (copy-sequence gemini-companion-queue--leaving))
    (when (gemini-companion-queue--may-go-p review)
      (gemini-companion-queue--leave review))))

(defun gemini-companion-queue--may-go-p (review)
  "Return non-nil if the windows of REVIEW, which has ended, may be deleted.
If the user is in one of them, what is typed next goes to another buffer:
then only if no key has been pressed for a while, or not to be pressed in
this frame."
  (or (not (gemini-companion-review-hide review))
      (and (gemini-companion-calm-undisturbed-p)
           (or (not (eq (buffer-local-value 'gemini-companion-review-of-buffer
                                            (window-buffer))
                        review))
               (null (frame-focus-state))
               (gemini-companion-calm-idle-p gemini-companion-queue--hands-off)))))

(defun gemini-companion-queue--leave (review)
  "Take REVIEW, which has ended, off the screen now, and kill its proposal."
  (setq gemini-companion-queue--leaving (delq review gemini-companion-queue--leaving))
  (unwind-protect
      (gemini-companion-queue--hide review)
    (let ((proposal (gemini-companion-review-proposal review)))
      (when (buffer-live-p proposal)
        (with-current-buffer proposal (set-buffer-modified-p nil))
        (gemini-companion-log-errors "killing a proposal" (kill-buffer proposal))))))

(defun gemini-companion-queue--leave-all ()
  "Take all reviews that have ended off the screen now."
  (mapc #'gemini-companion-queue--leave
        (copy-sequence gemini-companion-queue--leaving)))

(defun gemini-companion-queue--hide (review)
  "Take REVIEW off the screen if it is there."
  (when-let* ((hide (gemini-companion-review-hide review)))
    (setf (gemini-companion-review-hide review) nil)
    (when (eq (gemini-companion-review-state review) 'shown)
      (setf (gemini-companion-review-state review) 'waiting))
    (gemini-companion-log-errors "hiding a review" (funcall hide))))

(defun gemini-companion-review-end-all ()
  "Close all reviews, for the companion stops: their clients are told so."
  (dolist (review (gemini-companion-review-list-open))
    (gemini-companion-log-errors "ending a review"
      (gemini-companion-queue--end review 'rejected (gemini-companion-review-bytes review)
                                   "rejected, the companion was switched off")))
  ;; A prompt may be open if the server has died.
  (unless (active-minibuffer-window)
    (gemini-companion-queue--leave-all))
  (gemini-companion-queue--changed)
  (gemini-companion-follow-stop))

;;;; News

(defun gemini-companion-queue--say-ending (review)
  "Tell the user how REVIEW has ended."
  (gemini-companion-review-say review "%s: %s" (gemini-companion-review-file review)
                               (gemini-companion-review-ending review)))

(defun gemini-companion-review-say (review format &rest arguments)
  "Show a message about REVIEW as soon as it takes no prompt's place.
It is FORMAT with ARGUMENTS, as in `format-message'."
  (setf (alist-get review gemini-companion-queue--news nil t)
        (apply #'format-message format arguments))
  (gemini-companion-queue--tell-news)
  (gemini-companion-queue--adjust-timers))

(defun gemini-companion-queue--tell-news ()
  "Show the messages that wait, if the echo area is free."
  (when (and gemini-companion-queue--news (gemini-companion-calm-undisturbed-p))
    (let ((news (mapcar #'cdr (nreverse gemini-companion-queue--news))))
      (setq gemini-companion-queue--news nil)
      (message "%s" (string-join news "; ")))))

;;;; Showing

(defun gemini-companion-queue--changed ()
  "The list has changed, or what is on screen.
Show the next review when there is a good moment."
  (gemini-companion-bridge-set-awaited (and gemini-companion-queue--open t))
  (if gemini-companion-queue--open
      (add-hook 'kill-emacs-query-functions #'gemini-companion-queue--query-exit)
    (remove-hook 'kill-emacs-query-functions #'gemini-companion-queue--query-exit))
  (force-mode-line-update t)
  (gemini-companion-queue--adjust-timers)
  (run-hooks 'gemini-companion-review-functions))

(defun gemini-companion-queue--query-exit ()
  "Ask whether to leave Emacs while reviews await a decision."
  (or noninteractive
      (not (gemini-companion-calm-user-frame-p))
      (let ((count (gemini-companion-review-count)))
        (yes-or-no-p (format "%s for your decision.  Reject %s and exit? "
                             (if (= count 1) "A proposed change waits"
                               (format "%d proposed changes wait" count))
                             (if (= count 1) "it" "them"))))))

(defun gemini-companion-queue--adjust-timers ()
  "Start or cancel the timers, as what there is to do needs them."
  (unless (gemini-companion-queue--due)
    (gemini-companion-queue--release))
  (setq gemini-companion-queue--watch
        (gemini-companion-queue--adjust gemini-companion-queue--watch
                                        (gemini-companion-review-shown)
                                        gemini-companion-queue--look
                                        gemini-companion-queue--look
                                        #'gemini-companion-queue--look-at-file)
        gemini-companion-queue--timer
        (gemini-companion-queue--adjust gemini-companion-queue--timer
                                        (or gemini-companion-queue--leaving
                                            gemini-companion-queue--news
                                            (gemini-companion-queue--due))
                                        0 gemini-companion-queue--retry
                                        #'gemini-companion-queue--try)))

(defun gemini-companion-queue--adjust (timer wanted first seconds function)
  "Return TIMER, started or cancelled as WANTED says.
It calls FUNCTION in FIRST seconds and then each SECONDS."
  (cond ((and wanted (not timer)) (run-at-time first seconds function))
        ((or wanted (not timer)) timer)
        (t (cancel-timer timer) nil)))

(defun gemini-companion-queue--pops-up-p ()
  "Return non-nil if reviews are shown by themselves."
  (and (eq gemini-companion-diff-policy 'pop-up)
       (not (eq gemini-companion-diff-focus 'announce))))

(defun gemini-companion-queue--due ()
  "Return the reviews to be shown by themselves, if none is shown now."
  (unless (or (not (gemini-companion-queue--pops-up-p))
              (gemini-companion-review-shown))
    (cl-loop for review in gemini-companion-queue--open
             unless (gemini-companion-review-postponed review) collect review)))

(defun gemini-companion-queue--try ()
  "Do what waits for a calm moment, if this is one.
First take off the screen what has ended, then show the next review."
  (gemini-companion-queue--clear-screen)
  (gemini-companion-queue--tell-news)
  (let ((due (gemini-companion-queue--due)))
    (when (and due (not gemini-companion-queue--leaving)
               (> (float-time) gemini-companion-queue--not-before))
      (if (gemini-companion-calm-p)
          (gemini-companion-queue--pop-up (car due))
        (gemini-companion-queue--hold (car due)))))
  (gemini-companion-queue--adjust-timers))

(defun gemini-companion-queue--pop-up (review)
  "Show REVIEW, and say why if that cannot be."
  (gemini-companion-queue--release)
  (condition-case error
      (let ((throw-on-input nil))
        (with-local-quit
          (gemini-companion-review-show review gemini-companion-diff-focus)
          (gemini-companion-queue--expect-stray-keys review)
          (gemini-companion-queue--announce review)))
    (error
     (message "The change of %s cannot be shown: %s.  Decide it in %s, or in \
M-x gemini-companion-review-list"
              (gemini-companion-review-file review) (gemini-companion-log-reason error)
              (gemini-companion-review-client-title review))))
  (gemini-companion-queue--changed))

(defun gemini-companion-review-show (review focus)
  "Show REVIEW now, in place of the one that is shown.
FOCUS is `select' or `keep', as in `gemini-companion-diff-focus'.  If it
cannot be shown it still waits, and has a note that says why."
  (gemini-companion-review-check-open review)
  (unless (gemini-companion-review-hide review)
    (gemini-companion-queue--leave-all)
    (when-let* ((shown (gemini-companion-review-shown)))
      (setf (gemini-companion-review-postponed shown) t)
      (gemini-companion-queue--hide shown))
    ;; If this fails it is not tried again every moment.
    (setf (gemini-companion-review-postponed review) t
          (gemini-companion-review-conflict review)
          (gemini-companion-review-find-conflict review))
    (condition-case error
        (gemini-companion-queue--note-shown
         review (funcall gemini-companion-diff-function review focus))
      (error
       (let ((fault (gemini-companion-log-reason error)))
         (setf (gemini-companion-review-fault review) fault)
         (gemini-companion-log-add "showing review %d: %s"
                                   (gemini-companion-review-id review) fault)
         (gemini-companion-queue--changed)
         (signal (car error) (cdr error)))))))

(defun gemini-companion-review-show-again (review focus)
  "Take REVIEW off the screen if it is there, and show it as it is now.
For FOCUS see `gemini-companion-review-show'."
  (gemini-companion-queue--hide review)
  (gemini-companion-review-show review focus))

(defun gemini-companion-queue--note-shown (review hide)
  "REVIEW is on screen; the function HIDE takes it off again."
  (setf (gemini-companion-review-hide review) hide
        (gemini-companion-review-seen review) t
        (gemini-companion-review-fault review) nil
        (gemini-companion-review-postponed review) nil)
  (when (eq (gemini-companion-review-state review) 'waiting)
    (setf (gemini-companion-review-state review) 'shown))
  (gemini-companion-queue--changed)
  (gemini-companion-queue--note-waiting review))

(defun gemini-companion-review-visit (review)
  "Go to REVIEW; if the user does not see it, show it in the selected frame."
  (gemini-companion-review-check-open review)
  (let ((window (and (gemini-companion-review-hide review)
                     (gemini-companion-queue--window-of
                      (or (gemini-companion-review-front review)
                          (gemini-companion-review-proposal review))))))
    (if window
        (progn (select-frame-set-input-focus (window-frame window))
               (select-window window))
      ;; Its windows may be gone though nobody took it down, or be on another terminal.
      (gemini-companion-review-show-again review 'select))))

(defun gemini-companion-review-postpone (review)
  "Take REVIEW off the screen, undecided.  It is not shown again by itself."
  (when (gemini-companion-review-open-p review)
    (setf (gemini-companion-review-postponed review) t)
    (gemini-companion-queue--hide review)
    (gemini-companion-queue--changed)
    (gemini-companion-review-say
     review "%s"
     (substitute-command-keys
      (format "%s still waits: \\[gemini-companion-review-next] shows the change again"
              (gemini-companion-review-client-title review))))))

(defun gemini-companion-review-taken-down (review)
  "The user has killed the view of REVIEW: that means what an option says."
  (cond ((not (gemini-companion-review-hide review)))
        ((not (gemini-companion-review-open-p review))
         (gemini-companion-queue--leave review))
        ((eq gemini-companion-diff-on-kill 'reject)
         (gemini-companion-review-reject review))
        (t (gemini-companion-review-postpone review))))

(defun gemini-companion-queue--look-at-file ()
  "Note whether an accept of the review on screen would miss something."
  (gemini-companion-log-errors "looking at a file"
    (when-let* ((review (gemini-companion-review-shown)))
      (let ((conflict (gemini-companion-review-find-conflict review)))
        (unless (eq conflict (gemini-companion-review-conflict review))
          (setf (gemini-companion-review-conflict review) conflict)
          (force-mode-line-update t)
          (run-hooks 'gemini-companion-review-functions)
          (when conflict
            (gemini-companion-review-say review "%s"
                                         (gemini-companion-review-warning review))))))))

;;;; Telling the user

(defun gemini-companion-queue--announce (review)
  "Tell the user of REVIEW."
  (unless (eq gemini-companion-diff-policy 'queue)
    (gemini-companion-review-say
     review "%s proposes %s; %s"
     (gemini-companion-review-client-title review)
     (gemini-companion-review-describe review)
     (gemini-companion-queue--keys review))))

(defun gemini-companion-queue--keys (review)
  "Return in words which keys decide REVIEW, or lead to it, from where the user is."
  (substitute-command-keys
   (cond ((not (gemini-companion-review-hide review))
          "\\[gemini-companion-review-next] shows it")
         ((and (where-is-internal 'gemini-companion-accept nil t)
               (where-is-internal 'gemini-companion-reject nil t))
          "\\[gemini-companion-accept] accepts, \\[gemini-companion-reject] rejects")
         (t "\\[gemini-companion-review-next] goes there"))))

(defun gemini-companion-queue--note-waiting (review)
  "REVIEW begins to wait, or is shown: tell those who want to know."
  (gemini-companion-log-errors "gemini-companion-review-waiting-hook"
    (let ((gemini-companion-review-waiting review))
      (run-hooks 'gemini-companion-review-waiting-hook)))
  (gemini-companion-log-errors "a notification"
    (run-hook-with-args 'gemini-companion-queue-waiting-functions review)))

;;;; Keys meant for another window

(defun gemini-companion-queue--expect-stray-keys (review)
  "Ignore keys that were meant for the window from which REVIEW took the focus."
  (when (eq gemini-companion-diff-focus 'select)
    (setq gemini-companion-queue--unexpected (cons review (float-time)))
    (add-hook 'pre-command-hook #'gemini-companion-queue--ignore-stray-key)))

(defun gemini-companion-queue--ignore-stray-key ()
  "If the key just pressed was not meant for the review that has it, ignore it."
  (pcase-let ((`(,review . ,time) gemini-companion-queue--unexpected))
    (if (or (not (eq gemini-companion-review-of-buffer review))
            (> (- (float-time) time) gemini-companion-queue--reaction))
        (remove-hook 'pre-command-hook #'gemini-companion-queue--ignore-stray-key)
      (unless (mouse-event-p last-command-event)
        (setcdr gemini-companion-queue--unexpected (float-time))
        (setq this-command #'gemini-companion-queue--say-ignored)))))

(defun gemini-companion-queue--say-ignored ()
  "Say that a key was ignored."
  (interactive)
  (message "This change has just come: keys count when you have paused"))

;;;; Held back

(defun gemini-companion-queue--hold (review)
  "Note that REVIEW is held back; after a while, tell the user once.
The mode line says so, and the echo area if nothing else is there."
  (cond ((null gemini-companion-queue--held)
         (setq gemini-companion-queue--held (float-time)))
        ((and (numberp gemini-companion-queue--held)
              (> (- (float-time) gemini-companion-queue--held)
                 gemini-companion-queue--held-after))
         (setq gemini-companion-queue--held 'told)
         (force-mode-line-update t)
         (unless (or (current-message)
                     cursor-in-echo-area
                     (active-minibuffer-window)
                     (bound-and-true-p isearch-mode)
                     (not (gemini-companion-calm-user-frame-p)))
           (message "A change of %s waits to be shown until you pause"
                    (gemini-companion-review-file review))))))

(defun gemini-companion-queue--release ()
  "Note that no review is held back."
  (when gemini-companion-queue--held
    (setq gemini-companion-queue--held nil)
    (force-mode-line-update t)))

(defun gemini-companion-review-held-p ()
  "Return non-nil if a review has been held back for a while."
  (eq gemini-companion-queue--held 'told))

(provide 'gemini-companion-queue)
;;; gemini-companion-queue.el ends here

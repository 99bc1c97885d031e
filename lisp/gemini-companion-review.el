;;; gemini-companion-review.el --- Proposed changes and the user's decisions -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A review is one proposal of a client for one file.  It is always in one of four states, and
;; only this file moves it from one to another:
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
(require 'gemini-companion-follow)
(require 'gemini-companion-history)
(require 'gemini-companion-thrift)
(require 'gemini-companion-workspace)

(autoload 'gemini-companion-change-deletion-p "gemini-companion-compare")
(autoload 'gemini-companion-change-of "gemini-companion-compare")
(autoload 'gemini-companion-change-size "gemini-companion-compare")
(autoload 'gemini-companion-compare-merge "gemini-companion-compare")
(autoload 'gemini-companion-compare-text "gemini-companion-compare")
(declare-function gemini-companion-change-new "gemini-companion-compare" t t)
(declare-function gemini-companion-change-remarks "gemini-companion-compare" t t)

(defvar gemini-companion-diff-function)

(declare-function gemini-companion-notify-add "gemini-companion-notify")
(declare-function gemini-companion-reason-reject "gemini-companion-reason")

;;;; Options

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

(defcustom gemini-companion-notify t
  "How you are told of a change while no frame of this Emacs has the focus.
If t, by a notification of the desktop, which shows the change if you
click it; where there are none, and in text terminals, by the bell.  A
terminal that does not say whether it has the focus counts as having it
until you have pressed no key for a while.  If `bell', by the bell; if
nil, not at all.  It may be a function, to be called with the review."
  :group 'gemini-companion
  :type '(choice (const :tag "Notification" t)
                 (const :tag "Bell" bell)
                 (const :tag "Not at all" nil)
                 (function :tag "Another function"))
  :risky t)

(defcustom gemini-companion-review-waiting-hook nil
  "Hook run when a change begins to wait for you, or is shown.
Whatever has the focus.  Meanwhile `gemini-companion-review-waiting' is
the review; `gemini-companion-review-path', for instance, says more."
  :group 'gemini-companion
  :type 'hook)

;;;; Reviews

(cl-defstruct (gemini-companion-review
               (:constructor gemini-companion-review--make)
               (:copier nil))
  "One proposed change of one file."
  (id nil :documentation "The number by which the native module knows it.")
  (agent nil :documentation "The name of its program, as in `gemini-companion-agent-profiles'.")
  (client nil :documentation "Who the client is, in words for the user.")
  (info nil :documentation "Name and version of the client, a cons, as it says them itself.")
  (process nil :documentation "The id of the client's process, nil if that is not known.")
  (path nil :documentation "The absolute name of the file, exactly as the client wrote it.")
  (proposed nil :documentation "The text as the client proposed it.")
  (created nil :documentation "When it came.")
  (prompt nil :documentation "The prompt that it came after, a cons of its text and when it was
sent, the same for all changes of one prompt; nil if that is not known.")
  (base nil :documentation "The bytes of the file then, nil if there was none.")
  (stamp nil :documentation "What tells whether the file has been written since, see
`gemini-companion-follow-stamp'.")
  (known-change nil :documentation "For which text, and what, `gemini-companion-review-change'
found out.")
  (merged nil :documentation "If the proposal contains the unsaved edits of the user, for which
states of the user's buffer and of the proposal that is known.")
  (conflict nil :documentation "Why an accept would miss something: `unsaved', `changed' or nil.")
  (text nil :documentation "The text as it was when `proposal' was last killed.")
  (proposal nil :documentation "The buffer with the proposal, or nil.  The user may edit it.")
  (front nil :documentation "While shown, the buffer to go to, if it is not `proposal'.")
  (with-base nil :documentation "Non-nil to show the text it was made from, too.")
  (hide nil :documentation "While shown, a function that takes the view off the screen.")
  (state 'waiting :documentation "`waiting', `shown', `asked' or `ended'; see the commentary.")
  (seen nil :documentation "Non-nil once it was on screen.")
  (postponed nil :documentation "Non-nil if the user wants to decide later.")
  (fault nil :documentation "Why it could not be shown when that was tried last, or nil.")
  (ending nil :documentation "Once it has ended, how, in words.")
  (writer nil :documentation "If Emacs is to write the file when the user accepts,
the function that does so and tells the client.  Called with the review and
the text, it returns nil if the review was decided meanwhile.")
  (waiter nil :documentation "A function to be called with the outcome, or nil."))

(defconst gemini-companion-review--retry 0.2
  "Seconds between tries to show a review.")

(defconst gemini-companion-review--calm 0.5
  "Seconds for which the user must have pressed no key.")

(defconst gemini-companion-review--edit-pause 0.3
  "Seconds after an edit of a proposal until it is found out what that changes.")

(defconst gemini-companion-review--replace-time 1.0
  "Seconds beyond which the text of a proposal is replaced as a whole.")

(defconst gemini-companion-review--look 1.0
  "Seconds between looks at the file of the review on screen.")

(defconst gemini-companion-review--reaction 0.7
  "Seconds after which a user may have seen that a review has taken the focus.
Keys that come before were meant for another window, and so were those
that follow each other as fast.")

(defconst gemini-companion-review--hands-off 2.0
  "Seconds for which the user must have pressed no key in a review that ended.")

(defconst gemini-companion-review--pause 1.0
  "Seconds without a review after a client has closed the one on screen.
A key that was meant for that one must not decide the next.")

(defconst gemini-companion-review--away 20
  "Seconds without a key after which a terminal may be one that nobody looks at.")

(defconst gemini-companion-review--held-after 2.0
  "Seconds for which a review is held back before the user is told.")

(defconst gemini-companion-review--write-time 3.0
  "Seconds within which a client whose user said yes has written the file.")

(defconst gemini-companion-review--text-time 5.0
  "Seconds within which a client that was not told the text has written it.")

;;;; State

(defvar gemini-companion-review--open nil
  "The reviews that await a decision, the oldest first.")

(defvar gemini-companion-review--timer nil
  "The timer that waits for a moment to show the next review, or nil.")

(defvar gemini-companion-review--watch nil
  "The timer that looks at the file of the review on screen, or nil.")

(defvar gemini-companion-review--leaving nil
  "Reviews that have ended and are still on screen until there is a calm moment.")

(defvar gemini-companion-review--news nil
  "What to tell the user at the next calm moment, the newest first.
An alist of reviews and texts: of each review the last.")

(defvar gemini-companion-review--unexpected nil
  "The review that has taken the focus by itself, and when.
Or instead the time of the last key that was ignored.")

(defvar gemini-companion-review--edited nil
  "Reviews of which a timer will find out what they change now.")

(defvar gemini-companion-review--not-before 0
  "The time, as a number of seconds, before which no review is shown by itself.")

(defvar gemini-companion-review--held nil
  "Since when a review is held back by what the user does, a number of seconds.
It is `told' once the user was told; nil if none is.")

(defvar-local gemini-companion-review--of-buffer nil
  "The review of which this buffer is a part.")
(put 'gemini-companion-review--of-buffer 'permanent-local t)

(defvar gemini-companion-review-prompt-functions nil
  "Functions that may know after which prompt a review has come.
Each is called with the review and returns that, as in
`gemini-companion-review', or nil.")

(defvar gemini-companion-review-waiting nil
  "While `gemini-companion-review-waiting-hook' runs, the review in question.")

(defvar gemini-companion-review-functions nil
  "Functions called without arguments when the list of reviews has changed.
Or what is known of one that is on it.")

;;;; What there is

(defun gemini-companion-review-list-open ()
  "Return the reviews that await a decision, the oldest first."
  (copy-sequence gemini-companion-review--open))

(defun gemini-companion-review-count ()
  "Return the number of reviews that await a decision."
  (length gemini-companion-review--open))

(defun gemini-companion-review-shown ()
  "Return the review on screen, or nil."
  (cl-loop for review in gemini-companion-review--open
           if (gemini-companion-review-hide review) return review))

(defun gemini-companion-review-open-p (review)
  "Return non-nil if REVIEW still awaits a decision."
  (not (eq (gemini-companion-review-state review) 'ended)))

(defun gemini-companion-review-check-open (review)
  "Signal a `user-error' that says how REVIEW has ended, if it has."
  (unless (gemini-companion-review-open-p review)
    (user-error "%s: %s" (gemini-companion-review-file review)
                (gemini-companion-review-ending review))))

(defun gemini-companion-review-current ()
  "Return the review that a command is about.
That is the one of the current buffer, else the one on screen, else the
oldest.  Signal a `user-error' if there is none, or if that of the current
buffer has ended: then that is taken off the screen."
  (let ((mine gemini-companion-review--of-buffer))
    (cond ((null mine)
           (or (gemini-companion-review-shown)
               (car gemini-companion-review--open)
               (user-error "No change awaits your decision")))
          ((gemini-companion-review-open-p mine) mine)
          (t
           (gemini-companion-review--leave mine)
           (gemini-companion-review-check-open mine)))))

(defun gemini-companion-review-on-screen-p (review)
  "Return non-nil if the user can see REVIEW on the present terminal."
  (and (gemini-companion-review-hide review)
       (or (gemini-companion-review--window-of (gemini-companion-review-front review))
           (gemini-companion-review--window-of (gemini-companion-review-proposal review)))
       t))

(defun gemini-companion-review--window-of (buffer)
  "Return a window of BUFFER, which may be dead or nil, that the user can see."
  (and (buffer-live-p buffer)
       (cl-loop for window in (get-buffer-window-list buffer 'no-minibuffer t)
                if (gemini-companion-review--visible-p window) return window)))

(defun gemini-companion-review--visible-p (window)
  "Return non-nil if the user can see WINDOW from the selected frame.
A text terminal shows one frame at a time."
  (let ((frame (window-frame window)))
    (or (eq frame (selected-frame))
        (and (display-graphic-p frame)
             (eq (frame-terminal frame) (frame-terminal))
             (eq (frame-visible-p frame) t)))))

(defun gemini-companion-review-current-text (review)
  "Return what the proposal of REVIEW says now."
  (let ((proposal (gemini-companion-review-proposal review)))
    (if (buffer-live-p proposal)
        (gemini-companion-review--text proposal)
      (gemini-companion-review-text review))))

(defun gemini-companion-review-file (review)
  "Return the name of the file of REVIEW without its directory, in one line."
  (gemini-companion-log-one-line
   (file-name-nondirectory (gemini-companion-review-path review))))

(defun gemini-companion-review-place (review)
  "Return the name of the file of REVIEW as it is in its project, in one line."
  (let ((path (gemini-companion-review-path review))
        (file-name-handler-alist nil))
    (gemini-companion-log-one-line
     (if-let* ((root (gemini-companion-workspace-innermost path)))
         (string-remove-prefix (cdr root) path)
       (abbreviate-file-name path)))))

(defun gemini-companion-review-client-title (review)
  "Return what users call the program of REVIEW."
  (or (gemini-companion-agent-get (gemini-companion-review-agent review) :title)
      (gemini-companion-log-one-line (gemini-companion-review-client review))))

;;;; What a review changes

(defun gemini-companion-review-change (review)
  "Return what an accept of REVIEW does to its file, a `gemini-companion-change'.
While its proposal is being edited that is what it did a moment ago."
  (let ((known (gemini-companion-review-known-change review)))
    (cond ((null known) (gemini-companion-review--find-change review))
          ((not (eql (car known) (gemini-companion-review--version review)))
           (gemini-companion-review--find-change-soon review)))
    (cdr (gemini-companion-review-known-change review))))

(defun gemini-companion-review--version (review)
  "Return something that is another when the text of REVIEW has changed."
  (let ((proposal (gemini-companion-review-proposal review)))
    (if (buffer-live-p proposal)
        (buffer-chars-modified-tick proposal)
      (gemini-companion-review-text review))))

(defun gemini-companion-review--find-change (review)
  "Find out what an accept of REVIEW does to its file as the text now reads."
  (let ((path (gemini-companion-review-path review)))
    (setf (gemini-companion-review-known-change review)
          (cons (gemini-companion-review--version review)
                (or (gemini-companion-log-errors "comparing"
                      (gemini-companion-change-of
                       path
                       (or (gemini-companion-review-base review)
                           (and (gemini-companion-review-stamp review) 'unreadable))
                       (gemini-companion-review-current-text review)))
                    (gemini-companion-change-of path 'unreadable ""))))))

(defun gemini-companion-review--find-change-soon (review)
  "Find out what REVIEW changes, whose text was edited, when that goes on no more."
  (unless (memq review gemini-companion-review--edited)
    (push review gemini-companion-review--edited)
    (run-at-time gemini-companion-review--edit-pause nil
                 #'gemini-companion-review--find-changes)))

(defun gemini-companion-review--find-changes ()
  "Find out what the reviews change whose texts were edited, and show it."
  (mapc #'gemini-companion-review--find-change gemini-companion-review--edited)
  (setq gemini-companion-review--edited nil)
  (force-mode-line-update t)
  (run-hooks 'gemini-companion-review-functions))

(defun gemini-companion-review-remarks (review)
  "Return what the user should know before accepting REVIEW, a list of short texts."
  (append (pcase (gemini-companion-review-conflict review)
            ('unsaved '("Unsaved edits"))
            ('changed '("Changed on disk")))
          (gemini-companion-change-remarks (gemini-companion-review-change review))))

(defun gemini-companion-review-visiting (review)
  "Return the buffer that visits the file of REVIEW, or nil."
  (let ((file-name-handler-alist nil))
    (find-buffer-visiting (gemini-companion-review-path review))))

;;;; Events

(gemini-companion-define-handler open-review (id agent client path text name version process)
  "Queue the review ID: CLIENT, of AGENT, proposes TEXT for the file PATH.
NAME and VERSION are what the client says itself; PROCESS is its id, or nil."
  (condition-case error
      (gemini-companion-review--add
       (gemini-companion-review--make
        :id id :agent agent :client client :info (cons name version)
        :process process :path path :proposed text :text text
        :created (current-time)
        :stamp (gemini-companion-follow-stamp path)
        :base (gemini-companion-history-read path)))
    (error
     ;; Nobody would ever decide it.
     (gemini-companion-bridge-reject id)
     (setq gemini-companion-review--open
           (delq (gemini-companion-review-with-id id) gemini-companion-review--open))
     (signal (car error) (cdr error)))))

(defun gemini-companion-review--add (review)
  "Let REVIEW wait for a decision."
  (setf (gemini-companion-review-prompt review)
        (gemini-companion-log-errors "looking for a prompt"
          (run-hook-with-args-until-success 'gemini-companion-review-prompt-functions review)))
  (setq gemini-companion-review--open
        (append gemini-companion-review--open (list review)))
  (gemini-companion-log-add "review %d opened: %s (%s)" (gemini-companion-review-id review)
                            (gemini-companion-review-path review)
                            (gemini-companion-review-client review))
  (gemini-companion-review--changed)
  (unless (gemini-companion-review--pops-up-p)
    (gemini-companion-review--announce review))
  (gemini-companion-review--note-waiting review))

(gemini-companion-define-handler close-review (id call)
  "Close the review ID without asking; CALL, unless nil, waits for its text."
  (let ((review (gemini-companion-review-with-id id)))
    (cond (review
           (gemini-companion-log-add "review %d closed by the client" id)
           (if call
               (gemini-companion-review--close review call)
             (gemini-companion-review--withdraw review)))
          (call
           (gemini-companion-bridge-fail call "this diff is not open in Emacs any more")))))

(defun gemini-companion-review--withdraw (review)
  "End REVIEW, whose client is gone."
  (gemini-companion-review--end
   review 'withdrawn (gemini-companion-review--bytes review)
   (format "withdrawn, %s is gone" (gemini-companion-review-client-title review)))
  (gemini-companion-review--say-ending review))

(defun gemini-companion-review--close (review call)
  "End REVIEW, which the user has answered in the client, and answer CALL."
  (let* ((path (gemini-companion-review-path review))
         (text (gemini-companion-review-current-text review))
         (may-omit (gemini-companion-review--may-omit-p review text))
         ;; Once it is answered the client may write the file.
         (before (gemini-companion-review--bytes review))
         (stamp (gemini-companion-follow-stamp path)))
    (gemini-companion-follow path (gemini-companion-review--merged-state review))
    (gemini-companion-bridge-answer call text may-omit)
    (gemini-companion-review--end
     review 'closed before
     (concat "decided in " (gemini-companion-review-client-title review)))
    (gemini-companion-review--say-ending review)
    (unless (gemini-companion-review--warn-of-lost-edits review)
      (gemini-companion-review--await-write review stamp (and may-omit text)))))

(defun gemini-companion-review--await-write (review stamp text)
  "Tell the user which answer the client of REVIEW, closed there, has got.
The client does not say: it writes the file, whose stamp then is another
than STAMP, or it does not.  If TEXT is non-nil, the client was not told it
and must write it all the same."
  (let ((path (gemini-companion-review-path review))
        (there (gemini-companion-review-client-title review)))
    (gemini-companion-review--await
     gemini-companion-review--write-time
     (lambda () (not (equal (gemini-companion-follow-stamp path) stamp)))
     (lambda (written)
       (setf (gemini-companion-review-ending review)
             (concat (if written "accepted in " "rejected in ") there))
       (gemini-companion-review--say-ending review)
       (when (and written text)
         (gemini-companion-review--await-text review text))))))

(defun gemini-companion-review--await (seconds look finish)
  "Call the function LOOK until it returns non-nil, but for no more than SECONDS.
Then call FINISH with its last value.  While that is `busy' no time passes."
  (let ((left seconds)
        (timer nil))
    (setq timer
          (run-at-time
           gemini-companion-review--retry gemini-companion-review--retry
           (lambda ()
             (let ((seen (gemini-companion-log-errors "looking at a file" (funcall look))))
               (unless (eq seen 'busy)
                 (setq left (- left gemini-companion-review--retry))
                 (when (or seen (<= left 0))
                   (cancel-timer timer)
                   (funcall finish seen)))))))))

(defun gemini-companion-review--may-omit-p (review text)
  "Return non-nil if the client of REVIEW need not be told TEXT to write it."
  (pcase-let ((`(,name . ,version) (gemini-companion-review-info review)))
    (and (gemini-companion-thrift-p (gemini-companion-review-agent review) name version)
         (gemini-companion-thrift-untouched-p text
                                              (gemini-companion-review-proposed review)
                                              (gemini-companion-review-base review))
         ;; In another file than it has read the client would make its change again.
         (not (gemini-companion-review--written-p review)))))

(defun gemini-companion-review--await-text (review text)
  "Tell the user if the client of REVIEW, not told TEXT, does not write it.
It may have other changes decided first."
  (let ((path (gemini-companion-review-path review))
        (last 'unknown))
    (gemini-companion-review--await
     gemini-companion-review--text-time
     (lambda ()
       (let ((stamp (gemini-companion-follow-stamp path)))
         (cond ((and (not (equal stamp last))
                     (gemini-companion-history-written-p path text)))
               (t (setq last stamp)
                  (and (gemini-companion-review--others-open-p review) 'busy)))))
     (lambda (written)
       (gemini-companion-log-add "review %d: %s as accepted" (gemini-companion-review-id review)
                                 (if written "written" "not written"))
       (unless written
         (gemini-companion-review--warn-of-lost-text review))))))

(defun gemini-companion-review--others-open-p (review)
  "Return non-nil if the user has changes to decide of the client of REVIEW."
  (cl-loop for other in gemini-companion-review--open
           thereis (equal (gemini-companion-review-client other)
                          (gemini-companion-review-client review))))

(defun gemini-companion-review--warn-of-lost-text (review)
  "Say that the client of REVIEW did not write the text that was accepted."
  (gemini-companion-review-say
   review
   "%s has not made %s what you accepted: M-x gemini-companion-review-history, there w, writes it"
   (gemini-companion-review-client-title review) (gemini-companion-review-file review)))

(defun gemini-companion-review--warn-of-lost-edits (review)
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

(defun gemini-companion-review-with-id (id)
  "Return the open review that has ID, or nil."
  (cl-loop for review in gemini-companion-review--open
           if (eql (gemini-companion-review-id review) id) return review))

(defun gemini-companion-review--bytes (review)
  "Return the bytes of the file of REVIEW as it is now, or nil if there is none.
Return `unreadable' if there is one that cannot be read."
  (let* ((path (gemini-companion-review-path review))
         (stamp (gemini-companion-follow-stamp path)))
    (cond ((not stamp) nil)
          ((if (equal stamp (gemini-companion-review-stamp review))
               (gemini-companion-review-base review)
             (gemini-companion-history-read path)))
          (t 'unreadable))))

;;;; Ending

(defun gemini-companion-review--end (review outcome before ending &optional by-command)
  "REVIEW has ended with OUTCOME, a symbol; ENDING says so in words.
BEFORE are the bytes of its file until then.  With BY-COMMAND non-nil the
user has ended it, and it is taken off the screen at once; else when the
user is in the middle of nothing."
  (let ((shown (gemini-companion-review-hide review)))
    ;; What the user types from now on would be in no text that anybody gets.
    (gemini-companion-review--freeze review)
    (setf (gemini-companion-review-state review) 'ended
          (gemini-companion-review-ending review) ending
          gemini-companion-review--open (delq review gemini-companion-review--open))
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
    (push review gemini-companion-review--leaving)
    (cond (by-command (gemini-companion-review--leave review))
          (t (when shown
               (setq gemini-companion-review--not-before
                     (+ (float-time) gemini-companion-review--pause)))
             (gemini-companion-review--clear-screen))))
  (gemini-companion-review--changed))

(defun gemini-companion-review--freeze (review)
  "Keep what the proposal of REVIEW says, and let it be edited no more."
  (let ((proposal (gemini-companion-review-proposal review)))
    (when (buffer-live-p proposal)
      (setf (gemini-companion-review-text review)
            (gemini-companion-review-current-text review))
      (with-current-buffer proposal
        (setq buffer-read-only t)))))

(defun gemini-companion-review--clear-screen ()
  "Take reviews that have ended off the screen, those that may go now."
  (dolist (review (copy-sequence gemini-companion-review--leaving))
    (when (gemini-companion-review--may-go-p review)
      (gemini-companion-review--leave review))))

(defun gemini-companion-review--may-go-p (review)
  "Return non-nil if the windows of REVIEW, which has ended, may be deleted.
If the user is in one of them, what is typed next goes to another buffer:
then only if no key has been pressed for a while, or not to be pressed in
this frame."
  (or (not (gemini-companion-review-hide review))
      (and (gemini-companion-review--undisturbed-p)
           (or (not (eq (buffer-local-value 'gemini-companion-review--of-buffer
                                            (window-buffer))
                        review))
               (null (frame-focus-state))
               (gemini-companion-review--idle-p gemini-companion-review--hands-off)))))

(defun gemini-companion-review--leave (review)
  "Take REVIEW, which has ended, off the screen now, and kill its proposal."
  (setq gemini-companion-review--leaving (delq review gemini-companion-review--leaving))
  (unwind-protect
      (gemini-companion-review--hide review)
    (let ((proposal (gemini-companion-review-proposal review)))
      (when (buffer-live-p proposal)
        (with-current-buffer proposal (set-buffer-modified-p nil))
        (gemini-companion-log-errors "killing a proposal" (kill-buffer proposal))))))

(defun gemini-companion-review--leave-all ()
  "Take all reviews that have ended off the screen now."
  (mapc #'gemini-companion-review--leave
        (copy-sequence gemini-companion-review--leaving)))

(defun gemini-companion-review--hide (review)
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
      (gemini-companion-review--end review 'rejected (gemini-companion-review--bytes review)
                                    "rejected, the companion was switched off")))
  ;; A prompt may be open if the server has died.
  (unless (active-minibuffer-window)
    (gemini-companion-review--leave-all))
  (gemini-companion-review--changed)
  (gemini-companion-follow-stop))

;;;; News

(defun gemini-companion-review--say-ending (review)
  "Tell the user how REVIEW has ended."
  (gemini-companion-review-say review "%s: %s" (gemini-companion-review-file review)
                               (gemini-companion-review-ending review)))

(defun gemini-companion-review-say (review format &rest arguments)
  "Show a message about REVIEW as soon as it takes no prompt's place.
It is FORMAT with ARGUMENTS, as in `format-message'."
  (setf (alist-get review gemini-companion-review--news nil t)
        (apply #'format-message format arguments))
  (gemini-companion-review--tell-news)
  (gemini-companion-review--adjust-timers))

(defun gemini-companion-review--tell-news ()
  "Show the messages that wait, if the echo area is free."
  (when (and gemini-companion-review--news (gemini-companion-review--undisturbed-p))
    (let ((news (mapcar #'cdr (nreverse gemini-companion-review--news))))
      (setq gemini-companion-review--news nil)
      (message "%s" (string-join news "; ")))))

;;;; Showing

(defun gemini-companion-review--changed ()
  "The list has changed, or what is on screen.
Show the next review when there is a good moment."
  (gemini-companion-bridge-set-awaited (and gemini-companion-review--open t))
  (if gemini-companion-review--open
      (add-hook 'kill-emacs-query-functions #'gemini-companion-review--query-exit)
    (remove-hook 'kill-emacs-query-functions #'gemini-companion-review--query-exit))
  (force-mode-line-update t)
  (gemini-companion-review--adjust-timers)
  (run-hooks 'gemini-companion-review-functions))

(defun gemini-companion-review--query-exit ()
  "Ask whether to leave Emacs while reviews await a decision."
  (or noninteractive
      (not (gemini-companion-review--user-frame-p))
      (let ((count (gemini-companion-review-count)))
        (yes-or-no-p (format "%s for your decision.  Reject %s and exit? "
                             (if (= count 1) "A proposed change waits"
                               (format "%d proposed changes wait" count))
                             (if (= count 1) "it" "them"))))))

(defun gemini-companion-review--adjust-timers ()
  "Start or cancel the timers, as what there is to do needs them."
  (unless (gemini-companion-review--due)
    (gemini-companion-review--release))
  (setq gemini-companion-review--watch
        (gemini-companion-review--adjust gemini-companion-review--watch
                                         (gemini-companion-review-shown)
                                         gemini-companion-review--look
                                         gemini-companion-review--look
                                         #'gemini-companion-review--look-at-file)
        gemini-companion-review--timer
        (gemini-companion-review--adjust gemini-companion-review--timer
                                         (or gemini-companion-review--leaving
                                             gemini-companion-review--news
                                             (gemini-companion-review--due))
                                         0 gemini-companion-review--retry
                                         #'gemini-companion-review--try)))

(defun gemini-companion-review--adjust (timer wanted first seconds function)
  "Return TIMER, started or cancelled as WANTED says.
It calls FUNCTION in FIRST seconds and then each SECONDS."
  (cond ((and wanted (not timer)) (run-at-time first seconds function))
        ((or wanted (not timer)) timer)
        (t (cancel-timer timer) nil)))

(defun gemini-companion-review--pops-up-p ()
  "Return non-nil if reviews are shown by themselves."
  (and (eq gemini-companion-diff-policy 'pop-up)
       (not (eq gemini-companion-diff-focus 'announce))))

(defun gemini-companion-review--due ()
  "Return the reviews to be shown by themselves, if none is shown now."
  (unless (or (not (gemini-companion-review--pops-up-p))
              (gemini-companion-review-shown))
    (cl-loop for review in gemini-companion-review--open
             unless (gemini-companion-review-postponed review) collect review)))

(defun gemini-companion-review--try ()
  "Do what waits for a calm moment, if this is one.
First take off the screen what has ended, then show the next review."
  (gemini-companion-review--clear-screen)
  (gemini-companion-review--tell-news)
  (let ((due (gemini-companion-review--due)))
    (when (and due (not gemini-companion-review--leaving)
               (> (float-time) gemini-companion-review--not-before))
      (if (gemini-companion-review--calm-p)
          (gemini-companion-review--pop-up (car due))
        (gemini-companion-review--hold (car due)))))
  (gemini-companion-review--adjust-timers))

(defun gemini-companion-review--pop-up (review)
  "Show REVIEW, and say why if that cannot be."
  (gemini-companion-review--release)
  (condition-case error
      (let ((throw-on-input nil))
        (with-local-quit
          (gemini-companion-review-show review gemini-companion-diff-focus)
          (gemini-companion-review--expect-stray-keys review)
          (gemini-companion-review--announce review)))
    (error
     (message "The change of %s cannot be shown: %s.  Decide it in %s, or in \
M-x gemini-companion-review-list"
              (gemini-companion-review-file review) (gemini-companion-log-reason error)
              (gemini-companion-review-client-title review))))
  (gemini-companion-review--changed))

(defun gemini-companion-review--expect-stray-keys (review)
  "Ignore keys that were meant for the window from which REVIEW took the focus."
  (when (eq gemini-companion-diff-focus 'select)
    (setq gemini-companion-review--unexpected (cons review (float-time)))
    (add-hook 'pre-command-hook #'gemini-companion-review--ignore-stray-key)))

(defun gemini-companion-review--ignore-stray-key ()
  "If the key just pressed was not meant for the review that has it, ignore it."
  (pcase-let ((`(,review . ,time) gemini-companion-review--unexpected))
    (if (or (not (eq gemini-companion-review--of-buffer review))
            (> (- (float-time) time) gemini-companion-review--reaction))
        (remove-hook 'pre-command-hook #'gemini-companion-review--ignore-stray-key)
      (unless (mouse-event-p last-command-event)
        (setcdr gemini-companion-review--unexpected (float-time))
        (setq this-command #'gemini-companion-review--say-ignored)))))

(defun gemini-companion-review--say-ignored ()
  "Say that a key was ignored."
  (interactive)
  (message "This change has just come: keys count when you have paused"))

(defun gemini-companion-review-show (review focus)
  "Show REVIEW now, in place of the one that is shown.
FOCUS is `select' or `keep', as in `gemini-companion-diff-focus'.  If it
cannot be shown it still waits, and has a note that says why."
  (gemini-companion-review-check-open review)
  (unless (gemini-companion-review-hide review)
    (gemini-companion-review--leave-all)
    (when-let* ((shown (gemini-companion-review-shown)))
      (setf (gemini-companion-review-postponed shown) t)
      (gemini-companion-review--hide shown))
    ;; If this fails it is not tried again every moment.
    (setf (gemini-companion-review-postponed review) t
          (gemini-companion-review-conflict review)
          (gemini-companion-review-find-conflict review))
    (condition-case error
        (gemini-companion-review--note-shown
         review (funcall gemini-companion-diff-function review focus))
      (error
       (let ((fault (gemini-companion-log-reason error)))
         (setf (gemini-companion-review-fault review) fault)
         (gemini-companion-log-add "showing review %d: %s"
                                   (gemini-companion-review-id review) fault)
         (gemini-companion-review--changed)
         (signal (car error) (cdr error)))))))

(defun gemini-companion-review--note-shown (review hide)
  "REVIEW is on screen; the function HIDE takes it off again."
  (setf (gemini-companion-review-hide review) hide
        (gemini-companion-review-seen review) t
        (gemini-companion-review-fault review) nil
        (gemini-companion-review-postponed review) nil)
  (when (eq (gemini-companion-review-state review) 'waiting)
    (setf (gemini-companion-review-state review) 'shown))
  (gemini-companion-review--changed)
  (gemini-companion-review--note-waiting review))

(defun gemini-companion-review--announce (review)
  "Tell the user of REVIEW."
  (unless (eq gemini-companion-diff-policy 'queue)
    (gemini-companion-review-say
     review "%s proposes %s; %s"
     (gemini-companion-review-client-title review)
     (gemini-companion-review-describe review)
     (gemini-companion-review--keys review))))

(defun gemini-companion-review-describe (review)
  "Return in words what REVIEW proposes: \"a change to src/app.py, +6 -4\"."
  (let ((change (gemini-companion-review-change review)))
    (format "%s %s, %s"
            (if (gemini-companion-change-new change) "a new file" "a change to")
            (gemini-companion-review-place review)
            (gemini-companion-change-size change))))

(defun gemini-companion-review--keys (review)
  "Return in words which keys decide REVIEW, or lead to it, from where the user is."
  (substitute-command-keys
   (cond ((not (gemini-companion-review-hide review))
          "\\[gemini-companion-review-next] shows it")
         ((and (where-is-internal #'gemini-companion-accept nil t)
               (where-is-internal #'gemini-companion-reject nil t))
          "\\[gemini-companion-accept] accepts, \\[gemini-companion-reject] rejects")
         (t "\\[gemini-companion-review-next] goes there"))))

(defun gemini-companion-review--note-waiting (review)
  "REVIEW begins to wait, or is shown: tell those who want to know."
  (gemini-companion-log-errors "gemini-companion-review-waiting-hook"
    (let ((gemini-companion-review-waiting review))
      (run-hooks 'gemini-companion-review-waiting-hook)))
  (gemini-companion-log-errors "a notification"
    (when (and gemini-companion-notify
               (gemini-companion-review-open-p review)
               (gemini-companion-review-away-p))
      (gemini-companion-notify-add review))))

(defun gemini-companion-review-away-p ()
  "Return non-nil if the user seems not to look at this Emacs."
  (let ((states (mapcar #'frame-focus-state (frame-list)))
        (idle (current-idle-time)))
    (cond (noninteractive nil)
          ((memq t states) nil)
          ((memq 'unknown states)
           (and idle (> (float-time idle) gemini-companion-review--away)))
          (t t))))

(defun gemini-companion-review-postpone (review)
  "Take REVIEW off the screen, undecided.  It is not shown again by itself."
  (when (gemini-companion-review-open-p review)
    (setf (gemini-companion-review-postponed review) t)
    (gemini-companion-review--hide review)
    (gemini-companion-review--changed)
    (gemini-companion-review-say
     review "%s"
     (substitute-command-keys
      (format "%s still waits: \\[gemini-companion-review-next] shows the change again"
              (gemini-companion-review-client-title review))))))

(defun gemini-companion-review-taken-down (review)
  "The user has killed the view of REVIEW: that means what an option says."
  (cond ((not (gemini-companion-review-hide review)))
        ((not (gemini-companion-review-open-p review))
         (gemini-companion-review--leave review))
        ((eq gemini-companion-diff-on-kill 'reject)
         (gemini-companion-review-reject review))
        (t (gemini-companion-review-postpone review))))

;;;; Calm moments

(defun gemini-companion-review--undisturbed-p ()
  "Return non-nil if nothing waits for the user's next key.
That could be a prompt, the rest of a key sequence, or a search."
  (and (zerop (recursion-depth))
       (null this-command)
       (zerop (length (this-command-keys-vector)))
       (null prefix-arg)
       (not (active-minibuffer-window))
       (not (bound-and-true-p isearch-mode))
       (not defining-kbd-macro)
       (not executing-kbd-macro)
       (not (input-pending-p))
       (not throw-on-input)
       ;; The map of Repeat mode is there until another key is pressed, which may be in an hour.
       (or (null overriding-terminal-local-map)
           (bound-and-true-p repeat-in-progress))
       (not (bound-and-true-p transient--prefix))))

(defun gemini-companion-review--idle-p (seconds)
  "Return non-nil if the user has pressed no key for SECONDS."
  (let ((idle (current-idle-time)))
    (or (null idle) (> (float-time idle) seconds))))

(defun gemini-companion-review--calm-p ()
  "Return non-nil if windows may appear: the user is in the middle of nothing."
  (and (gemini-companion-review--undisturbed-p)
       (gemini-companion-review--user-frame-p)
       (gemini-companion-review--idle-p gemini-companion-review--calm)))

(defun gemini-companion-review--user-frame-p ()
  "Return non-nil if the selected frame is one that a user sees.
A daemon has a frame that nobody sees."
  (not (equal (terminal-name (frame-terminal)) "initial_terminal")))

(defun gemini-companion-review--hold (review)
  "Note that REVIEW is held back; after a while, tell the user once.
The mode line says so, and the echo area if nothing else is there."
  (cond ((null gemini-companion-review--held)
         (setq gemini-companion-review--held (float-time)))
        ((and (numberp gemini-companion-review--held)
              (> (- (float-time) gemini-companion-review--held)
                 gemini-companion-review--held-after))
         (setq gemini-companion-review--held 'told)
         (force-mode-line-update t)
         (unless (or (current-message)
                     cursor-in-echo-area
                     (active-minibuffer-window)
                     (bound-and-true-p isearch-mode)
                     (not (gemini-companion-review--user-frame-p)))
           (message "A change of %s waits to be shown until you pause"
                    (gemini-companion-review-file review))))))

(defun gemini-companion-review--release ()
  "Note that no review is held back."
  (when gemini-companion-review--held
    (setq gemini-companion-review--held nil)
    (force-mode-line-update t)))

(defun gemini-companion-review-held-p ()
  "Return non-nil if a review has been held back for a while."
  (eq gemini-companion-review--held 'told))

;;;; Conflicts

(defun gemini-companion-review-find-conflict (review)
  "Return why an accept of REVIEW would miss something, or nil.
`unsaved': a buffer that visits the file has edits that are not in it.
`changed': the file was written since the proposal was made."
  (let ((buffer (gemini-companion-review-visiting review)))
    (cond ((and buffer (buffer-modified-p buffer)
                (not (gemini-companion-review--merged-p review buffer)))
           'unsaved)
          ((gemini-companion-review--written-p review) 'changed))))

(defun gemini-companion-review--merged-p (review buffer)
  "Return non-nil if the text of REVIEW contains the unsaved edits in BUFFER."
  (let ((states (gemini-companion-review--states review buffer))
        (merged (gemini-companion-review-merged review)))
    (or (equal states merged)
        (and (equal (car states) (car merged))
             ;; What was merged may have been undone.
             (equal (gemini-companion-review--merge-with
                     review (gemini-companion-review--text buffer))
                    (gemini-companion-review-current-text review))
             (setf (gemini-companion-review-merged review) states)))))

(defun gemini-companion-review--states (review buffer)
  "Return a pair that is another when the text of BUFFER or of REVIEW has changed.
Its car is for BUFFER alone: see `gemini-companion-follow'."
  (cons (cons buffer (buffer-chars-modified-tick buffer))
        (gemini-companion-review--version review)))

(defun gemini-companion-review--merged-state (review)
  "Return for `gemini-companion-follow' which edits the text of REVIEW contains."
  (when-let* ((buffer (gemini-companion-review-visiting review)))
    (and (gemini-companion-review--merged-p review buffer)
         (car (gemini-companion-review-merged review)))))

(defun gemini-companion-review--merge-with (review text)
  "Return the text of REVIEW with what TEXT has changed of its file.
For the value if that cannot be see `gemini-companion-compare-merge'."
  (gemini-companion-compare-merge
   (gemini-companion-compare-text (gemini-companion-review-path review)
                                  (or (gemini-companion-review-base review) "")
                                  (gemini-companion-review-proposed review))
   text
   (gemini-companion-review-current-text review)))

(defun gemini-companion-review--text (buffer)
  "Return the whole text of BUFFER."
  (with-current-buffer buffer
    (save-restriction
      (widen)
      (buffer-substring-no-properties (point-min) (point-max)))))

(defun gemini-companion-review--written-p (review)
  "Return non-nil if the file of REVIEW is not what it was when it came."
  (let* ((path (gemini-companion-review-path review))
         (stamp (gemini-companion-follow-stamp path)))
    (cond ((equal stamp (gemini-companion-review-stamp review)) nil)
          ((not (equal (gemini-companion-history-read path)
                       (gemini-companion-review-base review))))
          ;; Written, and with the same text.
          (t (setf (gemini-companion-review-stamp review) stamp)
             nil))))

(defun gemini-companion-review--look-at-file ()
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

(defun gemini-companion-review-warning (review)
  "Return what the user should know before accepting REVIEW, or nil."
  (pcase (gemini-companion-review-conflict review)
    ('unsaved (format "The buffer of %s has unsaved edits that this text does not contain"
                      (gemini-companion-review-file review)))
    ('changed (format "%s has changed on disk since this text was made"
                      (gemini-companion-review-file review)))))

;;;; Commands

;;;###autoload
(defun gemini-companion-accept ()
  "Accept the proposed change as its text now reads.
The client then writes the file.  Decides the review of the current
buffer, else the one on screen.  If none is on screen, show the oldest
instead.  If to accept would lose something, ask first."
  (interactive)
  (gemini-companion-review--decide-current #'gemini-companion-review-accept))

;;;###autoload
(defun gemini-companion-reject (&optional with-reason)
  "Reject the proposed change; the file stays as it is.
Decides the review of the current buffer, else the one on screen.  If
none is on screen, show the oldest instead.  With WITH-REASON,
interactively the prefix argument, ask for a reason, which becomes the
next prompt of the client if that runs in a terminal of Emacs."
  (interactive "P")
  (gemini-companion-review--decide-current (if with-reason
                                               #'gemini-companion-reason-reject
                                             #'gemini-companion-review-reject)))

(defun gemini-companion-review--decide-current (decide)
  "Call DECIDE with the review that a command is about.
If the user sees nothing of that, show it instead."
  (let ((review (gemini-companion-review-current)))
    (when (or (eq review gemini-companion-review--of-buffer)
              (gemini-companion-review-on-screen-p review)
              (not (gemini-companion-review--show-first review)))
      (funcall decide review))))

(defun gemini-companion-review--show-first (review)
  "Show REVIEW, which a command would have decided, and say so.
Return nil if it cannot be shown."
  (condition-case nil
      (progn
        (gemini-companion-review--hide review)
        (gemini-companion-review-show review 'keep)
        (message "%s was not on screen: look at it, then decide"
                 (gemini-companion-review-file review)))
    (error nil)))

(defun gemini-companion-review-accept (review)
  "Accept REVIEW as its text now reads; if that would lose something, ask first.
If it has never been on screen, show it instead, or ask if it cannot be
shown."
  (gemini-companion-review-check-open review)
  (cond ((gemini-companion-review-seen review)
         (gemini-companion-review--accept-seen review))
        ((gemini-companion-review--show-first review))
        (t
         (gemini-companion-review--ask-unseen review)
         (gemini-companion-review--accept-seen review))))

(defun gemini-companion-review--accept-seen (review)
  "Accept REVIEW, of which the user knows what it says."
  (gemini-companion-review--check review)
  (gemini-companion-follow (gemini-companion-review-path review)
                           (gemini-companion-review--merged-state review))
  (let ((text (gemini-companion-review-current-text review))
        (tell (or (gemini-companion-review-writer review)
                  #'gemini-companion-review--tell-accepted)))
    (gemini-companion-review-decide review 'accepted
                                    (lambda (_id) (funcall tell review text)))))

(defun gemini-companion-review--tell-accepted (review text)
  "Tell the client of REVIEW that the user has accepted TEXT.
Return nil if it was decided meanwhile."
  (let ((may-omit (gemini-companion-review--may-omit-p review text)))
    (when (gemini-companion-bridge-accept (gemini-companion-review-id review) text may-omit)
      (when may-omit
        (gemini-companion-review--await-text review text))
      t)))

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
  (gemini-companion-review--changed)
  (gemini-companion-review-say
   review "%s asks you to accept the change of %s"
   (gemini-companion-review-client-title review) (gemini-companion-review-file review)))

(defun gemini-companion-review-reject (review)
  "Reject REVIEW; the file stays as it is.
Return nil if its client has decided it already."
  (gemini-companion-review-check-open review)
  (gemini-companion-review-decide review 'rejected #'gemini-companion-bridge-reject))

;;;###autoload
(defun gemini-companion-review-next ()
  "Show the next change that awaits your decision, and go there.
If none but that on screen does, go there."
  (interactive)
  (let* ((current (gemini-companion-review-current))
         (rest (cdr (memq current gemini-companion-review--open)))
         (next (if (gemini-companion-review-on-screen-p current)
                   (or (car rest) (car gemini-companion-review--open))
                 current)))
    (gemini-companion-review-visit next)))

(defun gemini-companion-review-visit (review)
  "Go to REVIEW; if the user does not see it, show it in the selected frame."
  (gemini-companion-review-check-open review)
  (let ((window (and (gemini-companion-review-hide review)
                     (gemini-companion-review--window-of
                      (or (gemini-companion-review-front review)
                          (gemini-companion-review-proposal review))))))
    (if window
        (progn (select-frame-set-input-focus (window-frame window))
               (select-window window))
      ;; Its windows may be gone though nobody took it down, or be on another terminal.
      (gemini-companion-review--hide review)
      (gemini-companion-review-show review 'select))))

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

(defun gemini-companion-review-three-way ()
  "Show the change with the text from which it was made, or without it again.
Beside the proposal you then see the text as you have it, with edits that
are not saved."
  (interactive)
  (let ((review (gemini-companion-review-current)))
    (gemini-companion-review--show-with-base
     review (not (gemini-companion-review-with-base review)))))

(defun gemini-companion-review--show-with-base (review with-base)
  "Show REVIEW, if WITH-BASE is non-nil with the text from which it was made."
  (gemini-companion-review-check-open review)
  (setf (gemini-companion-review-with-base review) with-base)
  (gemini-companion-review--hide review)
  (gemini-companion-review-show review 'select))

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
    (gemini-companion-review--merge review)
    (message "%s" (substitute-command-keys
                   "Merged into the proposed text; \\[gemini-companion-accept] accepts it"))))

(defun gemini-companion-review--merge (review)
  "Merge into the text of REVIEW what it lacks, and show it anew."
  (when (gemini-companion-review--written-p review)
    (gemini-companion-review--merge-file review))
  (when-let* ((buffer (gemini-companion-review-visiting review)))
    (when (buffer-modified-p buffer)
      (gemini-companion-review--merge-buffer review buffer)))
  (let ((focus (if (eq gemini-companion-review--of-buffer review) 'select 'keep)))
    (gemini-companion-review--hide review)
    (gemini-companion-review-show review focus)))

(defun gemini-companion-review--merge-file (review)
  "Merge into the text of REVIEW what was written to its file since it came."
  (let* ((path (gemini-companion-review-path review))
         (stamp (gemini-companion-follow-stamp path))
         (bytes (gemini-companion-history-read path)))
    (unless bytes
      (user-error "There is nothing to merge: %s is gone, or cannot be read" path))
    (gemini-companion-review--merge-text
     review (gemini-companion-compare-text path bytes (gemini-companion-review-proposed review)))
    (setf (gemini-companion-review-base review) bytes
          (gemini-companion-review-stamp review) stamp)))

(defun gemini-companion-review--merge-buffer (review buffer)
  "Merge into the text of REVIEW the edits in BUFFER, which visits its file."
  (unless (verify-visited-file-modtime buffer)
    (user-error "%s was written since its buffer was: save that or revert it, then merge"
                (gemini-companion-review-file review)))
  (gemini-companion-review--merge-text review (gemini-companion-review--text buffer))
  (setf (gemini-companion-review-merged review)
        (gemini-companion-review--states review buffer)))

(defun gemini-companion-review--merge-text (review text)
  "Merge into the text of REVIEW what TEXT has changed of the file."
  (let ((merged (gemini-companion-review--merge-with review text)))
    (unless (stringp merged)
      (user-error "Both change the same lines, first at line %d of the proposed text: %s" merged
                  (substitute-command-keys
                   "\\[gemini-companion-review-three-way] shows all texts")))
    (gemini-companion-review--set-text review merged)))

(defun gemini-companion-review--set-text (review text)
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
                                     gemini-companion-review--replace-time)
            (undo-boundary)))))))

(defun gemini-companion-review-decide (review outcome report &optional by-client)
  "End REVIEW with OUTCOME, a symbol.
REPORT is called with its id to tell the client; it returns nil if that
has decided already, and so does this function.  BY-CLIENT is non-nil if
not a command of the user but the client itself decides."
  (let (;; Once it knows, the client writes the file.
        (before (gemini-companion-review--bytes review))
        (file (gemini-companion-review-file review)))
    (cond ((not (funcall report (gemini-companion-review-id review)))
           ;; The client has closed it; the event that says so must answer with this very text.
           (gemini-companion-bridge-drain)
           (message "The change of %s was decided in %s already" file
                    (gemini-companion-review-client-title review))
           nil)
          (t
           (gemini-companion-log-add "review %d %s" (gemini-companion-review-id review) outcome)
           (gemini-companion-review--end
            review outcome before
            (if by-client
                (format "%s in %s" outcome (gemini-companion-review-client-title review))
              (symbol-name outcome))
            (not by-client))
           (if by-client
               (gemini-companion-review--say-ending review)
             (message "Change of %s %s" file outcome))
           t))))

;;;; Questions before an accept

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

(defun gemini-companion-review--check (review)
  "Ask before REVIEW is accepted if that would lose something.
Signal a `user-error' if the user does not want it."
  (gemini-companion-review--check-text review)
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
      (?m (gemini-companion-review--merge review)
          (user-error "Merged, and not accepted yet: look at the text, then accept it"))
      (?t (gemini-companion-review--show-with-base review t)
          (user-error "Not accepted: copy what is missing, then accept again"))
      (_ (user-error "Not accepted")))))

(defun gemini-companion-review--check-text (review)
  "Ask before an accept of REVIEW that removes all or most of the file."
  (when-let* ((question (gemini-companion-review-question review)))
    (gemini-companion-review--confirm review question)))

(defun gemini-companion-review--ask-unseen (review)
  "Ask before an accept of REVIEW, which cannot be shown."
  (gemini-companion-review--confirm
   review
   (format "%s cannot be shown (%s).  Accept it unseen, %d lines in place of %d? "
           (gemini-companion-log-one-line (gemini-companion-review-path review))
           (gemini-companion-review-fault review)
           (gemini-companion-review--count-lines
            (gemini-companion-review-current-text review))
           (gemini-companion-review--count-lines
            (or (gemini-companion-review-base review) "")))))

(defun gemini-companion-review--confirm (review question)
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
      (gemini-companion-review--deletion review text))))

(defun gemini-companion-review--deletion (review text)
  "Return a question if TEXT, that of REVIEW, lacks most lines of the file."
  (let* ((base (or (gemini-companion-review-base review) ""))
         (before (gemini-companion-review--count-lines base))
         (after (gemini-companion-review--count-lines text)))
    (and (gemini-companion-change-deletion-p before after)
         (format "%s would write a text of %d lines in place of %d lines.  Accept? "
                 (gemini-companion-review-client-title review) after before))))

(defun gemini-companion-review--count-lines (text)
  "Return the number of newlines in TEXT, which may be of megabytes."
  (with-temp-buffer
    (set-buffer-multibyte (multibyte-string-p text))
    (insert text)
    (1- (line-number-at-pos (point-max)))))

(provide 'gemini-companion-review)
;;; gemini-companion-review.el ends here

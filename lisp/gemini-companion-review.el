;;; gemini-companion-review.el --- Proposed changes and the user's decisions -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A review is one proposal of a client for one file.  Reviews wait in a queue and are shown one
;; at a time, the oldest first, when the user is not in the middle of something.  How a review is
;; shown is the business of `gemini-companion-diff-function'; this file knows what the proposal
;; says now and sees to it that each review ends exactly once.
;;
;; After an accept the client writes the file, never we.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-follow)
(require 'gemini-companion-history)

(defvar gemini-companion-diff-function)

;;;; Options

(defcustom gemini-companion-diff-policy 'pop-up
  "What happens when a client proposes a change.
If `pop-up', it is shown as soon as you are in the middle of nothing
else.  If `queue', it waits until you ask for it, for instance with
\\[gemini-companion-review-next]; the mode line says how many wait."
  :group 'gemini-companion
  :type '(choice (const :tag "Show it" pop-up)
                 (const :tag "Let it wait" queue)))

(defcustom gemini-companion-diff-focus 'keep
  "Where the focus is when a change is shown by itself.
If `keep', the selected window stays selected and on screen, so that
what you type still goes where it went; the review takes the rest of the
frame.  If `select', the review is selected and takes the whole frame.
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

;;;; Reviews

(cl-defstruct (gemini-companion-review
               (:constructor gemini-companion-review--make)
               (:copier nil))
  "One proposed change of one file."
  (id nil :documentation "The number by which the native module knows it.")
  (agent nil :documentation "The name of its program, as in `gemini-companion-agent-profiles'.")
  (client nil :documentation "Name and version of the client, as it says itself.")
  (path nil :documentation "The absolute name of the file, exactly as the client wrote it.")
  (proposed nil :documentation "The text as the client proposed it.")
  (created nil :documentation "When it came.")
  (base nil :documentation "The bytes of the file then, nil if there was none.")
  (stamp nil :documentation "What tells whether the file has been written since, see
`gemini-companion-follow-stamp'.")
  (conflict nil :documentation "Why an accept would miss something: `unsaved', `changed' or nil.")
  (text nil :documentation "The text as it was when `proposal' was last killed.")
  (proposal nil :documentation "The buffer with the proposal, or nil.  The user may edit it.")
  (front nil :documentation "While shown, the buffer to go to, if it is not `proposal'.")
  (with-base nil :documentation "Non-nil to show the text it was made from, too.")
  (hide nil :documentation "While shown, a function that takes the view off the screen.")
  (postponed nil :documentation "Non-nil if the user wants to decide later."))

(defconst gemini-companion-review--retry 0.2
  "Seconds between tries to show a review.")

(defconst gemini-companion-review--calm 0.5
  "Seconds for which the user must have pressed no key.")

(defconst gemini-companion-review--look 1.0
  "Seconds between looks at the file of the review on screen.")

;;;; State

(defvar gemini-companion-review--open nil
  "The reviews that await a decision, the oldest first.")

(defvar gemini-companion-review--timer nil
  "The timer that waits for a moment to show the next review, or nil.")

(defvar gemini-companion-review--watch nil
  "The timer that looks at the file of the review on screen, or nil.")

(defvar-local gemini-companion-review--of-buffer nil
  "The review of which this buffer is a part.")
(put 'gemini-companion-review--of-buffer 'permanent-local t)

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

(defun gemini-companion-review-current ()
  "Return the review that a command is about.
That is the one of the current buffer, else the one on screen, else the
oldest.  Signal a `user-error' if there is none."
  (or (car (memq gemini-companion-review--of-buffer gemini-companion-review--open))
      (gemini-companion-review-shown)
      (car gemini-companion-review--open)
      (user-error "No change awaits your decision")))

(defun gemini-companion-review-current-text (review)
  "Return what the proposal of REVIEW says now."
  (let ((proposal (gemini-companion-review-proposal review)))
    (if (buffer-live-p proposal)
        (with-current-buffer proposal
          (save-restriction
            (widen)
            (buffer-substring-no-properties (point-min) (point-max))))
      (gemini-companion-review-text review))))

(defun gemini-companion-review-file (review)
  "Return the name of the file of REVIEW without its directory, in one line."
  (gemini-companion-log-one-line
   (file-name-nondirectory (gemini-companion-review-path review))))

(defun gemini-companion-review-visiting (review)
  "Return the buffer that visits the file of REVIEW, or nil."
  (let ((file-name-handler-alist nil))
    (find-buffer-visiting (gemini-companion-review-path review))))

;;;; Events

(gemini-companion-define-handler open-review (id agent client path text)
  "Queue the review ID: CLIENT, of AGENT, proposes TEXT for the file PATH."
  (let ((review (gemini-companion-review--make
                 :id id :agent agent :client client :path path :proposed text :text text
                 :created (current-time)
                 :stamp (gemini-companion-follow-stamp path)
                 :base (gemini-companion-history-read path))))
    (setq gemini-companion-review--open
          (append gemini-companion-review--open (list review)))
    (gemini-companion-log-add "review %d opened: %s (%s)" id path client)
    (gemini-companion-review--changed)
    (unless (gemini-companion-review--pops-up-p)
      (gemini-companion-review--announce review))))

(gemini-companion-define-handler close-review (id call)
  "Close the review ID without asking; CALL, unless nil, waits for its text."
  (let* ((review (gemini-companion-review-with-id id))
         (before (and review (gemini-companion-review--bytes review))))
    (cond ((and call review)
           (gemini-companion-bridge-answer
            call (gemini-companion-review-current-text review)))
          (call
           (gemini-companion-bridge-fail call "this diff is not open in Emacs any more")))
    (when review
      (gemini-companion-log-add "review %d closed by the client" id)
      (when call (gemini-companion-follow (gemini-companion-review-path review)))
      (gemini-companion-review--end review (if call 'closed 'withdrawn) before)
      (when call (gemini-companion-review--warn-of-lost-edits review)))))

(defun gemini-companion-review--warn-of-lost-edits (review)
  "Say where the user's edits are if the client of REVIEW leaves them behind.
It closes the review, for the user answered there."
  (unless (or (gemini-companion-agent-get (gemini-companion-review-agent review) :takes-edits)
              (equal (gemini-companion-review-text review)
                     (gemini-companion-review-proposed review)))
    (gemini-companion-log-add "the edits of review %d are in the history only"
                              (gemini-companion-review-id review))
    (message "%s takes no edits along when you say yes there: yours of %s are kept in \
M-x gemini-companion-review-history"
             (gemini-companion-review-client review) (gemini-companion-review-file review))))

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

(defun gemini-companion-review--end (review outcome before)
  "REVIEW has ended with OUTCOME: take it off the list and off the screen.
BEFORE are the bytes of its file until then.  Show the next one."
  (setq gemini-companion-review--open (delq review gemini-companion-review--open))
  (gemini-companion-log-errors "the history"
    (gemini-companion-history-add
     :client (gemini-companion-review-client review)
     :path (gemini-companion-review-path review)
     :outcome outcome
     :before before
     :after (gemini-companion-review-current-text review)))
  (unwind-protect
      (gemini-companion-review--hide review)
    (when (buffer-live-p (gemini-companion-review-proposal review))
      (kill-buffer (gemini-companion-review-proposal review)))
    (gemini-companion-review--changed)))

(defun gemini-companion-review--hide (review)
  "Take REVIEW off the screen if it is there."
  (when-let ((hide (gemini-companion-review-hide review)))
    (setf (gemini-companion-review-hide review) nil)
    (gemini-companion-log-errors "hiding a review" (funcall hide))))

(defun gemini-companion-review-end-all ()
  "Close all reviews, for the companion stops: their clients are told so."
  (dolist (review (gemini-companion-review-list-open))
    (gemini-companion-review--end review 'rejected (gemini-companion-review--bytes review)))
  (gemini-companion-follow-stop))

;;;; Showing

(defun gemini-companion-review--changed ()
  "The list has changed, or what is on screen.
Show the next review when there is a good moment."
  (gemini-companion-bridge-set-awaited (and gemini-companion-review--open t))
  (force-mode-line-update t)
  (setq gemini-companion-review--watch
        (gemini-companion-review--adjust gemini-companion-review--watch
                                         (gemini-companion-review-shown)
                                         gemini-companion-review--look
                                         gemini-companion-review--look
                                         #'gemini-companion-review--look-at-file)
        gemini-companion-review--timer
        (gemini-companion-review--adjust gemini-companion-review--timer
                                         (gemini-companion-review--due)
                                         0 gemini-companion-review--retry
                                         #'gemini-companion-review--try))
  (run-hooks 'gemini-companion-review-functions))

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
  "Show the next review if this is a good moment."
  (when (gemini-companion-review--calm-p)
    (when-let ((review (car (gemini-companion-review--due))))
      (condition-case error
          (let ((throw-on-input nil))
            (with-local-quit
              (gemini-companion-review-show review gemini-companion-diff-focus)
              (gemini-companion-review--announce review)))
        (error
         (gemini-companion-log-add "showing review %d: %s" (gemini-companion-review-id review)
                                   (error-message-string error))
         (message "The change of %s cannot be shown: %s"
                  (gemini-companion-review-file review) (error-message-string error)))))
    (gemini-companion-review--changed)))

(defun gemini-companion-review-show (review focus)
  "Show REVIEW now, in place of the one that is shown.
FOCUS is `select' or `keep', as in `gemini-companion-diff-focus'."
  (unless (gemini-companion-review-hide review)
    (when-let ((shown (gemini-companion-review-shown)))
      (setf (gemini-companion-review-postponed shown) t)
      (gemini-companion-review--hide shown))
    ;; If this fails the review still waits, and is not tried again every moment.
    (setf (gemini-companion-review-postponed review) t
          (gemini-companion-review-conflict review)
          (gemini-companion-review-find-conflict review))
    (let ((hide (funcall gemini-companion-diff-function review focus)))
      (setf (gemini-companion-review-hide review) hide
            (gemini-companion-review-postponed review) nil))
    (gemini-companion-review--changed)))

(defun gemini-companion-review--announce (review)
  "Tell the user of REVIEW."
  (unless (eq gemini-companion-diff-policy 'queue)
    (message "%s proposes a change of %s%s"
             (gemini-companion-review-client review)
             (gemini-companion-review-file review)
             (if (gemini-companion-review-hide review) ""
               (substitute-command-keys
                "; \\[gemini-companion-review-next] shows it")))))

(defun gemini-companion-review-postpone (review)
  "Take REVIEW off the screen, undecided.  It is not shown again by itself."
  (when (memq review gemini-companion-review--open)
    (setf (gemini-companion-review-postponed review) t)
    (gemini-companion-review--hide review)
    (gemini-companion-review--changed)
    (message "%s"
             (substitute-command-keys
              "The client still waits: \\[gemini-companion-review-next] shows the change again"))))

(defun gemini-companion-review-taken-down (review)
  "The user has killed the view of REVIEW: that means what an option says."
  (if (eq gemini-companion-diff-on-kill 'reject)
      (when (memq review gemini-companion-review--open)
        (gemini-companion-review-reject review))
    (gemini-companion-review-postpone review)))

(defun gemini-companion-review--calm-p ()
  "Return non-nil if windows may change: the user is in the middle of nothing."
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
       (null overriding-terminal-local-map)
       (not (bound-and-true-p transient--prefix))
       (gemini-companion-review--user-frame-p)
       (let ((idle (current-idle-time)))
         (or (null idle) (> (float-time idle) gemini-companion-review--calm)))))

(defun gemini-companion-review--user-frame-p ()
  "Return non-nil if the selected frame is one that a user sees.
A daemon has a frame that nobody sees."
  (not (equal (terminal-name (frame-terminal)) "initial_terminal")))

;;;; Conflicts

(defun gemini-companion-review-find-conflict (review)
  "Return why an accept of REVIEW would miss something, or nil.
`unsaved': a buffer that visits the file has edits that are not in it.
`changed': the file was written since the proposal was made."
  (let ((buffer (gemini-companion-review-visiting review)))
    (cond ((and buffer (buffer-modified-p buffer)) 'unsaved)
          ((gemini-companion-review--written-p review) 'changed))))

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
    (when-let ((review (gemini-companion-review-shown)))
      (let ((conflict (gemini-companion-review-find-conflict review)))
        (unless (eq conflict (gemini-companion-review-conflict review))
          (setf (gemini-companion-review-conflict review) conflict)
          (force-mode-line-update t)
          (run-hooks 'gemini-companion-review-functions)
          (when conflict
            (message "%s" (gemini-companion-review-warning review))))))))

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
buffer, else the one on screen, else the oldest.  If that would lose
something, ask first."
  (interactive)
  (gemini-companion-review-accept (gemini-companion-review-current)))

(defun gemini-companion-review-accept (review)
  "Accept REVIEW as its text now reads; if that would lose something, ask first."
  (gemini-companion-review--check review)
  (gemini-companion-follow (gemini-companion-review-path review))
  (gemini-companion-review-decide review 'accepted #'gemini-companion-bridge-accept
                                  (gemini-companion-review-current-text review)))

;;;###autoload
(defun gemini-companion-reject ()
  "Reject the proposed change; the file stays as it is.
Decides the review of the current buffer, else the one on screen, else
the oldest."
  (interactive)
  (gemini-companion-review-reject (gemini-companion-review-current)))

(defun gemini-companion-review-reject (review)
  "Reject REVIEW; the file stays as it is."
  (gemini-companion-review-decide review 'rejected #'gemini-companion-bridge-reject))

;;;###autoload
(defun gemini-companion-review-next ()
  "Show the next change that awaits your decision, and go there.
If none but that on screen does, go there."
  (interactive)
  (let* ((current (gemini-companion-review-current))
         (rest (cdr (memq current gemini-companion-review--open)))
         (next (if (gemini-companion-review-hide current)
                   (or (car rest) (car gemini-companion-review--open))
                 current)))
    (gemini-companion-review-visit next)))

(defun gemini-companion-review-visit (review)
  "Show REVIEW if it is not on screen, and go there."
  (let ((window (gemini-companion-review--window review)))
    (if (and window (gemini-companion-review-hide review))
        (progn (select-frame-set-input-focus (window-frame window))
               (select-window window))
      ;; Its windows may be gone though nobody took it down.
      (gemini-companion-review--hide review)
      (gemini-companion-review-show review 'select))))

(defun gemini-companion-review--window (review)
  "Return the window of REVIEW to which commands go, or nil."
  (let ((buffer (or (gemini-companion-review-front review)
                    (gemini-companion-review-proposal review))))
    (and (buffer-live-p buffer) (get-buffer-window buffer t))))

(defun gemini-companion-review-quit ()
  "Ask what to do with the change on screen: accept it, reject it, or decide later."
  (interactive)
  (pcase (car (condition-case nil
                  (read-multiple-choice
                   "Proposed change:"
                   '((?a "accept" "The client writes the text as it now reads")
                     (?r "reject" "The file stays as it is")
                     (?l "later" "The client keeps waiting")))
                (quit nil)))
    (?a (gemini-companion-accept))
    (?r (gemini-companion-reject))
    (_ (gemini-companion-review-postpone (gemini-companion-review-current)))))

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
  (setf (gemini-companion-review-with-base review) with-base)
  (gemini-companion-review--hide review)
  (gemini-companion-review-show review 'select))

(defun gemini-companion-review-decide (review outcome report &rest arguments)
  "End REVIEW with OUTCOME, a symbol.
REPORT is called with its id and ARGUMENTS to tell the client."
  (let (;; Once it knows, the client writes the file.
        (before (gemini-companion-review--bytes review)))
    (if (apply report (gemini-companion-review-id review) arguments)
        (progn
          (gemini-companion-log-add "review %d %s" (gemini-companion-review-id review) outcome)
          (gemini-companion-review--end review outcome before)
          (message "Change of %s %s" (gemini-companion-review-file review) outcome))
      ;; The client has closed it; the event that says so must answer with this very text.
      (gemini-companion-bridge-drain)
      (message "The change of %s was decided in the client already"
               (gemini-companion-review-file review)))))

;;;; Questions before an accept

(defun gemini-companion-review--check (review)
  "Ask before REVIEW is accepted if that would lose something.
Signal a `user-error' if the user does not want it."
  (gemini-companion-review--check-text review)
  (when (setf (gemini-companion-review-conflict review)
              (gemini-companion-review-find-conflict review))
    (pcase (car (read-multiple-choice
                 (concat (gemini-companion-review-warning review) ".")
                 '((?a "accept" "The client writes this text; unsaved edits stay in their buffer")
                   (?t "three-way" "Show all texts side by side, and decide then")
                   (?c "cancel" "Decide later"))))
      (?a)
      (?t (gemini-companion-review--show-with-base review t)
          (user-error "Not accepted: copy what is missing, then accept again"))
      (_ (user-error "Not accepted")))))

(defun gemini-companion-review--check-text (review)
  "Ask before an accept of REVIEW that removes all or most of the file."
  (when-let ((question (gemini-companion-review-question review)))
    (unless (y-or-n-p question)
      (user-error "Not accepted"))))

(defun gemini-companion-review-question (review)
  "Return what to ask before an accept of REVIEW, or nil."
  (let ((text (gemini-companion-review-current-text review)))
    (if (string-empty-p text)
        (and (not (string-empty-p (gemini-companion-review-proposed review)))
             "The client takes an empty text for no text, and would write \
its own proposal.  Accept? ")
      (gemini-companion-review--deletion review text))))

(defun gemini-companion-review--deletion (review text)
  "Return a question if TEXT, that of REVIEW, lacks most lines of the file."
  (let* ((base (or (gemini-companion-review-base review) ""))
         (before (gemini-companion-review--count-lines base))
         (after (gemini-companion-review--count-lines text)))
    (and (> before 9)
         (< (* 4 after) before)
         (format "The client would write a text of %d lines in place of %d lines.  Accept? "
                 after before))))

(defun gemini-companion-review--count-lines (text)
  "Return the number of newlines in TEXT, which may be of megabytes."
  (with-temp-buffer
    (set-buffer-multibyte (multibyte-string-p text))
    (insert text)
    (1- (line-number-at-pos (point-max)))))

(provide 'gemini-companion-review)
;;; gemini-companion-review.el ends here

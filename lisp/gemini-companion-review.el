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

(require 'cl-lib)
(require 'seq)
(require 'gemini-companion-bridge)
(require 'gemini-companion-follow)

(defvar gemini-companion-diff-function)

(cl-defstruct (gemini-companion-review
               (:constructor gemini-companion-review--make)
               (:copier nil))
  "One proposed change of one file."
  (id nil :documentation "The number by which the native module knows it.")
  (client nil :documentation "Name and version of the client, as it says itself.")
  (path nil :documentation "The absolute name of the file, exactly as the client wrote it.")
  (proposed nil :documentation "The text as the client proposed it.")
  (text nil :documentation "The text as it was when `proposal' was last killed.")
  (proposal nil :documentation "The buffer with the proposal, or nil.  The user may edit it.")
  (hide nil :documentation "While shown, a function that takes the view off the screen.")
  (postponed nil :documentation "Non-nil if the user put it off, so that it is not shown by itself."))

(defconst gemini-companion-review--retry 0.25
  "Seconds between looks whether the user can be shown a review.")

(defconst gemini-companion-review--calm 0.5
  "Seconds for which the user must have pressed no key.")

;;;; State

(defvar gemini-companion-review--open nil
  "The reviews that await a decision, the oldest first.")

(defvar gemini-companion-review--timer nil
  "The timer that waits for a moment to show the next review, or nil.")

(defvar-local gemini-companion-review--of-buffer nil
  "The review of which this buffer is a part.")
(put 'gemini-companion-review--of-buffer 'permanent-local t)

;;;; What there is

(defun gemini-companion-review-count ()
  "Return the number of reviews that await a decision."
  (length gemini-companion-review--open))

(defun gemini-companion-review-shown ()
  "Return the review on screen, or nil."
  (seq-find #'gemini-companion-review-hide gemini-companion-review--open))

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
  "Return the name of the file of REVIEW without its directory."
  (file-name-nondirectory (gemini-companion-review-path review)))

;;;; Events

(cl-defmethod gemini-companion-handle-event ((_ (eql 'open-review)) &rest arguments)
  "Queue a review; ARGUMENTS are its id, client, path and proposed text."
  (pcase-let ((`(,id ,client ,path ,text) arguments))
    (setq gemini-companion-review--open
          (append gemini-companion-review--open
                  (list (gemini-companion-review--make :id id :client client :path path
                                                       :proposed text :text text))))
    (gemini-companion-log-add "review %d opened: %s (%s)" id path client)
    (gemini-companion-review--update)))

(cl-defmethod gemini-companion-handle-event ((_ (eql 'close-review)) &rest arguments)
  "Close a review without asking; ARGUMENTS are its id and who waits for its text."
  (pcase-let* ((`(,id ,call) arguments)
               (review (seq-find (lambda (review)
                                   (eql (gemini-companion-review-id review) id))
                                 gemini-companion-review--open)))
    (cond ((and call review)
           (gemini-companion-bridge-answer
            call (gemini-companion-review-current-text review)))
          (call
           (gemini-companion-bridge-fail call "this diff is not open in Emacs any more")))
    (when review
      (gemini-companion-log-add "review %d closed by the client" id)
      (when call (gemini-companion-follow (gemini-companion-review-path review)))
      (gemini-companion-review--end review))))

(defun gemini-companion-review--end (review)
  "REVIEW is decided: take it off the list and off the screen, and show the next."
  (setq gemini-companion-review--open (delq review gemini-companion-review--open))
  (unwind-protect
      (gemini-companion-review--hide review)
    (when (buffer-live-p (gemini-companion-review-proposal review))
      (kill-buffer (gemini-companion-review-proposal review)))
    (gemini-companion-review--update)))

(defun gemini-companion-review--hide (review)
  "Take REVIEW off the screen if it is there."
  (when-let ((hide (gemini-companion-review-hide review)))
    (setf (gemini-companion-review-hide review) nil)
    (gemini-companion-log-errors "hiding a review" (funcall hide))))

(defun gemini-companion-review-end-all ()
  "Close all reviews, for the companion stops: their clients are told so."
  (mapc #'gemini-companion-review--end (copy-sequence gemini-companion-review--open))
  (gemini-companion-follow-stop))

;;;; Showing

(defun gemini-companion-review--update ()
  "The list has changed: show the next review when there is a good moment."
  (gemini-companion-bridge-set-awaited (and gemini-companion-review--open t))
  (force-mode-line-update t)
  (if (not (gemini-companion-review--due))
      (when gemini-companion-review--timer
        (cancel-timer gemini-companion-review--timer)
        (setq gemini-companion-review--timer nil))
    (unless gemini-companion-review--timer
      (setq gemini-companion-review--timer
            (run-at-time 0 gemini-companion-review--retry
                         #'gemini-companion-review--try)))))

(defun gemini-companion-review--due ()
  "Return the reviews to be shown by themselves, if none is shown now."
  (unless (gemini-companion-review-shown)
    (seq-remove #'gemini-companion-review-postponed gemini-companion-review--open)))

(defun gemini-companion-review--try ()
  "Show the next review if this is a good moment."
  (when (gemini-companion-review--calm-p)
    (when-let ((review (car (gemini-companion-review--due))))
      (condition-case error
          (let ((throw-on-input nil))
            (with-local-quit (gemini-companion-review--show review)))
        (error
         (gemini-companion-log-add "showing review %d: %s" (gemini-companion-review-id review)
                                   (error-message-string error))
         (message "The change of %s cannot be shown: %s"
                  (gemini-companion-review-file review) (error-message-string error)))))
    (gemini-companion-review--update)))

(defun gemini-companion-review--show (review)
  "Show REVIEW now, in place of the one that is shown."
  (unless (gemini-companion-review-hide review)
    (when-let ((shown (gemini-companion-review-shown)))
      (gemini-companion-review-postpone shown))
    ;; If this fails the review still waits, and is not tried again every moment.
    (setf (gemini-companion-review-postponed review) t)
    (let ((hide (funcall gemini-companion-diff-function review)))
      (setf (gemini-companion-review-hide review) hide
            (gemini-companion-review-postponed review) nil))
    (message "%s proposes a change of %s"
             (gemini-companion-review-client review)
             (gemini-companion-review-file review))))

(defun gemini-companion-review-postpone (review)
  "Take REVIEW off the screen, undecided.  It is not shown again by itself."
  (when (memq review gemini-companion-review--open)
    (setf (gemini-companion-review-postponed review) t)
    (gemini-companion-review--hide review)
    (gemini-companion-review--update)
    (message "%s"
             (substitute-command-keys
              "The client still waits: \\[gemini-companion-review-next] shows the change again"))))

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
       (gemini-companion-review--user-frame-p)
       (let ((idle (current-idle-time)))
         (or (null idle) (> (float-time idle) gemini-companion-review--calm)))))

(defun gemini-companion-review--user-frame-p ()
  "Return non-nil if the selected frame is one that a user sees.
A daemon has a frame that nobody sees."
  (not (equal (terminal-name (frame-terminal)) "initial_terminal")))

;;;; Commands

;;;###autoload
(defun gemini-companion-accept ()
  "Accept the proposed change as its text now reads.
The client then writes the file.  Decides the review of the current
buffer, else the one on screen, else the oldest."
  (interactive)
  (let* ((review (gemini-companion-review-current))
         (text (gemini-companion-review-current-text review)))
    (gemini-companion-review--check-empty review text)
    (gemini-companion-follow (gemini-companion-review-path review))
    (gemini-companion-review--decide review "accepted"
                                     #'gemini-companion-bridge-accept text)))

;;;###autoload
(defun gemini-companion-reject ()
  "Reject the proposed change; the file stays as it is.
Decides the review of the current buffer, else the one on screen, else
the oldest."
  (interactive)
  (gemini-companion-review--decide (gemini-companion-review-current) "rejected"
                                   #'gemini-companion-bridge-reject))

;;;###autoload
(defun gemini-companion-review-next ()
  "Show the next change that awaits your decision."
  (interactive)
  (let* ((current (gemini-companion-review-current))
         (rest (cdr (memq current gemini-companion-review--open))))
    (gemini-companion-review--show
     (if (gemini-companion-review-hide current)
         (or (car rest) (car gemini-companion-review--open))
       current))))

(defun gemini-companion-review--decide (review word report &rest arguments)
  "End REVIEW; WORD says how.
REPORT is called with its id and ARGUMENTS to tell the client."
  (if (apply report (gemini-companion-review-id review) arguments)
      (progn
        (gemini-companion-log-add "review %d %s" (gemini-companion-review-id review) word)
        (gemini-companion-review--end review)
        (message "Change of %s %s" (gemini-companion-review-file review) word))
    ;; The client has closed it; the event that says so must answer with this very text.
    (gemini-companion-bridge-drain)
    (message "The change of %s was decided in the client already"
             (gemini-companion-review-file review))))

(defun gemini-companion-review--check-empty (review text)
  "Ask before TEXT, that of REVIEW, is accepted though the client would misread it."
  (when (and (string-empty-p text)
             (not (string-empty-p (gemini-companion-review-proposed review)))
             (not (y-or-n-p "The client takes an empty text for no text, and would write \
its own proposal.  Accept? ")))
    (user-error "Not accepted")))

(provide 'gemini-companion-review)
;;; gemini-companion-review.el ends here

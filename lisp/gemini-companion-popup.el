;;; gemini-companion-popup.el --- Reviews that are shown by themselves -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client is answered at once, but windows change only while the user is in the middle of nothing.
;; Here is decided when the next review is shown, and the user is told of those that are not.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-log)
(require 'gemini-companion-queue)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)

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

;;;; State

(defconst gemini-companion-popup--interval 0.2
  "Seconds between tries to show a review.")

(defconst gemini-companion-popup--file-interval 1.0
  "Seconds between looks at the file of the review on screen.")

(defconst gemini-companion-popup--pause-time 1.0
  "Seconds without a review after a client has closed the one on screen.
A key that was meant for that one must not decide the next.")

(defconst gemini-companion-popup--reaction-time 0.7
  "Seconds after which a user may have seen that a review has taken the focus.
Keys that come before were meant for another window, and so were those
that follow each other as fast.")

(defconst gemini-companion-popup--held-after 2.0
  "Seconds for which a review is held back before the user is told.")

(defvar gemini-companion-popup--timer nil
  "The timer that waits for a moment to show the next review, or nil.")

(defvar gemini-companion-popup--file-timer nil
  "The timer that looks at the file of the review on screen, or nil.")

(defvar gemini-companion-popup--unexpected nil
  "The review that has taken the focus by itself, and when.
Or instead the time of the last key that was ignored.")

(defvar gemini-companion-popup--held nil
  "Since when a review is held back by what the user does, a number of seconds.
It is `told' once the user was told; nil if none is.")

;;;; Timers

(add-hook 'gemini-companion-review-change-hook #'gemini-companion-popup--adjust-timers -50)

(defun gemini-companion-popup--adjust-timers ()
  "Start or cancel the timers, as what there is to do needs them."
  (unless (gemini-companion-popup--due)
    (gemini-companion-popup--release))
  (setq gemini-companion-popup--file-timer
        (gemini-companion-popup--adjust-timer gemini-companion-popup--file-timer
                                              (gemini-companion-review-shown)
                                              gemini-companion-popup--file-interval
                                              gemini-companion-popup--file-interval
                                              #'gemini-companion-popup--check-file)
        gemini-companion-popup--timer
        (gemini-companion-popup--adjust-timer gemini-companion-popup--timer
                                              (or (gemini-companion-queue-ended-on-screen-p)
                                                  (gemini-companion-popup--due))
                                              0 gemini-companion-popup--interval
                                              #'gemini-companion-popup--try)))

(defun gemini-companion-popup--adjust-timer (timer wanted first seconds function)
  "Return TIMER, started or cancelled as WANTED says.
It calls FUNCTION in FIRST seconds and then each SECONDS."
  (cond ((and wanted (not timer)) (run-at-time first seconds function))
        ((or wanted (not timer)) timer)
        (t (cancel-timer timer) nil)))

(defun gemini-companion-popup--enabled-p ()
  "Return non-nil if reviews are shown by themselves."
  (and (eq gemini-companion-diff-policy 'pop-up)
       (not (eq gemini-companion-diff-focus 'announce))))

(defun gemini-companion-popup--due ()
  "Return the reviews to be shown by themselves, if none is shown now."
  (unless (or (not (gemini-companion-popup--enabled-p))
              (gemini-companion-review-shown))
    (cl-loop for review in (gemini-companion-review-list-open)
             unless (gemini-companion-review-postponed review) collect review)))

(defun gemini-companion-popup--try ()
  "Do what waits until the user is in the middle of nothing.
First take off the screen what has ended, then show the next review."
  (let ((ended (gemini-companion-queue-take-down-ended))
        (due (gemini-companion-popup--due)))
    (when (and due (not ended)
               (> (- (float-time) gemini-companion-queue-closed-at)
                  gemini-companion-popup--pause-time))
      (if (gemini-companion-ui-windows-may-change-p)
          (gemini-companion-popup--show (car due))
        (gemini-companion-popup--hold (car due)))))
  (gemini-companion-popup--adjust-timers))

(defun gemini-companion-popup--show (review)
  "Show REVIEW, and say why if that cannot be."
  (gemini-companion-popup--release)
  (condition-case error
      (let ((throw-on-input nil))
        (with-local-quit
          (gemini-companion-review-show review gemini-companion-diff-focus)
          (gemini-companion-popup--expect-stray-keys review)
          (gemini-companion-popup--announce review)))
    (error
     (message "The change of %s cannot be shown: %s.  Decide it in %s, or in \
M-x gemini-companion-review-list"
              (gemini-companion-review-file review) (gemini-companion-ui-error-text error)
              (gemini-companion-review-client-title review))))
  (run-hooks 'gemini-companion-review-change-hook))

(defun gemini-companion-popup--check-file ()
  "Note whether an accept of the review on screen would miss something."
  (gemini-companion-log-errors "looking at a file"
    (when-let* ((review (gemini-companion-review-shown)))
      (let ((conflict (gemini-companion-review-find-conflict review)))
        (unless (eq conflict (gemini-companion-review-conflict review))
          (setf (gemini-companion-review-conflict review) conflict)
          (force-mode-line-update t)
          (run-hooks 'gemini-companion-review-change-hook)
          (when conflict
            (gemini-companion-ui-message review "%s"
                                     (gemini-companion-review-warning review))))))))

;;;; What the user is told

(add-hook 'gemini-companion-queue-waiting-functions #'gemini-companion-popup--announce-hidden -50)

(defun gemini-companion-popup--announce-hidden (review)
  "Tell the user of REVIEW unless it is shown by itself."
  (unless (or (gemini-companion-popup--enabled-p)
              (gemini-companion-review-hide-function review))
    (gemini-companion-popup--announce review)))

(defun gemini-companion-popup--announce (review)
  "Tell the user of REVIEW."
  (unless (eq gemini-companion-diff-policy 'queue)
    (gemini-companion-ui-message
     review "%s proposes %s; %s"
     (gemini-companion-review-client-title review)
     (gemini-companion-review-describe review)
     (gemini-companion-popup--keys review))))

(defun gemini-companion-popup--keys (review)
  "Return in words which keys decide REVIEW, or lead to it, from where the user is."
  (substitute-command-keys
   (cond ((not (gemini-companion-review-hide-function review))
          "\\[gemini-companion-review-next] shows it")
         ((and (where-is-internal 'gemini-companion-accept nil t)
               (where-is-internal 'gemini-companion-reject nil t))
          "\\[gemini-companion-accept] accepts, \\[gemini-companion-reject] rejects")
         (t "\\[gemini-companion-review-next] goes there"))))

;;;; Keys meant for another window

(defun gemini-companion-popup--expect-stray-keys (review)
  "Ignore keys that were meant for the window from which REVIEW took the focus."
  (when (eq gemini-companion-diff-focus 'select)
    (setq gemini-companion-popup--unexpected (cons review (float-time)))
    (add-hook 'pre-command-hook #'gemini-companion-popup--ignore-stray-key)))

(defun gemini-companion-popup--ignore-stray-key ()
  "If the key just pressed was not meant for the review that has it, ignore it."
  (pcase-let ((`(,review . ,time) gemini-companion-popup--unexpected))
    (if (or (not (eq gemini-companion-review-of-buffer review))
            (> (- (float-time) time) gemini-companion-popup--reaction-time))
        (remove-hook 'pre-command-hook #'gemini-companion-popup--ignore-stray-key)
      (unless (mouse-event-p last-command-event)
        (setcdr gemini-companion-popup--unexpected (float-time))
        (setq this-command #'gemini-companion-popup--key-ignored)))))

(defun gemini-companion-popup--key-ignored ()
  "Say that a key was ignored."
  (interactive)
  (message "This change has just come: keys count when you have paused"))

;;;; Reviews that are held back

(defun gemini-companion-popup--hold (review)
  "Note that REVIEW is held back; after a while, tell the user once.
The mode line says so, and the echo area if nothing else is there."
  (cond ((null gemini-companion-popup--held)
         (setq gemini-companion-popup--held (float-time)))
        ((and (numberp gemini-companion-popup--held)
              (> (- (float-time) gemini-companion-popup--held)
                 gemini-companion-popup--held-after))
         (setq gemini-companion-popup--held 'told)
         (force-mode-line-update t)
         (unless (or (current-message)
                     cursor-in-echo-area
                     (active-minibuffer-window)
                     (bound-and-true-p isearch-mode)
                     (not (gemini-companion-ui-user-frame-p)))
           (message "A change of %s waits to be shown until you pause"
                    (gemini-companion-review-file review))))))

(defun gemini-companion-popup--release ()
  "Note that no review is held back."
  (when gemini-companion-popup--held
    (setq gemini-companion-popup--held nil)
    (force-mode-line-update t)))

(defun gemini-companion-popup-held-p ()
  "Return non-nil if a review has been held back for a while."
  (eq gemini-companion-popup--held 'told))

(provide 'gemini-companion-popup)
;;; gemini-companion-popup.el ends here

;;; gemini-companion-popup.el --- Showing reviews automatically -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Windows change only while the user is not busy.  This file decides when the next review is shown,
;; and tells the user about those that are not.

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
\\[gemini-companion-review-next]; the mode line shows how many wait."
  :group 'gemini-companion-review
  :type '(choice (const :tag "Show it" pop-up)
                 (const :tag "Let it wait" queue))
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-diff-focus 'keep
  "Which window is selected when a change is shown automatically.
If `keep', the selected window stays selected, so that you can go on
typing; the review appears above it.  If `select', the review is selected,
and gets as much of the frame as possible.  If `announce', nothing is
shown: a message says that a change waits."
  :group 'gemini-companion-review
  :type '(choice (const :tag "Stays where it is" keep)
                 (const :tag "Goes to the review" select)
                 (const :tag "Only announce the change" announce))
  :package-version '(gemini-companion . "0.1.0"))

;;;; State

(defconst gemini-companion-popup--interval 0.2
  "Seconds between attempts to show a review.")

(defconst gemini-companion-popup--file-interval 1.0
  "Seconds between checks of the file of the review on screen.")

(defconst gemini-companion-popup--pause-time 1.0
  "Seconds before the next review is shown after a client has closed one.
A key that was meant for that one must not decide the next.")

(defconst gemini-companion-popup--reaction-time 0.7
  "Seconds within which keys in a review that was just selected are ignored.
They were meant for another window, and so were keys that follow them as
quickly.")

(defvar gemini-companion-popup--held-after 2.0
  "Seconds for which a review is held back before the user is told.")

(defvar gemini-companion-popup--timer nil
  "The timer that tries to show the next review, or nil.")

(defvar gemini-companion-popup--file-timer nil
  "The timer that checks the file of the review on screen, or nil.")

(defvar gemini-companion-popup--steps nil
  "A cons of a review and the steps that are left before it is shown.
They are functions without arguments.")

(defvar gemini-companion-popup--unexpected nil
  "A cons of the review that was selected automatically and a time.
The time is when that happened, or when a key was last ignored.")

(defvar gemini-companion-popup--held nil
  "The time since which a review is held back as the user is busy, in seconds.
It is `told' once the user was told, and nil if no review is held back.")

;;;; Libraries

;; Loading Ediff takes longer than showing a review.

(defconst gemini-companion-popup--load-after 0.5
  "Seconds of idleness after which the libraries that show reviews are loaded.")

(defvar gemini-companion-popup--load-timer nil
  "The timer that loads the libraries that show reviews, or nil.")

(add-hook 'gemini-companion-clients-functions #'gemini-companion-popup--load-when-idle)

(defun gemini-companion-popup--load-when-idle (count)
  "If COUNT clients are connected, load what shows reviews when Emacs is idle.
If there is none any more, do not."
  (cond ((zerop count)
         (when gemini-companion-popup--load-timer
           (cancel-timer gemini-companion-popup--load-timer)
           (setq gemini-companion-popup--load-timer nil)))
        ((and (not gemini-companion-popup--load-timer)
              (autoloadp (indirect-function (gemini-companion-review-view))))
         (setq gemini-companion-popup--load-timer
               (run-with-idle-timer gemini-companion-popup--load-after nil
                                    #'gemini-companion-popup--load)))))

(defun gemini-companion-popup--load ()
  "Load what shows reviews, and what is told of them."
  (setq gemini-companion-popup--load-timer nil)
  (gemini-companion-log-errors "loading what shows reviews"
    (mapc #'gemini-companion-popup--load-function
          (cons (gemini-companion-review-view) gemini-companion-queue-waiting-functions))
    ;; Otherwise what loading has left would be collected while the review is shown.
    (garbage-collect)))

(defun gemini-companion-popup--load-function (function)
  "Load FUNCTION if that is the name of an autoload."
  (when (and function (symbolp function))
    (autoload-do-load (symbol-function function) function)))

;;;; Timers

(add-hook 'gemini-companion-review-change-hook #'gemini-companion-popup--adjust-timers -50)

(defun gemini-companion-popup--adjust-timers ()
  "Start or cancel the timers as needed."
  (unless (gemini-companion-popup--due)
    (setq gemini-companion-popup--steps nil)
    (gemini-companion-popup--release))
  (setq gemini-companion-popup--file-timer
        (gemini-companion-popup--adjust-timer gemini-companion-popup--file-timer
                                              (gemini-companion-review-shown)
                                              gemini-companion-popup--file-interval
                                              gemini-companion-popup--file-interval
                                              #'gemini-companion-popup--check-file)
        gemini-companion-popup--timer
        (gemini-companion-popup--adjust-timer gemini-companion-popup--timer
                                              (or (gemini-companion-queue-ended-p)
                                                  (gemini-companion-popup--due))
                                              0 gemini-companion-popup--interval
                                              #'gemini-companion-popup--try)))

(defun gemini-companion-popup--adjust-timer (timer wanted first seconds function)
  "Return TIMER, or a new one, if WANTED, else cancel it and return nil.
A new one calls FUNCTION in FIRST seconds and then every SECONDS."
  (cond ((and wanted (not timer)) (run-at-time first seconds function))
        ((or wanted (not timer)) timer)
        (t (cancel-timer timer) nil)))

(defun gemini-companion-popup--enabled-p ()
  "Return non-nil if reviews are shown automatically."
  (and (eq gemini-companion-diff-policy 'pop-up)
       (not (eq gemini-companion-diff-focus 'announce))))

(defun gemini-companion-popup--due ()
  "Return the reviews to be shown automatically, unless one is shown now."
  (unless (or (not (gemini-companion-popup--enabled-p))
              (gemini-companion-review-shown))
    (cl-loop for review in (gemini-companion-review-list-open)
             unless (gemini-companion-review-postponed review) collect review)))

(defun gemini-companion-popup--try ()
  "Take ended reviews off the screen and show the next, unless the user is busy."
  (save-match-data
    (gemini-companion-popup--take-down-or-show))
  (gemini-companion-popup--adjust-timers))

(defun gemini-companion-popup--take-down-or-show ()
  "Do what the user lets be done now of `gemini-companion-popup--try'."
  (let ((ended (gemini-companion-queue-take-down-ended))
        (due (gemini-companion-popup--due)))
    (when (and due (not ended)
               (> (- (float-time) gemini-companion-queue-closed-at)
                  gemini-companion-popup--pause-time))
      (let ((reason (gemini-companion-ui-busy)))
        (cond (reason (gemini-companion-popup--hold (car due) reason))
              ((gemini-companion-popup--take-step (car due))
               (run-at-time 0 nil #'gemini-companion-popup--try))
              (t (gemini-companion-popup--show (car due))))))))

(defun gemini-companion-popup--take-step (review)
  "Take a step of those that precede showing REVIEW, if some are left.
Return nil if there was none.  A large review takes so long that the user
could not type meanwhile if it was done all at once."
  (unless (eq review (car gemini-companion-popup--steps))
    (setq gemini-companion-popup--steps
          (cons review
                ;; If this fails, so does showing it, and the user is told.
                (gemini-companion-log-errors "preparing a review"
                  (gemini-companion-popup--find-steps review)))))
  (when-let* ((step (pop (cdr gemini-companion-popup--steps))))
    (gemini-companion-log-errors "preparing a review"
      (let ((throw-on-input nil))
        (with-local-quit (funcall step))))
    t))

(defun gemini-companion-popup--find-steps (review)
  "Return the steps that precede showing REVIEW."
  (let ((view (gemini-companion-review-view review)))
    (gemini-companion-popup--load-function view)
    (when-let* ((steps (and (symbolp view) (get view 'gemini-companion-steps))))
      (funcall steps review))))

(defun gemini-companion-popup--show (review)
  "Show REVIEW, or say why it cannot be shown."
  (gemini-companion-popup--release)
  (condition-case error
      (let ((throw-on-input nil))
        (with-local-quit
          (gemini-companion-review-show review (gemini-companion-popup--focus))
          (gemini-companion-popup--expect-stray-keys review))
        ;; Also after a quit, which was perhaps meant for something else.
        (gemini-companion-popup--announce review))
    (error
     (message "The change to %s cannot be shown: %s.  Decide it in %s, or in \
M-x gemini-companion-review-list"
              (gemini-companion-review-file review) (gemini-companion-ui-error-text error)
              (gemini-companion-review-client-title review))))
  (gemini-companion-log-run-hook 'gemini-companion-review-change-hook))

(defun gemini-companion-popup--check-file ()
  "Check whether an accept of the review on screen would now lose something."
  (gemini-companion-log-errors "checking a file"
    (when-let* ((review (gemini-companion-review-shown)))
      (let ((conflict (gemini-companion-review-find-conflict review)))
        (unless (eq conflict (gemini-companion-review-conflict review))
          (setf (gemini-companion-review-conflict review) conflict)
          (force-mode-line-update t)
          (gemini-companion-log-run-hook 'gemini-companion-review-change-hook)
          (when conflict
            (gemini-companion-ui-message review "%s"
                                         (gemini-companion-review-warning review))))))))

;;;; What the user is told

(add-hook 'gemini-companion-queue-waiting-functions #'gemini-companion-popup--announce-hidden -50)

(defun gemini-companion-popup--announce-hidden (review)
  "Announce REVIEW unless it is shown automatically.
If the user has hidden the review on screen, the next one waits for that."
  (unless (or (gemini-companion-review-hide-function review)
              (and (gemini-companion-popup--enabled-p)
                   (let ((shown (gemini-companion-review-shown)))
                     (or (null shown)
                         (gemini-companion-review-on-screen-p shown)))))
    (gemini-companion-popup--announce review)))

(defun gemini-companion-popup--announce (review)
  "Tell the user about REVIEW, in one line if possible."
  (unless (eq gemini-companion-diff-policy 'queue)
    (let ((text (format "%s proposes %s; "
                        (gemini-companion-review-client-title review)
                        (gemini-companion-review-describe review))))
      (gemini-companion-ui-message
       review "%s%s" text
       (gemini-companion-popup--keys
        review (- (window-width (minibuffer-window)) (string-width text) 1))))))

(defun gemini-companion-popup--keys (review columns)
  "Return text that says which keys decide REVIEW, or lead to it, from here.
If it would take more than COLUMNS, do not say which key rejects."
  (cond ((not (gemini-companion-review-hide-function review))
         (gemini-companion-ui-key 'gemini-companion-review-next "shows it"))
        ((gemini-companion-ui-key-of 'gemini-companion-accept)
         (let* ((accept (gemini-companion-ui-key 'gemini-companion-accept "accepts"))
                (both (concat accept ", "
                              (gemini-companion-ui-key 'gemini-companion-reject "rejects"))))
           (if (> (string-width both) columns) accept both)))
        (t (gemini-companion-ui-key 'gemini-companion-review-next "goes there"))))

;;;; Going on to the next review

(defconst gemini-companion-popup--follow-time 3.0
  "Seconds after a decision within which the next change is selected.")

(defvar gemini-companion-popup--followed nil
  "When and after how many keys the user decided a review in its own window.")

(defun gemini-companion-popup-follow ()
  "Have the next review selected, if it comes soon and before any other key.
The user has decided the last one in its own window.  The same keys must
not go to another buffer instead; in the terminal of a CLI they would
cancel what it does."
  (setq gemini-companion-popup--followed (cons (float-time) num-input-keys)))

(defun gemini-companion-popup--focus ()
  "Return the focus for the next review, as in `gemini-companion-diff-focus'."
  (pcase gemini-companion-popup--followed
    ((and `(,time . ,keys)
          (guard (and (eql keys num-input-keys)
                      (< (- (float-time) time) gemini-companion-popup--follow-time))))
     'select)
    (_ gemini-companion-diff-focus)))

;;;; Keys meant for another window

(defun gemini-companion-popup--expect-stray-keys (review)
  "If REVIEW is selected now, ignore keys that were meant for another buffer.
In a very small frame it is shown in the selected window even if that is to
be kept."
  (when (eq review (buffer-local-value 'gemini-companion-review-of-buffer (window-buffer)))
    (setq gemini-companion-popup--unexpected (cons review (float-time)))
    (add-hook 'pre-command-hook #'gemini-companion-popup--ignore-stray-key)))

(defconst gemini-companion-popup--key-ignored
  (lambda ()
    (interactive)
    (message "This change has just appeared: pause before you press a key"))
  "A command that says that a key was ignored.")

(defun gemini-companion-popup--ignore-stray-key ()
  "Ignore the key just pressed if it was meant for another window."
  (pcase-let ((`(,review . ,time) gemini-companion-popup--unexpected))
    (if (or (not (eq gemini-companion-review-of-buffer review))
            (> (- (float-time) time) gemini-companion-popup--reaction-time))
        (progn
          (setq gemini-companion-popup--unexpected nil)
          (remove-hook 'pre-command-hook #'gemini-companion-popup--ignore-stray-key))
      (when (gemini-companion-popup--typed-p last-command-event)
        (setcdr gemini-companion-popup--unexpected (float-time))
        (setq this-command gemini-companion-popup--key-ignored)))))

(defun gemini-companion-popup--typed-p (event)
  "Return non-nil if EVENT was typed, or is a text pasted into a terminal.
Other events are of the mouse, or say that another frame or window is to
be selected: if that was ignored, keys would go on going to the review."
  (or (atom event) (eq (car event) 'xterm-paste)))

;;;; Reviews that are held back

(defun gemini-companion-popup--hold (review reason)
  "Record that REVIEW is held back for REASON; after a while, tell the user once.
The mode line shows it, and the echo area if that is empty."
  (setf (gemini-companion-review-held review) reason)
  (cond ((null gemini-companion-popup--held)
         (setq gemini-companion-popup--held (float-time)))
        ((and (numberp gemini-companion-popup--held)
              (> (- (float-time) gemini-companion-popup--held)
                 gemini-companion-popup--held-after))
         (setq gemini-companion-popup--held 'told)
         (gemini-companion-log-add "review %d is not shown yet: %s"
                                   (gemini-companion-review-id review) reason)
         (force-mode-line-update t)
         (unless (or (current-message)
                     cursor-in-echo-area
                     (active-minibuffer-window)
                     (bound-and-true-p isearch-mode)
                     (not (gemini-companion-ui-user-frame-p)))
           (message "A change to %s will be shown when you pause"
                    (gemini-companion-review-file review))))))

(defun gemini-companion-popup--release ()
  "Record that no review is held back."
  (when gemini-companion-popup--held
    (setq gemini-companion-popup--held nil)
    (force-mode-line-update t)))

(defun gemini-companion-popup-state (review)
  "Return whether REVIEW, which is open, is on screen, or why not, for the user."
  (cond ((gemini-companion-review-hide-function review) "on screen")
        ((gemini-companion-review-fault review)
         (concat "cannot be shown: " (gemini-companion-review-fault review)))
        ((gemini-companion-review-postponed review) "put off")
        ((eq gemini-companion-diff-policy 'queue)
         "queued")
        ((eq gemini-companion-diff-focus 'announce)
         "announced")
        ((gemini-companion-review-shown) "waiting for the one on screen")
        ((gemini-companion-queue-ended-p) "waiting for one that has ended to go away")
        ((gemini-companion-review-held review)
         (concat "waiting: " (gemini-companion-review-held review)))
        (t "waiting")))

(defun gemini-companion-popup-held-p ()
  "Return non-nil if a review has been held back for a while."
  (eq gemini-companion-popup--held 'told))

(provide 'gemini-companion-popup)
;;; gemini-companion-popup.el ends here

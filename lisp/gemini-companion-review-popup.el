;;; gemini-companion-review-popup.el --- Showing reviews automatically -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Windows change only while the user is not busy.  This file decides when the next review is shown,
;; and tells the user about those that are not.

;;; Code:

(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-review-effect)
(require 'gemini-companion-ui)

;;;; Options

(defcustom gemini-companion-diff-policy 'pop-up
  "What happens when a client proposes a change.
If `pop-up', show it as soon as you pause and the minibuffer is not active.
If `queue', let it wait until you ask for it, for example with
\\[gemini-companion-review-next]; the mode line shows how many wait."
  :group 'gemini-companion-review
  :type '(choice (const :tag "Show it" pop-up)
                 (const :tag "Let it wait" queue)))

(defcustom gemini-companion-diff-focus 'keep
  "Which window to select when a change appears by itself.
If `keep', the selected window stays selected, so that you can go on typing;
the change appears in other windows.  If `select', select the change's
window, and give it as much of the frame as possible.  If `announce', show
only a message that a change waits."
  :group 'gemini-companion-review
  :type '(choice (const :tag "Stays where it is" keep)
                 (const :tag "Goes to the change" select)
                 (const :tag "Only announce the change" announce)))

;;;; State

(defvar gemini-companion-review-popup--held-after 2.0
  "Seconds for which a review waits before the mode line says so.")

(defvar gemini-companion-review-popup--interval 0.2
  "Seconds between attempts to show a review.")

(defvar gemini-companion-review-popup--due nil
  "When a review became the next to be shown; t if held back for long; or nil.")

(defvar gemini-companion-review-popup--unexpected nil
  "The last review that was selected automatically, as (REVIEW . TIME), or nil.
TIME is when that was, or when a key was last ignored.")

;;;; Libraries

;; Loading Ediff takes longer than showing a review.

(add-hook 'gemini-companion-bridge-clients-functions
          #'gemini-companion-review-popup--load-when-idle)

(defun gemini-companion-review-popup--load-when-idle (count)
  "If COUNT is not 0, load what shows reviews when Emacs is idle."
  (cancel-function-timers #'gemini-companion-review-popup--load)
  (when (and (> count 0)
             (autoloadp (indirect-function (gemini-companion-review-view))))
    (run-with-idle-timer 0.5 nil #'gemini-companion-review-popup--load)))

(defun gemini-companion-review-popup--load ()
  "Load the view, and the functions called with a review that waits."
  (gemini-companion-log-errors "loading what shows reviews"
    (dolist (function (cons (gemini-companion-review-view)
                            gemini-companion-review-waiting-functions))
      (autoload-do-load (symbol-function function) function))
    ;; Now, rather than while a review is being shown.
    (garbage-collect)))

;;;; When a review is shown

(add-hook 'gemini-companion-review-change-hook #'gemini-companion-review-popup--update -50)

(dolist (option '(gemini-companion-diff-policy gemini-companion-diff-focus))
  (add-variable-watcher
   option
   ;; The option is just being changed.
   (lambda (&rest _) (run-at-time 0 nil #'gemini-companion-review-popup--update))))

(defun gemini-companion-review-popup--update ()
  "Record why reviews wait, and start or cancel the timers as needed."
  (gemini-companion-review-popup--record-reasons)
  (let ((due (gemini-companion-review-popup--next)))
    (setq gemini-companion-review-popup--due
          (and due (or gemini-companion-review-popup--due (float-time))))
    (gemini-companion-ui-adjust-timer
     (gemini-companion-review-shown) 1 1 #'gemini-companion-review-popup--check-file)
    (gemini-companion-ui-adjust-timer
     (or due (gemini-companion-review-ended-on-screen-p))
     0 gemini-companion-review-popup--interval #'gemini-companion-review-popup--try)))

(defun gemini-companion-review-popup--waiting ()
  "Return the reviews that wait, the oldest first."
  (seq-filter (lambda (it) (eq (gemini-companion-review-state it) 'waiting))
              (gemini-companion-review-all-open)))

(defun gemini-companion-review-popup--next ()
  "Return the review to be shown automatically once the user is not busy, or nil."
  (unless (or (gemini-companion-review-popup--manual) (gemini-companion-review-shown))
    (car (gemini-companion-review-popup--waiting))))

(defun gemini-companion-review-popup--record-reasons ()
  "Record for each review that waits the first condition that holds it back."
  (let* ((waiting (gemini-companion-review-popup--waiting))
         (first (or (gemini-companion-review-shown) (car waiting))))
    (dolist (review waiting)
      (gemini-companion-review-note-reason
       review
       (cond ((gemini-companion-review-popup--manual))
             ((not (eq review first))
              (concat "waiting for " (gemini-companion-review-effect-file first)))
             ((gemini-companion-review-ended-on-screen-p) "waiting: another change just ended")
             ((when-let* ((busy (gemini-companion-ui-busy)))
                (concat "waiting: " busy))))))))

(defun gemini-companion-review-popup--manual ()
  "Return why the user has to ask for reviews, as text, or nil."
  (cond ((eq gemini-companion-diff-policy 'queue) "queued")
        ((eq gemini-companion-diff-focus 'announce) "announced")))

(defun gemini-companion-review-popup--try ()
  "Take ended reviews off the screen and show the next, unless the user is busy."
  (save-match-data
    (gemini-companion-review-remove-ended)
    (gemini-companion-review-popup--update)
    (when-let* ((review (gemini-companion-review-popup--next)))
      (cond ((not (gemini-companion-review-reason review))
             (gemini-companion-review-popup--show review))
            ((and (numberp gemini-companion-review-popup--due)
                  (> (- (float-time) gemini-companion-review-popup--due)
                     gemini-companion-review-popup--held-after))
             (setq gemini-companion-review-popup--due t)
             (force-mode-line-update t))))))

(defun gemini-companion-review-popup--show (review)
  "Show REVIEW, or say why it cannot be shown."
  (condition-case error
      (let ((throw-on-input nil))
        (with-local-quit
          (gemini-companion-review-show review (gemini-companion-review-popup--focus))
          (gemini-companion-review-popup--expect-stray-keys review))
        ;; Also after a quit, which was perhaps meant for something else.
        (gemini-companion-review-popup--announce review))
    (error
     (message "Cannot show the change to %s: %s.  Decide it in %s"
              (gemini-companion-review-file review) (gemini-companion-ui-error-text error)
              (gemini-companion-review-agent-title review)))))

(defun gemini-companion-review-popup--check-file ()
  "Check whether an accept of the review on screen would now lose something.
If its windows have gone, say once that it still waits."
  (gemini-companion-log-errors "checking a file"
    (when-let* ((review (gemini-companion-review-shown)))
      (let ((before (gemini-companion-review-conflict review))
            (conflict (gemini-companion-review-effect-check-conflict review)))
        (unless (eq conflict before)
          (gemini-companion-review-note-change)
          (when conflict
            (gemini-companion-ui-message review "%s"
                                         (gemini-companion-review-effect-warning review)))))
      ;; Magit restores the windows from before a commit, and Org those from before a capture.
      (cond ((gemini-companion-review-on-screen-p review)
             (gemini-companion-review-note-reason review nil))
            ((not (or (gemini-companion-review-reason review) (gemini-companion-ui-busy)))
             (gemini-companion-review-note-reason review "out of sight")
             (gemini-companion-review-remind review))))))

;;;; What the user is told

(add-hook 'gemini-companion-review-waiting-functions
          #'gemini-companion-review-popup--announce-hidden -50)

(defun gemini-companion-review-popup--announce-hidden (review)
  "Announce REVIEW unless it is on screen, or will be shown automatically."
  (let ((shown (gemini-companion-review-shown)))
    (when (and (not (eq review shown))
               (or (gemini-companion-review-popup--manual)
                   (and shown (not (gemini-companion-review-on-screen-p shown)))))
      (gemini-companion-review-popup--announce review))))

(defun gemini-companion-review-popup--announce (review)
  "Tell the user about REVIEW, in one line if possible."
  (unless (eq gemini-companion-diff-policy 'queue)
    (let ((text (format "%s proposes %s; "
                        (gemini-companion-review-agent-title review)
                        (gemini-companion-review-effect-describe review))))
      (gemini-companion-ui-message
       review "%s%s" text
       (gemini-companion-review-popup--keys
        review (- (window-width (minibuffer-window)) (string-width text) 1))))))

(defun gemini-companion-review-popup--keys (review columns)
  "Return text that says which keys decide REVIEW, or lead to it, from here.
If it would take more than COLUMNS, do not say which key rejects."
  (cond ((not (gemini-companion-review-on-screen-p review))
         (gemini-companion-ui-key 'gemini-companion-review-next "shows it"))
        ((gemini-companion-ui-key-of 'gemini-companion-accept)
         (let* ((accept (gemini-companion-ui-key 'gemini-companion-accept "accepts"))
                (both (concat accept ", "
                              (gemini-companion-ui-key 'gemini-companion-reject "rejects"))))
           (if (> (string-width both) columns) accept both)))
        (t (gemini-companion-ui-key 'gemini-companion-review-next "goes there"))))

;;;; Going on to the next review

(defvar gemini-companion-review-popup--followed nil
  "When and after how many keys the user decided a review in its own window.")

(defun gemini-companion-review-popup-follow ()
  "Select the next review, if it comes soon and before any other key.
The user may press the same keys again, which would cancel what the CLI does
if they went to its terminal."
  (setq gemini-companion-review-popup--followed (cons (float-time) num-input-keys)))

(defun gemini-companion-review-popup--focus ()
  "Return the focus for the next review, as in `gemini-companion-diff-focus'."
  (pcase-let ((`(,time . ,keys) gemini-companion-review-popup--followed))
    (if (and (eql keys num-input-keys) (gemini-companion-ui-recent-p time 3)) 'select
      gemini-companion-diff-focus)))

;;;; Keys meant for another window

(defun gemini-companion-review-popup--expect-stray-keys (review)
  "If REVIEW is selected now, ignore keys that were meant for another buffer."
  (when (eq review (buffer-local-value 'gemini-companion-review-of-buffer (window-buffer)))
    (setq gemini-companion-review-popup--unexpected (cons review (float-time)))
    (add-hook 'pre-command-hook #'gemini-companion-review-popup--ignore-stray-key)))

(defun gemini-companion-review-popup--ignore-stray-key ()
  "Ignore the key just pressed if it was meant for another window."
  (pcase-let ((`(,review . ,time) gemini-companion-review-popup--unexpected))
    (if (or (not (eq gemini-companion-review-of-buffer review))
            (not (gemini-companion-ui-recent-p time gemini-companion-ui-reaction-time)))
        (progn
          (setq gemini-companion-review-popup--unexpected nil)
          (remove-hook 'pre-command-hook #'gemini-companion-review-popup--ignore-stray-key))
      ;; But not clicks, nor events that select another frame or window: if these were ignored, keys
      ;; would still go to the review.
      (when (or (atom last-command-event) (eq (car last-command-event) 'xterm-paste))
        (setcdr gemini-companion-review-popup--unexpected (float-time))
        (setq this-command #'ignore)
        (message "This change has just appeared: pause before you press a key")))))

;;;; Reviews that wait

(defun gemini-companion-review-popup-state (review)
  "Return whether REVIEW is on screen, or why not, for the user."
  (pcase (gemini-companion-review-state review)
    ('shown (if (gemini-companion-review-on-screen-p review) "on screen" "out of sight"))
    (state (or (gemini-companion-review-reason review)
               (if (eq state 'postponed) "put off" "waiting")))))

(defun gemini-companion-review-popup-held-p ()
  "Return non-nil if a review has waited for a while because the user is busy."
  (eq t gemini-companion-review-popup--due))

(provide 'gemini-companion-review-popup)
;;; gemini-companion-review-popup.el ends here

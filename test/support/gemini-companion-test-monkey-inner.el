;;; gemini-companion-test-monkey-inner.el --- Checks what a user sees  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Loaded into the Emacs under test by `gemini-companion-test-monkey'.  It
;; observes each command, so it knows what the user has done, and records as a
;; fault each change that the user did not cause:
;;
;; - what timers do to windows, prompts and the selection;
;; - what happens between two commands, for example by a process filter;
;; - what commands that decide or show a review do to other windows;
;; - what the hooks of CLIs do beside what they tell;
;; - outcomes of reviews that were not visible.
;;
;; A window belongs to the review if it shows a buffer of one; all others are
;; the user's.  The numbers of the rules are those in the other file.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)

(declare-function gemini-companion-bridge-sessions "gemini-companion-bridge")
(declare-function gemini-companion-review-popup--focus "gemini-companion-review-popup")
(declare-function gemini-companion-review-all-open "gemini-companion-review")
(declare-function gemini-companion-review-count "gemini-companion-review")
(declare-function gemini-companion-review-id "gemini-companion-review" (review) t)
(declare-function gemini-companion-review-path "gemini-companion-review" (review) t)
(declare-function gemini-companion-review-entry "gemini-companion-review" (review) t)
(declare-function gemini-companion-review-proposed "gemini-companion-review" (review) t)
(declare-function gemini-companion-review-process "gemini-companion-review" (review) t)
(declare-function gemini-companion-cli-all "gemini-companion-cli")
(declare-function gemini-companion-cli-process "gemini-companion-cli" (cli) t)
(declare-function gemini-companion-cli-state "gemini-companion-cli" (cli) t)
(declare-function gemini-companion-cli-prompt "gemini-companion-cli" (cli) t)
(declare-function gemini-companion-cli-terminal "gemini-companion-cli" (cli) t)
(declare-function gemini-companion-history-outcome "gemini-companion-history" (entry) t)
(declare-function gemini-companion-review-proposal "gemini-companion-review" (review) t)
(declare-function gemini-companion-review-visiting "gemini-companion-review")
(declare-function tabulated-list-get-id "tabulated-list")
(defvar gemini-companion-diff-policy)
(defvar isearch-mode)

;;;; Internals of the package

(defvar gemini-companion-review-of-buffer)
(defvar gemini-companion-cli-run-root)

(defun gemini-companion-monkey--review-of (buffer)
  "Return the review that BUFFER belongs to, or nil."
  (let ((review (and (boundp 'gemini-companion-review-of-buffer)
                     (buffer-local-value 'gemini-companion-review-of-buffer buffer))))
    (or review
        (seq-find (lambda (it) (eq (gemini-companion-review-proposal it) buffer))
                  (gemini-companion-review-all-open)))))

(defconst gemini-companion-monkey--review-buffer-regexp
  (rx bos (? " ") "*" (or "Ediff" "ediff" (seq "gemini " (or "proposal" "current" "base" "diff" "review")
                                               ": ")
                          "gemini-companion-file"))
  "Regexp for names of buffers that must not exist while no review is open.")

(defconst gemini-companion-monkey--deciding-commands
  '(gemini-companion-accept
    gemini-companion-reject gemini-companion-review-quit gemini-companion-review-list-accept
    gemini-companion-review-list-reject)
  "Commands that end a review, and must leave the user's windows alone.")

(defconst gemini-companion-monkey--showing-commands
  '(gemini-companion-review-next
    gemini-companion-review-list-visit
    gemini-companion-review-other-view
    gemini-companion-review-three-way)
  "Commands that show a review.")

;;;; Faults

(defvar gemini-companion-monkey-faults nil
  "The faults, the oldest first: lists of a rule and a text.")

(defvar gemini-companion-monkey--recent-commands nil
  "The last commands, the newest first, for reports.")

(defun gemini-companion-monkey-fault (rule format &rest arguments)
  "Record that RULE, a number, is violated; FORMAT and ARGUMENTS say how."
  (let ((text (apply #'format format arguments)))
    (unless (member (list rule text) gemini-companion-monkey-faults)
      (setq gemini-companion-monkey-faults
            (append gemini-companion-monkey-faults (list (list rule text)))))))

(defmacro gemini-companion-monkey--with-faults (&rest body)
  "Evaluate BODY; record an error in it as a fault of rule 0."
  (declare (indent 0) (debug t))
  `(condition-case error
       (progn ,@body)
     (error (gemini-companion-monkey-fault 0 "The test itself: %S" error))))

;;;; The screen

(cl-defstruct (gemini-companion-monkey-view (:conc-name gemini-companion-monkey--)
                                            (:copier nil))
  "The windows and the prompt at one time."
  (selected nil :documentation "The selected window.")
  (buffer nil :documentation "Its buffer.")
  (prompt nil :documentation "See `gemini-companion-monkey--describe-prompt'.")
  (windows nil :documentation "A pane for each window."))

(cl-defstruct (gemini-companion-monkey-pane (:copier nil))
  "One window at one time."
  window frame buffer point tick review)

(defun gemini-companion-monkey--screen ()
  "Return the current windows and prompt."
  (make-gemini-companion-monkey-view
   :selected (selected-window)
   :buffer (window-buffer)
   :prompt (gemini-companion-monkey--describe-prompt)
   :windows (mapcan (lambda (frame)
                      (mapcar #'gemini-companion-monkey--pane (window-list frame 'no-minibuffer)))
                    (frame-list))))

(defun gemini-companion-monkey--describe-prompt ()
  "Return the depth, buffer and text of the open prompt, and any search."
  (let ((window (active-minibuffer-window)))
    (list (minibuffer-depth)
          (and window
               (with-current-buffer (window-buffer window)
                 (cons (current-buffer) (minibuffer-contents-no-properties))))
          (and (bound-and-true-p isearch-mode) 'isearch))))

(defvar gemini-companion-monkey--fillers nil
  "Alist of windows whose review was killed, and the buffers shown instead.")

(defun gemini-companion-monkey--pane (window)
  "Return the pane of WINDOW."
  (let* ((buffer (window-buffer window))
         (review (gemini-companion-monkey--review-of buffer)))
    (make-gemini-companion-monkey-pane
     :window window :frame (window-frame window) :buffer buffer
     ;; A program moves the cursor in its terminal.
     :point (if (gemini-companion-monkey--terminal-p buffer) 0 (window-point window))
     :tick (buffer-chars-modified-tick buffer)
     :review (cond (review (gemini-companion-review-id review))
                   ((string-match-p gemini-companion-monkey--review-buffer-regexp (buffer-name buffer)) t)
                   ((eq buffer (cdr (assq window gemini-companion-monkey--fillers))) t)))))

(defun gemini-companion-monkey--terminal-p (buffer)
  "Return non-nil if BUFFER is the terminal of a CLI."
  (and (boundp 'gemini-companion-cli-run-root)
       (buffer-local-value 'gemini-companion-cli-run-root buffer)))

(defun gemini-companion-monkey--user-panes (view)
  "Return the panes of VIEW that are the user's."
  (seq-remove #'gemini-companion-monkey-pane-review (gemini-companion-monkey--windows view)))

(defun gemini-companion-monkey--visible (view)
  "Return the ids of the reviews that are visible in VIEW."
  (seq-filter #'numberp (seq-uniq (mapcar #'gemini-companion-monkey-pane-review
                                          (gemini-companion-monkey--windows view)))))

(defun gemini-companion-monkey--find-pane (window view)
  "Return the pane of WINDOW in VIEW, or nil."
  (seq-find (lambda (pane) (eq (gemini-companion-monkey-pane-window pane) window))
            (gemini-companion-monkey--windows view)))

(defun gemini-companion-monkey--successor (pane before after)
  "Return the pane in the view AFTER that PANE of BEFORE has become, or nil.
A window may be replaced by a new one that looks the same."
  (or (gemini-companion-monkey--find-pane (gemini-companion-monkey-pane-window pane) after)
      (seq-find (lambda (it)
                  (and (not (gemini-companion-monkey-pane-review it))
                       (gemini-companion-monkey--same-look-p pane it)
                       (not (gemini-companion-monkey--find-pane
                             (gemini-companion-monkey-pane-window it) before))))
                (gemini-companion-monkey--windows after))))

(defun gemini-companion-monkey--same-look-p (pane other)
  "Return non-nil if PANE and OTHER look the same to a user."
  (and (eq (gemini-companion-monkey-pane-frame pane) (gemini-companion-monkey-pane-frame other))
       (eq (gemini-companion-monkey-pane-buffer pane) (gemini-companion-monkey-pane-buffer other))
       (not (gemini-companion-monkey--moved-p pane other))))

;;;; Changes

(defvar gemini-companion-monkey--reviews nil
  "All reviews that were proposed, the newest first.")

(defvar gemini-companion-monkey--hidden nil
  "Panes of the user that a review has hidden, perhaps in another tab.")

(defvar gemini-companion-monkey--to-restore nil
  "Those of them that must come back when the visible review ends.")

(defvar gemini-companion-monkey--rearranged nil
  "Non-nil if the user has changed windows since a review was shown.")

(defun gemini-companion-monkey--compare (before after who &optional asked)
  "Record faults in what WHO changed between the views BEFORE and AFTER.
ASKED is non-nil if the user asked for it, so that the review may be
selected."
  (let ((came (seq-difference (gemini-companion-monkey--visible after)
                              (gemini-companion-monkey--visible before)))
        (went (seq-difference (gemini-companion-monkey--visible before)
                              (gemini-companion-monkey--visible after))))
    (gemini-companion-monkey--compare-prompt before after who came)
    (gemini-companion-monkey--compare-selection before after who came asked)
    (when (and came (not (gemini-companion-monkey--visible before)))
      (setq gemini-companion-monkey--rearranged nil
            gemini-companion-monkey--to-restore nil))
    ;; A review with three texts, for example, needs more windows.
    (gemini-companion-monkey--compare-user-panes
     before after who (or came (and asked (gemini-companion-monkey--visible after))))
    (gemini-companion-monkey--compare-new-panes before after who went)
    (when (and went (not (gemini-companion-monkey--visible after)))
      (gemini-companion-monkey--compare-hidden who))))

(defun gemini-companion-monkey--compare-prompt (before after who came)
  "Record a fault if WHO changed the prompt between BEFORE and AFTER.
Likewise if reviews CAME during a prompt."
  (let ((old (gemini-companion-monkey--prompt before))
        (new (gemini-companion-monkey--prompt after)))
    (cond ((not (equal old new))
           (gemini-companion-monkey-fault
            1 "%s changed the prompt: it was %S and is %S" who old new))
          ((and came (not (equal old '(0 nil nil))))
           (gemini-companion-monkey-fault 1 "%s showed a review during the prompt %S" who old)))))

(defun gemini-companion-monkey--compare-selection (before after who came asked)
  "Record a fault if WHO selected something else between BEFORE and AFTER.
CAME are reviews that were shown; with ASKED, the user wanted them."
  (let* ((window (gemini-companion-monkey--selected before))
         (pane (gemini-companion-monkey--find-pane window before))
         (now (gemini-companion-monkey--find-pane (gemini-companion-monkey--selected after) after)))
    (unless (or (and pane (gemini-companion-monkey-pane-review pane))
                (and now (gemini-companion-monkey-pane-review now)
                     (or asked
                         ;; If the user has decided one in its own window, the next is selected.
                         (and came (eq (gemini-companion-review-popup--focus) 'select)))))
      (cond ((not (or (eq window (gemini-companion-monkey--selected after))
                      (and pane now
                           (not (window-live-p window))
                           (gemini-companion-monkey--same-look-p pane now))))
             (gemini-companion-monkey-fault
              1 "%s selected %s; the user was in %s on %s" who
              (gemini-companion-monkey--selected after) window
              (gemini-companion-monkey--buffer before)))
            ((not (eq (gemini-companion-monkey--buffer before)
                      (gemini-companion-monkey--buffer after)))
             (gemini-companion-monkey-fault
              1 "%s put %s into the selected window, where the user had %s" who
              (gemini-companion-monkey--buffer after)
              (gemini-companion-monkey--buffer before)))))))

(defun gemini-companion-monkey--compare-user-panes (before after who came)
  "Record faults in what WHO did to the user's windows of BEFORE until AFTER.
If reviews CAME they may take windows, which must come back."
  (dolist (pane (gemini-companion-monkey--user-panes before))
    (let* ((buffer (gemini-companion-monkey-pane-buffer pane))
           (now (gemini-companion-monkey--successor pane before after)))
      (cond ((not (buffer-live-p buffer)))
            ((and came (or (not now) (gemini-companion-monkey-pane-review now)))
             (push pane gemini-companion-monkey--to-restore)
             (push pane gemini-companion-monkey--hidden))
            ((not (frame-live-p (gemini-companion-monkey-pane-frame pane)))
             (gemini-companion-monkey-fault 3 "%s deleted a frame" who))
            ((not now)
             (gemini-companion-monkey-fault
              3 "%s deleted a window of the user, with %s" who buffer))
            ((not (eq buffer (gemini-companion-monkey-pane-buffer now)))
             (gemini-companion-monkey-fault
              3 "%s put %s into a window where the user had %s" who
              (gemini-companion-monkey-pane-buffer now) buffer))
            ((gemini-companion-monkey--moved-p pane now)
             (gemini-companion-monkey-fault
              3 "%s moved point in a window with %s from %s to %s" who buffer
              (gemini-companion-monkey-pane-point pane)
              (gemini-companion-monkey-pane-point now)))))))

(defun gemini-companion-monkey--moved-p (pane now)
  "Return non-nil if point has moved from PANE to NOW in the same text."
  (and (= (gemini-companion-monkey-pane-tick pane) (gemini-companion-monkey-pane-tick now))
       (/= (gemini-companion-monkey-pane-point pane) (gemini-companion-monkey-pane-point now))))

(defun gemini-companion-monkey--compare-new-panes (before after who went)
  "Record a fault if WHO made a window between BEFORE and AFTER.
If reviews WENT, windows that they had hidden come back."
  (dolist (pane (gemini-companion-monkey--user-panes after))
    (let* ((frame (gemini-companion-monkey-pane-frame pane))
           (old (gemini-companion-monkey--find-pane (gemini-companion-monkey-pane-window pane) before))
           (hidden (gemini-companion-monkey--find-hidden-pane pane)))
      (cond ((and old (not (gemini-companion-monkey-pane-review old))))
            ;; It replaces one that looked the same.
            ((seq-some (lambda (it)
                         (and (not (gemini-companion-monkey--find-pane
                                    (gemini-companion-monkey-pane-window it) after))
                              (gemini-companion-monkey--same-look-p it pane)))
                       (gemini-companion-monkey--user-panes before)))
            (hidden
             (setq gemini-companion-monkey--hidden (delq hidden gemini-companion-monkey--hidden))
             (when (gemini-companion-monkey--moved-p hidden pane)
               (gemini-companion-monkey-fault
                3 "%s brought back a window with %s, and point is at %s instead of %s" who
                (gemini-companion-monkey-pane-buffer pane)
                (gemini-companion-monkey-pane-point pane)
                (gemini-companion-monkey-pane-point hidden))))
            ((gemini-companion-monkey--gives-way-p old pane))
            ;; Something must be in the last window of a frame, beside a terminal.
            ((not (seq-some (lambda (it)
                              (and (eq (gemini-companion-monkey-pane-frame it) frame)
                                   (not (gemini-companion-monkey--terminal-p
                                         (gemini-companion-monkey-pane-buffer it)))))
                            (gemini-companion-monkey--user-panes before))))
            (t
             (gemini-companion-monkey-fault
              3 "%s made a window with %s, which the user did not%s" who
              (gemini-companion-monkey-pane-buffer pane)
              (if went ", or had deleted" "")))))))

(defun gemini-companion-monkey--gives-way-p (old pane)
  "Return non-nil if OLD, of a review in the window of its file, gave way to PANE.
OLD may be nil."
  (let ((review (seq-find (lambda (it)
                            (eql (gemini-companion-review-id it)
                                 (and old (gemini-companion-monkey-pane-review old))))
                          gemini-companion-monkey--reviews)))
    (and review
         (eq (gemini-companion-monkey-pane-buffer pane)
             (gemini-companion-review-visiting review)))))

(defun gemini-companion-monkey--find-hidden-pane (pane)
  "Return the hidden pane that comes back as PANE, or nil."
  (let ((same (seq-filter (lambda (it)
                            (eq (gemini-companion-monkey-pane-buffer it)
                                (gemini-companion-monkey-pane-buffer pane)))
                          gemini-companion-monkey--hidden)))
    (or (seq-find (lambda (it) (not (gemini-companion-monkey--moved-p it pane))) same)
        (car same))))

(defun gemini-companion-monkey--compare-hidden (who)
  "Record a fault if WHO ended the last review without restoring windows."
  (unless gemini-companion-monkey--rearranged
    (dolist (pane gemini-companion-monkey--to-restore)
      (when (and (memq pane gemini-companion-monkey--hidden)
                 (buffer-live-p (gemini-companion-monkey-pane-buffer pane))
                 (frame-live-p (gemini-companion-monkey-pane-frame pane)))
        (gemini-companion-monkey-fault
         3 "%s ended a review, and the window with %s that it had hidden is not back" who
         (gemini-companion-monkey-pane-buffer pane)))))
  (setq gemini-companion-monkey--hidden (seq-difference gemini-companion-monkey--hidden
                                                        gemini-companion-monkey--to-restore #'eq)
        gemini-companion-monkey--to-restore nil))

;;;; Timers and commands

(defvar gemini-companion-monkey--displayed nil
  "The ids of the reviews that have been on screen.")

(defvar gemini-companion-monkey--command-start nil
  "The state when the running command began, a plist.")

(defvar gemini-companion-monkey--last-screen nil
  "The last view whose changes were checked, or made by the user.")

(defvar gemini-companion-monkey--screen-before-command nil
  "The view before the running command.")

(defun gemini-companion-monkey--accept-screen ()
  "Accept the current view as right, and return it."
  (let ((view (gemini-companion-monkey--screen)))
    (dolist (id (gemini-companion-monkey--visible view))
      (cl-pushnew id gemini-companion-monkey--displayed))
    (setq gemini-companion-monkey--last-screen view)))

(defun gemini-companion-monkey--check-timer (function timer)
  "Call FUNCTION on TIMER and check what that changes."
  (let ((before (ignore-errors (gemini-companion-monkey--screen)))
        (who (format "A timer (%s)" (gemini-companion-monkey--function-name (timer--function timer)))))
    (unwind-protect (funcall function timer)
      (gemini-companion-monkey--with-faults
        (gemini-companion-monkey--record-fillers before (gemini-companion-monkey--screen) t)
        (gemini-companion-monkey--compare before (gemini-companion-monkey--accept-screen) who)))))

(defun gemini-companion-monkey--function-name (function)
  "Return a short name for FUNCTION, which a timer calls."
  (if (symbolp function)
      function
    "a lambda"))

(defun gemini-companion-monkey--pre-command ()
  "Check what has changed since the last command, and record the state."
  (gemini-companion-monkey--with-faults
    (let ((before gemini-companion-monkey--last-screen)
          (now (gemini-companion-monkey--accept-screen)))
      (when before
        (gemini-companion-monkey--compare before now "Something between two commands"))
      (setq gemini-companion-monkey--screen-before-command now))
    (gemini-companion-monkey--excuse-buffers)
    (push (format "%s %s in %s" (key-description (this-command-keys))
                  (gemini-companion-monkey--function-name this-command)
                  (buffer-name))
          gemini-companion-monkey--recent-commands)
    (when (nthcdr 30 gemini-companion-monkey--recent-commands)
      (setcdr (nthcdr 29 gemini-companion-monkey--recent-commands) nil))
    (when (zerop (recursion-depth))
      (setq gemini-companion-monkey--command-start (gemini-companion-monkey--describe-command-start)))))

(defun gemini-companion-monkey--post-command ()
  "Accept what the command did as right."
  (gemini-companion-monkey--with-faults
    (let ((before gemini-companion-monkey--screen-before-command)
          (now (gemini-companion-monkey--accept-screen)))
      (when before
        (gemini-companion-monkey--record-fillers before now)
        (unless (equal (mapcar #'gemini-companion-monkey-pane-window
                               (gemini-companion-monkey--windows before))
                       (mapcar #'gemini-companion-monkey-pane-window
                               (gemini-companion-monkey--windows now)))
          (unless (string-prefix-p "gemini-companion" (format "%s" this-command))
            (setq gemini-companion-monkey--rearranged t)))))
    (gemini-companion-monkey--excuse-buffers)
    (unless (gemini-companion-review-all-open)
      (setq gemini-companion-monkey--hidden nil))))

(defun gemini-companion-monkey--record-fillers (before now &optional copies)
  "Record windows with another buffer NOW as that of BEFORE was killed.
With COPIES non-nil, only if several windows showed that, of which all but
one are the user's."
  (dolist (pane (gemini-companion-monkey--windows before))
    (let* ((window (gemini-companion-monkey-pane-window pane))
           (new (gemini-companion-monkey--find-pane window now)))
      (when (and new (gemini-companion-monkey-pane-review pane)
                 (not (buffer-live-p (gemini-companion-monkey-pane-buffer pane)))
                 (or (not copies)
                     (< 1 (seq-count (lambda (it)
                                       (eq (gemini-companion-monkey-pane-buffer it)
                                           (gemini-companion-monkey-pane-buffer pane)))
                                     (gemini-companion-monkey--windows before)))))
        (push (cons window (window-buffer window)) gemini-companion-monkey--fillers)))))

(defun gemini-companion-monkey--check-command (function &rest arguments)
  "Call FUNCTION, a command of the package, on ARGUMENTS; check its changes."
  (let ((before (gemini-companion-monkey--accept-screen)))
    (unwind-protect (apply function arguments)
      (gemini-companion-monkey--with-faults
        (gemini-companion-monkey--record-fillers before (gemini-companion-monkey--screen) t)
        (gemini-companion-monkey--compare before (gemini-companion-monkey--accept-screen)
                                          (format "The command %s" this-command) t)))))

;;;; Outcomes

(defvar gemini-companion-monkey-outcomes nil
  "The reported outcomes, the newest first: lists (ID OUTCOME TEXT PATH).
OUTCOME is `given-up' if the client was given a new prompt.")

(defvar gemini-companion-monkey--cancelling nil
  "Non-nil while a review is ended that its client has given up.")

(defun gemini-companion-monkey--note-cancelling (function review)
  "Call FUNCTION, which cancels REVIEW."
  (let ((gemini-companion-monkey--cancelling t))
    (funcall function review)))

(defvar gemini-companion-monkey--telling nil
  "What a hook tells at this time, or that a review ends, a symbol, or nil.")

(defvar gemini-companion-monkey--accepting-all nil
  "Non-nil while the user accepts changes that a question has named.")

(defun gemini-companion-monkey--note-accepting-all (function &rest arguments)
  "Call FUNCTION, which accepts changes of a turn that were named, on ARGUMENTS."
  (let ((gemini-companion-monkey--accepting-all t))
    (apply function arguments)))

(defun gemini-companion-monkey--note-reviews ()
  "Record the reviews that are open."
  (dolist (review (gemini-companion-review-all-open))
    (cl-pushnew review gemini-companion-monkey--reviews)))

(defun gemini-companion-monkey--describe-reviews ()
  "Return the reviews that were proposed as lists (ID TAG OUTCOME).
TAG is the first line of what was proposed; OUTCOME is that in the history,
nil while the review is open."
  (mapcar (lambda (review)
            (let ((entry (gemini-companion-review-entry review)))
              (list (gemini-companion-review-id review)
                    (car (split-string (gemini-companion-review-proposed review) "\n"))
                    (and entry (gemini-companion-history-outcome entry)))))
          gemini-companion-monkey--reviews))

(defun gemini-companion-monkey--describe-command-start ()
  "Return a plist that describes the state when a command begins."
  (let ((review (gemini-companion-monkey--review-of (current-buffer))))
    (list :command this-command
          :buffer (buffer-name)
          :mine (cond (review (gemini-companion-review-id review))
                      ((string-prefix-p "gemini-companion-review-list-"
                                        (format "%s" this-command))
                       (let ((line (tabulated-list-get-id)))
                         (and (memq line (gemini-companion-review-all-open))
                              (gemini-companion-review-id line)))))
          :visible (gemini-companion-monkey--visible gemini-companion-monkey--screen-before-command)
          :displayed gemini-companion-monkey--displayed
          :texts (mapcar (lambda (it)
                           (cons (gemini-companion-review-id it)
                                 (gemini-companion-monkey--proposal-text it)))
                         (gemini-companion-review-all-open)))))

(defun gemini-companion-monkey--proposal-text (review)
  "Return the text of the proposal of REVIEW, or nil if it has no buffer."
  (let ((proposal (gemini-companion-review-proposal review)))
    (and (buffer-live-p proposal)
         (with-current-buffer proposal
           (save-restriction
             (widen)
             (buffer-substring-no-properties (point-min) (point-max)))))))

(defun gemini-companion-monkey--advise-report (outcome)
  "Return advice that records reports of OUTCOME."
  (lambda (function id &rest text)
    (let ((path (seq-some (lambda (it)
                            (and (eql (gemini-companion-review-id it) id)
                                 (gemini-companion-review-path it)))
                          (gemini-companion-review-all-open)))
          (done (apply function id text)))
      (when done
        (gemini-companion-monkey--with-faults
          (if gemini-companion-monkey--cancelling
              (push (list id (if (eq gemini-companion-monkey--telling 'prompt) 'given-up 'cancelled)
                          nil path)
                    gemini-companion-monkey-outcomes)
            (push (list id outcome (car text) path) gemini-companion-monkey-outcomes)
            (gemini-companion-monkey--check-outcome id outcome (car text)))))
      done)))

(defun gemini-companion-monkey--check-outcome (id outcome text)
  "Record a fault if the user did not cause OUTCOME, with TEXT, of review ID."
  (let* ((begun gemini-companion-monkey--command-start)
         (mine (plist-get begun :mine))
         (visible (plist-get begun :visible))
         (shown (alist-get id (plist-get begun :texts)))
         (who (format "%s in %s" this-command (plist-get begun :buffer))))
    (cond (gemini-companion-monkey--accepting-all)
          ((and mine (not (eql mine id)))
           (gemini-companion-monkey-fault
            2 "Review %d was %s by %s, which was about review %d" id outcome who mine))
          ((and (not mine) visible (not (memq id visible)))
           (gemini-companion-monkey-fault
            2 "Review %d was %s by %s, when %S was on screen" id outcome who visible))
          ((not (or mine (memq id (plist-get begun :displayed))))
           (gemini-companion-monkey-fault
            2 "Review %d was %s by %s, and was never on screen" id outcome who))
          ((and text shown (not (equal text shown)))
           (gemini-companion-monkey-fault
            2 "Review %d was accepted by %s with another text: %S instead of %S" id who text shown)))))

;;;; Hooks

(defun gemini-companion-monkey--check-event (function what agent process &rest about)
  "Call FUNCTION on WHAT, AGENT, PROCESS and ABOUT, as a hook tells; check that."
  (let* ((before (gemini-companion-monkey--screen))
         (mark (gemini-companion-monkey--mark))
         (open (gemini-companion-review-all-open))
         (old (gemini-companion-monkey--cli-state process))
         (reported gemini-companion-monkey-outcomes)
         (cli (let ((gemini-companion-monkey--telling what))
                (apply function what agent process about))))
    (gemini-companion-monkey--with-faults
      (gemini-companion-monkey--compare before (gemini-companion-monkey--accept-screen)
                                        (format "The event %s" what))
      (unless (equal mark (gemini-companion-monkey--mark))
        (gemini-companion-monkey-fault 10 "The event %s moved the mark" what))
      (gemini-companion-monkey--check-given-up
       what process open (seq-difference gemini-companion-monkey-outcomes reported #'eq))
      (gemini-companion-monkey--check-cli cli what old (nth 2 about)))
    cli))

(defun gemini-companion-monkey--mark ()
  "Return the mark of the buffer in the selected window, and if it is active."
  (with-current-buffer (window-buffer)
    (list (mark t) mark-active)))

(defun gemini-companion-monkey--cli-state (process)
  "Return the state of the CLI with the id PROCESS, or nil if it is not known."
  (seq-some (lambda (cli)
              (and (eql process (gemini-companion-cli-process cli))
                   (gemini-companion-cli-state cli)))
            (gemini-companion-cli-all)))

(defun gemini-companion-monkey--check-given-up (what process open outcomes)
  "Record a fault if WHAT, told by PROCESS, has ended the wrong reviews.
OPEN are those that were open before, OUTCOMES what was reported since."
  (pcase-dolist (`(,id ,outcome . ,_) outcomes)
    (let ((review (seq-find (lambda (it) (eql id (gemini-companion-review-id it))) open)))
      (when (and (eq outcome 'given-up)
                 (not (and review (eql process (gemini-companion-review-process review))
                           (eq (gemini-companion-history-outcome
                                (gemini-companion-review-entry review))
                               'cancelled))))
        (gemini-companion-monkey-fault
         10 "The event %s of %s ended review %d" what process id))))
  (dolist (review open)
    (when (and (eq what 'prompt) (eql process (gemini-companion-review-process review))
               (memq review (gemini-companion-review-all-open)))
      (gemini-companion-monkey-fault 10 "A prompt for %s did not end review %d" process
                                     (gemini-companion-review-id review)))))

(defun gemini-companion-monkey--check-cli (cli what old text)
  "Record a fault if CLI is not as WHAT tells, with TEXT; its state was OLD."
  (let ((state (gemini-companion-cli-state cli))
        (known (and (memq cli (gemini-companion-cli-all)) t))
        (gone (and (eq what 'end) (equal text "exit"))))
    (unless (and (eq known (not gone))
                 (or gone
                     (eq state (pcase what
                                 ('prompt 'working) ('asks 'asking) ('done 'done) ('end 'idle)
                                 ('start (or old 'idle)) (_ 'working)))))
      (gemini-companion-monkey-fault 10 "After the event %s (%s) a CLI is %s%s" what text state
                                     (if known "" ", and not known")))
    (unless (or (not (eq what 'prompt))
                (equal text (car (gemini-companion-cli-prompt cli))))
      (gemini-companion-monkey-fault 10 "The prompt is %S instead of %S"
                                     (gemini-companion-cli-prompt cli) text))))

(defun gemini-companion-monkey--note-rejection (function &rest arguments)
  "Call FUNCTION on ARGUMENTS, which tells a CLI that its review has ended."
  (let ((gemini-companion-monkey--telling (or gemini-companion-monkey--telling 'review)))
    (apply function arguments)))

(defun gemini-companion-monkey--check-state (cli)
  "Record a fault if CLI has come to its state without a reason."
  (unless (or gemini-companion-monkey--telling
              ;; The screen of its terminal tells, too.
              (gemini-companion-cli-terminal cli))
    (gemini-companion-monkey-fault 10 "A CLI is %s, as nothing told"
                                   (gemini-companion-cli-state cli))))

(defun gemini-companion-monkey--dead-clis ()
  "Return the processes of the known CLIs that have ended."
  (seq-remove (lambda (process) (or (null process) (process-attributes process)))
              (mapcar #'gemini-companion-cli-process (gemini-companion-cli-all))))

;;;; Questions

(defvar gemini-companion-monkey-asking nil
  "The keys that answer the question that is open, a list of strings, or nil.")

(defun gemini-companion-monkey--advise-question (answers)
  "Return advice for a function that asks; ANSWERS returns the keys."
  (lambda (function &rest arguments)
    (let ((gemini-companion-monkey-asking (apply answers arguments)))
      (apply function arguments))))

(defun gemini-companion-monkey--advise-questions ()
  "Have `gemini-companion-monkey-asking' set while a question is open."
  (pcase-dolist
      (`(,function . ,answers)
       `((y-or-n-p . ,(lambda (&rest _) '("y" "n")))
         (yes-or-no-p . ,(lambda (&rest _) '("yes\r" "no\r")))
         (ask-user-about-supersession-threat . ,(lambda (&rest _) '("y" "n" "r")))
         (save-some-buffers . ,(lambda (&rest _) '("y" "n" "q")))
         (read-multiple-choice
          . ,(lambda (_prompt choices &rest _)
               (mapcar (lambda (it) (char-to-string (car it))) choices)))))
    (advice-add function :around (gemini-companion-monkey--advise-question answers))))

(defun gemini-companion-monkey-yes-or-no ()
  "Ask a question, to which the answer does not matter."
  (interactive)
  (y-or-n-p "Sure? "))

(defun gemini-companion-monkey-left-or-right ()
  "Ask for one of two choices."
  (interactive)
  (read-multiple-choice "Which? " '((?l "left") (?z "right"))))

;;;; Errors

(defun gemini-companion-monkey--debugger (&rest arguments)
  "Record the error in ARGUMENTS if code of the package is involved."
  (gemini-companion-monkey--with-faults
    (when (and (eq (car arguments) 'error)
               (not (memq (caadr arguments) '(quit minibuffer-quit)))
               (seq-some (lambda (frame)
                           (and (symbolp (nth 1 frame))
                                (string-match-p "\\`gemini-companion-" (symbol-name (nth 1 frame)))
                                (not (string-match-p "\\`gemini-companion-\\(?:monkey\\|t\\)"
                                                     (symbol-name (nth 1 frame))))))
                         (backtrace-frames)))
      (gemini-companion-monkey-fault 5 "An error was not caught: %S" (cadr arguments)))))

(defun gemini-companion-monkey--check-log (format &rest arguments)
  "Record an error that is logged with FORMAT and ARGUMENTS."
  (when (or (equal format "%s: %s") (string-prefix-p "showing review" format))
    (gemini-companion-monkey-fault 5 "Logged: %s" (apply #'format format arguments))))

(defun gemini-companion-monkey--check-messages ()
  "Record warnings and messages about errors."
  (when (get-buffer "*Warnings*")
    (gemini-companion-monkey-fault
     5 "A warning: %s" (with-current-buffer "*Warnings*" (buffer-string))))
  (with-current-buffer (messages-buffer)
    (save-excursion
      (goto-char (point-min))
      (while (re-search-forward
              "^\\(?:Error running timer\\|error in process\\|Error in [a-z-]+-hook\\).*" nil t)
        (gemini-companion-monkey-fault 5 "A message: %s" (match-string 0))))))

;;;; The state for the driver

(defun gemini-companion-monkey-state ()
  "Return the state of this Emacs for the driver, a plist."
  (gemini-companion-monkey--with-faults
    (gemini-companion-monkey--check-messages))
  (list :events num-nonmacro-input-events
        :pending (input-pending-p)
        :depth (minibuffer-depth)
        :isearch (and (bound-and-true-p isearch-mode) t)
        :asking gemini-companion-monkey-asking
        :kind (gemini-companion-monkey--kind)
        :buffer (buffer-name (window-buffer))
        :modified (and (buffer-modified-p (window-buffer)) t)
        :open (mapcar #'gemini-companion-review-id (gemini-companion-review-all-open))
        :served (apply #'+ (mapcar (lambda (session) (aref session 5))
                                   (gemini-companion-bridge-sessions)))
        :visible (gemini-companion-monkey--visible (gemini-companion-monkey--screen))
        :displayed gemini-companion-monkey--displayed
        :idle (float-time (or (current-idle-time) 0))
        :windows (length (window-list nil 'no-minibuffer))
        :frames (length (frame-list))
        :tabs (length (frame-parameter nil 'tabs))
        :leftover (gemini-companion-monkey--leftover-buffers)
        :stale (gemini-companion-monkey--stale-buffers)
        :reviews (gemini-companion-monkey--describe-reviews)
        :dead (gemini-companion-monkey--dead-clis)
        :outcomes gemini-companion-monkey-outcomes
        :faults gemini-companion-monkey-faults))

(defun gemini-companion-monkey--kind ()
  "Return the kind of the selected buffer: `file', `proposal', and so on."
  (with-current-buffer (window-buffer)
    (cond ((minibufferp) 'minibuffer)
          ((gemini-companion-monkey--terminal-p (current-buffer)) 'terminal)
          ((derived-mode-p 'ediff-mode) 'panel)
          ((derived-mode-p 'gemini-companion-review-inline-mode) 'inline)
          ((derived-mode-p 'gemini-companion-review-list-mode) 'list)
          ((derived-mode-p 'gemini-companion-history-list-mode) 'history)
          ((string-prefix-p "*gemini proposal" (buffer-name)) 'proposal)
          (buffer-file-name 'file)
          ((equal (buffer-name) "*scratch*") 'scratch)
          (t 'other))))

(defun gemini-companion-monkey--leftover-buffers ()
  "Return the names of the buffers of reviews that are not open."
  (let ((open (gemini-companion-review-all-open)))
    (delq nil
          (mapcar (lambda (buffer)
                    (and (string-match-p gemini-companion-monkey--review-buffer-regexp (buffer-name buffer))
                         (if (string-match-p "ediff" (buffer-name buffer))
                             (null open)
                           (not (memq (gemini-companion-monkey--review-of buffer) open)))
                         (not (and open (string-prefix-p " " (buffer-name buffer))))
                         (buffer-name buffer)))
                  (buffer-list)))))

(defvar gemini-companion-monkey--excused-buffers nil
  "Buffers whose file was written while they had edits of the user.
After these are undone, they are unmodified but differ from their file,
as always in Emacs.  Also those that visited their file between an
accept and the time when the client wrote it.")

(defun gemini-companion-monkey--excuse-buffers ()
  "Record the buffers that cannot be reverted to their file."
  (dolist (buffer (buffer-list))
    (when (and (buffer-file-name buffer) (buffer-modified-p buffer)
               (not (verify-visited-file-modtime buffer)))
      (cl-pushnew buffer gemini-companion-monkey--excused-buffers))))

(defun gemini-companion-monkey--excuse-early-visit ()
  "Record the current buffer if a client has yet to be notified of an outcome."
  (gemini-companion-monkey--with-faults
    (when (seq-some (lambda (session) (> (aref session 6) 0))
                    (gemini-companion-bridge-sessions))
      (cl-pushnew (current-buffer) gemini-companion-monkey--excused-buffers))))

(add-hook 'find-file-hook #'gemini-companion-monkey--excuse-early-visit)

(defun gemini-companion-monkey--stale-buffers ()
  "Return the names of the unmodified buffers whose file has another text.
Those that are excused must have been recognized by Emacs as outdated.  One
from which the user was asked something may hold positions for the answer."
  (delq nil
        (mapcar (lambda (buffer)
                  (let ((file (buffer-file-name buffer))
                        (asking (or (minibuffer-selected-window)
                                    ;; Emacs 28 asks some without a minibuffer.
                                    (and gemini-companion-monkey-asking (selected-window)))))
                    (and file (not (buffer-modified-p buffer))
                         (not (and asking (eq buffer (window-buffer asking))))
                         (file-exists-p file)
                         (not (and (memq buffer gemini-companion-monkey--excused-buffers)
                                   (not (verify-visited-file-modtime buffer))))
                         (not (equal (gemini-companion-monkey--buffer-text buffer)
                                     (with-temp-buffer
                                       (insert-file-contents file)
                                       (buffer-string))))
                         (buffer-name buffer))))
                (buffer-list))))

(defun gemini-companion-monkey--buffer-text (buffer)
  "Return the whole text of BUFFER."
  (with-current-buffer buffer
    (save-restriction
      (widen)
      (buffer-substring-no-properties (point-min) (point-max)))))

;;;; Starting

(defun gemini-companion-monkey-start ()
  "Begin to check."
  (require 'gemini-companion-review-list)
  (require 'gemini-companion-review-ediff)
  (require 'gemini-companion-review-inline)
  (require 'gemini-companion-tool-hooks)
  (setq debug-on-error t
        debugger #'gemini-companion-monkey--debugger)
  (advice-add 'gemini-companion-log-add :before #'gemini-companion-monkey--check-log)
  (gemini-companion-monkey--advise-questions)
  (add-hook 'gemini-companion-review-change-hook #'gemini-companion-monkey--note-reviews -90)
  (dolist (function '(gemini-companion-accept-all gemini-companion-review-commands-at-once))
    (advice-add function :around #'gemini-companion-monkey--note-accepting-all))
  (advice-add 'gemini-companion-review-cancel :around #'gemini-companion-monkey--note-cancelling)
  (advice-add 'gemini-companion-cli-note :around #'gemini-companion-monkey--check-event)
  (advice-add 'gemini-companion-cli-note-review-end :around
              #'gemini-companion-monkey--note-rejection)
  (add-hook 'gemini-companion-cli-state-functions #'gemini-companion-monkey--check-state)
  (advice-add 'gemini-companion-bridge-accept :around
              (gemini-companion-monkey--advise-report 'accepted))
  (advice-add 'gemini-companion-bridge-reject :around
              (gemini-companion-monkey--advise-report 'rejected))
  (dolist (command (append gemini-companion-monkey--deciding-commands gemini-companion-monkey--showing-commands))
    (advice-add command :around #'gemini-companion-monkey--check-command))
  (advice-add 'timer-event-handler :around #'gemini-companion-monkey--check-timer)
  (add-hook 'pre-command-hook #'gemini-companion-monkey--pre-command)
  (add-hook 'post-command-hook #'gemini-companion-monkey--post-command 90)
  (add-hook 'minibuffer-setup-hook #'gemini-companion-monkey--accept-screen)
  (global-set-key (kbd "C-c 1") #'gemini-companion-monkey-yes-or-no)
  (global-set-key (kbd "C-c 2") #'gemini-companion-monkey-left-or-right)
  t)

(provide 'gemini-companion-test-monkey-inner)
;;; gemini-companion-test-monkey-inner.el ends here

;;; gemini-companion-test-hands-inner.el --- Watches what moves under a user's hands  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Loaded into the Emacs under test by `gemini-companion-test-hands', it knows
;; what the user has done, for it sees each command, and notes as a fault what
;; changes although he did not do it:
;;
;; - each timer is watched: what it does to windows, prompts and selection;
;; - so is what happens between two commands, by a process filter for example;
;; - so are the commands that decide or show a review;
;; - each outcome must have been asked for, of a review that was to be seen.
;;
;; A window is the review's if a buffer of a review is in it; all others are
;; the user's.  The numbers of the rules are those in the other file.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)

(declare-function gemini-companion-bridge-sessions "gemini-companion-bridge")
(declare-function gemini-companion-review-list-open "gemini-companion-review")
(declare-function gemini-companion-review-count "gemini-companion-review")
(declare-function gemini-companion-review-id "gemini-companion-review" (review) t)
(declare-function gemini-companion-review-path "gemini-companion-review" (review) t)
(declare-function gemini-companion-review-proposal "gemini-companion-review" (review) t)
(declare-function tabulated-list-get-id "tabulated-list")
(defvar gemini-companion-diff-focus)
(defvar gemini-companion-diff-policy)
(defvar isearch-mode)

;;;; What is private to the package: adapt it here

(defvar gemini-companion-review-of-buffer)

(defun gemini-companion-hands--review-of (buffer)
  "Return the review of which BUFFER is a part, or nil."
  (let ((review (and (boundp 'gemini-companion-review-of-buffer)
                     (buffer-local-value 'gemini-companion-review-of-buffer buffer))))
    (or review
        (seq-find (lambda (it) (eq (gemini-companion-review-proposal it) buffer))
                  (gemini-companion-review-list-open)))))

(defconst gemini-companion-hands--parts
  (rx bos (? " ") "*" (or "Ediff" "ediff" (seq "gemini " (or "proposal" "current" "base" "diff")
                                               ": ")
                          "gemini-companion-file"))
  "Regexp for names of buffers that must be gone when no review is open.")

(defconst gemini-companion-hands--deciders
  '(gemini-companion-accept
    gemini-companion-reject gemini-companion-review-quit gemini-companion-review-list-accept
    gemini-companion-review-list-reject)
  "Commands that end a review, and must leave the user's windows alone.")

(defconst gemini-companion-hands--showers
  '(gemini-companion-review-next gemini-companion-review-list-visit)
  "Commands that bring a review to the screen.")

;;;; Faults

(defvar gemini-companion-hands-faults nil
  "The faults that were found, the oldest first: lists of a rule and a text.")

(defvar gemini-companion-hands--trail nil
  "The last commands, the newest first, for the reader of a fault.")

(defun gemini-companion-hands-fault (rule format &rest arguments)
  "Note that RULE, a number, is broken: FORMAT and ARGUMENTS say how."
  (let ((text (apply #'format format arguments)))
    (unless (member (list rule text) gemini-companion-hands-faults)
      (setq gemini-companion-hands-faults
            (append gemini-companion-hands-faults (list (list rule text)))))))

(defmacro gemini-companion-hands--safely (&rest body)
  "Evaluate BODY, which watches; an error in it is a fault of rule 0."
  (declare (indent 0) (debug t))
  `(condition-case error
       (progn ,@body)
     (error (gemini-companion-hands-fault 0 "The test itself: %S" error))))

;;;; What there is to see

(cl-defstruct (gemini-companion-hands-view (:conc-name gemini-companion-hands--)
                                           (:copier nil))
  "What is on the screen at one moment."
  (selected nil :documentation "The selected window.")
  (buffer nil :documentation "Its buffer.")
  (prompt nil :documentation "What the user does in the echo area; see the function.")
  (windows nil :documentation "Alist of all windows, with what is known of each."))

(cl-defstruct (gemini-companion-hands-pane (:copier nil))
  "One window at one moment."
  window frame buffer point tick review)

(defun gemini-companion-hands--look ()
  "Return what is on the screen now."
  (make-gemini-companion-hands-view
   :selected (selected-window)
   :buffer (window-buffer)
   :prompt (gemini-companion-hands--prompt-now)
   :windows (mapcan (lambda (frame)
                      (mapcar #'gemini-companion-hands--pane (window-list frame 'no-minibuffer)))
                    (frame-list))))

(defun gemini-companion-hands--prompt-now ()
  "Return depth, text and place of the prompt that is open, and the search."
  (let ((window (active-minibuffer-window)))
    (list (minibuffer-depth)
          (and window
               (with-current-buffer (window-buffer window)
                 (cons (current-buffer) (minibuffer-contents-no-properties))))
          (and (bound-and-true-p isearch-mode) 'isearch))))

(defvar gemini-companion-hands--fillers nil
  "Alist of windows whose review the user killed, and what is there instead.")

(defun gemini-companion-hands--pane (window)
  "Return what is known of WINDOW."
  (let* ((buffer (window-buffer window))
         (review (gemini-companion-hands--review-of buffer)))
    (make-gemini-companion-hands-pane
     :window window :frame (window-frame window) :buffer buffer :point (window-point window)
     :tick (buffer-chars-modified-tick buffer)
     :review (cond (review (gemini-companion-review-id review))
                   ((string-match-p gemini-companion-hands--parts (buffer-name buffer)) t)
                   ((eq buffer (cdr (assq window gemini-companion-hands--fillers))) t)))))

(defun gemini-companion-hands--of-user (view)
  "Return the panes of VIEW that are the user's."
  (seq-remove #'gemini-companion-hands-pane-review (gemini-companion-hands--windows view)))

(defun gemini-companion-hands--visible (view)
  "Return the ids of the reviews in VIEW."
  (seq-filter #'numberp (seq-uniq (mapcar #'gemini-companion-hands-pane-review
                                          (gemini-companion-hands--windows view)))))

(defun gemini-companion-hands--find (window view)
  "Return what VIEW says of WINDOW, or nil."
  (seq-find (lambda (pane) (eq (gemini-companion-hands-pane-window pane) window))
            (gemini-companion-hands--windows view)))

(defun gemini-companion-hands--follow (pane before after)
  "Return what became in the view AFTER of PANE, one of BEFORE, or nil.
A window may be made anew, if it is like the old one."
  (or (gemini-companion-hands--find (gemini-companion-hands-pane-window pane) after)
      (seq-find (lambda (it)
                  (and (not (gemini-companion-hands-pane-review it))
                       (gemini-companion-hands--like-p pane it)
                       (not (gemini-companion-hands--find
                             (gemini-companion-hands-pane-window it) before))))
                (gemini-companion-hands--windows after))))

(defun gemini-companion-hands--like-p (pane other)
  "Return non-nil if PANE and OTHER look the same to a user."
  (and (eq (gemini-companion-hands-pane-frame pane) (gemini-companion-hands-pane-frame other))
       (eq (gemini-companion-hands-pane-buffer pane) (gemini-companion-hands-pane-buffer other))
       (not (gemini-companion-hands--moved-p pane other))))

;;;; What has changed

(defvar gemini-companion-hands--hidden nil
  "The user's panes that are hidden by a review, perhaps in another tab.")

(defvar gemini-companion-hands--due nil
  "Those of them that the review on screen has to bring back.")

(defvar gemini-companion-hands--arranged nil
  "Non-nil if the user has changed windows since a review came.")

(defun gemini-companion-hands--compare (before after who &optional asked)
  "Note as faults what WHO did between BEFORE and AFTER to what is the user's.
ASKED is non-nil if the user asked for it, so that the review may be
selected."
  (let ((came (seq-difference (gemini-companion-hands--visible after)
                              (gemini-companion-hands--visible before)))
        (went (seq-difference (gemini-companion-hands--visible before)
                              (gemini-companion-hands--visible after))))
    (gemini-companion-hands--compare-prompt before after who came)
    (gemini-companion-hands--compare-selection before after who came asked)
    (when (and came (not (gemini-companion-hands--visible before)))
      (setq gemini-companion-hands--arranged nil
            gemini-companion-hands--due nil))
    ;; With three texts, say, it needs more room than before.
    (gemini-companion-hands--compare-old
     before after who (or came (and asked (gemini-companion-hands--visible after))))
    (gemini-companion-hands--compare-new before after who went)
    (when (and went (not (gemini-companion-hands--visible after)))
      (gemini-companion-hands--compare-hidden who))))

(defun gemini-companion-hands--compare-prompt (before after who came)
  "Note if WHO changed the prompt from BEFORE to AFTER, or reviews CAME over it."
  (let ((old (gemini-companion-hands--prompt before))
        (new (gemini-companion-hands--prompt after)))
    (cond ((not (equal old new))
           (gemini-companion-hands-fault
            1 "%s changed the prompt: it was %S and is %S" who old new))
          ((and came (not (equal old '(0 nil nil))))
           (gemini-companion-hands-fault 1 "%s showed a review over the prompt %S" who old)))))

(defun gemini-companion-hands--compare-selection (before after who came asked)
  "Note if WHO moved the user elsewhere between BEFORE and AFTER.
CAME are reviews that did, ASKED says that he wanted them."
  (let* ((window (gemini-companion-hands--selected before))
         (pane (gemini-companion-hands--find window before))
         (now (gemini-companion-hands--find (gemini-companion-hands--selected after) after)))
    (unless (or (and pane (gemini-companion-hands-pane-review pane))
                (and now (gemini-companion-hands-pane-review now)
                     (or asked
                         (and came (eq gemini-companion-diff-focus 'select)))))
      (cond ((not (or (eq window (gemini-companion-hands--selected after))
                      (and pane now
                           (not (window-live-p window))
                           (gemini-companion-hands--like-p pane now))))
             (gemini-companion-hands-fault
              1 "%s selected %s; the user was in %s on %s" who
              (gemini-companion-hands--selected after) window
              (gemini-companion-hands--buffer before)))
            ((not (eq (gemini-companion-hands--buffer before)
                      (gemini-companion-hands--buffer after)))
             (gemini-companion-hands-fault
              1 "%s put %s into the selected window, where the user had %s" who
              (gemini-companion-hands--buffer after)
              (gemini-companion-hands--buffer before)))))))

(defun gemini-companion-hands--compare-old (before after who came)
  "Note what WHO did to the user's windows of BEFORE until AFTER.
If reviews CAME they may take windows; these are to come back."
  (dolist (pane (gemini-companion-hands--of-user before))
    (let* ((buffer (gemini-companion-hands-pane-buffer pane))
           (now (gemini-companion-hands--follow pane before after)))
      (cond ((not (buffer-live-p buffer)))
            ((and came (or (not now) (gemini-companion-hands-pane-review now)))
             (push pane gemini-companion-hands--due)
             (push pane gemini-companion-hands--hidden))
            ((not (frame-live-p (gemini-companion-hands-pane-frame pane)))
             (gemini-companion-hands-fault 3 "%s deleted a frame" who))
            ((not now)
             (gemini-companion-hands-fault
              3 "%s deleted a window of the user, with %s" who buffer))
            ((not (eq buffer (gemini-companion-hands-pane-buffer now)))
             (gemini-companion-hands-fault
              3 "%s put %s into a window where the user had %s" who
              (gemini-companion-hands-pane-buffer now) buffer))
            ((gemini-companion-hands--moved-p pane now)
             (gemini-companion-hands-fault
              3 "%s moved point in a window with %s from %s to %s" who buffer
              (gemini-companion-hands-pane-point pane)
              (gemini-companion-hands-pane-point now)))))))

(defun gemini-companion-hands--moved-p (pane now)
  "Return non-nil if NOW point is elsewhere than in PANE, in the same text."
  (and (= (gemini-companion-hands-pane-tick pane) (gemini-companion-hands-pane-tick now))
       (/= (gemini-companion-hands-pane-point pane) (gemini-companion-hands-pane-point now))))

(defun gemini-companion-hands--compare-new (before after who went)
  "Note what WHO put on screen between BEFORE and AFTER that nobody asked for.
If reviews WENT the windows come back that they had hidden."
  (dolist (pane (gemini-companion-hands--of-user after))
    (let* ((frame (gemini-companion-hands-pane-frame pane))
           (old (gemini-companion-hands--find (gemini-companion-hands-pane-window pane) before))
           (hidden (gemini-companion-hands--find-hidden pane)))
      (cond ((and old (not (gemini-companion-hands-pane-review old))))
            ;; It has been made anew.
            ((seq-some (lambda (it)
                         (and (not (gemini-companion-hands--find
                                    (gemini-companion-hands-pane-window it) after))
                              (gemini-companion-hands--like-p it pane)))
                       (gemini-companion-hands--of-user before)))
            (hidden
             (setq gemini-companion-hands--hidden (delq hidden gemini-companion-hands--hidden))
             (when (gemini-companion-hands--moved-p hidden pane)
               (gemini-companion-hands-fault
                3 "%s brought back a window with %s, and point is at %s instead of %s" who
                (gemini-companion-hands-pane-buffer pane)
                (gemini-companion-hands-pane-point pane)
                (gemini-companion-hands-pane-point hidden))))
            ;; Something must be in the last window of a frame.
            ((not (seq-some (lambda (it) (eq (gemini-companion-hands-pane-frame it) frame))
                            (gemini-companion-hands--of-user before))))
            (t
             (gemini-companion-hands-fault
              3 "%s made a window with %s, which the user did not%s" who
              (gemini-companion-hands-pane-buffer pane)
              (if went ", or had deleted" "")))))))

(defun gemini-companion-hands--find-hidden (pane)
  "Return what was hidden and comes back as PANE, or nil."
  (let ((same (seq-filter (lambda (it)
                            (eq (gemini-companion-hands-pane-buffer it)
                                (gemini-companion-hands-pane-buffer pane)))
                          gemini-companion-hands--hidden)))
    (or (seq-find (lambda (it) (not (gemini-companion-hands--moved-p it pane))) same)
        (car same))))

(defun gemini-companion-hands--compare-hidden (who)
  "Note if WHO ended the last review and did not bring back what it had hidden."
  (unless gemini-companion-hands--arranged
    (dolist (pane gemini-companion-hands--due)
      (when (and (memq pane gemini-companion-hands--hidden)
                 (buffer-live-p (gemini-companion-hands-pane-buffer pane))
                 (frame-live-p (gemini-companion-hands-pane-frame pane)))
        (gemini-companion-hands-fault
         3 "%s ended a review, and the window with %s that it had hidden is not back" who
         (gemini-companion-hands-pane-buffer pane)))))
  (setq gemini-companion-hands--hidden (seq-difference gemini-companion-hands--hidden
                                                       gemini-companion-hands--due #'eq)
        gemini-companion-hands--due nil))

;;;; Who does something

(defvar gemini-companion-hands--displayed nil
  "The ids of the reviews that have been on screen.")

(defvar gemini-companion-hands--begun nil
  "What was known when the command began that runs, a plist.")

(defvar gemini-companion-hands--last nil
  "What was on screen when last somebody was known to have had a right to it.")

(defvar gemini-companion-hands--before nil
  "What was on screen before the command that runs.")

(defun gemini-companion-hands--note ()
  "Take what is on screen as right; return it."
  (let ((view (gemini-companion-hands--look)))
    (dolist (id (gemini-companion-hands--visible view))
      (cl-pushnew id gemini-companion-hands--displayed))
    (setq gemini-companion-hands--last view)))

(defun gemini-companion-hands--around-timer (function timer)
  "Call FUNCTION on TIMER and see what that does."
  (let ((before (ignore-errors (gemini-companion-hands--look)))
        (who (format "A timer (%s)" (gemini-companion-hands--name (timer--function timer)))))
    (unwind-protect (funcall function timer)
      (gemini-companion-hands--safely
        (gemini-companion-hands--compare before (gemini-companion-hands--note) who)))))

(defun gemini-companion-hands--name (function)
  "Return a short name for FUNCTION, which a timer calls."
  (if (symbolp function)
      function
    "a lambda"))

(defun gemini-companion-hands--pre-command ()
  "See what happened since the last command, and remember how things are."
  (gemini-companion-hands--safely
    (let ((before gemini-companion-hands--last)
          (now (gemini-companion-hands--note)))
      (when before
        (gemini-companion-hands--compare before now "Something between two commands"))
      (setq gemini-companion-hands--before now))
    (gemini-companion-hands--excuse)
    (push (format "%s %s in %s" (key-description (this-command-keys)) this-command
                  (buffer-name))
          gemini-companion-hands--trail)
    (when (nthcdr 30 gemini-companion-hands--trail)
      (setcdr (nthcdr 29 gemini-companion-hands--trail) nil))
    (when (zerop (recursion-depth))
      (setq gemini-companion-hands--begun (gemini-companion-hands--beginning)))))

(defun gemini-companion-hands--post-command ()
  "Take what the command did as right."
  (gemini-companion-hands--safely
    (let ((before gemini-companion-hands--before)
          (now (gemini-companion-hands--note)))
      (when before
        (gemini-companion-hands--note-fillers before now)
        (unless (equal (mapcar #'gemini-companion-hands-pane-window
                               (gemini-companion-hands--windows before))
                       (mapcar #'gemini-companion-hands-pane-window
                               (gemini-companion-hands--windows now)))
          (unless (string-prefix-p "gemini-companion" (format "%s" this-command))
            (setq gemini-companion-hands--arranged t)))))
    (gemini-companion-hands--excuse)
    (unless (gemini-companion-review-list-open)
      (setq gemini-companion-hands--hidden nil))))

(defun gemini-companion-hands--note-fillers (before now)
  "Note which windows have another buffer NOW because that of BEFORE was killed."
  (dolist (pane (gemini-companion-hands--windows before))
    (let* ((window (gemini-companion-hands-pane-window pane))
           (new (gemini-companion-hands--find window now)))
      (when (and new (gemini-companion-hands-pane-review pane)
                 (not (buffer-live-p (gemini-companion-hands-pane-buffer pane))))
        (push (cons window (window-buffer window)) gemini-companion-hands--fillers)))))

(defun gemini-companion-hands--around-command (function &rest arguments)
  "Call FUNCTION, a command of the package, on ARGUMENTS and see what it does."
  (let ((before (gemini-companion-hands--note)))
    (unwind-protect (apply function arguments)
      (gemini-companion-hands--safely
        (gemini-companion-hands--compare before (gemini-companion-hands--note)
                                         (format "The command %s" this-command) t)))))

;;;; Outcomes

(defvar gemini-companion-hands-outcomes nil
  "The outcomes that were reported, the newest first: (ID OUTCOME TEXT PATH).")

(defun gemini-companion-hands--beginning ()
  "Return what is to be known when a command begins."
  (let ((review (gemini-companion-hands--review-of (current-buffer))))
    (list :command this-command
          :buffer (buffer-name)
          :mine (cond (review (gemini-companion-review-id review))
                      ((string-prefix-p "gemini-companion-review-list-"
                                        (format "%s" this-command))
                       (let ((line (tabulated-list-get-id)))
                         (and (memq line (gemini-companion-review-list-open))
                              (gemini-companion-review-id line)))))
          :visible (gemini-companion-hands--visible gemini-companion-hands--before)
          :displayed gemini-companion-hands--displayed
          :texts (mapcar (lambda (it)
                           (cons (gemini-companion-review-id it)
                                 (gemini-companion-hands--text it)))
                         (gemini-companion-review-list-open)))))

(defun gemini-companion-hands--text (review)
  "Return what the proposal of REVIEW says, or nil if it has no buffer."
  (let ((proposal (gemini-companion-review-proposal review)))
    (and (buffer-live-p proposal)
         (with-current-buffer proposal
           (save-restriction
             (widen)
             (buffer-substring-no-properties (point-min) (point-max)))))))

(defun gemini-companion-hands--around-report (outcome)
  "Return advice that notes reports of OUTCOME."
  (lambda (function id &rest text)
    (let ((path (seq-some (lambda (it)
                            (and (eql (gemini-companion-review-id it) id)
                                 (gemini-companion-review-path it)))
                          (gemini-companion-review-list-open)))
          (done (apply function id text)))
      (when done
        (gemini-companion-hands--safely
          (push (list id outcome (car text) path) gemini-companion-hands-outcomes)
          (gemini-companion-hands--check-outcome id outcome (car text))))
      done)))

(defun gemini-companion-hands--check-outcome (id outcome text)
  "Note if nobody asked for OUTCOME, with TEXT, of the review with ID."
  (let* ((begun gemini-companion-hands--begun)
         (mine (plist-get begun :mine))
         (visible (plist-get begun :visible))
         (said (alist-get id (plist-get begun :texts)))
         (who (format "%s in %s" this-command (plist-get begun :buffer))))
    (cond ((and mine (not (eql mine id)))
           (gemini-companion-hands-fault
            2 "Review %d was %s by %s, which was about review %d" id outcome who mine))
          ((and (not mine) visible (not (memq id visible)))
           (gemini-companion-hands-fault
            2 "Review %d was %s by %s, when %S was on screen" id outcome who visible))
          ((not (or mine (memq id (plist-get begun :displayed))))
           (gemini-companion-hands-fault
            2 "Review %d was %s by %s, and was never on screen" id outcome who))
          ((and text said (not (equal text said)))
           (gemini-companion-hands-fault
            2 "Review %d was accepted by %s with a text that it did not say: %S for %S"
            id who text said)))))

;;;; Questions

(defvar gemini-companion-hands-asking nil
  "The keys that answer the question that is open, a list of strings, or nil.")

(defun gemini-companion-hands--while-asking (answers)
  "Return advice for a function that asks; ANSWERS returns its keys."
  (lambda (function &rest arguments)
    (let ((gemini-companion-hands-asking (apply answers arguments)))
      (apply function arguments))))

(defun gemini-companion-hands--watch-questions ()
  "Know which questions are open."
  (pcase-dolist
      (`(,function . ,answers)
       `((y-or-n-p . ,(lambda (&rest _) '("y" "n")))
         (yes-or-no-p . ,(lambda (&rest _) '("yes\r" "no\r")))
         (ask-user-about-supersession-threat . ,(lambda (&rest _) '("y" "n" "r")))
         (save-some-buffers . ,(lambda (&rest _) '("y" "n" "q")))
         (read-multiple-choice
          . ,(lambda (_prompt choices &rest _)
               (mapcar (lambda (it) (char-to-string (car it))) choices)))))
    (advice-add function :around (gemini-companion-hands--while-asking answers))))

(defun gemini-companion-hands-yes-or-no ()
  "Ask what nobody wants to know."
  (interactive)
  (y-or-n-p "Sure? "))

(defun gemini-companion-hands-left-or-right ()
  "Ask for one of two."
  (interactive)
  (read-multiple-choice "Which? " '((?l "left") (?z "right"))))

;;;; What goes wrong

(defun gemini-companion-hands--debugger (&rest arguments)
  "Note the error in ARGUMENTS if code of the package is involved."
  (gemini-companion-hands--safely
    (when (and (eq (car arguments) 'error)
               (not (memq (caadr arguments) '(quit minibuffer-quit)))
               (seq-some (lambda (frame)
                           (and (symbolp (nth 1 frame))
                                (string-match-p "\\`gemini-companion-\\(?:[^ht]\\|history\\)"
                                                (symbol-name (nth 1 frame)))))
                         (backtrace-frames)))
      (gemini-companion-hands-fault 5 "An error was not caught: %S" (cadr arguments)))))

(defun gemini-companion-hands--see-log (format &rest arguments)
  "Note an error that is logged: FORMAT and ARGUMENTS are those of the log."
  (when (or (equal format "%s: %s") (string-prefix-p "showing review" format))
    (gemini-companion-hands-fault 5 "Logged: %s" (apply #'format format arguments))))

(defun gemini-companion-hands--see-messages ()
  "Note what Emacs says of errors."
  (when (get-buffer "*Warnings*")
    (gemini-companion-hands-fault
     5 "A warning: %s" (with-current-buffer "*Warnings*" (buffer-string))))
  (with-current-buffer (messages-buffer)
    (save-excursion
      (goto-char (point-min))
      (while (re-search-forward
              "^\\(?:Error running timer\\|error in process\\|Error in [a-z-]+-hook\\).*" nil t)
        (gemini-companion-hands-fault 5 "A message: %s" (match-string 0))))))

;;;; What the driver asks for

(defun gemini-companion-hands-state ()
  "Return what the driver wants to know, a plist."
  (gemini-companion-hands--safely
    (gemini-companion-hands--see-messages))
  (list :events num-nonmacro-input-events
        :pending (input-pending-p)
        :depth (minibuffer-depth)
        :isearch (and (bound-and-true-p isearch-mode) t)
        :asking gemini-companion-hands-asking
        :kind (gemini-companion-hands--kind)
        :buffer (buffer-name (window-buffer))
        :modified (and (buffer-modified-p (window-buffer)) t)
        :open (mapcar #'gemini-companion-review-id (gemini-companion-review-list-open))
        :served (apply #'+ (mapcar (lambda (session) (aref session 5))
                                   (gemini-companion-bridge-sessions)))
        :visible (gemini-companion-hands--visible (gemini-companion-hands--look))
        :displayed gemini-companion-hands--displayed
        :idle (float-time (or (current-idle-time) 0))
        :windows (length (window-list nil 'no-minibuffer))
        :frames (length (frame-list))
        :tabs (length (frame-parameter nil 'tabs))
        :left (gemini-companion-hands--left)
        :untrue (gemini-companion-hands--untrue)
        :outcomes gemini-companion-hands-outcomes
        :faults gemini-companion-hands-faults))

(defun gemini-companion-hands--kind ()
  "Return what the user is in: `file', `proposal', `panel' and so on."
  (with-current-buffer (window-buffer)
    (cond ((minibufferp) 'minibuffer)
          ((derived-mode-p 'ediff-mode) 'panel)
          ((derived-mode-p 'gemini-companion-diff-mode) 'diff)
          ((derived-mode-p 'gemini-companion-review-list-mode) 'list)
          ((derived-mode-p 'gemini-companion-review-history-mode) 'history)
          ((string-prefix-p "*gemini proposal" (buffer-name)) 'proposal)
          (buffer-file-name 'file)
          ((equal (buffer-name) "*scratch*") 'scratch)
          (t 'other))))

(defun gemini-companion-hands--left ()
  "Return the names of the buffers of reviews that are not open."
  (let ((open (gemini-companion-review-list-open)))
    (delq nil
          (mapcar (lambda (buffer)
                    (and (string-match-p gemini-companion-hands--parts (buffer-name buffer))
                         (if (string-match-p "ediff" (buffer-name buffer))
                             (null open)
                           (not (memq (gemini-companion-hands--review-of buffer) open)))
                         (not (and open (string-prefix-p " " (buffer-name buffer))))
                         (buffer-name buffer)))
                  (buffer-list)))))

(defvar gemini-companion-hands--excused nil
  "Buffers whose file was written while they had edits of the user.
If he undoes these, they count as saved although they are not, as ever.
Also those whose file was visited between an accept and the moment when
the client heard of it, and wrote the file.")

(defun gemini-companion-hands--excuse ()
  "Note which buffers cannot follow their file."
  (dolist (buffer (buffer-list))
    (when (and (buffer-file-name buffer) (buffer-modified-p buffer)
               (not (verify-visited-file-modtime buffer)))
      (cl-pushnew buffer gemini-companion-hands--excused))))

(defun gemini-companion-hands--excuse-early ()
  "Note that the current buffer visits its file too early, if a client is late."
  (gemini-companion-hands--safely
    (when (seq-some (lambda (session) (> (aref session 6) 0))
                    (gemini-companion-bridge-sessions))
      (cl-pushnew (current-buffer) gemini-companion-hands--excused))))

(add-hook 'find-file-hook #'gemini-companion-hands--excuse-early)

(defun gemini-companion-hands--untrue ()
  "Return the names of the buffers that count as saved and are not.
Their text is not what their files say; of those that are excused, Emacs
must know that."
  (delq nil
        (mapcar (lambda (buffer)
                  (let ((file (buffer-file-name buffer)))
                    (and file (not (buffer-modified-p buffer))
                         (file-exists-p file)
                         (not (and (memq buffer gemini-companion-hands--excused)
                                   (not (verify-visited-file-modtime buffer))))
                         (not (equal (gemini-companion-hands--whole buffer)
                                     (with-temp-buffer
                                       (insert-file-contents file)
                                       (buffer-string))))
                         (buffer-name buffer))))
                (buffer-list))))

(defun gemini-companion-hands--whole (buffer)
  "Return all text of BUFFER."
  (with-current-buffer buffer
    (save-restriction
      (widen)
      (buffer-substring-no-properties (point-min) (point-max)))))

;;;; Starting

(defun gemini-companion-hands-watch ()
  "Watch from now on."
  (require 'gemini-companion-review-list)
  (require 'gemini-companion-ediff)
  (require 'gemini-companion-diff)
  (setq debug-on-error t
        debugger #'gemini-companion-hands--debugger)
  (advice-add 'gemini-companion-log-add :before #'gemini-companion-hands--see-log)
  (gemini-companion-hands--watch-questions)
  (advice-add 'gemini-companion-bridge-accept :around
              (gemini-companion-hands--around-report 'accepted))
  (advice-add 'gemini-companion-bridge-reject :around
              (gemini-companion-hands--around-report 'rejected))
  (dolist (command (append gemini-companion-hands--deciders gemini-companion-hands--showers))
    (advice-add command :around #'gemini-companion-hands--around-command))
  (advice-add 'timer-event-handler :around #'gemini-companion-hands--around-timer)
  (add-hook 'pre-command-hook #'gemini-companion-hands--pre-command)
  (add-hook 'post-command-hook #'gemini-companion-hands--post-command 90)
  (add-hook 'minibuffer-setup-hook #'gemini-companion-hands--note)
  (global-set-key (kbd "C-c 1") #'gemini-companion-hands-yes-or-no)
  (global-set-key (kbd "C-c 2") #'gemini-companion-hands-left-or-right)
  t)

(provide 'gemini-companion-test-hands-inner)
;;; gemini-companion-test-hands-inner.el ends here

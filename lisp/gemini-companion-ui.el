;;; gemini-companion-ui.el --- What our buffers and messages share -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Text for the user; what the user is doing, and so when a message or a window may appear; keys, in
;; header lines and for users of Evil; the buffers in which something is reported; and small things
;; that many files need, such as JSON and timers.

;;; Code:

(eval-when-compile
  (require 'cl-lib)
  (require 'json))
(require 'button)
(require 'subr-x)                       ; also for the files that require this one

(declare-function evil-emacs-state "ext:evil-states" t t)
(declare-function evil-initial-state "ext:evil-core")
(declare-function evil-initial-state-for-buffer "ext:evil-core")
(declare-function meow-insert-mode "ext:meow-core" t t)
(declare-function global-hl-line-highlight "hl-line")
(declare-function hl-line-highlight "hl-line")
(declare-function json-read "json")
(declare-function x-window-property "ext:xfns.c")

;;;; Text

(defmacro gemini-companion-ui-widened (&rest body)
  "Evaluate BODY in the whole of the current buffer, and keep point and narrowing."
  (declare (indent 0) (debug t))
  `(save-excursion
     (save-restriction
       (widen)
       ,@body)))

(defun gemini-companion-ui-line-start (line)
  "Return the start of LINE of the current buffer, which may be narrowed.
If there are not so many lines, return the end of the buffer."
  (gemini-companion-ui-widened
    (goto-char (point-min))
    ;; Building that cache takes a hundred times as long as this needs.
    (let ((cache-long-scans nil))
      (forward-line (1- line)))
    (point)))

(defconst gemini-companion-ui-hidden-characters
  '((#x115f . #x115f) (#x1160 . #x1160) (#x200b . #x200b) (#x2028 . #x202e) (#x2060 . #x206f)
    (#x3164 . #x3164) (#xfeff . #xfeff) (#xffa0 . #xffa0) (#xe0000 . #xe01ef))
  "Ranges of characters that end lines, turn text around, or cannot be seen.
With them, a text can look like another one.  Scripts and emoji need others,
such as U+200D, which are not here.")

(defun gemini-companion-ui-hidden-regexp (more)
  "Return a regexp for a hidden character, or one of MORE, as between brackets."
  (format "[%s%s]" more (mapconcat (lambda (range) (string (car range) ?- (cdr range)))
                                   gemini-companion-ui-hidden-characters "")))

(defconst gemini-companion-ui--not-in-line
  (gemini-companion-ui-hidden-regexp "[:cntrl:]\u061c\u200e\u200f")
  "Regexp for a character that is not shown as it is in a line of ours.")

(defun gemini-companion-ui-one-line (text)
  "Return TEXT, perhaps from a client, with control characters made visible.
So are others that end lines, turn the text around, or cannot be seen."
  (replace-regexp-in-string
   gemini-companion-ui--not-in-line
   (lambda (control)
     (let ((char (aref control 0)))
       (if (< char #x100) (text-char-description char)
         (format "\\u%04x" char))))
   text t t))

(defun gemini-companion-ui-text (start end)
  "Return the text from START to END without properties, as the user copies it.
Eat hides a space in front of each character that is two columns wide."
  (save-match-data (substring-no-properties (filter-buffer-substring start end))))

(defun gemini-companion-ui-trim-end (text chars)
  "Return TEXT without CHARS at its end.
CHARS are as for `skip-chars-backward'.  `string-trim-right' would take
minutes for a million blanks in the middle."
  (with-temp-buffer
    (insert text)
    (skip-chars-backward chars)
    (buffer-substring (point-min) (point))))

(defun gemini-companion-ui-trim (text)
  "Return TEXT without blanks and newlines at its ends, fast for any TEXT."
  (gemini-companion-ui-trim-end (string-trim-left text) " \t\n\r"))

(defun gemini-companion-ui-error-text (error)
  "Return the message of ERROR, as caught by `condition-case'.
Unlike `error-message-string', do not quote the strings of our errors."
  (if (not (stringp (cadr error))) (error-message-string error)
    (string-join (cl-loop for part in (cdr error)
                          if (stringp part) collect part)
                 ": ")))

(defun gemini-companion-ui-prompt-line (prompt)
  "Return the text PROMPT as one line, with single spaces for all whitespace."
  (gemini-companion-ui-one-line (replace-regexp-in-string "[[:space:]]+" " " prompt)))

(defun gemini-companion-ui-duration (seconds)
  "Return SECONDS as text for the user, such as \"5 min\"."
  (let ((seconds (max 0 (floor seconds))))
    (cond ((< seconds 60) (format "%d s" seconds))
          ((< seconds 3600) (format "%d min" (/ seconds 60)))
          ((< seconds 86400) (format "%d h" (/ seconds 3600)))
          (t (format "%d d" (/ seconds 86400))))))

(defun gemini-companion-ui-count (number noun)
  "Return NUMBER and NOUN, with an s unless it is one, such as \"2 lines\"."
  (format (if (eql number 1) "%d %s" "%d %ss") number noun))

(defun gemini-companion-ui-read-json (text)
  "Return the JSON value in TEXT, as `gemini-companion-ui-read-json-at-point' does."
  (with-temp-buffer
    (insert text)
    (goto-char (point-min))
    (gemini-companion-ui-read-json-at-point)))

(defun gemini-companion-ui-read-json-at-point (&optional null)
  "Read the JSON value at point, and return it; go to its end.
Objects are alists, arrays vectors, false is `:json-false', null is NULL.
Whatever runs may have bound the variables of `json-read' while it waits."
  (let ((json-object-type 'alist)
        (json-array-type 'vector)
        (json-key-type nil)
        (json-false :json-false)
        (json-null null))
    (json-read)))

(defun gemini-companion-ui-shorten (text width)
  "Return TEXT, of which the end matters, in at most WIDTH columns."
  (let ((full (string-width text)))
    (if (<= full width) text
      (apply #'propertize
             ;; In East Asian languages, the dots have two columns.
             (concat "…" (truncate-string-to-width text full (- full width (- (string-width "…")))))
             (text-properties-at 0 text)))))

(defun gemini-companion-ui-completion-table (candidates metadata)
  "Return a completion table of CANDIDATES with METADATA, an alist."
  (lambda (string predicate action)
    (if (eq action 'metadata) (cons 'metadata metadata)
      (complete-with-action action candidates string predicate))))

;;;; Timers

(defun gemini-companion-ui-adjust-timer (wanted seconds repeat function &rest arguments)
  "Call FUNCTION with ARGUMENTS in SECONDS, unless a timer is to call it already.
Then call it every REPEAT seconds, if that is non-nil.  If WANTED is nil,
no longer call it."
  (if (not wanted) (cancel-function-timers function)
    (unless (cl-loop for timer in timer-list thereis (eq (timer--function timer) function))
      (apply #'run-at-time seconds repeat function arguments))))

;;;; What the user is doing

(defvar gemini-companion-ui--idle-time 0.5
  "Seconds without a key after which windows may change.")

(defvar gemini-companion-ui-reaction-time 0.7
  "Seconds for which a key or click may be meant for what was there before.")

(defun gemini-companion-ui-key-expected ()
  "Return what waits for the user's next key, as text, or nil if nothing does."
  (cond ((active-minibuffer-window) "the minibuffer is active")
        ((> (recursion-depth) 0) "a recursive edit is open")
        (this-command "a command runs")
        ((> (length (this-command-keys-vector)) 0) "a key sequence has begun")
        (prefix-arg "a prefix argument was given")
        ((bound-and-true-p isearch-mode) "a search is active")
        ((or defining-kbd-macro executing-kbd-macro) "a keyboard macro is active")
        ((or (input-pending-p) throw-on-input) "you are typing")
        ;; Repeat mode and commands like `text-scale-adjust', which are no menus, keep their maps
        ;; until the user presses another key, perhaps in an hour; Xah Fly Keys keeps its own.
        ((or (bound-and-true-p transient--prefix)
             (and overriding-terminal-local-map (not (bound-and-true-p repeat-in-progress))
                  (not (memq (bound-and-true-p xah-fly-command-map) overriding-terminal-local-map))
                  (or (memq (bound-and-true-p hydra-curr-map) overriding-terminal-local-map)
                      (not (gemini-companion-ui-idle-p 3)))))
         "a menu of keys is open")))

(defun gemini-companion-ui-recent-p (time seconds)
  "Return non-nil if TIME, in seconds since 1970, was at most SECONDS ago.
A TIME that is yet to come was long ago: the clock has been set back."
  (<= 0 (- (float-time) time) seconds))

(defun gemini-companion-ui-idle-p (seconds)
  "Return non-nil if the user has pressed no key for SECONDS."
  (let ((idle (current-idle-time)))
    ;; There is no idle time while a command runs, perhaps for the key just pressed, nor ever in
    ;; batch mode.  If the clock was set back since, it is negative until the next key.
    (if idle (not (<= 0 (float-time idle) seconds)) noninteractive)))

(defun gemini-companion-ui-busy ()
  "Return why windows may not change now, as text, or nil if they may.
In that case, the selected frame is one that users can see."
  (cond ((gemini-companion-ui-key-expected))
        ((not (gemini-companion-ui-select-user-frame)) "Emacs has no frame")
        ((not (gemini-companion-ui-idle-p gemini-companion-ui--idle-time)) "you are typing")))

(defun gemini-companion-ui-user-frame-p (&optional frame)
  "Return non-nil unless FRAME is the invisible one of a daemon, or suspended.
It defaults to the selected frame."
  (and (not (equal (terminal-name frame) "initial_terminal"))
       ;; On a desktop, a frame that is hidden can be raised.
       (or (display-graphic-p frame) (frame-visible-p (or frame (selected-frame))))))

(defun gemini-companion-ui-select-user-frame ()
  "If no user can see the selected frame, select the visible one used last.
Emacs selects the invisible frame of a daemon when the last one on a terminal is
closed, even if there are others.  Return nil if there are none."
  (or (gemini-companion-ui-user-frame-p)
      (when-let* ((frames (seq-filter #'gemini-companion-ui-user-frame-p (frame-list))))
        (save-current-buffer
          (select-frame (car (seq-sort-by (lambda (it) (window-use-time (frame-selected-window it)))
                                          #'> frames)))))))

(defun gemini-companion-ui-seen-p ()
  "Return nil if nobody sees what is shown now, in a daemon without a frame."
  (or (gemini-companion-ui-select-user-frame) (not (daemonp))))

(defun gemini-companion-ui-check-frame ()
  "Signal a `user-error' if nobody sees what is shown, in a daemon without a frame."
  (unless (gemini-companion-ui-seen-p)
    (user-error "Emacs has no frame")))

;;;; Windows

(defun gemini-companion-ui-window-of (buffer)
  "Return a visible window of BUFFER, which may be dead or nil."
  (car (gemini-companion-ui-windows-of buffer)))

(defun gemini-companion-ui-windows-of (buffer)
  "Return the visible windows of BUFFER, which may be dead or nil.
A text terminal shows one frame at a time."
  (and (buffer-live-p buffer)
       (cl-loop for window in (get-buffer-window-list buffer 'no-minibuffer t)
                for frame = (window-frame window)
                if (or (eq frame (selected-frame))
                       (and (display-graphic-p frame)
                            (eq (frame-terminal frame) (frame-terminal))
                            (eq (frame-visible-p frame) t)
                            (not (gemini-companion-ui--withdrawn-p frame))))
                collect window)))

(defun gemini-companion-ui--withdrawn-p (frame)
  "Return non-nil if FRAME is on a workspace of i3 that is not on screen.
Emacs takes it for visible."
  (and (eq (window-system frame) 'x)
       (when-let* ((window (frame-parameter frame 'outer-window-id))
                   (state (x-window-property "WM_STATE" frame "WM_STATE"
                                             (string-to-number window) nil t)))
         (eql (aref state 0) 0))))

;;;; Showing our own buffers

(defun gemini-companion-ui-pop-to (buffer &optional mode)
  "Show BUFFER, which belongs to no review, and select its window.
A review on screen keeps its windows.  Turn the major mode MODE on, if it is
non-nil and not on yet."
  (pop-to-buffer (get-buffer-create buffer)
                 '((display-buffer-reuse-window gemini-companion-ui-display-beside-review)))
  (unless (or (not mode) (derived-mode-p mode)) (funcall mode)))

(defun gemini-companion-ui-display-beside-review (buffer alist)
  "Display BUFFER in a window without a review, for `display-buffer' with ALIST.
Return nil if no window of the frame shows a review, or there is no other."
  (let ((windows (window-list nil 'no-minibuffer)))
    (when (cl-loop for window in windows thereis (gemini-companion-ui--review-window-p window))
      (if-let* ((free (cl-loop for window in windows
                               unless (or (eq window (selected-window))
                                          (window-dedicated-p window)
                                          (< (window-total-height window) 6)
                                          (gemini-companion-ui--review-window-p window))
                               collect window))
                (oldest (car (seq-sort-by #'window-use-time #'< free))))
          (display-buffer-in-previous-window buffer `((previous-window . ,oldest) ,@alist))
        (or (display-buffer-at-bottom
             buffer `((window-height . gemini-companion-ui--set-height) ,@alist))
            (unless (gemini-companion-ui--review-window-p (selected-window))
              (display-buffer-same-window buffer alist)))))))

(defun gemini-companion-ui--set-height (window)
  "Give WINDOW a third of what side windows leave, if others stay large enough.
With a number for its height, Emacs takes too much of these, or may fail."
  (let ((main (window-main-window (window-frame window))))
    (window-resize window (window-resizable window (- (/ (window-total-height main) 3)
                                                      (window-total-height window))))))

(defun gemini-companion-ui--review-window-p (window)
  "Return non-nil if WINDOW shows a buffer of a review."
  (alist-get 'gemini-companion-review-of-buffer
             (buffer-local-variables (window-buffer window))))

;;;; Garbage collection

(defmacro gemini-companion-ui-delay-gc (&rest body)
  "Evaluate BODY, for which the user waits, and collect garbage only after it.
Copies of a large text would cause several collections."
  (declare (indent 0) (debug t))
  `(let ((gc-cons-threshold (max gc-cons-threshold (* 256 1024 1024))))
     ,@body))

;;;; Buffers

(defun gemini-companion-ui-kill-buffer (buffer)
  "Kill BUFFER without asking; it may be nil, killed, or a buffer name."
  (let ((buffer (and buffer (get-buffer buffer))))
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (set-buffer-modified-p nil)
        ;; Packages for perspectives, for example, ask there.
        (let ((kill-buffer-query-functions nil))
          (kill-buffer))))))

(defun gemini-companion-ui-omit-line-numbers ()
  "Show no line numbers in the current buffer, whatever the user has elsewhere."
  (if (bound-and-true-p global-display-line-numbers-mode)
      ;; It would set the variable again, but leaves alone buffers in which this was called.
      (display-line-numbers-mode -1)
    (setq display-line-numbers nil)))

;;;; Messages

(defvar gemini-companion-ui--messages nil
  "Pending messages, an alist of (TOPIC . TEXT), the newest first.")

(defvar gemini-companion-ui--echoed nil
  "What was last shown in the echo area, as (TEXT . FOREIGN), or nil.
FOREIGN is the message of something else in it, or nil.")

(defun gemini-companion-ui-message (topic format &rest arguments)
  "Show a message as soon as it hides neither a prompt nor another message.
It is FORMAT with ARGUMENTS, as in `format-message'.  It replaces a pending
message on the same TOPIC, an object, and one of ours on screen."
  (setf (alist-get topic gemini-companion-ui--messages nil t)
        (apply #'format-message format arguments))
  (gemini-companion-ui--show-messages))

(defvar emacspeak-speak-messages)

(defun gemini-companion-ui--show-messages ()
  "Show the pending messages if they hide nothing, else try again soon."
  (cond
   ((or (null gemini-companion-ui--messages) (gemini-companion-ui-key-expected)))
   ((not (gemini-companion-ui-seen-p))
    ;; When there is a frame, only the newest matters.
    (setcdr gemini-companion-ui--messages nil))
   (t
    ;; Emacspeak neither shows nor speaks what timers say.  This is what the user waits for.
    (let* ((inhibit-message (default-toplevel-value 'inhibit-message))
           (emacspeak-speak-messages (ignore-errors
                                       (default-toplevel-value 'emacspeak-speak-messages)))
           (present (current-message))
           (foreign (if (and present (equal present (car gemini-companion-ui--echoed)))
                        (cdr gemini-companion-ui--echoed)
                      present))
           (text (mapconcat #'cdr (reverse gemini-companion-ui--messages) "; ")))
      ;; It may be what the user's command has just answered: ours goes below it.
      (unless (and foreign (or (string-search "\n" foreign) (not resize-mini-windows)))
        (setq gemini-companion-ui--messages nil)
        (if (not foreign) (message "%s" text)
          ;; Log only ours in *Messages*.
          (let ((inhibit-message t)) (message "%s" text))
          (let ((message-log-max nil)) (message "%s\n%s" foreign text)))
        (setq gemini-companion-ui--echoed (cons (current-message) foreign))))))
  (gemini-companion-ui-adjust-timer gemini-companion-ui--messages
                                    0 (if (gemini-companion-ui-seen-p) 0.2 2)
                                    #'gemini-companion-ui--show-messages))

(defun gemini-companion-ui-drop-message (topic)
  "Do not show a pending message on TOPIC, which is out of date."
  (setf (alist-get topic gemini-companion-ui--messages nil t) nil))

(defvar server-after-make-frame-hook)

(defun gemini-companion-ui-ask (question)
  "Return the value of the function QUESTION, which asks the user.
Quit if `emacsclient' shows something meanwhile, as \"git commit\" may do: the
next keys are meant for that.  In a minibuffer, Emacs does so itself."
  (let* ((asking t)
         (leave (lambda ()
                  (when asking
                    ;; The question restores its windows.
                    (run-at-time 0 nil #'gemini-companion-ui--show-again
                                 (selected-window) (window-buffer))
                    (signal 'quit nil))))
         ;; Emacs calls this also if it makes no frame, before it shows a file.
         (server-after-make-frame-hook
          (cons (lambda () (run-at-time 0 nil leave))
                (bound-and-true-p server-after-make-frame-hook))))
    (unwind-protect (funcall question)
      (setq asking nil))))

(defun gemini-companion-ui--show-again (window buffer)
  "Show BUFFER in WINDOW, and select that, after a question has restored windows."
  (when (and (window-live-p window) (buffer-live-p buffer))
    (select-window window)
    (switch-to-buffer buffer)))

(defun gemini-companion-ui-y-or-n-p (question)
  "Ask QUESTION as `y-or-n-p' does, but in a dialog box only if it is short.
A dialog box, or a menu in a text terminal, shows it in one line, which
the edge of the screen cuts off."
  (let ((use-dialog-box (and use-dialog-box (length< question (frame-width)))))
    (y-or-n-p question)))

;;;; Evil

(defun gemini-companion-ui-keep-keys (mode)
  "Let Evil start in Emacs state, where its keys work, in the major mode MODE.
Call this before the hooks of MODE run, since Evil then chooses the state.
Users can choose another state in the hook of MODE."
  (when (boundp 'evil-emacs-state-modes)
    (add-to-list 'evil-emacs-state-modes mode)))

(defun gemini-companion-ui-start-in-insert-state (mode)
  "Let Evil start in insert state in MODE, unless the user has chosen another.
For when to call this see `gemini-companion-ui-keep-keys'."
  (when (and (boundp 'evil-insert-state-modes)
             (not (evil-initial-state mode)))
    (add-to-list 'evil-insert-state-modes mode)))

(defun gemini-companion-ui-pass-keys ()
  "Let Evil or Meow pass all keys to the terminal in the current buffer.
If the user, Evil Collection, Evil or Meow itself has chosen a state for it,
leave that alone."
  (when (and (eq (bound-and-true-p evil-state) 'normal)
             (not (evil-initial-state-for-buffer)))
    (evil-emacs-state))
  (when (and (eq (bound-and-true-p meow--current-state) 'normal)
             (not (assq major-mode (bound-and-true-p meow-mode-state-list))))
    (meow-insert-mode)))

;;;; Keys that work where the user is

(defvar-local gemini-companion-ui-local-keys nil
  "Alist of commands and the keys of this buffer that lead to them, as text.")
(put 'gemini-companion-ui-local-keys 'permanent-local t)

(defun gemini-companion-ui-selected-buffer (&optional displaying)
  "Return the buffer that gets the user's next key, other than a minibuffer.
DISPLAYING is non-nil while Emacs displays a mode line or a header line,
whose window it then takes for the selected one."
  (let* ((old (and displaying (old-selected-window)))
         (window (if (window-live-p old) old (selected-window))))
    (window-buffer (if (not (window-minibuffer-p window)) window
                     (or (minibuffer-selected-window) ; nil while Emacs displays
                         (get-mru-window 'visible t))))))

(defun gemini-companion-ui-key-of (command &optional buffer)
  "Return the key that calls COMMAND in BUFFER, as text, or nil.
BUFFER defaults to the one that gets the user's next key."
  (with-current-buffer (or buffer (gemini-companion-ui-selected-buffer))
    (if-let* ((key (where-is-internal command (current-active-maps 'transient) t)))
        (key-description key)
      (alist-get command gemini-companion-ui-local-keys))))

(defun gemini-companion-ui-key (command label)
  "Return the key that calls COMMAND where the user is, and LABEL."
  (format "%s %s" (or (gemini-companion-ui-key-of command) (format "M-x %s" command)) label))

;;;; Keys of modes

(defmacro gemini-companion-ui-bind (map &rest bindings)
  "Bind keys in MAP: BINDINGS are keys, or lists of them, and commands by turns.
The keys are as for `kbd', which in Emacs 28 would load a library at start."
  (declare (indent 1) (debug (form &rest [sexp form])))
  (macroexp-progn
   (cl-loop for (keys command) on bindings by #'cddr
            nconc (mapcar (lambda (key) `(define-key ,map ,(kbd key) ,command))
                          (ensure-list keys)))))

;;;; Keys in header lines

(defun gemini-companion-ui-header-key (command label &optional key)
  "Return the key of COMMAND and LABEL for a header line, as a button.
KEY is the text of the key, by default that in the current buffer."
  (let ((press (lambda (event)
                 (interactive "e")
                 (select-window (posn-window (event-start event)))
                 (call-interactively command))))
    (propertize (concat (or key (substitute-command-keys (format "\\[%s]" command))) " " label)
                'mouse-face 'header-line-highlight
                'help-echo (format "mouse-1: %s" label)
                ;; In Tabulated List mode text with a `mouse-face' gets mouse-2 for mouse-1.
                ;; `define-key' would empty the cache with which Emacs finds keys of commands.
                'keymap `(keymap (header-line keymap (mouse-1 . ,press) (mouse-2 . ,press))))))

;;;; Reports

(defface gemini-companion-heading
  '((t :inherit bold))
  "Face for headings in reports and lists."
  :group 'gemini-companion-review)

(define-derived-mode gemini-companion-report-mode special-mode "Gemini-Report"
  "Parent of the major modes of reports.
\\{gemini-companion-report-mode-map}"
  :interactive nil
  (setq-local truncate-lines nil
              word-wrap t
              ;; Between words, arrows at both ends of each line say nothing.
              fringe-indicator-alist '((continuation . (nil nil))))
  (buffer-disable-undo))

(set-keymap-parent gemini-companion-report-mode-map
                   (make-composed-keymap button-buffer-map special-mode-map))

(defun gemini-companion-ui-print (insert)
  "Replace the text of the current buffer by what the function INSERT inserts.
Point stays where it is, in each window, or on its button."
  (gemini-companion-ui-keep-subject
   'gemini-companion-subject
   (lambda ()
     (let ((inhibit-read-only t))
       (erase-buffer)
       (funcall insert)
       (set-buffer-modified-p nil)))))

(defun gemini-companion-ui-keep-subject (property function)
  "Call FUNCTION, which replaces the text of this buffer; keep point and mark.
PROPERTY of a button, or of a line of a list, is what it is about: point goes
where that is then.  If it is gone, point stays in its line, or in the last
one of a list, but does not move to another button."
  (gemini-companion-ui-keep-point
   (lambda (position)
     (save-excursion
       (goto-char position)
       (list (get-text-property position property) (line-number-at-pos) (current-column))))
   (pcase-lambda (`(,subject ,line ,column))
     (let ((start (and subject
                       (cl-loop for at = (point-min) then (next-single-property-change at property)
                                while at
                                if (equal subject (get-text-property at property)) return at))))
       (save-excursion
         (goto-char (or start (gemini-companion-ui-line-start line)))
         (cond ((and start (not (bolp)))) ; a button
               ((and subject (eobp) (get-text-property (1- (point)) property)) (forward-line -1))
               (t (move-to-column column)
                  (unless (or start (not (get-text-property (point) property)))
                    (forward-line 0))))
         (point))))
   function))

(defun gemini-companion-ui-keep-point (place position function)
  "Call FUNCTION, which replaces the text of this buffer; keep point and mark.
PLACE is a function that returns the place of a position in the text, and
POSITION one that returns the position of a place in the new text.  In each
window, keep point, and the line at the top unless that is the first one."
  (let ((point (funcall place (point)))
        (mark (and (mark t) (funcall place (mark t))))
        (windows (mapcar (lambda (window)
                           (list window
                                 (funcall place (window-point window))
                                 (and (< 1 (window-start window))
                                      (funcall place (window-start window)))))
                         (get-buffer-window-list nil nil t))))
    (funcall function)
    (pcase-dolist (`(,window ,place ,start) windows)
      (set-window-point window (funcall position place))
      (when start
        (set-window-start window (funcall position start) t)))
    (when mark
      (set-marker (mark-marker) (funcall position mark)))
    (goto-char (funcall position point))
    ;; Otherwise the current line would be highlighted again only after the next command.
    (cond ((bound-and-true-p hl-line-mode) (hl-line-highlight))
          ((bound-and-true-p global-hl-line-mode) (global-hl-line-highlight)))))

(defun gemini-companion-ui-button (label function subject)
  "Insert a button with LABEL that calls FUNCTION, then reverts this buffer.
When the text is replaced, a button with an `equal' SUBJECT counts as the
same."
  (let ((buffer (current-buffer)))
    (insert-text-button (format "[%s]" label)
                        'follow-link t
                        'gemini-companion-subject subject
                        'action (lambda (_)
                                  (unwind-protect (funcall function)
                                    (when (buffer-live-p buffer)
                                      (with-current-buffer buffer (revert-buffer))))))))

;;;; Buffers that are kept current

(defun gemini-companion-ui-keep-current (update hooks &optional seconds)
  "Call UPDATE in the current buffer when HOOKS are run; return what does so.
But do so only while the buffer is in a window.  Also do it every SECONDS, if
non-nil, unless a minibuffer is active: at its end, Emacs restores all windows
but the selected one, with point where it was in the text.  Stop when the buffer
is killed, or when `change-major-mode-hook' is run.  UPDATE signals no errors."
  (let* ((buffer (current-buffer))
         (update-there (lambda (&rest _)
                         (when (get-buffer-window buffer t)
                           (with-current-buffer buffer (funcall update)))))
         (timer (and seconds
                     (run-at-time seconds seconds
                                  (lambda ()
                                    (unless (active-minibuffer-window)
                                      (funcall update-there))))))
         (stop (lambda ()
                 (dolist (hook hooks) (remove-hook hook update-there))
                 (when timer (cancel-timer timer)))))
    (dolist (hook hooks) (add-hook hook update-there))
    (add-hook 'kill-buffer-hook stop nil t)
    (add-hook 'change-major-mode-hook stop nil t)
    update-there))

(provide 'gemini-companion-ui)
;;; gemini-companion-ui.el ends here

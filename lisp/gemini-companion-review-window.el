;;; gemini-companion-review-window.el --- The windows of a review -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows a review and takes it off the screen again, whatever is in its windows.  A kind of view is
;; a structure that includes `gemini-companion-review-window' and implements the generic functions
;; below.
;;
;; `display-buffer' chooses where, so users can change that with `display-buffer-alist'.  By
;; default a view is above the user's windows, which only shrink; if the frame is too small for
;; that, all but one are deleted, and restored at the end, unless the user has rearranged the frame.
;; What the user has opened, closed, selected or displayed meanwhile stays.

;;; Code:

(require 'cl-lib)
(require 'tab-bar)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)

(defconst gemini-companion-review-window--min-kept-height 6
  "Minimum height of the window in which the user goes on typing.")

(defconst gemini-companion-review-window--min-height 12
  "Minimum height of a view that leaves the windows of the user alone.")

;; A snapshot of a window is a list (WINDOW BUFFER POINT START HSCROLL).  POINT and START are each a
;; marker and the number of its line, a cons, since a client may write the file meanwhile.

(cl-defstruct (gemini-companion-review-window
               (:constructor nil)
               (:copier nil))
  "A review on screen.  Each kind of view includes this structure."
  (review nil :documentation "The review.")
  (main nil :documentation "The buffer that the user sees first.")
  (others nil :documentation "Other buffers that the user sees beside the proposal.")
  (frame nil :documentation "The frame on which it is shown.")
  (focus nil :documentation "`keep' or `select', as in `gemini-companion-diff-focus'.")
  (selected nil :documentation "The window that was selected before.")
  (layouts nil :documentation "Alist of the frames before, and their configurations.")
  (before nil :documentation "Snapshots of all windows before.")
  (beside nil :documentation "Alist of the user's windows once it was shown, and their edges.")
  (taken nil :documentation "A snapshot from `before' of a window that shows it now, or nil."))

(defvar gemini-companion-review-window-current nil
  "The view on screen, or nil.")

(defvar gemini-companion-review-window--count 0
  "How many views were shown; a later one may have buffers of the same names.")

(defvar gemini-companion-review-window-stopping nil
  "Function that takes a view that has ended off the screen, or nil.")

(defun gemini-companion-review-window-stop-now ()
  "Take a view that has ended, but is still there, off the screen."
  (when-let* ((stop gemini-companion-review-window-stopping))
    (setq gemini-companion-review-window-stopping nil)
    ;; Other functions of `after-revert-hook' follow.
    (gemini-companion-log-errors "windows" (save-current-buffer (funcall stop)))))

;;;; Kinds of views

(cl-defgeneric gemini-companion-review-window-start (view)
  "Make the buffers of VIEW, and show them in windows of its own.
Select the window in which the user decides.")

(cl-defgeneric gemini-companion-review-window-clean-up (view)
  "Remove what VIEW, which is off the screen, has added to the proposal.
VIEW may have been started only in part, and any buffer of it may be dead.")

(cl-defgeneric gemini-companion-review-window-stop (view)
  "Take VIEW, which is no longer the current one, off the screen.
First remove its windows, then kill its buffers but the proposal."
  (gemini-companion-review-window--remove-windows view)
  (gemini-companion-review-window-clean-up view)
  (dolist (buffer (remq (gemini-companion-review-window-proposal view) (buffer-list)))
    (when (eq (gemini-companion-review-window-review view)
              (buffer-local-value 'gemini-companion-review-of-buffer buffer))
      (gemini-companion-ui-kill-buffer buffer))))

(defun gemini-companion-review-window-buffers (view)
  "Return the buffers in which the user sees VIEW; some may be killed or nil."
  (cons (gemini-companion-review-window-main view)
        (cons (gemini-companion-review-window-proposal view)
              (gemini-companion-review-window-others view))))

(defun gemini-companion-review-window-proposal (view)
  "Return the buffer with the proposal of VIEW, or nil if it was killed."
  (let ((proposal (gemini-companion-review-proposal (gemini-companion-review-window-review view))))
    (and (buffer-live-p proposal) proposal)))

;;;; On the screen and off again

(defun gemini-companion-review-window-show (view focus)
  "Show VIEW.  Return a function that takes it off the screen.
FOCUS is `keep' or `select', see `gemini-companion-diff-focus'."
  (gemini-companion-review-window-stop-now)
  (let ((review (gemini-companion-review-window-review view))
        (selected (selected-window))
        (frame (and (frame-focus-state) (selected-frame))))
    ;; Now, so that it is called after an error or a quit, too.
    (setf (gemini-companion-review-hide-function review)
          (lambda () (gemini-companion-review-window--hide view))
          gemini-companion-review-window-current view)
    (cl-incf gemini-companion-review-window--count)
    (gemini-companion-review-window--record-windows view focus)
    (gemini-companion-ui-delay-gc
      (gemini-companion-review-window-start view)
      (when (and (eq focus 'keep) (window-live-p selected))
        (select-window selected))
      (when (and frame (gemini-companion-review-window--other-frame-p view frame))
        (select-frame-set-input-focus (selected-frame)))
      (setf (gemini-companion-review-front review) (gemini-companion-review-window-main view)
            (gemini-companion-review-intact-function review)
            (lambda ()
              ;; Without others, the user may see the proposal in place of the main buffer.
              (and (or (null (gemini-companion-review-window-others view))
                       (seq-every-p #'gemini-companion-ui-window-of
                                    (gemini-companion-review-window-buffers view)))
                   (not (gemini-companion-review-window--alone-p view))))
            (gemini-companion-review-window-beside view)
            (mapcar (lambda (it) (cons it (window-edges it)))
                    (gemini-companion-review-window--users-windows view)))
      (gemini-companion-review-window--watch view))
    (gemini-companion-review-hide-function review)))

(defun gemini-companion-review-window--other-frame-p (view frame)
  "Return non-nil if keys may go to another frame than the selected one.
FRAME had the input focus before VIEW was shown; a new frame has got it."
  (let ((shown (gemini-companion-review-window-frame view)))
    (if (eq (gemini-companion-review-window-focus view) 'keep)
        (not (assq shown (gemini-companion-review-window-layouts view)))
      (not (eq shown frame)))))

(defun gemini-companion-review-window--hide (view)
  "Take VIEW off the screen."
  (let ((review (gemini-companion-review-window-review view)))
    (setf (gemini-companion-review-front review) nil
          (gemini-companion-review-intact-function review) nil
          gemini-companion-review-window-current nil))
  (remove-hook 'delete-frame-functions #'gemini-companion-review-window--note-deleted-frame)
  (gemini-companion-review-window-stop view))

(defun gemini-companion-review-window--record-windows (view focus)
  "Record in VIEW the windows as they are before it is shown, and FOCUS."
  (let ((frame (last-nonminibuffer-frame)))
    ;; Not on a child frame, such as one of completions.
    (while (frame-parent frame)
      (setq frame (frame-parent frame)))
    ;; Nor on one that is made for a single buffer, as those of Speedbar and of Ediff's panel.
    (when-let* (((windowp (frame-parameter frame 'minibuffer))) ; it has none of its own
                ((window-dedicated-p (frame-selected-window frame)))
                (window (get-mru-window 'visible)))
      (setq frame (window-frame window)))
    (setf (gemini-companion-review-window-focus view) focus
          (gemini-companion-review-window-frame view) frame
          (gemini-companion-review-window-selected view) (selected-window)
          (gemini-companion-review-window-layouts view)
          (mapcar (lambda (it) (cons it (current-window-configuration it))) (frame-list)))
    (gemini-companion-review-window--record-new-windows view)))

(defun gemini-companion-review-window--record-new-windows (view)
  "Add to the snapshots in VIEW those of all windows that are not there."
  (dolist (window (window-list-1 nil 'no-minibuffer t))
    (unless (assq window (gemini-companion-review-window-before view))
      (push (gemini-companion-review-window--snapshot window)
            (gemini-companion-review-window-before view)))))

;;;; Dismissed by something else

(defun gemini-companion-review-window--watch (view)
  "Dismiss VIEW when one of its buffers or its frame goes away."
  (dolist (buffer (gemini-companion-review-window-buffers view))
    (with-current-buffer buffer
      (add-hook 'kill-buffer-hook #'gemini-companion-review-window--note-killed-buffer nil t)))
  (add-hook 'delete-frame-functions #'gemini-companion-review-window--note-deleted-frame))

(defun gemini-companion-review-window-dismiss-soon ()
  "Dismiss the view on screen, a part of which is being killed.
This is for hooks; it waits until they have run."
  (when-let* ((view gemini-companion-review-window-current))
    (run-at-time 0 nil
                 (lambda ()
                   ;; Timers wait for pending input, and a key may have shown the review again.
                   (when (eq view gemini-companion-review-window-current)
                     (gemini-companion-review-dismissed
                      (gemini-companion-review-window-review view)))))))

(defun gemini-companion-review-window--note-killed-buffer ()
  "Dismiss the view, if the current buffer, which is being killed, is its own.
An indirect clone of such a buffer has the same hooks, but does not count."
  (when-let* ((view gemini-companion-review-window-current)
              ((memq (current-buffer) (gemini-companion-review-window-buffers view))))
    ;; Now, since its windows will show other buffers when the rest goes.
    (save-current-buffer
      (gemini-companion-review-window--remove-windows view))
    (gemini-companion-review-window-dismiss-soon)))

(defun gemini-companion-review-window--note-deleted-frame (frame)
  "Dismiss the view if it is on FRAME, which is being deleted."
  (gemini-companion-log-errors "closing"
    (when (eq frame (gemini-companion-review-window-frame gemini-companion-review-window-current))
      (gemini-companion-review-window-dismiss-soon))))

(defun gemini-companion-review-window--in-tab-p (view tab)
  "Return non-nil if VIEW is in TAB, which is not the current tab."
  (let ((names (mapcar #'buffer-name (remq nil (gemini-companion-review-window-buffers view)))))
    ;; The saved window state has (buffer NAME ...) in each leaf.
    (cl-loop for (key name) on (flatten-tree (alist-get 'ws (cdr tab)))
             thereis (and (eq key 'buffer) (member name names)))))

;;;; Its own windows and the user's

(defun gemini-companion-review-window--snapshot (window)
  "Return a snapshot of WINDOW."
  (with-current-buffer (window-buffer window)
    (list window (current-buffer)
          (gemini-companion-review-window--place (window-point window))
          (gemini-companion-review-window--place (window-start window))
          (window-hscroll window))))

(defun gemini-companion-review-window--place (position)
  "Return POSITION in the current buffer as in a snapshot."
  (gemini-companion-ui-widened
    (cons (copy-marker position) (line-number-at-pos position))))

(defun gemini-companion-review-window--position (place)
  "Return the position of PLACE, of a snapshot, in the current buffer.
If all its text was replaced at once, only the line is still known."
  (pcase-let ((`(,marker . ,line) place))
    (if (and (= marker 1) (> line 1))
        (gemini-companion-ui-line-start line)
      (marker-position marker))))

(defun gemini-companion-review-window--scroll (window snapshot)
  "Scroll WINDOW, and move point there, as in SNAPSHOT, whose buffer it shows."
  (pcase-let ((`(,_ ,buffer ,point ,start ,hscroll) snapshot))
    (with-current-buffer buffer
      (set-window-point window (gemini-companion-review-window--position point))
      (set-window-start window (gemini-companion-review-window--position start) t)
      (set-window-hscroll window hscroll))))

(defun gemini-companion-review-window--own-p (view window)
  "Return non-nil if WINDOW exists only to show VIEW, and does.
Windows that the user has split from such a one count, too."
  (and (gemini-companion-review-window--shows-p view window)
       ;; A mark goes along when windows are swapped, or restored by packages for perspectives.
       (not (if-let* ((mark (window-parameter window 'gemini-companion-review))) (cadr mark)
              (assq window (gemini-companion-review-window-before view))))))

(defun gemini-companion-review-window--shows-p (view window)
  "Return non-nil if WINDOW shows a part of VIEW."
  (memq (window-buffer window) (gemini-companion-review-window-buffers view)))

(defun gemini-companion-review-window--own-windows (view)
  "Return the windows on the frame of VIEW that exist only to show it."
  (seq-filter (lambda (it) (gemini-companion-review-window--own-p view it))
              (window-list (gemini-companion-review-window-frame view) 'no-minibuffer)))

(defun gemini-companion-review-window--users-windows (view &optional main)
  "Return the user's windows on the frame of VIEW.
If MAIN is non-nil, omit side windows."
  (seq-remove (lambda (it)
                (or (gemini-companion-review-window--own-p view it)
                    (and main (window-parameter it 'window-side))))
              (window-list (gemini-companion-review-window-frame view) 'no-minibuffer)))

(defun gemini-companion-review-window--alone-p (view)
  "Return non-nil if only windows of VIEW are left where there were others."
  (and (gemini-companion-review-window--own-windows view)
       (null (gemini-companion-review-window--users-windows view))
       (gemini-companion-review-window-beside view)))

(defun gemini-companion-review-window-typing-p (view)
  "Return non-nil if the user should go on typing in the selected window.
The focus of VIEW decides, unless the user is in another program."
  (and (eq (gemini-companion-review-window-focus view) 'keep)
       (frame-focus-state)))

;;;; Windows for a view

(defun gemini-companion-review-window-display (view buffer &optional function)
  "Display BUFFER of VIEW, and return its window.
FUNCTION is an action function to try first.  Delete any other windows of
VIEW.  If the user has deleted all windows but these, bring them back."
  ;; Restoring windows, or deleting the selected one, changes the current buffer.
  (save-current-buffer
    (when (gemini-companion-review-window--alone-p view)
      (gemini-companion-review-window--restore view))
    (let ((own (gemini-companion-review-window--own-windows view)))
      (if (and own (null (gemini-companion-review-window--users-windows view 'main)))
          (gemini-companion-review-window-make
           (gemini-companion-review-window--delete-others (car own)) buffer)
        (gemini-companion-review-window--give-back view)
        (setf (gemini-companion-review-window-taken view) nil)
        (mapc #'gemini-companion-review-window--delete-window own)
        ;; The other windows are the user's.
        (gemini-companion-review-window--record-new-windows view)
        (gemini-companion-review-window--take
         view (gemini-companion-review-window--choose view buffer function))))))

(defun gemini-companion-review-window--choose (view buffer function)
  "Display BUFFER of VIEW with `display-buffer', and return its window.
FUNCTION is as in `gemini-companion-review-window-display'."
  (let* ((typing (gemini-companion-review-window-typing-p view))
         ;; What C-x 4 4 has set is for the user's next command.
         (display-buffer-overriding-action '(nil))
         (display (lambda ()
                    (display-buffer
                     buffer `((,@(and function (list function))
                               gemini-companion-review-window--display-above
                               gemini-companion-review-window--display-alone)
                              (inhibit-same-window . ,typing)
                              ;; Unless the user says so, it does not fit a short text.
                              (window-height)))))
         (window (funcall display)))
    (if (not (and typing (eq window (gemini-companion-review-window-selected view)))) window
      ;; A side window, of a CLI, to which all such buffers go.
      (gemini-companion-review-window--restore view)
      (let ((display-buffer-alist nil))
        (funcall display)))))

(defun gemini-companion-review-window--take (view window)
  "Make WINDOW, in which VIEW was just displayed, belong to it; return WINDOW.
At the end, give it back if it is one of the user's, and otherwise delete it."
  (setf (gemini-companion-review-window-frame view) (window-frame window))
  ;; It also shows other buffers of VIEW.  Emacs ends the soft dedication of side windows by itself.
  (when (eq t (window-dedicated-p window))
    (set-window-dedicated-p window nil))
  (let ((before (assq window (gemini-companion-review-window-before view))))
    (setf (gemini-companion-review-window-taken view) before)
    (gemini-companion-review-window--mark window (cadr before)))
  window)

(defun gemini-companion-review-window-make (window buffer)
  "Display BUFFER in WINDOW, which was made for a view; return WINDOW."
  (set-window-dedicated-p window nil)   ; it may have Ediff's control panel
  (set-window-buffer window buffer)
  (gemini-companion-review-window--mark window)
  window)

(defun gemini-companion-review-window--display-above (buffer _alist)
  "Display BUFFER above the windows of the user, for `display-buffer'.
Return nil if their frame is too small."
  (let* ((view gemini-companion-review-window-current)
         (main (window-main-window (gemini-companion-review-window-frame view)))
         (total (window-total-height main))
         (needed (window-min-size main))
         (share (if (and (eq (gemini-companion-review-window-focus view) 'keep)
                         (memq (gemini-companion-review-window-selected view)
                               (gemini-companion-review-window--users-windows view 'main)))
                    (max gemini-companion-review-window--min-kept-height (/ total 3))
                  0))
         (height (- total (max needed share))))
    (when (< height gemini-companion-review-window--min-height)
      (setq height (- total needed)))
    ;; Otherwise its windows would become siblings of side windows when the new one is deleted.
    (unless (window-live-p main)
      (set-window-combination-limit main t))
    (when-let* (((>= height gemini-companion-review-window--min-height))
                ;; Windows of a fixed size may prevent it.
                (window (ignore-errors (split-window main (- height) 'above))))
      (set-window-buffer window buffer)
      window)))

(defun gemini-companion-review-window--display-alone (buffer _alist)
  "Display BUFFER above one window of the user, for `display-buffer'.
Delete the others; if a side window is selected, delete that one window, too."
  (let* ((view gemini-companion-review-window-current)
         (windows (gemini-companion-review-window--users-windows view 'main))
         (selected (gemini-companion-review-window-selected view))
         (kept (gemini-companion-review-window--delete-others
                (or (car (memq selected windows)) (car windows))))
         (lines (window-total-height kept))
         (height (- lines (min gemini-companion-review-window--min-kept-height (/ lines 3))))
         (new (ignore-errors (split-window kept (- height) 'above))))
    (set-window-buffer (or new kept) buffer)
    (when (and new (window-parameter selected 'window-side))
      (gemini-companion-review-window--delete-others new))
    (or new kept)))

(defun gemini-companion-review-window--delete-others (window)
  "Delete all other windows but side windows on WINDOW's frame, and return WINDOW."
  ;; The main window may be one of several: Emacs merges that with what has the side windows.
  (cl-letf ((ignore-window-parameters t)
            ;; The others must take the room of those that are deleted, whatever users have set.
            ((symbol-function 'window-size-fixed-p)
             (lambda (window &rest _) (window-parameter window 'window-side))))
    (dolist (other (window-list (window-frame window) 'no-minibuffer window))
      (unless (or (eq other window) (window-parameter other 'window-side))
        (delete-window other))))
  window)

(defun gemini-companion-review-window-split (window buffers turned)
  "Show BUFFERS of a view in equal parts of WINDOW, and return these in order.
WINDOW shows the first.  They are side by side if each is then at least 70
columns wide, else one above the other; if TURNED, it is the other way around."
  (let* ((side (xor turned (>= (window-total-width window) (* 70 (length buffers)))))
         (window-combination-resize t)
         (windows (list window)))
    (cl-loop for buffer in (cdr buffers)
             for parts downfrom (length buffers)
             for last = (car windows)
             for size = (if side (window-total-width last) (window-total-height last))
             do (push (gemini-companion-review-window-make
                       (split-window last (/ size parts) (if side 'right 'below)) buffer)
                      windows))
    (nreverse windows)))

(defun gemini-companion-review-window-go-into-line (position)
  "If POSITION is far into a long line, go and scroll there in the selected window."
  (when (< (window-body-width)
           (- position (save-excursion (goto-char position) (line-beginning-position))))
    (goto-char position)
    (unless (pos-visible-in-window-p) (recenter))))

(defun gemini-companion-review-window-count-lines (start end)
  "Return how many lines of the selected window the text from START to END takes.
Of a long text, this is about the beginning: counting all would take long."
  (count-screen-lines start (min end (+ start 10000))))

;;;; Giving a window back

(defun gemini-companion-review-window--give-back (view)
  "Make the window that VIEW has taken over, if any, show what it showed before.
If the user has moved VIEW to another window, give that back; if the user
has displayed something else, leave it alone."
  (pcase-let* (((and before `(,taken ,buffer . ,_)) (gemini-companion-review-window-taken view))
               (windows (seq-filter
                         (lambda (it) (gemini-companion-review-window--shows-p view it))
                         (and taken (gemini-companion-review-window--users-windows view))))
               (window (car (or (memq taken windows) windows))))
    (when (window-live-p taken)
      (set-window-parameter taken 'gemini-companion-review nil))
    (when window
      (set-window-dedicated-p window nil)) ; the user may have dedicated it to VIEW
    (cond ((null window))
          ((not (buffer-live-p buffer)) (switch-to-prev-buffer window 'bury))
          (t (set-window-buffer window buffer)
             (gemini-companion-review-window--scroll window before)))))

;;;; Windows that come back

;; Registers and packages for perspectives keep windows, and restore them after a view in these has
;; ended.  A parameter of a window says what is to be done then.  One of an earlier session says
;; nothing: Desktop restores it if Emacs died with a change on screen, and the user goes on there.

(add-to-list 'window-persistent-parameters '(gemini-companion-review . writable))

(defun gemini-companion-review-window--mark (window &optional before)
  "Mark WINDOW, which shows a view, as one that has shown the buffer BEFORE.
If BEFORE is nil, the window was made for the view."
  (add-hook 'window-configuration-change-hook #'gemini-companion-review-window--tidy)
  (set-window-parameter window 'gemini-companion-review
                        (list (buffer-name (window-buffer window))
                              (and before (buffer-name before))
                              before-init-time gemini-companion-review-window--count)))

(defun gemini-companion-review-window--tidy ()
  "Delete or give back windows of the selected frame that came back without a view."
  (gemini-companion-log-errors "windows"
    (dolist (window (window-list nil 'no-minibuffer))
      (pcase (window-parameter window 'gemini-companion-review)
        ((and `(,name ,before ,(pred (equal before-init-time)) ,count)
              (guard (not (equal name (buffer-name (window-buffer window))))))
         (set-window-parameter window 'gemini-companion-review nil)
         (cond ((and (get-buffer name)  ; the user has displayed something else
                     (eql count gemini-companion-review-window--count)))
               ((and before (get-buffer before)) (set-window-buffer window before))
               ((eq (window-deletable-p window) t) (delete-window window))))))))

(defun gemini-companion-review-window--stop-tidying ()
  "From now on, leave windows alone that come back."
  (remove-hook 'window-configuration-change-hook #'gemini-companion-review-window--tidy))
(add-hook 'gemini-companion-mode-off-hook #'gemini-companion-review-window--stop-tidying)

;;;; Deleting the windows of a view

(defun gemini-companion-review-window--remove-windows (view)
  "Remove the windows of VIEW from its frame, in all tabs."
  (let ((window (selected-window))
        (point (window-point))
        (buffer (current-buffer)))
    (gemini-companion-log-errors "windows"
      (gemini-companion-review-window--remove-from-frame view)
      (gemini-companion-review-window--remove-from-tabs view))
    ;; To restore windows of another frame moves point in the selected window.
    (when (and (window-live-p window)
               (not (eq (window-frame window) (gemini-companion-review-window-frame view))))
      (set-window-point window point)
      (set-buffer buffer))))

(defun gemini-companion-review-window--remove-from-frame (view &optional tab)
  "Remove the windows of VIEW from its frame, or from TAB, which that now shows."
  (when (frame-live-p (gemini-companion-review-window-frame view))
    (gemini-companion-review-window-select-other view)
    (gemini-companion-review-window--give-back view)
    (gemini-companion-review-window--delete-windows view tab)))

(defun gemini-companion-review-window--remove-from-tabs (view)
  "Remove the windows of VIEW from the tabs of its frame that are not current."
  (let ((frame (gemini-companion-review-window-frame view)))
    (dolist (tab (and (frame-live-p frame) (frame-parameter frame 'tabs)))
      (let ((configuration (alist-get 'wc (cdr tab))))
        (when (and (gemini-companion-review-window--in-tab-p view tab)
                   (window-configuration-p configuration)
                   (eq (window-configuration-frame configuration) frame))
          (let ((here (gemini-companion-review-window--configuration frame)))
            (save-current-buffer
              (unwind-protect
                  (gemini-companion-review-window--remove-from-tab view tab)
                (set-window-configuration here t t)))))))))

(defun gemini-companion-review-window--remove-from-tab (view tab)
  "Remove the windows of VIEW from TAB, which its frame shows from now on."
  (let ((frame (gemini-companion-review-window-frame view))
        (point (alist-get 'wc-point (cdr tab))))
    (set-window-configuration (alist-get 'wc (cdr tab)) t t)
    ;; Emacs keeps the point of the buffer that was current apart.
    (when (eq (marker-buffer point) (window-buffer (frame-selected-window frame)))
      (set-window-point (frame-selected-window frame) point))
    (when (seq-some (lambda (it) (window-parameter it 'gemini-companion-review))
                    (window-list frame 'no-minibuffer))
      (gemini-companion-review-window--remove-from-frame view tab)
      (let ((selected (frame-selected-window frame)))
        (setf (alist-get 'wc (cdr tab)) (gemini-companion-review-window--configuration frame)
              (alist-get 'ws (cdr tab)) (window-state-get (frame-root-window frame) 'writable)
              (alist-get 'wc-point (cdr tab)) (set-marker (make-marker) (window-point selected)
                                                          (window-buffer selected)))))))

(defun gemini-companion-review-window--configuration (frame)
  "Return the window configuration of FRAME, with point in all windows.
Restoring a configuration leaves alone point in the buffer that was current."
  (with-temp-buffer
    (current-window-configuration frame)))

(defun gemini-companion-review-window--delete-windows (view tab)
  "Delete the windows of VIEW, or its frame or tab, and restore the user's.
TAB is the one that VIEW is in, or nil if that is the current one."
  (let* ((frame (gemini-companion-review-window-frame view))
         (known (assq frame (gemini-companion-review-window-layouts view)))
         (own (gemini-companion-review-window--own-windows view))
         (now (mapcar #'gemini-companion-review-window--snapshot
                      (gemini-companion-review-window--users-windows view)))
         (tabs (frame-parameter frame 'tabs)))
    (cond ((not (or now known (cdr tabs))) (delete-frame frame))
          ((and (null now)
                (seq-some (lambda (it) (eq (car (window-parameter it 'quit-restore)) 'tab)) own))
           (with-selected-frame frame
             (tab-bar-close-tab (and tab (1+ (seq-position tabs tab #'eq))))))
          ((and known (or (gemini-companion-review-window--nothing-new-p view now)
                          (gemini-companion-review-window--untouched-p view now)))
           (gemini-companion-review-window--restore view))
          (t (mapc #'gemini-companion-review-window--delete-window own)))
    (gemini-companion-review-window--scroll-back view now)))

(defun gemini-companion-review-window-select-other (view)
  "If a window of VIEW is selected on its frame, select the earlier one again."
  (let* ((frame (gemini-companion-review-window-frame view))
         (before (gemini-companion-review-window-selected view))
         (selected (and (frame-live-p frame) (frame-selected-window frame))))
    (when (and (window-live-p before)
               (eq (window-frame before) frame)
               ;; A prompt that was open then may be closed.
               (or (not (window-minibuffer-p before)) (eq before (active-minibuffer-window)))
               (or (gemini-companion-review-window--own-p view selected)
                   (and (eq selected (car (gemini-companion-review-window-taken view)))
                        (gemini-companion-review-window--shows-p view selected))))
      (set-frame-selected-window frame before))))

(defun gemini-companion-review-window--nothing-new-p (view now)
  "Return non-nil if only side windows are left beside VIEW, with known buffers.
NOW are snapshots of them.  The user may have opened one, such as the CLI's."
  (and (null (gemini-companion-review-window--users-windows view 'main))
       (cl-loop with known = (mapcar #'cadr (gemini-companion-review-window-before view))
                for (_ buffer) in now always (memq buffer known))))

(defun gemini-companion-review-window--untouched-p (view now)
  "Return non-nil if the user has not rearranged the frame of VIEW.
NOW are snapshots of the user's windows."
  (let* ((beside (gemini-companion-review-window-beside view))
         (present (mapcar (lambda (it) (cons (car it) (window-edges (car it)))) now))
         (end (lambda (edge windows)
                (apply #'max 0 (mapcar (lambda (it) (nth edge (cdr it))) windows))))
         ;; A long message in the echo area takes lines of all windows, then or now; and the frame
         ;; may have another size.
         (most (cl-loop for edge in '(2 3)
                        maximize (abs (- (funcall end edge beside) (funcall end edge present))))))
    (and beside
         (= (length beside) (length now))
         (cl-loop for (window buffer) in now
                  for edges-then = (alist-get window beside)
                  always (and edges-then
                              (eq buffer
                                  (cadr (assq window (gemini-companion-review-window-before view))))
                              (cl-every (lambda (a b) (<= (abs (- a b)) (max 1 most)))
                                        (alist-get window present) edges-then))))))

(defun gemini-companion-review-window--delete-window (window)
  "Delete WINDOW, or make it show another buffer if it is the only one."
  (let ((ignore-window-parameters t))
    (if (eq window (window-main-window (window-frame window)))
        (progn (set-window-parameter window 'gemini-companion-review nil)
               (switch-to-prev-buffer window))
      (delete-window window))))

(defun gemini-companion-review-window--restore (view)
  "Restore the window configuration from before VIEW; keep the window selected.
If that is gone, select another one that shows the same buffer.  If VIEW took
it over and deleted the one that was selected, that comes back, selected."
  (let* ((frame (gemini-companion-review-window-frame view))
         (selected (frame-selected-window frame))
         (buffer (window-buffer selected))
         (before (gemini-companion-review-window-selected view))
         (lost (and (eq selected (car (gemini-companion-review-window-taken view)))
                    (not (window-live-p before)))))
    ;; This must neither select the frame nor change the minibuffer.
    (set-window-configuration
     (alist-get frame (gemini-companion-review-window-layouts view)) t t)
    (when-let* ((window (cond ((and lost (window-live-p before)) before)
                              ((window-live-p selected) selected)
                              ((get-buffer-window buffer frame)))))
      (set-frame-selected-window frame window))))

(defun gemini-companion-review-window--scroll-back (view now)
  "Scroll each window of the user as before VIEW, or as in NOW if point has moved.
NOW are snapshots."
  (pcase-dolist ((and snapshot `(,window ,buffer ,point . ,_)) now)
    (when (and (window-live-p window) (eq (window-buffer window) buffer))
      (gemini-companion-review-window--scroll
       window
       (pcase (assq window (gemini-companion-review-window-before view))
         ((and before `(,_ ,(pred (eq buffer)) (,(pred (= (car point))) . ,line) . ,_)
               ;; All the text may have been replaced, as by `recompile'.
               (guard (or (> (car point) 1) (= line 1))))
          before)
         (_ snapshot))))))

(provide 'gemini-companion-review-window)
;;; gemini-companion-review-window.el ends here

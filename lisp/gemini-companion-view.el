;;; gemini-companion-view.el --- The windows of a review -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; How a review is shown and taken off the screen again, whatever is in its windows.  A kind of
;; view is a structure that includes `gemini-companion-view' and implements the generic functions
;; below.  The simplest kind, for new files, is at the end of this file.
;;
;; Windows belong to the user.  A view makes its own windows above those of the user, which only
;; shrink, and at the end deletes its own if they still show it.  A window in which the user has
;; displayed something else stays, and so does what the user has opened, closed or selected.
;;
;; If the frame is too small for that, the other windows of the user are deleted.  They are
;; restored at the end, unless the user has rearranged the frame in the meantime.
;;
;; A view may also take a window of the user over, and give it back at the end with what it showed.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'gemini-companion-review-commands)
(require 'gemini-companion-log)
(require 'gemini-companion-proposal)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)

(defconst gemini-companion-view--min-width 70
  "Minimum width of windows that are side by side.")

(defconst gemini-companion-view--min-kept-height 6
  "Minimum height of the window in which the user goes on typing.")

(defconst gemini-companion-view--min-height 12
  "Minimum height of a view that leaves the windows of the user alone.")

(cl-defstruct (gemini-companion-view
               (:constructor nil)
               (:copier nil))
  "A review on screen.  Each kind of view includes this structure."
  (review nil :documentation "The review.")
  (frame nil :documentation "The frame on which it is shown.")
  (focus nil :documentation "`keep' or `select', as in `gemini-companion-diff-focus'.")
  (selected nil :documentation "The window that was selected before.")
  (configuration nil :documentation "The window configuration before.")
  (before nil :documentation "Snapshots of the user's windows before.")
  (beside nil :documentation "Snapshots of the user's windows once it was shown.")
  (windows nil :documentation "The windows made for it, including deleted ones.")
  (taken nil :documentation "A `gemini-companion-view--taken' for each window taken over.")
  (emptied nil :documentation "Windows whose buffer, one of the view, was killed."))

(cl-defstruct (gemini-companion-view--snapshot
               (:constructor gemini-companion-view--snapshot
                             (window &aux
                                     (buffer (window-buffer window))
                                     (point (window-point window))
                                     (start (window-start window))
                                     (hscroll (window-hscroll window))
                                     (edges (window-edges window)))
                             "Return a snapshot of WINDOW.")
               (:copier nil))
  "A window, and what it shows at a moment."
  window buffer point start hscroll edges)

(cl-defstruct (gemini-companion-view--taken (:copier nil))
  "A window that was taken over, and what it showed."
  window buffer
  (start nil :documentation "A `gemini-companion-view--place'.")
  (point nil :documentation "A `gemini-companion-view--place'.")
  hscroll)

(defvar gemini-companion-view--current nil
  "The view on screen, or nil.")

(defvar gemini-companion-view-leaving nil
  "Function that takes a view that has ended off the screen, or nil.")

(defun gemini-companion-view-leave-now ()
  "Take a view that has ended, but is still there, off the screen."
  (when-let* ((leave gemini-companion-view-leaving))
    (setq gemini-companion-view-leaving nil)
    (gemini-companion-log-errors "windows" (funcall leave))))

;;;; Kinds of views

(cl-defgeneric gemini-companion-view-start (view)
  "Make the buffers of VIEW, and show them in windows of its own.
Leave the window selected in which the user decides.")

(cl-defgeneric gemini-companion-view-buffers (view)
  "Return the buffers in which the user sees VIEW, the main one first.
Some may be killed or nil.")

(cl-defgeneric gemini-companion-view-clean-up (view)
  "Kill the buffers of VIEW, which is off the screen, but not the proposal.
Remove what was added to that.  VIEW may have been started only in part,
and any buffer of it may have been killed.")

(cl-defgeneric gemini-companion-view-parts (view)
  "Return those buffers of VIEW that are always in a window."
  (list (car (gemini-companion-view-buffers view))))

(cl-defgeneric gemini-companion-view-update-keys (_view)
  "Show the keys of VIEW as they work in the selected window.
Header lines need nothing else."
  nil)

(cl-defgeneric gemini-companion-view-suitable-frame (_view)
  "Return the frame on which VIEW should be shown.
By default, the selected frame, or the frame of which it is a child."
  (let ((frame (selected-frame)))
    (while (frame-parent frame)
      (setq frame (frame-parent frame)))
    frame))

(cl-defgeneric gemini-companion-view-leave (view)
  "Take VIEW, which is not the current one any more, off the screen.
First its windows, then its buffers."
  (gemini-companion-log-errors "windows"
    (gemini-companion-view--expect-absent view)
    (gemini-companion-view-select-other view)
    (mapc (lambda (taken) (gemini-companion-view--give-back view taken))
          (gemini-companion-view-taken view))
    (when (frame-live-p (gemini-companion-view-frame view))
      (gemini-companion-view--delete-windows view)))
  (gemini-companion-view-clean-up view))

(defun gemini-companion-view-proposal (view)
  "Return the buffer with the proposal of VIEW, or nil if it was killed."
  (let ((proposal (gemini-companion-review-proposal (gemini-companion-view-review view))))
    (and (buffer-live-p proposal) proposal)))

;;;; On the screen and off again

(defun gemini-companion-view-show (view focus)
  "Show VIEW.  Return a function that takes it off the screen.
FOCUS is `keep' or `select', see `gemini-companion-diff-focus'."
  (gemini-companion-view-leave-now)
  (gemini-companion-view--record-windows view focus)
  (condition-case error
      (gemini-companion-ui-delay-gc
        (gemini-companion-view-start view)
        (gemini-companion-view--select view)
        (setf (gemini-companion-review-front (gemini-companion-view-review view))
              (car (gemini-companion-view-buffers view))
              (gemini-companion-review-intact-function (gemini-companion-view-review view))
              (lambda () (gemini-companion-view--intact-p view))
              (gemini-companion-view-beside view)
              (gemini-companion-view--snapshots view))
        (gemini-companion-view--watch view)
        (gemini-companion-view--note-selection))
    ((error quit)
     (gemini-companion-view--hide view)
     (signal (car error) (cdr error))))
  (lambda () (gemini-companion-view--hide view)))

(defun gemini-companion-view--intact-p (view)
  "Return non-nil if all parts of VIEW are visible, and the user's windows, too."
  (and (seq-every-p #'gemini-companion-ui-window-of (gemini-companion-view-parts view))
       (not (gemini-companion-view--alone-p view))))

(defun gemini-companion-view--hide (view)
  "Take VIEW off the screen."
  (setf (gemini-companion-review-front (gemini-companion-view-review view)) nil
        (gemini-companion-review-intact-function (gemini-companion-view-review view)) nil)
  (gemini-companion-view--unwatch view)
  (gemini-companion-view-leave view))

(defun gemini-companion-view--record-windows (view focus)
  "Record in VIEW the windows as they are before it is shown, and FOCUS."
  (setf (gemini-companion-view-focus view) focus)
  (let ((frame (gemini-companion-view-suitable-frame view)))
    (setf (gemini-companion-view-frame view) frame
          (gemini-companion-view-selected view) (selected-window)
          (gemini-companion-view-configuration view) (current-window-configuration frame)
          (gemini-companion-view-before view)
          (mapcar #'gemini-companion-view--snapshot (window-list frame 'no-minibuffer)))))

(defun gemini-companion-view--select (view)
  "Select the window from before VIEW again, if its focus is `keep'."
  (when (and (eq (gemini-companion-view-focus view) 'keep)
             (window-live-p (gemini-companion-view-selected view)))
    (select-window (gemini-companion-view-selected view))))

;;;; Removed by something else

(defun gemini-companion-view--watch (view)
  "Have VIEW taken down when one of its buffers, its frame or its tab is killed."
  (setq gemini-companion-view--current view)
  (dolist (buffer (gemini-companion-view-buffers view))
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (add-hook 'kill-buffer-hook #'gemini-companion-view--note-killed-buffer nil t))))
  (add-hook 'window-selection-change-functions #'gemini-companion-view--note-selection)
  (add-hook 'delete-frame-functions #'gemini-companion-view--note-deleted-frame)
  (add-hook 'tab-bar-tab-pre-close-functions #'gemini-companion-view--note-closed-tab))

(defun gemini-companion-view--unwatch (view)
  "Undo `gemini-companion-view--watch' for VIEW."
  (setq gemini-companion-view--current nil)
  (dolist (buffer (gemini-companion-view-buffers view))
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (remove-hook 'kill-buffer-hook #'gemini-companion-view--note-killed-buffer t))))
  (remove-hook 'window-selection-change-functions #'gemini-companion-view--note-selection)
  (remove-hook 'delete-frame-functions #'gemini-companion-view--note-deleted-frame)
  (remove-hook 'tab-bar-tab-pre-close-functions #'gemini-companion-view--note-closed-tab))

(defun gemini-companion-view--note-selection (&rest _)
  "Have the view show the keys that work in the window that is now selected."
  (gemini-companion-log-errors "keys"
    (when gemini-companion-view--current
      (gemini-companion-ui-note-selection)
      (gemini-companion-view-update-keys gemini-companion-view--current)
      (force-mode-line-update t))))

(defun gemini-companion-view-take-down-soon ()
  "Have the view on screen taken down, a part of which is being killed.
This is for hooks.  The rest is taken down when they have run."
  (when-let* ((view gemini-companion-view--current))
    (run-at-time 0 nil
                 (lambda ()
                   ;; While keys wait no timer runs, and one may have shown the review anew.
                   (when (eq view gemini-companion-view--current)
                     (gemini-companion-review-taken-down (gemini-companion-view-review view)))))))

(defun gemini-companion-view--note-killed-buffer ()
  "Have the view taken down, the current buffer of which is being killed.
An indirect clone of that, with the same hooks, does not count."
  (when-let* ((view gemini-companion-view--current)
              ((memq (current-buffer) (gemini-companion-view-buffers view))))
    ;; When the rest is taken down, Emacs has put other buffers there.
    (cl-callf2 append (append (get-buffer-window-list nil 'no-minibuffer t)
                              (and (gemini-companion-view--tab-of view)
                                   (mapcar #'gemini-companion-view--taken-window
                                           (gemini-companion-view-taken view))))
               (gemini-companion-view-emptied view))
    (gemini-companion-view-take-down-soon)))

(defun gemini-companion-view--note-deleted-frame (frame)
  "Have the view taken down if it is on FRAME, which is being deleted."
  (gemini-companion-log-errors "closing"
    (when (eq frame (gemini-companion-view-frame gemini-companion-view--current))
      (gemini-companion-view-take-down-soon))))

(defun gemini-companion-view--note-closed-tab (tab &rest _)
  "Have the view taken down if it is in TAB, which is being closed."
  (gemini-companion-log-errors "closing"
    (when (if (eq (car tab) 'current-tab)
              (seq-some #'get-buffer-window
                        (seq-filter #'buffer-live-p
                                    (gemini-companion-view-buffers gemini-companion-view--current)))
            (gemini-companion-view--in-tab-p gemini-companion-view--current tab))
      (gemini-companion-view-take-down-soon))))

(defun gemini-companion-view--in-tab-p (view tab)
  "Return non-nil if VIEW is in TAB, which is not the current tab."
  (seq-intersection (gemini-companion-view--tab-buffers tab)
                    (gemini-companion-view-buffers view) #'eq))

(defun gemini-companion-view--tab-buffers (tab)
  "Return the buffers in the windows of TAB, which is not the current tab."
  ;; The saved window state has (buffer NAME ...) in each leaf.
  (cl-loop for (key name) on (flatten-tree (alist-get 'ws tab))
           if (and (eq key 'buffer) (stringp name) (get-buffer name)) collect it))

;;;; Its own windows and the user's

(defun gemini-companion-view--own-windows (view)
  "Return the windows on the frame of VIEW that exist only to show it.
Those include windows that the user has split from them, but none in
which the user has displayed something else."
  (let ((buffers (gemini-companion-view-buffers view)))
    (cl-loop for window in (window-list (gemini-companion-view-frame view) 'no-minibuffer)
             if (and (or (memq (window-buffer window) buffers)
                         (memq window (gemini-companion-view-emptied view)))
                     (not (gemini-companion-view--find
                           window (gemini-companion-view-before view))))
             collect window)))

(defun gemini-companion-view--users-windows (view &optional main)
  "Return the user's windows on the frame of VIEW.
If MAIN is non-nil, omit side windows."
  (cl-loop with own = (gemini-companion-view--own-windows view)
           for window in (window-list (gemini-companion-view-frame view) 'no-minibuffer)
           unless (or (memq window own)
                      (and main (window-parameter window 'window-side)))
           collect window))

(defun gemini-companion-view--snapshots (view)
  "Return snapshots of the user's windows on the frame of VIEW."
  (mapcar #'gemini-companion-view--snapshot (gemini-companion-view--users-windows view)))

(defun gemini-companion-view--find (window snapshots)
  "Return the snapshot of WINDOW in the list SNAPSHOTS, or nil."
  (seq-find (lambda (it) (eq (gemini-companion-view--snapshot-window it) window)) snapshots))

;;;; Windows for a view

(defun gemini-companion-view-make-window (view)
  "Return a new window for VIEW, above the user's in the main part of its frame.
Delete the windows that VIEW has already.  If the user has deleted all
others, to see more of one of these, bring them back."
  ;; Restoring windows, or deleting the selected one, changes the current buffer.
  (save-current-buffer
    (when (gemini-companion-view--alone-p view)
      (gemini-companion-view--restore view nil))
    (let ((main (window-main-window (gemini-companion-view-frame view)))
          (own (gemini-companion-view--own-windows view)))
      (if (and own (null (gemini-companion-view--users-windows view 'main)))
          (gemini-companion-view--empty (gemini-companion-view--delete-others (car own) main))
        (mapc #'gemini-companion-view--delete-window own)
        (gemini-companion-view--own view (or (gemini-companion-view--split-above view)
                                             (gemini-companion-view--replace-windows view)))))))

(defun gemini-companion-view--alone-p (view)
  "Return non-nil if only windows of VIEW are left where there were others."
  (and (gemini-companion-view--own-windows view)
       (null (gemini-companion-view--users-windows view))
       (gemini-companion-view-beside view)))

(defun gemini-companion-view--empty (window)
  "Let WINDOW, made for a view, show any buffer, and return WINDOW."
  (set-window-dedicated-p window nil)
  (set-window-parameter window 'mode-line-format nil)
  window)

(defun gemini-companion-view--split-above (view)
  "Return a new window above the main window of the frame of VIEW.
Return nil if that is too small."
  (let* ((main (window-main-window (gemini-companion-view-frame view)))
         (total (window-total-height main))
         (needed (window-min-size main))
         (share (if (gemini-companion-view--typing-in-main-p view)
                    (max gemini-companion-view--min-kept-height (/ total 3))
                  0))
         (height (- total (max needed share))))
    (when (< height gemini-companion-view--min-height)
      (setq height (- total needed)))
    (and (>= height gemini-companion-view--min-height)
         ;; Windows of a fixed size may prevent it.
         (ignore-errors (split-window main (- height) 'above)))))

(defun gemini-companion-view--typing-in-main-p (view)
  "Return non-nil if the user goes on typing in the main part of VIEW's frame."
  (and (eq (gemini-companion-view-focus view) 'keep)
       (memq (gemini-companion-view-selected view)
             (gemini-companion-view--users-windows view 'main))))

(defun gemini-companion-view--replace-windows (view)
  "Delete the user's windows in the main part of VIEW's frame, except one.
Return a new window above that, or that one if it is too small.  If the user
goes on typing in a side window, delete all others."
  (let* ((windows (gemini-companion-view--users-windows view 'main))
         (selected (gemini-companion-view-selected view))
         (main (window-main-window (gemini-companion-view-frame view)))
         (kept (gemini-companion-view--delete-others
                (or (car (memq selected windows)) (car windows)) main))
         (lines (window-total-height kept))
         (height (- lines (min gemini-companion-view--min-kept-height (/ lines 3))))
         (new (ignore-errors (split-window kept (- height) 'above))))
    (cond ((null new) kept)
          ((window-parameter selected 'window-side)
           (gemini-companion-view--delete-others
            new (window-main-window (gemini-companion-view-frame view))))
          (t new))))

(defun gemini-companion-view--delete-others (window main)
  "Delete all other windows below MAIN in the window tree, and return WINDOW."
  ;; `delete-other-windows' deletes side windows, too.
  (unless (eq window main)
    (delete-other-windows-internal window main))
  window)

(defun gemini-companion-view--own (view window)
  "Record that WINDOW was made for VIEW, and return WINDOW."
  (push window (gemini-companion-view-windows view))
  window)

(defun gemini-companion-view-split-off (view window size side)
  "Split a window of SIZE from WINDOW at SIDE for VIEW, and return it."
  (gemini-companion-view--own view (split-window window (- size) side)))

(defun gemini-companion-view-split (view window count &optional turned)
  "Split WINDOW into COUNT windows of equal size for VIEW; return them in order.
They are side by side if each is then wide enough, and otherwise above each
other; if TURNED is non-nil it is the other way around."
  (let* ((wide (>= (window-total-width window)
                   (* count gemini-companion-view--min-width)))
         (side (if turned (not wide) wide))
         (window-combination-resize t)
         (last window)
         (windows (list window)))
    (dotimes (done (1- count))
      (let* ((size (if side (window-total-width last) (window-total-height last)))
             (share (/ size (- count done))))
        (setq last (gemini-companion-view--own
                    view (split-window last share (if side 'right 'below))))
        (push last windows)))
    (nreverse windows)))

(defun gemini-companion-view-omit-mode-lines (view windows)
  "Omit the mode lines of WINDOWS if they are above each other.
Their header lines say what they show.  Change only windows of VIEW."
  (unless (apply #'= (mapcar #'window-top-line windows))
    (dolist (window windows)
      (when (memq window (gemini-companion-view-windows view))
        (set-window-parameter window 'mode-line-format 'none)))))

;;;; Windows that are taken over

(defun gemini-companion-view-take (view window)
  "Note that WINDOW now shows VIEW.
If it is one of the user's, it is given back at the end; return a list of
the buffer that it showed, its start and its point, both conses of a marker
and a line.  Otherwise it is deleted; return nil."
  (if-let* ((was (gemini-companion-view--find window (gemini-companion-view-before view))))
      (with-current-buffer (gemini-companion-view--snapshot-buffer was)
        (let ((start (gemini-companion-view--place (gemini-companion-view--snapshot-start was)))
              (point (gemini-companion-view--place (gemini-companion-view--snapshot-point was))))
          (push (make-gemini-companion-view--taken
                 :window window :buffer (current-buffer) :start start :point point
                 :hscroll (gemini-companion-view--snapshot-hscroll was))
                (gemini-companion-view-taken view))
          (list (current-buffer) start point)))
    (unless (memq window (gemini-companion-view-windows view))
      (gemini-companion-view--own view window))
    nil))

(defun gemini-companion-view--place (position)
  "Return a cons of a marker at POSITION and the number of the line there."
  (save-restriction
    (widen)
    (cons (copy-marker position) (line-number-at-pos position))))

(defun gemini-companion-view--position (place)
  "Return the position of PLACE in the current buffer.
If all of its text was replaced at once, only the line is still known."
  (pcase-let ((`(,marker . ,line) place))
    (if (and (= marker 1) (> line 1))
        (gemini-companion-ui-line-start line)
      (marker-position marker))))

(defun gemini-companion-view--give-back (view taken)
  "Have the window of TAKEN show what it showed before VIEW.
But not if the user has displayed something else there."
  (let ((window (gemini-companion-view--taken-window taken)))
    (when (and (window-live-p window)
               (or (memq (window-buffer window) (gemini-companion-view-buffers view))
                   (memq window (gemini-companion-view-emptied view))))
      (gemini-companion-view--show-taken taken window))))

(defun gemini-companion-view--show-taken (taken window)
  "Have WINDOW show what it showed when it was TAKEN."
  (let ((buffer (gemini-companion-view--taken-buffer taken)))
    (if (not (buffer-live-p buffer))
        (switch-to-prev-buffer window 'bury)
      (set-window-buffer window buffer)
      (with-current-buffer buffer
        (set-window-point window (gemini-companion-view--position
                                  (gemini-companion-view--taken-point taken)))
        (set-window-start window (gemini-companion-view--position
                                  (gemini-companion-view--taken-start taken))
                          t)
        (set-window-hscroll window (gemini-companion-view--taken-hscroll taken))))))

;;;; Deleting the windows of a view

(defun gemini-companion-view--delete-windows (view)
  "Delete the windows of VIEW, and let the user's be as before.
If the user has not rearranged the frame, they get back their exact size."
  (let ((own (gemini-companion-view--own-windows view))
        (now (gemini-companion-view--snapshots view)))
    (if (and own (or (null (gemini-companion-view--users-windows view 'main))
                     (gemini-companion-view--untouched-p view now)))
        (gemini-companion-view--restore view now)
      (mapc #'gemini-companion-view--delete-window own))
    (gemini-companion-view--scroll-back view now)))

(defun gemini-companion-view-select-other (view)
  "If a window of VIEW is selected on its frame, select the one from before."
  (let ((frame (gemini-companion-view-frame view))
        (before (gemini-companion-view-selected view)))
    (when (and (frame-live-p frame)
               (window-live-p before)
               (eq (window-frame before) frame)
               (memq (frame-selected-window frame)
                     (append (mapcar #'gemini-companion-view--taken-window
                                     (gemini-companion-view-taken view))
                             (gemini-companion-view--own-windows view))))
      (set-frame-selected-window frame before))))

(defun gemini-companion-view--untouched-p (view now)
  "Return non-nil if the user has not rearranged the frame of VIEW.
NOW are snapshots of the user's windows.  If they are the same as when
VIEW was shown, of the same size and with the same buffers, that is so."
  (let ((beside (gemini-companion-view-beside view)))
    (and beside
         (= (length beside) (length now))
         (cl-loop
          for snapshot in now
          for was = (gemini-companion-view--find
                     (gemini-companion-view--snapshot-window snapshot) beside)
          always (and was
                      (eq (gemini-companion-view--snapshot-buffer was)
                          (gemini-companion-view--snapshot-buffer snapshot))
                      (gemini-companion-view--same-edges-p
                       (gemini-companion-view--snapshot-edges was)
                       (gemini-companion-view--snapshot-edges snapshot)))))))

(defun gemini-companion-view--same-edges-p (one other)
  "Return non-nil if the edges ONE and OTHER are the same.
A message in the echo area may take some lines."
  (let ((taken (max 0 (1- (window-total-height (minibuffer-window))))))
    (cl-loop for a in one
             for b in other
             always (<= (abs (- a b)) (1+ taken)))))

(defun gemini-companion-view--delete-window (window)
  "Delete WINDOW, or have it show another buffer if it is the only one."
  (let ((ignore-window-parameters t))
    (if (eq window (window-main-window (window-frame window)))
        (switch-to-prev-buffer window)
      (delete-window window))))

(defun gemini-companion-view--restore (view now)
  "Restore the window configuration from before VIEW.
NOW are snapshots of the user's windows.  A side window that the user has
deleted remains so, unless all others were, too; and the selected window is
selected again."
  (let* ((frame (gemini-companion-view-frame view))
         (selected (frame-selected-window frame))
         (deleted (and now
                       (seq-remove (lambda (window) (gemini-companion-view--find window now))
                                   (mapcar #'gemini-companion-view--snapshot-window
                                           (gemini-companion-view-beside view))))))
    ;; Neither the frame nor the minibuffer is to be selected or changed by it.
    (set-window-configuration (gemini-companion-view-configuration view) t t)
    (dolist (window deleted)
      (when (and (window-live-p window) (window-parameter window 'window-side))
        (gemini-companion-view--delete-window window)))
    (when (window-live-p selected)
      (set-frame-selected-window frame selected))))

(defun gemini-companion-view--scroll-back (view now)
  "Scroll each window of the user as before VIEW, or as in NOW if point has moved.
NOW are snapshots."
  (dolist (snapshot now)
    (let* ((window (gemini-companion-view--snapshot-window snapshot))
           (was (gemini-companion-view--find window (gemini-companion-view-before view))))
      (when (and (window-live-p window)
                 (eq (window-buffer window) (gemini-companion-view--snapshot-buffer snapshot)))
        (when (and was
                   (eq (gemini-companion-view--snapshot-buffer was)
                       (gemini-companion-view--snapshot-buffer snapshot))
                   (= (gemini-companion-view--snapshot-point was)
                      (gemini-companion-view--snapshot-point snapshot)))
          (setq snapshot was))
        (set-window-point window (gemini-companion-view--snapshot-point snapshot))
        (set-window-start window (gemini-companion-view--snapshot-start snapshot) t)
        (set-window-hscroll window (gemini-companion-view--snapshot-hscroll snapshot))))))

;;;; Windows that are absent

;; Windows in a tab that is not current, or in another saved configuration, are not live, but they
;; are the same objects when they come back.

(defvar gemini-companion-view--absent (make-hash-table :test #'eq :weakness 'key)
  "Windows of former views, and functions to be called with them.
That is done should they come back.")

(defun gemini-companion-view--expect-absent (view)
  "Have the absent windows of VIEW deleted, or given back, when they come back.
But not if the user has displayed something else in their tab."
  (let ((expect (lambda (window function)
                  (unless (window-live-p window)
                    (puthash window function gemini-companion-view--absent)))))
    (unless (gemini-companion-view--tab-in-use-p view)
      (dolist (window (gemini-companion-view-windows view))
        (funcall expect window #'gemini-companion-view--delete-window)))
    (dolist (taken (gemini-companion-view-taken view))
      (let ((window (gemini-companion-view--taken-window taken)))
        (when (or (gemini-companion-view--tab-of view)
                  (memq window (gemini-companion-view-emptied view)))
          (funcall expect window
                   (apply-partially #'gemini-companion-view--show-taken taken)))))
    (add-hook 'window-configuration-change-hook #'gemini-companion-view--mend-absent)))

(defun gemini-companion-view--tab-of (view)
  "Return the tab, not the current one, in which VIEW is, or nil."
  (let ((frame (gemini-companion-view-frame view)))
    (and (frame-live-p frame)
         (seq-find (lambda (tab) (gemini-companion-view--in-tab-p view tab))
                   (frame-parameter frame 'tabs)))))

(defun gemini-companion-view--tab-in-use-p (view)
  "Return non-nil if VIEW is in a tab that shows buffers which it did not before.
The tab is not the current one."
  (let ((tab (gemini-companion-view--tab-of view)))
    (seq-difference
     (gemini-companion-view--tab-buffers tab)
     (append (gemini-companion-view-buffers view)
             (mapcar #'gemini-companion-view--snapshot-buffer
                     (gemini-companion-view-before view)))
     #'eq)))

(defun gemini-companion-view--mend-absent ()
  "Delete or give back the windows of former views that have come back."
  (gemini-companion-log-errors "windows"
    (maphash (lambda (window function)
               (when (window-live-p window)
                 (remhash window gemini-companion-view--absent)
                 (funcall function window)))
             gemini-companion-view--absent)
    (when (zerop (hash-table-count gemini-companion-view--absent))
      (remove-hook 'window-configuration-change-hook
                   #'gemini-companion-view--mend-absent))))

;;;; New files

(cl-defstruct (gemini-companion-view--new-file
               (:include gemini-companion-view)
               (:constructor gemini-companion-view--make-new-file)
               (:copier nil))
  "A new file, shown as its proposal alone.")

(defvar gemini-companion-new-file-mode-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map special-mode-map)
    (define-key map (kbd "RET") #'gemini-companion-new-file-edit)
    (define-key map (kbd "e") #'gemini-companion-new-file-edit)
    (define-key map (kbd "c") #'gemini-companion-comment)
    (define-key map (kbd "q") #'gemini-companion-review-quit)
    (define-key map (kbd "g") #'undefined)
    (define-key map [remap read-only-mode] #'gemini-companion-new-file-edit)
    map)
  "Keys in the proposal of a new file until it is edited.")

(define-minor-mode gemini-companion-new-file-mode
  "Read the proposal of a new file; letters do not insert themselves.
\\<gemini-companion-new-file-mode-map>\\[gemini-companion-new-file-edit] ends this mode, for you to edit.

\\{gemini-companion-new-file-mode-map}"
  :interactive nil
  :lighter nil
  (setq buffer-read-only gemini-companion-new-file-mode))

(defun gemini-companion-new-file-edit ()
  "Make the proposal editable."
  (interactive nil gemini-companion-new-file-mode)
  (gemini-companion-review-check-open gemini-companion-review-of-buffer)
  (gemini-companion-new-file-mode -1)
  (force-mode-line-update))

(defun gemini-companion-view-show-new-file (review focus)
  "Show REVIEW as its proposal.  Return a function that takes it off the screen.
FOCUS is `keep' or `select', see `gemini-companion-diff-focus'."
  (gemini-companion-view-show (gemini-companion-view--make-new-file :review review) focus))

(cl-defmethod gemini-companion-view-start ((view gemini-companion-view--new-file))
  "Show the proposal of VIEW, read-only for now."
  (let ((proposal (gemini-companion-proposal-buffer (gemini-companion-view-review view)))
        (window (gemini-companion-view-make-window view)))
    (with-current-buffer proposal
      (gemini-companion-proposal-set-header #'gemini-companion-view--new-file-header)
      (gemini-companion-new-file-mode))
    (set-window-buffer window proposal)
    (select-window window)))

(cl-defmethod gemini-companion-view-buffers ((view gemini-companion-view--new-file))
  "Return the proposal of VIEW, in a list."
  (list (gemini-companion-view-proposal view)))

(cl-defmethod gemini-companion-view-clean-up ((view gemini-companion-view--new-file))
  "Make the proposal of VIEW editable, with the usual header line."
  (when-let* ((proposal (gemini-companion-view-proposal view)))
    (with-current-buffer proposal
      ;; Once the review has ended, it remains read-only.
      (when (gemini-companion-review-open-p (gemini-companion-view-review view))
        (gemini-companion-new-file-mode -1))
      (gemini-companion-proposal-set-header nil))))

(defun gemini-companion-view--new-file-header (review)
  "Return the header line for the proposal of REVIEW, a new file."
  (gemini-companion-proposal-header
   review nil
   `((gemini-companion-accept "accepts")
     (gemini-companion-reject "rejects")
     ,@(and gemini-companion-new-file-mode '((gemini-companion-new-file-edit "edits")))
     (gemini-companion-accept-all "accepts all"))))

(provide 'gemini-companion-view)
;;; gemini-companion-view.el ends here

;;; gemini-companion-view.el --- The windows of a review -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What every view of a review does with windows, whatever it shows in them: it makes room,
;; leaving the window in which the user types where it is, notices when the user kills a part of
;; it, and in the end brings everything back as it was, in another tab as well.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'gemini-companion-review)

(defconst gemini-companion-view--side-by-side 70
  "Least width of a text for which texts stand side by side.")

(defconst gemini-companion-view--least-kept 6
  "Least height of the window in which the user goes on typing.")

(cl-defstruct (gemini-companion-view
               (:constructor nil)
               (:copier nil))
  "What is on screen while a review is shown.  Each kind of view adds to it."
  (review nil :documentation "The review.")
  (kept nil :documentation "The window that stays selected, or nil.")
  (windows nil :documentation "The window configuration before.")
  (state nil :documentation "The window state before, as tabs keep it.")
  (last-place nil :documentation "Where it was when the user killed a part of it.")
  (teardown nil :documentation "Functions that undo what showing did besides."))

(cl-defgeneric gemini-companion-view-buffers (view)
  "Return the living buffers of VIEW that the user sees.")

(cl-defgeneric gemini-companion-view-going (_view)
  "A part of the view is being killed, while the rest of it is still there."
  nil)

;;;; Windows

(defun gemini-companion-view-begin (view focus)
  "Note in VIEW the windows as they are before it is shown.
FOCUS is `keep' or `select', see `gemini-companion-diff-focus'."
  (setf (gemini-companion-view-kept view) (and (eq focus 'keep)
                                               (not (window-minibuffer-p))
                                               (selected-window))
        (gemini-companion-view-windows view) (current-window-configuration)
        (gemini-companion-view-state view) (window-state-get (frame-root-window) t)))

(defun gemini-companion-view-make-room (view)
  "Return a window for VIEW that has the frame to itself, but for what is kept.
Side windows are, and the window in which the user types."
  (let* ((kept (gemini-companion-view-kept view))
         (area (gemini-companion-view--main-window)))
    (set-window-dedicated-p area nil)
    ;; `delete-other-windows' deletes side windows, too.
    (unless (eq area (window-main-window))
      (delete-other-windows-internal area (window-main-window)))
    (if (not (eq area kept))
        area
      (let ((lines (window-total-height area)))
        (split-window area
                      (- (- lines (max gemini-companion-view--least-kept (/ lines 3))))
                      'above)))))

(defun gemini-companion-view--main-window ()
  "Return the selected window, or one that can become the only one of its frame."
  (let ((ordinary (lambda (window)
                    (not (or (window-parameter window 'window-side)
                             (window-minibuffer-p window))))))
    (if (funcall ordinary (selected-window))
        (selected-window)
      (seq-find ordinary (window-list nil 'no-minibuffer)))))

(defun gemini-companion-view-split (window count)
  "Split WINDOW into COUNT windows of one size; return them in order.
They stand side by side if that leaves each wide enough."
  (let* ((side (>= (window-total-width window)
                   (* count gemini-companion-view--side-by-side)))
         (window-combination-resize t)
         (last window)
         (windows (list window)))
    (dotimes (done (1- count))
      (let* ((size (if side (window-total-width last) (window-total-height last)))
             (share (/ size (- count done))))
        (setq last (split-window last share (if side 'right 'below)))
        (push last windows)))
    (nreverse windows)))

(defun gemini-companion-view-select-kept (view)
  "Select the window that stays selected while VIEW is shown, if any."
  (when (window-live-p (gemini-companion-view-kept view))
    (select-window (gemini-companion-view-kept view))))

;;;; While it is shown

(defun gemini-companion-view-watch (view)
  "Notice when a part of VIEW is taken down by something else than a decision."
  (let ((gone (gemini-companion-view-on-taken-down view)))
    (dolist (buffer (gemini-companion-view-buffers view))
      (with-current-buffer buffer
        (add-hook 'kill-buffer-hook gone nil t)
        (push (lambda ()
                (when (buffer-live-p buffer)
                  (with-current-buffer buffer (remove-hook 'kill-buffer-hook gone t))))
              (gemini-companion-view-teardown view))))
    (gemini-companion-view--watch-place
     view 'delete-frame-functions
     (lambda (frame) (eq frame (gemini-companion-view--frame view))))
    (gemini-companion-view--watch-place
     view 'tab-bar-tab-pre-close-functions
     (lambda (tab &rest _)
       (if (eq (car tab) 'current-tab)
           (gemini-companion-view--on-screen-p view)
         (gemini-companion-view--in-tab-p view tab))))))

(defun gemini-companion-view--watch-place (view hook here-p)
  "Take VIEW down when HOOK is called with what makes HERE-P return non-nil."
  (let ((function (lambda (&rest arguments)
                    (gemini-companion-log-errors "closing"
                      (when (apply here-p arguments)
                        ;; What is about to go need not come back.
                        (setf (gemini-companion-view-windows view) nil)
                        (funcall (gemini-companion-view-on-taken-down view)))))))
    (add-hook hook function)
    (push (lambda () (remove-hook hook function))
          (gemini-companion-view-teardown view))))

(defun gemini-companion-view-on-taken-down (view)
  "Return a function for hooks that run while a part of VIEW is taken down.
The rest is taken down a moment later."
  (lambda ()
    (let ((review (gemini-companion-view-review view)))
      (gemini-companion-view-going view)
      ;; A moment later it may be nowhere.
      (setf (gemini-companion-view-last-place view) (gemini-companion-view--place view))
      (when (gemini-companion-review-hide review)
        (run-at-time 0 nil #'gemini-companion-review-taken-down review)))))

;;;; Taking down

(defun gemini-companion-view-end (view end)
  "Take VIEW off the screen.  The windows come back as they were.
END is a function that ends what is in them."
  (let ((place (or (gemini-companion-view--place view)
                   (gemini-companion-view-last-place view)))
        (now (current-window-configuration))
        (kept (gemini-companion-view--kept-state view)))
    (mapc #'funcall (gemini-companion-view-teardown view))
    (funcall end)
    ;; What END does to the windows counts for nothing.
    (if (eq place 'screen)
        (gemini-companion-view--restore view)
      (ignore-errors (set-window-configuration now))
      (when place (gemini-companion-view--restore-tab view place)))
    (ignore-errors (funcall kept))))

(defun gemini-companion-view--place (view)
  "Return where VIEW is: `screen', the tab that has it, or nil if it is nowhere."
  (if (gemini-companion-view--on-screen-p view)
      'screen
    (gemini-companion-view--tab view)))

(defun gemini-companion-view--frame (view)
  "Return the frame of VIEW, which may be dead; nil if it is about to be."
  (and (gemini-companion-view-windows view)
       (window-configuration-frame (gemini-companion-view-windows view))))

(defun gemini-companion-view--on-screen-p (view)
  "Return non-nil if a buffer of VIEW is still in a window of its frame.
If the user has put something else there, that is left alone."
  (let ((frame (gemini-companion-view--frame view)))
    (and (frame-live-p frame)
         (seq-some (lambda (buffer) (get-buffer-window buffer frame))
                   (gemini-companion-view-buffers view)))))

(defun gemini-companion-view--restore (view)
  "Bring back the windows that were there before VIEW.
The selected window stays the one in which the user is, if it is another
frame's."
  (let ((elsewhere (and (not (eq (selected-frame) (gemini-companion-view--frame view)))
                        (selected-window))))
    (ignore-errors
      (set-window-configuration (gemini-companion-view-windows view) elsewhere))
    (when (window-live-p elsewhere)
      (select-window elsewhere))))

(defun gemini-companion-view--kept-state (view)
  "Return a function that puts the window kept by VIEW where the user left it.
The user may have typed there while the review was on screen."
  (let ((window (gemini-companion-view-kept view)))
    (if (not (window-live-p window))
        #'ignore
      (let ((buffer (window-buffer window))
            (point (window-point window))
            (start (window-start window)))
        (lambda ()
          (when (and (window-live-p window) (eq (window-buffer window) buffer))
            (unless (= (window-point window) point)
              (set-window-start window start t)
              (set-window-point window point))))))))

(defun gemini-companion-view-kill (buffer)
  "Kill BUFFER, if it is one and alive, without a question."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer (set-buffer-modified-p nil))
    (kill-buffer buffer)))

;;;; Tabs

;; A tab that is not selected keeps its windows as a window configuration and as a window state;
;; the latter names buffers.  So it can be told in which tab a view is, and that tab be put right.

(defun gemini-companion-view--tab (view)
  "Return the tab, other than the selected one, in which VIEW is, or nil."
  (let ((frame (gemini-companion-view--frame view)))
    (and (frame-live-p frame)
         (seq-find (lambda (tab) (gemini-companion-view--in-tab-p view tab))
                   (frame-parameter frame 'tabs)))))

(defun gemini-companion-view--in-tab-p (view tab)
  "Return non-nil if VIEW is in TAB, one that is not selected."
  (let ((names (mapcar #'buffer-name (gemini-companion-view-buffers view))))
    (seq-intersection names (seq-filter #'stringp (flatten-tree (alist-get 'ws tab))))))

(defun gemini-companion-view--restore-tab (view tab)
  "Put into TAB the windows that were there before VIEW."
  (setf (alist-get 'wc tab) (gemini-companion-view-windows view)
        (alist-get 'ws tab) (gemini-companion-view-state view)
        (alist-get 'wc-point tab) nil))

(provide 'gemini-companion-view)
;;; gemini-companion-view.el ends here

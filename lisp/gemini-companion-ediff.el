;;; gemini-companion-ediff.el --- A review in Ediff -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows a review in Ediff: the file as it is now in buffer A, read-only, the proposal in buffer
;; B, to be edited, and if wanted the text from which it was made in buffer C.  Ediff's options
;; are set for this session alone, and the windows are laid out by ourselves, so that the window
;; in which the user types can stay.

;;; Code:

(require 'ediff)
(require 'gemini-companion-texts)

(defconst gemini-companion-ediff--side-by-side 70
  "Least width of a text for which texts stand side by side.")

(defconst gemini-companion-ediff--least-kept 6
  "Least height of the window in which the user goes on typing.")

(defconst gemini-companion-ediff--diff-options "--text"
  "Options for diff and diff3.
All that differs is shown, whatever the user's own comparisons leave out,
and a text with NUL is still a text.")

(cl-defstruct (gemini-companion-ediff
               (:constructor gemini-companion-ediff--make)
               (:copier nil))
  "What is on screen while a review is shown."
  (review nil :documentation "The review.")
  (texts nil :documentation "The read-only buffers, of which A is the first.")
  (control nil :documentation "Ediff's control buffer.")
  (helpers nil :documentation "Buffers that Ediff made for the session.")
  (kept nil :documentation "The window that stays selected, or nil.")
  (windows nil :documentation "The window configuration before.")
  (state nil :documentation "The window state before, as tabs keep it.")
  (teardown nil :documentation "Functions that undo what showing did besides."))

(defun gemini-companion-ediff-show (review focus)
  "Show REVIEW in Ediff.  Return a function that takes it off the screen.
FOCUS is `keep' or `select', see `gemini-companion-diff-focus'."
  (let ((view (gemini-companion-ediff--make
               :review review
               :texts (cons (gemini-companion-texts-current review)
                            (and (gemini-companion-review-with-base review)
                                 (list (gemini-companion-texts-base review))))
               :kept (and (eq focus 'keep) (not (window-minibuffer-p)) (selected-window))
               :windows (current-window-configuration)
               :state (window-state-get (frame-root-window) t)))
        (proposal (gemini-companion-texts-proposal review))
        (before (buffer-list)))
    (condition-case error
        (gemini-companion-ediff--start view proposal)
      ((error quit)
       (gemini-companion-ediff--hide view)
       (gemini-companion-ediff--kill-new before)
       (signal (car error) (cdr error))))
    (lambda () (gemini-companion-ediff--hide view))))

(defun gemini-companion-ediff--start (view proposal)
  "Start Ediff on the texts of VIEW and the buffer PROPOSAL."
  ;; There none of the options has a value of its own, as it may where the user is.
  (with-current-buffer proposal
    (let ((ediff-before-setup-windows-hook (list (gemini-companion-ediff--arranger view)))
          ;; These become local in the control buffer, so the session keeps them.
          (ediff-window-setup-function #'ediff-setup-windows-plain)
          (ediff-use-long-help-message nil)
          (ediff-keep-variants t)
          (ediff-actual-diff-options gemini-companion-ediff--diff-options)
          (ediff-actual-diff3-options gemini-companion-ediff--diff-options)
          ;; The proposal is there to be edited.
          (ediff-make-buffers-readonly-at-startup nil)
          (startup (list (lambda () (gemini-companion-ediff--adopt view)))))
      (pcase (gemini-companion-ediff-texts view)
        (`(,current) (ediff-buffers current proposal startup))
        (`(,current ,base) (ediff-buffers3 current proposal base startup)))))
  (gemini-companion-ediff--show-first-difference view)
  (when (window-live-p (gemini-companion-ediff-kept view))
    (select-window (gemini-companion-ediff-kept view)))
  (gemini-companion-ediff--watch view))

(defun gemini-companion-ediff--show-first-difference (view)
  "Scroll the texts of VIEW to where they differ first.
It does not become Ediff's current difference, for then the keys a and b,
if the user was just typing them, would change the proposal."
  (with-current-buffer (gemini-companion-ediff-control view)
    (when (> ediff-number-of-differences 0)
      (pcase-dolist (`(,type . ,window) `((A . ,ediff-window-A) (B . ,ediff-window-B)
                                          (C . ,ediff-window-C)))
        (when (window-live-p window)
          (let ((start (ediff-get-diff-posn type 'beg 0)))
            (set-window-point window start)
            (set-window-start window (gemini-companion-ediff--start-of-view window start))))))))

(defun gemini-companion-ediff--start-of-view (window position)
  "Return where WINDOW should start to show POSITION well.
That is the start of the text if POSITION is then in the upper half."
  (with-current-buffer (window-buffer window)
    (save-excursion
      (goto-char position)
      (forward-line (- (/ (window-body-height window) 2)))
      (if (bobp)
          (point)
        (goto-char position)
        (forward-line -3)
        (point)))))

;;;; Windows

(defun gemini-companion-ediff--arranger (view)
  "Return a function that lays out the windows of VIEW, for a hook.
Ediff runs it in the control buffer before it looks whether the windows
are as they should be; so it finds them well, and leaves them alone.  A
function of our own for its own layout would not do: in a terminal Ediff
does not use it."
  (lambda ()
    (unless (ediff-keep-window-config (current-buffer))
      (gemini-companion-ediff--arrange view))))

(defun gemini-companion-ediff--arrange (view)
  "Show the buffers of Ediff's session for VIEW.
The current buffer is its control buffer."
  (let* ((control (current-buffer))
         (area (gemini-companion-ediff--make-room view))
         (panel (split-window area (- (max window-min-height 3)) 'below))
         (texts (seq-filter #'buffer-live-p
                            (list ediff-buffer-A ediff-buffer-B ediff-buffer-C)))
         (windows (gemini-companion-ediff--split area (length texts))))
    (cl-mapc #'set-window-buffer windows texts)
    (setq ediff-multiframe nil
          ediff-window-A (nth 0 windows)
          ediff-window-B (nth 1 windows)
          ediff-window-C (nth 2 windows))
    (select-window panel)
    (ediff-setup-control-buffer control)))

(defun gemini-companion-ediff--make-room (view)
  "Return a window for VIEW that has the frame to itself, but for what is kept.
Side windows are, and the window in which the user types."
  (let* ((kept (gemini-companion-ediff-kept view))
         (area (gemini-companion-ediff--main-window)))
    (set-window-dedicated-p area nil)
    ;; `delete-other-windows' deletes side windows, too.
    (unless (eq area (window-main-window))
      (delete-other-windows-internal area (window-main-window)))
    (if (not (eq area kept))
        area
      (let ((lines (window-total-height area)))
        (split-window area
                      (- (- lines (max gemini-companion-ediff--least-kept (/ lines 3))))
                      'above)))))

(defun gemini-companion-ediff--main-window ()
  "Return the selected window, or one that can become the only one of its frame."
  (let ((ordinary (lambda (window)
                    (not (or (window-parameter window 'window-side)
                             (window-minibuffer-p window))))))
    (if (funcall ordinary (selected-window))
        (selected-window)
      (seq-find ordinary (window-list nil 'no-minibuffer)))))

(defun gemini-companion-ediff--split (window count)
  "Split WINDOW into COUNT windows of one size; return them in order.
They stand side by side if that leaves each wide enough."
  (let* ((side (>= (window-total-width window)
                   (* count gemini-companion-ediff--side-by-side)))
         (window-combination-resize t)
         (last window)
         (windows (list window)))
    (dotimes (done (1- count))
      (let* ((size (if side (window-total-width last) (window-total-height last)))
             (share (/ size (- count done))))
        (setq last (split-window last share (if side 'right 'below)))
        (push last windows)))
    (nreverse windows)))

;;;; While it is shown

(defun gemini-companion-ediff--adopt (view)
  "Make the current buffer, the control buffer of a new session, that of VIEW."
  (setf (gemini-companion-ediff-control view) (current-buffer))
  (setq gemini-companion-review--of-buffer (gemini-companion-ediff-review view))
  (setq-local ediff-actual-diff-options gemini-companion-ediff--diff-options
              ediff-actual-diff3-options gemini-companion-ediff--diff-options)
  (add-hook 'ediff-before-setup-windows-hook (gemini-companion-ediff--arranger view)
            nil t)
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map (make-composed-keymap gemini-companion-review-mode-map
                                                 (current-local-map)))
    (define-key map (kbd "q") #'gemini-companion-ediff-quit)
    (use-local-map map)))

(defun gemini-companion-ediff--watch (view)
  "Notice when a part of VIEW is taken down by something else than a decision."
  (let ((gone (gemini-companion-ediff--on-taken-down view)))
    (dolist (buffer (gemini-companion-ediff--buffers view))
      (with-current-buffer buffer
        (add-hook 'kill-buffer-hook gone nil t)
        (push (lambda ()
                (when (buffer-live-p buffer)
                  (with-current-buffer buffer (remove-hook 'kill-buffer-hook gone t))))
              (gemini-companion-ediff-teardown view))))
    (with-current-buffer (gemini-companion-ediff-control view)
      (add-hook 'ediff-quit-hook gone nil t))
    (gemini-companion-ediff--watch-place
     view 'delete-frame-functions
     (lambda (frame) (eq frame (gemini-companion-ediff--frame view))))
    (gemini-companion-ediff--watch-place
     view 'tab-bar-tab-pre-close-functions
     (lambda (tab &rest _)
       (if (eq (car tab) 'current-tab)
           (gemini-companion-ediff--on-screen-p view)
         (gemini-companion-ediff--in-tab-p view tab))))))

(defun gemini-companion-ediff--watch-place (view hook here-p)
  "Take VIEW down when HOOK is called with what makes HERE-P return non-nil."
  (let ((function (lambda (&rest arguments)
                    (gemini-companion-log-errors "closing"
                      (when (apply here-p arguments)
                        ;; What is about to go need not come back.
                        (setf (gemini-companion-ediff-windows view) nil)
                        (funcall (gemini-companion-ediff--on-taken-down view)))))))
    (add-hook hook function)
    (push (lambda () (remove-hook hook function))
          (gemini-companion-ediff-teardown view))))

(defun gemini-companion-ediff--on-taken-down (view)
  "Return a function for hooks that run while a part of VIEW is taken down.
The rest is taken down a moment later."
  (lambda ()
    (let ((review (gemini-companion-ediff-review view)))
      (gemini-companion-ediff--note-helpers view)
      (when (gemini-companion-review-hide review)
        (run-at-time 0 nil #'gemini-companion-review-taken-down review)))))

(defun gemini-companion-ediff--buffers (view)
  "Return the living buffers of VIEW that the user sees."
  (seq-filter #'buffer-live-p
              (cons (gemini-companion-ediff-control view)
                    (cons (gemini-companion-review-proposal
                           (gemini-companion-ediff-review view))
                          (gemini-companion-ediff-texts view)))))

(defun gemini-companion-ediff-quit ()
  "Ask what to do with the change on screen: accept it, reject it, or decide later."
  (interactive)
  (pcase (car (condition-case nil
                  (read-multiple-choice
                   "Proposed change:"
                   '((?a "accept" "The client writes the text as it now reads")
                     (?r "reject" "The file stays as it is")
                     (?l "later" "The client keeps waiting")))
                (quit nil)))
    (?a (gemini-companion-accept))
    (?r (gemini-companion-reject))
    (_ (gemini-companion-review-postpone (gemini-companion-review-current)))))

;;;; Taking down

(defun gemini-companion-ediff--hide (view)
  "Take VIEW off the screen.  The windows come back as they were."
  (let* ((proposal (gemini-companion-review-proposal (gemini-companion-ediff-review view)))
         (on-screen (gemini-companion-ediff--on-screen-p view))
         (tab (and (not on-screen) (gemini-companion-ediff--tab view)))
         (now (current-window-configuration))
         (kept (gemini-companion-ediff--kept-state view)))
    (mapc #'funcall (gemini-companion-ediff-teardown view))
    (gemini-companion-ediff--end-session view)
    ;; Ediff leaves the two texts on screen.
    (if on-screen
        (gemini-companion-ediff--restore view)
      (ignore-errors (set-window-configuration now)))
    (when tab (gemini-companion-ediff--restore-tab view tab))
    (ignore-errors (funcall kept))
    (mapc #'gemini-companion-ediff--kill (gemini-companion-ediff-texts view))
    (when (buffer-live-p proposal)
      (with-current-buffer proposal (remove-overlays)))))

(defun gemini-companion-ediff--frame (view)
  "Return the frame of VIEW, which may be dead; nil if it is about to be."
  (and (gemini-companion-ediff-windows view)
       (window-configuration-frame (gemini-companion-ediff-windows view))))

(defun gemini-companion-ediff--on-screen-p (view)
  "Return non-nil if a buffer of VIEW is still in a window of its frame.
If the user has put something else there, that is left alone."
  (let ((frame (gemini-companion-ediff--frame view)))
    (and (frame-live-p frame)
         (seq-some (lambda (buffer) (get-buffer-window buffer frame))
                   (gemini-companion-ediff--buffers view)))))

(defun gemini-companion-ediff--restore (view)
  "Bring back the windows that were there before VIEW.
The selected window stays the one in which the user is, if it is another
frame's."
  (let ((elsewhere (and (not (eq (selected-frame) (gemini-companion-ediff--frame view)))
                        (selected-window))))
    (ignore-errors
      (set-window-configuration (gemini-companion-ediff-windows view) elsewhere))
    (when (window-live-p elsewhere)
      (select-window elsewhere))))

(defun gemini-companion-ediff--kept-state (view)
  "Return a function that puts the window kept by VIEW where the user left it.
The user may have typed there while the review was on screen."
  (let ((window (gemini-companion-ediff-kept view)))
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

(defun gemini-companion-ediff--end-session (view)
  "End the Ediff session of VIEW, in whatever state it is."
  (let ((control (gemini-companion-ediff-control view)))
    (gemini-companion-ediff--note-helpers view)
    (when (buffer-live-p control)
      (with-current-buffer control
        (kill-local-variable 'ediff-quit-hook)
        ;; Signals if one of the texts was killed, and leaves the session half there.
        (let ((ediff-grab-mouse nil))
          (ignore-errors (ediff-really-quit nil)))))
    (setq ediff-session-registry (delq control ediff-session-registry))
    (mapc #'gemini-companion-ediff--kill
          (cons control (gemini-companion-ediff-helpers view)))
    (unless (or ediff-session-registry
                (not (buffer-live-p ediff-registry-buffer))
                (get-buffer-window ediff-registry-buffer t))
      (kill-buffer ediff-registry-buffer))))

(defun gemini-companion-ediff--note-helpers (view)
  "Note the buffers that Ediff made for VIEW, while its control buffer lives."
  (let ((control (gemini-companion-ediff-control view)))
    (when (buffer-live-p control)
      (setf (gemini-companion-ediff-helpers view)
            (with-current-buffer control
              (list ediff-diff-buffer ediff-custom-diff-buffer ediff-fine-diff-buffer
                    ediff-tmp-buffer ediff-error-buffer ediff-msg-buffer))))))

(defun gemini-companion-ediff--kill-new (before)
  "Kill Ediff's buffers that are not in the list BEFORE.
When it fails early it has told nobody of them."
  (dolist (buffer (seq-difference (buffer-list) before))
    (when (string-match-p "\\` ?\\*[Ee]diff" (or (buffer-name buffer) ""))
      (gemini-companion-ediff--kill buffer))))

(defun gemini-companion-ediff--kill (buffer)
  "Kill BUFFER, if it is one and alive, without a question."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer (set-buffer-modified-p nil))
    (kill-buffer buffer)))

;;;; Tabs

;; A tab that is not selected keeps its windows as a window configuration and as a window state;
;; the latter names buffers.  So it can be told in which tab a view is, and that tab be put right.

(defun gemini-companion-ediff--tab (view)
  "Return the tab, other than the selected one, in which VIEW is, or nil."
  (let ((frame (gemini-companion-ediff--frame view)))
    (and (frame-live-p frame)
         (seq-find (lambda (tab) (gemini-companion-ediff--in-tab-p view tab))
                   (frame-parameter frame 'tabs)))))

(defun gemini-companion-ediff--in-tab-p (view tab)
  "Return non-nil if VIEW is in TAB, one that is not selected."
  (let ((names (mapcar #'buffer-name (gemini-companion-ediff--buffers view))))
    (seq-intersection names (seq-filter #'stringp (flatten-tree (alist-get 'ws tab))))))

(defun gemini-companion-ediff--restore-tab (view tab)
  "Put into TAB the windows that were there before VIEW."
  (setf (alist-get 'wc tab) (gemini-companion-ediff-windows view)
        (alist-get 'ws tab) (gemini-companion-ediff-state view)
        (alist-get 'wc-point tab) nil))

(provide 'gemini-companion-ediff)
;;; gemini-companion-ediff.el ends here

;;; gemini-companion-view.el --- The windows of a review -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What every view of a review does with windows, whatever it shows in them.  Windows belong to
;; the user.  A view makes windows of its own above those that are there, which only become
;; smaller, and in the end deletes those of its own that still show it.  What the user has put
;; into any window meanwhile stays, and so does what he has opened, closed or selected.
;;
;; Where the frame is too small for that, the other windows are deleted, and come back if the
;; user has not rearranged the frame in the meantime.
;;
;; A new file has nothing to be compared with: its text is shown alone.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'gemini-companion-decide)
(require 'gemini-companion-log)
(require 'gemini-companion-proposal)
(require 'gemini-companion-queue)
(require 'gemini-companion-review)

(defconst gemini-companion-view--side-by-side 70
  "Least width of a text for which texts stand side by side.")

(defconst gemini-companion-view--least-kept 6
  "Least height of the window in which the user goes on typing.")

(defconst gemini-companion-view--least-height 12
  "Least height of a view beside windows of the user.")

(cl-defstruct (gemini-companion-view
               (:constructor nil)
               (:copier nil))
  "What is on screen while a review is shown.  Each kind of view adds to it."
  (review nil :documentation "The review.")
  (frame nil :documentation "The frame on which it is shown.")
  (focus nil :documentation "`keep' or `select', as in `gemini-companion-diff-focus'.")
  (selected nil :documentation "The window that was selected before.")
  (windows nil :documentation "The windows that the view has made, also former ones.")
  (emptied nil :documentation "Those whose buffer was killed.")
  (configuration nil :documentation "The window configuration before.")
  (before nil :documentation "The user's windows before, a list of places.")
  (beside nil :documentation "The user's windows once it was shown, a list of places.")
  (teardown nil :documentation "Functions that undo what showing did besides."))

(cl-defstruct (gemini-companion-view--place
               (:constructor gemini-companion-view--make-place)
               (:copier nil))
  "What a window shows, and where it is."
  window buffer point start hscroll edges)

(cl-defgeneric gemini-companion-view-buffers (view)
  "Return the living buffers of VIEW that the user sees.")

(cl-defgeneric gemini-companion-view-going (_view)
  "A part of the view is being killed, while the rest of it is still there."
  nil)

;;;; Making room

(defun gemini-companion-view-begin (view focus)
  "Note in VIEW the windows as they are before it is shown.
FOCUS is `keep' or `select', see `gemini-companion-diff-focus'."
  (let ((frame (gemini-companion-view--suitable-frame)))
    (setf (gemini-companion-view-focus view) focus
          (gemini-companion-view-frame view) frame
          (gemini-companion-view-selected view) (selected-window)
          (gemini-companion-view-configuration view) (current-window-configuration frame)
          (gemini-companion-view-before view)
          (mapcar #'gemini-companion-view--place-of (window-list frame 'no-minibuffer)))))

(defun gemini-companion-view--suitable-frame ()
  "Return the selected frame, or that of which it is a child."
  (let ((frame (selected-frame)))
    (while (frame-parent frame)
      (setq frame (frame-parent frame)))
    frame))

(defun gemini-companion-view-make-room (view)
  "Return a new window for VIEW, above the user's in the main part of its frame."
  (let* ((frame (gemini-companion-view-frame view))
         (main (window-main-window frame))
         ;; Ediff lays its windows out anew when the user has changed one.
         (mine (gemini-companion-view--showing-windows view)))
    (if (and mine (null (gemini-companion-view--users-windows view 'main)))
        (gemini-companion-view--make-one (car mine) main)
      (mapc #'gemini-companion-view--delete-window mine)
      (gemini-companion-view--own
       view (or (gemini-companion-view--split-above view (window-main-window frame))
                (gemini-companion-view--take-place view))))))

(defun gemini-companion-view--split-above (view main)
  "Return a new window above MAIN, the main window of the frame of VIEW.
Return nil if there is no room for it."
  (let* ((total (window-total-height main))
         (needed (window-min-size main))
         (share (if (gemini-companion-view--in-main-p view)
                    (max gemini-companion-view--least-kept (/ total 3))
                  0))
         (room (- total (max needed share))))
    (when (< room gemini-companion-view--least-height)
      (setq room (- total needed)))
    (and (>= room gemini-companion-view--least-height)
         ;; Windows of a fixed size may not let it.
         (ignore-errors (split-window main (- room) 'above)))))

(defun gemini-companion-view--in-main-p (view)
  "Return non-nil if the user goes on typing in the main part of VIEW's frame."
  (and (eq (gemini-companion-view-focus view) 'keep)
       (memq (gemini-companion-view-selected view)
             (gemini-companion-view--users-windows view 'main))))

(defun gemini-companion-view--take-place (view)
  "Delete the user's windows in the main part of VIEW's frame, but for one.
Return a new window above that, or that one if there is no room."
  (let* ((windows (gemini-companion-view--users-windows view 'main))
         (main (window-main-window (gemini-companion-view-frame view)))
         (kept (gemini-companion-view--make-one
                (or (car (memq (gemini-companion-view-selected view) windows))
                    (car windows))
                main))
         (lines (window-total-height kept)))
    (or (ignore-errors
          (split-window kept
                        (- (- lines (min gemini-companion-view--least-kept (/ lines 3))))
                        'above))
        kept)))

(defun gemini-companion-view--make-one (window main)
  "Delete all other windows below MAIN, and return WINDOW."
  ;; `delete-other-windows' deletes side windows, too.
  (unless (eq window main)
    (delete-other-windows-internal window main))
  window)

(defun gemini-companion-view--own (view window)
  "Note that VIEW has made WINDOW, and return that."
  (push window (gemini-companion-view-windows view))
  window)

(defun gemini-companion-view-split-off (view window size side)
  "Split from WINDOW one of SIZE at SIDE for VIEW; return the new window."
  (gemini-companion-view--own view (split-window window (- size) side)))

(defun gemini-companion-view-split (view window count)
  "Split WINDOW into COUNT windows of one size for VIEW; return them in order.
They stand side by side if that leaves each wide enough."
  (let* ((side (>= (window-total-width window)
                   (* count gemini-companion-view--side-by-side)))
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

(defun gemini-companion-view-save-lines (view windows)
  "Leave the mode lines of WINDOWS out, if those are above each other.
Header lines say what they show.  Only windows that VIEW has made are
concerned."
  (unless (apply #'= (mapcar #'window-top-line windows))
    (dolist (window windows)
      (when (memq window (gemini-companion-view-windows view))
        (set-window-parameter window 'mode-line-format 'none)))))

(defun gemini-companion-view-shown (view)
  "VIEW is on screen: select what its focus says, and note the other windows."
  (when (and (eq (gemini-companion-view-focus view) 'keep)
             (window-live-p (gemini-companion-view-selected view)))
    (select-window (gemini-companion-view-selected view)))
  (setf (gemini-companion-view-beside view) (gemini-companion-view--places view)))

;;;; Whose windows they are

(defun gemini-companion-view--showing-windows (view)
  "Return the windows on the frame of VIEW that are there only to show it.
These were made for it, by the user too, who may have split one.  Those in
which the user has put something else are the user's."
  (let ((buffers (gemini-companion-view-buffers view)))
    (cl-loop for window in (window-list (gemini-companion-view-frame view) 'no-minibuffer)
             if (and (or (memq (window-buffer window) buffers)
                         (memq window (gemini-companion-view-emptied view)))
                     (not (gemini-companion-view--find
                           window (gemini-companion-view-before view))))
             collect window)))

(defun gemini-companion-view--users-windows (view &optional main)
  "Return the windows on the frame of VIEW that are the user's.
With MAIN non-nil leave out side windows."
  (let ((mine (gemini-companion-view--showing-windows view)))
    (cl-remove-if (lambda (window)
                    (or (memq window mine)
                        (and main (window-parameter window 'window-side))))
                  (window-list (gemini-companion-view-frame view) 'no-minibuffer))))

(defun gemini-companion-view--places (view)
  "Return the place of each of the user's windows on the frame of VIEW."
  (mapcar #'gemini-companion-view--place-of (gemini-companion-view--users-windows view)))

(defun gemini-companion-view--place-of (window)
  "Return the place of WINDOW."
  (gemini-companion-view--make-place
   :window window :buffer (window-buffer window)
   :point (window-point window) :start (window-start window)
   :hscroll (window-hscroll window) :edges (window-edges window)))

;;;; While it is shown

(defun gemini-companion-view-watch (view)
  "Hide VIEW when one of its buffers, its frame or its tab is killed."
  (let ((gone (gemini-companion-view--on-killed view)))
    (dolist (buffer (gemini-companion-view-buffers view))
      (with-current-buffer buffer
        (add-hook 'kill-buffer-hook gone nil t)
        (push (lambda ()
                (when (buffer-live-p buffer)
                  (with-current-buffer buffer (remove-hook 'kill-buffer-hook gone t))))
              (gemini-companion-view-teardown view))))
    (gemini-companion-view--watch-place
     view 'delete-frame-functions
     (lambda (frame) (eq frame (gemini-companion-view-frame view))))
    (gemini-companion-view--watch-place
     view 'tab-bar-tab-pre-close-functions
     (lambda (tab &rest _)
       (if (eq (car tab) 'current-tab)
           (gemini-companion-view--showing-windows view)
         (gemini-companion-view--in-tab-p view tab))))))

(defun gemini-companion-view--on-killed (view)
  "Return a function for the hook that runs when a buffer of VIEW is killed."
  (let ((gone (gemini-companion-view-on-taken-down view)))
    (lambda ()
      ;; A moment later they show what Emacs has put there.
      (setf (gemini-companion-view-emptied view)
            (append (get-buffer-window-list nil 'no-minibuffer t)
                    (gemini-companion-view-emptied view)))
      (funcall gone))))

(defun gemini-companion-view--watch-place (view hook here-p)
  "Take VIEW down when HOOK is called with what makes HERE-P return non-nil."
  (let ((function (lambda (&rest arguments)
                    (gemini-companion-log-errors "closing"
                      (when (apply here-p arguments)
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
      (when (gemini-companion-review-hide-function review)
        (run-at-time 0 nil #'gemini-companion-review-taken-down review)))))

(defun gemini-companion-view--in-tab-p (view tab)
  "Return non-nil if VIEW is in TAB, one that is not selected."
  (cl-some (lambda (buffer) (memq buffer (gemini-companion-view-buffers view)))
           (gemini-companion-view--tab-buffers tab)))

(defun gemini-companion-view--tab-buffers (tab)
  "Return the buffers in the windows of TAB, one that is not selected."
  ;; Of its windows such a tab has a state, too, in which each leaf has (buffer NAME ...).
  (cl-loop for (key name) on (flatten-tree (alist-get 'ws tab))
           if (and (eq key 'buffer) (stringp name) (get-buffer name)) collect it))

;;;; Windows that are absent

;; Windows in a tab that is not selected, or in another saved configuration, are not live; but
;; they are the same objects when they come back.

(defvar gemini-companion-view--absent (make-hash-table :test #'eq :weakness 'key)
  "The windows of former views that are to be deleted should they come back.")

(defun gemini-companion-view--expect-absent (view)
  "Let the windows of VIEW that are absent be deleted when they come back.
But not if the user has put something else into the tab where they are."
  (unless (gemini-companion-view--in-user-s-tab-p view)
    (dolist (window (gemini-companion-view-windows view))
      (unless (window-live-p window)
        (puthash window t gemini-companion-view--absent)))
    (add-hook 'window-configuration-change-hook #'gemini-companion-view--delete-absent)))

(defun gemini-companion-view--in-user-s-tab-p (view)
  "Return non-nil if VIEW is in a tab that shows what it did not show before.
The tab is one that is not selected."
  (let* ((frame (gemini-companion-view-frame view))
         (tab (and (frame-live-p frame)
                   (cl-find-if (lambda (tab) (gemini-companion-view--in-tab-p view tab))
                               (frame-parameter frame 'tabs)))))
    (cl-set-difference
     (gemini-companion-view--tab-buffers tab)
     (append (gemini-companion-view-buffers view)
             (mapcar #'gemini-companion-view--place-buffer
                     (gemini-companion-view-before view))))))

(defun gemini-companion-view--delete-absent ()
  "Delete the windows of former views that have come back."
  (gemini-companion-log-errors "windows"
    (maphash (lambda (window _)
               (when (window-live-p window)
                 (remhash window gemini-companion-view--absent)
                 (gemini-companion-view--delete-window window)))
             gemini-companion-view--absent)
    (when (zerop (hash-table-count gemini-companion-view--absent))
      (remove-hook 'window-configuration-change-hook
                   #'gemini-companion-view--delete-absent))))

;;;; Taking down

(defun gemini-companion-view-end (view end)
  "Take VIEW off the screen.  END is a function that ends what is in its windows."
  (mapc #'funcall (gemini-companion-view-teardown view))
  (gemini-companion-view--expect-absent view)
  (let ((give-back (if (frame-live-p (gemini-companion-view-frame view))
                       (gemini-companion-view--giver view)
                     #'ignore)))
    (save-selected-window (funcall end))
    (gemini-companion-log-errors "windows" (funcall give-back))))

(defun gemini-companion-view--giver (view)
  "Return a function that gives the user's windows their room again.
Which windows are whose is found out now, while all that VIEW shows is
still there."
  (let* ((mine (gemini-companion-view--showing-windows view))
         (restore (and mine (or (not (gemini-companion-view--users-windows view 'main))
                                (gemini-companion-view--untouched-p view))))
         (now (gemini-companion-view--places view)))
    (lambda ()
      (gemini-companion-view--select-other view mine)
      (if restore
          (gemini-companion-view--restore view now)
        (mapc #'gemini-companion-view--delete-window
              (cl-remove-if-not #'window-live-p mine))
        (gemini-companion-view--scroll-back view now)))))

(defun gemini-companion-view--untouched-p (view)
  "Return non-nil if the user has not rearranged the frame of VIEW.
Then there are the windows that were beside it when it was shown, of the
same size and with the same buffers, and no others."
  (let ((beside (gemini-companion-view-beside view))
        (now (gemini-companion-view--places view)))
    (and beside
         (= (length beside) (length now))
         (cl-every (lambda (place)
                     (let ((was (gemini-companion-view--find
                                 (gemini-companion-view--place-window place) beside)))
                       (and was
                            (eq (gemini-companion-view--place-buffer was)
                                (gemini-companion-view--place-buffer place))
                            (gemini-companion-view--same-edges-p
                             (gemini-companion-view--place-edges was)
                             (gemini-companion-view--place-edges place)))))
                   now))))

(defun gemini-companion-view--same-edges-p (one other)
  "Return non-nil if the edges ONE are the edges OTHER.
Some lines may be taken by a message in the echo area."
  (let ((taken (max 0 (1- (window-total-height (minibuffer-window))))))
    (cl-every (lambda (a b) (<= (abs (- a b)) (1+ taken))) one other)))

(defun gemini-companion-view--find (window places)
  "Return of PLACES the one of WINDOW, or nil."
  (cl-find window places :key #'gemini-companion-view--place-window))

(defun gemini-companion-view--select-other (view mine)
  "Select another window on the frame of VIEW if one of MINE is selected.
MINE are about to be deleted."
  (let ((frame (gemini-companion-view-frame view))
        (before (gemini-companion-view-selected view)))
    (when (and (memq (frame-selected-window frame) mine)
               (window-live-p before)
               (eq (window-frame before) frame))
      (set-frame-selected-window frame before))))

(defun gemini-companion-view--delete-window (window)
  "Delete WINDOW, or if it is the only one let it show another buffer."
  (let ((ignore-window-parameters t))
    (if (eq window (window-main-window (window-frame window)))
        (switch-to-prev-buffer window)
      (delete-window window))))

(defun gemini-companion-view--restore (view now)
  "Bring back the windows from before VIEW, where NOW says the user left them.
NOW is a list of places.  A side window that the user has closed stays so."
  (let* ((frame (gemini-companion-view-frame view))
         (selected (frame-selected-window frame))
         (gone (cl-set-difference (gemini-companion-view-beside view) now
                                  :key #'gemini-companion-view--place-window)))
    ;; Neither the frame nor the minibuffer is to be selected or changed by it.
    (set-window-configuration (gemini-companion-view-configuration view) t t)
    (dolist (place gone)
      (let ((window (gemini-companion-view--place-window place)))
        (when (and (window-live-p window) (window-parameter window 'window-side))
          (gemini-companion-view--delete-window window))))
    (gemini-companion-view--scroll-back view now)
    (when (window-live-p selected)
      (set-frame-selected-window frame selected))))

(defun gemini-companion-view--scroll-back (view now)
  "Scroll each of the user's windows as before VIEW, or as it is in NOW.
The former if the user has not moved point in it; both are lists of
places."
  (dolist (place now)
    (let* ((window (gemini-companion-view--place-window place))
           (was (gemini-companion-view--find window (gemini-companion-view-before view))))
      (when (and (window-live-p window)
                 (eq (window-buffer window) (gemini-companion-view--place-buffer place)))
        (let ((there (if (and was
                              (eq (gemini-companion-view--place-buffer was)
                                  (gemini-companion-view--place-buffer place))
                              (= (gemini-companion-view--place-point was)
                                 (gemini-companion-view--place-point place)))
                         was
                       place)))
          (set-window-point window (gemini-companion-view--place-point there))
          (set-window-start window (gemini-companion-view--place-start there) t)
          (set-window-hscroll window (gemini-companion-view--place-hscroll there)))))))

(defun gemini-companion-view-kill (buffer)
  "Kill BUFFER, if there is such a buffer or name of one, without a question."
  (let ((buffer (and buffer (get-buffer buffer))))
    (when (buffer-live-p buffer)
      (with-current-buffer buffer (set-buffer-modified-p nil))
      (kill-buffer buffer))))

;;;; New files

(cl-defstruct (gemini-companion-view-new-file
               (:include gemini-companion-view)
               (:constructor gemini-companion-view--make)
               (:copier nil))
  "A review shown as its proposal.")

(defvar gemini-companion-new-file-mode-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map special-mode-map)
    (define-key map (kbd "RET") #'gemini-companion-new-file-edit)
    (define-key map (kbd "e") #'gemini-companion-new-file-edit)
    (define-key map (kbd "q") #'gemini-companion-review-quit)
    (define-key map (kbd "g") #'undefined)
    (define-key map [remap read-only-mode] #'gemini-companion-new-file-edit)
    map)
  "Keys in the proposal of a new file while that is read.")

(define-minor-mode gemini-companion-new-file-mode
  "Read the proposal of a new file; letters do not insert themselves.
\\<gemini-companion-new-file-mode-map>\\[gemini-companion-new-file-edit] ends this mode, for you to edit.

\\{gemini-companion-new-file-mode-map}"
  :interactive nil
  :lighter nil
  (setq buffer-read-only gemini-companion-new-file-mode))

(defun gemini-companion-new-file-edit ()
  "Let the proposal be edited."
  (interactive)
  (gemini-companion-review-check-open gemini-companion-review-of-buffer)
  (gemini-companion-new-file-mode -1)
  (force-mode-line-update))

(defun gemini-companion-view-show-new-file (review focus)
  "Show REVIEW as its proposal.  Return a function that takes it off the screen.
FOCUS is `keep' or `select', see `gemini-companion-diff-focus'."
  (let ((view (gemini-companion-view--make :review review)))
    (gemini-companion-view-begin view focus)
    (condition-case error
        (gemini-companion-view--start view)
      ((error quit)
       (gemini-companion-view--hide view)
       (signal (car error) (cdr error))))
    (lambda () (gemini-companion-view--hide view))))

(defun gemini-companion-view--start (view)
  "Show the proposal of VIEW."
  (let* ((review (gemini-companion-view-new-file-review view))
         (proposal (gemini-companion-proposal-buffer review))
         (window (gemini-companion-view-make-room view)))
    (with-current-buffer proposal
      (gemini-companion-proposal-set-header #'gemini-companion-view--header)
      (gemini-companion-new-file-mode))
    (set-window-buffer window proposal)
    (select-window window)
    (gemini-companion-view-shown view)
    (gemini-companion-view-watch view)))

(cl-defmethod gemini-companion-view-buffers ((view gemini-companion-view-new-file))
  "Return the living buffers of VIEW that the user sees."
  (seq-filter #'buffer-live-p
              (list (gemini-companion-review-proposal (gemini-companion-view-new-file-review view)))))

(defun gemini-companion-view--hide (view)
  "Take VIEW off the screen."
  (gemini-companion-view-end view #'ignore)
  (let ((proposal (gemini-companion-review-proposal (gemini-companion-view-new-file-review view))))
    (when (buffer-live-p proposal)
      (with-current-buffer proposal
        ;; What has ended stays read-only.
        (when (gemini-companion-review-open-p (gemini-companion-view-new-file-review view))
          (gemini-companion-new-file-mode -1))
        (gemini-companion-proposal-set-header nil)))))

(defun gemini-companion-view--header (review)
  "Return the header line for the proposal of REVIEW."
  (gemini-companion-proposal-header
   review nil
   `((gemini-companion-accept "accepts")
     (gemini-companion-reject "rejects")
     ,@(and gemini-companion-new-file-mode '((gemini-companion-new-file-edit "edits"))))))

(provide 'gemini-companion-view)
;;; gemini-companion-view.el ends here

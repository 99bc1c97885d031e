;;; gemini-companion-ediff.el --- A review in Ediff -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows a review in Ediff: the file as it is now in buffer A, read-only, the proposal in buffer
;; B, to be edited, and if wanted the text from which it was made in buffer C.  Ediff's options
;; are set for this session alone, and the windows are laid out by ourselves, so that the window
;; in which the user types can stay.

;;; Code:

(require 'diff-mode)
(require 'ediff)
(require 'gemini-companion-decide)
(require 'gemini-companion-proposal)
(require 'gemini-companion-review)
(require 'gemini-companion-view)

(defconst gemini-companion-ediff--diff-options "--text"
  "Options for diff and diff3.
All that differs is shown, whatever the user's own comparisons leave out,
and a text with NUL is still a text.")

(defconst gemini-companion-ediff--faces
  '((A . ((ediff-even-diff-A . gemini-companion-removed)
          (ediff-odd-diff-A . gemini-companion-removed)))
    (B . ((ediff-even-diff-B . gemini-companion-added)
          (ediff-odd-diff-B . gemini-companion-added))))
  "Ediff's faces for differences that are not selected, and what stands for them.
Ediff's own are grey in grey.")

(defface gemini-companion-removed
  '((t :inherit diff-removed))
  "Face for text that an accept removes."
  :group 'gemini-companion
  :package-version '(gemini-companion . "0.2.0"))

(defface gemini-companion-added
  '((t :inherit diff-added))
  "Face for text that an accept adds."
  :group 'gemini-companion
  :package-version '(gemini-companion . "0.2.0"))

(cl-defstruct (gemini-companion-ediff
               (:include gemini-companion-view)
               (:constructor gemini-companion-ediff--make)
               (:copier nil))
  "A review shown in Ediff."
  (texts nil :documentation "The read-only buffers, of which A is the first.")
  (control nil :documentation "Ediff's control buffer.")
  (offered nil :documentation "Non-nil while the first difference is selected, not by the user.")
  (helpers nil :documentation "Buffers that Ediff made for the session, and names of some."))

;;;###autoload
(defun gemini-companion-ediff-show (review focus)
  "Show REVIEW in Ediff.  Return a function that takes it off the screen.
FOCUS is `keep' or `select', see `gemini-companion-diff-focus'.  A new
file is shown alone, for there is nothing to compare."
  (if (or (gemini-companion-proposal-file-p review)
          (gemini-companion-review-with-base review))
      (gemini-companion-ediff--show review focus)
    (gemini-companion-view-show-new-file review focus)))

(defun gemini-companion-ediff--show (review focus)
  "Show REVIEW in Ediff.  Return a function that takes it off the screen.
FOCUS is as in `gemini-companion-ediff-show'."
  (let ((view (gemini-companion-ediff--make
               :review review
               :texts (cons (gemini-companion-proposal-file-buffer review)
                            (and (gemini-companion-review-with-base review)
                                 (list (gemini-companion-proposal-base-buffer review))))))
        (proposal (gemini-companion-proposal-buffer review))
        (before (buffer-list)))
    (gemini-companion-view-begin view focus)
    (condition-case error
        ;; Ediff says for each text how far it is.
        (let ((inhibit-message t)
              (message-log-max nil))
          (gemini-companion-ediff--start view proposal))
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
  (gemini-companion-ediff--color view)
  (gemini-companion-ediff--offer-first-difference view)
  (gemini-companion-view-shown view)
  (gemini-companion-ediff--watch view))

(defun gemini-companion-ediff--color (view)
  "Show in color how the texts of VIEW differ, not only where."
  (with-current-buffer (gemini-companion-ediff-control view)
    (pcase-dolist (`(,type . ,faces) gemini-companion-ediff--faces)
      (with-current-buffer (ediff-get-buffer type)
        (setq-local face-remapping-alist
                    (append (mapcar (pcase-lambda (`(,face . ,other)) (list face other)) faces)
                            (seq-remove (lambda (it) (assq (car it) faces))
                                        face-remapping-alist)))))))

(defun gemini-companion-ediff--offer-first-difference (view)
  "Select the first difference of the texts of VIEW, and scroll them there."
  (with-current-buffer (gemini-companion-ediff-control view)
    (when (> ediff-number-of-differences 0)
      (ediff-unselect-and-select-difference 0 nil 'no-recenter)
      ;; The panel's shows what the one before has found out.
      (ediff-refresh-mode-lines)
      (pcase-dolist (`(,type . ,window) `((A . ,ediff-window-A) (B . ,ediff-window-B)
                                          (C . ,ediff-window-C)))
        (when (window-live-p window)
          (let ((start (ediff-get-diff-posn type 'beg 0)))
            ;; Comparing the words has moved it.
            (with-current-buffer (window-buffer window) (goto-char start))
            (set-window-point window start)
            (set-window-start window (gemini-companion-ediff--start-of-view window start)))))
      (setf (gemini-companion-ediff-offered view) t)
      (add-hook 'ediff-select-hook
                (lambda () (setf (gemini-companion-ediff-offered view) nil))
                nil t))))

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
  (let* ((control (setf (gemini-companion-ediff-control view) (current-buffer)))
         (area (gemini-companion-view-make-room view))
         (panel (gemini-companion-view-split-off view area (max window-min-height 3) 'below))
         (texts (seq-filter #'buffer-live-p
                            (list ediff-buffer-A ediff-buffer-B ediff-buffer-C)))
         (windows (gemini-companion-view-split view area (length texts))))
    (cl-mapc #'set-window-buffer windows texts)
    (gemini-companion-view-save-lines view windows)
    (setq ediff-brief-help-message-function #'gemini-companion-ediff--help
          ediff-multiframe nil
          ediff-window-A (nth 0 windows)
          ediff-window-B (nth 1 windows)
          ediff-window-C (nth 2 windows))
    (select-window panel)
    (ediff-setup-control-buffer control)))

;;;; While it is shown

(defun gemini-companion-ediff--adopt (view)
  "Make the current buffer, the control buffer of a new session, that of VIEW."
  (setf (gemini-companion-ediff-control view) (current-buffer)
        (gemini-companion-review-front (gemini-companion-ediff-review view)) (current-buffer))
  (setq gemini-companion-review-of-buffer (gemini-companion-ediff-review view))
  (setq-local ediff-actual-diff-options gemini-companion-ediff--diff-options
              ediff-actual-diff3-options gemini-companion-ediff--diff-options)
  (add-hook 'ediff-before-setup-windows-hook (gemini-companion-ediff--arranger view)
            nil t)
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map (make-composed-keymap gemini-companion-review-mode-map
                                                 (current-local-map)))
    (define-key map (kbd "q") #'gemini-companion-review-quit)
    (dolist (command '(ediff-copy-A-to-B ediff-copy-C-to-B))
      (let ((copier (gemini-companion-ediff--copier view command)))
        (define-key map (vector 'remap command) copier)))
    (use-local-map map)))

(defun gemini-companion-ediff--help ()
  "Return what the control panel says while Ediff's own help is hidden."
  (substitute-command-keys
   (concat "n p move"
           (if ediff-3way-job "  ab takes back" "  a takes back")
           "  \\<gemini-companion-review-mode-map>\\[gemini-companion-accept] accepts"
           "  \\[gemini-companion-reject] rejects  ? help")))

(defun gemini-companion-ediff--copier (view command)
  "Return a command for VIEW that does what COMMAND, one of Ediff's, does.
It changes the proposal, and a letter is soon typed by mistake: as long as
the user has not selected a difference, ask."
  (lambda (argument)
    (interactive "P")
    (when (or (not (gemini-companion-ediff-offered view))
              argument
              (y-or-n-p "Change the proposal at the selected difference? "))
      (setf (gemini-companion-ediff-offered view) nil)
      (funcall command argument))))

(defun gemini-companion-ediff--watch (view)
  "Notice when a part of VIEW is taken down by something else than a decision."
  (gemini-companion-view-watch view)
  (with-current-buffer (gemini-companion-ediff-control view)
    (add-hook 'ediff-quit-hook (gemini-companion-view-on-taken-down view) nil t)))

(cl-defmethod gemini-companion-view-buffers ((view gemini-companion-ediff))
  "Return the living buffers of VIEW that the user sees."
  (seq-filter #'buffer-live-p
              (cons (gemini-companion-ediff-control view)
                    (cons (gemini-companion-review-proposal
                           (gemini-companion-ediff-review view))
                          (gemini-companion-ediff-texts view)))))

;;;; Taking down

(defun gemini-companion-ediff--hide (view)
  "Take VIEW off the screen."
  (setf (gemini-companion-review-front (gemini-companion-ediff-review view)) nil)
  (let ((proposal (gemini-companion-review-proposal (gemini-companion-ediff-review view))))
    (gemini-companion-view-end view (lambda () (gemini-companion-ediff--end-session view)))
    (mapc #'gemini-companion-view-kill (gemini-companion-ediff-texts view))
    (when (buffer-live-p proposal)
      (with-current-buffer proposal
        (kill-local-variable 'face-remapping-alist)
        (remove-overlays)))))

(defun gemini-companion-ediff--end-session (view)
  "End the Ediff session of VIEW, in whatever state it is."
  (let ((control (gemini-companion-ediff-control view)))
    (gemini-companion-view-going view)
    (when (buffer-live-p control)
      (with-current-buffer control
        ;; What stands there deletes and selects windows, as do hooks of some users.
        (setq-local ediff-cleanup-hook nil
                    ediff-quit-hook nil
                    ediff-after-quit-hook-internal nil)
        ;; Signals if one of the texts was killed, and leaves the session half there.  Lays out
        ;; the windows anew if the user has changed one.
        (cl-letf ((ediff-grab-mouse nil)
                  ((symbol-function 'ediff-setup-windows) #'ignore))
          (ignore-errors (ediff-really-quit nil)))
        ;; That may have made one more.
        (gemini-companion-view-going view)
        (when (frame-live-p ediff-control-frame)
          (delete-frame ediff-control-frame))))
    (setq ediff-session-registry (delq control ediff-session-registry))
    (mapc #'gemini-companion-view-kill
          (cons control (gemini-companion-ediff-helpers view)))
    (unless (or ediff-session-registry
                (not (buffer-live-p ediff-registry-buffer))
                (get-buffer-window ediff-registry-buffer t))
      (kill-buffer ediff-registry-buffer))))

(cl-defmethod gemini-companion-view-going ((view gemini-companion-ediff))
  "Note the buffers that Ediff made for VIEW, while its control buffer lives."
  (let ((control (gemini-companion-ediff-control view)))
    (when (buffer-live-p control)
      (setf (gemini-companion-ediff-helpers view)
            (with-current-buffer control
              (list ediff-diff-buffer ediff-custom-diff-buffer ediff-fine-diff-buffer
                    ediff-tmp-buffer ediff-error-buffer ediff-msg-buffer
                    ediff-debug-buffer))))))

(defun gemini-companion-ediff--kill-new (before)
  "Kill Ediff's buffers that are not in the list BEFORE.
When it fails early it has told nobody of them."
  (dolist (buffer (seq-difference (buffer-list) before))
    (when (string-match-p "\\` ?\\*[Ee]diff" (or (buffer-name buffer) ""))
      (gemini-companion-view-kill buffer))))

(provide 'gemini-companion-ediff)
;;; gemini-companion-ediff.el ends here

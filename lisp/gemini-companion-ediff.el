;;; gemini-companion-ediff.el --- A review in Ediff -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows a review in Ediff: the file as it is now in buffer A, read-only, the proposal in buffer
;; B, to be edited.  Both are buffers of our own that visit no file, so that no save, hook or
;; local variable of the file comes into play.  Ediff's options are set for this session alone.

;;; Code:

(require 'ediff)
(require 'gemini-companion-review)

(defconst gemini-companion-ediff--side-by-side 140
  "Least width of a frame on which the two texts stand side by side.")

(defconst gemini-companion-ediff--max-fontified 1000000
  "Size in characters beyond which text is shown without a major mode.")

(defconst gemini-companion-ediff--text-modes '(prog-mode text-mode conf-mode)
  "Major modes for text; others may do anything with a client's.")

(defvar gemini-companion-review-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'gemini-companion-accept)
    (define-key map (kbd "C-c C-k") #'gemini-companion-reject)
    map)
  "Keys in the buffers of a review.")

(define-minor-mode gemini-companion-review-mode
  "Keys to decide the review to which this buffer belongs."
  :interactive nil
  :lighter " Review"
  :keymap gemini-companion-review-mode-map)

(cl-defstruct (gemini-companion-ediff
               (:constructor gemini-companion-ediff--make)
               (:copier nil))
  "What is on screen while a review is shown."
  (review nil :documentation "The review.")
  (control nil :documentation "Ediff's control buffer.")
  (helpers nil :documentation "Buffers that Ediff made for the session.")
  (current nil :documentation "The buffer with the file as it is.")
  (windows nil :documentation "The window configuration before."))

(defun gemini-companion-ediff-show (review)
  "Show REVIEW in Ediff.  Return a function that takes it off the screen."
  (let* ((proposal (gemini-companion-ediff--proposal review))
         (current (gemini-companion-ediff--current review proposal))
         (view (gemini-companion-ediff--make
                :review review :current current
                :windows (current-window-configuration))))
    (condition-case error
        (gemini-companion-ediff--start view current proposal)
      ((error quit)
       (gemini-companion-ediff--hide view)
       (signal (car error) (cdr error))))
    (lambda () (gemini-companion-ediff--hide view))))

(defun gemini-companion-ediff--start (view current proposal)
  "Start Ediff on the buffers CURRENT and PROPOSAL for VIEW."
  (gemini-companion-ediff--leave-odd-window)
  ;; These become local in the control buffer, so the session keeps them.
  (let ((ediff-window-setup-function #'ediff-setup-windows-plain)
        (ediff-split-window-function
         (if (>= (frame-width) gemini-companion-ediff--side-by-side)
             #'split-window-horizontally
           #'split-window-vertically))
        (ediff-use-long-help-message nil)
        (ediff-keep-variants t))
    (ediff-buffers current proposal
                   (list (lambda () (gemini-companion-ediff--adopt view)))))
  (gemini-companion-ediff--watch view current)
  (gemini-companion-ediff--watch view proposal))

(defun gemini-companion-ediff--leave-odd-window ()
  "Select a window that can become the only one of its frame."
  (when (or (window-parameter nil 'window-side) (window-minibuffer-p))
    (when-let ((window (seq-find (lambda (window)
                                   (not (window-parameter window 'window-side)))
                                 (window-list nil 'no-minibuffer))))
      (select-window window))))

(defun gemini-companion-ediff--adopt (view)
  "Make the current buffer, the control buffer of a new session, that of VIEW."
  (setf (gemini-companion-ediff-control view) (current-buffer))
  (setq gemini-companion-review--of-buffer (gemini-companion-ediff-review view))
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map (make-composed-keymap gemini-companion-review-mode-map
                                                 (current-local-map)))
    (define-key map (kbd "q") #'gemini-companion-ediff-quit)
    (use-local-map map))
  (add-hook 'ediff-quit-hook (gemini-companion-ediff--postponer view) nil t)
  (gemini-companion-ediff--watch view (current-buffer)))

(defun gemini-companion-ediff--watch (view buffer)
  "Postpone the review of VIEW when BUFFER, one of its buffers, is killed."
  (with-current-buffer buffer
    (add-hook 'kill-buffer-hook (gemini-companion-ediff--postponer view) nil t)))

(defun gemini-companion-ediff--postponer (view)
  "Return a function that postpones the review of VIEW, for a hook.
The hook runs while Ediff or Emacs takes something down, so the rest is
taken down a moment later."
  (lambda ()
    (let ((review (gemini-companion-ediff-review view)))
      (gemini-companion-ediff--note-helpers view)
      (gemini-companion-ediff--keep-text review)
      (when (gemini-companion-review-hide review)
        (run-at-time 0 nil #'gemini-companion-review-postpone review)))))

(defun gemini-companion-ediff--keep-text (review)
  "Keep what the proposal of REVIEW says, in case its buffer is killed."
  (setf (gemini-companion-review-text review)
        (gemini-companion-review-current-text review)))

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
  (let ((proposal (gemini-companion-review-proposal (gemini-companion-ediff-review view)))
        (windows (if (gemini-companion-ediff--on-screen-p view)
                     (gemini-companion-ediff-windows view)
                   (current-window-configuration))))
    (gemini-companion-ediff--unwatch view)
    (gemini-companion-ediff--end-session view)
    ;; Ediff leaves the two texts on screen.
    (ignore-errors (set-window-configuration windows))
    (gemini-companion-ediff--kill (gemini-companion-ediff-current view))
    (when (buffer-live-p proposal)
      (with-current-buffer proposal (remove-overlays)))))

(defun gemini-companion-ediff--on-screen-p (view)
  "Return non-nil if a buffer of VIEW is still in a window of its frame.
If the user has put something else there, that is left alone."
  (let ((frame (window-configuration-frame (gemini-companion-ediff-windows view)))
        (review (gemini-companion-ediff-review view)))
    (and (frame-live-p frame)
         (seq-some (lambda (buffer)
                     (and (buffer-live-p buffer) (get-buffer-window buffer frame)))
                   (list (gemini-companion-ediff-control view)
                         (gemini-companion-ediff-current view)
                         (gemini-companion-review-proposal review))))))

(defun gemini-companion-ediff--unwatch (view)
  "Let the buffers of VIEW be killed without further ado."
  (dolist (buffer (list (gemini-companion-ediff-control view)
                        (gemini-companion-ediff-current view)
                        (gemini-companion-review-proposal
                         (gemini-companion-ediff-review view))))
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (kill-local-variable 'kill-buffer-hook)))))

(defun gemini-companion-ediff--end-session (view)
  "End the Ediff session of VIEW, in whatever state it is."
  (let ((control (gemini-companion-ediff-control view)))
    (gemini-companion-ediff--note-helpers view)
    (when (buffer-live-p control)
      (with-current-buffer control
        (kill-local-variable 'ediff-quit-hook)
        ;; Signals if one of the two texts was killed, and leaves the session half there.
        (ignore-errors (ediff-really-quit nil))))
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

(defun gemini-companion-ediff--kill (buffer)
  "Kill BUFFER, if it is one and alive, without a question."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer (set-buffer-modified-p nil))
    (kill-buffer buffer)))

;;;; The two texts

(defun gemini-companion-ediff--proposal (review)
  "Return the buffer with the proposal of REVIEW, made if needed."
  (let ((buffer (gemini-companion-review-proposal review)))
    (if (buffer-live-p buffer)
        buffer
      (setq buffer (gemini-companion-ediff--make-buffer review "proposal"))
      (with-current-buffer buffer
        (insert (gemini-companion-review-text review))
        (gemini-companion-ediff--prepare
         review "\\<gemini-companion-review-mode-map>Proposal, edit at will  \
\\[gemini-companion-accept] accepts this text  \\[gemini-companion-reject] rejects it")
        (buffer-enable-undo))
      (setf (gemini-companion-review-proposal review) buffer))))

(defun gemini-companion-ediff--current (review proposal)
  "Return a new buffer with the file of REVIEW as it is now.
Line ends are read as those of PROPOSAL, a buffer: clients propose LF for
a file with CRLF, and write CRLF again."
  (let* ((file (gemini-companion-review-path review))
         (file-name-handler-alist nil)
         (new (not (file-exists-p file)))
         (inhibit-eol-conversion
          (with-current-buffer proposal
            (save-excursion
              (goto-char (point-min))
              (and (search-forward "\r\n" nil t) t))))
         (buffer (gemini-companion-ediff--make-buffer review "current")))
    (with-current-buffer buffer
      (unless new
        (let ((format-alist nil)
              (after-insert-file-functions nil)
              (enable-local-variables nil))
          (insert-file-contents file)))
      (gemini-companion-ediff--prepare
       review (concat "\\<gemini-companion-review-mode-map>"
                      (if new "New file" "File on disk") "  "
                      "\\[gemini-companion-accept] accepts the proposal  "
                      "\\[gemini-companion-reject] rejects it"))
      (setq buffer-read-only t))
    buffer))

(defun gemini-companion-ediff--make-buffer (review part)
  "Return a new buffer named after the file of REVIEW and PART."
  (generate-new-buffer
   (format "*gemini %s: %s*" part (gemini-companion-review-file review))))

(defun gemini-companion-ediff--prepare (review header)
  "Set up the current buffer for REVIEW: looks, keys and HEADER, its header line."
  (set-buffer-modified-p nil)
  (goto-char (point-min))
  (gemini-companion-ediff--set-major-mode (gemini-companion-review-path review))
  (setq gemini-companion-review--of-buffer review)
  (setq-local header-line-format
              (concat " " (string-replace "%" "%%" (substitute-command-keys header))))
  (gemini-companion-review-mode))

(defun gemini-companion-ediff--set-major-mode (path)
  "Give the current buffer the looks of the file PATH.
No hooks run, which could start servers, and no local variables are read:
the text is a client's."
  (when-let ((mode (and (<= (buffer-size) gemini-companion-ediff--max-fontified)
                        (gemini-companion-ediff--major-mode path))))
    (condition-case error
        (progn
          (delay-mode-hooks (funcall mode))
          (setq-local delayed-mode-hooks nil)
          (font-lock-mode 1))
      (error
       (fundamental-mode)
       (gemini-companion-log-add "%s: %s" mode (error-message-string error))))))

(defun gemini-companion-ediff--major-mode (path)
  "Return the major mode for PATH if it is one for text, by its name alone."
  (let ((mode (assoc-default (file-name-nondirectory path) auto-mode-alist
                             #'gemini-companion-ediff--matches-p)))
    (when (and mode (symbolp mode) (fboundp mode))
      (autoload-do-load (symbol-function mode) mode)
      (and (apply #'provided-mode-derived-p mode gemini-companion-ediff--text-modes)
           mode))))

(defun gemini-companion-ediff--matches-p (pattern name)
  "Return non-nil if PATTERN, a key of `auto-mode-alist', fits the file name NAME."
  (let ((case-fold-search nil))
    (string-match-p pattern name)))

(provide 'gemini-companion-ediff)
;;; gemini-companion-ediff.el ends here

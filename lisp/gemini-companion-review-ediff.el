;;; gemini-companion-review-ediff.el --- A review in Ediff -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows a review in Ediff: the file as it is now in buffer A, read-only; the proposal in buffer B,
;; editable; and, if wanted, the text from which it was made in buffer C.  Ediff's options are set
;; for this session only.  The native module finds the differences, without files and within a
;; limit of time; in the selected one, Ediff has diff, if installed, find the words.  We arrange the
;; windows ourselves, so that the window in which the user types can stay.

;;; Code:

(require 'ediff)
(require 'gemini-companion-comment)
(require 'gemini-companion-heavy)
(require 'gemini-companion-review)
(require 'gemini-companion-review-buffer)
(require 'gemini-companion-review-commands)
(require 'gemini-companion-review-window)
(require 'gemini-companion-ui)

(defconst gemini-companion-review-ediff--faces
  '((ediff-even-diff-A gemini-companion-removed)
    (ediff-odd-diff-A gemini-companion-removed)
    (ediff-current-diff-A gemini-companion-removed-current)
    (ediff-fine-diff-A gemini-companion-removed-word)
    (ediff-even-diff-B gemini-companion-added)
    (ediff-odd-diff-B gemini-companion-added)
    (ediff-current-diff-B gemini-companion-added-current)
    (ediff-fine-diff-B gemini-companion-added-word))
  "Ediff's faces for differences, and their replacements.
Ediff's own are gray on gray where a difference is not selected.")

(defconst gemini-companion-review-ediff--commands
  '((gemini-companion-review-ediff-show-keys
     ediff-toggle-help ediff-help-for-quick-help ediff-documentation)
    (gemini-companion-review-quit ediff-suspend)
    (gemini-companion-review-ediff-turn ediff-toggle-split)
    (gemini-companion-review-ediff-drop ediff-copy-A-to-B ediff-copy-C-to-B)
    (undefined
     ediff-toggle-wide-display ediff-toggle-multiframe ediff-swap-buffers ediff-save-buffer
     ediff-show-diff-output ediff-show-registry ediff-show-current-session-meta-buffer
     ediff-submit-report ediff-status-info ediff-inferior-compare-regions))
  "Alist of commands, and those of Ediff whose keys they take in the panel.
Some of Ediff's take windows of the user, or save a buffer without a file.")

(cl-defstruct (gemini-companion-review-ediff--view
               (:include gemini-companion-review-window)
               (:constructor gemini-companion-review-ediff--make)
               (:conc-name gemini-companion-review-ediff--)
               (:copier nil))
  "A review shown in Ediff, whose control buffer is the main one.
The others are the buffers A and, if there is one, C, both read-only."
  (turned nil :documentation "Non-nil if the user has changed whether windows are side by side.")
  (offered nil :documentation "Non-nil if a difference is selected, but not by the user."))

;;;; Starting Ediff

;;;###autoload
(defun gemini-companion-review-ediff-show (review focus)
  "Show REVIEW in Ediff.  Return a function that takes it off the screen.
FOCUS is `keep' or `select', see `gemini-companion-diff-focus'."
  (gemini-companion-review-window-show (gemini-companion-review-ediff--make :review review) focus))

(cl-defmethod gemini-companion-review-window-start ((view gemini-companion-review-ediff--view))
  "Start Ediff for VIEW."
  (let* ((review (gemini-companion-review-window-review view))
         ;; Ediff reports its progress.
         (inhibit-message t)
         (message-log-max nil)
         (current (gemini-companion-review-buffer-file-buffer review)) ; this may fail
         (proposal (gemini-companion-review-buffer-proposal review))
         (point (with-current-buffer proposal (point)))) ; Ediff moves it
    (setf (gemini-companion-review-window-others view)
          (cons current
                (and (gemini-companion-review-with-base review)
                     (list (gemini-companion-review-buffer-base-buffer review)))))
    (gemini-companion-review-ediff--start proposal (gemini-companion-review-window-others view))
    (dolist (buffer (cdr (gemini-companion-review-window-buffers view)))
      (with-current-buffer buffer
        (setq-local face-remapping-alist
                    (append gemini-companion-review-ediff--faces face-remapping-alist))))
    (gemini-companion-review-ediff--select-near view point)))

(defun gemini-companion-review-ediff--start (proposal others)
  "Start an Ediff session that compares PROPOSAL with OTHERS."
  ;; Where the user is, the options may have buffer-local values.
  (with-current-buffer proposal
    (cl-letf ((ediff-before-setup-windows-hook
               (list #'gemini-companion-review-ediff--arrange))
              ;; Users save the windows there, and restore them after a session of their own.
              (ediff-before-setup-hook nil)
              ;; These become local in the control buffer, so the session keeps them.
              (ediff-window-setup-function #'ediff-setup-windows-plain)
              (ediff-use-long-help-message nil)
              (ediff-keep-variants t)
              ;; The proposal is there to be edited.
              (ediff-make-buffers-readonly-at-startup nil)
              ;; Not the variable for these, which Ediff sets just before it calls its value.
              ((symbol-function 'ediff-setup-diff-regions)
               #'gemini-companion-review-ediff--compare)
              ((symbol-function 'ediff-setup-diff-regions3)
               #'gemini-companion-review-ediff--compare)
              (startup (list #'gemini-companion-review-ediff--set-up-control)))
      ;; Not `ediff-buffers', which writes the texts to files for diff.
      (pcase-let ((`(,current ,base) others))
        (ediff-setup current "" proposal "" base (and base "") startup
                     `((ediff-job-name . ,(if base 'ediff-buffers3 'ediff-buffers))))))))

(defun gemini-companion-review-ediff--set-up-control ()
  "Set up the current buffer, the control buffer of the session."
  (setq gemini-companion-review-of-buffer
        (gemini-companion-review-window-review gemini-companion-review-window-current)
        gemini-companion-comment-place-function #'gemini-companion-review-ediff--comment-place)
  (gemini-companion-ui-omit-line-numbers)
  (setq-local ediff-actual-diff-options "--text" ; all differences, and files with NUL, too
              ediff-actual-diff3-options "--text"
              ediff-setup-diff-regions-function #'gemini-companion-review-ediff--compare)
  (unless (executable-find ediff-diff-program)
    (setq ediff-auto-refine 'off))
  (when ediff-buffer-C
    (with-current-buffer ediff-buffer-C
      ;; Ediff would let the user merge the others there.
      (setq buffer-read-only t)))
  (add-hook 'ediff-before-setup-windows-hook #'gemini-companion-review-ediff--arrange nil t)
  (add-hook 'ediff-quit-hook #'gemini-companion-review-window-dismiss-soon nil t)
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map (make-composed-keymap gemini-companion-review-mode-map
                                                 (current-local-map)))
    (define-key map (kbd "q") #'gemini-companion-review-quit)
    (define-key map (kbd "e") #'gemini-companion-review-ediff-edit)
    (pcase-dolist (`(,ours . ,commands) gemini-companion-review-ediff--commands)
      (dolist (command commands)
        (define-key map (vector 'remap command) ours)))
    (use-local-map map)))

(defun gemini-companion-review-ediff--comment-place (&rest _)
  "Return where the selected difference is in the proposal.
See `gemini-companion-comment-place-function'."
  (unless (ediff-valid-difference-p)
    (user-error "No difference is selected"))
  (let ((start (ediff-get-diff-posn 'B 'beg)))
    (with-current-buffer ediff-buffer-B
      (gemini-companion-ui-widened
        (let ((line (line-number-at-pos start)))
          (list (current-buffer) line line nil))))))

(defun gemini-companion-review-ediff-show-keys ()
  "Describe the keys of the control panel in the echo area."
  (interactive nil ediff-mode)
  ;; A terminal of 24 lines shows no more than five.
  (message "%s" (format "\
n p      next, previous difference   %-2s       drop the difference   v V  scroll
e !      edit, then compare again    |        side by side, or stacked
C-c ;    comment on the difference   C-c C-e  merge edits that are missing
C-c C-c  accept                      C-c C-k  reject   q  decide, now or later
C-c C-a  accept all of the turn      C-c C-v  the other view   C-c C-t  3-way"
                        (if ediff-3way-job "ab" "a"))))

(defun gemini-companion-review-ediff--check ()
  "Signal a `user-error' if the user has called a command outside of our panel."
  (gemini-companion-review-check-here
   (and (derived-mode-p 'ediff-mode) gemini-companion-review-of-buffer)))

(defun gemini-companion-review-ediff-edit ()
  "Select the proposed text so that you can edit it."
  (interactive (gemini-companion-review-ediff--check) ediff-mode)
  (unless (window-live-p ediff-window-B)
    (ediff-recenter 'no-rehighlight))
  (select-window ediff-window-B)
  (message "%s" (substitute-command-keys "Edit the proposed text; \\[gemini-companion-accept] \
accepts it, \\[gemini-companion-review-next] goes back")))

(defun gemini-companion-review-ediff-turn ()
  "Show the texts side by side, or one above the other if they are side by side."
  (interactive (gemini-companion-review-ediff--check) ediff-mode)
  (cl-callf not (gemini-companion-review-ediff--turned gemini-companion-review-window-current))
  (setq ediff-window-config-saved "")   ; have Ediff arrange the windows
  (ediff-recenter))

(defun gemini-companion-review-ediff-drop (argument)
  "Drop the current difference, or with a prefix argument that of number ARGUMENT.
Ask first if you have not selected one: the letter is easily typed by mistake."
  (interactive (prog1 (list current-prefix-arg) (gemini-companion-review-ediff--check)) ediff-mode)
  (let ((view gemini-companion-review-window-current))
    (unless (or argument (ediff-valid-difference-p))
      (user-error "No difference is selected"))
    (when (or (not (gemini-companion-review-ediff--offered view))
              argument
              (gemini-companion-review-ask
               (gemini-companion-review-window-review view)
               (lambda () (y-or-n-p "Drop the current difference? "))))
      (setf (gemini-companion-review-ediff--offered view) nil)
      (funcall (if (eq this-original-command #'ediff-copy-C-to-B) this-original-command
                 #'ediff-copy-A-to-B)
               argument)
      ;; Ediff's last word is that what is left differs in white space.
      (message "Difference %d is dropped; r b brings it back" (1+ ediff-current-difference)))))

;;;; Comparing

(defun gemini-companion-review-ediff--compare (&rest _files)
  "Find the differences for the current buffer, the control buffer of a session."
  ;; First, since comparing takes long, and the user may quit.
  (add-hook 'kill-buffer-hook #'gemini-companion-review-ediff--kill-helpers nil t)
  (setf (gemini-companion-review-window-main gemini-companion-review-window-current)
        (current-buffer))
  (let* ((buffers (delq nil (list ediff-buffer-A ediff-buffer-B ediff-buffer-C)))
         (review (buffer-local-value 'gemini-companion-review-of-buffer ediff-buffer-B))
         (regions (apply #'gemini-companion-review-call-once
                         review #'gemini-companion-change-regions
                         (mapcar #'gemini-companion-review-text-of-buffer buffers)))
         (positions (cl-loop for buffer in buffers
                             for slot from 0 by 2
                             collect
                             (gemini-companion-review-buffer-positions buffer regions slot))))
    (ediff-convert-diffs-to-overlays
     (cons 'points
           (apply #'cl-mapcar
                  (lambda (region a b &optional c)
                    (vector (car a) (cdr a) (car b) (cdr b) (car c) (cdr c)
                            nil nil (and (aref region 6) (nth (aref region 6) '(A B C))) nil nil))
                  (append regions nil) positions)))))

;;;; Windows

(defun gemini-companion-review-ediff--arrange ()
  "Display the buffers of the Ediff session on screen, for a hook of Ediff.
Ediff runs that in the control buffer, and then leaves such windows alone."
  (unless (ediff-keep-window-config (current-buffer))
    (let* ((view gemini-companion-review-window-current)
           (control (current-buffer))
           (buffers (seq-filter #'buffer-live-p
                                (list ediff-buffer-A ediff-buffer-B ediff-buffer-C)))
           (windows (condition-case nil
                        (gemini-companion-review-ediff--display view control buffers)
                      ;; There is no room where the user wants it, as in a side window.
                      (error (let ((display-buffer-alist nil))
                               (gemini-companion-review-ediff--display view control buffers))))))
      (setq ediff-brief-help-message-function
            (lambda ()
              (format "n p move  %s drops  e edits  q decides  ? help"
                      (if ediff-3way-job "ab" "a")))
            ediff-multiframe nil
            ediff-window-A (nth 1 windows)
            ediff-window-B (nth 2 windows)
            ediff-window-C (nth 3 windows))
      (select-window (car windows))
      (cl-letf ((switch-to-buffer-obey-display-actions nil)
                ;; Indented, the text would go out of sight in a frame that becomes narrower.
                ((symbol-function 'ediff-indent-help-message) #'ignore))
        (ediff-setup-control-buffer control))
      ;; Commands that balance windows, as Evil's do when one is closed, leave it alone then.
      (window-preserve-size (car windows) nil t))))

(defun gemini-companion-review-ediff--display (view control buffers)
  "Display CONTROL and BUFFERS of VIEW, and return their windows."
  (let ((area (gemini-companion-review-window-display view (car buffers))))
    ;; Emacs does not split side windows, and Doom splits another window in their place.
    (when (window-parameter area 'window-side)
      (error "Cannot split a side window"))
    (cons (gemini-companion-review-window-make
           (split-window area (- (max window-min-height 3)) 'below) control)
          (gemini-companion-review-window-split area buffers
                                                (gemini-companion-review-ediff--turned view)))))

(defun gemini-companion-review-ediff--select-near (view point)
  "Select the difference in VIEW near POINT of the proposal, and scroll there."
  (with-current-buffer (gemini-companion-review-window-main view)
    (when (> ediff-number-of-differences 0)
      (let ((near (max 0 (1- (ediff-diff-at-point 'B point)))))
        (condition-case nil
            (ediff-unselect-and-select-difference near nil 'no-recenter)
          ;; It compares words by files, for which there may be no room.
          (file-error
           (setq ediff-auto-refine 'off)
           (ediff-unselect-and-select-difference near nil 'no-recenter))))
      ;; Only now, since comparing the words moves point.
      (gemini-companion-review-ediff--scroll-to-difference)
      (gemini-companion-review-ediff--show-difference)
      (add-hook 'ediff-select-hook #'gemini-companion-review-ediff--show-difference nil t)
      (setf (gemini-companion-review-ediff--offered view) t)
      (add-hook 'ediff-select-hook
                (lambda () (setf (gemini-companion-review-ediff--offered view) nil))
                nil t))))

(defun gemini-companion-review-ediff--scroll-to-difference ()
  "Show the selected difference in the middle of its windows.
`ediff-recenter' would force redisplay to begin at the line that it finds,
though a package may make the windows smaller before that."
  (pcase-dolist (`(,type . ,window) `((A . ,ediff-window-A) (B . ,ediff-window-B)
                                      (C . ,ediff-window-C)))
    (when (window-live-p window)
      (let ((start (ediff-get-diff-posn type 'beg))
            (end (ediff-get-diff-posn type 'end)))
        (with-selected-window window
          (goto-char start)
          (recenter (/ (max 0 (- (window-body-height)
                                 (gemini-companion-review-window-count-lines start end)))
                       2))))))
  (ediff-refresh-mode-lines))

(defun gemini-companion-review-ediff--show-difference ()
  "Show where the selected difference begins, which may be far into a long line."
  (pcase-let* ((bounds (lambda (type) (list (ediff-get-buffer type)
                                            (ediff-get-diff-posn type 'beg)
                                            (ediff-get-diff-posn type 'end))))
               (`(,a . ,b) (apply #'gemini-companion-heavy-difference
                                  (append (funcall bounds 'A) (funcall bounds 'B)))))
    (pcase-dolist (`(,window . ,position) `((,ediff-window-A . ,a) (,ediff-window-B . ,b)))
      (when (window-live-p window)
        (with-selected-window window
          (gemini-companion-review-window-go-into-line position))))))

;;;; Ending Ediff

(cl-defmethod gemini-companion-review-window-clean-up ((view gemini-companion-review-ediff--view))
  "End the Ediff session of VIEW, and remove its traces from the proposal."
  (save-selected-window
    (gemini-companion-review-ediff--end-session (gemini-companion-review-window-main view)))
  (when-let* ((proposal (gemini-companion-review-window-proposal view)))
    (with-current-buffer proposal
      (cl-callf seq-difference face-remapping-alist gemini-companion-review-ediff--faces)
      (mapc #'delete-overlay (seq-filter (lambda (it) (overlay-get it 'ediff-diff-num))
                                         (overlays-in (point-min) (point-max)))))))

(defun gemini-companion-review-ediff--end-session (control)
  "End the Ediff session with the buffer CONTROL, whatever its state."
  (when (buffer-live-p control)
    (with-current-buffer control
      ;; These delete and select windows, and so may the hooks of users.
      (setq-local ediff-cleanup-hook nil
                  ediff-quit-hook nil
                  ediff-after-quit-hook-internal nil)
      ;; This signals an error halfway if one of the other buffers was killed.  It arranges the
      ;; windows if the user has changed one.
      (cl-letf ((ediff-grab-mouse nil)
                (kill-buffer-query-functions nil)
                ((symbol-function 'ediff-setup-windows) #'ignore))
        (ignore-errors (ediff-really-quit nil)))))
  (setq ediff-session-registry (delq control ediff-session-registry))
  (gemini-companion-ui-kill-buffer control)
  (unless (or ediff-session-registry
              (not (buffer-live-p ediff-registry-buffer))
              (get-buffer-window ediff-registry-buffer t))
    (gemini-companion-ui-kill-buffer ediff-registry-buffer)))

(defun gemini-companion-review-ediff--kill-helpers ()
  "Kill the buffers that Ediff made for the session of the current buffer."
  (mapc #'gemini-companion-ui-kill-buffer
        (list ediff-diff-buffer ediff-custom-diff-buffer ediff-fine-diff-buffer
              ediff-tmp-buffer ediff-error-buffer ediff-msg-buffer ediff-debug-buffer)))

(provide 'gemini-companion-review-ediff)
;;; gemini-companion-review-ediff.el ends here

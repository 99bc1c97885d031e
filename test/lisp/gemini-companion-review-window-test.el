;;; gemini-companion-review-window-test.el --- Tests of the windows of a review  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What holds for all views: where `display-buffer-alist' puts them, and what the user does with
;; their windows.

;;; Code:

(require 'ert)
(require 'tab-bar)
(require 'gemini-companion-test-companion)

(defconst gemini-companion-review-window-test--views
  '((gemini-companion-review-ediff-show "a.txt" "2\n")
    (gemini-companion-review-inline-show "a.txt" "2\n")
    (gemini-companion-review-ediff-show "new.txt" "new\n"))
  "Views, each with a file and the text that is proposed for it.")

(defmacro gemini-companion-review-window-test--each (review focus &rest body)
  "Evaluate BODY with REVIEW shown in each view in turn, with FOCUS.
WINDOWS are those before.  The frame shows a.txt beside *scratch*, and
`display-buffer-alist' may be bound around this.  All reviews are of one
client."
  (declare (indent 2) (debug (symbolp form body)))
  `(gemini-companion-test-with-client client
     (pcase-dolist (`(,view ,name ,text) gemini-companion-review-window-test--views)
       (ert-info ((format "%s %s" view name))
         (delete-other-windows)
         (switch-to-buffer "a.txt")
         (set-window-buffer (split-window-right) "*scratch*")
         (let* ((gemini-companion-diff-function view)
                (tab-bar-show nil)
                (windows (gemini-companion-review-window-test--windows))
                (,review (gemini-companion-test-propose client name text)))
           (gemini-companion-review-show ,review ,focus)
           ,@body)))))

(defun gemini-companion-review-window-test--windows ()
  "Return all of the frame that a review changes."
  (list (selected-window)
        (mapcar (lambda (window)
                  (list window (window-buffer window) (window-edges window)
                        (window-start window) (window-point window)
                        (window-dedicated-p window)))
                (window-list nil 'no-minibuffer))))

(defun gemini-companion-review-window-test--shown (review)
  "Return the windows of REVIEW on the selected frame."
  (seq-filter (lambda (window)
                (eq review (buffer-local-value 'gemini-companion-review-of-buffer
                                               (window-buffer window))))
              (window-list nil 'no-minibuffer)))

(defun gemini-companion-review-window-test--own-functions ()
  "Return the functions of the files of views."
  (let ((functions nil))
    (mapatoms (lambda (symbol)
                (when (and (functionp symbol)
                           (string-match-p "\\`gemini-companion-\\(?:change\\|heavy\\|review\\)-"
                                           (symbol-name symbol))
                           (not (get symbol 'side-effect-free)) ; of a structure
                           (not (autoloadp (symbol-function symbol))))
                  (push symbol functions))))
    functions))

;; With a side window, Emacs takes the last of several windows for the main one if they are children
;; of the root, as they become when the only window beside them is deleted.
(ert-deftest gemini-companion-review-window/beside-a-side-window-a-change-finds-room ()
  (pcase-dolist (`(,view ,name ,text) gemini-companion-review-window-test--views)
    (pcase-dolist (`(,flat ,window-combination-resize ,keeps)
                   '((nil nil) (t nil) (t t)
                     (nil nil preserved) (t nil preserved) (t t preserved) (t nil fixed)))
      (ert-info ((format "%s %s %s %s" view name flat keeps))
        (gemini-companion-test-with-client client
          (delete-other-windows)
          (switch-to-buffer "a.txt")
          (display-buffer-in-side-window (get-buffer-create "*scratch*")
                                         `((side . bottom) (window-height . ,(if keeps 12 5))))
          (let ((other (and flat (split-window-right)))
                (lower (split-window-below))
                (gemini-companion-diff-function view))
            (when flat
              (delete-window other))
            ;; As `preserve-size' in an entry of `display-buffer-alist' does.
            (window-preserve-size nil nil (eq keeps 'preserved))
            (setq-local window-size-fixed (eq keeps 'fixed))
            (let ((before (gemini-companion-review-window-test--windows))
                  (review (gemini-companion-test-propose client name text)))
              (gemini-companion-review-show review 'keep)
              (should (gemini-companion-review-window-test--shown review))
              (gemini-companion-reject)
              (should (equal (gemini-companion-review-window-test--windows) before))
              (should (eq flat (eq lower (window-main-window)))))))))))

(ert-deftest gemini-companion-review-window/a-quit-at-any-time-leaves-nothing-on-screen ()
  "The user may press \\`C-g' for something else while a change appears."
  (gemini-companion-review-window-test--each review 'keep
    (gemini-companion-review-postpone review)
    (let* ((functions (gemini-companion-review-window-test--own-functions))
           (calls 0)
           (last 0)
           (quits 0)
           (count (lambda (&rest _)
                    (unless inhibit-quit
                      (when (= last (cl-incf calls)) (signal 'quit nil)))))
           (buffers (lambda ()
                      (seq-filter (lambda (name) (string-match-p "gemini [a-z]+:\\|Ediff" name))
                                  (mapcar #'buffer-name (buffer-list)))))
           (before (funcall buffers))
           (shown nil))
      (unwind-protect
          (progn
            (dolist (function functions) (advice-add function :before count))
            (while (not shown)
              (setq calls 0
                    last (+ last 5))
              (ignore-error quit
                (gemini-companion-review-show review 'keep))
              (let ((inhibit-quit t))
                (unless (setq shown (gemini-companion-review-shown-p review))
                  (cl-incf quits)
                  (should (eq (gemini-companion-review-state review) 'postponed))
                  (should-not gemini-companion-review-window-current)
                  (should (equal (gemini-companion-review-window-test--windows) windows))
                  (should-not (seq-difference (funcall buffers) before))))))
        (dolist (function functions) (advice-remove function count)))
      (should (> quits 5)))))

(ert-deftest gemini-companion-review-window/a-prompt-that-has-closed-is-not-selected-again ()
  (gemini-companion-review-window-test--each review 'select
    (should windows)
    (setf (gemini-companion-review-window-selected gemini-companion-review-window-current)
          (minibuffer-window))
    (gemini-companion-review-reject review)
    (should-not (minibufferp (window-buffer)))))

(ert-deftest gemini-companion-review-window/a-hook-that-fails-keeps-no-change-from-the-screen ()
  (let ((gemini-companion-review-mode-hook (list (lambda () (error "Not today")))))
    (gemini-companion-review-window-test--each review 'select
      (should windows)
      (should (gemini-companion-review-intact-p review))
      (with-current-buffer (gemini-companion-review-proposal review)
        (should (eq (key-binding (kbd "C-c C-k")) #'gemini-companion-reject)))
      (gemini-companion-review-reject review))))

;;;; Where it is shown

(defun gemini-companion-review-window-test--display-full-frame (buffer _alist)
  "Display BUFFER in the selected window, and delete all others.
Emacs 29 has `display-buffer-full-frame'."
  (delete-other-windows)
  (set-window-buffer nil buffer)
  (selected-window))

(ert-deftest gemini-companion-review-window/users-choose-where-it-is-shown ()
  (dolist (focus '(keep select))
    (pcase-dolist (`(,action . ,window-p)
                   `(((display-buffer-in-direction (direction . right) (window . root))
                      . ,(lambda (window) (= (nth 2 (window-edges window)) (frame-width))))
                     ((display-buffer-in-side-window (side . bottom) (window-height . 16))
                      . ,(lambda (window) (eq (window-parameter window 'window-side) 'bottom)))
                     ((display-buffer-use-some-window)
                      . ,(lambda (window) (> (window-left-column window) 0)))
                     ((gemini-companion-review-window-test--display-full-frame)
                      . ,(lambda (window) (= (window-left-column window) 0)))
                     ((display-buffer-same-window)
                      . ,(lambda (window) (= (window-left-column window) 0)))))
      (let ((display-buffer-alist `(("\\`\\*gemini " ,@action))))
        (ert-info ((format "%S" action))
          (gemini-companion-review-window-test--each review focus
            (let ((shown (gemini-companion-review-window-test--shown review)))
              (should shown)
              (unless (or (cdr shown)   ; Ediff, which cannot be everywhere
                          (cl-some window-p shown))
                (ert-fail shown)))
            (should (gemini-companion-review-intact-p review))
            (gemini-companion-review-reject review)
            (should (equal (gemini-companion-review-window-test--windows) windows))))))))

(ert-deftest gemini-companion-review-window/a-window-dedicated-to-it-is-given-back ()
  "In Emacs 30, \\`C-x w d' dedicates it."
  (let ((display-buffer-alist '(("\\`\\*gemini " display-buffer-same-window))))
    (gemini-companion-review-window-test--each review 'select
      (dolist (window (gemini-companion-review-window-test--shown review))
        (set-window-dedicated-p window t))
      (gemini-companion-review-reject review)
      (should (equal (gemini-companion-review-window-test--windows) windows)))))

(ert-deftest gemini-companion-review-window/windows-come-back-in-a-frame-of-another-size ()
  "As when a terminal becomes larger in which there was too little room."
  (gemini-companion-test-with-client client
    (let ((width (frame-width))
          (height (frame-height)))
      (unwind-protect
          (progn
            (set-frame-height nil 24)
            (select-window (split-window-below))
            (set-window-buffer (split-window-below) "*scratch*")
            (let ((windows (gemini-companion-review-window-test--windows))
                  (review (gemini-companion-test-propose client "a.txt" "2\n")))
              (gemini-companion-review-show review 'keep)
              (should (= 1 (length (gemini-companion-review-window--users-windows
                                    gemini-companion-review-window-current))))
              (set-frame-width nil (* 2 width))
              (gemini-companion-review-reject review)
              (set-frame-width nil width)
              (should (equal (gemini-companion-review-window-test--windows) windows))))
        (set-frame-size nil width height)))))

(ert-deftest gemini-companion-review-window/a-text-that-was-written-anew-is-not-scrolled-back ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-file "a.txt" "one\n")
    (with-temp-buffer
      (insert (make-string 100 ?\n))
      (set-window-buffer nil (current-buffer))
      (set-window-point nil 57)
      (let ((review (gemini-companion-test-propose client "a.txt" "two\n")))
        (gemini-companion-review-show review 'keep)
        ;; As `recompile' does.
        (erase-buffer)
        (insert (make-string 200 ?\n))
        (set-window-point (get-buffer-window) 1)
        (gemini-companion-review-reject review))
      (should (equal (window-point (get-buffer-window)) 1)))))

(ert-deftest gemini-companion-review-window/where-the-user-types-nothing-else-appears ()
  "The rule of the user is for the terminal of a CLI, too."
  (let ((display-buffer-alist
         '(("\\`\\*" display-buffer-in-side-window (side . bottom) (window-height . 16)))))
    (pcase-dolist (`(,view . ,proposal) gemini-companion-review-window-test--views)
      (gemini-companion-test-with-client client
        (switch-to-buffer "a.txt")
        (select-window (display-buffer "*scratch*"))
        (cl-letf (((symbol-function 'frame-focus-state) #'always)
                  (gemini-companion-diff-function view)
                  (windows (gemini-companion-review-window-test--windows))
                  (review (apply #'gemini-companion-test-propose client proposal)))
          (gemini-companion-review-show review 'keep)
          (should (equal (buffer-name (window-buffer)) "*scratch*"))
          (should (window-parameter nil 'window-side))
          (should (gemini-companion-review-window-test--shown review))
          (should (gemini-companion-review-intact-p review))
          (gemini-companion-review-reject review)
          (should (equal (gemini-companion-review-window-test--windows) windows)))))))

(ert-deftest gemini-companion-review-window/the-window-that-it-deletes-is-selected-again ()
  "`display-buffer-full-frame' deletes all others."
  (let ((display-buffer-alist
         `(("\\`\\*gemini " ,(lambda (buffer alist)
                               (let ((window (display-buffer-use-some-window buffer alist)))
                                 (delete-other-windows window)
                                 window))))))
    (pcase-dolist (`(,view . ,proposal) gemini-companion-review-window-test--views)
      (ert-info ((symbol-name view))
        (gemini-companion-test-with-client client
          (delete-other-windows)
          (switch-to-buffer "a.txt")
          (select-window (split-window-right))
          (switch-to-buffer "*scratch*")
          (let* ((gemini-companion-diff-function view)
                 (windows (gemini-companion-review-window-test--windows))
                 (review (apply #'gemini-companion-test-propose client proposal)))
            (gemini-companion-review-show review 'keep)
            (should (gemini-companion-review-window-test--shown review))
            (gemini-companion-review-reject review)
            (should (equal (gemini-companion-review-window-test--windows) windows))))))))

(ert-deftest gemini-companion-review-window/a-prefix-such-as-C-x-4-4-is-for-the-user-s-next-command ()
  (let ((display-buffer-overriding-action '(display-buffer-in-new-tab)))
    (gemini-companion-review-window-test--each review 'keep
      (should (= (length (tab-bar-tabs)) 1))
      (gemini-companion-review-reject review)
      (should (equal (gemini-companion-review-window-test--windows) windows)))))

(ert-deftest gemini-companion-review-window/ediff-is-not-where-it-has-no-room ()
  (let ((display-buffer-alist '(("\\`\\*gemini " display-buffer-in-side-window (side . right)))))
    (gemini-companion-review-window-test--each review 'select
      (let ((shown (gemini-companion-review-window-test--shown review)))
        (when (cdr shown)
          (should-not (seq-some (lambda (window) (window-parameter window 'window-side))
                                shown))))
      (gemini-companion-review-reject review)
      (should (equal (gemini-companion-review-window-test--windows) windows)))))

(ert-deftest gemini-companion-review-window/a-tiny-frame-is-enough ()
  (let ((height (frame-height)))
    (dolist (lines '(15 18 24))
      (dolist (focus '(keep select))
        (unwind-protect
            (progn
              (set-frame-height nil lines)
              (gemini-companion-review-window-test--each review focus
                (should (gemini-companion-review-intact-p review))
                (gemini-companion-review-reject review)
                (should (equal (gemini-companion-review-window-test--windows) windows))))
          (set-frame-height nil height))))))

;;;; What the user does with its windows

(ert-deftest gemini-companion-review-window/it-may-be-alone-or-lack-a-window ()
  (dolist (act (list #'delete-other-windows #'delete-window))
    (dolist (end (list #'gemini-companion-review-reject #'gemini-companion-review-postpone))
      (gemini-companion-review-window-test--each review 'keep
        (dolist (number (number-sequence 0 (1- (length (gemini-companion-review-window-test--shown
                                                        review)))))
          (gemini-companion-review-show review 'keep)
          (let ((shown (gemini-companion-review-window-test--shown review)))
            (unless (and (eq act #'delete-window) (null (cdr shown)))
              (funcall act (nth number shown))
              (gemini-companion-review-visit review)
              (should (gemini-companion-review-intact-p review))
              (gemini-companion-review-show review 'keep)
              (funcall act (nth number (gemini-companion-review-window-test--shown review))))))
        (funcall end review)
        (should-not (gemini-companion-review-window-test--shown review))
        ;; In the window of the user, C-x 1 is about the others of the user.
        (unless (eq (gemini-companion-review-view review) 'gemini-companion-review-inline-show)
          (should (equal (mapcar #'cadr (cadr windows))
                         (mapcar #'window-buffer (window-list)))))))))

(ert-deftest gemini-companion-review-window/the-user-s-new-side-window-stays-selected ()
  "When only the change is on screen, the user shows the CLI, and answers there."
  (dolist (side '("*scratch*" "*a CLI*"))
    (gemini-companion-review-window-test--each review 'select
      ;; In the window of the user, C-x 1 is about the others of the user.
      (unless (eq (gemini-companion-review-view review) 'gemini-companion-review-inline-show)
        (delete-other-windows)
        (select-window (display-buffer-in-side-window (get-buffer-create side) '((side . right))))
        (with-temp-buffer
          (gemini-companion-review-reject review))
        (should-not (gemini-companion-review-window-test--shown review))
        (should (equal (buffer-name (window-buffer)) side))
        ;; The others come back if that can be.
        (should (eq (seq-set-equal-p (mapcar #'cadr (cadr windows))
                                     (mapcar #'window-buffer (window-list)))
                    (equal side "*scratch*")))
        (delete-window)))))

(ert-deftest gemini-companion-review-window/nobody-is-asked-whether-to-kill-its-buffers ()
  "Some packages ask so for each buffer, and others say no."
  (gemini-companion-review-window-test--each review 'select
    (let ((buffers (buffer-list))
          (kill-buffer-query-functions (list #'ignore)))
      (should (seq-some (lambda (buffer)
                          (eq review (buffer-local-value 'gemini-companion-review-of-buffer buffer)))
                        buffers))
      (gemini-companion-reject)
      (should (equal (gemini-companion-review-window-test--windows) windows))
      (should-not (seq-filter
                   (lambda (buffer)
                     (eq review (buffer-local-value 'gemini-companion-review-of-buffer buffer)))
                   (buffer-list))))))

(ert-deftest gemini-companion-review-window/a-window-that-the-user-has-opened-is-given-back ()
  (let ((display-buffer-alist '(("\\`\\*gemini " display-buffer-use-some-window
                                 (inhibit-same-window . t)))))
    (gemini-companion-test-with-client client
      (delete-other-windows)
      (switch-to-buffer "a.txt")
      (let ((gemini-companion-diff-function #'gemini-companion-review-ediff-show)
            (review (gemini-companion-test-propose client "a.txt" "2\n"))
            (window (split-window-right)))
        (gemini-companion-review-show review 'keep)
        (delete-window window)
        (setq window (split-window-right))
        (set-window-buffer window "*scratch*")
        (with-current-buffer (gemini-companion-review-front review)
          (call-interactively (key-binding "|")))
        (gemini-companion-review-reject review)
        (should (window-live-p window))
        (should (equal (buffer-name (window-buffer window)) "*scratch*"))))))

(ert-deftest gemini-companion-review-window/it-may-be-swapped-with-a-window-of-the-user ()
  "As by \\[windmove-swap-states-down]: no window more is left, and none less."
  (dolist (focus '(keep select))
    (dolist (other '("a.txt" "*scratch*"))
      (ert-info ((format "%s %s" focus other))
        (gemini-companion-review-window-test--each review focus
          ;; The review may be in place of that buffer.
          (when-let* ((window (get-buffer-window other)))
            (window-swap-states window
                                (car (gemini-companion-review-window-test--shown review)))
            (gemini-companion-review-reject review)
            (should (= (length (window-list nil 'no-minibuffer)) (length (cadr windows))))
            (should (and (get-buffer-window "a.txt") (get-buffer-window "*scratch*")))))))))

(ert-deftest gemini-companion-review-window/its-end-leaves-alone-a-window-where-the-user-replaced-it ()
  "As by \\`C-x 4 f': that stays selected."
  (dolist (other '("a.txt" "*Messages*"))
    (gemini-companion-test-with-client client
      (delete-other-windows)
      (switch-to-buffer "a.txt")
      (let ((gemini-companion-diff-function #'gemini-companion-review-inline-show)
            (review (gemini-companion-test-propose client "a.txt" "2\n"))
            (window (selected-window)))
        (select-window (split-window-right))
        (switch-to-buffer "*scratch*")
        (gemini-companion-review-show review 'keep)
        (should (equal (gemini-companion-review-window-test--shown review) (list window)))
        (select-window window)
        (switch-to-buffer other)
        (run-hooks 'window-configuration-change-hook)
        (gemini-companion-review-reject review)
        (should (eq window (selected-window)))
        (should (equal (buffer-name (window-buffer)) other))))))

(ert-deftest gemini-companion-review-window/a-window-configuration-may-replace-it ()
  (gemini-companion-review-window-test--each review 'keep
    (gemini-companion-review-postpone review)
    (let ((old (current-window-configuration)))
      (gemini-companion-review-show review 'keep)
      (set-window-configuration old)
      (should (equal (gemini-companion-review-window-test--windows) windows))
      (gemini-companion-review-reject review)
      (should (equal (gemini-companion-review-window-test--windows) windows)))))

(defun gemini-companion-review-window-test--put (state)
  "Restore the window STATE; put *scratch* in place of a buffer that was killed."
  (window-state-put
   (read (replace-regexp-in-string
          "(buffer \"\\([^\"]*\\)\""
          (lambda (it)
            (if (get-buffer (match-string 1 it)) it "(buffer \"*scratch*\""))
          (prin1-to-string state)))))

(defun gemini-companion-review-window-test--check-kept (keep restore focus ended)
  "Check that nothing of a view is left in windows that RESTORE restores.
KEEP returns what RESTORE takes, with the view shown with FOCUS.  If ENDED
is t, the review ends before that, and otherwise after it; if it is `again',
the review is shown again before that, in other windows."
  (gemini-companion-review-window-test--each review focus
    (let ((kept (funcall keep)))
      (delete-other-windows)
      (switch-to-buffer "*scratch*")
      (pcase ended
        ('t (gemini-companion-review-reject review))
        ('again (gemini-companion-review-postpone review)
                (gemini-companion-review-show review 'keep)))
      (funcall restore kept)
      (run-hooks 'window-configuration-change-hook)
      (unless (eq ended t)
        (gemini-companion-review-reject review))
      (run-hooks 'window-configuration-change-hook)
      (pcase-let ((`(,_ ,now) (gemini-companion-review-window-test--windows))
                  (`(,_ ,before) windows))
        (should (equal (mapcar (lambda (it) (seq-take (cdr it) 2)) now)
                       (mapcar (lambda (it) (seq-take (cdr it) 2)) before))))
      (switch-to-buffer "*Messages*")
      (run-hooks 'window-configuration-change-hook)
      (should (equal (buffer-name (window-buffer)) "*Messages*")))))

(ert-deftest gemini-companion-review-window/nothing-of-it-is-left-in-windows-that-come-back ()
  "Packages for perspectives keep windows, and restore them later."
  (pcase-dolist (`(,keep . ,restore)
                 `((,#'current-window-configuration . ,#'set-window-configuration)
                   (,(lambda () (window-state-get nil t))
                    . ,#'gemini-companion-review-window-test--put)))
    (dolist (focus '(keep select))
      (dolist (ended '(t nil again))
        (ert-info ((format "%S %s %s" keep focus ended))
          (gemini-companion-review-window-test--check-kept keep restore focus ended))))))

(ert-deftest gemini-companion-review-window/one-of-an-earlier-session-stays ()
  "Emacs died with a change on screen, and Desktop has restored the windows."
  (gemini-companion-review-window-test--each review 'keep
    (let ((kept (window-state-get nil t)))
      (gemini-companion-review-reject review)
      (should (equal windows (gemini-companion-review-window-test--windows)))
      (let ((before-init-time (time-add before-init-time 1)))
        (gemini-companion-review-window-test--put kept)
        (let ((restored (gemini-companion-review-window-test--windows)))
          (run-hooks 'window-configuration-change-hook)
          (should (equal restored (gemini-companion-review-window-test--windows))))))))

(ert-deftest gemini-companion-review-window/lists-find-room-beside-it ()
  "Emacs might fail to make a window larger."
  (gemini-companion-test-with-client client
    (let ((height (frame-height))
          (gemini-companion-diff-function #'gemini-companion-review-ediff-show)
          (review (gemini-companion-test-propose client "a.txt" "2\n")))
      (dolist (lines '(46 50 66))
        (unwind-protect
            (progn
              (set-frame-height nil lines)
              (switch-to-buffer "a.txt")
              (display-buffer-in-side-window (get-buffer-create "*scratch*")
                                             '((side . bottom) (window-height . 0.45)))
              (gemini-companion-review-show review 'select)
              (dolist (command (list #'gemini-companion-review-list
                                     #'gemini-companion-status
                                     #'gemini-companion-log))
                (call-interactively command)
                (should (derived-mode-p 'special-mode))
                (should (gemini-companion-review-intact-p review)))
              (gemini-companion-review-postpone review))
          (let ((ignore-window-parameters t)) (delete-other-windows))
          (set-frame-height nil height))))))

;;;; Tabs

(ert-deftest gemini-companion-review-window/it-leaves-another-tab ()
  (pcase-dolist
      (`(,name . ,end)
       `((reject . ,#'gemini-companion-review-reject)
         (postpone . ,#'gemini-companion-review-postpone)
         (elsewhere . ,(lambda (review)
                         (gemini-companion-review-visit review)
                         (should (gemini-companion-review-window-test--shown review))
                         (gemini-companion-review-postpone review)))
         (kill . ,(lambda (review)
                    (kill-buffer (gemini-companion-review-front review))
                    (gemini-companion-test-wait-removed)))))
    (dolist (focus '(keep select))
      (ert-info ((format "%s %s" name focus))
        (gemini-companion-review-window-test--each review focus
          (unwind-protect
              (progn
                (tab-bar-new-tab)
                ;; In both tabs, and in two windows of this one, point is elsewhere.
                (switch-to-buffer "a.txt")
                (set-window-point (split-window) 2)
                (goto-char (point-max))
                (let ((here (gemini-companion-review-window-test--windows)))
                  (funcall end review)
                  (set-buffer (window-buffer))
                  (should (= (point) (point-max)))
                  (should (equal (gemini-companion-review-window-test--windows) here)))
                (tab-bar-switch-to-prev-tab)
                (should (equal (gemini-companion-review-window-test--windows) windows)))
            (tab-bar-close-other-tabs)))))))

(ert-deftest gemini-companion-review-window/it-stays-while-another-tab-is-current ()
  (gemini-companion-review-window-test--each review 'keep
    (unwind-protect
        (let ((shown (gemini-companion-review-window-test--windows)))
          (tab-bar-new-tab)
          (tab-bar-switch-to-prev-tab)
          (should (equal (gemini-companion-review-window-test--windows) shown))
          (should (gemini-companion-review-intact-p review))
          (gemini-companion-review-reject review)
          (should (equal (gemini-companion-review-window-test--windows) windows)))
      (tab-bar-close-other-tabs))))

(ert-deftest gemini-companion-review-window/a-tab-of-its-own-goes-with-it ()
  (tab-bar-mode -1)                     ; another test may have turned it on
  (let ((display-buffer-alist '(("\\`\\*gemini " display-buffer-in-new-tab))))
    (dolist (away '(nil t))
      (gemini-companion-review-window-test--each review 'select
        (should (= (length (tab-bar-tabs)) 2))
        (should (gemini-companion-review-intact-p review))
        (when away
          (tab-bar-switch-to-prev-tab))
        (gemini-companion-review-reject review)
        (should (= (length (tab-bar-tabs)) 1))
        (should (equal (gemini-companion-review-window-test--windows) windows))))))

;;; gemini-companion-review-window-test.el ends here

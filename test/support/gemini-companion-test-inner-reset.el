;;; gemini-companion-test-inner-reset.el --- An Emacs as it was when it started  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Loaded by the Emacs under test, so that one can serve several tests: it
;; remembers its variables, and takes back what a test has done to it.  Of what
;; it does not take back it says so, and then the Emacs is not used again.

;;; Code:

(require 'cl-lib)
(require 'seq)

(declare-function gemini-companion-mode "gemini-companion")
(defvar gemini-companion-history--entries)
(defvar gemini-companion-test-inner-task)

(defvar gemini-companion-test-inner--values (make-hash-table :test #'eq)
  "The values that variables had at first.")

(defvar gemini-companion-test-inner--directories nil
  "The directories that libraries come from at first.")

(defvar gemini-companion-test-inner--modes nil
  "The global minor modes that were on at first.")

(defconst gemini-companion-test-inner--others
  '(process-environment exec-path load-path last-kbd-macro kill-ring
                        register-alist dir-locals-class-alist dir-locals-directory-cache)
  "Variables to take back that are neither ours nor options.")

;; The module stays loaded, and ours is what the variable says of it.
(defconst gemini-companion-test-inner--kept '(gemini-companion-native--loaded)
  "Variables of the package that stay as they are.")

(defun gemini-companion-test-inner--remember-variable (symbol)
  "Remember the value of SYMBOL if that is to be taken back."
  (when (and (default-boundp symbol)
             (not (memq symbol gemini-companion-test-inner--kept))
             (not (string-match-p "\\`gemini-companion-.*test" (symbol-name symbol))))
    (let ((value (default-value symbol)))
      (unless (keymapp value)
        (puthash symbol (if (consp value) (copy-tree value) value)
                 gemini-companion-test-inner--values)))))

(defun gemini-companion-test-inner--remember-file (file)
  "Remember the variables of FILE, which has just been loaded, if it is ours."
  (when (string-match-p "/gemini-companion[^/]*\\'" file)
    (dolist (entry (cdr (assoc file load-history)))
      (when (and (symbolp entry) (not (gemini-companion-test-inner--known-p entry)))
        (gemini-companion-test-inner--remember-variable entry)
        ;; A test may have set it before.
        (when (custom-variable-p entry)
          (puthash entry (eval (car (get entry 'standard-value)) t)
                   gemini-companion-test-inner--values))))))

(defun gemini-companion-test-inner--known-p (symbol)
  "Return non-nil if the first value of SYMBOL is known."
  (not (eq (gethash symbol gemini-companion-test-inner--values 'none) 'none)))

(defun gemini-companion-test-inner-remember ()
  "Remember how this Emacs is now, when the package is loaded and not on."
  (mapc #'gemini-companion-test-inner--remember-variable
        (append (apropos-internal "\\`gemini-companion-" #'default-boundp)
                (apropos-internal "" #'custom-variable-p)
                gemini-companion-test-inner--others))
  (add-hook 'after-load-functions #'gemini-companion-test-inner--remember-file)
  (setq gemini-companion-test-inner--directories
        (mapcar (lambda (file) (file-truename (file-name-directory file)))
                (append (list (locate-library "subr") load-file-name)
                        ;; A terminal emulator that is there but not chosen is not used.
                        (mapcar #'file-name-as-directory
                                (append (file-expand-wildcards
                                         "/usr/share/emacs/site-lisp/elpa-src/vterm-*")
                                        load-path))))
        gemini-companion-test-inner--modes (copy-sequence global-minor-modes)))

;;;; Taking back

(defun gemini-companion-test-inner-reset (&optional connected)
  "Switch the package off and make this Emacs as it was when it started.
With CONNECTED leave the package on, for a client that stays, and what it
knows but for the history.
Return a string that says why that cannot be, or nil."
  (or (gemini-companion-test-inner--busy)
      (progn
        (unless connected (gemini-companion-mode -1))
        (gemini-companion-test-inner--left-behind connected))
      (progn
        (gemini-companion-test-inner--reset-buffers)
        (gemini-companion-test-inner--reset-functions)
        (dolist (symbol (apropos-internal "-history\\'" #'default-boundp))
          (when (and (consp (default-value symbol)) (not (eq symbol 'load-history)))
            (set-default symbol nil)))
        (setq gemini-companion-history--entries nil)
        (maphash (lambda (symbol value)
                   (unless (and connected (string-search "--" (symbol-name symbol)))
                     (gemini-companion-test-inner--reset-variable symbol value)))
                 gemini-companion-test-inner--values)
        (unless connected
          (gemini-companion-test-inner--reset-unknown))
        (setq gemini-companion-test-inner-task nil)
        (message nil)
        nil)))

(defun gemini-companion-test-inner--busy ()
  "Return what this Emacs is in the middle of, or nil."
  (cond ((or (> (recursion-depth) 0) (active-minibuffer-window)) "it reads something")
        ((cdr (frame-list)) "it has several frames")
        (prefix-arg "it has a prefix argument")
        (defining-kbd-macro "it records a macro")
        ((and (fboundp 'gemini-companion-review-count)
              (> (gemini-companion-review-count) 0))
         "a review is open")
        ((seq-some #'gemini-companion-test-inner--foreign-p load-history))
        ((seq-difference global-minor-modes
                         (cons 'gemini-companion-mode gemini-companion-test-inner--modes))
         "there is another minor mode")))

(defun gemini-companion-test-inner--foreign-p (entry)
  "Return what was loaded, if ENTRY of `load-history' is of a library of a test."
  (let ((directory (and (stringp (car entry)) (file-name-directory (car entry)))))
    (and directory
         (not (equal (file-name-nondirectory (car entry)) "early-init.el"))
         (setq directory (file-truename directory))
         (not (seq-some (lambda (it) (string-prefix-p it directory))
                        gemini-companion-test-inner--directories))
         (format "it has loaded %s" (car entry)))))

(defun gemini-companion-test-inner--left-behind (connected)
  "Return what the package leaves behind when it is off, or nil.
With CONNECTED it is on, and has only nothing to do."
  (let ((timers (seq-filter (lambda (timer)
                              (let ((function (timer--function timer)))
                                (or (gemini-companion-test-inner--of-test-p function)
                                    (and (symbolp function)
                                         (not connected)
                                         (string-prefix-p "gemini-companion-"
                                                          (symbol-name function))))))
                            (append timer-list timer-idle-list)))
        (modes (seq-difference global-minor-modes
                               (append (and connected '(gemini-companion-mode))
                                       gemini-companion-test-inner--modes))))
    (cond (timers (format "timers are left: %S" (mapcar #'timer--function timers)))
          (modes (format "modes are on: %S" modes)))))

(defun gemini-companion-test-inner--reset-buffers ()
  "Leave no buffer but those that Emacs starts with, in one window."
  (let ((kill-buffer-query-functions nil)
        (inhibit-read-only t))
    (dolist (window (window-list nil 'nomini))
      (set-window-dedicated-p window nil)
      ;; Else the last one might stay a side window.
      (dolist (parameter '(no-delete-other-windows window-side window-slot))
        (set-window-parameter window parameter nil)))
    (let ((ignore-window-parameters t))
      (delete-other-windows))
    (dolist (buffer (buffer-list))
      (unless (or (not (buffer-live-p buffer)) ; indirect ones go with others
                  (string-match-p "\\`\\(?: \\*\\(?:Minibuf\\|Echo Area\\|server\\|code-conv\\).*\\|\\*Messages\\*\\|\\*scratch\\*\\)\\'"
                                  (buffer-name buffer)))
        (let ((process (get-buffer-process buffer)))
          (when process (set-process-query-on-exit-flag process nil)))
        (with-current-buffer buffer
          (setq-local kill-buffer-hook nil)
          (set-buffer-modified-p nil)
          (kill-buffer buffer))))
    (with-current-buffer (messages-buffer) (erase-buffer))
    (with-current-buffer (get-buffer-create "*scratch*")
      (erase-buffer)
      (lisp-interaction-mode)
      (set-buffer-modified-p nil)
      (setq default-directory command-line-default-directory))
    (set-window-buffer nil "*scratch*")
    (set-window-prev-buffers nil nil)
    (set-window-next-buffers nil nil)))

(defun gemini-companion-test-inner--reset-functions ()
  "Take away the advice and the anonymous functions on hooks that a test has left."
  (dolist (symbol (apropos-internal "\\`gemini-companion-" #'fboundp))
    (advice-mapc (lambda (advice _) (advice-remove symbol advice)) symbol))
  (dolist (symbol (apropos-internal "-\\(?:hook\\|functions\\)\\'" #'default-boundp))
    (let ((value (default-value symbol)))
      (when (and (consp value) (seq-some #'gemini-companion-test-inner--of-test-p value))
        (set-default symbol (seq-remove #'gemini-companion-test-inner--of-test-p value))))))

(defun gemini-companion-test-inner--of-test-p (function)
  "Return non-nil if FUNCTION has no name and is not compiled.
So it is a test's, or the package's."
  (or (memq (car-safe function) '(closure lambda))
      (and (fboundp 'interpreted-function-p) ; Emacs 30
           (interpreted-function-p function))))

(defun gemini-companion-test-inner--reset-variable (symbol value)
  "Let SYMBOL have VALUE as at first."
  (cond ((and (hash-table-p value)
              (string-prefix-p "gemini-companion-" (symbol-name symbol)))
         (clrhash value))
        ((not (equal (default-value symbol) value))
         (set-default symbol (if (consp value) (copy-tree value) value)))))

(defun gemini-companion-test-inner--reset-unknown ()
  "Forget the variables that were set for libraries that are not loaded."
  (dolist (symbol (apropos-internal "\\`gemini-companion-" #'default-boundp))
    (unless (or (memq symbol gemini-companion-test-inner--kept)
                (string-match-p "test" (symbol-name symbol))
                (keymapp (default-value symbol))
                (gemini-companion-test-inner--known-p symbol))
      (makunbound symbol))))

(provide 'gemini-companion-test-inner-reset)
;;; gemini-companion-test-inner-reset.el ends here

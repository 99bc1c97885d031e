;;; gemini-companion-test-inner-reset.el --- Reset the Emacs under test  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Loaded by the Emacs under test, so that it can serve several tests: records
;; its initial state, and undoes what a test has changed.  What cannot be undone
;; is reported, and the Emacs is not reused.

;;; Code:

(require 'cl-lib)
(require 'seq)

(declare-function gemini-companion-mode "gemini-companion")
(defvar gemini-companion-history--entries)
(defvar gemini-companion-test-inner-task)

(defvar gemini-companion-test-inner--values (make-hash-table :test #'eq)
  "The initial values of variables.")

(defvar gemini-companion-test-inner--directories nil
  "The directories from which libraries are loaded initially.")

(defvar gemini-companion-test-inner--modes nil
  "The global minor modes that were on initially.")

(defconst gemini-companion-test-inner--more-variables
  '(process-environment exec-path load-path last-kbd-macro kill-ring
                        register-alist dir-locals-class-alist dir-locals-directory-cache)
  "Variables to reset that are neither the package's nor options.")

;; The module stays loaded.
(defconst gemini-companion-test-inner--kept '(gemini-companion-native--loaded)
  "Variables of the package that are not reset.")

(defconst gemini-companion-test-inner--connected
  '(gemini-companion-bridge-clients
    gemini-companion-workspace-known
    gemini-companion-workspace-pending)
  "Public variables that say what is connected and open.")

(defun gemini-companion-test-inner--remember-variable (symbol)
  "Record the value of SYMBOL if it is to be reset."
  (when (and (default-boundp symbol)
             (not (memq symbol gemini-companion-test-inner--kept))
             (not (string-match-p "\\`gemini-companion-.*test" (symbol-name symbol))))
    (let ((value (default-value symbol)))
      (unless (keymapp value)
        (puthash symbol (if (consp value) (copy-tree value) value)
                 gemini-companion-test-inner--values)))))

(defun gemini-companion-test-inner--remember-file (file)
  "Record the variables of FILE, which has just been loaded, if it is ours."
  (when (string-match-p "/gemini-companion[^/]*\\'" file)
    (dolist (entry (cdr (assoc file load-history)))
      (when (and (symbolp entry) (not (gemini-companion-test-inner--known-p entry)))
        (gemini-companion-test-inner--remember-variable entry)
        ;; A test may have set it before.
        (when (custom-variable-p entry)
          (puthash entry (eval (car (get entry 'standard-value)) t)
                   gemini-companion-test-inner--values))))))

(defun gemini-companion-test-inner--known-p (symbol)
  "Return non-nil if the initial value of SYMBOL is known."
  (not (eq (gethash symbol gemini-companion-test-inner--values 'none) 'none)))

(defun gemini-companion-test-inner-remember ()
  "Record the state of this Emacs, with the package loaded and off."
  (mapc #'gemini-companion-test-inner--remember-variable
        (append (apropos-internal "\\`gemini-companion-" #'default-boundp)
                (apropos-internal "" #'custom-variable-p)
                gemini-companion-test-inner--more-variables))
  (add-hook 'after-load-functions #'gemini-companion-test-inner--remember-file)
  (setq gemini-companion-test-inner--directories
        (mapcar (lambda (file) (file-truename (file-name-directory file)))
                (append (list (locate-library "subr") load-file-name)
                        ;; An installed terminal emulator is used only if it is chosen.
                        (mapcar #'file-name-as-directory
                                (append (file-expand-wildcards
                                         "/usr/share/emacs/site-lisp/elpa-src/vterm-*")
                                        load-path))))
        gemini-companion-test-inner--modes (copy-sequence global-minor-modes)))

;;;; Resetting

(defun gemini-companion-test-inner-reset (&optional connected)
  "Switch the package off and reset this Emacs to its initial state.
With CONNECTED leave the package on, for a client that stays connected,
and keep its state but for the history.
Return nil, or a string that says why this Emacs cannot be reset."
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
                   (unless (and connected
                                (or (string-search "--" (symbol-name symbol))
                                    (memq symbol gemini-companion-test-inner--connected)))
                     (gemini-companion-test-inner--reset-variable symbol value)))
                 gemini-companion-test-inner--values)
        (unless connected
          (gemini-companion-test-inner--reset-unknown))
        (setq gemini-companion-test-inner-task nil)
        (message nil)
        nil)))

(defun gemini-companion-test-inner--busy ()
  "Return why this Emacs cannot be reset now, or nil."
  (cond ((or (> (recursion-depth) 0) (active-minibuffer-window)) "it reads input")
        ((cdr (frame-list)) "it has several frames")
        (prefix-arg "it has a prefix argument")
        (defining-kbd-macro "it records a macro")
        ((and (fboundp 'gemini-companion-review-count)
              (> (gemini-companion-review-count) 0))
         "a review is open")
        ((seq-some #'gemini-companion-test-inner--foreign-p load-history))
        ((seq-difference global-minor-modes
                         (cons 'gemini-companion-mode gemini-companion-test-inner--modes))
         "another minor mode is on")))

(defun gemini-companion-test-inner--foreign-p (entry)
  "Return a string if ENTRY of `load-history' is of a library of a test."
  (let ((directory (and (stringp (car entry)) (file-name-directory (car entry)))))
    (and directory
         (not (equal (file-name-nondirectory (car entry)) "early-init.el"))
         (setq directory (file-truename directory))
         (not (seq-some (lambda (it) (string-prefix-p it directory))
                        gemini-companion-test-inner--directories))
         (format "it has loaded %s" (car entry)))))

(defun gemini-companion-test-inner--left-behind (connected)
  "Return what the package has left behind when it is off, or nil.
With CONNECTED it is on, and idle."
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
    (cond (timers (format "timers are active: %S" (mapcar #'timer--function timers)))
          (modes (format "modes are on: %S" modes)))))

(defun gemini-companion-test-inner--reset-buffers ()
  "Kill all buffers but those that Emacs starts with, and keep one window."
  (let ((kill-buffer-query-functions nil)
        (inhibit-read-only t))
    (dolist (window (window-list nil 'nomini))
      (set-window-dedicated-p window nil)
      ;; Otherwise a side window might remain.
      (dolist (parameter '(no-delete-other-windows window-side window-slot))
        (set-window-parameter window parameter nil)))
    (let ((ignore-window-parameters t))
      (delete-other-windows))
    (dolist (buffer (buffer-list))
      (unless (or (not (buffer-live-p buffer)) ; killed with its base buffer
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
  "Remove the advice and the anonymous functions on hooks of a test."
  (dolist (symbol (apropos-internal "\\`gemini-companion-" #'fboundp))
    (advice-mapc (lambda (advice _) (advice-remove symbol advice)) symbol))
  (dolist (symbol (apropos-internal "-\\(?:hook\\|functions\\)\\'" #'default-boundp))
    (let ((value (default-value symbol)))
      (when (and (consp value) (seq-some #'gemini-companion-test-inner--of-test-p value))
        (set-default symbol (seq-remove #'gemini-companion-test-inner--of-test-p value))))))

(defun gemini-companion-test-inner--of-test-p (function)
  "Return non-nil if FUNCTION is anonymous and not compiled.
Such a function is of a test or the package."
  (or (memq (car-safe function) '(closure lambda))
      (and (fboundp 'interpreted-function-p) ; Emacs 30
           (interpreted-function-p function))))

(defun gemini-companion-test-inner--hook-p (symbol)
  "Return non-nil if SYMBOL is a hook of the package."
  (string-match-p "\\`gemini-companion-.*-\\(?:hook\\|functions\\)\\'" (symbol-name symbol)))

(defun gemini-companion-test-inner--reset-hook (symbol value)
  "Leave on the hook SYMBOL what is in VALUE, and functions of the package.
Libraries that were loaded since, and stay, have added these."
  (let ((ours (seq-filter (lambda (function)
                            (and (symbolp function)
                                 (string-prefix-p "gemini-companion-" (symbol-name function))
                                 (not (string-search "test" (symbol-name function)))))
                          (ensure-list (default-value symbol)))))
    (set-default symbol (seq-union ours (ensure-list value)))))

(defun gemini-companion-test-inner--reset-variable (symbol value)
  "Reset SYMBOL to VALUE."
  (cond ((and (hash-table-p value)
              (string-prefix-p "gemini-companion-" (symbol-name symbol)))
         (clrhash value))
        ((gemini-companion-test-inner--hook-p symbol)
         (gemini-companion-test-inner--reset-hook symbol value))
        ((not (equal (default-value symbol) value))
         (set-default symbol (if (consp value) (copy-tree value) value)))))

(defun gemini-companion-test-inner--reset-unknown ()
  "Unbind variables that were set for libraries that are not loaded."
  (dolist (symbol (apropos-internal "\\`gemini-companion-" #'default-boundp))
    (unless (or (memq symbol gemini-companion-test-inner--kept)
                (string-match-p "test" (symbol-name symbol))
                (keymapp (default-value symbol))
                (gemini-companion-test-inner--known-p symbol))
      (if (gemini-companion-test-inner--hook-p symbol)
          (gemini-companion-test-inner--reset-hook symbol nil)
        (makunbound symbol)))))

(provide 'gemini-companion-test-inner-reset)
;;; gemini-companion-test-inner-reset.el ends here

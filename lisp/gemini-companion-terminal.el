;;; gemini-companion-terminal.el --- Which terminal emulator -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Which terminal emulator `gemini-companion-run' uses.  Who has none but Term is asked whether to
;; install a better one, and is not asked again after a no.

;;; Code:

(require 'seq)
(require 'gemini-companion-log)
(require 'gemini-companion-setup)

(declare-function package-install "package")
(declare-function package-refresh-contents "package")

;;;###autoload (custom-add-load 'gemini-companion 'gemini-companion-terminal)
(defcustom gemini-companion-terminal 'auto
  "The terminal emulator in which `gemini-companion-run' runs its program.
If `auto', the first of Eat, vterm and Ghostel that is installed, else
Term, which comes with Emacs.  Before it uses Term for that reason it
asks, once, whether to install Eat; if you answer no, your answer is
saved here."
  :type '(choice (const :tag "The best one that is installed" auto)
                 (const :tag "Eat" eat)
                 (const :tag "vterm" vterm)
                 (const :tag "Ghostel" ghostel)
                 (const :tag "Term" term))
  :group 'gemini-companion)

(defvar gemini-companion-terminal--offered nil
  "Non-nil if another terminal emulator was offered since Emacs started.")

(defun gemini-companion-terminal-choose ()
  "Return the terminal emulator to use.  It is loaded."
  (pcase gemini-companion-terminal
    ('auto (or (gemini-companion-terminal--installed) 'term))
    (terminal (unless (require terminal nil t)
                (user-error "`gemini-companion-terminal' says %s, which is not installed"
                            terminal))
              terminal)))

(defun gemini-companion-terminal--installed ()
  "Return the best terminal emulator that was installed, or nil.  It is loaded."
  (seq-find #'gemini-companion-terminal--load '(eat vterm ghostel)))

(defun gemini-companion-terminal--load (terminal)
  "Load TERMINAL, a feature; return nil if that is not installed or does not work."
  (condition-case error
      (require terminal nil t)
    (error
     (gemini-companion-log-add "%s: %s" terminal (error-message-string error))
     nil)))

;;;; A better one

(defun gemini-companion-terminal-offer ()
  "Ask whether to install a better terminal emulator than Term if there is none.
Return non-nil if so, for `gemini-companion-terminal-install'.  In batch
mode nothing is asked."
  (when (and (eq gemini-companion-terminal 'auto)
             (not noninteractive)
             (not gemini-companion-terminal--offered)
             (not (gemini-companion-terminal--installed)))
    (setq gemini-companion-terminal--offered t)
    (cond ((not package-enable-at-startup)
           ;; Packages are installed by something else here.
           (message "Term shows few colors: Eat and vterm, which are packages, show all")
           nil)
          ((y-or-n-p "Term shows few colors: download and install the terminal Eat? "))
          (t (gemini-companion-setup-save 'gemini-companion-terminal 'term)
             (message "From now on it is Term: `gemini-companion-terminal' can say another")
             nil))))

(defun gemini-companion-terminal-install ()
  "Install Eat as the user has allowed, and wait for that.
If it fails, or the user quits, say so and what to do."
  (require 'package)
  (message "Installing Eat; C-g uses Term instead...")
  (condition-case problem
      ;; Warnings of the byte compiler are shown in windows.
      (save-window-excursion
        (package-refresh-contents)
        (package-install 'eat))
    ((error quit)
     (let ((reason (gemini-companion-log-reason problem)))
       (gemini-companion-log-add "Eat was not installed: %s" reason)
       (message "Term is used, for Eat was not installed: %s.  It is in NonGNU ELPA, see \
`package-archives'; to try again type M-x package-install RET eat"
                reason)))))

(provide 'gemini-companion-terminal)
;;; gemini-companion-terminal.el ends here

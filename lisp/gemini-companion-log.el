;;; gemini-companion-log.el --- What went on -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A bounded buffer of one line for each thing worth knowing when something does not work.
;; Hooks, filters and timers log their errors here instead of signaling them into the user's
;; command loop.  Tokens are never logged, and the beginnings of files only after
;; `gemini-companion-toggle-protocol-log'.

;;; Code:

(require 'gemini-companion-ui)

(defvar gemini-companion-log--max-size 200000
  "Size in characters beyond which the older half of the log is dropped.")

(define-derived-mode gemini-companion-log-mode special-mode "Gemini-Log"
  "Major mode of the log of gemini-companion.
\\{gemini-companion-log-mode-map}"
  :interactive nil
  (gemini-companion-ui-keep-keys 'gemini-companion-log-mode)
  (setq header-line-format
        '(:eval (substitute-command-keys
                 "\\[gemini-companion-toggle-protocol-log] starts or stops logging each message")))
  (setq-local revert-buffer-function #'ignore))

(gemini-companion-ui-bind gemini-companion-log-mode-map
  "p" 'gemini-companion-toggle-protocol-log)

(defun gemini-companion-log-add (format &rest arguments)
  "Add a line to the log: FORMAT with ARGUMENTS, as in `format'."
  (with-current-buffer (gemini-companion-log--buffer)
    (save-excursion
      (let ((inhibit-read-only t))
        (goto-char (point-max))
        (insert (format-time-string "%F %T.%3N ")
                (gemini-companion-ui-one-line (apply #'format format arguments))
                "\n")
        (when (> (buffer-size) gemini-companion-log--max-size)
          (goto-char (/ (point-max) 2))
          (delete-region (point-min) (line-beginning-position 2)))))))

(defun gemini-companion-log-last (count)
  "Return the last COUNT lines of the log, the oldest first."
  (with-current-buffer (gemini-companion-log--buffer)
    (save-excursion
      (goto-char (point-max))
      (forward-line (- count))
      (split-string (buffer-substring-no-properties (point) (point-max)) "\n" t))))

(defun gemini-companion-log--buffer ()
  "Return the log buffer, made if needed."
  (or (get-buffer "*gemini log*")
      (with-current-buffer (get-buffer-create "*gemini log*")
        (gemini-companion-log-mode)
        (buffer-disable-undo)
        (current-buffer))))

(defmacro gemini-companion-log-errors (where &rest body)
  "Evaluate BODY; if it signals an error, log that after WHERE, and return nil.
For hooks, filters and timers: Emacs keeps the match data for filters only."
  (declare (indent 1) (debug t))
  (let ((error (make-symbol "error")))
    `(condition-case ,error
         (save-match-data ,@body)
       (error
        (gemini-companion-log-add "%s: %s" ,where (error-message-string ,error))
        nil))))

(defun gemini-companion-log-and-show-errors (where function)
  "Call FUNCTION; if it signals an error, log that after WHERE, and show it.
For timers that do what the user has asked for; the user can quit FUNCTION."
  (gemini-companion-log-errors where
    (condition-case error
        (let ((inhibit-quit nil)) (funcall function))
      ;; Otherwise, it would end whatever runs the timer.
      (quit (message "Quit"))
      (error
       (message "%s" (gemini-companion-ui-error-text error))
       (signal (car error) (cdr error))))))

(defun gemini-companion-log-when-free (where function)
  "Call FUNCTION soon, once the user is not busy; it may ask something.
If it signals an error, log that after WHERE, and show it."
  (run-at-time 0.1 nil
               (lambda ()
                 (if (gemini-companion-ui-busy) (gemini-companion-log-when-free where function)
                   (gemini-companion-log-and-show-errors where function)))))

(defun gemini-companion-log-run-hook (hook &rest arguments)
  "Call each function of HOOK, a symbol, with ARGUMENTS.
If one signals an error, log that, and call the others all the same."
  (run-hook-wrapped hook
                    (lambda (function)
                      (ignore (gemini-companion-log-errors hook
                                (apply function arguments))))))

;;;###autoload
(defun gemini-companion-log ()
  "Show the log of what happened between Emacs and its clients."
  (interactive)
  (gemini-companion-ui-pop-to (gemini-companion-log--buffer))
  (goto-char (point-max)))

(provide 'gemini-companion-log)
;;; gemini-companion-log.el ends here

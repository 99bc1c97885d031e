;;; gemini-companion-report.el --- Buffers that say what is so -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the status and the doctor have in common: lines and buttons, printed anew again and again
;; without moving the user.

;;; Code:

(require 'button)
(require 'gemini-companion-log)

(define-derived-mode gemini-companion-report-mode special-mode "Gemini-Report"
  "Parent of the major modes of reports.
\\{gemini-companion-report-mode-map}"
  :interactive nil
  (buffer-disable-undo))

(set-keymap-parent gemini-companion-report-mode-map
                   (make-composed-keymap button-buffer-map special-mode-map))

(defun gemini-companion-report-print (insert)
  "Print the current buffer anew by calling INSERT.
Point stays on its line, in each window."
  (let* ((inhibit-read-only t)
         (places (mapcar (lambda (window)
                           (cons window (gemini-companion-report--place
                                         (window-point window))))
                         (get-buffer-window-list nil nil t)))
         (place (gemini-companion-report--place (point))))
    (erase-buffer)
    (funcall insert)
    (set-buffer-modified-p nil)
    (pcase-dolist (`(,window . ,place) places)
      (set-window-point window (gemini-companion-report--position place)))
    (goto-char (gemini-companion-report--position place))))

(defun gemini-companion-report--place (position)
  "Return the line and column of POSITION."
  (save-excursion
    (goto-char position)
    (cons (line-number-at-pos) (current-column))))

(defun gemini-companion-report--position (place)
  "Return the position that PLACE, a line and column, is now."
  (save-excursion
    (goto-char (point-min))
    (forward-line (1- (car place)))
    (move-to-column (cdr place))
    (point)))

(defun gemini-companion-report-line (format &rest arguments)
  "Insert a line: FORMAT with ARGUMENTS, some of which are a client's."
  (insert "  " (gemini-companion-log-one-line (apply #'format format arguments)) "\n"))

(defun gemini-companion-report-button (label function)
  "Insert a button with LABEL that calls FUNCTION."
  (insert-text-button (format "[%s]" label)
                      'follow-link t
                      'action (lambda (_) (funcall function))))

(provide 'gemini-companion-report)
;;; gemini-companion-report.el ends here

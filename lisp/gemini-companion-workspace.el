;;; gemini-companion-workspace.el --- Which workspace roots are open -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client connects only from a directory inside a workspace root.  Roots are the projects of
;; the files and terminals that are open; a file outside any project counts with its directory.
;; The home directory, the root directory and temporary directories are never guessed, and
;; remote files are never looked at.

;;; Code:

(require 'seq)
(require 'gemini-companion-bridge)

(declare-function project-root "project" (project))

(defconst gemini-companion-workspace--delay 0.3
  "Seconds after the last change of open files before the roots are looked up.")

(defconst gemini-companion-workspace--hooks
  '(find-file-hook
    kill-buffer-hook after-set-visited-file-name-hook window-buffer-change-functions)
  "Hooks that run when the roots may have changed.
A terminal is noticed when it is shown.")

(defconst gemini-companion-workspace--terminal-modes
  '(comint-mode term-mode eshell-mode vterm-mode eat-mode ghostel-mode)
  "Major modes in which a client may run.")

(defvar gemini-companion-workspace--timer nil
  "The timer that will look up the roots, or nil.")

(defvar gemini-companion-workspace--announced nil
  "The roots that clients were told last.")

(defvar gemini-companion-workspace--cache (make-hash-table :test #'equal)
  "Directories and their roots; a directory without one has nil.")

(defun gemini-companion-workspace-roots ()
  "Return the workspace roots that are open now, without trailing slashes.
Remember them as announced."
  (setq gemini-companion-workspace--announced
        (delete-dups
         (delq nil (mapcar #'gemini-companion-workspace--buffer-root (buffer-list))))))

(defun gemini-companion-workspace-follow ()
  "Announce the roots whenever they change."
  (dolist (hook gemini-companion-workspace--hooks)
    (add-hook hook #'gemini-companion-workspace--note)))

(defun gemini-companion-workspace-unfollow ()
  "Stop announcing roots."
  (dolist (hook gemini-companion-workspace--hooks)
    (remove-hook hook #'gemini-companion-workspace--note))
  (when gemini-companion-workspace--timer
    (cancel-timer gemini-companion-workspace--timer)
    (setq gemini-companion-workspace--timer nil))
  (clrhash gemini-companion-workspace--cache))

(defun gemini-companion-workspace--note (&rest _)
  "Look up the roots soon."
  (unless gemini-companion-workspace--timer
    (setq gemini-companion-workspace--timer
          (run-at-time gemini-companion-workspace--delay nil
                       #'gemini-companion-workspace--announce))))

(defun gemini-companion-workspace--announce ()
  "Announce the roots if they have changed."
  (setq gemini-companion-workspace--timer nil)
  (gemini-companion-log-errors "workspace roots"
    (let ((announced gemini-companion-workspace--announced))
      (unless (equal (gemini-companion-workspace-roots) announced)
        (gemini-companion-bridge-set-roots gemini-companion-workspace--announced)))))

(defun gemini-companion-workspace--buffer-root (buffer)
  "Return the root to which BUFFER belongs, or nil."
  (let ((file (buffer-local-value 'buffer-file-name buffer)))
    (cond (file (gemini-companion-workspace--root (file-name-directory file)))
          ((apply #'provided-mode-derived-p (buffer-local-value 'major-mode buffer)
                  gemini-companion-workspace--terminal-modes)
           (gemini-companion-workspace--root
            (buffer-local-value 'default-directory buffer))))))

(defun gemini-companion-workspace--root (directory)
  "Return the root of DIRECTORY, or nil if there is none to announce."
  (let ((known (gethash directory gemini-companion-workspace--cache 'unknown)))
    (if (not (eq known 'unknown))
        known
      (puthash directory (gemini-companion-workspace--find-root directory)
               gemini-companion-workspace--cache))))

(defun gemini-companion-workspace--find-root (directory)
  "Look up the root of DIRECTORY."
  (unless (file-remote-p directory)
    (let* ((non-essential t)
           (project (gemini-companion-log-errors "project"
                      (project-current nil directory)))
           (root (directory-file-name
                  (expand-file-name (if project (project-root project) directory)))))
      (unless (gemini-companion-workspace--too-wide-p root)
        root))))

(defun gemini-companion-workspace--too-wide-p (root)
  "Return non-nil if ROOT must not be guessed to be a workspace."
  (or (file-remote-p root)
      (seq-some (lambda (wide) (file-equal-p root wide))
                (delq nil (list "/" "~" temporary-file-directory "/tmp" "/var/tmp"
                                (getenv "TMPDIR"))))))

(provide 'gemini-companion-workspace)
;;; gemini-companion-workspace.el ends here

;;; gemini-companion-process.el --- Which process clients take for Emacs -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client looks for its editor among the processes that began it.  What it finds is the right one
;; for some editors only; Emacs is rarely what it takes for the editor.

;;; Code:

(defconst gemini-companion-process--shells
  '("zsh" "bash" "sh" "tcsh" "csh" "ksh" "fish" "dash")
  "Programs that a client takes for the shell it was started in.")

(defconst gemini-companion-process--max-walk 32
  "Number of processes looked at for that shell.")

(defun gemini-companion-process-editor (process)
  "Return the process that a client in or below PROCESS takes for its editor.
That is the grandparent of the nearest shell, or the topmost of all."
  (let ((left gemini-companion-process--max-walk)
        found)
    (while (and (not found) (> left 0))
      (setq left (1- left))
      (let ((parent (gemini-companion-process-parent process)))
        (cond ((gemini-companion-process--shell-p process)
               (let ((above (gemini-companion-process-parent parent)))
                 (setq found (if (> above 1) above parent))))
              ((<= parent 1) (setq found process))
              (t (setq process parent)))))
    (or found process)))

(defun gemini-companion-process-parent (process)
  "Return the process id of the parent of PROCESS, 0 if there is none."
  (or (alist-get 'ppid (process-attributes process)) 0))

(defun gemini-companion-process--shell-p (process)
  "Return non-nil if PROCESS is a shell, as clients judge."
  (let ((command (alist-get 'args (process-attributes process))))
    (and command
         (member (file-name-nondirectory (car (split-string command " ")))
                 gemini-companion-process--shells))))

(defun gemini-companion-process-taken-for (process)
  "Return the other processes that a client may take for the editor PROCESS.
One of them if PROCESS runs the client in a shell, one if without."
  (let ((parent (gemini-companion-process-parent process)))
    (delete process
            (delete-dups (list (if (> parent 1) parent process)
                               (gemini-companion-process-editor process))))))

(provide 'gemini-companion-process)
;;; gemini-companion-process.el ends here

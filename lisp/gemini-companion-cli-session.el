;;; gemini-companion-cli-session.el --- Choose an earlier session of a CLI -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A CLI keeps its conversations, the sessions of a project, and has an option that lists them.
;; That takes seconds, and a minute if it cannot reach its model, which names the last session.  So
;; Emacs does not wait for the list, and asks once the user is not busy.

;;; Code:

(require 'gemini-companion-log)
(require 'gemini-companion-ui)

(defvar gemini-companion-cli-session--process nil
  "The process that lists sessions for the user's last request, or nil.")

(defun gemini-companion-cli-session-choose (title command function)
  "Run COMMAND, which lists sessions of the CLI called TITLE, and do not wait.
COMMAND is a list of a program and its arguments.  Once the user has chosen
one of the sessions, call FUNCTION with its id."
  (when gemini-companion-cli-session--process
    (delete-process (prog1 gemini-companion-cli-session--process
                      (setq gemini-companion-cli-session--process nil))))
  (setq gemini-companion-cli-session--process
        (make-process :name "gemini sessions" :command command :noquery t :connection-type 'pipe
                      :coding 'utf-8-unix
                      :buffer (generate-new-buffer " *gemini sessions*")
                      :sentinel (lambda (process _event)
                                  (gemini-companion-cli-session--note-end process title function))))
  (message "Asking %s for its sessions; this may take seconds..." title))

(defun gemini-companion-cli-session--note-end (process title function)
  "Have the user choose one of the sessions that PROCESS has listed.
For TITLE and FUNCTION see `gemini-companion-cli-session-choose'."
  (unless (process-live-p process)
    (gemini-companion-log-errors "The list of sessions"
      (let ((output (with-current-buffer (process-buffer process)
                      (prog1 (buffer-string) (kill-buffer)))))
        (when (eq process gemini-companion-cli-session--process)
          (setq gemini-companion-cli-session--process nil)
          (if-let* ((sessions (gemini-companion-cli-session--parse output)))
              (gemini-companion-log-when-free
               "choosing a session"
               (lambda () (gemini-companion-cli-session--ask title sessions function)))
            (gemini-companion-ui-message
             'sessions "%s"
             (if (eql 0 (process-exit-status process)) "This project has no earlier session"
               (format "%s lists no sessions: %s" title
                       (gemini-companion-ui-one-line
                        (or (car (last (split-string output "\n" t "[ \t\r]+"))) "")))))))))))

(defun gemini-companion-cli-session--parse (output)
  "Return the sessions that OUTPUT of a CLI lists, the newest first.
Each is (NAME AGE ID), where all are text and no NAME occurs twice."
  (let ((sessions nil))
    (dolist (line (split-string output "\r?\n"))
      ;; "  3. Fix the parser (2 days ago) [032443f8-bbc7-41cf-b3da-b9e70686f710]"
      (when (string-match (rx bos (+ " ") (+ digit) ". " (group (* nonl)) " (" (group (* (not "(")))
                              ") [" (group alnum (* (any alnum "-"))) "]" eos)
                          line)
        (let ((name (gemini-companion-ui-one-line (match-string 1 line)))
              (age (gemini-companion-ui-one-line (match-string 2 line)))
              (id (match-string 3 line)))
          (push (list (if (assoc name sessions) (format "%s [%s]" name id) name) age id)
                sessions))))
    sessions))

(defun gemini-companion-cli-session--ask (title sessions function)
  "Call FUNCTION with the id of the one of SESSIONS that the user chooses.
TITLE is the name of their CLI."
  (let* ((completion-ignore-case t)
         (annotate (lambda (name) (concat "  " (nth 1 (assoc name sessions)))))
         (table (gemini-companion-ui-completion-table
                 sessions `((display-sort-function . identity)
                            (annotation-function . ,annotate))))
         (name (completing-read (format-prompt "Session of %s to resume" (caar sessions) title)
                                table nil t nil nil (caar sessions))))
    (funcall function (nth 2 (assoc name sessions)))))

(provide 'gemini-companion-cli-session)
;;; gemini-companion-cli-session.el ends here

;;; gemini-companion-status.el --- What goes on -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; One buffer that says whether the companion runs, where clients find it, which are connected and
;; what waits for the user.  It prints itself anew while it is on screen.

;;; Code:

(require 'seq)
(require 'subr-x)
(require 'gemini-companion-bridge)
(require 'gemini-companion-context)
(require 'gemini-companion-evil)
(require 'gemini-companion-history)
(require 'gemini-companion-log)
(require 'gemini-companion-native)
(require 'gemini-companion-queue)
(require 'gemini-companion-report)
(require 'gemini-companion-review)
(require 'gemini-companion-scope)
(require 'gemini-companion-workspace)

(declare-function gemini-companion-mode "gemini-companion")
(declare-function gemini-companion-restart "gemini-companion")
(declare-function gemini-companion-review-history "gemini-companion-review-history")
(declare-function gemini-companion-review-list "gemini-companion-review-list")
(declare-function gemini-companion-toggle-protocol-log "gemini-companion")
(declare-function gemini-companion-show-context "gemini-companion-context-view")

(defconst gemini-companion-status--name "*gemini status*"
  "Name of the buffer.")

(defconst gemini-companion-status--pace 2
  "Seconds after which the buffer is printed anew while it is on screen.")

(defconst gemini-companion-status--log-lines 5
  "How many of the last lines of the log are shown.")

(define-derived-mode gemini-companion-status-mode gemini-companion-report-mode "Gemini-Status"
  "Major mode for what goes on between Emacs and its clients.
\\{gemini-companion-status-mode-map}"
  :interactive nil
  (gemini-companion-evil-keep-keys 'gemini-companion-status-mode)
  (setq-local revert-buffer-function (lambda (&rest _) (gemini-companion-status--print)))
  (let* ((buffer (current-buffer))
         (timer (run-at-time gemini-companion-status--pace gemini-companion-status--pace
                             #'gemini-companion-status--refresh buffer))
         (stop (lambda () (cancel-timer timer))))
    (add-hook 'kill-buffer-hook stop nil t)
    (add-hook 'change-major-mode-hook stop nil t)))

;;;###autoload
(defun gemini-companion-status ()
  "Show whether the companion runs, and who is connected."
  (interactive)
  (pop-to-buffer (get-buffer-create gemini-companion-status--name))
  (unless (derived-mode-p 'gemini-companion-status-mode)
    (gemini-companion-status-mode))
  (gemini-companion-status--print))

(defun gemini-companion-status--refresh (buffer)
  "Print BUFFER anew if it is on screen."
  (when (get-buffer-window buffer t)
    (gemini-companion-log-errors "status"
      (with-current-buffer buffer
        (gemini-companion-status--print)))))

(defun gemini-companion-status--print ()
  "Print the current buffer anew."
  (gemini-companion-report-print #'gemini-companion-status--insert))

;;;; The text

(defun gemini-companion-status--insert ()
  "Insert all that there is to say."
  (gemini-companion-status--insert-server)
  (when (gemini-companion-bridge-running-p)
    (gemini-companion-status--insert-sessions)
    (gemini-companion-status--insert-reviews)
    (gemini-companion-status--insert-context))
  (gemini-companion-status--insert-log)
  (gemini-companion-status--heading "Versions")
  (gemini-companion-report-line "package and module %s, Emacs %s on %s"
                                gemini-companion-native-version emacs-version
                                system-configuration))

(defun gemini-companion-status--heading (text &rest buttons)
  "Insert TEXT as a heading, and BUTTONS, each (LABEL . FUNCTION)."
  (unless (bobp) (insert "\n"))
  (insert (propertize text 'face 'bold))
  (gemini-companion-status--buttons buttons)
  (insert "\n"))

(defun gemini-companion-status--buttons (buttons)
  "Insert BUTTONS, each (LABEL . FUNCTION), which print all anew."
  (pcase-dolist (`(,label . ,function) buttons)
    (insert "  ")
    (gemini-companion-report-button
     label (lambda ()
             (funcall function)
             (gemini-companion-status--refresh
              (get-buffer gemini-companion-status--name))))))

(defun gemini-companion-status--insert-server ()
  "Insert where clients find us."
  (if (not (gemini-companion-bridge-running-p))
      (gemini-companion-status--heading "Gemini companion is off"
                                        (cons "switch on" (lambda () (gemini-companion-mode 1))))
    (gemini-companion-status--heading
     (format "Gemini companion listens on 127.0.0.1, port %d" (gemini-companion-bridge-port))
     (cons "restart" #'gemini-companion-restart)
     (cons "switch off" (lambda () (gemini-companion-mode -1))))
    (dolist (file (gemini-companion-bridge-discovery-files))
      (gemini-companion-report-line "announced by %s%s" file
                                    (if (file-exists-p file) "" " (missing)")))
    (when-let* ((fault (gemini-companion-bridge-discovery-fault)))
      (dolist (line (split-string fault "\n"))
        (gemini-companion-report-line "%s" line)))
    (gemini-companion-status--heading "Workspace roots")
    (gemini-companion-status--lines (gemini-companion-workspace-announced))))

(defun gemini-companion-status--lines (lines)
  "Insert LINES, or that there are none."
  (if lines
      (dolist (line lines) (gemini-companion-report-line "%s" line))
    (gemini-companion-report-line "none")))

(defun gemini-companion-status--insert-sessions ()
  "Insert who is connected."
  (let ((sessions (gemini-companion-bridge-sessions)))
    (gemini-companion-status--heading (format "Sessions: %d" (length sessions)))
    (unless sessions
      (gemini-companion-report-line
       "A CLI that runs already connects when you type /ide enable in it"))
    (dolist (session sessions)
      (pcase-let ((`[,key ,client ,process ,seconds ,stream ,reviews ,unheard ,directory]
                   session))
        (insert "  " (gemini-companion-log-one-line client)
                (if process (format ", process %d" process) "")
                (gemini-companion-status--place directory)
                (format ", for %s" (gemini-companion-log-duration seconds))
                (pcase stream
                  ('open "")
                  ('lost ", its connection is lost")
                  ('never ", listens to nothing yet"))
                (if (zerop reviews) "" (format ", waits for %d of your decisions" reviews))
                (if (zerop unheard) "" (format ", has not heard of %d" unheard)))
        (gemini-companion-status--buttons
         (list (cons "disconnect"
                     (lambda () (gemini-companion-bridge-disconnect key)))))
        (insert "\n")))))

(defun gemini-companion-status--place (directory)
  "Return where a client works: in DIRECTORY, as the bridge describes sessions."
  (if (not (stringp directory)) ""
    (gemini-companion-log-one-line
     (format " in %s%s" (abbreviate-file-name directory)
             (if (gemini-companion-scope-names (gemini-companion-scope-of directory)) ""
               " (no workspace root)")))))

(defun gemini-companion-status--insert-reviews ()
  "Insert the changes that wait, and how many were decided."
  (let ((reviews (gemini-companion-review-list-open)))
    (gemini-companion-status--heading
     (format "Changes that wait for you: %d; decided: %d" (length reviews)
             (length (gemini-companion-history-list)))
     (cons "list" #'gemini-companion-review-list)
     (cons "history" #'gemini-companion-review-history))
    (dolist (review reviews)
      (insert "  " (gemini-companion-log-one-line (gemini-companion-review-path review)))
      (gemini-companion-status--buttons
       (list (cons "show" (lambda () (gemini-companion-status--show review)))))
      (insert "\n"))))

(defun gemini-companion-status--show (review)
  "Show REVIEW, unless it was decided meanwhile."
  (unless (memq review (gemini-companion-review-list-open))
    (user-error "That was decided meanwhile"))
  (unless (gemini-companion-review-hide review)
    (gemini-companion-review-show review 'select)))

(defun gemini-companion-status--insert-context ()
  "Insert whether clients are told what the user looks at."
  (gemini-companion-status--heading
   (if gemini-companion-context-paused
       "Clients are told that no file is open"
     "Clients are told what you look at in their projects")
   (cons "show" #'gemini-companion-show-context)
   (cons (if gemini-companion-context-paused "go on" "pause")
         #'gemini-companion-toggle-context)))

(defun gemini-companion-status--insert-log ()
  "Insert the last lines of the log."
  (gemini-companion-status--heading "Log" (cons "open" #'gemini-companion-log)
                                    (cons (if (eq gemini-companion-log-level 'protocol)
                                              "without messages"
                                            "with messages")
                                          #'gemini-companion-toggle-protocol-log))
  (gemini-companion-status--lines
   (gemini-companion-log-last gemini-companion-status--log-lines)))

(provide 'gemini-companion-status)
;;; gemini-companion-status.el ends here

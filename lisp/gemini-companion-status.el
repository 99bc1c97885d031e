;;; gemini-companion-status.el --- What goes on, and what clients are told -*- lexical-binding: t; -*-

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
(require 'gemini-companion-history)
(require 'gemini-companion-log)
(require 'gemini-companion-native)
(require 'gemini-companion-queue)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function gemini-companion-mode "gemini-companion")
(declare-function gemini-companion-restart "gemini-companion")
(declare-function gemini-companion-review-history "gemini-companion-review-history")
(declare-function gemini-companion-review-list "gemini-companion-review-list")
(declare-function gemini-companion-toggle-protocol-log "gemini-companion")

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
  (gemini-companion-ui-keep-keys 'gemini-companion-status-mode)
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
  (gemini-companion-ui-print #'gemini-companion-status--insert))

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
  (gemini-companion-ui-line "package and module %s, Emacs %s on %s"
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
    (gemini-companion-ui-button
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
      (gemini-companion-ui-line "announced by %s%s" file
                                (if (file-exists-p file) "" " (missing)")))
    (when-let ((fault (gemini-companion-bridge-discovery-fault)))
      (dolist (line (split-string fault "\n"))
        (gemini-companion-ui-line "%s" line)))
    (gemini-companion-status--heading "Workspace roots")
    (gemini-companion-status--lines (gemini-companion-workspace-announced))))

(defun gemini-companion-status--lines (lines)
  "Insert LINES, or that there are none."
  (if lines
      (dolist (line lines) (gemini-companion-ui-line "%s" line))
    (gemini-companion-ui-line "none")))

(defun gemini-companion-status--insert-sessions ()
  "Insert who is connected."
  (let ((sessions (gemini-companion-bridge-sessions)))
    (gemini-companion-status--heading (format "Sessions: %d" (length sessions)))
    (unless sessions
      (gemini-companion-ui-line
       "A CLI that runs already connects when you type /ide enable in it"))
    (dolist (session sessions)
      (pcase-let ((`[,key ,client ,process ,seconds ,stream ,reviews ,unheard ,directory]
                   session))
        (insert "  " (gemini-companion-ui-one-line client)
                (if process (format ", process %d" process) "")
                (gemini-companion-status--place directory)
                (format ", for %s" (gemini-companion-ui-duration seconds))
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
    (gemini-companion-ui-one-line
     (format " in %s%s" (abbreviate-file-name directory)
             (if (gemini-companion-workspace-scope-names
                  (gemini-companion-workspace-scope-of directory))
                 ""
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
      (insert "  " (gemini-companion-ui-one-line (gemini-companion-review-path review)))
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

;;;; What clients are told

(defconst gemini-companion-status--context-name "*gemini context*"
  "Name of the buffer.")

(defvar gemini-companion-context-view-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "p") #'gemini-companion-toggle-context)
    map)
  "Keys in the buffer with what clients are told.")

(define-derived-mode gemini-companion-context-view-mode special-mode "Gemini-Context"
  "Major mode for what clients are told of what you look at.
\\{gemini-companion-context-view-mode-map}"
  :interactive nil
  (gemini-companion-ui-keep-keys 'gemini-companion-context-view-mode)
  (setq-local revert-buffer-function #'gemini-companion-status--revert)
  (add-hook 'kill-buffer-hook #'gemini-companion-status--stop nil t)
  (buffer-disable-undo))

;;;###autoload
(defun gemini-companion-show-context ()
  "Show what clients are told of what you look at, as it changes.
It is shown whether or not a client is connected."
  (interactive)
  (gemini-companion-bridge-check)
  (let ((buffer (get-buffer-create gemini-companion-status--context-name)))
    (with-current-buffer buffer
      (gemini-companion-context-view-mode)
      (add-hook 'gemini-companion-context-change-hook #'gemini-companion-status--print-context)
      (gemini-companion-context-update)
      (goto-char (point-min)))
    (display-buffer buffer)))

(defun gemini-companion-status--stop ()
  "Stop following what clients are told."
  (remove-hook 'gemini-companion-context-change-hook #'gemini-companion-status--print-context)
  (gemini-companion-context-update))

(defun gemini-companion-status--revert (&rest _)
  "Print the current buffer anew."
  (gemini-companion-status--print-context))

(defun gemini-companion-status--print-context ()
  "Print what clients are told, if the buffer for that is there."
  (when-let ((buffer (get-buffer gemini-companion-status--context-name)))
    (with-current-buffer buffer
      (let ((text (gemini-companion-status--text))
            (inhibit-read-only t))
        (unless (equal text (buffer-string))
          ;; Keeps what is on screen of it where it is.
          (let ((new (generate-new-buffer " *gemini context*" t)))
            (unwind-protect
                (progn (with-current-buffer new (insert text))
                       (replace-buffer-contents new 0.1))
              (kill-buffer new))))
        (set-buffer-modified-p nil)))))

;;;; The text

(defun gemini-companion-status--text ()
  "Return in words, and then as it is sent, what clients are told."
  (concat
   (substitute-command-keys
    (if gemini-companion-context-paused
        "Clients are told that no file is open: paused  \
(\\<gemini-companion-context-view-mode-map>\\[gemini-companion-toggle-context] goes on)\n"
      "What clients are told  \
(\\<gemini-companion-context-view-mode-map>\\[gemini-companion-toggle-context] pauses it)\n"))
   "\nWorkspace roots\n"
   (gemini-companion-status--list
    (mapcar #'gemini-companion-status--root (gemini-companion-workspace-known)))
   (mapconcat (pcase-lambda (`(,directory . ,clients))
                (gemini-companion-status--context-place directory clients))
              (gemini-companion-status--places)
              "")))

(defun gemini-companion-status--root (root)
  "Return a line for ROOT, a workspace root."
  (concat (gemini-companion-workspace-root-directory root)
          (unless (gemini-companion-workspace-root-project root)
            ", which is no project: only clients there hear of its files")))

(defun gemini-companion-status--places ()
  "Return where clients work, each directory with lines for its clients.
If there is none, where the command was given."
  (let ((places nil))
    (dolist (session (gemini-companion-bridge-sessions))
      (pcase-let ((`[,_ ,client ,process ,_ ,_ ,_ ,_ ,directory] session))
        (unless (eq directory t)        ; not known yet
          (push (concat client (and process (format ", process %d" process)))
                (alist-get directory places nil nil #'equal)))))
    (if places
        (mapcar (lambda (place) (cons (car place) (reverse (cdr place)))) (nreverse places))
      (list (list (gemini-companion-status--here))))))

(defun gemini-companion-status--here ()
  "Return the directory of the current buffer, or nil if it is a remote one."
  (and (not (file-remote-p default-directory))
       (expand-file-name default-directory)))

(defun gemini-companion-status--context-place (directory clients)
  "Return what CLIENTS, lines of text, hear who work in DIRECTORY."
  (let ((files (gemini-companion-context-gather directory))
        (withheld (gemini-companion-context-withheld directory)))
    (concat
     "\n"
     (propertize
      (concat (if clients (mapconcat #'gemini-companion-ui-one-line clients "\n")
                "No client is connected.  One that is")
              (gemini-companion-status--scope (gemini-companion-workspace-scope-of directory)))
      'face 'bold)
     "\n\nOpen files\n"
     (gemini-companion-status--list
      (mapcar #'gemini-companion-status--file files))
     "\nWithheld\n"
     (gemini-companion-status--list
      (mapcar (pcase-lambda (`(,file . ,reason)) (format "%s: %s" file reason)) withheld))
     "\nThe message\n"
     (gemini-companion-bridge-context-json files)
     "\n")))

(defun gemini-companion-status--scope (scope)
  "Return in words where clients with SCOPE work, and of what they hear."
  (let ((directory (gemini-companion-workspace-scope-directory scope))
        (names (gemini-companion-workspace-scope-names scope)))
    (gemini-companion-ui-one-line
     (concat (cond ((not directory) ", whose directory is not known")
                   (names (format " in %s" (abbreviate-file-name directory)))
                   (t (format " in %s, in no workspace root"
                              (abbreviate-file-name directory))))
             (if (gemini-companion-workspace-scope-all-projects scope)
                 ": hears of all projects"
               (format ": hears of %s"
                       (abbreviate-file-name (directory-file-name (car names)))))))))

(defun gemini-companion-status--list (items)
  "Return the strings ITEMS as lines."
  (if (null items) "  none\n"
    (mapconcat (lambda (item) (format "  %s\n" (gemini-companion-ui-one-line item)))
               items "")))

(defun gemini-companion-status--file (file)
  "Return a line for the vector FILE."
  (pcase-let ((`[,path ,_ ,active ,line ,character ,selection] file))
    (concat path
            (and active (format ", active, at line %d, character %d" line character))
            (and selection (format ", %d characters selected" (length selection))))))

(provide 'gemini-companion-status)
;;; gemini-companion-status.el ends here

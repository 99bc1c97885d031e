;;; gemini-companion-status.el --- Show the state, and what clients are told -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Two buffers that are updated while they are on screen.  The first one shows whether the companion
;; is running, where clients find it, which of them are connected, and what awaits the user.  The
;; second one shows what each client is told about what the user looks at.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-bridge)
(require 'gemini-companion-context)
(require 'gemini-companion-file)
(require 'gemini-companion-history)
(require 'gemini-companion-host)
(require 'gemini-companion-host-connect)
(require 'gemini-companion-log)
(require 'gemini-companion-native)
(require 'gemini-companion-review)
(require 'gemini-companion-review-popup)
(require 'gemini-companion-tool)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function gemini-companion-comment-describe "gemini-companion-comment")
(declare-function gemini-companion-mode "gemini-companion")

;;;; The buffer with the state

(define-derived-mode gemini-companion-status-mode gemini-companion-report-mode "Gemini-Status"
  "Major mode for the state of the companion and its clients.

\\{gemini-companion-status-mode-map}"
  :interactive nil
  (gemini-companion-ui-keep-keys 'gemini-companion-status-mode)
  (setq-local revert-buffer-function
              (lambda (&rest _) (gemini-companion-ui-print #'gemini-companion-status--insert)))
  (gemini-companion-ui-keep-current #'gemini-companion-status--refresh nil 2))

;;;###autoload
(defun gemini-companion-status ()
  "Show whether the companion is running, and which clients are connected."
  (interactive)
  (gemini-companion-ui-pop-to "*gemini status*" #'gemini-companion-status-mode)
  (gemini-companion-ui-print #'gemini-companion-status--insert))

(defun gemini-companion-status--refresh ()
  "Update the current buffer, unless the user has marked a part of it."
  (gemini-companion-log-errors "status"
    (unless (region-active-p)
      (gemini-companion-ui-print #'gemini-companion-status--insert))))

;;;; Its sections

(defun gemini-companion-status--insert ()
  "Insert all sections."
  (if (not (gemini-companion-bridge-running-p))
      (gemini-companion-status--section
       '("Gemini companion is off" ("turn on" . gemini-companion-turn-on)) nil)
    (gemini-companion-status--insert-server)
    (let ((sessions (gemini-companion-bridge-sessions)))
      (gemini-companion-status--section
       (list (format "Sessions: %d" (length sessions)))
       (or (mapcar #'gemini-companion-status--session sessions)
           (list (concat "A running CLI connects when you type /ide enable in it; "
                         (gemini-companion-ui-key 'gemini-companion-run "starts one"))))))
    (when-let* ((rows (gemini-companion-host-connect-describe)))
      (gemini-companion-status--section '("Other machines") rows))
    (gemini-companion-status--insert-reviews))
  (gemini-companion-status--section '("Log" ("open" . gemini-companion-log))
                                    (or (gemini-companion-log-last 5) '("none")))
  (gemini-companion-status--section
   '("Versions")
   (list (format "package %s, module %s, Emacs %s on %s"
                 gemini-companion-native-version
                 (or (gemini-companion-native-loaded-version) "not loaded")
                 emacs-version system-configuration))))

(defun gemini-companion-status--section (heading rows)
  "Insert HEADING, (TEXT BUTTON...), and ROWS, a list.
A row is a text or (TEXT SUBJECT BUTTON...), where SUBJECT identifies what it
is about, which may be listed elsewhere later.  A button is (LABEL . FUNCTION)."
  (unless (bobp) (insert "\n"))
  (gemini-companion-status--line (propertize (car heading) 'face 'gemini-companion-heading)
                                 nil (cdr heading))
  (dolist (row rows)
    (pcase-let ((`(,text ,subject . ,buttons) (ensure-list row)))
      (gemini-companion-status--line (concat "  " text) subject buttons))))

(defun gemini-companion-status--line (text subject buttons)
  "Insert TEXT, a line about SUBJECT, with BUTTONS, each (LABEL . FUNCTION)."
  (insert (gemini-companion-ui-one-line text))
  (pcase-dolist (`(,label . ,function) buttons)
    (insert "  ")
    (gemini-companion-ui-button label function (cons subject label)))
  (insert "\n"))

(defun gemini-companion-status--insert-server ()
  "Insert where clients find this Emacs."
  (gemini-companion-status--section
   `(,(format "Gemini companion listens on 127.0.0.1, port %d" (gemini-companion-bridge-port))
     ("restart" . gemini-companion-restart)
     ("turn off" . ,(lambda ()
                      (when (gemini-companion-review-query-exit "turn the companion off")
                        (gemini-companion-mode -1)))))
   (mapcar (lambda (file) (concat "announced by " file))
           (gemini-companion-bridge-discovery-files)))
  (gemini-companion-status--section '("Workspace roots")
                                    (or (gemini-companion-workspace-announced) '("none"))))

(defun gemini-companion-status--session (session)
  "Return a row about SESSION, a `gemini-companion-bridge-session'."
  (let ((key (gemini-companion-bridge-session-key session))
        (directory (gemini-companion-bridge-session-directory session))
        (reviews (gemini-companion-bridge-session-reviews session))
        (undelivered (gemini-companion-bridge-session-outcomes session)))
    (list
     (concat (gemini-companion-status--client session)
             (and (stringp directory)
                  (concat " in " (gemini-companion-file-abbreviate directory)
                          (unless (gemini-companion-workspace-scope-names
                                   (gemini-companion-workspace-scope-of directory))
                            " (no workspace root)")))
             (format ", for %s" (gemini-companion-ui-duration
                                 (gemini-companion-bridge-session-age session)))
             (pcase (gemini-companion-bridge-session-stream session)
               ('lost ", its connection is lost")
               ('never ", not listening yet"))
             (and (gemini-companion-bridge-session-own-front session)
                  "; you decide its changes in its own front end")
             (unless (zerop reviews)
               (format ", %s not decided" (gemini-companion-ui-count reviews "change")))
             (unless (zerop undelivered)
               (format ", %s not delivered"
                       (gemini-companion-ui-count undelivered "decision"))))
     key
     (cons "disconnect" (lambda ()
                          (unless (gemini-companion-bridge-disconnect key)
                            (user-error "This session has ended in the meantime")))))))

(defun gemini-companion-status--client (session)
  "Return the client of SESSION, with its process id if that is known."
  (let ((process (gemini-companion-bridge-session-process session)))
    (concat (gemini-companion-bridge-session-client session)
            (and process (format ", process %s" process)))))

(defun gemini-companion-status--insert-reviews ()
  "Insert the open reviews, and how many were decided."
  (let ((reviews (gemini-companion-review-all-open)))
    (gemini-companion-status--section
     `(,(format "Changes that wait: %d; decided: %d" (length reviews)
                (length (gemini-companion-history-all)))
       ("list" . gemini-companion-review-list)
       ("history" . gemini-companion-history-list))
     (mapcar (lambda (review)
               (list (concat (gemini-companion-review-path review)
                             ": " (gemini-companion-review-popup-state review))
                     (gemini-companion-review-id review)
                     (cons "show" (lambda () (gemini-companion-review-visit review)))))
             reviews))))

;;;; The buffer with what clients are told

(define-derived-mode gemini-companion-context-view-mode gemini-companion-report-mode
  "Gemini-Context"
  "Major mode for what Emacs tells clients about what you look at.

\\{gemini-companion-context-view-mode-map}"
  :interactive nil
  (gemini-companion-ui-keep-keys 'gemini-companion-context-view-mode)
  (setq-local revert-buffer-function (lambda (&rest _) (gemini-companion-status--print-context)))
  (gemini-companion-ui-keep-current
   (lambda ()
     (gemini-companion-log-errors "context"
       (gemini-companion-status--print-context)))
   '(gemini-companion-context-change-hook gemini-companion-tool-change-hook)))

(gemini-companion-ui-bind gemini-companion-context-view-mode-map
  "p" #'gemini-companion-toggle-context)

;;;###autoload
(defun gemini-companion-show-context ()
  "Show what Emacs tells clients about what you look at, as it changes.
This works even if no client is connected."
  (interactive)
  (gemini-companion-bridge-check)
  (with-current-buffer (get-buffer-create "*gemini context*")
    (gemini-companion-context-view-mode)
    (gemini-companion-context-update)
    (gemini-companion-status--print-context)
    (goto-char (point-min)))
  (gemini-companion-ui-pop-to "*gemini context*"))

(defun gemini-companion-status--print-context ()
  "Show what clients are told in the current buffer."
  (let ((text (gemini-companion-status--context-text)))
    (unless (equal text (buffer-string))
      (gemini-companion-ui-print (lambda () (insert text))))))

;;;; Its text

(defun gemini-companion-status--context-text ()
  "Return what clients are told, as text for the user."
  (concat
   (substitute-command-keys
    (format "\\<gemini-companion-context-view-mode-map>%s  \
(\\[gemini-companion-toggle-context] %s)\n"
            (if gemini-companion-context-paused "Paused: Emacs tells clients that no file is open"
              "What clients are told")
            (if gemini-companion-context-paused "resumes" "pauses it")))
   ;; Who has not enabled them sees first what this is about.
   (when (gemini-companion-tool-signatures)
     (gemini-companion-status--list
      "Last tool calls, by models"
      (mapcar (lambda (call)
                (concat (format-time-string "%T " (gemini-companion-tool-call-started call))
                        (gemini-companion-tool-describe-call call)))
              ;; Hooks call several for each edit.
              (seq-take (seq-remove #'gemini-companion-tool-hidden-p gemini-companion-tool-calls)
                        20))))
   (gemini-companion-status--list "Workspace roots" (gemini-companion-status--roots))
   (mapconcat (pcase-lambda (`(,directory . ,clients))
                (gemini-companion-status--context-of directory clients))
              (gemini-companion-status--directories)
              "")
   (gemini-companion-status--list "Tools that the model can call"
                                  (gemini-companion-tool-signatures))))

(defun gemini-companion-status--list (title items)
  "Return TITLE and the strings ITEMS as lines, or that there are none."
  (concat "\n" (propertize title 'face 'gemini-companion-heading) "\n"
          (mapconcat (lambda (item) (format "  %s\n" (gemini-companion-ui-one-line item)))
                     (or items '("none")) "")))

(defun gemini-companion-status--roots ()
  "Return lines for all workspace roots."
  (append (mapcar (lambda (root)
                    (concat (gemini-companion-workspace-root-directory root)
                            (unless (gemini-companion-workspace-root-project root)
                              ", not a project: only clients there learn about its files")))
                  gemini-companion-workspace-known)
          (cl-loop for host in gemini-companion-host-all
                   append (mapcar (lambda (root) (concat (gemini-companion-host-prefix host) root))
                                  (gemini-companion-host-roots host)))))

(defun gemini-companion-status--directories ()
  "Return an alist of the directories where clients work, and their clients.
Without clients, that is the current one, or nil if its host is not served."
  (or (mapcar (pcase-lambda (`(,directory . ,sessions))
                (cons directory (mapcar #'gemini-companion-status--client sessions)))
              (seq-group-by #'gemini-companion-bridge-session-directory
                            (gemini-companion-bridge-sessions)))
      (list (list (cond ((gemini-companion-host-of-name default-directory) default-directory)
                        ((not (file-remote-p default-directory))
                         (expand-file-name default-directory)))))))

(defun gemini-companion-status--context-of (directory clients)
  "Return the context of CLIENTS, lines of text, that work in DIRECTORY."
  (let ((files (gemini-companion-context-gather directory))
        (withheld (gemini-companion-context-withheld directory)))
    (concat
     "\n"
     (propertize
      (concat (if clients (mapconcat #'gemini-companion-ui-one-line clients "\n")
                "No client is connected.  A client")
              (gemini-companion-status--scope directory))
      'face 'gemini-companion-heading)
     "\n"
     (gemini-companion-status--list "Open files" (mapcar #'gemini-companion-status--file files))
     (gemini-companion-status--list
      "Withheld"
      (mapcar (pcase-lambda (`(,file . ,reason)) (format "%s: %s" file reason)) withheld))
     (gemini-companion-comment-describe directory)
     "\n" (propertize "The message" 'face 'gemini-companion-heading) "\n"
     (gemini-companion-bridge-context-json files (gemini-companion-context-trusted-p directory))
     "\n")))

(defun gemini-companion-status--scope (directory)
  "Return that clients work in DIRECTORY, and what they are told about."
  (let* ((scope (gemini-companion-workspace-scope-of directory))
         (names (gemini-companion-workspace-scope-names scope)))
    (gemini-companion-ui-one-line
     (concat (if (not directory) ", whose directory is unknown"
               (concat " in " (gemini-companion-file-abbreviate directory)))
             (and directory (not names) ", in no workspace root")
             ": told about "
             (cond ((gemini-companion-workspace-scope-all-projects scope) "all projects")
                   ((not names) "no file")
                   (t (mapconcat (lambda (name)
                                   (gemini-companion-file-abbreviate
                                    (let ((file-name-handler-alist nil))
                                      (directory-file-name name))))
                                 ;; On this machine, all are names of one root.
                                 (if (gemini-companion-workspace-scope-machine scope) names
                                   (list (car names)))
                                 ", ")))))))

(defun gemini-companion-status--file (file)
  "Return a line for FILE, a vector."
  (pcase-let ((`[,path ,_ ,active ,line ,character ,selection] file))
    (concat path
            (and active (format ", active, at line %d, character %d" line character))
            (and selection
                 (format ", %s selected"
                         (gemini-companion-ui-count (length selection) "character"))))))

(provide 'gemini-companion-status)
;;; gemini-companion-status.el ends here

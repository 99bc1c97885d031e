;;; gemini-companion-context-view.el --- What clients know -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A buffer with what clients are told at this moment, and what is withheld from them and why.

;;; Code:

(require 'subr-x)
(require 'gemini-companion-bridge)
(require 'gemini-companion-context)
(require 'gemini-companion-evil)
(require 'gemini-companion-log)
(require 'gemini-companion-scope)
(require 'gemini-companion-workspace)

(defconst gemini-companion-context-view--name "*gemini context*"
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
  (gemini-companion-evil-keep-keys 'gemini-companion-context-view-mode)
  (setq-local revert-buffer-function #'gemini-companion-context-view--revert)
  (add-hook 'kill-buffer-hook #'gemini-companion-context-view--stop nil t)
  (buffer-disable-undo))

;;;###autoload
(defun gemini-companion-show-context ()
  "Show what clients are told of what you look at, as it changes.
It is shown whether or not a client is connected."
  (interactive)
  (gemini-companion-bridge-check)
  (let ((buffer (get-buffer-create gemini-companion-context-view--name)))
    (with-current-buffer buffer
      (gemini-companion-context-view-mode)
      (add-hook 'gemini-companion-context-functions #'gemini-companion-context-view--print)
      (gemini-companion-context-update)
      (goto-char (point-min)))
    (display-buffer buffer)))

(defun gemini-companion-context-view--stop ()
  "Stop following what clients are told."
  (remove-hook 'gemini-companion-context-functions #'gemini-companion-context-view--print)
  (gemini-companion-context-update))

(defun gemini-companion-context-view--revert (&rest _)
  "Print the current buffer anew."
  (gemini-companion-context-view--print))

(defun gemini-companion-context-view--print ()
  "Print what clients are told, if the buffer for that is there."
  (when-let* ((buffer (get-buffer gemini-companion-context-view--name)))
    (with-current-buffer buffer
      (let ((text (gemini-companion-context-view--text))
            (inhibit-read-only t))
        (unless (equal text (buffer-string))
          ;; Keeps what is on screen of it where it is.
          (let ((new (generate-new-buffer " *gemini context*" t)))
            (unwind-protect
                (progn (with-current-buffer new (insert text))
                       (replace-region-contents (point-min) (point-max)
                                                (lambda () new) 0.1))
              (kill-buffer new))))
        (set-buffer-modified-p nil)))))

;;;; The text

(defun gemini-companion-context-view--text ()
  "Return in words, and then as it is sent, what clients are told."
  (concat
   (substitute-command-keys
    (if gemini-companion-context-paused
        "Clients are told that no file is open: paused  \
(\\<gemini-companion-context-view-mode-map>\\[gemini-companion-toggle-context] goes on)\n"
      "What clients are told  \
(\\<gemini-companion-context-view-mode-map>\\[gemini-companion-toggle-context] pauses it)\n"))
   "\nWorkspace roots\n"
   (gemini-companion-context-view--list
    (mapcar #'gemini-companion-context-view--root (gemini-companion-workspace-known)))
   (mapconcat (pcase-lambda (`(,directory . ,clients))
                (gemini-companion-context-view--place directory clients))
              (gemini-companion-context-view--places)
              "")))

(defun gemini-companion-context-view--root (root)
  "Return a line for ROOT, a workspace root."
  (concat (gemini-companion-workspace-root-directory root)
          (unless (gemini-companion-workspace-root-project root)
            ", which is no project: only clients there hear of its files")))

(defun gemini-companion-context-view--places ()
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
      (list (list (gemini-companion-context-view--here))))))

(defun gemini-companion-context-view--here ()
  "Return the directory of the current buffer, or nil if it is a remote one."
  (and (not (file-remote-p default-directory))
       (expand-file-name default-directory)))

(defun gemini-companion-context-view--place (directory clients)
  "Return what CLIENTS, lines of text, hear who work in DIRECTORY."
  (let ((files (gemini-companion-context-gather directory))
        (withheld (gemini-companion-context-withheld directory)))
    (concat
     "\n"
     (propertize
      (concat (if clients (mapconcat #'gemini-companion-log-one-line clients "\n")
                "No client is connected.  One that is")
              (gemini-companion-context-view--scope (gemini-companion-scope-of directory)))
      'face 'bold)
     "\n\nOpen files\n"
     (gemini-companion-context-view--list
      (mapcar #'gemini-companion-context-view--file files))
     "\nWithheld\n"
     (gemini-companion-context-view--list
      (mapcar (pcase-lambda (`(,file . ,reason)) (format "%s: %s" file reason)) withheld))
     "\nThe message\n"
     (gemini-companion-bridge-context-json files)
     "\n")))

(defun gemini-companion-context-view--scope (scope)
  "Return in words where clients with SCOPE work, and of what they hear."
  (let ((directory (gemini-companion-scope-directory scope))
        (names (gemini-companion-scope-names scope)))
    (gemini-companion-log-one-line
     (concat (cond ((not directory) ", whose directory is not known")
                   (names (format " in %s" (abbreviate-file-name directory)))
                   (t (format " in %s, in no workspace root"
                              (abbreviate-file-name directory))))
             (if (gemini-companion-scope-projects scope) ": hears of all projects"
               (format ": hears of %s"
                       (abbreviate-file-name (directory-file-name (car names)))))))))

(defun gemini-companion-context-view--list (items)
  "Return the strings ITEMS as lines."
  (if (null items) "  none\n"
    (mapconcat (lambda (item) (format "  %s\n" (gemini-companion-log-one-line item)))
               items "")))

(defun gemini-companion-context-view--file (file)
  "Return a line for the vector FILE."
  (pcase-let ((`[,path ,_ ,active ,line ,character ,selection] file))
    (concat path
            (and active (format ", active, at line %d, character %d" line character))
            (and selection (format ", %d characters selected" (length selection))))))

(provide 'gemini-companion-context-view)
;;; gemini-companion-context-view.el ends here

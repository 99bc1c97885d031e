;;; gemini-companion-context-view.el --- What clients know -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A buffer with what clients are told at this moment, and what is withheld from them and why.

;;; Code:

(require 'gemini-companion-bridge)
(require 'gemini-companion-context)
(require 'gemini-companion-evil)
(require 'gemini-companion-log)
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
  (gemini-companion-context-view--print (gemini-companion-context-gather)))

(defun gemini-companion-context-view--print (files)
  "Print FILES, which are what clients are told, if their buffer is there."
  (when-let ((buffer (get-buffer gemini-companion-context-view--name)))
    (with-current-buffer buffer
      (let ((text (gemini-companion-context-view--text files))
            (inhibit-read-only t))
        (unless (equal text (buffer-string))
          ;; Keeps what is on screen of it where it is.
          (let ((new (generate-new-buffer " *gemini context*" t)))
            (unwind-protect
                (progn (with-current-buffer new (insert text))
                       (replace-buffer-contents new 0.1))
              (kill-buffer new))))
        (set-buffer-modified-p nil)))))

(defun gemini-companion-context-view--text (files)
  "Return in words, and then as it is sent, that clients are told of FILES."
  (let ((clients (gemini-companion-bridge-clients))
        (withheld (gemini-companion-context-withheld)))
    (concat
     (pcase clients
       (0 "No client is connected.  One that connects is told this:\n")
       (1 "One client is told this:\n")
       (_ (format "%d clients are told this:\n" clients)))
     (substitute-command-keys
      (if gemini-companion-context-paused
          "  (paused: \\<gemini-companion-context-view-mode-map>\
\\[gemini-companion-toggle-context] goes on)\n"
        "  (\\<gemini-companion-context-view-mode-map>\
\\[gemini-companion-toggle-context] pauses it)\n"))
     "\nWorkspace roots\n"
     (gemini-companion-context-view--list (gemini-companion-workspace-announced))
     "\nOpen files\n"
     (gemini-companion-context-view--list
      (mapcar #'gemini-companion-context-view--file files))
     "\nWithheld\n"
     (gemini-companion-context-view--list
      (mapcar (pcase-lambda (`(,file . ,reason)) (format "%s: %s" file reason)) withheld))
     "\nThe message\n"
     (gemini-companion-bridge-context-json files)
     "\n")))

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

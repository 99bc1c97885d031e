;;; gemini-companion-cli-image.el --- Images and files in a prompt -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An image that is yanked into a prompt, or that a buffer shows, becomes a file that only the user
;; can read, and the prompt mentions it.  It is where the CLI keeps such files itself, since it
;; reads them there without a question, and is deleted when the CLI ends, or Emacs exits.  A file
;; that is dropped, or sent by the command here, is mentioned as it is.  The prompt may be that in
;; the terminal, too.

;;; Code:

(require 'dnd)
(require 'gemini-companion-agent)
(require 'gemini-companion-cli-compose)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-cli-send)
(require 'gemini-companion-file)
(require 'gemini-companion-host)
(require 'gemini-companion-log)

(declare-function dired-get-marked-files "dired")

;;;###autoload
(defun gemini-companion-cli-image-set-up (&optional _terminal)
  "Let the user yank images, and drop files, into the current buffer.
It is a terminal of a CLI, or has a prompt for one."
  ;; Emacs 28 does not have it.
  (when (fboundp 'yank-media-handler)
    (yank-media-handler "image/.*" #'gemini-companion-cli-image--yank))
  (setq-local dnd-protocol-alist
              (cons '("^file:" . gemini-companion-cli-image--drop) dnd-protocol-alist)))
;;;###autoload (add-hook 'gemini-companion-compose-mode-hook #'gemini-companion-cli-image-set-up)
;;;###autoload (add-hook 'gemini-companion-cli-send-read-functions #'gemini-companion-cli-image-set-up)
;;;###autoload (add-hook 'gemini-companion-cli-run-functions #'gemini-companion-cli-image-set-up)

(defun gemini-companion-cli-image--drop (uri _action)
  "Mention the file that URI names, which the user has dropped."
  (gemini-companion-cli-image--mention (or (dnd-get-local-file-name uri t)
                                           (user-error "There is no such file")))
  'private)

(defun gemini-companion-cli-image--mention (file)
  "Mention FILE at point, or in the prompt of the CLI in the current terminal."
  (let ((text (concat (gemini-companion-cli-send-mention file default-directory) " ")))
    (if gemini-companion-cli-run-root
        (gemini-companion-cli-send-text text nil (current-buffer))
      (insert text))))

(defun gemini-companion-cli-image--yank (type data)
  "Mention a new file with DATA, an image of TYPE such as image/png."
  (gemini-companion-cli-image--mention
   (gemini-companion-cli-image--write
    (or gemini-companion-cli-compose-terminal (current-buffer))
    (replace-regexp-in-string "\\`image/\\([a-z]+\\).*\\'" "\\1" (symbol-name type))
    data)))

;;;###autoload
(defun gemini-companion-send-file (&optional submit)
  "Mention the current file in the prompt of the CLI, which then reads it.
In Dired, mention the marked files and directories; in another buffer that
visits no file, the image at point.  With SUBMIT, interactively the prefix
argument, send the prompt as well."
  (interactive "P")
  (let* ((terminal (gemini-companion-cli-send-terminal))
         (files (cond ((derived-mode-p 'dired-mode) (dired-get-marked-files))
                      ((ensure-list (buffer-file-name (buffer-base-buffer))))
                      ((gemini-companion-cli-image--at-point terminal))
                      (t (user-error "This buffer visits no file"))))
         (directory (gemini-companion-cli-send-directory terminal)))
    (gemini-companion-cli-send-text
     (mapconcat (lambda (file) (concat (gemini-companion-cli-send-mention file directory) " "))
                files "")
     submit terminal)))

(defun gemini-companion-cli-image--at-point (terminal)
  "Return a list of a file with the image at point for the CLI in TERMINAL, or nil."
  (pcase (get-char-property (point) 'display)
    (`(image . ,image)
     (list (or (plist-get image :file)
               (let ((data (plist-get image :data)))
                 (gemini-companion-cli-image--write
                  terminal (or (image-type-from-data data) (plist-get image :type))
                  ;; Some images are text.
                  (encode-coding-string data 'utf-8 t))))))))

(defun gemini-companion-cli-image--write (terminal type data)
  "Return a new file for the CLI in TERMINAL with DATA, an image of TYPE."
  (when (gemini-companion-host-remote-p (gemini-companion-cli-send-directory terminal))
    (user-error "The CLI runs on another machine, and cannot read an image from here"))
  (let ((process (get-buffer-process terminal)))
    (unless (process-live-p process)
      (user-error "The CLI has ended; M-x gemini-companion-run starts one"))
    ;; Not as the text for `make-temp-file', which would say "Wrote".
    (let* ((directory (gemini-companion-cli-image--directory terminal process))
           (file (make-temp-file (expand-file-name "image-" directory) nil (format ".%s" type))))
      (gemini-companion-file-replace file data #o600)
      file)))

;;;; Their directories

(defun gemini-companion-cli-image--directory (terminal process)
  "Return the directory for images of the CLI in TERMINAL, which runs as PROCESS."
  ;; Old files in temporary directories may be deleted.
  (or (seq-find #'file-directory-p (ensure-list (process-get process 'gemini-companion-images)))
      (let ((directory (make-temp-file
                        (expand-file-name "emacs-"
                                          (or (gemini-companion-cli-image--parent terminal)
                                              temporary-file-directory))
                        t)))
        (process-put process 'gemini-companion-images directory)
        (add-hook 'kill-emacs-hook #'gemini-companion-cli-image--delete-all)
        (add-function :after (process-sentinel process)
                      (lambda (process _event)
                        (unless (process-live-p process)
                          (gemini-companion-cli-image--delete process))))
        directory)))

(defun gemini-companion-cli-image--parent (terminal)
  "Return where the CLI in TERMINAL keeps temporary files of its project, or nil.
Gemini CLI asks before it reads a file elsewhere; Qwen Code does not read it."
  (when-let* ((agent (gemini-companion-cli-run-agent-in terminal))
              (settings (gemini-companion-agent-settings-file agent process-environment))
              (home (file-name-directory settings))
              (root (directory-file-name
                     (file-truename (gemini-companion-cli-send-directory terminal)))))
    (seq-find #'file-directory-p
              (mapcar (lambda (name) (expand-file-name (concat "tmp/" name) home))
                      (delq nil (list (gemini-companion-cli-image--registered root home)
                                      (secure-hash 'sha256 root)))))))

(defun gemini-companion-cli-image--registered (root home)
  "Return the name that Gemini CLI, with its files in HOME, gives to ROOT, or nil."
  (when-let* ((bytes (gemini-companion-file-read (expand-file-name "projects.json" home)))
              (text (decode-coding-string bytes 'utf-8))
              ((string-match (concat (regexp-quote (format "\"%s\"" root))
                                     ": *\"\\([a-zA-Z0-9_-]+\\)\"")
                             text)))
    (match-string 1 text)))

(defun gemini-companion-cli-image--delete-all ()
  "Delete the images of all CLIs."
  (mapc #'gemini-companion-cli-image--delete (process-list)))

(defun gemini-companion-cli-image--delete (process)
  "Delete the images of PROCESS, if there are any."
  (when-let* ((directory (process-get process 'gemini-companion-images)))
    (gemini-companion-log-errors "deleting images"
      (process-put process 'gemini-companion-images nil)
      (delete-directory directory t))))

(provide 'gemini-companion-cli-image)
;;; gemini-companion-cli-image.el ends here

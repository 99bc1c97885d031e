;;; gemini-companion-follow.el --- Buffers that follow their files -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; After an accept it is the client that writes the file.  A buffer that visits it then shows the
;; new text: point and marks stay, undo can take the change back, and Emacs does not ask about a
;; file that "changed on disk".  A buffer with edits of the user is left alone.

;;; Code:

(require 'gemini-companion-log)

(defconst gemini-companion-follow--interval 0.1
  "Seconds between looks at a file that a client is about to write.")

(defconst gemini-companion-follow--looks 100
  "Looks after which the client is taken to have left the file alone.")

(defvar gemini-companion-follow--timers nil
  "Alist of the files that are looked at and the timers that do so.")

(defun gemini-companion-follow (path)
  "Let the buffer that visits PATH follow the client's next write to it."
  (when-let ((buffer (let ((file-name-handler-alist nil)) (find-buffer-visiting path))))
    (gemini-companion-follow--stop path)
    (push (cons path (run-at-time gemini-companion-follow--interval
                                  gemini-companion-follow--interval
                                  (gemini-companion-follow--watcher path buffer)))
          gemini-companion-follow--timers)))

(defun gemini-companion-follow--watcher (path buffer)
  "Return a function that updates BUFFER once its file PATH was written."
  (let ((before (gemini-companion-follow-stamp path))
        (last nil)
        (looks gemini-companion-follow--looks))
    (lambda ()
      (let ((now (gemini-companion-follow-stamp path)))
        (setq looks (1- looks))
        (cond ((or (zerop looks) (not (buffer-live-p buffer)))
               (gemini-companion-follow--stop path))
              ;; Written, and not being written any more.
              ((and now (not (equal now before)) (equal now last))
               (gemini-companion-follow--stop path)
               (gemini-companion-log-errors "follow"
                 (gemini-companion-follow--update buffer)))
              (t (setq last now)))))))

(defun gemini-companion-follow-now (path)
  "Let the buffer that visits PATH show what was just written there, if one does.
Return that buffer if it does not follow, for it has unsaved edits or
there is no file any more."
  (when-let ((buffer (let ((file-name-handler-alist nil)) (find-buffer-visiting path))))
    (with-current-buffer buffer
      (if (and (not (buffer-modified-p)) (gemini-companion-follow-stamp path))
          (ignore (gemini-companion-follow--replace))
        buffer))))

(defun gemini-companion-follow-stop ()
  "Stop looking at files."
  (mapc #'gemini-companion-follow--stop (mapcar #'car gemini-companion-follow--timers)))

(defun gemini-companion-follow--stop (path)
  "Do not look at the file PATH any more."
  (when-let ((entry (assoc path gemini-companion-follow--timers)))
    (cancel-timer (cdr entry))
    (setq gemini-companion-follow--timers
          (delq entry gemini-companion-follow--timers))))

(defun gemini-companion-follow-stamp (path)
  "Return what changes when the file PATH is written, or nil if there is none."
  (let* ((file-name-handler-alist nil)
         ;; A write changes what a link leads to, not the link.
         (attributes (file-attributes (or (ignore-errors (file-truename path)) path))))
    (and attributes
         ;; Nothing else is ever opened: a FIFO would have us wait.
         (file-regular-p path)
         (list (file-attribute-modification-time attributes)
               (file-attribute-size attributes)
               (file-attribute-inode-number attributes)))))

(defun gemini-companion-follow--update (buffer)
  "Make BUFFER show its file."
  (with-current-buffer buffer
    (cond ((verify-visited-file-modtime))
          ((buffer-modified-p)
           (message "%s changed on disk; your edits in its buffer are kept"
                    (buffer-name)))
          (t (gemini-companion-follow--replace)))))

(defun gemini-companion-follow--replace ()
  "Replace the text of the current buffer by that of its file, in place."
  (let ((file buffer-file-name)
        (source (generate-new-buffer " *gemini-companion-file*" t))
        (inhibit-read-only t))
    (unwind-protect
        (let* ((attributes (file-attributes (file-truename file)))
               (coding (gemini-companion-follow--read file source)))
          ;; First, or the change below would ask whether to edit a changed file.
          (set-visited-file-modtime (file-attribute-modification-time attributes))
          (undo-boundary)
          (save-restriction
            (widen)
            (replace-buffer-contents source 1.0))
          (undo-boundary)
          (setq buffer-file-coding-system coding)
          (set-buffer-modified-p nil)
          ;; Whoever shows something about the file (and the context) wants to know.
          (run-hooks 'after-revert-hook))
      (kill-buffer source))))

(defun gemini-companion-follow--read (file buffer)
  "Read FILE into BUFFER, decoded as when the current buffer is reverted.
Return the coding system: the client may have written other line ends, or
UTF-8 where there was something else.  What cannot be told from the new
text is as before."
  (let ((coding-system-for-read (car buffer-file-coding-system-explicit))
        (before buffer-file-coding-system))
    (with-current-buffer buffer
      (insert-file-contents file)
      (merge-coding-systems last-coding-system-used before))))

(provide 'gemini-companion-follow)
;;; gemini-companion-follow.el ends here

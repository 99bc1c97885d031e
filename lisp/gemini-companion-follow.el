;;; gemini-companion-follow.el --- Buffers that follow their files -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; After an accept it is the client that writes the file.  A buffer that visits it then shows the
;; new text: point and marks stay, and Emacs does not ask about a file that "changed on disk".  Undo
;; takes the change back, and the buffer is modified then, for the file still has the new text.  A
;; buffer with edits of the user is left alone.  All this happens in a timer, where nothing may ask.

;;; Code:

(require 'subr-x) ; `replace-region-contents', before Emacs 31
(require 'gemini-companion-log)

(defconst gemini-companion-follow--interval 0.1
  "Seconds between looks at a file that a client is about to write.")

(defconst gemini-companion-follow--looks 100
  "Looks after which the client is taken to have left the file alone.")

(defconst gemini-companion-follow--max-unvisited 8
  "Files looked at beyond which those that no buffer visits yet are left out.")

(defconst gemini-companion-follow--max-seconds 1.0
  "Seconds to look for what differs, after which all of the text is replaced.")

(defvar gemini-companion-follow--timers nil
  "The files that are looked at, a list of (FILE TIMER . STAMP).
STAMP is what FILE was when its buffer last agreed with it.")

(defun gemini-companion-follow (path &optional merged)
  "Let the buffer that visits PATH follow the client's next write to it.
That may be one which visits PATH by then.  MERGED is a buffer and its
`buffer-chars-modified-tick': as long as it has that, what is written
contains its unsaved edits."
  (when (or (gemini-companion-follow--buffer path)
            (< (length gemini-companion-follow--timers)
               gemini-companion-follow--max-unvisited))
    ;; A write for which it waits already may just have been made.
    (let ((before (or (cddr (assoc path gemini-companion-follow--timers))
                      (gemini-companion-follow-stamp path))))
      (gemini-companion-follow--stop path)
      (push (cons path
                  (cons (run-at-time gemini-companion-follow--interval
                                     gemini-companion-follow--interval
                                     (gemini-companion-follow--watcher path before merged))
                        before))
            gemini-companion-follow--timers))))

(defun gemini-companion-follow--buffer (path)
  "Return the buffer that visits PATH, or nil."
  (let ((file-name-handler-alist nil))
    (find-buffer-visiting path)))

(defun gemini-companion-follow--watcher (path before merged)
  "Return a function that updates the buffer of PATH once that was written.
BEFORE is the stamp of the file until then.  For MERGED see
`gemini-companion-follow'."
  (let ((last nil)
        (looks gemini-companion-follow--looks))
    (lambda ()
      (let ((now (gemini-companion-follow-stamp path)))
        (setq looks (1- looks))
        (cond ((zerop looks)
               (gemini-companion-follow--stop path))
              ;; Written, and not being written any more.
              ((and now (not (equal now before)) (equal now last))
               (gemini-companion-follow--stop path)
               (when-let* ((buffer (gemini-companion-follow--buffer path)))
                 (gemini-companion-log-errors "follow"
                   (gemini-companion-follow--update buffer merged))))
              (t (setq last now)))))))

(defun gemini-companion-follow-now (path)
  "Let the buffer that visits PATH show what was just written there, if one does.
Return that buffer if it does not follow, for it has unsaved edits, or
shows something else than the file's text, or there is no file any more."
  (when-let* ((buffer (gemini-companion-follow--buffer path)))
    (unless (and (gemini-companion-follow-stamp path)
                 (with-current-buffer buffer (gemini-companion-follow--show)))
      buffer)))

(defun gemini-companion-follow-stop ()
  "Stop looking at files."
  (mapc #'gemini-companion-follow--stop (mapcar #'car gemini-companion-follow--timers)))

(defun gemini-companion-follow--stop (path)
  "Do not look at the file PATH any more."
  (when-let* ((entry (assoc path gemini-companion-follow--timers)))
    (cancel-timer (cadr entry))
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

(defun gemini-companion-follow--update (buffer merged)
  "Make BUFFER show its file, or say why it does not.
For MERGED see `gemini-companion-follow'."
  (with-current-buffer buffer
    (cond ((verify-visited-file-modtime))
          ((gemini-companion-follow--show
            (equal merged (cons buffer (buffer-chars-modified-tick)))))
          ((buffer-modified-p)
           (message "%s changed on disk; your edits in its buffer are kept" (buffer-name)))
          (t (message "%s changed on disk; M-x revert-buffer shows it" (buffer-name))))))

(defun gemini-companion-follow--show (&optional merged)
  "Make the text of the current buffer that of its file.
Return nil, and leave all as it is, if that would lose edits, or if the
buffer shows something else than the file's text.  Ask nothing.  If MERGED
is non-nil the file contains the edits."
  (unless (gemini-companion-follow--other-than-text-p)
    (let ((source (generate-new-buffer " *gemini-companion-file*" t)))
      (unwind-protect
          (save-match-data
            ;; Before the text is read: Emacs must notice what is written meanwhile.
            (let ((modtime (gemini-companion-follow--modtime))
                  (coding (gemini-companion-follow--read buffer-file-name source)))
              (when (and (or merged
                             (not (buffer-modified-p))
                             (gemini-companion-follow--same-text-p source))
                         (gemini-companion-follow--take source modtime))
                (setq buffer-file-coding-system coding)
                ;; Whoever shows something about the file (and the context) wants to know.
                (gemini-companion-log-errors "after-revert-hook"
                  (run-hooks 'after-revert-hook))
                t)))
        (kill-buffer source)))))

(defun gemini-companion-follow--other-than-text-p ()
  "Return non-nil if the current buffer shows something else than its file's text.
A hex dump, for instance, or what was decrypted, for which Emacs would
ask for a passphrase."
  (or buffer-file-format
      (local-variable-p 'revert-buffer-function)
      (local-variable-p 'revert-buffer-insert-file-contents-function)
      (find-file-name-handler buffer-file-name 'insert-file-contents)))

(defun gemini-companion-follow--modtime ()
  "Return when the file of the current buffer was written."
  (file-attribute-modification-time (file-attributes (file-truename buffer-file-name))))

(defun gemini-companion-follow--read (file buffer)
  "Read FILE into BUFFER, decoded as when the current buffer is reverted.
Return the coding system: the client may have written other line ends, or
UTF-8 where there was something else.  What cannot be told from the new
text is as before."
  (let ((coding-system-for-read (car buffer-file-coding-system-explicit))
        (before buffer-file-coding-system)
        ;; These would obey what the text says.
        (format-alist nil)
        (after-insert-file-functions nil))
    (with-current-buffer buffer
      (insert-file-contents file)
      (merge-coding-systems last-coding-system-used before))))

(defun gemini-companion-follow--take (source modtime)
  "Give the current buffer the text of the buffer SOURCE, that of its file.
The file was written at MODTIME.  Return nil if a hook of the user's kept
the text from changing."
  (let ((tick (buffer-chars-modified-tick))
        (same (gemini-companion-follow--same-text-p source)))
    (unless same
      ;; In an after-change function of somebody's, perhaps: the text is there all the same.
      (gemini-companion-log-errors "follow" (gemini-companion-follow--replace source)))
    (when (or same (/= tick (buffer-chars-modified-tick)))
      (set-visited-file-modtime modtime)
      (set-buffer-modified-p (not (gemini-companion-follow--same-text-p source)))
      t)))

(defun gemini-companion-follow--replace (source)
  "Replace the text of the current buffer by that of the buffer SOURCE, in place."
  (let ((inhibit-read-only t)
        ;; All of it or nothing, and it is soon done.
        (inhibit-quit t)
        ;; Else Emacs would ask whether to edit a file that changed on disk, or that another
        ;; Emacs has locked.
        (buffer-file-truename nil)
        ;; A region stays active.
        (deactivate-mark nil))
    (undo-boundary)
    ;; To undo what was done to an unmodified buffer leaves it unmodified, as long as the file has
    ;; the time that it had then.  But the old text is on no disk any more.
    (restore-buffer-modified-p t)
    (unwind-protect
        (save-restriction
          (widen)
          (let ((go-back (gemini-companion-follow--lines)))
            (unless (replace-region-contents (point-min) (point-max) (lambda () source)
                                             gemini-companion-follow--max-seconds)
              (funcall go-back))))
      (restore-buffer-modified-p nil)
      (undo-boundary))))

(defun gemini-companion-follow--lines ()
  "Return a function that goes back to the present line, in each window."
  (let ((line (line-number-at-pos))
        (windows (mapcar (lambda (window)
                           (list window
                                 (line-number-at-pos (window-start window))
                                 (line-number-at-pos (window-point window))))
                         (get-buffer-window-list nil nil t)))
        (start (lambda (line)
                 (save-excursion
                   (goto-char (point-min))
                   (line-beginning-position line)))))
    (lambda ()
      (goto-char (funcall start line))
      (pcase-dolist (`(,window ,first ,current) windows)
        (set-window-start window (funcall start first) t)
        (set-window-point window (funcall start current))))))

(defun gemini-companion-follow--same-text-p (buffer)
  "Return non-nil if the current buffer has the same text as BUFFER."
  (save-restriction
    (widen)
    (let ((case-fold-search nil))
      (zerop (compare-buffer-substrings nil nil nil buffer nil nil)))))

(provide 'gemini-companion-follow)
;;; gemini-companion-follow.el ends here

;;; gemini-companion-context.el --- What the user looks at -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Clients are told which files are open, which one is active, where point is in it and what is
;; selected.  A hook only notes that something may have changed; a timer gathers, 50 ms after the
;; last change.  While no client is connected only the order of files is kept, which costs
;; nothing but a few list operations when another buffer is selected.
;;
;; A file becomes the active one when its buffer is shown in the selected window.  It stays the
;; active one while the user is elsewhere, in the terminal of the client for example, as long as
;; its buffer lives.

;;; Code:

(require 'seq)
(require 'gemini-companion-bridge)

(defconst gemini-companion-context--delay 0.05
  "Seconds of quiet before what the user looks at is published.")

(defconst gemini-companion-context--max-delays 5
  "Delays after which it is published even if there was no quiet.")

(defconst gemini-companion-context--max-files 10
  "Number of files published; the client looks at no more.")

(defconst gemini-companion-context--max-selection 16384
  "Number of characters of a selection published; the client looks at no more.")

(defconst gemini-companion-context--focus-hooks
  '(window-selection-change-functions window-buffer-change-functions)
  "Hooks that run when another buffer may be in the selected window.")

(defconst gemini-companion-context--change-hooks
  '(post-command-hook
    window-selection-change-functions window-buffer-change-functions
    find-file-hook kill-buffer-hook after-save-hook after-revert-hook
    after-set-visited-file-name-hook)
  "Hooks that run when there may be something new to publish.")

;;;; State

(defvar gemini-companion-context--recent nil
  "Buffers that visit a file, the one focused last first.
May hold killed ones.")

(defvar gemini-companion-context--active nil
  "The buffer of the active file, which may be killed, or nil.")

(defvar-local gemini-companion-context--focused 0
  "When this buffer was focused last, in milliseconds since 1970; 0 if never.")

(defvar gemini-companion-context--changes 0
  "Counts the notes of a change.")

(defvar gemini-companion-context--timer nil
  "The timer that publishes, or nil.")

;;;; On and off

(defun gemini-companion-context-follow ()
  "Keep track of files, and publish to the clients while there are any."
  (gemini-companion-context--recall)
  (dolist (hook gemini-companion-context--focus-hooks)
    (add-hook hook #'gemini-companion-context--note-focus))
  (add-hook 'find-file-hook #'gemini-companion-context--note-file)
  (add-hook 'gemini-companion-clients-functions #'gemini-companion-context--note-clients))

(defun gemini-companion-context-unfollow ()
  "Undo `gemini-companion-context-follow'."
  (gemini-companion-context--note-clients 0)
  (remove-hook 'gemini-companion-clients-functions #'gemini-companion-context--note-clients)
  (remove-hook 'find-file-hook #'gemini-companion-context--note-file)
  (dolist (hook gemini-companion-context--focus-hooks)
    (remove-hook hook #'gemini-companion-context--note-focus))
  (setq gemini-companion-context--recent nil
        gemini-companion-context--active nil))

(defun gemini-companion-context--note-clients (count)
  "Publish from now on if COUNT clients are connected, else stop."
  (if (zerop count)
      (progn
        (dolist (hook gemini-companion-context--change-hooks)
          (remove-hook hook #'gemini-companion-context--note-change))
        (when gemini-companion-context--timer
          (cancel-timer gemini-companion-context--timer)
          (setq gemini-companion-context--timer nil)))
    (dolist (hook gemini-companion-context--change-hooks)
      (add-hook hook #'gemini-companion-context--note-change))
    ;; A new client gets what there is at once.
    (gemini-companion-context--publish)))

;;;; Focus

(defun gemini-companion-context--recall ()
  "Find out in which order files were focused before we looked."
  (let ((buffers (seq-filter #'gemini-companion-context--file (buffer-list))))
    (dolist (buffer buffers)
      (with-current-buffer buffer
        (when (and (zerop gemini-companion-context--focused) buffer-display-time)
          (setq gemini-companion-context--focused
                (gemini-companion-context--milliseconds buffer-display-time)))))
    (setq gemini-companion-context--recent
          (seq-sort-by (lambda (buffer)
                         (buffer-local-value 'gemini-companion-context--focused buffer))
                       #'> buffers)))
  (gemini-companion-context--note-focus))

(defun gemini-companion-context--note-focus (&rest _)
  "Note which file the user looks at now."
  (gemini-companion-log-errors "focus"
    (let* ((shown (window-buffer (selected-window)))
           (buffer (or (buffer-base-buffer shown) shown)))
      (when (and (not (eq buffer (gemini-companion-context--active-buffer)))
                 (gemini-companion-context--file buffer))
        (setq gemini-companion-context--active shown
              gemini-companion-context--recent
              (cons buffer (seq-filter #'buffer-live-p
                                       (delq buffer gemini-companion-context--recent))))
        (with-current-buffer buffer
          (setq gemini-companion-context--focused
                (gemini-companion-context--milliseconds nil)))))))

(defun gemini-companion-context--note-file ()
  "Note that the current buffer visits a file, though nobody may have looked at it."
  (let ((buffer (current-buffer)))
    (unless (memq buffer gemini-companion-context--recent)
      (setq gemini-companion-context--recent
            (append gemini-companion-context--recent (list buffer))))))

(defun gemini-companion-context--active-buffer ()
  "Return the buffer that visits the active file, or nil."
  (and (buffer-live-p gemini-companion-context--active)
       (or (buffer-base-buffer gemini-companion-context--active)
           gemini-companion-context--active)))

(defun gemini-companion-context--milliseconds (time)
  "Return TIME (nil: now) in milliseconds since 1970."
  (car (time-convert time 1000)))

(defun gemini-companion-context--file (buffer)
  "Return the local file that BUFFER visits, or nil."
  (let ((file (buffer-local-value 'buffer-file-name buffer)))
    (and file (not (file-remote-p file)) file)))

;;;; Changes

(defun gemini-companion-context--note-change (&rest _)
  "Publish soon: something may have changed."
  (setq gemini-companion-context--changes (1+ gemini-companion-context--changes))
  (unless gemini-companion-context--timer
    (gemini-companion-context--wait gemini-companion-context--max-delays)))

(defun gemini-companion-context--wait (delays)
  "Publish after a moment without a change, or after DELAYS moments."
  (let ((changes gemini-companion-context--changes))
    (setq gemini-companion-context--timer
          (run-at-time gemini-companion-context--delay nil
                       (lambda ()
                         (if (or (= changes gemini-companion-context--changes)
                                 (<= delays 1))
                             (progn (setq gemini-companion-context--timer nil)
                                    (gemini-companion-context--publish))
                           (gemini-companion-context--wait (1- delays))))))))

(defun gemini-companion-context--publish ()
  "Tell the clients what the user looks at."
  (gemini-companion-log-errors "context"
    (gemini-companion-bridge-publish-context (gemini-companion-context-gather))))

(defun gemini-companion-context-gather ()
  "Return what the user looks at.
The shape is that of `gemini-companion-bridge-publish-context'."
  (gemini-companion-context--note-focus)
  (let ((active (gemini-companion-context--active-buffer))
        (left gemini-companion-context--max-files)
        (files nil))
    (dolist (buffer gemini-companion-context--recent)
      (when (and (> left 0) (buffer-live-p buffer))
        (when-let ((file (gemini-companion-context--existing-file buffer)))
          (setq left (1- left))
          (push (gemini-companion-context--describe buffer file (eq buffer active)) files))))
    (nreverse files)))

(defun gemini-companion-context--existing-file (buffer)
  "Return the local file that BUFFER visits if it exists on disk."
  (let ((file (gemini-companion-context--file buffer)))
    (and file (file-exists-p file) file)))

(defun gemini-companion-context--describe (buffer file active)
  "Return the vector for FILE, visited by BUFFER.
ACTIVE is non-nil if it is the active one."
  (let ((focused (buffer-local-value 'gemini-companion-context--focused buffer)))
    (if (not active)
        (vector file focused nil nil nil nil)
      (with-current-buffer gemini-companion-context--active
        (let ((position (gemini-companion-context--point)))
          (vector file focused t
                  (line-number-at-pos position t)
                  (gemini-companion-context--character position)
                  (gemini-companion-context--selection position)))))))

(defun gemini-companion-context--point ()
  "Return point of the current buffer, in the window where the user sees it."
  (let ((window (get-buffer-window nil t)))
    (if window (window-point window) (point))))

(defun gemini-companion-context--character (position)
  "Return the 1-based column of POSITION in UTF-16 code units."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char position)
      (let* ((inhibit-field-text-motion t)
             (start (line-beginning-position))
             (count (- position start)))
        (1+ (if (= count (- (position-bytes position) (position-bytes start)))
                count                   ; all ASCII
              (/ (string-bytes (encode-coding-string
                                (buffer-substring-no-properties start position)
                                'utf-16le t))
                 2)))))))

(defun gemini-companion-context--selection (position)
  "Return the text between mark and POSITION if the region is active."
  (when (and transient-mark-mode mark-active (mark t) (/= position (mark t)))
    (let ((start (min position (mark t)))
          (end (max position (mark t))))
      (buffer-substring-no-properties
       start (min end (+ start gemini-companion-context--max-selection))))))

(provide 'gemini-companion-context)
;;; gemini-companion-context.el ends here

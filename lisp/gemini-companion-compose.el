;;; gemini-companion-compose.el --- Prompts that are composed -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A prompt of several lines is written in a buffer of its own.  A change can be rejected with a reason,
;; which becomes the next prompt of the CLI, or is kept to be pasted.

;;; Code:

(require 'project)
(require 'seq)
(require 'subr-x)
(require 'gemini-companion-queue)
(require 'gemini-companion-review)
(require 'gemini-companion-run)
(require 'gemini-companion-send)
(require 'gemini-companion-ui)

(defvar gemini-companion-compose-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'gemini-companion-compose-send)
    (define-key map (kbd "C-c C-k") #'gemini-companion-compose-quit)
    (define-key map (kbd "M-p") #'gemini-companion-compose-previous)
    (define-key map (kbd "M-n") #'gemini-companion-compose-next)
    ;; In Emacs before 30, Text mode has a command for the spelling of words on the second.
    (define-key map (kbd "TAB") #'completion-at-point)
    (define-key map (kbd "M-TAB") #'completion-at-point)
    map)
  "Keys where a prompt is composed.")

(defvar-local gemini-companion-compose--terminal nil
  "The terminal for which this buffer's prompt is.")

(defvar-local gemini-companion-compose--names nil
  "The names of the project's files, found out when first needed.")

(defvar-local gemini-companion-compose--place -1
  "Which prompt of the history this buffer shows; -1 for a new one.")

(define-derived-mode gemini-companion-compose-mode text-mode "Gemini-Compose"
  "Major mode for composing a prompt.
\\<gemini-companion-compose-mode-map>\\[gemini-companion-compose-send] sends it, \
\\[gemini-companion-compose-quit] does not.  After an @, \\[completion-at-point]
completes files of the project.
\\{gemini-companion-compose-mode-map}"
  :interactive nil
  (setq header-line-format
        (substitute-command-keys
         "Prompt: \\<gemini-companion-compose-mode-map>\\[gemini-companion-compose-send] \
sends, \\[gemini-companion-compose-quit] quits, \
\\[gemini-companion-compose-previous] brings an earlier one"))
  (add-hook 'completion-at-point-functions #'gemini-companion-compose--complete nil t))

;;;###autoload
(defun gemini-companion-compose ()
  "Compose a prompt of several lines for the CLI in a buffer of its own."
  (interactive)
  (let* ((terminal (gemini-companion-send-terminal))
         (buffer (get-buffer-create (format "*prompt for %s*" (buffer-name terminal)))))
    (pop-to-buffer buffer '((display-buffer-below-selected) (window-height . 12)))
    ;; What was begun there is still there.
    (unless (derived-mode-p 'gemini-companion-compose-mode)
      (gemini-companion-compose-mode))
    (setq default-directory (gemini-companion-send-directory terminal)
          gemini-companion-compose--terminal terminal
          gemini-companion-compose--names nil)))

(defun gemini-companion-compose-send ()
  "Send the prompt in the current buffer to the CLI."
  (interactive nil gemini-companion-compose-mode)
  (let ((prompt (string-trim (buffer-substring-no-properties (point-min) (point-max)))))
    (when (string-empty-p prompt)
      (user-error "There is nothing to send"))
    (gemini-companion-send-text prompt t (gemini-companion-compose--live-terminal))
    (add-to-history 'gemini-companion-send-history prompt)
    (gemini-companion-compose-quit)))

(defun gemini-companion-compose--live-terminal ()
  "Return the terminal for which the current buffer's prompt is."
  (if (and (buffer-live-p gemini-companion-compose--terminal)
           (process-live-p (get-buffer-process gemini-companion-compose--terminal)))
      gemini-companion-compose--terminal
    (user-error "The CLI has ended; your prompt is still here")))

(defun gemini-companion-compose-quit ()
  "Leave the current buffer's prompt and forget it."
  (interactive nil gemini-companion-compose-mode)
  (quit-window t))

(defun gemini-companion-compose-previous ()
  "Bring an earlier prompt."
  (interactive nil gemini-companion-compose-mode)
  (gemini-companion-compose--bring 1))

(defun gemini-companion-compose-next ()
  "Bring a later prompt."
  (interactive nil gemini-companion-compose-mode)
  (gemini-companion-compose--bring -1))

(defun gemini-companion-compose--bring (step)
  "Bring the prompt that was sent STEP before the one shown."
  (let ((place (+ gemini-companion-compose--place step)))
    (unless (< -1 place (length gemini-companion-send-history))
      (user-error "There is no other prompt"))
    (setq gemini-companion-compose--place place)
    ;; Undo brings back what was there.
    (delete-region (point-min) (point-max))
    (insert (nth place gemini-companion-send-history))))

(defun gemini-companion-compose--complete ()
  "Complete a file of the project after an @, for `completion-at-point-functions'."
  (let ((end (point))
        (start (save-excursion
                 (and (re-search-backward "\\(?:^\\|[ \t]\\)@\\([^ \t\n]*\\)\\="
                                          (line-beginning-position) t)
                      (match-beginning 1)))))
    (when start
      (list start end
            (completion-table-dynamic
             (lambda (_)
               (or gemini-companion-compose--names
                   (setq gemini-companion-compose--names
                         (gemini-companion-compose--files)))))
            :exclusive 'no))))

(defun gemini-companion-compose--files ()
  "Return the names of the project's files, as the CLI wants them."
  (let ((project (project-current nil default-directory))
        (directory (expand-file-name default-directory)))
    (mapcar (lambda (file)
              ;; There may be many: to ask the system about each would take long.
              (gemini-companion-send-escape
               (if (string-prefix-p directory file)
                   (substring file (length directory))
                 file)))
            (if project (mapcar #'expand-file-name (project-files project))
              (seq-filter #'file-regular-p
                          (directory-files directory t
                                           directory-files-no-dot-files-regexp))))))

;;;; Reasons of a rejection

(defvar gemini-companion-compose--reason-history nil
  "Reasons that were given, the newest first.")

;;;###autoload
(defun gemini-companion-reject-with-reason (review)
  "Ask for a reason, reject REVIEW, and let its client know the reason.
Without a reason it is just rejected."
  (gemini-companion-review-check-open review)
  (let* ((reason (gemini-companion-compose--ask review))
         ;; Where the client is can be told while it is there.
         (terminal (gemini-companion-compose--terminal-of review)))
    (cond ((string-empty-p reason) (gemini-companion-review-reject review))
          ((not (gemini-companion-review-reject review))
           (gemini-companion-compose--keep review reason))
          (terminal (gemini-companion-compose--send review reason terminal))
          (t (gemini-companion-compose--keep review reason)))))

(defun gemini-companion-compose--ask (review)
  "Return why the user rejects REVIEW, a string.
If REVIEW has ended meanwhile signal a `user-error', and keep the reason."
  (let ((reason ""))
    (condition-case error
        (gemini-companion-review-ask
         review
         (lambda ()
           (setq reason (string-trim
                         (read-string (format "Reject %s because: "
                                              (gemini-companion-review-file review))
                                      nil 'gemini-companion-compose--reason-history)))))
      (user-error
       (unless (string-empty-p reason)
         (kill-new reason)
         (user-error "%s; the reason is in %s" (error-message-string error)
                     (gemini-companion-compose--reason-place)))
       (signal (car error) (cdr error))))
    reason))

(defun gemini-companion-compose--reason-place ()
  "Return in words where a text is that was killed."
  (if (and (display-graphic-p) interprogram-cut-function)
      "the kill ring and the clipboard"
    "the kill ring"))

(defun gemini-companion-compose--terminal-of (review)
  "Return the terminal of Emacs in which the client of REVIEW runs, or nil.
If it is not known which process the client is, it is taken to run where
the file of REVIEW is."
  (let ((terminals (gemini-companion-run-terminals))
        (process (gemini-companion-review-process review))
        (path (gemini-companion-review-path review)))
    (if process
        (gemini-companion-run-terminal-of process (mapcar #'car terminals))
      (seq-some (lambda (agent)
                  (gemini-companion-compose--terminal-of-file
                   path (seq-filter (lambda (terminal)
                                      (eq (buffer-local-value 'gemini-companion-run-agent
                                                              (car terminal))
                                          agent))
                                    terminals)))
                ;; Of one that the user has started the agent is not known.
                (list (gemini-companion-review-agent review) nil)))))

(defun gemini-companion-compose--terminal-of-file (path terminals)
  "Return the one of TERMINALS whose directory is the innermost around PATH."
  (let ((file-name-handler-alist nil)
        (innermost nil))
    (pcase-dolist (`(,buffer . ,directory) terminals)
      (let ((directory (file-name-as-directory (file-truename directory))))
        (when (and (string-prefix-p directory path)
                   (length> directory (length (cdr innermost))))
          (setq innermost (cons buffer directory)))))
    (car innermost)))

(defun gemini-companion-compose--send (review reason terminal)
  "Send REASON, for which REVIEW was rejected, to the client in TERMINAL."
  (let ((title (gemini-companion-review-client-title review))
        (file (gemini-companion-review-file review)))
    (message "Change of %s rejected; %s is told why as soon as it listens" file title)
    (gemini-companion-send-at-rest
     reason terminal
     (lambda (outcome)
       (pcase outcome
         ('sent (gemini-companion-ui-message review "Change of %s rejected; %s was told why"
                                             file title))
         ('put (gemini-companion-ui-message
                review "The reason is in the prompt of %s, not sent: complete it, or send it, in %s"
                title (buffer-name terminal)))
         (_ (gemini-companion-compose--keep review reason)))))))

(defun gemini-companion-compose--keep (review reason)
  "Put REASON, for which the user rejects REVIEW, where it can be pasted."
  (kill-new reason)
  (gemini-companion-ui-message
   review "%s: %s.  Paste the reason into %s: it is in %s"
   (gemini-companion-review-file review)
   (gemini-companion-review-ending review)
   (gemini-companion-review-client-title review)
   (gemini-companion-compose--reason-place)))

(provide 'gemini-companion-compose)
;;; gemini-companion-compose.el ends here

;;; gemini-companion-cli-compose.el --- Compose prompts and reasons -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Prompts of several lines are composed in a buffer of their own.  The reason for which the user
;; rejects a change becomes the next prompt, or goes to the kill ring if Emacs cannot send it.

;;; Code:

(require 'project)
(require 'gemini-companion-agent)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-cli-send)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)

;;;; Prompts

(defvar-local gemini-companion-cli-compose-terminal nil
  "Terminal of the CLI that gets the text in this buffer, or nil.")

(defvar-local gemini-companion-cli-compose--names nil
  "Names of the project's files, computed when first needed.")

(defvar-local gemini-companion-cli-compose--index -1
  "Index in the history of the prompt in this buffer, or -1 for a new one.")

(defvar-local gemini-companion-cli-compose-finish-function nil
  "Function that takes the text of this buffer, or nil if it is a new prompt.")

(define-derived-mode gemini-companion-compose-mode text-mode "Gemini-Compose"
  "Major mode for composing a prompt.
\\<gemini-companion-compose-mode-map>\\[gemini-companion-compose-send] sends it, \
\\[gemini-companion-compose-quit] discards it.  \\[completion-at-point]
completes names of the project's files after an @, and those of the CLI's
commands after a slash at the beginning.

\\{gemini-companion-compose-mode-map}"
  :interactive nil
  (gemini-companion-ui-start-in-insert-state 'gemini-companion-compose-mode)
  (setq header-line-format
        '(:eval (substitute-command-keys
                 (concat "\\<gemini-companion-compose-mode-map>"
                         (if gemini-companion-cli-compose-finish-function
                             "\\[gemini-companion-compose-send] gives this back to the CLI, \
\\[gemini-companion-compose-quit] cancels, "
                           "Prompt: \\[gemini-companion-compose-send] sends, \
\\[gemini-companion-compose-quit] discards, ")
                         "\\[gemini-companion-compose-previous] recalls an earlier one"))))
  (add-hook 'kill-buffer-hook #'gemini-companion-cli-compose--save nil t)
  (setq buffer-offer-save t)            ; the history is lost when Emacs exits
  ;; Not those of Text mode, which may call ispell.
  (setq-local completion-at-point-functions '(gemini-companion-cli-compose--complete)))

(gemini-companion-ui-bind gemini-companion-compose-mode-map
  "C-c C-c" #'gemini-companion-compose-send
  "C-c C-k" #'gemini-companion-compose-quit
  "M-p" #'gemini-companion-compose-previous
  "M-n" #'gemini-companion-compose-next
  ;; In Emacs before 30, Text mode binds M-TAB to another command.
  ("TAB" "M-TAB") #'completion-at-point)

;;;###autoload
(defun gemini-companion-compose (&optional edit)
  "Compose a prompt for the CLI in its own buffer.
With EDIT, interactively the prefix argument, let the CLI give you the
prompt that you have begun there: press the key of its external editor."
  (interactive "P")
  (let ((terminal (gemini-companion-cli-send-terminal)))
    (if (not edit) (gemini-companion-cli-compose--new terminal)
      (gemini-companion-cli-send-check terminal)
      (gemini-companion-cli-run-show terminal)
      (gemini-companion-cli-send-key
       (or (cadr (gemini-companion-agent-get
                  (gemini-companion-cli-run-agent-in terminal) :editor))
           "\C-g")
       terminal))))

(defun gemini-companion-cli-compose-show (buffer)
  "Show BUFFER, in which the user composes something, and select its window."
  (pop-to-buffer buffer '((display-buffer-reuse-window display-buffer-below-selected)
                          (window-height . gemini-companion-cli-compose--set-height))))

(defun gemini-companion-cli-compose--set-height (window)
  "Give WINDOW 12 lines, or what its neighbors do not need."
  (window-resize window (min (- 12 (window-total-height window))
                             (window-max-delta window nil nil nil 'noup))))

(defun gemini-companion-cli-compose--new (terminal)
  "Let the user compose a prompt for the CLI in TERMINAL."
  (gemini-companion-cli-compose-show (gemini-companion-cli-compose--buffer terminal))
  (unwind-protect                       ; a function in `text-mode-hook' may fail
      ;; The mode would reset the state of a prompt that the user has begun.
      (unless (derived-mode-p 'gemini-companion-compose-mode)
        (gemini-companion-compose-mode))
    (setq default-directory (gemini-companion-cli-send-directory terminal)
          gemini-companion-cli-compose-terminal terminal
          gemini-companion-cli-compose--names nil)))

(defun gemini-companion-cli-compose--buffer (terminal)
  "Return the buffer for a prompt of the CLI in TERMINAL, a new one if needed.
The prompt for a CLI that has ended is for the next in a terminal of that name."
  (let* ((name (format "*prompt for %s*" (string-trim (buffer-name terminal) "\\*" "\\*")))
         (same (get-buffer name))
         (before (and same (buffer-local-value 'gemini-companion-cli-compose-terminal same))))
    (cond
     ;; The user may have renamed terminals.
     ((seq-find (lambda (buffer)
                  (with-current-buffer buffer
                    (and (derived-mode-p 'gemini-companion-compose-mode)
                         (eq terminal gemini-companion-cli-compose-terminal)
                         (not gemini-companion-cli-compose-finish-function))))
                (buffer-list)))
     ;; A program whose buffer was killed may run for a moment longer.
     ((and same (not (and (buffer-live-p before) (process-live-p (get-buffer-process before)))))
      same)
     (t (generate-new-buffer name)))))

(defun gemini-companion-cli-compose--check ()
  "Signal a `user-error' if this buffer is not one for prompts.
Our commands would send, replace or kill it."
  (unless (derived-mode-p 'gemini-companion-compose-mode)
    (user-error "This buffer is not for a prompt; M-x gemini-companion-compose opens one that is")))

(defun gemini-companion-cli-compose--prompt ()
  "Return the prompt in the current buffer, perhaps empty."
  (gemini-companion-ui-trim (gemini-companion-review-text-of-buffer (current-buffer))))

(defun gemini-companion-compose-send ()
  "Send the prompt in the current buffer to the CLI.
If the CLI has given you the text to edit, give it back."
  (interactive (gemini-companion-cli-compose--check) gemini-companion-compose-mode)
  (if gemini-companion-cli-compose-finish-function
      (let ((text (gemini-companion-review-text-of-buffer (current-buffer))))
        (funcall gemini-companion-cli-compose-finish-function text)
        ;; In case the CLI has just ended, or its disk is full.
        (add-to-history 'gemini-companion-cli-send-history text)
        (remove-hook 'kill-buffer-hook #'gemini-companion-cli-compose--save t)
        (quit-window t))
    (let ((prompt (gemini-companion-cli-compose--prompt)))
      (when (string-empty-p prompt)
        (user-error "There is nothing to send"))
      (unless (process-live-p (get-buffer-process gemini-companion-cli-compose-terminal))
        (user-error "The CLI has ended, but your prompt is still here: run the CLI again, then \
M-x gemini-companion-compose"))
      (gemini-companion-cli-send-text prompt t gemini-companion-cli-compose-terminal))
    (gemini-companion-compose-quit)))

(defun gemini-companion-compose-quit ()
  "Discard the prompt in the current buffer; the history keeps it."
  (interactive (gemini-companion-cli-compose--check) gemini-companion-compose-mode)
  (quit-window t))

(defun gemini-companion-cli-compose--save ()
  "Add the prompt in the current buffer, which is being killed, to the history."
  (add-to-history 'gemini-companion-cli-send-history (gemini-companion-cli-compose--prompt)))

(defun gemini-companion-compose-previous ()
  "Replace the prompt with the previous one in the history."
  (interactive (gemini-companion-cli-compose--check) gemini-companion-compose-mode)
  (gemini-companion-cli-compose--recall (1+ gemini-companion-cli-compose--index)))

(defun gemini-companion-compose-next ()
  "Replace the prompt with the next one in the history."
  (interactive (gemini-companion-cli-compose--check) gemini-companion-compose-mode)
  (gemini-companion-cli-compose--recall (1- gemini-companion-cli-compose--index)))

(defun gemini-companion-cli-compose--recall (index)
  "Replace the prompt with the one at INDEX of the history; undo brings it back."
  (unless (< -1 index (length gemini-companion-cli-send-history))
    (user-error "There is no other prompt"))
  (setq gemini-companion-cli-compose--index index)
  (delete-region (point-min) (point-max))
  (insert (nth index gemini-companion-cli-send-history)))

;;;; Completion

;;;###autoload
(defun gemini-companion-cli-compose-set-up-minibuffer (terminal)
  "Make the current minibuffer complete names in a prompt for the CLI in TERMINAL."
  (setq gemini-companion-cli-compose-terminal terminal
        default-directory (gemini-companion-cli-send-directory terminal))
  (setq-local completion-at-point-functions '(gemini-companion-cli-compose--complete))
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "TAB") #'completion-at-point)
    (use-local-map (make-composed-keymap map (current-local-map)))))
;;;###autoload (add-hook 'gemini-companion-cli-send-read-functions #'gemini-companion-cli-compose-set-up-minibuffer)

(defun gemini-companion-cli-compose--complete ()
  "Complete the name of a project file after an @, or of a command after a slash.
The slash is the first character of the prompt."
  (save-restriction
    (narrow-to-region (minibuffer-prompt-end) (point-max))
    (cond ((looking-back "\\(?:^\\|[ \t]\\)@\\(\\(?:\\\\.\\|[^ \t\n\\]\\)*\\\\?\\)"
                         (line-beginning-position))
           (list (match-beginning 1) (point)
                 (gemini-companion-ui-completion-table
                  (or gemini-companion-cli-compose--names
                      (setq gemini-companion-cli-compose--names
                            (gemini-companion-ui-delay-gc ; there may be 50 000
                              (gemini-companion-cli-compose--files))))
                  ;; So any part of a name finds it.
                  '((category . project-file)))))
          ((looking-back "\\`/\\([^ \t\n]*\\)" (line-beginning-position))
           (list (match-beginning 1) (point) (gemini-companion-cli-compose--commands))))))

(defun gemini-companion-cli-compose--files ()
  "Return the names of the project's or directory's files, quoted for a prompt.
On another machine, where that may take long, only those that Emacs visits."
  (let* ((remote (gemini-companion-host-remote-p default-directory))
         (directory (if remote default-directory (expand-file-name default-directory))))
    (mapcar
     ;; Not `file-in-directory-p', which is slow for many files.
     (lambda (file) (gemini-companion-cli-send-escape (string-remove-prefix directory file)))
     (cond (remote (seq-filter (lambda (file) (and file (string-prefix-p directory file)))
                               (mapcar #'buffer-file-name (buffer-list))))
           ((gemini-companion-workspace-call-with-project
             directory
             (lambda (project)
               ;; Git may refuse to list a repository, such as one of another user's.
               (ignore-errors (mapcar #'expand-file-name (project-files project))))))
           (t (seq-filter #'file-regular-p (directory-files directory t)))))))

(defun gemini-companion-cli-compose--commands ()
  "Return the names of the CLI's own commands; here, the user's and project's, too."
  (let ((agent (and (buffer-live-p gemini-companion-cli-compose-terminal)
                    (or (gemini-companion-cli-run-agent-in gemini-companion-cli-compose-terminal)
                        gemini-companion-agent))))
    (pcase (gemini-companion-agent-get agent :commands)
      (`(,folder ,extension . ,names)
       (append names
               (unless (gemini-companion-host-remote-p default-directory)
                 (mapcan (lambda (file)
                           (gemini-companion-cli-compose--commands-in
                            (expand-file-name "commands" (file-name-directory file)) extension))
                         (delq nil (list (expand-file-name folder)
                                         (gemini-companion-agent-settings-file
                                          agent process-environment))))))))))

(defun gemini-companion-cli-compose--commands-in (directory extension)
  "Return the names of the commands that files with EXTENSION in DIRECTORY define."
  (mapcar (lambda (file)
            (string-replace "/" ":" (file-name-sans-extension
                                     (file-relative-name file directory))))
          (ignore-errors
            (directory-files-recursively directory (format "\\.%s\\'" extension)))))

;;;; Reasons for a rejection

(defvar gemini-companion-cli-compose--reason ""
  "The reason to put before the comments on a review that is being rejected.")

(defvar gemini-companion-cli-compose--reason-history nil
  "History of reasons for rejections.")

;;;###autoload
(defun gemini-companion-cli-compose-reject (review)
  "Ask for a reason, reject REVIEW, and send the reason to its client.
If the reason is empty, just reject REVIEW."
  (let* ((reason (gemini-companion-cli-compose--read-reason review))
         (gemini-companion-cli-compose--reason reason)
         (rejected (gemini-companion-review-reject review)))
    ;; If there are comments, the reason was sent with them.
    (unless (or (gemini-companion-review-comments review) (string-empty-p reason))
      (gemini-companion-cli-compose--send review reason rejected))))

;;;###autoload
(defun gemini-companion-cli-compose-send-comments (review outcome comments)
  "Send COMMENTS, on REVIEW, which has ended with OUTCOME, to its client.
If the client has given up the change, put them into the kill ring."
  (let* ((file (gemini-companion-review-path-in-project review))
         (lead (pcase outcome
                 ('accepted (format "I accepted the change to %s, with comments:" file))
                 ('rejected (format "I rejected the change to %s:" file))
                 (_ (format "Comments on the change to %s:" file)))))
    (gemini-companion-cli-compose--send
     review
     (string-join (delete "" (list gemini-companion-cli-compose--reason lead comments)) "\n")
     (memq outcome '(accepted rejected closed)))))

(defun gemini-companion-cli-compose--read-reason (review)
  "Return the user's reason for rejecting REVIEW."
  (let ((prompt (format "Reject %s because: " (gemini-companion-review-file review))))
    (gemini-companion-cli-compose-read
     review "the reason"
     (lambda () (read-string prompt nil 'gemini-companion-cli-compose--reason-history)))))

;;;###autoload
(defun gemini-companion-cli-compose-read (review name read)
  "Return what the user writes about REVIEW, as the function READ returns it.
If REVIEW ends meanwhile, put that into the kill ring, and signal a
`user-error' that calls it NAME."
  (let ((text ""))
    (condition-case error
        (gemini-companion-review-ask
         review (lambda () (setq text (gemini-companion-ui-trim (funcall read)))))
      (user-error
       (when (string-empty-p text)
         (signal (car error) (cdr error)))
       (kill-new text)
       (user-error "%s; %s is in the kill ring" (error-message-string error) name)))))

(defun gemini-companion-cli-compose--send (review text possible)
  "Send TEXT, about REVIEW, which has ended, to its client if POSSIBLE.
If its terminal is not in Emacs, or takes no prompt, use the kill ring."
  (let* ((title (gemini-companion-review-agent-title review))
         (file (gemini-companion-review-file review))
         (terminal (and possible (gemini-companion-cli-run-terminal-of review)))
         ;; Their topic is TEXT, so that they do not replace the message about the decision.
         (finish (lambda (outcome)
                   (pcase outcome
                     ('sent (gemini-companion-ui-message text "%s has what you wrote about %s"
                                                         title file))
                     ('put (gemini-companion-ui-message
                            text "Added what you wrote to the prompt of %s without sending it: \
complete or send it in %s" title (buffer-name terminal)))
                     (_ (kill-new text)
                        ;; The user's next kill must not be appended to it.
                        (when (eq last-command 'kill-region) (setq last-command nil))
                        (gemini-companion-ui-message
                         text "%s: %s.  What you wrote is in the kill ring: yank it into %s"
                         file (gemini-companion-review-reason review) title))))))
    (if (not terminal) (funcall finish nil)
      (gemini-companion-ui-message text "What you wrote will be sent as soon as %s is ready" title)
      (gemini-companion-cli-send-at-rest
       ;; A prompt that begins with a slash is a command of the CLI.
       (if (string-prefix-p "/" text) (concat "Reason: " text) text)
       terminal finish))))

(provide 'gemini-companion-cli-compose)
;;; gemini-companion-cli-compose.el ends here

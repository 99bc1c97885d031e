;;; gemini-companion-send.el --- What is said to a CLI -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Puts text into the prompt of the CLI that runs in a terminal of Emacs, as if it had been pasted
;; there, and answers its questions.  What goes there is text and nothing else: a control character
;; in it could press keys in the CLI.

;;; Code:

(require 'cl-lib)
(require 'project)
(require 'seq)
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-run)

(declare-function dired-get-marked-files "dired")
(declare-function flycheck-error-line "ext:flycheck" t t)
(declare-function flycheck-error-message "ext:flycheck" t t)
(declare-function flycheck-overlay-errors-at "ext:flycheck")
(declare-function flymake-diagnostic-text "flymake" (diagnostic) t)
(declare-function flymake-diagnostics "flymake")
(defvar flycheck-current-errors)
(defvar ghostel--input-mode)
(defvar vterm-copy-mode)

(defvar gemini-companion-send--look 0.1
  "Seconds between looks whether the CLI shows a text.")

(defconst gemini-companion-send--quiet 5
  "Looks for which the terminal must not have changed, when it shows the text.
A key right behind a text is taken for a part of it.")

(defconst gemini-companion-send--patience 50
  "Looks after which the text counts as shown: some CLIs are never quiet.")

(defconst gemini-companion-send--chunk 2048
  "Characters that are sent in one go: a terminal takes a few KB, then waits.")

(defconst gemini-companion-send--special "[][ \t\n\r'\"()&|;<>!#$`{}*?\\]"
  "Characters before which Gemini CLI wants a backslash in the name of a file.")

(defvar gemini-companion-send-history nil
  "Prompts that were sent, the newest first.")

(defconst gemini-companion-send--folded "\\`>\\[Pasted\\(?:Text\\|Content\\).*\\]\\'"
  "What stands in a prompt for a long text, without spaces.")

(defconst gemini-companion-send--rest 300
  "Looks after which it is not awaited any more that a CLI is at rest.")

(defvar-local gemini-companion-send--queue nil
  "What is still to be sent to the terminal in this buffer.
Strings are sent; of (paste . TEXT) what is no key; `shown' waits for the
CLI to show them; (submit . TEXT) is the key that sends the prompt TEXT; of
a function what it returns is sent.")

(defvar-local gemini-companion-send--prompt nil
  "The prompt that was sent last to the terminal in this buffer, or nil.
As in `gemini-companion-review'.")

(defconst gemini-companion-send--remembered 2000
  "Characters of a prompt that are remembered, to be shown with its changes.")

(defvar-local gemini-companion-send--answered nil
  "The `buffer-chars-modified-tick' at which a question was answered.")

;;;; What is on its screen

(defconst gemini-companion-send--below 5
  "Lines that may be below a question: a word on it, what a terminal left behind.")

(defconst gemini-companion-send--choice "^ *│ *[●›❯] *[0-9]+\\. "
  "What the selected choice of a question looks like, in a box.")

(defconst gemini-companion-send--composer "^ *\\(?:[─▀▄]\\{8\\}\\|[>!*] \\)"
  "What is around and before the prompt that the user types.")

(defconst gemini-companion-send--prompt-box
  "^ *[─▀▄]\\{8,\\}\n\\(?:[─▀▄]+\n\\)?\\( *\\([>!*]\\) \\(?:.*\n\\)+?\\) *[─▀▄]\\{8\\}"
  "What the user's prompt looks like, with the lines around it.
The first may be a column wider than the terminal.")

(defconst gemini-companion-send--empty-prompt "\\`>Typeyourmessageor@"
  "What is in a prompt in which nothing is typed, without spaces.")

(defconst gemini-companion-send--working "esc to cancel"
  "What a CLI that is at work says, some lines above the prompt.")

(defconst gemini-companion-send--around 10
  "Lines that may be above and below the prompt: what a CLI says of its work.
A terminal whose size was changed may have left some behind.")

;;;; Questions

(defun gemini-companion-send--question-p ()
  "Return non-nil if the CLI in the current buffer asks for one of some choices.
These are in the last box, and the user's prompt is not below that."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char (point-max))
      (skip-chars-backward " \t\n")
      (let* ((limit (save-excursion
                      (forward-line (- gemini-companion-send--below))
                      (point)))
             (bottom (re-search-backward "^ *╰" limit t)))
        (and bottom
             (not (save-excursion
                    (re-search-forward gemini-companion-send--composer nil t)))
             (progn (re-search-backward "^ *╭" nil 'move)
                    (re-search-forward gemini-companion-send--choice bottom t))
             t)))))

;;;; The prompt

(defun gemini-companion-send--prompt-on-screen ()
  "Return what is in the prompt of the CLI in the current buffer, without spaces.
It begins with the sign of the prompt.  Return `works' if the CLI does,
and nil if there is no prompt."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char (point-max))
      (skip-chars-backward " \t\n")
      (let ((limit (line-beginning-position (- gemini-companion-send--around))))
        (when (and (re-search-backward gemini-companion-send--prompt-box nil t)
                   (> (match-end 0) limit))
          (let ((text (match-string-no-properties 1)))
            (if (re-search-backward gemini-companion-send--working
                                    (line-beginning-position (- gemini-companion-send--around))
                                    t)
                'works
              (gemini-companion-send--without-spaces text))))))))

(defun gemini-companion-send--without-spaces (text)
  "Return TEXT without what a terminal may have added to or changed in it."
  (replace-regexp-in-string "[[:space:]\u00a0]+" "" text))

;;;; The terminal

(defun gemini-companion-send--frozen-p ()
  "Return non-nil if the current buffer does not follow its terminal."
  (or (bound-and-true-p vterm-copy-mode)
      (eq (bound-and-true-p ghostel--input-mode) 'copy)))

;;;; Sending

(defun gemini-companion-send-terminal ()
  "Return the terminal with the CLI to talk to: the project's, or the only one."
  (let* ((root (gemini-companion-run-project))
         (running (gemini-companion-run-terminals)))
    (cond ((gemini-companion-run-buffer root))
          ((null running)
           (user-error "No CLI runs in a terminal of Emacs: M-x gemini-companion-run"))
          ((null (cdr running)) (caar running))
          (t (user-error "No CLI runs for %s: M-x gemini-companion-run" root)))))

(defun gemini-companion-send-text (text submit &optional terminal)
  "Put TEXT into the prompt of the CLI; send it if SUBMIT, else show the CLI.
TERMINAL is where it runs, by default what `gemini-companion-send-terminal'
returns."
  (let ((buffer (or terminal (gemini-companion-send-terminal))))
    (gemini-companion-send--enqueue
     buffer
     (append (list "\e[200~")
             (gemini-companion-send--chunks text)
             (list "\e[201~")
             (and submit (list 'shown (cons 'submit text)))))
    (if submit
        (message "Sent to %s" (buffer-name buffer))
      (gemini-companion-run-show buffer))))

(defun gemini-companion-send--clean (text)
  "Return TEXT without characters that are keys, but for newlines and tabs."
  (replace-regexp-in-string "[\u0000-\u0008\u000b-\u001f\u007f-\u009f]" ""
                            (replace-regexp-in-string "\r\n?" "\n" text t t)
                            t t))

(defun gemini-companion-send--chunks (text)
  "Return TEXT as items to send, of bounded length each."
  (let ((length (length text))
        (start 0)
        (chunks nil))
    (while (< start length)
      (let ((end (min length (+ start gemini-companion-send--chunk))))
        ;; These two are one newline.
        (when (and (< end length) (eq (aref text (1- end)) ?\r) (eq (aref text end) ?\n))
          (setq end (1+ end)))
        (push (cons 'paste (substring text start end)) chunks)
        (setq start end)))
    (nreverse chunks)))

(defun gemini-companion-send--enqueue (buffer items)
  "Send ITEMS to the terminal BUFFER after what is under way.
For these see `gemini-companion-send--queue'."
  (with-current-buffer buffer
    (let ((idle (null gemini-companion-send--queue)))
      (setq gemini-companion-send--queue (append gemini-companion-send--queue items))
      (when idle
        (gemini-companion-send--go-on buffer)))))

(defun gemini-companion-send--go-on (buffer)
  "Send the next item to the terminal BUFFER, and the others from timers."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (let ((item (car gemini-companion-send--queue))
            (process (get-buffer-process buffer)))
        (cond ((not (process-live-p process))
               (setq gemini-companion-send--queue nil))
              ((eq item 'shown)
               (gemini-companion-send--await buffer (buffer-chars-modified-tick)))
              (item
               (process-send-string process (gemini-companion-send--text item))
               (when (eq (car-safe item) 'submit)
                 (gemini-companion-send--note-prompt (cdr item)))
               (run-at-time 0 nil #'gemini-companion-send--sent buffer)))))))

(defun gemini-companion-send--text (item)
  "Return what is sent for ITEM, one of `gemini-companion-send--queue'."
  (pcase item
    ;; Only now, since for a long text all at once it would take long.
    (`(paste . ,text) (gemini-companion-send--clean text))
    (`(submit . ,_) "\r")
    ((pred functionp) (or (gemini-companion-log-errors "sending" (funcall item)) ""))
    (_ item)))

(defun gemini-companion-send--await (buffer tick)
  "Go on when the terminal BUFFER has changed since TICK, and then no more."
  (let ((looks 0)
        (changed nil)
        (quiet 0)
        (timer nil))
    (setq timer
          (run-at-time
           gemini-companion-send--look gemini-companion-send--look
           (lambda ()
             (let ((now (and (buffer-live-p buffer) (buffer-chars-modified-tick buffer))))
               (setq looks (1+ looks)
                     quiet (if (eql now tick) (1+ quiet) 0)
                     changed (or changed (not (eql now tick)))
                     tick now)
               (when (or (null now)
                         (and changed (>= quiet gemini-companion-send--quiet))
                         (>= looks gemini-companion-send--patience))
                 (cancel-timer timer)
                 (gemini-companion-send--sent buffer))))))))

(defun gemini-companion-send--sent (buffer)
  "Go on after the first item that was to be sent to the terminal BUFFER."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (pop gemini-companion-send--queue))
    (gemini-companion-send--go-on buffer)))

;;;; After which prompt a change has come

(defun gemini-companion-send--note-prompt (text)
  "Note that the prompt TEXT was sent to the terminal in the current buffer."
  (setq gemini-companion-send--prompt
        (cons (substring text 0 (min (length text) gemini-companion-send--remembered))
              (current-time)))
  (add-hook 'gemini-companion-queue-prompt-functions #'gemini-companion-send--prompt-of)
  (add-hook 'pre-command-hook #'gemini-companion-send--note-key nil t))

(defun gemini-companion-send--note-key ()
  "Forget the prompt if the user sends another one in the terminal itself.
What that says is not known.  An answer to a question is none."
  (gemini-companion-log-errors "a prompt"
    (let ((keys (this-command-keys-vector)))
      (when (and (> (length keys) 0)
                 (memq (aref keys (1- (length keys))) '(?\r return kp-enter))
                 (not (gemini-companion-send--question-p)))
        (setq gemini-companion-send--prompt nil)))))

(defun gemini-companion-send--prompt-of (review)
  "Return the prompt that was sent last to the client of REVIEW, or nil."
  (when-let* ((terminals (seq-filter (lambda (buffer)
                                       (buffer-local-value 'gemini-companion-send--prompt
                                                           buffer))
                                     (buffer-list)))
              (client (gemini-companion-review-process review))
              (terminal (gemini-companion-run-terminal-of client terminals)))
    (buffer-local-value 'gemini-companion-send--prompt terminal)))

;;;; Sending to a CLI at rest

;; What the user does not send by hand must neither answer a question nor go with what the user has
;; half typed.  So the screen is looked at before a text is put into the prompt, and again before
;; the key that sends it.

(defun gemini-companion-send-at-rest (text terminal finish)
  "Send TEXT to the CLI in TERMINAL once that asks nothing and does nothing.
Then call FINISH with `sent'.  If something else is in the prompt, or the
CLI is at work for long, TEXT is put there and not sent, and FINISH is
called with `put'; with nil if that cannot be done either."
  (let ((looks 0)
        (same 0)
        (last nil)
        (timer nil))
    (setq timer
          (run-at-time
           gemini-companion-send--look gemini-companion-send--look
           (lambda ()
             (gemini-companion-log-errors "looking at a CLI"
               (let* ((state (gemini-companion-send--state terminal))
                      (over (or (eq state 'ended)
                                (>= (setq looks (1+ looks)) gemini-companion-send--rest))))
                 (setq same (if (equal state last) (1+ same) 0)
                       last state)
                 (when (or over (and (stringp state) (>= same gemini-companion-send--quiet)))
                   (cancel-timer timer)
                   (gemini-companion-send--put text terminal state finish)))))))))

(defun gemini-companion-send--state (terminal)
  "Return what the CLI in TERMINAL does, as far as its screen says.
That is a string, what is in its prompt, if it is at rest; else `works',
`asks', `ended', or nil if that cannot be told."
  (if (not (and (buffer-live-p terminal) (process-live-p (get-buffer-process terminal))))
      'ended
    (with-current-buffer terminal
      (cond ((or gemini-companion-send--queue (gemini-companion-send--frozen-p)) nil)
            ((gemini-companion-send--question-p) 'asks)
            (t (gemini-companion-send--prompt-on-screen))))))

(defun gemini-companion-send--put (text terminal state finish)
  "Put TEXT into the prompt of the CLI in TERMINAL, which is in STATE; send it.
For STATE see `gemini-companion-send--state', for FINISH
`gemini-companion-send-at-rest'."
  (let ((empty (and (stringp state) (string-match-p gemini-companion-send--empty-prompt state))))
    (if (not (or (stringp state) (eq state 'works)))
        (funcall finish nil)
      (gemini-companion-send--enqueue
       terminal
       (append (list "\e[200~")
               ;; Behind what is there, on a line of its own.
               (gemini-companion-send--chunks (if empty text (concat "\n" text)))
               (list "\e[201~" 'shown
                     (lambda () (gemini-companion-send--press text terminal empty finish))))))))

(defun gemini-companion-send--press (text terminal empty finish)
  "Return the key that sends TEXT in TERMINAL, or nil if it is not to be sent.
That is so unless the prompt was EMPTY before and TEXT alone is there now.
Call FINISH with what becomes of it."
  (let* ((typed (with-current-buffer terminal
                  (and empty
                       (not (gemini-companion-send--question-p))
                       (gemini-companion-send--prompt-on-screen))))
         (send (and (stringp typed)
                    (or (equal typed (concat ">" (gemini-companion-send--without-spaces
                                                  (gemini-companion-send--clean text))))
                        (string-match-p gemini-companion-send--folded typed)))))
    (funcall finish (if send 'sent 'put))
    (and send "\r")))

;;;; What to send

;;;###autoload
(defun gemini-companion-send-prompt (prompt)
  "Send PROMPT, read in the minibuffer, to the CLI."
  (interactive (progn
                 ;; Without a CLI this says so, before anything is typed.
                 (gemini-companion-send-terminal)
                 (list (read-string "Prompt: " nil 'gemini-companion-send-history))))
  (when (string-blank-p prompt)
    (user-error "There is nothing to send"))
  (gemini-companion-send-text prompt t))

;;;###autoload
(defun gemini-companion-send-region (start end &optional submit)
  "Put the text from START to END into the prompt of the CLI.
Before it comes where it is from.  With SUBMIT, interactively the prefix
argument, send it, too."
  (interactive "r\nP")
  (gemini-companion-send-text
   (concat (gemini-companion-send--place start end) ":\n```\n"
           (buffer-substring-no-properties
            ;; To take them off a string takes long if it is long.
            start (save-excursion (goto-char end) (skip-chars-backward "\n" start) (point)))
           "\n```\n")
   submit))

;;;###autoload
(defun gemini-companion-send-file (&optional submit)
  "Mention the current file to the CLI, so that it reads it.
In Dired these are the marked files and directories.  With SUBMIT,
interactively the prefix argument, send it, too."
  (interactive "P")
  (let* ((files (cond ((derived-mode-p 'dired-mode) (dired-get-marked-files))
                      (buffer-file-name (list buffer-file-name))
                      (t (user-error "This buffer visits no file"))))
         (terminal (gemini-companion-send-terminal))
         ;; There may be many files: the CLI is looked for once.
         (directory (gemini-companion-send-directory terminal)))
    (gemini-companion-send-text
     (concat (mapconcat (lambda (file) (gemini-companion-send--mention file directory))
                        files " ")
             " ")
     submit terminal)))

;;;###autoload
(defun gemini-companion-send-diagnostic (&optional submit)
  "Put what Flymake or Flycheck says at point into the prompt of the CLI.
With SUBMIT, interactively the prefix argument, send it, too."
  (interactive "P")
  (let ((texts (gemini-companion-send--diagnostics)))
    (unless texts
      (user-error "Neither Flymake nor Flycheck says anything here"))
    (gemini-companion-send-text
     (concat (gemini-companion-send--place (point) (point)) ": "
             (string-join texts "; ") "\n")
     submit)))

(defun gemini-companion-send--diagnostics ()
  "Return what Flymake and Flycheck say at point, strings."
  (append (and (bound-and-true-p flymake-mode)
               (mapcar #'flymake-diagnostic-text
                       (or (flymake-diagnostics (point))
                           (flymake-diagnostics (line-beginning-position)
                                                (line-end-position)))))
          (and (bound-and-true-p flycheck-mode)
               (mapcar #'flycheck-error-message
                       (or (flycheck-overlay-errors-at (point))
                           (seq-filter (lambda (error)
                                         (eql (flycheck-error-line error)
                                              (line-number-at-pos nil t)))
                                       flycheck-current-errors))))))

(defun gemini-companion-send--place (start end)
  "Return in words which lines of which file the text from START to END is."
  (let ((first (line-number-at-pos start t))
        (last (line-number-at-pos (if (> end start) (1- end) end) t)))
    (format "%s, %s"
            (if buffer-file-name
                (gemini-companion-send--relative
                 buffer-file-name
                 (gemini-companion-send-directory (gemini-companion-send-terminal)))
              (format "buffer %s" (buffer-name)))
            (if (= first last) (format "line %d" first)
              (format "lines %d to %d" first last)))))

(defun gemini-companion-send--relative (file directory)
  "Return the name of FILE as a CLI in DIRECTORY has it."
  (if (file-in-directory-p file directory)
      (file-relative-name file directory)
    (expand-file-name file)))

(defun gemini-companion-send-directory (terminal)
  "Return the directory of the CLI in TERMINAL."
  (or (alist-get terminal (gemini-companion-run-terminals))
      (buffer-local-value 'default-directory terminal)))

(defun gemini-companion-send--mention (file directory)
  "Return what has a CLI in DIRECTORY read FILE."
  (concat "@" (gemini-companion-send-escape
               (gemini-companion-send--relative file directory))))

(defun gemini-companion-send-escape (name)
  "Return the file name NAME as the CLI wants it in a prompt."
  (replace-regexp-in-string gemini-companion-send--special
                            (lambda (it) (concat "\\" it))
                            name t t))

;;;; Answers

;; A key that answers no question would send what the user has half typed, or end work.  So the
;; screen is looked at: a CLI asks in a box at its end, where otherwise the user's prompt is.

;;;###autoload
(defun gemini-companion-answer-yes ()
  "Answer the question that the CLI asks with the choice that it proposes."
  (interactive)
  (gemini-companion-send--answer "\r" "yes"))

;;;###autoload
(defun gemini-companion-answer-no ()
  "Answer the question that the CLI asks with no."
  (interactive)
  (gemini-companion-send--answer "\e" "no"))

(defun gemini-companion-send--answer (key name)
  "Press KEY in the CLI, which is the answer NAME, if that asks something."
  (let ((buffer (gemini-companion-send-terminal)))
    (with-current-buffer buffer
      (cond (gemini-companion-send--queue
             (user-error "What was sent before is still on its way: try again"))
            ((gemini-companion-send--frozen-p)
             (user-error "The terminal is in copy mode: leave that first"))
            ((not (gemini-companion-send--question-p))
             (user-error "%s asks nothing now"
                         (if gemini-companion-run-agent
                             (gemini-companion-agent-get gemini-companion-run-agent :title)
                           "The CLI")))
            ((eql gemini-companion-send--answered (buffer-chars-modified-tick))
             (user-error "Your last answer is not shown yet: try again")))
      (setq gemini-companion-send--answered (buffer-chars-modified-tick)))
    (gemini-companion-send--enqueue buffer (list key))
    (message "Answered %s in %s" name (buffer-name buffer))))

(provide 'gemini-companion-send)
;;; gemini-companion-send.el ends here

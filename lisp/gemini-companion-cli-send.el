;;; gemini-companion-cli-send.el --- Send text to the CLI -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Pastes text into the prompt of the CLI that runs in a terminal of Emacs, and answers its
;; questions.  The text contains no control characters, because these could press keys in the CLI.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-agent)
(require 'gemini-companion-cli)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-cli-screen)
(require 'gemini-companion-cli-terminals)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-review-effect)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function flycheck-error-message "ext:flycheck" t t)
(declare-function flycheck-overlay-errors-at "ext:flycheck")
(declare-function flycheck-overlay-errors-in "ext:flycheck")
(declare-function flymake-diagnostic-text "flymake" (diagnostic) t)

(defvar gemini-companion-cli-send-history nil
  "History of prompts that were sent.")

(defvar gemini-companion-cli-send-read-functions nil
  "Functions called in a minibuffer for a prompt, with the terminal of the CLI.")

(defvar-local gemini-companion-cli-send--busy nil
  "Non-nil while a text is on its way to the CLI in this buffer.")

(defvar-local gemini-companion-cli-send-editor-function #'ignore
  "Function that returns the name of a buffer whose text the CLI waits for, or nil.")

(defvar-local gemini-companion-cli-send--recognized nil
  "Non-nil if Emacs has seen the prompt of the CLI in this buffer.")

(defvar-local gemini-companion-cli-send--answered nil
  "The `buffer-chars-modified-tick' and time when a question was answered last.
Nil and a time if Emacs has only shown it then, or there was none.")

;;;; Commands

;;;###autoload
(defun gemini-companion-send-prompt (prompt &optional terminal)
  "Read PROMPT in the minibuffer, and send it to the CLI.
TERMINAL is as in `gemini-companion-cli-send-text'."
  (interactive
   ;; Another CLI may be the one to choose once the user has typed the prompt.
   (let ((terminal (gemini-companion-cli-send-terminal)))
     (list (gemini-companion-cli-send-read-prompt terminal) terminal)))
  (when (string-blank-p prompt)
    (user-error "There is nothing to send"))
  (gemini-companion-cli-send-text prompt t terminal))

(defun gemini-companion-cli-send-read-prompt (terminal)
  "Read a prompt for the CLI in TERMINAL in the minibuffer."
  ;; Before the user types anything.
  (gemini-companion-cli-send-check terminal)
  (minibuffer-with-setup-hook
      (lambda () (run-hook-with-args 'gemini-companion-cli-send-read-functions terminal))
    (read-string (format "Prompt for %s: " (buffer-name terminal))
                 nil 'gemini-companion-cli-send-history)))

;;;###autoload
(defun gemini-companion-send-region (start end &optional submit)
  "Insert the text from START to END into the prompt of the CLI.
The name of the file and the line numbers come before it.  With SUBMIT,
interactively the prefix argument, send the prompt as well."
  (interactive "r\nP")
  (let ((text (gemini-companion-ui-text
               ;; Removing newlines from the end of a long string would be slow.
               start (save-excursion (goto-char end) (skip-chars-backward "\n" start) (point))))
        (fence "```"))
    ;; A fence like ours in the text would end it.
    (while (string-search fence text)
      (setq fence (concat fence "`")))
    (gemini-companion-cli-send-text
     (format "%s:\n%s\n%s\n%s\n" (gemini-companion-cli-send--location start end) fence text fence)
     submit)))

;;;###autoload
(defun gemini-companion-send-diagnostic (&optional submit)
  "Insert the diagnostics at point, or on this line, into the prompt of the CLI.
They come from Flymake or Flycheck.  With SUBMIT, interactively the
prefix argument, send the prompt as well."
  (interactive "P")
  (let* ((line (list (line-beginning-position) (line-end-position)))
         (diagnostics
          (append (and (bound-and-true-p flymake-mode)
                       (mapcar #'flymake-diagnostic-text
                               (or (flymake-diagnostics (point))
                                   (apply #'flymake-diagnostics line))))
                  (and (bound-and-true-p flycheck-mode)
                       (mapcar #'flycheck-error-message
                               (or (flycheck-overlay-errors-at (point))
                                   (apply #'flycheck-overlay-errors-in line)))))))
    (unless diagnostics
      (user-error "Neither Flymake nor Flycheck has a diagnostic here"))
    (gemini-companion-cli-send-text
     (concat (gemini-companion-cli-send--location (point) (point)) ": "
             (string-join diagnostics "; ") "\n")
     submit)))

;;;; Names of files

(defun gemini-companion-cli-send--location (start end)
  "Return the name of the file and the lines from START to END, for a prompt."
  (let ((name (if-let* ((file (buffer-file-name (buffer-base-buffer))))
                  (gemini-companion-cli-send--relative
                   file (gemini-companion-cli-send-directory (gemini-companion-cli-send-terminal)))
                (format "buffer %s" (buffer-name))))
        (first (line-number-at-pos start t))
        (last (line-number-at-pos (if (> end start) (1- end) end) t)))
    (concat
     ;; A prompt that begins with a slash is a command of the CLI.
     (if (file-name-absolute-p name) "file " "")
     name
     (if (= first last) (format ", line %d" first) (format ", lines %d to %d" first last)))))

(defun gemini-companion-cli-send--relative (file directory)
  "Return the name of FILE for a CLI in DIRECTORY.
If both are on the same remote machine, that is the name there."
  (let ((machine (gemini-companion-host-remote-p directory)))
    ;; Emacs need not serve clients there.
    (if (and machine (equal machine (gemini-companion-host-remote-p file)))
        (string-remove-prefix (file-name-as-directory (file-local-name directory))
                              (file-local-name file))
      (gemini-companion-workspace-client-name (expand-file-name file) directory))))

(defun gemini-companion-cli-send-directory (terminal)
  "Return the directory of the CLI in TERMINAL."
  (or (gemini-companion-cli-run-directory terminal)
      (buffer-local-value 'default-directory terminal)))

(defun gemini-companion-cli-send-mention (file directory)
  "Return the text that makes a CLI in DIRECTORY read FILE."
  (unless (or (equal (gemini-companion-host-remote-p file)
                     (gemini-companion-host-remote-p directory))
              (when-let* ((host (gemini-companion-host-of-name directory)))
                (gemini-companion-host-name-there host file)))
    (user-error "The CLI runs on another machine, and cannot read %s" file))
  (concat "@" (gemini-companion-cli-send-escape
               (gemini-companion-cli-send--relative file directory))))

(defun gemini-companion-cli-send-escape (name)
  "Return the file name NAME, quoted for a prompt of the CLI."
  (replace-regexp-in-string "[][ \t\n\r'\"()&|;<>!#$`{}*?\\]" "\\\\\\&" name t))

;;;; Answers

;; Without a question, the same key would send what the user has half typed, or interrupt the CLI.

;;;###autoload
(defun gemini-companion-answer-yes ()
  "Answer the CLI's question with the selected choice.
If the question is not on screen, show it instead."
  (interactive)
  (gemini-companion-cli-send--answer "yes"))

;;;###autoload
(defun gemini-companion-answer-no ()
  "Answer the CLI's question with no.
If the question is not on screen, show it instead."
  (interactive)
  (gemini-companion-cli-send--answer "no"))

(defun gemini-companion-cli-send--answer (answer)
  "Answer the CLI's question with ANSWER if it is on screen; otherwise show it.
ANSWER is \"yes\" or \"no\"."
  (with-current-buffer (gemini-companion-cli-send-terminal)
    (when-let* ((fault (gemini-companion-cli-send--question-fault)))
      (user-error "%s" fault))
    (cond ((and (equal answer "yes") (gemini-companion-cli-send--lossy-p))
           (user-error "Accepting this change would lose something: %s"
                       (gemini-companion-ui-key 'gemini-companion-accept "asks you about that")))
          ((not (gemini-companion-cli-send--question-seen-p))
           (gemini-companion-cli-send--show-question)
           ;; The CLI still has to draw it again, and the user to read it.
           (setq gemini-companion-cli-send--answered (cons nil (float-time)))
           (message "The question of %s was not all on screen; look at it, then answer"
                    (gemini-companion-cli-send-title)))
          ((eq (gemini-companion-cli-screen-question-p) 'text)
           (user-error "Answer %s in its terminal" (gemini-companion-cli-send-title)))
          (t
           (setq gemini-companion-cli-send--answered
                 (cons (buffer-chars-modified-tick) (float-time)))
           (gemini-companion-cli-send-key
            (if (equal answer "no") (gemini-companion-cli-screen-no-key) "\r") (current-buffer))
           (gemini-companion-cli-send--give-room-back)
           (message "Answered %s in %s" answer (buffer-name))))))

;;;###autoload
(defun gemini-companion-cli-send-answer-keys (terminal)
  "Return which keys answer the question in TERMINAL, as the end of a message.
Where the user is, they may be about another CLI; one leads there then."
  (with-current-buffer (gemini-companion-ui-selected-buffer)
    (if (or (length= (gemini-companion-cli-run-terminals) 1)
            (and (not (gemini-companion-host-remote-p default-directory)) ; it might wait for Tramp
                 (eq terminal (ignore-errors (gemini-companion-cli-send-terminal)))))
        (format "; %s, %s"
                (gemini-companion-ui-key 'gemini-companion-answer-yes "answers yes")
                (gemini-companion-ui-key 'gemini-companion-answer-no "no"))
      (concat "; " (gemini-companion-ui-key 'gemini-companion-next "shows what waits")))))

(defun gemini-companion-cli-send--lossy-p ()
  "Return non-nil if a yes to the CLI here accepts a change that loses something."
  (when-let* ((cli (gemini-companion-cli-in-terminal (current-buffer))))
    (not (seq-every-p #'gemini-companion-review-effect-harmless-p
                      (gemini-companion-cli-reviews cli)))))

(defun gemini-companion-cli-send--question-seen-p ()
  "Return non-nil if a window shows as much of the question here as it can.
The upper border of its box does not matter."
  (pcase-let* ((`(,start . ,end) (gemini-companion-cli-screen-question-bounds))
               (text (save-excursion
                       (goto-char start)
                       (skip-chars-forward " ╭─╮│\n")
                       (line-beginning-position))))
    (seq-some (lambda (window)
                (and (<= (window-start window) end (window-end window t))
                     (or (and (<= (window-start window) text)
                              (not (gemini-companion-cli-send--part-hidden-p start end)))
                         (zerop (window-max-delta window)))))
              (gemini-companion-ui-windows-of (current-buffer)))))

(defun gemini-companion-cli-send--part-hidden-p (start end)
  "Return non-nil if the question from START to END has no room for all of it.
Gemini CLI and its forks then hide some of a command, or of a change that Emacs
has not shown, and LLxprt Code which choice is selected."
  (save-excursion
    (goto-char start)
    (or (and (not (gemini-companion-cli-send--shown-in-emacs-p start end))
             (or (re-search-forward
                  ;; An empty box hides all: above it, the model may describe a long command.
                  "^[ │]*\\.\\.\\. .*hidden [(.]\\|^ *│ ╭─.*\n *│ ╰" end t)
                 ;; With the setting useAlternateBuffer, what is above the screen is nowhere.
                 (and (looking-at-p " *│") (re-search-forward "^ *╰" end t))))
        (and (eq t (gemini-companion-cli-screen-question-p))
             (not (re-search-forward "^ *│? *[●›❯]\\|^(checked)" end t))))))

(defun gemini-companion-cli-send--shown-in-emacs-p (start end)
  "Return non-nil if Emacs has shown what is asked about from START to END.
That is a change; meanwhile, another agent of the CLI may ask about a command."
  (and (save-excursion
         (goto-char end)
         ;; A command or a prompt can contain these words, too.
         (and (re-search-backward "^[ │]*[A-Z].*\\?" start t)
              (looking-at-p "[ │]*Apply this change")))
       (when-let* ((cli (gemini-companion-cli-in-terminal (current-buffer))))
         (seq-some #'gemini-companion-review-seen (gemini-companion-cli-reviews cli)))))

(defun gemini-companion-cli-send--show-question ()
  "Show the question here in a large enough window; select no other window."
  (pcase-let ((`(,start . ,end) (gemini-companion-cli-screen-question-bounds)))
    (when-let* ((window (display-buffer (current-buffer) gemini-companion-run-display-action)))
      (set-window-point window end)
      ;; Not forced: if point were then below the window, Emacs may choose another start.
      (set-window-start window start t)
      (let ((room (window-max-delta window))
            (missing (- (1+ (count-lines start end)) (window-body-height window))))
        (when (gemini-companion-cli-send--part-hidden-p start end)
          (setq missing room))
        (when (> missing 0)
          (let ((before (window-total-height window)))
            ;; The CLI redraws the question.
            (ignore-errors (window-resize window (min missing room)))
            (set-window-parameter window 'gemini-companion-lines
                                  (cons before (window-total-height window)))))))))

(defun gemini-companion-cli-send--give-room-back ()
  "Let windows that were enlarged for the question here keep only what it takes.
The next one may take as much."
  (pcase-let ((`(,start . ,end) (gemini-companion-cli-screen-question-bounds)))
    (dolist (window (gemini-companion-ui-windows-of (current-buffer)))
      (pcase-let ((`(,before . ,after) (window-parameter window 'gemini-companion-lines)))
        (set-window-parameter window 'gemini-companion-lines nil)
        ;; The user may have resized it since.
        (when (eql after (window-total-height window))
          (let ((lines (max before (+ 4 (count-lines start end))))) ; blank ones, the mode line
            (ignore-errors (window-resize window (min 0 (- lines after))))))))))

(defun gemini-companion-cli-send--question-fault ()
  "Return why Emacs cannot answer a question of the CLI here now, or nil."
  (cond
   (gemini-companion-cli-send--busy "Emacs is still sending something else; try again shortly")
   ((gemini-companion-cli-terminals-frozen))
   ((not (gemini-companion-cli-screen-question-p))
    ;; The key may be pressed again when one has just appeared.
    (setq gemini-companion-cli-send--answered (cons nil (float-time)))
    (format "%s asks no question now in %s" (gemini-companion-cli-send-title) (buffer-name)))
   ((pcase gemini-companion-cli-send--answered
      (`(,tick . ,time)
       ;; A question may ignore Enter, such as Qwen Code's if nothing is checked.  Or the next one
       ;; has just appeared, and the same key was pressed twice.
       (gemini-companion-ui-recent-p
        time (if (eql tick (buffer-chars-modified-tick)) 5 gemini-companion-ui-reaction-time))))
    (if (car gemini-companion-cli-send--answered)
        "The CLI has not shown your last answer yet; try again shortly"
      "This question has just appeared: pause before you press a key"))))

;;;; Sending

(defvar gemini-companion-cli-send--waiting nil
  "Non-nil while Emacs waits for a terminal, and runs timers meanwhile.")

(defvar gemini-companion-cli-send--poll-interval 0.1
  "Seconds between polls of a terminal.")

(defvar gemini-companion-cli-send--patience 6000
  "Number of polls, in ten minutes, until Emacs stops waiting for a CLI to rest.")

(defun gemini-companion-cli-send-terminal ()
  "Return the terminal of the CLI in this buffer, of the project, or the only one.
In a review, it is that of its client, and no other.  Failing all of these,
return the one with the innermost directory around the project."
  (let* ((root (gemini-companion-cli-run-project))
         (running (gemini-companion-cli-run-terminals))
         (here (not (gemini-companion-cli-run-switching-to)))
         (review (and here gemini-companion-review-of-buffer)))
    (cond ((car (assq (if review (gemini-companion-cli-run-terminal-of review)
                        (and here (current-buffer)))
                      running)))
          (review (user-error "Emacs cannot type to the CLI of this change; go to its terminal"))
          ((gemini-companion-cli-run-buffer root))
          ((null running)
           (user-error "No CLI runs in a terminal of Emacs; %s"
                       (gemini-companion-ui-key 'gemini-companion-run "starts one")))
          ((length= running 1) (caar running))
          ((gemini-companion-cli-run-terminal-around root #'identity))
          (t (user-error "No CLI runs for %s; %s" root
                         (gemini-companion-ui-key 'gemini-companion-run "starts one"))))))

(defun gemini-companion-cli-send-text (text submit &optional terminal)
  "Paste TEXT into the prompt of the CLI.
If SUBMIT is non-nil, send the prompt; otherwise, show the CLI.  TERMINAL
defaults to the value of `gemini-companion-cli-send-terminal'."
  (let ((buffer (or terminal (gemini-companion-cli-send-terminal)))
        (text (gemini-companion-cli-send--clean text)))
    (gemini-companion-cli-send-check buffer)
    (gemini-companion-cli-send--paste
     buffer (with-current-buffer buffer (gemini-companion-cli-send--separate text))
     (lambda (live)
       (cond ((not live)
              (kill-new text)
              (gemini-companion-ui-message
               buffer "%s did not take your text; yank it from the kill ring"
               (or (buffer-name buffer) "A CLI")))
             (submit (gemini-companion-cli-send--may-submit-p))))
     (not submit))
    (if submit
        (message "Sent to %s" (buffer-name buffer))
      (gemini-companion-cli-run-show buffer))))

(defun gemini-companion-cli-send-key (key terminal)
  "Press KEY, a string, in the CLI in TERMINAL."
  (gemini-companion-cli-send--write terminal key #'ignore))

(defun gemini-companion-cli-send--fault ()
  "Return why the CLI in the current buffer takes no prompt now, or nil.
Keys for a prompt would answer its question, or be a command for a shell."
  (cond ((not (gemini-companion-cli-run-directory (current-buffer)))
         (format "No CLI seems to run in %s, and a shell would run the text" (buffer-name)))
        ((gemini-companion-cli-terminals-frozen))
        ((when-let* ((state (gemini-companion-cli-send--unready)))
           (concat (gemini-companion-cli-send-title)
                   ;; The user may mean another one.
                   (when (cdr (gemini-companion-cli-run-terminals))
                     (concat " in " (buffer-name)))
                   " " state)))))

(defun gemini-companion-cli-send--unready ()
  "Return why the CLI in the current buffer takes no prompt: what it does; or nil."
  (cond ((when-let* ((name (funcall gemini-companion-cli-send-editor-function)))
           (format "waits for what you edit in %s, and would lose the text; insert it there" name)))
        ((gemini-companion-cli-screen-question-p) "asks a question; answer it first")
        ((gemini-companion-cli-screen-shell-p)
         "is in shell mode, and would run the text; leave shell mode first")
        ((gemini-companion-cli-screen-shell-focused)
         "would give the text to a shell command; leave or close that first")
        ((gemini-companion-cli-send--starting-p)
         "is still starting, and would lose the text; try again in a moment")))

(defun gemini-companion-cli-send--starting-p ()
  "Return non-nil if the CLI in the current buffer is starting.
First record that it is ready if its prompt shows; until then, it drops text."
  (when (gemini-companion-cli-screen-prompt)
    (gemini-companion-cli-send-note-prompt))
  (when-let* ((cli (gemini-companion-cli-in-terminal (current-buffer))))
    (gemini-companion-cli-starting-p cli)))

(defun gemini-companion-cli-send-note-prompt ()
  "Record that the CLI in the current buffer shows its prompt."
  (setq gemini-companion-cli-send--recognized t)
  (gemini-companion-cli-note-ready (current-buffer)))

(defun gemini-companion-cli-send--hidden-p ()
  "Return non-nil if the CLI in the current buffer does not show its prompt now.
It shows a dialog, which would take a text for keys, or draws its screen."
  (and gemini-companion-cli-send--recognized
       (not (gemini-companion-cli-screen-prompt 'always))))

(defun gemini-companion-cli-send-check (terminal)
  "Signal a `user-error' if the CLI in TERMINAL takes no prompt now."
  (when-let* ((fault (if (not (buffer-live-p terminal))
                         "The CLI has ended; M-x gemini-companion-run starts one"
                       (with-current-buffer terminal (gemini-companion-cli-send--fault)))))
    (user-error "%s" fault)))

(defun gemini-companion-cli-send-title ()
  "Return the name of the CLI in the current buffer, for the user."
  (or (gemini-companion-agent-get (gemini-companion-cli-run-agent-in (current-buffer)) :title)
      "The CLI"))

(defun gemini-companion-cli-send--paste (buffer text then &optional at-once polls)
  "Paste TEXT into the CLI in the terminal BUFFER, once nothing else is on its way.
If the CLI shows no prompt, look again, until there have been 20 POLLS.
When the CLI shows TEXT, or if AT-ONCE is non-nil, without waiting for that,
call THEN with non-nil in BUFFER, and press Enter if it returns non-nil.
If the CLI takes no prompt, drops TEXT or ends, call THEN with nil."
  (let* ((polls (or polls 0))
         (live (buffer-live-p buffer))
         (hidden (and live (with-current-buffer buffer (gemini-companion-cli-send--hidden-p)))))
    (cond ((and live
                (or (buffer-local-value 'gemini-companion-cli-send--busy buffer)
                    (and hidden (< polls 20)))) ; two seconds
           (run-at-time gemini-companion-cli-send--poll-interval nil
                        (lambda ()
                          (gemini-companion-log-errors "sending"
                            (gemini-companion-cli-send--paste buffer text then at-once
                                                              (if hidden (1+ polls) 0))))))
          ((or (not live) hidden (with-current-buffer buffer (gemini-companion-cli-send--fault)))
           (gemini-companion-cli-send--conclude buffer then nil))
          (t (gemini-companion-cli-send--paste-now buffer text then at-once)))))

(defun gemini-companion-cli-send--paste-now (buffer text then at-once)
  "Paste TEXT into the CLI in the terminal BUFFER, which takes a prompt.
For THEN and AT-ONCE see `gemini-companion-cli-send--paste'."
  (setf (buffer-local-value 'gemini-companion-cli-send--busy buffer) t)
  (let ((before (buffer-chars-modified-tick buffer)))
    (gemini-companion-cli-send--write
     buffer (concat "\e[200~" text "\e[201~")
     (lambda (sent)
       (if (and sent (not at-once))
           (gemini-companion-cli-send--await-shown
            buffer text before
            (lambda (_)
              ;; While it clears its screen, a CLI drops what it gets.
              (gemini-companion-cli-send--conclude
               buffer then (not (gemini-companion-cli-send--empty-p buffer)))))
         (gemini-companion-cli-send--conclude buffer then sent))))))

(defun gemini-companion-cli-send--conclude (buffer then sent)
  "Call THEN, and press Enter in the terminal BUFFER if it returns non-nil.
SENT is nil if the text before that was not sent.  Afterwards, BUFFER is free."
  (let* ((live (and sent (buffer-live-p buffer) (process-live-p (get-buffer-process buffer))))
         (enter (gemini-companion-log-errors "sending"
                  (with-current-buffer (if live buffer (current-buffer))
                    (funcall then live))))
         (release (lambda ()
                    (when (buffer-live-p buffer)
                      (setf (buffer-local-value 'gemini-companion-cli-send--busy buffer) nil)))))
    (if (and live enter)
        (gemini-companion-cli-send--write
         buffer "\r" (lambda (_) (gemini-companion-cli-send--await-taken buffer release)))
      (funcall release))))

(defun gemini-companion-cli-send--await-taken (buffer then &optional typed)
  "Call THEN when the CLI in the terminal BUFFER has taken its prompt, after Enter.
While the computer is busy, a CLI may take Enter for a newline, even if it has
shown the text long before.  So press it again then, once: TYPED is what the
prompt showed before.  If the CLI asks the user to complete a command, takes
none while it works, or takes Enter for a newline always, say so."
  (let* ((prompt (lambda ()
                   (and (buffer-live-p buffer)
                        (with-current-buffer buffer
                          (and (not (gemini-companion-cli-send--fault))
                               (gemini-companion-cli-screen-prompt 'always))))))
         (before (or typed (funcall prompt))))
    (gemini-companion-cli-send--poll
     (lambda ()
       (cond ((not (and before (equal before (funcall prompt)))) 'taken)
             ((and (not typed)
                   (with-current-buffer buffer (gemini-companion-cli-screen-newline-p)))
              'newline)
             (t 'kept)))
     (lambda (state quiet _polls) (or (eq state 'taken) (and quiet (eq state 'newline))))
     20                                 ; two seconds
     (lambda (state)
       (if (eq state 'newline)
           (gemini-companion-cli-send--write
            buffer "\r"
            (lambda (_) (gemini-companion-cli-send--await-taken buffer then before)))
         (when (eq state 'kept)
           (gemini-companion-ui-message buffer "The text is still in the prompt of %s"
                                        (buffer-name buffer)))
         (funcall then))))))

(defun gemini-companion-cli-send--clean (text)
  "Return TEXT without control characters other than newlines and tabs.
Add a space where Enter would begin a line, or might complete a name with an @."
  (let ((text (replace-regexp-in-string
               "[\u0000-\u0008\u000b-\u001f\u007f-\u009f]" ""
               (string-replace "\r" "\n" (string-replace "\r\n" "\n" text))
               t t)))
    (if (string-match-p "\\(?:\\\\\\|@[^[:space:]\n]*\\)\\'"
                        ;; Names are not longer, and a long text with many @ would take long.
                        (substring text (- (min 1000 (length text)))))
        (concat text " ")
      text)))

(defun gemini-companion-cli-send--separate (text)
  "Return TEXT, after a space if the user may have typed a word in the CLI here."
  ;; A command must stay one if what looks typed is a hint.
  (if (or (string-match-p "\\`[/[:space:]]" text)
          (length< (gemini-companion-cli-screen-prompt 'always) 2)
          (gemini-companion-cli-screen-newline-p)
          (gemini-companion-cli-send--empty-p (current-buffer)))
      text
    (concat " " text)))

(defun gemini-companion-cli-send--write (buffer text then)
  "Send TEXT to the terminal BUFFER, then call THEN with non-nil.
If that fails, or the CLI has ended, call THEN with nil."
  (let ((process (and (buffer-live-p buffer) (get-buffer-process buffer))))
    (pcase (cond ((not (process-live-p process)) nil)
                 (gemini-companion-cli-send--waiting 'later)
                 (t (with-current-buffer buffer
                      (gemini-companion-log-errors "sending"
                        (gemini-companion-cli-send--try process text)))))
      ('sent (funcall then t))
      ('nil (funcall then nil))
      (outcome
       (run-at-time gemini-companion-cli-send--poll-interval nil
                    #'gemini-companion-cli-send--write
                    ;; What was sent in part is sent only once.
                    buffer (if (eq outcome 'later) text "") then)))))

(defun gemini-companion-cli-send--try (process text)
  "Send TEXT to PROCESS; return `sent', or `waits' if it has not read all of it.
Emacs then sends the rest before anything else.  Without a timeout, Emacs
would wait, and the user could not quit that in a timer."
  (let ((inhibit-quit t)
        (gemini-companion-cli-send--waiting t))
    (with-timeout (0.05 'waits)
      (process-send-string process text)
      'sent)))

(defun gemini-companion-cli-send--may-submit-p ()
  "Return non-nil if Enter may send the prompt here; otherwise say why not."
  (if-let* ((fault (gemini-companion-cli-send--fault)))
      (ignore (gemini-companion-ui-message (current-buffer) "Pasted into %s, but not sent.  %s"
                                           (buffer-name) fault))
    t))

;;;; Waiting for the CLI

(defun gemini-companion-cli-send--poll (read done max finish)
  "Call READ from a timer until DONE, at most MAX times, then call FINISH.
DONE is called with the value of READ, with non-nil if that has not changed
for some polls, and with their number.  FINISH is called with the last value."
  (let ((polls 0)
        (same 0)
        (last nil)
        (timer nil))
    (setq timer
          (run-at-time
           gemini-companion-cli-send--poll-interval gemini-companion-cli-send--poll-interval
           (lambda ()
             (gemini-companion-log-errors "polling a CLI"
               (cl-incf polls)
               (let ((value (gemini-companion-log-errors "reading a CLI" (funcall read))))
                 (setq same (if (equal value last) (1+ same) 0)
                       last value)
                 ;; It must not change for half a second: if a key follows a pasted text too
                 ;; closely, the CLI takes it for a part of the text.
                 (when (or (>= polls max) (funcall done value (>= same 5) polls))
                   (cancel-timer timer)
                   (funcall finish value)))))))))

(defun gemini-companion-cli-send--await-shown (buffer text before then)
  "Call THEN when the terminal BUFFER shows TEXT in the prompt, and that is quiet.
BEFORE is its `buffer-chars-modified-tick' before TEXT was sent."
  (gemini-companion-cli-send--poll
   (lambda ()
     (and (buffer-live-p buffer)
          (with-current-buffer buffer
            ;; While a CLI works, the rest of its screen is never quiet.
            (or (gemini-companion-cli-screen-prompt 'always) (buffer-chars-modified-tick)))))
   (lambda (prompt quiet polls)
     (or (null prompt)
         (and (or quiet (> polls 50))   ; five seconds
              (not (eql before (buffer-chars-modified-tick buffer)))
              (gemini-companion-cli-send--shown-p buffer text))))
   200 then)) ; 20 seconds: some texts look different there, then go on all the same

(defun gemini-companion-cli-send--empty-p (buffer)
  "Return non-nil if the terminal BUFFER certainly shows an empty prompt."
  (and (buffer-live-p buffer)
       (with-current-buffer buffer
         (let ((case-fold-search nil))
           (and (not (gemini-companion-cli-terminals-frozen))
                (string-match-p
                 ;; The others are of the setting vimMode.
                 (concat "\\`[>*]\\(?:Typeyourmessageor"
                         "\\|Press'\\(?:Esc'forNORMAL\\|i'forINSERT\\)mode\\.\\'\\)")
                 (or (gemini-companion-cli-screen-prompt 'always) "")))))))

(defun gemini-companion-cli-send--shown-p (buffer text)
  "Return non-nil unless the prompt in the terminal BUFFER lacks TEXT.
If there is no recognizable prompt, assume that it shows TEXT."
  (let ((prompt (with-current-buffer buffer (gemini-companion-cli-screen-prompt 'always)))
        (wanted (gemini-companion-cli-screen-without-spaces text))
        (case-fold-search nil))
    (or (not (stringp prompt))
        ;; Gemini CLI shows only a part of long texts and of names of images.
        (string-match-p "\\[\\(?:Pasted\\|Image\\)" prompt)
        ;; The rest may be above what is visible.
        (string-suffix-p (substring wanted (- (min 20 (length wanted)))) prompt))))

;;;; Sending to a CLI at rest

;; What the user does not send directly must neither answer a question nor be sent together with
;; what the user is typing.  So Emacs checks the screen before it pastes a text, and again before it
;; presses the key that sends it.

(defun gemini-companion-cli-send-at-rest (text terminal finish)
  "Send TEXT to the CLI in TERMINAL once it neither works nor asks anything.
Wait for ten minutes at most, since it may go on with its turn.  Then call
FINISH with one argument: `sent'; `put' if TEXT is in the prompt but was not
sent, because something else is there, too, or the CLI works for too long;
or nil if TEXT is not even there, or the CLI has ended."
  (let ((text (gemini-companion-cli-send--clean text)))
    (gemini-companion-cli-send--poll
     (lambda () (gemini-companion-cli-send--state terminal))
     (lambda (state quiet polls)
       (or (eq state 'ended)
           (and quiet (or (stringp state)
                          (and (eq state 'unknown) (> polls 50)))))) ; five seconds
     gemini-companion-cli-send--patience
     (lambda (state)
       (if (not (or (stringp state) (eq state 'works)))
           (funcall finish nil)
         (let ((empty (and (stringp state) (gemini-companion-cli-send--empty-p terminal))))
           (gemini-companion-cli-send--paste
            ;; After what is there, on a line of its own.
            terminal (if empty text (concat "\n" text))
            (lambda (live)
              (let ((alone (and live (gemini-companion-cli-send--alone-p text empty))))
                (funcall finish (cond (alone 'sent) (live 'put)))
                alone)))))))))

(defun gemini-companion-cli-send--state (terminal)
  "Return what is in the prompt of the CLI in TERMINAL, if that is at rest.
Otherwise return `works' or `ended', `unknown' if Emacs has never recognized
its prompt, or nil if it takes none or is unclear."
  (if (not (gemini-companion-cli-run-directory terminal))
      'ended
    (with-current-buffer terminal
      (unless (or gemini-companion-cli-send--busy (gemini-companion-cli-send--fault))
        (or (gemini-companion-cli-screen-prompt)
            (unless gemini-companion-cli-send--recognized 'unknown))))))

(defun gemini-companion-cli-send--alone-p (text empty)
  "Return non-nil if the prompt here has TEXT and nothing else.
If it did not seem EMPTY before, that may have been a suggestion, or a hint in
another language."
  (let* ((wanted (gemini-companion-cli-screen-without-spaces text))
         (prompt (and (not (gemini-companion-cli-send--fault))
                      (gemini-companion-cli-screen-prompt)))
         ;; The sign of the prompt differs in the CLI's mode YOLO.
         (typed (and (stringp prompt) (substring prompt 1))))
    (or (equal typed (concat (unless empty "\n") wanted))
        ;; A long text is folded, or only its end is visible.
        (and typed empty
             (or (string-match-p "\\`\\[Pasted\\(?:Text\\|Content\\).*\\]\\'" typed)
                 (and (length> typed 200) (string-suffix-p typed wanted)))))))

(provide 'gemini-companion-cli-send)
;;; gemini-companion-cli-send.el ends here

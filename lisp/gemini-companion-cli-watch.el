;;; gemini-companion-cli-watch.el --- Watch the terminals of CLIs -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A moment after a CLI in a terminal has written something, Emacs looks at its screen.  A question
;; that is not on screen in Emacs shows in the mode line.  If the CLI takes a prompt again although
;; a change of it waits in Emacs, it has given up that change, and nothing else says so.  Nor do its
;; hooks report that the user has answered a question or stopped the CLI: the screen tells.
;;
;; While a change waits, C-c C-c in a terminal asks what the user means.  It would send ^C, and the
;; CLI would cancel the change and those queued behind it.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-cli)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-cli-screen)
(require 'gemini-companion-cli-send)
(require 'gemini-companion-cli-terminals)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-review-commands)
(require 'gemini-companion-ui)

(defvar-local gemini-companion-cli-watch--timer nil
  "The timer that will look at the screen of this terminal, or nil.")

(defvar-local gemini-companion-cli-watch--written 0
  "How many characters the CLI has written since the timer was started.")

(defvar-local gemini-companion-cli-watch--asks nil
  "Non-nil if the CLI last asked about something other than a change.
It is `perhaps' if the screen showed that only once.")

(defvar-local gemini-companion-cli-watch--typed 0
  "When the user last typed something that was not for a question, in seconds.")

(defvar-local gemini-companion-cli-watch--seen nil
  "What the screen shows, and since when, as (STATE . TIME), or nil.
STATE is `working', or `done' at rest; in both, the CLI takes a prompt.")

(defvar-local gemini-companion-cli-watch--rested nil
  "When the CLI was last seen at rest, in seconds since 1970, or nil.")

;;;; Watching

;;;###autoload
(defun gemini-companion-cli-watch-all (&rest _)
  "Watch the terminals of all CLIs, also of those that the user has started."
  (when (> gemini-companion-bridge-clients 0)
    (gemini-companion-log-errors "terminals"
      (pcase-dolist (`(,buffer . ,_) (gemini-companion-cli-run-terminals))
        (gemini-companion-cli-watch-start buffer)))))
;; Functions on this hook are loaded when a client is connected, and Emacs is idle.
;;;###autoload (add-hook 'gemini-companion-review-waiting-functions #'gemini-companion-cli-watch-all)
(add-hook 'gemini-companion-bridge-clients-functions #'gemini-companion-cli-watch-all)
(run-at-time 0 nil #'gemini-companion-cli-watch-all)

;;;###autoload
(defun gemini-companion-cli-watch-start (buffer)
  "Watch BUFFER, the terminal of a CLI, until its process ends."
  (unless (or (buffer-local-value 'gemini-companion-cli-watch--mode buffer)
              ;; Emacs takes no output from it now.
              (eq (process-filter (get-buffer-process buffer)) t))
    (with-current-buffer buffer (gemini-companion-cli-watch--mode))))
;;;###autoload (add-hook 'gemini-companion-cli-run-functions #'gemini-companion-cli-watch-start)

(define-minor-mode gemini-companion-cli-watch--mode
  "Mode of a terminal that is watched.
See also `gemini-companion-cli-watch--maps'."
  :interactive nil
  :lighter nil
  (add-to-list 'emulation-mode-map-alists 'gemini-companion-cli-watch--maps)
  (let ((on gemini-companion-cli-watch--mode)
        (process (get-buffer-process (current-buffer))))
    (setq gemini-companion-ui-local-keys
          (and on '((gemini-companion-accept . "C-c C-c a")
                    (gemini-companion-reject . "C-c C-c r")
                    (gemini-companion-review-next . "C-c C-c g"))))
    (if on
        (progn
          (add-function :after (process-filter process) #'gemini-companion-cli-watch--note-output)
          (add-hook 'pre-command-hook #'gemini-companion-cli-watch--ignore-stray-key nil t)
          (add-hook 'pre-redisplay-functions #'gemini-companion-cli-terminals-note-following nil t)
          (add-hook 'window-configuration-change-hook
                    #'gemini-companion-cli-terminals-follow-again nil t)
          (add-hook 'kill-buffer-hook (lambda () (gemini-companion-cli-watch--mode -1)) nil t)
          (gemini-companion-cli-watch--look-soon))
      (when process
        (remove-function (process-filter process) #'gemini-companion-cli-watch--note-output))
      (remove-hook 'pre-command-hook #'gemini-companion-cli-watch--ignore-stray-key t)
      (remove-hook 'pre-redisplay-functions #'gemini-companion-cli-terminals-note-following t)
      (remove-hook 'window-configuration-change-hook
                   #'gemini-companion-cli-terminals-follow-again t)
      (when gemini-companion-cli-watch--timer
        (cancel-timer gemini-companion-cli-watch--timer)
        (setq gemini-companion-cli-watch--timer nil))
      (gemini-companion-cli-watch--set-asking nil))))

(defun gemini-companion-cli-watch-forget-all ()
  "Stop watching all terminals."
  (dolist (buffer (buffer-list))
    (when (buffer-local-value 'gemini-companion-cli-watch--mode buffer)
      (with-current-buffer buffer (gemini-companion-cli-watch--mode -1)))))
(add-hook 'gemini-companion-mode-off-hook #'gemini-companion-cli-watch-forget-all)

(defun gemini-companion-cli-watch--note-output (process text)
  "Look at the screen soon, as the CLI in the terminal of PROCESS has written TEXT."
  (when (buffer-live-p (process-buffer process))
    (with-current-buffer (process-buffer process)
      (if gemini-companion-cli-watch--timer
          (cl-incf gemini-companion-cli-watch--written (length text))
        (gemini-companion-cli-watch--look-soon)))))

;;;; Looking at the screen

(defconst gemini-companion-cli-watch--free-time 1.0
  "Seconds after which a CLI that takes prompts has given up its changes.
It writes its screen, and reports an answer to Emacs, at about the same time.")

(defun gemini-companion-cli-watch--look-soon ()
  "Look at the screen of the current terminal after a moment.
Some emulators draw their screen a tenth of a second later."
  (setq gemini-companion-cli-watch--written 0
        gemini-companion-cli-watch--timer
        (run-at-time 0.3 nil #'gemini-companion-cli-watch--look (current-buffer))))

(defun gemini-companion-cli-watch--look (buffer)
  "Act on what the screen of the terminal BUFFER shows; look again if needed."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (setq gemini-companion-cli-watch--timer nil)
      (gemini-companion-log-errors "the screen of a CLI"
        ;; After ^Z, twice, the CLI waits for SIGCONT, and there is no shell to send it.
        (when (and (gemini-companion-agent-get gemini-companion-cli-run-agent :suspends)
                   (process-live-p (get-buffer-process buffer)))
          (signal-process (- (process-id (get-buffer-process buffer))) 'CONT))
        (let ((waits (gemini-companion-cli-watch--act)))
          (cond ((not (process-live-p (get-buffer-process buffer)))
                 (gemini-companion-cli-watch--mode -1))
                ((or waits (> gemini-companion-cli-watch--written 0))
                 (gemini-companion-cli-watch--look-soon))))))))

(defun gemini-companion-cli-watch--act ()
  "Act on what the screen of the current terminal shows.
Return non-nil if Emacs must look at it again, even if it does not change."
  ;; The CLI may just have reported what its screen shows.
  (gemini-companion-bridge-drain)
  (let* ((reviews (gemini-companion-cli-watch--reviews))
         (asks (gemini-companion-cli-screen-question-p))
         (prompt (and (not asks) (not (gemini-companion-cli-terminals-frozen))
                      (gemini-companion-cli-screen-prompt)))
         ;; If its size has changed, the CLI draws all old prompts again, which look like this one.
         (rests (and (stringp prompt) (< gemini-companion-cli-watch--written 4000)))
         (state (cond (rests 'done) ((symbolp prompt) (and prompt 'working)))))
    (when (and asks reviews)
      (gemini-companion-cli-watch--note-queue (car reviews)))
    (gemini-companion-cli-watch--set-asking (and asks (null reviews)))
    (unless (eq state (car gemini-companion-cli-watch--seen))
      (setq gemini-companion-cli-watch--seen (and state (cons state (float-time)))))
    (when rests
      (gemini-companion-cli-send-note-prompt)
      (setq gemini-companion-cli-watch--rested (float-time)))
    (when asks
      (setq reviews (gemini-companion-cli-watch--not-asked-about reviews)
            ;; It goes on with the change that it asks about.
            gemini-companion-cli-watch--rested (and reviews gemini-companion-cli-watch--rested)))
    (let ((abandoned (gemini-companion-cli-watch--cancel-abandoned reviews))
          (accepts (gemini-companion-cli-watch--end-accepting))
          (differs (gemini-companion-cli-watch--correct)))
      (or abandoned accepts differs (eq gemini-companion-cli-watch--asks 'perhaps)))))

(defun gemini-companion-cli-watch--not-asked-about (reviews)
  "Return those of REVIEWS that the question on screen is surely not about."
  (when-let* ((title (gemini-companion-cli-screen-question-title)))
    (seq-remove (lambda (review)
                  (string-search (file-name-nondirectory (gemini-companion-review-path review))
                                 title))
                reviews)))

(defun gemini-companion-cli-watch--cancel-abandoned (reviews)
  "Cancel those of REVIEWS that the CLI of the current terminal has given up.
It is at rest, or was while they were open.  It may work before it asks about
one, as when it runs hooks.  Return non-nil if some are too new to tell."
  (cl-loop for review in (seq-filter #'gemini-companion-cli-watch--certain-p reviews)
           for created = (float-time (gemini-companion-review-created review))
           for rested = gemini-companion-cli-watch--rested
           for since = (cond ((eq (car gemini-companion-cli-watch--seen) 'done)
                              (max (cdr gemini-companion-cli-watch--seen) created))
                             ((and rested
                                   (>= (- rested created) gemini-companion-cli-watch--free-time))
                              rested))
           if (and since (>= (- (float-time) since) gemini-companion-cli-watch--free-time)
                   ;; While Emacs was busy, the CLI may have asked.
                   (not (accept-process-output (get-buffer-process (current-buffer)) 0 nil 0)))
           do (gemini-companion-review-cancel review)
           else if since collect review))

(defun gemini-companion-cli-watch--note-queue (review)
  "Record the queue behind REVIEW, but no file names that the screen shortens."
  (let* ((cli (gemini-companion-cli-of-process (gemini-companion-review-process review)))
         (here (gemini-companion-host-name-here
                ;; On a host, the project of the terminal may be a link to this.
                (or (and cli (gemini-companion-cli-directory cli))
                    (gemini-companion-cli-send-directory (current-buffer)))))
         (directory (if (gemini-companion-host-remote-p here) here (file-truename here)))
         (file-name-handler-alist nil)
         ;; The model has chosen the names.
         (files (cl-loop for name in (gemini-companion-cli-screen-queued-files)
                         unless (string-match-p "\\.\\.\\.\\|…\\|\\`~\\|\\`/[^/]*:" name)
                         collect (expand-file-name name directory))))
    (unless (equal files (gemini-companion-review-queued review))
      (setf (gemini-companion-review-queued review) files)
      (force-mode-line-update t))))

(defun gemini-companion-cli-watch--end-accepting ()
  "If the CLI here rests, accept no more in advance; return non-nil if unsure."
  (when-let* (((eq (car gemini-companion-cli-watch--seen) 'done))
              (review (gemini-companion-review-commands-rest-of))
              ((gemini-companion-cli-watch--of-p review)))
    ;; Between two changes it may seem to rest, for a moment.
    (or (gemini-companion-ui-recent-p (cdr gemini-companion-cli-watch--seen)
                                      gemini-companion-cli-watch--free-time)
        (ignore (gemini-companion-review-commands-forget-rest)))))

(defun gemini-companion-cli-watch--correct ()
  "Let the screen here correct the record; return non-nil if it is too early."
  (pcase-let ((cli (gemini-companion-cli-in-terminal (current-buffer)))
              (`(,state . ,since) gemini-companion-cli-watch--seen))
    (when (and cli state
               (memq (gemini-companion-cli-state cli) (remq state '(working asking))))
      ;; Hooks report something at about the time at which the screen changes.
      (or (gemini-companion-ui-recent-p (max since (gemini-companion-cli-since cli)) 3.0)
          (ignore (gemini-companion-cli-enter cli state))))))

(defun gemini-companion-cli-watch--set-asking (asks)
  "Record whether the CLI in the current buffer ASKS something.
A question about a change shows as a review instead."
  (let ((before gemini-companion-cli-watch--asks))
    ;; For a moment, that may be what the user has just answered in a review.
    (setq gemini-companion-cli-watch--asks (and asks (if before t 'perhaps)))
    ;; A hook may have reported meanwhile that it works, since another tool has run.
    (when (memq t (list before gemini-companion-cli-watch--asks))
      (gemini-companion-cli-note-screen (current-buffer) (eq gemini-companion-cli-watch--asks t)
                                        gemini-companion-cli-run-agent
                                        gemini-companion-cli-run-root))))

;;;; The changes of a CLI

(defun gemini-companion-cli-watch--of-p (review)
  "Return non-nil if the client of REVIEW runs in the current buffer."
  (eq (current-buffer) (gemini-companion-cli-run-terminal-of review)))

(defun gemini-companion-cli-watch--certain-p (review)
  "Return non-nil if the client of REVIEW certainly runs here.
If its terminal is not known, there must be no other client."
  (or (when-let* ((cli (gemini-companion-cli-of-process (gemini-companion-review-process review))))
        (eq (current-buffer) (gemini-companion-cli-terminal cli)))
      (= 1 (if-let* ((host (gemini-companion-review-host review)))
               (length (gemini-companion-bridge-host-sessions host))
             gemini-companion-bridge-clients))))

(defun gemini-companion-cli-watch--reviews ()
  "Return the open reviews of the CLI here, the oldest first."
  (seq-filter #'gemini-companion-cli-watch--of-p (gemini-companion-review-all-open)))

;;;; C-c C-c

(defvar gemini-companion-cli-watch--maps
  (let ((map (make-sparse-keymap))
        (prefix (make-sparse-keymap)))
    (define-key prefix (kbd "C-c") #'gemini-companion-terminal-interrupt)
    (define-key map (kbd "C-c")
      `(menu-item "" ,prefix :filter gemini-companion-cli-watch--guard))
    ;; Eat has it at C-c C-k, which rejects a change elsewhere, and asks nothing.
    (define-key map [remap eat-kill-process] #'kill-current-buffer)
    `((gemini-companion-cli-watch--mode . ,map)))
  "Keys in the terminal of a CLI, some of them while one of its changes waits.
An element of `emulation-mode-map-alists', before the maps of the emulators.")

(defun gemini-companion-cli-watch--ignore-stray-key ()
  "Ignore the key just pressed if it was meant for the prompt, not for a question.
A question that appears while the user is typing drops text; but a digit, or the
Enter that was to send the prompt, would answer it."
  (gemini-companion-log-errors "a key"
    (let ((now (float-time))
          ;; On a graphical frame, vterm does not let Emacs translate it.
          (key (if (eq last-command-event 'return) ?\r last-command-event)))
      (when (and (characterp key) (length= (this-command-keys-vector) 1)
                 (not (gemini-companion-cli-terminals-frozen))
                 ;; There, keys are commands of Emacs, but Evil Collection sends Enter.
                 (or (eq key ?\r)
                     (not (memq (or (bound-and-true-p evil-state)
                                    (bound-and-true-p meow--current-state))
                                '(normal visual motion)))))
        ;; Emacs may have been busy when the user pressed it, and have a change
        ;; that nobody has seen.
        (gemini-companion-bridge-drain)
        (cond ((not (or (gemini-companion-cli-watch--reviews)
                        (gemini-companion-cli-screen-question-p)))
               ;; After Enter, the user may expect a question, as after /model.
               (setq gemini-companion-cli-watch--typed (if (eq key ?\r) 0 now)))
              ((or (gemini-companion-ui-recent-p gemini-companion-cli-watch--typed
                                                 gemini-companion-ui-reaction-time)
                   (gemini-companion-cli-watch--unseen-p))
               (setq gemini-companion-cli-watch--typed now
                     this-command #'ignore)
               (message "This question has just appeared: pause before you press a key")))))))

(defun gemini-companion-cli-watch--unseen-p ()
  "Return non-nil if the change that waits here is too new for the user to see it."
  (when-let* ((review (car (gemini-companion-cli-watch--reviews))))
    (gemini-companion-ui-recent-p (float-time (gemini-companion-review-created review))
                                  (/ gemini-companion-ui-reaction-time 3))))

(defun gemini-companion-cli-watch--guard (map)
  "Return MAP if a change of the CLI in the current buffer waits, or soon will.
A change of another client counts while it is on screen: its header line
names these keys."
  (and (gemini-companion-log-errors "a key"
         (or (gemini-companion-cli-watch--review)
             (pcase (gemini-companion-review-commands-last-accept)
               ;; The next change of a turn takes a moment to come.
               (`(,review . ,time)
                (and (gemini-companion-ui-recent-p time 3.0)
                     (gemini-companion-cli-watch--of-p review))))))
       map))

(defun gemini-companion-cli-watch--review ()
  "Return the review to ask about in the current terminal, or nil."
  (let ((shown (gemini-companion-review-shown)))
    (if (and shown (gemini-companion-review-on-screen-p shown))
        shown
      (car (gemini-companion-cli-watch--reviews)))))

(defun gemini-companion-terminal-interrupt (&optional with-reason)
  "Ask whether to accept the change that waits, or to send ^C to the CLI.
For WITH-REASON, the prefix argument, see `gemini-companion-reject'."
  (interactive (if gemini-companion-cli-watch--mode (list current-prefix-arg)
                 (user-error "No CLI runs in this buffer"))
               gemini-companion-cli-watch--mode)
  (let ((review (gemini-companion-cli-watch--review)))
    (pcase (and review (gemini-companion-cli-watch--ask review))
      ((guard (not review))
       (message "You have just accepted a change; wait a moment before you interrupt %s"
                (gemini-companion-cli-send-title))
       ;; What would answer the question is not for the CLI's prompt.
       (let ((key (read-event nil nil gemini-companion-ui-reaction-time)))
         (unless (memq key '(nil ?a ?! ?r ?g ?c ?q))
           (push key unread-command-events))))
      (?a (gemini-companion-accept review))
      (?! (gemini-companion-accept-all review))
      (?r (gemini-companion-reject with-reason review))
      (?g (gemini-companion-review-visit review))
      (?c (gemini-companion-cli-send-key "\C-c" (current-buffer)))
      (_ (message "Nothing was sent")))))

(defun gemini-companion-cli-watch--ask (review)
  "Ask what the user wants to do about REVIEW; return a character or nil."
  (let ((cancels (if (gemini-companion-cli-watch--of-p review) "it, and what is queued behind it"
                   (format "what %s does in %s" (gemini-companion-cli-send-title) (buffer-name)))))
    (gemini-companion-review-ask
     review
     (lambda ()
       (condition-case nil
           (car (read-multiple-choice
                 (format "%s (^C cancels %s)" (gemini-companion-review-file review) cancels)
                 `((?a "accept" ,(concat (gemini-companion-review-agent-title review)
                                         " writes the text as it now reads"))
                   ,@(and (gemini-companion-review-position review)
                          '((?! "all" "Name all changes of this turn, then accept them")))
                   (?r "reject" "The file stays as it is")
                   (?g "go there" "Select the change")
                   (?c "send ^C" ,(concat "That cancels " cancels))
                   (?q "nothing" "Everything stays as it is"))))
         (quit nil))))))

(provide 'gemini-companion-cli-watch)
;;; gemini-companion-cli-watch.el ends here

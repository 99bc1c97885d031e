;;; gemini-companion-cli-list.el --- The list of CLIs -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Lists the CLIs that this Emacs knows of and what each does, leads to their terminals, and
;; answers, stops or prompts the CLI on the current line.

;;; Code:

(require 'gemini-companion-bridge)
(require 'gemini-companion-cli)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-cli-screen)
(require 'gemini-companion-cli-send)
(require 'gemini-companion-review)
(require 'gemini-companion-review-commands)
(require 'gemini-companion-review-list)
(require 'gemini-companion-ui)

;;;; The list

(define-derived-mode gemini-companion-cli-list-mode tabulated-list-mode "Gemini-CLIs"
  "Major mode for the list of CLIs that this Emacs knows of.

\\{gemini-companion-cli-list-mode-map}"
  :interactive nil
  (setq gemini-companion-review-list-columns
        '(("Project" t :shrink t) ("CLI" t) ("State" t) ("Last prompt" nil))
        gemini-companion-review-list-entries-function #'gemini-companion-cli-list--entries
        gemini-companion-review-list-keys-function #'gemini-companion-cli-list--keys)
  (gemini-companion-review-list-set-up 5 'gemini-companion-cli-change-hook))

(gemini-companion-ui-bind gemini-companion-cli-list-mode-map
  ("RET" "<mouse-2>") #'gemini-companion-cli-list-visit
  "v" #'gemini-companion-cli-list-show-change
  "y" #'gemini-companion-cli-list-answer-yes
  "N" #'gemini-companion-cli-list-answer-no
  "s" #'gemini-companion-cli-list-send
  "k" #'gemini-companion-cli-list-stop
  "r" #'gemini-companion-cli-list-resume
  "I" 'gemini-companion-status)

;;;###autoload
(defun gemini-companion-cli-list ()
  "List the CLIs that this Emacs knows of, and what each of them does."
  (interactive)
  (gemini-companion-review-list-pop-to "*gemini CLIs*" #'gemini-companion-cli-list-mode))

(defun gemini-companion-cli-list--entries ()
  "Return the CLIs for `tabulated-list-entries'."
  (gemini-companion-cli-forget-ended)
  (mapcar (lambda (cli)
            (list cli
                  (vector (gemini-companion-cli-project cli)
                          (gemini-companion-cli-list--name cli)
                          (gemini-companion-cli-list-state cli)
                          (gemini-companion-ui-prompt-line
                           (or (car (gemini-companion-cli-prompt cli)) "")))))
          (gemini-companion-cli-all)))

(defun gemini-companion-cli-list--name (cli)
  "Return what CLI is called in the list, with what tells it from others.
That is its process id or, in Emacs, the end of the name of its terminal."
  (let ((process (gemini-companion-cli-process cli))
        (terminal (gemini-companion-cli-terminal cli)))
    (concat (gemini-companion-cli-title cli)
            (cond ((buffer-live-p terminal)
                   (replace-regexp-in-string "\\`.*?\\(<[0-9]+>\\)?\\'" "\\1"
                                             (buffer-name terminal)))
                  ((integerp process) (format " %d" process))))))

(defun gemini-companion-cli-list--keys ()
  "Return the keys that work in the list."
  (if (gemini-companion-cli-all)
      '((gemini-companion-cli-list-visit . "terminal")
        (gemini-companion-cli-list-show-change . "view change")
        (gemini-companion-cli-list-answer-yes . "yes")
        (gemini-companion-cli-list-answer-no . "no")
        (gemini-companion-cli-list-send . "send")
        (gemini-companion-cli-list-stop . "stop")
        (gemini-companion-cli-list-resume . "resume")
        (gemini-companion-status . "status"))
    (list (if (gemini-companion-bridge-running-p) "No CLI is connected; in a CLI, type /ide enable"
            "Gemini companion is off; M-x gemini-companion-mode turns it on")
          '(gemini-companion-run . "start one")
          '(gemini-companion-status . "status"))))

(defun gemini-companion-cli-list-state (cli)
  "Return what CLI does and since when, as text for the user."
  (let* ((reviews (length (gemini-companion-cli-reviews cli)))
         (time (gemini-companion-ui-duration
                (- (float-time) (gemini-companion-cli-since cli))))
         (question (gemini-companion-cli-question cli)))
    (if (> reviews 0)
        (propertize (if (= reviews 1) "a change waits" (format "%d changes wait" reviews))
                    'face 'warning)
      (pcase (gemini-companion-cli-state cli)
        ((guard (gemini-companion-cli-starting-p cli)) (format "starts, %s" time))
        ('working (format "works, %s" time))
        ('asking (propertize (concat "asks, " time
                                     (and question
                                          (concat ": " (gemini-companion-ui-one-line question))))
                             'face 'warning))
        ('done (propertize (format "done %s ago" time)
                           'face (and (gemini-companion-cli-news cli) 'success)))
        (_ "ready")))))

;;;###autoload
(defun gemini-companion-cli-list-label-terminal (terminal)
  "Show in the mode line of TERMINAL what the CLI in it does."
  (with-current-buffer terminal
    (setq mode-line-buffer-identification
          ;; Users may have any construct there, such as a string.
          `("" ,(default-value 'mode-line-buffer-identification)
            (:eval (gemini-companion-cli-list--label))))))
;;;###autoload (add-hook 'gemini-companion-cli-run-functions #'gemini-companion-cli-list-label-terminal)

(defun gemini-companion-cli-list--label ()
  "Return what the CLI in the terminal of the current buffer does, or nil."
  (when-let* ((cli (gemini-companion-cli-in-terminal (current-buffer))))
    (pcase (gemini-companion-cli-state cli)
      ((guard (gemini-companion-cli-starting-p cli)) " starts")
      ('working (if (gemini-companion-cli-reviews cli) " asks" " works"))
      ('asking " asks")
      ('done " done"))))

;;;; Commands

(defun gemini-companion-cli-list--at-point ()
  "Return the CLI on the current line."
  (let ((cli (gemini-companion-review-list-at-point "CLI")))
    (unless (memq cli (gemini-companion-cli-all))
      (user-error "The CLI has ended; M-x gemini-companion-run starts one"))
    cli))

(defun gemini-companion-cli-list--terminal (cli)
  "Return the terminal of CLI; signal a `user-error' if it is not one of Emacs."
  (let ((terminal (gemini-companion-cli-terminal cli)))
    (if (buffer-live-p terminal) terminal
      (user-error "%s in %s runs in a terminal outside of Emacs%s"
                  (gemini-companion-cli-title cli) (gemini-companion-cli-project cli)
                  (if-let* ((process (gemini-companion-cli-process cli)))
                      (format " (process %s)" process)
                    "")))))

(defun gemini-companion-cli-list--running (cli)
  "Return the terminal of CLI; signal a `user-error' if CLI reads no keys there.
Commands that find a CLI by themselves would choose another one."
  (let ((terminal (gemini-companion-cli-list--terminal cli)))
    (if (gemini-companion-cli-run-directory terminal) terminal
      (user-error "%s in %s has ended, or is suspended"
                  (gemini-companion-cli-title cli) (gemini-companion-cli-project cli)))))

(defun gemini-companion-cli-list-visit (cli)
  "Show the terminal of CLI, the one on the current line."
  (interactive (list (gemini-companion-cli-list--at-point)) gemini-companion-cli-list-mode)
  (gemini-companion-cli-note-visit cli)
  (gemini-companion-cli-run-show (gemini-companion-cli-list--terminal cli)))

(defun gemini-companion-cli-list-show-change (cli)
  "Show the oldest change that CLI, the one on the current line, proposes."
  (interactive (list (gemini-companion-cli-list--at-point)) gemini-companion-cli-list-mode)
  (gemini-companion-review-visit (or (car (gemini-companion-cli-reviews cli))
                                     (user-error "No change of this CLI waits"))))

(defun gemini-companion-cli-list-answer-yes (cli)
  "Answer the question of CLI, on the current line, with the selected choice.
If the question is not on screen, show it instead."
  (interactive (list (gemini-companion-cli-list--at-point)) gemini-companion-cli-list-mode)
  (with-current-buffer (gemini-companion-cli-list--running cli)
    (gemini-companion-answer-yes)))

(defun gemini-companion-cli-list-answer-no (cli)
  "Answer the question of CLI, on the current line, with no.
If the question is not on screen, show it instead."
  (interactive (list (gemini-companion-cli-list--at-point)) gemini-companion-cli-list-mode)
  (with-current-buffer (gemini-companion-cli-list--running cli)
    (gemini-companion-answer-no)))

(defun gemini-companion-cli-list-send (cli)
  "Read a prompt in the minibuffer, and send it to CLI, on the current line."
  (interactive (list (gemini-companion-cli-list--at-point)) gemini-companion-cli-list-mode)
  (let ((terminal (gemini-companion-cli-list--running cli)))
    ;; Read it here: when a minibuffer ends, Emacs keeps point in the buffer that was current when
    ;; it began.  In other windows, a list that was updated meanwhile begins anew.
    (gemini-companion-send-prompt (gemini-companion-cli-send-read-prompt terminal) terminal)))

(defun gemini-companion-cli-list-stop (cli)
  "Interrupt CLI, the one on the current line, after asking you."
  (interactive (list (gemini-companion-cli-list--at-point)) gemini-companion-cli-list-mode)
  (let ((terminal (gemini-companion-cli-list--running cli)))
    (with-current-buffer terminal
      ;; Without its hooks, only the screen tells.
      (unless (or (memq (gemini-companion-cli-state cli) '(working asking))
                  (eq (gemini-companion-cli-screen-prompt) 'works)
                  (gemini-companion-cli-screen-question-p))
        (user-error "%s is doing nothing now" (gemini-companion-cli-title cli)))
      (when (gemini-companion-cli-screen-shell-focused)
        (user-error "A shell command in %s gets the keys; leave or stop that first"
                    (gemini-companion-cli-title cli))))
    (when (gemini-companion-ui-y-or-n-p
           (format "Stop what %s is doing in %s? " (gemini-companion-cli-list--name cli)
                   (gemini-companion-cli-project cli)))
      (gemini-companion-cli-send-key "\e" terminal))))

(defun gemini-companion-cli-list-resume (cli)
  "Run another CLI in the directory of CLI, the one on the current line.
It continues an earlier session, for which Emacs asks."
  (interactive (list (gemini-companion-cli-list--at-point)) gemini-companion-cli-list-mode)
  (let ((terminal (gemini-companion-cli-terminal cli)))
    (gemini-companion-cli-run-resume
     (or (gemini-companion-cli-agent cli) gemini-companion-agent)
     (file-name-as-directory
      (or (and (buffer-live-p terminal)
               ;; Its directory in a sandbox has a name with which Emacs runs nothing.
               (buffer-local-value 'gemini-companion-cli-run-root terminal))
          (gemini-companion-cli-directory cli)
          (user-error "Emacs does not know where this CLI works"))))))

;;;###autoload
(defun gemini-companion-next ()
  "Go to what a CLI wants from you: a change, a question, or the end of its work.
A change is shown first, then the terminal of a CLI that asks something,
then those of CLIs that are done, if you have not been there since.  CLIs
outside of Emacs come last: for one of these, Emacs only tells you which it
is."
  (interactive)
  (if (gemini-companion-review-all-open)
      (call-interactively #'gemini-companion-review-next)
    (let ((clis `(,@(ensure-list (gemini-companion-cli-asking-unseen))
                  ,@(gemini-companion-cli-in-state 'asking)
                  ,@(seq-filter #'gemini-companion-cli-news
                                (gemini-companion-cli-in-state 'done)))))
      (gemini-companion-cli-list-visit
       (or (seq-find (lambda (cli) (buffer-live-p (gemini-companion-cli-terminal cli))) clis)
           (car clis)
           (user-error "No CLI wants anything from you"))))))

(provide 'gemini-companion-cli-list)
;;; gemini-companion-cli-list.el ends here

;;; gemini-companion-notify.el --- Notifications of what waits -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Tells a user who does not look at Emacs that a change or a CLI waits: by the bell, or by a
;; notification, which the next one replaces, and which closes when nothing waits any more.
;;
;; A program that Emacs starts shows the notification.  D-Bus in Emacs would wait without limit for
;; a bus that is stopped.

;;; Code:

(require 'seq)
(require 'gemini-companion-agent)
(require 'gemini-companion-cli)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-review-effect)
(require 'gemini-companion-ui)

(declare-function gemini-companion-cli-list-visit "gemini-companion-cli-list")
(declare-function gemini-companion-cli-send-answer-keys "gemini-companion-cli-send")
(declare-function w32-notification-close "ext:w32fns" (id) t)
(declare-function w32-notification-notify "ext:w32fns" (&rest params) t)

;;;###autoload (custom-add-load 'gemini-companion-review 'gemini-companion-notify)
(defcustom gemini-companion-notify t
  "How to notify you while no frame of this Emacs has the focus.
This is about changes that wait, other questions of a CLI, and the end of
its work (see `gemini-companion-notify-turn').  If t, show a desktop
notification; click it to see what it is about.  Where there are no
notifications, and in text terminals, ring the bell.  A terminal that does
not report its focus counts as unfocused when you have pressed no key for a
while.

If `bell', ring the bell.  If nil, do nothing.  If it is a function, call it
with the change, a `gemini-companion-review', or with the CLI, a
`gemini-companion-cli'."
  :group 'gemini-companion-review
  :type '(choice (const :tag "Notification" t)
                 (const :tag "Bell" bell)
                 (const :tag "Not at all" nil)
                 (function :tag "Another function"))
  :risky t)

(defcustom gemini-companion-notify-turn 20
  "Seconds of work after which Emacs tells you that a CLI is done.
It tells you only if you do not see the terminal: by a message, or as
`gemini-companion-notify' says if no frame of this Emacs has the focus.  If
nil, it never does.  This needs the hooks that `gemini-companion-tools-enable'
installs."
  :type '(choice (const :tag "Never" nil)
                 (natnum :tag "Seconds"))
  :group 'gemini-companion-review)

(defvar gemini-companion-notify--subjects nil
  "What the user was notified of and still waits, the newest first.
For the values see `gemini-companion-notify-of'.")

(defvar gemini-companion-notify--shown nil
  "The notification, or nil.
It is the process that shows it until it is closed, or its id on Windows.")

(defvar gemini-companion-notify--away 20
  "Seconds without a key after which the user may not be looking at a terminal.")

;;;; When to notify, and how

;;;###autoload
(defun gemini-companion-notify-of (subject)
  "Notify the user of SUBJECT, unless this was done or Emacs has the focus.
SUBJECT is a review, or a CLI that asks something else, or is done."
  (when (and gemini-companion-notify
             (gemini-companion-notify--waits-p subject)
             (not (memq subject gemini-companion-notify--subjects))
             (gemini-companion-notify--away-p))
    (push subject gemini-companion-notify--subjects)
    (add-hook 'gemini-companion-review-change-hook #'gemini-companion-notify--update)
    (add-hook 'gemini-companion-cli-change-hook #'gemini-companion-notify--update)
    (pcase gemini-companion-notify
      ('t (gemini-companion-notify--send))
      ('bell (ding t))                  ; which does not end a keyboard macro
      (function (funcall function subject)))))
;;;###autoload (add-hook 'gemini-companion-review-waiting-functions #'gemini-companion-notify-of)

(defun gemini-companion-notify--waits-p (subject)
  "Return non-nil if SUBJECT still waits for the user."
  (if (gemini-companion-review-p subject)
      (gemini-companion-review-open-p subject)
    (and (memq subject (gemini-companion-cli-all))
         (or (gemini-companion-cli-news subject)
             (eq (gemini-companion-cli-state subject) 'asking)))))

(defun gemini-companion-notify--away-p ()
  "Return non-nil if the user does not seem to look at this Emacs."
  (let ((states (mapcar #'frame-focus-state (frame-list))))
    (cond ((or noninteractive (memq t states)) nil)
          ((memq 'unknown states)
           (gemini-companion-ui-idle-p gemini-companion-notify--away))
          (t t))))

(defun gemini-companion-notify--update ()
  "Close the notification if nothing that it is about still waits."
  (gemini-companion-log-errors "a notification"
    (setq gemini-companion-notify--subjects
          (seq-filter #'gemini-companion-notify--waits-p gemini-companion-notify--subjects))
    (unless gemini-companion-notify--subjects
      (remove-hook 'gemini-companion-cli-change-hook #'gemini-companion-notify--update)
      (remove-hook 'gemini-companion-review-change-hook #'gemini-companion-notify--update)
      (gemini-companion-notify--close))))

(defun gemini-companion-notify--means ()
  "Return how to notify the user: `notify-send', `osascript', `w32' or `bell'.
The user of a text terminal may sit at another machine, but hears the bell.
A daemon without frames has no bell."
  (cond ((when-let* ((frames (seq-filter #'gemini-companion-ui-user-frame-p (frame-list))))
           (not (seq-some #'display-graphic-p frames)))
         'bell)
        ((fboundp 'w32-notification-notify) 'w32)
        ((eq system-type 'darwin) 'osascript)
        ((executable-find "notify-send") 'notify-send)
        (t 'bell)))

;;;; CLIs

;;;###autoload
(defun gemini-companion-notify-cli (cli)
  "Tell the user that CLI is done after a while, or asks something."
  (when (and (pcase (gemini-companion-cli-state cli)
               ('asking t)
               ('done (and gemini-companion-notify-turn
                           (gemini-companion-cli-prompt cli)
                           (> (float-time (time-since (cdr (gemini-companion-cli-prompt cli))))
                              gemini-companion-notify-turn))))
             ;; The user does not see its terminal, as far as Emacs knows.
             (or (not (gemini-companion-ui-window-of (gemini-companion-cli-terminal cli)))
                 (gemini-companion-notify--away-p)))
    (gemini-companion-ui-message
     cli "%s%s" (gemini-companion-notify--cli-text cli)
     (if (and (eq (gemini-companion-cli-state cli) 'asking)
              (buffer-live-p (gemini-companion-cli-terminal cli)))
         (gemini-companion-cli-send-answer-keys (gemini-companion-cli-terminal cli))
       ""))
    (gemini-companion-notify-of cli)))
;;;###autoload (add-hook 'gemini-companion-cli-state-functions #'gemini-companion-notify-cli)

(defun gemini-companion-notify--cli-text (cli)
  "Return what the user is told of CLI, which is done or asks something."
  (format "%s %s in %s" (gemini-companion-cli-title cli)
          (if (eq (gemini-companion-cli-state cli) 'done) "is done" "asks a question")
          (gemini-companion-cli-project cli)))

;;;; What it says

(defun gemini-companion-notify--text ()
  "Return what the notification says about the newest subject, (TITLE . BODY)."
  (let ((subject (car gemini-companion-notify--subjects))
        (count (seq-count #'gemini-companion-review-p gemini-companion-notify--subjects)))
    (if (not (gemini-companion-review-p subject))
        (cons (gemini-companion-notify--cli-text subject)
              (truncate-string-to-width (or (gemini-companion-cli-question subject)
                                            (car (gemini-companion-cli-prompt subject))
                                            "")
                                        120 nil nil t))
      (let ((change (gemini-companion-review-effect-change subject)))
        (cons (if (> count 1)
                  (format "%d changes wait for your decision" count)
                (format "%s proposes %s" (gemini-companion-review-agent-title subject)
                        (if (gemini-companion-change-new change) "a new file" "a change")))
              (format "%s, %s"
                      (gemini-companion-ui-shorten (gemini-companion-review-effect-file subject)
                                                   120)
                      (gemini-companion-change-size change)))))))

(defun gemini-companion-notify--plain (text)
  "Return TEXT as one line, with a question mark for what cannot be printed.
Some of that is not Unicode, and some ends the argument of a program."
  (gemini-companion-ui-one-line (replace-regexp-in-string "[^[:print:]]" "?" text)))

;;;; Showing it

(defun gemini-companion-notify--send ()
  "Notify the user of what waits, in place of the last notification."
  (gemini-companion-notify--close)
  (pcase-let* ((`(,title . ,text) (gemini-companion-notify--text))
               (title (gemini-companion-notify--plain title))
               (body (gemini-companion-notify--plain text)))
    (pcase (gemini-companion-notify--means)
      ('notify-send (gemini-companion-notify--notify-send title body))
      ('osascript
       ;; The texts are arguments of the script, not parts of it.
       (gemini-companion-agent-run
        `("osascript" "-e" "on run argv" "-e"
          "display notification (item 3 of argv) with title \"Emacs\" subtitle (item 2 of argv)"
          "-e" "end run"
          ;; The first must not look like an option.
          "gemini-companion" ,title ,body)
        #'ignore))
      ('w32 (setq gemini-companion-notify--shown
                  (w32-notification-notify :title title :body body)))
      (_ (ding t)))))

(defun gemini-companion-notify--close ()
  "Close the notification, if there is one."
  (let ((shown gemini-companion-notify--shown))
    (setq gemini-companion-notify--shown nil)
    (cond ((integerp shown) (w32-notification-close shown))
          ((process-live-p shown)
           ;; notify-send closes it then.
           (interrupt-process shown)))))

(defun gemini-companion-notify--notify-send (title body &optional old)
  "Notify the user with TITLE and BODY through the program notify-send.
It ends when the notification is closed, and tells if that was by a click.
Versions before 0.8, for which OLD is non-nil, cannot do that."
  (setq gemini-companion-notify--shown
        (gemini-companion-agent-run
         `("notify-send" "--app-name=Emacs" "--icon=emacs"
           ,@(unless old '("--action=default=Show"))
           ;; It takes the body for markup, with escapes.
           "--" ,title ,(string-replace "\\" "\\\\" (url-insert-entities-in-string body)))
         (lambda (process output)
           (when (eq process gemini-companion-notify--shown)
             (setq gemini-companion-notify--shown nil)
             ;; Libraries may print warnings, too.
             (cond ((string-match-p "^default$" output)
                    ;; Not in a sentinel, since windows change.
                    (run-at-time 0 nil #'gemini-companion-notify--visit))
                   ((eql (process-exit-status process) 0))
                   (old (gemini-companion-log-add "notify-send failed")
                        (ding t))
                   (t (gemini-companion-notify--notify-send title body 'old))))))))

(defun gemini-companion-notify--visit ()
  "Show the newest subject of the notification, or any open change."
  (gemini-companion-log-and-show-errors
   "a click on a notification"
   (lambda ()
     (let ((subject (car (or gemini-companion-notify--subjects
                             (gemini-companion-review-all-open)))))
       (select-frame-set-input-focus
        (or (seq-find #'display-graphic-p (cons (selected-frame) (frame-list)))
            (selected-frame)))
       (when (and subject (not (active-minibuffer-window)))
         (if (gemini-companion-review-p subject)
             (gemini-companion-review-visit subject)
           (require 'gemini-companion-cli-list)
           (gemini-companion-cli-list-visit subject)))))))

(provide 'gemini-companion-notify)
;;; gemini-companion-notify.el ends here

;;; gemini-companion-notify.el --- Notifications of what waits -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Notifies a user who does not look at Emacs that a change awaits a decision: by one notification of
;; the desktop, which each further change replaces, and which is closed when all are decided; or by
;; the bell.
;;
;; Emacs never waits for a desktop.  Calls on D-Bus are asynchronous, but Emacs connects to a bus
;; without a timeout.  So first the bus must answer a greeting on a socket of our own, which must have
;; a name in the file system, as systemd and dbus-launch make it.

;;; Code:

(require 'seq)
(require 'subr-x)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-review-effect)
(require 'gemini-companion-ui)

(declare-function dbus-call-method-asynchronously "dbus")
(declare-function dbus-event-serial-number "dbus" (event))
(declare-function dbus-get-unique-name "ext:dbusbind" (bus) t)
(declare-function dbus-init-bus "ext:dbusbind" (bus &optional private) t)
(declare-function dbus-register-signal "dbus")
(declare-function gemini-companion-run-show "gemini-companion-run")
(declare-function w32-notification-close "ext:w32fns" (id) t)
(declare-function w32-notification-notify "ext:w32fns" (&rest params) t)

;;;###autoload (custom-add-load 'gemini-companion-review 'gemini-companion-notify)
(defcustom gemini-companion-notify t
  "How to notify you of what waits while no frame of this Emacs has the focus.
That is a change, or another question of a CLI in a terminal of Emacs.
If t, show a notification of the desktop; clicking on it shows the change.
Where there are no notifications, and in text terminals, ring the bell.
A terminal that does not report its focus counts as having it until you
have pressed no key for a while.

If `bell', ring the bell.  If nil, do nothing.  If it is a function, call
it with the review, or with the buffer of the terminal."
  :group 'gemini-companion-review
  :type '(choice (const :tag "Notification" t)
                 (const :tag "Bell" bell)
                 (const :tag "Not at all" nil)
                 (function :tag "Another function"))
  :risky t
  :package-version '(gemini-companion . "0.1.0"))

(defconst gemini-companion-notify--away 20
  "Seconds without a key after which the user may not be looking at a terminal.")

(defconst gemini-companion-notify--service "org.freedesktop.Notifications")
(defconst gemini-companion-notify--path "/org/freedesktop/Notifications")
(defconst gemini-companion-notify--system-socket "/var/run/dbus/system_bus_socket"
  "Socket of the system bus, to which Emacs connects as well.")

(defconst gemini-companion-notify--max-file 120
  "Maximum number of characters of a file name to show.")

(defconst gemini-companion-notify--patience 5
  "Seconds to wait for an answer of the bus or the desktop.")

(defconst gemini-companion-notify--apple-script
  '("on run argv"
    "display notification (item 3 of argv) with title \"Emacs\" subtitle (item 2 of argv)"
    "end run")
  "Lines of a script that shows its second and third arguments.")

(defvar gemini-companion-notify--bus :session
  "The bus of the desktop, as in `dbus-call-method'.")

(defvar gemini-companion-notify--subjects nil
  "What the user was notified of and still waits, the newest first.
Each is a review, or the terminal of a CLI that asks something else.")

(defvar gemini-companion-notify--id 0
  "The desktop's id of the notification, or 0 if there is none.")

(defvar gemini-companion-notify--connected nil
  "Non-nil if Emacs receives the desktop's signals about notifications.")

(defvar gemini-companion-notify--awaited nil
  "What awaits an answer, or nil.
It is a process that greets the bus, `connection' while D-Bus connects, or
the key of a call of the desktop.")

(defvar gemini-companion-notify--deadline nil
  "Timer for the case that no answer comes.")

(defvar gemini-companion-notify--stale nil
  "Non-nil if the notification lacks a change that came since the last call.")

;;;; When to notify, and how

;;;###autoload
(defun gemini-companion-notify-review (review)
  "Notify the user of REVIEW, which awaits a decision, unless Emacs has the focus.
Do so once, as the option `gemini-companion-notify' says."
  (gemini-companion-notify--subject review))
;;;###autoload (add-hook 'gemini-companion-review-waiting-functions #'gemini-companion-notify-review)

;;;###autoload
(defun gemini-companion-notify-question (terminal)
  "Notify the user that the CLI in the buffer TERMINAL asks something.
See `gemini-companion-notify-review'."
  (gemini-companion-notify--subject terminal))
;;;###autoload (add-hook 'gemini-companion-terminal-asking-functions #'gemini-companion-notify-question)

(defun gemini-companion-notify--subject (subject)
  "Notify the user of SUBJECT, unless that was done, or Emacs has the focus."
  (when (and gemini-companion-notify
             (gemini-companion-notify--waits-p subject)
             (not (memq subject gemini-companion-notify--subjects))
             (gemini-companion-notify--away-p))
    (push subject gemini-companion-notify--subjects)
    (add-hook 'gemini-companion-review-change-hook #'gemini-companion-notify--update)
    (add-hook 'gemini-companion-ui-asking-hook #'gemini-companion-notify--update)
    (pcase gemini-companion-notify
      ('t (gemini-companion-notify--send))
      ('bell (gemini-companion-notify--ring))
      (function (funcall function subject)))))

(defun gemini-companion-notify--waits-p (subject)
  "Return non-nil if SUBJECT still waits for the user."
  (if (bufferp subject)
      (memq subject gemini-companion-ui-asking)
    (gemini-companion-review-open-p subject)))

(defun gemini-companion-notify--away-p ()
  "Return non-nil if the user does not seem to look at this Emacs."
  (let ((states (mapcar #'frame-focus-state (frame-list)))
        (idle (current-idle-time)))
    (cond (noninteractive nil)
          ((memq t states) nil)
          ((memq 'unknown states)
           (and idle (> (float-time idle) gemini-companion-notify--away)))
          (t t))))

(defun gemini-companion-notify--update ()
  "Close the notification if nothing of what it tells waits any longer."
  (gemini-companion-log-errors "a notification"
    (setq gemini-companion-notify--subjects
          (seq-filter #'gemini-companion-notify--waits-p gemini-companion-notify--subjects))
    (unless gemini-companion-notify--subjects
      (remove-hook 'gemini-companion-ui-asking-hook #'gemini-companion-notify--update)
      (remove-hook 'gemini-companion-review-change-hook #'gemini-companion-notify--update)
      (gemini-companion-notify--close))))

(defun gemini-companion-notify--send ()
  "Notify the user that changes await a decision."
  (pcase (gemini-companion-notify--means)
    ('dbus (gemini-companion-notify--send-dbus))
    ('ns (gemini-companion-notify--send-ns))
    ('w32 (gemini-companion-notify--send-w32))
    (_ (gemini-companion-notify--ring))))

(defun gemini-companion-notify--means ()
  "Return how to notify the user: `dbus', `ns', `w32' or `bell'.
The user of a text terminal may be at another machine than the desktop
here, but hears the bell."
  (cond ((seq-every-p #'gemini-companion-notify--text-p (frame-list)) 'bell)
        ((fboundp 'w32-notification-notify) 'w32)
        ((featurep 'ns) 'ns)
        ((featurep 'dbusbind) 'dbus)
        (t 'bell)))

(defun gemini-companion-notify--text-p (frame)
  "Return non-nil if FRAME is on a text terminal, other than a daemon's own."
  (and (not (display-graphic-p frame))
       (not (equal (terminal-name frame) "initial_terminal"))))

(defun gemini-companion-notify--ring ()
  "Ring the bell without terminating a keyboard macro."
  (ding t))

(defun gemini-companion-notify--title ()
  "Return the title of the notification."
  (let ((subject (car gemini-companion-notify--subjects))
        (count (length gemini-companion-notify--subjects)))
    (cond ((bufferp subject) "A CLI asks a question")
          ((> count 1) (format "%d changes wait for your decision" count))
          (t (gemini-companion-notify--plain
              (format "%s proposes %s"
                      (gemini-companion-review-client-title subject)
                      (if (gemini-companion-change-new (gemini-companion-review-effect-change subject))
                          "a new file"
                        "a change")))))))

(defun gemini-companion-notify--body ()
  "Return where the CLI asks, or the file and the size of the newest change."
  (let ((subject (car gemini-companion-notify--subjects)))
    (if (bufferp subject)
        (gemini-companion-notify--plain (buffer-name subject))
      (let ((file (gemini-companion-notify--plain
                   (gemini-companion-review-project-path subject))))
        (when (length> file gemini-companion-notify--max-file)
          (setq file (concat "…" (substring file (- gemini-companion-notify--max-file)))))
        (format "%s, %s" file
                (gemini-companion-change-size (gemini-companion-review-effect-change subject)))))))

(defun gemini-companion-notify--plain (text)
  "Return TEXT with a question mark for each character that is not visible.
D-Bus would kill Emacs for characters that are not Unicode."
  (mapconcat (lambda (char)
               (if (or (> char #x10ffff)
                       (memq (get-char-code-property char 'general-category)
                             '(Cc Cf Cs Cn Zl Zp)))
                   "?"
                 (char-to-string char)))
             text ""))

(defun gemini-companion-notify--close ()
  "Close the notification, if there is one."
  (let ((id gemini-companion-notify--id))
    (setq gemini-companion-notify--id 0)
    (cond ((eql id 0))
          ((fboundp 'w32-notification-close) (w32-notification-close id))
          (t (gemini-companion-notify--call nil "CloseNotification" :uint32 id)))))

(defun gemini-companion-notify--visit ()
  "Show the newest subject of which the user was notified, or any open change."
  (gemini-companion-log-errors "a click on a notification"
    (let ((subject (car (or gemini-companion-notify--subjects (gemini-companion-review-all-open)))))
      (select-frame-set-input-focus
       (or (seq-find #'display-graphic-p (cons (selected-frame) (frame-list)))
           (selected-frame)))
      ;; Do not interrupt a prompt.
      (when (and subject (not (active-minibuffer-window)))
        (if (bufferp subject)
            (gemini-companion-run-show subject)
          (gemini-companion-review-visit subject))))))

;;;; D-Bus

(defun gemini-companion-notify--send-dbus ()
  "Notify the user by D-Bus."
  (cond (gemini-companion-notify--awaited (setq gemini-companion-notify--stale t))
        (gemini-companion-notify--connected (gemini-companion-notify--post))
        (t
         (gemini-companion-notify--try
          (lambda () (gemini-companion-notify--greet (gemini-companion-notify--sockets)))))))

(defun gemini-companion-notify--try (function)
  "Call FUNCTION; if it signals an error, give up."
  (condition-case error
      (funcall function)
    (error (gemini-companion-notify--give-up (error-message-string error)))))

(defun gemini-companion-notify--await (what)
  "Wait for an answer of WHAT, and give up if none comes."
  (gemini-companion-notify--answered)
  (setq gemini-companion-notify--awaited what
        gemini-companion-notify--deadline
        (run-at-time gemini-companion-notify--patience nil
                     #'gemini-companion-notify--give-up "no answer")))

(defun gemini-companion-notify--answered ()
  "Wait for no answer any more."
  (when gemini-companion-notify--deadline
    (cancel-timer gemini-companion-notify--deadline))
  (setq gemini-companion-notify--deadline nil
        gemini-companion-notify--awaited nil
        gemini-companion-notify--stale nil))

(defun gemini-companion-notify--give-up (reason)
  "Ring the bell instead of showing a notification, because of REASON."
  (let ((awaited gemini-companion-notify--awaited))
    (gemini-companion-notify--answered)
    (when (processp awaited)
      (delete-process awaited)))
  (setq gemini-companion-notify--connected nil)
  (gemini-companion-log-add "no notification: %s" reason)
  (when gemini-companion-notify--subjects
    (gemini-companion-notify--ring)))

(defun gemini-companion-notify--sockets ()
  "Return the sockets of the buses to which Emacs is about to connect."
  (let ((address (if (stringp gemini-companion-notify--bus)
                     gemini-companion-notify--bus
                   (or (getenv "DBUS_SESSION_BUS_ADDRESS") ""))))
    (unless (string-match "\\(?:\\`\\|;\\)unix:path=\\([^,;]+\\)" address)
      (error "No session bus with a socket in the file system"))
    (cons (match-string 1 address)
          (and (not (featurep 'dbus))
               (file-exists-p gemini-companion-notify--system-socket)
               (list gemini-companion-notify--system-socket)))))

(defun gemini-companion-notify--greet (sockets)
  "Connect to the bus once each of SOCKETS has answered a greeting."
  (if (null sockets)
      (gemini-companion-notify--connect)
    (gemini-companion-notify--await
     (make-network-process
      :name "gemini-companion-notify" :family 'local :service (car sockets)
      :nowait t :noquery t :coding 'no-conversion
      :sentinel #'gemini-companion-notify--sentinel
      :filter (lambda (process _answer)
                (set-process-filter process t)
                ;; Not in a filter, because what follows may take some milliseconds.
                (run-at-time 0 nil #'gemini-companion-notify--greeted process (cdr sockets)))))))

(defun gemini-companion-notify--sentinel (process event)
  "Greet the bus on PROCESS, or give up, depending on EVENT."
  (cond ((string-prefix-p "open" event)
         ;; It may be closed already.
         (gemini-companion-notify--try
          (lambda () (process-send-string process (gemini-companion-notify--greeting)))))
        ((eq process gemini-companion-notify--awaited)
         (gemini-companion-notify--give-up (string-trim event)))))

(defun gemini-companion-notify--greeted (process sockets)
  "Greet SOCKETS, the remaining ones, as the bus on PROCESS has answered."
  ;; Late answers do not count.
  (when (eq process gemini-companion-notify--awaited)
    (gemini-companion-notify--answered)
    (delete-process process)
    (gemini-companion-notify--try (lambda () (gemini-companion-notify--greet sockets)))))

(defun gemini-companion-notify--greeting ()
  "Return the first message of a client of a bus."
  (format "\0AUTH EXTERNAL %s\r\n"
          (mapconcat (lambda (digit) (format "%02x" digit))
                     (number-to-string (user-uid)) "")))

(defun gemini-companion-notify--connect ()
  "Connect to the bus, which does answer, and post the notification."
  ;; Changes that come until the bus has answered do not connect again.
  (setq gemini-companion-notify--awaited 'connection)
  (require 'dbus)
  (condition-case nil
      (dbus-get-unique-name gemini-companion-notify--bus)
    (error (dbus-init-bus gemini-companion-notify--bus)))
  (dbus-register-signal gemini-companion-notify--bus nil gemini-companion-notify--path
                        gemini-companion-notify--service "ActionInvoked"
                        #'gemini-companion-notify--clicked)
  (add-hook 'dbus-event-error-functions #'gemini-companion-notify--refused)
  (setq gemini-companion-notify--connected t)
  (gemini-companion-notify--answered)
  ;; All changes may be decided by now.
  (when gemini-companion-notify--subjects
    (gemini-companion-notify--post)))

(defun gemini-companion-notify--call (handler method &rest arguments)
  "Call METHOD of the desktop with ARGUMENTS, and HANDLER with what it returns.
See `dbus-call-method-asynchronously'."
  (apply #'dbus-call-method-asynchronously gemini-companion-notify--bus
         gemini-companion-notify--service gemini-companion-notify--path
         gemini-companion-notify--service method handler arguments))

(defun gemini-companion-notify--post ()
  "Post the notification, or replace it."
  (gemini-companion-notify--try
   (lambda ()
     (let ((call nil))
       (setq call (gemini-companion-notify--call
                   (lambda (id) (gemini-companion-notify--posted call id))
                   "Notify"
                   :string "Emacs"
                   :uint32 gemini-companion-notify--id
                   :string "emacs"
                   :string (gemini-companion-notify--title)
                   :string (gemini-companion-notify--escape (gemini-companion-notify--body))
                   '(:array :string "default" :string "Show")
                   '(:array :signature "{sv}")
                   :int32 -1))
       (gemini-companion-notify--await call)))))

(defun gemini-companion-notify--escape (text)
  "Return TEXT with the special characters of markup escaped."
  (replace-regexp-in-string "[&<>]"
                            (lambda (it) (pcase it ("&" "&amp;") ("<" "&lt;") (_ "&gt;")))
                            text t t))

(defun gemini-companion-notify--posted (call id)
  "Remember ID, that of the notification, with which CALL was answered.
By now all changes may be decided, or there may be more of them."
  (gemini-companion-log-errors "a notification"
    (setq gemini-companion-notify--id id)
    (let ((outdated gemini-companion-notify--stale)
          ;; If it came too late, another answer may be awaited.
          (awaited (equal call gemini-companion-notify--awaited)))
      (when awaited (gemini-companion-notify--answered))
      (cond ((null gemini-companion-notify--subjects) (gemini-companion-notify--close))
            ((and awaited outdated) (gemini-companion-notify--post))))))

(defun gemini-companion-notify--refused (event error)
  "If EVENT is the desktop's answer to our call, give up because of ERROR."
  (when (equal (list :serial gemini-companion-notify--bus (dbus-event-serial-number event))
               gemini-companion-notify--awaited)
    (gemini-companion-notify--give-up (error-message-string error))))

(defun gemini-companion-notify--clicked (id _action)
  "Show a change if ID is that of our notification."
  (when (eql id gemini-companion-notify--id)
    ;; Not while Emacs handles a D-Bus event.
    (run-at-time 0 nil #'gemini-companion-notify--visit)))

;;;; macOS and Windows

(defun gemini-companion-notify--send-ns ()
  "Notify the user on macOS.
The text is an argument of the script, not a part of it."
  (make-process
   :name "gemini-companion-notify" :buffer nil :noquery t :connection-type 'pipe
   :command (append '("osascript")
                    (mapcan (lambda (line) (list "-e" line))
                            gemini-companion-notify--apple-script)
                    ;; The first must not look like an option.
                    (list "gemini-companion"
                          (gemini-companion-notify--title) (gemini-companion-notify--body)))
   :sentinel #'ignore))

(defun gemini-companion-notify--send-w32 ()
  "Notify the user on Windows, which shows one notification at a time."
  (gemini-companion-notify--close)
  (setq gemini-companion-notify--id
        (w32-notification-notify :title (gemini-companion-notify--title)
                                 :body (gemini-companion-notify--body))))

(provide 'gemini-companion-notify)
;;; gemini-companion-notify.el ends here

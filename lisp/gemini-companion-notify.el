;;; gemini-companion-notify.el --- Notifications of changes that wait -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Tells a user who looks at something else that a change waits: by one notification of the desktop,
;; which each further change replaces, and which is closed when all are decided; else by the bell.
;;
;; Emacs never waits for a desktop.  Calls on D-Bus are asynchronous, but Emacs connects to a bus
;; without a time limit, so first the bus must have answered a greeting on a socket of our own.  That
;; takes a socket with a name in the file system, as systemd and dbus-launch make it.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(require 'gemini-companion-log)
(require 'gemini-companion-queue)
(require 'gemini-companion-review)

(declare-function dbus-call-method-asynchronously "dbus")
(declare-function dbus-event-serial-number "dbus" (event))
(declare-function dbus-get-unique-name "ext:dbusbind" (bus) t)
(declare-function dbus-init-bus "ext:dbusbind" (bus &optional private) t)
(declare-function dbus-register-signal "dbus")
(declare-function w32-notification-close "ext:w32fns" (id) t)
(declare-function w32-notification-notify "ext:w32fns" (&rest params) t)

;;;###autoload (custom-add-load 'gemini-companion 'gemini-companion-notify)
(defcustom gemini-companion-notify t
  "How you are told of a change while no frame of this Emacs has the focus.
If t, by a notification of the desktop, which shows the change if you
click it; where there are none, and in text terminals, by the bell.  A
terminal that does not say whether it has the focus counts as having it
until you have pressed no key for a while.  If `bell', by the bell; if
nil, not at all.  It may be a function, to be called with the review."
  :group 'gemini-companion
  :type '(choice (const :tag "Notification" t)
                 (const :tag "Bell" bell)
                 (const :tag "Not at all" nil)
                 (function :tag "Another function"))
  :risky t)

(defconst gemini-companion-notify--away 20
  "Seconds without a key after which a terminal may be one that nobody looks at.")

(defconst gemini-companion-notify--service "org.freedesktop.Notifications")
(defconst gemini-companion-notify--path "/org/freedesktop/Notifications")
(defconst gemini-companion-notify--system-socket "/var/run/dbus/system_bus_socket"
  "The socket of the system's bus, to which D-Bus of Emacs connects, too.")

(defconst gemini-companion-notify--longest 120
  "Characters of a file's name that are shown at most.")

(defconst gemini-companion-notify--patience 5
  "Seconds within which the bus and the desktop have answered.")

(defconst gemini-companion-notify--apple-script
  '("on run argv"
    "display notification (item 3 of argv) with title \"Emacs\" subtitle (item 2 of argv)"
    "end run")
  "Lines of a script that shows its second and third argument.")

(defvar gemini-companion-notify--bus :session
  "The bus on which the desktop is, as for `dbus-call-method'.")

(defvar gemini-companion-notify--told nil
  "The open reviews that the user was told of, the newest first.")

(defvar gemini-companion-notify--id 0
  "The number of the notification, by which the desktop knows it; 0 for none.")

(defvar gemini-companion-notify--connected nil
  "Non-nil if Emacs hears what the desktop says of notifications.")

(defvar gemini-companion-notify--awaited nil
  "What has to answer: a connection to the bus, or the call of the desktop; or nil.")

(defvar gemini-companion-notify--deadline nil
  "The timer for the case that it does not answer.")

(defvar gemini-companion-notify--outdated nil
  "Non-nil if another change waits since what is awaited was begun.")

;;;; What is told, and how

;;;###autoload
(defun gemini-companion-notify-note-waiting (review)
  "Tell the user of REVIEW, which begins to wait, unless the user looks at Emacs."
  (when (and gemini-companion-notify
             (gemini-companion-review-open-p review)
             (gemini-companion-notify--away-p))
    (gemini-companion-notify--add review)))
;;;###autoload (add-hook 'gemini-companion-queue-waiting-functions #'gemini-companion-notify-note-waiting)

(defun gemini-companion-notify--away-p ()
  "Return non-nil if the user seems not to look at this Emacs."
  (let ((states (mapcar #'frame-focus-state (frame-list)))
        (idle (current-idle-time)))
    (cond (noninteractive nil)
          ((memq t states) nil)
          ((memq 'unknown states)
           (and idle (> (float-time idle) gemini-companion-notify--away)))
          (t t))))

(defun gemini-companion-notify--add (review)
  "Tell the user, who does not look at Emacs, of REVIEW.
Of each review that is done once; `gemini-companion-notify' says how."
  (unless (memq review gemini-companion-notify--told)
    (push review gemini-companion-notify--told)
    (add-hook 'gemini-companion-review-change-hook #'gemini-companion-notify--note-change)
    (pcase gemini-companion-notify
      ('t (gemini-companion-notify--tell))
      ('bell (gemini-companion-notify--ring))
      (function (funcall function review)))))

(defun gemini-companion-notify--note-change ()
  "Take the notification back if all is decided of which it told."
  (gemini-companion-log-errors "a notification"
    (setq gemini-companion-notify--told
          (seq-filter #'gemini-companion-review-open-p gemini-companion-notify--told))
    (unless gemini-companion-notify--told
      (remove-hook 'gemini-companion-review-change-hook #'gemini-companion-notify--note-change)
      (gemini-companion-notify--close))))

(defun gemini-companion-notify--tell ()
  "Tell the user that changes wait."
  (pcase (gemini-companion-notify--means)
    ('dbus (gemini-companion-notify--by-dbus))
    ('ns (gemini-companion-notify--by-script))
    ('w32 (gemini-companion-notify--by-w32))
    (_ (gemini-companion-notify--ring))))

(defun gemini-companion-notify--means ()
  "Return how the user can be told: `dbus', `ns', `w32' or `bell'.
A text terminal may be on another machine than a desktop that can be
reached from here; its bell goes where the user is."
  (cond ((seq-every-p #'gemini-companion-notify--text-p (frame-list)) 'bell)
        ((fboundp 'w32-notification-notify) 'w32)
        ((featurep 'ns) 'ns)
        ((featurep 'dbusbind) 'dbus)
        (t 'bell)))

(defun gemini-companion-notify--text-p (frame)
  "Return non-nil if FRAME is on a text terminal.
That on which a daemon starts is none."
  (and (not (display-graphic-p frame))
       (not (equal (terminal-name frame) "initial_terminal"))))

(defun gemini-companion-notify--ring ()
  "Ring the bell, and end no keyboard macro."
  (ding t))

(defun gemini-companion-notify--title ()
  "Return what the user is told, in few words."
  (let ((review (car gemini-companion-notify--told))
        (count (length gemini-companion-notify--told)))
    (if (> count 1)
        (format "%d changes wait for your decision" count)
      (gemini-companion-notify--plain
       (format "%s proposes %s"
               (gemini-companion-review-client-title review)
               (if (gemini-companion-change-new (gemini-companion-review-change review))
                   "a new file"
                 "a change"))))))

(defun gemini-companion-notify--body ()
  "Return which file the newest change is of, and how large it is."
  (let* ((review (car gemini-companion-notify--told))
         (place (gemini-companion-notify--plain (gemini-companion-review-project-path review))))
    (concat (if (length> place gemini-companion-notify--longest)
                (concat "…" (substring place (- gemini-companion-notify--longest)))
              place)
            ", "
            (gemini-companion-change-size (gemini-companion-review-change review)))))

(defun gemini-companion-notify--plain (text)
  "Return TEXT with a question mark for each character that is not to be seen.
D-Bus would end Emacs if it got one that is not Unicode."
  (mapconcat (lambda (char)
               (if (or (> char #x10ffff)
                       (memq (get-char-code-property char 'general-category)
                             '(Cc Cf Cs Cn Zl Zp)))
                   "?"
                 (char-to-string char)))
             text ""))

(defun gemini-companion-notify--close ()
  "Take the notification back, if there is one."
  (let ((id gemini-companion-notify--id))
    (setq gemini-companion-notify--id 0)
    (cond ((eql id 0))
          ((fboundp 'w32-notification-close) (w32-notification-close id))
          (t (gemini-companion-notify--call nil "CloseNotification" :uint32 id)))))

(defun gemini-companion-notify--show ()
  "Show the newest change of those that the user was told of, if one waits."
  (gemini-companion-log-errors "a click on a notification"
    (let ((review (car (or gemini-companion-notify--told (gemini-companion-review-list-open)))))
      (select-frame-set-input-focus
       (or (seq-find #'display-graphic-p (cons (selected-frame) (frame-list)))
           (selected-frame)))
      ;; Who is at a prompt finishes there first.
      (when (and review (not (active-minibuffer-window)))
        (gemini-companion-review-visit review)))))

;;;; D-Bus

(defun gemini-companion-notify--by-dbus ()
  "Tell the user by a notification of a desktop that is on D-Bus."
  (cond (gemini-companion-notify--awaited (setq gemini-companion-notify--outdated t))
        (gemini-companion-notify--connected (gemini-companion-notify--post))
        (t
         (gemini-companion-notify--try
          (lambda () (gemini-companion-notify--greet (gemini-companion-notify--sockets)))))))

(defun gemini-companion-notify--try (function)
  "Call FUNCTION; if it signals an error, there are no notifications."
  (condition-case error
      (funcall function)
    (error (gemini-companion-notify--give-up (error-message-string error)))))

(defun gemini-companion-notify--await (what)
  "Note that WHAT has to answer, and give up if it does not."
  (gemini-companion-notify--answered)
  (setq gemini-companion-notify--awaited what
        gemini-companion-notify--deadline
        (run-at-time gemini-companion-notify--patience nil
                     #'gemini-companion-notify--give-up "no answer")))

(defun gemini-companion-notify--answered ()
  "Note that nothing has to answer any more."
  (when gemini-companion-notify--deadline
    (cancel-timer gemini-companion-notify--deadline))
  (setq gemini-companion-notify--deadline nil
        gemini-companion-notify--awaited nil
        gemini-companion-notify--outdated nil))

(defun gemini-companion-notify--give-up (reason)
  "Ring the bell, for REASON keeps the desktop from showing a notification."
  (let ((awaited gemini-companion-notify--awaited))
    (gemini-companion-notify--answered)
    (when (processp awaited)
      (delete-process awaited)))
  (setq gemini-companion-notify--connected nil)
  (gemini-companion-log-add "no notification: %s" reason)
  (when gemini-companion-notify--told
    (gemini-companion-notify--ring)))

(defun gemini-companion-notify--sockets ()
  "Return the sockets of the buses to which Emacs will connect."
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
  "Connect to the bus when those that listen on SOCKETS have answered a greeting."
  (if (null sockets)
      (gemini-companion-notify--connect)
    (gemini-companion-notify--await
     (make-network-process
      :name "gemini-companion-notify" :family 'local :service (car sockets)
      :nowait t :noquery t :coding 'no-conversion
      :sentinel #'gemini-companion-notify--note-connection
      :filter (lambda (process _answer)
                (set-process-filter process t)
                ;; Not inside of a filter: what follows may take some milliseconds.
                (run-at-time 0 nil #'gemini-companion-notify--go-on process (cdr sockets)))))))

(defun gemini-companion-notify--note-connection (process event)
  "Greet the bus on PROCESS, or give up, as EVENT says."
  (cond ((string-prefix-p "open" event)
         (process-send-string process (gemini-companion-notify--greeting)))
        ((eq process gemini-companion-notify--awaited)
         (gemini-companion-notify--give-up (string-trim event)))))

(defun gemini-companion-notify--go-on (process sockets)
  "Greet those that listen on SOCKETS, for the bus on PROCESS has answered."
  ;; Late answers do not count.
  (when (eq process gemini-companion-notify--awaited)
    (gemini-companion-notify--answered)
    (delete-process process)
    (gemini-companion-notify--try (lambda () (gemini-companion-notify--greet sockets)))))

(defun gemini-companion-notify--greeting ()
  "Return what one who connects to a bus says first."
  (format "\0AUTH EXTERNAL %s\r\n"
          (mapconcat (lambda (digit) (format "%02x" digit))
                     (number-to-string (user-uid)) "")))

(defun gemini-companion-notify--connect ()
  "Connect to the bus, which answers, and post the notification."
  (require 'dbus)
  (condition-case nil
      (dbus-get-unique-name gemini-companion-notify--bus)
    (error (dbus-init-bus gemini-companion-notify--bus)))
  (dbus-register-signal gemini-companion-notify--bus nil gemini-companion-notify--path
                        gemini-companion-notify--service "ActionInvoked"
                        #'gemini-companion-notify--clicked)
  (add-hook 'dbus-event-error-functions #'gemini-companion-notify--refused)
  (setq gemini-companion-notify--connected t)
  ;; Meanwhile all may be decided.
  (when gemini-companion-notify--told
    (gemini-companion-notify--post)))

(defun gemini-companion-notify--call (handler method &rest arguments)
  "Call METHOD of the desktop with ARGUMENTS, and HANDLER with what it returns.
See `dbus-call-method-asynchronously'."
  (apply #'dbus-call-method-asynchronously gemini-companion-notify--bus
         gemini-companion-notify--service gemini-companion-notify--path
         gemini-companion-notify--service method handler arguments))

(defun gemini-companion-notify--post ()
  "Post the notification, in place of the one that is there."
  (gemini-companion-notify--try
   (lambda ()
     (gemini-companion-notify--await
      (gemini-companion-notify--call
       #'gemini-companion-notify--posted "Notify"
       :string "Emacs"
       :uint32 gemini-companion-notify--id
       :string "emacs"
       :string (gemini-companion-notify--title)
       :string (gemini-companion-notify--escape (gemini-companion-notify--body))
       '(:array :string "default" :string "Show")
       '(:array :signature "{sv}")
       :int32 -1)))))

(defun gemini-companion-notify--escape (text)
  "Return TEXT, which is no markup, as markup."
  (replace-regexp-in-string "[&<>]"
                            (lambda (it) (pcase it ("&" "&amp;") ("<" "&lt;") (_ "&gt;")))
                            text t t))

(defun gemini-companion-notify--posted (id)
  "Note that the notification has the number ID.
Meanwhile all may be decided, or more changes may wait."
  (gemini-companion-log-errors "a notification"
    (setq gemini-companion-notify--id id)
    (let ((outdated gemini-companion-notify--outdated))
      (gemini-companion-notify--answered)
      (cond ((null gemini-companion-notify--told) (gemini-companion-notify--close))
            (outdated (gemini-companion-notify--post))))))

(defun gemini-companion-notify--refused (event error)
  "If EVENT, with ERROR, is the desktop's answer, there are no notifications."
  (when (equal (list :serial gemini-companion-notify--bus (dbus-event-serial-number event))
               gemini-companion-notify--awaited)
    (gemini-companion-notify--give-up (error-message-string error))))

(defun gemini-companion-notify--clicked (id _action)
  "Show a change if ID is the number of our notification."
  (when (eql id gemini-companion-notify--id)
    ;; Not while Emacs handles a message of the bus.
    (run-at-time 0 nil #'gemini-companion-notify--show)))

;;;; Elsewhere

(defun gemini-companion-notify--by-script ()
  "Tell the user by a notification of macOS.
The text is data for the script, and no part of it."
  (make-process
   :name "gemini-companion-notify" :buffer nil :noquery t :connection-type 'pipe
   :command (append '("osascript")
                    (mapcan (lambda (line) (list "-e" line))
                            (copy-sequence gemini-companion-notify--apple-script))
                    ;; The first is none that could be taken for an option.
                    (list "gemini-companion"
                          (gemini-companion-notify--title) (gemini-companion-notify--body)))
   :sentinel #'ignore))

(defun gemini-companion-notify--by-w32 ()
  "Tell the user by a notification of Windows, which shows one at a time."
  (gemini-companion-notify--close)
  (setq gemini-companion-notify--id
        (w32-notification-notify :title (gemini-companion-notify--title)
                                 :body (gemini-companion-notify--body))))

(provide 'gemini-companion-notify)
;;; gemini-companion-notify.el ends here

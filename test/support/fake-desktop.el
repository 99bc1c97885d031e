;;; fake-desktop.el --- A stand-in for a desktop's notifications  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; emacs -Q --batch -l fake-desktop.el BUS [silent]
;;
;; Provides org.freedesktop.Notifications on the D-Bus with the address BUS, and
;; prints a line of JSON for each call.  With "silent" it never answers Notify.
;; The method Click, which real desktops lack, acts as a click on the
;; notification.

;;; Code:

(require 'dbus)
(require 'json)

(pcase-let ((`(,bus ,mode) command-line-args-left)
            (service "org.freedesktop.Notifications")
            (path "/org/freedesktop/Notifications")
            (last 6)
            (silent nil))
  (setq command-line-args-left nil
        silent (equal mode "silent"))
  (dbus-init-bus bus)
  (let ((say (lambda (&rest event)
               (princ (concat (json-encode event) "\n"))
               ;; Otherwise it stays in a buffer.
               (set-binary-mode 'stdout t))))
    (dbus-register-method
     bus service path service "Notify"
     (lambda (application replaces icon title body actions hints timeout)
       (funcall say :event "notify" :application application :replaces replaces :icon icon
                :title title :body body :actions actions :hints hints :timeout timeout)
       (while silent (sleep-for 60))
       (cond ((zerop replaces) (list :uint32 (setq last (1+ last))))
             (t (list :uint32 replaces)))))
    (dbus-register-method
     bus service path service "CloseNotification"
     (lambda (id) (funcall say :event "close" :id id) :ignore))
    (dbus-register-method
     bus service path service "Click"
     (lambda (id)
       (dbus-send-signal bus nil path service "ActionInvoked" :uint32 id "default")
       :ignore))
    (dbus-register-service bus service)
    (funcall say :event "serves"))
  (while t (read-event nil nil 60)))

;;; fake-desktop.el ends here

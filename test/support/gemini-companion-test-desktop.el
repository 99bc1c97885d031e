;;; gemini-companion-test-desktop.el --- A D-Bus with a desktop  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A D-Bus for the tests alone, and on it a stand-in for a desktop that shows
;; notifications (fake-desktop.el).

;;; Code:

(require 'ert)
(require 'gemini-companion-test-util)

(cl-defstruct (gemini-companion-test-desktop
               (:constructor gemini-companion-test-desktop--make))
  "A desktop on a bus."
  (directory nil :documentation "The directory of the socket of the bus.")
  (bus nil :documentation "The process of the bus.")
  (address nil :documentation "The address of the bus.")
  (program nil :documentation "The desktop, a `gemini-companion-test-program', or nil."))

(defvar gemini-companion-test-desktop--bus nil
  "The bus, a `gemini-companion-test-desktop', or nil.
It runs until this Emacs ends, which cannot disconnect from it.")

(defun gemini-companion-test-desktop-start (&optional kind)
  "Start a desktop, and a bus if there is none.
Skip the test if there is no D-Bus.  KIND may be `silent', for a desktop
that does not answer, or `none'."
  (unless (and (featurep 'dbusbind) (executable-find "dbus-daemon"))
    (gemini-companion-test-skip "there is no D-Bus"))
  (let ((desktop (copy-gemini-companion-test-desktop
                  (or gemini-companion-test-desktop--bus
                      (setq gemini-companion-test-desktop--bus
                            (gemini-companion-test-desktop--start-bus))))))
    (unless (eq kind 'none)
      (setf (gemini-companion-test-desktop-program desktop)
            (gemini-companion-test-program-start
             `(,(expand-file-name invocation-name invocation-directory) "-Q" "--batch"
               "-l" ,(gemini-companion-test-path "test" "support" "fake-desktop.el")
               ,(gemini-companion-test-desktop-address desktop) ,(format "%s" kind))
             (gemini-companion-test-desktop-directory desktop)
             ;; This Emacs may need all of it to find its libraries.
             (seq-filter (lambda (it) (string-search "=" it)) process-environment)))
      (gemini-companion-test-desktop-wait desktop "serves"))
    desktop))

(defun gemini-companion-test-desktop--start-bus ()
  "Start a bus and return it."
  (let* ((directory (gemini-companion-test-temp-directory))
         (socket (expand-file-name "bus" directory))
         (bus (gemini-companion-test-desktop--make
               :directory directory
               :address (concat "unix:path=" socket)
               :bus (make-process
                     :name "dbus-daemon" :noquery t :connection-type 'pipe :sentinel #'ignore
                     :command (list "dbus-daemon" "--nofork" "--nopidfile" "--config-file"
                                    (gemini-companion-test-desktop--configuration
                                     directory socket))))))
    (gemini-companion-test-on-exit bus #'gemini-companion-test-desktop--stop-bus)
    (gemini-companion-test-wait "the bus" (lambda () (file-exists-p socket)))
    bus))

(defun gemini-companion-test-desktop--stop-bus (bus)
  "End BUS."
  (delete-process (gemini-companion-test-desktop-bus bus))
  (delete-directory (gemini-companion-test-desktop-directory bus) t))

(defun gemini-companion-test-desktop--configuration (directory socket)
  "Write the configuration of a bus at SOCKET into DIRECTORY; return the file.
It starts no services of this machine."
  (gemini-companion-test-write
   (expand-file-name "bus.conf" directory)
   (format "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\"
 \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">
<busconfig>
  <type>session</type>
  <listen>unix:path=%s</listen>
  <policy context=\"default\">
    <allow send_destination=\"*\" eavesdrop=\"true\"/>
    <allow eavesdrop=\"true\"/>
    <allow own=\"*\"/>
  </policy>
</busconfig>\n" socket)))

(defun gemini-companion-test-desktop-stop (desktop)
  "End DESKTOP."
  (gemini-companion-test-desktop-continue desktop)
  (when (gemini-companion-test-desktop-program desktop)
    (gemini-companion-test-program-stop (gemini-companion-test-desktop-program desktop))))

(defun gemini-companion-test-desktop-halt (desktop)
  "Stop the bus of DESKTOP, so that it answers nobody."
  (signal-process (gemini-companion-test-desktop-bus desktop) 'SIGSTOP))

(defun gemini-companion-test-desktop-continue (desktop)
  "Continue the bus of DESKTOP."
  (signal-process (gemini-companion-test-desktop-bus desktop) 'SIGCONT))

(defun gemini-companion-test-desktop-events (desktop event)
  "Return the lines of DESKTOP for EVENT, a string, the oldest first."
  (reverse (seq-filter (lambda (line) (equal (alist-get 'event line) event))
                       (gemini-companion-test-program-lines
                        (gemini-companion-test-desktop-program desktop)))))

(defun gemini-companion-test-desktop-wait (desktop event &optional count)
  "Wait until DESKTOP has had EVENT COUNT times; return the last line."
  (let ((count (or count 1)))
    (nth (1- count)
         (gemini-companion-test-wait
          (format "%d times the event %s of the desktop" count event)
          (lambda ()
            ;; In batch mode only this handles messages of a bus.
            (when noninteractive (read-event nil nil 0.01))
            (let ((events (gemini-companion-test-desktop-events desktop event)))
              (and (>= (length events) count) events)))))))

(defmacro gemini-companion-test-with-desktop (spec &rest body)
  "Run BODY with a bus and a desktop, which are stopped afterwards.
SPEC is (VARIABLE [KIND]), see `gemini-companion-test-desktop-start'."
  (declare (indent 1) (debug ((symbolp &optional form) body)))
  `(let ((,(car spec) (gemini-companion-test-desktop-start ,@(cdr spec))))
     (unwind-protect (progn ,@body)
       (gemini-companion-test-desktop-stop ,(car spec)))))

(provide 'gemini-companion-test-desktop)
;;; gemini-companion-test-desktop.el ends here

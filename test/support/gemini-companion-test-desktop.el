;;; gemini-companion-test-desktop.el --- A D-Bus with a desktop on it  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A bus of its own for the tests, and on it a stand-in for the desktop that shows
;; notifications (fake-desktop.el).

;;; Code:

(require 'ert)
(require 'gemini-companion-test-util)

(cl-defstruct (gemini-companion-test-desktop
               (:constructor gemini-companion-test-desktop--make))
  "A desktop on a bus."
  (directory nil :documentation "Holds the socket of the bus.")
  (bus nil :documentation "The process of the bus.")
  (address nil :documentation "The address of the bus.")
  (program nil :documentation "The desktop, a `gemini-companion-test-program', or nil."))

(defvar gemini-companion-test-desktop--bus nil
  "The bus, a `gemini-companion-test-desktop', or nil.
It is there until this Emacs ends, for this cannot leave it.")

(defun gemini-companion-test-desktop-start (&optional kind)
  "Start a desktop, and a bus if there is none; skip the test where that cannot be.
KIND may be `silent', for a desktop that does not answer, or `none'."
  (unless (and (featurep 'dbusbind) (executable-find "dbus-daemon"))
    (message "SKIPPED %s: there is no D-Bus" (ert-test-name (ert-running-test)))
    (ert-skip "there is no D-Bus"))
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
             ;; All of it: it may say where the libraries of this Emacs are.
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
  "Let the bus of DESKTOP answer nobody from now on."
  (signal-process (gemini-companion-test-desktop-bus desktop) 'SIGSTOP))

(defun gemini-companion-test-desktop-continue (desktop)
  "Let the bus of DESKTOP go on."
  (signal-process (gemini-companion-test-desktop-bus desktop) 'SIGCONT))

(defun gemini-companion-test-desktop-events (desktop event)
  "Return what was EVENT for DESKTOP, a string, the oldest first."
  (reverse (seq-filter (lambda (line) (equal (alist-get 'event line) event))
                       (gemini-companion-test-program-lines
                        (gemini-companion-test-desktop-program desktop)))))

(defun gemini-companion-test-desktop-wait (desktop event &optional count)
  "Wait until there was EVENT for DESKTOP, COUNT times; return the last."
  (let ((count (or count 1)))
    (nth (1- count)
         (gemini-companion-test-wait
          (format "%d times %s on the desktop" count event)
          (lambda ()
            ;; In a batch Emacs only this handles messages of a bus.
            (when noninteractive (read-event nil nil 0.01))
            (let ((events (gemini-companion-test-desktop-events desktop event)))
              (and (>= (length events) count) events)))))))

(defmacro gemini-companion-test-with-desktop (spec &rest body)
  "Run BODY with a bus and a desktop, which are ended in any case.
SPEC is (VARIABLE [KIND]), see `gemini-companion-test-desktop-start'."
  (declare (indent 1) (debug ((symbolp &optional form) body)))
  `(let ((,(car spec) (gemini-companion-test-desktop-start ,@(cdr spec))))
     (unwind-protect (progn ,@body)
       (gemini-companion-test-desktop-stop ,(car spec)))))

(provide 'gemini-companion-test-desktop)
;;; gemini-companion-test-desktop.el ends here

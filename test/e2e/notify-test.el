;;; notify-test.el --- Notifications for users who look elsewhere  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An interactive Emacs whose terminal reports focus, or does not.  The client
;; is the fake one.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path
               (expand-file-name "../support"
                                 (file-name-directory (macroexp-file-name)))))
(require 'gemini-companion-test-client)
(require 'gemini-companion-test-desktop)
(require 'gemini-companion-test-review)

(defmacro gemini-companion-notify-test--with-emacs (spec &rest body)
  "Run BODY with an Emacs that counts its bells, and a fake client.
SPEC is (EMACS CLIENT [ENVIRONMENT])."
  (declare (indent 1) (debug ((symbolp symbolp &optional form) body)))
  (pcase-let ((`(,emacs ,client ,environment) spec))
    `(gemini-companion-test-with-emacs
         (,emacs :files '(("a.txt" . "one\n")) :environment ,environment)
       (gemini-companion-test-visit ,emacs "a.txt")
       (gemini-companion-test-eval
        ,emacs '(progn (defvar gemini-companion-notify-test-rung 0)
                       (advice-add 'ding :before
                                   (lambda (&rest _)
                                     (setq gemini-companion-notify-test-rung
                                           (1+ gemini-companion-notify-test-rung))))
                       (setq gemini-companion-diff-policy 'queue)
                       nil))
       (gemini-companion-test-wait-announced ,emacs (gemini-companion-test-project ,emacs))
       (let ((,client (fake-cli-connect (gemini-companion-test-tmpdir ,emacs)
                                        (gemini-companion-test-project ,emacs))))
         (unwind-protect (progn ,@body)
           (fake-cli-disconnect ,client))))))

(defun gemini-companion-notify-test--propose (emacs client name)
  "Let CLIENT propose a change of the file NAME in EMACS, and wait for it."
  (fake-cli-call-tool client "openDiff"
                      (list :filePath (gemini-companion-test-project emacs name)
                            :newContent "two\n"))
  (gemini-companion-test-wait-eval
   emacs `(seq-find (lambda (review) (equal (gemini-companion-review-file review) ,name))
                    (gemini-companion-review-all-open))))

(defun gemini-companion-notify-test--focus (emacs in)
  "Let the terminal of EMACS report focus if IN is non-nil, or its loss."
  (gemini-companion-test-keys emacs "-l" (if in "\e[I" "\e[O"))
  (gemini-companion-test-wait-eval emacs `(eq (frame-focus-state) ,in)))

(defun gemini-companion-notify-test--rung (emacs)
  "Return how often EMACS has rung the bell."
  (gemini-companion-test-eval emacs 'gemini-companion-notify-test-rung))

(ert-deftest gemini-companion-notify/a-terminal-without-the-focus-rings ()
  "With the focus nothing happens."
  :tags '(e2e)
  (gemini-companion-notify-test--with-emacs (emacs client)
    (gemini-companion-notify-test--focus emacs t)
    (gemini-companion-notify-test--propose emacs client "a.txt")
    (should (= 0 (gemini-companion-notify-test--rung emacs)))
    (gemini-companion-notify-test--focus emacs nil)
    (gemini-companion-notify-test--propose emacs client "b.txt")
    (should (= 1 (gemini-companion-notify-test--rung emacs)))
    (should-not (gemini-companion-test-eval emacs '(featurep 'dbus)))))

(ert-deftest gemini-companion-notify/a-terminal-without-focus-events-rings-when-idle ()
  :tags '(e2e)
  (gemini-companion-notify-test--with-emacs (emacs client)
    (gemini-companion-notify-test--propose emacs client "a.txt")
    (should (= 0 (gemini-companion-notify-test--rung emacs)))
    (gemini-companion-test-eval emacs '(setq gemini-companion-notify--away 0.1))
    (gemini-companion-test-wait-eval
     emacs '(let ((idle (current-idle-time))) (and idle (> (float-time idle) 0.2))))
    (gemini-companion-notify-test--propose emacs client "b.txt")
    (should (= 1 (gemini-companion-notify-test--rung emacs)))))

(defun gemini-companion-notify-test--type-while-waiting (emacs)
  "Type in EMACS, which waits for a desktop, and check that it responds."
  (gemini-companion-test-type emacs "typed text")
  (gemini-companion-test-wait-screen emacs "typed text")
  (should (gemini-companion-test-eval emacs 'gemini-companion-notify--awaited)))

(defmacro gemini-companion-notify-test--with-emacs-and-desktop (spec &rest body)
  "Run BODY with an Emacs without the focus and a desktop on its bus.
SPEC is (EMACS CLIENT DESKTOP KIND)."
  (declare (indent 1) (debug ((symbolp symbolp symbolp form) body)))
  (pcase-let ((`(,emacs ,client ,desktop ,kind) spec))
    `(gemini-companion-test-with-desktop (,desktop ,kind)
       (gemini-companion-notify-test--with-emacs
           (,emacs ,client (list (concat "DBUS_SESSION_BUS_ADDRESS="
                                         (gemini-companion-test-desktop-address ,desktop))))
         (gemini-companion-test-eval
          ,emacs '(progn (require 'gemini-companion-notify)
                         (setq gemini-companion-notify--patience 1000)
                         (advice-add 'gemini-companion-notify--means :override
                                     (lambda () 'dbus))
                         nil))
         (gemini-companion-notify-test--focus ,emacs nil)
         ,@body))))

(ert-deftest gemini-companion-notify/emacs-responds-while-a-desktop-does-not ()
  :tags '(e2e)
  (gemini-companion-notify-test--with-emacs-and-desktop (emacs client desktop 'silent)
    (gemini-companion-notify-test--propose emacs client "a.txt")
    (gemini-companion-test-desktop-wait desktop "notify")
    (gemini-companion-notify-test--type-while-waiting emacs)))

(ert-deftest gemini-companion-notify/emacs-responds-while-a-bus-does-not ()
  :tags '(e2e)
  (gemini-companion-notify-test--with-emacs-and-desktop (emacs client desktop 'silent)
    (gemini-companion-test-desktop-halt desktop)
    (gemini-companion-notify-test--propose emacs client "a.txt")
    (gemini-companion-notify-test--type-while-waiting emacs)
    (should-not (gemini-companion-test-eval emacs '(featurep 'dbus)))))

(ert-deftest gemini-companion-notify/a-click-shows-the-change-on-screen ()
  :tags '(e2e)
  (gemini-companion-notify-test--with-emacs-and-desktop (emacs client desktop nil)
    (gemini-companion-notify-test--propose emacs client "a.txt")
    (gemini-companion-test-desktop-wait desktop "notify")
    (gemini-companion-test-wait-eval emacs '(eql gemini-companion-notify--id 7))
    (gemini-companion-test-eval
     emacs '(progn (dbus-call-method-asynchronously
                    :session gemini-companion-notify--service gemini-companion-notify--path
                    gemini-companion-notify--service "Click" nil :uint32 7)
                   nil))
    (gemini-companion-test-wait-review emacs "two\n")
    (gemini-companion-test-reject emacs)
    (gemini-companion-test-desktop-wait desktop "close")))

;;; notify-test.el ends here

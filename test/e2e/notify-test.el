;;; notify-test.el --- Notifications for users who look elsewhere  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An interactive Emacs whose terminal reports focus, or does not.  The client
;; is the fake one.

;;; Code:

(require 'gemini-companion-test-client)
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
  (gemini-companion-notify-test--with-emacs (emacs client)
    (gemini-companion-notify-test--focus emacs t)
    (gemini-companion-notify-test--propose emacs client "a.txt")
    (should (= 0 (gemini-companion-notify-test--rung emacs)))
    (gemini-companion-notify-test--focus emacs nil)
    (gemini-companion-notify-test--propose emacs client "b.txt")
    (should (= 1 (gemini-companion-notify-test--rung emacs)))
    (should-not (gemini-companion-test-eval emacs '(featurep 'dbus)))))

(ert-deftest gemini-companion-notify/a-terminal-without-focus-events-rings-when-idle ()
  (gemini-companion-notify-test--with-emacs (emacs client)
    (gemini-companion-notify-test--propose emacs client "a.txt")
    (should (= 0 (gemini-companion-notify-test--rung emacs)))
    (gemini-companion-test-eval emacs '(setq gemini-companion-notify--away 0.1))
    (gemini-companion-test-wait-eval
     emacs '(let ((idle (current-idle-time))) (and idle (> (float-time idle) 0.2))))
    (gemini-companion-notify-test--propose emacs client "b.txt")
    (should (= 1 (gemini-companion-notify-test--rung emacs)))))

(ert-deftest gemini-companion-notify/a-click-shows-the-change-on-screen ()
  "Until then Emacs does not wait for the desktop."
  (gemini-companion-notify-test--with-emacs (emacs client)
    (make-symbolic-link (gemini-companion-test-path "test" "support" "fake-notify-send.sh")
                        (gemini-companion-test-project emacs "notify-send"))
    (gemini-companion-test-eval
     emacs '(progn (require 'gemini-companion-notify)
                   (push default-directory exec-path)
                   (advice-add 'gemini-companion-notify--means :override
                               (lambda () 'notify-send))
                   nil))
    (gemini-companion-notify-test--focus emacs nil)
    (gemini-companion-notify-test--propose emacs client "a.txt")
    (gemini-companion-test-wait-eval emacs '(process-live-p gemini-companion-notify--shown))
    (gemini-companion-test-type emacs "typed text")
    (gemini-companion-test-wait-screen emacs "typed text")
    (write-region "" nil (gemini-companion-test-project emacs "click"))
    (gemini-companion-test-wait-review emacs "two\n")
    (gemini-companion-test-reject emacs)))

;;; notify-test.el ends here

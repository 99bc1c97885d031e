;;; remote-breaks-test.el --- A host that is away for a while  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The wire to a host is cut, a connection breaks, an Emacs or a CLI ends: the real
;; CLI there stays connected, and no decision is lost.  Cuts that are so long that
;; ssh gives up are in `make endurance'.

;;; Code:

(require 'gemini-companion-test-remote)

(ert-deftest gemini-companion-remote-breaks/the-connection-is-broken-in-a-review ()
  "A review is accepted while the connection is away, and after it is back."
  :tags '(any-emacs)
  (gemini-companion-test-with-remote-cli (emacs far cli '(("a.txt" . "one\n")))
    (let ((file (gemini-companion-test-far-file far "a.txt")))
      (gemini-companion-test-remote-review emacs cli file "two\n")
      (gemini-companion-test-append-to-proposal emacs "at once")
      (gemini-companion-test-far-wire-do far "break")
      (gemini-companion-test-accept emacs)
      (gemini-companion-test-remote-wait-file far "a.txt" "two\nat once")
      (gemini-companion-test-remote-wait-done cli)
      (gemini-companion-test-remote-wait-buffer emacs far "a.txt" "two\nat once")
      (gemini-companion-test-remote-review emacs cli file "three\n")
      (gemini-companion-test-append-to-proposal emacs "later")
      (let ((before (gemini-companion-test-remote-discovery-files far)))
        (gemini-companion-test-far-wire-do far "break")
        (gemini-companion-test-wait
         "a new connection"
         (lambda ()
           (let ((files (gemini-companion-test-remote-discovery-files far)))
             (and files (not (seq-intersection files before)))))))
      (gemini-companion-test-accept emacs)
      (gemini-companion-test-remote-wait-file far "a.txt" "three\nlater")
      (gemini-companion-test-remote-wait-done cli)
      (gemini-companion-test-wait-no-review emacs)
      (gemini-companion-test-remote-connected-p cli)
      (should-not (gemini-companion-test-remote-sent emacs)))))

(ert-deftest gemini-companion-remote-breaks/the-wire-is-cut-in-a-review ()
  "A review is accepted while the wire is cut, and written when it is mended.
A cut that is so long that ssh gives up is in `make endurance'."
  :tags '(any-emacs)
  (gemini-companion-test-with-remote-cli (emacs far cli '(("a.txt" . "one\n")))
    (gemini-companion-test-remote-review
     emacs cli (gemini-companion-test-far-file far "a.txt") "two\n")
    (gemini-companion-test-append-to-proposal emacs "edited")
    (gemini-companion-test-far-wire-do far "cut")
    (gemini-companion-test-accept emacs)
    (gemini-companion-test-wait-no-review emacs)
    (should (equal (gemini-companion-test-far-bytes far "a.txt") "one\n"))
    (gemini-companion-test-far-wire-do far "mend")
    (gemini-companion-test-remote-wait-file far "a.txt" "two\nedited")
    (gemini-companion-test-remote-wait-done cli)
    (gemini-companion-test-remote-wait-buffer emacs far "a.txt" "two\nedited")
    (gemini-companion-test-remote-connected-p cli)
    (should-not (gemini-companion-test-remote-sent emacs))))

(ert-deftest gemini-companion-remote-breaks/leaving-emacs-would-lose-a-decision ()
  "Emacs asks before it exits with a decision of which the CLI may not have heard.
It does so even before it knows that the connection is cut."
  :tags '(any-emacs)
  (gemini-companion-test-with-remote-cli (emacs far cli '(("a.txt" . "one\n")))
    (gemini-companion-test-remote-review
     emacs cli (gemini-companion-test-far-file far "a.txt") "two\n")
    (gemini-companion-test-append-to-proposal emacs "edited")
    (gemini-companion-test-far-wire-do far "cut")
    (gemini-companion-test-accept emacs)
    (gemini-companion-test-wait-no-review emacs)
    (let ((exit (lambda ()
                  (gemini-companion-test-keys emacs "C-x" "C-c")
                  (gemini-companion-test-wait-screen emacs "A decision may not have reached its CLI")
                  (gemini-companion-test-keys emacs "no" "Enter"))))
      (funcall exit)
      (gemini-companion-test-far-wire-do far "break")
      (gemini-companion-test-wait-screen emacs "lost@shared")
      (funcall exit))
    (gemini-companion-test-far-wire-do far "mend")
    (gemini-companion-test-remote-wait-file far "a.txt" "two\nedited")
    (gemini-companion-test-remote-wait-done cli)))

;; Emacs itself asks Tramp when a buffer is first changed, so nothing is typed into it.
(ert-deftest gemini-companion-remote-breaks/emacs-answers-while-the-wire-is-cut ()
  "Commands and keys do not wait for a host that is away, and ask it nothing."
  (gemini-companion-test-with-remote-cli (emacs far cli '(("a.txt" . "one\ntwo\n")))
    (gemini-companion-test-remote-review
     emacs cli (gemini-companion-test-far-file far "b.txt") "two\n")
    (gemini-companion-test-far-wire-do far "cut")
    (gemini-companion-test-run
     emacs `(progn (switch-to-buffer "a.txt") (delete-other-windows) nil))
    (gemini-companion-test-press emacs "C-n C-Space C-e" '(equal (mark t) 5))
    (dolist (command '("gemini-companion-status" "gemini-companion-show-context"
                       "gemini-companion-doctor" "gemini-companion-history-list"
                       "gemini-companion-review-list" "gemini-companion-log"))
      (ert-info (command)
        (let ((start (float-time)))
          (gemini-companion-test-m-x emacs command)
          (gemini-companion-test-wait-eval
           emacs `(and (not (active-minibuffer-window))
                       (equal (symbol-name last-command) ,command)))
          ;; A host that is asked would not answer at all.
          (should (< (- (float-time) start) 5)))
        (gemini-companion-test-run
         emacs '(progn (switch-to-buffer "a.txt") (delete-other-windows) nil))))
    (gemini-companion-test-press emacs "C-x k Enter" '(not (get-buffer "a.txt")))
    (should-not (gemini-companion-test-remote-sent emacs))
    (gemini-companion-test-far-wire-do far "mend")
    (gemini-companion-test-m-x emacs "gemini-companion-review-next")
    (gemini-companion-test-wait-review emacs "two\n")
    (gemini-companion-test-accept emacs)
    (gemini-companion-test-remote-wait-file far "b.txt" "two\n")))

;;;; Emacs ends, or the CLI

(ert-deftest gemini-companion-remote-breaks/another-emacs-takes-over ()
  "Emacs is killed with a review open; another one shows and decides it."
  (gemini-companion-test-require-far)
  (gemini-companion-test-with-far (far (gemini-companion-test-far-start "far"))
    (let ((emacs (gemini-companion-test-start
                  :environment (gemini-companion-test-far-environment)))
          (file (gemini-companion-test-far-file far "a.txt"))
          (passed nil))
      (unwind-protect
          (progn
            (gemini-companion-test-remote-prepare emacs far '(("a.txt" . "one\n")))
            (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-start far))
              (gemini-companion-test-remote-review emacs cli file "two\n")
              (gemini-companion-test-kill emacs)
              (gemini-companion-test-remote-wait-only-relay far)
              (gemini-companion-test-stop emacs t)
              (setq emacs (gemini-companion-test-start
                           :directory (gemini-companion-test-emacs-directory emacs)
                           :environment (gemini-companion-test-far-environment)))
              (gemini-companion-test-remote-prepare emacs far '(("a.txt" . "one\n")))
              (gemini-companion-test-wait-review emacs "two\n")
              (gemini-companion-test-accept emacs "edited")
              (gemini-companion-test-remote-wait-file far "a.txt" "two\nedited")
              (gemini-companion-test-remote-wait-done cli)
              (gemini-companion-test-remote-connected-p cli)
              (gemini-companion-test-cli-wait-screen cli "a\\.txt"))
            (setq passed t))
        (unless passed (message "%s" (gemini-companion-test-report emacs)))
        (gemini-companion-test-stop emacs)))))

(ert-deftest gemini-companion-remote-breaks/another-emacs-of-the-same-machine ()
  "A second Emacs that connects leaves the CLIs of the first one alone."
  :tags '(any-emacs)
  (gemini-companion-test-with-remote (emacs far '(("a.txt" . "one\n")))
    (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-start far))
      (gemini-companion-test-with-far-emacs (other)
        (gemini-companion-test-remote-prepare other far '(("a.txt" . "one\n")))
        (gemini-companion-test-far-wire-do far "break")
        (gemini-companion-test-remote-review
         emacs cli (gemini-companion-test-far-file far "a.txt") "two\n")
        (should-not (gemini-companion-test-review other))
        (gemini-companion-test-accept emacs)
        (gemini-companion-test-remote-wait-file far "a.txt" "two\n")
        ;; One that starts now takes the second.
        (gemini-companion-test-remote-wait-connected emacs)
        (gemini-companion-test-remote-wait-connected other)))))

(ert-deftest gemini-companion-remote-breaks/the-cli-is-killed ()
  "The review of a CLI that is killed there is withdrawn."
  :tags '(any-emacs)
  (gemini-companion-test-with-remote (emacs far '(("a.txt" . "one\n")))
    (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-start far))
      (gemini-companion-test-remote-review
       emacs cli (gemini-companion-test-far-file far "a.txt") "two\n")
      (gemini-companion-test-far-cli-signal far cli "KILL")
      (gemini-companion-test-wait-no-review emacs)
      (gemini-companion-test-wait-eval emacs '(null (gemini-companion-bridge-sessions)))
      (should (equal (gemini-companion-test-far-bytes far "a.txt") "one\n")))))

(ert-deftest gemini-companion-remote-breaks/emacs-exits-in-a-review ()
  "When Emacs exits the CLI there goes on, and nothing of ours stays."
  :tags '(any-emacs)
  (gemini-companion-test-with-remote (emacs far '(("a.txt" . "one\n")))
    (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-start far))
      (gemini-companion-test-remote-review
       emacs cli (gemini-companion-test-far-file far "a.txt") "two\n")
      (gemini-companion-test-exit emacs)
      (gemini-companion-test-remote-wait-only-relay far)
      ;; The user decides there.
      (gemini-companion-test-cli-wait-screen cli "cancelled\\|Allow once")
      (gemini-companion-test-cli-press cli "Escape" "cancelled")
      (should (equal (gemini-companion-test-far-bytes far "a.txt") "one\n")))))

(ert-deftest gemini-companion-remote-breaks/disconnected-in-a-review ()
  "When the user disconnects, the review here ends and the CLI there goes on."
  :tags '(any-emacs)
  (gemini-companion-test-with-remote (emacs far '(("a.txt" . "one\n")))
    (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-start far))
      (gemini-companion-test-remote-review
       emacs cli (gemini-companion-test-far-file far "a.txt") "two\n")
      (gemini-companion-test-m-x emacs "gemini-companion-disconnect")
      (gemini-companion-test-wait-no-review emacs)
      (gemini-companion-test-remote-wait-only-relay far)
      (gemini-companion-test-cli-answer cli "Enter")
      (gemini-companion-test-remote-wait-file far "a.txt" "two\n")
      (should-not (gemini-companion-test-remote-sent emacs)))))

(ert-deftest gemini-companion-remote-breaks/restarted-in-a-review ()
  "When the companion is restarted a review of a CLI there can be accepted."
  :tags '(any-emacs)
  (gemini-companion-test-with-remote-cli (emacs far cli '(("a.txt" . "one\n")))
    (gemini-companion-test-remote-review
     emacs cli (gemini-companion-test-far-file far "a.txt") "two\n")
    (gemini-companion-test-m-x emacs "gemini-companion-restart")
    (gemini-companion-test-wait-eval
     emacs '(and (not (active-minibuffer-window)) (gemini-companion-bridge-running-p)))
    (gemini-companion-test-accept emacs "edited")
    (gemini-companion-test-remote-wait-file far "a.txt" "two\nedited")
    (gemini-companion-test-remote-wait-done cli)
    (gemini-companion-test-remote-connected-p cli)))

;;; remote-breaks-test.el ends here

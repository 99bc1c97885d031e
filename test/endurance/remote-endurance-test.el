;;; remote-endurance-test.el --- A wire that is cut for a long time  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Run by `make endurance', not `make test'.  The real CLI on a host connects
;; once, and stays connected while the wire to it is cut for so long that ssh
;; gives up; reviews are decided meanwhile.  Each trial prints a line of a table.
;; It sleeps only where time itself is what is tested.

;;; Code:

(require 'gemini-companion-test-far)
(require 'gemini-companion-test-review)

;; ssh gives up after 45 s without an answer.
(defconst gemini-companion-remote-endurance-test--cut
  (string-to-number (or (getenv "ENDURANCE_CUT") "60"))
  "Seconds for which the wire is cut.")

(defun gemini-companion-remote-endurance-test--row (&rest columns)
  "Print a line with COLUMNS, four strings."
  (princ (apply #'format "%-46s %9s  %-12s  %s\n" columns)))

(defun gemini-companion-remote-endurance-test--state (emacs)
  "Return the state of the only connection of EMACS."
  (gemini-companion-test-eval
   emacs '(gemini-companion-host-connection-state (car gemini-companion-host-connection-all))))

(defun gemini-companion-remote-endurance-test--trial (emacs far cli n seconds decide)
  "Cut the wire between EMACS and FAR in the review number N of CLI.
The cut lasts for SECONDS.  The user accepts meanwhile if DECIDE is non-nil,
or else after it is mended.  Print a line."
  (let ((text (format "proposal %d\n" n))
        (lost nil) (mended nil))
    (gemini-companion-test-cli-script
     cli `("write_file" :file_path ,(gemini-companion-test-far-file far "a.txt")
           :content ,text)
     (format "All done %d" n))
    (gemini-companion-test-cli-submit cli "please write")
    (gemini-companion-test-wait-review emacs text)
    (gemini-companion-test-append-to-proposal emacs "edited")
    (gemini-companion-test-far-wire-do far "cut")
    (when decide (gemini-companion-test-accept emacs))
    (sleep-for seconds)
    (setq lost (gemini-companion-remote-endurance-test--state emacs))
    (gemini-companion-test-far-wire-do far "mend")
    (setq mended (float-time))
    (unless decide (gemini-companion-test-accept emacs))
    (gemini-companion-test-wait
     "the file"
     (lambda () (equal (gemini-companion-test-far-bytes far "a.txt") (concat text "edited")))
     120)
    (gemini-companion-remote-endurance-test--row
     (concat "wire cut in a review, accepted " (if decide "meanwhile" "afterwards"))
     (format "%d s" seconds) (symbol-name lost)
     (format "the file written %.1f s after it was mended" (- (float-time) mended)))
    (gemini-companion-test-cli-wait-screen cli (format "All done %d" n))
    (gemini-companion-test-wait-eval
     emacs '(eq 'ready (gemini-companion-host-connection-state (car gemini-companion-host-connection-all)))
     120)
    (should (or (< seconds 50) (memq lost '(lost connecting))))))

(ert-deftest gemini-companion-remote-endurance/the-cli-stays-connected ()
  "One CLI on a host, connected once, stays connected through all trials."
  (gemini-companion-test-require-far)
  (gemini-companion-test-with-far (far (gemini-companion-test-far-start "far"))
    (gemini-companion-test-far-write far "a.txt" "one\n")
    (gemini-companion-test-with-far-emacs (emacs)
      (gemini-companion-test-run
       emacs `(progn (find-file ,(gemini-companion-test-far-tramp far "a.txt")) nil) 60)
      (gemini-companion-test-m-x emacs "gemini-companion-connect" "(y or n)")
      (gemini-companion-test-press emacs "y" "Connected to far")
      (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-start far))
        (gemini-companion-remote-endurance-test--row "what" "how long" "connection" "then")
        (let ((seconds gemini-companion-remote-endurance-test--cut))
          (gemini-companion-remote-endurance-test--trial emacs far cli 1 (/ seconds 3) t)
          (gemini-companion-remote-endurance-test--trial emacs far cli 2 seconds t)
          (gemini-companion-remote-endurance-test--trial emacs far cli 3 seconds nil))
        (gemini-companion-test-cli-submit cli "/ide status" "Connected to Emacs")
        (should-not (string-match-p "disconnected" (gemini-companion-test-cli-log cli)))))))

;;; remote-endurance-test.el ends here

;;; endurance-test.el --- A client stays connected for minutes  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Run by `make endurance', not `make test', since it takes minutes.  The IDE
;; client of the real Gemini CLI connects once, and has to stay connected
;; through all trials.  Each trial prints its line of a table on standard
;; output.
;; It sleeps only where time itself is what is tested.

;;; Code:

(require 'cl-lib)
(require 'ert)
(require 'gemini-companion-test-client)
(require 'gemini-companion-test-review)

(defun gemini-companion-endurance-test--seconds (variable default)
  "Return the environment VARIABLE, or DEFAULT, as a number."
  (string-to-number (or (getenv variable) default)))

;; Longer than 300 s, after which a client that receives nothing gives up.
(defconst gemini-companion-endurance-test--silence
  (gemini-companion-endurance-test--seconds "ENDURANCE_SILENCE" "360")
  "Seconds in which nothing is sent.")

(defconst gemini-companion-endurance-test--block
  (gemini-companion-endurance-test--seconds "ENDURANCE_BLOCK" "60")
  "Seconds for which Emacs is busy.")

;; Longer than the 5 s without a stream after which a client counts as gone.
(defconst gemini-companion-endurance-test--break 6
  "Seconds for which no thread of Emacs runs.")

;;;; The table

(defun gemini-companion-endurance-test--row (what seconds status arrived)
  "Print a line: WHAT took SECONDS, the STATUS and what ARRIVED."
  (princ (format "%-34s %8s  %-12s  %s\n" what seconds status arrived)))

(defun gemini-companion-endurance-test--trial (client what function)
  "Perform the trial WHAT by FUNCTION, and print a line for it.
FUNCTION returns what has arrived at CLIENT.  Fail if CLIENT was not
connected all the time, or has logged errors."
  (let ((start (float-time))
        (arrived "FAILED"))
    (unwind-protect
        (progn
          (let ((result (funcall function)))
            (should (gemini-companion-test-client-connected-p client))
            (should (equal (gemini-companion-endurance-test--statuses client)
                           '("connecting" "connected")))
            (should-not (gemini-companion-endurance-test--complaints client))
            (setq arrived result)))
      (gemini-companion-endurance-test--row
       what (format "%.1f s" (- (float-time) start))
       (car (last (gemini-companion-endurance-test--statuses client)))
       arrived))))

(defun gemini-companion-endurance-test--statuses (client)
  "Return all statuses of the connection of CLIENT, in order."
  (mapcar (lambda (event) (alist-get 'status event))
          (reverse (gemini-companion-test-real-client-events client "status"))))

(defun gemini-companion-endurance-test--complaints (client)
  "Return what CLIENT logged about errors and unexpected outcomes.
The latter are outcomes that arrived twice."
  (seq-filter (lambda (event)
                (or (equal (alist-get 'level event) "error")
                    (string-search "No resolver found" (alist-get 'text event))))
              (gemini-companion-test-real-client-events client "log")))

;;;; What arrives

(defun gemini-companion-endurance-test--context (emacs client)
  "Let EMACS open a file, or close it; wait until CLIENT has the context.
All that was sent before has arrived then, too, since it comes in order.
Return a description."
  (let* ((file (gemini-companion-test-project emacs "other.txt"))
         (open (gemini-companion-test-eval
                emacs `(let ((buffer (get-file-buffer ,file)))
                         (if buffer
                             (not (kill-buffer buffer))
                           (find-file-noselect ,file)
                           t)))))
    (gemini-companion-test-client-wait-context
     client (lambda (files)
              (eq open (seq-some (lambda (it) (equal (alist-get 'path it) file))
                                 files))))
    "context"))

(defun gemini-companion-endurance-test--accepted (emacs client handle text)
  "Wait until CLIENT knows that TEXT was accepted in EMACS, exactly once.
HANDLE is that of its review.  Return a description."
  (should (equal (gemini-companion-test-client-wait-outcome client handle)
                 (cons 'accepted text)))
  (gemini-companion-test-wait-no-review emacs)
  (concat "accepted once, "
          (gemini-companion-endurance-test--context emacs client)))

(defun gemini-companion-endurance-test--answers (client)
  "Return how many proposals of CLIENT were answered."
  (seq-count (lambda (event) (equal (alist-get 'request event) "openDiff"))
             (gemini-companion-test-real-client-events client "answered")))

(defun gemini-companion-endurance-test--send-proposal (emacs client text)
  "Let CLIENT propose TEXT for a.txt in EMACS.
Return the handle of the review, and a function that returns
non-nil when the proposal was answered."
  (let ((before (gemini-companion-endurance-test--answers client)))
    (list (gemini-companion-test-client-open-diff
           client (gemini-companion-test-project emacs "a.txt") text)
          (lambda ()
            (< before (gemini-companion-endurance-test--answers client))))))

(defun gemini-companion-endurance-test--milliseconds (function)
  "Call FUNCTION and return how long it took, as text."
  (let ((start (float-time)))
    (funcall function)
    (format "%.0f ms" (* 1000 (- (float-time) start)))))

;;;; The trials

(defun gemini-companion-endurance-test--silence (emacs client)
  "Let nothing be sent between EMACS and CLIENT for a long time."
  ;; What a client receives when it connects comes before this.
  (gemini-companion-endurance-test--context emacs client)
  (let ((before (gemini-companion-test-real-client-lines client)))
    (sleep-for gemini-companion-endurance-test--silence)
    (should-not (cl-ldiff (gemini-companion-test-real-client-lines client)
                          before)))
  (gemini-companion-endurance-test--context emacs client))

(defun gemini-companion-endurance-test--block (emacs client)
  "Let CLIENT make calls and propose a change while EMACS is busy."
  (let* ((seconds gemini-companion-endurance-test--block)
         (busy (gemini-companion-test-keep-busy
                emacs `(< (float-time) ,(+ (float-time) seconds))))
         (listed nil) (proposed nil) (handle nil))
    (sleep-for (/ seconds 2.0))
    (setq listed (gemini-companion-endurance-test--milliseconds
                  (lambda ()
                    (should (member "openDiff"
                                    (gemini-companion-test-real-client-tools
                                     client)))))
          proposed (gemini-companion-endurance-test--milliseconds
                    (lambda ()
                      (pcase-let ((`(,review ,answered-p)
                                   (gemini-companion-endurance-test--send-proposal
                                    emacs client "busy\n")))
                        (setq handle review)
                        (gemini-companion-test-wait "an answer" answered-p)))))
    (should (file-exists-p busy))
    (gemini-companion-test-wait "Emacs to be back"
                                (lambda () (not (file-exists-p busy)))
                                (+ seconds gemini-companion-test-timeout))
    (gemini-companion-test-wait-review emacs "busy\n")
    (gemini-companion-test-accept emacs)
    (format "busy: tools/list within %s, openDiff within %s; then %s" listed proposed
            (gemini-companion-endurance-test--accepted
             emacs client handle "busy\n"))))

;; The client gives up when it cannot reopen a stream that has ended, which it
;; tries after a second.  So no server can be away for longer, but it can be
;; suspended: SIGSTOP stops its thread with the others.
(defun gemini-companion-endurance-test--break (emacs client)
  "Let CLIENT propose while no thread of EMACS runs."
  (pcase-let ((`(,handle ,answered-p)
               (gemini-companion-test-call-stopped
                emacs
                (lambda ()
                  (let ((sent (gemini-companion-endurance-test--send-proposal
                               emacs client "stopped\n")))
                    (sleep-for gemini-companion-endurance-test--break)
                    (should-not (funcall (cadr sent)))
                    sent)))))
    (gemini-companion-test-wait "an answer" answered-p)
    (gemini-companion-test-wait-review emacs "stopped\n")
    (gemini-companion-test-accept emacs)
    (concat "then openDiff answered, "
            (gemini-companion-endurance-test--accepted
             emacs client handle "stopped\n"))))

(defun gemini-companion-endurance-test--restart (emacs client)
  "Restart the server of EMACS while CLIENT does nothing."
  (gemini-companion-test-m-x emacs "gemini-companion-restart")
  (gemini-companion-endurance-test--context emacs client))

(defun gemini-companion-endurance-test--restart-in-review (emacs client)
  "Restart the server of EMACS while CLIENT waits for an outcome."
  (let ((handle (gemini-companion-test-propose emacs client "open\n")))
    (gemini-companion-test-run emacs '(gemini-companion-restart))
    (let ((returned (gemini-companion-endurance-test--context emacs client)))
      (gemini-companion-test-accept emacs)
      (concat returned ", then "
              (gemini-companion-endurance-test--accepted
               emacs client handle "open\n")))))

(defun gemini-companion-endurance-test--decide-in-restart (emacs client)
  "Accept a proposal of CLIENT while its stream to EMACS is closed."
  (let ((handle (gemini-companion-test-propose emacs client "restarted\n")))
    ;; The client waits for a second before it opens its stream again.
    (gemini-companion-test-run
     emacs '(progn (gemini-companion-restart) (gemini-companion-accept) nil))
    (gemini-companion-endurance-test--accepted
     emacs client handle "restarted\n")))

(ert-deftest gemini-companion-endurance/the-client-stays-connected ()
  "One client, connected once, stays connected through all trials."
  (gemini-companion-test-with-real-client emacs client
    (gemini-companion-test-write
     (gemini-companion-test-project emacs "other.txt") "other\n")
    (gemini-companion-endurance-test--row "what" "how long" "client"
                                          "what arrived")
    (pcase-dolist
        (`(,what . ,trial)
         `((,(format "%d s of silence" gemini-companion-endurance-test--silence)
            . gemini-companion-endurance-test--silence)
           (,(format "%d s of busy Lisp" gemini-companion-endurance-test--block)
            . gemini-companion-endurance-test--block)
           (,(format "%d s of Emacs stopped"
                     gemini-companion-endurance-test--break)
            . gemini-companion-endurance-test--break)
           ("restart" . gemini-companion-endurance-test--restart)
           ("restart with an open review"
            . gemini-companion-endurance-test--restart-in-review)
           ("review decided during a restart"
            . gemini-companion-endurance-test--decide-in-restart)))
      (gemini-companion-endurance-test--trial
       client what (lambda () (funcall trial emacs client))))))

;;; endurance-test.el ends here

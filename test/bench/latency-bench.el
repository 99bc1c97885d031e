;;; latency-bench.el --- From a key to the client  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; In an interactive Emacs: how often it wakes up and how much processor time it uses while nothing
;; happens; and how long it is from a command that moves point until the client knows.  From single
;; movements and bursts of keys the 50 ms are subtracted for which the companion waits.  While the
;; user types they are not, since a key is reported when the 50 ms of an earlier one are over.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path (file-name-directory (macroexp-file-name))))
(require 'gemini-companion-bench)
(require 'gemini-companion-bench-proc)
(require 'gemini-companion-test-emacs)

(defconst gemini-companion-bench--debounce 50
  "The milliseconds for which the companion waits before it tells of a movement.")

(defconst gemini-companion-bench--idle-seconds 6
  "Seconds for which an idle Emacs is watched.")

(defmacro gemini-companion-bench--with-clients (emacs count &rest body)
  "Evaluate BODY, in which `clients' is a program with COUNT sessions of EMACS."
  (declare (indent 2) (debug t))
  `(gemini-companion-bench-with-program
       (clients (append (list (gemini-companion-bench-load-program) "listen")
                        (gemini-companion-bench-where ,emacs)
                        (list (number-to-string ,count))))
     (gemini-companion-bench-program-line clients "sessions")
     ,@body))

;;;; Idle

(defun gemini-companion-bench--usage (id)
  "Return how often threads of the process ID have waited, and its seconds."
  (list (cl-loop for thread in (directory-files (format "/proc/%d/task" id) nil "\\`[0-9]")
                 sum (gemini-companion-bench-proc (format "%d/task/%s" id thread)
                                                  "voluntary_ctxt_switches"))
        (float-time (alist-get 'time (process-attributes id)))))

(defun gemini-companion-bench--idle (emacs state &optional baseline)
  "Measure EMACS, which is idle, in STATE; compare with BASELINE, another state."
  (let* ((id (gemini-companion-test-emacs-pid emacs))
         (seconds gemini-companion-bench--idle-seconds)
         (runs (cl-loop repeat 3 collect
                        (pcase-let ((`(,waits ,time) (gemini-companion-bench--usage id)))
                          ;; This is the measure itself: nothing is waited for.
                          (sleep-for seconds)
                          (pcase-let ((`(,later ,end) (gemini-companion-bench--usage id)))
                            (list (/ (- later waits) (float seconds))
                                  (/ (* 100 (- end time)) seconds)))))))
    (cl-loop for (name unit) in '(("wake-ups" "/s") ("processor" "%"))
             for n from 0
             do (gemini-companion-bench-add
                 (format "idle: %s, %s" name state) unit
                 (mapcar (lambda (run) (nth n run)) runs)
                 (and baseline (format "idle: %s, %s" name baseline))))))

(defun gemini-companion-bench-idle ()
  "Measure an Emacs in which nobody does anything."
  (gemini-companion-test-with-emacs (emacs :mode nil :lisp (gemini-companion-bench-lisp)
                                           :files '(("a.txt" . "a\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-bench--idle emacs "mode off")
    (gemini-companion-test-mode-on emacs)
    (gemini-companion-bench--idle emacs "mode on" "mode off")
    (gemini-companion-bench--with-clients emacs 1
      (gemini-companion-bench--idle emacs "with a client" "mode off"))))

;;;; Moving

(defun gemini-companion-bench--prepare (emacs)
  "Let EMACS note each command: when it ended, and where point is then."
  (gemini-companion-test-eval
   emacs
   '(progn
      ;; Its own pauses are another matter.
      (setq gc-cons-threshold most-positive-fixnum)
      (defvar gemini-companion-bench-notes nil)
      (defvar gemini-companion-bench-keys nil)
      (defvar gemini-companion-bench-typed-file nil)
      (defun gemini-companion-bench-note ()
        (push (list (round (* 1e6 (float-time))) (line-number-at-pos) (1+ (current-column)))
              gemini-companion-bench-notes))
      (defun gemini-companion-bench-type ()
        (if gemini-companion-bench-keys
            (when-let* ((key (pop gemini-companion-bench-keys)))
              (setq unread-command-events (list key)))
          (cancel-function-timers #'gemini-companion-bench-type)
          (write-region "" nil gemini-companion-bench-typed-file nil 'silent)))
      (add-hook 'post-command-hook #'gemini-companion-bench-note)
      nil)))

(defun gemini-companion-bench--type (emacs keys pause)
  "Type KEYS, a list, into EMACS, one each PAUSE seconds; nil types none.
Wait until it has obeyed, and return what it noted."
  (let ((typed (expand-file-name "typed" (gemini-companion-test-tmpdir emacs))))
    (ignore-errors (delete-file typed))
    (gemini-companion-test-eval
     emacs `(progn (setq gemini-companion-bench-notes nil
                         gemini-companion-bench-keys ',keys
                         gemini-companion-bench-typed-file ,typed)
                   (run-at-time ,pause ,pause #'gemini-companion-bench-type)
                   nil))
    ;; A file can be waited for without that Emacs having to answer meanwhile.
    (gemini-companion-test-wait "the keys to be typed" (lambda () (file-exists-p typed))
                                (+ 10 (* 2 pause (length keys))))
    (gemini-companion-test-eval emacs '(progn (sit-for 0.2) gemini-companion-bench-notes))))

(defun gemini-companion-bench--delays (notes lines)
  "Return the milliseconds from each of NOTES to those of LINES that tell of it."
  (let ((noted (make-hash-table :test #'equal)))
    ;; The first at a place is the command that went there.
    (pcase-dolist (`(,time . ,place) notes)
      (puthash place time noted))
    (delq nil (mapcar (lambda (line)
                        (pcase-let* ((`(,time . ,place)
                                      (mapcar #'string-to-number (split-string line)))
                                     (begun (gethash place noted)))
                          (and begun (/ (- time begun) 1000.0))))
                      lines))))

(defconst gemini-companion-bench--floor "cursor to client: a timer of 50 ms, how late"
  "The figure of an Emacs without clients, in which commands start a timer.")

(defun gemini-companion-bench--timer (emacs)
  "Measure how late a timer is that each command of EMACS starts."
  (gemini-companion-test-eval
   emacs
   '(progn
      (defvar gemini-companion-bench-lags nil)
      (defun gemini-companion-bench-start-timer ()
        (run-at-time 0.05 nil #'gemini-companion-bench-note-lag (current-time)))
      (defun gemini-companion-bench-note-lag (begun)
        (push (* 1e3 (float-time (time-subtract (current-time) begun)))
              gemini-companion-bench-lags))
      (add-hook 'post-command-hook #'gemini-companion-bench-start-timer)
      nil))
  (gemini-companion-bench--type emacs (make-list 200 ?\C-n) 0.1)
  (gemini-companion-bench-add
   gemini-companion-bench--floor "ms"
   (mapcar (lambda (lag) (- lag gemini-companion-bench--debounce))
           (gemini-companion-test-eval
            emacs '(progn
                     (remove-hook 'post-command-hook #'gemini-companion-bench-start-timer)
                     gemini-companion-bench-lags)))))

(defconst gemini-companion-bench--burst 5
  "The number of keys in a burst.")

(defun gemini-companion-bench--bursts (count)
  "Return keys for COUNT bursts, with time to be told after each."
  (apply #'append (make-list count (append (make-list gemini-companion-bench--burst ?\C-n)
                                           (make-list 30 nil)))))

(defun gemini-companion-bench--last-of-burst-p (note)
  "Return non-nil if NOTE is of the last key of a burst.
The first burst begins in the first line."
  (zerop (mod (1- (cadr note)) gemini-companion-bench--burst)))

(defun gemini-companion-bench--move (emacs name keys pause count less &optional baseline which)
  "Measure, as the figure NAME, how COUNT clients of EMACS hear of KEYS.
One is typed each PAUSE seconds.  LESS milliseconds are subtracted.
Compare it with the figure BASELINE.  Count only those notes for which
WHICH, a function, returns non-nil."
  (gemini-companion-bench--with-clients emacs count
    (let* ((notes (seq-filter (or which #'identity)
                              (gemini-companion-bench--type emacs keys pause)))
           (delays (gemini-companion-bench--delays
                    notes (gemini-companion-bench-program-lines clients))))
      (gemini-companion-bench-add
       (format "cursor to client: %s, %d client%s" name count (if (= count 1) "" "s"))
       "ms" (mapcar (lambda (delay) (- delay less)) delays) baseline))))

(defun gemini-companion-bench-cursor ()
  "Measure from the user's keys to the clients."
  (gemini-companion-test-with-emacs
      (emacs :lisp (gemini-companion-bench-lisp)
             :files `(("a.txt" . ,(mapconcat #'identity (make-list 1000 "a line\n") ""))))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-bench--prepare emacs)
    (gemini-companion-bench--timer emacs)
    (dolist (count '(1 10 20))
      (gemini-companion-test-eval emacs '(progn (goto-char (point-min)) nil))
      ;; Each down by one line, with time to be told.
      (gemini-companion-bench--move emacs "moving, less 50 ms" (make-list 200 ?\C-n) 0.1 count
                                    gemini-companion-bench--debounce
                                    gemini-companion-bench--floor)
      (gemini-companion-test-eval emacs '(progn (goto-char (point-min)) nil))
      (gemini-companion-bench--move emacs "last of 5 keys, less 50 ms"
                                    (gemini-companion-bench--bursts 100) 0.01 count
                                    gemini-companion-bench--debounce
                                    gemini-companion-bench--floor
                                    #'gemini-companion-bench--last-of-burst-p)
      (gemini-companion-test-eval emacs '(progn (goto-char (point-max)) nil))
      (gemini-companion-bench--move emacs "typing 30 keys/s" (make-list 300 ?x) 0.0333 count 0))))

(gemini-companion-bench-idle)
(gemini-companion-bench-cursor)

;;; latency-bench.el ends here

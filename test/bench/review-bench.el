;;; review-bench.el --- From a client's proposal to the screen and back  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; How long a client waits for the answer to openDiff, while Emacs is idle and while it is busy; how
;; long it is until the review is on the screen; and from the user's accept to the notification.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path (file-name-directory (macroexp-file-name))))
(require 'gemini-companion-bench)
(require 'gemini-companion-test-review)

(defconst gemini-companion-bench--proposals
  '(("1 KB" 1000 30) ("100 KB" 100000 30) ("10 MB" 10000000 5) ("50 MB" 50000000 3)
    ("10 MB, all lines" 10000000 3 all))
  "The sizes of proposals: name, bytes, and how many are made.
Five lines differ from the file, or all if there is a fourth element.")

(defconst gemini-companion-bench--first 5
  "The number of Emacsen of which the first review is measured.")

(defun gemini-companion-bench--note-reviews (emacs)
  "Let EMACS note when a review is on the screen, and how long it was blocked."
  (gemini-companion-test-eval
   emacs
   '(progn
      (defvar gemini-companion-bench-shown nil)
      (defvar gemini-companion-bench-tick nil)
      (defvar gemini-companion-bench-blocked 0)
      (defun gemini-companion-bench-shown ()
        (when (gemini-companion-review-shown-p gemini-companion-review-waiting)
          (redisplay t)
          (push (round (* 1e6 (float-time))) gemini-companion-bench-shown)))
      (defun gemini-companion-bench-tick ()
        (let ((now (float-time)))
          (setq gemini-companion-bench-blocked
                (max gemini-companion-bench-blocked
                     (- now (or gemini-companion-bench-tick now)))
                gemini-companion-bench-tick now)))
      (run-at-time 0 0.001 #'gemini-companion-bench-tick)
      (add-hook 'gemini-companion-review-waiting-hook #'gemini-companion-bench-shown)
      nil)))

(defun gemini-companion-bench--numbers (line)
  "Return the numbers in LINE."
  (mapcar #'string-to-number (cdr (split-string line))))

(defun gemini-companion-bench--file (emacs bytes all)
  "Return a file of EMACS for a proposal of BYTES, which change ALL of its lines."
  (if all (gemini-companion-test-project emacs "a.txt")
    (let ((file (gemini-companion-test-project emacs (format "%d.txt" bytes))))
      (unless (file-exists-p file)
        (gemini-companion-test-write
         file (mapconcat (lambda (line) (format "a line of text, its number %07d\n" line))
                         (number-sequence 0 (/ bytes 35)) "")))
      file)))

(defun gemini-companion-bench--propose (client bytes file)
  "Let CLIENT propose a text of BYTES for FILE.
Return when that was, and after how long it was answered."
  (process-send-string (gemini-companion-bench-program-process client)
                       (format "%d %s\n" bytes file))
  (gemini-companion-bench--numbers (gemini-companion-bench-program-line client "^answered")))

(defun gemini-companion-bench--review (emacs client bytes file)
  "Let CLIENT propose a text of BYTES for FILE, and accept it in EMACS.
Return the delays of the answer, of the screen and of the notification, and
how long EMACS was blocked at most, in milliseconds."
  ;; A user who types is not interrupted.
  (gemini-companion-test-wait-eval emacs '(time-less-p 1 (or (current-idle-time) 0)))
  (gemini-companion-test-eval emacs '(progn (garbage-collect)
                                            (setq gemini-companion-bench-shown nil
                                                  gemini-companion-bench-tick nil
                                                  gemini-companion-bench-blocked 0)
                                            nil))
  (pcase-let* ((`(,sent ,answer) (gemini-companion-bench--propose client bytes file))
               (`(,shown) (gemini-companion-test-wait-eval
                           emacs 'gemini-companion-bench-shown 120))
               (blocked (gemini-companion-test-eval emacs 'gemini-companion-bench-blocked))
               (accepted (gemini-companion-test-run
                          emacs '(prog1 (round (* 1e6 (float-time)))
                                   (gemini-companion-accept))
                          60))
               (`(,decided) (gemini-companion-bench--numbers
                             (gemini-companion-bench-program-line client "^decided"))))
    (gemini-companion-test-wait-no-review emacs)
    (list (/ answer 1000.0) (/ (- shown sent) 1000.0) (/ (- decided accepted) 1000.0)
          (* blocked 1000))))

(defun gemini-companion-bench--reviews (emacs client)
  "Measure what CLIENT proposes, and is decided in EMACS."
  (pcase-dolist (`(,size ,bytes ,count ,all) gemini-companion-bench--proposals)
    (let* ((file (gemini-companion-bench--file emacs bytes all))
           (runs (cl-loop repeat count
                          collect (gemini-companion-bench--review emacs client bytes file))))
      (cl-loop for name in '("openDiff to answer" "openDiff to the screen"
                             "accept to notification" "openDiff, Emacs blocked")
               for n from 0
               do (gemini-companion-bench-add (format "%s, %s" name size) "ms"
                                              (mapcar (lambda (run) (nth n run)) runs))))))

(defun gemini-companion-bench--while-busy (emacs client)
  "Measure the answers to what CLIENT proposes while EMACS is busy."
  (let ((release (expand-file-name "release" (gemini-companion-test-tmpdir emacs))))
    (gemini-companion-test-keep-busy emacs `(not (file-exists-p ,release)))
    (pcase-dolist (`(,size ,bytes ,count ,all) gemini-companion-bench--proposals)
      (let ((file (gemini-companion-bench--file emacs bytes all)))
        (gemini-companion-bench-add
         (format "openDiff to answer, Emacs busy, %s" size) "ms"
         (cl-loop repeat count
                  collect (/ (nth 1 (gemini-companion-bench--propose client bytes file)) 1000.0))
         (format "openDiff to answer, %s" size))))
    (gemini-companion-test-write release "")))

(defun gemini-companion-bench--call-with-client (function)
  "Call FUNCTION with an Emacs and a client that proposes changes to it."
  (gemini-companion-test-with-emacs
      (emacs :lisp (gemini-companion-bench-lisp)
             :files '(("a.txt" . "a\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-bench--note-reviews emacs)
    (gemini-companion-bench-with-program
        (client (append (list (gemini-companion-bench-load-program) "propose")
                        (gemini-companion-bench-where emacs)))
      (gemini-companion-bench-program-line client "ready")
      (funcall function emacs client))))

(defun gemini-companion-bench--first-review (emacs client)
  "Return how long the first review of EMACS takes to the screen, by CLIENT."
  ;; What is done when idle.
  (gemini-companion-test-wait-eval emacs '(time-less-p 3 (or (current-idle-time) 0)))
  (nth 1 (gemini-companion-bench--review emacs client 1000
                                         (gemini-companion-bench--file emacs 1000 nil))))

(defun gemini-companion-bench-review ()
  "Measure proposals of all sizes, and the first one of an Emacs."
  (gemini-companion-bench--call-with-client
   (lambda (emacs client)
     (gemini-companion-bench--reviews emacs client)
     (gemini-companion-bench--while-busy emacs client)))
  (gemini-companion-bench-add
   "openDiff to the screen, 1 KB, the first" "ms"
   (cl-loop repeat gemini-companion-bench--first
            collect (gemini-companion-bench--call-with-client
                     #'gemini-companion-bench--first-review))
   "openDiff to the screen, 1 KB"))

(gemini-companion-bench-review)

;;; review-bench.el ends here

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
  '(("1 KB" 1000 30) ("100 KB" 100000 30) ("10 MB" 10000000 3))
  "The sizes of proposals: name, bytes, and how many are made.")

(defun gemini-companion-bench--note-reviews (emacs)
  "Let EMACS note when a review is on the screen."
  (gemini-companion-test-eval
   emacs
   '(progn
      (defvar gemini-companion-bench-shown nil)
      (defun gemini-companion-bench-shown (&rest _)
        (redisplay t)
        (push (round (* 1e6 (float-time))) gemini-companion-bench-shown))
      (advice-add 'gemini-companion-ediff-show :after #'gemini-companion-bench-shown)
      nil)))

(defun gemini-companion-bench--numbers (line)
  "Return the numbers in LINE."
  (mapcar #'string-to-number (cdr (split-string line))))

(defun gemini-companion-bench--propose (client bytes)
  "Let CLIENT propose a text of BYTES.
Return when that was, and after how long it was answered."
  (process-send-string (gemini-companion-bench-program-process client) (format "%d\n" bytes))
  (gemini-companion-bench--numbers (gemini-companion-bench-program-line client "^answered")))

(defun gemini-companion-bench--review (emacs client bytes)
  "Let CLIENT propose a text of BYTES, and accept it in EMACS.
Return the delays of the answer, of the screen and of the notification, in
milliseconds."
  (gemini-companion-test-eval emacs '(progn (setq gemini-companion-bench-shown nil) nil))
  ;; A user who types is not interrupted.
  (gemini-companion-test-wait-eval emacs '(time-less-p 1 (or (current-idle-time) 0)))
  (pcase-let* ((`(,sent ,answer) (gemini-companion-bench--propose client bytes))
               (`(,shown) (gemini-companion-test-wait-eval
                           emacs 'gemini-companion-bench-shown 120))
               (accepted (gemini-companion-test-run
                          emacs '(prog1 (round (* 1e6 (float-time)))
                                   (gemini-companion-accept))
                          60))
               (`(,decided) (gemini-companion-bench--numbers
                             (gemini-companion-bench-program-line client "^decided"))))
    (gemini-companion-test-wait-no-review emacs)
    (list (/ answer 1000.0) (/ (- shown sent) 1000.0) (/ (- decided accepted) 1000.0))))

(defun gemini-companion-bench--reviews (emacs client)
  "Measure what CLIENT proposes, and is decided in EMACS."
  (pcase-dolist (`(,size ,bytes ,count) gemini-companion-bench--proposals)
    (let ((runs (cl-loop repeat count
                         collect (gemini-companion-bench--review emacs client bytes))))
      (cl-loop for name in '("openDiff to answer" "openDiff to the screen"
                             "accept to notification")
               for n from 0
               do (gemini-companion-bench-add (format "%s, %s" name size) "ms"
                                              (mapcar (lambda (run) (nth n run)) runs))))))

(defun gemini-companion-bench--while-busy (emacs client)
  "Measure the answers to what CLIENT proposes while EMACS is busy."
  (let ((release (expand-file-name "release" (gemini-companion-test-tmpdir emacs))))
    (gemini-companion-test-keep-busy emacs `(not (file-exists-p ,release)))
    (pcase-dolist (`(,size ,bytes ,count) gemini-companion-bench--proposals)
      (gemini-companion-bench-add
       (format "openDiff to answer, Emacs busy, %s" size) "ms"
       (cl-loop repeat count
                collect (/ (nth 1 (gemini-companion-bench--propose client bytes)) 1000.0))
       (format "openDiff to answer, %s" size)))
    (gemini-companion-test-write release "")))

(defun gemini-companion-bench-review ()
  "Measure proposals of all sizes."
  (gemini-companion-test-with-emacs
      (emacs :lisp (gemini-companion-bench-lisp)
             :files '(("a.txt" . "a\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-bench--note-reviews emacs)
    (gemini-companion-bench-with-program
        (client (append (list (gemini-companion-bench-load-program) "propose")
                        (gemini-companion-bench-where emacs)
                        (list (gemini-companion-test-project emacs "a.txt"))))
      (gemini-companion-bench-program-line client "ready")
      (gemini-companion-bench--reviews emacs client)
      (gemini-companion-bench--while-busy emacs client))))

(gemini-companion-bench-review)

;;; review-bench.el ends here

;;; gemini-companion-bench.el --- Figures, and the table of them  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A figure is what was measured many times, beside a baseline that was measured
;; in the same run.  Figures are printed as a table, and written as JSON.

;;; Code:

(require 'cl-lib)
(require 'json)
(require 'seq)

(declare-function gemini-companion-test-eval "gemini-companion-test-emacs")

(cl-defstruct (gemini-companion-bench-figure
               (:constructor gemini-companion-bench-figure--make)
               (:copier nil))
  "What was measured."
  (name nil :documentation "What it is.")
  (unit nil :documentation "In what it is.")
  (samples nil :documentation "Sorted numbers.")
  (baseline nil :documentation "The name of the figure to compare it with, or nil."))

(defvar gemini-companion-bench--figures nil
  "The figures, the newest first.")

(defun gemini-companion-bench-add (name unit samples &optional baseline)
  "Add the figure NAME with the SAMPLES, numbers in UNIT.
It is compared with the figure named BASELINE."
  (push (gemini-companion-bench-figure--make
         :name name :unit unit :samples (sort (copy-sequence samples) #'<)
         :baseline baseline)
        gemini-companion-bench--figures))

(defmacro gemini-companion-bench-times (samples calls &rest body)
  "Evaluate BODY CALLS times for each of SAMPLES samples.
Return the microseconds that BODY took on average in each sample; what
an empty loop takes is subtracted."
  (declare (indent 2) (debug t))
  `(gemini-companion-bench--times ,samples ,calls
                                  (lambda () (dotimes (_ ,calls) ,@body))))

(defun gemini-companion-bench--times (samples calls body)
  "Call BODY, a loop of CALLS, SAMPLES times; return what it took each time.
That is in microseconds for each call, less what an empty loop takes."
  (let ((gc-cons-threshold most-positive-fixnum)
        (empty (lambda ()
                 (let ((count 0))
                   (while (< count calls)
                     (setq count (1+ count))))))
        (time (lambda (function)
                (let ((start (current-time)))
                  (funcall function)
                  (float-time (time-since start))))))
    (funcall body)                      ; what is slow only once
    (garbage-collect)
    (cl-loop repeat samples
             collect (/ (* 1e6 (max 0.0 (- (funcall time body) (funcall time empty))))
                        calls))))

(defun gemini-companion-bench--quantile (figure share)
  "Return the sample of FIGURE below which there are SHARE of all."
  (let ((samples (gemini-companion-bench-figure-samples figure)))
    (nth (min (1- (length samples)) (floor (* share (length samples)))) samples)))

(defun gemini-companion-bench--median (figure)
  "Return the median of FIGURE."
  (gemini-companion-bench--quantile figure 0.5))

(defun gemini-companion-bench--ratio (figure)
  "Return how many times its baseline FIGURE is, or nil."
  (when-let* ((name (gemini-companion-bench-figure-baseline figure))
              (baseline (seq-find (lambda (it)
                                    (equal (gemini-companion-bench-figure-name it) name))
                                  gemini-companion-bench--figures))
              (median (gemini-companion-bench--median baseline)))
    (and (> median 0)
         (/ (gemini-companion-bench--median figure) (float median)))))

(defun gemini-companion-bench--row (figure)
  "Return what is known of FIGURE as an alist."
  (let ((quantile (lambda (share) (gemini-companion-bench--quantile figure share))))
    `((name . ,(gemini-companion-bench-figure-name figure))
      (unit . ,(gemini-companion-bench-figure-unit figure))
      (median . ,(gemini-companion-bench--median figure))
      (p99 . ,(funcall quantile 0.99))
      (spread . ,(- (funcall quantile 0.75) (funcall quantile 0.25)))
      (samples . ,(length (gemini-companion-bench-figure-samples figure)))
      (baseline . ,(and (gemini-companion-bench--ratio figure)
                        (gemini-companion-bench-figure-baseline figure)))
      (ratio . ,(gemini-companion-bench--ratio figure)))))

(defun gemini-companion-bench-print (file)
  "Print all figures as a table, and write them to FILE as JSON."
  (let ((rows (mapcar #'gemini-companion-bench--row
                      (reverse gemini-companion-bench--figures))))
    (princ (format "%-52s %10s %10s %10s %7s  %s\n"
                   "what" "median" "p99" "spread" "ratio" "to"))
    (dolist (row rows)
      (let-alist row
        (princ (format "%-52s %10s %10s %10s %7s  %s\n"
                       .name
                       (gemini-companion-bench--number .median .unit)
                       (gemini-companion-bench--number .p99 .unit)
                       (gemini-companion-bench--number .spread .unit)
                       (if .ratio (format "%.3g" .ratio) "")
                       (or .baseline "")))))
    (let ((coding-system-for-write 'utf-8-unix))
      (write-region (concat (json-encode (vconcat rows)) "\n") nil file nil 0))))

(defun gemini-companion-bench--number (number unit)
  "Return NUMBER with its UNIT."
  (format (cond ((>= (abs number) 100) "%.0f %s")
                ((>= (abs number) 1) "%.1f %s")
                (t "%.2f %s"))
          number unit))

;;;; Programs

(defun gemini-companion-bench-path (name)
  "Return the file NAME of the benchmarks."
  (expand-file-name name (file-name-directory (locate-library "gemini-companion-bench"))))

(defun gemini-companion-bench-lisp ()
  "Return the directory of the package that is measured, compiled."
  (file-name-directory (locate-library "gemini-companion")))

(defun gemini-companion-bench-emacs ()
  "Return the command of a batch Emacs that has the package."
  (list (expand-file-name invocation-name invocation-directory) "-Q" "--batch"
        "-L" (gemini-companion-bench-lisp)))

(defun gemini-companion-bench-start-child (what)
  "Return what start-child.el prints in an Emacs of its own, read, if anything.
WHAT is the value of the environment variable BENCH_START."
  (with-temp-buffer
    (let ((process-environment (cons (if what (concat "BENCH_START=" what) "BENCH_START")
                                     process-environment))
          (command (gemini-companion-bench-emacs)))
      (unless (eql 0 (apply #'call-process (car command) nil '(t nil) nil
                            (append (cdr command)
                                    (list "-l" (gemini-companion-bench-path "start-child.el")))))
        (error "Emacs did not start: %s" (buffer-string))))
    (goto-char (point-min))
    (ignore-errors (read (current-buffer)))))

(defun gemini-companion-bench-load-program ()
  "Return the program that puts servers under load: load.rs, compiled."
  (or (getenv "BENCH_LOAD") (error "BENCH_LOAD is not set; `make bench' sets it")))

(cl-defstruct (gemini-companion-bench-program
               (:constructor gemini-companion-bench--make-program)
               (:copier nil))
  "A program that runs, and prints lines."
  (process nil :documentation "Its process.")
  (lines nil :documentation "The lines that were not taken, the first first.")
  (partial "" :documentation "A line that has not come to its end."))

(defun gemini-companion-bench--start-program (command)
  "Start COMMAND, a list, and return its `gemini-companion-bench-program'."
  (let ((program (gemini-companion-bench--make-program)))
    (setf (gemini-companion-bench-program-process program)
          (make-process
           :name "bench" :command command :connection-type 'pipe :noquery t
           :stderr (get-buffer-create " *bench stderr*")
           :filter (lambda (_ text) (gemini-companion-bench--take program text))))
    program))

(defun gemini-companion-bench--take (program text)
  "Add TEXT to what PROGRAM has printed."
  (let ((lines (split-string (concat (gemini-companion-bench-program-partial program) text) "\n")))
    (setf (gemini-companion-bench-program-partial program) (car (last lines))
          (gemini-companion-bench-program-lines program)
          (append (gemini-companion-bench-program-lines program) (butlast lines)))))

(defun gemini-companion-bench-program-line (program &optional regexp)
  "Return the next line of PROGRAM, that matches REGEXP, when it is there."
  (with-timeout (60 (error "The program %s said nothing: %s"
                           (process-command (gemini-companion-bench-program-process program))
                           (with-current-buffer " *bench stderr*" (buffer-string))))
    (let ((line nil))
      (while (not (and (setq line (pop (gemini-companion-bench-program-lines program)))
                       (string-match-p (or regexp "") line)))
        (unless line (accept-process-output nil 0.1)))
      line)))

(defmacro gemini-companion-bench-with-program (spec &rest body)
  "Evaluate BODY with a program that runs, and end that.
SPEC is (VARIABLE COMMAND); COMMAND is a list."
  (declare (indent 1) (debug ((symbolp form) body)))
  `(let ((,(car spec) (gemini-companion-bench--start-program ,(cadr spec))))
     (unwind-protect (progn ,@body)
       (delete-process (gemini-companion-bench-program-process ,(car spec))))))

(defun gemini-companion-bench-where (emacs)
  "Return port and token of the companion in EMACS, as strings."
  (gemini-companion-test-eval
   emacs '(list (getenv "GEMINI_CLI_IDE_SERVER_PORT") (getenv "GEMINI_CLI_IDE_AUTH_TOKEN"))))

(provide 'gemini-companion-bench)
;;; gemini-companion-bench.el ends here

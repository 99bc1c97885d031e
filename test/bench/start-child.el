;;; start-child.el --- One Emacs that starts, and tells what that took  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Loaded by a batch Emacs of its own.  Prints a list of the milliseconds that it took to load Ediff,
;; to compare with, to load the package, to switch the mode on, to do both, and from before both to
;; the first byte that is served; and of the kilobytes of memory that both added.  Collecting garbage,
;; which falls into this or not as it happens, is not counted.
;;
;; The environment variable BENCH_START asks for something else: a number, for what takes longer
;; the more files are open; "serve", to serve the first byte and measure nothing.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path (file-name-directory (macroexp-file-name))))
(require 'gemini-companion-bench-proc)

(declare-function gemini-companion-mode "gemini-companion")
(declare-function gemini-companion-workspace-roots "gemini-companion-workspace")

(defvar gemini-companion-bench-start--marks nil
  "The times of what happened, the last first.")

(defun gemini-companion-bench-start--mark ()
  "Note the time."
  (push (current-time) gemini-companion-bench-start--marks))

(defun gemini-companion-bench-start--memory ()
  "Return the memory of this process that is resident, in kilobytes."
  (garbage-collect)
  (gemini-companion-bench-proc "self" "VmRSS"))

(defun gemini-companion-bench-start--wait-byte ()
  "Ask the server for something, and wait for the first byte of the answer."
  (let ((answered nil)
        (port (string-to-number (getenv "GEMINI_CLI_IDE_SERVER_PORT"))))
    (let ((connection (make-network-process
                       :name "first" :host "127.0.0.1" :service port :noquery t
                       :filter (lambda (&rest _) (setq answered t)))))
      (process-send-string connection "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
      (while (not answered)
        (accept-process-output connection 1)))))

(defun gemini-companion-bench-start--visit (count)
  "Make COUNT buffers that visit files, ten in each directory.
They visit them without reading: for thousands, that would take minutes."
  (let ((project (make-temp-file "project" t)))
    (make-directory (expand-file-name ".git" project))
    (dotimes (n count)
      (let* ((directory (format "%s/%d/" project (/ n 10)))
             (name (format "%s%d.txt" directory n)))
        (when (zerop (% n 10)) (make-directory directory))
        (with-current-buffer (generate-new-buffer (format "%d.txt" n))
          (text-mode)
          (setq default-directory directory
                buffer-file-name name
                buffer-file-truename (abbreviate-file-name name)))))))

(defun gemini-companion-bench-start--with-files (count)
  "Print the milliseconds that the mode takes to be switched on with COUNT files.
Nothing else has used projects before.  Then print those of finding the
workspace roots, once that they are known."
  (require 'gemini-companion)
  (gemini-companion-bench-start--visit count)
  (garbage-collect)
  (let ((gc-cons-threshold most-positive-fixnum))
    (gemini-companion-bench-start--mark)
    (gemini-companion-mode 1)
    (gemini-companion-bench-start--mark)
    (gemini-companion-workspace-roots)
    (gemini-companion-bench-start--mark)
    (gemini-companion-workspace-roots)
    (gemini-companion-bench-start--mark)
    (pcase-let ((`(,again ,known ,on ,begun) gemini-companion-bench-start--marks))
      (princ (list (* 1e3 (float-time (time-subtract on begun)))
                   (* 1e3 (float-time (time-subtract again known))))))))

(defun gemini-companion-bench-start--serve ()
  "Do what it takes to serve the first byte, and nothing else."
  (require 'gemini-companion)
  (gemini-companion-mode 1)
  (gemini-companion-bench-start--wait-byte))

(defun gemini-companion-bench-start--all ()
  "Print what the commentary says."
  (let ((before (gemini-companion-bench-start--memory))
        (gc-cons-threshold most-positive-fixnum))
    (gemini-companion-bench-start--mark)
    (require 'gemini-companion)
    (gemini-companion-bench-start--mark)
    (gemini-companion-mode 1)
    (gemini-companion-bench-start--mark)
    (gemini-companion-bench-start--wait-byte)
    (gemini-companion-bench-start--mark)
    (let ((memory (- (gemini-companion-bench-start--memory) before))
          (ediff (current-time)))
      (require 'ediff)
      (gemini-companion-bench-start--mark)
      (pcase-let ((`(,compared ,served ,on ,loaded ,begun) gemini-companion-bench-start--marks)
                  (span (lambda (end start) (* 1e3 (float-time (time-subtract end start))))))
        (princ (list (funcall span compared ediff)
                     (funcall span loaded begun)
                     (funcall span on loaded)
                     (funcall span on begun)
                     (funcall span served begun)
                     memory))))))

(pcase (getenv "BENCH_START")
  ('nil (gemini-companion-bench-start--all))
  ("serve" (gemini-companion-bench-start--serve))
  (count (gemini-companion-bench-start--with-files (string-to-number count))))

;;; start-child.el ends here

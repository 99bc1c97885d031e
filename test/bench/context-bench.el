;;; context-bench.el --- What each command and the mode cost  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What is added to each command, and what it takes to gather what the user looks at: with
;; few and with many buffers, in a small buffer and
;; in one of a million lines.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path (file-name-directory (macroexp-file-name))))
(require 'gemini-companion-bench)
(require 'gemini-companion-test-companion)

(defvar gemini-companion-bench--hook nil
  "The hook that is measured.")

(defun gemini-companion-bench--command (name &optional baseline)
  "Measure, as the figure NAME, what our functions add to a command."
  (gemini-companion-bench--functions
   name
   (seq-filter (lambda (function)
                 (string-prefix-p "gemini-companion" (format "%s" function)))
               (default-value 'post-command-hook))
   baseline))

(defun gemini-companion-bench--functions (name functions &optional baseline)
  "Measure, as the figure NAME, what it takes to run FUNCTIONS from a hook.
BASELINE is the name of a figure."
  (let ((gemini-companion-bench--hook functions))
    (gemini-companion-bench-add
     name "us"
     (gemini-companion-bench-times 50 10000
       (run-hooks 'gemini-companion-bench--hook))
     baseline)))

(defun gemini-companion-bench--gather (name &optional baseline)
  "Measure, as the figure NAME, what it takes to gather; compare with BASELINE."
  (gemini-companion-bench-add
   name "us" (gemini-companion-bench-times 200 1 (gemini-companion-context-gather)) baseline))

(defun gemini-companion-bench--gather-after-searches ()
  "Measure what it takes to gather after searches emptied the cache of regexps.
Those of font-lock do so between two keys."
  (gemini-companion-bench-add
   "gather: 1 file, after searches" "us"
   (cl-loop repeat 200
            do (dotimes (n 120) (string-match-p (format "%d" n) ""))
            collect (let ((start (current-time)))
                      (gemini-companion-context-gather)
                      (* 1e6 (float-time (time-since start)))))
   "gather: 1 file"))

(defun gemini-companion-bench--visit (count)
  "Visit files until COUNT are open."
  (dotimes (n count)
    (let ((name (format "file %d.txt" n)))
      (unless (get-buffer name)
        (find-file-noselect (gemini-companion-test-file name "one\ntwo\n"))))))

(defun gemini-companion-bench--large-buffer ()
  "Measure gathering in a buffer of a million lines."
  (with-temp-file (gemini-companion-test-file "large.txt")
    (dotimes (_ 1000000)
      (insert "a line of text, not a long one\n")))
  (let ((large-file-warning-threshold nil))
    (switch-to-buffer (find-file-noselect (gemini-companion-test-file "large.txt"))))
  (dolist (place `(("start" . ,(point-min)) ("end" . ,(point-max))))
    (set-window-point nil (cdr place))
    (gemini-companion-bench--gather (format "gather: 1 000 000 lines, %s" (car place))
                                    "gather: 1 file"))
  (let ((create-lockfiles nil))
    (gemini-companion-bench-add
     "gather: 1 000 000 lines, after an edit" "us"
     (gemini-companion-bench-times 200 1
       (goto-char (point-max))
       (insert "x")
       (set-window-point nil (point))
       (gemini-companion-context-gather))
     "gather: 1 file"))
  (set-buffer-modified-p nil))

(defun gemini-companion-bench--ignore (name line lines baseline)
  "Measure, as the figure NAME, what it takes to judge a file that is new.
The project's .geminiignore has so many LINES like LINE; compare with BASELINE."
  (with-temp-file (gemini-companion-test-file ".geminiignore")
    (dotimes (_ lines)
      (insert line "\n")))
  (let ((ignore (gemini-companion-test-file ".geminiignore"))
        (count 0))
    (gemini-companion-bench-add
     name "us"
     (gemini-companion-bench-times 50 1
       (gemini-companion-bridge-ignored
        ignore (gemini-companion-test-file
                (format "%s%d" (make-string 200 ?a) (setq count (1+ count))))))
     baseline))
  (delete-file (gemini-companion-test-file ".geminiignore")))

(defun gemini-companion-bench--projects (count)
  "Measure gathering for clients in COUNT projects, with ten files open in each."
  (gemini-companion-test-with-client client
    (fake-cli-wait-notification client "ide/contextUpdate")
    (let ((projects (mapcar (lambda (n) (gemini-companion-test-file (format "project %d" n)))
                            (number-sequence 1 count)))
          (find-file-hook nil))
      (dolist (project projects)
        (make-directory (expand-file-name ".git" project) t)
        (dotimes (n 10)
          (switch-to-buffer (find-file-noselect
                             (gemini-companion-test-file
                              (expand-file-name (format "%d.txt" n) project) "one\ntwo\n")))
          (gemini-companion-context--record-focus)))
      (gemini-companion-workspace-announce)
      (cl-letf (((symbol-function 'gemini-companion-bridge-places) (lambda () projects)))
        (gemini-companion-bench--publish count projects)))))

(defun gemini-companion-bench--publish (count projects)
  "Measure publishing to COUNT clients in PROJECTS.
Window hooks run as they do when Emacs redisplays."
  (let ((add (lambda (what samples)
               (gemini-companion-bench-add
                (format "publish: %d clients in %d projects, %s" count count what)
                "us" samples "gather: 100 files")))
        (point 0)
        (turn 0)
        (buffers (seq-filter (lambda (buffer)
                               (member (directory-file-name
                                        (buffer-local-value 'default-directory buffer))
                                       projects))
                             (buffer-list))))
    (funcall add "another client"
             (gemini-companion-bench-times 50 1
               (gemini-companion-context-update)))
    (funcall add "point moves"
             (gemini-companion-bench-times 200 1
               (set-window-point nil (1+ (mod (setq point (1+ point)) 5)))
               (gemini-companion-context--publish)))
    (funcall add "another file"
             (gemini-companion-bench-times 200 1
               (set-window-buffer nil (nth (mod (setq turn (+ turn 7)) (length buffers)) buffers))
               (run-hook-with-args 'window-buffer-change-functions (selected-frame))
               (gemini-companion-context--publish)))))

(defun gemini-companion-bench--open-files ()
  "Measure what depends on how many files are open, each time in a new Emacs."
  (cl-loop for (count . shown) in '((1 . "1 file") (100 . "100 files")
                                    (1000 . "1 000 files") (10000 . "10 000 files"))
           for runs = (cl-loop repeat 10 collect (gemini-companion-bench-start-child
                                                  (number-to-string count)))
           do (gemini-companion-bench-add (format "mode on: %s, cold" shown) "ms"
                                          (mapcar #'car runs))
           (gemini-companion-bench-add (format "roots: %s" shown) "ms"
                                       (mapcar #'cadr runs) "roots: 1 000 files")))

(defun gemini-companion-bench-context ()
  "Measure all of it."
  (gemini-companion-bench--functions "hook: an empty function" (list (lambda ())))
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (gemini-companion-bench--command "hook: mode on, no client" "hook: an empty function"))
  (gemini-companion-test-with-client client
    (fake-cli-wait-notification client "ide/contextUpdate")
    (gemini-companion-bench--command "hook: with a client" "hook: an empty function")
    (gemini-companion-bench--gather "gather: 1 file")
    (gemini-companion-bench--gather-after-searches)
    (gemini-companion-bench--visit 100)
    (gemini-companion-bench--gather "gather: 100 files" "gather: 1 file")
    (gemini-companion-bench--visit 2000)
    (gemini-companion-bench--gather "gather: 2 000 files" "gather: 1 file")
    (gemini-companion-bench--ignore "judge: 20 lines" "*.log" 20 nil)
    (gemini-companion-bench--ignore "judge: too costly" (string-join (make-list 3000 "*a*")) 3
                                    "judge: 20 lines")
    (gemini-companion-bench--large-buffer))
  (gemini-companion-bench--projects 10)
  (gemini-companion-bench--open-files))

(gemini-companion-bench-context)

;;; context-bench.el ends here

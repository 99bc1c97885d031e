;;; gemini-companion-test-util.el --- Shared utilities of the tests  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Waiting with a deadline, JSON, bytes of files, and programs that exchange
;; lines of JSON.  Tests do not sleep: they say what they wait for, and fail
;; with a report if it does not happen.

;;; Code:

(require 'cl-lib)
(require 'ert)
(require 'json)
(require 'subr-x)

;;;; Directories

(defconst gemini-companion-test-support-directory
  (file-name-directory (file-truename (or load-file-name buffer-file-name)))
  "The directory of the test support.")

(defconst gemini-companion-test-root
  (file-name-directory
   (directory-file-name
    (file-name-directory
     (directory-file-name gemini-companion-test-support-directory))))
  "The top of the checkout under test.")

(defun gemini-companion-test-path (&rest names)
  "Return the file of the checkout with the components NAMES."
  (expand-file-name (string-join names "/") gemini-companion-test-root))

;;;; Waiting

(defvar gemini-companion-test-timeout 40
  "Seconds until a wait fails, far more than anything takes.")

(defun gemini-companion-test-wait (what predicate &optional timeout)
  "Wait until PREDICATE returns non-nil and return its value.
WHAT is a string, or a function that returns one, for the error after
TIMEOUT seconds: the error has its first line, a message all of it."
  (let ((deadline (+ (float-time) (or timeout gemini-companion-test-timeout)))
        (pause 0.002)
        value)
    (while (not (setq value (funcall predicate)))
      (when (> (float-time) deadline)
        (gemini-companion-test--give-up
         (if (functionp what) (funcall what) what)))
      ;; Most waits are short; longer ones check less often.
      (accept-process-output nil (setq pause (min 0.05 (* 1.3 pause)))))
    value))

(defun gemini-companion-test-wait-seconds (seconds)
  "Let SECONDS pass, in which timers and processes run.
This is for what must not happen then."
  (let ((later (+ (float-time) seconds)))
    (gemini-companion-test-wait "time to pass" (lambda () (> (float-time) later)))))

(defun gemini-companion-test-timers (function)
  "Return the timers that are to call FUNCTION, also when Emacs is idle."
  (seq-filter (lambda (timer) (eq (timer--function timer) function))
              (append timer-list timer-idle-list)))

(defun gemini-companion-test--give-up (what)
  "Signal that waiting for WHAT has timed out."
  (when (string-search "\n" what)
    (message "Waited in vain for %s" what))
  (error "Waited in vain for %s" (car (split-string what "\n"))))

(defun gemini-companion-test-quote (text)
  "Return TEXT as one word, in single quotes, of a shell or a tmux."
  (concat "'" (string-replace "'" "'\\''" text) "'"))

(defun gemini-companion-test-squeeze (screen)
  "Return the text SCREEN with fewer empty lines."
  (replace-regexp-in-string "\n\\(?:[ \t]*\n\\)\\{3,\\}" "\n\n\n"
                            (string-trim-right screen)))

(defun gemini-companion-test-widen-as-eat ()
  "Hide a space in front of each character here that is two columns wide."
  (goto-char (point-min))
  (while (not (eobp))
    (when (= (char-width (char-after)) 2)
      (insert (propertize " " 'invisible t)))
    (forward-char))
  (setq-local filter-buffer-substring-function
              (lambda (start end _delete)
                (mapconcat (lambda (position)
                             (if (invisible-p position) ""
                               (buffer-substring position (1+ position))))
                           (number-sequence start (1- end)) ""))))

;;;; Skipping

(defun gemini-companion-test-skip (format &rest arguments)
  "Skip the current test with a message: FORMAT and ARGUMENTS say why."
  (let ((reason (apply #'format format arguments)))
    (message "SKIPPED %s: %s" (ert-test-name (ert-running-test)) reason)
    (ert-skip reason)))

(defun gemini-companion-test-terminal-directories (terminal)
  "Return the directories of the emulator TERMINAL.
Skip the test if it is not installed.  Term is a part of Emacs; vterm is
that of Debian's package."
  (pcase terminal
    ('term nil)
    ('vterm
     (let ((directories
            (append (file-expand-wildcards "/usr/share/emacs/site-lisp/elpa-src/vterm-*")
                    (file-expand-wildcards "/usr/lib/*/emacs-libvterm"))))
       (unless (cdr directories)
         (gemini-companion-test-skip "elpa-vterm is not installed"))
       directories))))

;;;; Cleaning up

(defvar gemini-companion-test--cleanups nil
  "Functions to call when Emacs ends: a list of (OWNER . FUNCTION).")

(defun gemini-companion-test-on-exit (owner function)
  "Have FUNCTION called with OWNER when this Emacs ends, even by a signal.
`gemini-companion-test-forget' undoes this."
  (push (cons owner function) gemini-companion-test--cleanups))

(defun gemini-companion-test-forget (owner)
  "Undo `gemini-companion-test-on-exit' for OWNER."
  (setq gemini-companion-test--cleanups
        (cl-remove owner gemini-companion-test--cleanups
                   :key #'car :test #'eq)))

(defun gemini-companion-test--clean-up ()
  "Call the functions of `gemini-companion-test--cleanups'."
  (pcase-dolist (`(,owner . ,function) gemini-companion-test--cleanups)
    (ignore-errors (funcall function owner))))

(add-hook 'kill-emacs-hook #'gemini-companion-test--clean-up)

;;;; Processes

(defun gemini-companion-test-process-alive-p (pid)
  "Return non-nil if the process PID runs; a zombie does not."
  (and pid
       (not (member (alist-get 'state (process-attributes pid))
                    '(nil "Z" "X")))))

(defun gemini-companion-test-end-process (pid signal)
  "Send SIGNAL to the process PID and wait until it has ended.
If it does not end, kill it."
  (when (gemini-companion-test-process-alive-p pid)
    (signal-process pid signal)
    (condition-case nil
        (gemini-companion-test-wait
         "a process to end"
         (lambda () (not (gemini-companion-test-process-alive-p pid))) 5)
      (error (signal-process pid 'SIGKILL)))))

;;;; Files

(defun gemini-companion-test-temp-directory ()
  "Return a new directory with a short name, since sockets are created in it."
  (file-name-as-directory (file-truename (make-temp-file "gc-" t))))

(defun gemini-companion-test-write (file text)
  "Write TEXT to FILE, as UTF-8 with its line endings unchanged."
  (make-directory (file-name-directory file) t)
  (let ((coding-system-for-write 'binary))
    (write-region (encode-coding-string text 'utf-8-unix t) nil file nil 0))
  file)

(defun gemini-companion-test-bytes (file)
  "Return the bytes of FILE."
  (with-temp-buffer
    (set-buffer-multibyte nil)
    (insert-file-contents-literally file)
    (buffer-string)))

(defun gemini-companion-test-read (file)
  "Return the text of FILE, decoded as UTF-8 with its line endings unchanged."
  (decode-coding-string (gemini-companion-test-bytes file) 'utf-8-unix t))

;;;; JSON

(defun gemini-companion-test-json-encode (value)
  "Return VALUE as JSON in UTF-8 bytes.
Objects are plists or alists, arrays are vectors."
  (encode-coding-string (json-serialize value) 'utf-8-unix))

(defun gemini-companion-test-json-decode (bytes)
  "Return the JSON in the UTF-8 BYTES as a Lisp value.
Objects become alists, arrays become lists, null is `:null'."
  (let ((text (decode-coding-string bytes 'utf-8-unix)))
    (if (string-search "\\u0000" text)
        ;; The parser in C refuses it before Emacs 30.
        (let ((json-object-type 'alist) (json-array-type 'list)
              (json-null :null) (json-false nil))
          (json-read-from-string text))
      (json-parse-string text :object-type 'alist :array-type 'list
                         :null-object :null :false-object nil))))

;;;; Programs that exchange lines of JSON

(cl-defstruct (gemini-companion-test-program
               (:constructor gemini-companion-test-program--make))
  "A running program that reads and writes one JSON value per line."
  process
  (partial nil :documentation "Parts of a line that is not complete yet, newest first.")
  (lines nil :documentation "The values that it has written, newest first.")
  (stderr nil :documentation "The file of its standard error."))

(defun gemini-companion-test-program-start (command directory environment)
  "Start COMMAND, a list, in DIRECTORY with only ENVIRONMENT.
Return a `gemini-companion-test-program'."
  (let* ((stderr (make-temp-file "gc-stderr-"))
         (program (gemini-companion-test-program--make :stderr stderr))
         (default-directory directory))
    (setf (gemini-companion-test-program-process program)
          (make-process
           :name (file-name-nondirectory (car command))
           :command `("/bin/sh" "-c" "e=$1; shift; exec \"$@\" 2>\"$e\"" "sh"
                      ,stderr "env" "-i" ,@environment ,@command)
           :connection-type 'pipe :noquery t :coding 'binary
           :filter (lambda (_process bytes)
                     (gemini-companion-test-program--take program bytes))
           :sentinel #'ignore))
    (gemini-companion-test-on-exit program #'gemini-companion-test-program-stop)
    program))

(defun gemini-companion-test-program--take (program bytes)
  "Add BYTES to the output of PROGRAM."
  (push bytes (gemini-companion-test-program-partial program))
  ;; A line may be many megabytes long.
  (when (string-search "\n" bytes)
    (let ((lines (split-string (apply #'concat (reverse (gemini-companion-test-program-partial
                                                         program)))
                               "\n")))
      (while (cdr lines)
        (push (gemini-companion-test-json-decode (pop lines))
              (gemini-companion-test-program-lines program)))
      (setf (gemini-companion-test-program-partial program) lines))))

(defun gemini-companion-test-program-send (program value)
  "Send VALUE, a plist or a string, to PROGRAM as one line."
  (process-send-string
   (gemini-companion-test-program-process program)
   (concat (gemini-companion-test-json-encode value) "\n")))

(defun gemini-companion-test-program-find (program predicate)
  "Return the newest line of PROGRAM for which PREDICATE holds, or nil."
  (cl-find-if predicate (gemini-companion-test-program-lines program)))

(defun gemini-companion-test-program-stop (program)
  "End PROGRAM and delete its files."
  (let ((process (gemini-companion-test-program-process program)))
    (when (process-live-p process)
      (delete-process process))
    (gemini-companion-test-forget program)
    (ignore-errors
      (delete-file (gemini-companion-test-program-stderr program)))))

(defun gemini-companion-test-random-text (length)
  "Return a random text of LENGTH parts, most of them unusual characters."
  (let ((parts '("\n" "\r\n" "\r" "\0" "\t" " " "a" "word" "\ufeff" "ä" "漢字" "𝕏" "👩‍👩‍👧"
                 "\e[31m" "%s" "\\" "\"" "-*- mode: x -*-" "\u2028" "\u200e" "\x7f"
                 "a\u0301" "\f")))
    (apply #'concat
           (cl-loop repeat length collect (nth (random (length parts)) parts)))))

(provide 'gemini-companion-test-util)
;;; gemini-companion-test-util.el ends here

;;; gemini-companion-test-tmux.el --- A terminal for programs under test  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Programs run in tmux servers of their own.  A test gives thousands of commands to these: to start
;; a tmux for each would take as long as all else.  So one tmux per server stays, in control mode,
;; as tmux's manual calls it: it reads commands from its standard input.

;;; Code:

(require 'cl-lib)
(require 'gemini-companion-test-util)

(defvar gemini-companion-test-tmux--controls (make-hash-table :test #'equal)
  "Processes in control mode by the sockets of their servers.")

(defvar gemini-companion-test-tmux--servers (make-hash-table :test #'equal)
  "Process ids of servers by their sockets.")

(defun gemini-companion-test-tmux-start (socket size command)
  "Start a tmux server at SOCKET with one window that runs COMMAND, a list.
SIZE is its (COLUMNS . LINES)."
  (let ((pid (gemini-companion-test-tmux--run
              socket
              (list "new-session" "-d" "-P" "-F" "#{pid}" "-s" "main"
                    "-x" (number-to-string (car size)) "-y" (number-to-string (cdr size))
                    (concat "exec " (string-join command " "))))))
    (puthash socket (string-to-number pid) gemini-companion-test-tmux--servers))
  (gemini-companion-test-tmux--control socket)
  (gemini-companion-test-tmux socket "set" "-s" "escape-time" "0")
  (gemini-companion-test-tmux socket "set" "-g" "status" "off"))

(defun gemini-companion-test-tmux (socket &rest arguments)
  "Give the tmux server at SOCKET the command ARGUMENTS and return its output."
  (let ((control (gethash socket gemini-companion-test-tmux--controls)))
    (or (and (process-live-p control)
             ;; A command is one line there.
             (not (cl-some (lambda (argument) (string-match-p "[[:cntrl:]]" argument)) arguments))
             (gemini-companion-test-tmux--ask control arguments))
        (gemini-companion-test-tmux--run socket arguments))))

(defun gemini-companion-test-tmux-stop (socket)
  "End the tmux server at SOCKET, if it runs, and wait until it has ended.
A server that is about to end still accepts clients, and fails them."
  (remhash socket gemini-companion-test-tmux--controls)
  (ignore-errors (gemini-companion-test-tmux--run socket '("kill-server")))
  (when-let* ((pid (gethash socket gemini-companion-test-tmux--servers)))
    (gemini-companion-test-wait
     (format "the end of tmux %d" pid)
     (lambda () (not (gemini-companion-test-process-alive-p pid))))
    (remhash socket gemini-companion-test-tmux--servers)))

(defun gemini-companion-test-tmux--environment ()
  "Return an environment for tmux, in which it takes text for UTF-8."
  (cons "LC_ALL=C.UTF-8"
        (cl-remove-if (lambda (it) (string-prefix-p "TMUX" it)) process-environment)))

(defun gemini-companion-test-tmux--fail (arguments output)
  "Signal that the command ARGUMENTS has failed, with OUTPUT."
  (error "The command tmux %s failed: %s" arguments output))

(defun gemini-companion-test-tmux--run (socket arguments)
  "Start a tmux with ARGUMENTS for the server at SOCKET and return its output."
  (with-temp-buffer
    (let* ((process-environment (gemini-companion-test-tmux--environment))
           (coding-system-for-read 'utf-8-unix)
           (coding-system-for-write 'utf-8-unix)
           (status (apply #'call-process "tmux" nil t nil
                          "-S" socket "-f" "/dev/null" arguments)))
      (unless (eq status 0)
        (gemini-companion-test-tmux--fail arguments (buffer-string)))
      (buffer-string))))

;;;; Control mode

(defun gemini-companion-test-tmux--control (socket)
  "Start a tmux in control mode for the server at SOCKET.
It does not hear what programs print, and has no say in the size."
  (let ((process-environment (gemini-companion-test-tmux--environment)))
    (puthash socket
             (make-process
              :name "tmux" :noquery t :coding 'utf-8-unix :sentinel #'ignore
              ;; A batch Emacs that writes to a pipe is killed if nobody reads it any more.
              :connection-type 'pty
              :command (list "tmux" "-S" socket "-C" "attach-session" "-t" "main"
                             "-f" "no-output,ignore-size")
              :filter (lambda (control text)
                        (process-put control 'text (concat (process-get control 'text) text))))
             gemini-companion-test-tmux--controls)))

(defun gemini-companion-test-tmux--ask (control arguments)
  "Give CONTROL the command ARGUMENTS and return its output.
Return nil if CONTROL has ended, and an empty string if the server ends
before it answers, as when a key ends Emacs."
  (process-put control 'text "")
  (ignore-error file-error
    (process-send-string
     control (concat (mapconcat #'gemini-companion-test-quote arguments " ") "\n"))
    (let ((deadline (+ (float-time) gemini-companion-test-timeout))
          (answer nil))
      (while (and (not (setq answer (gemini-companion-test-tmux--answer
                                     (process-get control 'text))))
                  (process-live-p control))
        (when (> (float-time) deadline)
          (error "No answer to the command tmux %s" arguments))
        (accept-process-output control 0.05 nil 'only))
      (pcase answer
        (`("error" ,output) (gemini-companion-test-tmux--fail arguments output))
        (`(,_ ,output) output)
        (_ "")))))

(defun gemini-companion-test-tmux--answer (text)
  "Return the answer in TEXT, of tmux in control mode, as (WORD OUTPUT), or nil.
WORD is \"end\", or \"error\" if the command has failed.  Lines outside of an
answer tell of changes, or are the answer to the first command, to attach."
  (when (string-match "^%begin \\([0-9]+ [0-9]+ 1\\)\n" text)
    (let ((beginning (match-end 0))
          (end (concat "^%\\(end\\|error\\) " (match-string 1 text) "\n")))
      (when (string-match end text beginning)
        (list (match-string 1 text) (substring text beginning (match-beginning 0)))))))

(provide 'gemini-companion-test-tmux)
;;; gemini-companion-test-tmux.el ends here

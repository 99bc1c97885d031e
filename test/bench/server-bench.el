;;; server-bench.el --- What the server can do, beside other servers  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Starting it, how clients connect, and the requests of many clients: of our server while Emacs is idle and while it is
;; busy, of one in Emacs Lisp, of one in Node on MCP's own SDK, and the bare echo of bytes.  All are
;; asked by the same program, load.rs.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path (file-name-directory (macroexp-file-name))))
(require 'gemini-companion-bench)
(require 'gemini-companion-bench-proc)
(require 'gemini-companion-test-util)

(defconst gemini-companion-bench--connections 16
  "How many connections ask at once.")

;;;; Starting

(defun gemini-companion-bench--start ()
  "Measure what starting takes."
  (let ((runs (cl-loop repeat 20 collect (gemini-companion-bench--start-once)))
        (floor "start: require ediff, of Emacs itself"))
    (cl-loop for (name unit baseline) in `((,floor "ms")
                                           ("start: require" "ms" ,floor)
                                           ("start: mode on" "ms" ,floor)
                                           ("start: require and mode on" "ms" ,floor)
                                           ("start: to the first byte served" "ms" ,floor)
                                           ("memory: added by require and mode on" "kB"))
             for n from 0
             do (gemini-companion-bench-add name unit (mapcar (lambda (run) (nth n run)) runs)
                                            baseline))))

(defun gemini-companion-bench--start-once ()
  "Return what one Emacs said of its start."
  (gemini-companion-bench-start-child nil))

(defun gemini-companion-bench--start-whole ()
  "Measure an Emacs that starts and serves a byte, less one that only starts."
  (let ((time (lambda (function)
                (let ((start (current-time)))
                  (funcall function)
                  (* 1e3 (float-time (time-since start)))))))
    (gemini-companion-bench-add
     "start: Emacs to the first byte, less a bare Emacs" "ms"
     (cl-loop repeat 20
              for bare = (funcall time (lambda ()
                                         (call-process (car (gemini-companion-bench-emacs))
                                                       nil nil nil "-Q" "--batch")))
              collect (- (funcall time (lambda () (gemini-companion-bench-start-child "serve")))
                         bare)))))

;;;; Servers

(defun gemini-companion-bench--servers ()
  "Return an alist of the servers, with the command that starts each."
  (let ((emacs (gemini-companion-bench-emacs))
        (child (list "-l" (gemini-companion-bench-path "server-child.el")))
        (lisp (list "-l" (getenv "BENCH_LISP_SERVER") "-f" "gemini-companion-bench-lisp-server"))
        (sdk (gemini-companion-test-path "test" "e2e" "sdk" "node_modules")))
    `(("this, Emacs idle" ,@emacs ,@child)
      ("this, Emacs busy" "env" "BENCH_BUSY=1" ,@emacs ,@child)
      ,@(when (and (executable-find "node") (file-directory-p sdk))
          `(("SDK in Node" "node" ,(gemini-companion-bench-path "sdk-server.mjs"))))
      ("Emacs Lisp" ,@emacs ,@lisp))))

(defun gemini-companion-bench--requests ()
  "Measure each server."
  (let ((program (gemini-companion-bench-load-program)))
    (gemini-companion-bench-with-program (echo (list program "echo-server"))
      (let ((port (car (split-string (gemini-companion-bench-program-line echo)))))
        (gemini-companion-bench--ask "echo of bytes" "1 connection" nil "echo" port "1" "2")
        (gemini-companion-bench--ask-many "echo of bytes" nil "echo" port)))
    (dolist (method '("ping" "tools/list" "initialize"))
      (pcase-dolist (`(,server . ,command) (gemini-companion-bench--servers))
        (gemini-companion-bench-with-program (process command)
          (let ((where (split-string (gemini-companion-bench-program-line process))))
            (apply #'gemini-companion-bench--ask (concat method ": " server) "1 connection"
                   (gemini-companion-bench--baseline method server "1 connection")
                   `("calls" ,@where ,method "1" "2"))
            (apply #'gemini-companion-bench--ask-many (concat method ": " server)
                   (gemini-companion-bench--baseline
                    method server (format "%d connections" gemini-companion-bench--connections))
                   `("calls" ,@where ,method))))))))

(defun gemini-companion-bench--connecting ()
  "Measure how long clients take to connect to each server, and how many it holds."
  (pcase-dolist (`(,server . ,command) (gemini-companion-bench--servers))
    (gemini-companion-bench-with-program (process command)
      (let ((where (split-string (gemini-companion-bench-program-line process)))
            (ours (string-prefix-p "this" server)))
        (gemini-companion-bench-add (format "connect, as the CLI does: %s" server) "us"
                                    (cdr (apply #'gemini-companion-bench--load
                                                `("connect" ,@where "3")))
                                    (unless ours
                                      "connect, as the CLI does: this, Emacs idle"))
        (gemini-companion-bench-add
         (format "served of 20, 2 connections each: %s" server) ""
         (list (gemini-companion-bench--crowd where)))))))

(defun gemini-companion-bench--crowd (where)
  "Return how many of 20 clients the server at WHERE serves."
  (with-temp-buffer
    (unless (eql 0 (apply #'call-process (gemini-companion-bench-load-program) nil t nil
                          `("crowd" ,@where "20")))
      (error "A crowd of clients failed: %s" (buffer-string)))
    (string-to-number (buffer-string))))

(defun gemini-companion-bench--baseline (method server connections)
  "Return with which figure METHOD of SERVER over CONNECTIONS is compared.
Ours is compared with the floor, the others with ours."
  (if (string-prefix-p "this" server)
      (format "echo of bytes, %s" connections)
    (format "%s: this, Emacs idle, %s" method connections)))

(defun gemini-companion-bench--ask (name connections baseline &rest arguments)
  "Add the figure NAME over CONNECTIONS: what each request took.
BASELINE is a figure, ARGUMENTS are those of the program."
  (gemini-companion-bench-add (format "%s, %s" name connections) "us"
                              (cdr (apply #'gemini-companion-bench--load arguments))
                              baseline))

(defun gemini-companion-bench--ask-many (name baseline &rest arguments)
  "Add the figures NAME over many connections.
These are the requests per second, and what each took.  BASELINE is the
figure of many connections, ARGUMENTS are those of the program, without
their number and how long."
  (let* ((connections (format "%d connections" gemini-companion-bench--connections))
         (runs (cl-loop repeat 5 collect
                        (apply #'gemini-companion-bench--load
                               (append arguments
                                       (list (number-to-string gemini-companion-bench--connections)
                                             "0.5"))))))
    (gemini-companion-bench-add (format "%s, %s" name connections) "/s"
                                (mapcar (lambda (run) (/ (length (cdr run)) (car run))) runs)
                                baseline)
    (gemini-companion-bench-add (format "%s, %s, each" name connections) "us"
                                (mapcan #'cdr runs))))

(defun gemini-companion-bench--load (&rest arguments)
  "Run the program that asks with ARGUMENTS.
Return the seconds it took, and the microseconds of each request."
  (with-temp-buffer
    (unless (eql 0 (apply #'call-process (gemini-companion-bench-load-program) nil t nil arguments))
      (error "Asking a server failed: %s" (buffer-string)))
    (let ((words (split-string (buffer-string))))
      (cons (string-to-number (nth 1 words))
            (mapcar #'string-to-number (nthcdr 2 words))))))

;;;; Memory

(defun gemini-companion-bench--allocated ()
  "Add what the server asks of the allocator, as scripts/bench has it counted."
  (with-temp-buffer
    (insert-file-contents (getenv "BENCH_COST"))
    (while (re-search-forward "^\\(memory: .*\\): \\([0-9.]+\\)$" nil t)
      (gemini-companion-bench-add (match-string 1) "" (list (string-to-number (match-string 2)))))))

(defun gemini-companion-bench--sessions ()
  "Measure what memory a session takes, of 20 with an event stream each."
  (pcase-dolist (`(,server . ,command)
                 (assoc-delete-all "this, Emacs busy" (gemini-companion-bench--servers)))
    (gemini-companion-bench-with-program (process command)
      (let* ((where (split-string (gemini-companion-bench-program-line process)))
             (id (process-id (gemini-companion-bench-program-process process)))
             (memory (lambda () (gemini-companion-bench-proc id "VmRSS")))
             (before (funcall memory)))
        (gemini-companion-bench-with-program
            (clients `(,(gemini-companion-bench-load-program) "listen" ,@where "20"))
          (gemini-companion-bench-program-line clients)
          (gemini-companion-bench-add
           (format "memory: each of 20 sessions, %s" server) "kB"
           (list (/ (- (funcall memory) before) 20.0))
           (unless (string-prefix-p "this" server)
             "memory: each of 20 sessions, this, Emacs idle")))))))

(gemini-companion-bench--start)
(gemini-companion-bench--start-whole)
(gemini-companion-bench--requests)
(gemini-companion-bench--connecting)
(gemini-companion-bench--sessions)
(gemini-companion-bench--allocated)

;;; server-bench.el ends here

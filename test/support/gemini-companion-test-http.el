;;; gemini-companion-test-http.el --- A small server of files  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Answers each request with what a function says, right or wrong, and closes
;; the connection.  It runs in this Emacs, whenever that waits.

;;; Code:

(require 'gemini-companion-test-util)

(defun gemini-companion-test-http-start (answer)
  "Start a server that gives ANSWER, and return its process.
ANSWER is called with the path of each request and returns a string, all
that is sent before the connection is closed.  With \(TEXT) it stays open
after TEXT, with nil nothing is sent."
  (make-network-process
   :name "http" :server t :host "127.0.0.1" :service t :family 'ipv4
   :noquery t :coding 'binary
   :filter (lambda (connection bytes)
             (let ((request (concat (process-get connection 'request) bytes)))
               (process-put connection 'request request)
               (when (string-match "\\`GET \\([^ ]+\\) [^\0]*\r\n\r\n" request)
                 (let ((text (funcall answer (match-string 1 request))))
                   (if (listp text)
                       (when text (process-send-string connection (car text)))
                     (process-send-string connection text)
                     (delete-process connection))))))))

(defun gemini-companion-test-http-url (server)
  "Return the address of SERVER, with a slash at its end."
  (format "http://127.0.0.1:%d/" (process-contact server :service)))

(defun gemini-companion-test-http-answer (status body &rest headers)
  "Return an answer of STATUS, such as \"200 OK\", with the bytes BODY.
HEADERS are lines; without them the length of BODY is told."
  (concat "HTTP/1.1 " status "\r\n"
          (mapconcat (lambda (header) (concat header "\r\n"))
                     (or headers (list (format "Content-Length: %d" (length body))))
                     "")
          "\r\n" body))

(provide 'gemini-companion-test-http)
;;; gemini-companion-test-http.el ends here

;;; gemini-companion-test-http.el --- A small HTTP server  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Answers each request with the text that a function returns, valid or not, and
;; closes the connection.  It runs in this Emacs, while that waits for input.

;;; Code:

(require 'gemini-companion-test-util)

(defun gemini-companion-test-http-start (answer)
  "Start a server that answers by the function ANSWER; return its process.
ANSWER is called with the path of each request.  It returns a string to
be sent before the connection is closed, a list (TEXT) to send TEXT and
keep the connection open, or nil to send nothing."
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
  "Return the URL of SERVER, with a slash at its end."
  (format "http://127.0.0.1:%d/" (process-contact server :service)))

(defun gemini-companion-test-http-answer (status body &rest headers)
  "Return an answer of STATUS, such as \"200 OK\", with the bytes BODY.
HEADERS are lines, by default the length of BODY."
  (concat "HTTP/1.1 " status "\r\n"
          (mapconcat (lambda (header) (concat header "\r\n"))
                     (or headers (list (format "Content-Length: %d" (length body))))
                     "")
          "\r\n" body))

(provide 'gemini-companion-test-http)
;;; gemini-companion-test-http.el ends here

;;; gemini-companion-probe.el --- Ask a server for a sign of life -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client of a few requests, to see whether a companion on this machine answers as Gemini CLI
;; needs it.  It never waits: the outcome comes to a function.

;;; Code:

(require 'json)
(require 'subr-x)

(defconst gemini-companion-probe--patience 5
  "Seconds after which no answer is waited for any more.")

(defconst gemini-companion-probe--max-answer 1000000
  "Number of bytes after which an answer is no companion's.")

(defun gemini-companion-probe (port token callback)
  "Ask the companion on PORT, as a client with TOKEN would.
Call CALLBACK once, later, with a symbol and a string: `alive' and the
names of its tools, `refused' and its answer, or `dead' and the reason."
  (gemini-companion-probe--request
   port token nil "POST"
   `((jsonrpc . "2.0") (id . 1) (method . "initialize")
     (params . ((protocolVersion . "2025-06-18") (capabilities . ,(make-hash-table))
                (clientInfo . ((name . "gemini-companion-doctor") (version . "1"))))))
   (lambda (answer)
     (pcase answer
       (`(200 ,headers . ,_)
        (gemini-companion-probe--list-tools
         port token (gemini-companion-probe--header "mcp-session-id" headers) callback))
       (_ (gemini-companion-probe--report answer callback))))))

(defun gemini-companion-probe--list-tools (port token session callback)
  "Ask for the tools in SESSION, end that, and report to CALLBACK.
For PORT and TOKEN see `gemini-companion-probe'."
  (gemini-companion-probe--request
   port token session "POST" '((jsonrpc . "2.0") (id . 2) (method . "tools/list"))
   (lambda (answer)
     (gemini-companion-probe--request port token session "DELETE" nil #'ignore)
     (pcase answer
       (`(200 ,_ . ,body)
        (funcall callback 'alive (gemini-companion-probe--tools body)))
       (_ (gemini-companion-probe--report answer callback))))))

(defun gemini-companion-probe--report (answer callback)
  "Report ANSWER, which is not what was hoped for, to CALLBACK."
  (pcase answer
    (`(,(and (pred integerp) status) . ,_) (funcall callback 'refused (format "HTTP %d" status)))
    (reason (funcall callback 'dead reason))))

(defun gemini-companion-probe--tools (body)
  "Return the names of the tools in the answer BODY, as one string."
  (condition-case nil
      (let ((tools (alist-get 'tools (alist-get 'result (json-read-from-string body)))))
        (mapconcat (lambda (tool) (alist-get 'name tool)) tools ", "))
    (error "")))

;;;; HTTP

(defun gemini-companion-probe--request (port token session method body callback)
  "Send METHOD with the JSON value BODY to PORT, with TOKEN, in SESSION or nil.
Call CALLBACK once with (STATUS HEADERS . BODY) or a reason, a string."
  (condition-case error
      (let ((process (make-network-process
                      :name "gemini-companion-probe" :host "127.0.0.1" :service port
                      :family 'ipv4 :nowait t :noquery t :coding 'binary
                      :filter #'gemini-companion-probe--hear
                      :sentinel #'gemini-companion-probe--see)))
        (process-put process 'request
                     (gemini-companion-probe--text port token session method body))
        (process-put process 'callback callback)
        (process-put process 'timer
                     (run-at-time gemini-companion-probe--patience nil
                                  #'gemini-companion-probe--finish
                                  process "it does not answer")))
    (error (funcall callback (error-message-string error)))))

(defun gemini-companion-probe--hear (process bytes)
  "Add BYTES to what PROCESS, a connection, has answered."
  (let ((answer (concat (process-get process 'answer) bytes)))
    (process-put process 'answer answer)
    (when (> (length answer) gemini-companion-probe--max-answer)
      (gemini-companion-probe--finish process "its answer is far too long"))))

(defun gemini-companion-probe--see (process event)
  "Send the request of PROCESS, a connection, or end it, as EVENT says."
  (let ((answer (process-get process 'answer)))
    (cond ((string-prefix-p "open" event)
           (process-send-string process (process-get process 'request)))
          (answer
           (gemini-companion-probe--finish process
                                           (gemini-companion-probe--answer answer)))
          (t (gemini-companion-probe--finish process (string-trim event))))))

(defun gemini-companion-probe--finish (process outcome)
  "Call the callback of PROCESS, a connection, with OUTCOME, once."
  (when-let* ((callback (process-get process 'callback)))
    (process-put process 'callback nil)
    (cancel-timer (process-get process 'timer))
    (delete-process process)
    (funcall callback outcome)))

(defun gemini-companion-probe--text (port token session method body)
  "Return a request of METHOD with the JSON value BODY for PORT.
It shows TOKEN, and names SESSION unless that is nil."
  (let ((body (if body (encode-coding-string (json-encode body) 'utf-8-unix) ""))
        (end "\r\n"))
    (concat method " /mcp HTTP/1.1" end
            (format "Host: 127.0.0.1:%d" port) end
            "Authorization: Bearer " token end
            "Accept: application/json, text/event-stream" end
            "Content-Type: application/json" end
            (format "Content-Length: %d" (length body)) end
            (and session (concat "Mcp-Session-Id: " session end))
            "Connection: close" end end
            body)))

(defun gemini-companion-probe--answer (text)
  "Return the HTTP response TEXT as (STATUS HEADERS . BODY), or a reason."
  (if (not (string-match "\\`HTTP/1\\.[01] \\([0-9]+\\)[^\n]*\n\\(\\(?:.*[^\r\n].*\n\\)*\\)\r?\n"
                         text))
      "what it says is no HTTP"
    (cons (string-to-number (match-string 1 text))
          (cons (match-string 2 text) (substring text (match-end 0))))))

(defun gemini-companion-probe--header (name headers)
  "Return the value of the header NAME in the text HEADERS, or nil."
  (let ((case-fold-search t))
    (and (string-match (concat "^" (regexp-quote name) ": *\\([^\r\n]*\\)") headers)
         (match-string 1 headers))))

(provide 'gemini-companion-probe)
;;; gemini-companion-probe.el ends here

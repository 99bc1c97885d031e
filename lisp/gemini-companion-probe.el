;;; gemini-companion-probe.el --- Ask a server for a sign of life -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client of a few requests, to see whether a companion on this machine answers as Gemini CLI
;; needs it.  It never waits: the outcome comes to a function.

;;; Code:

(require 'cl-lib)
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
  (let ((answer "")
        (timer nil)
        (process nil))
    (cl-labels
        ((finish (outcome)
           (when callback
             (let ((call callback))
               (setq callback nil)
               (when timer (cancel-timer timer))
               (when process (delete-process process))
               (funcall call outcome))))
         (hear (_process bytes)
           (setq answer (concat answer bytes))
           (when (> (length answer) gemini-companion-probe--max-answer)
             (finish "its answer is far too long")))
         (see (process event)
           (cond ((string-prefix-p "open" event)
                  (process-send-string
                   process (gemini-companion-probe--text port token session method body)))
                 ((string-empty-p answer) (finish (string-trim event)))
                 (t (finish (gemini-companion-probe--answer answer))))))
      (setq timer (run-at-time gemini-companion-probe--patience nil
                               (lambda () (finish "it does not answer"))))
      (condition-case error
          (setq process (make-network-process
                         :name "gemini-companion-probe" :host "127.0.0.1" :service port
                         :family 'ipv4 :nowait t :noquery t :coding 'binary
                         :filter #'hear :sentinel #'see))
        (error (finish (error-message-string error)))))))

(defun gemini-companion-probe--text (port token session method body)
  "Return a request of METHOD with the JSON value BODY.
For the others see `gemini-companion-probe--request'."
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

;;; lisp-server.el --- An MCP server in Lisp, to compare with  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a package does that has no module: filters of `make-network-process',
;; and Emacs's own JSON.  What ours does besides (guards of host and origin,
;; limits, numbered events, who the client is, reviews) is left out, to its
;; advantage; garbage is collected as often as Emacs does by itself, since that
;; is not a package's to change.
;;
;; Compiled, loaded in batch and called by -f, `gemini-companion-bench-lisp-server'
;; prints its port and its token, and serves as long as its parent lives.

;;; Code:

(require 'subr-x)

(defconst gemini-companion-bench--tools
  (with-temp-buffer
    (insert-file-contents (expand-file-name "tools.json" (file-name-directory load-file-name)))
    (json-parse-buffer :object-type 'alist))
  "The result of `tools/list', which is that of our own server.")

(defvar gemini-companion-bench--token nil
  "What each request has to show.")

(defvar gemini-companion-bench--sessions (make-hash-table :test #'equal)
  "The event stream of each session, a process; t if it has none.")

(defun gemini-companion-bench--random ()
  "Return a text that is not to be guessed."
  (md5 (format "%s %s %s" (random) (emacs-pid) (float-time))))

;;;; HTTP

(defun gemini-companion-bench--accept (_server connection _message)
  "Give CONNECTION a buffer for what it receives."
  (with-current-buffer (generate-new-buffer " *lisp-server*" t)
    (set-buffer-multibyte nil)
    (set-process-buffer connection (current-buffer))))

(defun gemini-companion-bench--changed (connection _event)
  "Forget CONNECTION if it has ended."
  (unless (process-live-p connection)
    (let ((session (process-get connection 'session)))
      (when (eq (gethash session gemini-companion-bench--sessions) connection)
        (puthash session t gemini-companion-bench--sessions)))
    (kill-buffer (process-buffer connection))))

(defun gemini-companion-bench--receive (connection bytes)
  "Answer the requests that are complete now that BYTES came on CONNECTION."
  (condition-case problem
      (with-current-buffer (process-buffer connection)
        (goto-char (point-max))
        (insert bytes)
        (while (gemini-companion-bench--next connection)))
    (error (message "lisp-server: %s" (error-message-string problem))
           (delete-process connection))))

(defun gemini-companion-bench--next (connection)
  "Answer the first request in the buffer of CONNECTION; nil if it is incomplete."
  (goto-char (point-min))
  (when-let* ((start (search-forward "\r\n\r\n" nil t))
              (header (lambda (pattern)
                        (goto-char (point-min))
                        (and (re-search-forward pattern start t) (match-string 1))))
              (end (+ start (string-to-number
                             (or (funcall header "^content-length: *\\([0-9]+\\)") "0"))))
              ((<= end (point-max))))
    (let ((request (list (funcall header "\\`\\([A-Z]+\\) /mcp ")
                         (funcall header "^authorization: Bearer \\([^\r]*\\)")
                         (funcall header "^mcp-session-id: *\\([^\r]*\\)")
                         (decode-coding-string (buffer-substring start end) 'utf-8 t))))
      (delete-region (point-min) end)
      (apply #'gemini-companion-bench--serve connection request)
      t)))

(defun gemini-companion-bench--reply (connection status &optional result headers)
  "Answer on CONNECTION with STATUS, HEADERS, and RESULT as JSON."
  (let ((body (if result (encode-coding-string (json-serialize result) 'utf-8 t) "")))
    (process-send-string
     connection (concat "HTTP/1.1 " status "\r\nContent-Type: application/json\r\n"
                        "Content-Length: " (number-to-string (length body)) "\r\n"
                        headers "\r\n" body))))

(defun gemini-companion-bench--serve (connection method token session body)
  "Serve a request on CONNECTION, with its METHOD, TOKEN, SESSION and BODY."
  (let ((stream (gethash session gemini-companion-bench--sessions)))
    (cond ((not (equal token gemini-companion-bench--token))
           (gemini-companion-bench--reply connection "401 Unauthorized"))
          ((equal method "POST")
           (gemini-companion-bench--post
            connection stream (json-parse-string body :object-type 'alist :null-object nil)))
          ((not stream) (gemini-companion-bench--reply connection "404 Not Found"))
          ((equal method "GET")
           (process-put connection 'session session)
           (puthash session connection gemini-companion-bench--sessions)
           (process-send-string
            connection "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
Transfer-Encoding: chunked\r\n\r\nd\r\n: connected\n\n\r\n"))
          ((equal method "DELETE")
           (when (processp stream)
             (process-send-string stream "0\r\n\r\n"))
           (remhash session gemini-companion-bench--sessions)
           (gemini-companion-bench--reply connection "200 OK"))
          (t (gemini-companion-bench--reply connection "405 Method Not Allowed")))))

(defun gemini-companion-bench--keep-alive ()
  "Let no stream be silent for so long that its client gives up."
  (dolist (stream (hash-table-values gemini-companion-bench--sessions))
    (when (processp stream)
      (process-send-string stream "e\r\n: keep-alive\n\n\r\n"))))

;;;; MCP

(defun gemini-companion-bench--post (connection known message)
  "Answer MESSAGE on CONNECTION; KNOWN: its session is."
  (let-alist message
    (cond ((equal .method "initialize")
           (let ((session (gemini-companion-bench--random)))
             (puthash session t gemini-companion-bench--sessions)
             (gemini-companion-bench--reply
              connection "200 OK"
              `( :jsonrpc "2.0" :id ,.id
                 :result ( :protocolVersion ,.params.protocolVersion :capabilities (:tools nil)
                           :serverInfo (:name "lisp-server" :version "1")))
              (concat "Mcp-Session-Id: " session "\r\n"))))
          ((not known) (gemini-companion-bench--reply connection "404 Not Found"))
          ((not .id) (gemini-companion-bench--reply connection "202 Accepted"))
          (t (gemini-companion-bench--reply
              connection "200 OK"
              `( :jsonrpc "2.0" :id ,.id
                 ,@(pcase .method
                     ("ping" '(:result nil))
                     ("tools/list" `(:result ,gemini-companion-bench--tools))
                     ("tools/call" '(:result (:content [])))
                     (_ '(:error (:code -32601 :message "Method not found"))))))))))

;;;; The program

(defun gemini-companion-bench--parent ()
  "Return the id of the process that started this one."
  (alist-get 'ppid (process-attributes (emacs-pid))))

(defun gemini-companion-bench-lisp-server ()
  "Serve as long as the parent of this process lives."
  (setq gemini-companion-bench--token (gemini-companion-bench--random)
        read-process-output-max (ash 1 16)) ; as newer versions have it
  (let ((parent (gemini-companion-bench--parent))
        (server (make-network-process
                 :name "lisp-server" :server 128 :family 'ipv4 :host "127.0.0.1" :service t
                 :noquery t :coding 'binary
                 :log #'gemini-companion-bench--accept
                 :filter #'gemini-companion-bench--receive
                 :sentinel #'gemini-companion-bench--changed)))
    (run-at-time 15 15 #'gemini-companion-bench--keep-alive)
    (run-at-time 1 1 (lambda ()
                       (unless (equal parent (gemini-companion-bench--parent))
                         (kill-emacs))))
    ;; What `princ' writes into a pipe stays in a buffer of this process.
    (send-string-to-terminal
     (format "%s %s\n" (process-contact server :service) gemini-companion-bench--token))
    (while t
      (accept-process-output nil 1000))))

(provide 'lisp-server)
;;; lisp-server.el ends here

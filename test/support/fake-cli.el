;;; fake-cli.el --- A small stand-in for Gemini CLI  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An MCP client that does what the CLI's IDE client does, in the same order and
;; as strictly, over plain sockets: it finds the discovery file, sends
;; `initialize' and `notifications/initialized' (and requires 202), opens the
;; event stream, lists the tools, opens and closes diffs and receives their
;; outcomes.  It is used where there is no Node, by the demo, and by tests of
;; the protocol itself.
;;
;;   (let ((cli (fake-cli-connect "/tmp" "/home/me/project/")))
;;     (fake-cli-call-tool cli "openDiff" '(:filePath "..." :newContent "..."))
;;     (fake-cli-wait-notification cli "ide/diffAccepted")
;;     (fake-cli-disconnect cli))

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'url-util)
(require 'gemini-companion-test-util)

(define-error 'fake-cli-error "The companion violated the protocol")

(cl-defstruct (fake-cli (:constructor fake-cli--make) (:copier nil))
  "A connected client."
  (discovery nil :documentation "The discovery file's object.")
  (directory nil :documentation "On a host, the directory in which it works.")
  (session nil :documentation "The MCP session id.")
  (next-id 0 :documentation "Id of the next request.")
  (stream nil :documentation "The exchange that is the event stream.")
  (tools nil :documentation "What `tools/list' returned.")
  (notifications nil :documentation "All notifications, newest first.")
  (context nil :documentation "Parameters of the last `ide/contextUpdate'.")
  (faults nil :documentation "Messages of the server that violate the protocol.")
  (ended nil :documentation "Non-nil once the event stream has ended."))

;;;; Finding the companion

(defconst fake-cli--discovery-name
  "\\`gemini-ide-server-\\([0-9]+\\)-[0-9]+\\.json\\'"
  "Regexp for names of discovery files, with their process id.")

(defun fake-cli-discover (tmpdir directory)
  "Return the discovery object in TMPDIR for a client in DIRECTORY.
Of several that fit, those of living processes come first, then the
larger process id, as in the CLI."
  (let ((files (fake-cli--discovery-files
                (expand-file-name "gemini/ide" tmpdir))))
    (seq-some
     (lambda (file)
       (let ((object (ignore-errors (gemini-companion-test-json-decode
                                     (gemini-companion-test-bytes file)))))
         (and (fake-cli--within-p directory (alist-get 'workspacePath object))
              object)))
     files)))

(defun fake-cli--discovery-files (directory)
  "Return the user's discovery files in DIRECTORY, best first."
  (sort
   (seq-filter (lambda (file)
                 (= (file-attribute-user-id (file-attributes file))
                    (user-uid)))
               (and (file-directory-p directory)
                    (directory-files directory t fake-cli--discovery-name)))
   (lambda (a b)
     (let* ((a-process (fake-cli--process-in-name a))
            (b-process (fake-cli--process-in-name b))
            (a-lives (process-attributes a-process))
            (b-lives (process-attributes b-process)))
       (if (eq (not a-lives) (not b-lives))
           (> a-process b-process)
         a-lives)))))

(defun fake-cli--process-in-name (file)
  "Return the process id in the name of FILE, a discovery file."
  (let ((name (file-name-nondirectory file)))
    (string-match fake-cli--discovery-name name)
    (string-to-number (match-string 1 name))))

(defun fake-cli--within-p (directory roots)
  "Return non-nil if DIRECTORY is in one of ROOTS, separated by colons."
  (and (stringp roots)
       (seq-some (lambda (root)
                   (file-in-directory-p (file-truename directory) root))
                 (split-string roots ":" t))))

;;;; HTTP

;; By 4 kB, as Emacs 28 reads by default, 20 MB take a minute.
(setq read-process-output-max (* 1024 1024))

(cl-defstruct (fake-cli-exchange (:constructor fake-cli-exchange--make)
                                 (:conc-name fake-cli-exchange-))
  "One HTTP request and its answer."
  process
  status
  headers
  (pending "" :documentation "Bytes that have not been parsed yet.")
  (body "" :documentation "The bytes of the body, if ON-BODY is nil.")
  (on-body nil :documentation "Function called with new body bytes.")
  (done nil :documentation "Non-nil if complete; `cut' if the connection broke."))

(cl-defun fake-cli-http (port method &key headers body on-body (path "/mcp"))
  "Send a request with METHOD for PATH to the server at PORT; return its exchange.
HEADERS are (NAME . VALUE) pairs, BODY is a string of bytes, and
ON-BODY is called with the bytes of the answer as they come."
  (let* ((exchange (fake-cli-exchange--make :on-body on-body))
         (process (make-network-process
                   :name "fake-cli" :host "127.0.0.1" :service port
                   :coding 'binary :noquery t
                   :filter (lambda (_process bytes)
                             (fake-cli--take exchange bytes))
                   :sentinel (lambda (process _event)
                               (unless (process-live-p process)
                                 (fake-cli--cut exchange))))))
    (setf (fake-cli-exchange-process exchange) process)
    (process-send-string
     process
     (concat method " " path " HTTP/1.1\r\n"
             (mapconcat (lambda (it) (concat (car it) ": " (cdr it) "\r\n"))
                        (append headers
                                `(("Host" . ,(format "127.0.0.1:%d" port))
                                  ("Connection" . "close"))
                                (and body
                                     `(("Content-Length"
                                        . ,(number-to-string
                                            (string-bytes body))))))
                        "")
             "\r\n" body))
    exchange))

(defun fake-cli--take (exchange bytes)
  "Add BYTES to EXCHANGE and parse what is complete."
  (setf (fake-cli-exchange-pending exchange)
        (concat (fake-cli-exchange-pending exchange) bytes))
  (unless (fake-cli-exchange-status exchange)
    (fake-cli--take-head exchange))
  (when (and (fake-cli-exchange-status exchange)
             (not (fake-cli-exchange-done exchange)))
    (if (equal (fake-cli-header exchange "transfer-encoding") "chunked")
        (while (fake-cli--take-chunk exchange))
      (fake-cli--take-plain exchange))))

(defun fake-cli--take-head (exchange)
  "Parse the status and the headers of EXCHANGE, once they are complete."
  (let* ((pending (fake-cli-exchange-pending exchange))
         (end (string-match "\r\n\r\n" pending)))
    (when end
      (let ((lines (split-string (substring pending 0 end) "\r\n")))
        (setf (fake-cli-exchange-status exchange)
              (string-to-number (cadr (split-string (pop lines) " ")))
              (fake-cli-exchange-headers exchange)
              (mapcar (lambda (line)
                        (let ((colon (string-search ":" line)))
                          (cons (downcase (substring line 0 colon))
                                (string-trim (substring line (1+ colon))))))
                      lines)
              (fake-cli-exchange-pending exchange)
              (substring pending (+ end 4)))))))

(defun fake-cli-header (exchange name)
  "Return the value of the header NAME, in lower case, of EXCHANGE."
  (cdr (assoc name (fake-cli-exchange-headers exchange))))

(defun fake-cli--handle-body (exchange bytes)
  "Handle BYTES, a part of the body of EXCHANGE."
  (if (fake-cli-exchange-on-body exchange)
      (funcall (fake-cli-exchange-on-body exchange) bytes)
    (setf (fake-cli-exchange-body exchange)
          (concat (fake-cli-exchange-body exchange) bytes))))

(defun fake-cli--take-chunk (exchange)
  "Take one chunk of EXCHANGE; return nil if none is complete."
  (let ((pending (fake-cli-exchange-pending exchange)))
    (when (and (not (fake-cli-exchange-done exchange))
               (string-match "\\`\\([0-9a-fA-F]+\\)[^\r\n]*\r\n" pending))
      (let* ((size (string-to-number (match-string 1 pending) 16))
             (start (match-end 0))
             (end (+ start size 2)))
        (when (<= end (length pending))
          (setf (fake-cli-exchange-pending exchange) (substring pending end))
          (if (zerop size)
              (setf (fake-cli-exchange-done exchange) t)
            (fake-cli--handle-body exchange (substring pending start (- end 2))))
          t)))))

(defun fake-cli--take-plain (exchange)
  "Take the body of EXCHANGE, whose length is in its headers."
  (let ((length (string-to-number
                 (or (fake-cli-header exchange "content-length") "0")))
        (pending (fake-cli-exchange-pending exchange)))
    (when (>= (length pending) length)
      (fake-cli--handle-body exchange (substring pending 0 length))
      (setf (fake-cli-exchange-done exchange) t))))

(defun fake-cli--cut (exchange)
  "Record that the connection of EXCHANGE was closed."
  (unless (fake-cli-exchange-done exchange)
    (setf (fake-cli-exchange-done exchange) 'cut)))

(defun fake-cli-await (exchange)
  "Wait until EXCHANGE is complete and return it."
  (gemini-companion-test-wait
   "an HTTP answer" (lambda () (fake-cli-exchange-done exchange)))
  (delete-process (fake-cli-exchange-process exchange))
  (when (eq (fake-cli-exchange-done exchange) 'cut)
    (signal 'fake-cli-error (list "The connection was closed too early")))
  exchange)

;;;; Messages

(defun fake-cli-port (cli)
  "Return the port that CLI is connected to."
  (alist-get 'port (fake-cli-discovery cli)))

(defun fake-cli--headers (cli accept)
  "Return the headers of a request of CLI that accepts the type ACCEPT."
  `(("Authorization" . ,(concat "Bearer " (alist-get 'authToken
                                                     (fake-cli-discovery cli))))
    ("Accept" . ,accept)
    ,@(and (fake-cli-directory cli)
           `(("Gemini-Companion-Directory" . ,(url-hexify-string (fake-cli-directory cli)))))
    ,@(and (fake-cli-session cli)
           `(("mcp-session-id" . ,(fake-cli-session cli))
             ("mcp-protocol-version" . "2025-06-18")))))

(defun fake-cli-post (cli message &optional path)
  "Post MESSAGE, a plist, for CLI and return the finished exchange.
PATH is that of the URL, by default that of the session."
  (fake-cli-await
   (fake-cli-http
    (fake-cli-port cli) "POST"
    :headers `(("Content-Type" . "application/json")
               ,@(fake-cli--headers
                  cli "application/json, text/event-stream"))
    :path (or path "/mcp")
    :body (gemini-companion-test-json-encode
           `(:jsonrpc "2.0" ,@message)))))

(defun fake-cli-notify (cli method)
  "Send the notification METHOD for CLI."
  (let ((exchange (fake-cli-post cli `(:method ,method))))
    (unless (eq (fake-cli-exchange-status exchange) 202)
      (signal 'fake-cli-error
              (list "A notification was not answered by 202"
                    (fake-cli-exchange-status exchange))))))

(defun fake-cli-request (cli method &optional params)
  "Send the request METHOD with PARAMS for CLI; return its result."
  (let* ((id (cl-incf (fake-cli-next-id cli)))
         (message (append (list :id id :method method)
                          (and params (list :params params))))
         (exchange (fake-cli-post cli message))
         (answer (fake-cli--answer exchange id)))
    (unless (fake-cli-session cli)
      (setf (fake-cli-session cli) (fake-cli-header exchange "mcp-session-id")))
    (when (assq 'error answer)
      (signal 'fake-cli-error (list (alist-get 'error answer))))
    (alist-get 'result answer)))

(defun fake-cli--answer (exchange id)
  "Return the JSON-RPC answer with ID in EXCHANGE."
  (let* ((body (fake-cli-exchange-body exchange))
         (messages
          (cond ((not (eq (fake-cli-exchange-status exchange) 200))
                 (signal 'fake-cli-error
                         (list (fake-cli-exchange-status exchange) body)))
                ((string-prefix-p "text/event-stream"
                                  (fake-cli-header exchange "content-type"))
                 (let (found)
                   (funcall (fake-cli--event-reader
                             (lambda (data) (push data found)))
                            body)
                   found))
                (t (list body))))
         (answer (seq-find (lambda (it) (equal (alist-get 'id it) id))
                           (mapcar #'gemini-companion-test-json-decode
                                   messages))))
    (or answer (signal 'fake-cli-error (list "No answer in" body)))))

;;;; The event stream

(defun fake-cli--event-reader (function)
  "Return a function that takes bytes and calls FUNCTION with events' data.
Comments and fields other than data are ignored."
  (let ((pending "") (data nil))
    (lambda (bytes)
      (let ((lines (split-string (concat pending bytes) "\r?\n")))
        (while (cdr lines)
          (let ((line (pop lines)))
            (cond ((string-prefix-p "data:" line)
                   (push (string-remove-prefix " " (substring line 5)) data))
                  ((and (string-empty-p line) data)
                   (funcall function (string-join (nreverse data) "\n"))
                   (setq data nil)))))
        (setq pending (car lines))))))

(defun fake-cli--open-stream (cli)
  "Open the event stream of CLI and wait for its headers."
  (let ((exchange (fake-cli-http
                   (fake-cli-port cli) "GET"
                   :headers (fake-cli--headers cli "text/event-stream")
                   :on-body (fake-cli--event-reader
                             (lambda (data) (fake-cli--receive cli data))))))
    (setf (fake-cli-stream cli) exchange)
    (gemini-companion-test-wait
     "the event stream"
     (lambda () (or (fake-cli-exchange-status exchange)
                    (fake-cli-exchange-done exchange))))
    (unless (and (eq (fake-cli-exchange-status exchange) 200)
                 (equal (fake-cli-header exchange "content-type")
                        "text/event-stream"))
      (signal 'fake-cli-error
              (list "No event stream" (fake-cli-exchange-status exchange)
                    (fake-cli-exchange-headers exchange))))))

(defun fake-cli--receive (cli data)
  "Handle DATA, one message from the event stream of CLI."
  (condition-case err
      (let* ((message (gemini-companion-test-json-decode data))
             (method (alist-get 'method message)))
        (fake-cli--check message)
        (cond ((equal method "ping")
               (run-at-time 0 nil #'fake-cli-post cli
                            (list :id (alist-get 'id message)
                                  :result (make-hash-table))))
              (method
               (push message (fake-cli-notifications cli))
               (when (equal method "ide/contextUpdate")
                 (setf (fake-cli-context cli)
                       (fake-cli--normalize (alist-get 'params message)))))))
    (error (push (list (error-message-string err) data)
                 (fake-cli-faults cli)))))

(defun fake-cli--check (message)
  "Signal an error if MESSAGE does not match the CLI's schemas."
  (let ((unknown (cl-set-difference (mapcar #'car message)
                                    '(jsonrpc id method params))))
    (when unknown
      (error "Unknown members %S" unknown)))
  (unless (or (alist-get 'params message)
              (equal (alist-get 'method message) "ping"))
    (error "No params"))
  (when (fake-cli--contains-null-p message)
    (error "A member is null"))
  (pcase (alist-get 'method message)
    ("ide/diffAccepted"
     (unless (stringp (alist-get 'content (alist-get 'params message)))
       (error "No content")))
    ("ide/contextUpdate"
     (dolist (file (fake-cli-open-files (alist-get 'params message)))
       (unless (and (stringp (alist-get 'path file))
                    (numberp (alist-get 'timestamp file)))
         (error "An open file without path or timestamp"))))))

(defun fake-cli--contains-null-p (value)
  "Return non-nil if VALUE is or contains a JSON null."
  (cond ((eq value :null) t)
        ((consp value) (or (fake-cli--contains-null-p (car value))
                           (fake-cli--contains-null-p (cdr value))))))

(defun fake-cli-open-files (context)
  "Return the open files that CONTEXT lists."
  (alist-get 'openFiles (alist-get 'workspaceState context)))

(defun fake-cli--normalize (context)
  "Return CONTEXT as the CLI interprets it.
Files are sorted by age; only the newest can be active."
  (let* ((newest-first (lambda (a b) (> (alist-get 'timestamp a)
                                        (alist-get 'timestamp b))))
         (files (sort (copy-sequence (fake-cli-open-files context))
                      newest-first))
         (active (and (alist-get 'isActive (car files)) (car files)))
         (passive (lambda (file)
                    (if (eq file active)
                        file
                      (seq-remove (lambda (it)
                                    (memq (car it)
                                          '(isActive cursor selectedText)))
                                  file)))))
    `((workspaceState (openFiles . ,(mapcar passive files))))))

;;;; The session

(defun fake-cli-connect (tmpdir directory)
  "Connect to the companion that TMPDIR names for DIRECTORY; return the client.
Wait until there is one."
  (fake-cli-connect-to
   (gemini-companion-test-wait (format "a companion for %s" directory)
                               (lambda () (fake-cli-discover tmpdir directory)))))

(defun fake-cli-connect-to (discovery &optional directory)
  "Connect to the companion that the object DISCOVERY names; return the client.
With DIRECTORY do what the relay on a host does: tell that it works there."
  (let ((cli (fake-cli--make :discovery discovery :directory directory)))
    (fake-cli-request cli "initialize"
                      `((protocolVersion . "2025-06-18")
                        (capabilities . ,(make-hash-table))
                        (clientInfo (name . "fake-cli") (version . "1"))))
    (unless (fake-cli-session cli)
      (signal 'fake-cli-error (list "No session id")))
    (fake-cli-notify cli "notifications/initialized")
    (fake-cli--open-stream cli)
    (setf (fake-cli-tools cli)
          (alist-get 'tools (fake-cli-request cli "tools/list")))
    cli))

(defun fake-cli-call-tool (cli name arguments)
  "Call the tool NAME with ARGUMENTS, a plist, for CLI; return its result."
  (fake-cli-request cli "tools/call" `(:name ,name :arguments ,arguments)))

(defun fake-cli-call-hidden-tool (tmpdir directory name arguments)
  "Call the tool NAME with ARGUMENTS, a plist, as hooks do; return its result.
TMPDIR and DIRECTORY are as in `fake-cli-discover'."
  (let ((cli (fake-cli--make :discovery (fake-cli-discover tmpdir directory))))
    (alist-get 'result
               (fake-cli--answer
                (fake-cli-post cli `(:id 1 :method "tools/call"
                                         :params (:name ,name :arguments ,arguments))
                               "/mcp/tools")
                1))))

(defun fake-cli-result-text (result)
  "Return the text of the one text block in the tool's RESULT, or nil."
  (let ((content (alist-get 'content result)))
    (and (null (cdr content))
         (equal (alist-get 'type (car content)) "text")
         (alist-get 'text (car content)))))

(defun fake-cli-closed-text (result)
  "Return the text of the review in RESULT, that of closeDiff, or nil."
  (and (not (alist-get 'isError result))
       (let ((text (alist-get 'content
                              (gemini-companion-test-json-decode
                               (encode-coding-string (fake-cli-result-text result) 'utf-8)))))
         (and (stringp text) text))))

(defun fake-cli-find-notification (cli method &optional predicate)
  "Return params of the newest notification METHOD to CLI, or nil.
PREDICATE, if given, must hold for the params."
  (seq-some (lambda (message)
              (let ((params (alist-get 'params message)))
                (and (equal (alist-get 'method message) method)
                     (or (null predicate) (funcall predicate params))
                     params)))
            (fake-cli-notifications cli)))

(defun fake-cli-wait-notification (cli method &optional predicate)
  "Wait for the notification METHOD to CLI and return its params.
PREDICATE is as in `fake-cli-find-notification'."
  (gemini-companion-test-wait
   (lambda () (format "%s; received %S" method (fake-cli-notifications cli)))
   (lambda () (fake-cli-find-notification cli method predicate))))

(defun fake-cli-stream-state (cli)
  "Return nil if the event stream of CLI is open, t if it has ended, or `cut'."
  (fake-cli-exchange-done (fake-cli-stream cli)))

(defun fake-cli-disconnect (cli)
  "Close the event stream of CLI, as the real CLI does when it ends."
  (delete-process (fake-cli-exchange-process (fake-cli-stream cli))))

(defun fake-cli-terminate (cli)
  "End the session of CLI by a DELETE request."
  (let ((exchange (fake-cli-await
                   (fake-cli-http
                    (fake-cli-port cli) "DELETE"
                    :headers (fake-cli--headers cli "application/json")))))
    (unless (eq (fake-cli-exchange-status exchange) 200)
      (signal 'fake-cli-error
              (list "DELETE" (fake-cli-exchange-status exchange))))))

(provide 'fake-cli)
;;; fake-cli.el ends here

;;; gemini-companion-relay-test.el --- Tests of what a CLI on a host starts  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The program runs in Node.  The tests are its CLI, and most of them are also its Emacs: a small
;; HTTP server on a unix socket, which records requests and answers them as the test wants.  The last
;; ones have the real server, behind a socket that can be cut.

;;; Code:

(require 'ert)
(require 'gemini-companion-bridge)
(require 'gemini-companion-host)
(require 'gemini-companion-test-companion)

(defconst gemini-companion-relay-test--program (gemini-companion-test-path "src" "relay.mjs"))

(defconst gemini-companion-relay-test--close-content
  [(:type "text" :text "{\"content\":\"edited\"}")]
  "What Emacs answers when a diff is closed.")

;;;; Emacs

(cl-defstruct (gemini-companion-relay-test-emacs
               (:constructor gemini-companion-relay-test--make-emacs)
               (:conc-name gemini-companion-relay-test--))
  "What stands in for Emacs."
  socket
  process
  (connections nil :documentation "Open ones, newest first.")
  (requests nil :documentation "All that have come, newest first.")
  (sessions 0 :documentation "How many were begun.")
  (handler #'ignore :documentation "Called with each request: an answer, `hold', or nil.")
  (stream nil :documentation "The connection with the newest event stream."))

(cl-defstruct (gemini-companion-relay-test-request
               (:constructor gemini-companion-relay-test--make-request)
               (:conc-name gemini-companion-relay-test-request-))
  method headers (body nil :documentation "As an alist.") connection)

(defun gemini-companion-relay-test--listen (emacs)
  "Let EMACS have a socket."
  (setf (gemini-companion-relay-test--process emacs)
        (make-network-process
         :name "emacs" :server t :family 'local :noquery t :coding 'binary
         :service (gemini-companion-relay-test--socket emacs)
         :log (lambda (_ connection _)
                (push connection (gemini-companion-relay-test--connections emacs)))
         :filter (lambda (connection bytes)
                   (gemini-companion-relay-test--receive emacs connection bytes))
         :sentinel #'ignore)))

(defun gemini-companion-relay-test--cut (emacs)
  "End the socket and all connections of EMACS."
  (delete-process (gemini-companion-relay-test--process emacs))
  (mapc #'delete-process (gemini-companion-relay-test--connections emacs))
  (setf (gemini-companion-relay-test--connections emacs) nil
        (gemini-companion-relay-test--stream emacs) nil)
  (ignore-errors (delete-file (gemini-companion-relay-test--socket emacs))))

(defun gemini-companion-relay-test--forget-session (emacs)
  "Cut the way to EMACS; when it is back, it no longer knows the session s1."
  (gemini-companion-relay-test--cut emacs)
  (setf (gemini-companion-relay-test--handler emacs)
        (lambda (request)
          (when (equal (gemini-companion-relay-test--header request "mcp-session-id") "s1")
            '(404 nil ""))))
  (gemini-companion-relay-test--listen emacs))

(defun gemini-companion-relay-test--receive (emacs connection bytes)
  "Take BYTES that EMACS was sent on CONNECTION."
  (let ((chunks (cons bytes (process-get connection 'chunks)))
        (size (+ (length bytes) (or (process-get connection 'size) 0))))
    (process-put connection 'chunks chunks)
    (process-put connection 'size size)
    (when (>= size (or (process-get connection 'wanted) 0))
      (let ((all (apply #'concat (reverse chunks))))
        (process-put connection 'chunks (list all))
        (when (string-match "\r\n\r\n" all)
          (gemini-companion-relay-test--receive-request
           emacs connection all (match-end 0)))))))

(defun gemini-companion-relay-test--receive-request (emacs connection all start)
  "Take the first request in ALL, bytes of CONNECTION, if it is complete.
Its body begins at START.  Let EMACS answer it."
  (let* ((lines (split-string (substring all 0 (- start 4)) "\r\n"))
         (headers (mapcar (lambda (line)
                            (string-match "\\`\\([^:]*\\): *\\(.*\\)" line)
                            (cons (downcase (match-string 1 line)) (match-string 2 line)))
                          (cdr lines)))
         (end (+ start (string-to-number (or (cdr (assoc "content-length" headers)) "0")))))
    (process-put connection 'wanted end)
    (when (>= (length all) end)
      (process-put connection 'chunks nil)
      (process-put connection 'size 0)
      (process-put connection 'wanted nil)
      (gemini-companion-relay-test--serve
       emacs
       (gemini-companion-relay-test--make-request
        :method (car (split-string (car lines))) :headers headers :connection connection
        :body (and (> end start)
                   (gemini-companion-test-json-decode (substring all start end))))))))

(defun gemini-companion-relay-test--serve (emacs request)
  "Let EMACS answer REQUEST."
  (push request (gemini-companion-relay-test--requests emacs))
  (let ((answer (or (funcall (gemini-companion-relay-test--handler emacs) request)
                    (gemini-companion-relay-test--usual emacs request))))
    (unless (eq answer 'hold)
      (gemini-companion-relay-test--answer request answer))))

(defun gemini-companion-relay-test--usual (emacs request)
  "Return what EMACS usually answers to REQUEST."
  (let ((id (gemini-companion-relay-test--in request 'id)))
    (pcase (gemini-companion-relay-test--what request)
      ("GET"
       (setf (gemini-companion-relay-test--stream emacs)
             (gemini-companion-relay-test-request-connection request))
       '(200 (("Content-Type" . "text/event-stream") ("Transfer-Encoding" . "chunked"))))
      ("DELETE" '(200 nil ""))
      ("initialize"
       (gemini-companion-relay-test--result
        id '(:protocolVersion "2025-06-18" :capabilities (:tools nil)
                              :serverInfo (:name "emacs" :version "1"))
        `(("Mcp-Session-Id" . ,(format "s%d" (cl-incf (gemini-companion-relay-test--sessions
                                                       emacs)))))))
      ("closeDiff"
       (gemini-companion-relay-test--result
        id (list :content gemini-companion-relay-test--close-content)))
      ((guard id) (gemini-companion-relay-test--result id '(:content [])))
      (_ '(202 nil "")))))

(defun gemini-companion-relay-test--result (id result &optional headers)
  "Return an answer with HEADERS to the request ID that has this RESULT."
  (list 200 (cons '("Content-Type" . "application/json") headers)
        (gemini-companion-test-json-encode (list :jsonrpc "2.0" :id id :result result))))

(defun gemini-companion-relay-test--answer (request answer)
  "Answer REQUEST by ANSWER, (STATUS HEADERS BODY); without BODY it goes on."
  (pcase-let ((`(,status ,headers ,body) answer)
              (connection (gemini-companion-relay-test-request-connection request)))
    (when (process-live-p connection)
      (process-send-string
       connection
       (concat (format "HTTP/1.1 %d Status\r\n" status)
               (mapconcat (pcase-lambda (`(,name . ,value)) (format "%s: %s\r\n" name value))
                          headers "")
               (and body (format "Content-Length: %d\r\n" (length body)))
               "\r\n" body)))))

(defun gemini-companion-relay-test--say (emacs id message)
  "Let EMACS say MESSAGE on its event stream, as the event ID."
  (let ((event (encode-coding-string
                (format "id: %d\ndata: %s\n\n" id
                        (decode-coding-string (gemini-companion-test-json-encode message)
                                              'utf-8))
                'utf-8)))
    (process-send-string (gemini-companion-relay-test--stream emacs)
                         (concat (format "%x\r\n" (length event)) event "\r\n"))))

(defun gemini-companion-relay-test--say-outcome (emacs id file proposal &optional content)
  "Let EMACS say, as the event ID, that PROPOSAL of FILE was accepted with CONTENT.
Without CONTENT it was rejected."
  (gemini-companion-relay-test--say
   emacs id
   `(:jsonrpc "2.0" :method ,(if content "ide/diffAccepted" "ide/diffRejected")
              :params (:filePath ,file ,@(and content (list :content content))
                                 :_meta (:proposal ,proposal)))))

(defun gemini-companion-relay-test--let-answer (emacs name answer)
  "Let EMACS answer the requests NAME by ANSWER, or what that returns for one."
  (setf (gemini-companion-relay-test--handler emacs)
        (lambda (request)
          (when (equal (gemini-companion-relay-test--what request) name)
            (if (functionp answer) (funcall answer request) answer)))))

;;;; What it was sent

(defun gemini-companion-relay-test--in (request &rest keys)
  "Return what is in the body of REQUEST at KEYS."
  (let ((value (gemini-companion-relay-test-request-body request)))
    (dolist (key keys value)
      (setq value (alist-get key value)))))

(defun gemini-companion-relay-test--argument (request key)
  "Return the argument KEY of REQUEST, a call of a tool."
  (gemini-companion-relay-test--in request 'params 'arguments key))

(defun gemini-companion-relay-test--what (request)
  "Return the tool, the method, or else the method of HTTP, of REQUEST."
  (or (and (equal (gemini-companion-relay-test--in request 'method) "tools/call")
           (gemini-companion-relay-test--in request 'params 'name))
      (gemini-companion-relay-test--in request 'method)
      (and (gemini-companion-relay-test-request-body request) "answer")
      (gemini-companion-relay-test-request-method request)))

(defun gemini-companion-relay-test--all (emacs &rest names)
  "Return the requests of EMACS that are called by NAMES, oldest first."
  (reverse (seq-filter (lambda (request)
                         (member (gemini-companion-relay-test--what request) names))
                       (gemini-companion-relay-test--requests emacs))))

(defun gemini-companion-relay-test--wait-request (emacs name &optional count)
  "Wait until EMACS has had COUNT requests NAME, by default 1; return the last one."
  (gemini-companion-test-wait
   (format "%d %s" (or count 1) name)
   (lambda ()
     (let ((all (gemini-companion-relay-test--all emacs name)))
       (and (>= (length all) (or count 1)) (car (last all)))))))

(defun gemini-companion-relay-test--wait-argument (emacs tool key &optional count)
  "Wait until EMACS has had COUNT calls of TOOL; return argument KEY of the last."
  (gemini-companion-relay-test--argument
   (gemini-companion-relay-test--wait-request emacs tool count) key))

(defun gemini-companion-relay-test--wait-stream (emacs)
  "Wait until EMACS has an event stream."
  (gemini-companion-test-wait
   "the event stream" (lambda () (gemini-companion-relay-test--stream emacs))))

(defun gemini-companion-relay-test--header (request name)
  "Return the header NAME of REQUEST."
  (cdr (assoc name (gemini-companion-relay-test-request-headers request))))

;;;; The program

(defun gemini-companion-relay-test--config ()
  "Return the file with the configuration."
  (gemini-companion-test-file "config.json"))

(cl-defun gemini-companion-relay-test--configure
    (socket &key (roots []))
  "Write a configuration with SOCKET and ROOTS."
  (let ((file (gemini-companion-relay-test--config)))
    (gemini-companion-test-write
     (concat file ".new")
     (decode-coding-string
      (gemini-companion-test-json-encode
       (list :socket socket :roots roots :keeper 1))
      'utf-8))
    (rename-file (concat file ".new") file t)))

(defmacro gemini-companion-relay-test--with (emacs &rest body)
  "Evaluate BODY in a new project with EMACS, which a CLI could find."
  (declare (indent 1) (debug (symbolp body)))
  `(progn
     (unless (executable-find "node")
       (gemini-companion-test-skip "Node is missing"))
     (gemini-companion-test-with-project
       (let ((,emacs (gemini-companion-relay-test--make-emacs
                      :socket (gemini-companion-test-file "s")))
             (read-process-output-max (* 1024 1024)))
         (gemini-companion-relay-test--listen ,emacs)
         (gemini-companion-relay-test--configure (gemini-companion-relay-test--socket ,emacs))
         (unwind-protect (progn ,@body)
           (gemini-companion-relay-test--cut ,emacs))))))

(defun gemini-companion-relay-test--start ()
  "Start the relay and return it."
  (gemini-companion-test-program-start
   (list (executable-find "node") gemini-companion-relay-test--program
         (gemini-companion-relay-test--config))
   gemini-companion-test-project
   (list (concat "PATH=" (getenv "PATH")) "HOME=/nonexistent")))

(defmacro gemini-companion-relay-test--with-program (spec &rest body)
  "Evaluate BODY with a relay that has a session; check that it says nothing else.
SPEC is (PROGRAM EMACS), or (PROGRAM) if EMACS is the real one."
  (declare (indent 1) (debug (sexp body)))
  (pcase-let ((`(,program . ,(or `(,emacs) 'nil)) spec))
    `(let ((,program (gemini-companion-relay-test--start)))
       (unwind-protect
           (progn
             (gemini-companion-relay-test--initialize ,program)
             ,@(and emacs `((gemini-companion-relay-test--wait-stream ,emacs)))
             ,@body
             (should (equal "" (gemini-companion-test-read
                                (gemini-companion-test-program-stderr ,program)))))
         (gemini-companion-test-program-stop ,program)))))

(defmacro gemini-companion-relay-test--with-session (spec &rest body)
  "Evaluate BODY in a new project with an Emacs and a relay that has a session.
SPEC is (PROGRAM EMACS)."
  (declare (indent 1) (debug (sexp body)))
  `(gemini-companion-relay-test--with ,(cadr spec)
     (gemini-companion-relay-test--with-program ,spec ,@body)))

(defun gemini-companion-relay-test--initialize (program)
  "Begin a session of PROGRAM; return the answer."
  (gemini-companion-relay-test--send
   program 0 "initialize"
   '(:protocolVersion "2025-06-18" :capabilities (:x 1) :clientInfo (:name "test" :version "1")))
  (prog1 (gemini-companion-relay-test--wait program 0)
    (gemini-companion-test-program-send
     program '(:jsonrpc "2.0" :method "notifications/initialized"))))

(defun gemini-companion-relay-test--send (program id method &optional params)
  "Send PROGRAM a request ID of METHOD with PARAMS."
  (gemini-companion-test-program-send
   program `(:jsonrpc "2.0" :id ,id :method ,method ,@(and params (list :params params)))))

(defun gemini-companion-relay-test--call (program id tool &rest arguments)
  "Let PROGRAM call TOOL with ARGUMENTS, a plist, as ID."
  (gemini-companion-relay-test--send
   program id "tools/call" (list :name tool :arguments arguments)))

(defun gemini-companion-relay-test--close-diff (program id file)
  "Let PROGRAM close its diff of FILE, as ID."
  (gemini-companion-relay-test--call
   program id "closeDiff" :filePath file :suppressNotification t))

(defun gemini-companion-relay-test--cancel (program id)
  "Let PROGRAM cancel the request ID."
  (gemini-companion-test-program-send
   program `(:jsonrpc "2.0" :method "notifications/cancelled" :params (:requestId ,id))))

(defun gemini-companion-relay-test--answered (program id)
  "Return the answer of PROGRAM to ID, or nil."
  (gemini-companion-test-program-find program (lambda (line) (equal (alist-get 'id line) id))))

(defun gemini-companion-relay-test--wait (program id)
  "Wait for the answer of PROGRAM to ID; return it."
  (gemini-companion-test-wait
   (format "an answer to %s" id) (lambda () (gemini-companion-relay-test--answered program id))))

(defun gemini-companion-relay-test--wait-result (program id)
  "Wait for the answer of PROGRAM to ID; return the result."
  (alist-get 'result (gemini-companion-relay-test--wait program id)))

(defun gemini-companion-relay-test--wait-error (program id)
  "Wait for the answer of PROGRAM to ID; return the text of the error."
  (alist-get 'message (alist-get 'error (gemini-companion-relay-test--wait program id))))

(defun gemini-companion-relay-test--wait-text (program id)
  "Wait for the answer of PROGRAM to the call ID of a tool; return its text."
  (alist-get 'text (car (alist-get 'content
                                   (gemini-companion-relay-test--wait-result program id)))))

(defun gemini-companion-relay-test--ask (program id)
  "Let PROGRAM send a request ID, and wait for the answer."
  (gemini-companion-relay-test--send program id "tools/list")
  (gemini-companion-relay-test--wait program id))

(defun gemini-companion-relay-test--check-answered-once (program id)
  "Check that PROGRAM has answered the request ID once."
  (should (= 1 (seq-count (lambda (line) (equal (alist-get 'id line) id))
                          (gemini-companion-test-program-lines program)))))

(defun gemini-companion-relay-test--heard (program)
  "Return the notifications that PROGRAM has passed on, oldest first."
  (reverse (seq-filter (lambda (line) (alist-get 'method line))
                       (gemini-companion-test-program-lines program))))

(defun gemini-companion-relay-test--wait-last (what all count)
  "Wait until ALL, a function, returns COUNT of WHAT, and return the last.
There must never be more."
  (gemini-companion-test-wait
   (format "%d %s" count what)
   (lambda ()
     (let ((now (funcall all)))
       (should (<= (length now) count))
       (and (= (length now) count) (car (last now)))))))

(defun gemini-companion-relay-test--wait-heard (program count)
  "Wait until PROGRAM has passed on COUNT notifications; return the last one."
  (gemini-companion-relay-test--wait-last
   "notifications" (lambda () (gemini-companion-relay-test--heard program)) count))

(defun gemini-companion-relay-test--outcomes (program)
  "Return the outcomes of diffs that PROGRAM has passed on, oldest first."
  (seq-filter (lambda (line) (string-prefix-p "ide/diff" (alist-get 'method line)))
              (gemini-companion-relay-test--heard program)))

(defun gemini-companion-relay-test--wait-outcome (program count)
  "Wait until PROGRAM has heard COUNT outcomes; return the parameters of the last."
  (alist-get 'params
             (gemini-companion-relay-test--wait-last
              "outcomes" (lambda () (gemini-companion-relay-test--outcomes program)) count)))

(defun gemini-companion-relay-test--ping (program)
  "Wait until PROGRAM has handled what it was sent."
  (let ((id (format "ping-%s" (random))))
    (gemini-companion-relay-test--send program id "ping")
    (gemini-companion-relay-test--wait program id)))

(defun gemini-companion-relay-test--end (program emacs)
  "End the input of PROGRAM, wait for its end, and check that EMACS knows."
  (let ((process (gemini-companion-test-program-process program)))
    (process-send-eof process)
    (gemini-companion-test-wait "its end" (lambda () (not (process-live-p process))))
    (should (= 0 (process-exit-status process)))
    (gemini-companion-relay-test--wait-request emacs "DELETE")))

;;;; Messages

(ert-deftest gemini-companion-relay/messages-are-passed-on ()
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((hello (gemini-companion-relay-test--wait-request emacs "initialize"))
          (stream (gemini-companion-relay-test--wait-request emacs "GET")))
      (should (equal (gemini-companion-relay-test--in hello 'params 'clientInfo 'name) "test"))
      (should (equal (url-unhex-string (gemini-companion-relay-test--header
                                        hello "gemini-companion-directory"))
                     (directory-file-name gemini-companion-test-project)))
      (dolist (request (list hello stream))
        (should-not (gemini-companion-relay-test--header request "authorization")))
      (should (equal (gemini-companion-relay-test--header stream "mcp-session-id") "s1"))
      (should (equal (gemini-companion-relay-test--header stream "mcp-protocol-version")
                     "2025-06-18")))
    (should (equal (alist-get 'protocolVersion
                              (gemini-companion-relay-test--wait-result program 0))
                   "2025-06-18"))
    ;; A request, with any id.
    (dolist (id '(1 "1" 2.5 "ä\n"))
      (gemini-companion-relay-test--send program id "tools/list")
      (should (equal (gemini-companion-relay-test--wait-result program id) '((content)))))
    (should (= 4 (length (gemini-companion-relay-test--all emacs "tools/list"))))
    ;; A notification, and a request of Emacs, which the CLI answers.
    (gemini-companion-relay-test--say
     emacs 1 '(:jsonrpc "2.0" :method "ide/contextUpdate" :params (:x "ä\u2028")))
    (should (equal (alist-get 'params (gemini-companion-relay-test--wait-heard program 1))
                   '((x . "ä\u2028"))))
    (gemini-companion-relay-test--say emacs 2 '(:jsonrpc "2.0" :id "ping" :method "ping"))
    (should (equal (alist-get 'id (gemini-companion-relay-test--wait-heard program 2)) "ping"))
    (gemini-companion-test-program-send program '(:jsonrpc "2.0" :id "ping" :result (:a 1)))
    (should (equal (gemini-companion-relay-test--in
                    (gemini-companion-relay-test--wait-request emacs "answer") 'id)
                   "ping"))
    (gemini-companion-relay-test--end program emacs)))

(ert-deftest gemini-companion-relay/nothing-is-heard-before-the-cli-listens ()
  (gemini-companion-relay-test--with emacs
    (let ((program (gemini-companion-relay-test--start)))
      (unwind-protect
          (progn
            (gemini-companion-relay-test--send program 0 "initialize" '(:x 1))
            (gemini-companion-relay-test--wait program 0)
            (gemini-companion-relay-test--ping program)
            (should-not (gemini-companion-relay-test--all emacs "GET"))
            (gemini-companion-test-program-send
             program '(:jsonrpc "2.0" :method "notifications/initialized"))
            (gemini-companion-relay-test--wait-stream emacs))
        (gemini-companion-test-program-stop program)))))

(ert-deftest gemini-companion-relay/a-late-answer-comes-as-a-stream ()
  (gemini-companion-relay-test--with emacs
    (gemini-companion-relay-test--let-answer
     emacs "tools/list"
     (list 200 '(("Content-Type" . "text/event-stream"))
           (concat ": keep-alive\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n"
                   "data: {\"jsonrpc\":\"2.0\",\"id\":1,\ndata: \"result\":{}}\n\n")))
    (gemini-companion-relay-test--with-program (program emacs)
      (gemini-companion-relay-test--send program 1 "tools/list")
      (should-not (gemini-companion-relay-test--wait-result program 1))
      (should (equal (alist-get 'method (gemini-companion-relay-test--wait-heard program 1))
                     "x")))))

(ert-deftest gemini-companion-relay/odd-input-is-ignored ()
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((process (gemini-companion-test-program-process program)))
      (dolist (line '("" "  " "{" "[]" "null" "5" "\"x\"" "\0" "\xff\xfe"
                      "{\"method\":\"notifications/cancelled\"}"
                      "{\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":77}}"))
        (process-send-string process (concat (encode-coding-string line 'utf-8) "\n")))
      ;; A line that comes in pieces, and two that come at once.
      (process-send-string process "{\"id\":\"x\",\"me")
      (process-send-string process "thod\":\"ping\"}\n{\"id\":\"y\",\"method\":\"ping\"}\n"))
    (should-not (gemini-companion-relay-test--wait-result program "x"))
    (should-not (gemini-companion-relay-test--wait-result program "y"))
    ;; What the tools are called with is for Emacs to judge.
    (gemini-companion-relay-test--call program 1 "openDiff" :filePath 5)
    (gemini-companion-relay-test--call program 2 "openDiff" :filePath "relative")
    (gemini-companion-relay-test--call program 3 "closeDiff" :x "y")
    (dolist (id '(1 2 3))
      (should (gemini-companion-relay-test--wait-result program id)))
    ;; An answer without an id would end the connection of the CLI.
    (should-not (seq-find (lambda (line) (eq :null (alist-get 'id line)))
                          (gemini-companion-test-program-lines program)))))

(ert-deftest gemini-companion-relay/a-refusal-is-an-error ()
  (gemini-companion-relay-test--with-session (program emacs)
    (setf (gemini-companion-relay-test--handler emacs)
          (lambda (_) '(413 nil "{\"error\":{\"code\":1,\"message\":\"Too large\"}}")))
    (gemini-companion-relay-test--send program 1 "tools/list")
    (should (equal (gemini-companion-relay-test--wait-error program 1) "Too large"))))

(ert-deftest gemini-companion-relay/a-busy-emacs-is-asked-again-when-it-says ()
  (gemini-companion-relay-test--with-session (program emacs)
    (let (times)
      (setf (gemini-companion-relay-test--handler emacs)
            (lambda (request)
              (when (equal (gemini-companion-relay-test--what request) "tools/list")
                (push (float-time) times)
                (pcase (length times)
                  (1 '(429 (("Retry-After" . "1")) ""))
                  (2 '(503 (("Retry-After" . "1")) ""))))))
      (gemini-companion-relay-test--send program 1 "tools/list")
      (should (gemini-companion-relay-test--wait-result program 1))
      (should (= 3 (length times)))
      ;; The clocks of two processes.
      (should (> (- (nth 0 times) (nth 2 times)) 1.9)))))

(ert-deftest gemini-companion-relay/a-message-that-takes-too-long-is-given-up ()
  "Otherwise no other message would be sent any more."
  (gemini-companion-relay-test--with-session (program emacs)
    (gemini-companion-relay-test--let-answer
     emacs "large" '(408 nil "{\"error\":{\"code\":1,\"message\":\"Too slow\"}}"))
    (gemini-companion-relay-test--send program 1 "large")
    (gemini-companion-relay-test--send program 2 "tools/list")
    (should (equal (gemini-companion-relay-test--wait-error program 1) "Too slow"))
    (should (= 3 (length (gemini-companion-relay-test--all emacs "large"))))
    (should (gemini-companion-relay-test--wait-result program 2))))

(ert-deftest gemini-companion-relay/without-emacs-the-session-fails-in-time ()
  (gemini-companion-relay-test--with emacs
    (gemini-companion-relay-test--cut emacs)
    (delete-file (gemini-companion-relay-test--config))
    (let ((program (gemini-companion-relay-test--start)))
      (unwind-protect
          (let ((answer (gemini-companion-relay-test--initialize program)))
            (should (string-match-p "Emacs cannot be reached: .*M-x gemini-companion-connect"
                                    (alist-get 'message (alist-get 'error answer)))))
        (gemini-companion-test-program-stop program)))))

(ert-deftest gemini-companion-relay/too-many-requests-are-refused ()
  (gemini-companion-relay-test--with-session (program emacs)
    (gemini-companion-relay-test--cut emacs)
    (dotimes (index 65)
      (gemini-companion-relay-test--send program (+ 100 index) "tools/list"))
    (should (string-search "Too many" (gemini-companion-relay-test--wait-error program 164)))
    (should-not (gemini-companion-relay-test--answered program 163))
    ;; A second request with the same id is not answered on its own.
    (gemini-companion-relay-test--send program 100 "tools/list")
    (gemini-companion-relay-test--listen emacs)
    (dotimes (index 64)
      (should (gemini-companion-relay-test--wait-result program (+ 100 index))))
    (should (= 64 (length (gemini-companion-relay-test--all emacs "tools/list"))))))

(ert-deftest gemini-companion-relay/a-huge-line-is-refused ()
  (gemini-companion-relay-test--with emacs
    (let* ((program (gemini-companion-test-program-start
                     (list "/bin/sh" "-c"
                           (concat "{ printf '{\"method\":\"initialize\",\"id\":0}\\n';"
                                   " printf '{\"method\":\"x\",\"params\":{\"x\":\"';"
                                   " head -c 140000000 /dev/zero | tr '\\0' x;"
                                   " printf '\"},\"jsonrpc\":\"2.0\",\"id\":5}\\n';"
                                   " printf '{\"method\":\"ping\",\"id\":6}\\n'; cat; }"
                                   " | node \"$1\" \"$2\"")
                           "sh" gemini-companion-relay-test--program
                           (gemini-companion-relay-test--config))
                     gemini-companion-test-project (list (concat "PATH=" (getenv "PATH"))))))
      (unwind-protect
          (progn
            (should (string-search "too long"
                                   (gemini-companion-relay-test--wait-error program 5)))
            (gemini-companion-relay-test--wait program 6))
        (gemini-companion-test-program-stop program)))))

;;;; Broken connections

(ert-deftest gemini-companion-relay/requests-wait-in-order ()
  (gemini-companion-relay-test--with-session (program emacs)
    (gemini-companion-relay-test--say emacs 7 '(:jsonrpc "2.0" :method "x"))
    (gemini-companion-relay-test--wait-heard program 1)
    (gemini-companion-relay-test--cut emacs)
    (dolist (id '(1 2 3))
      (gemini-companion-relay-test--send program id (format "method-%d" id)))
    (gemini-companion-test-program-send program '(:jsonrpc "2.0" :method "method-4"))
    ;; Lest the CLI should give up.
    (gemini-companion-relay-test--ping program)
    (should-not (gemini-companion-relay-test--answered program 1))
    (gemini-companion-relay-test--listen emacs)
    (gemini-companion-relay-test--wait-request emacs "method-4")
    (should (equal (mapcar #'gemini-companion-relay-test--what
                           (gemini-companion-relay-test--all
                            emacs "method-1" "method-2" "method-3" "method-4"))
                   '("method-1" "method-2" "method-3" "method-4")))
    (dolist (id '(1 2 3))
      (should (gemini-companion-relay-test--wait-result program id)))
    ;; The same session goes on where it was.
    (let ((stream (gemini-companion-relay-test--wait-request emacs "GET" 2)))
      (should (equal (gemini-companion-relay-test--header stream "mcp-session-id") "s1"))
      (should (equal (gemini-companion-relay-test--header stream "last-event-id") "7")))
    (should (= 1 (length (gemini-companion-relay-test--all emacs "initialize"))))))

(ert-deftest gemini-companion-relay/a-request-whose-answer-is-lost-is-sent-again ()
  (gemini-companion-relay-test--with-session (program emacs)
    (gemini-companion-relay-test--let-answer emacs "tools/list" 'hold)
    (gemini-companion-relay-test--send program 1 "tools/list")
    (gemini-companion-relay-test--wait-request emacs "tools/list")
    (gemini-companion-relay-test--cut emacs)
    (setf (gemini-companion-relay-test--handler emacs) #'ignore)
    (gemini-companion-relay-test--listen emacs)
    (should (gemini-companion-relay-test--wait-result program 1))))

(ert-deftest gemini-companion-relay/nothing-overtakes-a-request-whose-answer-is-lost ()
  "The next proposal of a file would be closed by a request to close the last one."
  (gemini-companion-relay-test--with-session (program emacs)
    (gemini-companion-relay-test--let-answer
     emacs "first" '(200 (("Content-Type" . "text/event-stream")
                          ("Transfer-Encoding" . "chunked"))))
    (gemini-companion-relay-test--send program 1 "first")
    (gemini-companion-relay-test--wait-request emacs "first")
    ;; Its answer has begun, so that the next one is sent.
    (gemini-companion-relay-test--ask program 2)
    (gemini-companion-relay-test--cut emacs)
    (setf (gemini-companion-relay-test--handler emacs) #'ignore
          (gemini-companion-relay-test--requests emacs) nil)
    (gemini-companion-relay-test--send program 3 "second")
    (gemini-companion-relay-test--ping program)
    (gemini-companion-relay-test--listen emacs)
    (gemini-companion-relay-test--wait program 3)
    (should (equal (mapcar #'gemini-companion-relay-test--what
                           (gemini-companion-relay-test--all emacs "first" "second"))
                   '("first" "second")))))

(ert-deftest gemini-companion-relay/a-new-configuration-ends-a-connection-that-seems-to-live ()
  (gemini-companion-relay-test--with-session (program emacs)
    (setf (gemini-companion-relay-test--handler emacs) (lambda (_) 'hold))
    (gemini-companion-relay-test--send program 1 "tools/list")
    (gemini-companion-relay-test--wait-request emacs "tools/list")
    (let ((other (gemini-companion-relay-test--make-emacs
                  :socket (gemini-companion-test-file "t") :sessions 1)))
      (gemini-companion-relay-test--listen other)
      (unwind-protect
          (progn
            (gemini-companion-relay-test--configure
             (gemini-companion-relay-test--socket other))
            (should (gemini-companion-relay-test--wait-result program 1))
            (gemini-companion-relay-test--wait-request other "tools/list")
            ;; There may be none for a while.
            (gemini-companion-relay-test--cut other)
            (delete-file (gemini-companion-relay-test--config))
            (gemini-companion-relay-test--send program 2 "tools/list")
            (gemini-companion-relay-test--ping program)
            (gemini-companion-relay-test--listen other)
            (gemini-companion-relay-test--configure
             (gemini-companion-relay-test--socket other))
            (should (gemini-companion-relay-test--wait-result program 2)))
        (gemini-companion-relay-test--cut other)))))

(ert-deftest gemini-companion-relay/a-cancelled-request-gets-no-answer ()
  (gemini-companion-relay-test--with-session (program emacs)
    ;; Emacs may answer all the same, if the two have crossed.
    (let (held)
      (setf (gemini-companion-relay-test--handler emacs)
            (lambda (request)
              (when (equal (gemini-companion-relay-test--what request) "slow")
                (setq held request)
                '(200 (("Content-Type" . "text/event-stream")
                       ("Transfer-Encoding" . "chunked"))))))
      (gemini-companion-relay-test--send program 1 "slow")
      (gemini-companion-relay-test--wait-request emacs "slow")
      (gemini-companion-relay-test--cancel program 1)
      (should (equal 1 (gemini-companion-relay-test--in
                        (gemini-companion-relay-test--wait-request
                         emacs "notifications/cancelled")
                        'params 'requestId)))
      (process-send-string (gemini-companion-relay-test-request-connection held)
                           "27\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n\n\r\n0\r\n\r\n"))
    ;; One that waits is not sent.
    (gemini-companion-relay-test--cut emacs)
    (gemini-companion-relay-test--send program 3 "tools/list")
    (gemini-companion-relay-test--send program 2 "never")
    (gemini-companion-relay-test--cancel program 2)
    (gemini-companion-relay-test--ping program)
    (gemini-companion-relay-test--listen emacs)
    (gemini-companion-relay-test--wait program 3)
    (should-not (gemini-companion-relay-test--all emacs "never"))
    (should (= 1 (length (gemini-companion-relay-test--all emacs "notifications/cancelled"))))
    (should-not (gemini-companion-relay-test--answered program 1))
    (should-not (gemini-companion-relay-test--answered program 2))))

(ert-deftest gemini-companion-relay/signals ()
  "A terminal that is closed ends the CLI, which ends the relay."
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((process (gemini-companion-test-program-process program)))
      (signal-process process 'SIGHUP)
      (signal-process process 'SIGINT)
      (gemini-companion-relay-test--ping program)
      (signal-process process 'SIGTERM)
      (gemini-companion-test-wait "its end" (lambda () (not (process-live-p process))))
      (should (gemini-companion-relay-test--all emacs "DELETE")))))

(ert-deftest gemini-companion-relay/it-ends-in-time-without-emacs ()
  (gemini-companion-relay-test--with-session (program emacs)
    (setf (gemini-companion-relay-test--handler emacs) (lambda (_) 'hold))
    (let ((process (gemini-companion-test-program-process program)))
      (process-send-eof process)
      (gemini-companion-test-wait "its end" (lambda () (not (process-live-p process))))
      (should (= 0 (process-exit-status process))))))

(ert-deftest gemini-companion-relay/the-cli-forgets-what-a-user-looks-at-who-is-away ()
  (gemini-companion-relay-test--with-session (program emacs)
    (gemini-companion-relay-test--say
     emacs 1 (list :jsonrpc "2.0" :method "ide/contextUpdate"
                   :params '(:workspaceState (:openFiles [(:path "/a")]))))
    (gemini-companion-relay-test--wait-heard program 1)
    (gemini-companion-relay-test--cut emacs)
    (let ((heard (gemini-companion-relay-test--wait-heard program 2)))
      (should (equal (alist-get 'method heard) "ide/contextUpdate"))
      (should (equal (alist-get 'params heard) '((workspaceState (openFiles))))))
    ;; Emacs tells the CLI again.
    (gemini-companion-relay-test--listen emacs)
    (gemini-companion-relay-test--wait-stream emacs)
    (gemini-companion-relay-test--say emacs 2 '(:jsonrpc "2.0" :method "x"))
    (gemini-companion-relay-test--wait-heard program 3)))

;;;; Diffs

(defun gemini-companion-relay-test--open (program emacs id file &optional text)
  "Let PROGRAM open a diff of FILE with TEXT, as ID; return the request to EMACS."
  (let ((count (1+ (length (gemini-companion-relay-test--all emacs "openDiff")))))
    (gemini-companion-relay-test--call
     program id "openDiff" :filePath file :newContent (or text "new\n"))
    (should (equal (gemini-companion-relay-test--wait-result program id) '((content))))
    (gemini-companion-relay-test--wait-request emacs "openDiff" count)))

(defun gemini-companion-relay-test--proposal (request)
  "Return the argument by which REQUEST, openDiff, is known."
  (gemini-companion-relay-test--argument request 'proposal))

(ert-deftest gemini-companion-relay/emacs-is-told-what-the-file-contains ()
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((directory gemini-companion-test-project)
          (coding-system-for-write 'binary)
          (id 10))
      (gemini-companion-test-file "text.txt" "ä\r\n\ufeff")
      (gemini-companion-test-file "empty.txt" "")
      (write-region "\xe4\0\n" nil (concat directory "bytes") nil 0)
      (make-symbolic-link "text.txt" (concat directory "link"))
      (make-symbolic-link "nowhere" (concat directory "dangling"))
      (make-directory (concat directory "dir"))
      (call-process "mkfifo" nil nil nil (concat directory "fifo"))
      (pcase-dolist (`(,name . ,current)
                     `(("text.txt" (text . "ä\r\n\ufeff"))
                       ("link" (text . "ä\r\n\ufeff"))
                       ("empty.txt" (text . ""))
                       ("bytes" (base64 . ,(base64-encode-string "\xe4\0\n")))
                       ("missing" . :null)
                       ("dangling" . :null)
                       ("text.txt/below" . :null)
                       ("dir" (unreadable . "it is not a regular file"))
                       ("fifo" (unreadable . "it is not a regular file"))))
        (ert-info (name)
          (let* ((file (concat directory name))
                 (request (gemini-companion-relay-test--open
                           program emacs (cl-incf id) file "ö"))
                 (stamp (gemini-companion-relay-test--argument request 'stamp))
                 (modified (gemini-companion-relay-test--argument request 'modified)))
            (should (equal (gemini-companion-relay-test--argument request 'current) current))
            (should (equal (gemini-companion-relay-test--argument request 'filePath) file))
            (should (equal (gemini-companion-relay-test--argument request 'newContent) "ö"))
            (should (stringp (gemini-companion-relay-test--proposal request)))
            (if (eq current :null)
                (should (and (eq stamp :null) (eq modified :null)))
              (should (string-match-p "\\`[0-9]+ [0-9]+ [0-9]+\\'" stamp))
              (should (equal modified
                             (time-convert (file-attribute-modification-time
                                            (file-attributes (file-truename file)))
                                           'integer))))))))))

(ert-deftest gemini-companion-relay/emacs-is-told-when-the-file-is-written ()
  (gemini-companion-relay-test--with-session (program emacs)
    (let* ((file (gemini-companion-test-file "a.txt" "one\n"))
           (request (gemini-companion-relay-test--open program emacs 1 file))
           (stamp (gemini-companion-relay-test--argument request 'stamp)))
      (gemini-companion-test-file "other.txt" "one\n")
      ;; Somebody else does, while the diff is open.
      (gemini-companion-test-file "a.txt" "two\n")
      (let ((written (gemini-companion-relay-test--wait-request emacs "fileWritten")))
        (should (equal (gemini-companion-relay-test--argument written 'filePath) file))
        (should (equal (gemini-companion-relay-test--argument written 'current)
                       '((text . "two\n"))))
        (should-not (equal (gemini-companion-relay-test--argument written 'stamp) stamp)))
      ;; The CLI does, after the decision, while the connection is cut.
      (gemini-companion-relay-test--say-outcome
       emacs 1 file (gemini-companion-relay-test--proposal request) "three\n")
      (gemini-companion-relay-test--wait-heard program 1)
      (gemini-companion-relay-test--cut emacs)
      (gemini-companion-test-file "a.txt" "three\n")
      (gemini-companion-relay-test--ping program)
      (gemini-companion-relay-test--listen emacs)
      (should (equal (gemini-companion-relay-test--wait-argument emacs "fileWritten" 'current 2)
                     '((text . "three\n"))))
      ;; Emacs has no room for it at first.
      (let ((refused 0))
        (setf (gemini-companion-relay-test--handler emacs)
              (lambda (request)
                (when (and (equal (gemini-companion-relay-test--what request) "fileWritten")
                           (< (cl-incf refused) 3))
                  (gemini-companion-relay-test--result
                   (gemini-companion-relay-test--in request 'id)
                   '(:content [] :isError t)))))
        (delete-file file)
        (should (eq :null (gemini-companion-relay-test--wait-argument
                           emacs "fileWritten" 'current 5)))))))

(ert-deftest gemini-companion-relay/a-file-that-emacs-refuses-is-told-without-its-text ()
  "The message is too large, or takes too long, and must not be sent again and again."
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((file (gemini-companion-test-file "a.txt" "one\n"))
          (refuse (lambda (request)
                    (when (alist-get 'text (gemini-companion-relay-test--argument
                                            request 'current))
                      '(413 nil ""))))
          (wait (lambda (count)
                  (gemini-companion-relay-test--wait-argument emacs "fileWritten" 'current count))))
      (gemini-companion-relay-test--open program emacs 1 file)
      (setf (gemini-companion-relay-test--handler emacs) refuse)
      (gemini-companion-test-file "a.txt" "two\n")
      (should (equal (funcall wait 2) '((unreadable . "it is too large"))))
      ;; A later text may do.
      (setf (gemini-companion-relay-test--handler emacs) #'ignore)
      (gemini-companion-test-file "a.txt" "three\n")
      (should (equal (funcall wait 3) '((text . "three\n"))))
      ;; If nothing does, that is the end of it.
      (gemini-companion-relay-test--let-answer emacs "fileWritten" '(413 nil ""))
      (gemini-companion-test-file "a.txt" "four\n")
      (should (equal (funcall wait 5) '((unreadable . "it is too large"))))
      (setf (gemini-companion-relay-test--handler emacs) #'ignore)
      ;; A second file, since the first one was looked at before it.
      (let ((other (gemini-companion-test-file "b.txt" "one\n")))
        (gemini-companion-relay-test--open program emacs 2 other)
        (gemini-companion-test-file "b.txt" "two\n")
        (funcall wait 6))
      (gemini-companion-relay-test--end program emacs)
      (should (= 6 (length (gemini-companion-relay-test--all emacs "fileWritten")))))))

(ert-deftest gemini-companion-relay/a-file-is-watched-while-another-diff-is-open ()
  "Qwen Code writes nothing until all changes of a turn are decided."
  (gemini-companion-relay-test--with emacs
    (let ((gemini-companion-relay-test--program
           (gemini-companion-test-file
            "relay.mjs" (string-replace "WATCH_AFTER = 10000;" "WATCH_AFTER = 1;"
                                        (gemini-companion-test-read
                                         gemini-companion-relay-test--program))))
          (file (gemini-companion-test-file "a.txt" "one\n"))
          (other (gemini-companion-test-file "b.txt" "one\n")))
      (gemini-companion-relay-test--with-program (program emacs)
        (let ((request (gemini-companion-relay-test--open program emacs 1 file)))
          (gemini-companion-relay-test--open program emacs 2 other)
          (gemini-companion-relay-test--say-outcome
           emacs 1 file (gemini-companion-relay-test--proposal request) "two\n"))
        (gemini-companion-relay-test--wait-heard program 1)
        ;; By then it has looked several times.
        (gemini-companion-test-file "b.txt" "two\n")
        (gemini-companion-relay-test--wait-request emacs "fileWritten")
        (gemini-companion-test-file "a.txt" "two\n")
        (should (equal (gemini-companion-relay-test--wait-argument emacs "fileWritten" 'filePath 2)
                       file))))))

(ert-deftest gemini-companion-relay/emacs-is-told-of-a-file-once-it-is-written ()
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((file (gemini-companion-test-file "a.txt" "")))
      (gemini-companion-relay-test--open program emacs 1 file)
      (start-process "writer" nil "sh" "-c"
                     (concat "for n in 1 2 3 4 5 6 7 8 9 10; do"
                             " echo $n >>\"$1\"; sleep 0.1; done")
                     "sh" file)
      (should (equal (gemini-companion-relay-test--wait-argument emacs "fileWritten" 'current)
                     `((text . ,(mapconcat (lambda (n) (format "%d\n" n))
                                           (number-sequence 1 10) ""))))))))

(ert-deftest gemini-companion-relay/other-files-are-not-opened ()
  "A pipe would let the program at its other end go on."
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((file (gemini-companion-test-file "fifo"))
          (waits (gemini-companion-test-file "waits")))
      (call-process "mkfifo" nil nil nil file)
      (let ((writer (make-process :name "writer" :noquery t :command
                                  (list "sh" "-c" "touch \"$2\"; exec 3>\"$1\"; rm \"$2\""
                                        "sh" file waits))))
        (unwind-protect
            (progn
              (gemini-companion-test-wait "the writer" (lambda () (file-exists-p waits)))
              (gemini-companion-relay-test--open program emacs 1 file)
              (gemini-companion-relay-test--open program emacs 2 file)
              (should (process-live-p writer))
              (should (file-exists-p waits)))
          (delete-process writer))))))

(ert-deftest gemini-companion-relay/a-file-written-at-the-very-end-is-told ()
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((file (gemini-companion-test-file "a.txt" "one\n")))
      (gemini-companion-relay-test--open program emacs 1 file)
      (gemini-companion-test-file "a.txt" "two\n")
      (gemini-companion-relay-test--end program emacs)
      (should (equal (gemini-companion-relay-test--wait-argument emacs "fileWritten" 'current)
                     '((text . "two\n")))))))

(ert-deftest gemini-companion-relay/open-diffs-are-proposed-again-in-a-new-session ()
  "But only those of which the CLI still awaits the outcome."
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((files (mapcar #'gemini-companion-test-file '("a" "b" "c" "d")))
          (requests nil))
      (cl-loop for file in files for id from 1
               do (push (gemini-companion-relay-test--open program emacs id file) requests))
      (gemini-companion-relay-test--say-outcome
       emacs 1 (nth 0 files) (gemini-companion-relay-test--proposal (nth 3 requests)))
      (gemini-companion-relay-test--wait-heard program 1)
      (gemini-companion-relay-test--close-diff program 5 (nth 1 files))
      (should (equal (gemini-companion-relay-test--wait-text program 5) "{\"content\":\"edited\"}"))
      (gemini-companion-test-file "c" "text")
      (setf (gemini-companion-relay-test--requests emacs) nil)
      (gemini-companion-relay-test--forget-session emacs)
      (gemini-companion-relay-test--ask program 6)
      (let ((again (gemini-companion-relay-test--all emacs "openDiff")))
        (should (equal (mapcar (lambda (it) (gemini-companion-relay-test--argument it 'filePath))
                               again)
                       (nthcdr 2 files)))
        ;; As it is now.
        (should (equal (gemini-companion-relay-test--argument (car again) 'current)
                       '((text . "text"))))
        (gemini-companion-relay-test--say-outcome
         emacs 1 (nth 2 files) (gemini-companion-relay-test--proposal (car again)) "x")
        (should (equal (alist-get 'params (gemini-companion-relay-test--wait-heard program 2))
                       `((filePath . ,(nth 2 files)) (content . "x")))))
      ;; The CLI was greeted and answered once.
      (dolist (id '(0 1 2 3 4))
        (gemini-companion-relay-test--check-answered-once program id)))))

(ert-deftest gemini-companion-relay/a-diff-that-is-being-closed-is-not-proposed-again ()
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((file (gemini-companion-test-file "a")))
      (gemini-companion-relay-test--open program emacs 1 file)
      (setf (gemini-companion-relay-test--handler emacs) (lambda (_) 'hold))
      (gemini-companion-relay-test--close-diff program 2 file)
      (gemini-companion-relay-test--wait-request emacs "closeDiff")
      (gemini-companion-relay-test--forget-session emacs)
      (gemini-companion-relay-test--wait program 2)
      (gemini-companion-relay-test--ask program 3)
      (should (= 1 (length (gemini-companion-relay-test--all emacs "openDiff")))))))

(ert-deftest gemini-companion-relay/an-outcome-is-heard-once ()
  (gemini-companion-relay-test--with-session (program emacs)
    (let* ((file (gemini-companion-test-file "a"))
           (first (gemini-companion-relay-test--proposal
                   (gemini-companion-relay-test--open program emacs 1 file "1")))
           (second (gemini-companion-relay-test--proposal
                    (gemini-companion-relay-test--open program emacs 2 file "2"))))
      (should-not (equal first second))
      ;; Of an older proposal of the file; of this one, twice; of no diff.
      (gemini-companion-relay-test--say-outcome emacs 1 file first "1")
      (gemini-companion-relay-test--say-outcome emacs 2 file second "2")
      (gemini-companion-relay-test--say-outcome emacs 2 file second "2")
      (gemini-companion-relay-test--say-outcome emacs 3 "/other" second "2")
      (gemini-companion-relay-test--say emacs 4 '(:jsonrpc "2.0" :method "x"))
      (should (equal (alist-get 'method (gemini-companion-relay-test--wait-heard program 2))
                     "x"))
      (should (equal (alist-get 'params (car (gemini-companion-relay-test--heard program)))
                     `((filePath . ,file) (content . "2")))))))

(ert-deftest gemini-companion-relay/a-decision-during-a-cut-is-not-lost ()
  "Emacs has answered openDiff, but that is lost; then the user decides."
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((file (gemini-companion-test-file "a"))
          request)
      (setf (gemini-companion-relay-test--handler emacs)
            (lambda (it)
              (when (equal (gemini-companion-relay-test--what it) "openDiff")
                (setq request it)
                'hold)))
      (gemini-companion-relay-test--call program 1 "openDiff" :filePath file :newContent "x")
      (gemini-companion-relay-test--wait-request emacs "openDiff")
      (gemini-companion-relay-test--cut emacs)
      (setf (gemini-companion-relay-test--handler emacs) #'ignore)
      (gemini-companion-relay-test--listen emacs)
      ;; It is sent again, as the same proposal.
      (should (equal (gemini-companion-relay-test--proposal request)
                     (gemini-companion-relay-test--proposal
                      (gemini-companion-relay-test--wait-request emacs "openDiff" 2))))
      (gemini-companion-relay-test--wait-stream emacs)
      (gemini-companion-relay-test--say-outcome
       emacs 1 file (gemini-companion-relay-test--proposal request) "x")
      (gemini-companion-relay-test--wait-heard program 1)
      (should (gemini-companion-relay-test--wait-result program 1)))))

(ert-deftest gemini-companion-relay/an-outcome-answers-the-request-too ()
  "It may come before the answer to openDiff, which is not sent again then."
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((file (gemini-companion-test-file "a")))
      (gemini-companion-relay-test--let-answer emacs "openDiff" 'hold)
      (gemini-companion-relay-test--call program 1 "openDiff" :filePath file :newContent "x")
      (let ((proposal (gemini-companion-relay-test--proposal
                       (gemini-companion-relay-test--wait-request emacs "openDiff"))))
        (gemini-companion-relay-test--say-outcome emacs 1 file proposal "x"))
      (gemini-companion-relay-test--wait-heard program 1)
      (gemini-companion-relay-test--ping program)
      (should (equal (alist-get 'result (gemini-companion-relay-test--answered program 1))
                     '((content))))
      (gemini-companion-relay-test--cut emacs)
      (gemini-companion-relay-test--listen emacs)
      (gemini-companion-relay-test--ask program 2)
      (should (= 1 (length (gemini-companion-relay-test--all emacs "openDiff")))))))

(ert-deftest gemini-companion-relay/a-decision-wins-over-closing ()
  "Emacs no longer has the diff, since the user has just accepted it.
Without the user's edits, the CLI would take its own proposal."
  (gemini-companion-relay-test--with-session (program emacs)
    (let* ((file (gemini-companion-test-file "a"))
           (proposal (gemini-companion-relay-test--proposal
                      (gemini-companion-relay-test--open program emacs 1 file)))
           (error-result '(:content [(:type "text" :text "not open")] :isError t)))
      (gemini-companion-relay-test--let-answer
       emacs "closeDiff"
       (lambda (request)
         (gemini-companion-relay-test--result (gemini-companion-relay-test--in request 'id)
                                              error-result)))
      (gemini-companion-relay-test--close-diff program 2 file)
      (gemini-companion-relay-test--wait-request emacs "closeDiff")
      (gemini-companion-relay-test--ping program)
      (should-not (gemini-companion-relay-test--answered program 2))
      (gemini-companion-relay-test--say-outcome emacs 1 file proposal "edited")
      (gemini-companion-relay-test--wait program 2)
      (should (equal (mapcar (lambda (line) (or (alist-get 'method line) (alist-get 'id line)))
                             (seq-take (gemini-companion-test-program-lines program) 2))
                     '(2 "ide/diffAccepted")))
      ;; If there was none, the answer is that of Emacs.
      (gemini-companion-relay-test--open program emacs 3 file)
      (gemini-companion-relay-test--close-diff program 4 file)
      (should (equal (gemini-companion-relay-test--wait-text program 4) "not open")))))

(ert-deftest gemini-companion-relay/a-diff-is-closed-without-emacs ()
  "The CLI takes its own proposal; Emacs closes the review when it is back."
  (gemini-companion-relay-test--with-session (program emacs)
    (let* ((file (gemini-companion-test-file "a"))
           (proposal (gemini-companion-relay-test--proposal
                      (gemini-companion-relay-test--open program emacs 1 file))))
      ;; One that Emacs has not heard of is closed at once.
      (gemini-companion-relay-test--cut emacs)
      (gemini-companion-relay-test--close-diff program 2 file)
      (let ((other (gemini-companion-test-file "b")))
        (gemini-companion-relay-test--call program 3 "openDiff" :filePath other :newContent "x")
        (gemini-companion-relay-test--close-diff program 4 other)
        (dolist (id '(3 4)) (gemini-companion-relay-test--wait program id)))
      (should-not (gemini-companion-relay-test--answered program 2))
      (should (equal (gemini-companion-relay-test--wait-text program 2) "{\"content\":null}"))
      (gemini-companion-relay-test--listen emacs)
      (gemini-companion-relay-test--wait-stream emacs)
      ;; The user had decided: the CLI does not wait for that any more.
      (gemini-companion-relay-test--say-outcome emacs 1 file proposal "x")
      (gemini-companion-relay-test--say emacs 2 '(:jsonrpc "2.0" :method "x"))
      (gemini-companion-test-wait
       "the next notification"
       (lambda () (gemini-companion-test-program-find
                   program (lambda (line) (equal (alist-get 'method line) "x")))))
      (should-not (gemini-companion-relay-test--outcomes program))
      (should (equal (gemini-companion-relay-test--wait-argument emacs "closeDiff" 'filePath) file))
      (should (= 1 (length (gemini-companion-relay-test--all emacs "openDiff")))))))

(ert-deftest gemini-companion-relay/a-connection-that-only-seems-to-live-keeps-nobody-waiting ()
  "As when a cable was pulled out: nothing comes, but nothing fails."
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((file (gemini-companion-test-file "a"))
          (other (gemini-companion-test-file "b")))
      (gemini-companion-relay-test--open program emacs 1 file)
      (setf (gemini-companion-relay-test--handler emacs) (lambda (_) 'hold))
      ;; The CLI asks its user at once.
      (gemini-companion-relay-test--call program 2 "openDiff" :filePath other :newContent "x")
      (gemini-companion-relay-test--close-diff program 3 file)
      (should (equal (gemini-companion-relay-test--wait-result program 2) '((content))))
      (should (equal (gemini-companion-relay-test--wait-text program 3) "{\"content\":null}"))
      ;; Both are done when it is back.
      (gemini-companion-relay-test--cut emacs)
      (setf (gemini-companion-relay-test--handler emacs) #'ignore
            (gemini-companion-relay-test--requests emacs) nil)
      (gemini-companion-relay-test--listen emacs)
      (gemini-companion-relay-test--wait-request emacs "closeDiff")
      (let ((request (gemini-companion-relay-test--wait-request emacs "openDiff")))
        (should (equal (gemini-companion-relay-test--argument request 'filePath) other))
        (gemini-companion-relay-test--say-outcome
         emacs 1 other (gemini-companion-relay-test--proposal request)))
      (gemini-companion-relay-test--wait-outcome program 1)
      (dolist (id '(2 3))
        (gemini-companion-relay-test--check-answered-once program id)))))

(ert-deftest gemini-companion-relay/a-diff-that-the-cli-gives-up-is-closed ()
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((file (gemini-companion-test-file "a")))
      (gemini-companion-relay-test--let-answer
       emacs "openDiff" '(200 (("Content-Type" . "text/event-stream"))))
      (gemini-companion-relay-test--call program 1 "openDiff" :filePath file :newContent "x")
      (gemini-companion-relay-test--wait-request emacs "openDiff")
      (gemini-companion-relay-test--cancel program 1)
      (should (equal (gemini-companion-relay-test--wait-argument emacs "closeDiff" 'filePath)
                     file)))))

(ert-deftest gemini-companion-relay/an-error-of-emacs-ends-the-diff ()
  (gemini-companion-relay-test--with-session (program emacs)
    (let ((file (gemini-companion-test-file "a")))
      (gemini-companion-relay-test--let-answer
       emacs "openDiff"
       (lambda (request)
         (gemini-companion-relay-test--result (gemini-companion-relay-test--in request 'id)
                                              '(:content [] :isError t))))
      (gemini-companion-relay-test--call program 1 "openDiff" :filePath file :newContent "x")
      (should (alist-get 'isError (gemini-companion-relay-test--wait-result program 1)))
      (gemini-companion-relay-test--forget-session emacs)
      (gemini-companion-relay-test--ask program 2)
      (should (= 1 (length (gemini-companion-relay-test--all emacs "openDiff")))))))

(ert-deftest gemini-companion-relay/large-texts-pass-in-both-directions ()
  (gemini-companion-relay-test--with-session (program emacs)
    (let* ((text (make-string (* 8 1024 1024) ?x))
           (file (gemini-companion-test-file "a" text))
           (request (progn
                      (setf (gemini-companion-relay-test--handler emacs)
                            (lambda (request)
                              (when (equal (gemini-companion-relay-test--what request) "echo")
                                (gemini-companion-relay-test--result
                                 1 (list :content (vector (list :type "text" :text text)))))))
                      (gemini-companion-relay-test--open program emacs 9 file text))))
      (should (equal (gemini-companion-relay-test--argument request 'newContent) text))
      (should (equal (gemini-companion-relay-test--argument request 'current)
                     `((text . ,text))))
      (gemini-companion-relay-test--call program 1 "echo")
      (should (equal text (gemini-companion-relay-test--wait-text program 1)))
      ;; Emacs would refuse a message with both of these.
      (call-process "sh" nil nil nil "-c" "head -c 60000000 /dev/zero | tr '\\0' y >\"$1\"" "sh" file)
      (should (equal (gemini-companion-relay-test--argument
                      (gemini-companion-relay-test--open program emacs 10 file text) 'current)
                     '((unreadable . "it is too large")))))))

;;;; Ignore files

(defun gemini-companion-relay-test--rules (emacs)
  "Return what EMACS knows of ignore files, an alist of directories."
  (let (known)
    (dolist (request (gemini-companion-relay-test--all emacs "ignoreRules"))
      (setf (alist-get (gemini-companion-relay-test--argument request 'directory)
                       known nil nil #'equal)
            (cons (gemini-companion-relay-test--argument request 'text)
                  (gemini-companion-relay-test--argument request 'reason))))
    known))

(defun gemini-companion-relay-test--wait-rules (emacs directory rules)
  "Wait until EMACS knows RULES, (TEXT . REASON), of DIRECTORY."
  (gemini-companion-test-wait
   (lambda () (format "%S of %s: %S" rules directory (gemini-companion-relay-test--rules emacs)))
   (lambda ()
     (equal rules (cdr (assoc directory (gemini-companion-relay-test--rules emacs)))))))

(ert-deftest gemini-companion-relay/emacs-is-told-the-ignore-files ()
  (gemini-companion-relay-test--with emacs
    (let* ((here (directory-file-name gemini-companion-test-project))
           (root (concat here "/root"))
           (odd (concat here "/odd"))
           (configure
            (lambda (&rest roots)
              (gemini-companion-relay-test--configure
               (gemini-companion-relay-test--socket emacs) :roots (vconcat roots)))))
      (gemini-companion-test-file "root/.geminiignore" "secret\n")
      (make-directory odd)
      (call-process "mkfifo" nil nil nil (concat odd "/.geminiignore"))
      (funcall configure root here (concat here "/none"))
      (gemini-companion-relay-test--with-program (program emacs)
        (gemini-companion-relay-test--wait-rules emacs here '(:null))
        (gemini-companion-relay-test--wait-rules emacs root '("secret\n"))
        (gemini-companion-relay-test--wait-rules emacs (concat here "/none") '(:null))
        ;; Written, made, and too large.
        (gemini-companion-test-file "root/.geminiignore" "secret\nmore\n")
        (gemini-companion-relay-test--wait-rules emacs root '("secret\nmore\n"))
        (gemini-companion-test-file ".geminiignore" "x")
        (gemini-companion-relay-test--wait-rules emacs here '("x"))
        (gemini-companion-test-file ".geminiignore" (make-string 32769 ?x))
        (gemini-companion-relay-test--wait-rules emacs here '(:null . "it is too large"))
        (let ((coding-system-for-write 'binary))
          (write-region "\xe4" nil (concat here "/.geminiignore") nil 0))
        (gemini-companion-relay-test--wait-rules emacs here '(:null . "it is not UTF-8"))
        ;; Another root.  Where the CLI works does not matter.
        (funcall configure root odd)
        (gemini-companion-relay-test--wait-rules emacs odd '(:null . "it is not a regular file"))
        ;; A new session is told all, an old one nothing new.
        (let ((count (length (gemini-companion-relay-test--all emacs "ignoreRules"))))
          (gemini-companion-relay-test--cut emacs)
          (gemini-companion-relay-test--listen emacs)
          (gemini-companion-relay-test--wait-stream emacs)
          (gemini-companion-relay-test--ask program 1)
          (should (= count (length (gemini-companion-relay-test--all emacs "ignoreRules")))))
        (setf (gemini-companion-relay-test--requests emacs) nil)
        (gemini-companion-relay-test--forget-session emacs)
        (gemini-companion-relay-test--wait-rules emacs root '("secret\nmore\n"))
        (gemini-companion-relay-test--wait-rules emacs odd '(:null . "it is not a regular file"))
        (should-not (assoc here (gemini-companion-relay-test--rules emacs)))))))

;;;; The real server

(defconst gemini-companion-relay-test--prefix "/ssh:far:"
  "What names of files on the host begin with.")

(defvar gemini-companion-relay-test--events nil
  "The events about reviews and files that have come, newest first.")

(defvar gemini-companion-relay-test--way nil
  "The way to the real server: its socket, and the connections.")

(defvar gemini-companion-relay-test--lossy nil
  "What the real server says in vain: a regexp, or nil if nothing is lost.")

(defvar gemini-companion-relay-test--lost nil
  "What it has said in vain, the last first.")

(defconst gemini-companion-relay-test--everything "\\(?:.\\|\n\\)+")

(defconst gemini-companion-relay-test--events-on-stream
  "[[:xdigit:]]+\r\nid: [^\n]*\ndata: [^\n]*\n\n\r\n")

(defun gemini-companion-relay-test--open-way ()
  "Open the way from a socket to the server of this Emacs."
  (let ((file (gemini-companion-test-file "way"))
        (port (gemini-companion-bridge-port)))
    (setq gemini-companion-relay-test--way
          (list (make-network-process
                 :name "way" :server t :family 'local :service file :noquery t :coding 'binary
                 :sentinel #'ignore
                 :log (lambda (_ connection _)
                        (gemini-companion-relay-test--connect connection port)))))
    (gemini-companion-relay-test--configure
     file :roots (vector (directory-file-name gemini-companion-test-project)))))

(defun gemini-companion-relay-test--as-local (bytes)
  "Return BYTES, which may begin a request, as a client of this machine sends it.
It has no wire, which would say of which host it is."
  (string-replace
   "Host: localhost\r\n"
   (format "Host: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n" (gemini-companion-bridge-port)
           (alist-get 'gemini (gemini-companion-bridge-open-host
                               gemini-companion-relay-test--prefix)))
   bytes))

(defun gemini-companion-relay-test--connect (connection port)
  "Connect CONNECTION, of the relay, to PORT."
  (let ((other (make-network-process :name "way" :host "127.0.0.1" :service port
                                     :noquery t :coding 'binary)))
    (set-process-filter connection (lambda (_ bytes)
                                     (ignore-errors
                                       (process-send-string
                                        other (gemini-companion-relay-test--as-local bytes)))))
    (set-process-filter other (lambda (_ bytes)
                                (let ((rest (gemini-companion-relay-test--lose bytes)))
                                  (ignore-errors (process-send-string connection rest)))))
    (pcase-dolist (`(,one ,another) `((,connection ,other) (,other ,connection)))
      (set-process-sentinel one (lambda (one _)
                                  (unless (process-live-p one) (delete-process another)))))
    (setf (cdr gemini-companion-relay-test--way)
          (append (list connection other) (cdr gemini-companion-relay-test--way)))))

(defun gemini-companion-relay-test--lose (bytes)
  "Return what is not lost of BYTES."
  (if (null gemini-companion-relay-test--lossy)
      bytes
    (replace-regexp-in-string gemini-companion-relay-test--lossy
                              (lambda (match)
                                (push match gemini-companion-relay-test--lost)
                                "")
                              bytes t t)))

(defun gemini-companion-relay-test--cut-way ()
  "Cut the way to the server of this Emacs."
  (mapc #'delete-process gemini-companion-relay-test--way)
  (setq gemini-companion-relay-test--way nil
        gemini-companion-relay-test--lossy nil)
  (ignore-errors (delete-file (gemini-companion-test-file "way"))))

(defmacro gemini-companion-relay-test--with-real (&rest body)
  "Evaluate BODY in a new project, with the real server on the other end."
  (declare (indent 0) (debug t))
  `(progn
     (unless (executable-find "node")
       (gemini-companion-test-skip "Node is missing"))
     (gemini-companion-test-with-project
       (let ((gemini-companion-relay-test--events nil)
             (gemini-companion-relay-test--lossy nil)
             (gemini-companion-relay-test--lost nil))
         (cl-letf (((symbol-function 'gemini-companion--handle-open-review)
                    (lambda (&rest event)
                      (push (cons 'open-review event) gemini-companion-relay-test--events)))
                   ((symbol-function 'gemini-companion--handle-close-review)
                    (lambda (_ call)
                      (when call (gemini-companion-bridge-answer call "closed\n"))))
                   ((symbol-function 'gemini-companion--handle-host-file)
                    (lambda (&rest event)
                      (push (cons 'host-file event) gemini-companion-relay-test--events))))
           (gemini-companion-mode 1)
           (gemini-companion-relay-test--open-way)
           (unwind-protect (progn ,@body)
             (gemini-companion-relay-test--cut-way)))))))

(defun gemini-companion-relay-test--wait-event (type &optional count)
  "Wait until COUNT events of TYPE have come, by default 1; return the last one."
  (gemini-companion-test-wait
   (format "%d %s" (or count 1) type)
   (lambda ()
     (let ((all (seq-filter (lambda (event) (eq type (car event)))
                            gemini-companion-relay-test--events)))
       (should (<= (length all) (or count 1)))
       (and (= (length all) (or count 1)) (cdar all))))))

(ert-deftest gemini-companion-relay/with-the-real-server ()
  (gemini-companion-relay-test--with-real
    (let* ((file (gemini-companion-test-file "ä b.txt" "one\n"))
           (here (directory-file-name gemini-companion-test-project))
           (name (concat gemini-companion-relay-test--prefix file)))
      (gemini-companion-test-file ".geminiignore" "secret\n")
      (gemini-companion-relay-test--with-program (program)
        (gemini-companion-relay-test--send program 1 "tools/list")
        (should (equal (mapcar (lambda (tool) (alist-get 'name tool))
                               (alist-get 'tools (gemini-companion-relay-test--wait-result
                                                  program 1)))
                       '("openDiff" "closeDiff")))
        (should (member (concat gemini-companion-relay-test--prefix here)
                        (gemini-companion-bridge-places)))
        (gemini-companion-test-wait
         "the ignore file"
         (lambda () (eq t (gemini-companion-bridge-host-ignored
                           gemini-companion-relay-test--prefix here (concat here "/secret")))))
        ;; Accepted while the way is cut.
        (gemini-companion-relay-test--call program 2 "openDiff" :filePath file :newContent "two\n")
        (let ((review (gemini-companion-relay-test--wait-event 'open-review)))
          (should (equal (nth 3 review) name))
          (should (equal (seq-take (gemini-companion-relay-test--wait-event 'host-file) 2)
                         (list name "one\n")))
          (gemini-companion-relay-test--wait program 2)
          (gemini-companion-relay-test--cut-way)
          (should (gemini-companion-bridge-accept (car review) "edited\n")))
        (gemini-companion-relay-test--open-way)
        (should (equal (gemini-companion-relay-test--wait-outcome program 1)
                       `((filePath . ,file) (content . "edited\n"))))
        (gemini-companion-test-file "ä b.txt" "edited\n")
        (should (equal (nth 1 (gemini-companion-relay-test--wait-event 'host-file 2))
                       "edited\n"))
        ;; Closed by the CLI.
        (gemini-companion-relay-test--call program 3 "openDiff" :filePath file :newContent "x\n")
        (gemini-companion-relay-test--wait-event 'open-review 2)
        (gemini-companion-relay-test--close-diff program 4 file)
        (should (equal (gemini-companion-relay-test--wait-text program 4)
                       "{\"content\":\"closed\\n\"}"))
        (let ((process (gemini-companion-test-program-process program)))
          (process-send-eof process)
          (gemini-companion-test-wait "its end" (lambda () (not (process-live-p process)))))
        (gemini-companion-test-wait
         "the end of the session" (lambda () (null (gemini-companion-bridge-places))))))))

(ert-deftest gemini-companion-relay/the-real-server-shows-a-proposal-once ()
  "Even if its answer is lost, and the user decides in the meantime."
  (gemini-companion-relay-test--with-real
    (let ((file (gemini-companion-test-file "a.txt" "one\n")))
      (gemini-companion-relay-test--with-program (program)
        (gemini-companion-relay-test--ask program 1)
        (setq gemini-companion-relay-test--lossy gemini-companion-relay-test--everything)
        (gemini-companion-relay-test--call program 2 "openDiff" :filePath file :newContent "two\n")
        (let ((review (gemini-companion-relay-test--wait-event 'open-review)))
          (gemini-companion-relay-test--cut-way)
          (gemini-companion-bridge-accept (car review) "edited\n"))
        (should-not (gemini-companion-relay-test--answered program 2))
        (gemini-companion-relay-test--open-way)
        (should (equal (gemini-companion-relay-test--wait-outcome program 1)
                       `((filePath . ,file) (content . "edited\n"))))
        (gemini-companion-relay-test--wait program 2)
        (gemini-companion-relay-test--ask program 3)
        (gemini-companion-relay-test--wait-event 'open-review)
        (gemini-companion-relay-test--wait-outcome program 1)))))

(ert-deftest gemini-companion-relay/the-first-event-can-be-lost ()
  "Then the relay cannot say which one it had last."
  (gemini-companion-relay-test--with-real
    (let ((file (gemini-companion-test-file "a.txt" "one\n")))
      (setq gemini-companion-relay-test--lossy
            gemini-companion-relay-test--events-on-stream)
      (gemini-companion-relay-test--with-program (program)
        (gemini-companion-relay-test--call program 1 "openDiff" :filePath file :newContent "two\n")
        (gemini-companion-relay-test--wait program 1)
        (gemini-companion-bridge-accept
         (car (gemini-companion-relay-test--wait-event 'open-review)) "edited\n")
        (gemini-companion-test-wait
         "the outcome to be lost"
         (lambda () (string-search "edited" (or (car gemini-companion-relay-test--lost) ""))))
        (should-not (gemini-companion-relay-test--outcomes program))
        (gemini-companion-relay-test--cut-way)
        (gemini-companion-relay-test--open-way)
        (should (equal (gemini-companion-relay-test--wait-outcome program 1)
                       `((filePath . ,file) (content . "edited\n"))))))))

(ert-deftest gemini-companion-relay/another-emacs-goes-on ()
  "With the diff that is open, but not with one that is decided."
  (gemini-companion-relay-test--with-real
    (let ((file (gemini-companion-test-file "a.txt" "one\n"))
          (other (gemini-companion-test-file "b.txt" "one\n")))
      (gemini-companion-relay-test--with-program (program)
        (gemini-companion-relay-test--call program 1 "openDiff" :filePath file :newContent "two\n")
        (gemini-companion-relay-test--wait program 1)
        (gemini-companion-relay-test--call program 2 "openDiff" :filePath other :newContent "x\n")
        (gemini-companion-relay-test--wait program 2)
        (gemini-companion-bridge-reject
         (car (gemini-companion-relay-test--wait-event 'open-review 2)))
        (gemini-companion-relay-test--wait-outcome program 1)
        ;; As if it were killed: nothing reaches the CLI.
        (gemini-companion-relay-test--cut-way)
        (gemini-companion-mode -1)
        (gemini-companion-mode 1)
        (gemini-companion-relay-test--open-way)
        (let ((review (gemini-companion-relay-test--wait-event 'open-review 3)))
          (should (equal (nth 3 review) (concat gemini-companion-relay-test--prefix file)))
          (should (equal (nth 4 review) "two\n"))
          (gemini-companion-bridge-accept (car review) "edited\n"))
        (should (equal (gemini-companion-relay-test--wait-outcome program 2)
                       `((filePath . ,file) (content . "edited\n"))))))))

;;;; Random faults

(defun gemini-companion-relay-test--disturb ()
  "Perhaps cut the way to the real server; perhaps lose what it says before."
  (let ((nap (lambda () (accept-process-output nil (/ (random 60) 1000.0)))))
    (when (= 0 (random 3))
      (setq gemini-companion-relay-test--lossy
            (seq-random-elt (list nil gemini-companion-relay-test--everything
                                  gemini-companion-relay-test--events-on-stream)))
      (funcall nap)
      (gemini-companion-relay-test--cut-way)
      (funcall nap)
      (gemini-companion-relay-test--open-way))))

(defun gemini-companion-relay-test--replace-emacs ()
  "Do as if Emacs were killed and another one started."
  (gemini-companion-relay-test--cut-way)
  (gemini-companion-mode -1)
  (gemini-companion-mode 1)
  (setq gemini-companion-relay-test--events nil)
  (gemini-companion-relay-test--open-way))

(defun gemini-companion-relay-test--wait-review (text)
  "Wait until a review of TEXT is open; return its id.  There must be only one."
  (let ((find (lambda ()
                (seq-filter (lambda (event)
                              (and (eq (car event) 'open-review) (equal (nth 5 event) text)))
                            gemini-companion-relay-test--events))))
    (gemini-companion-test-wait (concat "a review of " text) find)
    (should (= 1 (length (funcall find))))
    (nth 1 (car (funcall find)))))

(defun gemini-companion-relay-test--decide (program text file heard)
  "Decide the review of TEXT, which PROGRAM has proposed for FILE.
PROGRAM must hear that once, after HEARD other outcomes."
  (let* ((edited (and (= 0 (random 2)) (concat "edited " text)))
         (review (gemini-companion-relay-test--wait-review text)))
    (should (if edited (gemini-companion-bridge-accept review edited)
              (gemini-companion-bridge-reject review)))
    (gemini-companion-relay-test--disturb)
    (should (equal (gemini-companion-relay-test--wait-outcome program (1+ heard))
                   `((filePath . ,file) ,@(and edited `((content . ,edited))))))))

(defun gemini-companion-relay-test--close (program id text file heard)
  "Let PROGRAM close its diff of FILE, as ID, perhaps while that is decided.
It has proposed TEXT, and heard HEARD outcomes of others."
  (let ((decided (and (= 0 (random 2))
                      (gemini-companion-bridge-accept
                       (gemini-companion-relay-test--wait-review text) "edited"))))
    (gemini-companion-relay-test--close-diff program id file)
    (gemini-companion-relay-test--disturb)
    (let ((answer (gemini-companion-relay-test--wait-text program id))
          (outcomes (length (gemini-companion-relay-test--outcomes program))))
      (should (<= heard outcomes (if decided (1+ heard) heard)))
      ;; What was accepted is not lost.
      (when (and decided (= outcomes heard))
        (should (string-search "edited" (or answer "")))))))

(ert-deftest gemini-companion-relay/each-decision-is-heard-once-whatever-happens ()
  (gemini-companion-relay-test--with-real
    (let ((seed (format "%s" (or (getenv "GEMINI_COMPANION_RELAY_SEED") (float-time)))))
      (random seed)
      (ert-info (seed :prefix "GEMINI_COMPANION_RELAY_SEED=")
        (gemini-companion-relay-test--with-program (program)
          (dotimes (round 25)
            (let ((id (+ 1000 (* 10 round)))
                  (file (gemini-companion-test-file (format "f%d" (random 3)) "one\n"))
                  (text (format "%d\n" round))
                  (heard (length (gemini-companion-relay-test--outcomes program))))
              (gemini-companion-relay-test--disturb)
              (gemini-companion-relay-test--call
               program id "openDiff" :filePath file :newContent text)
              (gemini-companion-relay-test--disturb)
              (gemini-companion-relay-test--wait-review text)
              (gemini-companion-relay-test--disturb)
              (when (= 0 (random 8))
                (gemini-companion-relay-test--replace-emacs)
                (gemini-companion-relay-test--wait-review text))
              (if (= 0 (random 3))
                  (gemini-companion-relay-test--close program (1+ id) text file heard)
                (gemini-companion-relay-test--decide program text file heard))
              (gemini-companion-relay-test--wait-review text)
              (gemini-companion-relay-test--wait program id)
              (gemini-companion-relay-test--check-answered-once program id))))))))

(provide 'gemini-companion-relay-test)
;;; gemini-companion-relay-test.el ends here

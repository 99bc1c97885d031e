;;; gemini-companion-tools-adapter-test.el --- Tests of what a CLI starts for the tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The program runs in Node, with this Emacs as the companion that it finds.
;; Tools are registered, and their calls answered, by the tests themselves.

;;; Code:

(require 'ert)
(require 'gemini-companion-bridge)
(require 'gemini-companion-tool-extension)
(require 'gemini-companion-test-companion)

(declare-function gemini-companion--mod-set-tools "ext:gemini-companion-module" (companion tools) t)

(defconst gemini-companion-adapter-test--program
  (gemini-companion-test-path "src" "tools_adapter.mjs"))

(defvar gemini-companion-adapter-test--calls nil
  "The calls of tools that have come, lists of the call and so on, newest first.")

(defvar gemini-companion-adapter-test--cancelled nil
  "The calls that were cancelled.")

(defvar gemini-companion-adapter-test--answers nil
  "An alist of tools and the answers that are given at once, texts.")

(defun gemini-companion-adapter-test--tmpdir ()
  "Return the temporary directory of the adapter, without slash."
  (gemini-companion-test-file "tmp"))

(defun gemini-companion-adapter-test--set-tools ()
  "Register a tool for the model, and one for the hook."
  (gemini-companion--mod-set-tools
   gemini-companion-bridge--companion
   (vector (vector "echo" "Returns it" t t
                   (vector (vector "text" "string" "What" t))
                   nil)
           (vector "noteEdit" "For the hook" nil nil
                   (vconcat (mapcar (lambda (name)
                                      (vector name "string" name (equal name "path")))
                                    '("path" "tool" "before" "after" "session"))
                            '(["process" "integer" "process" nil]
                              ["modified" "integer" "modified" nil]))
                   nil))))

(defun gemini-companion-adapter-test--take-call (call agent tool arguments directory)
  "Record CALL of TOOL by AGENT with ARGUMENTS in DIRECTORY, and perhaps answer it."
  (push (list call agent tool
              ;; Tests compare the edit only, not who has made it.
              (append (if (equal tool "noteEdit") (seq-take arguments 4) arguments) nil)
              directory)
        gemini-companion-adapter-test--calls)
  (when-let* ((answer (assoc tool gemini-companion-adapter-test--answers)))
    (gemini-companion-bridge-answer call (cdr answer) nil)))

(defun gemini-companion-adapter-test--switch-on ()
  "Switch the mode on, and wait until the adapter could find this Emacs."
  (gemini-companion-mode 1)
  (gemini-companion-test-wait
   "the project to be announced"
   (lambda () (member (directory-file-name gemini-companion-test-project)
                      (mapcar #'directory-file-name (gemini-companion-workspace-announced))))))

(defmacro gemini-companion-adapter-test--with (&rest body)
  "Evaluate BODY in a new project, in which the mode is still off.
The tests' own tools are registered when they are wanted."
  (declare (indent 0) (debug t))
  `(progn
     (unless (executable-find "node")
       (gemini-companion-test-skip "Node is missing"))
     (gemini-companion-test-with-project
       (make-directory (gemini-companion-test-file ".git"))
       (make-directory (gemini-companion-adapter-test--tmpdir))
       (make-directory (gemini-companion-test-file "home/.qwen") t)
       (switch-to-buffer
        (find-file-noselect (gemini-companion-test-file "a.txt" "one\n")))
       (let ((gemini-companion-adapter-test--calls nil)
             (gemini-companion-adapter-test--cancelled nil)
             (gemini-companion-adapter-test--answers nil)
             (gemini-companion-temporary-directories
              (list (gemini-companion-adapter-test--tmpdir))))
         (cl-letf (((symbol-function 'gemini-companion--handle-tools-wanted)
                    #'gemini-companion-adapter-test--set-tools)
                   ((symbol-function 'gemini-companion--handle-call-tool)
                    #'gemini-companion-adapter-test--take-call)
                   ((symbol-function 'gemini-companion--handle-cancel-call)
                    (lambda (call) (push call gemini-companion-adapter-test--cancelled))))
           ,@body)))))

;;;; The program

(defun gemini-companion-adapter-test--environment (&rest more)
  "Return the environment of the adapter, with the variables MORE."
  (append more
          (list (concat "PATH=" (getenv "PATH"))
                (concat "HOME=" (gemini-companion-test-file "home"))
                (concat "TMPDIR=" (gemini-companion-adapter-test--tmpdir)))))

(defmacro gemini-companion-adapter-test--with-program (spec &rest body)
  "Evaluate BODY with the adapter running, and check that it says nothing else.
SPEC is (PROGRAM &key AGENT DIRECTORY ENVIRONMENT)."
  (declare (indent 1) (debug (sexp body)))
  (let ((program (car spec)))
    `(let ((,program (gemini-companion-adapter-test--start ,@(cdr spec))))
       (unwind-protect
           (progn
             ,@body
             (should (equal "" (gemini-companion-test-read
                                (gemini-companion-test-program-stderr ,program)))))
         (gemini-companion-test-program-stop ,program)))))

(cl-defun gemini-companion-adapter-test--start
    (&key (agent 'gemini) (directory gemini-companion-test-project) environment)
  "Start the adapter for AGENT in DIRECTORY, with more ENVIRONMENT; return it."
  (let ((program (gemini-companion-test-program-start
                  `(,(executable-find "node") ,gemini-companion-adapter-test--program
                    ,@(cdr (gemini-companion-tool-extension--words agent)))
                  directory
                  (apply #'gemini-companion-adapter-test--environment environment))))
    (gemini-companion-adapter-test--request
     program 0 "initialize"
     (list :protocolVersion "2025-06-18" :capabilities (make-hash-table)
           :clientInfo '(:name "test" :version "1")))
    (gemini-companion-test-program-send
     program '(:jsonrpc "2.0" :method "notifications/initialized"))
    program))

(defun gemini-companion-adapter-test--send (program id method &optional params)
  "Send PROGRAM a request ID of METHOD with PARAMS."
  (gemini-companion-test-program-send
   program `(:jsonrpc "2.0" :id ,id :method ,method ,@(and params (list :params params)))))

(defun gemini-companion-adapter-test--wait (program id)
  "Wait for the answer of PROGRAM to ID; return its result or error."
  (let ((answer (gemini-companion-test-wait
                 (format "an answer to %s" id)
                 (lambda ()
                   (gemini-companion-test-program-find
                    program (lambda (line) (equal (alist-get 'id line) id)))))))
    (or (alist-get 'result answer) (alist-get 'error answer))))

(defun gemini-companion-adapter-test--request (program id method &optional params)
  "Request METHOD with PARAMS of PROGRAM as ID; return the result or error."
  (gemini-companion-adapter-test--send program id method params)
  (gemini-companion-adapter-test--wait program id))

(defun gemini-companion-adapter-test--call (program id text)
  "Let PROGRAM call echo with TEXT as ID."
  (gemini-companion-adapter-test--send
   program id "tools/call" `(:name "echo" :arguments (:text ,text))))

(defun gemini-companion-adapter-test--text (result)
  "Return the text in RESULT, that of a call, and whether it is an error."
  (cons (alist-get 'text (car (alist-get 'content result)))
        (and (alist-get 'isError result) t)))

(defun gemini-companion-adapter-test--lists (program id)
  "Return the names of the tools and prompts of PROGRAM, two lists.
They are requested in the order of the CLI, as ID and the next one."
  (let ((prompts (gemini-companion-adapter-test--request program id "prompts/list"))
        (tools (gemini-companion-adapter-test--request program (1+ id) "tools/list")))
    (mapcar (lambda (objects) (mapcar (lambda (it) (alist-get 'name it)) objects))
            (list (alist-get 'tools tools) (alist-get 'prompts prompts)))))

(defun gemini-companion-adapter-test--count (program method)
  "Return how often PROGRAM has sent the notification METHOD."
  (seq-count (lambda (line) (equal (alist-get 'method line) method))
             (gemini-companion-test-program-lines program)))

(defun gemini-companion-adapter-test--wait-changes (program count)
  "Wait until PROGRAM has said COUNT times that its lists have changed."
  (gemini-companion-test-wait
   (format "%d changes of the lists" count)
   (lambda ()
     (and (= count (gemini-companion-adapter-test--count
                    program "notifications/tools/list_changed"))
          (= count (gemini-companion-adapter-test--count
                    program "notifications/prompts/list_changed"))))))

(defun gemini-companion-adapter-test--wait-call (count)
  "Wait until COUNT calls have come; return the last one."
  (gemini-companion-test-wait
   (format "%d calls" count)
   (lambda ()
     (and (= count (length gemini-companion-adapter-test--calls))
          (car gemini-companion-adapter-test--calls)))))

(defun gemini-companion-adapter-test--answer (call text)
  "Answer CALL by TEXT."
  (should (gemini-companion-bridge-answer (car call) text nil)))

;;;; Lists and calls

(ert-deftest gemini-companion-adapter/tools-of-emacs-are-listed-and-called ()
  (gemini-companion-adapter-test--with
    (gemini-companion-adapter-test--switch-on)
    (gemini-companion-adapter-test--with-program (program)
      (let ((hello (gemini-companion-adapter-test--wait program 0)))
        (should (equal (alist-get 'protocolVersion hello) "2025-06-18"))
        (should (equal (alist-get 'tools (alist-get 'capabilities hello)) '((listChanged . t)))))
      (should-not (gemini-companion-adapter-test--request program 1 "ping"))
      ;; The tool for the hook is not for the model.
      (should (equal (gemini-companion-adapter-test--lists program 2) '(("echo") nil)))
      (gemini-companion-adapter-test--call program "four" "ä\n𝕏")
      (pcase-let (((and call `(,_ ,agent ,tool ,arguments ,directory))
                   (gemini-companion-adapter-test--wait-call 1)))
        (should (eq agent 'gemini))
        (should (equal tool "echo"))
        (should (equal arguments '("ä\n𝕏")))
        (should (equal (file-truename directory)
                       (directory-file-name gemini-companion-test-project)))
        (gemini-companion-adapter-test--answer call "the answer: ö\u2028"))
      (should (equal (gemini-companion-adapter-test--text
                      (gemini-companion-adapter-test--wait program "four"))
                     '("the answer: ö\u2028")))
      (gemini-companion-adapter-test--call program 5 "no")
      (gemini-companion-bridge-fail (car (gemini-companion-adapter-test--wait-call 2)) "Not today")
      (should (equal (gemini-companion-adapter-test--text
                      (gemini-companion-adapter-test--wait program 5))
                     '("Not today" . t)))
      (should (string-search "unknown tool"
                             (alist-get 'message
                                        (gemini-companion-adapter-test--request
                                         program 6 "tools/call" '(:name "nothing"))))))))

(ert-deftest gemini-companion-adapter/calls-at-the-same-time-get-their-own-answers ()
  (gemini-companion-adapter-test--with
    (gemini-companion-adapter-test--switch-on)
    (gemini-companion-adapter-test--with-program (program)
      (gemini-companion-adapter-test--call program 1 "one")
      (let ((one (gemini-companion-adapter-test--wait-call 1)))
        (gemini-companion-adapter-test--call program 2 "two")
        (gemini-companion-adapter-test--answer
         (gemini-companion-adapter-test--wait-call 2) "second")
        (should (equal (gemini-companion-adapter-test--text
                        (gemini-companion-adapter-test--wait program 2))
                       '("second")))
        (gemini-companion-adapter-test--answer one "first")
        (should (equal (gemini-companion-adapter-test--text
                        (gemini-companion-adapter-test--wait program 1))
                       '("first")))))))

(ert-deftest gemini-companion-adapter/a-cancelled-call-gets-no-answer ()
  (gemini-companion-adapter-test--with
    (gemini-companion-adapter-test--switch-on)
    (gemini-companion-adapter-test--with-program (program)
      (gemini-companion-adapter-test--call program 1 "one")
      (let ((call (car (gemini-companion-adapter-test--wait-call 1))))
        (gemini-companion-test-program-send
         program '(:jsonrpc "2.0" :method "notifications/cancelled" :params (:requestId 1)))
        (gemini-companion-test-wait
         "Emacs to know" (lambda () (equal gemini-companion-adapter-test--cancelled (list call))))
        (should-not (gemini-companion-bridge-answer call "too late" nil)))
      (gemini-companion-adapter-test--request program 2 "ping")
      (should-not (gemini-companion-test-program-find
                   program (lambda (line) (equal (alist-get 'id line) 1)))))))

(ert-deftest gemini-companion-adapter/it-ends-with-its-input ()
  (gemini-companion-adapter-test--with
    (gemini-companion-adapter-test--switch-on)
    (gemini-companion-adapter-test--with-program (program)
      (gemini-companion-adapter-test--call program 1 "one")
      (let ((call (car (gemini-companion-adapter-test--wait-call 1)))
            (process (gemini-companion-test-program-process program)))
        (process-send-eof process)
        (gemini-companion-test-wait "its end" (lambda () (not (process-live-p process))))
        (should (= (process-exit-status process) 0))
        (gemini-companion-test-wait
         "Emacs to know"
         (lambda () (equal gemini-companion-adapter-test--cancelled (list call))))))))

;;;; Finding Emacs

(ert-deftest gemini-companion-adapter/emacs-may-come-and-go ()
  "Without it, there is a prompt instead of tools, and calls say what to do."
  (gemini-companion-adapter-test--with
    (gemini-companion-adapter-test--with-program (program)
      (should (equal (gemini-companion-adapter-test--lists program 1) '(nil ("emacs-help"))))
      (should (string-search
               "M-x gemini-companion-mode"
               (format "%s" (gemini-companion-adapter-test--request
                             program 3 "prompts/get" '(:name "emacs-help")))))
      (gemini-companion-adapter-test--call program 4 "one")
      (pcase-let ((`(,text . ,failed) (gemini-companion-adapter-test--text
                                       (gemini-companion-adapter-test--wait program 4))))
        (should failed)
        (should (string-match-p "No Emacs has .*M-x gemini-companion-mode" text)))
      (gemini-companion-adapter-test--switch-on)
      (gemini-companion-adapter-test--wait-changes program 1)
      (should (equal (gemini-companion-adapter-test--lists program 5) '(("echo") nil)))
      (gemini-companion-mode -1)
      (gemini-companion-adapter-test--wait-changes program 2)
      (should (equal (gemini-companion-adapter-test--lists program 7) '(nil ("emacs-help"))))
      ;; Even if the directory in which it looks is removed.
      (delete-directory (expand-file-name "gemini" (gemini-companion-adapter-test--tmpdir)) t)
      (gemini-companion-adapter-test--switch-on)
      (gemini-companion-adapter-test--wait-changes program 3)
      (should (equal (gemini-companion-adapter-test--lists program 9) '(("echo") nil))))))

(ert-deftest gemini-companion-adapter/an-emacs-on-another-port-is-found ()
  (gemini-companion-adapter-test--with
    (setq gemini-companion-adapter-test--answers '(("echo" . "here")))
    (gemini-companion-adapter-test--switch-on)
    (gemini-companion-adapter-test--with-program (program)
      (let ((port (gemini-companion-bridge-port)))
        (gemini-companion-adapter-test--call program 1 "one")
        (should (equal (gemini-companion-adapter-test--text
                        (gemini-companion-adapter-test--wait program 1))
                       '("here")))
        (gemini-companion-mode -1)
        (let ((squatter (make-network-process :name "squatter" :server t :host "127.0.0.1"
                                              :service port :noquery t)))
          (unwind-protect
              (progn
                (gemini-companion-adapter-test--switch-on)
                (should-not (= port (gemini-companion-bridge-port)))
                (gemini-companion-adapter-test--call program 2 "two")
                (should (equal (gemini-companion-adapter-test--text
                                (gemini-companion-adapter-test--wait program 2))
                               '("here"))))
            (delete-process squatter)))))))

(defun gemini-companion-adapter-test--announce (name object)
  "Write a discovery file NAME with the members of the plist OBJECT.
By default it is of the Emacs in this project, on a port without a server."
  (gemini-companion-test-write
   (expand-file-name (concat "gemini/ide/" name) (gemini-companion-adapter-test--tmpdir))
   (decode-coding-string
    (gemini-companion-test-json-encode
     (append object
             (list :port 1 :authToken "wrong" :ideInfo '(:name "emacs" :displayName "Emacs")
                   :workspacePath (directory-file-name gemini-companion-test-project))))
    'utf-8)))

(ert-deftest gemini-companion-adapter/another-emacs-is-asked-if-the-first-one-fails ()
  "Whether its server is dead, or has another token."
  (gemini-companion-adapter-test--with
    (setq gemini-companion-adapter-test--answers '(("echo" . "here")))
    (gemini-companion-adapter-test--switch-on)
    (let* ((port (gemini-companion-bridge-port))
           ;; It is preferred, since its process is the one that the variable names.
           (environment (list (format "GEMINI_CLI_IDE_PID=%d" 1))))
      (dolist (bad `((:port 1) (:port ,port)))
        (gemini-companion-adapter-test--announce "gemini-ide-server-1-77.json" bad)
        (gemini-companion-adapter-test--with-program (program :environment environment)
          (gemini-companion-adapter-test--call program 1 "one")
          (should (equal (gemini-companion-adapter-test--text
                          (gemini-companion-adapter-test--wait program 1))
                         '("here"))))))
    ;; Without another one, it says what was wrong.
    (gemini-companion-adapter-test--with-program (program)
      (mapc #'delete-file (directory-files (expand-file-name
                                            "gemini/ide" (gemini-companion-adapter-test--tmpdir))
                                           t "-[0-9]+-[0-9]+\\.json\\'"))
      (pcase-dolist (`(,bad . ,reason) `(((:port 1) . "ECONNREFUSED")
                                         ((:port ,(gemini-companion-bridge-port))
                                          . "does not know the token")))
        (gemini-companion-adapter-test--announce "gemini-ide-server-1-77.json" bad)
        (gemini-companion-adapter-test--call program reason "one")
        (pcase-let ((`(,text . ,failed) (gemini-companion-adapter-test--text
                                         (gemini-companion-adapter-test--wait program reason))))
          (should failed)
          (should (string-search reason text))
          (should (string-search "M-x gemini-companion-doctor" text)))))))

(ert-deftest gemini-companion-adapter/files-of-others-are-ignored ()
  (gemini-companion-adapter-test--with
    (pcase-dolist (`(,name . ,object)
                   `(("gemini-ide-server-1-1.json" :workspacePath "/elsewhere")
                     ("gemini-ide-server-1-2.json"
                      :workspacePath ,(concat gemini-companion-test-project "below"))
                     ("gemini-ide-server-1-3.json" :ideInfo (:name "vscode" :displayName "Code"))
                     ("gemini-ide-server-1-4.json" :port "1")
                     ("gemini-ide-server-1-5.json" :authToken "a\r\nb")
                     ("gemini-ide-server-1-6.json" :workspacePath "")
                     ("gemini-ide-server-1.json")
                     ("other.json")))
      (gemini-companion-adapter-test--announce name object))
    (let ((directory (expand-file-name "gemini/ide/" (gemini-companion-adapter-test--tmpdir))))
      (gemini-companion-test-write (concat directory "gemini-ide-server-1-7.json") "{")
      (gemini-companion-test-write (concat directory "gemini-ide-server-1-8.json") "null")
      (call-process "mkfifo" nil nil nil (concat directory "gemini-ide-server-1-9.json"))
      (make-directory (concat directory "gemini-ide-server-1-10.json")))
    (gemini-companion-adapter-test--with-program (program)
      (should (equal (gemini-companion-adapter-test--lists program 1) '(nil ("emacs-help"))))
      (gemini-companion-adapter-test--call program 3 "one")
      (should (string-prefix-p "No Emacs has" (car (gemini-companion-adapter-test--text
                                                    (gemini-companion-adapter-test--wait
                                                     program 3))))))))

(ert-deftest gemini-companion-adapter/symbolic-links-are-resolved ()
  (gemini-companion-adapter-test--with
    (setq gemini-companion-adapter-test--answers '(("echo" . "here")))
    (gemini-companion-adapter-test--switch-on)
    (let ((link (concat (directory-file-name gemini-companion-test-project) "-link")))
      (make-symbolic-link gemini-companion-test-project link)
      (unwind-protect
          (gemini-companion-adapter-test--with-program
              (program :directory (file-name-as-directory link))
            (gemini-companion-adapter-test--call program 1 "one")
            (should (equal (gemini-companion-adapter-test--text
                            (gemini-companion-adapter-test--wait program 1))
                           '("here"))))
        (delete-file link)))))

(ert-deftest gemini-companion-adapter/each-program-has-a-file-and-a-token-of-its-own ()
  "Also one that this package does not know, by its entry."
  (let ((gemini-companion-agents '(gemini qwen other))
        (gemini-companion-agent-profiles
         '((other :title "Other" :directory (temporary "other/ide") :file "other-PORT.json"
                  :tells-process t :extension (:here ".") :variables (("OTHER_PORT" . port))))))
    (dolist (agent '(qwen other))
      (gemini-companion-adapter-test--with
        (setq gemini-companion-adapter-test--answers '(("echo" . "here")))
        (let ((before (default-toplevel-value 'process-environment))
              (home (gemini-companion-test-file "home/.qwen")))
          (set-default-toplevel-value 'process-environment (cons (concat "QWEN_HOME=" home) before))
          (unwind-protect
              (progn
                (gemini-companion-adapter-test--switch-on)
                (gemini-companion-adapter-test--with-program
                    (program :agent agent :environment '("QWEN_HOME=~/.qwen"))
                  (gemini-companion-adapter-test--call program 1 "one")
                  (should (equal (gemini-companion-adapter-test--text
                                  (gemini-companion-adapter-test--wait program 1))
                                 '("here")))
                  (should (eq agent (nth 1 (car gemini-companion-adapter-test--calls))))))
            (gemini-companion-mode -1)
            (set-default-toplevel-value 'process-environment before)))))))

;;;; Odd input

(ert-deftest gemini-companion-adapter/odd-input-is-refused-or-ignored ()
  (gemini-companion-adapter-test--with
    (gemini-companion-adapter-test--with-program (program)
      (dolist (line '("" "  " "{" "[]" "null" "5" "\"x\"" "{}" "\0" "\xff\xfe"
                      "{\"id\":9,\"result\":{}}"
                      "{\"method\":\"notifications/cancelled\"}"
                      "{\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":77}}"
                      "{\"method\":\"unknown\"}"
                      "{\"id\":null,\"method\":\"ping\"}" "{\"id\":{},\"method\":\"ping\"}"
                      "{\"id\":1,\"method\":\"unknown\"}"
                      "{\"id\":2,\"method\":\"tools/call\"}"
                      "{\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":5}}"
                      "{\"id\":4,\"method\":\"prompts/get\",\"params\":[]}"
                      "{\"id\":5,\"method\":\"initialize\"}"
                      "{\"id\":6,\"method\":\"__proto__\"}"))
        (process-send-string (gemini-companion-test-program-process program)
                             (concat (encode-coding-string line 'utf-8) "\n")))
      ;; A line that comes in pieces, and two that come at once.
      (process-send-string (gemini-companion-test-program-process program)
                           "{\"id\":\"x\",\"me")
      (process-send-string (gemini-companion-test-program-process program)
                           "thod\":\"ping\"}\n{\"id\":\"y\",\"method\":\"ping\"}\n")
      (should-not (gemini-companion-adapter-test--wait program "x"))
      (should-not (gemini-companion-adapter-test--wait program "y"))
      (dolist (id '(1 2 3 4 6))
        (should (alist-get 'code (gemini-companion-adapter-test--wait program id))))
      (should (equal (alist-get 'protocolVersion (gemini-companion-adapter-test--wait program 5))
                     "2025-11-25"))
      (should (equal (sort (mapcar (lambda (line) (alist-get 'code (alist-get 'error line)))
                                   (seq-filter (lambda (line) (eq (alist-get 'id line) :null))
                                               (gemini-companion-test-program-lines program)))
                           #'<)
                     '(-32700 -32700 -32700 -32600 -32600 -32600 -32600 -32600 -32600))))))

(ert-deftest gemini-companion-adapter/a-huge-line-is-refused ()
  (gemini-companion-adapter-test--with
    (gemini-companion-adapter-test--with-program (program)
      (let ((process (gemini-companion-test-program-process program)))
        (process-send-string process "{\"id\":1,\"method\":\"ping\",\"params\":\"")
        (dotimes (_ 17)
          (process-send-string process (make-string (* 1024 1024) ?x)))
        (process-send-string process "\"}\n"))
      (gemini-companion-adapter-test--request program 2 "ping")
      (should (gemini-companion-test-program-find
               program (lambda (line) (eq (alist-get 'id line) :null))))
      (should-not (gemini-companion-test-program-find
                   program (lambda (line) (eql (alist-get 'id line) 1)))))))

(ert-deftest gemini-companion-adapter/an-emacs-that-does-not-answer-keeps-nobody-waiting ()
  "Its tools are missing from the lists, and there may be 64 calls at once."
  (gemini-companion-adapter-test--with
    (let ((server (make-network-process
                   :name "silent" :server t :host "127.0.0.1" :service t :noquery t
                   :sentinel (lambda (connection _)
                               (set-process-query-on-exit-flag connection nil)))))
      (unwind-protect
          (progn
            (gemini-companion-adapter-test--announce
             "gemini-ide-server-1-1.json" (list :port (process-contact server :service)))
            (gemini-companion-adapter-test--with-program (program)
              (should (equal (gemini-companion-adapter-test--lists program 1)
                             '(nil ("emacs-help"))))
              (dotimes (index 65)
                (gemini-companion-adapter-test--call program (+ 100 index) "x"))
              (should (string-search "64 requests"
                                     (alist-get 'message (gemini-companion-adapter-test--wait
                                                          program 164))))
              ;; A second request with the same id is not answered on its own.
              (gemini-companion-adapter-test--call program 100 "x")
              (gemini-companion-test-program-send
               program '(:method "notifications/cancelled" :params (:requestId 100)))
              (gemini-companion-adapter-test--request program 200 "ping")
              (should-not (seq-filter (lambda (line) (memql (alist-get 'id line)
                                                            (number-sequence 100 163)))
                                      (gemini-companion-test-program-lines program)))))
        (delete-process server)))))

;;;; The hook

(defun gemini-companion-adapter-test--hook (agent input)
  "Return what the hook for AGENT writes, given INPUT, a value or a string.
It must succeed, and write nothing to stderr."
  (let* ((output "")
         (stderr (generate-new-buffer " *stderr*" t))
         (process-environment (gemini-companion-adapter-test--environment))
         (process (make-process
                   :name "hook" :noquery t :coding 'utf-8-unix :connection-type 'pipe
                   :command `(,(executable-find "node") ,gemini-companion-adapter-test--program
                              ,@(cdr (gemini-companion-tool-extension--words agent))
                              "hook=edited" "cli=1")
                   :stderr stderr
                   :filter (lambda (_ text) (setq output (concat output text)))
                   :sentinel #'ignore)))
    (set-process-query-on-exit-flag (get-buffer-process stderr) nil)
    (set-process-sentinel (get-buffer-process stderr) #'ignore)
    (process-send-string process (if (stringp input) input
                                   (decode-coding-string
                                    (gemini-companion-test-json-encode input) 'utf-8)))
    (process-send-eof process)
    (gemini-companion-test-wait "the end of the hook"
                                (lambda () (not (process-live-p process))))
    (should (= 0 (process-exit-status process)))
    (should (equal "" (with-current-buffer stderr (buffer-string))))
    (let ((kill-buffer-query-functions nil)) (kill-buffer stderr))
    output))

(defun gemini-companion-adapter-test--response (shown)
  "Return what a tool has answered, and has SHOWN to the user, a value."
  (list :llmContent "Successfully created and wrote to new file: a.txt." :returnDisplay shown))

(defun gemini-companion-adapter-test--input (&rest members)
  "Return what Gemini CLI gives a hook after write_file, with MEMBERS before that."
  (append members
          (list :session_id "x" :cwd (directory-file-name gemini-companion-test-project)
                :hook_event_name "AfterTool" :tool_name "write_file"
                :tool_input '(:file_path "a.txt" :content "two\n")
                :tool_response
                (gemini-companion-adapter-test--response
                 (list :fileName "a.txt" :filePath (gemini-companion-test-file "a.txt")
                       :originalContent "one\n" :newContent "two ä\n" :isNewFile :false)))))

(ert-deftest gemini-companion-adapter/the-hook-tells-emacs-and-then-the-model ()
  (gemini-companion-adapter-test--with
    (setq gemini-companion-adapter-test--answers '(("noteEdit" . "a.txt:1: error: no")))
    (gemini-companion-adapter-test--switch-on)
    (should (equal (gemini-companion-test-json-decode
                    (encode-coding-string
                     (gemini-companion-adapter-test--hook
                      'gemini (gemini-companion-adapter-test--input))
                     'utf-8))
                   '((hookSpecificOutput (hookEventName . "AfterTool")
                                         (additionalContext . "a.txt:1: error: no")))))
    (pcase-let ((`(,_ ,_ ,tool ,arguments ,directory)
                 (car gemini-companion-adapter-test--calls)))
      (should (equal tool "noteEdit"))
      (should (equal arguments (list (gemini-companion-test-file "a.txt") "write_file"
                                     "one\n" "two ä\n")))
      (should (equal (file-truename directory)
                     (directory-file-name gemini-companion-test-project))))))

(ert-deftest gemini-companion-adapter/the-hook-says-nothing-if-emacs-does-not ()
  (gemini-companion-adapter-test--with
    (setq gemini-companion-adapter-test--answers '(("noteEdit" . "")))
    (should (equal "" (gemini-companion-adapter-test--hook
                       'gemini (gemini-companion-adapter-test--input))))
    (gemini-companion-adapter-test--switch-on)
    (should (equal "" (gemini-companion-adapter-test--hook
                       'gemini (gemini-companion-adapter-test--input))))
    (should (= 1 (length gemini-companion-adapter-test--calls)))
    ;; A tool that failed has edited nothing, and other input is none of a hook.
    (dolist (input (list "" "{" "null" "[]" "{}" "{\"cwd\":5}"
                         (gemini-companion-adapter-test--input
                          :tool_response '(:llmContent "x" :error (:message "no")))
                         (gemini-companion-adapter-test--input :tool_input '(:file_path 5))
                         (gemini-companion-adapter-test--input :cwd "relative")))
      (should (equal "" (gemini-companion-adapter-test--hook 'gemini input))))
    (should (= 1 (length gemini-companion-adapter-test--calls)))))

(ert-deftest gemini-companion-adapter/the-hook-knows-before-and-after-of-all-edits ()
  (gemini-companion-adapter-test--with
    (setq gemini-companion-adapter-test--answers '(("noteEdit" . "")))
    (gemini-companion-adapter-test--switch-on)
    (pcase-dolist
        (`(,asked ,shown ,before ,after)
         `(;; Gemini CLI's write_file of a new file, replace of one, Qwen Code's edit and write_file.
           ((:content "2") (:originalContent "" :newContent "2" :isNewFile t) nil "2")
           ((:old_string "" :new_string "2") "Created a.txt" nil "2")
           ((:old_string "1" :new_string "2") (:originalContent "1" :newContent "2") "1" "2")
           ((:old_string "" :new_string "2") (:originalContent :null :newContent "2") nil "2")
           ((:content "2") (:originalContent "" :newContent "2") nil "2")
           ;; Nothing is known.
           ((:content "2") "Written" nil nil)))
      (ert-info ((format "%S %S" asked shown))
        (gemini-companion-adapter-test--hook
         'gemini (gemini-companion-adapter-test--input
                  :tool_input (append '(:file_path "sub/b.txt") asked)
                  :tool_response (gemini-companion-adapter-test--response shown)))
        (should (equal (nth 3 (car gemini-companion-adapter-test--calls))
                       (list (gemini-companion-test-file "sub/b.txt") "write_file"
                             before after)))))
    ;; Qwen Code's notebook_edit.
    (gemini-companion-adapter-test--hook
     'gemini (gemini-companion-adapter-test--input
              :tool_input '(:notebook_path "sub/n.ipynb")
              :tool_response (gemini-companion-adapter-test--response
                              '(:originalContent "1" :newContent "2"))))
    (should (equal (nth 3 (car gemini-companion-adapter-test--calls))
                   (list (gemini-companion-test-file "sub/n.ipynb") "write_file" "1" "2")))
    ;; An empty file that was there, for Gemini CLI.
    (gemini-companion-adapter-test--hook
     'gemini (gemini-companion-adapter-test--input
              :tool_response (gemini-companion-adapter-test--response
                              '(:originalContent "" :newContent "2" :isNewFile :false))))
    (should (equal (nthcdr 2 (nth 3 (car gemini-companion-adapter-test--calls))) '("" "2")))))

;;; gemini-companion-tools-adapter-test.el ends here

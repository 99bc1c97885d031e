;;; gemini-companion-test-client.el --- Real and fake clients  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A small interface to two clients: the IDE client of the real Gemini CLI
;; (driven by test/e2e/client/ide-client.mjs) and `fake-cli'.  A test defined by
;; `gemini-companion-test-with-clients' runs with both; that with the real
;; client is skipped with a message where Node or the CLI is missing.

;;; Code:

(require 'ert)
(require 'fake-cli)
(require 'gemini-companion-test-emacs)
(require 'gemini-companion-test-review)

;;;; The real client, and whether it can run

(defconst gemini-companion-test-client-directory
  (gemini-companion-test-path "test" "e2e" "client")
  "The directory in which the real client is installed.")

(defvar gemini-companion-test-client--node 'unknown
  "The program Node, nil if there is none that is recent enough.")

(defun gemini-companion-test-node ()
  "Return the program Node if it is recent enough for the real client."
  (when (eq gemini-companion-test-client--node 'unknown)
    (let ((node (executable-find "node")))
      (setq gemini-companion-test-client--node
            (and node
                 (let ((version (shell-command-to-string "node --version")))
                   (and (string-match "\\`v\\([0-9]+\\)\\." version)
                        (>= (string-to-number (match-string 1 version)) 20)))
                 node))))
  gemini-companion-test-client--node)

(defun gemini-companion-test-why-no-real-client ()
  "Return why the real client cannot run here, or nil if it can."
  (cond ((not (gemini-companion-test-node)) "Node 20 or newer is missing")
        ((not (file-directory-p
               (expand-file-name "node_modules/@google/gemini-cli/bundle"
                                 gemini-companion-test-client-directory)))
         "the pinned Gemini CLI is not installed (test/e2e/client)")
        ((not (executable-find "ps")) "the program ps is missing")))

(defun gemini-companion-test-require-real-client ()
  "Skip the current test, with a message, where the real client cannot run."
  (let ((reason (gemini-companion-test-why-no-real-client)))
    (when reason
      (gemini-companion-test-skip "%s" reason))))

(defun gemini-companion-test-client-environment (emacs)
  "Return the whole environment of a client that is to find EMACS.
The first variable keeps the CLI from searching outside of its container."
  (list "VSCODE_REMOTE_CONTAINERS_SESSION=1"
        (concat "HOME=" (directory-file-name
                         (gemini-companion-test-home emacs)))
        (concat "TMPDIR=" (gemini-companion-test-tmpdir emacs))
        (concat "PATH=" (getenv "PATH"))
        "LANG=C.UTF-8"))

;;;; The interface

(cl-defgeneric gemini-companion-test-client-connect (client)
  "Connect CLIENT and signal an error if that fails.")

(cl-defgeneric gemini-companion-test-client-connected-p (client)
  "Return non-nil if CLIENT is connected and can show diffs.")

(cl-defgeneric gemini-companion-test-client-context (client)
  "Return the last context that CLIENT has received, or nil.")

(cl-defgeneric gemini-companion-test-client-open-diff (client file content)
  "Let CLIENT propose CONTENT for FILE; return a handle of the review.")

(cl-defgeneric gemini-companion-test-client-outcome (client handle)
  "Return the outcome of HANDLE, a review of CLIENT.
That is nil as long as it is open, else (accepted . TEXT), (rejected) or
\(error . TEXT).")

(cl-defgeneric gemini-companion-test-client-close-diff (client file quietly)
  "Let CLIENT close the review of FILE and return its text, or nil.
With QUIETLY non-nil no rejection is sent.")

(cl-defgeneric gemini-companion-test-client-resolve (client file outcome)
  "Let the user answer the review of FILE in CLIENT by OUTCOME.
OUTCOME is \"accepted\" or \"rejected\".")

(cl-defgeneric gemini-companion-test-client-stop (client)
  "End CLIENT, as when its user quits it.")

(cl-defgeneric gemini-companion-test-client-release (client)
  "Stop or keep CLIENT at the end of a test."
  (gemini-companion-test-client-stop client))

(defun gemini-companion-test-client-wait-outcome (client handle)
  "Wait until HANDLE, a review of CLIENT, is decided; return the outcome."
  (gemini-companion-test-wait
   "the outcome of a review"
   (lambda () (gemini-companion-test-client-outcome client handle))))

(defun gemini-companion-test-client-files (client)
  "Return the open files that CLIENT knows of."
  (fake-cli-open-files (gemini-companion-test-client-context client)))

(defun gemini-companion-test-client-wait-context (client predicate)
  "Wait until PREDICATE holds of the open files that CLIENT knows of.
Return its value."
  (gemini-companion-test-wait
   (lambda () (format "a context like %S; the last was %S" predicate
                      (gemini-companion-test-client-context client)))
   (lambda ()
     (funcall predicate (gemini-companion-test-client-files client)))))

;;;; The real client

(cl-defstruct (gemini-companion-test-real-client
               (:constructor gemini-companion-test-real-client--make))
  "The IDE client of the real Gemini CLI."
  program
  (next-id 0))

(defvar gemini-companion-test-real-client--spare nil
  "A disconnected real client of an earlier test, or nil.
Starting one takes a second of processor time.")

(defun gemini-companion-test-real-client-start (directory environment)
  "Return a real client, as if started in DIRECTORY with ENVIRONMENT."
  (let ((client (or gemini-companion-test-real-client--spare
                    (gemini-companion-test-real-client--make
                     :program (gemini-companion-test-real-client--start-program)))))
    (setq gemini-companion-test-real-client--spare nil)
    (gemini-companion-test-real-client--call-in client "begin" directory environment)
    (setf (gemini-companion-test-program-lines
           (gemini-companion-test-real-client-program client))
          nil)
    client))

(defun gemini-companion-test-real-client--start-program ()
  "Start the program of a real client, and wait until it takes commands."
  (let ((program (gemini-companion-test-program-start
                  (list (gemini-companion-test-node)
                        (expand-file-name
                         "ide-client.mjs"
                         gemini-companion-test-client-directory))
                  temporary-file-directory (list (concat "PATH=" (getenv "PATH"))))))
    (gemini-companion-test-wait
     (lambda () (concat "the real client to start: "
                        (gemini-companion-test-read
                         (gemini-companion-test-program-stderr program))))
     (lambda ()
       (gemini-companion-test-program-find
        program (lambda (line) (equal (alist-get 'event line) "ready")))))
    program))

(defun gemini-companion-test-real-client-lines (client)
  "Return all lines of CLIENT, newest first."
  (gemini-companion-test-program-lines
   (gemini-companion-test-real-client-program client)))

(defun gemini-companion-test-real-client-events (client event)
  "Return the lines of CLIENT for EVENT, newest first."
  (seq-filter (lambda (line) (equal (alist-get 'event line) event))
              (gemini-companion-test-real-client-lines client)))

(defun gemini-companion-test-real-client-tools (client)
  "Let CLIENT ask for the names of the tools and return them."
  (gemini-companion-test-real-client--call client "listTools"))

(defun gemini-companion-test-real-client-find (client directory environment)
  "Let CLIENT search as if it were started in DIRECTORY with ENVIRONMENT.
Return the process id that it searches for and the name of the editor."
  (let ((found (gemini-companion-test-real-client--call-in
                client "find" directory environment)))
    (list (alist-get 'process found)
          (let ((ide (alist-get 'ide found))) (and (stringp ide) ide)))))

(defun gemini-companion-test-real-client--call-in (client command directory environment)
  "Let CLIENT do COMMAND as if it were started in DIRECTORY with ENVIRONMENT.
Return the result."
  (gemini-companion-test-real-client--call
   client command :directory directory
   :environment (mapcar (lambda (variable)
                          (string-match "=" variable)
                          (cons (intern (substring variable 0 (match-beginning 0)))
                                (substring variable (match-end 0))))
                        environment)))

(defun gemini-companion-test-real-client--send (client command &rest arguments)
  "Send COMMAND with ARGUMENTS, a plist, to CLIENT; return the id."
  (let ((id (cl-incf (gemini-companion-test-real-client-next-id client))))
    (gemini-companion-test-program-send
     (gemini-companion-test-real-client-program client)
     `(:id ,id :command ,command ,@arguments))
    id))

(defun gemini-companion-test-real-client--answer (client id)
  "Return the answer of CLIENT to the command with ID, or nil."
  (gemini-companion-test-program-find
   (gemini-companion-test-real-client-program client)
   (lambda (line) (equal (alist-get 'id line) id))))

(defun gemini-companion-test-real-client--call (client command &rest arguments)
  "Send COMMAND with ARGUMENTS, a plist, to CLIENT; return the result."
  (let* ((id (apply #'gemini-companion-test-real-client--send
                    client command arguments))
         (answer (gemini-companion-test-wait
                  (concat "the answer to " command)
                  (lambda ()
                    (gemini-companion-test-real-client--answer client id)))))
    (if (alist-get 'ok answer)
        (alist-get 'result answer)
      (error "The real client: %s" (alist-get 'error answer)))))

(cl-defmethod gemini-companion-test-client-connect
  ((client gemini-companion-test-real-client))
  "Connect CLIENT, the real one."
  (let ((status (gemini-companion-test-real-client--call client "connect")))
    (unless (equal (alist-get 'status status) "connected")
      (error "The real client is not connected: %S" status))
    status))

(cl-defmethod gemini-companion-test-client-connected-p
  ((client gemini-companion-test-real-client))
  "Return non-nil if CLIENT, the real one, says that it is connected."
  (let ((status (gemini-companion-test-real-client--call client "status")))
    (and (equal (alist-get 'status status) "connected")
         (alist-get 'diffing status))))

(cl-defmethod gemini-companion-test-client-context
  ((client gemini-companion-test-real-client))
  "Return the last context of CLIENT, the real one."
  (let ((context
         (alist-get 'context
                    (gemini-companion-test-program-find
                     (gemini-companion-test-real-client-program client)
                     (lambda (line) (equal (alist-get 'event line)
                                           "context"))))))
    (and (not (eq context :null)) context)))

(cl-defmethod gemini-companion-test-client-open-diff
  ((client gemini-companion-test-real-client) file content)
  "Let CLIENT, the real one, propose CONTENT for FILE."
  (gemini-companion-test-real-client--send
   client "openDiff" :filePath file :newContent content))

(cl-defmethod gemini-companion-test-client-outcome
  ((client gemini-companion-test-real-client) handle)
  "Return the outcome of HANDLE from CLIENT, the real one."
  (let* ((answer (gemini-companion-test-real-client--answer client handle))
         (result (alist-get 'result answer)))
    (cond ((null answer) nil)
          ((not (alist-get 'ok answer))
           (cons 'error (alist-get 'error answer)))
          ((equal (alist-get 'status result) "accepted")
           (cons 'accepted (alist-get 'content result)))
          (t (list 'rejected)))))

(cl-defmethod gemini-companion-test-client-close-diff
  ((client gemini-companion-test-real-client) file quietly)
  "Let CLIENT, the real one, close the review of FILE, perhaps QUIETLY."
  (let ((content (alist-get 'content
                            (gemini-companion-test-real-client--call
                             client "closeDiff" :filePath file
                             :suppressNotification (if quietly t :false)))))
    (and (stringp content) content)))

(cl-defmethod gemini-companion-test-client-resolve
  ((client gemini-companion-test-real-client) file outcome)
  "Let CLIENT, the real one, answer the review of FILE by OUTCOME."
  (gemini-companion-test-real-client--call
   client "resolveDiffFromCli" :filePath file :outcome outcome))

(cl-defmethod gemini-companion-test-client-release
  ((client gemini-companion-test-real-client))
  "Keep CLIENT, the real one, for another test if it is still running."
  (let ((program (gemini-companion-test-real-client-program client)))
    (if (and (process-live-p (gemini-companion-test-program-process program))
             (null gemini-companion-test-real-client--spare)
             (ignore-errors
               (gemini-companion-test-real-client--call-in
                client "begin" temporary-file-directory (list (concat "PATH=" (getenv "PATH"))))
               t))
        (setq gemini-companion-test-real-client--spare client)
      (gemini-companion-test-client-stop client))))

(cl-defmethod gemini-companion-test-client-stop
  ((client gemini-companion-test-real-client))
  "End CLIENT, the real one."
  (gemini-companion-test-program-stop
   (gemini-companion-test-real-client-program client)))

;;;; The fake client

(cl-defstruct (gemini-companion-test-fake-client
               (:constructor gemini-companion-test-fake-client--make))
  "`fake-cli' behind the common interface."
  emacs
  directory
  cli
  (reviews nil :documentation "Its reviews, newest first."))

(cl-defstruct (gemini-companion-test-fake-review
               (:constructor gemini-companion-test-fake-review--make))
  "A review of the fake client."
  file
  (before nil :documentation "The notifications before it.")
  (outcome nil :documentation "Its outcome, if that comes in no notification."))

(cl-defmethod gemini-companion-test-client-connect
  ((client gemini-companion-test-fake-client))
  "Connect CLIENT, the fake one."
  (setf (gemini-companion-test-fake-client-cli client)
        (fake-cli-connect
         (gemini-companion-test-tmpdir
          (gemini-companion-test-fake-client-emacs client))
         (gemini-companion-test-fake-client-directory client))))

(cl-defmethod gemini-companion-test-client-connected-p
  ((client gemini-companion-test-fake-client))
  "Return non-nil if CLIENT, the fake one, is connected and has seen no fault."
  (let ((cli (gemini-companion-test-fake-client-cli client)))
    (and cli
         (null (fake-cli-faults cli))
         (null (fake-cli-stream-state cli))
         (cl-subsetp '("openDiff" "closeDiff")
                     (mapcar (lambda (it) (alist-get 'name it))
                             (fake-cli-tools cli))
                     :test #'equal))))

(cl-defmethod gemini-companion-test-client-context
  ((client gemini-companion-test-fake-client))
  "Return the context of CLIENT, the fake one."
  (fake-cli-context (gemini-companion-test-fake-client-cli client)))

(cl-defmethod gemini-companion-test-client-open-diff
  ((client gemini-companion-test-fake-client) file content)
  "Let CLIENT, the fake one, propose CONTENT for FILE."
  (let* ((cli (gemini-companion-test-fake-client-cli client))
         (review (gemini-companion-test-fake-review--make
                  :file file :before (fake-cli-notifications cli)))
         (result (fake-cli-call-tool
                  cli "openDiff" `(:filePath ,file :newContent ,content))))
    (push review (gemini-companion-test-fake-client-reviews client))
    (cond ((alist-get 'isError result)
           (setf (gemini-companion-test-fake-review-outcome review)
                 (cons 'error (fake-cli-result-text result))))
          ((or (not (assq 'content result)) (alist-get 'content result))
           (signal 'fake-cli-error (list "openDiff is not empty" result))))
    review))

(cl-defmethod gemini-companion-test-client-outcome
  ((client gemini-companion-test-fake-client) handle)
  "Return the outcome of HANDLE that CLIENT, the fake one, has received."
  (let ((cli (gemini-companion-test-fake-client-cli client)))
    (or (gemini-companion-test-fake-review-outcome handle)
        (seq-some
         (lambda (message)
           (gemini-companion-test-fake-review--outcome-in handle message))
         (cl-ldiff (fake-cli-notifications cli)
                   (gemini-companion-test-fake-review-before handle))))))

(defun gemini-companion-test-fake-review--outcome-in (review message)
  "Return the outcome of REVIEW in MESSAGE, or nil."
  (let ((params (alist-get 'params message)))
    (and (equal (alist-get 'filePath params)
                (gemini-companion-test-fake-review-file review))
         (pcase (alist-get 'method message)
           ("ide/diffAccepted" (cons 'accepted (alist-get 'content params)))
           ("ide/diffRejected" (list 'rejected))))))

(cl-defmethod gemini-companion-test-client-close-diff
  ((client gemini-companion-test-fake-client) file quietly)
  "Let CLIENT, the fake one, close the review of FILE, perhaps QUIETLY."
  (let ((result (fake-cli-call-tool
                 (gemini-companion-test-fake-client-cli client) "closeDiff"
                 (append (list :filePath file)
                         (and quietly '(:suppressNotification t))))))
    (fake-cli-closed-text result)))

(cl-defmethod gemini-companion-test-client-resolve
  ((client gemini-companion-test-fake-client) file outcome)
  "Let CLIENT, the fake one, answer the review of FILE by OUTCOME."
  (let ((text (gemini-companion-test-client-close-diff client file t))
        (review (cl-find file
                         (gemini-companion-test-fake-client-reviews client)
                         :key #'gemini-companion-test-fake-review-file
                         :test #'equal)))
    (setf (gemini-companion-test-fake-review-outcome review)
          (if (equal outcome "accepted")
              (cons 'accepted text)
            (list 'rejected)))))

(cl-defmethod gemini-companion-test-client-stop
  ((client gemini-companion-test-fake-client))
  "End CLIENT, the fake one."
  (when (gemini-companion-test-fake-client-cli client)
    (fake-cli-disconnect (gemini-companion-test-fake-client-cli client))))

;;;; Proposals of clients

(defmacro gemini-companion-test-with-real-client (emacs client &rest body)
  "Run BODY with EMACS, which shows its file a.txt, and the real CLIENT.
Skip the test where the real client cannot run."
  (declare (indent 2) (debug (symbolp symbolp body)))
  `(progn
     (gemini-companion-test-require-real-client)
     (gemini-companion-test-with-emacs (,emacs :files '(("a.txt" . "a\n")))
       (gemini-companion-test-visit ,emacs "a.txt")
       (gemini-companion-test-with-client (,client 'real ,emacs)
         ,@body))))

(defun gemini-companion-test-propose (emacs client text)
  "Let CLIENT propose TEXT for a.txt in EMACS and wait until that is shown.
Return the handle of the review."
  (prog1 (gemini-companion-test-client-open-diff
          client (gemini-companion-test-project emacs "a.txt") text)
    (gemini-companion-test-wait-review emacs text)))

;;;; Tests with both clients

(defun gemini-companion-test-wait-announced (emacs directory)
  "Wait until EMACS has announced DIRECTORY to clients.
It updates its workspace roots a moment after a file has been visited."
  (gemini-companion-test-wait
   (format "%s in the discovery file" directory)
   (lambda () (fake-cli-discover (gemini-companion-test-tmpdir emacs)
                                 directory))))

(defun gemini-companion-test-client-start (kind emacs)
  "Return a new client of KIND, `fake' or `real', in the project of EMACS.
It is connected."
  (let* ((directory (gemini-companion-test-project emacs))
         (_ (gemini-companion-test-wait-announced emacs directory))
         (client (if (eq kind 'real)
                     (gemini-companion-test-real-client-start
                      directory (gemini-companion-test-client-environment emacs))
                   (gemini-companion-test-fake-client--make
                    :emacs emacs :directory directory))))
    (gemini-companion-test-client-connect client)
    client))

(defmacro gemini-companion-test-with-client (spec &rest body)
  "Run BODY with a client, which is stopped afterwards.
SPEC is (VARIABLE KIND EMACS) as in `gemini-companion-test-client-start'."
  (declare (indent 1) (debug ((symbolp &rest form) body)))
  `(let ((,(car spec) (gemini-companion-test-client-start ,@(cdr spec))))
     (unwind-protect (progn ,@body)
       (gemini-companion-test-client-release ,(car spec)))))

(defmacro gemini-companion-test-with-clients (name kind docstring &rest body)
  "Define tests NAME/fake-cli and NAME/real-client that run BODY.
In BODY the variable KIND is `fake' or `real'.  DOCSTRING is
that of the tests."
  (declare (indent 2) (doc-string 3) (debug (symbolp symbolp stringp body)))
  `(progn
     (ert-deftest ,(intern (format "%s/fake-cli" name)) ()
       ,docstring
       (let ((,kind 'fake)) ,@body))
     (ert-deftest ,(intern (format "%s/real-client" name)) ()
       ,docstring
       ;; Differences between Emacs versions show with the fake one, too.
       :tags '(any-emacs)
       (gemini-companion-test-require-real-client)
       (let ((,kind 'real)) ,@body))))

(provide 'gemini-companion-test-client)
;;; gemini-companion-test-client.el ends here

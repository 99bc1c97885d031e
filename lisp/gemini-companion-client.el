;;; gemini-companion-client.el --- What Gemini CLI does to find an editor -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a Gemini CLI that starts in some directory, with some environment, would find: the same
;; files, in the same order, judged by the same rules (`ide-connection-utils.js', `process-utils.js'
;; and `settings.ts' of version 0.61.0).  None of this asks the running companion, changes anything,
;; or uses the network.  At the end of the file there is a client that sends a few requests to a
;; companion, to see whether it answers.
;;
;; Environments have the shape of `process-environment'.

;;; Code:

(require 'cl-lib)
(require 'json)
(require 'seq)
(require 'subr-x)
(require 'gemini-companion-agent)

(cl-defstruct (gemini-companion-client-file
               (:constructor gemini-companion-client--make-file)
               (:copier nil))
  "A discovery file as a client sees it."
  (name nil :documentation "Its absolute name.")
  (process nil :documentation "The process id in its name.")
  (alive nil :documentation "Non-nil if that process is alive.")
  (fault nil :documentation "Why clients ignore the file, a string, or nil.")
  (content nil :documentation "The object in it, an alist.")
  (fits nil :documentation "Non-nil if a root contains the client's directory."))

(cl-defstruct (gemini-companion-client-search
               (:constructor gemini-companion-client--make-search)
               (:copier nil))
  "What a client finds."
  (directory nil :documentation "Where it looks for discovery files.")
  (wanted nil :documentation "The process id that it takes for the editor's, or nil.")
  (files nil :documentation "The discovery files in its order.")
  (chosen nil :documentation "The one that it takes, or nil."))

;;;; The search

(defconst gemini-companion-client--file-name
  "\\`gemini-ide-server-\\([0-9]+\\)-[0-9]+\\.json\\'"
  "Regexp that matches the names of discovery files.")

(defun gemini-companion-client-find (directory environment &optional process)
  "Return the search of a client that starts in DIRECTORY with ENVIRONMENT.
PROCESS is the id of the process in which, or below which, it runs."
  (let* ((ide (concat (gemini-companion-agent-temporary-directory environment) "/gemini/ide"))
         (wanted (gemini-companion-client--wanted environment process))
         (old (gemini-companion-client--old-file ide wanted directory))
         (files (gemini-companion-client--sort
                 (mapcar (lambda (name)
                           (gemini-companion-client--file (concat ide "/" name) directory))
                         (ignore-errors
                           (directory-files ide nil gemini-companion-client--file-name)))
                 wanted)))
    (gemini-companion-client--make-search
     :directory ide :wanted wanted
     :files (if old (cons old files) files)
     :chosen (or old (gemini-companion-client--choose files environment)))))

(defun gemini-companion-client--wanted (environment process)
  "Return the process id that a client takes for the editor's, or nil.
The client has ENVIRONMENT, and runs in or below PROCESS."
  (let ((given (string-to-number
                (or (getenv-internal "GEMINI_CLI_IDE_PID" environment) "0"))))
    (cond ((> given 0) given)
          (process (gemini-companion-agent-editor-process process)))))

(defun gemini-companion-client--old-file (ide wanted directory)
  "Return the file in IDE that old companions of process WANTED write, or nil.
A client that starts in DIRECTORY prefers it to all others, whatever its
roots are."
  (when wanted
    (let ((name (format "%s/gemini-ide-server-%d.json" ide wanted)))
      (when (file-exists-p name)
        (let ((file (gemini-companion-client--file name directory)))
          (unless (gemini-companion-client-file-fault file) file))))))

(defun gemini-companion-client--sort (files wanted)
  "Sort FILES as a client does that takes process WANTED for the editor."
  (seq-sort-by (lambda (file)
                 (cond ((eql (gemini-companion-client-file-process file) wanted) 2)
                       ((gemini-companion-client-file-alive file) 1)
                       (t 0)))
               #'>
               (seq-sort-by #'gemini-companion-client-file-process #'> files)))

(defun gemini-companion-client--choose (files environment)
  "Return the one of FILES that a client with ENVIRONMENT takes, or nil."
  (let* ((files (seq-remove #'gemini-companion-client-file-fault files))
         (candidates (or (seq-filter #'gemini-companion-client-file-fits files) files))
         (port (getenv-internal "GEMINI_CLI_IDE_SERVER_PORT" environment)))
    (or (seq-find (lambda (file)
                    (equal port (format "%s" (gemini-companion-client-port file))))
                  candidates)
        (car candidates))))

(defun gemini-companion-client-reason (search environment)
  "Return why a client with ENVIRONMENT takes the file that SEARCH chose.
This is text for the user."
  (pcase-let (((cl-struct gemini-companion-client-search wanted files chosen) search))
    (cond ((not (seq-some #'gemini-companion-client-file-fits (remq chosen files)))
           "no other has this directory in its roots")
          ((equal (gemini-companion-agent-getenv "GEMINI_CLI_IDE_SERVER_PORT" environment)
                  (format "%s" (gemini-companion-client-port chosen)))
           "GEMINI_CLI_IDE_SERVER_PORT names its port")
          ((not (eql wanted (gemini-companion-client-file-process chosen)))
           "of several it has the highest process id")
          ((gemini-companion-agent-getenv "GEMINI_CLI_IDE_PID" environment)
           "GEMINI_CLI_IDE_PID names its process")
          (t "its process started that terminal"))))

(defun gemini-companion-client-host (environment)
  "Return the host to which a client with ENVIRONMENT connects."
  (if (and (gemini-companion-agent-container-p)
           (not (gemini-companion-agent-same-host-p environment)))
      "host.docker.internal"
    "127.0.0.1"))

;;;; Discovery files

(defun gemini-companion-client--file (name directory)
  "Return the discovery file NAME as a client in DIRECTORY sees it."
  (let* ((content (gemini-companion-client-read name))
         (fault (and (stringp content) content))
         (process (and (string-match "gemini-ide-server-\\([0-9]+\\)" name)
                       (string-to-number (match-string 1 name)))))
    (gemini-companion-client--make-file
     :name name :process process
     :alive (and process (process-attributes process) t)
     :fault fault
     :content (and (not fault) content)
     :fits (and (not fault)
                (gemini-companion-client--fits-p (alist-get 'workspacePath content)
                                                 directory)))))

(defun gemini-companion-client-read (name)
  "Return the JSON object in the file NAME, an alist.
If clients ignore that file, return a string that says why."
  (let ((owner (file-attribute-user-id (file-attributes (file-truename name)))))
    (cond ((not (memq owner (list nil (gemini-companion-client--user))))
           (format "belongs to another user (uid %d)" owner))
          ((gemini-companion-client-unreadable name))
          (t (condition-case nil
                 (let ((content (gemini-companion-client--parse
                                 (gemini-companion-client--text name))))
                   (cond ((listp content) content)
                         ((vectorp content) nil) ; in JavaScript, an object without members
                         (t "holds no JSON object")))
               ((error) "holds no JSON"))))))

(defun gemini-companion-client-unreadable (name)
  "Return why the file NAME cannot be read, as text for the user, or nil."
  ;; The client follows symbolic links.
  (let ((attributes (file-attributes (file-truename name))))
    (cond ((null attributes) "cannot be read")
          ((not (file-regular-p name)) "is no file")
          ((not (gemini-companion-client--small-p attributes)) "is far too large")
          ((not (file-readable-p name)) "cannot be read"))))

(defun gemini-companion-client--small-p (attributes)
  "Return non-nil if a file with ATTRIBUTES is not too large for what it is."
  (<= (file-attribute-size attributes) (* 1024 1024)))

(defun gemini-companion-client--user ()
  "Return the user id that a client has."
  (user-uid))

(defun gemini-companion-client--text (name)
  "Return the text in the file NAME."
  ;; Anything else could make Emacs wait.
  (unless (file-regular-p name)
    (error "It is no file"))
  ;; Anybody can have written the settings of a project.
  (unless (gemini-companion-client--small-p (file-attributes (file-truename name)))
    (error "It is far too large"))
  (with-temp-buffer
    (let ((coding-system-for-read 'utf-8-unix))
      (insert-file-contents name))
    (buffer-string)))

(defun gemini-companion-client--fits-p (roots directory)
  "Return non-nil if one of ROOTS, a string with separators, contains DIRECTORY."
  (and (stringp roots)
       (not (string-empty-p roots))
       (let ((real (gemini-companion-client-real-directory directory)))
         (seq-some (lambda (root)
                     ;; An empty one is the directory itself.
                     (or (string-empty-p root)
                         (string-prefix-p (gemini-companion-client-real-directory root) real)))
                   (split-string roots path-separator)))))

(defun gemini-companion-client-real-directory (directory)
  "Return DIRECTORY without symbolic links, with a slash at its end."
  (file-name-as-directory (file-truename directory)))

(defun gemini-companion-client-roots (file)
  "Return the workspace roots in the discovery FILE, a list."
  (let ((roots (alist-get 'workspacePath (gemini-companion-client-file-content file))))
    (and (stringp roots) (split-string roots path-separator t))))

(defun gemini-companion-client-port (file)
  "Return the port in the discovery FILE, or nil."
  (alist-get 'port (gemini-companion-client-file-content file)))

(defun gemini-companion-client-token (file)
  "Return the token in the discovery FILE, or nil.  Never print or log it."
  (alist-get 'authToken (gemini-companion-client-file-content file)))

(defun gemini-companion-client-ide (file)
  "Return which editor wrote the discovery FILE, or nil if it does not say.
The value is (NAME . DISPLAY-NAME).  Without it no client connects."
  (let ((info (alist-get 'ideInfo (gemini-companion-client-file-content file))))
    (when (consp info)
      (let ((name (alist-get 'name info))
            (display (alist-get 'displayName info)))
        (and (stringp name) (stringp display)
             (not (string-empty-p name)) (not (string-empty-p display))
             (cons name display))))))

(defun gemini-companion-client-elsewhere-p (file)
  "Return non-nil if the process id in the discovery FILE means nothing here.
That is the case if the Emacs that wrote it runs in another PID namespace,
or ran before this machine was last started."
  (let ((space (alist-get 'idSpace (gemini-companion-client-file-content file))))
    (and (stringp space) (not (equal space (gemini-companion-client--id-space))))))

(defun gemini-companion-client--id-space ()
  "Return a name for the space in which process ids are unique, or nil.
Companions in the same space write it into their files as `idSpace'."
  (pcase system-type
    ('gnu/linux
     (ignore-errors
       (format "%s %s"
               (string-trim (gemini-companion-client--text "/proc/sys/kernel/random/boot_id"))
               (file-symlink-p "/proc/self/ns/pid"))))
    ('darwin "macos")
    ('windows-nt "windows")))

(defun gemini-companion-client-environment (process)
  "Return the environment with which PROCESS was started, or nil if unknown."
  (ignore-errors
    (with-temp-buffer
      (let ((coding-system-for-read 'utf-8-unix))
        (insert-file-contents (format "/proc/%d/environ" process)))
      (split-string (buffer-string) "\0" t))))

;;;; Settings

(defun gemini-companion-client-settings (directory environment)
  "Return the settings of a CLI in DIRECTORY with ENVIRONMENT.
The value is a list of (SCOPE FILE . CONTENT) for each file that exists,
from the strongest to the weakest.  SCOPE is `system', `workspace', `user'
or `defaults'; CONTENT is an alist, or a string that says what is wrong."
  (let* ((home (gemini-companion-client--home environment))
         (system (or (gemini-companion-agent-getenv "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
                                                    environment)
                     (if (eq system-type 'darwin)
                         "/Library/Application Support/GeminiCli/settings.json"
                       "/etc/gemini-cli/settings.json"))))
    (cl-loop for (scope . file)
             in `((system . ,system)
                  ,@(unless (file-equal-p directory home)
                      `((workspace . ,(expand-file-name ".gemini/settings.json" directory))))
                  (user . ,(gemini-companion-client-user-settings environment))
                  (defaults . ,(expand-file-name "system-defaults.json"
                                                 (file-name-directory system))))
             if (file-exists-p file)
             collect (cons scope (cons file (gemini-companion-client--read-settings file))))))

(defun gemini-companion-client--home (environment)
  "Return the home directory of a CLI with ENVIRONMENT, without slash."
  (directory-file-name
   (or (gemini-companion-agent-getenv "GEMINI_CLI_HOME" environment)
       (gemini-companion-agent-getenv "HOME" environment)
       (expand-file-name "~"))))

(defun gemini-companion-client-user-settings (environment)
  "Return the file with the user's settings of a CLI with ENVIRONMENT."
  (concat (gemini-companion-client--home environment) "/.gemini/settings.json"))

(defun gemini-companion-client--read-settings (file)
  "Return the settings in FILE, an alist, or a string that says what is wrong."
  (condition-case error
      (let ((content (gemini-companion-client--parse (gemini-companion-client--text file))))
        (if (listp content) content "holds no JSON object"))
    ((json-error) "holds no JSON")
    (error (error-message-string error))))

(defun gemini-companion-client-setting (settings path &optional scopes)
  "Return (VALUE . FILE) for the setting PATH, a list of symbols, or nil.
SETTINGS is as `gemini-companion-client-settings' returns it; only
SCOPES count, by default all."
  (cl-loop for (scope file . content) in settings
           for found = (and (or (null scopes) (memq scope scopes))
                            (gemini-companion-client--member path content))
           if found return (cons (cdr found) file)))

(defun gemini-companion-client--member (path object)
  "Return (NAME . VALUE) for PATH, a list of names, in OBJECT, or nil.
Of several members with one name the last counts."
  (let ((found (cons nil object)))
    (while (and found path)
      (setq found (and (listp (cdr found)) (assq (pop path) (reverse (cdr found))))))
    found))

(defun gemini-companion-client-ide-mode (directory environment settings)
  "Return (VALUE . FILE) for ide.enabled, or nil if that is not set.
This is what counts for a CLI in DIRECTORY with ENVIRONMENT and SETTINGS."
  (gemini-companion-client-setting
   settings '(ide enabled)
   (unless (eq (gemini-companion-client-trust directory environment settings) 'yes)
     '(system user defaults))))

(defun gemini-companion-client-trust (directory environment settings)
  "Return whether a CLI with ENVIRONMENT and SETTINGS trusts DIRECTORY.
The value is `yes', `no', or `asks' if it asks the user first."
  (let ((given (getenv-internal "GEMINI_CLI_TRUST_WORKSPACE" environment)))
    (cond ((or (equal given "false")
               (equal (getenv-internal "GEMINI_RESTRICTED_MODE" environment) "true"))
           'no)
          ((equal given "true") 'yes)
          ((eq :json-false
               (car (gemini-companion-client-setting settings '(security folderTrust enabled)
                                                     '(system user defaults))))
           'yes)
          (t (gemini-companion-client--folder-trust directory environment)))))

(defun gemini-companion-client--folder-trust (directory environment)
  "Return what the user once answered about DIRECTORY: `yes', `no' or `asks'.
A CLI with ENVIRONMENT recorded that answer."
  (let* ((file (or (getenv-internal "GEMINI_CLI_TRUSTED_FOLDERS_PATH" environment)
                   (concat (gemini-companion-client--home environment)
                           "/.gemini/trustedFolders.json")))
         (rules (and (file-exists-p file) (gemini-companion-client--read-settings file)))
         (real (gemini-companion-client-real-directory directory))
         (longest -1)
         (trust 'asks))
    (when (listp rules)
      (pcase-dolist (`(,name . ,level) rules)
        (let* ((name (symbol-name name))
               (folder (if (equal level "TRUST_PARENT")
                           (file-name-directory (directory-file-name name))
                         name)))
          (when (and (string-prefix-p (gemini-companion-client-real-directory folder) real)
                     (> (length name) longest))
            (setq longest (length name)
                  trust (if (equal level "DO_NOT_TRUST") 'no 'yes))))))
    trust))

;;;; JSON

;; CLIs allow comments in their settings, but nothing else that JSON does not, such as the comma
;; before a closing bracket that `json-read' accepts.  `gemini-companion-setup' also needs to know
;; where a value is.  So a value is read as a node, (VALUE START END . MEMBERS), with the positions
;; between which VALUE is.  MEMBERS are those of an object, (NAME START . NODE), the last one first.

(defconst gemini-companion-client--max-depth 60
  "How deeply objects and arrays may be nested.")

(defun gemini-companion-client--parse (text)
  "Return the JSON value in TEXT.
Objects are alists, false is `:json-false', null is `:null'."
  (with-temp-buffer
    (insert text)
    (car (gemini-companion-client-json-node))))

(defun gemini-companion-client-json-node ()
  "Return the node of the one value in the current buffer.
Signal `json-error' with text for the user if there is anything else but
comments."
  (let ((case-fold-search nil)
        ;; Each level needs some of it, more so if this file is not compiled.
        (max-lisp-eval-depth (+ 10000 max-lisp-eval-depth)))
    (goto-char (point-min))
    (gemini-companion-client--json-skip-blank)
    (prog1 (gemini-companion-client--json-value 0)
      (gemini-companion-client--json-skip-blank)
      (unless (eobp)
        (gemini-companion-client--json-fail)))))

(defun gemini-companion-client--json-fail (&optional text)
  "Signal that TEXT is wrong at point, by default that this is not JSON."
  (signal 'json-error (list (format "%s, line %d" (or text "cannot be read as JSON")
                                    (line-number-at-pos)))))

(defun gemini-companion-client--json-skip-blank ()
  "Move over blanks and comments.
A comment of several lines may end with the file."
  (while (progn
           (skip-chars-forward " \t\r\n")
           (cond ((looking-at "//") (end-of-line) t)
                 ((looking-at "/\\*")
                  (goto-char (match-end 0))
                  (search-forward "*/" nil 'move))))))

(defun gemini-companion-client--json-value (depth)
  "Move over the value at point, and return its node.
It is within DEPTH objects and arrays."
  (when (> depth gemini-companion-client--max-depth)
    (gemini-companion-client--json-fail "is nested too deeply"))
  (let* ((start (point))
         (members nil)
         (value (pcase (char-after)
                  (?\{ (setq members (gemini-companion-client--json-items
                                      ?\} #'gemini-companion-client--json-member depth))
                       (cl-loop for (name _ value) in (reverse members)
                                collect (cons (intern name) value)))
                  (?\[ (vconcat (nreverse
                                 (mapcar #'car (gemini-companion-client--json-items
                                                ?\] #'gemini-companion-client--json-value depth)))))
                  (?\" (gemini-companion-client--json-string))
                  (_ (gemini-companion-client--json-literal)))))
    `(,value ,start ,(point) . ,members)))

(defun gemini-companion-client--json-items (close function depth)
  "Move over the brackets at point, up to CLOSE; return what is between them.
The last item comes first.  FUNCTION moves over an item and returns it.
The brackets are within DEPTH others."
  (let ((items nil))
    (forward-char)
    (gemini-companion-client--json-skip-blank)
    (unless (eq (char-after) close)
      (while (progn
               (push (funcall function (1+ depth)) items)
               (gemini-companion-client--json-skip-blank)
               (eq (char-after) ?,))
        (forward-char)
        (gemini-companion-client--json-skip-blank)))
    (gemini-companion-client--json-expect close)
    items))

(defun gemini-companion-client--json-member (depth)
  "Move over the member at point, within DEPTH objects and arrays; return it."
  (let ((start (point))
        (name (gemini-companion-client--json-string)))
    (gemini-companion-client--json-skip-blank)
    (gemini-companion-client--json-expect ?:)
    (gemini-companion-client--json-skip-blank)
    `(,name ,start . ,(gemini-companion-client--json-value depth))))

(defun gemini-companion-client--json-expect (char)
  "Move over CHAR, which must be at point."
  (unless (eq (char-after) char)
    (gemini-companion-client--json-fail))
  (forward-char))

(defun gemini-companion-client--json-string ()
  "Move over the string at point, and return its value."
  (let ((start (point)))
    (gemini-companion-client--json-expect ?\")
    (while (progn (skip-chars-forward "^\"\\\\\0-\x1f")
                  (looking-at "\\\\\\(?:[\"\\/bfnrt]\\|u[[:xdigit:]]\\{4\\}\\)"))
      (goto-char (match-end 0)))
    (gemini-companion-client--json-expect ?\")
    (let ((text (buffer-substring start (point))))
      ;; Emacs makes a buffer for each.
      (if (string-search "\\" text) (json-read-from-string text)
        (substring text 1 -1)))))

(defun gemini-companion-client--json-literal ()
  "Move over the number or word at point, and return its value."
  (unless (looking-at (concat "true\\|false\\|null\\|-?\\(?:0\\|[1-9][0-9]*\\)"
                              "\\(?:\\.[0-9]+\\)?\\(?:[eE][+-]?[0-9]+\\)?"))
    (gemini-companion-client--json-fail))
  (goto-char (match-end 0))
  (pcase (match-string 0)
    ("true" t)
    ("false" :json-false)
    ("null" :null)
    (number (string-to-number number))))

;;;; Probing a companion

;; This is not done with url.el, which may ask the user for a password, use a proxy, or store
;; cookies, and has no limits of time and size.

(defconst gemini-companion-client--patience 5
  "Seconds to wait for an answer.")

(defconst gemini-companion-client--max-answer 1000000
  "Size in bytes beyond which an answer is not that of a companion.")

(defun gemini-companion-client-probe (port token callback)
  "Send requests to the companion on PORT, as a client with TOKEN would.
Call CALLBACK once, later, with a symbol and a string: `alive' and the
names of its tools, `refused' and its status, or `dead' and the reason."
  (gemini-companion-client--request
   port token nil "POST"
   `((jsonrpc . "2.0") (id . 1) (method . "initialize")
     (params . ((protocolVersion . "2025-06-18") (capabilities . ,(make-hash-table))
                (clientInfo . ((name . "gemini-companion-doctor") (version . "1"))))))
   (lambda (answer)
     (pcase answer
       (`(200 ,headers . ,_)
        (gemini-companion-client--list-tools
         port token (gemini-companion-client--header "mcp-session-id" headers) callback))
       (_ (gemini-companion-client--report answer callback))))))

(defun gemini-companion-client--list-tools (port token session callback)
  "Request the tools in SESSION, end that, and report to CALLBACK.
PORT and TOKEN are as in `gemini-companion-client-probe'."
  (gemini-companion-client--request
   port token session "POST" '((jsonrpc . "2.0") (id . 2) (method . "tools/list"))
   (lambda (answer)
     (gemini-companion-client--request port token session "DELETE" nil #'ignore)
     (pcase answer
       (`(200 ,_ . ,body)
        (funcall callback 'alive (gemini-companion-client--tools body)))
       (_ (gemini-companion-client--report answer callback))))))

(defun gemini-companion-client--report (answer callback)
  "Report the failure ANSWER, a response or a reason, to CALLBACK."
  (pcase answer
    (`(,status . ,_) (funcall callback 'refused (format "HTTP %d" status)))
    (reason (funcall callback 'dead reason))))

(defun gemini-companion-client--tools (body)
  "Return the names of the tools in the response BODY, as one string."
  (condition-case nil
      (let ((tools (alist-get 'tools (alist-get 'result (json-read-from-string body)))))
        (mapconcat (lambda (tool) (alist-get 'name tool)) tools ", "))
    (error "")))

(defun gemini-companion-client--request (port token session method body callback)
  "Send METHOD with the JSON value BODY to PORT, with TOKEN, in SESSION or nil.
Call CALLBACK once with (STATUS HEADERS . BODY) or a reason, a string."
  (condition-case error
      (let ((process (make-network-process
                      ;; With a name instead of an address, Emacs would wait for it at the end.
                      :name "gemini-companion-client" :service port :remote `[127 0 0 1 ,port]
                      :nowait t :noquery t :coding 'binary
                      :filter #'gemini-companion-client--receive
                      :sentinel #'gemini-companion-client--react)))
        (process-put process 'request
                     (gemini-companion-client--request-text port token session method body))
        (process-put process 'callback callback)
        (process-put process 'timer
                     (run-at-time gemini-companion-client--patience nil
                                  #'gemini-companion-client--finish
                                  process "the request timed out")))
    (error (funcall callback (error-message-string error)))))

(defun gemini-companion-client--receive (process bytes)
  "Add BYTES to the answer of PROCESS, a connection."
  (let ((answer (concat (process-get process 'answer) bytes)))
    (process-put process 'answer answer)
    (when (> (length answer) gemini-companion-client--max-answer)
      (gemini-companion-client--finish process "the answer is far too long"))))

(defun gemini-companion-client--react (process event)
  "Send the request of PROCESS, a connection, or finish it, depending on EVENT."
  (let ((answer (process-get process 'answer)))
    (cond ((string-prefix-p "open" event)
           (condition-case problem
               (process-send-string process (process-get process 'request))
             ;; It was closed at this very moment.
             (error (gemini-companion-client--finish process (error-message-string problem)))))
          (answer
           (gemini-companion-client--finish process
                                            (gemini-companion-client--answer answer)))
          (t (gemini-companion-client--finish process (string-trim event))))))

(defun gemini-companion-client--finish (process outcome)
  "Call the callback of PROCESS, a connection, with OUTCOME, but only once."
  (when-let* ((callback (process-get process 'callback)))
    (process-put process 'callback nil)
    (cancel-timer (process-get process 'timer))
    (delete-process process)
    (funcall callback outcome)))

(defun gemini-companion-client--request-text (port token session method body)
  "Return a request of METHOD with the JSON value BODY, for PORT.
It contains TOKEN, and SESSION unless that is nil."
  (let ((body (if body (encode-coding-string (json-encode body) 'utf-8-unix) "")))
    (concat (string-join `(,(concat method " /mcp HTTP/1.1")
                           ,(format "Host: 127.0.0.1:%d" port)
                           ,(concat "Authorization: Bearer " token)
                           "Accept: application/json, text/event-stream"
                           "Content-Type: application/json"
                           ,(format "Content-Length: %d" (length body))
                           ,@(and session (list (concat "Mcp-Session-Id: " session)))
                           "Connection: close\r\n\r\n")
                         "\r\n")
            body)))

(defun gemini-companion-client--answer (text)
  "Return the HTTP response TEXT as (STATUS HEADERS . BODY), or a reason."
  (let* ((headers (and (string-match "\\`HTTP/1\\.[01] \\([0-9]+\\)[^\n]*\n" text)
                       (match-end 0)))
         (status (and headers (string-to-number (match-string 1 text)))))
    ;; One regexp for all of it could backtrack for hours.
    (if (not (and headers (string-match "^\r?\n" text headers)))
        "the answer is not HTTP"
      `(,status ,(substring text headers (match-beginning 0))
                . ,(substring text (match-end 0))))))

(defun gemini-companion-client--header (name headers)
  "Return the value of the header NAME in the text HEADERS, or nil."
  (let ((case-fold-search t))
    (and (string-match (concat "^" (regexp-quote name) ": *\\([^\r\n]*\\)") headers)
         (match-string 1 headers))))

(provide 'gemini-companion-client)
;;; gemini-companion-client.el ends here

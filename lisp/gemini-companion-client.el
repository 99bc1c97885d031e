;;; gemini-companion-client.el --- What Gemini CLI does to find an editor -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a Gemini CLI that starts in some directory, with some environment, would find: the same
;; files, in the same order, judged by the same rules (`ide-connection-utils.js', `process-utils.js'
;; and `settings.ts' of version 0.61.0).  Nothing here asks the running companion, nothing is
;; changed, and nothing goes over the network.
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
  (name nil :documentation "Its whole name.")
  (process nil :documentation "The process id in its name.")
  (alive nil :documentation "Non-nil if that process lives.")
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

;;;; Files

(defconst gemini-companion-client-name
  "\\`gemini-ide-server-\\([0-9]+\\)-[0-9]+\\.json\\'"
  "Names of discovery files.")

(defconst gemini-companion-client--max-size (* 1024 1024)
  "Size in bytes over which no file is read.")

(defun gemini-companion-client-find (directory environment &optional process)
  "Return the search of a client that starts in DIRECTORY with ENVIRONMENT.
PROCESS is the id of the process in which, or below which, it runs."
  (let* ((place (concat (gemini-companion-agent-temporary-directory environment)
                        "/gemini/ide"))
         (wanted (gemini-companion-client--wanted environment process))
         (old (gemini-companion-client--old-file place wanted directory))
         (files (gemini-companion-client--sort
                 (mapcar (lambda (name)
                           (gemini-companion-client--file (concat place "/" name) directory))
                         (gemini-companion-client--names place))
                 wanted)))
    (gemini-companion-client--make-search
     :directory place :wanted wanted
     :files (if old (cons old files) files)
     :chosen (or old (gemini-companion-client--choose files environment)))))

(defun gemini-companion-client--names (place)
  "Return the names of the discovery files in the directory PLACE."
  (ignore-errors (directory-files place nil gemini-companion-client-name)))

(defun gemini-companion-client--old-file (place wanted directory)
  "Return the file in PLACE that old companions of process WANTED write, or nil.
It comes before all others, whatever its roots are.  The client starts
in DIRECTORY."
  (when wanted
    (let ((name (format "%s/gemini-ide-server-%d.json" place wanted)))
      (when (file-exists-p name)
        (let ((file (gemini-companion-client--file name directory)))
          (unless (gemini-companion-client-file-fault file) file))))))

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
If clients do not read it return a string that says why."
  ;; The client follows symbolic links.
  (let ((attributes (file-attributes (file-truename name))))
    (cond ((null attributes) "cannot be read")
          ((not (file-regular-p (file-truename name))) "is no file")
          ((/= (file-attribute-user-id attributes) (gemini-companion-client--user))
           (format "belongs to another user (uid %d)" (file-attribute-user-id attributes)))
          ((> (file-attribute-size attributes) gemini-companion-client--max-size)
           "is far too large")
          ((not (file-readable-p name)) "cannot be read")
          (t (condition-case nil
                 (let ((content (gemini-companion-client--parse
                                 (gemini-companion-client--text name))))
                   (cond ((listp content) content)
                         ((vectorp content) nil) ; in JavaScript, an object without members
                         (t "holds no JSON object")))
               ((error) "holds no JSON"))))))

(defun gemini-companion-client--user ()
  "Return the user id that a client has."
  (user-uid))

(defun gemini-companion-client--text (name)
  "Return the text in the file NAME."
  ;; Anything else could make us wait.
  (unless (file-regular-p name)
    (error "It is no file"))
  (with-temp-buffer
    (let ((coding-system-for-read 'utf-8-unix))
      (insert-file-contents name))
    (buffer-string)))

(defun gemini-companion-client--parse (text)
  "Return the JSON value in TEXT.
Objects are alists, false is `:json-false', null is `:null'."
  (with-temp-buffer
    (insert text)
    (goto-char (point-min))
    (let* ((json-object-type 'alist)
           (json-array-type 'vector)
           (json-false :json-false)
           (json-null :null)
           (json-key-type 'symbol)
           (value (json-read)))
      (skip-chars-forward " \t\r\n")
      (unless (eobp) (signal 'json-error '("trailing text")))
      value)))

(defun gemini-companion-client-roots (file)
  "Return the workspace roots in the discovery FILE."
  (let ((roots (alist-get 'workspacePath (gemini-companion-client-file-content file))))
    (and (stringp roots) (split-string roots path-separator t))))

(defun gemini-companion-client--fits-p (roots directory)
  "Return non-nil if ROOTS, a string with separators, has DIRECTORY within one."
  (and (stringp roots)
       (not (string-empty-p roots))
       (let ((real (gemini-companion-client-real-directory directory)))
         (seq-some (lambda (root)
                     ;; An empty one is the directory itself.
                     (or (string-empty-p root)
                         (string-prefix-p (gemini-companion-client-real-directory root) real)))
                   (split-string roots path-separator)))))

(defun gemini-companion-client-real-directory (directory)
  "Return DIRECTORY without symbolic links, with a slash."
  (file-name-as-directory (file-truename directory)))

(defun gemini-companion-client--sort (files wanted)
  "Return FILES in the order of a client that takes process WANTED for the editor."
  (let ((rank (lambda (file)
                (cond ((eql (gemini-companion-client-file-process file) wanted) 2)
                      ((gemini-companion-client-file-alive file) 1)
                      (t 0)))))
    (sort (copy-sequence files)
          (lambda (one other)
            (let ((first (funcall rank one))
                  (second (funcall rank other)))
              (if (= first second)
                  (> (gemini-companion-client-file-process one)
                     (gemini-companion-client-file-process other))
                (> first second)))))))

(defun gemini-companion-client--choose (files environment)
  "Return the one of FILES that a client with ENVIRONMENT takes, or nil."
  (let* ((files (seq-remove #'gemini-companion-client-file-fault files))
         (fitting (seq-filter #'gemini-companion-client-file-fits files))
         (port (getenv-internal "GEMINI_CLI_IDE_SERVER_PORT" environment))
         (candidates (or fitting files)))
    (or (seq-find (lambda (file)
                    (equal port (format "%s" (gemini-companion-client-port file))))
                  candidates)
        (car candidates))))

(defun gemini-companion-client-port (file)
  "Return the port in the discovery FILE, or nil."
  (alist-get 'port (gemini-companion-client-file-content file)))

(defun gemini-companion-client-elsewhere-p (file)
  "Return non-nil if the discovery FILE has a process id that means nothing here.
So has one of an Emacs in another PID namespace, or on another start of
the machine."
  (let ((space (alist-get 'idSpace (gemini-companion-client-file-content file))))
    (and (stringp space) (not (equal space (gemini-companion-client--id-space))))))

(defun gemini-companion-client--id-space ()
  "Return within what a process id tells one process from all others, or nil.
That is what discovery files of ours have as `idSpace' if they are from
here."
  (pcase system-type
    ('gnu/linux
     (ignore-errors
       (format "%s %s"
               (string-trim (gemini-companion-client--text "/proc/sys/kernel/random/boot_id"))
               (file-symlink-p "/proc/self/ns/pid"))))
    ('darwin "macos")
    ('windows-nt "windows")))

(defun gemini-companion-client-token (file)
  "Return the token in the discovery FILE, or nil.  Never print or log it."
  (alist-get 'authToken (gemini-companion-client-file-content file)))

(defun gemini-companion-client-ide (file)
  "Return what the discovery FILE says its editor is, or nil if nothing.
That is (NAME . DISPLAY-NAME).  Without it no client connects."
  (let ((info (alist-get 'ideInfo (gemini-companion-client-file-content file))))
    (when (consp info)
      (let ((name (alist-get 'name info))
            (display (alist-get 'displayName info)))
        (and (stringp name) (stringp display)
             (not (string-empty-p name)) (not (string-empty-p display))
             (cons name display))))))

;;;; Processes

(defun gemini-companion-client--wanted (environment process)
  "Return the process id that a client takes for the editor's, or nil.
It has ENVIRONMENT, and runs in or below PROCESS."
  (let ((given (string-to-number
                (or (getenv-internal "GEMINI_CLI_IDE_PID" environment) "0"))))
    (cond ((> given 0) given)
          (process (gemini-companion-agent-editor-process process)))))

;;;; Settings

(defun gemini-companion-client-settings (directory environment)
  "Return the settings of a CLI in DIRECTORY with ENVIRONMENT.
That is a list of (SCOPE FILE . CONTENT), the strongest first, of the
files that there are: SCOPE is `system', `workspace', `user' or
`defaults', CONTENT an alist, or a string that says what is wrong."
  (let* ((home (gemini-companion-client--home environment))
         (user (gemini-companion-client-user-settings environment))
         (project (expand-file-name ".gemini/settings.json" directory))
         (system (or (gemini-companion-agent-getenv "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
                                                    environment)
                     (if (eq system-type 'darwin)
                         "/Library/Application Support/GeminiCli/settings.json"
                       "/etc/gemini-cli/settings.json"))))
    (delq nil
          (mapcar (pcase-lambda (`(,scope . ,file))
                    (when (file-exists-p file)
                      (cons scope (cons file (gemini-companion-client--read-settings file)))))
                  `((system . ,system)
                    ,@(unless (file-equal-p directory home) `((workspace . ,project)))
                    (user . ,user)
                    (defaults . ,(expand-file-name "system-defaults.json"
                                                   (file-name-directory system))))))))

(defun gemini-companion-client--home (environment)
  "Return the home directory of a CLI with ENVIRONMENT, without slash."
  (directory-file-name
   (or (gemini-companion-agent-getenv "GEMINI_CLI_HOME" environment)
       (gemini-companion-agent-getenv "HOME" environment)
       (expand-file-name "~"))))

(defun gemini-companion-client-user-settings (environment)
  "Return the name of the user's settings of a CLI with ENVIRONMENT."
  (concat (gemini-companion-client--home environment) "/.gemini/settings.json"))

(defun gemini-companion-client-ide-mode (directory environment settings)
  "Return (VALUE . FILE) for ide.enabled, or nil if that is not set.
That is what counts for a CLI in DIRECTORY with ENVIRONMENT and SETTINGS."
  (gemini-companion-client-setting
   settings '(ide enabled)
   (unless (eq (gemini-companion-client-trust directory environment settings) 'yes)
     '(system user defaults))))

(defun gemini-companion-client--read-settings (file)
  "Return the settings in FILE, an alist, or a string that says what is wrong."
  (condition-case error
      (let ((content (gemini-companion-client--parse
                      (gemini-companion-client--without-comments
                       (gemini-companion-client--text file)))))
        (if (listp content) content "holds no JSON object"))
    ((json-error) "holds no JSON")
    (error (error-message-string error))))

(defun gemini-companion-client--without-comments (text)
  "Return TEXT, which is JSON, without comments."
  (replace-regexp-in-string
   "\"\\(?:[^\"\\]\\|\\\\\\(?:.\\|\n\\)\\)*\"\\|//.*$\\|/\\*\\(?:[^*]\\|\\*+[^*/]\\)*\\(?:\\*+/\\|\\**\\'\\)"
   (lambda (it) (if (string-prefix-p "/" it) " " it))
   text t t))

(defun gemini-companion-client-setting (settings path &optional scopes)
  "Return (VALUE . FILE) for the setting PATH, a list of symbols, or nil.
SETTINGS is as `gemini-companion-client-settings' returns it; only
SCOPES count, by default all."
  (seq-some (pcase-lambda (`(,scope ,file . ,content))
              (when (and (or (null scopes) (memq scope scopes)) (listp content))
                (let ((place content)
                      (keys path))
                  (while (and (cdr keys) (consp place))
                    (setq place (cdr (gemini-companion-client--member (pop keys) place))))
                  (when-let* ((found (and (listp place)
                                          (gemini-companion-client--member (car keys) place))))
                    (cons (cdr found) file)))))
            settings))

(defun gemini-companion-client--member (name object)
  "Return the member NAME of OBJECT, an alist: of several the last."
  (assq name (reverse object)))

(defun gemini-companion-client-trust (directory environment settings)
  "Return whether a CLI in DIRECTORY with ENVIRONMENT and SETTINGS trusts that.
That is `yes', `no', or `asks' if it asks the user first."
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
A CLI with ENVIRONMENT noted it."
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

;;;; The host

(defun gemini-companion-client-host (environment)
  "Return the host to which a client with ENVIRONMENT connects."
  (if (and (gemini-companion-agent-container-p)
           (not (gemini-companion-agent-same-host-p environment)))
      "host.docker.internal"
    "127.0.0.1"))

;;;; A client of a few requests

(defconst gemini-companion-client--patience 5
  "Seconds after which no answer is waited for any more.")

(defconst gemini-companion-client--max-answer 1000000
  "Number of bytes after which an answer is no companion's.")

(defun gemini-companion-client-probe (port token callback)
  "Ask the companion on PORT, as a client with TOKEN would.
Call CALLBACK once, later, with a symbol and a string: `alive' and the
names of its tools, `refused' and its answer, or `dead' and the reason."
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
  "Ask for the tools in SESSION, end that, and report to CALLBACK.
For PORT and TOKEN see `gemini-companion-client-probe'."
  (gemini-companion-client--request
   port token session "POST" '((jsonrpc . "2.0") (id . 2) (method . "tools/list"))
   (lambda (answer)
     (gemini-companion-client--request port token session "DELETE" nil #'ignore)
     (pcase answer
       (`(200 ,_ . ,body)
        (funcall callback 'alive (gemini-companion-client--tools body)))
       (_ (gemini-companion-client--report answer callback))))))

(defun gemini-companion-client--report (answer callback)
  "Report ANSWER, which is not what was hoped for, to CALLBACK."
  (pcase answer
    (`(,(and (pred integerp) status) . ,_) (funcall callback 'refused (format "HTTP %d" status)))
    (reason (funcall callback 'dead reason))))

(defun gemini-companion-client--tools (body)
  "Return the names of the tools in the answer BODY, as one string."
  (condition-case nil
      (let ((tools (alist-get 'tools (alist-get 'result (json-read-from-string body)))))
        (mapconcat (lambda (tool) (alist-get 'name tool)) tools ", "))
    (error "")))

;;;; HTTP

(defun gemini-companion-client--request (port token session method body callback)
  "Send METHOD with the JSON value BODY to PORT, with TOKEN, in SESSION or nil.
Call CALLBACK once with (STATUS HEADERS . BODY) or a reason, a string."
  (condition-case error
      (let ((process (make-network-process
                      :name "gemini-companion-client" :host "127.0.0.1" :service port
                      :family 'ipv4 :nowait t :noquery t :coding 'binary
                      :filter #'gemini-companion-client--hear
                      :sentinel #'gemini-companion-client--see)))
        (process-put process 'request
                     (gemini-companion-client--response-text port token session method body))
        (process-put process 'callback callback)
        (process-put process 'timer
                     (run-at-time gemini-companion-client--patience nil
                                  #'gemini-companion-client--finish
                                  process "it does not answer")))
    (error (funcall callback (error-message-string error)))))

(defun gemini-companion-client--hear (process bytes)
  "Add BYTES to what PROCESS, a connection, has answered."
  (let ((answer (concat (process-get process 'answer) bytes)))
    (process-put process 'answer answer)
    (when (> (length answer) gemini-companion-client--max-answer)
      (gemini-companion-client--finish process "its answer is far too long"))))

(defun gemini-companion-client--see (process event)
  "Send the request of PROCESS, a connection, or end it, as EVENT says."
  (let ((answer (process-get process 'answer)))
    (cond ((string-prefix-p "open" event)
           (process-send-string process (process-get process 'request)))
          (answer
           (gemini-companion-client--finish process
                                            (gemini-companion-client--answer answer)))
          (t (gemini-companion-client--finish process (string-trim event))))))

(defun gemini-companion-client--finish (process outcome)
  "Call the callback of PROCESS, a connection, with OUTCOME, once."
  (when-let ((callback (process-get process 'callback)))
    (process-put process 'callback nil)
    (cancel-timer (process-get process 'timer))
    (delete-process process)
    (funcall callback outcome)))

(defun gemini-companion-client--response-text (port token session method body)
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

(defun gemini-companion-client--answer (text)
  "Return the HTTP response TEXT as (STATUS HEADERS . BODY), or a reason."
  (if (not (string-match "\\`HTTP/1\\.[01] \\([0-9]+\\)[^\n]*\n\\(\\(?:.*[^\r\n].*\n\\)*\\)\r?\n"
                         text))
      "what it says is no HTTP"
    (cons (string-to-number (match-string 1 text))
          (cons (match-string 2 text) (substring text (match-end 0))))))

(defun gemini-companion-client--header (name headers)
  "Return the value of the header NAME in the text HEADERS, or nil."
  (let ((case-fold-search t))
    (and (string-match (concat "^" (regexp-quote name) ": *\\([^\r\n]*\\)") headers)
         (match-string 1 headers))))

(provide 'gemini-companion-client)
;;; gemini-companion-client.el ends here

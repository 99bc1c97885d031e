;;; gemini-companion-cli-search.el --- What a CLI does to find an editor -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Finds what a CLI that starts in some directory, with some environment, would find: the same
;; files, in the same order, judged by the same rules (`ide-connection-utils.js', `process-utils.js'
;; and `settings.ts' of Gemini CLI 0.61.0; its forks differ in names).  It ignores files whose names
;; contain only the id of a process, as companions wrote them long ago.
;;
;; None of this asks the running companion, changes anything, or uses the network, except at the end
;; of the file: a request to a companion, to see whether it answers.  Environments have the shape of
;; `process-environment'.

;;; Code:

(require 'cl-lib)
(require 'json)
(require 'gemini-companion-agent)
(require 'gemini-companion-file)
(require 'gemini-companion-ui)

(cl-defstruct (gemini-companion-cli-search-file
               (:constructor gemini-companion-cli-search--make-file) (:copier nil))
  "A discovery file as a client sees it."
  (name nil :documentation "Its absolute name.")
  (process nil :documentation "The process id in its name.")
  (alive nil :documentation "Non-nil if that process is alive.")
  (fault nil :documentation "Why clients ignore the file, a string, or nil.")
  (content nil :documentation "The object in it, an alist.")
  (fits nil :documentation "Non-nil if a root contains the client's directory."))

(cl-defstruct (gemini-companion-cli-search-result
               (:constructor gemini-companion-cli-search--make-result) (:copier nil))
  "What a client finds."
  (directory nil :documentation "Where it looks for discovery files.")
  (wanted nil :documentation "The process id that it takes for the editor's, or nil.")
  (files nil :documentation "The discovery files in its order.")
  (chosen nil :documentation "The one that it takes, or nil."))

;;;; The search

(defun gemini-companion-cli-search-find (agent directory environment &optional process)
  "Return what an AGENT that starts in DIRECTORY with ENVIRONMENT finds.
PROCESS is the id of the process as which, or below which, it runs."
  (let* ((place (gemini-companion-agent-directory agent environment))
         (wanted (gemini-companion-cli-search--wanted agent environment process))
         (only (and (gemini-companion-agent-get agent :by-process) wanted))
         (name (regexp-quote (gemini-companion-agent-get agent :file)))
         ;; Its group, if there is one, matches the process id.
         (pattern (concat "\\`"
                          (string-replace "PID" "\\([0-9]+\\)"
                                          (string-replace "PORT" "[0-9]+" name))
                          "\\'"))
         (files (cl-loop for name in (ignore-errors (directory-files place t pattern))
                         for file = (gemini-companion-cli-search--file name pattern directory)
                         if (or (not only)
                                (eql only (gemini-companion-cli-search-file-process file)))
                         collect file))
         (files (gemini-companion-cli-search--sort files wanted)))
    (gemini-companion-cli-search--make-result
     :directory place :wanted wanted :files files
     :chosen (gemini-companion-cli-search--choose agent files environment))))

(defun gemini-companion-cli-search--wanted (agent environment process)
  "Return the process id that AGENT takes for the editor's, or nil.
It has ENVIRONMENT, and runs in or below PROCESS."
  (let ((given (string-to-number
                (or (gemini-companion-cli-search--value agent 'process environment) ""))))
    (cond ((> given 0) given)
          (process (gemini-companion-agent-editor-process process)))))

(defun gemini-companion-cli-search--value (agent what environment)
  "Return WHAT, `port' or `process', as ENVIRONMENT tells AGENT, or nil."
  (when-let* ((variable (gemini-companion-agent-variable agent what)))
    (gemini-companion-agent-getenv variable environment)))

(defun gemini-companion-cli-search--sort (files wanted)
  "Sort FILES as a client does that takes process WANTED for its editor."
  (seq-sort-by (lambda (file)
                 (cond ((eql (gemini-companion-cli-search-file-process file) wanted) 2)
                       ((gemini-companion-cli-search-file-alive file) 1)
                       (t 0)))
               #'>
               (seq-sort-by (lambda (file) (or (gemini-companion-cli-search-file-process file) 0))
                            #'> files)))

(defun gemini-companion-cli-search--choose (agent files environment)
  "Return the one of FILES that AGENT with ENVIRONMENT takes, or nil."
  (let* ((files (seq-remove #'gemini-companion-cli-search-file-fault files))
         (candidates (or (seq-filter #'gemini-companion-cli-search-file-fits files) files))
         (port (gemini-companion-cli-search--value agent 'port environment)))
    (or (seq-find (lambda (file)
                    (let-alist (gemini-companion-cli-search-file-content file)
                      (equal port (format "%s" .port))))
                  candidates)
        (car candidates))))

;;;; Discovery files

(defun gemini-companion-cli-search--file (name pattern directory)
  "Return the discovery file NAME as a client in DIRECTORY sees it.
A group of the regexp PATTERN, if there is one, matches the process id."
  (let* ((object (gemini-companion-cli-search-read name))
         (fault (and (stringp object) object))
         (content (unless fault object))
         (base (file-name-nondirectory name))
         (id (and (string-match pattern base) (match-string 1 base)))
         (process (if id (string-to-number id) (alist-get 'ppid content))))
    (gemini-companion-cli-search--make-file
     :name name :process process :fault fault :content content
     :alive (and (natnump process) (gemini-companion-agent-process process) t)
     :fits (gemini-companion-cli-search--fits-p (alist-get 'workspacePath content) directory))))

(defun gemini-companion-cli-search-read (name)
  "Return the JSON object in the discovery file NAME, an alist.
If clients ignore that file, return a string that says why."
  (let ((owner (file-attribute-user-id (file-attributes (file-truename name)))))
    (if (memq owner (list nil (user-uid)))
        (gemini-companion-cli-search-read-json name)
      (format "belongs to another user (uid %d)" owner))))

(defun gemini-companion-cli-search-read-json (name)
  "Return the JSON object in the file NAME, an alist, or a string: why not."
  (or (gemini-companion-cli-search-unreadable name)
      (condition-case nil
          (with-temp-buffer
            (insert (gemini-companion-cli-search-text name))
            (let ((content (gemini-companion-cli-search-parse-buffer)))
              (if (listp content) content "holds no JSON object")))
        ((json-error) "holds no JSON")
        ((error) "cannot be read"))))

(defun gemini-companion-cli-search-unreadable (name)
  "Return why the file NAME cannot be read, as text for the user, or nil."
  (cond ((not (file-readable-p name)) "cannot be read")
        ;; Anything else could make Emacs wait.
        ((not (file-regular-p name)) "is not a regular file")
        ;; Anybody can have written the settings of a project.
        ((> (file-attribute-size (file-attributes (file-truename name))) (* 1024 1024))
         "is far too large")))

(defun gemini-companion-cli-search-text (name)
  "Return the text in the file NAME."
  (decode-coding-string (gemini-companion-file-read-as-named name) 'utf-8-unix))

(defun gemini-companion-cli-search--fits-p (roots directory)
  "Return non-nil if one of ROOTS, a string with separators, contains DIRECTORY."
  (and (stringp roots)
       (not (string-empty-p roots))
       (let ((real (gemini-companion-cli-search-real-directory directory)))
         (seq-some (lambda (root)
                     ;; An empty root is the directory itself.
                     (or (string-empty-p root)
                         (string-prefix-p (gemini-companion-cli-search-real-directory root) real)))
                   (split-string roots path-separator)))))

(defun gemini-companion-cli-search-real-directory (directory)
  "Return DIRECTORY without symbolic links, with a slash at its end."
  (file-name-as-directory (file-truename directory)))

(defun gemini-companion-cli-search-ide (file)
  "Return which editor wrote the discovery FILE, or nil if it does not say.
The value is (NAME . DISPLAY-NAME).  Without it no client connects."
  (let ((info (alist-get 'ideInfo (gemini-companion-cli-search-file-content file))))
    (when (consp info)
      (let-alist info
        (and (stringp .name) (stringp .displayName)
             (not (string-empty-p .name)) (not (string-empty-p .displayName))
             (cons .name .displayName))))))

;;;; Settings

(defun gemini-companion-cli-search-settings (agent directory environment)
  "Return the settings of an AGENT in DIRECTORY with ENVIRONMENT.
The value is a list of (FILE . CONTENT) for each file that exists, from the
strongest to the weakest: of the system, of the project, of the user, and
defaults.  CONTENT is an alist, or a string that says what is wrong."
  (let* ((user (gemini-companion-agent-settings-file agent environment))
         (files (pcase (gemini-companion-agent-get agent :other-settings)
                  (`(,project ,variable ,system ,macos)
                   (let ((system (or (gemini-companion-agent-getenv variable environment)
                                     (if (eq system-type 'darwin) macos system))))
                     (list system (expand-file-name project directory) user
                           (expand-file-name "system-defaults.json"
                                             (file-name-directory system)))))
                  (_ (list user)))))
    (cl-loop for file in (seq-uniq (delq nil files))
             if (file-exists-p file)
             collect (cons file (gemini-companion-cli-search-read-json file)))))

(defun gemini-companion-cli-search-setting (settings path)
  "Return (VALUE . FILE) for the setting PATH, a list of symbols, or nil.
SETTINGS is as `gemini-companion-cli-search-settings' returns it."
  (cl-loop for (file . content) in settings
           for value = (seq-reduce (lambda (object name)
                                     ;; Of several members with one name the last counts.
                                     (and (listp object) (alist-get name (reverse object))))
                                   path content)
           if value return (cons value file)))

(defun gemini-companion-cli-search-sandbox-p (agent root arguments environment)
  "Return non-nil if AGENT will run in a container of its own.
It runs in ROOT with ARGUMENTS and ENVIRONMENT.  Other kinds of sandboxes
hide nothing that it needs."
  (pcase (gemini-companion-agent-get agent :sandbox)
    (`(,variable . ,path)
     (let ((value (or (when-let* ((given (gemini-companion-agent-getenv variable environment)))
                        (downcase (string-trim given)))
                      (and (seq-intersection '("-s" "--sandbox" "--sandbox=true") arguments) t)
                      (and (seq-intersection '("--no-sandbox" "--sandbox=false") arguments) "false")
                      (car (gemini-companion-cli-search-setting
                            (gemini-companion-cli-search-settings agent root environment) path)))))
       (pcase (if (not (consp value)) value
                (and (eq t (alist-get 'enabled value)) (or (alist-get 'command value) t)))
         ((or 't "true" "1") (not (eq system-type 'darwin)))
         ((or "docker" "podman" "runsc") t))))))

;;;; JSON

;; CLIs allow comments in their settings, but nothing else that is not JSON.  Comments become
;; blanks, so that positions in the buffer are those in the file, for `gemini-companion-setup'.

(defun gemini-companion-cli-search-parse-buffer ()
  "Return the JSON value in the current buffer, and make comments blank.
Objects are alists, arrays vectors, false is `:json-false', null is `:null'.
Signal `json-error' with text for the user if there is anything else."
  (let ((text (buffer-string))
        (case-fold-search nil))
    (condition-case nil
        (progn
          (gemini-companion-cli-search--blank-comments)
          (goto-char (point-min))
          (prog1 (gemini-companion-ui-read-json-at-point :null)
            (json-skip-whitespace)
            (unless (eobp) (error "More than one value"))))
      (error
       (let ((line (1+ (cl-count ?\n text :end (1- (point))))))
         (signal 'json-error (list (format "it cannot be read as JSON, line %d" line))))))))

(defun gemini-companion-cli-search--blank-comments ()
  "Replace comments in the current buffer with blanks of the same length.
Signal an error if there is something that `json-read' accepts but CLIs do not."
  (goto-char (point-min))
  (while (re-search-forward "\"\\|//\\|/\\*\\|[]}][]} \t\r\n]*" nil t)
    (let ((start (match-beginning 0)))
      (pcase (match-string 0)
        ("\"" (while (progn (skip-chars-forward "^\"\\\\")
                            (looking-at "\\\\[\"\\/bfnrtu]"))
                (goto-char (match-end 0)))
         (unless (eq (char-after) ?\") (error "A string is wrong"))
         (forward-char))
        ((or "//" "/*")
         (if (eq (char-before) ?/) (skip-chars-forward "^\r\n")
           ;; It may end with the file.
           (search-forward "*/" nil 'move))
         (let ((length (- (point) start)))
           (delete-region start (point))
           (insert (make-string length ?\s))))
        (_ (save-excursion
             (goto-char start)
             (skip-chars-backward " \t\r\n")
             (when (eq (char-before) ?,) (error "A comma is followed by a bracket"))))))))

;;;; Whether a server answers

;; Not with url.el, which may ask the user for a password, use a proxy, or store cookies, and has no
;; limits of time and size.

(defconst gemini-companion-cli-search-patience 10
  "Seconds to wait until a server or a program responds.")

(defun gemini-companion-cli-search-probe (port token callback)
  "Ping the companion on PORT, as a client with TOKEN would.
Call CALLBACK once, perhaps at once, with nil, or with a text about the fault."
  (condition-case problem
      (let* ((answer "")
             (process
              (make-network-process
               ;; With a name instead of an address, Emacs would have to wait in the end.
               :name "gemini-companion-client" :service port :remote `[127 0 0 1 ,port]
               :nowait t :noquery t :coding 'binary
               :filter (lambda (process bytes)
                         (setq answer (concat answer bytes))
                         (when (or (string-search "\n" answer) (length> answer 100))
                           (delete-process process)))
               :sentinel (lambda (process event)
                           (if (not (string-prefix-p "open" event))
                               (progn
                                 (set-process-sentinel process #'ignore)
                                 (funcall callback
                                          (gemini-companion-cli-search--fault answer event)))
                             ;; The other end may just have closed the connection.
                             (ignore-errors
                               (process-send-string
                                process (gemini-companion-cli-search--request port token))))))))
        (run-at-time gemini-companion-cli-search-patience nil #'delete-process process))
    (error (funcall callback (concat "does not answer: " (error-message-string problem))))))

(defun gemini-companion-cli-search--fault (answer event)
  "Return what is wrong with ANSWER, from a companion, as text, or nil.
EVENT says how the connection has ended."
  (cond ((string-match "\\`HTTP/1\\.[01] \\([0-9]+\\)[ \r\n]" answer)
         (unless (equal (match-string 1 answer) "200")
           (concat "refuses a client with that token: HTTP " (match-string 1 answer))))
        ((not (string-empty-p answer)) "does not answer as a companion")
        ((string-prefix-p "deleted" event) "does not answer: the request timed out")
        (t (concat "does not answer: " (string-trim event)))))

(defun gemini-companion-cli-search--request (port token)
  "Return a `ping' request to PORT, with TOKEN."
  (let ((body "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\"}"))
    (string-join `("POST /mcp/tools HTTP/1.1"
                   ,(format "Host: 127.0.0.1:%d" port)
                   ,(concat "Authorization: Bearer " token)
                   "Accept: application/json, text/event-stream"
                   "Content-Type: application/json"
                   ,(format "Content-Length: %d" (length body))
                   "Connection: close"
                   "" ,body)
                 "\r\n")))

(provide 'gemini-companion-cli-search)
;;; gemini-companion-cli-search.el ends here

;;; gemini-companion-tool-extension.el --- Tools of Emacs for the models of CLIs -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A CLI offers tools to its model if an extension says how to call them.  An extension is a
;; directory in the CLI's own: a manifest, a program for Node that passes calls on to the Emacs
;; that the CLI would find (src/tools_adapter.mjs), and hooks that report what the CLI does.
;; Gemini CLI asks its user before each call unless a policy, a file elsewhere, allows it; Qwen
;; Code, at least since 0.21, asks until the user has chosen to allow it always.
;;
;; One command writes these files after a question, another one removes them.  They never change
;; what somebody else has written under the same names: the manifest says that it is ours.  When
;; Emacs is idle, the mode replaces files that another version of this package wrote.  It restores
;; none that the user has deleted, but the program while its manifest is there.
;;
;; On a host, the same commands write and remove the same files through the connection, while Emacs
;; goes on; they are brought up to date when Emacs connects.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'json)
(require 'gemini-companion-agent)
(require 'gemini-companion-answer)
(require 'gemini-companion-bridge)
(require 'gemini-companion-cli-search)
(require 'gemini-companion-file)
(require 'gemini-companion-host)
(require 'gemini-companion-host-connection)
(require 'gemini-companion-log)
(require 'gemini-companion-native)
(require 'gemini-companion-tool)
(require 'gemini-companion-ui)

;;;; The files

(defconst gemini-companion-tool-extension--directory "extensions/emacs"
  "The name of the extension in the directory of a CLI.")

(defconst gemini-companion-tool-extension--policy
  "# Written by gemini-companion, a package for Emacs.
# M-x gemini-companion-tools-disable removes it.  Without it, the CLI asks before each call.

[[rule]]
mcpName = \"emacs\"
toolName = \"*\"
toolAnnotations = { readOnlyHint = true }
decision = \"allow\"
priority = 100
"
  "The policy: tools of Emacs that only read may be called without a question.")

(defun gemini-companion-tool-extension--get (agent property)
  "Return PROPERTY of the extension of AGENT, nil if there is none."
  (plist-get (gemini-companion-agent-get agent :extension) property))

(defun gemini-companion-tool-extension--home (agent)
  "Return the directory of AGENT on this machine, or nil if it has none."
  (when-let* (((gemini-companion-agent-get agent :extension))
              (settings (gemini-companion-agent-settings-file agent process-environment)))
    (file-name-directory settings)))

(defun gemini-companion-tool-extension--texts (agent)
  "Return the files for AGENT, an alist of names and texts, the manifest first.
Without the native module, the text of the program is nil."
  (let ((directory gemini-companion-tool-extension--directory)
        (policy (gemini-companion-tool-extension--get agent :policy))
        (json-encoding-pretty-print t))
    `((,(concat directory "/" (gemini-companion-tool-extension--get agent :manifest))
       . ,(concat (json-encode (gemini-companion-tool-extension--manifest agent)) "\n"))
      (,(concat directory "/emacs-tools.mjs")
       . ,(and (gemini-companion-native-current-p) (gemini-companion-bridge-tools-adapter)))
      (,(concat directory "/hooks/hooks.json")
       . ,(concat (json-encode (gemini-companion-tool-extension--hooks agent)) "\n"))
      ,@(and policy `((,policy . ,gemini-companion-tool-extension--policy))))))

(defun gemini-companion-tool-extension--manifest (agent)
  "Return the manifest for AGENT."
  `((name . "emacs")
    (version . ,gemini-companion-native-version)
    (description . "Tools of Emacs for the model")
    (gemini-companion
     . ((about
         . "Emacs replaces changes here, and M-x gemini-companion-tools-disable removes it")))
    (mcpServers
     . ((emacs . ((command . "node")
                  (args . ,(vconcat (gemini-companion-tool-extension--words agent)))
                  (timeout . 30000)))))))

(defun gemini-companion-tool-extension--hooks (agent)
  "Return the hooks of AGENT, which report to Emacs what it does."
  (let ((events nil))
    (pcase-dolist (`(,what ,event ,tools) (gemini-companion-tool-extension--get agent :hooks))
      (push `(,@(and tools `((matcher . ,(format "^(%s)$" tools))))
              (hooks . [((type . "command") (name . "emacs")
                         ;; Gemini CLI always uses it there.
                         ,@(and (eq system-type 'windows-nt) '((shell . "powershell")))
                         (command . ,(gemini-companion-tool-extension--hook-command agent what))
                         ;; In milliseconds; the program exits before that.
                         (timeout . ,(if (eq what 'edited) 20000 5000)))]))
            (alist-get (intern event) events)))
    `((hooks . ,(mapcar (pcase-lambda (`(,event . ,hooks)) (cons event (vconcat (reverse hooks))))
                        (reverse events))))))

(defun gemini-companion-tool-extension--hook-command (agent what)
  "Return the command of AGENT's shell that reports WHAT to Emacs.
If it failed or printed an error, that would stop the CLI, or reach its model."
  (let ((command (format "%s hook=%s"
                         (mapconcat (lambda (word) (format "\"%s\"" word))
                                    (cons "node" (gemini-companion-tool-extension--words agent))
                                    " ")
                         what)))
    (if (eq system-type 'windows-nt)
        (concat "& " command " 2>$null; exit 0") ; by PowerShell
      ;; The shell itself would say that Node was killed.  Node takes 40 ms to start.
      (format "exec 2>/dev/null; for f in %s; do [ -e \"$f\" ] && %s cli=$PPID; break; done; \
exit 0"
              (gemini-companion-tool-extension--discovery-files agent) command))))

(defun gemini-companion-tool-extension--discovery-files (agent)
  "Return the pattern for the discovery files of AGENT, for a Unix shell."
  (format "%s/%s"
          (pcase (gemini-companion-agent-get agent :directory)
            (`(temporary ,name)
             ;; As `gemini-companion-agent-temporary-directory'.
             (format "\"${TMPDIR:-${TMP:-${TEMP:-/tmp}}}\"/%s" name))
            (`(home ,variable ,default ,name)
             (format "\"${%s:-%s}\"/%s" variable
                     (replace-regexp-in-string "\\`~" "$HOME" default t t) name)))
          (replace-regexp-in-string "PID\\|PORT" "*"
                                    (gemini-companion-agent-get agent :file) t t)))

(defun gemini-companion-tool-extension--words (agent)
  "Return the program as AGENT starts it, a list of words.
They tell it where AGENT looks for the discovery files of an Emacs."
  `(,(concat (gemini-companion-tool-extension--get agent :here) "/emacs-tools.mjs")
    ,@(pcase (gemini-companion-agent-get agent :directory)
        (`(temporary ,name) (list (concat "directory=" name)))
        (`(home ,variable ,default ,name)
         (list (concat "directory=" name) (concat "home=" variable) (concat "default=" default))))
    ,(concat "file=" (gemini-companion-agent-get agent :file))
    ,@(cl-loop for what in '(port process)
               for variable = (gemini-companion-agent-variable agent what)
               if variable collect (format "%s=%s" what variable))))

;;;; What is there

;; If CONNECTION is nil, the functions below are about files of this machine, and at once call the
;; function that takes what they find.  A file is a list (NAME OLD NEW): OLD is its text, nil if
;; there is no such file, a list of a message if it cannot be read; NEW is what this package writes.

(defun gemini-companion-tool-extension-state (agent environment)
  "Return the state of the extension of AGENT with ENVIRONMENT.
The value is nil if there is none, `current', `stale' if its files are not
as this package writes them, or a message, if somebody else wrote it."
  (let ((process-environment environment))
    (when (gemini-companion-tool-extension--home agent)
      (gemini-companion-tool-extension--judge
       nil agent (gemini-companion-tool-extension--files-here agent)))))

(defun gemini-companion-tool-extension--judge (connection agent files)
  "Return what `gemini-companion-tool-extension-state' does, for FILES.
These are AGENT's, on the host of CONNECTION, or here."
  (pcase-let* ((`((,_ ,manifest ,_) . ,_) files)
               (directory gemini-companion-tool-extension--directory)
               (content (ignore-errors (gemini-companion-ui-read-json manifest))))
    (cond ((seq-some #'car-safe (mapcar #'cadr files)))
          ((if manifest (not (and (listp content) (consp (alist-get 'gemini-companion content))))
             ;; Somebody else may have an extension there that has no manifest yet.
             (cl-loop for (name old) in files
                      thereis (and old (string-prefix-p directory name))))
           (format "this package did not write %s, and leaves it alone; rename it first"
                   (if connection (concat directory " there")
                     (abbreviate-file-name
                      (concat (gemini-companion-tool-extension--home agent) directory)))))
          ((not manifest) nil)
          ((gemini-companion-tool-extension--changes agent 'update files) 'stale)
          (t 'current))))

(defun gemini-companion-tool-extension--read (connection agent function)
  "Read the files of AGENT on the host of CONNECTION, or here if that is nil.
Then call FUNCTION with these, the manifest first, and whether AGENT was used
there, that is, has settings."
  (if (not connection)
      (funcall function (gemini-companion-tool-extension--files-here agent) t)
    (let ((settings (nth 2 (gemini-companion-agent-get agent :settings)))
          (texts (let ((system-type 'gnu/linux)) ; for the hooks
                   (gemini-companion-tool-extension--texts agent)))
          (files nil))
      (gemini-companion-tool-extension--in-order
       (cons (list (file-name-nondirectory settings)) texts)
       (pcase-lambda (`(,name . ,new) next)
         (gemini-companion-host-connection-read-file
          connection (gemini-companion-tool-extension--file-there agent name)
          (lambda (answer)
            (let-alist answer
              (push (list name (if .error (list .error) .text) new) files))
            (funcall next))))
       (lambda ()
         (pcase-let ((`((,_ ,used ,_) . ,files) (reverse files)))
           (funcall function files used)))))))

(defun gemini-companion-tool-extension--files-here (agent)
  "Return the files of AGENT on this machine.
What cannot be read or is a link is empty, so that it is not taken for ours."
  (let* ((default-directory (gemini-companion-tool-extension--home agent))
         (file-name-handler-alist nil)
         (directory gemini-companion-tool-extension--directory)
         (texts (gemini-companion-tool-extension--texts agent))
         (manifest (caar texts))
         (foreign
          (and (file-attributes directory)
               (or (seq-some #'file-symlink-p (list directory (concat directory "/hooks") manifest))
                   (not (or (file-exists-p manifest) (directory-empty-p directory)))))))
    (cl-loop for (name . new) in texts
             for old = (cond ((or foreign (file-symlink-p name)) "")
                             ((not (file-attributes name)) nil)
                             ((gemini-companion-cli-search-unreadable name) "")
                             (t (gemini-companion-cli-search-text name)))
             collect (list name old new))))

(defun gemini-companion-tool-extension--file-there (agent name)
  "Return NAME in the directory of AGENT in the form that a connection takes."
  (pcase-let ((`(,variable ,default ,settings) (gemini-companion-agent-get agent :settings)))
    (list variable default (concat (file-name-directory settings) name))))

(defun gemini-companion-tool-extension--in-order (list step done)
  "Call STEP with each element of LIST and a function, then DONE.
STEP calls that function to go on."
  (if (null list) (funcall done)
    (funcall step (car list)
             (lambda () (gemini-companion-tool-extension--in-order (cdr list) step done)))))

;;;; Writing and removing

(defun gemini-companion-tool-extension--changes (agent what files)
  "Return those of FILES, of AGENT, that change if Emacs does WHAT.
WHAT is as in `gemini-companion-tool-extension-change-all'.  If that is
`disable', they have no new text."
  ;; Without the manifest nothing else is ours, so it comes first, and goes last.
  (cl-loop for (name old text) in (if (eq what 'disable) (reverse files) files)
           for new = (and (not (eq what 'disable)) text)
           unless (or (equal old new)
                      (not (or text (eq what 'disable))) ; the native module has it
                      (and (eq what 'update) (null old)
                           ;; A full disk may have kept out what our manifest names.
                           (not (and (cadar files) (string-suffix-p ".mjs" name))))
                      (and old          ; somebody else wrote the policy
                           (equal name (gemini-companion-tool-extension--get agent :policy))
                           (not (string-prefix-p "# Written by gemini-companion," old))))
           collect (list name old new)))

(defun gemini-companion-tool-extension-change-all (connection what function &optional agents)
  "Do WHAT with the files of AGENTS on the host of CONNECTION, or here.
WHAT is `enable', `disable', or `update', which writes only files that are
there, and the program.  Then call FUNCTION with the outcomes, each a list of
a message and whether it is an error.  AGENTS defaults to all that can have an
extension."
  (let ((outcomes nil))
    (gemini-companion-tool-extension--in-order
     (or agents
         (seq-filter (lambda (agent)
                       (if (not connection) (gemini-companion-tool-extension--home agent)
                         (and (gemini-companion-agent-get agent :extension)
                              (gemini-companion-agent-get agent :stdio))))
                     (gemini-companion-agent-names)))
     (lambda (agent next)
       (gemini-companion-tool-extension--change
        connection what agent
        (lambda (message &optional fault)
          (when message
            (gemini-companion-log-add "%s" message)
            (push (list message fault) outcomes))
          (funcall next))))
     (lambda () (funcall function (reverse outcomes))))))

(defun gemini-companion-tool-extension--change (connection what agent function)
  "Do WHAT with the files of AGENT on the host of CONNECTION, or here.
Then call FUNCTION with a message, or nil, and whether that is an error."
  (gemini-companion-tool-extension--read
   connection agent
   (lambda (files used)
     (let* ((host (and connection (gemini-companion-host-connection-name connection)))
            (title (concat (gemini-companion-agent-get agent :title) (and host " on ") host))
            (state (gemini-companion-tool-extension--judge connection agent files))
            (changes (unless (stringp state)
                       (gemini-companion-tool-extension--changes agent what files))))
       (cond ((stringp state)
              (funcall function (format "%s: %s" title state) (eq what 'enable)))
             ((and (eq what 'enable) (not (or state used)))
              (funcall function nil))
             (t
              (gemini-companion-tool-extension--write
               connection agent changes
               (lambda (fault)
                 (funcall function
                          (cond (fault (format "%s: %s" title fault))
                                ((eq what 'enable)
                                 (concat "The model of " title " can use Emacs"
                                         (and changes " when the CLI next starts")))
                                ((and changes (eq what 'disable))
                                 (concat "Removed the tools of Emacs from " title)))
                          fault)))))))))

(defun gemini-companion-tool-extension--write (connection agent changes function)
  "Make CHANGES, each (NAME OLD NEW), of AGENT's files where CONNECTION leads.
Then call FUNCTION with nil, or with a message if that has failed."
  (if (not connection)
      (funcall function (condition-case problem
                            (ignore (gemini-companion-tool-extension--write-here agent changes))
                          (file-error (gemini-companion-ui-error-text problem))))
    (gemini-companion-tool-extension--in-order
     changes
     (pcase-lambda (`(,name ,old ,new) next)
       (gemini-companion-host-connection-write-file
        connection (gemini-companion-tool-extension--file-there agent name) old new
        (lambda (answer)
          (if-let* ((fault (alist-get 'error answer)))
              (funcall function (format "%s: %s" name fault))
            (funcall next)))))
     (lambda () (funcall function nil)))))

(defun gemini-companion-tool-extension--write-here (agent changes)
  "Make CHANGES of files of AGENT on this machine, each (NAME OLD NEW).
Remove directories that are empty after that, too."
  (let ((default-directory (gemini-companion-tool-extension--home agent))
        (file-name-handler-alist nil)
        (directory gemini-companion-tool-extension--directory))
    (pcase-dolist (`(,name ,_ ,text) changes)
      (gemini-companion-log-add "%s %s" (if text "writing" "removing") (expand-file-name name))
      (if (not text) (delete-file name)
        ;; Who can write there could replace a hook, which is a program.
        (with-file-modes (logand #o755 (default-file-modes))
          (make-directory (file-name-directory (expand-file-name name)) t))
        (gemini-companion-file-replace name (encode-coding-string text 'utf-8-unix)
                                       (logand #o644 (default-file-modes)))))
    (when (and changes (null (nth 2 (car changes))))
      (dolist (directory (list (concat directory "/hooks") directory "extensions" "policies"))
        (when (and (directory-empty-p directory) (not (file-symlink-p directory)))
          (delete-directory directory))))))

;;;; Commands

;;;###autoload
(defun gemini-companion-tools-enable ()
  "Let the models of CLIs, such as Gemini CLI and Qwen Code, use tools of Emacs.
With these, a model can look up diagnostics, definitions and unsaved text,
and learns of new diagnostics after each of its edits.  Emacs asks once; the
question says what it writes.  Restart CLIs that are running.

In a buffer of a connected host, this is about the CLIs there.

`gemini-companion-mode' keeps these files up to date;
`gemini-companion-tools-disable' removes them."
  (interactive)
  (unless (gemini-companion-native-load)
    (user-error "First turn the companion on with M-x gemini-companion-mode: its native module is \
missing"))
  (let* ((connection (gemini-companion-host-of-name default-directory))
         (agents (unless connection
                   (or (gemini-companion-tool-extension--agents)
                       (user-error "No program in `gemini-companion-agents' can use these tools"))))
         (absent (gemini-companion-tool-extension--absent agents)))
    (if (cond (connection (gemini-companion-tool-extension-ask-host connection 'again))
              (absent (gemini-companion-tool-extension--ask absent))
              (t))
        (gemini-companion-tool-extension-change-all
         connection 'enable
         (lambda (outcomes)
           (gemini-companion-tool-extension--report
            connection
            (or outcomes
                `((,(format "No CLI has been used on %s yet: start one there first"
                            (gemini-companion-host-connection-name connection)))))))
         agents)
      (message "Nothing was written"))))

;;;###autoload
(defun gemini-companion-tools-disable ()
  "Remove the files that `gemini-companion-tools-enable' wrote.
Keep files that you added, and their directories.  In a buffer of a
connected host, remove those there."
  (interactive)
  (let ((connection (gemini-companion-host-of-name default-directory)))
    (when connection
      (gemini-companion-answer-set (gemini-companion-tool-question connection) 'never))
    (gemini-companion-tool-extension-change-all
     connection 'disable
     (lambda (outcomes)
       (gemini-companion-tool-extension--report
        connection (or outcomes '(("There are no tools of Emacs to remove"))))))))

(defun gemini-companion-tool-extension--agents ()
  "Return the programs that are served and used here and have extensions."
  (seq-filter (lambda (agent)
                (and (gemini-companion-tool-extension--home agent)
                     (gemini-companion-agent-directories agent)))
              (gemini-companion-agent-served)))

(defun gemini-companion-tool-extension--used-p ()
  "Return non-nil if a model on this machine can use Emacs."
  (seq-some (lambda (agent)
              (memq (gemini-companion-tool-extension-state
                     agent (default-toplevel-value 'process-environment))
                    '(current stale)))
            (gemini-companion-agent-names)))

(defun gemini-companion-tool-extension--absent (agents)
  "Return those of AGENTS that have no extension yet."
  (seq-remove (lambda (agent) (gemini-companion-tool-extension-state agent process-environment))
              agents))

(defun gemini-companion-tool-extension--ask (agents)
  "Ask whether to write the extensions of AGENTS, and return non-nil if so."
  (cl-flet ((titles (agents) (mapconcat (lambda (agent) (gemini-companion-agent-get agent :title))
                                        agents " and "))
            (policy (agent) (gemini-companion-tool-extension--get agent :policy)))
    (let ((silent (seq-filter #'policy agents))
          (files (cl-loop for agent in agents
                          for home = (gemini-companion-tool-extension--home agent)
                          collect (concat home gemini-companion-tool-extension--directory "/")
                          if (policy agent) collect (concat home (policy agent)))))
      (gemini-companion-ui-y-or-n-p
       (concat "Let the models of " (titles agents) " use Emacs, and let hooks report your \
prompts, their questions and their edits to Emacs?  "
               (and silent
                    (concat (titles silent) " will not ask before it calls a tool that only \
reads, or shows you a file, which runs your hooks as C-x C-f does.  "))
               "(Writes " (mapconcat #'abbreviate-file-name files " and ") ") ")))))

(defun gemini-companion-tool-extension--report (connection outcomes)
  "Show OUTCOMES, which are those on the host of CONNECTION, or here.
Here, signal a `user-error' if one of them is an error."
  (let ((text (mapconcat #'car outcomes "\n")))
    (cond (connection (gemini-companion-ui-message 'tools "%s" text))
          ((seq-some #'cadr outcomes) (user-error "%s" text))
          (t (message "%s" text)))))

;;;; Automatically

;;;###autoload
(defun gemini-companion-tool-extension-offer ()
  "Ask once whether models may use Emacs, unless they do or cannot.
Return the outcome, a message, or nil."
  (when-let* (((not (gemini-companion-tool-extension-declined-p)))
              ((ignore-errors (gemini-companion-native-load)))
              (agents
               (gemini-companion-tool-extension--absent (gemini-companion-tool-extension--agents)))
              (outcome "Nothing was written for the model; M-x gemini-companion-tools-enable asks \
again"))
    (if (gemini-companion-tool-extension--ask agents)
        (gemini-companion-tool-extension-change-all
         nil 'enable
         (lambda (outcomes) (setq outcome (mapconcat #'car outcomes "\n")))
         agents)
      (gemini-companion-answer-set 'tools 'never))
    outcome))

(defun gemini-companion-tool-extension-declined-p ()
  "Return non-nil if the user does not want to be offered the tools."
  (eq (gemini-companion-answer-get 'tools) 'never))

;;;###autoload
(defun gemini-companion-tool-extension-keep-current (&optional connection)
  "Replace files of extensions that this package would write differently.
If CONNECTION is non-nil, they are on its host, if the user wants them there."
  (let ((process-environment (default-toplevel-value 'process-environment)))
    (gemini-companion-log-errors "gemini-companion-tool-extension-keep-current"
      (when (or (not connection)
                (eq 'always (gemini-companion-answer-get
                             (gemini-companion-tool-question connection))))
        (gemini-companion-tool-extension-change-all connection 'update #'ignore)))))

;;;; On hosts

(defun gemini-companion-tool-extension-ask-host (connection &optional again)
  "Ask whether models on the host of CONNECTION may use Emacs.
Unless AGAIN is non-nil, do not ask if no model on this machine does.  AGAIN
and the value are as in `gemini-companion-answer-ask'."
  (when (or again (gemini-companion-tool-extension--used-p))
    (gemini-companion-answer-ask
     (gemini-companion-tool-question connection)
     (format "Let models on %s use what Emacs knows of its files, and let hooks report \
your prompts there, the CLI's questions and its edits to Emacs?  Gemini CLI will not ask \
before it calls a tool that only reads, or shows you a file that is open.  \
(Writes extensions, and a policy for Gemini CLI) "
             (gemini-companion-host-connection-name connection))
     again)))

(defun gemini-companion-tool-extension-forget-host (connection)
  "Forget what the user said about models on the host of CONNECTION.
Nothing could be written there, so the next attempt asks again."
  (gemini-companion-answer-set (gemini-companion-tool-question connection) nil))

(provide 'gemini-companion-tool-extension)
;;; gemini-companion-tool-extension.el ends here

;;; gemini-companion-agent.el --- The programs that are served -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Gemini CLI and its forks speak the same protocol but find an editor in different ways.  Each of
;; them is a row in a table.
;;
;; A program finds this Emacs by its discovery file, whose directory and name are computed here the
;; way the program does it.  If several Emacsen run, environment variables lead the processes that
;; one of them starts back to that one.  What asks about any process, or runs one, is here, too.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-bridge)
(require 'gemini-companion-log)
(require 'gemini-companion-workspace)

(defconst gemini-companion-agent-neutral-directory "/"
  "Directory of this machine in which to start programs that need none.
In a temporary directory, other users could put programs, which would run
if PATH has an empty element, since that means the current directory.")

;;;; The programs

(defconst gemini-companion-agent--known
  '((gemini
     :title "Gemini CLI"
     :program "gemini"
     :install "npm install -g @google/gemini-cli"
     :tested "0.61.0"
     :oldest "0.31.0"
     :takes-edits t
     :needs-no-text (("streamable-http-client" "0.45.2" "0.61.0")
                     ("stdio-client" "0.61.0" "0.61.0"))
     :ignore-file ".geminiignore"
     :directory (temporary "gemini/ide")
     :file "gemini-ide-server-PID-PORT.json"
     :stdio t
     :resume ("--resume" "--list-sessions")
     ;; With "vi" or "emacs" in its first word, the editor would block the CLI.
     :editor ("node PROGRAM" "\C-g")
     :suspends t
     :commands (".gemini/commands" "toml"
                "about" "agents" "auth" "bug" "chat" "clear" "commands" "compress" "copy"
                "directory" "docs" "editor" "extensions" "footer" "help" "hooks" "ide" "init" "mcp"
                "memory" "model" "permissions" "plan" "policies" "privacy" "quit" "restore"
                "resume" "rewind" "settings" "setup-github" "shortcuts" "skills" "stats" "tasks"
                "terminal-setup" "theme" "tools" "upgrade" "vim" "voice")
     :settings ("GEMINI_CLI_HOME" "~" ".gemini/settings.json")
     :other-settings (".gemini/settings.json" "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
                      "/etc/gemini-cli/settings.json"
                      "/Library/Application Support/GeminiCli/settings.json")
     :sandbox ("GEMINI_SANDBOX" tools sandbox)
     :extension (:manifest "gemini-extension.json"
                           :here "${extensionPath}"
                           :hooks ((start "SessionStart")
                                   (end "SessionEnd")
                                   (prompt "BeforeAgent")
                                   (done "AfterAgent")
                                   (asks "Notification")
                                   (edit "BeforeTool" "write_file|replace")
                                   (edited "AfterTool" "write_file|replace")
                                   ;; All of these may ask.
                                   (ran "AfterTool"
                                        "run_shell_command|web_fetch|ask_user|exit_plan_mode|\
enter_plan_mode|activate_skill|discovered_tool_.*|mcp_(?!emacs_).*"))
                           :policy "policies/emacs.toml")
     :variables (("GEMINI_CLI_IDE_SERVER_PORT" . port)
                 ("GEMINI_CLI_IDE_PID" . process)
                 ("GEMINI_CLI_IDE_AUTH_TOKEN" . token))
     :workspace "GEMINI_CLI_IDE_WORKSPACE_PATH")
    (qwen
     :title "Qwen Code"
     :program "qwen"
     :install "npm install -g @qwen-code/qwen-code"
     :ignore-file ".qwenignore"
     :directory (home "QWEN_HOME" "~/.qwen" "ide")
     :file "PORT.lock"
     :stdio t
     :tells-process t
     :resume ("--resume")
     :editor ("PROGRAM" "\C-x")
     :commands (".qwen/commands" "md"
                "about" "advisor" "agents" "approval-mode" "arena" "auth" "branch" "btw" "bug" "cd"
                "clear" "compress" "compress-fast" "config" "context" "copy" "curator" "delete"
                "diff" "directory" "docs" "doctor" "dream" "editor" "effort" "export" "extensions"
                "forget" "fork" "goal" "help" "history" "hooks" "ide" "import-config" "init"
                "insight" "language" "learn" "mcp" "memory" "model" "output-style" "peers"
                "permissions" "plan" "quit" "recap" "reload-plugins" "remember" "rename" "restore"
                "resume" "rewind" "settings" "setup-github" "skills" "stats" "status" "statusline"
                "summary" "tasks" "terminal-setup" "theme" "tools" "trust" "update" "vim" "voice")
     :settings ("QWEN_HOME" "~/.qwen" "settings.json")
     :other-settings (".qwen/settings.json" "QWEN_CODE_SYSTEM_SETTINGS_PATH"
                      "/etc/qwen-code/settings.json"
                      "/Library/Application Support/QwenCode/settings.json")
     :approval (tools approvalMode)
     :extension (:manifest "qwen-extension.json"
                           :here "${CLAUDE_PLUGIN_ROOT}"
                           :hooks ((start "SessionStart")
                                   (end "SessionEnd")
                                   (prompt "UserPromptSubmit")
                                   (done "Stop")
                                   (done "StopFailure")
                                   (asks "Notification")
                                   (edited "PostToolUse" "write_file|edit|notebook_edit")
                                   (ran "PostToolUse" "run_shell_command|monitor|web_fetch|\
web_search|agent|skill|propose_goal|ask_user_question|exit_plan_mode|mcp__(?!emacs__).*")))
     :variables (("QWEN_CODE_IDE_SERVER_PORT" . port))
     :workspace "QWEN_CODE_IDE_WORKSPACE_PATH")
    (llxprt
     :title "LLxprt Code"
     :program "llxprt"
     :install "npm install -g @vybestack/llxprt-code"
     :takes-edits t
     :ignore-file ".llxprtignore"
     :homes ("$LLXPRT_CONFIG_HOME" "$XDG_CONFIG_HOME/llxprt-code" "~/.config/llxprt-code"
             "~/Library/Preferences/llxprt-code" "$APPDATA/llxprt-code" "~/.llxprt")
     :directory (temporary "llxprt/ide")
     :file "llxprt-ide-server-PID-PORT.json"
     :by-process t
     :tells-process t
     :editor ("PROGRAM" "\C-x")
     :variables (("LLXPRT_CODE_IDE_SERVER_PORT" . port)
                 ("LLXPRT_CODE_IDE_AUTH_TOKEN" . token))
     :workspace "LLXPRT_CODE_IDE_WORKSPACE_PATH"))
  "The programs that this package knows, as in `gemini-companion-agent-profiles'.
A new one needs only an entry here, or the user's own in that option.")

(defun gemini-companion-agent-choices ()
  "Return the programs that this package knows, as types for Customize."
  (mapcar (lambda (it) `(const :tag ,(plist-get (cdr it) :title) ,(car it)))
          gemini-companion-agent--known))

;;;; Options

(defcustom gemini-companion-agents (mapcar #'car gemini-companion-agent--known)
  "Programs that can connect: names as in `gemini-companion-agent-profiles'.
Takes effect when `gemini-companion-mode' is next enabled."
  :type `(repeat (choice ,@(gemini-companion-agent-choices) (symbol :tag "Another")))
  :group 'gemini-companion-clients
  :risky t)

(defcustom gemini-companion-agent-profiles nil
  "Programs to serve, an alist of names and property lists.
This package knows Gemini CLI (`gemini'), Qwen Code (`qwen') and LLxprt
Code (`llxprt').  Add others here, or change properties of these; properties
that you leave out keep this package's values.

A program can connect only if `gemini-companion-agents' also names it.  Takes
effect when `gemini-companion-mode' is next enabled.

For the properties see Info node `(gemini-companion)Adding a Program'."
  :type '(alist :key-type (symbol :tag "Name") :value-type plist)
  :group 'gemini-companion-clients
  :risky t)

(defcustom gemini-companion-temporary-directories nil
  "More temporary directories in which clients may look for Emacs.
A client looks for Emacs in its own temporary directory, which differs if
TMPDIR differs in its terminal.  Takes effect when `gemini-companion-mode'
is next enabled."
  :type '(repeat directory)
  :group 'gemini-companion-clients
  :risky t)

(defcustom gemini-companion-export-workspace nil
  "Non-nil means pass all workspace roots to processes that Emacs starts.
Gemini CLI adds them to its own workspace, so that it also works in projects
other than the one where you started it.  Takes effect when
`gemini-companion-mode' is next enabled."
  :type 'boolean
  :group 'gemini-companion-context
  :risky t)

;;;; The table

(defun gemini-companion-agent-get (agent property)
  "Return PROPERTY of the program AGENT, see `gemini-companion-agent-profiles'."
  (let ((own (alist-get agent gemini-companion-agent-profiles)))
    (plist-get (if (plist-member own property) own
                 (alist-get agent gemini-companion-agent--known))
               property)))

(defun gemini-companion-agent-variable (agent what)
  "Return the variable that tells AGENT WHAT, `port' or `process'; nil if none."
  (car (rassq what (gemini-companion-agent-get agent :variables))))

(defun gemini-companion-agent-names ()
  "Return the names of all programs that can be served."
  (delete-dups (mapcar #'car (append gemini-companion-agent--known
                                     gemini-companion-agent-profiles))))

(defun gemini-companion-agent-served ()
  "Return the names of the programs that are served."
  (let ((names (gemini-companion-agent-names)))
    (cl-loop for agent in gemini-companion-agents
             if (memq agent names) collect agent)))

(defun gemini-companion-agent-needs-no-text-p (agent name version)
  "Return non-nil if a client of AGENT needs no text that it has proposed itself.
It calls itself NAME and has VERSION, which must be that of a release."
  (and (string-match-p "\\`[0-9]+\\(?:\\.[0-9]+\\)*\\'" version)
       (cl-loop for (known first last) in (gemini-companion-agent-get agent :needs-no-text)
                thereis (and (equal name known)
                             (version<= first version)
                             (version<= version last)))))

;;;; Files

(defun gemini-companion-agent-announcements ()
  "Return the programs that are served, for `gemini-companion-bridge-start'.
One that is not used here, but perhaps on a host, has no directories."
  (cl-loop for agent in (gemini-companion-agent-served)
           for directories = (gemini-companion-agent-directories agent)
           if (or directories (gemini-companion-agent-get agent :stdio))
           collect (vector (symbol-name agent)
                           (gemini-companion-agent-get agent :title)
                           (vconcat directories)
                           (gemini-companion-agent-get agent :file)
                           (gemini-companion-agent-get agent :tells-process)
                           (vconcat (and (gemini-companion-agent-get agent :by-process)
                                         (gemini-companion-agent-process-aliases
                                          (emacs-pid)))))))

(defun gemini-companion-agent-directories (agent)
  "Return the directories in which AGENT looks for discovery files, each once.
The first is that of clients that Emacs starts; none if AGENT is not used here."
  (when-let* (((gemini-companion-agent--used-p agent))
              (first (gemini-companion-agent-directory
                      agent (default-toplevel-value 'process-environment))))
    (pcase (gemini-companion-agent-get agent :directory)
      (`(temporary ,name)
       (cl-loop with known = nil
                for directory in (cons first
                                       (mapcar (apply-partially #'expand-file-name name)
                                               gemini-companion-temporary-directories))
                for real = (file-truename directory)
                unless (member real known) collect directory
                do (push real known)))
      (_ (and (file-directory-p (file-name-directory first))
              (list first))))))

(defun gemini-companion-agent-directory (agent environment)
  "Return where AGENT with ENVIRONMENT looks for discovery files, or nil.
The directory need not exist."
  (pcase (gemini-companion-agent-get agent :directory)
    (`(temporary ,name)
     (concat (gemini-companion-agent-temporary-directory environment) "/" name))
    (`(home ,variable ,default ,name)
     (when-let* ((home (gemini-companion-agent--home variable default environment)))
       (concat (directory-file-name home) "/" name)))))

(defun gemini-companion-agent--used-p (agent)
  "Return non-nil if AGENT is used here, as far as its directories tell."
  (let ((homes (gemini-companion-agent-get agent :homes))
        (process-environment (default-toplevel-value 'process-environment)))
    (or (null homes)
        (cl-loop for home in homes
                 for name = (substitute-in-file-name home)
                 ;; A variable that is not set is not substituted.
                 thereis (and (file-name-absolute-p name) (file-directory-p name))))))

(defun gemini-companion-agent-temporary-directory (environment)
  "Return `os.tmpdir()' of a process with ENVIRONMENT, without trailing slash."
  (let* ((windows (eq system-type 'windows-nt))
         (directory (or (cl-loop for name in (if windows '("TEMP" "TMP") '("TMPDIR" "TMP" "TEMP"))
                                 thereis (gemini-companion-agent-getenv name environment))
                        (if windows
                            (concat (or (getenv "SystemRoot") (getenv "windir") "") "/temp")
                          "/tmp"))))
    (replace-regexp-in-string "\\(.\\)[/\\]\\'" "\\1"
                              ;; As Emacs writes file names.
                              (if windows (expand-file-name directory) directory))))

(defun gemini-companion-agent-settings-file (agent environment)
  "Return the file with the user's settings of AGENT with ENVIRONMENT, or nil.
The file need not exist."
  (pcase (gemini-companion-agent-get agent :settings)
    (`(,variable ,default ,file)
     (when-let* ((home (gemini-companion-agent--home variable default environment)))
       (expand-file-name file home)))))

(defun gemini-companion-agent--home (variable default environment)
  "Return the directory that VARIABLE names in ENVIRONMENT, by default DEFAULT.
Return nil if it is relative, since it then differs between processes."
  (let* ((home (or (gemini-companion-agent-getenv variable environment) default))
         (profile (and (eq system-type 'windows-nt)
                       (gemini-companion-agent-getenv "USERPROFILE" environment)))
         ;; Node takes that for ~, and Emacs another directory.
         (process-environment (if profile (cons (concat "HOME=" profile) environment)
                                environment)))
    (and (file-name-absolute-p home) (expand-file-name home))))

(defun gemini-companion-agent-environment-value (name environment)
  "Return the value of NAME in ENVIRONMENT, perhaps empty, or nil if it is unset.
An ENVIRONMENT is a list like `process-environment'."
  (let ((value (getenv-internal name environment)))
    ;; It is t for a variable that `setenv' has removed.
    (and (stringp value) value)))

(defun gemini-companion-agent-getenv (name environment)
  "Return the value of NAME in ENVIRONMENT, or nil if it is unset or empty."
  (let ((value (gemini-companion-agent-environment-value name environment)))
    (unless (equal value "") value)))

;;;; Processes

(defun gemini-companion-agent-process-aliases (process)
  "Return the processes that a client may take for the editor instead of PROCESS.
It takes one or the other, as PROCESS runs it directly or in a shell."
  (let ((parent (gemini-companion-agent-parent-process process)))
    (delete process
            (delete-dups (list (if (> parent 1) parent process)
                               (gemini-companion-agent-editor-process process))))))

(defun gemini-companion-agent-editor-process (process)
  "Return the process that a client in or below PROCESS takes for its editor.
It is the grandparent of the nearest shell, or the topmost process."
  (cl-loop repeat 32                    ; as in clients
           for parent = (gemini-companion-agent-parent-process process)
           if (gemini-companion-agent--shell-p process)
           return (let ((above (gemini-companion-agent-parent-process parent)))
                    (if (> above 1) above parent))
           if (<= parent 1) return process
           do (setq process parent)
           finally return process))

(defun gemini-companion-agent-process (process)
  "Return the `process-attributes' of PROCESS, or nil for an id on a host."
  ;; `process-attributes' would ask the host of the current directory.
  (let ((default-directory gemini-companion-agent-neutral-directory))
    (and (integerp process) (process-attributes process))))

(defun gemini-companion-agent-run (command function &optional directory)
  "Run COMMAND, a list, and return its process; do not wait for it.
When it has ended, call FUNCTION with the process and what it has printed.
It runs in DIRECTORY, if that matters."
  (let ((default-directory (or directory gemini-companion-agent-neutral-directory))
        (output ""))
    (make-process :name (concat "gemini-companion-" (file-name-nondirectory (car command)))
                  :command command :noquery t :connection-type 'pipe :coding 'utf-8-unix
                  :filter (lambda (_process text)
                            (when (length< output 1000000)
                              (setq output (concat output text))))
                  :sentinel (lambda (process _event)
                              (unless (process-live-p process)
                                (gemini-companion-log-errors (car command)
                                  (funcall function process output)))))))

(defun gemini-companion-agent-parent-process (process)
  "Return the id of the parent of PROCESS, or 0 if it has none."
  (or (alist-get 'ppid (gemini-companion-agent-process process)) 0))

(defun gemini-companion-agent--shell-p (process)
  "Return non-nil if a client takes PROCESS for a shell."
  (when-let* ((command (alist-get 'args (gemini-companion-agent-process process))))
    (member (file-name-nondirectory (car (split-string command " ")))
            '("zsh" "bash" "sh" "tcsh" "csh" "ksh" "fish" "dash"))))

;;;; Containers

(defconst gemini-companion-agent--container-files '("/.dockerenv" "/run/.containerenv")
  "Files of which every container has at least one.")

(defun gemini-companion-agent-container-p ()
  "Return non-nil if clients take this Emacs to run in a container."
  (cl-loop for file in gemini-companion-agent--container-files
           thereis (file-exists-p file)))

(defun gemini-companion-agent-same-host-p (environment)
  "Return non-nil if ENVIRONMENT says that the editor is in the same container.
Otherwise a client looks for it on the host of the container."
  (cl-loop for name in '("REMOTE_CONTAINERS" "VSCODE_REMOTE_CONTAINERS_SESSION" "SSH_CONNECTION")
           thereis (gemini-companion-agent-getenv name environment)))

;;;; Environment variables

(defvar gemini-companion-agent-added nil
  "What all environments begin with, a list as in `process-environment'.
It hides what they had before.")

(defun gemini-companion-agent-set-environment ()
  "Set the variables by which processes started from now on find this Emacs."
  (if (not gemini-companion-export-workspace)
      (gemini-companion-agent--replace-added (gemini-companion-agent-variables))
    (add-hook 'gemini-companion-workspace-change-hook
              #'gemini-companion-agent--export-workspace)
    ;; The next process needs all roots.
    (gemini-companion-workspace-announce)
    (gemini-companion-agent--export-workspace)))

(defun gemini-companion-agent-restore-environment ()
  "Restore the values that the variables had before, and forget the copied token."
  (remove-hook 'gemini-companion-workspace-change-hook
               #'gemini-companion-agent--export-workspace)
  (gemini-companion-agent--replace-added nil)
  (gemini-companion-agent--forget-copy))

(defun gemini-companion-agent-without-added (environment)
  "Return ENVIRONMENT as it was before the variables were set in it."
  (let ((environment (copy-sequence environment)))
    (dolist (entry gemini-companion-agent-added environment)
      ;; The user may have the same further behind.
      (setq environment (delq (car (member entry environment)) environment)))))

(defun gemini-companion-agent-variables ()
  "Return an alist of the variables by which clients find this Emacs."
  (append
   (cl-loop for agent in (gemini-companion-agent-served)
            append (cl-loop for (name . what) in (gemini-companion-agent-get agent :variables)
                            for value = (pcase what
                                          ('port (number-to-string (gemini-companion-bridge-port)))
                                          ('process (number-to-string (emacs-pid)))
                                          ('token (gemini-companion-bridge-token agent)))
                            if value collect (cons name value)))
   ;; Another variable may say the same, but be gone when the client starts.
   (and (gemini-companion-agent-container-p)
        '(("REMOTE_CONTAINERS" . "true")))))

(defun gemini-companion-agent-join-roots (roots)
  "Return the list ROOTS as the value of a variable for workspace roots.
Leave out a root with a separator in its name: it would be read as several."
  (string-join (cl-loop for root in roots
                        unless (string-search path-separator root) collect root)
               path-separator))

(defun gemini-companion-agent--export-workspace ()
  "Set all variables, also those that hold the workspace roots."
  (let ((roots (gemini-companion-agent-join-roots (gemini-companion-workspace-announced))))
    (gemini-companion-agent--replace-added
     (append (gemini-companion-agent-variables)
             (cl-loop for agent in (gemini-companion-agent-served)
                      for variable = (gemini-companion-agent-get agent :workspace)
                      if variable collect (cons variable roots))))))

(defun gemini-companion-agent--replace-added (variables)
  "Set VARIABLES, an alist, in all environments, and no others any more.
Buffers of Eshell, for instance, have environments of their own."
  ;; Backtraces show arguments, so as few functions as possible get the values as arguments.
  (let* ((added (mapcar (pcase-lambda (`(,name . ,value)) (concat name "=" value)) variables))
         (change (lambda (environment)
                   (append added (gemini-companion-agent-without-added environment)))))
    (set-default-toplevel-value 'process-environment
                                (funcall change (default-toplevel-value 'process-environment)))
    (dolist (buffer (buffer-list))
      (when (local-variable-p 'process-environment buffer)
        (with-current-buffer buffer
          (setq process-environment (funcall change process-environment)))))
    (setq gemini-companion-agent-added added)))

;;;; Terminals outside of Emacs

(defvar gemini-companion-agent--copied nil
  "The copied command, or nil once it is removed.")

;;;###autoload
(defun gemini-companion-copy-environment ()
  "Copy a shell command that leads a client in another terminal to this Emacs.
Paste and run it there, then start the client.  You need this if several
Emacsen serve the project, or if this Emacs runs in a container.  It leads
no client out of another container.

The command contains a secret, which lets its holder see what you look at,
propose changes and, in the workspace, have them applied.
Emacs removes it from the kill ring after a minute."
  (interactive)
  (gemini-companion-bridge-check)
  (gemini-companion-agent--forget-copy)
  ;; The property tells clipboard managers not to keep it.
  (setq gemini-companion-agent--copied (propertize (gemini-companion-agent--command)
                                                   'x-kde-passwordManagerHint "secret"))
  (kill-new gemini-companion-agent--copied)
  (run-at-time 60 nil #'gemini-companion-agent--forget-copy)
  (message "Within 60 s, paste and run the command in the other terminal; then start the CLI \
there"))

(defun gemini-companion-agent--command ()
  "Return a shell command that sets the variables; on Windows, one for PowerShell."
  (let ((windows (eq system-type 'windows-nt)))
    (concat (unless windows "export ")
            (mapconcat (pcase-lambda (`(,name . ,value))
                         (if windows (format "$env:%s='%s'" name (string-replace "'" "''" value))
                           (concat name "=" (shell-quote-argument value))))
                       (gemini-companion-agent-variables)
                       (if windows "; " " ")))))

(defun gemini-companion-agent--forget-copy ()
  "Remove the copied command from the kill ring and the clipboard."
  (cancel-function-timers #'gemini-companion-agent--forget-copy)
  (when-let* ((command gemini-companion-agent--copied))
    (setq gemini-companion-agent--copied nil)
    (let ((next (car kill-ring-yank-pointer)))
      (setq kill-ring (delete command kill-ring)
            kill-ring-yank-pointer (or (memq next kill-ring) kill-ring)))
    ;; Only our own clipboard, since asking another program for its own could take long.
    (when (ignore-errors (and interprogram-cut-function
                              (gui-backend-selection-owner-p 'CLIPBOARD)
                              (equal (gui-get-selection 'CLIPBOARD) command)))
      (funcall interprogram-cut-function ""))))

(provide 'gemini-companion-agent)
;;; gemini-companion-agent.el ends here

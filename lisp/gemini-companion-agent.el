;;; gemini-companion-agent.el --- The programs that are served -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Gemini CLI has forks, which speak the same protocol and differ in how they find an editor.  Each is
;; a row of a table here.
;;
;; Two things lead such a program to this Emacs: the discovery file, whose directory is computed here
;; the way the program does it, and environment variables for the processes that Emacs starts, which
;; break the tie between several Emacsen.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-bridge)
(require 'gemini-companion-workspace)

(defvar gemini-companion-agent-profiles
  '((gemini
     :title "Gemini CLI"
     :program "gemini"
     :install "npm install -g @google/gemini-cli"
     :place (temporary "gemini/ide")
     :file "gemini-ide-server-PID-PORT.json"
     :variables (("GEMINI_CLI_IDE_SERVER_PORT" . port)
                 ("GEMINI_CLI_IDE_PID" . process)
                 ("GEMINI_CLI_IDE_AUTH_TOKEN" . token))
     :workspace "GEMINI_CLI_IDE_WORKSPACE_PATH"
     :settings ("GEMINI_CLI_HOME" "~" ".gemini/settings.json")
     :takes-edits t
     :needs-no-text (("streamable-http-client" "0.45.2" "0.61.0")))
    (qwen
     :title "Qwen Code"
     :program "qwen"
     :install "npm install -g @qwen-code/qwen-code"
     :place (home "QWEN_HOME" "~/.qwen" "ide")
     :file "PORT.lock"
     :tells-process t
     :variables (("QWEN_CODE_IDE_SERVER_PORT" . port))
     :workspace "QWEN_CODE_IDE_WORKSPACE_PATH"
     :settings ("QWEN_HOME" "~/.qwen" "settings.json")
     :takes-edits nil)
    (llxprt
     :title "LLxprt Code"
     :program "llxprt"
     :install "npm install -g @vybestack/llxprt-code"
     :homes ("$LLXPRT_CONFIG_HOME" "$XDG_CONFIG_HOME/llxprt-code" "~/.config/llxprt-code"
             "~/Library/Preferences/llxprt-code" "$APPDATA/llxprt-code" "~/.llxprt")
     :place (temporary "llxprt/ide")
     :file "llxprt-ide-server-PID-PORT.json"
     :by-process t
     :tells-process t
     :variables (("LLXPRT_CODE_IDE_SERVER_PORT" . port)
                 ("LLXPRT_CODE_IDE_AUTH_TOKEN" . token))
     :workspace "LLXPRT_CODE_IDE_WORKSPACE_PATH"
     :takes-edits t))
  "The programs that can be served, an alist of names and property lists.

These properties say what the user sees of a program:

`:title'         what the user calls it
`:program'       the name of its program
`:install'       the command that installs that, for a message
`:takes-edits'   whether its own \"yes\" takes the user's changes of the
                 proposal along; if not, Emacs says where they are
`:needs-no-text'       clients that need not be told the text of an accept if it
                 is what they proposed: a list of (NAME FIRST LAST), the
                 name that they say themselves, and the versions from which
                 and up to which that was tried.  Optional

These say how it finds Emacs by a discovery file:

`:homes'         directories of which one is there if it is used here, with
                 environment variables; without one it is not announced.
                 Optional: it is always announced then
`:place'         where it looks for the file: (temporary DIRECTORY) is below
                 each temporary directory, (home VARIABLE DEFAULT DIRECTORY)
                 below a home of its own, which VARIABLE may name, and in
                 which it is announced only if that is there.  DIRECTORY has
                 two parts in the first case, as in \"gemini/ide\", and one
                 in the second
`:file'          the name of the file, with PID and PORT for the numbers
`:by-process'    whether it looks only for the file with the number of the
                 process that it takes for its editor.  That is often one
                 that began Emacs, so the file is there with its number, too
`:tells-process' whether a member of the file, ppid, says which process
                 Emacs is; needed if `:file' has no PID, or with `:by-process'

This says how it is told to connect by itself:

`:settings'      where the user's settings are, in which ide.enabled must be
                 true: (VARIABLE DEFAULT FILE), FILE below a home, which
                 VARIABLE may name; optional

These are about the environment of the processes that Emacs starts:

`:variables'     an alist of variables and what they hold: `port', `process'
                 (the number of that of Emacs) or `token'
`:workspace'     the variable with the folders that are open in Emacs, which
                 some programs add to their own; optional

A program that is added must be named in `gemini-companion-agents', too.")

(defcustom gemini-companion-agents '(gemini qwen llxprt)
  "The programs that are served, names in `gemini-companion-agent-profiles'.
Takes effect when `gemini-companion-mode' is next switched on."
  :type '(repeat (choice (const :tag "Gemini CLI" gemini)
                         (const :tag "Qwen Code" qwen)
                         (const :tag "LLxprt Code" llxprt)
                         (symbol :tag "Another")))
  :group 'gemini-companion
  :risky t)

(defun gemini-companion-agent-get (agent property)
  "Return PROPERTY of AGENT, a name, as in `gemini-companion-agent-profiles'."
  (plist-get (alist-get agent gemini-companion-agent-profiles) property))

(defun gemini-companion-agent-needs-no-text-p (agent name version)
  "Return non-nil if a client was tried that needs no text which it has proposed.
It is of AGENT, and says that it is NAME, of VERSION.  Only releases are
known: what comes before one may be made otherwise."
  (and (string-match-p "\\`[0-9]+\\(?:\\.[0-9]+\\)*\\'" version)
       (cl-loop for (known first last) in (gemini-companion-agent-get agent :needs-no-text)
                thereis (and (equal name known)
                             (version<= first version)
                             (version<= version last)))))

(defun gemini-companion-agent-served ()
  "Return the names of the programs that are served."
  (cl-loop for agent in gemini-companion-agents
           if (assq agent gemini-companion-agent-profiles) collect agent))

(defcustom gemini-companion-temporary-directories nil
  "Temporary directories, besides that of Emacs, in which clients may look.
A client finds Emacs by a file in its own temporary directory, which is
another one if TMPDIR is another one in its terminal.  Takes effect when
`gemini-companion-mode' is next switched on."
  :type '(repeat directory)
  :group 'gemini-companion
  :risky t)

(defcustom gemini-companion-export-workspace nil
  "Non-nil to tell each process that Emacs starts all workspace roots.
Gemini CLI adds all of them to its own workspace, so that it works in
projects other than the one it was started in.  Takes effect when
`gemini-companion-mode' is next switched on."
  :type 'boolean
  :group 'gemini-companion
  :risky t)

(defconst gemini-companion-agent--secret-time 60
  "Seconds after which a copied token leaves the kill ring.")

(defvar gemini-companion-agent--saved nil
  "Alist of the variables that were set, and the values they had before.")

(defvar gemini-companion-agent--copied nil
  "The last text with a token in the kill ring, and the timer that takes it away.")

;;;; Directories

(defun gemini-companion-agent-announcements ()
  "Return the programs that are served, for `gemini-companion-bridge-start'."
  (cl-loop for agent in (gemini-companion-agent-served)
           for directories = (gemini-companion-agent-directories agent)
           if directories
           collect (vector (symbol-name agent)
                           (gemini-companion-agent-get agent :title)
                           (vconcat directories)
                           (gemini-companion-agent-get agent :file)
                           (gemini-companion-agent-get agent :tells-process)
                           (vconcat (and (gemini-companion-agent-get agent :by-process)
                                         (gemini-companion-agent-processes-taken-for
                                          (emacs-pid)))))))

(defun gemini-companion-agent-directories (agent)
  "Return the directories in which AGENT looks for discovery files, each once.
The first is that of clients that Emacs starts.  If AGENT is not used
here there is none."
  (when (gemini-companion-agent--used-p agent)
    (gemini-companion-agent--places agent)))

(defun gemini-companion-agent--used-p (agent)
  "Return non-nil if AGENT is used here, as far as its directories tell."
  (let ((homes (gemini-companion-agent-get agent :homes))
        (process-environment (default-toplevel-value 'process-environment)))
    (or (null homes)
        (cl-loop for home in homes
                 for name = (substitute-in-file-name home)
                 ;; A variable that is not set stays.
                 thereis (and (file-name-absolute-p name) (file-directory-p name))))))

(defun gemini-companion-agent--places (agent)
  "Return the directories in which AGENT looks for discovery files, each once."
  (pcase (gemini-companion-agent-get agent :place)
    (`(temporary ,directory) (gemini-companion-agent--temporary directory))
    (`(home ,variable ,default ,directory)
     (let ((home (or (gemini-companion-agent-getenv
                      variable (default-toplevel-value 'process-environment))
                     default)))
       ;; A relative one is another directory for each process.
       (and (file-name-absolute-p home)
            (file-directory-p home)
            (list (concat (directory-file-name (expand-file-name home)) "/" directory)))))))

(defun gemini-companion-agent--temporary (directory)
  "Return DIRECTORY in all temporary directories in which clients may look."
  (let (known)
    (cl-loop for temporary
             in (cons (gemini-companion-agent-temporary-directory
                       (default-toplevel-value 'process-environment))
                      (mapcar (lambda (directory)
                                (directory-file-name (expand-file-name directory)))
                              gemini-companion-temporary-directories))
             for place = (concat temporary "/" directory)
             for real = (file-truename place)
             unless (member real known)
             do (push real known) and collect place)))

(defun gemini-companion-agent-getenv (name environment)
  "Return the value of NAME in ENVIRONMENT, nil if it is empty.
That has the shape of `process-environment'."
  (let ((value (getenv-internal name environment)))
    ;; It is t for a name without a value, as `setenv' leaves it there for one that was removed.
    (and (stringp value) (not (string-empty-p value)) value)))

(defun gemini-companion-agent-temporary-directory (environment)
  "Return what `os.tmpdir()' is for a process with ENVIRONMENT, without slash.
That has the shape of `process-environment'."
  (let* ((windows (eq system-type 'windows-nt))
         (set (cl-loop for name in (if windows '("TEMP" "TMP") '("TMPDIR" "TMP" "TEMP"))
                       thereis (gemini-companion-agent-getenv name environment)))
         (directory (or set
                        (if windows
                            (concat (or (getenv "SystemRoot") (getenv "windir") "") "/temp")
                          "/tmp"))))
    (if (> (length directory) 1)
        (replace-regexp-in-string "[/\\]\\'" "" directory)
      directory)))

;;;; Settings

(defun gemini-companion-agent-settings-file (agent environment)
  "Return the file with the user's settings of AGENT with ENVIRONMENT, or nil.
That has the shape of `process-environment'.  The file need not be there."
  (pcase (gemini-companion-agent-get agent :settings)
    (`(,variable ,default ,file)
     (let* ((process-environment environment)
            (home (or (gemini-companion-agent-getenv variable environment) default)))
       ;; A relative one is another directory for each process.
       (and (file-name-absolute-p home)
            (expand-file-name file home))))))

;;;; Containers

(defconst gemini-companion-agent--container-files '("/.dockerenv" "/run/.containerenv")
  "Files of which one is in each container.")

(defconst gemini-companion-agent--same-host
  '("REMOTE_CONTAINERS" "VSCODE_REMOTE_CONTAINERS_SESSION" "SSH_CONNECTION")
  "Variables that tell a client in a container that the editor is in there, too.
Without one it looks for the editor on the machine around the container.")

(defun gemini-companion-agent-container-p ()
  "Return non-nil if this Emacs runs in a container, as clients judge."
  (cl-loop for file in gemini-companion-agent--container-files
           thereis (file-exists-p file)))

(defun gemini-companion-agent-same-host-p (environment)
  "Return non-nil if ENVIRONMENT says that the editor is in the same container."
  (cl-loop for name in gemini-companion-agent--same-host
           thereis (gemini-companion-agent-getenv name environment)))

;;;; Variables

(defun gemini-companion-agent--variables ()
  "Return the variables that lead to the running companion, with their values."
  (append
   (cl-loop for agent in (gemini-companion-agent-served)
            append (cl-loop for (name . what) in (gemini-companion-agent-get agent :variables)
                            for value = (gemini-companion-agent--value agent what)
                            if value collect (cons name value)))
   ;; Even if something else says so: that may be gone when the client starts.
   (and (gemini-companion-agent-container-p)
        '(("REMOTE_CONTAINERS" . "true")))))

(defun gemini-companion-agent--value (agent what)
  "Return what clients of AGENT are told as WHAT: `port', `process' or `token'."
  (pcase what
    ('port (number-to-string (gemini-companion-bridge-port)))
    ('process (number-to-string (emacs-pid)))
    ('token (gemini-companion-bridge-token agent))))

(defun gemini-companion-agent-set-environment ()
  "Lead the processes that Emacs will start to the running companion."
  ;; Values are not passed as arguments more than needed, since these show in backtraces.
  (gemini-companion-agent--put-all (gemini-companion-agent--variables))
  (when gemini-companion-export-workspace
    (add-hook 'gemini-companion-workspace-change-hook
              #'gemini-companion-agent--export-workspace)
    (gemini-companion-agent--export-workspace)))

(defun gemini-companion-agent--export-workspace ()
  "Tell the processes that Emacs will start the workspace roots."
  (let ((roots (string-join (gemini-companion-workspace-announced) path-separator)))
    (gemini-companion-agent--put-all
     (cl-loop for agent in (gemini-companion-agent-served)
              for variable = (gemini-companion-agent-get agent :workspace)
              if variable collect (cons variable roots)))))

(defun gemini-companion-agent-restore-environment ()
  "Put the variables back to what they were."
  (remove-hook 'gemini-companion-workspace-change-hook
               #'gemini-companion-agent--export-workspace)
  (gemini-companion-agent--put gemini-companion-agent--saved)
  (setq gemini-companion-agent--saved nil)
  (gemini-companion-agent--forget-copy))

(defun gemini-companion-agent--put-all (variables)
  "Set VARIABLES, an alist, and save what they were before."
  (pcase-dolist (`(,name . ,_) variables)
    (unless (assoc name gemini-companion-agent--saved)
      (push (cons name (gemini-companion-agent--get name))
            gemini-companion-agent--saved)))
  (gemini-companion-agent--put variables))

;; The global value, since a caller may have an environment of its own; and that of each buffer
;; that has one, as Eshell's, and those that were set up for a project.

(defun gemini-companion-agent--get (name)
  "Return the value of the environment variable NAME, or nil."
  (getenv-internal name (default-toplevel-value 'process-environment)))

(defun gemini-companion-agent--put (variables)
  "Set VARIABLES, an alist, wherever there is an environment; nil removes one."
  (set-default-toplevel-value
   'process-environment
   (gemini-companion-agent--with variables
                                 (default-toplevel-value 'process-environment)))
  (dolist (buffer (buffer-list))
    (when (local-variable-p 'process-environment buffer)
      (with-current-buffer buffer
        (setq process-environment
              (gemini-companion-agent--with variables process-environment))))))

(defun gemini-companion-agent--with (variables environment)
  "Return a copy of ENVIRONMENT with VARIABLES, an alist, set."
  (let ((environment (copy-sequence environment)))
    (pcase-dolist (`(,name . ,value) variables)
      (setq environment (setenv-internal environment name value nil)))
    environment))

(defun gemini-companion-agent-environment-before ()
  "Return the environment of Emacs as it is without what leads to the companion.
Processes that others start beside it have that at best."
  (gemini-companion-agent--with gemini-companion-agent--saved
                                (default-toplevel-value 'process-environment)))

;;;; For terminals elsewhere

;;;###autoload
(defun gemini-companion-copy-environment ()
  "Put a command on the kill ring that leads a client elsewhere to this Emacs.
Paste it in another terminal, container or login, and start the client
there.  The command holds a secret: with it one can see what you look at,
propose changes to you and, in the workspace, have them applied.  It
leaves the kill ring after a minute."
  (interactive)
  (gemini-companion-bridge-check)
  (gemini-companion-agent--forget-copy)
  ;; The property tells managers of clipboards not to keep it.
  (let ((command (propertize (gemini-companion-agent--command)
                             'x-kde-passwordManagerHint "secret")))
    (kill-new command)
    (setq gemini-companion-agent--copied
          (cons command
                (run-at-time gemini-companion-agent--secret-time nil
                             #'gemini-companion-agent--forget-copy))))
  (message "Paste the command in the other terminal within %d s, and start the CLI there"
           gemini-companion-agent--secret-time))

(defun gemini-companion-agent--command ()
  "Return a shell command that sets the variables."
  (concat "export "
          (mapconcat (pcase-lambda (`(,name . ,value))
                       (concat name "=" (shell-quote-argument value)))
                     (gemini-companion-agent--variables)
                     " ")))

(defun gemini-companion-agent--forget-copy ()
  "Take the command that was copied off the kill ring, and off the clipboard."
  (pcase gemini-companion-agent--copied
    (`(,command . ,timer)
     (cancel-timer timer)
     (setq gemini-companion-agent--copied nil)
     (gemini-companion-agent--take-off-kill-ring command)
     ;; To ask another program for it could take long.
     (when (ignore-errors (and interprogram-cut-function
                               (gui-backend-selection-owner-p 'CLIPBOARD)
                               (equal (gui-get-selection 'CLIPBOARD) command)))
       (funcall interprogram-cut-function "")))))

(defun gemini-companion-agent--take-off-kill-ring (text)
  "Take all that equals TEXT off the kill ring."
  (let ((next (car kill-ring-yank-pointer)))
    (setq kill-ring (delete text kill-ring)
          kill-ring-yank-pointer (or (memq next kill-ring) kill-ring))))

;;;; Which process a client takes for Emacs

(defconst gemini-companion-agent--shells
  '("zsh" "bash" "sh" "tcsh" "csh" "ksh" "fish" "dash")
  "Programs that a client takes for the shell it was started in.")

(defconst gemini-companion-agent--max-walk 32
  "Number of processes looked at for that shell.")

(defun gemini-companion-agent-editor-process (process)
  "Return the process that a client in or below PROCESS takes for its editor.
That is the grandparent of the nearest shell, or the topmost of all."
  (let ((left gemini-companion-agent--max-walk)
        found)
    (while (and (not found) (> left 0))
      (setq left (1- left))
      (let ((parent (gemini-companion-agent-parent-process process)))
        (cond ((gemini-companion-agent--shell-p process)
               (let ((above (gemini-companion-agent-parent-process parent)))
                 (setq found (if (> above 1) above parent))))
              ((<= parent 1) (setq found process))
              (t (setq process parent)))))
    (or found process)))

(defun gemini-companion-agent-parent-process (process)
  "Return the process id of the parent of PROCESS, 0 if there is none."
  (or (alist-get 'ppid (process-attributes process)) 0))

(defun gemini-companion-agent--shell-p (process)
  "Return non-nil if PROCESS is a shell, as clients judge."
  (let ((command (alist-get 'args (process-attributes process))))
    (and command
         (member (file-name-nondirectory (car (split-string command " ")))
                 gemini-companion-agent--shells))))

(defun gemini-companion-agent-processes-taken-for (process)
  "Return the other processes that a client may take for the editor PROCESS.
One of them if PROCESS runs the client in a shell, one if without."
  (let ((parent (gemini-companion-agent-parent-process process)))
    (delete process
            (delete-dups (list (if (> parent 1) parent process)
                               (gemini-companion-agent-editor-process process))))))

(provide 'gemini-companion-agent)
;;; gemini-companion-agent.el ends here

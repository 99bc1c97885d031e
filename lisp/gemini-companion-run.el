;;; gemini-companion-run.el --- Run the CLI in a terminal -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Runs the CLI of a project in whichever terminal emulator is installed, and finds it again.  All
;; emulators have a process, and the program reads what is sent to it.  How each of them starts a
;; program is at the end of this file.

;;; Code:

(require 'cl-lib)
(require 'project)
(require 'seq)
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-answer)
(require 'gemini-companion-bridge)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-setup)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function eat-exec "ext:eat")
(declare-function eat-mode "ext:eat")
(declare-function gemini-companion-ssh-environment "gemini-companion-ssh")
(declare-function gemini-companion-ssh-login-command "gemini-companion-ssh")
(declare-function gemini-companion-ssh-quote "gemini-companion-ssh")
(declare-function gemini-companion-connection-ssh-arguments "gemini-companion-connection")
(declare-function gemini-companion-connect-to "gemini-companion-connect")
(declare-function gemini-companion-connection-when-ready "gemini-companion-connection")
(declare-function gemini-companion-connection-keeper "gemini-companion-connection" (connection) t)
(declare-function gemini-companion-connection-name "gemini-companion-connection" (connection) t)
(defvar gemini-companion-ssh-program)
(declare-function gemini-companion-mode "gemini-companion")
(declare-function ghostel-exec "ext:ghostel")
(declare-function package-initialize "package")
(declare-function package-install "package")
(declare-function package-refresh-contents "package")
(declare-function term-char-mode "term")
(declare-function term-emulate-terminal "term")
(declare-function term-exec "term")
(declare-function term-mode "term")
(declare-function vterm-mode "ext:vterm")
(defvar ghostel-kill-buffer-on-exit)
(defvar ghostel-query-before-killing)
(defvar ghostel-use-native-pty)
(defvar package--initialized)
(defvar package-archive-contents)
(defvar package-archives)
(defvar vterm-kill-buffer-on-exit)
(defvar vterm-min-window-width)
(defvar vterm-shell)

;;;; Options

;;;###autoload (custom-add-load 'gemini-companion-terminal 'gemini-companion-run)
(defcustom gemini-companion-agent 'gemini
  "Agent that `gemini-companion-run' runs.
It is the name of one in `gemini-companion-agent-profiles'."
  :type `(choice ,@(gemini-companion-agent-choices) symbol)
  :group 'gemini-companion-terminal
  :risky t
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-program nil
  "Program of `gemini-companion-agent', a name or an absolute file name.
If nil, use the agent's usual program.  On other machines the usual program
is always used, as found by a login shell."
  :type '(choice (const :tag "The usual one" nil)
                 string)
  :group 'gemini-companion-terminal
  :risky t
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-arguments nil
  "Arguments for the program of `gemini-companion-agent', on any machine."
  :type '(repeat string)
  :group 'gemini-companion-terminal
  :risky t
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-run-display-action
  '((display-buffer-reuse-window gemini-companion-run-display-in-side-window))
  "Display action for the terminal of `gemini-companion-run'.
By default, it is on the right if both it and the rest of the frame are
then wide enough, and at the bottom otherwise.  See `display-buffer' for
the possible values."
  :type display-buffer--action-custom-type
  :group 'gemini-companion-terminal
  :risky t
  :package-version '(gemini-companion . "0.1.0"))

;;;###autoload (custom-add-load 'gemini-companion-terminal 'gemini-companion-run)
(defcustom gemini-companion-terminal 'auto
  "Terminal emulator in which `gemini-companion-run' runs its program.
If `auto', use the first of Eat, vterm and Ghostel that is installed, or
else Term, which comes with Emacs.  Before it falls back to Term,
`gemini-companion-run' asks once whether to install Eat, if a package
archive has it."
  :type '(choice (const :tag "The best one that is installed" auto)
                 (const :tag "Eat" eat)
                 (const :tag "vterm" vterm)
                 (const :tag "Ghostel" ghostel)
                 (const :tag "Term" term))
  :group 'gemini-companion-terminal
  :package-version '(gemini-companion . "0.1.0"))

;;;; State

(defvar-local gemini-companion-run-root nil
  "Directory of the project whose CLI runs in this buffer.")
(put 'gemini-companion-run-root 'permanent-local t)

(defvar-local gemini-companion-run-agent nil
  "Agent that runs in this buffer, if `gemini-companion-run' created it.")
(put 'gemini-companion-run-agent 'permanent-local t)

(defvar gemini-companion-run--offered nil
  "Non-nil if the user was already asked to install a terminal emulator.")

;;;; Commands

;;;###autoload
(defun gemini-companion-run (&optional another)
  "Run Gemini CLI in a terminal, in the current project.
If it is already running, show its terminal; in that terminal, hide it.
With ANOTHER, interactively the prefix argument, run one more beside it.
To run another program, customize `gemini-companion-agent'.

If the project is on another machine, the CLI runs there, in a terminal
here that logs in by ssh.  First the machine is connected, as by
\\[gemini-companion-connect]."
  (interactive "P")
  (gemini-companion-run--toggle gemini-companion-agent another))

;;;###autoload
(defun gemini-companion-run-other (agent)
  "Run AGENT, one of `gemini-companion-agents', in the current project.
If it is already running, show its terminal; in that terminal, hide it."
  (interactive (list (intern (completing-read "Run: " (gemini-companion-agent-served) nil t))))
  (gemini-companion-run--toggle agent))

(defun gemini-companion-run--toggle (agent &optional another)
  "Show or hide the terminal of AGENT in the current project.
If AGENT does not run there, or if ANOTHER is non-nil, run it."
  (let* ((root (gemini-companion-run-project))
         (buffer (and (not another) (gemini-companion-run-buffer root agent))))
    (cond ((null buffer) (gemini-companion-run--start agent root))
          ((not (eq (window-buffer) buffer)) (gemini-companion-run-show buffer))
          ((window-parameter nil 'window-side) (delete-window))
          (t (quit-window)))))

(defun gemini-companion-run-show (buffer)
  "Show the terminal BUFFER and select its window."
  (pop-to-buffer buffer gemini-companion-run-display-action))

(defconst gemini-companion-run--columns 70
  "Number of columns that a CLI needs.")

(defconst gemini-companion-run--columns-beside 80
  "Number of columns that remain for the user beside a CLI.")

(defun gemini-companion-run-display-in-side-window (buffer alist)
  "Display BUFFER in a side window: on the right, or at the bottom.
ALIST is as in other functions for `display-buffer'."
  (let* ((width (frame-width))
         (columns (max gemini-companion-run--columns (floor (* 0.4 width)))))
    (display-buffer-in-side-window
     buffer
     (append alist
             (if (>= (- width columns 1) gemini-companion-run--columns-beside)
                 `((side . right) (window-width . ,columns))
               '((side . bottom) (window-height . 0.45)))))))

(defun gemini-companion-run-project ()
  "Return the directory of the current project, or the current directory."
  (or gemini-companion-run-root
      (let* ((project (project-current))
             (root (if project (project-root project) default-directory)))
        (file-name-as-directory (expand-file-name root)))))

;;;; Finding the terminals of CLIs

(defun gemini-companion-run-buffer (root &optional agent)
  "Return the terminal in which a CLI of the project in ROOT runs, or nil.
If there are several, return the most recently selected one.  If AGENT is
non-nil, ignore terminals that are known to run another agent."
  (let ((terminals (seq-filter (pcase-lambda (`(,buffer . ,_))
                                 (or (null agent)
                                     (memq (buffer-local-value 'gemini-companion-run-agent
                                                               buffer)
                                           (list nil agent))))
                               (gemini-companion-run-terminals))))
    (car (or (rassoc root terminals)
             ;; The user may have started one in a subdirectory.  One of our own that runs there
             ;; belongs to a project there.
             (seq-find (pcase-lambda (`(,buffer . ,directory))
                         (and (not (buffer-local-value 'gemini-companion-run-root buffer))
                              ;; The user cannot have started one on another machine.
                              (not (gemini-companion-host-remote-p root))
                              (not (gemini-companion-host-remote-p directory))
                              (file-in-directory-p directory root)))
                       terminals)))))

(defun gemini-companion-run-terminals ()
  "Return the terminals in which a CLI runs, most recently selected first.
Each element is (BUFFER . DIRECTORY), where DIRECTORY is that of the CLI.
This includes the terminals in which the user started a client that is
connected, as far as the system knows the parents of its process."
  (cl-loop with clients = (gemini-companion-run--clients)
           for buffer in (buffer-list)
           for directory = (gemini-companion-run--directory buffer clients)
           when directory collect (cons buffer directory)))

(defun gemini-companion-run--directory (buffer clients)
  "Return the directory of the CLI that runs in BUFFER, or nil if none does.
CLIENTS is the value of `gemini-companion-run--clients'."
  (let ((process (get-buffer-process buffer)))
    (and (process-live-p process)
         (or (buffer-local-value 'gemini-companion-run-root buffer)
             (when-let* ((id (process-id process))
                         (client (seq-find (lambda (ids) (memq id ids)) clients)))
               (file-name-as-directory
                (or (file-symlink-p (format "/proc/%d/cwd" (car client)))
                    (buffer-local-value 'default-directory buffer))))))))

(defun gemini-companion-run--clients ()
  "Return the process ids of the connected clients, each with its ancestors.
One that is suspended does not count, since the shell reads what is sent to
its terminal, and would run it."
  (cl-loop for session in (gemini-companion-bridge-sessions)
           for id = (aref session 2)
           when (and id (gemini-companion-run--reads-p id))
           collect (gemini-companion-run-ancestry id)))

(defun gemini-companion-run--reads-p (id)
  "Return non-nil unless the process ID is in the background of its terminal."
  (let* ((attributes (process-attributes id))
         (foreground (alist-get 'tpgid attributes)))
    ;; Without a terminal it is -1.
    (or (null foreground) (< foreground 0)
        (eql foreground (alist-get 'pgrp attributes)))))

(defun gemini-companion-run-terminal-of (id buffers)
  "Return the terminal among BUFFERS in which the process ID runs, or nil."
  (let ((ids (gemini-companion-run-ancestry id)))
    (seq-find (lambda (buffer)
                (when-let* ((process (get-buffer-process buffer)))
                  (memq (process-id process) ids)))
              buffers)))

(defun gemini-companion-run-ancestry (id)
  "Return a list of the process ID, its parent, and so on."
  (let ((ids nil))
    (while (and id (> id 0) (not (memq id ids)))
      (push id ids)
      (setq id (alist-get 'ppid (process-attributes id))))
    (nreverse ids)))

(add-hook 'gemini-companion-cli-functions #'gemini-companion-run-terminals)

;;;; Starting a CLI

(defun gemini-companion-run--start (agent root)
  "Run AGENT in the project in ROOT in a new terminal, and show it."
  (if (gemini-companion-host-remote-p root)
      (gemini-companion-run--start-on-host agent root)
    (gemini-companion-run--start-here agent root)))

(defun gemini-companion-run--start-here (agent root)
  "Run AGENT in the project in ROOT, on this machine, in a new terminal."
  (let ((program (gemini-companion-run--find-program agent)))
    (gemini-companion-run--announce agent root)
    (gemini-companion-run--prepare agent root)
    (let* ((terminal (gemini-companion-run--choose-terminal))
           ;; All of these may be local to this buffer, which may be a dead terminal.
           (environment (gemini-companion-run--environment agent root))
           (locals (gemini-companion-run--locals environment))
           (arguments (gemini-companion-run--arguments agent))
           (buffer (gemini-companion-run--create-buffer agent root))
           (window (selected-window)))
      (condition-case error
          (progn
            ;; First, because the size of the terminal is that of its window.
            (gemini-companion-run-show buffer)
            (with-current-buffer buffer
              (gemini-companion-run--exec terminal program arguments environment)
              (pcase-dolist (`(,variable . ,value) locals)
                (set (make-local-variable variable) value))
              (gemini-companion-run--finish)))
        (error
         (gemini-companion-run--discard buffer)
         (when (window-live-p window) (select-window window))
         (signal (car error) (cdr error)))))))

(defvar gemini-companion-run-functions nil
  "Functions called with the buffer of a terminal in which a CLI was started.")

(defun gemini-companion-run--finish ()
  "Prepare the current buffer, in which a CLI has been started, for its user."
  (gemini-companion-ui-pass-keys)
  (add-hook 'kill-buffer-hook #'gemini-companion-run--forget-trackers nil t)
  (gemini-companion-log-run-hook 'gemini-companion-run-functions (current-buffer))
  (gemini-companion-ui-omit-line-numbers)
  ;; Some emulators clear this flag, but the CLI may be at work.
  (when-let* ((process (get-buffer-process (current-buffer))))
    (set-process-query-on-exit-flag process t)))

(defun gemini-companion-run--arguments (agent)
  "Return the arguments of the program of AGENT."
  (and (eq agent gemini-companion-agent) gemini-companion-arguments))

(defun gemini-companion-run-program (agent)
  "Return the program of AGENT, a name or an absolute file name."
  (or (and (eq agent gemini-companion-agent) gemini-companion-program)
      (gemini-companion-agent-get agent :program)
      (user-error "No agent is called %s: see `gemini-companion-agent-profiles'" agent)))

(defun gemini-companion-run--find-program (agent)
  "Return the file name of the program of AGENT."
  (let ((program (gemini-companion-run-program agent)))
    (or (executable-find program)
        (user-error "Cannot find `%s': install it with  %s  or set `gemini-companion-program'"
                    program (gemini-companion-agent-get agent :install)))))

(defun gemini-companion-run--announce (agent root)
  "Make sure that a client of AGENT that starts in ROOT can find this Emacs.
A client looks for it only when it starts."
  (unless (gemini-companion-bridge-running-p)
    (gemini-companion-mode 1))
  (unless (gemini-companion-bridge-running-p)
    (user-error "Gemini companion is not on yet: try again when it is"))
  (unless (gemini-companion-run--announced-p agent)
    (message "%s will not find this Emacs: switch `gemini-companion-mode' off and on once \
it has created its directory, and see `gemini-companion-agents'"
             (gemini-companion-agent-get agent :title)))
  (gemini-companion-workspace-announce root))

(defun gemini-companion-run--announced-p (agent)
  "Return non-nil if a discovery file is where AGENT looks for it."
  (let ((directories (gemini-companion-agent-directories agent)))
    (seq-some (lambda (file)
                (member (directory-file-name (file-name-directory file)) directories))
              (gemini-companion-bridge-discovery-files))))

(defun gemini-companion-run--prepare (agent root)
  "Ask the user everything there is to ask before AGENT runs in ROOT.
Then install what the user has agreed to, which takes longer."
  (let ((install (gemini-companion-run--offer-terminal))
        (default-directory root))
    (gemini-companion-setup-before-run agent)
    (when install
      (gemini-companion-run--install-terminal))))

(defun gemini-companion-run--create-buffer (agent root)
  "Return a new buffer for a terminal of AGENT in the project in ROOT.
Kill those in which AGENT has ended."
  (dolist (buffer (buffer-list))
    (when (and (equal (buffer-local-value 'gemini-companion-run-root buffer) root)
               (eq (buffer-local-value 'gemini-companion-run-agent buffer) agent)
               (not (process-live-p (get-buffer-process buffer))))
      (kill-buffer buffer)))
  (with-current-buffer (generate-new-buffer (gemini-companion-run--name agent root))
    ;; The program that is started is one of this machine.
    (setq default-directory (if (gemini-companion-host-remote-p root)
                                gemini-companion-agent-neutral-directory
                              root)
          gemini-companion-run-root root
          gemini-companion-run-agent agent)
    (current-buffer)))

(defun gemini-companion-run--name (agent root)
  "Return the name of a terminal of AGENT for the project in ROOT."
  (let ((host (and (gemini-companion-host-remote-p root) (file-remote-p root 'host))))
    (format "*%s: %s%s*" agent (if host (concat host ":") "")
            (file-name-nondirectory (directory-file-name (file-local-name root))))))

(defun gemini-companion-run--discard (buffer)
  "Kill the terminal BUFFER and its process without asking."
  (when-let* ((process (get-buffer-process buffer)))
    (delete-process process))
  (when (buffer-live-p buffer)
    (kill-buffer buffer)))

;;;; Starting a CLI on another machine

(defun gemini-companion-run--start-on-host (agent root)
  "Run AGENT in the project in ROOT, a remote name, once its host is connected.
The terminal is shown at once, so that it is clear where it will be."
  (require 'gemini-companion-connect)
  (unless (gemini-companion-agent-get agent :stdio)
    (user-error "%s cannot connect from another machine"
                (or (gemini-companion-agent-get agent :title) agent)))
  (let ((connection (gemini-companion-connect-to root)))
    (gemini-companion-run--prepare agent root)
    (let* ((terminal (gemini-companion-run--choose-terminal))
           (environment (gemini-companion-ssh-environment process-environment))
           (buffer (gemini-companion-run--create-buffer agent root)))
      (with-current-buffer buffer
        (insert (format "Connecting to %s...\n" (gemini-companion-connection-name connection))))
      (gemini-companion-run-show buffer)
      (gemini-companion-connection-when-ready
       connection
       (lambda (fault)
         ;; The user may have killed it meanwhile.
         (when (buffer-live-p buffer)
           (if fault
               (progn (gemini-companion-run--discard buffer)
                      (gemini-companion-ui-message buffer "%s" fault))
             (gemini-companion-run--exec-on-host connection buffer terminal environment))))))))

(defun gemini-companion-run--exec-on-host (connection buffer terminal environment)
  "Run the CLI of BUFFER on the host of CONNECTION, by the emulator TERMINAL.
ENVIRONMENT is that of ssh."
  (let ((command (gemini-companion-run--command-on-host connection buffer terminal environment)))
    (with-selected-window (or (get-buffer-window buffer t) (selected-window))
      (with-current-buffer buffer
        (condition-case error
            (progn
              (erase-buffer)
              (gemini-companion-run--exec
               terminal gemini-companion-ssh-program
               ;; Without -e a tilde that begins a line would be for ssh.
               `("-t" "-e" "none" "-o" "RemoteCommand=none"
                 ,@(gemini-companion-connection-ssh-arguments connection) ,command)
               environment)
              (setq default-directory gemini-companion-run-root)
              (gemini-companion-run--finish))
          (error
           (gemini-companion-run--discard buffer)
           (gemini-companion-ui-message buffer "%s" (gemini-companion-ui-error-text error))))))))

(defun gemini-companion-run--command-on-host (connection buffer terminal environment)
  "Return the command that runs the CLI of BUFFER on the host of CONNECTION.
TERMINAL is the emulator, ENVIRONMENT that of ssh."
  (let* ((agent (buffer-local-value 'gemini-companion-run-agent buffer))
         (root (file-local-name (buffer-local-value 'gemini-companion-run-root buffer)))
         (assignments
          (append (gemini-companion-run--host-variables agent connection)
                  (seq-filter (lambda (entry) (string-search "=" entry))
                              (gemini-companion-run--terminal-variables terminal environment))))
         (words `("env" ,@assignments ,(gemini-companion-agent-get agent :program)
                  ,@(gemini-companion-run--arguments agent))))
    (gemini-companion-ssh-login-command
     (format "cd %s && exec %s"
             (gemini-companion-ssh-quote (directory-file-name root))
             (mapconcat #'gemini-companion-ssh-quote words " ")))))

(defun gemini-companion-run--host-variables (agent connection)
  "Return the variables that lead AGENT to this Emacs on the host of CONNECTION.
Of the keeper there only the process id is known, and needed."
  (cl-loop for (name . what) in (gemini-companion-agent-get agent :variables)
           if (eq what 'process)
           collect (concat name "=" (gemini-companion-connection-keeper connection))))

;;;; The environment of a CLI

(defconst gemini-companion-run--local-hosts "localhost,127.0.0.1"
  "Hosts that a client must not access through a proxy.")

(defun gemini-companion-run--environment (agent root)
  "Return the environment of AGENT in ROOT.
This is that of the current buffer, with the variables that lead a client
to this Emacs."
  (let ((process-environment (copy-sequence process-environment)))
    ;; A buffer-local environment, from direnv for example, may lack these.
    (dolist (name (gemini-companion-run--variables))
      (when-let* ((value (getenv-internal name (default-toplevel-value 'process-environment))))
        (setenv name value)))
    (when-let* ((name (gemini-companion-agent-get agent :workspace)))
      (setenv name (gemini-companion-agent-join-roots (list (directory-file-name root)))))
    ;; Some programs read only one of these.
    (dolist (name '("NO_PROXY" "no_proxy"))
      (setenv name (gemini-companion-run--without-proxy (getenv name))))
    process-environment))

(defun gemini-companion-run--variables ()
  "Return the names of the variables that lead a client to its Emacs.
`gemini-companion-agent-set-environment' sets them."
  (cons "REMOTE_CONTAINERS"
        (mapcan (lambda (agent)
                  (mapcar #'car (gemini-companion-agent-get agent :variables)))
                (gemini-companion-agent-served))))

(defun gemini-companion-run--locals (environment)
  "Return an alist of variables and values to make local in a terminal.
If the current buffer has an environment of its own, a CLI that is run from
the terminal gets it too, with ENVIRONMENT for `process-environment'."
  (append (and (local-variable-p 'process-environment)
               (list (cons 'process-environment environment)))
          (and (local-variable-p 'exec-path)
               (list (cons 'exec-path exec-path)))))

(defun gemini-companion-run--without-proxy (hosts)
  "Return the list HOSTS, a string or nil, with this machine added to it."
  (cond ((member hosts '(nil "")) gemini-companion-run--local-hosts)
        ((or (equal hosts "*") (string-search gemini-companion-run--local-hosts hosts)) hosts)
        (t (concat hosts "," gemini-companion-run--local-hosts))))

;;;; Choosing a terminal emulator

(defun gemini-companion-run--choose-terminal ()
  "Load the terminal emulator to use, and return it."
  (cond ((eq gemini-companion-terminal 'auto)
         (or (gemini-companion-run--installed) 'term))
        ((require gemini-companion-terminal nil t) gemini-companion-terminal)
        (t (user-error "`gemini-companion-terminal' is `%s', which is not installed"
                       gemini-companion-terminal))))

(defun gemini-companion-run--installed ()
  "Load the best terminal emulator that was installed, and return it, or nil."
  (seq-find (lambda (terminal)
              (condition-case error
                  (require terminal nil t)
                (error
                 (gemini-companion-log-add "%s: %s" terminal (error-message-string error))
                 nil)))
            '(eat vterm ghostel)))

(defun gemini-companion-run--offer-terminal ()
  "If there is only Term, ask whether to install a better terminal emulator.
Return non-nil if the user says yes.  In batch mode, do not ask."
  (when (and (eq gemini-companion-terminal 'auto)
             (not noninteractive)
             (not gemini-companion-run--offered)
             (not (gemini-companion-answer-get 'eat))
             (not (gemini-companion-run--installed)))
    (setq gemini-companion-run--offered t)
    (cond ((not (and package-enable-at-startup ; else there is another package manager
                     (gemini-companion-run--eat-available-p)))
           (message "Term shows few colors; the packages Eat and vterm show all of them")
           nil)
          ((y-or-n-p "Term shows few colors: download and install the terminal Eat? "))
          (t (gemini-companion-answer-set 'eat 'never)
             (message "Using Term until you install Eat, vterm or Ghostel")
             nil))))

(defun gemini-companion-run--eat-available-p ()
  "Return non-nil if a package archive has Eat, as far as is known here."
  (require 'package)
  (gemini-companion-log-errors "package archives"
    (unless package--initialized
      (package-initialize 'no-activate))
    (if package-archive-contents
        (assq 'eat package-archive-contents)
      ;; None was fetched yet.
      (seq-some (pcase-lambda (`(,name . ,place)) (string-search "nongnu" (concat name " " place)))
                package-archives))))

(defun gemini-companion-run--install-terminal ()
  "Install Eat, and wait until that is done.
If it fails, or if the user quits, say so and what to do next."
  (require 'package)
  (message "Installing Eat; type C-g to use Term instead...")
  (condition-case problem
      ;; The byte compiler shows its warnings in windows.
      (save-window-excursion
        (package-refresh-contents)
        (unless (assq 'eat package-archive-contents)
          (error "No package archive that could be read has it"))
        ;; It is selected before it is downloaded: do that once it is there.
        (package-install 'eat 'dont-select)
        (package-install 'eat))
    ((error quit)
     (let ((reason (gemini-companion-ui-error-text problem)))
       (gemini-companion-log-add "Eat was not installed: %s" reason)
       (message "Using Term, because Eat was not installed: %s.  It is in NonGNU ELPA, see \
`package-archives'; to try again, type M-x package-install RET eat"
                reason)))))

;;;; Running a program in each of them

(defconst gemini-companion-run--min-width 20
  "Minimum width of a terminal, in columns.")

(cl-defgeneric gemini-companion-run--exec (terminal program arguments environment)
  "Run PROGRAM with ARGUMENTS in ENVIRONMENT by the emulator TERMINAL.
It runs in the current buffer, which the selected window shows.")

;; A shell tells its emulator by escape sequences where it is, or which file to visit.  A CLI does not,
;; but prints what others have written, and may run on a host.  So our terminals ignore these: a remote
;; name would make Emacs log in somewhere and wait, and a file that is visited runs hooks.  To remove
;; them from the output is not enough, since what is left may be one again; and the emulators have
;; options for a part only.  Eat makes a name absolute, by Tramp, before it looks at its option.

(defconst gemini-companion-run--trackers
  (list 'term-command-hook 'term-handle-ansi-terminal-messages
        'vterm--eval 'vterm--set-directory
        'eat--handle-uic 'eat--t-set-cwd
        'ghostel--osc52-eval 'ghostel--update-directory)
  "Functions that do what a shell asks its emulator for by escape sequences.")

(cl-defmethod gemini-companion-run--exec :before (terminal _program _arguments _environment)
  "Load TERMINAL, and let it track nothing in buffers of this package."
  (require terminal)
  (dolist (function gemini-companion-run--trackers)
    (when (fboundp function)
      (advice-add function :before-while #'gemini-companion-run--not-ours-p))))

(add-hook 'gemini-companion-mode-off-hook #'gemini-companion-run--forget-trackers)

(defun gemini-companion-run--forget-trackers ()
  "Advise the emulators no longer, once the mode is off and no terminal is left."
  (unless (or (bound-and-true-p gemini-companion-mode)
              (seq-some (pcase-lambda (`(,buffer . ,_))
                          (and (not (eq buffer (current-buffer)))
                               (buffer-local-value 'gemini-companion-run-root buffer)))
                        (gemini-companion-run-terminals)))
    (dolist (function gemini-companion-run--trackers)
      (advice-remove function #'gemini-companion-run--not-ours-p))))

(defun gemini-companion-run--not-ours-p (&rest _)
  "Return nil if the current buffer is a terminal of this package."
  (not gemini-companion-run-root))

;; ENVIRONMENT is bound in the terminal's buffer, and as late as possible: a hook of a major mode, like
;; the one of envrc, may make the variable local, and then only the local binding counts.

(cl-defmethod gemini-companion-run--exec ((_ (eql 'term)) program arguments environment)
  "Run PROGRAM with ARGUMENTS in ENVIRONMENT by Term."
  (term-mode)
  (let ((process-environment
         (append (gemini-companion-run--terminal-variables 'term environment) environment)))
    (term-exec (current-buffer) (buffer-name) program nil arguments))
  (let ((correct (gemini-companion-run--term-output)))
    (set-process-filter (get-buffer-process (current-buffer))
                        (lambda (process output)
                          (term-emulate-terminal process (funcall correct output)))))
  (term-char-mode))

(cl-defmethod gemini-companion-run--exec ((_ (eql 'eat)) program arguments environment)
  "Run PROGRAM with ARGUMENTS in ENVIRONMENT by Eat."
  (eat-mode)
  (let ((process-environment
         (append (gemini-companion-run--terminal-variables 'eat environment) environment)))
    (eat-exec (current-buffer) (buffer-name) program nil arguments))
  (add-function :filter-args (process-filter (get-buffer-process (current-buffer)))
                (gemini-companion-run--answer-background)))

(cl-defmethod gemini-companion-run--exec ((_ (eql 'vterm)) program arguments environment)
  "Run PROGRAM with ARGUMENTS in ENVIRONMENT by vterm."
  (let ((process-environment
         (append (gemini-companion-run--terminal-variables 'vterm environment) environment))
        (vterm-shell (mapconcat #'shell-quote-argument (cons program arguments) " "))
        ;; The default is 80, and what does not fit in the window cannot be seen.
        (vterm-min-window-width gemini-companion-run--min-width))
    (vterm-mode))
  (setq-local vterm-min-window-width gemini-companion-run--min-width
              ;; The last output is worth reading.
              vterm-kill-buffer-on-exit nil)
  (let ((process (get-buffer-process (current-buffer))))
    (add-function :before (process-filter process) (gemini-companion-run--fit-once))
    (add-function :filter-args (process-filter process)
                  (gemini-companion-run--answer-background))
    (add-function :around (process-sentinel process) #'gemini-companion-run--call-in-buffer)))

(defun gemini-companion-run--call-in-buffer (sentinel process event)
  "Call SENTINEL with PROCESS and EVENT in the buffer of PROCESS.
That of vterm looks up `vterm-kill-buffer-on-exit' in the current buffer."
  (let ((buffer (process-buffer process)))
    (with-current-buffer (if (buffer-live-p buffer) buffer (current-buffer))
      (funcall sentinel process event))))

(cl-defmethod gemini-companion-run--exec ((_ (eql 'ghostel)) program arguments environment)
  "Run PROGRAM with ARGUMENTS in ENVIRONMENT by Ghostel."
  (let ((process-environment environment)
        ;; Else the program does not read what is sent to the buffer's process.
        (ghostel-use-native-pty nil))
    (ghostel-exec (current-buffer) program arguments))
  (setq-local ghostel-kill-buffer-on-exit nil
              ;; Emacs asks already.
              ghostel-query-before-killing nil))

;;;; What the emulators lack

(defun gemini-companion-run--terminal-variables (terminal environment)
  "Return what to add to ENVIRONMENT for programs in the emulator TERMINAL."
  (pcase terminal
    ('term (gemini-companion-run--term-variables environment))
    ((or 'eat 'vterm) (gemini-companion-run--color-variables environment))))

(defun gemini-companion-run--term-variables (environment)
  "Return what to add to ENVIRONMENT so that text is readable in Term.
Term does not tell programs its background color, so they choose colors for
a dark background.  On a light one, ask them to use none."
  (cons
   ;; A value that is there already is about the terminal around this Emacs.
   (if (< emacs-major-version 29) "COLORTERM" "COLORTERM=truecolor")
   (unless (or (eq (frame-parameter nil 'background-mode) 'dark)
               (getenv-internal "NO_COLOR" environment)
               (getenv-internal "FORCE_COLOR" environment))
     '("NO_COLOR=1"))))

(defun gemini-companion-run--color-variables (environment)
  "Return what to add to ENVIRONMENT so that programs use all available colors.
Not all programs conclude that from the value of TERM in Eat and vterm."
  (and (> (display-color-cells) 256)
       (not (getenv-internal "COLORTERM" environment))
       '("COLORTERM=truecolor")))

(defun gemini-companion-run--hold-back (regexp)
  "Return a function that returns its argument without an incomplete end.
That is what REGEXP matches.  The next call adds it in front of its
argument."
  (let ((rest ""))
    (lambda (output)
      (let* ((output (concat rest output))
             (end (or (string-match regexp output) (length output))))
        (setq rest (substring output end))
        (substring output 0 end)))))

(defconst gemini-companion-run--incomplete
  (concat "\\(?:\e\\(?:][^\a\e]\\{,1000\\}\e?\\|\\[2?\\)?"
          "\\|[\300-\337]\\|[\340-\357][\200-\277]?\\|[\360-\367][\200-\277]\\{,2\\}\\)\\'")
  "Regexp for an incomplete escape sequence, or character, at the end of output.")

(defun gemini-companion-run--term-output ()
  "Return a function that returns its argument without what Term gets wrong.
Term shows window titles as text, erases only the end of a line that is to
be erased, and shows the bytes of a character that arrives in parts.
Call the function with all output of a program in order, as bytes."
  (let ((complete (gemini-companion-run--hold-back gemini-companion-run--incomplete)))
    (lambda (output)
      (string-replace "\e[2K" "\e[1K\e[K"
                      (replace-regexp-in-string "\e][^\a\e]*\\(?:\a\\|\e\\\\\\)" ""
                                                (funcall complete output) t t)))))

(defun gemini-companion-run--fit-once ()
  "Return a filter that makes a terminal as large as its windows, once.
Emacs does so when windows change, but on a text terminal, vterm starts
with one column too many."
  (let ((done nil))
    (lambda (process _text)
      (unless done
        (setq done t)
        (gemini-companion-log-errors "The size of a terminal"
          ;; vterm's module needs the variables of that buffer.
          (with-current-buffer (process-buffer process)
            (when-let* ((windows (get-buffer-window-list nil nil t))
                        (adjust (process-get process 'adjust-window-size-function))
                        (size (funcall adjust process windows)))
              (set-process-window-size process (cdr size) (car size)))))))))

(defun gemini-companion-run--answer-background ()
  "Return a function that answers queries for the background color.
It is for the arguments of a process filter, and removes the queries from
the output.  vterm does not answer them, and Eat answers wrongly on a text
terminal, which makes programs choose colors for a dark background."
  (let ((complete
         (gemini-companion-run--hold-back
          "\e\\(?:]\\(?:1\\(?:1\\(?:;\\(?:\\?\e?\\)?\\)?\\)?\\)?\\)?\\'")))
    (pcase-lambda (`(,process ,output))
      (let* ((output (funcall complete output))
             (rest (replace-regexp-in-string "\e]11;\\?\\(?:\a\\|\e\\\\\\)" "" output t t)))
        (unless (equal rest output)
          (gemini-companion-log-errors "The color of the background"
            (process-send-string process (gemini-companion-run--background-report))))
        (list process rest)))))

(defun gemini-companion-run--background-report ()
  "Return the answer of a terminal to a query for its background color."
  (let ((color (or (color-values (face-background 'default nil 'default))
                   ;; Emacs uses the background of the terminal around it.
                   (if (eq (frame-parameter nil 'background-mode) 'dark)
                       '(0 0 0)
                     '(#xffff #xffff #xffff)))))
    (concat "\e]11;rgb:"
            ;; Gemini CLI in a terminal that was started in tmux does not believe pure white.
            (mapconcat (lambda (value) (format "%04x" (min value #xfefe))) color "/")
            "\e\\")))

(provide 'gemini-companion-run)
;;; gemini-companion-run.el ends here

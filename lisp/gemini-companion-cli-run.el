;;; gemini-companion-cli-run.el --- Run the CLI in a terminal -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Runs the CLI of a project in whichever terminal emulator is installed, and finds it again.

;;; Code:

(require 'cl-lib)
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-cli)
(require 'gemini-companion-cli-search)
(require 'gemini-companion-cli-terminals)
(require 'gemini-companion-host)
(require 'gemini-companion-host-command)
(require 'gemini-companion-host-connect)
(require 'gemini-companion-host-connection)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-setup)
(require 'gemini-companion-tool-extension)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function gemini-companion-turn-on "gemini-companion")

;;;; Options

;;;###autoload (custom-add-load 'gemini-companion-terminal 'gemini-companion-cli-run)
(defcustom gemini-companion-agent 'gemini
  "Name of the program that `gemini-companion-run' runs.
The names are as in `gemini-companion-agent-profiles'."
  :type `(choice ,@(gemini-companion-agent-choices) symbol)
  :group 'gemini-companion-terminal
  :risky t)

(defcustom gemini-companion-program nil
  "Program of `gemini-companion-agent', a name or an absolute file name.
If nil, use the usual program.  On other machines, always use the usual
program that a login shell finds."
  :type '(choice (const :tag "The usual one" nil)
                 string)
  :group 'gemini-companion-terminal
  :risky t)

(defcustom gemini-companion-arguments nil
  "Arguments for the program of `gemini-companion-agent', on any machine."
  :type '(repeat string)
  :group 'gemini-companion-terminal
  :risky t)

(defcustom gemini-companion-run-display-action
  '((display-buffer-reuse-window gemini-companion-cli-run-display-in-side-window))
  "Display action for the terminal of `gemini-companion-run'.
By default, it is on the right if that leaves it and the rest of the frame
wide enough, and otherwise at the bottom.  See `display-buffer' for the
possible values."
  :type display-buffer--action-custom-type
  :group 'gemini-companion-terminal
  :risky t)

;;;; State

(defvar-local gemini-companion-cli-run-root nil
  "Directory of the project whose CLI runs in this buffer.")
(put 'gemini-companion-cli-run-root 'permanent-local t)

(defun gemini-companion-cli-run--roots ()
  "Return the directories in which the user has this package run CLIs."
  (cl-loop for buffer in (buffer-list)
           for root = (buffer-local-value 'gemini-companion-cli-run-root buffer)
           if (and root (process-live-p (get-buffer-process buffer))) collect root))

(add-hook 'gemini-companion-workspace-functions #'gemini-companion-cli-run--roots)

(defvar-local gemini-companion-cli-run-agent nil
  "Agent that runs in this buffer, if `gemini-companion-run' created it.")
(put 'gemini-companion-cli-run-agent 'permanent-local t)

(defvar gemini-companion-cli-run-environment-functions nil
  "Functions called with an agent that is to run.
On a host, their second argument is the connection to it.  They return what to
add to the agent's environment, as in `process-environment'.")

(defvar-local gemini-companion-cli-run--name nil
  "What programs of a CLI call the terminal in this buffer.")
(put 'gemini-companion-cli-run--name 'permanent-local t)

;;;; Commands

;;;###autoload
(defun gemini-companion-run (&optional another)
  "Run Gemini CLI in a terminal, in the current project.
If it is already running, show its terminal; in that terminal, hide it.
With ANOTHER, interactively the prefix argument, run another one; with two
prefix arguments, resume an earlier session, like \\[gemini-companion-resume].
To run another program, customize `gemini-companion-agent'; in the terminal
of another one, this command is about that one.

If the project is on another machine or in a container, run the CLI there,
in a terminal here that logs in there, for example with ssh or docker exec.
This first connects to that machine, like \\[gemini-companion-connect]."
  (interactive "P")
  (if (equal another '(16))
      (gemini-companion-resume)
    (gemini-companion-cli-run--toggle (gemini-companion-cli-run--agent) another)))

;;;###autoload
(defun gemini-companion-run-other (agent)
  "Run AGENT, one of `gemini-companion-agents', in the current project.
If it is already running, show its terminal; in that terminal, hide it."
  (interactive (let ((names (gemini-companion-agent-served)))
                 (list (intern (completing-read (format-prompt "Run" (car names)) names
                                                nil t nil nil (symbol-name (car names)))))))
  (gemini-companion-cli-run--toggle agent))

;;;###autoload
(defun gemini-companion-resume ()
  "Run Gemini CLI in an earlier session of the current project.
Emacs asks for the session as soon as the CLI has listed its sessions,
which can take some seconds.  If one of the CLIs here is in that session,
show its terminal.  Qwen Code asks you in its own terminal."
  (interactive)
  (gemini-companion-cli-run-resume (gemini-companion-cli-run--agent)
                                   (gemini-companion-cli-run-project)))

(defun gemini-companion-cli-run--agent ()
  "Return the agent of the CLI in this buffer, or else the preferred one."
  (or (gemini-companion-cli-run-agent-in (current-buffer)) gemini-companion-agent))

(defun gemini-companion-cli-run--toggle (agent &optional another)
  "Show or hide the terminal of AGENT in the current project.
If AGENT does not run there, or if ANOTHER is non-nil, run it."
  (let* ((root (gemini-companion-cli-run-project))
         (buffer (and (not another) (gemini-companion-cli-run-buffer root agent))))
    (cond ((null buffer) (gemini-companion-cli-run--start agent root))
          ((not (eq (window-buffer) buffer)) (gemini-companion-cli-run-show buffer))
          ((window-parameter nil 'window-side) (delete-window))
          (t (quit-window)))))

(defun gemini-companion-cli-run-show (buffer)
  "Show the terminal BUFFER and select its window, which may be in another frame."
  ;; Otherwise the CLI would stay as small as the invisible frame of a daemon.
  (when (gemini-companion-ui-seen-p)
    (let ((window (gemini-companion-ui-window-of buffer)))
      (pop-to-buffer buffer
                     (if window
                         `(display-buffer-reuse-window (reusable-frames . ,(window-frame window)))
                       gemini-companion-run-display-action)))))

(defun gemini-companion-cli-run-display-in-side-window (buffer alist)
  "Display BUFFER in a side window: on the right, or at the bottom.
ALIST is as in other functions for `display-buffer'."
  (let* ((width (frame-width))
         ;; What a CLI needs, for its questions, too.
         (columns (max 70 (floor (* 0.4 width))))
         (lines (max 12 (floor (* 0.45 (frame-height))))))
    (display-buffer-in-side-window
     buffer
     (append alist
             (if (>= (- width columns 1) 80)
                 ;; Otherwise `balance-windows' would give it half of the frame.
                 `((side . right) (window-width . ,columns) (preserve-size . (t . nil)))
               `((side . bottom) (window-height . ,lines)))))))

(defun gemini-companion-cli-run-project ()
  "Return the directory of the current project, or the current directory."
  (let ((other (gemini-companion-cli-run-switching-to)))
    (or (and (not other) gemini-companion-cli-run-root)
        (gemini-companion-workspace-project (or other default-directory)))))

(defun gemini-companion-cli-run-switching-to ()
  "Return the project that `project-switch-project' switches to, or nil."
  (or (bound-and-true-p project-current-directory-override)
      (with-suppressed-warnings ((obsolete project-current-inhibit-prompt)) ; Emacs 28
        (and (bound-and-true-p project-current-inhibit-prompt) default-directory))))

;;;; Finding the terminals of CLIs

(defun gemini-companion-cli-run-buffer (root &optional agent)
  "Return the terminal in which a CLI of the project in ROOT runs, or nil.
If there are several, or ROOT is a directory like the user's home, return
the most recently selected one.  If AGENT is non-nil, ignore terminals that
are known to run another agent."
  (let ((terminals (seq-filter (pcase-lambda (`(,buffer . ,_))
                                 (or (null agent)
                                     (memq (gemini-companion-cli-run-agent-in buffer)
                                           (list nil agent))))
                               (gemini-companion-cli-run-terminals))))
    (car (or (rassoc root terminals)
             ;; A container may mount the project from here.
             (seq-find (pcase-lambda (`(,_ . ,directory))
                         (equal root (gemini-companion-host-name-here directory)))
                       terminals)
             ;; From *scratch* and the like.
             (and (not (or (gemini-companion-host-remote-p root)
                           (gemini-companion-workspace-guessable-root root)))
                  (car terminals))
             ;; The user may have started one in a subdirectory, not on another machine.  One that
             ;; we started there is for a project there, unless a link makes that this project.
             (seq-find (pcase-lambda (`(,buffer . ,directory))
                         (not (or (gemini-companion-host-remote-p root)
                                  (gemini-companion-host-remote-p directory)
                                  (not (file-in-directory-p directory root))
                                  (and (buffer-local-value 'gemini-companion-cli-run-root buffer)
                                       (not (file-equal-p directory root))))))
                       terminals)))))

(defun gemini-companion-cli-run-agent-in (terminal)
  "Return the agent that is known to run in the buffer TERMINAL, or nil.
The user may have started it there."
  (or (buffer-local-value 'gemini-companion-cli-run-agent terminal)
      (when-let* ((cli (gemini-companion-cli-in-terminal terminal)))
        (gemini-companion-cli-agent cli))))

(defun gemini-companion-cli-run-terminals ()
  "Return the terminals in which a CLI runs, most recently selected first.
Each element is (BUFFER . DIRECTORY), where DIRECTORY is that of the CLI.
This includes the terminals in which the user started a client, as far as
the system knows the parents of its process."
  (cl-loop for buffer in (buffer-list)
           for directory = (gemini-companion-cli-run-directory buffer)
           when directory collect (cons buffer directory)))

(defun gemini-companion-cli-run-directory (buffer)
  "Return the directory of the CLI that runs in BUFFER, which may be dead, or nil."
  (and (buffer-live-p buffer)
       (process-live-p (get-buffer-process buffer))
       (or (buffer-local-value 'gemini-companion-cli-run-root buffer)
           (cl-loop for cli in (gemini-companion-cli-all)
                    if (and (eq buffer (gemini-companion-cli-terminal cli))
                            (gemini-companion-cli-run--reads-p (gemini-companion-cli-process cli)
                                                               buffer))
                    return (file-name-as-directory
                            (or (gemini-companion-cli-directory cli)
                                (buffer-local-value 'default-directory buffer)))))))

(defun gemini-companion-cli-run--reads-p (process buffer)
  "Return non-nil if PROCESS, an id, lives and reads in BUFFER, not suspended.
Otherwise a shell would read, and run, what is sent to its terminal."
  (let-alist (gemini-companion-agent-process process)
    (and .state
         (not (equal .state "Z"))
         ;; Without a terminal, its foreground group is -1.
         (or (null .tpgid) (eql .tpgid .pgrp)
             (and (< .tpgid 0) (not (process-tty-name (get-buffer-process buffer))))))))

(add-hook 'gemini-companion-cli-running-functions #'gemini-companion-cli-run-terminals)

(defun gemini-companion-cli-run-terminal-named (name prefix)
  "Return the terminal that programs of its CLI call NAME, or nil.
The CLI runs on the host with PREFIX, or here if that is empty."
  (seq-find (lambda (buffer)
              (let ((root (buffer-local-value 'gemini-companion-cli-run-root buffer)))
                (and root name (string-prefix-p prefix root)
                     (equal name (buffer-local-value 'gemini-companion-cli-run--name buffer)))))
            (buffer-list)))

(defun gemini-companion-cli-run-terminal-of (review)
  "Return the terminal of Emacs in which the client of REVIEW runs, or nil.
If that is not known, as may be on another machine, it is the terminal of
its agent with the innermost directory around the file."
  (let* ((process (gemini-companion-review-process review))
         (cli (gemini-companion-cli-of-process process))
         (terminal (and cli (gemini-companion-cli-terminal cli))))
    (cond ((buffer-live-p terminal) terminal)
          ((not (integerp process))
           (gemini-companion-cli-run-terminal-around
            (gemini-companion-review-path review)
            (lambda (buffer)
              (let ((cli (gemini-companion-cli-in-terminal buffer)))
                ;; If a process is known there, it is another one.
                (and (eq (buffer-local-value 'gemini-companion-cli-run-agent buffer)
                         (gemini-companion-review-agent review))
                     (not (and cli (gemini-companion-cli-process cli)))))))))))

(defun gemini-companion-cli-run-terminal-around (path test)
  "Return the terminal with the innermost directory around PATH, or nil.
The function TEST must return non-nil for it."
  (let* ((file-name-handler-alist nil)
         (path (file-truename path)))
    (cl-loop for (buffer . directory) in (gemini-companion-cli-run-terminals)
             for root = (file-name-as-directory
                         (file-truename (gemini-companion-host-name-here directory)))
             if (and (string-prefix-p root path) (funcall test buffer))
             collect (cons (length root) buffer) into found
             finally return (cdar (seq-sort-by #'car #'> found))))) ; the longest

;;;; Starting a CLI

(defun gemini-companion-cli-run--start (agent root &optional options)
  "Run AGENT with OPTIONS and its usual arguments in ROOT, which may be remote."
  (funcall (if (gemini-companion-host-remote-p root)
               #'gemini-companion-cli-run--start-on-host
             #'gemini-companion-cli-run--start-here)
           agent root
           (append options (and (eq agent gemini-companion-agent) gemini-companion-arguments))))

(defun gemini-companion-cli-run--start-here (agent root arguments)
  "Run AGENT with ARGUMENTS in the project in ROOT, here, in a new terminal."
  (let ((program (gemini-companion-cli-run--find-program agent)))
    (gemini-companion-cli-run--turn-on)
    (gemini-companion-cli-terminals-offer)
    (let ((default-directory root))
      (gemini-companion-setup-before-run agent))
    (gemini-companion-cli-run--announce agent root) ; last, since what it says matters more
    (let* ((terminal (gemini-companion-cli-terminals-choose))
           ;; These may be local to this buffer, which may be a dead terminal.
           (environment
            (append (mapcan (lambda (function) (funcall function agent))
                            gemini-companion-cli-run-environment-functions)
                    (gemini-companion-cli-run--environment agent root)))
           (own-environment (local-variable-p 'process-environment))
           (own-path (and (local-variable-p 'exec-path) (list exec-path)))
           (sandbox (gemini-companion-cli-search-sandbox-p agent root arguments environment))
           (buffer (gemini-companion-cli-run--create-buffer agent root))
           (start (lambda (fault)
                    (gemini-companion-cli-run--start-in
                     buffer
                     (lambda ()
                       (if fault (gemini-companion-ui-message buffer "%s" fault)
                         (when sandbox
                           (setq environment (gemini-companion-host-connect-sandbox-environment
                                              buffer agent environment))))
                       (gemini-companion-cli-run--exec
                        terminal program arguments
                        (cons (gemini-companion-cli-run--name-entry) environment))
                       ;; A CLI that is run from the terminal gets the same environment.
                       (when own-environment (setq-local process-environment environment))
                       (when own-path (setq-local exec-path (car own-path))))))))
      (gemini-companion-cli-run-show buffer)
      (if (not sandbox) (funcall start nil)
        (gemini-companion-cli-run--start-in
         buffer
         (lambda ()
           (insert "Connecting the sandbox...\n")
           (gemini-companion-host-connection-when-ready
            (gemini-companion-host-connect-sandbox buffer root) start)))))))

(defun gemini-companion-cli-run--exec (terminal program arguments environment)
  "Run PROGRAM with ARGUMENTS and ENVIRONMENT by TERMINAL in the current buffer."
  (gemini-companion-cli-terminals-start terminal program arguments environment)
  (let ((process (get-buffer-process (current-buffer))))
    ;; Otherwise the terminal would seem to be one whose CLI has ended.
    (unless process
      (error "The terminal %s runs no process in its buffer: see `gemini-companion-cli-terminals'"
             terminal))
    (gemini-companion-cli-note-start (current-buffer) gemini-companion-cli-run-agent
                                     gemini-companion-cli-run-root)
    (gemini-companion-ui-pass-keys)
    (gemini-companion-log-run-hook 'gemini-companion-cli-run-functions (current-buffer))
    (gemini-companion-ui-omit-line-numbers)
    ;; Some emulators clear this flag, but the CLI may be at work.
    (set-process-query-on-exit-flag process t)))

(defun gemini-companion-cli-run--name-entry ()
  "Return the entry of an environment that names the terminal in this buffer."
  (concat "GEMINI_COMPANION_TERMINAL=" gemini-companion-cli-run--name))

(defvar gemini-companion-cli-run-functions nil
  "Functions called with the buffer of a terminal in which a CLI was started.")

(defun gemini-companion-cli-run-program (agent)
  "Return the program of AGENT, a name or an absolute file name."
  (let ((usual (or (gemini-companion-agent-get agent :program)
                   (user-error "No program is called %S; see `gemini-companion-agent-profiles'"
                               agent))))
    (or (and (eq agent gemini-companion-agent) gemini-companion-program) usual)))

(defun gemini-companion-cli-run--find-program (agent)
  "Return the file name of the program of AGENT."
  (let ((program (gemini-companion-cli-run-program agent)))
    (or (executable-find program)
        (user-error "Cannot find `%s' in `exec-path': install it with  %s  or set %s to its \
file name"
                    program (gemini-companion-agent-get agent :install)
                    (gemini-companion-cli-run-program-option agent)))))

(defun gemini-companion-cli-run-program-option (agent)
  "Return what names the program of AGENT, for the user."
  (if (eq agent gemini-companion-agent) "`gemini-companion-program'"
    ":program in `gemini-companion-agent-profiles'"))

(defun gemini-companion-cli-run--turn-on ()
  "Turn the mode on, or signal a `user-error'."
  (gemini-companion-turn-on)
  (unless (gemini-companion-bridge-running-p)
    ;; The user may just have chosen to build the native module.
    (user-error "The CLI was not started, since Gemini companion is off; M-x gemini-companion-mode \
turns it on, and M-x gemini-companion-install-module gets the native module that it needs")))

(defun gemini-companion-cli-run--announce (agent root)
  "Let a client of AGENT that starts in ROOT find this Emacs, or say if it cannot.
A client looks for it only when it starts."
  (unless (seq-some (lambda (file)
                      (member (directory-file-name (file-name-directory file))
                              (gemini-companion-agent-directories agent)))
                    (gemini-companion-bridge-discovery-files))
    (message "%s will not find this Emacs: %s" (gemini-companion-agent-get agent :title)
             (or (gemini-companion-bridge-discovery-fault)
                 "once this program has created its directory, turn `gemini-companion-mode' off \
and on; see also `gemini-companion-agents'")))
  (gemini-companion-workspace-announce root))

(defun gemini-companion-cli-run--create-buffer (agent root)
  "Return a new buffer for a terminal of AGENT in the project in ROOT.
Kill those in which AGENT has ended."
  (dolist (buffer (buffer-list))
    (when (and (equal (buffer-local-value 'gemini-companion-cli-run-root buffer) root)
               (eq (buffer-local-value 'gemini-companion-cli-run-agent buffer) agent)
               (not (process-live-p (get-buffer-process buffer))))
      (kill-buffer buffer)))
  (with-current-buffer (generate-new-buffer (gemini-companion-cli-run--title agent root))
    ;; The program to start is on this machine.
    (setq default-directory (if (gemini-companion-host-remote-p root)
                                gemini-companion-agent-neutral-directory
                              root)
          gemini-companion-cli-run-root root
          gemini-companion-cli-run-agent agent
          gemini-companion-cli-run--name (format "%x" (random most-positive-fixnum)))
    (current-buffer)))

(defun gemini-companion-cli-run--title (agent root)
  "Return the name of a terminal of AGENT for the project in ROOT."
  (let ((host (and (gemini-companion-host-remote-p root) (file-remote-p root 'host)))
        (name (directory-file-name (file-local-name root))))
    (format "*%s: %s%s*" agent (if host (concat host ":") "")
            (gemini-companion-workspace-title name name))))

;;;; Starting a CLI on another machine

(defun gemini-companion-cli-run--connect (agent root)
  "Return a connection for AGENT to the host of ROOT, which need not be ready."
  (unless (gemini-companion-agent-get agent :stdio)
    (user-error "%s cannot connect from another machine"
                (or (gemini-companion-agent-get agent :title) agent)))
  (gemini-companion-host-connect-to root))

(defun gemini-companion-cli-run--start-on-host (agent root arguments)
  "Run AGENT with ARGUMENTS in ROOT, a remote name, once its host is connected.
Show the terminal at once, so that the user sees where it will be."
  (let* ((connection (gemini-companion-cli-run--connect agent root))
         (_ (gemini-companion-cli-terminals-offer))
         (agreed (gemini-companion-setup-ask-host connection agent))
         (tools (gemini-companion-tool-extension-ask-host connection))
         (terminal (gemini-companion-cli-terminals-choose))
         (environment (gemini-companion-host-command-environment process-environment))
         (buffer (gemini-companion-cli-run--create-buffer agent root))
         (start (lambda (fault)
                  (gemini-companion-cli-run--start-in
                   buffer
                   (lambda ()
                     (when fault (error "%s" fault))
                     (pcase-let ((`(,program . ,words)
                                  (gemini-companion-cli-run--command-on-host
                                   connection terminal environment arguments)))
                       (gemini-companion-cli-run--exec terminal program words environment)
                       (setq default-directory root)))))))
    (with-current-buffer buffer
      (insert (format "Connecting to %s...\n" (gemini-companion-host-connection-name connection))))
    (gemini-companion-cli-run-show buffer)
    (gemini-companion-host-connection-when-ready
     connection
     (lambda (fault)
       (if (not fault)
           (gemini-companion-setup-change-host
            connection agent agreed
            (lambda ()
              (if (not tools) (funcall start nil)
                (gemini-companion-tool-extension-change-all connection 'enable
                                                            (lambda (_) (funcall start nil))))))
         (when tools
           (gemini-companion-tool-extension-forget-host connection))
         (funcall start fault))))))

(defun gemini-companion-cli-run--start-in (buffer exec)
  "Empty BUFFER, and call EXEC there, a step in starting a CLI.
If that fails, show why, and kill BUFFER."
  (when (buffer-live-p buffer)
    (condition-case error
        ;; The size of the terminal is that of its window.
        (with-selected-window (or (get-buffer-window buffer t) (selected-window))
          (with-current-buffer buffer
            (erase-buffer)
            (funcall exec)))
      (error
       (when-let* ((process (get-buffer-process buffer)))
         (delete-process process))
       (gemini-companion-ui-kill-buffer buffer)
       (gemini-companion-ui-message buffer "%s" (gemini-companion-ui-error-text error))))))

(defun gemini-companion-cli-run--command-on-host (connection terminal environment arguments)
  "Return a list of what runs the CLI of this buffer with ARGUMENTS by CONNECTION.
TERMINAL is the emulator, ENVIRONMENT that of the program that leads there."
  (let* ((agent gemini-companion-cli-run-agent)
         ;; Of the CLI's own variables, only that for the process is known and needed there: it
         ;; names the keeper.
         (process (gemini-companion-agent-variable agent 'process)))
    (gemini-companion-cli-run--hang-up
     connection
     (gemini-companion-cli-run--on-host
      connection gemini-companion-cli-run-root
      `("env"
        ,(gemini-companion-cli-run--name-entry)
        ,@(mapcan (lambda (function) (funcall function agent connection))
                  gemini-companion-cli-run-environment-functions)
        ,@(and process
               (list (format "%s=%d" process (gemini-companion-host-connection-keeper connection))))
        ,@(seq-filter (lambda (entry) (string-search "=" entry))
                      (gemini-companion-cli-terminals-variables terminal environment))
        ,(gemini-companion-agent-get agent :program)
        ,@arguments)
      t))))

(defun gemini-companion-cli-run--on-host (connection root words &optional terminal)
  "Return a list of a program and its arguments that run WORDS by CONNECTION.
They run in ROOT, a remote name, and if TERMINAL is non-nil, in a terminal."
  (gemini-companion-host-connection-command
   connection
   (format "cd %s && exec %s"
           (gemini-companion-host-command-quote (directory-file-name (file-local-name root)))
           (mapconcat #'gemini-companion-host-command-quote words " "))
   terminal))

;; A container does not notice that a terminal here is gone: a CLI would go on there, connected to
;; Emacs, where nobody sees it.

(defun gemini-companion-cli-run--hang-up (connection command)
  "Return COMMAND, a list of words that runs the CLI of this buffer.
If CONNECTION leads to a container, have the CLI end with the terminal."
  (if (not (gemini-companion-host-command-container-p
            (gemini-companion-host-connection-hops connection)))
      command
    `("sh" "-c"
      ;; The terminal's second SIGHUP must not end this.
      ,(format "end() { trap '' HUP; %s; } </dev/null >/dev/null 2>&1; trap end HUP; \"$@\"; exit"
               (mapconcat
                #'shell-quote-argument
                (gemini-companion-host-connection-command
                 connection
                 (concat "exec sh -c "
                         (gemini-companion-host-command-quote
                          (format "for p in /proc/[0-9]*; do \
tr '\\0' '\\n' <$p/environ | grep -qx %s && kill -HUP ${p#/proc/}; done"
                                  (gemini-companion-cli-run--name-entry)))))
                " "))
      "sh" ,@command)))

;;;; Earlier sessions

;; A CLI keeps its conversations, the sessions of a project.  To list them takes seconds, and a
;; minute if it cannot reach its model, which names the last session.  So Emacs does not wait for
;; the list, and asks once the user is not busy.

(defun gemini-companion-cli-run-resume (agent root)
  "Run AGENT in an earlier session of the project in ROOT that the user chooses."
  (pcase (gemini-companion-agent-get agent :resume)
    (`(,option) (gemini-companion-cli-run--start agent root (list option)))
    (`(,_ ,list)
     (if (not (gemini-companion-host-remote-p root))
         (gemini-companion-cli-run--choose
          agent root (list (gemini-companion-cli-run--find-program agent) list))
       (let ((connection (gemini-companion-cli-run--connect agent root)))
         (gemini-companion-host-connection-when-ready
          connection
          (lambda (fault)
            (if fault (gemini-companion-ui-message connection "%s" fault)
              (gemini-companion-cli-run--choose
               agent root
               (gemini-companion-cli-run--on-host
                connection root (list (gemini-companion-agent-get agent :program) list)))))))))
    (_ (user-error "%s has no known option that resumes a session"
                   (gemini-companion-agent-get agent :title)))))

(defun gemini-companion-cli-run--choose (agent root command)
  "Resume a session of AGENT in ROOT that the user chooses from those of COMMAND."
  (let* ((remote (gemini-companion-host-remote-p root))
         (buffer (current-buffer))
         (process-environment (if remote
                                  (gemini-companion-host-command-environment process-environment)
                                (gemini-companion-cli-run--environment agent root))))
    (gemini-companion-agent-run
     command
     (lambda (process output)
       (if-let* ((sessions (gemini-companion-cli-run--parse-sessions output)))
           (gemini-companion-log-when-free
            "choosing a session"
            (lambda ()
              (gemini-companion-cli-run--resume-session
               agent root (gemini-companion-cli-run--ask-session agent sessions) buffer)))
         (gemini-companion-ui-message
          'sessions "%s" (gemini-companion-cli-run--no-session agent process output))))
     (unless remote root))
    (message "Asking %s for its sessions; this may take some seconds..."
             (gemini-companion-agent-get agent :title))))

(defun gemini-companion-cli-run--resume-session (agent root id buffer)
  "Show the terminal of the session with ID, or run AGENT in ROOT to resume it.
The environment of the project may be local to BUFFER."
  (if-let* ((cli (seq-find (lambda (cli)
                             (and (equal id (gemini-companion-cli-session cli))
                                  (process-live-p
                                   (get-buffer-process (gemini-companion-cli-terminal cli)))))
                           (gemini-companion-cli-all))))
      (gemini-companion-cli-run-show (gemini-companion-cli-terminal cli))
    (with-current-buffer (if (buffer-live-p buffer) buffer (current-buffer))
      (gemini-companion-cli-run--start
       agent root (list (car (gemini-companion-agent-get agent :resume)) id)))))

(defun gemini-companion-cli-run--no-session (agent process output)
  "Return why PROCESS, of AGENT, has listed no session in OUTPUT."
  (if (eql 0 (process-exit-status process)) "This project has no earlier session"
    (format "%s lists no sessions: %s" (gemini-companion-agent-get agent :title)
            (gemini-companion-ui-one-line
             (or (car (last (split-string output "\n" t "[ \t\r]+"))) "")))))

(defun gemini-companion-cli-run--parse-sessions (output)
  "Return the sessions that OUTPUT of a CLI lists, the newest first.
Each is (NAME AGE ID), where all are text and no NAME occurs twice."
  (let ((sessions nil))
    (dolist (line (split-string output "\r?\n"))
      ;; "  3. Fix the parser (2 days ago) [032443f8-bbc7-41cf-b3da-b9e70686f710]"
      (when (string-match (rx bos (+ " ") (+ digit) ". " (group (* nonl))
                              " (" (group (* (not "("))) ") "
                              "[" (group alnum (* (any alnum "-"))) "]" eos)
                          line)
        (let ((name (gemini-companion-ui-one-line (match-string 1 line)))
              (age (gemini-companion-ui-one-line (match-string 2 line)))
              (id (match-string 3 line)))
          (push (list (if (assoc name sessions) (format "%s [%s]" name id) name) age id)
                sessions))))
    sessions))

(defun gemini-companion-cli-run--ask-session (agent sessions)
  "Return the id of the one of SESSIONS, of AGENT, that the user chooses."
  (let* ((completion-ignore-case t)
         (annotate (lambda (name) (concat "  " (nth 1 (assoc name sessions)))))
         (table (gemini-companion-ui-completion-table
                 sessions `((display-sort-function . identity)
                            (cycle-sort-function . identity)
                            (annotation-function . ,annotate))))
         (name (completing-read (format-prompt "Session of %s to resume" (caar sessions)
                                               (gemini-companion-agent-get agent :title))
                                table nil t nil nil (caar sessions))))
    (nth 2 (assoc name sessions))))

;;;; The environment of a CLI

(defun gemini-companion-cli-run--environment (agent root)
  "Return the environment of AGENT in ROOT: that of the current buffer, and more."
  ;; A buffer-local environment, from direnv for example, may lack what was added elsewhere.
  (let ((process-environment (append gemini-companion-agent-added process-environment nil)))
    ;; It may also have another temporary directory, as with "nix develop".
    (unless (or (not (eq 'temporary (car (gemini-companion-agent-get agent :directory))))
                (member (gemini-companion-agent-directory agent process-environment)
                        (gemini-companion-agent-directories agent)))
      (setenv "TMPDIR" (gemini-companion-agent-temporary-directory
                        (default-toplevel-value 'process-environment))))
    ;; Node.js is usually beside the program; the PATH of Emacs may be short, or have an old one.
    (when-let* ((program (executable-find (gemini-companion-cli-run-program agent)))
                (directory (directory-file-name (file-name-directory program)))
                ;; An empty name would be the current directory.
                (path (split-string (or (getenv "PATH") "") path-separator)))
      (unless (member directory path)
        (setenv "PATH" (string-join (cons directory (remove "" path)) path-separator))))
    (when-let* ((name (gemini-companion-agent-get agent :workspace)))
      (setenv name (gemini-companion-agent-join-roots (list (directory-file-name root)))))
    ;; Some programs read only one of these, or the one rather than the other.
    (let ((here "localhost,127.0.0.1")
          (either (or (getenv "no_proxy") (getenv "NO_PROXY") "")))
      (dolist (name '("NO_PROXY" "no_proxy"))
        (let ((hosts (or (getenv name) either)))
          (unless (equal hosts "*")
            (setenv name (cond ((string-search here hosts) hosts)
                               ((string-empty-p hosts) here)
                               (t (concat hosts "," here))))))))
    process-environment))

(provide 'gemini-companion-cli-run)
;;; gemini-companion-cli-run.el ends here

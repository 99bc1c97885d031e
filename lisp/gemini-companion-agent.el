;;; gemini-companion-agent.el --- The programs that are served -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Gemini CLI has forks, which speak the same protocol and differ in how they find an editor.  Each
;; is a row of a table here.

;;; Code:

(eval-when-compile (require 'cl-lib))

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
     :takes-edits t)
    (qwen
     :title "Qwen Code"
     :program "qwen"
     :install "npm install -g @qwen-code/qwen-code"
     :place (home "QWEN_HOME" "~/.qwen" "ide")
     :file "PORT.lock"
     :tells-process t
     :variables (("QWEN_CODE_IDE_SERVER_PORT" . port))
     :workspace "QWEN_CODE_IDE_WORKSPACE_PATH"
     :takes-edits nil))
  "The programs that can be served, an alist of names and property lists.

`:title' is what the user calls it, `:program' its program, and `:install'
the command that installs that.  `:place' says where it looks for a
discovery file: (temporary DIRECTORY) is below each temporary directory,
\(home VARIABLE DEFAULT DIRECTORY) below a home of its own, in which it is
announced only if that is there.  `:file' is the name of that file, with
PID and PORT for numbers; `:tells-process' whether it names the process
of Emacs in a member, too.

`:variables' are what the processes that Emacs starts find in their
environment, with `port', `process' or `token' for the value; `:workspace'
is the variable that adds folders to its own workspace.  `:takes-edits'
says whether its own \"yes\" takes the user's changes of the proposal
along.")

(defcustom gemini-companion-agents '(gemini qwen)
  "The programs that are served, names in `gemini-companion-agent-profiles'.
Takes effect when `gemini-companion-mode' is next switched on."
  :type '(set (const :tag "Gemini CLI" gemini)
              (const :tag "Qwen Code" qwen))
  :group 'gemini-companion
  :risky t)

(defun gemini-companion-agent-get (agent property)
  "Return PROPERTY of AGENT, a name, as in `gemini-companion-agent-profiles'."
  (plist-get (alist-get agent gemini-companion-agent-profiles) property))

(defun gemini-companion-agent-served ()
  "Return the names of the programs that are served."
  (cl-loop for agent in gemini-companion-agents
           if (assq agent gemini-companion-agent-profiles) collect agent))

(provide 'gemini-companion-agent)
;;; gemini-companion-agent.el ends here

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
     :settings ("GEMINI_CLI_HOME" "~" ".gemini/settings.json")
     :takes-edits t
     :thrifty (("streamable-http-client" "0.45.2" "0.61.0")))
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
`:thrifty'       clients that need not be told the text of an accept if it
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

(defun gemini-companion-agent-thrifty-p (agent name version)
  "Return non-nil if a client was tried that needs no text which it has proposed.
It is of AGENT, and says that it is NAME, of VERSION.  Only releases are
known: what comes before one may be made otherwise."
  (and (string-match-p "\\`[0-9]+\\(?:\\.[0-9]+\\)*\\'" version)
       (cl-loop for (known first last) in (gemini-companion-agent-get agent :thrifty)
                thereis (and (equal name known)
                             (version<= first version)
                             (version<= version last)))))

(defun gemini-companion-agent-served ()
  "Return the names of the programs that are served."
  (cl-loop for agent in gemini-companion-agents
           if (assq agent gemini-companion-agent-profiles) collect agent))

(provide 'gemini-companion-agent)
;;; gemini-companion-agent.el ends here

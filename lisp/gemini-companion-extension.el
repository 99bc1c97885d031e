;;; gemini-companion-extension.el --- Tools of Emacs for the models of CLIs -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A CLI offers tools to its model if an extension says how to call them.  An extension is a
;; directory in the CLI's own: a manifest, a program for Node that passes calls on to the Emacs
;; that the CLI would find (src/tools_adapter.mjs), and a hook that calls it after each edit.
;; Gemini CLI asks its user before each call unless a policy, a file elsewhere, says that it need
;; not; Qwen Code trusts tools that say that they only read.
;;
;; These files are written after a question, and removed by a command.  What somebody else has
;; written under the same names is never changed: the manifest says that it is ours, and which
;; directories were made for it.  When Emacs is idle, the mode replaces files that another version
;; of this package wrote, but writes none that the user has deleted.

;;; Code:

(require 'json)
(require 'seq)
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-answer)
(require 'gemini-companion-bridge)
(require 'gemini-companion-client)
(require 'gemini-companion-file)
(require 'gemini-companion-log)
(require 'gemini-companion-native)
(require 'gemini-companion-setup)
(require 'gemini-companion-ui)

;;;; The files

(defconst gemini-companion-extension--directory "extensions/emacs"
  "The name of the extension in the directory of a CLI.")

(defconst gemini-companion-extension--policy
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

(defun gemini-companion-extension--get (agent property)
  "Return PROPERTY of the extension of AGENT, nil if there is none."
  (plist-get (gemini-companion-agent-get agent :extension) property))

(defun gemini-companion-extension--home (agent environment)
  "Return the directory of AGENT with ENVIRONMENT, or nil if it has none."
  (when-let* (((gemini-companion-agent-get agent :extension))
              (settings (gemini-companion-agent-settings-file agent environment)))
    (file-name-directory settings)))

(defun gemini-companion-extension--manifest-name (agent)
  "Return the name of the manifest in the directory of AGENT."
  (concat gemini-companion-extension--directory "/"
          (gemini-companion-extension--get agent :manifest)))

(defun gemini-companion-extension--files (agent made)
  "Return the files for AGENT, an alist of names in its directory and texts.
MADE are the directories that were made for them.  The manifest is the
first one.  The text of the program is nil if the native module, which
has it, is not loaded.  A policy that somebody else has written is not
among them."
  (let ((directory gemini-companion-extension--directory)
        (policy (gemini-companion-extension--get agent :policy))
        (json-encoding-pretty-print t))
    `((,(gemini-companion-extension--manifest-name agent)
       . ,(concat (json-encode (gemini-companion-extension--manifest agent made)) "\n"))
      (,(concat directory "/emacs-tools.mjs")
       . ,(and (gemini-companion-native-current-p) (gemini-companion-bridge-tools-adapter)))
      (,(concat directory "/hooks/hooks.json")
       . ,(concat (json-encode (gemini-companion-extension--hooks agent)) "\n"))
      ,@(unless (or (null policy) (gemini-companion-extension--foreign-policy-p policy))
          `((,policy . ,gemini-companion-extension--policy))))))

(defun gemini-companion-extension--manifest (agent made)
  "Return the manifest for AGENT; MADE are the directories that were made."
  `((name . "emacs")
    (version . ,gemini-companion-native-version)
    (description . "Tools of Emacs for the model")
    (gemini-companion
     . ((about . "Emacs replaces changes here, and M-x gemini-companion-tools-disable removes it")
        (made . ,(vconcat made))))
    (mcpServers
     . ((emacs . ((command . "node")
                  (args . ,(vconcat (gemini-companion-extension--words agent)))
                  (timeout . 30000)))))))

(defun gemini-companion-extension--hooks (agent)
  "Return the hook for AGENT, which runs after each edit.
A CLI takes an exit code other than 0 with an error message, as of a shell
that finds no node, for a failure of the edit, and tells its model so."
  (let ((command (format "node %s hook 2>%s; exit 0"
                         (mapconcat (lambda (word) (format "\"%s\"" word))
                                    (gemini-companion-extension--words agent) " ")
                         ;; Windows runs it by PowerShell.
                         (if (eq system-type 'windows-nt) "$null" "/dev/null"))))
    `((hooks
       . ((,(intern (gemini-companion-extension--get agent :event))
           . [((matcher . ,(format "^(%s)$" (gemini-companion-extension--get agent :edits)))
               (hooks . [((type . "command") (name . "emacs") (command . ,command)
                          (timeout . 20000))]))]))))))

(defun gemini-companion-extension--words (agent)
  "Return the program as AGENT starts it, a list of words.
They tell it where AGENT looks for the discovery files of an Emacs."
  (let ((optional (lambda (key value) (and value (list (concat key value))))))
    `(,(concat (gemini-companion-extension--get agent :here) "/emacs-tools.mjs")
      ,@(pcase (gemini-companion-agent-get agent :directory)
          (`(temporary ,name) (list (concat "directory=" name)))
          (`(home ,variable ,default ,name)
           (list (concat "directory=" name) (concat "home=" variable) (concat "default=" default))))
      ,(concat "file=" (gemini-companion-agent-get agent :file))
      ,@(funcall optional "port=" (gemini-companion-agent-variable agent 'port))
      ,@(funcall optional "process=" (gemini-companion-agent-variable agent 'process)))))

(defun gemini-companion-extension--directories (agent)
  "Return the directories for the files of AGENT, the innermost ones first."
  `(,(concat gemini-companion-extension--directory "/hooks")
    ,gemini-companion-extension--directory
    ,(directory-file-name (file-name-directory gemini-companion-extension--directory))
    ,@(when-let* ((policy (gemini-companion-extension--get agent :policy)))
        (list (directory-file-name (file-name-directory policy))))
    "."))

;;;; What is there

(defmacro gemini-companion-extension--in (home &rest body)
  "Evaluate BODY in the directory HOME, without handlers of files."
  (declare (indent 1) (debug t))
  `(let ((default-directory ,home)
         (file-name-handler-alist nil))
     ,@body))

(defun gemini-companion-extension-state (agent environment)
  "Return what there is of the extension of AGENT with ENVIRONMENT.
The value is nil if there is none, `current', `stale' if its files are not
as this package writes them, or a string, as text for the user, if somebody
else has written it."
  (when-let* ((home (gemini-companion-extension--home agent environment)))
    (gemini-companion-extension--in home
      (cond ((gemini-companion-extension--foreign agent))
            ((not (file-exists-p (gemini-companion-extension--manifest-name agent))) nil)
            ((seq-some #'gemini-companion-extension--stale-p
                       (gemini-companion-extension--files
                        agent (gemini-companion-extension--made agent)))
             'stale)
            (t 'current)))))

(defun gemini-companion-extension--foreign (agent)
  "Return why the extension in the directory of AGENT is not ours, or nil."
  (let* ((directory gemini-companion-extension--directory)
         (hooks (concat directory "/hooks"))
         (manifest (gemini-companion-extension--manifest-name agent)))
    (unless (or (gemini-companion-extension--vacant-p directory)
                (and (not (file-symlink-p directory))
                     (not (file-symlink-p hooks))
                     (gemini-companion-extension--mark manifest)))
      (format "This package did not write %s, and leaves it alone: rename it to enable Emacs's \
tools" (abbreviate-file-name (expand-file-name directory))))))

(defun gemini-companion-extension--vacant-p (directory)
  "Return non-nil if there is nothing called DIRECTORY, or it is empty."
  (or (not (file-attributes directory))
      (and (file-directory-p directory)
           (not (file-symlink-p directory))
           (directory-empty-p directory))))

(defun gemini-companion-extension--foreign-policy-p (file)
  "Return non-nil if FILE exists, and is not a policy of this package."
  (and (file-attributes file)
       (or (file-symlink-p file)
           (not (string-prefix-p "# Written by gemini-companion,"
                                 (or (gemini-companion-extension--read file) ""))))))

(defun gemini-companion-extension--mark (manifest)
  "Return what MANIFEST says about this package, an alist, or nil."
  (unless (file-symlink-p manifest)
    (let* ((content (gemini-companion-client-read manifest))
           (mark (and (listp content) (alist-get 'gemini-companion content))))
      (and (consp mark) mark))))

(defun gemini-companion-extension--made (agent)
  "Return the directories that were made for the files of AGENT."
  (seq-intersection
   (gemini-companion-extension--directories agent)
   (alist-get 'made (gemini-companion-extension--mark
                     (gemini-companion-extension--manifest-name agent)))))

(defun gemini-companion-extension--stale-p (file)
  "Return non-nil if FILE, a name and a text, exists and has another text."
  (and (cdr file)
       (file-attributes (car file))
       (not (equal (gemini-companion-extension--read (car file)) (cdr file)))))

(defun gemini-companion-extension--read (file)
  "Return the text of FILE, or nil if it cannot be read."
  (unless (or (file-symlink-p file) (gemini-companion-client-unreadable file))
    (gemini-companion-client-text file)))

;;;; Writing and removing

(defun gemini-companion-extension--write (agent environment &optional only-existing)
  "Write the files for AGENT with ENVIRONMENT, and return non-nil if any changed.
With ONLY-EXISTING, write none that does not exist."
  (gemini-companion-extension--in (gemini-companion-extension--home agent environment)
    (let* ((known (gemini-companion-extension--made agent))
           (made (seq-filter (lambda (directory)
                               (or (member directory known) (not (file-directory-p directory))))
                             (gemini-companion-extension--directories agent)))
           (changed nil))
      (pcase-dolist (`(,name . ,text) (gemini-companion-extension--files agent made))
        (unless (or (and only-existing (not (file-exists-p name)))
                    (equal (gemini-companion-extension--read name) text))
          (make-directory (file-name-directory (expand-file-name name)) t)
          (gemini-companion-file-replace name (encode-coding-string text 'utf-8-unix)
                                         (logand #o644 (default-file-modes)))
          (gemini-companion-log-add "wrote %s" (expand-file-name name))
          (setq changed t)))
      changed)))

(defun gemini-companion-extension--remove (agent)
  "Remove the files for AGENT, and the directories made for them if empty.
Return the names of what was removed; a directory stands for all in it."
  (gemini-companion-extension--in (gemini-companion-extension--home agent process-environment)
    (let ((made (gemini-companion-extension--made agent))
          (removed nil))
      ;; The manifest, without which nothing else is ours, is the last one.
      (pcase-dolist (`(,name . ,_) (reverse (gemini-companion-extension--files agent nil)))
        (when (file-attributes name)
          (delete-file name)
          (push name removed)))
      (dolist (directory made)
        (when (and (file-directory-p directory) (directory-empty-p directory))
          (delete-directory directory)
          (setq removed (cons (file-name-as-directory directory)
                              (seq-remove (lambda (name)
                                            (file-in-directory-p name directory))
                                          removed)))))
      (mapcar (lambda (name) (abbreviate-file-name (expand-file-name name))) removed))))

;;;; Commands

;;;###autoload
(defun gemini-companion-tools-enable ()
  "Let the models of CLIs, such as Gemini CLI and Qwen Code, use tools of Emacs.
With these a model finds out about diagnostics, definitions and unsaved
text, and gets to know of new diagnostics after each of its edits.  You are
asked once; the question says what is written.  A CLI that is running
takes notice when it is started again.

`gemini-companion-mode' keeps these files up to date;
`gemini-companion-tools-disable' removes them."
  (interactive)
  (unless (gemini-companion-native-load)
    (user-error "First turn the companion on with M-x gemini-companion-mode: its native module \
is missing"))
  (let* ((agents (or (gemini-companion-extension--agents)
                     (user-error "No program in `gemini-companion-agents' can use Emacs's tools")))
         (absent (gemini-companion-extension--absent agents)))
    (if (or (null absent) (gemini-companion-extension--ask absent))
        (gemini-companion-extension--report
         (mapcar #'gemini-companion-extension--enable agents))
      (message "Nothing was written"))))

;;;###autoload
(defun gemini-companion-tools-disable ()
  "Remove the files that `gemini-companion-tools-enable' wrote.
Keep files that you added, and their directories."
  (interactive)
  (gemini-companion-extension--report
   (or (delq nil (mapcar #'gemini-companion-extension--disable
                         (gemini-companion-agent-names)))
       '(("There are no tools of Emacs to remove")))))

(defun gemini-companion-extension--agents ()
  "Return the programs that are served and used here and have extensions."
  (seq-filter (lambda (agent)
                (and (gemini-companion-extension--home agent process-environment)
                     (gemini-companion-agent-directories agent)))
              (gemini-companion-agent-served)))

(defun gemini-companion-extension--absent (agents)
  "Return those of AGENTS whose extension is not there."
  (seq-remove (lambda (agent) (gemini-companion-extension-state agent process-environment)) agents))

(defun gemini-companion-extension--ask (agents)
  "Ask whether to write the extensions of AGENTS, and return non-nil if so."
  (let ((question
         (format "Let the model use Emacs in %s?  The CLI will not ask before tools that only \
read, or before showing you a file, which runs your hooks as C-x C-f does.  (Writes %s) "
                 (mapconcat (lambda (agent) (gemini-companion-agent-get agent :title))
                            agents " and ")
                 (string-join (mapcan #'gemini-companion-extension--places agents) " and "))))
    (y-or-n-p question)))

(defun gemini-companion-extension--places (agent)
  "Return where the files for AGENT are, as text for the user, a list."
  (let ((home (abbreviate-file-name
               (gemini-companion-extension--home agent process-environment)))
        (policy (gemini-companion-extension--get agent :policy)))
    (cons (concat home gemini-companion-extension--directory "/")
          (and policy (list (concat home policy))))))

(defun gemini-companion-extension--enable (agent)
  "Write the files for AGENT, unless others are there.
Return the outcome, as a list of a text for the user and whether it failed."
  (let ((title (gemini-companion-agent-get agent :title))
        (state (gemini-companion-extension-state agent process-environment)))
    (condition-case problem
        (if (stringp state) (list state t)
          (list (concat (format "The model can use Emacs in %s" title)
                        (and (gemini-companion-extension--write agent process-environment)
                             " when it next starts")
                        (gemini-companion-extension--describe-policy agent))))
      (file-error (list (gemini-companion-ui-error-text problem) t)))))

(defun gemini-companion-extension--describe-policy (agent)
  "Return what follows if somebody else has written the policy of AGENT, or nil."
  (when-let* ((policy (gemini-companion-extension--get agent :policy)))
    (gemini-companion-extension--in (gemini-companion-extension--home agent process-environment)
      (when (gemini-companion-extension--foreign-policy-p policy)
        (format ", which may ask you first: this package did not write %s, and leaves it alone"
                (abbreviate-file-name (expand-file-name policy)))))))

(defun gemini-companion-extension--disable (agent)
  "Remove the files for AGENT, if there are any of this package.
Return the outcome as `gemini-companion-extension--enable' does, or nil."
  (condition-case problem
      (when (symbolp (gemini-companion-extension-state agent process-environment))
        (when-let* ((home (gemini-companion-extension--home agent process-environment))
                    (removed (and (file-directory-p home)
                                  (gemini-companion-extension--remove agent))))
          (list (concat "Removed " (string-join removed ", ")))))
    (file-error (list (gemini-companion-ui-error-text problem) t))))

(defun gemini-companion-extension--report (outcomes)
  "Show OUTCOMES; signal a `user-error' if there is a failure among them."
  (let ((text (mapconcat #'car outcomes "\n")))
    (if (seq-some #'cadr outcomes)
        (user-error "%s" text)
      (message "%s" text))))

;;;; Automatically

;;;###autoload (add-hook 'gemini-companion-setup-functions #'gemini-companion-extension-offer)

;;;###autoload
(defun gemini-companion-extension-offer ()
  "Ask once whether models may use Emacs, unless they do or cannot.
Return the outcome, as text for the user, or nil."
  (when-let* (((not (gemini-companion-extension-declined-p)))
              ((ignore-errors (gemini-companion-native-load)))
              (agents (gemini-companion-extension--absent (gemini-companion-extension--agents))))
    (if (gemini-companion-extension--ask agents)
        (mapconcat #'car (mapcar #'gemini-companion-extension--enable agents) "\n")
      (gemini-companion-answer-set 'tools 'never)
      "Nothing was written for the model; M-x gemini-companion-tools-enable asks again")))

(defun gemini-companion-extension-declined-p ()
  "Return non-nil if the user does not want to be offered the tools."
  (eq (gemini-companion-answer-get 'tools) 'never))

;;;###autoload
(defun gemini-companion-extension-keep-current ()
  "Replace files of extensions that this package would write differently."
  (dolist (agent (gemini-companion-agent-names))
    (gemini-companion-log-errors "gemini-companion-extension-keep-current"
      (let ((environment (default-toplevel-value 'process-environment)))
        (when (eq (gemini-companion-extension-state agent environment) 'stale)
          (gemini-companion-extension--write agent environment 'only-existing))))))

(provide 'gemini-companion-extension)
;;; gemini-companion-extension.el ends here

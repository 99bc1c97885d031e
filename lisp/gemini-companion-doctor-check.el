;;; gemini-companion-doctor-check.el --- What can keep a CLI from connecting -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The quick checks of the doctor.  Each looks at one thing, in the case of a CLI that runs, or
;; would start, somewhere.

;;; Code:

(require 'cl-lib)
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-cli)
(require 'gemini-companion-cli-search)
(require 'gemini-companion-context)
(require 'gemini-companion-host)
(require 'gemini-companion-host-connect)
(require 'gemini-companion-host-connection)
(require 'gemini-companion-native)
(require 'gemini-companion-setup)
(require 'gemini-companion-tool-extension)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function gemini-companion-turn-on "gemini-companion")

;;;; The case

(cl-defstruct (gemini-companion-doctor-check-case (:copier nil))
  "The CLI that is examined."
  (agent nil :documentation "Its name, as in `gemini-companion-agent-profiles'.")
  (directory nil :documentation "The directory in which it is started.")
  (environment nil :documentation "Its environment.")
  (process nil :documentation "The id of a process in or below which it runs, or nil.")
  (running nil :documentation "Non-nil if it runs already, as that process.")
  (terminal nil :documentation "The buffer of the terminal in which it runs, or nil.")
  (where nil :documentation "Where that is, as text for the user.")
  (remote nil :documentation "Non-nil if the directory is on another machine.")
  (connection nil :documentation "The connection to that machine, or nil.")
  (guessed nil :documentation "Non-nil if the environment is Emacs's because the CLI's is unknown.")
  (search nil :documentation "What it finds, a `gemini-companion-cli-search-result'.")
  (settings nil :documentation "Its settings; see `gemini-companion-cli-search-settings'."))

(defun gemini-companion-doctor-check-find-program (case name)
  "Return the file of the program NAME on the PATH in CASE, or nil."
  (let* ((path (gemini-companion-agent-getenv
                "PATH" (gemini-companion-doctor-check-case-environment case)))
         (exec-path (if path (parse-colon-path path) exec-path))
         (default-directory gemini-companion-agent-neutral-directory))
    (executable-find name)))

;;;; All checks

;; A check is called with a case, and returns findings: nil, one, or a list of such values.  One is
;; (LEVEL TEXT REMEDY BUTTON).  LEVEL is `problem', `note' or `fine'; TEXT and REMEDY are sentences,
;; and BUTTON is (LABEL . FUNCTION); the latter two may be missing.

(defun gemini-companion-doctor-check-all (case)
  "Return what all checks of CASE find, and note in it what its CLI sees."
  (pcase-let (((cl-struct gemini-companion-doctor-check-case agent directory environment process
                          remote)
               case))
    (unless remote
      (setf (gemini-companion-doctor-check-case-search case)
            (gemini-companion-cli-search-find agent directory environment process)
            (gemini-companion-doctor-check-case-settings case)
            (gemini-companion-cli-search-settings agent directory environment)))
    (mapcar (lambda (check) (funcall check case))
            `(gemini-companion-doctor-check--module
              gemini-companion-doctor-check--companion
              ,@(if remote '(gemini-companion-doctor-check--machine)
                  '(gemini-companion-doctor-check--environment
                    gemini-companion-doctor-check--sandbox
                    gemini-companion-doctor-check--settings
                    gemini-companion-doctor-check--approval
                    gemini-companion-doctor-check--search
                    gemini-companion-doctor-check--tools))))))

;;;; Checks of this Emacs

(defun gemini-companion-doctor-check--module (_case)
  "Check whether this Emacs has loaded the native module, or could."
  (condition-case error
      (cond ((gemini-companion-native-current-p)
             (list 'fine (format "The native module is loaded, version %s."
                                 gemini-companion-native-version)))
            ((gemini-companion-native-loaded-version)
             (list 'problem "The version of the loaded native module is not that of this package."
                   "Turn the mode off and on; restart Emacs if that tells you to."))
            ((not (gemini-companion-native-find))
             (list 'problem (format "The native module is missing: %s."
                                    (gemini-companion-native-describe-missing))
                   "Install it: M-x gemini-companion-install-module."
                   (cons "install" 'gemini-companion-install-module))))
    (user-error
     (list 'problem (format "Cannot use the native module: %s."
                            (gemini-companion-ui-error-text error))))))

(defun gemini-companion-doctor-check--companion (case)
  "Check the companion of this Emacs, and whether the CLI in CASE is connected."
  (pcase-let (((cl-struct gemini-companion-doctor-check-case agent remote) case))
    (cond
     (noninteractive nil)
     ((not (gemini-companion-bridge-running-p))
      (list 'problem "The companion is off in this Emacs."
            "Turn it on: M-x gemini-companion-mode; then start the CLI."
            (cons "turn on" (lambda ()
                              (gemini-companion-turn-on)
                              ;; The doctor needs the projects at once.
                              (when gemini-companion-workspace-pending
                                (gemini-companion-workspace-announce))))))
     ((not (gemini-companion-bridge-token agent))
      (list 'problem
            (format "%s is not served: it is not in `gemini-companion-agents', or not used here."
                    (gemini-companion-agent-get agent :title))
            "Add it, or run it once; then turn the mode off and on."))
     (t (list (unless remote
                (list (gemini-companion-doctor-check--announcement)
                      (gemini-companion-doctor-check--session case)
                      (gemini-companion-doctor-check--container)))
              (when gemini-companion-context-paused
                (list 'note "The context is paused: clients see no open files."
                      "Resume it: M-x gemini-companion-toggle-context."
                      (cons "resume" #'gemini-companion-toggle-context))))))))

(defun gemini-companion-doctor-check--announcement ()
  "Check whether the discovery files of this Emacs are there and intact."
  (let ((button (gemini-companion-doctor-check--announce-button)))
    (append
     (mapcar (lambda (line)
               (list 'problem (format "Clients cannot find this Emacs: %s." line)
                     "Correct this, then announce this Emacs again." button))
             (split-string (or (gemini-companion-bridge-discovery-fault) "") "\n" t))
     (mapcar (lambda (file)
               (list 'problem
                     (format "Something has changed or deleted %s, which this Emacs wrote." file)
                     "Write it again, which Emacs does within a minute; then type /ide enable in \
the CLI, or restart it." button))
             (gemini-companion-bridge-damaged-files)))))

(defun gemini-companion-doctor-check--announce-button ()
  "Return a button that writes the discovery files again, if the companion runs."
  (when (gemini-companion-bridge-running-p)
    (cons "announce again"
          (lambda () (gemini-companion-bridge-set-roots (gemini-companion-workspace-roots))))))

(defun gemini-companion-doctor-check--session (case)
  "Check whether the CLI in CASE, if it runs, is connected."
  (let ((process (gemini-companion-doctor-check-case-running case)))
    (cond ((gemini-companion-doctor-check--session-p case)
           (list 'fine "The CLI in this terminal is connected."))
          (process
           (list 'problem
                 (format "The CLI, process %d, is not connected: it looks for an editor only when \
it starts." process)
                 "Type /ide enable in it; if it says that the editor is not supported, restart \
it.")))))

(defun gemini-companion-doctor-check--session-p (case)
  "Return non-nil if the CLI in CASE, perhaps in its sandbox, is connected."
  (when-let* ((terminal (gemini-companion-doctor-check-case-terminal case))
              (cli (gemini-companion-cli-in-terminal terminal)))
    (gemini-companion-cli-open-session cli)))

(defun gemini-companion-doctor-check--container ()
  "Check whether CLIs that other programs start in this container find Emacs."
  (when (and (gemini-companion-agent-container-p)
             (not (gemini-companion-agent-same-host-p
                   (gemini-companion-agent-without-added
                    (default-toplevel-value 'process-environment)))))
    (list 'note
          "This is a container.  A CLI that another program starts in it looks for its editor \
outside of it."
          "Start it with M-x gemini-companion-run, or with REMOTE_CONTAINERS=true in its \
environment, which M-x gemini-companion-copy-environment also copies."
          (cons "copy" #'gemini-companion-copy-environment))))

;;;; Checks of the CLI's environment

(defun gemini-companion-doctor-check--environment (case)
  "Check whether the environment in CASE keeps the CLI from its editor."
  (let* ((environment (gemini-companion-doctor-check-case-environment case))
         (get (lambda (name) (gemini-companion-agent-getenv name environment)))
         (headless (seq-find (lambda (name) (equal (funcall get name) "true"))
                             '("CI" "GITHUB_ACTIONS")))
         (proxy (seq-find get '("http_proxy" "HTTP_PROXY" "all_proxy" "ALL_PROXY")))
         (direct (split-string (or (funcall get "no_proxy") (funcall get "NO_PROXY") "")
                               "[, ]+" t)))
    (list
     (when (gemini-companion-doctor-check-case-guessed case)
       (list 'note "This system does not reveal the environment of that terminal: \
this report is for the environment of Emacs."))
     (when headless
       (list 'problem
             (format "%s=true: the CLI runs without its user interface, and never connects."
                     headless)
             "Start it with that variable unset."))
     (when (and (gemini-companion-agent-container-p)
                (not (gemini-companion-agent-same-host-p environment)))
       (list 'problem "This is a container, in which the CLI connects to host.docker.internal, \
and not to this Emacs."
             "Start it with REMOTE_CONTAINERS=true in its environment: it then stays in the \
container."))
     (when (and proxy (not (equal direct '("*"))) (not (member "127.0.0.1" direct)))
       (list 'note
             (format "There is a proxy (%s), and NO_PROXY does not name 127.0.0.1: some versions \
of the CLI and other clients look for this Emacs through the proxy." proxy)
             "Add 127.0.0.1,localhost to NO_PROXY in its environment, or start it with \
M-x gemini-companion-run, which takes care of that.")))))

(defun gemini-companion-doctor-check--sandbox (case)
  "Check whether the CLI in CASE runs itself in a container."
  (pcase-let* (((cl-struct gemini-companion-doctor-check-case
                           agent directory environment settings)
                case)
               (`(,name . ,path) (gemini-companion-agent-get agent :sandbox)))
    (when (and (gemini-companion-cli-search-sandbox-p agent directory nil environment)
               (not (gemini-companion-doctor-check--session-p case)))
      (list 'note
            (format "The CLI runs itself in a sandbox (%s), from which it cannot reach this Emacs."
                    (if (gemini-companion-agent-getenv name environment) name
                      (format "%s in %s" (mapconcat #'symbol-name path ".")
                              (cdr (gemini-companion-cli-search-setting settings path)))))
            "Start it with M-x gemini-companion-run, which takes care of that."))))

;;;; Checks of the CLI's settings

(defun gemini-companion-doctor-check--settings (case)
  "Check whether the settings in CASE keep the CLI from connecting."
  (pcase-let* (((cl-struct gemini-companion-doctor-check-case agent environment settings) case)
               (`(,broken . ,fault) (seq-find (lambda (entry) (stringp (cdr entry))) settings))
               (`(,enabled . ,where)
                (gemini-companion-cli-search-setting settings '(ide enabled)))
               (user (gemini-companion-agent-settings-file agent environment))
               (file (or where user))
               (text (format "IDE mode is off: ide.enabled is %s in %s."
                             (if where "false" "not set") file)))
    (cond
     (broken
      (list 'problem
            (format "The CLI does not start: its settings %s cannot be read (%s)." broken fault)
            "Correct that file."
            (cons "open" (lambda () (find-file-other-window broken)))))
     ((not file) nil)                   ; it is not known where the settings are
     ((eq enabled t) (list 'fine (format "IDE mode is on in %s." file)))
     (t
      (list
       (if (equal (expand-file-name file) user)
           (list 'problem text
                 "Type M-x gemini-companion-setup to set it, and restart the CLI; or type \
/ide enable in the CLI once, and restart it."
                 (cons "set it" (lambda () (message "%s" (gemini-companion-setup-do agent user)))))
         (list 'problem
               text
               "Set it to true in that file, which takes precedence, and restart the CLI."
               (cons "open" (lambda () (find-file-other-window file)))))
       (unless (eq t (car (gemini-companion-cli-search-setting settings '(ide hasSeenNudge))))
         (list 'note "The CLI will ask whether to connect Emacs; its \"Yes\" runs /ide install, \
which cannot work."
               "Answer \"No (esc)\", then type /ide enable.")))))))

(defun gemini-companion-doctor-check--approval (case)
  "Check whether settings in CASE have the CLI ask before it edits files."
  (pcase-let (((cl-struct gemini-companion-doctor-check-case agent settings) case))
    (when-let* ((path (gemini-companion-agent-get agent :approval))
                ((not (member (car (gemini-companion-cli-search-setting settings path))
                              '("default" "plan")))))
      (list 'note (format "Newer versions of %s edit files without asking, and then no change \
appears in Emacs."
                          (gemini-companion-agent-get agent :title))
            (format "To review changes, type /approval-mode default in it, or set %s to \
\"default\" in its settings."
                    (mapconcat #'symbol-name path "."))))))

;;;; Checks of the search for an editor

(defun gemini-companion-doctor-check--search (case)
  "Check which discovery file the CLI in CASE takes."
  (pcase-let (((cl-struct gemini-companion-cli-search-result directory files chosen)
               (gemini-companion-doctor-check-case-search case)))
    (cond (chosen (gemini-companion-doctor-check--chosen case chosen))
          (files (list 'problem (format "Clients ignore all files in %s." directory)
                       "See what this report says about each, and announce this Emacs again."
                       (gemini-companion-doctor-check--announce-button)))
          (t (gemini-companion-doctor-check--directory case directory)))))

(defun gemini-companion-doctor-check-roots (file)
  "Return the roots in the discovery FILE, as text."
  (pcase (alist-get 'workspacePath (gemini-companion-cli-search-file-content file))
    ((and (pred stringp) (pred (not string-empty-p)) roots)
     (string-replace path-separator ", " roots))
    (_ "none")))

(defun gemini-companion-doctor-check-own-p (file)
  "Return non-nil if the discovery FILE is one of this Emacs."
  (member (file-truename (gemini-companion-cli-search-file-name file))
          (mapcar #'file-truename (gemini-companion-bridge-discovery-files))))

(defun gemini-companion-doctor-check--directory (case directory)
  "Check why there is no discovery file in DIRECTORY, where the CLI in CASE looks."
  (let* ((agent (gemini-companion-doctor-check-case-agent case))
         (own (and (gemini-companion-bridge-running-p)
                   (gemini-companion-agent-directories agent)))
         (text (format "The CLI looks in %s, but this Emacs announces itself in %s: "
                       directory (string-join own ", "))))
    (pcase (gemini-companion-agent-get agent :directory)
      ((guard (or (not own) (member (file-truename directory) (mapcar #'file-truename own))))
       (list 'problem (format "There is no discovery file in %s." directory)
             (if own "Announce this Emacs again."
               "Turn the companion on in Emacs with M-x gemini-companion-mode before you start \
the CLI.")
             (gemini-companion-doctor-check--announce-button)))
      (`(home ,variable . ,_)
       (list 'problem (concat text variable " differs.")
             (format "Start both with the same %s." variable)))
      (`(temporary ,name)
       (let ((temporary (string-remove-suffix (concat "/" name) directory)))
         (list 'problem (concat text "their temporary directories (TMPDIR) differ.")
               (format "Add %s to `gemini-companion-temporary-directories', then turn the mode off \
and on; or start both with the same TMPDIR." temporary)))))))

(defun gemini-companion-doctor-check--chosen (case chosen)
  "Check whether CHOSEN, which the CLI in CASE takes, leads it to an Emacs."
  (let ((name (gemini-companion-cli-search-file-name chosen)))
    (cond
     ((not (gemini-companion-cli-search-ide chosen))
      (list 'problem
            (format "The CLI uses %s, which lacks \"ideInfo\"; so it says that it does not support \
this editor." name)
            "Update the companion that wrote it, or delete the file if nobody needs it."
            (gemini-companion-doctor-check--delete-button name)))
     ((not (gemini-companion-cli-search-file-fits chosen))
      (gemini-companion-doctor-check--describe-mismatch case chosen))
     ((gemini-companion-doctor-check-own-p chosen)
      (list 'fine (format "A CLI that you start here uses this Emacs's file, %s." name)))
     (t (gemini-companion-doctor-check--describe-other chosen)))))

(defun gemini-companion-doctor-check--describe-mismatch (case chosen)
  "Return the finding that no root in CHOSEN has the directory in CASE."
  (let* ((directory (directory-file-name (gemini-companion-doctor-check-case-directory case)))
         (real (directory-file-name (gemini-companion-cli-search-real-directory directory)))
         (ide (gemini-companion-cli-search-ide chosen))
         (text (not (memq 'eight-bit (find-charset-string real)))))
    (list 'problem (format "%s%s is in no workspace root that %s announces (%s): \
the CLI says \"Directory mismatch\"."
                           directory
                           (if (equal real directory) "" (format ", which is a link to %s," real))
                           (if (equal (car ide) "emacs") "Emacs" (cdr ide))
                           (gemini-companion-doctor-check-roots chosen))
          (if text
              (format "Visit a file of that project in Emacs, or add %s to \
`gemini-companion-workspace-roots'." real)
            "Emacs cannot tell a CLI this name: start Emacs in a UTF-8 locale, such as \
LANG=C.UTF-8, or rename the directory.")
          (and text
               (gemini-companion-bridge-running-p)
               (cons "add" (lambda ()
                             (customize-set-variable
                              'gemini-companion-workspace-roots
                              (cons real (ensure-list gemini-companion-workspace-roots)))
                             (gemini-companion-workspace-announce)))))))

(defun gemini-companion-doctor-check--describe-other (chosen)
  "Return the finding that the CLI takes CHOSEN, of another editor."
  (let ((name (gemini-companion-cli-search-file-name chosen))
        (process (gemini-companion-cli-search-file-process chosen))
        (editor (cdr (gemini-companion-cli-search-ide chosen))))
    (cond
     ((not (gemini-companion-cli-search-file-alive chosen))
      (list 'problem (format "The CLI uses %s, whose process %s is dead: the CLI fails, and tries \
no other file." name process)
            "Delete that file, and restart the CLI."
            (gemini-companion-doctor-check--delete-button name)))
     ((not (gemini-companion-bridge-running-p))
      (list 'fine (format "A CLI that you start here uses %s, of %s, process %s."
                          name editor process)))
     (t (list 'problem (format "The CLI uses %s, of %s, process %s, and not this Emacs."
                               name editor process)
              "Start it with M-x gemini-companion-run, or give its terminal the variables \
that M-x gemini-companion-copy-environment copies."
              (cons "copy" #'gemini-companion-copy-environment))))))

(defun gemini-companion-doctor-check--delete-button (file)
  "Return a button that deletes FILE, after a question."
  (cons "delete" (lambda ()
                   (when (gemini-companion-ui-y-or-n-p (format "Delete %s? " file))
                     (delete-file file)))))

;;;; Checks of the tools for the model

(defun gemini-companion-doctor-check--tools (case)
  "Check whether the model of the CLI in CASE can use the tools of Emacs."
  (pcase-let (((cl-struct gemini-companion-doctor-check-case agent environment settings) case))
    (when (gemini-companion-agent-get agent :extension)
      (let ((state (gemini-companion-tool-extension-state agent environment))
            ;; Where Gemini CLI's /mcp disable writes.
            (switches (expand-file-name
                       "../mcp-server-enablement.json"
                       (gemini-companion-agent-settings-file agent environment))))
        (list
         (gemini-companion-doctor-check--tools-state state)
         (when-let* ((limits (and state
                                  (gemini-companion-doctor-check--tool-limits
                                   (cons (cons switches
                                               (gemini-companion-cli-search-read-json switches))
                                         settings)))))
           (list 'note (format "Settings keep tools of Emacs from the model, or turn off hooks: %s."
                               (string-join limits ", "))))
         (unless (or (null state) (stringp state)
                     (gemini-companion-doctor-check-find-program case "node"))
           (list 'problem
                 "Cannot find the program `node' on PATH: the CLI cannot call the tools of Emacs."
                 "Put Node's directory on PATH, or remove the tools, \
M-x gemini-companion-tools-disable.")))))))

(defun gemini-companion-doctor-check--tool-limits (settings)
  "Return texts that name what in SETTINGS keeps the model from tools of Emacs."
  (cl-loop with off = (lambda (value) (eq value :json-false))
           with named = (lambda (value) (and (vectorp value) (seq-contains-p value "emacs")))
           with not-named = (lambda (value)
                              (and (vectorp value) (not (seq-contains-p value "emacs"))))
           for (limits-p . path) in `((,off hooksConfig enabled)
                                      (,named hooksConfig disabled)
                                      (,(lambda (value) (eq value t)) disableAllHooks)
                                      (,off emacs enabled)
                                      (,not-named mcp allowed)
                                      (,named mcp excluded)
                                      (,#'vectorp tools core))
           for (value . file) = (gemini-companion-cli-search-setting settings path)
           if (and (not (equal value [])) (funcall limits-p value))
           collect (format "%s in %s" (mapconcat #'symbol-name path ".") file)))

(defun gemini-companion-doctor-check--tools-state (state)
  "Return the finding about the tools of Emacs, whose state is STATE.
STATE is as in `gemini-companion-tool-extension-state'."
  (let ((button (cons "enable" #'gemini-companion-tools-enable)))
    (pcase state
      ((and 'nil (guard (gemini-companion-tool-extension-declined-p)))
       (list 'fine "The model has no tools of Emacs: you declined them."))
      ('nil (list 'note "The model cannot use the tools of Emacs."
                  "To let it, type M-x gemini-companion-tools-enable, and restart the CLI." button))
      ((pred stringp) (list 'note (format "The model cannot use the tools of Emacs: %s." state)))
      ('stale (list 'note
                    "The files of the tools are not as this version of the package writes them."
                    "Write them again: M-x gemini-companion-tools-enable." button))
      (_ (list 'fine "The extension with the tools of Emacs is installed.")))))

;;;; Checks of another machine

(defun gemini-companion-doctor-check--machine (case)
  "Check whether the machine of CASE is connected, as far as Emacs knows."
  (when (gemini-companion-bridge-running-p)
    (pcase-let* (((cl-struct gemini-companion-doctor-check-case directory connection) case)
                 (button (cons "connect" (lambda () (gemini-companion-connect directory)))))
      (pcase (and connection (gemini-companion-host-connection-state connection))
        ('nil (list 'problem "The host of this directory is not connected."
                    "Connect it: M-x gemini-companion-connect." button))
        ('ready (gemini-companion-doctor-check--ready-host connection directory button))
        ('connecting
         (list 'problem
               (format "%s: %s" (gemini-companion-host-connection-name connection)
                       (gemini-companion-host-connection-describe-state connection))
               ;; One that was lost may be away for long.
               (unless (gemini-companion-host-connection-proven connection)
                 "Wait a moment, then run the doctor again.")))
        (_ (pcase-let ((`(,text . ,remedy) (gemini-companion-host-connection-diagnosis connection)))
             (list 'problem (concat text ".") (and remedy (concat remedy ".")) button)))))))

(defun gemini-companion-doctor-check--ready-host (connection directory button)
  "Check CONNECTION, which is ready, for a CLI in DIRECTORY; BUTTON connects that."
  (let ((name (gemini-companion-host-connection-name connection))
        (local (file-name-as-directory (file-local-name directory))))
    (list
     (list 'fine
           (format "%s: %s." name (gemini-companion-host-connection-describe-state connection)))
     (mapcar (lambda (warning) (list 'note (format "%s warns: %s" name warning)))
             (gemini-companion-host-connection-warnings connection))
     (unless (gemini-companion-host-roots-of connection local)
       (list 'problem (format "%s is in no workspace root of %s." local name)
             "Make it one: M-x gemini-companion-connect." button))
     (unless (gemini-companion-bridge-host-sessions (gemini-companion-host-prefix connection))
       (list 'note (format "No CLI on %s is connected." name)
             "Start one: M-x gemini-companion-run.  Restart one that is older than the \
connection; in a newer one, type /ide enable.")))))

(provide 'gemini-companion-doctor-check)
;;; gemini-companion-doctor-check.el ends here

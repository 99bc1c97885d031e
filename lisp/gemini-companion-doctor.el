;;; gemini-companion-doctor.el --- Why a CLI does not connect -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows what keeps a CLI from connecting, in a buffer or in batch mode.  Tokens are never shown,
;; and the home directory is written "~", so that the text can go into a bug report.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-client)
(require 'gemini-companion-context)
(require 'gemini-companion-native)
(require 'gemini-companion-run)
(require 'gemini-companion-setup)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function gemini-companion-install-module "gemini-companion-install")
(declare-function gemini-companion-mode "gemini-companion")
(declare-function gemini-companion-restart "gemini-companion")

(defconst gemini-companion-doctor--tested "0.61.0"
  "The version of Gemini CLI with which this package was tested.")

(defconst gemini-companion-doctor--probe-patience 10
  "Seconds after which a program that does not tell its version is ended.")

(defconst gemini-companion-doctor--max-answer 10000
  "Characters of what it says that are looked at.")

(cl-defstruct (gemini-companion-doctor--finding
               (:constructor gemini-companion-doctor--finding
                             (level text &optional remedy button))
               (:copier nil))
  "Something that was found out."
  (level nil :documentation "`problem', `note' or `fine'.")
  (text nil :documentation "What is so, a sentence.")
  (remedy nil :documentation "What to do, a sentence, or nil.")
  (button nil :documentation "What Emacs can do, (LABEL . FUNCTION), or nil."))

(cl-defstruct (gemini-companion-doctor--case (:copier nil))
  "What is looked into."
  (directory nil :documentation "Where the CLI is started.")
  (environment nil :documentation "The environment that it has.")
  (process nil :documentation "The process in or below which it runs, or nil.")
  (runs nil :documentation "Non-nil if it runs already, and is that process.")
  (place nil :documentation "In words, where that is.")
  (other nil :documentation "Non-nil if another agent runs there.")
  (hidden nil :documentation "Non-nil if that process's environment cannot be seen.")
  (search nil :documentation "What it finds.")
  (settings nil :documentation "Its settings."))

;;;; What to look into

(defun gemini-companion-doctor--case-of (buffer directory)
  "Return the case of a CLI in the terminal BUFFER, or else in DIRECTORY."
  (gemini-companion-run-check-local directory)
  (let* ((process (and (buffer-live-p buffer) (get-buffer-process buffer)))
         (id (and process (processp process) (eq (process-type process) 'real)
                  (with-current-buffer buffer
                    (apply #'derived-mode-p gemini-companion-workspace-terminal-modes))
                  (process-id process)))
         (cli (and id (gemini-companion-doctor--cli-below id)))
         (id (or cli id)))
    (if id
        (let ((environment (gemini-companion-doctor--environment-of id)))
          (make-gemini-companion-doctor--case
           :directory (or (file-symlink-p (format "/proc/%d/cwd" id)) directory)
           :environment (or environment (default-toplevel-value 'process-environment))
           :process id :runs cli :hidden (not environment)
           :other (not (memq (buffer-local-value 'gemini-companion-run-agent buffer)
                             '(nil gemini)))
           :place (format "the terminal %s, process %d" (buffer-name buffer) id)))
      (make-gemini-companion-doctor--case
       :directory directory
       :environment (default-toplevel-value 'process-environment)
       :place "a terminal that this Emacs starts"))))

(defun gemini-companion-doctor--cli-below (process)
  "Return the id of the CLI that runs as or below PROCESS, or nil."
  (let* ((name (file-name-nondirectory (gemini-companion-run-program 'gemini)))
         (clis (seq-filter
                (lambda (id)
                  (and (gemini-companion-doctor--runs-p name id)
                       (memq process (gemini-companion-run-ancestry id))))
                (list-system-processes))))
    ;; The CLI runs itself once more, and that one has the highest id.
    (and clis (apply #'max clis))))

(defun gemini-companion-doctor--runs-p (program process)
  "Return non-nil if PROCESS runs PROGRAM, perhaps by an interpreter with options."
  (let ((words (split-string (or (alist-get 'args (process-attributes process)) "") " " t)))
    (seq-some (lambda (word)
                (member (file-name-nondirectory word) (list program (concat program ".js"))))
              (seq-take words 4))))

(defun gemini-companion-doctor--environment-of (process)
  "Return the environment with which PROCESS was started, or nil if unknown."
  (let ((file (format "/proc/%d/environ" process)))
    (ignore-errors
      (with-temp-buffer
        (let ((coding-system-for-read 'utf-8-unix))
          (insert-file-contents file))
        (split-string (buffer-string) "\0" t)))))

;;;; Looking

(defun gemini-companion-doctor--look (case callback)
  "Look into CASE.
Call CALLBACK now, and again when more was found, with CASE, its findings
so far and the number of things that are still being looked into."
  (let ((environment (gemini-companion-doctor--case-environment case))
        (directory (gemini-companion-doctor--case-directory case))
        (results (make-vector 3 nil))   ; a list of findings for each step
        (left 3)
        found)
    (setf (gemini-companion-doctor--case-search case)
          (gemini-companion-client-find directory environment
                                        (gemini-companion-doctor--case-process case))
          (gemini-companion-doctor--case-settings case)
          (gemini-companion-client-settings directory environment))
    (setq found (lambda (step findings)
                  (aset results step findings)
                  (setq left (1- left))
                  (funcall callback case (seq-mapcat #'identity results) left)))
    (funcall found 0 (seq-mapcat (lambda (check) (funcall check case))
                                 '(gemini-companion-doctor--check-emacs
                                   gemini-companion-doctor--check-companion
                                   gemini-companion-doctor--check-environment
                                   gemini-companion-doctor--check-settings
                                   gemini-companion-doctor--check-search)))
    (gemini-companion-doctor--probe-server case (apply-partially found 1))
    (gemini-companion-doctor--probe-program case (apply-partially found 2))))

(defun gemini-companion-doctor--variable (case name)
  "Return the value of the environment variable NAME in CASE, nil if it is empty."
  (gemini-companion-agent-getenv
   name (gemini-companion-doctor--case-environment case)))

;;;;; This Emacs

(defun gemini-companion-doctor--check-emacs (_case)
  "Find out whether this Emacs can load the module."
  (let ((version (gemini-companion-native-loaded-version)))
    (cond
     ((not module-file-suffix)
      (list (gemini-companion-doctor--finding
             'problem "This Emacs was built without support for native modules."
             "Install one that has it (its build option is --with-modules).")))
     ((gemini-companion-native-current-p)
      (list (gemini-companion-doctor--finding
             'fine (format "The native module is loaded, version %s." version))))
     (version
      (list (gemini-companion-doctor--finding
             'problem
             (format "The native module that is loaded has version %s, this package needs %s."
                     version gemini-companion-native-version)
             "Switch the mode off and on; if that says so restart Emacs.")))
     (t (gemini-companion-doctor--check-module-file)))))

(defun gemini-companion-doctor--check-module-file ()
  "Find out whether there is a module that could be loaded."
  (condition-case error
      (unless (gemini-companion-native-find)
        (list (gemini-companion-doctor--finding
               'problem (format "The native module is missing: %s."
                                (gemini-companion-native-describe-missing))
               "Install it, M-x gemini-companion-install-module."
               (cons "install" #'gemini-companion-install-module))))
    (gemini-companion-native-missing
     (list (gemini-companion-doctor--finding
            'problem (format "The native module cannot be used: %s."
                             (gemini-companion-ui-error-text error))
            "Correct that name, or have the module looked for.")))))

(defun gemini-companion-doctor--check-companion (case)
  "Find out whether the companion of this Emacs runs and can be found.
So also whether the CLI in CASE is connected to it."
  (cond
   (noninteractive nil)
   ((not (gemini-companion-bridge-running-p))
    (list (gemini-companion-doctor--finding
           'problem "The companion is off in this Emacs."
           "Switch it on, M-x gemini-companion-mode; then start the CLI."
           (cons "switch on" (lambda () (gemini-companion-mode 1))))))
   ((not (gemini-companion-bridge-token))
    (list (gemini-companion-doctor--finding
           'problem "Gemini CLI is not served: `gemini-companion-agents' does not name it."
           "Add it, and switch the mode off and on.")))
   (t (append (gemini-companion-doctor--check-announcement)
              (gemini-companion-doctor--check-connection case)
              (gemini-companion-doctor--check-container)
              (when gemini-companion-context-paused
                (list (gemini-companion-doctor--finding
                       'note "Clients are told that no file is open: that is paused."
                       "Go on, M-x gemini-companion-toggle-context."
                       (cons "go on" #'gemini-companion-toggle-context))))))))

(defun gemini-companion-doctor--check-connection (case)
  "Find out whether the CLI in CASE, if it runs, is connected."
  (when (gemini-companion-doctor--case-runs case)
    (let ((process (gemini-companion-doctor--case-process case)))
      (list (if (seq-some (pcase-lambda (`[,_ ,_ ,client ,_ ,stream ,_ ,_])
                            (and client (eq stream 'open)
                                 (memq process (gemini-companion-run-ancestry client))))
                          (gemini-companion-bridge-sessions))
                (gemini-companion-doctor--finding
                 'fine (format "The CLI, process %d, is connected." process))
              (gemini-companion-doctor--finding
               'problem (format "The CLI, process %d, is not connected: it looks for an \
editor only when it starts." process)
               "Type /ide enable in it; if it says that the editor is not supported, start \
it anew."))))))

(defun gemini-companion-doctor--check-container ()
  "Find out whether CLIs beside this Emacs, in its container, look for it there.
Those that it starts do, for it tells them."
  (when (and (gemini-companion-agent-container-p)
             (not (gemini-companion-agent-same-host-p
                   (gemini-companion-agent-environment-before))))
    (let ((astray (gemini-companion-doctor--astray-p)))
      (list (gemini-companion-doctor--finding
             (if astray 'problem 'note)
             (format "This is a container.  %s looks for its editor on the machine around it."
                     (if astray "A CLI that runs in here already"
                       "A CLI that another program than this Emacs starts in here"))
             "Start it by M-x gemini-companion-run, or with REMOTE_CONTAINERS=true in its \
environment, which M-x gemini-companion-copy-environment copies, too."
             (cons "copy" #'gemini-companion-copy-environment))))))

(defun gemini-companion-doctor--astray-p ()
  "Return non-nil if a CLI runs in this container that looks for Emacs outside."
  (let ((name (file-name-nondirectory (gemini-companion-run-program 'gemini))))
    (seq-some (lambda (id)
                (when-let ((environment (and (gemini-companion-doctor--runs-p name id)
                                             (gemini-companion-doctor--environment-of id))))
                  (not (gemini-companion-agent-same-host-p environment))))
              (list-system-processes))))

(defun gemini-companion-doctor--check-announcement ()
  "Find out whether the discovery files of this Emacs are there."
  (append
   (when-let ((fault (gemini-companion-bridge-discovery-fault)))
     (mapcar (lambda (line)
               (gemini-companion-doctor--finding
                'problem (format "Clients cannot find this Emacs: %s." line)
                "Do what it says, then announce this Emacs again."
                (gemini-companion-doctor--announce-button)))
             (split-string fault "\n")))
   (mapcar #'gemini-companion-doctor--describe-damage
           (gemini-companion-bridge-damaged-files))))

(defun gemini-companion-doctor--describe-damage (file)
  "Say what was done to FILE, a discovery file of this Emacs."
  (let ((exists (file-attributes file)))
    (gemini-companion-doctor--finding
     'problem
     (if exists
         (format "%s is not as this Emacs wrote it: something changed it." file)
       (format "The discovery file %s of this Emacs is missing: something deleted it." file))
     (concat "Write it again, which Emacs does within a minute"
             (if exists "; then type /ide enable in the CLI."
               ".  A CLI that was started meanwhile does not know of Emacs: start it anew."))
     (gemini-companion-doctor--announce-button))))

(defun gemini-companion-doctor--announce-button ()
  "Return a button that writes the discovery files again."
  (cons "announce again"
        (lambda ()
          (gemini-companion-bridge-set-roots (gemini-companion-workspace-roots)))))

;;;;; The CLI

(defun gemini-companion-doctor--check-environment (case)
  "Find out what the environment in CASE keeps the CLI from."
  (append
   (when (gemini-companion-doctor--case-other case)
     (list (gemini-companion-doctor--finding
            'note "Another program runs in that terminal: what follows is for Gemini CLI there.")))
   (when (gemini-companion-doctor--case-hidden case)
     (list (gemini-companion-doctor--finding
            'note "This system does not tell the environment of that terminal; \
what follows is for that of Emacs.")))
   (delq nil (mapcar (lambda (check) (funcall check case))
                     '(gemini-companion-doctor--check-headless
                       gemini-companion-doctor--check-sandbox
                       gemini-companion-doctor--check-host
                       gemini-companion-doctor--check-proxy)))))

(defun gemini-companion-doctor--check-headless (case)
  "Find out whether the environment in CASE takes the CLI its screen."
  (when-let ((name (seq-find (lambda (name)
                               (equal (gemini-companion-doctor--variable case name) "true"))
                             '("CI" "GITHUB_ACTIONS"))))
    (gemini-companion-doctor--finding
     'problem
     (format "%s=true: the CLI works without its screen then, and never connects." name)
     (format "Start it with that variable unset: env -u %s gemini" name))))

(defun gemini-companion-doctor--check-sandbox (case)
  "Find out whether the CLI in CASE runs itself in a container."
  (let ((variable (gemini-companion-doctor--variable case "GEMINI_SANDBOX"))
        (setting (gemini-companion-client-setting
                  (gemini-companion-doctor--case-settings case) '(tools sandbox))))
    (when (if variable (not (equal variable "false"))
            (and setting (not (member (car setting) '(nil :json-false "")))))
      (gemini-companion-doctor--finding
       'note
       (format "The CLI runs itself in a sandbox (%s), from which it may not reach this Emacs."
               (if variable "GEMINI_SANDBOX"
                 (format "tools.sandbox in %s" (cdr setting))))
       "If it does not connect, start it without: gemini --sandbox=false"))))

(defun gemini-companion-doctor--check-host (case)
  "Find out whether the CLI in CASE looks for the editor on this machine."
  (let ((host (gemini-companion-client-host (gemini-companion-doctor--case-environment case))))
    (unless (equal host "127.0.0.1")
      (gemini-companion-doctor--finding
       'problem
       (format "This is a container, in which the CLI connects to %s, and not to this Emacs."
               host)
       "Start it with REMOTE_CONTAINERS=true in its environment: it stays in the \
container then."))))

(defun gemini-companion-doctor--check-proxy (case)
  "Find out whether a proxy could come between the CLI in CASE and us."
  (when-let ((name (seq-find (lambda (name) (gemini-companion-doctor--variable case name))
                             '("http_proxy" "HTTP_PROXY" "all_proxy" "ALL_PROXY"))))
    (let ((hosts (or (gemini-companion-doctor--variable case "no_proxy")
                     (gemini-companion-doctor--variable case "NO_PROXY")
                     "")))
      (unless (or (equal hosts "*")
                  (member "127.0.0.1" (split-string hosts "[, ]+" t)))
        (gemini-companion-doctor--finding
         'note
         (format "A proxy is set (%s), and NO_PROXY does not name 127.0.0.1: some versions \
of the CLI and other clients ask the proxy for this Emacs." name)
         "Start it with NO_PROXY=127.0.0.1,localhost in its environment, or by \
M-x gemini-companion-run, which sees to that.")))))

(defun gemini-companion-doctor--check-settings (case)
  "Find out what the settings in CASE keep the CLI from."
  (let* ((settings (gemini-companion-doctor--case-settings case))
         (broken (seq-find (pcase-lambda (`(,_ ,_ . ,content)) (stringp content)) settings)))
    (if broken
        (list (gemini-companion-doctor--finding
               'problem
               (format "The CLI does not start: its settings %s cannot be read (%s)."
                       (nth 1 broken) (cddr broken))
               "Mend that file."
               (gemini-companion-doctor--visit-button (nth 1 broken))))
      (append (gemini-companion-doctor--check-ide-mode case)
              (gemini-companion-doctor--check-trust case)))))

(defun gemini-companion-doctor--check-ide-mode (case)
  "Find out whether the CLI in CASE looks for an editor at all."
  (let* ((settings (gemini-companion-doctor--case-settings case))
         (environment (gemini-companion-doctor--case-environment case))
         (enabled (gemini-companion-client-ide-mode
                   (gemini-companion-doctor--case-directory case) environment settings))
         (asked (gemini-companion-client-setting settings '(ide hasSeenNudge)))
         (file (or (cdr enabled) (gemini-companion-client-user-settings environment)))
         ;; There is none that could be changed if the home is a relative name.
         (own (equal (expand-file-name file)
                     (gemini-companion-agent-settings-file 'gemini environment))))
    (if (eq (car enabled) t)
        (list (gemini-companion-doctor--finding
               'fine (format "IDE mode is on in %s." file)))
      (cons
       (gemini-companion-doctor--describe-ide-mode enabled file own environment)
       (unless (eq (car asked) t)
         (list (gemini-companion-doctor--finding
                'note
                "The CLI will ask whether to connect Emacs; its \"Yes\" runs /ide install, \
which cannot work."
                "Answer \"No (esc)\", then type /ide enable.")))))))

(defun gemini-companion-doctor--describe-ide-mode (enabled file own environment)
  "Say that ide.enabled, with what counts for it in ENABLED, is not true in FILE.
With OWN that is the file of the user who has ENVIRONMENT."
  (let ((text (format "IDE mode is off: ide.enabled is %s in %s."
                      (if enabled "false" "not set") file)))
    (if own
        (gemini-companion-doctor--finding
         'problem text
         "Have Emacs put it there, M-x gemini-companion-setup, and start the CLI anew; or type \
/ide enable in the CLI, once, and start it anew."
         (cons "put it there"
               (lambda () (gemini-companion-doctor--set-up environment))))
      (gemini-companion-doctor--finding
       'problem text "Make it true there, for that file comes first, and start the CLI anew."
       (gemini-companion-doctor--visit-button file)))))

(defun gemini-companion-doctor--set-up (environment)
  "Let a CLI with ENVIRONMENT connect by itself."
  (condition-case problem
      (message "%s" (gemini-companion-setup-do 'gemini environment))
    (gemini-companion-setup-unusable
     (user-error "%s" (gemini-companion-ui-error-text problem)))))

(defun gemini-companion-doctor--trust (case)
  "Return whether the CLI in CASE trusts its directory: `yes', `no' or `asks'."
  (gemini-companion-client-trust (gemini-companion-doctor--case-directory case)
                                 (gemini-companion-doctor--case-environment case)
                                 (gemini-companion-doctor--case-settings case)))

(defun gemini-companion-doctor--check-trust (case)
  "Find out whether the CLI in CASE trusts the directory."
  (pcase (gemini-companion-doctor--trust case)
    ('yes nil)
    ('no (list (gemini-companion-doctor--finding
                'note "The CLI does not trust this directory: it connects, but ignores \
settings, tools and environment of the project."
                "Type /permissions in the CLI to trust it.")))
    (_ (list (gemini-companion-doctor--finding
              'note "The CLI will ask whether you trust this directory." nil)))))

(defun gemini-companion-doctor--visit-button (file)
  "Return a button that visits FILE."
  (cons "open" (lambda () (find-file-other-window file))))

;;;;; The search

(defun gemini-companion-doctor--check-search (case)
  "Find out which discovery file the CLI in CASE takes."
  (let* ((search (gemini-companion-doctor--case-search case))
         (chosen (gemini-companion-client-search-chosen search))
         (files (gemini-companion-client-search-files search)))
    (append
     (delq nil (mapcar #'gemini-companion-doctor--check-file files))
     (cond ((null files) (gemini-companion-doctor--check-place case))
           ((null chosen)
            (list (gemini-companion-doctor--finding
                   'problem (format "No file in %s can be used."
                                    (gemini-companion-client-search-directory search))
                   "See what is said of each."
                   (gemini-companion-doctor--announce-or-nil))))
           (t (gemini-companion-doctor--check-chosen case chosen))))))

(defun gemini-companion-doctor--own-p (file)
  "Return non-nil if the discovery FILE is one of this Emacs."
  (and (gemini-companion-bridge-running-p)
       (seq-some (lambda (own)
                   (equal (file-truename own)
                          (file-truename (gemini-companion-client-file-name file))))
                 (gemini-companion-bridge-discovery-files))))

(defun gemini-companion-doctor--announce-or-nil ()
  "Return a button that announces this Emacs if its companion runs."
  (and (gemini-companion-bridge-running-p) (gemini-companion-doctor--announce-button)))

(defun gemini-companion-doctor--check-file (file)
  "Find out whether clients can use the discovery FILE."
  (when-let ((fault (gemini-companion-client-file-fault file)))
    (let ((own (gemini-companion-doctor--own-p file)))
      (gemini-companion-doctor--finding
       (if own 'problem 'note)
       (format "%s %s: clients ignore it." (gemini-companion-client-file-name file) fault)
       (cond ((string-search "another user" fault)
              (format "Remove it, if you may: rm %s"
                      (shell-quote-argument (gemini-companion-client-file-name file))))
             (own "Announce this Emacs again."))
       (and own (gemini-companion-doctor--announce-button))))))

(defun gemini-companion-doctor--check-place (case)
  "Find out why there is no discovery file where the CLI in CASE looks."
  (let* ((place (gemini-companion-client-search-directory
                 (gemini-companion-doctor--case-search case)))
         (own (and (gemini-companion-bridge-running-p)
                   (gemini-companion-agent-directories 'gemini)))
         (elsewhere (and own
                         (not (member (file-truename place) (mapcar #'file-truename own))))))
    (list
     (if elsewhere
         (gemini-companion-doctor--finding
          'problem
          (format "The CLI looks in %s, but this Emacs announces itself in %s: \
their temporary directories (TMPDIR) differ."
                  place (string-join own ", "))
          (format "Add %s to `gemini-companion-temporary-directories', or start both with \
the same TMPDIR." (gemini-companion-doctor--temporary place))
          (cons "add, restart"
                (lambda () (gemini-companion-doctor--add-temporary
                            (gemini-companion-doctor--temporary place)))))
       (gemini-companion-doctor--finding
        'problem (format "There is no discovery file in %s." place)
        (if own "Announce this Emacs again."
          "Switch the companion on in Emacs, M-x gemini-companion-mode, before the CLI \
is started.")
        (gemini-companion-doctor--announce-or-nil))))))

(defun gemini-companion-doctor--temporary (place)
  "Return the temporary directory of which PLACE is the directory of files."
  (string-remove-suffix "/gemini/ide" place))

(defun gemini-companion-doctor--add-temporary (directory)
  "Announce this Emacs in the temporary DIRECTORY, too, from now on."
  (customize-set-variable 'gemini-companion-temporary-directories
                          (cons directory gemini-companion-temporary-directories))
  (gemini-companion-mode -1)
  (gemini-companion-mode 1)
  (message "To keep that: M-x customize-save-customized"))

(defun gemini-companion-doctor--check-chosen (case chosen)
  "Find out whether CHOSEN, which the CLI in CASE takes, leads it to an Emacs."
  (cond
   ((not (gemini-companion-client-ide chosen))
    (list (gemini-companion-doctor--finding
           'problem
           (format "The CLI takes %s, which lacks \"ideInfo\": it says that this editor is \
not supported." (gemini-companion-client-file-name chosen))
           "Update the companion that wrote it, or delete the file if nobody needs it."
           (gemini-companion-doctor--delete-button chosen))))
   ((not (gemini-companion-client-file-fits chosen))
    (list (gemini-companion-doctor--describe-mismatch case chosen)))
   ((gemini-companion-doctor--own-p chosen)
    (list (gemini-companion-doctor--finding
           'fine (format "A CLI that is started here takes the file of this Emacs, %s."
                         (gemini-companion-client-file-name chosen)))))
   (t (gemini-companion-doctor--describe-other case chosen))))

(defun gemini-companion-doctor--describe-mismatch (case chosen)
  "Say that the directory in CASE is in no root, though the CLI takes CHOSEN."
  (let* ((directory (directory-file-name (gemini-companion-doctor--case-directory case)))
         (real (directory-file-name (gemini-companion-client-real-directory directory)))
         (roots (gemini-companion-client-roots chosen))
         (emacs (equal (car (gemini-companion-client-ide chosen)) "emacs")))
    (gemini-companion-doctor--finding
     'problem
     (format "%s%s is in no workspace root that %s announces (%s): \
the CLI says \"Directory mismatch\"."
             directory
             (if (equal real directory) "" (format ", which is a link to %s," real))
             (if emacs "Emacs" (cdr (gemini-companion-client-ide chosen)))
             (if roots (string-join roots ", ") "there are none"))
     (format "Visit a file of that project in Emacs, or add %s to \
`gemini-companion-workspace-roots'." real)
     (and (gemini-companion-bridge-running-p)
          (cons "add" (lambda ()
                        (customize-set-variable
                         'gemini-companion-workspace-roots
                         (cons real gemini-companion-workspace-roots))
                        (gemini-companion-workspace-announce)))))))

(defun gemini-companion-doctor--describe-other (case chosen)
  "Say that the CLI in CASE takes CHOSEN, which is not a file of this Emacs."
  (let* ((name (gemini-companion-client-file-name chosen))
         (ide (gemini-companion-client-ide chosen))
         (process (gemini-companion-client-file-process chosen))
         (reason (gemini-companion-doctor--reason case chosen)))
    (cond
     ((gemini-companion-client-elsewhere-p chosen)
      (list (gemini-companion-doctor--finding
             'problem
             (format "The CLI takes %s, and not this Emacs (%s).  That was written in another \
container (PID namespace), or before this machine was started: whether its Emacs lives cannot \
be told here." name reason)
             "If that is gone delete the file; else give the two a TMPDIR each."
             (gemini-companion-doctor--delete-button chosen))))
     ((not (gemini-companion-client-file-alive chosen))
      (list (gemini-companion-doctor--finding
             'problem
             (format "The CLI takes %s, whose process %d is dead (%s): it fails, and tries \
no other file." name process reason)
             "Delete that file, and start the CLI anew."
             (gemini-companion-doctor--delete-button chosen))))
     ((not (gemini-companion-bridge-running-p))
      (list (gemini-companion-doctor--finding
             'fine (format "A CLI that is started here takes %s, of %s, process %d."
                           name (cdr ide) process))))
     (t (list (gemini-companion-doctor--finding
               'problem
               (format "The CLI takes %s, of %s, process %d, and not this Emacs (%s)."
                       name (cdr ide) process reason)
               "Start it by M-x gemini-companion-run, or give its terminal the variables \
that M-x gemini-companion-copy-environment copies."
               (cons "copy" #'gemini-companion-copy-environment)))))))

(defun gemini-companion-doctor--reason (case chosen)
  "Return in words why the CLI in CASE takes CHOSEN."
  (let* ((search (gemini-companion-doctor--case-search case))
         (others (seq-filter (lambda (file)
                               (and (not (eq file chosen))
                                    (gemini-companion-client-file-fits file)))
                             (gemini-companion-client-search-files search)))
         (wanted (gemini-companion-client-search-wanted search)))
    (cond ((null others) "no other has this directory in its roots")
          ((equal (gemini-companion-doctor--variable case "GEMINI_CLI_IDE_SERVER_PORT")
                  (format "%s" (gemini-companion-client-port chosen)))
           "GEMINI_CLI_IDE_SERVER_PORT names its port")
          ((eql wanted (gemini-companion-client-file-process chosen))
           (if (gemini-companion-doctor--variable case "GEMINI_CLI_IDE_PID")
               "GEMINI_CLI_IDE_PID names its process"
             "its process began that terminal"))
          (t "of several it has the highest process id"))))

(defun gemini-companion-doctor--delete-button (file)
  "Return a button that deletes the discovery FILE."
  (let ((name (gemini-companion-client-file-name file)))
    (cons "delete" (lambda ()
                     (when (y-or-n-p (format "Delete %s? " name))
                       (delete-file name))))))

;;;;; What takes time

(defun gemini-companion-doctor--probe-server (case callback)
  "Ask the server that the CLI in CASE should find; call CALLBACK with findings."
  (pcase (gemini-companion-doctor--server case)
    ('nil (funcall callback nil))
    (`(,port ,token . ,name)
     (let ((begun (float-time)))
       (gemini-companion-client-probe
        port token
        (lambda (outcome text)
          (funcall callback
                   (list (gemini-companion-doctor--describe-server
                          name outcome text (- (float-time) begun))))))))))

(defun gemini-companion-doctor--server (case)
  "Return (PORT TOKEN . NAME) of the server to ask in CASE, or nil.
That is ours, else the one that the CLI takes if that is an Emacs."
  (if (gemini-companion-bridge-running-p)
      (when-let ((token (gemini-companion-bridge-token)))
        (cons (gemini-companion-bridge-port) (cons token "The server of this Emacs")))
    (let* ((chosen (gemini-companion-client-search-chosen
                    (gemini-companion-doctor--case-search case)))
           (port (and chosen (gemini-companion-client-port chosen)))
           (token (and chosen (gemini-companion-client-token chosen))))
      (and (natnump port) (< 0 port 65536)
           (stringp token) (string-match-p "\\`[!-~]+\\'" token)
           (equal (car (gemini-companion-client-ide chosen)) "emacs")
           (cons port (cons token (format "The Emacs on port %d" port)))))))

(defun gemini-companion-doctor--describe-server (name outcome text seconds)
  "Say that the server NAME gave OUTCOME with TEXT after SECONDS."
  (let* ((own (gemini-companion-bridge-running-p))
         (remedy (if own "Start it anew, M-x gemini-companion-restart."
                   "In that Emacs: M-x gemini-companion-restart, or the mode off and on."))
         (button (and own (cons "restart" #'gemini-companion-restart))))
    (pcase outcome
      ('alive (gemini-companion-doctor--finding
               'fine (format "%s answers a client after %.0f ms; its tools are %s."
                             name (* 1000 seconds) text)))
      ('refused (gemini-companion-doctor--finding
                 'problem
                 (if (equal text "HTTP 401")
                     (format "%s does not take the token in its file (%s)." name text)
                   (format "%s refuses a client: %s." name text))
                 remedy button))
      (_ (gemini-companion-doctor--finding
          'problem (format "%s does not answer: %s." name text) remedy button)))))

(defun gemini-companion-doctor--probe-program (case callback)
  "Ask the CLI in CASE for its version; call CALLBACK with findings."
  (let* ((process-environment (gemini-companion-doctor--case-environment case))
         (default-directory temporary-file-directory)
         (path (gemini-companion-doctor--variable case "PATH"))
         (exec-path (if path (parse-colon-path path) exec-path))
         (name (gemini-companion-run-program 'gemini))
         (program (executable-find name))
         (answer ""))
    (if (not program)
        (funcall callback
                 ;; One that runs was found in another way.
                 (unless (gemini-companion-doctor--case-runs case)
                   (list (gemini-companion-doctor--finding
                          'problem
                          (format "There is no program `%s' on PATH." name)
                          (format "Install it (%s), or set `gemini-companion-program'."
                                  (gemini-companion-agent-get 'gemini :install))))))
      (let* ((timer nil)
             (process
              (make-process
               :name "gemini-companion-version" :noquery t :connection-type 'pipe
               :command (list program "--version")
               :filter (lambda (_process text)
                         (when (< (length answer) gemini-companion-doctor--max-answer)
                           (setq answer (concat answer text))))
               :sentinel (lambda (process _event)
                           (unless (process-live-p process)
                             (when timer (cancel-timer timer))
                             (funcall callback
                                      (list (gemini-companion-doctor--describe-program
                                             program answer))))))))
        (setq timer (run-at-time gemini-companion-doctor--probe-patience nil
                                 #'delete-process process))
        ;; It may ask something; or have ended already.
        (ignore-errors (process-send-eof process))))))

(defun gemini-companion-doctor--describe-program (program answer)
  "Say which version PROGRAM has, which said ANSWER."
  (if (string-match "[0-9]+\\.[0-9]+\\.[0-9]+" answer)
      (gemini-companion-doctor--finding
       'fine (format "%s has version %s; %s was tested with this package."
                     program (match-string 0 answer) gemini-companion-doctor--tested))
    (gemini-companion-doctor--finding
     'problem
     (format "%s does not tell its version, but: %s" program
             (truncate-string-to-width (string-trim answer) 200 nil nil "..."))
     "Run it in a terminal to see what is wrong.")))

;;;; The report

(defconst gemini-companion-doctor--name "*gemini doctor*"
  "Name of the buffer.")

(defconst gemini-companion-doctor--patience 15
  "Seconds for which a report in batch mode is waited for.")

;;;; The command

(define-derived-mode gemini-companion-doctor-mode gemini-companion-report-mode "Gemini-Doctor"
  "Major mode for what keeps a CLI from connecting.
\\{gemini-companion-doctor-mode-map}"
  :interactive nil
  (gemini-companion-ui-keep-keys 'gemini-companion-doctor-mode)
  (setq-local word-wrap t
              wrap-prefix "       ")
  (setq-local revert-buffer-function (lambda (&rest _) (gemini-companion-doctor--start))))

(defvar-local gemini-companion-doctor--subject nil
  "The buffer and the directory that are looked into, (BUFFER . DIRECTORY).")

(defvar-local gemini-companion-doctor--latest nil
  "Tells the look that was begun last from earlier ones.")

(defvar-local gemini-companion-doctor--shown nil
  "The case that is shown, its findings, and how many are still to come.")

;;;###autoload
(defun gemini-companion-doctor (&optional directory)
  "Show what a CLI that is started here would find, and what keeps it from us.
In a terminal that is a CLI in there, else one in a terminal that this
Emacs starts in the current project.  Interactively, a prefix argument
asks for another DIRECTORY."
  (interactive (list (and current-prefix-arg
                          (read-directory-name "Directory of the CLI: " nil nil t))))
  (let ((subject (cons (and (not directory) (current-buffer))
                       (expand-file-name (or directory default-directory))))
        (buffer (get-buffer-create gemini-companion-doctor--name)))
    (pop-to-buffer buffer)
    (unless (derived-mode-p 'gemini-companion-doctor-mode)
      (gemini-companion-doctor-mode))
    (setq gemini-companion-doctor--subject subject)
    (gemini-companion-doctor--start)))

(defun gemini-companion-doctor--start ()
  "Look into the subject of the current buffer, and print what is found."
  (pcase-let ((`(,terminal . ,directory) gemini-companion-doctor--subject)
              (buffer (current-buffer))
              (look (list nil)))
    (setq default-directory (file-name-as-directory directory)
          gemini-companion-doctor--latest look)
    (gemini-companion-doctor--look
     (gemini-companion-doctor--case-of terminal directory)
     (lambda (case findings left)
       (when (and (buffer-live-p buffer)
                  ;; What an earlier look still finds is of no interest.
                  (eq look (buffer-local-value 'gemini-companion-doctor--latest buffer)))
         (with-current-buffer buffer
           (setq gemini-companion-doctor--shown (list case findings left))
           (gemini-companion-doctor--print)))))))

(defun gemini-companion-doctor--print ()
  "Print what was found into the current buffer."
  (gemini-companion-ui-print
   (lambda () (apply #'gemini-companion-doctor--insert gemini-companion-doctor--shown))))

;;;###autoload
(defun gemini-companion-doctor-batch ()
  "Print what a CLI that is started in the current directory would find.
Call Emacs in the terminal in which the CLI is started, with the options

  --batch -L PACKAGE-DIRECTORY -l gemini-companion-doctor \\
    -f gemini-companion-doctor-batch

Exit with 1 if there is a problem.  The text holds no secrets."
  (let ((deadline (+ (float-time) gemini-companion-doctor--patience))
        (left nil)
        shown)
    (gemini-companion-doctor--look
     (make-gemini-companion-doctor--case
      :directory default-directory :environment process-environment
      :process (emacs-pid) :place "the terminal in which this was called")
     (lambda (&rest arguments)
       (setq shown arguments
             left (nth 2 arguments))))
    (while (and (> left 0) (< (float-time) deadline))
      (accept-process-output nil 0.1))
    (with-temp-buffer
      (apply #'gemini-companion-doctor--insert shown)
      (princ (buffer-string)))
    (kill-emacs (if (gemini-companion-doctor--of-level 'problem (nth 1 shown)) 1 0))))

;;;; The report

(defun gemini-companion-doctor--of-level (level findings)
  "Return those of FINDINGS that are of LEVEL."
  (seq-filter (lambda (finding) (eq (gemini-companion-doctor--finding-level finding) level))
              findings))

(defun gemini-companion-doctor--insert (case findings left)
  "Insert FINDINGS about CASE; LEFT things are still being looked into."
  (let ((problems (length (gemini-companion-doctor--of-level 'problem findings))))
    (insert (propertize
             (pcase problems
               (0 (if (> left 0) "No problem was found so far"
                    "No problem: a CLI that is started here finds an Emacs"))
               (1 "One problem")
               (_ (format "%d problems; begin with the first" problems)))
             'face 'bold)
            (if (> left 0) ", still looking...\n" "\n"))
    (gemini-companion-doctor--line
     "for a CLI in %s, in %s"
     (gemini-companion-doctor--case-directory case)
     (gemini-companion-doctor--case-place case))
    (pcase-dolist (`(,level . ,heading) '((problem . "Problems") (note . "Notes")
                                          (fine . "As it should be")))
      (when-let ((findings (gemini-companion-doctor--of-level level findings)))
        (insert "\n" (propertize heading 'face 'bold) "\n")
        (mapc #'gemini-companion-doctor--insert-finding findings)))
    (insert "\n" (propertize "What the CLI sees" 'face 'bold) "\n")
    (gemini-companion-doctor--insert-facts case)))

(defun gemini-companion-doctor--insert-finding (finding)
  "Insert FINDING, with its button."
  (gemini-companion-doctor--line "* %s" (gemini-companion-doctor--finding-text finding))
  (when-let ((remedy (gemini-companion-doctor--finding-remedy finding)))
    (gemini-companion-doctor--line "  -> %s" remedy))
  (pcase (gemini-companion-doctor--finding-button finding)
    ((and `(,label . ,function) (guard (not noninteractive)))
     (insert "     ")
     (gemini-companion-ui-button
      label (lambda () (gemini-companion-doctor--press function)))
     (insert "\n"))))

(defun gemini-companion-doctor--press (function)
  "Call FUNCTION for a button, and look again."
  (let ((buffer (current-buffer)))
    (funcall function)
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (gemini-companion-doctor--start)))))

(defun gemini-companion-doctor--insert-facts (case)
  "Insert what the CLI in CASE sees, and what this is."
  (let* ((search (gemini-companion-doctor--case-search case))
         (wanted (gemini-companion-client-search-wanted search)))
    (gemini-companion-doctor--line "looks in %s, for process %s"
                                   (gemini-companion-client-search-directory search)
                                   (or wanted "(any)"))
    (dolist (file (gemini-companion-client-search-files search))
      (gemini-companion-doctor--line
       "%s %s" (if (eq file (gemini-companion-client-search-chosen search)) "takes" "finds")
       (gemini-companion-doctor--describe-file file)))
    (dolist (name '("TMPDIR" "TMP" "TEMP" "GEMINI_CLI_IDE_SERVER_PORT" "GEMINI_CLI_IDE_PID"
                    "GEMINI_CLI_IDE_WORKSPACE_PATH" "NO_PROXY" "REMOTE_CONTAINERS"))
      (when-let ((value (gemini-companion-doctor--variable case name)))
        (gemini-companion-doctor--line "%s=%s" name value)))
    (gemini-companion-doctor--line "package %s, Emacs %s on %s"
                                   gemini-companion-native-version emacs-version
                                   system-configuration)))

(defun gemini-companion-doctor--describe-file (file)
  "Return a line for the discovery FILE."
  (let ((ide (gemini-companion-client-ide file)))
    (concat (file-name-nondirectory (gemini-companion-client-file-name file))
            (cond ((gemini-companion-doctor--own-p file) ", this Emacs")
                  (ide (format ", %s" (cdr ide)))
                  (t ""))
            (cond ((gemini-companion-client-elsewhere-p file)
                   ", of another container or start of the machine")
                  ((gemini-companion-client-file-alive file) "")
                  (t ", its process is dead"))
            (if-let ((fault (gemini-companion-client-file-fault file)))
                (concat ", " fault)
              (format ", roots: %s"
                      (string-join (or (gemini-companion-client-roots file) '("none"))
                                   ", "))))))

(defun gemini-companion-doctor--line (format &rest arguments)
  "Insert a line: FORMAT with ARGUMENTS, without what identifies the user."
  (let ((home (directory-file-name (expand-file-name "~")))
        (text (apply #'format format arguments)))
    (gemini-companion-ui-line
     "%s"
     (if (< (length home) 2) text
       (replace-regexp-in-string
        (concat "\\(" (regexp-quote home) "\\)\\(?:[^[:alnum:]_.-]\\|\\'\\)")
        "~" text t t 1)))))

(provide 'gemini-companion-doctor)
;;; gemini-companion-doctor.el ends here

;;; gemini-companion-diagnosis.el --- What keeps a CLI from connecting -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Replays the search of a CLI with the environment it would have, reads its settings, and asks
;; the server for a sign of life.  Each finding is one fact with one remedy, and a button where
;; Emacs can do it.  What `gemini-companion-doctor' shows is found out here.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-client)
(require 'gemini-companion-context)
(require 'gemini-companion-environment)
(require 'gemini-companion-native)
(require 'gemini-companion-probe)
(require 'gemini-companion-run)
(require 'gemini-companion-settings)
(require 'gemini-companion-setup)
(require 'gemini-companion-workspace)

(declare-function gemini-companion-install-module "gemini-companion-install")
(declare-function gemini-companion-mode "gemini-companion")
(declare-function gemini-companion-restart "gemini-companion")

(defconst gemini-companion-diagnosis--tested "0.61.0"
  "The version of Gemini CLI with which this package was tested.")

(defconst gemini-companion-diagnosis--patience 10
  "Seconds after which a program that does not tell its version is ended.")

(defconst gemini-companion-diagnosis--max-answer 10000
  "Characters of what it says that are looked at.")

(cl-defstruct (gemini-companion-diagnosis-finding
               (:constructor gemini-companion-diagnosis--finding
                             (level text &optional remedy button))
               (:copier nil))
  "Something that was found out."
  (level nil :documentation "`problem', `note' or `fine'.")
  (text nil :documentation "What is so, a sentence.")
  (remedy nil :documentation "What to do, a sentence, or nil.")
  (button nil :documentation "What Emacs can do, (LABEL . FUNCTION), or nil."))

(cl-defstruct (gemini-companion-diagnosis-case (:copier nil))
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

(defun gemini-companion-diagnosis-case-of (buffer directory)
  "Return the case of a CLI in the terminal BUFFER, or else in DIRECTORY."
  (gemini-companion-run-check-local directory)
  (let* ((process (and (buffer-live-p buffer) (get-buffer-process buffer)))
         (id (and process (processp process) (eq (process-type process) 'real)
                  (with-current-buffer buffer
                    (apply #'derived-mode-p gemini-companion-workspace-terminal-modes))
                  (process-id process)))
         (cli (and id (gemini-companion-diagnosis--cli-below id)))
         (id (or cli id)))
    (if id
        (let ((environment (gemini-companion-diagnosis--environment-of id)))
          (make-gemini-companion-diagnosis-case
           :directory (or (file-symlink-p (format "/proc/%d/cwd" id)) directory)
           :environment (or environment (default-toplevel-value 'process-environment))
           :process id :runs cli :hidden (not environment)
           :other (not (memq (buffer-local-value 'gemini-companion-run-agent buffer)
                             '(nil gemini)))
           :place (format "the terminal %s, process %d" (buffer-name buffer) id)))
      (make-gemini-companion-diagnosis-case
       :directory directory
       :environment (default-toplevel-value 'process-environment)
       :place "a terminal that this Emacs starts"))))

(defun gemini-companion-diagnosis--cli-below (process)
  "Return the id of the CLI that runs as or below PROCESS, or nil."
  (let* ((name (file-name-nondirectory (gemini-companion-run-program 'gemini)))
         (clis (seq-filter
                (lambda (id)
                  (and (gemini-companion-diagnosis--runs-p name id)
                       (memq process (gemini-companion-run-ancestry id))))
                (list-system-processes))))
    ;; The CLI runs itself once more, and that one has the highest id.
    (and clis (apply #'max clis))))

(defun gemini-companion-diagnosis--runs-p (program process)
  "Return non-nil if PROCESS runs PROGRAM, perhaps by an interpreter with options."
  (let ((words (split-string (or (alist-get 'args (process-attributes process)) "") " " t)))
    (seq-some (lambda (word)
                (member (file-name-nondirectory word) (list program (concat program ".js"))))
              (seq-take words 4))))

(defun gemini-companion-diagnosis--environment-of (process)
  "Return the environment with which PROCESS was started, or nil if unknown."
  (let ((file (format "/proc/%d/environ" process)))
    (ignore-errors
      (with-temp-buffer
        (let ((coding-system-for-read 'utf-8-unix))
          (insert-file-contents file))
        (split-string (buffer-string) "\0" t)))))

;;;; Looking

(defun gemini-companion-diagnosis-look (case callback)
  "Look into CASE.
Call CALLBACK now, and again when more was found, with CASE, its findings
so far and the number of things that are still being looked into."
  (let ((environment (gemini-companion-diagnosis-case-environment case))
        (directory (gemini-companion-diagnosis-case-directory case))
        (results (make-vector 3 nil))   ; a list of findings for each step
        (left 3)
        found)
    (setf (gemini-companion-diagnosis-case-search case)
          (gemini-companion-client-find directory environment
                                        (gemini-companion-diagnosis-case-process case))
          (gemini-companion-diagnosis-case-settings case)
          (gemini-companion-client-settings directory environment))
    (setq found (lambda (step findings)
                  (aset results step findings)
                  (setq left (1- left))
                  (funcall callback case (seq-mapcat #'identity results) left)))
    (funcall found 0 (seq-mapcat (lambda (check) (funcall check case))
                                 '(gemini-companion-diagnosis--check-emacs
                                   gemini-companion-diagnosis--check-companion
                                   gemini-companion-diagnosis--check-environment
                                   gemini-companion-diagnosis--check-settings
                                   gemini-companion-diagnosis--check-search)))
    (gemini-companion-diagnosis--probe-server case (apply-partially found 1))
    (gemini-companion-diagnosis--probe-program case (apply-partially found 2))))

(defun gemini-companion-diagnosis-variable (case name)
  "Return the value of the environment variable NAME in CASE, nil if it is empty."
  (gemini-companion-environment-value
   name (gemini-companion-diagnosis-case-environment case)))

;;;;; This Emacs

(defun gemini-companion-diagnosis--check-emacs (_case)
  "Find out whether this Emacs can load the module."
  (let ((version (gemini-companion-native-loaded-version)))
    (cond
     ((not module-file-suffix)
      (list (gemini-companion-diagnosis--finding
             'problem "This Emacs was built without support for native modules."
             "Install one that has it (its build option is --with-modules).")))
     ((gemini-companion-native-current-p)
      (list (gemini-companion-diagnosis--finding
             'fine (format "The native module is loaded, version %s." version))))
     (version
      (list (gemini-companion-diagnosis--finding
             'problem
             (format "The native module that is loaded has version %s, this package needs %s."
                     version gemini-companion-native-version)
             "Switch the mode off and on; if that says so restart Emacs.")))
     (t (gemini-companion-diagnosis--check-module-file)))))

(defun gemini-companion-diagnosis--check-module-file ()
  "Find out whether there is a module that could be loaded."
  (condition-case error
      (unless (gemini-companion-native-find)
        (list (gemini-companion-diagnosis--finding
               'problem (format "The native module is missing: %s."
                                (gemini-companion-native-describe-missing))
               "Install it, M-x gemini-companion-install-module."
               (cons "install" #'gemini-companion-install-module))))
    (gemini-companion-native-missing
     (list (gemini-companion-diagnosis--finding
            'problem (format "The native module cannot be used: %s."
                             (gemini-companion-log-reason error))
            "Correct that name, or have the module looked for.")))))

(defun gemini-companion-diagnosis--check-companion (case)
  "Find out whether the companion of this Emacs runs and can be found.
So also whether the CLI in CASE is connected to it."
  (cond
   (noninteractive nil)
   ((not (gemini-companion-bridge-running-p))
    (list (gemini-companion-diagnosis--finding
           'problem "The companion is off in this Emacs."
           "Switch it on, M-x gemini-companion-mode; then start the CLI."
           (cons "switch on" (lambda () (gemini-companion-mode 1))))))
   ((not (gemini-companion-bridge-token))
    (list (gemini-companion-diagnosis--finding
           'problem "Gemini CLI is not served: `gemini-companion-agents' does not name it."
           "Add it, and switch the mode off and on.")))
   (t (append (gemini-companion-diagnosis--check-announcement)
              (gemini-companion-diagnosis--check-connection case)
              (gemini-companion-diagnosis--check-container)
              (when gemini-companion-context-paused
                (list (gemini-companion-diagnosis--finding
                       'note "Clients are told that no file is open: that is paused."
                       "Go on, M-x gemini-companion-toggle-context."
                       (cons "go on" #'gemini-companion-toggle-context))))))))

(defun gemini-companion-diagnosis--check-connection (case)
  "Find out whether the CLI in CASE, if it runs, is connected."
  (when (gemini-companion-diagnosis-case-runs case)
    (let ((process (gemini-companion-diagnosis-case-process case)))
      (list (if (seq-some (pcase-lambda (`[,_ ,_ ,client ,_ ,stream ,_ ,_])
                            (and client (eq stream 'open)
                                 (memq process (gemini-companion-run-ancestry client))))
                          (gemini-companion-bridge-sessions))
                (gemini-companion-diagnosis--finding
                 'fine (format "The CLI, process %d, is connected." process))
              (gemini-companion-diagnosis--finding
               'problem (format "The CLI, process %d, is not connected: it looks for an \
editor only when it starts." process)
               "Type /ide enable in it; if it says that the editor is not supported, start \
it anew."))))))

(defun gemini-companion-diagnosis--check-container ()
  "Find out whether CLIs beside this Emacs, in its container, look for it there.
Those that it starts do, for it tells them."
  (when (and (gemini-companion-environment-container-p)
             (not (gemini-companion-environment-same-host-p
                   (gemini-companion-environment-before))))
    (let ((astray (gemini-companion-diagnosis--astray-p)))
      (list (gemini-companion-diagnosis--finding
             (if astray 'problem 'note)
             (format "This is a container.  %s looks for its editor on the machine around it."
                     (if astray "A CLI that runs in here already"
                       "A CLI that another program than this Emacs starts in here"))
             "Start it by M-x gemini-companion-run, or with REMOTE_CONTAINERS=true in its \
environment, which M-x gemini-companion-copy-environment copies, too."
             (cons "copy" #'gemini-companion-copy-environment))))))

(defun gemini-companion-diagnosis--astray-p ()
  "Return non-nil if a CLI runs in this container that looks for Emacs outside."
  (let ((name (file-name-nondirectory (gemini-companion-run-program 'gemini))))
    (seq-some (lambda (id)
                (when-let* ((environment (and (gemini-companion-diagnosis--runs-p name id)
                                              (gemini-companion-diagnosis--environment-of id))))
                  (not (gemini-companion-environment-same-host-p environment))))
              (list-system-processes))))

(defun gemini-companion-diagnosis--check-announcement ()
  "Find out whether the discovery files of this Emacs are there."
  (append
   (when-let* ((fault (gemini-companion-bridge-discovery-fault)))
     (mapcar (lambda (line)
               (gemini-companion-diagnosis--finding
                'problem (format "Clients cannot find this Emacs: %s." line)
                "Do what it says, then announce this Emacs again."
                (gemini-companion-diagnosis--announce-button)))
             (split-string fault "\n")))
   (mapcar #'gemini-companion-diagnosis--describe-damage
           (gemini-companion-bridge-damaged-files))))

(defun gemini-companion-diagnosis--describe-damage (file)
  "Say what was done to FILE, a discovery file of this Emacs."
  (let ((exists (file-attributes file)))
    (gemini-companion-diagnosis--finding
     'problem
     (if exists
         (format "%s is not as this Emacs wrote it: something changed it." file)
       (format "The discovery file %s of this Emacs is missing: something deleted it." file))
     (concat "Write it again, which Emacs does within a minute"
             (if exists "; then type /ide enable in the CLI."
               ".  A CLI that was started meanwhile does not know of Emacs: start it anew."))
     (gemini-companion-diagnosis--announce-button))))

(defun gemini-companion-diagnosis--announce-button ()
  "Return a button that writes the discovery files again."
  (cons "announce again"
        (lambda ()
          (gemini-companion-bridge-set-roots (gemini-companion-workspace-roots)))))

;;;;; The CLI

(defun gemini-companion-diagnosis--check-environment (case)
  "Find out what the environment in CASE keeps the CLI from."
  (append
   (when (gemini-companion-diagnosis-case-other case)
     (list (gemini-companion-diagnosis--finding
            'note "Another program runs in that terminal: what follows is for Gemini CLI there.")))
   (when (gemini-companion-diagnosis-case-hidden case)
     (list (gemini-companion-diagnosis--finding
            'note "This system does not tell the environment of that terminal; \
what follows is for that of Emacs.")))
   (delq nil (mapcar (lambda (check) (funcall check case))
                     '(gemini-companion-diagnosis--check-headless
                       gemini-companion-diagnosis--check-sandbox
                       gemini-companion-diagnosis--check-host
                       gemini-companion-diagnosis--check-proxy)))))

(defun gemini-companion-diagnosis--check-headless (case)
  "Find out whether the environment in CASE takes the CLI its screen."
  (when-let* ((name (seq-find (lambda (name)
                                (equal (gemini-companion-diagnosis-variable case name) "true"))
                              '("CI" "GITHUB_ACTIONS"))))
    (gemini-companion-diagnosis--finding
     'problem
     (format "%s=true: the CLI works without its screen then, and never connects." name)
     (format "Start it with that variable unset: env -u %s gemini" name))))

(defun gemini-companion-diagnosis--check-sandbox (case)
  "Find out whether the CLI in CASE runs itself in a container."
  (let ((variable (gemini-companion-diagnosis-variable case "GEMINI_SANDBOX"))
        (setting (gemini-companion-client-setting
                  (gemini-companion-diagnosis-case-settings case) '(tools sandbox))))
    (when (if variable (not (equal variable "false"))
            (and setting (not (member (car setting) '(nil :json-false "")))))
      (gemini-companion-diagnosis--finding
       'note
       (format "The CLI runs itself in a sandbox (%s), from which it may not reach this Emacs."
               (if variable "GEMINI_SANDBOX"
                 (format "tools.sandbox in %s" (cdr setting))))
       "If it does not connect, start it without: gemini --sandbox=false"))))

(defun gemini-companion-diagnosis--check-host (case)
  "Find out whether the CLI in CASE looks for the editor on this machine."
  (let ((host (gemini-companion-client-host (gemini-companion-diagnosis-case-environment case))))
    (unless (equal host "127.0.0.1")
      (gemini-companion-diagnosis--finding
       'problem
       (format "This is a container, in which the CLI connects to %s, and not to this Emacs."
               host)
       "Start it with REMOTE_CONTAINERS=true in its environment: it stays in the \
container then."))))

(defun gemini-companion-diagnosis--check-proxy (case)
  "Find out whether a proxy could come between the CLI in CASE and us."
  (when-let* ((name (seq-find (lambda (name) (gemini-companion-diagnosis-variable case name))
                              '("http_proxy" "HTTP_PROXY" "all_proxy" "ALL_PROXY"))))
    (let ((hosts (or (gemini-companion-diagnosis-variable case "no_proxy")
                     (gemini-companion-diagnosis-variable case "NO_PROXY")
                     "")))
      (unless (or (equal hosts "*")
                  (member "127.0.0.1" (split-string hosts "[, ]+" t)))
        (gemini-companion-diagnosis--finding
         'note
         (format "A proxy is set (%s), and NO_PROXY does not name 127.0.0.1: some versions \
of the CLI and other clients ask the proxy for this Emacs." name)
         "Start it with NO_PROXY=127.0.0.1,localhost in its environment, or by \
M-x gemini-companion-run, which sees to that.")))))

(defun gemini-companion-diagnosis--check-settings (case)
  "Find out what the settings in CASE keep the CLI from."
  (let* ((settings (gemini-companion-diagnosis-case-settings case))
         (broken (seq-find (pcase-lambda (`(,_ ,_ . ,content)) (stringp content)) settings)))
    (if broken
        (list (gemini-companion-diagnosis--finding
               'problem
               (format "The CLI does not start: its settings %s cannot be read (%s)."
                       (nth 1 broken) (cddr broken))
               "Mend that file."
               (gemini-companion-diagnosis--visit-button (nth 1 broken))))
      (append (gemini-companion-diagnosis--check-ide-mode case)
              (gemini-companion-diagnosis--check-trust case)))))

(defun gemini-companion-diagnosis--check-ide-mode (case)
  "Find out whether the CLI in CASE looks for an editor at all."
  (let* ((settings (gemini-companion-diagnosis-case-settings case))
         (environment (gemini-companion-diagnosis-case-environment case))
         (enabled (gemini-companion-client-ide-mode
                   (gemini-companion-diagnosis-case-directory case) environment settings))
         (asked (gemini-companion-client-setting settings '(ide hasSeenNudge)))
         (file (or (cdr enabled) (gemini-companion-client-user-settings environment)))
         ;; There is none that could be changed if the home is a relative name.
         (own (equal (expand-file-name file)
                     (gemini-companion-environment-settings 'gemini environment))))
    (if (eq (car enabled) t)
        (list (gemini-companion-diagnosis--finding
               'fine (format "IDE mode is on in %s." file)))
      (cons
       (gemini-companion-diagnosis--describe-ide-mode enabled file own environment)
       (unless (eq (car asked) t)
         (list (gemini-companion-diagnosis--finding
                'note
                "The CLI will ask whether to connect Emacs; its \"Yes\" runs /ide install, \
which cannot work."
                "Answer \"No (esc)\", then type /ide enable.")))))))

(defun gemini-companion-diagnosis--describe-ide-mode (enabled file own environment)
  "Say that ide.enabled, with what counts for it in ENABLED, is not true in FILE.
With OWN that is the file of the user who has ENVIRONMENT."
  (let ((text (format "IDE mode is off: ide.enabled is %s in %s."
                      (if enabled "false" "not set") file)))
    (if own
        (gemini-companion-diagnosis--finding
         'problem text
         "Have Emacs put it there, M-x gemini-companion-setup, and start the CLI anew; or type \
/ide enable in the CLI, once, and start it anew."
         (cons "put it there"
               (lambda () (gemini-companion-diagnosis--set-up environment))))
      (gemini-companion-diagnosis--finding
       'problem text "Make it true there, for that file comes first, and start the CLI anew."
       (gemini-companion-diagnosis--visit-button file)))))

(defun gemini-companion-diagnosis--set-up (environment)
  "Let a CLI with ENVIRONMENT connect by itself."
  (condition-case problem
      (message "%s" (gemini-companion-setup-do 'gemini environment))
    (gemini-companion-settings-unusable
     (user-error "%s" (gemini-companion-log-reason problem)))))

(defun gemini-companion-diagnosis--trust (case)
  "Return whether the CLI in CASE trusts its directory: `yes', `no' or `asks'."
  (gemini-companion-client-trust (gemini-companion-diagnosis-case-directory case)
                                 (gemini-companion-diagnosis-case-environment case)
                                 (gemini-companion-diagnosis-case-settings case)))

(defun gemini-companion-diagnosis--check-trust (case)
  "Find out whether the CLI in CASE trusts the directory."
  (pcase (gemini-companion-diagnosis--trust case)
    ('yes nil)
    ('no (list (gemini-companion-diagnosis--finding
                'note "The CLI does not trust this directory: it connects, but ignores \
settings, tools and environment of the project."
                "Type /permissions in the CLI to trust it.")))
    (_ (list (gemini-companion-diagnosis--finding
              'note "The CLI will ask whether you trust this directory." nil)))))

(defun gemini-companion-diagnosis--visit-button (file)
  "Return a button that visits FILE."
  (cons "open" (lambda () (find-file-other-window file))))

;;;;; The search

(defun gemini-companion-diagnosis--check-search (case)
  "Find out which discovery file the CLI in CASE takes."
  (let* ((search (gemini-companion-diagnosis-case-search case))
         (chosen (gemini-companion-client-search-chosen search))
         (files (gemini-companion-client-search-files search)))
    (append
     (delq nil (mapcar #'gemini-companion-diagnosis--check-file files))
     (cond ((null files) (gemini-companion-diagnosis--check-place case))
           ((null chosen)
            (list (gemini-companion-diagnosis--finding
                   'problem (format "No file in %s can be used."
                                    (gemini-companion-client-search-directory search))
                   "See what is said of each."
                   (gemini-companion-diagnosis--announce-or-nil))))
           (t (gemini-companion-diagnosis--check-chosen case chosen))))))

(defun gemini-companion-diagnosis-own-p (file)
  "Return non-nil if the discovery FILE is one of this Emacs."
  (and (gemini-companion-bridge-running-p)
       (seq-some (lambda (own)
                   (equal (file-truename own)
                          (file-truename (gemini-companion-client-file-name file))))
                 (gemini-companion-bridge-discovery-files))))

(defun gemini-companion-diagnosis--announce-or-nil ()
  "Return a button that announces this Emacs if its companion runs."
  (and (gemini-companion-bridge-running-p) (gemini-companion-diagnosis--announce-button)))

(defun gemini-companion-diagnosis--check-file (file)
  "Find out whether clients can use the discovery FILE."
  (when-let* ((fault (gemini-companion-client-file-fault file)))
    (let ((own (gemini-companion-diagnosis-own-p file)))
      (gemini-companion-diagnosis--finding
       (if own 'problem 'note)
       (format "%s %s: clients ignore it." (gemini-companion-client-file-name file) fault)
       (cond ((string-search "another user" fault)
              (format "Remove it, if you may: rm %s"
                      (shell-quote-argument (gemini-companion-client-file-name file))))
             (own "Announce this Emacs again."))
       (and own (gemini-companion-diagnosis--announce-button))))))

(defun gemini-companion-diagnosis--check-place (case)
  "Find out why there is no discovery file where the CLI in CASE looks."
  (let* ((place (gemini-companion-client-search-directory
                 (gemini-companion-diagnosis-case-search case)))
         (own (and (gemini-companion-bridge-running-p)
                   (gemini-companion-environment-directories 'gemini)))
         (elsewhere (and own
                         (not (member (file-truename place) (mapcar #'file-truename own))))))
    (list
     (if elsewhere
         (gemini-companion-diagnosis--finding
          'problem
          (format "The CLI looks in %s, but this Emacs announces itself in %s: \
their temporary directories (TMPDIR) differ."
                  place (string-join own ", "))
          (format "Add %s to `gemini-companion-temporary-directories', or start both with \
the same TMPDIR." (gemini-companion-diagnosis--temporary place))
          (cons "add, restart"
                (lambda () (gemini-companion-diagnosis--add-temporary
                            (gemini-companion-diagnosis--temporary place)))))
       (gemini-companion-diagnosis--finding
        'problem (format "There is no discovery file in %s." place)
        (if own "Announce this Emacs again."
          "Switch the companion on in Emacs, M-x gemini-companion-mode, before the CLI \
is started.")
        (gemini-companion-diagnosis--announce-or-nil))))))

(defun gemini-companion-diagnosis--temporary (place)
  "Return the temporary directory of which PLACE is the directory of files."
  (string-remove-suffix "/gemini/ide" place))

(defun gemini-companion-diagnosis--add-temporary (directory)
  "Announce this Emacs in the temporary DIRECTORY, too, from now on."
  (customize-set-variable 'gemini-companion-temporary-directories
                          (cons directory gemini-companion-temporary-directories))
  (gemini-companion-mode -1)
  (gemini-companion-mode 1)
  (message "To keep that: M-x customize-save-customized"))

(defun gemini-companion-diagnosis--check-chosen (case chosen)
  "Find out whether CHOSEN, which the CLI in CASE takes, leads it to an Emacs."
  (cond
   ((not (gemini-companion-client-ide chosen))
    (list (gemini-companion-diagnosis--finding
           'problem
           (format "The CLI takes %s, which lacks \"ideInfo\": it says that this editor is \
not supported." (gemini-companion-client-file-name chosen))
           "Update the companion that wrote it, or delete the file if nobody needs it."
           (gemini-companion-diagnosis--delete-button chosen))))
   ((not (gemini-companion-client-file-fits chosen))
    (list (gemini-companion-diagnosis--describe-mismatch case chosen)))
   ((gemini-companion-diagnosis-own-p chosen)
    (list (gemini-companion-diagnosis--finding
           'fine (format "A CLI that is started here takes the file of this Emacs, %s."
                         (gemini-companion-client-file-name chosen)))))
   (t (gemini-companion-diagnosis--describe-other case chosen))))

(defun gemini-companion-diagnosis--describe-mismatch (case chosen)
  "Say that the directory in CASE is in no root, though the CLI takes CHOSEN."
  (let* ((directory (directory-file-name (gemini-companion-diagnosis-case-directory case)))
         (real (directory-file-name (gemini-companion-client-real-directory directory)))
         (roots (gemini-companion-client-roots chosen))
         (emacs (equal (car (gemini-companion-client-ide chosen)) "emacs")))
    (gemini-companion-diagnosis--finding
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

(defun gemini-companion-diagnosis--describe-other (case chosen)
  "Say that the CLI in CASE takes CHOSEN, which is not a file of this Emacs."
  (let* ((name (gemini-companion-client-file-name chosen))
         (ide (gemini-companion-client-ide chosen))
         (process (gemini-companion-client-file-process chosen))
         (reason (gemini-companion-diagnosis--reason case chosen)))
    (cond
     ((gemini-companion-client-elsewhere-p chosen)
      (list (gemini-companion-diagnosis--finding
             'problem
             (format "The CLI takes %s, and not this Emacs (%s).  That was written in another \
container (PID namespace), or before this machine was started: whether its Emacs lives cannot \
be told here." name reason)
             "If that is gone delete the file; else give the two a TMPDIR each."
             (gemini-companion-diagnosis--delete-button chosen))))
     ((not (gemini-companion-client-file-alive chosen))
      (list (gemini-companion-diagnosis--finding
             'problem
             (format "The CLI takes %s, whose process %d is dead (%s): it fails, and tries \
no other file." name process reason)
             "Delete that file, and start the CLI anew."
             (gemini-companion-diagnosis--delete-button chosen))))
     ((not (gemini-companion-bridge-running-p))
      (list (gemini-companion-diagnosis--finding
             'fine (format "A CLI that is started here takes %s, of %s, process %d."
                           name (cdr ide) process))))
     (t (list (gemini-companion-diagnosis--finding
               'problem
               (format "The CLI takes %s, of %s, process %d, and not this Emacs (%s)."
                       name (cdr ide) process reason)
               "Start it by M-x gemini-companion-run, or give its terminal the variables \
that M-x gemini-companion-copy-environment copies."
               (cons "copy" #'gemini-companion-copy-environment)))))))

(defun gemini-companion-diagnosis--reason (case chosen)
  "Return in words why the CLI in CASE takes CHOSEN."
  (let* ((search (gemini-companion-diagnosis-case-search case))
         (others (seq-filter (lambda (file)
                               (and (not (eq file chosen))
                                    (gemini-companion-client-file-fits file)))
                             (gemini-companion-client-search-files search)))
         (wanted (gemini-companion-client-search-wanted search)))
    (cond ((null others) "no other has this directory in its roots")
          ((equal (gemini-companion-diagnosis-variable case "GEMINI_CLI_IDE_SERVER_PORT")
                  (format "%s" (gemini-companion-client-port chosen)))
           "GEMINI_CLI_IDE_SERVER_PORT names its port")
          ((eql wanted (gemini-companion-client-file-process chosen))
           (if (gemini-companion-diagnosis-variable case "GEMINI_CLI_IDE_PID")
               "GEMINI_CLI_IDE_PID names its process"
             "its process began that terminal"))
          (t "of several it has the highest process id"))))

(defun gemini-companion-diagnosis--delete-button (file)
  "Return a button that deletes the discovery FILE."
  (let ((name (gemini-companion-client-file-name file)))
    (cons "delete" (lambda ()
                     (when (y-or-n-p (format "Delete %s? " name))
                       (delete-file name))))))

;;;;; What takes time

(defun gemini-companion-diagnosis--probe-server (case callback)
  "Ask the server that the CLI in CASE should find; call CALLBACK with findings."
  (pcase (gemini-companion-diagnosis--server case)
    ('nil (funcall callback nil))
    (`(,port ,token . ,name)
     (let ((begun (float-time)))
       (gemini-companion-probe
        port token
        (lambda (outcome text)
          (funcall callback
                   (list (gemini-companion-diagnosis--describe-server
                          name outcome text (- (float-time) begun))))))))))

(defun gemini-companion-diagnosis--server (case)
  "Return (PORT TOKEN . NAME) of the server to ask in CASE, or nil.
That is ours, else the one that the CLI takes if that is an Emacs."
  (if (gemini-companion-bridge-running-p)
      (when-let* ((token (gemini-companion-bridge-token)))
        (cons (gemini-companion-bridge-port) (cons token "The server of this Emacs")))
    (let* ((chosen (gemini-companion-client-search-chosen
                    (gemini-companion-diagnosis-case-search case)))
           (port (and chosen (gemini-companion-client-port chosen)))
           (token (and chosen (gemini-companion-client-token chosen))))
      (and (natnump port) (< 0 port 65536)
           (stringp token) (string-match-p "\\`[!-~]+\\'" token)
           (equal (car (gemini-companion-client-ide chosen)) "emacs")
           (cons port (cons token (format "The Emacs on port %d" port)))))))

(defun gemini-companion-diagnosis--describe-server (name outcome text seconds)
  "Say that the server NAME gave OUTCOME with TEXT after SECONDS."
  (let* ((own (gemini-companion-bridge-running-p))
         (remedy (if own "Start it anew, M-x gemini-companion-restart."
                   "In that Emacs: M-x gemini-companion-restart, or the mode off and on."))
         (button (and own (cons "restart" #'gemini-companion-restart))))
    (pcase outcome
      ('alive (gemini-companion-diagnosis--finding
               'fine (format "%s answers a client after %.0f ms; its tools are %s."
                             name (* 1000 seconds) text)))
      ('refused (gemini-companion-diagnosis--finding
                 'problem
                 (if (equal text "HTTP 401")
                     (format "%s does not take the token in its file (%s)." name text)
                   (format "%s refuses a client: %s." name text))
                 remedy button))
      (_ (gemini-companion-diagnosis--finding
          'problem (format "%s does not answer: %s." name text) remedy button)))))

(defun gemini-companion-diagnosis--probe-program (case callback)
  "Ask the CLI in CASE for its version; call CALLBACK with findings."
  (let* ((process-environment (gemini-companion-diagnosis-case-environment case))
         (default-directory temporary-file-directory)
         (path (gemini-companion-diagnosis-variable case "PATH"))
         (exec-path (if path (parse-colon-path path) exec-path))
         (name (gemini-companion-run-program 'gemini))
         (program (executable-find name))
         (answer ""))
    (if (not program)
        (funcall callback
                 ;; One that runs was found in another way.
                 (unless (gemini-companion-diagnosis-case-runs case)
                   (list (gemini-companion-diagnosis--finding
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
                         (when (< (length answer) gemini-companion-diagnosis--max-answer)
                           (setq answer (concat answer text))))
               :sentinel (lambda (process _event)
                           (unless (process-live-p process)
                             (when timer (cancel-timer timer))
                             (funcall callback
                                      (list (gemini-companion-diagnosis--describe-program
                                             program answer))))))))
        (setq timer (run-at-time gemini-companion-diagnosis--patience nil
                                 #'delete-process process))
        ;; It may ask something; or have ended already.
        (ignore-errors (process-send-eof process))))))

(defun gemini-companion-diagnosis--describe-program (program answer)
  "Say which version PROGRAM has, which said ANSWER."
  (if (string-match "[0-9]+\\.[0-9]+\\.[0-9]+" answer)
      (gemini-companion-diagnosis--finding
       'fine (format "%s has version %s; %s was tested with this package."
                     program (match-string 0 answer) gemini-companion-diagnosis--tested))
    (gemini-companion-diagnosis--finding
     'problem
     (format "%s does not tell its version, but: %s" program
             (truncate-string-to-width (string-trim answer) 200 nil nil "..."))
     "Run it in a terminal to see what is wrong.")))

(provide 'gemini-companion-diagnosis)
;;; gemini-companion-diagnosis.el ends here

;;; gemini-companion-doctor.el --- Why a CLI does not connect -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Report what keeps a CLI from connecting, in a buffer or in batch mode.  The doctor examines one
;; case: a CLI that runs in the current terminal, or one that would be started in some directory.
;; The report shows no tokens and writes "~" for the home directory, so that it can go into a bug
;; report.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-client)
(require 'gemini-companion-context)
(require 'gemini-companion-extension)
(require 'gemini-companion-host)
(require 'gemini-companion-native)
(require 'gemini-companion-run)
(require 'gemini-companion-setup)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function gemini-companion-connect "gemini-companion-connect")
(declare-function gemini-companion-connection-describe-state "gemini-companion-connection")
(declare-function gemini-companion-connection-diagnosis "gemini-companion-connection")
(declare-function gemini-companion-connection-of-directory "gemini-companion-connection")
(declare-function gemini-companion-connection-probe "gemini-companion-connection")
(declare-function gemini-companion-connection-sessions "gemini-companion-connection")
(declare-function gemini-companion-connection-host "gemini-companion-connection" (connection) t)
(declare-function gemini-companion-connection-name "gemini-companion-connection" (connection) t)
(declare-function gemini-companion-connection-state "gemini-companion-connection" (connection) t)
(declare-function gemini-companion-connection-warnings "gemini-companion-connection" (connection) t)
(declare-function gemini-companion-install-module "gemini-companion-install")
(declare-function gemini-companion-mode "gemini-companion")
(declare-function gemini-companion-restart "gemini-companion")

(defconst gemini-companion-doctor--tested "0.61.0"
  "The version of Gemini CLI with which this package was tested.")

(defconst gemini-companion-doctor--oldest-on-hosts "0.7.0"
  "The first version of Gemini CLI that can be served on other machines.")

(defconst gemini-companion-doctor--probe-patience 10
  "Seconds after which to kill a program that has not printed its version.")

(cl-defstruct (gemini-companion-doctor--finding
               (:constructor gemini-companion-doctor--problem
                             (text &optional remedy button &aux (level 'problem)))
               (:constructor gemini-companion-doctor--note
                             (text &optional remedy button &aux (level 'note)))
               (:constructor gemini-companion-doctor--fine (text &aux (level 'fine)))
               (:copier nil))
  "A line of the report."
  (level nil :documentation "`problem', `note' or `fine'.")
  (text nil :documentation "What is so, as a sentence.")
  (remedy nil :documentation "What to do, as a sentence, or nil.")
  (button nil :documentation "What Emacs can do, (LABEL . FUNCTION), or nil."))

(cl-defstruct (gemini-companion-doctor--case (:copier nil))
  "The CLI that is examined."
  (directory nil :documentation "The directory in which it is started.")
  (environment nil :documentation "Its environment.")
  (process nil :documentation "The id of a process in or below which it runs, or nil.")
  (running nil :documentation "Non-nil if it runs already, as that process.")
  (where nil :documentation "Where that is, as text for the user.")
  (remote nil :documentation "Non-nil if the directory is on another machine.")
  (other-agent nil :documentation "Non-nil if another agent runs there.")
  (guessed nil :documentation "Non-nil if the environment is that of Emacs, for want of its own.")
  (search nil :documentation "What it finds, a `gemini-companion-client-search'.")
  (settings nil :documentation "Its settings; see `gemini-companion-client-settings'."))

(defvar-local gemini-companion-doctor--subject nil
  "The buffer and the directory to examine, (BUFFER . DIRECTORY).")

(defvar-local gemini-companion-doctor--current-case nil
  "The case that was examined last.")

;;;; Commands

(define-derived-mode gemini-companion-doctor-mode gemini-companion-report-mode "Gemini-Doctor"
  "Major mode for the report on what keeps a CLI from connecting.
\\{gemini-companion-doctor-mode-map}"
  :interactive nil
  (gemini-companion-ui-keep-keys 'gemini-companion-doctor-mode)
  (setq-local word-wrap t
              wrap-prefix "       "
              revert-buffer-function (lambda (&rest _) (gemini-companion-doctor--start))))

;;;###autoload
(defun gemini-companion-doctor (&optional directory)
  "Show what keeps a CLI from connecting to this Emacs.
In a terminal, examine the CLI that runs there; elsewhere, one in a
terminal that this Emacs would start in the current project, or, if that is
on another machine, there.  With a prefix argument, prompt for another
DIRECTORY."
  (interactive (list (and current-prefix-arg
                          (read-directory-name "Directory of the CLI: " nil nil t))))
  (let ((subject (cons (and (not directory) (current-buffer))
                       (expand-file-name (or directory (gemini-companion-doctor--directory))))))
    (gemini-companion-ui-pop-to "*gemini doctor*")
    (unless (derived-mode-p 'gemini-companion-doctor-mode)
      (gemini-companion-doctor-mode))
    (setq gemini-companion-doctor--subject subject)
    (gemini-companion-doctor--start)))

(defun gemini-companion-doctor--directory ()
  "Return where `gemini-companion-run' would run a CLI from the current buffer.
A terminal has a directory of its own, and another machine is asked nothing."
  (if (or (gemini-companion-host-remote-p default-directory)
          (gemini-companion-doctor--terminal-process (current-buffer)))
      default-directory
    (gemini-companion-run-project)))

(defun gemini-companion-doctor--start ()
  "Examine the subject of the current buffer, and show the report there."
  (pcase-let* ((`(,terminal . ,directory) gemini-companion-doctor--subject)
               (case (gemini-companion-doctor--case-of terminal directory))
               (buffer (current-buffer)))
    (setq default-directory (file-name-as-directory directory)
          gemini-companion-doctor--current-case case)
    (gemini-companion-doctor--examine
     case
     (lambda (findings pending)
       (when (buffer-live-p buffer)
         (with-current-buffer buffer
           ;; Ignore the results of earlier examinations.
           (when (eq case gemini-companion-doctor--current-case)
             (gemini-companion-ui-print
              (lambda () (gemini-companion-doctor--insert case findings pending))))))))))

;;;###autoload
(defun gemini-companion-doctor-batch ()
  "Print what keeps a CLI that is started here from connecting.
Call Emacs in the directory and the terminal in which the CLI is started,
with the options

  --batch -L PACKAGE-DIRECTORY -l gemini-companion-doctor \\
    -f gemini-companion-doctor-batch

Exit with status 1 if there is a problem.  The text holds no secrets."
  (let ((case (make-gemini-companion-doctor--case
               :directory default-directory :environment process-environment
               :process (emacs-pid) :where "the terminal in which this was called"))
        (findings nil)
        (pending nil))
    (gemini-companion-doctor--examine
     case (lambda (found left) (setq findings found pending left)))
    (with-timeout (15)
      (while (> pending 0)
        (accept-process-output nil 0.1)))
    (with-temp-buffer
      (let ((problems (gemini-companion-doctor--insert case findings pending)))
        (princ (buffer-string))
        (kill-emacs (min 1 problems))))))

;;;; The report

(defun gemini-companion-doctor--insert (case findings pending)
  "Insert FINDINGS about CASE; PENDING checks have no result yet.
Return the number of problems."
  (let* ((groups (seq-group-by #'gemini-companion-doctor--finding-level findings))
         (problems (length (alist-get 'problem groups))))
    (insert (propertize
             (pcase problems
               (0 (if (> pending 0) "No problem was found so far"
                    "No problem: a CLI that is started here finds an Emacs"))
               (1 "One problem")
               (_ (format "%d problems; begin with the first" problems)))
             'face 'bold)
            (if (> pending 0) ", still looking...\n" "\n"))
    (gemini-companion-doctor--line "for a CLI in %s, in %s"
                                   (gemini-companion-doctor--case-directory case)
                                   (gemini-companion-doctor--case-where case))
    (pcase-dolist (`(,level . ,heading) '((problem . "Problems") (note . "Notes")
                                          (fine . "As it should be")))
      (when-let* ((findings (alist-get level groups)))
        (insert "\n" (propertize heading 'face 'bold) "\n")
        (mapc #'gemini-companion-doctor--insert-finding findings)))
    (when (gemini-companion-doctor--case-search case)
      (insert "\n" (propertize "What the CLI sees" 'face 'bold) "\n")
      (gemini-companion-doctor--insert-facts case))
    problems))

(defun gemini-companion-doctor--insert-finding (finding)
  "Insert FINDING, with its button."
  (gemini-companion-doctor--line "* %s" (gemini-companion-doctor--finding-text finding))
  (when-let* ((remedy (gemini-companion-doctor--finding-remedy finding)))
    (gemini-companion-doctor--line "  -> %s" remedy))
  (pcase (gemini-companion-doctor--finding-button finding)
    ((and `(,label . ,function) (guard (not noninteractive)))
     (let ((buffer (current-buffer)))
       (insert "     ")
       (gemini-companion-ui-button label
                                   (lambda ()
                                     (funcall function)
                                     (when (buffer-live-p buffer)
                                       (with-current-buffer buffer
                                         (gemini-companion-doctor--start))))
                                   (gemini-companion-doctor--finding-text finding))
       (insert "\n")))))

(defun gemini-companion-doctor--insert-facts (case)
  "Insert what the CLI in CASE sees, and the versions of what runs here."
  (pcase-let (((cl-struct gemini-companion-client-search directory wanted files chosen)
               (gemini-companion-doctor--case-search case)))
    (gemini-companion-doctor--line "looks in %s, for process %s" directory (or wanted "(any)"))
    (dolist (file files)
      (gemini-companion-doctor--line "%s %s" (if (eq file chosen) "takes" "finds")
                                     (gemini-companion-doctor--describe-file file))))
  (dolist (name '("TMPDIR" "TMP" "TEMP" "GEMINI_CLI_IDE_SERVER_PORT" "GEMINI_CLI_IDE_PID"
                  "GEMINI_CLI_IDE_WORKSPACE_PATH" "NO_PROXY" "REMOTE_CONTAINERS"))
    (when-let* ((value (gemini-companion-doctor--variable case name)))
      (gemini-companion-doctor--line "%s=%s" name value)))
  (gemini-companion-doctor--line "package %s, Emacs %s on %s"
                                 gemini-companion-native-version emacs-version
                                 system-configuration))

(defun gemini-companion-doctor--describe-file (file)
  "Return a description of the discovery FILE."
  (concat (file-name-nondirectory (gemini-companion-client-file-name file))
          (if (gemini-companion-doctor--own-p file)
              ", this Emacs"
            (when-let* ((ide (gemini-companion-client-ide file)))
              (concat ", " (cdr ide))))
          (cond ((gemini-companion-client-elsewhere-p file)
                 ", of another container or start of the machine")
                ((not (gemini-companion-client-file-alive file)) ", its process is dead"))
          (if-let* ((fault (gemini-companion-client-file-fault file)))
              (concat ", " fault)
            (format ", roots: %s" (string-join (or (gemini-companion-client-roots file) '("none"))
                                               ", ")))))

(defun gemini-companion-doctor--line (format &rest arguments)
  "Insert a line, FORMAT with ARGUMENTS, in which the home directory is \"~\"."
  (let ((home (directory-file-name (expand-file-name "~")))
        (text (apply #'format format arguments)))
    (gemini-companion-ui-line
     "%s"
     (if (< (length home) 2) text
       (replace-regexp-in-string
        (concat "\\(" (regexp-quote home) "\\)\\(?:[^[:alnum:]_.-]\\|\\'\\)")
        "~" text t t 1)))))

;;;; The case

(defun gemini-companion-doctor--case-of (buffer directory)
  "Return the case of a CLI in the terminal BUFFER, or else in DIRECTORY."
  (let ((root (and (buffer-live-p buffer)
                   (buffer-local-value 'gemini-companion-run-root buffer))))
    (if (gemini-companion-host-remote-p (or root directory))
        (make-gemini-companion-doctor--case
         :directory (or root directory) :where "a terminal on that machine" :remote t)
      (gemini-companion-doctor--case-here buffer directory))))

(defun gemini-companion-doctor--case-here (buffer directory)
  "Return the case of a CLI in the terminal BUFFER, or else in DIRECTORY.
Both are on this machine."
  (if-let* ((terminal (gemini-companion-doctor--terminal-process buffer)))
      (let* ((cli (gemini-companion-doctor--cli-below terminal))
             (process (or cli terminal))
             (environment (gemini-companion-client-environment process)))
        (make-gemini-companion-doctor--case
         :directory (or (file-symlink-p (format "/proc/%d/cwd" process)) directory)
         :environment (or environment (default-toplevel-value 'process-environment))
         :process process :running cli :guessed (not environment)
         :other-agent (not (memq (buffer-local-value 'gemini-companion-run-agent buffer)
                                 '(nil gemini)))
         :where (format "the terminal %s, process %d" (buffer-name buffer) process)))
    (make-gemini-companion-doctor--case
     :directory directory
     :environment (default-toplevel-value 'process-environment)
     :where "a terminal that this Emacs starts")))

(defun gemini-companion-doctor--terminal-process (buffer)
  "Return the id of the process in BUFFER, or nil if it is not a terminal."
  (when-let* ((process (and (buffer-live-p buffer) (get-buffer-process buffer))))
    (and (processp process)
         (eq (process-type process) 'real)
         (with-current-buffer buffer
           (apply #'derived-mode-p gemini-companion-workspace-terminal-modes))
         (process-id process))))

(defun gemini-companion-doctor--cli-below (process)
  "Return the id of the CLI that runs as or below PROCESS, or nil."
  (let ((clis (seq-filter (lambda (id) (memq process (gemini-companion-run-ancestry id)))
                          (gemini-companion-doctor--clis))))
    ;; The CLI starts itself a second time, and that process has the highest id.
    (and clis (apply #'max clis))))

(defun gemini-companion-doctor--clis ()
  "Return the ids of all processes on this machine that run Gemini CLI."
  (let ((name (file-name-nondirectory (gemini-companion-run-program 'gemini))))
    (seq-filter (lambda (id) (gemini-companion-doctor--runs-p name id))
                (list-system-processes))))

(defun gemini-companion-doctor--runs-p (program process)
  "Return non-nil if PROCESS runs PROGRAM, perhaps in an interpreter."
  (let ((words (split-string (or (alist-get 'args (process-attributes process)) "") " " t)))
    (seq-some (lambda (word)
                (member (file-name-nondirectory word) (list program (concat program ".js"))))
              (seq-take words 4))))

(defun gemini-companion-doctor--variable (case name)
  "Return the environment variable NAME in CASE, or nil if it is empty."
  (gemini-companion-agent-getenv
   name (gemini-companion-doctor--case-environment case)))

;;;; The examination

;; A check is called with a case and returns findings: one, or a tree of them and nils.

(defun gemini-companion-doctor--examine (case callback)
  "Examine CASE, and call CALLBACK now and for each later result.
Its arguments are the findings so far, and how many results are still to
come."
  (let* ((steps (if (gemini-companion-doctor--case-remote case)
                    '(gemini-companion-doctor--run-remote-checks
                      gemini-companion-doctor--probe-remote-program)
                  '(gemini-companion-doctor--run-checks
                    gemini-companion-doctor--probe-server
                    gemini-companion-doctor--probe-program)))
         (pending (length steps))
         (results (make-vector pending nil)))
    (seq-do-indexed
     (lambda (step index)
       (funcall step case
                (lambda (findings)
                  (aset results index findings)
                  (setq pending (1- pending))
                  (funcall callback (flatten-tree (append results nil)) pending))))
     steps)))

(defun gemini-companion-doctor--run-checks (case callback)
  "Do the checks of CASE that take no time, and call CALLBACK with the findings."
  (pcase-let (((cl-struct gemini-companion-doctor--case directory environment process) case))
    (setf (gemini-companion-doctor--case-search case)
          (gemini-companion-client-find directory environment process)
          (gemini-companion-doctor--case-settings case)
          (gemini-companion-client-settings directory environment)))
  (funcall callback (mapcar (lambda (check) (funcall check case))
                            '(gemini-companion-doctor--check-module
                              gemini-companion-doctor--check-companion
                              gemini-companion-doctor--check-terminal
                              gemini-companion-doctor--check-headless
                              gemini-companion-doctor--check-sandbox
                              gemini-companion-doctor--check-host
                              gemini-companion-doctor--check-proxy
                              gemini-companion-doctor--check-settings
                              gemini-companion-doctor--check-search
                              gemini-companion-doctor--check-tools))))

;;;; Checks of this Emacs

(defun gemini-companion-doctor--check-module (_case)
  "Check whether this Emacs has loaded the native module, or could."
  (cond
   ((not module-file-suffix)
    (gemini-companion-doctor--problem
     "This Emacs was built without support for native modules."
     "Install one that has it (its build option is --with-modules)."))
   ((gemini-companion-native-current-p)
    (gemini-companion-doctor--fine
     (format "The native module is loaded, version %s." gemini-companion-native-version)))
   ((gemini-companion-native-loaded-version)
    (gemini-companion-doctor--problem
     (format "The native module that is loaded has version %s, this package needs %s."
             (gemini-companion-native-loaded-version) gemini-companion-native-version)
     "Switch the mode off and on; restart Emacs if that tells you to."))
   (t (condition-case error
          (unless (gemini-companion-native-find)
            (gemini-companion-doctor--problem
             (format "The native module is missing: %s."
                     (gemini-companion-native-describe-missing))
             "Install it: M-x gemini-companion-install-module."
             (cons "install" #'gemini-companion-install-module)))
        (gemini-companion-native-missing
         (gemini-companion-doctor--problem
          (format "The native module cannot be used: %s." (gemini-companion-ui-error-text error))
          "Correct that name, or remove it to let Emacs find the module."))))))

(defun gemini-companion-doctor--check-companion (case)
  "Check the companion of this Emacs, and whether the CLI in CASE is connected."
  (cond
   (noninteractive nil)
   ((not (gemini-companion-bridge-running-p))
    (gemini-companion-doctor--problem
     "The companion is off in this Emacs."
     "Switch it on: M-x gemini-companion-mode; then start the CLI."
     (cons "switch on" (lambda () (gemini-companion-mode 1)))))
   ((not (gemini-companion-bridge-token))
    (gemini-companion-doctor--problem
     "Gemini CLI is not served: `gemini-companion-agents' does not name it."
     "Add it, and switch the mode off and on."))
   (t (list (unless (gemini-companion-doctor--case-remote case)
              (list (gemini-companion-doctor--check-announcement)
                    (gemini-companion-doctor--check-connection case)
                    (gemini-companion-doctor--check-container)))
            (when gemini-companion-context-paused
              (gemini-companion-doctor--note
               "Clients are told that no file is open, because the context is paused."
               "Resume it: M-x gemini-companion-toggle-context."
               (cons "resume" #'gemini-companion-toggle-context)))))))

(defun gemini-companion-doctor--check-announcement ()
  "Check whether the discovery files of this Emacs are there and intact."
  (list
   (mapcar (lambda (line)
             (gemini-companion-doctor--problem
              (format "Clients cannot find this Emacs: %s." line)
              "Do what it says, then announce this Emacs again."
              (gemini-companion-doctor--announce-button)))
           (split-string (or (gemini-companion-bridge-discovery-fault) "") "\n" t))
   (mapcar #'gemini-companion-doctor--describe-damage
           (gemini-companion-bridge-damaged-files))))

(defun gemini-companion-doctor--describe-damage (file)
  "Return the finding that FILE, a discovery file of this Emacs, was damaged."
  (let ((exists (file-attributes file)))
    (gemini-companion-doctor--problem
     (format (if exists "%s is not as this Emacs wrote it: something changed it."
               "The discovery file %s of this Emacs is missing: something deleted it.")
             file)
     (concat "Write it again, which Emacs does within a minute"
             (if exists "; then type /ide enable in the CLI."
               ".  A CLI that was started meanwhile does not know of Emacs: restart it."))
     (gemini-companion-doctor--announce-button))))

(defun gemini-companion-doctor--announce-button ()
  "Return a button that writes the discovery files again, or nil.
It is nil if the companion does not run."
  (when (gemini-companion-bridge-running-p)
    (cons "announce again"
          (lambda ()
            (gemini-companion-bridge-set-roots (gemini-companion-workspace-roots))))))

(defun gemini-companion-doctor--check-connection (case)
  "Check whether the CLI in CASE, if it runs, is connected."
  (when (gemini-companion-doctor--case-running case)
    (let ((process (gemini-companion-doctor--case-process case)))
      (if (seq-some (pcase-lambda (`[,_ ,_ ,client ,_ ,stream ,_ ,_])
                      (and client (eq stream 'open)
                           (memq process (gemini-companion-run-ancestry client))))
                    (gemini-companion-bridge-sessions))
          (gemini-companion-doctor--fine (format "The CLI, process %d, is connected." process))
        (gemini-companion-doctor--problem
         (format "The CLI, process %d, is not connected: it looks for an editor only when it \
starts." process)
         "Type /ide enable in it; if it says that the editor is not supported, restart it.")))))

(defun gemini-companion-doctor--check-container ()
  "Check whether CLIs in the container of this Emacs look for it there.
Those that it starts do, because it tells them."
  (when (and (gemini-companion-agent-container-p)
             (not (gemini-companion-agent-same-host-p
                   (gemini-companion-agent-environment-before))))
    (let ((astray (seq-some
                   (lambda (id)
                     (when-let* ((environment (gemini-companion-client-environment id)))
                       (not (gemini-companion-agent-same-host-p environment))))
                   (gemini-companion-doctor--clis))))
      (funcall (if astray #'gemini-companion-doctor--problem #'gemini-companion-doctor--note)
               (format "This is a container.  %s looks for its editor on the machine around it."
                       (if astray "A CLI that runs in here already"
                         "A CLI that a program other than this Emacs starts in here"))
               "Start it by M-x gemini-companion-run, or with REMOTE_CONTAINERS=true in its \
environment, which M-x gemini-companion-copy-environment also copies."
               (cons "copy" #'gemini-companion-copy-environment)))))

;;;; Checks of the CLI's environment

(defun gemini-companion-doctor--check-terminal (case)
  "Check whether this report is really about the terminal in CASE."
  (list
   (when (gemini-companion-doctor--case-other-agent case)
     (gemini-companion-doctor--note
      "Another program runs in that terminal: this report is for Gemini CLI there."))
   (when (gemini-companion-doctor--case-guessed case)
     (gemini-companion-doctor--note
      "This system does not reveal the environment of that terminal: \
this report is for the environment of Emacs."))))

(defun gemini-companion-doctor--check-headless (case)
  "Check whether the environment in CASE deprives the CLI of its user interface."
  (when-let* ((name (seq-find (lambda (name)
                                (equal (gemini-companion-doctor--variable case name) "true"))
                              '("CI" "GITHUB_ACTIONS"))))
    (gemini-companion-doctor--problem
     (format "%s=true: the CLI then runs without its user interface, and never connects." name)
     (format "Start it with that variable unset: env -u %s gemini" name))))

(defun gemini-companion-doctor--check-sandbox (case)
  "Check whether the CLI in CASE runs itself in a container."
  (let ((variable (gemini-companion-doctor--variable case "GEMINI_SANDBOX"))
        (setting (gemini-companion-client-setting
                  (gemini-companion-doctor--case-settings case) '(tools sandbox))))
    (when (if variable (not (equal variable "false"))
            (and setting (not (member (car setting) '(nil :json-false "")))))
      (gemini-companion-doctor--note
       (format "The CLI runs itself in a sandbox (%s), from which it perhaps cannot reach this Emacs."
               (if variable "GEMINI_SANDBOX"
                 (format "tools.sandbox in %s" (cdr setting))))
       "If it does not connect, start it without: gemini --sandbox=false"))))

(defun gemini-companion-doctor--check-host (case)
  "Check whether the CLI in CASE looks for the editor on this machine."
  (let ((host (gemini-companion-client-host (gemini-companion-doctor--case-environment case))))
    (unless (equal host "127.0.0.1")
      (gemini-companion-doctor--problem
       (format "This is a container, in which the CLI connects to %s, and not to this Emacs."
               host)
       "Start it with REMOTE_CONTAINERS=true in its environment: it then stays in the \
container."))))

(defun gemini-companion-doctor--check-proxy (case)
  "Check whether a proxy could come between the CLI in CASE and this Emacs."
  (when-let* ((name (seq-find (lambda (name) (gemini-companion-doctor--variable case name))
                              '("http_proxy" "HTTP_PROXY" "all_proxy" "ALL_PROXY"))))
    (let ((hosts (or (gemini-companion-doctor--variable case "no_proxy")
                     (gemini-companion-doctor--variable case "NO_PROXY")
                     "")))
      (unless (or (equal hosts "*")
                  (member "127.0.0.1" (split-string hosts "[, ]+" t)))
        (gemini-companion-doctor--note
         (format "A proxy is set (%s), and NO_PROXY does not name 127.0.0.1: some versions \
of the CLI and other clients ask the proxy for this Emacs." name)
         "Start it with NO_PROXY=127.0.0.1,localhost in its environment, or by \
M-x gemini-companion-run, which takes care of that.")))))

;;;; Checks of the CLI's settings

(defun gemini-companion-doctor--check-settings (case)
  "Check whether the settings in CASE keep the CLI from connecting."
  (pcase (seq-find (pcase-lambda (`(,_ ,_ . ,content)) (stringp content))
                   (gemini-companion-doctor--case-settings case))
    (`(,_ ,file . ,fault)
     (gemini-companion-doctor--problem
      (format "The CLI does not start: its settings %s cannot be read (%s)." file fault)
      "Correct that file."
      (cons "open" (lambda () (find-file-other-window file)))))
    (_ (list (gemini-companion-doctor--check-ide-mode case)
             (gemini-companion-doctor--check-trust case)))))

(defun gemini-companion-doctor--check-ide-mode (case)
  "Check whether the CLI in CASE looks for an editor at all."
  (pcase-let* (((cl-struct gemini-companion-doctor--case directory environment settings) case)
               (enabled (gemini-companion-client-ide-mode directory environment settings))
               (file (or (cdr enabled) (gemini-companion-client-user-settings environment)))
               (text (format "IDE mode is off: ide.enabled is %s in %s."
                             (if enabled "false" "not set") file)))
    (if (eq (car enabled) t)
        (gemini-companion-doctor--fine (format "IDE mode is on in %s." file))
      (list
       (if (equal (expand-file-name file)
                  ;; Nil if the home is a relative name.
                  (gemini-companion-agent-settings-file 'gemini environment))
           (gemini-companion-doctor--problem
            text
            "Type M-x gemini-companion-setup to set it, and restart the CLI; or type \
/ide enable in the CLI once, and restart it."
            (cons "put it there" (lambda () (gemini-companion-doctor--set-up environment))))
         (gemini-companion-doctor--problem
          text "Make it true there, because that file takes precedence, and restart the CLI."
          (cons "open" (lambda () (find-file-other-window file)))))
       (unless (eq t (car (gemini-companion-client-setting settings '(ide hasSeenNudge))))
         (gemini-companion-doctor--note
          "The CLI will ask whether to connect Emacs; its \"Yes\" runs /ide install, \
which cannot work."
          "Answer \"No (esc)\", then type /ide enable."))))))

(defun gemini-companion-doctor--set-up (environment)
  "Let a CLI with ENVIRONMENT connect when it starts."
  (condition-case problem
      (message "%s" (gemini-companion-setup-do 'gemini environment))
    (gemini-companion-setup-unusable
     (user-error "%s" (gemini-companion-ui-error-text problem)))))

(defun gemini-companion-doctor--check-trust (case)
  "Check whether the CLI in CASE trusts its directory."
  (pcase-let (((cl-struct gemini-companion-doctor--case directory environment settings) case))
    (pcase (gemini-companion-client-trust directory environment settings)
      ('no (gemini-companion-doctor--note
            "The CLI does not trust this directory: it connects, but ignores \
settings, tools and environment of the project."
            "Type /permissions in the CLI to trust it."))
      ('asks (gemini-companion-doctor--note
              "The CLI will ask whether you trust this directory.")))))

;;;; Checks of the search for an editor

(defun gemini-companion-doctor--check-search (case)
  "Check which discovery file the CLI in CASE takes."
  (pcase-let (((cl-struct gemini-companion-client-search directory files chosen)
               (gemini-companion-doctor--case-search case)))
    (list (mapcar #'gemini-companion-doctor--check-file files)
          (cond (chosen (gemini-companion-doctor--check-chosen case chosen))
                (files (gemini-companion-doctor--problem
                        (format "No file in %s can be used." directory)
                        "See what this report says about each."
                        (gemini-companion-doctor--announce-button)))
                (t (gemini-companion-doctor--check-directory directory))))))

(defun gemini-companion-doctor--own-p (file)
  "Return non-nil if the discovery FILE is one of this Emacs."
  (and (gemini-companion-bridge-running-p)
       (member (file-truename (gemini-companion-client-file-name file))
               (mapcar #'file-truename (gemini-companion-bridge-discovery-files)))))

(defun gemini-companion-doctor--check-file (file)
  "Check whether clients can use the discovery FILE."
  (when-let* ((fault (gemini-companion-client-file-fault file)))
    (let* ((name (gemini-companion-client-file-name file))
           (own (gemini-companion-doctor--own-p file)))
      (funcall (if own #'gemini-companion-doctor--problem #'gemini-companion-doctor--note)
               (format "%s %s: clients ignore it." name fault)
               (cond ((string-search "another user" fault)
                      (format "Remove it, if you may: rm %s" (shell-quote-argument name)))
                     (own "Announce this Emacs again."))
               (and own (gemini-companion-doctor--announce-button))))))

(defun gemini-companion-doctor--check-directory (directory)
  "Check why there is no discovery file in DIRECTORY, where the CLI looks."
  (let ((own (and (gemini-companion-bridge-running-p)
                  (gemini-companion-agent-directories 'gemini)))
        (temporary (string-remove-suffix "/gemini/ide" directory)))
    (if (and own (not (member (file-truename directory) (mapcar #'file-truename own))))
        (gemini-companion-doctor--problem
         (format "The CLI looks in %s, but this Emacs announces itself in %s: \
their temporary directories (TMPDIR) differ." directory (string-join own ", "))
         (format "Add %s to `gemini-companion-temporary-directories', or start both with \
the same TMPDIR." temporary)
         (cons "add, restart"
               (lambda ()
                 (customize-set-variable 'gemini-companion-temporary-directories
                                         (cons temporary gemini-companion-temporary-directories))
                 (gemini-companion-mode -1)
                 (gemini-companion-mode 1)
                 (message "To keep that: M-x customize-save-customized"))))
      (gemini-companion-doctor--problem
       (format "There is no discovery file in %s." directory)
       (if own "Announce this Emacs again."
         "Switch the companion on in Emacs, M-x gemini-companion-mode, before the CLI \
is started.")
       (gemini-companion-doctor--announce-button)))))

(defun gemini-companion-doctor--check-chosen (case chosen)
  "Check whether CHOSEN, which the CLI in CASE takes, leads it to an Emacs."
  (let ((name (gemini-companion-client-file-name chosen)))
    (cond
     ((not (gemini-companion-client-ide chosen))
      (gemini-companion-doctor--problem
       (format "The CLI takes %s, which lacks \"ideInfo\": it says that this editor is not \
supported." name)
       "Update the companion that wrote it, or delete the file if nobody needs it."
       (gemini-companion-doctor--delete-button name)))
     ((not (gemini-companion-client-file-fits chosen))
      (gemini-companion-doctor--describe-mismatch case chosen))
     ((gemini-companion-doctor--own-p chosen)
      (gemini-companion-doctor--fine
       (format "A CLI that is started here takes the file of this Emacs, %s." name)))
     (t (gemini-companion-doctor--describe-other case chosen)))))

(defun gemini-companion-doctor--describe-mismatch (case chosen)
  "Return the finding that no root in CHOSEN has the directory in CASE."
  (let* ((directory (directory-file-name (gemini-companion-doctor--case-directory case)))
         (real (directory-file-name (gemini-companion-client-real-directory directory)))
         (ide (gemini-companion-client-ide chosen)))
    (gemini-companion-doctor--problem
     (format "%s%s is in no workspace root that %s announces (%s): \
the CLI says \"Directory mismatch\"."
             directory
             (if (equal real directory) "" (format ", which is a link to %s," real))
             (if (equal (car ide) "emacs") "Emacs" (cdr ide))
             (string-join (or (gemini-companion-client-roots chosen) '("there are none")) ", "))
     (format "Visit a file of that project in Emacs, or add %s to \
`gemini-companion-workspace-roots'." real)
     (and (gemini-companion-bridge-running-p)
          (cons "add" (lambda ()
                        (customize-set-variable
                         'gemini-companion-workspace-roots
                         (cons real gemini-companion-workspace-roots))
                        (gemini-companion-workspace-announce)))))))

(defun gemini-companion-doctor--describe-other (case chosen)
  "Return the finding that the CLI in CASE takes CHOSEN, of another editor."
  (let ((name (gemini-companion-client-file-name chosen))
        (editor (format "%s, process %d" (cdr (gemini-companion-client-ide chosen))
                        (gemini-companion-client-file-process chosen)))
        (reason (gemini-companion-client-reason
                 (gemini-companion-doctor--case-search case)
                 (gemini-companion-doctor--case-environment case))))
    (cond
     ((gemini-companion-client-elsewhere-p chosen)
      (gemini-companion-doctor--problem
       (format "The CLI takes %s, and not this Emacs (%s).  That file was written in another \
container (PID namespace), or before this machine was started: nothing here can tell whether its \
Emacs is alive." name reason)
       "If that Emacs is gone, delete the file; else give each of the two a TMPDIR of its own."
       (gemini-companion-doctor--delete-button name)))
     ((not (gemini-companion-client-file-alive chosen))
      (gemini-companion-doctor--problem
       (format "The CLI takes %s, whose process %d is dead (%s): it fails, and tries \
no other file." name (gemini-companion-client-file-process chosen) reason)
       "Delete that file, and restart the CLI."
       (gemini-companion-doctor--delete-button name)))
     ((not (gemini-companion-bridge-running-p))
      (gemini-companion-doctor--fine
       (format "A CLI that is started here takes %s, of %s." name editor)))
     (t (gemini-companion-doctor--problem
         (format "The CLI takes %s, of %s, and not this Emacs (%s)." name editor reason)
         "Start it by M-x gemini-companion-run, or give its terminal the variables \
that M-x gemini-companion-copy-environment copies."
         (cons "copy" #'gemini-companion-copy-environment))))))

(defun gemini-companion-doctor--delete-button (file)
  "Return a button that deletes FILE, after a question."
  (cons "delete" (lambda ()
                   (when (y-or-n-p (format "Delete %s? " file))
                     (delete-file file)))))

;;;; Checks of the tools for the model

(defun gemini-companion-doctor--check-tools (case)
  "Check whether the model of the CLI in CASE can use the tools of Emacs."
  (pcase (gemini-companion-extension-state 'gemini
                                           (gemini-companion-doctor--case-environment case))
    ('nil (if (gemini-companion-extension-declined-p)
              (gemini-companion-doctor--fine "The model has no tools of Emacs: you declined them.")
            (gemini-companion-doctor--note
             "The model cannot use the tools of Emacs."
             "To let it, type M-x gemini-companion-tools-enable, and restart the CLI."
             (gemini-companion-doctor--tools-button))))
    ((and (pred stringp) reason)
     (gemini-companion-doctor--note
      (format "The model cannot use the tools of Emacs: %s." reason)))
    (state
     (list
      (if (eq state 'stale)
          (gemini-companion-doctor--note
           "The files of the tools of Emacs were changed, or are of another version of this package."
           "Write them again: M-x gemini-companion-tools-enable."
           (gemini-companion-doctor--tools-button))
        (gemini-companion-doctor--fine "The model can use the tools of Emacs."))
      (unless (gemini-companion-doctor--find-program case "node")
        (gemini-companion-doctor--problem
         "There is no program `node' on PATH: the CLI cannot call the tools of Emacs."
         "Put Node's directory on PATH, or remove the tools, \
M-x gemini-companion-tools-disable."))))))

(defun gemini-companion-doctor--tools-button ()
  "Return a button that enables the tools for the model."
  (cons "enable" #'gemini-companion-tools-enable))

;;;; Checks of another machine

;; Whatever they tell is known already: nothing here asks the machine, but the probe.

(defun gemini-companion-doctor--run-remote-checks (case callback)
  "Do the checks of CASE, on another machine, and call CALLBACK with the findings."
  (funcall callback (mapcar (lambda (check) (funcall check case))
                            '(gemini-companion-doctor--check-module
                              gemini-companion-doctor--check-companion
                              gemini-companion-doctor--check-machine))))

(defun gemini-companion-doctor--connection (case)
  "Return the connection to the machine of CASE, or nil."
  (and (featurep 'gemini-companion-connection)
       (gemini-companion-connection-of-directory (gemini-companion-doctor--case-directory case))))

(defun gemini-companion-doctor--connect-button (case)
  "Return a button that connects the machine of CASE."
  (cons "connect" (lambda ()
                    (gemini-companion-connect (gemini-companion-doctor--case-directory case)))))

(defun gemini-companion-doctor--check-machine (case)
  "Check whether the machine of CASE is connected."
  (when (gemini-companion-bridge-running-p)
    (let ((connection (gemini-companion-doctor--connection case)))
      (pcase (and connection (gemini-companion-connection-state connection))
        ('nil (gemini-companion-doctor--problem
               "The host of this directory is not connected."
               "Connect it: M-x gemini-companion-connect."
               (gemini-companion-doctor--connect-button case)))
        ('ready (gemini-companion-doctor--check-host-connection case connection))
        ('connecting (gemini-companion-doctor--note
                      "This machine is being connected." "Wait, and look again."))
        (_ (pcase-let ((`(,text . ,remedy) (gemini-companion-connection-diagnosis connection)))
             (gemini-companion-doctor--problem
              (concat text ".") (and remedy (concat remedy "."))
              (gemini-companion-doctor--connect-button case))))))))

(defun gemini-companion-doctor--check-host-connection (case connection)
  "Check CONNECTION, which is ready, for the CLI in CASE."
  (let ((name (gemini-companion-connection-name connection))
        (directory (file-name-as-directory
                    (file-local-name (gemini-companion-doctor--case-directory case)))))
    (list
     (gemini-companion-doctor--fine
      (format "%s is %s." name (gemini-companion-connection-describe-state connection)))
     (mapcar (lambda (warning)
               (gemini-companion-doctor--note
                (format "%s warns: %s" name warning)
                (and (string-search "belongs to another user" warning)
                     "If a CLI does not find this Emacs, set TMPDIR there to a directory of your \
own, in a file that all shells read.")))
             (gemini-companion-connection-warnings connection))
     (unless (gemini-companion-host-roots-of (gemini-companion-connection-host connection)
                                             directory)
       (gemini-companion-doctor--problem
        (format "%s is in no workspace root of %s." directory name)
        "Make it one: M-x gemini-companion-connect."
        (gemini-companion-doctor--connect-button case)))
     (pcase (length (gemini-companion-connection-sessions connection))
       (0 (gemini-companion-doctor--note
           (format "No CLI on %s is connected." name)
           "Start one: M-x gemini-companion-run.  One that ran before the machine was connected \
must be restarted; in a newer one, type /ide enable."))
       (sessions (gemini-companion-doctor--fine
                  (format (ngettext "%d session of CLIs on %s." "%d sessions of CLIs on %s."
                                    sessions)
                          sessions name)))))))

(defun gemini-companion-doctor--probe-remote-program (case callback)
  "Find out which version the CLI on the machine of CASE has.
Call CALLBACK with the finding, or nil."
  (let ((connection (gemini-companion-doctor--connection case))
        (program (gemini-companion-agent-get 'gemini :program)))
    (if (not (and connection (eq (gemini-companion-connection-state connection) 'ready)))
        (funcall callback nil)
      (gemini-companion-connection-probe
       connection (concat program " --version")
       (lambda (output)
         (funcall callback (gemini-companion-doctor--describe-remote-program
                            (format "`%s' on %s" program
                                    (gemini-companion-connection-name connection))
                            output)))))))

(defun gemini-companion-doctor--describe-remote-program (program output)
  "Return the finding about the version of PROGRAM, which printed OUTPUT."
  (cond ((not (string-match "^\\([0-9]+\\.[0-9]+\\.[0-9]+\\)" output))
         (gemini-companion-doctor--note
          (format "It is not known which version %s has: it did not print it." program)
          (format "If it is missing, install it there: %s"
                  (gemini-companion-agent-get 'gemini :install))))
        ((version< (match-string 1 output) gemini-companion-doctor--oldest-on-hosts)
         (gemini-companion-doctor--problem
          (format "%s has version %s, which cannot connect from another machine."
                  program (match-string 1 output))
          (format "Install %s or a later one there: %s" gemini-companion-doctor--oldest-on-hosts
                  (gemini-companion-agent-get 'gemini :install))))
        (t (gemini-companion-doctor--describe-program program output))))

;;;; Probes

(defun gemini-companion-doctor--probe-server (case callback)
  "Probe the server that the CLI in CASE should find.
Call CALLBACK with the finding, or nil."
  (pcase (gemini-companion-doctor--server case)
    ('nil (funcall callback nil))
    (`(,port ,token . ,name)
     (let ((start (float-time)))
       (gemini-companion-client-probe
        port token
        (lambda (outcome text)
          (funcall callback (gemini-companion-doctor--describe-server
                             name outcome text (- (float-time) start)))))))))

(defun gemini-companion-doctor--server (case)
  "Return (PORT TOKEN . NAME) of the server to probe in CASE, or nil.
That is the server of this Emacs, or, if it does not run, the one that
the CLI takes if that is an Emacs."
  (if (gemini-companion-bridge-running-p)
      (when-let* ((token (gemini-companion-bridge-token)))
        `(,(gemini-companion-bridge-port) ,token . "The server of this Emacs"))
    (when-let* ((chosen (gemini-companion-client-search-chosen
                         (gemini-companion-doctor--case-search case)))
                (port (gemini-companion-client-port chosen))
                (token (gemini-companion-client-token chosen)))
      (and (natnump port) (< 0 port 65536)
           (stringp token) (string-match-p "\\`[!-~]+\\'" token)
           (equal (car (gemini-companion-client-ide chosen)) "emacs")
           `(,port ,token . ,(format "The Emacs on port %d" port))))))

(defun gemini-companion-doctor--describe-server (name outcome text seconds)
  "Return the finding that the server NAME gave OUTCOME with TEXT after SECONDS."
  (if (eq outcome 'alive)
      (gemini-companion-doctor--fine
       (format "%s answers a client after %.0f ms; its tools are %s." name (* 1000 seconds) text))
    (let ((own (gemini-companion-bridge-running-p)))
      (gemini-companion-doctor--problem
       (cond ((eq outcome 'dead) (format "%s does not answer: %s." name text))
             ((equal text "HTTP 401")
              (format "%s does not accept the token in its file (%s)." name text))
             (t (format "%s refuses a client: %s." name text)))
       (if own "Restart it: M-x gemini-companion-restart."
         "In that Emacs: M-x gemini-companion-restart, or the mode off and on.")
       (and own (cons "restart" #'gemini-companion-restart))))))

(defun gemini-companion-doctor--probe-program (case callback)
  "Find out which version the CLI in CASE has.
Call CALLBACK with the finding, or nil."
  (let* ((process-environment (gemini-companion-doctor--case-environment case))
         (default-directory gemini-companion-agent-neutral-directory)
         (name (gemini-companion-run-program 'gemini))
         (program (gemini-companion-doctor--find-program case name)))
    (cond (program
           (gemini-companion-doctor--run-program
            program
            (lambda (output)
              (funcall callback (gemini-companion-doctor--describe-program program output)))))
          ;; A CLI that runs was found in some other way.
          ((gemini-companion-doctor--case-running case) (funcall callback nil))
          (t (funcall callback
                      (gemini-companion-doctor--problem
                       (format "There is no program `%s' on PATH." name)
                       (format "Install it (%s), or set `gemini-companion-program'."
                               (gemini-companion-agent-get 'gemini :install))))))))

(defun gemini-companion-doctor--find-program (case name)
  "Return the file of the program NAME on the PATH in CASE, or nil."
  (let* ((path (gemini-companion-doctor--variable case "PATH"))
         (exec-path (if path (parse-colon-path path) exec-path))
         (default-directory gemini-companion-agent-neutral-directory))
    (executable-find name)))

(defun gemini-companion-doctor--run-program (program callback)
  "Run PROGRAM with the option --version, and call CALLBACK with its output.
Kill it if it takes too long."
  (let* ((output "")
         (timer nil)
         (process
          (make-process
           :name "gemini-companion-version" :noquery t :connection-type 'pipe
           :command (list program "--version")
           :filter (lambda (_process text)
                     (when (< (length output) 10000)
                       (setq output (concat output text))))
           :sentinel (lambda (process _event)
                       (unless (process-live-p process)
                         (when timer (cancel-timer timer))
                         (funcall callback output))))))
    (setq timer (run-at-time gemini-companion-doctor--probe-patience nil
                             #'delete-process process))
    ;; It may wait for input, or have ended already.
    (ignore-errors (process-send-eof process))))

(defun gemini-companion-doctor--describe-program (program output)
  "Return the finding about the version of PROGRAM, which printed OUTPUT."
  (if (string-match "[0-9]+\\.[0-9]+\\.[0-9]+" output)
      (gemini-companion-doctor--fine
       (format "%s has version %s; %s was tested with this package."
               program (match-string 0 output) gemini-companion-doctor--tested))
    (gemini-companion-doctor--problem
     (format "%s does not print its version, but: %s" program
             (truncate-string-to-width (string-trim output) 200 nil nil "..."))
     "Run it in a terminal to see what is wrong.")))

(provide 'gemini-companion-doctor)
;;; gemini-companion-doctor.el ends here

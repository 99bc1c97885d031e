;;; gemini-companion-doctor.el --- Why a CLI does not connect -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Reports what keeps a CLI from connecting, in a buffer or in batch mode.  The case is a CLI that
;; runs in the current terminal, or would start in some directory.  The report can go into a bug
;; report: it shows no tokens, and "~" for the home directory.

;;; Code:

(require 'cl-lib)
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-cli-search)
(require 'gemini-companion-doctor-check)
(require 'gemini-companion-host)
(require 'gemini-companion-host-command)
(require 'gemini-companion-host-connection)
(require 'gemini-companion-native)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(defvar-local gemini-companion-doctor--current-case nil
  "The case that was examined last.")

;;;; Commands

(define-derived-mode gemini-companion-doctor-mode gemini-companion-report-mode "Gemini-Doctor"
  "Major mode for the report on why a CLI does not connect.
\\{gemini-companion-doctor-mode-map}"
  :interactive nil
  (gemini-companion-ui-keep-keys 'gemini-companion-doctor-mode)
  (setq-local wrap-prefix "       "))

;;;###autoload
(defun gemini-companion-doctor (&optional directory)
  "Show what keeps a CLI from connecting to this Emacs.
In a terminal, examine the CLI that runs there; elsewhere, the one that
`gemini-companion-run' would run in the current project, on whatever
machine that is.  With a prefix argument, prompt for another DIRECTORY."
  (interactive (list (and current-prefix-arg
                          (read-directory-name "Directory of the CLI: " nil nil t))))
  (let ((terminal (and (not directory) (current-buffer)))
        (directory (expand-file-name
                    (cond (directory)
                          ;; A terminal has its own directory, and a host is not asked.
                          ((or (gemini-companion-host-remote-p default-directory)
                               (gemini-companion-doctor--terminal-process (current-buffer)))
                           default-directory)
                          (t (gemini-companion-cli-run-project))))))
    (gemini-companion-ui-pop-to "*gemini doctor*" #'gemini-companion-doctor-mode)
    (setq-local revert-buffer-function
                (lambda (&rest _) (gemini-companion-doctor--start terminal directory)))
    (gemini-companion-doctor--start terminal directory)))

(defun gemini-companion-doctor--start (terminal directory)
  "Examine a CLI in the buffer TERMINAL, or else in DIRECTORY; show a report here."
  (let ((case (gemini-companion-doctor--case-of terminal directory))
        (buffer (current-buffer)))
    (setq default-directory (file-name-as-directory directory)
          gemini-companion-doctor--current-case case)
    (gemini-companion-doctor--examine
     case
     (lambda (findings pending)
       (when (buffer-live-p buffer)
         (with-current-buffer buffer
           (when (eq case gemini-companion-doctor--current-case)
             (gemini-companion-ui-print
              (lambda () (gemini-companion-doctor--insert case findings pending))))))))))

;;;###autoload
(defun gemini-companion-doctor-batch ()
  "Print what keeps a CLI that you start here from connecting.
Call Emacs in the directory and the terminal in which you start the CLI,
with the options

  --batch -L PACKAGE-DIRECTORY -l gemini-companion-doctor \\
    -f gemini-companion-doctor-batch

Exit with status 1 if there is a problem.  The text holds no secrets."
  (let ((case (make-gemini-companion-doctor-check-case
               :agent gemini-companion-agent
               :directory (expand-file-name default-directory) :environment process-environment
               :process (emacs-pid) :where "the terminal from which this was called"))
        (result nil))
    (gemini-companion-doctor--examine
     case (lambda (findings pending) (setq result (list findings pending))))
    (with-timeout (15)
      (while (> (cadr result) 0)
        (accept-process-output nil 0.1)))
    (with-temp-buffer
      (let ((problems (apply #'gemini-companion-doctor--insert case result)))
        (princ (buffer-string))
        (kill-emacs (min 1 problems))))))

;;;; The report

(defun gemini-companion-doctor--insert (case findings pending)
  "Insert FINDINGS about CASE; PENDING checks have no result yet.
Return the number of problems."
  (let* ((groups (seq-group-by #'car findings))
         (problems (length (alist-get 'problem groups)))
         (summary (pcase problems
                    ((and 0 (guard (> pending 0))) "No problem found so far")
                    (0 "No problem: a CLI that you start here finds Emacs")
                    (1 "One problem")
                    (_ (format "%d problems; start with the first" problems)))))
    (insert (propertize summary 'face 'bold) (if (> pending 0) ", still looking...\n" "\n"))
    (pcase-let (((cl-struct gemini-companion-doctor-check-case agent directory where) case))
      (gemini-companion-doctor--line "for %s in %s, in %s"
                                     (gemini-companion-agent-get agent :title) directory where))
    (pcase-dolist (`(,level . ,heading) '((problem . "Problems") (note . "Notes")
                                          (fine . "As it should be")))
      (when-let* ((findings (alist-get level groups)))
        (insert "\n" (propertize heading 'face 'bold) "\n")
        (mapc #'gemini-companion-doctor--insert-finding findings)))
    (when (gemini-companion-doctor-check-case-search case)
      (insert "\n" (propertize "What the CLI sees" 'face 'bold) "\n")
      (gemini-companion-doctor--insert-facts case))
    problems))

(defun gemini-companion-doctor--insert-finding (finding)
  "Insert FINDING, with its button, which also examines again."
  (pcase-let ((`(,_ ,text ,remedy ,button) finding))
    (gemini-companion-doctor--line "* %s" text)
    (when remedy
      (gemini-companion-doctor--line "  -> %s" remedy))
    (when (and button (not noninteractive))
      (insert "       ")                ; below the remedy
      (gemini-companion-ui-button (car button) (cdr button) text)
      (insert "\n"))))

(defun gemini-companion-doctor--insert-facts (case)
  "Insert what the CLI in CASE sees, and the versions of what runs here."
  (pcase-let (((cl-struct gemini-companion-doctor-check-case agent environment
                          (search (cl-struct gemini-companion-cli-search-result
                                             directory wanted files chosen)))
               case))
    (gemini-companion-doctor--line "looks in %s, for process %s" directory (or wanted "(any)"))
    (dolist (file files)
      (gemini-companion-doctor--line "%s %s" (if (eq file chosen) "takes" "finds")
                                     (gemini-companion-doctor--describe-file file)))
    (dolist (name `("TMPDIR" "TMP" "TEMP" ,(gemini-companion-agent-variable agent 'port)
                    ,(gemini-companion-agent-variable agent 'process)
                    ,(gemini-companion-agent-get agent :workspace)
                    "NO_PROXY" "REMOTE_CONTAINERS"))
      (when-let* ((value (and name (gemini-companion-agent-getenv name environment))))
        (gemini-companion-doctor--line "%s=%s" name value))))
  (gemini-companion-doctor--line "package %s, Emacs %s on %s"
                                 gemini-companion-native-version emacs-version
                                 system-configuration))

(defun gemini-companion-doctor--describe-file (file)
  "Return a description of the discovery FILE."
  (concat (file-name-nondirectory (gemini-companion-cli-search-file-name file))
          (if (gemini-companion-doctor-check-own-p file) ", this Emacs"
            (when-let* ((ide (gemini-companion-cli-search-ide file)))
              (concat ", " (cdr ide))))
          (if (gemini-companion-cli-search-file-alive file) "" ", its process is dead")
          ", "
          (or (gemini-companion-cli-search-file-fault file)
              (concat "roots: " (gemini-companion-doctor-check-roots file)))))

(defun gemini-companion-doctor--line (format &rest arguments)
  "Insert a line, FORMAT with ARGUMENTS, in which the home directory is \"~\"."
  (let ((home (directory-file-name (expand-file-name "~")))
        (text (apply #'format format arguments)))
    (unless (< (length home) 2)
      (setq text (replace-regexp-in-string
                  (concat "\\(" (regexp-quote home) "\\)\\(?:[^[:alnum:]_.-]\\|\\'\\)")
                  "~" text t t 1)))
    (insert "  " (gemini-companion-ui-one-line text) "\n")))

;;;; The case

(defun gemini-companion-doctor--case-of (buffer directory)
  "Return the case of a CLI in the terminal BUFFER, or else in DIRECTORY."
  (let* ((live (buffer-live-p buffer))
         (root (or (and live (buffer-local-value 'gemini-companion-cli-run-root buffer)) directory))
         (agent (or (and live (gemini-companion-cli-run-agent-in buffer)) gemini-companion-agent))
         (terminal (gemini-companion-doctor--terminal-process buffer))
         (cli (and terminal (gemini-companion-doctor--cli-below agent terminal)))
         (process (or cli terminal))
         ;; That with which it was started, or nil if it is not known.
         (environment (and process
                           (ignore-errors
                             (split-string (gemini-companion-cli-search-text
                                            (format "/proc/%d/environ" process))
                                           "\0" t))))
         (remote (gemini-companion-host-remote-p root)))
    (make-gemini-companion-doctor-check-case
     :agent agent :remote remote
     :connection (and remote (gemini-companion-host-connection-of-directory root))
     :directory (cond (remote root)
                      ((and process (file-symlink-p (format "/proc/%d/cwd" process))))
                      (t directory))
     :environment (or environment (default-toplevel-value 'process-environment))
     :guessed (and process (not environment))
     :process process :running cli :terminal (and process buffer)
     :where (cond (remote "a terminal on that host")
                  (process (format "the terminal %s, process %d" (buffer-name buffer) process))
                  (t "a terminal that this Emacs starts")))))

(defun gemini-companion-doctor--terminal-process (buffer)
  "Return the id of the process in BUFFER, or nil if it is not a terminal."
  (when-let* ((process (and (buffer-live-p buffer) (get-buffer-process buffer))))
    (and (eq (process-type process) 'real)
         (with-current-buffer buffer
           (apply #'derived-mode-p gemini-companion-workspace-terminal-modes))
         (process-id process))))

(defun gemini-companion-doctor--cli-below (agent process)
  "Return the id of the CLI of AGENT that runs as or below PROCESS, or nil."
  (let* ((default-directory gemini-companion-agent-neutral-directory)
         (name (file-name-nondirectory (gemini-companion-cli-run-program agent)))
         (names (list name (concat name ".js"))))
    ;; The CLI starts itself a second time, and that process has the highest id.
    (seq-find (lambda (id)
                (let ((command (alist-get 'args (gemini-companion-agent-process id))))
                  (and
                   ;; It may run in an interpreter.
                   (seq-intersection names (mapcar #'file-name-nondirectory
                                                   (seq-take (split-string (or command "")) 4)))
                   (memq process (gemini-companion-cli-ancestry id)))))
              (sort (list-system-processes) #'>))))

;;;; The examination

(defun gemini-companion-doctor--flatten (findings)
  "Return FINDINGS, as a check returns them, as a plain list."
  (cond ((null findings) nil)
        ((memq (car findings) '(problem note fine)) (list findings))
        (t (mapcan #'gemini-companion-doctor--flatten findings))))

(defun gemini-companion-doctor--examine (case callback)
  "Examine CASE, and call CALLBACK now and for each later result.
Its arguments are the findings so far, and how many results are to come."
  (let* ((connection (gemini-companion-doctor-check-case-connection case))
         (probes (cond ((not (gemini-companion-doctor-check-case-remote case))
                        '(gemini-companion-doctor--probe-server
                          gemini-companion-doctor--probe-program))
                       ((and connection
                             (eq (gemini-companion-host-connection-state connection) 'ready))
                        '(gemini-companion-doctor--probe-remote-program))))
         (pending (length probes))
         (findings (gemini-companion-doctor--flatten (gemini-companion-doctor-check-all case))))
    (funcall callback findings pending)
    (dolist (probe probes)
      (funcall probe case (lambda (finding)
                            (setq findings (append findings (and finding (list finding)))
                                  pending (1- pending))
                            (funcall callback findings pending))))))

;;;; Probes

(defconst gemini-companion-doctor--path-remedy
  "Emacs does not have that terminal's PATH: start Emacs from the terminal, or set PATH and \
`exec-path' in your init file."
  "The end of a remedy, after \"terminal\".
A desktop starts Emacs without what a shell adds for npm, nvm or Homebrew.")

;; A probe is called with a case and a function, which it calls once, perhaps later, with its
;; finding, or nil.

(defun gemini-companion-doctor--probe-server (case callback)
  "Probe the server that the CLI in CASE should find, and call CALLBACK."
  (pcase (gemini-companion-doctor--server case)
    ('nil (funcall callback nil))
    (`(,port ,token . ,name)
     (let ((start (float-time))
           (own (gemini-companion-bridge-running-p)))
       (gemini-companion-cli-search-probe
        port token
        (lambda (fault)
          (funcall callback
                   (if (not fault)
                       (list 'fine (format "%s answers a client after %.0f ms." name
                                           (* 1000 (- (float-time) start))))
                     (list 'problem (format "%s %s." name fault)
                           (if own "Restart it: M-x gemini-companion-restart."
                             "In that Emacs: M-x gemini-companion-restart, or turn the mode off \
and on.")
                           (and own (cons "restart" 'gemini-companion-restart)))))))))))

(defun gemini-companion-doctor--server (case)
  "Return (PORT TOKEN . NAME) of the server to probe in CASE, or nil.
It is that of this Emacs, or, if that is off, of the Emacs that the CLI takes."
  (if (gemini-companion-bridge-running-p)
      (when-let* ((token (gemini-companion-bridge-token
                          (gemini-companion-doctor-check-case-agent case))))
        `(,(gemini-companion-bridge-port) ,token . "The server of this Emacs"))
    (when-let* ((chosen (gemini-companion-cli-search-result-chosen
                         (gemini-companion-doctor-check-case-search case))))
      (let-alist (gemini-companion-cli-search-file-content chosen)
        (and (natnump .port) (< 0 .port 65536)
             (stringp .authToken) (string-match-p "\\`[!-~]+\\'" .authToken)
             (equal (car (gemini-companion-cli-search-ide chosen)) "emacs")
             (cl-list* .port .authToken (format "The Emacs on port %d" .port)))))))

(defun gemini-companion-doctor--probe-program (case callback)
  "Find out which version the CLI in CASE has, and call CALLBACK."
  (pcase-let* (((cl-struct gemini-companion-doctor-check-case agent environment running) case)
               (name (gemini-companion-cli-run-program agent))
               (program (gemini-companion-doctor-check-find-program case name)))
    (cond (program
           (gemini-companion-doctor--run
            (list program "--version") environment
            (lambda (output)
              (funcall callback
                       (gemini-companion-doctor--describe-program agent program output)))))
          ;; Whoever started a CLI that runs has found it in some other way.
          (running (funcall callback nil))
          (t (funcall callback
                      (list 'problem (format "Cannot find the program `%s' on PATH." name)
                            (format "Install it (%s), or set %s.  If a terminal finds it, %s"
                                    (gemini-companion-agent-get agent :install)
                                    (gemini-companion-cli-run-program-option agent)
                                    gemini-companion-doctor--path-remedy)))))))

(defun gemini-companion-doctor--probe-remote-program (case callback)
  "Find out which version the CLI on the machine of CASE has, and call CALLBACK."
  (pcase-let* (((cl-struct gemini-companion-doctor-check-case agent connection) case)
               (program (gemini-companion-agent-get agent :program)))
    (gemini-companion-doctor--run
     (gemini-companion-host-connection-command connection (concat program " --version"))
     (gemini-companion-host-command-environment)
     (lambda (output)
       (funcall callback (gemini-companion-doctor--describe-program
                          agent (format "`%s' on %s" program
                                        (gemini-companion-host-connection-name connection))
                          output 'remote))))))

(defun gemini-companion-doctor--run (command environment callback)
  "Run COMMAND, a list, with ENVIRONMENT, and call CALLBACK with its output."
  (let* ((process-environment environment)
         (process (gemini-companion-agent-run
                   command (lambda (_process output) (funcall callback output)))))
    (run-at-time gemini-companion-cli-search-patience nil #'delete-process process)
    ;; It may wait for input, or have ended already.
    (ignore-errors (process-send-eof process))))

(defun gemini-companion-doctor--describe-program (agent program output &optional remote)
  "Return the finding about the version of PROGRAM, AGENT's, from its OUTPUT.
With REMOTE, OUTPUT includes what a shell on another machine has printed."
  (let* ((install (gemini-companion-agent-get agent :install))
         (oldest (gemini-companion-agent-get agent :oldest))
         (tested (gemini-companion-agent-get agent :tested))
         ;; Node, wrappers and shells print versions, too, but of themselves, and within lines.
         (version (and (string-match "^[0-9]+\\.[0-9]+\\.[0-9]+" output)
                       (match-string 0 output))))
    (cond
     ((and version oldest (version< version oldest))
      (list 'problem
            (format "%s has version %s, which cannot connect to Emacs." program version)
            (format "Install version %s or later%s: %s" oldest (if remote " there" "") install)))
     (version
      (list 'fine (format "%s has version %s%s." program version
                          (if tested (format "; %s was tested with this package" tested) ""))))
     (remote
      (list 'note (format "%s did not print its version." program)
            (format "If it is missing, install it there: %s" install)))
     (t (list 'problem (format "%s did not print its version%s" program
                               (if (string-blank-p output) ", nor anything else."
                                 (concat ", but: " (truncate-string-to-width
                                                    (string-trim output) 200 nil nil "..."))))
              (concat "Run it in a terminal to see what is wrong.  If it works there, "
                      gemini-companion-doctor--path-remedy))))))

(provide 'gemini-companion-doctor)
;;; gemini-companion-doctor.el ends here

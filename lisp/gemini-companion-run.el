;;; gemini-companion-run.el --- The CLI in a terminal -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Runs the CLI of a project in whichever terminal emulator there is, and finds it again.  What is
;; different from emulator to emulator is here: how each starts a program.  All of them have a
;; process, and what is sent to that the program reads.

;;; Code:

(require 'cl-lib)
(require 'project)
(require 'seq)
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-log)
(require 'gemini-companion-setup)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function eat-exec "ext:eat")
(declare-function eat-mode "ext:eat")
(declare-function gemini-companion-mode "gemini-companion")
(declare-function ghostel-exec "ext:ghostel")
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
(defvar vterm-kill-buffer-on-exit)
(defvar vterm-min-window-width)
(defvar vterm-shell)

;;;; Terminal emulators

;;;###autoload (custom-add-load 'gemini-companion 'gemini-companion-run)
(defcustom gemini-companion-terminal 'auto
  "The terminal emulator in which `gemini-companion-run' runs its program.
If `auto', the first of Eat, vterm and Ghostel that is installed, else
Term, which comes with Emacs.  Before it uses Term for that reason it
asks, once, whether to install Eat; if you answer no, your answer is
saved here."
  :type '(choice (const :tag "The best one that is installed" auto)
                 (const :tag "Eat" eat)
                 (const :tag "vterm" vterm)
                 (const :tag "Ghostel" ghostel)
                 (const :tag "Term" term))
  :group 'gemini-companion)

(defvar gemini-companion-run--offered nil
  "Non-nil if another terminal emulator was offered since Emacs started.")

(defun gemini-companion-run-choose-terminal ()
  "Return the terminal emulator to use.  It is loaded."
  (pcase gemini-companion-terminal
    ('auto (or (gemini-companion-run--installed) 'term))
    (terminal (unless (require terminal nil t)
                (user-error "`gemini-companion-terminal' says %s, which is not installed"
                            terminal))
              terminal)))

(defun gemini-companion-run--installed ()
  "Return the best terminal emulator that was installed, or nil.  It is loaded."
  (seq-find #'gemini-companion-run--load '(eat vterm ghostel)))

(defun gemini-companion-run--load (terminal)
  "Load TERMINAL, a feature; return nil if that is not installed or does not work."
  (condition-case error
      (require terminal nil t)
    (error
     (gemini-companion-log-add "%s: %s" terminal (error-message-string error))
     nil)))

;;;; A better one

(defun gemini-companion-run-offer-terminal ()
  "Ask whether to install a better terminal emulator than Term if there is none.
Return non-nil if so, for `gemini-companion-run-install-terminal'.  In batch
mode nothing is asked."
  (when (and (eq gemini-companion-terminal 'auto)
             (not noninteractive)
             (not gemini-companion-run--offered)
             (not (gemini-companion-run--installed)))
    (setq gemini-companion-run--offered t)
    (cond ((not package-enable-at-startup)
           ;; Packages are installed by something else here.
           (message "Term shows few colors: Eat and vterm, which are packages, show all")
           nil)
          ((y-or-n-p "Term shows few colors: download and install the terminal Eat? "))
          (t (gemini-companion-setup-save 'gemini-companion-terminal 'term)
             (message "From now on it is Term: `gemini-companion-terminal' can say another")
             nil))))

(defun gemini-companion-run-install-terminal ()
  "Install Eat as the user has allowed, and wait for that.
If it fails, or the user quits, say so and what to do."
  (require 'package)
  (message "Installing Eat; C-g uses Term instead...")
  (condition-case problem
      ;; Warnings of the byte compiler are shown in windows.
      (save-window-excursion
        (package-refresh-contents)
        (package-install 'eat))
    ((error quit)
     (let ((reason (gemini-companion-ui-error-text problem)))
       (gemini-companion-log-add "Eat was not installed: %s" reason)
       (message "Term is used, for Eat was not installed: %s.  It is in NonGNU ELPA, see \
`package-archives'; to try again type M-x package-install RET eat"
                reason)))))

;;;###autoload (custom-add-load 'gemini-companion 'gemini-companion-run)
(defcustom gemini-companion-agent 'gemini
  "What `gemini-companion-run' runs: a name in `gemini-companion-agent-profiles'."
  :type '(choice (const :tag "Gemini CLI" gemini)
                 (const :tag "Qwen Code" qwen)
                 (const :tag "LLxprt Code" llxprt)
                 symbol)
  :group 'gemini-companion
  :risky t)

(defcustom gemini-companion-program nil
  "The program of `gemini-companion-agent': a name, or a file with its path.
If nil, the usual one."
  :type '(choice (const :tag "The usual one" nil)
                 string)
  :group 'gemini-companion
  :risky t)

(defcustom gemini-companion-arguments nil
  "Arguments for `gemini-companion-program'."
  :type '(repeat string)
  :group 'gemini-companion
  :risky t)

(defcustom gemini-companion-run-display-action
  '((display-buffer-reuse-window display-buffer-in-side-window)
    (side . right)
    (window-width . 0.4))
  "Where `gemini-companion-run' shows a terminal, as for `display-buffer'."
  :type display-buffer--action-custom-type
  :group 'gemini-companion
  :risky t)

(defconst gemini-companion-run--narrowest 20
  "Columns that a terminal has at least, whatever its window has.")

(defconst gemini-companion-run--local "localhost,127.0.0.1"
  "Hosts to which a client must not go through a proxy.")

(defvar-local gemini-companion-run-root nil
  "The directory of the project whose CLI runs in this buffer.")
(put 'gemini-companion-run-root 'permanent-local t)

(defvar-local gemini-companion-run-agent nil
  "Which agent runs in this buffer, if `gemini-companion-run' made it.")
(put 'gemini-companion-run-agent 'permanent-local t)

;;;; The command

;;;###autoload
(defun gemini-companion-run (&optional another)
  "Run Gemini CLI in a terminal, in the current project.
If it runs already show its terminal; in that terminal, hide it.  With
ANOTHER, interactively the prefix argument, run one more beside it.
`gemini-companion-agent' may say that it is another program."
  (interactive "P")
  (let ((root (gemini-companion-run-project)))
    (gemini-companion-run--toggle gemini-companion-agent root
                                  (and (not another)
                                       (gemini-companion-run-buffer
                                        root gemini-companion-agent)))))

;;;###autoload
(defun gemini-companion-run-other (agent)
  "Run AGENT, one of `gemini-companion-agents', in the current project.
If it runs already show its terminal; in that terminal, hide it."
  (interactive (list (intern (completing-read
                              "Run: " (mapcar #'symbol-name (gemini-companion-agent-served))
                              nil t))))
  (let ((root (gemini-companion-run-project)))
    (gemini-companion-run--toggle agent root (gemini-companion-run-buffer root agent))))

(defun gemini-companion-run--toggle (agent root buffer)
  "Show BUFFER, hide it if it is selected, or without one run AGENT in ROOT."
  (cond ((null buffer) (gemini-companion-run--start agent root))
        ((eq (window-buffer) buffer) (gemini-companion-run--hide))
        (t (gemini-companion-run-show buffer))))

(defun gemini-companion-run-buffer (root &optional agent)
  "Return the terminal in which a CLI of the project in ROOT runs, or nil.
Of several it is the one that was selected last.  With AGENT, those that
are known to run another one do not count."
  (let ((terminals (seq-filter (pcase-lambda (`(,buffer . ,_))
                                 (or (null agent)
                                     (memq (buffer-local-value 'gemini-companion-run-agent
                                                               buffer)
                                           (list nil agent))))
                               (gemini-companion-run-terminals))))
    (car (or (rassoc root terminals)
             ;; You may have started it further down; a project there has its own.
             (seq-find (pcase-lambda (`(,buffer . ,directory))
                         (and (not (buffer-local-value 'gemini-companion-run-root buffer))
                              (file-in-directory-p directory root)))
                       terminals)))))

(defun gemini-companion-run-project ()
  "Return the directory of the current project, or the current directory."
  (gemini-companion-run-check-local default-directory)
  (or gemini-companion-run-root
      (let* ((project (project-current))
             (root (if project (project-root project) default-directory)))
        (file-name-as-directory (expand-file-name root)))))

(defun gemini-companion-run-check-local (directory)
  "Signal a `user-error' if DIRECTORY is on another machine."
  (when (file-remote-p directory)
    (user-error "Gemini CLI runs on this machine only, and this directory is elsewhere: %s"
                directory)))

(defun gemini-companion-run-terminals ()
  "Return the terminals in which a CLI runs, the one selected last first.
Each is (BUFFER . DIRECTORY), the CLI's own directory.  Besides those
that `gemini-companion-run' made these are those of connected clients
that you started yourself, as far as the system tells who that was."
  (let ((clients (gemini-companion-run--clients)))
    (delq nil (mapcar (lambda (buffer)
                        (when-let* ((directory
                                     (gemini-companion-run--directory buffer clients)))
                          (cons buffer directory)))
                      (buffer-list)))))

(defun gemini-companion-run--directory (buffer clients)
  "Return the directory of the CLI that runs in BUFFER, or nil if none does.
CLIENTS are those that `gemini-companion-run--clients' returns."
  (let ((process (get-buffer-process buffer)))
    (and (process-live-p process)
         (or (buffer-local-value 'gemini-companion-run-root buffer)
             (when-let* ((client (and (integerp (process-id process))
                                      (seq-find (lambda (ids) (memq (process-id process) ids))
                                                clients))))
               (file-name-as-directory
                (or (file-symlink-p (format "/proc/%d/cwd" (car client)))
                    (buffer-local-value 'default-directory buffer))))))))

(defun gemini-companion-run--clients ()
  "Return the ids of the connected clients' processes.
Each is a list with the ids of those that began it behind its own."
  (mapcar #'gemini-companion-run-ancestry
          (delq nil (mapcar (lambda (session) (aref session 2))
                            (gemini-companion-bridge-sessions)))))

(defun gemini-companion-run-terminal-of (id buffers)
  "Return the terminal, one of BUFFERS, in which the process ID runs, or nil."
  (let ((ids (gemini-companion-run-ancestry id)))
    (seq-find (lambda (buffer)
                (when-let* ((process (get-buffer-process buffer)))
                  (memq (process-id process) ids)))
              buffers)))

(defun gemini-companion-run-ancestry (id)
  "Return a list of ID, the process that began the one with ID, and so on."
  (let ((ids nil))
    (while (and id (> id 0) (not (memq id ids)))
      (push id ids)
      (setq id (alist-get 'ppid (process-attributes id))))
    (nreverse ids)))

(defun gemini-companion-run-show (buffer)
  "Show BUFFER and select its window."
  (select-window (or (display-buffer buffer gemini-companion-run-display-action)
                     (selected-window))))

(defun gemini-companion-run--hide ()
  "Take the selected window, which shows a terminal, off the screen."
  (if (window-parameter nil 'window-side)
      (delete-window)
    (quit-window)))

;;;; Starting

(defun gemini-companion-run--start (agent root)
  "Run AGENT in the project in ROOT in a new terminal, and show that."
  (let ((program (gemini-companion-run--find-program agent)))
    (gemini-companion-run--announce agent root)
    (gemini-companion-run--ask agent root)
    (let* ((terminal (gemini-companion-run-choose-terminal))
           ;; All of these may be local to this buffer, which may be a dead terminal.
           (environment (gemini-companion-run--environment agent root))
           (locals (gemini-companion-run--locals environment))
           (buffer (progn
                     (gemini-companion-run--bury-dead agent root)
                     (generate-new-buffer (gemini-companion-run--name agent root))))
           (window (selected-window)))
      (condition-case error
          (progn
            (with-current-buffer buffer
              (setq default-directory root
                    gemini-companion-run-root root
                    gemini-companion-run-agent agent))
            ;; First, for the size of the terminal is that of its window.
            (gemini-companion-run-show buffer)
            (gemini-companion-run--exec
             terminal buffer program
             (and (eq agent gemini-companion-agent) gemini-companion-arguments)
             environment)
            (with-current-buffer buffer
              (pcase-dolist (`(,variable . ,value) locals)
                (set (make-local-variable variable) value))
              (gemini-companion-ui-pass-keys))
            ;; Some emulators say otherwise, but it may be at work.
            (when-let* ((process (get-buffer-process buffer)))
              (set-process-query-on-exit-flag process t)))
        (error
         (gemini-companion-run--discard buffer)
         (when (window-live-p window) (select-window window))
         (signal (car error) (cdr error)))))))

(defun gemini-companion-run--ask (agent root)
  "Ask all that is to be asked before AGENT runs in ROOT, and see to it.
What takes long is done when nothing is left to be asked."
  (let ((better (gemini-companion-run-offer-terminal))
        (default-directory root))
    (gemini-companion-setup-before-run agent)
    (when better
      (gemini-companion-run-install-terminal))))

(defun gemini-companion-run--discard (buffer)
  "Kill the terminal BUFFER and what runs in it without a question."
  (when-let* ((process (get-buffer-process buffer)))
    (delete-process process))
  (when (buffer-live-p buffer)
    (kill-buffer buffer)))

(defun gemini-companion-run-program (agent)
  "Return the program of AGENT: a name, or a file with its path."
  (or (and (eq agent gemini-companion-agent) gemini-companion-program)
      (gemini-companion-agent-get agent :program)
      (user-error "No agent is called %s: see `gemini-companion-agent-profiles'" agent)))

(defun gemini-companion-run--find-program (agent)
  "Return the file of the program of AGENT."
  (let ((program (gemini-companion-run-program agent)))
    (or (executable-find program)
        (user-error "Cannot find `%s': install it with  %s  or set `gemini-companion-program'"
                    program (gemini-companion-agent-get agent :install)))))

(defun gemini-companion-run--announce (agent root)
  "See to it that a client of AGENT in ROOT will find us.
It looks only when it starts."
  (unless (gemini-companion-bridge-running-p)
    (gemini-companion-mode 1))
  (unless (gemini-companion-bridge-running-p)
    (user-error "Gemini companion is not on yet: try again when it is"))
  (unless (gemini-companion-bridge-token agent)
    (message "%s will not find this Emacs: switch `gemini-companion-mode' off and on once \
it has made its home, and see `gemini-companion-agents'"
             (gemini-companion-agent-get agent :title)))
  (gemini-companion-workspace-announce root))

(defun gemini-companion-run--bury-dead (agent root)
  "Kill the terminals of AGENT for ROOT in which it has ended."
  (dolist (buffer (buffer-list))
    (when (and (equal (buffer-local-value 'gemini-companion-run-root buffer) root)
               (eq (buffer-local-value 'gemini-companion-run-agent buffer) agent)
               (not (process-live-p (get-buffer-process buffer))))
      (kill-buffer buffer))))

(defun gemini-companion-run--name (agent root)
  "Return the name of a terminal of AGENT for the project in ROOT."
  (format "*%s: %s*" agent (file-name-nondirectory (directory-file-name root))))

(defun gemini-companion-run--environment (agent root)
  "Return the environment of AGENT in ROOT.
It is that of the current buffer, with what leads to this Emacs."
  (let ((process-environment (copy-sequence process-environment)))
    ;; A local one that was made elsewhere, say by direnv, may lack these.
    (dolist (name (gemini-companion-run--variables))
      (when-let* ((value (getenv-internal name (default-toplevel-value 'process-environment))))
        (setenv name value)))
    (when-let* ((name (gemini-companion-agent-get agent :workspace)))
      (setenv name (directory-file-name root)))
    ;; Each is looked at by some programs only.
    (dolist (name '("NO_PROXY" "no_proxy"))
      (setenv name (gemini-companion-run--without-proxy (getenv name))))
    process-environment))

(defun gemini-companion-run--variables ()
  "Return the names of the variables that lead a client to its Emacs.
`gemini-companion-agent-set-environment' gives them their values."
  (cons "REMOTE_CONTAINERS"
        (mapcan (lambda (agent)
                  (mapcar #'car (gemini-companion-agent-get agent :variables)))
                (gemini-companion-agent-served))))

(defun gemini-companion-run--locals (environment)
  "Return what a terminal is to have of the current buffer's own environment.
It is an alist of variables and values; ENVIRONMENT is that of the CLI.
So the next CLI that is run from there is in the same environment."
  (append (and (local-variable-p 'process-environment)
               (list (cons 'process-environment environment)))
          (and (local-variable-p 'exec-path)
               (list (cons 'exec-path exec-path)))))

(defun gemini-companion-run--without-proxy (hosts)
  "Return the list HOSTS, a string or nil, with those of this machine."
  (cond ((member hosts '(nil "")) gemini-companion-run--local)
        ((or (equal hosts "*") (string-search gemini-companion-run--local hosts)) hosts)
        (t (concat hosts "," gemini-companion-run--local))))

;;;; Terminal emulators

(cl-defgeneric gemini-companion-run--exec (terminal buffer program arguments environment)
  "Run PROGRAM with ARGUMENTS in ENVIRONMENT in BUFFER by the emulator TERMINAL.
The buffer is in the selected window.")

;; ENVIRONMENT is bound in the terminal's buffer, and last: a hook of a mode, like that of envrc,
;; may make the variable local there, and then only that binding counts.

(cl-defmethod gemini-companion-run--exec ((_ (eql 'term)) buffer program arguments environment)
  "Run PROGRAM with ARGUMENTS in ENVIRONMENT in BUFFER by Term."
  (require 'term)
  (with-current-buffer buffer
    (term-mode)
    (let ((process-environment
           (append (gemini-companion-run--term-variables environment) environment)))
      (term-exec buffer (buffer-name) program nil arguments))
    (let ((mend (gemini-companion-run--mend-for-term)))
      (set-process-filter (get-buffer-process buffer)
                          (lambda (process text)
                            (term-emulate-terminal process (funcall mend text)))))
    (term-char-mode)))

(defun gemini-companion-run--term-variables (environment)
  "Return what to add to ENVIRONMENT so that text can be read in Term.
Programs choose colors for a dark background, for Term does not answer
what its own is.  On a light one they are asked to use none."
  (cons
   ;; What the terminal around this Emacs can do may be said there.
   (if (< emacs-major-version 29) "COLORTERM" "COLORTERM=truecolor")
   (unless (or (eq (frame-parameter nil 'background-mode) 'dark)
               (getenv-internal "NO_COLOR" environment)
               (getenv-internal "FORCE_COLOR" environment))
     '("NO_COLOR=1"))))

(defconst gemini-companion-run--begun
  (concat "\\(?:\e\\(?:][^\a\e]\\{,1000\\}\e?\\|\\[2?\\)?"
          "\\|[\300-\337]\\|[\340-\357][\200-\277]?\\|[\360-\367][\200-\277]\\{,2\\}\\)\\'")
  "What output ends with if an escape sequence, or a character, has only begun.")

(defun gemini-companion-run--mend-for-term ()
  "Return a function that returns its argument without what Term shows wrongly.
That is titles of windows, which it shows as text in the middle of what
is there; the erasing of a line, of which it leaves what is before the
cursor; and a part of a character.  Called with all output of a program
in order, which is bytes, the function remembers what has only begun."
  (let ((begun ""))
    (lambda (text)
      (setq text (replace-regexp-in-string "\e][^\a\e]*\\(?:\a\\|\e\\\\\\)" ""
                                           (concat begun text) t t)
            text (string-replace "\e[2K" "\e[1K\e[K" text)
            begun "")
      (when (string-match gemini-companion-run--begun text)
        (setq begun (substring text (match-beginning 0))
              text (substring text 0 (match-beginning 0))))
      text)))

(cl-defmethod gemini-companion-run--exec ((_ (eql 'eat)) buffer program arguments environment)
  "Run PROGRAM with ARGUMENTS in ENVIRONMENT in BUFFER by Eat."
  (with-current-buffer buffer
    (eat-mode)
    (let ((process-environment
           (append (gemini-companion-run--color-variables environment) environment)))
      (eat-exec buffer (buffer-name) program nil arguments))
    (add-function :filter-args (process-filter (get-buffer-process buffer))
                  (gemini-companion-run--answer-background))))

(defun gemini-companion-run--color-variables (environment)
  "Return what to add to ENVIRONMENT so that programs use all colors there are.
What Eat and vterm call themselves in TERM does not say that to all."
  (and (> (display-color-cells) 256)
       (not (getenv-internal "COLORTERM" environment))
       '("COLORTERM=truecolor")))

(cl-defmethod gemini-companion-run--exec ((_ (eql 'vterm)) buffer program arguments environment)
  "Run PROGRAM with ARGUMENTS in ENVIRONMENT in BUFFER by vterm."
  (with-current-buffer buffer
    (let ((process-environment
           (append (gemini-companion-run--color-variables environment) environment))
          (vterm-shell (mapconcat #'shell-quote-argument (cons program arguments) " "))
          ;; By itself it is never narrower than 80: what is beyond the window could not be seen.
          (vterm-min-window-width gemini-companion-run--narrowest))
      (vterm-mode)
      (setq-local vterm-min-window-width gemini-companion-run--narrowest)
      ;; What it said last is worth reading.
      (setq-local vterm-kill-buffer-on-exit nil))
    (let ((process (get-buffer-process buffer)))
      (add-function :before (process-filter process) (gemini-companion-run--fit-once))
      (add-function :filter-args (process-filter process)
                    (gemini-companion-run--answer-background)))))

(defun gemini-companion-run--fit-once ()
  "Return a filter that makes a terminal as large as its windows, once.
Emacs does so when windows change, but on a text terminal vterm begins
with one column more than can be used."
  (let ((done nil))
    (lambda (process _text)
      (unless done
        (setq done t)
        (gemini-companion-log-errors "The size of a terminal"
          ;; The function looks at variables of that buffer; vterm's module wants them.
          (with-current-buffer (process-buffer process)
            (when-let* ((windows (get-buffer-window-list nil nil t))
                        (adjust (process-get process 'adjust-window-size-function))
                        (size (funcall adjust process windows)))
              (set-process-window-size process (cdr size) (car size)))))))))

(defun gemini-companion-run--answer-background ()
  "Return a function for the filter of a terminal's process, on its arguments.
When a program asks for the color of the background it tells that, and
takes the question out of the text.  For vterm does not answer, and Eat
not rightly on a text terminal, and then programs choose colors for a
dark background."
  (let ((begun ""))
    (pcase-lambda (`(,process ,text))
      (setq text (concat begun text)
            begun "")
      (when (string-match "\e\\(?:]\\(?:1\\(?:1\\(?:;\\(?:\\?\e?\\)?\\)?\\)?\\)?\\)?\\'" text)
        (setq begun (substring text (match-beginning 0))
              text (substring text 0 (match-beginning 0))))
      (let ((rest (replace-regexp-in-string "\e]11;\\?\\(?:\a\\|\e\\\\\\)" "" text t t)))
        (unless (equal rest text)
          (gemini-companion-log-errors "The color of the background"
            (process-send-string process (gemini-companion-run--background-report))))
        (list process rest)))))

(defun gemini-companion-run--background-report ()
  "Return what a terminal answers that is asked for the color of its background."
  (let ((color (or (color-values (face-background 'default nil 'default))
                   ;; It is that of the terminal around Emacs.
                   (if (eq (frame-parameter nil 'background-mode) 'dark)
                       '(0 0 0)
                     '(#xffff #xffff #xffff)))))
    (concat "\e]11;rgb:"
            ;; If it was started in tmux Gemini CLI does not believe pure white.
            (mapconcat (lambda (value) (format "%04x" (min value #xfefe))) color "/")
            "\e\\")))

(cl-defmethod gemini-companion-run--exec ((_ (eql 'ghostel)) buffer program arguments environment)
  "Run PROGRAM with ARGUMENTS in ENVIRONMENT in BUFFER by Ghostel."
  (with-current-buffer buffer
    (let ((process-environment environment)
          ;; Else the program does not read what is sent to the buffer's process.
          (ghostel-use-native-pty nil))
      (ghostel-exec buffer program arguments))
    (setq-local ghostel-kill-buffer-on-exit nil)
    ;; Emacs asks, and once will do.
    (setq-local ghostel-query-before-killing nil)))

(add-hook 'gemini-companion-cli-functions #'gemini-companion-run-terminals)

(provide 'gemini-companion-run)
;;; gemini-companion-run.el ends here

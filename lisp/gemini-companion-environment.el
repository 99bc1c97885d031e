;;; gemini-companion-environment.el --- How a client finds us -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Two things lead a client to this Emacs: the discovery file, whose directory is computed here
;; the way the client does it, and environment variables for the processes that Emacs starts,
;; which break the tie between several Emacsen.  Both differ from program to program.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-process)
(require 'gemini-companion-workspace)

(defcustom gemini-companion-temporary-directories nil
  "Temporary directories, besides that of Emacs, in which clients may look.
A client finds Emacs by a file in its own temporary directory, which is
another one if TMPDIR is another one in its terminal.  Takes effect when
`gemini-companion-mode' is next switched on."
  :type '(repeat directory)
  :group 'gemini-companion
  :risky t)

(defcustom gemini-companion-export-workspace nil
  "Non-nil to tell each process that Emacs starts all workspace roots.
Gemini CLI adds all of them to its own workspace, so that it works in
projects other than the one it was started in.  Takes effect when
`gemini-companion-mode' is next switched on."
  :type 'boolean
  :group 'gemini-companion
  :risky t)

(defconst gemini-companion-environment--secret-time 60
  "Seconds after which a copied token leaves the kill ring.")

(defvar gemini-companion-environment--saved nil
  "Alist of the variables that were set, and the values they had before.")

(defvar gemini-companion-environment--copied nil
  "The last text with a token in the kill ring, and the timer that takes it away.")

;;;; Directories

(defun gemini-companion-environment-agents ()
  "Return the programs that are served, for `gemini-companion-bridge-start'."
  (cl-loop for agent in (gemini-companion-agent-served)
           for directories = (gemini-companion-environment-directories agent)
           if directories
           collect (vector (symbol-name agent)
                           (gemini-companion-agent-get agent :title)
                           (vconcat directories)
                           (gemini-companion-agent-get agent :file)
                           (gemini-companion-agent-get agent :tells-process)
                           (vconcat (and (gemini-companion-agent-get agent :by-process)
                                         (gemini-companion-process-taken-for
                                          (emacs-pid)))))))

(defun gemini-companion-environment-directories (agent)
  "Return the directories in which AGENT looks for discovery files, each once.
The first is that of clients that Emacs starts.  If AGENT is not used
here there is none."
  (when (gemini-companion-environment--used-p agent)
    (gemini-companion-environment--places agent)))

(defun gemini-companion-environment--used-p (agent)
  "Return non-nil if AGENT is used here, as far as its directories tell."
  (let ((homes (gemini-companion-agent-get agent :homes))
        (process-environment (default-toplevel-value 'process-environment)))
    (or (null homes)
        (cl-loop for home in homes
                 for name = (substitute-in-file-name home)
                 ;; A variable that is not set stays.
                 thereis (and (file-name-absolute-p name) (file-directory-p name))))))

(defun gemini-companion-environment--places (agent)
  "Return the directories in which AGENT looks for discovery files, each once."
  (pcase (gemini-companion-agent-get agent :place)
    (`(temporary ,directory) (gemini-companion-environment--temporary directory))
    (`(home ,variable ,default ,directory)
     (let ((home (or (gemini-companion-environment-value
                      variable (default-toplevel-value 'process-environment))
                     default)))
       ;; A relative one is another directory for each process.
       (and (file-name-absolute-p home)
            (file-directory-p home)
            (list (concat (directory-file-name (expand-file-name home)) "/" directory)))))))

(defun gemini-companion-environment--temporary (directory)
  "Return DIRECTORY in all temporary directories in which clients may look."
  (let (known)
    (cl-loop for temporary
             in (cons (gemini-companion-environment-temporary-directory
                       (default-toplevel-value 'process-environment))
                      (mapcar (lambda (directory)
                                (directory-file-name (expand-file-name directory)))
                              gemini-companion-temporary-directories))
             for place = (concat temporary "/" directory)
             for real = (file-truename place)
             unless (member real known)
             do (push real known) and collect place)))

(defun gemini-companion-environment-value (name environment)
  "Return the value of NAME in ENVIRONMENT, nil if it is empty.
That has the shape of `process-environment'."
  (let ((value (getenv-internal name environment)))
    ;; It is t for a name without a value, as `setenv' leaves it there for one that was removed.
    (and (stringp value) (not (string-empty-p value)) value)))

(defun gemini-companion-environment-temporary-directory (environment)
  "Return what `os.tmpdir()' is for a process with ENVIRONMENT, without slash.
That has the shape of `process-environment'."
  (let* ((windows (eq system-type 'windows-nt))
         (set (cl-loop for name in (if windows '("TEMP" "TMP") '("TMPDIR" "TMP" "TEMP"))
                       thereis (gemini-companion-environment-value name environment)))
         (directory (or set
                        (if windows
                            (concat (or (getenv "SystemRoot") (getenv "windir") "") "/temp")
                          "/tmp"))))
    (if (> (length directory) 1)
        (replace-regexp-in-string "[/\\]\\'" "" directory)
      directory)))

;;;; Settings

(defun gemini-companion-environment-settings (agent environment)
  "Return the file with the user's settings of AGENT with ENVIRONMENT, or nil.
That has the shape of `process-environment'.  The file need not be there."
  (pcase (gemini-companion-agent-get agent :settings)
    (`(,variable ,default ,file)
     (let* ((process-environment environment)
            (home (or (gemini-companion-environment-value variable environment) default)))
       ;; A relative one is another directory for each process.
       (and (file-name-absolute-p home)
            (expand-file-name file home))))))

;;;; Containers

(defconst gemini-companion-environment--container-files '("/.dockerenv" "/run/.containerenv")
  "Files of which one is in each container.")

(defconst gemini-companion-environment--same-host
  '("REMOTE_CONTAINERS" "VSCODE_REMOTE_CONTAINERS_SESSION" "SSH_CONNECTION")
  "Variables that tell a client in a container that the editor is in there, too.
Without one it looks for the editor on the machine around the container.")

(defun gemini-companion-environment-container-p ()
  "Return non-nil if this Emacs runs in a container, as clients judge."
  (cl-loop for file in gemini-companion-environment--container-files
           thereis (file-exists-p file)))

(defun gemini-companion-environment-same-host-p (environment)
  "Return non-nil if ENVIRONMENT says that the editor is in the same container."
  (cl-loop for name in gemini-companion-environment--same-host
           thereis (gemini-companion-environment-value name environment)))

;;;; Variables

(defun gemini-companion-environment--variables ()
  "Return the variables that lead to the running companion, with their values."
  (append
   (cl-loop for agent in (gemini-companion-agent-served)
            append (cl-loop for (name . what) in (gemini-companion-agent-get agent :variables)
                            for value = (gemini-companion-environment--value agent what)
                            if value collect (cons name value)))
   ;; Even if something else says so: that may be gone when the client starts.
   (and (gemini-companion-environment-container-p)
        '(("REMOTE_CONTAINERS" . "true")))))

(defun gemini-companion-environment--value (agent what)
  "Return what clients of AGENT are told as WHAT: `port', `process' or `token'."
  (pcase what
    ('port (number-to-string (gemini-companion-bridge-port)))
    ('process (number-to-string (emacs-pid)))
    ('token (gemini-companion-bridge-token agent))))

(defun gemini-companion-environment-set ()
  "Lead the processes that Emacs will start to the running companion."
  ;; Values are not passed as arguments more than needed, since these show in backtraces.
  (gemini-companion-environment--put-all (gemini-companion-environment--variables))
  (when gemini-companion-export-workspace
    (add-hook 'gemini-companion-workspace-functions
              #'gemini-companion-environment--export-workspace)
    (gemini-companion-environment--export-workspace)))

(defun gemini-companion-environment--export-workspace ()
  "Tell the processes that Emacs will start the workspace roots."
  (let ((roots (string-join (gemini-companion-workspace-announced) path-separator)))
    (gemini-companion-environment--put-all
     (cl-loop for agent in (gemini-companion-agent-served)
              for variable = (gemini-companion-agent-get agent :workspace)
              if variable collect (cons variable roots)))))

(defun gemini-companion-environment-restore ()
  "Put the variables back to what they were."
  (remove-hook 'gemini-companion-workspace-functions
               #'gemini-companion-environment--export-workspace)
  (gemini-companion-environment--put gemini-companion-environment--saved)
  (setq gemini-companion-environment--saved nil)
  (gemini-companion-environment--forget-copy))

(defun gemini-companion-environment--put-all (variables)
  "Set VARIABLES, an alist, and save what they were before."
  (pcase-dolist (`(,name . ,_) variables)
    (unless (assoc name gemini-companion-environment--saved)
      (push (cons name (gemini-companion-environment--get name))
            gemini-companion-environment--saved)))
  (gemini-companion-environment--put variables))

;; The global value, since a caller may have an environment of its own; and that of each buffer
;; that has one, as Eshell's, and those that were set up for a project.

(defun gemini-companion-environment--get (name)
  "Return the value of the environment variable NAME, or nil."
  (getenv-internal name (default-toplevel-value 'process-environment)))

(defun gemini-companion-environment--put (variables)
  "Set VARIABLES, an alist, wherever there is an environment; nil removes one."
  (set-default-toplevel-value
   'process-environment
   (gemini-companion-environment--with variables
                                       (default-toplevel-value 'process-environment)))
  (dolist (buffer (buffer-list))
    (when (local-variable-p 'process-environment buffer)
      (with-current-buffer buffer
        (setq process-environment
              (gemini-companion-environment--with variables process-environment))))))

(defun gemini-companion-environment--with (variables environment)
  "Return a copy of ENVIRONMENT with VARIABLES, an alist, set."
  (let ((environment (copy-sequence environment)))
    (pcase-dolist (`(,name . ,value) variables)
      (setq environment (setenv-internal environment name value nil)))
    environment))

(defun gemini-companion-environment-before ()
  "Return the environment of Emacs as it is without what leads to the companion.
Processes that others start beside it have that at best."
  (gemini-companion-environment--with gemini-companion-environment--saved
                                      (default-toplevel-value 'process-environment)))

;;;; For terminals elsewhere

;;;###autoload
(defun gemini-companion-copy-environment ()
  "Put a command on the kill ring that leads a client elsewhere to this Emacs.
Paste it in another terminal, container or login, and start the client
there.  The command holds a secret: with it one can see what you look at,
propose changes to you and, in the workspace, have them applied.  It
leaves the kill ring after a minute."
  (interactive)
  (gemini-companion-bridge-check)
  (gemini-companion-environment--forget-copy)
  ;; The property tells managers of clipboards not to keep it.
  (let ((command (propertize (gemini-companion-environment--command)
                             'x-kde-passwordManagerHint "secret")))
    (kill-new command)
    (setq gemini-companion-environment--copied
          (cons command
                (run-at-time gemini-companion-environment--secret-time nil
                             #'gemini-companion-environment--forget-copy))))
  (message "Paste the command in the other terminal within %d s, and start the CLI there"
           gemini-companion-environment--secret-time))

(defun gemini-companion-environment--command ()
  "Return a shell command that sets the variables."
  (concat "export "
          (mapconcat (pcase-lambda (`(,name . ,value))
                       (concat name "=" (shell-quote-argument value)))
                     (gemini-companion-environment--variables)
                     " ")))

(defun gemini-companion-environment--forget-copy ()
  "Take the command that was copied off the kill ring, and off the clipboard."
  (pcase gemini-companion-environment--copied
    (`(,command . ,timer)
     (cancel-timer timer)
     (setq gemini-companion-environment--copied nil)
     (gemini-companion-environment--take-off-kill-ring command)
     ;; To ask another program for it could take long.
     (when (ignore-errors (and interprogram-cut-function
                               (gui-backend-selection-owner-p 'CLIPBOARD)
                               (equal (gui-get-selection 'CLIPBOARD) command)))
       (funcall interprogram-cut-function "")))))

(defun gemini-companion-environment--take-off-kill-ring (text)
  "Take all that equals TEXT off the kill ring."
  (let ((next (car kill-ring-yank-pointer)))
    (setq kill-ring (delete text kill-ring)
          kill-ring-yank-pointer (or (memq next kill-ring) kill-ring))))

(provide 'gemini-companion-environment)
;;; gemini-companion-environment.el ends here

;;; gemini-companion-workspace.el --- Workspace roots, and the scopes of clients -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client connects only from a directory inside a workspace root.  The roots are the projects of
;; the open files and terminals, and the directories of files outside of projects, unless those are
;; private.  The home directory, the root directory and temporary directories are never guessed to
;; be roots, and the search for them accesses no remote directory.
;;
;; The scope of a client, the files that it may know, follows from the directory in which it works.
;; Clients on a host are told only of files on that host, and no other clients are.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-bridge)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)

(declare-function project-root "project" (project))
(defvar project-vc-non-essential-cache-timeout) ; Emacs 31

;;;; Hooks and options

(defvar gemini-companion-workspace-change-hook nil
  "Hook run when the roots, or the scopes of clients, have changed.")

(defvar gemini-companion-workspace-private-functions nil
  "Functions called with a buffer that return t if its file is private.
The directory of such a file is not guessed to be a root.")

(defcustom gemini-companion-workspace-roots nil
  "Directories that are workspace roots even if you have nothing in them open.
Gemini CLI connects to this Emacs from directories inside a root.  See also
`gemini-companion-workspace-guess'."
  :type '(repeat directory)
  :group 'gemini-companion-context
  :risky t)

(defcustom gemini-companion-workspace-guess t
  "Non-nil means the projects of open files and terminals are workspace roots.
They are roots in addition to `gemini-companion-workspace-roots'."
  :type 'boolean
  :group 'gemini-companion-context
  :risky t)

(dolist (option '(gemini-companion-workspace-roots gemini-companion-workspace-guess))
  (add-variable-watcher option (lambda (&rest _)
                                 (when (gemini-companion-bridge-running-p)
                                   (gemini-companion-workspace--announce-soon)))))

(defcustom gemini-companion-context-scope 'project
  "Which open files to tell a client about.
If `project', those in the innermost workspace root around the directory in
which the client works.  If `all', also those in other projects.

If Emacs does not know that directory, or if it is in no workspace root, as
in a container with other directory names, tell the client about the files
in all projects.  Tell a client about a file outside of projects only if it
works in the directory of that file, or above it; but see
`gemini-companion-share-outside-workspace'."
  :type '(choice (const :tag "The client's own project" project)
                 (const :tag "All projects" all))
  :group 'gemini-companion-context
  :risky t)

(defcustom gemini-companion-share-outside-workspace nil
  "Non-nil means tell all clients about open files outside of projects, too."
  :type 'boolean
  :group 'gemini-companion-context
  :risky t)

(defvar gemini-companion-workspace-terminal-modes
  '(comint-mode term-mode eshell-mode vterm-mode eat-mode ghostel-mode)
  "Major modes in which a client may run.")

(defvar gemini-companion-workspace-functions nil
  "Functions that return lists of directories in which CLIs run in this Emacs.
These are roots, too, even if they must not be guessed.  The functions have
no arguments.")

(defvar gemini-companion-workspace--delay 0.3
  "Seconds from a change of the open files to the search for roots.")

(defvar gemini-companion-workspace--lifetime 60
  "Seconds for which it is remembered that a directory is in no project.
A project is not searched for again: to find them all takes seconds if files
are slow, and Emacs would wait for a disk that no longer answers.")

;;;; State

(cl-defstruct (gemini-companion-workspace-root (:copier nil))
  "A directory from which clients connect."
  (directory nil :documentation "Its name, without a trailing slash.")
  (project nil :documentation "Non-nil if it is a project or an extra root of the user's.")
  (names nil :documentation "Its names with and without symbolic links, with a slash."))

(cl-defstruct (gemini-companion-workspace-scope
               (:constructor gemini-companion-workspace--make-scope
                             (names all-projects &optional machine))
               (:copier nil))
  "Which files are told to clients that work in one directory."
  (machine nil :documentation "The host on which they work, nil for this machine,
`elsewhere' for a host that is not served.")
  (names nil :documentation "The names of the root there, with and without symbolic links.
Nil if there is none; but on a host they are then those of all roots.")
  (all-projects nil :documentation "Non-nil if files in all projects are told."))

(defvar gemini-companion-workspace-known nil
  "The roots that were announced last, each a `gemini-companion-workspace-root'.")

(defvar gemini-companion-workspace-pending nil
  "Non-nil until the first search for roots is complete.
Until then no file is in any scope.")

(defvar gemini-companion-workspace--cache (make-hash-table :test #'equal)
  "The roots guessed from directories, as (TIME ROOT . PROJECT).")

(defvar gemini-companion-workspace--client-roots nil
  "Alist of the directories in which clients work, with (ROOT . NAMES).
ROOT is the innermost root around, and NAMES are those of the repository there,
or of the root.")

(defvar-local gemini-companion-workspace--directory nil
  "What `default-directory' was in this buffer after the last command.")

;;;; Announcing

(defun gemini-companion-workspace-start ()
  "Announce the roots as soon as Emacs has time, and whenever they change."
  (gemini-companion-workspace--change-hooks #'add-hook)
  (setq gemini-companion-workspace-pending t
        gemini-companion-workspace-known nil)
  (let ((gemini-companion-workspace--delay 0))
    (gemini-companion-workspace--announce-soon)))

(defun gemini-companion-workspace-stop ()
  "Stop announcing the roots, and forget where clients work."
  (gemini-companion-workspace--change-hooks #'remove-hook)
  (cancel-function-timers #'gemini-companion-workspace--announce-or-log)
  (clrhash gemini-companion-workspace--cache)
  (setq gemini-companion-workspace-pending nil
        gemini-companion-workspace--client-roots nil))

(defun gemini-companion-workspace--change-hooks (change)
  "Call CHANGE, `add-hook' or `remove-hook', for hooks run when roots may change."
  (funcall change 'post-command-hook #'gemini-companion-workspace--follow-terminal)
  (dolist (hook '(find-file-hook
                  kill-buffer-hook after-set-visited-file-name-hook
                  ;; A buffer may become a terminal.
                  after-change-major-mode-hook))
    (funcall change hook #'gemini-companion-workspace--note-buffer)))

(defun gemini-companion-workspace--note-buffer ()
  "Announce the roots soon, since the current buffer has changed.
Hidden buffers have no part in them, and many packages use some all the time."
  (unless (string-prefix-p " " (buffer-name))
    (gemini-companion-workspace--announce-soon)))

(defun gemini-companion-workspace--follow-terminal ()
  "Announce the roots soon if the shell in this terminal has changed its directory."
  (unless (equal default-directory gemini-companion-workspace--directory)
    (setq gemini-companion-workspace--directory default-directory)
    (when (apply #'derived-mode-p gemini-companion-workspace-terminal-modes)
      (gemini-companion-workspace--announce-soon))))

(defun gemini-companion-workspace--announce-soon ()
  "Announce the roots soon, if they have changed."
  (gemini-companion-ui-adjust-timer t gemini-companion-workspace--delay nil
                                    #'gemini-companion-workspace--announce-or-log))

(defun gemini-companion-workspace--announce-or-log ()
  "Announce the roots now, if they have changed; log an error."
  (gemini-companion-log-errors "workspace roots"
    (gemini-companion-workspace-announce)))

(defun gemini-companion-workspace-announce (&optional extra)
  "Announce the roots now, if they have changed.
The directory EXTRA, if non-nil, counts as one of them this time."
  (let* ((known (if gemini-companion-workspace-pending 'none gemini-companion-workspace-known))
         (roots (gemini-companion-workspace-roots extra)))
    (setq gemini-companion-workspace-pending nil)
    (unless (equal known gemini-companion-workspace-known)
      (gemini-companion-bridge-set-roots roots)
      (gemini-companion-log-run-hook 'gemini-companion-workspace-change-hook))))

(defun gemini-companion-workspace-roots (&optional extra)
  "Find the present roots, record them as announced, and return their names.
These have no trailing slash.  The directory EXTRA, if non-nil, counts as a
root this time.  Look anew only at known roots that `default-directory' is in:
the disk of another one may no longer answer."
  (setq gemini-companion-workspace-known
        (cl-loop with found = (gemini-companion-workspace--find extra)
                 with before = gemini-companion-workspace-known
                 for directory in (delete-dups (delq nil (mapcar #'car found)))
                 for name = (file-name-as-directory directory)
                 for project = (and (member (cons directory t) found) t)
                 for old = (and (not (string-prefix-p name default-directory))
                                (seq-find (lambda (it)
                                            (equal directory
                                                   (gemini-companion-workspace-root-directory it)))
                                          before))
                 collect (if (and old (eq project (gemini-companion-workspace-root-project old)))
                             old
                           (make-gemini-companion-workspace-root
                            :directory directory :project project
                            :names (delete-dups
                                    (list name (file-name-as-directory
                                                (file-truename directory))))))))
  (gemini-companion-workspace-announced))

(defun gemini-companion-workspace-announced ()
  "Return the names of the announced roots."
  (mapcar #'gemini-companion-workspace-root-directory gemini-companion-workspace-known))

(defun gemini-companion-workspace--roots-around (file)
  "Return the announced roots that FILE is in, each as (ROOT . NAME).
FILE begins with NAME.  The innermost root comes first."
  (sort (cl-loop for root in gemini-companion-workspace-known
                 nconc (cl-loop for name in (gemini-companion-workspace-root-names root)
                                if (string-prefix-p name file) collect (cons root name)))
        (lambda (one other) (> (length (cdr one)) (length (cdr other))))))

(defun gemini-companion-workspace-directories-of (file)
  "Return the directories that FILE is in, up to the outermost announced root.
The innermost one comes first, and each has a trailing slash."
  (let* ((file-name-handler-alist nil)
         (root (cdar (last (gemini-companion-workspace--roots-around file)))))
    (and root
         (cl-loop for directory = (file-name-directory file)
                  then (file-name-directory (directory-file-name directory))
                  while (string-prefix-p root directory)
                  collect directory
                  until (equal directory root)))))

(defun gemini-companion-workspace-innermost (file &optional only-project)
  "Return the innermost announced root that FILE is in, as (ROOT . NAME), or nil.
FILE begins with NAME.  If ONLY-PROJECT is non-nil, it must be a project."
  (cl-loop for root in (gemini-companion-workspace--roots-around file)
           if (or (gemini-companion-workspace-root-project (car root)) (not only-project))
           return root))

(defun gemini-companion-workspace-title (file root)
  "Return the name of FILE, in ROOT, for the user: \"app/src/a.py\".
If another announced root would have the same name, as with the worktrees
~/w/1/app and ~/w/2/app, return more of it: \"1/app/src/a.py\"."
  (let* ((file-name-handler-alist nil)
         (root (directory-file-name root))
         (others (cl-loop for other in gemini-companion-workspace-known
                          unless (member (file-name-as-directory root)
                                         (gemini-companion-workspace-root-names other))
                          collect (gemini-companion-workspace-root-directory other))))
    (cl-loop for start = (file-name-directory root) then parent
             for parent = (file-name-directory (directory-file-name start))
             for end = (concat "/" (string-remove-prefix start root))
             while (and (not (equal start parent))
                        (cl-loop for other in others thereis (string-suffix-p end other)))
             finally return (string-remove-prefix start file))))

;;;; Finding roots

(defun gemini-companion-workspace--find (extra)
  "Return the present roots, each as (DIRECTORY . PROJECT), perhaps several times.
The directory EXTRA, unless it is nil, is one of them."
  (append
   (mapcar (lambda (root) (cons root t)) (gemini-companion-workspace-given-roots))
   (cl-loop for directory in (apply #'append (list extra)
                                    (mapcar #'funcall gemini-companion-workspace-functions))
            for root = (and directory (gemini-companion-workspace--valid-root directory))
            if root collect
            (cons root (equal (cons root t)
                              (gemini-companion-workspace--guess-root directory))))
   (mapcar (pcase-lambda (`(,directory . ,only-project))
             (gemini-companion-workspace--guess-root directory only-project))
           ;; Only names are handled here, so that remote ones need no handlers.
           (let ((file-name-handler-alist nil))
             (and gemini-companion-workspace-guess
                  (delete-dups
                   (delq nil (mapcar #'gemini-companion-workspace--directory-of
                                     (buffer-list)))))))))

(defun gemini-companion-workspace-given-roots ()
  "Return the names of the roots in the option, for which no search is needed."
  (delq nil (mapcar #'gemini-companion-workspace--valid-root
                    (ensure-list gemini-companion-workspace-roots))))

(defun gemini-companion-workspace--valid-root (directory)
  "Return the name of DIRECTORY as a root, or nil if it cannot be one."
  (unless (file-remote-p directory)
    (let ((name (directory-file-name (expand-file-name directory))))
      ;; File names may hold any bytes, but messages only text.
      (unless (memq 'eight-bit (find-charset-string name))
        name))))

(defun gemini-companion-workspace--directory-of (buffer)
  "Return the directory of BUFFER as (DIRECTORY . ONLY-PROJECT), or nil.
See `gemini-companion-workspace--guess-root' for both."
  (let ((file (buffer-file-name buffer))
        (mode (buffer-local-value 'major-mode buffer))
        (directory (buffer-local-value 'default-directory buffer)))
    (cond (file (cons (file-name-directory file)
                      (run-hook-with-args-until-success
                       'gemini-companion-workspace-private-functions buffer)))
          ((apply #'provided-mode-derived-p mode gemini-companion-workspace-terminal-modes)
           (list directory))
          ((cl-loop for parent in '(dired-mode magit-mode vc-dir-mode)
                    thereis (provided-mode-derived-p mode parent))
           (cons directory t)))))

(defun gemini-companion-workspace--guess-root (directory &optional only-project)
  "Return the root of DIRECTORY as (ROOT . PROJECT), perhaps from the cache.
Outside of projects ROOT is DIRECTORY itself.  It is nil there if
ONLY-PROJECT is non-nil, and if DIRECTORY must not be guessed."
  (pcase-let ((`(,time . ,guess) (gethash directory gemini-companion-workspace--cache)))
    (unless (or (cdr guess)
                (and time (gemini-companion-ui-recent-p time gemini-companion-workspace--lifetime)))
      (let ((project (gemini-companion-workspace--find-project directory)))
        (setq guess (cons (or project (gemini-companion-workspace-guessable-root directory))
                          (and project t)))
        (puthash directory (cons (float-time) guess) gemini-companion-workspace--cache)))
    (if (and only-project (not (cdr guess))) '(nil) guess)))

(defun gemini-companion-workspace--find-project (directory)
  "Return the root of the project of DIRECTORY, or nil if none may be guessed."
  (unless (file-remote-p directory)
    (let ((non-essential t)
          ;; Emacs 31 would remember for minutes that there is no project.
          (project-vc-non-essential-cache-timeout 0))
      ;; A kind of project that the user has added may lack a method.
      (gemini-companion-log-errors "project"
        (when-let* ((root (gemini-companion-workspace-call-with-project directory #'project-root)))
          (gemini-companion-workspace-guessable-root root))))))

(defun gemini-companion-workspace-call-with-project (directory function)
  "Call FUNCTION with the project of DIRECTORY; return nil if there is none.
Many turn VC off for Git, which is then faster, and Project would find none."
  (let ((vc-handled-backends (cons 'Git vc-handled-backends))
        ;; By default, Tramp would ask twenty questions again after ten seconds, for each key.
        (remote-file-name-inhibit-cache 3600))
    (when-let* ((project (project-current nil directory)))
      (funcall function project))))

(defun gemini-companion-workspace-guessable-root (directory)
  "Return the name of DIRECTORY as a root, or nil if it must not be guessed."
  (when-let* ((root (gemini-companion-workspace--valid-root directory)))
    (let ((file-name-handler-alist nil))
      (cl-loop for general in (list "/" "~" temporary-file-directory "/tmp" "/var/tmp"
                                    (or (getenv "TMPDIR") ""))
               ;; If TMPDIR is empty, the temporary directory of Emacs is "./".
               never (file-equal-p root (expand-file-name general "/"))
               finally return root))))

(defun gemini-companion-workspace-project (directory)
  "Return the root of the project in DIRECTORY, or else DIRECTORY.
While the connection to its host is lost, or Tramp is not connected, Emacs
would wait for Tramp, so return the workspace root there."
  (let* ((host (gemini-companion-host-of-name directory))
         (lost (and host (gemini-companion-host-lost host))))
    (file-name-as-directory
     (expand-file-name
      (or (when-let* (((and host (or lost (not (file-remote-p directory nil 'connected)))))
                      (root (car (gemini-companion-host-roots-of host directory))))
            (concat (gemini-companion-host-prefix host) root))
          (unless lost
            (gemini-companion-workspace-call-with-project directory #'project-root))
          directory)))))

;;;; Scopes

(defun gemini-companion-workspace-scope-of (directory)
  "Return the scope of clients that work in DIRECTORY, which is nil if unknown."
  (let ((machine (and directory (gemini-companion-workspace-machine directory))))
    (cond ((not machine) (gemini-companion-workspace--local-scope directory))
          ;; Clients on a host that was just closed must not be told of files here.
          ((eq machine 'elsewhere)
           (gemini-companion-workspace--make-scope nil nil machine))
          (t (gemini-companion-workspace--host-scope directory machine)))))

(defun gemini-companion-workspace-machine (file)
  "Return the host that FILE is on, nil for this machine.
Return `elsewhere' if FILE is on a host that is not served."
  (or (gemini-companion-host-of-name file)
      ;; In one of Tramp's syntaxes names are like "/[ssh/build]/a".
      (and (string-match-p "\\`/\\(?:[^/:]+:\\|\\[[^]/]*/[^]]*\\]\\)" file)
           'elsewhere)))

(defun gemini-companion-workspace-client-name (file directory)
  "Return what a client in DIRECTORY, which may be nil, calls FILE.
The name is relative if FILE is below DIRECTORY."
  (let* ((file-name-handler-alist nil)
         (host (and directory (gemini-companion-host-of-name directory)))
         (name (or (and host (gemini-companion-host-name-there host file)) file))
         (prefix (and directory
                      (file-name-as-directory
                       (if host (gemini-companion-host-local-name host directory)
                         (expand-file-name directory))))))
    ;; The client may work under the real name of a project that Emacs knows by a link.
    (or (cl-loop for each in (and prefix (list name (if host name (file-truename file))))
                 if (string-prefix-p prefix each) return (string-remove-prefix prefix each))
        name)))

(defun gemini-companion-workspace--host-scope (directory host)
  "Return the scope of DIRECTORY on HOST, going by the roots of that."
  (let* ((file-name-handler-alist nil)
         (root (and (not (eq gemini-companion-context-scope 'all))
                    (car (gemini-companion-host-roots-of
                          host (file-name-as-directory directory))))))
    (gemini-companion-workspace--make-scope
     (mapcan (lambda (root) (gemini-companion-host-directory-names host root))
             (if root (list root) (copy-sequence (gemini-companion-host-roots host))))
     nil host)))

(defun gemini-companion-workspace--local-scope (directory)
  "Return the scope of DIRECTORY, a local one or nil; remember the root there."
  (let* ((directory (and directory
                         ;; So GNU/Linux calls one that was deleted while a client works there.
                         (string-remove-suffix " (deleted)" directory)))
         (root (and directory
                    (gemini-companion-workspace-innermost (file-name-as-directory directory))))
         (known (cdr (assoc directory gemini-companion-workspace--client-roots))))
    ;; Clients go on working there after its last file was closed.
    (unless (or (not root) (eq (car root) (car known)))
      (setf known (cons (car root) (gemini-companion-workspace--client-root directory root))
            (alist-get directory gemini-companion-workspace--client-roots nil nil #'equal) known))
    (gemini-companion-workspace--make-scope
     (cdr known) (or (null known) (eq gemini-companion-context-scope 'all)))))

(defun gemini-companion-workspace--client-root (directory innermost)
  "Return the names of the root in which a client in DIRECTORY works.
The innermost announced root is INNERMOST, (ROOT . NAME).  A repository below
that counts, even if Emacs considers it part of the project around it, as it
does with Git's submodules."
  (pcase-let* ((file-name-handler-alist nil)
               (`(,root . ,name) innermost)
               (own (locate-dominating-file (file-name-as-directory directory) ".git"))
               (own (and own (expand-file-name (file-name-as-directory own))))
               (rest (and own (string-prefix-p name own) (string-remove-prefix name own))))
    (mapcar (lambda (name) (concat name rest))
            (gemini-companion-workspace-root-names root))))

(defun gemini-companion-workspace-out-of-scope-reason (file truename scope &optional exactly)
  "Return why FILE is not in SCOPE, as text for the user, or nil if it is.
TRUENAME is its name without symbolic links.  Whether it is private does
not matter here.  If EXACTLY is nil, the text need not say where it is."
  (let ((machine (gemini-companion-workspace-machine file))
        (own (gemini-companion-workspace-scope-machine scope)))
    (cond (gemini-companion-workspace-pending "perhaps in a project; Emacs is searching for it")
          ;; A container has files of this machine.
          ((and (or (eq machine own) (null machine))
                (cl-loop for name in (gemini-companion-workspace-scope-names scope)
                         thereis (or (string-prefix-p name file)
                                     (string-prefix-p name truename))))
           nil)
          ((not (eq machine own)) "on another machine")
          ;; To look for the project takes long if there are many.
          ((not (or exactly gemini-companion-share-outside-workspace
                    (gemini-companion-workspace-scope-all-projects scope)))
           "elsewhere")
          ((gemini-companion-workspace--in-project-p file truename)
           (unless (gemini-companion-workspace-scope-all-projects scope) "in another project"))
          ((not gemini-companion-share-outside-workspace) "outside of projects"))))

(defun gemini-companion-workspace--in-project-p (file truename)
  "Return non-nil if FILE, or TRUENAME, is in an announced root with a project.
On a host each root is one."
  (let ((host (gemini-companion-host-of-name file)))
    (cl-loop for name in (delete-dups (list file truename))
             thereis (if host (gemini-companion-host-roots-of host name)
                       (gemini-companion-workspace-innermost name 'only-project)))))

(provide 'gemini-companion-workspace)
;;; gemini-companion-workspace.el ends here

;;; gemini-companion-workspace.el --- Workspace roots, and the scopes of clients -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client connects only from a directory inside a workspace root.  The roots are the projects of
;; the open files and terminals.  The directory of a file outside of projects is a root as well, so
;; that a client started there connects.  The home directory, the root directory and temporary
;; directories are never guessed to be roots, and remote directories are never accessed.
;;
;; An Emacs may have several projects open, while a client works in one.  The directory in which it
;; works determines its scope: the files of which it may be told.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-bridge)
(require 'gemini-companion-log)

(declare-function project-root "project" (project))
(defvar project-vc-non-essential-cache-timeout) ; Emacs 31

;;;; Options

(defvar gemini-companion-workspace-change-hook nil
  "Hook run when the roots, or the scopes of clients, have changed.")

(defun gemini-companion-workspace--set-root-option (option value)
  "Set OPTION to VALUE, and announce the roots if they change."
  (set-default-toplevel-value option value)
  (when (gemini-companion-bridge-running-p)
    (gemini-companion-workspace--announce-soon)))

(defun gemini-companion-workspace--set-scope-option (option value)
  "Set OPTION to VALUE, and send clients their new contexts."
  (set-default-toplevel-value option value)
  (run-hooks 'gemini-companion-workspace-change-hook))

(defcustom gemini-companion-workspace-roots nil
  "Directories that are workspace roots even if nothing in them is open.
Gemini CLI connects to this Emacs from directories inside a root.  See
also `gemini-companion-workspace-guess'."
  :type '(repeat directory)
  :group 'gemini-companion
  :risky t
  :set #'gemini-companion-workspace--set-root-option
  :initialize #'custom-initialize-default
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-workspace-guess t
  "Non-nil means the projects of open files and terminals are workspace roots.
They are added to `gemini-companion-workspace-roots'."
  :type 'boolean
  :group 'gemini-companion
  :risky t
  :set #'gemini-companion-workspace--set-root-option
  :initialize #'custom-initialize-default
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-context-scope 'project
  "Which open files a client is told of.
If `project', those in the innermost workspace root around the directory
in which the client works.  If `all', those in other projects, too.

If Emacs does not know that directory, or if it is in no workspace root,
as in a container with other directory names, the client is told of the
files in all projects.  Files outside of projects are told only to clients
that work in their directory or above it; but see
`gemini-companion-share-outside-workspace'."
  :type '(choice (const :tag "The client's own project" project)
                 (const :tag "All projects" all))
  :group 'gemini-companion
  :risky t
  :set #'gemini-companion-workspace--set-scope-option
  :initialize #'custom-initialize-default
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-share-outside-workspace nil
  "Non-nil means tell all clients of open files outside of projects, too."
  :type 'boolean
  :group 'gemini-companion
  :risky t
  :set #'gemini-companion-workspace--set-scope-option
  :initialize #'custom-initialize-default
  :package-version '(gemini-companion . "0.1.0"))

(defconst gemini-companion-workspace-terminal-modes
  '(comint-mode term-mode eshell-mode vterm-mode eat-mode ghostel-mode)
  "Major modes in which a client may run.")

(defconst gemini-companion-workspace--project-modes
  '(dired-mode magit-mode vc-dir-mode)
  "Major modes whose buffers count if their directory is in a project.")

(defconst gemini-companion-workspace--delay 0.3
  "Seconds from a change of the open files to the search for roots.")

(defvar gemini-companion-workspace--lifetime 60
  "Seconds for which the root guessed for a directory is reused.")

;;;; State

(cl-defstruct (gemini-companion-workspace-root
               (:constructor gemini-companion-workspace--make-root
                             (directory
                              project
                              &aux
                              (names (delete-dups
                                      (list (file-name-as-directory directory)
                                            (file-name-as-directory
                                             (file-truename directory)))))))
               (:copier nil))
  "A directory from which clients connect."
  (directory nil :documentation "Its name, without a trailing slash.")
  (project nil :documentation "Non-nil if it is a project or an extra root of the user's.")
  (names nil :documentation "Its names with and without symbolic links, with a slash."))

(cl-defstruct (gemini-companion-workspace-scope
               (:constructor gemini-companion-workspace--make-scope (directory names all-projects))
               (:copier nil))
  "Which files are told to clients that work in one directory."
  (directory nil :documentation "Where they work, or nil if that is not known.")
  (names nil :documentation "The names of the root there, with and without symbolic links.
Nil if there is none.")
  (all-projects nil :documentation "Non-nil if files in all projects are told."))

(defvar gemini-companion-workspace--known nil
  "The roots that were announced last.")

(defvar gemini-companion-workspace--timer nil
  "The timer that announces the roots, or nil.")

(defvar gemini-companion-workspace--cache (make-hash-table :test #'equal)
  "The roots guessed for directories, as (TIME PROJECT . ROOT).
PROJECT and ROOT are directories or nil.")

(defvar gemini-companion-workspace--scopes nil
  "The scopes of directories, as (ROOTS OPTION . ALIST).
They are valid while ROOTS are the known roots and OPTION is the value of
`gemini-companion-context-scope'.")

(defvar gemini-companion-workspace--client-roots nil
  "Alist of the directories in which clients work and the names of the roots there.")

;;;; Announcing

(defun gemini-companion-workspace-start ()
  "Announce the roots whenever they change."
  (gemini-companion-workspace--change-hooks #'add-hook))

(defun gemini-companion-workspace-stop ()
  "Stop announcing the roots, and forget where clients work."
  (gemini-companion-workspace--change-hooks #'remove-hook)
  (when gemini-companion-workspace--timer
    (cancel-timer gemini-companion-workspace--timer)
    (setq gemini-companion-workspace--timer nil))
  (clrhash gemini-companion-workspace--cache)
  (setq gemini-companion-workspace--scopes nil
        gemini-companion-workspace--client-roots nil))

(defun gemini-companion-workspace--change-hooks (change)
  "Call CHANGE, `add-hook' or `remove-hook', for hooks run when roots may change."
  (dolist (hook '(find-file-hook
                  kill-buffer-hook after-set-visited-file-name-hook
                  ;; It makes a buffer a terminal.
                  after-change-major-mode-hook))
    (funcall change hook #'gemini-companion-workspace--announce-soon)))

(defun gemini-companion-workspace--announce-soon ()
  "Announce the roots soon, if they have changed."
  (unless gemini-companion-workspace--timer
    (setq gemini-companion-workspace--timer
          (run-at-time gemini-companion-workspace--delay nil
                       (lambda ()
                         (setq gemini-companion-workspace--timer nil)
                         (gemini-companion-log-errors "workspace roots"
                           (gemini-companion-workspace-announce)))))))

(defun gemini-companion-workspace-announce (&optional extra)
  "Announce the roots now, if they have changed.
The directory EXTRA, if non-nil, counts as one of them this time."
  (let ((known gemini-companion-workspace--known)
        (roots (gemini-companion-workspace-roots extra)))
    (unless (eq known gemini-companion-workspace--known)
      (gemini-companion-bridge-set-roots roots)
      (run-hooks 'gemini-companion-workspace-change-hook))))

(defun gemini-companion-workspace-roots (&optional extra)
  "Return the names of the present roots, which are then known as announced.
They have no trailing slash.  The directory EXTRA, if non-nil, counts as
one of them this time."
  (let ((found (gemini-companion-workspace--find extra)))
    (unless (equal found (mapcar (lambda (root)
                                   (cons (gemini-companion-workspace-root-directory root)
                                         (gemini-companion-workspace-root-project root)))
                                 gemini-companion-workspace--known))
      (setq gemini-companion-workspace--known
            (cl-loop for (directory . project) in found
                     collect (gemini-companion-workspace--make-root directory project))))
    (mapcar #'car found)))

(defun gemini-companion-workspace-known ()
  "Return the announced roots, a list of `gemini-companion-workspace-root' objects.
As long as they do not change, it is the same list."
  gemini-companion-workspace--known)

(defun gemini-companion-workspace-announced ()
  "Return the names of the announced roots."
  (mapcar #'gemini-companion-workspace-root-directory gemini-companion-workspace--known))

(defun gemini-companion-workspace-roots-of (file)
  "Return the names of the announced roots that FILE is in, going by names.
The names are those with and without symbolic links."
  (cl-loop for root in gemini-companion-workspace--known
           nconc (cl-loop for name in (gemini-companion-workspace-root-names root)
                          if (string-prefix-p name file)
                          collect (directory-file-name name))))

(defun gemini-companion-workspace-innermost (file &optional only-project)
  "Return the innermost announced root that FILE is in, as (ROOT . NAME).
NAME is the one of its names with which FILE begins.  If ONLY-PROJECT is
non-nil, ignore roots that are not projects.  Return nil if there is none."
  (let ((innermost nil))
    (dolist (root gemini-companion-workspace--known innermost)
      (when (or (gemini-companion-workspace-root-project root) (not only-project))
        (dolist (name (gemini-companion-workspace-root-names root))
          (when (and (string-prefix-p name file)
                     (length> name (length (cdr innermost))))
            (setq innermost (cons root name))))))))

;;;; Finding roots

(defun gemini-companion-workspace--find (extra)
  "Return the present roots, each as (DIRECTORY . PROJECT).
The directory EXTRA is one of them, unless it is nil."
  (let ((found nil))
    (pcase-dolist (`(,directory . ,project)
                   (nconc (mapcar (lambda (root)
                                    (cons (gemini-companion-workspace--valid-root root) t))
                                  gemini-companion-workspace-roots)
                          (and extra (list (gemini-companion-workspace--extra-root extra)))
                          (and gemini-companion-workspace-guess
                               (gemini-companion-workspace--guess-roots))))
      (if-let* ((known (assoc directory found)))
          (when project (setcdr known t))
        (when directory (push (cons directory project) found))))
    (nreverse found)))

(defun gemini-companion-workspace--valid-root (directory)
  "Return the name of DIRECTORY as a root, or nil if it cannot be one."
  (unless (file-remote-p directory)
    (let ((name (directory-file-name (expand-file-name directory))))
      ;; File names may hold any bytes, but messages only text.
      (unless (memq 'eight-bit (find-charset-string name))
        name))))

(defun gemini-companion-workspace--extra-root (directory)
  "Return DIRECTORY, which need not be a project, as (ROOT . PROJECT)."
  (let ((root (gemini-companion-workspace--valid-root directory)))
    (cons root (equal root (gemini-companion-workspace--find-project directory)))))

(defun gemini-companion-workspace--guess-roots ()
  "Return the roots of all buffers, each as (DIRECTORY . PROJECT).
DIRECTORY is nil for buffers without a root."
  (let ((directories (make-hash-table :test #'equal)))
    ;; Only names are handled here, so that remote ones need no handlers.
    (let ((file-name-handler-alist nil))
      (dolist (buffer (buffer-list))
        (when-let* ((directory (gemini-companion-workspace--buffer-directory buffer)))
          (puthash directory t directories))))
    (mapcar (pcase-lambda (`(,directory . ,only-project))
              (gemini-companion-workspace--guess-root directory only-project))
            (hash-table-keys directories))))

(defun gemini-companion-workspace--buffer-directory (buffer)
  "Return the directory of BUFFER as (DIRECTORY . ONLY-PROJECT), or nil.
See `gemini-companion-workspace--guess-root' for both."
  (let ((file (buffer-local-value 'buffer-file-name buffer))
        (mode (buffer-local-value 'major-mode buffer)))
    (cond (file (list (file-name-directory file)))
          ;; Most buffers without a file are in one of these.
          ((memq mode '(fundamental-mode special-mode)) nil)
          ((apply #'provided-mode-derived-p mode gemini-companion-workspace-terminal-modes)
           (list (buffer-local-value 'default-directory buffer)))
          ((apply #'provided-mode-derived-p mode gemini-companion-workspace--project-modes)
           (cons (buffer-local-value 'default-directory buffer) t)))))

(defun gemini-companion-workspace--guess-root (directory &optional only-project)
  "Return the root of DIRECTORY as (ROOT . PROJECT).
Outside of projects ROOT is DIRECTORY itself.  It is nil there if
ONLY-PROJECT is non-nil, and if DIRECTORY must not be guessed."
  (pcase-let ((`(,time ,project . ,root)
               (gethash directory gemini-companion-workspace--cache))
              (now (float-time)))
    (unless (and time (< (- now time) gemini-companion-workspace--lifetime))
      (setq project (gemini-companion-workspace--find-project directory)
            root (or project (gemini-companion-workspace--guessable-root directory)))
      (puthash directory (cons now (cons project root)) gemini-companion-workspace--cache))
    (cons (if only-project project root) (and project t))))

(defun gemini-companion-workspace--find-project (directory)
  "Return the root of the project of DIRECTORY, or nil if none may be guessed."
  (unless (file-remote-p directory)
    (let* ((non-essential t)
           ;; Emacs 31 would remember for minutes that there is no project.
           (project-vc-non-essential-cache-timeout 0)
           (project (gemini-companion-log-errors "project"
                      (project-current nil directory))))
      (and project (gemini-companion-workspace--guessable-root (project-root project))))))

(defun gemini-companion-workspace--guessable-root (directory)
  "Return the name of DIRECTORY as a root, or nil if it must not be guessed."
  (when-let* ((root (gemini-companion-workspace--valid-root directory)))
    (unless (cl-loop for general in (list "/" "~" temporary-file-directory "/tmp" "/var/tmp"
                                          (getenv "TMPDIR"))
                     thereis (and general (file-equal-p root general)))
      root)))

;;;; Scopes

(defun gemini-companion-workspace-scope-of (directory)
  "Return the scope of clients that work in DIRECTORY; nil if that is unknown."
  (unless (and gemini-companion-workspace--scopes
               (eq (car gemini-companion-workspace--scopes) gemini-companion-workspace--known)
               (eq (cadr gemini-companion-workspace--scopes) gemini-companion-context-scope))
    (setq gemini-companion-workspace--scopes
          (list gemini-companion-workspace--known gemini-companion-context-scope)))
  (cdr (or (assoc directory (cddr gemini-companion-workspace--scopes))
           (car (push (cons directory (gemini-companion-workspace--find-scope directory))
                      (cddr gemini-companion-workspace--scopes))))))

(defun gemini-companion-workspace--find-scope (directory)
  "Return a new scope for DIRECTORY, and remember the root there."
  (let ((names (and directory
                    (or (gemini-companion-workspace--client-root directory)
                        ;; Clients go on working there when nothing in it is open any more.
                        (cdr (assoc directory gemini-companion-workspace--client-roots))))))
    (when names
      (setf (alist-get directory gemini-companion-workspace--client-roots
                       nil nil #'equal)
            names))
    (gemini-companion-workspace--make-scope
     directory names
     (or (null names) (eq gemini-companion-context-scope 'all)))))

(defun gemini-companion-workspace--client-root (directory)
  "Return the names of the root in which a client in DIRECTORY works, or nil.
They are the names with and without symbolic links, with trailing slashes."
  (let ((directory (file-name-as-directory directory)))
    (pcase-let ((`(,root . ,name) (gemini-companion-workspace-innermost directory)))
      (when root
        (let* ((own (gemini-companion-workspace--own-root directory name))
               (rest (and own (string-remove-prefix name own))))
          (mapcar (lambda (name) (concat name rest))
                  (gemini-companion-workspace-root-names root)))))))

(defun gemini-companion-workspace--own-root (directory root)
  "Return the repository below ROOT that DIRECTORY is in, or nil.
Emacs may consider it part of the project around it, as it does with Git's
submodules."
  (let* ((file-name-handler-alist nil)
         (own (locate-dominating-file directory ".git"))
         (own (and own (expand-file-name (file-name-as-directory own)))))
    (and own (string-prefix-p root own) (length> own (length root))
         own)))

(defun gemini-companion-workspace-in-scope-p (file truename scope)
  "Return non-nil if clients with SCOPE may be told of FILE.
TRUENAME is its name without symbolic links.  Whether it is private does
not matter here."
  (or (gemini-companion-workspace--below-p
       (gemini-companion-workspace-scope-names scope) file truename)
      (and (or gemini-companion-share-outside-workspace
               (gemini-companion-workspace-scope-all-projects scope))
           (if (gemini-companion-workspace--in-project-p file truename)
               (gemini-companion-workspace-scope-all-projects scope)
             gemini-companion-share-outside-workspace))))

(defun gemini-companion-workspace-out-of-scope-reason (file truename scope)
  "Return why FILE is not in SCOPE, as text for the user, or nil if it is.
TRUENAME is its name without symbolic links."
  (cond ((gemini-companion-workspace-in-scope-p file truename scope) nil)
        ((gemini-companion-workspace--in-project-p file truename) "in another project")
        (t "outside of projects")))

(defun gemini-companion-workspace--in-project-p (file truename)
  "Return non-nil if FILE, or TRUENAME, is in an announced root with a project."
  (cl-loop for root in gemini-companion-workspace--known
           thereis (and (gemini-companion-workspace-root-project root)
                        (gemini-companion-workspace--below-p
                         (gemini-companion-workspace-root-names root) file truename))))

(defun gemini-companion-workspace--below-p (names file truename)
  "Return non-nil if FILE, or TRUENAME, is below a directory among NAMES."
  (cl-loop for name in names
           thereis (or (string-prefix-p name file)
                       (string-prefix-p name truename))))

(provide 'gemini-companion-workspace)
;;; gemini-companion-workspace.el ends here

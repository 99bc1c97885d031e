;;; gemini-companion-workspace.el --- Workspace roots, and which files are whose -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client connects only from a directory inside a workspace root.  Roots are the projects of
;; the files and terminals that are open; a file outside any project counts with its directory,
;; so that a client which is started there connects.  The home directory, the root directory and
;; temporary directories are never guessed, and remote files are never looked at.
;;
;; An Emacs holds many projects, and a client works in one.  From the directory in which it works
;; follows its scope: the files of which it may hear.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-bridge)
(require 'gemini-companion-log)

(declare-function project-root "project" (project))

(defun gemini-companion-workspace--set (option value)
  "Set OPTION to VALUE, and announce what follows from it."
  (set-default-toplevel-value option value)
  (when (gemini-companion-bridge-running-p)
    (gemini-companion-workspace--note)))

(defcustom gemini-companion-workspace-roots nil
  "Directories that are workspace roots whatever is open.
Gemini CLI connects to this Emacs from directories inside a root.  See
also `gemini-companion-workspace-guess'."
  :type '(repeat directory)
  :group 'gemini-companion
  :risky t
  :set #'gemini-companion-workspace--set
  :initialize #'custom-initialize-default)

(defcustom gemini-companion-workspace-guess t
  "Non-nil to count the projects of open files and terminals as workspace roots.
They come in addition to `gemini-companion-workspace-roots'."
  :type 'boolean
  :group 'gemini-companion
  :risky t
  :set #'gemini-companion-workspace--set
  :initialize #'custom-initialize-default)

(defvar gemini-companion-workspace-change-hook nil
  "Functions called without arguments when the roots have changed.")

(defconst gemini-companion-workspace--delay 0.3
  "Seconds after the last change of open files before the roots are looked up.")

(defvar gemini-companion-workspace--lifetime 60
  "Seconds for which the root of a directory is not looked up again.")

(defconst gemini-companion-workspace--hooks
  '(find-file-hook
    kill-buffer-hook after-set-visited-file-name-hook after-change-major-mode-hook)
  "Hooks that run when the roots may have changed.
A terminal is one from when its mode is set.")

(defconst gemini-companion-workspace-terminal-modes
  '(comint-mode term-mode eshell-mode vterm-mode eat-mode ghostel-mode)
  "Major modes in which a client may run.")

(defconst gemini-companion-workspace--project-modes
  '(dired-mode magit-mode vc-dir-mode)
  "Major modes that show a project, if they show one.")

(defvar gemini-companion-workspace--timer nil
  "The timer that will look up the roots, or nil.")

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
  (project nil :documentation "Non-nil if it is a project, or the user says that it is a root.")
  (names nil :documentation "Its names as directories, with and without symbolic links."))

(defvar gemini-companion-workspace--known nil
  "The roots that clients were told last.")

(defvar gemini-companion-workspace--cache (make-hash-table :test #'equal)
  "Directories and what was found: (TIME PROJECT . ROOT).
Both are directories or nil; without a project the root is the directory.")

;;;; Announcing

(defun gemini-companion-workspace-roots (&optional besides)
  "Return the workspace roots that are open now, without trailing slashes.
With the directory BESIDES count that, too, this once.  Remember them as
announced."
  (let ((found (gemini-companion-workspace--find besides)))
    (unless (equal found (gemini-companion-workspace--known-pairs))
      (setq gemini-companion-workspace--known
            (cl-loop for (directory . project) in found
                     collect (gemini-companion-workspace--make-root directory project))))
    (mapcar #'car found)))

(defun gemini-companion-workspace--known-pairs ()
  "Return the roots that clients were told last, each as (DIRECTORY . PROJECT)."
  (cl-loop for root in gemini-companion-workspace--known
           collect (cons (gemini-companion-workspace-root-directory root)
                         (gemini-companion-workspace-root-project root))))

(defun gemini-companion-workspace-known ()
  "Return the roots that clients were told last.
Each is a `gemini-companion-workspace-root'.  It is the same list as long
as they are the same."
  gemini-companion-workspace--known)

(defun gemini-companion-workspace-announced ()
  "Return the names of the roots that clients were told last."
  (mapcar #'gemini-companion-workspace-root-directory gemini-companion-workspace--known))

(defun gemini-companion-workspace-roots-of (file)
  "Return those of the announced roots in which FILE is, judging by names.
They come with and without their symbolic links."
  (cl-loop for root in gemini-companion-workspace--known
           nconc (cl-loop for name in (gemini-companion-workspace-root-names root)
                          if (string-prefix-p name file)
                          collect (directory-file-name name))))

(defun gemini-companion-workspace-innermost (file &optional only-project)
  "Return the innermost of the announced roots in which FILE is, as (ROOT . NAME).
NAME is that of its names with which the name of FILE begins.  With
ONLY-PROJECT non-nil look at roots only that are projects.  The others
are directories from which clients connect, and no more."
  (let ((innermost nil))
    (dolist (root gemini-companion-workspace--known innermost)
      (when (or (gemini-companion-workspace-root-project root) (not only-project))
        (dolist (name (gemini-companion-workspace-root-names root))
          (when (and (string-prefix-p name file)
                     (length> name (length (cdr innermost))))
            (setq innermost (cons root name))))))))

(defun gemini-companion-workspace-follow ()
  "Announce the roots whenever they change."
  (dolist (hook gemini-companion-workspace--hooks)
    (add-hook hook #'gemini-companion-workspace--note)))

(defun gemini-companion-workspace-unfollow ()
  "Stop announcing roots."
  (dolist (hook gemini-companion-workspace--hooks)
    (remove-hook hook #'gemini-companion-workspace--note))
  (when gemini-companion-workspace--timer
    (cancel-timer gemini-companion-workspace--timer)
    (setq gemini-companion-workspace--timer nil))
  (clrhash gemini-companion-workspace--cache))

(defun gemini-companion-workspace--note (&rest _)
  "Look up the roots soon."
  (unless gemini-companion-workspace--timer
    (setq gemini-companion-workspace--timer
          (run-at-time gemini-companion-workspace--delay nil
                       #'gemini-companion-workspace--note-now))))

(defun gemini-companion-workspace--note-now ()
  "Announce the roots if they have changed.  Never signals."
  (setq gemini-companion-workspace--timer nil)
  (gemini-companion-log-errors "workspace roots"
    (gemini-companion-workspace-announce)))

(defun gemini-companion-workspace-announce (&optional besides)
  "Announce the roots now if they have changed.
With the directory BESIDES count that, too, this once."
  (let ((known gemini-companion-workspace--known)
        (roots (gemini-companion-workspace-roots besides)))
    (unless (eq known gemini-companion-workspace--known)
      (gemini-companion-bridge-set-roots roots)
      (run-hooks 'gemini-companion-workspace-change-hook))))

;;;; Finding

(defun gemini-companion-workspace--find (besides)
  "Return the roots that are open now, each as (DIRECTORY . PROJECT).
The directory BESIDES counts, too, unless it is nil."
  (let ((found nil))
    (pcase-dolist (`(,directory . ,project)
                   (nconc (mapcar (lambda (root)
                                    (cons (gemini-companion-workspace--given-root root) t))
                                  gemini-companion-workspace-roots)
                          (and besides (list (gemini-companion-workspace--besides besides)))
                          (and gemini-companion-workspace-guess
                               (gemini-companion-workspace--guess))))
      (if-let* ((known (assoc directory found)))
          (when project (setcdr known t))
        (when directory (push (cons directory project) found))))
    (nreverse found)))

(defun gemini-companion-workspace--given-root (directory)
  "Return the root that the user gave as DIRECTORY, or nil if it cannot be one."
  (unless (file-remote-p directory)
    (gemini-companion-workspace--sayable (directory-file-name (expand-file-name directory)))))

(defun gemini-companion-workspace--besides (directory)
  "Return DIRECTORY as (ROOT . PROJECT): it is one if it is guessed to be."
  (let ((root (gemini-companion-workspace--given-root directory)))
    (cons root (equal root (gemini-companion-workspace--find-project directory)))))

(defun gemini-companion-workspace--sayable (name)
  "Return the file name NAME, or nil if it cannot be told to clients.
Names may hold any bytes, messages only text."
  (and (not (memq 'eight-bit (find-charset-string name)))
       name))

(defun gemini-companion-workspace--guess ()
  "Return the roots of all buffers, each as (DIRECTORY . PROJECT).
Where there is none DIRECTORY is nil."
  (let ((places (make-hash-table :test #'equal)))
    ;; Names are taken apart here, which for remote ones is not more than that either.
    (let ((file-name-handler-alist nil))
      (dolist (buffer (buffer-list))
        (when-let* ((place (gemini-companion-workspace--place buffer)))
          (puthash place t places))))
    (mapcar (pcase-lambda (`(,directory . ,only-project))
              (gemini-companion-workspace--root directory only-project))
            (hash-table-keys places))))

(defun gemini-companion-workspace--place (buffer)
  "Return where BUFFER works, as (DIRECTORY . ONLY-PROJECT), or nil.
For these see `gemini-companion-workspace--root'."
  (let ((file (buffer-local-value 'buffer-file-name buffer))
        (mode (buffer-local-value 'major-mode buffer)))
    (cond (file (list (file-name-directory file)))
          ;; Most of what visits no file.
          ((memq mode '(fundamental-mode special-mode)) nil)
          ((apply #'provided-mode-derived-p mode gemini-companion-workspace-terminal-modes)
           (list (buffer-local-value 'default-directory buffer)))
          ((apply #'provided-mode-derived-p mode gemini-companion-workspace--project-modes)
           (cons (buffer-local-value 'default-directory buffer) t)))))

(defun gemini-companion-workspace--root (directory &optional only-project)
  "Return the root of DIRECTORY as (ROOT . PROJECT).
If it is in no project ROOT is DIRECTORY itself, or nil if ONLY-PROJECT,
or if it must not be guessed to be one."
  (pcase-let ((`(,time ,project . ,root)
               (gethash directory gemini-companion-workspace--cache))
              (now (float-time)))
    (unless (and time (< (- now time) gemini-companion-workspace--lifetime))
      (setq project (gemini-companion-workspace--find-project directory)
            root (or project (gemini-companion-workspace--narrow directory)))
      (puthash directory (cons now (cons project root)) gemini-companion-workspace--cache))
    (cons (if only-project project root) (and project t))))

(defun gemini-companion-workspace--find-project (directory)
  "Return the root of the project of DIRECTORY, or nil if none may be guessed."
  (unless (file-remote-p directory)
    (let* ((non-essential t)
           (project (gemini-companion-log-errors "project"
                      (project-current nil directory))))
      (and project (gemini-companion-workspace--narrow (project-root project))))))

(defun gemini-companion-workspace--narrow (directory)
  "Return DIRECTORY as a root, or nil if it must not be guessed to be one."
  (when-let* ((root (gemini-companion-workspace--given-root directory)))
    (unless (cl-loop for wide in (list "/" "~" temporary-file-directory "/tmp" "/var/tmp"
                                       (getenv "TMPDIR"))
                     thereis (and wide (file-equal-p root wide)))
      root)))

;;;; Scopes

(defun gemini-companion-workspace--set-scope (option value)
  "Set OPTION to VALUE, and tell the clients what follows from it."
  (set-default-toplevel-value option value)
  (run-hooks 'gemini-companion-workspace-change-hook))

(defcustom gemini-companion-context-scope 'project
  "Of which open files a client hears.
If `project', of those in the workspace root where it works, that is,
which holds its current directory; nested projects have their own.  If
`all', of those in other projects, too.

A client of which Emacs does not know where it works, or that works in no
workspace root, as in a container, where directories have other names,
hears of the files of all projects.  Files outside of projects are told
only to clients that work in their directory, or above it; see also
`gemini-companion-share-outside-workspace'."
  :type '(choice (const :tag "The client's own project" project)
                 (const :tag "All projects" all))
  :group 'gemini-companion
  :risky t
  :set #'gemini-companion-workspace--set-scope
  :initialize #'custom-initialize-default)

(defcustom gemini-companion-share-outside-workspace nil
  "Non-nil to tell all clients of open files outside of projects, too."
  :type 'boolean
  :group 'gemini-companion
  :risky t
  :set #'gemini-companion-workspace--set-scope
  :initialize #'custom-initialize-default)

(cl-defstruct (gemini-companion-scope
               (:constructor gemini-companion-workspace--make (directory names projects))
               (:copier nil))
  "Of which files the clients hear that work in one directory."
  (directory nil :documentation "Where they work, or nil if that is not known.")
  (names nil :documentation "The names, with and without symbolic links, of the root there.
Nil if there is none.")
  (projects nil :documentation "Non-nil if they hear of all projects."))

(defvar gemini-companion-workspace--scopes nil
  "What was found out: (ROOTS OPTION . ALIST), with the scope of each directory.
It holds for these roots, and this value of the option.")

(defvar gemini-companion-workspace--roots nil
  "Directories in which clients have worked, and the names of the root of each.")

(defun gemini-companion-scope-of (directory)
  "Return the scope of clients that work in DIRECTORY; nil if that is not known."
  (let ((roots (gemini-companion-workspace-known)))
    (unless (and gemini-companion-workspace--scopes
                 (eq (car gemini-companion-workspace--scopes) roots)
                 (eq (cadr gemini-companion-workspace--scopes) gemini-companion-context-scope))
      (setq gemini-companion-workspace--scopes
            (cons roots (cons gemini-companion-context-scope nil))))
    (let ((known (assoc directory (cddr gemini-companion-workspace--scopes))))
      (unless known
        (setq known (cons directory (gemini-companion-workspace--find-scope directory)))
        (push known (cddr gemini-companion-workspace--scopes)))
      (cdr known))))

(defun gemini-companion-workspace--find-scope (directory)
  "Return the scope of DIRECTORY, found out anew."
  (let ((names (and directory (or (gemini-companion-workspace--root-names directory)
                                  ;; Nothing of it is open any more; it works there still.
                                  (cdr (assoc directory gemini-companion-workspace--roots))))))
    (when names
      (setf (alist-get directory gemini-companion-workspace--roots nil nil #'equal) names))
    (gemini-companion-workspace--make
     directory names
     (or (null names) (eq gemini-companion-context-scope 'all)))))

(defun gemini-companion-scope-forget ()
  "Forget where clients have worked."
  (setq gemini-companion-workspace--scopes nil
        gemini-companion-workspace--roots nil))

(defun gemini-companion-workspace--root-names (directory)
  "Return the names of the workspace root in which a client in DIRECTORY works.
They come as directories, with and without symbolic links.  Return nil if
there is none."
  (let* ((directory (file-name-as-directory directory))
         (innermost (gemini-companion-workspace-innermost directory)))
    (when innermost
      (let ((names (gemini-companion-workspace-root-names (car innermost)))
            (own (gemini-companion-workspace--own-root directory (cdr innermost))))
        (if (not own) names
          ;; The same below each of the names.
          (let ((rest (string-remove-prefix (cdr innermost) own)))
            (mapcar (lambda (name) (concat name rest)) names)))))))

(defun gemini-companion-workspace--own-root (directory root)
  "Return the repository of its own in which DIRECTORY is, below ROOT, or nil.
Emacs may count it as a part of the project around it, as it does with
submodules of Git."
  (let* ((file-name-handler-alist nil)
         (own (locate-dominating-file directory ".git"))
         (own (and own (expand-file-name (file-name-as-directory own)))))
    (and own (string-prefix-p root own) (length> own (length root))
         own)))

;;;; Files

(defun gemini-companion-scope-holds-p (scope file truename)
  "Return non-nil if clients with SCOPE hear of FILE, as far as its place says.
TRUENAME is its name without symbolic links."
  (or (gemini-companion-workspace--below-p (gemini-companion-scope-names scope) file truename)
      (and (or gemini-companion-share-outside-workspace
               (gemini-companion-scope-projects scope))
           (if (gemini-companion-workspace--in-project-p file truename)
               (gemini-companion-scope-projects scope)
             gemini-companion-share-outside-workspace))))

(defun gemini-companion-scope-reason (scope file truename)
  "Return in words why clients with SCOPE do not hear of FILE, or nil if they do.
TRUENAME is its name without symbolic links."
  (cond ((gemini-companion-scope-holds-p scope file truename) nil)
        ((gemini-companion-workspace--in-project-p file truename) "in another project")
        (t "outside of projects")))

(defun gemini-companion-workspace--in-project-p (file truename)
  "Return non-nil if FILE, without links TRUENAME, is in a project."
  (cl-loop for root in (gemini-companion-workspace-known)
           thereis (and (gemini-companion-workspace-root-project root)
                        (gemini-companion-workspace--below-p
                         (gemini-companion-workspace-root-names root) file truename))))

(defun gemini-companion-workspace--below-p (names file truename)
  "Return non-nil if FILE, without links TRUENAME, is below one of NAMES."
  (cl-loop for name in names
           thereis (or (string-prefix-p name file)
                       (string-prefix-p name truename))))

(provide 'gemini-companion-workspace)
;;; gemini-companion-workspace.el ends here

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
;; works determines its scope: the files of which it may be told.  A client on a host is told of
;; files there only, and only such a client is.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-bridge)
(require 'gemini-companion-host)
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
  (gemini-companion-log-run-hook 'gemini-companion-workspace-change-hook))

(defcustom gemini-companion-workspace-roots nil
  "Directories that are workspace roots even if nothing in them is open.
Gemini CLI connects to this Emacs from directories inside a root.  See
also `gemini-companion-workspace-guess'."
  :type '(repeat directory)
  :group 'gemini-companion-context
  :risky t
  :set #'gemini-companion-workspace--set-root-option
  :initialize #'custom-initialize-default
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-workspace-guess t
  "Non-nil means the projects of open files and terminals are workspace roots.
They are added to `gemini-companion-workspace-roots'."
  :type 'boolean
  :group 'gemini-companion-context
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
  :group 'gemini-companion-context
  :risky t
  :set #'gemini-companion-workspace--set-scope-option
  :initialize #'custom-initialize-default
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-share-outside-workspace nil
  "Non-nil means tell all clients of open files outside of projects, too."
  :type 'boolean
  :group 'gemini-companion-context
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

(defvar gemini-companion-workspace--slice 0.02
  "Seconds of a search for roots after which Emacs may do something else.")

(defconst gemini-companion-workspace--pause 0.01
  "Seconds from one slice of a search for roots to the next.")

(defconst gemini-companion-workspace--max-first 64
  "Number of directories for which a root is guessed before the search.")

(defconst gemini-companion-workspace--markers '(".git" ".hg" ".svn" ".bzr" "_darcs")
  "Files by which directories that may be projects are recognized.")

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
               (:constructor gemini-companion-workspace--make-scope
                             (directory names all-projects &optional machine))
               (:copier nil))
  "Which files are told to clients that work in one directory."
  (directory nil :documentation "Where they work, or nil if that is not known.")
  (machine nil :documentation "The host on which they work, nil for this machine,
`elsewhere' for a host that is not served.")
  (names nil :documentation "The names of the root there, with and without symbolic links.
Nil if there is none; but on a host they are then those of all roots.")
  (all-projects nil :documentation "Non-nil if files in all projects are told."))

(defvar gemini-companion-workspace--known nil
  "The roots that were announced last.")

(defvar gemini-companion-workspace--by-name nil
  "The known roots by their names, as (ROOTS . TABLE).
TABLE is valid while ROOTS are the known roots.  For its format see
`gemini-companion-workspace--around'; a list in it has one root.")

(defvar gemini-companion-workspace--pending nil
  "Non-nil until the first search for roots is complete.
Until then no file is in any scope.")

(defvar gemini-companion-workspace--timer nil
  "The timer that announces the roots, or nil.")

(defvar gemini-companion-workspace--cache (make-hash-table :test #'equal)
  "The roots guessed for directories, as (TIME PROJECT . ROOT).
PROJECT and ROOT are directories or nil.")

(defvar gemini-companion-workspace--general nil
  "Directories that are too general for a root, as (NAMES . IDENTITIES).
IDENTITIES are as `gemini-companion-workspace--identity' returns them.")

(cl-defstruct (gemini-companion-workspace--scopes
               (:constructor gemini-companion-workspace--make-scopes (basis))
               (:copier nil))
  "The scopes of directories."
  (basis nil :documentation "The known roots, the options and so on for which they are valid.")
  (stamp (list nil) :documentation "An object that is replaced when a scope is added.")
  (of-directory (make-hash-table :test #'equal) :documentation "Scopes by directory.")
  (of-name (make-hash-table :test #'equal)
           :documentation "Lists of scopes by the names of their roots.")
  (all nil :documentation "All scopes.")
  (all-projects nil :documentation "Those that have the files of all projects."))

(defvar gemini-companion-workspace--scopes nil
  "The scopes that were found last, or nil.")

(defvar gemini-companion-workspace--client-roots nil
  "Alist of the directories in which clients work and the names of the roots there.")

;;;; Announcing

(defun gemini-companion-workspace-start ()
  "Search for the roots soon, and announce them whenever they change."
  (gemini-companion-workspace--change-hooks #'add-hook)
  (setq gemini-companion-workspace--pending t
        gemini-companion-workspace--known nil)
  (gemini-companion-workspace--announce-soon))

(defun gemini-companion-workspace-stop ()
  "Stop announcing the roots, and forget where clients work."
  (gemini-companion-workspace--change-hooks #'remove-hook)
  (gemini-companion-workspace--cancel)
  (clrhash gemini-companion-workspace--cache)
  (setq gemini-companion-workspace--pending nil
        gemini-companion-workspace--general nil
        gemini-companion-workspace--scopes nil
        gemini-companion-workspace--client-roots nil))

(defun gemini-companion-workspace--cancel ()
  "Cancel the timer that announces the roots."
  (when gemini-companion-workspace--timer
    (cancel-timer gemini-companion-workspace--timer)
    (setq gemini-companion-workspace--timer nil)))

(defun gemini-companion-workspace--change-hooks (change)
  "Call CHANGE, `add-hook' or `remove-hook', for hooks run when roots may change."
  (dolist (hook '(find-file-hook
                  kill-buffer-hook after-set-visited-file-name-hook
                  ;; It makes a buffer a terminal.
                  after-change-major-mode-hook))
    (funcall change hook #'gemini-companion-workspace--announce-soon)))

(defun gemini-companion-workspace--announce-soon (&optional seconds)
  "Announce the roots soon, or after SECONDS, if they have changed."
  (unless gemini-companion-workspace--timer
    (setq gemini-companion-workspace--timer
          (run-at-time (or seconds gemini-companion-workspace--delay) nil
                       (lambda ()
                         (setq gemini-companion-workspace--timer nil)
                         (gemini-companion-log-errors "workspace roots"
                           (gemini-companion-workspace--search)))))))

(defun gemini-companion-workspace--search ()
  "Search for the roots, and announce them when all are known.
If that takes long, go on later."
  (if (gemini-companion-workspace--search-slice)
      (gemini-companion-workspace-announce)
    (gemini-companion-workspace--announce-soon gemini-companion-workspace--pause)))

(defun gemini-companion-workspace-pending-p ()
  "Return non-nil if the first search for roots is not complete."
  gemini-companion-workspace--pending)

(defun gemini-companion-workspace-hasten ()
  "Begin the first search for roots now, if it has not begun, as a client waits."
  (when gemini-companion-workspace--pending
    (gemini-companion-workspace--cancel)
    (gemini-companion-workspace--announce-soon 0)))

(defun gemini-companion-workspace-announce (&optional extra)
  "Announce the roots now, if they have changed.
The directory EXTRA, if non-nil, counts as one of them this time."
  (let* ((known gemini-companion-workspace--known)
         (roots (gemini-companion-workspace-roots extra))
         (first gemini-companion-workspace--pending))
    (setq gemini-companion-workspace--pending nil)
    (when (or first (not (eq known gemini-companion-workspace--known)))
      (gemini-companion-bridge-set-roots roots)
      (gemini-companion-log-run-hook 'gemini-companion-workspace-change-hook))))

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

(defun gemini-companion-workspace--roots-around (file)
  "Return the announced roots that FILE is in, each as (ROOT . NAME).
NAME is the one of its names with which FILE begins.  The outermost root
comes first."
  (unless (and gemini-companion-workspace--by-name
               (eq (car gemini-companion-workspace--by-name) gemini-companion-workspace--known))
    (setq gemini-companion-workspace--by-name
          (cons gemini-companion-workspace--known
                (gemini-companion-workspace--index-roots))))
  (gemini-companion-workspace--around file (cdr gemini-companion-workspace--by-name)))

(defun gemini-companion-workspace--index-roots ()
  "Return a hash table with the known roots, each as (ROOT . NAME), by NAME."
  (let ((table (make-hash-table :test #'equal)))
    (dolist (root gemini-companion-workspace--known table)
      (dolist (name (gemini-companion-workspace-root-names root))
        (push (cons root name) (gethash name table))))))

(defun gemini-companion-workspace-directories-of (file)
  "Return the directories that FILE is in, from the outermost announced root on.
Go by names, with or without symbolic links.  The innermost one comes
first, and each has a trailing slash."
  (let* ((file-name-handler-alist nil)
         (root (cdar (gemini-companion-workspace--roots-around file))))
    (and root
         (cl-loop for directory = (file-name-directory file)
                  then (file-name-directory (directory-file-name directory))
                  while (string-prefix-p root directory)
                  collect directory
                  until (equal directory root)))))

(defun gemini-companion-workspace-innermost (file &optional only-project)
  "Return the innermost announced root that FILE is in, as (ROOT . NAME).
NAME is the one of its names with which FILE begins.  If ONLY-PROJECT is
non-nil, ignore roots that are not projects.  Return nil if there is none."
  (cl-loop for root in (reverse (gemini-companion-workspace--roots-around file))
           if (or (gemini-companion-workspace-root-project (car root)) (not only-project))
           return root))

;;;; Finding roots

(defun gemini-companion-workspace--find (extra)
  "Return the present roots, each as (DIRECTORY . PROJECT).
The directory EXTRA is one of them, unless it is nil."
  (let ((found (make-hash-table :test #'equal)))
    (pcase-dolist (`(,directory . ,project)
                   (nconc (mapcar (lambda (root)
                                    (cons (gemini-companion-workspace--valid-root root) t))
                                  gemini-companion-workspace-roots)
                          (and extra (list (gemini-companion-workspace--extra-root extra)))
                          (gemini-companion-workspace--guess-roots)))
      (when directory
        (puthash directory (or project (gethash directory found)) found)))
    (cl-loop for directory being the hash-keys of found using (hash-values project)
             collect (cons directory project))))

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
  (let ((now (float-time)))
    (mapcar (lambda (directory)
              (gemini-companion-workspace--guess-root (car directory) (cdr directory) now))
            (gemini-companion-workspace--buffer-directories))))

(defun gemini-companion-workspace--buffer-directories (&optional count)
  "Return the directories of all buffers, each as (DIRECTORY . ONLY-PROJECT).
See `gemini-companion-workspace--guess-root' for both.  Those of the
buffers selected last come first.  Return nil if none may be guessed, and
at most COUNT if that is non-nil."
  (let ((found (make-hash-table :test #'equal))
        ;; Only names are handled here, so that remote ones need no handlers.
        (file-name-handler-alist nil))
    (when gemini-companion-workspace-guess
      (cl-loop for buffer in (buffer-list)
               until (and count (>= (hash-table-count found) count))
               for file = (buffer-file-name buffer)
               ;; There may be thousands of files.
               if file do (puthash (file-name-directory file) nil found)
               else do (pcase (gemini-companion-workspace--directory-without-file buffer)
                         (`(,directory . ,only-project)
                          (puthash directory
                                   (and only-project (gethash directory found t))
                                   found)))))
    (cl-loop for directory being the hash-keys of found using (hash-values only-project)
             collect (cons directory only-project))))

(defun gemini-companion-workspace--directory-without-file (buffer)
  "Return the directory of BUFFER, which visits no file, if it counts.
The value is (DIRECTORY . ONLY-PROJECT), see
`gemini-companion-workspace--guess-root' for both, or nil."
  (let ((mode (buffer-local-value 'major-mode buffer)))
    (cond
     ;; Most are in one of these.
     ((memq mode '(fundamental-mode special-mode)) nil)
     ((apply #'provided-mode-derived-p mode gemini-companion-workspace-terminal-modes)
      (list (buffer-local-value 'default-directory buffer)))
     ((apply #'provided-mode-derived-p mode gemini-companion-workspace--project-modes)
      (cons (buffer-local-value 'default-directory buffer) t)))))

(defun gemini-companion-workspace--guess-root (directory &optional only-project now)
  "Return the root of DIRECTORY as (ROOT . PROJECT).
Outside of projects ROOT is DIRECTORY itself.  It is nil there if
ONLY-PROJECT is non-nil, and if DIRECTORY must not be guessed.  NOW is the
time, in seconds since 1970."
  (let* ((found (cdr (or (gemini-companion-workspace--cached directory (or now (float-time)))
                         (gemini-companion-workspace--search-root directory))))
         (project (car found)))
    (cons (if only-project project (cdr found)) (and project t))))

(defun gemini-companion-workspace--cached (directory now)
  "Return what is in the cache for DIRECTORY, or nil if it is too old at NOW."
  (when-let* ((cached (gethash directory gemini-companion-workspace--cache)))
    (and (< (- now (car cached)) gemini-companion-workspace--lifetime)
         cached)))

(defun gemini-companion-workspace--search-root (directory)
  "Search for the root of DIRECTORY, and return what is now in the cache for it."
  (let ((project (gemini-companion-workspace--find-project directory)))
    (puthash directory
             (cons (float-time)
                   (cons project
                         (or project (gemini-companion-workspace--guessable-root directory))))
             gemini-companion-workspace--cache)))

(defun gemini-companion-workspace--search-slice ()
  "Search for roots that are not in the cache, for one directory at least.
Return nil if that is not complete after some time, or if the user types."
  (let* ((start (float-time))
         (directories (gemini-companion-workspace--buffer-directories))
         (end nil))
    (cl-loop for (directory) in directories
             always (or (gemini-companion-workspace--cached directory start)
                        (unless (and end (or (> (float-time) end) (input-pending-p)))
                          (setq end (or end
                                        (+ (float-time) gemini-companion-workspace--slice)))
                          (gemini-companion-workspace--search-root directory))))))

(defun gemini-companion-workspace--find-project (directory)
  "Return the root of the project of DIRECTORY, or nil if none may be guessed."
  (unless (file-remote-p directory)
    (let ((non-essential t)
          ;; Emacs 31 would remember for minutes that there is no project.
          (project-vc-non-essential-cache-timeout 0))
      ;; A kind of project that the user has added may lack a method.
      (gemini-companion-log-errors "project"
        (when-let* ((project (project-current nil directory)))
          (gemini-companion-workspace--guessable-root (project-root project)))))))

(defun gemini-companion-workspace--guessable-root (directory)
  "Return the name of DIRECTORY as a root, or nil if it must not be guessed."
  (when-let* ((root (gemini-companion-workspace--valid-root directory)))
    (unless (gemini-companion-workspace--general-p root)
      root)))

(defun gemini-companion-workspace--general-p (directory)
  "Return non-nil if DIRECTORY, which is local, is too general for a root."
  (let ((names (list "/" (expand-file-name "~") temporary-file-directory "/tmp" "/var/tmp"
                     (getenv "TMPDIR"))))
    (unless (equal names (car gemini-companion-workspace--general))
      (setq gemini-companion-workspace--general
            (cons names (delq nil (mapcar #'gemini-companion-workspace--identity
                                          (delq nil (copy-sequence names)))))))
    (member (gemini-companion-workspace--identity directory)
            (cdr gemini-companion-workspace--general))))

(defun gemini-companion-workspace--identity (directory)
  "Return what identifies DIRECTORY, however it is named, or nil if there is none."
  (let* ((file-name-handler-alist nil)
         (attributes (file-attributes (expand-file-name "." (file-name-as-directory directory)))))
    (and attributes
         (cons (file-attribute-inode-number attributes)
               (file-attribute-device-number attributes)))))

;;;; The first roots

(defun gemini-companion-workspace-first-roots ()
  "Return the names of directories to announce until the roots are known.
A client that starts right after the mode is switched on finds them; the
search for projects takes too long for then, and is done soon.  These are
the directories of the files used last, or the outermost ones around them
that look like projects."
  (let ((marked (make-hash-table :test #'equal)))
    (delete-dups
     (append
      (delq nil (mapcar #'gemini-companion-workspace--valid-root gemini-companion-workspace-roots))
      (cl-loop for (directory . only-project)
               in (gemini-companion-workspace--buffer-directories
                   gemini-companion-workspace--max-first)
               for root = (unless (file-remote-p directory)
                            (or (gemini-companion-workspace--outermost-marked
                                 (expand-file-name directory) marked)
                                (unless only-project
                                  (gemini-companion-workspace--guessable-root directory))))
               if root collect root)))))

(defun gemini-companion-workspace--outermost-marked (directory marked)
  "Return the outermost directory around DIRECTORY that looks like a project.
Return nil if there is none.  MARKED is a hash table of earlier results."
  (let ((known (gethash directory marked 'unknown)))
    (if (not (eq known 'unknown)) known
      (let ((parent (file-name-directory (directory-file-name directory))))
        (puthash directory
                 (or (unless (member parent (list nil directory))
                       (gemini-companion-workspace--outermost-marked parent marked))
                     (and (gemini-companion-workspace--marked-p directory)
                          (gemini-companion-workspace--guessable-root directory)))
                 marked)))))

(defun gemini-companion-workspace--marked-p (directory)
  "Return non-nil if DIRECTORY looks like a project."
  (let ((file-name-handler-alist nil))
    (cl-loop for marker in gemini-companion-workspace--markers
             thereis (file-exists-p (concat directory marker)))))

;;;; Scopes

(defun gemini-companion-workspace-scope-of (directory)
  "Return the scope of clients that work in DIRECTORY; nil if that is unknown."
  (let ((scopes (gemini-companion-workspace-scopes)))
    (or (gethash directory (gemini-companion-workspace--scopes-of-directory scopes))
        (gemini-companion-workspace--add-scope
         (gemini-companion-workspace--find-scope directory) scopes))))

(defun gemini-companion-workspace-scopes ()
  "Return an object with all scopes, another one when these may have changed."
  (let ((scopes gemini-companion-workspace--scopes))
    (if (and scopes
             (pcase-let ((`(,known ,hosts ,pending ,scope ,outside)
                          (gemini-companion-workspace--scopes-basis scopes)))
               (and (eq known gemini-companion-workspace--known)
                    (eq hosts (gemini-companion-hosts))
                    (eq pending gemini-companion-workspace--pending)
                    (eq scope gemini-companion-context-scope)
                    (eq outside gemini-companion-share-outside-workspace))))
        scopes
      (setq gemini-companion-workspace--scopes
            (gemini-companion-workspace--make-scopes
             (list gemini-companion-workspace--known
                   (gemini-companion-hosts)
                   gemini-companion-workspace--pending
                   gemini-companion-context-scope
                   gemini-companion-share-outside-workspace))))))

(defun gemini-companion-workspace--add-scope (scope scopes)
  "Add SCOPE to SCOPES, and return it."
  (dolist (name (gemini-companion-workspace-scope-names scope))
    (push scope (gethash name (gemini-companion-workspace--scopes-of-name scopes))))
  (when (gemini-companion-workspace-scope-all-projects scope)
    (push scope (gemini-companion-workspace--scopes-all-projects scopes)))
  (push scope (gemini-companion-workspace--scopes-all scopes))
  (setf (gemini-companion-workspace--scopes-stamp scopes) (list nil))
  (puthash (gemini-companion-workspace-scope-directory scope) scope
           (gemini-companion-workspace--scopes-of-directory scopes)))

(defun gemini-companion-workspace-scopes-stamp ()
  "Return an object that is another one when a file may be in other scopes."
  (gemini-companion-workspace--scopes-stamp (gemini-companion-workspace-scopes)))

(defun gemini-companion-workspace-scopes-with (file truename)
  "Return the known scopes that FILE is in.
TRUENAME is its name without symbolic links.  These are the scopes for
which `gemini-companion-workspace-in-scope-p' returns non-nil, but not each
is tried."
  (unless gemini-companion-workspace--pending
    (let* ((scopes (gemini-companion-workspace-scopes))
           (table (gemini-companion-workspace--scopes-of-name scopes))
           (machine (gemini-companion-workspace--machine file))
           (wide (and (or gemini-companion-share-outside-workspace
                          (gemini-companion-workspace--scopes-all-projects scopes))
                      (if (gemini-companion-workspace--in-project-p file truename)
                          (gemini-companion-workspace--scopes-all-projects scopes)
                        (and gemini-companion-share-outside-workspace
                             (gemini-companion-workspace--scopes-all scopes))))))
      (cl-loop for (scope . more) on (append (gemini-companion-workspace--around file table)
                                             (unless (equal file truename)
                                               (gemini-companion-workspace--around
                                                truename table))
                                             wide)
               if (and (eq machine (gemini-companion-workspace-scope-machine scope))
                       (not (memq scope more)))
               collect scope))))

(defun gemini-companion-workspace--machine (file)
  "Return the host that FILE is on, nil for this machine.
Return `elsewhere' if FILE is on a host that is not served."
  (or (gemini-companion-host-of-name file)
      (and (gemini-companion-workspace--like-remote-p file)
           (gemini-companion-host-remote-p file)
           'elsewhere)))

(defun gemini-companion-workspace--like-remote-p (file)
  "Return non-nil if FILE may be remote, as far as its first component tells."
  ;; In one of Tramp's syntaxes names are like "/[ssh/build]/a".
  (string-match-p "\\`/\\(?:[^/:]+:\\|\\[[^]/]*/[^]]*\\]\\)" file))

(defun gemini-companion-workspace--around (file table)
  "Return what TABLE has for the directories that FILE is in, appended.
TABLE is a hash table with lists by the names of directories, with a slash."
  (let* ((file-name-handler-alist nil)
         (directory (file-name-directory file))
         (found nil))
    (while directory
      (let ((name (directory-file-name directory)))
        (setq found (append (gethash (file-name-as-directory name) table) found)
              directory (let ((parent (file-name-directory name)))
                          (unless (equal parent directory) parent)))))
    found))

(defun gemini-companion-workspace--find-scope (directory)
  "Return a new scope for DIRECTORY."
  (let ((host (and directory (gemini-companion-host-of-name directory))))
    (cond (host (gemini-companion-workspace--find-host-scope directory host))
          ;; Clients on a host that was just closed must not be told of files here.
          ((and directory (gemini-companion-workspace--like-remote-p directory))
           (gemini-companion-workspace--make-scope directory nil nil 'elsewhere))
          (t (gemini-companion-workspace--find-local-scope directory)))))

(defun gemini-companion-workspace--find-host-scope (directory host)
  "Return a new scope for DIRECTORY on HOST, going by the roots of that."
  (let* ((file-name-handler-alist nil)
         (root (and (not (eq gemini-companion-context-scope 'all))
                    (car (gemini-companion-host-roots-of
                          host (gemini-companion-host-local-name
                                host (file-name-as-directory directory)))))))
    (gemini-companion-workspace--make-scope
     directory
     (mapcar (lambda (root)
               (concat (gemini-companion-host-prefix host) (file-name-as-directory root)))
             (if root (list root) (gemini-companion-host-roots host)))
     nil host)))

(defun gemini-companion-workspace--find-local-scope (directory)
  "Return a new scope for DIRECTORY, a local one or nil; remember the root there."
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
  (and (not gemini-companion-workspace--pending)
       (eq (gemini-companion-workspace--machine file)
           (gemini-companion-workspace-scope-machine scope))
       (or (gemini-companion-workspace--below-p
            (gemini-companion-workspace-scope-names scope) file truename)
           (and (or gemini-companion-share-outside-workspace
                    (gemini-companion-workspace-scope-all-projects scope))
                (if (gemini-companion-workspace--in-project-p file truename)
                    (gemini-companion-workspace-scope-all-projects scope)
                  gemini-companion-share-outside-workspace)))))

(defun gemini-companion-workspace-out-of-scope-reason (file truename scope)
  "Return why FILE is not in SCOPE, as text for the user, or nil if it is.
TRUENAME is its name without symbolic links."
  (cond (gemini-companion-workspace--pending "perhaps in a project; Emacs is searching for it")
        ((gemini-companion-workspace-in-scope-p file truename scope) nil)
        ((not (eq (gemini-companion-workspace--machine file)
                  (gemini-companion-workspace-scope-machine scope)))
         "on another machine")
        ((gemini-companion-workspace--in-project-p file truename) "in another project")
        (t "outside of projects")))

(defun gemini-companion-workspace--in-project-p (file truename)
  "Return non-nil if FILE, or TRUENAME, is in an announced root with a project.
On a host each root is one."
  (if-let* ((host (gemini-companion-host-of-name file)))
      (cl-loop for name in (list file truename)
               thereis (gemini-companion-host-roots-of
                        host (gemini-companion-host-local-name host name)))
    (or (gemini-companion-workspace-innermost file 'only-project)
        (unless (equal file truename)
          (gemini-companion-workspace-innermost truename 'only-project)))))

(defun gemini-companion-workspace--below-p (names file truename)
  "Return non-nil if FILE, or TRUENAME, is below a directory among NAMES."
  (cl-loop for name in names
           thereis (or (string-prefix-p name file)
                       (string-prefix-p name truename))))

(provide 'gemini-companion-workspace)
;;; gemini-companion-workspace.el ends here

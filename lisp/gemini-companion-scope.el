;;; gemini-companion-scope.el --- Which files are whose -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An Emacs holds many projects, and a client works in one.  Here is decided, from the directory in
;; which a client works, of which files it may hear: its scope.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-workspace)

(defun gemini-companion-scope--set (option value)
  "Set OPTION to VALUE, and tell the clients what follows from it."
  (set-default-toplevel-value option value)
  (run-hooks 'gemini-companion-workspace-functions))

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
  :set #'gemini-companion-scope--set
  :initialize #'custom-initialize-default)

(defcustom gemini-companion-share-outside-workspace nil
  "Non-nil to tell all clients of open files outside of projects, too."
  :type 'boolean
  :group 'gemini-companion
  :risky t
  :set #'gemini-companion-scope--set
  :initialize #'custom-initialize-default)

(cl-defstruct (gemini-companion-scope
               (:constructor gemini-companion-scope--make (directory names projects))
               (:copier nil))
  "Of which files the clients hear that work in one directory."
  (directory nil :documentation "Where they work, or nil if that is not known.")
  (names nil :documentation "The names, with and without symbolic links, of the root there.
Nil if there is none.")
  (projects nil :documentation "Non-nil if they hear of all projects."))

(defvar gemini-companion-scope--cache nil
  "What was found out: (ROOTS OPTION . ALIST), with the scope of each directory.
It holds for these roots, and this value of the option.")

(defvar gemini-companion-scope--roots nil
  "Directories in which clients have worked, and the names of the root of each.")

;;;; Scopes

(defun gemini-companion-scope-of (directory)
  "Return the scope of clients that work in DIRECTORY; nil if that is not known."
  (let ((roots (gemini-companion-workspace-known)))
    (unless (and gemini-companion-scope--cache
                 (eq (car gemini-companion-scope--cache) roots)
                 (eq (cadr gemini-companion-scope--cache) gemini-companion-context-scope))
      (setq gemini-companion-scope--cache
            (cons roots (cons gemini-companion-context-scope nil))))
    (let ((known (assoc directory (cddr gemini-companion-scope--cache))))
      (unless known
        (setq known (cons directory (gemini-companion-scope--find directory)))
        (push known (cddr gemini-companion-scope--cache)))
      (cdr known))))

(defun gemini-companion-scope--find (directory)
  "Return the scope of DIRECTORY, found out anew."
  (let ((names (and directory (or (gemini-companion-scope--root-names directory)
                                  ;; Nothing of it is open any more; it works there still.
                                  (cdr (assoc directory gemini-companion-scope--roots))))))
    (when names
      (setf (alist-get directory gemini-companion-scope--roots nil nil #'equal) names))
    (gemini-companion-scope--make
     directory names
     (or (null names) (eq gemini-companion-context-scope 'all)))))

(defun gemini-companion-scope-forget ()
  "Forget where clients have worked."
  (setq gemini-companion-scope--cache nil
        gemini-companion-scope--roots nil))

(defun gemini-companion-scope--root-names (directory)
  "Return the names of the workspace root in which a client in DIRECTORY works.
They come as directories, with and without symbolic links.  Return nil if
there is none."
  (let* ((directory (file-name-as-directory directory))
         (innermost (gemini-companion-workspace-innermost directory)))
    (when innermost
      (let ((names (gemini-companion-workspace-root-names (car innermost)))
            (own (gemini-companion-scope--own-root directory (cdr innermost))))
        (if (not own) names
          ;; The same below each of the names.
          (let ((rest (string-remove-prefix (cdr innermost) own)))
            (mapcar (lambda (name) (concat name rest)) names)))))))

(defun gemini-companion-scope--own-root (directory root)
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
  (or (gemini-companion-scope--below-p (gemini-companion-scope-names scope) file truename)
      (and (or gemini-companion-share-outside-workspace
               (gemini-companion-scope-projects scope))
           (if (gemini-companion-scope--in-project-p file truename)
               (gemini-companion-scope-projects scope)
             gemini-companion-share-outside-workspace))))

(defun gemini-companion-scope-reason (scope file truename)
  "Return in words why clients with SCOPE do not hear of FILE, or nil if they do.
TRUENAME is its name without symbolic links."
  (cond ((gemini-companion-scope-holds-p scope file truename) nil)
        ((gemini-companion-scope--in-project-p file truename) "in another project")
        (t "outside of projects")))

(defun gemini-companion-scope--in-project-p (file truename)
  "Return non-nil if FILE, without links TRUENAME, is in a project."
  (cl-loop for root in (gemini-companion-workspace-known)
           thereis (and (gemini-companion-workspace-root-project root)
                        (gemini-companion-scope--below-p
                         (gemini-companion-workspace-root-names root) file truename))))

(defun gemini-companion-scope--below-p (names file truename)
  "Return non-nil if FILE, without links TRUENAME, is below one of NAMES."
  (cl-loop for name in names
           thereis (or (string-prefix-p name file)
                       (string-prefix-p name truename))))

(provide 'gemini-companion-scope)
;;; gemini-companion-scope.el ends here

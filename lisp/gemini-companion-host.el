;;; gemini-companion-host.el --- Hosts on which clients run -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A host is another machine, or another login, on which clients of this Emacs run.  Emacs names
;; its files with a prefix, as Tramp does: "/ssh:build:/src/a.c" is "/src/a.c" there.  Names are
;; compared as text: nothing here asks a host for anything.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-log)

(cl-defstruct (gemini-companion-host
               (:constructor gemini-companion-host--make)
               (:copier nil))
  "A host whose clients are served: the part of its connection that the core knows."
  (prefix nil :documentation "The prefix of its file names in Emacs, \"/ssh:build:\".")
  (roots nil :documentation "Workspace roots, as the host names them, without trailing slashes.")
  (mounts nil :documentation "Alist of the names of what is mounted in a container, there
and in Emacs, which are local if it is from this machine.  None ends in a slash.")
  (sandbox nil :documentation "The terminal, a buffer, of the CLI whose sandbox it is, or nil.
Emacs has no names for other files there.")
  (directory nil :documentation "A directory of this machine that is deleted with it, or nil.")
  (lost nil :documentation "When the connection to it was lost, in seconds since 1970, or nil.
The mode line shows that."))

(defvar gemini-companion-host-all nil
  "The hosts that are served.")

(defvar gemini-companion-host-change-hook nil
  "Hook run when the hosts that are served, or the roots of one, have changed.")

;;;; Hosts

(defun gemini-companion-host-named (prefix)
  "Return the host that is served with PREFIX, or nil."
  (cl-loop for host in gemini-companion-host-all
           if (equal prefix (gemini-companion-host-prefix host)) return host))

(defun gemini-companion-host-add (host)
  "Serve HOST from now on, and return it."
  (push host gemini-companion-host-all)
  (gemini-companion-log-run-hook 'gemini-companion-host-change-hook)
  host)

(defun gemini-companion-host-remove (host)
  "Stop serving HOST."
  (when (memq host gemini-companion-host-all)
    (setq gemini-companion-host-all (remq host gemini-companion-host-all))
    (gemini-companion-log-run-hook 'gemini-companion-host-change-hook)
    (when-let* ((directory (gemini-companion-host-directory host)))
      (gemini-companion-log-errors "the directory of a sandbox"
        (delete-directory directory t)))))

(defun gemini-companion-host-remove-all ()
  "Stop serving all hosts."
  (mapc #'gemini-companion-host-remove gemini-companion-host-all))

(defun gemini-companion-host-set-roots (host roots)
  "Make ROOTS, directory names of HOST, its workspace roots."
  (let ((roots (delete-dups (mapcar #'directory-file-name roots))))
    (unless (equal roots (gemini-companion-host-roots host))
      (setf (gemini-companion-host-roots host) roots)
      (gemini-companion-log-run-hook 'gemini-companion-host-change-hook))))

(defun gemini-companion-host-mode-line (directory)
  "Return the text about hosts in the mode line of a buffer with DIRECTORY.
It names the host of DIRECTORY, and those that are lost."
  (let ((here (gemini-companion-host-of-name directory)))
    (cl-loop for host in gemini-companion-host-all
             for title = (gemini-companion-host-title (gemini-companion-host-prefix host))
             concat (cond ((gemini-companion-host-lost host) (concat " lost@" title))
                          ((eq host here) (concat "@" title))))))

;;;; Names

(defun gemini-companion-host-of-name (file)
  "Return the host that FILE, as Emacs names it, is on, or nil."
  (cl-loop for host in gemini-companion-host-all
           if (string-prefix-p (gemini-companion-host-prefix host) file) return host))

(defun gemini-companion-host-local-name (host file)
  "Return what HOST calls FILE, a file on it as Emacs names it."
  (string-remove-prefix (gemini-companion-host-prefix host) file))

;; A container may mount files of this machine.  Emacs visits these here; the container calls them
;; by other names.

(defun gemini-companion-host-name-there (host file)
  "Return what HOST calls FILE, as Emacs names it, or nil if HOST lacks it."
  (if (string-prefix-p (gemini-companion-host-prefix host) file)
      (gemini-companion-host-local-name host file)
    (let ((mounts (gemini-companion-host-mounts host)))
      (pcase-let* ((`(,directory . ,here) (gemini-companion-host--mount file mounts #'cdr))
                   (there (concat directory (substring file (length here)))))
        ;; Something else may be mounted in such a directory.
        (and directory
             (equal directory (car (gemini-companion-host--mount there mounts #'car)))
             there)))))

(defun gemini-companion-host-name-here (file)
  "Return the name of FILE outside of its container, or FILE if it has none there.
Both are as Emacs names them."
  (let ((host (gemini-companion-host-of-name file)))
    (or (and host
             (gemini-companion-host--rename (gemini-companion-host-local-name host file)
                                            (gemini-companion-host-mounts host)))
        file)))

(defun gemini-companion-host--rename (file mounts)
  "Return what Emacs calls FILE, a name in a container with MOUNTS, or nil."
  (pcase-let ((`(,there . ,name) (gemini-companion-host--mount file mounts #'car)))
    (and there (concat name (substring file (length there))))))

(defun gemini-companion-host--mount (file mounts key)
  "Return the innermost of MOUNTS that FILE is in, or nil.
KEY returns the directory of a mount, as a name of the same kind as FILE."
  (car (seq-sort-by (lambda (mount) (length (funcall key mount))) #'>
                    (seq-filter (lambda (mount)
                                  (string-prefix-p (file-name-as-directory (funcall key mount))
                                                   (file-name-as-directory file)))
                                mounts))))

(defun gemini-companion-host-directory-names (host root)
  "Return what Emacs calls ROOT, a directory of HOST, and what is mounted in it.
The names have trailing slashes."
  (let* ((root (file-name-as-directory root))
         (mounts (gemini-companion-host-mounts host))
         (here (gemini-companion-host--rename root mounts)))
    (delete-dups
     (mapcar #'file-name-as-directory
             `(,(concat (gemini-companion-host-prefix host) root)
               ,@(and here (list here))
               ,@(cl-loop for (there . here) in mounts
                          if (string-prefix-p root (file-name-as-directory there))
                          collect here))))))

(defun gemini-companion-host-roots-of (host file)
  "Return the workspace roots of HOST that FILE is in, the innermost one first.
They are names as HOST has them; FILE may also be as Emacs names it."
  (seq-sort-by #'length #'>
               (cl-loop with name = (gemini-companion-host-local-name host file)
                        for root in (gemini-companion-host-roots host)
                        if (or (equal root "/") (string-prefix-p (concat root "/") name))
                        collect root)))

(defun gemini-companion-host-title (prefix)
  "Return a short name for the host with PREFIX, for the user: \"build\".
If another host that is served has the same one, return a longer one."
  (let ((name (gemini-companion-host--machine prefix)))
    (if (and name
             (cl-loop for host in gemini-companion-host-all
                      for other = (gemini-companion-host-prefix host)
                      never (and (not (equal other prefix))
                                 (equal name (gemini-companion-host--machine other)))))
        name
      (string-remove-prefix "/" (string-remove-suffix ":" prefix)))))

(defun gemini-companion-host--machine (prefix)
  "Return the name of the machine in PREFIX, or nil if there is none."
  (and (string-match "\\([^][:@#/|]+\\|\\[[^]]*\\]\\)\\(?:#[0-9]+\\)?:\\'" prefix)
       (match-string 1 prefix)))

(defun gemini-companion-host-mark (file)
  "Return a mark for the host of FILE, \"@build\", or \"\" if it is on none."
  (if-let* ((host (and file (gemini-companion-host-of-name file))))
      (concat "@" (gemini-companion-host-title (gemini-companion-host-prefix host)))
    ""))

(defun gemini-companion-host-remote-p (file)
  "Return the remote prefix of the name FILE, or nil if it is local."
  ;; `file-remote-p' takes up to a millisecond.  One of Tramp's syntaxes has no colon.
  (and (or (string-search ":" file) (string-prefix-p "/[" file))
       (file-remote-p file)))

(provide 'gemini-companion-host)
;;; gemini-companion-host.el ends here

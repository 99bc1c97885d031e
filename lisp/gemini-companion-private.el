;;; gemini-companion-private.el --- What clients may know of -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client passes on what it learns to a model far away.  Here is decided which files no client may
;; learn of; each reason against one has words, for users who wonder.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-bridge)
(require 'gemini-companion-workspace)

(defcustom gemini-companion-private-files
  '(".env*" "*.env" ".netrc" "_netrc" "authinfo*" ".authinfo*" "*.gpg" "*.pgp" "*.age"
    "*.pem" "*.key" "*.p12" "*.pfx" "*.jks" "*.keystore" "*.kdbx" "*.kdb" "*.ovpn"
    "id_*" "*_rsa" "*_ed25519" ".git-credentials" ".npmrc" ".pypirc" ".pgpass" ".my.cnf"
    ".htpasswd" "credentials" "credentials.*" "secrets.*"
    ".ssh/*" ".gnupg/*" ".aws/*" ".kube/*" ".docker/config.json" ".password-store/*")
  "Files of which clients never learn, as a list of globs.
A glob with a slash is compared with the end of the whole name, one
without with the name of the file alone; case does not matter.  Clients
learn neither that such a file is open nor where you are in it."
  :type '(repeat (string :tag "Glob"))
  :group 'gemini-companion)

(defvar-local gemini-companion-private nil
  "Non-nil if clients may not learn of this buffer's file.
To be set in .dir-locals.el, for a project or a directory.  A revert or
another major mode does not take it off.")
;;;###autoload
(put 'gemini-companion-private 'safe-local-variable #'booleanp)
;; Another major mode must not publish what was marked by hand or by a hook.
(put 'gemini-companion-private 'permanent-local t)

(defvar gemini-companion-private--lifetime 1.0
  "Seconds for which a verdict on a file holds.")

(defconst gemini-companion-private--ignore-file ".geminiignore"
  "File in a workspace root that names files which clients ignore.")

(defconst gemini-companion-private--max-roots 16
  "Number of workspace roots around a file whose ignore files are looked at.")

(defvar-local gemini-companion-private--verdict nil
  "What was found out last, as (TIME FILE . REASON), or nil.")

(defvar gemini-companion-private--patterns nil
  "The globs that were compiled, and the regular expressions for names and paths.")

(defun gemini-companion-private-reason ()
  "Return in words why clients may not learn of the current buffer's file.
Return nil if they may.  The buffer visits a local file."
  (pcase gemini-companion-private--verdict
    ((and `(,time ,file . ,reason)
          (guard (and (equal file buffer-file-name)
                      (< (- (float-time) time) gemini-companion-private--lifetime))))
     reason)
    (_ (let ((reason (gemini-companion-private--judge)))
         (setq gemini-companion-private--verdict
               (cons (float-time) (cons buffer-file-name reason)))
         reason))))

(defun gemini-companion-private-reason-of (file)
  "Return why clients are not told of FILE, as far as its name and place say."
  (with-temp-buffer
    ;; The name comes from a client: it must not make Emacs open a connection.
    (setq buffer-file-truename (let ((file-name-handler-alist nil)) (file-truename file))
          buffer-file-name file)
    (unwind-protect (gemini-companion-private--judge)
      (setq buffer-file-name nil))))

(defun gemini-companion-private--judge ()
  "Return what `gemini-companion-private-reason' does, found out anew.
A file that cannot be judged is withheld, and others are not with it."
  (condition-case err
      (gemini-companion-private--find-reason)
    (error (format "cannot be judged: %s" (error-message-string err)))))

(defun gemini-companion-private--find-reason ()
  "Return why clients may not learn of the current buffer's file, or nil."
  (let ((names (delete-dups (list buffer-file-name
                                  (expand-file-name (or buffer-file-truename
                                                        buffer-file-name))))))
    (cond (gemini-companion-private "marked as private, perhaps in .dir-locals.el")
          ((memq 'eight-bit (find-charset-string buffer-file-name))
           "its name cannot be told: it is no text")
          ((gemini-companion-private--encrypted-p) "encrypted")
          ((cl-loop for name in names thereis (gemini-companion-private--named-p name))
           "named by `gemini-companion-private-files'")
          (t (gemini-companion-private--place-reason names)))))

(defun gemini-companion-private--encrypted-p ()
  "Return non-nil if the current buffer's text is encrypted in its file."
  (or (bound-and-true-p epa-file-encrypt-to)
      (memq (find-file-name-handler buffer-file-name 'insert-file-contents)
            '(epa-file-handler age-file-handler))))

(defun gemini-companion-private--named-p (file)
  "Return non-nil if `gemini-companion-private-files' names FILE."
  (unless (eq (car gemini-companion-private--patterns) gemini-companion-private-files)
    (setq gemini-companion-private--patterns
          (cons gemini-companion-private-files (gemini-companion-private--compile))))
  (pcase-let ((`(,_ ,name ,path) gemini-companion-private--patterns)
              (case-fold-search t))
    (or (string-match-p name (file-name-nondirectory file))
        (string-match-p path file))))

(defun gemini-companion-private--compile ()
  "Return regular expressions for names and paths that are private."
  (cl-loop for glob in gemini-companion-private-files
           for regexp = (substring (wildcard-to-regexp glob) 2 -2) ; without the anchors
           if (string-search "/" glob) collect regexp into paths
           else collect regexp into names
           finally return (list (gemini-companion-private--any "\\`" names)
                                (gemini-companion-private--any "/" paths))))

(defun gemini-companion-private--any (start regexps)
  "Return a regular expression for START, one of REGEXPS and the end."
  (if (null regexps) regexp-unmatchable
    (concat start "\\(?:" (string-join regexps "\\|") "\\)\\'")))

(defun gemini-companion-private--place-reason (names)
  "Return why the ignore files around the file with the NAMES make it private."
  (let ((roots (mapcan (lambda (name)
                         (mapcar (lambda (root) (cons name root))
                                 (gemini-companion-workspace-roots-of name)))
                       names)))
    (if (length> roots gemini-companion-private--max-roots)
        (format "inside more than %d workspace roots" gemini-companion-private--max-roots)
      (cl-loop for (name . root) in roots
               thereis (gemini-companion-private--ignore-reason name root)))))

(defun gemini-companion-private--ignore-reason (file root)
  "Return why FILE is private if the ignore file of ROOT names it."
  (let ((ignore (concat (file-name-as-directory root)
                        gemini-companion-private--ignore-file)))
    (pcase (gemini-companion-bridge-ignored ignore file)
      ('nil nil)
      ((and (pred stringp) fault) (format "%s %s" ignore fault))
      (_ (format "named by %s" ignore)))))

(provide 'gemini-companion-private)
;;; gemini-companion-private.el ends here

;;; gemini-companion-private.el --- Files that clients are never told of -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Clients send what they are told to a remote model, so private files are withheld, each for a
;; reason that the user can see: its name, a mark, encryption, or an ignore file of a CLI.  Emacs
;; asks hosts nothing: there, it knows only the ignore files that the host has reported.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-file)
(require 'gemini-companion-host)
(require 'gemini-companion-workspace)

(defcustom gemini-companion-private-files
  '(".env*" "*.env" ".netrc" "_netrc" "authinfo*" ".authinfo*" "*.gpg" "*.pgp" "*.age"
    "*.pem" "*.key" "*.p12" "*.pfx" "*.jks" "*.keystore" "*.kdbx" "*.kdb" "*.ovpn"
    "id_rsa*" "id_dsa*" "id_ecdsa*" "id_ed25519*" "*_rsa" "*_ed25519"
    ".git-credentials" ".npmrc" ".pypirc" ".pgpass" ".my.cnf" ".htpasswd"
    "credentials" "credentials.json" "credentials.y*ml*" "credentials.toml"
    "credentials.ini" "credentials.txt" "credentials.csv" "credentials.db" "secrets.*"
    ".ssh/*" ".gnupg/*" ".aws/*" ".kube/*" ".docker/config.json" ".password-store/*")
  "Globs for files to withhold from all clients.
A glob with a slash must match the end of the absolute file name, one
without a slash its last component.  Case does not matter, and backups and
auto-save files of Emacs count, too.  Clients learn neither that such a file
is open nor where point is in it."
  :type '(repeat (string :tag "Glob"))
  :group 'gemini-companion-context)

(defvar-local gemini-companion-private nil
  "Non-nil means never tell clients of this buffer's file.
Set it in .dir-locals.el for a project or a directory.  Reverting the
buffer or changing its major mode does not reset it.")
;; A repository may mark its files; to remove a mark of the user's, it needs a yes.
;;;###autoload
(put 'gemini-companion-private 'safe-local-variable #'identity)
;; Another major mode must not publish a file that was marked by hand or by a hook.
(put 'gemini-companion-private 'permanent-local t)

(defvar gemini-companion-private--patterns '(none)
  "A list of globs, and the value of `gemini-companion-private--regexps' for it.")

(defun gemini-companion-private-reason ()
  "Return why the current buffer's file is private, as text for the user.
Return nil if it is not.  The buffer must visit a local file, or one on a
host that is served.  An error counts as a reason, so that only this file
is withheld."
  (condition-case err
      (let* ((host (gemini-companion-host-of-name buffer-file-name))
             (names (delete-dups
                     (mapcar (lambda (name)
                               (if host (gemini-companion-host-local-name host name) name))
                             (list buffer-file-name
                                   (gemini-companion-file-truename (current-buffer))))))
             (file (car names)))
        (cond (gemini-companion-private "marked as private, perhaps in .dir-locals.el")
              ((memq 'eight-bit (find-charset-string file))
               "named with bytes that are not text")
              ((and host (not (string-match-p "\\`/\\(?:[^:]\\|\\'\\)" file)))
               "known to its host by another name")
              ((or (gemini-companion-file-decrypted-p)
                   (memq (find-file-name-handler file 'insert-file-contents)
                         '(epa-file-handler age-file-handler)))
               "encrypted")
              ((gemini-companion-private-match-p gemini-companion-private-files names)
               "named by `gemini-companion-private-files'")
              ((and (not host)
                    ;; What the user has set here counts, even nil.
                    (not (local-variable-p 'gemini-companion-private))
                    (cl-loop for name in names
                             thereis (gemini-companion-private--marked-p name)))
               "marked as private, perhaps in .dir-locals.el")
              (t (gemini-companion-private--ignored-reason names host))))
    (error (format "impossible to check: %s" (error-message-string err)))))

(defun gemini-companion-private-reason-of (file buffer)
  "Return why FILE is private, or nil if it is not.
It is local, or on a host that is served.  BUFFER, if non-nil, visits it,
and may itself be marked or encrypted."
  (if buffer (with-current-buffer buffer (gemini-companion-private-reason))
    (with-temp-buffer
      (setq buffer-file-truename (gemini-companion-file-real-name file)
            buffer-file-name file
            default-directory (file-name-directory file))
      (unwind-protect (gemini-companion-private-reason)
        (setq buffer-file-name nil)))))

(defun gemini-companion-private--marked-p (file)
  "Return non-nil if directory-local variables mark FILE, or cannot be read.
The current buffer's major mode counts; it need not have these variables."
  (let ((buffer-file-name file)
        ;; Emacs compares it with ROOT if the variables are not for subdirectories.
        (default-directory (file-name-directory file))
        (file-name-handler-alist nil)
        (debug-on-error nil)
        (inhibit-message t)
        (message-log-max nil))
    (save-match-data
      (let ((found (dir-locals-find-file default-directory)))
        (when (and (stringp found)
                   ;; A model may name any directory.  Emacs 28 would not recover from 32 000
                   ;; parentheses, and 60 MB would block others for seconds.
                   (cl-loop for each in (dir-locals--all-files found)
                            always (< (file-attribute-size (file-attributes (file-truename each)))
                                      16000)))
          (dir-locals-read-from-dir found)
          (setq found (dir-locals-find-file default-directory)))
        (pcase found
          ((pred stringp) t)            ; Emacs remembers only what it could read
          (`(,root ,class . ,_)
           (alist-get 'gemini-companion-private
                      (dir-locals-collect-variables
                       (dir-locals-get-class-variables class) root nil))))))))

(defun gemini-companion-private--obvious-p (buffer)
  "Return t if BUFFER, which visits a file, is marked as private or named so.
Nothing else counts here, since this is asked of all buffers."
  (and (or (buffer-local-value 'gemini-companion-private buffer)
           (gemini-companion-private-match-p
            gemini-companion-private-files
            (delete-dups (list (buffer-file-name buffer) (gemini-companion-file-truename buffer)))))
       t))

(add-hook 'gemini-companion-workspace-private-functions #'gemini-companion-private--obvious-p)

(defun gemini-companion-private-match-p (globs files)
  "Return non-nil if one of GLOBS matches one of FILES, absolute file names.
For what they match see `gemini-companion-private-files'."
  (cl-loop with (name . path) = (gemini-companion-private--regexps (ensure-list globs))
           ;; To bind `case-fold-search' takes Emacs 28 time for each buffer.
           for given in files for file = (gemini-companion-private-downcase given)
           thereis (or (and name (string-match-p name (file-name-nondirectory file)))
                       (and path (string-match-p path file)))))

(defun gemini-companion-private-downcase (text)
  "Return TEXT in lower case, also in Turkish, where the letter I has another one."
  (downcase (string-replace "I" "i" text)))

(defun gemini-companion-private--regexps (globs)
  "Return regexps for file names without and with a directory that match GLOBS.
Either is nil if there is no such glob.  The names must be in lower case."
  (unless (equal (car gemini-companion-private--patterns) globs)
    (let ((regexps (lambda (globs before)
                     (and globs
                          ;; A backup, an auto-save file, or a version of VC's holds the same.
                          (format "%s\\(?:%s\\)\\(?:~\\|\\.~[^/]*~\\|#\\)?\\'" before
                                  (mapconcat (lambda (glob) ; without the anchors
                                               (substring (wildcard-to-regexp glob) 2 -2))
                                             globs "\\|"))))))
      (setq gemini-companion-private--patterns
            (cons (copy-sequence globs) ; the user may use `delete' on the option
                  (cl-loop for glob in (mapcar #'gemini-companion-private-downcase globs)
                           if (string-search "/" glob) collect glob into paths
                           else collect glob into names
                           ;; A colon or `!' is before the name of a member of an archive.
                           finally return (cons (funcall regexps names "\\`\\(?:[^:]*:\\)?#?")
                                                (funcall regexps paths "[/:!]")))))))
  (cdr gemini-companion-private--patterns))

(defun gemini-companion-private--ignored-reason (names host)
  "Return why ignore files make the file with NAMES private, or nil.
It is on HOST, or on this machine if that is nil."
  (let* ((file-name-handler-alist nil)
         (pairs (cl-loop for name in names
                         nconc (mapcar (apply-partially #'cons name)
                                       (gemini-companion-private--ignore-files-of name host)))))
    (if (length> pairs 16) "below more than 16 ignore files"
      (cl-loop for (name . ignore) in pairs
               for result = (if host
                                (gemini-companion-bridge-host-ignored
                                 (gemini-companion-host-prefix host)
                                 (directory-file-name (file-name-directory ignore)) name)
                              (gemini-companion-bridge-ignored ignore name))
               if result
               return (if (stringp result) (format "%s %s" ignore result)
                        (format "named by %s" ignore))))))

(defun gemini-companion-private--ignore-files-of (file host)
  "Return the ignore files in the directories around FILE, up to a workspace root.
On HOST, if non-nil, they are those in its roots, and need not exist."
  (if host
      (mapcar (lambda (root)
                ;; The only one that hosts report.
                (concat (file-name-as-directory root) ".geminiignore"))
              (gemini-companion-host-roots-of host file))
    (cl-loop with names = (cl-loop for agent in (gemini-companion-agent-names)
                                   for name = (gemini-companion-agent-get agent :ignore-file)
                                   if name collect name)
             for directory in (gemini-companion-workspace-directories-of file)
             nconc (cl-loop for name in names
                            for ignore = (concat directory name)
                            ;; A link to a file that cannot be reached counts.
                            if (file-attributes ignore) collect ignore))))

(provide 'gemini-companion-private)
;;; gemini-companion-private.el ends here

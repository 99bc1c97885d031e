;;; gemini-companion-native.el --- Find and load the native module -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The server is a native module written in Rust.  This file finds the module's file and loads it;
;; `gemini-companion-install' gets one where there is none.  Loading or compiling this file neither
;; loads the module nor asks anything.
;;
;; Emacs can neither unload a module nor replace one, so we read the version of a module from its
;; file before we load it.

;;; Code:

(eval-when-compile
  (require 'cl-lib)
  (require 'subr-x))

(defcustom gemini-companion-module-file nil
  "The file of the native module, or nil to look for it.
If nil, the environment variable GEMINI_COMPANION_MODULE may name the file.
If either names a file, Emacs uses no other, and signals an error if it is
not the right module.  Otherwise, Emacs looks beside the package, in
`load-path', and in `gemini-companion-module-directory'."
  :group 'gemini-companion-server
  :type '(choice (const :tag "Look for it" nil) file)
  :risky t)

(defcustom gemini-companion-module-directory
  ;; Not `locate-user-emacs-file', which creates that directory if it does not exist.
  (expand-file-name "gemini-companion/" user-emacs-directory)
  "Directory in which to install native modules.
Emacs creates it when needed.  It should not be the package's own directory,
which may be read-only, and which package managers delete."
  :group 'gemini-companion-server
  :type 'directory
  :risky t)

(defconst gemini-companion-native-version "0.1.0"
  "The version of the native module that this package needs.")

(defconst gemini-companion-native-directory
  (file-name-directory
   (file-truename (concat (file-name-sans-extension (or load-file-name buffer-file-name)) ".el")))
  "The directory of this package's Lisp sources.
Some package managers link to them from a directory of their own, in which
only the compiled files are not links.")

(defvar gemini-companion-native--loaded nil
  "The files of native modules that this Emacs has loaded.
These stay loaded; a new module can only be loaded from another file.")

(defun gemini-companion-native-signal (format &rest arguments)
  "Signal a `user-error' about the module: FORMAT with ARGUMENTS.
Unlike others it need not begin with a capital letter, since it is shown
after what failed."
  (signal 'user-error (list (apply #'format-message format arguments))))

;;;; Loading

(defun gemini-companion-native-loaded-version ()
  "Return the version of the native module that is loaded, nil if none is."
  ;; `featurep' could be wrong: `unload-feature' removes the feature, but not the module.
  (and (fboundp 'gemini-companion--mod-version)
       (gemini-companion--mod-version)))

(defun gemini-companion-native-current-p ()
  "Return non-nil if the native module of this version is loaded."
  (equal (gemini-companion-native-loaded-version) gemini-companion-native-version))

(defun gemini-companion-native-check ()
  "Signal an error if this Emacs cannot load a module, or not now.
If the mode is on with a module of another version, nothing could reach its
server once this one is loaded."
  (unless module-file-suffix
    (gemini-companion-native-signal
     "this Emacs was built without support for native modules; install one that has it (its \
build option is --with-modules)"))
  (when-let* (((bound-and-true-p gemini-companion-mode))
              ((not (gemini-companion-native-current-p)))
              (used (gemini-companion-native-loaded-version)))
    (gemini-companion-native-signal
     "version %s of the module is in use; turn the mode off and on to get version %s"
     used gemini-companion-native-version)))

(defun gemini-companion-native-load ()
  "Load the native module of this version, unless it is loaded.
Return non-nil if it is loaded, nil if there is none.  Signal a
`user-error' if there is one that cannot be loaded now."
  (let ((tried gemini-companion-native--loaded)
        (failures nil)
        (file nil))
    (while (and (not (gemini-companion-native-current-p))
                (setq file (gemini-companion-native-find tried)))
      (push file tried)
      (condition-case error
          (gemini-companion-native--load-file file)
        (error (push (format "cannot load %s (%s)" file (error-message-string error))
                     failures))))
    (cond ((gemini-companion-native-current-p))
          (failures
           (gemini-companion-native-signal
            "%s%s" (mapconcat #'identity (nreverse failures) "; ")
            (if (gemini-companion-native-named-file) ""
              ": C-u M-x gemini-companion-install-module gets another one")))
          ((gemini-companion-native-find)
           (gemini-companion-native-signal
            "version %s is loaded, but this package needs %s: restart Emacs"
            (gemini-companion-native-loaded-version) gemini-companion-native-version)))))

(defun gemini-companion-native--load-file (file)
  "Load the module FILE."
  (module-load file)
  (push file gemini-companion-native--loaded))

;;;; Finding

(defun gemini-companion-native-find (&optional except)
  "Return the first file with the module of this version, or nil.
Ignore the files EXCEPT, a list.  Signal a `user-error' if the user names a
file that is not such a module."
  (gemini-companion-native-check)
  (if-let* ((named (gemini-companion-native-named-file)))
      (if-let* ((fault (gemini-companion-native--fault named)))
          (gemini-companion-native-signal
           "%s, which %s names, is %s" named
           (if gemini-companion-module-file "`gemini-companion-module-file'"
             "GEMINI_COMPANION_MODULE")
           fault)
        (unless (member named except) named))
    (gemini-companion-native--search
     (lambda (file) (not (or (member file except) (gemini-companion-native--fault file)))))))

(defun gemini-companion-native-named-file ()
  "Return the file that the user names as the module, or nil."
  (when-let* ((file (or gemini-companion-module-file (getenv "GEMINI_COMPANION_MODULE"))))
    (and (not (string-empty-p file)) (expand-file-name file))))

(defun gemini-companion-native--search (predicate)
  "Return the first possible file of the module for which PREDICATE holds.
PREDICATE is also called with names of files that do not exist."
  (or (locate-file "gemini-companion-module" (cons gemini-companion-native-directory load-path)
                   (delete-dups (list (or module-file-suffix ".so") ".so"))
                   predicate)
      (let ((installed (gemini-companion-native-installed-file)))
        (and (funcall predicate installed) installed))))

(defun gemini-companion-native-installed-file ()
  "Return the name of the file in which the module is installed."
  (expand-file-name (gemini-companion-native-asset) gemini-companion-module-directory))

(defun gemini-companion-native-asset ()
  "Return the name of the file of the module as it is published."
  (format "gemini-companion-module-%s-%s%s" gemini-companion-native-version
          (gemini-companion-native-platform) module-file-suffix))

(defun gemini-companion-native-platform ()
  "Return a name for the platform for which this Emacs was built."
  ;; Not the machine's, since its kernel may run programs built for another platform.
  (let ((cpu (pcase (car (split-string system-configuration "-"))
               ("amd64" "x86_64")
               ("arm64" "aarch64")
               (cpu cpu))))
    (pcase system-type
      ((and 'gnu/linux (guard (not (string-match-p "musl\\|android" system-configuration))))
       (concat cpu "-linux-gnu"))
      ('darwin (concat cpu "-macos"))
      ('windows-nt (concat cpu "-windows"))
      (_ system-configuration))))

;;;; Versions

(defun gemini-companion-native-file-version (file)
  "Return the version of the native module FILE, or nil if it is not one."
  (when (file-regular-p file)
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (cl-loop with case-fold-search = nil
               ;; The version is near the beginning; reading the whole file takes milliseconds at
               ;; each start.
               for end in (list (* 512 1024) nil)
               do (erase-buffer)
               (insert-file-contents-literally file nil 0 end)
               ;; Many times faster than searching for the whole regexp.
               thereis (and (search-forward "gemini-companion-module:version=" nil t)
                            (looking-at "\\([0-9.]+\\):end")
                            (match-string 1))))))

(defun gemini-companion-native--fault (file)
  "Return what FILE is instead of a module of this version, or nil if it is one."
  (let ((version (gemini-companion-native-file-version file)))
    (cond ((equal version gemini-companion-native-version) nil)
          (version (format "of version %s; version %s is needed"
                           version gemini-companion-native-version))
          ((file-exists-p file) "not a module of this package")
          (t "not there"))))

(defun gemini-companion-native-describe-missing ()
  "Return which module is missing, and what is there instead."
  (let* ((other (gemini-companion-native--search #'file-exists-p))
         (fault (and other (gemini-companion-native--fault other))))
    (format "version %s for %s is not installed%s" gemini-companion-native-version
            (gemini-companion-native-platform)
            (if fault (format " (%s is %s)" other fault) ""))))

(provide 'gemini-companion-native)
;;; gemini-companion-native.el ends here

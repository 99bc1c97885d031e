;;; gemini-companion-native.el --- Find, build and load the native module -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The server is a native module written in Rust.  It is looked for beside this file, and built
;; there with cargo, in a visible compilation buffer, when it is first needed.  Nothing is built
;; or loaded when this file is loaded or compiled.
;;
;; This file is not named after the module, gemini-companion-module.so: `load' prefers modules to
;; Lisp files, so `require' would load the module in its place.

;;; Code:

(eval-when-compile (require 'cl-lib))

(defvar compilation-finish-functions)

(declare-function gemini-companion--mod-version "ext:gemini-companion-module" () t)

(defconst gemini-companion-native-version "0.1.0"
  "The version of the native module that this package needs.")

(defconst gemini-companion-native--directory
  (file-name-directory (file-truename (or load-file-name buffer-file-name)))
  "The directory of this file, where the module is.
The true one: package managers link Lisp files into a directory of their
own.")

(define-error 'gemini-companion-error "Gemini companion")
(define-error 'gemini-companion-native-missing
  "Native module of gemini-companion" 'gemini-companion-error)

(defun gemini-companion-native-ensure (continue)
  "Call CONTINUE, a function of no arguments, when the native module is loaded.
That is at once if the module is there, and is that of this version.
Else it is built first, in a visible buffer, and this function returns
before the build has ended; in batch mode nothing is built.  Signal
`gemini-companion-native-missing', with the remedy, if there is no way to
the module."
  (cond ((equal (gemini-companion-native-loaded-version) gemini-companion-native-version)
         (funcall continue))
        ((gemini-companion-native-loaded-p)
         (signal 'gemini-companion-native-missing
                 (list (format "version %s is loaded, this package needs %s: restart Emacs"
                               (gemini-companion-native-loaded-version)
                               gemini-companion-native-version))))
        ((not module-file-suffix)
         (signal 'gemini-companion-native-missing
                 '("this Emacs was built without support for native modules; \
install one that has it (its build option is --with-modules)")))
        ((equal (gemini-companion-native-file-version (gemini-companion-native-file))
                gemini-companion-native-version)
         (gemini-companion-native--load)
         (funcall continue))
        (t (gemini-companion-native--build continue))))

(defun gemini-companion-native-loaded-p ()
  "Return non-nil if the native module is loaded.
Not by its feature: `unload-feature' takes that away, not the module."
  (fboundp 'gemini-companion--mod-version))

(defun gemini-companion-native-loaded-version ()
  "Return the version of the native module that is loaded, nil if none is."
  (and (gemini-companion-native-loaded-p) (gemini-companion--mod-version)))

(defun gemini-companion-native-file ()
  "Return the name of the module's file, which need not exist."
  (expand-file-name (concat "gemini-companion-module" module-file-suffix)
                    gemini-companion-native--directory))

(defun gemini-companion-native-file-version (file)
  "Return the version of the native module FILE, nil if it is none.
It is not loaded for that: a module that is loaded cannot be replaced."
  (when (file-exists-p file)
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (insert-file-contents-literally file)
      (let ((case-fold-search nil))
        ;; This is many times as fast as to search for all of it.
        (and (search-forward "gemini-companion-module:version=" nil t)
             (looking-at "\\([0-9.]+\\):end")
             (match-string 1))))))

(defun gemini-companion-native--load ()
  "Load the module's file."
  (let ((file (gemini-companion-native-file)))
    (condition-case error
        (module-load file)
      (error (signal 'gemini-companion-native-missing
                     (list (format "%s cannot be loaded (%s): delete it to have it built anew"
                                   file (error-message-string error))))))))

;;;; Building

(defun gemini-companion-native--build (continue)
  "Build the module with cargo in a visible buffer, load it and call CONTINUE."
  (let ((manifest (gemini-companion-native--manifest)))
    (gemini-companion-native--check-tools manifest)
    (let ((default-directory (file-name-directory manifest))
          (process-environment
           (append '("CARGO_TERM_COLOR=never" "CARGO_TERM_PROGRESS_WHEN=never")
                   process-environment)))
      (message "Building the native module of gemini-companion; \
the mode is switched on when that is done")
      (with-current-buffer
          (compilation-start
           (format "cargo build --release --locked --manifest-path %s --target-dir %s"
                   (shell-quote-argument manifest)
                   (shell-quote-argument (gemini-companion-native--target manifest)))
           nil (lambda (_mode) "*gemini-companion build*"))
        (add-hook 'compilation-finish-functions
                  (lambda (_buffer status)
                    (gemini-companion-native--built manifest status continue))
                  nil t)))))

(defun gemini-companion-native--check-tools (manifest)
  "Signal what is missing to build the module of MANIFEST, a file name or nil."
  (let ((problem
         (cond ((not manifest) "its sources (Cargo.toml) are not beside this package")
               (noninteractive "nothing is built in batch mode")
               ((not (executable-find "cargo"))
                "cargo, Rust's build tool, is not on `exec-path' (https://rustup.rs, or your \
system's package of Rust 1.88 or newer)"))))
    (when problem
      (signal 'gemini-companion-native-missing
              (list (format "%s is %s and cannot be built: %s.  `make build' in a checkout \
builds it, too"
                            (gemini-companion-native-file)
                            (gemini-companion-native--describe-file) problem))))))

(defun gemini-companion-native--describe-file ()
  "Say why the module's file is not loaded."
  (let* ((file (gemini-companion-native-file))
         (version (gemini-companion-native-file-version file)))
    (cond (version (format "of version %s, not %s," version gemini-companion-native-version))
          ((file-exists-p file) "no module of this package")
          (t "missing"))))

(defun gemini-companion-native--manifest ()
  "Return the name of the module's Cargo.toml, or nil.
It is beside this file in a package, one directory up in a checkout."
  (cl-loop for name in '("../Cargo.toml" "Cargo.toml")
           for file = (expand-file-name name gemini-companion-native--directory)
           if (file-exists-p file) return file))

(defun gemini-companion-native--built (manifest status continue)
  "Load the module and call CONTINUE.
MANIFEST was built, and that ended with STATUS."
  (condition-case error
      (if (not (string-prefix-p "finished" status))
          (message "The native module of gemini-companion was not built; \
*gemini-companion build* says why")
        (gemini-companion-native--install (gemini-companion-native--built-file manifest))
        (gemini-companion-native--load)
        (funcall continue))
    (error (message "%s" (error-message-string error)))))

(defun gemini-companion-native--built-file (manifest)
  "Return the file that cargo made of MANIFEST."
  (let ((prefix (if (eq system-type 'windows-nt) "" "lib"))
        (suffix (pcase system-type
                  ('windows-nt ".dll")
                  ('darwin ".dylib")
                  (_ ".so"))))
    (expand-file-name (concat "release/" prefix "gemini_companion_module" suffix)
                      (gemini-companion-native--target manifest))))

(defun gemini-companion-native--target (manifest)
  "Return the directory in which cargo builds what MANIFEST describes.
The user's settings may name another one for all projects."
  (expand-file-name "target" (file-name-directory manifest)))

(defun gemini-companion-native--install (built)
  "Put the file BUILT in its place.
By renaming: an Emacs that has the old file loaded would crash if it were
written into."
  (let* ((file (gemini-companion-native-file))
         (temporary (make-temp-name (concat file "."))))
    (unwind-protect
        (progn (copy-file built temporary)
               (rename-file temporary file t))
      (when (file-exists-p temporary) (delete-file temporary)))))

(provide 'gemini-companion-native)
;;; gemini-companion-native.el ends here

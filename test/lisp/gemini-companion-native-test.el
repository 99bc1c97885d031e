;;; gemini-companion-native-test.el --- Tests of finding the native module  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-native)
(require 'gemini-companion-test-util)

(defvar gemini-companion-native-test--version nil
  "The version of the module that counts as loaded.")

(defun gemini-companion-native-test--module (version)
  "Return a text that passes for a module of VERSION."
  (format "x gemini-companion-module:version=%s:end y" version))

(defun gemini-companion-native-test--load (file)
  "Record FILE as the loaded module."
  (let ((version (gemini-companion-native-file-version file)))
    (unless version (error "This is no module"))
    (setq gemini-companion-native-test--version version)
    (push file gemini-companion-native--loaded)))

(defmacro gemini-companion-native-test--in (directory &rest body)
  "Evaluate BODY with a new DIRECTORY that passes for a checkout of the package.
Its subdirectory \"installed\" is for installed modules.  No module counts
as loaded, and loading one is only recorded."
  (declare (indent 1) (debug (symbolp body)))
  `(let* ((,directory (gemini-companion-test-temp-directory))
          (gemini-companion-native-directory (expand-file-name "lisp/" ,directory))
          (gemini-companion-module-directory (expand-file-name "installed/" ,directory))
          (load-path (list (expand-file-name "elsewhere" ,directory)))
          (process-environment (cons "GEMINI_COMPANION_MODULE" process-environment))
          (gemini-companion-module-file nil)
          (gemini-companion-native--loaded nil)
          (gemini-companion-native-test--version nil))
     (unwind-protect
         (cl-letf (((symbol-function 'gemini-companion--mod-version)
                    (lambda () gemini-companion-native-test--version))
                   ((symbol-function 'gemini-companion-native--load-file)
                    #'gemini-companion-native-test--load))
           ,@body)
       (delete-directory ,directory t))))

(defun gemini-companion-native-test--put (version &rest names)
  "Write a module of VERSION to the file with the path NAMES; return its name."
  (gemini-companion-test-write (expand-file-name (string-join names "/"))
                               (gemini-companion-native-test--module version)))

(defconst gemini-companion-native-test--name
  (concat "gemini-companion-module" module-file-suffix)
  "The name of a module file that is not installed.")

(defun gemini-companion-native-test--reason ()
  "Return why the module cannot be loaded."
  (error-message-string (should-error (gemini-companion-native-load)
                                      :type 'user-error)))

(defun gemini-companion-native-test--all ()
  "Return all modules found, best first."
  (let ((files nil))
    (cl-loop for file = (gemini-companion-native-find files)
             while file do (push file files))
    (nreverse files)))

(ert-deftest gemini-companion-native/directories-are-searched-in-order ()
  (gemini-companion-native-test--in directory
    (should-not (gemini-companion-native-load))
    (let ((current gemini-companion-native-version)
          (name gemini-companion-native-test--name)
          (found nil))
      (dolist (place (list (gemini-companion-native-installed-file)
                           (expand-file-name (concat "elsewhere/" name) directory)
                           (expand-file-name (concat "lisp/" name) directory)))
        (push (gemini-companion-native-test--put current place) found)
        (should (equal (gemini-companion-native-test--all) found)))
      (let ((named (gemini-companion-native-test--put current directory "named")))
        (let ((process-environment
               (cons (concat "GEMINI_COMPANION_MODULE=" named) process-environment)))
          (should (equal (gemini-companion-native-test--all) (list named)))
          (setq gemini-companion-module-file (car found))
          (should (equal (gemini-companion-native-test--all) (list (car found))))))
      (should (gemini-companion-native-load))
      (should (equal gemini-companion-native-test--version current)))))

(ert-deftest gemini-companion-native/a-stale-module-is-skipped-without-loading ()
  (gemini-companion-native-test--in directory
    (let ((stale (gemini-companion-native-test--put
                  "0.0.9" directory "lisp" gemini-companion-native-test--name)))
      (should-not (gemini-companion-native-load))
      (should (string-match-p (format "(%s is of version 0.0.9; version %s is needed)"
                                      (regexp-quote stale) gemini-companion-native-version)
                              (gemini-companion-native-describe-missing)))
      (let ((good (gemini-companion-native-test--put
                   gemini-companion-native-version (gemini-companion-native-installed-file))))
        (should (gemini-companion-native-load))
        (should (equal gemini-companion-native--loaded (list good)))))))

(ert-deftest gemini-companion-native/a-file-named-by-the-user-is-used-or-an-error ()
  (gemini-companion-native-test--in directory
    (gemini-companion-native-test--put gemini-companion-native-version
                                       (gemini-companion-native-installed-file))
    (let ((file (expand-file-name "named" directory)))
      (push (concat "GEMINI_COMPANION_MODULE=" file) process-environment)
      (should (string-match-p "named, which GEMINI_COMPANION_MODULE names, is not there"
                              (gemini-companion-native-test--reason)))
      (setq gemini-companion-module-file file)
      (gemini-companion-test-write file "of another kind")
      (should (string-match-p "module-file.* names, is not a module of this package"
                              (gemini-companion-native-test--reason)))
      (gemini-companion-native-test--put "0.0.9" file)
      (should (string-match-p "is of version 0.0.9; version .* is needed"
                              (gemini-companion-native-test--reason))))))

(ert-deftest gemini-companion-native/if-one-cannot-be-loaded-the-next-is ()
  (gemini-companion-native-test--in directory
    (let ((beside (gemini-companion-native-test--put
                   gemini-companion-native-version
                   directory "lisp" gemini-companion-native-test--name))
          (load #'gemini-companion-native-test--load))
      (cl-letf (((symbol-function 'gemini-companion-native--load-file)
                 (lambda (file)
                   (when (equal file beside) (error "GLIBC_2.99 is not there"))
                   (funcall load file))))
        (should (string-match-p
                 "cannot load .* (GLIBC_2.99 is not there): C-u M-x gemini-companion-install"
                 (gemini-companion-native-test--reason)))
        (gemini-companion-native-test--put gemini-companion-native-version
                                           (gemini-companion-native-installed-file))
        (should (gemini-companion-native-load))))))

(ert-deftest gemini-companion-native/a-new-version-is-loaded-from-another-file ()
  (gemini-companion-native-test--in directory
    (let ((name gemini-companion-native-test--name)
          (current gemini-companion-native-version))
      (let ((gemini-companion-native-version "0.0.9"))
        (gemini-companion-native-test--put "0.0.9" directory "lisp" name)
        (should (gemini-companion-native-load)))
      (gemini-companion-native-test--put current directory "lisp" name)
      (should (string-match-p "version 0.0.9 is loaded, .*: restart Emacs"
                              (gemini-companion-native-test--reason)))
      (gemini-companion-native-test--put current (gemini-companion-native-installed-file))
      (should (gemini-companion-native-load))
      (should (equal gemini-companion-native-test--version current)))))

(ert-deftest gemini-companion-native/an-emacs-without-modules-is-reported ()
  (gemini-companion-native-test--in directory
    (let ((module-file-suffix nil))
      (should (string-match-p "without support for native modules"
                              (gemini-companion-native-test--reason))))))

(ert-deftest gemini-companion-native/platforms-have-names ()
  (pcase-dolist (`(,type ,configuration ,name)
                 '((gnu/linux "x86_64-pc-linux-gnu" "x86_64-linux-gnu")
                   (gnu/linux "aarch64-unknown-linux-gnu" "aarch64-linux-gnu")
                   (gnu/linux "amd64-pc-linux-gnu" "x86_64-linux-gnu")
                   (gnu/linux "x86_64-alpine-linux-musl" "x86_64-alpine-linux-musl")
                   (gnu/linux "aarch64-unknown-linux-android" "aarch64-unknown-linux-android")
                   (darwin "aarch64-apple-darwin23.6.0" "aarch64-macos")
                   (darwin "arm64-apple-darwin20" "aarch64-macos")
                   (darwin "x86_64-apple-darwin22" "x86_64-macos")
                   (windows-nt "x86_64-w64-mingw32" "x86_64-windows")
                   (berkeley-unix "amd64-unknown-freebsd14.0" "amd64-unknown-freebsd14.0")))
    (let ((system-type type)
          (system-configuration configuration))
      (should (equal (gemini-companion-native-platform) name)))))

(ert-deftest gemini-companion-native/the-built-file-has-its-version ()
  (should (equal (gemini-companion-native-file-version
                  (gemini-companion-test-path "lisp" gemini-companion-native-test--name))
                 gemini-companion-native-version)))

(ert-deftest gemini-companion-native/a-version-is-found-anywhere-in-the-file ()
  (gemini-companion-native-test--in directory
    (let ((file (expand-file-name "module" directory))
          (marked (gemini-companion-native-test--module "1.2.3")))
      (dolist (n '(0 1 1000))
        (gemini-companion-test-write file (concat (make-string n ?x) marked))
        (should (equal (gemini-companion-native-file-version file) "1.2.3")))
      (gemini-companion-test-write file (concat (make-string 300 ?x) (substring marked 0 -3)))
      (should-not (gemini-companion-native-file-version file)))))

(ert-deftest gemini-companion-native/sources-are-found-through-links-of-a-package-manager ()
  "All files of the directory are links, except the compiled ones."
  (let ((place (gemini-companion-test-temp-directory))
        (program (expand-file-name invocation-name invocation-directory)))
    (unwind-protect
        (let ((source (gemini-companion-test-path "lisp" "gemini-companion-native.el"))
              (link (expand-file-name "gemini-companion-native.el" place)))
          (make-symbolic-link source link)
          (with-temp-buffer
            (should (zerop (call-process program nil t nil "-Q" "--batch" "-L" place
                                         "-f" "batch-byte-compile" link))))
          (with-temp-buffer
            (call-process program nil '(t nil) nil "-Q" "--batch" "-L" place
                          "--eval" "(require 'gemini-companion-native)"
                          "--eval" "(princ gemini-companion-native-directory)")
            (should (equal (buffer-string) (gemini-companion-test-path "lisp/")))))
      (delete-directory place t))))

(ert-deftest gemini-companion-native/versions-agree ()
  (let ((cargo (gemini-companion-test-read (gemini-companion-test-path "Cargo.toml")))
        (main (gemini-companion-test-read
               (gemini-companion-test-path "lisp" "gemini-companion.el")))
        (eask (gemini-companion-test-read (gemini-companion-test-path "Eask")))
        (version (regexp-quote gemini-companion-native-version)))
    (should (string-match-p (format "^version = \"%s\"$" version) cargo))
    (should (string-match-p (format "^;; Version: %s$" version) main))
    (should (string-match-p (format "\"%s\"" version) eask))))

;;; gemini-companion-native-test.el ends here

;;; gemini-companion-native-test.el --- Tests of finding the native module  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-native)
(require 'gemini-companion-test-util)

(defmacro gemini-companion-native-test--in (directory files &rest body)
  "Evaluate BODY as if the package were in a new DIRECTORY that holds FILES.
The module counts as not loaded."
  (declare (indent 2) (debug (symbolp form body)))
  `(let* ((,directory (gemini-companion-test-temp-directory))
          (gemini-companion-native--directory ,directory))
     (unwind-protect
         (cl-letf (((symbol-function 'gemini-companion--mod-version) nil))
           (dolist (file ,files)
             (gemini-companion-test-write (expand-file-name file ,directory) ""))
           ,@body)
       (delete-directory ,directory t))))

(defun gemini-companion-native-test--reason ()
  "Return why the module cannot be had."
  (error-message-string
   (should-error (gemini-companion-native-ensure #'ignore)
                 :type 'gemini-companion-native-missing)))

(ert-deftest gemini-companion-native/what-is-missing-is-named-with-its-remedy ()
  (gemini-companion-native-test--in directory nil
    (should (string-match-p "sources (Cargo.toml) are not beside"
                            (gemini-companion-native-test--reason))))
  (gemini-companion-native-test--in directory '("Cargo.toml")
    (should (string-match-p "nothing is built in batch mode.*make build"
                            (gemini-companion-native-test--reason)))
    (let ((noninteractive nil) (exec-path nil))
      (should (string-match-p "cargo.*is not on" (gemini-companion-native-test--reason))))
    (let ((module-file-suffix nil))
      (should (string-match-p "without support for native modules"
                              (gemini-companion-native-test--reason))))))

(defun gemini-companion-native-test--marked (version)
  "Return a text that says that it is a module of VERSION."
  (format "x gemini-companion-module:version=%s:end y" version))

(ert-deftest gemini-companion-native/a-file-is-judged-before-it-is-loaded ()
  (gemini-companion-native-test--in directory
      (list (concat "gemini-companion-module" module-file-suffix))
    (let ((file (gemini-companion-native-file)))
      (cl-letf (((symbol-function 'module-load)
                 (lambda (_) (error "This is no module"))))
        (should (string-match-p "is no module of this package and cannot be built"
                                (gemini-companion-native-test--reason)))
        (gemini-companion-test-write file (gemini-companion-native-test--marked "0.0.9"))
        (should (string-match-p (format "is of version 0.0.9, not %s, and cannot be built"
                                        (regexp-quote gemini-companion-native-version))
                                (gemini-companion-native-test--reason)))
        (gemini-companion-test-write
         file (gemini-companion-native-test--marked gemini-companion-native-version))
        (should (string-match-p "cannot be loaded (This is no module): delete it"
                                (gemini-companion-native-test--reason)))))))

(ert-deftest gemini-companion-native/the-built-file-tells-its-version ()
  (should (equal (gemini-companion-native-file-version (gemini-companion-native-file))
                 gemini-companion-native-version)))

(ert-deftest gemini-companion-native/another-version-that-is-loaded-is-not-used ()
  (let ((called nil))
    (cl-letf (((symbol-function 'gemini-companion--mod-version) (lambda () "0.0.9")))
      (let ((problem (should-error (gemini-companion-native-ensure
                                    (lambda () (setq called t))))))
        (should (string-match-p "version 0.0.9 is loaded, .*: restart Emacs"
                                (error-message-string problem)))))
    (should-not called)))

(ert-deftest gemini-companion-native/it-is-installed-by-renaming ()
  (gemini-companion-native-test--in directory '("built")
    (let ((file (gemini-companion-native-file)))
      (gemini-companion-test-write file "old")
      (let ((before (file-attribute-inode-number (file-attributes file))))
        (gemini-companion-native--install (expand-file-name "built" directory))
        (should-not (equal (file-attribute-inode-number (file-attributes file)) before)))
      (should (equal (gemini-companion-test-bytes file) ""))
      (should (= (length (directory-files directory nil "module")) 1)))))

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

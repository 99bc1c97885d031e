;;; gemini-companion-release-test.el --- Tests of the checks of a release  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-native)
(require 'gemini-companion-test-util)

(defun gemini-companion-release-test--run (script &rest arguments)
  "Run SCRIPT of scripts/ with ARGUMENTS; return its status and output."
  (with-temp-buffer
    (let* ((name (gemini-companion-test-path "scripts" script))
           (status (apply #'call-process "sh" nil t nil name arguments)))
      (cons status (buffer-string)))))

(defun gemini-companion-release-test--passes (script &rest arguments)
  "Assert that SCRIPT with ARGUMENTS succeeds."
  (pcase-let ((`(,status . ,text)
               (apply #'gemini-companion-release-test--run script arguments)))
    (ert-info (text :prefix "Output: ")
      (should (eql status 0)))))

(defun gemini-companion-release-test--fails (words script &rest arguments)
  "Assert that SCRIPT with ARGUMENTS fails and prints WORDS."
  (pcase-let ((`(,status . ,text)
               (apply #'gemini-companion-release-test--run script arguments)))
    (ert-info (text :prefix "Output: ")
      (should (eql status 1))
      (should (string-search words text)))))

(defmacro gemini-companion-release-test--with-directory (directory &rest body)
  "Evaluate BODY with the symbol DIRECTORY bound to a temporary directory."
  (declare (indent 1) (debug (symbolp body)))
  `(let ((,directory (gemini-companion-test-temp-directory)))
     (unwind-protect (progn ,@body)
       (delete-directory ,directory t))))

;;;; Checks of a module

(defconst gemini-companion-release-test--module
  (gemini-companion-test-path "lisp" (concat "gemini-companion-module" module-file-suffix))
  "The module of this checkout.")

(defun gemini-companion-release-test--can-read-p ()
  "Return non-nil if there are a built module and the tools to read it.
A module instrumented for `make coverage' does not count."
  (and (executable-find "sh")
       (not (getenv "COVERAGE_POINTS"))
       (file-exists-p gemini-companion-release-test--module)
       (not (eql 3 (car (gemini-companion-release-test--run
                         "gate" "--host" gemini-companion-release-test--module))))))

(defmacro gemini-companion-release-test--with-module (file change &rest body)
  "Evaluate BODY with the symbol FILE bound to a changed copy of the module.
CHANGE is a form evaluated at the start of a buffer with its bytes."
  (declare (indent 2) (debug (symbolp form body)))
  `(gemini-companion-release-test--with-directory directory
     (let ((,file (expand-file-name "module" directory)))
       (with-temp-file ,file
         (set-buffer-multibyte nil)
         (setq buffer-file-coding-system 'no-conversion)
         (insert-file-contents-literally gemini-companion-release-test--module)
         ,change)
       ,@body)))

(defun gemini-companion-release-test--replace (from to)
  "Replace the bytes FROM everywhere in the buffer with TO, of the same length."
  (let ((case-fold-search nil))
    (should (search-forward from nil t))
    (goto-char (point-min))
    (while (search-forward from nil t)
      (replace-match to t t))))

(defun gemini-companion-release-test--append (bytes)
  "Add BYTES at the end of the buffer, which no program reads."
  (goto-char (point-max))
  (insert bytes))

(ert-deftest gemini-companion-release/a-module-passes-on-its-own-machine ()
  (skip-unless (gemini-companion-release-test--can-read-p))
  (gemini-companion-release-test--passes
   "gate" "--host" gemini-companion-release-test--module))

(ert-deftest gemini-companion-release/a-module-is-tried-in-an-emacs ()
  "As it is before it is published, and on each platform."
  (unless (and (executable-find "sh")
               (file-exists-p gemini-companion-release-test--module))
    (gemini-companion-test-skip "The module is not built"))
  (let ((process-environment
         (cons (concat "EMACS=" (expand-file-name invocation-name invocation-directory))
               process-environment)))
    (pcase-let ((`(,status . ,text) (gemini-companion-release-test--run
                                     "load" gemini-companion-release-test--module)))
      (ert-info (text :prefix "Output: ")
        (should (eql status 0))
        (should (string-match-p "^server: alive$" text))))))

(ert-deftest gemini-companion-release/a-module-that-emacs-cannot-load-fails ()
  (skip-unless (gemini-companion-release-test--can-read-p))
  (dolist (symbol '("emacs_module_init" "plugin_is_GPL_compatible"))
    (gemini-companion-release-test--with-module file
        (gemini-companion-release-test--replace symbol (upcase symbol))
      (gemini-companion-release-test--fails (format "does not export %s" symbol)
                                            "gate" "--host" file))))

(ert-deftest gemini-companion-release/another-version-fails ()
  (skip-unless (gemini-companion-release-test--can-read-p))
  (let ((marker (format "gemini-companion-module:version=%s:end"
                        gemini-companion-native-version))
        (other "gemini-companion-module:version=9.9.9:end"))
    (gemini-companion-release-test--with-module file
        (gemini-companion-release-test--replace marker other)
      (gemini-companion-release-test--fails other "gate" "--host" file))
    (gemini-companion-release-test--with-module file
        (gemini-companion-release-test--append (concat "\0" other "\0"))
      (gemini-companion-release-test--fails other "gate" "--host" file))
    (gemini-companion-release-test--with-module file
        (gemini-companion-release-test--replace marker (upcase marker))
      (gemini-companion-release-test--fails "it contains none" "gate" "--host" file))))

(defun gemini-companion-release-test--count-paths (file)
  "Return how many names of this machine's files are found in the module FILE."
  (let ((text (cdr (gemini-companion-release-test--run "gate" file "x86_64-linux-gnu"))))
    (if (string-match "names files of the machine that built it, \\([0-9]+\\) times" text)
        (string-to-number (match-string 1 text))
      0)))

(ert-deftest gemini-companion-release/a-path-of-the-building-machine-fails ()
  (skip-unless (gemini-companion-release-test--can-read-p))
  (skip-unless (string-prefix-p "x86_64-pc-linux-gnu" system-configuration))
  ;; A module built here may contain names of files of this machine.
  (let ((count (gemini-companion-release-test--count-paths gemini-companion-release-test--module)))
    (dolist (path '("/home/somebody/src/lib.rs" "C:\\Users\\somebody\\src\\lib.rs"))
      (gemini-companion-release-test--with-module file
          (gemini-companion-release-test--append (concat "\0" path "\0"))
        (should (= (gemini-companion-release-test--count-paths file) (1+ count)))
        (gemini-companion-release-test--passes "gate" "--host" file)))))

(ert-deftest gemini-companion-release/a-file-for-another-platform-fails ()
  (skip-unless (gemini-companion-release-test--can-read-p))
  (gemini-companion-release-test--fails
   "not for sparc" "gate" "--host" gemini-companion-release-test--module "sparc")
  (gemini-companion-release-test--with-directory directory
    (let ((file (expand-file-name "page.so" directory)))
      (gemini-companion-test-write file "<html>Not Found</html>")
      (gemini-companion-release-test--fails "an unknown platform" "gate" "--host" file))))

(ert-deftest gemini-companion-release/a-file-that-is-too-large-fails ()
  (skip-unless (gemini-companion-release-test--can-read-p))
  (gemini-companion-release-test--with-module file
      (gemini-companion-release-test--append (make-string 4000000 ?x))
    (gemini-companion-release-test--fails "bytes, more than 4000000" "gate" "--host" file)))

;;;; Checksums

(defun gemini-companion-release-test--sum (digit platform)
  "Return a line of sha256sum for the module of PLATFORM, with a sum of DIGITs."
  (format "%s  gemini-companion-module-%s-%s\n"
          (make-string 64 digit) gemini-companion-native-version platform))

(defmacro gemini-companion-release-test--with-sums (sums table lines &rest body)
  "Evaluate BODY with a file SUMS of LINES and a copy TABLE of the Lisp file."
  (declare (indent 3) (debug (symbolp symbolp form body)))
  `(gemini-companion-release-test--with-directory directory
     (let ((,sums (expand-file-name "SHA256SUMS" directory))
           (,table (expand-file-name "gemini-companion-checksums.el" directory)))
       (gemini-companion-test-write ,sums ,lines)
       (copy-file (gemini-companion-test-path "lisp" "gemini-companion-checksums.el") ,table)
       ,@body)))

(defun gemini-companion-release-test--contents (file)
  "Return the text of FILE."
  (with-temp-buffer
    (insert-file-contents file)
    (buffer-string)))

(defun gemini-companion-release-test--table (file)
  "Return the value of the table in FILE."
  (with-temp-buffer
    (insert-file-contents file)
    (re-search-forward "^(defconst gemini-companion-checksums$")
    (eval (read (current-buffer)) t)))

(ert-deftest gemini-companion-release/checksums-become-a-table ()
  (skip-unless (executable-find "sh"))
  (let ((one (gemini-companion-release-test--sum ?a "x86_64-linux-gnu.so"))
        (other (gemini-companion-release-test--sum ?0 "aarch64-macos.dylib"))
        contents)
    (gemini-companion-release-test--with-sums sums table (concat one other)
      (gemini-companion-release-test--passes "checksums" sums table)
      (should (equal (gemini-companion-release-test--table table)
                     (mapcar (pcase-lambda (`(,platform . ,digit))
                               (cons (format "gemini-companion-module-%s-%s"
                                             gemini-companion-native-version platform)
                                     (make-string 64 digit)))
                             '(("aarch64-macos.dylib" . ?0) ("x86_64-linux-gnu.so" . ?a)))))
      (setq contents (gemini-companion-release-test--contents table))
      (gemini-companion-release-test--passes "checksums" sums table)
      (should (equal (gemini-companion-release-test--contents table) contents)))
    ;; The table is sorted by name; an asterisk marks a file read as binary.
    (gemini-companion-release-test--with-sums
        sums table (concat other (replace-regexp-in-string "  " " *" one))
      (gemini-companion-release-test--passes "checksums" sums table)
      (should (equal (gemini-companion-release-test--contents table) contents)))))

(ert-deftest gemini-companion-release/an-unexpected-line-gives-no-table ()
  (skip-unless (executable-find "sh"))
  (let ((good (gemini-companion-release-test--sum ?a "x86_64-linux-gnu.so")))
    (pcase-dolist
        (`(,words . ,lines)
         `(("wrote no table" . "")
           ("line 2 is no SHA-256" . ,(concat good "\n"))
           ("is no SHA-256" . ,(substring good 1))
           ("is no SHA-256" . ,(gemini-companion-release-test--sum ?g "x86_64-linux-gnu.so"))
           ("is no SHA-256" . ,(gemini-companion-release-test--sum ?A "x86_64-linux-gnu.so"))
           ("names no module" . ,(gemini-companion-release-test--sum ?a "x86_64-linux-gnu.so\")"))
           ("names no module" . ,(gemini-companion-release-test--sum ?a "sparc.so"))
           ("names no module" . ,(replace-regexp-in-string "-module-[0-9]" "-module-9" good))
           ("line 2 names a module again" . ,(concat good good))))
      (gemini-companion-release-test--with-sums sums table lines
        (let ((before (gemini-companion-release-test--contents table)))
          (ert-info (lines :prefix "Lines: ")
            (gemini-companion-release-test--fails words "checksums" sums table)
            (should (equal (gemini-companion-release-test--contents table) before))))))))

(provide 'gemini-companion-release-test)
;;; gemini-companion-release-test.el ends here

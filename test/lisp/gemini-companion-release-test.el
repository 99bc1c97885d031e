;;; gemini-companion-release-test.el --- Tests of what guards a release  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-native)
(require 'gemini-companion-test-util)

(defun gemini-companion-release-test--run (script &rest arguments)
  "Run SCRIPT of scripts/ with ARGUMENTS.
Return its status and what it said."
  (with-temp-buffer
    (let* ((name (gemini-companion-test-path "scripts" script))
           (status (apply #'call-process "sh" nil t nil name arguments)))
      (cons status (buffer-string)))))

(defun gemini-companion-release-test--passes (script &rest arguments)
  "Require that SCRIPT with ARGUMENTS finds nothing."
  (pcase-let ((`(,status . ,text)
               (apply #'gemini-companion-release-test--run script arguments)))
    (ert-info (text :prefix "It said: ")
      (should (eql status 0)))))

(defun gemini-companion-release-test--fails (words script &rest arguments)
  "Require that SCRIPT with ARGUMENTS fails and says WORDS."
  (pcase-let ((`(,status . ,text)
               (apply #'gemini-companion-release-test--run script arguments)))
    (ert-info (text :prefix "It said: ")
      (should (eql status 1))
      (should (string-search words text)))))

(defmacro gemini-companion-release-test--with-directory (directory &rest body)
  "Evaluate BODY while the temporary DIRECTORY, a symbol, exists."
  (declare (indent 1) (debug (symbolp body)))
  `(let ((,directory (gemini-companion-test-temp-directory)))
     (unwind-protect (progn ,@body)
       (delete-directory ,directory t))))

;;;; The gate

(defconst gemini-companion-release-test--module
  (gemini-companion-test-path "lisp" (concat "gemini-companion-module" module-file-suffix))
  "The module of this checkout.")

(defun gemini-companion-release-test--can-read-p ()
  "Return non-nil if there are a built module and the tools to read it.
The module that counts for `make coverage' is not made to be published."
  (and (executable-find "sh")
       (not (getenv "COVERAGE_POINTS"))
       (file-exists-p gemini-companion-release-test--module)
       (not (eql 3 (car (gemini-companion-release-test--run
                         "gate" "--host" gemini-companion-release-test--module))))))

(defmacro gemini-companion-release-test--with-module (file change &rest body)
  "Evaluate BODY with FILE, a symbol, a copy of the module after CHANGE.
That is a form, evaluated at the start of a buffer of its bytes."
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
  "Replace the bytes FROM, wherever they are in the buffer, with TO, as many."
  (let ((case-fold-search nil))
    (should (search-forward from nil t))
    (goto-char (point-min))
    (while (search-forward from nil t)
      (replace-match to t t))))

(defun gemini-companion-release-test--append (bytes)
  "Add BYTES at the end of the buffer, where no program looks at them."
  (goto-char (point-max))
  (insert bytes))

(ert-deftest gemini-companion-release/a-module-is-fit-for-the-machine-that-built-it ()
  (skip-unless (gemini-companion-release-test--can-read-p))
  (gemini-companion-release-test--passes
   "gate" "--host" gemini-companion-release-test--module))

(ert-deftest gemini-companion-release/what-emacs-would-not-load-is-unfit ()
  (skip-unless (gemini-companion-release-test--can-read-p))
  (dolist (symbol '("emacs_module_init" "plugin_is_GPL_compatible"))
    (gemini-companion-release-test--with-module file
        (gemini-companion-release-test--replace symbol (upcase symbol))
      (gemini-companion-release-test--fails (format "does not export %s" symbol)
                                            "gate" "--host" file))))

(ert-deftest gemini-companion-release/another-version-is-unfit ()
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
      (gemini-companion-release-test--fails "it holds none" "gate" "--host" file))))

(defun gemini-companion-release-test--count-paths (file)
  "Return how many files of a machine FILE names, were it to be published."
  (let ((text (cdr (gemini-companion-release-test--run "gate" file "x86_64-linux-gnu"))))
    (if (string-match "names files of the machine that built it, \\([0-9]+\\) times" text)
        (string-to-number (match-string 1 text))
      0)))

(ert-deftest gemini-companion-release/a-foreign-path-is-unfit-to-be-published ()
  (skip-unless (gemini-companion-release-test--can-read-p))
  (skip-unless (string-prefix-p "x86_64-pc-linux-gnu" system-configuration))
  ;; What was built here may name files of this machine itself.
  (let ((count (gemini-companion-release-test--count-paths gemini-companion-release-test--module)))
    (dolist (path '("/home/somebody/src/lib.rs" "C:\\Users\\somebody\\src\\lib.rs"))
      (gemini-companion-release-test--with-module file
          (gemini-companion-release-test--append (concat "\0" path "\0"))
        (should (= (gemini-companion-release-test--count-paths file) (1+ count)))
        (gemini-companion-release-test--passes "gate" "--host" file)))))

(ert-deftest gemini-companion-release/a-file-of-another-platform-is-unfit ()
  (skip-unless (gemini-companion-release-test--can-read-p))
  (gemini-companion-release-test--fails
   "not for sparc" "gate" "--host" gemini-companion-release-test--module "sparc")
  (gemini-companion-release-test--with-directory directory
    (let ((file (expand-file-name "page.so" directory)))
      (gemini-companion-test-write file "<html>Not Found</html>")
      (gemini-companion-release-test--fails "no platform that we know" "gate" "--host" file))))

(ert-deftest gemini-companion-release/a-file-that-is-too-large-is-unfit ()
  (skip-unless (gemini-companion-release-test--can-read-p))
  (gemini-companion-release-test--with-module file
      (gemini-companion-release-test--append (make-string 3000000 ?x))
    (gemini-companion-release-test--fails "bytes, more than 3000000" "gate" "--host" file)))

;;;; The checksums

(defun gemini-companion-release-test--sum (digit platform)
  "Return a line of sha256sum, 64 times DIGIT, for the module of PLATFORM."
  (format "%s  gemini-companion-module-%s-%s\n"
          (make-string 64 digit) gemini-companion-native-version platform))

(defmacro gemini-companion-release-test--with-sums (sums table lines &rest body)
  "Evaluate BODY with a file SUMS of LINES, and a copy TABLE of the Lisp file."
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
    ;; The order is that of the names; a file read as binary has an asterisk.
    (gemini-companion-release-test--with-sums
        sums table (concat other (replace-regexp-in-string "  " " *" one))
      (gemini-companion-release-test--passes "checksums" sums table)
      (should (equal (gemini-companion-release-test--contents table) contents)))))

(ert-deftest gemini-companion-release/a-line-that-is-no-modules-gives-no-table ()
  (skip-unless (executable-find "sh"))
  (let ((good (gemini-companion-release-test--sum ?a "x86_64-linux-gnu.so")))
    (pcase-dolist
        (`(,words . ,lines)
         `(("not all" . "")
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

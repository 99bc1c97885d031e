;;; gemini-companion-install-test.el --- Tests of installing the native module  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The modules are texts that name a version; test/e2e/install-test.el has real
;; ones.

;;; Code:

(require 'ert)
(require 'gemini-companion-install)
(require 'gemini-companion-test-http)

(defvar gemini-companion-mode)

(defconst gemini-companion-install-test--module
  (concat (apply #'unibyte-string (number-sequence 0 255)) "\r\n\n"
          (format "gemini-companion-module:version=%s:end" gemini-companion-native-version)
          (make-string 5000 ?x))
  "The bytes of the published module.")

(defvar gemini-companion-install-test--loaded nil
  "The module file that counts as loaded.")

(defvar gemini-companion-install-test--warnings nil
  "The warnings shown.")

(defvar gemini-companion-install-test--continued nil
  "Non-nil once the caller of the installation has been called back.")

(defmacro gemini-companion-install-test--in (answer &rest body)
  "Evaluate BODY in a user's Emacs without a module, with a download server.
The server gives ANSWER, as in `gemini-companion-test-http-start'."
  (declare (indent 1) (debug t))
  `(let* ((directory (gemini-companion-test-temp-directory))
          (server (gemini-companion-test-http-start ,answer))
          (gemini-companion-module-url (gemini-companion-test-http-url server))
          (gemini-companion-checksums
           (list (cons (gemini-companion-native-asset)
                       (secure-hash 'sha256 gemini-companion-install-test--module))))
          (gemini-companion-native-directory (expand-file-name "lisp/" directory))
          (gemini-companion-module-directory (expand-file-name "emacs/modules/" directory))
          (load-path (cl-remove-if #'gemini-companion-install-test--ours-p load-path))
          (process-environment (cons "GEMINI_COMPANION_MODULE" process-environment))
          (gemini-companion-native--loaded nil)
          (gemini-companion-install-policy 'download)
          (gemini-companion-install--declined nil)
          (gemini-companion-install-test--loaded nil)
          (gemini-companion-install-test--continued nil)
          (gemini-companion-install-test--warnings nil)
          (noninteractive nil))
     (unwind-protect
         (cl-letf (((symbol-function 'gemini-companion--mod-version)
                    (lambda () (and gemini-companion-install-test--loaded
                                    (gemini-companion-native-file-version
                                     gemini-companion-install-test--loaded))))
                   ((symbol-function 'gemini-companion-native--load-file)
                    (lambda (file) (setq gemini-companion-install-test--loaded file)))
                   ((symbol-function 'display-warning)
                    (lambda (_type text &rest _)
                      (push text gemini-companion-install-test--warnings))))
           ,@body)
       (delete-process server)
       (delete-directory directory t))))

(defun gemini-companion-install-test--ours-p (directory)
  "Return non-nil if DIRECTORY is this checkout's, whose module must not be found."
  (file-equal-p directory (gemini-companion-test-path "lisp")))

(defun gemini-companion-install-test--good (_path)
  "Answer with the module."
  (gemini-companion-test-http-answer "200 OK" gemini-companion-install-test--module))

(defun gemini-companion-install-test--switch-on (&optional ask)
  "Install the module as the mode does; with ASK, as the command does."
  (gemini-companion-install-instead
   (lambda () (setq gemini-companion-install-test--continued t)) ask))

(defun gemini-companion-install-test--installed ()
  "Return the names of the installed files."
  (and (file-directory-p gemini-companion-module-directory)
       (directory-files gemini-companion-module-directory nil "\\`[^.]")))

(defun gemini-companion-install-test--is-installed ()
  "Assert that the published module, and nothing else, is installed and loaded."
  (should (equal (gemini-companion-install-test--installed)
                 (list (gemini-companion-native-asset))))
  (should (equal (gemini-companion-test-bytes (gemini-companion-native-installed-file))
                 gemini-companion-install-test--module))
  (should (equal gemini-companion-install-test--loaded
                 (gemini-companion-native-installed-file)))
  (should-not gemini-companion-install-test--warnings))

(defun gemini-companion-install-test--is-refused (&rest regexps)
  "Assert that nothing is installed, and that a warning matches REGEXPS."
  (should-not (gemini-companion-install-test--installed))
  (should-not gemini-companion-install-test--loaded)
  (should-not gemini-companion-install-test--continued)
  (should (= (length gemini-companion-install-test--warnings) 1))
  (dolist (regexp (append regexps '("M-x gemini-companion-install-module")))
    (should (string-match-p regexp (car gemini-companion-install-test--warnings))))
  (should-not (cl-remove-if-not (lambda (buffer)
                                  (string-prefix-p " *http 127" (buffer-name buffer)))
                                ;; url.el kills the buffers of redirected requests later.
                                (cl-set-difference (buffer-list) url-dead-buffer-list))))

(defun gemini-companion-install-test--refuse (answer &rest regexps)
  "Assert that ANSWER, a string, is refused and that a warning matches REGEXPS."
  (gemini-companion-install-test--in (lambda (_) answer)
    (gemini-companion-install-test--switch-on)
    (apply #'gemini-companion-install-test--is-refused
           ;; The warning says how to install it by hand.
           (concat "install-from-file  with\n  http://127.*/module-v" (regexp-quote gemini-companion-native-version) "/"
                   (regexp-quote (gemini-companion-native-asset)))
           (cdar gemini-companion-checksums)
           regexps)))

;;;; Downloads

(ert-deftest gemini-companion-install/a-download-is-checked-installed-and-loaded ()
  (let ((paths nil))
    (gemini-companion-install-test--in
        (lambda (path)
          (push path paths)
          (gemini-companion-install-test--good path))
      (gemini-companion-install-test--switch-on)
      (gemini-companion-install-test--is-installed)
      (should gemini-companion-install-test--continued)
      (should (equal paths (list (format "/module-v%s/%s" gemini-companion-native-version
                                         (gemini-companion-native-asset)))))
      (should (= (logand (file-modes gemini-companion-module-directory) #o077) 0)))))

(ert-deftest gemini-companion-install/redirections-are-followed ()
  (let ((count 0))
    (gemini-companion-install-test--in
        (lambda (path)
          (if (string-prefix-p "/mirror" path)
              (gemini-companion-install-test--good path)
            (setq count (1+ count))
            (gemini-companion-test-http-answer
             "302 Found" "elsewhere" "Location: /mirror/x.so" "Content-Length: 9")))
      (gemini-companion-install-test--switch-on)
      (should (= count 1))
      (gemini-companion-install-test--is-installed))))

(ert-deftest gemini-companion-install/invalid-answers-are-refused-with-a-reason ()
  (let ((module gemini-companion-install-test--module))
    (gemini-companion-install-test--refuse
     (gemini-companion-test-http-answer "404 Not Found" "<html>no</html>")
     "the server answered 404, Not found")
    ;; An answer with an error status is an error, even if its body is the module.
    (gemini-companion-install-test--refuse
     (gemini-companion-test-http-answer "500 Internal Server Error" module)
     "the server answered 500, Internal server error")
    (gemini-companion-install-test--refuse
     (gemini-companion-test-http-answer "200 OK" (substring module 0 1000)
                                        (format "Content-Length: %d" (length module)))
     "is not the published file")
    (gemini-companion-install-test--refuse
     (gemini-companion-test-http-answer "200 OK" (concat module "x"))
     "what was downloaded is not the published file: its SHA-256 is [0-9a-f]\\{64\\}, and must be [0-9a-f]\\{64\\}")
    (gemini-companion-install-test--refuse
     (gemini-companion-test-http-answer "200 OK" "<html>Log in first</html>")
     "is not the published file")
    (gemini-companion-install-test--refuse
     (gemini-companion-test-http-answer "200 OK" "") "is not the published file")
    (gemini-companion-install-test--refuse "" "the server gave no answer")
    (gemini-companion-install-test--refuse "what is this?\n\n" "the server gave no answer")
    (gemini-companion-install-test--refuse
     (gemini-companion-test-http-answer "302 Found" "" "Location: /again" "Content-Length: 0")
     "cannot reach the server (http-redirect-limit")))

(ert-deftest gemini-companion-install/a-missing-server-is-reported ()
  (gemini-companion-install-test--in #'ignore
    (delete-process server)
    (gemini-companion-install-test--switch-on)
    (gemini-companion-install-test--is-refused "cannot reach the server")))

(ert-deftest gemini-companion-install/a-missing-answer-times-out ()
  (gemini-companion-install-test--in #'ignore
    (let ((gemini-companion-install--patience 0.1))
      (gemini-companion-install-test--switch-on)
      (gemini-companion-install-test--is-refused "took too long"))))

(ert-deftest gemini-companion-install/only-https-except-from-this-machine ()
  (gemini-companion-install-test--in #'ignore
    (cl-letf (((symbol-function 'url-retrieve) (lambda (&rest _) (error "Not to be asked"))))
      (dolist (url '("http://example.org/" "ftp://127.0.0.1/" "http://127.0.0.1.example.org/"
                     "file:///tmp/" "http://localhost.example.org/" "x https://example.org/"))
        (let ((gemini-companion-module-url url))
          (should (string-match-p "is not an https address: correct .gemini-companion-module-url"
                                  (error-message-string
                                   (should-error (gemini-companion-install-test--switch-on))))))))))

(ert-deftest gemini-companion-install/a-download-can-be-quit ()
  (gemini-companion-install-test--in #'ignore
    (let ((processes (process-list)))
      (cl-letf* ((accept (symbol-function 'accept-process-output))
                 ((symbol-function 'accept-process-output)
                  (lambda (&rest arguments)
                    (apply accept arguments)
                    (when (equal arguments '(nil 0.1))
                      (signal 'quit nil)))))
        (gemini-companion-install-test--switch-on))
      (should-not gemini-companion-install-test--warnings)
      (should-not (gemini-companion-install-test--installed))
      (should-not (seq-filter (lambda (process)
                                (and (buffer-live-p (process-buffer process))
                                     (not (memq process processes))))
                              (process-list))))))

;;;; Questions

(defmacro gemini-companion-install-test--answering (key &rest body)
  "Evaluate BODY, answering each question with KEY.
Return the choices offered, those of the last question first."
  (declare (indent 1) (debug t))
  `(let ((offers nil))
     (cl-letf (((symbol-function 'read-multiple-choice)
                (lambda (_prompt choices &rest _)
                  (push (mapcar #'cadr choices) offers)
                  (assq ,key choices))))
       ,@body)
     offers))

(ert-deftest gemini-companion-install/only-commands-ask-and-a-no-is-respected ()
  (gemini-companion-install-test--in #'gemini-companion-install-test--good
    (setq gemini-companion-install-policy 'ask)
    (should (equal (gemini-companion-install-test--answering ?n
                     (gemini-companion-install-test--switch-on t)
                     (gemini-companion-install-test--switch-on t))
                   '(("download" "not now"))))
    (should-not (gemini-companion-install-test--answering ?d
                  (should-error (gemini-companion-install-test--switch-on)
                                :type 'user-error)))
    (should (gemini-companion-install-test--answering ?d
              (gemini-companion-install-module)))
    (gemini-companion-install-test--is-installed)
    ;; The installation asked for first is done in the end.
    (should gemini-companion-install-test--continued)))

(ert-deftest gemini-companion-install/only-possible-choices-are-offered ()
  (gemini-companion-install-test--in #'ignore
    (setq gemini-companion-install-policy 'ask)
    (let ((manifest (expand-file-name "Cargo.toml" directory)))
      (gemini-companion-test-write manifest "name = \"something else\"\n")
      (should (equal (gemini-companion-install-test--answering ?n
                       (gemini-companion-install-module))
                     '(("download" "not now"))))
      (copy-file (gemini-companion-test-path "Cargo.toml") manifest t)
      (should (equal (gemini-companion-install-test--answering ?n
                       (gemini-companion-install-module))
                     '(("download" "build" "not now"))))
      (setq gemini-companion-checksums nil)
      (should (equal (gemini-companion-install-test--answering ?n
                       (gemini-companion-install-module))
                     '(("build" "not now"))))
      (delete-file manifest)
      (should-not (gemini-companion-install-test--answering ?n
                    (should (string-match-p
                             "not published for .*sources (Cargo.toml) are not beside"
                             (error-message-string
                              (should-error (gemini-companion-install-module))))))))))

(ert-deftest gemini-companion-install/an-emacs-without-modules-is-not-asked ()
  (gemini-companion-install-test--in #'ignore
    (let ((module-file-suffix nil))
      (dolist (again '(nil t))
        (should (string-search "without support for native modules"
                               (error-message-string
                                (should-error (gemini-companion-install-module again)
                                              :type 'user-error))))))))

(ert-deftest gemini-companion-install/batch-mode-installs-nothing ()
  (gemini-companion-install-test--in #'gemini-companion-install-test--good
    (let ((noninteractive t))
      (dolist (policy '(ask download build nil))
        (setq gemini-companion-install-policy policy)
        (should-not (gemini-companion-install-test--answering ?d
                      (should (string-match-p
                               "no native module: .*; nothing is installed in batch mode"
                               (error-message-string
                                (should-error (gemini-companion-install-test--switch-on t)))))
                      (should-error (gemini-companion-install-module))))))))

(ert-deftest gemini-companion-install/an-installed-module-is-not-installed-again ()
  (gemini-companion-install-test--in #'gemini-companion-install-test--good
    (gemini-companion-install-module)
    (gemini-companion-install-test--is-installed)
    (gemini-companion-install-module)
    (should (gemini-companion-install-test--answering ?d
              (gemini-companion-install-module t)))
    (gemini-companion-install-test--is-installed)))

(ert-deftest gemini-companion-install/who-has-the-module-is-not-told-that-it-is-missing ()
  (gemini-companion-install-test--in #'ignore
    (pcase-dolist (`(,current-p ,said) '((always "Nothing was installed")
                                         (ignore "stays off without its native module")))
      (let ((told nil))
        (cl-letf (((symbol-function 'gemini-companion-native-current-p) current-p)
                  ((symbol-function 'message) (lambda (text &rest _) (setq told text))))
          (gemini-companion-install-test--answering ?n
            (gemini-companion-install-module t)))
        (should (string-search said told))))))

(ert-deftest gemini-companion-install/a-file-named-by-the-user-is-not-installed ()
  (gemini-companion-install-test--in #'ignore
    (let ((gemini-companion-module-file "/nowhere/x.so"))
      (should (string-match-p "names the module /nowhere/x.so"
                              (error-message-string
                               (should-error (gemini-companion-install-module)
                                             :type 'user-error)))))))

;;;; Installing a file

(ert-deftest gemini-companion-install/only-the-published-file-is-installed ()
  (gemini-companion-install-test--in #'ignore
    (let ((file (expand-file-name "x.so" directory))
          (coding-system-for-write 'no-conversion))
      (write-region (concat gemini-companion-install-test--module "x") nil file nil 0)
      (should (string-match-p "is not the published file"
                              (error-message-string
                               (should-error (gemini-companion-install-from-file file)))))
      (should-not (gemini-companion-install-test--installed))
      (write-region gemini-companion-install-test--module nil file nil 0)
      (gemini-companion-install-from-file file)
      (gemini-companion-install-test--is-installed)
      (setq gemini-companion-checksums nil)
      (should (string-match-p "is not published for"
                              (error-message-string
                               (should-error (gemini-companion-install-from-file file))))))))

;;;; Files

(ert-deftest gemini-companion-install/only-unused-modules-are-deleted ()
  (gemini-companion-install-test--in #'gemini-companion-install-test--good
    (let ((old (format "gemini-companion-module-0.0.9-%s%s" (gemini-companion-native-platform)
                       module-file-suffix))
          (half (concat (gemini-companion-native-asset) ".aB3dEf"))
          (other (format "gemini-companion-module-%s-another-machine%s"
                         gemini-companion-native-version module-file-suffix)))
      (dolist (name (list old half other "notes.txt"))
        (gemini-companion-test-write (expand-file-name name gemini-companion-module-directory)
                                     "x"))
      (gemini-companion-install-test--switch-on)
      (should (equal (gemini-companion-install-test--installed)
                     (sort (list (gemini-companion-native-asset) other "notes.txt")
                           #'string<))))))

(ert-deftest gemini-companion-install/a-loaded-file-is-not-overwritten ()
  (gemini-companion-install-test--in #'gemini-companion-install-test--good
    (let ((file (gemini-companion-native-installed-file)))
      (gemini-companion-test-write file "old")
      (let ((before (file-attribute-inode-number (file-attributes file))))
        (gemini-companion-install-test--switch-on)
        (should-not (equal (file-attribute-inode-number (file-attributes file)) before))))))

(ert-deftest gemini-companion-install/a-module-in-use-is-not-replaced ()
  "The package was upgraded while the mode is on: another module could not reach its server."
  (gemini-companion-install-test--in #'gemini-companion-install-test--good
    (let ((old (gemini-companion-test-write (expand-file-name "old" directory)
                                            "gemini-companion-module:version=0.0.9:end"))
          (new (gemini-companion-test-write (expand-file-name "new" directory)
                                            gemini-companion-install-test--module))
          (gemini-companion-mode t))
      (setq gemini-companion-install-test--loaded old)
      (dolist (function (list #'gemini-companion-native-load
                              #'gemini-companion-install-module
                              (lambda () (gemini-companion-install-from-file new))))
        (should (string-search "turn the mode off and on"
                               (error-message-string (should-error (funcall function)
                                                                   :type 'user-error)))))
      (should-not (gemini-companion-install-test--installed))
      (should (equal gemini-companion-install-test--loaded old)))))

(ert-deftest gemini-companion-install/a-directory-that-cannot-be-created-is-reported ()
  (gemini-companion-install-test--in #'gemini-companion-install-test--good
    (gemini-companion-test-write (expand-file-name "emacs" directory) "a file")
    (gemini-companion-install-test--switch-on)
    (should (string-match-p "The native module is not installed: .*emacs"
                            (car gemini-companion-install-test--warnings)))))

(ert-deftest gemini-companion-install/a-killed-emacs-leaves-no-partial-file ()
  "Emacs is killed after it wrote all bytes, before the file gets its name."
  (gemini-companion-install-test--in #'gemini-companion-install-test--good
    (let* ((downloaded (expand-file-name "x.so" directory))
           (program (expand-file-name invocation-name invocation-directory))
           (coding-system-for-write 'no-conversion)
           (form `(progn
                    (require 'gemini-companion-install)
                    (setq native-comp-enable-subr-trampolines nil
                          gemini-companion-module-directory ,gemini-companion-module-directory
                          gemini-companion-checksums ',gemini-companion-checksums)
                    (fset 'rename-file (lambda (&rest _) (signal-process (emacs-pid) 'SIGKILL)))
                    (gemini-companion-install-from-file ,downloaded))))
      (write-region gemini-companion-install-test--module nil downloaded nil 0)
      (should (equal (call-process program nil nil nil "-Q" "--batch"
                                   "-L" (gemini-companion-test-path "lisp")
                                   "--eval" (prin1-to-string form))
                     "Killed"))
      (should (= (length (gemini-companion-install-test--installed)) 1))
      (should-not (gemini-companion-native-find))
      (gemini-companion-install-test--switch-on)
      (gemini-companion-install-test--is-installed))))

;;;; Building

(ert-deftest gemini-companion-install/missing-build-tools-are-reported ()
  (gemini-companion-install-test--in #'ignore
    (setq gemini-companion-install-policy 'build)
    (should (string-match-p "its sources (Cargo.toml) are not beside"
                            (error-message-string
                             (should-error (gemini-companion-install-test--switch-on)))))
    (copy-file (gemini-companion-test-path "Cargo.toml") directory)
    (let ((exec-path nil))
      (should (string-match-p "cargo is not on .*install Rust 1\\.[0-9]+ or newer"
                              (error-message-string
                               (should-error (gemini-companion-install-test--switch-on))))))))

(ert-deftest gemini-companion-install/the-file-built-by-cargo-is-found ()
  (gemini-companion-install-test--in #'ignore
    (should (string-match-p "cargo built no .*gemini_companion_module"
                            (error-message-string
                             (should-error (gemini-companion-install--built-file directory)))))
    (dolist (deeper '("x86_64-unknown-linux-gnu/release/" "release/"))
      (let ((file (expand-file-name
                   (concat deeper "libgemini_companion_module"
                           (if (eq system-type 'darwin) ".dylib" ".so"))
                   directory)))
        (gemini-companion-test-write file "")
        (should (equal (gemini-companion-install--built-file directory) file))))))

;;; gemini-companion-install-test.el ends here

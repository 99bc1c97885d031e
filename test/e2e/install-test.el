;;; install-test.el --- Installing the package and its module  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Each test installs a copy of the package as a package manager does, in a home
;; of its own and without the native module, gets the module as a user does, and
;; connects a client.

;;; Code:

(require 'ert)
(require 'gemini-companion-native)
(require 'gemini-companion-test-client)
(require 'gemini-companion-test-http)
(require 'gemini-companion-test-review)

;;;; The package

(defconst gemini-companion-installed-test--module
  (concat "gemini-companion-module" module-file-suffix)
  "The name of a module beside the Lisp files.")

(defun gemini-companion-installed-test--copy (directory)
  "Make DIRECTORY a checkout of this package, as released.
No file is compiled, and there is no native module."
  (make-directory (expand-file-name "lisp" directory) t)
  (dolist (file (directory-files (gemini-companion-test-path "lisp") t "\\.el\\'"))
    (copy-file file (expand-file-name "lisp/" directory)))
  (copy-directory (gemini-companion-test-path "src") (expand-file-name "src" directory))
  (dolist (name '("Cargo.toml" "Cargo.lock" "LICENSE"))
    (copy-file (gemini-companion-test-path name) (file-name-as-directory directory)))
  (gemini-companion-installed-test--publish (expand-file-name "lisp" directory)))

(defun gemini-companion-installed-test--checkout (place)
  "Make a checkout in the directory PLACE, and return its directory of Lisp files."
  (let ((checkout (expand-file-name "checkout" place)))
    (gemini-companion-installed-test--copy checkout)
    (expand-file-name "lisp" checkout)))

(defun gemini-companion-installed-test--published ()
  "Return the bytes of the published module, that of this checkout."
  (gemini-companion-test-bytes
   (gemini-companion-test-path "lisp" gemini-companion-installed-test--module)))

(defun gemini-companion-installed-test--publish (lisp)
  "Write the checksum of the published module into the package in LISP."
  (let ((file (expand-file-name "gemini-companion-checksums.el" lisp)))
    (gemini-companion-test-write
     file (replace-regexp-in-string
           "^  '([^z-a]*?)$"
           (format "  '((%S . %S))" (gemini-companion-native-asset)
                   (secure-hash 'sha256 (gemini-companion-installed-test--published)))
           (gemini-companion-test-read file) t t))))

(defun gemini-companion-installed-test--listing (directory)
  "Return the files below DIRECTORY, with times and sizes."
  (mapcar (lambda (file)
            (let ((attributes (file-attributes file)))
              (list file (file-attribute-size attributes)
                    (file-attribute-modification-time attributes))))
          (directory-files-recursively directory "")))

;;;; Package managers

(defun gemini-companion-installed-test--tar (place)
  "Make a package in the directory PLACE as MELPA does, and return its name.
All Lisp files are at its top, and so are the files that the recipe adds."
  (let* ((name (format "gemini-companion-%s" gemini-companion-native-version))
         (directory (expand-file-name name place)))
    (gemini-companion-installed-test--copy directory)
    (dolist (file (directory-files (expand-file-name "lisp" directory) t "\\.el\\'"))
      (rename-file file (file-name-as-directory directory)))
    (delete-directory (expand-file-name "lisp" directory))
    (gemini-companion-test-write
     (expand-file-name "gemini-companion-pkg.el" directory)
     (format "(define-package \"gemini-companion\" %S \"Companion\" '((emacs \"28.1\")))\n"
             gemini-companion-native-version))
    (let ((default-directory place))
      (should (zerop (call-process "tar" nil nil nil "-cf" (concat name ".tar") name)))
      (delete-directory directory t))
    (concat directory ".tar")))

(defun gemini-companion-installed-test--links (place repository build)
  "Install the package in PLACE as straight and elpaca do; return its directory.
That is BUILD, in which all files but the compiled ones are links to those
in REPOSITORY."
  (let ((repository (expand-file-name repository place))
        (build (expand-file-name build place)))
    (gemini-companion-installed-test--copy repository)
    (make-directory build t)
    (dolist (file (append (directory-files (expand-file-name "lisp" repository) t "\\.el\\'")
                          (mapcar (lambda (name) (expand-file-name name repository))
                                  '("Cargo.toml" "Cargo.lock" "src"))))
      (make-symbolic-link file (file-name-as-directory build)))
    (should (zerop (call-process (gemini-companion-test--program) nil nil nil
                                 "-Q" "--batch" "-L" build "--eval"
                                 (format "(byte-recompile-directory %S 0)" build))))
    build))

(defun gemini-companion-installed-test--git (directory)
  "Make DIRECTORY a Git repository in which all files are committed."
  (let ((default-directory directory))
    (dolist (arguments '(("init" "-q" "-b" "main") ("add" ".")
                         ("-c" "user.name=A" "-c" "user.email=a@example.org"
                          "commit" "-q" "-m" "All")))
      (should (zerop (apply #'call-process "git" nil nil nil arguments))))))

;;;; A user

(defun gemini-companion-installed-test--environment ()
  "Return the environment variables by which Emacs finds git and cargo.
Optimization is off, to save time."
  (append '("CARGO_PROFILE_RELEASE_LTO=off" "CARGO_PROFILE_RELEASE_OPT_LEVEL=0")
          (delq nil (mapcar (lambda (name)
                              (and (getenv name) (concat name "=" (getenv name))))
                            '("PATH" "CARGO_HOME" "RUSTUP_HOME")))))

(defun gemini-companion-installed-test--call (lisp answer function)
  "Call FUNCTION with a new Emacs, and a package that LISP makes.
LISP is called with a new directory, and returns the one to load from, or
\"\" if FUNCTION installs the package.  Modules are downloaded from a server
that answers by ANSWER.  FUNCTION is called with the Emacs and the
directory, in which it must change nothing."
  (let* ((place (gemini-companion-test-temp-directory))
         (lisp (funcall lisp place))
         (server (gemini-companion-test-http-start answer)))
    (unwind-protect
        (gemini-companion-test-with-emacs
            (emacs :mode nil :lisp lisp :files '(("a.txt" . "a\n"))
                   :environment (gemini-companion-installed-test--environment))
          (gemini-companion-test-eval
           emacs `(setq gemini-companion-module-url ,(gemini-companion-test-http-url server)))
          (let ((before (gemini-companion-installed-test--listing place)))
            (funcall function emacs place)
            (should (equal before (gemini-companion-installed-test--listing place)))))
      (delete-process server)
      (delete-directory place t))))

(defmacro gemini-companion-installed-test--with (emacs place lisp &rest body)
  "Evaluate BODY with EMACS, and a package that the form LISP makes in PLACE.
The published module can be downloaded; see
`gemini-companion-installed-test--call'."
  (declare (indent 2) (debug (symbolp symbolp form body)))
  `(gemini-companion-installed-test--call
    (lambda (,place) (ignore ,place) ,lisp)
    (lambda (_) (gemini-companion-test-http-answer
                 "200 OK" (gemini-companion-installed-test--published)))
    (lambda (,emacs ,place) (ignore ,place) ,@body)))

(defun gemini-companion-installed-test--answer (emacs key)
  "Switch the mode on in EMACS, and press KEY when it asks how to get the module."
  (gemini-companion-test-m-x emacs "gemini-companion-mode")
  (gemini-companion-test-wait-screen
   emacs "needs its native module.* (\\[?d\\]?ownload, .*\\[?n\\]?ot now")
  (gemini-companion-test-keys emacs key))

(defun gemini-companion-installed-test--works (emacs)
  "Wait until the mode is on in EMACS, and check that a client can connect.
That is the real one where it can run."
  (gemini-companion-test-wait-eval emacs '(bound-and-true-p gemini-companion-mode) 400)
  (should (equal (gemini-companion-test-eval emacs '(gemini-companion-native-loaded-version))
                 gemini-companion-native-version))
  (gemini-companion-test-visit emacs "a.txt")
  (gemini-companion-test-with-client
      (client (if (gemini-companion-test-why-no-real-client) 'fake 'real) emacs)
    (gemini-companion-test-client-wait-context
     client (lambda (_) (cl-some (lambda (file) (string-suffix-p "a.txt" (alist-get 'path file)))
                                 (gemini-companion-test-client-files client))))))

(defun gemini-companion-installed-test--installed (emacs)
  "Return the names of the files in the module directory of EMACS."
  (gemini-companion-test-eval
   emacs '(and (file-directory-p gemini-companion-module-directory)
               (directory-files gemini-companion-module-directory nil "\\`[^.]"))))

(defun gemini-companion-installed-test--is-installed (emacs)
  "Check that EMACS has installed the module and left nothing else."
  (should (equal (gemini-companion-installed-test--installed emacs)
                 (list (gemini-companion-native-asset)))))

(defun gemini-companion-installed-test--warm-up (emacs)
  "Copy the compiled dependencies of our crate to EMACS, as far as possible.
Otherwise each run would take a minute to build them."
  (when (getenv "COVERAGE_POINTS")
    (ert-skip "With the options of `make coverage' cargo would rebuild everything"))
  (let ((target (gemini-companion-test-path ".cache" "build-test-target"))
        (process-environment (append (gemini-companion-installed-test--environment)
                                     process-environment))
        (default-directory gemini-companion-test-root))
    (with-temp-buffer
      (unless (zerop (call-process "cargo" nil t nil "build" "--release" "--locked" "--lib"
                                   "--target-dir" target))
        (error "The module cannot be built: %s" (buffer-string))))
    (let ((directory (gemini-companion-test-eval
                      emacs '(expand-file-name (locate-user-emacs-file "gemini-companion/")))))
      (make-directory directory t)
      (should (zerop (call-process "cp" nil nil nil "-a" target
                                   (expand-file-name "build" directory))))
      ;; But not our own crate, which is built in the test.
      (dolist (file (file-expand-wildcards
                     (expand-file-name "build/release/.fingerprint/gemini-companion-*" directory)))
        (delete-directory file t)))))

;;;; Forms of installation

(ert-deftest gemini-companion-installed/a-package-of-melpa-is-built ()
  "Its sources are beside its Lisp files."
  ;; Building takes long, and differs between no two Emacsen.
  :tags '(any-emacs)
  (gemini-companion-installed-test--with emacs place
    (progn (gemini-companion-installed-test--tar place) "")
    (gemini-companion-test-eval
     emacs `(progn (require 'package)
                   (package-initialize)
                   (package-install-file ,(car (file-expand-wildcards
                                                (expand-file-name "*.tar" place))))
                   nil)
     60)
    (should-not (gemini-companion-test-eval emacs '(featurep 'gemini-companion)))
    (gemini-companion-installed-test--warm-up emacs)
    (let* ((elpa (gemini-companion-test-eval emacs '(expand-file-name package-user-dir)))
           (before (gemini-companion-installed-test--listing elpa)))
      (gemini-companion-installed-test--answer emacs "b")
      (gemini-companion-test-wait-screen emacs "cargo build --release --locked")
      (should-not (gemini-companion-test-eval emacs 'gemini-companion-mode))
      (gemini-companion-installed-test--works emacs)
      (gemini-companion-installed-test--is-installed emacs)
      (should (equal before (gemini-companion-installed-test--listing elpa))))))

(ert-deftest gemini-companion-installed/a-checkout-with-a-stale-module ()
  "It is not loaded, nor is it replaced: the right one is where downloads are."
  :tags '(any-emacs)
  (gemini-companion-installed-test--with emacs place
    (let ((lisp (gemini-companion-installed-test--checkout place)))
      (gemini-companion-test-write (expand-file-name gemini-companion-installed-test--module lisp)
                                   "gemini-companion-module:version=0.0.9:end")
      lisp)
    (gemini-companion-installed-test--answer emacs "d")
    (gemini-companion-installed-test--works emacs)
    (gemini-companion-installed-test--is-installed emacs)))

(ert-deftest gemini-companion-installed/links-of-straight-and-elpaca ()
  "The module is downloaded; the next Emacs loads it without asking."
  (pcase-dolist (`(,repository ,build)
                 '(("straight/repos/gemini-companion" "straight/build/gemini-companion")
                   ("elpaca/sources/gemini-companion" "elpaca/builds/gemini-companion")))
    (gemini-companion-installed-test--with emacs place
      (gemini-companion-installed-test--links place repository build)
      (gemini-companion-installed-test--answer emacs "d")
      (gemini-companion-installed-test--works emacs)
      (gemini-companion-installed-test--is-installed emacs)
      (should (equal (gemini-companion-test-eval emacs 'gemini-companion-native-directory)
                     (file-name-as-directory
                      (expand-file-name (concat repository "/lisp") place))))
      (let ((directory (gemini-companion-test-emacs-directory emacs)))
        (gemini-companion-test-stop emacs t)
        (gemini-companion-test-with-emacs
            (next :mode nil :directory directory :lisp (expand-file-name build place))
          (gemini-companion-test-mode-on next)
          (gemini-companion-installed-test--works next))))))

(defun gemini-companion-installed-test--readme-form (repository)
  "Return the form for init files in the README, with REPOSITORY."
  (with-temp-buffer
    (insert-file-contents (gemini-companion-test-path "README.md"))
    (search-forward "(use-package gemini-companion\n")
    (goto-char (match-beginning 0))
    (let* ((form (read (current-buffer)))
           (source (plist-get (cddr form) :vc)))
      (setf (plist-get source :url) repository
            (plist-get source :branch) "main")
      form)))

(ert-deftest gemini-companion-installed/use-package-vc ()
  "As in the README, from a repository, in Emacsen that support it."
  (gemini-companion-installed-test--with emacs place
    (let ((repository (expand-file-name "repository" place)))
      (gemini-companion-installed-test--copy repository)
      (dolist (name '("scripts" "test/support"))
        (copy-directory (gemini-companion-test-path name)
                        (expand-file-name name repository) nil t))
      (copy-file (gemini-companion-test-path ".elpaignore") (file-name-as-directory repository))
      (gemini-companion-installed-test--git repository)
      "")
    (when (gemini-companion-test-eval emacs '(version< emacs-version "30"))
      (ert-skip "This Emacs has no use-package with :vc"))
    (gemini-companion-test-eval
     emacs `(progn (package-initialize)
                   ,(gemini-companion-installed-test--readme-form
                     (expand-file-name "repository" place))
                   nil)
     120)
    ;; Tests and scripts are not compiled, which takes long and ends in errors.
    (should-not (gemini-companion-test-eval emacs '(get-buffer-window "*Compile-Log*")))
    (should-not (gemini-companion-test-eval
                 emacs '(seq-filter (lambda (file)
                                      (string-match-p "/\\(?:scripts\\|test\\)/" file))
                                    (directory-files-recursively package-user-dir
                                                                 "\\.elc\\'"))))
    (gemini-companion-installed-test--answer emacs "d")
    (gemini-companion-installed-test--works emacs)
    (gemini-companion-installed-test--is-installed emacs)))

(ert-deftest gemini-companion-installed/a-new-version-in-a-running-emacs ()
  "The module of the old version is loaded; the new one replaces it."
  (gemini-companion-installed-test--with emacs place
    (let ((lisp (gemini-companion-installed-test--checkout place))
          (coding-system-for-write 'no-conversion))
      (write-region (string-replace (concat ":version=" gemini-companion-native-version)
                                    ":version=0.0.9"
                                    (gemini-companion-installed-test--published))
                    nil (expand-file-name gemini-companion-installed-test--module lisp) nil 0)
      lisp)
    (gemini-companion-test-eval emacs '(setq gemini-companion-native-version "0.0.9"))
    (gemini-companion-test-mode-on emacs)
    (should (equal (gemini-companion-test-eval emacs '(gemini-companion-native-loaded-version))
                   "0.0.9"))
    (gemini-companion-test-eval
     emacs `(setq gemini-companion-native-version ,gemini-companion-native-version))
    (gemini-companion-test-m-x emacs "gemini-companion-mode" '(not gemini-companion-mode))
    (gemini-companion-installed-test--answer emacs "d")
    (gemini-companion-installed-test--works emacs)))

;;;; Questions

(ert-deftest gemini-companion-installed/after-not-now-it-does-not-ask-again ()
  "Nor does it ask when an init file switches the mode on."
  (gemini-companion-installed-test--with emacs place
    (gemini-companion-installed-test--checkout place)
    (gemini-companion-test-eval emacs '(progn (gemini-companion-mode 1) nil))
    (gemini-companion-test-wait-screen emacs "\\*Warnings\\*")
    (should (gemini-companion-test-eval
             emacs '(with-current-buffer "*Warnings*"
                      (string-search "M-x gemini-companion-install-module installs it"
                                     (buffer-string)))))
    (gemini-companion-installed-test--answer emacs "n")
    (gemini-companion-test-wait-screen emacs "stays off without its native module")
    (gemini-companion-test-m-x emacs "gemini-companion-mode" "stays off without its native module")
    (should-not (gemini-companion-test-eval emacs 'gemini-companion-mode))
    (should-not (gemini-companion-installed-test--installed emacs))
    ;; Once the module is there, the mode that was wanted is switched on.
    (gemini-companion-test-m-x emacs "gemini-companion-install-module" "needs its native module")
    (gemini-companion-test-keys emacs "d")
    (gemini-companion-installed-test--works emacs)))

;; The manual says that Emacs asks the first time that a command turns the mode on.
(ert-deftest gemini-companion-installed/each-command-that-turns-the-mode-on-asks ()
  (gemini-companion-installed-test--with emacs place
    (gemini-companion-installed-test--checkout place)
    (gemini-companion-test-m-x emacs "gemini-companion-menu" "turn on")
    (gemini-companion-test-press emacs "M" "needs its native module")
    (gemini-companion-test-press emacs "n" "stays off without its native module")
    ;; Who has declined is told how to turn it on, not to wait.
    (gemini-companion-test-eval emacs '(setq gemini-companion-program "cat"
                                             gemini-companion-terminal 'term))
    (gemini-companion-test-m-x emacs "gemini-companion-run" "is off; M-x gemini-companion-mode")
    (gemini-companion-test-eval emacs '(setq gemini-companion-install--declined nil))
    (gemini-companion-test-m-x emacs "gemini-companion-run" "needs its native module")
    (gemini-companion-test-keys emacs "d")
    ;; Once the module is there, the CLI runs.
    (gemini-companion-test-wait-screen emacs "\\*gemini: project\\*")))

(ert-deftest gemini-companion-installed/a-download-is-shown-and-can-be-quit ()
  (gemini-companion-installed-test--call
   #'gemini-companion-installed-test--checkout
   #'ignore
   (lambda (emacs _place)
     (gemini-companion-installed-test--answer emacs "d")
     (gemini-companion-test-wait-screen emacs "Contacting host")
     (gemini-companion-test-press emacs "C-g" "Stopped installing the native module")
     (should-not (gemini-companion-installed-test--installed emacs))
     (should-not (gemini-companion-test-eval emacs 'gemini-companion-mode)))))

(ert-deftest gemini-companion-installed/a-failed-download-is-reported ()
  (gemini-companion-installed-test--call
   #'gemini-companion-installed-test--checkout
   (lambda (_) (gemini-companion-test-http-answer "404 Not Found" "no"))
   (lambda (emacs _place)
     (gemini-companion-installed-test--answer emacs "d")
     (gemini-companion-test-wait-screen emacs "404, Not found")
     (gemini-companion-test-wait-screen emacs "M-x gemini-companion-install-from-file")
     (should-not (gemini-companion-installed-test--installed emacs))
     (should-not (gemini-companion-test-eval emacs 'gemini-companion-mode)))))

;;; install-test.el ends here

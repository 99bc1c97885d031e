;;; build-test.el --- The native module is built when it is missing  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-emacs)

(defun gemini-companion-build-test--checkout (directory)
  "Make DIRECTORY a checkout without the native module.
Cargo builds below .cache, so that only the first test ever has to build
the crates that ours depends on."
  (let ((target (gemini-companion-test-path ".cache" "build-test-target")))
    (make-directory (expand-file-name "lisp" directory) t)
    (make-directory target t)
    (make-symbolic-link target (expand-file-name "target" directory)))
  (dolist (file (directory-files (gemini-companion-test-path "lisp") t "\\.el\\'"))
    (copy-file file (expand-file-name "lisp/" directory)))
  (copy-directory (gemini-companion-test-path "src") (expand-file-name "src" directory))
  (dolist (name '("Cargo.toml" "Cargo.lock"))
    (copy-file (gemini-companion-test-path name) (file-name-as-directory directory))))

(ert-deftest gemini-companion-build/a-module-that-is-stale-is-built-in-sight ()
  "With the module of another version, the mode builds its own and is on then."
  :tags '(e2e)
  (let* ((place (gemini-companion-test-temp-directory))
         (checkout (expand-file-name "checkout" place))
         (lisp (expand-file-name "lisp" checkout)))
    (unwind-protect
        (progn
          (gemini-companion-build-test--checkout checkout)
          (gemini-companion-test-write
           (expand-file-name (concat "gemini-companion-module" module-file-suffix) lisp)
           "gemini-companion-module:version=0.0.9:end")
          (gemini-companion-test-with-emacs
              (emacs :mode nil :lisp lisp
                     :environment (gemini-companion-build-test--environment))
            (gemini-companion-test-m-x emacs "gemini-companion-mode")
            (gemini-companion-test-wait-screen emacs "cargo build --release --locked")
            (should-not (gemini-companion-test-eval emacs 'gemini-companion-mode))
            (gemini-companion-test-wait-eval emacs 'gemini-companion-mode 400)
            (should (equal (gemini-companion-test-eval
                            emacs '(gemini-companion-native-file-version
                                    (gemini-companion-native-file)))
                           (gemini-companion-test-eval
                            emacs 'gemini-companion-native-version)))
            (should (= (length (gemini-companion-test-discovery-files emacs)) 1))))
      (delete-directory place t))))

(defun gemini-companion-build-test--environment ()
  "Return the environment variables by which Emacs finds cargo.
What is tested is not the optimiser, so that is off."
  (append '("CARGO_PROFILE_RELEASE_LTO=off" "CARGO_PROFILE_RELEASE_OPT_LEVEL=0")
          (delq nil (mapcar (lambda (name)
                              (and (getenv name) (concat name "=" (getenv name))))
                            '("PATH" "CARGO_HOME" "RUSTUP_HOME")))))

;;; build-test.el ends here

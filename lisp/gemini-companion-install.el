;;; gemini-companion-install.el --- Get the native module -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Downloads the native module, or builds it with cargo, into a directory of its own, under a name
;; that contains its version and platform.  This happens only after a command of the user, or as
;; `gemini-companion-install-policy' says; never when a file is loaded, and never in batch mode.
;;
;; Emacs uses a download only if its SHA-256 is the one that this package was published with, so
;; that neither the server nor the connection to it need be trusted.  A file gets its final name
;; only when it is complete, so that nobody can load half a module.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'compile)
(require 'url)
(require 'url-http)
(require 'gemini-companion-checksums)
(require 'gemini-companion-file)
(require 'gemini-companion-log)
(require 'gemini-companion-native)
(require 'gemini-companion-ui)

;;;###autoload (custom-add-load 'gemini-companion-server 'gemini-companion-install)
(defcustom gemini-companion-install-policy 'ask
  "How to get the native module if it is missing.
If `ask', Emacs asks once, when you turn the mode on with a command.  If
`download' or `build', Emacs does that without asking, even if your init
file turns the mode on.  If nil, Emacs only warns you.  In batch mode, it
never installs anything."
  :group 'gemini-companion-server
  :type '(choice (const :tag "Ask" ask)
                 (const :tag "Download it" download)
                 (const :tag "Build it with cargo" build)
                 (const :tag "Nothing" nil))
  :risky t)

(defcustom gemini-companion-module-url
  "https://github.com/gemini-companion/gemini-companion/releases/download/"
  "URL of the directories with the published modules, with a final slash.
Their names are \"module-v\" and a version of the package.  You need not
trust a mirror: Emacs checks downloads against the SHA-256 in this package.
The URL must use https, unless it is on this machine."
  :group 'gemini-companion-server
  :type 'string
  :risky t)

(defvar gemini-companion-install--patience 300
  "Seconds after which a download has failed.")

(defconst gemini-companion-install--build-buffer "*gemini build*"
  "Name of the buffer in which cargo builds the module.")

(defvar gemini-companion-install--continue #'ignore
  "Function to call, without arguments, when the module is loaded.")

(defvar gemini-companion-install--declined nil
  "The version of the module that the user declined to install, or nil.")

;;;; Commands

;;;###autoload
(defun gemini-companion-install-instead (continue ask)
  "Get the native module, and call CONTINUE when it is loaded.
If ASK is non-nil, ask the user how to get it, unless the user has
declined.  Signal a `user-error' if there is no way."
  (setq gemini-companion-install--continue continue)
  (gemini-companion-install--start
   (cond ((memq gemini-companion-install-policy '(nil download build))
          gemini-companion-install-policy)
         ((not ask) nil)
         ((equal gemini-companion-install--declined gemini-companion-native-version) 'later)
         (t 'ask))))

;;;###autoload
(defun gemini-companion-install-module (&optional again)
  "Install the native module of gemini-companion: download or build it.
Ask which, unless `gemini-companion-install-policy' says so.  With a prefix
argument AGAIN, always ask, and install the module even if there is one
already."
  (interactive "P")
  (gemini-companion-native-check)
  (cond ((gemini-companion-native-named-file)
         (user-error "`gemini-companion-module-file' or GEMINI_COMPANION_MODULE names the module \
%s; unset it to install another one" (gemini-companion-native-named-file)))
        ((and (not again) (ignore-errors (gemini-companion-native-load)))
         (gemini-companion-install--ready))
        (t (gemini-companion-install--start (or (and (not again) gemini-companion-install-policy)
                                                'ask)))))

;;;###autoload
(defun gemini-companion-install-from-file (file)
  "Install the native module from the downloaded FILE.
FILE must be the published module of this version.  To use one that you
built yourself, set `gemini-companion-module-file'."
  (interactive "fFile of the native module: ")
  (gemini-companion-native-check)
  (gemini-companion-install--check-published)
  (gemini-companion-install--put-published (gemini-companion-file-read-as-named file) file))

;;;; Which way

(defun gemini-companion-install--start (way)
  "Get the module by WAY: `ask', `download', `build', `later' or nil."
  (pcase way
    ((guard noninteractive) (gemini-companion-install--signal-missing))
    ((guard (get-buffer-process gemini-companion-install--build-buffer))
     (message "The native module of gemini-companion is being built in %s"
              gemini-companion-install--build-buffer))
    ('ask (gemini-companion-install--start (gemini-companion-install--ask)))
    ('download (gemini-companion-install--download))
    ('build (gemini-companion-install--build))
    ('later (message (if (gemini-companion-native-current-p) "Nothing was installed"
                       "Gemini companion stays off without its native module: \
M-x gemini-companion-install-module gets it")))
    (_ (gemini-companion-install--signal-missing))))

(defun gemini-companion-install--ask ()
  "Ask the user how to get the module: `download', `build' or `later'."
  (let ((choices
         (delq nil
               (list (and (gemini-companion-install--checksum)
                          (list ?d "download" (gemini-companion-install--url)))
                     (and (gemini-companion-install--manifest)
                          (list ?b "build" "with cargo, from the sources in this package"))
                     '(?n "not now" "install nothing")))))
    (unless (cdr choices)
      (gemini-companion-install--check-published))
    (pcase (car (read-multiple-choice
                 (format "Gemini companion needs its native module, %s for %s"
                         gemini-companion-native-version (gemini-companion-native-platform))
                 choices))
      (?d 'download)
      (?b 'build)
      (_ (setq gemini-companion-install--declined gemini-companion-native-version)
         'later))))

(defun gemini-companion-install--signal-missing ()
  "Signal that there is no module, and say what to do."
  (gemini-companion-native-signal
   "no native module: %s; %s" (gemini-companion-native-describe-missing)
   (if noninteractive
       "nothing is installed in batch mode; type M-x gemini-companion-install-module in an \
interactive Emacs, run `make build' in a checkout, or set GEMINI_COMPANION_MODULE to a file"
     "M-x gemini-companion-install-module installs it")))

(defun gemini-companion-install--check-published ()
  "Signal an error if there is nothing to download, and say what to do."
  (unless (gemini-companion-install--checksum)
    (gemini-companion-native-signal
     "version %s of the module is not published for %s%s: see the manual for how to build it \
from a checkout"
     gemini-companion-native-version (gemini-companion-native-platform)
     (if (gemini-companion-install--manifest) ""
       ", and its sources (Cargo.toml) are not beside this package"))))

;;;; Download

(defun gemini-companion-install--checksum ()
  "Return the SHA-256 of the module that is published for this Emacs, or nil."
  (cdr (assoc (gemini-companion-native-asset) gemini-companion-checksums)))

(defun gemini-companion-install--url ()
  "Return the URL of the module that is published for this Emacs."
  (format "%smodule-v%s/%s" gemini-companion-module-url gemini-companion-native-version
          (gemini-companion-native-asset)))

(defun gemini-companion-install--download ()
  "Download the module, check it and install it; the user can quit."
  (let ((url (gemini-companion-install--url)))
    (gemini-companion-install--check-published)
    (unless (string-match-p "\\`\\(?:https://\\|http://\\(?:127\\.0\\.0\\.1\\|localhost\\)[:/]\\)"
                            url)
      (gemini-companion-native-signal
       "%s is not an https address: correct `gemini-companion-module-url'" url))
    (gemini-companion-log-add "downloading %s" url)
    (condition-case problem
        (gemini-companion-install--put-published (gemini-companion-install--fetch url)
                                                 "what was downloaded")
      (quit (message "Stopped installing the native module of gemini-companion"))
      (error (gemini-companion-install--fail (gemini-companion-ui-error-text problem))))))

(defun gemini-companion-install--fetch (url)
  "Return the contents of URL; Emacs shows the progress meanwhile."
  (let* (;; No questions about passwords or certificates; no compression.
         (url-request-noninteractive t)
         (url-mime-encoding-string nil)
         ;; Otherwise, quitting while Emacs looks up the name of the server may block Emacs.
         (url-asynchronous nil)
         (answer nil)
         (buffer (condition-case error
                     (url-retrieve url
                                   (lambda (status) (setq answer (list status (current-buffer))))
                                   nil nil 'inhibit-cookies)
                   (error (gemini-companion-native-signal "cannot reach the server (%s)"
                                                          (error-message-string error))))))
    (unwind-protect
        (with-timeout (gemini-companion-install--patience
                       (gemini-companion-native-signal "the download took too long"))
          (while (not answer)
            (accept-process-output nil 0.1))
          (with-current-buffer (setq buffer (cadr answer))
            (buffer-substring-no-properties
             (gemini-companion-install--check-answer (car answer)) (point-max))))
      (gemini-companion-install--drop buffer))))

(defun gemini-companion-install--drop (buffer)
  "Kill BUFFER, in which url.el downloads, and those of its redirections."
  (when (buffer-live-p buffer)
    (gemini-companion-install--drop (buffer-local-value 'url-redirect-buffer buffer))
    (when-let* ((connection (get-buffer-process buffer)))
      ;; The sentinel of url.el would connect again.
      (set-process-sentinel connection #'ignore)
      (delete-process connection))
    (gemini-companion-ui-kill-buffer buffer)))

(defun gemini-companion-install--check-answer (status)
  "Return where the file begins in the current buffer, a server's response.
Signal an error if STATUS, of `url-retrieve', or the response has one.
The checksum tells later whether the file is complete."
  (let ((code (bound-and-true-p url-http-response-status))
        (failure (plist-get status :error)))
    (goto-char (point-min))
    (cond ((and (numberp code) (>= code 400))
           (gemini-companion-native-signal
            "the server answered %d, %s" code
            (or (nth 2 (assq code url-http-codes)) "which is an error")))
          (failure (gemini-companion-native-signal
                    "cannot reach the server (%s)" (mapconcat #'prin1-to-string (cdr failure) " ")))
          ((and (eql code 200) (re-search-forward "\n\r?\n" nil t)))
          (t (gemini-companion-native-signal "the server gave no answer")))))

;;;; Build

(defun gemini-companion-install--build ()
  "Build the module with cargo in a visible buffer, and install it."
  (let* ((manifest (gemini-companion-install--check-tools))
         ;; The directory of the sources may be read-only, or belong to a package manager.
         (default-directory (gemini-companion-install--make-directory))
         (target (expand-file-name "build"))
         (process-environment (append '("CARGO_TERM_COLOR=never" "CARGO_TERM_PROGRESS_WHEN=never")
                                      process-environment)))
    (message "Building the native module of gemini-companion, which takes a minute")
    (with-current-buffer
        (compilation-start
         (format "cargo build --release --locked --lib --manifest-path %s --target-dir %s"
                 (shell-quote-argument manifest) (shell-quote-argument target))
         nil (lambda (_mode) gemini-companion-install--build-buffer))
      (add-hook 'compilation-finish-functions
                (lambda (_buffer status)
                  (gemini-companion-install--built manifest target status))
                nil t))))

(defun gemini-companion-install--check-tools ()
  "Return the name of the module's Cargo.toml.
Signal an error if something is missing to build the module."
  (let ((manifest (or (gemini-companion-install--manifest)
                      (gemini-companion-native-signal
                       "its sources (Cargo.toml) are not beside this package"))))
    (unless (executable-find "cargo")
      (gemini-companion-native-signal
       "cargo is not on `exec-path', so the module cannot be built: install Rust %s or newer, with \
your system's package manager or as https://rustup.rs says"
       (gemini-companion-install--field manifest "rust-version" "[0-9.]+")))
    manifest))

(defun gemini-companion-install--manifest ()
  "Return the name of the module's Cargo.toml, or nil.
It is beside this file in a package, and above that in a checkout."
  (cl-loop for name in '("Cargo.toml" "../Cargo.toml")
           for file = (expand-file-name name gemini-companion-native-directory)
           if (gemini-companion-install--field file "name" "gemini-companion-module")
           return file))

(defun gemini-companion-install--field (manifest name value)
  "Return the value of NAME in MANIFEST, a file, if it matches the regexp VALUE."
  (when (file-readable-p manifest)
    (with-temp-buffer
      (insert-file-contents manifest)
      (and (re-search-forward (format "^%s = \"\\(%s\\)\"" name value) nil t)
           (match-string 1)))))

(defun gemini-companion-install--built (manifest target status)
  "Install the module that was built from MANIFEST in TARGET, with STATUS."
  (condition-case problem
      (if (string-prefix-p "finished" status)
          (let ((bytes (gemini-companion-file-read-as-named
                        (gemini-companion-install--built-file target))))
            (delete-directory target t)
            (gemini-companion-install--put bytes))
        (gemini-companion-native-signal
         "the build failed (%s), and its buffer says why; Rust %s or newer is needed"
         (string-trim status)
         (gemini-companion-install--field manifest "rust-version" "[0-9.]+")))
    (error (gemini-companion-install--fail (gemini-companion-ui-error-text problem)))))

(defun gemini-companion-install--built-file (target)
  "Return the file of the module that cargo built in the directory TARGET.
It is in a subdirectory if cargo is configured for a platform."
  (let ((name (pcase system-type
                ('windows-nt "gemini_companion_module.dll")
                ('darwin "libgemini_companion_module.dylib")
                (_ "libgemini_companion_module.so"))))
    (or (cl-loop for pattern in '("release/" "*/release/")
                 thereis (car (file-expand-wildcards
                               (expand-file-name (concat pattern name) target))))
        (gemini-companion-native-signal "cargo built no %s in %s" name target))))

;;;; Putting the module in place

(defun gemini-companion-install--put-published (bytes what)
  "Install BYTES if they are the published module; error messages call them WHAT."
  (let ((found (secure-hash 'sha256 bytes))
        (checksum (gemini-companion-install--checksum)))
    (unless (equal found checksum)
      (gemini-companion-native-signal
       "%s is not the published file: its SHA-256 is %s, and must be %s" what found checksum))
    (gemini-companion-install--put bytes)))

(defun gemini-companion-install--make-directory ()
  "Return the directory for modules; make it, private, if necessary."
  (with-file-modes #o700
    (make-directory gemini-companion-module-directory t))
  (file-name-as-directory (expand-file-name gemini-companion-module-directory)))

(defun gemini-companion-install--put (bytes)
  "Install the module that consists of BYTES, load it, and continue.
It is always a new file: if Emacs dies before it is complete, it leaves no
incomplete module, and an Emacs that has loaded the old one keeps it."
  (gemini-companion-install--make-directory)
  (gemini-companion-file-replace (gemini-companion-native-installed-file) bytes #o755)
  (gemini-companion-log-add "installed %s" (gemini-companion-native-installed-file))
  (gemini-companion-install--delete-others)
  (gemini-companion-native-load)
  (gemini-companion-install--ready))

(defun gemini-companion-install--ready ()
  "Say that the module is loaded, and call the function that waits for it."
  (message "The native module of gemini-companion is ready, version %s"
           gemini-companion-native-version)
  (funcall (prog1 gemini-companion-install--continue
             (setq gemini-companion-install--continue #'ignore))))

(defun gemini-companion-install--delete-others ()
  "Delete modules of other versions, and files of failed installations.
On Windows, modules that an Emacs has loaded cannot be deleted."
  (dolist (file (directory-files gemini-companion-module-directory t
                                 "\\`gemini-companion-module-[0-9]"))
    (unless (string-match-p (format "-%s-.*%s\\'"
                                    (regexp-quote gemini-companion-native-version)
                                    (regexp-quote module-file-suffix))
                            file)
      (ignore-errors (delete-file file)))))

(defun gemini-companion-install--fail (reason)
  "Warn the user that the module is not installed, for REASON; say what else to do."
  (gemini-companion-log-add "not installed: %s" reason)
  (message "The native module of gemini-companion is not installed")
  (display-warning
   'gemini-companion
   (format "The native module is not installed: %s.
To try again, or in another way:  M-x gemini-companion-install-module%s"
           reason
           (if (not (gemini-companion-install--checksum)) ""
             (format "
To install it by hand:  M-x gemini-companion-install-from-file  with
  %s
  (SHA-256 %s)"
                     (gemini-companion-install--url) (gemini-companion-install--checksum))))
   :error))

(provide 'gemini-companion-install)
;;; gemini-companion-install.el ends here

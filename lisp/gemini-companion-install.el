;;; gemini-companion-install.el --- Get the native module -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The native module is downloaded, or built with cargo, into a directory of its own, under a name
;; that contains its version and platform.  This happens only after a command of the user, or as
;; `gemini-companion-install-policy' says; never when a file is loaded, and never in batch mode.
;;
;; A download is used only if its SHA-256 is the one that this package was published with, so that
;; neither the server nor the connection to it need be trusted.  A file gets its final name only
;; when it is complete, so that nobody can load half a module.

;;; Code:

(require 'cl-lib)
(require 'compile)
(require 'subr-x)
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
If `ask', you are asked once, when you switch the mode on by a command.
If `download' or `build', that is done without a question, even when your
init file switches the mode on.  If nil, a warning says that the module is
missing.  In batch mode nothing is installed."
  :group 'gemini-companion-server
  :type '(choice (const :tag "Ask" ask)
                 (const :tag "Download it" download)
                 (const :tag "Build it with cargo" build)
                 (const :tag "Nothing" nil))
  :risky t
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-module-url
  "https://github.com/gemini-companion/gemini-companion/releases/download/"
  "The URL of the directory of published modules, with a slash at its end.
A mirror need not be trusted: downloads are checked against the SHA-256
that is part of this package.  The URL must use https, unless it is on
this machine."
  :group 'gemini-companion-server
  :type 'string
  :risky t
  :package-version '(gemini-companion . "0.1.0"))

(defconst gemini-companion-install--max-size (* 32 1024 1024)
  "Size in bytes beyond which a download cannot be a module.")

(defconst gemini-companion-install--patience 30
  "Seconds without a new byte after which a download has failed.")

(cl-defstruct (gemini-companion-install--job
               (:constructor gemini-companion-install--make-job)
               (:copier nil))
  "A download or build."
  (buffer nil :documentation "Its buffer.")
  (timer nil :documentation "The timer that watches a download.")
  (size 0 :documentation "The number of bytes that have arrived.")
  (since (float-time) :documentation "When the last of them arrived."))

(defvar gemini-companion-install--job nil
  "The download or build in progress, or nil.")

(defvar gemini-companion-install--continue #'ignore
  "Function to call, without arguments, when the module is loaded.")

(defvar gemini-companion-install--declined nil
  "The version of the module that the user declined to install, or nil.")

;;;; Commands

(defmacro gemini-companion-install--as-command (&rest body)
  "Evaluate BODY; signal a problem with the module as a `user-error'."
  (declare (indent 0) (debug t))
  `(condition-case error
       (progn ,@body)
     (gemini-companion-native-missing
      (user-error "Native module of gemini-companion: %s" (gemini-companion-ui-error-text error)))))

;;;###autoload
(defun gemini-companion-install-instead (continue ask)
  "Get the native module in the background; call CONTINUE when it is loaded.
If ASK is non-nil, ask the user how to get it, unless the user has
declined.  Signal `gemini-companion-native-missing' if nothing can be
done."
  (setq gemini-companion-install--continue continue)
  (cond (noninteractive (gemini-companion-install--signal-missing))
        (gemini-companion-install--job (gemini-companion-install--report-job))
        (t (gemini-companion-install--start (gemini-companion-install--way ask)))))

;;;###autoload
(defun gemini-companion-install-module (&optional again)
  "Install the native module of gemini-companion: download it or build it.
You are asked which, unless `gemini-companion-install-policy' says so.
With a prefix argument AGAIN, you are asked in any case, and the module is
installed even if there is one already."
  (interactive "P")
  (gemini-companion-install--as-command
    (cond (noninteractive (gemini-companion-install--signal-missing))
          ((gemini-companion-native-named-file)
           (user-error "The module is %s: `gemini-companion-module-file' or \
GEMINI_COMPANION_MODULE says so" (gemini-companion-native-named-file)))
          (gemini-companion-install--job (gemini-companion-install--report-job))
          ((and (not again) (ignore-errors (gemini-companion-native-load)))
           (gemini-companion-install--ready))
          (t (gemini-companion-install--start
              (or (and (not again) (gemini-companion-install--policy))
                  (gemini-companion-install--ask)))))))

;;;###autoload
(defun gemini-companion-install-from-file (file)
  "Install the native module from FILE, which you have downloaded.
FILE must be the published module of this version.  To use one that you
have built yourself, set `gemini-companion-module-file'."
  (interactive "fFile of the native module: ")
  (gemini-companion-install--as-command
    (let ((checksum (or (gemini-companion-install--checksum)
                        (gemini-companion-install--signal-unpublished))))
      (with-temp-buffer
        (set-buffer-multibyte nil)
        (insert-file-contents-literally file)
        (gemini-companion-install--check-sum (point-min) checksum file)
        (gemini-companion-install--write (point-min))))
    (gemini-companion-install--installed)))

;;;###autoload
(defun gemini-companion-install-cancel ()
  "Stop the download or the build of the native module."
  (interactive)
  (unless gemini-companion-install--job
    (user-error "The native module of gemini-companion is not being installed"))
  (gemini-companion-install--end)
  (message "The native module of gemini-companion is not installed: you stopped that"))

;;;; Which way

(defun gemini-companion-install--way (ask)
  "Return how to get the module: `download', `build', `later' or nil.
Ask the user if ASK is non-nil, unless the user has declined."
  (cond ((gemini-companion-install--policy))
        ((not (and ask gemini-companion-install-policy)) nil)
        ((equal gemini-companion-install--declined gemini-companion-native-version) 'later)
        (t (gemini-companion-install--ask))))

(defun gemini-companion-install--policy ()
  "Return what to do without a question, `download' or `build', or nil."
  (car (memq gemini-companion-install-policy '(download build))))

(defun gemini-companion-install--ask ()
  "Ask the user how to get the module: `download', `build' or `later'."
  (let ((choices
         (delq nil
               (list (and (gemini-companion-install--checksum)
                          (list ?d "download" (gemini-companion-install--url)))
                     (and (gemini-companion-install--manifest)
                          (list ?b "build" "with cargo, from the sources in this package"))
                     '(?n "not now" "leave the mode off")))))
    (unless (cdr choices)
      (gemini-companion-install--signal-unpublished))
    (pcase (car (read-multiple-choice
                 (format "Gemini companion needs its native module, %s for %s"
                         gemini-companion-native-version (gemini-companion-native-platform))
                 choices))
      (?d 'download)
      (?b 'build)
      (_ (setq gemini-companion-install--declined gemini-companion-native-version)
         'later))))

(defun gemini-companion-install--start (way)
  "Get the module by WAY, as `gemini-companion-install--way' returns it."
  (pcase way
    ('download (gemini-companion-install--download))
    ('build (gemini-companion-install--build))
    ('later (message "Gemini companion stays off without its native module: \
M-x gemini-companion-install-module gets it"))
    (_ (gemini-companion-install--signal-missing))))

(defun gemini-companion-install--report-job ()
  "Show a message that the module is being installed."
  (message "The native module of gemini-companion is being installed; \
M-x gemini-companion-install-cancel stops that"))

(defun gemini-companion-install--signal-missing ()
  "Signal that there is no module, and say what to do."
  (gemini-companion-native-signal
   "%s: %s" (gemini-companion-native-describe-missing)
   (if noninteractive
       "nothing is installed in batch mode; M-x gemini-companion-install-module does it in an \
interactive Emacs, `make build' in a checkout, and GEMINI_COMPANION_MODULE names a file"
     "M-x gemini-companion-install-module installs it")))

(defun gemini-companion-install--signal-unpublished ()
  "Signal that there is nothing to download, and say what to do."
  (gemini-companion-native-signal
   "version %s is not published for %s%s: see the manual for how to build it from a checkout"
   gemini-companion-native-version (gemini-companion-native-platform)
   (if (gemini-companion-install--manifest) ""
     ", and its sources (Cargo.toml) are not beside this package")))

;;;; Download

(defun gemini-companion-install--checksum ()
  "Return the SHA-256 of the module that is published for this Emacs, or nil."
  (cdr (assoc (gemini-companion-native-asset) gemini-companion-checksums)))

(defun gemini-companion-install--url ()
  "Return the URL of the module that is published for this Emacs."
  (format "%smodule-v%s/%s" gemini-companion-module-url gemini-companion-native-version
          (gemini-companion-native-asset)))

(defun gemini-companion-install--download ()
  "Download the module in the background, then check and install it."
  (let ((url (gemini-companion-install--url))
        (checksum (or (gemini-companion-install--checksum)
                      (gemini-companion-install--signal-unpublished))))
    (gemini-companion-install--check-url url)
    (gemini-companion-log-add "downloading %s" url)
    (condition-case error
        (let ((url-request-method "GET")
              (url-request-data nil)
              (url-request-extra-headers nil)
              ;; No questions about passwords or certificates; no compression.
              (url-request-noninteractive t)
              (url-mime-encoding-string nil))
          (setq gemini-companion-install--job (gemini-companion-install--make-job))
          (setf (gemini-companion-install--job-buffer gemini-companion-install--job)
                (url-retrieve url #'gemini-companion-install--answered
                              (list gemini-companion-install--job checksum) t t))
          (gemini-companion-install--start-watching))
      (error (gemini-companion-install--fail "the server cannot be reached (%s)"
                                             (error-message-string error))))))

(defun gemini-companion-install--check-url (url)
  "Signal an error if URL must not be used."
  (unless (string-match-p "\\`\\(?:https://\\|http://\\(?:127\\.0\\.0\\.1\\|localhost\\)[:/]\\)" url)
    (gemini-companion-native-signal
     "%s is not an https address: correct `gemini-companion-module-url'" url)))

(defun gemini-companion-install--start-watching ()
  "Show the progress of the download, and make sure that it ends."
  ;; It may have failed already.
  (when-let* ((job gemini-companion-install--job))
    (setf (gemini-companion-install--job-timer job)
          (run-at-time 0 0.5 #'gemini-companion-install--watch job))))

(defun gemini-companion-install--watch (job)
  "Show the progress of JOB, a download; give up if nothing arrives."
  (let* ((buffer (gemini-companion-install--answer-buffer job))
         (size (if buffer (buffer-size buffer) 0)))
    (cond ((> size gemini-companion-install--max-size)
           (gemini-companion-install--fail "the file is too large to be a module"))
          ((/= size (gemini-companion-install--job-size job))
           (setf (gemini-companion-install--job-size job) size
                 (gemini-companion-install--job-since job) (float-time))
           (gemini-companion-install--show-progress
            (gemini-companion-install--progress buffer size)))
          ((> (- (float-time) (gemini-companion-install--job-since job))
              gemini-companion-install--patience)
           (gemini-companion-install--fail "nothing arrived for %d seconds"
                                           gemini-companion-install--patience))
          ;; Other messages may have hidden it.
          ((zerop size) (gemini-companion-install--show-progress "")))))

(defun gemini-companion-install--answer-buffer (job)
  "Return the buffer with the response to JOB, or nil.
It is a new one after each redirection."
  (let ((buffer (gemini-companion-install--job-buffer job)))
    (cl-loop for next = (and (buffer-live-p buffer)
                             (buffer-local-value 'url-redirect-buffer buffer))
             while next do (setq buffer next))
    (and (buffer-live-p buffer) buffer)))

(defun gemini-companion-install--progress (buffer size)
  "Return the progress of a download, of which SIZE bytes are in BUFFER."
  (if-let* ((length (with-current-buffer buffer (bound-and-true-p url-http-content-length))))
      (format " %d%% of %s" (min 100 (/ (* 100 size) (max 1 length)))
              (file-size-human-readable length 'si " " "B"))
    (format " %s" (file-size-human-readable size 'si " " "B"))))

(defun gemini-companion-install--show-progress (progress)
  "Show the PROGRESS of the download, unless that would hide a prompt."
  (when (not (gemini-companion-ui-key-expected))
    (let ((message-log-max nil))
      (message "Downloading %s%s" (gemini-companion-native-asset) progress))))

(defun gemini-companion-install--answered (status job checksum)
  "Install the module in the current buffer, the response to JOB.
STATUS is that of `url-retrieve'.  Refuse a file without CHECKSUM."
  (let ((buffer (current-buffer)))
    (unwind-protect
        (when (eq job gemini-companion-install--job)
          (condition-case error
              (let ((start (gemini-companion-install--check-answer status)))
                (gemini-companion-install--check-sum start checksum "what was downloaded")
                (gemini-companion-install--write start)
                (gemini-companion-install--installed))
            (error (gemini-companion-install--fail
                    "%s" (gemini-companion-ui-error-text error)))))
      (kill-buffer buffer))))

(defun gemini-companion-install--check-answer (status)
  "Return where the file begins in the current buffer, a server's response.
Signal an error if it failed, as STATUS, that of `url-retrieve', says."
  (let ((code (bound-and-true-p url-http-response-status))
        (failure (plist-get status :error))
        (length (bound-and-true-p url-http-content-length))
        (start (save-excursion
                 (goto-char (point-min))
                 (re-search-forward "\n\r?\n" nil t))))
    (cond ((and (numberp code) (>= code 400))
           (gemini-companion-native-signal
            "the server answered %d, %s" code
            (or (nth 2 (assq code url-http-codes)) "which is an error")))
          (failure (gemini-companion-native-signal
                    "the server cannot be reached (%s)"
                    (string-trim (mapconcat (lambda (it) (format "%s" it)) (cdr failure) " "))))
          ((not (and start (eql code 200)))
           (gemini-companion-native-signal "the server gave no answer"))
          ((and length (< (- (point-max) start) length))
           (gemini-companion-native-signal "the download ended after %d of %d bytes"
                                           (- (point-max) start) length)))
    start))

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
         nil (lambda (_mode) "*gemini build*"))
      (let ((job (gemini-companion-install--make-job :buffer (current-buffer))))
        (setq gemini-companion-install--job job)
        (add-hook 'compilation-finish-functions
                  (lambda (_buffer status)
                    (gemini-companion-install--built job manifest target status))
                  nil t)))))

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
       (gemini-companion-install--rust-version manifest)))
    manifest))

(defun gemini-companion-install--manifest ()
  "Return the name of the module's Cargo.toml, or nil.
It is in this file's directory in a package, and in the parent directory
in a checkout."
  (cl-loop for name in '("Cargo.toml" "../Cargo.toml")
           for file = (expand-file-name name gemini-companion-native-directory)
           if (gemini-companion-install--field file "name" "gemini-companion-module")
           return file))

(defun gemini-companion-install--rust-version (manifest)
  "Return the oldest version of Rust that can build MANIFEST."
  (gemini-companion-install--field manifest "rust-version" "[0-9.]+"))

(defun gemini-companion-install--field (manifest name value)
  "Return the value of NAME in MANIFEST, a file, if it matches the regexp VALUE."
  (when (file-readable-p manifest)
    (with-temp-buffer
      (insert-file-contents manifest)
      (and (re-search-forward (format "^%s = \"\\(%s\\)\"" name value) nil t)
           (match-string 1)))))

(defun gemini-companion-install--built (job manifest target status)
  "Install the module that JOB, which ended with STATUS, built in TARGET.
MANIFEST is its Cargo.toml."
  (when (eq job gemini-companion-install--job)
    (condition-case error
        (if (string-prefix-p "finished" status)
            (progn
              (gemini-companion-install--copy (gemini-companion-install--built-file target))
              (delete-directory target t)
              (gemini-companion-install--installed))
          (gemini-companion-install--fail
           "the build failed (%s), and its buffer says why; Rust %s or newer is needed"
           (string-trim status) (gemini-companion-install--rust-version manifest)))
      (error (gemini-companion-install--fail "%s" (gemini-companion-ui-error-text error))))))

(defun gemini-companion-install--built-file (target)
  "Return the file of the module that cargo built in the directory TARGET.
It is in a subdirectory if the user's configuration of cargo names a
platform."
  (let ((name (pcase system-type
                ('windows-nt "gemini_companion_module.dll")
                ('darwin "libgemini_companion_module.dylib")
                (_ "libgemini_companion_module.so"))))
    (or (cl-loop for pattern in '("release/" "*/release/")
                 thereis (car (file-expand-wildcards
                               (expand-file-name (concat pattern name) target))))
        (gemini-companion-native-signal "cargo built no %s in %s" name target))))

;;;; Putting the module in place

(defun gemini-companion-install--check-sum (start checksum what)
  "Signal an error if the text from START in this buffer lacks CHECKSUM.
The error message calls that text WHAT."
  (let ((found (secure-hash 'sha256 (current-buffer) start (point-max))))
    (unless (equal found checksum)
      (gemini-companion-native-signal
       "%s is not the published file: its SHA-256 is %s, and must be %s" what found checksum))))

(defun gemini-companion-install--make-directory ()
  "Return the directory for modules; make it, private, if necessary."
  (with-file-modes #o700
    (make-directory gemini-companion-module-directory t))
  (file-name-as-directory (expand-file-name gemini-companion-module-directory)))

(defun gemini-companion-install--write (start)
  "Install the module that begins at START in the current buffer."
  (gemini-companion-install--put (buffer-substring-no-properties start (point-max))))

(defun gemini-companion-install--copy (built)
  "Install the file BUILT."
  (gemini-companion-install--put
   (with-temp-buffer
     (set-buffer-multibyte nil)
     (insert-file-contents-literally built)
     (buffer-string))))

(defun gemini-companion-install--put (bytes)
  "Install the module that consists of BYTES.
It is always a new file: if Emacs dies before it is complete, it leaves no
incomplete module, and an Emacs that has loaded the old one keeps it."
  (gemini-companion-install--make-directory)
  (gemini-companion-file-replace (gemini-companion-native-installed-file) bytes #o755))

(defun gemini-companion-install--installed ()
  "Load the newly installed module, and continue."
  (gemini-companion-install--end)
  (gemini-companion-log-add "installed %s" (gemini-companion-native-installed-file))
  (gemini-companion-install--delete-others)
  (gemini-companion-native-load)
  (gemini-companion-install--ready))

(defun gemini-companion-install--ready ()
  "Report that the module is loaded, and do what waited for that."
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

;;;; The end

(defun gemini-companion-install--end ()
  "End the download or build, if there is one."
  (when-let* ((job gemini-companion-install--job))
    (setq gemini-companion-install--job nil)
    (when (gemini-companion-install--job-timer job)
      (cancel-timer (gemini-companion-install--job-timer job)))
    (let ((buffer (gemini-companion-install--answer-buffer job)))
      (cond ((not buffer))
            ((with-current-buffer buffer (derived-mode-p 'compilation-mode))
             (when-let* ((process (get-buffer-process buffer)))
               (interrupt-process process)))
            ;; No callback is called then.
            (t (when-let* ((connection (get-buffer-process buffer)))
                 (gemini-companion-install--close connection))
               (kill-buffer buffer))))))

(defun gemini-companion-install--close (connection)
  "Close CONNECTION, of a download, as soon as that does not take long.
While the name of the server is looked up, Emacs would wait for that, and
forever if it is found at the same moment (in Emacs 28 to 30)."
  (set-process-query-on-exit-flag connection nil)
  (if (not (eq (process-status connection) 'connect)) (delete-process connection)
    (set-process-buffer connection nil)
    (set-process-filter connection #'ignore)
    (set-process-sentinel connection (lambda (connection _event)
                                       (delete-process connection)))))

(defun gemini-companion-install--fail (format &rest arguments)
  "End the download or build, and warn the user: FORMAT with ARGUMENTS.
The warning also says how else to get the module."
  (gemini-companion-install--end)
  (let ((reason (apply #'format format arguments)))
    (gemini-companion-log-add "not installed: %s" reason)
    (message "The native module of gemini-companion is not installed")
    (display-warning
     'gemini-companion
     (format "The native module is not installed: %s.
To try again or another way:  M-x gemini-companion-install-module%s"
             reason
             (if (gemini-companion-install--checksum)
                 (format "
To install it by hand:  M-x gemini-companion-install-from-file  with
  %s
  (SHA-256 %s)"
                         (gemini-companion-install--url) (gemini-companion-install--checksum))
               ""))
     :error)))

(provide 'gemini-companion-install)
;;; gemini-companion-install.el ends here

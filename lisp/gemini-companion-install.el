;;; gemini-companion-install.el --- Get the native module -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The native module is downloaded, or built with cargo, into a directory of its own, under a name
;; that holds its version and platform.  Only a command of the user leads here, or what he has set
;; `gemini-companion-install-policy' to; never the loading of a file, and never batch mode.
;;
;; What is downloaded is used only if its SHA-256 is the one that this package was published with,
;; so that neither the server nor the way to it need be trusted.  A file gets its name when all of
;; it is written: there is no moment at which half a module could be loaded.

;;; Code:

(require 'cl-lib)
(require 'compile)
(require 'subr-x)
(require 'url)
(require 'url-http)
(require 'gemini-companion-checksums)
(require 'gemini-companion-log)
(require 'gemini-companion-native)
(require 'gemini-companion-ui)

;;;###autoload (custom-add-load 'gemini-companion 'gemini-companion-install)
(defcustom gemini-companion-install-policy 'ask
  "How to get the native module where it is missing.
`ask' asks once, when you switch the mode on by a command.  `download' and
`build' do that without a question, also when your init file switches the
mode on.  Nil only says that it is missing.  In batch mode nothing is
done."
  :group 'gemini-companion
  :type '(choice (const :tag "Ask" ask)
                 (const :tag "Download it" download)
                 (const :tag "Build it with cargo" build)
                 (const :tag "Nothing" nil))
  :risky t)

(defcustom gemini-companion-module-url
  "https://github.com/gemini-companion/gemini-companion/releases/download/"
  "The address below which published modules are, with a slash at its end.
A mirror need not be trusted: what comes from there is compared with the
SHA-256 that is part of this package.  Not on this machine it must be an
address of https."
  :group 'gemini-companion
  :type 'string
  :risky t)

(defconst gemini-companion-install--max-size (* 32 1024 1024)
  "Size in bytes of an answer that cannot be a module.")

(defconst gemini-companion-install--patience 30
  "Seconds without a byte after which a download has failed.")

(cl-defstruct (gemini-companion-install--job
               (:constructor gemini-companion-install--make-job)
               (:copier nil))
  "What is under way."
  (buffer nil :documentation "The buffer of the download, or of the build.")
  (timer nil :documentation "Watches a download.")
  (size 0 :documentation "How many bytes have come.")
  (since (float-time) :documentation "When the last of them came."))

(defvar gemini-companion-install--job nil
  "The download or build that is under way, nil if none is.")

(defvar gemini-companion-install--continue #'ignore
  "What to call, without arguments, when the module is there.")

(defvar gemini-companion-install--declined nil
  "The version of the module that the user does not want now.")

;;;; Commands

(defmacro gemini-companion-install--as-command (&rest body)
  "Evaluate BODY; what is wrong with the module is said as an error of the user."
  (declare (indent 0) (debug t))
  `(condition-case error
       (progn ,@body)
     (gemini-companion-native-missing
      (user-error "Native module of gemini-companion: %s" (gemini-companion-ui-error-text error)))))

;;;###autoload
(defun gemini-companion-install-instead (continue ask)
  "Get the native module, and call CONTINUE when it is loaded.
This returns before that is done.  With ASK non-nil the user is asked how
to get it, but not twice.  Signal `gemini-companion-native-missing' if
nothing can be done now."
  (setq gemini-companion-install--continue continue)
  (cond (noninteractive (gemini-companion-install--signal-missing))
        (gemini-companion-install--job (gemini-companion-install--tell-job))
        (t (gemini-companion-install--start (gemini-companion-install--way ask)))))

;;;###autoload
(defun gemini-companion-install-module (&optional again)
  "Install the native module of gemini-companion: download it or build it.
If `gemini-companion-install-policy' does not say which you are asked.
With a prefix argument, AGAIN, you are asked, and it is installed even if
there is one already."
  (interactive "P")
  (gemini-companion-install--as-command
    (cond (noninteractive (gemini-companion-install--signal-missing))
          ((gemini-companion-native-named-file)
           (user-error "The module is %s: `gemini-companion-module-file' or \
GEMINI_COMPANION_MODULE says so" (gemini-companion-native-named-file)))
          (gemini-companion-install--job (gemini-companion-install--tell-job))
          ((and (not again) (ignore-errors (gemini-companion-native-load)))
           (gemini-companion-install--ready))
          (t (gemini-companion-install--start
              (or (and (not again) (gemini-companion-install--policy))
                  (gemini-companion-install--ask)))))))

;;;###autoload
(defun gemini-companion-install-from-file (file)
  "Install the native module from FILE, which you have downloaded.
It must be the published one of this version.  To use one that you built
yourself, set `gemini-companion-module-file'."
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
Ask the user if ASK is non-nil and he has not answered yet."
  (cond ((gemini-companion-install--policy))
        ((not (and ask gemini-companion-install-policy)) nil)
        ((equal gemini-companion-install--declined gemini-companion-native-version) 'later)
        (t (gemini-companion-install--ask))))

(defun gemini-companion-install--policy ()
  "Return what the user wants done without a question, nil if nothing."
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

(defun gemini-companion-install--tell-job ()
  "Tell the user that the module is being installed."
  (message "The native module of gemini-companion is being installed; \
M-x gemini-companion-install-cancel stops that"))

(defun gemini-companion-install--signal-missing ()
  "Signal that there is no module, and what to do."
  (gemini-companion-native-signal
   "%s: %s" (gemini-companion-native-describe-missing)
   (if noninteractive
       "nothing is installed in batch mode; M-x gemini-companion-install-module does it in an \
interactive Emacs, `make build' in a checkout, and GEMINI_COMPANION_MODULE names a file"
     "M-x gemini-companion-install-module installs it")))

(defun gemini-companion-install--signal-unpublished ()
  "Signal that there is nothing to download, and what to do."
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
  "Return the address of the module that is published for this Emacs."
  (format "%smodule-v%s/%s" gemini-companion-module-url gemini-companion-native-version
          (gemini-companion-native-asset)))

(defun gemini-companion-install--download ()
  "Download the module; when it is there, check and install it."
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
          (gemini-companion-install--watch-from-now-on))
      (error (gemini-companion-install--fail "the server cannot be reached (%s)"
                                             (error-message-string error))))))

(defun gemini-companion-install--check-url (url)
  "Signal that URL is not to be used, if it is not."
  (unless (string-match-p "\\`\\(?:https://\\|http://\\(?:127\\.0\\.0\\.1\\|localhost\\)[:/]\\)" url)
    (gemini-companion-native-signal
     "%s is no address of https: correct `gemini-companion-module-url'" url)))

(defun gemini-companion-install--watch-from-now-on ()
  "Show how the download goes, and see to it that it ends."
  ;; It may have failed already.
  (when-let* ((job gemini-companion-install--job))
    (gemini-companion-install--show-progress "")
    (setf (gemini-companion-install--job-timer job)
          (run-at-time 0.5 0.5 #'gemini-companion-install--watch job))))

(defun gemini-companion-install--watch (job)
  "Show how JOB, a download, goes; give up if nothing comes."
  (let* ((buffer (gemini-companion-install--answer-buffer job))
         (size (if buffer (buffer-size buffer) 0)))
    (cond ((> size gemini-companion-install--max-size)
           (gemini-companion-install--fail "what comes is too large to be a module"))
          ((/= size (gemini-companion-install--job-size job))
           (setf (gemini-companion-install--job-size job) size
                 (gemini-companion-install--job-since job) (float-time))
           (gemini-companion-install--show-progress
            (gemini-companion-install--progress buffer size)))
          ((> (- (float-time) (gemini-companion-install--job-since job))
              gemini-companion-install--patience)
           (gemini-companion-install--fail "nothing came for %d seconds"
                                           gemini-companion-install--patience))
          ;; Other messages may have hidden it.
          ((zerop size) (gemini-companion-install--show-progress "")))))

(defun gemini-companion-install--answer-buffer (job)
  "Return the buffer with the answer to JOB, nil if there is none.
It is another one after each redirection."
  (let ((buffer (gemini-companion-install--job-buffer job)))
    (cl-loop for next = (and (buffer-live-p buffer)
                             (buffer-local-value 'url-redirect-buffer buffer))
             while next do (setq buffer next))
    (and (buffer-live-p buffer) buffer)))

(defun gemini-companion-install--progress (buffer size)
  "Return in words how much SIZE, of what is in BUFFER, is of the whole."
  (let ((length (gemini-companion-install--content-length buffer)))
    (if length
        (format " %d%% of %s" (min 100 (/ (* 100 size) (max 1 length)))
                (file-size-human-readable length 'si " " "B"))
      (format " %s" (file-size-human-readable size 'si " " "B")))))

(defun gemini-companion-install--show-progress (progress)
  "Tell the user the PROGRESS of the download, unless he is asked something."
  (unless (active-minibuffer-window)
    (let ((message-log-max nil))
      (message "Downloading %s%s" (gemini-companion-native-asset) progress))))

(defun gemini-companion-install--answered (status job checksum)
  "Install what the current buffer holds, the answer to JOB.
STATUS is that of `url-retrieve'.  What has not CHECKSUM is refused."
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
  "Return where the file begins in the current buffer, a server's answer.
Signal what is wrong with that, going by STATUS, that of `url-retrieve'."
  (let ((code (bound-and-true-p url-http-response-status))
        (failure (plist-get status :error))
        (start (gemini-companion-install--body))
        (length (gemini-companion-install--content-length (current-buffer))))
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

(defun gemini-companion-install--body ()
  "Return where the body begins of the HTTP answer in the current buffer, or nil."
  (save-excursion
    (goto-char (point-min))
    (re-search-forward "\n\r?\n" nil t)))

(defun gemini-companion-install--content-length (buffer)
  "Return the length that the HTTP answer in BUFFER claims to have, or nil."
  (with-current-buffer buffer
    (save-excursion
      (goto-char (point-min))
      (let ((case-fold-search t)
            (end (gemini-companion-install--body)))
        (and end
             (re-search-forward "^content-length: *\\([0-9]+\\)" end t)
             (string-to-number (match-string 1)))))))

;;;; Build

(defun gemini-companion-install--build ()
  "Build the module with cargo in a visible buffer, and install it."
  (let* ((manifest (gemini-companion-install--check-tools))
         ;; Not in the directory of the sources, which may be read-only, or a package manager's.
         (default-directory (gemini-companion-install--make-directory))
         (target (expand-file-name "build"))
         (process-environment (append '("CARGO_TERM_COLOR=never" "CARGO_TERM_PROGRESS_WHEN=never")
                                      process-environment)))
    (message "Building the native module of gemini-companion, which takes a minute")
    (with-current-buffer
        (compilation-start
         (format "cargo build --release --locked --lib --manifest-path %s --target-dir %s"
                 (shell-quote-argument manifest) (shell-quote-argument target))
         nil (lambda (_mode) "*gemini-companion build*"))
      (let ((job (gemini-companion-install--make-job :buffer (current-buffer))))
        (setq gemini-companion-install--job job)
        (add-hook 'compilation-finish-functions
                  (lambda (_buffer status)
                    (gemini-companion-install--built job manifest target status))
                  nil t)))))

(defun gemini-companion-install--check-tools ()
  "Return the name of the module's Cargo.toml; signal what is missing to build it."
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
It is beside this file in a package, one directory up in a checkout."
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
  "Install what cargo made of MANIFEST in TARGET for JOB, which ended with STATUS."
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
  "Return the file of the module that cargo made in the directory TARGET.
If the user's settings of cargo name a platform it is deeper down."
  (let ((name (pcase system-type
                ('windows-nt "gemini_companion_module.dll")
                ('darwin "libgemini_companion_module.dylib")
                (_ "libgemini_companion_module.so"))))
    (or (cl-loop for pattern in '("release/" "*/release/")
                 thereis (car (file-expand-wildcards
                               (expand-file-name (concat pattern name) target))))
        (gemini-companion-native-signal "cargo made no %s in %s" name target))))

;;;; A module's file in its place

(defun gemini-companion-install--check-sum (start checksum what)
  "Signal that WHAT, from START in the current buffer, has not CHECKSUM."
  (let ((found (secure-hash 'sha256 (current-buffer) start (point-max))))
    (unless (equal found checksum)
      (gemini-companion-native-signal
       "%s is not the published file: its SHA-256 is %s, and must be %s" what found checksum))))

(defun gemini-companion-install--make-directory ()
  "Make the directory for modules if need be, for the user alone, and return it."
  (with-file-modes #o700
    (make-directory gemini-companion-module-directory t))
  (file-name-as-directory (expand-file-name gemini-companion-module-directory)))

(defun gemini-companion-install--write (start)
  "Install the text from START of the current buffer, a module, byte for byte."
  (let ((end (point-max)))
    (gemini-companion-install--put
     (lambda (file)
       (let ((coding-system-for-write 'no-conversion)
             (write-region-inhibit-fsync nil))
         (write-region start end file nil 'silent))))))

(defun gemini-companion-install--copy (built)
  "Install the file BUILT."
  (gemini-companion-install--put (lambda (file) (copy-file built file t))))

(defun gemini-companion-install--put (write)
  "Install the module that WRITE writes, a function of a file name.
The file gets its name at the end: one who dies before that leaves no
half, and an Emacs that has the old one loaded keeps it."
  (gemini-companion-install--make-directory)
  (let* ((file (gemini-companion-native-installed-file))
         (temporary (make-temp-file (concat file "."))))
    (unwind-protect
        (progn (funcall write temporary)
               (set-file-modes temporary #o755)
               (rename-file temporary file t))
      (when (file-exists-p temporary) (delete-file temporary)))))

(defun gemini-companion-install--installed ()
  "Load the module that is installed now, and go on."
  (gemini-companion-install--end)
  (gemini-companion-log-add "installed %s" (gemini-companion-native-installed-file))
  (gemini-companion-install--delete-others)
  (gemini-companion-native-load)
  (gemini-companion-install--ready))

(defun gemini-companion-install--ready ()
  "Tell that the module is loaded, and do what waited for that."
  (message "The native module of gemini-companion is ready, version %s"
           gemini-companion-native-version)
  (funcall (prog1 gemini-companion-install--continue
             (setq gemini-companion-install--continue #'ignore))))

(defun gemini-companion-install--delete-others ()
  "Delete modules of other versions, and what those leave who died installing.
On Windows those that some Emacs has loaded stay."
  (dolist (file (directory-files gemini-companion-module-directory t
                                 "\\`gemini-companion-module-[0-9]"))
    (unless (string-match-p (format "-%s-.*%s\\'"
                                    (regexp-quote gemini-companion-native-version)
                                    (regexp-quote module-file-suffix))
                            file)
      (ignore-errors (delete-file file)))))

;;;; The end

(defun gemini-companion-install--end ()
  "Let nothing be under way."
  (when-let* ((job gemini-companion-install--job))
    (setq gemini-companion-install--job nil)
    (when (gemini-companion-install--job-timer job)
      (cancel-timer (gemini-companion-install--job-timer job)))
    (let ((buffer (gemini-companion-install--answer-buffer job)))
      (cond ((not buffer))
            ((with-current-buffer buffer (derived-mode-p 'compilation-mode))
             (gemini-companion-install--interrupt buffer))
            ;; With its buffer goes its connection; nothing calls back.
            (t (when-let* ((connection (get-buffer-process buffer)))
                 (set-process-query-on-exit-flag connection nil))
               (kill-buffer buffer))))))

(defun gemini-companion-install--interrupt (buffer)
  "Stop the build in BUFFER, which tells of it then."
  (when-let* ((process (get-buffer-process buffer)))
    (interrupt-process process)))

(defun gemini-companion-install--fail (format &rest arguments)
  "End what is under way, and tell the user why: FORMAT with ARGUMENTS.
So also how else he can get the module."
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

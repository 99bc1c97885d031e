;;; gemini-companion-test-emacs.el --- An interactive Emacs to test  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Starts an interactive Emacs in a tmux server of its own, with a home and a
;; temporary directory of its own.  A test can read its screen, type into it and
;; evaluate forms in it:
;;
;;   (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "text\n")))
;;     (gemini-companion-test-visit emacs "a.txt")
;;     (gemini-companion-test-press emacs "C-x o" "another window")
;;     (gemini-companion-test-m-x emacs "gemini-companion-accept" "No review"))
;;
;; $GEMINI_COMPANION_TEST_EMACS names the Emacs to start, by default `emacs'.
;; When a test fails, the report has the screen, the messages, the package's log
;; and what was written to stderr.

;;; Code:

(require 'ert)
(require 'server)
(require 'gemini-companion-test-tmux)
(require 'gemini-companion-test-util)

(cl-defstruct (gemini-companion-test-emacs
               (:constructor gemini-companion-test-emacs--make)
               (:conc-name gemini-companion-test-emacs-))
  "An interactive Emacs in tmux."
  (directory nil :documentation "The directory of all its files.")
  (program nil :documentation "The program that was started.")
  (pid nil :documentation "Its process id, once it has started.")
  (count 0 :documentation "How many forms have been sent to it."))

;;;; Its directories

(defun gemini-companion-test-emacs-file (emacs name)
  "Return the file NAME in the directory of EMACS."
  (expand-file-name name (gemini-companion-test-emacs-directory emacs)))

(defun gemini-companion-test-home (emacs)
  "Return the home directory of EMACS."
  (gemini-companion-test-emacs-file emacs "home/"))

(defun gemini-companion-test-tmpdir (emacs)
  "Return the temporary directory of EMACS, without a slash at its end."
  (gemini-companion-test-emacs-file emacs "tmp"))

(defun gemini-companion-test-project (emacs &optional name)
  "Return the project directory of EMACS, or the file NAME in it."
  (expand-file-name
   (or name "") (gemini-companion-test-emacs-file emacs "project/")))

(defun gemini-companion-test-discovery-files (emacs)
  "Return the discovery files in the temporary directory of EMACS."
  (let ((directory (expand-file-name "gemini/ide"
                                     (gemini-companion-test-tmpdir emacs))))
    (and (file-directory-p directory)
         (directory-files directory t "\\`gemini-ide-server-.*\\.json\\'"))))

;;;; Programs

(defun gemini-companion-test--program ()
  "Return the Emacs to test, as an absolute file name."
  (let ((name (or (getenv "GEMINI_COMPANION_TEST_EMACS") "emacs")))
    (if (file-name-directory name)
        (expand-file-name name)
      (or (executable-find name) (error "There is no program `%s'" name)))))

(defun gemini-companion-test--emacsclient-program (emacs)
  "Return the emacsclient beside the program of EMACS, else the installed one."
  (let ((beside (expand-file-name
                 "emacsclient" (file-name-directory
                                (gemini-companion-test-emacs-program emacs)))))
    (if (file-executable-p beside) beside "emacsclient")))

(defun gemini-companion-test--tmux (emacs &rest arguments)
  "Run tmux with ARGUMENTS on the server of EMACS."
  (apply #'gemini-companion-test-tmux
         (gemini-companion-test-emacs-file emacs "tmux") arguments))

;;;; Starting and stopping

(defun gemini-companion-test--inner-environment (emacs lisp extra)
  "Return the environment of EMACS as strings; LISP is where the package is.
EXTRA are further variables, which take precedence."
  (append
   (list (concat "HOME=" (directory-file-name
                          (gemini-companion-test-home emacs)))
         (concat "TMPDIR=" (gemini-companion-test-tmpdir emacs))
         (concat "PATH=" (getenv "PATH"))
         "LANG=C.UTF-8" "TERM=screen-256color" "SHELL=/bin/sh"
         (concat "GEMINI_COMPANION_TEST_LISP=" lisp)
         (concat "GEMINI_COMPANION_TEST_DIRECTORY="
                 (gemini-companion-test-emacs-directory emacs)))
   extra))

(cl-defun gemini-companion-test-start
    (&key (mode t) files lisp environment (size '(160 . 48)) directory daemon)
  "Start an Emacs with the package loaded and return it.
Unless MODE is nil, `gemini-companion-mode' is on.  FILES are
\(NAME . TEXT) pairs to create in its project.  LISP is where the package
is, by default this checkout's, or a compiled copy of that; with \"\" it is
not loaded.  ENVIRONMENT are strings to add to its environment.  SIZE is
its (COLUMNS . LINES).
DIRECTORY is that of an earlier Emacs, whose home, project and so on it
has.  With DAEMON non-nil it is a daemon, without a frame."
  (let ((emacs (gemini-companion-test-emacs--make
                :directory (or directory (gemini-companion-test-temp-directory))
                :program (gemini-companion-test--program))))
    (gemini-companion-test-on-exit emacs #'gemini-companion-test-stop)
    (gemini-companion-test--prepare emacs files)
    (condition-case err
        (progn
          (gemini-companion-test--launch
           emacs (or lisp (getenv "GEMINI_COMPANION_TEST_LISP")
                     (gemini-companion-test-path "lisp"))
           environment size daemon)
          (cond ((not mode))
                (daemon (gemini-companion-test-eval
                         emacs '(gemini-companion-mode 1)))
                (t (gemini-companion-test-mode-on emacs))))
      (error (message "%s" (gemini-companion-test-report emacs))
             (gemini-companion-test-stop emacs)
             (signal (car err) (cdr err))))
    emacs))

(defun gemini-companion-test--prepare (emacs files)
  "Create the directories of EMACS, and FILES in its project."
  ;; These may be of an earlier Emacs.
  (dolist (name '("forms" "s" "stderr"))
    (let ((old (gemini-companion-test-emacs-file emacs name)))
      (if (file-directory-p old) (delete-directory old t) (delete-file old))))
  (dolist (name '("home" "tmp" "project/.git" "forms"))
    (make-directory (gemini-companion-test-emacs-file emacs name) t))
  (set-file-modes (gemini-companion-test-emacs-directory emacs) #o700)
  ;; As with -Q, but without native compilation in the background, which would
  ;; begin before any file named on the command line is loaded.
  (gemini-companion-test-write
   (expand-file-name ".emacs.d/early-init.el"
                     (gemini-companion-test-home emacs))
   "(setq native-comp-deferred-compilation nil
      native-comp-jit-compilation nil
      package-enable-at-startup nil
      inhibit-default-init t)\n")
  (gemini-companion-test--write-files emacs files))

(defun gemini-companion-test--write-files (emacs files)
  "Create FILES, pairs (NAME . TEXT), in the project of EMACS."
  (pcase-dolist (`(,name . ,text) files)
    (gemini-companion-test-write
     (gemini-companion-test-project emacs name) text)))

(defun gemini-companion-test--launch (emacs lisp environment size daemon)
  "Start the program of EMACS and wait until its init file is loaded.
LISP, ENVIRONMENT, SIZE and DAEMON are as in `gemini-companion-test-start'."
  (let ((variables (gemini-companion-test--inner-environment
                    emacs lisp environment))
        (default-directory (gemini-companion-test-project emacs)))
    (gemini-companion-test-tmux-start
     (gemini-companion-test-emacs-file emacs "tmux") size
     `("env" "-i" ,@(mapcar #'shell-quote-argument variables)
       ,(shell-quote-argument (gemini-companion-test-emacs-program emacs))
       ,(if daemon "--fg-daemon" "-nw")
       "--no-site-file" "--no-site-lisp" "--no-splash" "-l"
       ,(shell-quote-argument
         (gemini-companion-test-path
          "test" "support" "gemini-companion-test-init.el"))
       ;; A daemon also writes its messages there.
       ,(concat "2>" (shell-quote-argument
                      (gemini-companion-test-emacs-file
                       emacs (if daemon "messages" "stderr")))))))
  (gemini-companion-test-wait
   "Emacs to start"
   (lambda ()
     (and (file-exists-p (gemini-companion-test-emacs-file emacs "s"))
          (ignore-errors
            (gemini-companion-test-eval
             emacs '(bound-and-true-p gemini-companion-test-inner-done))))))
  (setf (gemini-companion-test-emacs-pid emacs)
        (gemini-companion-test-eval emacs '(emacs-pid))))

(defun gemini-companion-test-mode-on (emacs)
  "Switch the mode on in EMACS, as a user does."
  (gemini-companion-test-m-x emacs "gemini-companion-mode")
  (gemini-companion-test-wait-eval
   emacs '(and (bound-and-true-p gemini-companion-mode)
               (not (active-minibuffer-window)))))

(defun gemini-companion-test-alive-p (emacs)
  "Return non-nil if the process of EMACS runs."
  (gemini-companion-test-process-alive-p
   (gemini-companion-test-emacs-pid emacs)))

(defun gemini-companion-test-exit (emacs)
  "Let EMACS end by `kill-emacs' and wait until it is gone."
  (ignore-errors
    (gemini-companion-test-eval emacs '(progn (run-at-time 0 nil #'kill-emacs)
                                              nil)
                                5))
  (gemini-companion-test-wait-gone emacs))

(defun gemini-companion-test-wait-gone (emacs)
  "Wait until the process of EMACS is gone."
  (gemini-companion-test-wait
   "Emacs to end"
   (lambda () (not (gemini-companion-test-alive-p emacs))) 10))

(defun gemini-companion-test-kill (emacs)
  "Kill EMACS by signal 9."
  (signal-process (gemini-companion-test-emacs-pid emacs) 9)
  (gemini-companion-test-wait-gone emacs))

(defun gemini-companion-test-stop (emacs &optional keep)
  "End EMACS and its tmux, and remove its directory unless KEEP is non-nil."
  (ignore-errors
    (when (gemini-companion-test-alive-p emacs)
      (gemini-companion-test-exit emacs)))
  (when (gemini-companion-test-alive-p emacs)
    (ignore-errors (gemini-companion-test-kill emacs)))
  (gemini-companion-test-tmux-stop (gemini-companion-test-emacs-file emacs "tmux"))
  (gemini-companion-test-forget emacs)
  (unless keep
    (ignore-errors
      (delete-directory (gemini-companion-test-emacs-directory emacs) t))))

(defun gemini-companion-test-stderr (emacs)
  "Return what EMACS wrote to its standard error."
  (let ((file (gemini-companion-test-emacs-file emacs "stderr")))
    (if (file-exists-p file) (gemini-companion-test-read file) "")))

(defmacro gemini-companion-test-with-emacs (spec &rest body)
  "Run BODY with an Emacs, which is afterwards ended or kept for another test.
SPEC is (VARIABLE KEY VALUE...); the keys are those of
`gemini-companion-test-start'.  With no key but `:files' it may be one
that another test has used.  Fail if Emacs wrote to stderr."
  (declare (indent 1) (debug ((symbolp &rest form) body)))
  `(gemini-companion-test--call-with-emacs
    (list ,@(cdr spec))
    (lambda (,(car spec)) ,@body)))

(defun gemini-companion-test--call-with-emacs (arguments function)
  "Call FUNCTION with an Emacs started with ARGUMENTS, or a spare one."
  (let* ((usual (or (null arguments)
                    (and (eq (car arguments) :files) (null (cddr arguments)))))
         (emacs (or (and usual (gemini-companion-test--take-spare (cadr arguments)))
                    (apply #'gemini-companion-test-start arguments)))
         (passed nil)
         (stderr ""))
    (unwind-protect
        (prog1 (funcall function emacs)
          (setq passed t))
      (unless passed
        (message "%s" (gemini-companion-test-report emacs)))
      (unless (and passed usual (gemini-companion-test--keep emacs))
        (gemini-companion-test-stop emacs t)
        (setq stderr (gemini-companion-test-stderr emacs))
        (gemini-companion-test-stop emacs))
      (when (and passed (not (string-empty-p stderr)))
        (ert-fail (concat "Emacs wrote to stderr: " stderr))))))

;;;; One Emacs for several tests

(defvar gemini-companion-test--spare nil
  "An Emacs of an earlier test, reset, for the next one.")

(defun gemini-companion-test--take-spare (files)
  "Return the spare Emacs with FILES in its project, or nil if there is none."
  (when-let* ((emacs gemini-companion-test--spare))
    (setq gemini-companion-test--spare nil)
    (gemini-companion-test--write-files emacs files)
    (gemini-companion-test-eval emacs '(gemini-companion-mode 1))
    emacs))

(defun gemini-companion-test--keep (emacs)
  "Reset EMACS and keep it for another test.  Return non-nil on success."
  (when (and (null gemini-companion-test--spare)
             (gemini-companion-test--reset emacs nil))
    (setq gemini-companion-test--spare emacs)))

(defun gemini-companion-test--reset (emacs connected)
  "Reset EMACS to its initial state.  Return non-nil on success.
CONNECTED is as in `gemini-companion-test-inner-reset'."
  (let (problem)
    (condition-case err
        (when (and (gemini-companion-test-alive-p emacs)
                   (string-empty-p (gemini-companion-test-stderr emacs)))
          ;; Some actions of the package take a moment to end.
          (gemini-companion-test-wait
           (lambda () (format "Emacs to be reset: %s" problem))
           (lambda ()
             (setq problem (gemini-companion-test-eval
                            emacs `(gemini-companion-test-inner-reset ,connected) 3))
             (when (string-prefix-p "it has loaded" (or problem ""))
               (error "%s" problem))    ; forever
             (null problem))
           1)
          (gemini-companion-test--remove-files emacs connected)
          t)
      (error (ignore (message "This Emacs is not reused: %s"
                              (error-message-string err)))))))

(defun gemini-companion-test--remove-files (emacs connected)
  "Remove all files that a test has created in the directories of EMACS.
With CONNECTED, leave those of a client that stays connected."
  (dolist (directory (cons (gemini-companion-test-project emacs)
                           (unless connected
                             (list (gemini-companion-test-home emacs)
                                   (gemini-companion-test-tmpdir emacs)))))
    (dolist (file (directory-files directory t directory-files-no-dot-files-regexp))
      (unless (string-suffix-p "/.emacs.d" file)
        (if (and (file-directory-p file) (not (file-symlink-p file)))
            (delete-directory file t)
          (delete-file file)))))
  (delete-file (expand-file-name ".emacs.d/gemini-companion/answers.eld"
                                 (gemini-companion-test-home emacs)))
  (make-directory (gemini-companion-test-project emacs ".git") t))

;;;; Evaluating

(defun gemini-companion-test-eval (emacs form &optional timeout)
  "Evaluate FORM in EMACS and return its value.
FORM is evaluated in a process filter, with the buffer of the selected
window current.  A value that cannot be read is returned as a string.
An error in FORM is signalled here.  TIMEOUT is in seconds."
  (let ((file (gemini-companion-test--send-form emacs form nil timeout)))
    (gemini-companion-test--take-value file form timeout)))

(defun gemini-companion-test-run (emacs form &optional timeout)
  "Evaluate FORM in EMACS as a command that the user calls by a key.
TIMEOUT and the value are as in `gemini-companion-test-eval'."
  (let ((file (gemini-companion-test--send-form emacs form t timeout)))
    (gemini-companion-test-keys emacs "F9")
    (gemini-companion-test--take-value file form timeout)))

(defun gemini-companion-test--send-form (emacs form as-command timeout)
  "Send FORM to EMACS and return the file that names it.
AS-COMMAND is as in `gemini-companion-test-inner-eval', TIMEOUT in
seconds."
  (let ((file (gemini-companion-test-emacs-file
               emacs (format "forms/%d"
                             (cl-incf (gemini-companion-test-emacs-count
                                       emacs)))))
        (print-escape-newlines t) (print-length nil) (print-level nil)
        (coding-system-for-write 'utf-8-emacs-unix))
    (write-region (prin1-to-string form) nil file nil 0)
    (gemini-companion-test--ask-server
     emacs (format "(gemini-companion-test-inner-eval %S %S)" file as-command)
     (or timeout gemini-companion-test-timeout))
    file))

(defun gemini-companion-test--ask-server (emacs expression timeout)
  "Let EMACS evaluate the string EXPRESSION within TIMEOUT seconds.
Try again if a \\`C-g' that was typed before has quit the evaluation."
  (let ((answer nil))
    (while (string-search "*ERROR*: Quit"
                          (setq answer (gemini-companion-test--server-answer
                                        emacs expression timeout))))
    (unless (string-search "-emacs-pid" answer)
      (error "The server of Emacs did not answer"))
    (when (string-match "^-error \\(.*\\)" answer)
      (error "Emacs did not evaluate: %s" (server-unquote-arg (match-string 1 answer))))))

(defun gemini-companion-test--server-answer (emacs expression timeout)
  "Send the string EXPRESSION to the server of EMACS as emacsclient does.
Return its answer within TIMEOUT seconds.  Starting emacsclient would
take twenty times as long."
  (let* ((answer "")
         (server (make-network-process
                  :name "server" :family 'local :noquery t :coding 'utf-8-emacs-unix
                  :service (gemini-companion-test-emacs-file emacs "s")
                  :filter (lambda (_ text) (setq answer (concat answer text)))
                  :sentinel #'ignore)))
    (unwind-protect
        (progn
          (process-send-string
           server (format "-current-frame -eval %s \n" (server-quote-arg expression)))
          (gemini-companion-test-wait
           "Emacs to evaluate a form"
           (lambda ()
             (while (accept-process-output server 0.03))
             (not (process-live-p server)))
           timeout))
      (delete-process server))
    answer))

(defun gemini-companion-test--take-value (file form timeout)
  "Wait for the value of the FORM in FILE and return it.
Wait for TIMEOUT seconds at most."
  (let ((out (concat file ".out")))
    (gemini-companion-test-wait
     (format "the value of %S" form)
     (lambda () (file-exists-p out)) timeout)
    (pcase (with-temp-buffer
             (let ((coding-system-for-read 'utf-8-emacs-unix))
               (insert-file-contents out))
             (read (current-buffer)))
      (`(ok ,value) value)
      (`(error ,text) (error "In the Emacs under test: %s" text)))))

;;;; A busy or stopped Emacs

(defun gemini-companion-test-keep-busy (emacs condition)
  "Keep EMACS busy with Lisp that does not yield while CONDITION holds.
CONDITION is a form.  Return, once that has begun, a file that exists as
long as EMACS is busy."
  (let ((busy (gemini-companion-test-emacs-file emacs "busy")))
    (gemini-companion-test-run
     emacs `(progn (run-at-time 0 nil
                                (lambda ()
                                  (write-region "" nil ,busy nil 0)
                                  (while ,condition)
                                  (delete-file ,busy)))
                   nil))
    (gemini-companion-test-wait "Emacs to be busy"
                                (lambda () (file-exists-p busy)))
    busy))

(defun gemini-companion-test-call-stopped (emacs function)
  "Call FUNCTION while all threads of EMACS are stopped, and return its value."
  (let* ((pid (gemini-companion-test-emacs-pid emacs))
         ;; tmux would continue a stopped program at once.
         (tmux (string-to-number
                (gemini-companion-test--tmux emacs "display" "-p" "#{pid}")))
         (stopped (list tmux pid)))
    (gemini-companion-test-on-exit stopped #'gemini-companion-test--continue)
    (unwind-protect
        (progn
          (dolist (each stopped)
            (signal-process each 'SIGSTOP)
            (gemini-companion-test-wait
             "a process to stop"
             (lambda () (gemini-companion-test--stopped-p each))))
          (prog1 (funcall function)
            (unless (gemini-companion-test--stopped-p pid)
              (error "Emacs did not stay stopped"))))
      (gemini-companion-test--continue stopped))))

(defun gemini-companion-test--stopped-p (pid)
  "Return non-nil if a signal has stopped the process PID."
  (equal (alist-get 'state (process-attributes pid)) "T"))

(defun gemini-companion-test--continue (stopped)
  "Continue the processes STOPPED."
  (dolist (each stopped)
    (signal-process each 'SIGCONT))
  (gemini-companion-test-forget stopped))

;;;; Keys and screen

(defvar gemini-companion-test-pane "main"
  "The pane of tmux that keys are sent to and the screen is read from.")

(defun gemini-companion-test-keys (emacs &rest keys)
  "Press KEYS, named as in tmux, in EMACS."
  (apply #'gemini-companion-test--tmux
         emacs "send-keys" "-t" gemini-companion-test-pane keys))

(defun gemini-companion-test-press (emacs keys condition)
  "Press KEYS, such as \"C-x o\", in EMACS, then wait for CONDITION.
That is a regexp for its screen, or a form that is non-nil there."
  (apply #'gemini-companion-test-keys emacs (split-string keys))
  (gemini-companion-test--wait-condition emacs condition))

(defun gemini-companion-test--wait-condition (emacs condition)
  "Wait until CONDITION holds in EMACS, see `gemini-companion-test-press'."
  (if (stringp condition)
      (gemini-companion-test-wait-screen emacs condition)
    (gemini-companion-test-wait-eval emacs condition)))

(defun gemini-companion-test-type (emacs text &rest keys)
  "Type TEXT literally into EMACS, then press KEYS."
  (gemini-companion-test--tmux
   emacs "send-keys" "-t" gemini-companion-test-pane "-l" text)
  (when keys (apply #'gemini-companion-test-keys emacs keys)))

(defun gemini-companion-test-quit (emacs &optional form)
  "Press \\`C-g' in EMACS until FORM is non-nil there.
By default, until it waits for a new key, outside of minibuffers.  A
\\`C-g' that arrives while Emacs does something else quits only that."
  (let ((form (or form '(and (not (active-minibuffer-window))
                             (zerop (length (this-command-keys-vector)))))))
    (gemini-companion-test-wait
     (format "%S after C-g" form)
     (lambda ()
       (gemini-companion-test-keys emacs "C-g")
       (ignore-errors (gemini-companion-test-wait-eval emacs form 1))))))

(defun gemini-companion-test-m-x (emacs command &optional condition)
  "Call COMMAND, a string, in EMACS by \\`M-x'.
Then wait for CONDITION, if any, see `gemini-companion-test-press'."
  (gemini-companion-test-keys emacs "M-x")
  (gemini-companion-test-type emacs command "Enter")
  (when condition (gemini-companion-test--wait-condition emacs condition)))

(defun gemini-companion-test-visit (emacs name)
  "Visit the file NAME of the project in EMACS, as a user does."
  (let ((file (gemini-companion-test-project emacs name)))
    (gemini-companion-test-keys emacs "C-x" "C-f")
    (gemini-companion-test-wait-eval emacs '(active-minibuffer-window))
    (gemini-companion-test-keys emacs "C-a" "C-k")
    (gemini-companion-test-type emacs file)
    (gemini-companion-test-keys emacs "Enter")
    (gemini-companion-test-wait-eval
     emacs `(and (not (active-minibuffer-window))
                 (equal (buffer-file-name (window-buffer)) ,file)))))

(defun gemini-companion-test-screen (emacs)
  "Return the screen of EMACS as text."
  (condition-case err
      (gemini-companion-test--tmux
       emacs "capture-pane" "-p" "-t" gemini-companion-test-pane)
    (error (format "No screen: %s" (error-message-string err)))))

;;;; More frames

(defun gemini-companion-test-open-frame (emacs name)
  "Open a frame of EMACS in another terminal, a window of tmux named NAME.
Return its pane, for `gemini-companion-test-pane'."
  (let ((frames (gemini-companion-test-eval emacs '(length (frame-list)))))
    (gemini-companion-test--tmux
     emacs "new-window" "-d" "-t" "main:" "-n" name
     (format "exec env TERM=screen-256color %s -t -s %s"
             (shell-quote-argument (gemini-companion-test--emacsclient-program emacs))
             (shell-quote-argument
              (gemini-companion-test-emacs-file emacs "s"))))
    (gemini-companion-test-wait-eval
     emacs `(> (length (frame-list)) ,frames))
    ;; Keys pressed before this may be lost.
    (let ((gemini-companion-test-pane (concat "main:" name)))
      (gemini-companion-test-wait-screen emacs "[^ \n]")
      gemini-companion-test-pane)))

(defun gemini-companion-test-kill-pane (emacs pane)
  "Close the terminal PANE of EMACS, as its user closes a window."
  (gemini-companion-test--tmux emacs "kill-window" "-t" pane))

;;;; Waiting

(defun gemini-companion-test-wait-eval (emacs form &optional timeout)
  "Wait until FORM is non-nil in EMACS and return its value.
FORM is evaluated as in `gemini-companion-test-eval'.  TIMEOUT is
in seconds."
  (gemini-companion-test-wait
   (format "%S" form)
   (lambda () (gemini-companion-test-eval emacs form timeout)) timeout))

(defun gemini-companion-test-wait-screen (emacs regexp &optional timeout)
  "Wait until the screen of EMACS matches REGEXP and return the screen.
TIMEOUT is in seconds."
  (gemini-companion-test-wait
   (format "%S on the screen" regexp)
   (lambda () (let ((screen (gemini-companion-test-screen emacs)))
                (and (string-match-p regexp screen) screen)))
   timeout))

;;;; When a test fails

(defun gemini-companion-test-report (emacs)
  "Return a report of what has happened in EMACS."
  (concat
   (format "---- Screen of %s\n%s\n"
           (gemini-companion-test-emacs-program emacs)
           (gemini-companion-test-squeeze (gemini-companion-test-screen emacs)))
   (format "---- Standard error\n%s\n" (gemini-companion-test-stderr emacs))
   (condition-case err
       (gemini-companion-test-eval
        emacs
        '(mapconcat
          (lambda (buffer)
            (with-current-buffer buffer
              (format "---- Buffer %s\n%s\n" (buffer-name)
                      (buffer-substring-no-properties
                       (max (point-min) (- (point-max) 4000)) (point-max)))))
          (seq-filter (lambda (buffer)
                        (string-match-p
                         "\\`\\(?:\\*\\(?:Mess\\|Warn\\)\\| ?\\*gemini\\)"
                         (buffer-name buffer)))
                      (buffer-list))
          "")
        3)
     (error
      (format "---- No buffers: %s\n%s" (error-message-string err)
              (gemini-companion-test--process-report
               (gemini-companion-test-emacs-pid emacs)))))
   "----"))

(defun gemini-companion-test--process-report (pid)
  "Return what tells whether the process PID computes, waits, or is stopped.
That includes its signals, and what each of its threads waits for."
  (let-alist (process-attributes pid)
    (apply #'concat
           (format "Its process: state %s, processor time %s\n"
                   .state (and .time (float-time .time)))
           (append
            (seq-filter (lambda (line)
                          (string-match-p "\\`\\(?:State\\|SigPnd\\|ShdPnd\\|SigBlk\\):" line))
                        (mapcar (lambda (line) (concat line "\n"))
                                (split-string (gemini-companion-test--proc-text
                                               (format "/proc/%s/status" pid))
                                              "\n")))
            (mapcar (lambda (thread)
                      (format "Thread %s: %s\n"
                              (string-trim (gemini-companion-test--proc-text
                                            (concat thread "/comm")))
                              (gemini-companion-test--proc-text (concat thread "/wchan"))))
                    (file-expand-wildcards (format "/proc/%s/task/[0-9]*" pid)))))))

(defun gemini-companion-test--proc-text (file)
  "Return the text of FILE, empty if it cannot be read."
  (with-temp-buffer
    (ignore-errors (insert-file-contents file))
    (buffer-string)))

(provide 'gemini-companion-test-emacs)
;;; gemini-companion-test-emacs.el ends here

;;; gemini-companion-cli-run-test.el --- Tests of the CLI in a terminal  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; With a fake Ghostel, which no distribution packages, or a script in place of the CLI.
;; test/e2e/run-test.el tests real emulators.

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-compose)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-cli-send)
(require 'gemini-companion-test-companion)
(require 'project)

(defvar gemini-companion-cli-run-test--asked nil
  "The questions asked, the last first.")

(defvar ghostel-use-native-pty)
(defvar ghostel-query-before-killing)

(defmacro gemini-companion-cli-run-test--with-ghostel (exec &rest body)
  "Evaluate BODY in a new project with EXEC as Ghostel's function to run a program.
It is called with a buffer, a program and arguments.  Questions are
answered with no."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-project
     (let ((ghostel-use-native-pty t)
           (gemini-companion-terminal 'ghostel)
           (gemini-companion-program "cat")
           (gemini-companion-cli-run-test--asked nil))
       (gemini-companion-mode 1)
       (provide 'ghostel)
       (cl-letf (((symbol-function 'ghostel-exec) ,exec)
                 ((symbol-function 'yes-or-no-p)
                  (lambda (question) (push question gemini-companion-cli-run-test--asked) nil)))
         (unwind-protect (progn ,@body)
           (setq features (delq 'ghostel features))
           (pcase-dolist (`(,buffer . ,_) (gemini-companion-cli-run-terminals))
             (delete-process (get-buffer-process buffer))))))))

(defun gemini-companion-cli-run-test--ghostel-exec (buffer program arguments)
  "Run PROGRAM with ARGUMENTS in BUFFER, as Ghostel does it."
  ;; Ghostel itself has a process that is not the program's.
  (should-not ghostel-use-native-pty)
  (make-process :name "ghostel" :buffer buffer :command (cons program arguments)
                :noquery t :sentinel #'ignore))

(ert-deftest gemini-companion-cli-run/emacs-asks-even-if-the-emulator-does-not ()
  "Emacs asks once before it kills a terminal in which a CLI runs."
  (gemini-companion-cli-run-test--with-ghostel #'gemini-companion-cli-run-test--ghostel-exec
    (gemini-companion-run)
    (let ((terminal (caar (gemini-companion-cli-run-terminals))))
      (should-not (kill-buffer terminal))
      (should (= (length gemini-companion-cli-run-test--asked) 1))
      (should-not (buffer-local-value 'ghostel-query-before-killing terminal))
      (delete-process (get-buffer-process terminal))
      ;; The next CLI uses the same buffer.
      (gemini-companion-run t)
      (should-not (buffer-live-p terminal))
      (should (= (length gemini-companion-cli-run-test--asked) 1)))))

(ert-deftest gemini-companion-cli-run/its-window-on-the-right-keeps-its-width ()
  "Also if the user balances the others, whose number does not matter to it."
  (let ((size (list (frame-total-cols) (frame-total-lines))))
    (save-window-excursion
      (cl-letf (((symbol-function 'frame-width) (lambda (&rest _) 200)))
        (unwind-protect
            (with-temp-buffer
              (set-frame-size nil 200 40)
              (gemini-companion-cli-run-show (current-buffer))
              (let ((side (selected-window)))
                (should (= (window-total-width side) 80))
                (select-window (window-main-window))
                (select-window (split-window-right))
                (balance-windows)
                (should (= (window-total-width side) 80))
                (should (= (window-total-width) 60))))
          (apply #'set-frame-size nil size))))))

(ert-deftest gemini-companion-cli-run/in-the-terminal-of-another-program-it-is-about-that-one ()
  "It hides that terminal, and does not run Gemini CLI."
  (gemini-companion-cli-run-test--with-ghostel #'gemini-companion-cli-run-test--ghostel-exec
    (let ((gemini-companion-agent-profiles '((qwen :program "cat")))
          (gemini-companion-agents '(gemini qwen)))
      (save-window-excursion
        (gemini-companion-run-other 'qwen)
        (let ((terminal (window-buffer)))
          (should (equal (buffer-local-value 'gemini-companion-cli-run-agent terminal) 'qwen))
          (with-current-buffer terminal
            (gemini-companion-run))
          (should-not (get-buffer-window terminal))
          (should (equal (mapcar #'car (gemini-companion-cli-run-terminals)) (list terminal)))
          (with-current-buffer terminal
            (gemini-companion-run t))
          (should (equal (buffer-local-value 'gemini-companion-cli-run-agent (window-buffer))
                         'qwen))
          ;; In other buffers it is Gemini CLI.
          (with-temp-buffer (gemini-companion-run)))
        (should (length= (gemini-companion-cli-run-terminals) 3))))))

;; C-x p p in the terminal of one project hid that, and a prompt went to its CLI.
(ert-deftest gemini-companion-cli-run/a-project-that-the-user-switches-to-has-its-own ()
  (gemini-companion-cli-run-test--with-ghostel #'gemini-companion-cli-run-test--ghostel-exec
    (let ((project-switch-commands 'gemini-companion-run)
          (project-list-file (gemini-companion-test-file "list"))
          (project--list nil)
          (other (gemini-companion-test-file "other/")))
      (gemini-companion-test-file "other/.git/HEAD" "")
      (save-window-excursion
        (gemini-companion-run)
        (let ((terminal (window-buffer)))
          (with-current-buffer terminal
            (project-switch-project other))
          (should (equal (buffer-local-value 'gemini-companion-cli-run-root (window-buffer)) other))
          (with-current-buffer terminal
            (should (eq (gemini-companion-cli-send-terminal) terminal))
            (cl-letf (((symbol-function 'gemini-companion-run)
                       (lambda () (interactive) (set-buffer (gemini-companion-cli-send-terminal)))))
              (project-switch-project other))
            (should (eq (current-buffer) (window-buffer)))))))))

(ert-deftest gemini-companion-cli-run/a-link-leads-to-the-same-project ()
  "There it ran another CLI, in the same directory."
  (gemini-companion-cli-run-test--with-ghostel #'gemini-companion-cli-run-test--ghostel-exec
    (gemini-companion-test-file "real/.git/HEAD" "")
    (gemini-companion-test-file "real/sub/.git/HEAD" "")
    (make-symbolic-link (gemini-companion-test-file "real") (gemini-companion-test-file "link"))
    (save-window-excursion
      (let* ((run (lambda (directory)
                    (let ((default-directory (gemini-companion-test-file directory)))
                      (with-temp-buffer (gemini-companion-run))
                      (prog1 (window-buffer) (other-window 1)))))
             (sub (funcall run "real/sub/"))
             (terminal (funcall run "real/")))
        (should-not (eq sub terminal))
        (should (eq (funcall run "link/") terminal))
        (should (length= (gemini-companion-cli-run-terminals) 2))))))

(ert-deftest gemini-companion-cli-run/what-has-no-cli-of-its-own-is-sent-to-the-one-around-it ()
  "It knows the files there."
  (gemini-companion-cli-run-test--with-ghostel #'gemini-companion-cli-run-test--ghostel-exec
    (gemini-companion-test-file "notes/sub/deep/a" "")
    (gemini-companion-test-file "other/b" "")
    (save-window-excursion
      (let ((visited (lambda (name action)
                       (let ((default-directory (gemini-companion-test-file name)))
                         (with-temp-buffer (funcall action)))))
            (terminals nil))
        (dolist (name '("notes/" "notes/sub/" "other/"))
          (funcall visited name #'gemini-companion-run)
          (push (window-buffer) terminals))
        (should (eq (funcall visited "notes/sub/deep/" #'gemini-companion-cli-send-terminal)
                    (nth 1 terminals)))
        (should-error (funcall visited "./" #'gemini-companion-cli-send-terminal)
                      :type 'user-error)))))

(ert-deftest gemini-companion-cli-run/from-the-home-directory-the-last-one-is-shown ()
  "Not one that the user has started below it."
  (with-temp-buffer
    (let ((last (current-buffer)))
      (with-temp-buffer
        (let ((terminals `((,last . "/srv/a/") (,(current-buffer) . ,(expand-file-name "~/b/")))))
          (cl-letf (((symbol-function 'gemini-companion-cli-run-terminals) (lambda () terminals)))
            (should (eq (gemini-companion-cli-run-buffer (expand-file-name "~/")) last))))))))

(ert-deftest gemini-companion-cli-run/from-the-home-directory-the-running-one-is-shown ()
  "As from *scratch*; with a prefix argument, one is run there."
  (gemini-companion-cli-run-test--with-ghostel #'gemini-companion-cli-run-test--ghostel-exec
    (save-window-excursion
      (gemini-companion-run)
      (let ((terminal (window-buffer))
            (elsewhere (lambda (directory &optional another)
                         (delete-window)
                         (with-temp-buffer
                           (setq default-directory (file-name-as-directory directory))
                           (gemini-companion-run another)))))
        (dolist (directory (list (expand-file-name "~") temporary-file-directory))
          (funcall elsewhere directory)
          (should (eq (window-buffer) terminal)))
        (make-directory "other/.git" t)
        (funcall elsewhere (expand-file-name "other"))
        (should-not (eq (window-buffer) terminal))
        (funcall elsewhere (expand-file-name "~") t)
        (should (length= (gemini-companion-cli-run-terminals) 3))))))

(ert-deftest gemini-companion-cli-run/its-directory-is-a-root-as-long-as-it-runs ()
  "Also if it would not be guessed, such as the user's home directory."
  (gemini-companion-cli-run-test--with-ghostel #'gemini-companion-cli-run-test--ghostel-exec
    (let ((gemini-companion-workspace-guess nil)
          (root (list (directory-file-name gemini-companion-test-project))))
      (gemini-companion-run)
      (should (equal (gemini-companion-workspace-announced) root))
      ;; As after any change of the open files.
      (gemini-companion-workspace-announce)
      (should (equal (gemini-companion-workspace-announced) root))
      (delete-process (get-buffer-process (caar (gemini-companion-cli-run-terminals))))
      (gemini-companion-workspace-announce)
      (should-not (gemini-companion-workspace-announced)))))

(ert-deftest gemini-companion-cli-run/a-failure-leaves-nothing-behind ()
  "Emacs does not ask either."
  (let ((process nil))
    (gemini-companion-cli-run-test--with-ghostel
        (lambda (buffer program arguments)
          (setq process (gemini-companion-cli-run-test--ghostel-exec buffer program arguments))
          (set-process-query-on-exit-flag process t)
          (error "It does not work"))
      (let ((buffers (buffer-list))
            (window (selected-window))
            (messages nil))
        (cl-letf (((symbol-function 'gemini-companion-ui-message)
                   (lambda (_ &rest arguments) (push (apply #'format arguments) messages))))
          (gemini-companion-run))
        (should (equal messages '("It does not work")))
        (should (eq (selected-window) window))
        (should-not (process-live-p process))
        (should-not (seq-difference (buffer-list) buffers))
        (should-not gemini-companion-cli-run-test--asked)))))

(ert-deftest gemini-companion-cli-run/it-says-why-the-cli-will-not-find-this-emacs ()
  (cl-letf (((symbol-function 'gemini-companion-agent-directory)
             (lambda (&rest _) "/dev/null/gemini/ide"))
            ((symbol-function 'display-warning) #'ignore))
    (gemini-companion-cli-run-test--with-ghostel #'gemini-companion-cli-run-test--ghostel-exec
      (let ((messages nil))
        (cl-letf (((symbol-function 'message)
                   (lambda (&rest arguments) (push (apply #'format arguments) messages))))
          (gemini-companion-run))
        (should (seq-find (lambda (it)
                            (string-prefix-p "Gemini CLI will not find this Emacs: /dev/null is not \
a directory: set TMPDIR" it))
                          messages))))))

(ert-deftest gemini-companion-cli-run/it-says-what-is-wrong-with-an-option ()
  (gemini-companion-cli-run-test--with-ghostel #'gemini-companion-cli-run-test--ghostel-exec
    (let ((gemini-companion-agent "gemini"))
      (should (string-search "No program is called \"gemini\""
                             (cadr (should-error (gemini-companion-run) :type 'user-error)))))
    (let ((gemini-companion-arguments "--debug")
          (messages nil))
      (cl-letf (((symbol-function 'gemini-companion-ui-message)
                 (lambda (_ &rest arguments) (push (apply #'format arguments) messages))))
        (gemini-companion-run))
      (should (equal messages '("Wrong type argument: listp, \"--debug\""))))))

(ert-deftest gemini-companion-cli-run/a-suspended-cli-does-not-read ()
  "What is sent to its terminal would be for the shell.
Nor does one that another program there has started without a terminal."
  (let* ((buffer (generate-new-buffer "terminal"))
         (process (make-process
                   :name "shell" :buffer buffer :noquery t :connection-type 'pty
                   :sentinel #'ignore
                   :command '("sh" "-c" "set -m; sleep 1000 & echo back $!
setsid sh -c 'echo detached $$; exec sleep 1000' &
sh -c 'echo front $$; exec sleep 1000'")))
         (id (lambda (name)
               (with-current-buffer buffer
                 (goto-char (point-min))
                 (and (re-search-forward (concat "^" name " \\([0-9]+\\)") nil t)
                      (string-to-number (match-string 1))))))
         (terminals (lambda (name)
                      (let ((gemini-companion-cli--all nil))
                        (gemini-companion-cli--add 'gemini (funcall id name))
                        (mapcar #'car (gemini-companion-cli-run-terminals))))))
    (unwind-protect
        (progn
          (dolist (name '("front" "detached"))
            (gemini-companion-test-wait "both jobs" (lambda () (funcall id name))))
          (should (memq buffer (funcall terminals "front")))
          (should-not (memq buffer (funcall terminals "back")))
          (should-not (memq buffer (funcall terminals "detached"))))
      (delete-process process)
      (dolist (name '("back" "detached"))
        (when (funcall id name)
          (ignore-errors (signal-process (funcall id name) 'KILL))))
      (kill-buffer buffer))))

;; `gemini-companion-run' hid it as if it were Gemini CLI, and never ran that.
(ert-deftest gemini-companion-cli-run/a-cli-that-the-user-has-started-is-no-other-one ()
  (gemini-companion-test-with-project
    (let* ((buffer (generate-new-buffer "terminal"))
           (process (make-process :name "cli" :buffer buffer :noquery t :sentinel #'ignore
                                  :command '("sleep" "1000")))
           (gemini-companion-cli--all nil)
           (pressed nil))
      (gemini-companion-cli--add 'qwen (process-id process) nil gemini-companion-test-project)
      (unwind-protect
          (save-window-excursion
            (should-not (gemini-companion-cli-run-buffer gemini-companion-test-project 'gemini))
            (should (eq (gemini-companion-cli-run-buffer gemini-companion-test-project 'qwen)
                        buffer))
            (should (equal (with-current-buffer buffer (gemini-companion-cli-send-title))
                           "Qwen Code"))
            (cl-letf (((symbol-function 'gemini-companion-cli-send-key)
                       (lambda (key _) (setq pressed key))))
              (with-current-buffer buffer (gemini-companion-compose t)))
            (should (equal pressed "\C-x"))
            (gemini-companion-compose)
            (should (member "summary" (gemini-companion-cli-compose--commands))))
        (delete-process process)))))

;;;; Sandboxes

(ert-deftest gemini-companion-cli-run/a-sandbox-in-a-container-is-noticed ()
  (gemini-companion-test-with-project
    (let ((system-type 'gnu/linux))
      (pcase-dolist (`(,wanted ,setting ,variable . ,arguments)
                     '((nil nil nil) (t nil nil "-s") (t nil nil "-m" "pro" "--sandbox")
                       (t nil "podman") (t nil "docker") (t nil "true") (t nil "1")
                       (nil nil "false") (nil nil "sandbox-exec") (nil "docker" "false" "-s")
                       (t nil "Docker") (t nil "TRUE ") (nil t nil "--sandbox=false")
                       (nil "docker" nil "--no-sandbox") (t "docker" "1" "--no-sandbox")
                       (t t nil) (t "docker" nil) (nil :json-false nil)
                       (t ((enabled . t) (command . "podman")) nil)
                       (nil ((enabled . :json-false) (command . "podman")) nil)
                       (nil ((enabled . t) (command . "lxc")) nil)))
        (gemini-companion-test-file ".gemini/settings.json"
                                    (json-encode `((tools (sandbox . ,(or setting :json-false))))))
        (let ((environment (and variable (list (concat "GEMINI_SANDBOX=" variable)))))
          (should (eq wanted (gemini-companion-cli-search-sandbox-p
                              'gemini gemini-companion-test-project arguments environment)))
          ;; There is no other program with one that is known.
          (should-not (gemini-companion-cli-search-sandbox-p
                       'qwen gemini-companion-test-project arguments environment))))
      (let ((system-type 'darwin))
        ;; That is no container there.
        (should-not (gemini-companion-cli-search-sandbox-p
                     'gemini gemini-companion-test-project '("-s") nil))))))

;;;; Earlier sessions

;; With a script in place of the CLI; test/e2e/run-test.el has the real one.

(defvar gemini-companion-cli-run-test--session-asked nil
  "The prompt for a session, its choices and what stands beside them; or nil.")

(defun gemini-companion-cli-run-test--choose-session (prompt table &rest arguments)
  "Record PROMPT and what TABLE has, and choose the last, for `completing-read'."
  (let* ((metadata (cdr (funcall table "" nil 'metadata)))
         (names (all-completions "" table)))
    (should (eq (alist-get 'display-sort-function metadata) 'identity))
    (should (equal (nth 4 arguments) (car names)))
    (setq gemini-companion-cli-run-test--session-asked
          (list prompt names (mapcar (alist-get 'annotation-function metadata) names)))
    (car (last names))))

(defmacro gemini-companion-cli-run-test--with-script (script &rest body)
  "Evaluate BODY in a new project, where the CLI is the shell SCRIPT.
It sees the options of the CLI as $*.  The user is not busy."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-project
     (let ((gemini-companion-program
            (gemini-companion-test-file "program" (concat "#!/bin/sh\n" ,script "\n")))
           (gemini-companion-terminal 'term)
           (gemini-companion-cli-run-test--session-asked nil))
       (set-file-modes gemini-companion-program #o755)
       (gemini-companion-mode 1)
       (cl-letf (((symbol-function 'gemini-companion-ui-user-frame-p) #'always)
                 ((symbol-function 'completing-read)
                  #'gemini-companion-cli-run-test--choose-session))
         (save-window-excursion
           (unwind-protect (progn ,@body)
             (pcase-dolist (`(,buffer . ,_) (gemini-companion-cli-run-terminals))
               (delete-process (get-buffer-process buffer)))))))))

(defconst gemini-companion-cli-run-test--lister
  "case $* in *--list-sessions*) cat <<'END'
Some warning

Available sessions for this project (4):
  1. Fix (the) parser [quickly] (2 days ago) [032443f8-bbc7-41cf-b3da-b9e70686f710]
  2. Twice (1 hour ago) [aaaaaaaa-1111]
  3. Twice (Just now, current) [bbbbbbbb-2222]
  4. Not an id (Just now) [--yolo]
END
  exit;; esac
pwd; echo \"run with $*.\"; read line"
  "A shell script that lists sessions as Gemini CLI does.")

(defun gemini-companion-cli-run-test--wait (text)
  "Wait until a terminal shows TEXT."
  (gemini-companion-test-wait
   text
   (lambda ()
     (seq-some (pcase-lambda (`(,buffer . ,_))
                 (with-current-buffer buffer (string-search text (buffer-string))))
               (gemini-companion-cli-run-terminals)))))

(ert-deftest gemini-companion-cli-run/the-user-chooses-a-session ()
  "The newest one is first; names are different, and ids are no options."
  (gemini-companion-cli-run-test--with-script gemini-companion-cli-run-test--lister
    (let ((gemini-companion-arguments '("--own")))
      (gemini-companion-run '(16))
      (gemini-companion-cli-run-test--wait
       "run with --resume 032443f8-bbc7-41cf-b3da-b9e70686f710 --own."))
    (should (equal gemini-companion-cli-run-test--session-asked
                   '("Session of Gemini CLI to resume (default Twice [bbbbbbbb-2222]): "
                     ("Twice [bbbbbbbb-2222]" "Twice" "Fix (the) parser [quickly]")
                     ("  Just now, current" "  1 hour ago" "  2 days ago"))))
    (should-not (get-buffer " *gemini sessions*"))))

(ert-deftest gemini-companion-cli-run/a-session-that-runs-is-shown ()
  "It would be written by two CLIs."
  (gemini-companion-cli-run-test--with-script gemini-companion-cli-run-test--lister
    (gemini-companion-run)
    (let* ((terminal (window-buffer))
           (gemini-companion-cli--all
            (list (gemini-companion-cli--make :session "032443f8-bbc7-41cf-b3da-b9e70686f710"
                                              :terminal terminal))))
      (gemini-companion-cli-run-test--wait "run with .")
      (switch-to-buffer "*scratch*")
      (gemini-companion-resume)
      (gemini-companion-test-wait "the terminal" (lambda () (eq (window-buffer) terminal)))
      (should (= 1 (length (gemini-companion-cli-run-terminals)))))))

(ert-deftest gemini-companion-cli-run/it-says-why-there-is-no-session ()
  (pcase-dolist (`(,script ,message)
                 '(("echo No previous sessions found for this project." "has no earlier session")
                   ("echo 'Invalid auth method.' >&2; exit 41"
                    "Gemini CLI lists no sessions: Invalid auth method\\.")))
    (gemini-companion-cli-run-test--with-script script
      (gemini-companion-resume)
      (gemini-companion-test-wait
       message (lambda ()
                 (with-current-buffer (messages-buffer)
                   (save-excursion
                     (goto-char (point-max))
                     (forward-line -1)
                     (looking-at-p (concat ".*" message))))))
      (should-not gemini-companion-cli-run-test--session-asked))))

(ert-deftest gemini-companion-cli-run/a-program-may-ask-for-a-session-itself ()
  "As Qwen Code does."
  (gemini-companion-cli-run-test--with-script "echo \"run with $*.\"; read line"
    (let ((gemini-companion-agent 'qwen))
      (gemini-companion-resume)
      (gemini-companion-cli-run-test--wait "run with --resume."))
    (let ((gemini-companion-agent 'llxprt))
      (should-error (gemini-companion-resume) :type 'user-error))))

(ert-deftest gemini-companion-cli-run/a-new-terminal-replaces-only-those-of-its-own-that-have-ended ()
  (let* ((root (file-name-as-directory temporary-file-directory))
         (live (gemini-companion-cli-run--create-buffer 'gemini root))
         (process (make-pipe-process :name "live" :buffer live :noquery t))
         (ended (gemini-companion-cli-run--create-buffer 'gemini root))
         (others (list live
                       (gemini-companion-cli-run--create-buffer 'qwen root)
                       (gemini-companion-cli-run--create-buffer 'gemini (concat root "a/"))))
         (new (gemini-companion-cli-run--create-buffer 'gemini root)))
    (should-not (buffer-live-p ended))
    (should (seq-every-p #'buffer-live-p (cons new others)))
    (delete-process process)
    (mapc #'kill-buffer (cons new others))))

;;; gemini-companion-cli-run-test.el ends here

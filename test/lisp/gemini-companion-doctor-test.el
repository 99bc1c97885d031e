;;; gemini-companion-doctor-test.el --- Tests of the doctor's report  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Each test breaks one thing and checks that the report names the cause and the
;; remedy.

;;; Code:

(require 'ert)
(require 'gemini-companion-doctor)
(require 'gemini-companion-test-companion)

(defun gemini-companion-doctor-test--home (name text)
  "Write TEXT to the file NAME in the home of the CLI's user."
  (gemini-companion-test-file (concat "home/.gemini/" name) text))

(defmacro gemini-companion-doctor-test--with (&rest body)
  "Evaluate BODY with a companion that a CLI finds.
The settings and temporary files of that CLI are in the directory of the
test; the project is its subdirectory work/, where the current buffer
visits a file."
  (declare (indent 0) (debug t))
  `(let ((gemini-companion-agent--container-files nil) ; wherever this runs
         (before (mapcar (lambda (variable)
                           (cons variable (default-toplevel-value variable)))
                         '(process-environment
                           gemini-companion-workspace-guess
                           gemini-companion-workspace-roots
                           gemini-companion-temporary-directories))))
     (unwind-protect
         (gemini-companion-test-with-project
           (make-directory (gemini-companion-test-file "tmp"))
           (gemini-companion-doctor-test--home
            "settings.json"
            "{ // on\n \"ide\": {\"enabled\": true}, /* \"x */
              \"security\": {\"folderTrust\": {\"enabled\": false}}}")
           (set-default-toplevel-value
            'process-environment
            (list (concat "TMPDIR=" (gemini-companion-test-file "tmp/"))
                  (concat "GEMINI_CLI_HOME=" (gemini-companion-test-file "home"))
                  (concat "QWEN_HOME=" (gemini-companion-test-file "home"))
                  (concat "PATH=" (gemini-companion-test-file "bin") ":" (getenv "PATH"))))
           (set-file-modes
            (gemini-companion-test-file "bin/gemini" "#!/bin/sh\necho 0.61.0\n") #o755)
           (set-buffer (find-file-noselect (gemini-companion-test-file "work/a.txt" "one\n")))
           (set-default-toplevel-value 'gemini-companion-workspace-guess nil)
           (set-default-toplevel-value 'gemini-companion-workspace-roots
                                       (list (gemini-companion-test-file "work")))
           (let ((inhibit-message t))
             (gemini-companion-mode 1)
             ,@body))
       (pcase-dolist (`(,variable . ,value) before)
         (set-default-toplevel-value variable value)))))

(defun gemini-companion-doctor-test--report (&optional directory)
  "Return the report for DIRECTORY, or for the current buffer."
  (save-current-buffer (gemini-companion-doctor directory))
  (gemini-companion-doctor-test--wait))

(defun gemini-companion-doctor-test--wait ()
  "Wait for the report and return it."
  (let ((text (lambda () (with-current-buffer "*gemini doctor*"
                           (buffer-substring-no-properties (point-min) (point-max))))))
    (gemini-companion-test-wait
     "the report to be whole"
     (lambda () (not (string-search "still looking" (funcall text)))))
    (should-not (string-search (gemini-companion-bridge-token) (funcall text)))
    (funcall text)))

(defun gemini-companion-doctor-test--press (label)
  "Press the button LABEL and return the report afterwards."
  (with-current-buffer "*gemini doctor*"
    (goto-char (point-min))
    (search-forward (format "[%s]" label))
    (push-button (match-beginning 0)))
  (gemini-companion-doctor-test--wait))

(defun gemini-companion-doctor-test--says (report &rest texts)
  "Assert that REPORT contains TEXTS in that order."
  (let ((start 0))
    (dolist (text texts)
      (ert-info ((format "%S in\n%s" text report))
        (should (string-search text report start))
        (setq start (string-search text report start))))))

(defun gemini-companion-doctor-test--is-well (report)
  "Assert that REPORT names no problem."
  (gemini-companion-doctor-test--says report "No problem: a CLI that you start here finds"))

(defun gemini-companion-doctor-test--own-file ()
  "Return the discovery file of this Emacs."
  (car (gemini-companion-bridge-discovery-files)))

(defun gemini-companion-doctor-test--change-own (change)
  "Call CHANGE on the content of this Emacs' discovery file; write what it returns."
  (let ((file (gemini-companion-doctor-test--own-file)))
    (gemini-companion-test-write
     file (json-encode (funcall change (gemini-companion-cli-search-read file))))))

(defun gemini-companion-doctor-test--other (process &rest content)
  "Write the discovery file of a companion in PROCESS; return its name.
Its only root is work/; entries of the alist CONTENT take precedence."
  (gemini-companion-test-file
   (format "tmp/gemini/ide/gemini-ide-server-%d-1.json" process)
   (json-encode
    (append content
            `((port . 1) (workspacePath . ,(gemini-companion-test-file "work"))
              (authToken . "x") (ideInfo . ((name . "vscode") (displayName . "VS Code"))))))))

(defmacro gemini-companion-doctor-test--in-terminal (variables &rest body)
  "Evaluate BODY in a terminal started with VARIABLES, a list of strings.
It has no other variables with which a CLI finds this Emacs."
  (declare (indent 1) (debug t))
  `(progn
     (unless (file-exists-p "/proc/self/environ")
       (ert-skip "This system does not tell the environment of a process"))
     (let* ((process-environment
             (append ,variables
                     (seq-remove (lambda (variable)
                                   (string-match-p "\\`GEMINI_CLI_IDE" variable))
                                 (default-toplevel-value 'process-environment))))
            (process (make-process :name "terminal" :command '("sleep" "1000") :noquery t
                                   :buffer (generate-new-buffer "terminal"))))
       (unwind-protect
           (with-current-buffer (process-buffer process)
             (setq major-mode 'term-mode)
             ,@body)
         (delete-process process)))))

(defun gemini-companion-doctor-test--dead ()
  "Return the id of a process that has ended."
  (let ((process (make-process :name "dead" :command '("true"))))
    (gemini-companion-test-wait "the process to end"
                                (lambda () (not (process-live-p process))))
    (process-id process)))

;;;; The report

(ert-deftest gemini-companion-doctor/without-a-problem-it-says-so ()
  (gemini-companion-doctor-test--with
    (let ((report (gemini-companion-doctor-test--report)))
      (gemini-companion-doctor-test--is-well report)
      (gemini-companion-doctor-test--says
       report "in a terminal that this Emacs starts"
       (format "module is loaded, version %s" gemini-companion-native-version)
       "IDE mode is on" "uses this Emacs's file" "has version 0.61.0"
       (format "GEMINI_CLI_IDE_SERVER_PORT=%d" (gemini-companion-bridge-port)))
      (gemini-companion-doctor-test--says report "answers a client after")
      (gemini-companion-doctor-test--is-well
       (gemini-companion-doctor-test--report (gemini-companion-test-file "work/"))))
    (gemini-companion-test-wait "the session of the doctor to end"
                                (lambda () (zerop gemini-companion-bridge-clients)))))

(ert-deftest gemini-companion-doctor/it-examines-where-a-cli-would-run ()
  "That is the root of the project, unless the user names a directory."
  (gemini-companion-doctor-test--with
    (make-directory (gemini-companion-test-file "work/.git"))
    (set-buffer (find-file-noselect (gemini-companion-test-file "work/sub/b.txt" "b\n")))
    (gemini-companion-doctor-test--says
     (gemini-companion-doctor-test--report)
     (format "for Gemini CLI in %s," (gemini-companion-test-file "work/")))
    (gemini-companion-doctor-test--says
     (gemini-companion-doctor-test--report default-directory)
     (format "for Gemini CLI in %s," (gemini-companion-test-file "work/sub/")))))

(ert-deftest gemini-companion-doctor/a-terminal-is-judged-by-its-own-environment ()
  (gemini-companion-doctor-test--with
    (gemini-companion-doctor-test--in-terminal '("NO_PROXY=of-this-terminal")
      (let ((report (gemini-companion-doctor-test--report)))
        (gemini-companion-doctor-test--is-well report)
        (gemini-companion-doctor-test--says report "in the terminal terminal, process"
                                            "NO_PROXY=of-this-terminal")))))

(ert-deftest gemini-companion-doctor/home-and-control-characters-are-hidden ()
  (gemini-companion-doctor-test--with
    (let* ((home (gemini-companion-test-file "home/"))
           (directory (expand-file-name "a\nb" home))
           (process-environment (cons (concat "HOME=" home) process-environment)))
      (make-directory directory t)
      (let ((report (gemini-companion-doctor-test--report directory)))
        (gemini-companion-doctor-test--says report "for Gemini CLI in ~/a^Jb" "~/a^Jb is in no")
        (should-not (string-search home report))))))

(ert-deftest gemini-companion-doctor/a-program-that-hangs-is-killed ()
  (gemini-companion-doctor-test--with
    (pcase-dolist (`(,prints . ,says) '(("echo asking" . ", but: asking")
                                        ("echo" . ", nor anything else.")))
      (gemini-companion-test-file "bin/gemini" (format "#!/bin/sh\n%s\nexec sleep 1000\n" prints))
      (let ((gemini-companion-cli-search-patience 1))
        (gemini-companion-doctor-test--says
         (gemini-companion-doctor-test--report)
         (format "%s did not print its version%s"
                 (gemini-companion-test-file "bin/gemini") says))))))

(ert-deftest gemini-companion-doctor/versions-of-other-programs-are-not-the-programs ()
  "Node names its own when a program cannot run, and nvm what it uses."
  (gemini-companion-doctor-test--with
    (pcase-dolist (`(,prints . ,says)
                   '(("echo 'Error: Cannot find module'; echo; echo 'Node.js v20.20.2'; exit 1"
                      . " did not print its version, but: Error: Cannot find module")
                     ("echo 'Now using node v20.20.2 (npm v10.8.2)'; echo 0.61.0"
                      . " has version 0.61.0;")))
      (gemini-companion-test-file "bin/gemini" (format "#!/bin/sh\n%s\n" prints))
      (gemini-companion-doctor-test--says
       (gemini-companion-doctor-test--report)
       (concat (gemini-companion-test-file "bin/gemini") says)))))

(ert-deftest gemini-companion-doctor/programs-of-other-users-are-not-run ()
  "If PATH has an empty element, which names the current directory."
  (gemini-companion-doctor-test--with
    (let ((temporary-file-directory (gemini-companion-test-file "shared/")))
      (set-file-modes (gemini-companion-test-file "shared/gemini" "#!/bin/sh\necho 6.6.6\n") #o755)
      (set-default-toplevel-value
       'process-environment
       (cons (concat "PATH=:" (gemini-companion-test-file "bin") ":" (getenv "PATH"))
             (default-toplevel-value 'process-environment)))
      (gemini-companion-doctor-test--says (gemini-companion-doctor-test--report)
                                          "/bin/gemini has version 0.61.0"))))

(ert-deftest gemini-companion-doctor/the-latest-directory-is-shown ()
  (gemini-companion-doctor-test--with
    (let ((release (gemini-companion-test-file "release"))
          (elsewhere (gemini-companion-test-file "elsewhere/")))
      (make-directory elsewhere)
      (gemini-companion-test-file
       "bin/gemini"
       (format "#!/bin/sh\nwhile [ ! -e %s ]; do sleep 0.05; done\necho 0.61.0\n" release))
      (save-current-buffer (gemini-companion-doctor elsewhere))
      (save-current-buffer (gemini-companion-doctor))
      (gemini-companion-test-write release "")
      (gemini-companion-doctor-test--is-well (gemini-companion-doctor-test--wait))
      (gemini-companion-test-wait
       "both programs to end"
       (lambda () (not (seq-some (lambda (process)
                                   (string-match-p "version" (process-name process)))
                                 (process-list)))))
      (gemini-companion-doctor-test--is-well (gemini-companion-doctor-test--wait)))))

(ert-deftest gemini-companion-doctor/a-late-result-puts-no-other-button-below-point ()
  (let* ((noninteractive nil)
         (pressed nil)
         (problem (lambda (text label)
                    (list 'problem text "Press it."
                          (cons label (lambda () (push label pressed))))))
         (first (funcall problem "This is so." "mend"))
         (show nil))
    (cl-letf (((symbol-function 'gemini-companion-doctor--examine)
               (lambda (_case callback) (setq show callback))))
      (unwind-protect
          (save-current-buffer
            (gemini-companion-doctor temporary-file-directory)
            (funcall show (list first) 1)
            (goto-char (point-min))
            (search-forward "[me")
            (funcall show (list (funcall problem "So is this." "delete") first) 0)
            (push-button)
            (should (equal pressed '("mend"))))
        (kill-buffer "*gemini doctor*")))))

;;;; The companion

(ert-deftest gemini-companion-doctor/companion-off ()
  (gemini-companion-doctor-test--with
    (gemini-companion-mode -1)
    (cl-letf* (((symbol-function 'gemini-companion-bridge-token) (lambda (&rest _) "no token"))
               (noninteractive nil))
      (gemini-companion-doctor-test--says (gemini-companion-doctor-test--report)
                                          "The companion is off" "gemini-companion-mode"))
    (gemini-companion-mode 1)
    (gemini-companion-doctor-test--is-well (gemini-companion-doctor-test--report))))

(ert-deftest gemini-companion-doctor/discovery-file-missing ()
  (gemini-companion-doctor-test--with
    (delete-file (gemini-companion-doctor-test--own-file))
    (let ((noninteractive nil))
      (gemini-companion-doctor-test--says
       (gemini-companion-doctor-test--report)
       (concat "Something has changed or deleted " (gemini-companion-doctor-test--own-file))
       "-> Write it again, which Emacs does within a minute")
      (gemini-companion-doctor-test--is-well
       (gemini-companion-doctor-test--press "announce again")))))

(ert-deftest gemini-companion-doctor/wrong-owner ()
  (gemini-companion-doctor-test--with
    (let ((file (gemini-companion-doctor-test--own-file))
          (root (eql 0 (user-uid))))
      ;; Only root can give a file away, but anybody can make a link to one of root's.
      (if root (call-process "chown" nil nil nil "65534" file)
        (make-symbolic-link "/etc/passwd" file t))
      (gemini-companion-doctor-test--says
       (gemini-companion-doctor-test--report)
       "Clients ignore all files in"
       (file-name-nondirectory file)
       (format "belongs to another user (uid %d)" (if root 65534 0))))))

(ert-deftest gemini-companion-doctor/old-module ()
  "Whether the new one is installed or not."
  (gemini-companion-doctor-test--with
    (cl-letf (((symbol-function 'gemini-companion--mod-version) (lambda () "0.0.1"))
              ((symbol-function 'gemini-companion-native--search) #'ignore))
      (gemini-companion-doctor-test--says
       (gemini-companion-doctor-test--report)
       "The version of the loaded native module is not that of"
       "-> Turn the mode off and on; restart Emacs if that tells you to"))))

(ert-deftest gemini-companion-doctor/no-module ()
  (gemini-companion-doctor-test--with
    (cl-letf* (((symbol-function 'gemini-companion--mod-version) #'ignore)
               ((symbol-function 'gemini-companion-native--search) #'ignore))
      (gemini-companion-doctor-test--says
       (gemini-companion-doctor-test--report)
       (format "module is missing: version %s for %s is not installed."
               gemini-companion-native-version (gemini-companion-native-platform))
       "-> Install it: M-x gemini-companion-install-module")
      (let ((gemini-companion-module-file "/nowhere/module.so"))
        (gemini-companion-doctor-test--says
         (gemini-companion-doctor-test--report)
         "Cannot use the native module: /nowhere/module.so, which" "names, is not there")))))

(ert-deftest gemini-companion-doctor/server-dead ()
  (gemini-companion-doctor-test--with
    (let* ((listener (make-network-process :name "deaf" :server t :host 'local :service t
                                           :family 'ipv4 :noquery t))
           (port (process-contact listener :service))
           (noninteractive nil))
      (cl-letf (((symbol-function 'gemini-companion-bridge-port) (lambda () port)))
        ;; The real server, below, may take longer than that on a busy machine.
        (let ((gemini-companion-cli-search-patience 0.2))
          (gemini-companion-doctor-test--says
           (gemini-companion-doctor-test--report)
           "The server of this Emacs does not answer: the request timed out"
           "-> Restart it: M-x gemini-companion-restart"))
        (delete-process listener)
        (gemini-companion-doctor-test--says
         (gemini-companion-doctor-test--report) "The server of this Emacs does not answer: "
         "-> Restart it"))
      (gemini-companion-doctor-test--is-well (gemini-companion-doctor-test--report)))))

(ert-deftest gemini-companion-doctor/another-program-may-listen-on-that-port ()
  "It may answer anything, hang up at once, or refuse the token."
  (pcase-dolist (`(,answer . ,expected)
                 '(("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{}" . nil)
                   ("HTTP/1.0 404 No\n\n" . "refuses a client with that token: HTTP 404")
                   ("HTTP/1.1 401 Unauthorized\r\n\r\n" . "refuses a client with that token: HTTP 401")
                   ("HTTP/1.1 20" . "does not answer as a companion")
                   ("SSH-2.0-x\r\n\r\n" . "does not answer as a companion")
                   (nil . "does not answer: connection broken by remote peer")))
    (let* ((gemini-companion-cli-search-patience 0.3)
           (outcome nil)
           (listener (make-network-process
                      :name "other" :server t :host 'local :service t :family 'ipv4 :noquery t
                      :filter (lambda (process _)
                                (if answer (process-send-string process answer)
                                  (delete-process process))))))
      (unwind-protect
          (progn
            (gemini-companion-cli-search-probe (process-contact listener :service) "token"
                                               (lambda (&rest it) (setq outcome it)))
            (gemini-companion-test-wait "the outcome" (lambda () outcome))
            (should (equal outcome (list expected))))
        (delete-process listener)))))

(ert-deftest gemini-companion-doctor/discovery-file-changed ()
  (gemini-companion-doctor-test--with
    (dolist (change (list (lambda (content) (cons '(authToken . "another") content))
                          (lambda (content) (cons '(port . 1) content))
                          (lambda (content) (append content '((new . "member"))))))
      (gemini-companion-doctor-test--change-own change)
      (let ((noninteractive nil))
        (gemini-companion-doctor-test--says
         (gemini-companion-doctor-test--report)
         (format "Something has changed or deleted %s" (gemini-companion-doctor-test--own-file))
         "-> Write it again, which Emacs does within a minute; then type /ide enable")
        (gemini-companion-doctor-test--is-well
         (gemini-companion-doctor-test--press "announce again"))))))

(ert-deftest gemini-companion-doctor/restart-repairs-discovery-file ()
  (gemini-companion-doctor-test--with
    (let ((noninteractive nil))
      (delete-file (gemini-companion-doctor-test--own-file))
      (gemini-companion-restart)
      (gemini-companion-doctor-test--is-well (gemini-companion-doctor-test--report)))))

;;;; The search

(ert-deftest gemini-companion-doctor/dead-process-first ()
  (gemini-companion-doctor-test--with
    (let* ((dead (gemini-companion-doctor-test--dead))
           (file (gemini-companion-doctor-test--other dead))
           (noninteractive nil))
      ;; A living process comes first, unless the terminal names the dead one.
      (gemini-companion-doctor-test--is-well (gemini-companion-doctor-test--report))
      (gemini-companion-doctor-test--in-terminal (list (format "GEMINI_CLI_IDE_PID=%d" dead))
        (gemini-companion-doctor-test--says
         (gemini-companion-doctor-test--report)
         (format "uses %s, whose process %d is dead" file dead)
         "-> Delete that file")
        (cl-letf (((symbol-function 'y-or-n-p) #'always))
          (gemini-companion-doctor-test--is-well
           (gemini-companion-doctor-test--press "delete")))))))

(ert-deftest gemini-companion-doctor/another-editor-first ()
  (gemini-companion-doctor-test--with
    (let ((file (gemini-companion-doctor-test--other (emacs-pid) '(port . 2))))
      (gemini-companion-doctor-test--in-terminal '("GEMINI_CLI_IDE_SERVER_PORT=2")
        (gemini-companion-doctor-test--says
         (gemini-companion-doctor-test--report)
         (format "uses %s, of VS Code, process %d, and not this Emacs." file (emacs-pid))
         "-> Start it with M-x gemini-companion-run")))))

(ert-deftest gemini-companion-doctor/other-workspace ()
  (gemini-companion-doctor-test--with
    (let ((elsewhere (gemini-companion-test-file "elsewhere/"))
          (noninteractive nil))
      (make-directory elsewhere)
      (gemini-companion-doctor-test--says
       (gemini-companion-doctor-test--report elsewhere)
       (format "%s is in no workspace root that Emacs announces (%s)"
               (directory-file-name elsewhere) (gemini-companion-test-file "work"))
       "Directory mismatch" "-> Visit a file of that project in Emacs")
      (gemini-companion-doctor-test--is-well (gemini-companion-doctor-test--press "add")))))

(ert-deftest gemini-companion-doctor/symbolic-link ()
  (gemini-companion-doctor-test--with
    (let ((elsewhere (gemini-companion-test-file "elsewhere"))
          (link (gemini-companion-test-file "work/link")))
      (make-directory elsewhere)
      (make-symbolic-link elsewhere link)
      (gemini-companion-doctor-test--says
       (gemini-companion-doctor-test--report link)
       (format "%s, which is a link to %s, is in no workspace root" link elsewhere)
       (format "add %s to" elsewhere))
      ;; A link that leads into the project is no problem.
      (make-symbolic-link (gemini-companion-test-file "work") (concat elsewhere "/back"))
      (gemini-companion-doctor-test--is-well
       (gemini-companion-doctor-test--report (concat elsewhere "/back"))))))

(ert-deftest gemini-companion-doctor/a-home-directory-in-batch-mode-is-no-link ()
  "Batch Emacs abbreviates the name of the directory in which it is called."
  (let ((outer process-environment))    ; Emacs may need it to start
    (gemini-companion-doctor-test--with
      (make-directory (gemini-companion-test-file "elsewhere"))
      (let ((default-directory (gemini-companion-test-file "elsewhere/"))
            (process-environment
             `(,(concat "HOME=" (directory-file-name (gemini-companion-test-file "")))
               ,@(default-toplevel-value 'process-environment) ,@outer)))
        (with-temp-buffer
          (call-process (expand-file-name invocation-name invocation-directory) nil t nil
                        "-Q" "--batch" "-L" (gemini-companion-test-path "lisp")
                        "-l" "gemini-companion-doctor" "-f" "gemini-companion-doctor-batch")
          (gemini-companion-doctor-test--says
           (buffer-string) "~/elsewhere is in no workspace root that Emacs announces"))))))

(ert-deftest gemini-companion-doctor/ide-info-missing ()
  (gemini-companion-doctor-test--with
    (gemini-companion-doctor-test--change-own
     (lambda (content) (assq-delete-all 'ideInfo content)))
    (gemini-companion-doctor-test--says
     (gemini-companion-doctor-test--report)
     (format "uses %s, which lacks \"ideInfo\"; so it says that it does not support this editor"
             (gemini-companion-doctor-test--own-file))
     "-> Update the companion that wrote it")))

(ert-deftest gemini-companion-doctor/invalid-json ()
  (gemini-companion-doctor-test--with
    (let ((noninteractive nil))
      (dolist (text '("{\"port\": 1," "null" "{} {}" ""))
        (gemini-companion-test-write (gemini-companion-doctor-test--own-file) text)
        (gemini-companion-doctor-test--says (gemini-companion-doctor-test--report)
                                            "Clients ignore all files in"
                                            "announce this Emacs again" "holds no JSON"))
      (gemini-companion-doctor-test--is-well
       (gemini-companion-doctor-test--press "announce again")))))

(ert-deftest gemini-companion-doctor/directory-whose-name-is-no-text ()
  "Such as any that is not in ASCII, for an Emacs in the C locale."
  (gemini-companion-doctor-test--with
    (let ((directory (gemini-companion-test-file "caf\351/"))
          (noninteractive nil))
      (make-directory directory)
      (let ((report (gemini-companion-doctor-test--report directory)))
        (gemini-companion-doctor-test--says report "Directory mismatch" "-> Emacs cannot tell a CLI")
        (should-not (string-search "[add]" report))))))

(ert-deftest gemini-companion-doctor/wrong-temporary-directory ()
  (gemini-companion-doctor-test--with
    (let* ((other (gemini-companion-test-file "other"))
           (noninteractive nil))
      (make-directory other)
      (gemini-companion-doctor-test--in-terminal (list (concat "TMPDIR=" other))
        (gemini-companion-doctor-test--says
         (gemini-companion-doctor-test--report)
         (format "looks in %s/gemini/ide, but this Emacs announces itself in %s"
                 other (gemini-companion-test-file "tmp/gemini/ide"))
         "TMPDIR" (format "-> Add %s to" other) "turn the mode off" "and on; or")))))

;;;; The environment

;; Without a question, no change appears in Emacs.
(ert-deftest gemini-companion-doctor/newer-versions-of-qwen-code-ask-only-if-they-are-set-to ()
  (gemini-companion-doctor-test--with
    (pcase-dolist (`(,agent ,settings ,expected)
                   '((qwen "{}" t) (qwen "{\"tools\": {\"approvalMode\": \"yolo\"}}" t)
                     (qwen "{\"tools\": {\"approvalMode\": \"default\"}}" nil)
                     (gemini "{}" nil)))
      (gemini-companion-test-write (gemini-companion-test-file "home/settings.json") settings)
      (let ((gemini-companion-agent agent))
        (should (eq expected (and (string-match-p "tools\\.approvalMode"
                                                  (gemini-companion-doctor-test--report))
                                  t)))))))

;; It named GEMINI_SANDBOX, which Qwen Code does not read.
(ert-deftest gemini-companion-doctor/a-sandbox-is-that-of-the-program ()
  (gemini-companion-doctor-test--with
    (gemini-companion-doctor-test--in-terminal '("GEMINI_SANDBOX=docker")
      (let ((gemini-companion-agent 'qwen))
        (should-not (string-search "in a sandbox" (gemini-companion-doctor-test--report))))
      (setq gemini-companion-cli-run-agent 'gemini)
      (gemini-companion-doctor-test--says (gemini-companion-doctor-test--report)
                                          "in a sandbox (GEMINI_SANDBOX)"))))

(ert-deftest gemini-companion-doctor/only-a-container-is-reported ()
  (gemini-companion-doctor-test--with
    (setq gemini-companion-cli-run-agent 'gemini)
    (pcase-dolist (`(,value ,system ,expected)
                   '(("0" gnu/linux nil) ("false" gnu/linux nil) ("1" gnu/linux t)
                     ("true" darwin nil) ("sandbox-exec" darwin nil) ("docker" darwin t)))
      (gemini-companion-doctor-test--in-terminal (list (concat "GEMINI_SANDBOX=" value))
        (let* ((system-type system)
               (report (gemini-companion-doctor-test--report)))
          (should (eq expected (and (string-search "in a sandbox (GEMINI_SANDBOX)" report) t))))))))

(ert-deftest gemini-companion-doctor/a-sandbox-may-be-described-and-off ()
  (dolist (enabled '("true" "false"))
    (gemini-companion-doctor-test--with
      (gemini-companion-doctor-test--home
       "settings.json"
       (format "{\"tools\": {\"sandbox\": {\"enabled\": %s, \"command\": \"docker\"}}}" enabled))
      (gemini-companion-doctor-test--in-terminal nil
        (should (eq (equal enabled "true")
                    (and (string-search "in a sandbox (tools.sandbox"
                                        (gemini-companion-doctor-test--report))
                         t)))))))

(defun gemini-companion-doctor-test--report-on (name text)
  "Return the report if the file NAME of a CLI that has the tools has TEXT."
  (gemini-companion-doctor-test--with
    (gemini-companion-doctor-test--home name text)
    (cl-letf (((symbol-function 'gemini-companion-tool-extension-state)
               (lambda (&rest _) 'current)))
      (gemini-companion-doctor-test--report))))

(ert-deftest gemini-companion-doctor/settings-that-keep-tools-from-the-model-are-named ()
  (pcase-dolist (`(,settings . ,expected)
                 '(("{\"hooksConfig\": {\"enabled\": false}}" . "hooksConfig.enabled in ")
                   ;; As /hooks disable writes it.
                   ("{\"hooksConfig\": {\"disabled\": [\"emacs\"]}}" . "hooksConfig.disabled in ")
                   ("{\"disableAllHooks\": true}" . "disableAllHooks in ")
                   ("{\"mcp\": {\"allowed\": [\"github\"]}}" . "mcp.allowed in ")
                   ("{\"mcp\": {\"excluded\": [\"emacs\"]}}" . "mcp.excluded in ")
                   ("{\"tools\": {\"core\": [\"read_file\"]}}" . "tools.core in ")
                   ("{\"hooksConfig\": {\"enabled\": true, \"disabled\": [\"fmt\"]}, \"tools\": {\"core\": []},
                      \"mcp\": {\"allowed\": [\"emacs\"], \"excluded\": [\"github\"]}}")
                   ("{\"mcp\": {\"allowed\": 1, \"excluded\": \"emacs\"}, \"tools\": []}")))
    (ert-info (settings)
      (let ((report (gemini-companion-doctor-test--report-on "settings.json" settings)))
        (if expected
            (gemini-companion-doctor-test--says
             report "Settings keep tools of Emacs from the model, or turn off hooks:" expected)
          (should-not (string-search "Settings keep" report)))))))

(ert-deftest gemini-companion-doctor/tools-that-a-command-of-gemini-cli-has-turned-off-are-named ()
  "As /mcp disable writes it, which the files of settings do not tell."
  (pcase-dolist (`(,content . ,named) '(("{\"emacs\": {\"enabled\": false}}" . t)
                                        ("{\"github\": {\"enabled\": false}}")
                                        ("[1]")))
    (ert-info (content)
      (let ((report (gemini-companion-doctor-test--report-on "mcp-server-enablement.json" content)))
        (should (eq named
                    (and (string-match-p "emacs\\.enabled in [^ ]*/mcp-server-enablement\\.json"
                                         (replace-regexp-in-string "[ \n]+" " " report))
                         t)))))))

(ert-deftest gemini-companion-doctor/variables-that-keep-a-cli-from-connecting ()
  (pcase-dolist
      (`(,variable . ,texts)
       '(("http_proxy=http://user:secret@proxy:1"
          "There is a proxy (http_proxy), and NO_PROXY does not name 127.0.0.1"
          "-> Add 127.0.0.1,localhost to NO_PROXY")
         ("CI=true" "CI=true: the CLI runs without its user interface"
          "-> Start it with that variable unset.")
         ("GEMINI_SANDBOX=docker" "runs itself in a sandbox (GEMINI_SANDBOX)"
          "-> Start it with M-x gemini-companion-run")
         ("PATH=/nowhere" "Cannot find the program `gemini' on PATH" "-> Install it (npm"
          "set PATH and `exec-path'")))
    (gemini-companion-doctor-test--with
      (gemini-companion-doctor-test--in-terminal (list variable)
        (let ((report (gemini-companion-doctor-test--report)))
          (apply #'gemini-companion-doctor-test--says report texts)
          (should-not (string-search "secret" report))))))
  (gemini-companion-doctor-test--with
    (gemini-companion-doctor-test--in-terminal '("http_proxy=p" "no_proxy=a, 127.0.0.1")
      (should-not (string-search "a proxy" (gemini-companion-doctor-test--report))))))

(ert-deftest gemini-companion-doctor/container ()
  (gemini-companion-doctor-test--with
    (let ((gemini-companion-agent--container-files '("/")))
      (gemini-companion-doctor-test--in-terminal '("REMOTE_CONTAINERS=" "SSH_CONNECTION=")
        (gemini-companion-doctor-test--says
         (gemini-companion-doctor-test--report)
         "This is a container, in which the CLI connects to host.docker.internal"
         "-> Start it with REMOTE_CONTAINERS=true"))
      ;; CLIs that Emacs starts get the variable.
      (gemini-companion-mode -1)
      (gemini-companion-mode 1)
      (gemini-companion-doctor-test--is-well (gemini-companion-doctor-test--report)))))

(ert-deftest gemini-companion-doctor/beside-emacs-in-its-container ()
  "The report warns of CLIs that look outside."
  (gemini-companion-doctor-test--with
    (let ((noninteractive nil)
          (gemini-companion-agent--container-files '("/"))
          (outside (seq-remove (lambda (it) (string-match-p "\\`\\(?:SSH\\|.*REMOTE\\)_" it))
                               (default-toplevel-value 'process-environment))))
      (gemini-companion-mode -1)
      (set-default-toplevel-value 'process-environment outside)
      (gemini-companion-mode 1)
      (let ((report (gemini-companion-doctor-test--report)))
        (gemini-companion-doctor-test--is-well report)
        (gemini-companion-doctor-test--says
         report "Notes" "This is a container.  A CLI that another program starts in it"
         "-> Start it with M-x gemini-companion-run, or with REMOTE_CONTAINERS=true"))
      ;; No warning if all of them know that the editor is in the container.
      (gemini-companion-mode -1)
      (set-default-toplevel-value 'process-environment (cons "SSH_CONNECTION=1" outside))
      (gemini-companion-mode 1)
      (should-not (string-search "container" (gemini-companion-doctor-test--report))))))

;;;; Settings

(ert-deftest gemini-companion-doctor/ide-mode-off ()
  (pcase-dolist (`(,settings . ,texts)
                 '(("{\"ide\": {\"enabled\": false, \"hasSeenNudge\": true}}"
                    "IDE mode is off: ide.enabled is false in"
                    "-> Type M-x gemini-companion-setup to set it")
                   ("{\"ide\": {}}" "ide.enabled is not set in" "-> Type M-x gemini-companion-setup"
                    "\"Yes\" runs /ide install, which cannot work")
                   ("{}" "ide.enabled is not set in")))
    (gemini-companion-doctor-test--with
      (gemini-companion-doctor-test--home "settings.json" settings)
      (let ((report (gemini-companion-doctor-test--report)))
        (apply #'gemini-companion-doctor-test--says report texts)
        (should (eq (null (string-search "Yes" settings))
                    (null (string-search "hasSeenNudge" report))))))))

(ert-deftest gemini-companion-doctor/ide-mode-is-switched-on-by-a-button ()
  (pcase-dolist (`(,text . ,after)
                 '(("{\"ide\": {\"enabled\": false}}" . "{\"ide\": {\"enabled\": true}}")
                   ("{ // nothing\n}" . "{\"ide\": {\"enabled\": true} // nothing\n}")))
    (gemini-companion-doctor-test--with
      (let ((noninteractive nil)
            (file (gemini-companion-doctor-test--home "settings.json" text)))
        (gemini-companion-doctor-test--report)
        (gemini-companion-doctor-test--says
         (gemini-companion-doctor-test--press "set it")
         (format "IDE mode is on in %s" file))
        (should (equal (gemini-companion-test-read file) after))
        ;; The button counts as an answer to the question, too.
        (should (equal (gemini-companion-answer-all) '(((setup . gemini) . always))))))))

(ert-deftest gemini-companion-doctor/settings-of-a-project-are-not-changed ()
  (gemini-companion-doctor-test--with
    (gemini-companion-doctor-test--home "settings.json" "{\"ide\": {\"enabled\": true}}")
    (gemini-companion-test-file "work/.gemini/settings.json" "{\"ide\": {\"enabled\": false}}")
    (let* ((noninteractive nil)
           (report (gemini-companion-doctor-test--report)))
      (gemini-companion-doctor-test--says
       report (format "ide.enabled is false in %s"
                      (gemini-companion-test-file "work/.gemini/settings.json"))
       "-> Set it to true in that file, which takes precedence" "[open]")
      (should-not (string-search "set it" report)))))

(ert-deftest gemini-companion-doctor/unreadable-settings ()
  (gemini-companion-doctor-test--with
    (dolist (text '("{\"ide\": }" "{\"ide\": {\"enabled\": true},}"))
      (gemini-companion-doctor-test--home "settings.json" text)
      (gemini-companion-doctor-test--says
       (gemini-companion-doctor-test--report)
       (format "settings %s cannot be read (holds no JSON)"
               (gemini-companion-test-file "home/.gemini/settings.json"))
       "-> Correct that file"))
    (gemini-companion-test-file "work/.gemini/settings.json" (make-string (* 2 1024 1024) ?\s))
    (gemini-companion-doctor-test--says (gemini-companion-doctor-test--report)
                                        "work/.gemini/settings.json cannot be read (is far too"
                                        "-> Correct that file")))

;;;; The tools for the model

(ert-deftest gemini-companion-doctor/the-tools-can-be-enabled-and-updated ()
  (gemini-companion-doctor-test--with
    (let ((noninteractive nil))
      (gemini-companion-doctor-test--says (gemini-companion-doctor-test--report)
                                          "Notes" "The model cannot use the tools of Emacs."
                                          "M-x gemini-companion-tools-enable")
      (cl-letf (((symbol-function 'y-or-n-p) #'always))
        (gemini-companion-doctor-test--says (gemini-companion-doctor-test--press "enable")
                                            "As it should be"
                                            "The extension with the tools of Emacs is installed.")
        (gemini-companion-doctor-test--home "extensions/emacs/emacs-tools.mjs" "// old")
        (gemini-companion-doctor-test--says (gemini-companion-doctor-test--report)
                                            "Notes" "are not as this version of the package writes them")
        (gemini-companion-doctor-test--says (gemini-companion-doctor-test--press "enable")
                                            "As it should be"
                                            "The extension with the tools of Emacs is installed.")
        ;; For a CLI, not for Emacs.
        (set-default-toplevel-value
         'process-environment
         (cons (concat "PATH=" (gemini-companion-test-file "bin"))
               (default-toplevel-value 'process-environment)))
        (gemini-companion-doctor-test--says (gemini-companion-doctor-test--report)
                                            "Problem" "Cannot find the program `node' on PATH")))))

(ert-deftest gemini-companion-doctor/tools-that-were-declined-are-no-problem ()
  (gemini-companion-doctor-test--with
    (gemini-companion-answer-set 'tools 'never)
    (gemini-companion-doctor-test--says (gemini-companion-doctor-test--report)
                                        "As it should be" "The model has no tools of Emacs")
    (gemini-companion-doctor-test--home "extensions/emacs/notes" "mine")
    (gemini-companion-doctor-test--says (gemini-companion-doctor-test--report)
                                        "Notes" "leaves it alone")))

(ert-deftest gemini-companion-doctor/an-old-cli-is-a-problem ()
  "Before 0.31.0, Gemini CLI rarely knows which process is Emacs, and connects to no other."
  (gemini-companion-doctor-test--with
    (gemini-companion-test-file "bin/gemini" "#!/bin/sh\necho 0.30.1\n")
    (gemini-companion-doctor-test--says
     (gemini-companion-doctor-test--report)
     "One problem" "bin/gemini has version 0.30.1, which cannot connect to Emacs."
     "Install version 0.31.0 or later: npm install")))

;;;; Another fork

(defconst gemini-companion-doctor-test--fork
  '(other
    :title "Other Code"
    :program "other"
    :install "npm install -g other-code"
    :directory (home "OTHER_HOME" "~/.other" "ide")
    :file "other-PID-PORT.json"
    :settings ("OTHER_HOME" "~/.other" "settings.json")
    :extension (:manifest "other-extension.json" :here "${here}" :hooks ((edited "Edited" "write")))
    :variables (("OTHER_PORT" . port) ("OTHER_TOKEN" . token)))
  "The entry of a program that this package does not know.")

(ert-deftest gemini-companion-doctor/a-fork-is-one-entry ()
  "Its files are found, its settings changed, its model has tools; the doctor knows it."
  (let ((gemini-companion-agent-profiles (list gemini-companion-doctor-test--fork))
        (gemini-companion-agents '(gemini other))
        (gemini-companion-agent 'other)
        (noninteractive nil))
    (gemini-companion-doctor-test--with
      (set-default-toplevel-value 'process-environment
                                  (cons (concat "OTHER_HOME=" (gemini-companion-test-file "other"))
                                        (default-toplevel-value 'process-environment)))
      (set-file-modes (gemini-companion-test-file "bin/other" "#!/bin/sh\necho 1.2.3\n") #o755)
      (gemini-companion-doctor-test--says (gemini-companion-doctor-test--report)
                                          "Other Code is not served")
      (gemini-companion-test-file "other/settings.json" "{}")
      (gemini-companion-mode -1)
      (gemini-companion-mode 1)
      (let ((file (gemini-companion-test-file
                   (format "other/ide/other-%d-%d.json" (emacs-pid) (gemini-companion-bridge-port)))))
        (gemini-companion-doctor-test--says
         (gemini-companion-doctor-test--report)
         "for Other Code in" "IDE mode is off" (gemini-companion-test-file "other/settings.json")
         "The model cannot use the tools" "uses this Emacs's file" file
         "bin/other has version 1.2.3." "OTHER_PORT="))
      (gemini-companion-doctor-test--is-well (gemini-companion-doctor-test--press "set it"))
      (cl-letf (((symbol-function 'y-or-n-p) #'always))
        (gemini-companion-doctor-test--says (gemini-companion-doctor-test--press "enable")
                                            "The extension with the tools of Emacs is installed."))
      (should (string-search
               "\"home=OTHER_HOME\""
               (gemini-companion-test-read
                (gemini-companion-test-file "other/extensions/emacs/other-extension.json"))))
      (should-not (string-search (gemini-companion-bridge-token 'other)
                                 (gemini-companion-doctor-test--report))))))

;;; gemini-companion-doctor-test.el ends here

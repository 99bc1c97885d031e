;;; gemini-companion-keeper-test.el --- Tests of what runs on a host while it is connected  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The script runs in a shell here, in a home of its own.  The tests are Emacs, at the other end of
;; its standard input and output.  It is announced in /tmp, too, as everywhere.

;;; Code:

(require 'ert)
(require 'gemini-companion-test-util)

(defconst gemini-companion-keeper-test--program (gemini-companion-test-path "src" "keeper.sh"))

(defconst gemini-companion-keeper-test--shells
  '(("sh") ("dash") ("bash" "--posix") ("busybox" "sh") ("mksh") ("zsh" "--emulate" "sh"))
  "Shells that may be sh on a host.")

(defvar gemini-companion-keeper-test--home nil
  "The home of the running test, without slash.")

(defvar gemini-companion-keeper-test--processes nil
  "The keepers of the running test.")

(defmacro gemini-companion-keeper-test--with (name &rest body)
  "Evaluate BODY with a home whose name is NAME, a form; end the keepers."
  (declare (indent 1) (debug t))
  `(let* ((top (let ((temporary-file-directory "/tmp/")) ; a socket has a short name
                 (gemini-companion-test-temp-directory)))
          (gemini-companion-keeper-test--home (concat top ,name))
          (gemini-companion-keeper-test--processes nil))
     (unless (executable-find "node")
       (gemini-companion-test-skip "Node is missing"))
     (make-directory (gemini-companion-keeper-test--file "tmp") t)
     (unwind-protect (progn ,@body)
       (mapc #'gemini-companion-keeper-test--end gemini-companion-keeper-test--processes)
       (delete-directory top t))))

(defun gemini-companion-keeper-test--file (name)
  "Return the file NAME in the home."
  (concat gemini-companion-keeper-test--home "/" name))

(defun gemini-companion-keeper-test--cache (name)
  "Return the file NAME in the cache directory."
  (gemini-companion-keeper-test--file (concat ".cache/gemini-companion/" name)))

(defun gemini-companion-keeper-test--files ()
  "Return the names of all regular files and sockets in the home, sorted."
  (sort (mapcar (lambda (file)
                  (file-relative-name file gemini-companion-keeper-test--home))
                (seq-remove #'file-directory-p
                            (directory-files-recursively
                             gemini-companion-keeper-test--home "" nil)))
        #'string<))

;;;; The script

(defun gemini-companion-keeper-test--json (value)
  "Return VALUE as JSON text."
  (decode-coding-string (gemini-companion-test-json-encode value) 'utf-8))

(cl-defun gemini-companion-keeper-test--script
    (&key (emacs "e1") (roots '("/src/it's ä")) (relay "relay 'x'\n\\n $HOME `a`\n") (agents '(gemini)))
  "Return the script for EMACS with ROOTS, the text RELAY, and AGENTS."
  (let* ((word #'gemini-companion-test-quote)
         (config (funcall word (gemini-companion-keeper-test--json
                                '(:host "127.0.0.1:9" :token "secret"))))
         (fill `(("@RELAY@" . ,(funcall word relay))
                 ("@HASH@" . ,(funcall word "0123"))
                 ("@ID@" . ,(funcall word "laptop_me"))
                 ("@EMACS@" . ,(funcall word emacs))
                 ("@WORKSPACE@" . ,(funcall word (json-encode-string (string-join roots ":"))))
                 ("@ROOTS@" . ,(funcall word (gemini-companion-keeper-test--json (vconcat roots))))
                 ("@AGENTS@"
                  . ,(mapconcat
                      (lambda (agent)
                        (concat
                         "agent " (funcall word (symbol-name agent)) " " config
                         (pcase agent
                           ('gemini (concat " 'gemini-ide-server-PID-PORT.json'"
                                            " temporary 'gemini/ide'"))
                           ('qwen " 'PORT.lock' home 'QWEN_HOME' '~/.qwen' 'ide'"))))
                      agents "\n")))))
    (with-temp-buffer
      (insert (gemini-companion-test-read gemini-companion-keeper-test--program))
      (pcase-dolist (`(,name . ,text) fill)
        (goto-char (point-min))
        (search-forward name)
        (replace-match text t t)
        (should-not (search-forward name nil t)))
      (buffer-string))))

(cl-defun gemini-companion-keeper-test--run (text &key (shell '("sh")) environment)
  "Start SHELL with TEXT on its input, and more ENVIRONMENT; return the process."
  (let* ((default-directory "/")
         (process-environment
          (append environment
                  (list (concat "PATH=" (getenv "PATH"))
                        (concat "HOME=" gemini-companion-keeper-test--home)
                        (concat "TMPDIR=" (gemini-companion-keeper-test--file "tmp")))))
         (process (make-process :name "keeper" :command shell :connection-type 'pipe
                                :noquery t :coding 'utf-8-unix :sentinel #'ignore
                                :filter #'gemini-companion-keeper-test--take)))
    (push process gemini-companion-keeper-test--processes)
    (process-send-string process text)
    process))

(defun gemini-companion-keeper-test--take (process text)
  "Add TEXT to the output of PROCESS."
  (process-put process 'output (concat (process-get process 'output) text)))

(defun gemini-companion-keeper-test--start (&rest arguments)
  "Start a keeper and wait until it is ready.
ARGUMENTS are those of `gemini-companion-keeper-test--script' and
`gemini-companion-keeper-test--run'."
  (let* ((own '(:shell :environment))
         (of (lambda (wanted)
               (cl-loop for (key value) on arguments by #'cddr
                        if (eq wanted (and (memq key own) t)) append (list key value))))
         (process (apply #'gemini-companion-keeper-test--run
                         (apply #'gemini-companion-keeper-test--script (funcall of nil))
                         (funcall of t))))
    (gemini-companion-keeper-test--wait process "socket")
    (process-send-string process "forwarded\n")
    (gemini-companion-keeper-test--wait process "ready")
    process))

(defun gemini-companion-keeper-test--said (process word)
  "Return what PROCESS has said after WORD, or nil."
  (and (string-match (format "^gemini-companion: %s \\(.*\\)\n" word)
                     (or (process-get process 'output) ""))
       (match-string 1 (process-get process 'output))))

(defun gemini-companion-keeper-test--wait (process word)
  "Wait until PROCESS has said WORD; return what comes after it."
  (gemini-companion-test-wait
   (lambda () (format "%s: %s" word (process-get process 'output)))
   (lambda () (gemini-companion-keeper-test--said process word))))

(defun gemini-companion-keeper-test--end (process)
  "Let PROCESS end with its input."
  (when (process-live-p process) (process-send-eof process))
  (gemini-companion-keeper-test--wait-end process))

(defun gemini-companion-keeper-test--wait-end (process)
  "Wait until PROCESS has ended."
  (gemini-companion-test-wait "its end" (lambda () (not (process-live-p process)))))

(defun gemini-companion-keeper-test--discovery (process)
  "Return the discovery file of PROCESS."
  (format "tmp/gemini/ide/gemini-ide-server-%d-%d.json"
          (process-id process) (+ 100000 (process-id process))))

(defun gemini-companion-keeper-test--machine ()
  "Return the name of this machine as in names of files."
  (replace-regexp-in-string "[^A-Za-z0-9._]" "_"
                            (string-trim (shell-command-to-string "uname -n"))))

(defun gemini-companion-keeper-test--config (slot &optional agent)
  "Return the name of the configuration in SLOT for AGENT, by default gemini."
  (format ".cache/gemini-companion/%s-laptop_me-%d-%s.json"
          (gemini-companion-keeper-test--machine) slot (or agent 'gemini)))

(defun gemini-companion-keeper-test--read (name)
  "Return the object in the file NAME in the home."
  (gemini-companion-test-json-decode
   (gemini-companion-test-bytes (gemini-companion-keeper-test--file name))))

;;;; Announcing

(ert-deftest gemini-companion-keeper/emacs-is-announced-as-long-as-the-connection-lasts ()
  "In each shell that there is, and in a home with an odd name."
  (dolist (shell gemini-companion-keeper-test--shells)
    (when (executable-find (car shell))
      (ert-info ((format "%S" shell))
        (gemini-companion-keeper-test--with "ö \"it's\" [a] {b} *&;#!(c)"
          (make-directory (gemini-companion-keeper-test--file ".qwen"))
          (let* ((home gemini-companion-keeper-test--home)
                 (relay (gemini-companion-keeper-test--cache "relay-0123.mjs"))
                 (process (gemini-companion-keeper-test--start
                           :shell shell :agents '(gemini qwen)))
                 (id (process-id process))
                 (socket (gemini-companion-keeper-test--said process "socket")))
            ;; After what the files of a shell may have written.
            (should (string-prefix-p "\ngemini-companion: " (process-get process 'output)))
            (should (equal home (gemini-companion-keeper-test--said process "home")))
            (should (equal (file-name-directory socket) (gemini-companion-keeper-test--cache "")))
            (should (<= (string-bytes socket) 100))
            (should (equal (gemini-companion-keeper-test--said process "ready")
                           (format "%d %s 1" id
                                   (string-trim (shell-command-to-string "uname -n")))))
            (let ((lock (format ".qwen/ide/%d.lock" (+ 100000 id)))
                  (discovery (gemini-companion-keeper-test--discovery process)))
              (should (equal (gemini-companion-keeper-test--files)
                             (sort (list ".cache/gemini-companion/relay-0123.mjs"
                                         (gemini-companion-keeper-test--config 1)
                                         (gemini-companion-keeper-test--config 1 'qwen)
                                         lock discovery)
                                   #'string<)))
              (pcase-dolist (`(,agent . ,file) `((gemini . ,discovery) (qwen . ,lock)))
                (let ((config (gemini-companion-keeper-test--config 1 agent)))
                  (should (equal (gemini-companion-keeper-test--read config)
                                 `((socket . ,socket) (keeper . ,id) (emacs . "e1")
                                   (roots "/src/it's ä")
                                   (host . "127.0.0.1:9") (token . "secret"))))
                  (should (equal (gemini-companion-keeper-test--read file)
                                 `((workspacePath . "/src/it's ä") (ppid . ,id)
                                   (ideInfo (name . "emacs") (displayName . "Emacs"))
                                   (stdio (command . ,(executable-find "node"))
                                          (args ,relay
                                                ,(gemini-companion-keeper-test--file config))))))))
              (should (equal (gemini-companion-test-read relay)
                             "relay 'x'\n\\n $HOME `a`\n\n"))
              ;; Others can read none of it.
              (dolist (file (gemini-companion-keeper-test--files))
                (should (= #o600 (file-modes (gemini-companion-keeper-test--file file)))))
              (should (= #o700 (file-modes (gemini-companion-keeper-test--cache ""))))
              (should (file-exists-p (concat "/tmp/gemini/ide/"
                                             (file-name-nondirectory discovery))))
              (gemini-companion-keeper-test--end process)
              (should (= 0 (process-exit-status process)))
              (should (equal (gemini-companion-keeper-test--files)
                             '(".cache/gemini-companion/relay-0123.mjs")))
              (should-not (file-exists-p (concat "/tmp/gemini/ide/"
                                                 (file-name-nondirectory discovery)))))))))))

(ert-deftest gemini-companion-keeper/a-signal-ends-it-in-order ()
  (dolist (shell gemini-companion-keeper-test--shells)
    (when (executable-find (car shell))
      (dolist (signal '(SIGHUP SIGTERM))
        (ert-info ((format "%S %s" shell signal))
          (gemini-companion-keeper-test--with "home"
            (let ((process (gemini-companion-keeper-test--start :shell shell)))
              (signal-process process signal)
              (gemini-companion-keeper-test--wait-end process)
              (should (equal (gemini-companion-keeper-test--files)
                             '(".cache/gemini-companion/relay-0123.mjs"))))))))))

(ert-deftest gemini-companion-keeper/a-part-of-the-script-does-nothing ()
  (let ((script (gemini-companion-keeper-test--script :agents '(gemini qwen))))
    (dolist (shell gemini-companion-keeper-test--shells)
      (when (executable-find (car shell))
        (dolist (length (list (/ (length script) 2) (- (length script) 20)))
          (ert-info ((format "%S %d" shell length))
            (gemini-companion-keeper-test--with "home"
              (let ((process (gemini-companion-keeper-test--run
                              (substring script 0 length) :shell shell)))
                (gemini-companion-keeper-test--end process)
                (should-not (file-exists-p (gemini-companion-keeper-test--file ".cache")))
                (should-not (gemini-companion-keeper-test--said process "socket"))))))))))

(ert-deftest gemini-companion-keeper/nothing-is-announced-before-there-is-a-socket ()
  (gemini-companion-keeper-test--with "home"
    (let ((process (gemini-companion-keeper-test--run (gemini-companion-keeper-test--script))))
      (gemini-companion-keeper-test--wait process "socket")
      (process-send-string process "roots\t\"/b\"\t[\"/b\"]\n")
      (gemini-companion-keeper-test--end process)
      (should-not (gemini-companion-keeper-test--said process "ready"))
      (should-not (file-exists-p (gemini-companion-keeper-test--file "tmp/gemini")))
      (should-not (gemini-companion-keeper-test--files)))))

(ert-deftest gemini-companion-keeper/other-roots-are-announced ()
  (gemini-companion-keeper-test--with "home"
    (let* ((process (gemini-companion-keeper-test--run (gemini-companion-keeper-test--script)))
           (set (lambda (&rest roots)
                  (process-send-string
                   process
                   (format "roots\t%s\t%s\n" (json-encode-string (string-join roots ":"))
                           (gemini-companion-keeper-test--json (vconcat roots))))))
           (wait (lambda (&rest roots)
                   (gemini-companion-test-wait
                    "the roots"
                    (lambda ()
                      (and (file-exists-p (gemini-companion-keeper-test--file
                                           (gemini-companion-keeper-test--discovery process)))
                           (equal (alist-get 'workspacePath
                                             (gemini-companion-keeper-test--read
                                              (gemini-companion-keeper-test--discovery process)))
                                  (string-join roots ":")))))
                   (should (equal (alist-get 'roots (gemini-companion-keeper-test--read
                                                     (gemini-companion-keeper-test--config 1)))
                                  roots)))))
      (gemini-companion-keeper-test--wait process "socket")
      (funcall set "/first")
      (process-send-string process "forwarded\n")
      (funcall wait "/first")
      (funcall set "/a \\t\\" "/b \"it's\" ä")
      (funcall wait "/a \\t\\" "/b \"it's\" ä")
      (gemini-companion-keeper-test--end process)
      (should (equal (gemini-companion-keeper-test--files)
                     '(".cache/gemini-companion/relay-0123.mjs"))))))

(ert-deftest gemini-companion-keeper/qwen-code-is-announced-where-it-is-used ()
  (gemini-companion-keeper-test--with "home"
    (let ((locks (lambda (home)
                   (directory-files (gemini-companion-keeper-test--file (concat home "/ide"))
                                    nil "\\.lock\\'"))))
      (gemini-companion-keeper-test--start :agents '(gemini qwen))
      (should-not (file-exists-p (gemini-companion-keeper-test--file ".qwen")))
      (should-not (file-exists-p (gemini-companion-keeper-test--file
                                  (gemini-companion-keeper-test--config 1 'qwen))))
      (dolist (home '("own" "linked"))
        (make-directory (gemini-companion-keeper-test--file home)))
      (make-symbolic-link "linked" (gemini-companion-keeper-test--file ".qwen"))
      (gemini-companion-keeper-test--start :agents '(gemini qwen) :emacs "e2")
      (should (= 1 (length (funcall locks "linked"))))
      (gemini-companion-keeper-test--start
       :agents '(gemini qwen) :emacs "e3"
       :environment (list (concat "QWEN_HOME=" (gemini-companion-keeper-test--file "own"))))
      (should (= 1 (length (funcall locks "own"))))
      (gemini-companion-keeper-test--start
       :agents '(gemini qwen) :emacs "e4" :environment '("QWEN_HOME=~/own"))
      (should (= 2 (length (funcall locks "own")))))))

;;;; Slots

(ert-deftest gemini-companion-keeper/another-emacs-has-another-configuration ()
  (gemini-companion-keeper-test--with "home"
    (let ((one (gemini-companion-keeper-test--start))
          (other (gemini-companion-keeper-test--start :emacs "e2")))
      (should (string-suffix-p " 1" (gemini-companion-keeper-test--said one "ready")))
      (should (string-suffix-p " 2" (gemini-companion-keeper-test--said other "ready")))
      (gemini-companion-keeper-test--end one)
      (should (equal (gemini-companion-keeper-test--files)
                     (sort (list ".cache/gemini-companion/relay-0123.mjs"
                                 (gemini-companion-keeper-test--config 2)
                                 (gemini-companion-keeper-test--discovery other))
                           #'string<))))))

(ert-deftest gemini-companion-keeper/emacsen-that-connect-at-once-have-different-configurations ()
  (gemini-companion-keeper-test--with "home"
    (let ((keepers (cl-loop for n from 1 to 6
                            collect (gemini-companion-keeper-test--run
                                     (gemini-companion-keeper-test--script
                                      :emacs (format "e%d" n))))))
      (dolist (process keepers) (gemini-companion-keeper-test--wait process "socket"))
      (dolist (process keepers) (process-send-string process "forwarded\n"))
      (should (equal (sort (mapcar (lambda (process)
                                     (car (last (split-string (gemini-companion-keeper-test--wait
                                                               process "ready")))))
                                   keepers)
                           #'string<)
                     '("1" "2" "3" "4" "5" "6"))))))

(ert-deftest gemini-companion-keeper/one-that-was-killed-as-it-chose-hinders-no-other ()
  (gemini-companion-keeper-test--with "home"
    (let ((lock (gemini-companion-keeper-test--cache
                 (concat (gemini-companion-keeper-test--machine) ".lock")))
          (dead (start-process "dead" nil "true")))
      (gemini-companion-keeper-test--wait-end dead)
      (make-directory (file-name-directory lock) t)
      (make-symbolic-link (number-to-string (process-id dead)) lock)
      (gemini-companion-keeper-test--start)
      (should-not (file-symlink-p lock)))))

(ert-deftest gemini-companion-keeper/the-same-emacs-takes-its-configuration-over ()
  "Its earlier keeper may live for hours after the connection was cut."
  (gemini-companion-keeper-test--with "home"
    (let* ((one (gemini-companion-keeper-test--start))
           (other (gemini-companion-keeper-test--start))
           (config (gemini-companion-keeper-test--config 1))
           (its (lambda () (gemini-companion-keeper-test--read config))))
      (should (string-suffix-p " 1" (gemini-companion-keeper-test--said other "ready")))
      (should (= (process-id other) (alist-get 'keeper (funcall its))))
      (gemini-companion-keeper-test--end one)
      (should (equal (alist-get 'socket (funcall its))
                     (gemini-companion-keeper-test--said other "socket")))
      (should (equal (gemini-companion-keeper-test--files)
                     (sort (list ".cache/gemini-companion/relay-0123.mjs" config
                                 (gemini-companion-keeper-test--discovery other))
                           #'string<))))))

(ert-deftest gemini-companion-keeper/two-emacsen-do-not-change-places ()
  "Both connections have been cut, and the one that was second is back first."
  (gemini-companion-keeper-test--with "home"
    (let ((connect (lambda (emacs slot)
                     (let ((process (gemini-companion-keeper-test--run
                                     (gemini-companion-keeper-test--script :emacs emacs))))
                       (gemini-companion-keeper-test--wait process "socket")
                       (process-send-string process (format "slot %s\nforwarded\n" slot))
                       (car (last (split-string (gemini-companion-keeper-test--wait
                                                 process "ready"))))))))
      (should (equal "2" (funcall connect "e2" "2")))
      (should (equal "1" (funcall connect "e1" "1")))
      ;; Another one has taken it meanwhile.
      (should (equal "3" (funcall connect "e3" "2")))
      (should (equal "4" (funcall connect "e4" "../x"))))))

(ert-deftest gemini-companion-keeper/what-a-dead-keeper-has-left-is-replaced ()
  (gemini-companion-keeper-test--with "home"
    (let* ((dead (gemini-companion-keeper-test--start))
           (socket (gemini-companion-keeper-test--said dead "socket"))
           (server (make-network-process :name "socket" :server t :family 'local :service socket
                                         :noquery t)))
      (signal-process dead 'SIGKILL)
      (gemini-companion-keeper-test--wait-end dead)
      (delete-process server)
      (should (file-exists-p socket))
      (let ((process (gemini-companion-keeper-test--start :emacs "e2")))
        (should (string-suffix-p " 1" (gemini-companion-keeper-test--said process "ready")))
        (should-not (file-exists-p socket))
        (should (equal (gemini-companion-keeper-test--files)
                       (sort (list ".cache/gemini-companion/relay-0123.mjs"
                                   (gemini-companion-keeper-test--config 1)
                                   (gemini-companion-keeper-test--discovery process))
                             #'string<)))))))

(ert-deftest gemini-companion-keeper/the-socket-is-removed-at-the-end ()
  (gemini-companion-keeper-test--with "home"
    (let* ((process (gemini-companion-keeper-test--start))
           (socket (gemini-companion-keeper-test--said process "socket"))
           (server (make-network-process :name "socket" :server t :family 'local :service socket
                                         :noquery t)))
      (unwind-protect
          (progn
            (should (file-exists-p socket))
            (gemini-companion-keeper-test--end process)
            (should-not (file-exists-p socket)))
        (delete-process server)))))

(ert-deftest gemini-companion-keeper/what-is-not-ours-stays ()
  (gemini-companion-keeper-test--with "home"
    (make-directory (gemini-companion-keeper-test--cache "") t)
    (let ((text "{\"socket\":\"/none\",\"keeper\":99999999,\"emacs\":\"e1\",\"roots\":[]}\n")
          (target (gemini-companion-keeper-test--file "target"))
          (taken (gemini-companion-keeper-test--file (gemini-companion-keeper-test--config 1))))
      ;; It looks like what a dead keeper has left.
      (gemini-companion-test-write target text)
      (make-symbolic-link target taken)
      (gemini-companion-test-write (gemini-companion-keeper-test--file
                                    (gemini-companion-keeper-test--config 2))
                                   "damaged\n")
      (let ((process (gemini-companion-keeper-test--start)))
        (should (string-suffix-p " 3" (gemini-companion-keeper-test--said process "ready")))
        (gemini-companion-keeper-test--end process))
      (should (equal (gemini-companion-test-read target) text))
      (should (file-symlink-p taken))
      (should (equal (gemini-companion-test-read (gemini-companion-keeper-test--file
                                                  (gemini-companion-keeper-test--config 2)))
                     "damaged\n")))))

;;;; Faults

(ert-deftest gemini-companion-keeper/a-directory-of-others-is-left-alone ()
  (gemini-companion-keeper-test--with "home"
    (let ((elsewhere (gemini-companion-keeper-test--file "elsewhere"))
          (link (gemini-companion-keeper-test--file "tmp/gemini")))
      (make-directory elsewhere)
      (make-symbolic-link elsewhere link)
      (let ((process (gemini-companion-keeper-test--start)))
        (should (string-prefix-p (concat link " belongs to another user")
                                 (gemini-companion-keeper-test--said process "warning")))
        (process-send-string process "roots\t\"/b\"\t[\"/b\"]\n")
        (gemini-companion-keeper-test--end process)
        ;; Once is enough.
        (should (= 2 (length (split-string (process-get process 'output) " warning "))))
        (should-not (directory-files elsewhere nil directory-files-no-dot-files-regexp))))
    (when (= 0 (user-uid))
      (delete-file (gemini-companion-keeper-test--file "tmp/gemini"))
      (make-directory (gemini-companion-keeper-test--file "tmp/gemini"))
      (call-process "chown" nil nil nil "65534" (gemini-companion-keeper-test--file "tmp/gemini"))
      (should (gemini-companion-keeper-test--said (gemini-companion-keeper-test--start)
                                                  "warning")))))

(ert-deftest gemini-companion-keeper/a-cache-of-others-is-a-fault ()
  (gemini-companion-keeper-test--with "home"
    (make-directory (gemini-companion-keeper-test--file ".cache"))
    (make-symbolic-link "../tmp" (gemini-companion-keeper-test--file ".cache/gemini-companion"))
    (let ((process (gemini-companion-keeper-test--run (gemini-companion-keeper-test--script))))
      (should (string-search "belongs to another user"
                             (gemini-companion-keeper-test--wait process "fault")))
      (gemini-companion-keeper-test--wait-end process)
      (should (= 1 (process-exit-status process)))
      (should-not (gemini-companion-keeper-test--said process "socket")))))

(defun gemini-companion-keeper-test--programs (&rest without)
  "Make a directory with all programs of the shell but those WITHOUT; return it."
  (let ((directory (gemini-companion-keeper-test--file "bin")))
    (make-directory directory)
    (dolist (name '("cat" "chmod" "mkdir" "mv" "node" "od" "rm" "sed" "sh" "tr" "uname" "wc"))
      (unless (member name without)
        (make-symbolic-link (executable-find name) (concat directory "/" name))))
    directory))

(ert-deftest gemini-companion-keeper/node-is-found ()
  (skip-unless (not (or (file-exists-p "/usr/local/bin/node")
                        (file-exists-p "/opt/homebrew/bin/node"))))
  (gemini-companion-keeper-test--with "home"
    (let* ((path (gemini-companion-keeper-test--programs "node"))
           (environment (list (concat "PATH=" path)))
           (run (lambda ()
                  (gemini-companion-keeper-test--run
                   (gemini-companion-keeper-test--script) :environment environment)))
           (install (lambda (name)
                      (let ((file (gemini-companion-keeper-test--file name)))
                        (make-directory (file-name-directory file) t)
                        (make-symbolic-link (executable-find "node") file)
                        file)))
           (process (funcall run)))
      (should (string-prefix-p "no node" (gemini-companion-keeper-test--wait process "fault")))
      (gemini-companion-keeper-test--wait-end process)
      ;; One that is too old is none.
      (gemini-companion-test-write (concat path "/node") "#!/bin/sh\necho v12.22.9\n")
      (set-file-modes (concat path "/node") #o755)
      (should (gemini-companion-keeper-test--wait (funcall run) "fault"))
      (let ((found (funcall install ".nvm/versions/node/v20.1.0/bin/node")))
        (should (equal found
                       (let ((process (gemini-companion-keeper-test--start
                                       :environment environment)))
                         (alist-get 'command
                                    (alist-get 'stdio
                                               (gemini-companion-keeper-test--read
                                                (gemini-companion-keeper-test--discovery
                                                 process)))))))))))

(ert-deftest gemini-companion-keeper/the-socket-has-a-name-that-ssh-takes ()
  (dolist (name (list (make-string 90 ?x) "a:b" "a%b" "a$b" "a\\b"))
    (ert-info (name)
      (gemini-companion-keeper-test--with name
        (let ((process (gemini-companion-keeper-test--run
                        (gemini-companion-keeper-test--script)
                        :environment '("XDG_RUNTIME_DIR=/nonexistent"))))
          (should (string-search "socket" (gemini-companion-keeper-test--wait process "fault")))
          (gemini-companion-keeper-test--wait-end process))
        ;; There may be another directory for it.
        (let* ((runtime (let ((temporary-file-directory "/tmp/"))
                          (gemini-companion-test-temp-directory)))
               (process (gemini-companion-keeper-test--run
                         (gemini-companion-keeper-test--script)
                         :environment (list (concat "XDG_RUNTIME_DIR="
                                                    (directory-file-name runtime))))))
          (unwind-protect
              (progn
                (should (string-prefix-p (concat runtime "gemini-companion/")
                                         (gemini-companion-keeper-test--wait process "socket")))
                (should (= #o700 (file-modes (concat runtime "gemini-companion"))))
                (gemini-companion-keeper-test--end process))
            (delete-directory runtime t)))))))

(provide 'gemini-companion-keeper-test)
;;; gemini-companion-keeper-test.el ends here

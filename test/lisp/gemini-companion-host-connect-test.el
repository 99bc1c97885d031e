;;; gemini-companion-host-connect-test.el --- Tests of connections to hosts  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; With a program that stands in for ssh, and a keeper that does nothing but talk,
;; test/support/fake-keeper.mjs.  test/e2e/remote-test.el has a real sshd, and the
;; real ones.

;;; Code:

(require 'ert)
(require 'tramp-sh)
(require 'gemini-companion-cli-compose)
(require 'gemini-companion-host-connect)
(require 'gemini-companion-doctor)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-cli-send)
(require 'gemini-companion-setup)
(require 'gemini-companion-status)
(require 'gemini-companion-test-companion)
(require 'gemini-companion-test-host)

(defconst gemini-companion-host-connect-test--ssh "#!/bin/sh
cd @DIR@ || exit
[ \"$1\" = -t ] && {
  printf '%s\\n' \"$*\" >terminal; env >terminal-environment
  for command; do :; done
  export HOME=@DIR@/home SHELL=/bin/sh
  exec sh -c \"$command\"
}
printf '%s\\n' \"$*\" >>calls
env >>environment
case \" $* \" in
  *\" -O check \"*) [ -e check ] && . ./check; [ -e shared ]; exit ;;
esac
[ -e cut ] && { echo 'ssh: connect to host build port 22: Connection refused' >&2; exit 255; }
case \" $* \" in
  *\" ControlPath=none \"*) cat refusal >&2 2>/dev/null && exit 255 ;;
esac
echo $$ >pid
[ -e say ] && . ./say
for command; do :; done
export HOME=@DIR@/home SHELL=/bin/sh
exec sh -c \"$command\"
"
  "A program that stands in for ssh, in the directory @DIR@.
It does what files there tell.")

(defconst gemini-companion-host-connect-test--bootstrap "echo
echo 'gemini-companion: shell'
keeper=@KEEPER@
printf %s \"$keeper\" >$HOME/keeper
[ -e $HOME/say ] && . $HOME/say
exec node "
  "A script that begins to run the fake keeper.
It does first what the file say in the home directory tells.")

(defconst gemini-companion-host-connect-test--odd-text "say 'this'\n\\1 @KEEPER@ é"
  "What stands in for a program, to see whether it arrives as it is.")

(defvar gemini-companion-host-connect-test--directory nil
  "The directory of the program that stands in for ssh.")

(defmacro gemini-companion-host-connect-test--with-host (&rest body)
  "Evaluate BODY with the mode on, and a program that stands in for ssh."
  (declare (indent 0) (debug t))
  `(gemini-companion-test-with-project
     (let* ((gemini-companion-host-connect-test--directory (gemini-companion-test-temp-directory))
            (gemini-companion-ssh-program (gemini-companion-host-connect-test--file "ssh"))
            (gemini-companion-host-connection--first-pause 0.01)
            (gemini-companion-host-connection-all nil)
            (tramp-default-proxies-alist nil)
            (tramp-ssh-controlmaster-options nil))
       (make-directory (gemini-companion-host-connect-test--file "home"))
       (gemini-companion-host-connect-test--put
        "ssh" (string-replace "@DIR@" (directory-file-name
                                       gemini-companion-host-connect-test--directory)
                              gemini-companion-host-connect-test--ssh))
       (set-file-modes gemini-companion-ssh-program #o755)
       (gemini-companion-answer-set '(connect . "build") 'always)
       (gemini-companion-mode 1)
       (unwind-protect
           (cl-letf (((symbol-function 'gemini-companion-bridge-host-program)
                      (lambda (name)
                        (if (eq name 'bootstrap)
                            (concat gemini-companion-host-connect-test--bootstrap
                                    (shell-quote-argument
                                     (gemini-companion-test-path "test" "support"
                                                                 "fake-keeper.mjs"))
                                    "\n")
                          gemini-companion-host-connect-test--odd-text))))
             ,@body)
         (gemini-companion-mode -1)
         (gemini-companion-host-connect-test--wait-ended)
         (delete-directory gemini-companion-host-connect-test--directory t)))))

(defun gemini-companion-host-connect-test--file (name)
  "Return the file NAME of the program that stands in for ssh."
  (expand-file-name name gemini-companion-host-connect-test--directory))

(defun gemini-companion-host-connect-test--put (name text)
  "Write TEXT to the file NAME of the program that stands in for ssh."
  (gemini-companion-test-write (gemini-companion-host-connect-test--file name) text))

(defun gemini-companion-host-connect-test--get (name)
  "Return the contents of the file NAME of that program, or an empty string."
  (let ((file (gemini-companion-host-connect-test--file name)))
    (if (file-exists-p file) (gemini-companion-test-read file) "")))

(defun gemini-companion-host-connect-test--processes ()
  "Return the process ids of the programs that run in place of ssh."
  (append (let ((pid (string-to-number (gemini-companion-host-connect-test--get "pid"))))
            (and (> pid 0) (process-attributes pid) (list pid)))
          (seq-filter (lambda (process)
                        (and (string-prefix-p "gemini-companion-ssh" (process-name process))
                             (eq (process-type process) 'real)))
                      (process-list))))

(defun gemini-companion-host-connect-test--wait-ended ()
  "Wait until no program runs in place of ssh."
  (gemini-companion-test-wait
   "ssh to end" (lambda () (not (gemini-companion-host-connect-test--processes))) 7))

(defun gemini-companion-host-connect-test--told ()
  "Return what the keeper was told, as a list of alists, the oldest first."
  (mapcar (lambda (line) (json-read-from-string line))
          (remove "ended" (split-string (gemini-companion-host-connect-test--get "home/told")
                                        "\n" t))))

(defun gemini-companion-host-connect-test--roots ()
  "Return the roots that the keeper was told last, as a list."
  (append (alist-get 'roots (car (last (gemini-companion-host-connect-test--told)))) nil))

(defun gemini-companion-host-connect-test--open (&optional directory)
  "Connect to DIRECTORY, by default /ssh:build:/src, and wait for the outcome.
Return the connection."
  (let ((connection (gemini-companion-host-connect-to (or directory "/ssh:build:/src"))))
    (gemini-companion-host-connect-test--await connection '(ready failed))
    connection))

(defun gemini-companion-host-connect-test--await (connection states)
  "Wait until the state of CONNECTION is one of STATES."
  (gemini-companion-test-wait
   (lambda () (format "%S of a connection in %S" states
                      (gemini-companion-host-connection-state connection)))
   (lambda () (memq (gemini-companion-host-connection-state connection) states))))

(defun gemini-companion-host-connect-test--fault ()
  "Connect in vain, and return the fault as text."
  (let ((connection (gemini-companion-host-connect-test--open)))
    (should (eq (gemini-companion-host-connection-state connection) 'failed))
    (gemini-companion-host-connect-test--wait-ended)
    (gemini-companion-host-connection-explanation connection)))

;;;; Connecting

(ert-deftest gemini-companion-host-connect/keeper-is-told-everything ()
  (gemini-companion-host-connect-test--with-host
    (let* ((connection (gemini-companion-host-connect-test--open "/ssh:build:/src/a'b \"ü/"))
           (told (car (gemini-companion-host-connect-test--told)))
           (in (lambda (name) (alist-get name told))))
      (should (eq (gemini-companion-host-connection-state connection) 'ready))
      (should (equal (gemini-companion-host-connection-hostname connection) "far"))
      (dolist (text (list (gemini-companion-host-connect-test--get "home/keeper")
                          (funcall in 'relay) (funcall in 'editor)))
        (should (equal text gemini-companion-host-connect-test--odd-text)))
      (should (string-match-p "\\`[0-9a-f]\\{16\\}\\'" (funcall in 'hash)))
      (should (string-match-p "\\`[A-Za-z0-9._]+\\'" (funcall in 'id)))
      (should (string-match-p "\\`[0-9a-f]+\\'" (funcall in 'emacs)))
      (should (equal (funcall in 'slot) nil))
      (should (equal (funcall in 'roots) ["/src/a'b \"ü"]))
      ;; Qwen Code need not be used here.
      (should (equal (mapcar (lambda (agent) (mapcar #'cdr agent)) (funcall in 'agents))
                     '(("gemini" "gemini-ide-server-PID-PORT.json" ["temporary" "gemini/ide"])
                       ("qwen" "PORT.lock" ["home" "QWEN_HOME" "~/.qwen" "ide"])))))))

(ert-deftest gemini-companion-host-connect/ssh-is-called-safely ()
  (gemini-companion-host-connect-test--with-host
    (gemini-companion-answer-set '(connect . "a@jump#22|b@build#33") 'always)
    (gemini-companion-host-connect-test--open "/ssh:a@jump#22|ssh:b@build#33:/src")
    (should (string-match-p "\\`-T -a -x .*-o BatchMode=yes .*-o ServerAliveInterval=15 \
-o ClearAllForwardings=yes -J a@jump:22 -l b -p 33 -- build exec sh\n\\'"
                            (gemini-companion-host-connect-test--get "calls")))
    ;; The user's ssh may be configured to send variables.
    (should (getenv "GEMINI_CLI_IDE_AUTH_TOKEN"))
    (let ((environment (gemini-companion-host-connect-test--get "environment")))
      (should (string-match-p "^PATH=" environment))
      (should-not (string-match-p "GEMINI_CLI_IDE\\|QWEN_CODE_IDE\\|LLXPRT" environment)))))

(ert-deftest gemini-companion-host-connect/no-program-of-another-user-is-called-for-ssh ()
  "If PATH has an empty element, which Emacs takes for the current directory."
  (gemini-companion-host-connect-test--with-host
    (let* ((gemini-companion-ssh-program "gc-test-ssh")
           (file (gemini-companion-host-connect-test--file gemini-companion-ssh-program))
           (default-directory gemini-companion-host-connect-test--directory)
           (exec-path (cons "." exec-path)))
      (gemini-companion-test-write file "#!/bin/sh\n")
      (set-file-modes file #o755)
      (should (executable-find gemini-companion-ssh-program))
      (should (string-match-p "Cannot find the program gc-test-ssh"
                              (gemini-companion-host-connect-test--fault))))))

(ert-deftest gemini-companion-host-connect/any-shell-takes-a-quoted-text-for-one-word ()
  "A login shell there may be fish or csh, and gets quotes in quotes."
  (let* ((text "it's \\ a\\\\b\\' !x \"$HOME\" `y` #\\")
         (once (gemini-companion-host-command-quote text)))
    ;; Between quotes these would mean something to fish or to csh.
    (should-not (string-match-p "[\\!]" (replace-regexp-in-string "'\\\\.'" "" once)))
    (dolist (shell (delq nil (mapcar #'executable-find '("sh" "fish" "tcsh"))))
      (dolist (each (list text once))
        (ert-info ((format "%s %s" shell each))
          (should (equal (with-temp-buffer
                           (call-process shell nil t nil "-c"
                                         (concat "printf %s "
                                                 (gemini-companion-host-command-quote each)))
                           (buffer-string))
                         each)))))))

(ert-deftest gemini-companion-host-connect/containers-have-command-lines ()
  (let ((command (lambda (method user host &optional terminal)
                   (gemini-companion-host-command
                    (list (make-tramp-file-name :method method :user user :host host))
                    "exec sh" '("-T") terminal)))
        (gemini-companion-containers
         (cons '("kubernetes" "kubectl" "exec" "-i" terminal "%h" "--")
               gemini-companion-containers)))
    (should (equal (funcall command "docker" nil "box")
                   '("docker" "exec" "-i" "box" "sh" "-c" "exec sh")))
    (should (equal (funcall command "podman" "me" "box" t)
                   '("podman" "exec" "-i" "-t" "-u" "me" "box" "sh" "-c" "exec sh")))
    (should (equal (funcall command "kubernetes" nil "pod")
                   '("kubectl" "exec" "-i" "pod" "--" "sh" "-c" "exec sh")))
    (should (equal (gemini-companion-host-command-target
                    (list (make-tramp-file-name :method "ssh" :host "build")
                          (make-tramp-file-name :method "docker" :host "box")))
                   '("--" "build")))
    (should (equal (gemini-companion-host-command
                    (list (make-tramp-file-name :method "ssh" :host "build")
                          (make-tramp-file-name :method "docker" :host "box"))
                    "exec sh" '("-T"))
                   '("ssh" "-T" "--" "build"
                     "exec 'docker' 'exec' '-i' 'box' 'sh' '-c' 'exec sh'")))))

(ert-deftest gemini-companion-host-connect/odd-names-are-refused ()
  "Nothing is run, and nobody is asked."
  (gemini-companion-host-connect-test--with-host
    (cl-letf (((symbol-function 'tramp-maybe-open-connection)
               (lambda (&rest _) (ert-fail "Tramp was asked"))))
      (gemini-companion-test-with-answer nil
        (dolist (name '("/ssh:-oProxyCommand=touch:/x" "/ssh:-l@build:/x" "/ssh:a`b`:/x"
                        "/ssh:a;b@build:/x" "/ssh:-j|ssh:build:/x" "/docker:-v:/x" "/sudo::/x"
                        "/ssh:build|sudo:root@build:/x" "/smb:build:/x"))
          (should-error (gemini-companion-connect name) :type 'user-error))))
    (should-not gemini-companion-host-connection-all)
    (should-not gemini-companion-host-all)
    (should (equal (gemini-companion-host-connect-test--get "calls") ""))))

(ert-deftest gemini-companion-host-connect/consent-is-asked-once ()
  (gemini-companion-host-connect-test--with-host
    (let* ((custom-file (gemini-companion-test-file "custom.el" ""))
           (user-init-file custom-file))
      (gemini-companion-test-with-answer 'no
        (should-error (gemini-companion-connect "/ssh:farm:/src") :type 'user-error)
        (should (string-match-p "\\`Anyone with root on farm can see"
                                (car gemini-companion-test-questions)))
        (should-not gemini-companion-host-connection-all))
      (gemini-companion-test-with-answer 'yes
        (gemini-companion-host-connect-test--open "/ssh:farm:/src")
        (should (= 1 (length gemini-companion-test-questions))))
      (should (eq 'always (gemini-companion-answer-get '(connect . "farm"))))
      (should (equal (gemini-companion-test-read custom-file) ""))
      (gemini-companion-test-with-answer nil
        (gemini-companion-host-connect-test--open "/scp:farm:/src")))))

(ert-deftest gemini-companion-host-connect/host-alone-gets-its-home-as-root ()
  (gemini-companion-host-connect-test--with-host
    (let ((connection (gemini-companion-host-connect-test--open "/ssh:build:")))
      (should (eq (gemini-companion-host-connection-state connection) 'ready))
      (should (equal (gemini-companion-host-roots connection)
                     (list (gemini-companion-host-connect-test--file "home"))))
      (should (equal (gemini-companion-host-connect-test--roots)
                     (list (gemini-companion-host-connect-test--file "home")))))))

(ert-deftest gemini-companion-host-connect/second-directory-is-one-more-root ()
  (gemini-companion-host-connect-test--with-host
    (let ((connection (gemini-companion-host-connect-test--open)))
      (should (eq connection (gemini-companion-host-connect-to "/ssh:build:/lib/")))
      (gemini-companion-test-wait
       "the roots"
       (lambda () (equal (gemini-companion-host-connect-test--roots) '("/src" "/lib"))))
      (should (length= gemini-companion-host-connection-all 1)))))

(ert-deftest gemini-companion-host-connect/a-root-that-is-a-link-has-two-names ()
  "The CLI works in the directory that the link leads to.
If Emacs did not know that, the CLI would be told of files in all projects."
  (gemini-companion-host-connect-test--with-host
    (let* ((connection (gemini-companion-host-connect-test--open "/ssh:build:/link/"))
           (tell (lambda (text)
                   (gemini-companion--handle-wire-message
                    (gemini-companion-host-connection-wire connection) text))))
      (dolist (no '("{\"say\": \"root\", \"root\": \"/a/../b\"}" "{\"say\": \"root\"}"))
        (funcall tell no))
      (funcall tell "{\"say\": \"root\", \"root\": \"/real\"}")
      (gemini-companion-host-connect-to "/ssh:build:/other/")
      (gemini-companion-test-wait
       "the roots" (lambda () (equal (gemini-companion-host-connect-test--roots)
                                     '("/link" "/real" "/other"))))
      (should (equal (gemini-companion-workspace-scope-names
                      (gemini-companion-workspace-scope-of "/ssh:build:/real"))
                     '("/ssh:build:/real/")))
      ;; A host may say anything.
      (dotimes (n 200)
        (funcall tell (format "{\"say\": \"root\", \"root\": \"/%d\"}" n)))
      (should (length= (gemini-companion-host-roots
                        connection)
                       100)))))

(ert-deftest gemini-companion-host-connect/of-several-hosts-that-of-the-buffer-is-disconnected ()
  "That is what RET means when Emacs asks for a host."
  (gemini-companion-host-connect-test--with-host
    (gemini-companion-answer-set '(connect . "other") 'always)
    (mapc #'gemini-companion-host-connect-test--open
          '("/ssh:build:/src" "/ssh:other:/src" "/scp:build:/src"))
    (cl-letf (((symbol-function 'completing-read)
               (lambda (_prompt _names _predicate _match _initial _history &optional default)
                 (or default ""))))
      (pcase-dolist (`(,directory . ,left) '(("/ssh:other:/src/lisp/" "build" "scp:build")
                                             ("/" "scp:build")))
        (let ((default-directory directory))
          (call-interactively #'gemini-companion-disconnect))
        (should (equal (mapcar #'gemini-companion-host-connection-name
                               gemini-companion-host-connection-all)
                       left))))))

(ert-deftest gemini-companion-host-connect/root-that-comes-late-is-announced ()
  "The keeper has been told the roots, and is about to say that it is ready."
  (gemini-companion-host-connect-test--with-host
    (let ((go (gemini-companion-host-connect-test--file "home/go")))
      (call-process "mkfifo" nil nil nil go)
      (let ((connection (gemini-companion-host-connect-to "/ssh:build:/src")))
        (gemini-companion-test-wait
         "the keeper" (lambda () (gemini-companion-host-connect-test--told)))
        (gemini-companion-host-connect-to "/ssh:build:/lib")
        (call-process "sh" nil nil nil "-c" "echo >\"$0\"" go)
        (gemini-companion-host-connect-test--await connection '(ready))
        (gemini-companion-test-wait
         "the roots"
         (lambda () (equal (gemini-companion-host-connect-test--roots) '("/src" "/lib"))))))))

(ert-deftest gemini-companion-host-connect/user-is-told-that-it-is-ready ()
  (gemini-companion-host-connect-test--with-host
    (gemini-companion-test-with-answer nil
      (gemini-companion-connect "/ssh:build:")
      (should (equal gemini-companion-test-messages '("Connecting to build...")))
      (gemini-companion-test-wait
       "a message" (lambda () (string-prefix-p "Connected to build:"
                                               (car gemini-companion-test-messages)))))))

(ert-deftest gemini-companion-host-connect/hosts-are-completed-without-a-connection ()
  (gemini-companion-host-connect-test--with-host
    (cl-letf (((symbol-function 'tramp-get-completion-function)
               (lambda (_) '((ignore "x") (tramp-parse-auth-sources "ssh")
                             (gemini-companion-host-connect-test--hosts "y"))))
              ((symbol-function 'gemini-companion-host-connect-test--hosts)
               (lambda (_) '((nil nil) (nil "one") ("me" "two"))))
              ((symbol-function 'tramp-parse-auth-sources)
               (lambda (_) (ert-fail "It may ask for a password"))))
      (gemini-companion-answer-set '(connect . "a@b#22|c") 'always)
      (gemini-companion-answer-set '(connect . "three") 'always)
      (should (equal (gemini-companion-host-connect--candidates)
                     '("/ssh:three:" "/ssh:a@b#22|ssh:c:" "/ssh:build:" "/ssh:one:"
                       "/ssh:me@two:"))))
    (should (equal (gemini-companion-host-connect--parse "me@two") "/ssh:me@two:"))
    (should (equal (gemini-companion-host-connect--parse "/scp:two:/x") "/scp:two:/x"))
    (should (equal (gemini-companion-host-connect--parse "me@[::1]") "/ssh:me@[::1]:"))
    ;; Of these, Tramp would take a part for a file.
    (dolist (text '("/tmp/x" "two:22" "::1" "two:/x" "ssh two"))
      (should-error (gemini-companion-host-connect--parse text) :type 'user-error))))

(ert-deftest gemini-companion-host-connect/a-host-alone-is-only-that-once-tramp-is-there ()
  "Then Tramp would tell its home directory, even if nobody wants that.
It was taken for a file, or for the root instead of the mounted project."
  (gemini-companion-host-connect-test--with-host
    (let ((tramp-methods `(("ssh" . ,(alist-get "mock" tramp-methods nil nil #'equal))
                           ,@tramp-methods)))
      (unwind-protect
          (progn
            (should (file-exists-p "/ssh:build:/"))
            (should (file-remote-p "/ssh:build:/" nil 'connected))
            (should (equal (gemini-companion-host-connect--parse "build") "/ssh:build:"))
            (should-error (gemini-companion-host-connect--parse "build:22") :type 'user-error)
            (gemini-companion-connect "/ssh:build:")
            ;; The host will say which one it has.
            (should-not (gemini-companion-host-roots (car gemini-companion-host-all))))
        (tramp-cleanup-all-connections)))))

;;;; Faults

(ert-deftest gemini-companion-host-connect/faults-say-what-to-do ()
  (pcase-dolist (`(,file ,text ,expected)
                 '(("refusal" "me@build: Permission denied (publickey,password).\r"
                    "without asking for a password (me@build: .*password)\\.)\\.  .*ssh-agent")
                   ("refusal" "Host key verification failed." "key of the host.*terminal")
                   ("refusal" "ssh: Could not resolve hostname build: Name or service not known"
                    "cannot be reached")
                   ("refusal" "" "program that leads there has ended")
                   ("home/say" "echo 'gemini-companion: fault node no node on PATH'; exit"
                    "Node.js is missing")
                   ("home/messages"
                    "{\"say\":\"fault\",\"kind\":\"owner\",\"text\":\"/tmp/x is of another\"}"
                    "/tmp/x is of another.*TMPDIR")
                   ("home/messages" "{\"say\":\"fault\",\"kind\":[],\"text\":\"the disk\"}"
                    "cannot announce.*the disk")
                   ("home/messages" "\377" "makes no sense")))
    (gemini-companion-host-connect-test--with-host
      (gemini-companion-host-connect-test--put file text)
      (should (string-match-p expected (gemini-companion-host-connect-test--fault)))
      ;; Nothing is left.
      (should-not gemini-companion-host-all))))

(ert-deftest gemini-companion-host-connect/missing-ssh-is-a-fault ()
  (gemini-companion-host-connect-test--with-host
    (let ((gemini-companion-ssh-program "/nonexistent/ssh"))
      (should (string-match-p "`gemini-companion-ssh-program'" (gemini-companion-host-connect-test--fault))))))

(ert-deftest gemini-companion-host-connect/host-may-take-seconds-to-answer ()
  "A proxy on the way to it may have to log in first, for example."
  (gemini-companion-host-connect-test--with-host
    (gemini-companion-host-connect-test--put
     "say" "case \" $* \" in
  *\" ConnectTimeout=\"[0-9]\" \"*) echo 'Connection timed out during banner exchange' >&2; exit 255 ;;
esac")
    (should (eq (gemini-companion-host-connection-state (gemini-companion-host-connect-test--open))
                'ready))))

(ert-deftest gemini-companion-host-connect/silent-host-is-given-up ()
  (dolist (say '("exec sleep 1000" "exec cat"
                 "echo 'gemini-companion: shell'; exec sleep 1000"
                 "echo 'gemini-companion: frames'; exec sleep 1000"
                 "echo; echo '%s $(x)'; exec sleep 1000"))
    (gemini-companion-host-connect-test--with-host
      (gemini-companion-host-connect-test--put "say" say)
      (let ((gemini-companion-host-connection--patience 0.3))
        (should (string-match-p "does not answer" (gemini-companion-host-connect-test--fault)))))))

(ert-deftest gemini-companion-host-connect/shared-connection-that-is-silent-is-given-up ()
  (gemini-companion-host-connect-test--with-host
    (gemini-companion-host-connect-test--put "refusal" "Permission denied (publickey).")
    (gemini-companion-host-connect-test--put "check" "exec sleep 1000")
    (let ((gemini-companion-host-connection--patience 0.3))
      (should (string-match-p "does not answer" (gemini-companion-host-connect-test--fault))))))

(ert-deftest gemini-companion-host-connect/flood-is-cut ()
  "Emacs handles no more than a few parts of it."
  (dolist (say '("exec yes" "exec yes >&2" "exec cat /dev/zero"
                 "exec tr '\\0' a </dev/zero"
                 "exec yes 'gemini-companion: shell'"))
    (gemini-companion-host-connect-test--with-host
      (gemini-companion-host-connect-test--put "say" say)
      (should (string-match-p "sends far more" (gemini-companion-host-connect-test--fault))))))

(ert-deftest gemini-companion-host-connect/warnings-are-kept ()
  (gemini-companion-host-connect-test--with-host
    (gemini-companion-host-connect-test--put
     "home/messages"
     (mapconcat (lambda (number) (format "{\"say\":\"warning\",\"text\":\"w%d\\u001b\"}" number))
                (number-sequence 1 7) "\n"))
    (should (equal (gemini-companion-host-connection-warnings (gemini-companion-host-connect-test--open))
                   '("w7^[" "w6^[" "w5^[" "w4^[" "w3^[")))))

;;;; Shared connections

(ert-deftest gemini-companion-host-connect/what-tramp-shares-is-used-if-needed ()
  (gemini-companion-host-connect-test--with-host
    (let ((tramp-ssh-controlmaster-options "-o ControlMaster=auto -o ControlPath=tramp.%%C"))
      (gemini-companion-host-connect-test--put "refusal" "Permission denied (publickey).")
      (gemini-companion-host-connect-test--put "shared" "")
      (let* ((connection (gemini-companion-host-connect-test--open))
             (path (expand-file-name "tramp.%C" tramp-compat-temporary-file-directory))
             (options (list "-o" "ControlMaster=no" "-o" (concat "ControlPath=" path))))
        (should (eq (gemini-companion-host-connection-state connection) 'ready))
        (should (string-search
                 (string-join options " ")
                 (string-join (gemini-companion-host-connection-command connection "x" t) " ")))
        (should (string-search (concat (string-join options " ") " -o ConnectTimeout")
                               (gemini-companion-host-connect-test--get "calls")))))))

(ert-deftest gemini-companion-host-connect/host-that-refuses-is-asked-once ()
  (gemini-companion-host-connect-test--with-host
    (gemini-companion-host-connect-test--put "refusal" "Permission denied (publickey).")
    (should (string-match-p "ssh-agent" (gemini-companion-host-connect-test--fault)))
    (pcase-let ((`(,first . ,others)
                 (split-string (gemini-companion-host-connect-test--get "calls") "\n" t)))
      (should (string-suffix-p "exec sh" first))
      (should others)
      (dolist (call others)
        (should (string-prefix-p "-O check " call))))))

;;;; The end, and a new beginning

(defun gemini-companion-host-connect-test--kill ()
  "Kill the program that stands in for ssh."
  (signal-process (string-to-number (gemini-companion-host-connect-test--get "pid")) 'SIGKILL)
  (delete-file (gemini-companion-host-connect-test--file "pid")))

(ert-deftest gemini-companion-host-connect/lost-connection-is-made-again ()
  "What a program there has printed is no reason to give up."
  (gemini-companion-host-connect-test--with-host
    (gemini-companion-host-connect-test--put "home/say" "echo 'x: Permission denied' >&2")
    (let* ((connection (gemini-companion-host-connect-test--open))
           (tokens (gemini-companion-bridge-open-host "/ssh:build:")))
      (gemini-companion-test-with-answer nil
        (gemini-companion-host-connect-test--kill)
        (gemini-companion-host-connect-test--await connection '(lost))
        (gemini-companion-host-connect-test--await connection '(ready))
        ;; It was not lost for long.
        (should-not gemini-companion-test-messages))
      (should (equal tokens (gemini-companion-bridge-open-host "/ssh:build:")))
      (should gemini-companion-host-all)
      ;; It keeps its place among several Emacsen.
      (should (equal (cl-loop for told in (gemini-companion-host-connect-test--told)
                              if (equal (alist-get 'do told) "announce")
                              collect (alist-get 'slot told))
                     '(nil 1))))))

(defun gemini-companion-host-connect-test--pause (connection)
  "Return the number of seconds until Emacs next tries to make CONNECTION."
  (let ((timer (gemini-companion-host-connection-timer connection)))
    (if (and timer (eq (timer--function timer) #'gemini-companion-host-connection-start))
        (float-time (time-subtract (timer--time timer) nil))
      0)))

(ert-deftest gemini-companion-host-connect/the-mode-line-shows-hosts ()
  (gemini-companion-host-connect-test--with-host
    (let ((connection (gemini-companion-host-connect-test--open))
          (there "/ssh:build:/src/"))
      (should (equal (gemini-companion-host-mode-line there) "@build"))
      (should (equal (gemini-companion-host-mode-line "/src/") ""))
      (gemini-companion-test-with-answer nil
        (gemini-companion-host-connect-test--put "cut" "")
        (gemini-companion-host-connect-test--kill)
        (gemini-companion-host-connect-test--await connection '(lost))
        (dolist (directory (list there "/src/"))
          (should (equal (gemini-companion-host-mode-line directory) " lost@build")))
        (should (string-suffix-p " lost@build" (gemini-companion-state)))
        ;; The user need not wait for the next attempt.
        (cl-decf (gemini-companion-host-connection-lost-since connection) 1000)
        (gemini-companion-test-wait
         "a long pause"
         (lambda () (> (gemini-companion-host-connect-test--pause connection) 12)))
        (delete-file (gemini-companion-host-connect-test--file "cut"))
        (should (string-prefix-p "lost for 16 min" (gemini-companion-host-connection-describe-state
                                                    connection)))
        (gemini-companion-connect there)
        (gemini-companion-host-connect-test--await connection '(ready)))
      (should (equal (gemini-companion-host-mode-line "/src/") "")))))

(ert-deftest gemini-companion-host-connect/no-command-asks-a-lost-host-for-the-project ()
  "Tramp would wait for it, for ever if the network is gone."
  (gemini-companion-host-connect-test--with-host
    (let ((connection (gemini-companion-host-connect-test--open)))
      (gemini-companion-test-with-answer nil
        (gemini-companion-host-connect-test--put "cut" "")
        (gemini-companion-host-connect-test--kill)
        (gemini-companion-host-connect-test--await connection '(lost))
        (let ((project-find-functions (list (lambda (_) (ert-fail "The host is asked"))))
              (default-directory "/ssh:build:/src/lisp/"))
          (should (equal (gemini-companion-cli-run-project) "/ssh:build:/src/"))
          (cl-letf (((symbol-function 'file-remote-p)
                     (let ((real (symbol-function 'file-remote-p)))
                       (lambda (file &optional part connected)
                         ;; Tramp does not notice.
                         (funcall real file part (and (not (eq connected 'connected))
                                                      connected))))))
            (gemini-companion-connect default-directory))
          (should (equal (gemini-companion-host-roots (car gemini-companion-host-all))
                         '("/src")))
          (let ((default-directory "/ssh:build:/etc/"))
            (should (equal (gemini-companion-cli-run-project) "/ssh:build:/etc/"))))))))

(ert-deftest gemini-companion-host-connect/no-command-waits-until-tramp-connects ()
  "Its connection may have ended, after a night or by `tramp-cleanup-all-connections'.
Keys that only send something to a CLI would log in again, and ask for a password."
  (gemini-companion-host-connect-test--with-host
    (gemini-companion-host-connect-test--open)
    (let* ((asked nil)
           (project-find-functions (list (lambda (directory)
                                           (push directory asked)
                                           nil))))
      (let ((default-directory "/ssh:build:/src/lisp/"))
        (should (equal (gemini-companion-cli-run-project) "/ssh:build:/src/"))
        (should-not asked))
      ;; What is in no workspace root may still be in a project.
      (let ((default-directory "/ssh:build:/etc/"))
        (should (equal (gemini-companion-cli-run-project) "/ssh:build:/etc/"))
        (should (equal asked '("/ssh:build:/etc/")))))))

(ert-deftest gemini-companion-host-connect/a-key-does-not-ask-for-the-project-again ()
  "Ten seconds later, each key that sends something to a CLI asked twenty questions.
Newer Emacsen remember projects themselves."
  (gemini-companion-test-with-project
    (mapc (lambda (it) (make-directory (gemini-companion-test-file it) t)) '(".git" "src/lib"))
    (let ((directory (gemini-companion-test-host-file "src/lib/"))
          (root (file-name-as-directory (gemini-companion-test-host-file "."))))
      (should (file-exists-p directory)) ; the user has been there
      (should (equal (gemini-companion-workspace-project directory) root))
      (let ((remote-file-name-inhibit-cache t)) ; so what Tramp knows is always too old
        (gemini-companion-test-host-unasked
          (should (equal (gemini-companion-workspace-project directory) root)))))))

(ert-deftest gemini-companion-host-connect/the-server-is-told-when-the-host-is-reachable ()
  "While the host is not, its clients have more time to return."
  (gemini-companion-host-connect-test--with-host
    (let ((told nil))
      (cl-letf (((symbol-function 'gemini-companion-bridge-set-host-reachable)
                 (lambda (prefix reachable)
                   (should (equal prefix "/ssh:build:"))
                   (unless (eq reachable (car told)) (push reachable told)))))
        (let ((connection (gemini-companion-host-connect-test--open)))
          (should (equal told '(t)))
          (gemini-companion-test-with-answer nil
            (gemini-companion-host-connect-test--kill)
            (gemini-companion-host-connect-test--await connection '(lost))
            (gemini-companion-host-connect-test--await connection '(ready)))
          (should (equal told '(t nil t))))))))

(ert-deftest gemini-companion-host-connect/pauses-grow-and-there-are-no-messages ()
  (gemini-companion-host-connect-test--with-host
    (let ((connection (gemini-companion-host-connect-test--open)))
      (gemini-companion-test-with-answer nil
        (gemini-companion-host-connect-test--put "cut" "")
        (gemini-companion-host-connect-test--kill)
        (gemini-companion-test-wait
         "some attempts"
         (lambda () (> (gemini-companion-host-connect-test--pause connection) 0.05)))
        (should (eq (gemini-companion-host-connection-proven connection) t))
        (delete-file (gemini-companion-host-connect-test--file "cut"))
        (gemini-companion-host-connect-test--await connection '(ready))
        (should-not gemini-companion-test-messages)
        ;; One that has held for a while begins with a short pause when it is lost.
        (cl-decf (gemini-companion-host-connection-since connection) 31)
        (cl-decf (gemini-companion-host-connection-lost-since connection) 1000)
        (gemini-companion-host-connect-test--kill)
        (gemini-companion-host-connect-test--await connection '(lost))
        (gemini-companion-host-connect-test--await connection '(ready))))))

(ert-deftest gemini-companion-host-connect/what-worked-before-is-tried-again ()
  "There may be too many open files."
  (gemini-companion-host-connect-test--with-host
    (let ((connection (gemini-companion-host-connect-test--open)))
      (set-file-modes gemini-companion-ssh-program #o644)
      (cl-letf (((symbol-function 'executable-find) #'identity))
        (gemini-companion-host-connect-test--kill)
        (gemini-companion-test-wait
         "an attempt that fails"
         (lambda () (string-match-p "denied"
                                    (gemini-companion-host-connection-describe-state connection)))))
      (set-file-modes gemini-companion-ssh-program #o755)
      (gemini-companion-host-connect-test--await connection '(ready)))))

(ert-deftest gemini-companion-host-connect/reviews-stay-however-often-it-fails ()
  (gemini-companion-host-connect-test--with-host
    (gemini-companion-host-connect-test--open)
    (let* ((tokens (gemini-companion-bridge-open-host "/ssh:build:"))
           (client (gemini-companion-test-host-connect (alist-get 'gemini tokens) "/src"))
           (review (gemini-companion-test-open-diff
                    client "/src/a.c" "int b;\n" "/ssh:build:"
                    '(:proposal "1" :current (:text "int a;\n") :stamp "s" :modified 1700000000))))
      (gemini-companion-test-with-answer nil
        (gemini-companion-host-connect-test--put "refusal" "Permission denied (publickey).")
        (gemini-companion-host-connect-test--kill)
        (gemini-companion-host-connect-test--await (car gemini-companion-host-connection-all) '(failed))
        (dotimes (_ 2) (gemini-companion-host-connect-test--fault)))
      (should (gemini-companion-review-open-p review))
      (delete-file (gemini-companion-host-connect-test--file "refusal"))
      (delete-file (gemini-companion-host-connect-test--file "home/told"))
      (should (eq 'ready (gemini-companion-host-connection-state (gemini-companion-host-connect-test--open))))
      ;; Clients there have the same configuration as before.
      (should (eql 1 (alist-get 'slot (car (gemini-companion-host-connect-test--told)))))
      (should (equal tokens (gemini-companion-bridge-open-host "/ssh:build:")))
      (should (gemini-companion-review-open-p review))
      (fake-cli-disconnect client))))

(ert-deftest gemini-companion-host-connect/what-does-not-pass-ends-attempts ()
  "The reviews of clients there stay, until the user disconnects."
  (gemini-companion-host-connect-test--with-host
    (let ((connection (gemini-companion-host-connect-test--open)))
      (gemini-companion-test-with-answer nil
        (gemini-companion-host-connect-test--put "refusal" "Permission denied (publickey).")
        (gemini-companion-host-connect-test--kill)
        (gemini-companion-host-connect-test--await connection '(failed))
        (should (string-match-p "ssh-agent.*M-x gemini-companion-connect"
                                (car gemini-companion-test-messages)))
        (should gemini-companion-host-all)
        ;; The user may do that too early.
        (should (eq 'failed (gemini-companion-host-connection-state
                             (gemini-companion-host-connect-test--open))))
        (should gemini-companion-host-all)
        (delete-file (gemini-companion-host-connect-test--file "refusal"))
        (should (eq 'ready (gemini-companion-host-connection-state
                            (gemini-companion-host-connect-test--open))))
        (should (length= gemini-companion-host-connection-all 1))
        (gemini-companion-host-connect-test--put "refusal" "Permission denied (publickey).")
        (gemini-companion-host-connect-test--kill)
        (gemini-companion-host-connect-test--await (car gemini-companion-host-connection-all) '(failed))
        (gemini-companion-mode -1)
        (should-not gemini-companion-host-all)
        (should-not gemini-companion-host-connection-all)))))

(ert-deftest gemini-companion-host-connect/keeper-cleans-up-at-the-end ()
  "Whether the user disconnects or switches the mode off, which lasts."
  (dolist (end (list (lambda () (call-interactively #'gemini-companion-disconnect))
                     (lambda () (gemini-companion-mode -1))
                     (lambda () (run-hooks 'kill-emacs-hook))))
    (gemini-companion-host-connect-test--with-host
      (progn
        (gemini-companion-host-connect-test--open)
        (funcall end)
        (gemini-companion-test-wait
         "the keeper" (lambda () (string-suffix-p "ended\n" (gemini-companion-host-connect-test--get
                                                             "home/told"))))
        (should-not gemini-companion-host-all)
        (should-not gemini-companion-host-connection-all)
        (gemini-companion-host-connect-test--wait-ended)
        (gemini-companion-mode 1)
        (should-not (gemini-companion-host-connect-test--processes))))))

(ert-deftest gemini-companion-host-connect/nobody-waits-in-vain ()
  (gemini-companion-host-connect-test--with-host
    (gemini-companion-host-connect-test--put "say" "exec sleep 1000")
    (let* ((connection (gemini-companion-host-connect-to "/ssh:build:/src"))
           (told 'nothing))
      (gemini-companion-host-connection-when-ready connection (lambda (fault) (setq told fault)))
      (should (eq told 'nothing))
      (gemini-companion-disconnect "build")
      (gemini-companion-test-wait "the outcome" (lambda () (stringp told)))
      (gemini-companion-host-connect-test--wait-ended))))

;;;; The CLI in a terminal

(defmacro gemini-companion-host-connect-test--with-cli (&rest body)
  "Evaluate BODY with a CLI on the host, in /ssh:build:DIRECTORY/.
DIRECTORY is home/it's.  Tramp must not be asked for anything."
  (declare (indent 0) (debug t))
  `(gemini-companion-host-connect-test--with-host
     (gemini-companion-host-connect-test--put
      "home/bin/gemini" "#!/bin/sh\nprintf '<%s>' \"$PWD\" \"$GEMINI_CLI_IDE_PID\" \"$@\"
echo end\nexec cat\n")
     (set-file-modes (gemini-companion-host-connect-test--file "home/bin/gemini") #o755)
     (gemini-companion-host-connect-test--put "home/.profile" "PATH=$HOME/bin:$PATH\n")
     (make-directory (gemini-companion-host-connect-test--file "home/it's"))
     (let ((gemini-companion-terminal 'term)
           (gemini-companion-program "/here/gemini")
           (gemini-companion-arguments '("a b"))
           (default-directory (concat "/ssh:build:" (gemini-companion-host-connect-test--file "home/it's/"))))
       (gemini-companion-answer-set '(setup gemini . "/ssh:build:") 'never)
       (cl-letf (((symbol-function 'project-current) #'ignore)
                 ((symbol-function 'tramp-maybe-open-connection)
                  (lambda (&rest _) (ert-fail "Tramp was asked"))))
         (unwind-protect (progn ,@body)
           (pcase-dolist (`(,buffer . ,_) (gemini-companion-cli-run-terminals))
             (delete-process (get-buffer-process buffer))))))))

(defun gemini-companion-host-connect-test--terminal ()
  "Return the terminal in which a CLI runs once it shows all that it prints."
  (gemini-companion-test-wait
   "a terminal"
   (lambda ()
     (when-let* ((terminal (caar (gemini-companion-cli-run-terminals))))
       (with-current-buffer terminal
         (and (string-match-p "end" (buffer-string)) terminal))))))

(ert-deftest gemini-companion-host-connect/cli-runs-on-the-host ()
  "It starts when the host is connected, and its ssh learns no secret."
  (gemini-companion-host-connect-test--with-cli
    (gemini-companion-run)
    (should (equal (buffer-name) "*gemini: build:it's*"))
    (should (equal (buffer-string) "Connecting to build...\n"))
    (should-not (file-remote-p default-directory))
    (let ((terminal (gemini-companion-host-connect-test--terminal))
          (root (gemini-companion-host-connect-test--file "home/it's"))
          (connection (car gemini-companion-host-connection-all)))
      (should (eq terminal (current-buffer)))
      (should (equal default-directory (concat "/ssh:build:" root "/")))
      (should (string-search (format "<%s><%s><a b>end" root
                                     (gemini-companion-host-connection-keeper connection))
                             (string-replace "\n" "" (buffer-string))))
      (should (string-match-p "\\`-t -e none -o RemoteCommand=none -o ControlMaster=no -o \
ControlPath=none -- build exec sh "
                              (gemini-companion-host-connect-test--get "terminal")))
      (should-not (string-match-p "GEMINI_CLI_IDE\\|QWEN_CODE_IDE\\|LLXPRT"
                                  (gemini-companion-host-connect-test--get "terminal-environment")))
      ;; A new connection needs no new terminal.
      (gemini-companion-host-connect-test--kill)
      (gemini-companion-host-connect-test--await connection '(lost))
      (gemini-companion-host-connect-test--await connection '(ready))
      (should (eq (caar (gemini-companion-cli-run-terminals)) terminal))
      (should (eq (gemini-companion-cli-run-buffer gemini-companion-cli-run-root) terminal))
      ;; If it is mounted from here, the project here is the same.
      (setf (gemini-companion-host-mounts connection)
            `((,root . "/here/p")))
      (should (eq (gemini-companion-cli-run-buffer "/here/p/") terminal))
      (should (equal (gemini-companion-cli-send-mention "/here/p/a b" default-directory)
                     "@a\\ b"))
      (should-error (gemini-companion-cli-send-mention "/here/q" default-directory)
                    :type 'user-error))))

(ert-deftest gemini-companion-host-connect/cli-resumes-a-session-of-the-host ()
  "The host lists them, in the directory of the project."
  (gemini-companion-host-connect-test--with-cli
    (gemini-companion-host-connect-test--put
     "home/bin/gemini" "#!/bin/sh\n[ \"$*\" != --list-sessions ] || {
echo \"  1. In ${PWD##*/} (Just now) [id-1]\"; exit; }\nprintf '<%s>' \"$@\"; echo end; exec cat\n")
    (let ((asked nil))
      (cl-letf (((symbol-function 'gemini-companion-ui-user-frame-p) #'always)
                ((symbol-function 'completing-read)
                 (lambda (prompt &rest arguments)
                   (setq asked prompt)
                   (nth 5 arguments))))
        (gemini-companion-resume)
        (with-current-buffer (gemini-companion-host-connect-test--terminal)
          (should (string-search "<--resume><id-1><a b>end"
                                 (string-replace "\n" "" (buffer-string))))))
      (should (equal asked "Session of Gemini CLI to resume (default In it's): ")))))

(ert-deftest gemini-companion-host-connect/fault-leaves-no-terminal ()
  (gemini-companion-host-connect-test--with-cli
    (gemini-companion-host-connect-test--put "refusal" "Permission denied (publickey).")
    (let ((buffer (current-buffer)))
      (gemini-companion-test-with-answer nil
        (gemini-companion-run)
        (should-not (eq (current-buffer) buffer))
        (gemini-companion-test-wait "a message"
                                    (lambda () (string-match-p "ssh-agent"
                                                               (or (car gemini-companion-test-messages)
                                                                   ""))))
        (should-not (get-buffer "*gemini: build:it's*"))))))

(ert-deftest gemini-companion-host-connect/fault-takes-the-consent-to-tools-back ()
  "Nothing could be written, so the next attempt asks again."
  (gemini-companion-host-connect-test--with-cli
    (gemini-companion-host-connect-test--put "refusal" "Permission denied (publickey).")
    (cl-letf (((symbol-function 'gemini-companion-tool-extension-ask-host)
               (lambda (_) (gemini-companion-answer-set '(tools . "/ssh:build:") 'always) t)))
      (gemini-companion-run))
    (gemini-companion-test-wait "the end of the attempt"
                                (lambda () (not (get-buffer "*gemini: build:it's*"))))
    (should-not (gemini-companion-answer-get '(tools . "/ssh:build:")))
    (should (gemini-companion-answer-get '(setup gemini . "/ssh:build:")))))

(ert-deftest gemini-companion-host-connect/killed-terminal-stays-killed ()
  (gemini-companion-host-connect-test--with-cli
    (gemini-companion-run)
    (kill-buffer)
    (gemini-companion-host-connect-test--await (car gemini-companion-host-connection-all) '(ready))
    (accept-process-output nil 0.01)
    (should-not (gemini-companion-cli-run-terminals))
    (should-not (get-buffer "*gemini: build:it's*"))))

(ert-deftest gemini-companion-host-connect/agents-that-cannot-connect-are-refused ()
  (gemini-companion-host-connect-test--with-cli
    (should-error (gemini-companion-run-other 'llxprt) :type 'user-error)
    (should-not gemini-companion-host-connection-all)))

(ert-deftest gemini-companion-host-connect/prompts-name-files-of-the-host ()
  (gemini-companion-host-connect-test--with-cli
    (gemini-companion-run)
    (let* ((terminal (gemini-companion-host-connect-test--terminal))
           (root (gemini-companion-host-connect-test--file "home/it's/")))
      (dolist (case `((,(concat "/ssh:build:" root "a b.c") "@a\\ b.c ")
                      ("/ssh:build:/etc/motd" "@/etc/motd ")
                      ("/ssh:other:/etc/motd" nil)
                      ("/etc/motd" nil)))
        (pcase-let ((`(,file ,expected) case))
          (with-temp-buffer
            (setq buffer-file-name file
                  default-directory (file-name-directory file))
            (should (eq (gemini-companion-cli-send-terminal) terminal))
            (if expected
                (cl-letf (((symbol-function 'gemini-companion-cli-send-text)
                           (lambda (text &rest _) (should (equal text expected)))))
                  (gemini-companion-send-file))
              (should-error (gemini-companion-send-file) :type 'user-error))
            (setq buffer-file-name nil))))
      ;; Completion asks nobody.
      (with-temp-buffer
        (setq buffer-file-name (concat "/ssh:build:" root "lib/x y.c"))
        (unwind-protect
            (let ((default-directory (concat "/ssh:build:" root)))
              (should (equal (gemini-companion-cli-compose--files) '("lib/x\\ y.c"))))
          (setq buffer-file-name nil))))))

;;;; Reports

(defun gemini-companion-host-connect-test--status ()
  "Return the text of the status buffer."
  (save-window-excursion
    (gemini-companion-status)
    (buffer-substring-no-properties (point-min) (point-max))))

(ert-deftest gemini-companion-host-connect/status-shows-hosts ()
  (gemini-companion-host-connect-test--with-host
    (should-not (string-search "Other machines" (gemini-companion-host-connect-test--status)))
    (let ((connection (gemini-companion-host-connect-test--open)))
      (cl-letf (((symbol-function 'gemini-companion-bridge-sessions)
                 (lambda ()
                   '(["1" "stdio-client" nil 5 open 0 0 "/ssh:build:/src" nil]
                     ["2" "other" nil 5 open 0 0 nil nil] ["3" "new" nil 1 open 0 0 nil t]))))
        (should (string-match-p
                 "Other machines\n  build: connected for [0-9]+ s (far, process [0-9]+ there), \
1 session, /src  \\[disconnect\\]\n" (gemini-companion-host-connect-test--status))))
      (gemini-companion-host-connect-test--put "cut" "")
      (gemini-companion-host-connect-test--kill)
      (gemini-companion-host-connect-test--await connection '(lost))
      (should (string-match-p "build: lost for .*\\[connect\\]  \\[disconnect\\]\n"
                              (gemini-companion-host-connect-test--status)))
      (with-current-buffer "*gemini status*"
        (goto-char (point-min))
        (search-forward "build: ")
        (search-forward "[disconnect")
        (push-button (point)))
      (should-not gemini-companion-host-connection-all)
      (should-not (string-search "Other machines" (gemini-companion-host-connect-test--status))))))

(ert-deftest gemini-companion-host-connect/status-shows-failures ()
  (gemini-companion-host-connect-test--with-host
    (gemini-companion-host-connect-test--put "refusal" "Host key verification failed.")
    (gemini-companion-host-connect-test--fault)
    (should (string-match-p "build: not connected: ssh does not trust"
                            (gemini-companion-host-connect-test--status)))))

(defun gemini-companion-host-connect-test--doctor (&optional directory)
  "Return the doctor's report on DIRECTORY, by default /ssh:build:/src/."
  (save-window-excursion (gemini-companion-doctor (or directory "/ssh:build:/src/")))
  (let ((text (lambda () (with-current-buffer "*gemini doctor*"
                           (buffer-substring-no-properties (point-min) (point-max))))))
    (gemini-companion-test-wait
     text (lambda () (not (string-search "still looking" (funcall text)))))
    (funcall text)))

(ert-deftest gemini-companion-host-connect/doctor-examines-a-host ()
  "What it says is known, or comes from the host without Tramp."
  (gemini-companion-host-connect-test--with-cli
    (should (string-match-p "is not connected.\n.*M-x gemini-companion-connect"
                            (gemini-companion-host-connect-test--doctor)))
    (gemini-companion-host-connect-test--put
     "home/messages" "{\"say\":\"warning\",\"text\":\"/tmp/gemini belongs to another user\"}")
    (let ((connection (gemini-companion-host-connect-to "/ssh:build:/src")))
      (should (string-match-p (concat "\\`One problem\n\\(?:.*\n\\)*.*build: connecting\\.\\.\\.\n"
                                      "\\(?:.*\n\\)*.*Wait a moment")
                              (gemini-companion-host-connect-test--doctor)))
      (setf (gemini-companion-host-connection-proven connection) t)
      (should (string-search "build: lost, connecting again..."
                             (gemini-companion-host-connect-test--doctor)))
      (setf (gemini-companion-host-connection-proven connection) nil))
    (gemini-companion-host-connect-test--open)
    (pcase-dolist (`(,version ,expected)
                   '(("0.61.0" "0\\.61\\.0; 0\\.61\\.0 was tested")
                     ("0.6.1" "0\\.6\\.1, which cannot connect.*\n.*npm install")
                     ("" "did not print its version.*\n.*npm install")))
      (gemini-companion-host-connect-test--put
       "home/bin/gemini" (format "#!/bin/sh\necho hello\necho '%s'\n" version))
      (let ((report (gemini-companion-host-connect-test--doctor)))
        (should (string-match-p expected report))
        (should (string-search "build: connected for" report))
        (should (string-match-p "warns: /tmp/gemini belongs" report))
        (should (string-match-p "No CLI on build is connected.*\n.*/ide enable" report))))
    (should (string-match-p "/other/ is in no workspace root"
                            (gemini-companion-host-connect-test--doctor "/ssh:build:/other/")))))

(ert-deftest gemini-companion-host-connect/doctor-explains-a-failure ()
  (gemini-companion-host-connect-test--with-cli
    (gemini-companion-host-connect-test--put "refusal" "Permission denied (publickey).")
    (gemini-companion-host-connect-test--fault)
    (should (string-match-p "One problem\\(?:.*\n\\)*.*without asking.*\n.*ssh-agent"
                            (gemini-companion-host-connect-test--doctor)))))

;;;; What a container has from this machine

(ert-deftest gemini-companion-host-connect/mounts-are-asked-for-as-commands-are-run ()
  (let ((inspect '("inspect" "--format" "{{json .Mounts}}" "box"))
        (docker (make-tramp-file-name :method "docker" :user "me" :host "box"))
        (other (make-tramp-file-name :method "toolbox" :host "box")))
    (should (equal (gemini-companion-host-command-inspection (list docker)) `("docker" ,@inspect)))
    ;; Methods of Tramp in Emacs 30 that copy files in another way.
    (pcase-dolist (`(,method ,program) '(("dockercp" "docker") ("podmancp" "podman")))
      (let ((copying (make-tramp-file-name :method method :host "box")))
        (should (equal (gemini-companion-host-command (list copying) "x")
                       `(,program "exec" "-i" "box" "sh" "-c" "x")))
        (should (equal (gemini-companion-host-command-inspection (list copying))
                       `(,program ,@inspect)))))
    (let ((gemini-companion-containers
           '(("docker" "sudo" "-n" "docker" "--context" "x" "exec" "-i" "%h")
             ("toolbox" "toolbox" "run" "-c" "%h"))))
      (should (equal (gemini-companion-host-command-inspection (list docker))
                     `("sudo" "-n" "docker" "--context" "x" ,@inspect)))
      (should-not (gemini-companion-host-command-inspection (list other))))))

(ert-deftest gemini-companion-host-connect/mounts-of-a-container ()
  (let* ((directory (directory-file-name (file-truename (gemini-companion-test-temp-directory))))
         (mount (lambda (type here there)
                  (format "{\"Type\":\"%s\",\"Source\":%s,\"Destination\":%s}" type
                          (json-encode here) (json-encode there)))))
    (unwind-protect
        (progn
          (should (equal (gemini-companion-host-command-mounts
                          (format "[%s]\n"
                                  (string-join
                                   (list (funcall mount "bind" directory "/app/")
                                         (funcall mount "volume" directory "/volume")
                                         (funcall mount "bind" "/etc/passwd" "/etc/passwd")
                                         (funcall mount "bind" (concat directory "/none") "/none")
                                         (funcall mount "bind" "here" "/relative")
                                         (funcall mount "bind" "/" "/host")
                                         (funcall mount "bind" directory nil))
                                   ","))
                          "/docker:box:")
                         ;; They hide what is mounted around them.
                         `(("/app" . ,directory) ("/volume" . "/docker:box:/volume")
                           ("/etc/passwd" . "/docker:box:/etc/passwd")
                           ("/none" . "/docker:box:/none") ("/relative" . "/docker:box:/relative")
                           ("/host" . "/docker:box:/host"))))
          (dolist (output '("" "null" "Error: no such container" "{}" "[1, null]" "[[" "7"))
            (should-not (gemini-companion-host-command-mounts output "/docker:box:"))))
      (delete-directory directory))))

;;;; Settings of a CLI on a host

(defvar gemini-companion-host-connect-test--questions nil
  "The questions of the last `gemini-companion-host-connect-test--set-up'.")

(defun gemini-companion-host-connect-test--set-up (connection answer)
  "Let Gemini CLI on the host of CONNECTION connect automatically, as a run does.
ANSWER is the user's, as in `gemini-companion-test-with-answer'.  Return
its settings then."
  (let* ((noninteractive nil)
         (done nil)
         (agreed (gemini-companion-test-with-answer answer
                   (prog1 (gemini-companion-setup-ask-host connection 'gemini)
                     (setq gemini-companion-host-connect-test--questions
                           gemini-companion-test-questions)))))
    (gemini-companion-setup-change-host connection 'gemini agreed (lambda () (setq done t)))
    (gemini-companion-test-wait "the settings" (lambda () done))
    (gemini-companion-host-connect-test--get "home/settings")))

(ert-deftest gemini-companion-host-connect/cli-is-set-up-on-the-host ()
  "That takes one question for each host, before the first run there."
  (gemini-companion-host-connect-test--with-host
    (let ((connection (gemini-companion-host-connect-test--open))
          (settings "{\n\t\"a\": \"ä\" // x\n}\n"))
      (gemini-companion-host-connect-test--put "home/settings" settings)
      (should (equal settings (gemini-companion-host-connect-test--set-up connection 'no)))
      (should (string-match-p "on build, so that Gemini CLI there connects by itself\\?"
                              (car gemini-companion-host-connect-test--questions)))
      ;; That is asked once, and for this host.
      (should (equal settings (gemini-companion-host-connect-test--set-up connection nil)))
      (should (equal (assoc '(setup gemini . "/ssh:build:") (gemini-companion-answer-all))
                     '((setup gemini . "/ssh:build:") . never)))
      (gemini-companion-answer-set '(setup gemini . "/ssh:build:") nil)
      (let ((changed (string-replace "{\n" "{\n\t\"ide\": {\"enabled\": true},\n" settings)))
        (should (equal changed (gemini-companion-host-connect-test--set-up connection 'yes)))
        ;; A CLI that was running has saved the old ones.
        (gemini-companion-host-connect-test--put "home/settings" settings)
        (should (equal changed (gemini-companion-host-connect-test--set-up connection nil)))
        (let ((told (gemini-companion-host-connect-test--told)))
          (gemini-companion-host-connect-test--set-up connection nil)
          (should (equal '("read")
                         (mapcar (lambda (it) (alist-get 'do it))
                                 (nthcdr (length told)
                                         (gemini-companion-host-connect-test--told))))))))))

(ert-deftest gemini-companion-host-connect/settings-switched-off-on-the-host-stay ()
  (gemini-companion-host-connect-test--with-host
    (let ((connection (gemini-companion-host-connect-test--open))
          (off "{\"ide\": {\"enabled\": false}}"))
      (gemini-companion-host-connect-test--put "home/settings" off)
      (gemini-companion-answer-set '(setup gemini . "/ssh:build:") 'always)
      (should (equal off (gemini-companion-host-connect-test--set-up connection nil)))
      ;; Not if the user asks for it.
      (let ((noninteractive nil)
            (default-directory "/ssh:build:/src"))
        (gemini-companion-test-with-answer 'yes
          (gemini-companion-setup)))
      (gemini-companion-test-wait
       "the settings"
       (lambda () (equal (gemini-companion-host-connect-test--get "home/settings")
                         "{\"ide\": {\"enabled\": true}}"))))))

(ert-deftest gemini-companion-host-connect/settings-that-cannot-be-changed-do-not-stop-a-run ()
  (gemini-companion-host-connect-test--with-host
    (let ((connection (gemini-companion-host-connect-test--open)))
      (gemini-companion-answer-set '(setup gemini . "/ssh:build:") 'always)
      (dolist (case '(("home/settings" "[]" "holds no JSON object")
                      ("home/unreadable" "" "it is too large")))
        (gemini-companion-host-connect-test--put (car case) (cadr case))
        (gemini-companion-host-connect-test--set-up connection nil)
        (gemini-companion-test-wait
         (nth 2 case)
         (lambda () (string-search (nth 2 case) (string-join (gemini-companion-log-last 20) "\n")))))
      ;; It is cut before the host answers.
      (gemini-companion-host-connect-test--put "home/mute" "")
      (let ((done nil))
        (gemini-companion-setup-change-host connection 'gemini nil (lambda () (setq done t)))
        (gemini-companion-host-connection-close connection)
        (gemini-companion-test-wait "the end" (lambda () done))))))

;;; gemini-companion-host-connect-test.el ends here

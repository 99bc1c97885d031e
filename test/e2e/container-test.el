;;; container-test.el --- The real CLI in a container  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Emacs visits a file in a container by Tramp, and runs the CLI there.  The
;; container is one of podman, where that is installed; and a machine that is
;; entered by what stands in for podman.

;;; Code:

(require 'ert)
(require 'gemini-companion-test-remote)

(defmacro gemini-companion-container-test--define (name podman docstring &rest body)
  "Define tests NAME/podman and NAME/stand-in that run BODY.
In BODY the variable PODMAN is non-nil if there is a real podman."
  (declare (indent 2) (doc-string 3) (debug (symbolp symbolp stringp body)))
  `(progn
     ,@(mapcar (lambda (variant)
                 `(ert-deftest ,(intern (format "%s/%s" name variant)) ()
                    ,docstring
                    :tags '(any-emacs)
                    (gemini-companion-test-require-far 'machine)
                    (let ((,podman ,(eq variant 'podman)))
                      (when ,podman (gemini-companion-test-far-require-podman))
                      ,@body)))
               '(podman stand-in))))

(defmacro gemini-companion-container-test--with (spec &rest body)
  "Run BODY with an Emacs that visits a.txt in a container.
SPEC is (EMACS FAR PODMAN): two variables, and what is non-nil for a real
podman."
  (declare (indent 1) (debug ((symbolp symbolp form) body)))
  (pcase-let ((`(,emacs ,far ,podman) spec))
    `(gemini-companion-test-with-far
         (,far (gemini-companion-test-far-start-container "box" ,podman))
       (gemini-companion-test-far-write ,far "a.txt" "one\n")
       (gemini-companion-test-with-far-emacs (,emacs)
         (gemini-companion-container-test--teach ,emacs)
         (gemini-companion-test-remote-visit ,emacs ,far "a.txt")
         (gemini-companion-test-remote-count ,emacs)
         ,@body))))

(defun gemini-companion-container-test--teach (emacs)
  "Let Tramp in EMACS know podman, if that is too old, as a package does."
  (gemini-companion-test-eval
   emacs '(progn
            (require 'tramp-sh)
            (unless (assoc "podman" tramp-methods)
              (push '("podman"
                      (tramp-login-program "podman")
                      (tramp-login-args (("exec") ("-it") ("%h") ("/bin/sh")))
                      (tramp-remote-shell "/bin/sh")
                      (tramp-remote-shell-args ("-i" "-c")))
                    tramp-methods))
            nil)))

(gemini-companion-container-test--define gemini-companion-container/the-cli-runs-there podman
  "An edited change is accepted; the CLI learns of files there only, and tells what it does."
  (gemini-companion-container-test--with (emacs far podman)
    (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-run far emacs 'tools))
      (let ((context (gemini-companion-test-remote-context cli)))
        (should (equal (alist-get 'path (alist-get 'activeFile context))
                       "/home/dev/project/a.txt")))
      (gemini-companion-test-remote-review emacs cli "/home/dev/project/a.txt" "two\n")
      ;; In the terminal keys go to the CLI.
      (gemini-companion-test-run emacs '(progn (other-window 1) nil))
      (gemini-companion-test-accept emacs "edited")
      (gemini-companion-test-remote-wait-file far "a.txt" "two\nedited")
      (gemini-companion-test-remote-wait-buffer emacs far "a.txt" "two\nedited")
      (gemini-companion-test-wait-eval
       emacs '(equal (mapcar (lambda (cli)
                               (list (gemini-companion-cli-state cli)
                                     (car (gemini-companion-cli-prompt cli))))
                             (gemini-companion-cli-all))
                     '((done "please write"))))
      (should (equal "box" (gemini-companion-test-eval
                            emacs `(gemini-companion-host-title
                                    ,(gemini-companion-test-far-prefix far))))))))

(defun gemini-companion-container-test--check-end (emacs far form)
  "Check that the CLI of EMACS on FAR ends when FORM ends its terminal."
  (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-run far emacs))
    (let ((command (format "kill -0 %d" (gemini-companion-test-far-cli-id cli))))
      (gemini-companion-test-far-run far command)
      (gemini-companion-test-run emacs form)
      (gemini-companion-test-wait
       "the end of the CLI"
       (lambda () (not (eql 0 (car (gemini-companion-test-far-call far command)))))))))

(gemini-companion-container-test--define gemini-companion-container/the-cli-ends-with-its-terminal
    podman
  "Podman does not tell it that the terminal is gone."
  (gemini-companion-container-test--with (emacs far podman)
    (gemini-companion-container-test--check-end
     emacs far '(let ((kill-buffer-query-functions nil))
                  (kill-buffer (window-buffer))
                  nil))))

(gemini-companion-container-test--define gemini-companion-container/the-cli-ends-with-emacs podman
  "Also if that is killed."
  (gemini-companion-container-test--with (emacs far podman)
    (gemini-companion-container-test--check-end
     emacs far '(run-at-time 0 nil #'signal-process (emacs-pid) 'SIGKILL))))

(gemini-companion-container-test--define gemini-companion-container/what-is-mounted-is-visited-here
    podman
  "The CLI has other names for the files of this machine, and Emacs its own."
  (gemini-companion-test-with-far-emacs (emacs :files '(("a.txt" . "one\ntwo\n")))
    (gemini-companion-test-with-far
        (far (gemini-companion-test-far-start-container "box" podman emacs))
      (gemini-companion-container-test--teach emacs)
      (gemini-companion-test-visit emacs "a.txt")
      (gemini-companion-test-keys emacs "C-n")
      (gemini-companion-test-m-x emacs "gemini-companion-connect")
      (gemini-companion-test-press emacs "/podman:box: Enter" "(y or n)")
      (gemini-companion-test-keys emacs "y")
      (gemini-companion-test-remote-wait-connected emacs far)
      (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-start far))
        (let ((there (gemini-companion-test-far-file far "a.txt"))
              (here (gemini-companion-test-project emacs "a.txt")))
          (should (equal (gemini-companion-test-remote-context cli)
                         `((activeFile (path . ,there) (cursor (line . 2) (character . 1))))))
          (gemini-companion-test-remote-count emacs)
          (gemini-companion-test-remote-review emacs cli there "one\nzwei\n")
          (gemini-companion-test-accept emacs "drei")
          (gemini-companion-test-remote-wait-file far "a.txt" "one\nzwei\ndrei")
          (should (equal (gemini-companion-test-read here) "one\nzwei\ndrei"))
          (gemini-companion-test-wait-eval
           emacs `(with-current-buffer (get-file-buffer ,here)
                    (equal (buffer-string) "one\nzwei\ndrei")))
          (should-not (gemini-companion-test-remote-sent emacs)))))))

(ert-deftest gemini-companion-container/beside-two-hosts-and-a-cli-here ()
  "Each CLI is told of the file of its place, and gets its own outcome.
The file has the same name at each.  Nothing else waits for a host that is lost."
  :tags '(any-emacs)
  (gemini-companion-test-require-far 'machine)
  (gemini-companion-test-with-far (far (gemini-companion-test-far-start-machine "far"))
    (gemini-companion-test-with-far
        (other (gemini-companion-test-far-start-machine "other" "DisableForwarding yes"))
      (gemini-companion-container-test--with (emacs box nil)
        (gemini-companion-test-remote-connect emacs)
        (dolist (host (list far other))
          (gemini-companion-test-remote-prepare emacs host '(("a.txt" . "one\ntwo\n"))))
        (gemini-companion-test-write (gemini-companion-test-project emacs "a.txt") "one\ntwo\n")
        (gemini-companion-test-visit emacs "a.txt")
        (gemini-companion-test-with-cli (on-far (gemini-companion-test-far-cli-start far))
          (gemini-companion-test-with-cli (on-other (gemini-companion-test-far-cli-start other))
            (gemini-companion-test-with-cli (in-box (gemini-companion-test-far-cli-start box))
              (gemini-companion-test-with-cli (here (gemini-companion-test-cli-start emacs))
                (gemini-companion-container-test--decide
                 emacs `((,on-far . ,far) (,on-other . ,other) (,in-box . ,box) (,here)))))))))))

(defun gemini-companion-container-test--decide (emacs clis)
  "Accept a change by each of CLIS in EMACS, while the host of the first is lost.
CLIS is an alist of CLIs and their hosts, nil for this machine.  Emacs
visits a.txt at each place."
  (let ((file (lambda (host)
                (if host (gemini-companion-test-far-file host "a.txt")
                  (gemini-companion-test-project emacs "a.txt"))))
        (lost (cdar clis)))
    (seq-do-indexed
     (pcase-lambda (`(,_ . ,host) index)
       (gemini-companion-test-run
        emacs `(progn (find-file ,(if host (gemini-companion-test-far-tramp host "a.txt")
                                    (funcall file nil)))
                      (goto-char ,(1+ index))
                      nil)))
     clis)
    (seq-do-indexed
     (pcase-lambda (`(,cli . ,host) index)
       (should (equal (gemini-companion-test-remote-context cli)
                      `((activeFile (path . ,(funcall file host))
                                    (cursor (line . 1) (character . ,(1+ index)))))))
       (gemini-companion-test-cli-propose cli (funcall file host) (format "%d\n" index))
       (gemini-companion-test-wait-eval emacs `(= ,(1+ index) (gemini-companion-review-count))))
     clis)
    (gemini-companion-test-remote-count emacs)
    (gemini-companion-test-far-wire-do lost "cut")
    (gemini-companion-test-far-wire-do lost "break")
    (seq-do-indexed
     (pcase-lambda (`(,cli . ,host) index)
       (gemini-companion-test-wait-review emacs (format "%d\n" index))
       (gemini-companion-test-accept emacs "edited")
       (unless (eq host lost)
         (gemini-companion-container-test--wait-accepted emacs cli host index)))
     clis)
    (should-not (eq 'ready (gemini-companion-test-remote-state emacs lost)))
    (should (equal (gemini-companion-test-far-bytes lost "a.txt") "one\ntwo\n"))
    (gemini-companion-test-far-wire-do lost "mend")
    (gemini-companion-container-test--wait-accepted emacs (caar clis) lost 0)
    (should-not (gemini-companion-test-remote-sent emacs))))

(defun gemini-companion-container-test--wait-accepted (emacs cli host index)
  "Wait until a.txt on HOST, or here, is what EMACS accepted of CLI: change INDEX."
  (let ((text (format "%d\nedited" index)))
    (if (not host)
        (gemini-companion-test-wait
         "the file here"
         (lambda () (equal text (gemini-companion-test-read
                                 (gemini-companion-test-project emacs "a.txt")))))
      (gemini-companion-test-remote-wait-file host "a.txt" text)
      (gemini-companion-test-remote-wait-buffer emacs host "a.txt" text))
    (gemini-companion-test-remote-wait-done cli)))

(gemini-companion-container-test--define gemini-companion-container/one-that-is-started-again podman
  "A container that is killed is lost; when it is started again it is connected."
  (gemini-companion-container-test--with (emacs far podman)
    (gemini-companion-test-remote-connect emacs)
    (gemini-companion-test-far-podman far "kill")
    (gemini-companion-test-wait-eval
     emacs '(string-match-p "lost for" (caar (gemini-companion-host-connect-describe))))
    (gemini-companion-test-far-podman far "start")
    (gemini-companion-test-remote-wait-connected emacs)))

(gemini-companion-container-test--define gemini-companion-container/one-that-does-not-run podman
  "The user is told of it in the words of podman."
  (gemini-companion-container-test--with (emacs far podman)
    (gemini-companion-test-run
     emacs '(progn (require 'gemini-companion-host-connect)
                   (gemini-companion-answer-set '(connect . "podman:other") 'always)
                   (gemini-companion-connect "/podman:other:/src")
                   nil))
    (gemini-companion-test-wait-screen emacs "podman:other is not connected: .*no container")
    ;; What ssh would say means something else here.
    (gemini-companion-test-eval
     emacs '(progn (setq gemini-companion-containers
                         '(("podman" "sh" "-c" "echo permission denied: the socket >&2; exit 1")))
                   nil))
    (gemini-companion-test-run
     emacs '(progn (gemini-companion-connect "/podman:other:/src") nil))
    (gemini-companion-test-wait-screen emacs "has ended (permission denied: the socket)")))

;;;; The CLI's own sandbox

(defun gemini-companion-container-test--sandbox (directory)
  "Write programs to DIRECTORY that stand in for podman and what is in its image."
  (make-symbolic-link (gemini-companion-test-path "test" "support" "fake-podman.sh")
                      (expand-file-name "podman" directory))
  (let ((program (expand-file-name "gemini" directory)))
    (gemini-companion-test-write
     program
     (format "#!/bin/sh
export GEMINI_DEBUG_LOG_FILE=$PWD/.git/log GEMINI_CLI_NO_RELAUNCH=true GEMINI_CLI_TRUST_WORKSPACE=true NO_COLOR=1
exec %s %s \"$@\"\n"
             (gemini-companion-test-node)
             (expand-file-name "node_modules/@google/gemini-cli/bundle/gemini.js"
                               gemini-companion-test-client-directory)))
    (set-file-modes program #o755)))

(ert-deftest gemini-companion-container/the-sandbox-of-the-cli-finds-emacs ()
  "It learns of files of its project only, under their own names."
  :tags '(any-emacs)
  (gemini-companion-test-require-far 'machine)
  (let* ((programs (gemini-companion-test-temp-directory))
         (process-environment
          `("GEMINI_SANDBOX=podman" ,(concat "PATH=" programs ":" (getenv "PATH"))
            ,@process-environment)))
    (gemini-companion-container-test--sandbox programs)
    (gemini-companion-test-with-emacs
        (emacs :files '((".git/HEAD" . "") ("a.txt" . "one\ntwo\n"))
               :environment (list "GEMINI_SANDBOX=podman" (concat "PATH=" (getenv "PATH"))))
      (gemini-companion-test-visit emacs "a.txt")
      (gemini-companion-test-keys emacs "C-n")
      (let ((file (gemini-companion-test-project emacs "a.txt")))
        (gemini-companion-test-with-cli
            (cli (gemini-companion-test-cli--start
                  (gemini-companion-test-cli-make
                   emacs (gemini-companion-test-project emacs) 'inside)
                  (lambda (cli)
                    (gemini-companion-container-test--run emacs cli))))
          (should (equal (gemini-companion-test-remote-context cli)
                         `((activeFile (path . ,file) (cursor (line . 2) (character . 1))))))
          (gemini-companion-test-remote-review emacs cli file "one\nzwei\n")
          ;; In the terminal keys go to the CLI.
          (gemini-companion-test-run emacs '(progn (other-window 1) nil))
          (gemini-companion-test-accept emacs "drei")
          (gemini-companion-test-wait
           "the file" (lambda () (equal (gemini-companion-test-read file) "one\nzwei\ndrei")))
          (gemini-companion-test-wait-eval
           emacs `(with-current-buffer (get-file-buffer ,file)
                    (equal (buffer-string) "one\nzwei\ndrei")))
          (should (string-match-p
                   "sandbox:gemini-[^ ]+: connected"
                   (gemini-companion-test-eval
                    emacs '(progn (save-window-excursion (gemini-companion-status))
                                  (with-current-buffer "*gemini status*"
                                    (buffer-substring-no-properties (point-min) (point-max)))))))
          (should (gemini-companion-test-eval
                   emacs '(equal (mapcar #'gemini-companion-cli-terminal
                                         (gemini-companion-cli-all))
                                 (list (window-buffer)))))
          (gemini-companion-test-run emacs '(progn (gemini-companion-doctor) nil))
          (gemini-companion-test-wait-screen emacs "\\* The CLI in this terminal is connected")
          (should-not (string-search "in a sandbox" (gemini-companion-test-screen emacs)))
          (gemini-companion-test-run emacs '(progn (quit-window) nil))
          ;; Nothing is left of it.
          (gemini-companion-test-run
           emacs '(let ((kill-buffer-query-functions nil))
                    (kill-buffer (car (rassoc (expand-file-name default-directory)
                                              (gemini-companion-cli-run-terminals))))
                    nil))
          (should-not (gemini-companion-test-eval
                       emacs '(or gemini-companion-host-all
                                  (directory-files temporary-file-directory nil
                                                   "\\`gemini-[[:alnum:]]\\{6\\}\\'")))))))
    (delete-directory programs t)))

(defun gemini-companion-container-test--run (emacs cli)
  "Run CLI in EMACS with its sandbox; return its process."
  (let ((launch (gemini-companion-test-cli-file cli "launch")))
    (gemini-companion-test-write
     launch
     (string-replace "env -i" "env -i GEMINI_SANDBOX=podman SANDBOX_MOUNTS=\"$SANDBOX_MOUNTS\""
                     (gemini-companion-test-read launch)))
    ;; There it has only the project from here.
    (make-symbolic-link (gemini-companion-test-project emacs ".git/log")
                        (gemini-companion-test-cli-file cli "debug.log"))
    (setf (gemini-companion-test-cli-emacs cli) emacs)
    (gemini-companion-test-run
     emacs `(progn (setq gemini-companion-program ,launch
                         gemini-companion-terminal 'term)
                   (gemini-companion-run)
                   nil))
    (gemini-companion-test-wait-eval
     emacs '(let ((process (get-buffer-process (window-buffer))))
              (and process (process-id process))))))

(provide 'container-test)
;;; container-test.el ends here

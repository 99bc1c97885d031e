;;; remote-host-test.el --- Connections to all kinds of hosts  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What is on a host while Emacs is connected, ways to get there, faults of a host,
;; one that is hostile, and one with other users.

;;; Code:

(require 'gemini-companion-test-remote)

(defun gemini-companion-remote-host-test--modes (far files)
  "Return the permissions of FILES, named as on FAR, as strings."
  (split-string
   (gemini-companion-test-far-run
    far (concat "stat -c '%a' " (mapconcat #'shell-quote-argument files " ")))
   "\n" t))

(ert-deftest gemini-companion-remote-host/what-is-on-the-host ()
  "Only its user can read what is there, and only the relay stays."
  :tags '(any-emacs)
  (gemini-companion-test-with-remote (emacs far '(("a.txt" . "one\n")))
    (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-start far))
      (let* ((files (gemini-companion-test-remote-there
                     far (append (gemini-companion-test-remote-discovery-files far)
                                 (gemini-companion-test-remote-cache far)))))
        (should (member "600" (gemini-companion-remote-host-test--modes far files)))
        (pcase-dolist (`(,file . ,mode)
                       (cl-mapcar #'cons files (gemini-companion-remote-host-test--modes far files)))
          (ert-info (file)
            ;; The editor of the CLIs is a program.
            (should (equal mode (if (string-suffix-p "-edit.mjs" file) "700" "600")))))
        (should (equal (gemini-companion-remote-host-test--modes
                        far (list (concat (gemini-companion-test-far-home far)
                                          "/.cache/gemini-companion")))
                       '("700"))))
      ;; The keeper is not in the list of processes, nor a file.
      (should-not (string-search "Announces Emacs" (gemini-companion-test-far-run
                                                    far "ps -ef; cat ~/.cache/gemini-companion/*.json")))
      (gemini-companion-test-m-x emacs "gemini-companion-disconnect")
      (gemini-companion-test-wait
       (lambda () (format "only the relay to be left; there is %S"
                          (gemini-companion-test-remote-cache far)))
       (lambda ()
         (and (null (gemini-companion-test-remote-discovery-files far))
              (equal 1 (length (gemini-companion-test-remote-cache far)))
              (string-match-p "/relay-[0-9a-f]+\\.mjs\\'"
                              (car (gemini-companion-test-remote-cache far)))))))))

;;;; Ways to a host

(ert-deftest gemini-companion-remote-host/consent-is-asked-once ()
  "Without consent nothing is connected; with it, the host is not asked for again."
  :tags '(any-emacs)
  (gemini-companion-test-require-far)
  (gemini-companion-test-with-far (far (gemini-companion-test-far-start "far"))
    (gemini-companion-test-far-write far "a.txt" "one\n")
    (gemini-companion-test-with-far-emacs (emacs)
      (gemini-companion-test-remote-visit emacs far "a.txt")
      (gemini-companion-test-m-x emacs "gemini-companion-connect" "(y or n)")
      (gemini-companion-test-press emacs "n" "far is not connected")
      (should-not (gemini-companion-test-remote-cache far))
      (gemini-companion-test-remote-connect emacs)
      (gemini-companion-test-m-x emacs "gemini-companion-disconnect")
      (gemini-companion-test-remote-wait-only-relay far)
      (gemini-companion-test-m-x emacs "gemini-companion-connect")
      (gemini-companion-test-remote-wait-connected emacs))))

(ert-deftest gemini-companion-remote-host/by-way-of-another-host ()
  "A host behind another one, by the user's configuration or by Tramp's names.
Its user enters what Tramp calls it, and need not have been there."
  :tags '(any-emacs)
  (gemini-companion-test-require-far)
  (gemini-companion-test-with-far (far (gemini-companion-test-far-start "far"))
    (gemini-companion-test-with-far-emacs (emacs)
      (dolist (prefix '("/ssh:jumped-far:" "/ssh:direct-far|ssh:far:"))
        (ert-info (prefix)
          (gemini-companion-test-m-x emacs "gemini-companion-connect" "Connect to:")
          (gemini-companion-test-type emacs prefix)
          (gemini-companion-test-press emacs "Enter" "(y or n)")
          (gemini-companion-test-keys emacs "y")
          (gemini-companion-test-remote-wait-connected emacs prefix))))))

(ert-deftest gemini-companion-remote-host/with-a-passphrase ()
  "A key with a passphrase, for which Tramp asks, is enough."
  :tags '(any-emacs)
  (gemini-companion-test-require-far)
  (gemini-companion-test-with-far (far (gemini-companion-test-far-start "far"))
    (gemini-companion-test-far-write far "a.txt" "one\n")
    (gemini-companion-test-far-lock far "open sesame")
    (gemini-companion-test-with-far-emacs (emacs)
      ;; It would first ask for a name to look the passphrase up.
      (gemini-companion-test-eval emacs '(setq auth-sources nil))
      (gemini-companion-test-press emacs "M-:" "Eval:")
      (gemini-companion-test-type
       emacs (format "(find-file %S)" (gemini-companion-test-far-tramp far "a.txt")))
      (gemini-companion-test-keys emacs "Enter")
      ;; Tramp would say "Pin" if the name of the key happened to contain that.
      (gemini-companion-test-wait-screen emacs "\\(?:Enter passphrase\\|Pin\\) for ")
      (gemini-companion-test-type emacs "open sesame" "Enter")
      (gemini-companion-test-wait-eval emacs '(equal (buffer-name) "a.txt"))
      (gemini-companion-test-remote-connect emacs))))

;;;; Faults

(defun gemini-companion-remote-host-test--wait-fault (emacs regexp)
  "Let EMACS connect with the host of its current file.
Wait until it says that this matches REGEXP, and the doctor, too."
  (gemini-companion-test-m-x emacs "gemini-companion-connect" "(y or n)")
  (gemini-companion-test-keys emacs "y")
  (gemini-companion-test-wait-screen emacs regexp)
  (gemini-companion-test-m-x emacs "gemini-companion-doctor")
  (gemini-companion-test-wait-eval
   emacs `(seq-some (lambda (buffer)
                      (and (string-match-p "doctor" (buffer-name buffer))
                           (with-current-buffer buffer
                             (save-excursion
                               (goto-char (point-min))
                               (re-search-forward ,regexp nil t)))))
                    (buffer-list))))

(ert-deftest gemini-companion-remote-host/forwarding-is-refused ()
  "A login is all that is needed."
  :tags '(any-emacs)
  (gemini-companion-test-require-far)
  (gemini-companion-test-with-far
      (far (gemini-companion-test-far-start "far" "DisableForwarding yes"))
    (gemini-companion-test-far-write far "a.txt" "one\n")
    (gemini-companion-test-with-far-emacs (emacs)
      (gemini-companion-test-remote-visit emacs far "a.txt")
      (gemini-companion-test-remote-connect emacs)
      (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-start far))
        (gemini-companion-test-remote-review
         emacs cli (gemini-companion-test-far-file far "a.txt") "two\n")
        (gemini-companion-test-accept emacs)
        (gemini-companion-test-remote-wait-file far "a.txt" "two\n")))))

(ert-deftest gemini-companion-remote-host/there-is-no-node ()
  "A host without Node is told of as such."
  :tags '(any-emacs)
  (gemini-companion-test-require-far 'machine)
  (gemini-companion-test-with-far (far (gemini-companion-test-far-start-machine "far"))
    (gemini-companion-test-far-write far "a.txt" "one\n")
    (delete-file (gemini-companion-test-far-local
                  far (file-truename (gemini-companion-test-node))))
    (gemini-companion-test-with-far-emacs (emacs)
      (gemini-companion-test-remote-visit emacs far "a.txt")
      (gemini-companion-remote-host-test--wait-fault emacs "Node\\.js is missing")
      (should-not (gemini-companion-test-remote-discovery-files far)))))

(ert-deftest gemini-companion-remote-host/a-host-that-says-nothing ()
  "Emacs can be used while a host does not answer, and when the wire is cut."
  :tags '(any-emacs)
  (gemini-companion-test-require-far)
  (gemini-companion-test-with-far
      (far (gemini-companion-test-far-start "far" "ForceCommand sleep 1000"))
    (gemini-companion-test-with-far-emacs (emacs :files '(("a.txt" . "one\n")))
      (gemini-companion-test-visit emacs "a.txt")
      (gemini-companion-test-eval
       emacs '(progn (require 'gemini-companion-host-connect)
                     (gemini-companion-answer-set '(connect . "far") 'always)
                     nil))
      (gemini-companion-test-run
       emacs `(progn (gemini-companion-connect ,(gemini-companion-test-far-prefix far)) nil))
      (gemini-companion-test-type emacs "still here")
      (gemini-companion-test-wait-screen emacs "still here")
      (should (eq 'connecting (gemini-companion-test-remote-state emacs far)))
      (gemini-companion-test-m-x emacs "gemini-companion-disconnect")
      (gemini-companion-test-wait-screen emacs "far is \\(?:disconnected\\|not connected\\)")
      (should-not (gemini-companion-test-remote-state emacs far)))))

;;;; A host that is hostile

(ert-deftest gemini-companion-remote-host/a-host-that-floods ()
  "Emacs can be used while a host floods it; a CLI there can be used afterwards."
  (gemini-companion-test-with-remote (emacs far '(("a.txt" . "one\n")))
    (gemini-companion-test-run emacs '(progn (switch-to-buffer "*scratch*") nil))
    (let* ((config (seq-find (lambda (it) (string-suffix-p "-gemini.json" it))
                             (gemini-companion-test-remote-cache far)))
           (output (generate-new-buffer " *hostile*"))
           (process (start-process
                     "hostile" output (gemini-companion-test-node)
                     (gemini-companion-test-path "test" "support" "hostile-host.mjs")
                     config "3"))
           (count 0))
      (set-process-query-on-exit-flag process nil)
      (gemini-companion-test-wait
       "the attack to begin"
       (lambda () (string-search "begun" (with-current-buffer output (buffer-string)))))
      (while (process-live-p process)
        (cl-incf count)
        (gemini-companion-test-type emacs (format "%d." count))
        (gemini-companion-test-wait-screen emacs (format "^%d\\." count) 5)
        (gemini-companion-test-keys emacs "C-a" "C-k"))
      (should (> count 10))
      (gemini-companion-test-wait
       "the count of answers"
       (lambda () (string-search "\"200\"" (with-current-buffer output (buffer-string)))))
      (kill-buffer output))
    (should-not (gemini-companion-test-remote-sent emacs))
    (should-not (gemini-companion-test-eval
                 emacs '(with-current-buffer (gemini-companion-log--buffer)
                          (save-excursion
                            (goto-char (point-min))
                            (and (re-search-forward "Symbol’s\\|Wrong type\\|Invalid\\|rror" nil t)
                                 (buffer-substring (line-beginning-position)
                                                   (line-end-position)))))))
    ;; Its sessions have ended with it.
    (gemini-companion-test-m-x emacs "gemini-companion-disconnect")
    (gemini-companion-test-wait-eval emacs '(zerop (gemini-companion-review-count)))
    (gemini-companion-test-run emacs '(progn (switch-to-buffer "a.txt") nil))
    (gemini-companion-test-remote-connect emacs)
    (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-start far))
      (gemini-companion-test-remote-review
       emacs cli (gemini-companion-test-far-file far "a.txt") "two\n")
      (gemini-companion-test-accept emacs)
      (gemini-companion-test-remote-wait-file far "a.txt" "two\n"))))

;;;; A machine with other users

(defun gemini-companion-remote-host-test--refused (far user command)
  "Check that COMMAND of USER fails on FAR."
  (ert-info (command)
    (pcase-let ((`(,status . ,output) (gemini-companion-test-far-call far command user)))
      (should-not (eql status 0))
      (should-not (eql status 255))      ; ssh's own
      (should (stringp output)))))

(defun gemini-companion-remote-host-test--try-as-mallory (far cli)
  "Try to reach as another user of FAR what is there for CLI.
That user reaches neither socket nor files, and there is no port."
  (let* ((cache (gemini-companion-test-remote-there
                 far (gemini-companion-test-remote-cache far)))
         (sockets (seq-filter (lambda (it)
                                (zerop (car (gemini-companion-test-far-call
                                             far (format "test -S %s" it)))))
                              cache))
         (request "node -e 'require(\"net\").connect(process.argv[1]).on(\"error\",()=>process.exit(1)).on(\"connect\",()=>process.exit(0))' %s"))
    (should sockets)
    (gemini-companion-test-far-run far (format request (car sockets)))
    (dolist (each (append cache
                          (gemini-companion-test-remote-there
                           far (gemini-companion-test-remote-discovery-files far))))
      (gemini-companion-remote-host-test--refused far "mallory" (format "cat %s" each))
      (gemini-companion-remote-host-test--refused far "mallory" (format "rm -f %s" each)))
    (gemini-companion-remote-host-test--refused
     far "mallory" "ls /home/dev/.cache/gemini-companion")
    (gemini-companion-remote-host-test--refused far "mallory" (format request (car sockets)))
    ;; What listens there is sshd and the model.
    (should (equal (sort (mapcar
                          (lambda (line) (cadr (split-string line)))
                          (split-string
                           (gemini-companion-test-far-run
                            far "grep ' 0A ' /proc/net/tcp /proc/net/tcp6 | sed 's/.*[0-9]: //' | awk '{print 1, substr($1, length($1) - 3)}'")
                           "\n" t))
                         #'string<)
                   (sort (list "0016" "0016"
                               (format "%04X" (gemini-companion-test-model-port
                                               (gemini-companion-test-cli-model cli))))
                         #'string<)))))

(ert-deftest gemini-companion-remote-host/the-directory-of-another-user ()
  "Who owns /tmp/gemini there gets nothing, also if it is a link."
  :tags '(any-emacs)
  (gemini-companion-test-require-far 'machine)
  (gemini-companion-test-with-far (far (gemini-companion-test-far-start-machine "far"))
    (gemini-companion-test-far-write far "a.txt" "one\n")
    (gemini-companion-test-with-far-emacs (emacs)
      (gemini-companion-test-remote-visit emacs far "a.txt")
      (gemini-companion-test-eval emacs '(progn (require 'gemini-companion-host-connect)
                                                (gemini-companion-answer-set '(connect . "far") 'always)
                                                nil))
      (dolist (trap '("mkdir -p /tmp/gemini/ide && chmod -R 777 /tmp/gemini"
                      "ln -s /home/dev/project /tmp/gemini"
                      "mkdir /tmp/gemini && ln -s /home/dev/project /tmp/gemini/ide"))
        (ert-info (trap)
          (gemini-companion-test-far-run far (concat "rm -rf /tmp/gemini && " trap) "mallory")
          (let ((before (gemini-companion-test-far-run far "find /tmp/gemini" "mallory")))
            (gemini-companion-test-run emacs '(progn (message nil) (delete-other-windows) nil))
            (gemini-companion-test-m-x emacs "gemini-companion-connect" "belongs to another user")
            (should (equal (gemini-companion-test-far-run far "find /tmp/gemini" "mallory")
                           before)))
          (should (equal (gemini-companion-test-far-run far "ls /home/dev/project")
                         "a.txt\n")))))))

(ert-deftest gemini-companion-remote-host/a-machine-with-nothing-in-common ()
  "On another machine an edited review is accepted through a cut of the wire.
Another user of that machine has no part in it."
  (gemini-companion-test-require-far 'machine)
  (gemini-companion-test-with-remote
      (emacs far '(("a.txt" . "one\n")) #'gemini-companion-test-far-start-machine)
    (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-start far))
      (let ((context (gemini-companion-test-remote-context cli)))
        (should (equal (alist-get 'path (alist-get 'activeFile context))
                       "/home/dev/project/a.txt")))
      (gemini-companion-remote-host-test--try-as-mallory far cli)
      (gemini-companion-test-remote-review
       emacs cli "/home/dev/project/a.txt" "two\n")
      (gemini-companion-test-append-to-proposal emacs "edited")
      (gemini-companion-test-far-wire-do far "cut")
      (gemini-companion-test-accept emacs)
      (gemini-companion-test-wait-no-review emacs)
      (gemini-companion-remote-host-test--kill-ssh emacs)
      (gemini-companion-test-wait-eval
       emacs '(not (memq (gemini-companion-host-connection-state
                          (car gemini-companion-host-connection-all))
                         '(ready))))
      (gemini-companion-test-far-wire-do far "mend")
      (gemini-companion-test-remote-wait-file far "a.txt" "two\nedited" 60)
      (gemini-companion-test-remote-wait-done cli)
      (gemini-companion-test-remote-wait-buffer emacs far "a.txt" "two\nedited")
      (should-not (gemini-companion-test-remote-sent emacs)))))

(defun gemini-companion-remote-host-test--kill-ssh (emacs)
  "Kill the ssh that holds the connection of EMACS, as when it gives up."
  (gemini-companion-test-eval
   emacs '(let ((default-directory "/")) ; Tramp would list those of the host
            (dolist (id (list-system-processes))
              (let ((attributes (process-attributes id)))
                (when (and (eql (alist-get 'ppid attributes) (emacs-pid))
                           (equal (alist-get 'comm attributes) "ssh")
                           ;; Tramp has one of its own.
                           (string-search "BatchMode=yes" (alist-get 'args attributes "")))
                  (signal-process id 9)))))))

;;; remote-host-test.el ends here

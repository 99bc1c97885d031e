;;; hooks-test.el --- What the hooks of the real CLIs tell  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The CLI runs in a terminal that is not one of Emacs, and has the home of Emacs, into which Emacs
;; writes the extension.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defmacro gemini-companion-hooks-test--with-emacs (emacs &rest body)
  "Run BODY with EMACS, which visits a.txt and has written the hooks of CLIs."
  (declare (indent 1) (debug (symbolp body)))
  `(progn
     (gemini-companion-test-require-real-client)
     (gemini-companion-test-with-emacs (,emacs :mode t :files '(("a.txt" . "one\n")))
       (gemini-companion-test-visit ,emacs "a.txt")
       (gemini-companion-test-enable-tools ,emacs)
       ,@body)))

(defmacro gemini-companion-hooks-test--with (spec &rest body)
  "Run BODY with an Emacs that visits a.txt, and a CLI whose hooks tell it.
SPEC is (EMACS CLI), two variables."
  (declare (indent 1) (debug ((symbolp symbolp) body)))
  (pcase-let ((`(,emacs ,cli) spec))
    `(gemini-companion-hooks-test--with-emacs ,emacs
       (gemini-companion-test-with-cli (,cli (gemini-companion-test-cli-start-at-home ,emacs))
         ,@body))))

(defun gemini-companion-hooks-test--wait-state (emacs state)
  "Wait until the only CLI that EMACS knows is in STATE."
  (gemini-companion-test-wait-eval
   emacs `(equal (mapcar #'gemini-companion-cli-state (gemini-companion-cli-all)) '(,state))))

(defun gemini-companion-hooks-test--prompt (emacs)
  "Return the text of the last prompt of the only CLI that EMACS knows."
  (gemini-companion-test-eval
   emacs '(car (gemini-companion-cli-prompt (car (gemini-companion-cli-all))))))

(ert-deftest gemini-companion-hooks/a-turn-is-seen ()
  "While a change waits, nothing works; the prompt is known without the files that it mentions."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with (emacs cli)
    (let ((file (gemini-companion-test-project emacs "a.txt")))
      (gemini-companion-hooks-test--wait-state emacs 'idle)
      (gemini-companion-test-cli-script
       cli `("write_file" :file_path ,file :content "two\n") "All done")
      (gemini-companion-test-cli-submit cli "please write @a.txt")
      (gemini-companion-test-wait-review emacs "two\n")
      (gemini-companion-hooks-test--wait-state emacs 'working)
      (gemini-companion-test-wait-screen emacs " Gem:1!1)")
      (should (equal (gemini-companion-hooks-test--prompt emacs) "please write @a.txt"))
      (gemini-companion-test-accept emacs)
      (gemini-companion-test-cli-wait-screen cli "All done")
      (gemini-companion-hooks-test--wait-state emacs 'done)
      (gemini-companion-test-m-x emacs "gemini-companion-history-list" "please write @a\\.txt"))))

(ert-deftest gemini-companion-hooks/a-question-is-seen ()
  "So is the end of a turn, if that has taken a while."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with (emacs cli)
    (gemini-companion-test-eval emacs '(setq gemini-companion-notify-turn 0))
    (gemini-companion-test-cli-script cli '("run_shell_command" :command "touch made") "All done")
    (gemini-companion-test-cli-submit cli "please touch" "Allow")
    (gemini-companion-hooks-test--wait-state emacs 'asking)
    (gemini-companion-test-wait-screen emacs " Gem:1\\?")
    (gemini-companion-test-wait-screen emacs "Gemini CLI asks a question in project")
    (should (string-match-p "touch made"
                            (gemini-companion-test-eval
                             emacs '(gemini-companion-cli-question
                                     (car (gemini-companion-cli-all))))))
    (gemini-companion-test-cli-answer cli "Enter")
    (gemini-companion-test-cli-wait-screen cli "All done")
    (gemini-companion-hooks-test--wait-state emacs 'done)
    (gemini-companion-test-wait-screen emacs "Gemini CLI is done in project")))

(ert-deftest gemini-companion-hooks/the-list-shows-stops-and-prompts-a-cli ()
  "One that Emacs runs: from its start to its end, by the keys of the list."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with-emacs emacs
    (make-symbolic-link (gemini-companion-test-path "test" "support" "fake-notify-send.sh")
                        (gemini-companion-test-project emacs "notify-send"))
    (gemini-companion-test-eval
     emacs '(progn (defvar gemini-companion-hooks-test-states nil)
                   (add-hook 'gemini-companion-cli-state-functions
                             (lambda (cli)
                               (push (gemini-companion-cli-list-state cli)
                                     gemini-companion-hooks-test-states)))
                   (require 'gemini-companion-cli-list)
                   (require 'gemini-companion-notify)
                   (setq gemini-companion-notify-turn 0)
                   (push default-directory exec-path)
                   (advice-add 'gemini-companion-notify--means :override
                               (lambda () 'notify-send))
                   nil))
    (gemini-companion-test-with-cli (cli (gemini-companion-test-cli-start-by-command
                                          emacs 'term 'at-home))
      (should (equal (gemini-companion-test-eval emacs '(reverse gemini-companion-hooks-test-states))
                     '("starts, 0 s" "ready")))
      (gemini-companion-test-run emacs '(select-window (get-buffer-window "a.txt")))
      (gemini-companion-test-m-x emacs "gemini-companion-cli-list" "project +Gemini CLI +ready")
      (gemini-companion-test-cli-script
       cli '("run_shell_command" :command "touch made") "All done")
      (gemini-companion-test-press emacs "s" "Prompt")
      (gemini-companion-test-type emacs "please touch" "Enter")
      ;; The user looks elsewhere.
      (gemini-companion-test-keys emacs "-l" "\e[O")
      (gemini-companion-test-wait-screen emacs "asks, [0-9]+ s: .*touch.* please touch")
      (gemini-companion-hooks-test--wait-notified emacs "Gemini CLI asks a question in project")
      ;; The CLI shows the question after its hooks have run.
      (gemini-companion-test-cli-wait-screen cli "1\\. Allow once")
      (gemini-companion-test-press emacs "y" "done [0-9]+ s ago +please touch")
      (gemini-companion-hooks-test--wait-notified emacs "Gemini CLI is done in project please touch")
      (should (file-exists-p (gemini-companion-test-project emacs "made")))
      (gemini-companion-test-m-x emacs "gemini-companion-next")
      (gemini-companion-test-wait-eval
       emacs '(equal (buffer-name (window-buffer)) "*gemini: project*"))
      (should (equal (gemini-companion-test-eval
                      emacs '(condition-case problem (gemini-companion-next)
                               (user-error (cadr problem))))
                     "No CLI wants anything from you")))))

(ert-deftest gemini-companion-hooks/a-turn-that-is-stopped-is-over ()
  "The mode lines say that it works.  In its terminal, Emacs sees the end, which no hook reports."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with-emacs emacs
    (gemini-companion-test-with-cli (cli (gemini-companion-test-cli-start-by-command
                                          emacs 'term 'at-home))
      (gemini-companion-test-cli-script cli '("run_shell_command" :command "sleep 1000"))
      (gemini-companion-test-cli-submit cli "please sleep")
      (gemini-companion-test-cli-wait-terminal cli "1\\. Allow once")
      (gemini-companion-test-keys emacs "Enter")
      (gemini-companion-test-cli-wait-terminal cli "esc to cancel")
      (gemini-companion-hooks-test--wait-state emacs 'working)
      (gemini-companion-test-run emacs '(select-window (get-buffer-window "a.txt")))
      (gemini-companion-test-m-x emacs "gemini-companion-cli-list" "works, [0-9]+ s +please sleep")
      (gemini-companion-test-wait-screen emacs "\\*gemini: project\\* works")
      (gemini-companion-test-wait-screen emacs " Gem:1 works")
      (gemini-companion-test-press emacs "k" "Stop what Gemini CLI is doing in project\\?")
      (gemini-companion-test-press emacs "y" "done [0-9]+ s ago +please sleep"))))

(defun gemini-companion-hooks-test--wait-notified (emacs text)
  "Wait until the desktop of EMACS has been told TEXT."
  (let ((log (gemini-companion-test-project emacs "log")))
    (gemini-companion-test-wait
     (format "the notification %s" text)
     (lambda () (and (file-exists-p log)
                     (string-search text (gemini-companion-test-read log)))))))

(ert-deftest gemini-companion-hooks/a-new-prompt-ends-a-change-that-was-given-up ()
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with (emacs cli)
    (gemini-companion-test-cli-propose
     cli (gemini-companion-test-project emacs "a.txt") "two\n" emacs)
    (gemini-companion-test-cli-answer cli "Escape")
    (gemini-companion-test-cli-wait-screen cli "Type your message")
    (gemini-companion-test-cli-submit cli "something else")
    (gemini-companion-test-wait-no-review emacs)))

(ert-deftest gemini-companion-hooks/a-turn-is-one-diff-and-one-undo ()
  "In YOLO mode, in which Emacs reviews nothing, but lets the user follow."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with (emacs cli)
    (gemini-companion-test-eval emacs '(setq gemini-companion-follow t))
    (let ((a (gemini-companion-test-project emacs "a.txt"))
          (b (gemini-companion-test-project emacs "b.txt")))
      (gemini-companion-test-cli-press cli "C-y" "YOLO")
      (gemini-companion-test-cli-script
       cli `("write_file" :file_path ,a :content "two\n")
       `("write_file" :file_path ,a :content "three\n")
       `("write_file" :file_path ,b :content "new\n") "All done")
      (gemini-companion-test-cli-submit cli "write two files" "All done")
      (gemini-companion-hooks-test--wait-state emacs 'done)
      (gemini-companion-test-wait-screen emacs "\\(?:^\\|[|│]\\)new *$")
      (should (equal (gemini-companion-test-eval emacs '(buffer-name (window-buffer))) "a.txt"))
      (gemini-companion-test-m-x emacs "gemini-companion-history-list" "write two files")
      (gemini-companion-test-run
       emacs '(progn (goto-char (point-min)) (re-search-forward "^Prompt of") (beginning-of-line)))
      (gemini-companion-test-press emacs "Enter" "-one.*\n.*\\+three")
      (gemini-companion-test-run emacs '(progn (goto-char (point-min)) (search-forward "+three")))
      (gemini-companion-test-press emacs "c" "Comment on line 1:")
      (gemini-companion-test-type emacs "why three?")
      (gemini-companion-test-press emacs "Enter" "1 comment for your next prompt")
      (gemini-companion-test-keys emacs "U")
      (gemini-companion-test-wait-screen emacs "3 changes: b\\.txt (will be deleted), a\\.txt\\.  Undo them\\?")
      (gemini-companion-test-press emacs "y" "3 changes undone")
      (should (equal (gemini-companion-test-read a) "one\n"))
      (should-not (file-exists-p b)))))

(defun gemini-companion-hooks-test--write-twice (emacs cli)
  "Let CLI, which edits without a question, write a.txt, which EMACS visits.
Then let it do so again, while there are unsaved edits, about which it asks."
  (let ((file (gemini-companion-test-project emacs "a.txt")))
    (gemini-companion-test-cli-script
     cli `("write_file" :file_path ,file :content "two\n") "First done")
    (gemini-companion-test-cli-submit cli "please write" "First done")
    (should (equal (gemini-companion-test-read file) "two\n"))
    (should (equal (gemini-companion-test-eval
                    emacs '(mapcar (lambda (it)
                                     (cons (gemini-companion-history-outcome it)
                                           (car (gemini-companion-history-prompt it))))
                                   (gemini-companion-history-all)))
                   '((unreviewed . "please write"))))
    (gemini-companion-test-run emacs '(progn (revert-buffer t t) (insert "mine\n")))
    (gemini-companion-test-cli-script
     cli `("write_file" :file_path ,file :content "three\n") "Second done")
    (gemini-companion-test-cli-submit cli "please write again")
    (gemini-companion-test-wait-review emacs "three\n")
    (should (equal (gemini-companion-test-read file) "two\n"))
    (gemini-companion-test-reject emacs)
    (gemini-companion-test-wait-no-review emacs)
    ;; No hook tells that.
    (gemini-companion-hooks-test--wait-state emacs 'done)
    (should (equal (gemini-companion-test-read file) "two\n"))
    (should (gemini-companion-test-eval emacs '(buffer-modified-p (get-buffer "a.txt"))))
    (gemini-companion-test-run emacs '(with-current-buffer "a.txt" (set-buffer-modified-p nil)))))

(ert-deftest gemini-companion-hooks/the-emacs-of-a-cli-is-told-beside-a-newer-one ()
  "The CLI would prefer that now, but was connected before."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with (emacs cli)
    (gemini-companion-test-with-emacs
        (newer :mode t
               :environment (list (concat "TMPDIR=" (gemini-companion-test-tmpdir emacs))))
      (let ((file (gemini-companion-test-project emacs "a.txt")))
        (gemini-companion-test-run newer `(progn (find-file ,file) nil))
        (gemini-companion-test-wait
         "two Emacsen that announce the project"
         (lambda ()
           (= 2 (seq-count (lambda (announcement)
                             (string-search (gemini-companion-test-project emacs "")
                                            (gemini-companion-test-read announcement)))
                           (gemini-companion-test-discovery-files emacs)))))
        (gemini-companion-test-cli-submit cli "hello")
        (gemini-companion-test-cli-wait-requests cli 1)
        (gemini-companion-test-wait-eval
         emacs '(gemini-companion-cli-prompt (car (gemini-companion-cli-all))))
        (should-not (gemini-companion-test-eval newer '(gemini-companion-cli-all)))))))

(ert-deftest gemini-companion-hooks/unsaved-edits-are-asked-about-in-any-mode ()
  "Without them, a change in YOLO mode is not proposed."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with (emacs cli)
    (gemini-companion-test-cli-press cli "C-y" "YOLO")
    (gemini-companion-hooks-test--write-twice emacs cli)))

(defun gemini-companion-hooks-test--run (cli)
  "Start CLI without a terminal, in YOLO mode, to write \"two\" to a.txt.
Return the process."
  (gemini-companion-test-cli-script
   cli `("write_file" :file_path "a.txt" :content "two\n") "All done")
  (make-process :name "headless" :buffer (generate-new-buffer " *headless*" t) :noquery t
                :connection-type 'pipe :sentinel #'ignore
                :command (list (gemini-companion-test-cli-file cli "launch")
                               "--yolo" "-p" "please write")))

(defun gemini-companion-hooks-test--ends-well-p (process)
  "Wait until PROCESS, a CLI, has ended; return non-nil if that is as usual."
  (gemini-companion-test-wait "the end of the CLI" (lambda () (not (process-live-p process))))
  (prog1 (and (= 0 (process-exit-status process))
              (with-current-buffer (process-buffer process)
                (string-match-p "All done" (buffer-string))))
    (kill-buffer (process-buffer process))))

(ert-deftest gemini-companion-hooks/without-a-terminal-a-review-can-be-asked-for ()
  "If the CLI is connected: nobody else could answer."
  (pcase-dolist (`(,settings ,review) '((nil t) (((ide (enabled . :false))) nil)))
    (gemini-companion-hooks-test--with-emacs emacs
      (gemini-companion-test-run emacs '(progn (goto-char (point-max)) (insert "mine\n")))
      (let* ((process (gemini-companion-hooks-test--run
                       (gemini-companion-test-cli-make-at-home emacs settings))))
        (when review
          (gemini-companion-test-wait-review emacs "two\n")
          (gemini-companion-test-accept emacs)
          (gemini-companion-test-wait-screen emacs "unsaved edits")
          (gemini-companion-test-keys emacs "a"))
        (should (gemini-companion-hooks-test--ends-well-p process))
        (should (equal (gemini-companion-test-read (gemini-companion-test-project emacs "a.txt"))
                       "two\n"))
        (should (equal (gemini-companion-test-eval
                        emacs '(mapcar (lambda (it) (car (gemini-companion-history-prompt it)))
                                       (gemini-companion-history-all)))
                       '("please write")))
        (gemini-companion-test-wait-eval emacs '(null (gemini-companion-cli-all))))
      (gemini-companion-test-run
       emacs '(with-current-buffer "a.txt" (set-buffer-modified-p nil))))))

(ert-deftest gemini-companion-hooks/an-edit-without-a-question-is-below-its-prompt ()
  "In accept-edits mode; a file with unsaved edits is asked about there, too."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with (emacs cli)
    (gemini-companion-test-cli-press cli "BTab" "auto-accept\\|accepting edits\\|auto edit")
    (gemini-companion-hooks-test--write-twice emacs cli)))

(ert-deftest gemini-companion-hooks/another-front-tells-of-its-turns ()
  "By ACP, where only two of the hooks exist."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with-emacs emacs
    (let* ((cli (gemini-companion-test-cli-make-at-home emacs))
           (file (gemini-companion-test-project emacs "a.txt"))
           (editor (gemini-companion-test-editor-start emacs cli)))
      (unwind-protect
          (progn
            (gemini-companion-test-cli-script
             cli `("write_file" :file_path ,file :content "two\n")
             '("run_shell_command" :command "until [ -e go ]; do sleep 0.1; done") "All done")
            (gemini-companion-test-program-send
             editor '((prompt . "please write") (answer . "allow_once")))
            (gemini-companion-hooks-test--wait-state emacs 'working)
            (should (equal (gemini-companion-hooks-test--prompt emacs) "please write"))
            (gemini-companion-test-write (gemini-companion-test-project emacs "go") "")
            (gemini-companion-test-editor-wait editor "done" 1)
            (gemini-companion-hooks-test--wait-state emacs 'done)
            (should (equal (gemini-companion-test-read file) "two\n"))
            (should-not (gemini-companion-test-eval
                         emacs '(gemini-companion-review-all-open))))
        (gemini-companion-test-program-stop editor)
        (gemini-companion-test-cli-stop cli)))))

(ert-deftest gemini-companion-hooks/only-the-emacs-that-has-the-project-open-is-told ()
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with (emacs cli)
    (gemini-companion-test-with-emacs
        (other :mode t :files '(("b.txt" . "one\n"))
               :environment (list (concat "TMPDIR=" (gemini-companion-test-tmpdir emacs))))
      (gemini-companion-test-visit other "b.txt")
      (gemini-companion-test-wait
       "both to be announced"
       (lambda () (fake-cli-discover (gemini-companion-test-tmpdir emacs)
                                     (gemini-companion-test-project other))))
      (gemini-companion-test-cli-submit cli "just say it" "Done\\.")
      (gemini-companion-hooks-test--wait-state emacs 'done)
      (should-not (gemini-companion-test-eval other '(gemini-companion-cli-all))))))

(ert-deftest gemini-companion-hooks/an-emacs-that-does-nothing-holds-up-no-turn ()
  "For longer than a hook waits for it; the user sees no error."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with (emacs cli)
    (let ((process (gemini-companion-test-eval emacs '(emacs-pid)))
          (start nil))
      (signal-process process 'SIGSTOP)
      (unwind-protect
          (progn
            (gemini-companion-test-cli-submit cli "just say it")
            (setq start (float-time))
            (gemini-companion-test-cli-wait-screen cli "Done\\.")
            ;; The hook gives up after 2 s.
            (should (< (- (float-time) start) 6))
            (should-not (string-match-p "[Ee]rror\\|[Ww]arning\\|failed"
                                        (gemini-companion-test-cli-screen cli))))
        (signal-process process 'SIGCONT))
      (gemini-companion-test-cli-submit cli "and again")
      (gemini-companion-test-wait-eval
       emacs '(equal (mapcar (lambda (it) (car (gemini-companion-cli-prompt it)))
                             (gemini-companion-cli-all))
                     '("and again")))
      (gemini-companion-hooks-test--wait-state emacs 'done))))

(defun gemini-companion-hooks-test--write-quietly (emacs cli text)
  "Let CLI write TEXT to a.txt, which EMACS visits, in YOLO mode.
Neither its user nor its model is told that something is wrong."
  (let ((file (gemini-companion-test-project emacs "a.txt")))
    (gemini-companion-test-cli-script
     cli `("write_file" :file_path ,file :content ,text) (concat "I wrote " text))
    (gemini-companion-test-cli-submit cli (concat "please write " text))
    (gemini-companion-test-cli-wait-screen cli (concat "I wrote " text))
    (should (equal (gemini-companion-test-read file) text))
    (should-not (string-match-p "[Ww]arning\\|[Ff]ailed\\|[Bb]locked\\|not found"
                                (gemini-companion-test-cli-screen cli)))
    (should (seq-every-p (lambda (response) (null (alist-get 'error response)))
                         (gemini-companion-test-request-responses
                          (car (last (gemini-companion-test-cli-requests cli))))))))

(ert-deftest gemini-companion-hooks/a-path-without-node-changes-nothing ()
  "The CLI neither refuses the prompt nor tells the model of an error."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with-emacs emacs
    (let* ((cli (gemini-companion-test-cli-make-at-home emacs))
           (launch (gemini-companion-test-cli-file cli "launch"))
           (programs (gemini-companion-test-cli-file cli "programs/")))
      (make-directory programs)
      (dolist (name '("bash" "sh" "env" "ps"))
        (make-symbolic-link (executable-find name) programs))
      (gemini-companion-test-write
       launch (replace-regexp-in-string "PATH\\\\=[^ ]+" (concat "PATH=" programs)
                                        (gemini-companion-test-read launch) t t))
      (set-file-modes launch #o755)
      (gemini-companion-test-with-cli
          (cli (gemini-companion-test-cli--start
                cli #'gemini-companion-test-cli--start-in-tmux))
        (gemini-companion-test-cli-press cli "C-y" "YOLO")
        (gemini-companion-hooks-test--write-quietly emacs cli "two")
        (should-not (gemini-companion-test-eval
                     emacs '(seq-some #'gemini-companion-cli-prompt
                                      (gemini-companion-cli-all))))))))

(ert-deftest gemini-companion-hooks/without-emacs-the-cli-goes-on ()
  "Without its file, and with that of an Emacs that was killed."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with (emacs cli)
    (gemini-companion-test-cli-press cli "C-y" "YOLO")
    (gemini-companion-test-eval emacs '(gemini-companion-mode -1))
    (gemini-companion-hooks-test--write-quietly emacs cli "two")
    (gemini-companion-test-eval emacs '(gemini-companion-mode 1))
    (gemini-companion-test-wait-announced emacs (gemini-companion-test-project emacs))
    (gemini-companion-test-kill emacs)
    (should (gemini-companion-test-discovery-files emacs))
    (gemini-companion-hooks-test--write-quietly emacs cli "three")))

(ert-deftest gemini-companion-hooks/a-project-that-is-not-open-tells-nothing ()
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with-emacs emacs
    (let* ((cli (gemini-companion-test-cli-make-at-home emacs))
           (other (gemini-companion-test-cli-file cli "other/")))
      (make-directory other)
      (gemini-companion-test-cli--write-launcher cli emacs other nil)
      (gemini-companion-test-eval
       emacs '(progn (defvar gemini-companion-hooks-test-told nil)
                     (advice-add 'gemini-companion-cli-note :before
                                 (lambda (&rest told)
                                   (push told gemini-companion-hooks-test-told)))
                     nil))
      (setf (gemini-companion-test-cli-pid cli) (gemini-companion-test-cli--start-in-tmux cli))
      (gemini-companion-test-with-cli (cli cli)
        (gemini-companion-test-cli-wait-screen cli "Type your message")
        (gemini-companion-test-cli-submit cli "something secret" "Done\\.")
        (gemini-companion-test-cli-wait-log cli "Hook.*AfterAgent")
        (should-not (gemini-companion-test-eval emacs 'gemini-companion-hooks-test-told))))))

(ert-deftest gemini-companion-hooks/the-end-of-a-conversation-and-of-the-cli ()
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with (emacs cli)
    (gemini-companion-test-cli-submit cli "just say it" "Done\\.")
    (gemini-companion-hooks-test--wait-state emacs 'done)
    (gemini-companion-test-cli-submit cli "/clear")
    (gemini-companion-hooks-test--wait-state emacs 'idle)
    (should-not (gemini-companion-hooks-test--prompt emacs))
    (gemini-companion-test-cli-wait-log
     cli "SessionEnd\\(?:.\\|\n\\)*Hook execution for SessionStart")
    (gemini-companion-test-cli-submit cli "/quit")
    (gemini-companion-test-wait-eval emacs '(null (gemini-companion-cli-all)))))

(ert-deftest gemini-companion-hooks/a-hook-that-is-killed-holds-up-nothing ()
  "While Emacs does nothing, a hook waits."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with (emacs cli)
    (let ((process (gemini-companion-test-eval emacs '(emacs-pid)))
          (word (format "hook=prompt cli=%d" (gemini-companion-test-cli-pid cli))))
      (signal-process process 'SIGSTOP)
      (unwind-protect
          (progn
            (gemini-companion-test-cli-submit cli "just say it")
            (signal-process
             (gemini-companion-test-wait
              "the hook"
              (lambda ()
                (seq-find (lambda (pid)
                            (string-suffix-p word (alist-get 'args (process-attributes pid) "")))
                          (list-system-processes))))
             'SIGKILL)
            (gemini-companion-test-cli-wait-screen cli "Done\\.")
            (should-not (string-match-p "[Ee]rror\\|[Ww]arning\\|[Ff]ailed\\|[Kk]illed"
                                        (gemini-companion-test-cli-screen cli))))
        (signal-process process 'SIGCONT))
      (gemini-companion-hooks-test--wait-state emacs 'done))))

(ert-deftest gemini-companion-hooks/clis-at-the-same-time-do-not-mix ()
  "Each has its prompt, and the changes that this has led to."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with (emacs one)
    (gemini-companion-test-with-cli (other (gemini-companion-test-cli-start-at-home emacs))
      (let ((clis `((,one "please write one" "a.txt" "b.txt")
                    (,other "please write the other" "c.txt" "d.txt"))))
        (pcase-dolist (`(,cli ,prompt . ,names) clis)
          (gemini-companion-test-cli-press cli "C-y" "YOLO")
          ;; The hooks of calls of one answer overlap.
          (gemini-companion-test-cli-script
           cli (vconcat (mapcar (lambda (name)
                                  `("write_file"
                                    :file_path ,(gemini-companion-test-project emacs name)
                                    :content ,prompt))
                                names))
           "All done")
          (gemini-companion-test-cli-submit cli prompt))
        (pcase-dolist (`(,cli . ,_) clis)
          (gemini-companion-test-cli-wait-screen cli "All done"))
        (gemini-companion-test-wait-eval
         emacs '(equal (mapcar #'gemini-companion-cli-state (gemini-companion-cli-all))
                       '(done done)))
        (should (equal (sort (gemini-companion-test-eval
                              emacs '(mapcar (lambda (it)
                                               (list (file-name-nondirectory
                                                      (gemini-companion-history-path it))
                                                     (car (gemini-companion-history-prompt it))
                                                     (gemini-companion-history-after it)))
                                             (gemini-companion-history-all)))
                             (lambda (a b) (string< (car a) (car b))))
                       (mapcan (pcase-lambda (`(,_ ,prompt . ,names))
                                 (mapcar (lambda (name) (list name prompt prompt)) names))
                               clis)))))))

(ert-deftest gemini-companion-hooks/the-user-chooses-files-to-be-asked-about ()
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with (emacs cli)
    (gemini-companion-test-eval emacs '(setq gemini-companion-review-always '("*.txt")))
    (gemini-companion-test-cli-press cli "C-y" "YOLO")
    (gemini-companion-test-cli-propose
     cli (gemini-companion-test-project emacs "a.txt") "two\n" emacs)
    (gemini-companion-test-accept emacs)
    (gemini-companion-test-cli-wait-screen cli "All done")
    (should (equal (gemini-companion-test-read (gemini-companion-test-project emacs "a.txt"))
                   "two\n"))))

(ert-deftest gemini-companion-hooks/what-the-user-denies-stays-denied ()
  "A question about unsaved edits would overrule it."
  :tags '(any-emacs)
  (gemini-companion-hooks-test--with-emacs emacs
    (gemini-companion-test-write
     (expand-file-name ".gemini/policies/mine.toml" (gemini-companion-test-home emacs))
     "[[rule]]\ntoolName = \"write_file\"\nargsPattern = \"a\\\\.txt\"
decision = \"deny\"\npriority = 900\n")
    (gemini-companion-test-run emacs '(progn (goto-char (point-max)) (insert "mine\n")))
    (gemini-companion-test-with-cli (cli (gemini-companion-test-cli-start-at-home emacs))
      (gemini-companion-test-cli-press cli "C-y" "YOLO")
      (gemini-companion-test-cli-propose cli (gemini-companion-test-project emacs "a.txt")
                                         "two\n")
      (gemini-companion-test-cli-wait-screen cli "All done")
      (should (equal (gemini-companion-test-read (gemini-companion-test-project emacs "a.txt"))
                     "one\n"))
      (should-not (gemini-companion-test-eval emacs '(gemini-companion-history-all)))
      (gemini-companion-test-run emacs '(with-current-buffer "a.txt" (set-buffer-modified-p nil))))))

(ert-deftest gemini-companion-hooks/those-of-qwen-code-tell-as-much ()
  :tags '(any-emacs)
  (gemini-companion-test-require-real-client)
  (unless (file-exists-p gemini-companion-test-qwen-program)
    (gemini-companion-test-skip "Qwen Code is not installed (test/e2e/qwen)"))
  (gemini-companion-test-with-emacs (emacs :mode nil :files '(("a.txt" . "one\n")))
    (make-directory (expand-file-name ".qwen" (gemini-companion-test-home emacs)))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-mode-on emacs)
    (gemini-companion-test-enable-tools emacs)
    (gemini-companion-test-with-cli (qwen (gemini-companion-test-qwen-start emacs))
      (let ((file (gemini-companion-test-project emacs "a.txt")))
        ;; It writes only files that it has read.
        (gemini-companion-test-cli-script
         qwen `("read_file" :file_path ,file)
         `("write_file" :file_path ,file :content "two\n") "All done")
        (gemini-companion-test-cli-submit qwen "please write")
        (gemini-companion-test-wait-review emacs "two\n")
        (gemini-companion-hooks-test--wait-state emacs 'working)
        (should (equal (gemini-companion-hooks-test--prompt emacs) "please write"))
        (gemini-companion-test-accept emacs)
        (gemini-companion-test-cli-wait-screen qwen "All done")
        (gemini-companion-hooks-test--wait-state emacs 'done))
      ;; A comment goes along, and a question is seen.
      (gemini-companion-test-eval
       emacs '(with-current-buffer "a.txt"
                (gemini-companion-comment-add (current-buffer) 1 1 "why two?")))
      (gemini-companion-test-cli-script
       qwen '("run_shell_command" :command "touch made" :is_background :false) "It is made")
      (gemini-companion-test-cli-submit qwen "please touch")
      (gemini-companion-hooks-test--wait-state emacs 'asking)
      (gemini-companion-test-wait-eval emacs '(null (gemini-companion-comment--all)))
      (should (string-match-p
               "why two\\?"
               (string-join (gemini-companion-test-request-texts
                             (car (last (gemini-companion-test-cli-requests qwen))))
                            "\n")))
      ;; Its hook runs before it shows the question.
      (gemini-companion-test-cli-answer qwen "Enter")
      (gemini-companion-test-cli-wait-screen qwen "It is made")
      (gemini-companion-hooks-test--wait-state emacs 'done)
      (gemini-companion-test-cli-submit qwen "/quit")
      (gemini-companion-test-wait-eval emacs '(null (gemini-companion-cli-all))))))

;;; hooks-test.el ends here

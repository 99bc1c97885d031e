;;; gemini-companion-cli-test.el --- Tests of CLIs and of what their hooks tell  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-tool-hooks)
(require 'gemini-companion-cli-list)
(require 'gemini-companion-notify)
(require 'gemini-companion-test-lists)
(require 'gemini-companion-test-screen)
(require 'gemini-companion-test-tools)

(defmacro gemini-companion-cli-test--with (sessions &rest body)
  "Evaluate BODY with tools, where SESSIONS, vectors, are connected.
No CLI is known."
  (declare (indent 1) (debug t))
  `(let ((gemini-companion-cli--all nil))
     (gemini-companion-test-with-tools
       (cl-letf (((symbol-function 'gemini-companion-bridge-sessions) (lambda () ,sessions)))
         ,@body))))

(defun gemini-companion-cli-test--session (key process directory &optional knows-tools)
  "Return a session with KEY of Gemini CLI with the id PROCESS in DIRECTORY.
For KNOWS-TOOLS see `gemini-companion-bridge-sessions'."
  (vector key "gemini" process 1 'open 0 0 directory nil 'gemini knows-tools))

(defun gemini-companion-cli-test--tell (event &rest about)
  "Let a hook of the process that runs this tell EVENT; return the answer.
ABOUT is a plist of :session, :process, :text and :path."
  (gemini-companion-test-call-tool
   "noteEvent" event (or (plist-get about :session) "conversation")
   (if (plist-member about :process) (plist-get about :process) (emacs-pid))
   nil (plist-get about :text) (plist-get about :path)))

(defun gemini-companion-cli-test--states ()
  "Return the states of the known CLIs."
  (mapcar #'gemini-companion-cli-state (gemini-companion-cli-all)))

(ert-deftest gemini-companion-cli/processes-are-those-of-this-machine ()
  "Also while the current buffer is of a file on another, which newer Emacsen ask."
  (let ((here (gemini-companion-cli-ancestry (emacs-pid)))
        (default-directory "/ssh:nowhere.invalid:/"))
    (should (cdr here))
    (should (equal (gemini-companion-cli-ancestry (emacs-pid)) here))
    (should-not (gemini-companion-agent-process nil))))

(ert-deftest gemini-companion-cli/hooks-tell-what-it-does ()
  (gemini-companion-cli-test--with nil
    (pcase-dolist (`(,event ,text ,states)
                   '(("start" "startup" (idle)) ("prompt" "do it" (working))
                     ("asks" "Run: rm" (asking)) ("ran" nil (working))
                     ("asks" "Run: mv" (asking)) ("done" nil (done))
                     ("prompt" "more" (working)) ("end" "clear" (idle))
                     ("end" "exit" nil) ("end" "exit" nil)))
      (should (equal (gemini-companion-cli-test--tell event :text text) ""))
      (should (equal (gemini-companion-cli-test--states) states)))))

(ert-deftest gemini-companion-cli/what-nobody-reports-any-more-does-not-last ()
  "While the companion is off, a turn may end."
  (gemini-companion-cli-test--with nil
    (dolist (event '("prompt" "asks"))
      (gemini-companion-cli-test--tell event)
      (should (string-search "a CLI" (gemini-companion-state)))
      (gemini-companion-mode -1)
      (gemini-companion-mode 1)
      (should (equal (gemini-companion-state) "no client, no change waits")))))

;; `/model' and `/theme' show choices, as a question does.
(ert-deftest gemini-companion-cli/a-dialog-between-two-turns-is-no-turn ()
  "Emacs said that the CLI works, and then that it has done something new."
  (gemini-companion-cli-test--with nil
    (pcase-dolist (`(,event ,text ,state) '(("prompt" "do it" working) ("done" nil done)
                                            ("end" "clear" idle)))
      (gemini-companion-cli-test--tell event :text text)
      (let ((cli (car (gemini-companion-cli-all))))
        (setf (gemini-companion-cli-terminal cli) (current-buffer))
        (gemini-companion-cli-note-visit cli)
        (gemini-companion-cli-note-screen (current-buffer) t 'gemini "/p/")
        (should (eq (gemini-companion-cli-state cli) 'asking))
        (gemini-companion-cli-note-screen (current-buffer) nil 'gemini "/p/")
        (should (eq (gemini-companion-cli-state cli) state))
        (should-not (gemini-companion-cli-news cli))))))

(ert-deftest gemini-companion-cli/unknown-events-are-refused ()
  (gemini-companion-cli-test--with nil
    (should (consp (gemini-companion-cli-test--tell "edit-all")))
    (should-not (gemini-companion-cli-all))))

(ert-deftest gemini-companion-cli/a-session-and-hooks-of-a-process-belong-together ()
  (let ((sessions (list (gemini-companion-cli-test--session "k1" (emacs-pid) "/project"))))
    (gemini-companion-cli-test--with sessions
      (gemini-companion-cli--note-sessions 1)
      (gemini-companion-cli-test--tell "prompt" :text "do it")
      (should (equal (gemini-companion-cli-test--states) '(working)))
      (should (equal (gemini-companion-cli-session (car (gemini-companion-cli-all)))
                     "conversation"))
      ;; It has another session for a while none, and lives on; then it resumes another conversation.
      (setq sessions nil)
      (gemini-companion-cli--note-sessions 0)
      (gemini-companion-cli-test--tell "prompt" :text "more" :session "other")
      (should (equal (mapcar #'gemini-companion-cli-session (gemini-companion-cli-all))
                     '("other"))))))

(ert-deftest gemini-companion-cli/one-that-is-gone-is-forgotten ()
  (let ((sessions (list (gemini-companion-cli-test--session "k1" 1999999999 "/project")
                        (gemini-companion-cli-test--session "k2" nil "/ssh:there:/project"))))
    (gemini-companion-cli-test--with sessions
      (gemini-companion-cli--note-sessions 2)
      (gemini-companion-cli-test--tell "prompt" :text "do it" :process 1999999999)
      (should (equal (gemini-companion-cli-test--states) '(working idle)))
      (setq sessions nil)
      (gemini-companion-cli--note-sessions 0)
      (should-not (gemini-companion-cli-all)))))

(ert-deftest gemini-companion-cli/one-that-was-killed-is-not-listed ()
  "It had no session, and its hooks have not told the end."
  (gemini-companion-cli-test--with nil
    (let ((process (start-process "cli" nil "sleep" "100")))
      (gemini-companion-cli-test--tell "prompt" :text "do it" :process (process-id process))
      (should (string-search "do it" (gemini-companion-cli-test--list)))
      (delete-process process)
      (gemini-companion-test-wait
       "the CLI to be forgotten"
       (lambda () (not (string-search "do it" (gemini-companion-cli-test--list))))))))

(ert-deftest gemini-companion-cli/one-that-emacs-starts-is-known-at-once ()
  "It is the same when it has connected, and forgotten when it ends before."
  (let ((sessions nil))
    (gemini-companion-cli-test--with sessions
      (with-temp-buffer
        (rename-buffer "*gemini: p*")
        (let ((process (start-process "cli" (current-buffer) "sleep" "100")))
          (set-process-query-on-exit-flag process nil)
          (gemini-companion-cli-note-start (current-buffer) 'gemini "/p/")
          (should (string-match-p "^p +Gemini CLI +starts, 0 s" (gemini-companion-cli-test--list)))
          (should (equal (gemini-companion-cli-list--label) " starts"))
          (push (gemini-companion-cli-test--session "k1" (process-id process) "/p") sessions)
          (gemini-companion-cli--note-sessions 1)
          (should (equal (gemini-companion-cli-test--states) '(starting)))
          ;; Qwen Code asks whether to trust the folder.
          (gemini-companion-cli-test--tell "start" :text "startup" :process (process-id process))
          (gemini-companion-cli-note-screen (current-buffer) t 'gemini "/p/")
          (should (equal (gemini-companion-cli-test--states) '(asking)))
          (gemini-companion-cli-note-screen (current-buffer) nil 'gemini "/p/")
          (should (equal (gemini-companion-cli-test--states) '(starting)))
          (gemini-companion-cli-note-ready (current-buffer))
          (should (equal (gemini-companion-cli-test--states) '(idle)))
          (setq sessions nil)
          (gemini-companion-cli--note-sessions 0)
          (gemini-companion-cli-note-start (current-buffer) 'gemini "/p/")
          (delete-process process)
          (should-not (string-search "starts" (gemini-companion-cli-test--list))))))))

(ert-deftest gemini-companion-cli/one-that-does-not-connect-starts-only-once ()
  "It may ask something while it starts, or later."
  (gemini-companion-cli-test--with nil
    (with-temp-buffer
      (let ((process (start-process "cli" (current-buffer) "sleep" "100")))
        (set-process-query-on-exit-flag process nil)
        (gemini-companion-cli-note-start (current-buffer) 'gemini "/p/")
        (dolist (states '((starting) nil))
          (gemini-companion-cli-note-screen (current-buffer) t 'gemini "/p/")
          (should (equal (gemini-companion-cli-test--states) '(asking)))
          (gemini-companion-cli-note-screen (current-buffer) nil 'gemini "/p/")
          (should (equal (gemini-companion-cli-test--states) states))
          (gemini-companion-cli-note-ready (current-buffer)))))))

(ert-deftest gemini-companion-cli/a-prompt-is-known-by-its-process ()
  (gemini-companion-cli-test--with nil
    (gemini-companion-cli-test--tell "prompt" :text "do it")
    (should (equal (car (gemini-companion-cli-prompt-of-process (emacs-pid))) "do it"))
    (should-not (gemini-companion-cli-prompt-of-process 1))))

(ert-deftest gemini-companion-cli/a-prompt-gives-up-earlier-changes-of-its-cli ()
  (let ((gemini-companion-cli--all nil))
    (gemini-companion-test-with-client client
      (let ((review (gemini-companion-test-propose client "a.txt" "2\n"))
            (other (gemini-companion-test-propose client "b.txt" "2\n")))
        (setf (gemini-companion-review-process other) 1)
        (gemini-companion-cli-note 'prompt 'gemini (emacs-pid) "conversation" nil "do it")
        (should-not (gemini-companion-review-open-p review))
        (should (gemini-companion-review-open-p other))
        (gemini-companion-review-end-all)))))

(ert-deftest gemini-companion-cli/a-rejection-in-the-cli-ends-its-turn ()
  "But not the next one, if that has begun before Emacs knows how the change was decided."
  (let ((gemini-companion-cli--all nil)
        (gemini-companion-write--decision-time 0.1))
    (gemini-companion-test-with-client client
      (cl-flet ((tell (text)
                      (gemini-companion-cli-note 'prompt 'gemini (emacs-pid) "conversation" nil text)))
        (pcase-dolist (`(,next ,state) '((nil done) ("more" working)))
          (tell "do it")
          (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
            (gemini-companion-test-close-diff client review))
          (when next (tell next))
          (gemini-companion-test-wait-outcome 'rejected-there)
          (should (equal (gemini-companion-cli-test--states) (list state))))))))

(ert-deftest gemini-companion-cli/an-edit-is-asked-about-only-where-it-can-be-answered ()
  (let* ((knows-tools nil)
         (gemini-companion-review-always '("*.sql" "src/*.c"))
         (ask (lambda (name)
                (gemini-companion-cli-test--tell "edit" :path (gemini-companion-test-file name)))))
    (gemini-companion-cli-test--with
        (list (gemini-companion-cli-test--session "k1" (emacs-pid) "/project" knows-tools))
      (with-current-buffer (gemini-companion-test-open "a.txt" "one\n")
        (insert "mine")
        (gemini-companion-cli--note-sessions 1)
        (should (equal (funcall ask "a.txt") ""))
        (setq knows-tools t)
        (should (string-match-p "unsaved edits" (funcall ask "a.txt")))
        (set-buffer-modified-p nil)
        (should (equal (funcall ask "a.txt") "")))
      (should (string-match-p "gemini-companion-review-always" (funcall ask "b.SQL")))
      (should (string-match-p "gemini-companion-review-always" (funcall ask "src/b.c")))
      (make-symbolic-link "b.sql" (gemini-companion-test-file "link.txt"))
      (should (string-match-p "gemini-companion-review-always" (funcall ask "link.txt")))
      (should (equal (funcall ask "b.c") "")))))

(ert-deftest gemini-companion-cli/a-prompt-is-given-although-comments-fail ()
  (gemini-companion-cli-test--with nil
    (cl-letf (((symbol-function 'gemini-companion-comment-add-to-prompt)
               (lambda (&rest _) (error "A fault"))))
      (should (equal (gemini-companion-cli-test--tell "prompt" :text "do it") "")))))

;;;; The list

(defun gemini-companion-cli-test--list ()
  "Return the text of the list of CLIs."
  (save-window-excursion
    (gemini-companion-cli-list)
    (unwind-protect (buffer-substring-no-properties (point-min) (point-max))
      (kill-buffer))))

(ert-deftest gemini-companion-cli/an-empty-list-says-how-one-gets-there ()
  (gemini-companion-cli-test--with nil
    (pcase-dolist (`(,running . ,says) '((always . "type /ide enable")
                                         (ignore . "M-x gemini-companion-mode turns it on")))
      (cl-letf (((symbol-function 'gemini-companion-bridge-running-p) running))
        (let ((header (gemini-companion-review-list-header (gemini-companion-cli-list--keys))))
          (should (string-search says header))
          (should (string-search "M-x gemini-companion-run start one" header)))))))

(ert-deftest gemini-companion-cli/the-list-says-what-each-does ()
  (gemini-companion-cli-test--with
      (list (gemini-companion-cli-test--session "k1" (emacs-pid) "/home/me/project")
            (gemini-companion-cli-test--session "k2" nil "/ssh:there:/src"))
    (gemini-companion-cli--note-sessions 2)
    (should (string-match-p "^project +Gemini CLI [0-9]+ +ready *\n/ssh:there:/src +Gemini CLI +ready"
                            (gemini-companion-cli-test--list)))
    (gemini-companion-cli-test--tell "prompt" :text "do\n it %s")
    (should (string-match-p "^gc-[^ ]+ +Gemini CLI [0-9]+ +works, 0 s +do it %s$"
                            (gemini-companion-cli-test--list)))
    (gemini-companion-cli-test--tell "asks" :text "Run: rm")
    (should (string-match-p "asks, 0 s: Run: rm" (gemini-companion-cli-test--list)))
    (gemini-companion-cli-test--tell "done")
    (should (string-match-p "done 0 s ago" (gemini-companion-cli-test--list)))))

(ert-deftest gemini-companion-cli/the-list-tells-two-clis-of-a-project-apart ()
  "Its keys answer and stop the one of the line."
  (gemini-companion-cli-test--with nil
    (let ((terminals (list (generate-new-buffer "*gemini: src*")
                           (generate-new-buffer "*gemini: src*"))))
      (unwind-protect
          (progn
            (setq gemini-companion-cli--all
                  (mapcar (lambda (terminal)
                            (gemini-companion-cli--make :agent 'gemini :terminal terminal :key terminal
                                                        :directory "/home/me/src"))
                          terminals))
            (should (string-match-p "^src +Gemini CLI +ready *\nsrc +Gemini CLI<2> +ready"
                                    (gemini-companion-cli-test--list))))
        (mapc #'kill-buffer terminals)))))

(ert-deftest gemini-companion-cli/what-waits-for-the-user-does-not-work ()
  "Although no hook of Gemini CLI reports that it asks about a change."
  (gemini-companion-test-with-client client
    (let ((gemini-companion-cli--all nil))
      (with-temp-buffer
        (gemini-companion-cli-enter
         (gemini-companion-cli--add 'gemini (emacs-pid) (current-buffer)) 'working)
        (should (equal (gemini-companion-cli-list--label) " works"))
        (should (equal (gemini-companion--lighter) " Gem:1 works"))
        (gemini-companion-test-propose client "a.txt" "2\n")
        (should (equal (gemini-companion-cli-list--label) " asks"))
        (should (equal (gemini-companion--lighter) " Gem:1!1"))
        (should (equal (gemini-companion-state) "1 client, 1 change waits for you"))))))

(ert-deftest gemini-companion-cli/the-list-sends-nothing-to-another-cli ()
  "That of the line no longer reads; another one runs in this project, and asks."
  (gemini-companion-cli-test--with nil
    (gemini-companion-cli-test--tell "prompt" :text "do it")
    (let* ((cli (car (gemini-companion-cli-all)))
           (other (generate-new-buffer "other"))
           (screen "╭─────╮\n│ Apply this change?  │\n│ ● 1. Allow once │\n╰─────╯\n")
           (process (make-process :name "cli" :buffer other :command '("cat") :noquery t
                                  :connection-type 'pipe :coding 'utf-8-unix :sentinel #'ignore)))
      (unwind-protect
          (save-window-excursion
            (with-current-buffer other
              (setq gemini-companion-cli-run-root default-directory)
              (insert screen)
              (set-marker (process-mark process) (point)))
            (display-buffer other)
            (setf (gemini-companion-cli-terminal cli) (generate-new-buffer "terminal"))
            (gemini-companion-test-with-answer nil
              (cl-letf (((symbol-function 'read-string)
                         (lambda (&rest _) (ert-fail "A prompt was asked for"))))
                (dolist (command '(gemini-companion-cli-list-answer-yes
                                   gemini-companion-cli-list-answer-no
                                   gemini-companion-cli-list-send
                                   gemini-companion-cli-list-stop))
                  (ert-info ((symbol-name command))
                    (should (string-match-p "has ended, or is suspended"
                                            (cadr (should-error (funcall command cli)
                                                                :type 'user-error))))))))
            ;; The last that arrives.
            (with-current-buffer other (gemini-companion-answer-yes))
            (gemini-companion-test-wait
             "the only answer"
             (lambda () (equal (with-current-buffer other (buffer-string))
                               (concat screen "\r")))))
        (delete-process process)))))

(ert-deftest gemini-companion-cli/a-shell-command-is-not-stopped-in-its-place ()
  "That has the focus, so that it would get the key."
  (gemini-companion-cli-test--with nil
    (gemini-companion-cli-test--tell "prompt" :text "do it")
    (let* ((cli (car (gemini-companion-cli-all)))
           (terminal (generate-new-buffer "terminal"))
           (process (make-process :name "cli" :buffer terminal :command '("cat") :noquery t
                                  :connection-type 'pipe :sentinel #'ignore)))
      (unwind-protect
          (with-current-buffer terminal
            (setq gemini-companion-cli-run-root default-directory)
            (insert gemini-companion-test-screen-shell gemini-companion-test-screen-prompt)
            (set-marker (process-mark process) (point))
            (setf (gemini-companion-cli-terminal cli) terminal)
            (gemini-companion-test-with-answer nil
              (should (string-match-p "A shell command in Gemini CLI gets the keys"
                                      (cadr (should-error (gemini-companion-cli-list-stop cli)
                                                          :type 'user-error))))))
        (delete-process process)))))

(ert-deftest gemini-companion-cli/what-works-on-its-screen-can-be-stopped ()
  "Without the hooks of the CLI, nothing else tells."
  (gemini-companion-cli-test--with nil
    (let* ((terminal (generate-new-buffer "terminal"))
           (process (make-process :name "cli" :buffer terminal :command '("cat") :noquery t
                                  :connection-type 'pipe :sentinel #'ignore))
           (cli (gemini-companion-cli--make :agent 'gemini :directory "/p" :terminal terminal)))
      (unwind-protect
          (with-current-buffer terminal
            (setq gemini-companion-cli-run-root default-directory)
            (gemini-companion-test-with-answer 'yes
              (insert gemini-companion-test-screen-prompt)
              (should-error (gemini-companion-cli-list-stop cli) :type 'user-error)
              (goto-char (point-min))
              (insert "⠏ Thinking (esc to cancel, 3s)\n")
              (set-marker (process-mark process) (point-max))
              (gemini-companion-cli-list-stop cli)
              (gemini-companion-test-wait
               "the key" (lambda () (string-suffix-p "\e" (buffer-string))))))
        (delete-process process)))))

(ert-deftest gemini-companion-cli/another-one-resumes-where-emacs-has-started-this-one ()
  "Also if that runs in a sandbox, which is like a host."
  (gemini-companion-cli-test--with nil
    (let* ((cli (gemini-companion-cli--make :agent 'gemini :directory "/home/me/p"
                                            :terminal (generate-new-buffer "terminal")))
           (roots nil))
      (cl-letf (((symbol-function 'gemini-companion-cli-run-resume)
                 (lambda (_ root) (push root roots))))
        (gemini-companion-cli-list-resume cli)
        (setf (gemini-companion-cli-directory cli) "/sandbox:q:/home/me/q")
        (with-current-buffer (gemini-companion-cli-terminal cli)
          (setq gemini-companion-cli-run-root "/home/me/q/"))
        (gemini-companion-cli-list-resume cli)
        (should (equal roots '("/home/me/q/" "/home/me/p/")))))))

(ert-deftest gemini-companion-cli/the-next-that-wants-something ()
  (gemini-companion-cli-test--with nil
    (should-error (gemini-companion-next) :type 'user-error)
    (gemini-companion-cli-test--tell "prompt" :text "do it")
    (should-error (gemini-companion-next) :type 'user-error)
    (gemini-companion-cli-test--tell "done")
    (with-temp-buffer
      (setf (gemini-companion-cli-terminal (car (gemini-companion-cli-all))) (current-buffer))
      (save-window-excursion
        (gemini-companion-next)
        (should (eq (window-buffer) (gemini-companion-cli-terminal
                                     (car (gemini-companion-cli-all))))))
      ;; The user has been there.
      (should-error (gemini-companion-next) :type 'user-error)
      ;; One outside of Emacs is not in the way of others.
      (gemini-companion-cli-test--tell "asks" :text "Run: rm" :process 1 :session "outside")
      (should (string-search "process 1" (cadr (should-error (gemini-companion-next)))))
      (gemini-companion-cli-test--tell "asks" :text "Run: rm")
      (save-window-excursion
        (gemini-companion-next)
        (should (eq (window-buffer) (gemini-companion-cli-terminal
                                     (car (gemini-companion-cli-all)))))))))

(ert-deftest gemini-companion-cli/where-the-user-has-been-is-no-news ()
  "Neither in the list, nor for a notification, which is closed."
  (gemini-companion-cli-test--with nil
    (gemini-companion-cli-test--tell "prompt" :text "do it")
    (let ((cli (car (gemini-companion-cli-all)))
          (gemini-companion-notify--subjects nil)
          (open nil))
      (cl-letf (((symbol-function 'gemini-companion-notify--away-p) #'always)
                ((symbol-function 'gemini-companion-notify--send) (lambda () (setq open t)))
                ((symbol-function 'gemini-companion-notify--close) (lambda () (setq open nil))))
        (gemini-companion-cli-test--tell "done")
        (gemini-companion-notify-of cli)
        (should open)
        (setf (gemini-companion-cli-terminal cli) (generate-new-buffer "terminal"))
        (save-window-excursion
          (gemini-companion-cli-list-visit cli))
        (should-not (get-text-property 0 'face (gemini-companion-cli-list-state cli)))
        (should-not open)))))

(ert-deftest gemini-companion-cli/the-user-is-told-of-the-end-of-a-long-turn ()
  (gemini-companion-cli-test--with nil
    (pcase-dolist (`(,option ,told) '((nil nil) (20 t) (90 nil)))
      (let ((gemini-companion-notify-turn option)
            (messages nil))
        (cl-letf (((symbol-function 'gemini-companion-ui-message)
                   (lambda (_ &rest arguments) (push (apply #'format arguments) messages))))
          (gemini-companion-cli-test--tell "prompt" :text "do it")
          (setcdr (gemini-companion-cli-prompt (car (gemini-companion-cli-all)))
                  (time-subtract nil 60))
          (gemini-companion-cli-test--tell "done"))
        (should (equal (and messages t) told))
        (when told
          (should (string-match-p "\\`Gemini CLI is done in " (car messages))))))))

;;; gemini-companion-cli-test.el ends here

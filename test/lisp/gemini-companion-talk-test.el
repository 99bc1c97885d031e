;;; gemini-companion-talk-test.el --- Tests of what is sent to the CLI  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'dired)
(require 'gemini-companion-talk)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-talk-test--with (sent &rest body)
  "Evaluate BODY in a new project with a terminal that a program reads.
SENT becomes a function that returns what that has read."
  (declare (indent 1) (debug (symbolp body)))
  (let ((terminal (make-symbol "terminal")))
    `(gemini-companion-test-with-project
       (let* ((gemini-companion-talk--look 0.001)
              (inhibit-message t)
              (,terminal (generate-new-buffer "terminal"))
              (,sent (lambda () (with-current-buffer ,terminal (buffer-string)))))
         (with-current-buffer ,terminal
           (setq gemini-companion-run-root gemini-companion-test-project))
         (make-process :name "cli" :buffer ,terminal :command '("cat") :noquery t
                       :connection-type 'pipe :coding 'utf-8-unix :sentinel #'ignore)
         (unwind-protect (progn ,@body)
           (when-let ((process (get-buffer-process ,terminal)))
             (delete-process process)))))))

(defun gemini-companion-talk-test--wait (sent text)
  "Wait until the function SENT returns TEXT."
  (gemini-companion-test-wait (lambda () (format "%S; %S was sent" text (funcall sent)))
                              (lambda () (equal (funcall sent) text))))

(ert-deftest gemini-companion-talk/prompts-are-pasted-and-sent ()
  (gemini-companion-talk-test--with sent
    (gemini-companion-send-prompt "hello ä𝕏")
    (gemini-companion-talk-test--wait sent "\e[200~hello ä𝕏\e[201~\r")
    (should-error (gemini-companion-send-prompt " ") :type 'user-error)))

(ert-deftest gemini-companion-talk/a-text-presses-no-keys ()
  (gemini-companion-talk-test--with sent
    (gemini-companion-talk-send "a\e[201~\C-c\r\nb\rc\td\177\u009b" t)
    (gemini-companion-talk-test--wait sent "\e[200~a[201~\nb\nc\td\e[201~\r")))

(ert-deftest gemini-companion-talk/long-texts-arrive-whole-and-in-order ()
  (gemini-companion-talk-test--with sent
    (let ((text (mapconcat #'number-to-string (number-sequence 1 20000) " ")))
      (gemini-companion-talk-send text t)
      (gemini-companion-talk-send "next" t)
      (gemini-companion-talk-test--wait
       sent (concat "\e[200~" text "\e[201~\r\e[200~next\e[201~\r")))))

(ert-deftest gemini-companion-talk/newlines-are-one-wherever-a-text-is-cut ()
  "Also those of two characters; and no other character is cut."
  (gemini-companion-talk-test--with sent
    (let ((gemini-companion-talk--chunk 3))
      (gemini-companion-talk-send "ä𝕏\r\nb\r\n\r\n\r\r\n漢字\e\C-c\e\C-c\eé\r" t)
      (gemini-companion-talk-test--wait sent "\e[200~ä𝕏\nb\n\n\n\n漢字é\n\e[201~\r"))))

(ert-deftest gemini-companion-talk/a-region-says-where-it-is-from ()
  (gemini-companion-talk-test--with sent
    (switch-to-buffer (find-file-noselect (gemini-companion-test-file "sub/a.txt" "1\n2\n3\n")))
    (gemini-companion-send-region 3 7 t)
    (gemini-companion-talk-test--wait
     sent "\e[200~sub/a.txt, lines 2 to 3:\n```\n2\n3\n```\n\e[201~\r")))

(ert-deftest gemini-companion-talk/files-are-mentioned-as-the-cli-reads-them ()
  (gemini-companion-talk-test--with sent
    (switch-to-buffer (find-file-noselect
                       (gemini-companion-test-file "sub/a (b) $c\\d [e].txt" "")))
    (gemini-companion-send-file t)
    (gemini-companion-talk-test--wait
     sent "\e[200~@sub/a\\ \\(b\\)\\ \\$c\\\\d\\ \\[e\\].txt \e[201~\r")
    (should (equal (gemini-companion-talk--mention "/etc/hosts" gemini-companion-test-project)
                   "@/etc/hosts"))))

(ert-deftest gemini-companion-talk/in-dired-marked-files-are-mentioned ()
  (gemini-companion-talk-test--with sent
    (gemini-companion-test-file "a" "")
    (gemini-companion-test-file "b" "")
    (switch-to-buffer (dired-noselect gemini-companion-test-project))
    (dired-mark-files-regexp "\\`[ab]\\'")
    (gemini-companion-send-file t)
    (gemini-companion-talk-test--wait sent "\e[200~@a @b \e[201~\r")))

(ert-deftest gemini-companion-talk/without-a-cli-it-says-how-to-run-one ()
  (gemini-companion-test-with-project
    (should (string-search "gemini-companion-run"
                           (cadr (should-error (gemini-companion-send-prompt "x")
                                               :type 'user-error))))))

(ert-deftest gemini-companion-talk/composed-prompts-are-kept-until-sent ()
  (gemini-companion-talk-test--with sent
    (let ((gemini-companion-talk-history '("before")))
      (gemini-companion-compose)
      (insert "one\ntwo")
      ;; Left and taken up again.
      (bury-buffer)
      (switch-to-buffer (generate-new-buffer "elsewhere"))
      (gemini-companion-compose)
      (should (equal (buffer-string) "one\ntwo"))
      (gemini-companion-compose-send)
      (gemini-companion-talk-test--wait sent "\e[200~one\ntwo\e[201~\r")
      (should (equal gemini-companion-talk-history '("one\ntwo" "before")))
      (gemini-companion-compose)
      (should (equal (buffer-string) ""))
      (gemini-companion-compose-previous)
      (gemini-companion-compose-previous)
      (should (equal (buffer-string) "before"))
      (should-error (gemini-companion-compose-previous) :type 'user-error)
      (gemini-companion-compose-next)
      (should (equal (buffer-string) "one\ntwo"))
      (gemini-companion-compose-quit))))

(ert-deftest gemini-companion-talk/a-prompt-outlives-its-cli ()
  (gemini-companion-talk-test--with _sent
    (gemini-companion-compose)
    (insert "precious")
    (delete-process (get-buffer-process gemini-companion-compose--terminal))
    (should-error (gemini-companion-compose-send) :type 'user-error)
    (should (equal (buffer-string) "precious"))))

(ert-deftest gemini-companion-talk/files-are-completed-after-an-at ()
  (gemini-companion-talk-test--with _sent
    (gemini-companion-test-file "two words.txt" "")
    (gemini-companion-compose)
    (insert "look at @two")
    (pcase-let ((`(,start ,end ,table . ,_) (gemini-companion-compose--complete)))
      (should (equal (buffer-substring start end) "two"))
      (should (equal (all-completions "two" table) '("two\\ words.txt"))))
    (dolist (key '("TAB" "M-TAB"))
      (insert " @two")
      (call-interactively (key-binding (kbd key)))
      (should (looking-back " @two\\\\ words\\.txt" (line-beginning-position))))
    (insert " mail@two")
    (should-not (gemini-companion-compose--complete))))

(defvar flycheck-checkers)
(defvar flycheck-current-errors)
(declare-function flycheck-buffer "ext:flycheck")
(declare-function flycheck-mode "ext:flycheck")

(defun gemini-companion-talk-test--prompt (process)
  "Return the text of the prompt that a review of the client PROCESS comes after."
  (car (run-hook-with-args-until-success
        'gemini-companion-queue-prompt-functions
        (gemini-companion-review--make :process process :path "/a" :text ""))))

(ert-deftest gemini-companion-talk/a-change-comes-after-the-last-prompt ()
  (gemini-companion-talk-test--with sent
    (let* ((gemini-companion-queue-prompt-functions nil)
           (id (process-id (get-buffer-process "terminal"))))
      (should-not (gemini-companion-talk-test--prompt id))
      (gemini-companion-talk-send "not sent" nil)
      (gemini-companion-send-prompt "first")
      (gemini-companion-talk-test--wait sent "\e[200~not sent\e[201~\e[200~first\e[201~\r")
      (should (equal (gemini-companion-talk-test--prompt id) "first"))
      (gemini-companion-talk-send (make-string 5000 ?x) t)
      (gemini-companion-test-wait "the second prompt"
                                  (lambda () (equal (gemini-companion-talk-test--prompt id)
                                                    (make-string 2000 ?x))))
      ;; A client elsewhere, and one of which nobody knows where it is.
      (should-not (gemini-companion-talk-test--prompt (emacs-pid)))
      (should-not (gemini-companion-talk-test--prompt nil)))))

(ert-deftest gemini-companion-talk/a-prompt-typed-in-the-terminal-is-not-known ()
  (gemini-companion-talk-test--with sent
    (let* ((gemini-companion-queue-prompt-functions nil)
           (terminal (get-buffer "terminal"))
           (id (process-id (get-buffer-process terminal)))
           (press (lambda (key)
                    (with-current-buffer terminal
                      (cl-letf (((symbol-function 'this-command-keys-vector)
                                 (lambda () (vector key))))
                        (run-hooks 'pre-command-hook))))))
      (gemini-companion-send-prompt "first")
      (gemini-companion-talk-test--wait sent "\e[200~first\e[201~\r")
      (funcall press ?a)
      (should (equal (gemini-companion-talk-test--prompt id) "first"))
      ;; That is the answer to a question.
      (with-current-buffer terminal
        (erase-buffer)
        (insert "╭─────╮\n│ Allow? │\n│ ● 1. Yes │\n╰─────╯\n"))
      (funcall press ?\r)
      (should (equal (gemini-companion-talk-test--prompt id) "first"))
      (with-current-buffer terminal (erase-buffer) (insert "> do more\n"))
      (funcall press ?\r)
      (should-not (gemini-companion-talk-test--prompt id))
      ;; Elsewhere it is no key of the terminal's.
      (should-not (memq #'gemini-companion-talk--note-key
                        (default-value 'pre-command-hook))))))

(ert-deftest gemini-companion-talk/what-flycheck-says-is-sent ()
  "At the line of an error, wherever in it."
  (let ((load-path (append (file-expand-wildcards
                            "/usr/share/emacs/site-lisp/elpa-src/*")
                           load-path)))
    (unless (and (require 'flycheck nil t) (executable-find "bash"))
      (message "SKIPPED %s: elpa-flycheck is not installed" (ert-test-name (ert-running-test)))
      (ert-skip "elpa-flycheck is not installed")))
  (gemini-companion-talk-test--with sent
    (switch-to-buffer (find-file-noselect
                       (gemini-companion-test-file "a.sh" "#!/bin/sh\necho 1\n  fi\n")))
    (setq-local flycheck-checkers '(sh-posix-bash))
    (flycheck-mode 1)
    (flycheck-buffer)
    (gemini-companion-test-wait "Flycheck" (lambda () flycheck-current-errors))
    (goto-char (point-min))
    (should-error (gemini-companion-send-diagnostic) :type 'user-error)
    (forward-line 2)
    (end-of-line)
    (gemini-companion-send-diagnostic t)
    (gemini-companion-test-wait
     (lambda () (funcall sent))
     (lambda () (string-match-p "a\\.sh, line 3: .*syntax error.*fi" (funcall sent))))))

;;;; Answers

(defconst gemini-companion-talk-test--composers
  '("────────────────────────────────
 Shift+Tab to accept edits
────────────────────────────────
 > %s
────────────────────────────────
 workspace (/directory)   /model
 ~/project      gemini-2.5-flash
"
    ;; With colours, and without a line below.
    " ⠧ Thinking... (esc to cancel, 1s)
────────────────────────────────
▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄
 > %s
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
"
    ;; Qwen Code.
    "────────────────────────────────
> %s
────────────────────────────────
  ? for shortcuts
")
  "What is at the end of the screen of a CLI that asks nothing.")

(defconst gemini-companion-talk-test--questions
  '("> please write

╭──────────────────────────────╮
│ ? WriteFile  Writing to a.txt│
│ ╭──────────────────────────╮ │
│ │ 1 - one                  │ │
│ │ 1 + two                  │ │
│ ╰──────────────────────────╯ │
│ Apply this change?           │
│                              │
│ ● 1. Allow once              │
│   2. Allow for this session  │
│   3. No, suggest changes (e… │
╰──────────────────────────────╯
"
    ;; Beside that box there is room, and the selected choice is not the first.
    " ╭────────────────────────────╮
 │ Do you trust this folder?  │
 │                            │
 │   1. Trust folder (project)│
 │   2. Trust parent folder   │
 │ ● 3. Don't trust           │
 │                            │
 ╰────────────────────────────╯



"
    ;; Wider than the terminal.
    " ╭─────────────────────────────
 │ > Do you want to connect Emac
 │ ● 1. Yes
 │   2. No (esc)
 │
 ╰─────────────────────────────
"
    "╭──────────────────────────────╮
│ ? Get started                │
│     1. Sign in with Google   │
│   ● 2. Use Gemini API Key    │
│   (Use Enter to select)      │
│   https://geminicli.com/docs/│
╰──────────────────────────────╯
"
    ;; What Term makes of the title that the CLI sets.
    "╭──────────────────────────────╮
│ ● 1.  Red                    │
│       like blood             │
│   2.  Blue                   │
│ Enter to select · Esc to can │
╰──────────────────────────────╯
 /tm
\e]0;✋  Action Required (project)
                     "
    ;; Qwen Code, two kinds.
    "  ╭────────────────────────────╮
  │ › 1. Yes, allow once       │
  │   2. Yes, allow always     │
  ╰────────────────────────────╯

  ⠏ Waiting for user confirmation...
"
    "  ╭────────────────────────────╮
  │ ❯ 1. Red                   │
  │   2. Blue                  │
  ╰────────────────────────────╯

  ⠏ Waiting for user confirmation...

")
  "Screens of CLIs that ask something.")

(defun gemini-companion-talk-test--show (screen)
  "Let SCREEN be what the terminal shows; return that text."
  (with-current-buffer (gemini-companion-talk-buffer)
    (erase-buffer)
    (insert screen)
    (set-marker (process-mark (get-buffer-process (current-buffer))) (point))
    (buffer-string)))

(defun gemini-companion-talk-test--refused (command)
  "Return what COMMAND says when it is no use."
  (cadr (should-error (call-interactively command) :type 'user-error)))

(ert-deftest gemini-companion-talk/questions-are-answered ()
  "Those of both CLIs, with Return and Escape."
  (gemini-companion-talk-test--with sent
    (dolist (question gemini-companion-talk-test--questions)
      (pcase-dolist (`(,command . ,key) '((gemini-companion-answer-yes . "\r")
                                          (gemini-companion-answer-no . "\e")))
        (ert-info ((format "%s to %s" command question))
          ;; What came before does not count.
          (let ((screen (gemini-companion-talk-test--show
                         (concat (format (car gemini-companion-talk-test--composers) "")
                                 question))))
            (call-interactively command)
            (gemini-companion-talk-test--wait sent (concat screen key))))))))

(ert-deftest gemini-companion-talk/nothing-is-pressed-without-a-question ()
  "Neither an old question nor what the user or the model wrote is one."
  (gemini-companion-talk-test--with sent
    (dolist (before `("" "✦ Some say:\n\n  ● 1. Allow once\n    2. No\n"
                      "✦   1 │ ● 1. Yes      │\n    2 │   2. No       │\n"
                      ,@gemini-companion-talk-test--questions))
      (dolist (composer gemini-companion-talk-test--composers)
        (dolist (prompt '("  Type your message or @path/to/file" "1. foo" "● 1. foo\n   │ ● 2. bar"))
          (let ((screen (gemini-companion-talk-test--show
                         (concat before "\n" (format composer prompt)))))
            (ert-info ((concat "On this screen:\n" screen))
              (dolist (command '(gemini-companion-answer-yes gemini-companion-answer-no))
                (should (string-search "asks nothing now"
                                       (gemini-companion-talk-test--refused command))))
              (should (equal (funcall sent) screen)))))))
    ;; A choice that has no number is no question, nor is an empty screen.
    (dolist (screen '("" "╭────────╮\n│ ● Vim  │\n│   Mode │\n╰────────╯\n"))
      (gemini-companion-talk-test--show screen)
      (gemini-companion-talk-test--refused #'gemini-companion-answer-yes))
    ;; What was sent would have come by now.
    (gemini-companion-talk-test--show "")
    (gemini-companion-send-prompt "next")
    (gemini-companion-talk-test--wait sent "\e[200~next\e[201~\r")))

(defvar vterm-copy-mode)

(ert-deftest gemini-companion-talk/nothing-is-pressed-when-the-screen-may-be-old ()
  "When something is on its way to the CLI, or the terminal stands still."
  (gemini-companion-talk-test--with sent
    (let ((screen (gemini-companion-talk-test--show
                   (car gemini-companion-talk-test--questions))))
      (gemini-companion-talk-send "text" t)
      (should (string-search "on its way"
                             (gemini-companion-talk-test--refused #'gemini-companion-answer-yes)))
      (gemini-companion-talk-test--wait sent (concat screen "\e[200~text\e[201~\r")))
    (gemini-companion-test-wait "the queue to be empty"
                                (lambda ()
                                  (null (buffer-local-value 'gemini-companion-talk--queue
                                                            (gemini-companion-talk-buffer)))))
    (let ((screen (gemini-companion-talk-test--show
                   (car gemini-companion-talk-test--questions))))
      (with-current-buffer (gemini-companion-talk-buffer) (setq-local vterm-copy-mode t))
      (should (string-search "copy mode"
                             (gemini-companion-talk-test--refused #'gemini-companion-answer-no)))
      (with-current-buffer (gemini-companion-talk-buffer) (setq-local vterm-copy-mode nil))
      (gemini-companion-answer-yes)
      ;; The user is too fast for the CLI.
      (should (string-search "try again"
                             (gemini-companion-talk-test--refused #'gemini-companion-answer-yes)))
      (gemini-companion-talk-test--wait sent (concat screen "\r")))))

(ert-deftest gemini-companion-talk/without-a-cli-no-prompt-is-asked-for ()
  (gemini-companion-test-with-project
    (cl-letf (((symbol-function 'read-string)
               (lambda (&rest _) (ert-fail "A prompt was asked for"))))
      (should (string-search "gemini-companion-run"
                             (gemini-companion-talk-test--refused
                              #'gemini-companion-send-prompt))))))

;;;; Sending to a CLI at rest

(defconst gemini-companion-talk-test--rule (make-string 30 ?─))

(defun gemini-companion-talk-test--screen (text &optional above)
  "Return the screen of a CLI with TEXT in its prompt, and ABOVE above it."
  (format "> please write\n\n%s\n\n  1 open file\n%s\n%s\n%s\n workspace  /model\n ~/project\n"
          (or above "") gemini-companion-talk-test--rule text gemini-companion-talk-test--rule))

(defconst gemini-companion-talk-test--at-rest
  (gemini-companion-talk-test--screen " >   Type your message or @path/to/file"))

(defconst gemini-companion-talk-test--question
  "> please write\n╭─────╮\n│ Apply this change?  │\n│ ● 1. Allow once │\n╰─────╯\n")

(defmacro gemini-companion-talk-test--with-screen (terminal sent &rest body)
  "Evaluate BODY with a terminal in the buffer TERMINAL that shows what is set.
SENT becomes a function that returns what was sent there."
  (declare (indent 2) (debug (symbolp symbolp body)))
  `(let* ((gemini-companion-talk--look 0.001)
          (,terminal (generate-new-buffer "terminal"))
          (received "")
          (,sent (lambda () received))
          (process (make-process :name "cli" :buffer ,terminal :command '("cat") :noquery t
                                 :connection-type 'pipe :coding 'utf-8-unix
                                 :filter (lambda (_ text)
                                           (setq received (concat received text)))
                                 :sentinel #'ignore)))
     (unwind-protect (progn ,@body)
       (delete-process process)
       (kill-buffer ,terminal))))

(defun gemini-companion-talk-test--draw (terminal screen)
  "Let TERMINAL show SCREEN."
  (with-current-buffer terminal
    (erase-buffer)
    (insert screen)))

(defun gemini-companion-talk-test--look (terminal count)
  "Let COUNT looks at TERMINAL pass."
  (cl-letf* ((state (symbol-function 'gemini-companion-talk--state))
             ((symbol-function 'gemini-companion-talk--state)
              (lambda (buffer)
                (when (eq buffer terminal)
                  (setq count (1- count)))
                (funcall state buffer))))
    (gemini-companion-test-wait "looks at a CLI" (lambda () (<= count 0)))))

(ert-deftest gemini-companion-talk/what-a-cli-does-is-on-its-screen ()
  (gemini-companion-talk-test--with-screen terminal _sent
    (pcase-dolist (`(,screen . ,state)
                   `((,gemini-companion-talk-test--at-rest . ">Typeyourmessageor@path/to/file")
                     (,(gemini-companion-talk-test--screen " > half typed,\n   in two lines ")
                      . ">halftyped,intwolines")
                     ;; What a terminal left behind.
                     (,(concat gemini-companion-talk-test--at-rest "\n\n wor\n /tm\n\n")
                      . ">Typeyourmessageor@path/to/file")
                     (,(gemini-companion-talk-test--screen " !   Type your shell command")
                      . "!Typeyourshellcommand")
                     (,(gemini-companion-talk-test--screen
                        " >   Type your message or @path" "⠏ Thinking (esc to cancel, 3s)")
                      . works)
                     (,gemini-companion-talk-test--question . asks)
                     ;; What the user has said is no prompt.
                     (,(concat gemini-companion-talk-test--at-rest
                               gemini-companion-talk-test--question)
                      . asks)
                     (,(concat gemini-companion-talk-test--at-rest (make-string 20 ?\n) "Bye") . nil)
                     ("" . nil)))
      (gemini-companion-talk-test--draw terminal screen)
      (ert-info (screen)
        (should (equal (gemini-companion-talk--state terminal) state))))
    (delete-process (get-buffer-process terminal))
    (should (eq (gemini-companion-talk--state terminal) 'ended))))

(ert-deftest gemini-companion-talk/what-is-sent-by-itself-waits-until-nothing-is-asked ()
  (gemini-companion-talk-test--with-screen terminal sent
    (let (outcome)
      (gemini-companion-talk-test--draw terminal gemini-companion-talk-test--question)
      (gemini-companion-talk-send-at-rest "use tabs" terminal
                                          (lambda (it) (setq outcome it)))
      (gemini-companion-talk-test--look terminal 20)
      (should (equal (funcall sent) ""))
      (gemini-companion-talk-test--draw terminal gemini-companion-talk-test--at-rest)
      (gemini-companion-talk-test--wait sent "\e[200~use tabs\e[201~")
      (should-not outcome)
      (gemini-companion-talk-test--draw terminal
                                        (gemini-companion-talk-test--screen " > use tabs "))
      (gemini-companion-talk-test--wait sent "\e[200~use tabs\e[201~\r")
      (should (eq outcome 'sent)))))

(ert-deftest gemini-companion-talk/what-is-sent-by-itself-answers-no-question-that-comes-between ()
  "Nor is it sent with what the user types meanwhile."
  (dolist (between (list gemini-companion-talk-test--question
                         gemini-companion-talk-test--at-rest
                         (gemini-companion-talk-test--screen
                          " > use tabs" "⠏ Thinking (esc to cancel, 3s)")
                         (gemini-companion-talk-test--screen " > use tabs and rm")))
    (gemini-companion-talk-test--with-screen terminal sent
      (let (outcome)
        (gemini-companion-talk-test--draw terminal gemini-companion-talk-test--at-rest)
        (gemini-companion-talk-send-at-rest "use tabs" terminal
                                            (lambda (it) (setq outcome it)))
        (gemini-companion-talk-test--wait sent "\e[200~use tabs\e[201~")
        (gemini-companion-talk-test--draw terminal between)
        (gemini-companion-test-wait "an outcome" (lambda () outcome))
        (ert-info (between)
          (should (eq outcome 'put))
          (gemini-companion-talk-send "next" t terminal)
          (gemini-companion-talk-test--wait
           sent "\e[200~use tabs\e[201~\e[200~next\e[201~\r"))))))

(ert-deftest gemini-companion-talk/a-cli-that-is-never-at-rest-is-not-awaited-for-ever ()
  (let ((gemini-companion-talk--rest 10))
    (pcase-dolist (`(,screen ,text ,outcome)
                   `((,gemini-companion-talk-test--question "" nil)
                     ("no prompt at all\n" "" nil)
                     (,(gemini-companion-talk-test--screen
                        " >   Type your message or @path" "⠏ Thinking (esc to cancel, 3s)")
                      "\e[200~\nuse tabs\e[201~" put)))
      (gemini-companion-talk-test--with-screen terminal sent
        (let ((became 'nothing))
          (gemini-companion-talk-test--draw terminal screen)
          (gemini-companion-talk-send-at-rest "use tabs" terminal
                                              (lambda (it) (setq became it)))
          (gemini-companion-test-wait "an outcome" (lambda () (not (eq became 'nothing))))
          (should (eq became outcome))
          (gemini-companion-talk-test--wait sent text))))))

;;; gemini-companion-talk-test.el ends here

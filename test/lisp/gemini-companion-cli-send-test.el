;;; gemini-companion-cli-send-test.el --- Tests of sending text to the CLI  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'dired)
(require 'gemini-companion-cli-compose)
(require 'gemini-companion-cli-send)
(require 'gemini-companion-test-companion)
(require 'gemini-companion-test-screen)

(defmacro gemini-companion-cli-send-test--with (sent &rest body)
  "Evaluate BODY in a new project with a terminal that runs a program.
SENT is bound to a function that returns the text sent to it."
  (declare (indent 1) (debug (symbolp body)))
  (let ((terminal (make-symbol "terminal")))
    `(gemini-companion-test-with-project
       (let* ((gemini-companion-cli-send--poll-interval 0.001)
              (gemini-companion-ui-reaction-time 0) ; tests answer one question after the other
              (inhibit-message t)
              (,terminal (generate-new-buffer "terminal"))
              (,sent (lambda () (with-current-buffer ,terminal (buffer-string)))))
         (with-current-buffer ,terminal
           (setq gemini-companion-cli-run-root gemini-companion-test-project))
         (make-process :name "cli" :buffer ,terminal :command '("cat") :noquery t
                       :connection-type 'pipe :coding 'utf-8-unix :sentinel #'ignore)
         (unwind-protect (progn ,@body)
           (when-let* ((process (get-buffer-process ,terminal)))
             (delete-process process)))))))

(defun gemini-companion-cli-send-test--wait (sent text)
  "Wait until the function SENT returns TEXT."
  (gemini-companion-test-wait (lambda () (format "%S; %S was sent" text (funcall sent)))
                              (lambda () (equal (funcall sent) text))))

(defun gemini-companion-cli-send-test--wait-done (terminal)
  "Wait until nothing is on its way to TERMINAL."
  (gemini-companion-test-wait
   "the queue to be empty"
   (lambda () (null (buffer-local-value 'gemini-companion-cli-send--busy terminal)))))

(defun gemini-companion-cli-send-test--wait-given-back (text)
  "Wait until TEXT is in the kill ring, since no CLI took it."
  (gemini-companion-test-wait
   "the text to be given back" (lambda () (equal (ignore-errors (current-kill 0 t)) text))))

(defun gemini-companion-cli-send-test--refused (command)
  "Return the error that COMMAND signals."
  (cadr (should-error (call-interactively command) :type 'user-error)))

(defun gemini-companion-cli-send-test--yes-refused ()
  "Return the error that a yes signals."
  (gemini-companion-cli-send-test--refused #'gemini-companion-answer-yes))

(defun gemini-companion-cli-send-test--text-refused (&rest arguments)
  "Return the error that sending a text with ARGUMENTS signals."
  (cadr (should-error (apply #'gemini-companion-cli-send-text arguments) :type 'user-error)))

(defun gemini-companion-cli-send-test--let-react (terminal)
  "Let the time pass in which a key is not for the question in TERMINAL."
  (with-current-buffer terminal
    (cl-decf (cdr gemini-companion-cli-send--answered) gemini-companion-ui-reaction-time)))

(ert-deftest gemini-companion-cli-send/prompts-are-pasted-and-sent ()
  (gemini-companion-cli-send-test--with sent
    (gemini-companion-send-prompt "hello ä𝕏")
    (gemini-companion-cli-send-test--wait sent "\e[200~hello ä𝕏\e[201~\r")
    (should-error (gemini-companion-send-prompt " ") :type 'user-error)))

(ert-deftest gemini-companion-cli-send/the-minibuffer-says-which-cli-gets-the-prompt ()
  "There may be several in a project, of different programs."
  (gemini-companion-cli-send-test--with sent
    (cl-letf (((symbol-function 'read-string)
               (lambda (prompt &rest _)
                 (should (equal prompt "Prompt for terminal: "))
                 "hello")))
      (call-interactively #'gemini-companion-send-prompt))
    (gemini-companion-cli-send-test--wait sent "\e[200~hello\e[201~\r")))

(ert-deftest gemini-companion-cli-send/texts-contain-no-control-characters ()
  (gemini-companion-cli-send-test--with sent
    (gemini-companion-cli-send-text "a\e[201~\C-c\r\nb\rc\td\177\u009b" t)
    (gemini-companion-cli-send-test--wait sent "\e[200~a[201~\nb\nc\td\e[201~\r")))

(ert-deftest gemini-companion-cli-send/long-texts-arrive-whole-and-in-order ()
  (gemini-companion-cli-send-test--with sent
    (let ((text (mapconcat #'number-to-string (number-sequence 1 20000) " ")))
      (gemini-companion-cli-send-text text t)
      (gemini-companion-cli-send-text "next" t)
      (gemini-companion-cli-send-test--wait
       sent (concat "\e[200~" text "\e[201~\r\e[200~next\e[201~\r")))))

(ert-deftest gemini-companion-cli-send/emacs-does-not-wait-for-a-cli-that-does-not-read ()
  "The text arrives, whole and in order, once the CLI reads."
  (gemini-companion-test-with-project
    (let* ((gemini-companion-cli-send--poll-interval 0.001)
           (inhibit-message t)
           (text (mapconcat #'number-to-string (number-sequence 1 5000) " "))
           (pipe (gemini-companion-test-file "pipe"))
           (terminal (generate-new-buffer "terminal"))
           (shows (lambda (end)
                    (with-current-buffer terminal (string-suffix-p end (buffer-string)))))
           (process (progn
                      (call-process "mkfifo" nil nil nil pipe)
                      (make-process
                       :name "cli" :buffer terminal :noquery t :connection-type 'pty
                       :coding 'utf-8-unix :sentinel #'ignore
                       :command '("sh" "-c"
                                  "stty raw -echo; echo ready; read go < pipe; exec cat")))))
      (unwind-protect
          (with-timeout (gemini-companion-test-timeout (ert-fail "Emacs waits"))
            (with-current-buffer terminal
              (setq gemini-companion-cli-run-root gemini-companion-test-project))
            (gemini-companion-test-wait "the CLI" (lambda () (funcall shows "ready\n")))
            (let ((write (symbol-function 'gemini-companion-cli-send--try))
                  (full nil))
              (cl-letf (((symbol-function 'gemini-companion-cli-send--try)
                         (lambda (&rest arguments)
                           (let ((outcome (apply write arguments)))
                             (when (eq outcome 'waits) (setq full t))
                             outcome))))
                (gemini-companion-cli-send-text text t terminal)
                (gemini-companion-test-wait "a terminal that takes no more" (lambda () full))))
            (write-region "go\n" nil pipe nil 'silent)
            (gemini-companion-test-wait
             "the text" (lambda () (funcall shows (concat "ready\n\e[200~" text "\e[201~\r")))))
        (delete-process process)))))

(ert-deftest gemini-companion-cli-send/emacs-waits-for-none-of-several-clis ()
  "What is sent to one does not end what is sent to the other."
  (gemini-companion-test-with-project
    (let* ((gemini-companion-cli-send--poll-interval 0.001)
           (inhibit-message t)
           (write (symbol-function 'gemini-companion-cli-send--try))
           (attempts nil)
           (kill-ring nil)
           (processes
            (mapcar (lambda (name)
                      (let ((buffer (generate-new-buffer name)))
                        (with-current-buffer buffer
                          (setq gemini-companion-cli-run-root gemini-companion-test-project))
                        (make-process :name name :buffer buffer :noquery t :connection-type 'pty
                                      :sentinel #'ignore
                                      :command '("sh" "-c" "stty raw -echo; echo ready; exec sleep 1000"))))
                    '("one" "two"))))
      (unwind-protect
          (cl-letf (((symbol-function 'gemini-companion-cli-send--try)
                     (lambda (process text)
                       (let ((outcome (funcall write process text)))
                         (when (eq outcome 'waits) (push process attempts))
                         outcome))))
            ;; Before that, the system drops what is too long for a line.
            (gemini-companion-test-wait
             "the terminals"
             (lambda ()
               (cl-loop for process in processes
                        always (with-current-buffer (process-buffer process)
                                 (string-search "ready" (buffer-string))))))
            (with-timeout (gemini-companion-test-timeout (ert-fail "Emacs waits"))
              (dolist (process processes)
                (gemini-companion-cli-send-text (make-string 30000 ?x) t (process-buffer process)))
              (gemini-companion-test-wait
               "several attempts for each"
               (lambda ()
                 (cl-loop for process in processes
                          always (> (seq-count (lambda (it) (eq it process)) attempts) 3))))))
        (mapc #'delete-process processes))
      ;; Otherwise, the next test gets the messages.
      (gemini-companion-test-wait "both texts to be kept" (lambda () (= (length kill-ring) 2))))))

(ert-deftest gemini-companion-cli-send/an-error-does-not-block-what-is-sent-next ()
  (gemini-companion-cli-send-test--with sent
    (cl-letf (((symbol-function 'process-send-string) (lambda (&rest _) (error "Broken"))))
      (gemini-companion-cli-send-text "one" t))
    (gemini-companion-cli-send-text "two" t)
    (gemini-companion-cli-send-test--wait sent "\e[200~two\e[201~\r")))

(ert-deftest gemini-companion-cli-send/line-endings-are-not-split ()
  "Line ends of two characters are one as well, and no character is cut in two."
  (gemini-companion-cli-send-test--with sent
    (gemini-companion-cli-send-text "ä𝕏\r\nb\r\n\r\n\r\r\n漢字\e\C-c\e\C-c\eé\r" t)
    (gemini-companion-cli-send-test--wait sent "\e[200~ä𝕏\nb\n\n\n\n漢字é\n\e[201~\r")))

(ert-deftest gemini-companion-cli-send/a-region-names-its-file-and-lines ()
  (gemini-companion-cli-send-test--with sent
    (switch-to-buffer (find-file-noselect (gemini-companion-test-file "sub/a.txt" "1\n2\n3\n")))
    (gemini-companion-send-region 3 7 t)
    (gemini-companion-cli-send-test--wait
     sent "\e[200~sub/a.txt, lines 2 to 3:\n```\n2\n3\n```\n\e[201~\r")))

(ert-deftest gemini-companion-cli-send/a-region-is-sent-as-it-would-be-copied ()
  "Eat hides spaces beside wide characters."
  (gemini-companion-cli-send-test--with sent
    (switch-to-buffer (get-buffer-create "eat"))
    (insert "漢字")
    (gemini-companion-test-widen-as-eat)
    (gemini-companion-send-region (point-min) (point-max) t)
    (gemini-companion-cli-send-test--wait
     sent "\e[200~buffer eat, line 1:\n```\n漢字\n```\n\e[201~\r")))

;; A region was one of "buffer a.txt<2>", and the file could not be mentioned.
(ert-deftest gemini-companion-cli-send/an-indirect-buffer-shows-its-file ()
  (gemini-companion-cli-send-test--with sent
    (switch-to-buffer (make-indirect-buffer
                       (find-file-noselect (gemini-companion-test-file "sub/a.txt" "1\n2\n3\n"))
                       "indirect" t))
    (narrow-to-region 3 5)
    (gemini-companion-send-region 3 5 t)
    (gemini-companion-cli-send-test--wait
     sent "\e[200~sub/a.txt, line 2:\n```\n2\n```\n\e[201~\r")
    (with-current-buffer "terminal" (erase-buffer))
    (gemini-companion-send-file t)
    (gemini-companion-cli-send-test--wait sent "\e[200~@sub/a.txt \e[201~\r")))

(ert-deftest gemini-companion-cli-send/a-region-may-contain-a-fence ()
  "In Markdown, a block of code ends only at a fence as long as that before it."
  (gemini-companion-cli-send-test--with sent
    (switch-to-buffer (find-file-noselect (gemini-companion-test-file "a.md" "````\n2\n````\n")))
    (gemini-companion-send-region 1 12 t)
    (gemini-companion-cli-send-test--wait
     sent "\e[200~a.md, lines 1 to 3:\n`````\n````\n2\n````\n`````\n\e[201~\r")))

(ert-deftest gemini-companion-cli-send/a-region-of-a-file-elsewhere-is-no-command ()
  "The CLI takes a prompt that begins with a slash for a command."
  (gemini-companion-cli-send-test--with sent
    (let ((name (gemini-companion-test-file "sub/a.txt" "1\n2\n")))
      (switch-to-buffer (find-file-noselect name))
      (with-current-buffer "terminal"
        (setq gemini-companion-cli-run-root (gemini-companion-test-file "other/")))
      (gemini-companion-send-region 3 5 t)
      (gemini-companion-cli-send-test--wait
       sent (format "\e[200~file %s, line 2:\n```\n2\n```\n\e[201~\r" name)))))

(ert-deftest gemini-companion-cli-send/files-are-mentioned-as-the-cli-expects ()
  (gemini-companion-cli-send-test--with sent
    (switch-to-buffer (find-file-noselect
                       (gemini-companion-test-file "sub/a (b) $c\\d [e].txt" "")))
    (gemini-companion-send-file t)
    (gemini-companion-cli-send-test--wait
     sent "\e[200~@sub/a\\ \\(b\\)\\ \\$c\\\\d\\ \\[e\\].txt \e[201~\r")
    (should (equal (gemini-companion-cli-send-mention "/etc/hosts" gemini-companion-test-project)
                   "@/etc/hosts"))))

;; The prompt had "@../../home/u/proj/a.c", which led elsewhere.
(ert-deftest gemini-companion-cli-send/a-cli-may-know-the-project-by-its-real-name ()
  (gemini-companion-test-with-project
    (gemini-companion-test-file "real/sub/a.c" "")
    (let ((link (gemini-companion-test-file "link")))
      (make-symbolic-link (gemini-companion-test-file "real") link)
      (should (equal (gemini-companion-cli-send-mention
                      (concat link "/sub/a.c")
                      (file-truename (gemini-companion-test-file "real/")))
                     "@sub/a.c")))))

(ert-deftest gemini-companion-cli-send/in-dired-marked-files-are-mentioned ()
  (gemini-companion-cli-send-test--with sent
    (gemini-companion-test-file "a" "")
    (gemini-companion-test-file "b" "")
    (switch-to-buffer (dired-noselect gemini-companion-test-project))
    (dired-mark-files-regexp "\\`[ab]\\'")
    (gemini-companion-send-file t)
    (gemini-companion-cli-send-test--wait sent "\e[200~@a @b \e[201~\r")))

(ert-deftest gemini-companion-cli-send/a-composed-prompt-is-kept-until-it-is-sent ()
  (gemini-companion-cli-send-test--with sent
    (let ((gemini-companion-cli-send-history '("before")))
      (gemini-companion-compose)
      (insert "one\ntwo")
      ;; The user leaves the buffer and comes back to it.
      (bury-buffer)
      (switch-to-buffer (generate-new-buffer "elsewhere"))
      (gemini-companion-compose)
      (should (equal (buffer-string) "one\ntwo"))
      (gemini-companion-compose-send)
      (gemini-companion-cli-send-test--wait sent "\e[200~one\ntwo\e[201~\r")
      (should (equal gemini-companion-cli-send-history '("one\ntwo" "before")))
      (gemini-companion-compose)
      (should (equal (buffer-string) ""))
      (gemini-companion-compose-previous)
      (gemini-companion-compose-previous)
      (should (equal (buffer-string) "before"))
      (should-error (gemini-companion-compose-previous) :type 'user-error)
      (gemini-companion-compose-next)
      (should (equal (buffer-string) "one\ntwo"))
      (gemini-companion-compose-quit))))

(ert-deftest gemini-companion-cli-send/a-prompt-is-composed-in-one-window ()
  "Also if the user calls the command again, there or elsewhere."
  (gemini-companion-cli-send-test--with _sent
    (let ((size (cons (frame-width) (frame-height)))
          (window (selected-window)))
      (unwind-protect
          (progn
            (set-frame-size nil 80 60)
            (gemini-companion-compose)
            (let ((windows (window-list)))
              (should (length= windows 2))
              (gemini-companion-compose)
              (select-window window)
              (gemini-companion-compose)
              (should (equal (window-list) windows)))
            (gemini-companion-compose-quit)
            (should (equal (window-list) (list window))))
        (set-frame-size nil (car size) (cdr size))))))

(ert-deftest gemini-companion-cli-send/a-prompt-outlives-its-cli ()
  (gemini-companion-cli-send-test--with _sent
    (gemini-companion-compose)
    (insert "precious")
    (delete-process (get-buffer-process gemini-companion-cli-compose-terminal))
    (should (string-search "M-x gemini-companion-compose"
                           (gemini-companion-cli-send-test--refused #'gemini-companion-compose-send)))
    (should (equal (buffer-string) "precious"))))

(ert-deftest gemini-companion-cli-send/a-prompt-is-not-sent-to-a-shell-whose-cli-has-ended ()
  "The user has started both, and writes a prompt meanwhile."
  (gemini-companion-cli-send-test--with sent
    (let ((gemini-companion-cli--all nil))
      (with-current-buffer "terminal" (setq gemini-companion-cli-run-root nil))
      (gemini-companion-cli--add 'gemini (process-id (get-buffer-process "terminal")))
      (gemini-companion-compose)
      (insert "rm x")
      (setq gemini-companion-cli--all nil)
      (should (string-search "No CLI seems to run in terminal"
                             (gemini-companion-cli-send-test--refused
                              #'gemini-companion-compose-send)))
      (should (equal (buffer-string) "rm x"))
      (should (equal (funcall sent) "")))))

(ert-deftest gemini-companion-cli-send/a-prompt-that-was-discarded-can-be-recalled ()
  "Also if its buffer was killed."
  (dolist (discard (list #'gemini-companion-compose-quit #'kill-buffer))
    (gemini-companion-cli-send-test--with _sent
      (let ((gemini-companion-cli-send-history nil))
        (gemini-companion-compose)
        (funcall discard)
        (should-not gemini-companion-cli-send-history)
        (gemini-companion-compose)
        (insert "precious\n")
        (funcall discard)
        (gemini-companion-compose)
        (should (equal (buffer-string) ""))
        (gemini-companion-compose-previous)
        (should (equal (buffer-string) "precious"))))))

(ert-deftest gemini-companion-cli-send/many-blanks-in-a-prompt-do-not-block-emacs ()
  (gemini-companion-cli-send-test--with _sent
    (let ((gemini-companion-cli-send-history nil)
          (prompt (concat "one" (make-string 100000 ?\s) "two")))
      (gemini-companion-compose)
      (insert "\n \t" prompt "\r\n ")
      (should (< (car (benchmark-run (gemini-companion-compose-quit))) 2))
      (should (equal gemini-companion-cli-send-history (list prompt))))))

(ert-deftest gemini-companion-cli-send/files-are-completed-after-an-at ()
  (gemini-companion-cli-send-test--with _sent
    (gemini-companion-test-file "two words.txt" "")
    (gemini-companion-compose)
    (insert "look at @two")
    (pcase-let ((`(,start ,end ,table . ,_) (gemini-companion-cli-compose--complete)))
      (should (equal (buffer-substring start end) "two"))
      (should (equal (all-completions "two" table) '("two\\ words.txt"))))
    (pcase-dolist (`(,key . ,typed) '(("TAB" . "two") ("M-TAB" . "two")
                                      ;; As after the part that several names have in common.
                                      ("TAB" . "two\\ ") ("TAB" . "two\\ w")))
      (insert " @" typed)
      (call-interactively (key-binding (kbd key)))
      (should (looking-back " @two\\\\ words\\.txt" (line-beginning-position))))
    (insert " mail@two")
    (should-not (gemini-companion-cli-compose--complete))))

(ert-deftest gemini-companion-cli-send/files-that-git-does-not-list-are-completed ()
  (gemini-companion-cli-send-test--with _sent
    (gemini-companion-test-file ".git/HEAD" "damaged")
    (gemini-companion-test-file "two.txt" "")
    (gemini-companion-compose)
    (insert "look at @tw")
    (call-interactively (key-binding (kbd "TAB")))
    (should (equal (buffer-string) "look at @two.txt"))))

(ert-deftest gemini-companion-cli-send/any-part-of-a-file-name-is-completed ()
  "And nothing but files, whatever Text mode completes."
  (gemini-companion-cli-send-test--with _sent
    (gemini-companion-compose)
    (should-not (memq t completion-at-point-functions))
    (setq gemini-companion-cli-compose--names '("lib/one/x.py" "src/two.py" "src/one.py" "phone.txt"))
    (insert "look at @ne.p")
    (call-interactively (key-binding (kbd "TAB")))
    (should (equal (buffer-string) "look at @src/one.py"))))

(ert-deftest gemini-companion-cli-send/commands-are-completed-after-a-slash ()
  "The CLI's own, the user's and the project's, but only at the beginning."
  (gemini-companion-cli-send-test--with _sent
    (let ((process-environment (cons (concat "GEMINI_CLI_HOME=" default-directory "home")
                                     process-environment)))
      (gemini-companion-test-file ".gemini/commands/git/commit.toml" "")
      (gemini-companion-test-file ".gemini/commands/README.md" "")
      (gemini-companion-test-file "home/.gemini/commands/mine.toml" "")
      (gemini-companion-compose)
      (pcase-dolist (`(,text . ,completed) '(("/sta" . "/stats") ("/git" . "/git:commit")
                                             ("/mi" . "/mine")
                                             ("see /sta" . "see /sta") ("\n/sta" . "\n/sta")))
        (erase-buffer)
        (insert text)
        (call-interactively (key-binding (kbd "TAB")))
        (should (equal (buffer-string) completed)))
      (should-not (member "README" (gemini-companion-cli-compose--commands))))))

(defvar flycheck-checkers)
(defvar flycheck-current-errors)
(declare-function flycheck-buffer "ext:flycheck")
(declare-function flycheck-mode "ext:flycheck")

(ert-deftest gemini-companion-cli-send/flycheck-errors-are-sent ()
  "Point may be anywhere in the line of the error."
  (let ((load-path (append (file-expand-wildcards
                            "/usr/share/emacs/site-lisp/elpa-src/*")
                           load-path)))
    (unless (and (require 'flycheck nil t) (executable-find "bash"))
      (gemini-companion-test-skip "elpa-flycheck is not installed")))
  (gemini-companion-cli-send-test--with sent
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

(defconst gemini-companion-cli-send-test--composers
  '("────────────────────────────────
 Shift+Tab to accept edits
────────────────────────────────
 > %s
────────────────────────────────
 workspace (/directory)   /model
 ~/project      gemini-2.5-flash
"
    ;; With colors and without a line below.
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
  "The end of the screen of a CLI that asks nothing.")

(defconst gemini-companion-cli-send-test--questions
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
    ;; There is space beside the box, and the selected choice is not the first.
    " ╭────────────────────────────╮
 │ Do you trust this folder?  │
 │                            │
 │   1. Trust folder (project)│
 │   2. Trust parent folder   │
 │ ● 3. Don't trust           │
 │                            │
 ╰────────────────────────────╯



"
    ;; The box is wider than the terminal.
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
    ;; The title set by the CLI, as Term shows it.
    "╭──────────────────────────────╮
│ ● 1.  Red                    │
│       like blood             │
│   2.  Blue                   │
│ Enter to select · Esc to can │
╰──────────────────────────────╯
 /tm
\e]0;✋  Action Required (project)
                     "
    ;; Qwen Code's two kinds, and those of newer ones, which have no box.
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

"
    "> please touch
  ? Shell touch made ←

     touch made

   Allow execution of: 'touch'?

   › 1. Yes, allow once
     2. No, suggest changes (esc)


  ⠏ Waiting for user confirmation...
"
    ;; There is no room for its title.
    "   Which color?

     1. Red
        like blood
   ❯ 2. Blue

   ↑/↓: Navigate | Enter: Select | Esc: Cancel


  ⠏ Waiting for user confirmation...
"
    ;; For a screen reader.
    "? for shortcuts
? Shell   touch made
touch made
Allow execution of [Shell]?
(checked) 1. Allow once
2. Allow for this session
3. No, suggest changes (esc)
"
    ;; With collapseDrawerDuringApproval off, the prompt remains.
    "╭──────────────────────────────╮
│ ? Shell  touch made          │
│ ● 1. Allow once              │
│   2. No, suggest changes (e… │
╰──────────────────────────────╯



────────────────────────────────
 Shift+Tab to accept edits

   1 open file (F4 to view)
────────────────────────────────
 >   Type your message or @path/t
────────────────────────────────
 workspace (/directory)   /model
")
  "Screens of CLIs with an open question.")

(defun gemini-companion-cli-send-test--show (screen)
  "Make the terminal, in a window, show SCREEN; return that text."
  (with-current-buffer (gemini-companion-cli-send-terminal)
    (display-buffer (current-buffer))
    (erase-buffer)
    (insert screen)
    (set-marker (process-mark (get-buffer-process (current-buffer))) (point))
    (buffer-string)))

(ert-deftest gemini-companion-cli-send/questions-are-answered ()
  "The keys are Return and Escape in both CLIs, but Escape exits at a folder."
  (gemini-companion-cli-send-test--with sent
    (dolist (question gemini-companion-cli-send-test--questions)
      (pcase-dolist (`(,command . ,key)
                     `((gemini-companion-answer-yes . "\r")
                       (gemini-companion-answer-no
                        . ,(if (string-search "trust this folder" question) "3" "\e"))))
        (ert-info ((format "%s to %s" command question))
          ;; The text before the question does not count.
          (let ((screen (gemini-companion-cli-send-test--show
                         (concat (format (car gemini-companion-cli-send-test--composers) "")
                                 question))))
            (call-interactively command)
            (gemini-companion-cli-send-test--wait sent (concat screen key))
            (gemini-companion-cli-send-test--wait-done (gemini-companion-cli-send-terminal))))))))

(ert-deftest gemini-companion-cli-send/no-is-a-digit-where-escape-does-nothing ()
  "Or where it exits.  Only the last line with a number is a choice for certain."
  (gemini-companion-cli-send-test--with sent
    (pcase-dolist
        (`(,body . ,key)
         '(("│ ● 1. Trust folder (project)  │\n│   2. Trust parent folder ()   │\n│   3. Don't trust              │"
            . "3")
           ("│  The following files are     │\n│   outside your workspace       │
│  ● 1. Yes                     │\n│    2. No                      │\n│                               │
│  Enter to select · ↑/↓ to     │\n│  navigate · Esc to cancel     │" . "2")
           ("│ ● 1. Acknowledge and Enable   │
│   2. Do not enable (Ask again │\n│      next time)               │" . "2")
           ("│ ● 1. Keep trying              │\n│   2. Switch to gemini-flash   │
│   3. Stop                     │" . "3")
           ("│ ● 1. Get AI Credits - Open br │\n│   2. Stop - Abort request     │" . "2")
           ;; With useAlternateBuffer, a scroll bar is beside it.
           ("│   1. Yes, grant permission    │█\n│ ● 2. No, deny permission to   │█
│      use my data              │█\n│                               │█
│ [1]                           │█\n│ https://policies.google.com/  │█" . "2")
           ;; Of /permissions.
           ("│ ● 1. Trust this folder        │\n│   2. Don't trust              │
│                               │\n│ (Use Enter to select, Esc to close) │" . "\e")
           ;; Of /trust in Qwen Code.
           ("│ › 1. Trust folder (project)   │\n│   2. Trust parent folder (x)  │
│   3. Don't trust              │\n│ (Use Enter to select)         │" . "\e")
           ("│ ● 1. Yes                      │\n│   2. No (esc)                 │
│   3. No, don't ask again      │" . "\e")
           ("│ ? Shell  echo                 │\n│   2. No                       │
│ ● 1. Allow once               │\n│   3. No, suggest changes (esc)│" . "\e")))
      (ert-info (body)
        (let ((screen (gemini-companion-cli-send-test--show
                       (concat " ╭───────────────────────────────╮\n"
                               (replace-regexp-in-string "^" " " body)
                               "\n │                               │\n"
                               " ╰───────────────────────────────╯\n"))))
          (gemini-companion-answer-no)
          (gemini-companion-cli-send-test--wait sent (concat screen key)))))
    (let ((screen (gemini-companion-cli-send-test--show
                   "Do you trust the files in this folder?\n(checked) 1. Trust folder (project)
2. Trust parent folder (src)\n3. Don't trust\n")))
      (gemini-companion-answer-no)
      (gemini-companion-cli-send-test--wait sent (concat screen "3")))))

(ert-deftest gemini-companion-cli-send/no-key-is-sent-without-a-question ()
  "An answered question does not count, nor does text of the user or of the model."
  (gemini-companion-cli-send-test--with sent
    (dolist (before `("" "✦ Some say:\n\n  ● 1. Allow once\n    2. No\n"
                      "✦   1 │ ● 1. Yes      │\n    2 │   2. No       │\n"
                      ,@gemini-companion-cli-send-test--questions))
      (dolist (composer gemini-companion-cli-send-test--composers)
        (dolist (prompt '("  Type your message or @path/to/file" "1. foo" "● 1. foo\n   │ ● 2. bar"))
          (let ((screen (gemini-companion-cli-send-test--show
                         (concat before
                                 ;; Without a remark, one with a title would be open.
                                 (if (string-match-p "^╭.*\n│ \\? " before) "\n✦ I see.\n" "\n")
                                 (format composer prompt)))))
            (ert-info ((concat "On this screen:\n" screen))
              (dolist (command '(gemini-companion-answer-yes gemini-companion-answer-no))
                (should (string-search "asks no question now"
                                       (gemini-companion-cli-send-test--refused command))))
              (should (equal (funcall sent) screen)))))))
    ;; A list that the user has printed in the CLI is right above the prompt.
    (dolist (composer gemini-companion-cli-send-test--composers)
      (gemini-companion-cli-send-test--show
       (concat "╭────────────────────────╮\n│ ✓  Shell Command cat a │\n│                        │\n"
               "│ ● 1. buy milk          │\n╰────────────────────────╯\n"
               (format composer "  Type your message or @path/to/file")))
      (gemini-companion-cli-send-test--yes-refused))
    ;; Nobody has chosen a text.
    (gemini-companion-cli-send-test--show gemini-companion-test-screen-text-question)
    (dolist (command '(gemini-companion-answer-yes gemini-companion-answer-no))
      (should (string-search "in its terminal" (gemini-companion-cli-send-test--refused command))))
    ;; Nor is there a text to type where it shows what the user has chosen.
    (gemini-companion-cli-send-test--show
     (string-replace
      "│ > Enter your response                   │" "│ Name → Max                              │"
      (string-replace "What name?         " "Review your answers:"
                      gemini-companion-test-screen-text-question)))
    (should (equal (gemini-companion-cli-send-test--yes-refused) "Answer The CLI in its terminal"))
    (gemini-companion-cli-send-test--show gemini-companion-test-screen-text-question)
    (should (string-search "asks a question"
                           (gemini-companion-cli-send-test--refused #'gemini-companion-send-prompt)))
    ;; A choice without a number is no question, nor is an empty screen.
    (dolist (screen '("" "╭────────╮\n│ ● Vim  │\n│   Mode │\n╰────────╯\n"))
      (gemini-companion-cli-send-test--show screen)
      (gemini-companion-cli-send-test--yes-refused))
    ;; Text sent before would have arrived by now.
    (gemini-companion-cli-send-test--show "")
    (gemini-companion-send-prompt "next")
    (gemini-companion-cli-send-test--wait sent "\e[200~next\e[201~\r")))

(ert-deftest gemini-companion-cli-send/no-key-is-sent-if-the-screen-may-be-outdated ()
  "While text is on its way to the CLI, or the terminal is in copy mode."
  (gemini-companion-cli-send-test--with sent
    (gemini-companion-cli-send-text "text" t)
    (let ((screen (gemini-companion-cli-send-test--show
                   (car gemini-companion-cli-send-test--questions))))
      (should (string-search "still sending" (gemini-companion-cli-send-test--yes-refused)))
      (gemini-companion-cli-send-test--wait-done (gemini-companion-cli-send-terminal))
      (should (string-prefix-p screen (funcall sent))))
    (let ((screen (gemini-companion-cli-send-test--show
                   (car gemini-companion-cli-send-test--questions))))
      (let ((gemini-companion-cli-terminals
             '((fake :title "Fake" :mode fundamental-mode :frozen always))))
        (dolist (command '(gemini-companion-answer-no gemini-companion-send-prompt))
          (should (string-search "copy mode" (gemini-companion-cli-send-test--refused command)))))
      (gemini-companion-answer-yes)
      ;; The CLI has not updated its screen yet.
      (should (string-search "try again" (gemini-companion-cli-send-test--yes-refused)))
      (gemini-companion-cli-send-test--wait sent (concat screen "\r"))
      ;; That changes nothing if the user has to check a choice first.
      (with-current-buffer (gemini-companion-cli-send-terminal)
        (cl-decf (cdr gemini-companion-cli-send--answered) 5))
      (gemini-companion-answer-no)
      (gemini-companion-cli-send-test--wait sent (concat screen "\r\e")))))

(ert-deftest gemini-companion-cli-send/a-key-pressed-twice-does-not-answer-the-next-question ()
  "A CLI that has several tools to run shows that in a tenth of a second."
  (gemini-companion-cli-send-test--with sent
    (let* ((gemini-companion-ui-reaction-time 10)
           (show (lambda () (gemini-companion-cli-send-test--show
                             (car gemini-companion-cli-send-test--questions))))
           (screen (funcall show)))
      (gemini-companion-answer-yes)
      (gemini-companion-cli-send-test--wait sent (concat screen "\r"))
      (funcall show)
      (should (string-search "try again" (gemini-companion-cli-send-test--yes-refused)))
      (gemini-companion-cli-send-test--let-react (gemini-companion-cli-send-terminal))
      (gemini-companion-answer-yes)
      (gemini-companion-cli-send-test--wait sent (concat screen "\r")))))

(ert-deftest gemini-companion-cli-send/a-key-pressed-twice-does-not-answer-a-question-just-shown ()
  "The CLI has not yet drawn it again in the larger window."
  (gemini-companion-cli-send-test--with sent
    (let* ((gemini-companion-ui-reaction-time 10)
           (terminal (gemini-companion-cli-send-terminal))
           (screen (gemini-companion-cli-send-test--show
                    (car gemini-companion-cli-send-test--questions))))
      (delete-windows-on terminal)
      (should (string-search "was not all on screen" (gemini-companion-answer-yes)))
      (should (string-search "has just appeared" (gemini-companion-cli-send-test--yes-refused)))
      (should (equal (funcall sent) screen))
      (gemini-companion-cli-send-test--let-react terminal)
      (gemini-companion-answer-yes)
      (gemini-companion-cli-send-test--wait sent (concat screen "\r")))))

(ert-deftest gemini-companion-cli-send/a-key-pressed-again-does-not-answer-what-has-just-appeared ()
  "There was no question when it was pressed first."
  (gemini-companion-cli-send-test--with sent
    (let* ((gemini-companion-ui-reaction-time 10)
           (refused (lambda ()
                      (gemini-companion-cli-send-test--yes-refused))))
      (gemini-companion-cli-send-test--show "> \n")
      (should (string-search "asks no question now" (funcall refused)))
      (let ((screen (gemini-companion-cli-send-test--show
                     (car gemini-companion-cli-send-test--questions))))
        (should (string-search "has just appeared" (funcall refused)))
        (should (equal (funcall sent) screen))
        (gemini-companion-cli-send-test--let-react (gemini-companion-cli-send-terminal))
        (gemini-companion-answer-yes)
        (gemini-companion-cli-send-test--wait sent (concat screen "\r"))))))

(ert-deftest gemini-companion-cli-send/questions-are-not-answered-unseen ()
  (gemini-companion-cli-send-test--with sent
    (let ((terminal (gemini-companion-cli-send-terminal))
          (selected (selected-window))
          (screen (gemini-companion-cli-send-test--show
                   (car gemini-companion-cli-send-test--questions))))
      (dolist (command '(gemini-companion-answer-yes gemini-companion-answer-no))
        (delete-windows-on terminal)
        (should (string-search "was not all on screen; look at it, then answer"
                               (call-interactively command)))
        (should (equal (funcall sent) screen))
        (should (eq (selected-window) selected)))
      ;; The CLI has drawn the question again, and no room is left for the border of its box.
      (let ((window (get-buffer-window terminal)))
        (set-window-start window (with-current-buffer terminal
                                   (goto-char (point-min))
                                   (search-forward "│ ?")
                                   (line-beginning-position)))
        (should (> (window-max-delta window) 0)))
      (gemini-companion-answer-yes)
      (gemini-companion-cli-send-test--wait sent (concat screen "\r")))))

(ert-deftest gemini-companion-cli-send/a-question-that-hides-its-choices-gets-all-the-room-at-once ()
  "That of LLxprt Code, which has no border of its own, in a low window."
  (gemini-companion-cli-send-test--with sent
    (let* ((terminal (gemini-companion-cli-send-terminal))
           (screen (gemini-companion-cli-send-test--show
                    (concat "╭───────────╮\n│  > do it  │\n╰───────────╯\n │╭──────────\n"
                            " ││ ?  Shell touch ran ←\n ││──────────\n"
                            " │  3. No, suggest changes (esc)  │\n ╰──────────\n"
                            "Press ctrl-s to show more lines  █\n\n"
                            "⠏ Waiting for user confirmation...\n")))
           (window (split-window nil -8)))
      (set-window-buffer window terminal)
      (set-window-point window (with-current-buffer terminal (point-max)))
      (should (string-search "was not all on screen" (gemini-companion-answer-yes)))
      (should (= 0 (window-max-delta window)))
      (should (equal (funcall sent) screen)))))

(defun gemini-companion-cli-send-test--show-low (height)
  "Show the end of the CLI's terminal in a window of HEIGHT, and return that."
  (delete-other-windows)
  (let ((terminal (gemini-companion-cli-send-terminal))
        (window (split-window nil (- height))))
    (set-window-buffer window terminal)
    (set-window-point window (with-current-buffer terminal (point-max)))
    window))

(defmacro gemini-companion-cli-send-test--with-change (seen &rest body)
  "Evaluate BODY while a change of the CLI waits, which Emacs has shown if SEEN."
  (declare (indent 1) (debug t))
  `(cl-letf (((symbol-function 'gemini-companion-cli-in-terminal)
              (lambda (_) (gemini-companion-cli--make)))
             ((symbol-function 'gemini-companion-cli-reviews)
              (lambda (_) (list (gemini-companion-review-make
                                 :seen ,seen :path "/no/a.txt" :client "Gemini CLI"
                                 :proposed "" :text "")))))
     ,@body))

(ert-deftest gemini-companion-cli-send/a-command-that-is-hidden-is-not-run ()
  "Gemini CLI 0.61 shows only the start of a long command in a low window."
  (dolist (box '("│ ? Shell printf 'safe' #      …  │\n│ ╭──────╮ │\n│ ╰──────╯ │\n"
                 ;; Models can use the characters of a box.
                 "│ ? Shell ╭ a…  │\n│ ╭──────╮ │\n│ ╰──────╯ │\n"
                 "│ ? Shell a…  │\n│         ╭ b  │\n│ ╭──────╮ │\n│ ╰──────╯ │\n"
                 "│ ? Shell a…  │\n│ ... first 3 lines hidden (Ctrl+O to show) ... │\n│ ╰──────╯ │\n"
                 "│ ? Shell a…  │\n│ ╭─────╮ │\n│ │ ... 3 hidden (Ctrl+O) ... │ │\n│ ╰──────╯ │\n"
                 "│ ? Shell a…  │\n│ ╭─────╮ │\n│ │ ... first 1 line hidden (Ctrl+O to show) │ │
│ │ rm -rf │ │\n│ ╰──────╯ │\n"
                 ;; That of a command of the user's own is not in the title.
                 "│ ?  Expansion Command expansion │\n│   │\n│ ╭──────╮ │\n│ ╰──────╯ │\n"
                 ;; Of a command of over 150 characters, the title is what the model says about it.
                 "│ ? Shell List the files  │\n│ ╭──────╮ │\n│ ╰──────╯ │\n"
                 ;; After /ide disable.
                 "│ ? WriteFile  Writing to a.txt  │\n│ ╭──────╮ │\n│ ╰──────╯ │\n"))
    (gemini-companion-cli-send-test--with sent
      (let* ((screen (gemini-companion-cli-send-test--show
                      (concat "╭───────────╮\n" box "│ Allow execution of [Shell]?  │\n│   │
│ ● 1. Allow once │\n│   2. No, suggest changes (esc)  │\n╰──────────╯\n")))
             (window (gemini-companion-cli-send-test--show-low 13)))
        (should (string-search "was not all on screen" (gemini-companion-answer-yes)))
        (should (equal (funcall sent) screen))
        ;; There is no more room than this.
        (should (= 0 (window-max-delta window)))
        (gemini-companion-answer-yes)
        (gemini-companion-cli-send-test--wait sent (concat screen "\r"))))))

(ert-deftest gemini-companion-cli-send/after-the-answer-the-terminal-gives-room-back ()
  "It keeps what the question took, so that the next one is seen at once."
  (gemini-companion-cli-send-test--with sent
    (let ((question "╭────╮\n│ ? Shell x  │\n│ ╭──╮ │\n%s│ ╰──╯ │\n│ Allow?  │\n\
│ ● 1. Yes │\n│   2. No (esc) │\n╰────╯\n")
          (height (frame-height)))
      (unwind-protect
          ;; One that the user has made large stays so, even if that was after the question.
          (pcase-dolist (`(,lines . ,resized) '((9 . 0) (15 . 0) (9 . -1)))
            (set-frame-height nil 24)
            (gemini-companion-cli-send-test--show (format question ""))
            (let ((window (gemini-companion-cli-send-test--show-low lines)))
              (should (string-search "was not all on screen" (gemini-companion-answer-yes)))
              (should (= 0 (window-max-delta window)))
              (window-resize window resized)
              (let ((resized-to (window-total-height window))
                    (screen (gemini-companion-cli-send-test--show
                             (format question "│ │ x  │ │\n"))))
                (set-window-point window (with-current-buffer (window-buffer window) (point-max)))
                (gemini-companion-answer-yes)
                (gemini-companion-cli-send-test--wait sent (concat screen "\r"))
                ;; In batch mode, Emacs may take one line away from the frame.
                (should (<= -1 (- (window-total-height window)
                                  (if (= resized 0) (max lines 13) resized-to))
                            0)))))
        (set-frame-height nil height)))))

(ert-deftest gemini-companion-cli-send/a-command-above-the-screen-is-not-run ()
  "With useAlternateBuffer, the terminal has nothing but what the screen shows."
  (gemini-companion-cli-send-test--with sent
    (let* ((screen (gemini-companion-cli-send-test--show
                    "│          touch b          │\n│ ╭──────╮ │\n│ ╰──────╯ │
│ Allow execution of [Shell]?  │\n│   │\n│ ● 1. Allow once │▄
│   2. No, suggest changes (esc)  │█\n╰──────────╯█\n"))
           (window (gemini-companion-cli-send-test--show-low 13)))
      (should (string-search "was not all on screen" (gemini-companion-answer-yes)))
      (should (= 0 (window-max-delta window)))
      (should (equal (funcall sent) screen)))))

;; As another one of Gemini CLI's agents proposes it at the same time.
(ert-deftest gemini-companion-cli-send/beside-a-change-a-hidden-command-is-not-run ()
  "The number of the question has room only on two lines."
  (dolist (line '("│               4     │\n"
                  "│               4     │\n│         Apply this change?  │\n"))
    (gemini-companion-cli-send-test--with sent
      (let ((screen (gemini-companion-cli-send-test--show
                     (concat "╭───────────╮\n│ ? Shell printf safe …3 of  │\n" line "│ ╭──────╮ │
│ ╰──────╯ │\n│ Allow execution of [Shell]?  │\n│   │
│ ● 1. Allow once │\n│   2. No, suggest changes (esc)  │\n╰──────────╯\n"))))
        (gemini-companion-cli-send-test--show-low 15)
        (gemini-companion-cli-send-test--with-change t
          (should (string-search "was not all on screen" (gemini-companion-answer-yes)))
          (should (equal (funcall sent) screen)))))))

(defconst gemini-companion-cli-send-test--hidden-changes
  '("╭───────────╮\n│ ? WriteFile  Writing to a.txt  │\n│ ╭──────╮ │
│ │ ... first 69 lines hidden (Ctrl+O to show) ... │ │\n│ │ 70 + 70 │ │\n│ ╰──────╯ │
│ Apply this change?  │\n│   │\n│ ● 1. Allow once │\n│   2. No, suggest changes (esc)  │
╰──────────╯\n"
    ;; Qwen Code.
    "  ? WriteFile Writing to a.txt ←\n\n   ... diff hidden ...\n\n   Apply this change?\n
   › 1. Yes, allow once\n     2. No, suggest changes (esc)\n\n\n  ⠏ Waiting for user...\n"
    ;; LLxprt Code.
    "╭───────────╮\n│  > do it  │\n╰───────────╯\n │╭──────────\n
 ││ ?  WriteFile Writing to a.txt ←\n ││──────────\n │ ... first 2 lines hidden ...  │
 │ Apply this change?  │\n │  │\n │ ● 1. Yes, allow once  │\n │   2. No, suggest changes (esc)  │
 ╰──────────\n")
  "Screens with changes that a CLI hides in part.")

(ert-deftest gemini-companion-cli-send/a-change-that-emacs-has-shown-is-accepted-at-once ()
  "Although the CLI hides some of it; one that Emacs has not shown is not."
  (dolist (hidden gemini-companion-cli-send-test--hidden-changes)
    (dolist (seen '(nil t))
      (gemini-companion-cli-send-test--with sent
        (let* ((screen (gemini-companion-cli-send-test--show hidden))
               (window (gemini-companion-cli-send-test--show-low 15))
               (height (window-height window)))
          (gemini-companion-cli-send-test--with-change seen
            (should (string-search (if seen "Answered yes" "was not all on screen")
                                   (gemini-companion-answer-yes))))
          (should (eq seen (= height (window-height window))))
          (when seen
            (gemini-companion-cli-send-test--wait sent (concat screen "\r"))))))))

(ert-deftest gemini-companion-cli-send/without-a-cli-no-prompt-is-read ()
  (gemini-companion-test-with-project
    (cl-letf (((symbol-function 'read-string)
               (lambda (&rest _) (ert-fail "A prompt was asked for"))))
      (should (string-search "gemini-companion-run"
                             (gemini-companion-cli-send-test--refused
                              #'gemini-companion-send-prompt))))))

;;;; Sending to an idle CLI

(defconst gemini-companion-cli-send-test--rule (make-string 30 ?─))

(defun gemini-companion-cli-send-test--screen (text &optional above)
  "Return the screen of a CLI with TEXT in its prompt and ABOVE above it."
  (format "> please write\n\n%s\n\n  1 open file\n%s\n%s\n%s\n workspace  /model\n ~/project\n"
          (or above "") gemini-companion-cli-send-test--rule text gemini-companion-cli-send-test--rule))

(defconst gemini-companion-cli-send-test--at-rest
  (gemini-companion-cli-send-test--screen " >   Type your message or @path/to/file"))

(defconst gemini-companion-cli-send-test--shell
  (gemini-companion-cli-send-test--screen " !   Type your shell command"))

(defconst gemini-companion-cli-send-test--question
  "> please write\n╭─────╮\n│ Apply this change?  │\n│ ● 1. Allow once │\n╰─────╯\n")

(defmacro gemini-companion-cli-send-test--with-screen (terminal sent &rest body)
  "Evaluate BODY with TERMINAL bound to the buffer of a fake terminal.
SENT is bound to a function that returns the text sent to it."
  (declare (indent 2) (debug (symbolp symbolp body)))
  `(let* ((gemini-companion-cli-send--poll-interval 0.001)
          (,terminal (generate-new-buffer "terminal"))
          (received "")
          (,sent (lambda () received))
          (process (make-process :name "cli" :buffer ,terminal :command '("cat") :noquery t
                                 :connection-type 'pipe :coding 'utf-8-unix
                                 :filter (lambda (_ text)
                                           (setq received (concat received text)))
                                 :sentinel #'ignore)))
     (with-current-buffer ,terminal (setq gemini-companion-cli-run-root default-directory))
     (unwind-protect (progn ,@body)
       (delete-process process)
       (kill-buffer ,terminal))))

(defun gemini-companion-cli-send-test--draw (terminal screen)
  "Make TERMINAL show SCREEN."
  (with-current-buffer terminal
    (erase-buffer)
    (insert screen)))

(defun gemini-companion-cli-send-test--draw-prompt (terminal text &optional above)
  "Make TERMINAL show a CLI with TEXT in its prompt and ABOVE above it."
  (gemini-companion-cli-send-test--draw
   terminal (gemini-companion-cli-send-test--screen text above)))

(defmacro gemini-companion-cli-send-test--with-prompt (terminal sent &rest body)
  "Evaluate BODY as `-with-screen' does, with a CLI at rest in TERMINAL.
SENT is bound to a function that returns the text sent to it."
  (declare (indent 2) (debug (symbolp symbolp body)))
  `(gemini-companion-cli-send-test--with-screen ,terminal ,sent
     (gemini-companion-cli-send-test--draw ,terminal gemini-companion-cli-send-test--at-rest)
     ,@body))

(defun gemini-companion-cli-send-test--at-rest-outcome (text terminal)
  "Send TEXT to the CLI in TERMINAL once it is at rest.
Return a function that waits for the outcome, and returns it."
  (let ((outcome 'none))
    (gemini-companion-cli-send-at-rest text terminal (lambda (it) (setq outcome it)))
    (lambda ()
      (gemini-companion-test-wait "an outcome" (lambda () (not (eq outcome 'none))))
      outcome)))

(defun gemini-companion-cli-send-test--wait-checks (terminal count)
  "Wait until Emacs has checked the screen of TERMINAL COUNT times."
  (cl-letf* ((state (symbol-function 'gemini-companion-cli-send--state))
             ((symbol-function 'gemini-companion-cli-send--state)
              (lambda (buffer)
                (when (eq buffer terminal)
                  (setq count (1- count)))
                (funcall state buffer))))
    (gemini-companion-test-wait "checks of the screen" (lambda () (<= count 0)))))

(ert-deftest gemini-companion-cli-send/the-screen-shows-whether-a-cli-is-idle ()
  (gemini-companion-cli-send-test--with-screen terminal _sent
    (pcase-dolist (`(,screen . ,state)
                   `((,gemini-companion-cli-send-test--at-rest . ">Typeyourmessageor@path/to/file")
                     (,(gemini-companion-cli-send-test--screen " > half typed,\n   in two lines ")
                      . ">halftyped,intwolines")
                     ;; Remains of earlier output below the prompt.
                     (,(concat gemini-companion-cli-send-test--at-rest "\n\n wor\n /tm\n\n")
                      . ">Typeyourmessageor@path/to/file")
                     (,gemini-companion-cli-send-test--shell . nil)
                     (,(gemini-companion-cli-send-test--screen
                        " >   Type your message or @path" "⠏ Thinking (esc to cancel, 3s)")
                      . works)
                     (,gemini-companion-cli-send-test--question . nil)
                     ;; A prompt already sent, shown after ">", is not the input field.
                     (,(concat gemini-companion-cli-send-test--at-rest
                               gemini-companion-cli-send-test--question)
                      . nil)
                     (,(concat gemini-companion-cli-send-test--at-rest (make-string 20 ?\n) "Bye") . nil)
                     ("" . nil)))
      (gemini-companion-cli-send-test--draw terminal screen)
      (ert-info (screen)
        (should (equal (gemini-companion-cli-send--state terminal) state))))
    (delete-process (get-buffer-process terminal))
    (should (eq (gemini-companion-cli-send--state terminal) 'ended))))

(ert-deftest gemini-companion-cli-send/a-cli-is-starting-until-its-prompt-is-seen ()
  "Then its screen may show none for a moment."
  (gemini-companion-cli-send-test--with-screen terminal _sent
    (gemini-companion-cli-note-start terminal 'gemini "/p/")
    (should (string-search "still starting"
                           (cadr (should-error (gemini-companion-cli-send-check terminal)))))
    (dolist (screen (list gemini-companion-cli-send-test--at-rest ""))
      (gemini-companion-cli-send-test--draw terminal screen)
      (gemini-companion-cli-send-check terminal))))

(ert-deftest gemini-companion-cli-send/a-prompt-is-submitted-once-it-is-shown ()
  "A busy CLI shows other things first, and is quiet for seconds."
  (dolist (before (list (concat "news\n" gemini-companion-cli-send-test--at-rest)
                        (gemini-companion-cli-send-test--screen
                         " >   Type your message or @path" "⠏ Thinking (esc to cancel, 3s)")))
    (gemini-companion-cli-send-test--with-prompt terminal sent
      (let ((polls 0)
            (gemini-companion-cli-send--poll-interval 0.005))
        (cl-letf* ((shown-p (symbol-function 'gemini-companion-cli-send--shown-p))
                   ((symbol-function 'gemini-companion-cli-send--shown-p)
                    (lambda (&rest arguments)
                      (setq polls (1+ polls))
                      (apply shown-p arguments))))
          (gemini-companion-cli-send-text "hello\nthere" t terminal)
          (gemini-companion-test-wait
           "the text to be pasted"
           (lambda () (string-suffix-p "\e[201~" (funcall sent))))
          (gemini-companion-cli-send-test--draw terminal before)
          (gemini-companion-test-wait
           "checks of the prompt"
           (lambda () (or (> polls 60) (string-search "\r" (funcall sent)))))
          (should-not (string-search "\r" (funcall sent)))
          (gemini-companion-cli-send-test--draw-prompt terminal " > hello\n   there ")
          (gemini-companion-test-wait
           "the prompt to be submitted"
           (lambda () (string-suffix-p "\e[201~\r" (funcall sent)))))))))

(defun gemini-companion-cli-send-test--submit-twice (terminal sent)
  "Send a prompt to TERMINAL, where Enter makes a newline, until it comes again.
SENT returns what was sent."
  (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--at-rest)
  (gemini-companion-cli-send-text "one" t terminal)
  (gemini-companion-cli-send-test--wait sent "\e[200~one\e[201~")
  (gemini-companion-cli-send-test--draw-prompt terminal " > one\n   ")
  (gemini-companion-cli-send-test--wait sent "\e[200~one\e[201~\r\r"))

(ert-deftest gemini-companion-cli-send/a-prompt-that-a-slow-cli-keeps-is-submitted-again ()
  "Gemini CLI inserts a newline if it has not noticed yet that the paste is over."
  (gemini-companion-cli-send-test--with-screen terminal sent
    (gemini-companion-cli-send-test--submit-twice terminal sent)
    (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--at-rest)
    (gemini-companion-cli-send-text "two" nil terminal)
    (gemini-companion-cli-send-test--wait sent "\e[200~one\e[201~\r\r\e[200~two\e[201~")))

(ert-deftest gemini-companion-cli-send/a-cli-for-which-enter-is-a-newline-keeps-the-prompt ()
  "Gemini CLI's keybindings.json says so; and Emacs said that the text was sent."
  (gemini-companion-cli-send-test--with-screen terminal sent
    (let ((gemini-companion-ui--messages nil))
      (gemini-companion-test-with-answer nil
        (gemini-companion-cli-send-test--submit-twice terminal sent)
        (gemini-companion-test-wait "a message" (lambda () (cdr gemini-companion-test-messages)))
        (should (equal gemini-companion-test-messages
                       '("The text is still in the prompt of terminal" "Sent to terminal")))
        (gemini-companion-cli-send-text "two" nil terminal)
        (gemini-companion-cli-send-test--wait
         sent "\e[200~one\e[201~\r\r\e[200~two\e[201~")))))

(ert-deftest gemini-companion-cli-send/a-command-that-a-cli-lets-the-user-complete-stays ()
  "Enter once more would choose the first of its subcommands, which then runs.
While Gemini CLI works, it keeps each command; so Emacs tells the user."
  (gemini-companion-cli-send-test--with-screen terminal sent
    (let ((asks (concat (gemini-companion-cli-send-test--screen " > /memory ")
                        " reload   Reload the memory\n show     Show the memory\n"))
          (gemini-companion-ui--messages nil))
      (gemini-companion-test-with-answer nil
        (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--at-rest)
        (gemini-companion-cli-send-text "/memory" t terminal)
        (gemini-companion-cli-send-test--wait sent "\e[200~/memory\e[201~")
        (gemini-companion-cli-send-test--draw terminal asks)
        (gemini-companion-cli-send-test--wait sent "\e[200~/memory\e[201~\r")
        (gemini-companion-cli-send-text "show" nil terminal)
        (gemini-companion-cli-send-test--wait sent "\e[200~/memory\e[201~\r\e[200~ show\e[201~")
        (should (equal gemini-companion-test-messages
                       '("The text is still in the prompt of terminal" "Sent to terminal")))))))

(ert-deftest gemini-companion-cli-send/a-text-is-no-part-of-a-word-typed-before ()
  "The model got \"explaina.py, line 1\"."
  (pcase-dolist (`(,typed ,text . ,expected)
                 '((" > explain " "a.py" . " a.py")
                   (" > explain\n   this\n    " "a.py" . "a.py")
                   (" >   Type your message or @path/to/file" "a.py" . "a.py")
                   (" >   输入您的消息或 @ 文件路径" "/stats" . "/stats")))
    (gemini-companion-cli-send-test--with-screen terminal sent
      (gemini-companion-cli-send-test--draw-prompt terminal typed)
      (gemini-companion-cli-send-text text nil terminal)
      (gemini-companion-cli-send-test--wait sent (format "\e[200~%s\e[201~" expected)))))

(ert-deftest gemini-companion-cli-send/from-a-program-two-lines-are-submitted-at-once ()
  "Emacs compares them with the screen, in whatever buffer the user is.
There, a newline need not be whitespace, and the prompt took 20 seconds.
So it did with invisible characters."
  (gemini-companion-cli-send-test--with-screen terminal _sent
    (gemini-companion-cli-send-test--draw-prompt terminal " > hello\n   there ")
    (with-temp-buffer
      (emacs-lisp-mode)
      (should (gemini-companion-cli-send--shown-p terminal "hello\nthere"))
      ;; Gemini CLI drops some of these, and Eat what is on top of other characters.
      (should (gemini-companion-cli-send--shown-p
               terminal "\ufeffhel\u00adlo\n\u200fthe\u2060re\u0301\ufe0f"))
      (should-not (gemini-companion-cli-send--shown-p terminal "hello\nyou"))
      ;; Only a name at the end needs a space.
      (should (equal (gemini-companion-cli-send--clean "@a.py\nthere") "@a.py\nthere")))))

(ert-deftest gemini-companion-cli-send/a-prompt-is-submitted-at-once-while-the-cli-works ()
  "Its spinner never rests, and the prompt took five seconds."
  (gemini-companion-cli-send-test--with-screen terminal _sent
    (let ((draw (lambda (state)
                  (gemini-companion-cli-send-test--draw-prompt terminal " > hello " state)))
          (read nil)
          (done nil))
      (cl-letf (((symbol-function 'gemini-companion-cli-send--poll)
                 (lambda (&rest arguments)
                   (setq read (nth 0 arguments) done (nth 1 arguments)))))
        (gemini-companion-cli-send--await-shown terminal "hello" 0 #'ignore))
      (funcall draw "⠏ Thinking (esc to cancel, 3s)")
      (let ((value (funcall read)))
        (funcall draw "⠙ Thinking (esc to cancel, 4s)")
        (should (equal (funcall read) value))
        (should-not (funcall done value nil 6))
        (should (funcall done value t 6))))))

(ert-deftest gemini-companion-cli-send/a-prompt-with-an-image-is-submitted-at-once ()
  "Gemini CLI shows only a part of its name, and the prompt took 20 seconds."
  (gemini-companion-cli-send-test--with-prompt terminal sent
    (gemini-companion-cli-send-text "What is @/tmp/image-RcLoqV.png" t terminal)
    (gemini-companion-cli-send-test--wait
     sent "\e[200~What is @/tmp/image-RcLoqV.png \e[201~")
    (should-not (gemini-companion-cli-send--shown-p terminal "What is @/tmp/image-RcLoqV.png"))
    (gemini-companion-cli-send-test--draw-prompt terminal " > What is [Image ...age-RcLoqV.png] ")
    (should (gemini-companion-cli-send--shown-p terminal "What is @/tmp/image-RcLoqV.png"))
    (gemini-companion-cli-send-test--wait
     sent "\e[200~What is @/tmp/image-RcLoqV.png \e[201~\r")))

(ert-deftest gemini-companion-cli-send/a-prompt-that-the-cli-drops-is-given-back ()
  "A CLI drops what it gets while it clears its screen."
  (gemini-companion-cli-send-test--with-prompt terminal sent
    (gemini-companion-cli-send-text "explain" t terminal)
    (gemini-companion-cli-send-test--wait sent "\e[200~explain\e[201~")
    (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--at-rest)
    (gemini-companion-cli-send-test--wait-given-back "explain")
    (gemini-companion-cli-send-text "next" nil terminal)
    (gemini-companion-cli-send-test--wait sent "\e[200~explain\e[201~\e[200~next\e[201~")))

(ert-deftest gemini-companion-cli-send/a-prompt-does-not-answer-a-question ()
  "Neither one that is open, nor one that the CLI asks while the prompt is pasted."
  (gemini-companion-cli-send-test--with-screen terminal sent
    (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--question)
    (dolist (submit '(t nil))
      (should (string-search
               "The CLI asks a question; answer it first"
               (gemini-companion-cli-send-test--text-refused "1" submit terminal))))
    (should (equal (funcall sent) ""))
    (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--at-rest)
    (let ((said nil))
      (cl-letf (((symbol-function 'gemini-companion-ui-message)
                 (lambda (topic &rest arguments)
                   (when (eq topic terminal) ; the CLIs of other tests may have just ended
                     (setq said (apply #'format arguments))))))
        (gemini-companion-cli-send-text "explain" t terminal)
        (gemini-companion-cli-send-test--wait sent "\e[200~explain\e[201~")
        (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--question)
        (gemini-companion-test-wait "a message" (lambda () said)))
      (should (string-search "not sent.  The CLI asks a question" said)))
    (gemini-companion-cli-send-test--wait-done terminal)
    ;; The last that arrives.
    (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--at-rest)
    (gemini-companion-cli-send-text "x" nil terminal)
    (gemini-companion-cli-send-test--wait sent "\e[200~explain\e[201~\e[200~x\e[201~")))

(ert-deftest gemini-companion-cli-send/a-prompt-that-looks-otherwise-is-not-waited-for ()
  "As that of LLxprt Code did; the user had the reason back ten minutes later."
  (gemini-companion-cli-send-test--with-screen terminal sent
    (let ((gemini-companion-cli-send--patience most-positive-fixnum))
      (gemini-companion-cli-send-test--draw terminal "┌──────────┐\n│ > Type   │\n└──────────┘\n")
      (should-not (funcall (gemini-companion-cli-send-test--at-rest-outcome "why" terminal)))
      (should (equal (funcall sent) "")))))

(ert-deftest gemini-companion-cli-send/an-empty-prompt-is-known-by-its-hint ()
  "It differs in the CLI's vim mode, in which a reason was never sent."
  (dolist (hint '("Type your message or @path/to/file" "Press 'Esc' for NORMAL mode."
                  "Press 'i' for INSERT mode." "Type your message or space to talk (Esc to exit)"))
    (gemini-companion-cli-send-test--with-screen terminal sent
      (gemini-companion-cli-send-test--draw-prompt terminal (concat " >   " hint))
      (gemini-companion-cli-send-at-rest "why" terminal #'ignore)
      (gemini-companion-cli-send-test--wait sent "\e[200~why\e[201~"))))

(ert-deftest gemini-companion-cli-send/a-suggested-prompt-holds-nothing-up ()
  "Newer versions of Qwen Code show one after a turn; it goes when a text comes.
The hint in an empty prompt is in the user's language."
  (pcase-dolist (`(,before ,after ,outcome)
                 '((" commit this change" "\n   use tabs" sent)
                   ("   输入您的消息或 @ 文件路径" " \n   use tabs" sent)
                   ;; The user has typed that, and it may be above what is visible.
                   (" commit this change" " commit this change\n   use tabs" put)
                   (" commit this change" " use tabs" put)))
    (gemini-companion-cli-send-test--with-screen terminal sent
      (gemini-companion-cli-send-test--draw-prompt terminal (concat " >" before))
      (let ((became (gemini-companion-cli-send-test--at-rest-outcome "use tabs" terminal)))
        (gemini-companion-cli-send-test--wait sent "\e[200~\nuse tabs\e[201~")
        (gemini-companion-cli-send-test--draw-prompt terminal (concat " >" after))
        (should (eq (funcall became) outcome))))))

(ert-deftest gemini-companion-cli-send/a-reason-of-which-only-the-end-is-visible-is-sent ()
  "Qwen Code shows ten lines of a prompt, and folds only longer texts."
  (let ((text (mapconcat (lambda (n) (format "Reason %d is that it is wrong." n))
                         (number-sequence 1 12) "\n"))
        (shown (lambda (first)
                 (gemini-companion-cli-send-test--screen
                  (mapconcat (lambda (n) (format " %s Reason %d is that it is wrong."
                                                 (if (= n first) ">" " ") n))
                             (number-sequence first 12) "\n")))))
    (pcase-dolist (`(,first . ,outcome) '((3 . sent) (10 . put)))
      (gemini-companion-cli-send-test--with-prompt terminal sent
        (let ((became (gemini-companion-cli-send-test--at-rest-outcome text terminal)))
          (gemini-companion-cli-send-test--wait sent (format "\e[200~%s\e[201~" text))
          (gemini-companion-cli-send-test--draw terminal (funcall shown first))
          (should (eq (funcall became) outcome)))))))

(ert-deftest gemini-companion-cli-send/a-reason-is-sent-in-the-mode-yolo-too ()
  "The sign of the prompt is another one there."
  (gemini-companion-cli-send-test--with-screen terminal sent
    (gemini-companion-cli-send-test--draw-prompt terminal " *   Type your message or @path/to/file")
    (gemini-companion-cli-send-at-rest "why" terminal #'ignore)
    (gemini-companion-cli-send-test--wait sent "\e[200~why\e[201~")
    (gemini-companion-cli-send-test--draw-prompt terminal " * why")
    (gemini-companion-cli-send-test--wait sent "\e[200~why\e[201~\r")))

(ert-deftest gemini-companion-cli-send/a-reason-with-an-at-sign-is-sent ()
  "With its setting escapePastedAtSymbols, Gemini CLI inserts a backslash before it."
  (gemini-companion-cli-send-test--with-prompt terminal sent
    (let ((outcome (gemini-companion-cli-send-test--at-rest-outcome "no @a here: \\d" terminal)))
      (gemini-companion-cli-send-test--wait sent "\e[200~no @a here: \\d\e[201~")
      (gemini-companion-cli-send-test--draw-prompt terminal " > no \\@a here: \\d")
      (gemini-companion-cli-send-test--wait sent "\e[200~no @a here: \\d\e[201~\r")
      (should (eq (funcall outcome) 'sent)))))

(ert-deftest gemini-companion-cli-send/what-had-to-wait-does-not-answer-a-question ()
  (gemini-companion-cli-send-test--with-prompt terminal sent
    ;; Another text is on its way.
    (setf (buffer-local-value 'gemini-companion-cli-send--busy terminal) t)
    (gemini-companion-cli-send-text "1" t terminal)
    (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--question)
    (setf (buffer-local-value 'gemini-companion-cli-send--busy terminal) nil)
    (gemini-companion-cli-send-test--wait-given-back "1")
    (should (equal (funcall sent) ""))))

(ert-deftest gemini-companion-cli-send/a-dialog-takes-no-prompt ()
  "It would take the text for keys; the first one deletes a conversation with x."
  (dolist (dialog (list (concat " Chat Sessions (1 total)\n Navigate: ↑/↓   Delete: x\n\n"
                                "   Index │ Msgs │ Age  │ Name\n ❯ #1    │ 15   │ 11s  │ please\n")
                        " Loading sessions…\n"
                        " No auto-saved conversations found.\n Press q to exit\n"
                        ;; In a small terminal.
                        "╭───────────────╮\n│  > Settings   │\n╰──(Use Enter)─V─╯\n"))
    (dolist (above (list ""
                         ;; What opened it, which has a background in colors.
                         (format "%s\n > /resume\n%s\n\n" (make-string 30 ?▄) (make-string 30 ?▀))))
      (gemini-companion-cli-send-test--with-prompt terminal sent
        (gemini-companion-cli-send-check terminal)
        (gemini-companion-cli-send-test--draw terminal (concat above dialog))
        (kill-new "")
        (gemini-companion-cli-send-text "extend" t terminal)
        (gemini-companion-cli-send-test--wait-given-back "extend")
        (gemini-companion-cli-send-text "explain" t terminal)
        ;; The CLI was only drawing its screen.
        (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--at-rest)
        (gemini-companion-cli-send-test--wait sent "\e[200~explain\e[201~")))))

(ert-deftest gemini-companion-cli-send/what-had-to-wait-does-not-change-the-match-data ()
  (gemini-companion-test-with-project
    (gemini-companion-cli-send-test--with-screen terminal sent
      (let ((gemini-companion-cli-send--poll-interval 0.1))
        (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--at-rest)
        (gemini-companion-cli-send-text "one" t terminal)
        (gemini-companion-cli-send-text "two" nil terminal)
        (gemini-companion-cli-send-test--wait sent "\e[200~one\e[201~")
        (gemini-companion-cli-send-test--draw-prompt terminal " > one ")
        (gemini-companion-cli-send-test--wait sent "\e[200~one\e[201~\r")
        (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--at-rest)
        (gemini-companion-cli-send-test--wait sent "\e[200~one\e[201~\r\e[200~two\e[201~")))))

(ert-deftest gemini-companion-cli-send/in-a-review-the-cli-is-the-one-that-proposes-it ()
  "Another one of the project may have been selected last, and ask something, too."
  (gemini-companion-cli-send-test--with-screen one _sent
    (gemini-companion-cli-send-test--with-screen two _sent
      (let* ((other (gemini-companion-cli-send-terminal))
             (mine (if (eq other one) two one))
             (gemini-companion-cli--all
              (list (gemini-companion-cli--make :agent 'gemini :process 1 :terminal mine))))
        (with-temp-buffer
          (setq gemini-companion-review-of-buffer (gemini-companion-review-make :process 1))
          (should (eq (gemini-companion-cli-send-terminal) mine))
          ;; Outside of Emacs: C-c g y would answer what another CLI asks.
          (setf (gemini-companion-review-process gemini-companion-review-of-buffer) 2)
          (should (equal (gemini-companion-cli-send-test--yes-refused)
                         "Emacs cannot type to the CLI of this change; go to its terminal"))
          (setq gemini-companion-review-of-buffer nil)
          (should (eq (gemini-companion-cli-send-terminal) other)))))))

(ert-deftest gemini-companion-cli-send/of-several-clis-the-one-that-takes-no-prompt-is-named ()
  "It need not be the one that the user means."
  (gemini-companion-cli-send-test--with-screen one _sent
    (gemini-companion-cli-send-test--with-screen two _sent
      (gemini-companion-cli-send-test--draw one gemini-companion-cli-send-test--at-rest)
      (gemini-companion-cli-send-test--draw two gemini-companion-cli-send-test--question)
      (should (equal (gemini-companion-cli-send-test--text-refused "1" t two)
                     (format "The CLI in %s asks a question; answer it first" (buffer-name two))))
      (gemini-companion-test-with-answer nil
        (setf (buffer-local-value 'gemini-companion-cli-send--busy one) t)
        (gemini-companion-cli-send-text "lost?" t one)
        (gemini-companion-cli-send-test--draw one gemini-companion-cli-send-test--question)
        (setf (buffer-local-value 'gemini-companion-cli-send--busy one) nil)
        (let ((message (format "%s did not take your text; yank it from the kill ring"
                               (buffer-name one))))
          (gemini-companion-test-wait
           message (lambda () (member message gemini-companion-test-messages))))))))

(ert-deftest gemini-companion-cli-send/what-fails-while-emacs-asks-something-is-told-later ()
  "Nothing is sent instead, nor does that fail."
  (gemini-companion-cli-send-test--with-screen terminal sent
    (let ((asked t)
          (gemini-companion-ui--messages nil)
          (log (gemini-companion-log-last 1)))
      (cl-letf (((symbol-function 'gemini-companion-ui-key-expected) (lambda () asked)))
        (gemini-companion-test-with-answer nil
          (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--at-rest)
          (setf (buffer-local-value 'gemini-companion-cli-send--busy terminal) t)
          (gemini-companion-cli-send-text "lost?" t terminal)
          (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--question)
          (setf (buffer-local-value 'gemini-companion-cli-send--busy terminal) nil)
          (gemini-companion-cli-send-test--wait-given-back "lost?")
          (should (equal gemini-companion-test-messages '("Sent to terminal")))
          (setq asked nil)
          (gemini-companion-test-wait "a message" (lambda () (cdr gemini-companion-test-messages)))
          (should (string-search "did not take your text" (car gemini-companion-test-messages)))))
      (should (equal (funcall sent) ""))
      (should (equal (gemini-companion-log-last 1) log)))))

(ert-deftest gemini-companion-cli-send/a-screen-that-cannot-be-read-is-given-up ()
  (let ((gemini-companion-cli-send--poll-interval 0.001)
        (finished 'not-yet))
    (gemini-companion-cli-send--poll (lambda () (error "Not today")) #'ignore 3
                                     (lambda (value) (setq finished value)))
    (gemini-companion-test-wait "the end" (lambda () (null finished)))))

(ert-deftest gemini-companion-cli-send/a-prompt-is-not-run-by-a-shell ()
  "The CLI is in shell mode, or the user chooses that while the prompt is pasted."
  (gemini-companion-cli-send-test--with-screen terminal sent
    (dolist (screen (list gemini-companion-cli-send-test--shell
                          ;; For a screen reader, which reads no sign and no lines.
                          "Model: Done.\n? for shortcuts\nshell mode enabled (esc to disable)
Shell mode   Type your shell command\n"
                          ;; A command of the user's runs.
                          (gemini-companion-cli-send-test--screen
                           " !   Type your shell command" "⠏ Thinking... (esc to cancel, 3s)")))
      (gemini-companion-cli-send-test--draw terminal screen)
      (dolist (submit '(t nil))
        (should (string-search
                 "shell mode"
                 (gemini-companion-cli-send-test--text-refused "1" submit terminal)))))
    (should (equal (funcall sent) ""))
    (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--at-rest)
    (gemini-companion-cli-send-text "`rm x`" t terminal)
    (gemini-companion-cli-send-test--wait sent "\e[200~`rm x`\e[201~")
    (gemini-companion-cli-send-test--draw-prompt terminal " ! `rm x`")
    (gemini-companion-cli-send-test--wait-done terminal)
    ;; The last that arrives.
    (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--at-rest)
    (gemini-companion-cli-send-text "x" nil terminal)
    (gemini-companion-cli-send-test--wait sent "\e[200~`rm x`\e[201~\e[200~x\e[201~")))

(ert-deftest gemini-companion-cli-send/a-shell-command-gets-no-prompt ()
  "It has the focus in the CLI, and bash would run each line of a region."
  (gemini-companion-cli-send-test--with-screen terminal sent
    (dolist (screen (list gemini-companion-test-screen-shell
                          gemini-companion-test-screen-background-shell))
      (gemini-companion-cli-send-test--draw terminal
                                            (concat screen gemini-companion-test-screen-prompt))
      (should (equal (should-error (gemini-companion-cli-send-text "1\n2\n" nil terminal))
                     '(user-error "The CLI would give the text to a shell command; \
leave or close that first"))))
    (should (equal (funcall sent) ""))))

(ert-deftest gemini-companion-cli-send/a-prompt-is-for-the-cli-that-ran-when-it-was-begun ()
  "If that ends meanwhile, another one does not get it."
  (pcase-dolist (`(,end . ,error)
                 (list (cons (lambda (terminal) (delete-process (get-buffer-process terminal)))
                             "No CLI seems to run in ")
                       (cons #'kill-buffer
                             "The CLI has ended; M-x gemini-companion-run starts one")))
    (gemini-companion-cli-send-test--with sent
      (gemini-companion-cli-send-test--with-screen terminal _sent
        (cl-letf (((symbol-function 'read-string)
                   (lambda (&rest _)
                     (funcall end terminal)
                     "for that only")))
          (should (string-prefix-p error (with-current-buffer terminal
                                           (gemini-companion-cli-send-test--refused
                                            #'gemini-companion-send-prompt))))))
      ;; The last that arrives.
      (gemini-companion-send-prompt "next")
      (gemini-companion-cli-send-test--wait sent "\e[200~next\e[201~\r"))))

(ert-deftest gemini-companion-cli-send/automatic-prompts-wait-until-no-question-is-open ()
  (gemini-companion-cli-send-test--with-screen terminal sent
    (let (outcome)
      (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--question)
      (gemini-companion-cli-send-at-rest "use tabs" terminal
                                         (lambda (it) (setq outcome it)))
      (gemini-companion-cli-send-test--wait-checks terminal 20)
      (should (equal (funcall sent) ""))
      (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--at-rest)
      (gemini-companion-cli-send-test--wait sent "\e[200~use tabs\e[201~")
      (should-not outcome)
      (gemini-companion-cli-send-test--draw-prompt terminal " > use tabs ")
      (gemini-companion-cli-send-test--wait sent "\e[200~use tabs\e[201~\r")
      (should (eq outcome 'sent)))))

(ert-deftest gemini-companion-cli-send/automatic-prompts-answer-no-question ()
  "Nor is the text sent together with what the user types."
  (dolist (between (list gemini-companion-cli-send-test--question
                         (gemini-companion-cli-send-test--screen
                          " > use tabs" "⠏ Thinking (esc to cancel, 3s)")
                         (gemini-companion-cli-send-test--screen " > use tabs and rm")))
    (gemini-companion-cli-send-test--with-prompt terminal sent
      (let ((outcome (gemini-companion-cli-send-test--at-rest-outcome "use tabs" terminal)))
        (gemini-companion-cli-send-test--wait sent "\e[200~use tabs\e[201~")
        (gemini-companion-cli-send-test--draw terminal between)
        (ert-info (between)
          (should (eq (funcall outcome) 'put))
          (gemini-companion-cli-send-test--draw terminal gemini-companion-cli-send-test--at-rest)
          (gemini-companion-cli-send-text "next" t terminal)
          (gemini-companion-cli-send-test--wait
           sent "\e[200~use tabs\e[201~\e[200~next\e[201~"))))))

(ert-deftest gemini-companion-cli-send/automatic-prompts-are-not-lost-with-the-cli ()
  "It ends, or its terminal is killed, before it has shown the text."
  (dolist (end (list (lambda (terminal) (delete-process (get-buffer-process terminal)))
                     (lambda (terminal) (kill-buffer terminal))))
    (gemini-companion-cli-send-test--with-prompt terminal sent
      (let ((outcome (gemini-companion-cli-send-test--at-rest-outcome "use tabs" terminal)))
        (gemini-companion-cli-send-test--wait sent "\e[200~use tabs\e[201~")
        (funcall end terminal)
        (should-not (funcall outcome))))))

(ert-deftest gemini-companion-cli-send/waiting-for-an-idle-cli-times-out ()
  (pcase-dolist (`(,screen ,text ,outcome)
                 `((,gemini-companion-cli-send-test--question "" nil)
                   ("no prompt at all\n" "" nil)
                   (,(gemini-companion-cli-send-test--screen
                      " > use tabs" "⠏ Thinking (esc to cancel, 3s)")
                    "\e[200~\nuse tabs\e[201~" put)))
    (gemini-companion-cli-send-test--with-screen terminal sent
      (let ((gemini-companion-cli-send--patience 300))
        (gemini-companion-cli-send-test--draw terminal screen)
        (should (eq outcome (funcall (gemini-companion-cli-send-test--at-rest-outcome
                                      "use tabs" terminal))))
        (gemini-companion-cli-send-test--wait sent text)))))

;;; gemini-companion-cli-send-test.el ends here

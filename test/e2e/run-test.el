;;; run-test.el --- The CLI in a terminal of Emacs  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; `gemini-companion-run' in an interactive Emacs: with a program that records
;; its environment, and with the real CLI.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defun gemini-companion-cli-run-test--program (emacs &optional script)
  "Make EMACS run SCRIPT, for sh, by default one that writes its environment.
Return the file to which it writes that."
  (let ((notes (gemini-companion-test-emacs-file emacs "notes"))
        (program (gemini-companion-test-emacs-file emacs "program")))
    (gemini-companion-test-write
     program
     (concat "#!/bin/sh\n"
             (or script (format "{ pwd; echo \"$*\"; env; } > %s.new && mv %s.new %s
echo ready\nread line && echo \"line: $line\"\n"
                                notes notes notes))))
    (set-file-modes program #o755)
    ;; It may be left from another test.
    (delete-file notes)
    (gemini-companion-test-eval emacs `(setq gemini-companion-program ,program
                                             gemini-companion-terminal 'term))
    notes))

(defun gemini-companion-cli-run-test--start (emacs)
  "Run the program of EMACS from a.txt, as a user does, until it is ready."
  (gemini-companion-test-visit emacs "a.txt")
  (gemini-companion-test-m-x emacs "gemini-companion-run" "ready"))

(defconst gemini-companion-cli-run-test--image
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
  "An image, encoded as in requests to the model.")

(defun gemini-companion-cli-run-test--wait-notes (notes)
  "Wait for the file NOTES and return its lines."
  (gemini-companion-test-wait "the program to run" (lambda () (file-exists-p notes)))
  (split-string (gemini-companion-test-read notes) "\n" t))

(defun gemini-companion-cli-run-test--windows (emacs)
  "Return the names of the buffers in the windows of EMACS, the selected one first."
  (gemini-companion-test-eval
   emacs '(mapcar (lambda (window) (buffer-name (window-buffer window)))
                  (window-list nil 'nomini))))

(ert-deftest gemini-companion-cli-run/a-box-is-drawn-by-what-the-terminal-around-emacs-has ()
  "As in a container without LANG: Emacs wrote \\u2500 for each piece of a line."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")) :environment '("LANG=C"))
    (gemini-companion-cli-run-test--program
     emacs "printf '╭─────────╮\\n│ ● 1. A  │\\n│ ✓ 2. B… │\\n╰─────────╯\\nready\\n'; read line\n")
    (gemini-companion-cli-run-test--start emacs)
    (gemini-companion-test-wait-screen
     emacs "[+]-\\{9\\}[+] *\n.*| [*] 1[.] A  | *\n.*|   2[.] B  | *\n.*[+]-\\{9\\}[+]")))

(ert-deftest gemini-companion-cli-run/input-methods-work-in-term ()
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-cli-run-test--program emacs)
    (gemini-companion-cli-run-test--start emacs)
    (gemini-companion-test-run emacs '(progn (set-input-method "latin-1-prefix") nil))
    (gemini-companion-test-type emacs "'e" "C-\\")
    (gemini-companion-test-type emacs "'e")
    (gemini-companion-test-press emacs "Enter" "line: é'e")))

(ert-deftest gemini-companion-cli-run/the-environment-of-the-program ()
  "It runs in the project's root, and finds this Emacs without a proxy."
  (gemini-companion-test-with-emacs
      (emacs :files '((".git/HEAD" . "") ("sub/a.txt" . "one\n"))
             :environment '("NO_PROXY=example.org"))
    (let ((notes (gemini-companion-cli-run-test--program emacs)))
      (gemini-companion-test-eval emacs '(setq gemini-companion-arguments '("--one" "two words")))
      (gemini-companion-test-visit emacs "sub/a.txt")
      (gemini-companion-test-m-x emacs "gemini-companion-run")
      (let ((lines (gemini-companion-cli-run-test--wait-notes notes))
            (root (directory-file-name (gemini-companion-test-project emacs "")))
            (port (gemini-companion-test-eval emacs '(gemini-companion-bridge-port))))
        (should (equal (seq-take lines 2) (list root "--one two words")))
        (dolist (line (list (format "GEMINI_CLI_IDE_SERVER_PORT=%d" port)
                            (concat "GEMINI_CLI_IDE_WORKSPACE_PATH=" root)
                            "NO_PROXY=example.org,localhost,127.0.0.1"
                            "no_proxy=example.org,localhost,127.0.0.1"))
          (should (member line lines)))
        (should (member root (split-string
                              (alist-get 'workspacePath
                                         (gemini-companion-test-json-decode
                                          (gemini-companion-test-bytes
                                           (car (gemini-companion-test-discovery-files emacs)))))
                              ":")))))))

(ert-deftest gemini-companion-cli-run/it-shows-hides-and-replaces-a-terminal ()
  "The same command shows a terminal and hides it; a dead one is replaced."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-cli-run-test--program emacs)
    (gemini-companion-test-visit emacs "a.txt")
    (let* ((name (gemini-companion-test-eval
                  emacs '(progn (require 'gemini-companion-cli-run)
                                (gemini-companion-cli-run--title 'gemini default-directory))))
           (run (lambda (&rest keys)
                  (apply #'gemini-companion-test-keys emacs keys)
                  (gemini-companion-test-m-x emacs "gemini-companion-run")))
           (wait-windows (lambda (&rest names)
                           (gemini-companion-test-wait
                            (lambda ()
                              (format "%S; there are %S" names
                                      (gemini-companion-cli-run-test--windows emacs)))
                            (lambda ()
                              (equal (gemini-companion-cli-run-test--windows emacs) names))))))
      (funcall run)
      (funcall wait-windows name "a.txt")
      (gemini-companion-test-wait-screen emacs "ready")
      ;; In its terminal M-x goes to the program.
      (gemini-companion-test-run emacs '(gemini-companion-run))
      (funcall wait-windows "a.txt")
      (funcall run)
      (funcall wait-windows name "a.txt")
      (gemini-companion-test-run emacs '(gemini-companion-run t))
      (funcall wait-windows (concat name "<2>") "a.txt")
      (gemini-companion-test-run emacs '(gemini-companion-run))
      (funcall wait-windows "a.txt")
      ;; A terminal that has ended keeps its output; the next one replaces it.
      (gemini-companion-test-run
       emacs `(progn (delete-process (get-buffer-process ,name))
                     (kill-buffer ,name)
                     (process-send-string ,(concat name "<2>") "bye\n")))
      (gemini-companion-test-wait-eval
       emacs `(not (process-live-p (get-buffer-process ,(concat name "<2>")))))
      (should (string-match-p "line: bye"
                              (gemini-companion-test-eval
                               emacs `(with-current-buffer ,(concat name "<2>")
                                        (buffer-string)))))
      (funcall run)
      (funcall wait-windows name "a.txt")
      (should-not (gemini-companion-test-eval emacs `(get-buffer ,(concat name "<2>")))))))

(ert-deftest gemini-companion-cli-run/a-tab-that-comes-back-shows-what-the-program-has-written ()
  "Whichever window is selected there."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-cli-run-test--program
     emacs "echo ready\nwhile read end; do seq 100; echo $end; done\n")
    (gemini-companion-cli-run-test--start emacs)
    (let ((terminal (gemini-companion-test-eval emacs '(buffer-name))))
      ;; In Emacs 28, `C-x t 2' fails in a side window.
      (gemini-companion-test-run
       emacs '(progn (select-window (get-buffer-window "a.txt")) (tab-bar-new-tab) nil))
      (dolist (selected (list "a.txt" terminal))
        (gemini-companion-test-run
         emacs `(progn (tab-bar-select-tab 1)
                       (select-window (get-buffer-window ,selected))
                       (tab-bar-select-tab 2)
                       (process-send-string ,terminal ,(format "in %s\n" selected))
                       nil))
        (gemini-companion-test-wait-eval
         emacs `(with-current-buffer ,terminal
                  (string-match-p ,(concat "100\\s-+in " (regexp-quote selected)) (buffer-string))))
        (gemini-companion-test-run emacs '(progn (tab-bar-select-tab 1) nil))
        (gemini-companion-test-wait-screen
         emacs (concat "100 *\n.*in " (regexp-quote selected)))))))

;; vterm moves its windows itself.
(ert-deftest gemini-companion-cli-run/restored-windows-show-what-the-program-has-written ()
  "Magit restores the windows when it has made a commit."
  (gemini-companion-test-with-emacs (emacs :size '(100 . 40) :files '(("a.txt" . "one\n")))
    (gemini-companion-cli-run-test--program
     emacs "echo ready\nread it; seq 100; echo in $it; read more\n")
    (gemini-companion-cli-run-test--start emacs)
    (gemini-companion-test-run
     emacs '(let ((process (get-buffer-process (current-buffer))))
              (select-window (get-buffer-window "a.txt"))
              (set-register ?l (list (current-window-configuration)))
              (select-window (split-window))
              (switch-to-buffer "*commit message*")
              (process-send-string process "time\n")
              nil))
    (gemini-companion-test-wait-screen emacs "100 *\n.*in time")
    (gemini-companion-test-run
     emacs '(progn (set-window-configuration (car (get-register ?l))) nil))
    (gemini-companion-test-wait-screen emacs "a.txt")
    (gemini-companion-test-wait-screen emacs "100 *\n.*in time")
    ;; But where the user has scrolled it, it stays.
    (let ((window '(seq-find (lambda (window) (not (equal (buffer-name (window-buffer window))
                                                          "a.txt")))
                             (window-list))))
      (gemini-companion-test-run
       emacs `(with-selected-window ,window (scroll-down 40) nil))
      (gemini-companion-test-run emacs '(progn (split-window) nil))
      (gemini-companion-test-run emacs '(progn (delete-window) nil))
      (should (gemini-companion-test-eval
               emacs `(let ((window ,window))
                        (< (window-point window)
                           (with-current-buffer (window-buffer window)
                             (process-mark (get-buffer-process (current-buffer)))))))))))

(ert-deftest gemini-companion-cli-run/a-terminal-follows-after-a-minibuffer-or-a-question ()
  "Emacs restores the windows at its end, as `read-multiple-choice' does."
  (gemini-companion-test-with-emacs (emacs :size '(100 . 40) :files '(("a.txt" . "one\n")))
    (let ((pipe (gemini-companion-test-emacs-file emacs "pipe")))
      (call-process "mkfifo" nil nil nil pipe)
      (gemini-companion-cli-run-test--program
       emacs
       ;; For writing, too, so that it never comes to an end.
       (format "exec 3<>%s\necho ready\nwhile read it <&3; do seq 100; echo in $it; done\n" pipe))
      (gemini-companion-cli-run-test--start emacs)
      (gemini-companion-test-run
       emacs '(progn
                (pcase-dolist
                    (`(,key . ,form)
                     '(([f7] read-string "First: ")
                       ;; As the name of a command, and what that asks for.
                       ([f8] progn (read-string "First: ") (read-string "Second: "))
                       ([f6] gemini-companion-cli-terminals-call-following
                        (lambda () (read-multiple-choice "First: " '((?a "a")))))))
                  (global-set-key key `(lambda () (interactive) ,form (message "Answered"))))
                (select-window (get-buffer-window "a.txt"))
                nil))
      (pcase-dolist (`(,key . ,answer) '(("F7" "Enter") ("F8" "Enter" "Enter") ("F6" "a")))
        (gemini-companion-test-keys emacs key)
        (gemini-companion-test-wait-screen emacs "^First:")
        (write-region (concat key "\n") nil pipe nil 'quiet)
        (gemini-companion-test-wait-screen emacs (concat "100 *\n.*in " key))
        (apply #'gemini-companion-test-keys emacs answer)
        (gemini-companion-test-wait-screen emacs "^Answered")
        (gemini-companion-test-wait-screen emacs (concat "100 *\n.*in " key)))
      ;; But where the user has scrolled it, it stays.
      (gemini-companion-test-run
       emacs '(with-selected-window (next-window) (scroll-down 40) nil))
      (gemini-companion-test-press emacs "F7" "^First:")
      (gemini-companion-test-press emacs "Enter" "^Answered")
      (should-not (string-search "in F6" (gemini-companion-test-screen emacs))))))

(ert-deftest gemini-companion-cli-run/after-a-menu-other-buffers-leave-the-terminal-its-window ()
  (gemini-companion-test-with-emacs (emacs :size '(100 . 40) :files '(("a.txt" . "one\n")))
    (gemini-companion-cli-run-test--program emacs)
    (gemini-companion-cli-run-test--start emacs)
    (gemini-companion-test-run emacs '(progn (select-window (get-buffer-window "a.txt")) nil))
    (gemini-companion-test-m-x emacs "gemini-companion-menu" "resume a session")
    (gemini-companion-test-quit emacs '(not (bound-and-true-p transient--prefix)))
    (gemini-companion-test-wait-screen emacs "ready")
    (let ((windows (gemini-companion-cli-run-test--windows emacs)))
      (should (length= windows 2))
      (gemini-companion-test-run emacs '(progn (view-echo-area-messages) nil))
      (should (equal (sort (gemini-companion-cli-run-test--windows emacs) #'string<)
                     (sort (cons "*Messages*" windows) #'string<))))))

(ert-deftest gemini-companion-cli-run/what-a-menu-shows-leaves-the-terminal-its-window ()
  "A command of the menu runs before Emacs redisplays."
  (gemini-companion-test-with-emacs (emacs :size '(100 . 40) :files '(("a.txt" . "one\n")))
    (gemini-companion-cli-run-test--program emacs)
    (gemini-companion-cli-run-test--start emacs)
    (let ((windows (gemini-companion-cli-run-test--windows emacs)))
      (gemini-companion-test-run emacs '(progn (select-window (get-buffer-window "a.txt")) nil))
      (gemini-companion-test-m-x emacs "gemini-companion-menu" "resume a session")
      (gemini-companion-test-press emacs "L" "[*]gemini log[*]")
      (should (equal (sort (gemini-companion-cli-run-test--windows emacs) #'string<)
                     (sort (cons "*gemini log*" windows) #'string<))))))

(ert-deftest gemini-companion-cli-run/a-menu-gives-its-window-back ()
  "`C-x o' leads to a terminal at the bottom also after a menu took its place."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")) :size '(100 . 30))
    (gemini-companion-cli-run-test--program emacs)
    (gemini-companion-cli-run-test--start emacs)
    (let ((windows (gemini-companion-cli-run-test--windows emacs)))
      (gemini-companion-test-run emacs '(other-window 1))
      (gemini-companion-test-m-x emacs "gemini-companion-menu" "run, show, hide")
      (gemini-companion-test-quit emacs `(get-buffer-window ,(car windows)))
      (gemini-companion-test-keys emacs "C-x" "o")
      (gemini-companion-test-wait
       "the terminal to be selected"
       (lambda () (equal (gemini-companion-cli-run-test--windows emacs) windows)))
      (should (gemini-companion-test-eval emacs '(window-dedicated-p))))))

(ert-deftest gemini-companion-cli-run/a-prompt-completes-any-part-of-a-file-name ()
  "Nor are there line numbers in the terminal, of which the CLI would know nothing."
  (gemini-companion-test-with-emacs
      (emacs :files '(("a.txt" . "one\n") ("src/one.py" . "") ("src/two.py" . "")))
    (should (= 0 (call-process "git" nil nil nil "-C" (gemini-companion-test-project emacs "")
                               "init" "--quiet")))
    (gemini-companion-cli-run-test--program emacs)
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-run emacs '(progn (global-display-line-numbers-mode 1)
                                             (gemini-companion-run)
                                             nil))
    (gemini-companion-test-wait-screen emacs "ready")
    (should (equal (gemini-companion-test-eval
                    emacs '(list (buffer-local-value 'display-line-numbers (get-buffer "a.txt"))
                                 display-line-numbers))
                   '(t nil)))
    (gemini-companion-test-eval emacs '(global-display-line-numbers-mode -1))
    (gemini-companion-test-run emacs '(progn (gemini-companion-compose) nil))
    (gemini-companion-test-wait-eval emacs '(equal (buffer-name) "*prompt for gemini: project*"))
    (gemini-companion-test-type emacs "see @on" "Tab")
    (gemini-companion-test-wait-eval emacs '(equal (buffer-string) "see @src/one.py"))
    ;; Text mode would complete this word.
    (gemini-companion-test-type emacs " conti" "Tab")
    (gemini-companion-test-type emacs ".")
    (gemini-companion-test-wait-eval emacs '(equal (buffer-string) "see @src/one.py conti."))
    (should-not (gemini-companion-test-eval
                 emacs '(with-current-buffer "*Messages*"
                          (string-match-p "ispell\\|plain word" (buffer-string)))))))

(ert-deftest gemini-companion-cli-run/without-the-program-it-says-how-to-get-it ()
  "Nothing is opened then."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-eval emacs '(setq gemini-companion-program "no-such-gemini"))
    (gemini-companion-test-m-x emacs "gemini-companion-run")
    (gemini-companion-test-wait-screen
     emacs (concat "Cannot find .no-such-gemini. in .exec-path.: "
                   "install it with  npm install -g @google/gemini-cli"))
    (should (equal (gemini-companion-cli-run-test--windows emacs) '("a.txt")))))

(defun gemini-companion-cli-run-test--wait-width (emacs)
  "Wait until the terminal in the selected window of EMACS has its width."
  (pcase-let ((`(,tty ,width)
               (gemini-companion-test-eval
                emacs '(list (process-tty-name (get-buffer-process (window-buffer)))
                             (window-max-chars-per-line)))))
    (gemini-companion-test-wait
     (format "the %d columns of the window" width)
     (lambda ()
       (let ((columns (string-to-number
                       (cadr (split-string
                              (car (process-lines "stty" "-F" tty "size")))))))
         (= columns width))))))

(gemini-companion-test-with-terminals gemini-companion-cli-run/the-cli-is-as-wide-as-its-window
    terminal
  "Also when the window is narrow, or is resized."
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli '(("a.txt" . "one\n"))
             (lambda (it) (gemini-companion-test-cli-start-by-command it terminal)))
    (gemini-companion-cli-run-test--wait-width emacs)
    (should (< (gemini-companion-test-eval emacs '(window-width)) 80))
    (gemini-companion-test-eval emacs '(progn (window-resize nil -5 t) nil))
    (gemini-companion-cli-run-test--wait-width emacs)))

(gemini-companion-test-with-terminals gemini-companion-cli-run/the-cli-is-connected-at-once
    terminal
  "The real CLI, in a project that had not been announced."
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli '(("a.txt" . "one\n"))
             (lambda (it) (gemini-companion-test-cli-start-by-command it terminal)))
    (gemini-companion-test-cli-submit cli "/ide status" "Connected to Emacs")
    (let ((windows (gemini-companion-cli-run-test--windows emacs)))
      (should (= (length windows) 2))
      (gemini-companion-test-run emacs '(gemini-companion-run))
      (should (equal (gemini-companion-cli-run-test--windows emacs) (cdr windows)))
      (gemini-companion-test-run emacs '(gemini-companion-run))
      (should (equal (gemini-companion-cli-run-test--windows emacs) windows)))))

(gemini-companion-test-with-terminals gemini-companion-cli-run/the-environment-of-a-project terminal
  "A buffer-local environment, as of direnv, which lacks our variables, is used.
So it is when the CLI is run again from its terminal after it has ended."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (let ((notes (gemini-companion-cli-run-test--program emacs))
          (directory (gemini-companion-test-emacs-directory emacs))
          (load (gemini-companion-test-terminal-directories terminal)))
      (gemini-companion-test-visit emacs "a.txt")
      (gemini-companion-test-eval
       emacs `(progn
                (setq load-path (append ',load load-path)
                      gemini-companion-terminal ',terminal
                      gemini-companion-program "program")
                (setq-local exec-path (cons ,directory exec-path)
                            process-environment
                            (list "OF_THE_PROJECT=yes" "GEMINI_CLI_IDE_SERVER_PORT=1"
                                  (concat "PATH=" (getenv "PATH"))
                                  (concat "HOME=" (getenv "HOME"))))
                ;; As envrc does, also in the terminal.
                (add-hook 'after-change-major-mode-hook
                          (lambda ()
                            (when gemini-companion-cli-run-root
                              (setq-local process-environment
                                          (list "OF_A_HOOK=yes"
                                                (concat "PATH=" (getenv "PATH")))))))
                nil))
      (let ((port (gemini-companion-test-eval emacs '(gemini-companion-bridge-port))))
        (dotimes (_ 2)
          (gemini-companion-test-run emacs '(progn (gemini-companion-run) nil))
          (let ((lines (gemini-companion-cli-run-test--wait-notes notes)))
            (dolist (line (list "OF_THE_PROJECT=yes"
                                (format "GEMINI_CLI_IDE_SERVER_PORT=%d" port)
                                (format "GEMINI_CLI_IDE_PID=%d"
                                        (gemini-companion-test-emacs-pid emacs))))
              (should (member line lines)))
            (should-not (member "OF_A_HOOK=yes" lines)))
          (delete-file notes)
          (gemini-companion-test-run
           emacs '(process-send-string (get-buffer-process (window-buffer)) "bye\n"))
          (gemini-companion-test-wait-eval
           emacs '(not (process-live-p (get-buffer-process (window-buffer)))))))
      ;; Emacs says so if a variable is made local while it is bound.
      (should-not (string-search "Making vterm-min-window-width"
                                 (gemini-companion-test-eval
                                  emacs '(with-current-buffer "*Messages*" (buffer-string)))))
      (should-not (gemini-companion-test-eval
                   emacs '(getenv-internal "OF_THE_PROJECT"
                                           (default-toplevel-value 'process-environment)))))))

(gemini-companion-test-with-terminals gemini-companion-cli-run/emacs-asks-before-it-ends-a-cli terminal
  "When its buffer is killed, and when Emacs exits; not once it has ended."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-cli-run-test--program emacs)
    (let ((load (gemini-companion-test-terminal-directories terminal)))
      (gemini-companion-test-eval emacs `(setq load-path (append ',load load-path)
                                               gemini-companion-terminal ',terminal)))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-run emacs '(progn (gemini-companion-run) nil))
    (gemini-companion-test-wait-screen emacs "ready")
    (let ((name (gemini-companion-test-eval emacs '(buffer-name (window-buffer))))
          (answer (lambda (text)
                    (gemini-companion-test-type emacs text)
                    (gemini-companion-test-press emacs "Enter" '(not (active-minibuffer-window)))))
          (alive (lambda ()
                   (gemini-companion-test-eval
                    emacs '(and (gemini-companion-cli-run-terminals) t))))
          (kill (lambda (name)
                  (gemini-companion-test-press emacs "C-x k" "Kill buffer")
                  (gemini-companion-test-type emacs name)
                  (gemini-companion-test-keys emacs "Enter"))))
      (funcall kill name)
      (gemini-companion-test-wait-screen emacs "has a running process; kill it")
      (funcall answer "no")
      (should (funcall alive))
      (gemini-companion-test-press emacs "C-x C-c" "Active processes exist; kill them and exit")
      (funcall answer "no")
      (should (funcall alive))
      (funcall kill name)
      (gemini-companion-test-wait-screen emacs "has a running process; kill it")
      (funcall answer "yes")
      (should-not (funcall alive))
      (should-not (gemini-companion-test-eval emacs `(get-buffer ,name)))
      ;; One that has ended is killed at once.
      (gemini-companion-test-run emacs '(progn (gemini-companion-run) nil))
      (gemini-companion-test-run
       emacs '(process-send-string (get-buffer-process (window-buffer)) "bye\n"))
      (gemini-companion-test-wait-eval
       emacs '(not (process-live-p (get-buffer-process (window-buffer)))))
      (gemini-companion-test-run emacs `(progn (select-window (get-buffer-window "a.txt"))
                                               (kill-buffer ,name))))))

(gemini-companion-test-with-terminals gemini-companion-cli-run/an-earlier-session-goes-on terminal
  "The real CLI lists its sessions, and is run in the one that the user chooses."
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli '(("a.txt" . "one\n"))
             (lambda (it) (gemini-companion-test-cli-start-by-command it terminal)))
    (gemini-companion-test-run emacs '(progn (gemini-companion-send-prompt "Remember the word.") nil))
    (gemini-companion-test-cli-wait-requests cli 1)
    (gemini-companion-test-cli-wait-terminal cli "Done\\.")
    (gemini-companion-test-eval emacs '(kill-buffer (prog1 (window-buffer)
                                                      (delete-process
                                                       (get-buffer-process (window-buffer))))))
    (gemini-companion-test-run emacs '(gemini-companion-run '(16)))
    (gemini-companion-test-wait-screen emacs "Session of Gemini CLI to resume (default .*):")
    (gemini-companion-test-keys emacs "Enter")
    (gemini-companion-test-cli-wait-terminal cli "Remember the word\\(?:.*\n\\)*.*Type your message")
    (gemini-companion-test-wait-eval emacs '(= 1 gemini-companion-bridge-clients))
    (gemini-companion-test-run emacs '(progn (gemini-companion-send-prompt "Which one?") nil))
    (should (cl-subsetp '("Remember the word." "Which one?")
                        (gemini-companion-test-request-texts
                         (gemini-companion-test-cli-wait-requests cli 2))
                        :test #'equal))))

(gemini-companion-test-with-terminals gemini-companion-cli-run/the-cli-has-this-emacs-for-its-editor
    terminal
  "The user edits the prompt of the real CLI in a window of Emacs."
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli '(("a.txt" . "one\n"))
             (lambda (it) (gemini-companion-test-cli-start-by-command it terminal)))
    (gemini-companion-test-cli-edit-prompt emacs cli "Say it" " twice.")
    (gemini-companion-test-keys emacs "Enter")
    (should (member "Say it twice." (gemini-companion-test-request-texts
                                     (gemini-companion-test-cli-wait-requests cli 1))))))

(ert-deftest gemini-companion-cli-run/keys-that-the-cli-names-work-in-term ()
  "Also after its line mode; elsewhere, Term is as before."
  :tags '(any-emacs)
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli '(("a.txt" . "one\n"))
             (lambda (it) (gemini-companion-test-cli-start-by-command it 'term)))
    (gemini-companion-test-cli-wait-terminal cli "Shift\\+Tab to accept edits")
    (gemini-companion-test-keys emacs "BTab")
    (gemini-companion-test-cli-wait-terminal cli "auto-accept edits")
    (gemini-companion-test-keys emacs "C-c" "C-j" "C-c" "C-k" "F4")
    (gemini-companion-test-cli-wait-terminal cli "Open files:\n.*a\\.txt")
    (gemini-companion-test-type emacs "Say")
    (gemini-companion-test-run
     emacs '(progn (call-interactively (key-binding [S-return])) nil))
    (gemini-companion-test-type emacs "it")
    (gemini-companion-test-cli-wait-terminal cli "> Say *\n *it")
    ;; As on a graphical frame.
    (gemini-companion-test-run emacs '(progn (call-interactively (key-binding [escape])) nil))
    (gemini-companion-test-cli-wait-terminal cli "Press Esc again to clear")
    (should-not (gemini-companion-test-eval
                 emacs '(lookup-key (default-value 'term-raw-map) [backtab])))))

(gemini-companion-test-with-terminals gemini-companion-cli-run/a-cli-that-suspends-itself-goes-on
    terminal
  "No shell could continue it."
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli '(("a.txt" . "one\n"))
             (lambda (it) (gemini-companion-test-cli-start-by-command it terminal)))
    (gemini-companion-test-cli-script cli "Hello.")
    ;; It turns this mode on again when it has gone on.
    (gemini-companion-test-eval
     emacs '(ignore
             (add-function :before (process-filter (get-buffer-process (window-buffer)))
                           (lambda (process text)
                             (when (string-search "\e[?2004h" text)
                               (process-put process 'goes-on t))))))
    ;; Pressed slowly, these keys do not suspend it.
    (gemini-companion-test-run
     emacs '(progn (process-send-string (get-buffer-process (window-buffer)) "\C-z\C-z") nil))
    (gemini-companion-test-wait-eval
     emacs '(process-get (get-buffer-process (window-buffer)) 'goes-on))
    (gemini-companion-test-cli-submit cli "Say it")
    (gemini-companion-test-cli-wait-terminal cli "Hello\\.")))

(ert-deftest gemini-companion-cli-run/the-cli-reads-a-yanked-image ()
  "The real CLI asks nothing before that, and the image is gone after it."
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli '(("a.txt" . "one\n"))
             (lambda (it) (gemini-companion-test-cli-start-by-command it 'term)))
    (let ((gemini (gemini-companion-test-cli-file cli "home")))
      (gemini-companion-test-run
       emacs `(let ((process-environment (cons ,(concat "GEMINI_CLI_HOME=" gemini)
                                               process-environment)))
                (gemini-companion-compose)
                (insert "What is ")
                (gemini-companion-cli-image--yank
                 'image/png ,(base64-decode-string gemini-companion-cli-run-test--image))
                (gemini-companion-compose-send)
                nil))
      (should-not (gemini-companion-test-eval
                   emacs '(with-current-buffer "*Messages*"
                            (string-search "Wrote" (buffer-string)))))
      (let ((request (gemini-companion-test-cli-wait-requests cli 1)))
        (should (seq-some (lambda (content)
                            (seq-some (lambda (part)
                                        (equal (alist-get 'data (alist-get 'inlineData part))
                                               gemini-companion-cli-run-test--image))
                                      (alist-get 'parts content)))
                          (alist-get 'contents request))))
      (should (directory-files-recursively gemini "\\`image-.*png\\'"))
      (gemini-companion-test-run
       emacs '(progn (mapc (lambda (it) (delete-process (get-buffer-process (car it))))
                           (gemini-companion-cli-run-terminals))
                     nil))
      (gemini-companion-test-wait
       "no image" (lambda () (not (directory-files-recursively gemini "\\`image-.*png\\'")))))))

(ert-deftest gemini-companion-cli-run/a-prompt-can-be-a-command-of-the-cli ()
  "The real CLI runs it."
  :tags '(any-emacs)
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli '(("a.txt" . "one\n"))
             (lambda (it) (gemini-companion-test-cli-start-by-command it 'term)))
    (gemini-companion-test-run emacs '(progn (gemini-companion-compose) nil))
    (gemini-companion-test-type emacs "/abo" "Tab")
    (gemini-companion-test-wait-eval emacs '(equal (buffer-string) "/about"))
    (gemini-companion-test-keys emacs "C-c" "C-c")
    (gemini-companion-test-cli-wait-terminal cli "About Gemini CLI")))

(gemini-companion-test-with-terminals gemini-companion-cli-run/a-click-visits-what-the-cli-mentions
    terminal
  "Of the real CLI, in whose terminal other keys stay its own."
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli '(("a.txt" . "one\n") ("src/b.txt" . "one\ntwo\n"))
             (lambda (it) (gemini-companion-test-cli-start-by-command it terminal)))
    (gemini-companion-test-cli-script cli "It is in src/b.txt:2 and elsewhere.")
    (gemini-companion-test-run emacs '(progn (gemini-companion-send-prompt "Where is it?") nil))
    (let ((link '(seq-find (lambda (overlay)
                             (and (overlay-get overlay 'gemini-companion-cli-link)
                                  (string-search "b.txt:2" (buffer-substring
                                                            (overlay-start overlay)
                                                            (overlay-end overlay)))))
                           (overlays-in (point-min) (point-max)))))
      (gemini-companion-test-wait-eval emacs `(and ,link t))
      (gemini-companion-test-run
       emacs `(progn (execute-kbd-macro
                      (vector (list 'mouse-2 (posn-at-point (overlay-start ,link)))))
                     nil)))
    (gemini-companion-test-wait-eval emacs '(equal (buffer-name) "b.txt"))
    (should (= 2 (gemini-companion-test-eval emacs '(line-number-at-pos))))))

;;; run-test.el ends here

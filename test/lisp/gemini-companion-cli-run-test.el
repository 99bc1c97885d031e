;;; gemini-companion-cli-run-test.el --- Tests of the CLI in a terminal  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What differs between terminal emulators, with a fake Ghostel, which no
;; distribution packages.  test/e2e/run-test.el tests real emulators.

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-compose)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-cli-send)
(require 'gemini-companion-test-companion)

(defvar gemini-companion-cli-run-test--asked nil
  "The questions asked, the last first.")

(defvar ghostel-use-native-pty)
(defvar ghostel-query-before-killing)
(defvar vterm-timer-delay)

(defmacro gemini-companion-cli-run-test--with-ghostel (exec &rest body)
  "Evaluate BODY in a new project with EXEC as Ghostel's function to run a program.
It is called with a buffer, a program and arguments.  Questions are
answered with no."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-project
     (let ((ghostel-use-native-pty t)
           (gemini-companion-terminal 'ghostel)
           (gemini-companion-program "cat")
           (gemini-companion-cli-run-test--asked nil))
       (gemini-companion-mode 1)
       (provide 'ghostel)
       (cl-letf (((symbol-function 'ghostel-exec) ,exec)
                 ((symbol-function 'yes-or-no-p)
                  (lambda (question) (push question gemini-companion-cli-run-test--asked) nil)))
         (unwind-protect (progn ,@body)
           (setq features (delq 'ghostel features))
           (pcase-dolist (`(,buffer . ,_) (gemini-companion-cli-run-terminals))
             (delete-process (get-buffer-process buffer))))))))

(defun gemini-companion-cli-run-test--ghostel-exec (buffer program arguments)
  "Run PROGRAM with ARGUMENTS in BUFFER, as Ghostel does it."
  ;; Ghostel itself has a process that is not the program's.
  (should-not ghostel-use-native-pty)
  (make-process :name "ghostel" :buffer buffer :command (cons program arguments)
                :noquery t :sentinel #'ignore))

(ert-deftest gemini-companion-cli-run/emacs-asks-even-if-the-emulator-does-not ()
  "Emacs asks once before it kills a terminal in which a CLI runs."
  (gemini-companion-cli-run-test--with-ghostel #'gemini-companion-cli-run-test--ghostel-exec
    (gemini-companion-run)
    (let ((terminal (caar (gemini-companion-cli-run-terminals))))
      (should-not (kill-buffer terminal))
      (should (= (length gemini-companion-cli-run-test--asked) 1))
      (should-not (buffer-local-value 'ghostel-query-before-killing terminal))
      (delete-process (get-buffer-process terminal))
      ;; The next CLI uses the same buffer.
      (gemini-companion-run t)
      (should-not (buffer-live-p terminal))
      (should (= (length gemini-companion-cli-run-test--asked) 1)))))

(ert-deftest gemini-companion-cli-run/its-directory-is-a-root-as-long-as-it-runs ()
  "Also if it would not be guessed, such as the user's home directory."
  (gemini-companion-cli-run-test--with-ghostel #'gemini-companion-cli-run-test--ghostel-exec
    (let ((gemini-companion-workspace-guess nil)
          (root (list (directory-file-name gemini-companion-test-project))))
      (gemini-companion-run)
      (should (equal (gemini-companion-workspace-announced) root))
      ;; As after any change of the open files.
      (gemini-companion-workspace-announce)
      (should (equal (gemini-companion-workspace-announced) root))
      (delete-process (get-buffer-process (caar (gemini-companion-cli-run-terminals))))
      (gemini-companion-workspace-announce)
      (should-not (gemini-companion-workspace-announced)))))

(ert-deftest gemini-companion-cli-run/a-failure-leaves-nothing-behind ()
  "Emacs does not ask either."
  (let ((process nil))
    (gemini-companion-cli-run-test--with-ghostel
        (lambda (buffer program arguments)
          (setq process (gemini-companion-cli-run-test--ghostel-exec buffer program arguments))
          (set-process-query-on-exit-flag process t)
          (error "It does not work"))
      (let ((buffers (buffer-list))
            (window (selected-window))
            (messages nil))
        (cl-letf (((symbol-function 'gemini-companion-ui-message)
                   (lambda (_ &rest arguments) (push (apply #'format arguments) messages))))
          (gemini-companion-run))
        (should (equal messages '("It does not work")))
        (should (eq (selected-window) window))
        (should-not (process-live-p process))
        (should-not (seq-difference (buffer-list) buffers))
        (should-not gemini-companion-cli-run-test--asked)))))

(ert-deftest gemini-companion-cli-run/it-says-what-is-wrong-with-an-option ()
  (gemini-companion-cli-run-test--with-ghostel #'gemini-companion-cli-run-test--ghostel-exec
    (let ((gemini-companion-agent "gemini"))
      (should (string-search "No program is called \"gemini\""
                             (cadr (should-error (gemini-companion-run) :type 'user-error)))))
    (let ((gemini-companion-arguments "--debug")
          (messages nil))
      (cl-letf (((symbol-function 'gemini-companion-ui-message)
                 (lambda (_ &rest arguments) (push (apply #'format arguments) messages))))
        (gemini-companion-run))
      (should (equal messages '("Wrong type argument: listp, \"--debug\""))))))

(ert-deftest gemini-companion-cli-run/a-suspended-cli-does-not-read ()
  "What is sent to its terminal would be for the shell."
  (let* ((buffer (generate-new-buffer "terminal"))
         (process (make-process
                   :name "shell" :buffer buffer :noquery t :connection-type 'pty
                   :sentinel #'ignore
                   :command '("sh" "-c" "set -m; sleep 1000 & echo back $!
sh -c 'echo front $$; exec sleep 1000'")))
         (id (lambda (name)
               (with-current-buffer buffer
                 (goto-char (point-min))
                 (and (re-search-forward (concat "^" name " \\([0-9]+\\)") nil t)
                      (string-to-number (match-string 1))))))
         (terminals (lambda (name)
                      (let ((gemini-companion-cli--all nil))
                        (gemini-companion-cli--add 'gemini (funcall id name))
                        (mapcar #'car (gemini-companion-cli-run-terminals))))))
    (unwind-protect
        (progn
          (gemini-companion-test-wait "both jobs" (lambda () (funcall id "front")))
          (should (memq buffer (funcall terminals "front")))
          (should-not (memq buffer (funcall terminals "back"))))
      (delete-process process)
      (when (funcall id "back")
        (ignore-errors (signal-process (funcall id "back") 'KILL)))
      (kill-buffer buffer))))

;; `gemini-companion-run' hid it as if it were Gemini CLI, and never ran that.
(ert-deftest gemini-companion-cli-run/a-cli-that-the-user-has-started-is-no-other-one ()
  (gemini-companion-test-with-project
    (let* ((buffer (generate-new-buffer "terminal"))
           (process (make-process :name "cli" :buffer buffer :noquery t :sentinel #'ignore
                                  :command '("sleep" "1000")))
           (gemini-companion-cli--all nil)
           (pressed nil))
      (gemini-companion-cli--add 'qwen (process-id process) nil gemini-companion-test-project)
      (unwind-protect
          (save-window-excursion
            (should-not (gemini-companion-cli-run-buffer gemini-companion-test-project 'gemini))
            (should (eq (gemini-companion-cli-run-buffer gemini-companion-test-project 'qwen)
                        buffer))
            (should (equal (with-current-buffer buffer (gemini-companion-cli-send-title))
                           "Qwen Code"))
            (cl-letf (((symbol-function 'gemini-companion-cli-send-key)
                       (lambda (key _) (setq pressed key))))
              (with-current-buffer buffer (gemini-companion-compose t)))
            (should (equal pressed "\C-x"))
            (gemini-companion-compose)
            (should (member "summary" (gemini-companion-cli-compose--commands))))
        (delete-process process)))))

;;;; Another emulator

(defconst gemini-companion-cli-run-test--question
  "╭──────────────────╮
│ ? Shell git push │
│                  │
│ ● 1. Allow once  │
│   2. No (esc)    │
╰──────────────────╯
"
  "A question of a CLI.")

(defun gemini-companion-cli-run-test--converse ()
  "Run a CLI, send it a prompt, and answer what it asks then."
  (let ((gemini-companion-cli-send--poll-interval 0.01)
        (read (lambda (name)
                (let ((file (gemini-companion-test-file name)))
                  (if (file-exists-p file) (gemini-companion-test-read file) "")))))
    (gemini-companion-test-file "question" gemini-companion-cli-run-test--question)
    (gemini-companion-cli-run-test--program
     "stty raw -echo; echo ready; head -c 18 >prompt; cat question; head -c 1 >answer; echo end; cat")
    (gemini-companion-mode 1)
    (save-window-excursion
      (gemini-companion-run)
      (let ((terminal (window-buffer)))
        (gemini-companion-test-wait
         "the CLI" (lambda () (string-search "ready" (with-current-buffer terminal (buffer-string)))))
        ;; It shows no prompt, so it may be starting.
        (should-error (gemini-companion-send-prompt "hello") :type 'user-error)
        ;; That is not certain after a while.
        (gemini-companion-cli-note-ready terminal)
        (gemini-companion-send-prompt "hello")
        (gemini-companion-test-wait
         "the prompt" (lambda () (equal (funcall read "prompt") "\e[200~hello\e[201~\r")))
        (gemini-companion-test-wait
         "the question"
         (lambda () (with-current-buffer terminal
                      (and (null gemini-companion-cli-send--busy)
                           (gemini-companion-cli-screen-question-p)))))
        ;; In batch mode, Emacs does not know what is on screen.
        (cl-letf (((symbol-function 'gemini-companion-cli-send--question-seen-p) #'always))
          (gemini-companion-answer-no))
        (gemini-companion-cli-run-test--output terminal)
        (should (equal (funcall read "answer") "\e"))
        terminal))))

(ert-deftest gemini-companion-cli-run/the-emulator-of-the-manual-is-one-entry ()
  "A CLI runs in it, gets a prompt, and gets an answer."
  (gemini-companion-test-with-project
    (let ((gemini-companion-cli-terminals gemini-companion-cli-terminals)
          (gemini-companion-workspace-terminal-modes gemini-companion-workspace-terminal-modes)
          (gemini-companion-terminal 'auto)
          gemini-companion-program)
      (with-temp-buffer
        (insert-file-contents (gemini-companion-test-path "docs" "gemini-companion.texi"))
        (search-forward "(defun my-start-in-comint")
        (narrow-to-region (match-beginning 0) (progn (search-forward "@end lisp") (match-beginning 0)))
        (eval-buffer))
      (should (eq gemini-companion-terminal 'comint))
      (let ((terminal (gemini-companion-cli-run-test--converse)))
        (should (eq (buffer-local-value 'major-mode terminal) 'comint-mode))
        (delete-process (get-buffer-process terminal))))))

(defun gemini-companion-cli-run-test--obey (&rest _)
  "Do what a shell asks for."
  'obeyed)

(define-derived-mode gemini-companion-cli-run-test-mode nil "Fictitious"
  "Major mode of an emulator that shows the text that a program writes.")

(defun gemini-companion-cli-run-test--start (program arguments environment)
  "Run PROGRAM with ARGUMENTS in ENVIRONMENT by the fictitious emulator."
  (gemini-companion-cli-run-test-mode)
  (let ((process-environment environment))
    (make-process :name "fictitious" :buffer (current-buffer) :noquery t :coding 'utf-8-unix
                  :command (cons program arguments) :connection-type 'pty)))

(ert-deftest gemini-companion-cli-run/an-entry-says-what-differs-in-an-emulator ()
  (gemini-companion-test-with-project
    (let* ((gemini-companion-cli-terminals
            (cons '(fictitious
                    :title "Fictitious"
                    :mode gemini-companion-cli-run-test-mode
                    :start gemini-companion-cli-run-test--start
                    :variables (lambda (_) '("FICTITIOUS=1"))
                    :frozen (lambda () buffer-read-only)
                    :trackers (gemini-companion-cli-run-test--obey))
                  gemini-companion-cli-terminals))
           (gemini-companion-workspace-terminal-modes gemini-companion-workspace-terminal-modes)
           (gemini-companion-terminal 'auto)
           gemini-companion-program
           (terminal (progn (provide 'fictitious)
                            (unwind-protect (gemini-companion-cli-run-test--converse)
                              (setq features (delq 'fictitious features))))))
      (with-current-buffer terminal
        (should (derived-mode-p 'gemini-companion-cli-run-test-mode))
        (should-not (gemini-companion-cli-run-test--obey))
        (setq buffer-read-only t)
        (should-error (gemini-companion-send-prompt "next") :type 'user-error))
      (should (gemini-companion-cli-run-test--obey))
      ;; The advice goes with the mode, and the last terminal.
      (delete-process (get-buffer-process terminal))
      (gemini-companion-mode -1)
      (should-not (advice-member-p #'gemini-companion-cli-terminals--not-ours-p
                                   'gemini-companion-cli-run-test--obey)))))

;;;; Term

(ert-deftest gemini-companion-cli-run/titles-are-not-shown-as-text ()
  "That holds wherever the output of a program is cut."
  (let ((text "a\e]0;title ◇\ab\e[31mred\e]2;x\e\\c\e[2K\e]8;;http://x\adone\e(B\e[0m"))
    (dotimes (one (length text))
      (dolist (other (number-sequence one (1- (length text))))
        (let ((function (gemini-companion-cli-terminals--term-output)))
          (should (equal (concat (cadr (funcall function (list nil (substring text 0 one))))
                                 (cadr (funcall function (list nil (substring text one other))))
                                 (cadr (funcall function (list nil (substring text other)))))
                         "ab\e[31mredc\e[1K\e[Kdone\e(B\e[0m"))))))
  ;; Text that turns out not to be a title is not held back.
  (let ((function (gemini-companion-cli-terminals--term-output))
        (long (concat "\e]" (make-string 2000 ?x))))
    (should (equal (cadr (funcall function (list nil long))) long))))

(ert-deftest gemini-companion-cli-run/term-gets-whole-characters ()
  "Emacs 28 would show the parts of a character as bytes."
  (let* ((text "aé│\e[1m│𝄞b")
         (bytes (encode-coding-string text 'utf-8)))
    (dotimes (cut (length bytes))
      (let ((function (gemini-companion-cli-terminals--term-output)))
        (should (equal (mapconcat (lambda (part)
                                    (decode-coding-string (cadr (funcall function (list nil part)))
                                                          'utf-8))
                                  (list (substring bytes 0 cut) (substring bytes cut))
                                  "")
                       text))))))

(defun gemini-companion-cli-run-test--output (terminal)
  "Return the text of TERMINAL once it contains the word \"end\"."
  (with-current-buffer terminal
    (gemini-companion-test-wait
     "the output" (lambda () (string-search "end" (buffer-string))))
    (buffer-string)))

(defun gemini-companion-cli-run-test--program (text)
  "Make the shell script TEXT the program that is run."
  (setq gemini-companion-program (gemini-companion-test-file "program"
                                                             (concat "#!/bin/sh\n" text "\n")))
  (set-file-modes gemini-companion-program #o755))

(defun gemini-companion-cli-run-test--lines (script)
  "Return the lines that Term shows when the program is a shell SCRIPT."
  (gemini-companion-test-with-project
    (let ((gemini-companion-terminal 'term)
          gemini-companion-program)
      (gemini-companion-cli-run-test--program script)
      (gemini-companion-mode 1)
      (gemini-companion-run)
      (prog1 (split-string (gemini-companion-cli-run-test--output (window-buffer)) "[ \t]*\n" t)
        (delete-process (get-buffer-process (window-buffer)))))))

(ert-deftest gemini-companion-cli-run/term-erases-whole-lines ()
  "That includes text before the cursor, as when Gemini CLI redraws its screen."
  (should (equal (gemini-companion-cli-run-test--lines
                  "printf 'one\\r\\ntwo\\r\\nthree'
printf '\\033[2K\\033[1A\\033[2K\\033[1A\\033[2K\\033[G''a\\r\\nend\\r\\n'; read line")
                 '("a" "end"))))

(ert-deftest gemini-companion-cli-run/term-goes-to-the-next-and-the-previous-line ()
  "Gemini CLI does, with the settings useAlternateBuffer and terminalBuffer."
  (should (equal (gemini-companion-cli-run-test--lines
                  "printf 'one\\r\\ntwo\\r\\nthree\\r\\nfour'
printf '\\033[FTHREE\\033[1;1H\\033[ETWO\\033[Hend'; read line")
                 '("end" "TWO" "THREE" "four"))))

(defun gemini-companion-cli-run-test--escapes (terminal &rest escapes)
  "Run a program that prints ESCAPES in TERMINAL, and check that they do nothing."
  (gemini-companion-test-with-project
    (let ((gemini-companion-terminal terminal)
          (asked nil)
          gemini-companion-program)
      (gemini-companion-test-file "x.txt" "x\n")
      (gemini-companion-cli-run-test--program
       (mapconcat (lambda (text) (format "printf '%s'\n" text)) `(,@escapes "end") ""))
      (gemini-companion-mode 1)
      (require 'tramp)                  ; it would define the function while that is another
      (cl-letf (((symbol-function 'tramp-file-name-handler)
                 (lambda (&rest arguments) (push arguments asked) nil)))
        (save-window-excursion
          (gemini-companion-run)
          (let ((terminal (window-buffer))
                (windows (length (window-list))))
            (gemini-companion-cli-run-test--output terminal)
            (should (= windows (length (window-list))))
            (should (equal (buffer-local-value 'default-directory terminal)
                           gemini-companion-test-project))
            (should-not (get-file-buffer (gemini-companion-test-file "x.txt"))))))
      (should-not asked))))

(ert-deftest gemini-companion-cli-run/output-in-term-visits-nothing ()
  "Nor does it make Emacs log in somewhere, however it is put together."
  (gemini-companion-cli-run-test--escapes
   'term "\\032//ssh:evil:/\\n" "\\032//tmp/\\n" "\\032\\032x.txt:1:0:beg:0x0\\n"
   "\\033AnSiTh %s\\n' \"$(hostname)\" '" "\\033AnSiTu %s\\n' \"$(id -un)\" '"
   "\\033AnSiTc /ssh:evil:~/\\n" "\\033AnSiTh evil\\n" "\\033AnSi" "Tc /\\n"
   ;; A title in it, which is taken out.
   "\\033\\033]0;x\\007AnSiTc /\\n"))

(ert-deftest gemini-companion-cli-run/output-in-vterm-visits-nothing ()
  (let ((load-path (append (gemini-companion-test-terminal-directories 'vterm) load-path))
        ;; Its timer changes the match data.
        (vterm-timer-delay nil))
    (gemini-companion-cli-run-test--escapes
     'vterm "\\033]51;Efind-file \"x.txt\"\\033\\\\" "\\033]51;A/ssh:evil:/\\033\\\\"
     "\\033]51;A/tmp\\007" "\\033]\\00051;Ame@evil:/\\033\\\\")))

(ert-deftest gemini-companion-cli-run/term-has-no-colors-on-a-light-background ()
  (pcase-dolist (`(,background ,own ,colors) '((light nil "1") (nil nil "1") (dark nil "none")
                                               (light "NO_COLOR=" "") (light "FORCE_COLOR=1" "none")
                                               ;; As `setenv' removes it.
                                               (light "NO_COLOR" "1")))
    (gemini-companion-test-with-project
      (let* ((process-environment
              (append (and own (list own))
                      (seq-remove (lambda (it) (string-match-p "\\`\\(?:NO\\|FORCE\\)_COLOR=" it))
                                  process-environment)))
             (gemini-companion-terminal 'term)
             (before (frame-parameter nil 'background-mode))
             gemini-companion-program)
        (gemini-companion-cli-run-test--program
         "printf '\\033]0;title\\007<%s>' \"${NO_COLOR-none}\"; echo end")
        (gemini-companion-mode 1)
        (unwind-protect
            (progn
              (set-frame-parameter nil 'background-mode background)
              (gemini-companion-run)
              ;; The program may have ended already.
              (should (string-prefix-p (format "<%s>end" colors)
                                       (gemini-companion-cli-run-test--output (window-buffer)))))
          (set-frame-parameter nil 'background-mode before))))))

(ert-deftest gemini-companion-cli-run/programs-in-term-use-its-colors ()
  "The terminal in which Emacs was started does not matter."
  (dolist (own '("COLORTERM=truecolor" "COLORTERM"))
    (gemini-companion-test-with-project
      (let ((process-environment (cons own process-environment))
            (gemini-companion-terminal 'term)
            gemini-companion-program)
        (gemini-companion-cli-run-test--program "printf '<%s>end' \"${COLORTERM-none}\"")
        (gemini-companion-mode 1)
        (gemini-companion-run)
        (should (string-prefix-p (if (< emacs-major-version 29) "<none>" "<truecolor>")
                                 (gemini-companion-cli-run-test--output (window-buffer))))))))

;;;; Eat and vterm

(ert-deftest gemini-companion-cli-run/programs-in-eat-and-vterm-use-all-colors ()
  (pcase-dolist (`(,colors ,own ,value) '((16777216 "A=1" "truecolor") (256 "A=1" nil)
                                          (16777216 "COLORTERM=x" nil)
                                          (16777216 "COLORTERM" "truecolor")))
    (cl-letf (((symbol-function 'display-color-cells) (lambda (&rest _) colors)))
      (should (equal (getenv-internal "COLORTERM"
                                      (gemini-companion-cli-terminals--color-variables (list own)))
                     value)))))

(ert-deftest gemini-companion-cli-run/programs-can-ask-for-the-background-color ()
  "It gets an answer to each query, wherever that is cut."
  (pcase-dolist (`(,background ,mode ,answer)
                 '(("white" light "fefe/fefe/fefe") ("#102030" dark "1010/2020/3030")
                   ("unspecified-bg" light "fefe/fefe/fefe") ("unspecified-bg" dark "0000/0000/0000")))
    (let ((sent nil))
      (cl-letf (((symbol-function 'process-send-string) (lambda (_ text) (push text sent)))
                ((symbol-function 'face-background) (lambda (&rest _) background))
                ((symbol-function 'color-values)
                 (lambda (color &rest _)
                   (cdr (assoc color '(("white" 65535 65535 65535) ("#102030" #x1010 #x2020 #x3030))))))
                ((symbol-function 'frame-parameter) (lambda (&rest _) mode)))
        (let* ((question "a\e[?u\e]11;?\e\\b\e]11;x")
               (answer (format "\e]11;rgb:%s\e\\" answer)))
          (dotimes (cut (length question))
            (let ((filter (gemini-companion-cli-terminals--answer-background)))
              (should (equal (concat (cadr (funcall filter (list nil (substring question 0 cut))))
                                     (cadr (funcall filter (list nil (substring question cut)))))
                             "a\e[?ub\e]11;x"))
              (should (equal sent (list answer)))
              (funcall filter (list nil question))
              (should (equal sent (list answer answer)))
              (setq sent nil))))))))

(ert-deftest gemini-companion-cli-run/a-terminal-is-resized-once ()
  "Its own buffer is current then, or vterm's module would crash."
  (save-window-excursion
    (with-temp-buffer
      (let* ((buffer (current-buffer))
             (process (make-process :name "cat" :buffer buffer :command '("cat") :noquery t))
             (filter (gemini-companion-cli-terminals--fit-once))
             (asked nil))
        (process-put process 'adjust-window-size-function
                     (lambda (_ windows)
                       (push (cons (current-buffer) windows) asked)
                       '(33 . 7)))
        (unwind-protect
            (progn
              (switch-to-buffer buffer)
              (with-temp-buffer
                (funcall filter process "a")
                (funcall filter process "b"))
              (should (equal asked (list (list buffer (selected-window)))))
              (should (equal (process-lines "stty" "-F" (process-tty-name process) "size")
                             '("7 33"))))
          (delete-process process))))))

(ert-deftest gemini-companion-cli-run/a-sandbox-in-a-container-is-noticed ()
  (gemini-companion-test-with-project
    (let ((system-type 'gnu/linux))
      (pcase-dolist (`(,wanted ,setting ,variable . ,arguments)
                     '((nil nil nil) (t nil nil "-s") (t nil nil "-m" "pro" "--sandbox")
                       (t nil "podman") (t nil "docker") (t nil "true") (t nil "1")
                       (nil nil "false") (nil nil "sandbox-exec") (nil "docker" "false" "-s")
                       (t t nil) (t "docker" nil) (nil :json-false nil)
                       (t ((enabled . t) (command . "podman")) nil)
                       (nil ((enabled . :json-false) (command . "podman")) nil)
                       (nil ((enabled . t) (command . "lxc")) nil)))
        (gemini-companion-test-file ".gemini/settings.json"
                                    (json-encode `((tools (sandbox . ,(or setting :json-false))))))
        (let ((environment (and variable (list (concat "GEMINI_SANDBOX=" variable)))))
          (should (eq wanted (gemini-companion-cli-search-sandbox-p
                              'gemini gemini-companion-test-project arguments environment)))
          ;; There is no other program with one that is known.
          (should-not (gemini-companion-cli-search-sandbox-p
                       'qwen gemini-companion-test-project arguments environment))))
      (let ((system-type 'darwin))
        ;; That is no container there.
        (should-not (gemini-companion-cli-search-sandbox-p
                     'gemini gemini-companion-test-project '("-s") nil))))))

;;;; Earlier sessions

;; With a script in place of the CLI; test/e2e/run-test.el has the real one.

(defvar gemini-companion-cli-run-test--session-asked nil
  "The prompt for a session, its choices and what stands beside them; or nil.")

(defun gemini-companion-cli-run-test--choose-session (prompt table &rest arguments)
  "Record PROMPT and what TABLE has, and choose the last, for `completing-read'."
  (let* ((metadata (cdr (funcall table "" nil 'metadata)))
         (names (all-completions "" table)))
    (should (eq (alist-get 'display-sort-function metadata) 'identity))
    (should (equal (nth 4 arguments) (car names)))
    (setq gemini-companion-cli-run-test--session-asked
          (list prompt names (mapcar (alist-get 'annotation-function metadata) names)))
    (car (last names))))

(defmacro gemini-companion-cli-run-test--with-script (script &rest body)
  "Evaluate BODY in a new project, where the CLI is the shell SCRIPT.
It sees the options of the CLI as $*.  The user is not busy."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-project
     (let ((gemini-companion-program
            (gemini-companion-test-file "program" (concat "#!/bin/sh\n" ,script "\n")))
           (gemini-companion-terminal 'term)
           (gemini-companion-cli-run-test--session-asked nil))
       (set-file-modes gemini-companion-program #o755)
       (gemini-companion-mode 1)
       (cl-letf (((symbol-function 'gemini-companion-ui-user-frame-p) #'always)
                 ((symbol-function 'completing-read)
                  #'gemini-companion-cli-run-test--choose-session))
         (save-window-excursion
           (unwind-protect (progn ,@body)
             (pcase-dolist (`(,buffer . ,_) (gemini-companion-cli-run-terminals))
               (delete-process (get-buffer-process buffer)))))))))

(defconst gemini-companion-cli-run-test--lister
  "case $* in *--list-sessions*) cat <<'END'
Some warning

Available sessions for this project (4):
  1. Fix (the) parser [quickly] (2 days ago) [032443f8-bbc7-41cf-b3da-b9e70686f710]
  2. Twice (1 hour ago) [aaaaaaaa-1111]
  3. Twice (Just now, current) [bbbbbbbb-2222]
  4. Not an id (Just now) [--yolo]
END
  exit;; esac
pwd; echo \"run with $*.\"; read line"
  "A shell script that lists sessions as Gemini CLI does.")

(defun gemini-companion-cli-run-test--wait (text)
  "Wait until a terminal shows TEXT."
  (gemini-companion-test-wait
   text
   (lambda ()
     (seq-some (pcase-lambda (`(,buffer . ,_))
                 (with-current-buffer buffer (string-search text (buffer-string))))
               (gemini-companion-cli-run-terminals)))))

(ert-deftest gemini-companion-cli-run/the-user-chooses-a-session ()
  "The newest one is first; names are different, and ids are no options."
  (gemini-companion-cli-run-test--with-script gemini-companion-cli-run-test--lister
    (let ((gemini-companion-arguments '("--own")))
      (gemini-companion-run '(16))
      (gemini-companion-cli-run-test--wait
       "run with --resume 032443f8-bbc7-41cf-b3da-b9e70686f710 --own."))
    (should (equal gemini-companion-cli-run-test--session-asked
                   '("Session of Gemini CLI to resume (default Twice [bbbbbbbb-2222]): "
                     ("Twice [bbbbbbbb-2222]" "Twice" "Fix (the) parser [quickly]")
                     ("  Just now, current" "  1 hour ago" "  2 days ago"))))
    (should-not (get-buffer " *gemini sessions*"))))

(ert-deftest gemini-companion-cli-run/a-session-that-runs-is-shown ()
  "It would be written by two CLIs."
  (gemini-companion-cli-run-test--with-script gemini-companion-cli-run-test--lister
    (gemini-companion-run)
    (let* ((terminal (window-buffer))
           (gemini-companion-cli--all
            (list (gemini-companion-cli--make :session "032443f8-bbc7-41cf-b3da-b9e70686f710"
                                              :terminal terminal))))
      (gemini-companion-cli-run-test--wait "run with .")
      (switch-to-buffer "*scratch*")
      (gemini-companion-resume)
      (gemini-companion-test-wait "the terminal" (lambda () (eq (window-buffer) terminal)))
      (should (= 1 (length (gemini-companion-cli-run-terminals)))))))

(ert-deftest gemini-companion-cli-run/it-says-why-there-is-no-session ()
  (pcase-dolist (`(,script ,message)
                 '(("echo No previous sessions found for this project." "has no earlier session")
                   ("echo 'Invalid auth method.' >&2; exit 41"
                    "Gemini CLI lists no sessions: Invalid auth method\\.")))
    (gemini-companion-cli-run-test--with-script script
      (gemini-companion-resume)
      (gemini-companion-test-wait
       message (lambda ()
                 (with-current-buffer (messages-buffer)
                   (save-excursion
                     (goto-char (point-max))
                     (forward-line -1)
                     (looking-at-p (concat ".*" message))))))
      (should-not gemini-companion-cli-run-test--session-asked))))

(ert-deftest gemini-companion-cli-run/only-the-last-request-for-sessions-counts ()
  "The first one does not ask any more when the CLI answers it at last."
  (gemini-companion-cli-run-test--with-script
      "[ -e first ] || { touch first; read line; }; echo '  1. One (now) [1]'; echo \"with $*.\""
    (gemini-companion-resume)
    (gemini-companion-test-wait "the first" (lambda () (file-exists-p "first")))
    (gemini-companion-resume)
    (gemini-companion-test-wait "a question" (lambda () gemini-companion-cli-run-test--session-asked))
    (should-not (string-match-p "lists no sessions" (or (current-message) "")))
    (should-not gemini-companion-cli-run--session-lister)))

(ert-deftest gemini-companion-cli-run/a-program-may-ask-for-a-session-itself ()
  "As Qwen Code does."
  (gemini-companion-cli-run-test--with-script "echo \"run with $*.\"; read line"
    (let ((gemini-companion-agent 'qwen))
      (gemini-companion-resume)
      (gemini-companion-cli-run-test--wait "run with --resume."))
    (let ((gemini-companion-agent 'llxprt))
      (should-error (gemini-companion-resume) :type 'user-error))))

;;; gemini-companion-cli-run-test.el ends here

;;; send-test.el --- Sending prompts and answers to the CLI  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The real CLI in a terminal of an interactive Emacs; tests check what its
;; model receives.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defmacro gemini-companion-cli-send-test--with (spec &rest body)
  "Run BODY with an Emacs and a CLI in a terminal there.
SPEC is (EMACS CLI FILES TERMINAL), as for other tests; the first file is
visited, and its window selected."
  (declare (indent 1) (debug ((symbolp symbolp form form) body)))
  (pcase-let ((`(,emacs ,cli ,files ,terminal) spec))
    `(gemini-companion-test-with-emacs-and-cli
         (,emacs ,cli ,files
                 (lambda (it) (gemini-companion-test-cli-start-by-command it ,terminal)))
       (gemini-companion-test-run ,emacs '(progn (gemini-companion-run) nil))
       (gemini-companion-test-wait-eval ,emacs 'buffer-file-name)
       ,@body)))

(defun gemini-companion-cli-send-test--wait-asked (cli texts)
  "Wait until the model of CLI has received TEXTS, and nothing else, in order.
Ignore what the CLI itself adds."
  (let ((asked (lambda ()
                 (let ((request (car (last (gemini-companion-test-cli-requests cli)))))
                   (seq-remove (lambda (text)
                                 (string-match-p "session_context\\|editor context\\|changes in the user's editor\\|--- Content from\\|End of content" text))
                               (gemini-companion-test-request-texts request))))))
    (gemini-companion-test-wait
     (lambda () (format "%S; the model has received %S" texts (funcall asked)))
     (lambda () (equal (funcall asked) texts)))))

(gemini-companion-test-with-terminals gemini-companion-cli-send/answers-are-given terminal
  "A yes and a no answer the CLI's question, while the file stays selected."
  (gemini-companion-cli-send-test--with (emacs cli '(("a.txt" . "one\n")) terminal)
    (gemini-companion-test-eval emacs '(setq gemini-companion-diff-policy 'queue))
    (let ((file (gemini-companion-test-project emacs "a.txt"))
          (propose (lambda (text)
                     (gemini-companion-test-cli-script
                      cli `("write_file" :file_path
                            ,(gemini-companion-test-project emacs "a.txt") :content ,text)
                      "All done")
                     (gemini-companion-test-run
                      emacs '(gemini-companion-send-prompt "please write"))
                     (gemini-companion-test-wait-eval
                      emacs '(= 1 (gemini-companion-review-count)))
                     (gemini-companion-test-cli-wait-terminal cli "Allow once"))))
      (funcall propose "two\n")
      ;; A prompt would answer it, too.
      (gemini-companion-test-m-x emacs "gemini-companion-send-prompt")
      (gemini-companion-test-wait-screen emacs "Gemini CLI asks a question; answer it first")
      ;; The terminal is in no window yet.
      (gemini-companion-test-m-x emacs "gemini-companion-answer-yes")
      (gemini-companion-test-wait-screen emacs "was not all on screen; look at it, then answer")
      (gemini-companion-test-wait-screen emacs "● 1\\. Allow once")
      ;; The user has a moment to read it first.
      (gemini-companion-test-wait
       "the file to be written"
       (lambda ()
         (or (equal (gemini-companion-test-read file) "two\n")
             (gemini-companion-test-run
              emacs '(progn (ignore-error user-error (gemini-companion-answer-yes)) nil)))))
      (gemini-companion-test-cli-wait-terminal cli "All done")
      (funcall propose "three\n")
      (gemini-companion-test-m-x emacs "gemini-companion-answer-no")
      (gemini-companion-test-wait-eval emacs '(zerop (gemini-companion-review-count)))
      (should (equal (gemini-companion-test-read file) "two\n"))
      (should (gemini-companion-test-eval
               emacs '(equal (buffer-name (window-buffer)) "a.txt"))))))

(ert-deftest gemini-companion-cli-send/a-yes-that-would-lose-something-is-not-sent ()
  "The CLI asks only whether to apply the change; Emacs, what the key that accepts it asks."
  (gemini-companion-cli-send-test--with
      (emacs cli `(("a.txt" . ,(apply #'concat (make-list 60 "one\n")))) 'term)
    (let ((file (gemini-companion-test-project emacs "a.txt")))
      (gemini-companion-test-cli-script
       cli `("write_file" :file_path ,file :content "two\n") "All done")
      (gemini-companion-test-run emacs '(gemini-companion-send-prompt "please write"))
      (gemini-companion-test-cli-wait-terminal cli "Allow once")
      (gemini-companion-test-m-x emacs "gemini-companion-answer-yes")
      (gemini-companion-test-wait-screen emacs "Accepting this change would lose something")
      (gemini-companion-test-m-x emacs "gemini-companion-accept")
      (gemini-companion-test-wait-screen emacs "a text of 1 line in place of 60 lines")
      (gemini-companion-test-keys emacs "y")
      (gemini-companion-test-wait "the file to be written"
                                  (lambda () (equal (gemini-companion-test-read file) "two\n")))
      (gemini-companion-test-cli-wait-terminal cli "All done"))))

(gemini-companion-test-with-terminals gemini-companion-cli-send/answers-need-a-question
    terminal
  "A half-typed prompt that looks like a choice is not sent; work is not stopped."
  (gemini-companion-cli-send-test--with (emacs cli '(("a.txt" . "one\n")) terminal)
    (let ((refused (lambda (command)
                     (gemini-companion-test-m-x emacs command)
                     (gemini-companion-test-wait-screen emacs "Gemini CLI asks no question now")
                     ;; The same message comes again.
                     (gemini-companion-test-run emacs '(message nil)))))
      (gemini-companion-test-run
       emacs '(progn (require 'gemini-companion-cli-send)
                     (gemini-companion-cli-send-text "● 1. Allow once" nil)
                     (select-window (get-buffer-window "a.txt"))
                     nil))
      (gemini-companion-test-cli-wait-terminal cli "> ● 1\\. Allow once")
      (funcall refused "gemini-companion-answer-yes")
      (funcall refused "gemini-companion-answer-no")
      (gemini-companion-test-run emacs '(gemini-companion-send-prompt " and more"))
      (gemini-companion-cli-send-test--wait-asked cli '("● 1. Allow once and more"))
      (gemini-companion-test-cli-wait-terminal cli "Done\\.")
      ;; An allowed command runs until the file exists.
      (gemini-companion-test-cli-script
       cli `("run_shell_command"
             :command ,(format "until test -e %s; do sleep 0.1; done; echo it is there"
                               (gemini-companion-test-project emacs "go")))
       "All done")
      (gemini-companion-test-run emacs '(gemini-companion-send-prompt "please wait"))
      (gemini-companion-test-cli-wait-terminal cli "Allow once\\(?:.\\|\n\\)*╰")
      (gemini-companion-test-m-x emacs "gemini-companion-answer-yes")
      (gemini-companion-test-cli-wait-terminal cli "esc to cancel")
      (funcall refused "gemini-companion-answer-no")
      (gemini-companion-test-write (gemini-companion-test-project emacs "go") "")
      (gemini-companion-test-cli-wait-terminal cli "All done"))))

(gemini-companion-test-with-terminals gemini-companion-cli-send/prompts-regions-and-files-arrive terminal
  "Prompts of one line and of several, a region, a file."
  (gemini-companion-cli-send-test--with
      (emacs cli '(("a b.txt" . "one\ntwo ä𝕏\nthree\n")) terminal)
    (let ((asked nil)
          (asks (lambda (asked) (gemini-companion-cli-send-test--wait-asked
                                 cli (reverse asked)))))
      (gemini-companion-test-m-x emacs "gemini-companion-send-prompt")
      (gemini-companion-test-wait-screen emacs "^Prompt for \\*gemini: project\\*:")
      (gemini-companion-test-type emacs "hello ä𝕏" "Enter")
      (push "hello ä𝕏" asked)
      (funcall asks asked)
      ;; Several lines, and control characters.
      (gemini-companion-test-run
       emacs '(gemini-companion-cli-send-text "x\n\n\ty\e[201~\C-c\r\nz" t))
      (push "x\n\n\ty[201~\nz" asked)
      (funcall asks asked)
      ;; After a backslash, Enter would begin a new line.
      (gemini-companion-test-run emacs '(gemini-companion-cli-send-text "in C:\\" t))
      (push "in C:\\" asked)
      (funcall asks asked)
      (gemini-companion-test-run emacs '(progn (push-mark 5 t t) (goto-char (point-max)) nil))
      (gemini-companion-test-run
       emacs '(let ((current-prefix-arg t))
                (call-interactively #'gemini-companion-send-region)))
      (push "a b.txt, lines 2 to 3:\n```\ntwo ä𝕏\nthree\n```" asked)
      (funcall asks asked)
      ;; The CLI reads a file that is mentioned.
      (gemini-companion-test-run
       emacs '(let ((current-prefix-arg t))
                (call-interactively #'gemini-companion-send-file)))
      (gemini-companion-test-wait
       (lambda ()
         (format "the text of the file in %S"
                 (last (gemini-companion-test-cli-requests cli))))
       (lambda ()
         (let ((texts (gemini-companion-test-request-texts
                       (car (last (gemini-companion-test-cli-requests cli))))))
           (and (seq-some (lambda (text) (equal "@a b.txt" text)) texts)
                (seq-some (lambda (text) (string-search "one\ntwo ä𝕏\nthree" text))
                          texts)))))
      ;; Enter would complete this name; the CLI reads the file that it means.
      (gemini-companion-test-run emacs '(gemini-companion-cli-send-text "as in @a" t))
      (gemini-companion-test-wait
       "the name to be sent"
       (lambda ()
         (member "as in @a b.txt" (gemini-companion-test-request-texts
                                   (car (last (gemini-companion-test-cli-requests cli))))))))))

(gemini-companion-test-with-terminals gemini-companion-cli-send/nothing-is-sent-in-shell-mode terminal
  "The CLI would run it.  Afterwards a region of a file elsewhere is no command."
  (gemini-companion-cli-send-test--with (emacs cli '(("a.txt" . "one\n")) terminal)
    (gemini-companion-test-run
     emacs '(progn (require 'gemini-companion-cli-send)
                   (process-send-string
                    (get-buffer-process (gemini-companion-cli-send-terminal)) "!")))
    (gemini-companion-test-cli-wait-terminal cli "! +Type your shell command")
    (gemini-companion-test-m-x emacs "gemini-companion-send-prompt" "Gemini CLI is in shell mode")
    (gemini-companion-test-run
     emacs '(process-send-string
             (get-buffer-process (gemini-companion-cli-send-terminal)) "\e"))
    (gemini-companion-test-cli-wait-terminal cli "> +Type your message")
    (gemini-companion-test-run
     emacs '(let ((terminal (gemini-companion-cli-send-terminal)))
              (with-temp-buffer
                (insert "two\n")
                (setq buffer-file-name "/elsewhere/b.txt")
                (cl-letf (((symbol-function 'gemini-companion-cli-send-terminal)
                           (lambda () terminal)))
                  (gemini-companion-send-region (point-min) (point-max) t))
                (set-buffer-modified-p nil))))
    (gemini-companion-cli-send-test--wait-asked
     cli '("file /elsewhere/b.txt, line 1:\n```\ntwo\n```"))))

(gemini-companion-test-with-terminals gemini-companion-cli-send/nothing-is-sent-to-a-shell-command terminal
  "It has the focus in the CLI, which shows its empty prompt all the same."
  (gemini-companion-cli-send-test--with (emacs cli '(("a.txt" . "one\n")) terminal)
    (let ((press (lambda (keys)
                   (gemini-companion-test-run
                    emacs `(process-send-string
                            (get-buffer-process (gemini-companion-cli-send-terminal)) ,keys)))))
      (gemini-companion-test-cli-script
       ;; A busy CLI may lose the last output of a command.
       cli '("run_shell_command" :command "read answer; echo it was $answer >given") "All done")
      (gemini-companion-test-run
       emacs '(progn (display-buffer (gemini-companion-cli-send-terminal)) nil))
      (gemini-companion-test-run emacs '(gemini-companion-send-prompt "please ask"))
      (gemini-companion-test-wait-screen emacs "Allow once\\(?:.\\|\n\\)*╰")
      (gemini-companion-test-m-x emacs "gemini-companion-answer-yes")
      (gemini-companion-test-cli-wait-terminal cli "(Tab to focus)")
      (funcall press "\t")
      (gemini-companion-test-cli-wait-terminal cli "(Shift\\+Tab to unfocus)")
      (gemini-companion-test-m-x emacs "gemini-companion-send-prompt")
      (gemini-companion-test-wait-screen emacs "would give the text to a shell command")
      ;; A busy CLI says that the command has the focus before keys go there.  C-u erases both.
      (gemini-companion-test-wait
       "the command to get what is typed"
       (lambda ()
         (funcall press "\C-umine")
         (gemini-companion-test-eval
          emacs '(with-current-buffer (gemini-companion-cli-send-terminal)
                   (string-match-p "│ mine" (buffer-string))))))
      (funcall press "\r")
      (gemini-companion-test-cli-wait-terminal cli "mine\\(?:.\\|\n\\)*All done")
      (funcall press "\C-u")
      (should (equal (gemini-companion-test-read (gemini-companion-test-project emacs "given"))
                     "it was mine\n"))
      (gemini-companion-test-run emacs '(gemini-companion-send-prompt "hello"))
      (gemini-companion-cli-send-test--wait-asked cli '("please ask" "hello")))))

(ert-deftest gemini-companion-cli-send/a-cli-started-by-the-user-is-found ()
  "It runs in a terminal that was not made by `gemini-companion-run'."
  (gemini-companion-test-require-real-client)
  (gemini-companion-test-with-emacs (emacs :files '(("sub/a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "sub/a.txt")
    (gemini-companion-test-with-cli
        (cli (gemini-companion-test-cli-start-in-term emacs))
      (gemini-companion-test-run emacs '(progn (switch-to-buffer "a.txt") nil))
      (gemini-companion-test-run emacs '(gemini-companion-send-prompt "hello"))
      (gemini-companion-cli-send-test--wait-asked cli '("hello"))
      (should (equal (gemini-companion-test-eval
                      emacs '(progn (require 'gemini-companion-cli-send)
                                    (gemini-companion-cli-send-mention
                                     buffer-file-name
                                     (gemini-companion-cli-send-directory
                                      (gemini-companion-cli-send-terminal)))))
                     "@sub/a.txt"))
      ;; It is shown, and no other is started.
      (gemini-companion-test-run emacs '(progn (delete-other-windows) (gemini-companion-run)))
      (gemini-companion-test-wait-eval emacs '(equal (buffer-name) "*terminal*")))))

(ert-deftest gemini-companion-cli-send/a-diagnostic-is-sent ()
  "Flymake's diagnostic at point arrives with its position."
  (gemini-companion-cli-send-test--with (emacs cli '(("a.txt" . "one\ntwo\n")) 'term)
    (gemini-companion-test-run
     emacs '(progn
              (require 'flymake)
              (setq-local flymake-diagnostic-functions
                          (list (lambda (report &rest _)
                                  (funcall report (list (flymake-make-diagnostic
                                                         (current-buffer) 5 8 :error
                                                         "two is not three"))))))
              (flymake-mode 1)
              (flymake-start)
              (goto-char 6)))
    (gemini-companion-test-wait-eval emacs '(flymake-diagnostics))
    (gemini-companion-test-run
     emacs '(let ((current-prefix-arg t))
              (call-interactively #'gemini-companion-send-diagnostic)))
    (gemini-companion-cli-send-test--wait-asked cli '("a.txt, line 2: two is not three"))))

(ert-deftest gemini-companion-cli-send/names-are-completed-in-the-minibuffer ()
  "A command at the beginning of the prompt, and files after an @."
  (gemini-companion-cli-send-test--with
      (emacs cli '(("a.txt" . "one\n") ("b.txt" . "two\n")) 'term)
    (gemini-companion-test-cli-wait-terminal cli "Type your message")
    (gemini-companion-test-m-x emacs "gemini-companion-send-prompt" "Prompt for")
    (pcase-dolist (`(,text . ,completed) '(("/comp" . ": /compress") ("@b" . ": @b\\.txt")
                                           ("see @a" . ": see @a\\.txt")))
      (gemini-companion-test-type emacs text)
      (gemini-companion-test-keys emacs "Tab")
      (gemini-companion-test-wait-screen emacs completed)
      (gemini-companion-test-keys emacs "C-a" "C-k"))
    (gemini-companion-test-quit emacs)))

;;; send-test.el ends here

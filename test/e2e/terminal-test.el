;;; terminal-test.el --- Sitting in the CLI's terminal  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The real CLI in a terminal of Emacs, whose window is selected as for most
;; users when a change arrives: what the screen says, and what keys do there.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)
(require 'gemini-companion-test-monkey-terminal)
(require 'fake-cli)

(defconst gemini-companion-terminal-e2e--files
  (mapcar (lambda (name)
            (cons name (concat (string-remove-suffix ".txt" name) " one\ntwo\n")))
          '("a.txt" "b.txt" "c.txt" "d.txt")))

(defmacro gemini-companion-terminal-e2e--with (spec &rest body)
  "Run BODY in the selected terminal of a CLI.
SPEC is (EMACS CLI TERMINAL)."
  (declare (indent 1) (debug ((symbolp symbolp form) body)))
  (pcase-let ((`(,emacs ,cli ,terminal) spec))
    `(gemini-companion-test-with-emacs-and-cli
         (,emacs ,cli gemini-companion-terminal-e2e--files
                 (lambda (it) (gemini-companion-test-cli-start-by-command it ,terminal)))
       (gemini-companion-terminal-e2e--press-at-once ,emacs)
       ,@body)))

(defun gemini-companion-terminal-e2e--press-at-once (emacs)
  "Let keys decide a change in EMACS as soon as it appears."
  (gemini-companion-test-eval emacs '(setq gemini-companion-ui-reaction-time 0)))

(defun gemini-companion-terminal-e2e--write (emacs name)
  "Return a call of the model that writes to the file NAME in the project of EMACS."
  `("write_file" :file_path ,(gemini-companion-test-project emacs name)
    :content ,(concat "new " name "\ntwo\n")))

(defun gemini-companion-terminal-e2e--propose (emacs cli &rest names)
  "Let the model of CLI propose changes of the files NAMES, and wait for the first.
Wait until EMACS and the CLI show it."
  (gemini-companion-test-cli-script
   cli (vconcat (mapcar (lambda (name) (gemini-companion-terminal-e2e--write emacs name)) names)))
  (gemini-companion-test-cli-submit cli "please write")
  (gemini-companion-terminal-e2e--wait-asked emacs cli (car names)))

(defun gemini-companion-terminal-e2e--wait-asked (emacs cli name)
  "Wait until EMACS shows the change of the file NAME, and CLI asks about it."
  (gemini-companion-test-wait-screen emacs (concat (regexp-quote name) ".* accepts"))
  (gemini-companion-test-cli-wait-terminal cli "Apply this change"))

(defun gemini-companion-terminal-e2e--wait-written (emacs name)
  "Wait until the CLI has written the file NAME in the project of EMACS."
  (let ((file (gemini-companion-test-project emacs name))
        (text (concat "new " name "\ntwo\n")))
    (gemini-companion-test-wait (concat name " to be written")
                                (lambda () (equal (gemini-companion-test-read file) text)))))

(defun gemini-companion-terminal-e2e--in-terminal-p (emacs)
  "Return non-nil if the terminal of the CLI is selected in EMACS."
  (gemini-companion-test-eval
   emacs '(and (buffer-local-value 'gemini-companion-cli-run-root (window-buffer)) t)))

(defun gemini-companion-terminal-e2e--outcomes (emacs)
  "Return the history of EMACS, oldest first, as pairs of a file and an outcome."
  (gemini-companion-test-eval
   emacs '(mapcar (lambda (entry)
                    (cons (file-name-nondirectory (gemini-companion-history-path entry))
                          (gemini-companion-history-outcome entry)))
                  (reverse (gemini-companion-history-all)))))

(gemini-companion-test-with-terminals gemini-companion-in-the-terminal/c-c-c-c-loses-nothing
    terminal
  "The keys on screen work there, and C-c C-c asks before it sends ^C."
  (gemini-companion-terminal-e2e--with (emacs cli terminal)
    (gemini-companion-terminal-e2e--propose emacs cli "a.txt" "b.txt" "c.txt")
    (gemini-companion-test-wait-screen emacs " 1 of 3 .*a\\.txt ")
    (should (gemini-companion-terminal-e2e--in-terminal-p emacs))
    ;; The header names keys of the terminal, and no others.
    (gemini-companion-test-wait-screen emacs "a\\.txt .*C-c C-c a accepts  C-c C-c r rejects")
    (should-not (string-match-p "C-c C-c accepts\\|C-c C-k" (gemini-companion-test-screen emacs)))
    (gemini-companion-test-keys emacs "C-c" "C-c")
    (gemini-companion-test-wait-screen emacs "a\\.txt (^C cancels it, and what is queued behind it)")
    (gemini-companion-test-press emacs "q" "Nothing was sent")
    (gemini-companion-test-press emacs "C-c C-c" "txt (^C cancels it")
    (gemini-companion-test-keys emacs "a")
    ;; The same again at once cancels nothing.
    (gemini-companion-test-keys emacs "C-c" "C-c")
    (gemini-companion-terminal-e2e--wait-written emacs "a.txt")
    (gemini-companion-terminal-e2e--wait-asked emacs cli "b.txt")
    (should (gemini-companion-terminal-e2e--in-terminal-p emacs))
    (gemini-companion-test-wait-screen emacs " 1 of 2 .*b\\.txt ")
    ;; In the proposal C-c C-c accepts, and the next change is selected.
    (gemini-companion-test-press emacs "C-c C-c" "b\\.txt (^C cancels it")
    (gemini-companion-test-press emacs "g" "b\\.txt .*C-c C-c accepts  C-c C-k rejects")
    (gemini-companion-test-keys emacs "C-c" "C-c")
    (gemini-companion-terminal-e2e--wait-written emacs "b.txt")
    (gemini-companion-test-wait-screen emacs "c\\.txt .*C-c C-c accepts  C-c C-k rejects")
    ;; A key that comes at once might be meant for another buffer.
    (gemini-companion-test-wait-eval
     emacs '(> (- (float-time) (cdr gemini-companion-review-popup--unexpected))
               gemini-companion-ui-reaction-time))
    (gemini-companion-test-keys emacs "C-c" "C-c")
    (gemini-companion-terminal-e2e--wait-written emacs "c.txt")
    (gemini-companion-test-cli-wait-terminal cli "✦ Done")
    (should (equal (gemini-companion-terminal-e2e--outcomes emacs)
                   '(("a.txt" . accepted) ("b.txt" . accepted) ("c.txt" . accepted))))))

(defun gemini-companion-terminal-e2e--give-up (terminal)
  "Check that after ^C in TERMINAL no review is left, and the next one comes."
  (gemini-companion-terminal-e2e--with (emacs cli terminal)
    (gemini-companion-terminal-e2e--propose emacs cli "a.txt" "b.txt")
    (gemini-companion-test-press emacs "C-c C-c" "txt (^C cancels it")
    (gemini-companion-test-press emacs "c" "a\\.txt: cancelled in Gemini CLI")
    (gemini-companion-test-wait-no-review emacs)
    (gemini-companion-test-cli-wait-terminal cli "Press Ctrl\\+C again")
    (gemini-companion-test-cli-script
     cli (gemini-companion-terminal-e2e--write emacs "d.txt"))
    (gemini-companion-test-cli-submit cli "please go on")
    (gemini-companion-terminal-e2e--wait-asked emacs cli "d.txt")
    (gemini-companion-test-press emacs "C-c C-c" "d\\.txt (^C cancels it")
    (gemini-companion-test-keys emacs "a")
    (gemini-companion-terminal-e2e--wait-written emacs "d.txt")
    (should (equal (gemini-companion-terminal-e2e--outcomes emacs)
                   '(("a.txt" . cancelled) ("d.txt" . accepted))))))

(gemini-companion-test-with-terminals gemini-companion-in-the-terminal/what-the-cli-gives-up-ends
    terminal
  "After ^C no review is left, and the CLI's next proposal is shown."
  (gemini-companion-terminal-e2e--give-up terminal))

(gemini-companion-test-with-terminals
    gemini-companion-in-the-terminal/what-the-cli-gives-up-ends-in-few-colors
    terminal
  "Likewise where the prompt has no lines around it, but a background."
  (let ((gemini-companion-test-cli-colors 'few))
    (gemini-companion-terminal-e2e--give-up terminal)))

(ert-deftest gemini-companion-in-the-terminal/all-changes-of-a-turn-are-accepted ()
  "Those that the CLI will propose are named in the question, too."
  (gemini-companion-terminal-e2e--with (emacs cli 'term)
    (gemini-companion-terminal-e2e--propose emacs cli "a.txt" "b.txt" "c.txt")
    (gemini-companion-test-wait-screen emacs " 1 of 3 .*a\\.txt ")
    (gemini-companion-test-run emacs '(progn (run-at-time 0 nil #'gemini-companion-accept-all) nil))
    (gemini-companion-test-wait-screen emacs "Accept 3 changes: .*a\\.txt, b\\.txt, c\\.txt")
    (gemini-companion-test-keys emacs "y")
    (dolist (name '("a.txt" "b.txt" "c.txt"))
      (gemini-companion-terminal-e2e--wait-written emacs name))
    (gemini-companion-test-cli-wait-terminal cli "✦ Done")
    (gemini-companion-test-wait-no-review emacs)
    ;; Nothing is accepted in advance any longer.
    (gemini-companion-test-cli-script
     cli (gemini-companion-terminal-e2e--write emacs "d.txt"))
    (gemini-companion-test-cli-submit cli "and another")
    (gemini-companion-terminal-e2e--wait-asked emacs cli "d.txt")
    (gemini-companion-test-run emacs '(progn (gemini-companion-reject) nil))
    (should (equal (car (last (gemini-companion-terminal-e2e--outcomes emacs)))
                   '("d.txt" . rejected)))))

(ert-deftest gemini-companion-in-the-terminal/hidden-questions-are-seen ()
  "The mode line shows them, and so does a message; they can be answered."
  (gemini-companion-terminal-e2e--with (emacs cli 'term)
    (gemini-companion-test-cli-script
     cli '("run_shell_command" :command "touch made.txt") "All done")
    (gemini-companion-test-cli-submit cli "please run it")
    (gemini-companion-test-run emacs '(progn (gemini-companion-run) nil))
    (gemini-companion-test-wait-eval emacs 'buffer-file-name)
    (gemini-companion-test-wait-screen emacs "Gem:1\\?")
    (gemini-companion-test-wait-screen emacs "Gemini CLI asks a question in project")
    (gemini-companion-test-m-x emacs "gemini-companion-answer-yes")
    (gemini-companion-test-wait-screen emacs "was not all on screen; look at it, then answer")
    (gemini-companion-test-wait-screen emacs "Gem:1[^?]")
    ;; The user has a moment to read it first.
    (gemini-companion-test-wait
     "the command"
     (lambda ()
       (or (file-exists-p (gemini-companion-test-project emacs "made.txt"))
           (gemini-companion-test-run
            emacs '(progn (ignore-error user-error (gemini-companion-answer-yes)) nil)))))
    (gemini-companion-test-wait-eval emacs '(null (gemini-companion-cli-in-state 'asking)))))

(ert-deftest gemini-companion-in-the-terminal/keys-typed-by-habit-answer-nothing ()
  "Also in Term, what begins with `C-x', and `M-x', are for Emacs."
  (gemini-companion-terminal-e2e--with (emacs cli 'term)
    (gemini-companion-terminal-e2e--propose emacs cli "a.txt")
    (gemini-companion-test-press emacs "C-x 1" "Cannot make side window the only window")
    (gemini-companion-test-m-x emacs "what-cursor-position" "point=")
    (gemini-companion-test-cli-wait-terminal cli "Apply this change")
    (gemini-companion-test-keys emacs "C-x" "o")
    (gemini-companion-test-wait "another window"
                                (lambda ()
                                  (not (gemini-companion-terminal-e2e--in-terminal-p emacs))))
    (gemini-companion-test-m-x emacs "gemini-companion-accept")
    (gemini-companion-terminal-e2e--wait-written emacs "a.txt")))

(ert-deftest gemini-companion-in-the-terminal/yanking-by-habit-answers-nothing ()
  "In Term, too, `C-y' yanks and `C-u' is for Emacs; the CLI goes on asking.
Gemini CLI would not, after `C-y', and would write what is then rejected."
  (gemini-companion-terminal-e2e--with (emacs cli 'term)
    (gemini-companion-test-run emacs '(progn (kill-new "text 1") nil))
    (gemini-companion-terminal-e2e--propose emacs cli "a.txt")
    (gemini-companion-test-type emacs "\e[200~text 1\e[201~") ; as the terminal around Emacs pastes
    (gemini-companion-test-press emacs "C-y C-h c C-v" "C-v runs the command")
    (gemini-companion-test-press emacs "C-u 1 C-x =" "point=")
    (gemini-companion-test-cli-wait-terminal cli "Apply this change")
    (gemini-companion-test-run emacs '(progn (gemini-companion-reject) nil))
    (gemini-companion-test-wait-screen emacs "Change to a.txt rejected")
    (gemini-companion-test-cli-wait-terminal cli "^ > ")
    (gemini-companion-test-keys emacs "C-y")
    (gemini-companion-test-cli-wait-terminal cli "^ > text 1")
    (gemini-companion-test-keys emacs "C-c" "C-u")
    (gemini-companion-test-cli-wait-terminal cli "^ > +Type your message")
    (gemini-companion-test-keys emacs "C-c" "C-y")
    (gemini-companion-test-cli-wait-terminal cli "YOLO")))

(ert-deftest gemini-companion-in-the-terminal/keys-of-the-panel-keep-the-layout ()
  "Whatever they do to the windows, the CLI's window comes back."
  (gemini-companion-terminal-e2e--with (emacs cli 'term)
    (gemini-companion-terminal-e2e--propose emacs cli "a.txt")
    (gemini-companion-test-press emacs "C-c C-c" "txt (^C cancels it")
    (gemini-companion-test-press emacs "g" "n p move")
    (let ((layout (gemini-companion-test-layout emacs))
          (same (lambda ()
                  (gemini-companion-test-wait-eval
                   emacs '(gemini-companion-review-intact-p (gemini-companion-review-shown)))
                  (gemini-companion-test-layout emacs))))
      (gemini-companion-test-press emacs "?" "side by side, or stacked")
      (gemini-companion-test-keys emacs "?" "C-l")
      (should (equal (funcall same) layout))
      (gemini-companion-test-keys emacs "|")
      (should-not (equal (funcall same) layout))
      (gemini-companion-test-keys emacs "|")
      (should (equal (funcall same) layout))
      (gemini-companion-test-press emacs "C-x 1 n" "At end of 1 diffs")
      (should (equal (funcall same) layout))
      (gemini-companion-test-keys emacs "C-x" "1")
      (gemini-companion-test-run emacs '(progn (gemini-companion-review-next) nil))
      (should (equal (funcall same) layout)))
    (gemini-companion-test-keys emacs "C-c" "C-c")
    (gemini-companion-terminal-e2e--wait-written emacs "a.txt")))

(ert-deftest gemini-companion-in-the-terminal/small-frames-have-room ()
  "In 80 columns the CLI is below, as wide as the frame.
The change takes the place of its file above."
  (gemini-companion-test-require-real-client)
  (gemini-companion-test-with-emacs (emacs :size '(80 . 24)
                                           :files gemini-companion-terminal-e2e--files)
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-eval emacs '(setq gemini-companion-diff-function 'auto))
    (gemini-companion-test-with-cli
        (cli (gemini-companion-test-cli-start-by-command emacs 'term))
      (should (= 80 (gemini-companion-test-eval emacs '(window-total-width))))
      (gemini-companion-terminal-e2e--press-at-once emacs)
      (gemini-companion-terminal-e2e--propose emacs cli "a.txt")
      (gemini-companion-test-wait-screen emacs "Gem:1!1")
      (gemini-companion-test-wait-screen emacs "^- ?a one")
      ;; The message takes one line, the question too.
      (should-not (gemini-companion-test-eval emacs '(get-buffer-window "a.txt")))
      (gemini-companion-test-wait-screen
       emacs "^Gemini CLI proposes a change to a\\.txt, .* C-c C-c a accepts.*$")
      (should (= 1 (gemini-companion-test-eval emacs '(window-height (minibuffer-window)))))
      (gemini-companion-test-press emacs "C-c C-c" "txt (^C cancels it")
      (gemini-companion-test-keys emacs "a")
      (gemini-companion-terminal-e2e--wait-written emacs "a.txt")
      (gemini-companion-test-wait-eval emacs '(window-live-p (get-buffer-window "a.txt"))))))

(ert-deftest gemini-companion-in-the-terminal/a-question-is-answered-only-if-all-of-it-was-seen ()
  "In a small frame its window grows until it shows what yes would run."
  :tags '(any-emacs)
  (gemini-companion-test-require-real-client)
  (gemini-companion-test-with-emacs (emacs :size '(80 . 24)
                                           :files gemini-companion-terminal-e2e--files)
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-with-cli
        (cli (gemini-companion-test-cli-start-by-command emacs 'term))
      (gemini-companion-test-cli-script
       cli '("run_shell_command" :command "touch made.txt") "All done")
      (gemini-companion-test-cli-submit cli "please run it")
      (gemini-companion-test-run emacs '(progn (gemini-companion-run) nil))
      (gemini-companion-test-wait-screen emacs "Gem:1\\?")
      (gemini-companion-test-m-x emacs "gemini-companion-answer-yes")
      (gemini-companion-test-wait-screen emacs "was not all on screen; look at it, then answer")
      (gemini-companion-test-wait-screen emacs "touch made\\.txt")
      ;; The CLI draws it again in the larger window; meanwhile, not all of it is on screen.
      (gemini-companion-test-wait
       "the command"
       (lambda ()
         (or (file-exists-p (gemini-companion-test-project emacs "made.txt"))
             (gemini-companion-test-run
              emacs '(progn (ignore-error user-error (gemini-companion-answer-yes)) nil))))))))

(gemini-companion-test-with-terminals
    gemini-companion-in-the-terminal/after-a-question-the-cli-is-on-screen terminal
  "The echo area grows for the question, so the CLI draws its screen again."
  (gemini-companion-test-require-real-client)
  (gemini-companion-test-with-emacs (emacs :size '(80 . 24) :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-with-cli
        (cli (gemini-companion-test-cli-start-by-command emacs terminal))
      (let ((file (gemini-companion-test-project emacs "a.txt")))
        (gemini-companion-test-cli-propose cli file "two\n" emacs)
        (gemini-companion-test-run emacs '(progn (gemini-companion-accept) nil))
        (gemini-companion-test-cli-wait-terminal cli "All done")
        (gemini-companion-test-cli-propose cli file "three\n" emacs)
        (gemini-companion-test-cli-wait-terminal cli "1\\. Allow once")
        (gemini-companion-test-eval emacs '(defvar the-tick (buffer-chars-modified-tick (window-buffer))))
        (gemini-companion-test-press emacs "C-c C-c" "queued behind it")
        (gemini-companion-test-wait-eval
         emacs '(/= (buffer-chars-modified-tick (window-buffer (minibuffer-selected-window)))
                    the-tick))
        (gemini-companion-test-keys emacs "g")
        (gemini-companion-test-wait-eval emacs 'gemini-companion-review-of-buffer)
        (gemini-companion-test-wait-screen emacs "1\\. Allow once")
        (gemini-companion-test-run emacs '(progn (gemini-companion-accept) nil))
        (gemini-companion-test-wait "the file" (lambda ()
                                                 (equal (gemini-companion-test-read file)
                                                        "three\n")))))))

(ert-deftest gemini-companion-in-the-terminal/a-cli-may-keep-its-prompt-below-a-question ()
  "That does not mean that it takes a prompt, and has given up its change."
  :tags '(any-emacs)
  (gemini-companion-test-require-real-client)
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-with-cli
        (cli (let ((gemini-companion-test-cli-ui '((collapseDrawerDuringApproval . :false))))
               (gemini-companion-test-cli-start-by-command emacs 'term)))
      (gemini-companion-test-cli-script
       cli `("write_file" :file_path ,(gemini-companion-test-project emacs "a.txt") :content "two\n")
       "All done")
      (gemini-companion-test-cli-submit cli "please write")
      (gemini-companion-test-wait-review emacs "two\n")
      (gemini-companion-test-cli-wait-terminal
       cli "1\\. Allow once\\(?:.\\|\n\\)*Type your message")
      (gemini-companion-test-wait-eval
       emacs '(> (float-time (time-since (gemini-companion-review-created
                                          (car (gemini-companion-review-all-open)))))
                 (* 2 gemini-companion-cli-watch--free-time)))
      (gemini-companion-test-run emacs '(progn (gemini-companion-accept) nil))
      (gemini-companion-test-cli-wait-terminal cli "All done")
      (should (equal (gemini-companion-test-read (gemini-companion-test-project emacs "a.txt"))
                     "two\n")))))

;;;; A stand-in for the CLI

(defmacro gemini-companion-terminal-e2e--with-stand-in (spec &rest body)
  "Run BODY with an Emacs and a stand-in for the CLI in its selected terminal.
SPEC is (EMACS TERMINAL)."
  (declare (indent 1) (debug ((symbolp symbolp) body)))
  (pcase-let ((`(,emacs ,terminal) spec))
    `(progn
       (skip-unless (gemini-companion-test-node))
       (gemini-companion-test-with-emacs (,emacs :files gemini-companion-terminal-e2e--files)
         (gemini-companion-test-visit ,emacs "a.txt")
         (gemini-companion-test-wait-announced ,emacs (gemini-companion-test-project ,emacs))
         (gemini-companion-terminal-e2e--press-at-once ,emacs)
         (let ((,terminal (gemini-companion-test-monkey-terminal-start ,emacs)))
           (unwind-protect (progn ,@body)
             (gemini-companion-test-monkey-terminal-stop ,terminal)))))))

(ert-deftest gemini-companion-in-the-terminal/a-new-question-ends-what-was-given-up ()
  "A prompt can follow ^C so soon that Emacs has not cancelled the change yet."
  (gemini-companion-terminal-e2e--with-stand-in (emacs terminal)
    (gemini-companion-test-monkey-terminal-submit terminal "write a.txt")
    (gemini-companion-test-wait-screen emacs "a\\.txt .*C-c C-c a accepts")
    (gemini-companion-test-wait-eval
     emacs '(> (float-time (time-since (gemini-companion-review-created
                                        (gemini-companion-review-shown))))
               gemini-companion-cli-watch--free-time))
    (gemini-companion-test-press emacs "C-c C-c" "queued behind it")
    (gemini-companion-test-keys emacs "c")
    (gemini-companion-test-wait-eval
     emacs '(buffer-local-value 'gemini-companion-cli-watch--seen (window-buffer)))
    (gemini-companion-test-monkey-terminal-submit terminal "write b.txt")
    (gemini-companion-test-wait-screen emacs "b\\.txt .*C-c C-c a accepts")
    (should (equal (gemini-companion-terminal-e2e--outcomes emacs) '(("a.txt" . cancelled))))
    (gemini-companion-test-press emacs "C-c C-c" "b\\.txt (^C cancels it")
    (gemini-companion-test-keys emacs "a")
    (gemini-companion-test-wait-no-review emacs)))

(ert-deftest gemini-companion-in-the-terminal/c-c-c-c-is-about-the-change-on-screen ()
  "Even if it is one of another client, as the header line names these keys."
  (gemini-companion-terminal-e2e--with-stand-in (emacs terminal)
    (let ((client (fake-cli-connect (gemini-companion-test-tmpdir emacs)
                                    (gemini-companion-test-project emacs)))
          (file (gemini-companion-test-project emacs "b.txt")))
      (fake-cli-call-tool client "openDiff" `(:filePath ,file :newContent "two\n"))
      (gemini-companion-test-wait-screen emacs "b\\.txt .*C-c C-c a accepts")
      (gemini-companion-test-monkey-terminal-submit terminal "write a.txt")
      (gemini-companion-test-wait-eval emacs '(= 2 (gemini-companion-review-count)))
      (gemini-companion-test-keys emacs "C-c" "C-c")
      (gemini-companion-test-wait-screen
       emacs "b\\.txt (^C cancels what Gemini CLI does in \\*gemini: project\\*)")
      (gemini-companion-test-keys emacs "a")
      (fake-cli-wait-notification client "ide/diffAccepted")
      (gemini-companion-test-wait-screen emacs "a\\.txt .*C-c C-c a accepts")
      (gemini-companion-test-press emacs "C-c C-c" "a\\.txt (^C cancels it, and what is queued")
      (gemini-companion-test-keys emacs "a")
      (gemini-companion-test-wait-no-review emacs)
      (gemini-companion-test-monkey-terminal-read terminal)
      (should-not (gemini-companion-test-monkey-terminal--find terminal "key"))
      (fake-cli-disconnect client))))

(ert-deftest gemini-companion-in-the-terminal/what-was-meant-for-the-prompt-answers-nothing ()
  "A question may appear while the user types."
  (gemini-companion-terminal-e2e--with-stand-in (emacs terminal)
    (gemini-companion-test-eval emacs '(setq gemini-companion-ui-reaction-time 1000))
    (gemini-companion-test-press emacs "x" "> x")
    (gemini-companion-test-monkey-terminal-submit terminal "write a.txt")
    (gemini-companion-test-wait-screen emacs "a\\.txt .*C-c C-c a accepts")
    (gemini-companion-test-wait-screen emacs "1\\. Allow once")
    (gemini-companion-test-press emacs "Enter" "This question has just appeared: pause")
    ;; Keys of Emacs still work.
    (gemini-companion-test-press emacs "C-c C-c" "a\\.txt (^C cancels it")
    (gemini-companion-test-press emacs "q" "Nothing was sent")
    ;; But not what would accept a change that the user cannot have read.
    (gemini-companion-test-press emacs "C-c C-c" "a\\.txt (^C cancels it")
    (gemini-companion-test-press emacs "a" "a\\.txt has just appeared: check it, then decide")
    (gemini-companion-test-eval emacs '(setq gemini-companion-ui-reaction-time 0))
    (gemini-companion-test-keys emacs "Enter")
    (gemini-companion-test-wait-no-review emacs)
    (gemini-companion-test-wait-screen emacs "a\\.txt: accepted in Gemini CLI")))

(ert-deftest gemini-companion-in-the-terminal/the-list-of-clis-stays-at-its-line ()
  "Also if it is updated while the user types a prompt for a CLI in it."
  (gemini-companion-terminal-e2e--with-stand-in (emacs terminal)
    (ignore terminal)
    (gemini-companion-test-wait-eval emacs '(and (gemini-companion-cli-all) t))
    (gemini-companion-test-run emacs '(progn (gemini-companion-cli-list) nil))
    (gemini-companion-test-wait-screen emacs "^project +Gemini CLI ")
    (gemini-companion-test-press emacs "s" '(active-minibuffer-window))
    (gemini-companion-test-eval emacs '(with-current-buffer "*gemini CLIs*"
                                         (gemini-companion-review-list-print)))
    (gemini-companion-test-quit emacs)
    (should (gemini-companion-test-eval emacs '(and (tabulated-list-get-id) t)))
    (gemini-companion-test-eval emacs '(kill-buffer))))

(defun gemini-companion-terminal-e2e--propose-outside (cli file)
  "Let the model of CLI propose a text for FILE, and wait until CLI asks."
  (gemini-companion-test-cli-script cli `("write_file" :file_path ,file :content "two\n"))
  (gemini-companion-test-cli-submit cli "please write" "Apply this change"))

(defun gemini-companion-terminal-e2e--interrupt (cli)
  "Press ^C in CLI, and wait until it does not ask any more."
  (gemini-companion-test-cli-keys cli "C-c")
  (gemini-companion-test-wait
   "the CLI to give up"
   (lambda ()
     (not (string-search "Apply this change" (gemini-companion-test-cli-screen cli))))))

(ert-deftest gemini-companion-in-another-terminal/nobody-accepts-twice ()
  "A change that the CLI gave up, was accepted, and is proposed again, is written."
  (gemini-companion-test-with-emacs-and-cli (emacs cli '(("a.txt" . "one\n")))
    (let ((file (gemini-companion-test-project emacs "a.txt")))
      (gemini-companion-terminal-e2e--propose-outside cli file)
      (gemini-companion-test-wait-review emacs "two\n")
      (gemini-companion-terminal-e2e--interrupt cli)
      (gemini-companion-terminal-e2e--propose-outside cli file)
      (gemini-companion-test-accept emacs)
      (gemini-companion-test-wait
       "the file" (lambda () (equal "two\n" (gemini-companion-test-read file))))
      (gemini-companion-test-wait-no-review emacs)
      (gemini-companion-test-cli-wait-screen cli "Type your message")
      (should (equal (gemini-companion-terminal-e2e--outcomes emacs)
                     '(("a.txt" . cancelled) ("a.txt" . accepted)))))))

(ert-deftest gemini-companion-in-another-terminal/what-is-not-written-is-not-accepted ()
  "The history says so if the CLI does not propose it again."
  (gemini-companion-test-with-emacs-and-cli (emacs cli '(("a.txt" . "one\n")))
    (gemini-companion-terminal-e2e--propose-outside cli (gemini-companion-test-project emacs "a.txt"))
    (gemini-companion-test-wait-review emacs "two\n")
    (gemini-companion-terminal-e2e--interrupt cli)
    (gemini-companion-test-accept emacs)
    (gemini-companion-test-wait-screen emacs "has not written the change to a\\.txt")
    (should (equal (gemini-companion-terminal-e2e--outcomes emacs) '(("a.txt" . unwritten))))
    (gemini-companion-test-m-x emacs "gemini-companion-history-list" "not written")
    (gemini-companion-test-wait-screen emacs "w write")
    (should-not (string-match-p "u undo" (gemini-companion-test-screen emacs)))))

;;; terminal-test.el ends here

;;; gemini-companion-cli-screen-test.el --- Tests of screens  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-screen)
(require 'gemini-companion-test-screen)
(require 'gemini-companion-test-util)

(defmacro gemini-companion-cli-screen-test--on (screen &rest body)
  "Evaluate BODY in a buffer that shows SCREEN."
  (declare (indent 1) (debug t))
  `(with-temp-buffer
     (insert ,screen)
     ,@body))

(ert-deftest gemini-companion-cli-screen/a-very-long-question-begins-somewhere ()
  (let ((line "│ │  2 + y                        │   │\n"))
    (dolist (count '(0 1000))
      (gemini-companion-cli-screen-test--on
          (replace-regexp-in-string
           "^│ ╰" (concat (apply #'concat (make-list count line)) "│ ╰")
           gemini-companion-test-screen-question t t)
        (should (gemini-companion-cli-screen-question-p))
        (save-excursion
          (goto-char (point-max))
          (let ((end (point)))
            ;; With Gemini CLI's setting collapseDrawerDuringApproval off.
            (insert "Press Ctrl+O to show more lines of the last response"
                    gemini-companion-test-screen-prompt)
            (should (gemini-companion-cli-screen-question-p))
            (delete-region end (point))))
        (let ((start (car (gemini-companion-cli-screen-question-bounds))))
          (should (< (point-min) start (point-max)))
          (should (eq (zerop count) (eql start (save-excursion
                                                 (goto-char (point-min))
                                                 (re-search-forward "^╭")
                                                 (match-beginning 0))))))))))

(ert-deftest gemini-companion-cli-screen/the-last-question-says-which-changes-follow ()
  (let ((one (replace-regexp-in-string "  1 of 4 │" "         │"
                                       gemini-companion-test-screen-question)))
    (gemini-companion-cli-screen-test--on gemini-companion-test-screen-question
      (should (gemini-companion-cli-screen-question-p))
      (should (equal (gemini-companion-cli-screen-queued-files) '("src/b.txt" "c.txt"))))
    ;; What an earlier one says does not count.
    (gemini-companion-cli-screen-test--on (concat gemini-companion-test-screen-question one)
      (should (gemini-companion-cli-screen-question-p))
      (should-not (gemini-companion-cli-screen-queued-files)))))

(ert-deftest gemini-companion-cli-screen/in-eat-wide-names-have-no-spaces ()
  "Otherwise to accept all changes of a turn accepted only the first one."
  (gemini-companion-cli-screen-test--on
      (replace-regexp-in-string "[a-c]\\.txt" "文書.md" gemini-companion-test-screen-question t)
    (gemini-companion-test-widen-as-eat)
    (should (equal (gemini-companion-cli-screen-question-title)
                   "WriteFile  Writing to 文書.md  1 of 4"))
    (should (equal (gemini-companion-cli-screen-queued-files) '("src/文書.md" "文書.md")))))

(ert-deftest gemini-companion-cli-screen/all-kinds-of-questions-are-seen-above-a-prompt ()
  "They are there with Gemini CLI's setting collapseDrawerDuringApproval off."
  (pcase-dolist (`(,title . ,asks) '(("Answer Questions       " . t) ("Action Required        " . t)
                                     ("Ready to start implementation?" . t)
                                     ("✓  Shell Command cat a " . nil)))
    (gemini-companion-cli-screen-test--on
        (concat "╭────────────────────────────────╮\n│ " title "│\n│ ● 1. Red │\n"
                "╰────────────────────────────────╯\n" gemini-companion-test-screen-prompt)
      (should (eq (gemini-companion-cli-screen-question-p) asks))))
  (gemini-companion-cli-screen-test--on
      (concat gemini-companion-test-screen-text-question gemini-companion-test-screen-prompt)
    (should (eq (gemini-companion-cli-screen-question-p) 'text))))

(ert-deftest gemini-companion-cli-screen/a-shell-may-have-the-focus-above-a-prompt ()
  "The CLI then has no spinner, but works."
  (pcase-dolist
      (`(,above . ,focused)
       `((,gemini-companion-test-screen-shell . t)
         ;; Qwen Code.
         (,(string-replace "Shift+Tab to unfocus" "Focused" gemini-companion-test-screen-shell) . t)
         (,(string-replace "(Shift+Tab to unfocus)" "(Focused) 7s" gemini-companion-test-screen-shell)
          . t)
         (,(string-replace "(Shift+Tab to unfocus)" "(Focused) (7s · timeout 2m)"
                           gemini-companion-test-screen-shell)
          . t)
         ;; In tmux.
         ("╰────╯\n  > go\n  .. Shell echo Who?; read x     (Focused) 3s\n    Who?\n" . t)
         ;; With Gemini CLI's setting useAlternateBuffer.
         (,(concat (string-replace "│\n" "│  \n" gemini-companion-test-screen-shell)
                   (make-string 100 ?\n))
          . t)
         (,gemini-companion-test-screen-background-shell . background)
         ("╰────╯\n  > go\n  ⊷ Shell echo Who?; read x     (Focused) 3s\n     very long\n    Who?\n" . t)
         ;; It says so late, if at all; without the focus, there is a spinner below it.
         ("╰────╯\n  > go\n  ⊷ Shell echo Who?; read x     (ctrl+f to focus)\n    (Focused)\n" . t)
         ("╰────╯\n  > go\n  ⊷ Shell read x 5s\n\n" . t)
         ("╰────╯\n  ⊶  WriteFile  Writing to big.py\n" . nil)
         ("╰────╯\n  > go\n  ✓ Shell read x 5s\n\n" . nil)
         ("  └────┘\n  ⊶ Shell echo Who?; read x     (Focused)\n    Who?\n" . t)
         ("╰────╯\n  ⊷ Shell echo Who?; read x     (Focused)\n    Who?\n\n  ◆ Done.\n" . nil)
         (,(string-replace "unfocus" "focus" gemini-companion-test-screen-shell) . nil)
         ;; A table of the model's.
         (,(concat gemini-companion-test-screen-shell
                   "┌───┐\n│ a │\n├───┤\n│ 1 (PID: 1) │\n└───┘\n")
          . nil)))
    (gemini-companion-cli-screen-test--on (concat above gemini-companion-test-screen-prompt)
      (should (eq (gemini-companion-cli-screen-shell-focused) focused))
      (should (equal (gemini-companion-cli-screen-prompt)
                     (if (eq focused t) 'works ">Typeyourmessageor@path/to/file")))))
  ;; Qwen Code, here and in tmux, without the focus.
  (dolist (spins '("⊷ Shell read x     (ctrl+f to focus)\n\n  ⠋ Counting... (5s · esc to cancel)\n"
                   ".. Shell read x 5s\n\n  .  Counting... (5s · esc to cancel)\n"))
    (gemini-companion-cli-screen-test--on
        (concat "╰────╯\n  > go\n  " spins gemini-companion-test-screen-prompt)
      (should-not (gemini-companion-cli-screen-shell-focused))
      (should (eq (gemini-companion-cli-screen-prompt) 'works)))))

(ert-deftest gemini-companion-cli-screen/qwen-code-writes-a-name-above-its-prompt ()
  "That of the session; and Emacs said that the CLI took no prompt."
  (dolist (above '("──────────────── my work ──" "─ a long name of a session ──"))
    (pcase-dolist (`(,spinner ,typed ,prompt)
                   '(("" "> hello" ">hello") ("" "! ls" "!ls")
                     ;; Its hint to cancel is in the user's language.
                     ("  ⠙ 正在热身 (2s · 按 esc 取消)\n" "> " works)))
      (gemini-companion-cli-screen-test--on
          (concat "  ◆ Done.\n\n" spinner above "\n" typed "\n" (make-string 27 ?─) "\n  project\n")
        (should (equal (gemini-companion-cli-screen-prompt) prompt))
        (should (eq (gemini-companion-cli-screen-shell-p) (equal typed "! ls")))))))

(ert-deftest gemini-companion-cli-screen/much-may-be-between-the-spinner-and-the-prompt ()
  "But no prompt or question: the spinner above that remains of another screen."
  (let ((line (make-string 80 ?─))
        (console (concat "\n╭────────────────────────────╮\n│ Debug Console (F12 to close)│\n"
                         (mapconcat #'identity (make-list 17 "│ ℹ a message                │\n") "")
                         "╰────────────────────────────╯"))
        (completions (concat " ▲\n" (mapconcat (lambda (n) (format " file-%d.txt\n" n))
                                               (number-sequence 2 9) "")
                             " ▼\n (3/40)")))
    (pcase-dolist (`(,between . ,works)
                   `((,console . t) (,completions . t)
                     (,(concat line "\n >   Type your message or @path/to/file\n" line
                               "\n workspace\n /src/project\n\n" completions)
                      . nil)
                     ;; In a low terminal, only the upper part of a question remains.
                     (,(concat "╭──────────────────────╮\n│ ? WriteFile  Writing to a.txt │\n"
                               "│ Apply this change?   │\n│                      │\n"
                               "│ ● 1. Allow once      │\n│   2. Allow for this session │\n"
                               "  -  WriteFile  a.txt → Rejected\n\n\n\n")
                      . nil)))
      (gemini-companion-cli-screen-test--on
          (concat "✦ I see.\n\n ⠧ Thinking... (esc to cancel, 12s)\n" line
                  "\n Shift+Tab to accept edits\n" between gemini-companion-test-screen-prompt)
        (ert-info (between)
          (should (equal (gemini-companion-cli-screen-prompt)
                         (if works 'works ">Typeyourmessageor@path/to/file"))))))))

(ert-deftest gemini-companion-cli-screen/in-voice-mode-a-microphone-precedes-the-prompt ()
  "While Gemini CLI listens, bars move there, of which the first may be blank."
  (pcase-dolist (`(,above ,below)
                 (mapcar (lambda (chars) (mapcar (lambda (char) (make-string 30 char)) chars))
                         '("──" "▄▀" "  ")))
    (dolist (voice '("" "🎤 " "🎤" "▂▄█ " "▄▄▄ " " ▂▄ "))
      (dolist (sign '(">" "*" "!"))
        (gemini-companion-cli-screen-test--on
            (concat "✦ Done.\n\n" above "\n " voice sign "   Type your message or hold space\n"
                    "     to talk (Esc to exit)\n" below "\n workspace\n")
          (ert-info ((buffer-string))
            (should (equal (gemini-companion-cli-screen-prompt)
                           (concat sign "Typeyourmessageorholdspacetotalk(Esctoexit)")))
            (should (eq (gemini-companion-cli-screen-shell-p) (equal sign "!")))))))))

(ert-deftest gemini-companion-cli-screen/a-shell-that-waits-is-at-work ()
  "Gemini CLI says so in place of its spinner."
  (gemini-companion-cli-screen-test--on
      (concat "╰────╯\n\n ! Shell awaiting input (Tab to focus)" gemini-companion-test-screen-prompt)
    (should (eq (gemini-companion-cli-screen-prompt) 'works))
    (should-not (gemini-companion-cli-screen-shell-p))))

(ert-deftest gemini-companion-cli-screen/a-question-for-a-key-is-one-for-a-text ()
  "When Gemini CLI first starts, it would keep a prompt as the key of its API."
  (gemini-companion-cli-screen-test--on
      "╭───────────────────────────────╮\n│                               │\n│ Enter Gemini API Key          │
│                               │\n│ ╭───────────────────────────╮ │\n│ │ Paste your API key here   │ │
│ ╰───────────────────────────╯ │\n│                               │\n╰───────────────────────────────╯\n"
    (should (eq (gemini-companion-cli-screen-question-p) 'text))))

(ert-deftest gemini-companion-cli-screen/a-question-for-a-text-may-show-choices-of-the-model ()
  (pcase-dolist (`(,from . ,to) '(("│ What name? " . "│ ● 1. Name? ")
                                  ;; The first line of the user's answers.
                                  ("│ > Enter your response " . "│ ● 1. Size → large      ")))
    (gemini-companion-cli-screen-test--on
        (string-replace from to gemini-companion-test-screen-text-question)
      (should (eq (gemini-companion-cli-screen-question-p) 'text)))))

(ert-deftest gemini-companion-cli-screen/a-command-cannot-show-the-beginning-of-a-question ()
  (dolist (line '("╭────────────────────╮… │" "? Edit a.py ←" "Approval requested by me:"))
    ;; A terminal may need two lines for characters that the CLI takes for narrow.
    (gemini-companion-cli-screen-test--on
        (concat "╭────────────────────╮\n│ ? Shell echo 👨👩👧👨👩\\\n" line "\n"
                "│ ● 1. Allow once     │\n╰────────────────────╯\n")
      (should (eql (car (gemini-companion-cli-screen-question-bounds)) (point-min))))
    ;; Qwen Code.
    (gemini-companion-cli-screen-test--on
        (concat "  ? Shell touch made ←\n\n     touch made\n     " line "\n
   Allow execution of: 'touch'?\n\n   › 1. Yes, allow once\n     2. No (esc)\n
  ⠏ Waiting...\n")
      (should (eql (car (gemini-companion-cli-screen-question-bounds)) (point-min))))))

(ert-deftest gemini-companion-cli-screen/a-long-title-hides-no-changes-that-follow ()
  "Gemini CLI gives it all the room but that of the numbers behind it, or less."
  (dolist (numbers '(" …1 of 4 │" " …1 of 4│" " … 1 of  │\n│           4     │"
                     " … 1 of  │█\n│           4     │█" " …1   │\n│    of    │\n│    4     │"))
    (gemini-companion-cli-screen-test--on
        (string-replace "  1 of 4 │" numbers gemini-companion-test-screen-question)
      (should (gemini-companion-cli-screen-question-p))
      (should (equal (gemini-companion-cli-screen-queued-files) '("src/b.txt" "c.txt"))))))

(ert-deftest gemini-companion-cli-screen/changes-that-follow-may-be-in-a-box ()
  "They are with Gemini CLI's setting compactToolOutput off."
  (let ((blank (concat "│" (make-string 36 ?\s) "│\n")))
    (pcase-dolist (`(,top . ,names)
                   '(("╭─o──WriteFile Writing to src/b.txt──╮\n" "src/b.txt" "c.txt")
                     ("╭─o──Shell touch x───────────────────╮\n" "c.txt")
                     ("│ ✓  Edit z.txt: 1 => 2              │\n│ 1 - o  Edit y.txt:                 │\n"
                      "c.txt")))
      (gemini-companion-cli-screen-test--on
          (concat "╭────╮\n│ o  Edit x.txt: 1 => 2              │\n> please write\n"
                  top blank blank "│ o  Edit c.txt: one: 1 => two       │\n" blank
                  "╰" (make-string 36 ?─) "╯\n"
                  (substring gemini-companion-test-screen-question
                             (string-search "╭" gemini-companion-test-screen-question)))
        (should (equal (gemini-companion-cli-screen-queued-files) names))))))

(ert-deftest gemini-companion-cli-screen/qwen-code-shows-changes-that-follow-below-the-choices ()
  (gemini-companion-cli-screen-test--on
      "╭─────────╮\n│ A hint. │\n╰─────────╯\n\n  > please write\n  ? Edit a.py: x => y ←\n
   1 - x\n   1 + ? Edit x.py\n\n   Apply this change?\n\n   › 1. Yes, allow once
     2. Yes, allow always\n     3. No, suggest changes (esc)\n
  ? Edit src/b.py\n  ? Shell touch x\n  ? WriteFile Writing to my c.txt\n
  ? Edit d.py: x => y\n  ? Edit Create new.py\n\n  ⠏ Waiting for user confirmation...\n"
    (should (equal (gemini-companion-cli-screen-queued-files) '("src/b.py" "my c.txt" "d.py" "new.py")))))

(ert-deftest gemini-companion-cli-screen/a-question-is-seen-above-the-rest-of-a-prompt ()
  "Gemini CLI leaves it there after a question that filled the screen."
  (let ((line (make-string 34 ?─)))
    (dolist (between '("   \n"
                       ;; As Gemini CLI 0.35 does.
                       " Press Ctrl+O to show more lines\n\n\n"))
      (gemini-companion-cli-screen-test--on
          (concat gemini-companion-test-screen-question between line
                  "\n Shift+Tab to accept edits\n workspace (/directory)     /model\n"
                  " ~/project        gemini-2.5-flash\n")
        (should (gemini-companion-cli-screen-question-p))
        (should (equal (gemini-companion-cli-screen-queued-files) '("src/b.txt" "c.txt")))))
    ;; A whole prompt takes a text.
    (gemini-companion-cli-screen-test--on
        (concat gemini-companion-test-screen-question "\n✦ I see.\n" line "\n(r:) x\n" line "\n")
      (should-not (gemini-companion-cli-screen-question-p)))))

(ert-deftest gemini-companion-cli-screen/a-question-is-seen-above-a-footer-far-below ()
  "Gemini CLI leaves it there after an answer that did not fit on the screen.
There are the more blank lines the more tools it calls."
  (dolist (blank '(1 6 60))
    (dolist (border '("───────────────────────────────" "                               "
                      "▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀"))
      (gemini-companion-cli-screen-test--on
          (concat gemini-companion-test-screen-question
                  (apply #'concat (make-list blank "    \n")) border
                  "\n workspace (/directory)     /model\n ~/project        gemini-2.5-flash\n")
        (should (eq t (gemini-companion-cli-screen-question-p)))
        ;; Not above a prompt.
        (insert gemini-companion-test-screen-prompt)
        (should-not (gemini-companion-cli-screen-question-p))))))

(ert-deftest gemini-companion-cli-screen/the-title-of-a-question-is-found-in-any-line ()
  (pcase-dolist (`(,line . ,title)
                 (let ((blanks (make-string 20000 ?\s)))
                   `(("│ ? WriteFile  Writing to a.txt  1 of 2 │" . "WriteFile  Writing to a.txt  1 of 2")
                     ;; A regexp would need minutes for such a line.
                     (,(concat "│ ? x" blanks "y") . ,(concat "x" blanks "y"))
                     ("│ no question │" . nil))))
    (gemini-companion-cli-screen-test--on (concat "╭────╮\n" line "\n╰────╯\n")
      (should (equal (gemini-companion-cli-screen-question-title) title)))))

(ert-deftest gemini-companion-cli-screen/a-scroll-bar-is-not-a-part-of-a-name ()
  "Gemini CLI shows one with its setting useAlternateBuffer."
  (gemini-companion-cli-screen-test--on
      (replace-regexp-in-string "$" "█" gemini-companion-test-screen-question)
    (should (gemini-companion-cli-screen-question-p))
    (should-not (string-search "█" (gemini-companion-cli-screen-question-title)))
    (should (equal (gemini-companion-cli-screen-queued-files) '("src/b.txt" "c.txt")))))

(ert-deftest gemini-companion-cli-screen/a-question-of-qwen-code-needs-no-box ()
  (gemini-companion-cli-screen-test--on
      "╭─────────╮\n│ A hint. │\n╰─────────╯\n\n  > please touch\n  ? Shell touch made ←\n
   Allow execution of: 'touch'?\n\n   › 1. Yes, allow once\n     2. No (esc)\n
  ? Shell touch another\n  ? WriteFile Writing to b.txt\n\n  ⠏ Waiting...\n"
    (should (gemini-companion-cli-screen-question-p))
    (should (equal (gemini-companion-cli-screen-question-title) "Shell touch made"))
    (goto-char (car (gemini-companion-cli-screen-question-bounds)))
    (should (looking-at "  \\? Shell"))
    (should-not (gemini-companion-cli-screen-queued-files)))
  ;; The user may check several choices.
  (gemini-companion-cli-screen-test--on
      "  ? Ask Which ones? ←\n\n   › [ ] 1. One\n     [x] 2. Two\n\n  ⠏ Waiting...\n"
    (should (eq t (gemini-companion-cli-screen-question-p))))
  ;; An agent asks; the screen is full of what is above that.
  (gemini-companion-cli-screen-test--on
      (concat "╭─────────╮\n│ A hint. │\n╰─────────╯\n" (make-string 100 ?\n)
              "  > look\n  ⊷ Agent look around   4s\n     Approval requested by general-purpose:\n"
              "       touch made\n     Do you want to proceed?\n     › 1. Yes, allow once\n"
              "       2. Allow always\n       3. No\n\n  ⠏ Waiting...\n\n    main\n"
              "    ○ look around (Shell touch made) ▶ 4s · 1 tokens\n")
    (should (gemini-companion-cli-screen-question-p))
    (goto-char (car (gemini-companion-cli-screen-question-bounds)))
    (should (looking-at "     Approval requested")))
  ;; For a screen reader.
  (gemini-companion-cli-screen-test--on
      (concat "User:  look\n" (make-string 100 ?\n) "Confirming: Shell touch made  ←\ntouch made\n"
              "Allow execution of: 'touch'?\n(checked) 1. Yes, allow once\n"
              "2. No, suggest changes (esc)\nloading Waiting for user confirmation...\n")
    (should (equal (gemini-companion-cli-screen-question-title) "Shell touch made"))
    (goto-char (car (gemini-companion-cli-screen-question-bounds)))
    (should (looking-at "Confirming"))))

(ert-deftest gemini-companion-cli-screen/the-prompt-is-found-whatever-is-around-it ()
  "In 256 colors, that is lines of its background color only."
  (let ((pad (make-string 30 ?\s))
        (line (make-string 30 ?─)))
    (pcase-dolist (`(,before . ,after)
                   `((,line . ,line)
                     (,(make-string 30 ?▄) . ,(make-string 30 ?▀))
                     (,pad . ,pad)))
      (dolist (below '("" "    \n    \n" " workspace (/directory)\n /src/project\n"))
        (gemini-companion-cli-screen-test--on
            (concat line "\n  1 open file\n" before "\n > one\n" pad "\n   two   \n"
                    after "\n" below)
          (should (equal (gemini-companion-cli-screen-prompt) ">onetwo")))
        (dolist (line '(" ⠧ Thinking... (esc to cancel, 1s)" " ⠧ Executing Hooks: one with a long na"))
          (gemini-companion-cli-screen-test--on
              (concat line "\n" before "\n >   Type your message\n" after "\n" below)
            (should (eq (gemini-companion-cli-screen-prompt) 'works))))))
    (gemini-companion-cli-screen-test--on (concat pad "\n" pad "\n✦ Done.\n" pad "\n")
      (should-not (gemini-companion-cli-screen-prompt)))))

(ert-deftest gemini-companion-cli-screen/the-prompt-is-found-with-a-screen-reader ()
  "There is nothing around it, and words are in place of most signs."
  (pcase-dolist (`(,prompt . ,expected) `((">    Type your message" . ">Typeyourmessage")
                                          (">  one\ntwo  \n   \n" . ">onetwo")
                                          ;; Of Qwen Code, or after a question.
                                          (,(concat (make-string 80 ?─) "\n>  one" (make-string 20 ?\n))
                                           . ">one")
                                          ("Accepting edits one" . ">one")
                                          ("Plan mode one" . ">one")
                                          ("YOLO mode one" . ">one")
                                          ("Shell mode ls" . "!ls")
                                          ;; With -p there is none.
                                          ("YOLO mode is enabled. All tool calls will be approved.\nDone")
                                          ;; These are a dialog, and a model's text above one.
                                          ("> Settings\nSearch to filter\n● Vim Mode\n")
                                          (">  one\n╭───╮\n│ x │\n╰───╯\n")
                                          ;; This is far above, as in a file that an editor shows.
                                          (,(concat ">  one" (string-replace "x" "\nx" "xxxxxxxxxxxxx")))))
    (dolist (above '("" "Executing Hook: emacs\n" "responding Thinking... (esc to cancel, 3s)\n"))
      (gemini-companion-cli-screen-test--on
          (concat "Model:  Done.\n> a quote\n/src/project sandbox\ngemini-2.5-flash\n" above
                  "Shift+Tab to accept edits\n1 open file (F4 to view)\n" prompt)
        (should (equal (gemini-companion-cli-screen-prompt)
                       (if (or (null expected) (equal above "")) expected 'works)))
        (should (eq (and (gemini-companion-cli-screen-shell-p) t) (equal expected "!ls")))
        (should-not (gemini-companion-cli-screen-newline-p)))))
  (gemini-companion-cli-screen-test--on
      "gemini-2.5-flash\no WriteFile  Writing to my b.py\n? WriteFile   Writing to a.py 1 of 2
add: >  x\nApply this change?\n(checked) 1. Allow once\n2. No, suggest changes (esc)"
    (should (eq (gemini-companion-cli-screen-question-p) t))
    (should (equal (gemini-companion-cli-screen-queued-files) '("my b.py")))))

(defun gemini-companion-cli-screen-test--llxprt (&rest lines)
  "Return the screen of LLxprt Code 0.11 with LINES in the box of its prompt."
  (let ((border (make-string 40 ?─)))
    (concat "╭───────────╮\n│  > do it  │\n╰───────────╯\n\n Done.\n\n%s 1 open file | 0 skill\n"
            "╭" border "╮\n"
            (mapconcat (lambda (line) (format "│ %-38s │\n" line)) lines "")
            "╰" border "╯\n              Context: 0.0k/1049k\n/src/project  [no sandbox]\n")))

(ert-deftest gemini-companion-cli-screen/the-prompt-of-llxprt-code-is-in-a-box ()
  "If that is not seen, a shell runs what is sent to it in shell mode."
  (pcase-dolist (`(,prompt . ,lines) '((">hello" "> hello") (">onetwo│three" "> one" "  two │ three")
                                       ("!ls" "! ls") (">\n" "> " "  ")))
    (gemini-companion-cli-screen-test--on
        (format (apply #'gemini-companion-cli-screen-test--llxprt lines) "")
      (should (equal (gemini-companion-cli-screen-prompt) prompt))
      (should (eq (gemini-companion-cli-screen-shell-p) (equal prompt "!ls")))
      (should (eq (not (gemini-companion-cli-screen-newline-p)) (not (equal prompt ">\n"))))
      (should-not (gemini-companion-cli-screen-question-p))))
  (gemini-companion-cli-screen-test--on
      (format (gemini-companion-cli-screen-test--llxprt ">   Type your message")
              "⠸ I conform to my own taste. (esc to cancel, 2s)\n\n")
    (should (eq (gemini-companion-cli-screen-prompt) 'works))))

(ert-deftest gemini-companion-cli-screen/llxprt-code-may-hide-all-choices-but-the-last ()
  "In a low window, as the one at the bottom.  What was sent then answered yes."
  (gemini-companion-cli-screen-test--on
      (concat " │╭──────────────────────────────────────\n"
              " ││ ?  Shell touch ran [current working directory ←\n"
              " ││    /src/project]\n"
              " ││──────────────────────────────────────\n"
              " │  3. No, suggest changes (esc)         │\n"
              " │                                       │\n"
              " ╰────────────────────────────────────────\n"
              "Press ctrl-s to show more lines         █\n\n"
              "⠏ Waiting for user confirmation...\n\n 1 open file | 0 skill\n"
              "              Context: 0.0k/1049k\n/src/project  [no sandbox]\n")
    (should (eq t (gemini-companion-cli-screen-question-p)))
    (should-not (gemini-companion-cli-screen-prompt))))

(provide 'gemini-companion-cli-screen-test)
;;; gemini-companion-cli-screen-test.el ends here

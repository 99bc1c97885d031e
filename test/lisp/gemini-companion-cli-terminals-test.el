;;; gemini-companion-cli-terminals-test.el --- Tests of terminal emulators  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; To choose an emulator, a fake Eat is installed from a package archive in a directory; each of
;; these tests gives the user's answer, and an unexpected question fails it.  The others run scripts
;; in place of the CLI; test/e2e/run-test.el tests real emulators.

;;; Code:

(require 'ert)
(require 'package)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-cli-send)
(require 'gemini-companion-test-companion)

(declare-function vterm-reset-cursor-point "ext:vterm-module" ())
(defvar vterm-timer-delay)

;;;; Choosing one

(defmacro gemini-companion-cli-terminals-test--with (answer &rest body)
  "Evaluate BODY in an Emacs without packages, answering questions with ANSWER.
It is `yes', `no' or, if nothing may be asked, nil.  The init file is the
file custom.el of a new project.  The only package archive, NonGNU ELPA, was
not fetched yet."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-project
     (let* ((gemini-companion-terminal 'auto)
            (gemini-companion-cli-terminals--offered nil)
            (custom-file (gemini-companion-test-file "custom.el" ";; mine\n"))
            (user-init-file custom-file)
            (package-user-dir (gemini-companion-test-file "elpa"))
            (package-archives (list (cons "nongnu" (gemini-companion-test-file "archive/"))))
            (package-archive-contents nil)
            (package-alist nil)
            (package--initialized nil)
            (package-activated-list nil)
            (package-selected-packages nil)
            (package-check-signature nil)
            (package-enable-at-startup t)
            (text-quoting-style 'grave)
            ;; Otherwise package.el handles no errors.
            (debug-on-error nil)
            (load-path (seq-remove (lambda (directory)
                                     (string-match-p "/elpa-src\\|/elpa/" directory))
                                   load-path))
            (saved (mapcar (lambda (option) (cons option (get option 'saved-value)))
                           '(gemini-companion-terminal package-selected-packages)))
            ;; Another test may have loaded it.
            (loaded (memq 'vterm features)))
       (unwind-protect
           (progn
             (setq features (remq 'vterm features))
             (gemini-companion-test-with-answer ,answer ,@body))
         (setq features (append (and loaded '(vterm)) (remq 'eat features)))
         (pcase-dolist (`(,option . ,value) saved)
           (put option 'saved-value value))))))

(defun gemini-companion-cli-terminals-test--archive (text)
  "Put an Eat with TEXT into the package archive."
  (gemini-companion-test-file "archive/eat-1.0.el" (concat ";;; eat.el --- Not Eat  -*- lexical-binding: t; -*-
;; Version: 1.0
;;; Code:
" text "
(provide 'eat)
;;; eat.el ends here
"))
  (gemini-companion-test-file "archive/archive-contents"
                              "(1 (eat . [(1 0) nil \"Not Eat\" single nil]))"))

(defun gemini-companion-cli-terminals-test--offer ()
  "Offer a better terminal emulator as if a CLI was run; return the answer."
  (let ((noninteractive nil))
    (gemini-companion-cli-terminals-offer)
    (eq gemini-companion-cli-terminals--offered 'agreed)))

(ert-deftest gemini-companion-cli-terminals/a-yes-installs-and-uses-eat ()
  "Only package.el saves something, as the best emulator is the default."
  (gemini-companion-cli-terminals-test--with 'yes
    (gemini-companion-cli-terminals-test--archive "(defvar gemini-companion-cli-terminals-test--eat t)")
    (should (gemini-companion-cli-terminals-test--offer))
    (should (equal gemini-companion-test-questions
                   '("Term shows few colors: download and install the terminal Eat? ")))
    (should-not (file-exists-p package-user-dir))
    (should (eq (gemini-companion-cli-terminals-choose) 'eat))
    (should (eq gemini-companion-terminal 'auto))
    (should (equal package-selected-packages '(eat)))
    (should-not (string-search "gemini" (gemini-companion-test-read custom-file)))
    (should-not (gemini-companion-cli-terminals-test--offer))
    (should (= (length gemini-companion-test-questions) 1))))

(ert-deftest gemini-companion-cli-terminals/after-a-no-term-is-used-until-there-is-a-better-one ()
  "Nobody is asked again, and the init file is left alone."
  (gemini-companion-cli-terminals-test--with 'no
    (should-not (gemini-companion-cli-terminals-test--offer))
    (should (eq (gemini-companion-cli-terminals-choose) 'term))
    (should (equal (gemini-companion-test-read custom-file) ";; mine\n"))
    (should (equal (car gemini-companion-test-messages)
                   "Using Term until you install a better terminal emulator"))
    ;; The next session.
    (setq gemini-companion-cli-terminals--offered nil)
    (should-not (gemini-companion-cli-terminals-test--offer))
    (should (= (length gemini-companion-test-questions) 1))
    (provide 'vterm)
    (unwind-protect (should (eq (gemini-companion-cli-terminals-choose) 'vterm))
      (setq features (delq 'vterm features)))))

(ert-deftest gemini-companion-cli-terminals/eat-is-offered-only-if-an-archive-may-have-it ()
  "Nothing is fetched to find out."
  (pcase-dolist (`(,archive . ,offered) '(("nongnu" . t) ("gnu" . nil)))
    (ert-info (archive)
      (gemini-companion-cli-terminals-test--with (if offered 'yes nil)
        (setq package-archives (list (cons archive (gemini-companion-test-file "archive/"))))
        (cl-letf (((symbol-function 'package-refresh-contents)
                   (lambda (&rest _) (ert-fail "An archive was asked"))))
          (should (eq offered (gemini-companion-cli-terminals-test--offer))))
        (unless offered
          (should (equal gemini-companion-test-messages
                         '("Term shows few colors; the packages Eat and vterm show all of them")))
          (should (eq (gemini-companion-cli-terminals-choose) 'term)))))))

(ert-deftest gemini-companion-cli-terminals/after-a-failure-term-is-used ()
  "Emacs says why and asks again only in the next session."
  (pcase-dolist (`(,archive . ,install)
                 `((nil . nil)
                   (("(error \"Broken\")") . nil)
                   ;; The archive lists it, but cannot be reached when it is downloaded.
                   (("nil") . unreachable)
                   (("nil") . ,(lambda (&rest _) (signal 'quit nil)))))
    (gemini-companion-cli-terminals-test--with 'yes
      (when archive
        (apply #'gemini-companion-cli-terminals-test--archive archive))
      (should (gemini-companion-cli-terminals-test--offer))
      (let ((windows (window-list)))
        (when (eq install 'unreachable)
          (delete-file (gemini-companion-test-file "archive/eat-1.0.el"))
          (setq install nil))
        (cl-letf (((symbol-function 'package-install)
                   (or install (symbol-function 'package-install))))
          (gemini-companion-cli-terminals-choose))
        (should (equal windows (window-list))))
      (should (eq (gemini-companion-cli-terminals-choose) 'term))
      (unless (equal archive '("(error \"Broken\")"))
        (should-not package-selected-packages)
        (should (equal (gemini-companion-test-read custom-file) ";; mine\n"))
        (should (string-match-p
                 (format "\\`Using Term, because installing Eat failed: \\(?:%s\\)\\. \
.*M-x package-install RET eat\\'"
                         (if archive "Opening input file.*\\|Error retrieving.*\\|Quit"
                           "No readable package archive has it"))
                 (car gemini-companion-test-messages))))
      (should (eq gemini-companion-terminal 'auto))
      (should-not (gemini-companion-cli-terminals-test--offer))
      (setq gemini-companion-cli-terminals--offered nil)
      (should (gemini-companion-cli-terminals-test--offer)))))

(ert-deftest gemini-companion-cli-terminals/nothing-is-asked-when-that-makes-no-sense ()
  (gemini-companion-cli-terminals-test--with nil
    ;; In batch mode.
    (should-not (gemini-companion-cli-terminals-offer))
    ;; The user has chosen a terminal, or a good one is installed.
    (let ((gemini-companion-terminal 'term))
      (should-not (gemini-companion-cli-terminals-test--offer)))
    (provide 'vterm)
    (unwind-protect
        (progn (should-not (gemini-companion-cli-terminals-test--offer))
               (should (eq (gemini-companion-cli-terminals-choose) 'vterm)))
      (setq features (delq 'vterm features)))
    (should-not gemini-companion-test-messages)
    ;; If packages are not installed by package.el, a message names the emulators.
    (let ((package-enable-at-startup nil))
      (should-not (gemini-companion-cli-terminals-test--offer))
      (should (equal gemini-companion-test-messages
                     '("Term shows few colors; the packages Eat and vterm show all of them"))))))

(ert-deftest gemini-companion-cli-terminals/a-missing-emulator-is-named ()
  (gemini-companion-cli-terminals-test--with nil
    (pcase-dolist (`(,gemini-companion-terminal . ,why)
                   '((eat . "is not installed")
                     (ielm . "`gemini-companion-cli-terminals' does not describe")))
      (should (equal (cadr (should-error (gemini-companion-cli-terminals-choose) :type 'user-error))
                     (format "`gemini-companion-terminal' is `%s', which %s"
                             gemini-companion-terminal why))))))

;;;; Another emulator

(defconst gemini-companion-cli-terminals-test--question
  "╭──────────────────╮
│ ? Shell git push │
│                  │
│ ● 1. Allow once  │
│   2. No (esc)    │
╰──────────────────╯
"
  "A question of a CLI.")

(defun gemini-companion-cli-terminals-test--converse ()
  "Run a CLI, send it a prompt, and answer what it asks then."
  (let ((gemini-companion-cli-send--poll-interval 0.01)
        (read (lambda (name)
                (let ((file (gemini-companion-test-file name)))
                  (if (file-exists-p file) (gemini-companion-test-read file) "")))))
    (gemini-companion-test-file "question" gemini-companion-cli-terminals-test--question)
    (gemini-companion-cli-terminals-test--program
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
        (gemini-companion-cli-terminals-test--output terminal)
        (should (equal (funcall read "answer") "\e"))
        terminal))))

(ert-deftest gemini-companion-cli-terminals/the-emulator-of-the-manual-is-one-entry ()
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
      (let ((terminal (gemini-companion-cli-terminals-test--converse)))
        (should (eq (buffer-local-value 'major-mode terminal) 'comint-mode))
        (delete-process (get-buffer-process terminal))))))

(defun gemini-companion-cli-terminals-test--obey (&rest _)
  "Do what a shell asks for."
  'obeyed)

(define-derived-mode gemini-companion-cli-terminals-test-mode nil "Fictitious"
  "Major mode of an emulator that shows the text that a program writes.")

(defun gemini-companion-cli-terminals-test--start (program arguments environment)
  "Run PROGRAM with ARGUMENTS in ENVIRONMENT by the fictitious emulator."
  (gemini-companion-cli-terminals-test-mode)
  (let ((process-environment environment))
    (make-process :name "fictitious" :buffer (current-buffer) :noquery t :coding 'utf-8-unix
                  :command (cons program arguments) :connection-type 'pty)))

(ert-deftest gemini-companion-cli-terminals/an-entry-says-what-differs-in-an-emulator ()
  (gemini-companion-test-with-project
    (let* ((gemini-companion-cli-terminals
            (cons '(fictitious
                    :mode gemini-companion-cli-terminals-test-mode
                    :start gemini-companion-cli-terminals-test--start
                    :variables (lambda (_) '("FICTITIOUS=1"))
                    :frozen (lambda () buffer-read-only)
                    :trackers (gemini-companion-cli-terminals-test--obey))
                  gemini-companion-cli-terminals))
           (gemini-companion-workspace-terminal-modes gemini-companion-workspace-terminal-modes)
           (gemini-companion-terminal 'auto)
           gemini-companion-program
           (terminal (progn (provide 'fictitious)
                            (unwind-protect (gemini-companion-cli-terminals-test--converse)
                              (setq features (delq 'fictitious features))))))
      (with-current-buffer terminal
        (should (derived-mode-p 'gemini-companion-cli-terminals-test-mode))
        (should-not (gemini-companion-cli-terminals-test--obey))
        (setq buffer-read-only t)
        (should-error (gemini-companion-send-prompt "next") :type 'user-error))
      (should (gemini-companion-cli-terminals-test--obey))
      ;; The advice goes with the mode, and the last terminal.
      (delete-process (get-buffer-process terminal))
      (gemini-companion-mode -1)
      (should-not (advice-member-p #'gemini-companion-cli-terminals--not-ours-p
                                   'gemini-companion-cli-terminals-test--obey))
      (should-not (advice-member-p #'gemini-companion-cli-terminals--dedicate
                                   'transient--delete-window)))))

;;;; Term

(ert-deftest gemini-companion-cli-terminals/titles-are-not-shown-as-text ()
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

(ert-deftest gemini-companion-cli-terminals/term-gets-whole-characters ()
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

(defun gemini-companion-cli-terminals-test--output (terminal)
  "Return the text of TERMINAL once it contains the word \"end\"."
  (with-current-buffer terminal
    (gemini-companion-test-wait
     "the output" (lambda () (string-search "end" (buffer-string))))
    (buffer-string)))

(defun gemini-companion-cli-terminals-test--program (text)
  "Make the shell script TEXT the program that is run."
  (setq gemini-companion-program (gemini-companion-test-file "program"
                                                             (concat "#!/bin/sh\n" text "\n")))
  (set-file-modes gemini-companion-program #o755))

(defun gemini-companion-cli-terminals-test--lines (script)
  "Return the lines that Term shows when the program is a shell SCRIPT."
  (gemini-companion-test-with-project
    (let ((gemini-companion-terminal 'term)
          gemini-companion-program)
      (gemini-companion-cli-terminals-test--program script)
      (gemini-companion-mode 1)
      (gemini-companion-run)
      (prog1 (split-string (gemini-companion-cli-terminals-test--output (window-buffer)) "[ \t]*\n" t)
        (delete-process (get-buffer-process (window-buffer)))))))

(defun gemini-companion-cli-terminals-test--converse-in-utf-8 (terminal locale)
  "Check that a program in TERMINAL shows and gets UTF-8.
LOCALE is the coding system of the locale of Emacs."
  (gemini-companion-test-with-project
    (let ((locale-coding-system locale)
          (default-process-coding-system (cons (or locale 'undecided-unix) locale))
          (gemini-companion-terminal terminal)
          gemini-companion-program)
      (gemini-companion-cli-terminals-test--program "printf '│ é│'; read line; printf end; sleep 100")
      (gemini-companion-mode 1)
      (save-window-excursion
        (gemini-companion-run)
        (with-current-buffer (window-buffer)
          (gemini-companion-test-wait "the output"
                                      (lambda () (string-search "│ é│" (buffer-string))))
          (gemini-companion-cli-send-key "ü│\n" (current-buffer))
          (should (string-search "│ é│ü│" (gemini-companion-cli-terminals-test--output
                                           (current-buffer))))
          (delete-process (get-buffer-process (current-buffer))))))))

(ert-deftest gemini-companion-cli-terminals/in-term-the-locale-does-not-matter ()
  "Without one, the boxes of a CLI's questions would not be recognized."
  (gemini-companion-cli-terminals-test--converse-in-utf-8 'term nil)
  (gemini-companion-cli-terminals-test--converse-in-utf-8 'term 'iso-latin-1-unix))

(ert-deftest gemini-companion-cli-terminals/in-vterm-the-locale-does-not-matter ()
  (let ((load-path (append (gemini-companion-test-terminal-directories 'vterm) load-path))
        (vterm-timer-delay nil))
    (gemini-companion-cli-terminals-test--converse-in-utf-8 'vterm nil)
    (gemini-companion-cli-terminals-test--converse-in-utf-8 'vterm 'iso-latin-1-unix)))

(defmacro gemini-companion-cli-terminals-test--in-undrawn-vterm (program &rest body)
  "Evaluate BODY in a vterm that runs PROGRAM, and draws nothing of what it gets."
  (declare (indent 1) (debug t))
  `(let ((load-path (append (gemini-companion-test-terminal-directories 'vterm) load-path))
         (vterm-timer-delay 1000)
         (gemini-companion-terminal 'vterm)
         gemini-companion-program)
     (gemini-companion-test-with-project
       (gemini-companion-cli-terminals-test--program ,program)
       (gemini-companion-mode 1)
       (save-window-excursion
         (gemini-companion-run)
         (with-current-buffer (window-buffer)
           ,@body
           (delete-process (get-buffer-process (current-buffer))))))))

;; A message about `end-of-buffer' came with each prompt, and an answer could be lost.
(ert-deftest gemini-companion-cli-terminals/vterm-has-no-cursor-before-it-draws ()
  (gemini-companion-cli-terminals-test--in-undrawn-vterm "printf '%60s' x; read line"
    (gemini-companion-test-wait
     "output that is not drawn"
     (lambda () (not (ignore-errors (save-excursion (vterm-reset-cursor-point) t)))))
    (should (eq (gemini-companion-cli-terminals-call-following (lambda () 'answer)) 'answer))
    (gemini-companion-cli-terminals-note-following (selected-window))))

(ert-deftest gemini-companion-cli-terminals/redisplay-leaves-what-vterm-has-to-draw-alone ()
  "Its cursor may then be where the buffer has no text yet."
  (gemini-companion-cli-terminals-test--in-undrawn-vterm "exec cat\n"
    (let ((process (get-buffer-process (current-buffer)))
          (text (buffer-string)))
      (funcall (process-filter process) process "one\r\ntwo\e[5;20H")
      (run-hook-with-args 'pre-redisplay-functions (selected-window))
      (run-hooks 'window-configuration-change-hook)
      (should (equal (buffer-string) text)))))

(ert-deftest gemini-companion-cli-terminals/in-east-asian-languages-boxes-have-their-width ()
  "There, Term and Eat took each of their characters to have two columns."
  (let ((char-width-table char-width-table)
        (line (make-string (- (window-width) 2) ?─)))
    (use-cjk-char-width-table 'ja_JP)
    (should (= (char-width ?─) 2))
    (should (equal (gemini-companion-cli-terminals-test--lines
                    (format "printf '%s\\033[1DX\\r\\n日本end\\r\\n'; read line" line))
                   (list (concat (substring line 1) "X") "日本end")))
    (should (= (char-width ?─) 2))))

(ert-deftest gemini-companion-cli-terminals/boxes-with-hebrew-are-not-mirrored ()
  "Their first letter would move the whole question to the right, also in vterm."
  (let ((load-path (append (gemini-companion-test-terminal-directories 'vterm) load-path))
        (vterm-timer-delay nil))
    (dolist (gemini-companion-terminal '(vterm term))
      (gemini-companion-test-with-project
        (let (gemini-companion-program)
          (gemini-companion-cli-terminals-test--program "printf '│ שלום │ end'; sleep 100")
          (gemini-companion-mode 1)
          (save-window-excursion
            (gemini-companion-run)
            (with-current-buffer (window-buffer)
              (gemini-companion-cli-terminals-test--output (current-buffer))
              (goto-char (point-min))
              (search-forward "ש")
              (should (eq (current-bidi-paragraph-direction) 'left-to-right))
              (delete-process (get-buffer-process (current-buffer))))))))))

(ert-deftest gemini-companion-cli-terminals/term-erases-whole-lines ()
  "That includes text before the cursor, as when Gemini CLI redraws its screen."
  (should (equal (gemini-companion-cli-terminals-test--lines
                  "printf 'one\\r\\ntwo\\r\\nthree'
printf '\\033[2K\\033[1A\\033[2K\\033[1A\\033[2K\\033[G''a\\r\\nend\\r\\n'; read line")
                 '("a" "end"))))

(ert-deftest gemini-companion-cli-terminals/term-goes-to-the-next-and-the-previous-line ()
  "Gemini CLI does, with the settings useAlternateBuffer and terminalBuffer."
  (should (equal (gemini-companion-cli-terminals-test--lines
                  "printf 'one\\r\\ntwo\\r\\nthree\\r\\nfour'
printf '\\033[FTHREE\\033[1;1H\\033[ETWO\\033[Hend'; read line")
                 '("end" "TWO" "THREE" "four"))))

(defun gemini-companion-cli-terminals-test--escapes (terminal &rest escapes)
  "Run a program that prints ESCAPES in TERMINAL, and check that they do nothing."
  (gemini-companion-test-with-project
    (let ((gemini-companion-terminal terminal)
          (asked nil)
          gemini-companion-program)
      (gemini-companion-test-file "x.txt" "x\n")
      (gemini-companion-cli-terminals-test--program
       (mapconcat (lambda (text) (format "printf '%s'\n" text)) `(,@escapes "end") ""))
      (gemini-companion-mode 1)
      (require 'tramp)                  ; it would define the function while that is another
      (cl-letf (((symbol-function 'tramp-file-name-handler)
                 (lambda (&rest arguments) (push arguments asked) nil)))
        (save-window-excursion
          (gemini-companion-run)
          (let ((terminal (window-buffer))
                (windows (length (window-list))))
            (gemini-companion-cli-terminals-test--output terminal)
            (should (= windows (length (window-list))))
            (should (equal (buffer-local-value 'default-directory terminal)
                           gemini-companion-test-project))
            (should-not (get-file-buffer (gemini-companion-test-file "x.txt"))))))
      (should-not asked))))

(ert-deftest gemini-companion-cli-terminals/output-in-term-visits-nothing ()
  "Nor does it make Emacs log in somewhere, however it is put together."
  (gemini-companion-cli-terminals-test--escapes
   'term "\\032//ssh:evil:/\\n" "\\032//tmp/\\n" "\\032\\032x.txt:1:0:beg:0x0\\n"
   "\\033AnSiTh %s\\n' \"$(hostname)\" '" "\\033AnSiTu %s\\n' \"$(id -un)\" '"
   "\\033AnSiTc /ssh:evil:~/\\n" "\\033AnSiTh evil\\n" "\\033AnSi" "Tc /\\n"
   ;; A title in it, which is taken out.
   "\\033\\033]0;x\\007AnSiTc /\\n"))

(ert-deftest gemini-companion-cli-terminals/output-in-vterm-visits-nothing ()
  (let ((load-path (append (gemini-companion-test-terminal-directories 'vterm) load-path))
        ;; Its timer changes the match data.
        (vterm-timer-delay nil))
    (gemini-companion-cli-terminals-test--escapes
     'vterm "\\033]51;Efind-file \"x.txt\"\\033\\\\" "\\033]51;A/ssh:evil:/\\033\\\\"
     "\\033]51;A/tmp\\007" "\\033]\\00051;Ame@evil:/\\033\\\\")))

(ert-deftest gemini-companion-cli-terminals/term-has-no-colors-on-a-light-background ()
  "Nor with few colors."
  (pcase-dolist (`(,background ,own ,colors ,few)
                 '((light nil "1") (nil nil "1") (dark nil "none") (dark nil "1" 8)
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
        (gemini-companion-cli-terminals-test--program
         "printf '\\033]0;title\\007<%s>' \"${NO_COLOR-none}\"; echo end")
        (gemini-companion-mode 1)
        (unwind-protect
            (progn
              (set-frame-parameter nil 'background-mode background)
              (cl-letf (((symbol-function 'display-color-cells) (lambda (&rest _) (or few 0))))
                (gemini-companion-run))
              ;; The program may have ended already.
              (should (string-prefix-p (format "<%s>end" colors)
                                       (gemini-companion-cli-terminals-test--output (window-buffer)))))
          (set-frame-parameter nil 'background-mode before))))))

(ert-deftest gemini-companion-cli-terminals/programs-in-term-use-its-colors ()
  "The terminal in which Emacs was started does not matter."
  (dolist (own '("COLORTERM=truecolor" "COLORTERM"))
    (gemini-companion-test-with-project
      (let ((process-environment (cons own process-environment))
            (gemini-companion-terminal 'term)
            gemini-companion-program)
        (gemini-companion-cli-terminals-test--program "printf '<%s>end' \"${COLORTERM-none}\"")
        (gemini-companion-mode 1)
        (gemini-companion-run)
        (should (string-prefix-p (if (< emacs-major-version 29) "<none>" "<truecolor>")
                                 (gemini-companion-cli-terminals-test--output (window-buffer))))))))

(ert-deftest gemini-companion-cli-terminals/in-term-C-y-yanks ()
  "With it, Gemini CLI would no longer ask; \\`C-c C-y' sends it."
  (gemini-companion-test-with-project
    (let ((gemini-companion-terminal 'term)
          (file (gemini-companion-test-file "got"))
          (wanted "\e[200~one\n\ttwo[201~\r\e[201~\^Y")
          gemini-companion-program)
      (gemini-companion-cli-terminals-test--program
       (format "stty raw -echo; echo ready; head -c %d >got; sleep 100" (length wanted)))
      (gemini-companion-mode 1)
      (gemini-companion-run)
      (with-current-buffer (window-buffer)
        (gemini-companion-test-wait "the program"
                                    (lambda () (string-search "ready" (buffer-string))))
        (kill-new "one\n\ttwo\e[201~\r")
        (call-interactively (key-binding (kbd "C-y")))
        (should (eq (key-binding (kbd "S-<insert>")) (key-binding (kbd "C-y"))))
        (cl-letf (((symbol-function 'this-command-keys) (lambda () "\^C\^Y")))
          (call-interactively (key-binding (kbd "C-c C-y"))))
        (gemini-companion-test-wait
         "all of it" (lambda () (and (file-exists-p file)
                                     (equal (gemini-companion-test-read file) wanted))))
        (delete-process (get-buffer-process (current-buffer)))))))

;; Magit binds C-x g.
(ert-deftest gemini-companion-cli-terminals/after-C-c-term-has-our-keys-before-those-of-C-x ()
  (dolist (prefix (list 'gemini-companion-command-map gemini-companion-command-map))
    (gemini-companion-test-with-project
      (let ((gemini-companion-terminal 'term)
            gemini-companion-program)
        (gemini-companion-cli-terminals-test--program "sleep 100")
        (gemini-companion-mode 1)
        (unwind-protect
            (progn
              (global-set-key (kbd "C-c g") prefix)
              (global-set-key (kbd "C-x g") #'ignore)
              (gemini-companion-run)
              (with-current-buffer (window-buffer)
                (should (eq (key-binding (kbd "C-c g r")) #'gemini-companion-run))
                (should (eq (key-binding (kbd "C-c b")) #'switch-to-buffer))
                (delete-process (get-buffer-process (current-buffer)))))
          (global-unset-key (kbd "C-c g"))
          (global-unset-key (kbd "C-x g")))))))

;;;; Eat and vterm

(ert-deftest gemini-companion-cli-terminals/programs-in-eat-and-vterm-use-all-colors ()
  (pcase-dolist (`(,colors ,own ,value) '((16777216 "A=1" "truecolor") (256 "A=1" nil)
                                          (16777216 "COLORTERM=x" nil)
                                          (16777216 "COLORTERM" "truecolor")))
    (cl-letf (((symbol-function 'display-color-cells) (lambda (&rest _) colors)))
      (should (equal (getenv-internal "COLORTERM"
                                      (gemini-companion-cli-terminals--color-variables (list own)))
                     value)))))

(ert-deftest gemini-companion-cli-terminals/programs-can-ask-for-the-background-color ()
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

(ert-deftest gemini-companion-cli-terminals/a-terminal-is-resized-once ()
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

(ert-deftest gemini-companion-cli-terminals/packages-for-other-clis-do-not-keep-a-size-from-it ()
  "They advise the function of Eat or vterm for all terminals, and return nil."
  (let ((size (lambda (&rest _) '(33 . 7))))
    (defalias 'gemini-companion-cli-terminals-test--adjust size)
    (advice-add 'gemini-companion-cli-terminals-test--adjust :around #'ignore)
    (with-temp-buffer
      (let ((process (make-process :name "cat" :buffer (current-buffer) :command '("cat")
                                   :noquery t))
            (gemini-companion-workspace-terminal-modes nil)
            (gemini-companion-cli-terminals
             (cons '(ert :mode fundamental-mode :start ignore) gemini-companion-cli-terminals)))
        (process-put process 'adjust-window-size-function
                     'gemini-companion-cli-terminals-test--adjust)
        (gemini-companion-cli-terminals-start 'ert "cat" nil nil)
        (should (equal (funcall (process-get process 'adjust-window-size-function)) '(33 . 7)))
        (delete-process process)))))

;; Term begins with the standard table by itself; Eat and vterm have none.
(ert-deftest gemini-companion-cli-terminals/quotes-can-be-read-without-a-utf-8-locale ()
  "Emacs then shows the curly ones as others, and so must the terminal."
  (let ((standard-display-table (make-display-table))
        (gemini-companion-workspace-terminal-modes nil)
        (gemini-companion-cli-terminals
         (cons '(ert :mode fundamental-mode :start ignore) gemini-companion-cli-terminals)))
    (aset standard-display-table ?\u2019 [?'])
    (cl-letf (((symbol-function 'char-displayable-p) #'ignore))
      (with-temp-buffer
        (let ((process (make-process :name "cat" :buffer (current-buffer) :command '("cat")
                                     :noquery t)))
          (gemini-companion-cli-terminals-start 'ert "cat" nil nil)
          (should (equal [?'] (aref buffer-display-table ?\u2019)))
          (should (equal [?-] (aref buffer-display-table ?─)))
          (should-not (aref standard-display-table ?─))
          (delete-process process))))))

;;; gemini-companion-cli-terminals-test.el ends here

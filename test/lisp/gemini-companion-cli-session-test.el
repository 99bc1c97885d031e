;;; gemini-companion-cli-session-test.el --- Tests of earlier sessions  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; With a script in place of the CLI, which lists sessions; test/e2e/run-test.el has the real one.

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-test-companion)

(defvar gemini-companion-cli-session-test--asked nil
  "The prompt for a session, its choices and what stands beside them; or nil.")

(defun gemini-companion-cli-session-test--complete (prompt table &rest arguments)
  "Record PROMPT and what TABLE has, and choose the last, for `completing-read'."
  (let* ((metadata (cdr (funcall table "" nil 'metadata)))
         (names (all-completions "" table)))
    (should (eq (alist-get 'display-sort-function metadata) 'identity))
    (should (equal (nth 4 arguments) (car names)))
    (setq gemini-companion-cli-session-test--asked
          (list prompt names (mapcar (alist-get 'annotation-function metadata) names)))
    (car (last names))))

(defmacro gemini-companion-cli-session-test--with (script &rest body)
  "Evaluate BODY in a new project, where the CLI is the shell SCRIPT.
It sees the options of the CLI as $*.  The user is not busy."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-project
     (let ((gemini-companion-program
            (gemini-companion-test-file "program" (concat "#!/bin/sh\n" ,script "\n")))
           (gemini-companion-terminal 'term)
           (gemini-companion-cli-session-test--asked nil))
       (set-file-modes gemini-companion-program #o755)
       (gemini-companion-mode 1)
       (cl-letf (((symbol-function 'gemini-companion-ui-user-frame-p) #'always)
                 ((symbol-function 'completing-read)
                  #'gemini-companion-cli-session-test--complete))
         (save-window-excursion
           (unwind-protect (progn ,@body)
             (pcase-dolist (`(,buffer . ,_) (gemini-companion-cli-run-terminals))
               (delete-process (get-buffer-process buffer)))))))))

(defconst gemini-companion-cli-session-test--list
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

(defun gemini-companion-cli-session-test--wait (text)
  "Wait until a terminal shows TEXT."
  (gemini-companion-test-wait
   text
   (lambda ()
     (seq-some (pcase-lambda (`(,buffer . ,_))
                 (with-current-buffer buffer (string-search text (buffer-string))))
               (gemini-companion-cli-run-terminals)))))

(ert-deftest gemini-companion-cli-session/the-user-chooses-one ()
  "The newest one is first; names are different, and ids are no options."
  (gemini-companion-cli-session-test--with gemini-companion-cli-session-test--list
    (let ((gemini-companion-arguments '("--own")))
      (gemini-companion-run '(16))
      (gemini-companion-cli-session-test--wait
       "run with --resume 032443f8-bbc7-41cf-b3da-b9e70686f710 --own."))
    (should (equal gemini-companion-cli-session-test--asked
                   '("Session of Gemini CLI to resume (default Twice [bbbbbbbb-2222]): "
                     ("Twice [bbbbbbbb-2222]" "Twice" "Fix (the) parser [quickly]")
                     ("  Just now, current" "  1 hour ago" "  2 days ago"))))
    (should-not (get-buffer " *gemini sessions*"))))

(ert-deftest gemini-companion-cli-session/one-that-runs-is-shown ()
  "It would be written by two CLIs."
  (gemini-companion-cli-session-test--with gemini-companion-cli-session-test--list
    (gemini-companion-run)
    (let* ((terminal (window-buffer))
           (gemini-companion-cli--all
            (list (gemini-companion-cli--make :session "032443f8-bbc7-41cf-b3da-b9e70686f710"
                                              :terminal terminal))))
      (gemini-companion-cli-session-test--wait "run with .")
      (switch-to-buffer "*scratch*")
      (gemini-companion-resume)
      (gemini-companion-test-wait "the terminal" (lambda () (eq (window-buffer) terminal)))
      (should (= 1 (length (gemini-companion-cli-run-terminals)))))))

(ert-deftest gemini-companion-cli-session/it-says-why-there-is-none ()
  (pcase-dolist (`(,script ,message)
                 '(("echo No previous sessions found for this project." "has no earlier session")
                   ("echo 'Invalid auth method.' >&2; exit 41"
                    "Gemini CLI lists no sessions: Invalid auth method\\.")))
    (gemini-companion-cli-session-test--with script
      (gemini-companion-resume)
      (gemini-companion-test-wait
       message (lambda ()
                 (with-current-buffer (messages-buffer)
                   (save-excursion
                     (goto-char (point-max))
                     (forward-line -1)
                     (looking-at-p (concat ".*" message))))))
      (should-not gemini-companion-cli-session-test--asked))))

(ert-deftest gemini-companion-cli-session/only-the-last-request-counts ()
  "The first one does not ask any more when the CLI answers it at last."
  (gemini-companion-cli-session-test--with
      "[ -e first ] || { touch first; read line; }; echo '  1. One (now) [1]'; echo \"with $*.\""
    (gemini-companion-resume)
    (gemini-companion-test-wait "the first" (lambda () (file-exists-p "first")))
    (gemini-companion-resume)
    (gemini-companion-test-wait "a question" (lambda () gemini-companion-cli-session-test--asked))
    (should-not (string-match-p "lists no sessions" (or (current-message) "")))
    (should-not gemini-companion-cli-session--process)))

(ert-deftest gemini-companion-cli-session/a-program-may-ask-itself ()
  "As Qwen Code does."
  (gemini-companion-cli-session-test--with "echo \"run with $*.\"; read line"
    (let ((gemini-companion-agent 'qwen))
      (gemini-companion-resume)
      (gemini-companion-cli-session-test--wait "run with --resume."))
    (let ((gemini-companion-agent 'llxprt))
      (should-error (gemini-companion-resume) :type 'user-error))))

(provide 'gemini-companion-cli-session-test)
;;; gemini-companion-cli-session-test.el ends here

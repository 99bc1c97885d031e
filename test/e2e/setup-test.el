;;; setup-test.el --- Setting up the real CLI  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The CLI has the home of Emacs, whose only settings are those that Emacs writes.

;;; Code:

(require 'gemini-companion-test-cli)

(defmacro gemini-companion-setup-test--with (spec &rest body)
  "Run BODY with an Emacs and a CLI that it can run, which shares its home.
SPEC is (EMACS CLI), two variables.  No question has been asked before."
  (declare (indent 1) (debug ((symbolp symbolp) body)))
  (pcase-let ((`(,emacs ,cli) spec))
    `(progn
       (gemini-companion-test-require-real-client)
       (gemini-companion-test-with-emacs (,emacs :files '(("a.txt" . "one\n")))
         (gemini-companion-test-visit ,emacs "a.txt")
         (gemini-companion-test-with-cli
             (,cli (gemini-companion-test-cli-make
                    ,emacs (gemini-companion-test-project ,emacs) 'inside
                    (gemini-companion-test-home ,emacs)))
           (setf (gemini-companion-test-cli-emacs ,cli) ,emacs)
           (gemini-companion-test-eval
            ,emacs `(setq gemini-companion-answer--unsaved nil
                          gemini-companion-terminal 'term
                          gemini-companion-program
                          ,(gemini-companion-test-cli-file ,cli "launch")))
           ,@body)))))

(defun gemini-companion-setup-test--settings (emacs)
  "Return the name of the settings in the home of EMACS."
  (expand-file-name ".gemini/settings.json" (gemini-companion-test-home emacs)))

(defun gemini-companion-setup-test--answers (emacs)
  "Return the name of the file in the home of EMACS that has the user's answers."
  (expand-file-name ".emacs.d/gemini-companion/answers.eld" (gemini-companion-test-home emacs)))

(defun gemini-companion-setup-test--wait-connected (emacs cli)
  "Wait until CLI, which was just started by EMACS, is connected to that."
  (setf (gemini-companion-test-cli-pid cli)
        (gemini-companion-test-wait-eval
         emacs '(let ((process (get-buffer-process (window-buffer))))
                  (and process (process-id process)))))
  (gemini-companion-test-cli-wait-log cli "Discovered [0-9]+ tools from IDE")
  (gemini-companion-test-wait-eval emacs '(= gemini-companion-bridge-clients 1)))

(ert-deftest gemini-companion-setup/the-cli-connects-at-its-first-start ()
  "The user need not type /ide enable."
  (gemini-companion-setup-test--with (emacs cli)
    (let ((settings (gemini-companion-setup-test--settings emacs)))
      (should-not (file-exists-p settings))
      (gemini-companion-test-m-x emacs "gemini-companion-setup")
      (gemini-companion-test-wait-screen
       emacs "Let Gemini CLI connect by itself\\? (adds ide.enabled to ~/.gemini/settings.json) (y or n)")
      (gemini-companion-test-keys emacs "y")
      (gemini-companion-test-wait "the settings" (lambda () (file-exists-p settings)))
      (gemini-companion-test-m-x emacs "gemini-companion-run")
      (gemini-companion-setup-test--wait-connected emacs cli))))

(ert-deftest gemini-companion-setup/a-run-asks-and-the-cli-reads-the-setting ()
  "Settings may have comments, as for the CLI itself."
  (gemini-companion-setup-test--with (emacs cli)
    (let ((settings (gemini-companion-setup-test--settings emacs)))
      (gemini-companion-test-write
       settings "{ // mine, \"ide\": {\n  /* no { */ \"ui\": { \"theme\": \"ANSI\" } // }\n}\n")
      (gemini-companion-test-m-x emacs "gemini-companion-run" "Let Gemini CLI connect by itself\\?")
      (gemini-companion-test-keys emacs "y")
      (gemini-companion-setup-test--wait-connected emacs cli)
      (should (string-match-p "\\`{ // mine, \"ide\": {\n +\"ide\": {\"enabled\": true},\n"
                              (gemini-companion-test-read settings))))))

(ert-deftest gemini-companion-setup/a-run-goes-on-after-a-no ()
  "It does not ask again."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-eval emacs '(setq gemini-companion-answer--unsaved nil
                                             gemini-companion-terminal 'term
                                             gemini-companion-program "cat"))
    (gemini-companion-test-m-x emacs "gemini-companion-run" "Let Gemini CLI connect by itself\\?")
    (gemini-companion-test-press emacs "n" '(gemini-companion-cli-run-terminals))
    (gemini-companion-test-run emacs '(progn (gemini-companion-run t) nil))
    (gemini-companion-test-wait-eval emacs '(= 2 (length (gemini-companion-cli-run-terminals))))
    (should-not (file-exists-p (gemini-companion-setup-test--settings emacs)))
    (should (string-search "((setup . gemini) . never)"
                           (gemini-companion-test-read
                            (gemini-companion-setup-test--answers emacs))))
    (gemini-companion-setup-test--end-all emacs)))

;;;; Which terminal

(defconst gemini-companion-setup-test--eat ";;; eat.el --- Not Eat  -*- lexical-binding: t; -*-
;; Version: 1.0
;;; Code:
(define-derived-mode eat-mode fundamental-mode \"Eat\")
(defun eat-exec (buffer name program _ arguments)
  (make-process :name name :buffer buffer :command (cons program arguments)))
(provide 'eat)
;;; eat.el ends here
" "A stand-in for Eat in a package archive.")

(defun gemini-companion-setup-test--archive (emacs &rest lines)
  "Let EMACS install packages from a directory with LINES as archive-contents."
  (let ((archive (gemini-companion-test-emacs-file emacs "archive/")))
    (gemini-companion-test-write (concat archive "eat-1.0.el") gemini-companion-setup-test--eat)
    (gemini-companion-test-write (concat archive "archive-contents") (string-join lines "\n"))
    (gemini-companion-test-eval
     emacs `(progn (require 'package)
                   (setq package-archives '(("nongnu" . ,archive))
                         package-enable-at-startup t
                         gemini-companion-answer--unsaved nil
                         gemini-companion-program "cat")))))

(defun gemini-companion-setup-test--end-all (emacs)
  "End all CLIs in EMACS."
  (gemini-companion-test-run
   emacs '(dolist (terminal (gemini-companion-cli-run-terminals))
            (delete-process (get-buffer-process (car terminal))))))

(ert-deftest gemini-companion-setup/the-first-run-asks-for-a-terminal-first ()
  "Installing begins only after all questions."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-setup-test--archive emacs "(1 (eat . [(1 0) nil \"Not Eat\" single nil]))")
    (gemini-companion-test-m-x emacs "gemini-companion-run" "install the terminal Eat\\? (y or n)")
    (gemini-companion-test-press emacs "y" "Let Gemini CLI connect by itself\\?")
    (should-not (gemini-companion-test-eval emacs '(featurep 'eat)))
    (gemini-companion-test-keys emacs "n")
    (gemini-companion-test-wait-eval
     emacs '(and (gemini-companion-cli-run-terminals)
                 (with-current-buffer (caar (gemini-companion-cli-run-terminals))
                   (and (eq (window-buffer) (current-buffer)) (derived-mode-p 'eat-mode)))))
    (gemini-companion-setup-test--end-all emacs)))

(ert-deftest gemini-companion-setup/a-no-to-eat-is-remembered-without-an-option ()
  "Another Emacs of the user does not ask, and the init file is left alone."
  (gemini-companion-test-with-emacs (first :mode t :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit first "a.txt")
    (gemini-companion-setup-test--archive first "(1)")
    (gemini-companion-test-m-x first "gemini-companion-run" "install the terminal Eat\\? (y or n)")
    (gemini-companion-test-press first "n" "Let Gemini CLI connect by itself\\?")
    (gemini-companion-test-keys first "n")
    (gemini-companion-test-wait-eval first '(gemini-companion-cli-run-terminals))
    (should (eq (gemini-companion-test-eval first 'gemini-companion-terminal) 'auto))
    (gemini-companion-setup-test--end-all first)
    (gemini-companion-test-stop first 'keep)
    (gemini-companion-test-with-emacs
        (emacs :directory (gemini-companion-test-emacs-directory first))
      (gemini-companion-test-visit emacs "a.txt")
      (gemini-companion-setup-test--archive emacs "(1)")
      (gemini-companion-test-m-x emacs "gemini-companion-run" '(gemini-companion-cli-run-terminals))
      (gemini-companion-setup-test--end-all emacs)
      (should (equal (directory-files (expand-file-name ".emacs.d" (gemini-companion-test-home emacs))
                                      nil "\\`[^.]")
                     '("early-init.el" "gemini-companion"))))))

(ert-deftest gemini-companion-setup/without-eat-the-cli-runs-in-term ()
  "A message says why."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-setup-test--archive emacs "(1)")
    (gemini-companion-test-eval emacs '(setq gemini-companion-answer--unsaved '(((setup . gemini) . never))))
    (gemini-companion-test-m-x emacs "gemini-companion-run" "install the terminal Eat\\? (y or n)")
    (gemini-companion-test-keys emacs "y")
    (gemini-companion-test-wait-screen emacs "Using Term, because installing Eat failed: \
No readable package archive has it")
    (gemini-companion-test-wait-eval
     emacs '(and (gemini-companion-cli-run-terminals)
                 (with-current-buffer (caar (gemini-companion-cli-run-terminals))
                   (and (eq (window-buffer) (current-buffer)) (derived-mode-p 'term-mode)))))
    (gemini-companion-setup-test--end-all emacs)))

;;; setup-test.el ends here

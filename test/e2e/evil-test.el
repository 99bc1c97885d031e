;;; evil-test.el --- With Evil  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Evil as Debian has it, in an interactive Emacs.  One types where there is something to type.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path
               (expand-file-name "../support"
                                 (file-name-directory (macroexp-file-name)))))
(require 'gemini-companion-test-cli)

(defun gemini-companion-evil-test--directories ()
  "Return the directories of Evil; skip the test without it."
  (or (file-expand-wildcards "/usr/share/emacs/site-lisp/elpa-src/evil-[0-9]*")
      (progn
        (message "SKIPPED %s: elpa-evil is not installed" (ert-test-name (ert-running-test)))
        (ert-skip "elpa-evil is not installed"))))

(defmacro gemini-companion-evil-test--with (emacs terminal &rest body)
  "Run BODY with EMACS, a variable, where Evil is on and cat runs in TERMINAL."
  (declare (indent 2) (debug (symbolp form body)))
  (let ((load (make-symbol "load")))
    `(let ((,load (append (gemini-companion-evil-test--directories)
                          (file-expand-wildcards
                           "/usr/share/emacs/site-lisp/elpa-src/goto-chg-[0-9]*")
                          (gemini-companion-test-terminal-directories ,terminal))))
       (gemini-companion-test-with-emacs (,emacs :files '(("a.txt" . "one\n")))
         (gemini-companion-test-visit ,emacs "a.txt")
         (gemini-companion-test-eval
          ,emacs `(progn (setq load-path (append ',,load load-path)
                               gemini-companion-program "cat"
                               gemini-companion-terminal ',,terminal)
                         (require 'evil)
                         (evil-mode 1)))
         (unwind-protect (progn ,@body)
           (gemini-companion-test-eval
            ,emacs '(dolist (terminal (gemini-companion-run-terminals))
                      (delete-process (get-buffer-process (car terminal))))))))))

(defun gemini-companion-evil-test--run (emacs)
  "Let the user of EMACS run a CLI; return the state in which Evil begins there."
  (gemini-companion-test-run emacs '(progn (gemini-companion-run) nil))
  (gemini-companion-test-wait-eval
   emacs '(and (gemini-companion-run-terminals)
               (eq (window-buffer) (caar (gemini-companion-run-terminals)))))
  (gemini-companion-test-eval emacs 'evil-state))

(gemini-companion-test-with-terminals gemini-companion-ui/one-types-into-the-cli-at-once terminal
  "Term begins in the insert state, for Evil says so itself."
  (gemini-companion-evil-test--with emacs terminal
    (should (eq (gemini-companion-evil-test--run emacs) (if (eq terminal 'term) 'insert 'emacs)))
    (gemini-companion-test-type emacs "idle")
    (gemini-companion-test-keys emacs "Enter")
    ;; Twice: as it was typed, and as cat says it.
    (gemini-companion-test-wait-screen emacs "idle *\\(?:.*\n\\)*?.*idle")))

(ert-deftest gemini-companion-ui/another-state-that-was-set-stays ()
  "For the mode of the terminal, as Evil Collection does, and for that of a prompt."
  :tags '(e2e)
  (gemini-companion-evil-test--with emacs 'vterm
    (gemini-companion-test-eval
     emacs '(progn (evil-set-initial-state 'vterm-mode 'insert)
                   (evil-set-initial-state 'gemini-companion-compose-mode 'normal)))
    (should (eq (gemini-companion-evil-test--run emacs) 'insert))
    (gemini-companion-test-run emacs '(progn (gemini-companion-compose) nil))
    (should (eq (gemini-companion-test-eval emacs 'evil-state) 'normal))))

(ert-deftest gemini-companion-ui/one-types-a-prompt-at-once ()
  :tags '(e2e)
  (gemini-companion-evil-test--with emacs 'term
    (gemini-companion-evil-test--run emacs)
    (gemini-companion-test-run emacs '(progn (gemini-companion-compose) nil))
    (gemini-companion-test-type emacs "idle")
    (gemini-companion-test-wait-eval emacs '(equal (buffer-string) "idle"))
    (gemini-companion-test-keys emacs "C-c" "C-c")
    (gemini-companion-test-wait-screen emacs "idle")
    ;; Only there: text elsewhere is as it was.
    (should (eq (gemini-companion-test-eval
                 emacs '(with-current-buffer "a.txt" evil-state))
                'normal))))

;;; evil-test.el ends here

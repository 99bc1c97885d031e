;;; evil-test.el --- With Evil  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Debian's Evil in an interactive Emacs.  In terminals and prompts keys insert text
;; at once.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-fake-client)

(defun gemini-companion-evil-test--directories ()
  "Return the directories of Evil; skip the test if it is not installed."
  (or (file-expand-wildcards "/usr/share/emacs/site-lisp/elpa-src/evil-[0-9]*")
      (gemini-companion-test-skip "elpa-evil is not installed")))

(defun gemini-companion-evil-test--turn-on (emacs)
  "Turn Evil on in EMACS; skip the test if it is not installed."
  (gemini-companion-test-eval
   emacs `(progn (setq load-path (append ',(gemini-companion-evil-test--directories)
                                         ',(file-expand-wildcards
                                            "/usr/share/emacs/site-lisp/elpa-src/goto-chg-[0-9]*")
                                         load-path))
                 (require 'evil)
                 (evil-mode 1))))

(defmacro gemini-companion-evil-test--with (emacs terminal &rest body)
  "Run BODY with EMACS, a variable, in which Evil is on and cat runs in TERMINAL."
  (declare (indent 2) (debug (symbolp form body)))
  (let ((load (make-symbol "load")))
    `(let ((,load (gemini-companion-test-terminal-directories ,terminal)))
       (gemini-companion-test-with-emacs (,emacs :files '(("a.txt" . "one\n")))
         (gemini-companion-test-visit ,emacs "a.txt")
         (gemini-companion-test-eval
          ,emacs `(setq load-path (append ',,load load-path)
                        gemini-companion-program "cat"
                        gemini-companion-terminal ',,terminal))
         (gemini-companion-evil-test--turn-on ,emacs)
         (unwind-protect (progn ,@body)
           (gemini-companion-test-eval
            ,emacs '(dolist (terminal (gemini-companion-cli-run-terminals))
                      (delete-process (get-buffer-process (car terminal))))))))))

(defun gemini-companion-evil-test--run (emacs)
  "Run a CLI in EMACS; return the state of Evil in its terminal."
  (gemini-companion-test-run emacs '(progn (gemini-companion-run) nil))
  ;; The shell that starts it sets up the terminal: before that, Return does not end a line.
  (gemini-companion-test-wait-eval
   emacs '(when-let* ((terminal (caar (gemini-companion-cli-run-terminals))))
            (and (eq (window-buffer) terminal)
                 (equal "cat" (alist-get 'comm (process-attributes
                                                (process-id (get-buffer-process terminal))))))))
  (gemini-companion-test-eval emacs 'evil-state))

(gemini-companion-test-with-terminals gemini-companion-ui/evil-lets-keys-go-to-the-cli-at-once terminal
  "Term begins in insert state, as Evil itself has it."
  (gemini-companion-evil-test--with emacs terminal
    (should (eq (gemini-companion-evil-test--run emacs) (if (eq terminal 'term) 'insert 'emacs)))
    (gemini-companion-test-type emacs "idle" "Enter")
    ;; Twice: as typed, and as printed by cat.
    (gemini-companion-test-wait-screen emacs "idle *\\(?:.*\n\\)*?.*idle")))

(ert-deftest gemini-companion-ui/evil-states-set-by-the-user-stay ()
  "For the mode of the terminal, as in Evil Collection, and for that of prompts."
  (gemini-companion-evil-test--with emacs 'vterm
    (gemini-companion-test-eval
     emacs '(progn (evil-set-initial-state 'vterm-mode 'insert)
                   (evil-set-initial-state 'gemini-companion-compose-mode 'normal)))
    (should (eq (gemini-companion-evil-test--run emacs) 'insert))
    (gemini-companion-test-run emacs '(progn (gemini-companion-compose) nil))
    (should (eq (gemini-companion-test-eval emacs 'evil-state) 'normal))))

(ert-deftest gemini-companion-ui/evil-begins-a-prompt-in-insert-state ()
  (gemini-companion-evil-test--with emacs 'term
    (gemini-companion-evil-test--run emacs)
    (gemini-companion-test-run emacs '(progn (gemini-companion-compose) nil))
    (gemini-companion-test-type emacs "idle")
    (gemini-companion-test-wait-eval emacs '(equal (buffer-string) "idle"))
    (gemini-companion-test-press emacs "C-c C-c" "idle")
    ;; The state in other buffers is unchanged.
    (should (eq (gemini-companion-test-eval
                 emacs '(with-current-buffer "a.txt" evil-state))
                'normal))))

(ert-deftest gemini-companion-ui/evil-selections-are-what-clients-are-told ()
  "For blocks, Evil turns Transient Mark mode off."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "123\n456\n")))
    (gemini-companion-evil-test--turn-on emacs)
    (pcase-dolist (`(,key . ,text) '(("v" . "123\n45") ("V" . "123\n456\n") ("C-v" . "12\n45")))
      (gemini-companion-test-keys emacs key "j" "l")
      (gemini-companion-test-wait
       text (lambda ()
              (equal text (alist-get 'selectedText
                                     (car (gemini-companion-test-client-files client))))))
      (gemini-companion-test-press emacs "Escape" '(eq evil-state 'normal))
      (gemini-companion-test-run emacs '(goto-char (point-min))))
    ;; Letters are commands in our lists.
    (gemini-companion-test-run emacs '(progn (gemini-companion-history-list) nil))
    (gemini-companion-test-wait-eval emacs '(eq evil-state 'emacs))
    (gemini-companion-test-press emacs "q" '(equal (buffer-name) "a.txt"))))

(ert-deftest gemini-companion-ui/evil-does-not-repeat-our-commands ()
  "After an accept, the key . repeats an edit, and does not accept the next change."
  (gemini-companion-test-with-fake-client (emacs client '(("b.txt" . "123\n") ("a.txt" . "a\n")))
    (gemini-companion-evil-test--turn-on emacs)
    (gemini-companion-test-eval
     emacs '(progn (define-key evil-normal-state-map [f5] #'gemini-companion-accept)
                   ;; The test presses keys at once.
                   (setq gemini-companion-ui-reaction-time 0)))
    (gemini-companion-test-press emacs "x" '(equal (buffer-string) "23\n"))
    (gemini-companion-test-fake-show emacs client "b\n")
    (gemini-companion-test-keys emacs "F5")
    (gemini-companion-test-fake-wait-outcomes client '((accepted "a.txt" "b\n")))
    (gemini-companion-test-fake-show emacs client "c\n")
    (gemini-companion-test-press emacs "." '(equal (buffer-string) "3\n"))
    (should (gemini-companion-test-review emacs))
    (gemini-companion-test-keys emacs "F5")
    (gemini-companion-test-fake-wait-outcomes client '((accepted "a.txt" "b\n")
                                                       (accepted "a.txt" "c\n")))))

;;; evil-test.el ends here

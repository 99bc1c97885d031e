;;; slow-server-test.el --- Tools of the model while someone types  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A tool that waits, for a language server or for the user, keeps no key
;; waiting, and changes nothing under the user's hands.  How long keys take
;; meanwhile is measured by test/bench/tools-bench.el.

;;; Code:

(require 'gemini-companion-test-served)

(ert-deftest gemini-companion-slow-server/keys-do-not-wait ()
  "While a language server is slow, keys are handled, and it is sent the text."
  (gemini-companion-test-served-require)
  (gemini-companion-test-with-served
      (emacs tools '(("a.served" . "def one = 1\nbad one\n"))
             (gemini-companion-test-served-fake emacs "a.served"))
    (gemini-companion-test-keys emacs "M->")
    (should (equal (gemini-companion-test-served-call tools "getDiagnostics" :path "a.served")
                   "a.served:2:1: error: fake: bad line: bad one"))
    (dolist (request '("publish" "definition"))
      (gemini-companion-test-served-hold emacs request t))
    ;; Otherwise what it says of an older text could come so late that it would be taken for new.
    (gemini-companion-test-write (gemini-companion-test-emacs-file emacs "server/versions") "")
    (gemini-companion-test-type emacs "bad ")
    (let ((diagnostics (gemini-companion-test-served-begin
                        tools "getDiagnostics" :path "a.served"))
          (definition (gemini-companion-test-served-begin
                       tools "findDefinition" :path "a.served" :line 2 :symbol "one")))
      (gemini-companion-test-type emacs "day")
      (gemini-companion-test-wait-screen emacs "bad day")
      (gemini-companion-test-keys emacs "C-a")
      (gemini-companion-test-type emacs "what a ")
      (gemini-companion-test-wait-screen emacs "what a bad day")
      (dolist (call (list diagnostics definition))
        (should-not (gemini-companion-test-served-answered tools call)))
      (dolist (request '("publish" "definition"))
        (gemini-companion-test-served-hold emacs request nil))
      (should (equal (gemini-companion-test-served-text tools definition)
                     "a.served:1: def one = 1"))
      (should (equal (gemini-companion-test-served-text tools diagnostics)
                     "a.served:2:1: error: fake: bad line: bad one
a.served:3:8: error: fake: bad line: what a bad day")))
    (should (equal (gemini-companion-test-eval emacs '(list (buffer-name) (line-number-at-pos)))
                   '("a.served" 3)))))

(ert-deftest gemini-companion-slow-server/a-file-is-shown-after-a-prompt ()
  "A file is not shown while the minibuffer is active, and then not selected."
  (gemini-companion-test-with-served
      (emacs tools '(("a.txt" . "one\n") ("b.txt" . "this is the other\nits second line\n"))
             (gemini-companion-test-visit emacs "a.txt"))
    (gemini-companion-test-press emacs "M-x" "^M-x")
    (let ((call (gemini-companion-test-served-begin
                 tools "showFile" :path "b.txt" :line 2)))
      (gemini-companion-test-wait-eval emacs '(and gemini-companion-tool-calls t))
      (should-not (gemini-companion-test-served-answered tools call))
      (should-not (gemini-companion-test-eval emacs '(get-buffer "b.txt")))
      (gemini-companion-test-quit emacs)
      (should (equal (gemini-companion-test-served-text tools call) "Shown.")))
    (gemini-companion-test-wait-screen emacs "its second line")
    (gemini-companion-test-type emacs "still here")
    (gemini-companion-test-wait-screen emacs "still here")
    (should (equal (gemini-companion-test-eval
                    emacs '(list (buffer-name (window-buffer))
                                 (with-selected-window (get-buffer-window "b.txt")
                                   (line-number-at-pos))))
                   '("a.txt" 2)))))

;;; slow-server-test.el ends here

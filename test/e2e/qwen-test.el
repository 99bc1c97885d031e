;;; qwen-test.el --- Qwen Code, a fork of Gemini CLI  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The real, interactive Qwen Code, with a stand-in for its model, beside the
;; client of the real Gemini CLI.  The tests concern Qwen Code, so one Emacs is
;; enough.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defmacro gemini-companion-qwen-test--with (spec &rest body)
  "Run BODY with an Emacs that visits a.txt, Qwen Code and a Gemini client.
SPEC is (EMACS QWEN GEMINI)."
  (declare (indent 1) (debug ((symbolp symbolp symbolp) body)))
  (pcase-let ((`(,emacs ,qwen ,gemini) spec))
    `(progn
       (gemini-companion-test-require-real-client)
       (unless (file-exists-p gemini-companion-test-qwen-program)
         (gemini-companion-test-skip "Qwen Code is not installed (test/e2e/qwen)"))
       (gemini-companion-test-with-emacs
           (,emacs :mode nil :files '(("a.txt" . "one\ntwo\n")))
         (make-directory (expand-file-name ".qwen" (gemini-companion-test-home ,emacs)))
         (gemini-companion-test-visit ,emacs "a.txt")
         (gemini-companion-test-mode-on ,emacs)
         (gemini-companion-test-with-client (,gemini 'real ,emacs)
           (gemini-companion-test-with-cli
               (,qwen (gemini-companion-test-qwen-start ,emacs))
             ,@body))))))

(defun gemini-companion-qwen-test--propose (emacs qwen text)
  "Let the model of QWEN propose TEXT for a.txt in EMACS; wait for the review."
  (let ((file (gemini-companion-test-project emacs "a.txt")))
    ;; It writes only files that it has read.
    (gemini-companion-test-cli-script
     qwen `("read_file" :file_path ,file) `("write_file" :file_path ,file :content ,text)
     "All done")
    (gemini-companion-test-cli-submit qwen "please write")
    (gemini-companion-test-wait-review emacs text)))

(ert-deftest gemini-companion-qwen/an-edit-is-accepted-with-changes ()
  "It connects, knows what the user looks at, and writes the edited text.
Gemini CLI, which is connected too, receives nothing of that."
  :tags '(any-emacs)
  (gemini-companion-qwen-test--with (emacs qwen gemini)
    (gemini-companion-test-cli-submit qwen "/ide status")
    (gemini-companion-test-cli-wait-screen qwen "Connected to Emacs\\(?:.\\|\n\\)*a\\.txt (active)")
    (gemini-companion-test-wait-eval emacs '(= 2 gemini-companion-bridge-clients))
    (should (string-match-p "\\`Gemini CLI 0\\.[^ ]+, Qwen Code 1\\.0\\.0\\'"
                            (gemini-companion-test-eval
                             emacs '(string-join
                                     (sort (mapcar (lambda (session) (aref session 1))
                                                   (gemini-companion-bridge-sessions))
                                           #'string<)
                                     ", "))))
    (gemini-companion-qwen-test--propose emacs qwen "one\nTWO\n")
    (should (seq-some (lambda (text) (string-search "a.txt" text))
                      (mapcan #'gemini-companion-test-request-texts
                              (gemini-companion-test-cli-requests qwen))))
    (gemini-companion-test-accept emacs "mine\n")
    (gemini-companion-test-wait
     "the file to be written"
     (lambda () (equal (gemini-companion-test-read
                        (gemini-companion-test-project emacs "a.txt"))
                       "one\nTWO\nmine\n")))
    (gemini-companion-test-cli-wait-screen qwen "All done")
    (should (gemini-companion-test-client-connected-p gemini))
    (should-not (seq-some (lambda (line) (string-match-p "TWO\\|ide/diff" (format "%s" line)))
                          (gemini-companion-test-real-client-lines gemini)))))

(ert-deftest gemini-companion-qwen/edits-that-its-yes-ignores-are-kept ()
  "Its own yes writes its proposal; Emacs says where the user's edits are."
  :tags '(any-emacs)
  (gemini-companion-qwen-test--with (emacs qwen gemini)
    (gemini-companion-qwen-test--propose emacs qwen "one\nTWO\n")
    (gemini-companion-test-append-to-proposal emacs "mine\n")
    (gemini-companion-test-cli-answer qwen "Enter")
    (gemini-companion-test-wait-screen emacs "Qwen Code 1.0.0 ignores your edits")
    (gemini-companion-test-wait
     "the file to be written"
     (lambda () (equal (gemini-companion-test-read
                        (gemini-companion-test-project emacs "a.txt"))
                       "one\nTWO\n")))
    (should (equal (gemini-companion-test-eval
                    emacs '(gemini-companion-history-after
                            (car (gemini-companion-history-all))))
                   "one\nTWO\nmine\n"))
    (should (gemini-companion-test-client-connected-p gemini))))

;;; qwen-test.el ends here

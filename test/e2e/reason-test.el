;;; reason-test.el --- A rejection with a reason  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The real CLI in a terminal of an interactive Emacs: after the rejection its
;; model receives the user's reason, and nothing else.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defmacro gemini-companion-reason-test--with-change (spec &rest body)
  "Run BODY with an Emacs that shows a change to a.txt, and its CLI.
SPEC is (EMACS CLI START), as in `gemini-companion-test-with-emacs-and-cli'."
  (declare (indent 1) (debug ((symbolp symbolp form) body)))
  (pcase-let ((`(,emacs ,cli ,start) spec))
    `(gemini-companion-test-with-emacs-and-cli
         (,emacs ,cli '(("a.txt" . "one\n")) ,start)
       (gemini-companion-test-cli-script
        ,cli (list "write_file" :file_path (gemini-companion-test-project ,emacs "a.txt")
                   :content "two\n")
        "I see")
       (if (gemini-companion-test-cli-emacs ,cli)
           (gemini-companion-test-run
            ,emacs '(progn (gemini-companion-run)
                           (gemini-companion-send-prompt "please write")))
         (gemini-companion-test-cli-submit ,cli "please write"))
       (gemini-companion-test-wait-review ,emacs "two\n")
       ,@body)))

(defun gemini-companion-reason-test--reject (emacs reason)
  "Reject the review on the screen of EMACS by its key, for REASON."
  (gemini-companion-test-select-proposal emacs)
  (gemini-companion-test-press emacs "C-u C-c C-k" "Reject a\\.txt because:")
  (gemini-companion-test-type emacs reason)
  (gemini-companion-test-keys emacs "Enter"))

(defun gemini-companion-reason-test--wait-asked (cli text)
  "Wait for the second request to the model of CLI, which must be TEXT."
  (let ((request (gemini-companion-test-cli-wait-requests cli 2)))
    (should (equal (car (last (gemini-companion-test-request-texts request))) text))))

(gemini-companion-test-with-terminals gemini-companion-reason/it-is-the-next-prompt terminal
  "The model receives it after the rejection, and the file stays unchanged."
  (gemini-companion-reason-test--with-change
      (emacs cli (lambda (it) (gemini-companion-test-cli-start-by-command it terminal)))
    (gemini-companion-reason-test--reject emacs "use ä tabs, and 1. no \"x\"")
    (gemini-companion-reason-test--wait-asked cli "use ä tabs, and 1. no \"x\"")
    (gemini-companion-test-wait-screen emacs "Gemini CLI has what you wrote about a\\.txt")
    (gemini-companion-test-wait-no-review emacs)
    (gemini-companion-test-cli-wait-terminal cli "I see")
    (should (equal (gemini-companion-test-read (gemini-companion-test-project emacs "a.txt"))
                   "one\n"))))

(gemini-companion-test-with-terminals gemini-companion-reason/a-half-typed-prompt-is-not-sent
    terminal
  "The text to be sent is put after it."
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli '(("a.txt" . "one\n"))
             (lambda (it) (gemini-companion-test-cli-start-by-command it terminal)))
    (gemini-companion-test-run
     emacs '(progn (require 'gemini-companion-cli-compose)
                   (gemini-companion-cli-send-text "half typed" nil)))
    (gemini-companion-test-cli-wait-terminal cli "> half typed")
    (gemini-companion-test-run
     emacs '(progn (defvar gemini-companion-reason-test--outcome nil)
                   (gemini-companion-cli-send-at-rest
                    "the reason" (gemini-companion-cli-send-terminal)
                    (lambda (outcome)
                      (setq gemini-companion-reason-test--outcome outcome)))))
    (gemini-companion-test-wait-eval emacs 'gemini-companion-reason-test--outcome)
    (should (eq (gemini-companion-test-eval emacs 'gemini-companion-reason-test--outcome) 'put))
    (gemini-companion-test-cli-wait-terminal cli "> half typed *\n *the reason")
    (should-not (gemini-companion-test-cli-requests cli))))

(ert-deftest gemini-companion-reason/for-a-cli-elsewhere-it-is-in-the-kill-ring ()
  "Emacs puts the reason into the kill ring, and says that."
  (gemini-companion-reason-test--with-change (emacs cli #'gemini-companion-test-cli-start)
    (gemini-companion-reason-test--reject emacs "use tabs")
    (gemini-companion-test-wait-screen
     emacs "a\\.txt: rejected\\.  What you wrote is in the kill ring: yank it into Gemini CLI")
    (should (equal (gemini-companion-test-eval emacs '(current-kill 0)) "use tabs"))
    (gemini-companion-test-cli-wait-screen cli "Request cancelled")
    (should (= 1 (length (gemini-companion-test-cli-requests cli))))))

(ert-deftest gemini-companion-reason/it-is-kept-if-the-cli-decides-first ()
  "The typed reason is in the kill ring, and Emacs reports the outcome."
  (gemini-companion-reason-test--with-change (emacs cli #'gemini-companion-test-cli-start)
    (gemini-companion-test-select-proposal emacs)
    (gemini-companion-test-press emacs "C-u C-c C-k" "Reject a\\.txt because:")
    (gemini-companion-test-type emacs "use tabs")
    (gemini-companion-test-cli-answer cli "Escape")
    (gemini-companion-test-wait-eval emacs '(zerop (gemini-companion-review-count)))
    (gemini-companion-test-keys emacs "Enter")
    ;; The message about the outcome may follow at once.
    (gemini-companion-test-wait-eval
     emacs '(with-current-buffer "*Messages*"
              (string-search "decided in Gemini CLI; the reason is in the kill ring"
                             (buffer-string))))
    (should (equal (gemini-companion-test-eval emacs '(current-kill 0)) "use tabs"))))

;;; reason-test.el ends here

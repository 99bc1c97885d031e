;;; comment-test.el --- Comments on lines reach the model  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The user comments on a line in Emacs; then the real CLI is given a prompt in a terminal that is
;; not one of Emacs, or Emacs sends the comments to one that is.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defun gemini-companion-comment-e2e--comment (emacs text)
  "Let the user of EMACS comment TEXT on the second line of a.txt."
  (gemini-companion-test-run emacs '(progn (pop-to-buffer-same-window "a.txt")
                                           (goto-char (point-min))
                                           (forward-line 1)))
  (gemini-companion-test-m-x emacs "gemini-companion-comment" "Comment on line 2:")
  (gemini-companion-test-type emacs text)
  (gemini-companion-test-keys emacs "Enter")
  (gemini-companion-test-wait-screen emacs (concat "^two\\(?: .*\\)?\n» " (regexp-quote text))))

(defun gemini-companion-comment-e2e--texts (request)
  "Return all that the user has said in REQUEST."
  (string-join (gemini-companion-test-request-texts request) "\n"))

(defmacro gemini-companion-comment-e2e--with-hooks (spec &rest body)
  "Run BODY with an Emacs that visits a.txt, and a CLI whose hooks tell it.
SPEC is (EMACS CLI), two variables."
  (declare (indent 1) (debug ((symbolp symbolp) body)))
  (pcase-let ((`(,emacs ,cli) spec))
    `(progn
       (gemini-companion-test-require-real-client)
       (gemini-companion-test-with-emacs (,emacs :mode t :files '(("a.txt" . "one\ntwo\nthree\n")))
         (gemini-companion-test-visit ,emacs "a.txt")
         (gemini-companion-test-enable-tools ,emacs)
         (gemini-companion-test-with-cli (,cli (gemini-companion-test-cli-start-at-home ,emacs))
           ,@body)))))

(ert-deftest gemini-companion-comment-e2e/comments-go-along-with-a-prompt-from-any-terminal ()
  "The CLI says so on its screen; in Emacs they are gone then."
  :tags '(any-emacs)
  (gemini-companion-comment-e2e--with-hooks (emacs cli)
    (gemini-companion-test-wait-eval
     emacs '(seq-some #'gemini-companion-cli-session (gemini-companion-cli-all)))
    (gemini-companion-comment-e2e--comment emacs "why <this>?")
    (gemini-companion-test-wait-screen emacs "1 comment for your next prompt")
    (gemini-companion-test-m-x emacs "gemini-companion-show-context")
    (gemini-companion-test-wait-screen
     emacs "Comments for your next prompt.*\n.*  a\\.txt:2 `two`: why <this>")
    (gemini-companion-test-cli-script cli "First done")
    (gemini-companion-test-cli-submit cli "please have a look" "1 comment from Emacs")
    (gemini-companion-test-cli-wait-screen cli "First done")
    (should (string-match-p "a\\.txt:2 `two`: why &lt;this&gt;\\?"
                            (gemini-companion-comment-e2e--texts
                             (gemini-companion-test-cli-wait-requests cli 1))))
    (should-not (gemini-companion-test-eval emacs '(gemini-companion-comment--all)))
    (should (equal (gemini-companion-test-eval
                    emacs '(with-current-buffer "a.txt"
                             (list (buffer-modified-p) (overlays-in (point-min) (point-max)))))
                   '(nil nil)))
    ;; Only once.
    (gemini-companion-test-cli-script cli "Second done")
    (gemini-companion-test-cli-submit cli "and again" "Second done")
    (should (= 1 (cl-loop with texts = (gemini-companion-comment-e2e--texts
                                        (gemini-companion-test-cli-wait-requests cli 2))
                          with start = 0
                          while (string-match "a\\.txt:2" texts start)
                          do (setq start (match-end 0))
                          count t)))))

(ert-deftest gemini-companion-comment-e2e/comments-stay-if-emacs-is-blocked-during-a-prompt ()
  "For longer than the CLI waits: they go along with the next prompt."
  :tags '(any-emacs)
  (gemini-companion-comment-e2e--with-hooks (emacs cli)
    (gemini-companion-comment-e2e--comment emacs "why?")
    (gemini-companion-test-m-x emacs "eval-expression")
    (gemini-companion-test-type
     emacs "(progn (make-directory \"busy\") (while (file-exists-p \"busy\")))")
    (gemini-companion-test-keys emacs "Enter")
    (gemini-companion-test-wait
     "Emacs to be blocked"
     (lambda () (file-exists-p (gemini-companion-test-project emacs "busy"))))
    (gemini-companion-test-cli-script cli "First done")
    (gemini-companion-test-cli-submit cli "please have a look" "First done")
    (delete-directory (gemini-companion-test-project emacs "busy"))
    ;; Emacs knows of the prompt, although the CLI did not wait.
    (gemini-companion-test-wait-eval
     emacs '(equal (mapcar #'gemini-companion-cli-state (gemini-companion-cli-all)) '(done)))
    (gemini-companion-test-cli-script cli "Second done")
    (gemini-companion-test-cli-submit cli "and again" "1 comment from Emacs")
    (should (string-match-p "a\\.txt:2 `two`: why\\?"
                            (gemini-companion-comment-e2e--texts
                             (gemini-companion-test-cli-wait-requests cli 2))))))

(ert-deftest gemini-companion-comment-e2e/comments-are-sent-at-once ()
  (gemini-companion-test-require-real-client)
  (gemini-companion-test-with-emacs (emacs :mode t :files '(("a.txt" . "one\ntwo\nthree\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-with-cli (cli (gemini-companion-test-cli-start-by-command emacs 'term))
      (gemini-companion-comment-e2e--comment emacs "why?")
      (gemini-companion-test-cli-script cli "All done")
      (gemini-companion-test-m-x emacs "gemini-companion-comments-send")
      (gemini-companion-test-cli-wait-screen cli "All done")
      (should (string-match-p "My comments:\na\\.txt:2 `two`: why\\?"
                              (gemini-companion-comment-e2e--texts
                               (gemini-companion-test-cli-wait-requests cli 1))))
      (should-not (gemini-companion-test-eval emacs '(gemini-companion-comment--all))))))

;;; comment-test.el ends here

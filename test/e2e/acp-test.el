;;; acp-test.el --- Gemini CLI in another front  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The real CLI as an agent of another editor, by ACP: its user answers there, and no change waits
;; in Emacs, on which the CLI would wait, too.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defmacro gemini-companion-acp-e2e--with (spec &rest body)
  "Run BODY with an editor that speaks ACP with a CLI, which is connected.
SPEC is (EMACS CLI EDITOR): Emacs, the CLI, and the program that stands in
for the editor."
  (declare (indent 1) (debug ((symbolp symbolp symbolp) body)))
  (pcase-let ((`(,emacs ,cli ,editor) spec))
    `(progn
       (gemini-companion-test-require-real-client)
       (gemini-companion-test-with-emacs (,emacs :files '(("a.txt" . "one\n") ("b.txt" . "two\n")))
         (gemini-companion-test-visit ,emacs "a.txt")
         (let* ((,cli (gemini-companion-test-cli-make
                       ,emacs (gemini-companion-test-project ,emacs)))
                (,editor (gemini-companion-test-editor-start ,emacs ,cli)))
           (unwind-protect (progn ,@body)
             (gemini-companion-test-program-stop ,editor)
             (gemini-companion-test-cli-stop ,cli)))))))

(defun gemini-companion-acp-e2e--prompt (editor answer count)
  "Have EDITOR send a prompt, and answer each question by ANSWER.
Wait until it has ended, as the prompt number COUNT."
  (gemini-companion-test-program-send editor `((prompt . "please write") (answer . ,answer)))
  (gemini-companion-test-editor-wait editor "done" count))

(defun gemini-companion-acp-e2e--write (emacs name text)
  "Return a call of the model that writes TEXT to the file NAME in EMACS's project."
  `("write_file" :file_path ,(gemini-companion-test-project emacs name) :content ,text))

(defun gemini-companion-acp-e2e--text (emacs name)
  "Return the text of the file NAME in the project of EMACS."
  (gemini-companion-test-read (gemini-companion-test-project emacs name)))

(ert-deftest gemini-companion-acp/the-user-decides-there-only ()
  "Allowed, rejected, two edits in a turn, allowed always: each prompt ends."
  :tags '(any-emacs)
  (gemini-companion-acp-e2e--with (emacs cli editor)
    (gemini-companion-test-cli-script
     cli (gemini-companion-acp-e2e--write emacs "a.txt" "allowed\n") "Done")
    (gemini-companion-acp-e2e--prompt editor "allow_once" 1)
    (should (equal (gemini-companion-acp-e2e--text emacs "a.txt") "allowed\n"))
    (gemini-companion-test-cli-script
     cli (gemini-companion-acp-e2e--write emacs "a.txt" "rejected\n") "Done")
    (gemini-companion-acp-e2e--prompt editor "reject_once" 2)
    (should (equal (gemini-companion-acp-e2e--text emacs "a.txt") "allowed\n"))
    (gemini-companion-test-cli-script
     cli (vector (gemini-companion-acp-e2e--write emacs "a.txt" "first\n")
                 (gemini-companion-acp-e2e--write emacs "b.txt" "second\n"))
     "Done")
    (gemini-companion-acp-e2e--prompt editor "allow_once" 3)
    (should (equal (gemini-companion-acp-e2e--text emacs "b.txt") "second\n"))
    (gemini-companion-test-cli-script
     cli (gemini-companion-acp-e2e--write emacs "a.txt" "always\n") "Done")
    (gemini-companion-acp-e2e--prompt editor "allow_always" 4)
    (should (equal (gemini-companion-acp-e2e--text emacs "a.txt") "always\n"))
    ;; Nothing has ever waited in Emacs, and the status says why.
    (should-not (gemini-companion-test-eval emacs '(gemini-companion-history-all)))
    (should (string-search "you decide its changes in its own front end"
                           (gemini-companion-test-eval
                            emacs '(save-window-excursion
                                     (gemini-companion-status)
                                     (with-current-buffer "*gemini status*" (buffer-string))))))
    ;; It is told what the user looks at all the same, perhaps not before the first prompt.
    (should (equal (file-name-nondirectory
                    (alist-get 'path (alist-get 'activeFile
                                                (seq-some #'gemini-companion-test-request-context
                                                          (gemini-companion-test-cli-requests cli)))))
                   "a.txt"))))

(provide 'acp-test)
;;; acp-test.el ends here

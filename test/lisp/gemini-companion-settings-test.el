;;; gemini-companion-settings-test.el --- Tests of users' settings  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Options of Emacs, hooks and languages that many users have, and tests elsewhere do not.

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-private)
(require 'gemini-companion-tool-extension)
(require 'gemini-companion-tool-symbols)
(require 'gemini-companion-test-companion)

(declare-function with-editor-export-editor "ext:with-editor")
(defvar term-exec-hook)

(ert-deftest gemini-companion-settings/without-vc-for-git-a-repository-is-a-project ()
  (gemini-companion-test-with-project
    (let ((vc-handled-backends nil)
          (directory (gemini-companion-test-file "repo/src/")))
      (make-directory (gemini-companion-test-file "repo/.git") t)
      (find-file-noselect (gemini-companion-test-file "repo/src/a.c" ""))
      (should (member (gemini-companion-test-file "repo") (gemini-companion-workspace-roots)))
      (should (equal (gemini-companion-workspace-project directory)
                     (gemini-companion-test-file "repo/"))))))

(ert-deftest gemini-companion-settings/in-east-asian-languages-the-end-of-a-name-fits ()
  "It is what matters, and lists hid it."
  (let ((char-width-table char-width-table))
    (use-cjk-char-width-table 'ja_JP)
    (should (= (string-width "…") 2))
    (should (equal (gemini-companion-ui-shorten "src/deeply/nested/module.py" 20)
                   "…y/nested/module.py"))))

(ert-deftest gemini-companion-settings/reports-are-wrapped-even-if-lines-are-truncated ()
  (let ((before (default-value 'truncate-lines)))
    (unwind-protect
        (with-temp-buffer
          (setq-default truncate-lines t)
          (gemini-companion-report-mode)
          (should-not truncate-lines))
      (setq-default truncate-lines before))))

(ert-deftest gemini-companion-settings/in-turkish-private-files-are-private ()
  (let ((language current-language-environment))
    (unwind-protect
        (progn
          (set-language-environment "Turkish")
          (dolist (file '("/p/MINE.INI" "/ş/MINE.INI"))
            (should (gemini-companion-private-match-p "*.ini" (list file)))
            (should (gemini-companion-private-match-p "*.INI" (list file)))))
      (set-language-environment language))))

(ert-deftest gemini-companion-settings/what-other-code-binds-does-not-change-json ()
  (let ((json-object-type 'plist)
        (json-array-type 'list)
        (json-key-type 'string)
        (json-false nil))
    (should (equal (gemini-companion-ui-read-json "{\"a\": [false, {\"b\": null}]}")
                   '((a . [:json-false ((b))]))))))

(ert-deftest gemini-companion-settings/arguments-are-told-whole ()
  (let ((print-length 1)
        (print-level 1))
    (should (equal (gemini-companion-tool-symbols--signature 'seq-mapn)
                   "function: (seq-mapn function sequence &rest sequences)"))))

(ert-deftest gemini-companion-settings/nothing-is-typed-into-a-cli-when-it-starts ()
  "Magit's manual has this function in the hooks of terminals, for their shells."
  (gemini-companion-test-with-project
    (let ((term-exec-hook '(with-editor-export-editor))
          (scroll-margin 3)
          (typed nil)
          (terminal (generate-new-buffer "terminal")))
      (cl-letf (((symbol-function 'with-editor-export-editor) (lambda () (setq typed t))))
        (with-current-buffer terminal
          (gemini-companion-cli-terminals-start 'term "cat" nil process-environment)
          (should-not typed)
          ;; The last lines of the CLI would be below the window.
          (should (zerop scroll-margin))
          (delete-process (get-buffer-process terminal)))
        (with-editor-export-editor)
        (should typed)))))

;;; gemini-companion-settings-test.el ends here

;;; gemini-companion-manual-test.el --- The manual documents everything  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-companion)

(defun gemini-companion-manual-test--public ()
  "Return the names of all public commands and options."
  (dolist (file (directory-files (gemini-companion-test-path "lisp") t
                                 "\\`gemini-companion.*\\.el\\'"))
    (unless (assoc file load-history)
      (load file nil t t)))
  (let ((names nil))
    (mapatoms (lambda (symbol)
                (let ((name (symbol-name symbol)))
                  (when (and (string-prefix-p "gemini-companion-" name)
                             (not (string-match-p "--\\|-test\\|-mode\\'" name))
                             (or (commandp symbol) (custom-variable-p symbol)))
                    (push name names)))))
    names))

(ert-deftest gemini-companion-manual/it-documents-every-command-and-option ()
  (let ((manual (gemini-companion-test-read
                 (gemini-companion-test-path "docs" "gemini-companion.texi")))
        (names (gemini-companion-manual-test--public)))
    (should (> (length names) 50))
    (should-not (seq-remove (lambda (name)
                              (string-match-p
                               (concat "^@\\(?:findex\\|vindex\\|item\\) " name "$") manual))
                            names))))

(ert-deftest gemini-companion-manual/everything-documented-exists ()
  (gemini-companion-manual-test--public)
  (with-temp-buffer
    (insert-file-contents (gemini-companion-test-path "docs" "gemini-companion.texi"))
    (while (re-search-forward "gemini-companion-[a-z-]+" nil t)
      (let ((name (match-string 0)))
        (unless (member name '("gemini-companion-doctor-batch" "gemini-companion-module"))
          (ert-info (name)
            (let ((symbol (intern name)))
              (should (or (fboundp symbol) (boundp symbol) (facep symbol) (featurep symbol))))))))))

(defun gemini-companion-manual-test--customizable ()
  "Return what \\[customize-group] shows for the package in a new Emacs."
  (with-temp-buffer
    (call-process
     (expand-file-name invocation-name invocation-directory) nil '(t nil) nil
     "-Q" "--batch" "-L" (gemini-companion-test-path "lisp") "--eval"
     (prin1-to-string '(progn (require 'gemini-companion)
                              (require 'cus-edit)
                              (custom-load-symbol 'gemini-companion)
                              (prin1 (mapcar #'car (get 'gemini-companion 'custom-group))))))
    (goto-char (point-min))
    (read (current-buffer))))

(ert-deftest gemini-companion-manual/customize-shows-every-option-and-face ()
  (gemini-companion-manual-test--public)
  (let ((shown (gemini-companion-manual-test--customizable)))
    (should (memq 'gemini-companion-terminal shown))
    (mapatoms (lambda (symbol)
                (when (and (string-match-p "\\`gemini-companion-" (symbol-name symbol))
                           (not (string-match-p "--\\|-test\\|-mode\\(?:-hook\\)?\\'"
                                                (symbol-name symbol)))
                           (or (custom-variable-p symbol) (facep symbol)))
                  (ert-info ((symbol-name symbol))
                    (should (memq symbol shown))))))))

;;; gemini-companion-manual-test.el ends here

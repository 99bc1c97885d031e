;;; gemini-companion-lint-test.el --- Tests of `make lint'  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-util)

(defun gemini-companion-lint-test--run (check text)
  "Run CHECK on a package of one file with TEXT.
Return the status and the findings, without the name of the file."
  (let* ((default-directory (file-name-as-directory (gemini-companion-test-temp-directory)))
         (file (expand-file-name "lisp/a.el")))
    (unwind-protect
        (with-temp-buffer
          (make-directory "lisp")
          (write-region text nil file nil 'silent)
          (let ((status (call-process (expand-file-name invocation-name invocation-directory)
                                      nil t nil "-Q" "--batch" "-l"
                                      (gemini-companion-test-path "test" "lint.el") "--" check))
                (findings nil))
            (goto-char (point-min))
            (while (re-search-forward "^lisp/a\\.el:\\(.*\\)" nil t)
              (push (match-string 1) findings))
            (ert-info ((buffer-string) :prefix "Output: ")
              (should (memq status '(0 1))))
            (cons status (nreverse findings))))
      (delete-directory default-directory t))))

(ert-deftest gemini-companion-lint/finds-what-newer-emacsen-make-obsolete ()
  (pcase-let ((`(,status . ,findings)
               (gemini-companion-lint-test--run
                "obsolete"
                (concat "(when-let ((a b)) a)\n"
                        "(mapcar #'point-at-bol nil)\n"
                        "(gemini-companion-test-eval emacs '(if-let (a b) 'when-let))\n"
                        "(setq max-specpdl-size 1)\n"
                        "(setf (point) 1)\n"
                        "(insert (propertize \"a\" 'face font-lock-string-face))\n"
                        "(rx (or any \"a\"))\n"
                        "(require 'linum)\n"))))
    (should (eql status 1))
    (should (equal (mapcar (lambda (finding)
                             (string-match "\\`\\([0-9]+\\): \\[obsolete\\] `\\([^']*\\)'" finding)
                             (cons (string-to-number (match-string 1 finding))
                                   (match-string 2 finding)))
                           findings)
                   '((1 . "when-let") (2 . "point-at-bol") (3 . "if-let") (3 . "when-let")
                     (4 . "max-specpdl-size") (5 . "point") (6 . "font-lock-string-face")
                     (7 . "any") (8 . "linum"))))
    (should (equal (car findings)
                   "1: [obsolete] `when-let' is obsolete since Emacs 31.1: write `when-let*'"))))

(ert-deftest gemini-companion-lint/accepts-what-is-not-obsolete ()
  (should (equal (gemini-companion-lint-test--run
                  "obsolete"
                  (concat ";; when-let\n"
                          "(when-let* ((a \"(if-let x)\")) (point))\n"
                          "(defface a '((t :inherit font-lock-string-face)) \"A.\")\n"
                          "(insert (propertize \"a\" 'face 'font-lock-string-face))\n"
                          "(rx (any \"a\"))\n"
                          "(with-suppressed-warnings ((obsolete purecopy))\n"
                          "  (purecopy nil))\n"))
                 '(0))))

(ert-deftest gemini-companion-lint/coverage-is-counted-in-each-file ()
  "Edebug, by which `make coverage' counts, does not know each form of `cl-loop'."
  (let* ((points (gemini-companion-test-temp-directory))
         (process-environment (cons (concat "COVERAGE_POINTS=" points) process-environment))
         (lisp (gemini-companion-test-path "lisp")))
    (unwind-protect
        (with-temp-buffer
          (should (equal (list (call-process
                                (expand-file-name invocation-name invocation-directory) nil t nil
                                "-l" (gemini-companion-test-path "scripts" "coverage.el")
                                "-Q" "--batch" "-L" lisp "-l" "gemini-companion" "--eval"
                                (format "(dolist (file '%S) (load file nil t t))"
                                        (directory-files lisp t "\\.el\\'")))
                               (buffer-string))
                         '(0 ""))))
      (delete-directory points t))))

(provide 'gemini-companion-lint-test)
;;; gemini-companion-lint-test.el ends here

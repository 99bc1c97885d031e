;;; gemini-companion-workspace-test.el --- Tests of the workspace roots  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-companion)

(defun gemini-companion-workspace-test--root (name)
  "Return the root of the new file NAME, relative to the test's project."
  (clrhash gemini-companion-workspace--cache)
  (with-current-buffer (find-file-noselect (gemini-companion-test-file name ""))
    (file-relative-name (gemini-companion-workspace--buffer-root (current-buffer))
                        gemini-companion-test-project)))

(ert-deftest gemini-companion-workspace/a-file-belongs-to-its-project ()
  (gemini-companion-test-with-project
    (make-directory (gemini-companion-test-file "repo/.git") t)
    (should (equal (gemini-companion-workspace-test--root "repo/src/deep/a.c") "repo"))))

(ert-deftest gemini-companion-workspace/without-a-project-the-directory-counts ()
  (gemini-companion-test-with-project
    (should (equal (gemini-companion-workspace-test--root "plain/dir/a.c") "plain/dir"))))

(ert-deftest gemini-companion-workspace/places-too-wide-are-never-guessed ()
  (dolist (directory (list "/" "~/" "/tmp/" temporary-file-directory))
    (should-not (gemini-companion-workspace--find-root directory))))

(ert-deftest gemini-companion-workspace/remote-directories-are-not-looked-at ()
  (should-not (gemini-companion-workspace--find-root "/ssh:nowhere.invalid:/dir/")))

(ert-deftest gemini-companion-workspace/terminals-belong-to-projects-too ()
  (gemini-companion-test-with-project
    (with-temp-buffer
      (setq default-directory gemini-companion-test-project)
      (should-not (gemini-companion-workspace--buffer-root (current-buffer)))
      (setq major-mode 'term-mode)
      (should (equal (gemini-companion-workspace--buffer-root (current-buffer))
                     (directory-file-name gemini-companion-test-project))))))

(ert-deftest gemini-companion-workspace/the-discovery-file-follows-the-open-files ()
  (gemini-companion-test-with-project
    (find-file-noselect (gemini-companion-test-file "one/a" ""))
    (gemini-companion-mode 1)
    (let ((roots (lambda ()
                   (let ((file (car (directory-files (gemini-companion-environment-directory)
                                                     t "json\\'"))))
                     (split-string
                      (alist-get 'workspacePath
                                 (gemini-companion-test-json-decode
                                  (gemini-companion-test-bytes file)))
                      ":"))))
          (one (gemini-companion-test-file "one"))
          (two (gemini-companion-test-file "two")))
      (should (member one (funcall roots)))
      (should-not (member two (funcall roots)))
      (let ((buffer (find-file-noselect (gemini-companion-test-file "two/b" ""))))
        (gemini-companion-test-wait "the second root"
                                    (lambda () (member two (funcall roots))))
        (kill-buffer buffer)
        (gemini-companion-test-wait "the second root to go"
                                    (lambda () (not (member two (funcall roots)))))))))

;;; gemini-companion-workspace-test.el ends here

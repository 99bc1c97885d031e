;;; gemini-companion-follow-test.el --- Tests of following files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-follow-test--with (text &rest body)
  "Evaluate BODY in a buffer that visits the file a.txt with TEXT and follows it."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-project
     (with-current-buffer
         (find-file-noselect (gemini-companion-test-file "a.txt" ,text))
       (unwind-protect (progn ,@body)
         (gemini-companion-follow-stop)))))

(defun gemini-companion-follow-test--write (text)
  "Write TEXT to the followed file as the client does, and wait."
  (gemini-companion-follow buffer-file-name)
  (gemini-companion-test-write buffer-file-name text)
  (gemini-companion-test-wait "the file to be followed"
                              (lambda () (null gemini-companion-follow--timers))))

(ert-deftest gemini-companion-follow/the-buffer-shows-the-new-text-and-point-stays ()
  (gemini-companion-follow-test--with "one\ntwo\nthree\nfour\n"
    (search-forward "thr")
    (let ((marker (copy-marker (+ (point) 4))))
      (gemini-companion-follow-test--write "zero\none\nthree\nfour\nfive\n")
      (should (equal (buffer-string) "zero\none\nthree\nfour\nfive\n"))
      (should (looking-at "ee\nfour"))
      (should (equal (char-after marker) ?o))
      (should-not (buffer-modified-p))
      (should (verify-visited-file-modtime)))))

(ert-deftest gemini-companion-follow/undo-takes-it-back ()
  (gemini-companion-follow-test--with "one\n"
    (gemini-companion-follow-test--write "two\n")
    (undo-boundary)
    (let ((inhibit-message t)) (undo))
    (should (equal (buffer-string) "one\n"))))

(ert-deftest gemini-companion-follow/edits-of-the-user-are-kept ()
  (gemini-companion-follow-test--with "one\n"
    (let ((create-lockfiles nil)) (insert "mine "))
    (gemini-companion-follow-test--write "two\n")
    (should (equal (buffer-string) "mine one\n"))
    (should (buffer-modified-p))))

(ert-deftest gemini-companion-follow/line-ends-and-narrowing-stay ()
  (gemini-companion-follow-test--with "one\r\ntwo\r\n"
    (should (equal (buffer-string) "one\ntwo\n"))
    (narrow-to-region 1 4)
    (gemini-companion-follow-test--write "one!\r\ntwo\r\n")
    (should (buffer-narrowed-p))
    (widen)
    (should (equal (buffer-string) "one!\ntwo\n"))
    (should (eq (coding-system-eol-type buffer-file-coding-system) 1))))

(ert-deftest gemini-companion-follow/other-line-ends-are-understood ()
  (gemini-companion-follow-test--with "one\r\ntwo\r\n"
    (gemini-companion-follow-test--write "one\ntwo, three\n")
    (should (equal (buffer-string) "one\ntwo, three\n"))
    (should (eq (coding-system-eol-type buffer-file-coding-system) 0))))

(ert-deftest gemini-companion-follow/line-ends-that-cannot-be-told-are-as-before ()
  (gemini-companion-follow-test--with "one\r\ntwo\r\n"
    (gemini-companion-follow-test--write "")
    (should (eq (coding-system-eol-type buffer-file-coding-system) 1))))

(ert-deftest gemini-companion-follow/another-encoding-is-understood ()
  "Clients write UTF-8, whatever there was."
  (gemini-companion-follow-test--with "one\n"
    (let ((coding-system-for-write 'latin-1-unix) (create-lockfiles nil))
      (insert "é\n")
      (write-region nil nil buffer-file-name nil 0))
    (revert-buffer t t)
    (should (eq (coding-system-base buffer-file-coding-system) 'iso-latin-1))
    (should (equal (buffer-string) "é\none\n"))
    (gemini-companion-follow-test--write "é and ü\none\n")
    (should (equal (buffer-string) "é and ü\none\n"))
    (should (eq (coding-system-type buffer-file-coding-system) 'utf-8))))

(ert-deftest gemini-companion-follow/the-encoding-that-the-user-chose-stays ()
  (gemini-companion-follow-test--with "one\n"
    (let ((coding-system-for-read 'latin-1-unix))
      (revert-buffer t t))
    (gemini-companion-follow-test--write "é\n")
    (should (equal (buffer-string) "Ã©\n"))))

(ert-deftest gemini-companion-follow/a-read-only-buffer-follows ()
  (gemini-companion-follow-test--with "one\n"
    (read-only-mode 1)
    (gemini-companion-follow-test--write "two\n")
    (should (equal (buffer-string) "two\n"))
    (should buffer-read-only)))

(ert-deftest gemini-companion-follow/what-a-link-leads-to-is-followed ()
  (gemini-companion-test-with-project
    (let ((link (gemini-companion-test-file "link.txt")))
      (make-symbolic-link (gemini-companion-test-file "a.txt" "one\n") link)
      (with-current-buffer (find-file-noselect link)
        (gemini-companion-follow-test--write "two!\n")
        (should (equal (buffer-string) "two!\n"))))))

(ert-deftest gemini-companion-follow/what-was-just-written-is-shown ()
  (gemini-companion-follow-test--with "one\n"
    (gemini-companion-test-write buffer-file-name "two\n")
    (should-not (gemini-companion-follow-now buffer-file-name))
    (should (equal (buffer-string) "two\n"))
    (let ((create-lockfiles nil)) (insert "mine "))
    (should (eq (gemini-companion-follow-now buffer-file-name) (current-buffer)))
    (should (equal (buffer-string) "mine two\n"))
    (set-buffer-modified-p nil)
    (delete-file buffer-file-name)
    (should (eq (gemini-companion-follow-now buffer-file-name) (current-buffer)))
    (should-not (gemini-companion-follow-now "/no/such/file"))))

(ert-deftest gemini-companion-follow/a-file-that-is-not-written-is-let-go ()
  (gemini-companion-follow-test--with "one\n"
    (let ((gemini-companion-follow--looks 2))
      (gemini-companion-follow buffer-file-name)
      (gemini-companion-test-wait "the end of patience"
                                  (lambda () (null gemini-companion-follow--timers))))
    (should (equal (buffer-string) "one\n"))))

;;; gemini-companion-follow-test.el ends here

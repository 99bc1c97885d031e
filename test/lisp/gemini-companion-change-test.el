;;; gemini-companion-change-test.el --- Tests of comparing texts  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-review)
(require 'gemini-companion-native)
(require 'gemini-companion-test-companion)

(defun gemini-companion-change-test--of (bytes text &optional file)
  "Return the size of the change of FILE from BYTES to TEXT and the remarks on it."
  (gemini-companion-native-load)
  (let ((change (gemini-companion-change-of (or file "/a.txt") bytes text)))
    (cons (gemini-companion-change-size change) (gemini-companion-change-remarks change))))

(ert-deftest gemini-companion-change/sizes-and-remarks ()
  (pcase-dolist
      (`(,bytes ,text . ,expected)
       `(("one\ntwo\n" "one\n2\n3\n" "+2 -1")
         ("one\r\ntwo\r\n" "one\n2\n" "+1 -1")
         ("one\r\ntwo\n" "one\n2\n" "+1 -1" "All line ends become CRLF")
         ("one\r\ntwo\n" "one\r\n2\n" "+1 -1")
         ;; A CR alone ends no line.
         ("one\r\ntwo\rtwo\r\nthree\r\n" "one\ntwo\rtwo\n3\n" "+1 -1")
         ("one\r\ntwo\rtwo\nthree\n" "one\ntwo\rtwo\n3\n" "+1 -1" "All line ends become CRLF")
         (nil "one\ntwo\n" "+2")
         (nil "" "+0")
         ("" "one\n" "+1 -0")
         ("one\n" "one\n" "+0 -0" "Changes nothing")
         ("one\n" "" "+0 -1" "Empties the file")
         ("one\n" "two" "+1 -1" "No newline at the end")
         (nil "two" "+1" "No newline at the end")
         ("one" "two" "+1 -1")
         (,(apply #'concat (make-list 20 "line\n")) "line\nother\n" "+1 -19" "Removes 19 of 20 lines")
         ("caf\351\n" "caf\ufffd\n" "+1 -1" "Encoding becomes UTF-8")
         (unreadable "one\n" "?")))
    (ert-info ((format "%S to %S" bytes text))
      (should (equal (gemini-companion-change-test--of bytes text) expected)))))

(ert-deftest gemini-companion-change/a-large-text-is-not-counted ()
  (should (equal (gemini-companion-change-test--of "one\n" (make-string 4000000 ?x)) '("large"))))

(ert-deftest gemini-companion-change/any-text-is-compared-and-merged ()
  "Texts may have raw bytes, which are not characters."
  (gemini-companion-native-load)
  (let ((odd (list "ä" (string #x3fffff) "\0" "😀" "\r")))
    (dolist (text odd)
      (should (equal (gemini-companion-change-diff "" (concat text "\n"))
                     (format "@@ -0,0 +1 @@\n+%s\n" text))))
    (let ((base (concat (string-join odd "\n") "\nend\n")))
      (should (equal (gemini-companion-change-merge
                      base (concat "first\n" base) (concat base "last\n"))
                     (concat "first\n" base "last\n"))))))

(ert-deftest gemini-companion-change/an-overlap-is-reported-as-a-line ()
  (gemini-companion-native-load)
  (should (= (gemini-companion-change-merge "1\n2\n3\n" "1\ntwo\n3\n" "0\n1\nzwei\n3\n") 3)))

(ert-deftest gemini-companion-change/a-file-is-read-as-its-client-reads-it ()
  "As UTF-8, if it is, with a byte order mark if it proposes one; else as Emacs does."
  (gemini-companion-native-load)
  (let ((text (lambda (bytes proposed)
                (gemini-companion-change-decode "/a.txt" bytes proposed))))
    (with-coding-priority '(iso-latin-1)
      (should (equal (funcall text "\303\244\n" "ä") "ä\n")))
    (should (equal (funcall text "\357\273\277a\n" "") "a\n"))
    (should (equal (funcall text "\357\273\277a\n" "\ufeff") "\ufeffa\n"))
    (should (equal (funcall text "a\n" "\ufeff") "a\n"))
    ;; For CRLF line ends clients propose LF, unless the text has a CRLF.
    (should (equal (funcall text "a\r\nb\r\n" "a\n") "a\nb\n"))
    (should (equal (funcall text "a\r\nb\r\n" "a\r\n") "a\r\nb\r\n"))
    (should (equal (funcall text "a\rb" "") "a\rb"))
    (should (equal (funcall text "a\rb\r\n" "a\rc\n") "a\rb\n"))
    (should (equal (funcall text "-*- coding: latin-1 -*-\n\344\n" "")
                   "-*- coding: latin-1 -*-\nä\n"))
    (should (equal (funcall text "-*- coding: latin-1 -*-\r\n\344\r\n" "")
                   "-*- coding: latin-1 -*-\nä\n"))
    ;; The client replaces what it cannot read.
    (should (equal (funcall text "\0\377" "") (string 0 #x3fffff)))
    (should (equal (funcall text "\320\277\321\200\377\r\n" "")
                   (concat "пр" (string #x3fffff) "\n")))))

(ert-deftest gemini-companion-change/a-file-is-read-in-the-encoding-that-the-user-chose ()
  "By \\`C-x RET c' or \\`C-x RET r'; but its line ends are for its client what they are."
  (gemini-companion-test-with-project
    (gemini-companion-native-load)
    (let ((file (gemini-companion-test-file "a.txt"))
          (bytes (encode-coding-string "日本語\r\n二\r\n" 'euc-jp-unix)))
      (let ((coding-system-for-write 'binary))
        (write-region bytes nil file nil 0))
      (dolist (coding '(euc-jp euc-jp-unix))
        (with-current-buffer (let ((coding-system-for-read coding)) (find-file-noselect file))
          (should (equal (gemini-companion-change-test--of bytes "日本語\n三\n" file)
                         '("+1 -1" "Encoding becomes UTF-8")))
          (should (equal (gemini-companion-change-decode file bytes "日本語\n三\n")
                         "日本語\n二\n"))
          (kill-buffer))))))

(provide 'gemini-companion-change-test)
;;; gemini-companion-change-test.el ends here

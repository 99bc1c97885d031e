;;; gemini-companion-tool-symbols-test.el --- Tests of symbols for the model  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-tool-symbols)
(require 'gemini-companion-test-tools)

(declare-function eglot-shutdown "ext:eglot")
(declare-function jsonrpc--process "ext:jsonrpc")
(defvar eglot-ignored-server-capabilities)
(defvar lsp-managed-mode)

(defconst gemini-companion-tool-symbols-test--text
  "def one = 1\n𝕏 two = one + one_more\ndef one_more = 2\n"
  "The text of a file with a language server.")

(defun gemini-companion-tool-symbols-test--locations (&rest places)
  "Let the server find PLACES, too, each (FILE LINE)."
  (gemini-companion-test-write
   (gemini-companion-test-file "server/locations.json")
   (json-serialize
    (vconcat (mapcar (pcase-lambda (`(,file ,line))
                       (let ((position `(:line ,(1- line) :character 0)))
                         `(:uri ,(concat "file://" file)
                                :range (:start ,position :end ,position))))
                     places)))))

;;;; By Eglot

(ert-deftest gemini-companion-tool-symbols/a-server-finds-definitions ()
  (gemini-companion-test-with-server buffer gemini-companion-tool-symbols-test--text
    (narrow-to-region (point-min) (1+ (point-min)))
    (should (equal (gemini-companion-test-call-tool "findDefinition" "a.served" 2 "one")
                   "a.served:1: def one = 1"))
    (should (equal (gemini-companion-test-call-tool "findDefinition" "a.served" 2 "one_more")
                   "a.served:3: def one_more = 2"))
    (should (equal (gemini-companion-test-call-tool "findDefinition" "a.served" 2 "two")
                   "Nothing was found."))
    (should (buffer-narrowed-p))
    (widen)
    ;; The server gets this edit first.
    (goto-char (point-min))
    (insert "def two = 3\n")
    (should (equal (gemini-companion-test-call-tool "findDefinition" "a.served" 3 "two")
                   "a.served:1: def two = 3"))
    (should (looking-at "def one"))))

(ert-deftest gemini-companion-tool-symbols/references-in-other-files-have-their-lines ()
  (gemini-companion-test-with-server buffer gemini-companion-tool-symbols-test--text
    (gemini-companion-test-file "b/c.served" "first\n  the one here\none\n")
    (gemini-companion-tool-symbols-test--locations
     (list (gemini-companion-test-file "b/c.served") 3)
     (list (gemini-companion-test-file "b/c.served") 2)
     (list (gemini-companion-test-file "b/c.served") 2)
     (list (gemini-companion-test-file ".env") 1)
     (list "/usr/lib/other.served" 7)
     (list (gemini-companion-test-file "gone.served") 4))
    (should (equal (gemini-companion-test-call-tool "findReferences" "a.served" 1 "one")
                   "a.served:1: def one = 1
a.served:2: 𝕏 two = one + one_more
b/c.served:2: the one here
b/c.served:3: one
gone.served:4:
(2 more in withheld files)"))
    (should-not (find-buffer-visiting (gemini-companion-test-file "b/c.served")))))

(ert-deftest gemini-companion-tool-symbols/a-server-describes-symbols ()
  (gemini-companion-test-with-server buffer gemini-companion-tool-symbols-test--text
    (should (equal (gemini-companion-test-call-tool "describeSymbol" "a.served" 2 "one_more")
                   "**one_more**: a word"))
    (should (equal (gemini-companion-test-call-tool "describeSymbol" "a.served" 2 "=")
                   "Nothing is known about it."))))

(ert-deftest gemini-companion-tool-symbols/a-slow-server-is-not-waited-for ()
  (gemini-companion-test-with-server buffer gemini-companion-tool-symbols-test--text
    (gemini-companion-test-server-order "hold-definition")
    (let ((first (gemini-companion-test-tools-begin "findDefinition" "a.served" 2 "one"))
          (second (gemini-companion-test-tools-begin "findDefinition" "a.served" 2 "one_more"))
          (cancelled (gemini-companion-test-tools-begin "findDefinition" "a.served" 2 "one")))
      ;; Others are answered meanwhile.
      (should (equal (gemini-companion-test-call-tool "describeSymbol" "a.served" 2 "one")
                     "**one**: a word"))
      (should-not (gemini-companion-test-tools-answer first))
      (gemini-companion-bridge-handle-event 'cancel-call cancelled)
      (gemini-companion-test-server-order "hold-definition" 'remove)
      (should (equal (gemini-companion-test-tools-wait second) "a.served:3: def one_more = 2"))
      (should (equal (gemini-companion-test-tools-wait first) "a.served:1: def one = 1"))
      (gemini-companion-test-call-tool "describeSymbol" "a.served" 2 "one")
      (should-not (gemini-companion-test-tools-answer cancelled)))))

(ert-deftest gemini-companion-tool-symbols/a-server-that-answers-too-late-fails ()
  (gemini-companion-test-with-server buffer gemini-companion-tool-symbols-test--text
    (gemini-companion-test-server-order "hold-definition")
    (let ((gemini-companion-tool-patience 1))
      (should (equal (gemini-companion-test-call-tool "findDefinition" "a.served" 2 "one")
                     '("The language server: no answer for 1 seconds"))))))

(ert-deftest gemini-companion-tool-symbols/a-server-that-dies-fails ()
  (gemini-companion-test-with-server buffer gemini-companion-tool-symbols-test--text
    (gemini-companion-test-server-order "die")
    (should (string-prefix-p
             "The language server: "
             (car (gemini-companion-test-call-tool "findReferences" "a.served" 2 "one"))))
    (should (equal (gemini-companion-test-call-tool "findReferences" "a.served" 2 "one")
                   '("No language server in this buffer: use grep_search")))))

(ert-deftest gemini-companion-tool-symbols/what-a-server-lacks-is-said ()
  (gemini-companion-test-with-server buffer gemini-companion-tool-symbols-test--text
    (let ((eglot-ignored-server-capabilities '(:hoverProvider)))
      (should (equal (gemini-companion-test-call-tool "describeSymbol" "a.served" 2 "one")
                     '("The language server of this file cannot do that: use grep_search"))))))

(ert-deftest gemini-companion-tool-symbols/a-buffer-may-be-killed-meanwhile ()
  (gemini-companion-test-with-server buffer gemini-companion-tool-symbols-test--text
    (gemini-companion-test-open "b.served" "one\n")
    (gemini-companion-test-server-order "hold-definition")
    (let ((id (gemini-companion-test-tools-begin "findDefinition" "a.served" 2 "one")))
      (set-buffer-modified-p nil)
      (kill-buffer buffer)
      (gemini-companion-test-server-order "hold-definition" 'remove)
      (should (equal (gemini-companion-test-tools-wait id) "a.served:1: def one = 1")))))

;;;; By lsp-mode

(defun gemini-companion-tool-symbols-test--table (object)
  "Return OBJECT, a plist, as hash tables with strings as keys."
  (let ((table (make-hash-table :test #'equal)))
    (cl-loop for (key value) on object by #'cddr
             do (puthash (substring (symbol-name key) 1)
                         (if (keywordp (car-safe value))
                             (gemini-companion-tool-symbols-test--table value)
                           value)
                         table))
    table))

(ert-deftest gemini-companion-tool-symbols/lsp-mode-answers-later ()
  (gemini-companion-test-with-tools
    (with-current-buffer (gemini-companion-test-open "a.txt" "one\ntwo one\n")
      (setq-local lsp-managed-mode t)
      (let (requests)
        (cl-letf (((symbol-function 'lsp-feature?) #'always)
                  ((symbol-function 'lsp--uri-to-path)
                   (lambda (uri) (string-remove-prefix "file://" uri)))
                  ((symbol-function 'lsp--text-document-position-params)
                   (lambda () (list :position (point))))
                  ((symbol-function 'lsp-request-async)
                   (lambda (method parameters callback &rest options)
                     (push (list method parameters callback (plist-get options :error-handler))
                           requests))))
          (dolist (convert (list #'identity #'gemini-companion-tool-symbols-test--table))
            (let ((id (gemini-companion-test-tools-begin "findReferences" "a.txt" 2 "one")))
              (pcase-let ((`(,method ,parameters ,callback ,_) (car requests)))
                (should (equal method "textDocument/references"))
                (should (equal parameters
                               '(:position 9 :context (:includeDeclaration t))))
                (funcall callback
                         (vector (funcall convert
                                          `(:uri ,(concat "file://" buffer-file-name)
                                                 :range (:start (:line 1 :character 4))))
                                 (funcall convert
                                          `(:targetUri ,(concat "file://" buffer-file-name)
                                                       :targetSelectionRange
                                                       (:start (:line 0 :character 0)))))))
              (should (equal (gemini-companion-test-tools-wait id)
                             "a.txt:1: one\na.txt:2: two one"))))
          (let ((id (gemini-companion-test-tools-begin "describeSymbol" "a.txt" 2 "two")))
            (funcall (nth 2 (car requests))
                     (list :contents (vector "word" '(:language "c" :value "int two"))))
            (should (equal (gemini-companion-test-tools-wait id) "word\n\nint two")))
          (let ((id (gemini-companion-test-tools-begin "findDefinition" "a.txt" 2 "two")))
            (funcall (nth 3 (car requests)) '(:message "broken"))
            (should (equal (gemini-companion-test-tools-wait id)
                           '("The language server: broken")))))))))

;;;; Emacs Lisp

(ert-deftest gemini-companion-tool-symbols/elisp-is-known-to-emacs ()
  (gemini-companion-test-with-tools
    (gemini-companion-test-open
     "a.el" "(defun gc-test-first () (gc-test-second (car nil)))\n\n(cl-defstruct (gc-test-third))\n")
    (gemini-companion-test-file
     "b.el" "(require 'cl-lib)\n(defun gc-test-second (list &optional other)\n  \"Do LIST.\"\n  nil)\n")
    (load (gemini-companion-test-file "b.el") nil t)
    (unwind-protect
        (let ((call #'gemini-companion-test-call-tool))
          (should (equal (funcall call "findDefinition" "a.el" 1 "gc-test-second")
                         "b.el:2: (defun gc-test-second (list &optional other)"))
          (should (equal (funcall call "findDefinition" "a.el" 3 "gc-test-third")
                         "a.el:3: (cl-defstruct (gc-test-third))"))
          (should (equal (funcall call "findDefinition" "a.el" 1 "defun")
                         "Nothing was found.\n(1 more in withheld files)"))
          (should (equal (funcall call "describeSymbol" "a.el" 1 "gc-test-second")
                         "gc-test-second is a function: (gc-test-second list &optional other)
Do LIST."))
          (should (string-prefix-p "car is a function: (car list)\n"
                                   (funcall call "describeSymbol" "a.el" 1 "car")))
          (should (string-prefix-p "Nothing is known about it"
                                   (funcall call "describeSymbol" "a.el" 1 "gc-test-first")))
          (should (equal (funcall call "findReferences" "a.el" 1 "car")
                         '("No language server in this buffer: use grep_search")))
          (should-not (find-buffer-visiting (gemini-companion-test-file "b.el"))))
      (fmakunbound 'gc-test-second))))

(ert-deftest gemini-companion-tool-symbols/long-lines-do-not-keep-definitions-from-being-found ()
  "Searched without limits, these took hours, or more stack than there is."
  (gemini-companion-test-with-tools
    (dolist (word '("d" "def" "(def" "(def " "é" " "))
      (ert-info (word)
        (let ((line (apply #'concat "(" (make-list (/ 1000000 (length word)) word))))
          (gemini-companion-test-open
           "a.el" (concat "gc-test-found\n" line "\n(defun gc-test-found ())\n"))
          (should (equal (gemini-companion-test-call-tool "findDefinition" "a.el" 1
                                                          "gc-test-found")
                         "a.el:3: (defun gc-test-found ())"))
          (gemini-companion-ui-kill-buffer "a.el"))))))

(ert-deftest gemini-companion-tool-symbols/many-definitions-are-found ()
  (gemini-companion-test-with-tools
    (gemini-companion-test-open "a.el" (apply #'concat (make-list 200000 "(def gc-test-x)\n\n")))
    (let ((answer (gemini-companion-test-call-tool "findDefinition" "a.el" 1 "gc-test-x")))
      (should (string-prefix-p "a.el:1: (def gc-test-x)\na.el:3: (def gc-test-x)\n" answer))
      (should (string-suffix-p "\n(10 more)" answer)))))

(ert-deftest gemini-companion-tool-symbols/blanks-in-an-answer-of-a-server-take-no-time ()
  (let ((blanks (make-string 1000000 ?\n)))
    (should (equal (gemini-companion-tool-symbols--hover-text
                    (list :contents (concat blanks "a" blanks "b" blanks)))
                   (concat "a" blanks "b")))))

(ert-deftest gemini-companion-tool-symbols/variables-are-described ()
  (should (string-prefix-p "fill-column is a user option\nColumn beyond which"
                           (gemini-companion-tool-symbols--elisp-describe "fill-column")))
  (should (string-prefix-p "bold is a face\nBasic bold face."
                           (gemini-companion-tool-symbols--elisp-describe "bold"))))

;;;; What cannot be done

(ert-deftest gemini-companion-tool-symbols/wrong-places-fail ()
  (gemini-companion-test-with-tools
    (gemini-companion-test-open "a.txt" "one\nOne\ntwo\n")
    (dolist (tool '("findDefinition" "findReferences" "describeSymbol"))
      (pcase-dolist (`(,path ,line ,symbol ,reason)
                     '(("a.txt" 1 "one" "No language server in this buffer: use grep_search")
                       ("a.txt" 2 "one" "Line 2 has no one")
                       ("a.txt" 1 "none" "Line 1 has no none")
                       ("a.txt" 99 "two" "Line 99 has no two")
                       ("a.txt" -5 "two" "Line -5 has no two")
                       ("a.txt" 1 "" "The symbol is empty")
                       ("b.txt" 1 "one" "b.txt is not open in Emacs; showFile opens it")
                       (".env" 1 "one" "This file is withheld: .env")))
        (ert-info ((format "%s %s %s" tool path line))
          (should (equal (gemini-companion-test-call-tool tool path line symbol)
                         (list reason))))))))

;;; gemini-companion-tool-symbols-test.el ends here

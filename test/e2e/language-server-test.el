;;; language-server-test.el --- Tools that ask language servers  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the tools answer with a real language server, which publishes diagnostics
;; when and in as many parts as it likes.  The client is the program that CLIs start
;; for the tools.

;;; Code:

(require 'gemini-companion-test-served)

;;;; A real server

(defconst gemini-companion-language-server-test--program
  (gemini-companion-test-path "test" "e2e" "lsp" "node_modules" "typescript-language-server"
                              "lib" "cli.mjs")
  "The real language server.")

(defconst gemini-companion-language-server-test--files
  '(("jsconfig.json" . "{\"compilerOptions\": {\"checkJs\": true, \"types\": []}}\n")
    ("lib.js" . "/** Twice as much.
 * @param {number} x */
export function twice(x) { return 2 * x; }
")
    ("a.js" . "import { twice } from './lib.js';
twice('one')"))
  "A project in JavaScript.")

(defconst gemini-companion-language-server-test--fault
  "error: typescript [2345]: Argument of type 'string' is not assignable to parameter of \
type 'number'."
  "What the server reports of a call of `twice' with a string.")

(defun gemini-companion-language-server-test--serve-javascript (emacs)
  "Visit a.js in EMACS, with the real server, and wait until that has checked it."
  (gemini-companion-test-served-serve
   emacs "a.js" 'js-mode
   `(,(gemini-companion-test-node) ,gemini-companion-language-server-test--program "--stdio"
     :initializationOptions
     ;; It would ask a registry for types.
     (:disableAutomaticTypingAcquisition t :tsserver (:useSyntaxServer "never"))))
  (gemini-companion-test-wait-eval emacs '(and (flymake-diagnostics) t) 60))

(defmacro gemini-companion-language-server-test--with-javascript (spec &rest body)
  "Run BODY with an Emacs that visits a.js, and its tools.
SPEC is (EMACS TOOLS), two variables."
  (declare (indent 1) (debug ((symbolp symbolp) body)))
  `(progn
     (gemini-companion-test-served-require
      gemini-companion-language-server-test--program)
     (gemini-companion-test-with-served
         (,@spec gemini-companion-language-server-test--files
                 (gemini-companion-language-server-test--serve-javascript ,(car spec)))
       ,@body)))

(defun gemini-companion-language-server-test--last-line (emacs text)
  "Type TEXT in EMACS in place of the last line."
  (gemini-companion-test-keys emacs "M->" "C-a" "C-k")
  (gemini-companion-test-type emacs text)
  (gemini-companion-test-wait-eval
   emacs `(save-excursion (forward-line 0) (search-forward ,text (line-end-position) t))))

(ert-deftest gemini-companion-language-server/diagnostics-are-those-of-the-text-just-typed ()
  "The whole answer is compared: nothing is said to be out of date."
  :tags '(any-emacs)
  (gemini-companion-language-server-test--with-javascript (emacs tools)
    (pcase-dolist (`(,text ,expected)
                   ;; The server reports this error first, with the fault of the old text.
                   `(("twice(2" "a.js:2:7: error: typescript [1005]: ')' expected.")
                     ("twice(3)" "No diagnostics.")
                     ("twice('two')" ,(concat "a.js:2:7: "
                                              gemini-companion-language-server-test--fault))))
      (gemini-companion-language-server-test--last-line emacs text)
      (should (equal (gemini-companion-test-served-call
                      tools "getDiagnostics" :path "a.js")
                     expected)))))

(ert-deftest gemini-companion-language-server/diagnostics-are-those-of-a-changed-file ()
  "A client has written it, and Emacs takes it for the call; or the user reverts it.
Then the server reports first that a text that is closed has no faults."
  :tags '(any-emacs)
  (gemini-companion-language-server-test--with-javascript (emacs tools)
    (pcase-dolist (`(,line . ,revert) '((3) (4 . (revert-buffer t t t))))
      (gemini-companion-test-write
       (gemini-companion-test-project emacs "a.js")
       (concat "import { twice } from './lib.js';" (make-string (1- line) ?\n) "twice('two')"))
      (when revert (gemini-companion-test-run emacs revert))
      (should (equal (gemini-companion-test-served-call
                      tools "getDiagnostics" :path "a.js")
                     (format "a.js:%d:7: %s" line
                             gemini-companion-language-server-test--fault))))
    (should-not (string-search "after-revert-hook" (gemini-companion-test-report emacs)))))

(ert-deftest gemini-companion-language-server/one-that-reports-nothing-is-not-waited-for-long ()
  "This server does so if there was nothing to report and still is not."
  :tags '(any-emacs)
  (gemini-companion-language-server-test--with-javascript (emacs tools)
    (gemini-companion-language-server-test--last-line emacs "twice(3)")
    (should (equal (gemini-companion-test-served-call
                    tools "getDiagnostics" :path "a.js")
                   "No diagnostics."))
    (gemini-companion-language-server-test--last-line emacs "twice(4)")
    (should (equal (gemini-companion-test-served-call
                    tools "getDiagnostics" :path "a.js")
                   "No diagnostics.
(a.js: the language server has reported nothing about the present text; some do that if they find \
nothing new)"))))

(ert-deftest gemini-companion-language-server/symbols-are-found ()
  "The text has changed, so that the file has them in other lines."
  :tags '(any-emacs)
  (gemini-companion-language-server-test--with-javascript (emacs tools)
    (gemini-companion-test-press emacs "M-< Enter" '(buffer-modified-p))
    (let ((place '(:path "a.js" :line 3 :symbol "twice")))
      (should (equal (apply #'gemini-companion-test-served-call
                            tools "findDefinition" place)
                     "lib.js:3: export function twice(x) { return 2 * x; }"))
      (should (equal (apply #'gemini-companion-test-served-call
                            tools "findReferences" place)
                     "a.js:2: import { twice } from './lib.js';
a.js:3: twice('one')
lib.js:3: export function twice(x) { return 2 * x; }"))
      (let ((text (apply #'gemini-companion-test-served-call
                         tools "describeSymbol" place)))
        (should (string-search "twice(x: number): number" text))
        (should (string-search "Twice as much." text))))))

;;; language-server-test.el ends here

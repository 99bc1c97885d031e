;;; language-server-test.el --- Tools that ask language servers  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the tools answer with a real language server, which publishes diagnostics
;; when and in as many parts as it likes; and that nobody who types notices a
;; server that is slow, which is a fake one.  The client is the program that CLIs
;; start for the tools.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path
               (expand-file-name "../support"
                                 (file-name-directory (macroexp-file-name)))))
(require 'gemini-companion-test-client)

;;;; Emacs with a server, and a client of its tools

(defconst gemini-companion-language-server-test--program
  (gemini-companion-test-path "test" "e2e" "lsp" "node_modules" "typescript-language-server"
                              "lib" "cli.mjs")
  "The real language server.")

(defun gemini-companion-language-server-test--require (&optional program)
  "Skip the current test, with a message, without Eglot, Node or PROGRAM."
  (let ((reason (cond ((not (gemini-companion-test-node)) "Node 20 or newer is missing")
                      ((and program (not (file-exists-p program)))
                       "the language server is not installed (test/e2e/lsp)")
                      ((not (gemini-companion-language-server-test--eglot-p))
                       "this Emacs has no Eglot"))))
    (when reason (gemini-companion-test-skip "%s" reason))))

(defun gemini-companion-language-server-test--eglot-p ()
  "Return non-nil if the Emacs to test has Eglot."
  (zerop (call-process (gemini-companion-test--program) nil nil nil "-Q" "--batch" "--eval"
                       "(kill-emacs (if (locate-library \"eglot\") 0 1))")))

(defun gemini-companion-language-server-test--serve (emacs file mode command)
  "Visit FILE in EMACS with the major mode MODE and the language server COMMAND."
  (gemini-companion-test-eval
   emacs `(progn
            (require 'eglot)
            (setq eglot-autoreconnect nil)
            (push '(,mode . ,command) eglot-server-programs)
            nil))
  (gemini-companion-test-visit emacs file)
  (gemini-companion-test-run emacs `(progn (,mode) (eglot-ensure) nil))
  (gemini-companion-test-wait-eval emacs '(and (eglot-managed-p) t)))

(defun gemini-companion-language-server-test--connect (emacs)
  "Start what gives a CLI the tools of EMACS, in its project; return the program."
  (let ((project (gemini-companion-test-project emacs)))
    (gemini-companion-test-wait-announced emacs project)
    (let ((tools (gemini-companion-test-program-start
                  (list (gemini-companion-test-node)
                        (gemini-companion-test-path "src" "tools_adapter.mjs") "gemini")
                  project (gemini-companion-test-client-environment emacs))))
      (gemini-companion-language-server-test--answer
       tools (gemini-companion-language-server-test--request
              tools "initialize"
              `((protocolVersion . "2025-06-18")
                (capabilities . ,(make-hash-table))
                (clientInfo . ((name . "test") (version . "1"))))))
      (gemini-companion-language-server-test--answer
       tools (gemini-companion-language-server-test--request tools "tools/list" nil))
      tools)))

(defvar gemini-companion-language-server-test--id 0
  "The id of the last request.")

(defun gemini-companion-language-server-test--request (tools method params)
  "Send the request METHOD with PARAMS to TOOLS, and return its id."
  (let ((id (cl-incf gemini-companion-language-server-test--id)))
    (gemini-companion-test-program-send
     tools `(:jsonrpc "2.0" :id ,id :method ,method ,@(and params (list :params params))))
    id))

(defun gemini-companion-language-server-test--answered (tools id)
  "Return what TOOLS has answered to the request ID, or nil."
  (gemini-companion-test-program-find tools (lambda (line) (equal (alist-get 'id line) id))))

(defun gemini-companion-language-server-test--answer (tools id)
  "Wait for the answer of TOOLS to the request ID, and return its result."
  (alist-get 'result
             (gemini-companion-test-wait
              "an answer of the tools"
              (lambda () (gemini-companion-language-server-test--answered tools id)))))

(defun gemini-companion-language-server-test--begin (tools name &rest arguments)
  "Call the tool NAME by TOOLS with ARGUMENTS, a plist; return the id."
  (gemini-companion-language-server-test--request
   tools "tools/call" (list :name name :arguments arguments)))

(defun gemini-companion-language-server-test--text (tools id)
  "Wait for the answer of TOOLS to the call ID, and return its text."
  (let ((result (gemini-companion-language-server-test--answer tools id)))
    (should-not (alist-get 'isError result))
    (alist-get 'text (car (alist-get 'content result)))))

(defun gemini-companion-language-server-test--call (tools name &rest arguments)
  "Call the tool NAME by TOOLS with ARGUMENTS, a plist; return the answer."
  (gemini-companion-language-server-test--text
   tools (apply #'gemini-companion-language-server-test--begin tools name arguments)))

(defmacro gemini-companion-language-server-test--with-tools (spec &rest body)
  "Run BODY with an Emacs with FILES, whose server is made by the form SERVE.
SPEC is (EMACS TOOLS FILES SERVE); the variable TOOLS has its tools."
  (declare (indent 1) (debug ((symbolp symbolp form form) body)))
  (pcase-let ((`(,emacs ,tools ,files ,serve) spec))
    `(gemini-companion-test-with-emacs (,emacs :mode t :files ,files)
       ,serve
       (let ((,tools (gemini-companion-language-server-test--connect ,emacs)))
         (unwind-protect (progn ,@body)
           (gemini-companion-test-program-stop ,tools))))))

;;;; A real server

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
  (gemini-companion-language-server-test--serve
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
     (gemini-companion-language-server-test--require
      gemini-companion-language-server-test--program)
     (gemini-companion-language-server-test--with-tools
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
  :tags '(e2e real any-emacs)
  (gemini-companion-language-server-test--with-javascript (emacs tools)
    (pcase-dolist (`(,text ,expected)
                   ;; The server reports this error first, with the fault of the old text.
                   `(("twice(2" "a.js:2:7: error: typescript [1005]: ')' expected.")
                     ("twice(3)" "No diagnostics.")
                     ("twice('two')" ,(concat "a.js:2:7: "
                                              gemini-companion-language-server-test--fault))))
      (gemini-companion-language-server-test--last-line emacs text)
      (should (equal (gemini-companion-language-server-test--call
                      tools "getDiagnostics" :path "a.js")
                     expected)))))

(ert-deftest gemini-companion-language-server/diagnostics-are-those-of-a-changed-file ()
  "A client has written it, and Emacs takes it for the call; or the user reverts it.
Then the server reports first that a text that is closed has no faults."
  :tags '(e2e real any-emacs)
  (gemini-companion-language-server-test--with-javascript (emacs tools)
    (pcase-dolist (`(,line . ,revert) '((3) (4 . (revert-buffer t t t))))
      (gemini-companion-test-write
       (gemini-companion-test-project emacs "a.js")
       (concat "import { twice } from './lib.js';" (make-string (1- line) ?\n) "twice('two')"))
      (when revert (gemini-companion-test-run emacs revert))
      (should (equal (gemini-companion-language-server-test--call
                      tools "getDiagnostics" :path "a.js")
                     (format "a.js:%d:7: %s" line
                             gemini-companion-language-server-test--fault))))
    (should-not (string-search "after-revert-hook" (gemini-companion-test-report emacs)))))

(ert-deftest gemini-companion-language-server/one-that-reports-nothing-is-not-waited-for-long ()
  "This server does so if there was nothing to report and still is not."
  :tags '(e2e real any-emacs)
  (gemini-companion-language-server-test--with-javascript (emacs tools)
    (gemini-companion-language-server-test--last-line emacs "twice(3)")
    (should (equal (gemini-companion-language-server-test--call
                    tools "getDiagnostics" :path "a.js")
                   "No diagnostics."))
    (gemini-companion-language-server-test--last-line emacs "twice(4)")
    (should (equal (gemini-companion-language-server-test--call
                    tools "getDiagnostics" :path "a.js")
                   "No diagnostics.
(a.js: the language server has reported nothing since the last change, as some do if nothing is \
wrong)"))))

(ert-deftest gemini-companion-language-server/symbols-are-found ()
  "The text has changed, so that the file has them in other lines."
  :tags '(e2e real any-emacs)
  (gemini-companion-language-server-test--with-javascript (emacs tools)
    (gemini-companion-test-keys emacs "M-<" "Enter")
    (gemini-companion-test-wait-eval emacs '(buffer-modified-p))
    (let ((place '(:path "a.js" :line 3 :symbol "twice")))
      (should (equal (apply #'gemini-companion-language-server-test--call
                            tools "findDefinition" place)
                     "lib.js:3: export function twice(x) { return 2 * x; }"))
      (should (equal (apply #'gemini-companion-language-server-test--call
                            tools "findReferences" place)
                     "a.js:2: import { twice } from './lib.js';
a.js:3: twice('one')
lib.js:3: export function twice(x) { return 2 * x; }"))
      (let ((text (apply #'gemini-companion-language-server-test--call
                         tools "describeSymbol" place)))
        (should (string-search "twice(x: number): number" text))
        (should (string-search "Twice as much." text))))))

;;;; A slow server while someone types

(defconst gemini-companion-language-server-test--pause 0.03
  "Seconds between two keys.")

(defun gemini-companion-language-server-test--serve-slowly (emacs)
  "Visit a.served in EMACS, with the fake server."
  (make-directory (gemini-companion-test-emacs-file emacs "server"))
  (gemini-companion-test-eval
   emacs '(progn
            (define-derived-mode served-mode prog-mode "Served")
            (defvar typed nil)
            (add-hook 'post-command-hook
                      (lambda ()
                        (when (eq this-command 'self-insert-command)
                          (push (float-time) typed))))
            nil))
  (gemini-companion-language-server-test--serve
   emacs "a.served" 'served-mode
   (list (gemini-companion-test-node)
         (gemini-companion-test-path "test" "support" "fake-language-server.mjs")
         (gemini-companion-test-emacs-file emacs "server"))))

(defun gemini-companion-language-server-test--hold (emacs hold)
  "Let the fake server of EMACS answer nothing if HOLD is non-nil, else all."
  (dolist (name '("publish" "references"))
    (let ((order (gemini-companion-test-emacs-file emacs (concat "server/hold-" name))))
      (if hold (gemini-companion-test-write order "")
        (delete-file order)))))

(defun gemini-companion-language-server-test--delays (emacs count)
  "Type COUNT keys in EMACS; return how long each one waited, in seconds, sorted.
That is from when tmux is told to press it until its command has run."
  (gemini-companion-test-eval emacs '(setq typed nil))
  (let* ((next (float-time))
         (pressed (cl-loop repeat count
                           do (cl-incf next gemini-companion-language-server-test--pause)
                           do (while (> next (float-time))
                                (accept-process-output nil (max 0 (- next (float-time)))))
                           collect (float-time)
                           do (gemini-companion-test-type emacs "x"))))
    (gemini-companion-test-wait-eval emacs `(= (length typed) ,count))
    (sort (cl-mapcar #'- (nreverse (gemini-companion-test-eval emacs 'typed)) pressed) #'<)))

(defun gemini-companion-language-server-test--summary (delays)
  "Return the median of DELAYS, what nine of ten do not exceed, and the longest."
  (let ((count (length delays)))
    (list (nth (/ count 2) delays) (nth (/ (* 9 count) 10) delays) (car (last delays)))))

(ert-deftest gemini-companion-language-server/no-key-waits-for-a-slow-one ()
  "Two calls wait for a server for as long as someone types, three seconds.
All commands have run before the server answers.  Nine of ten keys wait no
longer than 50 ms, and none longer than a second; or, where the computer is
busy, than three times what they wait when there is no call."
  :tags '(e2e real any-emacs)
  (gemini-companion-language-server-test--require)
  (gemini-companion-language-server-test--with-tools
      (emacs tools '(("a.served" . "bad one\n"))
             (gemini-companion-language-server-test--serve-slowly emacs))
    (gemini-companion-test-keys emacs "M->")
    (gemini-companion-language-server-test--call tools "getDiagnostics" :path "a.served")
    (let ((idle (gemini-companion-language-server-test--summary
                 (gemini-companion-language-server-test--delays emacs 50)))
          calls pending)
      (gemini-companion-language-server-test--hold emacs t)
      (gemini-companion-test-type emacs "y")
      (setq calls (list (gemini-companion-language-server-test--begin
                         tools "getDiagnostics" :path "a.served")
                        (gemini-companion-language-server-test--begin
                         tools "findReferences" :path "a.served" :line 1 :symbol "one")))
      (gemini-companion-test-wait
       "the server to be asked"
       (lambda ()
         (string-search "textDocument/references"
                        (gemini-companion-test-read
                         (gemini-companion-test-emacs-file emacs "server/log")))))
      (setq pending (gemini-companion-language-server-test--summary
                     (gemini-companion-language-server-test--delays emacs 100)))
      (message "Keys waited %S s, with calls %S s" idle pending)
      (dolist (call calls)
        (should-not (gemini-companion-language-server-test--answered tools call)))
      (cl-loop for usual in (cdr idle)
               for delay in (cdr pending)
               for most in '(0.05 1.0)
               do (should (<= delay (max most (* 3 usual)))))
      (gemini-companion-language-server-test--hold emacs nil)
      (should (equal (mapcar (lambda (call)
                               (gemini-companion-language-server-test--text tools call))
                             calls)
                     '("a.served:1:1: error: fake: bad line: bad one"
                       "a.served:1: bad one"))))))

;;; language-server-test.el ends here

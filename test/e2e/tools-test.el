;;; tools-test.el --- Tools of Emacs for the model of the real CLI  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The CLI has the home of Emacs, into which Emacs writes the extension.  What
;; each tool answers is tested elsewhere.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path
               (expand-file-name "../support"
                                 (file-name-directory (macroexp-file-name)))))
(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defconst gemini-companion-tools-test--fault
  "MCP issues\\|MCP ERROR\\|[Ee]rror\\|[Ww]arning\\|not trusted\\|Allow"
  "Regexp for what must not be on the screen of the CLI.")

(defconst gemini-companion-tools-test--open "a\\.txt (text"
  "Regexp for the answer of getOpenFiles.")

(defun gemini-companion-tools-test--watch-edits (emacs)
  "Let EMACS find a fault in each edit of which a hook tells it.
What it is told is in the variable `edits'."
  (gemini-companion-test-eval
   emacs
   '(progn
      (defvar edits nil)
      (require 'gemini-companion-tools)
      (add-hook 'gemini-companion-tools-hook
                (lambda ()
                  (gemini-companion-define-tool "noteEdit"
                    :hidden t :description "For the hook"
                    :arguments '(("path" string "") ("tool" string "")
                                 ("before" string "" t) ("after" string "" t))
                    :function (lambda (_call &rest arguments)
                                (push arguments edits)
                                "a.txt:1: error: no number")))
                t)
      nil)))

(defun gemini-companion-tools-test--enable (emacs)
  "Let the user of EMACS enable the tools."
  (gemini-companion-test-m-x emacs "gemini-companion-tools-enable")
  (gemini-companion-test-wait-screen emacs "Let the model use Emacs in Gemini CLI")
  (gemini-companion-test-keys emacs "y")
  (gemini-companion-test-wait-screen emacs "The model can use Emacs in Gemini CLI"))

(defun gemini-companion-tools-test--make (emacs)
  "Return a CLI, not started yet, that has the home of EMACS."
  (gemini-companion-test-write
   (expand-file-name ".gemini/settings.json" (gemini-companion-test-home emacs))
   (decode-coding-string
    (gemini-companion-test-json-encode (gemini-companion-test-cli--settings)) 'utf-8))
  (gemini-companion-test-cli-make emacs (gemini-companion-test-project emacs) nil
                                  (gemini-companion-test-home emacs)))

(defmacro gemini-companion-tools-test--with (spec &rest body)
  "Run BODY with an Emacs that visits a.txt, and a CLI that has its tools.
SPEC is (EMACS CLI START): two variables, and a function that starts the
CLI, by default so that it is connected."
  (declare (indent 1) (debug ((symbolp symbolp &optional form) body)))
  (pcase-let ((`(,emacs ,cli ,start) spec))
    `(progn
       (gemini-companion-test-require-real-client)
       (gemini-companion-test-with-emacs (,emacs :mode t :files '(("a.txt" . "one\n")))
         (gemini-companion-test-visit ,emacs "a.txt")
         (gemini-companion-tools-test--watch-edits ,emacs)
         (gemini-companion-tools-test--enable ,emacs)
         (gemini-companion-test-with-cli
             (,cli (funcall ,(or start '#'gemini-companion-tools-test--start) ,emacs))
           ,@body)))))

(defun gemini-companion-tools-test--start (emacs)
  "Start a CLI, wait until it has found EMACS, and return it."
  (gemini-companion-test-cli--start (gemini-companion-tools-test--make emacs)
                                    #'gemini-companion-test-cli--start-in-tmux))

(defun gemini-companion-tools-test--declarations (request)
  "Return the names of the functions in REQUEST that are tools of Emacs."
  (seq-filter
   (lambda (name) (string-prefix-p "mcp_emacs_" name))
   (mapcan (lambda (tool)
             (mapcar (lambda (it) (alist-get 'name it))
                     (alist-get 'functionDeclarations tool)))
           (alist-get 'tools request))))

(defun gemini-companion-tools-test--quiet-p (cli)
  "Return non-nil if CLI complains of nothing, and asks nothing."
  (not (string-match-p gemini-companion-tools-test--fault
                       (gemini-companion-test-cli-screen cli))))

(ert-deftest gemini-companion-tools/the-model-calls-one-without-a-question ()
  :tags '(e2e real)
  (gemini-companion-tools-test--with (emacs cli)
    (gemini-companion-test-cli-script cli '("mcp_emacs_getOpenFiles") "All done")
    (gemini-companion-test-cli-submit cli "please look")
    (gemini-companion-test-cli-wait-screen cli "All done")
    (should (gemini-companion-tools-test--quiet-p cli))
    (let ((names (gemini-companion-tools-test--declarations
                  (gemini-companion-test-cli-wait-requests cli 1))))
      (dolist (name '("getDiagnostics" "findDefinition" "findReferences" "describeSymbol"
                      "getOpenFiles" "getUnsaved" "showFile"))
        (should (member (concat "mcp_emacs_" name) names)))
      (should-not (member "mcp_emacs_noteEdit" names)))
    (should (string-match-p gemini-companion-tools-test--open
                            (format "%s" (gemini-companion-test-request-responses
                                          (gemini-companion-test-cli-wait-requests cli 2)))))))

(ert-deftest gemini-companion-tools/the-model-is-told-of-faults-in-its-edit ()
  :tags '(e2e real any-emacs)
  (gemini-companion-tools-test--with (emacs cli)
    (let ((file (gemini-companion-test-project emacs "a.txt")))
      (gemini-companion-test-cli-script
       cli `("write_file" :file_path ,file :content "two\n") "All done")
      (gemini-companion-test-cli-submit cli "please write")
      (gemini-companion-test-wait-review emacs "two\n")
      (gemini-companion-test-append-to-proposal emacs "mine\n")
      (gemini-companion-test-accept emacs)
      (gemini-companion-test-cli-wait-screen cli "All done")
      (should (string-search "<hook_context>a.txt:1: error: no number</hook_context>"
                             (format "%s" (gemini-companion-test-request-responses
                                           (gemini-companion-test-cli-wait-requests cli 2)))))
      (should (equal (gemini-companion-test-eval emacs 'edits)
                     `((,file "write_file" "one\n" "two\nmine\n")))))))

(ert-deftest gemini-companion-tools/edits-that-nobody-reviews-are-known-as-well ()
  "In accept-edits mode the CLI proposes nothing to Emacs."
  :tags '(e2e real any-emacs)
  (gemini-companion-tools-test--with (emacs cli)
    (let ((file (gemini-companion-test-project emacs "a.txt"))
          (new (gemini-companion-test-project emacs "new.txt")))
      (gemini-companion-test-cli-keys cli "BTab")
      (gemini-companion-test-cli-wait-screen cli "auto-accept\\|accepting edits\\|auto edit")
      (gemini-companion-test-cli-script
       cli
       `("replace" :file_path ,file :instruction "Say it in German."
         :old_string "one" :new_string "eins")
       `("write_file" :file_path ,new :content "new\n")
       "All done")
      (gemini-companion-test-cli-submit cli "please write")
      (gemini-companion-test-cli-wait-screen cli "All done")
      (should (equal (gemini-companion-test-eval emacs 'edits)
                     `((,new "write_file" nil "new\n")
                       (,file "replace" "one\n" "eins\n")))))))

(ert-deftest gemini-companion-tools/the-cli-is-quiet-without-emacs-and-takes-one-that-comes ()
  :tags '(e2e real)
  (gemini-companion-tools-test--with
      (emacs cli
             (lambda (emacs)
               (let ((cli (gemini-companion-tools-test--make emacs)))
                 (gemini-companion-test-run emacs '(gemini-companion-mode -1))
                 (setf (gemini-companion-test-cli-pid cli)
                       (gemini-companion-test-cli--start-in-tmux cli))
                 (gemini-companion-test-cli-wait-screen cli "Type your message")
                 cli)))
    (gemini-companion-test-cli-submit cli "please look")
    (gemini-companion-test-cli-wait-screen cli "Done\\.")
    (should-not (gemini-companion-tools-test--declarations
                 (gemini-companion-test-cli-wait-requests cli 1)))
    (should (gemini-companion-tools-test--quiet-p cli))
    (gemini-companion-test-mode-on emacs)
    (gemini-companion-test-cli-wait-log cli "Tools updated for server: emacs")
    (gemini-companion-test-cli-script cli '("mcp_emacs_getOpenFiles") "All done")
    (gemini-companion-test-cli-submit cli "look again")
    (gemini-companion-test-cli-wait-screen cli "All done")
    (should (gemini-companion-tools-test--quiet-p cli))
    (should (string-match-p gemini-companion-tools-test--open
                            (format "%s" (gemini-companion-test-request-responses
                                          (gemini-companion-test-cli-wait-requests cli 3)))))))

(ert-deftest gemini-companion-tools/qwen-code-has-them-too ()
  :tags '(e2e real any-emacs)
  (gemini-companion-test-require-real-client)
  (unless (file-exists-p gemini-companion-test-qwen-program)
    (gemini-companion-test-skip "Qwen Code is not installed (test/e2e/qwen)"))
  (gemini-companion-test-with-emacs (emacs :mode nil :files '(("a.txt" . "one\n")))
    (make-directory (expand-file-name ".qwen" (gemini-companion-test-home emacs)))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-mode-on emacs)
    (gemini-companion-tools-test--watch-edits emacs)
    (gemini-companion-tools-test--enable emacs)
    (gemini-companion-test-with-cli (qwen (gemini-companion-test-qwen-start emacs))
      (let ((file (gemini-companion-test-project emacs "a.txt")))
        ;; It writes only files that it has read.
        (gemini-companion-test-cli-script
         qwen '("mcp__emacs__getOpenFiles") `("read_file" :file_path ,file)
         `("write_file" :file_path ,file :content "two\n") "All done")
        (gemini-companion-test-cli-submit qwen "please write")
        (gemini-companion-test-wait-review emacs "two\n")
        (gemini-companion-test-accept emacs)
        (gemini-companion-test-cli-wait-screen qwen "All done")
        (let ((responses (format "%s" (mapcar #'gemini-companion-test-request-responses
                                              (gemini-companion-test-cli-requests qwen)))))
          (should (string-match-p gemini-companion-tools-test--open responses))
          (should (string-search "a.txt:1: error: no number" responses)))
        (should (equal (gemini-companion-test-eval emacs 'edits)
                       `((,file "write_file" "one\n" "two\n"))))))))

;;; tools-test.el ends here

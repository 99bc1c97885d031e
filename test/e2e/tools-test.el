;;; tools-test.el --- Tools of Emacs for the model of the real CLI  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The CLI has the home of Emacs, into which Emacs writes the extension.  What
;; each tool answers is tested elsewhere.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defconst gemini-companion-tool-test--fault
  "MCP issues\\|MCP ERROR\\|[Ee]rror\\|[Ww]arning\\|not trusted\\|Allow"
  "Regexp for what must not be on the screen of the CLI.")

(defconst gemini-companion-tool-test--open "a\\.txt (text"
  "Regexp for the answer of getOpenFiles.")

(defun gemini-companion-tool-test--watch-edits (emacs)
  "Let EMACS find a fault in each edit of which a hook tells it.
What it is told is in the variable `edits'."
  (gemini-companion-test-eval
   emacs
   '(progn
      (defvar edits nil)
      (require 'gemini-companion-tool)
      (add-hook 'gemini-companion-tool-hook
                (lambda ()
                  (gemini-companion-tool-define "noteEdit"
                    :hidden t :description "For the hook"
                    :arguments '(("path" string "") ("tool" string "")
                                 ("before" string "" t) ("after" string "" t)
                                 ("session" string "" t) ("process" integer "" t)
                                 ("modified" integer "" t))
                    :function (lambda (_call &rest arguments)
                                (push (seq-take arguments 4) edits)
                                "a.txt:1: error: no number")))
                t)
      nil)))

(defmacro gemini-companion-tool-test--with (spec &rest body)
  "Run BODY with an Emacs that visits a.txt, and a CLI that has its tools.
SPEC is (EMACS CLI START SET-UP): two variables, a function that starts
the CLI, by default so that it is connected, and one that is called with
EMACS before that, by default to find a fault in each edit."
  (declare (indent 1) (debug ((symbolp symbolp &optional form form) body)))
  (pcase-let ((`(,emacs ,cli ,start ,set-up) spec))
    `(progn
       (gemini-companion-test-require-real-client)
       (gemini-companion-test-with-emacs (,emacs :mode t :files '(("a.txt" . "one\n")))
         (gemini-companion-test-visit ,emacs "a.txt")
         (funcall ,(or set-up '#'gemini-companion-tool-test--watch-edits) ,emacs)
         (gemini-companion-test-enable-tools ,emacs)
         (gemini-companion-test-with-cli
             (,cli (funcall ,(or start '#'gemini-companion-test-cli-start-at-home) ,emacs))
           ,@body)))))

(defconst gemini-companion-tool-test--lisp
  ";;; a.el --- A  -*- lexical-binding: t -*-\n(defun my-own (x) \"Return X.\" x)\n(my-own 1)\n"
  "The text of a.el.")

(defun gemini-companion-tool-test--visit-lisp (emacs)
  "Visit a.el, which Flymake checks, in EMACS, and a file that is withheld."
  (gemini-companion-test-write (gemini-companion-test-project emacs ".env") "KEY=secret\n")
  (gemini-companion-test-write (gemini-companion-test-project emacs "a.el")
                               gemini-companion-tool-test--lisp)
  (gemini-companion-test-visit emacs ".env")
  (gemini-companion-test-visit emacs "a.el")
  (gemini-companion-test-eval
   emacs '(progn (require 'flymake)
                 (defvar trusted-content)
                 (setq trusted-content :all
                       flymake-no-changes-timeout 0.1)
                 (setq-local flymake-diagnostic-functions '(elisp-flymake-byte-compile))
                 (flymake-mode 1)
                 (eval-buffer)
                 nil)))

(defun gemini-companion-tool-test--responses (cli)
  "Return what CLI has told the model last, as text."
  (format "%s" (gemini-companion-test-request-responses
                (car (last (gemini-companion-test-cli-requests cli))))))

(defun gemini-companion-tool-test--declarations (request)
  "Return the names of the functions in REQUEST that are tools of Emacs."
  (seq-filter
   (lambda (name) (string-prefix-p "mcp_emacs_" name))
   (mapcan (lambda (tool)
             (mapcar (lambda (it) (alist-get 'name it))
                     (alist-get 'functionDeclarations tool)))
           (alist-get 'tools request))))

(defun gemini-companion-tool-test--quiet-p (cli)
  "Return non-nil if CLI complains of nothing, and asks nothing."
  (not (string-match-p gemini-companion-tool-test--fault
                       (gemini-companion-test-cli-screen cli))))

(ert-deftest gemini-companion-tool/the-model-calls-one-without-a-question ()
  (gemini-companion-tool-test--with (emacs cli)
    ;; The CLI lets the model call each tool with this argument.
    (gemini-companion-test-cli-script
     cli '("mcp_emacs_getOpenFiles" :wait_for_previous t) "All done")
    (gemini-companion-test-cli-submit cli "please look" "All done")
    (should (gemini-companion-tool-test--quiet-p cli))
    (let ((names (gemini-companion-tool-test--declarations
                  (gemini-companion-test-cli-wait-requests cli 1))))
      (dolist (name '("getDiagnostics" "findDefinition" "findReferences" "describeSymbol"
                      "getOpenFiles" "getUnsaved" "showFile"))
        (should (member (concat "mcp_emacs_" name) names)))
      (should-not (member "mcp_emacs_noteEdit" names)))
    (should (string-match-p gemini-companion-tool-test--open
                            (format "%s" (gemini-companion-test-request-responses
                                          (gemini-companion-test-cli-wait-requests cli 2)))))))

(ert-deftest gemini-companion-tool/the-model-is-told-of-faults-in-its-edit ()
  :tags '(any-emacs)
  (gemini-companion-tool-test--with (emacs cli)
    (let ((file (gemini-companion-test-project emacs "a.txt")))
      (gemini-companion-test-cli-script
       cli `("write_file" :file_path ,file :content "two\n") "All done")
      (gemini-companion-test-cli-submit cli "please write")
      (gemini-companion-test-wait-review emacs "two\n")
      (gemini-companion-test-accept emacs "mine\n")
      (gemini-companion-test-cli-wait-screen cli "All done")
      (should (string-search "<hook_context>a.txt:1: error: no number</hook_context>"
                             (format "%s" (gemini-companion-test-request-responses
                                           (gemini-companion-test-cli-wait-requests cli 2)))))
      (should (equal (gemini-companion-test-eval emacs 'edits)
                     `((,file "write_file" "one\n" "two\nmine\n")))))))

(ert-deftest gemini-companion-tool/a-mistake-is-told-with-the-result-of-the-edit ()
  "In YOLO mode Emacs is not asked, but the edit can be undone there."
  :tags '(any-emacs)
  (gemini-companion-tool-test--with (emacs cli nil #'gemini-companion-tool-test--visit-lisp)
    (let ((file (gemini-companion-test-project emacs "a.el")))
      (gemini-companion-test-cli-press cli "C-y" "YOLO")
      (gemini-companion-test-cli-script
       cli
       `("replace" :file_path ,file :instruction "Call it." :old_string "(my-own 1)"
         :new_string "(my-own 1 2)")
       "All done")
      (gemini-companion-test-cli-submit cli "please write" "All done")
      (should (string-match-p
               "<hook_context>New in the editor's diagnostics since this edit:\n3:[0-9]+: \
warning: .?my-own.? called with 2 arguments"
               (gemini-companion-tool-test--responses cli)))
      ;; The buffer shows the edit, and the history has it.
      (should (string-suffix-p "(my-own 1 2)\n"
                               (gemini-companion-test-eval emacs '(buffer-string))))
      (gemini-companion-test-m-x emacs "gemini-companion-history-list" "unreviewed")
      (gemini-companion-test-keys emacs "u")
      (gemini-companion-test-wait-screen emacs "changes it by \\+1 -1\\.  Undo the change to a\\.el\\?")
      (gemini-companion-test-press emacs "y" "undone")
      (should (equal (gemini-companion-test-read file) gemini-companion-tool-test--lisp)))))

(ert-deftest gemini-companion-tool/the-model-can-call-each ()
  :tags '(any-emacs)
  (gemini-companion-tool-test--with (emacs cli nil #'gemini-companion-tool-test--visit-lisp)
    (let* ((file (gemini-companion-test-project emacs "a.el"))
           (symbol `(:path ,file :line 3 :symbol "my-own"))
           (settings (expand-file-name ".gemini/settings.json" (gemini-companion-test-home emacs)))
           (before (gemini-companion-test-read settings)))
      (gemini-companion-test-run emacs '(progn (goto-char (point-max)) (insert "(car 1 2)\n")))
      (cl-loop
       for (call answer)
       in `((("mcp_emacs_getDiagnostics" :path ,file) "4:[0-9]+: warning: .*car")
            (("mcp_emacs_findDefinition" ,@symbol) "a\\.el:2: (defun my-own (x)")
            (("mcp_emacs_findReferences" ,@symbol) "grep_search")
            (("mcp_emacs_describeSymbol" ,@symbol) "Return X\\.")
            (("mcp_emacs_getOpenFiles") "a\\.el (emacs-lisp, unsaved edits.*1 more.*withheld")
            (("mcp_emacs_getUnsaved" :path ,file) "(car 1 2)")
            (("mcp_emacs_getUnsaved" :path ,(gemini-companion-test-project emacs ".env"))
             "withheld")
            (("mcp_emacs_showFile" :path ,(gemini-companion-test-project emacs "a.txt"))
             "Shown\\."))
       for turn from 1
       do (gemini-companion-test-cli-script cli call (format "All done %d" turn))
       (gemini-companion-test-cli-submit cli "please look")
       (gemini-companion-test-cli-wait-screen cli (format "All done %d" turn))
       (ert-info ((format "%S: %s" call (gemini-companion-tool-test--responses cli)))
         (should (string-match-p answer (replace-regexp-in-string
                                         "\n" " " (gemini-companion-tool-test--responses cli))))
         (should-not (string-search "secret" (gemini-companion-tool-test--responses cli)))))
      ;; It is shown, and the user is where they were.
      (gemini-companion-test-wait-screen emacs "a\\.txt")
      (should (equal (gemini-companion-test-eval
                      emacs '(list (and (get-buffer-window "a.txt") t)
                                   (buffer-name (window-buffer))))
                     '(t "a.el")))
      (should (equal (gemini-companion-test-read settings) before))
      (gemini-companion-test-run emacs '(set-buffer-modified-p nil)))))

(ert-deftest gemini-companion-tool/edits-that-nobody-reviews-are-known-as-well ()
  "In accept-edits mode the CLI proposes nothing to Emacs."
  :tags '(any-emacs)
  (gemini-companion-tool-test--with (emacs cli)
    (let ((file (gemini-companion-test-project emacs "a.txt"))
          (new (gemini-companion-test-project emacs "new.txt")))
      (gemini-companion-test-cli-press cli "BTab" "auto-accept\\|accepting edits\\|auto edit")
      (gemini-companion-test-cli-script
       cli
       `("replace" :file_path ,file :instruction "Say it in German."
         :old_string "one" :new_string "eins")
       `("write_file" :file_path ,new :content "new\n")
       "All done")
      (gemini-companion-test-cli-submit cli "please write" "All done")
      (should (equal (gemini-companion-test-eval emacs 'edits)
                     `((,new "write_file" nil "new\n")
                       (,file "replace" "one\n" "eins\n")))))))

(ert-deftest gemini-companion-tool/the-cli-is-quiet-without-emacs-and-takes-one-that-comes ()
  (gemini-companion-tool-test--with
      (emacs cli
             (lambda (emacs)
               (let ((cli (gemini-companion-test-cli-make-at-home emacs)))
                 (gemini-companion-test-run emacs '(gemini-companion-mode -1))
                 (setf (gemini-companion-test-cli-pid cli)
                       (gemini-companion-test-cli--start-in-tmux cli))
                 (gemini-companion-test-cli-wait-screen cli "Type your message")
                 cli)))
    (gemini-companion-test-cli-submit cli "please look" "Done\\.")
    (should-not (gemini-companion-tool-test--declarations
                 (gemini-companion-test-cli-wait-requests cli 1)))
    (should (gemini-companion-tool-test--quiet-p cli))
    (gemini-companion-test-mode-on emacs)
    (gemini-companion-test-cli-wait-log cli "Tools updated for server: emacs")
    (gemini-companion-test-cli-script cli '("mcp_emacs_getOpenFiles") "All done")
    (gemini-companion-test-cli-submit cli "look again" "All done")
    (should (gemini-companion-tool-test--quiet-p cli))
    (should (string-match-p gemini-companion-tool-test--open
                            (format "%s" (gemini-companion-test-request-responses
                                          (gemini-companion-test-cli-wait-requests cli 3)))))))

(ert-deftest gemini-companion-tool/qwen-code-has-them-too ()
  :tags '(any-emacs)
  (gemini-companion-test-require-real-client)
  (unless (file-exists-p gemini-companion-test-qwen-program)
    (gemini-companion-test-skip "Qwen Code is not installed (test/e2e/qwen)"))
  (gemini-companion-test-with-emacs (emacs :mode nil :files '(("a.txt" . "one\n")))
    (make-directory (expand-file-name ".qwen" (gemini-companion-test-home emacs)))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-mode-on emacs)
    (gemini-companion-tool-test--watch-edits emacs)
    (gemini-companion-test-enable-tools emacs)
    (gemini-companion-test-with-cli (qwen (gemini-companion-test-qwen-start emacs))
      (let ((file (gemini-companion-test-project emacs "a.txt")))
        ;; It writes only files that it has read.
        (gemini-companion-test-cli-script
         qwen '("mcp__emacs__getOpenFiles") `("read_file" :file_path ,file)
         `("write_file" :file_path ,file :content "two\n") "All done")
        (gemini-companion-test-cli-submit qwen "please write")
        ;; Unlike Gemini CLI, it has no policy that allows the tool.
        (gemini-companion-test-cli-answer qwen "Enter")
        (gemini-companion-test-wait-review emacs "two\n")
        (gemini-companion-test-accept emacs)
        (gemini-companion-test-cli-wait-screen qwen "All done")
        (let ((responses (format "%s" (mapcar #'gemini-companion-test-request-responses
                                              (gemini-companion-test-cli-requests qwen)))))
          (should (string-match-p gemini-companion-tool-test--open responses))
          (should (string-search "a.txt:1: error: no number" responses)))
        (should (equal (gemini-companion-test-eval emacs 'edits)
                       `((,file "write_file" "one\n" "two\n"))))))))

;;; tools-test.el ends here

;;; slow-server-test.el --- Tools of the model while someone types  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A tool that waits, for a language server or for the user, keeps no key
;; waiting, and changes nothing under the user's hands.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path
               (expand-file-name "../support"
                                 (file-name-directory (macroexp-file-name)))))
(require 'fake-cli)
(require 'gemini-companion-test-emacs)

(defun gemini-companion-slow-server-test--call (emacs tool &rest arguments)
  "Call TOOL of EMACS with ARGUMENTS, a plist; return the exchange, which goes on."
  (let ((discovery (fake-cli-discover (gemini-companion-test-tmpdir emacs)
                                      (gemini-companion-test-project emacs))))
    (fake-cli-http
     (alist-get 'port discovery) "POST" :path "/mcp/tools"
     :headers `(("Content-Type" . "application/json")
                ("Accept" . "application/json, text/event-stream")
                ("Authorization" . ,(concat "Bearer " (alist-get 'authToken discovery))))
     :body (gemini-companion-test-json-encode
            `(:jsonrpc "2.0" :id 1 :method "tools/call"
                       :params (:name ,tool :arguments ,arguments))))))

(defun gemini-companion-slow-server-test--text (exchange)
  "Return the text of the answer in EXCHANGE when that is complete."
  (fake-cli-result-text
   (alist-get 'result (gemini-companion-test-json-decode
                       (fake-cli-exchange-body (fake-cli-await exchange))))))

(ert-deftest gemini-companion-slow-server/keys-do-not-wait ()
  "While a language server is slow, keys are handled, and it is sent the text."
  :tags '(e2e)
  (skip-unless (locate-library "eglot"))
  (gemini-companion-test-with-emacs
      (emacs :files '(("a.served" . "def one = 1\nbad one\n")))
    (let* ((file (gemini-companion-test-project emacs "a.served"))
           (orders (file-name-as-directory (gemini-companion-test-emacs-file emacs "server")))
           (hold (lambda (name) (gemini-companion-test-write (concat orders name) ""))))
      (make-directory orders t)
      (gemini-companion-test-visit emacs "a.served")
      (should
       (gemini-companion-test-run
        emacs
        `(progn
           (require 'eglot)
           (define-derived-mode gemini-companion-inner-served-mode prog-mode "Served")
           (gemini-companion-inner-served-mode)
           (goto-char (point-max))
           (let ((eglot-sync-connect t))
             (eglot '(gemini-companion-inner-served-mode) (project-current) 'eglot-lsp-server
                    '("node" ,(gemini-companion-test-path
                               "test" "support" "fake-language-server.mjs")
                      ,orders)
                    '("served")))
           (and (eglot-managed-p) t))))
      (should (equal (gemini-companion-slow-server-test--text
                      (gemini-companion-slow-server-test--call
                       emacs "getDiagnostics" :path file))
                     (format "%s:2:1: error: fake: bad line: bad one" file)))
      (funcall hold "hold-publish")
      (funcall hold "hold-definition")
      (gemini-companion-test-type emacs "bad ")
      (let ((diagnostics (gemini-companion-slow-server-test--call
                          emacs "getDiagnostics" :path file))
            (definition (gemini-companion-slow-server-test--call
                         emacs "findDefinition" :path file :line 2 :symbol "one")))
        (gemini-companion-test-type emacs "day")
        (gemini-companion-test-wait-screen emacs "bad day")
        (gemini-companion-test-keys emacs "C-a")
        (gemini-companion-test-type emacs "what a ")
        (gemini-companion-test-wait-screen emacs "what a bad day")
        (should-not (fake-cli-exchange-done diagnostics))
        (should-not (fake-cli-exchange-done definition))
        (delete-file (concat orders "hold-publish"))
        (delete-file (concat orders "hold-definition"))
        (should (equal (gemini-companion-slow-server-test--text definition)
                       (format "%s:1: def one = 1" file)))
        (should (equal (gemini-companion-slow-server-test--text diagnostics)
                       (format "%s:2:1: error: fake: bad line: bad one
%s:3:8: error: fake: bad line: what a bad day" file file))))
      (should (equal (gemini-companion-test-eval emacs '(list (buffer-name) (line-number-at-pos)))
                     '("a.served" 3)))
      (gemini-companion-test-run emacs '(progn (eglot-shutdown (eglot-current-server))
                                               (set-buffer-modified-p nil) t)))))

(ert-deftest gemini-companion-slow-server/a-file-is-shown-after-a-prompt ()
  "A file is not shown while a prompt is open, and then without being selected."
  :tags '(e2e)
  (gemini-companion-test-with-emacs
      (emacs :files '(("a.txt" . "one\n") ("b.txt" . "this is the other\nits second line\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-keys emacs "M-x")
    (gemini-companion-test-wait-screen emacs "^M-x")
    (let ((exchange (gemini-companion-slow-server-test--call
                     emacs "showFile" :path (gemini-companion-test-project emacs "b.txt")
                     :line 2)))
      (gemini-companion-test-wait-eval
       emacs '(and (featurep 'gemini-companion-tools) (gemini-companion-tools-calls) t))
      (should-not (fake-cli-exchange-done exchange))
      (should-not (gemini-companion-test-eval emacs '(get-buffer "b.txt")))
      (gemini-companion-test-keys emacs "C-g")
      (should (equal (gemini-companion-slow-server-test--text exchange) "Shown.")))
    (gemini-companion-test-wait-screen emacs "its second line")
    (gemini-companion-test-type emacs "still here")
    (gemini-companion-test-wait-screen emacs "still here")
    (should (equal (gemini-companion-test-eval
                    emacs '(list (buffer-name (window-buffer))
                                 (with-selected-window (get-buffer-window "b.txt")
                                   (line-number-at-pos))))
                   '("a.txt" 2)))))

;;; slow-server-test.el ends here

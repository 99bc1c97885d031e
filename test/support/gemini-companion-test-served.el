;;; gemini-companion-test-served.el --- An Emacs with a language server  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An Emacs that visits a file with a language server, real or fake, and a client of its tools: the
;; program that CLIs start for them.

;;; Code:

(require 'gemini-companion-test-client)

(defun gemini-companion-test-served-require (&optional program)
  "Skip the current test, with a message, without Eglot, Node or PROGRAM."
  (let ((reason (cond ((not (gemini-companion-test-node)) "Node 20 or newer is missing")
                      ((and program (not (file-exists-p program)))
                       "the language server is not installed (test/e2e/lsp)")
                      ((not (gemini-companion-test-served-eglot-p))
                       "this Emacs has no Eglot"))))
    (when reason (gemini-companion-test-skip "%s" reason))))

(defun gemini-companion-test-served-eglot-p ()
  "Return non-nil if the Emacs to test has Eglot."
  (zerop (call-process (gemini-companion-test--program) nil nil nil "-Q" "--batch" "--eval"
                       "(kill-emacs (if (locate-library \"eglot\") 0 1))")))

(defun gemini-companion-test-served-serve (emacs file mode command)
  "Visit FILE in EMACS with the major mode MODE and the language server COMMAND."
  (gemini-companion-test-eval
   emacs `(progn
            (require 'eglot)
            (setq eglot-autoreconnect nil)
            (push '(,mode . ,command) eglot-server-programs)
            nil))
  (gemini-companion-test-visit emacs file)
  (gemini-companion-test-run emacs `(progn (,mode) (eglot-ensure) nil))
  (gemini-companion-test-wait-eval emacs '(and (eglot-managed-p) t))
  ;; If the server was quick, Eglot has connected before the end of the last command, and
  ;; Flymake has put its first check off to the end of the next.
  (gemini-companion-test-run emacs nil))

(defun gemini-companion-test-served--connect (emacs)
  "Start what gives a CLI the tools of EMACS, in its project; return the program."
  (let ((project (gemini-companion-test-project emacs)))
    (gemini-companion-test-wait-announced emacs project)
    (let ((tools (gemini-companion-test-program-start
                  (list (gemini-companion-test-node)
                        (gemini-companion-test-path "src" "tools_adapter.mjs")
                        "directory=gemini/ide" "file=gemini-ide-server-PID-PORT.json"
                        "port=GEMINI_CLI_IDE_SERVER_PORT" "process=GEMINI_CLI_IDE_PID")
                  project (gemini-companion-test-client-environment emacs))))
      (gemini-companion-test-served--answer
       tools (gemini-companion-test-served--request
              tools "initialize"
              `((protocolVersion . "2025-06-18")
                (capabilities . ,(make-hash-table))
                (clientInfo . ((name . "test") (version . "1"))))))
      (gemini-companion-test-served--answer
       tools (gemini-companion-test-served--request tools "tools/list" nil))
      tools)))

(defvar gemini-companion-test-served--id 0
  "The id of the last request.")

(defun gemini-companion-test-served--request (tools method params)
  "Send the request METHOD with PARAMS to TOOLS, and return its id."
  (let ((id (cl-incf gemini-companion-test-served--id)))
    (gemini-companion-test-program-send
     tools `(:jsonrpc "2.0" :id ,id :method ,method ,@(and params (list :params params))))
    id))

(defun gemini-companion-test-served-answered (tools id)
  "Return what TOOLS has answered to the request ID, or nil."
  (gemini-companion-test-program-find tools (lambda (line) (equal (alist-get 'id line) id))))

(defun gemini-companion-test-served--answer (tools id)
  "Wait for the answer of TOOLS to the request ID, and return its result."
  (alist-get 'result
             (gemini-companion-test-wait
              "an answer of the tools"
              (lambda () (gemini-companion-test-served-answered tools id)))))

(defun gemini-companion-test-served-begin (tools name &rest arguments)
  "Call the tool NAME by TOOLS with ARGUMENTS, a plist; return the id."
  (gemini-companion-test-served--request
   tools "tools/call" (list :name name :arguments arguments)))

(defun gemini-companion-test-served-text (tools id)
  "Wait for the answer of TOOLS to the call ID, and return its text."
  (let* ((result (gemini-companion-test-served--answer tools id))
         (text (alist-get 'text (car (alist-get 'content result)))))
    (ert-info (text)
      (should-not (alist-get 'isError result)))
    text))

(defun gemini-companion-test-served-call (tools name &rest arguments)
  "Call the tool NAME by TOOLS with ARGUMENTS, a plist; return the answer."
  (gemini-companion-test-served-text
   tools (apply #'gemini-companion-test-served-begin tools name arguments)))

(defmacro gemini-companion-test-with-served (spec &rest body)
  "Run BODY with an Emacs with FILES, whose server is made by the form SERVE.
SPEC is (EMACS TOOLS FILES SERVE); the variable TOOLS has its tools."
  (declare (indent 1) (debug ((symbolp symbolp form form) body)))
  (pcase-let ((`(,emacs ,tools ,files ,serve) spec))
    `(gemini-companion-test-with-emacs (,emacs :mode t :files ,files)
       ,serve
       (let ((,tools (gemini-companion-test-served--connect ,emacs)))
         (unwind-protect (progn ,@body)
           (gemini-companion-test-program-stop ,tools))))))

;;;; A fake server

(defun gemini-companion-test-served-fake (emacs file)
  "Visit FILE in EMACS, with the fake server."
  (make-directory (gemini-companion-test-emacs-file emacs "server"))
  (gemini-companion-test-eval
   emacs '(progn (define-derived-mode served-mode prog-mode "Served") nil))
  (gemini-companion-test-served-serve
   emacs file 'served-mode
   (list (gemini-companion-test-node)
         (gemini-companion-test-path "test" "support" "fake-language-server.mjs")
         (gemini-companion-test-emacs-file emacs "server"))))

(defun gemini-companion-test-served-hold (emacs request hold)
  "Let the fake server of EMACS not answer REQUEST if HOLD is non-nil, else do so.
REQUEST is \"publish\", \"definition\" or \"references\"."
  (let ((order (gemini-companion-test-emacs-file emacs (concat "server/hold-" request))))
    (if hold (gemini-companion-test-write order "")
      (delete-file order))))

(provide 'gemini-companion-test-served)
;;; gemini-companion-test-served.el ends here

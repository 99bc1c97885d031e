;;; gemini-companion-tool-diagnostics-test.el --- Tests of diagnostics for the model  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'flymake)
(require 'gemini-companion-tool-diagnostics)
(require 'gemini-companion-tool-hooks)
(require 'gemini-companion-test-tools)

(declare-function eglot--capabilities "ext:eglot" (server) t)
(declare-function eglot-handle-notification "ext:eglot")
(declare-function eglot-path-to-uri "ext:eglot" (path &rest keys))
(declare-function eglot-shutdown "ext:eglot")
(declare-function flycheck-buffer "ext:flycheck" ())
(declare-function jsonrpc--process "ext:jsonrpc")
(declare-function lsp--on-diagnostics "ext:lsp-mode")
(declare-function lsp--text-document-did-open "ext:lsp-mode")
(declare-function lsp-on-change "ext:lsp-mode")
(defvar elisp-flymake-byte-compile-load-path)
(defvar flycheck-current-errors)
(defvar flycheck-last-status-change)
(defvar flycheck-mode)
(defvar lsp--cur-version)
(defvar lsp-managed-mode)
(defvar trusted-content)

(defconst gemini-companion-tool-diagnostics-test--late
  "\n(a.served: some checks are still running, so this may be out of date)"
  "What is said when not all checks have finished.")

;;;; Flymake

(defun gemini-companion-tool-diagnostics-test--backend (reports)
  "Return a backend of Flymake that adds its report functions to REPORTS, a list."
  (lambda (report &rest _) (nconc reports (list report))))

(defmacro gemini-companion-tool-diagnostics-test--with-backend (reports &rest body)
  "Evaluate BODY in a buffer of a.txt that is checked when a test reports.
REPORTS is a symbol, a list of nil and the functions that report."
  (declare (indent 1) (debug (symbolp body)))
  `(gemini-companion-test-with-tools
     (let ((,reports (list nil)))
       (with-current-buffer (gemini-companion-test-open "a.txt" "one\ntwo three\n")
         (setq-local flymake-diagnostic-functions
                     (list (gemini-companion-tool-diagnostics-test--backend ,reports)))
         (flymake-mode 1)
         ,@body))))

(defun gemini-companion-tool-diagnostics-test--report (report &rest diagnostics)
  "Call REPORT with DIAGNOSTICS, each (START END TYPE TEXT)."
  (funcall report (mapcar (lambda (it)
                            (apply #'flymake-make-diagnostic (current-buffer) it))
                          diagnostics)))

(ert-deftest gemini-companion-tool-diagnostics/elisp-is-checked-by-a-process ()
  (let ((elisp-flymake-byte-compile-load-path load-path)
        (trusted-content :all))
    (gemini-companion-test-with-tools
      (with-current-buffer
          (gemini-companion-test-open
           "a.el" ";;; a.el --- A  -*- lexical-binding: t -*-\n(defun a ()\n  (no-such-function 1))\n")
        (setq-local flymake-diagnostic-functions '(elisp-flymake-byte-compile))
        (flymake-mode 1)
        (narrow-to-region (point-min) (1+ (point-min)))
        (should (string-match-p
                 "\\`a.el:3:[0-9]+: warning: the function .no-such-function. is not known.*\\'"
                 (gemini-companion-test-call-tool "getDiagnostics" "a.el")))
        (widen)
        (goto-char (point-max))
        (insert "(car 1 2)\n")
        (should (string-match-p "a.el:4:[0-9]+: warning: .*car.* with 2 arguments"
                                (gemini-companion-test-call-tool "getDiagnostics" "a.el")))
        (should (eobp))))))

(ert-deftest gemini-companion-tool-diagnostics/an-answer-waits-for-the-checkers ()
  (gemini-companion-tool-diagnostics-test--with-backend reports
    (let ((id (gemini-companion-test-tools-begin "getDiagnostics" "a.txt")))
      (gemini-companion-test-wait "a check" (lambda () (cdr reports)))
      (should-not (gemini-companion-test-tools-answer id))
      (gemini-companion-tool-diagnostics-test--report
       (cadr reports) '(9 10 :warning "odd\nword") '(1 2 :error "wrong") '(5 6 :note "so so"))
      (should (equal (gemini-companion-test-tools-wait id)
                     "a.txt:1:1: error: wrong
a.txt:2:1: note: so so
a.txt:2:5: warning: odd word")))))

(ert-deftest gemini-companion-tool-diagnostics/an-edit-meanwhile-starts-another-check ()
  (gemini-companion-tool-diagnostics-test--with-backend reports
    (let ((id (gemini-companion-test-tools-begin "getDiagnostics" "a.txt")))
      (gemini-companion-test-wait "a check" (lambda () (cdr reports)))
      (insert "zero\n")
      (gemini-companion-tool-diagnostics-test--report (cadr reports) '(1 2 :error "old"))
      (gemini-companion-test-wait "another check" (lambda () (cddr reports)))
      (should-not (gemini-companion-test-tools-answer id))
      (gemini-companion-tool-diagnostics-test--report (caddr reports))
      (should (equal (gemini-companion-test-tools-wait id) "No diagnostics.")))))

(ert-deftest gemini-companion-tool-diagnostics/a-check-that-does-not-end-is-said ()
  (gemini-companion-tool-diagnostics-test--with-backend reports
    (should (equal (gemini-companion-test-call-tool "getDiagnostics" "a.txt" 0)
                   "No diagnostics.
(a.txt: some checks are still running, so this may be out of date)"))
    (should (cdr reports))))

(ert-deftest gemini-companion-tool-diagnostics/a-checker-that-fails-is-said ()
  (gemini-companion-test-with-tools
    (with-current-buffer (gemini-companion-test-open "a.txt" "one\n")
      (defun gemini-companion-tool-diagnostics-test--broken (_report &rest _) (error "Broken"))
      (setq-local flymake-diagnostic-functions '(gemini-companion-tool-diagnostics-test--broken))
      (flymake-mode 1)
      (should (equal (gemini-companion-test-call-tool "getDiagnostics" "a.txt")
                     "No diagnostics.
(a.txt: these checkers do not work here: gemini-companion-tool-diagnostics-test--broken)")))))

(ert-deftest gemini-companion-tool-diagnostics/a-file-without-checkers-fails ()
  (gemini-companion-test-with-tools
    (gemini-companion-test-open "a.txt" "one\n")
    (should (equal (gemini-companion-test-call-tool "getDiagnostics" "a.txt")
                   '("Neither Flymake nor Flycheck checks this file in Emacs: a.txt")))
    (should (equal (gemini-companion-test-call-tool "getDiagnostics")
                   "Neither Flymake nor Flycheck checks an open file."))
    (should (equal (gemini-companion-test-call-tool "getDiagnostics" "b.txt")
                   '("b.txt is not open in Emacs; showFile opens it")))
    (should (equal (gemini-companion-test-call-tool "getDiagnostics" ".env")
                   '("This file is withheld: .env")))))

(ert-deftest gemini-companion-tool-diagnostics/a-buffer-that-is-not-checked-any-more-ends-the-call ()
  (dolist (change (list #'kill-buffer
                        (lambda () (flymake-mode -1))
                        (lambda () (set-visited-file-name nil))
                        (lambda ()
                          (let ((change-major-mode-with-file-name nil))
                            (set-visited-file-name (gemini-companion-test-file ".env") t)))))
    (gemini-companion-tool-diagnostics-test--with-backend reports
      (let ((id (gemini-companion-test-tools-begin "getDiagnostics" "a.txt")))
        (should (cdr reports))
        (gemini-companion-tool-diagnostics-test--report (cadr reports) '(1 2 :error "wrong"))
        (funcall change)
        (should (equal (gemini-companion-test-tools-wait id)
                       '("Meanwhile, your user has closed the file, or Emacs no longer \
checks it")))
        (set-buffer-modified-p nil)))))

(ert-deftest gemini-companion-tool-diagnostics/a-cancelled-call-stops-waiting ()
  (gemini-companion-tool-diagnostics-test--with-backend reports
    (let ((id (gemini-companion-test-tools-begin "getDiagnostics" "a.txt"))
          (timers (lambda () (gemini-companion-test-timers #'gemini-companion-tool-go-on))))
      (should (cdr reports))
      (should (funcall timers))
      (gemini-companion-bridge-handle-event 'cancel-call id)
      (gemini-companion-test-wait "the timer to end" (lambda () (not (funcall timers))))
      (should-not (gemini-companion-test-tools-answer id)))))

(ert-deftest gemini-companion-tool-diagnostics/a-file-changed-on-disk-is-taken-first ()
  (gemini-companion-tool-diagnostics-test--with-backend reports
    (gemini-companion-test-file "a.txt" "new text\n")
    (set-file-times (gemini-companion-test-file "a.txt") (time-add nil 10))
    (let ((id (gemini-companion-test-tools-begin "getDiagnostics" "a.txt")))
      (should (equal (buffer-string) "new text\n"))
      (gemini-companion-tool-diagnostics-test--report (car (last reports)) '(5 6 :error "here"))
      (should (equal (gemini-companion-test-tools-wait id) "a.txt:1:5: error: here")))))

(ert-deftest gemini-companion-tool-diagnostics/all-files-are-answered-without-new-checks ()
  (gemini-companion-tool-diagnostics-test--with-backend reports
    (flymake-start)
    (gemini-companion-tool-diagnostics-test--report (cadr reports) '(1 2 :error "wrong"))
    (with-current-buffer (gemini-companion-test-open ".env" "secret\n")
      (setq-local flymake-diagnostic-functions
                  (list (lambda (report &rest _)
                          (gemini-companion-tool-diagnostics-test--report
                           report '(1 2 :error "a secret") '(2 3 :error "another")))))
      (flymake-mode 1)
      (flymake-start))
    (dolist (path '(nil ""))
      (should (equal (gemini-companion-test-call-tool "getDiagnostics" path)
                     "a.txt:1:1: error: wrong
(2 more in withheld files)")))
    (should-not (cddr reports))
    ;; Flymake will check this edit only later.
    (insert "zero\n")
    (let ((id (gemini-companion-test-tools-begin "getDiagnostics")))
      (gemini-companion-test-wait "a check" (lambda () (cddr reports)))
      (gemini-companion-tool-diagnostics-test--report (caddr reports) '(1 2 :note "fine"))
      (should (string-prefix-p "a.txt:1:1: note: fine\n" (gemini-companion-test-tools-wait id))))))

(ert-deftest gemini-companion-tool-diagnostics/what-flymake-would-check-only-once-saved-is-checked ()
  (gemini-companion-tool-diagnostics-test--with-backend reports
    (setq-local flymake-no-changes-timeout nil)
    (flymake-start)
    (gemini-companion-tool-diagnostics-test--report (cadr reports) '(1 2 :error "wrong"))
    (insert "zero\n")
    (let ((id (gemini-companion-test-tools-begin "getDiagnostics")))
      (gemini-companion-test-wait "a check" (lambda () (cddr reports)))
      (gemini-companion-tool-diagnostics-test--report (caddr reports) '(1 2 :note "fine"))
      (should (equal (gemini-companion-test-tools-wait id) "a.txt:1:1: note: fine")))))

(ert-deftest gemini-companion-tool-diagnostics/errors-come-first-if-there-are-too-many ()
  (gemini-companion-tool-diagnostics-test--with-backend reports
    (let ((id (gemini-companion-test-tools-begin "getDiagnostics" "a.txt")))
      (apply #'gemini-companion-tool-diagnostics-test--report (cadr reports)
             (append (cl-loop for i to 120
                              collect (list 1 2 :warning (format "warning %d" i)))
                     '((9 10 :error "wrong"))))
      (let ((lines (split-string (gemini-companion-test-tools-wait id) "\n")))
        (should (equal (car lines) "a.txt:2:5: error: wrong"))
        (should (<= (length lines) 100))
        (should (equal (car (last lines)) "(32 more, none of them more severe)"))))))

(ert-deftest gemini-companion-tool-diagnostics/only-what-is-new-since-a-snapshot ()
  (gemini-companion-tool-diagnostics-test--with-backend reports
    (flymake-start)
    (gemini-companion-tool-diagnostics-test--report (cadr reports)
                                                    '(1 2 :error "a") '(5 6 :error "a")
                                                    '(5 6 :note "b"))
    (should (equal (gemini-companion-tool-hooks--new
                    (gemini-companion-tool-diagnostics-list (current-buffer))
                    '((1 1 "error" "a") (7 1 "error" "a") (8 1 "error" "a") (9 1 "error" "b")))
                   '((8 1 "error" "a") (9 1 "error" "b"))))))

;;;; Flycheck

;; As in Flycheck 32.
(ert-deftest gemini-companion-tool-diagnostics/flycheck-checks-the-present-text ()
  (gemini-companion-test-with-tools
    (with-current-buffer (gemini-companion-test-open "a.txt" "one\n")
      (let ((running nil)
            (checked nil))
        (setq-local flycheck-mode t
                    flycheck-last-status-change 'not-checked
                    flycheck-current-errors nil)
        (cl-letf (((symbol-function 'flycheck-buffer)
                   (lambda ()
                     (unless running
                       (run-hooks 'flycheck-before-syntax-check-hook)
                       (setq running t)
                       (push (buffer-string) checked))))
                  ((symbol-function 'flycheck-stop) (lambda () (setq running nil)))
                  ((symbol-function 'flycheck-running-p) (lambda () running)))
          (dolist (text '("one\n" "zero one\n" "zero one\n" "\nzero one\n"))
            (unless (equal text (buffer-string))
              (insert (string-remove-suffix (buffer-string) text))
              (goto-char (point-min)))
            (let ((id (gemini-companion-test-tools-begin "getDiagnostics")))
              (should (equal (car checked) text))
              (setq running nil
                    flycheck-last-status-change 'finished)
              (should (equal (gemini-companion-test-tools-wait id) "No diagnostics."))))
          (should (length= checked 3))
          ;; A check that runs already is of the text before.
          (flycheck-buffer)
          (insert "new\n")
          (gemini-companion-test-tools-begin "getDiagnostics" "a.txt")
          (should (equal (car checked) (buffer-string)))
          (set-buffer-modified-p nil))))))

(ert-deftest gemini-companion-tool-diagnostics/flycheck-is-waited-for ()
  (gemini-companion-test-with-tools
    (with-current-buffer (gemini-companion-test-open "a.txt" "one\ntwo\n")
      (let ((running nil))
        (setq-local flycheck-mode t
                    flycheck-last-status-change 'not-checked
                    flycheck-current-errors nil)
        (cl-letf (((symbol-function 'flycheck-buffer)
                   (lambda () (setq running t flycheck-last-status-change 'running)))
                  ((symbol-function 'flycheck-stop) (lambda () (setq running nil)))
                  ((symbol-function 'flycheck-running-p) (lambda () running))
                  ((symbol-function 'flycheck-error-buffer) (lambda (it) (plist-get it :buffer)))
                  ((symbol-function 'flycheck-error-line) (lambda (it) (plist-get it :line)))
                  ((symbol-function 'flycheck-error-column) (lambda (it) (plist-get it :column)))
                  ((symbol-function 'flycheck-error-level) (lambda (it) (plist-get it :level)))
                  ((symbol-function 'flycheck-error-message)
                   (lambda (it) (plist-get it :message))))
          (let ((id (gemini-companion-test-tools-begin "getDiagnostics" "a.txt")))
            (should running)
            (should-not (gemini-companion-test-tools-answer id))
            (setq running nil
                  flycheck-last-status-change 'finished
                  flycheck-current-errors
                  ;; Flycheck sorts them.
                  (list (list :buffer (messages-buffer) :line 1 :level 'error :message "far")
                        (list :buffer (current-buffer) :line 1 :column 3 :level 'error
                              :message "wrong")
                        (list :buffer (current-buffer) :line 2 :level 'info :message "so")))
            (should (equal (gemini-companion-test-tools-wait id)
                           "a.txt:1:3: error: wrong\na.txt:2:1: note: so")))
          (cl-letf (((symbol-function 'flycheck-buffer)
                     (lambda () (setq flycheck-last-status-change 'no-checker
                                      flycheck-current-errors nil))))
            (should (equal (gemini-companion-test-call-tool "getDiagnostics" "a.txt")
                           "No diagnostics.
(a.txt: these checkers do not work here: Flycheck (no-checker))"))))))))

(ert-deftest gemini-companion-tool-diagnostics/flycheck-hides-nothing-of-flymake ()
  "As with `global-flycheck-mode' and Eglot, which uses Flymake."
  (gemini-companion-tool-diagnostics-test--with-backend reports
    (let ((checks 0))
      (setq-local flycheck-mode t
                  flycheck-last-status-change 'not-checked
                  flycheck-current-errors nil)
      (gemini-companion-test-with-flycheck
          (lambda ()
            (cl-incf checks)
            (setq flycheck-last-status-change 'finished
                  flycheck-current-errors '((1 nil warning "a") (2 nil warning "c"))))
        (let ((id (gemini-companion-test-tools-begin "getDiagnostics" "a.txt")))
          (gemini-companion-test-wait "a check" (lambda () (cdr reports)))
          (should-not (gemini-companion-test-tools-answer id))
          (gemini-companion-tool-diagnostics-test--report (cadr reports) '(1 2 :error "b"))
          (should (equal (gemini-companion-test-tools-wait id)
                         "a.txt:1:1: warning: a\na.txt:1:1: error: b\na.txt:2:1: warning: c"))
          (should (= checks 1)))))))

;;;; lsp-mode

;; As in lsp-mode 8 and 9.
(ert-deftest gemini-companion-tool-diagnostics/a-server-of-lsp-mode-is-waited-for ()
  "Its checker reports at once what the server has published last."
  (gemini-companion-test-with-tools
    (with-current-buffer (gemini-companion-test-open "a.txt" "one\n")
      (let* ((found "nothing")
             (functions '(lsp--on-diagnostics lsp-on-change lsp--text-document-did-open))
             (publish (lambda (text version)
                        (setq found text)
                        (lsp--on-diagnostics 'workspace (list buffer-file-name version)))))
        (setq-local lsp-managed-mode t
                    lsp--cur-version 1
                    flymake-diagnostic-functions
                    (list (lambda (report &rest _)
                            (gemini-companion-tool-diagnostics-test--report
                             report (list 1 2 :error found)))))
        (flymake-mode 1)
        (cl-letf (((symbol-function 'lsp--workspace-root) (lambda (_) default-directory))
                  ((symbol-function 'lsp:publish-diagnostics-params-uri) #'car)
                  ((symbol-function 'lsp:publish-diagnostics-params-version?) #'cadr)
                  ((symbol-function 'gemini-companion-tool-diagnostics-uri-file) #'identity))
          (dolist (function functions) (defalias function #'ignore))
          (unwind-protect
              (progn
                (gemini-companion-tool-diagnostics-observe)
                (lsp--text-document-did-open)
                (dolist (version '(1 2 nil))
                  (let ((id (gemini-companion-test-tools-begin "getDiagnostics" "a.txt")))
                    (funcall publish "late" (and version 0))
                    (should (gemini-companion-tool-diagnostics--server-behind-p))
                    (funcall publish (format "%s" version) version)
                    (should (equal (gemini-companion-test-tools-wait id)
                                   (format "a.txt:1:1: error: %s" version))))
                  (insert "new\n")
                  (setq lsp--cur-version 2)
                  (lsp-on-change 1 5 0)))
            (mapc #'fmakunbound functions)))))))

;;;; Eglot

(ert-deftest gemini-companion-tool-diagnostics/a-servers-check-is-waited-for ()
  (dolist (versions '(nil t))
    (gemini-companion-test-with-server buffer "fine\nbad one\n"
      (when versions (gemini-companion-test-server-order "versions"))
      (should (equal (gemini-companion-test-call-tool "getDiagnostics" "a.served")
                     "a.served:2:1: error: fake: bad line: bad one"))
      (gemini-companion-test-server-order "hold-publish")
      (goto-char (point-min))
      (insert "𝕏 doubtful\n")
      (let ((id (gemini-companion-test-tools-begin "getDiagnostics" "a.served")))
        (gemini-companion-test-wait
         "the change to be sent"
         (lambda () (member "textDocument/didChange" (gemini-companion-test-server-log))))
        (should-not (gemini-companion-test-tools-answer id))
        (gemini-companion-test-server-order "hold-publish" 'remove)
        (should (equal (gemini-companion-test-tools-wait id)
                       "a.served:1:3: warning: fake: doubtful line: 𝕏 doubtful
a.served:3:1: error: fake: bad line: bad one")))
      ;; Fresh, so nothing is waited for.
      (gemini-companion-test-server-order "hold-publish")
      (should (string-suffix-p "bad one"
                               (gemini-companion-test-call-tool "getDiagnostics" "a.served"))))))

(ert-deftest gemini-companion-tool-diagnostics/a-server-that-is-too-late-is-said ()
  (gemini-companion-test-with-server buffer "bad one\n"
    (gemini-companion-test-call-tool "getDiagnostics" "a.served")
    (gemini-companion-test-server-order "hold-publish")
    (erase-buffer)
    (insert "good\n")
    (should (string-suffix-p gemini-companion-tool-diagnostics-test--late
                             (gemini-companion-test-call-tool "getDiagnostics" "a.served" 0)))))

(ert-deftest gemini-companion-tool-diagnostics/an-old-version-is-not-fresh ()
  (gemini-companion-test-with-server buffer "bad one\n"
    (gemini-companion-test-server-order "versions")
    (gemini-companion-test-call-tool "getDiagnostics" "a.served")
    (gemini-companion-test-server-order "hold-publish")
    (erase-buffer)
    (insert "good\n")
    (let ((id (gemini-companion-test-tools-begin "getDiagnostics" "a.served")))
      (eglot-handle-notification server 'textDocument/publishDiagnostics
                                 :uri (eglot-path-to-uri buffer-file-name)
                                 :version 0 :diagnostics [])
      (should (gemini-companion-tool-diagnostics--server-behind-p))
      (gemini-companion-test-server-order "hold-publish" 'remove)
      (should (equal (gemini-companion-test-tools-wait id) "No diagnostics.")))))

(ert-deftest gemini-companion-tool-diagnostics/an-old-version-after-the-present-one-is-not-fresh ()
  "Eglot reports what comes last, whatever its version is."
  (gemini-companion-test-with-server buffer "bad one\n"
    (gemini-companion-test-server-order "versions")
    (gemini-companion-test-call-tool "getDiagnostics" "a.served")
    (goto-char (point-max))
    (insert "bad two\n")
    (should (string-search "bad two"
                           (gemini-companion-test-call-tool "getDiagnostics" "a.served")))
    (eglot-handle-notification server 'textDocument/publishDiagnostics
                               :uri (eglot-path-to-uri buffer-file-name)
                               :version 0 :diagnostics [])
    (should (string-suffix-p gemini-companion-tool-diagnostics-test--late
                             (gemini-companion-test-call-tool "getDiagnostics" "a.served" 0)))))

(ert-deftest gemini-companion-tool-diagnostics/what-comes-during-an-edit-is-not-fresh ()
  (gemini-companion-test-with-server buffer "bad one\n"
    (gemini-companion-test-call-tool "getDiagnostics" "a.served")
    (should-not (gemini-companion-tool-diagnostics--server-behind-p))
    (insert "x")
    (eglot-handle-notification server 'textDocument/publishDiagnostics
                               :uri (eglot-path-to-uri buffer-file-name) :diagnostics [])
    (should (gemini-companion-tool-diagnostics--server-behind-p))))

(ert-deftest gemini-companion-tool-diagnostics/a-server-that-dies-is-said ()
  (gemini-companion-test-with-server buffer "bad one\n"
    (gemini-companion-test-call-tool "getDiagnostics" "a.served")
    (gemini-companion-test-server-order "hold-publish")
    (insert "x\n")
    (let ((id (gemini-companion-test-tools-begin "getDiagnostics" "a.served")))
      (kill-process (jsonrpc--process server))
      (let ((answer (gemini-companion-test-tools-wait id)))
        (should (string-search "this may be out of date" (format "%s" answer)))))))

(ert-deftest gemini-companion-tool-diagnostics/a-new-server-has-checked-nothing ()
  (gemini-companion-test-with-server buffer "bad one\n"
    (gemini-companion-test-call-tool "getDiagnostics" "a.served")
    (gemini-companion-test-server-order "hold-publish")
    (eglot-shutdown server)
    (setq server (gemini-companion-test-connect-server))
    (should (string-suffix-p gemini-companion-tool-diagnostics-test--late
                             (gemini-companion-test-call-tool "getDiagnostics" "a.served" 0)))
    (gemini-companion-test-server-order "hold-publish" 'remove)
    (should (equal (gemini-companion-test-call-tool "getDiagnostics" "a.served")
                   "a.served:1:1: error: fake: bad line: bad one"))))

(ert-deftest gemini-companion-tool-diagnostics/buffers-that-eglot-manages-already-count ()
  (gemini-companion-test-with-server buffer "bad one\n"
    (gemini-companion-test-call-tool "getDiagnostics" "a.served")
    (setq gemini-companion-tool-diagnostics--published nil
          gemini-companion-tool-diagnostics--sent nil)
    (gemini-companion-tool-diagnostics-stop)
    (gemini-companion-test-server-order "hold-publish")
    (should (equal (gemini-companion-test-call-tool "getDiagnostics" "a.served")
                   "a.served:1:1: error: fake: bad line: bad one"))))

;; As in Eglot 1.21.
(ert-deftest gemini-companion-tool-diagnostics/a-server-that-is-asked-publishes-nothing ()
  (gemini-companion-test-with-server buffer "bad one\n"
    (gemini-companion-test-call-tool "getDiagnostics" "a.served")
    (gemini-companion-test-server-order "hold-publish")
    (should (plist-put (eglot--capabilities server) :diagnosticProvider t))
    (goto-char (point-max))
    (insert "fine\n")
    (cl-letf (((symbol-function 'eglot--flymake-pull) #'ignore))
      (should (equal (gemini-companion-test-call-tool "getDiagnostics" "a.served" 2)
                     "a.served:1:1: error: fake: bad line: bad one")))))

(ert-deftest gemini-companion-tool-diagnostics/after-off-and-on-the-first-edit-is-checked ()
  (gemini-companion-test-with-server buffer "good\n"
    (gemini-companion-test-call-tool "getDiagnostics" "a.served")
    (gemini-companion-tool-diagnostics-stop)
    (gemini-companion-test-call-tool "noteEvent" "prompt" "conversation" nil default-directory)
    (gemini-companion-test-server-order "hold-publish")
    (gemini-companion-test-file "a.served" "bad one\n")
    (revert-buffer t t t)
    (let ((id (gemini-companion-test-tools-begin "noteEdit" buffer-file-name "replace" "good\n"
                                                 "bad one\n")))
      (should (gemini-companion-tool-diagnostics--server-behind-p))
      (gemini-companion-test-server-order "hold-publish" 'remove)
      (should (string-search "1:1: error: fake: bad line:"
                             (gemini-companion-test-tools-wait id))))))

(defun gemini-companion-tool-diagnostics-test--publish-none (server &rest version)
  "Let SERVER report that nothing is wrong in the current buffer.
VERSION, if any, is that of the text, as a plist."
  (apply #'eglot-handle-notification server 'textDocument/publishDiagnostics
         :uri (eglot-path-to-uri buffer-file-name) :diagnostics [] version))

(ert-deftest gemini-companion-tool-diagnostics/a-server-checks-its-own-buffers ()
  "By any of their names."
  (gemini-companion-test-with-server buffer "good\n"
    (make-symbolic-link gemini-companion-test-project (gemini-companion-test-file "link"))
    (dolist (name (list buffer-file-name (gemini-companion-test-file "link/a.served")))
      (setq buffer-file-name name
            gemini-companion-tool-diagnostics--published nil)
      (gemini-companion-tool-diagnostics--record-published
       server 'textDocument/publishDiagnostics
       :uri (eglot-path-to-uri (file-truename name)) :diagnostics [])
      (should gemini-companion-tool-diagnostics--published))
    (with-current-buffer (gemini-companion-test-open "b.txt" "good\n")
      (gemini-companion-tool-diagnostics-test--publish-none server)
      (should-not gemini-companion-tool-diagnostics--published))))

(ert-deftest gemini-companion-tool-diagnostics/a-server-may-publish-in-parts ()
  (gemini-companion-test-with-server buffer "bad one\n"
    (gemini-companion-test-call-tool "getDiagnostics" "a.served")
    (gemini-companion-test-server-order "hold-publish")
    (insert "bad two\n")
    (let ((id (gemini-companion-test-tools-begin "getDiagnostics" "a.served")))
      (gemini-companion-tool-diagnostics-test--publish-none server)
      (should (gemini-companion-tool-diagnostics--server-behind-p))
      (gemini-companion-test-server-order "hold-publish" 'remove)
      (should (equal (gemini-companion-test-tools-wait id)
                     "a.served:1:1: error: fake: bad line: bad two
a.served:2:1: error: fake: bad line: bad one")))))

(ert-deftest gemini-companion-tool-diagnostics/what-comes-of-a-closed-text-is-not-fresh ()
  (gemini-companion-test-with-server buffer "good\n"
    (gemini-companion-test-call-tool "getDiagnostics" "a.served")
    (gemini-companion-test-server-order "hold-publish")
    (gemini-companion-test-file "a.served" "bad one\n")
    (revert-buffer t t t)
    (let ((id (gemini-companion-test-tools-begin "getDiagnostics" "a.served")))
      (gemini-companion-tool-diagnostics-test--publish-none server)
      (should (gemini-companion-tool-diagnostics--server-behind-p))
      (gemini-companion-test-server-order "hold-publish" 'remove)
      (should (equal (gemini-companion-test-tools-wait id)
                     "a.served:1:1: error: fake: bad line: bad one")))))

(defconst gemini-companion-tool-diagnostics-test--silent
  "\n(a.served: the language server has reported nothing about the present text; some do that if \
they find nothing new)"
  "What is said of a server that seems to have nothing to publish.")

(ert-deftest gemini-companion-tool-diagnostics/a-server-that-is-silent-is-not-waited-for-long ()
  (gemini-companion-test-with-server buffer "good\n"
    (let ((gemini-companion-tool-diagnostics--silence 0))
      (gemini-companion-test-call-tool "getDiagnostics" "a.served")
      (gemini-companion-test-server-order "hold-publish")
      (insert "fine\n")
      (should (equal (gemini-companion-test-call-tool "getDiagnostics" "a.served")
                     (concat "No diagnostics." gemini-companion-tool-diagnostics-test--silent))))))

(ert-deftest gemini-companion-tool-diagnostics/no-kind-of-server-is-waited-for-long ()
  "One that names versions may publish only what is new; another one never does."
  (dolist (prepare (list (lambda () (gemini-companion-test-server-order "versions"))
                         (lambda () (gemini-companion-test-server-order "hold-publish"))))
    (gemini-companion-test-with-server buffer "fine\n"
      (funcall prepare)
      (gemini-companion-test-call-tool "getDiagnostics" "a.served" 1)
      (gemini-companion-test-server-order "hold-publish")
      (let ((gemini-companion-tool-diagnostics--silence 0))
        (goto-char (point-max))
        (insert "good\n")
        (should (equal (gemini-companion-test-call-tool "getDiagnostics" "a.served" 3)
                       (concat "No diagnostics."
                               gemini-companion-tool-diagnostics-test--silent)))))))

;;; gemini-companion-tool-diagnostics-test.el ends here

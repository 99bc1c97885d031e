;;; gemini-companion-tool-host-test.el --- Tests of tools for models on hosts  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'flymake)
(require 'gemini-companion-tool-diagnostics)
(require 'gemini-companion-test-host)
(require 'gemini-companion-test-tools)

(defmacro gemini-companion-tool-host-test--with (&rest body)
  "Evaluate BODY with two hosts served, a: and b:, whose root is /p.
Of their ignore files nothing matches but the name secret.  No host may be
asked for anything."
  (declare (indent 0) (debug t))
  `(gemini-companion-test-with-tools
     (let ((gemini-companion-host--all nil))
       (dolist (prefix '("/mock:a:" "/mock:b:"))
         (gemini-companion-host-set-roots (gemini-companion-host-add prefix) '("/p")))
       (cl-letf (((symbol-function 'gemini-companion-bridge-host-ignored)
                  (lambda (_prefix _root name) (string-suffix-p "/secret" name))))
         (gemini-companion-test-host-unasked ,@body)))))

(defun gemini-companion-tool-host-test--open (file &optional text)
  "Return a buffer with TEXT that seems to visit FILE, a remote name."
  (with-current-buffer (generate-new-buffer (file-name-nondirectory file))
    (insert (or text "one\ntwo\n"))
    (set-buffer-modified-p nil)
    ;; Without the other name, Emacs does not ask the host for a lock.
    (setq buffer-file-name file)
    (set-visited-file-modtime '(25000 0))
    (current-buffer)))

(defun gemini-companion-tool-host-test--call (tool &rest arguments)
  "Return the answer to TOOL with ARGUMENTS for a client in /p on the host a:."
  (gemini-companion-test-tools-wait
   (gemini-companion-test-tools-begin-in "/mock:a:/p" tool arguments)))

(ert-deftest gemini-companion-tool-host/only-open-files-there-are-told-of ()
  (gemini-companion-tool-host-test--with
    (gemini-companion-test-open "here.txt" "")
    (should (equal (gemini-companion-tool-host-test--call "getOpenFiles") "No files."))
    (dolist (file '("/mock:a:/p/a.c" "/mock:a:/p/.env" "/mock:a:/p/secret" "/mock:a:/q/a.c"
                    "/mock:b:/p/b.c" "/mock:c:/p/c.c"))
      (gemini-companion-tool-host-test--open file))
    (should (equal (gemini-companion-tool-host-test--call "getOpenFiles")
                   "a.c (fundamental)\n(3 more in withheld files)"))
    ;; Here neither, not even their number.
    (should (equal (gemini-companion-test-call-tool "getOpenFiles")
                   ".gitignore (fundamental)\nhere.txt (text)"))
    (let ((gemini-companion-context-paused t))
      (should (equal (gemini-companion-tool-host-test--call "getOpenFiles")
                     "No files.\n(4 more in withheld files)")))
    (gemini-companion-host-remove (gemini-companion-host-named "/mock:a:"))
    (should (equal (gemini-companion-tool-host-test--call "getOpenFiles")
                   '("Emacs has disconnected from this machine")))))

(ert-deftest gemini-companion-tool-host/files-have-the-names-of-their-host ()
  (gemini-companion-tool-host-test--with
    (with-current-buffer (gemini-companion-tool-host-test--open "/mock:a:/p/a.c")
      (insert "zero"))
    (gemini-companion-tool-host-test--open "/mock:a:/q/a.c")
    (dolist (path '("a.c" "/p/a.c" "x/../a.c" "/p//a.c"))
      (should (equal (gemini-companion-tool-host-test--call "getUnsaved" path 2)
                     "Lines 2 to 3 of 3:\ntwo\nzero")))
    (dolist (path (list "/mock:a:/p/a.c" "../q/a.c" "../../../etc/passwd" "/q/a.c"
                        "/mock:b:/p/b.c" (gemini-companion-test-file "here.txt" "here")))
      (should (equal (gemini-companion-tool-host-test--call "getUnsaved" path)
                     (list (concat "This file is withheld: " path)))))
    (should (string-search "working directory"
                           (car (gemini-companion-tool-host-test--call "getUnsaved" "~/a.c"))))
    (should (equal (gemini-companion-tool-host-test--call "getUnsaved" "/p/b.c")
                   '("b.c is not open in Emacs")))))

(ert-deftest gemini-companion-tool-host/a-name-that-is-a-link-there-is-known ()
  (gemini-companion-tool-host-test--with
    (with-current-buffer (gemini-companion-tool-host-test--open "/mock:a:/link/a.c")
      (insert "three")
      (setq buffer-file-truename "/mock:a:/p/a.c")
      (should (equal (gemini-companion-tool-host-test--call "getUnsaved" "a.c")
                     "Lines 1 to 3 of 3:\none\ntwo\nthree"))
      (should (equal (gemini-companion-tool-host-test--call "getOpenFiles")
                     "/link/a.c (fundamental, unsaved edits)"))
      (setq buffer-file-truename nil))))

(ert-deftest gemini-companion-tool-host/no-file-is-visited ()
  (gemini-companion-tool-host-test--with
    (let ((buffers (buffer-list)))
      (should (equal (gemini-companion-tool-host-test--call "showFile" "/p/a.c")
                     '("a.c is not open in Emacs, which does not visit files on other machines \
without its user")))
      (should (equal (buffer-list) buffers)))
    (cl-letf (((symbol-function 'gemini-companion-ui-busy) #'ignore)
              (buffer (gemini-companion-tool-host-test--open "/mock:a:/p/a.c")))
      (delete-other-windows)
      (should (equal (gemini-companion-tool-host-test--call "showFile" "/p/a.c" 2) "Shown."))
      (should (= 2 (with-selected-window (get-buffer-window buffer) (line-number-at-pos)))))))

(ert-deftest gemini-companion-tool-host/only-tools-that-are-safe-there-are-offered ()
  (gemini-companion-tool-host-test--with
    (should (equal (sort (cl-loop for tool in gemini-companion-test-tools-set
                                  if (and (aref tool 3) (aref tool 5)) collect (aref tool 0))
                         #'string<)
                   '("getDiagnostics" "getOpenFiles" "getUnsaved" "showFile")))))

(ert-deftest gemini-companion-tool-host/the-message-of-a-fault-stays-here ()
  (gemini-companion-tool-host-test--with
    (let ((gemini-companion-tool--table (copy-sequence gemini-companion-tool--table)))
      (gemini-companion-tool-define "mine"
        :description "Mine." :hosts t :function (lambda (_) (error "Oh, /here/a")))
      (should (equal (gemini-companion-tool-host-test--call "mine")
                     '("Something went wrong in Emacs; its log says what")))
      (should (seq-some (apply-partially #'string-search "/here/a") (gemini-companion-log-last 2)))
      (should (string-match-p "tool mine for gemini@a: failed" (car (gemini-companion-log-last 1)))))))

;;;; Diagnostics

(ert-deftest gemini-companion-tool-host/diagnostics-are-told-as-they-are ()
  (gemini-companion-tool-host-test--with
    (let* ((reports nil)
           (flymake-no-changes-timeout nil)
           (check (lambda (text)
                    (flymake-start)
                    (funcall (car reports)
                             (list (flymake-make-diagnostic (current-buffer) 1 2 :error text))))))
      (dolist (file '("/mock:a:/p/a.c" "/mock:b:/p/b.c"))
        (with-current-buffer (gemini-companion-tool-host-test--open file)
          (setq-local flymake-diagnostic-functions
                      (list (lambda (report &rest _) (push report reports))))
          (flymake-mode 1)
          (funcall check "wrong")))
      (with-current-buffer "a.c"
        (dolist (path '("a.c" nil))
          (should (equal (gemini-companion-tool-host-test--call "getDiagnostics" path)
                         "a.c:1:1: error: wrong")))
        ;; It is waited for.
        (flymake-start)
        (let ((id (gemini-companion-test-tools-begin-in "/mock:a:/p" "getDiagnostics" '("a.c"))))
          (funcall (car reports) nil)
          (should (equal (gemini-companion-test-tools-wait id) "No diagnostics.")))
        ;; None is started, since it may ask the host.
        (setq reports nil
              flymake-check-start-time nil)
        (should (string-match-p "\\`No diagnostics.\n(a.c: .* out of date)\\'"
                                (gemini-companion-tool-host-test--call "getDiagnostics" "a.c")))
        (should-not reports)))))

;;; gemini-companion-tool-host-test.el ends here

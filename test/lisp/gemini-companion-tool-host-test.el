;;; gemini-companion-tool-host-test.el --- Tests of tools for models on hosts  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'flymake)
(require 'gemini-companion-tool-hooks)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-comment)
(require 'gemini-companion-tool-diagnostics)
(require 'gemini-companion-test-host)
(require 'gemini-companion-test-tools)

(defmacro gemini-companion-tool-host-test--with (&rest body)
  "Evaluate BODY with two hosts served, a: and b:, whose root is /p.
Of their ignore files nothing matches but the name secret.  No host may be
asked for anything."
  (declare (indent 0) (debug t))
  `(gemini-companion-test-with-tools
     (let ((gemini-companion-host-all nil))
       (dolist (prefix '("/mock:a:" "/mock:b:"))
         (gemini-companion-host-set-roots (gemini-companion-test-host-add prefix) '("/p"))
         (gemini-companion-answer-set (cons 'tools prefix) 'always))
       (cl-letf (((symbol-function 'gemini-companion-bridge-host-ignored)
                  (lambda (_prefix _root name) (string-suffix-p "/secret" name))))
         (gemini-companion-test-host-unasked ,@body)))))

(defun gemini-companion-tool-host-test--open (file)
  "Return a buffer with two lines that seems to visit FILE, a remote name."
  (with-current-buffer (generate-new-buffer (file-name-nondirectory file))
    (insert "one\ntwo\n")
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
    (gemini-companion-answer-set '(tools . "/mock:a:") 'never)
    (should (string-match-p "does not let the models of this machine"
                            (car (gemini-companion-tool-host-test--call "getOpenFiles"))))
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

(ert-deftest gemini-companion-tool-host/a-container-has-what-is-mounted-from-here ()
  (gemini-companion-tool-host-test--with
    (let ((mounted (gemini-companion-test-file "mounted")))
      (setf (gemini-companion-host-mounts (gemini-companion-host-named "/mock:a:"))
            `(("/p/src" . ,mounted)))
      (gemini-companion-test-open "here.txt" "secret\n")
      (with-current-buffer (gemini-companion-test-open "mounted/a.txt" "one\n")
        (insert "zero\n")
        (should (equal (gemini-companion-tool-host-test--call "getOpenFiles")
                       "src/a.txt (text, unsaved edits)"))
        (should (equal (gemini-companion-tool-host-test--call "getUnsaved" "/p/src/a.txt")
                       "Lines 1 to 3 of 3:\nzero\none"))
        (set-buffer-modified-p nil))
      ;; It can make links in there.
      (make-symbolic-link (gemini-companion-test-file "here.txt") (concat mounted "/link"))
      (should (equal (gemini-companion-tool-host-test--call "getUnsaved" "src/link")
                     '("This file is withheld: src/link")))
      (should (equal (gemini-companion-tool-host-test--call "getOpenFiles")
                     "src/a.txt (text)")))))

(ert-deftest gemini-companion-tool-host/a-link-that-a-container-changes-closes-no-buffer ()
  (gemini-companion-tool-host-test--with
    (let* ((mounted (gemini-companion-test-file "mounted"))
           (there (gemini-companion-test-file "mounted/a.txt" "one\n"))
           (here (gemini-companion-test-file "here.txt" "mine\n"))
           (link (concat mounted "/link"))
           (buffer (progn (make-symbolic-link here link)
                          (find-file-noselect link))))
      (setf (gemini-companion-host-mounts (gemini-companion-host-named "/mock:a:"))
            `(("/p/src" . ,mounted)))
      (with-current-buffer buffer (insert "unsaved "))
      (make-symbolic-link there link t)
      (cl-letf* (((symbol-function 'gemini-companion-ui-busy) #'ignore)
                 (visit (symbol-function 'find-file-noselect))
                 ((symbol-function 'find-file-noselect)
                  (lambda (&rest arguments)
                    (make-symbolic-link here link t)
                    (apply visit arguments))))
        (should (equal (gemini-companion-tool-host-test--call "showFile" "/p/src/link")
                       '("This file is withheld"))))
      (should (buffer-live-p buffer))
      (with-current-buffer buffer
        (should (equal (buffer-string) "unsaved mine\n"))
        (set-buffer-modified-p nil)))))

(ert-deftest gemini-companion-tool-host/a-program-in-a-sandbox-uses-nothing ()
  "The CLI has no extension there, so the call is one of another program."
  (gemini-companion-tool-host-test--with
    (let ((host (gemini-companion-host-named "/mock:a:"))
          (mounted (gemini-companion-test-file "mounted")))
      (gemini-companion-answer-set '(tools . "/mock:a:") nil)
      (setf (gemini-companion-host-sandbox host) t
            (gemini-companion-host-mounts host) `(("/p" . ,mounted)))
      (gemini-companion-test-open "mounted/a.txt" "one\n")
      (should (string-prefix-p "Your user does not let the models of this machine"
                               (car (gemini-companion-tool-host-test--call "getOpenFiles")))))))

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

;;;; What hooks tell

(defmacro gemini-companion-tool-host-test--with-clis (sessions &rest body)
  "Evaluate BODY with hosts served, and SESSIONS, which may change.
Each is a list of KEY, PROCESS and DIRECTORY."
  (declare (indent 1) (debug t))
  `(gemini-companion-tool-host-test--with
     (let ((gemini-companion-cli--all nil)
           (gemini-companion-history--entries nil))
       (cl-letf (((symbol-function 'gemini-companion-bridge-sessions)
                  (lambda ()
                    (mapcar (pcase-lambda (`(,key ,process ,directory))
                              (vector key "gemini" process 1 'open 0 0 directory nil 'gemini t))
                            ,sessions))))
         (gemini-companion-cli--note-sessions 1)
         ,@body))))

(defun gemini-companion-tool-host-test--tell (event process &rest more)
  "Let a hook of the CLI PROCESS on the host a: tell EVENT; return the answer.
MORE are the text, the file and the terminal."
  (apply #'gemini-companion-tool-host-test--call "noteEvent" event "conversation" process nil more))

(defun gemini-companion-tool-host-test--states ()
  "Return the processes and states of the known CLIs."
  (mapcar (lambda (cli) (list (gemini-companion-cli-process cli) (gemini-companion-cli-state cli)))
          (gemini-companion-cli-all)))

(ert-deftest gemini-companion-tool-host/hooks-tell-what-a-cli-there-does ()
  (let* ((id (emacs-pid))
         (there (format "/mock:a:%d" id))
         (sessions `(("k1" ,id "/p") ("k2" ,there "/mock:a:/p")
                     ("k3" ,(format "/mock:b:%d" id) "/mock:b:/p"))))
    (gemini-companion-tool-host-test--with-clis sessions
      (pcase-dolist (`(,event ,text ,state)
                     '(("start" "startup" idle) ("prompt" "do it" working) ("asks" "rm" asking)
                       ("ran" nil working) ("done" nil done)))
        (should (equal (gemini-companion-tool-host-test--tell event id text) ""))
        (should (equal (gemini-companion-tool-host-test--states)
                       `((,id idle) (,there ,state) (,(format "/mock:b:%d" id) idle)))))
      (let ((cli (gemini-companion-cli-of-process there)))
        (should (equal (gemini-companion-cli-project cli) "/mock:a:/p"))
        (should (equal (car (gemini-companion-cli-prompt-of-process there)) "do it"))
        (should-not (gemini-companion-cli-prompt-of-process id)))
      ;; Others have no session, so that a host cannot make up any number.
      (dolist (process (list 1 (1+ id) nil -1))
        (should (equal (gemini-companion-tool-host-test--tell "prompt" process "do it") "")))
      (should (= 3 (length (gemini-companion-cli-all))))
      (gemini-companion-tool-host-test--tell "prompt" id (make-string 20000 ?x))
      (should (= 10000 (length (car (gemini-companion-cli-prompt
                                     (gemini-companion-cli-of-process there))))))
      (setq sessions `(("k1" ,id "/p")))
      (gemini-companion-cli--note-sessions 1)
      (should (equal (gemini-companion-tool-host-test--states) `((,id idle)))))))

(ert-deftest gemini-companion-tool-host/comments-go-with-a-prompt-there ()
  (gemini-companion-tool-host-test--with-clis '(("k1" "/mock:a:7" "/mock:a:/p"))
    (with-current-buffer (gemini-companion-tool-host-test--open "/mock:a:/p/a.c")
      (goto-char (point-min))
      (gemini-companion-comment--check)
      (gemini-companion-comment-add (current-buffer) 1 1 "why?"))
    (with-current-buffer (gemini-companion-tool-host-test--open "/mock:b:/p/b.c")
      (gemini-companion-comment-add (current-buffer) 1 1 "elsewhere"))
    (should (equal (gemini-companion-tool-host-test--tell "prompt" 7 "do it")
                   "1 comment from Emacs\nComments that the user has made in Emacs:\n\
a.c:1 `one`: why?"))))

(ert-deftest gemini-companion-tool-host/an-edit-of-unsaved-text-there-is-asked-about ()
  (let ((gemini-companion-review-always '("*.sql")))
    (gemini-companion-tool-host-test--with-clis '(("k1" "/mock:a:7" "/mock:a:/p"))
      (with-current-buffer (gemini-companion-tool-host-test--open "/mock:a:/p/a.c")
        (should (equal (gemini-companion-tool-host-test--tell "edit" 7 nil "/p/a.c") ""))
        (insert "mine")
        (should (string-search "unsaved edits"
                               (gemini-companion-tool-host-test--tell "edit" 7 nil "/p/a.c"))))
      (should (string-search "review-always"
                             (gemini-companion-tool-host-test--tell "edit" 7 nil "/p/a.sql")))
      ;; It learns nothing of files that it may not know of.
      (with-current-buffer (gemini-companion-tool-host-test--open "/mock:a:/p/secret")
        (insert "mine")
        (should (equal (gemini-companion-tool-host-test--tell "edit" 7 nil "/p/secret") ""))))))

(ert-deftest gemini-companion-tool-host/an-edit-there-enters-the-history-and-its-buffer ()
  (gemini-companion-tool-host-test--with-clis '(("k1" "/mock:a:7" "/mock:a:/p"))
    (gemini-companion-tool-host-test--tell "prompt" 7 "do it")
    (with-current-buffer (gemini-companion-tool-host-test--open "/mock:a:/p/a.c")
      (let ((note (lambda (path after modified)
                    (gemini-companion-tool-host-test--call
                     "noteEdit" path "replace" "one\ntwo\n" after "conversation" 7 modified))))
        (should (equal (funcall note "/p/a.c" "one\nthree\n" 1700000000) ""))
        (should (equal (buffer-string) "one\nthree\n"))
        (should-not (buffer-modified-p))
        (should (= (gemini-companion-file-visited-time (current-buffer)) 1700000000))
        (pcase (gemini-companion-history-all)
          (`(,entry)
           (should (equal (gemini-companion-history-path entry) "/mock:a:/p/a.c"))
           (should (equal (gemini-companion-history-host entry) "/mock:a:"))
           (should (equal (car (gemini-companion-history-prompt entry)) "do it"))
           (should (eq (gemini-companion-history-outcome entry) 'unreviewed)))
          (entries (ert-fail entries)))
        ;; It is told twice, or the host is not sure what the file contains.
        (funcall note "/p/a.c" "one\nthree\n" 1700000000)
        (should (length= (gemini-companion-history-all) 1))
        (funcall note "/p/a.c" "other\n" nil)
        (should (equal (buffer-string) "one\nthree\n"))
        ;; The user has saved it since.
        (set-visited-file-modtime '(30000 0))
        (funcall note "/p/a.c" "older\n" 1700000000)
        (should (equal (buffer-string) "one\nthree\n"))
        ;; Or its time was in the future.
        (let ((buffer-file-name nil))
          (erase-buffer)
          (insert "one\ntwo\n")
          (set-buffer-modified-p nil))
        (funcall note "/p/a.c" "older\n" 1700000000)
        (should (equal (buffer-string) "older\n"))
        (should (length= (gemini-companion-history-all) 3))
        (let ((gemini-companion-follow t)
              (buffers (buffer-list)))
          (should (equal (funcall note "/p/b.c" "new\n" 1) ""))
          (should (equal (buffer-list) buffers)))
        (should (equal (funcall note "/q/a.c" "new\n" 1) '("This file is withheld: /q/a.c")))
        (should (length= (gemini-companion-history-all) 4))
        ;; What is not to be told may be taken.
        (let ((gemini-companion-context-paused t))
          (should (equal (funcall note "/p/a.c" "newer\n" 2000000000)
                         '("This file is withheld: /p/a.c"))))
        (should (equal (buffer-string) "newer\n"))))))

(ert-deftest gemini-companion-tool-host/a-terminal-of-that-host-is-that-of-its-cli ()
  (gemini-companion-tool-host-test--with-clis '(("k1" "/mock:a:7" "/mock:a:/p"))
    (let ((here (gemini-companion-cli-run--create-buffer 'gemini "/mock:a:/p/"))
          (other (gemini-companion-cli-run--create-buffer 'gemini "/mock:b:/p/"))
          (cli (gemini-companion-cli-of-process "/mock:a:7")))
      (gemini-companion-cli-note-screen here t 'gemini "/mock:a:/p/")
      (should (= 2 (length (gemini-companion-cli-all))))
      (dolist (buffer (list other here))
        (gemini-companion-tool-host-test--tell
         "prompt" 7 "do it" nil (buffer-local-value 'gemini-companion-cli-run--name buffer)))
      (should (equal (gemini-companion-cli-all) (list cli)))
      (should (eq (gemini-companion-cli-terminal cli) here)))))

;;; gemini-companion-tool-host-test.el ends here

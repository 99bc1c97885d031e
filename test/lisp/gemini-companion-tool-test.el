;;; gemini-companion-tool-test.el --- Tests of tools for the model  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'image-file)
(require 'gemini-companion-status)
(require 'gemini-companion-test-tools)
(require 'tramp)

(defmacro gemini-companion-tool-test--with-tool (function &rest body)
  "Evaluate BODY with a tool \"mine\" that calls FUNCTION."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-tools
     (let ((gemini-companion-tool--table (copy-sequence gemini-companion-tool--table)))
       (gemini-companion-tool-define "mine"
         :description "Mine." :arguments '(("text" string "A text") ("more" boolean "More" t))
         :function ,function)
       ,@body)))

;;;; Definitions

(ert-deftest gemini-companion-tool/clients-get-the-table ()
  (gemini-companion-tool-test--with-tool #'ignore
    (should (equal (car (last gemini-companion-test-tools-set))
                   ["mine" "Mine." nil t [["text" "string" "A text" t]
                                          ["more" "boolean" "More" nil]]
                    nil]))
    (gemini-companion-tool-define "mine" :description "Other." :hidden t :function #'ignore)
    (should (equal (car (last gemini-companion-test-tools-set)) ["mine" "Other." nil nil [] nil]))
    (should (= 1 (seq-count (lambda (tool) (equal (aref tool 0) "mine"))
                            gemini-companion-test-tools-set)))
    (setq gemini-companion-test-tools-set nil)
    (gemini-companion-bridge-handle-event 'tools-wanted)
    ;; Those that are listed.
    (let ((ours (seq-filter (lambda (tool) (aref tool 3)) gemini-companion-test-tools-set)))
      (should (equal (sort (mapcar (lambda (tool) (aref tool 0)) ours) #'string<)
                     '("describeSymbol" "findDefinition" "findReferences" "getDiagnostics"
                       "getOpenFiles" "getUnsaved" "showFile")))
      (should (seq-every-p (lambda (tool) (aref tool 2)) ours)))))

(ert-deftest gemini-companion-tool/an-error-of-a-function-that-defines-tools-stops-no-other ()
  (gemini-companion-test-with-tools
    (let ((gemini-companion-tool--wanted nil)
          (gemini-companion-tool--table nil)
          (gemini-companion-tool-hook
           (list (lambda () (error "Oh")) #'gemini-companion-tool-add-own)))
      (gemini-companion-bridge-handle-event 'tools-wanted)
      (should (= 3 (length gemini-companion-test-tools-set)))
      (should (string-search "gemini-companion-tool-hook: Oh" (car (gemini-companion-log-last 1)))))))

(ert-deftest gemini-companion-tool/in-the-hook-the-user-replaces-one-of-ours ()
  "Also by `add-hook' as in the manual, which puts a function before ours."
  (gemini-companion-test-with-tools
    (let ((gemini-companion-tool--wanted nil)
          (gemini-companion-tool--table nil)
          (gemini-companion-tool-hook gemini-companion-tool-hook))
      (add-hook 'gemini-companion-tool-hook
                (lambda ()
                  (gemini-companion-tool-define "getOpenFiles"
                    :description "Mine." :function (lambda (_) "mine"))))
      (gemini-companion-bridge-handle-event 'tools-wanted)
      (should (equal (gemini-companion-test-call-tool "getOpenFiles") "mine")))))

;;;; Calls

(ert-deftest gemini-companion-tool/a-string-is-the-answer ()
  (gemini-companion-tool-test--with-tool (lambda (_ text more) (format "%s %s" text more))
    (should (equal (gemini-companion-test-call-tool "mine" "a" t) "a t"))
    (should (string-match-p "tool mine for gemini: answered, 3 characters, [0-9]+ ms\\'"
                            (car (gemini-companion-log-last 1)))))
  (gemini-companion-tool-test--with-tool (lambda (&rest _) "a")
    (gemini-companion-test-call-tool "mine" "a")
    (should (string-search ": answered, 1 character, " (car (gemini-companion-log-last 1))))))

(ert-deftest gemini-companion-tool/an-answer-may-come-later-and-once ()
  (let (call)
    (gemini-companion-tool-test--with-tool (lambda (it &rest _) (setq call it) 'later)
      (let ((id (gemini-companion-test-tools-begin "mine" "a")))
        (should-not (gemini-companion-test-tools-answer id))
        (should (gemini-companion-tool-live-p call))
        (should (gemini-companion-tool-answer call "now"))
        (should-not (gemini-companion-tool-live-p call))
        (should-not (gemini-companion-tool-answer call "again"))
        (should-not (gemini-companion-tool-fail call "no"))
        (should (equal (gemini-companion-test-tools-answer id) "now"))))))

(ert-deftest gemini-companion-tool/an-error-is-a-failed-call ()
  (pcase-dolist (`(,signal ,reason)
                 `((,(lambda () (user-error "Not so")) "Not so")
                   (,(lambda () (error "Some %s" "bug")) "Some bug")
                   (,(lambda () (car 1)) "Wrong type argument: listp, 1")
                   (,(lambda () (signal 'quit nil)) "The user has interrupted this")))
    (gemini-companion-tool-test--with-tool (lambda (&rest _) (funcall signal))
      (should (equal (gemini-companion-test-call-tool "mine" "a") (list reason)))
      (should (string-search (concat "failed: " reason) (car (gemini-companion-log-last 1)))))))

(ert-deftest gemini-companion-tool/an-unknown-tool-fails ()
  (gemini-companion-test-with-tools
    (should (equal (gemini-companion-test-call-tool "none") '("There is no such tool")))))

(ert-deftest gemini-companion-tool/the-users-state-stays-as-it-is ()
  (gemini-companion-tool-test--with-tool
      (lambda (&rest _)
        (string-match "b" "abc")
        (set-buffer (get-buffer-create "*other*"))
        "done")
    (with-temp-buffer
      (insert "text")
      (let ((buffer (current-buffer)))
        (string-match "xx" "abcxx")
        (gemini-companion-test-call-tool "mine" "a")
        (should (eq (current-buffer) buffer))
        (should (= (match-beginning 0) 3))))))

(ert-deftest gemini-companion-tool/a-cancelled-call-is-dropped ()
  (let ((checks 0) stop call)
    (gemini-companion-tool-test--with-tool
        (lambda (it &rest _)
          (setq call it)
          (gemini-companion-tool-poll it (lambda () (cl-incf checks) nil)))
      (dolist (cancel (list (lambda (id) (gemini-companion-bridge-handle-event 'cancel-call id))
                            (lambda (_) (gemini-companion-mode -1))))
        (setq checks 0)
        (let ((id (gemini-companion-test-tools-begin "mine" "a")))
          (gemini-companion-test-wait "checks" (lambda () (> checks 1)))
          (funcall cancel id)
          (setq stop checks)
          (gemini-companion-test-wait
           "the timer to end"
           (lambda () (not (gemini-companion-test-timers #'gemini-companion-tool-go-on))))
          (should (= checks stop))
          (should-not (gemini-companion-test-tools-answer id))
          (should-not (gemini-companion-tool-live-p call))
          (should (string-search "mine for gemini: cancelled"
                                 (gemini-companion-tool-describe-call call))))))))

(ert-deftest gemini-companion-tool/a-call-does-not-outlive-its-companion ()
  (let (call)
    (gemini-companion-tool-test--with-tool (lambda (it &rest _) (setq call it) 'later)
      (let ((id (gemini-companion-test-tools-begin "mine" "a")))
        (gemini-companion-mode -1)
        (gemini-companion-mode 1)
        ;; The new companion has a call with this number, too.
        (should (gemini-companion-bridge-awaited-p id))
        (should-not (gemini-companion-tool-answer call "old"))
        (should-not (gemini-companion-test-tools-answer id))))))

(ert-deftest gemini-companion-tool/calls-wait-until-the-projects-are-known ()
  (gemini-companion-tool-test--with-tool (lambda (call &rest _)
                                           (gemini-companion-tool-file call "a.txt"))
    (gemini-companion-test-open "a.txt" "one\n")
    (setq gemini-companion-workspace-pending t)
    (let ((id (gemini-companion-test-tools-begin "mine" "a")))
      (should-not (gemini-companion-test-tools-answer id))
      (should (equal (gemini-companion-test-tools-wait id)
                     (gemini-companion-test-file "a.txt"))))))

(ert-deftest gemini-companion-tool/answers-are-limited ()
  (let (text)
    (gemini-companion-tool-test--with-tool (lambda (&rest _) text)
      (setq text (mapconcat #'number-to-string (number-sequence 1 100) "\n"))
      (should (equal (gemini-companion-test-call-tool "mine" "a") text))
      (setq text (concat text "\n101\n"))
      (should (string-suffix-p "\n100\n(1 more line)" (gemini-companion-test-call-tool "mine" "a")))
      (setq text (concat text "102\n"))
      (should (string-suffix-p "\n100\n(2 more lines)" (gemini-companion-test-call-tool "mine" "a")))
      (setq text (make-string 30001 ?x))
      (should (equal (gemini-companion-test-call-tool "mine" "a")
                     (concat (make-string 30000 ?x)
                             "\n(The answer is too long and was truncated here)")))
      (setq text (concat "a" (make-string 1000000 ?\n) "b\n\n"))
      (should (string-suffix-p "\n(999901 more lines)"
                               (gemini-companion-test-call-tool "mine" "a"))))))

(ert-deftest gemini-companion-tool/control-characters-are-shown-in-any-number ()
  (should (equal (gemini-companion-ui-one-line "a\e[1m\u202eä\n") "a^[[1m\\u202eä^J"))
  ;; Two names that look alike.
  (should (equal (gemini-companion-ui-one-line "a\u2060\u200b.py") "a\\u2060\\u200b.py"))
  (should (equal (length (gemini-companion-ui-one-line (make-string 30000 #x202e)))
                 180000))
  (should (equal-including-properties
           (gemini-companion-ui-one-line (propertize "a\nb" 'read-only t))
           (concat (propertize "a" 'read-only t) "^J" (propertize "b" 'read-only t)))))

(ert-deftest gemini-companion-tool/a-line-is-cut-before-its-blanks-are-replaced ()
  (should (equal (gemini-companion-tool-line "%s" "a \n b\n") "a b"))
  (should (equal (gemini-companion-tool-line "%s" (make-string 401 ?x))
                 (concat (make-string 400 ?x) "...")))
  (should (equal (gemini-companion-tool-line "a%sb" (make-string 1000000 ?\n)) "a...")))

(ert-deftest gemini-companion-tool/the-last-calls-are-remembered ()
  (gemini-companion-tool-test--with-tool (lambda (_ text _) text)
    (dotimes (i 205) (gemini-companion-test-call-tool "mine" (number-to-string i)))
    (should (= 200 (length gemini-companion-tool-calls)))
    (should (> (gemini-companion-tool-call-id (car gemini-companion-tool-calls))
               (gemini-companion-tool-call-id (cadr gemini-companion-tool-calls))))))

(ert-deftest gemini-companion-tool/the-user-sees-tools-and-calls ()
  (gemini-companion-test-with-tools
    (gemini-companion-test-open "a.txt" "one\n")
    (gemini-companion-show-context)
    (with-current-buffer "*gemini context*"
      (should (eq (window-buffer) (current-buffer)))
      (should (string-search "showFile(path, line?)\n" (buffer-string)))
      (should (string-match-p "Last tool calls, by models\n  none\n\\(?:.*\n\\)+The message\n"
                              (buffer-string)))
      (gemini-companion-test-call-tool "getUnsaved" "a.txt")
      (should (string-match-p
               (format "Last tool calls, .*\n  [0-9:]+ getUnsaved %s for gemini: answered, .* ms\n"
                       (regexp-quote (gemini-companion-test-file "a.txt")))
               (buffer-string)))
      ;; Hooks call several tools for each edit.
      (dotimes (_ 20)
        (gemini-companion-test-call-tool "noteEvent" "done" "gemini" nil nil nil))
      (should (string-match-p "getUnsaved" (buffer-string)))
      (should-not (string-match-p "noteEvent" (buffer-string)))
      (goto-char (point-min))
      (dolist (heading '("Last tool calls" "Workspace roots" "Open files" "The message"
                         "Tools that the model can call"))
        (search-forward heading)
        (should (eq (get-text-property (match-beginning 0) 'face) 'gemini-companion-heading)))
      (kill-buffer))
    (should-not gemini-companion-tool-change-hook)))

(ert-deftest gemini-companion-tool/who-has-none-sees-the-context-first ()
  "A small window showed only that nothing was called."
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (let (gemini-companion-tool--table)
      (gemini-companion-show-context)
      (should (string-match-p "\\`What clients are told .*\n\nWorkspace roots\n" (buffer-string)))
      (kill-buffer))))

;;;; Over HTTP

(defun gemini-companion-tool-test--post (method &optional parameters)
  "Post a request of METHOD with PARAMETERS for the tools; return its exchange."
  (fake-cli-http (gemini-companion-bridge-port) "POST"
                 :path "/mcp/tools"
                 :headers `(("Content-Type" . "application/json")
                            ("Accept" . "application/json, text/event-stream")
                            ("Authorization" . ,(concat "Bearer " (gemini-companion-bridge-token))))
                 :body (gemini-companion-test-json-encode
                        `(:jsonrpc "2.0" :id 1 :method ,method
                                   ,@(and parameters (list :params parameters))))))

(defun gemini-companion-tool-test--result (exchange)
  "Return the result of EXCHANGE when it is complete."
  (alist-get 'result (gemini-companion-test-json-decode
                      (fake-cli-exchange-body (fake-cli-await exchange)))))

(defun gemini-companion-tool-test--call (name arguments)
  "Call the tool NAME with ARGUMENTS, a plist; return the text.
It is in a list if the call failed."
  (let* ((result (gemini-companion-tool-test--result
                  (gemini-companion-tool-test--post
                   "tools/call" `(:name ,name :arguments ,arguments))))
         (text (fake-cli-result-text result)))
    (if (alist-get 'isError result) (list text) text)))

(defmacro gemini-companion-tool-test--with-server (&rest body)
  "Evaluate BODY with the mode on, and a file a.txt that is open."
  (declare (indent 0) (debug t))
  `(gemini-companion-test-with-project
     (make-directory (gemini-companion-test-file ".git"))
     (let ((inhibit-message t)
           (gemini-companion-tool--wanted nil)
           (gemini-companion-tool--table nil))
       (gemini-companion-test-open "a.txt" "one\n")
       (gemini-companion-mode 1)
       ,@body)))

(ert-deftest gemini-companion-tool/clients-list-and-call-them ()
  (gemini-companion-tool-test--with-server
    (let ((tools (alist-get 'tools (gemini-companion-tool-test--result
                                    (gemini-companion-tool-test--post "tools/list")))))
      (should (member "getDiagnostics" (mapcar (lambda (tool) (alist-get 'name tool)) tools)))
      (dolist (tool tools)
        (should (alist-get 'readOnlyHint (alist-get 'annotations tool)))))
    (with-current-buffer "a.txt"
      (insert "zero ä 𝕏 \0 " (string (unibyte-char-to-multibyte 255)) "\n")
      (should (equal (gemini-companion-tool-test--call "getUnsaved"
                                                       (list :path buffer-file-name))
                     "Lines 1 to 3 of 3:\nzero ä 𝕏 \0 \ufffd\none"))
      (should (equal (gemini-companion-tool-test--call "getUnsaved"
                                                       (list :path buffer-file-name :line 2))
                     "Lines 2 to 3 of 3:\none")))
    (should (equal (gemini-companion-tool-test--call "getUnsaved" '(:path "/etc/passwd"))
                   '("This file is withheld: /etc/passwd")))
    (should (equal (gemini-companion-tool-test--call "getUnsaved" '(:line 1))
                   '("the argument \"path\" is missing")))))

(ert-deftest gemini-companion-tool/a-client-that-disconnects-cancels-its-call ()
  (gemini-companion-tool-test--with-server
    (let ((call nil))
      (gemini-companion-tool-define "mine" :description "Mine." :function
                                    (lambda (it) (setq call it) 'later))
      (let ((exchange (gemini-companion-tool-test--post "tools/call" '(:name "mine"))))
        (gemini-companion-test-wait "the call" (lambda () call))
        (should (gemini-companion-tool-live-p call))
        (delete-process (fake-cli-exchange-process exchange))
        (gemini-companion-test-wait "it to be cancelled"
                                    (lambda () (gemini-companion-tool-call-outcome call)))
        (should (string-prefix-p "cancelled," (gemini-companion-tool-call-outcome call)))))))

;;;; Privacy

(ert-deftest gemini-companion-tool/only-files-of-the-scope-are-named ()
  (gemini-companion-tool-test--with-tool
      (lambda (call path _) (gemini-companion-tool-file call path))
    (let ((other (gemini-companion-test-temp-directory)))
      (unwind-protect
          (progn
            (gemini-companion-test-open "a.txt" "one\n")
            (gemini-companion-test-file ".geminiignore" "hidden.txt\n")
            (gemini-companion-test-file "sub/.dir-locals.el"
                                        "((nil . ((gemini-companion-private . t))))")
            (gemini-companion-test-file "sub/b.txt" "two\n")
            (make-symbolic-link (concat other "far.txt") (gemini-companion-test-file "near.txt"))
            (gemini-companion-test-write (concat other "far.txt") "far\n")
            (dolist (path (list "a.txt" "./x/../a.txt" (gemini-companion-test-file "a.txt")))
              (should (equal (gemini-companion-test-call-tool "mine" path)
                             (gemini-companion-test-file "a.txt"))))
            (dolist (path (list ".env" "hidden.txt" "sub/b.txt" (concat other "far.txt")
                                "../other/a.txt" "~/a.txt" "/ssh:host:/a.txt" "/etc/passwd"
                                "/:/etc/passwd" "//ssh:host:/a.txt"))
              (ert-info (path)
                (should (equal (gemini-companion-test-call-tool "mine" path)
                               (list (concat "This file is withheld: " path))))))
            (with-current-buffer (gemini-companion-test-open "c.txt" "three\n")
              (setq gemini-companion-private t))
            (should (equal (gemini-companion-test-call-tool "mine" "c.txt")
                           '("This file is withheld: c.txt")))
            (let ((gemini-companion-context-paused t))
              (should (equal (gemini-companion-test-call-tool "mine" "a.txt")
                             '("This file is withheld: a.txt")))))
        (delete-directory other t)))))

(ert-deftest gemini-companion-tool/without-a-directory-paths-are-absolute ()
  (gemini-companion-tool-test--with-tool
      (lambda (call path _)
        (gemini-companion-tool-file-name call (gemini-companion-tool-file call path)))
    (gemini-companion-test-open "a.txt" "one\n")
    (pcase-dolist (`(,path ,answer)
                   `(("a.txt" ("Emacs does not know your working directory: give an absolute path"))
                     (,(gemini-companion-test-file "a.txt")
                      ,(gemini-companion-test-file "a.txt"))))
      (should (equal (gemini-companion-test-tools-wait
                      (gemini-companion-test-tools-begin-in nil "mine" (list path nil)))
                     answer)))))

;; The user may make a file private while checkers or a language server are at work.
(ert-deftest gemini-companion-tool/a-later-answer-says-nothing-of-what-is-withheld-meanwhile ()
  (let ((withheld '("Your user has withheld this in the meantime"))
        call)
    (dolist (ask (list (lambda (it file) (gemini-companion-tool-file it file))
                       (lambda (it file) (gemini-companion-tool-visible-p it file))))
      (gemini-companion-tool-test--with-tool
          (lambda (it file &rest _) (funcall ask it file) (setq call it) 'later)
        (let* ((buffer (gemini-companion-test-open "a.txt" "one\n"))
               (file (buffer-file-name buffer))
               (begin (lambda () (gemini-companion-test-tools-begin "mine" file))))
          (let ((id (funcall begin)))
            (let ((gemini-companion-context-paused t))
              (gemini-companion-tool-answer call "one"))
            (should (equal (gemini-companion-test-tools-answer id) withheld)))
          (let ((id (funcall begin)))
            (gemini-companion-tool-answer call "one")
            (should (equal (gemini-companion-test-tools-answer id) "one")))
          (let ((id (funcall begin)))
            (with-current-buffer buffer (setq-local gemini-companion-private t))
            (gemini-companion-tool-answer call "one")
            (should (equal (gemini-companion-test-tools-answer id) withheld))))))))

(ert-deftest gemini-companion-tool/results-that-are-withheld-are-counted ()
  (gemini-companion-tool-test--with-tool
      (lambda (call &rest _)
        (string-join
         (cl-loop for name in '("a.txt" ".env" "b.txt" ".env")
                  if (gemini-companion-tool-visible-p call (gemini-companion-test-file name))
                  collect name)
         "\n"))
    (gemini-companion-test-open "a.txt" "one\n")
    (should (equal (gemini-companion-test-call-tool "mine" "a")
                   "a.txt\nb.txt\n(2 more in withheld files)"))))

;;;; Open files

(ert-deftest gemini-companion-tool/open-files-are-listed ()
  (gemini-companion-test-with-tools
    (kill-buffer ".gitignore")
    (gemini-companion-test-open ".env" "secret")
    (with-current-buffer (gemini-companion-test-open "sub/a.el" "one\n")
      (insert "x"))
    (bury-buffer (gemini-companion-test-open "b.txt" "two\n"))
    (should (equal (gemini-companion-test-call-tool "getOpenFiles")
                   "sub/a.el (emacs-lisp, unsaved edits)\nb.txt (text)
(1 more in withheld files)"))
    (let ((gemini-companion-context-paused t))
      (should (equal (gemini-companion-test-call-tool "getOpenFiles")
                     "No files.\n(3 more in withheld files)")))))

(ert-deftest gemini-companion-tool/edits-in-an-indirect-buffer-are-unsaved ()
  (gemini-companion-test-with-tools
    (with-current-buffer (gemini-companion-test-open "a.txt" "one\ntwo\n")
      (with-current-buffer (make-indirect-buffer (current-buffer) "indirect" t)
        (insert "zero\n")
        (narrow-to-region 1 3)
        (should (equal (gemini-companion-test-call-tool "getUnsaved" "a.txt")
                       "Lines 1 to 4 of 4:\nzero\none\ntwo"))
        (should (buffer-narrowed-p))
        (kill-buffer)))))

(ert-deftest gemini-companion-tool/unsaved-text-is-told ()
  (gemini-companion-test-with-tools
    (with-current-buffer (gemini-companion-test-open "a.txt" "one\ntwo\n")
      (should (equal (gemini-companion-test-call-tool "getUnsaved" "a.txt")
                     "There are no unsaved edits: the file has all of the text."))
      (insert "zero\n")
      (narrow-to-region (point-min) 3)
      (should (equal (gemini-companion-test-call-tool "getUnsaved" "a.txt")
                     "Lines 1 to 4 of 4:\nzero\none\ntwo"))
      (should (equal (gemini-companion-test-call-tool "getUnsaved" "a.txt" 3)
                     "Lines 3 to 4 of 4:\ntwo"))
      (should (buffer-narrowed-p))
      (widen)
      (dotimes (_ 200) (insert "line\n"))
      (should (string-suffix-p "\nline\n(call again with line 99 for the rest)"
                               (gemini-companion-test-call-tool "getUnsaved" "a.txt")))
      (erase-buffer)
      (insert (make-string 20000 ?x) "\n" (make-string 20000 ?y) "\n" (make-string 40000 ?z))
      (should (string-suffix-p "x\n(call again with line 2 for the rest)"
                               (gemini-companion-test-call-tool "getUnsaved" "a.txt")))
      (should (string-suffix-p "z\n(The answer is too long and was truncated here)"
                               (gemini-companion-test-call-tool "getUnsaved" "a.txt" 3))))
    (should (equal (gemini-companion-test-call-tool "getUnsaved" "none.txt")
                   '("none.txt is not open in Emacs; showFile opens it")))))

;;;; Showing files

(defmacro gemini-companion-tool-test--with-free-user (&rest body)
  "Evaluate BODY with a user who is not busy, in a frame with one window."
  (declare (indent 0) (debug t))
  `(cl-letf (((symbol-function 'gemini-companion-ui-busy) #'ignore))
     (delete-other-windows)
     ,@body))

(ert-deftest gemini-companion-tool/a-file-is-shown-and-not-selected ()
  (gemini-companion-test-with-tools
    (gemini-companion-tool-test--with-free-user
      (gemini-companion-test-file "b.txt" "one\ntwo\nthree\n")
      (let ((window (selected-window))
            (buffer (gemini-companion-test-open "a.txt" "x\ny\n")))
        (switch-to-buffer buffer)
        (should (equal (gemini-companion-test-call-tool "showFile" "b.txt" 2) "Shown."))
        (should (eq (selected-window) window))
        (should (eq (window-buffer) buffer))
        (let ((shown (get-buffer-window "b.txt")))
          (should (= (window-point shown) 5))
          (with-current-buffer "b.txt" (narrow-to-region 5 9))
          (should (equal (gemini-companion-test-call-tool "showFile" "b.txt" 1) "Shown."))
          (should (= (window-point shown) 5)))
        ;; The file in the selected window is shown in another one: point here stays.
        (goto-char (point-max))
        (should (equal (gemini-companion-test-call-tool "showFile" "a.txt" 1) "Shown."))
        (should (eobp))
        (should (= 2 (length (get-buffer-window-list buffer))))))))

(ert-deftest gemini-companion-tool/a-file-is-shown-as-it-is-on-disk ()
  "Unless the user has edited it."
  (gemini-companion-test-with-tools
    (gemini-companion-tool-test--with-free-user
      (with-current-buffer (gemini-companion-test-open "a.txt" "one\n")
        (dolist (edited '(nil t))
          (when edited (insert "mine\n"))
          (gemini-companion-test-file "a.txt" "new\nlines\n")
          (set-file-times (gemini-companion-test-file "a.txt") (time-add nil (if edited 20 10)))
          (should (equal (gemini-companion-test-call-tool "showFile" "a.txt" 2) "Shown."))
          (should (equal (buffer-string) (if edited "mine\nnew\nlines\n" "new\nlines\n")))
          (goto-char (point-min)))
        (set-buffer-modified-p nil)))))

(ert-deftest gemini-companion-tool/a-file-is-shown-when-the-user-pauses ()
  (gemini-companion-test-with-tools
    (gemini-companion-test-file "b.txt" "one\n")
    (let* ((asked 0) (busy t))
      (cl-letf (((symbol-function 'gemini-companion-ui-busy)
                 (lambda () (cl-incf asked) busy)))
        (let ((id (gemini-companion-test-tools-begin "showFile" "b.txt")))
          (gemini-companion-test-wait "some checks" (lambda () (> asked 2)))
          (should-not (get-buffer "b.txt"))
          (setq busy nil)
          (should (equal (gemini-companion-test-tools-wait id) "Shown."))
          (should (get-buffer-window "b.txt")))
        (kill-buffer "b.txt")
        (setq busy t)
        (let ((gemini-companion-tool-patience 0.1))
          (should (equal (gemini-companion-test-call-tool "showFile" "b.txt")
                         '("The user is busy, so Emacs did not show it: call again later")))
          (should-not (get-buffer "b.txt")))))))

(ert-deftest gemini-companion-tool/a-working-tree-may-be-in-a-repository ()
  "As after `git worktree add' in a bare one.  Git obeys only what its file .git names."
  (gemini-companion-test-with-tools
    (gemini-companion-tool-test--with-free-user
      (dolist (name '("bare/HEAD" "bare/objects/x" "bare/refs/x" "bare/tree/.git"))
        (gemini-companion-test-file name "x\n"))
      (gemini-companion-test-file "bare/tree/sub/a.txt" "x\n")
      (should (equal (gemini-companion-test-call-tool "showFile" "bare/tree/sub/a.txt")
                     "Shown.")))))

(ert-deftest gemini-companion-tool/what-cannot-be-shown-fails ()
  (gemini-companion-test-with-tools
    (gemini-companion-tool-test--with-free-user
      (gemini-companion-test-file "large.txt" "many\n")
      (gemini-companion-test-file "bomb.txt.gz" "small\n")
      (gemini-companion-test-file "image.png" "many\n")
      ;; VC would run Git there, and that a program that the file config names.
      (dolist (name '("HEAD" "objects/x" "refs/x"))
        (gemini-companion-test-file (concat "bare/" name) "many\n"))
      (gemini-companion-test-file "bare/below/a.txt" "many\n")
      (call-process "mkfifo" nil nil nil (gemini-companion-test-file "fifo"))
      ;; Once it is open, the model could find out what it says.  The CLI reads no such link.
      (make-symbolic-link (executable-find "sh") (gemini-companion-test-file "link"))
      (let ((large-file-warning-threshold 2)
            (file-name-handler-alist ; of `auto-image-file-mode'
             (cons '("\\.png\\'" . image-file-handler) file-name-handler-alist)))
        (pcase-dolist (`(,path ,reason)
                       '((".env" "This file is withheld: .env")
                         ("none.txt" "No such file: none.txt")
                         ("fifo" "fifo is not a regular file")
                         ("." "This file is withheld: .")
                         ("link" "link leads out of the project")
                         ("bare/below/a.txt" "bare/below/a.txt is part of a repository")
                         ("bomb.txt.gz" "bomb.txt.gz is compressed or encrypted")
                         ("image.png" "image.png is too large to show without asking the user")
                         ("large.txt" "large.txt is too large to show without asking the user")))
          (should (equal (gemini-companion-test-call-tool "showFile" path) (list reason))))))))

(ert-deftest gemini-companion-tool/no-question-is-asked-for-a-shown-file ()
  (gemini-companion-test-with-tools
    (gemini-companion-tool-test--with-free-user
      (cl-letf (((symbol-function 'read-char-choice) (lambda (&rest _) (ert-fail "Asked")))
                ((symbol-function 'hack-local-variables-confirm)
                 (lambda (&rest _) (ert-fail "Asked"))))
        (gemini-companion-test-file
         "b.txt" "x -*- eval: (setq gemini-companion-tool-test--evil t); fill-column: 33; exec-path: (\"/\") -*-\n")
        (should (equal (gemini-companion-test-call-tool "showFile" "b.txt") "Shown."))
        (should-not (boundp 'gemini-companion-tool-test--evil))
        (with-current-buffer "b.txt"
          (should (= fill-column 33))
          (should-not (equal exec-path '("/")))))
      ;; A hook that asks.
      (gemini-companion-test-file "c.txt" "x\n")
      (let ((find-file-hook (list (lambda () (y-or-n-p "Import this project? ")))))
        (should (consp (gemini-companion-test-call-tool "showFile" "c.txt")))
        (should-not (get-buffer "c.txt")))
      ;; A mode that asks for its grammar; if that failed, the user's buffer would have no hooks run.
      (gemini-companion-test-file "a.zz" "x\n")
      (let* ((auto-mode-alist '(("\\.zz\\'" . gemini-companion-test-grammar-mode-maybe)))
             (ran nil)
             (prog-mode-hook (list (lambda () (setq ran t)))))
        (should (equal (gemini-companion-test-call-tool "showFile" "a.zz") "Shown."))
        (should ran))
      ;; Flymake would run the code in it.
      (gemini-companion-test-file "sub/.dir-locals.el" "((nil . ((mode . flymake))))")
      (pcase-dolist (`(,name . ,text)
                     '(("e.pl" . "# -*- mode: perl; mode: flymake -*-\n")
                       ("f.pl" . "# Local \
Variables:\n# mode: perl\n# mode: flymake\n# End:\n")
                       ("sub/g.pl" . "1;\n")))
        (gemini-companion-test-file name text)
        (should (equal (gemini-companion-test-call-tool "showFile" name) "Shown."))
        (with-current-buffer (file-name-nondirectory name)
          (should (derived-mode-p 'perl-mode))
          (should-not (bound-and-true-p flymake-mode))))
      ;; nXML mode reads the schema that this file names, which may be on another machine.
      (gemini-companion-test-file "schemas.xml" "<locatingRules
xmlns=\"http://thaiopensource.com/ns/locating-rules/1.0\">
<uri pattern=\"*.xml\" uri=\"file:///ssh:host:/x.rnc\"/></locatingRules>")
      (gemini-companion-test-file "e.xml" "<a/>\n")
      (let ((debug-on-error nil)
            (tramp-encoding-shell (gemini-companion-test-file "log-in" "#!/bin/sh\ntouch $0.ran\n")))
        (set-file-modes tramp-encoding-shell #o700)
        (should (equal (gemini-companion-test-call-tool "showFile" "e.xml") "Shown."))
        (should-not (file-exists-p (gemini-companion-test-file "log-in.ran"))))
      ;; Only its local variables say so.
      (gemini-companion-test-file "d.txt" "x -*- gemini-companion-private: t -*-\n")
      (should (equal (gemini-companion-test-call-tool "showFile" "d.txt")
                     '("This file is withheld")))
      (should-not (get-buffer "d.txt")))))

;;; gemini-companion-tool-test.el ends here

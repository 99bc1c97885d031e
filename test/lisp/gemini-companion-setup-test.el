;;; gemini-companion-setup-test.el --- Tests of enabling the IDE mode of a CLI  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Settings files are compared byte for byte.  Each test gives the user's
;; answer, and an unexpected question fails the test.

;;; Code:

(require 'ert)
(require 'json)
(require 'gemini-companion-tool-extension)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-setup)
(require 'gemini-companion-test-companion)

(defun gemini-companion-setup-test--settings ()
  "Return the name of Gemini CLI's settings."
  (gemini-companion-test-file "home/.gemini/settings.json"))

(defmacro gemini-companion-setup-test--with (answer &rest body)
  "Evaluate BODY with a home below the project, answering questions with ANSWER.
It is `yes', `no' or, if nothing may be asked, nil."
  (declare (indent 1) (debug t))
  `(let (;; Emacs caches the abbreviation of the home.
         (abbreviated-home-dir nil)
         (before (default-toplevel-value 'process-environment)))
     (gemini-companion-test-with-project
       (set-default-toplevel-value
        'process-environment
        (append (list (concat "HOME=" (gemini-companion-test-file "home"))
                      "GEMINI_CLI_HOME" "QWEN_HOME"
                      (concat "GEMINI_CLI_SYSTEM_SETTINGS_PATH="
                              (gemini-companion-test-file "system/settings.json")))
                before))
       ;; See gemini-companion-tool-extension-test.el.
       (gemini-companion-answer-set 'tools 'never)
       (unwind-protect
           (gemini-companion-test-with-answer ,answer ,@body)
         (set-default-toplevel-value 'process-environment before)))))

(defun gemini-companion-setup-test--answers ()
  "Return the answers but that about tools."
  (assq-delete-all 'tools (gemini-companion-answer-all)))

(defun gemini-companion-setup-test--said-p (text)
  "Return non-nil if the last message contains TEXT."
  (string-search text (or (car gemini-companion-test-messages) "")))

(defun gemini-companion-setup-test--write (bytes)
  "Write BYTES to Gemini CLI's settings; return the file."
  (let ((file (gemini-companion-setup-test--settings))
        (coding-system-for-write 'no-conversion))
    (make-directory (file-name-directory file) t)
    (write-region bytes nil file nil 'silent)
    file))

(defun gemini-companion-setup-test--names ()
  "Return the names of the files beside the settings."
  (directory-files (file-name-directory (gemini-companion-setup-test--settings)) nil
                   directory-files-no-dot-files-regexp))

;;;; Editing the settings

(defconst gemini-companion-setup-test--texts
  '(;; Empty or nearly so.
    ("" . "{\n  \"ide\": {\n    \"enabled\": true\n  }\n}\n")
    (" \n" . "{\n  \"ide\": {\n    \"enabled\": true\n  }\n}\n")
    ("{}" . "{\"ide\": {\"enabled\": true}}")
    ("{\n}\n" . "{\"ide\": {\"enabled\": true}\n}\n")
    ("{ // none\n}" . "{\"ide\": {\"enabled\": true} // none\n}")
    ("{ /* none */ }" . "{\"ide\": {\"enabled\": true} /* none */ }")
    ;; Other settings, with several indentations or on one line.
    ("{\n  \"a\": 1\n}" . "{\n  \"ide\": {\"enabled\": true},\n  \"a\": 1\n}")
    ("{\n    \"a\": 1\n}" . "{\n    \"ide\": {\"enabled\": true},\n    \"a\": 1\n}")
    ("{\n\t\"a\": 1\n}" . "{\n\t\"ide\": {\"enabled\": true},\n\t\"a\": 1\n}")
    ("{\r\n  \"a\": 1\r\n}\r\n"
     . "{\r\n  \"ide\": {\"enabled\": true},\r\n  \"a\": 1\r\n}\r\n")
    ("{\"a\":1}" . "{\"ide\": {\"enabled\": true}, \"a\":1}")
    ("{ \"a\": 1 }" . "{ \"ide\": {\"enabled\": true}, \"a\": 1 }")
    ;; Comments, and strings that look like comments.
    ("// mine\n{ // top\n  // of a, \"ide\": {\n  \"a\": 1 /* one */ // two\n} // end"
     . "// mine\n{ // top\n  \"ide\": {\"enabled\": true},\n  // of a, \"ide\": {\n  \
\"a\": 1 /* one */ // two\n} // end")
    ("{ /* from\n here */ \"a\": 1}" . "{ /* from\n here */ \"ide\": {\"enabled\": true}, \"a\": 1}")
    ("{\"a\": \"// }\\\\\", \"b\": \"/* \\\" {\", \"c\": [{\"ide\": {}}, \"]\"]} /* open"
     . "{\"ide\": {\"enabled\": true}, \"a\": \"// }\\\\\", \"b\": \"/* \\\" {\", \
\"c\": [{\"ide\": {}}, \"]\"]} /* open")
    ("{ // mine, \"ide\": {\n  /* no { */ \"ui\": {} // }\n}\n"
     . "{ // mine, \"ide\": {\n             \"ide\": {\"enabled\": true},\n  /* no { */ \"ui\": {} // }\n}\n")
    ("/* x */ {\n  \"ide\": { // y\n    \"a\": 1\n  }\n}"
     . "/* x */ {\n  \"ide\": { // y\n    \"enabled\": true,\n    \"a\": 1\n  }\n}")
    ;; A setting of the same name in another object.
    ("{\"enabled\": false, \"x\": {\"ide\": {\"enabled\": true}}}"
     . "{\"ide\": {\"enabled\": true}, \"enabled\": false, \"x\": {\"ide\": {\"enabled\": true}}}")
    ;; The object exists.
    ("{\n  \"ide\": {}\n}" . "{\n  \"ide\": {\"enabled\": true}\n}")
    ("{\"ide\":{}}" . "{\"ide\":{\"enabled\": true}}")
    ("{\n \"a\": 0,\n \"ide\": {\n  // asked\n  \"hasSeenNudge\": true\n }\n}"
     . "{\n \"a\": 0,\n \"ide\": {\n  \"enabled\": true,\n  // asked\n  \"hasSeenNudge\": true\n }\n}")
    ;; The setting exists, but is not true.
    ("{\"ide\": {\"enabled\": false}}" . "{\"ide\": {\"enabled\": true}}")
    ("{\"ide\": {\"x\": {\"enabled\": 1}, \"enabled\" /* no */ :\n null // why\n}}"
     . "{\"ide\": {\"x\": {\"enabled\": 1}, \"enabled\" /* no */ :\n true // why\n}}")
    ;; The last of several settings counts.
    ("{\"ide\": {\"enabled\": true}, \"\\u0069de\": {\"enabled\": true, \"enabled\": false}}"
     . "{\"ide\": {\"enabled\": true}, \"\\u0069de\": {\"enabled\": true, \"enabled\": true}}")
    ;; Bytes that are not valid text.
    ("{\"a\": \"\303\244\360\235\225\217 \377\", \"ide\": {\"enabled\": false}}"
     . "{\"a\": \"\303\244\360\235\225\217 \377\", \"ide\": {\"enabled\": true}}"))
  "Contents of a settings file before and after the setup.")

(ert-deftest gemini-companion-setup/only-one-literal-is-changed ()
  (pcase-dolist (`(,text . ,after) gemini-companion-setup-test--texts)
    (ert-info ((prin1-to-string text))
      (gemini-companion-setup-test--with 'yes
        (let ((file (gemini-companion-setup-test--write text)))
          (gemini-companion-setup)
          (should (equal (gemini-companion-test-bytes file) after))
          (should (equal (gemini-companion-setup-test--names) '("settings.json")))
          ;; The doctor agrees.
          (should (eq t (car (gemini-companion-cli-search-setting
                              `((user ,file . ,(gemini-companion-cli-search-read-json file)))
                              '(ide enabled))))))))))

(ert-deftest gemini-companion-setup/the-question-names-the-file-and-comes-once ()
  (gemini-companion-setup-test--with 'yes
    (gemini-companion-setup)
    (should (equal (gemini-companion-test-read (gemini-companion-setup-test--settings))
                   "{\n  \"ide\": {\n    \"enabled\": true\n  }\n}\n"))
    (should (equal gemini-companion-test-questions
                   '("Let Gemini CLI connect by itself? \
(adds ide.enabled to ~/.gemini/settings.json) ")))
    (should (gemini-companion-setup-test--said-p
             "Gemini CLI connects by itself when it starts"))
    (gemini-companion-setup)
    (should (= (length gemini-companion-test-questions) 1))
    (should (gemini-companion-setup-test--said-p
             "Gemini CLI connects by itself when it starts: ide.enabled is true in ~/.gemini/settings.json"))))

(ert-deftest gemini-companion-setup/a-setting-that-is-on-is-not-written ()
  (gemini-companion-setup-test--with nil
    (let* ((file (gemini-companion-setup-test--write "{\"ide\": {\"enabled\": true}}"))
           (stamp (gemini-companion-file-stamp file)))
      (set-file-modes file #o400)
      (gemini-companion-setup)
      (should (equal (gemini-companion-file-stamp file) stamp)))))

(ert-deftest gemini-companion-setup/a-no-writes-nothing ()
  (gemini-companion-setup-test--with 'no
    (gemini-companion-setup)
    (should-not (file-exists-p (gemini-companion-test-file "home/.gemini")))
    (should (equal (gemini-companion-setup-test--answers) '(((setup . gemini) . never))))
    (should (gemini-companion-setup-test--said-p "M-x gemini-companion-setup asks again"))))

;;;; Settings left alone

(ert-deftest gemini-companion-setup/invalid-settings-are-reported-and-kept ()
  "Nothing is asked."
  (pcase-dolist (`(,text ,reason)
                 `(("{" "read as JSON, line 1") ("{\n  \"a\": 1,\n}" "line 3")
                   ("{\"a\": [1,]}" "as JSON") ("{\"a\" 1}" "as JSON") ("{a: 1}" "as JSON")
                   ("{} {}" "as JSON") ("{\"a\": 01}" "as JSON") ("{\"a\": truely}" "as JSON")
                   ("{\"a\": 'x'}" "as JSON") ("{\"a\": \"\\x\"}" "as JSON")
                   ("{\"a\": \"\n\"}" "as JSON") ("{\"a\": \"" "as JSON") ("{/* \"a\": 1}" "as JSON")
                   ("{\"a\": 1 # x\n}" "as JSON") ("// only\n" "as JSON")
                   ("\357\273\277{}" "as JSON")
                   ("[]" "no JSON object") ("true" "no JSON object")
                   ("{\"ide\": true}" "\"ide\" in it is not an object")
                   ("{\"ide\": null}" "\"ide\" in it is not an object")
                   ("{\"ide\": {}, \"ide\": []}" "\"ide\" in it is not an object")
                   ("{\"ide\": {\"enabled\": \"yes\"}}"
                    "neither true nor false in it; correct that")
                   ("{\"ide\": {\"enabled\": {}}}" "neither true nor false in it; correct that")
                   (,(concat "{\"a\": " (make-string 5000 ?\[)) "as JSON")
                   (,(concat "{" (make-string (* 1024 1024) ?\s) "}") "far too large")))
    (ert-info ((truncate-string-to-width text 50))
      (gemini-companion-setup-test--with nil
        (let ((file (gemini-companion-setup-test--write text)))
          (let ((words (cadr (should-error (gemini-companion-setup) :type 'user-error))))
            (should (string-search "Left ~/.gemini/settings.json alone" words))
            (should (string-search reason words)))
          (should (equal (gemini-companion-test-bytes file) text))
          (should-not (gemini-companion-setup-test--answers)))))))

(ert-deftest gemini-companion-setup/read-only-settings-are-kept ()
  (gemini-companion-setup-test--with nil
    (let ((file (gemini-companion-setup-test--write "{}")))
      ;; Root can write all files.
      (cl-letf (((symbol-function 'file-writable-p) #'ignore))
        (should (string-search "it is read-only; make it writable, or change its source"
                               (cadr (should-error (gemini-companion-setup) :type 'user-error)))))
      (should (equal (gemini-companion-test-read file) "{}")))))

(ert-deftest gemini-companion-setup/an-error-hides-no-other-outcome ()
  (gemini-companion-setup-test--with nil
    (gemini-companion-setup-test--write "[]")
    (cl-letf (((symbol-function 'gemini-companion-tool-extension-offer)
               (lambda () "The model of Gemini CLI can use Emacs")))
      (should (string-match-p "\\`Left .* alone: .*\nThe model of Gemini CLI can use Emacs\\'"
                              (cadr (should-error (gemini-companion-setup) :type 'user-error)))))))

(ert-deftest gemini-companion-setup/long-strings-and-files-can-be-read ()
  (gemini-companion-setup-test--with 'yes
    (let* ((long (concat "\"a\": \"" (make-string 400000 ?x) "\\n" (make-string 400000 ?y) "\", "
                         "\"b\": [" (string-join (make-list 20000 "1.5e3") ", ") "]}"))
           (file (gemini-companion-setup-test--write (concat "{" long))))
      (gemini-companion-setup)
      (should (equal (gemini-companion-test-bytes file)
                     (concat "{\"ide\": {\"enabled\": true}, " long))))))

(ert-deftest gemini-companion-setup/only-regular-files-are-changed ()
  (gemini-companion-setup-test--with nil
    (make-directory (gemini-companion-setup-test--settings) t)
    (should (string-search "it is not a regular file"
                           (cadr (should-error (gemini-companion-setup) :type 'user-error)))))
  (gemini-companion-setup-test--with nil
    (make-directory (file-name-directory (gemini-companion-setup-test--settings)) t)
    (call-process "mkfifo" nil nil nil (gemini-companion-setup-test--settings))
    (should (string-search "it is not a regular file"
                           (cadr (should-error (gemini-companion-setup) :type 'user-error)))))
  (gemini-companion-setup-test--with nil
    (make-directory (file-name-directory (gemini-companion-setup-test--settings)) t)
    (make-symbolic-link "settings.json" (gemini-companion-setup-test--settings))
    (should (string-search "alone"
                           (cadr (should-error (gemini-companion-setup) :type 'user-error))))))

;;;; The file

(ert-deftest gemini-companion-setup/a-file-keeps-its-mode-and-a-new-one-is-private ()
  (dolist (mode '(#o600 #o644 #o660))
    (gemini-companion-setup-test--with 'yes
      (let ((file (gemini-companion-setup-test--write "{}")))
        (set-file-modes file mode)
        (gemini-companion-setup)
        (should (= (file-modes file) mode)))))
  (gemini-companion-setup-test--with 'yes
    (with-file-modes #o755 (gemini-companion-setup))
    (should (= (file-modes (gemini-companion-setup-test--settings)) #o600))
    (should (= (file-modes (gemini-companion-test-file "home/.gemini")) #o700))))

(ert-deftest gemini-companion-setup/symbolic-links-stay ()
  "So do a link to a link and a link to a file that does not exist."
  (dolist (text '("{}" nil))
    (gemini-companion-setup-test--with 'yes
      (let ((link (gemini-companion-setup-test--settings))
            (second (gemini-companion-test-file "dotfiles/link"))
            (file (gemini-companion-test-file "elsewhere/gemini.json")))
        (dolist (name (list link second file))
          (make-directory (file-name-directory name) t))
        (when text (gemini-companion-test-write file text))
        (make-symbolic-link "../../dotfiles/link" link)
        (make-symbolic-link file second)
        (gemini-companion-setup)
        (should (equal (file-symlink-p link) "../../dotfiles/link"))
        (should (equal (file-symlink-p second) file))
        (should-not (file-symlink-p file))
        (should (string-search "\"enabled\": true" (gemini-companion-test-read file)))
        (should (equal (directory-files (file-name-directory file) nil
                                        directory-files-no-dot-files-regexp)
                       '("gemini.json")))))))

(ert-deftest gemini-companion-setup/settings-saved-by-the-cli-during-the-write-stay ()
  "The CLI saves a setting while Emacs is writing its own."
  (gemini-companion-setup-test--with 'yes
    (let* ((file (gemini-companion-setup-test--write "{}"))
           (copy (symbol-function 'copy-file)))
      (cl-letf (((symbol-function 'copy-file)
                 (lambda (&rest arguments)
                   (apply copy arguments)
                   (gemini-companion-test-write file "{\"theme\": 1}"))))
        (should (string-search "try again" (cadr (should-error (gemini-companion-setup)
                                                               :type 'user-error)))))
      (should (equal (gemini-companion-test-read file) "{\"theme\": 1}"))
      (should (equal (gemini-companion-setup-test--names) '("settings.json")))
      (gemini-companion-setup)
      (should (equal (gemini-companion-test-read file)
                     "{\"ide\": {\"enabled\": true}, \"theme\": 1}")))))

(ert-deftest gemini-companion-setup/settings-saved-during-the-question-stay ()
  (gemini-companion-setup-test--with 'yes
    (let ((file (gemini-companion-setup-test--write "{}")))
      (cl-letf (((symbol-function 'y-or-n-p)
                 (lambda (_) (gemini-companion-test-write file "{\"ide\": {\"x\": 1}}") t)))
        (gemini-companion-setup))
      (should (equal (gemini-companion-test-read file)
                     "{\"ide\": {\"enabled\": true, \"x\": 1}}")))))

(ert-deftest gemini-companion-setup/file-hooks-do-not-run ()
  (gemini-companion-setup-test--with 'yes
    (gemini-companion-setup-test--write "{}")
    (let* ((called nil)
           (note (lambda (&rest arguments) (push arguments called) nil))
           (write-region-annotate-functions (list note))
           (write-region-post-annotation-function note)
           (after-insert-file-functions (list note))
           (find-file-hook (list note))
           (before-save-hook (list note))
           (file (gemini-companion-setup-test--settings))
           (file-name-handler-alist
            (list (cons "settings\\.json" (lambda (&rest _) (ert-fail "A handler was called")))))
           (make-backup-files t))
      (gemini-companion-setup--ide-enabled file 'enable)
      (should-not called))
    (should (equal (gemini-companion-setup-test--names) '("settings.json")))))

(ert-deftest gemini-companion-setup/a-buffer-without-edits-is-reverted ()
  (gemini-companion-setup-test--with 'yes
    (let* ((file (gemini-companion-setup-test--write "{\"ide\": {\"enabled\": false}}"))
           (buffer (find-file-noselect file)))
      (with-current-buffer buffer (goto-char (point-max)) (insert "\n"))
      (should (string-search "its buffer has unsaved edits"
                             (cadr (should-error (gemini-companion-setup) :type 'user-error))))
      (should-not gemini-companion-test-questions)
      (should (equal (gemini-companion-test-read file) "{\"ide\": {\"enabled\": false}}"))
      (with-current-buffer buffer
        (let ((inhibit-message t)) (save-buffer))
        (gemini-companion-setup)
        (should (equal (buffer-string) "{\"ide\": {\"enabled\": true}}\n"))
        (should-not (buffer-modified-p))
        (should (verify-visited-file-modtime))))))

;;;; Choice of the file

(ert-deftest gemini-companion-setup/each-program-has-its-own-file-and-question ()
  (gemini-companion-setup-test--with 'yes
    (make-directory (gemini-companion-test-file "home/.qwen") t)
    (gemini-companion-setup)
    (should (equal gemini-companion-test-questions
                   '("Let Qwen Code connect by itself? (adds ide.enabled to ~/.qwen/settings.json) "
                     "Let Gemini CLI connect by itself? \
(adds ide.enabled to ~/.gemini/settings.json) ")))
    (dolist (name '("home/.qwen/settings.json" "home/.gemini/settings.json"))
      (should (string-search "\"enabled\": true"
                             (gemini-companion-test-read (gemini-companion-test-file name)))))
    (should (equal (gemini-companion-setup-test--answers)
                   '(((setup . qwen) . always) ((setup . gemini) . always))))))

(ert-deftest gemini-companion-setup/invalid-settings-of-one-program-do-not-affect-another ()
  (gemini-companion-setup-test--with 'yes
    (make-directory (gemini-companion-test-file "home/.qwen") t)
    (gemini-companion-setup-test--write "{")
    (should (string-search "~/.gemini/settings.json"
                           (cadr (should-error (gemini-companion-setup) :type 'user-error))))
    (should (file-exists-p (gemini-companion-test-file "home/.qwen/settings.json")))))

(ert-deftest gemini-companion-setup/variables-name-the-home-directories ()
  (gemini-companion-setup-test--with 'yes
    (make-directory (gemini-companion-test-file "own"))
    (set-default-toplevel-value
     'process-environment
     (append (list (concat "GEMINI_CLI_HOME=" (gemini-companion-test-file "other"))
                   (concat "QWEN_HOME=" (gemini-companion-test-file "own")))
             (default-toplevel-value 'process-environment)))
    (gemini-companion-setup)
    (dolist (name '("other/.gemini/settings.json" "own/settings.json"))
      (should (file-exists-p (gemini-companion-test-file name))))
    (should-not (file-exists-p (gemini-companion-test-file "home")))))

(ert-deftest gemini-companion-setup/without-settings-it-says-what-to-do ()
  (gemini-companion-setup-test--with nil
    (let ((gemini-companion-agents '(llxprt)))
      (should (string-search "Type /ide enable"
                             (cadr (should-error (gemini-companion-setup) :type 'user-error)))))))

;;;; Before each run

(defun gemini-companion-setup-test--before-run ()
  "Do what Emacs does before a user's command runs Gemini CLI."
  (let ((noninteractive nil))
    (gemini-companion-setup-before-run 'gemini)))

(ert-deftest gemini-companion-setup/a-run-asks-once-and-checks-again ()
  (let (file)
    (gemini-companion-setup-test--with 'yes
      (setq file (gemini-companion-setup-test--write "{\"a\": 1}"))
      (gemini-companion-setup-test--before-run)
      ;; It is about to start.
      (should (gemini-companion-setup-test--said-p
               "Gemini CLI connects by itself when it starts: ide.enabled is true in ~/.gemini/settings.json"))
      (should (equal (gemini-companion-setup-test--answers) '(((setup . gemini) . always))))
      (gemini-companion-setup-test--before-run)
      ;; A CLI that has run has saved its settings.
      (gemini-companion-setup-test--write "{\"b\": 1}")
      (gemini-companion-setup-test--before-run)
      (should (equal (gemini-companion-test-read file) "{\"ide\": {\"enabled\": true}, \"b\": 1}"))
      (should (= (length gemini-companion-test-questions) 1))
      (should (= (length gemini-companion-test-messages) 2))
      (should-not (gemini-companion-setup-test--said-p "next starts"))
      ;; The user has switched it off.
      (gemini-companion-setup-test--write "{\"ide\": {\"enabled\": false}}")
      (gemini-companion-setup-test--before-run)
      (should (equal (car gemini-companion-test-questions)
                     "Let Gemini CLI connect by itself? \
(turns on ide.enabled in ~/.gemini/settings.json) ")))))

(ert-deftest gemini-companion-setup/a-run-does-not-ask-after-a-no-but-the-command-does ()
  (gemini-companion-setup-test--with 'no
    (gemini-companion-setup-test--before-run)
    (gemini-companion-setup-test--before-run)
    (should (= (length gemini-companion-test-questions) 1))
    (gemini-companion-setup)
    (should (= (length gemini-companion-test-questions) 2))
    (should-not (file-exists-p (gemini-companion-setup-test--settings)))))

(ert-deftest gemini-companion-setup/the-answer-is-no-option ()
  "The user's init file is not written, and another Emacs knows the answer."
  (gemini-companion-setup-test--with 'no
    (let* ((custom-file (gemini-companion-test-file "custom.el" ";; mine\n"))
           (user-init-file custom-file))
      (gemini-companion-setup-test--before-run)
      (should (equal (gemini-companion-test-read custom-file) ";; mine\n"))
      (should-not gemini-companion-answer--unsaved)
      (gemini-companion-setup-test--before-run)
      (should (= (length gemini-companion-test-questions) 1)))))

(ert-deftest gemini-companion-setup/a-run-asks-nothing-if-the-setting-is-on-or-unknown ()
  (gemini-companion-setup-test--with nil
    (gemini-companion-test-file "system/settings.json" "{\"ide\": {\"enabled\": true}}")
    (gemini-companion-setup-test--before-run)
    (let ((noninteractive nil))
      (gemini-companion-setup-before-run 'llxprt))
    (should-not gemini-companion-test-messages)
    (should-not (file-exists-p (gemini-companion-setup-test--settings)))))

(ert-deftest gemini-companion-setup/invalid-settings-do-not-stop-a-run ()
  (gemini-companion-setup-test--with nil
    (let ((file (gemini-companion-setup-test--write "{\"ide\": }")))
      (gemini-companion-setup-test--before-run)
      (should (gemini-companion-setup-test--said-p "Left ~/.gemini/settings.json alone"))
      (should (equal (gemini-companion-test-read file) "{\"ide\": }")))))

(ert-deftest gemini-companion-setup/batch-mode-asks-nothing ()
  (gemini-companion-setup-test--with nil
    (gemini-companion-setup-before-run 'gemini)
    (should-not (file-exists-p (gemini-companion-setup-test--settings)))))

;;; gemini-companion-setup-test.el ends here

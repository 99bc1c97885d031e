;;; gemini-companion-tool-extension-test.el --- Tests of the files for the tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Each test has a home of its own, and gives the user's answer; an unexpected
;; question fails the test.  That the CLIs understand the files is tested with
;; these, in test/e2e/tools-test.el.

;;; Code:

(require 'ert)
(require 'gemini-companion-host-connection)
(require 'gemini-companion-tool-extension)
(require 'gemini-companion-test-companion)

(defun gemini-companion-tool-extension-test--home (&optional name)
  "Return the file NAME in the home, by default the home itself."
  (gemini-companion-test-file (concat "home/" name)))

(defmacro gemini-companion-tool-extension-test--with (answer &rest body)
  "Evaluate BODY with a home below the project, answering questions with ANSWER.
It is `yes', `no' or, if nothing may be asked, nil.  Qwen Code is used, too."
  (declare (indent 1) (debug t))
  `(let (;; Emacs caches the abbreviation of the home.
         (abbreviated-home-dir nil)
         (before (default-toplevel-value 'process-environment)))
     (gemini-companion-native-load)
     (gemini-companion-test-with-project
       (make-directory (gemini-companion-tool-extension-test--home ".qwen") t)
       (set-default-toplevel-value
        'process-environment
        (append (list (concat "HOME=" (gemini-companion-tool-extension-test--home))
                      "GEMINI_CLI_HOME" "QWEN_HOME")
                before))
       (unwind-protect
           (gemini-companion-test-with-answer ,answer ,@body)
         (set-default-toplevel-value 'process-environment before)))))

(defun gemini-companion-tool-extension-test--files ()
  "Return the names of all files in the home, and of empty directories."
  (let ((home (gemini-companion-tool-extension-test--home)))
    (sort (mapcan (lambda (name)
                    (unless (and (file-directory-p name)
                                 (not (file-symlink-p name))
                                 (not (directory-empty-p name)))
                      (list (file-relative-name name home))))
                  (directory-files-recursively home "" t))
          #'string<)))

(defconst gemini-companion-tool-extension-test--written
  '(".gemini/extensions/emacs/emacs-tools.mjs"
    ".gemini/extensions/emacs/gemini-extension.json"
    ".gemini/extensions/emacs/hooks/hooks.json"
    ".gemini/policies/emacs.toml"
    ".qwen/extensions/emacs/emacs-tools.mjs"
    ".qwen/extensions/emacs/hooks/hooks.json"
    ".qwen/extensions/emacs/qwen-extension.json")
  "The files that are written.")

(defun gemini-companion-tool-extension-test--read (name)
  "Return the text of NAME in the home."
  (gemini-companion-test-read (gemini-companion-tool-extension-test--home name)))

(defun gemini-companion-tool-extension-test--json (name)
  "Return the JSON in NAME in the home."
  (gemini-companion-test-json-decode
   (gemini-companion-test-bytes (gemini-companion-tool-extension-test--home name))))

(defun gemini-companion-tool-extension-test--write (name text)
  "Write TEXT to NAME in the home."
  (gemini-companion-test-write (gemini-companion-tool-extension-test--home name) text))

(defun gemini-companion-tool-extension-test--said-p (text)
  "Return non-nil if the last message contains TEXT."
  (string-search text (or (car gemini-companion-test-messages) "")))

;;;; Enabling

(ert-deftest gemini-companion-tool-extension/enabling-asks-once-and-writes-what-it-says ()
  (gemini-companion-tool-extension-test--with 'yes
    (gemini-companion-tools-enable)
    (should (equal gemini-companion-test-questions
                   '("Let the models of Gemini CLI and Qwen Code use Emacs, and let hooks \
report your prompts, their questions and their edits to Emacs?  Gemini CLI will not ask before it \
calls a tool that only reads, or shows you a file, which runs your hooks as C-x C-f does.  \
(Writes ~/.gemini/extensions/emacs/ and ~/.gemini/policies/emacs.toml and \
~/.qwen/extensions/emacs/) ")))
    (gemini-companion-tool-extension--ask '(qwen)) ; which has no policy
    (should (equal (pop gemini-companion-test-questions)
                   "Let the models of Qwen Code use Emacs, and let hooks report your prompts, their \
questions and their edits to Emacs?  (Writes ~/.qwen/extensions/emacs/) "))
    (should (equal (gemini-companion-tool-extension-test--files)
                   gemini-companion-tool-extension-test--written))
    (should (gemini-companion-tool-extension-test--said-p
             "The model of Gemini CLI can use Emacs when the CLI next starts"))
    ;; Again, nothing is asked or written.
    (let ((times (mapcar (lambda (name)
                           (file-attribute-inode-number
                            (file-attributes (gemini-companion-tool-extension-test--home name))))
                         gemini-companion-tool-extension-test--written)))
      (setq gemini-companion-test-questions nil)
      (gemini-companion-tools-enable)
      (should-not gemini-companion-test-questions)
      (should (gemini-companion-tool-extension-test--said-p
               "The model of Gemini CLI can use Emacs\n"))
      (should (equal times
                     (mapcar (lambda (name)
                               (file-attribute-inode-number
                                (file-attributes (gemini-companion-tool-extension-test--home name))))
                             gemini-companion-tool-extension-test--written))))))

(ert-deftest gemini-companion-tool-extension/the-files-are-what-the-clis-want ()
  (gemini-companion-tool-extension-test--with 'yes
    (gemini-companion-tools-enable)
    (pcase-dolist (`(,words ,manifest ,hooks ,here ,event ,edits ,guard)
                   '((("directory=gemini/ide" "file=gemini-ide-server-PID-PORT.json"
                       "port=GEMINI_CLI_IDE_SERVER_PORT" "process=GEMINI_CLI_IDE_PID")
                      ".gemini/extensions/emacs/gemini-extension.json"
                      ".gemini/extensions/emacs/hooks/hooks.json"
                      "${extensionPath}" AfterTool "^(write_file|replace)$"
                      "\"${TMPDIR:-${TMP:-${TEMP:-/tmp}}}\"/gemini/ide/gemini-ide-server-*-*.json")
                     (("directory=ide" "home=QWEN_HOME" "default=~/.qwen" "file=PORT.lock"
                       "port=QWEN_CODE_IDE_SERVER_PORT")
                      ".qwen/extensions/emacs/qwen-extension.json"
                      ".qwen/extensions/emacs/hooks/hooks.json"
                      "${CLAUDE_PLUGIN_ROOT}" PostToolUse "^(write_file|edit|notebook_edit)$"
                      "\"${QWEN_HOME:-$HOME/.qwen}\"/ide/*.lock")))
      (let ((manifest (gemini-companion-tool-extension-test--json manifest))
            (hook (car (alist-get event (alist-get 'hooks (gemini-companion-tool-extension-test--json
                                                           hooks))))))
        (should (equal (alist-get 'name manifest) "emacs"))
        (should (equal (alist-get 'version manifest) gemini-companion-native-version))
        (should (equal (alist-get 'mcpServers manifest)
                       `((emacs (command . "node")
                                (args ,(concat here "/emacs-tools.mjs") ,@words)
                                (timeout . 30000)))))
        (should (equal (alist-get 'matcher hook) edits))
        (should (equal (alist-get 'command (car (alist-get 'hooks hook)))
                       (format "exec 2>/dev/null; for f in %s; do [ -e \"$f\" ] && \"node\" \
\"%s/emacs-tools.mjs\" %s hook=edited cli=$PPID; break; done; exit 0"
                               guard here (mapconcat #'prin1-to-string words " "))))))
    (should (string-match-p "^toolAnnotations = { readOnlyHint = true }$"
                            (gemini-companion-tool-extension-test--read ".gemini/policies/emacs.toml")))
    (dolist (name gemini-companion-tool-extension-test--written)
      (let ((text (gemini-companion-tool-extension-test--read name)))
        (if (string-suffix-p ".mjs" name)
            ;; A failure would print both.
            (should (equal (md5 text) (md5 (gemini-companion-test-read
                                            (gemini-companion-test-path
                                             "src" "tools_adapter.mjs")))))
          ;; No place of the package, and no secret.
          (should-not (string-search (directory-file-name gemini-companion-test-root) text)))))))

(ert-deftest gemini-companion-tool-extension/the-users-umask-holds ()
  (gemini-companion-tool-extension-test--with 'yes
    (dolist (umask '(#o777 #o755 #o700)) ; but others never replace a hook
      (with-file-modes umask (gemini-companion-tools-enable))
      (dolist (name gemini-companion-tool-extension-test--written)
        (let ((file (gemini-companion-tool-extension-test--home name)))
          (should (= (file-modes file) (logand #o644 umask)))
          (should (= (file-modes (file-name-directory file)) (logand #o755 umask)))))
      (gemini-companion-tools-disable))))

(ert-deftest gemini-companion-tool-extension/a-no-writes-nothing ()
  (gemini-companion-tool-extension-test--with 'no
    (gemini-companion-tools-enable)
    (should (equal (gemini-companion-tool-extension-test--files) '(".qwen")))
    (should (equal gemini-companion-test-messages '("Nothing was written")))
    (gemini-companion-tools-disable)
    (should (gemini-companion-tool-extension-test--said-p "There are no tools of Emacs to remove"))
    (should (equal (gemini-companion-tool-extension-test--files) '(".qwen")))))

(ert-deftest gemini-companion-tool-extension/homes-may-be-elsewhere ()
  (gemini-companion-tool-extension-test--with 'yes
    (let* ((gemini (gemini-companion-tool-extension-test--home "else"))
           (qwen (gemini-companion-tool-extension-test--home "qwen"))
           (process-environment (append (list (concat "GEMINI_CLI_HOME=" gemini)
                                              (concat "QWEN_HOME=" qwen))
                                        process-environment)))
      (make-directory qwen)
      (gemini-companion-tools-enable)
      (should (equal (seq-filter (lambda (name) (string-match-p "extension\\.json" name))
                                 (gemini-companion-tool-extension-test--files))
                     '("else/.gemini/extensions/emacs/gemini-extension.json"
                       "qwen/extensions/emacs/qwen-extension.json"))))))

(ert-deftest gemini-companion-tool-extension/settings-and-other-extensions-stay-as-they-are ()
  (gemini-companion-tool-extension-test--with 'yes
    (let ((others '(".gemini/extensions/other/gemini-extension.json" ".gemini/policies/mine.toml"
                    ".gemini/settings.json")))
      (dolist (name others)
        (gemini-companion-tool-extension-test--write name "{ mine"))
      (gemini-companion-tools-enable)
      (gemini-companion-tools-disable)
      (should (equal (gemini-companion-tool-extension-test--files)
                     (append others '(".qwen"))))
      (dolist (name others)
        (should (equal (gemini-companion-tool-extension-test--read name) "{ mine"))))))

;;;; What others have written

(ert-deftest gemini-companion-tool-extension/files-of-others-are-never-touched ()
  (dolist (case '((".gemini/extensions/emacs/gemini-extension.json" "{\"name\": \"emacs\"}")
                  (".gemini/extensions/emacs/gemini-extension.json" "{")
                  (".gemini/extensions/emacs/gemini-extension.json"
                   "{\"gemini-companion\": true}")
                  (".gemini/extensions/emacs/notes" "mine")
                  (".gemini/extensions/emacs" "a file")))
    (gemini-companion-tool-extension-test--with 'yes
      (pcase-let ((`(,name ,text) case))
        (ert-info ((format "%s %S" name text))
          (gemini-companion-tool-extension-test--write name text)
          (let ((problem (cadr (should-error (gemini-companion-tools-enable) :type 'user-error))))
            (should (string-match-p "did not write ~/\\.gemini/[^ ]+, and leaves it alone" problem))
            ;; The other CLI has its files all the same.
            (should (string-search "Qwen Code" problem)))
          (should (equal (seq-filter (lambda (file) (string-prefix-p ".gemini" file))
                                     (gemini-companion-tool-extension-test--files))
                         (list name)))
          (gemini-companion-tool-extension-keep-current)
          (gemini-companion-tools-disable)
          (should (equal (gemini-companion-tool-extension-test--read name) text)))))))

(ert-deftest gemini-companion-tool-extension/point-stays-where-it-is ()
  "Ten seconds after the start it went to the end of the JSON value there."
  (gemini-companion-tool-extension-test--with 'yes
    (with-temp-buffer
      (insert "[1, 2]")
      (goto-char (point-min))
      (gemini-companion-tool-extension-keep-current)
      (should (bobp))
      (gemini-companion-tools-enable)
      (should (bobp)))))

(ert-deftest gemini-companion-tool-extension/a-policy-of-the-user-is-kept ()
  "The CLI has the tools all the same."
  (gemini-companion-tool-extension-test--with 'yes
    (let ((policy ".gemini/policies/emacs.toml"))
      (gemini-companion-tool-extension-test--write policy "# Mine\n")
      (gemini-companion-tools-enable)
      (should (equal (gemini-companion-tool-extension-test--files)
                     gemini-companion-tool-extension-test--written))
      (should (eq 'current (gemini-companion-tool-extension-state 'gemini process-environment)))
      (gemini-companion-tool-extension-keep-current)
      (gemini-companion-tools-disable)
      (should (equal (gemini-companion-tool-extension-test--files) (list policy ".qwen")))
      (should (equal (gemini-companion-tool-extension-test--read policy) "# Mine\n")))))

(ert-deftest gemini-companion-tool-extension/symbolic-links-are-not-followed ()
  (gemini-companion-tool-extension-test--with 'yes
    (let ((outside (gemini-companion-test-file "outside/")))
      (make-directory outside)
      (gemini-companion-tools-enable)
      (let ((ours (gemini-companion-tool-extension-test--home ".gemini/extensions/emacs")))
        ;; The whole extension, somewhere else.
        (rename-file ours (concat outside "emacs"))
        (make-symbolic-link (concat outside "emacs") ours)
        (should (string-search "leaves it alone" (cadr (should-error (gemini-companion-tools-enable)
                                                                     :type 'user-error))))
        (gemini-companion-tools-disable)
        (should (file-exists-p (concat outside "emacs/emacs-tools.mjs")))
        (should (file-symlink-p ours))
        ;; One file of it.
        (delete-file ours)
        (rename-file (concat outside "emacs") ours)
        (gemini-companion-test-write (concat outside "program") "mine")
        (delete-file (concat ours "/emacs-tools.mjs"))
        (make-symbolic-link (concat outside "program") (concat ours "/emacs-tools.mjs"))
        (should (eq 'stale (gemini-companion-tool-extension-state 'gemini process-environment)))
        (gemini-companion-tool-extension-keep-current)
        (should-not (file-symlink-p (concat ours "/emacs-tools.mjs")))
        (should (equal "mine" (gemini-companion-test-read (concat outside "program"))))))))

;;;; Disabling

(ert-deftest gemini-companion-tool-extension/disabling-leaves-nothing ()
  (gemini-companion-tool-extension-test--with 'yes
    (gemini-companion-tools-enable)
    (gemini-companion-tools-disable)
    (should (equal (gemini-companion-tool-extension-test--files) '(".gemini" ".qwen")))
    (dolist (title '("Gemini CLI" "Qwen Code"))
      (should (gemini-companion-tool-extension-test--said-p
               (concat "Removed the tools of Emacs from " title))))))

(ert-deftest gemini-companion-tool-extension/disabling-leaves-what-the-user-has ()
  (gemini-companion-tool-extension-test--with 'yes
    (gemini-companion-tools-enable)
    (gemini-companion-tool-extension-test--write ".gemini/policies/mine.toml" "mine")
    (gemini-companion-tool-extension-test--write ".gemini/extensions/emacs/notes" "mine")
    (gemini-companion-tools-disable)
    (should (equal (gemini-companion-tool-extension-test--files)
                   '(".gemini/extensions/emacs/notes" ".gemini/policies/mine.toml" ".qwen")))))

(ert-deftest gemini-companion-tool-extension/disabling-needs-no-module ()
  "And nobody needs to remember what was enabled."
  (gemini-companion-tool-extension-test--with 'yes
    (gemini-companion-tools-enable)
    (cl-letf (((symbol-function 'gemini-companion-native-current-p) #'ignore)
              ((symbol-function 'gemini-companion-agent-served) #'ignore))
      (gemini-companion-tools-disable))
    (should (equal (gemini-companion-tool-extension-test--files) '(".gemini" ".qwen")))))

;;;; Keeping current

(ert-deftest gemini-companion-tool-extension/files-of-another-version-are-replaced ()
  "Those that the user has deleted are not, least of all a permission."
  (gemini-companion-tool-extension-test--with 'yes
    (gemini-companion-tools-enable)
    (should (eq 'current (gemini-companion-tool-extension-state 'gemini process-environment)))
    (let ((manifest ".gemini/extensions/emacs/gemini-extension.json")
          (program ".gemini/extensions/emacs/emacs-tools.mjs"))
      (gemini-companion-tool-extension-test--write
       manifest (string-replace gemini-companion-native-version "0.0.1"
                                (gemini-companion-tool-extension-test--read manifest)))
      (gemini-companion-tool-extension-test--write program "// old\n")
      (delete-file (gemini-companion-tool-extension-test--home ".gemini/policies/emacs.toml"))
      (should (eq 'stale (gemini-companion-tool-extension-state 'gemini process-environment)))
      (gemini-companion-tool-extension-keep-current)
      (should (eq 'current (gemini-companion-tool-extension-state 'gemini process-environment)))
      (should (string-search gemini-companion-native-version
                             (gemini-companion-tool-extension-test--read manifest)))
      (should (string-prefix-p "// Lets a CLI" (gemini-companion-tool-extension-test--read program)))
      (should-not (file-exists-p (gemini-companion-tool-extension-test--home
                                  ".gemini/policies/emacs.toml")))
      (gemini-companion-tools-disable)
      (should-not (file-exists-p (gemini-companion-tool-extension-test--home ".gemini/extensions"))))))

(ert-deftest gemini-companion-tool-extension/a-missing-program-is-written ()
  "The disk was full, or Emacs was killed; each start of the CLI would report an error."
  (gemini-companion-tool-extension-test--with 'yes
    (cl-letf* ((replace (symbol-function 'gemini-companion-file-replace))
               ((symbol-function 'gemini-companion-file-replace)
                (lambda (file &rest arguments)
                  (when (string-suffix-p ".mjs" file)
                    (signal 'file-error '("Write error" "No space left on device")))
                  (apply replace file arguments))))
      (should-error (gemini-companion-tools-enable) :type 'user-error))
    (should (eq 'stale (gemini-companion-tool-extension-state 'gemini process-environment)))
    (gemini-companion-tool-extension-keep-current)
    (should (eq 'current (gemini-companion-tool-extension-state 'gemini process-environment)))
    (should (string-prefix-p "// Lets a CLI" (gemini-companion-tool-extension-test--read
                                              ".gemini/extensions/emacs/emacs-tools.mjs")))))

(ert-deftest gemini-companion-tool-extension/nothing-is-kept-current-unless-enabled ()
  (gemini-companion-tool-extension-test--with nil
    (gemini-companion-tool-extension-keep-current)
    (should (equal (gemini-companion-tool-extension-test--files) '(".qwen")))))

(defun gemini-companion-tool-extension-test--count-timers ()
  "Return how many timers are to check the files."
  (length (gemini-companion-test-timers #'gemini-companion-tool-extension-keep-current)))

(ert-deftest gemini-companion-tool-extension/the-mode-keeps-them-current-when-idle ()
  (gemini-companion-tool-extension-test--with 'yes
    (gemini-companion-mode 1)
    (should (= 1 (gemini-companion-tool-extension-test--count-timers)))
    (gemini-companion-mode -1)
    (should (= 0 (gemini-companion-tool-extension-test--count-timers)))))

;;;; The offer

(ert-deftest gemini-companion-tool-extension/the-offer-is-made-once ()
  (gemini-companion-tool-extension-test--with 'no
    (let* ((custom-file (gemini-companion-test-file "custom.el" ";; mine\n"))
           (user-init-file custom-file))
      (should (string-search "M-x gemini-companion-tools-enable asks again"
                             (gemini-companion-tool-extension-offer)))
      (should (= 1 (length gemini-companion-test-questions)))
      (should (equal (gemini-companion-answer-all) '((tools . never))))
      (should (equal (gemini-companion-test-read custom-file) ";; mine\n"))
      (should-not (gemini-companion-tool-extension-offer))
      (should (= 1 (length gemini-companion-test-questions)))))
  (gemini-companion-tool-extension-test--with 'yes
    (should (string-search "The model of Gemini CLI can use Emacs" (gemini-companion-tool-extension-offer)))
    (should-not (gemini-companion-tool-extension-offer))
    (should (= 1 (length gemini-companion-test-questions)))
    (should-not (gemini-companion-answer-all))))

(ert-deftest gemini-companion-tool-extension/setup-offers-them-after-its-own-question ()
  (gemini-companion-tool-extension-test--with 'yes
    (let ((gemini-companion-agents '(gemini)))
      (gemini-companion-setup)
      (pcase-let ((`(,last ,first) gemini-companion-test-questions))
        (should (string-prefix-p "Let Gemini CLI connect by itself?" first))
        (should (string-prefix-p "Let the models of Gemini CLI use Emacs, and let hooks" last)))
      (should (string-match-p "connects by itself.*\n.*The model of Gemini CLI can use Emacs"
                              (car gemini-companion-test-messages))))))

;;;; On hosts

(defvar gemini-companion-tool-extension-test--there nil
  "The files on the host, an alist of names in its homes and texts.")

(defun gemini-companion-tool-extension-test--name (file)
  "Return the name of FILE, as a connection has it, in a home."
  (pcase-let ((`(,variable ,default ,name) file))
    (format "%s/%s" (if (equal variable "QWEN_HOME") default "~") name)))

(defun gemini-companion-tool-extension-test--answer (name text)
  "Return what a host answers about the file NAME with TEXT."
  (if (eq text 'unreadable) `((name . ,name) (error . "it is too large") (text . nil))
    `((name . ,name) (error . nil) (text . ,text))))

(defmacro gemini-companion-tool-extension-test--with-host (answer files &rest body)
  "Evaluate BODY in a buffer of a host that has FILES, with the user's ANSWER."
  (declare (indent 2) (debug t))
  `(gemini-companion-tool-extension-test--with ,answer
     (let* ((gemini-companion-tool-extension-test--there ,files)
            (gemini-companion-host-all nil)
            (connection (gemini-companion-host-add
                         (gemini-companion-host-connection--make :prefix "/ssh:build:"
                                                                 :name "build")))
            (gemini-companion-host-connection-all (list connection))
            (noninteractive nil)
            (default-directory "/ssh:build:/src/"))
       (cl-letf (((symbol-function 'gemini-companion-host-connection-read-file)
                  (lambda (_ file function)
                    (let ((name (gemini-companion-tool-extension-test--name file)))
                      (funcall function (gemini-companion-tool-extension-test--answer
                                         name (gemini-companion-tool-extension-test--text name))))))
                 ((symbol-function 'gemini-companion-host-connection-write-file)
                  (lambda (_ file old text function)
                    (let ((name (gemini-companion-tool-extension-test--name file)))
                      (should (equal old (gemini-companion-tool-extension-test--text name)))
                      (setf (alist-get name gemini-companion-tool-extension-test--there
                                       nil 'remove #'equal)
                            text)
                      (funcall function
                               (gemini-companion-tool-extension-test--answer name text))))))
         ,@body))))

(defun gemini-companion-tool-extension-test--text (name)
  "Return what the file NAME on the host contains, or nil."
  (alist-get name gemini-companion-tool-extension-test--there nil nil #'equal))

(defun gemini-companion-tool-extension-test--names ()
  "Return the names of the files on the host."
  (sort (mapcar #'car gemini-companion-tool-extension-test--there) #'string<))

(defconst gemini-companion-tool-extension-test--there-written
  '("~/.gemini/extensions/emacs/emacs-tools.mjs"
    "~/.gemini/extensions/emacs/gemini-extension.json"
    "~/.gemini/extensions/emacs/hooks/hooks.json"
    "~/.gemini/policies/emacs.toml" "~/.gemini/settings.json")
  "The files on a host on which Gemini CLI was used, with tools.")

(ert-deftest gemini-companion-tool-extension/on-a-host-it-is-asked-written-and-removed-as-here ()
  (gemini-companion-tool-extension-test--with-host 'yes '(("~/.gemini/settings.json" . "{}"))
    (gemini-companion-tools-enable)
    (should (string-match-p "models on build .*and a policy" (car gemini-companion-test-questions)))
    (should (equal (gemini-companion-tool-extension-test--names)
                   gemini-companion-tool-extension-test--there-written))
    (should (gemini-companion-tool-extension-test--said-p
             "The model of Gemini CLI on build can use Emacs when the CLI next starts"))
    (should (equal (gemini-companion-answer-all) '(((tools . "/ssh:build:") . always))))
    (should-not (gemini-companion-tool-extension-test--files-written-here-p))
    ;; A run asks no more.
    (should-not (gemini-companion-tool-extension-ask-host connection))
    (gemini-companion-tools-disable)
    (should (equal (gemini-companion-tool-extension-test--names) '("~/.gemini/settings.json")))
    (should (equal (gemini-companion-answer-all) '(((tools . "/ssh:build:") . never))))
    (gemini-companion-tools-disable)
    (should (gemini-companion-tool-extension-test--said-p "no tools of Emacs to remove"))))

(defun gemini-companion-tool-extension-test--files-written-here-p ()
  "Return non-nil if something was written in the home on this machine."
  (remove ".qwen" (gemini-companion-tool-extension-test--files)))

(ert-deftest gemini-companion-tool-extension/a-host-where-the-user-says-no-stays-as-it-is ()
  (gemini-companion-tool-extension-test--with-host 'no '(("~/.gemini/settings.json" . "{}"))
    ;; A run asks those who use the tools here.
    (should-not (gemini-companion-tool-extension-ask-host connection))
    (should-not gemini-companion-test-questions)
    (cl-letf (((symbol-function 'gemini-companion-tool-extension--used-p) #'always))
      (should-not (gemini-companion-tool-extension-ask-host connection))
      (should-not (gemini-companion-tool-extension-ask-host connection)))
    (should (length= gemini-companion-test-questions 1))
    (gemini-companion-tools-enable)
    (should (length= gemini-companion-test-questions 2))
    (should (equal (gemini-companion-tool-extension-test--names) '("~/.gemini/settings.json")))))

(ert-deftest gemini-companion-tool-extension/what-others-have-on-a-host-stays ()
  (pcase-dolist (`(,file ,text ,said)
                 '(("~/.gemini/extensions/emacs/gemini-extension.json" "{\"name\": \"emacs\"}"
                    "did not write extensions/emacs there")
                   ("~/.gemini/extensions/emacs/hooks/hooks.json" "{}"
                    "did not write extensions/emacs there")
                   ("~/.gemini/policies/emacs.toml" unreadable "Gemini CLI on build: it is too large")))
    (gemini-companion-tool-extension-test--with-host 'yes
        `(("~/.gemini/settings.json" . "{}") (,file . ,text))
      (gemini-companion-tools-enable)
      (should (gemini-companion-tool-extension-test--said-p said))
      (should (length= gemini-companion-tool-extension-test--there 2))))
  (gemini-companion-tool-extension-test--with-host 'yes
      '(("~/.gemini/settings.json" . "{}") ("~/.gemini/policies/emacs.toml" . "# mine"))
    (gemini-companion-tools-enable)
    (gemini-companion-tools-disable)
    (should (equal (gemini-companion-tool-extension-test--names)
                   '("~/.gemini/policies/emacs.toml" "~/.gemini/settings.json")))))

(ert-deftest gemini-companion-tool-extension/a-program-that-was-not-used-on-a-host-gets-nothing ()
  (gemini-companion-tool-extension-test--with-host 'yes nil
    (gemini-companion-tools-enable)
    (should (gemini-companion-tool-extension-test--said-p "No CLI has been used on build yet"))
    (should-not gemini-companion-tool-extension-test--there)))

(ert-deftest gemini-companion-tool-extension/on-a-host-it-is-kept-current ()
  (gemini-companion-tool-extension-test--with-host 'yes '(("~/.gemini/settings.json" . "{}"))
    (gemini-companion-tools-enable)
    (let ((program "~/.gemini/extensions/emacs/emacs-tools.mjs")
          (hooks "~/.gemini/extensions/emacs/hooks/hooks.json"))
      (setf (alist-get program gemini-companion-tool-extension-test--there nil nil #'equal) "old")
      (setf (alist-get hooks gemini-companion-tool-extension-test--there nil t #'equal) nil)
      (gemini-companion-tool-extension-keep-current connection)
      (should (equal (gemini-companion-tool-extension-test--text program)
                     (gemini-companion-bridge-tools-adapter)))
      ;; The user has deleted it.
      (should-not (gemini-companion-tool-extension-test--text hooks))
      (setf (alist-get program gemini-companion-tool-extension-test--there nil nil #'equal) "old")
      (gemini-companion-answer-set '(tools . "/ssh:build:") 'never)
      (gemini-companion-tool-extension-keep-current connection)
      (should (equal (gemini-companion-tool-extension-test--text program) "old")))))

(ert-deftest gemini-companion-tool-extension/hooks-on-windows-name-their-shell ()
  "Qwen Code would take another one."
  (let ((system-type 'windows-nt))
    (dolist (agent '(gemini qwen))
      (dolist (group (seq-mapcat #'cdr (alist-get 'hooks (gemini-companion-tool-extension--hooks
                                                          agent))
                                 'list))
        (let-alist (aref (alist-get 'hooks group) 0)
          (should (equal .shell "powershell"))
          (should (string-search "$null" .command)))))))

(ert-deftest gemini-companion-tool-extension/the-hooks-of-a-host-are-for-its-shell ()
  (gemini-companion-tool-extension-test--with-host 'yes '(("~/.gemini/settings.json" . "{}"))
    (let ((system-type 'windows-nt))
      (gemini-companion-tools-enable))
    (let ((hooks (gemini-companion-tool-extension-test--text
                  "~/.gemini/extensions/emacs/hooks/hooks.json")))
      (should (string-search "[ -e" hooks))
      (should-not (string-search "$null" hooks)))))

;;; gemini-companion-tool-extension-test.el ends here

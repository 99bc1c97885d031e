;;; gemini-companion-private-test.el --- Tests of what is private  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-private-test--with-root (&rest body)
  "Evaluate BODY in a new project that is the only workspace root."
  (declare (indent 0) (debug t))
  `(gemini-companion-test-with-project
     (gemini-companion-mode 1)
     (let ((gemini-companion-workspace-roots (list gemini-companion-test-project))
           (gemini-companion-workspace-guess nil)
           (gemini-companion-context--lifetime -1))
       (gemini-companion-workspace-roots)
       ,@body)))

(defun gemini-companion-private-test--reason (name)
  "Return why the file NAME of the project is withheld; make it if needed."
  (let ((file (expand-file-name name gemini-companion-test-project)))
    (unless (file-exists-p file)
      (gemini-companion-test-write file "x\n"))
    (with-current-buffer (find-file-noselect file)
      (gemini-companion-private-reason))))

(ert-deftest gemini-companion-private/secrets-are-known-by-their-names ()
  (gemini-companion-private-test--with-root
    (dolist (name '(".env" ".env.local" "sub/.env" "id_rsa" "id_ed25519.pub" "server.pem"
                    "Server.PEM" "notes.age" "authinfo" ".authinfo" ".netrc" "pass.kdbx"
                    ".ssh/config" "deep/.aws/credentials" "credentials.json" "config/credentials.yml.enc"
                    "server.key~" "server.key.~1~" ".pgpass.~HEAD~" "credentials~"
                    "#.env#" "#id_rsa#" ".ssh/#config#"
                    ;; As Archive and Tar modes name members.
                    "a.zip:.env.local" "a.zip:id_rsa" "a.zip:.ssh/config" "a.tar!.ssh/config"))
      (should (string-search "gemini-companion-private-files"
                             (or (gemini-companion-private-test--reason name)
                                 (format "%s is not private" name)))))
    (dolist (name '("environment" "main.c" "pem" "my.env.txt" "ssh/config" "valid.txt" "id_map.c"
                    "credentials.tsx" "credentials.go" "main.c~" "a.zip:main.c"))
      (ert-info (name)
        (should-not (gemini-companion-private-test--reason name))))
    (let ((gemini-companion-private-files '("Main.*" "a/B/*")))
      (should (gemini-companion-private-test--reason "main.c"))
      (should (gemini-companion-private-test--reason "x/a/b/c"))
      (should-not (gemini-companion-private-test--reason ".env")))
    (let ((gemini-companion-private-files "main.*"))
      (should (gemini-companion-private-test--reason "main.c"))
      (should-not (gemini-companion-private-test--reason ".env")))
    (let ((gemini-companion-private-files nil))
      (should-not (gemini-companion-private-test--reason ".env")))))

(ert-deftest gemini-companion-private/what-a-package-has-decrypted-is-withheld ()
  "EPA does so, Ansible Vault mode, the format of sops-file, and Plstore mode."
  (gemini-companion-private-test--with-root
    (with-current-buffer (find-file-noselect (gemini-companion-test-file "a.yml" "x\n"))
      (setq buffer-file-format '(sops-file))
      (should (equal (gemini-companion-private-reason) "encrypted"))
      (setq buffer-file-format nil)
      (should-not (gemini-companion-private-reason))
      (setq-local ansible-vault-mode t)
      (should (equal (gemini-companion-private-reason) "encrypted"))
      (setq-local ansible-vault-mode nil)
      (setq-local plstore-encoded t)
      (should (equal (gemini-companion-private-reason) "encrypted"))
      (setq-local plstore-encoded nil)
      ;; As in many init files: EPA encrypts what has a name for it.
      (let ((epa-file-encrypt-to "me@example.com"))
        (should-not (gemini-companion-private-reason))
        ;; EPA sets this where it decrypts.
        (setq-local epa-file-encrypt-to '("me@example.com"))
        (should (equal (gemini-companion-private-reason) "encrypted"))))))

(ert-deftest gemini-companion-private/an-entry-that-org-crypt-has-decrypted-is-withheld ()
  "A model could read it by a tool, and a merge would write it to the file."
  (require 'org-crypt)
  (gemini-companion-private-test--with-root
    (with-current-buffer (find-file-noselect (gemini-companion-test-file "a.org" "* a\n* b\n"))
      (org-mode)
      (should-not (gemini-companion-context--reason (current-buffer)))
      (goto-char (point-min))
      (forward-line)
      (insert (propertize "secret\n" 'org-crypt-text "-----BEGIN PGP MESSAGE-----"))
      (narrow-to-region (point) (point-max))
      (should (equal (gemini-companion-context--reason (current-buffer)) "encrypted"))
      (should (gemini-companion-file-converted-p buffer-file-name (current-buffer)))
      (erase-buffer) ; it also widens
      (should-not (gemini-companion-context--reason (current-buffer)))
      (set-buffer-modified-p nil))))

(ert-deftest gemini-companion-private/an-ignored-name-has-whole-letters-on-macos-and-windows ()
  "There, Emacs takes letters apart, or knows other bytes, and no line of the file matched."
  (gemini-companion-private-test--with-root
    (gemini-companion-test-file ".geminiignore" "geheim-ü.txt\n")
    (dolist (system '((darwin . utf-8-hfs-unix) (windows-nt . windows-1252-unix)))
      (ert-info ((format "%s" system))
        (require 'ucs-normalize)
        (let ((file (expand-file-name "geheim-ü.txt" gemini-companion-test-project))
              (file-name-coding-system (cdr system))
              (system-type (car system)))
          (should (eq t (gemini-companion-bridge-ignored
                         (expand-file-name ".geminiignore" gemini-companion-test-project)
                         file))))))))

(ert-deftest gemini-companion-private/a-changed-list-of-globs-counts-at-once ()
  "Users change it by `delete' and `nconc', so it may be the same list."
  (gemini-companion-private-test--with-root
    (let ((gemini-companion-private-files (list ".env" ".npmrc")))
      (should (gemini-companion-private-test--reason ".npmrc"))
      (setq gemini-companion-private-files (delete ".npmrc" gemini-companion-private-files))
      (should-not (gemini-companion-private-test--reason ".npmrc"))
      (setq gemini-companion-private-files (nconc gemini-companion-private-files (list "*.c")))
      (should (gemini-companion-private-test--reason "main.c")))))

(ert-deftest gemini-companion-private/a-link-to-a-secret-is-one ()
  (gemini-companion-private-test--with-root
    (gemini-companion-test-write (expand-file-name ".env" gemini-companion-test-project) "x")
    (make-symbolic-link ".env" (expand-file-name "settings" gemini-companion-test-project))
    (should (gemini-companion-private-test--reason "settings"))
    (should (gemini-companion-private-reason-of
             (expand-file-name "settings" gemini-companion-test-project) nil))))

(ert-deftest gemini-companion-private/a-project-behind-a-link-is-inside-by-either-name ()
  (gemini-companion-private-test--with-root
    (let ((link (make-temp-name (directory-file-name gemini-companion-test-project)))
          (find-file-existing-other-name nil))
      (make-symbolic-link (directory-file-name gemini-companion-test-project) link)
      (unwind-protect
          (progn
            (should-not (gemini-companion-private-test--reason "a"))
            (should-not (gemini-companion-private-test--reason (concat link "/b")))
            (setq gemini-companion-workspace-roots (list link))
            (gemini-companion-workspace-roots)
            (should-not (gemini-companion-private-test--reason "c"))
            (should-not (gemini-companion-private-test--reason (concat link "/d"))))
        (delete-file link)))))

(ert-deftest gemini-companion-private/the-project-s-geminiignore-counts ()
  (gemini-companion-private-test--with-root
    (let ((ignore (expand-file-name ".geminiignore" gemini-companion-test-project)))
      (should-not (gemini-companion-private-test--reason "build/out.txt"))
      (gemini-companion-test-write ignore "build/\n*.log\n!keep.log\n")
      (should (equal (gemini-companion-private-test--reason "build/out.txt")
                     (concat "named by " ignore)))
      (should (gemini-companion-private-test--reason "deep/a.log"))
      (should (gemini-companion-private-test--reason "漢字.log"))
      (should-not (gemini-companion-private-test--reason "keep.log"))
      (delete-file ignore)
      (should-not (gemini-companion-private-test--reason "build/out.txt"))
      (make-directory ignore)
      (should (string-search "cannot be read"
                             (gemini-companion-private-test--reason "build/out.txt"))))))

(ert-deftest gemini-companion-private/an-ignore-file-that-would-hang-emacs-is-answered ()
  (gemini-companion-private-test--with-root
    (let ((ignore (expand-file-name ".geminiignore" gemini-companion-test-project))
          (deep (concat (string-join (make-list 70 "d") "/") "/a")))
      (gemini-companion-test-write ignore (concat (string-join (make-list 30 "**/")) "b"))
      (gemini-companion-private-test--reason deep)
      (make-symbolic-link deep (expand-file-name "README.md" gemini-companion-test-project))
      (should-not (gemini-companion-private-test--reason "README.md"))
      (gemini-companion-test-write ignore "a")
      (should (equal (gemini-companion-private-test--reason "README.md")
                     (concat "named by " ignore))))))

(ert-deftest gemini-companion-private/what-an-ignore-file-makes-too-costly-is-withheld ()
  (gemini-companion-private-test--with-root
    (let ((ignore (expand-file-name ".geminiignore" gemini-companion-test-project)))
      (pcase-dolist (`(,text . ,fault)
                     `((,(string-join (make-list 3 (concat (string-join (make-list 3000 "*a"))
                                                           "\n")))
                        . "is too costly to match")
                       (,(string-join (make-list 40000 "some/harmless/line\n"))
                        . "cannot be read: it is larger than")))
        (gemini-companion-test-write ignore text)
        (should (string-prefix-p (concat ignore " " fault)
                                 (gemini-companion-private-test--reason (make-string 200 ?a))))
        (gemini-companion-show-context)
        (with-current-buffer "*gemini context*"
          (should (string-search (concat ignore " " fault) (buffer-string)))))
      (kill-buffer "*gemini context*"))))

(ert-deftest gemini-companion-private/a-fifo-as-an-ignore-file-is-not-waited-for ()
  (skip-unless (executable-find "mkfifo"))
  (gemini-companion-private-test--with-root
    (call-process "mkfifo" nil nil nil
                  (expand-file-name ".geminiignore" gemini-companion-test-project))
    (should (string-search "cannot be read: it is not a regular file"
                           (gemini-companion-private-test--reason "a")))))

(ert-deftest gemini-companion-private/ignore-files-below-the-root-count ()
  "Clients may work there, in a submodule for instance, and obey them."
  (gemini-companion-private-test--with-root
    (gemini-companion-test-file "module/.git" "gitdir: ../.git/modules/module\n")
    (dolist (directory '("module/" "sub/deep/"))
      (let ((ignore (gemini-companion-test-file (concat directory ".geminiignore") "*.txt\n/x\n")))
        (dolist (name '("a.txt" "b/c.txt" "x"))
          (should (equal (gemini-companion-private-test--reason (concat directory name))
                         (concat "named by " ignore))))
        (should-not (gemini-companion-private-test--reason (concat directory "b/x")))))
    (dolist (name '("a.txt" "sub/a.txt"))
      (should-not (gemini-companion-private-test--reason name)))))

(ert-deftest gemini-companion-private/ignore-files-of-the-forks-count ()
  (gemini-companion-private-test--with-root
    (dolist (fork '("qwen" "llxprt" "other"))
      (let ((gemini-companion-agent-profiles '((other :ignore-file ".otherignore")))
            (ignore (gemini-companion-test-file (format ".%signore" fork) (concat fork ".*\n"))))
        (should (equal (gemini-companion-private-test--reason (concat "sub/" fork ".txt"))
                       (concat "named by " ignore)))))
    (should-not (gemini-companion-private-test--reason "sub/another.txt"))))

(ert-deftest gemini-companion-private/a-file-below-too-many-ignore-files-is-withheld ()
  (gemini-companion-private-test--with-root
    (let ((directory "d/"))
      (dotimes (_ 16)
        (gemini-companion-test-file (concat directory ".geminiignore") "")
        (setq directory (concat directory "d/")))
      (should-not (gemini-companion-private-test--reason (concat directory "a")))
      (gemini-companion-test-file (concat directory ".geminiignore") "")
      (should (string-search "more than 16"
                             (gemini-companion-private-test--reason (concat directory "b")))))))

(ert-deftest gemini-companion-private/a-file-that-cannot-be-judged-is-withheld ()
  (gemini-companion-private-test--with-root
    (gemini-companion-test-file ".geminiignore" "")
    (cl-letf (((symbol-function 'gemini-companion-bridge-ignored)
               (lambda (&rest _) (error "No module"))))
      (should (equal (gemini-companion-private-test--reason "a")
                     "impossible to check: No module")))))

(ert-deftest gemini-companion-private/directories-can-say-so ()
  (gemini-companion-private-test--with-root
    (gemini-companion-test-write
     (expand-file-name "secret/.dir-locals.el" gemini-companion-test-project)
     "((nil . ((gemini-companion-private . t))))")
    (let ((enable-local-variables :safe))
      (should (string-search ".dir-locals.el"
                             (gemini-companion-private-test--reason "secret/a")))
      (should-not (gemini-companion-private-test--reason "public/a")))))

;; What a buffer does not get from .dir-locals.el counts all the same.

(defun gemini-companion-private-test--mark (directory)
  "Have a .dir-locals.el mark the files in DIRECTORY of the project."
  (gemini-companion-test-file (concat directory "/.dir-locals.el")
                              "((nil . ((gemini-companion-private . t))))"))

(defun gemini-companion-private-test--marked-p (buffer)
  "Return non-nil if the file of BUFFER counts as marked in .dir-locals.el."
  (with-current-buffer buffer
    (string-search ".dir-locals.el" (or (gemini-companion-private-reason) ""))))

(ert-deftest gemini-companion-private/directories-count-for-buffers-that-were-not-told ()
  (gemini-companion-private-test--with-root
    (gemini-companion-private-test--mark "secret")
    (let* ((enable-local-variables :safe)
           (moved (find-file-noselect (gemini-companion-test-file "moved" "x\n")))
           (early (find-file-noselect (gemini-companion-test-file "late/early" "x\n")))
           (literal (find-file-noselect (gemini-companion-test-file "secret/l" "x\n") nil t))
           (switched-off (let ((enable-local-variables nil)
                               (enable-dir-local-variables nil))
                           (find-file-noselect (gemini-companion-test-file "secret/o" "x\n")))))
      (dolist (buffer (list moved early))
        (should-not (gemini-companion-private-test--marked-p buffer)))
      (with-current-buffer moved
        (setq-local change-major-mode-with-file-name nil)
        (set-visited-file-name (gemini-companion-test-file "secret/moved") t))
      (gemini-companion-private-test--mark "late")
      (dolist (buffer (list moved early literal switched-off))
        (ert-info ((buffer-name buffer))
          (should (gemini-companion-private-test--marked-p buffer))
          (with-current-buffer buffer
            (should-not (local-variable-p 'gemini-companion-private))
            (should-not file-local-variables-alist)
            (should-not dir-local-variables-alist)
            ;; The user may say otherwise.
            (setq gemini-companion-private nil)
            (should-not (gemini-companion-private-reason))))))))

(ert-deftest gemini-companion-private/a-link-into-a-marked-directory-is-private ()
  (gemini-companion-private-test--with-root
    (gemini-companion-private-test--mark "secret")
    (gemini-companion-test-file "secret/a" "x\n")
    (make-symbolic-link "secret/a" (gemini-companion-test-file "link"))
    (should (gemini-companion-private-test--reason "link"))))

(ert-deftest gemini-companion-private/directories-can-mark-the-files-of-a-mode ()
  (gemini-companion-private-test--with-root
    (let* ((enable-local-variables nil)
           (buffers (mapcar (lambda (name)
                              (find-file-noselect (gemini-companion-test-file name "")))
                            '("a.el" "a.txt"))))
      (gemini-companion-test-file ".dir-locals.el"
                                  "((prog-mode . ((gemini-companion-private . t))))")
      (should (equal (mapcar (lambda (buffer)
                               (and (gemini-companion-private-test--marked-p buffer) t))
                             buffers)
                     '(t nil))))))

(ert-deftest gemini-companion-private/a-mark-without-subdirectories-counts-through-a-link ()
  (gemini-companion-private-test--with-root
    (gemini-companion-test-file "vault/.dir-locals.el"
                                "((nil . ((subdirs . nil) (gemini-companion-private . t))))")
    (pcase-dolist (`(,name . ,marked) '(("s" . t) ("sub/s" . nil)))
      (let ((link (gemini-companion-test-file (if marked "marked" "below")))
            (find-file-visit-truename nil))
        (ert-info (name)
          (make-symbolic-link (gemini-companion-test-file (concat "vault/" name) "x\n") link)
          (should (eq marked (and (gemini-companion-private-test--marked-p
                                   (find-file-noselect link))
                                  t))))))))

(ert-deftest gemini-companion-private/below-unreadable-directory-variables-all-is-private ()
  "Nothing is shown each time, and nothing is evaluated."
  (gemini-companion-private-test--with-root
    (let* ((enable-local-variables nil)
           (buffer (find-file-noselect (gemini-companion-test-file "sub/a" "x\n")))
           (shown (with-current-buffer (messages-buffer) (buffer-string))))
      (dolist (text `(")" "((nil . #))" ,(concat "()" (make-string 16000 ?\s))))
        (gemini-companion-test-file "sub/.dir-locals.el" text)
        (dotimes (_ 2)
          (ert-info (text)
            (should (with-current-buffer buffer (gemini-companion-private-reason))))))
      (gemini-companion-test-file "sub/.dir-locals.el"
                                  "((nil . ((coding . utf-8) (eval . (error \"Evil\")))))")
      (should-not (with-current-buffer buffer (gemini-companion-private-reason)))
      (should-not (get-buffer "*Warnings*"))
      (should (equal shown (with-current-buffer (messages-buffer) (buffer-string)))))))

(ert-deftest gemini-companion-private/no-repository-removes-a-mark-of-the-user ()
  (gemini-companion-private-test--with-root
    (gemini-companion-test-file "a.txt" "a\n")
    (gemini-companion-test-file ".dir-locals.el" "((nil . ((gemini-companion-private))))")
    (let ((enable-local-variables :safe))
      (with-current-buffer (find-file-noselect (gemini-companion-test-file "a.txt"))
        (setq gemini-companion-private t)
        (revert-buffer t t)
        (should (gemini-companion-private-reason))))))

(ert-deftest gemini-companion-private/a-name-that-is-no-text-is-withheld ()
  (with-temp-buffer
    (setq buffer-file-name (concat "/tmp/" (string-to-multibyte "\377")))
    (should (string-search "not text" (gemini-companion-private-reason)))
    (setq buffer-file-name nil)))

(ert-deftest gemini-companion-private/what-the-user-marks-or-ignores-is-private-at-once ()
  (gemini-companion-private-test--with-root
    (dolist (name '("a" "b"))
      (should-not (gemini-companion-private-test--reason name)))
    (with-current-buffer "a"
      (setq gemini-companion-private t)
      (should (gemini-companion-private-reason)))
    (gemini-companion-test-file ".geminiignore" "b\n")
    (should (gemini-companion-private-test--reason "b"))))

;;; gemini-companion-private-test.el ends here

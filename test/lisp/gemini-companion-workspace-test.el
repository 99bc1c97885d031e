;;; gemini-companion-workspace-test.el --- Tests of the workspace roots  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'shell)
(require 'project)
(require 'gemini-companion-review-list)
(require 'gemini-companion-test-companion)

(defun gemini-companion-workspace-test--buffer-root ()
  "Return the root to which the current buffer belongs, or nil."
  (pcase (gemini-companion-workspace--directory-of (current-buffer))
    (`(,directory . ,only-project)
     (car (gemini-companion-workspace--guess-root directory only-project)))))

(defun gemini-companion-workspace-test--root (name)
  "Return the root of the new file NAME, relative to the test's project."
  (clrhash gemini-companion-workspace--cache)
  (with-current-buffer (find-file-noselect (gemini-companion-test-file name ""))
    (file-relative-name (gemini-companion-workspace-test--buffer-root)
                        gemini-companion-test-project)))

(ert-deftest gemini-companion-workspace/a-file-belongs-to-its-project ()
  (gemini-companion-test-with-project
    (make-directory (gemini-companion-test-file "repo/.git") t)
    (should (equal (gemini-companion-workspace-test--root "repo/src/deep/a.c") "repo"))))

(ert-deftest gemini-companion-workspace/without-a-project-the-directory-counts ()
  (gemini-companion-test-with-project
    (should (equal (gemini-companion-workspace-test--root "plain/dir/a.c") "plain/dir"))))

(ert-deftest gemini-companion-workspace/the-directory-of-a-private-file-does-not-count ()
  (gemini-companion-test-with-project
    (make-directory (gemini-companion-test-file "repo/.git") t)
    (let ((buffers (mapcar (lambda (name)
                             (find-file-noselect (gemini-companion-test-file name "")))
                           '("home/.ssh/config" "marked/a" "repo/.env" "plain/b"))))
      (with-current-buffer (nth 1 buffers)
        (setq gemini-companion-private t))
      (should (equal (mapcar (lambda (buffer)
                               (with-current-buffer buffer
                                 (gemini-companion-workspace-test--buffer-root)))
                             buffers)
                     (list nil nil (gemini-companion-test-file "repo")
                           (gemini-companion-test-file "plain"))))
      (let ((roots (gemini-companion-workspace-roots)))
        (dolist (name '("home/.ssh" "marked"))
          (should-not (member (gemini-companion-test-file name) roots)))
        (should (member (gemini-companion-test-file "plain") roots))))))

(ert-deftest gemini-companion-workspace/places-too-wide-are-never-guessed ()
  (dolist (directory (list "/" "~/" "/tmp/" temporary-file-directory))
    (should-not (car (gemini-companion-workspace--guess-root directory)))))

(ert-deftest gemini-companion-workspace/an-empty-tmpdir-is-not-the-current-directory ()
  (gemini-companion-test-with-project
    (let ((temporary-file-directory "./")
          (process-environment (cons "TMPDIR=" process-environment))
          (directory (gemini-companion-test-file "plain/")))
      (make-directory directory)
      (let ((default-directory directory))
        (should (car (gemini-companion-workspace--guess-root directory)))))))

(ert-deftest gemini-companion-workspace/remote-directories-are-not-looked-at ()
  (should-not (car (gemini-companion-workspace--guess-root "/ssh:nowhere.invalid:/dir/"))))

(ert-deftest gemini-companion-workspace/terminals-belong-to-projects-too ()
  (gemini-companion-test-with-project
    (with-temp-buffer
      (setq default-directory gemini-companion-test-project)
      (should-not (gemini-companion-workspace-test--buffer-root))
      (setq major-mode 'term-mode)
      (should (equal (gemini-companion-workspace-test--buffer-root)
                     (directory-file-name gemini-companion-test-project))))))

(defun gemini-companion-workspace-test--discovered ()
  "Return the roots that the discovery file names."
  (split-string
   (alist-get 'workspacePath
              (gemini-companion-test-json-decode
               (gemini-companion-test-bytes
                (car (directory-files (car (gemini-companion-agent-directories 'gemini))
                                      t "json\\'")))))
   ":"))

(ert-deftest gemini-companion-workspace/the-discovery-file-follows-the-open-files ()
  (gemini-companion-test-with-project
    (find-file-noselect (gemini-companion-test-file "one/a" ""))
    (gemini-companion-mode 1)
    (let ((roots #'gemini-companion-workspace-test--discovered)
          (one (gemini-companion-test-file "one"))
          (two (gemini-companion-test-file "two")))
      (gemini-companion-test-wait "the first root" (lambda () (member one (funcall roots))))
      (should-not (member two (funcall roots)))
      (let ((buffer (find-file-noselect (gemini-companion-test-file "two/b" ""))))
        (gemini-companion-test-wait "the second root"
                                    (lambda () (member two (funcall roots))))
        (kill-buffer buffer)
        (gemini-companion-test-wait "the second root to go"
                                    (lambda () (not (member two (funcall roots)))))))))

(ert-deftest gemini-companion-workspace/the-discovery-file-follows-a-shell ()
  "A user who types cd, and starts a CLI there, has opened no file."
  (gemini-companion-test-with-project
    (let ((two (gemini-companion-test-file "two"))
          (explicit-shell-file-name "/bin/sh"))
      (make-directory two)
      (gemini-companion-mode 1)
      (save-window-excursion
        (with-current-buffer (shell (generate-new-buffer-name "*shell*"))
          (unwind-protect
              (progn
                (set-process-query-on-exit-flag (get-buffer-process (current-buffer)) nil)
                (gemini-companion-test-wait
                 "the project"
                 (lambda () (member (directory-file-name gemini-companion-test-project)
                                    (gemini-companion-workspace-test--discovered))))
                (should-not (member two (gemini-companion-workspace-test--discovered)))
                (goto-char (point-max))
                (insert "cd two")
                (comint-send-input)
                (run-hooks 'post-command-hook)
                (gemini-companion-test-wait
                 "the directory of the shell"
                 (lambda () (member two (gemini-companion-workspace-test--discovered)))))
            (gemini-companion-ui-kill-buffer (current-buffer))))))))

(ert-deftest gemini-companion-workspace/projects-are-searched-for-once-emacs-has-time ()
  "To search for them takes long, and who switches the mode on does not wait."
  (gemini-companion-test-with-project
    (make-directory (gemini-companion-test-file "repo/sub/.git") t)
    (find-file-noselect (gemini-companion-test-file "repo/sub/src/a" ""))
    (let ((gemini-companion-workspace--delay 1000)
          (searched nil)
          (search (symbol-function 'project-current)))
      (cl-letf (((symbol-function 'project-current)
                 (lambda (&rest arguments)
                   (setq searched t)
                   (apply search arguments))))
        (gemini-companion-mode 1)
        (should-not searched)
        (gemini-companion-test-wait
         "the project"
         (lambda () (member (gemini-companion-test-file "repo/sub")
                            (gemini-companion-workspace-test--discovered))))
        (should searched)))))

(ert-deftest gemini-companion-workspace/guesses-are-never-too-wide ()
  (gemini-companion-test-with-project
    (make-directory (gemini-companion-test-file "home/.git") t)
    (make-directory (gemini-companion-test-file "home/plain") t)
    (find-file-noselect (gemini-companion-test-file "home/notes/a" ""))
    (find-file-noselect (gemini-companion-test-file "home/b" ""))
    (dired-noselect (gemini-companion-test-file "home/plain"))
    (let* ((temporary-file-directory (gemini-companion-test-file "home/"))
           (roots (gemini-companion-workspace-roots)))
      (should (member (gemini-companion-test-file "home/notes") roots))
      (should-not (member (gemini-companion-test-file "home") roots))
      (should-not (member (gemini-companion-test-file "home/plain") roots)))
    (with-current-buffer (generate-new-buffer "remote")
      (setq buffer-file-name "/ssh:nowhere.invalid:/dir/file")
      (should-not (seq-find #'file-remote-p (gemini-companion-workspace-roots)))
      (setq buffer-file-name nil))))

(ert-deftest gemini-companion-workspace/a-faulty-kind-of-project-spoils-no-other ()
  "The user's function finds one whose root nobody knows."
  (gemini-companion-test-with-project
    (make-directory (gemini-companion-test-file "good/.git") t)
    (find-file-noselect (gemini-companion-test-file "good/a" ""))
    (find-file-noselect (gemini-companion-test-file "faulty/b" ""))
    (let* ((faulty (gemini-companion-test-file "faulty/"))
           (project-find-functions
            (cons (lambda (directory) (and (equal directory faulty) '(faulty)))
                  project-find-functions)))
      (gemini-companion-mode 1)
      (gemini-companion-test-wait "the search"
                                  (lambda () (not gemini-companion-workspace-pending)))
      (should (member (gemini-companion-test-file "good") (gemini-companion-workspace-announced)))
      (should (string-search "project-root" (string-join (gemini-companion-log-last 5)))))))

;; With many projects, it took long to find them for the context.
(ert-deftest gemini-companion-workspace/projects-are-looked-for-only-if-an-option-needs-that ()
  (gemini-companion-test-with-project
    (let* ((own (gemini-companion-test-file "own/a" ""))
           (other (gemini-companion-test-file "other/a" ""))
           (none (gemini-companion-test-file "a" ""))
           (gemini-companion-workspace-guess nil)
           (gemini-companion-workspace-roots (mapcar #'file-name-directory (list own other)))
           (looked-for nil)
           (look (lambda (&rest _) (setq looked-for t))))
      (gemini-companion-workspace-roots)
      (pcase-dolist (`(,gemini-companion-context-scope ,gemini-companion-share-outside-workspace
                                                       ,of-other ,of-none)
                     '((project nil "in another project" "outside of projects")
                       (project t "in another project" nil)
                       (all nil nil "outside of projects")
                       (all t nil nil)))
        (let ((scope (gemini-companion-workspace-scope-of (file-name-directory own))))
          (pcase-dolist (`(,file . ,reason) `((,own) (,other . ,of-other) (,none . ,of-none)))
            (should (equal reason (gemini-companion-workspace-out-of-scope-reason
                                   file file scope 'exactly)))
            (setq looked-for nil)
            (advice-add 'gemini-companion-workspace--in-project-p :before look)
            (unwind-protect
                (should (eq (not reason)
                            (not (gemini-companion-workspace-out-of-scope-reason
                                  file file scope))))
              (advice-remove 'gemini-companion-workspace--in-project-p look))
            (when (or (eq file own) (and of-other of-none))
              (should-not looked-for))))))))

(ert-deftest gemini-companion-workspace/roots-can-be-given ()
  (gemini-companion-test-with-project
    (find-file-noselect (gemini-companion-test-file "guessed/a" ""))
    (let ((given (expand-file-name "given/" gemini-companion-test-project))
          (guessed (gemini-companion-test-file "guessed")))
      (let ((gemini-companion-workspace-roots (list given "/ssh:nowhere.invalid:/dir" given)))
        (let ((roots (gemini-companion-workspace-roots)))
          (should (equal (car roots) (directory-file-name given)))
          (should (member guessed roots))
          (should (= (length roots) (length (delete-dups (copy-sequence roots)))))
          (should-not (seq-find #'file-remote-p roots)))
        (let ((gemini-companion-workspace-guess nil))
          (should (equal (gemini-companion-workspace-roots)
                         (list (directory-file-name given))))
          ;; It need not be in a list.
          (setq gemini-companion-workspace-roots given)
          (should (equal (gemini-companion-workspace-roots)
                         (list (directory-file-name given)))))))))

(ert-deftest gemini-companion-workspace/an-option-that-is-set-is-announced ()
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (let* ((given (gemini-companion-test-file "given"))
           (told nil)
           (tell (lambda () (push (gemini-companion-workspace-announced) told))))
      (add-hook 'gemini-companion-workspace-change-hook tell)
      (unwind-protect
          (dolist (set (list #'customize-set-variable #'set))
            (funcall set 'gemini-companion-workspace-roots (list given))
            (gemini-companion-test-wait "the root to be announced"
                                        (lambda () (member given (car told))))
            (customize-set-variable 'gemini-companion-workspace-roots nil)
            (gemini-companion-test-wait "it to be one no longer"
                                        (lambda () (not (member given (car told))))))
        (remove-hook 'gemini-companion-workspace-change-hook tell)
        (customize-set-variable 'gemini-companion-workspace-roots nil)))))

(ert-deftest gemini-companion-workspace/dired-counts-with-its-project-only ()
  (gemini-companion-test-with-project
    (make-directory (gemini-companion-test-file "repo/.git") t)
    (make-directory (gemini-companion-test-file "repo/sub") t)
    (make-directory (gemini-companion-test-file "plain") t)
    (let ((root (lambda (name)
                  (with-current-buffer (dired-noselect (gemini-companion-test-file name))
                    (gemini-companion-workspace-test--buffer-root)))))
      (should (equal (funcall root "repo/sub") (gemini-companion-test-file "repo")))
      (should-not (funcall root "plain")))))

(ert-deftest gemini-companion-workspace/in-a-project-that-is-too-wide-the-directory-counts ()
  "As with a home directory under version control."
  (gemini-companion-test-with-project
    (make-directory (gemini-companion-test-file ".git") t)
    (make-directory (gemini-companion-test-file "notes") t)
    (let ((temporary-file-directory gemini-companion-test-project))
      (should (equal (gemini-companion-workspace--guess-root
                      (file-name-as-directory (gemini-companion-test-file "notes")))
                     (list (gemini-companion-test-file "notes"))))
      (should-not (car (gemini-companion-workspace--guess-root gemini-companion-test-project))))))

(ert-deftest gemini-companion-workspace/a-new-project-is-noticed-in-time ()
  (gemini-companion-test-with-project
    (let ((directory (file-name-as-directory (gemini-companion-test-file "new/sub")))
          (gemini-companion-workspace--lifetime 1000))
      (make-directory directory t)
      (let ((root (lambda () (car (gemini-companion-workspace--guess-root directory)))))
        (should (equal (funcall root) (directory-file-name directory)))
        (make-directory (gemini-companion-test-file "new/.git"))
        (should (equal (funcall root) (directory-file-name directory)))
        (setq gemini-companion-workspace--lifetime 0)
        (should (equal (funcall root) (gemini-companion-test-file "new")))))))

(ert-deftest gemini-companion-workspace/what-was-guessed-is-remembered ()
  "Not beyond its time, nor if the clock was set back."
  (gemini-companion-test-with-project
    (let* ((directory (file-name-as-directory (gemini-companion-test-file "plain")))
           (gemini-companion-workspace--lifetime 1000)
           (looked 0)
           (guess (lambda ()
                    (should (equal (gemini-companion-workspace--guess-root directory)
                                   (list (directory-file-name directory))))
                    looked))
           (guessable (symbol-function 'gemini-companion-workspace-guessable-root)))
      (make-directory directory)
      (cl-letf (((symbol-function 'gemini-companion-workspace-guessable-root)
                 (lambda (root)
                   (setq looked (1+ looked))
                   (funcall guessable root))))
        (dotimes (_ 2)
          (should (= (funcall guess) 1)))
        (cl-incf (car (gethash directory gemini-companion-workspace--cache)) 500)
        (should (= (funcall guess) 2))
        (cl-decf (car (gethash directory gemini-companion-workspace--cache)) 1500)
        (should (= (funcall guess) 3))))))

(ert-deftest gemini-companion-workspace/projects-are-not-searched-for-again ()
  "That takes seconds where files are slow, and longer if a disk no longer answers."
  (gemini-companion-test-with-project
    (make-directory (gemini-companion-test-file "one/.git") t)
    (let ((directory (file-name-as-directory (gemini-companion-test-file "one"))))
      (gemini-companion-workspace--guess-root directory)
      (cl-decf (car (gethash directory gemini-companion-workspace--cache)) 100000)
      (cl-letf* ((searched nil)
                 ((symbol-function 'project-current)
                  (lambda (&rest _) (ignore (setq searched t)))))
        (gemini-companion-workspace--guess-root directory)
        (should-not searched)))))

(ert-deftest gemini-companion-workspace/a-known-project-is-looked-at-only-where-the-user-is ()
  "Elsewhere, its disk may no longer answer."
  (gemini-companion-test-with-project
    (make-directory (gemini-companion-test-file "real/.git") t)
    (make-symbolic-link "real" (gemini-companion-test-file "link"))
    (let* ((find-file-visit-truename nil)
           (gemini-companion-workspace-known nil)
           (names (mapcar (lambda (it) (file-name-as-directory (gemini-companion-test-file it)))
                          '("link" "real")))
           (announced (lambda ()
                        (gemini-companion-workspace-roots)
                        (mapcan (lambda (it)
                                  (copy-sequence (gemini-companion-workspace-root-names it)))
                                gemini-companion-workspace-known))))
      (with-current-buffer (find-file-noselect (gemini-companion-test-file "link/a" ""))
        (should (equal (funcall announced) names))
        (make-symbolic-link "new" (gemini-companion-test-file "link") t)
        (with-temp-buffer
          (setq default-directory temporary-file-directory)
          (cl-letf (((symbol-function 'file-truename)
                     (lambda (name &rest _) (ert-fail name))))
            (should (equal (funcall announced) names))))
        (should (equal (cadr (funcall announced))
                       (file-name-as-directory (gemini-companion-test-file "new"))))))))

;; This is asked at nearly each key.
(ert-deftest gemini-companion-workspace/the-repository-of-a-client-is-searched-for-once ()
  (gemini-companion-test-with-project
    (make-directory (gemini-companion-test-file "one/.git") t)
    (make-directory (gemini-companion-test-file "one/sub/.git") t)
    (let* ((gemini-companion-workspace-known nil)
           (gemini-companion-workspace--client-roots nil)
           (gemini-companion-workspace-roots (list (gemini-companion-test-file "one")))
           (sub (gemini-companion-test-file "one/sub"))
           (names (lambda (where)
                    (let ((default-directory where))
                      (gemini-companion-workspace-roots))
                    (gemini-companion-workspace-scope-names
                     (gemini-companion-workspace-scope-of sub)))))
      (should (equal (funcall names sub) (list (file-name-as-directory sub))))
      (cl-letf (((symbol-function 'locate-dominating-file)
                 (lambda (&rest arguments) (ert-fail arguments))))
        (should (equal (funcall names "/") (list (file-name-as-directory sub)))))
      ;; It is no repository any more.
      (delete-directory (gemini-companion-test-file "one/sub/.git"))
      (should (equal (funcall names sub)
                     (list (file-name-as-directory (gemini-companion-test-file "one"))))))))

(ert-deftest gemini-companion-workspace/hidden-buffers-do-not-count ()
  (gemini-companion-test-with-project
    (gemini-companion-workspace-start)
    (unwind-protect
        (let ((timers (lambda ()
                        (gemini-companion-test-timers
                         #'gemini-companion-workspace--announce-or-log))))
          (cancel-function-timers #'gemini-companion-workspace--announce-or-log)
          (with-temp-buffer (emacs-lisp-mode))
          (should-not (funcall timers))
          (kill-buffer (generate-new-buffer "visible"))
          (should (funcall timers)))
      (gemini-companion-workspace-stop))))

(ert-deftest gemini-companion-workspace/a-name-that-is-no-text-is-no-root ()
  (should-not (gemini-companion-workspace--valid-root
               (concat "/" (string-to-multibyte "\377") "/"))))

;;; gemini-companion-workspace-test.el ends here

;;; gemini-companion-scope-test.el --- Tests of which files are whose  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-scope-test--with (projects &rest body)
  "Evaluate BODY with new directories, of which PROJECTS are projects.
They are told while files are kept track of."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-project
     (let ((gemini-companion-context-change-hook (list #'ignore)))
       (gemini-companion-native-load)
       (dolist (project ,projects)
         (make-directory (gemini-companion-test-file (concat project "/.git")) t))
       (clrhash gemini-companion-workspace--cache)
       (gemini-companion-context-start)
       (unwind-protect (progn ,@body)
         (gemini-companion-context-stop)
         (setq gemini-companion-workspace-known nil)))))

(defun gemini-companion-scope-test--open (&rest names)
  "Show the file of each of NAMES in the selected window, one after the other."
  (dolist (name names)
    (switch-to-buffer (find-file-noselect (gemini-companion-test-file name "1\n2\n3\n")))
    (gemini-companion-context--record-focus))
  (gemini-companion-workspace-roots))

(defun gemini-companion-scope-test--told (&optional name)
  "Return of which files a client hears that works in the directory NAME.
The active one has a star.  Without NAME that is not known."
  (mapcar (lambda (file)
            (concat (file-relative-name (aref file 0) gemini-companion-test-project)
                    (and (aref file 2) "*")))
          (gemini-companion-context-gather (and name (gemini-companion-test-file name)))))

(defun gemini-companion-scope-test--withheld (name)
  "Return what a client is not told that works in the directory NAME, and why."
  (mapcar (pcase-lambda (`(,file . ,reason))
            (cons (file-relative-name file gemini-companion-test-project) reason))
          (gemini-companion-context-withheld (gemini-companion-test-file name))))

(ert-deftest gemini-companion-scope/each-hears-of-its-own-project ()
  (gemini-companion-scope-test--with '("one" "other")
    (gemini-companion-scope-test--open "one/a" "other/b" "diary/d" "one/sub/c" "other/e")
    (should (equal (gemini-companion-scope-test--told "one") '("one/sub/c*" "one/a")))
    (should (equal (gemini-companion-scope-test--told "one/sub") '("one/sub/c*" "one/a")))
    (should (equal (gemini-companion-scope-test--told "other") '("other/e*" "other/b")))
    (should (equal (gemini-companion-scope-test--withheld "one")
                   '(("other/e" . "in another project")
                     ("diary/d" . "outside of projects")
                     ("other/b" . "in another project"))))))

(ert-deftest gemini-companion-scope/nobody-is-told-while-projects-are-searched-for ()
  (gemini-companion-scope-test--with '("one" "other")
    (gemini-companion-scope-test--open "one/a" "other/b" "diary/d")
    (let ((gemini-companion-workspace-pending t)
          (gemini-companion-share-outside-workspace t))
      (dolist (place '("one" "other" "diary" nil))
        (should-not (gemini-companion-scope-test--told place)))
      (should (equal (gemini-companion-scope-test--withheld "one")
                     '(("diary/d" . "perhaps in a project; Emacs is searching for it")
                       ("other/b" . "perhaps in a project; Emacs is searching for it")
                       ("one/a" . "perhaps in a project; Emacs is searching for it"))))
      (gemini-companion-workspace-announce)
      (should (equal (gemini-companion-scope-test--told "one") '("diary/d*" "one/a"))))))

(ert-deftest gemini-companion-scope/a-client-that-comes-during-the-search-is-told-after-it ()
  (gemini-companion-scope-test--with '("one")
    (gemini-companion-scope-test--open "one/a")
    (let ((place (gemini-companion-test-file "one"))
          (told nil))
      (cl-letf (((symbol-function 'gemini-companion-bridge-places) (lambda () (list place)))
                ((symbol-function 'gemini-companion-bridge-publish-contexts)
                 (lambda (contexts) (push contexts told))))
        (gemini-companion-workspace-start)
        (unwind-protect
            (progn
              (gemini-companion-context-update)
              (should-not told)
              (gemini-companion-test-wait "the search" (lambda () told))
              (pcase-let ((`(([,there [,file] nil])) told))
                (should (equal there place))
                (should (equal (aref file 0) (gemini-companion-test-file "one/a")))))
          (gemini-companion-workspace-stop))))))

(ert-deftest gemini-companion-scope/a-directory-outside-of-projects-is-told-to-clients-there ()
  (gemini-companion-scope-test--with '("one")
    (gemini-companion-scope-test--open "one/a" "diary/d")
    (should (equal (gemini-companion-scope-test--told "diary") '("diary/d*")))
    (should (equal (gemini-companion-scope-test--told "one") '("one/a*")))
    ;; Where these work is not known.
    (should (equal (gemini-companion-scope-test--told) '("one/a*")))
    (should (equal (gemini-companion-scope-test--told "elsewhere") '("one/a*")))
    (let ((gemini-companion-share-outside-workspace t))
      (should (equal (gemini-companion-scope-test--told "one") '("diary/d*" "one/a")))
      (should (equal (gemini-companion-scope-test--told) '("diary/d*" "one/a"))))))

(ert-deftest gemini-companion-scope/a-directory-that-was-deleted-is-told-of-no-other-project ()
  (gemini-companion-scope-test--with '("one" "other")
    (gemini-companion-scope-test--open "one/a" "other/b")
    (should (equal (gemini-companion-scope-test--told "one") '("one/a*")))
    (delete-directory (gemini-companion-test-file "one") t)
    ;; So the system calls that in which a client works.
    (should-not (gemini-companion-scope-test--told "one (deleted)"))
    ;; It was made anew.
    (gemini-companion-test-file "one/a" "1\n")
    (should (equal (gemini-companion-scope-test--told "one (deleted)") '("one/a*")))
    (kill-buffer "a")
    (gemini-companion-workspace-roots)
    (should-not (gemini-companion-scope-test--told "one (deleted)"))))

(ert-deftest gemini-companion-scope/the-active-file-is-the-one-looked-at-last-there ()
  (gemini-companion-scope-test--with '("one" "other")
    (gemini-companion-scope-test--open "one/a")
    (goto-char 3)
    (push-mark 1 t t)
    (gemini-companion-scope-test--open "other/b")
    (let* ((transient-mark-mode t)
           (file (car (gemini-companion-context-gather (gemini-companion-test-file "one")))))
      (should (equal (append (substring file 2) nil) '(t 2 1 "1\n"))))
    (kill-buffer "b")
    (should (equal (gemini-companion-scope-test--told) '("one/a*")))))

(ert-deftest gemini-companion-scope/what-is-withheld-leaves-no-other-file-active ()
  (gemini-companion-scope-test--with '("one")
    (gemini-companion-scope-test--open "one/a" "one/secret.pem")
    (should (equal (gemini-companion-scope-test--told "one") '("one/a")))
    (should (equal (gemini-companion-scope-test--withheld "one")
                   '(("one/secret.pem" . "named by `gemini-companion-private-files'"))))))

(ert-deftest gemini-companion-scope/nested-projects-have-their-own ()
  (gemini-companion-scope-test--with '("outer" "outer/repo")
    ;; As a submodule has it.
    (gemini-companion-test-file "outer/module/.git" "gitdir: ../.git/modules/module\n")
    (gemini-companion-scope-test--open "outer/a" "outer/repo/b" "outer/module/c")
    (should (equal (gemini-companion-scope-test--told "outer")
                   '("outer/module/c*" "outer/repo/b" "outer/a")))
    (should (equal (gemini-companion-scope-test--told "outer/repo") '("outer/repo/b*")))
    (should (equal (gemini-companion-scope-test--told "outer/module") '("outer/module/c*")))
    (let ((gemini-companion-context-scope 'all))
      (should (equal (gemini-companion-scope-test--told "outer/module")
                     '("outer/module/c*" "outer/repo/b" "outer/a"))))))

(ert-deftest gemini-companion-scope/symbolic-links-do-not-matter ()
  (gemini-companion-scope-test--with '("real/p")
    (make-symbolic-link "real" (gemini-companion-test-file "link"))
    (gemini-companion-test-file "real/p/sub/.git" "gitdir: elsewhere\n")
    (let ((find-file-visit-truename nil))
      (gemini-companion-scope-test--open "link/p/a" "link/p/sub/b"))
    ;; The system tells where a client works by real names.
    (should (equal (gemini-companion-scope-test--told "real/p") '("link/p/sub/b*" "link/p/a")))
    (should (equal (gemini-companion-scope-test--told "real/p/sub") '("link/p/sub/b*")))
    (gemini-companion-scope-test--open "real/p/c")
    (should (equal (gemini-companion-scope-test--told "real/p")
                   '("real/p/c*" "link/p/sub/b" "link/p/a")))))

(ert-deftest gemini-companion-scope/all-projects-may-be-told ()
  (gemini-companion-scope-test--with '("one" "other")
    (gemini-companion-scope-test--open "diary/d" "one/a" "other/b")
    (let ((gemini-companion-context-scope 'all))
      (should (equal (gemini-companion-scope-test--told "one") '("other/b*" "one/a")))
      (should (equal (gemini-companion-scope-test--told "diary")
                     '("other/b*" "one/a" "diary/d"))))))

(ert-deftest gemini-companion-scope/a-client-whose-project-was-closed-hears-of-no-other ()
  (gemini-companion-scope-test--with '("one" "other")
    (gemini-companion-scope-test--open "one/a" "other/b")
    (should (equal (gemini-companion-scope-test--told "one") '("one/a*")))
    (kill-buffer "a")
    (gemini-companion-workspace-roots)
    (should-not (gemini-companion-scope-test--told "one"))
    (gemini-companion-scope-test--open "one/c")
    (should (equal (gemini-companion-scope-test--told "one") '("one/c*")))))

(ert-deftest gemini-companion-scope/files-of-others-push-none-out ()
  (gemini-companion-scope-test--with '("one" "other")
    (gemini-companion-scope-test--open "one/a")
    (apply #'gemini-companion-scope-test--open
           (mapcar (lambda (n) (format "other/%d" n)) (number-sequence 1 60)))
    (should (equal (gemini-companion-scope-test--told "one") '("one/a*")))
    (should (= (length (gemini-companion-scope-test--told "other")) 10))))

(ert-deftest gemini-companion-scope/a-user-s-root-is-a-project ()
  (gemini-companion-scope-test--with '("given/p")
    (let ((gemini-companion-workspace-roots (list (gemini-companion-test-file "given"))))
      (gemini-companion-scope-test--open "given/notes/a" "given/p/b")
      (should (equal (gemini-companion-scope-test--told) '("given/p/b*" "given/notes/a")))
      (should (equal (gemini-companion-scope-test--told "given/new")
                     '("given/p/b*" "given/notes/a")))
      (should (equal (gemini-companion-scope-test--told "given/p") '("given/p/b*"))))))

;;;; What is published

(defun gemini-companion-scope-test--act ()
  "Do at random one of the things that users do; run the hooks that Emacs would."
  (pcase (random 8)
    (0 (gemini-companion-scope-test--visit "one"))
    (1 (gemini-companion-scope-test--visit "other"))
    (2 (gemini-companion-scope-test--visit "diary"))
    (3 (when buffer-file-name
         (kill-buffer))
       (run-hook-with-args 'window-buffer-change-functions (selected-frame)))
    (4 (switch-to-buffer "*scratch*")
       (run-hook-with-args 'window-buffer-change-functions (selected-frame)))
    (5 (gemini-companion-toggle-context))
    (_ (goto-char (1+ (random (1+ (buffer-size)))))
       (set-window-point nil (point))))
  (run-hooks 'post-command-hook))

(defun gemini-companion-scope-test--visit (directory)
  "Show one of a few files in DIRECTORY."
  (let ((file (gemini-companion-test-file (format "%s/%d" directory (random 4)))))
    (switch-to-buffer (or (get-file-buffer file)
                          (find-file-noselect (gemini-companion-test-write file "1\n2\n3\n"))))
    (run-hook-with-args 'window-buffer-change-functions (selected-frame))
    (gemini-companion-workspace-announce)))

(defun gemini-companion-scope-test--act-at-random (check)
  "Do what users do, at random, publish after each step, and call CHECK.
It is called with the places, and a function that returns what one was told."
  (gemini-companion-scope-test--with '("one" "other" "one/nested")
    (let* ((inhibit-message t)
           (seed (format "%s" (or (getenv "GEMINI_COMPANION_TEST_SEED") (random t))))
           (places (cons nil (mapcar #'gemini-companion-test-file
                                     '("one" "one/nested" "other" "diary"))))
           (gemini-companion-context-paused nil)
           (told nil))
      (random seed)
      (gemini-companion-test-with-told places told
        (gemini-companion-context-update)
        (ert-info ((format "GEMINI_COMPANION_TEST_SEED=%s" seed))
          (dotimes (_ 300)
            (gemini-companion-scope-test--act)
            (gemini-companion-context--publish)
            (funcall check places
                     (lambda (place) (alist-get place told nil nil #'equal)))))))))

(ert-deftest gemini-companion-scope/whatever-users-do-all-places-are-told ()
  (gemini-companion-scope-test--act-at-random
   (lambda (places told)
     (dolist (place places)
       (should (equal (funcall told place) (gemini-companion-context-gather place)))))))

(provide 'gemini-companion-scope-test)
;;; gemini-companion-scope-test.el ends here

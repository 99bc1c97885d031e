;;; gemini-companion-context-test.el --- Tests of the context  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-companion)

(defun gemini-companion-context-test--open (name text)
  "Show the file NAME with TEXT in the selected window."
  (switch-to-buffer (find-file-noselect (gemini-companion-test-file name text)))
  (gemini-companion-context--record-focus)
  (current-buffer))

(defun gemini-companion-context-test--names ()
  "Return the names of the files that would be published."
  (mapcar (lambda (file) (file-name-nondirectory (aref file 0)))
          (gemini-companion-context-gather)))

(defmacro gemini-companion-context-test--following (&rest body)
  "Evaluate BODY in a new project while files are kept track of."
  (declare (indent 0) (debug t))
  `(gemini-companion-test-with-project
     (let ((gemini-companion-share-outside-workspace t)
           (gemini-companion-context-change-hook (list #'ignore))
           (gemini-companion-workspace-known nil))
       (gemini-companion-context-start)
       (unwind-protect (progn ,@body)
         (gemini-companion-context-stop)))))

(ert-deftest gemini-companion-context/the-file-focused-last-comes-first ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" "")
    (gemini-companion-context-test--open "b" "")
    (gemini-companion-context-test--open "c" "")
    (should (equal (gemini-companion-context-test--names) '("c" "b" "a")))
    (switch-to-buffer "a")
    (should (equal (gemini-companion-context-test--names) '("a" "c" "b")))
    (should (equal (mapcar (lambda (file) (aref file 2)) (gemini-companion-context-gather))
                   '(t nil nil)))))

(ert-deftest gemini-companion-context/timestamps-are-milliseconds-of-the-last-focus ()
  (gemini-companion-context-test--following
    (let ((before (floor (* 1000 (float-time)))))
      (gemini-companion-context-test--open "a" "")
      (let ((stamp (aref (car (gemini-companion-context-gather)) 1)))
        (should (<= before stamp (floor (* 1000 (float-time)))))))))

(ert-deftest gemini-companion-context/a-revert-or-another-major-mode-changes-nothing ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" "x\n")
    (gemini-companion-context-test--open "b" "y\n")
    (let ((told (gemini-companion-context-gather)))
      (should (> (aref (car told) 1) 0))
      (dolist (buffer '("a" "b"))
        (with-current-buffer buffer
          (revert-buffer t t)
          (should (equal (gemini-companion-context-gather) told))
          (text-mode)
          (should (equal (gemini-companion-context-gather) told)))))
    (with-current-buffer "a"
      (setq gemini-companion-private t)
      (text-mode))
    (should (equal (gemini-companion-context-test--names) '("b")))))

(ert-deftest gemini-companion-context/the-last-file-stays-active-while-the-user-is-elsewhere ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" "x\ny\n")
    (goto-char (point-max))
    (switch-to-buffer (generate-new-buffer "terminal"))
    (let ((file (car (gemini-companion-context-gather))))
      (should (aref file 2))
      (should (equal (aref file 3) 3)))
    (kill-buffer "a")
    (gemini-companion-context-test--open "b" "")
    (kill-buffer "b")
    (should-not (gemini-companion-context-gather))))

(ert-deftest gemini-companion-context/a-buffer-killed-without-its-hook-is-forgotten ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" "")
    (let ((buffer (gemini-companion-context-test--open "b" "")))
      (let ((kill-buffer-hook nil))
        (kill-buffer buffer))
      (should-not (buffer-live-p buffer))
      (should (equal (gemini-companion-context-test--names) '("a"))))))

(ert-deftest gemini-companion-context/only-local-files-that-exist-are-listed ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "kept" "")
    (gemini-companion-context-test--open "deleted" "")
    (delete-file (gemini-companion-test-file "deleted"))
    (switch-to-buffer (find-file-noselect (gemini-companion-test-file "never-saved")))
    (with-current-buffer (generate-new-buffer "remote")
      (setq buffer-file-name "/ssh:nowhere.invalid:/file")
      (setq buffer-file-name nil))
    (should (equal (gemini-companion-context-test--names) '("kept")))))

(ert-deftest gemini-companion-context/at-most-ten-files-are-listed ()
  (gemini-companion-context-test--following
    (dotimes (n 12)
      (gemini-companion-context-test--open (number-to-string n) ""))
    (should (equal (gemini-companion-context-test--names)
                   '("11" "10" "9" "8" "7" "6" "5" "4" "3" "2")))))

;; This runs at nearly each key.
(ert-deftest gemini-companion-context/names-are-found-only-for-files-that-are-listed ()
  (gemini-companion-context-test--following
    (dotimes (n 30)
      (gemini-companion-context-test--open (number-to-string n) ""))
    (let ((asked nil)
          (gemini-companion-context--lifetime 1000))
      (gemini-companion-context-gather) ; judge whether they are private
      (cl-letf* ((truename (symbol-function 'gemini-companion-file-truename))
                 ((symbol-function 'gemini-companion-file-truename)
                  (lambda (buffer)
                    (push buffer asked)
                    (funcall truename buffer)))
                 ((symbol-function 'file-truename)
                  (lambda (name &rest _) (ert-fail (list "no root is trusted" name)))))
        (should (= (length (gemini-companion-context-gather)) 10))
        (should-not (gemini-companion-context-trusted-p default-directory)))
      (should (= (length asked) 10)))))

(ert-deftest gemini-companion-context/the-active-region-is-the-selection ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" "one two three")
    (let ((transient-mark-mode t)
          (selection (lambda () (aref (car (gemini-companion-context-gather)) 5))))
      (should-not (funcall selection))
      (goto-char 5)
      (push-mark 8 t t)
      (should (equal (funcall selection) "two"))
      (goto-char 8)
      (push-mark 5 t t)
      (should (equal (funcall selection) "two"))
      (goto-char 5)
      (should-not (funcall selection))
      (deactivate-mark)
      (goto-char 1)
      (should-not (funcall selection)))))

(ert-deftest gemini-companion-context/the-user-s-state-is-left-alone ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" "one\ntwo é three\n")
    (goto-char 8)
    (push-mark 2 t t)
    (string-match "b\\(c\\)" "abcd")
    (let ((before (list (point) (mark) mark-active (match-data) (current-buffer)
                        (selected-window) buffer-undo-list kill-ring)))
      (gemini-companion-context-gather)
      (should (equal before (list (point) (mark) mark-active (match-data) (current-buffer)
                                  (selected-window) buffer-undo-list kill-ring))))))

(ert-deftest gemini-companion-context/a-new-client-gets-it-at-once ()
  (gemini-companion-test-with-client client
    (let ((file (car (fake-cli-open-files
                      (fake-cli-wait-notification client "ide/contextUpdate")))))
      (should (equal (alist-get 'path file) (gemini-companion-test-file "a.txt")))
      (should (eq (alist-get 'isActive file) t))
      (should (equal (alist-get 'cursor file) '((line . 1) (character . 1)))))))

(ert-deftest gemini-companion-context/changes-reach-the-client-and-equal-ones-do-not ()
  (gemini-companion-test-with-client client
    (fake-cli-wait-notification client "ide/contextUpdate")
    (goto-char (point-max))
    (run-hooks 'post-command-hook)
    (let ((line (lambda (params)
                  (alist-get 'line (alist-get 'cursor (car (fake-cli-open-files params)))))))
      (fake-cli-wait-notification client "ide/contextUpdate"
                                  (lambda (params) (eql (funcall line params) 3)))
      (let ((heard (length (fake-cli-notifications client))))
        (gemini-companion-context--publish)
        ;; The server answers this after it would have sent that.
        (fake-cli-request client "ping")
        (should (= (length (fake-cli-notifications client)) heard))))))

(defun gemini-companion-context-test--due-p ()
  "Return non-nil if a timer is to publish the context."
  (gemini-companion-test-timers #'gemini-companion-context--publish-unless-changed))

(ert-deftest gemini-companion-context/keys-in-a-row-are-told-at-once ()
  (let ((gemini-companion-context-change-hook (list #'ignore))
        (published 0))
    (cl-letf (((symbol-function 'gemini-companion-context--publish)
               (lambda () (setq published (1+ published)))))
      (dotimes (_ 5)
        (gemini-companion-context--publish-soon))
      (should (= published 0))
      (gemini-companion-test-wait "it to be published" (lambda () (= published 1)))
      (should-not (gemini-companion-context-test--due-p))
      (gemini-companion-context--publish-soon)
      (gemini-companion-test-wait "it to be published again" (lambda () (= published 2))))))

(ert-deftest gemini-companion-context/nothing-is-gathered-without-a-client ()
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (run-hooks 'post-command-hook)
    (should-not (gemini-companion-context-test--due-p)))
  (gemini-companion-test-with-client client
    (fake-cli-wait-notification client "ide/contextUpdate")
    (run-hooks 'post-command-hook)
    (should (gemini-companion-context-test--due-p))
    (fake-cli-terminate client)
    (gemini-companion-test-wait "the client to be gone"
                                (lambda () (zerop gemini-companion-bridge-clients)))
    (gemini-companion-test-wait "the timer" (lambda () (not (gemini-companion-context-test--due-p))))
    (run-hooks 'post-command-hook)
    (should-not (gemini-companion-context-test--due-p))))

(ert-deftest gemini-companion-context/files-looked-at-before-are-recalled ()
  "Those that were never shown come last, and none of them is active."
  (gemini-companion-test-with-project
    (let ((gemini-companion-share-outside-workspace t)
          (gemini-companion-context-change-hook (list #'ignore)))
      (find-file-noselect (gemini-companion-test-file "background" ""))
      (switch-to-buffer (find-file-noselect (gemini-companion-test-file "first" "")))
      (switch-to-buffer (find-file-noselect (gemini-companion-test-file "last" "x\ny\n")))
      (goto-char (point-max))
      (switch-to-buffer (generate-new-buffer "terminal"))
      (gemini-companion-context-start)
      (unwind-protect
          (let ((files (gemini-companion-context-gather)))
            (should (equal (gemini-companion-context-test--names)
                           '("last" "first" "background")))
            (should (equal (mapcar (lambda (file) (aref file 2)) files) '(t nil nil)))
            (should (equal (aref (car files) 3) 3)))
        (gemini-companion-context-stop)))))

(ert-deftest gemini-companion-context/of-two-windows-the-last-one-counts ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" "1\n2\n3\n")
    (delete-other-windows)
    (let ((above (selected-window))
          (below (split-window)))
      (set-window-point above 1)
      (set-window-point below 5)
      (select-window below)
      (gemini-companion-context--record-focus)
      (should (= (aref (car (gemini-companion-context-gather)) 3) 3))
      (select-window above)
      (gemini-companion-context--record-focus)
      (let ((elsewhere (split-window)))
        (set-window-buffer elsewhere (generate-new-buffer "terminal"))
        (select-window elsewhere)
        (should (= (aref (car (gemini-companion-context-gather)) 3) 1))))))

(ert-deftest gemini-companion-context/an-indirect-buffer-counts-as-its-base ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" "1\n2\n3\n")
    (gemini-companion-context-test--open "b" "")
    (switch-to-buffer (make-indirect-buffer "a" "a<indirect>" t))
    (goto-char 3)
    (gemini-companion-context--record-focus)
    (let ((file (car (gemini-companion-context-gather))))
      (should (equal (file-name-nondirectory (aref file 0)) "a"))
      (should (aref file 2))
      (should (= (aref file 3) 2)))))

(ert-deftest gemini-companion-context/renames-are-followed ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" "")
    (rename-file (gemini-companion-test-file "a") (gemini-companion-test-file "b"))
    (should-not (gemini-companion-context-test--names))
    (let ((inhibit-message t))
      (set-visited-file-name (gemini-companion-test-file "b") t t))
    (should (equal (gemini-companion-context-test--names) '("b")))
    (with-current-buffer (generate-new-buffer "new")
      (insert "x")
      (let ((inhibit-message t) (create-lockfiles nil))
        (write-file (gemini-companion-test-file "new"))))
    (should (equal (gemini-companion-context-test--names) '("b" "new")))))

(ert-deftest gemini-companion-context/private-files-are-withheld ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" "")
    (gemini-companion-context-test--open ".env" "SECRET=1\n")
    (push-mark (point-max) t t)
    (should (equal (gemini-companion-context-test--names) '("a")))
    (should-not (aref (car (gemini-companion-context-gather)) 2))
    (should (equal (mapcar (lambda (it) (file-name-nondirectory (car it)))
                           (gemini-companion-context-withheld))
                   '(".env")))))

(ert-deftest gemini-companion-context/selections-can-be-withheld ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" "one two")
    (push-mark 4 t t)
    (let ((transient-mark-mode t))
      (should (equal (aref (car (gemini-companion-context-gather)) 5) "one"))
      (let ((gemini-companion-share-selection nil))
        (should-not (aref (car (gemini-companion-context-gather)) 5))))))

(ert-deftest gemini-companion-context/a-verdict-holds-for-a-moment-and-for-one-name ()
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (let ((gemini-companion-context--lifetime 1000))
      (with-current-buffer (find-file-noselect (gemini-companion-test-file "a" "x\n"))
        (should-not (gemini-companion-context--private-reason (current-buffer)))
        (let ((gemini-companion-private-files '("*")))
          (should-not (gemini-companion-context--private-reason (current-buffer)))
          (let ((inhibit-message t))
            (set-visited-file-name (gemini-companion-test-file "b") t t))
          (should (gemini-companion-context--private-reason (current-buffer))))
        (gemini-companion-context--forget-private)
        (should-not (gemini-companion-context--private-reason (current-buffer)))
        (setq gemini-companion-private t)
        (should (gemini-companion-context--private-reason (current-buffer)))
        (set-buffer-modified-p nil)))))

(ert-deftest gemini-companion-context/a-slow-disk-is-not-asked-each-second ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" "")
    (let* ((now 1000.0)
           (slowness 0.001)
           (asked-after (lambda (seconds)
                          (cl-incf now seconds)
                          (let ((before now))
                            (gemini-companion-context-gather)
                            (/= now before)))))
      (cl-letf (((symbol-function 'float-time) (lambda (&rest _) now))
                ((symbol-function 'gemini-companion-private-reason)
                 (lambda () (ignore (cl-incf now slowness)))))
        (funcall asked-after 0)
        (should-not (funcall asked-after 0.5))
        (setq slowness 0.5)
        (should (funcall asked-after 1))
        (should-not (funcall asked-after 40))
        (setq slowness 30)              ; it did not answer for a while
        (should (funcall asked-after 20))
        (should-not (funcall asked-after 500))
        (should (funcall asked-after 110))))))

(ert-deftest gemini-companion-context/while-paused-clients-know-of-no-file ()
  (gemini-companion-test-with-client client
    (fake-cli-wait-notification client "ide/contextUpdate")
    (let ((inhibit-message t)
          (files (lambda () (fake-cli-open-files
                             (alist-get 'params (car (fake-cli-notifications client)))))))
      (should (funcall files))
      (unwind-protect
          (progn
            (gemini-companion-toggle-context)
            (should (string-search "paused" (gemini-companion--lighter)))
            (gemini-companion-test-wait "to hear of no file"
                                        (lambda ()
                                          (fake-cli-request client "ping")
                                          (null (funcall files)))))
        (gemini-companion-toggle-context))
      (should-not (string-search "paused" (gemini-companion--lighter)))
      (gemini-companion-test-wait "to hear of the file again"
                                  (lambda ()
                                    (fake-cli-request client "ping")
                                    (funcall files))))))

(ert-deftest gemini-companion-context/with-the-mode-off-nobody-is-said-to-see-files ()
  (gemini-companion-test-with-answer nil
    (gemini-companion-toggle-context)
    (gemini-companion-toggle-context)
    (should (equal gemini-companion-test-messages
                   (mapcar #'format-message
                           '("Context resumed, but `gemini-companion-mode' is off: no client sees anything"
                             "Context paused, but `gemini-companion-mode' is off: no client sees \
anything"))))))

(ert-deftest gemini-companion-context/what-clients-are-told-can-be-seen ()
  (gemini-companion-test-with-client client
    (fake-cli-wait-notification client "ide/contextUpdate")
    (find-file-noselect (gemini-companion-test-file "key.pem" "x"))
    (gemini-companion-show-context)
    (should (equal (buffer-name (window-buffer)) "*gemini context*"))
    (should (= 1 (window-point)))
    (other-window 1)
    (let ((shown (lambda ()
                   (with-current-buffer "*gemini context*" (buffer-string)))))
      (should (string-match-p "\n.*, process [0-9]+, whose directory is unknown: told about \
all projects\n" (funcall shown)))
      (should (string-search "a.txt, active, at line 1, character 1" (funcall shown)))
      (should (string-search "key.pem: named by" (funcall shown)))
      (goto-char (point-max))
      (run-hooks 'post-command-hook)
      (gemini-companion-test-wait
       "what changed to be shown"
       (lambda () (string-search "a.txt, active, at line 3" (funcall shown))))
      ;; While nobody sees it, nothing is done for it.
      (let ((before (funcall shown)))
        (delete-windows-on "*gemini context*")
        (goto-char (point-min))
        (gemini-companion-context-update)
        (should (equal (funcall shown) before))
        (display-buffer "*gemini context*")
        (run-hook-with-args 'window-buffer-change-functions (selected-frame))
        (gemini-companion-test-wait
         "it to be shown again"
         (lambda () (string-search "a.txt, active, at line 1" (funcall shown)))))
      (with-current-buffer "*gemini context*"
        (goto-char (point-min))
        (search-forward "The message\n")
        (let ((message (gemini-companion-test-json-decode
                        ;; The tools come after it, if they are loaded.
                        (buffer-substring-no-properties
                         (point) (or (search-forward "\n\n" nil t) (point-max))))))
          (gemini-companion-test-wait
           "the client to be told what is shown"
           (lambda ()
             (fake-cli-request client "ping")
             (equal message (alist-get 'params (car (fake-cli-notifications client)))))))
        (kill-buffer))
      (should-not gemini-companion-context-change-hook))))

;;;; Trust

(ert-deftest gemini-companion-context/only-roots-of-the-option-are-trusted ()
  (gemini-companion-test-with-project
    (let* ((root (gemini-companion-test-file "root/"))
           (inside (gemini-companion-test-file "root/inside"))
           (beside (gemini-companion-test-file "root2"))
           (link (gemini-companion-test-file "link"))
           (trusted (lambda (&rest directories)
                      (mapcar #'gemini-companion-context-trusted-p directories))))
      (make-directory inside t)
      (make-directory beside)
      (make-symbolic-link root link)
      (should (equal (funcall trusted root inside nil) '(nil nil nil)))
      (let ((gemini-companion-trusted-roots (list (directory-file-name root) "/mock:a:/p/")))
        (should (equal (funcall trusted root inside link beside nil "/mock:a:/p" "/mock:b:/p" "/p")
                       '(t t t nil nil t nil nil))))
      (let ((gemini-companion-trusted-roots root))
        (should (equal (funcall trusted inside beside) '(t nil)))))))

;;; gemini-companion-context-test.el ends here

;;; gemini-companion-review-buffer-header-test.el --- Tests of the header line of a review  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-review-list)
(require 'gemini-companion-test-companion)

(defun gemini-companion-review-buffer-header-test--lines (review width)
  "Return the header line of the proposal of REVIEW in a window of WIDTH columns."
  (with-current-buffer (gemini-companion-review-proposal review)
    (cl-letf (((symbol-function 'window-width) (lambda (&rest _) width)))
      (substring-no-properties (gemini-companion-review-buffer--header-line)))))

(ert-deftest gemini-companion-review-buffer-header/a-narrow-window-shows-the-most-important ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-file "lib/deep/module.py" "one\n")
    (let ((review (gemini-companion-test-propose client "lib/deep/module.py" "two")))
      (gemini-companion-review-show review 'keep)
      (pcase-dolist
          (`(,width . ,line)
           '((140 . " No newline at the end  Proposed text  lib/deep/module.py  +1 -1  C-c C-c accepts\
  C-c C-k rejects")
             (100 . " No newline at the end  Proposed text  lib/deep/module.py  +1 -1  C-c C-c accepts\
  C-c C-k rejects")
             (80 . " No newline at the end  …deep/module.py  +1 -1  C-c C-c accepts\
  C-c C-k rejects")
             (74 . " No newline at the end  …/deep/module.py  C-c C-c accepts  C-c C-k rejects")
             (66 . " No newline at the end  …module.py  C-c C-c accepts  C-c C-k rejects")))
        (ert-info ((format "%d columns" width))
          (should (equal (gemini-companion-review-buffer-header-test--lines review width) line)))))))

(ert-deftest gemini-companion-review-buffer-header/files-of-two-worktrees-have-different-names ()
  (gemini-companion-test-with-client client
    (make-directory (gemini-companion-test-file "tree/.git") t)
    (find-file-noselect (gemini-companion-test-file "tree/a.txt" "one\n"))
    (gemini-companion-test-wait
     "the worktree" (lambda ()
                      (equal (gemini-companion-test-file "tree/")
                             (cdr (gemini-companion-workspace-innermost
                                   (gemini-companion-test-file "tree/a.txt"))))))
    (let ((line (lambda (review)
                  (gemini-companion-review-show review 'keep)
                  (gemini-companion-review-buffer-header-test--lines review 140)))
          (review (gemini-companion-test-propose client "a.txt" "two\n"))
          (root (file-name-nondirectory (directory-file-name gemini-companion-test-project))))
      (should (string-search "  a.txt  " (funcall line review)))
      (let ((other (gemini-companion-test-propose client "tree/a.txt" "two\n")))
        (should (string-search "  tree/a.txt  " (funcall line other)))
        (should (string-search (format "  %s/a.txt  " root) (funcall line review)))))))

;; The user took a change of top.py in the one project for one of top.py in the other.
(ert-deftest gemini-companion-review-buffer-header/with-clis-in-two-projects-it-names-the-project ()
  (gemini-companion-test-with-client client
    (let* ((review (gemini-companion-test-propose client "a.txt" "two\n"))
           (root (file-name-nondirectory (directory-file-name gemini-companion-test-project)))
           (gemini-companion-workspace-roots (list (gemini-companion-test-file "tree/")))
           (places (list nil gemini-companion-test-project "/srv/unknown"))
           (line (lambda ()
                   (gemini-companion-review-buffer-header-test--lines review 140))))
      (cl-letf (((symbol-function 'gemini-companion-bridge-places) (lambda () places)))
        (gemini-companion-review-show review 'keep)
        (gemini-companion-workspace-roots)
        (should (string-search "  a.txt  " (funcall line)))
        (should (equal (gemini-companion-review-effect-describe review) "a change to a.txt, +0 -1"))
        (push (gemini-companion-test-file "tree") places)
        (should (string-search (format "  %s/a.txt  " root) (funcall line)))
        (should (equal (gemini-companion-review-effect-describe review)
                       (format "a change to %s/a.txt, +0 -1" root)))))))

(ert-deftest gemini-companion-review-buffer-header/in-a-narrow-window-the-project-stays ()
  (gemini-companion-test-with-client client
    (let* ((gemini-companion-workspace-roots (list (gemini-companion-test-file "tree/")))
           (file "tree/lib/deep/module.py")
           (review (progn (gemini-companion-test-file file "one\n")
                          (gemini-companion-test-propose client "a.txt" "two\n")
                          (gemini-companion-workspace-roots)
                          (gemini-companion-test-propose client file "two\n"))))
      (gemini-companion-review-show review 'keep)
      (pcase-dolist
          (`(,width . ,line)
           '((80 . " 2 of 2  tree/lib/deep/module.py  +1 -1  C-c C-c accepts  C-c C-k rejects")
             (72 . " 2 of 2  tree/…b/deep/module.py  +1 -1  C-c C-c accepts  C-c C-k rejects")
             (58 . " tree/…/module.py  +1 -1  C-c C-c accepts  C-c C-k rejects")
             (50 . " tree/…module.py  C-c C-c accepts  C-c C-k rejects")
             (48 . " …ep/module.py  C-c C-c accepts  C-c C-k rejects")))
        (ert-info ((format "%d columns" width))
          (should (equal (gemini-companion-review-buffer-header-test--lines review width)
                         line)))))))

;; Some programs make the worktrees ~/w/1/app and ~/w/2/app.
(ert-deftest gemini-companion-review-buffer-header/projects-of-one-name-are-told-apart ()
  (gemini-companion-test-with-client client
    (let ((gemini-companion-workspace-roots
           (mapcar #'gemini-companion-test-file '("1/app/" "2/app/" "2/lib/" "2/lib/app/")))
          (names '(("1/app/a.txt" . "1/app") ("2/app/a.txt" . "2/app")
                   ("2/lib/app/a.txt" . "lib/app") ("2/lib/a.txt" . "lib"))))
      (gemini-companion-workspace-roots)
      (dolist (review (mapcar (lambda (each)
                                (gemini-companion-test-file (car each) "one\n")
                                (gemini-companion-test-propose client (car each) "two\n"))
                              names))
        (let* ((path (gemini-companion-review-path review))
               (project (alist-get (file-relative-name path gemini-companion-test-project)
                                   names nil nil #'equal))
               (name (concat project "/a.txt")))
          (gemini-companion-review-show review 'keep)
          (should (string-search (format "  %s  " name)
                                 (gemini-companion-review-buffer-header-test--lines review 140)))
          (should (equal (substring-no-properties
                          (gemini-companion-review-list-link path nil "shows it"))
                         name))
          (should (equal (gemini-companion-cli-run--title 'gemini (file-name-directory path))
                         (format "*gemini: %s*" project)))
          (should (equal (gemini-companion-cli-project
                          (gemini-companion-cli--make :directory (file-name-directory path)))
                         project)))))))

(ert-deftest gemini-companion-review-buffer-header/it-is-updated-after-edits ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-test-propose client "a.txt" "one\n2\n")))
      (gemini-companion-review-show review 'keep)
      (should (string-search "+1 -1" (gemini-companion-review-buffer-header-test--lines review 80)))
      (with-current-buffer (gemini-companion-review-proposal review)
        (goto-char (point-max))
        (insert "3\n4\n"))
      ;; Texts are compared after a pause, so the old sizes are shown for a moment.
      (should (string-search "+1 -1" (gemini-companion-review-buffer-header-test--lines review 80)))
      (gemini-companion-test-wait
       "the new size"
       (lambda ()
         (string-search "+3 -1" (gemini-companion-review-buffer-header-test--lines review 80)))))))

(ert-deftest gemini-companion-review-buffer-header/each-edit-has-it-drawn-again ()
  "Emacs itself draws only the text again, if nothing else has changed."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-test-propose client "a.txt" "one\n2\n"))
          (drawn nil))
      (gemini-companion-review-show review 'keep)
      (with-current-buffer (gemini-companion-review-proposal review)
        (dolist (mode '(fundamental-mode text-mode))
          (funcall mode)
          (cl-letf (((symbol-function 'force-mode-line-update)
                     (lambda (&rest _) (push (current-buffer) drawn))))
            (insert "3\n"))
          (should (memq (current-buffer) drawn))
          (setq drawn nil))))))

(ert-deftest gemini-companion-review-buffer-header/keys-are-buttons ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (gemini-companion-review-show review 'keep)
      (let* ((window (get-buffer-window (gemini-companion-review-proposal review)))
             (line (with-current-buffer (window-buffer window)
                     (gemini-companion-review-buffer--header-line)))
             (map (get-text-property (string-search "rejects" line) 'keymap line)))
        (funcall (lookup-key map [header-line mouse-1])
                 (list 'mouse-1 (list window 'header-line '(0 . 0) 0)))
        (should (equal (alist-get 'filePath
                                  (fake-cli-wait-notification client "ide/diffRejected"))
                       (gemini-companion-test-file "a.txt")))))))

(ert-deftest gemini-companion-review-buffer-header/a-click-leads-to-the-change-it-is-on ()
  "It selected the window, and then went on from there to the next change."
  (gemini-companion-test-with-client client
    (let ((gemini-companion-diff-function #'gemini-companion-review-inline-show)
          (review (gemini-companion-test-propose client "a.txt" "2\n")))
      (gemini-companion-test-propose client "b.txt" "2\n")
      (delete-other-windows)
      (select-window (split-window))
      (switch-to-buffer "*scratch*")
      (gemini-companion-review-show review 'keep)
      (cl-letf* (((symbol-function 'gemini-companion-ui-selected-buffer)
                  (lambda (&rest _) (window-buffer)))
                 ((symbol-function 'gemini-companion-ui-key-of) (lambda (&rest _) "n"))
                 (window (gemini-companion-review-visible-window review))
                 (line (with-current-buffer (window-buffer window)
                         (gemini-companion-review-buffer--header-line)))
                 (map (get-text-property (string-search "goes there" line) 'keymap line)))
        (funcall (lookup-key map [header-line mouse-1])
                 (list 'mouse-1 (list window 'header-line '(0 . 0) 0)))
        (should (eq (selected-window) window))
        (should (eq window (gemini-companion-review-visible-window review)))))))

(ert-deftest gemini-companion-review-buffer-header/percent-signs-in-file-names-are-literal ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-file "100%b.txt" "1\n")
    (let ((review (gemini-companion-test-propose client "100%b.txt" "2\n")))
      (gemini-companion-review-show review 'keep)
      (should (string-search "100%%b.txt" (gemini-companion-review-buffer-header-test--lines review 80))))))

(provide 'gemini-companion-review-buffer-header-test)
;;; gemini-companion-review-buffer-header-test.el ends here

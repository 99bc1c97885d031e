;;; gemini-companion-context-test.el --- Tests of the context  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-companion)

(defun gemini-companion-context-test--open (name text)
  "Show the file NAME with TEXT in the selected window."
  (switch-to-buffer (find-file-noselect (gemini-companion-test-file name text)))
  (gemini-companion-context--note-focus)
  (current-buffer))

(defun gemini-companion-context-test--names ()
  "Return the names of the files that would be published."
  (mapcar (lambda (file) (file-name-nondirectory (aref file 0)))
          (gemini-companion-context-gather)))

(defmacro gemini-companion-context-test--following (&rest body)
  "Evaluate BODY in a new project while files are kept track of."
  (declare (indent 0) (debug t))
  `(gemini-companion-test-with-project
     (gemini-companion-context-follow)
     (unwind-protect (progn ,@body)
       (gemini-companion-context-unfollow))))

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

(ert-deftest gemini-companion-context/without-the-active-buffer-no-file-is-active ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" "")
    (gemini-companion-context-test--open "b" "")
    (switch-to-buffer (generate-new-buffer "elsewhere"))
    (kill-buffer "b")
    (should (equal (gemini-companion-context-test--names) '("a")))
    (should-not (aref (car (gemini-companion-context-gather)) 2))))

(ert-deftest gemini-companion-context/only-local-files-that-exist-are-listed ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "kept" "")
    (gemini-companion-context-test--open "deleted" "")
    (delete-file (gemini-companion-test-file "deleted"))
    (switch-to-buffer (find-file-noselect (gemini-companion-test-file "never-saved")))
    (with-current-buffer (generate-new-buffer "remote")
      (setq buffer-file-name "/ssh:nowhere.invalid:/file")
      (gemini-companion-context--note-file)
      (setq buffer-file-name nil))
    (should (equal (gemini-companion-context-test--names) '("kept")))))

(ert-deftest gemini-companion-context/at-most-ten-files-are-listed ()
  (gemini-companion-context-test--following
    (dotimes (n 12)
      (gemini-companion-context-test--open (number-to-string n) ""))
    (should (equal (gemini-companion-context-test--names)
                   '("11" "10" "9" "8" "7" "6" "5" "4" "3" "2")))))

(ert-deftest gemini-companion-context/files-open-before-are-recalled ()
  (gemini-companion-test-with-project
    (find-file-noselect (gemini-companion-test-file "background" ""))
    (switch-to-buffer (find-file-noselect (gemini-companion-test-file "shown" "")))
    (gemini-companion-context-follow)
    (unwind-protect
        (should (equal (gemini-companion-context-test--names) '("shown" "background")))
      (gemini-companion-context-unfollow))))

(ert-deftest gemini-companion-context/lines-count-from-the-start-of-the-file ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" "1\n2\n3\n4\n")
    (goto-char (point-min))
    (forward-line 2)
    (narrow-to-region (point) (point-max))
    (should (equal (aref (car (gemini-companion-context-gather)) 3) 3))))

(ert-deftest gemini-companion-context/characters-count-in-utf-16-units ()
  "Against a count that shares nothing with the code: of UTF-16 code units by hand."
  (let ((alphabet [?a ?\t ?é ?漢 ?😀 ?\u0301 ?\n]))
    (random "characters-count-in-utf-16-units")
    (with-temp-buffer
      (dotimes (_ 200)
        (erase-buffer)
        (dotimes (_ (random 60)) (insert (aref alphabet (random (length alphabet)))))
        (let ((position (+ (point-min) (random (1+ (buffer-size))))) (expected 1) char)
          (goto-char position)
          (while (and (setq char (char-before)) (/= char ?\n))
            (setq expected (+ expected (if (> char #xffff) 2 1)))
            (backward-char))
          (narrow-to-region position (point-max))
          (should (equal (gemini-companion-context--character position) expected))
          (widen))))))

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

(ert-deftest gemini-companion-context/a-long-selection-is-cut ()
  (gemini-companion-context-test--following
    (gemini-companion-context-test--open "a" (make-string 50000 ?x))
    (let ((transient-mark-mode t))
      (goto-char (point-min))
      (push-mark (point-max) t t)
      (should (= (length (aref (car (gemini-companion-context-gather)) 5)) 16384)))))

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

(ert-deftest gemini-companion-context/nothing-watches-commands-without-a-client ()
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (should-not (memq #'gemini-companion-context--note-change post-command-hook))))

;;; gemini-companion-context-test.el ends here

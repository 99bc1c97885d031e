;;; gemini-companion-file-test.el --- Tests of replacing files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'cl-lib)
(require 'ert)
(require 'gemini-companion-file)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-file-test--with (&rest body)
  "Evaluate BODY with FILE, a new file with the text \"old\" and mode 640.
Afterwards check that nothing was left in its directory."
  (declare (indent 0) (debug t))
  `(gemini-companion-test-with-project
     (let ((file (gemini-companion-test-file "a.txt" "old\n")))
       (set-file-modes file #o640)
       ,@body
       (should (equal (seq-difference (directory-files gemini-companion-test-project)
                                      '("." ".." "a.txt" "b.txt"))
                      nil)))))

(defun gemini-companion-file-test--inode (file)
  "Return what tells FILE from a file that has replaced it."
  (file-attribute-inode-number (file-attributes file)))

(defun gemini-companion-file-test--full-disk (write)
  "Return a function that is like WRITE, but for which the disk is full.
WRITE has the arguments of `write-region'."
  (lambda (_start _end file &rest _)
    (funcall write "n" nil file nil 'quiet)
    (signal 'file-error (list "Writing to output file" "No space left on device" file))))

(ert-deftest gemini-companion-file/a-full-disk-loses-nothing ()
  (dolist (names '(1 2))
    (gemini-companion-file-test--with
      (when (= names 2)
        (add-name-to-file file (gemini-companion-test-file "b.txt")))
      (cl-letf (((symbol-function 'write-region)
                 (gemini-companion-file-test--full-disk (symbol-function 'write-region))))
        (should-error (gemini-companion-file-write file "new\n") :type 'file-error))
      (should (equal (gemini-companion-test-read file) "old\n"))
      (cl-letf (((symbol-function 'write-region)
                 (gemini-companion-file-test--full-disk (symbol-function 'write-region))))
        (should-error (gemini-companion-file-write
                       (gemini-companion-test-file "c.txt") "new\n")
                      :type 'file-error)))))

(ert-deftest gemini-companion-file/a-file-stays-the-file-that-it-is ()
  (gemini-companion-file-test--with
    (let ((inode (gemini-companion-file-test--inode file)))
      (gemini-companion-file-write file "new\n")
      (should (equal (gemini-companion-test-read file) "new\n"))
      ;; It was renamed.
      (should-not (equal (gemini-companion-file-test--inode file) inode))
      (should (= (file-modes file) #o640)))
    (let ((inode (gemini-companion-file-test--inode file))
          (other (gemini-companion-test-file "b.txt")))
      (add-name-to-file file other)
      (gemini-companion-file-write file "newer\n")
      (should (equal (gemini-companion-test-read other) "newer\n"))
      (should (equal (gemini-companion-file-test--inode file) inode))
      (should (= (file-modes file) #o640))
      (delete-file other)
      (make-symbolic-link "a.txt" other)
      (gemini-companion-file-write other "newest\n")
      (should (file-symlink-p other))
      (should (equal (gemini-companion-test-read file) "newest\n")))))

(ert-deftest gemini-companion-file/the-owner-stays ()
  (skip-unless (zerop (user-uid)))
  (dolist (attributes '(t nil))
    (gemini-companion-file-test--with
      (call-process "chown" nil nil nil "1:1" file)
      (let ((copy (symbol-function 'copy-file)))
        (cl-letf (((symbol-function 'copy-file)
                   ;; Others than root cannot give a file to somebody else.
                   (lambda (from to &rest more)
                     (apply copy from to (if attributes more (list t))))))
          (gemini-companion-file-write file "new\n")))
      (should (equal (gemini-companion-test-read file) "new\n"))
      (should (= 1 (file-attribute-user-id (file-attributes file))))
      (should (= 1 (file-attribute-group-id (file-attributes file))))
      (should (= (file-modes file) #o640)))))

(ert-deftest gemini-companion-file/where-modes-cannot-be-set-files-are-written ()
  (gemini-companion-file-test--with
    (let ((copy (symbol-function 'copy-file)))
      (cl-letf (((symbol-function 'set-file-modes)
                 (lambda (file &rest _)
                   (signal 'file-error (list "Doing chmod" "Operation not permitted" file))))
                ((symbol-function 'copy-file)
                 (lambda (from to &rest more)
                   (funcall copy from to (car more))
                   (when (length= more 4)
                     (signal 'file-error
                             (list "Copying permissions to" "Operation not permitted" to))))))
        (gemini-companion-file-write file "new\n")
        (gemini-companion-file-write (gemini-companion-test-file "b.txt") "newer\n")
        (gemini-companion-file-replace (gemini-companion-test-file "c.txt") "private\n" #o600)))
    (should (equal (gemini-companion-test-read file) "new\n"))
    ;; It could have had them.
    (should (= (file-modes file) #o640))
    (should (equal (gemini-companion-test-read (gemini-companion-test-file "b.txt")) "newer\n"))
    (should (= (file-modes (gemini-companion-test-file "c.txt")) #o600))
    (delete-file (gemini-companion-test-file "c.txt"))))

(ert-deftest gemini-companion-file/what-cannot-be-replaced-is-written ()
  "A file that is mounted by itself, or whose directory cannot be written."
  (dolist (mounted '(t nil))
    (gemini-companion-file-test--with
      (let ((inode (gemini-companion-file-test--inode file))
            (temporary-file-directory (gemini-companion-test-temp-directory))
            (rename (symbol-function 'rename-file))
            (writable (symbol-function 'file-writable-p)))
        (cl-letf (((symbol-function 'rename-file)
                   (lambda (from to &rest more)
                     (when (or mounted (file-equal-p (file-name-directory to)
                                                     gemini-companion-test-project))
                       (signal 'file-error (list "Renaming" "Device or resource busy" from to)))
                     (apply rename from to more)))
                  ((symbol-function 'file-writable-p)
                   (lambda (name)
                     (and (or mounted (not (file-directory-p name))) (funcall writable name)))))
          (gemini-companion-file-write file "new\n"))
        (should (equal (gemini-companion-test-read file) "new\n"))
        (should (equal (gemini-companion-file-test--inode file) inode))
        (should (directory-empty-p temporary-file-directory))
        (delete-directory temporary-file-directory)))))

(ert-deftest gemini-companion-file/what-was-written-over-gets-its-old-text-again ()
  "If even that fails, the user is told where the old text is."
  (dolist (lasting '(nil t))
    (gemini-companion-file-test--with
      (add-name-to-file file (gemini-companion-test-file "b.txt"))
      (let* ((temporary-file-directory (gemini-companion-test-temp-directory))
             (full t)
             (copy (symbol-function 'copy-file))
             (write (symbol-function 'write-region))
             (fill (lambda (to)
                     (when (and full (equal to file))
                       (funcall write "n" nil file nil 'quiet)
                       (setq full lasting)
                       (signal 'file-error (list "Writing" "No space left on device")))))
             (problem
              (cl-letf (((symbol-function 'copy-file)
                         (lambda (from to &rest more)
                           (funcall fill to)
                           (apply copy from to more)))
                        ((symbol-function 'write-region)
                         (lambda (start end to &rest more)
                           (funcall fill to)
                           (apply write start end to more))))
                (should-error (gemini-companion-file-write file "new\n"))))
             (kept (directory-files-recursively temporary-file-directory "")))
        (if (not lasting)
            (progn
              (should (equal (gemini-companion-test-read file) "old\n"))
              (should (directory-empty-p temporary-file-directory)))
          (should (= 1 (length kept)))
          (should (string-search (car kept) (error-message-string problem)))
          (should (equal (gemini-companion-test-read (car kept)) "old\n")))
        (delete-directory temporary-file-directory t)))))

(ert-deftest gemini-companion-file/nothing-changes-if-the-old-text-cannot-be-kept ()
  (gemini-companion-file-test--with
    (add-name-to-file file (gemini-companion-test-file "b.txt"))
    (let ((temporary-file-directory (gemini-companion-test-temp-directory))
          (copy (symbol-function 'copy-file)))
      (cl-letf (((symbol-function 'copy-file)
                 (lambda (from to &rest more)
                   (when (file-in-directory-p to temporary-file-directory)
                     (signal 'file-error (list "Copying" "No space left on device")))
                   (apply copy from to more))))
        (should-error (gemini-companion-file-write file "new\n") :type 'file-error))
      (should (equal (gemini-companion-test-read file) "old\n"))
      (should (directory-empty-p temporary-file-directory))
      (delete-directory temporary-file-directory))))

(ert-deftest gemini-companion-file/no-other-user-reads-what-is-kept-elsewhere ()
  "A copy may have the modes of the file, which may be in a private directory."
  (gemini-companion-file-test--with
    (set-file-modes file #o644)
    (let ((temporary-file-directory (gemini-companion-test-temp-directory))
          (writable (symbol-function 'file-writable-p))
          (copy (symbol-function 'copy-file))
          (write (symbol-function 'write-region))
          (elsewhere nil))
      (set-file-modes temporary-file-directory #o1777)
      (cl-letf* ((note (lambda (name)
                         (when (and (file-in-directory-p name temporary-file-directory)
                                    (string-search "a.txt" name))
                           (push (file-modes (file-name-directory name)) elsewhere))))
                 ((symbol-function 'file-writable-p)
                  (lambda (name) (and (not (file-directory-p name)) (funcall writable name))))
                 ((symbol-function 'copy-file)
                  (lambda (from to &rest more)
                    (funcall note to)
                    (apply copy from to more)))
                 ((symbol-function 'write-region)
                  (lambda (start end to &rest more)
                    (unless (equal to file) (funcall note to))
                    (apply write start end to more))))
        (gemini-companion-file-write file "new\n"))
      (should (equal (gemini-companion-test-read file) "new\n"))
      (should (equal elsewhere '(#o700)))
      (should (= (file-modes file) #o644))
      (delete-directory temporary-file-directory))))

(ert-deftest gemini-companion-file/nothing-is-asked-about-a-buffer-with-edits-of-another-text ()
  "Its lock stays, too."
  (gemini-companion-file-test--with
    (add-name-to-file file (gemini-companion-test-file "b.txt"))
    (let* ((create-lockfiles t)
           (buffer (find-file-noselect file)))
      (unwind-protect
          (with-current-buffer buffer
            (insert "edited ")
            (should (eq t (file-locked-p file)))
            (set-visited-file-modtime 0) ; as if it had been written meanwhile
            (with-temp-buffer
              (gemini-companion-file-write file "new\n"))
            (should (eq t (file-locked-p file)))
            (should (equal (gemini-companion-test-read file) "new\n")))
        (with-current-buffer buffer
          (set-buffer-modified-p nil)
          (kill-buffer))))))

(ert-deftest gemini-companion-file/what-may-not-be-written-is-not-replaced ()
  (gemini-companion-file-test--with
    (let ((writable (symbol-function 'file-writable-p)))
      (cl-letf (((symbol-function 'file-writable-p)
                 (lambda (name) (and (not (equal name file)) (funcall writable name)))))
        (should-error (gemini-companion-file-write file "new\n") :type 'file-error)))
    (should (equal (gemini-companion-test-read file) "old\n"))))

(ert-deftest gemini-companion-file/names-may-be-long ()
  (gemini-companion-test-with-project
    (let ((file (gemini-companion-test-file (make-string 250 ?x) "old\n")))
      (gemini-companion-file-write file "new\n")
      (should (equal (gemini-companion-test-read file) "new\n")))))

;;;; Files on hosts

(ert-deftest gemini-companion-file/a-name-from-a-host-removes-no-handlers ()
  "Tramp's handler for archives would, in Emacs 28, if the name is like that of one."
  (require 'tramp)
  (require 'tramp-cache)
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (let ((handlers (copy-tree file-name-handler-alist))
          (file "/ssh:nowhere:/home/dev/proj/app.zip/readme.txt"))
      (gemini-companion-file-note file "text" "1" nil)
      (gemini-companion-file-note file "other" "2" nil)
      (should (equal file-name-handler-alist handlers))
      (gemini-companion-file-forget-all))))

;;; gemini-companion-file-test.el ends here

;;; gemini-companion-cli-image-test.el --- Tests of images in prompts  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-image)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-cli-image-test--with (&rest body)
  "Evaluate BODY in a buffer for a prompt to a CLI, which is the program cat.
Gemini CLI has its files in the directory home."
  (declare (indent 0) (debug t))
  `(gemini-companion-test-with-project
     (let ((gemini-companion-program "cat")
           (gemini-companion-terminal 'term)
           (process-environment (cons (concat "GEMINI_CLI_HOME=" default-directory "home")
                                      process-environment)))
       (gemini-companion-mode 1)
       (save-window-excursion
         (gemini-companion-run)
         (gemini-companion-compose)
         (unwind-protect (progn ,@body)
           (pcase-dolist (`(,buffer . ,_) (gemini-companion-cli-run-terminals))
             (delete-process (get-buffer-process buffer))))))))

(defun gemini-companion-cli-image-test--yank (type data)
  "Yank DATA of TYPE as the user does it, if this Emacs can do that.
Return the file that the prompt then mentions."
  (erase-buffer)
  (if (not (fboundp 'yank-media))
      (gemini-companion-cli-image--yank type data)
    (cl-letf (((symbol-function 'image-type-available-p) #'always)
              ((symbol-function 'gui-get-selection)
               (lambda (_ what) (if (eq what 'TARGETS) (vector 'TIMESTAMP type) data))))
      (call-interactively 'yank-media)))
  (should (string-match "\\`@\\(.*\\) \\'" (buffer-string)))
  (match-string 1 (buffer-string)))

(ert-deftest gemini-companion-cli-image/a-yanked-image-is-a-private-file ()
  "It is gone when the CLI has ended."
  (gemini-companion-cli-image-test--with
    (let* ((data (unibyte-string 137 80 13 10 0 200))
           (one (gemini-companion-cli-image-test--yank 'image/png data))
           (other (gemini-companion-cli-image-test--yank 'image/jpeg "jpeg")))
      (should (equal (file-name-extension one) "png"))
      (should (equal (file-name-extension other) "jpeg"))
      (should (equal (gemini-companion-file-read one) data))
      (should (= (file-modes one) #o600))
      ;; The next one replaces none, though there are fewer.
      (delete-file one)
      (gemini-companion-cli-image-test--yank 'image/jpeg "new")
      (should (equal (gemini-companion-file-read other) "jpeg"))
      (should (= (file-modes (file-name-directory one)) #o700))
      (delete-process (get-buffer-process gemini-companion-cli-compose-terminal))
      (gemini-companion-test-wait "no directory"
                                  (lambda () (not (file-exists-p (file-name-directory one)))))
      (should-error (gemini-companion-cli-image--yank 'image/png data) :type 'user-error))))

(ert-deftest gemini-companion-cli-image/a-directory-that-was-deleted-is-made-again ()
  "As one of a CLI that has run for days."
  (gemini-companion-cli-image-test--with
    (let ((directory (file-name-directory
                      (gemini-companion-cli-image-test--yank 'image/jpeg "one"))))
      (delete-directory directory t)
      (let ((file (gemini-companion-cli-image-test--yank 'image/jpeg "two")))
        (should (equal (gemini-companion-file-read file) "two"))
        (delete-process (get-buffer-process gemini-companion-cli-compose-terminal))
        (gemini-companion-test-wait "no file" (lambda () (not (file-exists-p file))))))))

(ert-deftest gemini-companion-cli-image/it-is-where-the-cli-looks-for-images ()
  "Gemini CLI keeps a table of names for projects; others use a checksum."
  (dolist (kind '(table checksum))
    (gemini-companion-cli-image-test--with
      (let* ((root (directory-file-name (file-truename default-directory)))
             (name (if (eq kind 'table) "my-project" (secure-hash 'sha256 root)))
             (directory (expand-file-name (concat "home/.gemini/tmp/" name "/")
                                          gemini-companion-test-project)))
        (make-directory directory t)
        (when (eq kind 'table)
          (gemini-companion-test-file
           "home/.gemini/projects.json"
           (format "{\n  \"projects\": {\n    \"/other\": \"no\",\n    \"%s\": \"%s\"\n  }\n}\n"
                   root name)))
        (let ((file (gemini-companion-cli-image-test--yank 'image/png "x")))
          ;; The prompt names it from the project's directory.
          (should (string-prefix-p directory (expand-file-name file)))
          (gemini-companion-cli-image--delete-all)
          (should-not (directory-files directory nil "\\`emacs-")))))))

(ert-deftest gemini-companion-cli-image/a-dropped-file-is-mentioned ()
  "On the terminal, too."
  (gemini-companion-cli-image-test--with
    (gemini-companion-test-file "a b.txt" "x\n")
    (insert "See ")
    (let* ((url (concat "file://" gemini-companion-test-project "a%20b.txt"))
           ;; The function that handles a drop has another name in each Emacs.
           (drop (lambda () (funcall (alist-get url dnd-protocol-alist nil nil
                                                (lambda (regexp url) (string-match-p regexp url)))
                                     url 'copy)))
           (sent nil))
      (funcall drop)
      (should (equal (buffer-string) "See @a\\ b.txt "))
      (cl-letf (((symbol-function 'gemini-companion-cli-send-text)
                 (lambda (&rest text) (setq sent text))))
        (with-current-buffer gemini-companion-cli-compose-terminal
          (funcall drop)
          (should (equal sent (list "@a\\ b.txt " nil (current-buffer)))))))
    (should-not (get-file-buffer "a b.txt"))))

(ert-deftest gemini-companion-cli-image/the-minibuffer-takes-images-too ()
  (gemini-companion-cli-image-test--with
    (gemini-companion-cli-note-ready gemini-companion-cli-compose-terminal)
    (cl-letf (((symbol-function 'read-string)
               (lambda (&rest _)
                 (with-temp-buffer
                   (run-hooks 'minibuffer-setup-hook)
                   (gemini-companion-cli-image-test--yank 'image/png "x")))))
      (should (equal (gemini-companion-file-read
                      (gemini-companion-cli-send-read-prompt gemini-companion-cli-compose-terminal))
                     "x")))))

(ert-deftest gemini-companion-cli-image/an-image-at-point-is-a-private-file ()
  "In a buffer that visits no file; without one, nothing is sent."
  (gemini-companion-cli-image-test--with
    (let ((data (unibyte-string 137 80 78 71 13 10 26 10 0 200))
          (directory default-directory)
          (sent nil))
      (cl-letf (((symbol-function 'gemini-companion-cli-send-text)
                 (lambda (text &rest _) (setq sent text))))
        (with-temp-buffer
          (setq default-directory directory)
          (insert "x")
          (goto-char (point-min))
          (should-error (gemini-companion-send-file) :type 'user-error)
          (put-text-property 1 2 'display `(image :type imagemagick :data ,data))
          (gemini-companion-send-file)
          (should (string-match "\\`@\\(.*\\.png\\) \\'" sent))
          (should (equal (gemini-companion-file-read (match-string 1 sent)) data))
          (put-text-property 1 2 'display '(image :type svg :data "<svg>é</svg>"))
          (gemini-companion-send-file)
          (should (string-match "\\`@\\(.*\\.svg\\) \\'" sent)))))))

(ert-deftest gemini-companion-cli-image/a-cli-on-a-host-gets-none ()
  (gemini-companion-cli-image-test--with
    (with-current-buffer gemini-companion-cli-compose-terminal
      (setq gemini-companion-cli-run-root "/ssh:nowhere.invalid:/"))
    (should-error (gemini-companion-cli-image--yank 'image/png "x") :type 'user-error)))

(provide 'gemini-companion-cli-image-test)
;;; gemini-companion-cli-image-test.el ends here

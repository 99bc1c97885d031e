;;; gemini-companion-manual-test.el --- The manual documents everything  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-companion)

(declare-function widget-convert "wid-edit" (type &rest args))

(defun gemini-companion-manual-test--public ()
  "Return the names of all public commands and options."
  (dolist (file (directory-files (gemini-companion-test-path "lisp") t
                                 "\\`gemini-companion.*\\.el\\'"))
    (unless (assoc file load-history)
      (load file nil t t)))
  (let ((names nil))
    (mapatoms (lambda (symbol)
                (let ((name (symbol-name symbol)))
                  (when (and (string-prefix-p "gemini-companion-" name)
                             (not (string-match-p "--\\|-test\\|-mode\\'" name))
                             (or (commandp symbol) (custom-variable-p symbol)))
                    (push name names)))))
    names))

(ert-deftest gemini-companion-manual/it-documents-every-command-and-option ()
  (let ((manual (gemini-companion-test-read
                 (gemini-companion-test-path "docs" "gemini-companion.texi")))
        (names (gemini-companion-manual-test--public)))
    (should (> (length names) 50))
    (should-not (seq-remove (lambda (name)
                              (string-match-p
                               (concat "^@\\(?:findex\\|vindex\\|item\\) " name "$") manual))
                            names))))

(ert-deftest gemini-companion-manual/everything-documented-exists ()
  (gemini-companion-manual-test--public)
  (with-temp-buffer
    (insert-file-contents (gemini-companion-test-path "docs" "gemini-companion.texi"))
    (setq case-fold-search nil)
    (while (re-search-forward "gemini-companion-[a-z-]+" nil t)
      (let ((name (match-string 0)))
        (unless (member name '("gemini-companion-doctor-batch" "gemini-companion-module"))
          (ert-info (name)
            (let ((symbol (intern name)))
              (should (or (fboundp symbol) (boundp symbol) (facep symbol) (featurep symbol))))))))))

(defun gemini-companion-manual-test--own-p (symbol)
  "Return non-nil if SYMBOL is public, and not of a test."
  (and (string-prefix-p "gemini-companion-" (symbol-name symbol))
       (not (string-match-p "--\\|-test" (symbol-name symbol)))))

(defun gemini-companion-manual-test--groups ()
  "Return what \\[customize-group] shows in a new Emacs, by group.
Only the core was loaded, and Customize loads the rest."
  (with-temp-buffer
    (call-process
     (expand-file-name invocation-name invocation-directory) nil '(t nil) nil
     "-Q" "--batch" "-L" (gemini-companion-test-path "lisp") "--eval"
     (prin1-to-string '(progn (require 'gemini-companion)
                              (require 'cus-edit)
                              (custom-load-symbol 'gemini-companion)
                              (prin1 (mapcar (pcase-lambda (`(,group ,type))
                                               (custom-load-symbol group)
                                               (cons (list group type)
                                                     (mapcar #'car (get group 'custom-group))))
                                             (get 'gemini-companion 'custom-group))))))
    (goto-char (point-min))
    (read (current-buffer))))

(ert-deftest gemini-companion-manual/customize-shows-each-option-and-face-in-one-group ()
  (gemini-companion-manual-test--public)
  (let* ((groups (gemini-companion-manual-test--groups))
         (shown (apply #'append (mapcar #'cdr groups))))
    (should (> (length groups) 4))
    (pcase-dolist (`((,group ,type) . ,members) groups)
      (ert-info ((symbol-name group))
        (should (eq type 'custom-group))
        (should (documentation-property group 'group-documentation))
        (should (> (length members) 1))))
    (should (equal shown (seq-uniq shown)))
    (should (memq 'gemini-companion-mode shown))
    (mapatoms (lambda (symbol)
                (when (and (gemini-companion-manual-test--own-p symbol)
                           (not (string-match-p "-mode\\(?:-hook\\)?\\'" (symbol-name symbol)))
                           (or (custom-variable-p symbol) (facep symbol)))
                  (ert-info ((symbol-name symbol))
                    (should (memq symbol shown))))))))

(defun gemini-companion-manual-test--settings ()
  "Return the options that the manual and the README set, as (OPTION VALUE)."
  (let ((settings nil))
    (dolist (file '("README.md" "docs/gemini-companion.texi"))
      (with-temp-buffer
        (insert-file-contents (gemini-companion-test-path file))
        (while (re-search-forward "(setq gemini-companion-" nil t)
          (push (cdr (read (progn (goto-char (match-beginning 0)) (current-buffer))))
                settings))))
    settings))

(ert-deftest gemini-companion-manual/options-have-values-of-their-type ()
  "Otherwise Customize shows a mismatch, and `setopt' warns."
  (gemini-companion-manual-test--public)
  (let ((settings (gemini-companion-manual-test--settings)))
    (should (> (length settings) 4))
    (mapatoms (lambda (symbol)
                (when (and (gemini-companion-manual-test--own-p symbol)
                           (get symbol 'custom-type))
                  (push (list symbol (car (get symbol 'standard-value))) settings))))
    (require 'cus-edit)
    (cl-letf (((symbol-function 'my-show-proposal) #'ignore)) ; the example of the manual
      (pcase-dolist (`(,option ,value) settings)
        (ert-info ((format "%s: %S" option value))
          (should (widget-apply (widget-convert (get option 'custom-type))
                                :match (eval value t))))))))

(ert-deftest gemini-companion-manual/the-example-of-a-view-works-in-any-init-file ()
  "Also in one without lexical binding."
  (gemini-companion-test-with-client client
    (let ((gemini-companion-diff-function nil)
          (before (mapcar #'window-buffer (window-list)))
          (review (gemini-companion-test-propose client "a.txt" "2\n")))
      (with-temp-buffer
        (insert-file-contents (gemini-companion-test-path "docs" "gemini-companion.texi"))
        (search-forward "@section Another Way to Show a Change")
        (search-forward "@lisp")
        (dotimes (_ 3)
          (eval (read (current-buffer)) nil)))
      (gemini-companion-review-show review 'select)
      (should (eq (window-buffer) (gemini-companion-review-proposal review)))
      (gemini-companion-review-reject review)
      (should (equal (mapcar #'window-buffer (window-list)) before)))))

(ert-deftest gemini-companion-manual/m-x-offers-what-makes-sense-anywhere ()
  "If the user has it hide the commands of other modes."
  (gemini-companion-manual-test--public)
  (let ((offered nil))
    (with-temp-buffer
      (lisp-interaction-mode)
      (mapatoms (lambda (symbol)
                  (when (and (commandp symbol)
                             (string-prefix-p "gemini-companion-" (symbol-name symbol))
                             (not (string-match-p "-test" (symbol-name symbol))))
                    ;; Without that, M-x offers every command that has a name.
                    (should (gemini-companion-manual-test--own-p symbol))
                    (when (command-completion-default-include-p symbol (current-buffer))
                      (push (string-remove-prefix "gemini-companion-" (symbol-name symbol))
                            offered))))))
    (should (equal (sort offered #'string<)
                   '("accept" "accept-all" "answer-no" "answer-yes" "cli-list" "comment"
                     "comments-clear" "comments-restore" "comments-send"
                     "compose" "connect" "copy-environment"
                     "disconnect" "doctor" "history-list" "install-from-file"
                     "install-module" "log" "menu" "mode" "next" "reject" "restart" "resume"
                     "review-list" "review-merge" "review-next"
                     "review-other-view" "review-quit" "review-three-way" "run" "run-other" "send-diagnostic"
                     "send-file" "send-prompt" "send-region" "setup" "show-context" "status"
                     "toggle-context" "toggle-protocol-log" "tools-disable" "tools-enable" "visit-mentioned")))))

;; By default, M-x offers the others, too.
(ert-deftest gemini-companion-manual/a-command-says-where-it-makes-no-sense ()
  (gemini-companion-manual-test--public)
  (let ((inhibit-message t))
    (with-temp-buffer
      (insert "mine")
      (mapatoms
       (lambda (symbol)
         (when (and (commandp symbol)
                    (command-modes symbol)
                    (string-prefix-p "gemini-companion-" (symbol-name symbol))
                    (not (string-match-p "-show-keys\\'\\|-test" (symbol-name symbol))))
           (ert-info ((symbol-name symbol))
             (unless (memq symbol '(gemini-companion-ping gemini-companion-menu-bar))
               (should-error (call-interactively symbol) :type 'user-error))))))
      (should (equal (buffer-string) "mine"))
      (should-not buffer-read-only))))

;;; gemini-companion-manual-test.el ends here

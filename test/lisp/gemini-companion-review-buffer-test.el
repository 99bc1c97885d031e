;;; gemini-companion-review-buffer-test.el --- Tests of the buffers of a review  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-companion)
(require 'gemini-companion-review-buffer)

(declare-function c-set-style "cc-mode" (name &optional dont-override))
(declare-function treesit-language-available-p "treesit.c" (language &optional detail))
(defvar major-mode-remap-alist)
(defvar nxml-auto-insert-xml-declaration-flag)
(defvar sh-shell)
(defvar treesit-font-lock-settings)

(ert-deftest gemini-companion-review-buffer/a-long-name-leaves-room-in-the-mode-line ()
  (gemini-companion-test-with-client client
    (let* ((name (concat (string-join (make-list 20 "directory/")) "a.txt"))
           (review (gemini-companion-test-propose client name "1\n")))
      (gemini-companion-review-show review 'keep)
      (let ((shown (buffer-name (gemini-companion-review-proposal review))))
        (should (string-suffix-p "/directory/a.txt*" shown))
        (should (length< shown 65))))))

;;;; Fontification in parts

(ert-deftest gemini-companion-review-buffer/a-quit-leaves-no-text-without-colors ()
  "Nor does a key that ends `while-no-input', in which a timer may run."
  (with-temp-buffer
    (rename-buffer "text")              ; hidden ones have no colors
    (insert (mapconcat #'number-to-string (number-sequence 1 1000) "\n"))
    (emacs-lisp-mode)
    (cl-letf* (((symbol-function 'font-lock-fontify-region)
                (lambda (&rest _)
                  (should-not throw-on-input)
                  (signal 'quit nil))))
      (let ((noninteractive nil)
            (inhibit-quit t)            ; as in a timer
            (throw-on-input 'tag))
        (gemini-companion-heavy-fontify-in-steps #'ignore)
        (setq quit-flag nil))
      (should (gemini-companion-test-timers #'gemini-companion-heavy--step))
      (cancel-function-timers #'gemini-companion-heavy--step))))

;; As `c-ts-mode' of Emacs 30, whose ranges are found between two integers.
(ert-deftest gemini-companion-review-buffer/a-mode-that-takes-no-markers-gives-colors ()
  (with-temp-buffer
    (rename-buffer "text")
    (insert "int x;\n")
    (prog-mode)
    (setq-local font-lock-defaults '(nil)
                font-lock-fontify-region-function
                (lambda (start end &optional _)
                  (should (integerp start))
                  (should (integerp end))
                  (put-text-property start end 'face 'font-lock-type-face)))
    (let ((noninteractive nil))
      (gemini-companion-heavy-fontify-in-steps #'ert-fail))
    (should (eq (get-text-property 1 'face) 'font-lock-type-face))))

(ert-deftest gemini-companion-review-buffer/redisplay-fontifies-nothing ()
  "Not even where CC mode of Emacs 29 finds the name of a type."
  (with-temp-buffer
    (rename-buffer "text")
    (insert "int first (Found *found);\nclass Found {};\nFound one;\n")
    (c++-mode)
    (let ((noninteractive nil))
      (gemini-companion-heavy-fontify-in-steps #'ignore))
    (should-not (gemini-companion-test-timers #'gemini-companion-heavy--step))
    (should (text-property-any (point-min) (point-max) 'face 'font-lock-type-face))
    (should-not (text-property-any (point-min) (point-max) 'fontified nil))))

;; Hostile texts of 110 kB take tree-sitter 8 s; others, three times as large, 0.3 s.
(ert-deftest gemini-companion-review-buffer/a-text-that-is-slow-to-parse-is-not-parsed-whole ()
  (pcase-dolist (`(,speed . ,heavy) '((1000000 . nil) (10000 . t))) ; characters per second
    (with-temp-buffer
      (insert (mapconcat #'number-to-string (number-sequence 1 20000) "\n"))
      (let ((parsed 1))
        (cl-letf (((symbol-function 'treesit-parser-list) (lambda () '(parser)))
                  ((symbol-function 'treesit-parser-root-node) (lambda (_) (setq parsed (point-max))))
                  ((symbol-function 'get-internal-run-time)
                   (lambda () (time-convert (/ (float parsed) speed) 'list))))
          (should (eq (and (gemini-companion-heavy-p) t) heavy))
          (should (eq (< parsed (/ (point-max) 10)) heavy)))))))

;;;; Modal editing

(define-minor-mode gemini-companion-review-buffer-test-modal-mode
  "A mode of modal editing, in which the letter x deletes."
  :keymap (let ((map (make-sparse-keymap)))
            (define-key map "x" #'delete-char)
            map))

(define-globalized-minor-mode gemini-companion-review-buffer-test-global-modal-mode
  gemini-companion-review-buffer-test-modal-mode
  (lambda () (gemini-companion-review-buffer-test-modal-mode 1))
  :group 'gemini-companion)

(defconst gemini-companion-review-buffer-test--modal-modes
  '((gemini-companion-review-buffer-test-global-modal-mode . gemini-companion-review-buffer-test-modal-mode)
    (no-such-mode . no-such-mode))
  "The user's setting for that mode.")

(ert-deftest gemini-companion-review-buffer/a-modal-mode-that-is-on-elsewhere-is-on ()
  (gemini-companion-test-with-client client
    (let ((gemini-companion-modal-modes gemini-companion-review-buffer-test--modal-modes)
          (review (gemini-companion-test-propose client "a.txt" "1\n2\n")))
      (unwind-protect
          (progn
            (gemini-companion-review-buffer-test-global-modal-mode 1)
            (dolist (buffer (list (gemini-companion-review-buffer-proposal review)
                                  (gemini-companion-review-buffer-file-buffer review)))
              (with-current-buffer buffer
                (should (eq (key-binding "x") #'delete-char))
                (should (eq (key-binding (kbd "C-c C-c")) #'gemini-companion-accept))
                (should-not (buffer-modified-p))))
            (with-current-buffer (gemini-companion-review-buffer-proposal review)
              (should (equal (buffer-string) "1\n2\n"))))
        (gemini-companion-review-buffer-test-global-modal-mode -1)))))

(ert-deftest gemini-companion-review-buffer/a-modal-mode-that-is-off-elsewhere-is-off ()
  (gemini-companion-test-with-client client
    (let ((gemini-companion-modal-modes gemini-companion-review-buffer-test--modal-modes)
          (review (gemini-companion-test-propose client "a.txt" "1\n2\n")))
      (with-current-buffer (gemini-companion-review-buffer-proposal review)
        (should (eq (key-binding "x") #'self-insert-command))))))

(ert-deftest gemini-companion-review-buffer/a-modal-mode-that-fails-does-no-harm ()
  (gemini-companion-test-with-client client
    (let ((gemini-companion-modal-modes (list (cons 'gemini-companion-mode
                                                    (lambda () (error "Not today")))))
          (review (gemini-companion-test-propose client "a.txt" "1\n2\n")))
      (with-current-buffer (gemini-companion-review-buffer-proposal review)
        (should (equal (buffer-string) "1\n2\n"))
        (should gemini-companion-review-mode)))))

;; By that mode, Evil undoes nothing where it is off.
(ert-deftest gemini-companion-review-buffer/undo-tree-mode-that-is-on-elsewhere-is-on ()
  (gemini-companion-test-with-client client
    (let ((enabled nil))
      (dlet ((global-undo-tree-mode nil))
        (cl-letf (((symbol-function 'undo-tree-mode)
                   (lambda () (push (buffer-name) enabled))))
          (gemini-companion-review-buffer-proposal (gemini-companion-test-propose client "a.txt" "1\n"))
          (should-not enabled)
          (setq global-undo-tree-mode t)
          (gemini-companion-review-buffer-proposal (gemini-companion-test-propose client "b.txt" "1\n"))
          (should (equal enabled '("*gemini proposal: b.txt*")))))
      (dlet ((global-undo-tree-mode t))
        (cl-letf (((symbol-function 'undo-tree-mode) (lambda () (error "Not today"))))
          (should (gemini-companion-review-buffer-proposal
                   (gemini-companion-test-propose client "c.txt" "1\n"))))))))

;;;; Heavy texts

(defun gemini-companion-review-buffer-test--mode-for (client name text)
  "Return the major mode of the proposal of CLIENT for the file NAME with TEXT."
  (buffer-local-value 'major-mode (gemini-companion-review-buffer-proposal
                                   (gemini-companion-test-propose client name text))))

(ert-deftest gemini-companion-review-buffer/a-heavy-text-has-no-major-mode ()
  "It is large, has a long line, or repeats a few lines."
  (gemini-companion-test-with-client client
    (pcase-dolist (`(,mode . ,text)
                   `((python-mode . "def f():\n  pass\n")
                     (python-mode . ,(mapconcat (lambda (n) (format "f(%d)\n" n))
                                                (number-sequence 1 2000) ""))
                     (fundamental-mode . ,(mapconcat (lambda (n) (format "function(%d)\n" n))
                                                     (number-sequence 1 20000) ""))
                     (fundamental-mode . ,(concat (make-string 10001 ?x) "\n"))
                     (fundamental-mode . ,(apply #'concat (make-list 200 "f(1)\n")))))
      (should (eq mode (gemini-companion-review-buffer-test--mode-for client "a.py" text))))))

(ert-deftest gemini-companion-review-buffer/ends-of-long-lines-are-hidden ()
  (gemini-companion-test-with-client client
    (let* ((text (concat "one\n" (make-string 20000 ?x) "\nthree\n"))
           (review (gemini-companion-test-propose client "a.txt" text)))
      (with-current-buffer (gemini-companion-review-buffer-proposal review)
        (should (equal (buffer-string) text))
        (should-not (get-char-property 10000 'display))
        (should (string-search "characters" (format "%S" (get-char-property 10010 'display))))
        (goto-char (point-max))
        (should-not (get-char-property (line-beginning-position 0) 'display))))))

(define-derived-mode gemini-companion-review-buffer-test-slow-mode prog-mode "Test"
  "A mode whose fontification takes long, or fails."
  (setq-local font-lock-defaults
              '(((lambda (_limit)
                   (pcase gemini-companion-review-buffer-test--fontify
                     ('fail (error "Not today"))
                     ;; As when other programs have the processors.
                     ('wait (sleep-for 0.25))
                     (time (let ((end (time-add (get-internal-run-time) time)))
                             (while (time-less-p (get-internal-run-time) end)))))
                   nil)))))

(defvar gemini-companion-review-buffer-test--fontify 0
  "Seconds for which fontification computes, or `fail' or `wait'.")

(ert-deftest gemini-companion-review-buffer/slow-fontification-is-given-up ()
  (gemini-companion-test-with-client client
    (let ((auto-mode-alist '(("" . gemini-companion-review-buffer-test-slow-mode)))
          ;; Emacs in batch mode does not fontify.
          (noninteractive nil))
      (pcase-dolist (`(,time . ,mode) '((0 . gemini-companion-review-buffer-test-slow-mode)
                                        (wait . gemini-companion-review-buffer-test-slow-mode)
                                        (0.12 . fundamental-mode)
                                        (fail . fundamental-mode)))
        (let ((gemini-companion-review-buffer-test--fontify time))
          (let* ((text (mapconcat #'number-to-string (number-sequence 1 500) "\n"))
                 (buffer (gemini-companion-review-buffer-proposal
                          (gemini-companion-test-propose client "a.x" text))))
            (gemini-companion-test-wait
             "the fontification to end"
             (lambda () (not (gemini-companion-test-timers #'gemini-companion-heavy--step))))
            (should (eq mode (buffer-local-value 'major-mode buffer)))))))))

;; By M-x compile, for example, wherever the user was when the change arrived.
(ert-deftest gemini-companion-review-buffer/programs-run-in-the-directory-of-the-file ()
  (gemini-companion-test-with-client client
    (dolist (name '("a.txt" "new/b.txt"))
      (let* ((default-directory temporary-file-directory)
             (review (gemini-companion-test-propose client name "1\n2\n"))
             (directory (file-name-directory (gemini-companion-review-path review))))
        (with-current-buffer (gemini-companion-review-buffer-proposal review)
          (should (equal (shell-command-to-string "pwd -P")
                         (concat (directory-file-name
                                  (file-truename (if (file-exists-p directory) directory
                                                   temporary-file-directory)))
                                 "\n"))))))))

(ert-deftest gemini-companion-review-buffer/a-text-is-shown-from-its-start ()
  "Without keywords, fontification leaves point at the end."
  (gemini-companion-test-with-client client
    (let ((noninteractive nil)) ; Emacs in batch mode does not fontify
      (with-current-buffer (gemini-companion-review-buffer-proposal
                            (gemini-companion-test-propose client "new.txt" "one\ntwo\nthree\n"))
        (should font-lock-mode)
        (should (= (point) 1))))))

(ert-deftest gemini-companion-review-buffer/a-mode-that-begins-new-files-adds-nothing ()
  "Emacs calls it before the text is there."
  (let ((nxml-auto-insert-xml-declaration-flag t))
    (gemini-companion-test-with-client client
      (with-current-buffer (gemini-companion-review-buffer-proposal
                            (gemini-companion-test-propose client "a.xml" "<a/>\n"))
        (should (equal (buffer-string) "<a/>\n"))))))

(ert-deftest gemini-companion-review-buffer/xml-is-not-validated ()
  (gemini-companion-test-with-client client
    (with-current-buffer (gemini-companion-review-buffer-proposal
                          (gemini-companion-test-propose client "a.xml" "<a></b>\n"))
      (should (derived-mode-p 'nxml-mode))
      (should-not (bound-and-true-p rng-validate-mode)))))

;;;; Major modes

(ert-deftest gemini-companion-review-buffer/a-major-mode-says-nothing ()
  "Not in *Messages* either.  Python mode cannot guess the indentation of a text
that is not there yet."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-test-propose client "a.py" "def f():\n  pass\n"))
          (hidden nil))
      (cl-letf (((symbol-function 'message)
                 (lambda (&rest _) (push (and inhibit-message (null message-log-max)) hidden))))
        (gemini-companion-review-buffer-proposal review))
      (should-not (memq nil hidden)))))

(ert-deftest gemini-companion-review-buffer/edits-are-indented-as-in-the-file ()
  "Python mode finds out by how much when it visits the file; a hook sets the rest."
  (gemini-companion-test-with-client client
    (let ((text "def f():\n  if x:\n    if y:\n      if z:\n        pass\n"))
      (with-current-buffer (find-file-noselect (gemini-companion-test-file "a.py" text))
        (setq indent-tabs-mode nil))
      (setq-default indent-tabs-mode t)
      (unwind-protect
          (with-current-buffer (gemini-companion-review-buffer-proposal
                                (gemini-companion-test-propose client "a.py" text))
            (goto-char (point-min))
            (search-forward "z:")
            (newline-and-indent)
            (should (equal (buffer-substring-no-properties (line-beginning-position) (point))
                           (make-string 8 ?\s))))
        (setq-default indent-tabs-mode nil)))))

(ert-deftest gemini-companion-review-buffer/edits-of-c-are-indented-in-the-style-of-the-file ()
  (gemini-companion-test-with-client client
    (with-current-buffer (find-file-noselect (gemini-companion-test-file "a.c"))
      (c-mode)
      (c-set-style "linux")
      (setq indent-tabs-mode t))
    (with-current-buffer (gemini-companion-review-buffer-proposal
                          (gemini-companion-test-propose
                           client "a.c" "int f()\n{\n\tif (x)\n{\n}\n}\n"))
      (indent-region (point-min) (point-max))
      (should (equal (buffer-string) "int f()\n{\n\tif (x)\n\t{\n\t}\n}\n")))))

;; JavaScript mode finds out that it is JSX when it visits the file.
(ert-deftest gemini-companion-review-buffer/jsx-has-colors-and-indentation-as-in-the-file ()
  (gemini-companion-test-with-client client
    (let ((text "import React from 'react';\nlet a = (\n    <div>\n\tx\n    </div>\n);\n"))
      (with-current-buffer (find-file-noselect (gemini-companion-test-file "a.js" text))
        (js-mode))
      (with-current-buffer (gemini-companion-review-buffer-proposal
                            (gemini-companion-test-propose client "a.js" text))
        (setq indent-tabs-mode t)
        (indent-region (point-min) (point-max))
        (should (equal (buffer-string) text))
        (font-lock-ensure)
        (goto-char (point-min))
        (search-forward "<d")
        (should (eq (get-text-property (1- (point)) 'face) 'font-lock-function-name-face))))))

(ert-deftest gemini-companion-review-buffer/a-newline-does-not-indent-the-line-above-by-a-guess ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-file "a.js" "")
    (with-current-buffer (gemini-companion-review-buffer-proposal
                          (gemini-companion-test-propose client "a.js" "if (x) {\n  y();\n}\n"))
      (goto-char (point-min))
      (search-forward "y();")
      (should electric-indent-mode)
      (let ((last-command-event ?\n))
        (newline nil t))
      (should (string-match-p "\\`if (x) {\n  y();\n +\n}\n\\'" (buffer-string))))))

(define-derived-mode gemini-companion-review-buffer-test-mode prog-mode "Test"
  "A mode that a user may prefer.")

(define-derived-mode gemini-companion-review-buffer-test-special-mode special-mode "Test"
  "A mode that is not for editing text.")

(defun gemini-companion-review-buffer-test--mode-of (name)
  "Return the major mode of the proposal for the file NAME; fail if Emacs warns."
  (when (get-buffer "*Warnings*") (kill-buffer "*Warnings*"))
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-test-propose client name "x = 1\n")))
      (with-current-buffer (gemini-companion-review-buffer-proposal review)
        (should (equal (buffer-string) "x = 1\n"))
        (should-not (get-buffer "*Warnings*"))
        major-mode))))

(ert-deftest gemini-companion-review-buffer/the-user-s-preferred-major-mode-is-used ()
  (pcase-dolist (`(,preferred ,seen)
                 '((gemini-companion-review-buffer-test-mode gemini-companion-review-buffer-test-mode)
                   (org-mode outline-mode)
                   (gemini-companion-review-buffer-test-special-mode python-mode)
                   (no-such-mode python-mode)
                   (nil python-mode)))
    (ert-info ((format "%s" preferred))
      (let ((major-mode-remap-alist (list (cons 'python-mode preferred))))
        (should (eq (gemini-companion-review-buffer-test--mode-of "a.py") seen))))))

(ert-deftest gemini-companion-review-buffer/the-mode-of-the-file-s-buffer-is-used ()
  "Its text may say which, as the first line of a script does; its name need not."
  (gemini-companion-test-with-client client
    (pcase-dolist (`(,name ,text ,mode) '(("run" "#!/bin/sh\nls\n" sh-mode)
                                          ("a.h" "class A {\n};\n" c++-mode)
                                          ("new.h" nil c-mode)))
      (when text
        (find-file-noselect (gemini-companion-test-file name text)))
      (with-current-buffer (gemini-companion-review-buffer-proposal
                            (gemini-companion-test-propose client name "int x;\n"))
        (should (eq major-mode mode))))))

(define-derived-mode gemini-companion-review-buffer-test-markup-mode text-mode "Markup"
  "A mode that can hide markup, as Markdown mode and Fountain mode do."
  (add-to-invisibility-spec '(outline . t))
  (add-to-invisibility-spec 'markdown-markup)
  (add-to-invisibility-spec 'fountain-emphasis-markup)
  (setq-local font-lock-defaults
              '((("\\*" 0 '(face bold invisible markdown-markup))
                 ("_" 0 '(face italic invisible fountain-emphasis-markup)))
                t)
              font-lock-extra-managed-props '(invisible)))

(define-derived-mode gemini-companion-review-buffer-test-view-mode
  gemini-companion-review-buffer-test-markup-mode "View"
  "A mode for viewing such a text, as GFM View mode.
\\{gemini-companion-review-buffer-test-view-mode-map}"
  (setq buffer-read-only t))
(define-key gemini-companion-review-buffer-test-view-mode-map "n" #'forward-line)

(defun gemini-companion-review-buffer-test--propose-in (client mode text)
  "Let CLIENT propose TEXT for a.txt, visited in MODE; return the review."
  (with-current-buffer (find-file-noselect (gemini-companion-test-file "a.txt"))
    (funcall mode))
  (gemini-companion-test-propose client "a.txt" text))

(ert-deftest gemini-companion-review-buffer/a-text-that-the-user-views-can-be-edited ()
  "A mode for viewing is read-only, and has letters for commands."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-buffer-test--propose-in
                   client #'gemini-companion-review-buffer-test-view-mode "1\n2\n")))
      (with-current-buffer (gemini-companion-review-buffer-proposal review)
        (should (equal (buffer-string) "1\n2\n"))
        (should (derived-mode-p 'gemini-companion-review-buffer-test-markup-mode))
        (should-not buffer-read-only)
        (should (eq (key-binding "n") #'self-insert-command)))
      (with-current-buffer (gemini-companion-review-buffer-file-buffer review)
        (should buffer-read-only)))))

(ert-deftest gemini-companion-review-buffer/no-markup-is-hidden ()
  "The user could not see what changes there."
  (gemini-companion-test-with-client client
    (with-current-buffer (gemini-companion-review-buffer-proposal
                          (gemini-companion-review-buffer-test--propose-in
                           client #'gemini-companion-review-buffer-test-markup-mode "*1_\n"))
      (font-lock-ensure)
      (should (eq 'markdown-markup (get-text-property 1 'invisible)))
      (should (eq 'fountain-emphasis-markup (get-text-property 3 'invisible)))
      (should-not (invisible-p 1))
      (should-not (invisible-p 3))
      ;; What the user folds is hidden.
      (should (invisible-p 'outline)))))

(ert-deftest gemini-companion-review-buffer/a-mode-may-choose-a-language-by-the-name ()
  (gemini-companion-test-with-client client
    (with-current-buffer (gemini-companion-review-buffer-proposal
                          (gemini-companion-test-propose client "a.zsh" "ls\n"))
      (should (eq sh-shell 'zsh))
      (should-not buffer-file-name))))

(ert-deftest gemini-companion-review-buffer/a-mode-that-fails-does-not-hide-the-change ()
  "Nor does one that cannot be loaded."
  (dolist (mode '(gemini-companion-review-buffer-test--failing-mode
                  gemini-companion-review-buffer-test--missing-mode))
    (let ((auto-mode-alist (list (cons "\\.odd\\'" mode))))
      (cl-letf (((symbol-function 'gemini-companion-review-buffer-test--failing-mode)
                 (lambda () (prog-mode) (error "No mode today")))
                ((get 'gemini-companion-review-buffer-test--failing-mode 'derived-mode-parent)
                 'prog-mode)
                ((symbol-function 'gemini-companion-review-buffer-test--missing-mode)
                 '(autoload "gemini-companion-no-such-library" nil t)))
        (gemini-companion-test-with-client client
          (with-current-buffer (gemini-companion-review-buffer-proposal
                                (gemini-companion-test-propose client "a.odd" "x\n"))
            (should (eq major-mode 'fundamental-mode))
            (should (equal (buffer-string) "x\n"))
            (should-not buffer-read-only)))))))

(ert-deftest gemini-companion-review-buffer/a-mode-that-lacks-its-grammar-does-not-warn ()
  (skip-unless (not (and (fboundp 'treesit-language-available-p)
                         (treesit-language-available-p 'python))))
  (let ((major-mode-remap-alist '((python-mode . python-ts-mode))))
    (should (eq (gemini-companion-review-buffer-test--mode-of "a.py")
                (if (fboundp 'python-ts-mode) 'python-ts-mode 'python-mode)))))

;; They may have been adapted, too, and compiling them takes long; there is no grammar here.
(ert-deftest gemini-companion-review-buffer/text-has-the-tree-sitter-colors-of-the-user-s-buffer ()
  (gemini-companion-test-with-client client
    (with-current-buffer (find-file-noselect (gemini-companion-test-file "a.txt"))
      (setq-local treesit-font-lock-settings '(compiled)))
    (let ((review (gemini-companion-test-propose client "a.txt" "1\n")))
      (dolist (buffer (list (gemini-companion-review-buffer-proposal review)
                            (gemini-companion-review-buffer-file-buffer review)))
        (should (equal '(compiled) (buffer-local-value 'treesit-font-lock-settings buffer)))))))

;; Where no buffer visits the file, those of the proposal serve the text that it is compared with.
(ert-deftest gemini-companion-review-buffer/tree-sitter-colors-are-compiled-once ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-file "b.txt" "2\n")
    (let ((review (gemini-companion-test-propose client "b.txt" "1\n")))
      (with-current-buffer (gemini-companion-review-buffer-proposal review)
        (setq-local treesit-font-lock-settings '(compiled)))
      (with-current-buffer (gemini-companion-review-buffer-file-buffer review)
        (should (equal treesit-font-lock-settings '(compiled)))))))

;; Emacs 31 has entries such as `go-ts-mode-maybe' in `auto-mode-alist', and asks in the modes.
(ert-deftest gemini-companion-review-buffer/emacs-asks-for-no-grammar ()
  (let ((auto-mode-alist '(("\\.zz\\'" . gemini-companion-test-grammar-mode-maybe))))
    (should (eq (gemini-companion-review-buffer-test--mode-of "a.zz")
                'gemini-companion-test-grammar-mode))))

;;;; Faces

(ert-deftest gemini-companion-review-buffer/pale-text-is-readable-where-words-are-marked ()
  "Comments of many themes have nearly the color of these backgrounds."
  (dolist (face '(gemini-companion-removed-current
                  gemini-companion-added-current
                  gemini-companion-removed-word
                  gemini-companion-added-word))
    (pcase-dolist (`(,condition . ,attributes) (face-default-spec face))
      (when (equal (car-safe condition) '(min-colors 257))
        (ert-info ((format "%s %S" face condition))
          (should (equal (if (member '(background dark) condition) "#fff" "#000")
                         (plist-get attributes :distant-foreground))))))))

;;; gemini-companion-review-buffer-test.el ends here

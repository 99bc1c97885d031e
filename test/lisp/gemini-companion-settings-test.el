;;; gemini-companion-settings-test.el --- Tests of users' settings  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Options of Emacs, hooks and languages that many users have, and tests elsewhere do not.

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-link)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-cli-send)
(require 'gemini-companion-context)
(require 'gemini-companion-private)
(require 'gemini-companion-review-inline)
(require 'gemini-companion-tool-extension)
(require 'gemini-companion-tool-symbols)
(require 'gemini-companion-write)
(require 'gemini-companion-test-companion)

(declare-function with-editor-export-editor "ext:with-editor")
(defvar lsp-bridge-revert-buffer-flag)
(defvar meow-mode-state-list)
(defvar term-exec-hook)
(defvar undo-tree-mode)

;;;; Options of Emacs, and languages

(ert-deftest gemini-companion-settings/without-vc-for-git-a-repository-is-a-project ()
  (gemini-companion-test-with-project
    (let ((vc-handled-backends nil)
          (directory (gemini-companion-test-file "repo/src/")))
      (make-directory (gemini-companion-test-file "repo/.git") t)
      (find-file-noselect (gemini-companion-test-file "repo/src/a.c" ""))
      (should (member (gemini-companion-test-file "repo") (gemini-companion-workspace-roots)))
      (should (equal (gemini-companion-workspace-project directory)
                     (gemini-companion-test-file "repo/"))))))

(ert-deftest gemini-companion-settings/in-east-asian-languages-the-end-of-a-name-fits ()
  "It is what matters, and lists hid it."
  (let ((char-width-table char-width-table))
    (use-cjk-char-width-table 'ja_JP)
    (should (= (string-width "…") 2))
    (should (equal (gemini-companion-ui-shorten "src/deeply/nested/module.py" 20)
                   "…y/nested/module.py"))))

(ert-deftest gemini-companion-settings/reports-are-wrapped-even-if-lines-are-truncated ()
  (let ((before (default-value 'truncate-lines)))
    (unwind-protect
        (with-temp-buffer
          (setq-default truncate-lines t)
          (gemini-companion-report-mode)
          (should-not truncate-lines))
      (setq-default truncate-lines before))))

(ert-deftest gemini-companion-settings/in-turkish-private-files-are-private ()
  (let ((language current-language-environment))
    (unwind-protect
        (progn
          (set-language-environment "Turkish")
          (dolist (file '("/p/MINE.INI" "/ş/MINE.INI"))
            (should (gemini-companion-private-match-p "*.ini" (list file)))
            (should (gemini-companion-private-match-p "*.INI" (list file)))))
      (set-language-environment language))))

(ert-deftest gemini-companion-settings/in-turkish-an-image-in-the-prompt-is-recognized ()
  "The prompt took 20 seconds: regexps with an I matched nothing."
  (let ((language current-language-environment)
        (line (make-string 30 ?─)))
    (unwind-protect
        (with-temp-buffer
          (set-language-environment "Turkish")
          (insert line "\n > [Image ...a.png]\n" line "\n")
          (should (gemini-companion-cli-send--shown-p (current-buffer) "@a.png"))
          (erase-buffer)
          (insert line "\n > Press 'i' for INSERT mode.\n" line "\n")
          (should (gemini-companion-cli-send--empty-p (current-buffer))))
      (set-language-environment language))))

(ert-deftest gemini-companion-settings/what-other-code-binds-does-not-change-json ()
  (let ((json-object-type 'plist)
        (json-array-type 'list)
        (json-key-type 'string)
        (json-false nil))
    (should (equal (gemini-companion-ui-read-json "{\"a\": [false, {\"b\": null}]}")
                   '((a . [:json-false ((b))]))))))

(ert-deftest gemini-companion-settings/arguments-are-told-whole ()
  (let ((print-length 1)
        (print-level 1))
    (should (equal (gemini-companion-tool-symbols--signature 'seq-mapn)
                   "function: (seq-mapn function sequence &rest sequences)"))))

;;;; Packages

(defmacro gemini-companion-settings-test--with-file (&rest body)
  "Evaluate BODY in a buffer that visits a.txt, with undo."
  (declare (indent 0) (debug t))
  `(gemini-companion-test-with-project
     (gemini-companion-native-load)
     (with-current-buffer (find-file-noselect (gemini-companion-test-file "a.txt" "one\ntwo three\n"))
       (buffer-enable-undo)
       (unwind-protect (progn ,@body)
         (gemini-companion-write-stop)))))

(defun gemini-companion-settings-test--write (text)
  "Write TEXT to the file of the current buffer, and revert the buffer."
  (gemini-companion-test-write buffer-file-name text)
  (gemini-companion-write-revert-now buffer-file-name)
  (should (equal (buffer-string) text)))

(ert-deftest gemini-companion-settings/undo-tree-can-read-what-it-saves ()
  "Only from the entries of the undo list itself does it remove markers."
  (gemini-companion-settings-test--with-file
    (search-forward "two t")
    (let ((undo-tree-mode t)
          (marker (point-marker)))
      (gemini-companion-settings-test--write "one\n2 3\n")
      (pcase (seq-find #'consp buffer-undo-list)
        (`(apply . ,entry)
         (should (string-search "two" (prin1-to-string entry)))
         (should-not (string-search "#<marker" (prin1-to-string (car (last entry))))))
        (other (ert-fail other)))
      (setq last-command nil)
      (undo)
      (should (equal (buffer-string) "one\ntwo three\n"))
      (set-marker marker nil))))

(ert-deftest gemini-companion-settings/in-polymode-the-buffer-of-the-file-is-reverted ()
  "Its indirect buffers have the name of the file, and one may be found first."
  (gemini-companion-settings-test--with-file
    (let ((base (current-buffer))
          (inner (make-indirect-buffer (current-buffer) "a.txt[inner]")))
      (with-current-buffer inner
        (setq buffer-file-name (buffer-file-name base)
              buffer-file-truename (buffer-local-value 'buffer-file-truename base)))
      (cl-letf (((symbol-function 'find-buffer-visiting) (lambda (&rest _) inner)))
        (should (eq (gemini-companion-file-visiting buffer-file-name) base))
        (gemini-companion-settings-test--write "one\n2\n"))
      (should (verify-visited-file-modtime))
      (should (equal (gemini-companion-context--buffers) (list base)))
      (kill-buffer inner))))

(ert-deftest gemini-companion-settings/lsp-bridge-sends-no-change-that-is-a-revert ()
  (gemini-companion-settings-test--with-file
    (let ((flags nil))
      (add-hook 'after-change-functions
                (lambda (&rest _) (push (bound-and-true-p lsp-bridge-revert-buffer-flag) flags))
                nil t)
      (gemini-companion-settings-test--write "one\n2\n")
      (should (memq t flags))
      (should-not (memq nil flags)))))

(ert-deftest gemini-companion-settings/undo-of-evil-and-undo-fu-undoes-in-a-change ()
  (dolist (command '(evil-undo undo-fu-only-undo))
    (should (eq (lookup-key gemini-companion-review-inline-mode-map (vector 'remap command))
                #'gemini-companion-review-inline-undo))))

(ert-deftest gemini-companion-settings/vterm-toggle-does-not-take-the-terminal-of-a-cli ()
  (let ((load-path (append (gemini-companion-test-terminal-directories 'vterm) load-path)))
    (gemini-companion-test-with-project
      (with-current-buffer (generate-new-buffer "terminal")
        (gemini-companion-cli-terminals-start 'vterm "cat" nil process-environment)
        (should (local-variable-p 'vterm-toggle-reset-window-configration-after-exit))
        (should (buffer-local-value 'vterm-toggle--dedicated-p (current-buffer)))
        (delete-process (get-buffer-process (current-buffer)))))))

(ert-deftest gemini-companion-settings/nothing-is-typed-into-a-cli-when-it-starts ()
  "Magit's manual has this function in the hooks of terminals, for their shells."
  (gemini-companion-test-with-project
    (let ((term-exec-hook '(with-editor-export-editor))
          (scroll-margin 3)
          (typed nil)
          (terminal (generate-new-buffer "terminal")))
      (cl-letf (((symbol-function 'with-editor-export-editor) (lambda () (setq typed t))))
        (with-current-buffer terminal
          (gemini-companion-cli-terminals-start 'term "cat" nil process-environment)
          (should-not typed)
          ;; The last lines of the CLI would be below the window.
          (should (zerop scroll-margin))
          ;; Its question would be above the window once the echo area has had two lines.
          (should (> scroll-conservatively 100))
          (delete-process (get-buffer-process terminal)))
        (with-editor-export-editor)
        (should typed)))))

(declare-function auto-revert-buffers "autorevert")
(defvar auto-revert-use-notify)

(ert-deftest gemini-companion-settings/the-tail-of-a-log-is-not-shown-twice ()
  (gemini-companion-settings-test--with-file
    (let ((auto-revert-use-notify nil)
          (file buffer-file-name))
      (auto-revert-tail-mode)
      (write-region "four\n" nil file t 'silent)
      (set-file-times file (time-add nil 2))
      (gemini-companion-write-revert-now file)
      (auto-revert-buffers)
      (should (equal (buffer-string) "one\ntwo three\nfour\n"))
      (auto-revert-tail-mode -1))))

(ert-deftest gemini-companion-settings/a-review-of-what-is-shown-as-an-image-has-a-cursor ()
  (gemini-companion-settings-test--with-file
    (setq-local cursor-type nil)
    (let ((visiting (current-buffer)))
      (with-temp-buffer
        (gemini-companion-review-inline--look-like (current-buffer) visiting)
        (should cursor-type)))))

;;;; Modal editing, and completion

(ert-deftest gemini-companion-settings/keys-of-a-transient-map-hide-those-of-a-change ()
  "Xah Fly Keys has such a map while it commands."
  (with-temp-buffer
    (use-local-map gemini-companion-review-inline-mode-map)
    (let ((overriding-terminal-local-map (make-sparse-keymap)))
      (should (equal (gemini-companion-ui-key-of #'gemini-companion-review-inline-drop) "k"))
      (define-key overriding-terminal-local-map "k" #'next-line)
      (should (equal (gemini-companion-ui-key-of #'gemini-companion-review-inline-drop)
                     "C-c C-d")))))

(ert-deftest gemini-companion-settings/xah-fly-keys-opens-no-menu ()
  (cl-progv '(xah-fly-command-map) (list (make-sparse-keymap))
    (let ((overriding-terminal-local-map
           (make-composed-keymap (symbol-value 'xah-fly-command-map)))
          (this-command nil))
      (cl-letf (((symbol-function 'current-idle-time) (lambda () '(0 2))))
        (should-not (gemini-companion-ui-key-expected))))))

(ert-deftest gemini-companion-settings/meow-passes-keys-to-a-terminal ()
  "Unless the user has chosen a state for it."
  (let ((inserting nil))
    (cl-letf (((symbol-function 'meow-insert-mode) (lambda () (setq inserting t))))
      (cl-progv '(meow--current-state meow-mode-state-list)
          (list 'normal (list (cons major-mode 'normal)))
        (gemini-companion-ui-pass-keys)
        (should-not inserting)
        (setq meow-mode-state-list nil)
        (gemini-companion-ui-pass-keys)
        (should inserting)))))

(ert-deftest gemini-companion-settings/lines-of-consult-are-those-of-the-proposal ()
  (should (eq (lookup-key gemini-companion-review-inline-mode-map [remap consult-goto-line])
              #'gemini-companion-review-inline-goto-line)))

(ert-deftest gemini-companion-settings/icomplete-shows-files-in-the-order-of-the-cli ()
  (gemini-companion-test-with-project
    (dolist (name '("a.txt" "b.txt" "long-name.txt"))
      (gemini-companion-test-file name ""))
    (with-temp-buffer
      (setq gemini-companion-cli-run-root gemini-companion-test-project)
      (insert "a.txt b.txt long-name.txt ")
      (cl-letf* (((symbol-function 'gemini-companion-cli-send-terminal) #'current-buffer)
                 ((symbol-function 'gemini-companion-cli-link--visit) #'ignore)
                 (all nil)
                 ((symbol-function 'completing-read)
                  (lambda (_ table &rest _)
                    (with-temp-buffer
                      (setq-local minibuffer-completion-table table)
                      (setq all (completion-all-sorted-completions))
                      "b.txt"))))
        (gemini-companion-visit-mentioned)
        (setcdr (last all) nil)         ; a number
        (should (equal (mapcar #'substring-no-properties all)
                       '("long-name.txt" "b.txt" "a.txt")))))))

;;; gemini-companion-settings-test.el ends here

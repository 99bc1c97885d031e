;;; cli-test.el --- The real, interactive Gemini CLI with Emacs  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The pinned CLI runs in a terminal, its model is a local stand-in, and the
;; test types into both it and Emacs.  Tests of what the CLI does run with any
;; Emacs: what Emacs does then is tested in review-test.el.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defun gemini-companion-cli-test--wait-file (file text)
  "Wait until FILE has TEXT, as written by the CLI."
  (gemini-companion-test-wait
   (format "%S in %s" text file)
   (lambda () (and (file-exists-p file)
                   (equal (gemini-companion-test-read file) text)))))

(defmacro gemini-companion-cli-test--with-change (spec old new &rest body)
  "Run BODY while an Emacs shows the change of a.txt from OLD to NEW by a CLI.
SPEC is (EMACS CLI FILE), variables for these."
  (declare (indent 3) (debug ((symbolp symbolp symbolp) form form body)))
  (pcase-let ((`(,emacs ,cli ,file) spec))
    `(gemini-companion-test-with-emacs-and-cli (,emacs ,cli (list (cons "a.txt" ,old)))
       (let ((,file (gemini-companion-test-project ,emacs "a.txt")))
         (gemini-companion-test-cli-propose ,cli ,file ,new ,emacs)
         ,@body))))

;;;; Context

(ert-deftest gemini-companion-cli/status-lists-open-files ()
  "The CLI says that it is connected to Emacs, and which files are open."
  :tags '(any-emacs)
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli '(("b.txt" . "b\n") ("a.txt" . "a\n")))
    (gemini-companion-test-cli-wait-screen cli "2 open files")
    (gemini-companion-test-cli-submit cli "/ide status")
    (should (string-match-p
             "- b\\.txt (active)[^-]*- a\\.txt"
             (gemini-companion-test-cli-wait-screen
              cli "Connected to Emacs\\(?:.\\|\n\\)*- a\\.txt")))))

(ert-deftest gemini-companion-cli/the-model-gets-file-cursor-and-selection ()
  "The request to the model has what the user looks at."
  :tags '(any-emacs)
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli '(("b.txt" . "one\ntwo ä𝕏 words\n") ("a.txt" . "a\n")))
    (gemini-companion-test-keys emacs "C-n" "C-Space" "C-f" "C-f" "C-f" "C-f"
                                "C-f" "C-f")
    (gemini-companion-test-wait-eval emacs '(and (region-active-p)
                                                 (= (point) 11)))
    (gemini-companion-test-cli-wait-screen cli "2 open files")
    (gemini-companion-cli-test--wait-context
     cli `((activeFile (path . ,(gemini-companion-test-project emacs "b.txt"))
                       (cursor (line . 2) (character . 8))
                       (selectedText . "two ä𝕏"))
           (otherOpenFiles ,(gemini-companion-test-project emacs "a.txt"))))))

(defun gemini-companion-cli-test--wait-context (cli context)
  "Prompt CLI until its model receives CONTEXT.
The context is debounced, so the CLI may not have it at once: start a new
conversation and prompt again until it has."
  (let ((count 0))
    (gemini-companion-test-wait
     (lambda () (format "%S; the model has received %S" context
                        (mapcar #'gemini-companion-test-request-context
                                (gemini-companion-test-cli-requests cli))))
     (lambda ()
       (gemini-companion-test-cli-submit cli (format "question %d" count))
       (let ((request (gemini-companion-test-cli-wait-requests
                       cli (cl-incf count))))
         (or (equal (gemini-companion-test-request-context request) context)
             (progn (gemini-companion-test-cli-submit cli "/clear") nil)))))))

(ert-deftest gemini-companion-cli/each-model-gets-only-its-own-project ()
  "Two CLIs in two projects, and files outside: check all that models receive."
  :tags '(any-emacs)
  (gemini-companion-test-require-real-client)
  (gemini-companion-test-with-emacs (emacs :files '(("one.txt" . "1\n") ("again.txt" . "1\n")))
    (let ((other (gemini-companion-test-emacs-file emacs "elsewhere"))
          (outside (list (gemini-companion-test-emacs-file emacs "notes/diary.txt")
                         (expand-file-name "letter.txt" (gemini-companion-test-home emacs)))))
      (make-directory (expand-file-name ".git" other) t)
      (dolist (file (cons (expand-file-name "two.txt" other) outside))
        (gemini-companion-test-write file "secret words\n"))
      (dolist (file (append outside
                            (list (expand-file-name "two.txt" other)
                                  (gemini-companion-test-project emacs "again.txt")
                                  (gemini-companion-test-project emacs "one.txt")
                                  (car outside))))
        (gemini-companion-test-run emacs `(find-file ,file)))
      ;; A selection in a file that is sent to nobody.
      (gemini-companion-test-keys emacs "M-<" "C-Space" "M-f")
      (gemini-companion-test-with-cli (one (gemini-companion-test-cli-start emacs))
        (gemini-companion-test-with-cli (two (gemini-companion-test-cli-start emacs other))
          (gemini-companion-cli-test--wait-context
           one `((activeFile (path . ,(gemini-companion-test-project emacs "one.txt"))
                             (cursor (line . 1) (character . 1)))
                 (otherOpenFiles ,(gemini-companion-test-project emacs "again.txt"))))
          (gemini-companion-cli-test--wait-context
           two `((activeFile (path . ,(expand-file-name "two.txt" other))
                             (cursor (line . 1) (character . 1)))))
          (pcase-dolist (`(,cli . ,foreign) `((,one "two\\.txt") (,two "one\\.txt" "again\\.txt")))
            (let ((sent (gemini-companion-test-bytes
                         (gemini-companion-test-cli-file cli "requests.jsonl"))))
              (dolist (name (append '("diary" "letter" "secret words") foreign))
                (should-not (string-match-p name sent))))))))))

;;;; Edits

(ert-deftest gemini-companion-cli/an-accepted-edit-is-written ()
  "An edit accepted in Emacs, after a change there, is written exactly."
  (gemini-companion-cli-test--with-change (emacs cli file) "one\ntwo\n" "one\nzwei 漢字\n"
    (gemini-companion-test-accept emacs "drei ✓")
    (gemini-companion-cli-test--wait-file file "one\nzwei 漢字\ndrei ✓")
    (gemini-companion-test-cli-wait-screen cli "All done")
    (gemini-companion-test-wait-no-review emacs)
    (let ((response (car (gemini-companion-test-request-responses
                          (gemini-companion-test-cli-wait-requests cli 2)))))
      (should (string-match-p "User modified the `content` to be: one\n"
                              (alist-get 'output response))))
    (gemini-companion-test-wait-eval
     emacs '(equal (buffer-string) "one\nzwei 漢字\ndrei ✓"))))

(ert-deftest gemini-companion-cli/an-accepted-edit-can-be-undone-from-the-history ()
  "What the CLI has written is undone, byte for byte."
  (let ((before "\ufeffone\r\ntwo\nthree"))
    (gemini-companion-test-with-emacs-and-cli (emacs cli `(("a.txt" . ,before)))
      (let ((file (gemini-companion-test-project emacs "a.txt")))
        (gemini-companion-test-cli-propose cli file "another\n" emacs)
        (gemini-companion-test-accept emacs)
        (gemini-companion-test-wait-screen emacs "a\\.txt has a byte order mark, which .* would drop")
        (gemini-companion-test-keys emacs "y")
        (gemini-companion-test-cli-wait-screen cli "All done")
        (gemini-companion-test-wait-no-review emacs)
        (should-not (equal (gemini-companion-test-read file) before))
        (gemini-companion-test-m-x emacs "gemini-companion-history-list" "accepted +project/a")
        (gemini-companion-test-press emacs "u" "(y or n)")
        (gemini-companion-test-keys emacs "y")
        (gemini-companion-cli-test--wait-file file before)
        (gemini-companion-test-wait-screen emacs "undone +project/a")
        (gemini-companion-test-wait-eval
         emacs '(with-current-buffer "a.txt"
                  (string-suffix-p "two\nthree"
                                   (string-replace "\r" "" (buffer-string)))))))))

(ert-deftest gemini-companion-cli/a-rejected-edit-leaves-the-file-unchanged ()
  "An edit rejected in Emacs is cancelled in the CLI."
  :tags '(any-emacs)
  (gemini-companion-cli-test--with-change (emacs cli file) "one\n" "two\n"
    (gemini-companion-test-reject emacs)
    (gemini-companion-test-cli-wait-screen cli "cancelled")
    (gemini-companion-test-wait-no-review emacs)
    (should (equal (gemini-companion-test-read file) "one\n"))
    ;; The CLI still works.
    (gemini-companion-test-cli-submit cli "/ide status" "Connected to Emacs")))

(ert-deftest gemini-companion-cli/an-edit-that-is-written-although-it-was-rejected ()
  "The CLI does so if it is told to accept everything while it asks."
  :tags '(any-emacs)
  (gemini-companion-test-with-emacs-and-cli (emacs cli '(("a.txt" . "one\n")))
    (gemini-companion-test-cli-propose
     cli (gemini-companion-test-project emacs "a.txt") "two\n" emacs)
    (gemini-companion-test-cli-wait-screen cli "● 1\\. Allow once")
    (gemini-companion-test-cli-keys cli "C-y" "Down")
    (gemini-companion-test-cli-wait-screen cli "● 2\\. ")
    (gemini-companion-test-reject emacs)
    (gemini-companion-test-wait-screen emacs "has written the change to a\\.txt that you rejected")
    (gemini-companion-test-wait-eval
     emacs '(with-current-buffer "a.txt" (equal (buffer-string) "two\n")))
    ;; It asks again.
    (gemini-companion-test-cli-wait-screen cli "YOLO")
    (gemini-companion-test-cli-press cli "C-y" "to accept edits")))

(ert-deftest gemini-companion-cli/yes-in-the-cli-writes-the-edited-text ()
  "A yes in the CLI closes the review and writes its text."
  :tags '(any-emacs)
  (gemini-companion-cli-test--with-change (emacs cli file) "one\n" "two\n"
    (gemini-companion-test-append-to-proposal emacs "edited")
    (gemini-companion-test-cli-answer cli "Enter")
    (gemini-companion-cli-test--wait-file file "two\nedited")
    (gemini-companion-test-wait-no-review emacs)
    (gemini-companion-test-cli-wait-screen cli "All done")))

(ert-deftest gemini-companion-cli/no-in-the-cli-closes-the-review ()
  "Escape in the CLI closes the review and leaves the file unchanged."
  :tags '(any-emacs)
  (gemini-companion-cli-test--with-change (emacs cli file) "one\n" "two\n"
    (gemini-companion-test-cli-answer cli "Escape")
    (gemini-companion-test-cli-wait-screen cli "cancelled")
    (gemini-companion-test-wait-no-review emacs)
    (should (equal (gemini-companion-test-read file) "one\n"))))

(ert-deftest gemini-companion-cli/quitting-the-cli-closes-the-review ()
  "The review of a CLI that its user quits is closed."
  :tags '(any-emacs)
  (gemini-companion-cli-test--with-change (emacs cli file) "one\n" "two\n"
    (gemini-companion-test-cli-wait-screen cli "Allow once")
    (gemini-companion-test-end-process (gemini-companion-test-cli-pid cli)
                                       'SIGHUP)
    (gemini-companion-test-wait-no-review emacs)
    (should (equal (gemini-companion-test-read file) "one\n"))))

(ert-deftest gemini-companion-cli/replace-keeps-crlf ()
  "A file with CRLF line endings keeps them, also with edits in the review."
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli '(("dos.txt" . "one\r\ntwo\r\nthree\r\n")))
    (let ((file (gemini-companion-test-project emacs "dos.txt")))
      (gemini-companion-test-cli-script
       cli `("replace" :file_path ,file :instruction "Say it in German."
             :old_string "two" :new_string "zwei")
       "All done")
      (gemini-companion-test-cli-submit cli "please replace")
      (let ((review (gemini-companion-test-wait-review emacs)))
        (should (equal (alist-get 'current review) "one\ntwo\nthree\n"))
        (should (equal (alist-get 'proposal review) "one\nzwei\nthree\n")))
      ;; With `replace' the CLI itself restores the newline at the end.
      (gemini-companion-test-accept emacs "four ä")
      (gemini-companion-cli-test--wait-file
       file "one\r\nzwei\r\nthree\r\nfour ä\r\n")
      (gemini-companion-test-cli-wait-screen cli "All done")
      (gemini-companion-test-wait-eval
       emacs '(and (equal (buffer-string) "one\nzwei\nthree\nfour ä\n")
                   (eq (coding-system-eol-type buffer-file-coding-system)
                       1))))))

(ert-deftest gemini-companion-cli/a-new-file-in-a-new-directory ()
  "A file in a directory that does not exist can be reviewed and written."
  (gemini-companion-test-with-emacs-and-cli (emacs cli '(("a.txt" . "one\n")))
    (let ((file (gemini-companion-test-project emacs "sub/new ä.txt")))
      (gemini-companion-test-cli-propose cli file "hello\n" emacs)
      (gemini-companion-test-accept emacs)
      (gemini-companion-cli-test--wait-file file "hello\n"))))

(ert-deftest gemini-companion-cli/the-cli-goes-on-when-emacs-ends ()
  "When Emacs ends during a review the CLI sees a rejection and goes on."
  :tags '(any-emacs)
  (gemini-companion-cli-test--with-change (emacs cli file) "one\n" "two\n"
    (gemini-companion-test-exit emacs)
    (gemini-companion-test-cli-wait-screen cli "cancelled")
    (should (equal (gemini-companion-test-read file) "one\n"))
    (gemini-companion-test-cli-wait-screen cli "Type your message")))

;;;; Several CLIs, links and terminals of Emacs

(ert-deftest gemini-companion-cli/two-clis-change-one-file ()
  "Two CLIs propose changes of one file; each receives its own outcome.
The second review shows that the file has changed since it was proposed."
  :tags '(any-emacs)
  (gemini-companion-test-with-emacs-and-cli (emacs cli '(("a.txt" . "one\n")))
    (gemini-companion-test-with-cli (other (gemini-companion-test-cli-start emacs))
      (let ((file (gemini-companion-test-project emacs "a.txt")))
        (gemini-companion-test-cli-propose cli file "two\n" emacs)
        (gemini-companion-test-cli-propose other file "three\n")
        (gemini-companion-test-wait-eval emacs '(= 2 (gemini-companion-review-count)))
        (gemini-companion-test-accept emacs)
        (gemini-companion-cli-test--wait-file file "two\n")
        (gemini-companion-test-cli-wait-screen cli "All done")
        (gemini-companion-test-wait-review emacs "three\n")
        (gemini-companion-test-wait-screen emacs "Changed on disk")
        (gemini-companion-test-accept emacs)
        (gemini-companion-test-wait-screen emacs "\\[?c\\]?ancel")
        (gemini-companion-test-keys emacs "a")
        (gemini-companion-cli-test--wait-file file "three\n")
        (gemini-companion-test-cli-wait-screen other "All done")
        (gemini-companion-test-wait-no-review emacs)))))

(ert-deftest gemini-companion-cli/a-project-behind-a-symbolic-link ()
  "The CLI runs in a project under one name, Emacs has it open under another."
  :tags '(any-emacs)
  (gemini-companion-test-require-real-client)
  (dolist (names '(("link" . "real") ("real" . "link")))
    (ert-info ((format "Emacs in %s, the CLI in %s" (car names) (cdr names)))
      (gemini-companion-test-with-emacs (emacs :files '(("real/a.txt" . "one\n")))
        (make-symbolic-link "real" (gemini-companion-test-project emacs "link"))
        (gemini-companion-test-visit emacs (concat (car names) "/a.txt"))
        (let* ((directory (gemini-companion-test-project emacs (cdr names)))
               (file (concat directory "/a.txt")))
          (gemini-companion-test-with-cli
              (cli (gemini-companion-test-cli-start emacs directory))
            (gemini-companion-test-cli-wait-screen cli "1 open file")
            (gemini-companion-test-cli-propose cli file "two\n" emacs)
            (gemini-companion-test-accept emacs)
            (gemini-companion-cli-test--wait-file file "two\n")
            (gemini-companion-test-wait-eval
             emacs '(with-current-buffer "a.txt" (equal (buffer-string) "two\n")))))))))

(defun gemini-companion-cli-test--accept-from-terminal (emacs)
  "Accept the review on the screen of EMACS while its terminal is selected."
  (should (equal (gemini-companion-test-eval emacs '(with-current-buffer (window-buffer)
                                                      major-mode))
                 'term-mode))
  ;; Without C-c the terminal gets the keys.
  (gemini-companion-test-press emacs "C-c M-x" '(active-minibuffer-window))
  (gemini-companion-test-type emacs "gemini-companion-accept" "Enter"))

(ert-deftest gemini-companion-cli/in-a-terminal-inside-emacs ()
  "In a terminal of Emacs the CLI finds this Emacs.
The review appears beside the terminal, which still works."
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli '(("a.txt" . "one\n"))
             #'gemini-companion-test-cli-start-in-term)
    (let ((file (gemini-companion-test-project emacs "a.txt")))
      (gemini-companion-test-cli-propose cli file "two\n" emacs)
      (gemini-companion-cli-test--accept-from-terminal emacs)
      (gemini-companion-cli-test--wait-file file "two\n")
      (gemini-companion-test-wait-no-review emacs)
      (gemini-companion-test-cli-wait-screen cli "All done"))))

(ert-deftest gemini-companion-cli/in-a-terminal-of-one-of-two-emacsen ()
  "Of two Emacsen with the project open, the CLI chooses the one it runs in.
Otherwise it would choose the one with the larger process id."
  (gemini-companion-test-require-real-client)
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (let ((file (gemini-companion-test-project emacs "a.txt"))
          (shared (list (concat "TMPDIR="
                                (gemini-companion-test-tmpdir emacs)))))
      (gemini-companion-test-with-emacs (younger :environment shared)
        (gemini-companion-test-visit younger file)
        (gemini-companion-test-wait
         "a second discovery file"
         (lambda ()
           (= 2 (length (gemini-companion-test-discovery-files emacs)))))
        (gemini-companion-test-with-cli
            (cli (gemini-companion-test-cli-start-in-term emacs))
          (gemini-companion-test-cli-propose cli file "two\n" emacs)
          (should-not (gemini-companion-test-review younger))
          (gemini-companion-cli-test--accept-from-terminal emacs)
          (gemini-companion-cli-test--wait-file file "two\n"))))))

(ert-deftest gemini-companion-cli/what-it-does-is-in-any-mode-line ()
  "Users write the name of a buffer there as a list, a form or a string."
  (gemini-companion-test-with-emacs (emacs)
    (let ((names '(("%b") (:eval (buffer-name)) "%b")))
      (should
       (equal
        (gemini-companion-test-eval
         emacs
         `(let ((before (default-value 'mode-line-buffer-identification)))
            (require 'gemini-companion-cli-list)
            (unwind-protect
                (cl-letf (((symbol-function 'gemini-companion-cli-list--label)
                           (lambda () " works")))
                  (mapcar (lambda (name)
                            (setq-default mode-line-buffer-identification name)
                            (with-temp-buffer
                              (rename-buffer "*gemini: p*")
                              (gemini-companion-cli-list-label-terminal (current-buffer))
                              (substring-no-properties
                               (format-mode-line mode-line-buffer-identification
                                                 nil nil (current-buffer)))))
                          ',names))
              (setq-default mode-line-buffer-identification before))))
        (make-list 3 "*gemini: p* works"))))))

;;; cli-test.el ends here

;;; gemini-companion-cli-terminals-test.el --- Tests of choosing a terminal emulator  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A fake Eat is installed from a package archive in a directory.  Each test
;; gives the user's answer, and an unexpected question fails the test.

;;; Code:

(require 'ert)
(require 'package)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-cli-terminals-test--with (answer &rest body)
  "Evaluate BODY in an Emacs without packages, answering questions with ANSWER.
It is `yes', `no' or, if nothing may be asked, nil.  The init file is the
file custom.el of a new project.  The only package archive, NonGNU ELPA, was
not fetched yet."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-project
     (let* ((gemini-companion-terminal 'auto)
            (gemini-companion-cli-terminals--offered nil)
            (custom-file (gemini-companion-test-file "custom.el" ";; mine\n"))
            (user-init-file custom-file)
            (package-user-dir (gemini-companion-test-file "elpa"))
            (package-archives (list (cons "nongnu" (gemini-companion-test-file "archive/"))))
            (package-archive-contents nil)
            (package-alist nil)
            (package--initialized nil)
            (package-activated-list nil)
            (package-selected-packages nil)
            (package-check-signature nil)
            (package-enable-at-startup t)
            (text-quoting-style 'grave)
            ;; Otherwise package.el handles no errors.
            (debug-on-error nil)
            (load-path (seq-remove (lambda (directory)
                                     (string-match-p "/elpa-src\\|/elpa/" directory))
                                   load-path))
            (saved (mapcar (lambda (option) (cons option (get option 'saved-value)))
                           '(gemini-companion-terminal package-selected-packages)))
            ;; Another test may have loaded it.
            (loaded (memq 'vterm features)))
       (unwind-protect
           (progn
             (setq features (remq 'vterm features))
             (gemini-companion-test-with-answer ,answer ,@body))
         (setq features (append (and loaded '(vterm)) (remq 'eat features)))
         (pcase-dolist (`(,option . ,value) saved)
           (put option 'saved-value value))))))

(defun gemini-companion-cli-terminals-test--archive (text)
  "Put an Eat with TEXT into the package archive."
  (gemini-companion-test-file "archive/eat-1.0.el" (concat ";;; eat.el --- Not Eat  -*- lexical-binding: t; -*-
;; Version: 1.0
;;; Code:
" text "
(provide 'eat)
;;; eat.el ends here
"))
  (gemini-companion-test-file "archive/archive-contents"
                              "(1 (eat . [(1 0) nil \"Not Eat\" single nil]))"))

(defun gemini-companion-cli-terminals-test--offer ()
  "Offer a better terminal emulator as if a CLI was run; return the result."
  (let ((noninteractive nil))
    (gemini-companion-cli-terminals-offer)))

(ert-deftest gemini-companion-cli-terminals/a-yes-installs-and-uses-eat ()
  "Only package.el saves something, as the best emulator is the default."
  (gemini-companion-cli-terminals-test--with 'yes
    (gemini-companion-cli-terminals-test--archive "(defvar gemini-companion-cli-terminals-test--eat t)")
    (should (gemini-companion-cli-terminals-test--offer))
    (should (equal gemini-companion-test-questions
                   '("Term shows few colors: download and install the terminal Eat? ")))
    (should-not (file-exists-p package-user-dir))
    (gemini-companion-cli-terminals-install-eat)
    (should (eq (gemini-companion-cli-terminals-choose) 'eat))
    (should (eq gemini-companion-terminal 'auto))
    (should (equal package-selected-packages '(eat)))
    (should-not (string-search "gemini" (gemini-companion-test-read custom-file)))
    (should-not (gemini-companion-cli-terminals-test--offer))
    (should (= (length gemini-companion-test-questions) 1))))

(ert-deftest gemini-companion-cli-terminals/after-a-no-term-is-used-until-there-is-a-better-one ()
  "Nobody is asked again, and the init file is left alone."
  (gemini-companion-cli-terminals-test--with 'no
    (should-not (gemini-companion-cli-terminals-test--offer))
    (should (eq (gemini-companion-cli-terminals-choose) 'term))
    (should (equal (gemini-companion-test-read custom-file) ";; mine\n"))
    (should (equal (car gemini-companion-test-messages)
                   "Using Term until you install Eat, vterm or Ghostel"))
    ;; The next session.
    (setq gemini-companion-cli-terminals--offered nil)
    (should-not (gemini-companion-cli-terminals-test--offer))
    (should (= (length gemini-companion-test-questions) 1))
    (provide 'vterm)
    (unwind-protect (should (eq (gemini-companion-cli-terminals-choose) 'vterm))
      (setq features (delq 'vterm features)))))

(ert-deftest gemini-companion-cli-terminals/eat-is-offered-only-if-an-archive-may-have-it ()
  "Nothing is fetched to find out."
  (pcase-dolist (`(,archive . ,offered) '(("nongnu" . t) ("gnu" . nil)))
    (ert-info (archive)
      (gemini-companion-cli-terminals-test--with (if offered 'yes nil)
        (setq package-archives (list (cons archive (gemini-companion-test-file "archive/"))))
        (cl-letf (((symbol-function 'package-refresh-contents)
                   (lambda (&rest _) (ert-fail "An archive was asked"))))
          (should (eq offered (and (gemini-companion-cli-terminals-test--offer) t))))
        (unless offered
          (should (equal gemini-companion-test-messages
                         '("Term shows few colors; the packages Eat and vterm show all of them")))
          (should (eq (gemini-companion-cli-terminals-choose) 'term)))))))

(ert-deftest gemini-companion-cli-terminals/after-a-failure-term-is-used ()
  "Emacs says why and asks again only in the next session."
  (pcase-dolist (`(,archive . ,install)
                 `((nil . nil)
                   (("(error \"Broken\")") . nil)
                   ;; The archive lists it, but cannot be reached when it is downloaded.
                   (("nil") . unreachable)
                   (("nil") . ,(lambda (&rest _) (signal 'quit nil)))))
    (gemini-companion-cli-terminals-test--with 'yes
      (when archive
        (apply #'gemini-companion-cli-terminals-test--archive archive))
      (should (gemini-companion-cli-terminals-test--offer))
      (let ((windows (window-list)))
        (when (eq install 'unreachable)
          (delete-file (gemini-companion-test-file "archive/eat-1.0.el"))
          (setq install nil))
        (cl-letf (((symbol-function 'package-install)
                   (or install (symbol-function 'package-install))))
          (gemini-companion-cli-terminals-install-eat))
        (should (equal windows (window-list))))
      (should (eq (gemini-companion-cli-terminals-choose) 'term))
      (unless (equal archive '("(error \"Broken\")"))
        (should-not package-selected-packages)
        (should (equal (gemini-companion-test-read custom-file) ";; mine\n"))
        (should (string-match-p
                 (format "\\`Using Term, because installing Eat failed: \\(?:%s\\)\\. \
.*M-x package-install RET eat\\'"
                         (if archive "Opening input file.*\\|Error retrieving.*\\|Quit"
                           "No readable package archive has it"))
                 (car gemini-companion-test-messages))))
      (should (eq gemini-companion-terminal 'auto))
      (should-not (gemini-companion-cli-terminals-test--offer))
      (setq gemini-companion-cli-terminals--offered nil)
      (should (gemini-companion-cli-terminals-test--offer)))))

(ert-deftest gemini-companion-cli-terminals/nothing-is-asked-when-that-makes-no-sense ()
  (gemini-companion-cli-terminals-test--with nil
    ;; In batch mode.
    (should-not (gemini-companion-cli-terminals-offer))
    ;; The user has chosen a terminal, or a good one is installed.
    (let ((gemini-companion-terminal 'term))
      (should-not (gemini-companion-cli-terminals-test--offer)))
    (provide 'vterm)
    (unwind-protect
        (progn (should-not (gemini-companion-cli-terminals-test--offer))
               (should (eq (gemini-companion-cli-terminals-choose) 'vterm)))
      (setq features (delq 'vterm features)))
    (should-not gemini-companion-test-messages)
    ;; If packages are not installed by package.el, a message names the emulators.
    (let ((package-enable-at-startup nil))
      (should-not (gemini-companion-cli-terminals-test--offer))
      (should (equal gemini-companion-test-messages
                     '("Term shows few colors; the packages Eat and vterm show all of them"))))))

(ert-deftest gemini-companion-cli-terminals/a-missing-emulator-is-named ()
  (gemini-companion-cli-terminals-test--with nil
    (pcase-dolist (`(,gemini-companion-terminal . ,why)
                   '((eat . "is not installed")
                     (ielm . "`gemini-companion-cli-terminals' does not describe")))
      (should (equal (cadr (should-error (gemini-companion-cli-terminals-choose) :type 'user-error))
                     (format "`gemini-companion-terminal' is `%s', which %s"
                             gemini-companion-terminal why))))))

;;; gemini-companion-cli-terminals-test.el ends here

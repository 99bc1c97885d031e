;;; context-test.el --- The context in Gemini CLI's own client  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A user works in an interactive Emacs; after each step the real client's
;; `ideContextStore' must have the expected context.

;;; Code:

(require 'gemini-companion-test-client)
(require 'gemini-companion-test-review)

(defun gemini-companion-context-e2e--known (client)
  "Return the files that CLIENT knows of, the active one first.
That is a list (NAME LINE CHARACTER [SELECTION]) for the active file, and
the names of the others."
  (mapcar (lambda (file)
            (let ((name (file-name-nondirectory (alist-get 'path file)))
                  (cursor (alist-get 'cursor file))
                  (selection (alist-get 'selectedText file)))
              (if (not (eq (alist-get 'isActive file) t))
                  name
                `(,name ,(alist-get 'line cursor) ,(alist-get 'character cursor)
                        ,@(and selection (list selection))))))
          (gemini-companion-test-client-files client)))

(defun gemini-companion-context-e2e--check-steps (emacs client steps)
  "Let the user of EMACS do STEPS, and check what CLIENT knows after each.
A step is a list (KNOWN . ACTIONS).  An action is a vector of keys, a
string to type, (wait FORM), `quit', or another form to be evaluated as a
command."
  (pcase-dolist (`(,known . ,actions) steps)
    (dolist (action actions)
      (pcase action
        ((pred vectorp) (apply #'gemini-companion-test-keys emacs (append action nil)))
        ((pred stringp) (gemini-companion-test-type emacs action))
        ('quit (gemini-companion-test-quit emacs))
        (`(wait ,form) (gemini-companion-test-wait-eval emacs form))
        (_ (gemini-companion-test-run emacs `(progn ,action nil)))))
    (gemini-companion-test-wait
     (lambda () (format "%S after %S; but it knows %S" known actions
                        (gemini-companion-context-e2e--known client)))
     (lambda () (equal (gemini-companion-context-e2e--known client) known)))))

(defmacro gemini-companion-context-e2e--with (spec &rest body)
  "Run BODY with an Emacs that visits a.txt, and the real client.
SPEC is (EMACS CLIENT FILES), as for other tests."
  (declare (indent 1) (debug ((symbolp symbolp form) body)))
  (pcase-let ((`(,emacs ,client ,files) spec))
    `(progn
       (gemini-companion-test-require-real-client)
       (gemini-companion-test-with-emacs (,emacs :files ,files)
         (gemini-companion-test-visit ,emacs "a.txt")
         (gemini-companion-test-with-client (,client 'real ,emacs)
           ,@body)))))

(ert-deftest gemini-companion-context-e2e/cursor-and-selection ()
  "Point and all kinds of selections, as clients count them."
  (gemini-companion-context-e2e--with
      (emacs client '(("a.txt" . "one\nä𝕏\ttwo\nthree\nfour\n")))
    (gemini-companion-context-e2e--check-steps
     emacs client
     '(((("a.txt" 1 1)))
       ((("a.txt" 2 1)) ["C-n"])
       ((("a.txt" 2 4)) ["C-f" "C-f"])
       ((("a.txt" 2 8 "\ttwo")) ["C-Space" "C-e"])
       ((("a.txt" 2 4 "\ttwo")) ["C-x" "C-x"])
       ((("a.txt" 2 4)) ["C-g"])
       ;; Lines count from the start of the file.
       ((("a.txt" 4 2)) ["C-n" "C-a"] (narrow-to-region (point) (point-max)) ["C-n" "C-f"])
       ((("a.txt" 3 1)) ["M-<"])
       ((("a.txt" 1 1)) ["C-x" "n" "w" "M-<"])
       ;; A rectangle.
       ((("a.txt" 4 3 "n\n𝕏\nh\no"))
        ["M-<" "C-f" "C-x" "Space" "C-n" "C-n" "C-n" "C-f"])
       ((("a.txt" 4 3)) ["C-g"])
       ((("a.txt" 1 1 "one\nä𝕏\ttwo\nthree\nfour\n")) ["C-x" "h"])
       ((("a.txt" 1 1)) ["C-g"])
       ((("a.txt" 1 2)) ["C-f"])))))

(ert-deftest gemini-companion-context-e2e/a-click-in-another-window-keeps-the-selection ()
  "As in that of a terminal.  It ends when the user comes back."
  (gemini-companion-context-e2e--with (emacs client '(("a.txt" . "one\ntwo\nthree\n")))
    (gemini-companion-context-e2e--check-steps
     emacs client
     `(((("a.txt" 1 1)) (xterm-mouse-mode 1) (display-buffer "*scratch*"))
       ((("a.txt" 2 2 "ne\nt")) "\e[<0;2;1M" "\e[<32;2;2M" "\e[<0;2;2m")
       ((("a.txt" 3 2 "ne\nt"))
        "\e[<0;100;4M" "\e[<0;100;4m" (wait (equal (buffer-name) "*scratch*"))
        (with-current-buffer "a.txt" (save-excursion (goto-char (point-min)) (insert "zero\n"))))
       ((("a.txt" 3 2)) ["C-x" "o"])
       ;; A rectangle ends, as Emacs shows.
       ((("a.txt" 4 3 "w\nh")) ["C-x" "Space" "C-n" "C-f"])
       ((("a.txt" 5 3)) "\e[<0;100;4M" "\e[<0;100;4m" (wait (equal (buffer-name) "*scratch*"))
        (with-current-buffer "a.txt" (save-excursion (goto-char (point-min)) (insert "zero\n"))))))))

(ert-deftest gemini-companion-context-e2e/files ()
  "Files are opened, closed, renamed, deleted, private or outside."
  (gemini-companion-context-e2e--with
      (emacs client '(("a.txt" . "a\naa\n") ("b.txt" . "b\n") ("c.txt" . "c\n")
                      (".env" . "SECRET=1\n") ("sub/d.txt" . "d\n")))
    (gemini-companion-context-e2e--check-steps
     emacs client
     '(((("a.txt" 1 1)))
       ((("b.txt" 1 1) "a.txt") ["C-x" "C-f"] "b.txt" ["Enter"])
       ((("c.txt" 1 1) "b.txt" "a.txt") (find-file "c.txt"))
       ;; A file that is not shown is not active.
       ((("c.txt" 1 1) "b.txt" "a.txt" "d.txt") (find-file-noselect "sub/d.txt"))
       ((("a.txt" 2 1) "c.txt" "b.txt" "d.txt")
        ["C-x" "b"] "a.txt" ["Enter" "C-n"])
       ;; The last file stays active in buffers without a file, in the minibuffer
       ;; and in help.
       ((("a.txt" 2 1) "c.txt" "b.txt" "d.txt")
        ["C-x" "b"] "*scratch*" ["Enter" "M-x"]
        (wait (active-minibuffer-window)) "forward")
       ((("a.txt" 2 1) "c.txt" "b.txt" "d.txt")
        quit (help-with-tutorial))
       ((("b.txt" 1 1) "a.txt" "c.txt" "d.txt")
        ["C-x" "2" "C-x" "o"] (switch-to-buffer "b.txt"))
       ;; A private file is not listed.
       (("b.txt" "a.txt" "c.txt" "d.txt") (find-file ".env"))
       ((("b.txt" 1 1) "a.txt" "c.txt" "d.txt") (switch-to-buffer "b.txt"))
       ;; Renamed, by Dired and without.
       ((("b.txt" 1 1) "A.txt" "c.txt" "d.txt")
        (require (quote dired-aux))
        (dired-rename-file (expand-file-name "a.txt") (expand-file-name "A.txt") nil))
       ((("B.txt" 1 1) "A.txt" "c.txt" "d.txt") (write-file "B.txt"))
       (("A.txt" "c.txt" "d.txt") (delete-file "B.txt"))
       ((("c.txt" 1 1) "A.txt" "d.txt") (switch-to-buffer "c.txt"))
       ;; The buffer of the active file is killed.
       (("A.txt" "d.txt") (kill-buffer "c.txt") (switch-to-buffer "*scratch*"))
       ;; An indirect buffer counts as its base.
       ((("A.txt" 2 2) "d.txt") (switch-to-buffer (make-indirect-buffer "A.txt" "other" t))
        (goto-char (1- (point-max))) ["C-b"])
       (() (gemini-companion-toggle-context))
       ((("A.txt" 2 2) "d.txt") (gemini-companion-toggle-context))
       (() (progn (kill-buffer "A.txt") (kill-buffer "d.txt")))))))

;;;; Comparison with another way to count

(defun gemini-companion-context-e2e--random-form (count)
  "Return a form that compares the context of COUNT random buffers.
Its value is a list of the differences."
  `(let ((differing nil)
         (transient-mark-mode t))
     (load ,(expand-file-name "test/lisp/gemini-companion-position-test.el"
                              gemini-companion-test-root)
           nil t)
     (random "context")
     (dotimes (n ,count)
       (let ((inhibit-read-only t))
         (widen)
         (erase-buffer)
         (insert (gemini-companion-position-test--random-text (random 300)))
         (let* ((mark (1+ (random (1+ (buffer-size)))))
                (point (1+ (random (1+ (buffer-size)))))
                (active (zerop (random 2))))
           (goto-char point)
           (set-mark mark)
           (setq mark-active active)
           (when (zerop (random 3))
             (narrow-to-region (min point mark) (max point mark)))
           (let ((gathered (append (substring (car (gemini-companion-context-gather)) 3) nil))
                 (counted (append (gemini-companion-position-test--count point)
                                  (list (and active (/= point mark)
                                             (buffer-substring-no-properties
                                              (min point mark) (max point mark)))))))
             (unless (equal gathered counted)
               (push (list n gathered counted) differing))))))
     (widen)
     (set-buffer-modified-p nil)
     differing))

(ert-deftest gemini-companion-context-e2e/random-buffers ()
  "In 1 000 random buffers the context agrees with counting one by one."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-with-client (client 'fake emacs)
      (gemini-companion-test-wait "a first context"
                                  (lambda () (gemini-companion-test-client-files client)))
      (should-not (gemini-companion-test-run
                   emacs (gemini-companion-context-e2e--random-form 1000) 60)))))

;;; context-test.el ends here

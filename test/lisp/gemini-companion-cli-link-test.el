;;; gemini-companion-cli-link-test.el --- Tests of mentioned files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-link)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-cli-link-test--with (text &rest body)
  "Evaluate BODY in a terminal with TEXT of a CLI in a project with two files."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-project
     (gemini-companion-test-file "src/a.py" "one\ntwo\nthree\n")
     (gemini-companion-test-file "b.txt" "x\n")
     (save-window-excursion
       (with-temp-buffer
         (setq gemini-companion-cli-run-root gemini-companion-test-project)
         (insert ,text)
         (cl-letf (((symbol-function 'gemini-companion-cli-send-terminal) #'current-buffer))
           ,@body)))))

(defun gemini-companion-cli-link-test--marked ()
  "Return the marked texts of the current buffer, in order."
  (mapcar (lambda (overlay) (buffer-substring (overlay-start overlay) (overlay-end overlay)))
          (sort (overlays-in (point-min) (point-max))
                (lambda (one other) (< (overlay-start one) (overlay-start other))))))

(ert-deftest gemini-companion-cli-link/what-names-a-file-is-marked ()
  "Once, however often it is displayed, and only until the CLI erases it."
  (gemini-companion-cli-link-test--with
      "│ See src/a.py:2:3 and ./src/a.py(3), @b.txt. │
  File \"src/a.py\", line 2, in f
/usr/include/nowhere.h:7: error, /usr/include/nowhere.h
src/none.py:1 and/or e.g. https://example.org/b.txt:80 src/ 1.5:2 ..\n"
    (let ((expected '("src/a.py:2:3" "./src/a.py(3" "src/a.py\", line 2"
                      "/usr/include/nowhere.h:7")))
      (dotimes (_ 2)
        (gemini-companion-cli-link--mark (point-min) (point-max))
        (should (equal (gemini-companion-cli-link-test--marked)
                       `(,@(seq-take expected 2) "b.txt" ,@(seq-drop expected 2)))))
      (goto-char (point-min))
      (forward-line)
      (delete-region (point-min) (point))
      (should (equal (gemini-companion-cli-link-test--marked) (seq-drop expected 2))))))

(ert-deftest gemini-companion-cli-link/names-with-wide-characters-are-marked-in-eat ()
  (gemini-companion-cli-link-test--with "請看 文書/說明.md:3。 和\n"
    (gemini-companion-test-file "文書/說明.md" "")
    (gemini-companion-test-widen-as-eat)
    (should (equal (mapcar #'car (gemini-companion-cli-link--all)) '("文書/說明.md:3")))))

(ert-deftest gemini-companion-cli-link/only-a-file-is-visited ()
  "A model may mention a pipe or a device, with a line."
  (gemini-companion-cli-link-test--with "see /dev/null:1\n"
    (gemini-companion-cli-link--mark (point-min) (point-max))
    (should (equal (cadr (should-error (button-activate (car (overlays-in 1 20))) :type 'user-error))
                   "There is no file /dev/null"))
    (should-not (find-buffer-visiting "/dev/null"))))

;; Next.js, Expo, Remix and others have such names; Emacs went to "/page.tsx" instead.
(ert-deftest gemini-companion-cli-link/directories-may-have-brackets ()
  (gemini-companion-cli-link-test--with
      "Edit app/[slug]/page.tsx => (app/[slug]/page.tsx:12), app/(group)/[a]/[b]/c.tsx(3,1)
users.$id.tsx:3 see (b.txt:3) and [x](b.txt)\n"
    (gemini-companion-test-file "app/[slug]/page.tsx" "")
    (gemini-companion-test-file "app/(group)/[a]/[b]/c.tsx" "")
    (gemini-companion-test-file "users.$id.tsx" "")
    (gemini-companion-cli-link--mark (point-min) (point-max))
    (should (equal (gemini-companion-cli-link-test--marked)
                   '("app/[slug]/page.tsx" "app/[slug]/page.tsx:12"
                     "app/(group)/[a]/[b]/c.tsx(3,1" "users.$id.tsx:3" "b.txt:3" "b.txt")))))

(ert-deftest gemini-companion-cli-link/nothing-is-asked-of-elsewhere ()
  "Neither of another machine, nor of a place outside of the project."
  (gemini-companion-cli-link-test--with
      "/ssh:nowhere.invalid:/x.c:1 /net/host/x.c ../../net/host/x.c ~nobody/x.c b.txt\n"
    (let ((asked nil))
      (cl-letf* ((real (symbol-function 'file-regular-p))
                 ((symbol-function 'file-regular-p)
                  (lambda (file) (push file asked) (funcall real file)))
                 ((symbol-function 'tramp-file-name-handler)
                  (lambda (&rest arguments) (ert-fail arguments))))
        (gemini-companion-cli-link--mark (point-min) (point-max)))
      (dolist (file asked)
        (should (string-prefix-p gemini-companion-test-project file)))
      (should (member "b.txt" (gemini-companion-cli-link-test--marked))))))

(ert-deftest gemini-companion-cli-link/a-click-visits-the-line ()
  (gemini-companion-cli-link-test--with "See src/a.py:2:3 here\n"
    (gemini-companion-test-file "src/a.py" "one\n\t\ttwo\n")
    (let ((terminal (current-buffer)))
      (switch-to-buffer terminal)
      (gemini-companion-cli-link--mark (point-min) (point-max))
      (let* ((overlay (car (overlays-at 8)))
             (click (lookup-key (overlay-get overlay 'keymap) [mouse-2]))
             (event (lambda (position)
                      (list 'mouse-2 (list (selected-window) position '(0 . 0) 0)))))
        (should (overlay-get overlay 'follow-link))
        (should-not (funcall click (funcall event 2)))
        (funcall click (funcall event 8))
        (with-current-buffer (window-buffer)
          (should (equal (buffer-name) "a.py"))
          (should (= (line-number-at-pos) 2))
          (should (looking-at-p "two"))) ; a tab is one character
        (should (get-buffer-window terminal))))))

;; Emacs went to the end of what was visible, and C-u C-SPC did not lead back.
(ert-deftest gemini-companion-cli-link/a-narrowed-buffer-is-widened-if-the-line-is-elsewhere ()
  (gemini-companion-cli-link-test--with "src/a.py:2 src/a.py:3\n"
    (goto-char (point-min))
    (let ((transient-mark-mode t)
          (one (gemini-companion-cli-link--next (point-max)))
          (other (gemini-companion-cli-link--next (point-max))))
      (find-file "src/a.py")
      (narrow-to-region 5 8)
      (gemini-companion-cli-link--visit one)
      (should (equal (list (buffer-narrowed-p) (line-number-at-pos nil t)) '(t 2)))
      (gemini-companion-cli-link--visit other)
      (should (equal (list (buffer-narrowed-p) (line-number-at-pos nil t)) '(nil 3)))
      (should (equal (list (mark t) mark-active) '(5 nil))))))

(ert-deftest gemini-companion-cli-link/the-command-offers-the-last-first ()
  (gemini-companion-cli-link-test--with "src/a.py:2\nb.txt\nsrc/a.py:3\nsrc/a.py:2\n/nowhere/x.c:1\n"
    (let ((choice nil) (offered nil))
      (cl-letf (((symbol-function 'completing-read)
                 (lambda (_ table &rest arguments)
                   (setq offered (all-completions "" table))
                   (or choice (nth 4 arguments)))))
        (should-error (gemini-companion-visit-mentioned) :type 'user-error)
        (should (equal offered '("/nowhere/x.c:1" "src/a.py:2" "src/a.py:3" "b.txt")))
        (setq choice "src/a.py:3")
        (gemini-companion-visit-mentioned)
        (should (equal (list (buffer-name) (line-number-at-pos)) '("a.py" 3)))))))

(ert-deftest gemini-companion-cli-link/names-on-a-host-need-a-line ()
  "Emacs asks the host for nothing until the user wants one."
  (with-temp-buffer
    (setq gemini-companion-cli-run-root "/ssh:nowhere.invalid:/src/")
    (insert "lib/a.c:12 lib/a.c ~/x.c:1")
    (goto-char (point-min))
    (cl-letf (((symbol-function 'tramp-file-name-handler)
               (lambda (operation &rest arguments)
                 (if (eq operation 'file-remote-p) "/ssh:nowhere.invalid:"
                   (ert-fail (cons operation arguments))))))
      (should (equal (nth 2 (gemini-companion-cli-link--next (point-max)))
                     "/ssh:nowhere.invalid:/src/lib/a.c"))
      ;; The home is one there.
      (should (equal (nth 2 (gemini-companion-cli-link--next (point-max)))
                     "/ssh:nowhere.invalid:~/x.c")))))

(provide 'gemini-companion-cli-link-test)
;;; gemini-companion-cli-link-test.el ends here

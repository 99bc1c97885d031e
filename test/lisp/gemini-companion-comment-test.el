;;; gemini-companion-comment-test.el --- Tests of comments on lines of files  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion)
(require 'gemini-companion-cli-send)
(require 'gemini-companion-comment)
(require 'gemini-companion-status)
(require 'gemini-companion-tool)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-comment-test--with (&rest body)
  "Evaluate BODY in a buffer that visits a.txt, which has four lines, in a project."
  (declare (indent 0) (debug t))
  `(gemini-companion-test-with-project
     (let ((gemini-companion-comment--gone nil)
           (inhibit-message t))
       (make-directory (gemini-companion-test-file ".git"))
       (switch-to-buffer
        (find-file-noselect (gemini-companion-test-file "a.txt" "one\ntwo\nthree\nfour\n")))
       (gemini-companion-mode 1)
       (gemini-companion-workspace-announce)
       ,@body)))

(defun gemini-companion-comment-test--add (line text &optional last)
  "Comment TEXT on LINE of the current buffer, or on the lines from it to LAST.
Return what was in the minibuffer at first."
  (let ((transient-mark-mode t)
        (initial nil))
    (goto-char (gemini-companion-ui-line-start line))
    (when last
      (set-mark (point))
      (goto-char (gemini-companion-ui-line-start (1+ last)))
      (activate-mark))
    (cl-letf (((symbol-function 'read-string)
               (lambda (_ &optional before &rest _) (setq initial before) text)))
      (gemini-companion-comment))
    initial))

(defun gemini-companion-comment-test--all ()
  "Return all comments on files, with the names of files and without overlays."
  (mapcar (pcase-lambda (`(,file ,first ,last ,_ ,text ,line ,_))
            (list (file-name-nondirectory file) first last line text))
          (gemini-companion-comment--all)))

(defun gemini-companion-comment-test--prompt (&optional directory)
  "Return what is added to a prompt of a CLI in DIRECTORY or the project."
  (gemini-companion-comment-add-to-prompt
   (gemini-companion-cli--make :directory (or directory gemini-companion-test-project))
   #'gemini-companion-tool-fits-p))

(defun gemini-companion-comment-test--shown ()
  "Return where the comments in the current buffer are shown, and as what."
  (mapcar (pcase-lambda (`(,_ ,_ ,_ ,_ ,_ ,overlay))
            (list (line-number-at-pos (overlay-end overlay) t)
                  (save-excursion (goto-char (overlay-end overlay)) (eolp))
                  (substring-no-properties (overlay-get overlay 'after-string))))
          (gemini-companion-comment-list (current-buffer))))

;;;; Commenting

(ert-deftest gemini-companion-comment/a-comment-does-not-change-the-buffer ()
  (gemini-companion-comment-test--with
    (let ((tick (buffer-modified-tick))
          (undo buffer-undo-list))
      (gemini-companion-comment-test--add 2 (propertize " why? " 'face 'bold 'display "x"))
      (should (equal-including-properties
               (gemini-companion-comment-test--all)
               '(("a.txt" 2 2 "two" "why?"))))
      (should (equal (gemini-companion-comment-test--shown) '((2 t " \n» why? "))))
      (should (equal (buffer-string) "one\ntwo\nthree\nfour\n"))
      (should-not (buffer-modified-p))
      (should (eq tick (buffer-modified-tick)))
      (should (eq undo buffer-undo-list)))))

(ert-deftest gemini-companion-comment/it-is-edited-and-removed ()
  (gemini-companion-comment-test--with
    (should-not (gemini-companion-comment-test--add 2 "why?" 3))
    ;; Anywhere in its lines.
    (should (equal (gemini-companion-comment-test--add 3 "how?") "why?"))
    (should (equal (gemini-companion-comment-test--all) '(("a.txt" 2 3 "two" "how?"))))
    (should-not (gemini-companion-comment-test--add 4 "four"))
    (should (equal (gemini-companion-comment-test--add 2 "  ") "how?"))
    (should (equal (gemini-companion-comment-test--all) '(("a.txt" 4 4 "four" "four"))))))

(ert-deftest gemini-companion-comment/it-is-kept-if-its-buffer-is-killed-meanwhile ()
  (gemini-companion-test-with-client client
    (let ((kill-ring nil))
      (dolist (place (list (find-file-noselect (gemini-companion-test-file "a.txt"))
                           (gemini-companion-review-buffer-proposal
                            (gemini-companion-test-propose client "b.txt" "2\n"))))
        (with-current-buffer place
          (cl-letf (((symbol-function 'gemini-companion-comment-read)
                     (lambda (&rest _)
                       (gemini-companion-ui-kill-buffer place)
                       "why?")))
            (should (string-search
                     "the comment is in the kill ring"
                     (cadr (should-error (call-interactively #'gemini-companion-comment)
                                         :type 'user-error)))))))
      (should (equal (mapcar #'substring-no-properties kill-ring) '("why?" "why?"))))))

(ert-deftest gemini-companion-comment/it-is-edited-though-its-first-line-is-out-of-sight ()
  "In Emacs 28, `line-number-at-pos' fails for a position outside of the narrowing."
  (gemini-companion-comment-test--with
    (gemini-companion-comment-test--add 1 "why?" 3)
    (narrow-to-region (gemini-companion-ui-line-start 3) (point-max))
    (should (equal (gemini-companion-comment-test--add 3 "how?") "why?"))
    (should (equal (gemini-companion-comment-test--all) '(("a.txt" 1 3 "one" "how?"))))))

(ert-deftest gemini-companion-comment/a-long-line-is-quoted-in-part ()
  (should (equal (gemini-companion-comment-format "a.txt" 1 1 (concat "  x" (make-string 9000 ?\s) "y")
                                                  "why?")
                 (concat "a.txt:1 `x" (make-string 196 ?\s) "…`: why?"))))

(ert-deftest gemini-companion-comment/words-that-are-selected-in-a-line-are-quoted ()
  "A paragraph may be one line, of which the beginning does not say what the comment is on."
  (gemini-companion-comment-test--with
    (let ((transient-mark-mode t))
      (goto-char (point-min))
      (insert (make-string 300 ?x) " a sentence. More\n")
      (cl-letf (((symbol-function 'read-string) (lambda (&rest _) "shorten")))
        (goto-char 302)
        (push-mark (+ (point) (length "a sentence.")) t t)
        (gemini-companion-comment)
        (should (equal (gemini-companion-comment-test--all)
                       '(("a.txt" 1 1 "a sentence." "shorten"))))
        ;; An edit of the comment keeps them.
        (gemini-companion-comment)
        (should (equal (gemini-companion-comment-test--all)
                       '(("a.txt" 1 1 "a sentence." "shorten"))))
        (gemini-companion-comments-clear)
        (gemini-companion-comments-restore)
        (should (equal (gemini-companion-comment-test--all)
                       '(("a.txt" 1 1 "a sentence." "shorten"))))
        ;; The model could not find words that are there no longer.
        (goto-char (point-min))
        (search-forward "sentence")
        (replace-match "clause")
        (should (string-suffix-p " a clause. More"
                                 (nth 3 (car (gemini-companion-comment-test--all)))))))))

(ert-deftest gemini-companion-comment/it-stays-at-its-lines ()
  (gemini-companion-comment-test--with
    (gemini-companion-comment-test--add 2 "why?")
    (goto-char (point-min))
    (insert "zero\n")
    (gemini-companion-comment-test--add 4 "three")
    (let ((lines (lambda () (mapcar (lambda (it) (seq-subseq it 1 4))
                                    (gemini-companion-comment-test--all)))))
      ;; What is typed at its end belongs to the line, but not the next line.
      (goto-char (gemini-companion-ui-line-start 3))
      (end-of-line)
      (insert "!")
      (should (equal (funcall lines) '((3 3 "two!") (4 4 "three"))))
      (insert "\nnew")
      (should (equal (funcall lines) '((3 3 "two!") (5 5 "three"))))
      (should (cl-every #'cadr (gemini-companion-comment-test--shown)))
      ;; A line before it.
      (goto-char (gemini-companion-ui-line-start 3))
      (insert "before\n")
      (should (equal (funcall lines) '((4 4 "two!") (6 6 "three"))))
      ;; The line is deleted: the comment is at the nearest place.
      (narrow-to-region (point) (line-end-position))
      (delete-region (point-min) (point-max))
      (widen)
      (should (equal (funcall lines) '((4 4 "") (6 6 "three"))))
      (goto-char (gemini-companion-ui-line-start 4))
      (delete-char 1)
      (should (equal (funcall lines) '((4 4 "new") (5 5 "three"))))
      (should (cl-every #'cadr (gemini-companion-comment-test--shown)))
      (set-buffer-modified-p nil))))

(ert-deftest gemini-companion-comment/it-survives-reverting ()
  (gemini-companion-comment-test--with
    (gemini-companion-comment-test--add 2 "two")
    (gemini-companion-comment-test--add 4 "four")
    (gemini-companion-test-file "a.txt" "zero\none\ntwo\nthree\nfour\n")
    (revert-buffer t t)
    (should (equal (gemini-companion-comment-test--all)
                   '(("a.txt" 3 3 "two" "two") ("a.txt" 5 5 "four" "four"))))
    ;; Without the lines, they are at the nearest place.
    (gemini-companion-test-file "a.txt" "zero\n")
    (revert-buffer t t)
    (should (= (length (gemini-companion-comment-test--all)) 2))
    (should (cl-every #'cadr (gemini-companion-comment-test--shown)))
    ;; Still, what is typed at the end of a line is before its comment.
    (goto-char (point-min))
    (end-of-line)
    (insert "x")
    (should (cl-every #'cadr (gemini-companion-comment-test--shown)))
    (set-buffer-modified-p nil)))

(ert-deftest gemini-companion-comment/it-survives-what-happens-while-it-is-typed ()
  (gemini-companion-comment-test--with
    (let ((buffer (current-buffer)))
      (cl-letf (((symbol-function 'read-string)
                 (lambda (&rest _)
                   (save-excursion (goto-char (point-min)) (insert "zero\n"))
                   "why?")))
        (goto-char (gemini-companion-ui-line-start 2))
        (gemini-companion-comment)
        (should (equal (gemini-companion-comment-test--all) '(("a.txt" 3 3 "two" "why?")))))
      (set-buffer-modified-p nil)
      (cl-letf (((symbol-function 'read-string) (lambda (&rest _) (kill-buffer buffer) "why?")))
        (should-error (gemini-companion-comment) :type 'user-error)))))

(ert-deftest gemini-companion-comment/where-it-makes-no-sense-it-is-refused ()
  (gemini-companion-comment-test--with
    (with-temp-buffer
      (should-error (gemini-companion-comment-test--add 1 "why?") :type 'user-error)
      (setq buffer-file-name "/ssh:build:/a.txt")
      (should (string-match-p "local" (cadr (should-error (gemini-companion-comment-test--add 1 "why?")
                                                          :type 'user-error))))
      (setq buffer-file-name nil))
    (with-current-buffer (find-file-noselect (gemini-companion-test-file ".env" "secret\n"))
      (should (string-match-p "private"
                              (cadr (should-error (gemini-companion-comment-test--add 1 "why?")
                                                  :type 'user-error)))))
    (should-not (gemini-companion-comment--all))))

(ert-deftest gemini-companion-comment/in-an-indirect-buffer-it-is-on-the-file ()
  "Org has one for a subtree."
  (gemini-companion-comment-test--with
    (with-current-buffer (make-indirect-buffer (current-buffer) "two" t)
      (goto-char (point-min))
      (forward-line)
      (narrow-to-region (point) (point-max))
      (gemini-companion-comment-test--add 2 "why?" 3)
      (should (equal (gemini-companion-comment-test--add 3 "how?") "why?"))
      (should-not (gemini-companion-comment-list (current-buffer)))
      (kill-buffer))
    (should (equal (gemini-companion-comment-test--all) '(("a.txt" 2 3 "two" "how?"))))))

(ert-deftest gemini-companion-comment/a-clone-of-the-buffer-has-none ()
  (gemini-companion-comment-test--with
    (gemini-companion-comment-test--add 2 "why?")
    (let ((clone (clone-indirect-buffer nil nil)))
      (should-not (gemini-companion-comment-list clone))
      (with-current-buffer clone
        (goto-char (gemini-companion-ui-line-start 2))
        (end-of-line)
        (insert "!"))
      (kill-buffer clone))
    (should-not gemini-companion-comment--gone)
    (should (equal (gemini-companion-comment-test--all) '(("a.txt" 2 2 "two!" "why?"))))
    (set-buffer-modified-p nil)))

;;;; What goes to the model

(ert-deftest gemini-companion-comment/comments-go-along-with-a-prompt ()
  (gemini-companion-comment-test--with
    (should-not (gemini-companion-comment-test--prompt))
    (gemini-companion-comment-test--add 2 "why?")
    (should (equal (gemini-companion-comment-test--prompt)
                   "1 comment from Emacs\nComments that the user has made in Emacs:
a.txt:2 `two`: why?"))
    (should-not (gemini-companion-comment--all))
    (should-not (gemini-companion-comment-test--prompt))
    (gemini-companion-comment-test--add 1 "this" 3)
    (with-current-buffer (find-file-noselect (gemini-companion-test-file "b c/d.txt" "  @d\n"))
      (gemini-companion-comment-test--add 1 "that"))
    (let ((added (gemini-companion-comment-test--prompt)))
      (should (string-prefix-p "2 comments from Emacs\n" added))
      (should (string-search "\na.txt:1-3 `one`: this" added))
      (should (string-search "\nb c/d.txt:1 `@d`: that" added)))))

(ert-deftest gemini-companion-comment/what-is-too-long-for-a-prompt-waits-for-the-next ()
  (gemini-companion-comment-test--with
    (pcase-dolist (`(,number ,text . ,counts)
                   `(,(list 98 "why?" 98)
                     ,(list 150 "why?" 98 52)
                     ,(list 8 (make-string 9000 ?x) 3 3 2)
                     ;; It goes as far as it can.
                     ,(list 2 (make-string 40000 ?x) 1 1)))
      (dotimes (_ number)
        (gemini-companion-comment-add (current-buffer) 2 2 text))
      (let ((left number))
        (dolist (count counts)
          (let ((added (gemini-companion-comment-test--prompt)))
            (should (string-prefix-p (format "%d comment" count) added))
            (should (or (< 30000 (length text)) (gemini-companion-tool-fits-p added)))
            (should (= (1- (length (split-string added "\na.txt:2 `two`: "))) count)))
          (should (= (length (gemini-companion-comment--all)) (cl-decf left count))))
        (should (= left 0))))))

(ert-deftest gemini-companion-comment/not-with-those-of-others ()
  "Nor do comments on files that have become private, nor while the context is paused."
  (gemini-companion-comment-test--with
    (gemini-companion-comment-test--add 2 "why?")
    (let ((other (file-name-as-directory (make-temp-file "other" t))))
      (unwind-protect
          (dolist (gemini-companion-context-scope '(project all))
            (should-not (gemini-companion-comment-test--prompt other))
            (should-not (gemini-companion-comment-test--prompt "/ssh:build:/src/")))
        (delete-directory other t)))
    (let ((gemini-companion-context-paused t))
      (should-not (gemini-companion-comment-test--prompt)))
    (setq gemini-companion-private t)
    (should-not (gemini-companion-comment-test--prompt))
    (setq gemini-companion-private nil)
    ;; In the directory of a project it is found by either name.
    (make-directory (gemini-companion-test-file "sub"))
    (should (string-search (format "%s:2 " buffer-file-name)
                           (gemini-companion-comment-test--prompt
                            (gemini-companion-test-file "sub/"))))))

(ert-deftest gemini-companion-comment/in-a-worktree-inside-of-the-project-they-are-for-its-cli ()
  (gemini-companion-comment-test--with
    (make-directory (gemini-companion-test-file "trees/1/.git") t)
    (let* ((tree (gemini-companion-test-file "trees/1"))
           (project (directory-file-name gemini-companion-test-project))
           (places (list nil project))
           (file (gemini-companion-test-file "trees/1/a.txt" "one\n")))
      (cl-letf (((symbol-function 'gemini-companion-bridge-places) (lambda () places)))
        (gemini-companion-comment-test--add 1 "outside")
        (with-current-buffer (find-file-noselect file)
          (gemini-companion-workspace-announce)
          (gemini-companion-comment-test--add 1 "alone")
          ;; Nobody else would take it.
          (should (string-prefix-p "2 comments" (gemini-companion-comment-test--prompt project)))
          (push tree places)
          (gemini-companion-comment-test--add 1 "inside")
          (should-not (gemini-companion-comment-test--prompt project))
          (should (string-search "\na.txt:1 `one`: inside"
                                 (gemini-companion-comment-test--prompt tree))))))))

(ert-deftest gemini-companion-comment/the-user-is-told-how-they-get-to-the-model ()
  (gemini-companion-comment-test--with
    (let ((gemini-companion-cli--all (list (gemini-companion-cli--make :session "one")))
          (told nil))
      (cl-letf (((symbol-function 'message)
                 (lambda (&rest arguments) (setq told (apply #'format-message arguments)))))
        (gemini-companion-comment-test--add 2 "why?")
        (should (equal told "1 comment for your next prompt"))
        (let ((gemini-companion-context-paused t))
          (gemini-companion-comment-test--add 1 "this")
          (should (equal told "2 comments to send with M-x gemini-companion-comments-send")))))))

(ert-deftest gemini-companion-comment/the-context-shows-them ()
  (gemini-companion-comment-test--with
    (should-not (string-search "Comments" (gemini-companion-status--context-text)))
    (gemini-companion-comment-test--add 2 "why?")
    ;; There is no CLI with hooks.
    (should (string-search
             "\nComments to send with M-x gemini-companion-comments-send\n  a.txt:2 `two`: why?\n"
             (gemini-companion-status--context-text)))
    (gemini-companion-comments-clear)
    (should-not (string-search "Comments" (gemini-companion-status--context-text)))))

(ert-deftest gemini-companion-comment/they-are-sent-at-once ()
  (gemini-companion-comment-test--with
    (let ((sent nil))
      (cl-letf (((symbol-function 'gemini-companion-cli-send-terminal) #'current-buffer)
                ((symbol-function 'gemini-companion-cli-send-text)
                 (lambda (&rest arguments) (setq sent arguments))))
        (should-error (gemini-companion-comments-send) :type 'user-error)
        (with-current-buffer (find-file-noselect (gemini-companion-test-file "b c.txt" "  @b\n"))
          (gemini-companion-comment-test--add 1 "that"))
        (gemini-companion-comments-send)
        (should (equal sent (list "My comments:\nb c.txt:1 `\\@b`: that" t (current-buffer))))
        (should-not (gemini-companion-comment--all))
        ;; They stay if they cannot be sent.
        (gemini-companion-comment-test--add 2 "why?")
        (cl-letf (((symbol-function 'gemini-companion-cli-send-text)
                   (lambda (&rest _) (user-error "The CLI asks a question"))))
          (should-error (gemini-companion-comments-send) :type 'user-error))
        (should (= (length (gemini-companion-comment--all)) 1))))))

;;;; All comments

(ert-deftest gemini-companion-comment/emacs-asks-before-it-exits-with-them ()
  (gemini-companion-comment-test--with
    (cl-letf* ((asked nil)
               (answer nil)
               ((symbol-function 'gemini-companion-ui-user-frame-p) #'always)
               ((symbol-function 'yes-or-no-p) (lambda (prompt) (push prompt asked) answer))
               (exit (lambda ()
                       (run-hook-with-args-until-failure 'kill-emacs-query-functions))))
      (gemini-companion-comment-test--add 2 "why?")
      (should-not (funcall exit))
      (should (equal asked
                     '("You have a comment that you have not sent.  Lose it and exit? ")))
      (gemini-companion-comment-test--add 1 "who?")
      (setq asked nil)
      (should-not (funcall exit))
      (should (equal asked
                     '("You have comments that you have not sent.  Lose them and exit? ")))
      (setq answer t)
      (should (funcall exit))
      (gemini-companion-comments-clear)
      (setq asked nil)
      (should (funcall exit))
      (should-not asked))))

(ert-deftest gemini-companion-comment/they-can-be-brought-back ()
  (gemini-companion-comment-test--with
    (should-error (gemini-companion-comments-restore) :type 'user-error)
    (gemini-companion-comment-test--add 2 "why?")
    (gemini-companion-comment-test--prompt)
    (with-current-buffer (find-file-noselect (gemini-companion-test-file "b.txt" "b\n"))
      (gemini-companion-comment-test--add 1 "b")
      (gemini-companion-test-with-answer nil
        (kill-buffer)
        (should (equal gemini-companion-test-messages
                       '("b.txt had 1 comment, which M-x gemini-companion-comments-restore \
brings back")))))
    (should-not (gemini-companion-comment--all))
    (gemini-companion-comments-restore)
    (should (equal (sort (gemini-companion-comment-test--all)
                         (lambda (one other) (string< (car one) (car other))))
                   '(("a.txt" 2 2 "two" "why?") ("b.txt" 1 1 "b" "b"))))
    (gemini-companion-comments-clear)
    (should-error (gemini-companion-comments-clear) :type 'user-error)
    (gemini-companion-comments-restore)
    (should (= (length (gemini-companion-comment--all)) 2))))

(ert-deftest gemini-companion-comment/they-are-brought-back-once-even-if-a-file-fails ()
  (gemini-companion-comment-test--with
    (gemini-companion-comment-test--add 2 "why?")
    (with-current-buffer (find-file-noselect (gemini-companion-test-file "b.txt" "b\n"))
      (gemini-companion-comment-test--add 1 "b")
      (gemini-companion-comments-clear)
      (kill-buffer))
    (let ((find-file-hook (list (lambda () (error "No")))))
      (should-error (gemini-companion-comments-restore)))
    (kill-buffer "b.txt")
    (gemini-companion-comments-restore)
    (should (= (length (gemini-companion-comment--all)) 2))))

(ert-deftest gemini-companion-comment/those-of-other-files-come-back-if-some-fail ()
  (gemini-companion-comment-test--with
    (dolist (name '("b.txt" "c.txt" "d.txt"))
      (with-current-buffer (find-file-noselect (gemini-companion-test-file name "b\n"))
        (gemini-companion-comment-test--add 1 name)))
    (gemini-companion-comments-clear)
    (dolist (name '("b.txt" "c.txt" "d.txt"))
      (kill-buffer name))
    (let ((find-file-hook (list (lambda ()
                                  (when (member (buffer-name) '("b.txt" "d.txt"))
                                    (error "No"))))))
      (should (equal (cadr (should-error (gemini-companion-comments-restore) :type 'user-error))
                     "Could not bring back 2 comments; M-x gemini-companion-log says why")))
    (should (equal (gemini-companion-comment-test--all) '(("c.txt" 1 1 "b" "c.txt"))))
    (dolist (name '("b.txt" "d.txt"))
      (kill-buffer name))
    (gemini-companion-comments-restore)
    (should (= (length (gemini-companion-comment--all)) 3))
    (should-not gemini-companion-comment--gone)))

(ert-deftest gemini-companion-comment/in-a-review-it-is-on-the-change ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-test-propose client "a.txt" "one\n2\n")))
      (gemini-companion-review-next)
      (with-current-buffer (gemini-companion-review-proposal review)
        (gemini-companion-comment-test--add 2 "why?"))
      (should (= (gemini-companion-comment-count review) 1))
      (should-not (gemini-companion-comment--all)))))

(ert-deftest gemini-companion-comment/in-a-review-it-stays-at-its-line-while-it-is-typed ()
  "The user may edit the proposed text, or merge, before the comment is complete."
  (gemini-companion-test-with-client client
    (let* ((review (gemini-companion-test-propose client "a.txt" "one\n2\n"))
           (proposal (gemini-companion-review-buffer-proposal review)))
      (with-current-buffer proposal
        (goto-char (gemini-companion-ui-line-start 2))
        (dolist (text '("why?" "how?"))
          (cl-letf (((symbol-function 'gemini-companion-comment-read)
                     (lambda (&rest _)
                       (save-excursion
                         (goto-char (point-min))
                         (insert "zero\n"))
                       text)))
            (call-interactively #'gemini-companion-comment))))
      (should (equal (mapcar (lambda (it) (list (car it) (nth 3 it) (nth 4 it)))
                             (gemini-companion-comment-list proposal))
                     '((4 "how?" "2"))))
      (gemini-companion-review-reject review))))

(ert-deftest gemini-companion-comment/in-a-review-it-is-kept-if-the-change-ends-first ()
  "The client ends while the user types."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-test-propose client "a.txt" "one\n2\n"))
          (kill-ring nil))
      (gemini-companion-review-next)
      (with-current-buffer (gemini-companion-review-proposal review)
        (cl-letf (((symbol-function 'read-string)
                   (lambda (&rest _)
                     (fake-cli-call-tool client "closeDiff"
                                         (list :filePath (gemini-companion-test-file "a.txt")
                                               :suppressNotification t))
                     "why?")))
          (should (equal (cadr (should-error (gemini-companion-comment) :type 'user-error))
                         "a.txt: decided in Gemini CLI; the comment is in the kill ring"))))
      (should (equal kill-ring '("why?"))))))

;;; gemini-companion-comment-test.el ends here

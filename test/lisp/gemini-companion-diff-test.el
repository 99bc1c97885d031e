;;; gemini-companion-diff-test.el --- Tests of a review as one diff  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-diff)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-diff-test--with-client (client &rest body)
  "Evaluate BODY with CLIENT connected and reviews shown as diffs."
  (declare (indent 1) (debug (symbolp body)))
  `(gemini-companion-test-with-client ,client
     (let ((gemini-companion-diff-function #'gemini-companion-diff-show))
       ,@body)))

(defun gemini-companion-diff-test--show (client name text &optional focus)
  "Have CLIENT propose TEXT for the file NAME; show the review and return it.
FOCUS is `select' by default."
  (let ((review (gemini-companion-test-propose client name text)))
    (gemini-companion-review-show review (or focus 'select))
    review))

(defmacro gemini-companion-diff-test--in (review &rest body)
  "Evaluate BODY in the buffer with the diff of REVIEW."
  (declare (indent 1) (debug t))
  `(with-current-buffer (gemini-companion-review-front ,review)
     ,@body))

(defun gemini-companion-diff-test--diff (review)
  "Return the hunks shown for REVIEW."
  (gemini-companion-diff-test--in review
    (goto-char (point-min))
    (forward-line 2)
    (buffer-substring-no-properties (point) (point-max))))

(defun gemini-companion-diff-test--drop (review number)
  "Drop the hunk NUMBER of REVIEW, counted from one."
  (gemini-companion-diff-test--in review
    (goto-char (point-min))
    (diff-hunk-next number)
    (gemini-companion-diff-drop)))

(defun gemini-companion-diff-test--header (review)
  "Return the header line of the diff of REVIEW."
  (gemini-companion-diff-test--in review
    (gemini-companion-proposal--header-line)))

(defun gemini-companion-diff-test--outcome (client method)
  "Wait until CLIENT receives METHOD, a notification; return its content."
  (alist-get 'content (fake-cli-wait-notification client method)))

(defun gemini-companion-diff-test--state ()
  "Return all state of Emacs that a review on screen changes."
  (list (mapcar #'buffer-name (buffer-list))
        (mapcar (lambda (window)
                  (list window (window-buffer window) (window-edges window)))
                (window-list))
        (selected-window)))

;;;; The view

(ert-deftest gemini-companion-diff/it-shows-one-diff-and-the-keys ()
  (gemini-companion-diff-test--with-client client
    (let ((review (gemini-companion-diff-test--show client "a.txt" "one\n2\n")))
      (should (equal (buffer-name (window-buffer)) "*gemini diff: a.txt*"))
      (should (equal (length (window-list)) 2))
      (gemini-companion-diff-test--in review
        (should (derived-mode-p 'diff-mode))
        (should (equal (buffer-string) "--- a.txt (on disk)
+++ a.txt (proposal)
@@ -1,2 +1,2 @@
 one
-two
+2
"))
        (should (looking-at "@@"))
        (should buffer-read-only)
        (should-not buffer-file-name)
        (should (eq (key-binding (kbd "C-c C-c")) #'gemini-companion-accept))
        (should (eq (key-binding (kbd "C-c C-k")) #'gemini-companion-reject))
        (should (eq (key-binding (kbd "n")) #'gemini-companion-diff-next))
        (should (eq (key-binding (kbd "k")) #'gemini-companion-diff-drop))
        (should (eq (key-binding (kbd "q")) #'gemini-companion-review-quit)))
      (should (string-match-p "1 hunk.*a.txt.*\\+1 -1.*C-c C-c accepts.*C-c C-k rejects.*k drops"
                              (gemini-companion-diff-test--header review))))))

(ert-deftest gemini-companion-diff/the-header-warns-of-edits-that-an-accept-would-lose ()
  (gemini-companion-diff-test--with-client client
    (insert "mine ")
    (let ((review (gemini-companion-diff-test--show client "a.txt" "one\n2\n")))
      (should (string-match-p "\\` Unsaved edits  C-c C-e merges.*C-c C-c accepts  C-c C-k rejects"
                              (gemini-companion-diff-test--header review))))))

(defun gemini-companion-diff-test--keys (map &optional prefix)
  "Return the keys of MAP, after PREFIX."
  (let (keys)
    (map-keymap (lambda (event binding)
                  (let ((key (vconcat prefix (vector event))))
                    (if (keymapp binding)
                        (setq keys (append (gemini-companion-diff-test--keys binding key) keys))
                      (push key keys))))
                map)
    keys))

(ert-deftest gemini-companion-diff/no-key-acts-on-files ()
  "Keys with which Diff mode visits or changes files have other commands here."
  (gemini-companion-diff-test--with-client client
    (let ((harmless '(diff-hunk-next diff-hunk-prev diff-refine-hunk))
          (keys (append (gemini-companion-diff-test--keys diff-mode-map)
                        (gemini-companion-diff-test--keys diff-mode-shared-map))))
      (should (> (length keys) 30))
      (gemini-companion-diff-test--in (gemini-companion-diff-test--show client "a.txt" "2\n")
        (dolist (toggle '(ignore read-only-mode read-only-mode view-mode view-mode))
          (funcall toggle)
          (dolist (key keys)
            (let ((command (key-binding key)))
              (when (symbolp command)
                (should (or (memq command harmless)
                            (not (string-prefix-p "diff-" (symbol-name command)))))))))
        (dolist (key '("C-x v v" "C-x 4 a" "C-x C-q"))
          (should (eq (key-binding (kbd key)) #'undefined)))
        (should-not next-error-function)
        (should-not (bound-and-true-p add-log-buffer-file-name-function))
        (should-not write-contents-functions)
        (should-not diff-font-lock-syntax)))))

(ert-deftest gemini-companion-diff/a-client-s-text-is-data ()
  (gemini-companion-diff-test--with-client client
    (gemini-companion-test-file ".dir-locals.el" "((nil (fill-column . 7)))")
    (let* ((hooked nil)
           (hook (list (lambda () (setq hooked t))))
           (diff-mode-hook hook)
           (gemini-companion-diff-mode-hook hook)
           (enable-local-variables :all)
           (enable-dir-local-variables t)
           (review (progn
                     (gemini-companion-test-file "x.txt" "text\n")
                     (gemini-companion-diff-test--show
                      client "x.txt" "-*- mode: python; fill-column: 7 -*-\n"))))
      (gemini-companion-diff-test--in review
        (should (eq major-mode 'gemini-companion-diff-mode))
        (should-not (= fill-column 7)))
      (should-not hooked))))

(ert-deftest gemini-companion-diff/a-new-file-is-shown-without-a-diff ()
  (gemini-companion-diff-test--with-client client
    (let ((review (gemini-companion-diff-test--show client "new/dir/x.txt" "text\n")))
      (with-current-buffer (window-buffer)
        (should (eq gemini-companion-review-of-buffer review))
        (should (equal (buffer-string) "text\n")))
      (should-not (file-exists-p (gemini-companion-test-file "new"))))))

(ert-deftest gemini-companion-diff/an-emptied-file-is-one-hunk ()
  (gemini-companion-diff-test--with-client client
    (let ((review (gemini-companion-diff-test--show client "a.txt" "")))
      (should (equal (gemini-companion-diff-test--diff review)
                     "@@ -1,2 +0,0 @@\n-one\n-two\n"))
      (gemini-companion-diff-test--drop review 1)
      (should (equal (gemini-companion-review-current-text review) "one\ntwo\n")))))

(ert-deftest gemini-companion-diff/a-text-with-nul-is-shown-as-text ()
  (gemini-companion-diff-test--with-client client
    (gemini-companion-test-file "nul.txt" "a\0ä\nb\n")
    (should (equal (gemini-companion-diff-test--diff
                    (gemini-companion-diff-test--show client "nul.txt" "a\0ä\nc\n"))
                   "@@ -1,2 +1,2 @@\n a\0ä\n-b\n+c\n"))))

(ert-deftest gemini-companion-diff/long-texts-are-shown-without-highlighting ()
  (gemini-companion-diff-test--with-client client
    (let ((diff-refine 'font-lock))
      (let ((review (gemini-companion-diff-test--show
                     client "a.txt" (concat (make-string 100000 ?x) "\n"))))
        (gemini-companion-diff-test--in review
          (should-not diff-refine)
          (should-not font-lock-mode))
        (gemini-companion-diff-test--drop review 1)
        (gemini-companion-diff-test--in review
          (should (eq diff-refine 'font-lock)))))))

(ert-deftest gemini-companion-diff/three-texts-are-shown-in-ediff ()
  (gemini-companion-diff-test--with-client client
    (let ((before (gemini-companion-diff-test--state))
          (review (gemini-companion-diff-test--show client "a.txt" "2\n")))
      (gemini-companion-diff-test--in review
        (should (eq (key-binding (kbd "C-c C-t")) #'gemini-companion-review-three-way))
        (gemini-companion-review-three-way))
      (should (= (length ediff-session-registry) 1))
      (should (eq (gemini-companion-review-front review) (car ediff-session-registry)))
      (gemini-companion-review-three-way)
      (should-not ediff-session-registry)
      (should (equal (gemini-companion-diff-test--diff review)
                     "@@ -1,2 +1 @@\n-one\n-two\n+2\n"))
      (gemini-companion-reject)
      (should (equal (gemini-companion-diff-test--state) before)))))

;;;; Decisions

(ert-deftest gemini-companion-diff/accept-sends-the-proposal ()
  (gemini-companion-diff-test--with-client client
    (dolist (text '("one\r\n2 😀" "one\n2\n\n" "\n" "2\C-a\r"))
      (gemini-companion-diff-test--show client "a.txt" text)
      (gemini-companion-accept)
      (fake-cli-wait-notification client "ide/diffAccepted"
                                  (lambda (params)
                                    (equal (alist-get 'content params) text))))))

(ert-deftest gemini-companion-diff/a-dropped-hunk-is-not-accepted ()
  (gemini-companion-diff-test--with-client client
    (gemini-companion-test-file "a.txt" gemini-companion-test-three-hunks-old)
    (let ((review (gemini-companion-diff-test--show client "a.txt"
                                                    gemini-companion-test-three-hunks-new)))
      (should (string-match-p "3 hunks"
                              (gemini-companion-diff-test--header review)))
      (gemini-companion-diff-test--drop review 2)
      (should (string-match-p "2 hunks"
                              (gemini-companion-diff-test--header review)))
      ;; Point is at the next hunk.
      (gemini-companion-diff-test--in review
        (should (looking-at "@@ .*\n \n \n four\n-five\n")))
      (gemini-companion-accept)
      (should (equal (gemini-companion-diff-test--outcome client "ide/diffAccepted")
                     (concat "one\n2\n2a\n" (make-string 9 ?\n) "three\n"
                             (make-string 9 ?\n) "four\nfive\n"))))))

(ert-deftest gemini-companion-diff/without-hunks-there-is-a-message ()
  (gemini-companion-diff-test--with-client client
    (gemini-companion-test-file "a.txt" gemini-companion-test-three-hunks-old)
    (let ((review (gemini-companion-diff-test--show client "a.txt"
                                                    gemini-companion-test-three-hunks-new)))
      (dotimes (_ 3) (gemini-companion-diff-test--drop review 1))
      (gemini-companion-diff-test--in review
        (should (string-match-p "No hunk is left" (buffer-string)))
        (should-error (gemini-companion-diff-drop) :type 'user-error))
      (should (string-match-p "Changes nothing"
                              (gemini-companion-diff-test--header review)))
      (gemini-companion-accept)
      (should (equal (gemini-companion-diff-test--outcome client "ide/diffAccepted")
                     gemini-companion-test-three-hunks-old)))))

(ert-deftest gemini-companion-diff/keys-go-from-hunk-to-hunk-and-no-further ()
  (gemini-companion-diff-test--with-client client
    (gemini-companion-test-file "a.txt" gemini-companion-test-three-hunks-old)
    (gemini-companion-diff-test--show client "a.txt" gemini-companion-test-three-hunks-new)
    (let* ((press (lambda (key)
                    (let ((current-prefix-arg nil)) (call-interactively (key-binding (kbd key))))
                    (should (looking-at-p "@@ "))
                    (line-number-at-pos)))
           (refused (lambda (key)
                      (let ((point (point)))
                        (prog1 (cadr (should-error (funcall press key) :type 'user-error))
                          (should (= (point) point))))))
           (first (line-number-at-pos))
           (second (funcall press "n"))
           (third (funcall press "TAB")))
      (should (< first second third))
      (should (equal (funcall refused "n") "There is no next hunk"))
      (forward-line)
      (should (equal (funcall refused "n") "There is no next hunk"))
      (should (= (funcall press "p") third))
      (should (= (funcall press "p") second))
      (should (= (funcall press "<backtab>") first))
      (should (equal (funcall refused "p") "There is no previous hunk"))
      (goto-char (point-min))
      (should (= (funcall press "n") first)))))

(ert-deftest gemini-companion-diff/undo-restores-hunks ()
  (gemini-companion-diff-test--with-client client
    (gemini-companion-test-file "a.txt" gemini-companion-test-three-hunks-old)
    (let* ((review (gemini-companion-diff-test--show client "a.txt"
                                                     gemini-companion-test-three-hunks-new))
           (before (gemini-companion-diff-test--diff review)))
      (gemini-companion-diff-test--drop review 1)
      (gemini-companion-diff-test--drop review 1)
      (gemini-companion-diff-test--in review (gemini-companion-hunks-undo))
      (should (= (gemini-companion-hunks-count
                  (gemini-companion-diff-test--in review gemini-companion-hunks-of-buffer))
                 2))
      ;; Another hunk is dropped and brought back in between.
      (gemini-companion-diff-test--drop review 2)
      (dotimes (_ 2)
        (gemini-companion-diff-test--in review (gemini-companion-hunks-undo)))
      (should (equal (gemini-companion-diff-test--diff review) before))
      (should (equal (gemini-companion-review-current-text review)
                     gemini-companion-test-three-hunks-new))
      ;; Undo ends at the client's proposal, after new changes as well.
      (dotimes (_ 2)
        (gemini-companion-diff-test--in review
          (should-error (gemini-companion-hunks-undo) :type 'user-error))
        (should (equal (gemini-companion-review-current-text review)
                       gemini-companion-test-three-hunks-new))
        (gemini-companion-diff-test--drop review 3)
        (gemini-companion-diff-test--in review (gemini-companion-hunks-undo))))))

(ert-deftest gemini-companion-diff/reject-leaves-the-file-unchanged ()
  (gemini-companion-diff-test--with-client client
    (gemini-companion-diff-test--drop
     (gemini-companion-diff-test--show client "a.txt" "2\n") 1)
    (gemini-companion-reject)
    (should (fake-cli-wait-notification client "ide/diffRejected"))
    (should (equal (gemini-companion-test-bytes (gemini-companion-test-file "a.txt"))
                   "one\ntwo\n"))))

(ert-deftest gemini-companion-diff/q-asks-and-postponing-keeps-dropped-hunks ()
  (gemini-companion-diff-test--with-client client
    (gemini-companion-test-file "a.txt" gemini-companion-test-three-hunks-old)
    (let* ((before (gemini-companion-diff-test--state))
           (review (gemini-companion-diff-test--show client "a.txt"
                                                     gemini-companion-test-three-hunks-new))
           (text nil))
      (gemini-companion-diff-test--drop review 1)
      (setq text (gemini-companion-review-current-text review))
      (cl-letf (((symbol-function 'read-multiple-choice)
                 (lambda (&rest _) (signal 'quit nil))))
        (gemini-companion-diff-test--in review
          (call-interactively (key-binding (kbd "q")))))
      (should-not (gemini-companion-review-shown))
      (should (equal (cdr (gemini-companion-diff-test--state)) (cdr before)))
      ;; The view leaves nothing behind in the proposal's buffer.
      (with-current-buffer (gemini-companion-review-proposal review)
        (should-not (memq #'gemini-companion-hunks--proposal-changed after-change-functions))
        (should-not gemini-companion-hunks-of-buffer))
      (gemini-companion-review-next)
      (should (= (how-many "^@@" (point-min)) 2))
      (cl-letf (((symbol-function 'read-multiple-choice) (lambda (&rest _) '(?a))))
        (call-interactively (key-binding (kbd "q"))))
      (should (equal (gemini-companion-diff-test--outcome client "ide/diffAccepted")
                     text)))))

;;;; Edits

(ert-deftest gemini-companion-diff/the-proposal-can-be-edited ()
  (gemini-companion-diff-test--with-client client
    (gemini-companion-test-file "a.txt" gemini-companion-test-three-hunks-old)
    (let ((review (gemini-companion-diff-test--show client "a.txt"
                                                    gemini-companion-test-three-hunks-new)))
      (gemini-companion-diff-test--in review
        (should (eq (key-binding (kbd "RET")) #'gemini-companion-diff-edit))
        (should (eq (key-binding (kbd "e")) #'gemini-companion-diff-edit))
        (search-forward "+2a"))
      (set-window-point nil (gemini-companion-diff-test--in review (point)))
      (gemini-companion-diff-edit)
      (should (eq (window-buffer) (gemini-companion-review-proposal review)))
      (should (get-buffer-window (gemini-companion-review-front review)))
      (should (looking-at "2a"))
      ;; The same command again makes no third window.
      (with-selected-window (get-buffer-window (gemini-companion-review-front review))
        (gemini-companion-diff-edit))
      (should (= (length (window-list)) 3))
      (narrow-to-region (point) (line-end-position))
      (insert "more ")
      (gemini-companion-test-wait
       "the diff to follow"
       (lambda () (string-search "+more 2a\n" (gemini-companion-diff-test--diff review))))
      (text-mode)
      ;; Emacs reads the hooks of a buffer when the buffer is made current.
      (with-temp-buffer)
      (insert "again ")
      (gemini-companion-test-wait
       "the diff to follow in another mode"
       (lambda () (string-search "+more again 2a" (gemini-companion-diff-test--diff review))))
      (gemini-companion-accept)
      (should (equal (gemini-companion-diff-test--outcome client "ide/diffAccepted")
                     (string-replace "2a" "more again 2a"
                                     gemini-companion-test-three-hunks-new))))))

(ert-deftest gemini-companion-diff/a-hunk-not-yet-shown-is-not-dropped ()
  (gemini-companion-diff-test--with-client client
    (gemini-companion-test-file "a.txt" gemini-companion-test-three-hunks-old)
    (let ((review (gemini-companion-diff-test--show client "a.txt"
                                                    gemini-companion-test-three-hunks-new)))
      (with-current-buffer (gemini-companion-review-proposal review)
        (goto-char (point-min))
        (insert "zero\n"))
      (should-error (gemini-companion-diff-test--drop review 2) :type 'user-error)
      (should (string-search "+zero\n" (gemini-companion-diff-test--diff review)))
      (should (equal (gemini-companion-review-current-text review)
                     (concat "zero\n" gemini-companion-test-three-hunks-new)))
      (gemini-companion-diff-test--drop review 1)
      (should (string-prefix-p "one\ntwo\n\n" (gemini-companion-review-current-text review))))))

(ert-deftest gemini-companion-diff/nearby-changes-can-be-split-and-joined ()
  (gemini-companion-diff-test--with-client client
    (gemini-companion-test-file "a.txt" "1\n2\n3\n4\n")
    (let ((review (gemini-companion-diff-test--show client "a.txt" "one\n2\n3\nfour\n")))
      (gemini-companion-diff-test--in review
        (call-interactively (key-binding "s")))
      (should (equal (gemini-companion-diff-test--diff review)
                     "@@ -1,2 +1,2 @@\n-1\n+one\n 2\n@@ -3,2 +3,2 @@\n 3\n-4\n+four\n"))
      (gemini-companion-diff-test--drop review 1)
      (should (equal (gemini-companion-review-current-text review) "1\n2\n3\nfour\n"))
      (gemini-companion-diff-test--in review
        (call-interactively (key-binding "u"))
        (call-interactively (key-binding "s")))
      (should (equal (gemini-companion-diff-test--diff review)
                     "@@ -1,4 +1,4 @@\n-1\n+one\n 2\n 3\n-4\n+four\n")))))

(defun gemini-companion-diff-test--drop-lines (review first last)
  "Drop the lines of REVIEW from the start of the text FIRST to the end of LAST."
  (gemini-companion-diff-test--in review
    (goto-char (point-min))
    (search-forward first)
    (set-mark (match-beginning 0))
    (goto-char (mark))
    (search-forward last)
    (let ((transient-mark-mode t))
      (activate-mark)
      (call-interactively (key-binding "k")))))

(ert-deftest gemini-companion-diff/lines-in-the-region-are-dropped ()
  (gemini-companion-diff-test--with-client client
    (gemini-companion-test-file "a.txt" "1\n2\n3\n")
    (let ((review (gemini-companion-diff-test--show client "a.txt" "one\ntwo\n3\nmore\n")))
      (gemini-companion-diff-test--drop-lines review "+two" "+two")
      (should (equal (gemini-companion-review-current-text review) "one\n3\nmore\n"))
      (gemini-companion-diff-test--drop-lines review "-2" "-2")
      (should (equal (gemini-companion-review-current-text review) "2\none\n3\nmore\n"))
      (gemini-companion-diff-test--in review
        (call-interactively (key-binding "u"))
        (call-interactively (key-binding "u")))
      (should (equal (gemini-companion-review-current-text review) "one\ntwo\n3\nmore\n")))))

(ert-deftest gemini-companion-diff/a-region-may-be-in-several-hunks ()
  (gemini-companion-diff-test--with-client client
    (gemini-companion-test-file "a.txt" gemini-companion-test-three-hunks-old)
    (let ((review (gemini-companion-diff-test--show client "a.txt"
                                                    gemini-companion-test-three-hunks-new)))
      (gemini-companion-diff-test--drop-lines review "+2a" "-three")
      (should (equal (gemini-companion-review-current-text review)
                     (concat "one\n2\n" (make-string 9 ?\n) "three\n"
                             (make-string 9 ?\n) "four\nfive\n")))
      (gemini-companion-diff-test--in review
        (call-interactively (key-binding "u")))
      (should (equal (gemini-companion-review-current-text review)
                     gemini-companion-test-three-hunks-new)))))

(ert-deftest gemini-companion-diff/g-compares-with-the-current-file ()
  (gemini-companion-diff-test--with-client client
    (let ((review (gemini-companion-diff-test--show client "a.txt" "2\n")))
      (gemini-companion-test-file "a.txt" "other\n")
      ;; The diff could not be updated, so its hunks do not belong to this file.
      (cl-letf (((symbol-function 'gemini-companion-change-diff) #'error))
        (gemini-companion-diff-test--in review (should-error (revert-buffer))))
      (should-error (gemini-companion-diff-test--drop review 1) :type 'user-error)
      (should (equal (gemini-companion-review-current-text review) "2\n"))
      (gemini-companion-diff-test--in review (revert-buffer))
      (should (equal (gemini-companion-diff-test--diff review)
                     "@@ -1 +1 @@\n-other\n+2\n"))
      (gemini-companion-diff-test--drop review 1)
      (should (equal (gemini-companion-review-current-text review) "other\n")))))

;;;; Windows

(ert-deftest gemini-companion-diff/everything-is-restored ()
  (gemini-companion-diff-test--with-client client
    (split-window-right)
    (goto-char 6)
    (let ((before (gemini-companion-diff-test--state)))
      (dolist (focus '(select keep))
        (dolist (decide '(gemini-companion-accept gemini-companion-reject))
          (gemini-companion-diff-test--show client "a.txt" "2\n" focus)
          (should-not (equal (gemini-companion-diff-test--state) before))
          (funcall decide)
          (should (equal (gemini-companion-diff-test--state) before))
          (should (= (point) 6)))))))

(ert-deftest gemini-companion-diff/the-selected-window-can-stay ()
  (gemini-companion-diff-test--with-client client
    (let* ((window (selected-window))
           (buffer (current-buffer))
           (review (gemini-companion-diff-test--show client "a.txt" "2\n" 'keep)))
      (should (eq (selected-window) window))
      (should (eq (current-buffer) buffer))
      (should (get-buffer-window (gemini-companion-review-front review)))
      ;; The command to show it selects its window and changes no other.
      (let ((windows (window-list)))
        (gemini-companion-review-next)
        (should (eq (window-buffer) (gemini-companion-review-front review)))
        (should (equal (length (window-list)) (length windows)))
        (should (window-live-p window)))
      (gemini-companion-accept)
      (should (eq (selected-window) window))
      (should (= (length (window-list)) 1)))))

(ert-deftest gemini-companion-diff/killing-a-buffer-postpones-without-loss ()
  (dolist (part (list #'gemini-companion-review-front #'gemini-companion-review-proposal))
    (gemini-companion-diff-test--with-client client
      (split-window-right)
      (gemini-companion-test-file "a.txt" gemini-companion-test-three-hunks-old)
      (let ((before (gemini-companion-diff-test--state))
            (review (gemini-companion-diff-test--show client "a.txt"
                                                      gemini-companion-test-three-hunks-new))
            (text nil))
        (gemini-companion-diff-test--drop review 3)
        (setq text (gemini-companion-review-current-text review))
        (kill-buffer (funcall part review))
        (gemini-companion-test-wait-taken-down)
        (should (equal (cdr (gemini-companion-diff-test--state)) (cdr before)))
        (should-not (fake-cli-find-notification client "ide/diffRejected"))
        (gemini-companion-review-next)
        (should (eq (window-buffer) (gemini-companion-review-front review)))
        (gemini-companion-accept)
        (should (equal (gemini-companion-diff-test--outcome client "ide/diffAccepted")
                       text))))))

(ert-deftest gemini-companion-diff/it-is-closed-in-another-tab-too ()
  (dolist (end (list (lambda ()
                       (gemini-companion-review-commands-accept (gemini-companion-review-shown)))
                     #'gemini-companion-test-kill-view))
    (gemini-companion-diff-test--with-client client
      (unwind-protect
          (let (before)
            (split-window-right)
            (setq before (mapcar #'window-buffer (window-list)))
            (gemini-companion-diff-test--show client "a.txt" "2\n")
            (tab-bar-new-tab)
            (switch-to-buffer "*scratch*")
            (funcall end)
            (should (equal (buffer-name (window-buffer)) "*scratch*"))
            (tab-bar-select-tab 1)
            ;; Redisplay runs this hook; a batch Emacs has none.
            (run-hooks 'window-configuration-change-hook)
            (should (equal (mapcar #'window-buffer (window-list)) before)))
        (tab-bar-close-other-tabs)))))

(ert-deftest gemini-companion-diff/a-review-whose-view-fails-waits ()
  (gemini-companion-diff-test--with-client client
    (let* ((before (gemini-companion-diff-test--state))
           (review (gemini-companion-test-propose client "a.txt" "2\n")))
      (cl-letf (((symbol-function 'gemini-companion-change-diff) #'error))
        (should-error (gemini-companion-review-show review 'select)))
      (should-not (gemini-companion-review-shown))
      (should (equal (cdr (gemini-companion-diff-test--state)) (cdr before)))
      (gemini-companion-accept)
      (should (eq (gemini-companion-review-shown) review))
      (gemini-companion-accept)
      (should (equal (gemini-companion-diff-test--outcome client "ide/diffAccepted")
                     "2\n")))))

;;;; Random texts

(defun gemini-companion-diff-test--random-line ()
  "Return a random line without its newline, of characters that are hard for diffs."
  (let ((lines ["" "a" "b" "c" "ä" "😀" "@@ -1,2 +3,4 @@" "-- x" "++ y" "-" "+" " x\t" "x\r"
                "\\ No newline at end of file" "---" "Only in a" "\0" "\C-l" "5,6c7,8"]))
    (aref lines (random (length lines)))))

(defun gemini-companion-diff-test--random-lines ()
  "Return a random list of lines."
  (let (lines)
    (dotimes (_ (random 40) lines)
      (push (gemini-companion-diff-test--random-line) lines))))

(defun gemini-companion-diff-test--mutate (lines)
  "Return LINES with random changes."
  (mapcan (lambda (line)
            (pcase (random 24)
              (0 nil)
              (1 (list (gemini-companion-diff-test--random-line)))
              (2 (list (gemini-companion-diff-test--random-line) line))
              (_ (list line))))
          lines))

(defun gemini-companion-diff-test--join (lines)
  "Return LINES as a text with random line ends; the last may have none."
  (let* ((end (if (zerop (random 3)) "\r\n" "\n"))
         (text (mapconcat (lambda (line) (concat line end)) lines "")))
    (if (and (zerop (random 3)) (not (string-empty-p text)))
        (substring text 0 -1)
      text)))

(defun gemini-companion-diff-test--bytes (text)
  "Return TEXT as the bytes of a file.
Emacs reads a file with NUL as bytes instead of characters."
  (encode-coding-string text 'utf-8-emacs-unix))

(defun gemini-companion-diff-test--body (hunk side)
  "Return the text of the lines of HUNK whose prefix is in SIDE.
HUNK is a list of lines of a diff and SIDE a list of characters."
  (let ((text "") (taken nil))
    (dolist (line hunk text)
      (cond ((memq (aref line 0) side)
             (setq text (concat text (substring line 1) "\n") taken t))
            ;; No newline at the end of the line before.
            ((eq (aref line 0) ?\\)
             (when taken (setq text (substring text 0 -1))))
            (t (setq taken nil))))))

(defun gemini-companion-diff-test--patched (current diff dropped)
  "Return CURRENT with the hunks of DIFF applied, except the one numbered DROPPED.
Of the headers only the line at which a hunk starts is read.  All texts are
bytes."
  (let ((number 0) (line 1) (rest current) (result ""))
    (dolist (hunk (cdr (split-string (concat "\n" diff) "\n@@ ")))
      (let* ((lines (split-string (string-remove-suffix "\n" hunk) "\n"))
             (_ (string-match "\\`-\\([0-9]+\\)\\(,0\\)?" (car lines)))
             (start (+ (string-to-number (match-string 1 (car lines)))
                       (if (match-string 2 (car lines)) 1 0)))
             (old (gemini-companion-diff-test--body (cdr lines) '(?\s ?-)))
             (new (gemini-companion-diff-test--body (cdr lines) '(?\s ?+))))
        (while (< line start)
          (let ((end (1+ (string-search "\n" rest))))
            (setq result (concat result (substring rest 0 end))
                  rest (substring rest end)
                  line (1+ line))))
        (should (string-prefix-p old rest))
        (setq number (1+ number)
              rest (substring rest (length old))
              line (+ line (cl-count ?\n old))
              result (concat result (if (= number dropped) old new)))))
    (concat result rest)))

(defun gemini-companion-diff-test--parts (review)
  "Return the file of REVIEW, its diff and its proposal, as bytes."
  (mapcar #'gemini-companion-diff-test--bytes
          (list (with-current-buffer (gemini-companion-diff--current
                                      (gemini-companion-diff-test--in review
                                        gemini-companion-hunks-of-buffer))
                  (buffer-string))
                (gemini-companion-diff-test--diff review)
                (gemini-companion-review-current-text review))))

(defun gemini-companion-diff-test--drop-some (review keep-p)
  "Drop each hunk of REVIEW for which KEEP-P returns nil.
Assert after each that the texts are exactly the expected ones."
  (pcase-let ((`(,current ,diff ,text) (gemini-companion-diff-test--parts review))
              (number 1)
              (steps 0))
    (should (equal text (gemini-companion-diff-test--patched current diff 0)))
    (while (<= number (gemini-companion-diff-test--in review
                        (gemini-companion-hunks-count gemini-companion-hunks-of-buffer)))
      (should (< (setq steps (1+ steps)) 100))
      (if (funcall keep-p)
          (setq number (1+ number))
        (let ((expected (gemini-companion-diff-test--patched current diff number)))
          (gemini-companion-diff-test--drop review number)
          (pcase-setq `(,_ ,diff ,text) (gemini-companion-diff-test--parts review))
          (should (equal text expected)))))))

(defun gemini-companion-diff-test--try (old new)
  "Show the change from OLD to NEW, drop some hunks, then the others.
Return non-nil if the text in between was neither OLD nor NEW."
  (let* ((name (gemini-companion-test-file "random" old))
         (review (gemini-companion-review-make :id 1 :client "" :path name
                                               :proposed new :text new))
         (hide (gemini-companion-diff-show review 'select)))
    (unwind-protect
        (pcase-let ((`(,current ,_ ,first) (gemini-companion-diff-test--parts review)))
          (should (equal first (gemini-companion-diff-test--bytes new)))
          (gemini-companion-diff-test--drop-some review (lambda () (zerop (random 2))))
          (pcase-let ((`(,_ ,_ ,mix) (gemini-companion-diff-test--parts review)))
            (gemini-companion-diff-test--drop-some review #'ignore)
            (pcase-let ((`(,_ ,_ ,last) (gemini-companion-diff-test--parts review)))
              (should (equal last current))
              ;; The bytes on disk, unless Emacs decoded the line ends.
              (when (or (string-search "\r\n" new) (not (string-search "\r" old)))
                (should (equal last (gemini-companion-diff-test--bytes old)))))
            (not (member mix (list current first)))))
      (funcall hide)
      (kill-buffer (gemini-companion-review-proposal review)))))

(ert-deftest gemini-companion-diff/hunks-of-random-texts-are-dropped-exactly ()
  (gemini-companion-test-with-project
    (random "gemini-companion")
    (let ((inhibit-message t)
          (mixes 0))
      (dotimes (_ 200)
        (let* ((lines (gemini-companion-diff-test--random-lines))
               (old (gemini-companion-diff-test--join lines))
               (new (gemini-companion-diff-test--join
                     (if (zerop (random 8))
                         (gemini-companion-diff-test--random-lines)
                       (gemini-companion-diff-test--mutate lines)))))
          (ert-info ((format "%S\n%S" old new))
            (when (gemini-companion-diff-test--try old new)
              (setq mixes (1+ mixes))))))
      ;; Many of the changes were dropped in part.
      (should (> mixes 10)))))

;;; gemini-companion-diff-test.el ends here

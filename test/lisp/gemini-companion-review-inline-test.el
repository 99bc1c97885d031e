;;; gemini-companion-review-inline-test.el --- Tests of a review in its file's window -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'ediff)
(require 'face-remap)
(require 'hl-line)
(require 'gemini-companion-review-inline)
(require 'gemini-companion-test-companion)
(require 'gemini-companion-test-lists)

(defmacro gemini-companion-review-inline-test--with (client text &rest body)
  "Evaluate BODY with CLIENT connected and reviews in the window of the file.
That is a.txt with TEXT, which the selected window shows."
  (declare (indent 2) (debug (symbolp form body)))
  `(gemini-companion-test-with-client ,client
     (let ((gemini-companion-diff-function #'gemini-companion-review-inline-show)
           (require-final-newline nil))
       (delete-other-windows)
       (switch-to-buffer "a.txt")
       (erase-buffer)
       (insert ,text)
       (save-buffer)
       (goto-char (point-min))
       (unwind-protect (progn ,@body)
         (gemini-companion-review-window-stop-now)))))

(defun gemini-companion-review-inline-test--show (client text &optional focus)
  "Have CLIENT propose TEXT for a.txt; show the review and return it.
FOCUS is `select' by default."
  (let ((review (gemini-companion-test-propose client "a.txt" text)))
    (gemini-companion-review-show review (or focus 'select))
    review))

(defmacro gemini-companion-review-inline-test--with-change (spec old new &rest body)
  "Evaluate BODY while a change of a.txt from OLD to NEW is shown and selected.
SPEC is (CLIENT REVIEW), or (CLIENT) if BODY does not need the review."
  (declare (indent 3) (debug (sexp form form body)))
  (pcase-let ((`(,client ,review) spec))
    `(gemini-companion-review-inline-test--with ,client ,old
       (let ((,(or review '_review) (gemini-companion-review-inline-test--show ,client ,new)))
         ,@body))))

(defun gemini-companion-review-inline-test--press (&rest keys)
  "Press KEYS in the selected window."
  (dolist (key keys)
    (with-current-buffer (window-buffer)
      (let ((current-prefix-arg nil))
        (call-interactively (key-binding (kbd key)))))))

(defun gemini-companion-review-inline-test--insert (text &rest keys)
  "Insert TEXT in the selected window, then press KEYS."
  (with-current-buffer (window-buffer)
    (goto-char (window-point))
    (insert text))
  (apply #'gemini-companion-review-inline-test--press keys))

(defun gemini-companion-review-inline-test--lines ()
  "Return the lines in the selected window, each with its sign."
  (with-current-buffer (window-buffer)
    (save-excursion
      (goto-char (point-min))
      (let ((lines nil))
        (while (not (eobp))
          (push (concat (pcase (get-text-property (point) 'gemini-companion-review-hunk)
                          (`[removed ,_ ,_ ,_ ,_] "-")
                          (`[added ,_ ,_ ,_ ,_] "+")
                          (_ " "))
                        (buffer-substring-no-properties (point) (line-end-position)))
                lines)
          (forward-line))
        (nreverse lines)))))

(defun gemini-companion-review-inline-test--header ()
  "Return the header line of the selected window."
  (with-current-buffer (window-buffer)
    (gemini-companion-review-buffer--header-line)))

(defun gemini-companion-review-inline-test--accepted (client)
  "Accept the change, and return the text that CLIENT is sent."
  (gemini-companion-review-inline-test--press "C-c C-c")
  (alist-get 'content (fake-cli-wait-notification client "ide/diffAccepted")))

(defun gemini-companion-review-inline-test--state ()
  "Return all of the frame that a review changes."
  (list (selected-window)
        (mapcar (lambda (window)
                  (list window (window-buffer window) (window-edges window)
                        (window-start window) (window-point window)))
                (window-list))))

;;;; The view

(ert-deftest gemini-companion-review-inline/it-takes-the-place-of-the-file ()
  (gemini-companion-review-inline-test--with client "one\ntwo\nthree\n"
    (let ((windows (window-list)))
      (gemini-companion-review-inline-test--show client "one\n2\nthree\nfour\n")
      (should (equal (window-list) windows))
      (should (equal (buffer-name (window-buffer)) "*gemini review: a.txt*"))
      (should (equal (gemini-companion-review-inline-test--lines)
                     '(" one" "-two" "+2" " three" "+four")))
      (with-current-buffer (window-buffer)
        (should buffer-read-only)
        (should-not buffer-file-name)
        (pcase-dolist (`(,key . ,command)
                       '(("C-c C-c" . gemini-companion-accept)
                         ("C-c C-k" . gemini-companion-reject)
                         ("n" . gemini-companion-review-inline-next)
                         ("C-c C-n" . gemini-companion-review-inline-next)
                         ("C-c C-d" . gemini-companion-review-inline-drop)
                         ("C-c C-v" . gemini-companion-review-other-view)
                         ("C-c ;" . gemini-companion-review-comment)))
          (should (eq (key-binding (kbd key)) command))))
      (should (string-match-p "hunk 1 of 2.*a.txt.*\\+2 -1.*C-c C-c accepts.*C-c C-k rejects"
                              (gemini-companion-review-inline-test--header))))))

(ert-deftest gemini-companion-review-inline/afterwards-all-is-as-before ()
  (gemini-companion-review-inline-test--with client (mapconcat #'number-to-string
                                                               (number-sequence 1 200) "\n")
    (split-window-right)
    (goto-char (point-min))
    (forward-line 150)
    (set-window-point nil (point))
    (set-window-start nil (line-beginning-position -10))
    (let ((before (gemini-companion-review-inline-test--state))
          (text (string-replace "\n170\n" "\nx\n" (buffer-string))))
      (dolist (key '("C-c C-k" "C-c C-v"))
        (gemini-companion-review-inline-test--show client text)
        (should-not (equal (gemini-companion-review-inline-test--state) before))
        (if (equal key "C-c C-v") (gemini-companion-review-postpone
                                   (gemini-companion-review-shown))
          (gemini-companion-review-inline-test--press key))
        (should (equal (gemini-companion-review-inline-test--state) before))))))

(ert-deftest gemini-companion-review-inline/the-window-in-which-one-types-is-not-taken ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((before (gemini-companion-review-inline-test--state))
          (window (selected-window)))
      (cl-letf (((symbol-function 'frame-focus-state) (lambda (&rest _) t)))
        (gemini-companion-review-inline-test--show client "2\n" 'keep))
      (should (eq (selected-window) window))
      (should (equal (buffer-name (window-buffer)) "a.txt"))
      (should (= (length (window-list)) 2))
      (gemini-companion-reject)
      (should (equal (gemini-companion-review-inline-test--state) before))
      ;; The user is in another program.
      (cl-letf (((symbol-function 'frame-focus-state) #'ignore))
        (gemini-companion-review-inline-test--show client "2\n" 'keep))
      (should (= (length (window-list)) 1))
      (should (equal (buffer-name (window-buffer)) "*gemini review: a.txt*")))))

(ert-deftest gemini-companion-review-inline/removed-lines-at-the-beginning-stay-in-view ()
  "Also after an edit, or when a hunk is there again."
  (gemini-companion-review-inline-test--with-change (client) "a\nb\nc\n" "A\nb\nc\n"
    (let ((check (lambda ()
                   (should (string-prefix-p "a\nA\n" (buffer-string)))
                   (should (= (window-start) (point-min))))))
      (funcall check)
      (gemini-companion-review-inline-edit)
      (gemini-companion-review-inline-return)
      (funcall check)
      (gemini-companion-review-inline-drop)
      (gemini-companion-review-inline-undo)
      (funcall check))))

(ert-deftest gemini-companion-review-inline/added-lines-at-the-beginning-are-in-view ()
  "They were above the first line of the file, and the user was at the second hunk."
  (gemini-companion-review-inline-test--with client "1\n2\n3\n"
    (cl-letf (((symbol-function 'pos-visible-in-window-p)
               (lambda (position &rest _) (<= (window-start) position))))
      (gemini-companion-review-inline-test--show client "0\n1\n2\nthree\n"))
    (should (= (window-start) 1))
    (should (string-match-p "hunk 1 of 2" (gemini-companion-review-inline-test--header)))))

(ert-deftest gemini-companion-review-inline/a-new-window-shows-the-whole-first-hunk ()
  "It showed only the lines of it that fitted below the beginning of the file."
  (let ((lines (lambda (&rest added)
                 (let ((all (mapcar #'number-to-string (number-sequence 1 30))))
                   (string-join `(,@(seq-take all 12) ,@added ,@(seq-drop all 12)) "\n")))))
    (gemini-companion-review-inline-test--with client (funcall lines)
      (cl-letf* (((symbol-function 'frame-focus-state) #'always)
                 ;; In batch mode, nothing is.
                 ((symbol-function 'pos-visible-in-window-p)
                  (lambda (position &rest _)
                    (< (count-lines (window-start) position) (window-body-height))))
                 (review (gemini-companion-review-inline-test--show
                          client (funcall lines "a" "b" "c" "d") 'keep)))
        (with-selected-window (gemini-companion-review-visible-window review)
          (should (pos-visible-in-window-p
                   (gemini-companion-review-hunk-end (car gemini-companion-review-hunk-list)))))))))

(ert-deftest gemini-companion-review-inline/a-hunk-of-wrapped-lines-is-shown-whole ()
  (let ((lines (mapconcat #'number-to-string (number-sequence 1 30) "\n")))
    (gemini-companion-review-inline-test--with client (concat lines "\n")
      ;; These two lines take most of the window.
      (let ((long (make-string (* (- (window-body-width) 10) (- (window-body-height) 4)) ?x)))
        (gemini-companion-review-inline-test--show client (concat lines "\n" long "\nend\n")))
      (should (<= (count-screen-lines (window-start) (point-max)) (window-body-height))))))

(ert-deftest gemini-companion-review-inline/a-window-of-the-file-is-taken-while-one-is-elsewhere ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((file (selected-window))
          (other (split-window-right)))
      (select-window other)
      (switch-to-buffer "*scratch*")
      (let ((before (gemini-companion-review-inline-test--state)))
        (gemini-companion-review-inline-test--show client "2\n" 'keep)
        (should (eq (selected-window) other))
        (should (equal (buffer-name (window-buffer file)) "*gemini review: a.txt*"))
        (gemini-companion-review-next)
        (should (eq (selected-window) file))
        (gemini-companion-reject)
        (should (equal (gemini-companion-review-inline-test--state) before))))))

(ert-deftest gemini-companion-review-inline/a-low-window-is-not-taken-if-another-shows-the-file ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((height (frame-height)))
      (unwind-protect
          (let (high)
            (set-frame-height nil 40)
            (setq high (split-window nil 6))
            (let ((before (gemini-companion-review-inline-test--state)))
              (gemini-companion-review-inline-test--show client "2\n")
              (should (eq (selected-window) high))
              (gemini-companion-reject)
              (should (equal (gemini-companion-review-inline-test--state) before))))
        (delete-other-windows)
        (set-frame-height nil height)))))

(ert-deftest gemini-companion-review-inline/a-dedicated-window-is-not-taken ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (set-window-dedicated-p nil t)
    (unwind-protect
        (let ((before (gemini-companion-review-inline-test--state)))
          (gemini-companion-review-inline-test--show client "2\n")
          (should (= (length (window-list)) 2))
          (gemini-companion-reject)
          (should (equal (gemini-companion-review-inline-test--state) before)))
      (set-window-dedicated-p nil nil))))

(ert-deftest gemini-companion-review-inline/users-choose-the-window ()
  "By the example in the manual, from any window, also that of a terminal."
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((file (selected-window))
          (side (display-buffer-in-side-window (get-buffer-create "*scratch*")
                                               '((side . right))))
          (display-buffer-alist
           (with-temp-buffer
             (insert-file-contents (gemini-companion-test-path "docs/gemini-companion.texi"))
             (re-search-forward "display-buffer-alist\n *'\\((.*review\"\\)")
             (goto-char (match-beginning 1))
             (list (read (current-buffer))))))
      (dolist (selected (list file side))
        (select-window selected)
        (let ((before (gemini-companion-review-inline-test--state)))
          (gemini-companion-review-inline-test--show client "2\n" 'keep)
          (should (equal (buffer-name (window-buffer file)) "a.txt"))
          (should (= (length (window-list)) 3))
          (gemini-companion-reject)
          (should (equal (cadr (gemini-companion-review-inline-test--state)) (cadr before))))))))

(ert-deftest gemini-companion-review-inline/a-dedicated-window-of-its-own-shows-the-proposal ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((display-buffer-alist '(("\\*" display-buffer-in-direction (direction . right)
                                   (dedicated . t))))
          (before (gemini-companion-review-inline-test--state)))
      (gemini-companion-review-inline-test--show client "2\n")
      (gemini-companion-review-inline-edit)
      (should (equal (buffer-string) "2\n"))
      (gemini-companion-review-inline-return)
      (gemini-companion-reject)
      (should (equal (cadr (gemini-companion-review-inline-test--state)) (cadr before))))))

(ert-deftest gemini-companion-review-inline/what-the-user-displays-meanwhile-stays ()
  (gemini-companion-review-inline-test--with-change (client review) "one\ntwo\n" "2\n"
    (switch-to-buffer "*scratch*")
    (gemini-companion-review-reject review)
    (should (equal (buffer-name (window-buffer)) "*scratch*"))))

(ert-deftest gemini-companion-review-inline/a-clone-of-the-file-is-taken ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((clone (make-indirect-buffer (current-buffer) "clone" t)))
      (unwind-protect
          (progn
            (switch-to-buffer clone)
            (narrow-to-region 5 8)
            (gemini-companion-review-inline-test--show client "one\n2\n")
            (should (= (length (window-list)) 1))
            (gemini-companion-reject)
            (should (eq (window-buffer) clone))
            (should (equal (with-current-buffer clone (buffer-string)) "two")))
        (kill-buffer clone)))))

(ert-deftest gemini-companion-review-inline/a-new-file-is-shown-alone ()
  "Whatever the view of other changes."
  (dolist (function '(gemini-companion-review-inline-show gemini-companion-review-ediff-show))
    (gemini-companion-test-with-client client
      (let ((gemini-companion-diff-function function)
            (review (gemini-companion-test-propose client "new.txt" "text\nend\n")))
        (gemini-companion-review-show review 'select)
        (should (eq major-mode 'gemini-companion-review-inline-mode))
        (should (equal (buffer-string) "text\nend\n"))
        (should-not gemini-companion-review-hunk-list)
        (should (equal (gemini-companion-review-hunk-place 6 6) '(2 2 nil)))
        (should-error (gemini-companion-review-other-view) :type 'user-error)))))

(ert-deftest gemini-companion-review-inline/killing-its-buffers-postpones ()
  (dolist (part (list #'gemini-companion-review-front #'gemini-companion-review-proposal))
    (gemini-companion-review-inline-test--with client gemini-companion-test-three-hunks-old
      (let ((before (gemini-companion-review-inline-test--state))
            (review (gemini-companion-review-inline-test--show
                     client gemini-companion-test-three-hunks-new)))
        (gemini-companion-review-inline-test--press "k")
        (kill-buffer (funcall part review))
        (gemini-companion-test-wait-removed)
        (should (equal (gemini-companion-review-inline-test--state) before))
        (should-not (fake-cli-find-notification client "ide/diffRejected"))
        (gemini-companion-review-next)
        (should (equal (gemini-companion-review-inline-test--accepted client)
                       (string-replace "2\n2a\n" "two\n"
                                       gemini-companion-test-three-hunks-new)))))))

(ert-deftest gemini-companion-review-inline/it-ends-in-another-tab-too ()
  (dolist (end (list (lambda ()
                       (gemini-companion-review-reject (gemini-companion-review-shown)))
                     #'gemini-companion-test-kill-view))
    (gemini-companion-review-inline-test--with client "one\ntwo\n"
      (unwind-protect
          (let ((tab-bar-show nil)
                (before nil))
            (split-window-right)
            (goto-char 5)
            (setq before (gemini-companion-review-inline-test--state))
            (gemini-companion-review-inline-test--show client "2\n")
            (tab-bar-new-tab)
            (switch-to-buffer "*scratch*")
            (funcall end)
            (should (equal (buffer-name (window-buffer)) "*scratch*"))
            (tab-bar-select-tab 1)
            (should (equal (gemini-companion-review-inline-test--state) before)))
        (tab-bar-close-other-tabs)))))

;;;; What is shown when

(ert-deftest gemini-companion-review-inline/three-texts-are-shown-in-ediff ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((before (gemini-companion-review-inline-test--state))
          (review (gemini-companion-review-inline-test--show client "2\n")))
      (gemini-companion-review-inline-test--press "C-c C-t")
      (should (equal (list (gemini-companion-review-front review)) ediff-session-registry))
      (gemini-companion-review-three-way)
      (should-not ediff-session-registry)
      (should (equal (gemini-companion-review-inline-test--lines) '("-one" "-two" "+2")))
      (gemini-companion-review-three-way)
      (gemini-companion-review-other-view)
      (should-not ediff-session-registry)
      (should (equal (gemini-companion-review-inline-test--lines) '("-one" "-two" "+2")))
      (gemini-companion-reject)
      (should (equal (gemini-companion-review-inline-test--state) before)))))

(ert-deftest gemini-companion-review-inline/an-emptied-file-is-one-hunk ()
  (gemini-companion-review-inline-test--with-change (client review) "one\0\ntwo\n" ""
    (should (equal (gemini-companion-review-inline-test--lines) '("-one\0" "-two")))
    (gemini-companion-review-inline-test--press "k")
    (should (equal (gemini-companion-review-current-text review) "one\0\ntwo\n"))
    (should (string-match-p "Changes nothing.*no hunk left"
                            (gemini-companion-review-inline-test--header)))
    (should-error (gemini-companion-review-inline-test--press "k") :type 'user-error)))

(ert-deftest gemini-companion-review-inline/of-a-deleted-file-no-hunk-is-said-to-be-left ()
  "The whole text is shown once the user has edited it."
  (gemini-companion-review-inline-test--with-change (client review) "one\ntwo\n" "one\n2\n"
    (delete-file (gemini-companion-review-path review))
    (gemini-companion-review-popup--check-file)
    (gemini-companion-review-inline-test--press "e")
    (gemini-companion-review-inline-test--insert "mine " "C-c C-o")
    (should (equal (gemini-companion-review-inline-test--lines) '(" one" " mine 2")))
    (let ((header (gemini-companion-review-inline-test--header)))
      (should (string-search "Deleted on disk" header))
      (should-not (string-search "hunk" header)))))

(ert-deftest gemini-companion-review-inline/the-header-warns-of-edits-that-an-accept-would-lose ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (insert "mine ")
    (gemini-companion-review-inline-test--show client "one\n2\n")
    (should (string-match-p "\\` Unsaved edits  C-c C-e merges.*C-c C-c accepts  C-c C-k rejects"
                            (gemini-companion-review-inline-test--header)))))

(ert-deftest gemini-companion-review-inline/a-review-whose-view-fails-waits ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((before (gemini-companion-review-inline-test--state))
          (review (gemini-companion-test-propose client "a.txt" "2\n")))
      (cl-letf (((symbol-function 'gemini-companion-change-regions) #'error))
        (should-error (gemini-companion-review-show review 'select)))
      (should-not (gemini-companion-review-shown))
      (should (equal (gemini-companion-review-inline-test--state) before))
      (gemini-companion-accept)
      (should (eq (gemini-companion-review-shown) review))
      (should (equal (gemini-companion-review-inline-test--accepted client) "2\n")))))

(ert-deftest gemini-companion-review-inline/postponing-keeps-dropped-hunks ()
  (gemini-companion-review-inline-test--with client gemini-companion-test-three-hunks-old
    (let* ((before (gemini-companion-review-inline-test--state))
           (review (gemini-companion-review-inline-test--show
                    client gemini-companion-test-three-hunks-new))
           (text (progn (gemini-companion-review-inline-test--press "k")
                        (gemini-companion-review-current-text review))))
      (cl-letf (((symbol-function 'read-multiple-choice) (lambda (&rest _) '(?l))))
        (gemini-companion-review-inline-test--press "q"))
      (should-not (gemini-companion-review-shown))
      (should (equal (gemini-companion-review-inline-test--state) before))
      ;; The view leaves nothing behind in the proposal's buffer.
      (with-current-buffer (gemini-companion-review-proposal review)
        (should-not (memq #'gemini-companion-review-inline--proposal-changed after-change-functions)))
      (gemini-companion-review-next)
      (should (string-match-p "of 2" (gemini-companion-review-inline-test--header)))
      (should (equal (gemini-companion-review-inline-test--accepted client) text)))))

(ert-deftest gemini-companion-review-inline/a-hunk-not-yet-shown-is-not-dropped ()
  (gemini-companion-review-inline-test--with-change (client review)
      gemini-companion-test-three-hunks-old gemini-companion-test-three-hunks-new
    (with-current-buffer (gemini-companion-review-proposal review)
      (goto-char (point-min))
      (insert "zero\n"))
    (should-error (gemini-companion-review-inline-test--press "k") :type 'user-error)
    (should (equal (car (gemini-companion-review-inline-test--lines)) "+zero"))
    (should (equal (gemini-companion-review-current-text review)
                   (concat "zero\n" gemini-companion-test-three-hunks-new)))))

(ert-deftest gemini-companion-review-inline/g-compares-with-the-current-file ()
  (gemini-companion-review-inline-test--with-change (client review) "one\ntwo\n" "2\n"
    (gemini-companion-test-file "a.txt" "other\n")
    ;; What is shown could not be updated, so its hunks do not belong to this file.
    (cl-letf (((symbol-function 'gemini-companion-change-regions) #'error))
      (should-error (gemini-companion-review-inline-test--press "g")))
    (should-error (gemini-companion-review-inline-test--press "k") :type 'user-error)
    (should (equal (gemini-companion-review-current-text review) "2\n"))
    (gemini-companion-review-inline-test--press "g")
    (should (equal (gemini-companion-review-inline-test--lines) '("-other" "+2")))
    (gemini-companion-review-inline-test--press "k")
    (should (equal (gemini-companion-review-current-text review) "other\n"))))

;;;; Hunks

(ert-deftest gemini-companion-review-inline/keys-go-from-hunk-to-hunk ()
  (gemini-companion-review-inline-test--with-change (client)
      gemini-companion-test-three-hunks-old gemini-companion-test-three-hunks-new
    (let ((place (lambda ()
                   (string-match "hunk \\([0-9]\\) of 3" (gemini-companion-review-inline-test--header))
                   (match-string 1 (gemini-companion-review-inline-test--header)))))
      (should (equal (funcall place) "1"))
      (gemini-companion-review-inline-test--press "n")
      (should (equal (funcall place) "2"))
      (gemini-companion-review-inline-test--press "TAB")
      (should (equal (funcall place) "3"))
      (should-error (gemini-companion-review-inline-test--press "n") :type 'user-error)
      (gemini-companion-review-inline-test--press "p" "<backtab>")
      (should (equal (funcall place) "1"))
      (should-error (gemini-companion-review-inline-test--press "p") :type 'user-error))))

(ert-deftest gemini-companion-review-inline/a-hunk-is-dropped-and-brought-back ()
  (gemini-companion-review-inline-test--with-change (client review)
      "one\ntwo\nthree\n" "one\n2\nthree\nfour\n"
    (gemini-companion-review-inline-test--press "k")
    (should (equal (gemini-companion-review-inline-test--lines) '(" one" " two" " three" "+four")))
    (should (equal (gemini-companion-review-current-text review) "one\ntwo\nthree\nfour\n"))
    (gemini-companion-review-inline-test--press "u")
    (should (equal (gemini-companion-review-inline-test--lines)
                   '(" one" "-two" "+2" " three" "+four")))
    (should (string-search "hunk 1 of 2" (gemini-companion-review-inline-test--header)))
    (should-error (gemini-companion-review-inline-test--press "u") :type 'user-error)
    (should (equal (gemini-companion-review-inline-test--accepted client) "one\n2\nthree\nfour\n"))))

(ert-deftest gemini-companion-review-inline/another-window-stays-at-its-line ()
  (let ((text (mapconcat #'number-to-string (number-sequence 1 99) "\n")))
    (gemini-companion-review-inline-test--with-change (client)
        (concat "a\n" text) (concat "c\n" text)
      (let ((other (split-window)))
        (with-current-buffer (window-buffer)
          (set-window-point other (save-excursion (search-forward "\n80\n") (match-beginning 0)))
          (gemini-companion-review-inline-test--press "k")
          (goto-char (window-point other))
          (should (equal (thing-at-point 'line) "79\n")))))))

(ert-deftest gemini-companion-review-inline/the-window-goes-back-to-its-line-if-all-was-replaced ()
  (let ((text (mapconcat #'number-to-string (number-sequence 1 30) "\n")))
    (gemini-companion-review-inline-test--with client text
      (goto-char (point-min))
      (forward-line 11)
      (let ((review (gemini-companion-review-inline-test--show client "1\n")))
        (with-current-buffer "a.txt"
          (erase-buffer)
          (insert "new\n" text))
        (gemini-companion-review-reject review)
        (should (eq (window-buffer) (get-buffer "a.txt")))
        (should (= (line-number-at-pos (window-point)) 12)))
      (set-buffer-modified-p nil))))

(ert-deftest gemini-companion-review-inline/undo-goes-to-the-hunk-that-is-back ()
  (gemini-companion-review-inline-test--with-change (client)
      "1\n2\n3\n4\n5\n6\n" "1\n3\n4\nfive\n6\n"
    (let ((looking-at (lambda (regexp)
                        (with-current-buffer (window-buffer) (looking-at-p regexp)))))
      (dolist (key '("k" "y"))
        (gemini-companion-review-inline-test--press key)
        (should (funcall looking-at "5"))
        (with-current-buffer (window-buffer) (goto-char (point-max)))
        (gemini-companion-review-inline-test--press "u")
        (should (funcall looking-at "2"))
        (should (string-search "hunk 1 of 2" (gemini-companion-review-inline-test--header))))
      ;; What was edited in a hunk with both is the added line.
      (gemini-companion-review-inline-test--press "n")
      (with-current-buffer (window-buffer) (forward-line))
      (gemini-companion-review-inline-test--press "e")
      (gemini-companion-review-inline-test--insert "x" "C-c C-o")
      (should (funcall looking-at "xfive")))))

(ert-deftest gemini-companion-review-inline/lines-of-the-region-are-dropped ()
  (gemini-companion-review-inline-test--with-change (client review) "1\n2\n3" "one\ntwo\n3\nmore"
    (let ((drop (lambda (first last)
                  (with-current-buffer (window-buffer)
                    (goto-char (point-min))
                    (search-forward first)
                    (set-mark (match-beginning 0))
                    (goto-char (mark))
                    (search-forward last)
                    (let ((transient-mark-mode t))
                      (activate-mark)
                      (gemini-companion-review-inline-test--press "k"))))))
      (funcall drop "two" "two")
      (should (equal (gemini-companion-review-current-text review) "one\n3\nmore"))
      (funcall drop "2\n" "2")
      (should (equal (gemini-companion-review-current-text review) "2\none\n3\nmore"))
      (gemini-companion-review-inline-test--press "u" "u")
      ;; That the last line has no newline is part of a change.
      (funcall drop "more" "more")
      (should (equal (gemini-companion-review-current-text review) "one\ntwo\n3\n"))
      (gemini-companion-review-inline-test--press "u")
      (with-current-buffer (window-buffer)
        (goto-char (point-min))
        (search-forward "more")
        (gemini-companion-review-inline-test--press "k"))
      (should (equal (gemini-companion-review-current-text review) "1\n2\n3")))))

(ert-deftest gemini-companion-review-inline/all-hunks-in-the-region-are-dropped ()
  (gemini-companion-review-inline-test--with-change (client review)
      "1\n2\n3\n4\n5\n" "new\nnew\n1\n2\n4\nfive\n"
    (let ((transient-mark-mode t))
      (with-current-buffer (window-buffer)
        (set-mark (point-min))
        (goto-char (point-max))
        (activate-mark)
        (gemini-companion-review-inline-test--press "k"))
      (should (equal (gemini-companion-review-current-text review) "1\n2\n3\n4\n5\n")))))

(ert-deftest gemini-companion-review-inline/a-kept-hunk-is-shown-as-if-it-was-in-the-file ()
  (gemini-companion-review-inline-test--with-change (client review)
      gemini-companion-test-three-hunks-old gemini-companion-test-three-hunks-new
    (let ((all nil))
      (setq all (gemini-companion-review-inline-test--lines))
      (gemini-companion-review-inline-test--press "y")
      (should (string-search "hunk 1 of 2" (gemini-companion-review-inline-test--header)))
      (should (equal (seq-take (gemini-companion-review-inline-test--lines) 3) '(" one" " 2" " 2a")))
      (gemini-companion-review-inline-test--press "k")
      (should (string-search "hunk 1 of 1" (gemini-companion-review-inline-test--header)))
      (gemini-companion-review-inline-test--press "y")
      (should (string-search "no hunk left" (gemini-companion-review-inline-test--header)))
      (should (gemini-companion-review-open-p review))
      ;; Undo goes back through all of it.
      (dotimes (_ 3) (gemini-companion-review-inline-test--press "u"))
      (should (equal (gemini-companion-review-inline-test--lines) all))
      (should-error (gemini-companion-review-inline-test--press "u") :type 'user-error)
      (should (equal (gemini-companion-review-inline-test--accepted client)
                     gemini-companion-test-three-hunks-new)))))

(ert-deftest gemini-companion-review-inline/lines-are-those-of-the-proposal ()
  (gemini-companion-review-inline-test--with-change (client)
      "1\n2\n3\n4\n5\n" "1\nthree\n4\n5\nsix\n"
    (with-current-buffer (window-buffer)
      (should (eq (key-binding (kbd "M-g g")) #'gemini-companion-review-inline-goto-line))
      (cl-loop for (line text) in '((1 "1") (2 "three") (3 "4") (5 "six"))
               do (gemini-companion-review-inline-goto-line line)
               (should (looking-at-p text))
               (should (= (gemini-companion-review-hunk-line) line))))))

;;;; Editing

(ert-deftest gemini-companion-review-inline/the-proposal-is-edited-in-place ()
  (dolist (back '("C-c C-o" "C-x C-s"))
    (gemini-companion-review-inline-test--with-change (client review)
        "one\ntwo\nthree\n" "one\n2\nthree\nfour\n"
      (gemini-companion-review-inline-test--press "n")
      (should (equal (gemini-companion-ui-key-of #'gemini-companion-review-inline-edit) "e"))
      (gemini-companion-review-inline-test--press "e")
      (should (eq (window-buffer) (gemini-companion-review-proposal review)))
      (with-current-buffer (window-buffer) (should (looking-at-p "four")))
      (should (= (length (window-list)) 1))
      (should (gemini-companion-review-intact-p review))
      (should (string-match-p "goes back" (gemini-companion-review-inline-test--header)))
      (gemini-companion-review-inline-test--insert "x")
      ;; As the user does, since another mode has C-x C-s, too.
      (execute-kbd-macro (kbd back))
      (should (equal (gemini-companion-review-inline-test--lines)
                     '(" one" "-two" "+2" " three" "+xfour")))
      (with-current-buffer (window-buffer) (should (looking-at-p "xfour")))
      (should (equal (gemini-companion-review-inline-test--accepted client)
                     "one\n2\nthree\nxfour\n")))))

(ert-deftest gemini-companion-review-inline/one-returns-to-the-edit-in-a-long-line ()
  "The beginning of a paragraph may be out of sight."
  (let ((words (apply #'concat (make-list 50 "some words "))))
    (gemini-companion-review-inline-test--with-change (client)
        (concat "one\n" words "end " words "\n") (concat "one\n" words "END " words "\n")
      (gemini-companion-review-inline-test--press "e")
      (with-current-buffer (window-buffer) (should (looking-at-p "END ")))
      (gemini-companion-review-inline-test--insert "x")
      (gemini-companion-review-inline-test--press "C-c C-o")
      (with-current-buffer (window-buffer) (should (looking-at-p "END "))))))

(ert-deftest gemini-companion-review-inline/while-it-is-edited-nothing-is-compared-until-the-change-is-seen ()
  (gemini-companion-review-inline-test--with-change (client) "one\ntwo\n" "one\n2\n"
    (let* ((main (window-buffer))
           (tick (buffer-chars-modified-tick main)))
      (gemini-companion-review-inline-test--press "e")
      (gemini-companion-review-inline-test--insert "x")
      (gemini-companion-test-wait
       "the user's pause"
       (lambda ()
         (not (gemini-companion-test-timers #'gemini-companion-review-inline--follow-edits))))
      (should (= (buffer-chars-modified-tick main) tick))
      (switch-to-buffer main)
      ;; As Emacs does before it draws a window that shows another buffer.
      (run-hook-with-args 'window-buffer-change-functions (selected-window))
      (should (equal (gemini-companion-review-inline-test--lines) '(" one" "-two" "+x2"))))))

(ert-deftest gemini-companion-review-inline/a-change-is-decided-while-it-is-edited ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((before (gemini-companion-review-inline-test--state)))
      (gemini-companion-review-inline-test--show client "one\n2\n")
      (gemini-companion-review-inline-test--press "e")
      (gemini-companion-review-inline-test--insert "x")
      (should (equal (gemini-companion-review-inline-test--accepted client) "one\nx2\n"))
      ;; Until the file is written, the old text would be shown.
      (should (equal (gemini-companion-review-inline-test--lines) '(" one" "-two" "+x2")))
      (gemini-companion-review-window-stop-now)
      (should (equal (gemini-companion-review-inline-test--state) before)))))

(ert-deftest gemini-companion-review-inline/undo-in-the-proposal-keeps-and-unkeeps-exactly ()
  (gemini-companion-review-inline-test--with-change (client review)
      "1\n2\n3\n4\n5\n6\n7\n8\n" "1\na\nb\nc\nd\n3\n4\n5\n6\n7\n8\nx"
    (let* ((all (gemini-companion-review-inline-test--lines))
           (undo (lambda (&rest befores)
                   (gemini-companion-review-inline-test--press "e")
                   (with-current-buffer (window-buffer)
                     (dolist (last-command befores)
                       (let ((this-command 'undo))
                         (undo 1)
                         ;; As Emacs does after each command.
                         (undo-boundary))))
                   (gemini-companion-review-inline-test--press "C-c C-o")
                   (gemini-companion-review-inline-test--lines)))
           (kept '(" 1" " a" " b" " c" " d" " 3" " 4" " 5" " 6" " 7" " 8" "+x")))
      (gemini-companion-review-inline-test--press "y" "u")
      ;; The first one does it again.
      (should (equal (funcall undo nil) kept))
      (should (equal (funcall undo nil) all))
      (should (equal (funcall undo nil 'undo) all))
      (should (equal (gemini-companion-review-current-text review)
                     "1\na\nb\nc\nd\n3\n4\n5\n6\n7\n8\nx")))))

(ert-deftest gemini-companion-review-inline/undo-tree-mode-undoes-what-it-has-taken ()
  "Evil's users turn it on in all buffers.  It leaves a symbol in Emacs's list."
  (gemini-companion-review-inline-test--with-change (client review) "1\n" "one\n"
    (gemini-companion-review-inline-test--press "k")
    (with-current-buffer (gemini-companion-review-proposal review)
      (setq-local undo-tree-mode t)
      (let ((taken (seq-take-while #'identity (cdr buffer-undo-list))))
        (setq buffer-undo-list '(nil undo-tree-canary))
        (cl-letf (((symbol-function 'undo-tree-undo)
                   (lambda () (interactive) (primitive-undo 1 taken))))
          (gemini-companion-review-inline-test--press "u"))))
    (should (equal (gemini-companion-review-inline-test--lines) '("-1" "+one")))))

(ert-deftest gemini-companion-review-inline/another-view-has-what-was-dropped-and-edited ()
  (gemini-companion-review-inline-test--with-change (client review)
      gemini-companion-test-three-hunks-old gemini-companion-test-three-hunks-new
    (let ((text nil))
      (gemini-companion-review-inline-test--press "k")
      (setq text (gemini-companion-review-current-text review))
      (should-not (equal text gemini-companion-test-three-hunks-new))
      (gemini-companion-review-inline-test--press "C-c C-v")
      (should (= (length ediff-session-registry) 1))
      (with-current-buffer (gemini-companion-review-proposal review)
        (gemini-companion-review-other-view))
      (should (equal (buffer-name (window-buffer)) "*gemini review: a.txt*"))
      (should-not ediff-session-registry)
      (should (equal (gemini-companion-review-inline-test--accepted client) text)))))

(ert-deftest gemini-companion-review-inline/another-view-is-at-the-hunk-where-the-user-was ()
  "Also if that only removes lines, and when the change is shown again."
  (gemini-companion-review-inline-test--with-change (client review)
      gemini-companion-test-three-hunks-old gemini-companion-test-three-hunks-new
    (let* ((header (lambda () (substring (gemini-companion-review-inline-test--header) 1 12)))
           (ediff (lambda () (with-current-buffer (car ediff-session-registry)
                               (list (1+ ediff-current-difference) ediff-number-of-differences)))))
      (dolist (hunk '(2 3))
        (gemini-companion-review-inline-test--press "n")
        (should (equal (funcall header) (format "hunk %d of 3" hunk)))
        (gemini-companion-review-inline-test--press "C-c C-v")
        (should (equal (funcall ediff) (list hunk 3)))
        (gemini-companion-review-inline-test--press "C-c C-v")
        (should (equal (funcall header) (format "hunk %d of 3" hunk))))
      (gemini-companion-review-inline-test--press "C-c C-v" "p")
      (gemini-companion-review-postpone review)
      (gemini-companion-review-next)
      (should (equal (funcall ediff) '(2 3))))))

(ert-deftest gemini-companion-review-inline/another-view-is-not-the-one-on-screen ()
  "Though by now that would be chosen, as in a frame that was made larger."
  (gemini-companion-review-inline-test--with-change (client) "one\n" "two\n"
    (setq gemini-companion-diff-function #'gemini-companion-review-ediff-show)
    (gemini-companion-review-inline-test--press "C-c C-v")
    (should ediff-session-registry)
    (setq gemini-companion-diff-function #'gemini-companion-review-inline-show)
    (gemini-companion-review-inline-test--press "C-c C-v")
    (should-not ediff-session-registry)))

;;;; Faces

(defun gemini-companion-review-inline-test--fontify ()
  "Do in the current buffer what redisplay does, which a batch Emacs lacks."
  (with-silent-modifications
    (gemini-companion-review-hunk--fontify (point-min) (point-max))))

(ert-deftest gemini-companion-review-inline/a-removed-line-at-point-looks-removed ()
  "Though the current line is highlighted in other buffers."
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (global-hl-line-mode 1)
    (unwind-protect
        (progn
          (gemini-companion-review-inline-test--show client "2\n")
          (gemini-companion-review-inline-test--fontify)
          (global-hl-line-highlight)
          (should (eq (char-after) ?o))
          (should (memq 'gemini-companion-removed (ensure-list (get-char-property (point) 'face)))))
      (global-hl-line-mode -1))))

(ert-deftest gemini-companion-review-inline/faces-are-those-of-each-text ()
  (gemini-companion-review-inline-test--with-change (client review)
      "one\ntwo\nthree\n" "one\n2\nthree\n"
    (let ((face (lambda (text)
                  (goto-char (point-min))
                  (search-forward text)
                  (ensure-list (get-text-property (1- (point)) 'face)))))
      (with-current-buffer (window-buffer)
        ;; A batch Emacs fontifies nothing itself.
        (cl-loop for (buffer text property face)
                 in `((,(gemini-companion-review-proposal review) "three" face bold)
                      (,(gemini-companion-review-inline--current gemini-companion-review-window-current)
                       "two" font-lock-face italic))
                 do (with-current-buffer buffer
                      (with-silent-modifications
                        (goto-char (point-min))
                        (search-forward text)
                        (put-text-property (match-beginning 0) (point) property face))))
        (gemini-companion-review-inline-test--fontify)
        (should (equal (funcall face "one") nil))
        (should (memq 'italic (funcall face "two")))
        (should (memq 'gemini-companion-removed (funcall face "two")))
        (should (memq 'gemini-companion-added (funcall face "2")))
        (should (equal (funcall face "three") '(bold)))))))

(ert-deftest gemini-companion-review-inline/a-dropped-hunk-has-the-faces-of-the-file ()
  (let ((auto-mode-alist '(("" . emacs-lisp-mode)))
        (noninteractive nil)) ; Emacs in batch mode does not fontify
    (gemini-companion-review-inline-test--with-change (client) "(if one)\n" "(if two)\n"
      (gemini-companion-review-inline-test--press "k")
      (with-current-buffer (window-buffer)
        (gemini-companion-review-inline-test--fontify)
        (should (equal (buffer-string) "(if one)\n"))
        (should (eq (get-text-property 2 'face) 'font-lock-keyword-face))))))

(ert-deftest gemini-companion-review-inline/words-that-differ-are-marked ()
  (gemini-companion-review-inline-test--with-change (client)
      "the quick brown fox jumps\nsame\n" "the quick red fox jumps\nsame\n"
    (with-current-buffer (window-buffer)
      (gemini-companion-review-inline-test--fontify)
      (cl-loop for (word . face) in '(("brown" . gemini-companion-removed-word)
                                      ("red" . gemini-companion-added-word))
               do (goto-char (point-min))
               (search-forward word)
               (should (memq face (ensure-list (get-text-property (1- (point)) 'face))))
               (should-not (memq face (ensure-list (get-text-property (1+ (point)) 'face))))))))

(ert-deftest gemini-companion-review-inline/blanks-are-marked-if-only-they-differ ()
  "Otherwise, the removed line and the added one look the same."
  (cl-loop
   for (old new place face) in '(("some text  \n" "some text\n" 10 gemini-companion-removed-word)
                                 ("some text\n" "some text  \n" 20 gemini-companion-added-word)
                                 ("\tsome text\n" "        some text\n" 1
                                  gemini-companion-removed-word))
   do (gemini-companion-review-inline-test--with-change (client) old new
        (with-current-buffer (window-buffer)
          (gemini-companion-review-inline-test--fontify)
          (should (memq face (ensure-list (get-text-property place 'face))))
          (should-not (memq face (ensure-list (get-text-property 5 'face))))))))

(ert-deftest gemini-companion-review-inline/the-margin-has-the-numbers-of-lines ()
  (gemini-companion-review-inline-test--with client "1\n2\n3\n"
    (setq-local display-line-numbers t)
    (gemini-companion-review-inline-test--show client "1\ntwo\n3\n")
    (with-current-buffer (window-buffer)
      (should-not display-line-numbers)
      (should (= left-margin-width 4))
      (gemini-companion-review-inline-test--fontify)
      (let ((prefixes nil))
        (goto-char (point-min))
        (while (not (eobp))
          (push (substring-no-properties
                 (nth 1 (get-text-property 0 'display
                                           (get-text-property (point) 'line-prefix))))
                prefixes)
          (forward-line))
        (should (equal (nreverse prefixes) '("  1 " "-   " "+ 2 " "  3 ")))))))

(ert-deftest gemini-companion-review-inline/signs-in-the-fringe-have-a-color-of-their-own ()
  "In many themes, the foreground of the fringe is nearly its background."
  (gemini-companion-review-inline-test--with client "1\n"
    (cl-letf (((symbol-function 'display-graphic-p) #'always))
      (gemini-companion-review-inline-test--show client "one\n")
      (with-current-buffer (window-buffer)
        (gemini-companion-review-inline-test--fontify)
        (should (equal (mapcar (lambda (line)
                                 (nth 2 (get-text-property
                                         0 'display (get-text-property line 'line-prefix))))
                               '(1 3))
                       '(diff-indicator-removed diff-indicator-added)))))))

(ert-deftest gemini-companion-review-inline/a-narrow-fringe-cuts-off-no-signs ()
  "Without them, only colors would tell removed lines from added ones."
  ;; What Fringe mode sets, and what many users set.
  (pcase-dolist (`(,frame ,buffer ,wide) '((8 nil t) (4 nil nil) (1 nil nil) (8 0 nil)))
    (gemini-companion-review-inline-test--with client "1\n"
      (cl-letf (((symbol-function 'display-graphic-p) #'always)
                ((frame-parameter nil 'left-fringe) frame)
                ((default-value 'left-fringe-width) buffer))
        (gemini-companion-review-inline-test--show client "one\n")
        (with-current-buffer (window-buffer)
          (gemini-companion-review-inline-test--fontify)
          (should (equal (mapcar (lambda (line)
                                   (pcase (get-text-property
                                           0 'display (get-text-property line 'line-prefix))
                                     (`(left-fringe ,bitmap . ,_) bitmap)
                                     (`(,_ ,sign) (substring-no-properties sign))))
                                 '(1 3))
                         (if wide '(diff-fringe-del diff-fringe-add) '("- " "+ ")))))))))

(ert-deftest gemini-companion-review-inline/text-scale-mode-cuts-off-no-numbers ()
  "It enlarges the text, but the margin stays as wide as it is."
  (gemini-companion-review-inline-test--with client "1\n"
    (setq-local display-line-numbers t)
    (gemini-companion-review-inline-test--show client "one\n")
    (with-current-buffer (window-buffer)
      (gemini-companion-review-inline-test--fontify)
      (cl-letf* ((sign (nth 1 (get-text-property 0 'display (get-text-property 1 'line-prefix))))
                 (height (plist-get (car (get-text-property 0 'face sign)) :height))
                 ((symbol-function 'display-graphic-p) #'always)
                 ((symbol-function 'face-attribute) (lambda (&rest _) 100)))
        (should (= 100 (funcall height 173)))
        (should (= 60 (funcall height 60)))))))

;;;; Comments

(defun gemini-companion-review-inline-test--comment (text &optional place)
  "Comment TEXT on the line of PLACE, a text, or on where the user is."
  (with-current-buffer (window-buffer)
    (when place
      (goto-char (point-min))
      (search-forward place))
    (cl-letf (((symbol-function 'read-string) (lambda (&rest _) text)))
      (gemini-companion-review-inline-test--press "C-c ;"))))

(defun gemini-companion-review-inline-test--comments ()
  "Return the comments in the selected window, with the lines above them."
  (with-current-buffer (window-buffer)
    (cl-loop for (_ _ _ text _ overlay) in (gemini-companion-comment-list (current-buffer))
             collect (list (save-excursion
                             (goto-char (overlay-end overlay))
                             (buffer-substring-no-properties (line-beginning-position)
                                                             (line-end-position)))
                           text))))

(ert-deftest gemini-companion-review-inline/comments-stay-at-their-lines-in-all-views ()
  (gemini-companion-review-inline-test--with-change (client review)
      "one\ntwo\nthree\nfour\n" "one\n2\nthree\n4\n"
    (let ((all '(("two" "why?") ("2" "two!") ("4" "@see"))))
      (gemini-companion-review-inline-test--comment "why?" "two")
      (gemini-companion-review-inline-test--comment "two!" "2")
      (gemini-companion-review-inline-test--comment "@see" "4")
      (should (equal (gemini-companion-review-inline-test--comments) all))
      (should (string-search "3 comments" (gemini-companion-review-inline-test--header)))
      (with-current-buffer (gemini-companion-review-proposal review)
        (goto-char (point-min))
        (insert "zero\n"))
      (with-current-buffer (window-buffer) (revert-buffer))
      (should (equal (gemini-companion-review-inline-test--comments) all))
      (gemini-companion-review-inline-test--press "C-c C-v")
      (should (= (length ediff-session-registry) 1))
      (should (= (gemini-companion-comment-count review) 3))
      ;; Neither is a killed proposal the end of them.
      (kill-buffer (gemini-companion-review-proposal review))
      (gemini-companion-test-wait-removed)
      (gemini-companion-review-next)
      (gemini-companion-review-other-view)
      (should (equal (gemini-companion-review-inline-test--comments) all))
      (gemini-companion-review-inline-test--comment "" "2")
      (should (equal (mapcar #'cadr (gemini-companion-review-inline-test--comments)) '("why?" "@see")))
      (should (equal (gemini-companion-comment--prompt review)
                     "a.txt:3 (removed) `two`: why?\na.txt:5 `4`: @see")))))

(ert-deftest gemini-companion-review-inline/words-that-a-comment-is-on-outlive-the-proposal ()
  (gemini-companion-review-inline-test--with-change (client review) "one\n" "one two three\n"
    (let ((transient-mark-mode t))
      (with-current-buffer (window-buffer)
        (goto-char (point-min))
        (search-forward "two")
        (push-mark (match-beginning 0) t t)
        (gemini-companion-review-inline-test--comment "why?"))
      (kill-buffer (gemini-companion-review-proposal review))
      (gemini-companion-test-wait-removed)
      (gemini-companion-review-next)
      (should (equal (gemini-companion-comment--prompt review) "a.txt:1 `two`: why?")))))

(ert-deftest gemini-companion-review-inline/a-comment-is-on-its-removed-line-only ()
  (gemini-companion-review-inline-test--with-change (client) "a\nFoo\nfoobar\nfoo\nz\n" "a\nz\n"
    (gemini-companion-review-inline-test--comment "why?" "foobar\nfoo")
    (let ((comment (nth 5 (car (gemini-companion-comment-list (window-buffer))))))
      (should (= 4 (with-current-buffer (window-buffer)
                     (line-number-at-pos (overlay-start comment))))))))

(ert-deftest gemini-companion-review-inline/a-comment-may-be-on-a-long-removed-line ()
  (let* ((line (make-string 40000 ?x))
         (all `((,line "why?"))))
    (gemini-companion-review-inline-test--with-change (client review)
        (concat "a\n" line "\nb\n") "a\nnew\nb\n"
      (gemini-companion-review-inline-test--comment "why?" line)
      (should (equal (gemini-companion-review-inline-test--comments) all))
      (gemini-companion-review-show review 'select)
      (should (equal (gemini-companion-review-inline-test--comments) all)))))

(ert-deftest gemini-companion-review-inline/narrowing-moves-neither-hunks-nor-comments ()
  (gemini-companion-review-inline-test--with-change (client)
      "1\n2\n3\n4\n5\n6\n7\n8\n9\n" "1\nTWO\n3\n4\n5\n6\n7\n8\nnine\n"
    (gemini-companion-review-inline-test--comment "what?" "TWO")
    (with-current-buffer (window-buffer)
      (search-forward "5")
      (narrow-to-region (line-beginning-position) (line-beginning-position 3))
      (gemini-companion-review-inline-test--comment "why")
      (gemini-companion-ui-widened
        (should (equal (gemini-companion-review-inline-test--comments)
                       '(("TWO" "what?") ("5" "why")))))
      (gemini-companion-review-inline-test--press "n")
      (should (looking-at-p "9")))))

(ert-deftest gemini-companion-review-inline/a-hunk-that-is-visible-in-part-is-dropped-as-a-whole ()
  (pcase-dolist (`(,first . ,last) '(("two" . "z") ("a" . "ONE")))
    (gemini-companion-review-inline-test--with-change (client review)
        "a\none\ntwo\nthree\nz\n" "a\nONE\nTWO\nz\n"
      (with-current-buffer (window-buffer)
        (goto-char (point-min))
        (re-search-forward (format "^%s$" first))
        (narrow-to-region (line-beginning-position)
                          (save-excursion (re-search-forward (format "^%s$" last))
                                          (line-beginning-position 2)))
        (goto-char (point-min))
        (unless (gemini-companion-review-hunk-at (point))
          (forward-line))
        (gemini-companion-review-inline-test--press "k"))
      (should (equal (gemini-companion-review-current-text review) "a\none\ntwo\nthree\nz\n"))
      ;; It is brought back, even if the proposal is narrowed to something else.
      (with-current-buffer (gemini-companion-review-proposal review)
        (narrow-to-region (point-max) (point-max)))
      (gemini-companion-review-inline-test--press "u")
      (should (equal (gemini-companion-review-current-text review) "a\nONE\nTWO\nz\n")))))

(ert-deftest gemini-companion-review-inline/a-hunk-is-dropped-as-a-whole-or-not-at-all ()
  (gemini-companion-review-inline-test--with-change (client review) "one\ntwo\n" "ONE\ntwo\n"
    (let ((fail (lambda (&rest _) (error "Not today"))))
      (with-current-buffer (gemini-companion-review-proposal review)
        (add-hook 'after-change-functions fail nil t))
      (should-error (gemini-companion-review-inline-test--press "k"))
      (should (equal (gemini-companion-review-current-text review) "ONE\ntwo\n")))))

(ert-deftest gemini-companion-review-inline/the-hook-of-the-mode-is-run ()
  "As its documentation says; one that fails keeps no change from the screen."
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((gemini-companion-review-inline-mode-hook
           (list (lambda () (setq-local line-spacing 3)) (lambda () (error "Not today")))))
      (gemini-companion-review-inline-test--show client "ONE\ntwo\n")
      (with-current-buffer (window-buffer)
        (should (eq major-mode 'gemini-companion-review-inline-mode))
        (should (eql line-spacing 3)))
      (should (equal (gemini-companion-review-inline-test--lines) '("-one" "+ONE" " two"))))))

(ert-deftest gemini-companion-review-inline/it-may-be-swapped-with-another-buffer ()
  "As by `ace-swap-window', and by the commands of the package buffer-move."
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((windows (list (selected-window) (split-window))))
      (set-window-buffer (cadr windows) "*scratch*")
      (let ((review (gemini-companion-review-inline-test--show client "ONE\ntwo\n")))
        (set-window-buffer (cadr windows) (window-buffer))
        (set-window-buffer (car windows) "*scratch*")
        (gemini-companion-review-reject review)
        (should (equal (mapcar (lambda (it) (buffer-name (window-buffer it))) windows)
                       '("*scratch*" "a.txt")))))))

(defvar dimmer-buffer-face-remaps)

(ert-deftest gemini-companion-review-inline/faces-change-there-but-not-in-the-file ()
  "As the text is scaled, or as Dimmer dims and brightens what is not selected."
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((file (current-buffer))
          (remapped (lambda () (copy-tree face-remapping-alist))))
      (setq-local dimmer-buffer-face-remaps
                  (list (face-remap-add-relative 'default :foreground "gray")))
      (let ((before (funcall remapped))
            (review (gemini-companion-review-inline-test--show client "ONE\ntwo\n")))
        (with-current-buffer (window-buffer)
          (should (equal (funcall remapped) before))
          (text-scale-increase 1)
          (mapc #'face-remap-remove-relative dimmer-buffer-face-remaps)
          (should-not (string-search "gray" (prin1-to-string face-remapping-alist))))
        (gemini-companion-review-reject review)
        (should (equal (with-current-buffer file (funcall remapped)) before))))))

(ert-deftest gemini-companion-review-inline/it-looks-like-a-file-that-no-buffer-visits ()
  (gemini-companion-test-with-client client
    (let ((gemini-companion-diff-function #'gemini-companion-review-inline-show))
      (gemini-companion-test-file "Makefile" "שלום:\n\tls\n")
      (gemini-companion-review-show (gemini-companion-test-propose client "Makefile" "שלום:\n\tcat\n")
                                    'select)
      (should (derived-mode-p 'gemini-companion-review-inline-mode))
      (should (eq bidi-paragraph-direction 'left-to-right)))))

(ert-deftest gemini-companion-review-inline/help-lists-all-keys ()
  (gemini-companion-review-inline-test--with-change (client) "one\n" "ONE\n"
    (save-window-excursion
      (describe-mode)
      (with-current-buffer "*Help*"
        (dolist (command '("accept" "accept-all" "review-other-view" "review-inline-drop"))
          (goto-char (point-min))
          (should (re-search-forward (format "^C-c .*\\<gemini-companion-%s$" command))))))))

(ert-deftest gemini-companion-review-inline/another-major-mode-keeps-what-one-does ()
  (gemini-companion-review-inline-test--with-change (client review) "one\ntwo\n" "ONE\ntwo\n"
    (gemini-companion-review-inline-test--press "e")
    (with-current-buffer (window-buffer)
      (text-mode)
      (should gemini-companion-review-mode)
      (should (string-search "goes back" (gemini-companion-review-inline-test--header)))
      (gemini-companion-comment-add (current-buffer) 2 2 "why?"))
    (gemini-companion-review-inline-test--press "C-x C-s")
    (should (equal (gemini-companion-review-inline-test--lines) '("-one" "+ONE" " two")))
    ;; In another window, for example.
    (with-current-buffer (gemini-companion-review-proposal review)
      (gemini-companion-comment-add (current-buffer) 1 1 "why?")
      (run-hooks 'gemini-companion-comment-change-hook)
      (insert "x"))
    (should (gemini-companion-test-timers #'gemini-companion-review-inline--follow-edits))
    (with-current-buffer (window-buffer)
      (should (= 2 (seq-count (lambda (it) (overlay-get it 'after-string))
                              (overlays-in (point-min) (point-max))))))))

(ert-deftest gemini-companion-review-inline/a-newline-that-only-one-text-has-at-its-end-is-seen ()
  (cl-loop
   for (old new removed added) in '(("a\nb" "a\nb\n" t nil) ("a\nb\n" "a\nb" nil t)
                                    ("a\nb" "a\nc" nil nil) ("a\n" "a\nb" nil t)
                                    ("a\nb" "a\n" t nil) ("a\nb\n" "x\nb\n" nil nil))
   do (gemini-companion-review-inline-test--with-change (client) old new
        (with-current-buffer (window-buffer)
          (should (equal (list (and (text-property-not-all (point-min) (point-max) 'display nil) t)
                               (and (seq-find (lambda (it) (overlay-get it 'after-string))
                                              (overlays-in (point-max) (point-max)))
                                    t))
                         (list removed added)))))))

(ert-deftest gemini-companion-review-inline/words-are-marked-in-a-hunk-that-is-visible-in-part ()
  (gemini-companion-review-inline-test--with-change (client)
      "first word\nsecond word\n" "first term\nsecond term\n"
    (with-current-buffer (window-buffer)
      (goto-char (point-min))
      (forward-line 2)
      (narrow-to-region (point) (point-max))
      (with-silent-modifications
        (gemini-companion-review-hunk--fontify (point-min) (point-max)))
      (search-forward "second ")
      (should (memq 'gemini-companion-added-word
                    (ensure-list (get-text-property (point) 'face))))
      (narrow-to-region (point-max) (point-max))
      (should (= (gemini-companion-review-hunk-line) 3)))))

(ert-deftest gemini-companion-review-inline/a-comment-on-more-than-removed-lines-is-on-the-others ()
  (gemini-companion-review-inline-test--with-change (client review)
      "1\n2\n3\n4\n" "1\nTWO\n3\n4\nfive\n"
    (cl-loop
     for (start . end) in '((1 . 17) (3 . 9) (3 . 5))
     do (with-current-buffer (window-buffer)
          (goto-char end)
          (set-mark start)
          (let ((transient-mark-mode t))
            (activate-mark)
            (gemini-companion-review-inline-test--comment (format "%d" end)))))
    (should (equal (sort (split-string (gemini-companion-comment--prompt review) "\n") #'string<)
                   '("a.txt:1-5 `1`: 17" "a.txt:2 (removed) `2`: 5" "a.txt:2 `TWO`: 9")))))

(ert-deftest gemini-companion-review-inline/a-comment-on-several-lines-is-edited-where-it-is-shown ()
  (gemini-companion-review-inline-test--with-change (client) "1\n2\n3\n4\n" "1\nTWO\nTHREE\n4\n"
    (cl-loop
     for (first . last) in '((2 . 4) (4 . 6)) ; what is removed, and what is added
     do (with-current-buffer (window-buffer)
          (let ((position (lambda (line) (goto-char (gemini-companion-ui-line-start line)))))
            (cl-loop
             for (answer start end) in `(("why" ,first ,last) ("why?" ,(1- last)) ("" ,(1- last)))
             do (funcall position start)
             (when end
               (push-mark (point) t t)
               (funcall position end))
             (let ((transient-mark-mode t)
                   (before (mapcar #'cadr (gemini-companion-review-inline-test--comments))))
               (cl-letf (((symbol-function 'read-string)
                          (lambda (_ initial &rest _)
                            (should (equal (and initial (list initial)) before))
                            answer)))
                 (gemini-companion-review-comment)))))
          (should-not (gemini-companion-review-inline-test--comments))))))

(ert-deftest gemini-companion-review-inline/an-edited-comment-stays-on-its-lines ()
  (gemini-companion-review-inline-test--with-change (client review)
      "1\n2\n3\n4\n" "1\nTWO\nTHREE\n4\n"
    (let ((transient-mark-mode t))
      (with-current-buffer (window-buffer)
        (dolist (start '(4 5))
          (goto-char (gemini-companion-ui-line-start start))
          (when (= start 4)
            (push-mark (gemini-companion-ui-line-start 6) t t))
          (gemini-companion-review-inline-test--comment (format "why %d" start))))
      (should (equal (gemini-companion-comment--prompt review) "a.txt:2-3 `TWO`: why 5")))))

(ert-deftest gemini-companion-review-inline/a-comment-stays-below-its-line-while-one-edits ()
  (gemini-companion-review-inline-test--with-change (client review) "a\nb\nc\n" "a\nX\nc\n"
    (gemini-companion-review-inline-test--comment "why?" "X")
    (gemini-companion-review-inline-test--press "C-c C-o")
    (with-current-buffer (window-buffer)
      (goto-char (point-min))
      (search-forward "X")
      (insert " or Y")
      (should (equal (gemini-companion-review-inline-test--comments) '(("X or Y" "why?"))))
      (should (eolp))
      (should (= (point) (overlay-end (car gemini-companion-comment-overlays)))))
    (gemini-companion-review-inline-test--press "C-c C-o" "k")
    (should (equal (gemini-companion-comment--prompt review) "a.txt:2 `b`: why?"))
    (with-current-buffer (gemini-companion-review-proposal review)
      (goto-char (overlay-end (car gemini-companion-comment-overlays)))
      (should (looking-back "^b" (point-min)))
      (should (eolp)))))

(ert-deftest gemini-companion-review-inline/a-comment-may-be-on-all-of-a-large-file ()
  (let ((text (string-join (make-list 20000 "line") "\n")))
    (gemini-companion-review-inline-test--with-change (client review)
        (concat "a\n" text) (concat "b\n" text)
      (let ((transient-mark-mode t))
        (with-current-buffer (window-buffer)
          (push-mark (point-max) t t)
          (goto-char (point-min))
          (gemini-companion-review-inline-test--comment "why?"))
        (should (equal (gemini-companion-comment--prompt review) "a.txt:1-20001 `b`: why?"))))))

(ert-deftest gemini-companion-review-inline/comments-are-sent-with-the-decision ()
  (dolist (case '(("C-c C-c" . "I accepted the change to a.txt, with comments:")
                  ("C-c C-k" . "I rejected the change to a.txt:")))
    (gemini-companion-review-inline-test--with client "one\n@two\n"
      (let ((kill-ring nil))
        (gemini-companion-review-inline-test--show client "one\n@2\n")
        (gemini-companion-review-inline-test--comment "why?" "@2")
        (gemini-companion-review-inline-test--press (car case))
        ;; The client does not run in a terminal of this Emacs.
        (should (equal (car kill-ring)
                       (concat (cdr case) "\na.txt:2 `\\@2`: why?")))))))

(ert-deftest gemini-companion-review-inline/a-reason-goes-with-the-comments ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((kill-ring nil))
      (gemini-companion-review-inline-test--show client "one\n2\n")
      (gemini-companion-review-inline-test--comment "why?" "2")
      (cl-letf (((symbol-function 'read-string) (lambda (&rest _) "No.")))
        (let ((current-prefix-arg '(4)))
          (call-interactively #'gemini-companion-reject)))
      (should (equal kill-ring '("No.\nI rejected the change to a.txt:\na.txt:2 `2`: why?"))))))

;;;; After an accept

(ert-deftest gemini-companion-review-inline/no-old-text-is-shown-after-an-accept ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (goto-char 5)
    (set-window-point nil 5)
    (let ((file (buffer-file-name))
          (gemini-companion-review-inline--write-time 60))
      (gemini-companion-review-inline-test--show client "zero\none\n2\n")
      (should (equal (gemini-companion-review-inline-test--accepted client) "zero\none\n2\n"))
      (should (equal (buffer-name (window-buffer)) "*gemini review: a.txt*"))
      (gemini-companion-test-write file "zero\none\n2\n")
      (gemini-companion-test-wait
       "the file to be back" (lambda () (equal (buffer-name (window-buffer)) "a.txt")))
      (with-current-buffer "a.txt"
        (should (equal (buffer-string) "zero\none\n2\n"))
        ;; Its line is now the third one.
        (should (= (line-number-at-pos (window-point)) 3))
        (should-not (memq #'gemini-companion-review-window-stop-now after-revert-hook))))))

;; That takes the change off the screen first.
(ert-deftest gemini-companion-review-inline/what-follows-a-revert-runs-in-the-buffer-of-the-file ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let* ((file (buffer-file-name))
           (gemini-companion-review-inline--write-time 60)
           (buffers nil)
           (note (lambda () (push (buffer-name) buffers))))
      (select-window (split-window))
      (switch-to-buffer "*scratch*")
      (gemini-companion-review-commands-accept
       (gemini-companion-review-inline-test--show client "one\n2\n" 'keep))
      (unwind-protect
          (progn
            (add-hook 'after-revert-hook note)
            (gemini-companion-test-write file "one\n2\n")
            (gemini-companion-test-wait "the file to be back"
                                        (lambda () (get-buffer-window "a.txt")))
            (should (equal buffers '("a.txt"))))
        (remove-hook 'after-revert-hook note)))))

(ert-deftest gemini-companion-review-inline/edits-just-before-an-accept-are-not-compared-after-it ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((gemini-companion-review-inline--write-time 60)
          (timers (lambda ()
                    (gemini-companion-test-timers #'gemini-companion-review-inline--follow-edits)))
          (failed nil))
      (let ((review (gemini-companion-review-inline-test--show client "one\n2\n")))
        ;; In another window, for example.
        (with-current-buffer (gemini-companion-review-proposal review)
          (goto-char (point-max))
          (insert "three\n")))
      (should (equal (gemini-companion-review-inline-test--accepted client) "one\n2\nthree\n"))
      (cl-letf (((symbol-function 'gemini-companion-log-add)
                 (lambda (&rest arguments) (push arguments failed))))
        (gemini-companion-test-wait "no timer" (lambda () (null (funcall timers)))))
      (should-not failed))))

(ert-deftest gemini-companion-review-inline/a-key-meanwhile-is-for-the-file ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((gemini-companion-review-inline--write-time 60))
      (gemini-companion-review-inline-test--show client "one\n2\n")
      (gemini-companion-review-inline-test--accepted client)
      (let* ((map (make-sparse-keymap))
             (emulation-mode-map-alists `(((t . ,map)))) ; as Evil has it
             (where nil))
        (define-key map "x" (lambda () (interactive) (push (buffer-name) where)))
        (execute-kbd-macro "x")
        (should (equal where '("a.txt"))))
      (should (equal (buffer-name (window-buffer)) "a.txt")))))

(ert-deftest gemini-companion-review-inline/the-next-change-follows-at-once ()
  (gemini-companion-review-inline-test--with client "one\ntwo\n"
    (let ((before (gemini-companion-review-inline-test--state))
          (gemini-companion-review-inline--write-time 60))
      (gemini-companion-review-inline-test--show client "one\n2\n")
      (gemini-companion-review-inline-test--accepted client)
      (gemini-companion-review-inline-test--show client "one\n3\n")
      (should (equal (gemini-companion-review-inline-test--lines) '(" one" "-two" "+3")))
      (gemini-companion-review-inline-test--press "C-c C-k")
      (should (equal (gemini-companion-review-inline-test--state) before)))))

;;;; Random texts

(defun gemini-companion-review-inline-test--sides ()
  "Return the file and the proposal, read from the selected window."
  (with-current-buffer (window-buffer)
    (let ((sides (list "" "")))
      (save-excursion
        (goto-char (point-min))
        (while (not (eobp))
          (let* ((end (next-single-property-change (point) 'gemini-companion-review-hunk
                                                   nil (point-max)))
                 (text (buffer-substring (point) end))
                 (kind (aref (get-text-property (point) 'gemini-companion-review-hunk) 0)))
            (when (get-text-property (1- end) 'gemini-companion-review-hunk-lacking)
              (setq text (substring text 0 -1)))
            (unless (eq kind 'added) (cl-callf concat (nth 0 sides) text))
            (unless (eq kind 'removed) (cl-callf concat (nth 1 sides) text))
            (goto-char end))))
      (mapcar #'substring-no-properties sides))))

(defun gemini-companion-review-inline-test--random-text (&optional text)
  "Return a random text, or TEXT with random changes."
  (let ((lines (if text (split-string text "\n")
                 (cl-loop repeat (random 30) collect (string (+ ?a (random 4)))))))
    (concat (mapconcat #'identity
                       (cl-loop for line in lines
                                append (pcase (random 9)
                                         (0 nil)
                                         (1 (list (string (+ ?a (random 9))) line))
                                         (2 (list (string (+ ?a (random 9)))))
                                         (_ (list line))))
                       "\n")
            (if (zerop (random 2)) "\n" ""))))

(ert-deftest gemini-companion-review-inline/random-texts-are-dropped-kept-and-undone-exactly ()
  (gemini-companion-test-with-project
    (gemini-companion-native-load)
    (random "gemini-companion")
    (let ((inhibit-message t)
          (mixed 0))
      (dotimes (_ 150)
        (let* ((old (gemini-companion-review-inline-test--random-text))
               (new (gemini-companion-review-inline-test--random-text old))
               (review (gemini-companion-review-make
                        :id 1 :client "" :path (gemini-companion-test-file "random" old)
                        :proposed new :text new))
               (hide (gemini-companion-review-inline-show review 'select))
               (steps 0))
          (ert-info ((format "%S\n%S" old new))
            (should (equal (gemini-companion-review-inline-test--sides) (list old new)))
            (with-current-buffer (window-buffer)
              (while (and (> (length gemini-companion-review-hunk-list) 0) (< steps 60))
                (cl-incf steps)
                (gemini-companion-review-inline--go (seq-random-elt gemini-companion-review-hunk-list))
                (let ((file (car (gemini-companion-review-inline-test--sides))))
                  (pcase (random 3)
                    (0 (gemini-companion-review-inline-keep)
                       (should (equal (cadr (gemini-companion-review-inline-test--sides))
                                      (gemini-companion-review-current-text review))))
                    (1 (gemini-companion-review-inline-drop)
                       (should (equal (car (gemini-companion-review-inline-test--sides)) file)))
                    (_ (ignore-error user-error (gemini-companion-review-inline-undo))))
                  (unless (member (gemini-companion-review-current-text review) (list old new))
                    (cl-incf mixed))
                  (should (equal (cadr (gemini-companion-review-inline-test--sides))
                                 (gemini-companion-review-current-text review)))))
              ;; Back to the client's proposal.
              (while (ignore-error user-error (gemini-companion-review-inline-undo) t))
              (should (equal (gemini-companion-review-inline-test--sides) (list old new)))))
          (funcall hide)
          (kill-buffer (gemini-companion-review-proposal review))))
      (should (> mixed 100)))))

(ert-deftest gemini-companion-review-inline/a-dropped-hunk-may-have-bytes-that-are-no-characters ()
  "The client gets U+FFFD for them, but no hunk is left whose lines look the same."
  (gemini-companion-test-with-client client
    (gemini-companion-test-write-bytes "b.txt" "one\n\200\ntwo\n")
    (let ((review (gemini-companion-test-propose client "b.txt" "one\n1\ntwo\n")))
      (dolist (view '(gemini-companion-review-inline-show gemini-companion-review-ediff-show))
        (setf (gemini-companion-review-chosen-view review) view)
        (gemini-companion-review-show review 'select)
        (with-current-buffer (gemini-companion-review-front review)
          (if (eq view 'gemini-companion-review-ediff-show)
              (should (= 0 ediff-number-of-differences))
            (gemini-companion-review-inline--go (car gemini-companion-review-hunk-list))
            (gemini-companion-review-inline-drop)
            (should-not gemini-companion-review-hunk-list))))
      (should (equal (gemini-companion-review-current-text review) "one\n\ufffd\ntwo\n")))))

(ert-deftest gemini-companion-review-inline/a-dropped-hunk-keeps-its-text-in-a-file-with-an-odd-byte ()
  "Emacs takes such a file for raw text, but the client reads the rest of it."
  (gemini-companion-test-with-client client
    (gemini-companion-test-write-bytes
     "b.txt" (concat (encode-coding-string "привет\n1\nbad: " 'utf-8) "\377\n2\n"))
    (let ((review (gemini-companion-test-propose client "b.txt" "hello\n1\nbad: \ufffd\ntwo\n")))
      (setf (gemini-companion-review-chosen-view review) 'gemini-companion-review-inline-show)
      (gemini-companion-review-show review 'select)
      (should (equal (seq-take (gemini-companion-review-inline-test--lines) 2)
                     '("-привет" "+hello")))
      (gemini-companion-review-inline-test--press "k")
      (should (equal (gemini-companion-review-current-text review)
                     "привет\n1\nbad: \ufffd\ntwo\n"))
      (gemini-companion-review-window-stop-now))))

(ert-deftest gemini-companion-review-inline/where-no-hunk-is-left-none-is-promised ()
  (gemini-companion-review-inline-test--with-change (client) "one\n" "1\n"
    (gemini-companion-review-inline-test--press "y")
    (dolist (key '("y" "k"))
      (should (equal (should-error (gemini-companion-review-inline-test--press key)
                                   :type 'user-error)
                     '(user-error "No hunk here: none is left"))))))

(ert-deftest gemini-companion-review-inline/away-from-hunks-a-message-names-a-key-that-works ()
  "In modal editing, neither n nor TAB does."
  (gemini-companion-review-inline-test--with-change (client) "1\n2\n3\n" "1\n2\nthree\n"
    (with-current-buffer (window-buffer)
      (goto-char (point-min))
      (setq-local minor-mode-overriding-map-alist
                  `((buffer-read-only keymap (?n . ignore) (?\t . ignore)))))
    (should (equal (should-error (gemini-companion-review-inline-test--press "C-c C-d"))
                   '(user-error "No hunk here: C-c C-n goes to the next one")))))

(ert-deftest gemini-companion-review-inline/what-is-copied-has-neither-colors-nor-signs ()
  (gemini-companion-review-inline-test--with-change (client) "one\n" "1\n"
    (with-current-buffer (window-buffer)
      (jit-lock-fontify-now)
      (should (get-text-property (point-min) 'line-prefix))
      (let ((kill-ring nil))
        (copy-region-as-kill (point-min) (point-max))
        (should (equal-including-properties (car kill-ring) "one\n1\n"))))))

(ert-deftest gemini-companion-review-inline/all-keys-are-seen-in-a-small-terminal ()
  "In one of 80 columns and 24 lines, with a menu bar, the echo area has five lines."
  (gemini-companion-test-with-answer nil
    (gemini-companion-review-inline-show-keys)
    (gemini-companion-review-ediff-show-keys)
    (dolist (keys gemini-companion-test-messages)
      (let ((lines (split-string keys "\n")))
        (should (<= (length lines) 5))
        (dolist (key '("C-c C-c" "C-c C-k" "C-c C-a" "C-c C-v" "C-c C-t" "C-c C-e"))
          (should (string-search key keys)))
        (should (seq-every-p (lambda (line) (< (length line) 80)) lines))))))

;;; gemini-companion-review-inline-test.el ends here

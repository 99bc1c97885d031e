;;; inline-test.el --- A review in the window of its file  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What users see, and what their keys do, while a proposed change is in the window
;; of its file, and whether all is as before afterwards.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-fake-client)

(defun gemini-companion-review-inline-e2e--text (first last &rest changes)
  "Return the lines FIRST to LAST, \"line N\" each, with CHANGES.
These are pairs of a number and what is there instead, with newlines."
  (mapconcat (lambda (number)
               (or (cdr (assq number changes)) (format "line %d\n" number)))
             (number-sequence first last) ""))

(defconst gemini-companion-review-inline-e2e--old (gemini-companion-review-inline-e2e--text 1 60))

(defconst gemini-companion-review-inline-e2e--new
  (gemini-companion-review-inline-e2e--text 1 60 '(4 . "four\n") '(9 . "") '(30 . "thirty\nand more\n")
                                            '(58 . "line 58\nanother one\n"))
  "A change of four hunks.")

(defmacro gemini-companion-review-inline-e2e--with (spec &rest body)
  "Run BODY with an Emacs that shows reviews in the window of the file.
SPEC is (EMACS CLIENT FILES), as in `gemini-companion-test-with-fake-client'."
  (declare (indent 1) (debug ((symbolp symbolp form) body)))
  `(gemini-companion-test-with-fake-client ,spec
     (gemini-companion-test-eval
      ,(car spec) '(progn (require 'gemini-companion-review-inline)
                          (setq gemini-companion-diff-function #'gemini-companion-review-inline-show
                                gemini-companion-ui-reaction-time 0
                                auto-revert-mode nil)))
     ,@body))

(defconst gemini-companion-review-inline-e2e--in-change
  '(string-prefix-p "*gemini review" (buffer-name (window-buffer)))
  "Form that is non-nil if the change is selected.")

(defun gemini-companion-review-inline-e2e--show (emacs client text &optional name)
  "Have CLIENT propose TEXT, and select the change in EMACS.
It is for the file NAME, a.txt by default.  Return the handle of the review."
  (prog1 (gemini-companion-test-fake-show emacs client text name)
    (gemini-companion-test-run emacs '(progn (gemini-companion-review-next) nil))
    (gemini-companion-test-wait-eval emacs gemini-companion-review-inline-e2e--in-change)))

(defun gemini-companion-review-inline-e2e--wait-place (emacs place)
  "Wait until the header in EMACS says PLACE, such as \"hunk 1 of 4\"."
  (gemini-companion-test-wait-screen emacs (regexp-quote place)))

(defun gemini-companion-review-inline-e2e--wait-line (emacs text)
  "Wait until point in EMACS is in a line with TEXT."
  (gemini-companion-test-wait-eval
   emacs `(equal ,text (buffer-substring-no-properties (line-beginning-position)
                                                       (line-end-position)))))

(defun gemini-companion-review-inline-e2e--write (emacs text &optional name)
  "Write TEXT to the file NAME in the project of EMACS, as a client does."
  (gemini-companion-test-write (gemini-companion-test-project emacs (or name "a.txt")) text))

(defun gemini-companion-review-inline-e2e--wait-current (emacs text &optional name)
  "Wait until the buffer NAME in EMACS has TEXT."
  (gemini-companion-test-wait-eval
   emacs `(equal ,text (with-current-buffer ,(or name "a.txt")
                         (save-restriction (widen) (buffer-string))))))

(defun gemini-companion-review-inline-e2e--accepted (emacs client &optional name)
  "Press the key that accepts in EMACS, and return the text that CLIENT is sent.
That is the text of the proposal of the file NAME, which is then written."
  (let ((proposal (alist-get 'proposal (gemini-companion-test-review emacs)))
        (name (or name "a.txt")))
    (gemini-companion-test-keys emacs "C-c" "C-c")
    (let ((outcome (list 'accepted name proposal)))
      (gemini-companion-test-wait
       (lambda () (format "%S" outcome))
       (lambda () (member outcome (gemini-companion-test-fake-outcomes client))))
      (gemini-companion-review-inline-e2e--write emacs proposal name)
      (gemini-companion-review-inline-e2e--wait-current emacs proposal name)
      (gemini-companion-test-wait-no-review emacs)
      proposal)))

(defun gemini-companion-review-inline-e2e--places (emacs)
  "Return what the windows of EMACS show, and where, by lines."
  (gemini-companion-test-eval
   emacs '(mapcar (lambda (window)
                    (with-current-buffer (window-buffer window)
                      (list (buffer-name) (window-edges window)
                            (line-number-at-pos (window-start window))
                            (line-number-at-pos (window-point window))
                            (eq window (selected-window)))))
                  (window-list nil 'nomini))))

(defun gemini-companion-review-inline-e2e--no-fault (emacs)
  "Check that no error is among the messages of EMACS, and no buffer left."
  (should-not
   (gemini-companion-test-eval
    emacs '(seq-filter (lambda (name)
                         (string-match-p "\\` ?\\*gemini \\(?:review\\|current\\|proposal\\)" name))
                       (mapcar #'buffer-name (buffer-list)))))
  (should-not
   (string-match-p "Error\\|Wrong type\\|void\\|out of range"
                   (gemini-companion-test-eval
                    emacs '(with-current-buffer (messages-buffer) (buffer-string))))))

;;;; The window

(ert-deftest gemini-companion-review-inline-e2e/the-file-in-view-is-replaced ()
  "Nothing else on the frame moves, and the line stays where it was."
  (gemini-companion-review-inline-e2e--with (emacs client `(("a.txt" . ,gemini-companion-review-inline-e2e--old)))
    (gemini-companion-test-run
     emacs '(progn (goto-char (point-min))
                   (forward-line 32)
                   (set-window-start nil (save-excursion (forward-line -20) (point)))
                   (select-window (split-window-right))
                   (switch-to-buffer "*scratch*")
                   nil))
    (let ((before (gemini-companion-test-fake-layout emacs))
          (places (gemini-companion-review-inline-e2e--places emacs)))
      (gemini-companion-test-fake-propose emacs client gemini-companion-review-inline-e2e--new)
      (gemini-companion-test-wait-review emacs)
      ;; The change is at the same line, with a hunk in view.
      (gemini-companion-test-wait-screen emacs "hunk 3 of 4")
      ;; The header line may be drawn first.
      (gemini-companion-test-wait-screen
       emacs (concat "^[-+ ]*line 29 .*\n.*- *line 30.*\n.*\\+ *thirty.*\n.*\\+ *and more.*\n"
                     " *line 31"))
      (should (equal (mapcar #'cadr (gemini-companion-review-inline-e2e--places emacs))
                     (mapcar #'cadr places)))
      (gemini-companion-test-type emacs "typed")
      (gemini-companion-test-wait-eval emacs '(equal (with-current-buffer "*scratch*" (buffer-string))
                                                     "typed"))
      (gemini-companion-test-keys emacs "C-x" "h" "C-w")
      (gemini-companion-test-keys emacs "C-x" "o")
      (gemini-companion-test-wait-eval emacs gemini-companion-review-inline-e2e--in-change)
      (gemini-companion-test-keys emacs "C-c" "C-k")
      (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))
      (gemini-companion-test-wait-no-review emacs)
      (should (equal (car (gemini-companion-test-fake-layout emacs)) (car before))))
    (gemini-companion-review-inline-e2e--no-fault emacs)))

(ert-deftest gemini-companion-review-inline-e2e/after-an-accept-the-file-is-where-it-was ()
  "Point and scroll position are at the same lines of the new text."
  (gemini-companion-review-inline-e2e--with (emacs client `(("a.txt" . ,gemini-companion-review-inline-e2e--old)))
    (gemini-companion-test-run
     emacs '(progn (split-window-right)
                   (goto-char (point-min))
                   (forward-line 32)
                   (set-window-start nil (save-excursion (forward-line -20) (point)))
                   (with-selected-window (next-window)
                     (goto-char (point-max)))
                   (redisplay t)
                   nil))
    (let ((places (gemini-companion-review-inline-e2e--places emacs)))
      (gemini-companion-review-inline-e2e--show emacs client gemini-companion-review-inline-e2e--new)
      (gemini-companion-review-inline-e2e--accepted emacs client)
      (let ((now (gemini-companion-review-inline-e2e--places emacs)))
        (should (equal (mapcar #'cadr now) (mapcar #'cadr places)))
        (should (equal (mapcar #'car now) (mapcar #'car places)))
        (should (equal (mapcar #'cdddr now)
                       (list (list 33 t) (list 62 nil))))
        (should (memq (nth 2 (car now)) '(13 12 14)))))
    (gemini-companion-review-inline-e2e--no-fault emacs)))

(ert-deftest gemini-companion-review-inline-e2e/a-file-written-below-the-next-change-is-where-it-was ()
  "While that takes most lines of its window, the client writes the file."
  (gemini-companion-review-inline-e2e--with
      (emacs client `(("a.txt" . ,gemini-companion-review-inline-e2e--old) ("b.txt" . "old\n")))
    (gemini-companion-test-run emacs '(progn (split-window-right)
                                             (goto-char (point-min))
                                             (forward-line 24)
                                             (recenter 6)
                                             (redisplay t)
                                             nil))
    (pcase-let ((`((,_ ,_ 19 25 t) ,_) (gemini-companion-review-inline-e2e--places emacs))
                (new gemini-companion-review-inline-e2e--new))
      (gemini-companion-review-inline-e2e--show emacs client new)
      (gemini-companion-test-keys emacs "C-c" "C-c")
      (gemini-companion-test-wait-no-review emacs)
      (gemini-companion-review-inline-e2e--show emacs client "new\n" "b.txt")
      (gemini-companion-review-inline-e2e--write emacs new "a.txt")
      (gemini-companion-review-inline-e2e--wait-current emacs new "a.txt")
      (gemini-companion-test-keys emacs "C-c" "C-c")
      (gemini-companion-test-wait-no-review emacs))
    ;; Line 9 was removed.
    (should (equal (mapcar #'cddr (gemini-companion-review-inline-e2e--places emacs))
                   '((18 24 t) (1 1 nil))))))

(ert-deftest gemini-companion-review-inline-e2e/typing-in-the-file-continues ()
  "With `keep', the window in which one types is not taken."
  (gemini-companion-review-inline-e2e--with (emacs client '(("a.txt" . "one\n")))
    (let ((before (gemini-companion-review-inline-e2e--places emacs)))
      (gemini-companion-test-type emacs "abc")
      (gemini-companion-test-fake-propose emacs client "two\n")
      (gemini-companion-test-type emacs "def")
      (gemini-companion-test-wait-review emacs "two\n")
      (gemini-companion-test-type emacs "ghi")
      (gemini-companion-test-wait-eval emacs '(and (equal (buffer-name) "a.txt")
                                                   (equal (buffer-string) "abcdefghione\n")))
      (gemini-companion-test-wait-screen emacs "unsaved edits")
      (gemini-companion-test-m-x emacs "gemini-companion-reject")
      (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))
      (gemini-companion-test-wait-no-review emacs)
      (gemini-companion-test-type emacs "j")
      (gemini-companion-review-inline-e2e--wait-current emacs "abcdefghijone\n")
      (should (equal (mapcar #'cadr (gemini-companion-review-inline-e2e--places emacs))
                     (mapcar #'cadr before))))
    (gemini-companion-review-inline-e2e--no-fault emacs)))

(ert-deftest gemini-companion-review-inline-e2e/select-takes-the-window-of-the-file ()
  "With `select' it is taken even if it is selected; a hidden file gets a window."
  (gemini-companion-review-inline-e2e--with (emacs client '(("a.txt" . "one\ntwo\n")))
    (gemini-companion-test-eval emacs '(setq gemini-companion-diff-focus 'select))
    (dolist (hidden '(nil t))
      (when hidden
        (gemini-companion-test-run emacs '(progn (switch-to-buffer "*scratch*") nil)))
      (let ((before (gemini-companion-review-inline-e2e--places emacs))
            (outcomes (gemini-companion-test-fake-outcomes client)))
        (gemini-companion-test-fake-propose emacs client (format "one\n%s\n" hidden))
        (gemini-companion-test-wait-review emacs)
        (should (gemini-companion-test-eval emacs gemini-companion-review-inline-e2e--in-change))
        (should (= (gemini-companion-test-eval emacs '(length (window-list nil 'nomini)))
                   (if hidden 2 1)))
        (gemini-companion-review-inline-e2e--wait-place emacs "hunk 1 of 1")
        (gemini-companion-test-keys emacs "C-c" "C-k")
        (gemini-companion-test-fake-wait-outcomes
         client (append outcomes '((rejected "a.txt"))))
        (gemini-companion-test-wait-no-review emacs)
        (should (equal (gemini-companion-review-inline-e2e--places emacs) before))))
    (gemini-companion-review-inline-e2e--no-fault emacs)))

(ert-deftest gemini-companion-review-inline-e2e/of-two-windows-of-the-file-the-other-one-is-taken ()
  "One goes on typing in the selected one, at the same place."
  (gemini-companion-review-inline-e2e--with (emacs client `(("a.txt" . ,gemini-companion-review-inline-e2e--old)))
    (gemini-companion-test-run
     emacs '(progn (split-window-right)
                   (with-selected-window (next-window) (goto-char (point-max)))
                   (redisplay t)
                   nil))
    (let ((before (gemini-companion-review-inline-e2e--places emacs)))
      (gemini-companion-test-fake-propose emacs client gemini-companion-review-inline-e2e--new)
      (gemini-companion-test-wait-review emacs)
      (should (equal (mapcar #'car (gemini-companion-review-inline-e2e--places emacs))
                     '("a.txt" "*gemini review: a.txt*")))
      (gemini-companion-test-m-x emacs "gemini-companion-reject")
      (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))
      (gemini-companion-test-wait-no-review emacs)
      (should (equal (gemini-companion-review-inline-e2e--places emacs) before)))
    (gemini-companion-review-inline-e2e--no-fault emacs)))

(ert-deftest gemini-companion-review-inline-e2e/in-two-frames-each-has-its-windows ()
  "The file is on one terminal, the user on another."
  (gemini-companion-review-inline-e2e--with (emacs client '(("a.txt" . "one\ntwo\n")))
    (let* ((pane (gemini-companion-test-open-frame emacs "other"))
           (gemini-companion-test-pane pane))
      (gemini-companion-test-keys emacs "C-x" "b" "*scratch*" "Enter")
      (gemini-companion-test-wait-eval emacs '(equal (buffer-name (window-buffer)) "*scratch*"))
      (gemini-companion-test-fake-propose emacs client "one\n2\n")
      (gemini-companion-test-wait-review emacs)
      (gemini-companion-test-wait-screen emacs "1 hunk\\|hunk 1 of 1")
      (gemini-companion-test-m-x emacs "gemini-companion-reject")
      (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))
      (gemini-companion-test-wait-no-review emacs)
      (should (equal (gemini-companion-test-eval
                      emacs '(sort (mapcar (lambda (frame)
                                             (mapcar (lambda (it) (buffer-name (window-buffer it)))
                                                     (window-list frame 'nomini)))
                                           (frame-list))
                                   (lambda (a b) (string< (car a) (car b)))))
                     '(("*scratch*") ("a.txt"))))
      (gemini-companion-review-inline-e2e--no-fault emacs)
      (gemini-companion-test-kill-pane emacs pane))
    ;; While Emacs closes the terminal, it may lose a key of another one.
    (gemini-companion-test-wait-eval emacs '(null (cdr (frame-list))))
    (let ((keys (gemini-companion-test-eval emacs 'num-input-keys)))
      (gemini-companion-test-wait
       "a key to arrive"
       (lambda ()
         (gemini-companion-test-keys emacs "C-g")
         (ignore-errors
           (gemini-companion-test-wait-eval emacs `(> num-input-keys ,keys) 1)))))))

(ert-deftest gemini-companion-review-inline-e2e/in-another-tab-it-ends-and-the-file-comes-back ()
  "Rejected there, or its buffer killed."
  (gemini-companion-review-inline-e2e--with (emacs client `(("a.txt" . ,gemini-companion-review-inline-e2e--old)))
    (gemini-companion-test-run
     emacs '(progn (setq tab-bar-show nil)
                   (goto-char (point-min))
                   (forward-line 40)
                   (split-window-right)
                   (recenter 5)
                   (redisplay t)
                   nil))
    (let* ((places (lambda ()
                     (sort (mapcar #'butlast (gemini-companion-review-inline-e2e--places emacs))
                           (lambda (one other) (< (car (cadr one)) (car (cadr other)))))))
           (before (funcall places)))
      (dolist (end '((gemini-companion-review-reject (gemini-companion-review-shown))
                     (kill-buffer (gemini-companion-review-front (gemini-companion-review-shown)))))
        (gemini-companion-review-inline-e2e--show emacs client gemini-companion-review-inline-e2e--new)
        (gemini-companion-test-run emacs '(progn (tab-bar-new-tab) (switch-to-buffer "*scratch*") nil))
        (gemini-companion-test-run emacs `(progn ,end nil))
        (gemini-companion-test-wait-no-review emacs)
        (gemini-companion-test-run emacs '(progn (tab-bar-close-tab) nil))
        (gemini-companion-test-wait-eval
         emacs '(equal (buffer-name (window-buffer)) "a.txt"))
        ;; It was selected when the user left.
        (should (equal (funcall places) before)))
      (gemini-companion-test-client-close-diff
       client (gemini-companion-test-project emacs "a.txt") nil)
      (gemini-companion-test-wait-eval emacs '(zerop (gemini-companion-review-count)))
      (gemini-companion-review-inline-e2e--no-fault emacs))))

;;;; Keys

(ert-deftest gemini-companion-review-inline-e2e/keys-move-drop-keep-and-undo ()
  "As they are on screen; what is accepted is what the proposal says."
  (gemini-companion-review-inline-e2e--with (emacs client `(("a.txt" . ,gemini-companion-review-inline-e2e--old)))
    (gemini-companion-review-inline-e2e--show emacs client gemini-companion-review-inline-e2e--new)
    (gemini-companion-review-inline-e2e--wait-place emacs "hunk 1 of 4")
    (gemini-companion-review-inline-e2e--wait-line emacs "line 4")
    (gemini-companion-test-keys emacs "n")
    (gemini-companion-review-inline-e2e--wait-line emacs "line 9")
    (gemini-companion-test-keys emacs "Tab" "Tab")
    (gemini-companion-review-inline-e2e--wait-line emacs "another one")
    (gemini-companion-test-press emacs "n" "There is no next hunk")
    (gemini-companion-test-keys emacs "BTab" "p")
    (gemini-companion-review-inline-e2e--wait-place emacs "hunk 2 of 4")
    (gemini-companion-test-press emacs "k" "Dropped (3 left); u brings it back")
    (gemini-companion-review-inline-e2e--wait-line emacs "line 30")
    (gemini-companion-test-keys emacs "u")
    (gemini-companion-review-inline-e2e--wait-place emacs "hunk 2 of 4")
    (gemini-companion-review-inline-e2e--wait-line emacs "line 9")
    (gemini-companion-test-keys emacs "k" "y")
    (gemini-companion-review-inline-e2e--wait-place emacs "hunk 2 of 2")
    (gemini-companion-test-press emacs "p y y" "That was the last hunk: C-c C-c accepts the change")
    (gemini-companion-test-wait-screen emacs "no hunk left")
    (gemini-companion-test-press emacs "M-< y" "No hunk here")
    (gemini-companion-test-keys emacs "u" "u" "u")
    (gemini-companion-review-inline-e2e--wait-place emacs "of 3")
    (should (equal (gemini-companion-review-inline-e2e--accepted emacs client)
                   (gemini-companion-review-inline-e2e--text 1 60 '(4 . "four\n")
                                                             '(30 . "thirty\nand more\n")
                                                             '(58 . "line 58\nanother one\n"))))
    (gemini-companion-review-inline-e2e--no-fault emacs)))

(ert-deftest gemini-companion-review-inline-e2e/the-proposal-is-edited-and-accepted-in-place ()
  "e, letters, C-x C-s, C-c C-c, in one window."
  (gemini-companion-review-inline-e2e--with (emacs client '(("a.txt" . "one\ntwo\nthree\n")))
    (gemini-companion-review-inline-e2e--show emacs client "one\n2\nthree\n")
    (gemini-companion-test-press emacs "C-n e" "Proposed text .*C-c C-o goes back")
    (gemini-companion-test-type emacs "TWO, ")
    (gemini-companion-test-press emacs "C-x C-s" "\\+ *TWO, 2")
    (gemini-companion-review-inline-e2e--wait-line emacs "TWO, 2")
    ;; Letters are commands again.
    (gemini-companion-test-press emacs "z" "z is undefined")
    (gemini-companion-test-press emacs "e" "goes back")
    (gemini-companion-test-type emacs "x")
    (should (equal (gemini-companion-review-inline-e2e--accepted emacs client) "one\nxTWO, 2\nthree\n"))
    (gemini-companion-review-inline-e2e--no-fault emacs)))

(ert-deftest gemini-companion-review-inline-e2e/comments-are-seen-and-sent ()
  "Made, changed, removed; of removed lines and of a region."
  (gemini-companion-review-inline-e2e--with (emacs client '(("a.txt" . "one\ntwo\nthree\n")))
    (gemini-companion-review-inline-e2e--show emacs client "one\n2\nthree\nfour\n")
    (gemini-companion-test-press emacs "c" "Comment on line 2:")
    (gemini-companion-test-type emacs "keep this")
    (gemini-companion-test-press emacs "Enter" "two *\n.*» keep this *\n.*2 *\n")
    (gemini-companion-test-wait-screen emacs "1 comment")
    (gemini-companion-test-press emacs "n c" "Comment on line 4:")
    (gemini-companion-test-type emacs "why?")
    (gemini-companion-test-press emacs "Enter" "four *\n.*» why\\? *\n")
    (gemini-companion-test-wait-screen emacs "2 comments")
    (gemini-companion-test-press emacs "c" "Comment on line 4: why\\?")
    (gemini-companion-test-type emacs " Tell me")
    (gemini-companion-test-press emacs "Enter" "» why\\? Tell me")
    ;; They stay when lines above them go.
    (gemini-companion-test-press emacs "p k" "four *\n.*» why\\? Tell me")
    (gemini-companion-test-keys emacs "u" "C-c" "C-k")
    (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))
    (gemini-companion-test-wait-eval
     emacs '(string-suffix-p
             "a.txt:2 (removed) `two`: keep this\na.txt:4 `four`: why? Tell me"
             (string-trim (substring-no-properties (car kill-ring)))))
    (gemini-companion-review-inline-e2e--no-fault emacs)))

(ert-deftest gemini-companion-review-inline-e2e/commands-that-read-text-work ()
  "Search, occur, narrowing and going to a line, which is one of the proposal."
  (gemini-companion-review-inline-e2e--with (emacs client `(("a.txt" . ,gemini-companion-review-inline-e2e--old)))
    (gemini-companion-review-inline-e2e--show emacs client gemini-companion-review-inline-e2e--new)
    (gemini-companion-test-eval emacs '(put 'narrow-to-region 'disabled nil))
    (gemini-companion-test-keys emacs "C-s")
    (gemini-companion-test-type emacs "and more" "Enter")
    (gemini-companion-review-inline-e2e--wait-place emacs "hunk 3 of 4")
    (gemini-companion-test-press emacs "M-g g" "Go to line of the proposed text")
    (gemini-companion-test-type emacs "58" "Enter")
    (gemini-companion-review-inline-e2e--wait-line
     emacs (nth 57 (split-string gemini-companion-review-inline-e2e--new "\n")))
    (gemini-companion-test-press emacs "C-Space M-> C-x n n" '(buffer-narrowed-p))
    (gemini-companion-test-keys emacs "p")
    (gemini-companion-review-inline-e2e--wait-line emacs "another one")
    (gemini-companion-test-keys emacs "p")
    (gemini-companion-review-inline-e2e--wait-line emacs "line 30")
    (gemini-companion-test-m-x emacs "occur" "List lines matching")
    (gemini-companion-test-type emacs "line 5" "Enter")
    (gemini-companion-test-wait-eval emacs '(get-buffer-window "*Occur*"))
    (gemini-companion-test-keys emacs "C-x" "1")
    (should (equal (gemini-companion-review-inline-e2e--accepted emacs client)
                   gemini-companion-review-inline-e2e--new))))

;;;; The moment after an accept

(ert-deftest gemini-companion-review-inline-e2e/no-old-text-after-an-accept ()
  "The change stays until the file is written; a key typed then is for the file."
  (gemini-companion-review-inline-e2e--with (emacs client '(("a.txt" . "one\ntwo\nthree\n")))
    (gemini-companion-test-eval emacs '(setq gemini-companion-review-inline--write-time 1000
                                             gemini-companion-diff-focus 'select))
    (gemini-companion-review-inline-e2e--show emacs client "one\n2\nthree\n")
    (gemini-companion-test-keys emacs "C-c" "C-c")
    (gemini-companion-test-fake-wait-outcomes client '((accepted "a.txt" "one\n2\nthree\n")))
    (gemini-companion-test-wait-screen emacs "accepted")
    (should (string-match-p "\\+ *2 *$" (gemini-companion-test-screen emacs)))
    (gemini-companion-review-inline-e2e--write emacs "one\n2\nthree\n")
    (gemini-companion-test-wait-no-review emacs)
    (should (gemini-companion-test-eval emacs '(and (equal (buffer-name (window-buffer)) "a.txt")
                                                    (equal (buffer-string) "one\n2\nthree\n"))))
    ;; Before it is written.
    (gemini-companion-review-inline-e2e--show emacs client "one\n2\n3\n")
    (gemini-companion-test-keys emacs "C-x" "(" "C-c" "C-c")
    (gemini-companion-test-wait "the accept"
                                (lambda ()
                                  (member '(accepted "a.txt" "one\n2\n3\n")
                                          (gemini-companion-test-fake-outcomes client))))
    (gemini-companion-test-wait-eval emacs gemini-companion-review-inline-e2e--in-change)
    (gemini-companion-test-type emacs "x")
    (gemini-companion-review-inline-e2e--wait-current emacs "xone\n2\nthree\n")
    (gemini-companion-test-wait-no-review emacs)
    ;; A keyboard macro has it once.
    (gemini-companion-test-keys emacs "C-x" ")")
    (gemini-companion-test-wait-eval emacs '(equal (key-description last-kbd-macro) "C-c C-c x"))
    (gemini-companion-review-inline-e2e--no-fault emacs)))

;;;; Texts

(defun gemini-companion-review-inline-e2e--check-text (emacs client name text)
  "Have CLIENT propose TEXT for the file NAME in EMACS, and accept it.
Return the screen before that."
  (gemini-companion-test-visit emacs name)
  (gemini-companion-review-inline-e2e--show emacs client text name)
  (gemini-companion-review-inline-e2e--wait-place emacs "hunk 1 of")
  (let ((screen (gemini-companion-test-screen emacs)))
    (should (equal (gemini-companion-review-inline-e2e--accepted emacs client name) text))
    screen))

(ert-deftest gemini-companion-review-inline-e2e/texts-of-all-kinds ()
  "Line ends, no newline at the end, tabs, right-to-left text, long lines."
  (let ((long (make-string 30000 ?x)))
    (gemini-companion-review-inline-e2e--with
        (emacs client `(("a.txt" . "a")
                        ("crlf.txt" . "one\r\ntwo\r\n")
                        ("none.txt" . "one\ntwo")
                        ("tabs.txt" . "a\tb\n\tc\n")
                        ("rtl.txt" . "שלום\nabc\n")
                        ("long.txt" . ,(concat "one\n" long "\nthree\n"))))
      (gemini-companion-test-eval emacs '(add-hook 'find-file-hook #'display-line-numbers-mode))
      (let ((screen (gemini-companion-review-inline-e2e--check-text emacs client "none.txt" "one\ntwo\nthree")))
        (should (string-match-p "^- *two.*\n\\+ *2 two.*\n\\+ *3 three" screen)))
      (let ((screen (gemini-companion-review-inline-e2e--check-text emacs client "tabs.txt" "a\tb\n\td\n")))
        ;; The columns are those of the file itself.
        (should (string-match-p "^ +1 a       b *\n- +c *\n\\+ +2         d" screen)))
      (gemini-companion-review-inline-e2e--check-text emacs client "rtl.txt" "שלום עולם\nabc\n")
      (let ((screen (gemini-companion-review-inline-e2e--check-text
                     emacs client "long.txt" (concat "one\n" long "y\nthree\n"))))
        (should (string-match-p "^- +xxxxx … 29975 more characters … x+ *\n\
\\+ +2 xxxxx … 29975 more characters … x+y *\n +3 three" screen)))
      (gemini-companion-test-eval emacs '(remove-hook 'find-file-hook #'display-line-numbers-mode))
      (gemini-companion-test-visit emacs "crlf.txt")
      (gemini-companion-review-inline-e2e--show emacs client "one\n2\n" "crlf.txt")
      (should-not (string-match-p "\\^M" (gemini-companion-test-screen emacs)))
      (gemini-companion-test-wait-screen emacs "- *two *\n\\+ *2")
      (gemini-companion-test-keys emacs "C-c" "C-k")
      (gemini-companion-test-wait-no-review emacs)
      (gemini-companion-review-inline-e2e--no-fault emacs))))

(ert-deftest gemini-companion-review-inline-e2e/a-large-file ()
  "Of 50 000 lines, each of which has words."
  (let* ((line (lambda (i) (format "value_%d = compute(%d)\n" i i)))
         (old (mapconcat line (number-sequence 1 50000) ""))
         (new (string-replace "value_25000 = " "other = " old)))
    (gemini-companion-review-inline-e2e--with (emacs client `(("a.txt" . "") ("big.py" . ,old)))
      (gemini-companion-test-visit emacs "big.py")
      (gemini-companion-review-inline-e2e--show emacs client new "big.py")
      (gemini-companion-review-inline-e2e--wait-line emacs "value_25000 = compute(25000)")
      (gemini-companion-test-press emacs "k" "Dropped (0 left)")
      (gemini-companion-test-keys emacs "u")
      (gemini-companion-review-inline-e2e--wait-place emacs "hunk 1 of 1")
      (should (equal (gemini-companion-review-inline-e2e--accepted emacs client "big.py") new)))))

(ert-deftest gemini-companion-review-inline-e2e/a-file-that-changed-is-merged-first ()
  "The header offers it; what was merged is in the change, and accepted."
  (gemini-companion-review-inline-e2e--with (emacs client `(("a.txt" . ,gemini-companion-review-inline-e2e--old)))
    (gemini-companion-review-inline-e2e--show emacs client gemini-companion-review-inline-e2e--new)
    (gemini-companion-review-inline-e2e--write
     emacs (gemini-companion-review-inline-e2e--text 1 60 '(45 . "fortyfive\n")))
    (gemini-companion-test-wait-screen emacs "C-c C-e merges")
    (gemini-companion-test-keys emacs "C-c" "C-e")
    (gemini-companion-test-wait-eval
     emacs `(equal ,(string-replace "line 45\n" "fortyfive\n" gemini-companion-review-inline-e2e--new)
                   (alist-get 'proposal (gemini-companion-test-inner-review))))
    (gemini-companion-review-inline-e2e--wait-place emacs "of 4")
    (should-not (string-match-p "merges" (gemini-companion-test-screen emacs)))
    (gemini-companion-review-inline-e2e--accepted emacs client)
    (gemini-companion-review-inline-e2e--no-fault emacs)))

(ert-deftest gemini-companion-review-inline-e2e/unsaved-edits-are-merged-first ()
  "The edits are in the buffer, which the change does not touch."
  (gemini-companion-review-inline-e2e--with (emacs client `(("a.txt" . ,gemini-companion-review-inline-e2e--old)))
    (gemini-companion-test-keys emacs "M->")
    (gemini-companion-test-type emacs "mine" "M-<")
    (gemini-companion-review-inline-e2e--show emacs client gemini-companion-review-inline-e2e--new)
    (gemini-companion-test-wait-screen emacs "unsaved edits.*C-c C-e merges")
    (gemini-companion-test-keys emacs "C-c" "C-e")
    (gemini-companion-test-wait-eval
     emacs `(equal ,(concat gemini-companion-review-inline-e2e--new "mine")
                   (alist-get 'proposal (gemini-companion-test-inner-review))))
    (gemini-companion-review-inline-e2e--wait-current
     emacs (concat gemini-companion-review-inline-e2e--old "mine"))
    (should (string-suffix-p "mine" (gemini-companion-review-inline-e2e--accepted emacs client)))
    (gemini-companion-review-inline-e2e--no-fault emacs)))

(ert-deftest gemini-companion-review-inline-e2e/code-has-the-colors-of-its-file ()
  "Where it is in view, and after a move to other lines."
  (let ((text (lambda (name)
                (concat (mapconcat (lambda (i) (format "# comment %d\n" i)) (number-sequence 1 300) "")
                        (format "def %s(x):\n    return \"text\"\n" name)))))
    (gemini-companion-review-inline-e2e--with (emacs client `(("a.txt" . "") ("a.py" . ,(funcall text "old"))))
      (gemini-companion-test-visit emacs "a.py")
      (gemini-companion-review-inline-e2e--show emacs client (funcall text "new") "a.py")
      (dolist (name '("old" "new"))
        (gemini-companion-test-wait-eval
         emacs `(save-excursion
                  (goto-char (point-min))
                  (search-forward ,(format "def %s" name))
                  (memq 'font-lock-function-name-face
                        (ensure-list (get-text-property (1- (point)) 'face))))))
      (gemini-companion-test-keys emacs "M-<")
      (gemini-companion-test-wait-eval
       emacs '(memq 'font-lock-comment-delimiter-face
                    (ensure-list (get-text-property (point-min) 'face)))))))

;;;; Evil

(ert-deftest gemini-companion-review-inline-e2e/evil-reaches-all-commands ()
  "In normal state letters are Evil's, and C-c keys are those of the change."
  (let ((load (or (append (file-expand-wildcards
                           "/usr/share/emacs/site-lisp/elpa-src/evil-[0-9]*")
                          (file-expand-wildcards
                           "/usr/share/emacs/site-lisp/elpa-src/goto-chg-[0-9]*"))
                  (gemini-companion-test-skip "elpa-evil is not installed"))))
    (gemini-companion-review-inline-e2e--with (emacs client `(("a.txt" . ,gemini-companion-review-inline-e2e--old)))
      (gemini-companion-test-eval emacs `(progn (setq load-path (append ',load load-path))
                                                (require 'evil)
                                                (evil-mode 1)))
      (gemini-companion-review-inline-e2e--show emacs client gemini-companion-review-inline-e2e--new)
      (should (eq (gemini-companion-test-eval emacs 'evil-state) 'normal))
      (gemini-companion-test-keys emacs "C-c" "C-n")
      (gemini-companion-review-inline-e2e--wait-place emacs "hunk 2 of 4")
      (gemini-companion-test-keys emacs "C-c" "C-p")
      (gemini-companion-review-inline-e2e--wait-place emacs "hunk 1 of 4")
      (gemini-companion-test-press emacs "C-c C-d" "Dropped (3 left)")
      (gemini-companion-test-keys emacs "C-c" "C-u")
      (gemini-companion-review-inline-e2e--wait-place emacs "hunk 1 of 4")
      (gemini-companion-test-keys emacs "C-c" "C-y")
      (gemini-companion-review-inline-e2e--wait-place emacs "hunk 1 of 3")
      (gemini-companion-test-press emacs "C-c ;" "Comment on line")
      (gemini-companion-test-type emacs "why")
      (gemini-companion-test-press emacs "Enter" "» why")
      ;; Letters change nothing.
      (gemini-companion-test-press emacs "x d d" "read-only")
      (gemini-companion-test-press emacs "C-c C-o" "goes back")
      (gemini-companion-test-keys emacs "i")
      (gemini-companion-test-type emacs "typed ")
      (gemini-companion-test-press emacs "C-c C-o" "\\+ *typed\\|- *typed\\|typed ")
      (gemini-companion-review-inline-e2e--accepted emacs client))))

;;;; The real CLI

(defconst gemini-companion-review-inline-e2e--turn
  '("a.txt" "b.txt" "c.txt" "d.txt" "e.txt")
  "The files that a turn changes.")

(defun gemini-companion-review-inline-e2e--turn-new (name)
  "Return what the model proposes for the file NAME."
  (string-replace "four\n" (concat "four of " name "\n")
                  gemini-companion-review-inline-e2e--new))

(defun gemini-companion-review-inline-e2e--decide-turn (emacs cli)
  "Decide five changes of CLI in EMACS, of which the first one is selected.
Edit one, drop a hunk, accept two, and reject one with comments."
  (let ((await (lambda (name)
                 (gemini-companion-test-wait-screen emacs (concat "hunk [0-9] of 4.*" name ".*accepts"))
                 (gemini-companion-test-wait-eval emacs gemini-companion-review-inline-e2e--in-change)
                 (gemini-companion-test-wait-eval
                  emacs '(or (null gemini-companion-review-popup--unexpected)
                             (> (- (float-time) (cdr gemini-companion-review-popup--unexpected))
                                gemini-companion-ui-reaction-time)))))
        (written (lambda (name text)
                   (gemini-companion-test-wait
                    (concat name " to be written")
                    (lambda () (equal (gemini-companion-test-read
                                       (gemini-companion-test-project emacs name))
                                      text))))))
    (funcall await "a\\.txt")
    (gemini-companion-test-press emacs "M-< e" "goes back")
    (gemini-companion-test-type emacs "edited " "C-c" "C-c")
    (funcall written "a.txt" (concat "edited " (gemini-companion-review-inline-e2e--turn-new "a.txt")))
    (funcall await "b\\.txt")
    (gemini-companion-test-press emacs "M-< n k" "hunk 1 of 3")
    (gemini-companion-test-keys emacs "C-c" "C-c")
    (funcall written "b.txt" (string-replace "four of b.txt" "line 4"
                                             (gemini-companion-review-inline-e2e--turn-new "b.txt")))
    (dolist (name '("c.txt" "d.txt"))
      (funcall await (regexp-quote name))
      (gemini-companion-test-keys emacs "C-c" "C-c")
      (funcall written name (gemini-companion-review-inline-e2e--turn-new name)))
    (funcall await "e\\.txt")
    (gemini-companion-test-keys emacs "M-<")
    (dolist (comment '("not this" "nor this"))
      (gemini-companion-test-press emacs "n c" "Comment on line")
      (gemini-companion-test-type emacs comment)
      (gemini-companion-test-keys emacs "Enter")
      (gemini-companion-test-wait-screen emacs (concat "» " comment)))
    (gemini-companion-test-keys emacs "C-c" "C-k")
    (funcall written "e.txt" gemini-companion-review-inline-e2e--old)
    (gemini-companion-test-wait-no-review emacs)
    ;; The model is told.
    (gemini-companion-test-wait
     "the comments"
     (lambda ()
       (seq-some (lambda (request)
                   (seq-some (lambda (text)
                               (and (string-search "not this" text) (string-search "nor this" text)))
                             (gemini-companion-test-request-texts request)))
                 (gemini-companion-test-cli-requests cli))))))

(defun gemini-companion-review-inline-e2e--run-turn (layout)
  "Run a turn of the real CLI in a terminal of Emacs, with LAYOUT.
That is `file', `elsewhere' or `terminal': what is beside the terminal and
what is selected."
  (gemini-companion-test-with-emacs-and-cli
      (emacs cli (mapcar (lambda (name) (cons name gemini-companion-review-inline-e2e--old))
                         gemini-companion-review-inline-e2e--turn)
             (lambda (it) (gemini-companion-test-cli-start-by-command it 'term)))
    (gemini-companion-test-run
     emacs `(progn
              (setq gemini-companion-diff-function #'gemini-companion-review-inline-show)
              (let* ((terminal (get-buffer-window (caar (gemini-companion-cli-run-terminals))))
                     (other (seq-find (lambda (it) (not (eq it terminal)))
                                      (window-list nil 'nomini))))
                (with-selected-window other
                  (switch-to-buffer ,(if (eq layout 'elsewhere) "*scratch*" "a.txt"))
                  ,@(unless (eq layout 'elsewhere)
                      '((goto-char (point-min))
                        (forward-line 24)
                        (recenter 6)))))
              (redisplay t)
              nil))
    (gemini-companion-test-cli-script
     cli (vconcat (mapcar (lambda (name)
                            `("write_file" :file_path ,(gemini-companion-test-project emacs name)
                              :content ,(gemini-companion-review-inline-e2e--turn-new name)))
                          gemini-companion-review-inline-e2e--turn))
     "All right" "All right")
    (gemini-companion-test-cli-submit cli "please write")
    (unless (eq layout 'terminal)
      (gemini-companion-test-run
       emacs '(progn (select-window
                      (seq-find (lambda (it)
                                  (not (buffer-local-value 'gemini-companion-cli-run-root
                                                           (window-buffer it))))
                                (window-list nil 'nomini)))
                     nil)))
    (let ((before (gemini-companion-review-inline-e2e--places emacs)))
      (gemini-companion-test-wait-eval emacs '(gemini-companion-review-shown))
      (gemini-companion-test-cli-wait-terminal cli "Apply this change")
      (if (eq layout 'terminal)
          (progn (gemini-companion-test-press emacs "C-c C-c" "txt (^C cancels it")
                 (gemini-companion-test-keys emacs "g"))
        (gemini-companion-test-run emacs '(progn (gemini-companion-review-next) nil)))
      (gemini-companion-review-inline-e2e--decide-turn emacs cli)
      (let ((after (gemini-companion-review-inline-e2e--places emacs))
            (file (lambda (places)
                    (seq-remove (lambda (it) (string-prefix-p "*gemini" (car it))) places))))
        ;; A long message may take a line.
        (should (equal (mapcar (lambda (it) (butlast (cadr it))) after)
                       (mapcar (lambda (it) (butlast (cadr it))) before)))
        (should (equal (mapcar #'car after) (mapcar #'car before)))
        (should (equal (mapcar (lambda (it) (nth 4 it)) after)
                       (mapcar (lambda (it) (nth 4 it)) before)))
        ;; Line 9 was removed.
        (unless (eq layout 'elsewhere)
          (should (equal (mapcar (lambda (it) (list (1+ (nth 2 it)) (1+ (nth 3 it))))
                                 (funcall file after))
                         (mapcar (lambda (it) (list (nth 2 it) (nth 3 it)))
                                 (funcall file before))))))
      (gemini-companion-review-inline-e2e--no-fault emacs))))

(ert-deftest gemini-companion-review-inline-e2e/a-turn-with-the-file-selected ()
  (gemini-companion-review-inline-e2e--run-turn 'file))

(ert-deftest gemini-companion-review-inline-e2e/a-turn-without-the-file-in-view ()
  (gemini-companion-review-inline-e2e--run-turn 'elsewhere))

(ert-deftest gemini-companion-review-inline-e2e/a-turn-with-the-terminal-selected ()
  (gemini-companion-review-inline-e2e--run-turn 'terminal))

;;; inline-test.el ends here

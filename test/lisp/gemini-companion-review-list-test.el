;;; gemini-companion-review-list-test.el --- Tests of the lists of changes  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-companion)
(require 'gemini-companion-review-history)
(require 'gemini-companion-review-list)

;;;; Support

(defvar gemini-companion-review-list-test--room 120
  "Columns for which lists are laid out, for a window of a batch Emacs has ten.")

(defmacro gemini-companion-review-list-test--with (client &rest body)
  "Evaluate BODY with CLIENT connected, as in `gemini-companion-test-with-client'.
The history is empty at first."
  (declare (indent 1) (debug (symbolp body)))
  `(let ((gemini-companion-history--entries nil))
     (cl-letf (((symbol-function 'gemini-companion-review-list-width)
                (lambda () gemini-companion-review-list-test--room)))
       (gemini-companion-test-with-client ,client ,@body))))

(defun gemini-companion-review-list-test--rows (buffer)
  "Return what the list BUFFER shows, a list of columns for each line."
  (with-current-buffer buffer
    (save-excursion
      (goto-char (point-min))
      (let (rows)
        (while (not (eobp))
          (when (tabulated-list-get-entry)
            (push (mapcar #'substring-no-properties (tabulated-list-get-entry)) rows))
          (forward-line))
        (nreverse rows)))))

(defun gemini-companion-review-list-test--column (buffer column)
  "Return what the list BUFFER shows in COLUMN, a number."
  (mapcar (lambda (row) (nth column row))
          (gemini-companion-review-list-test--rows buffer)))

(defun gemini-companion-review-list-test--files (buffer column)
  "Return the names of files that the list BUFFER shows in COLUMN, a number."
  (mapcar #'file-name-nondirectory
          (gemini-companion-review-list-test--column buffer column)))

(defun gemini-companion-review-list-test--goto (buffer number)
  "Make BUFFER current and go to its line NUMBER below the names of columns."
  (set-buffer buffer)
  (goto-char (point-min))
  (forward-line number))

(defun gemini-companion-review-list-test--press (key)
  "Do what KEY does in the current list."
  (call-interactively (key-binding (kbd key))))

(defun gemini-companion-review-list-test--accept (client name text &optional bytes)
  "Let CLIENT propose TEXT for the file NAME, accept it and let CLIENT write it.
With the string BYTES it writes these."
  (let ((review (gemini-companion-test-propose client name text)))
    (gemini-companion-review-show review 'keep)
    (cl-letf (((symbol-function 'y-or-n-p) #'always))
      (gemini-companion-review-accept review))
    (gemini-companion-test-write-bytes name (or bytes (encode-coding-string text 'utf-8-unix)))
    (gemini-companion-write-stop)
    (gemini-companion-write-revert-now (gemini-companion-test-file name))))

(defun gemini-companion-test-write-bytes (name bytes)
  "Make the file NAME of the project hold BYTES."
  (let ((file (gemini-companion-test-file name))
        (coding-system-for-write 'no-conversion)
        (create-lockfiles nil))
    (make-directory (file-name-directory file) t)
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (insert bytes)
      ;; The name to lock keeps Emacs from asking about a buffer with edits.
      (write-region nil nil file nil 0 (concat file ".lock")))))

(defun gemini-companion-review-list-test--bytes (name)
  "Return the bytes of the file NAME of the project."
  (gemini-companion-test-bytes (gemini-companion-test-file name)))

(defun gemini-companion-review-list-test--undo (answer)
  "Undo the newest change by its key, answering with ANSWER; return the question.
A message is returned in place of a question that was not asked."
  (gemini-companion-review-history)
  (gemini-companion-review-list-test--goto "*gemini history*" 1)
  (let (asked)
    (cl-letf (((symbol-function 'y-or-n-p)
               (lambda (question) (setq asked question) answer)))
      (condition-case error
          (gemini-companion-review-list-test--press "u")
        (user-error (setq asked (or asked (cadr error))))))
    asked))

(defun gemini-companion-review-list-test--lines (buffer)
  "Return the lines that BUFFER shows, without spaces at their ends."
  (with-current-buffer buffer
    (let ((position (point-min)) (text ""))
      (while (< position (point-max))
        (let ((next (next-single-property-change position 'display nil (point-max)))
              (shown (get-text-property position 'display))
              (column (string-width (car (last (split-string text "\n"))))))
          (setq text (concat text
                             (pcase shown
                               ((pred stringp) shown)
                               (`(space :align-to ,(and to (pred integerp)))
                                (make-string (max 0 (- to column)) ?\s))
                               (_ (buffer-substring-no-properties position next))))
                position next)))
      (mapcar #'string-trim-right (split-string text "\n" t)))))

(defun gemini-companion-review-list-test--keys ()
  "Return what the current buffer's header line says after each command."
  (run-hooks 'post-command-hook)
  (substring-no-properties header-line-format))

;;;; Open changes

(ert-deftest gemini-companion-review-list/columns ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-test-propose client "a.txt" "one\n2\nthree\n")
    (let ((late (gemini-companion-test-propose client "new/b\n.txt" "1\n2\n3"))
          (project (file-name-nondirectory
                    (directory-file-name gemini-companion-test-project))))
      (setf (gemini-companion-review-created late) (time-subtract nil 150)
            (gemini-companion-review-client late) "Evil\nclient")
      (gemini-companion-review-list)
      (pcase-let ((`((,file ,client ,age ,change ,state) . ,_)
                   (gemini-companion-review-list-test--rows "*gemini reviews*")))
        (should (equal file (concat project "/a.txt")))
        (should (equal client "fake-cli 1"))
        (should (string-match-p "\\`[0-9] s\\'" age))
        (should (equal change "+2 -1"))
        (should (equal state "waiting")))
      (should (equal (cadr (gemini-companion-review-list-test--rows "*gemini reviews*"))
                     (list (concat project "/new/b^J.txt") "Evil^Jclient" "2 min" "new, +3"
                           "waiting")))
      (with-current-buffer "*gemini reviews*"
        ;; The names of the columns are the first.
        (should (equal (count-lines (point-min) (point-max)) 3))))))

(ert-deftest gemini-companion-review-list/states ()
  (gemini-companion-review-list-test--with client
    (let ((shown (gemini-companion-test-propose client "a.txt" "2\n"))
          (later (gemini-companion-test-propose client "b.txt" "b"))
          (states (lambda ()
                    (gemini-companion-review-list)
                    (gemini-companion-review-list-test--column "*gemini reviews*" 4))))
      (should (equal (funcall states) '("waiting" "waiting")))
      (gemini-companion-review-show shown 'keep)
      (gemini-companion-review-postpone later)
      (should (equal (funcall states) '("on screen" "put off")))
      (with-current-buffer (get-file-buffer (gemini-companion-test-file "a.txt"))
        (let ((create-lockfiles nil)) (insert "mine ")))
      (gemini-companion-test-file "b.txt" "other")
      (should (equal (funcall states)
                     '("on screen, unsaved edits" "put off, changed on disk"))))))

(ert-deftest gemini-companion-review-list/change-of-edited-and-odd-texts ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-test-file "dos.txt" "one\r\ntwo\r\n")
    (gemini-companion-test-write-bytes "nul" "a\0\nb\nc")
    (gemini-companion-test-write-bytes "latin.txt" "caf\351\nb\n")
    (gemini-companion-test-propose client "dos.txt" "one\n2\n")
    (gemini-companion-test-propose client "nul" "a\0\nb\nc\n")
    (gemini-companion-test-propose client "latin.txt" "café\nc\n")
    (gemini-companion-test-propose client "empty.txt" "")
    (let* ((gemini-companion-review--edit-pause 0)
           (review (gemini-companion-test-propose client "a.txt" "one\ntwo\n"))
           (changes (lambda ()
                      (gemini-companion-review-list-test--column "*gemini reviews*" 3)))
           (last-is (lambda (change)
                      (gemini-companion-test-wait
                       change (lambda () (equal (nth 4 (funcall changes)) change))))))
      (gemini-companion-review-list)
      (should (equal (funcall changes) '("+1 -1" "+1 -1" "+1 -1" "new, +0" "+0 -0")))
      (with-current-buffer (gemini-companion-proposal-buffer review)
        (insert "zero\n"))
      (gemini-companion-review-list)
      (funcall last-is "+1 -0")
      (with-current-buffer (gemini-companion-proposal-buffer review)
        (insert "and\n"))
      (gemini-companion-review-list)
      (funcall last-is "+2 -0")
      ;; Nothing is counted twice.
      (cl-letf (((symbol-function 'gemini-companion-review--count-lines) #'error))
        (gemini-companion-review-list)
        (should (equal (funcall changes) '("+1 -1" "+1 -1" "+1 -1" "new, +0" "+2 -0")))))))

(ert-deftest gemini-companion-review-list/keys-are-about-the-line ()
  (gemini-companion-review-list-test--with client
    (dolist (name '("a.txt" "b.txt" "c.txt" "d.txt"))
      (gemini-companion-test-propose client name name))
    (gemini-companion-review-list)
    (gemini-companion-review-list-test--goto "*gemini reviews*" 2)
    ;; What was never on screen is shown; the list stays, and stays selected.
    (gemini-companion-review-list-test--press "a")
    (should (equal (gemini-companion-review-file (gemini-companion-review-shown)) "b.txt"))
    (should (= (gemini-companion-review-count) 4))
    (should (equal (buffer-name (window-buffer)) "*gemini reviews*"))
    (gemini-companion-review-list-test--press "a")
    (should (equal (alist-get 'content (fake-cli-wait-notification client "ide/diffAccepted"))
                   "b.txt"))
    (should (equal (buffer-name (window-buffer)) "*gemini reviews*"))
    ;; What came to this line.
    (gemini-companion-review-list-test--press "k")
    (should (string-suffix-p "c.txt" (alist-get 'filePath (fake-cli-wait-notification
                                                           client "ide/diffRejected"))))
    (gemini-companion-review-list-test--press "RET")
    (should (equal (gemini-companion-review-file (gemini-companion-review-shown)) "d.txt"))
    (gemini-companion-review-list-test--goto "*gemini reviews*" 2)
    (gemini-companion-review-list-test--press "r")
    (should (equal (gemini-companion-review-list-test--files "*gemini reviews*" 0) '("a.txt")))
    (gemini-companion-review-list-test--press "h")
    (should (equal (gemini-companion-review-list-test--files "*gemini history*" 2)
                   '("d.txt" "c.txt" "b.txt")))
    (with-temp-buffer
      (gemini-companion-review-list-mode)
      (should-error (gemini-companion-review-list-test--press "a") :type 'user-error))))

(ert-deftest gemini-companion-review-list/accept-asks-the-usual-questions ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-test-propose client "b.txt" "b")
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (let ((create-lockfiles nil)) (insert "mine "))
      (gemini-companion-review-show review 'keep)
      (gemini-companion-review-list)
      (gemini-companion-review-list-test--goto "*gemini reviews*" 2)
      (let (asked)
        (cl-letf (((symbol-function 'read-multiple-choice)
                   (lambda (prompt &rest _) (setq asked prompt) '(?t))))
          (should-error (gemini-companion-review-list-test--press "a") :type 'user-error))
        (should (string-match-p "a\\.txt has unsaved edits" asked)))
      ;; All texts of this very review.
      (should (eq (gemini-companion-review-shown) review))
      (with-current-buffer (car ediff-session-registry)
        (should ediff-3way-job)))))

(ert-deftest gemini-companion-review-list/a-decided-change-is-not-decided-again ()
  (gemini-companion-review-list-test--with client
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n"))
          (gemini-companion-review-change-hook nil))
      (gemini-companion-review-list)
      (setq gemini-companion-review-change-hook nil)
      (gemini-companion-review-reject review)
      (gemini-companion-review-list-test--goto "*gemini reviews*" 1)
      (dolist (key '("RET" "a" "r"))
        (should-error (gemini-companion-review-list-test--press key) :type 'user-error)))))

(ert-deftest gemini-companion-review-list/follows-the-reviews-and-point-stays ()
  (gemini-companion-review-list-test--with client
    (let ((first (gemini-companion-test-propose client "a.txt" "a"))
          (second (gemini-companion-test-propose client "b.txt" "b"))
          third)
      (gemini-companion-review-list)
      (let ((window (selected-window)) (buffer (current-buffer)) other)
        (gemini-companion-review-list-test--goto buffer 2)
        (forward-char 3)
        (set-window-point window (point))
        (setq other (split-window))
        (with-temp-buffer
          (setq third (gemini-companion-test-propose client "c.txt" "c"))
          (set-window-point other (with-current-buffer buffer (1- (point-max))))
          (should (equal (gemini-companion-review-list-test--files buffer 0)
                         '("a.txt" "b.txt" "c.txt")))
          (gemini-companion-review-reject first))
        (should (eq (tabulated-list-get-id) second))
        (should (= (current-column) 3))
        (should (eq (tabulated-list-get-id (window-point window)) second))
        (should (eq (tabulated-list-get-id (window-point other)) third))
        ;; Its line is gone: it is at the last one.
        (with-temp-buffer (gemini-companion-review-reject third))
        (should (eq (tabulated-list-get-id (window-point other)) second))
        (gemini-companion-mode -1)
        (should (equal (gemini-companion-review-list-test--rows buffer) nil))))))

(ert-deftest gemini-companion-review-list/a-killed-list-leaves-nothing ()
  (gemini-companion-test-with-project
    (let ((state (lambda () (list gemini-companion-review-change-hook (length timer-list)))))
      (let ((before (funcall state)))
        (gemini-companion-review-list)
        (gemini-companion-review-list)
        (gemini-companion-review-history)
        (should-not (equal (funcall state) before))
        (kill-buffer "*gemini reviews*")
        (kill-buffer "*gemini history*")
        (should (equal (funcall state) before))))))

(ert-deftest gemini-companion-review-list/its-age-is-told-again-while-it-is-on-screen ()
  (gemini-companion-review-list-test--with client
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n"))
          (gemini-companion-review-list--interval 0.1))
      (gemini-companion-review-list)
      (setf (gemini-companion-review-created review) (time-subtract nil 7300))
      (gemini-companion-test-wait
       "the age" (lambda ()
                   (equal (gemini-companion-review-list-test--column "*gemini reviews*" 2)
                          '("2 h")))))))

;;;; What both lists look like

(ert-deftest gemini-companion-review-list/columns-fit-the-window ()
  (gemini-companion-review-list-test--with client
    (let* ((short "a.txt")
           (long "some/where/deep/in/the/project/with_a_long_name.txt")
           (project (file-name-nondirectory (directory-file-name gemini-companion-test-project)))
           (width (lambda () (apply #'max (mapcar #'string-width
                                                  (gemini-companion-review-list-test--lines
                                                   "*gemini reviews*")))))
           (files (lambda () (gemini-companion-review-list-test--column "*gemini reviews*" 0))))
      (gemini-companion-test-propose client short "1\n")
      (setf (gemini-companion-review-client (gemini-companion-test-propose client long "1\n"))
            "some-client-of-the-protocol 1.2.3")
      (let ((gemini-companion-review-list-test--room 150))
        (gemini-companion-review-list)
        (should (equal (funcall files) (list (concat project "/" short)
                                             (concat project "/" long)))))
      ;; Of a path its end is left, and nothing else is cut but what must be.
      (let ((gemini-companion-review-list-test--room 80))
        (gemini-companion-review-list--resize (selected-window))
        (should (<= (funcall width) 80))
        (should (string-match-p "\\`….*/project/with_a_long_name\\.txt\\'" (cadr (funcall files))))
        (should (equal (car (funcall files)) (concat project "/" short)))
        (let ((lines (gemini-companion-review-list-test--lines "*gemini reviews*")))
          (should (string-match-p "some-client-of-the-pro" (nth 2 lines)))
          (should (string-suffix-p "new, +1 waiting" (nth 2 lines)))))
      (let ((gemini-companion-review-list-test--room 50))
        (gemini-companion-review-list--resize (selected-window))
        (should (<= (funcall width) 55))
        (should (string-suffix-p "_long_name.txt" (cadr (funcall files))))))))

(ert-deftest gemini-companion-review-list/it-is-laid-out-anew-only-for-another-width ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-test-propose client "a.txt" "1\n")
    (gemini-companion-review-list)
    (should (memq #'gemini-companion-review-list--resize window-size-change-functions))
    (let ((printed 0))
      (cl-letf (((symbol-function 'tabulated-list-print) (lambda (&rest _) (cl-incf printed))))
        (gemini-companion-review-list--resize (selected-window))
        (should (= printed 0))
        (let ((gemini-companion-review-list-test--room 70))
          (gemini-companion-review-list--resize (selected-window))
          (gemini-companion-review-list--resize (selected-window)))
        (should (= printed 1))))))

(ert-deftest gemini-companion-review-list/a-click-on-a-file-does-what-ret-does ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-test-propose client "a.txt" "1\n")
    (gemini-companion-review-reject (gemini-companion-test-propose client "b.txt" "1\n"))
    (let ((elsewhere (selected-window)))
      (pcase-dolist (`(,list ,name) '((gemini-companion-review-list "a.txt")
                                      (gemini-companion-review-history "b.txt")))
        (select-window elsewhere)
        (funcall list)
        (goto-char (point-min))
        (search-forward name)
        (let* ((position (1- (point)))
               (window (selected-window)))
          (should (get-text-property position 'mouse-face))
          (should (string-prefix-p (gemini-companion-test-file name)
                                   (get-text-property position 'help-echo)))
          (should (eq (key-binding [mouse-2]) (key-binding (kbd "RET"))))
          ;; So that `mouse-1' is taken for `mouse-2' there.
          (should (eq (key-binding [follow-link]) 'mouse-face))
          (goto-char (point-min))
          (let ((clicked nil) (command (key-binding [mouse-2])))
            (select-window (split-window))
            (switch-to-buffer "*scratch*")
            (cl-letf (((symbol-function 'gemini-companion-review-visit)
                       (lambda (review) (setq clicked (gemini-companion-review-file review)))))
              (let ((last-input-event `(mouse-2 (,window ,position (0 . 0) 0))))
                (call-interactively command)))
            (should (equal (or clicked (buffer-name))
                           (if (eq list 'gemini-companion-review-list) name
                             "*gemini change*")))
            (delete-other-windows)
            (setq elsewhere (selected-window))))))))

(ert-deftest gemini-companion-review-list/the-keys-that-work-on-a-line-are-shown ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-review-list)
    (should (equal (gemini-companion-review-list-test--keys)
                   " No change awaits your decision  h history  q quit"))
    (gemini-companion-test-propose client "a.txt" "1\n")
    (gemini-companion-review-list-test--goto "*gemini reviews*" 1)
    (should (equal (gemini-companion-review-list-test--keys)
                   " RET show  a accept  r reject  h history  q quit"))
    (gemini-companion-review-list-test--goto "*gemini reviews*" 2)
    (should (equal (gemini-companion-review-list-test--keys) " h history  q quit"))
    (gemini-companion-review-history)
    (should (equal (gemini-companion-review-list-test--keys)
                   " No change was decided yet  q quit"))
    (gemini-companion-review-reject (car (gemini-companion-review-list-open)))
    (gemini-companion-review-list-test--accept client "b.txt" "b\n")
    (gemini-companion-review-list-test--goto "*gemini history*" 1)
    (should (equal (gemini-companion-review-list-test--keys)
                   " RET before and after  u undo  w write  q quit"))
    (gemini-companion-review-list-test--undo t)
    (should (equal (gemini-companion-review-list-test--keys)
                   " RET before and after  u make again  q quit"))
    (gemini-companion-review-list-test--goto "*gemini history*" 2)
    (should (equal (gemini-companion-review-list-test--keys) " RET before and after  q quit"))))

(ert-deftest gemini-companion-review-list/a-click-on-a-key-presses-it ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-test-propose client "a.txt" "1\n")
    (gemini-companion-review-list)
    (gemini-companion-review-list-test--goto "*gemini reviews*" 1)
    (let* ((at (string-search "RET show" header-line-format))
           (click (lookup-key (get-text-property at 'keymap header-line-format)
                              [header-line mouse-1]))
           (last-input-event `(mouse-1 (,(selected-window) header-line (0 . 0) 0))))
      (funcall click last-input-event))
    (should (gemini-companion-review-shown))))

;;;; History

(ert-deftest gemini-companion-review-list/history-has-the-newest-first-and-a-bound ()
  (gemini-companion-review-list-test--with client
    (let ((gemini-companion-history--max-entries 3))
      (gemini-companion-review-reject (gemini-companion-test-propose client "lost" "1"))
      (gemini-companion-review-reject (gemini-companion-test-propose client "a.txt" "1"))
      (gemini-companion-review-history)
      (gemini-companion-review-list-test--accept client "b.txt" "b\n")
      (let ((review (gemini-companion-test-propose client "c.txt" "c")))
        (fake-cli-call-tool client "closeDiff"
                            (list :filePath (gemini-companion-review-path review)
                                  :suppressNotification t)))
      ;; It came by itself.
      (should (equal (gemini-companion-review-list-test--files "*gemini history*" 2)
                     '("c.txt" "b.txt" "a.txt")))
      (should (equal (gemini-companion-review-list-test--column "*gemini history*" 1)
                     '("in the CLI" "accepted" "rejected")))
      (should (equal (gemini-companion-review-list-test--column "*gemini history*" 4)
                     '("new, +1" "new, +1" "+1 -2"))))
    ;; What an undo replaced counts as well.
    (let ((gemini-companion-history--max-size 15))
      (gemini-companion-history-note-undone (cadr gemini-companion-history--entries)
                                            "0123456789")
      (should (= (length gemini-companion-history--entries) 2)))))

(ert-deftest gemini-companion-review-list/show-is-a-diff-and-no-more ()
  (gemini-companion-review-list-test--with client
    (let ((enable-local-variables :all)
          (enable-local-eval t)
          (hooked nil)
          (text "\0NUL %s
;; Local Variables:
;; eval: (setq gemini-companion-test--evil t)
;; End:"))
      (let ((diff-mode-hook (list (lambda () (setq hooked t)))))
        (gemini-companion-review-reject
         (gemini-companion-test-propose client "a.txt" (concat "one\n" text)))
        (gemini-companion-review-history)
        (gemini-companion-review-list-test--goto "*gemini history*" 1)
        (gemini-companion-review-list-test--press "RET")
        (font-lock-ensure))
      (should-not hooked)
      (should-not (boundp 'gemini-companion-test--evil))
      (should (equal (buffer-string)
                     (concat (format "--- %s\tbefore\n+++ %s\tafter\n"
                                     (gemini-companion-test-file "a.txt")
                                     (gemini-companion-test-file "a.txt"))
                             "@@ -1,2 +1,5 @@\n one\n-two\n"
                             (replace-regexp-in-string "^" "+" text)
                             "\n\\ No newline at end of file\n")))
      (should buffer-read-only)
      (should-not buffer-file-name)
      (should (string-match-p "a\\.txt.*rejected" header-line-format))
      (dolist (key '("RET" "C-c C-a" "C-c C-c" "k" "e" "C-x C-s"))
        (should-not (string-prefix-p "diff-" (symbol-name (or (key-binding (kbd key))
                                                              'none)))))
      (goto-char (point-min))
      (gemini-companion-review-list-test--press "n")
      (should (looking-at "@@ ")))))

(ert-deftest gemini-companion-review-list/show-a-new-file-and-none-that-differs ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-test-file "dos.txt" "é\r\n")
    (pcase-dolist (`(,name ,text ,shown)
                   '(("n.txt" "é\n" "\\`--- .*no file before\n.*\n@@ .*\n\\+é\n\\'")
                     ("dos.txt" "é\n" "\\`No line differs")
                     ("empty" "" "\\`No line differs")))
      (gemini-companion-review-reject (gemini-companion-test-propose client name text))
      (gemini-companion-review-history)
      (gemini-companion-review-list-test--goto "*gemini history*" 1)
      (gemini-companion-review-list-test--press "RET")
      (should (string-match-p shown (buffer-string))))))

;;;; Where before and after are shown

(ert-deftest gemini-companion-review-list/keys-work-where-a-change-is-shown ()
  "Also when the list is gone."
  (gemini-companion-review-list-test--with client
    (gemini-companion-review-list-test--accept client "b.txt" "b\n")
    (gemini-companion-review-list-test--accept client "a.txt" "2\n")
    (gemini-companion-review-history)
    (gemini-companion-review-list-test--goto "*gemini history*" 1)
    (gemini-companion-review-list-test--press "RET")
    (should (string-prefix-p " u undo  w write  n next  p previous  q quit  a.txt, accepted, "
                             header-line-format))
    (let ((asked nil))
      (cl-letf (((symbol-function 'y-or-n-p) (lambda (question) (push question asked))))
        (gemini-companion-review-list-test--press "u")
        ;; The list has heard.
        (should (equal (gemini-companion-review-list-test--column "*gemini history*" 1)
                       '("undone" "accepted")))
        (kill-buffer "*gemini history*")
        (should (equal (gemini-companion-review-list-test--bytes "a.txt") "one\ntwo\n"))
        (should (string-match-p "\\` u make again  n next .*  a\\.txt, undone, "
                                header-line-format))
        (gemini-companion-review-list-test--press "u")
        (should (equal (gemini-companion-review-list-test--bytes "a.txt") "2\n"))
        (gemini-companion-test-file "a.txt" "other\n")
        (gemini-companion-review-list-test--press "w")
        (should (equal (gemini-companion-review-list-test--bytes "a.txt") "2\n")))
      (should (equal (reverse asked)
                     '("Undo the change of a.txt? "
                       "Make the change of a.txt again? "
                       "Write the text of this change to a.txt, in place of what is there? "))))
    (should (eq (key-binding "q") 'quit-window))))

;;;; Prompts

(defmacro gemini-companion-review-list-test--after (prompt &rest body)
  "Evaluate BODY; the changes that come meanwhile come after PROMPT."
  (declare (indent 1) (debug t))
  `(let ((gemini-companion-queue-prompt-functions (list (lambda (_) ,prompt))))
     ,@body))

(defun gemini-companion-review-list-test--undo-prompt (answer number)
  "Undo the prompt of line NUMBER of the history by its key, answering ANSWER.
Return what was shown with the question, and the message then or the error."
  (gemini-companion-review-history)
  (gemini-companion-review-list-test--goto "*gemini history*" number)
  (let (shown said)
    (cl-letf (((symbol-function 'y-or-n-p)
               (lambda (question)
                 (setq shown (append (gemini-companion-review-list-test--lines "*gemini undo*")
                                     (list question)))
                 answer))
              ((symbol-function 'message)
               (lambda (&rest arguments) (setq said (apply #'format-message arguments)))))
      (condition-case error
          (gemini-companion-review-list-test--press "U")
        (user-error (setq said (cadr error)))))
    (list shown said)))

(ert-deftest gemini-companion-review-list/the-history-is-grouped-by-prompt ()
  (gemini-companion-review-list-test--with client
    (let ((first (cons "add types\n  and tests, please" (current-time)))
          (second (cons (make-string 300 ?x) (current-time)))
          (headings (lambda ()
                      (seq-filter (lambda (line) (string-match-p "prompt" (downcase line)))
                                  (gemini-companion-review-list-test--lines
                                   "*gemini history*")))))
      (gemini-companion-review-reject (gemini-companion-test-propose client "z.txt" "1"))
      (gemini-companion-review-history)
      (should-not (funcall headings))
      (gemini-companion-review-list-test--after first
        (gemini-companion-review-list-test--accept client "b.txt" "b\n")
        (gemini-companion-review-list-test--accept client "c.txt" "c\n"))
      (gemini-companion-review-list-test--after second
        (gemini-companion-review-reject (gemini-companion-test-propose client "d.txt" "d")))
      (should (string-match-p
               (concat "\\`Prompt of [0-9:]+: xxx.*x\\(…\\|\\.\\.\\.\\)\n"
                       "Prompt of [0-9:]+: add types and tests, please\n"
                       "No prompt is known of these:\\'")
               (string-join (funcall headings) "\n")))
      (should (<= (apply #'max (mapcar #'string-width (funcall headings))) 120))
      (should (equal (gemini-companion-review-list-test--files "*gemini history*" 2)
                     '("d.txt" "c.txt" "b.txt" "z.txt")))
      ;; Nothing of the second can be undone.
      (gemini-companion-review-list-test--goto "*gemini history*" 1)
      (should (equal (gemini-companion-review-list-test--keys) " q quit"))
      (should-error (gemini-companion-review-list-test--press "RET") :type 'user-error)
      (should-error (gemini-companion-review-list-test--press "U") :type 'user-error)
      (gemini-companion-review-list-test--goto "*gemini history*" 3)
      (should (equal (gemini-companion-review-list-test--keys)
                     " U undo the prompt's changes  q quit"))
      (gemini-companion-review-list-test--goto "*gemini history*" 4)
      (let ((keys (gemini-companion-review-list-test--keys)))
        (should (equal keys (concat " RET before and after  u undo  w write"
                                    "  U undo the prompt's changes  q quit")))
        (should (<= (length keys) 80)))
      ;; Sorted otherwise they are not together.
      (tabulated-list-sort 2)
      (should-not (funcall headings)))))

(ert-deftest gemini-companion-review-list/all-changes-of-a-prompt-are-undone ()
  "Also several of one file, and nothing of others."
  (gemini-companion-review-list-test--with client
    (let ((prompt (cons "do it" (current-time)))
          (project (file-name-nondirectory
                    (directory-file-name gemini-companion-test-project))))
      (gemini-companion-review-list-test--accept client "other.txt" "other\n")
      (gemini-companion-review-list-test--after prompt
        (gemini-companion-review-list-test--accept client "a.txt" "one\n2\n")
        (gemini-companion-review-list-test--accept client "new/n.txt" "n\n")
        (gemini-companion-review-list-test--accept client "a.txt" "1\n2\n")
        (gemini-companion-review-reject (gemini-companion-test-propose client "a.txt" "x")))
      (gemini-companion-test-file "new/n.txt" "later\n")
      (should (equal (gemini-companion-review-list-test--undo-prompt nil 1)
                     (list (list "This will be undone:"
                                 (format "  %s/a.txt  +1 -1" project)
                                 (format "  %s/new/n.txt  new, +1, the file is deleted, has \
changed since: later changes are lost, too" project)
                                 (format "  %s/a.txt  +1 -1" project)
                                 "Undo 3 changes? ")
                           "Left as it is")))
      (should (equal (gemini-companion-review-list-test--bytes "a.txt") "1\n2\n"))
      ;; From the line of a change of it, too.
      (should (equal (cadr (gemini-companion-review-list-test--undo-prompt t 3))
                     "3 changes undone"))
      (should (equal (gemini-companion-review-list-test--bytes "a.txt") "one\ntwo\n"))
      (should-not (file-exists-p (gemini-companion-test-file "new/n.txt")))
      (should (equal (gemini-companion-review-list-test--bytes "other.txt") "other\n"))
      (should (equal (gemini-companion-review-list-test--column "*gemini history*" 1)
                     '("rejected" "undone" "undone" "undone" "accepted")))
      (should-not (get-buffer-window "*gemini undo*"))
      ;; Each can be made again.
      (gemini-companion-review-list-test--goto "*gemini history*" 5)
      (cl-letf (((symbol-function 'y-or-n-p) #'always))
        (gemini-companion-review-list-test--press "u"))
      (should (equal (gemini-companion-review-list-test--bytes "a.txt") "one\n2\n")))))

(ert-deftest gemini-companion-review-list/what-cannot-be-undone-is-named-and-left ()
  (gemini-companion-review-list-test--with client
    (let ((prompt (cons "do it" (current-time))))
      (gemini-companion-review-list-test--after prompt
        (gemini-companion-review-list-test--accept client "b.txt" "b\n")
        (gemini-companion-review-list-test--accept client "b.txt" "b2\n")
        (setf (gemini-companion-history-before (car gemini-companion-history--entries))
              'unreadable)
        (gemini-companion-review-list-test--accept client "c.txt" "c\n")
        (gemini-companion-review-list-test--accept client "a.txt" "2\n"))
      (gemini-companion-test-file "a.txt" "one\ntwo\n")
      (pcase-let ((`(,shown ,said) (gemini-companion-review-list-test--undo-prompt t 1))
                  (faults '("a.txt is as it was before the change already"
                            "The previous contents of b.txt are not known"
                            "A later change of b.txt stays")))
        (should (equal (seq-drop shown 2)
                       `("This is left alone:"
                         ,@(mapcar (lambda (fault) (concat "  " fault)) faults)
                         "Undo 1 change? ")))
        (should (equal said (concat "1 change undone; " (string-join faults "; ")))))
      (should-not (file-exists-p (gemini-companion-test-file "c.txt")))
      (should (equal (gemini-companion-review-list-test--bytes "b.txt") "b2\n"))
      ;; Now there is nothing left that could be, so nothing is asked.
      (should (equal (car (gemini-companion-review-list-test--undo-prompt t 1)) nil)))))

(ert-deftest gemini-companion-review-list/a-file-that-is-written-meanwhile-is-left ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-review-list-test--after (cons "do it" (current-time))
      (gemini-companion-review-list-test--accept client "b.txt" "b\n"))
    (let ((prompt (cons "both" (current-time))) said)
      (gemini-companion-review-list-test--after prompt
        (gemini-companion-review-list-test--accept client "b.txt" "b2\n")
        (gemini-companion-review-list-test--accept client "c.txt" "c\n"))
      (gemini-companion-review-history)
      (gemini-companion-review-list-test--goto "*gemini history*" 1)
      (cl-letf (((symbol-function 'y-or-n-p)
                 (lambda (_) (gemini-companion-test-file "c.txt" "meanwhile\n")))
                ((symbol-function 'message)
                 (lambda (&rest arguments) (setq said (apply #'format-message arguments)))))
        (gemini-companion-review-list-test--press "U"))
      (should (equal said "1 change undone; c.txt was written just now; left as it is"))
      (should (equal (gemini-companion-review-list-test--bytes "c.txt") "meanwhile\n"))
      (should (equal (gemini-companion-review-list-test--bytes "b.txt") "b\n")))))

;;;; Undo

(ert-deftest gemini-companion-review-list/undo-and-redo-byte-for-byte ()
  (gemini-companion-review-list-test--with client
    (pcase-dolist
        (`(,before ,text ,after)
         `(("one\ntwo\n" "2\n" "2\n")
           ("one\r\ntwo\r\n" "one\n2\n" "one\r\n2\r\n")
           ("mixed\r\nends\n" "x" "x")
           ("a\0\r\nb\r\n" "a\0\n2\n" "a\0\r\n2\r\n")
           ("caf\351\n\377\0" "x\n" "x\n")
           ("caf\351\n" "café!\n" "caf\351!\n")
           ("\357\273\277mark\n" "2\n" "\357\273\2772\n")
           ("no newline" "none" "none")
           ("" "some\n" "some\n")))
      (gemini-companion-test-write-bytes "x.txt" before)
      (gemini-companion-review-list-test--accept client "x.txt" text after)
      (should (equal (gemini-companion-review-list-test--undo t)
                     "Undo the change of x.txt? "))
      (should (equal (gemini-companion-review-list-test--bytes "x.txt") before))
      (should (equal (car (gemini-companion-review-list-test--column "*gemini history*" 1))
                     "undone"))
      (should (equal (gemini-companion-review-list-test--undo t)
                     "Make the change of x.txt again? "))
      (should (equal (gemini-companion-review-list-test--bytes "x.txt") after))
      (should (equal (car (gemini-companion-review-list-test--column "*gemini history*" 1))
                     "accepted")))))

(ert-deftest gemini-companion-review-list/undo-wants-a-yes ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-review-list-test--accept client "a.txt" "2\n")
    (should (gemini-companion-review-list-test--undo nil))
    (should (equal (gemini-companion-review-list-test--bytes "a.txt") "2\n"))
    (should (equal (gemini-companion-review-list-test--column "*gemini history*" 1)
                   '("accepted")))))

(ert-deftest gemini-companion-review-list/undo-tells-of-later-changes ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-review-list-test--accept client "a.txt" "2\n")
    (gemini-companion-test-file "a.txt" "2\nlater\n")
    (should (string-match-p "a\\.txt has changed since; later changes would be lost, too\\..*Undo"
                            (gemini-companion-review-list-test--undo t)))
    (should (equal (gemini-companion-review-list-test--bytes "a.txt") "one\ntwo\n"))
    (gemini-companion-test-file "a.txt" "later yet\n")
    (should (string-match-p "has changed since.*again"
                            (gemini-companion-review-list-test--undo t)))
    (should (equal (gemini-companion-review-list-test--bytes "a.txt") "2\nlater\n"))
    (delete-file (gemini-companion-test-file "a.txt"))
    (should (string-match-p "is gone by now.*Undo" (gemini-companion-review-list-test--undo t)))
    (should (equal (gemini-companion-review-list-test--bytes "a.txt") "one\ntwo\n"))))

(ert-deftest gemini-companion-review-list/undo-looks-again-after-the-question ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-review-list-test--accept client "a.txt" "2\n")
    (gemini-companion-review-history)
    (cl-letf (((symbol-function 'y-or-n-p)
               (lambda (_question) (gemini-companion-test-file "a.txt" "meanwhile\n"))))
      (should-error (gemini-companion-review-list-test--press "u") :type 'user-error))
    (should (equal (gemini-companion-review-list-test--bytes "a.txt") "meanwhile\n"))))

(ert-deftest gemini-companion-review-list/undo-of-a-new-file-deletes-it ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-review-list-test--accept client "new/n.txt" "text\n")
    (let ((file (gemini-companion-test-file "new/n.txt")) trashed)
      (should (string-match-p "deletes the file\\? \\'"
                              (gemini-companion-review-list-test--undo nil)))
      (should (file-exists-p file))
      (cl-letf* ((delete (symbol-function 'delete-file))
                 ((symbol-function 'delete-file)
                  (lambda (name &optional trash)
                    (setq trashed trash)
                    (funcall delete name))))
        (gemini-companion-review-list-test--undo t))
      (should trashed)
      (should-not (file-exists-p file))
      (delete-directory (file-name-directory file))
      (should (string-match-p "gone by now.*again" (gemini-companion-review-list-test--undo t)))
      (should (equal (gemini-companion-review-list-test--bytes "new/n.txt") "text\n")))))

(ert-deftest gemini-companion-review-list/nothing-to-undo ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-review-reject (gemini-companion-test-propose client "a.txt" "2\n"))
    (should (string-match-p "Nothing to undo.*a\\.txt was rejected"
                            (gemini-companion-review-list-test--undo t)))
    ;; The client has not written.
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (gemini-companion-review-show review 'keep)
      (gemini-companion-review-accept review))
    (should (string-match-p "before the change already"
                            (gemini-companion-review-list-test--undo t)))
    (let ((entry (car gemini-companion-history--entries)))
      (setf (gemini-companion-history-before entry) 'unreadable)
      (should (string-match-p "not known" (gemini-companion-review-list-test--undo t))))
    (should (equal (gemini-companion-review-list-test--bytes "a.txt") "one\ntwo\n"))))

(ert-deftest gemini-companion-review-list/undo-writes-to-regular-files-only ()
  (gemini-companion-review-list-test--with client
    (gemini-companion-review-list-test--accept client "n.txt" "2\n")
    (let ((file (gemini-companion-test-file "n.txt")))
      (delete-file file)
      (call-process "mkfifo" nil nil nil file)
      (should (string-match-p "cannot be read" (gemini-companion-review-list-test--undo t)))
      (dolist (bytes '(nil "text"))
        (should-error (gemini-companion-history-write file bytes)))
      (should (file-exists-p file)))))

(ert-deftest gemini-companion-review-list/what-the-client-decided-can-be-undone ()
  (gemini-companion-review-list-test--with client
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (fake-cli-call-tool client "closeDiff"
                          (list :filePath (gemini-companion-review-path review)))
      (gemini-companion-test-file "a.txt" "2\n")
      (should (equal (gemini-companion-review-list-test--undo t) "Undo the change of a.txt? "))
      (should (equal (gemini-companion-review-list-test--bytes "a.txt") "one\ntwo\n")))))

(ert-deftest gemini-companion-review-list/undo-keeps-modes-and-links ()
  (gemini-companion-review-list-test--with client
    (let ((file (gemini-companion-test-file "real.sh" "one\n"))
          (link (gemini-companion-test-file "link.sh")))
      (set-file-modes file #o750)
      (make-symbolic-link file link)
      (gemini-companion-review-list-test--accept client "link.sh" "2\n")
      (gemini-companion-review-list-test--undo t)
      (should (equal (gemini-companion-review-list-test--bytes "real.sh") "one\n"))
      (should (file-symlink-p link))
      (should (= (file-modes file) #o750)))))

(ert-deftest gemini-companion-review-list/a-visiting-buffer-follows-an-undo ()
  (gemini-companion-review-list-test--with client
    (let ((buffer (current-buffer)))
      (gemini-companion-review-list-test--accept client "a.txt" "one\n2\nthree\n")
      (should (equal (buffer-string) "one\n2\nthree\n"))
      (goto-char 3)
      (gemini-companion-review-list-test--undo t)
      (with-current-buffer buffer
        (should (equal (buffer-string) "one\ntwo\n"))
        (should (= (point) 3))
        (should-not (buffer-modified-p))
        (should (verify-visited-file-modtime))
        (should-not (file-exists-p (make-lock-file-name buffer-file-name)))))))

(ert-deftest gemini-companion-review-list/unsaved-edits-are-left-alone-by-an-undo ()
  (gemini-companion-review-list-test--with client
    (let ((buffer (current-buffer)) (lock (make-lock-file-name buffer-file-name)) said)
      (insert "mine ")
      (should (file-symlink-p lock))
      (cl-letf (((symbol-function 'read-multiple-choice) (lambda (&rest _) '(?a))))
        (gemini-companion-review-list-test--accept client "a.txt" "2\n"))
      (cl-letf (((symbol-function 'message)
                 (lambda (&rest arguments) (setq said (apply #'format-message arguments)))))
        (gemini-companion-review-list-test--undo t))
      (should (string-match-p "a\\.txt undone; unsaved edits in a\\.txt are kept" said))
      (should (equal (gemini-companion-review-list-test--bytes "a.txt") "one\ntwo\n"))
      (should (file-symlink-p lock))
      (with-current-buffer buffer
        (should (equal (buffer-string) "mine one\ntwo\n"))
        (should (buffer-modified-p))))))

;;; gemini-companion-review-list-test.el ends here

;;; gemini-companion-write-revert-test.el --- Tests of reverting buffers of written files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'autorevert)
(require 'ert)
(require 'gemini-companion-comment)
(require 'gemini-companion-test-companion)
(require 'gemini-companion-test-lists)

(defvar revert-buffer-preserve-modes)

(defmacro gemini-companion-write-revert-test--with (text &rest body)
  "Evaluate BODY in a buffer that visits the file a.txt with TEXT and follows it."
  (declare (indent 1) (debug t))
  `(gemini-companion-test-with-project
     (gemini-companion-native-load)
     (let ((gemini-companion-write--poll-interval 0.01))
       (with-current-buffer
           (find-file-noselect (gemini-companion-test-file "a.txt" ,text))
         (unwind-protect (progn ,@body)
           (gemini-companion-write-stop))))))

(defun gemini-companion-write-revert-test--follow (file &optional text)
  "Expect that the client of a review of FILE writes TEXT."
  (gemini-companion-write-revert-when-written
   (gemini-companion-review-make :path file :proposed "" :text "") text))

(defun gemini-companion-write-revert-test--write (text)
  "Write TEXT to the followed file as the client does, and wait."
  (gemini-companion-write-revert-test--follow buffer-file-name text)
  (gemini-companion-test-write buffer-file-name text)
  (gemini-companion-test-wait-followed))

(defun gemini-companion-write-revert-test--write-bytes (bytes)
  "Write BYTES to the followed file as the client does, and wait."
  (gemini-companion-write-revert-test--follow buffer-file-name)
  (gemini-companion-test-write-bytes buffer-file-name bytes)
  (gemini-companion-test-wait-followed))

(ert-deftest gemini-companion-write-revert/edits-that-were-merged-may-get-a-final-newline ()
  "Gemini CLI restores it, and the buffer kept the edits, without the change."
  (gemini-companion-test-with-client client
    (goto-char (point-max))
    (insert "mine")
    (let ((review (gemini-companion-test-propose client "a.txt" "1\ntwo\n")))
      (gemini-companion-review-effect-merge review)
      (gemini-companion-review-show review 'keep)
      (gemini-companion-test-with-answer 'yes (gemini-companion-review-commands-accept review))
      (gemini-companion-test-write-bytes "a.txt" "1\ntwo\nmine\n")
      (gemini-companion-test-wait "the buffer to be reverted"
                                  (lambda () (equal (buffer-string) "1\ntwo\nmine\n")))
      (should-not (buffer-modified-p)))))

(ert-deftest gemini-companion-write-revert/a-stale-function-of-the-user-stays ()
  "It is asked unless a client may write the file, and alone when the mode is off."
  (gemini-companion-test-with-client client
    (setq-local buffer-stale-function (lambda (&optional _) 'mine))
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (gemini-companion-review-show review 'keep)
      (gemini-companion-review-commands-accept review)
      (with-current-buffer "a.txt"
        (should-not (funcall buffer-stale-function t))
        (gemini-companion-test-write (gemini-companion-review-path review) "2\n")
        (gemini-companion-test-wait "the file to be noticed"
                                    (lambda () (funcall buffer-stale-function t)))
        (should (eq (funcall buffer-stale-function t) 'mine))
        ;; Somebody else puts a function around ours, and we another one around that.
        (let ((ours buffer-stale-function))
          (setq-local buffer-stale-function (lambda (&optional noconfirm)
                                              (funcall ours noconfirm))))
        (gemini-companion-review-commands-accept-seen
         (gemini-companion-test-propose client "a.txt" "3\n"))
        (should-not (funcall buffer-stale-function t))
        (gemini-companion-mode -1)
        (should-not (advice-function-member-p #'gemini-companion-write--stale-p
                                              buffer-stale-function))
        (should (eq (funcall buffer-stale-function t) 'mine))))))

(ert-deftest gemini-companion-write-revert/the-buffer-shows-the-new-text-and-point-stays ()
  (gemini-companion-write-revert-test--with "one\ntwo\nthree\nfour\n"
    (search-forward "thr")
    (let ((marker (copy-marker (+ (point) 4))))
      (gemini-companion-write-revert-test--write "zero\none\nthree\nfour\nfive\n")
      (should (equal (buffer-string) "zero\none\nthree\nfour\nfive\n"))
      (should (looking-at "ee\nfour"))
      (should (equal (char-after marker) ?o))
      (should-not (buffer-modified-p))
      (should (verify-visited-file-modtime)))))

(ert-deftest gemini-companion-write-revert/letters-that-only-change-their-case-are-shown ()
  (gemini-companion-write-revert-test--with "one\nfunction two\n"
    (narrow-to-region 1 5)
    (gemini-companion-write-revert-test--write "one\nFunction two\n")
    (should-not (buffer-modified-p))
    (widen)
    (should (equal (buffer-string) "one\nFunction two\n"))))

(ert-deftest gemini-companion-write-revert/a-cli-may-have-other-changes-decided-first ()
  "Qwen Code writes nothing until all changes of a turn are decided."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n"))
          (other (gemini-companion-test-propose client "b.txt" "2\n"))
          (gemini-companion-write--revert-time 0)
          (gemini-companion-write--slow-interval 0.01))
      (gemini-companion-review-show review 'keep)
      (gemini-companion-review-commands-accept review)
      (let ((polls 0))
        (cl-letf* ((others (symbol-function 'gemini-companion-write-others))
                   ((symbol-function 'gemini-companion-write-others)
                    (lambda (review) (cl-incf polls) (funcall others review))))
          (gemini-companion-test-wait "several polls" (lambda () (> polls 3)))))
      (gemini-companion-test-file "a.txt" "2\n")
      (gemini-companion-test-wait "the buffer to show it"
                                  (lambda () (equal (buffer-string) "2\n")))
      (gemini-companion-review-reject other))))

(ert-deftest gemini-companion-write-revert/only-what-was-accepted-is-shown-at-once ()
  "Any other text may be a part of it, even if timers find it twice in a moment."
  (gemini-companion-write-revert-test--with "one\n"
    (let (check)
      (cl-letf (((symbol-function 'gemini-companion-write--poll)
                 (lambda (_seconds function &rest _) (setq check function) (timer-create))))
        (gemini-companion-write-revert-test--follow buffer-file-name "two!\n"))
      (should-not (funcall check))
      (gemini-companion-test-write-bytes "a.txt" "")
      (should-not (funcall check))
      (should-not (funcall check))
      (gemini-companion-test-write-bytes "a.txt" "two!\n")
      (should (funcall check)))))

(ert-deftest gemini-companion-write-revert/a-file-that-was-emptied-is-not-shown-soon ()
  "On a busy machine, a CLI may take long until it writes the text."
  (gemini-companion-write-revert-test--with "one\n"
    (let ((now (float-time))
          check)
      (cl-letf (((symbol-function 'gemini-companion-write--poll)
                 (lambda (_seconds function &rest _) (setq check function) (timer-create)))
                ((symbol-function 'float-time) (lambda (&rest _) now)))
        (gemini-companion-write-revert-test--follow buffer-file-name "two!\n")
        (pcase-dolist (`(,text . ,shown-after) '(("" nil nil t) ("tw" nil t t)))
          (gemini-companion-test-write-bytes "a.txt" text)
          (should (equal (cl-loop for seconds in '(0 1 3)
                                  do (cl-incf now seconds)
                                  collect (and (funcall check) t))
                         shown-after)))))))

(defmacro gemini-companion-write-revert-test--with-auto-revert (text &rest body)
  "Evaluate BODY in the buffer of a.txt, which contains TEXT, in Auto Revert mode."
  (declare (indent 1) (debug t))
  `(gemini-companion-write-revert-test--with ,text
     (gemini-companion-mode 1)
     (let ((auto-revert-use-notify nil)
           (auto-revert-verbose nil))
       (auto-revert-mode 1)
       (unwind-protect (progn ,@body)
         (auto-revert-mode -1)))))

(ert-deftest gemini-companion-write-revert/auto-revert-mode-shows-nothing-half-written ()
  "CLIs empty the file first, so point would go to its beginning."
  (gemini-companion-write-revert-test--with-auto-revert "one\ntwo\nthree\n"
    (search-forward "thr")
    (gemini-companion-write-revert-test--follow buffer-file-name "1\ntwo\nthree\n4\n")
    (dolist (text '("" "1\ntwo\nthree\n4\n"))
      (gemini-companion-test-write-bytes "a.txt" text)
      (auto-revert-buffers)
      (should (looking-at "ee\n")))
    (gemini-companion-test-wait-followed)
    (should (equal (buffer-string) "1\ntwo\nthree\n4\n"))
    (should (looking-at "ee\n"))
    ;; It does its work when nothing is expected any more.
    (gemini-companion-test-write-bytes "a.txt" "5\n")
    (auto-revert-buffers)
    (should (equal (buffer-string) "5\n"))))

(ert-deftest gemini-companion-write-revert/auto-revert-mode-goes-on-after-a-file-was-renamed ()
  "Until a client has written the file, its buffer may visit another one."
  (gemini-companion-write-revert-test--with-auto-revert "one\n"
    (gemini-companion-write-revert-test--follow buffer-file-name "two\n")
    (rename-file "a.txt" "b.txt")
    (set-visited-file-name "b.txt" t t)
    (gemini-companion-write-stop)
    (gemini-companion-test-write-bytes "b.txt" "three\n")
    (auto-revert-buffers)
    (should (equal (buffer-string) "three\n"))))

(defun gemini-companion-write-revert-test--undo (&optional again command)
  "Undo as a user does by COMMAND or `undo'; AGAIN means as after another undo."
  (undo-boundary)
  (let ((last-command (and again 'undo))
        (inhibit-message t))
    (funcall (or command #'undo))))

(defmacro gemini-companion-write-revert-test--without-questions (&rest body)
  "Evaluate BODY; fail if Emacs asks anything."
  (declare (indent 0) (debug t))
  `(let ((questions nil))
     (cl-letf (((symbol-function 'y-or-n-p) (lambda (text) (push text questions) t))
               ((symbol-function 'yes-or-no-p) (lambda (text) (push text questions) t))
               ((symbol-function 'read-string) (lambda (text &rest _) (push text questions) ""))
               ((symbol-function 'ask-user-about-lock)
                (lambda (file &rest _) (push file questions) nil))
               ((symbol-function 'ask-user-about-supersession-threat)
                (lambda (file) (push file questions))))
       ,@body)
     (should-not questions)))

(ert-deftest gemini-companion-write-revert/undo-restores-the-text-as-unsaved ()
  (gemini-companion-write-revert-test--with "one\n"
    (gemini-companion-write-revert-test--write "two\n")
    (gemini-companion-write-revert-test--without-questions
      (gemini-companion-write-revert-test--undo)
      (should (equal (buffer-string) "one\n"))
      ;; The file has the new text.
      (should (buffer-modified-p))
      (let ((inhibit-message t)) (save-buffer)))
    (should-not (buffer-modified-p))
    (should (equal (gemini-companion-test-read buffer-file-name) "one\n"))))

(ert-deftest gemini-companion-write-revert/undo-leaves-point-where-it-was ()
  (gemini-companion-write-revert-test--with "one\ntwo\nthree\nfour\n"
    (setq buffer-undo-list nil)
    (search-forward "thr")
    (gemini-companion-write-revert-test--write "1\ntwo\nthree\n4\n")
    (should (looking-at "ee\n4"))
    (gemini-companion-write-revert-test--undo)
    (should (looking-at "ee\nfour"))))

(ert-deftest gemini-companion-write-revert/redo-makes-the-buffer-unmodified-again ()
  (gemini-companion-write-revert-test--with "one\n"
    (gemini-companion-write-revert-test--write "two\n")
    (gemini-companion-write-revert-test--undo)
    (gemini-companion-write-revert-test--undo)
    (should (equal (buffer-string) "two\n"))
    (should-not (buffer-modified-p))))

(ert-deftest gemini-companion-write-revert/undo-goes-back-through-all-changes ()
  (dolist (command '(undo undo-only))
    (gemini-companion-write-revert-test--with "one\n"
      (dolist (text '("two\n" "two\nthree\n" "four\n"))
        (gemini-companion-write-revert-test--write text))
      (let ((again nil))
        (dolist (text '("two\nthree\n" "two\n" "one\n"))
          (gemini-companion-write-revert-test--undo again command)
          (setq again t)
          (should (equal (buffer-string) text))
          (should (buffer-modified-p)))))))

(ert-deftest gemini-companion-write-revert/undo-is-right-with-coarse-file-times ()
  "Some file systems record times with a resolution of a second or two."
  (gemini-companion-write-revert-test--with "one\n"
    (let ((time (seconds-to-time 1000000000)))
      (set-file-times buffer-file-name time)
      (set-visited-file-modtime time)
      (gemini-companion-test-write buffer-file-name "two\n")
      (set-file-times buffer-file-name time))
    (should-not (gemini-companion-write-revert-now buffer-file-name))
    (gemini-companion-write-revert-test--undo)
    (should (equal (buffer-string) "one\n"))
    (should (buffer-modified-p))))

(ert-deftest gemini-companion-write-revert/a-text-undone-in-buffer-and-file-is-unmodified ()
  "The history undoes in the file a change that was undone in the buffer."
  (gemini-companion-write-revert-test--with "one\n"
    (gemini-companion-write-revert-test--write "two\n")
    (gemini-companion-write-revert-test--undo)
    (gemini-companion-test-write buffer-file-name "one\n")
    (should-not (gemini-companion-write-revert-now buffer-file-name))
    (should (equal (buffer-string) "one\n"))
    (should-not (buffer-modified-p))
    (should (verify-visited-file-modtime))))

(ert-deftest gemini-companion-write-revert/an-undo-from-the-history-can-be-undone ()
  (gemini-companion-write-revert-test--with "one\n"
    (gemini-companion-test-write buffer-file-name "two\n")
    (should-not (gemini-companion-write-revert-now buffer-file-name))
    (should-not (buffer-modified-p))
    (gemini-companion-write-revert-test--undo)
    (should (equal (buffer-string) "one\n"))
    (should (buffer-modified-p))))

(ert-deftest gemini-companion-write-revert/it-asks-nothing ()
  "Even if another Emacs has locked the file and it is written all the time."
  (gemini-companion-write-revert-test--with "one\n"
    (make-symbolic-link "somebody@elsewhere.1" (gemini-companion-test-file ".#a.txt"))
    (let* ((create-lockfiles t)
           ;; Another process writes, as Emacs itself would ask first.
           (write (lambda (text)
                    (call-process "sh" nil nil nil "-c" "printf %s \"$1\" >\"$0\""
                                  buffer-file-name text)))
           (again (lambda (&rest _) (funcall write "three\n"))))
      (add-hook 'first-change-hook again nil t)
      (add-hook 'before-change-functions again nil t)
      (gemini-companion-write-revert-test--without-questions
        (funcall write "two\n")
        (gemini-companion-write-revert-now buffer-file-name))
      (should (equal (buffer-string) "two\n"))
      (should-not (buffer-modified-p))
      ;; Emacs notices a write in between.
      (should-not (verify-visited-file-modtime)))
    (delete-file (gemini-companion-test-file ".#a.txt"))))

(ert-deftest gemini-companion-write-revert/positions-stay-with-their-text ()
  (let ((lines (mapcar (lambda (number) (format "line %d\n" number)) (number-sequence 1 200))))
    (gemini-companion-write-revert-test--with (apply #'concat lines)
      (switch-to-buffer (current-buffer))
      (delete-other-windows)
      (let* ((at (lambda (line)
                   (save-excursion
                     (goto-char (point-min))
                     (search-forward (concat line "\n"))
                     (match-beginning 0))))
             (upper (selected-window))
             (lower (split-window))
             (overlay (make-overlay (funcall at "line 50") (funcall at "line 60")))
             (looks (lambda (position) (buffer-substring position (+ position 8)))))
        (overlay-put overlay 'invisible 'outline)
        (set-window-start upper (funcall at "line 100"))
        (set-window-point upper (funcall at "line 103"))
        (set-window-start lower (funcall at "line 150"))
        (set-window-point lower (funcall at "line 151"))
        (set-mark (funcall at "line 120"))
        (setq mark-active t deactivate-mark nil)
        (let ((bursts 0) (reverts 0) (kills kill-ring) (command last-command))
          (add-hook 'after-change-functions (lambda (&rest _) (setq bursts (1+ bursts))) nil t)
          (add-hook 'after-revert-hook
                    (lambda () (string-match "." "abc") (setq reverts (1+ reverts)))
                    nil t)
          (let ((file buffer-file-name))
            (gemini-companion-test-write
             file (concat "new\n" (apply #'concat (remove "line 130\n" lines)) "end\n"))
            (string-match "b" "abc")
            ;; From another buffer, as the commands of the history do.
            (with-temp-buffer (gemini-companion-write-revert-now file)))
          (should (equal (match-data t) '(1 2)))
          (should (equal (list bursts reverts) '(1 1)))
          (should (eq kills kill-ring))
          (should (eq command last-command)))
        (should (equal (funcall looks (window-start upper)) "line 100"))
        (should (equal (funcall looks (window-point upper)) "line 103"))
        (should (equal (funcall looks (window-start lower)) "line 150"))
        (should (equal (funcall looks (window-point lower)) "line 151"))
        (should (equal (funcall looks (mark)) "line 120"))
        (should mark-active)
        (should-not deactivate-mark)
        (should (equal (buffer-substring (overlay-start overlay) (overlay-end overlay))
                       (apply #'concat (seq-subseq lines 49 59))))))))

(ert-deftest gemini-companion-write-revert/words-that-were-corrected-are-marked-no-longer ()
  "Others are, and what is folded stays folded."
  (gemini-companion-write-revert-test--with "Teh eror: brwon \\b{ab} \\b{cd}.\nIt is ovr.\n"
    (let ((fold (make-overlay 1 (point-max))))
      (overlay-put fold 'invisible 'outline)
      (pcase-dolist (`(,text ,property ,value)
                     '(("Teh" flyspell-overlay t) ("eror" flyspell-overlay t)
                       ("brwon" flyspell-overlay t) ("ovr" flyspell-overlay t)
                       ("\\b{ab}" TeX-fold-type macro) ("\\b{cd}" TeX-fold-type macro)))
        (goto-char (point-min))
        (search-forward text)
        (let ((overlay (make-overlay (- (point) (length text)) (point))))
          (overlay-put overlay 'evaporate t)
          (overlay-put overlay property value)))
      (gemini-companion-test-write
       buffer-file-name "The eror: brown \\b{ab} \\b{xd}.\nIt is over.\n")
      (gemini-companion-write-revert-now buffer-file-name)
      (should (equal (sort (mapcar (lambda (it)
                                     (buffer-substring (overlay-start it) (overlay-end it)))
                                   (remq fold (overlays-in (point-min) (point-max))))
                           #'string<)
                     '("\\b{ab}" "eror")))
      (should (overlay-buffer fold)))))

(ert-deftest gemini-companion-write-revert/positions-stay-in-lines-that-look-alike ()
  (let* ((line (lambda (number) (format "line %d\n" number)))
         (more '((4 . "changed 4\n") (6 . "") (11 . "changed 11\n") (12 . "line 12\nadded 12\n")
                 (16 . "line 16\nadded 16\n") (20 . "changed 20\n") (30 . "changed 30\n")))
         (all (number-sequence 1 30)))
    (gemini-companion-write-revert-test--with (mapconcat line all "")
      (dolist (column '(0 3))
        (let ((markers (mapcar (lambda (number)
                                 (goto-char (point-min))
                                 (forward-line (1- number))
                                 (cons (copy-marker (+ (point) column)) (funcall line number)))
                               (seq-remove (lambda (it) (memq it '(4 6 11 20 30))) all))))
          (gemini-companion-write-revert-test--write
           (mapconcat (lambda (it) (or (alist-get it more) (funcall line it))) all ""))
          (pcase-dolist (`(,marker . ,text) markers)
            (goto-char (- marker column))
            (should (looking-at (concat "^" text))))
          (gemini-companion-write-revert-test--write (mapconcat line all "")))))))

(ert-deftest gemini-companion-write-revert/lines-stay-if-comparing-would-take-too-long ()
  "Also in a text with fields, which commands that move by line respect."
  (let ((gemini-companion-heavy--max-compared 0)
        (text (lambda (word)
                (mapconcat (lambda (number) (format "%d %s\n" number (md5 (format word number))))
                           (number-sequence 1 2000) ""))))
    (gemini-companion-write-revert-test--with (funcall text "old %d")
      (switch-to-buffer (current-buffer))
      (delete-other-windows)
      (let ((other (split-window)))
        (goto-char (point-min))
        (forward-line 99)
        (with-silent-modifications
          (put-text-property (+ 9 (point)) (+ 60 (point)) 'field 'mine))
        (push-mark (line-beginning-position 21) t)
        (set-window-start other (line-beginning-position 100))
        (set-window-point other (line-beginning-position 110))
        (gemini-companion-comment-add (current-buffer) 150 152 "Why?")
        (gemini-companion-comment-add (current-buffer) 1999 2000 "Still?")
        (gemini-companion-write-revert-test--write (funcall text "new %d"))
        (should (equal (mapcar (lambda (it) (seq-take it 2))
                               (gemini-companion-comment-list (current-buffer)))
                       '((150 152) (1999 2000))))
        (should (equal (buffer-string) (funcall text "new %d")))
        (should (looking-at "100 "))
        (goto-char (mark t))
        (should (looking-at "120 "))
        (goto-char (window-start other))
        (should (looking-at "199 "))
        (goto-char (window-point other))
        (should (looking-at "209 "))))))

(ert-deftest gemini-companion-write-revert/positions-stay-in-a-paragraph-that-is-not-ascii ()
  "Where one line is a paragraph, point went to its end, and the window scrolled."
  (let* ((words (lambda (count) (apply #'concat (make-list count "été "))))
         (before (concat (funcall words 100) "ici eror " (funcall words 100)))
         (after (concat (funcall words 100) "là error " (funcall words 100))))
    (gemini-companion-write-revert-test--with (concat "a\n" before "\n" before "\nÀ\n" before "\n")
      (goto-char (point-min))
      (search-forward "eror")
      (let ((mark (make-overlay (- (point) 4) (point)))
            (right (copy-marker (1+ (point))))
            (left (copy-marker (- (point) 12))))
        (overlay-put mark 'flyspell-overlay t)
        (gemini-companion-write-revert-test--write
         (concat "b\n" after "\n" after "\nà\n" before "\n"))
        (should (equal (buffer-string) (concat "b\n" after "\n" after "\nà\n" before "\n")))
        (should (string-prefix-p "été là error" (buffer-substring left (point-max))))
        (should (string-prefix-p (funcall words 100) (buffer-substring right (point-max))))
        (should-not (overlay-buffer mark))))))

(ert-deftest gemini-companion-write-revert/the-text-is-data ()
  "Local variables, modes and formats in the new text are ignored."
  (gemini-companion-write-revert-test--with "one\n"
    (text-mode)
    (setq-local fill-column 33)
    (let ((enable-local-variables :all)
          (text "Content-Type: text/enriched\nText-Width: 70\n\n<bold>x</bold>
Local Variables:\nmode: sh\nfill-column: 11\nEnd:\n"))
      (gemini-companion-write-revert-test--write text)
      (should (equal (buffer-string) text))
      (should (eq major-mode 'text-mode))
      (should (eql fill-column 33))
      (should-not buffer-file-format))))

(ert-deftest gemini-companion-write-revert/a-text-that-a-client-shortens-is-still-auto-saved ()
  (gemini-companion-write-revert-test--with (make-string 9000 ?x)
    (auto-save-mode 1)
    (gemini-companion-write-revert-test--write (make-string 1000 ?y))
    (insert "mine")
    (let ((inhibit-message t))
      (do-auto-save))
    (should (equal (gemini-companion-test-read buffer-auto-save-file-name)
                   (buffer-string)))
    (delete-auto-save-file-if-necessary t)))

(ert-deftest gemini-companion-write-revert/edits-that-the-client-writes-leave-no-auto-save-file ()
  (gemini-companion-write-revert-test--with "one\n"
    (auto-save-mode 1)
    (let ((create-lockfiles nil))
      (insert "mine\n"))
    (do-auto-save t t)
    (should (file-exists-p buffer-auto-save-file-name))
    (gemini-companion-test-write buffer-file-name "mine\none\n")
    (should-not (gemini-companion-write-revert-now buffer-file-name))
    (should-not (buffer-modified-p))
    (should-not (file-exists-p buffer-auto-save-file-name))))

(ert-deftest gemini-companion-write-revert/edits-that-stay-can-be-recovered ()
  "If Emacs ends before they are auto-saved again."
  (dolist (told '(nil t))
    (gemini-companion-write-revert-test--with "one\n"
      (auto-save-mode 1)
      (let ((create-lockfiles nil))
        (insert "mine\n"))
      (do-auto-save t t)
      (set-file-times buffer-auto-save-file-name (time-add nil -5))
      (if told
          (gemini-companion-test-with-answer nil
            (gemini-companion-write-revert-test--write "two\n")
            (should (member "a.txt changed on disk; its buffer keeps your edits"
                            gemini-companion-test-messages)))
        (gemini-companion-test-write buffer-file-name "two\n")
        (should (gemini-companion-write-revert-now buffer-file-name)))
      (should (equal (buffer-string) "mine\none\n"))
      (should (file-newer-than-file-p buffer-auto-save-file-name buffer-file-name))
      (delete-auto-save-file-if-necessary t)
      (set-buffer-modified-p nil))))

(ert-deftest gemini-companion-write-revert/edits-stay-though-they-are-no-longer-auto-saved ()
  (gemini-companion-write-revert-test--with "one\n"
    (auto-save-mode 1)
    (let ((create-lockfiles nil))
      (insert "mine\n"))
    (do-auto-save t t)
    (delete-file buffer-auto-save-file-name)
    (auto-save-mode -1)
    (gemini-companion-test-write buffer-file-name "two\n")
    (should (gemini-companion-write-revert-now buffer-file-name))))

(ert-deftest gemini-companion-write-revert/the-next-save-backs-up-what-the-client-wrote ()
  (gemini-companion-write-revert-test--with "one\n"
    (let ((make-backup-files t)
          (backup-enable-predicate #'always)
          (backup-inhibited nil)
          (inhibit-message t))
      (insert "mine ")
      (save-buffer)
      (gemini-companion-write-revert-test--write "two\n")
      (insert "mine ")
      (save-buffer)
      (should (equal (gemini-companion-test-read (make-backup-file-name buffer-file-name))
                     "two\n")))))

(ert-deftest gemini-companion-write-revert/version-control-notices-the-change ()
  "In the mode line, and at \\`C-x v v'."
  (skip-unless (executable-find "git"))
  (gemini-companion-write-revert-test--with "one\n"
    (call-process "sh" nil nil nil "-c" "git init -q && git add a.txt && \
git -c user.name=me -c user.email=me@localhost commit -q -m one")
    (vc-refresh-state)
    (should (eq (vc-state buffer-file-name) 'up-to-date))
    (cl-letf (((symbol-function 'process-file) (lambda (&rest _) (error "Git blocks Emacs"))))
      (gemini-companion-write-revert-test--write "two\n"))
    (should (string-prefix-p " Git:" vc-mode))
    (should (eq (vc-state buffer-file-name) 'edited))))

(ert-deftest gemini-companion-write-revert/a-byte-order-mark-stays ()
  (gemini-companion-write-revert-test--with "\ufeffone\n"
    (should (equal (buffer-string) "one\n"))
    (gemini-companion-write-revert-test--write "\ufefftwo\n")
    (should (equal (buffer-string) "two\n"))
    (gemini-companion-write-revert-test--undo)
    (let ((inhibit-message t)) (save-buffer))
    (should (equal (gemini-companion-test-read buffer-file-name) "\ufeffone\n"))))

(ert-deftest gemini-companion-write-revert/undecodable-bytes-stay ()
  (gemini-companion-write-revert-test--with "one é\n"
    (let ((bytes "t\377w\200o\0\n"))
      (gemini-companion-write-revert-test--follow buffer-file-name)
      (let ((coding-system-for-write 'binary))
        (write-region bytes nil buffer-file-name nil 0))
      (gemini-companion-test-wait-followed)
      (should (equal (encode-coding-string (buffer-string) 'binary) bytes))
      (should-not (buffer-modified-p))
      (gemini-companion-write-revert-test--undo)
      (should (equal (buffer-string) "one é\n"))
      (should (buffer-modified-p)))))

(ert-deftest gemini-companion-write-revert/raw-bytes-and-characters-are-not-confused ()
  "Emacs reads a file that is not quite UTF-8 as raw text, whose length is another one."
  (let* ((bytes (lambda (text) (encode-coding-string text 'utf-8)))
         (raw (concat (funcall bytes "привет\n# bad ") "\377" (funcall bytes "\nIt’s 1\n2\n")))
         (utf-8 (funcall bytes "привет\n# bad \ufffd\nIt’s 1\ntwo\n"))
         (more (funcall bytes (mapconcat (lambda (number) (format "%d – %d\n" number number))
                                         (number-sequence 1 10000) ""))))
    (pcase-dolist (`(,before ,after) `((,raw ,utf-8)
                                       (,utf-8 ,raw)
                                       (,(concat raw more) ,(concat utf-8 more))))
      (gemini-companion-write-revert-test--with ""
        (gemini-companion-test-write-bytes "a.txt" before)
        (revert-buffer t t)
        (gemini-companion-write-revert-test--write-bytes after)
        (should (equal (buffer-string) (if (equal after raw) (string-to-multibyte raw)
                                         (decode-coding-string after 'utf-8))))
        (should-not (buffer-modified-p))
        (goto-char (point-max))
        (insert "mine\n")
        (let ((inhibit-message t)) (save-buffer))
        (should (equal (gemini-companion-test-bytes buffer-file-name)
                       (concat after "mine\n")))))))

(ert-deftest gemini-companion-write-revert/a-unibyte-buffer-is-reverted-in-bytes ()
  (gemini-companion-test-with-project
    (with-current-buffer (find-file-literally (gemini-companion-test-file "a.txt" "é\n"))
      (gemini-companion-write-revert-test--write "éü\n")
      (should (equal (buffer-string) (encode-coding-string "éü\n" 'utf-8)))
      (should-not (buffer-modified-p))))
  (gemini-companion-write-revert-test--with "é\r\n"
    (toggle-enable-multibyte-characters -1)
    (gemini-companion-write-revert-test--write "éü☺\r\n")
    (should (equal (buffer-string) (encode-coding-string "éü☺\n" 'utf-8)))
    (should-not (buffer-modified-p))
    (insert "x")
    (let ((inhibit-message t)) (save-buffer))
    (should (equal (gemini-companion-test-read buffer-file-name) "xéü☺\r\n"))))

(ert-deftest gemini-companion-write-revert/buffers-that-do-not-show-text-stay ()
  (gemini-companion-write-revert-test--with "one\n"
    (hexl-mode)
    (let ((dump (buffer-string)))
      (gemini-companion-write-revert-test--write "two\n")
      (should (equal (buffer-string) dump))
      (should (eq (gemini-companion-write-revert-now buffer-file-name) (current-buffer)))
      (set-buffer-modified-p nil))))

(ert-deftest gemini-companion-write-revert/a-text-that-may-block-emacs-is-not-shown-by-itself ()
  "Such as one with a long line.  It is if the user has visited one like that."
  (let ((long (concat (make-string 20000 ?x) "\n"))
        (alike (apply #'concat (make-list 200 "{\n"))))
    (pcase-dolist (`(,text ,new . ,shown) `(("1\n" ,long . nil) (,long ,(concat "1\n" long) . t)
                                            ("1\n" ,alike . nil) (,alike ,(concat alike "}\n") . t)))
      (gemini-companion-write-revert-test--with text
        (gemini-companion-test-with-answer nil
          (gemini-companion-write-revert-test--write new)
          (should (equal (buffer-string) (if shown new text)))
          (should (eq (null (member "a.txt changed on disk; M-x revert-buffer shows it"
                                    gemini-companion-test-messages))
                      shown)))))))

(ert-deftest gemini-companion-write-revert/a-notebook-that-code-cells-shows-as-a-program-stays ()
  "The next save would make a notebook of whatever the buffer contains."
  (gemini-companion-write-revert-test--with "{\"cells\": []}\n"
    (erase-buffer)
    (insert "# %%\n")
    (set-buffer-modified-p nil)
    (add-hook 'write-file-functions 'code-cells-write-ipynb 80 t)
    (gemini-companion-test-with-answer nil
      (gemini-companion-write-revert-test--write "{\"cells\": [{}]}\n")
      (should (member "a.txt changed on disk; M-x revert-buffer shows it"
                      gemini-companion-test-messages)))
    (should (equal (buffer-string) "# %%\n"))))

(ert-deftest gemini-companion-write-revert/a-failing-hook-leaves-the-buffer-outdated ()
  (dolist (hook '(before-change-functions after-change-functions after-revert-hook))
    (gemini-companion-write-revert-test--with "one\n"
      (add-hook hook (lambda (&rest _) (error "No change today")) nil t)
      (gemini-companion-write-revert-test--write "two\n")
      (if (eq hook 'before-change-functions)
          (progn (should (equal (buffer-string) "one\n"))
                 ;; So Emacs asks before the user edits or saves.
                 (should-not (verify-visited-file-modtime)))
        (should (equal (buffer-string) "two\n"))
        (should (verify-visited-file-modtime)))
      (should-not (buffer-modified-p)))))

(ert-deftest gemini-companion-write-revert/a-hook-that-fails-in-between-empties-no-buffer ()
  "The new text is so different that the old one is deleted first."
  (let ((gemini-companion-heavy--max-compared 0)
        (text (lambda (word)
                (mapconcat (lambda (number) (md5 (format word number)))
                           (number-sequence 1 2000) "\n"))))
    (gemini-companion-write-revert-test--with (funcall text "old %d")
      (add-hook 'after-change-functions (lambda (&rest _) (error "Not today")) nil t)
      (gemini-companion-write-revert-test--write (funcall text "new %d"))
      (should (equal (buffer-string) (funcall text "new %d")))
      (should-not (buffer-modified-p))
      (should (verify-visited-file-modtime)))))

;; Org has such an overlay over each block of code that is open in another buffer.
(ert-deftest gemini-companion-write-revert/an-overlay-that-forbids-changes-cuts-nothing-off ()
  (gemini-companion-write-revert-test--with "one\ntwo\nthree\nfour\n"
    (overlay-put (make-overlay 9 14) 'modification-hooks
                 (list (lambda (&rest _) (user-error "This may not be changed"))))
    (gemini-companion-write-revert-test--write "ONE\ntwo\nthrEE\nfour\n")
    (should (equal (buffer-string) "ONE\ntwo\nthrEE\nfour\n"))
    (should-not (buffer-modified-p))))

;; Org Indent takes seconds to indent a whole buffer; Aggressive Indent reindents what has changed.
(ert-deftest gemini-companion-write-revert/hooks-learn-only-of-lines-that-have-changed ()
  (let ((lines (mapconcat #'number-to-string (number-sequence 1 1000) "\n")))
    (gemini-companion-write-revert-test--with lines
      (let ((buffer-undo-list nil)
            (changes nil))
        (add-hook 'after-change-functions
                  (lambda (start end _length)
                    (push (buffer-substring start end) changes))
                  nil t)
        (gemini-companion-write-revert-test--write
         (string-replace "\n500\n" "\nnew\n500\n" lines))
        (undo-boundary)
        (primitive-undo 1 (cdr buffer-undo-list))
        (should (equal (buffer-string) lines))
        (should (equal changes '("\n" "\nnew\n")))))))

(ert-deftest gemini-companion-write-revert/before-the-mode-was-on-a-buffer-is-reverted ()
  "`gemini-companion-setup' may be the first command, and does not load the module."
  (gemini-companion-write-revert-test--with "one\ntwo\n"
    (cl-letf (((symbol-function 'gemini-companion--mod-regions) nil))
      (gemini-companion-write-revert-test--write "one\n2\n"))
    (should (equal (buffer-string) "one\n2\n"))
    (should-not (buffer-modified-p))))

(ert-deftest gemini-companion-write-revert/query-replace-replaces-what-it-shows ()
  "While it awaits an answer, the text stays as it is."
  (gemini-companion-write-revert-test--with "one\nfoo\ntwo\n"
    (switch-to-buffer (current-buffer))
    (gemini-companion-write-revert-test--follow buffer-file-name "zero\none\nfoo\ntwo\n")
    (gemini-companion-test-write buffer-file-name "zero\none\nfoo\ntwo\n")
    ;; Loaded by what is replaced below.
    (load "userlock" nil t)
    (let ((looks 0)
          (answers (list ?y ?q)))
      (cl-letf* ((held (symbol-function 'gemini-companion-write-held-p))
                 ((symbol-function 'gemini-companion-write-held-p)
                  (lambda (path) (cl-incf looks) (funcall held path)))
                 ((symbol-function 'read-event)
                  (lambda (&rest _)
                    (let ((before looks))
                      (gemini-companion-test-wait "the file to be looked at"
                                                  (lambda () (> looks before))))
                    (pop answers)))
                 ((symbol-function 'ask-user-about-supersession-threat) #'ignore)
                 (create-lockfiles nil)
                 (this-command 'query-replace))
        (perform-replace "foo" "bar" t nil nil)))
    (should (equal (buffer-string) "one\nbar\ntwo\n"))
    (gemini-companion-test-wait-followed)
    ;; The user has edited it meanwhile.
    (should (equal (buffer-string) "one\nbar\ntwo\n"))
    (set-buffer-modified-p nil)))

(ert-deftest gemini-companion-write-revert/a-clone-is-for-query-replace-what-the-file-is ()
  (gemini-companion-write-revert-test--with "one\n"
    (let ((clone (make-indirect-buffer (current-buffer) "clone" t))
          (held (lambda () (gemini-companion-write-held-p buffer-file-name))))
      (unwind-protect
          (progn
            (switch-to-buffer clone)
            (set-buffer "a.txt")
            (let ((this-command 'query-replace))
              (should (funcall held)))
            ;; These hold no positions, however long they last.
            (let ((this-command nil)
                  (isearch-mode t))
              (cl-letf (((symbol-function 'recursion-depth) (lambda () 1)))
                (should-not (funcall held)))))
        (kill-buffer clone)))))

(ert-deftest gemini-companion-write-revert/what-a-formatter-makes-of-it-is-shown ()
  (gemini-companion-write-revert-test--with "one\n"
    (gemini-companion-write-revert-test--write "two\n")
    (should (equal (buffer-string) "two\n"))
    (gemini-companion-test-write buffer-file-name "TWO\n")
    (gemini-companion-test-wait-followed)
    (should (equal (buffer-string) "TWO\n"))
    (should (verify-visited-file-modtime))))

(ert-deftest gemini-companion-write-revert/what-the-user-saves-is-not-read-again-and-again ()
  "After an accept, Emacs still looks whether the client or a formatter writes the file."
  (pcase-dolist (`(,written ,times) '((t 0) (nil 1)))
    (gemini-companion-write-revert-test--with "one\n"
      (if written
          (gemini-companion-write-revert-test--write "two\n")
        (gemini-companion-write-revert-test--follow buffer-file-name "two\n"))
      (let ((create-lockfiles nil)
            (inhibit-message t)
            (looks 0)
            (reads 0))
        (insert "mine\n")
        (save-buffer)
        (cl-letf* ((held (symbol-function 'gemini-companion-write-held-p))
                   ((symbol-function 'gemini-companion-write-held-p)
                    (lambda (path) (cl-incf looks) (funcall held path)))
                   (read-file (symbol-function 'gemini-companion-file-read))
                   ((symbol-function 'gemini-companion-file-read)
                    (lambda (path) (cl-incf reads) (funcall read-file path))))
          (gemini-companion-test-wait "several looks" (lambda () (> looks 20))))
        (should (= reads times))))))

(ert-deftest gemini-companion-write-revert/what-the-user-saves-is-not-what-the-client-writes ()
  "That may come much later, when other changes are decided."
  (gemini-companion-write-revert-test--with "one\n"
    (let ((looks 0)
          (create-lockfiles nil)
          (inhibit-message t))
      (gemini-companion-write-revert-test--follow buffer-file-name "two\n")
      (insert "mine\n")
      (save-buffer)
      (cl-letf* ((held (symbol-function 'gemini-companion-write-held-p))
                 ((symbol-function 'gemini-companion-write-held-p)
                  (lambda (path) (cl-incf looks) (funcall held path))))
        (gemini-companion-test-wait "several looks" (lambda () (> looks 3))))
      (gemini-companion-test-write buffer-file-name "two\n")
      (gemini-companion-test-wait-followed)
      (should (equal (buffer-string) "two\n")))))

(ert-deftest gemini-companion-write-revert/hooks-run-as-when-emacs-reverts ()
  "Eglot closes the text in the first and opens it again in the second, as that asks
whether modes were preserved.  So does diff-hl, before it marks the new differences."
  (gemini-companion-write-revert-test--with "one\n"
    (let ((calls nil))
      (add-hook 'before-revert-hook (lambda () (push (buffer-string) calls)) nil t)
      (add-hook 'after-revert-hook
                (lambda () (push (list revert-buffer-preserve-modes (buffer-string)) calls))
                nil t)
      (gemini-companion-write-revert-test--write "two\n")
      (should (equal calls '((t "two\n") "one\n")))
      ;; With the same text, it stays open.
      (setq calls nil)
      (gemini-companion-write-revert-test--write "two\n")
      (should (equal calls '((nil "two\n")))))))

(ert-deftest gemini-companion-write-revert/changes-by-a-hook-are-unsaved ()
  (gemini-companion-write-revert-test--with "one\n"
    (let ((once t))
      (add-hook 'after-change-functions
                (lambda (&rest _)
                  (when once
                    (setq once nil)
                    (goto-char (point-max))
                    (insert "mine\n")))
                nil t)
      (gemini-companion-write-revert-test--write "two\n"))
    (should (equal (buffer-string) "two\nmine\n"))
    (should (buffer-modified-p))))

(ert-deftest gemini-companion-write-revert/edits-of-the-user-are-kept ()
  (gemini-companion-write-revert-test--with "one\n"
    (let ((create-lockfiles nil)) (insert "mine "))
    (gemini-companion-write-revert-test--write "two\n")
    (should (equal (buffer-string) "mine one\n"))
    (should (buffer-modified-p))))

(ert-deftest gemini-companion-write-revert/edits-that-were-merged-are-no-longer-locked ()
  "Unless a hook keeps them as they are: then they are still unsaved."
  (dolist (fails '(t nil))
    (gemini-companion-write-revert-test--with "one\n"
      (let ((create-lockfiles t)
            (lock (expand-file-name ".#a.txt")))
        (insert "mine\n")
        (should (file-symlink-p lock))
        ;; Emacs itself would ask.
        (call-process "sh" nil nil nil "-c" "printf 'mine\ntwo\n' >\"$0\"" buffer-file-name)
        (when fails
          (add-hook 'before-change-functions (lambda (&rest _) (error "Not today")) nil t))
        (gemini-companion-write--show buffer-file-name 'merged)
        (should (eq fails (buffer-modified-p)))
        (should (eq fails (and (file-symlink-p lock) t)))
        (set-buffer-modified-p nil)))))

(ert-deftest gemini-companion-write-revert/line-endings-and-narrowing-stay ()
  (gemini-companion-write-revert-test--with "one\r\ntwo\r\n"
    (should (equal (buffer-string) "one\ntwo\n"))
    (narrow-to-region 1 4)
    (gemini-companion-write-revert-test--write "one!\r\ntwo\r\n")
    (should (buffer-narrowed-p))
    (widen)
    (should (equal (buffer-string) "one!\ntwo\n"))
    (should (eq (coding-system-eol-type buffer-file-coding-system) 1))))

(ert-deftest gemini-companion-write-revert/other-line-endings-are-recognized ()
  (gemini-companion-write-revert-test--with "one\r\ntwo\r\n"
    (gemini-companion-write-revert-test--write "one\ntwo, three\n")
    (should (equal (buffer-string) "one\ntwo, three\n"))
    (should (eq (coding-system-eol-type buffer-file-coding-system) 0))))

(ert-deftest gemini-companion-write-revert/ambiguous-line-endings-stay ()
  (gemini-companion-write-revert-test--with "one\r\ntwo\r\n"
    (gemini-companion-write-revert-test--write "")
    (should (eq (coding-system-eol-type buffer-file-coding-system) 1))))

(ert-deftest gemini-companion-write-revert/another-encoding-is-recognized ()
  "Clients write UTF-8, whatever the encoding was."
  (gemini-companion-write-revert-test--with "one\n"
    (let ((coding-system-for-write 'latin-1-unix) (create-lockfiles nil))
      (insert "é\n")
      (write-region nil nil buffer-file-name nil 0))
    (revert-buffer t t)
    (should (eq (coding-system-base buffer-file-coding-system) 'iso-latin-1))
    (should (equal (buffer-string) "é\none\n"))
    (gemini-companion-write-revert-test--write "é and ü\none\n")
    (should (equal (buffer-string) "é and ü\none\n"))
    (should (eq (coding-system-type buffer-file-coding-system) 'utf-8))))

(ert-deftest gemini-companion-write-revert/ascii-is-not-taken-for-utf-16-nor-marked ()
  "Otherwise the user's next save would bring back UTF-16, or the byte order mark."
  (dolist (coding '(utf-16le-with-signature-dos utf-8-with-signature-unix utf-16le-unix))
    (gemini-companion-write-revert-test--with "one\n"
      (let ((coding-system-for-write coding) (create-lockfiles nil))
        (write-region nil nil buffer-file-name nil 0))
      (let ((coding-system-for-read (and (eq coding 'utf-16le-unix) coding)))
        (revert-buffer t t))
      (setq buffer-file-coding-system-explicit nil)
      (should (eq buffer-file-coding-system coding))
      (should (equal (buffer-string) "one\n"))
      (gemini-companion-write-revert-test--write "two\n")
      (should (equal (buffer-string) "two\n"))
      (goto-char (point-max))
      (insert "three\n")
      (let ((inhibit-message t)) (save-buffer))
      (should (equal (gemini-companion-test-bytes buffer-file-name) "two\nthree\n")))))

(ert-deftest gemini-companion-write-revert/the-encoding-that-the-user-chose-stays ()
  "Unless the client has written UTF-8, as most do.  The user's next save is like it."
  (pcase-dolist (`(,coding ,before ,after ,shown ,saved)
                 '((latin-1-unix "\351\n" "\350\n" "è\n" "\351\350\n")
                   (latin-1-unix "\351\n" "one\n" "one\n" "\351one\n")
                   (latin-1-unix "\351\n" "\303\250\r\n" "è\r\n" "\303\251\303\250\r\n")
                   (shift_jis "\223\372\r\n" "\346\227\245\r\n" "日\n"
                              "\303\251\346\227\245\r\n")
                   (raw-text "\303\251\n" "\303\250\n" "\303\250\n" "\303\251\303\250\n")))
    (gemini-companion-write-revert-test--with ""
      (gemini-companion-test-write-bytes "a.txt" before)
      (let ((coding-system-for-read coding))
        (revert-buffer t t))
      (gemini-companion-write-revert-test--write-bytes after)
      (should (equal (buffer-string) (string-to-multibyte shown)))
      (insert "é")
      (let ((inhibit-message t)) (save-buffer))
      (should (equal (gemini-companion-test-bytes buffer-file-name) saved)))))

(ert-deftest gemini-companion-write-revert/a-read-only-buffer-is-reverted ()
  (gemini-companion-write-revert-test--with "one\n"
    (read-only-mode 1)
    (gemini-companion-write-revert-test--write "two\n")
    (should (equal (buffer-string) "two\n"))
    (should buffer-read-only)))

(ert-deftest gemini-companion-write-revert/the-target-of-a-link-is-watched ()
  (gemini-companion-test-with-project
    (let ((link (gemini-companion-test-file "link.txt")))
      (make-symbolic-link (gemini-companion-test-file "a.txt" "one\n") link)
      (with-current-buffer (find-file-noselect link)
        (gemini-companion-write-revert-test--write "two!\n")
        (should (equal (buffer-string) "two!\n"))))))

(ert-deftest gemini-companion-write-revert/a-text-written-before-is-shown ()
  (gemini-companion-write-revert-test--with "one\n"
    (gemini-companion-test-write buffer-file-name "two\n")
    (should-not (gemini-companion-write-revert-now buffer-file-name))
    (should (equal (buffer-string) "two\n"))
    (let ((create-lockfiles nil)) (insert "mine "))
    (should (eq (gemini-companion-write-revert-now buffer-file-name) (current-buffer)))
    (should (equal (buffer-string) "mine two\n"))
    (set-buffer-modified-p nil)
    (delete-file buffer-file-name)
    (should (eq (gemini-companion-write-revert-now buffer-file-name) (current-buffer)))
    (should-not (gemini-companion-write-revert-now "/no/such/file"))))

(ert-deftest gemini-companion-write-revert/a-file-visited-after-the-accept-is-watched ()
  (gemini-companion-test-with-project
    (let ((file (gemini-companion-test-file "a.txt" "one\n")))
      (unwind-protect
          (progn
            (gemini-companion-write-revert-test--follow file)
            (with-current-buffer (find-file-noselect file)
              (should (equal (buffer-string) "one\n"))
              (gemini-companion-test-write file "two\n")
              (gemini-companion-test-wait "the file to be followed"
                                          (lambda () (equal (buffer-string) "two\n")))
              (should-not (buffer-modified-p))))
        (gemini-companion-write-stop)))))

(ert-deftest gemini-companion-write-revert/watching-twice-misses-no-write ()
  "The file is followed for another client as well, right after it was written."
  (gemini-companion-write-revert-test--with "one\n"
    (gemini-companion-write-revert-test--follow buffer-file-name)
    (gemini-companion-test-write buffer-file-name "two\n")
    (gemini-companion-write-revert-test--follow buffer-file-name)
    (gemini-companion-test-wait "the file to be followed"
                                (lambda () (equal (buffer-string) "two\n")))))

(ert-deftest gemini-companion-write-revert/watching-ends-if-the-file-is-not-written ()
  (gemini-companion-write-revert-test--with "one\n"
    (let ((gemini-companion-write--revert-time 0.2))
      (gemini-companion-write-revert-test--follow buffer-file-name)
      (gemini-companion-test-wait "the end of patience"
                                  (lambda () (null gemini-companion-write--files))))
    (should (equal (buffer-string) "one\n"))))

;;; gemini-companion-write-revert-test.el ends here

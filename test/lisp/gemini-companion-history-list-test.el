;;; gemini-companion-history-list-test.el --- Tests of the list of decided changes  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-lists)

;;;; The list and the diff of a change

(ert-deftest gemini-companion-history-list/the-newest-come-first-within-limits ()
  (gemini-companion-test-with-lists client
    (let ((gemini-companion-history--max-entries 3))
      (gemini-companion-review-reject (gemini-companion-test-propose client "lost" "1"))
      (gemini-companion-review-reject (gemini-companion-test-propose client "a.txt" "1"))
      (gemini-companion-history-list)
      (gemini-companion-test-accept-and-write client "b.txt" "b\n")
      (let ((review (gemini-companion-test-propose client "c.txt" "c")))
        (gemini-companion-test-close-diff client review))
      ;; The list was updated without a command.
      (should (equal (gemini-companion-test-list-files "*gemini history*" 2)
                     '("c.txt" "b.txt" "a.txt")))
      (should (equal (gemini-companion-test-list-column "*gemini history*" 1)
                     '("decided in CLI" "accepted" "rejected")))
      (should (equal (gemini-companion-test-list-column "*gemini history*" 4)
                     '("new, +1" "new, +1" "+1 -2"))))
    ;; The text an undo replaced counts as well.
    (let ((gemini-companion-history--max-size 15))
      (gemini-companion-history-note-undone (cadr gemini-companion-history--entries)
                                            "0123456789")
      (should (= (length gemini-companion-history--entries) 2)))))

(ert-deftest gemini-companion-history-list/a-host-pushes-out-only-its-own-changes ()
  (let ((gemini-companion-history--entries nil)
        (gemini-companion-history--max-entries 2))
    (dolist (host '(nil "/mock:a:" nil "/mock:a:" "/mock:b:" "/mock:a:" "/mock:a:"))
      (gemini-companion-history-add :host host :path "/a" :after "1"))
    (should (equal (mapcar #'gemini-companion-history-host gemini-companion-history--entries)
                   '("/mock:a:" "/mock:a:" "/mock:b:" nil nil)))))

(ert-deftest gemini-companion-history-list/a-change-is-shown-as-a-plain-diff ()
  (gemini-companion-test-with-lists client
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
        (gemini-companion-test-history-press "RET" 1)
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
      (gemini-companion-test-list-press "n")
      (should (looking-at "@@ ")))))

(ert-deftest gemini-companion-history-list/new-and-unchanged-files-are-shown ()
  (gemini-companion-test-with-lists client
    (gemini-companion-test-file "dos.txt" "é\r\n")
    (pcase-dolist (`(,name ,text ,shown)
                   '(("n.txt" "é\n" "\\`--- .*no file before\n.*\n@@ .*\n\\+é\n\\'")
                     ("dos.txt" "é\n" "\\`No line differs")
                     ("empty" "" "\\`No line differs")))
      (gemini-companion-review-reject (gemini-companion-test-propose client name text))
      (gemini-companion-test-history-press "RET" 1)
      (should (string-match-p shown (buffer-string))))))

;;;; Keys in the diff of a change

(ert-deftest gemini-companion-history-list/keys-work-in-the-diff-of-a-change ()
  "They do so without the list, too."
  (gemini-companion-test-with-lists client
    (gemini-companion-test-accept-and-write client "b.txt" "b\n")
    (gemini-companion-test-accept-and-write client "a.txt" "2\n")
    (gemini-companion-test-history-press "RET" 1)
    (should (string-prefix-p " u undo  w write  n next  p previous  c comment  q quit  a.txt, accepted, "
                             header-line-format))
    (let ((asked nil))
      (cl-letf (((symbol-function 'y-or-n-p) (lambda (question) (push question asked))))
        (gemini-companion-test-list-press "u")
        ;; The list is updated.
        (should (equal (gemini-companion-test-list-column "*gemini history*" 1)
                       '("undone" "accepted")))
        (kill-buffer "*gemini history*")
        (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n"))
        (should (string-match-p "\\` u make again  n next .*  a\\.txt, undone, "
                                header-line-format))
        (gemini-companion-test-list-press "u")
        (should (equal (gemini-companion-test-file-bytes "a.txt") "2\n"))
        (gemini-companion-test-file "a.txt" "other\n")
        (gemini-companion-test-list-press "w")
        (should (equal (gemini-companion-test-file-bytes "a.txt") "2\n")))
      (should (equal (reverse asked)
                     '("Undo the change to a.txt? "
                       "Make the change to a.txt again? "
                       "a.txt has changed since then; you would lose later changes, too.  \
Write the text of this change to a.txt? "))))
    (should (eq (key-binding "q") 'quit-window))))

;;;; Prompts

(defmacro gemini-companion-history-list-test--after (prompt &rest body)
  "Evaluate BODY with PROMPT as the last prompt sent."
  (declare (indent 1) (debug t))
  `(cl-letf (((symbol-function 'gemini-companion-cli-prompt-of-process) (lambda (_) ,prompt)))
     ,@body))

(defun gemini-companion-history-list-test--undo-prompt (answer number)
  "Undo the prompt at line NUMBER of the history by its key, answering with ANSWER.
Return the question, or nil, and the message or the error after it."
  (gemini-companion-history-list)
  (gemini-companion-test-list-goto "*gemini history*" number)
  (let (asked message)
    (cl-letf (((symbol-function 'y-or-n-p)
               (lambda (question)
                 (setq asked question)
                 answer))
              ((symbol-function 'message)
               (lambda (&rest arguments) (setq message (apply #'format-message arguments)))))
      (condition-case error
          (gemini-companion-test-list-press "U")
        (user-error (setq message (cadr error)))))
    (list asked message)))

(ert-deftest gemini-companion-history-list/changes-are-grouped-by-prompt ()
  (gemini-companion-test-with-lists client
    (let ((first (cons "add types\n  and tests, please" (current-time)))
          (second (cons (make-string 300 ?x) (current-time)))
          (headings (lambda ()
                      (seq-filter (lambda (line) (string-match-p "prompt" (downcase line)))
                                  (gemini-companion-test-list-lines
                                   "*gemini history*")))))
      (gemini-companion-review-reject (gemini-companion-test-propose client "z.txt" "1"))
      (gemini-companion-history-list)
      (should-not (funcall headings))
      (gemini-companion-history-list-test--after first
        (gemini-companion-test-accept-and-write client "b.txt" "b\n")
        (gemini-companion-test-accept-and-write client "c.txt" "c\n"))
      (gemini-companion-history-list-test--after second
        (gemini-companion-review-reject (gemini-companion-test-propose client "d.txt" "d")))
      (should (string-match-p
               (concat "\\`Prompt of [0-9:]+: xxx.*x\\(…\\|\\.\\.\\.\\)\n"
                       "Prompt of [0-9:]+: add types and tests, please\n"
                       "Prompt unknown:\\'")
               (string-join (funcall headings) "\n")))
      (should (<= (apply #'max (mapcar #'string-width (funcall headings))) 120))
      (should (equal (gemini-companion-test-list-files "*gemini history*" 2)
                     '("d.txt" "c.txt" "b.txt" "z.txt")))
      ;; The second prompt has nothing to undo.
      (gemini-companion-test-list-goto "*gemini history*" 1)
      (should (equal (gemini-companion-test-list-keys) " q quit"))
      (should-error (gemini-companion-test-list-press "RET") :type 'user-error)
      (should-error (gemini-companion-test-list-press "U") :type 'user-error)
      (gemini-companion-test-list-goto "*gemini history*" 3)
      (should (equal (gemini-companion-test-list-keys)
                     " RET all its changes  U undo the prompt's changes  q quit"))
      (gemini-companion-test-list-goto "*gemini history*" 4)
      (let ((keys (gemini-companion-test-list-keys)))
        (should (equal keys (concat " RET before and after  u undo  w write"
                                    "  U undo the prompt's changes  q quit")))
        (should (<= (length keys) 80)))
      ;; In any other order the changes of a prompt are not together.
      (tabulated-list-sort 2)
      (should-not (funcall headings)))))

(ert-deftest gemini-companion-history-list/in-a-window-that-is-not-selected-lines-keep-their-order ()
  "To measure that window, Emacs selects it, and so moves point."
  (let ((gemini-companion-history--entries nil))
    (gemini-companion-test-with-project
      (gemini-companion-history-list)
      (select-window (split-window))
      (switch-to-buffer (get-buffer-create "other"))
      (dolist (prompt '("first" "second"))
        (gemini-companion-history-add :path "/a" :after "1" :client "C" :outcome 'rejected :size "+1"
                                      :prompt (cons prompt (current-time))))
      (with-current-buffer "*gemini history*"
        (gemini-companion-review-list-print)
        (should (string-match-p "\\` *Time.*\nPrompt .*\n[0-9].*\nPrompt .*\n[0-9].*\n\\'"
                                (buffer-string)))))))

(ert-deftest gemini-companion-history-list/it-begins-at-the-newest ()
  "Otherwise a key would be for one that was the newest when the list was last shown."
  (let ((gemini-companion-history--entries nil))
    (gemini-companion-test-with-project
      (dolist (path '("/a" "/b"))
        (gemini-companion-history-add :path path :after "1" :client "C" :outcome 'rejected
                                      :size "+1")
        (gemini-companion-history-list)
        (should (equal path (gemini-companion-history-path (tabulated-list-get-id))))
        ;; While it is on screen, point stays.
        (goto-char (point-max))
        (forward-line -1)
        (gemini-companion-history-list)
        (should (equal "/a" (gemini-companion-history-path (tabulated-list-get-id))))
        (quit-window)))))

(ert-deftest gemini-companion-history-list/all-changes-of-a-prompt-can-be-undone ()
  "Of several changes of one file as well; changes of other prompts stay."
  (gemini-companion-test-with-lists client
    (let ((prompt (cons "do it" (current-time))))
      (gemini-companion-test-accept-and-write client "other.txt" "other\n")
      (gemini-companion-history-list-test--after prompt
        (gemini-companion-test-accept-and-write client "a.txt" "one\n2\n")
        (gemini-companion-test-accept-and-write client "new/n.txt" "n\n")
        (gemini-companion-test-accept-and-write client "a.txt" "1\n2\n")
        (gemini-companion-review-reject (gemini-companion-test-propose client "a.txt" "x")))
      (gemini-companion-test-file "new/n.txt" "later\n")
      (should (equal (gemini-companion-history-list-test--undo-prompt nil 1)
                     (list "3 changes: new/n.txt (will be deleted), a.txt.  n.txt has changed \
since then; you would lose later changes, too.  Undo them? "
                           "Left as it is")))
      (should (equal (gemini-companion-test-file-bytes "a.txt") "1\n2\n"))
      ;; The key works on the line of each of its changes, too.
      (should (equal (cadr (gemini-companion-history-list-test--undo-prompt t 3))
                     "3 changes undone"))
      (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n"))
      (should-not (file-exists-p (gemini-companion-test-file "new/n.txt")))
      (should (equal (gemini-companion-test-file-bytes "other.txt") "other\n"))
      (should (equal (gemini-companion-test-list-column "*gemini history*" 1)
                     '("rejected" "undone" "undone" "undone" "accepted")))
      ;; Each change can be made again.
      (gemini-companion-test-list-goto "*gemini history*" 5)
      (gemini-companion-test-with-answer 'yes (gemini-companion-test-list-press "u"))
      (should (equal (gemini-companion-test-file-bytes "a.txt") "one\n2\n")))))

(ert-deftest gemini-companion-history-list/an-undo-of-a-change-undoes-later-ones-of-its-file ()
  "Otherwise they seemed to be made, and their undo brought the first one back."
  (gemini-companion-test-with-lists client
    (let ((prompt (cons "do it" (current-time))))
      (gemini-companion-history-list-test--after prompt
        (dolist (text '("1\ntwo\n" "1\n2\n"))
          (gemini-companion-test-accept-and-write client "a.txt" text)))
      (gemini-companion-history-list)
      (gemini-companion-test-list-goto "*gemini history*" 3) ; the older one
      (cl-letf (((symbol-function 'y-or-n-p) #'always))
        (gemini-companion-test-list-press "u")
        (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n"))
        (should (equal (gemini-companion-test-list-column "*gemini history*" 1)
                       '("undone" "undone")))
        (should (equal (gemini-companion-history-list-test--undo-prompt t 1)
                       '(nil "This prompt has left nothing to undo")))
        (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n"))
        ;; Each can be made again, and the later one only with the first.
        (pcase-dolist (`(,line ,text ,outcomes) '((3 "1\ntwo\n" ("undone" "accepted"))
                                                  (2 "1\n2\n" ("accepted" "accepted"))
                                                  (3 "one\ntwo\n" ("undone" "undone"))
                                                  (2 "1\n2\n" ("accepted" "accepted"))))
          (gemini-companion-test-list-goto "*gemini history*" line)
          (gemini-companion-test-list-press "u")
          (should (equal (gemini-companion-test-file-bytes "a.txt") text))
          (should (equal (gemini-companion-test-list-column "*gemini history*" 1) outcomes)))))))

(ert-deftest gemini-companion-history-list/edits-between-changes-of-a-prompt-are-mentioned ()
  "The user would lose them, although the file is as the last change left it."
  (gemini-companion-test-with-lists client
    (let ((prompt (cons "do it" (current-time))))
      (gemini-companion-history-list-test--after prompt
        (gemini-companion-test-accept-and-write client "a.txt" "1\n")
        (gemini-companion-test-file "a.txt" "1\nmine\n")
        (gemini-companion-test-accept-and-write client "a.txt" "2\nmine\n"))
      (should (equal (car (gemini-companion-history-list-test--undo-prompt nil 1))
                     "2 changes: a.txt.  a.txt has changed since then; you would lose later \
changes, too.  Undo them? ")))))

(ert-deftest gemini-companion-history-list/changes-that-are-no-longer-kept-are-mentioned ()
  (gemini-companion-test-with-lists client
    (let ((gemini-companion-history--max-entries 2)
          (prompt (cons "do it" (current-time)))
          (fault "The first changes of this prompt are no longer in the history"))
      (gemini-companion-history-list-test--after prompt
        (dolist (text '("1\n" "2\n" "3\n"))
          (gemini-companion-test-accept-and-write client "a.txt" text)))
      (should (equal (gemini-companion-history-list-test--undo-prompt t 1)
                     (list (format "2 changes: a.txt.  %s.  Undo them? " fault)
                           (concat "2 changes undone; " fault)))))
    ;; Those of another prompt are.
    (gemini-companion-history-list-test--after (cons "more" (current-time))
      (gemini-companion-test-accept-and-write client "b.txt" "b\n"))
    (should (equal (cadr (gemini-companion-history-list-test--undo-prompt t 1))
                   "Change to b.txt undone"))))

(ert-deftest gemini-companion-history-list/a-file-with-two-names-is-undone-by-both ()
  (gemini-companion-test-with-lists client
    (make-symbolic-link "a.txt" (gemini-companion-test-file "link.txt"))
    (let ((prompt (cons "do it" (current-time))))
      (gemini-companion-history-list-test--after prompt
        (gemini-companion-test-accept-and-write client "link.txt" "2\n")
        (gemini-companion-test-accept-and-write client "a.txt" "3\n")))
    (should (equal (cadr (gemini-companion-history-list-test--undo-prompt t 1))
                   "2 changes undone"))
    (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n"))))

(ert-deftest gemini-companion-history-list/a-prompt-is-shown-as-one-diff ()
  "Each file from before its first change to after its last, and undone from there."
  (gemini-companion-test-with-lists client
    (let ((prompt (cons "do it\nnow" (current-time))))
      (gemini-companion-history-list-test--after prompt
        (gemini-companion-test-accept-and-write client "a.txt" "1\ntwo\n")
        (gemini-companion-test-accept-and-write client "n.txt" "new\n")
        (gemini-companion-test-accept-and-write client "a.txt" "1\n2\n")
        (gemini-companion-review-reject (gemini-companion-test-propose client "b.txt" "x")))
      (gemini-companion-test-history-press "RET" 1)
      (with-current-buffer "*gemini change*"
        (should (equal (replace-regexp-in-string
                        "^\\(---\\|\\+\\+\\+\\) .*/\\(.*\\)\t" "\\1 \\2 " (buffer-string))
                       "--- n.txt no file before\n+++ n.txt after\n@@ -0,0 +1 @@\n+new\n\n\
--- a.txt before\n+++ a.txt after\n@@ -1,2 +1,2 @@\n-one\n-two\n+1\n+2\n"))
        (should (string-match-p "U undo.*Prompt of .*: do it now" header-line-format))
        (gemini-companion-test-with-answer 'yes (call-interactively (key-binding "U"))))
      (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n"))
      (should-not (file-exists-p (gemini-companion-test-file "n.txt"))))))

(ert-deftest gemini-companion-history-list/a-line-of-a-diff-can-be-commented-on ()
  "The comment is on that line of the file, as long as the file still has it."
  (gemini-companion-test-with-lists client
    (with-current-buffer "a.txt" (goto-char (point-max)))
    (gemini-companion-test-accept-and-write client "a.txt" "one\nnew\n2\n")
    (gemini-companion-test-history-press "RET" 1)
    (cl-letf* (((symbol-function 'read-string) (lambda (prompt &rest _) (concat prompt "why?")))
               (comment (lambda (line)
                          (goto-char (point-min))
                          (search-forward line)
                          (call-interactively (key-binding "c")))))
      (funcall comment "\n+2")
      (should-error (funcall comment "\n-two") :type 'user-error)
      (should-error (funcall comment "+++ ") :type 'user-error)
      (with-current-buffer "a.txt"
        (should (eobp))
        (should (equal (mapcar #'butlast (gemini-companion-comment-list (current-buffer)))
                       '((3 3 nil "Comment on line 3: why?" "2"))))
        (goto-char (point-min))
        (insert "first\n")
        (set-buffer-modified-p nil))
      (should (string-match-p "changed since"
                              (cadr (should-error (funcall comment "\n+2") :type 'user-error))))
      ;; What is selected in the buffer of the file is another matter.
      (with-current-buffer "a.txt"
        (delete-region (point-min) (gemini-companion-ui-line-start 2))
        (set-buffer-modified-p nil)
        (goto-char (point-min))
        (search-forward "e")
        (push-mark (1- (point)) t t))
      (let ((transient-mark-mode t))
        (funcall comment "\n+new"))
      (should (equal (nth 4 (car (gemini-companion-comment-list (get-buffer "a.txt")))) "new")))))

(ert-deftest gemini-companion-history-list/a-comment-leads-to-no-other-machine ()
  "The client has chosen the name of the file."
  (gemini-companion-test-with-lists client
    (gemini-companion-test-accept-and-write client "a.txt" "one\nnew\n2\n")
    (setf (gemini-companion-history-path (car (gemini-companion-history-all))) "/ssh:evil:/a.txt")
    (gemini-companion-test-history-press "RET" 1)
    (goto-char (point-min))
    (search-forward "\n+2")
    (cl-letf (((symbol-function 'find-file-noselect) (lambda (&rest _) (error "Visited"))))
      (should (equal (should-error (call-interactively (key-binding "c")))
                     '(user-error "This name would lead to another machine"))))))

(ert-deftest gemini-companion-history-list/changes-that-cannot-be-undone-are-named ()
  (gemini-companion-test-with-lists client
    (let ((prompt (cons "do it" (current-time))))
      (gemini-companion-history-list-test--after prompt
        (gemini-companion-test-accept-and-write client "b.txt" "b\n")
        (setf (gemini-companion-history-before (car gemini-companion-history--entries))
              'unreadable)
        (gemini-companion-test-accept-and-write client "b.txt" "b2\n")
        (gemini-companion-test-accept-and-write client "c.txt" "c\n")
        (gemini-companion-test-accept-and-write client "a.txt" "2\n"))
      (gemini-companion-test-file "a.txt" "one\ntwo\n")
      (should (equal (gemini-companion-history-list-test--undo-prompt t 1)
                     '("a.txt is already as it was before the change.  The previous contents of \
b.txt are not known.  This deletes c.txt.  Undo the change to c.txt? "
                       "Change to c.txt undone; a.txt is already as it was before the change; \
The previous contents of b.txt are not known")))
      (should-not (file-exists-p (gemini-companion-test-file "c.txt")))
      (should (equal (gemini-companion-test-file-bytes "b.txt") "b2\n"))
      ;; Nothing is left to undo, so there is no question.
      (should (equal (car (gemini-companion-history-list-test--undo-prompt t 1)) nil)))))

;; Nothing was undone, and Emacs said only what Tramp had said.
(ert-deftest gemini-companion-history-list/an-unwritten-change-that-cannot-be-read-stops-nothing ()
  (gemini-companion-test-with-lists client
    (let ((prompt (cons "do it" (current-time)))
          (read (symbol-function 'gemini-companion-history-list--read)))
      (gemini-companion-history-list-test--after prompt
        (gemini-companion-test-accept-and-write client "b.txt" "b\n")
        (setf (gemini-companion-history-outcome (car gemini-companion-history--entries)) 'unwritten)
        (gemini-companion-test-accept-and-write client "c.txt" "c\n"))
      (cl-letf (((symbol-function 'gemini-companion-history-list--read)
                 (lambda (entry)
                   (when (string-suffix-p "b.txt" (gemini-companion-history-path entry))
                     (signal 'file-error '("Opening input file" "Broken pipe")))
                   (funcall read entry))))
        (should (equal (cadr (gemini-companion-history-list-test--undo-prompt t 1))
                       "Change to c.txt undone"))))))

(ert-deftest gemini-companion-history-list/a-file-written-during-the-question-stays ()
  (gemini-companion-test-with-lists client
    (gemini-companion-history-list-test--after (cons "do it" (current-time))
      (gemini-companion-test-accept-and-write client "b.txt" "b\n"))
    (let ((prompt (cons "both" (current-time))) message)
      (gemini-companion-history-list-test--after prompt
        (gemini-companion-test-accept-and-write client "b.txt" "b2\n")
        (gemini-companion-test-accept-and-write client "c.txt" "c\n"))
      (gemini-companion-history-list)
      (gemini-companion-test-list-goto "*gemini history*" 1)
      (cl-letf (((symbol-function 'y-or-n-p)
                 (lambda (_) (gemini-companion-test-file "c.txt" "other\n")))
                ((symbol-function 'message)
                 (lambda (&rest arguments) (setq message (apply #'format-message arguments)))))
        (gemini-companion-test-list-press "U"))
      (should (equal message
                     "Change to b.txt undone; c.txt has just been written; left as it is"))
      (should (equal (gemini-companion-test-file-bytes "c.txt") "other\n"))
      (should (equal (gemini-companion-test-file-bytes "b.txt") "b\n")))))

;;;; Changes that the client did not write

(defun gemini-companion-history-list-test--unwritten (client)
  "Accept a change to a.txt that CLIENT does not write; return its entry."
  (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
    (gemini-companion-review-show review 'keep)
    (gemini-companion-review-commands-accept review))
  (let ((entry (car gemini-companion-history--entries)))
    (setf (gemini-companion-history-outcome entry) 'unwritten)
    entry))

(ert-deftest gemini-companion-history-list/what-emacs-has-written-can-be-undone ()
  (gemini-companion-test-with-lists client
    (let ((entry (gemini-companion-history-list-test--unwritten client)))
      (should (equal (gemini-companion-test-list-press-newest "w" t)
                     "Write the text of this change to a.txt? "))
      (should (gemini-companion-history-written entry))
      (should (equal (car (gemini-companion-test-list-column "*gemini history*" 1)) "accepted"))
      (should (equal (gemini-companion-test-list-undo t) "Undo the change to a.txt? "))
      (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n")))))

(ert-deftest gemini-companion-history-list/what-the-client-wrote-late-can-be-undone ()
  (gemini-companion-test-with-lists client
    (let ((entry (gemini-companion-history-list-test--unwritten client)))
      (kill-buffer "a.txt")
      (gemini-companion-test-file "a.txt" "2 and more\n")
      (should (equal (gemini-companion-test-list-undo t)
                     "Nothing to undo: the change to a.txt was not written"))
      (gemini-companion-test-file "a.txt" "2\n")
      (should (equal (gemini-companion-test-list-undo t) "Undo the change to a.txt? "))
      (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n"))
      (should (equal (car (gemini-companion-history-undone entry)) 'accepted)))))

(defun gemini-companion-history-list-test--close (client name text)
  "Have CLIENT propose TEXT for the file NAME, say yes there, and have it written."
  (gemini-companion-test-propose client name text)
  (fake-cli-call-tool client "closeDiff" `(:filePath ,(gemini-companion-test-file name)
                                                     :suppressNotification t))
  (gemini-companion-test-file name text))

;; Nothing finds out any more how it was decided: `u' said for ever that Emacs does not know yet.
(ert-deftest gemini-companion-history-list/a-yes-in-the-cli-before-the-mode-is-off-can-be-undone ()
  (gemini-companion-test-with-lists client
    (gemini-companion-history-list-test--close client "a.txt" "2\n")
    (gemini-companion-mode -1)
    (should (equal (gemini-companion-test-list-undo t) "Undo the change to a.txt? "))
    (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n"))))

(ert-deftest gemini-companion-history-list/a-yes-in-the-cli-that-is-undone-at-once-stays-one ()
  (gemini-companion-test-with-lists client
    (let ((gemini-companion-write--decision-time 0.3)
          (gemini-companion-write--revert-time 0.3))
      (gemini-companion-history-list-test--close client "a.txt" "2\n")
      (gemini-companion-test-list-undo t)
      (gemini-companion-test-wait
       "Emacs to find out no more"
       (lambda () (not (gemini-companion-test-timers #'gemini-companion-write--poll-now))))
      (gemini-companion-test-list-undo t)
      (should (equal (gemini-companion-test-file-bytes "a.txt") "2\n"))
      (should (equal (car (gemini-companion-test-list-column "*gemini history*" 1))
                     "accepted in CLI")))))

(ert-deftest gemini-companion-history-list/what-was-written-late-is-undone-with-its-prompt ()
  (gemini-companion-test-with-lists client
    (let ((prompt (cons "do it" (current-time))))
      (gemini-companion-history-list-test--after prompt
        (gemini-companion-test-accept-and-write client "b.txt" "b\n")
        (gemini-companion-history-list-test--unwritten client)))
    (gemini-companion-test-file "a.txt" "2\n")
    (should (equal (cadr (gemini-companion-history-list-test--undo-prompt t 1)) "2 changes undone"))
    (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n"))))

(ert-deftest gemini-companion-history-list/a-write-warns-of-later-changes ()
  (gemini-companion-test-with-lists client
    (gemini-companion-history-list-test--unwritten client)
    (gemini-companion-test-file "a.txt" "later\n")
    (should (equal (gemini-companion-test-list-press-newest "w" nil)
                   "a.txt has changed since then; you would lose later changes, too.  \
Write the text of this change to a.txt? "))
    (gemini-companion-test-write-bytes "a.txt" "caf\351\n")
    (should (equal (gemini-companion-test-list-press-newest "w" nil)
                   "a.txt has changed since then; you would lose later changes, too.  \
a.txt is not in UTF-8, but will be.  Write the text of this change to a.txt? "))
    (delete-file (gemini-companion-test-file "a.txt"))
    (should (equal (gemini-companion-test-list-press-newest "w" nil)
                   "Write the text of this change to a.txt? "))))

;;;; Undo

(ert-deftest gemini-companion-history-list/undo-and-redo-byte-for-byte ()
  (gemini-companion-test-with-lists client
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
      (gemini-companion-test-accept-and-write client "x.txt" text after)
      (should (equal (gemini-companion-test-list-undo t)
                     "Undo the change to x.txt? "))
      (should (equal (gemini-companion-test-file-bytes "x.txt") before))
      (should (equal (car (gemini-companion-test-list-column "*gemini history*" 1))
                     "undone"))
      (should (equal (gemini-companion-test-list-undo t)
                     "Make the change to x.txt again? "))
      (should (equal (gemini-companion-test-file-bytes "x.txt") after))
      (should (equal (car (gemini-companion-test-list-column "*gemini history*" 1))
                     "accepted")))))

(ert-deftest gemini-companion-history-list/undo-needs-a-yes ()
  (gemini-companion-test-with-lists client
    (gemini-companion-test-accept-and-write client "a.txt" "2\n")
    (should (gemini-companion-test-list-undo nil))
    (should (equal (gemini-companion-test-file-bytes "a.txt") "2\n"))
    (should (equal (gemini-companion-test-list-column "*gemini history*" 1)
                   '("accepted")))))

(ert-deftest gemini-companion-history-list/undo-warns-of-later-changes ()
  (gemini-companion-test-with-lists client
    (gemini-companion-test-accept-and-write client "a.txt" "2\n")
    (gemini-companion-test-file "a.txt" "2\nlater\n")
    (should (string-match-p "a\\.txt has changed since then; you would lose later changes, too\\..*Undo"
                            (gemini-companion-test-list-undo t)))
    (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n"))
    (gemini-companion-test-file "a.txt" "later yet\n")
    (should (string-match-p "has changed since.*again"
                            (gemini-companion-test-list-undo t)))
    (should (equal (gemini-companion-test-file-bytes "a.txt") "2\nlater\n"))
    (delete-file (gemini-companion-test-file "a.txt"))
    (should (string-match-p "is gone\\..*Undo" (gemini-companion-test-list-undo t)))
    (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n"))))

(ert-deftest gemini-companion-history-list/undo-checks-the-file-again-after-the-question ()
  (gemini-companion-test-with-lists client
    (gemini-companion-test-accept-and-write client "a.txt" "2\n")
    (gemini-companion-history-list)
    (cl-letf (((symbol-function 'y-or-n-p)
               (lambda (_question) (gemini-companion-test-file "a.txt" "other\n"))))
      (should-error (gemini-companion-test-list-press "u") :type 'user-error))
    (should (equal (gemini-companion-test-file-bytes "a.txt") "other\n"))))

(ert-deftest gemini-companion-history-list/undo-of-a-new-file-deletes-it ()
  (gemini-companion-test-with-lists client
    (gemini-companion-test-accept-and-write client "new/n.txt" "text\n")
    (let ((file (gemini-companion-test-file "new/n.txt")) trashed)
      (should (string-match-p "\\`This deletes n\\.txt\\.  Undo the change to n\\.txt\\? \\'"
                              (gemini-companion-test-list-undo nil)))
      (should (file-exists-p file))
      (cl-letf* ((delete (symbol-function 'delete-file))
                 ((symbol-function 'delete-file)
                  (lambda (name &optional trash)
                    (setq trashed trash)
                    (funcall delete name))))
        (gemini-companion-test-list-undo t))
      (should trashed)
      (should-not (file-exists-p file))
      (delete-directory (file-name-directory file))
      (should (equal "Make the change to n.txt again? " (gemini-companion-test-list-undo t)))
      (should (equal (gemini-companion-test-file-bytes "new/n.txt") "text\n")))))

(ert-deftest gemini-companion-history-list/nothing-to-undo ()
  (gemini-companion-test-with-lists client
    (gemini-companion-review-reject (gemini-companion-test-propose client "a.txt" "2\n"))
    (should (string-match-p "Nothing to undo.*a\\.txt was rejected"
                            (gemini-companion-test-list-undo t)))
    ;; The client has not written the file.
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (gemini-companion-review-show review 'keep)
      (gemini-companion-review-commands-accept review))
    (should (string-match-p "already as it was before the change"
                            (gemini-companion-test-list-undo t)))
    (let ((entry (car gemini-companion-history--entries)))
      (setf (gemini-companion-history-before entry) 'unreadable)
      (should (string-match-p "not known" (gemini-companion-test-list-undo t))))
    (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n"))))

(ert-deftest gemini-companion-history-list/undo-writes-to-regular-files-only ()
  (gemini-companion-test-with-lists client
    (gemini-companion-test-accept-and-write client "n.txt" "2\n")
    (let ((file (gemini-companion-test-file "n.txt")))
      (delete-file file)
      (call-process "mkfifo" nil nil nil file)
      (should (string-match-p "cannot be read" (gemini-companion-test-list-undo t)))
      (dolist (bytes '(nil "text"))
        (should-error (gemini-companion-file-write file bytes)))
      (should (file-exists-p file)))))

(ert-deftest gemini-companion-history-list/a-name-that-leads-elsewhere-is-not-written ()
  "A program may replace a directory by a link, also during a question."
  (gemini-companion-test-with-lists client
    (let* ((directory (gemini-companion-test-file "new"))
           (others (gemini-companion-test-file "others"))
           (old (concat directory ".old"))
           (replace (lambda (&rest _)
                      (rename-file directory old)
                      (make-symbolic-link others directory)
                      t))
           (fault-of (lambda (key)
                       (gemini-companion-test-list-goto "*gemini history*" 2)
                       (cadr (should-error (gemini-companion-test-list-press key)
                                           :type 'user-error)))))
      (make-directory others)
      (gemini-companion-history-list-test--after (cons "do it" (current-time))
        (gemini-companion-test-accept-and-write client "new/n.txt" "2\n"))
      (gemini-companion-test-file "others/n.txt" "other\n")
      (gemini-companion-test-file "new/n.txt" "other\n")
      (gemini-companion-history-list)
      (cl-letf (((symbol-function 'y-or-n-p) replace))
        (dolist (key '("u" "w"))
          (should (equal (funcall fault-of key) "n.txt now leads to another file"))
          (delete-file directory)
          (rename-file old directory)))
      (funcall replace)
      (dolist (key '("u" "w" "U"))
        (should (equal (funcall fault-of key) "n.txt now leads to another file")))
      (should (equal (gemini-companion-test-file-bytes "others/n.txt") "other\n")))))

(ert-deftest gemini-companion-history-list/decisions-of-the-client-can-be-undone ()
  (gemini-companion-test-with-lists client
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (fake-cli-call-tool client "closeDiff"
                          (list :filePath (gemini-companion-review-path review)))
      (should (string-search "Emacs does not know yet how" (gemini-companion-test-list-undo t)))
      (gemini-companion-test-file "a.txt" "2\n")
      (gemini-companion-test-wait-outcome 'accepted-there)
      (should (equal (gemini-companion-test-list-undo t) "Undo the change to a.txt? "))
      (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n")))))

(ert-deftest gemini-companion-history-list/undo-keeps-modes-and-links ()
  (gemini-companion-test-with-lists client
    (let ((file (gemini-companion-test-file "real.sh" "one\n"))
          (link (gemini-companion-test-file "link.sh")))
      (set-file-modes file #o750)
      (make-symbolic-link file link)
      (gemini-companion-test-accept-and-write client "link.sh" "2\n")
      (gemini-companion-test-list-undo t)
      (should (equal (gemini-companion-test-file-bytes "real.sh") "one\n"))
      (should (file-symlink-p link))
      (should (= (file-modes file) #o750)))))

(ert-deftest gemini-companion-history-list/a-visiting-buffer-is-reverted-by-an-undo ()
  (gemini-companion-test-with-lists client
    (let ((buffer (current-buffer)))
      (gemini-companion-test-accept-and-write client "a.txt" "one\n2\nthree\n")
      (should (equal (buffer-string) "one\n2\nthree\n"))
      (goto-char 3)
      (gemini-companion-test-list-undo t)
      (with-current-buffer buffer
        (should (equal (buffer-string) "one\ntwo\n"))
        (should (= (point) 3))
        (should-not (buffer-modified-p))
        (should (verify-visited-file-modtime))
        (should-not (file-exists-p (make-lock-file-name buffer-file-name)))))))

(ert-deftest gemini-companion-history-list/an-undo-keeps-edits-that-were-merged ()
  "They were not saved when the user accepted, so the file did not have them."
  (gemini-companion-test-with-lists client
    (gemini-companion-test-write-bytes "m.txt" "one\r\n2\r\n3\r\n4\r\n")
    (let ((buffer (find-file-noselect (gemini-companion-test-file "m.txt"))))
      (with-current-buffer buffer
        (insert "mine\n"))
      (let ((review (gemini-companion-test-propose client "m.txt" "one\n2\n3\nfour\n")))
        (gemini-companion-review-show review 'keep)
        (gemini-companion-review-commands--merge review)
        (gemini-companion-review-commands-accept review))
      (gemini-companion-test-write-bytes "m.txt" "mine\r\none\r\n2\r\n3\r\nfour\r\n")
      (gemini-companion-test-wait "the merged text in the buffer"
                                  (lambda () (not (buffer-modified-p buffer))))
      (should (equal (gemini-companion-test-list-undo t) "Undo the change to m.txt? "))
      (should (equal (gemini-companion-test-file-bytes "m.txt")
                     "mine\r\none\r\n2\r\n3\r\n4\r\n"))
      (should (equal (with-current-buffer buffer (buffer-string)) "mine\none\n2\n3\n4\n")))))

(ert-deftest gemini-companion-history-list/an-undo-of-merged-edits-is-not-in-utf-8-either ()
  "The client writes only UTF-8, but the file was in Latin-1.
That lacks some characters."
  (pcase-dolist (`(,mine . ,bytes) '(("ä" . "\344\n\351\n2\n3\n4\n")
                                     ("€" . "\342\202\254\n\303\251\n2\n3\n4\n")))
    (gemini-companion-test-with-lists client
      (gemini-companion-test-write-bytes "m.txt" "\351\n2\n3\n4\n")
      (with-current-buffer (find-file-noselect (gemini-companion-test-file "m.txt"))
        (insert mine "\n"))
      (let ((review (gemini-companion-test-propose client "m.txt" "é\n2\n3\nfour\n")))
        (gemini-companion-review-show review 'keep)
        (gemini-companion-review-commands--merge review)
        (gemini-companion-test-with-answer 'yes (gemini-companion-review-commands-accept review)))
      (gemini-companion-test-file "m.txt" (concat mine "\né\n2\n3\nfour\n"))
      (gemini-companion-test-wait-followed)
      (gemini-companion-test-list-undo t)
      (should (equal (gemini-companion-test-file-bytes "m.txt") bytes)))))

(ert-deftest gemini-companion-history-list/an-undo-keeps-unsaved-edits ()
  (gemini-companion-test-with-lists client
    (let ((buffer (current-buffer)) (lock (make-lock-file-name buffer-file-name)) message)
      (insert "mine ")
      (should (file-symlink-p lock))
      (cl-letf (((symbol-function 'read-multiple-choice) (lambda (&rest _) '(?a))))
        (gemini-companion-test-accept-and-write client "a.txt" "2\n"))
      (cl-letf (((symbol-function 'message)
                 (lambda (&rest arguments) (setq message (apply #'format-message arguments)))))
        (gemini-companion-test-list-undo t))
      (should (string-match-p "a\\.txt undone; unsaved edits in a\\.txt are kept" message))
      (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n"))
      (should (file-symlink-p lock))
      (with-current-buffer buffer
        (should (equal (buffer-string) "mine one\ntwo\n"))
        (should (buffer-modified-p))))))

(ert-deftest gemini-companion-history-list/the-buffer-of-a-file-that-an-undo-deletes-keeps-its-text ()
  (gemini-companion-test-with-lists client
    (let ((prompt (cons "do it" (current-time))))
      (gemini-companion-history-list-test--after prompt
        (gemini-companion-test-accept-and-write client "n.txt" "text\n"))
      (find-file-noselect (gemini-companion-test-file "n.txt"))
      (should (equal (cadr (gemini-companion-history-list-test--undo-prompt t 1))
                     "Change to n.txt undone; the buffer n.txt keeps its text"))
      (should (equal (with-current-buffer "n.txt" (buffer-string)) "text\n")))))

(ert-deftest gemini-companion-history-list/that-edits-are-kept-is-said-once-for-each-file ()
  (gemini-companion-test-with-lists client
    (let ((prompt (cons "do it" (current-time))))
      (gemini-companion-history-list-test--after prompt
        (gemini-companion-test-accept-and-write client "a.txt" "2\n")
        (gemini-companion-test-accept-and-write client "a.txt" "3\n")))
    (let ((create-lockfiles nil)) (insert "mine "))
    (should (equal (cadr (gemini-companion-history-list-test--undo-prompt t 1))
                   "2 changes undone; unsaved edits in a.txt are kept"))))

;;; gemini-companion-history-list-test.el ends here

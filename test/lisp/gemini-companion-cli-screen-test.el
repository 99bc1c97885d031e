;;; gemini-companion-cli-screen-test.el --- Tests of screens and terminals of CLIs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Screens as Gemini CLI 0.61.0 shows them, in buffers whose process stands in
;; for a terminal emulator's.

;;; Code:

(require 'ert)
(require 'gemini-companion-history)
(require 'gemini-companion-cli-screen)
(require 'gemini-companion-cli-watch)
(require 'gemini-companion-test-companion)

(defconst gemini-companion-cli-screen-test--prompt "
─────────────────────────────
 Shift+Tab to accept edits
▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄
 >   Type your message or @path/to/file
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
 workspace (/directory)
 /src/project
")

(defconst gemini-companion-cli-screen-test--question "
  o  WriteFile  Writing to src/b.txt
  o  Edit  c.txt: one: 1 => two
  o  Shell  touch x
╭─────────────────────────────────────╮
│ ? WriteFile  Writing to a.txt  1 of 4 │
│ ╭───────────────────────────────╮   │
│ │  1 + ? x 7 of 9               │   │
│ ╰───────────────────────────────╯   │
│ Apply this change?                  │
│                                     │
│ ● 1. Allow once                     │
│   2. Allow for this session         │
│   3. No, suggest changes (esc)      │
╰─────────────────────────────────────╯
")

(defmacro gemini-companion-cli-screen-test--on (screen &rest body)
  "Evaluate BODY in a buffer that shows SCREEN."
  (declare (indent 1) (debug t))
  `(with-temp-buffer
     (insert ,screen)
     ,@body))

(ert-deftest gemini-companion-cli-screen/a-very-long-question-begins-somewhere ()
  (let ((line "│ │  2 + y                        │   │\n"))
    (dolist (count '(0 1000))
      (gemini-companion-cli-screen-test--on
          (replace-regexp-in-string
           "^│ ╰" (concat (apply #'concat (make-list count line)) "│ ╰")
           gemini-companion-cli-screen-test--question t t)
        (should (gemini-companion-cli-screen-question-p))
        (let ((start (car (gemini-companion-cli-screen-question-bounds))))
          (should (< (point-min) start (point-max)))
          (should (eq (zerop count) (eql start (save-excursion
                                                 (goto-char (point-min))
                                                 (re-search-forward "^╭")
                                                 (match-beginning 0))))))))))

(ert-deftest gemini-companion-cli-screen/the-last-question-says-which-changes-follow ()
  (let ((one (replace-regexp-in-string "  1 of 4 │" "         │"
                                       gemini-companion-cli-screen-test--question)))
    (gemini-companion-cli-screen-test--on gemini-companion-cli-screen-test--question
      (should (gemini-companion-cli-screen-question-p))
      (should (equal (gemini-companion-cli-screen-queued-files) '("src/b.txt" "c.txt"))))
    ;; What an earlier one says does not count.
    (gemini-companion-cli-screen-test--on (concat gemini-companion-cli-screen-test--question one)
      (should (gemini-companion-cli-screen-question-p))
      (should-not (gemini-companion-cli-screen-queued-files)))))

(ert-deftest gemini-companion-cli-screen/the-prompt-is-found-whatever-is-around-it ()
  "In 256 colors, that is lines of its background color only."
  (let ((pad (make-string 30 ?\s))
        (line (make-string 30 ?─)))
    (pcase-dolist (`(,before . ,after)
                   `((,line . ,line)
                     (,(make-string 30 ?▄) . ,(make-string 30 ?▀))
                     (,pad . ,pad)))
      (dolist (below '("" "    \n    \n" " workspace (/directory)\n /src/project\n"))
        (gemini-companion-cli-screen-test--on
            (concat line "\n  1 open file\n" before "\n > one\n" pad "\n   two   \n"
                    after "\n" below)
          (should (equal (gemini-companion-cli-screen-prompt) ">onetwo")))
        (gemini-companion-cli-screen-test--on
            (concat " ⠧ Thinking... (esc to cancel, 1s)\n" before "\n >   Type your message\n"
                    after "\n" below)
          (should (eq (gemini-companion-cli-screen-prompt) 'works)))))
    (gemini-companion-cli-screen-test--on (concat pad "\n" pad "\n✦ Done.\n" pad "\n")
      (should-not (gemini-companion-cli-screen-prompt)))))

(defmacro gemini-companion-cli-screen-test--with-terminal (client review &rest body)
  "Evaluate BODY in the terminal of CLIENT, which has proposed REVIEW.
The functions `show' and `look' have it show a text, and look at it as
after output; `free-for' pretends that it takes prompts for some seconds."
  (declare (indent 2) (debug (symbolp symbolp body)))
  `(gemini-companion-test-with-client ,client
     (let* ((,review (gemini-companion-test-propose ,client "a.txt" "2\n"))
            (buffer (generate-new-buffer "*terminal*"))
            (process (start-process "terminal" buffer "cat"))
            (gemini-companion-cli--all nil)
            (gemini-companion-review-turn--accepted nil))
       (set-process-query-on-exit-flag process nil)
       (setf (gemini-companion-review-process ,review) (process-id process))
       (gemini-companion-cli--add 'gemini (process-id process))
       (unwind-protect
           (with-current-buffer buffer
             (gemini-companion-cli-watch-start buffer)
             (cl-flet ((show (text) (erase-buffer) (insert text))
                       (look () (gemini-companion-cli-watch--look buffer))
                       (free-for (seconds)
                                 (setq gemini-companion-cli-watch--free-since
                                       (- (float-time) seconds))
                                 (setf (gemini-companion-review-created ,review)
                                       (time-subtract nil seconds))))
               (ignore #'show #'look #'free-for)
               ,@body))
         (gemini-companion-cli-watch-forget-all)
         (kill-buffer buffer)))))

(ert-deftest gemini-companion-cli-watch/a-change-that-the-cli-gave-up-is-cancelled ()
  "It takes prompts for a while, and is told so that it goes on."
  (gemini-companion-cli-screen-test--with-terminal client review
    (show gemini-companion-cli-screen-test--question)
    (look)
    (should (equal (gemini-companion-review-queued review)
                   (list (gemini-companion-test-file "src/b.txt")
                         (gemini-companion-test-file "c.txt"))))
    (should (equal (gemini-companion-review-position review) '(1 . 3)))
    (show gemini-companion-cli-screen-test--prompt)
    (look)
    (should (gemini-companion-review-open-p review))
    (free-for 2)
    (look)
    (should-not (gemini-companion-review-open-p review))
    (should (equal (gemini-companion-review-reason review) "cancelled in Gemini CLI"))
    (should (equal (alist-get 'filePath (fake-cli-wait-notification client "ide/diffRejected"))
                   (gemini-companion-test-file "a.txt")))
    (should (eq (gemini-companion-history-outcome (car (gemini-companion-history-all)))
                'cancelled))))

(ert-deftest gemini-companion-cli-watch/a-change-stays-while-that-is-not-certain ()
  "While the CLI asks, its screen is not recognized, or the change is new."
  (gemini-companion-cli-screen-test--with-terminal client review
    (dolist (screen (list gemini-companion-cli-screen-test--question "$ ls\nfile\n" ""
                          ;; A question below a prompt that has scrolled.
                          (concat gemini-companion-cli-screen-test--prompt
                                  gemini-companion-cli-screen-test--question)))
      (show screen)
      (free-for 9)
      (look)
      (look)
      (should (gemini-companion-review-open-p review)))
    (show gemini-companion-cli-screen-test--prompt)
    (free-for 9)
    (setf (gemini-companion-review-created review) (current-time))
    (look)
    (should (gemini-companion-review-open-p review))
    ;; That of another process.
    (setf (gemini-companion-review-process review) 1)
    (free-for 9)
    (look)
    (should (gemini-companion-review-open-p review))))

(ert-deftest gemini-companion-cli-watch/what-is-asked-otherwise-is-known ()
  "But not what is asked about a change that waits in Emacs."
  (gemini-companion-cli-screen-test--with-terminal client review
    (show gemini-companion-cli-screen-test--question)
    (look)
    (should-not (gemini-companion-cli-in-state 'asking))
    (gemini-companion-review-reject review)
    ;; Perhaps the CLI has not noticed yet.
    (look)
    (should-not (gemini-companion-cli-in-state 'asking))
    (look)
    (should (equal (mapcar #'gemini-companion-cli-terminal (gemini-companion-cli-in-state 'asking))
                   (list buffer)))
    (should (string-search "?" (gemini-companion--lighter)))
    (should (string-search "a CLI asks a question" (gemini-companion-state)))
    (show gemini-companion-cli-screen-test--prompt)
    (look)
    (should-not (gemini-companion-cli-in-state 'asking))
    (should-not (string-search "?" (gemini-companion--lighter)))
    (show gemini-companion-cli-screen-test--question)
    (look)
    (look)
    (should (gemini-companion-cli-in-state 'asking))
    (kill-buffer buffer)
    (should-not (gemini-companion-cli-in-state 'asking))))

(ert-deftest gemini-companion-cli-watch/what-is-asked-before-it-connects-is-known ()
  "It is the same CLI once it has connected."
  (gemini-companion-cli-screen-test--with-terminal client review
    (setf (gemini-companion-review-process review) 1)
    (setq gemini-companion-cli--all nil)
    (show gemini-companion-cli-screen-test--question)
    (look)
    (look)
    (should (length= (gemini-companion-cli-in-state 'asking) 1))
    (gemini-companion-cli--add 'gemini (process-id process))
    (should (length= (gemini-companion-cli-all) 1))
    (setf (gemini-companion-cli-process (car (gemini-companion-cli-all))) nil)
    (show gemini-companion-cli-screen-test--prompt)
    (look)
    (should-not (gemini-companion-cli-all))))

(ert-deftest gemini-companion-cli-watch/c-c-c-c-asks-only-while-a-change-waits ()
  "Also just after an accept, when the next change has not come yet."
  (gemini-companion-cli-screen-test--with-terminal client review
    (let ((key (lambda () (with-current-buffer buffer (key-binding (kbd "C-c C-c")))))
          (map (make-sparse-keymap)))
      (define-key map (kbd "C-c C-c") #'ignore)
      (define-key map (kbd "C-c o") #'other-window)
      (use-local-map map)
      (should (eq (funcall key) 'gemini-companion-terminal-interrupt))
      (should (eq (key-binding (kbd "C-c o")) 'other-window))
      (should (equal (gemini-companion-ui-key-of 'gemini-companion-accept) "C-c C-c a"))
      (gemini-companion-review-show review 'keep)
      (with-current-buffer buffer
        (cl-letf (((symbol-function 'read-multiple-choice) (lambda (&rest _) '(?a))))
          (call-interactively #'gemini-companion-terminal-interrupt)))
      (should-not (gemini-companion-review-open-p review))
      (should (eq (funcall key) 'gemini-companion-terminal-interrupt))
      (setf (nth 2 (car gemini-companion-review-turn--accepted)) (- (float-time) 9))
      (should (eq (funcall key) #'ignore)))))

(ert-deftest gemini-companion-cli-watch/off-leaves-nothing ()
  (gemini-companion-cli-screen-test--with-terminal client review
    (ignore review)
    (let ((filter (process-filter process)))
      (gemini-companion-cli-watch-forget-all)
      (should-not (equal (process-filter process) filter))
      (should-not gemini-companion-cli-watch--timer)
      (should-not gemini-companion-cli-watch--mode)
      (should-not gemini-companion-ui-local-keys))))

;;;; Outcomes

(ert-deftest gemini-companion-review-turn/the-same-again-is-accepted-once ()
  "If it was not written, and only the same."
  (gemini-companion-test-with-client client
    (let* ((first (gemini-companion-test-propose client "a.txt" "2\n"))
           (again (lambda (text)
                    (fake-cli-call-tool client "openDiff"
                                        (list :filePath (gemini-companion-test-file "a.txt")
                                              :newContent text))
                    (gemini-companion-bridge-drain)
                    (car (gemini-companion-review-all-open)))))
      (gemini-companion-review-show first 'keep)
      (gemini-companion-review-commands-accept first)
      (fake-cli-wait-notification client "ide/diffAccepted")
      (let ((other (funcall again "3\n")))
        (should other)
        (gemini-companion-review-reject other)
        (fake-cli-wait-notification client "ide/diffRejected"))
      (should-not (funcall again "2\n"))
      (should (fake-cli-wait-notification client "ide/diffAccepted"))
      (should (eq (gemini-companion-history-outcome (gemini-companion-review-entry first))
                  'cancelled))
      (should (funcall again "2\n"))
      (gemini-companion-review-end-all))))

(ert-deftest gemini-companion-review-turn/an-accept-is-forgotten-after-a-while ()
  "The user is asked about the same change then."
  (gemini-companion-test-with-client client
    (let ((gemini-companion-review-turn--accepted nil)
          (gemini-companion-review-turn--memory 0)
          (review (gemini-companion-test-propose client "a.txt" "2\n")))
      (gemini-companion-review-show review 'keep)
      (gemini-companion-review-commands-accept review)
      (should (gemini-companion-test-propose client "a.txt" "2\n"))
      (gemini-companion-review-end-all))))

(ert-deftest gemini-companion-review-turn/what-is-accepted-in-advance-is-asked-about-if-it-loses-something ()
  (gemini-companion-test-with-client client
    (let ((first (gemini-companion-test-propose client "a.txt" "2\n"))
          (question nil))
      (gemini-companion-test-file "b.txt" "1\n")
      (gemini-companion-test-file "c.txt" (make-string 100 ?\n))
      (setf (gemini-companion-review-queued first)
            (mapcar #'gemini-companion-test-file '("b.txt" "c.txt")))
      (gemini-companion-review-show first 'keep)
      (cl-letf (((symbol-function 'y-or-n-p) (lambda (text) (setq question text) t)))
        (gemini-companion-accept-all))
      (should (string-match-p "\\`Accept 3 changes: .*a\\.txt, b\\.txt, c\\.txt\\? " question))
      (let ((propose (lambda (name)
                       (fake-cli-call-tool client "openDiff"
                                           (list :filePath (gemini-companion-test-file name)
                                                 :newContent "new\n"))
                       (gemini-companion-bridge-drain)
                       (mapcar #'gemini-companion-review-file
                               (gemini-companion-review-all-open)))))
        (should-not (funcall propose "b.txt"))
        ;; This one empties most of its file.
        (should (equal (funcall propose "c.txt") '("c.txt")))
        ;; And nobody has said anything of this one.
        (should (equal (funcall propose "d.txt") '("c.txt" "d.txt"))))
      (gemini-companion-review-end-all))))

(provide 'gemini-companion-cli-screen-test)
;;; gemini-companion-cli-screen-test.el ends here

;;; gemini-companion-review-ediff-test.el --- Tests of the view in Ediff  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Windows, tabs and the texts compared. gemini-companion-review-test.el tests
;; decisions.

;;; Code:

(require 'ert)
(require 'seq)
(require 'tab-bar)
(require 'gemini-companion-test-companion)

(defun gemini-companion-review-ediff-test--show (client text &optional focus)
  "Have CLIENT propose TEXT for a.txt; show the review and return it.
FOCUS is as in `gemini-companion-diff-focus', by default `keep'."
  (let ((review (gemini-companion-test-propose client "a.txt" text)))
    (gemini-companion-review-show review (or focus 'keep))
    review))

(defun gemini-companion-review-ediff-test--layout ()
  "Return all state of Emacs that must be the same before and after a review."
  (list (mapcar (lambda (window)
                  (list window (window-edges window) (window-buffer window)
                        (window-point window) (window-start window)
                        (window-dedicated-p window) (window-parameters window)))
                (window-list nil 'no-minibuffer))
        (selected-window)
        (current-buffer)))

(defun gemini-companion-review-ediff-test--proposal-window (review)
  "Return the window that shows the proposal of REVIEW, or nil."
  (get-buffer-window (gemini-companion-review-proposal review)))

;;;; Windows

(ert-deftest gemini-companion-review-ediff/the-selected-window-stays ()
  (gemini-companion-test-with-client client
    (let ((window (selected-window)) (buffer (current-buffer)))
      (let ((review (gemini-companion-review-ediff-test--show client "2\n")))
        (should (eq (selected-window) window))
        (should (eq (window-buffer window) buffer))
        (should (gemini-companion-review-ediff-test--proposal-window review))
        ;; What the user types in the meantime stays, and so does point.
        (goto-char (point-max))
        (insert "typed")
        (gemini-companion-reject)
        (should (eq (selected-window) window))
        (should (= (window-point window) (point-max)))
        (set-buffer-modified-p nil)))))

(ert-deftest gemini-companion-review-ediff/texts-are-displayed-as-in-the-user-s-buffer ()
  "And the control panel has no line numbers."
  (gemini-companion-test-with-client client
    (global-display-line-numbers-mode 1)
    (unwind-protect
        (progn
          (setq tab-width 3 truncate-lines t word-wrap t display-line-numbers 'relative)
          (gemini-companion-review-ediff-test--show client "2\n")
          (with-current-buffer (car ediff-session-registry)
            (should-not display-line-numbers)
            (dolist (buffer (list ediff-buffer-A ediff-buffer-B))
              (with-current-buffer buffer
                (should (equal (list tab-width truncate-lines word-wrap display-line-numbers)
                               '(3 t t relative))))))
          (gemini-companion-reject))
      (global-display-line-numbers-mode -1))))

(define-derived-mode gemini-companion-review-ediff-test-failing-mode prog-mode "Test"
  "A mode whose fontification takes long for the first lines, and then fails."
  (setq-local font-lock-defaults
              '(((lambda (_limit)
                   (if (bobp) (ignore (sleep-for gemini-companion-heavy--max-time))
                     (error "Not today")))))))

(ert-deftest gemini-companion-review-ediff/colors-stay-if-the-text-turns-out-to-be-heavy ()
  "Emacs learns that while it fontifies, when Ediff is there already."
  (gemini-companion-test-with-client client
    (let ((auto-mode-alist '(("" . gemini-companion-review-ediff-test-failing-mode)))
          ;; Emacs in batch mode does not fontify.
          (noninteractive nil))
      (let* ((text (mapconcat #'number-to-string (number-sequence 1 2000) "\n"))
             (review (gemini-companion-test-propose client "new.x" text))
             (proposal (gemini-companion-review-proposal
                        (progn (gemini-companion-review-ediff-show review 'keep) review))))
        (gemini-companion-test-wait
         "the fontification to be given up"
         (lambda () (eq (buffer-local-value 'major-mode proposal) 'fundamental-mode)))
        (should (buffer-local-value 'gemini-companion-review-mode proposal))
        (should (equal '(gemini-companion-added)
                       (alist-get 'ediff-even-diff-B
                                  (buffer-local-value 'face-remapping-alist proposal))))
        (gemini-companion-reject)))))

(ert-deftest gemini-companion-review-ediff/the-review-can-be-selected ()
  (gemini-companion-test-with-client client
    (let ((window (selected-window)))
      (gemini-companion-review-ediff-test--show client "2\n" 'select)
      (should (eq (window-buffer) (car ediff-session-registry)))
      ;; The user's window is still there, at its smallest size.
      (should (< (window-height window) 6))
      (gemini-companion-accept)
      (should (eq (selected-window) window)))))

(ert-deftest gemini-companion-review-ediff/layouts-are-restored-exactly ()
  (pcase-dolist
      (`(,name . ,arrange)
       `((one . ignore)
         (three . ,(lambda () (split-window-right) (split-window-below) (other-window 1)))
         (dedicated . ,(lambda ()
                         (set-window-dedicated-p (selected-window) t)))
         (side . ,(lambda ()
                    (display-buffer-in-side-window (generate-new-buffer "side")
                                                   '((side . bottom)))))
         (in-side . ,(lambda ()
                       (select-window
                        (display-buffer-in-side-window (generate-new-buffer "side")
                                                       '((side . left))))))
         (parameters . ,(lambda ()
                          (set-window-parameter (split-window-below)
                                                'no-delete-other-windows t)))))
    (dolist (focus '(keep select))
      (gemini-companion-test-with-client client
        (delete-other-windows)
        (with-current-buffer (window-buffer)
          (dotimes (_ 200) (insert "line\n"))
          (set-buffer-modified-p nil))
        (funcall arrange)
        (set-window-point nil 300)
        (set-window-start nil 250 t)
        (set-buffer (window-buffer))
        (let ((before (gemini-companion-review-ediff-test--layout)))
          (gemini-companion-review-ediff-test--show client "2\n" focus)
          (should-not (equal (gemini-companion-review-ediff-test--layout) before))
          (gemini-companion-test-with-answer 'yes (gemini-companion-accept))
          (set-buffer (window-buffer))
          (ert-info ((format "%s %s" name focus))
            (should (equal (gemini-companion-review-ediff-test--layout) before))))))))

(ert-deftest gemini-companion-review-ediff/side-windows-stay-on-screen ()
  (gemini-companion-test-with-client client
    (let ((side (display-buffer-in-side-window (generate-new-buffer "side")
                                               '((side . bottom)))))
      (select-window side)
      (gemini-companion-review-ediff-test--show client "2\n")
      (should (window-live-p side))
      (should (eq (selected-window) side))
      ;; The window of the file is shrunk, not the selected one.
      (should (< (window-height (get-buffer-window "a.txt")) 6)))))

(ert-deftest gemini-companion-review-ediff/window-changes-of-the-user-stay ()
  "The review ends after the user has changed windows while it was shown."
  (pcase-dolist
      (`(,name . ,act)
       `((another-buffer . ,(lambda () (switch-to-buffer "other") (goto-char 100)))
         (a-window-more . ,(lambda ()
                             (select-window (split-window-right))
                             (switch-to-buffer "other")
                             (goto-char 100)))
         (in-a-window-of-the-review
          . ,(lambda ()
               (select-window (get-buffer-window (gemini-companion-review-proposal
                                                  (gemini-companion-review-shown))))
               (switch-to-buffer "other")
               (goto-char 100)))
         (a-side-window-less . ,(lambda () (delete-window (get-buffer-window "side"))))
         (a-window-less . ,(lambda ()
                             (delete-window)
                             (select-window (get-buffer-window "second"))))
         (point . ,(lambda () (goto-char 200)))))
    (dolist (end (list #'gemini-companion-review-commands-accept #'gemini-companion-review-reject))
      (gemini-companion-test-with-client client
        (delete-other-windows)
        (dolist (name '("other" "second" "side"))
          (with-current-buffer (generate-new-buffer name)
            (dotimes (_ 100) (insert "line\n"))))
        (with-current-buffer (window-buffer)
          (dotimes (_ 200) (insert "line\n"))
          (set-buffer-modified-p nil))
        (set-window-buffer (split-window-right) "second")
        (display-buffer-in-side-window (get-buffer "side") '((side . bottom)))
        (let ((review (gemini-companion-review-ediff-test--show client "2\n"))
              (state (lambda ()
                       (list (selected-window)
                             (mapcar (lambda (window)
                                       (list window (window-buffer window)
                                             (window-point window)))
                                     (seq-filter
                                      (lambda (window)
                                        (member (buffer-name (window-buffer window))
                                                '("a.txt" "other" "second" "side")))
                                      (window-list nil 'no-minibuffer))))))
              before)
          (funcall act)
          (setq before (funcall state))
          (gemini-companion-test-with-answer 'yes (funcall end review))
          (ert-info ((symbol-name name))
            (should-not (cl-set-exclusive-or (cadr (funcall state)) (cadr before)
                                             :test #'equal))
            (should (eq (selected-window) (car before)))
            (should (= (length (window-list nil 'no-minibuffer))
                       (length (cadr before))))))))))

(ert-deftest gemini-companion-review-ediff/wide-frames-show-the-texts-side-by-side ()
  (gemini-companion-test-with-client client
    (pcase-dolist (`(,width . ,beside) '((80 . nil) (200 . t)))
      (let ((before (frame-width)))
        (unwind-protect
            (let (review)
              (set-frame-width nil width)
              (setq review (gemini-companion-review-ediff-test--show client "2\n"))
              (with-current-buffer (car ediff-session-registry)
                (should (eq beside (= (window-top-line ediff-window-A)
                                      (window-top-line ediff-window-B)))))
              (should (gemini-companion-review-ediff-test--proposal-window review))
              (gemini-companion-reject))
          (set-frame-width nil before))))))

(ert-deftest gemini-companion-review-ediff/below-the-user-s-window-there-is-room ()
  "Emacs made the window there as low as the text, and Ediff split that."
  (gemini-companion-test-with-client client
    (let ((display-buffer-alist '(("\\`\\*gemini " display-buffer-in-direction
                                   (direction . below)))))
      (gemini-companion-review-ediff-test--show client "2\n")
      (with-current-buffer (car ediff-session-registry)
        (dolist (window (list ediff-window-A ediff-window-B))
          (should (> (window-body-height window) 1))))
      (gemini-companion-reject))))

(ert-deftest gemini-companion-review-ediff/the-control-panel-has-only-one-window ()
  (gemini-companion-test-with-client client
    (let ((switch-to-buffer-obey-display-actions t)
          (display-buffer-alist '(("\\`\\*Ediff" display-buffer-use-some-window
                                   (inhibit-same-window . t)))))
      (gemini-companion-review-ediff-test--show client "2\n")
      (should (= (length (get-buffer-window-list (car ediff-session-registry))) 1))
      (gemini-companion-reject))))

(ert-deftest gemini-companion-review-ediff/the-control-panel-stays-small ()
  "Evil, for example, balances all windows when one of them is closed."
  (gemini-companion-test-with-client client
    (gemini-companion-review-ediff-test--show client "2\n")
    (dolist (arrange (list #'ignore #'gemini-companion-review-ediff-turn))
      (with-current-buffer (car ediff-session-registry)
        (funcall arrange)
        (let* ((panel (get-buffer-window))
               (height (window-total-height panel)))
          (balance-windows)
          (should (= (window-total-height panel) height))
          (should (> (window-total-height ediff-window-B) height)))))
    (gemini-companion-reject)))

;; As Doom and the manual of Ediff do it.
(ert-deftest gemini-companion-review-ediff/the-layout-before-a-session-of-the-user-s-stays-saved ()
  (gemini-companion-test-with-client client
    (let* (saved
           (ediff-before-setup-hook
            (list (lambda () (setq saved (current-window-configuration)))))
           (ediff-quit-hook (list #'ediff-cleanup-mess
                                  (lambda () (set-window-configuration saved))))
           (ediff-window-setup-function #'ediff-setup-windows-plain)
           (before (gemini-companion-review-ediff-test--layout)))
      (ediff-buffers (current-buffer) (generate-new-buffer "other"))
      (let ((control (car ediff-session-registry)))
        (gemini-companion-review-ediff-test--show client "2\n")
        (gemini-companion-reject)
        (with-current-buffer control
          (ediff-really-quit nil)))
      (should (equal (gemini-companion-review-ediff-test--layout) before)))))

(ert-deftest gemini-companion-review-ediff/the-first-difference-is-visible-and-selected ()
  (gemini-companion-test-with-client client
    (let* ((lines (mapcar #'number-to-string (number-sequence 1 500)))
           (text (lambda (lines) (concat (string-join lines "\n") "\n"))))
      (gemini-companion-test-file "a.txt" (funcall text lines))
      (setf (nth 399 lines) "changed")
      (let ((review (gemini-companion-review-ediff-test--show client (funcall text lines))))
        (with-selected-window (gemini-companion-review-ediff-test--proposal-window review)
          (should (looking-at "changed$"))
          (should (<= 390 (line-number-at-pos (window-start)) 400)))
        (with-current-buffer (car ediff-session-registry)
          (should (= ediff-number-of-differences 1))
          (should (= ediff-current-difference 0)))))))

(ert-deftest gemini-companion-review-ediff/no-key-takes-the-user-s-windows ()
  "Such as for another session of Ediff, at whose end the next key went into the proposal."
  (gemini-companion-test-with-client client
    (gemini-companion-review-ediff-test--show client "2\n" 'select)
    (set-buffer (window-buffer))
    (let ((before (gemini-companion-review-ediff-test--layout)))
      (dolist (key '("=" "i" "m" "~" "D" "R" "M" "G"))
        (gemini-companion-test-with-answer 'yes (call-interactively (key-binding key)))
        (should (equal (gemini-companion-review-ediff-test--layout) before))))))

(ert-deftest gemini-companion-review-ediff/no-buffer-of-ediff-remains ()
  (gemini-companion-test-with-client client
    (let ((buffers (lambda ()
                     (seq-filter (lambda (name) (string-match-p "ediff" name))
                                 (mapcar (lambda (it) (downcase (buffer-name it)))
                                         (buffer-list))))))
      (should-not (funcall buffers))
      (gemini-companion-review-ediff-test--show client "one\n2\n" 'select)
      (with-current-buffer (window-buffer) (ediff-jump-to-difference 1))
      (get-buffer-create ediff-tmp-buffer)
      (should (funcall buffers))
      (gemini-companion-accept)
      (should-not (funcall buffers)))))

(ert-deftest gemini-companion-review-ediff/ediff-s-commands-keep-the-layout ()
  (gemini-companion-test-with-client client
    (let* ((window (selected-window))
           (review (gemini-companion-review-ediff-test--show client "one\n2\n"))
           (windows (window-list)))
      (select-window (get-buffer-window (car ediff-session-registry)))
      (ediff-jump-to-difference 1)
      (should-not (seq-difference windows (window-list)))
      (should (window-live-p window))
      ;; Copying the text of the file rejects this difference.
      (ediff-copy-A-to-B nil)
      (should (equal (gemini-companion-review-current-text review) "one\ntwo\n")))))

;; Ediff said that only white space differed, and complained of number 0 if there was none.
(ert-deftest gemini-companion-review-ediff/who-drops-a-difference-is-told-how-to-undo-that ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-ediff-test--show client "one\n2\n")))
      (select-window (get-buffer-window (car ediff-session-registry)))
      (gemini-companion-test-with-answer 'yes
        (call-interactively #'gemini-companion-review-ediff-drop)
        (should (equal (car gemini-companion-test-messages)
                       "Difference 1 is dropped; r b brings it back")))
      (should (equal (gemini-companion-review-current-text review) "one\ntwo\n"))
      (ediff-restore-diff nil ?b)
      (should (equal (gemini-companion-review-current-text review) "one\n2\n"))
      (ediff-previous-difference)
      (should (equal (should-error (call-interactively #'gemini-companion-review-ediff-drop))
                     '(user-error "No difference is selected"))))))

;;;; Tabs

(ert-deftest gemini-companion-review-ediff/other-tabs-stay-and-the-first-is-restored ()
  (gemini-companion-test-with-client client
    (unwind-protect
        (let ((before (mapcar #'window-buffer (window-list))))
          (gemini-companion-review-ediff-test--show client "2\n")
          (tab-bar-new-tab)
          (switch-to-buffer (generate-new-buffer "elsewhere"))
          ;; The other tab does not show it, so it is brought here.
          (gemini-companion-accept)
          (should (gemini-companion-review-ediff-test--proposal-window
                   (gemini-companion-review-shown)))
          (should (equal (buffer-name (window-buffer)) "elsewhere"))
          (gemini-companion-accept)
          (should (equal (buffer-name (window-buffer)) "elsewhere"))
          (should (one-window-p))
          (tab-bar-switch-to-prev-tab)
          (should (equal (mapcar #'window-buffer (window-list)) before)))
      (tab-bar-close-other-tabs))))

(ert-deftest gemini-companion-review-ediff/when-its-tab-was-closed-it-waits ()
  (dolist (from-elsewhere '(nil t))
    (gemini-companion-test-with-client client
      (unwind-protect
          (let (review)
            (tab-bar-new-tab)
            (switch-to-buffer "a.txt")
            (setq review (gemini-companion-review-ediff-test--show client "2\n"))
            (if (not from-elsewhere)
                (tab-bar-close-tab)
              (tab-bar-switch-to-prev-tab)
              (tab-bar-close-tab 2))
            (should (equal (gemini-companion-review-popup-state review) "out of sight"))
            (gemini-companion-review-next)
            (should (gemini-companion-review-ediff-test--proposal-window review))
            (gemini-companion-review-reject review))
        (tab-bar-close-other-tabs)))))

;;;; Unsaved edits and files changed on disk

(defun gemini-companion-review-ediff-test--texts ()
  "Return the texts of the Ediff session on screen, A first."
  (with-current-buffer (car ediff-session-registry)
    (mapcar (lambda (buffer) (with-current-buffer buffer (buffer-string)))
            (seq-filter #'buffer-live-p
                        (list ediff-buffer-A ediff-buffer-B ediff-buffer-C)))))

(defmacro gemini-companion-review-ediff-test--answering (key &rest body)
  "Evaluate BODY, answering each multiple choice with KEY; return the questions."
  (declare (indent 1) (debug t))
  `(let (questions)
     (cl-letf (((symbol-function 'read-multiple-choice)
                (lambda (question choices)
                  (push question questions)
                  (assq ,key choices))))
       ,@body)
     questions))

(ert-deftest gemini-companion-review-ediff/unsaved-edits-are-shown-and-can-be-merged ()
  (gemini-companion-test-with-client client
    (goto-char (point-max))
    (insert "mine\n")
    (let ((review (gemini-companion-review-ediff-test--show client "1\ntwo\n")))
      (with-current-buffer (gemini-companion-review-proposal review)
        (should (string-match-p "\\` Unsaved edits  C-c C-e merges.*a.txt.*C-c C-k rejects"
                                (gemini-companion-review-buffer--header-line))))
      (should (gemini-companion-review-ediff-test--answering ?t
                (should-error (gemini-companion-accept) :type 'user-error)))
      (should-not (fake-cli-find-notification client "ide/diffAccepted"))
      (should (equal (gemini-companion-review-ediff-test--texts)
                     '("one\ntwo\nmine\n" "1\ntwo\n" "one\ntwo\n")))
      ;; Ediff's key "a b" copies the edit that only the user's text has.
      (select-window (get-buffer-window (car ediff-session-registry)))
      (ediff-jump-to-difference 2)
      (ediff-copy-A-to-B nil)
      ;; Now nothing would be lost.
      (should-not (gemini-companion-review-ediff-test--answering ?a (gemini-companion-accept)))
      (should (equal (alist-get 'content
                                (fake-cli-wait-notification client "ide/diffAccepted"))
                     "1\ntwo\nmine\n")))
    (with-current-buffer "a.txt"
      (should (buffer-modified-p))
      (should (equal (buffer-string) "one\ntwo\nmine\n")))))

(defun gemini-companion-review-ediff-test--accepted (client)
  "Wait until CLIENT is notified of an accept; return the accepted text."
  (alist-get 'content (fake-cli-wait-notification client "ide/diffAccepted")))

(ert-deftest gemini-companion-review-ediff/unsaved-edits-of-other-lines-are-merged-by-a-key ()
  "Also if the proposed text is narrowed, or read-only."
  (gemini-companion-test-with-client client
    (gemini-companion-test-file "a.txt" "one\ntwo\nthree\nfour\n")
    (revert-buffer nil t)
    (goto-char (point-max))
    (insert "mine\n")
    (let ((review (gemini-companion-review-ediff-test--show client "1\ntwo\nthree\nfour\n" 'select)))
      (set-buffer (window-buffer))
      (with-current-buffer (gemini-companion-review-proposal review)
        (narrow-to-region 1 3)
        (setq buffer-read-only t))
      (call-interactively (key-binding (kbd "C-c C-e")))
      (with-current-buffer (gemini-companion-review-proposal review)
        (widen)
        (setq buffer-read-only nil))
      (should (equal (gemini-companion-review-ediff-test--texts)
                     '("one\ntwo\nthree\nfour\n" "1\ntwo\nthree\nfour\nmine\n")))
      (with-current-buffer (gemini-companion-review-proposal review)
        (should-not (string-match-p "Unsaved" (gemini-companion-review-buffer--header-line)))
        ;; One undo takes the merge back.
        (undo-boundary)
        (let ((last-command nil) (this-command nil)) (undo))
        (should (equal (buffer-string) "1\ntwo\nthree\nfour\n")))
      ;; The edits are missing again.
      (should (gemini-companion-review-ediff-test--answering ?m
                (should-error (gemini-companion-accept) :type 'user-error)))
      (with-current-buffer (gemini-companion-review-proposal review)
        (goto-char (point-min))
        (insert "0\n"))
      (should-not (gemini-companion-review-ediff-test--answering ?c (gemini-companion-accept)))
      (should (equal (gemini-companion-review-ediff-test--accepted client)
                     "0\n1\ntwo\nthree\nfour\nmine\n"))
      ;; The client writes the text, and the buffer, whose edits it contains, is reverted.
      (gemini-companion-test-file "a.txt" "0\n1\ntwo\nthree\nfour\nmine\n")
      (with-current-buffer "a.txt"
        (gemini-companion-test-wait
         "the buffer to follow" (lambda () (not (buffer-modified-p))))
        (should (equal (buffer-string) "0\n1\ntwo\nthree\nfour\nmine\n"))))))

(defun gemini-companion-review-ediff-test--merge (client)
  "Have CLIENT propose to change line 1, and merge an unsaved line into that."
  (gemini-companion-test-file "a.txt" "one\ntwo\nthree\n")
  (revert-buffer nil t)
  (goto-char (point-max))
  (insert "mine\n")
  (gemini-companion-review-ediff-test--show client "1\ntwo\nthree\n" 'select)
  (gemini-companion-review-merge))

(ert-deftest gemini-companion-review-ediff/edits-after-a-merge-are-kept ()
  (gemini-companion-test-with-client client
    (gemini-companion-review-ediff-test--merge client)
    (with-current-buffer "a.txt"
      (goto-char (point-max))
      (insert "more\n"))
    ;; The proposal lacks these edits again.
    (should (gemini-companion-review-ediff-test--answering ?a (gemini-companion-accept)))
    (should (equal (gemini-companion-review-ediff-test--accepted client) "1\ntwo\nthree\nmine\n"))
    (gemini-companion-test-file "a.txt" "1\ntwo\nthree\nmine\n")
    (gemini-companion-test-wait-followed)
    (with-current-buffer "a.txt"
      (should (buffer-modified-p))
      (should (equal (buffer-string) "one\ntwo\nthree\nmine\nmore\n"))
      (set-buffer-modified-p nil))))

;; Packages such as super-save do that by themselves when windows change.
(ert-deftest gemini-companion-review-ediff/edits-that-are-saved-after-a-merge-are-not-missing ()
  (gemini-companion-test-with-client client
    (gemini-companion-review-ediff-test--merge client)
    (let ((review (gemini-companion-review-shown)))
      (with-current-buffer "a.txt" (save-buffer))
      (should-not (gemini-companion-review-effect-check-conflict review))
      ;; They are if the user undoes the merge.
      (with-current-buffer (gemini-companion-review-proposal review)
        (let ((last-command nil)) (undo))
        (should (equal (buffer-string) "1\ntwo\nthree\n"))
        (should (eq (gemini-companion-review-effect-check-conflict review) 'changed)))
      (gemini-companion-review-merge)
      (should-not (gemini-companion-review-ediff-test--answering ?c (gemini-companion-accept)))
      (should (equal (gemini-companion-review-ediff-test--accepted client)
                     "1\ntwo\nthree\nmine\n")))))

(ert-deftest gemini-companion-review-ediff/edits-that-the-written-file-lacks-after-a-merge-are-kept ()
  "The user may go on typing, or the client write its own proposal."
  (pcase-dolist (`(,more . ,written) '(("more\n" . "1\ntwo\nthree\nmine\n")
                                       ("" . "1\ntwo\nthree\n")))
    (gemini-companion-test-with-client client
      (gemini-companion-review-ediff-test--merge client)
      (gemini-companion-accept)
      (with-current-buffer "a.txt"
        (goto-char (point-max))
        (insert more))
      (gemini-companion-test-file "a.txt" written)
      (gemini-companion-test-wait-followed)
      (with-current-buffer "a.txt"
        (should (buffer-modified-p))
        (should (equal (buffer-string) (concat "one\ntwo\nthree\nmine\n" more)))
        (set-buffer-modified-p nil)))))

(ert-deftest gemini-companion-review-ediff/after-a-merge-a-message-names-the-key-that-works-there ()
  (gemini-companion-test-with-client client
    (goto-char (point-max))
    (insert "mine\n")
    (gemini-companion-review-ediff-test--show client "1\ntwo\n" 'select)
    (set-buffer (window-buffer))
    (gemini-companion-test-with-answer nil
      (cl-letf (((symbol-function 'gemini-companion-test--selected-buffer)
                 (lambda (&rest _) (window-buffer))))
        (call-interactively (key-binding (kbd "C-c C-e"))))
      (should (equal (car gemini-companion-test-messages)
                     "Merged into the proposed text; C-c C-c accepts it")))))

(ert-deftest gemini-companion-review-ediff/edits-of-the-same-lines-are-not-merged ()
  (gemini-companion-test-with-client client
    (goto-char (point-min))
    (insert "mine ")
    (let ((review (gemini-companion-review-ediff-test--show client "1\ntwo\n" 'select)))
      (set-buffer (window-buffer))
      (should (string-match-p
               "overlap, first at line 1 .*C-c C-t shows all texts"
               (cadr (should-error (gemini-companion-review-merge) :type 'user-error))))
      (should (equal (gemini-companion-review-current-text review) "1\ntwo\n"))
      (should (eq (gemini-companion-review-effect-conflict review) 'unsaved)))
    (with-current-buffer "a.txt" (set-buffer-modified-p nil))))

(ert-deftest gemini-companion-review-ediff/changes-on-disk-are-merged ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-file "a.txt" "one\ntwo\nthree\n")
    (revert-buffer nil t)
    (let ((review (gemini-companion-review-ediff-test--show client "1\ntwo\nthree\n" 'select)))
      (gemini-companion-test-file "a.txt" "one\ntwo\nthree\nfour\n")
      (should (gemini-companion-review-ediff-test--answering ?m
                (should-error (gemini-companion-accept) :type 'user-error)))
      (should (equal (gemini-companion-review-ediff-test--texts)
                     '("one\ntwo\nthree\nfour\n" "1\ntwo\nthree\nfour\n")))
      (should-not (gemini-companion-review-effect-conflict review))
      (should-not (gemini-companion-review-ediff-test--answering ?c (gemini-companion-accept)))
      (should (equal (gemini-companion-review-ediff-test--accepted client)
                     "1\ntwo\nthree\nfour\n")))))

(ert-deftest gemini-companion-review-ediff/an-undone-merge-of-changes-on-disk-is-missing-again ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-file "a.txt" "one\ntwo\nthree\n")
    (kill-buffer "a.txt")
    (let* ((review (gemini-companion-review-ediff-test--show client "1\ntwo\nthree\n" 'select))
           (write (lambda (text)
                    (gemini-companion-test-file "a.txt" text)
                    (should (eq (gemini-companion-review-effect-conflict review) 'changed))
                    (gemini-companion-review-merge)
                    (should-not (gemini-companion-review-effect-conflict review)))))
      (funcall write "one\ntwo\nthree\nfour\n")
      (funcall write "one\ntwo\nthree\nfour\nfive\n")
      (with-current-buffer (gemini-companion-review-proposal review)
        (let ((last-command nil)) (undo))
        (should (equal (buffer-string) "1\ntwo\nthree\nfour\n"))
        (should (eq (gemini-companion-review-effect-conflict review) 'changed))
        (let ((last-command 'undo)) (undo))
        (should (equal (buffer-string) "1\ntwo\nthree\n")))
      (should (eq (gemini-companion-review-effect-conflict review) 'changed))
      ;; It can be merged again.
      (gemini-companion-review-merge)
      (should (equal (gemini-companion-review-ediff-test--texts)
                     '("one\ntwo\nthree\nfour\nfive\n" "1\ntwo\nthree\nfour\nfive\n")))
      (should-not (gemini-companion-review-ediff-test--answering ?c (gemini-companion-accept))))))

(ert-deftest gemini-companion-review-ediff/changes-on-disk-are-merged-even-if-unsaved-edits-overlap ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-file "a.txt" "one\ntwo\nthree\n")
    (revert-buffer nil t)
    (let ((review (gemini-companion-review-ediff-test--show client "1\ntwo\nthree\n" 'select)))
      (gemini-companion-test-file "a.txt" "one\ntwo\nthree\nfour\n")
      (with-current-buffer "a.txt"
        (revert-buffer nil t)
        (goto-char (point-min))
        (insert "mine "))
      (should (string-search "overlap"
                             (cadr (should-error (gemini-companion-review-merge)
                                                 :type 'user-error))))
      (should (equal (gemini-companion-review-ediff-test--texts)
                     '("one\ntwo\nthree\nfour\n" "1\ntwo\nthree\nfour\n")))
      (should (eq (gemini-companion-review-conflict review) 'unsaved))
      (with-current-buffer "a.txt" (set-buffer-modified-p nil)))))

(ert-deftest gemini-companion-review-ediff/edits-of-another-text-than-the-file-s-keep-it-from-being-merged ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-ediff-test--show client "1\ntwo\n" 'select)))
      (with-current-buffer "a.txt"
        (goto-char (point-max))
        (insert "mine\n"))
      (gemini-companion-test-file "a.txt" "one\ntwo\nthree\nfour\n")
      (should (string-search "save or revert its buffer"
                             (cadr (should-error (gemini-companion-review-merge)
                                                 :type 'user-error))))
      (should (equal (gemini-companion-review-current-text review) "1\ntwo\n"))
      (with-current-buffer "a.txt" (set-buffer-modified-p nil)))))

;; Otherwise the proposal would lose the markup, or have "Ã©" in place of "é".
(ert-deftest gemini-companion-review-ediff/a-buffer-that-does-not-show-the-file-as-it-is-is-not-merged ()
  (pcase-dolist (`(,head ,coding ,multibyte)
                 '(("Content-Type: text/enriched\nText-Width: 70\n\n<bold>bold</bold>\nsome\n" nil t)
                   ("café\nsome\n" latin-1 t)
                   ("café\nsome\n" nil nil)))
    (gemini-companion-test-with-client client
      (let* ((inhibit-message t)
             (lines "one\ntwo\nthree\nfour\nfive\n")
             (file (gemini-companion-test-file "b.txt" (concat head lines "\nend\n")))
             (proposed (concat head "One" (substring lines 3) "\nend\n")))
        (with-current-buffer (let ((coding-system-for-read coding)) (find-file-noselect file))
          (set-buffer-multibyte multibyte)
          (insert "mine\n"))
        (let ((review (gemini-companion-test-propose client "b.txt" proposed)))
          (should (string-search "save or revert its buffer"
                                 (cadr (should-error (gemini-companion-review-effect-merge review)
                                                     :type 'user-error))))
          (should (equal (gemini-companion-review-current-text review) proposed)))))))

;; A CLI edits the text with the mark, which Emacs leaves out of a buffer.
(ert-deftest gemini-companion-review-ediff/a-byte-order-mark-is-no-difference ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-file "a.txt" "\ufeffone\ntwo\nthree\nfour\nfive\n")
    (revert-buffer nil t)
    (let ((review (gemini-companion-review-ediff-test--show
                   client "\ufeffone\ntwo\nthree\nfour\n5\n" 'select)))
      (should (equal (gemini-companion-change-size
                      (gemini-companion-review-effect-change review))
                     "+1 -1"))
      (should (equal (gemini-companion-review-ediff-test--texts)
                     '("\ufeffone\ntwo\nthree\nfour\nfive\n"
                       "\ufeffone\ntwo\nthree\nfour\n5\n")))
      ;; Nor are edits of the first line in the way of a merge.
      (with-current-buffer "a.txt"
        (goto-char (point-min))
        (insert "mine "))
      (gemini-companion-review-merge)
      (should (equal (gemini-companion-review-current-text review)
                     "\ufeffmine one\ntwo\nthree\nfour\n5\n"))
      (should-not (gemini-companion-review-effect-conflict review))
      (with-current-buffer "a.txt" (set-buffer-modified-p nil)))))

(ert-deftest gemini-companion-review-ediff/without-edits-there-is-nothing-to-merge ()
  (gemini-companion-test-with-client client
    (gemini-companion-review-ediff-test--show client "1\ntwo\n" 'select)
    (should-error (gemini-companion-review-merge) :type 'user-error)))

(ert-deftest gemini-companion-review-ediff/copying-asks-before-a-difference-was-selected ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-ediff-test--show client "1\n2\n" 'select))
          (asked 0))
      (cl-letf (((symbol-function 'y-or-n-p) (lambda (_) (setq asked (1+ asked)) nil)))
        (set-buffer (window-buffer))
        (call-interactively (key-binding "a"))
        (should (equal (gemini-companion-review-current-text review) "1\n2\n"))
        (should (= asked 1))
        ;; With a difference selected by the user, there is no question.
        (ediff-jump-to-difference 1)
        (call-interactively (key-binding "a"))
        (should (= asked 1))
        (should (equal (gemini-companion-review-current-text review) "one\ntwo\n"))))))

(ert-deftest gemini-companion-review-ediff/differences-are-highlighted ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-ediff-test--show client "1\ntwo\n")))
      (with-current-buffer (gemini-companion-review-proposal review)
        (should (equal (alist-get 'ediff-even-diff-B face-remapping-alist)
                       '(gemini-companion-added))))
      (with-current-buffer (car ediff-session-registry)
        (should (equal (alist-get 'ediff-odd-diff-A
                                  (buffer-local-value 'face-remapping-alist ediff-buffer-A))
                       '(gemini-companion-removed)))
        (should (string-match-p "n p move  a drops  e edits" (buffer-string)))
        ;; Nor is it out of sight when the frame becomes narrower.
        (should (string-prefix-p "n p move" (buffer-string)))))))

(ert-deftest gemini-companion-review-ediff/text-is-scaled-as-in-the-buffer-of-the-file ()
  (gemini-companion-test-with-client client
    (let ((scale (lambda (buffer)
                   (plist-get (car (alist-get 'default (buffer-local-value 'face-remapping-alist
                                                                           buffer)))
                              :height))))
      (with-current-buffer "a.txt"
        (text-scale-set 3))
      (let* ((review (gemini-companion-review-ediff-test--show client "1\ntwo\n"))
             (proposal (gemini-companion-review-proposal review))
             (wanted (funcall scale (get-buffer "a.txt"))))
        (should (< 1.5 wanted))
        (with-current-buffer (car ediff-session-registry)
          (should (equal (funcall scale ediff-buffer-A) wanted)))
        (should (equal (funcall scale proposal) wanted))
        (gemini-companion-review-postpone review)
        (should-not (string-search "ediff" (prin1-to-string (buffer-local-value
                                                             'face-remapping-alist proposal))))
        (should (equal (funcall scale proposal) wanted))))))

(ert-deftest gemini-companion-review-ediff/changes-on-disk-are-shown ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-ediff-test--show client "1\ntwo\n")))
      (should-not (gemini-companion-review-effect-warning review))
      (gemini-companion-test-file "a.txt" "one\ntwo\nthree\n")
      (gemini-companion-test-wait
       "the warning" (lambda () (gemini-companion-review-effect-warning review)))
      (with-current-buffer (gemini-companion-review-proposal review)
        (should (string-match-p "\\` Changed on disk  C-c C-e merges.*a.txt"
                                (gemini-companion-review-buffer--header-line)))
        (gemini-companion-review-three-way))
      (should (equal (gemini-companion-review-ediff-test--texts)
                     '("one\ntwo\nthree\n" "1\ntwo\n" "one\ntwo\n")))
      (gemini-companion-review-three-way)
      (should (= (length (gemini-companion-review-ediff-test--texts)) 2))
      (should (gemini-companion-review-ediff-test--answering ?c
                (should-error (gemini-companion-accept) :type 'user-error)))
      (should (memq review (gemini-companion-review-all-open))))))

(ert-deftest gemini-companion-review-ediff/keys-copy-from-both-other-texts-and-comment ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-ediff-test--show client "1\ntwo\nlast\n" 'select)))
      (gemini-companion-test-file "a.txt" "zero\ntwo\n9\n")
      (gemini-companion-test-wait
       "the warning" (lambda () (gemini-companion-review-effect-warning review)))
      (with-current-buffer (gemini-companion-review-proposal review)
        (gemini-companion-review-three-way))
      (select-window (get-buffer-window (car ediff-session-registry)))
      (pcase-dolist (`(,keys . ,text) '(("n" . "1\ntwo\nlast\n") ("c b" . "1\ntwo\n")
                                        ("p" . "1\ntwo\n") ("a b" . "zero\ntwo\n")))
        (execute-kbd-macro (kbd keys))
        (should (equal (gemini-companion-review-current-text review) text)))
      (cl-letf (((symbol-function 'read-string) (lambda (&rest _) "why?")))
        (execute-kbd-macro (kbd "C-c ;")))
      (should (equal (mapcar #'butlast (gemini-companion-comment-list
                                        (gemini-companion-review-proposal review)))
                     '((1 1 nil "why?" "zero")))))))

(ert-deftest gemini-companion-review-ediff/after-a-merge-the-third-text-is-called-merged ()
  (gemini-companion-test-with-client client
    (gemini-companion-review-ediff-test--show client "1\ntwo\n")
    (let ((third (lambda ()
                   (gemini-companion-review-three-way)
                   (with-current-buffer (buffer-local-value 'ediff-buffer-C
                                                            (car ediff-session-registry))
                     (prog1 (list (gemini-companion-review-buffer--header-line) (buffer-string))
                       (gemini-companion-review-three-way))))))
      (should (string-match-p "When proposed" (car (funcall third))))
      (gemini-companion-test-file "a.txt" "one\ntwo\nthree\n")
      (gemini-companion-review-merge)
      (pcase-let ((`(,header ,text) (funcall third)))
        (should (string-match-p "When merged" header))
        (should (equal text "one\ntwo\nthree\n"))))))

(ert-deftest gemini-companion-review-ediff/writing-the-same-text-is-no-change ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-ediff-test--show client "1\ntwo\n")))
      (gemini-companion-test-file "a.txt" "one\ntwo\n")
      (set-file-times (gemini-companion-test-file "a.txt") '(0 0))
      (gemini-companion-review-popup--check-file)
      (should-not (gemini-companion-review-effect-warning review))
      (should-not (gemini-companion-review-ediff-test--answering ?c (gemini-companion-accept))))))

;;;; Differences

(defun gemini-companion-review-ediff-test--differences ()
  "Return the texts of each difference in the session on screen.
In a session of three texts the state of A and of B follow: to which other
text they are equal there."
  (with-current-buffer (car ediff-session-registry)
    (let ((control (current-buffer)))
      (mapcar (lambda (number)
                (append (mapcar (lambda (type) (ediff-get-region-contents number type control))
                                (if ediff-3way-job '(A B C) '(A B)))
                        (and ediff-3way-job
                             (mapcar (lambda (type) (ediff-get-state-of-diff number type))
                                     '(A B)))))
              (number-sequence 0 (1- ediff-number-of-differences))))))

(ert-deftest gemini-companion-review-ediff/differences-are-those-of-the-texts ()
  "Also after the proposal was edited and compared again."
  (gemini-companion-test-with-client client
    (gemini-companion-test-file "a.txt" "ä\n2\n3\n4\n5\n")
    (let ((review (gemini-companion-review-ediff-test--show client "ö\n2\n3\n4\nnew\n5")))
      (should (equal (gemini-companion-review-ediff-test--differences)
                     '(("ä\n" "ö\n") ("5\n" "new\n5"))))
      (with-current-buffer (gemini-companion-review-proposal review)
        (goto-char (point-min))
        (delete-region (point) (line-end-position 3)))
      (select-window (get-buffer-window (car ediff-session-registry)))
      (ediff-update-diffs)
      (should (equal (gemini-companion-review-ediff-test--differences)
                     '(("ä\n2\n3\n" "\n") ("5\n" "new\n5")))))))

(ert-deftest gemini-companion-review-ediff/three-texts-are-compared-as-diff3-does ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-test-propose client "a.txt" "1\nB\n3\n4\n5\nB\n7\nsame\n")))
      (setf (gemini-companion-review-base review)
            (encode-coding-string "1\n2\n3\n4\n5\n6\n7\n8\n" 'utf-8)
            (gemini-companion-review-with-base review) t)
      (gemini-companion-test-file "a.txt" "1\n2\n3\nA\n5\nA\n7\nsame\n")
      (gemini-companion-review-show review 'keep)
      (with-current-buffer (car ediff-session-registry)
        (dolist (buffer (list ediff-buffer-A ediff-buffer-C))
          (should (buffer-local-value 'buffer-read-only buffer))))
      (let ((expected '(("2\n" "B\n" "2\n" "=diff(C)" nil)
                        ("A\n" "4\n" "4\n" nil "=diff(C)")
                        ("A\n" "B\n" "6\n" nil nil)
                        ("same\n" "same\n" "8\n" "=diff(B)" "=diff(A)"))))
        (should (equal (gemini-companion-review-ediff-test--differences) expected))
        (select-window (get-buffer-window (car ediff-session-registry)))
        (setq ediff-setup-diff-regions-function #'ediff-setup-diff-regions3)
        (ediff-update-diffs)
        (should (equal (gemini-companion-review-ediff-test--differences) expected))))))

(ert-deftest gemini-companion-review-ediff/more-differences-than-are-shown-are-joined ()
  (gemini-companion-test-with-client client
    ;; Lines that are only added are compared fast, also while the machine is busy.
    (let ((lines (mapcar (lambda (number) (format "%d\n" number)) (number-sequence 1 1010))))
      (gemini-companion-test-file "a.txt" (string-join lines))
      (gemini-companion-review-ediff-test--show
       client (mapconcat (lambda (line) (concat line "c\n")) lines "")))
    (let ((differences (gemini-companion-review-ediff-test--differences)))
      (should (equal (length differences) 1000))
      (should (equal (car differences) '("" "c\n"))))))

(ert-deftest gemini-companion-review-ediff/all-of-a-difference-with-wrapped-lines-is-in-its-windows ()
  (gemini-companion-test-with-client client
    (let ((lines (lambda (begin)
                   (mapconcat (lambda (number)
                                (format "%s %d %s\n" (if (<= 20 number 21) begin "same") number
                                        (make-string 100 ?x)))
                              (number-sequence 1 40) ""))))
      (gemini-companion-test-file "a.txt" (funcall lines "old"))
      (let ((review (gemini-companion-review-ediff-test--show client (funcall lines "new"))))
        (dolist (window (with-current-buffer (gemini-companion-review-front review)
                          (list ediff-window-A ediff-window-B)))
          (with-selected-window window
            (goto-char (point-min))
            (search-forward " 21 ")
            (should (<= (count-screen-lines (window-start) (line-end-position))
                        (window-body-height)))))))))

(ert-deftest gemini-companion-review-ediff/without-the-program-diff-no-words-are-compared ()
  (require 'ediff)
  (gemini-companion-test-with-client client
    (gemini-companion-test-file "a.txt" "one\ntwo three\n")
    (cl-letf ((ediff-diff-program "/nonexistent/diff")
              ;; As in an Emacs with a screen.
              ((default-value 'ediff-auto-refine) 'on)
              ((default-value 'ediff-highlighting-style) 'face))
      ;; Without text on both sides, there are no words to compare.
      (let ((review (gemini-companion-review-ediff-test--show client "new\none\ntwo four\n" 'select)))
        (should (equal (gemini-companion-review-ediff-test--differences)
                       '(("" "new\n") ("two three\n" "two four\n"))))
        (with-current-buffer (gemini-companion-review-front review)
          (should (equal ediff-current-difference 0))
          (ediff-next-difference)
          (should (equal ediff-current-difference 1)))))))

;;; gemini-companion-review-ediff-test.el ends here

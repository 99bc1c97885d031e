;;; gemini-companion-review-list-test.el --- Tests of the list of open changes  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'hl-line)
(require 'gemini-companion-test-lists)

;;;; Open changes

(ert-deftest gemini-companion-review-list/columns ()
  (gemini-companion-test-with-lists client
    (gemini-companion-test-propose client "a.txt" "one\n2\nthree\n")
    (let ((late (gemini-companion-test-propose client "new/b\n.txt" "1\n2\n3"))
          (project (file-name-nondirectory
                    (directory-file-name gemini-companion-test-project))))
      (setf (gemini-companion-review-created late) (time-subtract nil 150)
            (gemini-companion-review-client late) "Evil\nclient")
      (gemini-companion-review-list)
      (pcase-let ((`((,file ,client ,age ,change ,state) . ,_)
                   (gemini-companion-test-list-rows "*gemini changes*")))
        (should (equal file (concat project "/a.txt")))
        (should (equal client "fake-cli 1"))
        (should (string-match-p "\\`[0-9] s\\'" age))
        (should (equal change "+2 -1"))
        (should (string-prefix-p "waiting" state)))
      (pcase-let ((`(,_ (,file ,client ,age ,change ,state))
                   (gemini-companion-test-list-rows "*gemini changes*")))
        (should (equal file (concat project "/new/b^J.txt")))
        (should (equal (list client age change) '("Evil^Jclient" "2 min" "new, +3")))
        (should (string-prefix-p "waiting" state)))
      (with-current-buffer "*gemini changes*"
        ;; The first line names the columns.
        (should (equal (count-lines (point-min) (point-max)) 3))))))

(ert-deftest gemini-companion-review-list/there-are-no-line-numbers ()
  "Emacs would put the names of columns beside these."
  (gemini-companion-test-with-lists client
    (global-display-line-numbers-mode 1)
    (unwind-protect
        (progn
          (gemini-companion-review-list)
          (should-not display-line-numbers))
      (global-display-line-numbers-mode -1))))

(ert-deftest gemini-companion-review-list/states ()
  (gemini-companion-test-with-lists client
    (let ((shown (gemini-companion-test-propose client "a.txt" "2\n"))
          (later (gemini-companion-test-propose client "b.txt" "b"))
          (states (lambda ()
                    (gemini-companion-review-list)
                    (gemini-companion-test-list-column "*gemini changes*" 4))))
      (should (seq-every-p (lambda (state) (string-prefix-p "waiting" state))
                           (funcall states)))
      (gemini-companion-review-show shown 'keep)
      (gemini-companion-review-postpone later)
      (should (equal (funcall states) '("on screen" "put off")))
      (with-current-buffer (get-file-buffer (gemini-companion-test-file "a.txt"))
        (let ((create-lockfiles nil)) (insert "mine ")))
      (gemini-companion-test-file "b.txt" "other")
      (should (equal (funcall states)
                     '("on screen, unsaved edits" "put off, changed on disk"))))))

(ert-deftest gemini-companion-review-list/what-keeps-a-change-from-the-screen-is-said ()
  (gemini-companion-test-with-lists client
    (let ((check (lambda (reason)
                   (gemini-companion-review-list)
                   (should (equal (car (gemini-companion-test-list-column "*gemini changes*" 4))
                                  reason))
                   (gemini-companion-status)
                   (with-current-buffer "*gemini status*"
                     (should (string-search (concat "a.txt: " reason) (buffer-string))))
                   (should (string-search (concat "review 1: " reason)
                                          (string-join (gemini-companion-log-last 20)))))))
      (gemini-companion-test-propose client "a.txt" "2\n")
      (let ((gemini-companion-diff-policy 'queue))
        (gemini-companion-review-note-change)
        (funcall check "queued"))
      (let ((gemini-companion-diff-focus 'announce))
        (gemini-companion-review-note-change)
        (funcall check "announced"))
      (let ((prefix-arg '(4)))
        (gemini-companion-review-popup--try)
        (funcall check "waiting: a prefix argument was given"))
      (let ((defining-kbd-macro t))
        (gemini-companion-review-popup--try)
        (funcall check "waiting: a keyboard macro is active")))))

(ert-deftest gemini-companion-review-list/an-option-that-holds-a-change-back-is-said-at-once ()
  (gemini-companion-test-with-lists client
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (unwind-protect
          (progn
            (setq gemini-companion-diff-policy 'queue)
            (gemini-companion-test-wait
             "the reason" (lambda ()
                            (equal (gemini-companion-review-popup-state review)
                                   "queued"))))
        (setq gemini-companion-diff-policy 'pop-up)))))

(ert-deftest gemini-companion-review-list/a-change-says-which-one-comes-first ()
  (gemini-companion-test-with-lists client
    (gemini-companion-test-propose client "a.txt" "2\n")
    (let ((later (gemini-companion-test-propose client "b.txt" "b")))
      (should (equal (gemini-companion-review-popup-state later) "waiting for a.txt"))
      (let ((gemini-companion-workspace-roots (list (gemini-companion-test-file "tree/"))))
        (gemini-companion-workspace-roots)
        (gemini-companion-test-propose client "tree/a.txt" "2\n")
        (gemini-companion-review-popup--record-reasons)
        (should (equal (gemini-companion-review-popup-state later)
                       (format "waiting for %s/a.txt"
                               (file-name-nondirectory
                                (directory-file-name gemini-companion-test-project)))))))))

(ert-deftest gemini-companion-review-list/sizes-of-edited-and-unusual-texts ()
  (gemini-companion-test-with-lists client
    (gemini-companion-test-file "dos.txt" "one\r\ntwo\r\n")
    (gemini-companion-test-write-bytes "nul" "a\0\nb\nc")
    (gemini-companion-test-write-bytes "latin.txt" "caf\351\nb\n")
    (gemini-companion-test-propose client "dos.txt" "one\n2\n")
    (gemini-companion-test-propose client "nul" "a\0\nb\nc\n")
    (gemini-companion-test-propose client "latin.txt" "café\nc\n")
    (gemini-companion-test-propose client "empty.txt" "")
    (let* ((review (gemini-companion-test-propose client "a.txt" "one\ntwo\n"))
           (changes (lambda ()
                      (gemini-companion-test-list-column "*gemini changes*" 3)))
           (last-is (lambda (change)
                      (gemini-companion-test-wait
                       change (lambda () (equal (nth 4 (funcall changes)) change))))))
      (gemini-companion-review-list)
      (should (equal (funcall changes) '("+1 -1" "+1 -1" "+1 -1" "new, +0" "+0 -0")))
      (with-current-buffer (gemini-companion-review-buffer-proposal review)
        (insert "zero\n"))
      (gemini-companion-review-list)
      (funcall last-is "+1 -0")
      (with-current-buffer (gemini-companion-review-buffer-proposal review)
        (insert "and\n"))
      (gemini-companion-review-list)
      (funcall last-is "+2 -0")
      ;; Nothing is counted twice.
      (cl-letf (((symbol-function 'gemini-companion-review--count-lines) #'error))
        (gemini-companion-review-list)
        (should (equal (funcall changes) '("+1 -1" "+1 -1" "+1 -1" "new, +0" "+2 -0")))))))

(ert-deftest gemini-companion-review-list/keys-act-on-the-current-line ()
  (gemini-companion-test-with-lists client
    (dolist (name '("a.txt" "b.txt" "c.txt" "d.txt"))
      (gemini-companion-test-propose client name name))
    (gemini-companion-review-list)
    (gemini-companion-test-list-goto "*gemini changes*" 2)
    ;; A change not yet on screen is shown first; the list stays selected.
    (gemini-companion-test-list-press "a")
    (should (equal (gemini-companion-review-file (gemini-companion-review-shown)) "b.txt"))
    (should (= (gemini-companion-review-count) 4))
    (should (equal (buffer-name (window-buffer)) "*gemini changes*"))
    ;; The same key again comes before the user can have read it.
    (should (equal "b.txt has just appeared: check it, then decide"
                   (cadr (should-error (gemini-companion-test-list-press "a") :type 'user-error))))
    (setf (gemini-companion-review-seen (gemini-companion-review-shown)) 1)
    (gemini-companion-test-list-press "a")
    (should (equal (alist-get 'content (fake-cli-wait-notification client "ide/diffAccepted"))
                   "b.txt"))
    (should (equal (buffer-name (window-buffer)) "*gemini changes*"))
    ;; The next change is on this line now.
    (gemini-companion-test-list-press "k")
    (should (string-suffix-p "c.txt" (alist-get 'filePath (fake-cli-wait-notification
                                                           client "ide/diffRejected"))))
    (gemini-companion-test-list-press "RET")
    (should (equal (gemini-companion-review-file (gemini-companion-review-shown)) "d.txt"))
    (gemini-companion-test-list-goto "*gemini changes*" 2)
    (gemini-companion-test-list-press "r")
    (should (equal (gemini-companion-test-list-files "*gemini changes*" 0) '("a.txt")))
    (gemini-companion-test-list-press "h")
    (should (equal (gemini-companion-test-list-files "*gemini history*" 2)
                   '("d.txt" "c.txt" "b.txt")))
    (with-temp-buffer
      (gemini-companion-review-list-mode)
      (should-error (gemini-companion-test-list-press "a") :type 'user-error))))

(ert-deftest gemini-companion-review-list/accept-asks-the-usual-questions ()
  (gemini-companion-test-with-lists client
    (gemini-companion-test-propose client "b.txt" "b")
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (let ((create-lockfiles nil)) (insert "mine "))
      (gemini-companion-review-show review 'keep)
      (setf (gemini-companion-review-seen review) 1) ; long ago
      (gemini-companion-review-list)
      (gemini-companion-test-list-goto "*gemini changes*" 2)
      (let (asked)
        (cl-letf (((symbol-function 'read-multiple-choice)
                   (lambda (prompt &rest _) (setq asked prompt) '(?t))))
          (should-error (gemini-companion-test-list-press "a") :type 'user-error))
        (should (string-match-p "a\\.txt has unsaved edits" asked)))
      ;; Ediff compares all three texts of this review.
      (should (eq (gemini-companion-review-shown) review))
      (with-current-buffer (car ediff-session-registry)
        (should ediff-3way-job)))))

(ert-deftest gemini-companion-review-list/a-decided-change-cannot-be-decided-again ()
  (gemini-companion-test-with-lists client
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n"))
          (gemini-companion-review-change-hook nil))
      (gemini-companion-review-list)
      (setq gemini-companion-review-change-hook nil)
      (gemini-companion-review-reject review)
      (gemini-companion-test-list-goto "*gemini changes*" 1)
      (dolist (key '("RET" "a" "r"))
        (should-error (gemini-companion-test-list-press key) :type 'user-error)))))

(ert-deftest gemini-companion-review-list/it-does-not-scroll-when-it-is-updated ()
  (gemini-companion-test-with-lists client
    (let ((first (gemini-companion-test-propose client "a.txt" "a"))
          (second (gemini-companion-test-propose client "b.txt" "b")))
      (gemini-companion-review-list)
      (gemini-companion-test-list-goto (current-buffer) 2)
      (set-window-start nil (point))
      (with-temp-buffer (gemini-companion-review-reject first))
      (should (eq (tabulated-list-get-id (window-start)) second)))))

(ert-deftest gemini-companion-review-list/it-is-updated-and-point-stays ()
  (gemini-companion-test-with-lists client
    (let ((first (gemini-companion-test-propose client "a.txt" "a"))
          (second (gemini-companion-test-propose client "b.txt" "b"))
          third)
      (gemini-companion-review-list)
      (let ((window (selected-window)) (buffer (current-buffer)) other)
        (gemini-companion-test-list-goto buffer 2)
        (forward-char 3)
        (set-window-point window (point))
        (setq other (split-window))
        (with-temp-buffer
          (setq third (gemini-companion-test-propose client "c.txt" "c"))
          (set-window-point other (with-current-buffer buffer (1- (point-max))))
          (should (equal (gemini-companion-test-list-files buffer 0)
                         '("a.txt" "b.txt" "c.txt")))
          (gemini-companion-review-reject first))
        (should (eq (tabulated-list-get-id) second))
        (should (= (current-column) 3))
        (should (eq (tabulated-list-get-id (window-point window)) second))
        (should (eq (tabulated-list-get-id (window-point other)) third))
        ;; Its line is gone: point is at the last one.
        (with-temp-buffer (gemini-companion-review-reject third))
        (should (eq (tabulated-list-get-id (window-point other)) second))
        (gemini-companion-mode -1)
        (should (equal (gemini-companion-test-list-rows buffer) nil))))))

(ert-deftest gemini-companion-review-list/it-is-updated-and-the-region-stays ()
  "Otherwise the user would copy something else."
  (gemini-companion-test-with-lists client
    (let ((first (gemini-companion-test-propose client "a.txt" "a"))
          (transient-mark-mode t)
          region)
      (gemini-companion-test-propose client "b.txt" "b")
      (gemini-companion-review-list)
      (gemini-companion-test-list-goto (current-buffer) 2)
      (push-mark nil t t)
      (search-forward "b.txt")
      (setq region (buffer-substring-no-properties (region-beginning) (region-end)))
      (with-temp-buffer (gemini-companion-review-reject first))
      (should (use-region-p))
      (should (equal (buffer-substring-no-properties (region-beginning) (region-end))
                     region)))))

(ert-deftest gemini-companion-review-list/it-is-updated-and-the-current-line-stays-highlighted ()
  "Whichever mode of Hl-Line the user has turned on."
  (dolist (mode '(hl-line-mode global-hl-line-mode))
    (gemini-companion-test-with-lists client
      (let ((first (gemini-companion-test-propose client "a.txt" "a")))
        (gemini-companion-test-propose client "b.txt" "b")
        (gemini-companion-review-list)
        (gemini-companion-test-list-goto (current-buffer) 2)
        (unwind-protect
            (progn
              (funcall mode 1)
              (funcall (if (eq mode 'hl-line-mode) #'hl-line-highlight
                         #'global-hl-line-highlight))
              (with-temp-buffer (gemini-companion-review-reject first))
              (should (eq (get-char-property (point) 'face) 'hl-line)))
          (funcall mode -1))))))

(ert-deftest gemini-companion-review-list/after-the-last-change-point-is-where-the-next-one-appears ()
  (gemini-companion-test-with-lists client
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (gemini-companion-review-list)
      (should (eq (tabulated-list-get-id) review))
      (gemini-companion-review-reject review)
      (should-not (tabulated-list-get-id))
      (should (eq (gemini-companion-test-propose client "b.txt" "2\n") (tabulated-list-get-id)))
      ;; The key was pressed before the user can have seen it.
      (should (string-search "has just changed"
                             (cadr (should-error (gemini-companion-test-list-press "k"))))))))

(ert-deftest gemini-companion-review-list/a-key-decides-only-what-the-user-has-seen ()
  "A client closes a review at the moment in which the user decides it."
  (gemini-companion-test-with-lists client
    (dolist (name '("a.txt" "b.txt"))
      (gemini-companion-test-propose client name name))
    (gemini-companion-review-list)
    (gemini-companion-test-list-goto "*gemini changes*" 1)
    (fake-cli-call-tool client "closeDiff"
                        `(:filePath ,(gemini-companion-test-file "a.txt")))
    (should (equal (gemini-companion-test-list-files "*gemini changes*" 0) '("b.txt")))
    (let ((gemini-companion-ui-reaction-time 1000))
      (dolist (key '("k" "r" "a"))
        (should (string-search "has just changed"
                               (cadr (should-error (gemini-companion-test-list-press key)
                                                   :type 'user-error))))))
    (should (= (gemini-companion-review-count) 1))
    ;; Later the key is for what is there.
    (let ((gemini-companion-ui-reaction-time -1))
      (gemini-companion-test-list-press "k"))
    (should (zerop (gemini-companion-review-count)))))

(ert-deftest gemini-companion-review-list/a-killed-list-leaves-nothing-behind ()
  (gemini-companion-test-with-project
    (let ((state (lambda () (list gemini-companion-review-change-hook (length timer-list)))))
      (let ((before (funcall state)))
        (gemini-companion-review-list)
        (gemini-companion-review-list)
        (gemini-companion-history-list)
        (should-not (equal (funcall state) before))
        (kill-buffer "*gemini changes*")
        (kill-buffer "*gemini history*")
        (should (equal (funcall state) before))))))

(ert-deftest gemini-companion-review-list/it-is-updated-only-in-a-window-and-when-it-is-shown-again ()
  (gemini-companion-test-with-lists client
    (dolist (name '("a.txt" "b.txt"))
      (gemini-companion-test-propose client name name))
    (gemini-companion-review-list)
    (let* ((buffer (current-buffer))
           (tick (buffer-chars-modified-tick)))
      (quit-window)
      (should-not (get-buffer-window buffer t))
      (gemini-companion-review-reject (car (gemini-companion-review-all-open)))
      (should (= (buffer-chars-modified-tick buffer) tick))
      (switch-to-buffer buffer)
      ;; As Emacs does before it draws a window that shows another buffer.
      (run-hook-with-args 'window-size-change-functions (selected-window))
      (should (equal (gemini-companion-test-list-files buffer 0) '("b.txt"))))))

(ert-deftest gemini-companion-review-list/ages-are-updated-while-it-is-visible ()
  (gemini-companion-test-with-lists client
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n"))
          (gemini-companion-review-list--interval 0.1))
      (gemini-companion-review-list)
      (setf (gemini-companion-review-created review) (time-subtract nil 7300))
      (gemini-companion-test-wait
       "the age" (lambda ()
                   (equal (gemini-companion-test-list-column "*gemini changes*" 2)
                          '("2 h")))))))

(ert-deftest gemini-companion-review-list/ages-stay-while-a-minibuffer-is-active ()
  "At its end, Emacs would move point to the first line, in windows that are not selected."
  (gemini-companion-test-with-lists client
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n"))
          (gemini-companion-review-list--interval 0.01)
          (ages (lambda () (gemini-companion-test-list-column "*gemini changes*" 2)))
          (later nil))
      (gemini-companion-review-list)
      (setf (gemini-companion-review-created review) (time-subtract nil 7300))
      (cl-letf (((symbol-function 'active-minibuffer-window) #'selected-window))
        (run-at-time 0.05 nil (lambda () (setq later (funcall ages))))
        (gemini-companion-test-wait "a later timer" (lambda () later)))
      (should-not (equal later '("2 h")))
      (gemini-companion-test-wait "the age" (lambda () (equal (funcall ages) '("2 h")))))))

;;;; Layout and keys of both lists

(ert-deftest gemini-companion-review-list/columns-fit-the-window ()
  (gemini-companion-test-with-lists client
    (let* ((gemini-companion-diff-policy 'queue)
           (short "a.txt")
           (long "some/where/deep/in/the/project/with_a_long_name.txt")
           (project (file-name-nondirectory (directory-file-name gemini-companion-test-project)))
           (width (lambda () (apply #'max (mapcar #'string-width
                                                  (gemini-companion-test-list-lines
                                                   "*gemini changes*")))))
           (files (lambda () (gemini-companion-test-list-column "*gemini changes*" 0))))
      (gemini-companion-test-propose client short "1\n")
      (setf (gemini-companion-review-client (gemini-companion-test-propose client long "1\n"))
            "some-client-of-the-protocol 1.2.3")
      (let ((gemini-companion-test-list-width 150))
        (gemini-companion-review-list)
        (should (equal (funcall files) (list (concat project "/" short)
                                             (concat project "/" long)))))
      ;; A path is cut at its start, and only as far as needed.
      (let ((gemini-companion-test-list-width 80))
        (gemini-companion-review-list-print)
        (should (<= (funcall width) 80))
        (should (string-match-p "\\`….*/project/with_a_long_name\\.txt\\'" (cadr (funcall files))))
        (should (equal (car (funcall files)) (concat project "/" short)))
        (let ((lines (gemini-companion-test-list-lines "*gemini changes*")))
          (should (string-match-p "some-client-of-the" (nth 2 lines)))
          (should (string-suffix-p "new, +1 queued" (nth 2 lines)))))
      (let ((gemini-companion-test-list-width 50))
        (gemini-companion-review-list-print)
        (should (<= (funcall width) 55))
        (should (string-suffix-p "_long_name.txt" (cadr (funcall files))))))))

(ert-deftest gemini-companion-review-list/a-click-on-a-file-does-what-ret-does ()
  (gemini-companion-test-with-lists client
    (gemini-companion-test-propose client "a.txt" "1\n")
    (gemini-companion-review-reject (gemini-companion-test-propose client "b.txt" "1\n"))
    (let ((elsewhere (selected-window)))
      (pcase-dolist (`(,list ,name) '((gemini-companion-review-list "a.txt")
                                      (gemini-companion-history-list "b.txt")))
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
          ;; So `mouse-1' acts like `mouse-2' there.
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

(ert-deftest gemini-companion-review-list/the-header-shows-the-keys-for-the-line ()
  (gemini-companion-test-with-lists client
    (gemini-companion-review-list)
    (should (equal (gemini-companion-test-list-keys)
                   " No change awaits your decision  h history  q quit"))
    (gemini-companion-test-propose client "a.txt" "1\n")
    (gemini-companion-test-list-goto "*gemini changes*" 1)
    (should (equal (gemini-companion-test-list-keys)
                   " RET show  a accept  r reject  h history  q quit"))
    (gemini-companion-test-list-goto "*gemini changes*" 2)
    (should (equal (gemini-companion-test-list-keys) " h history  q quit"))
    (gemini-companion-history-list)
    (should (equal (gemini-companion-test-list-keys)
                   " No change has been decided yet  q quit"))
    (gemini-companion-review-reject (car (gemini-companion-review-all-open)))
    (gemini-companion-test-accept-and-write client "b.txt" "b\n")
    (gemini-companion-test-list-goto "*gemini history*" 1)
    (should (equal (gemini-companion-test-list-keys)
                   " RET before and after  u undo  w write  q quit"))
    (gemini-companion-test-list-undo t)
    (should (equal (gemini-companion-test-list-keys)
                   " RET before and after  u make again  q quit"))
    (gemini-companion-test-list-goto "*gemini history*" 2)
    (should (equal (gemini-companion-test-list-keys) " RET before and after  q quit"))))

(ert-deftest gemini-companion-review-list/keys-in-the-header-can-be-clicked ()
  (gemini-companion-test-with-lists client
    (gemini-companion-test-propose client "a.txt" "1\n")
    (gemini-companion-review-list)
    (gemini-companion-test-list-goto "*gemini changes*" 1)
    (let* ((at (string-search "RET show" header-line-format))
           (click (lookup-key (get-text-property at 'keymap header-line-format)
                              [header-line mouse-1]))
           (last-input-event `(mouse-1 (,(selected-window) header-line (0 . 0) 0))))
      (funcall click last-input-event))
    (should (gemini-companion-review-shown))))

;;; gemini-companion-review-list-test.el ends here

;;; gemini-companion-review-test.el --- Tests of reviews and their view  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-companion)
(require 'gemini-companion-test-lists)
(defvar hydra-curr-map)

(defun gemini-companion-review-test--show (client name text)
  "Have CLIENT propose TEXT for the file NAME; show the review and return it."
  (let ((review (gemini-companion-test-propose client name text)))
    (gemini-companion-review-show review 'select)
    review))

(defun gemini-companion-review-test--control ()
  "Return the control buffer of the only Ediff session."
  (car ediff-session-registry))

(defun gemini-companion-review-test--accepted (client)
  "Wait until CLIENT learns of an accept; return the name of the file and the text."
  (gemini-companion-review-test--outcome client "ide/diffAccepted"))

(defun gemini-companion-review-test--rejected (client)
  "Wait until CLIENT learns of a reject; return the name of the file and nil."
  (gemini-companion-review-test--outcome client "ide/diffRejected"))

(defun gemini-companion-review-test--question ()
  "Accept the change, and answer no to the only question; return that."
  (gemini-companion-test-with-answer 'no
    (should-error (gemini-companion-accept) :type 'user-error)
    (should (length= gemini-companion-test-questions 1))
    (car gemini-companion-test-questions)))

(defun gemini-companion-review-test--outcome (client method)
  "Wait until CLIENT receives the notification METHOD; return its file and content.
The file has no directory."
  (let ((params (fake-cli-wait-notification client method)))
    (list (file-name-nondirectory (alist-get 'filePath params))
          (alist-get 'content params))))

(defun gemini-companion-review-test--state ()
  "Return all state of Emacs that a review on screen changes."
  (list (mapcar #'buffer-name (buffer-list))
        (mapcar #'window-buffer (window-list))
        (selected-window)
        ediff-session-registry))

(ert-deftest gemini-companion-review/the-view-shows-both-texts-and-the-keys ()
  (gemini-companion-test-with-client client
    (gemini-companion-review-test--show client "a.txt" "one\n2\n")
    (with-current-buffer (gemini-companion-review-test--control)
      (should (eq (key-binding (kbd "C-c C-c")) #'gemini-companion-accept))
      (should (eq (key-binding (kbd "C-c C-k")) #'gemini-companion-reject))
      (should (eq (key-binding (kbd "n")) #'ediff-next-difference))
      (should (= ediff-number-of-differences 1))
      (dolist (side (list ediff-buffer-A ediff-buffer-B))
        (with-current-buffer side
          (should (get-buffer-window side))
          (should (eq (key-binding (kbd "C-c C-c")) #'gemini-companion-accept))
          (should (eq (key-binding (kbd "C-c C-k")) #'gemini-companion-reject))
          (should (string-match-p "a\\.txt" (gemini-companion-review-buffer--header-line)))
          (should-not buffer-file-name)
          (should-not buffer-auto-save-file-name)))
      (with-current-buffer ediff-buffer-A
        (should (equal (buffer-string) "one\ntwo\n"))
        (should buffer-read-only))
      (with-current-buffer ediff-buffer-B
        (should (equal (buffer-string) "one\n2\n"))
        (should (string-match-p "a.txt  \\+1 -1  C-c C-c accepts  C-c C-k rejects"
                                (gemini-companion-review-buffer--header-line)))
        (should-not buffer-read-only)))))

(ert-deftest gemini-companion-review/accept-sends-the-text-of-the-proposal ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "one\r\n2 😀")))
      (with-current-buffer (gemini-companion-review-proposal review)
        (goto-char (point-max))
        (insert " edited \C-a")
        (narrow-to-region 1 2))
      (gemini-companion-accept)
      (should (equal (gemini-companion-review-test--accepted client)
                     '("a.txt" "one\r\n2 😀 edited \C-a")))
      (should (= (gemini-companion-review-count) 0)))))

(ert-deftest gemini-companion-review/reject-leaves-the-file-unchanged ()
  (gemini-companion-test-with-client client
    (gemini-companion-review-test--show client "a.txt" "2\n")
    (gemini-companion-reject)
    (should (equal (gemini-companion-review-test--rejected client) '("a.txt" nil)))
    (should (equal (gemini-companion-test-bytes (gemini-companion-test-file "a.txt"))
                   "one\ntwo\n"))))

(ert-deftest gemini-companion-review/everything-is-restored ()
  (gemini-companion-test-with-client client
    (split-window-right)
    (goto-char 6)
    (let ((before (gemini-companion-review-test--state)))
      (dolist (decide '(gemini-companion-accept gemini-companion-reject))
        (gemini-companion-review-test--show client "a.txt" "2\n")
        (should-not (equal (gemini-companion-review-test--state) before))
        (funcall decide)
        (should (equal (gemini-companion-review-test--state) before))
        (should (= (point) 6))))))

(ert-deftest gemini-companion-review/windows-changed-by-the-user-stay ()
  (gemini-companion-test-with-client client
    (select-window (get-buffer-window
                    (gemini-companion-review-proposal
                     (gemini-companion-review-test--show client "a.txt" "2\n"))))
    (delete-other-windows)
    (switch-to-buffer (generate-new-buffer "elsewhere"))
    (gemini-companion-reject)
    (should (equal (buffer-name (window-buffer)) "elsewhere"))))

(ert-deftest gemini-companion-review/a-review-works-beside-a-side-window ()
  (gemini-companion-test-with-client client
    (let ((side (display-buffer-in-side-window (generate-new-buffer "side")
                                               '((side . right)))))
      (select-window side)
      (gemini-companion-review-test--show client "a.txt" "2\n")
      (gemini-companion-accept)
      (should (eq (selected-window) side)))))

(ert-deftest gemini-companion-review/reviews-wait-their-turn ()
  (gemini-companion-test-with-client client
    (gemini-companion-review-test--show client "a.txt" "a")
    (gemini-companion-test-propose client "b.txt" "b")
    (gemini-companion-test-propose client "c.txt" "c")
    (switch-to-buffer-other-window "*scratch*")
    ;; It goes to the one on screen, as the header line says, and from there to the next one.
    (gemini-companion-review-next)
    (should (equal (gemini-companion-review-file gemini-companion-review-of-buffer) "a.txt"))
    ;; It goes back from the text that the user edits.
    (let ((panel (selected-window)))
      (call-interactively #'gemini-companion-review-ediff-edit)
      (gemini-companion-review-next)
      (should (eq (selected-window) panel)))
    (gemini-companion-review-next)
    (should (equal (gemini-companion-review-file (gemini-companion-review-shown)) "b.txt"))
    (gemini-companion-accept)
    ;; No review is on screen: the command shows the oldest first and decides it the next time.
    (gemini-companion-reject)
    (should (equal (gemini-companion-review-file (gemini-companion-review-shown)) "a.txt"))
    (should (= (gemini-companion-review-count) 2))
    (gemini-companion-reject)
    (should (equal (gemini-companion-review-test--accepted client) '("b.txt" "b")))
    (should (equal (gemini-companion-review-test--rejected client) '("a.txt" nil)))
    (should (equal (mapcar #'gemini-companion-review-file gemini-companion-review--open)
                   '("c.txt")))))

(ert-deftest gemini-companion-review/without-a-review-commands-signal-an-error ()
  (dolist (command '(gemini-companion-accept gemini-companion-reject gemini-companion-review-next))
    (should (equal (should-error (funcall command))
                   '(user-error "No change awaits your decision")))))

(ert-deftest gemini-companion-review/a-yes-in-the-client-takes-the-edited-text ()
  (gemini-companion-test-with-client client
    (let ((before (gemini-companion-review-test--state))
          (review (gemini-companion-review-test--show client "a.txt" "2\n")))
      (with-current-buffer (gemini-companion-review-proposal review)
        (insert "edited "))
      (let ((result (gemini-companion-test-close-diff client review)))
        (should (equal (gemini-companion-test-json-decode
                        (encode-coding-string (fake-cli-result-text result) 'utf-8))
                       '((content . "edited 2\n")))))
      (should (equal (gemini-companion-review-test--state) before))
      (should (= (gemini-companion-review-count) 0))
      (fake-cli-request client "ping")
      (should-not (fake-cli-find-notification client "ide/diffRejected")))))

(ert-deftest gemini-companion-review/a-decision-after-that-of-the-client-is-an-error ()
  (gemini-companion-test-with-client client
    (let* ((review (gemini-companion-review-test--show client "a.txt" "2\n"))
           (id (gemini-companion-review-id review)))
      (should (gemini-companion-bridge-reject id))
      (should-not (gemini-companion-bridge-accept id "2\n"))
      (gemini-companion-test-with-answer nil
        (gemini-companion-accept)
        (should (string-match-p "already been decided in Gemini CLI"
                                (car gemini-companion-test-messages)))))))

(ert-deftest gemini-companion-review/killing-a-buffer-postpones-without-loss ()
  (dolist (part '(control ediff-buffer-A ediff-buffer-B))
    (gemini-companion-test-with-client client
      (let ((before (gemini-companion-review-test--state))
            (review (gemini-companion-review-test--show client "a.txt" "2\n"))
            (control (gemini-companion-review-test--control)))
        (with-current-buffer (gemini-companion-review-proposal review)
          (insert "edited "))
        (kill-buffer (if (eq part 'control) control
                       (buffer-local-value part control)))
        (gemini-companion-test-wait-removed)
        (when-let* ((proposal (gemini-companion-review-proposal review)))
          (when (buffer-live-p proposal)
            (should-not (get-buffer-window proposal))
            (push (buffer-name proposal) (car before))))
        (should (equal (sort (car (gemini-companion-review-test--state)) #'string<)
                       (sort (car before) #'string<)))
        (should (equal (cdr (gemini-companion-review-test--state)) (cdr before)))
        (should-not (fake-cli-find-notification client "ide/diffRejected"))
        ;; Shown again, it is as the user left it.
        (gemini-companion-review-next)
        (should (eq (gemini-companion-review-shown) review))
        (gemini-companion-accept)
        (should (equal (gemini-companion-review-test--accepted client) '("a.txt" "edited 2\n")))))))

(defun gemini-companion-review-test--answer-q (answer)
  "Type q in the control panel, and then ANSWER, or quit if that is nil."
  (with-current-buffer (gemini-companion-review-test--control)
    (should (eq (key-binding (kbd "q")) #'gemini-companion-review-quit))
    (cl-letf (((symbol-function 'read-multiple-choice)
               (lambda (&rest _) (if answer (list answer) (signal 'quit nil)))))
      (condition-case nil
          (gemini-companion-review-quit)
        (quit nil)))))

(ert-deftest gemini-companion-review/q-asks-and-quitting-leaves-the-change-on-screen ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "2\n")))
      (gemini-companion-review-test--answer-q nil)
      (should (eq (gemini-companion-review-shown) review))
      (gemini-companion-review-test--answer-q ?l)
      (should-not (gemini-companion-review-shown))
      (should (memq review gemini-companion-review--open))
      (should-not (gemini-companion-review-popup--next))
      (gemini-companion-review-next)
      (gemini-companion-review-test--answer-q ?r)
      (should (gemini-companion-review-test--rejected client)))))

(ert-deftest gemini-companion-review/an-accept-by-q-goes-on-to-the-next-change ()
  (gemini-companion-test-with-client client
    (gemini-companion-review-test--show client "a.txt" "2\n")
    (gemini-companion-review-test--answer-q ?a)
    (let ((next (gemini-companion-test-propose client "b.txt" "2\n")))
      (gemini-companion-test-pop-up)
      (should (eq (buffer-local-value 'gemini-companion-review-of-buffer (window-buffer)) next)))
    (remove-hook 'pre-command-hook #'gemini-companion-review-popup--ignore-stray-key)))

(ert-deftest gemini-companion-review/ediff-s-own-quit-postpones ()
  (gemini-companion-test-with-client client
    (let ((before (gemini-companion-review-test--state))
          (review (gemini-companion-review-test--show client "a.txt" "2\n")))
      (with-current-buffer (gemini-companion-review-test--control)
        (ediff-really-quit nil))
      (gemini-companion-test-wait-removed)
      (should (memq review gemini-companion-review--open))
      (should (equal (nth 3 (gemini-companion-review-test--state)) (nth 3 before))))))

(ert-deftest gemini-companion-review/a-review-whose-view-fails-waits ()
  (gemini-companion-test-with-client client
    (let ((before (gemini-companion-review-test--state))
          (review (gemini-companion-test-propose client "a.txt" "2\n")))
      (cl-letf (((symbol-function 'gemini-companion-change-regions)
                 (lambda (&rest _) (error "No differences"))))
        (should-error (gemini-companion-review-show review 'select)))
      (should-not (gemini-companion-review-shown))
      (should-not (gemini-companion-review-popup--next))
      (should (equal (cdr (gemini-companion-review-test--state)) (cdr before)))
      (should (equal (gemini-companion-review-reason review) "cannot be shown: No differences"))
      ;; Once the view works again, the review is shown before it is accepted.
      (gemini-companion-accept)
      (should (eq (gemini-companion-review-shown) review))
      (should-not (gemini-companion-review-reason review))
      (gemini-companion-accept)
      (should (equal (gemini-companion-review-test--accepted client) '("a.txt" "2\n"))))))

(ert-deftest gemini-companion-review/a-change-that-cannot-be-shown-is-not-accepted ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-propose client "a.txt" "2\n")
    (cl-letf (((symbol-function 'gemini-companion-change-regions)
               (lambda (&rest _) (error "No differences"))))
      (should (equal (should-error (gemini-companion-accept) :type 'user-error)
                     '(user-error "a.txt was never on screen (cannot be shown: No differences); \
decide in Gemini CLI"))))
    (should (= (gemini-companion-review-count) 1))))

(defmacro gemini-companion-review-test--closing-during (client review question answer
                                                               &rest body)
  "Evaluate BODY, with the function QUESTION returning ANSWER.
CLIENT closes REVIEW while the question is open."
  (declare (indent 4) (debug t))
  `(cl-letf (((symbol-function ,question)
              (lambda (&rest _)
                (fake-cli-call-tool ,client "closeDiff"
                                    (list :filePath (gemini-companion-review-path ,review)
                                          :suppressNotification t))
                ,answer)))
     ,@body))

(ert-deftest gemini-companion-review/an-answer-affects-only-the-review-asked-about ()
  "The client closes the review during the question; the other review stays."
  (dolist (answer '(?a ?r ?l))
    (gemini-companion-test-with-client client
      (let ((review (gemini-companion-review-test--show client "a.txt" "2\n"))
            (other (gemini-companion-test-propose client "b.txt" "unseen\n")))
        (gemini-companion-review-test--closing-during
            client review 'read-multiple-choice (list answer)
          (with-current-buffer (gemini-companion-review-test--control)
            (should (string-match-p
                     "a.txt: decided in Gemini CLI"
                     (cadr (should-error (gemini-companion-review-quit)
                                         :type 'user-error))))))
        (should (equal (gemini-companion-review-all-open) (list other)))
        (should-not (gemini-companion-review-seen other))
        (should-not (fake-cli-find-notification client "ide/diffAccepted"))
        (should-not (fake-cli-find-notification client "ide/diffRejected"))))))

(ert-deftest gemini-companion-review/a-review-that-ends-during-a-question-stays-closed ()
  "The question is about unsaved edits."
  (dolist (answer '(?t ?a ?c))
    (gemini-companion-test-with-client client
      (let ((before (gemini-companion-review-test--state))
            (review (gemini-companion-review-test--show client "a.txt" "2\n")))
        (with-current-buffer "a.txt" (insert "mine"))
        (gemini-companion-review-test--closing-during
            client review 'read-multiple-choice (list answer)
          (should-error (gemini-companion-accept) :type 'user-error))
        (should-not (gemini-companion-review-shown))
        (should-error (gemini-companion-review-show review 'select) :type 'user-error)
        (should (equal (gemini-companion-review-test--state) before))
        (should-not (fake-cli-find-notification client "ide/diffAccepted"))))))

(ert-deftest gemini-companion-review/a-review-that-ends-before-a-drop-is-confirmed-says-so ()
  "Ediff would complain that the text is read-only, for two seconds."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "2\n")))
      (with-current-buffer (gemini-companion-review-test--control)
        (gemini-companion-review-test--closing-during client review 'y-or-n-p t
          (should (equal (should-error (gemini-companion-review-ediff-drop nil))
                         '(user-error "a.txt: decided in Gemini CLI"))))))))

(ert-deftest gemini-companion-review/a-review-that-ends-while-it-is-shown-stays-ended ()
  "A function of the user may wait, and Emacs learns of a decision meanwhile."
  (gemini-companion-test-with-client client
    (let* ((review (gemini-companion-test-propose client "a.txt" "2\n"))
           (close (lambda (&rest _)
                    (fake-cli-call-tool client "closeDiff"
                                        (list :filePath (gemini-companion-review-path review)))))
           (hidden nil)
           (gemini-companion-diff-function (lambda (&rest _)
                                             (funcall close)
                                             (lambda () (setq hidden t)))))
      (should-error (gemini-companion-review-show review 'keep) :type 'user-error)
      (should hidden)
      (should (eq (gemini-companion-review-state review) 'ended))
      (should (equal (gemini-companion-review-reason review) "decided in Gemini CLI")))))

(ert-deftest gemini-companion-review/each-ends-once-when-the-companion-stops ()
  "A function of the user may end another one."
  (gemini-companion-test-with-client client
    (let* ((one (gemini-companion-test-propose client "a.txt" "2\n"))
           (other (gemini-companion-test-propose client "b.txt" "2\n"))
           (ended nil)
           (gemini-companion-review-end-functions
            (list (lambda (review _)
                    (push review ended)
                    (when (gemini-companion-review-open-p other)
                      (gemini-companion-review-reject other))))))
      (gemini-companion-review-end-all)
      (should (equal (reverse ended) (list one other))))))

(ert-deftest gemini-companion-review/windows-change-only-without-a-prompt ()
  "The client is answered at once; the view is removed after the prompt."
  (gemini-companion-test-with-client client
    (let* ((review (gemini-companion-review-test--show client "a.txt" "2\n"))
           (proposal (gemini-companion-review-proposal review)))
      (cl-letf (((symbol-function 'gemini-companion-ui-key-expected) (lambda () "a test")))
        (should (equal (fake-cli-result-text
                        (fake-cli-call-tool
                         client "closeDiff"
                         (list :filePath (gemini-companion-review-path review))))
                       "{\"content\":\"2\\n\"}"))
        (gemini-companion-review-popup--try)
        (should (get-buffer-window proposal))
        ;; Until then the header line says so and the proposal is read-only.
        (with-current-buffer proposal
          (should buffer-read-only)
          (should (string-match-p "decided in Gemini CLI"
                                  (gemini-companion-review-buffer--header-line)))))
      (gemini-companion-review-popup--try)
      (should-not (buffer-live-p proposal))
      (should (one-window-p)))))

(ert-deftest gemini-companion-review/a-proposal-that-was-put-off-stays-under-the-user-s-keys ()
  "The user has gone to it, and types, when the client closes its review."
  (gemini-companion-test-with-client client
    (let* ((review (gemini-companion-review-test--show client "a.txt" "2\n"))
           (proposal (gemini-companion-review-proposal review)))
      (gemini-companion-review-postpone review)
      (switch-to-buffer proposal)
      (cl-letf (((symbol-function 'gemini-companion-ui-key-expected) (lambda () "a test")))
        (fake-cli-call-tool client "closeDiff"
                            (list :filePath (gemini-companion-review-path review)))
        (should (eq (window-buffer) proposal))
        (should-error (insert "x") :type 'buffer-read-only))
      (gemini-companion-review-popup--try)
      (should-not (buffer-live-p proposal)))))

(ert-deftest gemini-companion-review/a-change-is-announced-if-the-one-on-screen-is-hidden ()
  (gemini-companion-test-with-client client
    (let ((file (current-buffer)))
      (gemini-companion-review-test--show client "a.txt" "2\n")
      (gemini-companion-test-with-answer nil
        (gemini-companion-test-propose client "b.txt" "2\n")
        (should-not (string-search "b.txt" (string-join gemini-companion-test-messages)))
        (switch-to-buffer file)
        (delete-other-windows)
        (gemini-companion-test-propose client "c.txt" "2\n")
        (should (string-search "c.txt" (string-join gemini-companion-test-messages)))))))

(ert-deftest gemini-companion-review/an-empty-accept-asks-first ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "2\n")))
      (with-current-buffer (gemini-companion-review-proposal review) (erase-buffer))
      (should (equal (gemini-companion-review-test--question)
                     "Gemini CLI ignores an empty text, and would write its own proposal.  \
Accept? "))
      (should (eq (gemini-companion-review-shown) review))
      (gemini-companion-test-with-answer 'yes (gemini-companion-accept))
      (should (equal (gemini-companion-review-test--accepted client) '("a.txt" ""))))))

(ert-deftest gemini-companion-review/only-real-differences-of-line-endings-show ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-file "dos.txt" "one\r\ntwo\r\nthree\r\n")
    (pcase-dolist (`(,text ,differences)
                   '(("one\n2\nthree\n" 1)          ; as proposed by Gemini CLI
                     ("one\r\n2\r\nthree\r\n" 1)    ; as on disk
                     ("one\r\ntwo\nthree\r\n" 1)))  ; a line end is the difference
      (gemini-companion-review-test--show client "dos.txt" text)
      (with-current-buffer (gemini-companion-review-test--control)
        (should (= ediff-number-of-differences differences)))
      (gemini-companion-reject))))

(ert-deftest gemini-companion-review/a-new-file-is-shown-alone ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "new/dir/x.txt" "text\n")))
      (should-not (bound-and-true-p ediff-session-registry))
      (should (eq (window-buffer) (gemini-companion-review-front review)))
      (should (equal (buffer-string) "text\n"))
      (should (string-match-p "\\` new/dir/x.txt  new file \\+1  C-c C-c accepts"
                              (gemini-companion-review-buffer--header-line)))
      ;; The text is read-only until the user wants to edit it.
      (should (eq (key-binding "x") #'undefined))
      (should-error (gemini-companion-review-three-way) :type 'user-error)
      (should-error (insert "x") :type 'buffer-read-only)
      (call-interactively (key-binding "e"))
      (insert "more ")
      (gemini-companion-accept)
      (should (equal (alist-get 'content
                                (fake-cli-wait-notification client "ide/diffAccepted"))
                     "more text\n")))
    (should-not (file-exists-p (gemini-companion-test-file "new")))))

(ert-deftest gemini-companion-review/a-new-file-that-the-user-writes-too-has-several-texts ()
  "A merge that fails names the key that shows them."
  (gemini-companion-test-with-client client
    (with-current-buffer (find-file-noselect (gemini-companion-test-file "x.txt"))
      (insert "mine\n"))
    (let ((review (gemini-companion-review-test--show client "x.txt" "text\n")))
      (should (string-match-p "shows all texts\\'"
                              (cadr (should-error (gemini-companion-review-merge)
                                                  :type 'user-error))))
      (dotimes (_ 2) (gemini-companion-review-three-way))
      (should-not (gemini-companion-review-with-base review))
      (gemini-companion-review-reject review))))

(ert-deftest gemini-companion-review/a-client-s-text-is-data ()
  (gemini-companion-test-with-client client
    (let* ((hooked nil)
           (emacs-lisp-mode-hook (list (lambda () (setq hooked t))))
           (enable-local-variables :all)
           (text "-*- mode: python; eval: (setq gemini-companion-test--evil t) -*-
;; Local Variables:
;; eval: (setq gemini-companion-test--evil t)
;; fill-column: 7
;; End:
")
           (review (gemini-companion-review-test--show client "x.el" text)))
      (with-current-buffer (gemini-companion-review-proposal review)
        (should (eq major-mode 'emacs-lisp-mode))
        (should-not (= fill-column 7)))
      (should-not hooked)
      (should-not (boundp 'gemini-companion-test--evil)))))

(ert-deftest gemini-companion-review/completion-runs-no-code-of-the-text ()
  "Even if the user trusts all files."
  (gemini-companion-test-with-client client
    (let* ((text ";;; -*- lexical-binding: t -*-\n(defun f ()\n  (rx (eval (setq gemini-companion-evil t)))\n  (message buf")
           (review (gemini-companion-review-test--show client "x.el" text))
           (evil (make-symbol "unset")))
      (cl-progv '(trusted-content gemini-companion-evil) (list :all evil)
        (with-current-buffer (gemini-companion-review-proposal review)
          (goto-char (point-max))
          (ignore-errors
            (let ((completion-in-region-function (lambda (_ _ table _) (all-completions "buf" table))))
              (completion-at-point))))
        (should (eq (symbol-value 'gemini-companion-evil) evil))))))

(ert-deftest gemini-companion-review/killing-a-clone-of-the-proposal-changes-nothing ()
  (gemini-companion-test-with-client client
    (let* ((review (gemini-companion-review-test--show client "a.txt" "2\n"))
           (clone (with-current-buffer (gemini-companion-review-proposal review)
                    (clone-indirect-buffer nil nil))))
      (kill-buffer clone)
      (accept-process-output nil 0.01)
      (gemini-companion-review-popup--try)
      (should (eq (gemini-companion-review-state review) 'shown))
      (should (= (gemini-companion-review-count) 1)))))

(ert-deftest gemini-companion-review/what-is-shown-again-at-once-stays ()
  "Its buffer was killed, and the next key was typed before a timer could run."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "2\n")))
      (kill-buffer (gemini-companion-review-test--control))
      (gemini-companion-review-next)
      (accept-process-output nil 0.01)
      (should (eq (gemini-companion-review-shown) review))
      ;; It is put off if it is killed again.
      (kill-buffer (gemini-companion-review-test--control))
      (gemini-companion-test-wait
       "the review to be put off"
       (lambda () (eq (gemini-companion-review-state review) 'postponed))))))

(ert-deftest gemini-companion-review/ediff-options-and-sessions-of-the-user-stay ()
  (gemini-companion-test-with-client client
    (let ((options (lambda ()
                     (mapcar #'default-value
                             '(ediff-window-setup-function
                               ediff-split-window-function ediff-keep-variants
                               ediff-quit-hook ediff-startup-hook ediff-keymap-setup-hook)))))
      (let ((before (funcall options)))
        (gemini-companion-review-test--show client "a.txt" "2\n")
        (should (equal (funcall options) before))
        (gemini-companion-reject)
        (should (equal (funcall options) before))))
    (let ((one (generate-new-buffer "one")) (other (generate-new-buffer "other")))
      (ediff-buffers one other)
      (with-current-buffer (gemini-companion-review-test--control)
        (should (eq (key-binding (kbd "q")) #'ediff-quit))
        (should-not (eq (key-binding (kbd "C-c C-c")) #'gemini-companion-accept))
        (ediff-really-quit nil)))))

(ert-deftest gemini-companion-review/switching-off-rejects-and-cleans-up ()
  (gemini-companion-test-with-client client
    (let ((before (gemini-companion-review-test--state)))
      (gemini-companion-review-test--show client "a.txt" "a")
      (gemini-companion-test-propose client "b.txt" "b")
      (gemini-companion-mode -1)
      (should (= (gemini-companion-review-count) 0))
      (should (equal (gemini-companion-review-test--state) before)))
    (dolist (name '("a.txt" "b.txt"))
      (fake-cli-wait-notification
       client "ide/diffRejected"
       (lambda (params)
         (equal (alist-get 'filePath params) (gemini-companion-test-file name)))))))

(ert-deftest gemini-companion-review/nothing-is-shown-while-the-user-is-busy ()
  "These are the states possible in batch mode; end-to-end tests have the others."
  (cl-letf (((symbol-function 'gemini-companion-ui-user-frame-p) #'always)
            ((symbol-function 'current-idle-time) (lambda () '(0 10))))
    (let ((this-command nil))
      (should-not (gemini-companion-ui-busy))
      (let ((this-command 'forward-char)) (should (gemini-companion-ui-busy)))
      (let ((prefix-arg '(4))) (should (gemini-companion-ui-busy)))
      (let ((defining-kbd-macro t)) (should (gemini-companion-ui-busy)))
      (let ((throw-on-input 'tag)) (should (gemini-companion-ui-busy)))
      (let* ((hydra-curr-map (make-sparse-keymap))
             (overriding-terminal-local-map (make-composed-keymap hydra-curr-map)))
        (should (gemini-companion-ui-busy)))
      ;; Such a map may be of a menu, or left over.
      (let ((overriding-terminal-local-map (make-composed-keymap (make-sparse-keymap))))
        (should-not (gemini-companion-ui-busy))
        (cl-letf (((symbol-function 'current-idle-time) (lambda () '(0 2))))
          (should (gemini-companion-ui-busy))))
      (cl-letf (((symbol-function 'current-idle-time) (lambda () '(0 0 100000))))
        (should (gemini-companion-ui-busy)))))
  (should-not (gemini-companion-ui-user-frame-p)))

(ert-deftest gemini-companion-review/a-change-is-shown-if-the-clock-was-set-back ()
  "The last key is then yet to come."
  (gemini-companion-test-with-client client
    (cl-letf (((symbol-function 'gemini-companion-ui-user-frame-p) #'always)
              ((symbol-function 'current-idle-time) (lambda () '(-1 0)))
              (this-command nil))
      (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
        (gemini-companion-review-popup--try)
        (should (eq (gemini-companion-review-shown) review))))))

(ert-deftest gemini-companion-review/reviews-can-be-queued-or-announced ()
  (pcase-dolist (`(,policy ,focus ,announced) '((queue keep nil) (pop-up announce t)))
    (gemini-companion-test-with-client client
      (let ((gemini-companion-diff-policy policy)
            (gemini-companion-diff-focus focus))
        (gemini-companion-test-with-answer nil
          (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
            (should-not (gemini-companion-test-timers #'gemini-companion-review-popup--try))
            (gemini-companion-test-pop-up)
            (should-not (gemini-companion-review-shown))
            (should (eq announced
                        (and (seq-find (lambda (text)
                                         (string-match-p "proposes a change to a.txt, \\+1 -2.*\
review-next" text))
                                       gemini-companion-test-messages)
                             t)))
            (should (equal (gemini-companion--lighter) " Gem:1!1"))
            (gemini-companion-review-next)
            (should (eq (gemini-companion-review-shown) review))))))))

(ert-deftest gemini-companion-review/keys-are-not-for-a-review-in-the-window-that-is-kept ()
  "The frame has no room for another window."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-test-propose client "new.txt" "2\n")))
      (cl-letf (((symbol-function 'gemini-companion-ui-busy) #'ignore)
                ((symbol-function 'split-window) (lambda (&rest _) (error "Too small"))))
        (gemini-companion-review-popup--try))
      (should (eq (window-buffer) (gemini-companion-review-front review)))
      (unwind-protect
          (let ((this-command 'self-insert-command)
                (last-command-event ?q))
            (set-buffer (window-buffer))
            (run-hooks 'pre-command-hook)
            (should (eq this-command #'ignore)))
        (remove-hook 'pre-command-hook #'gemini-companion-review-popup--ignore-stray-key)))))

(ert-deftest gemini-companion-review/only-what-is-typed-may-be-meant-for-another-window ()
  "Emacs tells by an event, and only once, that keys go to another frame."
  (gemini-companion-test-with-client client
    (let ((gemini-companion-diff-focus 'select)
          (review (gemini-companion-test-propose client "a.txt" "2\n")))
      (gemini-companion-review-show review 'select)
      (set-buffer (window-buffer))
      (unwind-protect
          (pcase-dolist (`(,event . ,ignored)
                         `((?a . t) (f1 . t) ((xterm-paste "text") . t)
                           ((switch-frame ,(selected-frame)))
                           ((select-window (,(selected-window))))
                           ((mouse-1 (,(selected-window) 1 (0 . 0) 0)))))
            (let ((this-command 'test)
                  (last-command-event event))
              (gemini-companion-review-popup--expect-stray-keys review)
              (gemini-companion-review-popup--ignore-stray-key)
              (ert-info ((format "%S" event))
                (should (eq this-command
                            (if ignored #'ignore 'test))))))
        (remove-hook 'pre-command-hook #'gemini-companion-review-popup--ignore-stray-key)))))

(ert-deftest gemini-companion-review/the-message-names-the-file-and-whether-it-is-new ()
  (gemini-companion-test-with-client client
    (let ((gemini-companion-diff-focus 'announce)
          (outside (make-temp-file "gemini-companion-outside-")))
      (gemini-companion-test-file "lib/deep/mod.py" "1\n")
      (unwind-protect
          (gemini-companion-test-with-answer nil
            (pcase-dolist (`(,name . ,words) `(("lib/deep/mod.py" . "a change to lib/deep/mod.py, +1 -1;")
                                               ("lib/new\n.py" . "a new file lib/new^J.py, +1;")
                                               (,outside . ,(format "a change to %s, +1 -0;" outside))))
              (setq gemini-companion-test-messages nil)
              (let ((review (gemini-companion-test-propose client name "2\n")))
                (gemini-companion-ui--show-messages)
                (should (seq-find (lambda (text) (string-search (concat "proposes " words) text))
                                  gemini-companion-test-messages))
                (gemini-companion-review-reject review))))
        (delete-file outside)))))

(ert-deftest gemini-companion-review/an-accept-that-harms-a-file-asks-first ()
  "The user has not deleted the text: it was proposed so."
  (pcase-dolist
      (`(,name ,before ,after ,question)
       `(("a.txt" "one\ntwo\n" "" "Gemini CLI would write a text of 0 lines in place of 2 lines.")
         ("a.txt" ,(apply #'concat (make-list 100 "line\n")) "line\nline\n"
          "Gemini CLI would write a text of 2 lines in place of 100 lines.")
         ;; The client replaces what is not UTF-8.
         ("a.txt" "caf\351\none\n" "caf\ufffd\n1\n"
          "a.txt is not in UTF-8; Gemini CLI would write all of it in UTF-8, \
with U+FFFD for what it could not read.")))
    (ert-info (question)
      (gemini-companion-test-with-client client
        (gemini-companion-test-write-bytes name before)
        (gemini-companion-review-test--show client name after)
        (should (equal (gemini-companion-review-test--question)
                       (concat question "  Accept? ")))
        (gemini-companion-test-with-answer 'yes (gemini-companion-accept))
        (should (equal (gemini-companion-review-test--accepted client) (list name after)))))))

(ert-deftest gemini-companion-review/bytes-that-are-no-characters-are-not-lost-unsaid ()
  "The user may insert them.  Then the client gets, and writes, U+FFFD."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "1\ntwo\n")))
      (with-current-buffer (gemini-companion-review-proposal review)
        (insert (unibyte-char-to-multibyte #o303) (unibyte-char-to-multibyte #o244) #xd800))
      (should (equal (gemini-companion-review-test--question)
                     (format "Gemini CLI would write U+FFFD in place of %c, which is \
not valid in UTF-8.  Accept? " (unibyte-char-to-multibyte #o303))))
      (gemini-companion-test-with-answer 'yes (gemini-companion-accept))
      (should (equal (gemini-companion-review-test--accepted client)
                     '("a.txt" "\ufffd\ufffd\ufffd1\ntwo\n")))
      ;; When the file has that, it has what was accepted.
      (should (equal (gemini-companion-history-after (gemini-companion-review-entry review))
                     "\ufffd\ufffd\ufffd1\ntwo\n")))))

(ert-deftest gemini-companion-review/a-dropped-byte-order-mark-is-said ()
  "As by the tool write_file, whose text has none.  An edit keeps it."
  (gemini-companion-test-with-client client
    (gemini-companion-test-write-bytes "a.txt" "\357\273\277one\ntwo\n")
    (let ((review (gemini-companion-review-test--show client "a.txt" "1\ntwo\n")))
      (should (equal (gemini-companion-review-effect-remarks review)
                     '("Drops the byte order mark")))
      (should (equal (gemini-companion-review-test--question)
                     "a.txt has a byte order mark, which Gemini CLI would drop.  Accept? "))
      ;; Qwen Code writes its own text, with the mark.
      (setf (gemini-companion-review-agent review) 'qwen)
      (should-not (gemini-companion-review-effect-remarks review))
      (should-not (gemini-companion-review-effect-question review))
      (gemini-companion-reject))
    (let ((review (gemini-companion-review-test--show client "a.txt" "\ufeff1\ntwo\n")))
      (should-not (gemini-companion-review-effect-remarks review))
      (should-not (gemini-companion-review-effect-question review)))))

(ert-deftest gemini-companion-review/a-quit-comes-before-or-after-a-decision ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "2\n")))
      (gemini-companion-comment-add (gemini-companion-review-proposal review) 1 1 "why?")
      (cl-letf* ((accept (symbol-function 'gemini-companion-bridge-accept))
                 ((symbol-function 'gemini-companion-bridge-accept)
                  (lambda (&rest arguments)
                    (prog1 (apply accept arguments)
                      ;; As if the user had typed C-g now.
                      (setq quit-flag t)))))
        (should (eq 'quit (condition-case nil
                              (progn (gemini-companion-accept) (ignore))
                            (quit 'quit)))))
      (should-not (gemini-companion-review-all-open))
      (should (equal (gemini-companion-review-test--accepted client) '("a.txt" "2\n")))
      (should (eq (gemini-companion-history-outcome (car (gemini-companion-history-all)))
                  'accepted))
      (should (string-search "why?" (current-kill 0))))))

(ert-deftest gemini-companion-review/another-major-mode-keeps-the-keys ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "2\n")))
      (with-current-buffer (gemini-companion-review-proposal review)
        (emacs-lisp-mode)
        (should (eq (key-binding (kbd "C-c C-c")) #'gemini-companion-accept))
        (should (string-match-p "Proposed text .*C-c C-c accepts" (eval (cadr header-line-format) t)))
        (call-interactively (key-binding (kbd "C-c C-c")))))
    (should (gemini-companion-review-test--accepted client))))

(ert-deftest gemini-companion-review/saving-writes-no-file ()
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "2\n")))
      (with-current-buffer (gemini-companion-review-proposal review)
        (dolist (key '("C-x C-s" "C-x C-w"))
          (should (eq (key-binding (kbd key)) #'gemini-companion-review-buffer-save))
          (gemini-companion-test-with-answer nil
            (call-interactively (key-binding (kbd key)))
            (should (equal gemini-companion-test-messages
                           '("Gemini CLI writes the file when you accept: C-c C-c does so")))))))
    (should (equal (gemini-companion-test-bytes (gemini-companion-test-file "a.txt"))
                   "one\ntwo\n"))))

(defvar gemini-companion-review-test--called nil
  "Non-nil if a text of a client had a function called.")

(defun gemini-companion-review-test-evil-mode ()
  "Record that a text of a client had this function called."
  (interactive)
  (push 'evil gemini-companion-review-test--called))

(ert-deftest gemini-companion-review/fontifying-a-text-calls-no-mode-named-in-it ()
  "Org's fontification calls NAME-mode for a block of source in NAME."
  (let ((gemini-companion-review-test--called nil)
        (prog-mode-hook (list (lambda () (push 'hook gemini-companion-review-test--called)))))
    (pcase-dolist (`(,name . ,text)
                   '(("a.org" . "* h
#+SETUPFILE: /no/such/file
#+begin_src gemini-companion-review-test-evil
x
#+end_src
#+begin_src python
x
#+end_src
")
                     ("a.html" . "<script>x</script>\n<style>x</style>\n")
                     ("a.md" . "```gemini-companion-review-test-evil\nx\n```\n")))
      (gemini-companion-test-with-client client
        (let ((review (gemini-companion-review-test--show client name text)))
          (with-current-buffer (gemini-companion-review-proposal review)
            (font-lock-ensure)
            (should (equal (buffer-substring-no-properties (point-min) (point-max)) text)))
          (should-not gemini-companion-review-test--called))))))

(ert-deftest gemini-companion-review/texts-with-nul-are-shown ()
  (gemini-companion-test-with-client client
    (let ((before (gemini-companion-review-test--state)))
      (gemini-companion-review-test--show client "a.txt" "one\n\0\n")
      (with-current-buffer (gemini-companion-review-test--control)
        (should (= ediff-number-of-differences 1)))
      (gemini-companion-accept)
      (should (equal (gemini-companion-review-test--state) before)))))

(ert-deftest gemini-companion-review/whitespace-alone-is-a-difference ()
  (gemini-companion-test-with-client client
    (let ((ediff-diff-options "-w"))
      (ediff-set-actual-diff-options)
      (unwind-protect
          (progn
            (gemini-companion-review-test--show client "a.txt" "one\n  two\n")
            (with-current-buffer (gemini-companion-review-test--control)
              (should (= ediff-number-of-differences 1))))
        (setq ediff-diff-options "")
        (ediff-set-actual-diff-options)))))

(ert-deftest gemini-companion-review/a-fifo-is-not-opened ()
  (gemini-companion-test-with-client client
    (let ((before (gemini-companion-review-test--state))
          (review (gemini-companion-test-propose client "b.txt" "x\n")))
      (should (zerop (call-process "mkfifo" nil nil nil
                                   (gemini-companion-test-file "b.txt"))))
      (should-error (gemini-companion-review-show review 'select))
      (should (equal (gemini-companion-review-test--state) before))
      (gemini-companion-review-reject review))))

(ert-deftest gemini-companion-review/a-file-that-changed-is-read-once-if-at-all ()
  (pcase-dolist (`(,text ,largest ,times) '(("one\ntwo\nthree\n" 100 1)
                                            ("one\ntwo\nthree\n" 10 0)))
    (gemini-companion-test-with-client client
      (let ((review (gemini-companion-review-test--show client "a.txt" "2\n"))
            (gemini-companion-file-largest largest)
            (reads 0))
        (gemini-companion-test-file "a.txt" text)
        (gemini-companion-test-with-answer nil
          (cl-letf* ((read (symbol-function 'insert-file-contents-literally))
                     ((symbol-function 'insert-file-contents-literally)
                      (lambda (&rest arguments)
                        (cl-incf reads)
                        (apply read arguments))))
            (dotimes (_ 3) (gemini-companion-review-popup--check-file)))
          (should (equal gemini-companion-test-messages
                         '("a.txt has changed on disk since the client made this text"))))
        (should (= reads times))
        (with-current-buffer (gemini-companion-review-proposal review)
          (should (string-search "Changed on disk" (gemini-companion-review-buffer--header-line))))
        (gemini-companion-reject)))))

(ert-deftest gemini-companion-review/a-change-comes-back-if-emacs-stays ()
  "The user says yes to its question, and no to the next one, of another package."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "2\n"))
          (put-off (gemini-companion-test-propose client "b.txt" "2\n")))
      (gemini-companion-review-postpone put-off)
      (cl-letf (((symbol-function 'gemini-companion-ui-user-frame-p) #'always)
                ((symbol-function 'yes-or-no-p) #'always))
        (should (gemini-companion-review-query-exit)))
      (should-not (gemini-companion-review-shown))
      (gemini-companion-test-pop-up)
      (should (eq (gemini-companion-review-shown) review))
      (should (eq (gemini-companion-review-state put-off) 'postponed))
      (gemini-companion-review-end-all))))

(ert-deftest gemini-companion-review/a-change-that-loses-its-windows-is-announced-once-each-time ()
  "Magit restores the windows from before a commit, in which a change has appeared."
  (gemini-companion-test-with-client client
    (let* ((before (current-window-configuration))
           (review (gemini-companion-review-test--show client "a.txt" "2\n"))
           (look (lambda () (gemini-companion-test-with-answer nil
                              (dotimes (_ 3) (gemini-companion-review-popup--check-file))
                              gemini-companion-test-messages))))
      (cl-letf (((symbol-function 'gemini-companion-ui-busy) #'ignore))
        (should-not (funcall look))
        (let ((shown (current-window-configuration)))
          (dotimes (_ 2)
            (set-window-configuration before)
            (should (equal (funcall look)
                           (list (substitute-command-keys
                                  "Gemini CLI still waits: \\[gemini-companion-review-next] shows \
the change again"))))
            ;; As by Winner mode.
            (set-window-configuration shown)
            (should-not (funcall look)))
          (set-window-configuration before)
          (should (funcall look)))
        (should (equal (gemini-companion-review-popup-state review) "out of sight"))
        (gemini-companion-review-next)
        (should-not (funcall look)))
      (should (equal (gemini-companion-review-popup-state review) "on screen"))
      (gemini-companion-review-reject review))))

(ert-deftest gemini-companion-review/a-reminder-names-the-key-of-the-terminal ()
  "There, the header line and the announcement name it if no other key is bound."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "2\n")))
      (gemini-companion-review-postpone review)
      (with-temp-buffer
        (setq gemini-companion-ui-local-keys '((gemini-companion-review-next . "C-c C-c g")))
        (set-window-buffer nil (current-buffer))
        (should (equal (gemini-companion-test-with-answer nil
                         (gemini-companion-review-remind review)
                         gemini-companion-test-messages)
                       '("Gemini CLI still waits: C-c C-c g shows the change again"))))
      (gemini-companion-review-reject review))))

(ert-deftest gemini-companion-review/unsaved-edits-are-copied-once ()
  "A timer looks each second whether the change contains them."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "2\n"))
          (create-lockfiles nil)
          (copies 0))
      (with-current-buffer (gemini-companion-review-visiting review)
        (cl-letf* ((copy (symbol-function 'gemini-companion-review-text-of-buffer))
                   ((symbol-function 'gemini-companion-review-text-of-buffer)
                    (lambda (buffer) (cl-incf copies) (funcall copy buffer))))
          (dolist (expected '(1 2))
            (insert "mine ")
            (dotimes (_ 3)
              (should (eq (gemini-companion-review-effect-check-conflict review) 'unsaved)))
            (should (= copies expected))))
        (should-error (gemini-companion-review-effect-merge review) :type 'user-error)
        (erase-buffer)
        (insert "2\n")
        (should-not (gemini-companion-review-effect-check-conflict review))
        (set-buffer-modified-p nil))
      (gemini-companion-review-reject review))))

(ert-deftest gemini-companion-review/no-warning-comes-after-the-decision ()
  "It may have waited for the end of a recursive edit, in which the user has decided."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "2\n"))
          (pending (lambda (review) (alist-get review gemini-companion-ui--messages))))
      (cl-letf (((symbol-function 'gemini-companion-ui-key-expected) #'always))
        (gemini-companion-test-file "a.txt" "one\ntwo\nthree\n")
        (gemini-companion-review-popup--check-file)
        (should (funcall pending review))
        (gemini-companion-reject)
        (should-not (funcall pending review))))))

(ert-deftest gemini-companion-review/a-deleted-file-is-not-said-to-have-changed ()
  "As after git checkout of a branch without it; there is nothing to merge then."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "2\n")))
      (delete-file (gemini-companion-review-path review))
      (gemini-companion-test-with-answer nil
        (gemini-companion-review-popup--check-file)
        (should (equal gemini-companion-test-messages
                       '("a.txt was deleted since the client made this text"))))
      (with-current-buffer (gemini-companion-review-proposal review)
        (let ((header (gemini-companion-review-buffer--header-line)))
          (should (string-search "Deleted on disk" header))
          (should-not (string-search "merges" header))))
      (should (string-suffix-p ", deleted on disk" (gemini-companion-review-list--state review)))
      (should (equal (cadr (should-error (gemini-companion-review-other-view) :type 'user-error))
                     "There is no file, so there is only one view"))
      (let ((choices nil))
        (cl-letf (((symbol-function 'read-multiple-choice)
                   (lambda (_prompt offered &rest _) (setq choices offered) '(?c))))
          (should-error (gemini-companion-accept) :type 'user-error))
        (should (equal (mapcar #'car choices) '(?a ?t ?c))))
      (gemini-companion-review-three-way)
      (should (gemini-companion-review-with-base review))
      (gemini-companion-review-three-way)
      (gemini-companion-reject))))

(ert-deftest gemini-companion-review/a-file-that-is-too-large-is-not-shown ()
  (gemini-companion-test-with-client client
    (let* ((inhibit-message t)
           (gemini-companion-file-largest 10)
           (path (gemini-companion-test-file "b.txt" "one\ntwo\nthree\n"))
           (review (gemini-companion-test-propose client "b.txt" "x\n")))
      (should (equal (cdr (should-error (gemini-companion-review-show review 'select)))
                     '("It is too large, or no longer a file that Emacs can read")))
      ;; Emacs could not restore it.
      (setf (gemini-companion-review-seen review) t)
      (let ((result (fake-cli-call-tool client "acceptDiff" `(:filePath ,path))))
        (should (eq (alist-get 'isError result) t))
        (should (equal (fake-cli-result-text result) "This file cannot be read or written")))
      (should (equal (gemini-companion-test-read path) "one\ntwo\nthree\n"))
      (gemini-companion-review-reject review))))

(define-minor-mode gemini-companion-review-test-mode "A mode that is on everywhere.")
(define-globalized-minor-mode global-gemini-companion-review-test-mode
  gemini-companion-review-test-mode gemini-companion-review-test-mode
  :group 'gemini-companion)

(ert-deftest gemini-companion-review/global-modes-are-off-in-the-texts ()
  "Some global modes change texts or run programs on them."
  (gemini-companion-test-with-client client
    (unwind-protect
        (progn
          (global-gemini-companion-review-test-mode 1)
          (gemini-companion-test-file "x.el" "(b)\n")
          (gemini-companion-review-test--show client "x.el" "(a)\n")
          (run-hooks 'post-command-hook)
          (with-current-buffer (gemini-companion-review-test--control)
            (dolist (buffer (list ediff-buffer-A ediff-buffer-B))
              (with-current-buffer buffer
                (should (eq major-mode 'emacs-lisp-mode))
                (should-not gemini-companion-review-test-mode)))))
      (global-gemini-companion-review-test-mode -1))))

(ert-deftest gemini-companion-review/texts-are-returned-byte-for-byte ()
  (random "gemini-companion")
  (gemini-companion-test-with-client client
    (dotimes (_ 100)
      (let* ((text (gemini-companion-test-random-text (random 40)))
             (review (gemini-companion-test-propose client "a.txt" text)))
        (gemini-companion-review-show review 'select)
        (gemini-companion-test-with-answer 'yes (gemini-companion-accept))
        (ert-info ((format "%S" (append text nil)))
          (should (equal (alist-get
                          'content (fake-cli-wait-notification client "ide/diffAccepted"))
                         text)))
        (setf (fake-cli-notifications client) nil)))))

(ert-deftest gemini-companion-review/libraries-are-loaded-before-the-first-review ()
  "When Emacs is idle, once a client is connected."
  (let* ((directory (gemini-companion-test-temp-directory))
         (library (expand-file-name "view.el" directory))
         (gemini-companion-diff-function 'gemini-companion-review-test-view)
         (timers (lambda () (gemini-companion-test-timers #'gemini-companion-review-popup--load))))
    (gemini-companion-test-write
     library "(defun gemini-companion-review-test-view (_review _focus) \"Show.\")")
    (autoload 'gemini-companion-review-test-view library)
    (unwind-protect
        (progn
          (gemini-companion-review-popup--load-when-idle 0)
          (should-not (funcall timers))
          (gemini-companion-review-popup--load-when-idle 1)
          (gemini-companion-review-popup--load-when-idle 2)
          (should (= (length (funcall timers)) 1))
          ;; Nobody proposes changes any more.
          (gemini-companion-review-popup--load-when-idle 0)
          (should-not (funcall timers))
          (should (autoloadp (symbol-function 'gemini-companion-review-test-view)))
          (gemini-companion-review-popup--load-when-idle 1)
          (timer-event-handler (car (funcall timers)))
          (should-not (autoloadp (symbol-function 'gemini-companion-review-test-view)))
          ;; Now there is nothing to load.
          (gemini-companion-review-popup--load-when-idle 1)
          (should-not (funcall timers)))
      (fmakunbound 'gemini-companion-review-test-view)
      (delete-directory directory t))))

(ert-deftest gemini-companion-review/a-view-that-cannot-be-loaded-is-told-once ()
  "As when the package was replaced by another version in the meantime."
  (gemini-companion-test-with-client client
    (let ((gemini-companion-diff-function 'gemini-companion-review-test-no-view))
      (autoload gemini-companion-diff-function "no-such-library")
      (unwind-protect
          (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
            (gemini-companion-test-with-answer nil
              (dotimes (_ 2) (gemini-companion-test-pop-up))
              (should (equal (seq-filter (lambda (text) (string-search "Cannot show" text))
                                         gemini-companion-test-messages)
                             (list "Cannot show the change to a.txt: Cannot open load file: \
No such file or directory: no-such-library.  Decide it in Gemini CLI")))
              (should (string-prefix-p "cannot be shown: Cannot open load file"
                                       (gemini-companion-review-reason review)))))
        (fmakunbound gemini-companion-diff-function)))))

(ert-deftest gemini-companion-review/a-faulty-function-on-the-hook-rejects-nothing ()
  (gemini-companion-test-with-client client
    (let* ((called 0)
           (gemini-companion-review-change-hook
            `(,(lambda () (error "A faulty hook"))
              ,@gemini-companion-review-change-hook
              ,(lambda () (cl-incf called))))
           (review (gemini-companion-test-propose client "a.txt" "2\n")))
      (should (> called 0))
      (should (string-search "gemini-companion-review-change-hook: A faulty hook"
                             (string-join (gemini-companion-log-last 5))))
      (gemini-companion-review-show review 'keep)
      (should-not (gemini-companion-review-reason review))
      (gemini-companion-accept)
      (should (gemini-companion-review-test--accepted client)))))

(ert-deftest gemini-companion-review/a-faulty-function-on-the-hook-silences-no-other ()
  (gemini-companion-test-with-client client
    (let* ((seen nil)
           (gemini-companion-review-waiting-hook
            (list (lambda () (error "Not today"))
                  (lambda () (push gemini-companion-review-waiting seen))))
           (review (gemini-companion-test-propose client "a.txt" "x\n")))
      (should (memq review seen)))))

(ert-deftest gemini-companion-review/another-base-is-another-change ()
  "A merge of what was written to the file may change the base alone."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-test-propose client "a.txt" "one\ntwo\nthree\n")))
      (should (equal (gemini-companion-change-size (gemini-companion-review-effect-change review))
                     "+1 -0"))
      (setf (gemini-companion-review-base review) "")
      (gemini-companion-test-file "a.txt" "")
      (should (equal (gemini-companion-change-size (gemini-companion-review-effect-change review))
                     "+3 -0")))))

(ert-deftest gemini-companion-review/the-user-is-told-what-emacs-rejects-by-itself ()
  (gemini-companion-test-with-client client
    (let ((file (gemini-companion-test-file "a.txt")))
      (gemini-companion-test-with-answer nil
        (cl-letf (((symbol-function 'gemini-companion-file-stamp)
                   (lambda (_) (error "No stamp"))))
          (fake-cli-call-tool client "openDiff" `(:filePath ,file :newContent "2\n"))
          (should (gemini-companion-review-test--rejected client)))
        (should (equal gemini-companion-test-messages
                       (list (format "The change to %s was rejected: No stamp" file))))
        (should-not (gemini-companion-review-all-open))))))

(ert-deftest gemini-companion-review/a-view-without-an-end-is-shown-once ()
  "The user's function has to return one that takes the review off the screen."
  (gemini-companion-test-with-client client
    (let* ((shown 0)
           (gemini-companion-diff-function (lambda (&rest _) (ignore (cl-incf shown))))
           (review (gemini-companion-test-propose client "a.txt" "2\n")))
      (gemini-companion-test-with-answer nil
        (dotimes (_ 3) (gemini-companion-test-pop-up))
        (should (= shown 1))
        (should (string-search "has not returned a function"
                               (gemini-companion-review-reason review)))))))

(ert-deftest gemini-companion-review/a-quit-while-it-is-shown-leaves-a-message ()
  "The user may have pressed \\`C-g' for something else, and would not know of it."
  (gemini-companion-test-with-client client
    (let ((gemini-companion-diff-function (lambda (&rest _) (signal 'quit nil)))
          (review (gemini-companion-test-propose client "a.txt" "2\n")))
      (gemini-companion-test-with-answer nil
        ;; As in a timer.
        (let ((inhibit-quit t))
          (gemini-companion-test-pop-up)
          (setq quit-flag nil))
        (gemini-companion-ui--show-messages)
        (should-not (gemini-companion-review-shown))
        (should (gemini-companion-review-open-p review))
        (should (string-match-p "proposes a change to a.txt, .*review-next shows it"
                                (car gemini-companion-test-messages)))))))

(ert-deftest gemini-companion-review/a-proposal-is-read-only-if-it-was-edited ()
  "Reading it takes long if it is large."
  (gemini-companion-test-with-client client
    (let ((review (gemini-companion-review-test--show client "a.txt" "2\n")))
      (cl-letf (((symbol-function 'gemini-companion-review-text-of-buffer) #'error))
        (gemini-companion-review-commands-accept review))
      (should (equal (gemini-companion-review-test--accepted client) '("a.txt" "2\n"))))
    (let ((review (gemini-companion-review-test--show client "a.txt" "2\n")))
      (with-current-buffer (gemini-companion-review-proposal review)
        (goto-char (point-max))
        (insert "3\n"))
      (should (equal (gemini-companion-review-current-text review) "2\n3\n"))
      ;; What was undone since then counts, too.
      (with-current-buffer (gemini-companion-review-proposal review)
        (delete-region 3 (point-max)))
      (kill-buffer (gemini-companion-review-proposal review))
      (should (equal (gemini-companion-review-current-text review) "2\n")))))

(ert-deftest gemini-companion-review/ediff-is-for-frames-with-room ()
  "Unless the user has chosen a view."
  (pcase-dolist (`(,columns ,lines ,view)
                 '((160 23 gemini-companion-review-ediff-show) (159 40 gemini-companion-review-inline-show)
                   (300 22 gemini-companion-review-inline-show) (80 41 gemini-companion-review-ediff-show)
                   (79 80 gemini-companion-review-inline-show)))
    (cl-letf (((symbol-function 'window-total-width) (lambda (&rest _) columns))
              ((symbol-function 'window-total-height) (lambda (&rest _) lines)))
      (let ((gemini-companion-diff-function 'auto))
        (should (eq (gemini-companion-review-view) view)))
      (let ((gemini-companion-diff-function 'mine))
        (should (eq (gemini-companion-review-view) 'mine))))))

(ert-deftest gemini-companion-review/a-line-without-a-newline-is-counted ()
  (pcase-dolist (`(,text . ,lines) '(("" . 0) ("a" . 1) ("a\n" . 1) ("a\nb" . 2) ("\n\n" . 2)))
    (should (= lines (gemini-companion-review-effect-count-lines text)))))

;;; gemini-companion-review-test.el ends here

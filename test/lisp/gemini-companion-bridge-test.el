;;; gemini-companion-bridge-test.el --- Tests of the bridge  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-companion)

(declare-function gemini-companion--mod-start "ext:gemini-companion-module" t t)
(declare-function gemini-companion--mod-stop "ext:gemini-companion-module" t t)
(declare-function gemini-companion--mod-set-wake-pipe "ext:gemini-companion-module" t t)
(declare-function gemini-companion--mod-publish-context "ext:gemini-companion-module" t t)
(declare-function gemini-companion--mod-accept-review "ext:gemini-companion-module" t t)
(declare-function gemini-companion--mod-answer-call "ext:gemini-companion-module" t t)

(ert-deftest gemini-companion-bridge/unusual-strings-reach-the-client ()
  (gemini-companion-test-with-client client
    (pcase-dolist (`(,text ,arrives)
                   '(("plain" "plain")
                     ("naïve 😀 \u2028" "naïve 😀 \u2028")
                     ("raw \377 byte" "raw \ufffd byte")
                     ("" "")))
      (let ((review (gemini-companion-test-propose client "a.txt" "proposed")))
        (should (gemini-companion-bridge-accept
                 (gemini-companion-review-id review) text))
        (gemini-companion-review-end review 'withdrawn nil "withdrawn")
        (fake-cli-wait-notification
         client "ide/diffAccepted"
         (lambda (params) (equal (alist-get 'content params) arrives)))))))

(ert-deftest gemini-companion-bridge/an-error-in-a-handler-is-logged ()
  "A change that Emacs fails to record is rejected, as nobody could decide it."
  (gemini-companion-test-with-client client
    (cl-letf (((symbol-function 'gemini-companion-review-add)
               (lambda (_) (error "No view today"))))
      (fake-cli-call-tool client "openDiff"
                          (list :filePath (gemini-companion-test-file "a.txt")
                                :newContent "proposed"))
      (fake-cli-wait-notification client "ide/diffRejected"))
    (should-not (gemini-companion-review-all-open))
    (with-current-buffer (gemini-companion-log--buffer)
      (should (string-match-p "open-review: No view today" (buffer-string))))
    (should (fake-cli-request client "tools/list"))))

;; C-g while Lisp runs sets `quit-flag', and so do these tests.

(ert-deftest gemini-companion-bridge/a-quit-loses-no-event ()
  (gemini-companion-test-with-client client
    (let* ((next (symbol-function 'gemini-companion--mod-next-event))
           (path (gemini-companion-test-file "a.txt"))
           (quits 0))
      (let ((gemini-companion-bridge--draining t)) ; the event waits
        (fake-cli-call-tool client "openDiff" (list :filePath path :newContent "proposed")))
      (cl-letf (((symbol-function 'gemini-companion--mod-next-event)
                 (lambda (companion)
                   (let ((event (funcall next companion)))
                     (when (eq (and event (aref event 0)) 'open-review)
                       (setq quits (1+ quits)
                             quit-flag t))
                     event))))
        (should (eq (condition-case nil
                        (progn (gemini-companion-bridge-drain) 'nothing)
                      (quit 'quit))
                    'quit)))
      (should (= quits 1))
      (should (equal (mapcar #'gemini-companion-review-path (gemini-companion-review-all-open))
                     (list path))))))

(ert-deftest gemini-companion-bridge/a-quit-in-a-handler-delays-no-other-event ()
  (gemini-companion-test-with-client client
    (let ((messages nil)
          (events (list [client-message "A client" "quit"] [client-message "A client" "next"])))
      (cl-letf (((symbol-function 'gemini-companion--mod-next-event)
                 (lambda (_companion) (pop events)))
                ((symbol-function 'gemini-companion--handle-client-message)
                 (lambda (_client text)
                   (if (equal text "quit") (signal 'quit nil) (push text messages)))))
        (gemini-companion-bridge-drain))
      (should (equal messages '("next"))))
    (with-current-buffer (gemini-companion-log--buffer)
      (should (string-match-p "event client-message: Quit" (buffer-string))))
    (should (fake-cli-request client "tools/list"))))

(defun gemini-companion-bridge-test--interval ()
  "Return the seconds between two looks for events, nil if Emacs does not look."
  (when-let* ((timer (car (gemini-companion-test-timers #'gemini-companion-bridge--drain-soon))))
    (timer--repeat-delay timer)))

(defun gemini-companion-bridge-test--slow-p ()
  "Return non-nil if Emacs looks for events once a second."
  (eql (gemini-companion-bridge-test--interval) 1.0))

(ert-deftest gemini-companion-bridge/the-timer-runs-only-when-needed ()
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (should-not (gemini-companion-bridge-test--interval)))
  (gemini-companion-test-with-client client
    (gemini-companion-test-wait "a slow timer" #'gemini-companion-bridge-test--slow-p)
    ;; The pipe tells of what is urgent.
    (gemini-companion-test-propose client "a.txt" "x")
    (should (gemini-companion-bridge-test--slow-p))))

(ert-deftest gemini-companion-bridge/without-a-pipe-it-polls-fast-only-with-clients ()
  (gemini-companion-test-with-project
    (find-file-noselect (gemini-companion-test-file "a.txt" "one\n"))
    (let ((start (symbol-function 'gemini-companion-bridge-start)))
      (cl-letf (((symbol-function 'gemini-companion-bridge-start)
                 (lambda (&rest arguments)
                   (let ((system-type 'windows-nt)) (apply start arguments)))))
        (gemini-companion-mode 1)))
    (should-not gemini-companion-bridge--pipe)
    (let ((wait (lambda (interval)
                  (gemini-companion-test-wait
                   (format "a look every %s s" interval)
                   (lambda () (eql (gemini-companion-bridge-test--interval) interval))))))
      (funcall wait 1.0)
      (let ((client (fake-cli-connect temporary-file-directory gemini-companion-test-project)))
        (unwind-protect (funcall wait 0.05)
          (fake-cli-disconnect client)))
      (gemini-companion-bridge-handle-event 'clients 0)
      (funcall wait 1.0))
    (gemini-companion-mode -1)
    (should-not (gemini-companion-bridge-test--interval))))

(ert-deftest gemini-companion-bridge/a-user-s-buffer-of-the-same-name-is-not-touched ()
  (gemini-companion-test-with-project
    (let ((buffer (find-file-noselect
                   (gemini-companion-test-file "gemini-companion" "one\n")))
          (before (buffer-list)))
      (should (equal (buffer-name buffer) "gemini-companion"))
      (with-current-buffer buffer
        (goto-char (point-max))
        (let ((create-lockfiles nil)) (insert "mine\n")))
      (dolist (argument '(1 -1 1))
        (gemini-companion-mode argument)
        (should-not (get-buffer-process buffer))
        (should (equal (buffer-name buffer) "gemini-companion"))
        (should (equal (with-current-buffer buffer (buffer-string)) "one\nmine\n")))
      (should-not (seq-find (lambda (new) (string-search "pipe" (buffer-name new)))
                            (seq-difference (buffer-list) before))))))

(ert-deftest gemini-companion-bridge/the-module-checks-its-arguments ()
  (should-error (gemini-companion--mod-start 7 0 [] 1) :type 'wrong-type-argument)
  (should-error (gemini-companion--mod-start "/tmp/gemini/ide" 99999 [] 1))
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (let ((companion gemini-companion-bridge--companion))
      (should-error (gemini-companion--mod-set-wake-pipe companion 'no-process))
      (should-error (gemini-companion--mod-publish-context companion [[]]))
      (should-error (gemini-companion--mod-publish-context companion '(list)))
      (should-not (gemini-companion--mod-accept-review companion 4711 "text" nil))
      (should-not (gemini-companion--mod-answer-call companion 4711 "text" nil))
      (gemini-companion--mod-stop companion)
      (gemini-companion--mod-stop companion))))

;;; gemini-companion-bridge-test.el ends here

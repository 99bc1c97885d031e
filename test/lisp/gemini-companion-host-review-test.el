;;; gemini-companion-host-review-test.el --- Tests of reviews on hosts  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-review-ediff)
(require 'gemini-companion-notify)
(require 'gemini-companion-history-list)
(require 'gemini-companion-test-host)
(require 'gemini-companion-test-lists)

(defun gemini-companion-host-review-test--visit (name)
  "Show the file NAME, on the host, in the selected window; return its buffer."
  (switch-to-buffer (find-file-noselect (gemini-companion-test-host-file name))))

(defun gemini-companion-host-review-test--accept (client name text)
  "Have CLIENT propose TEXT for the file NAME, and accept that, as the user does."
  (let ((review (gemini-companion-test-host-propose client name text)))
    (gemini-companion-review-show review 'keep)
    (gemini-companion-review-commands-accept review)))

(defun gemini-companion-host-review-test--texts ()
  "Return the texts of the buffers of reviews, without the panel, sorted."
  (sort (cl-loop for buffer in (buffer-list)
                 if (string-match-p "\\`\\*gemini [a-z]+: " (buffer-name buffer))
                 collect (gemini-companion-review-text-of-buffer buffer))
        #'string<))

(defun gemini-companion-host-review-test--header ()
  "Return the header line of the current buffer, evaluated."
  (substring-no-properties (gemini-companion-review-buffer--header-line)))

;;;; Showing

(ert-deftest gemini-companion-host-review/a-change-is-shown-without-asking-the-host ()
  (gemini-companion-test-with-host client
    (gemini-companion-host-review-test--visit "a.txt")
    (dolist (function '(gemini-companion-review-ediff-show gemini-companion-review-inline-show))
      (gemini-companion-test-host-unasked
        (let ((gemini-companion-diff-function function)
              (review (gemini-companion-test-host-propose client "a.txt" "one\n2\n")))
          (should (equal (gemini-companion-review-host review)
                         gemini-companion-test-host-prefix))
          (gemini-companion-review-show review 'select)
          (dolist (buffer (buffer-list))
            (when (buffer-local-value 'gemini-companion-review-of-buffer buffer)
              (should-not (file-remote-p (buffer-local-value 'default-directory buffer)))))
          (with-current-buffer (gemini-companion-review-proposal review)
            (should (equal (buffer-string) "one\n2\n"))
            (should (string-search "build:a.txt" (gemini-companion-host-review-test--header))))
          (pcase function
            ('gemini-companion-review-inline-show
             (should (equal (with-current-buffer (gemini-companion-review-front review)
                              (buffer-string))
                            "one\ntwo\n2\n")))
            (_ (should (equal (gemini-companion-host-review-test--texts)
                              '("one\n2\n" "one\ntwo\n")))))
          (should (equal (gemini-companion-review-effect-describe review)
                         "a change to build:a.txt, +1 -1"))
          (gemini-companion-review-reject review)
          (fake-cli-wait-notification client "ide/diffRejected"))))))

(ert-deftest gemini-companion-host-review/a-directory-of-the-user-on-the-host-does-not-matter ()
  "Programs of Ediff run here, whichever buffer is current when a review is shown."
  (gemini-companion-test-with-host client
    (gemini-companion-host-review-test--visit "a.txt")
    (gemini-companion-test-host-unasked
      (gemini-companion-test-file "b.txt" "one two three\n")
      (let ((review (gemini-companion-test-host-propose client "b.txt" "one 2 three\n")))
        (gemini-companion-review-show review 'select)
        (with-current-buffer (seq-find (lambda (buffer)
                                         (string-match-p "Ediff Control" (buffer-name buffer)))
                                       (buffer-list))
          (should (equal default-directory "~/"))
          (should (= ediff-number-of-differences 1)))))))

(ert-deftest gemini-companion-host-review/any-file-is-shown-byte-for-byte ()
  (gemini-companion-test-with-host client
    (gemini-companion-host-review-test--visit "a.txt")
    (gemini-companion-test-host-unasked
      (pcase-dolist (`(,bytes ,text ,shown ,remarks)
                     '(("caf\351\n" "café!\n" "café\n" ("Encoding becomes UTF-8"))
                       ("one\r\ntwo\r\n" "one\n2\n" "one\ntwo\n" nil)
                       ("\357\273\277mark\n" "mark 2\n" "mark\n" ("Drops the byte order mark"))
                       ("a\0b\n" "a\0c\n" "a\0b\n" nil)
                       ("" "x\n" "" nil)
                       ("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n" "1\n" "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
                        ("Removes 9 of 10 lines"))))
        (gemini-companion-test-write-bytes "x.txt" bytes)
        (let ((review (gemini-companion-test-host-propose client "x.txt" text)))
          (should (equal (gemini-companion-review-base review) bytes))
          (should (equal (gemini-companion-review-effect-remarks review) remarks))
          (gemini-companion-review-show review 'select)
          (should (member shown (gemini-companion-host-review-test--texts)))
          (gemini-companion-review-reject review)
          (should (equal (gemini-companion-history-before (car (gemini-companion-history-all)))
                         bytes)))))))

(ert-deftest gemini-companion-host-review/decoding-does-not-ask-whether-case-matters ()
  "Emacs does so when a name may tell how to decode a file."
  (gemini-companion-test-with-host client
    (gemini-companion-test-write-bytes "x.txt" "caf\351\n")
    (let ((handled nil)
          (default-directory temporary-file-directory))
      (cl-letf (((symbol-function 'tramp-handle-file-name-case-insensitive-p)
                 (lambda (file) (push file handled) nil)))
        (gemini-companion-review-show (gemini-companion-test-host-propose client "x.txt" "2\n")
                                      'select))
      (should-not handled))))

(ert-deftest gemini-companion-host-review/a-new-file-and-an-unreadable-one ()
  (gemini-companion-test-with-host client
    (gemini-companion-host-review-test--visit "a.txt")
    (gemini-companion-test-host-unasked
      (let ((review (gemini-companion-test-host-propose client "src/new.el" ";; new\n")))
        (gemini-companion-review-show review 'select)
        (should (equal (buffer-string) ";; new\n"))
        (with-current-buffer (gemini-companion-review-proposal review)
          (should (derived-mode-p 'emacs-lisp-mode)))
        (should (string-search "build:src/new.el" (gemini-companion-host-review-test--header)))
        (should (string-search "new file +1" (gemini-companion-host-review-test--header)))
        (gemini-companion-review-reject review)
        (should-not (gemini-companion-history-before (car (gemini-companion-history-all)))))
      (let ((review (gemini-companion-test-host-propose
                     client "secret" "x\n"
                     '( :current (:unreadable "EACCES") :stamp :null :modified :null))))
        (should (equal (gemini-companion-change-size (gemini-companion-review-effect-change review))
                       "?"))
        (should-error (gemini-companion-review-show review 'select))
        (gemini-companion-review-reject review)
        (should (eq (gemini-companion-history-before (car (gemini-companion-history-all)))
                    'unreadable))))))

(ert-deftest gemini-companion-host-review/its-host-is-shown-everywhere ()
  (gemini-companion-test-with-host client
    (gemini-companion-host-review-test--visit "a.txt")
    (gemini-companion-test-host-unasked
      (gemini-companion-test-file "src/a.c" "int a;\n")
      (let ((review (gemini-companion-test-host-propose client "src/a.c" "int b;\n"))
            (gemini-companion-notify--subjects nil))
        (gemini-companion-review-list)
        (should (equal (gemini-companion-test-list-column "*gemini changes*" 0)
                       '("build:src/a.c")))
        (push review gemini-companion-notify--subjects)
        (should (equal (cdr (gemini-companion-notify--text)) "build:src/a.c, +1 -1"))
        (gemini-companion-test-with-answer nil
          (gemini-companion-review-reject review)
          (should (equal gemini-companion-test-messages '("Change to build:a.c rejected"))))
        (gemini-companion-history-list)
        (should (equal (gemini-companion-test-list-column "*gemini history*" 2)
                       '("build:src/a.c")))
        ;; Also after its host was closed.
        (gemini-companion-test-host-close gemini-companion-test-host-prefix)
        (should (equal (gemini-companion-history-list--file
                        (car (gemini-companion-history-all)))
                       "build:a.c"))))))

(ert-deftest gemini-companion-host-review/hosts-of-one-name-are-told-apart ()
  (let ((gemini-companion-host-all nil))
    (pcase-dolist (`(,prefix ,title)
                   '(("/ssh:build:" "build")
                     ("/ssh:me@build.example.org#2222:" "build.example.org")
                     ("/ssh:jump|ssh:me@far:" "far")
                     ("/ssh:[::1]:" "[::1]")
                     ("/mock::" "mock:")))
      (should (equal (gemini-companion-host-title prefix) title)))
    (gemini-companion-test-host-add "/ssh:build:")
    (should (equal (gemini-companion-host-title "/ssh:build:") "build"))
    (gemini-companion-test-host-add "/ssh:root@build:")
    (should (equal (gemini-companion-host-title "/ssh:build:") "ssh:build"))
    (should (equal (gemini-companion-host-title "/ssh:root@build:") "ssh:root@build"))))

;;;; Conflicts

(ert-deftest gemini-companion-host-review/what-the-user-has-just-saved-is-no-part-of-the-change ()
  "The client on the host has not told Emacs of it yet."
  (gemini-companion-test-with-host client
    (let* ((buffer (gemini-companion-host-review-test--visit "a.txt"))
           (review (gemini-companion-test-host-propose client "a.txt" "one\n2\n")))
      (gemini-companion-review-show review 'select)
      (should-not (gemini-companion-review-effect-conflict review))
      (with-current-buffer buffer
        (insert "mine ")
        (set-buffer-modified-p nil)
        (set-visited-file-modtime (time-add nil 60)))
      (should (eq (gemini-companion-review-effect-conflict review) 'changed)))))

(ert-deftest gemini-companion-host-review/a-file-that-changes-meanwhile ()
  (gemini-companion-test-with-host client
    (gemini-companion-host-review-test--visit "a.txt")
    (gemini-companion-test-host-unasked
      (let ((review (gemini-companion-test-host-propose client "a.txt" "one\n2\n")))
        (gemini-companion-review-show review 'select)
        (should-not (gemini-companion-review-effect-conflict review))
        ;; Written again, with the same text.
        (gemini-companion-test-host-tell
         client "a.txt" `( :current (:text "one\ntwo\n") :stamp "again"
                           :modified ,(truncate (float-time))))
        (should-not (gemini-companion-review-effect-conflict review))
        (gemini-companion-test-host-write client "a.txt" "zero\none\ntwo\n")
        (gemini-companion-review-popup--check-file)
        (should (eq (gemini-companion-review-conflict review) 'changed))
        (should (equal (gemini-companion-review-effect-remarks review) '("Changed on disk")))
        (gemini-companion-review-merge)
        (should (equal (gemini-companion-review-current-text review) "zero\none\n2\n"))
        (should-not (gemini-companion-review-effect-conflict review))
        (gemini-companion-test-host-tell
         client "a.txt" '(:current :null :stamp :null :modified :null))
        (should (eq (gemini-companion-review-effect-conflict review) 'deleted))
        (should-error (gemini-companion-review-merge) :type 'user-error)))))

(defun gemini-companion-host-review-test--accept-merged (client)
  "Merge the unsaved line in a.txt into a change by CLIENT, and accept that."
  (let ((review (gemini-companion-test-host-propose client "a.txt" "one\ntwo\nthree\n")))
    (gemini-companion-review-show review 'keep)
    (should (eq (gemini-companion-review-effect-conflict review) 'unsaved))
    (with-current-buffer (gemini-companion-review-proposal review)
      (gemini-companion-review-merge))
    (should (equal (gemini-companion-review-current-text review) "mine\none\ntwo\nthree\n"))
    (gemini-companion-review-commands-accept review)))

(defun gemini-companion-host-review-test--after-merging (written)
  "Return what a buffer has once WRITTEN was written, and whether it has edits.
An unsaved line in it was merged into the change that was accepted before."
  (gemini-companion-test-with-host client
    ;; Hosts report times in seconds.
    (set-file-times (gemini-companion-test-file "a.txt") (time-subtract nil 3600))
    (let ((buffer (gemini-companion-host-review-test--visit "a.txt")))
      (goto-char (point-min))
      (insert "mine\n")
      (gemini-companion-test-host-unasked
        (gemini-companion-host-review-test--accept-merged client)
        (gemini-companion-test-host-write client "a.txt" written)
        (with-current-buffer buffer
          (list (buffer-string) (buffer-modified-p)))))))

(ert-deftest gemini-companion-host-review/unsaved-edits-are-merged-and-taken-for-written ()
  (should (equal (gemini-companion-host-review-test--after-merging "mine\none\ntwo\nthree\n")
                 '("mine\none\ntwo\nthree\n" nil))))

(ert-deftest gemini-companion-host-review/unsaved-edits-that-were-not-written-are-kept ()
  "Minutes later something else may be written than what was merged."
  (should (equal (gemini-companion-host-review-test--after-merging "one\ntwo\nthree\n")
                 '("mine\none\ntwo\n" t))))

;;;; Following what was written

(ert-deftest gemini-companion-host-review/the-buffer-follows-without-asking-the-host ()
  (gemini-companion-test-with-host client
    (dolist (change '(("one\n2\n" . "one\n2\n") ("a\nb\nc\n" . "a\nb\nc\n")
                      ("caf\303\251\n" . "café\n") ("x\r\ny\r\n" . "x\ny\n")))
      ;; Tramp takes times for the same that are less than two seconds apart.
      (set-file-times (gemini-companion-test-file "a.txt") (time-subtract nil 3600))
      (let ((buffer (gemini-companion-host-review-test--visit "a.txt"))
            (reverted 0))
        (add-hook 'after-revert-hook (lambda () (setq reverted (1+ reverted))) nil t)
        (gemini-companion-test-host-unasked
          (gemini-companion-host-review-test--accept client "a.txt" (cdr change))
          (fake-cli-wait-notification client "ide/diffAccepted")
          (gemini-companion-test-host-write client "a.txt" (car change))
          (with-current-buffer buffer
            (should (equal (buffer-string) (cdr change)))
            (should-not (buffer-modified-p))
            (should (= reverted 1))))
        ;; Now the host is asked: the user goes on without a question.
        (with-current-buffer buffer
          (should (verify-visited-file-modtime))
          (goto-char (point-max))
          (insert "more\n")
          (let ((inhibit-message t)) (save-buffer))
          (should (equal (gemini-companion-test-bytes (gemini-companion-test-file "a.txt"))
                         (if (string-search "\r\n" (car change)) (concat (car change) "more\r\n")
                           (concat (car change) "more\n"))))
          (kill-buffer))))))

(ert-deftest gemini-companion-host-review/the-buffer-follows-through-a-link ()
  (gemini-companion-test-with-host client
    (make-symbolic-link (directory-file-name gemini-companion-test-project)
                        (gemini-companion-test-file "link"))
    (let ((buffer (gemini-companion-host-review-test--visit "link/a.txt")))
      (should-not (equal (buffer-file-name buffer) (gemini-companion-test-host-file "a.txt")))
      (gemini-companion-test-host-unasked
        (let ((review (gemini-companion-test-host-propose client "a.txt" "2\n")))
          (should (eq (gemini-companion-review-visiting review) buffer))
          (gemini-companion-review-show review 'keep)
          (gemini-companion-review-commands-accept review)
          (gemini-companion-test-host-write client "a.txt" "2\n"))
        (should (equal (with-current-buffer buffer (buffer-string)) "2\n"))))))

(ert-deftest gemini-companion-host-review/a-link-to-the-file-is-no-change-of-it ()
  "Tramp has the time of the link, whatever is written by it."
  (gemini-companion-test-with-host client
    (make-directory (gemini-companion-test-file "sub"))
    ;; One has the same name without its directory.
    (dolist (name '("link.txt" "sub/a.txt"))
      (gemini-companion-test-file "a.txt" "one\ntwo\n")
      (set-file-times (gemini-companion-test-file "a.txt") (time-subtract nil 3600))
      (make-symbolic-link (gemini-companion-test-file "a.txt") (gemini-companion-test-file name))
      (let ((buffer (gemini-companion-host-review-test--visit name)))
        (dolist (minutes '(30 0))
          (set-file-times (gemini-companion-test-file name)
                          (time-subtract nil (* 60 minutes)) 'nofollow)
          (set-visited-file-modtime)
          (gemini-companion-test-host-unasked
            (let* ((text (format "%d\n" minutes))
                   (review (gemini-companion-test-host-propose client "a.txt" text)))
              (should-not (gemini-companion-review-effect-conflict review))
              (gemini-companion-review-show review 'keep)
              (gemini-companion-review-commands-accept review)
              (gemini-companion-test-host-write client "a.txt" text)
              (should (equal (with-current-buffer buffer (buffer-string)) text)))))
        (kill-buffer buffer)))))

(ert-deftest gemini-companion-host-review/the-buffer-follows-when-no-command-awaits-a-key ()
  (gemini-companion-test-with-host client
    (let ((buffer (gemini-companion-host-review-test--visit "a.txt"))
          (text (lambda () (with-current-buffer "a.txt" (buffer-string)))))
      (gemini-companion-test-host-unasked
        (gemini-companion-host-review-test--accept client "a.txt" "2\n")
        (gemini-companion-review-window-stop-now)
        (switch-to-buffer buffer)
        (let ((this-command 'query-replace))
          (gemini-companion-test-host-tell
           client "a.txt" `( :current (:text "2\n") :stamp "s"
                             :modified ,(time-convert nil 'integer)))
          (gemini-companion-test-wait-seconds 0.3)
          (should (equal (funcall text) "one\ntwo\n")))
        (gemini-companion-test-wait "the buffer to follow"
                                    (lambda () (equal (funcall text) "2\n")))))))

(ert-deftest gemini-companion-host-review/an-abbreviated-name-is-the-same-file ()
  (let ((gemini-companion-host-all nil)
        (prefix gemini-companion-test-host-prefix))
    (gemini-companion-test-host-add prefix)
    (cl-letf (((symbol-function 'tramp-get-connection-property)
               (lambda (_vec property _default) (and (equal property "~") "/home/me"))))
      (with-temp-buffer
        (setq buffer-file-truename (concat prefix "~/real/a.txt"))
        (let ((buffer-file-name (concat prefix "/home/me/link/a.txt")))
          (should (equal (gemini-companion-file-truename (current-buffer))
                         (concat prefix "/home/me/real/a.txt")))
          (should (eq (gemini-companion-file-visiting (concat prefix "/home/me/real/a.txt"))
                      (current-buffer)))
          (should-not (gemini-companion-file-visiting (concat prefix "/home/you/real/a.txt"))))))))

(defmacro gemini-companion-host-review-test--while-cut-off (&rest body)
  "Evaluate BODY while the clients of all hosts are cut off, and a while longer."
  (declare (indent 0) (debug t))
  `(cl-letf (((symbol-function 'gemini-companion-bridge-host-sessions)
              (lambda (_) '([nil nil nil nil lost nil nil nil]))))
     ,@body
     (gemini-companion-test-wait-seconds 0.3)))

(ert-deftest gemini-companion-host-review/it-follows-even-after-a-long-time ()
  "When the connection was cut, and is back."
  (gemini-companion-test-with-host client
    (let ((buffer (gemini-companion-host-review-test--visit "a.txt"))
          (gemini-companion-write--host-time 0.2)
          (gemini-companion-write--slow-interval 0.05))
      (gemini-companion-test-host-unasked
        (let ((review (gemini-companion-test-host-propose client "a.txt" "2\n")))
          (gemini-companion-review-show review 'keep)
          (gemini-companion-host-review-test--while-cut-off
            (gemini-companion-review-commands-accept review))
          (gemini-companion-test-host-write client "a.txt" "2\n")
          (should (equal (with-current-buffer buffer (buffer-string)) "2\n")))
        ;; Otherwise, the file is watched for a short time only.
        (gemini-companion-test-wait "no more" (lambda () (null gemini-companion-write--files)))
        (gemini-companion-test-host-write client "a.txt" "3\n")
        (should (equal (with-current-buffer buffer (buffer-string)) "2\n"))))))

(ert-deftest gemini-companion-host-review/tramp-forgets-what-it-knew-of-the-file ()
  (gemini-companion-test-with-host client
    (let ((size (lambda ()
                  (file-attribute-size
                   (file-attributes (gemini-companion-test-host-file "a.txt")))))
          (remote-file-name-inhibit-cache nil))
      (should (= (funcall size) 8))
      (gemini-companion-test-host-unasked
        (gemini-companion-test-host-write client "a.txt" "longer than before\n"))
      (should (= (funcall size) 19)))))

(ert-deftest gemini-companion-host-review/edits-of-the-user-are-kept ()
  (gemini-companion-test-with-host client
    (let ((buffer (gemini-companion-host-review-test--visit "a.txt")))
      (gemini-companion-host-review-test--accept client "a.txt" "2\n")
      (with-current-buffer buffer (insert "mine "))
      (gemini-companion-test-host-unasked
        (gemini-companion-test-with-answer nil
          (gemini-companion-test-host-write client "a.txt" "2\n")
          (should (equal gemini-companion-test-messages
                         '("a.txt changed on disk; its buffer keeps your edits"))))
        (with-current-buffer buffer
          (should (equal (buffer-string) "mine one\ntwo\n"))
          (should (buffer-modified-p)))))))

(ert-deftest gemini-companion-host-review/what-the-user-saves-is-no-change-on-disk ()
  "The user has saved the file after an accept, and goes on."
  (gemini-companion-test-with-host client
    (let ((buffer (gemini-companion-host-review-test--visit "a.txt")))
      (gemini-companion-host-review-test--accept client "a.txt" "2\n")
      (gemini-companion-test-host-write client "a.txt" "2\n")
      (with-current-buffer buffer
        (insert "mine ")
        (let ((inhibit-message t)) (save-buffer))
        (insert "more "))
      (gemini-companion-test-with-answer nil
        (gemini-companion-test-host-tell client "a.txt")
        (gemini-companion-test-wait-seconds 0.3)
        (should-not gemini-companion-test-messages))
      ;; Then the CLI has written it again, perhaps in the same second.
      (with-current-buffer buffer
        (let ((inhibit-message t)) (save-buffer)))
      (gemini-companion-test-host-write client "a.txt" "3\n")
      (should (equal (with-current-buffer buffer (buffer-string)) "3\n")))))

(ert-deftest gemini-companion-host-review/edits-that-are-what-was-written-are-saved ()
  "Their lock on the host is not asked for."
  (gemini-companion-test-with-host client
    (let ((buffer (gemini-companion-host-review-test--visit "a.txt")))
      (gemini-companion-host-review-test--accept client "a.txt" "mine one\ntwo\n")
      (with-current-buffer buffer
        (goto-char (point-min))
        (insert "mine "))
      (gemini-companion-test-host-unasked
        (gemini-companion-test-host-write client "a.txt" "mine one\ntwo\n")
        (with-current-buffer buffer
          (should (equal (buffer-string) "mine one\ntwo\n"))
          (should-not (buffer-modified-p)))))))

(ert-deftest gemini-companion-host-review/a-buffer-with-a-later-text-does-not-go-back ()
  "What the user saves after the client has written may be reported last."
  (gemini-companion-test-with-host client
    (set-file-times (gemini-companion-test-file "a.txt") (time-subtract nil 120))
    (let ((buffer (gemini-companion-host-review-test--visit "a.txt")))
      (gemini-companion-host-review-test--accept client "a.txt" "2\n")
      (with-current-buffer buffer
        (insert "mine ")
        (let ((inhibit-message t)) (save-buffer)))
      (gemini-companion-test-host-unasked
        (gemini-companion-test-host-tell
         client "a.txt" `( :current (:text "2\n") :stamp "s"
                           :modified ,(- (time-convert nil 'integer) 60)))
        (gemini-companion-test-wait-followed)
        (should (equal (with-current-buffer buffer (buffer-string)) "mine one\ntwo\n"))))))

(ert-deftest gemini-companion-host-review/what-nobody-awaits-changes-no-buffer ()
  (gemini-companion-test-with-host client
    (let ((buffer (gemini-companion-host-review-test--visit "a.txt")))
      (gemini-companion-test-host-unasked
        (gemini-companion-test-host-write client "a.txt" "2\n")
        (let ((review (gemini-companion-test-host-propose client "a.txt" "3\n")))
          (gemini-companion-review-show review 'keep)
          (gemini-companion-test-host-write client "a.txt" "4\n")
          (gemini-companion-review-reject review)
          (gemini-companion-test-host-write client "a.txt" "5\n"))
        (should (equal (with-current-buffer buffer (buffer-string)) "one\ntwo\n"))))))

;;;; Decided in the CLI

(defun gemini-companion-host-review-test--close (client name)
  "Let CLIENT close its review of the file NAME; return the text of the answer."
  (fake-cli-closed-text
   (fake-cli-call-tool client "closeDiff" `(:filePath ,(gemini-companion-test-file name)))))

(ert-deftest gemini-companion-host-review/what-is-accepted-in-the-cli-is-followed ()
  (gemini-companion-test-with-host client
    (let ((buffer (gemini-companion-host-review-test--visit "a.txt")))
      (gemini-companion-test-host-unasked
        (let ((review (gemini-companion-test-host-propose client "a.txt" "2\n")))
          (gemini-companion-review-show review 'keep)
          (should (equal (gemini-companion-host-review-test--close client "a.txt") "2\n"))
          (gemini-companion-test-host-write client "a.txt" "2\n")
          (gemini-companion-test-wait
           "the end" (lambda ()
                       (string-match-p "\\`accepted in " (gemini-companion-review-reason review))))
          (should (equal (with-current-buffer buffer (buffer-string)) "2\n"))
          (should (equal (gemini-companion-history-before (car (gemini-companion-history-all)))
                         "one\ntwo\n")))))))

(ert-deftest gemini-companion-host-review/how-it-was-decided-is-known-after-a-cut ()
  (gemini-companion-test-with-host client
    (gemini-companion-host-review-test--visit "a.txt")
    (let ((gemini-companion-write--decision-time 0.1)
          (gemini-companion-write--slow-interval 0.05))
      (gemini-companion-test-host-unasked
        (let* ((review (gemini-companion-test-host-propose client "a.txt" "2\n"))
               (ended (lambda (how)
                        (string-match-p how (gemini-companion-review-reason review)))))
          (gemini-companion-review-show review 'keep)
          (gemini-companion-host-review-test--while-cut-off
            (gemini-companion-host-review-test--close client "a.txt")
            (gemini-companion-test-wait-seconds 0.3)
            (should (funcall ended "\\`decided in "))
            (gemini-companion-test-host-write client "a.txt" "2\n"))
          (gemini-companion-test-wait "the end"
                                      (lambda () (funcall ended "\\`accepted in "))))))))

(ert-deftest gemini-companion-host-review/a-file-may-be-written-before-the-review-is-closed ()
  "While the connection is cut, a relay does not keep the CLI waiting."
  (gemini-companion-test-with-host client
    (let ((buffer (gemini-companion-host-review-test--visit "a.txt")))
      (gemini-companion-test-host-unasked
        (let ((review (gemini-companion-test-host-propose client "a.txt" "2\n")))
          (gemini-companion-review-show review 'keep)
          (gemini-companion-test-host-write client "a.txt" "2\n")
          (gemini-companion-host-review-test--close client "a.txt")
          (gemini-companion-test-wait
           "the end" (lambda ()
                       (string-match-p "\\`accepted in " (gemini-companion-review-reason review))))
          (should (equal (with-current-buffer buffer (buffer-string)) "2\n"))
          (should (equal (gemini-companion-history-before (car (gemini-companion-history-all)))
                         "one\ntwo\n")))))))

(ert-deftest gemini-companion-host-review/edits-that-the-cli-did-not-take-are-named ()
  (gemini-companion-host-review-test--loses-edits
   "build:a.txt now differs from the text that you accepted"
   (lambda (client _review)
     (gemini-companion-test-host-write client "a.txt" "2\n")
     (gemini-companion-host-review-test--close client "a.txt"))))

(ert-deftest gemini-companion-host-review/an-accept-that-the-cli-did-not-hear-of-is-named ()
  "The connection was cut, and the user has also answered there."
  (gemini-companion-host-review-test--loses-edits
   "build:a.txt now differs from the text that you accepted"
   (lambda (client review)
     (gemini-companion-review-commands-accept review)
     (gemini-companion-test-host-write client "a.txt" "2\n"))))

(ert-deftest gemini-companion-host-review/an-accept-that-nobody-has-heard-of-is-named ()
  "The CLI has ended while the connection was cut."
  (gemini-companion-host-review-test--loses-edits
   "has not written the change to build:a.txt"
   (lambda (client review)
     (gemini-companion-review-commands-accept review)
     (fake-cli-terminate client))))

(defun gemini-companion-host-review-test--loses-edits (warning decide)
  "Check that WARNING is given if edits are lost when DECIDE decides a review.
DECIDE is called with the client and the review."
  (gemini-companion-test-with-host client
    (gemini-companion-host-review-test--visit "a.txt")
    (let ((gemini-companion-write--text-time 0.1)
          (gemini-companion-write--slow-interval 0.05)
          (gemini-companion-write--host-time 0.1))
      (gemini-companion-test-host-unasked
        (gemini-companion-test-with-answer nil
          (let ((review (gemini-companion-test-host-propose client "a.txt" "2\n")))
            (gemini-companion-review-show review 'keep)
            (with-current-buffer (gemini-companion-review-proposal review)
              (goto-char (point-max))
              (insert "mine\n"))
            (funcall decide client review)
            (gemini-companion-test-wait
             "a warning"
             (lambda ()
               (seq-some (lambda (text) (string-search warning text))
                         gemini-companion-test-messages)))))))))

(ert-deftest gemini-companion-host-review/leaving-emacs-long-after-a-cut-would-lose-a-decision ()
  "A decision is known to be sent, but not to have arrived, before the cut is known."
  (gemini-companion-test-with-host client
    (let ((host (car gemini-companion-host-all))
          (asked nil))
      (gemini-companion-host-review-test--accept client "a.txt" "2\n")
      (fake-cli-wait-notification client "ide/diffAccepted")
      (cl-letf (((symbol-function 'gemini-companion-ui-user-frame-p) #'always)
                ((symbol-function 'yes-or-no-p) (lambda (question) (setq asked question) nil)))
        (pcase-dolist (`(,seconds ,lost ,asks)
                       '((5 nil t) (3600 nil nil) (3600 3592 t) (3600 600 nil)))
          (ert-info ((format "Accepted %s s ago, lost %s s ago" seconds lost))
            (setf (gemini-companion-history-time (car (gemini-companion-history-all)))
                  (time-subtract nil seconds)
                  (gemini-companion-host-lost host) (and lost (- (float-time) lost)))
            (setq asked nil)
            (should (eq (not (gemini-companion-review-query-exit)) asks))
            (when asks (should (string-search "may not have reached its CLI" asked)))))
        (setf (gemini-companion-host-lost host) nil)))))

(ert-deftest gemini-companion-host-review/clients-there-decide-nothing ()
  (gemini-companion-test-with-host client
    (let ((review (gemini-companion-test-host-propose client "a.txt" "2\n"))
          (failed nil))
      (gemini-companion-review-show review 'keep)
      (cl-letf (((symbol-function 'gemini-companion-bridge-awaited-p) #'always)
                ((symbol-function 'gemini-companion-bridge-fail)
                 (lambda (_call reason) (push reason failed))))
        (gemini-companion-test-host-unasked
          (dolist (accept '(t nil))
            (gemini-companion-bridge-handle-event 'decide-review
                                                  (gemini-companion-review-id review) accept 1 nil))))
      (should (= (length failed) 2))
      (should (gemini-companion-review-open-p review))
      (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n")))))

;;;; What is known, and until when

(ert-deftest gemini-companion-host-review/what-is-known-is-bounded-and-forgotten ()
  (gemini-companion-test-with-host client
    (ignore client)
    (gemini-companion-test-host-unasked
      (let ((tell (lambda (name bytes)
                    (gemini-companion-bridge-handle-event
                     'host-file (concat gemini-companion-test-host-prefix "/p/" name) bytes
                     (format "%s" (random)) 1700000000)))
            (known (lambda (name)
                     (gemini-companion-file-known
                      (concat gemini-companion-test-host-prefix "/p/" name)))))
        (dotimes (n 200)
          (funcall tell (format "%d" n) "x"))
        (should (= (length gemini-companion-file--states) 100))
        (should (funcall known "100"))
        (should-not (funcall known "99"))
        (let ((gemini-companion-file--max-size 10))
          (funcall tell "a" "12345678")
          (funcall tell "b" "12345678")
          (should-not (funcall known "a"))
          (should (equal (gemini-companion-file-read
                          (concat gemini-companion-test-host-prefix "/p/b"))
                         "12345678"))
          (funcall tell "c" "1234567890123")
          (should-not (gemini-companion-file-read
                       (concat gemini-companion-test-host-prefix "/p/c")))
          (should (gemini-companion-file-exists-p
                   (concat gemini-companion-test-host-prefix "/p/c"))))
        ;; Other hosts do not matter.
        (gemini-companion-file-note "/mock:other:/a" "x" "1" nil)
        (dotimes (n 200)
          (funcall tell (format "%d" n) "x"))
        (should (gemini-companion-file-known "/mock:other:/a"))))))

(ert-deftest gemini-companion-host-review/a-closed-host-ends-its-reviews ()
  (gemini-companion-test-with-host client
    (let ((buffer (gemini-companion-host-review-test--visit "a.txt")))
      (gemini-companion-test-host-unasked
        (let ((review (gemini-companion-test-host-propose client "a.txt" "2\n")))
          (gemini-companion-review-show review 'keep)
          (gemini-companion-write-revert-when-written review)
          (gemini-companion-test-host-close gemini-companion-test-host-prefix)
          (gemini-companion-test-wait
           "the end" (lambda () (not (gemini-companion-review-open-p review))))
          (gemini-companion-test-wait "no more" (lambda () (null gemini-companion-write--files)))
          (let ((entry (car (gemini-companion-history-all))))
            (should (eq (gemini-companion-history-outcome entry) 'withdrawn))
            (should (equal (gemini-companion-history-before entry) "one\ntwo\n")))
          ;; It is told no more of it.
          (gemini-companion-bridge-handle-event 'host-file (gemini-companion-review-path review)
                                                "evil\n" "s" 1)
          (should (equal (with-current-buffer buffer (buffer-string)) "one\ntwo\n")))))))

(ert-deftest gemini-companion-host-review/a-review-needs-to-be-told-its-file ()
  (gemini-companion-test-with-host client
    (ignore client)
    (let ((rejected nil))
      (cl-letf (((symbol-function 'gemini-companion-bridge-reject)
                 (lambda (id) (push id rejected))))
        (should-error
         (gemini-companion-bridge-handle-event 'open-review 7 'gemini "x"
                                               (concat gemini-companion-test-host-prefix "/p/a")
                                               "text\n" "x" "1" nil))
        (should (equal rejected '(7)))
        (should-not (gemini-companion-review-all-open))))))

;;;; Hostile names

(ert-deftest gemini-companion-host-review/no-name-leads-anywhere-else ()
  (gemini-companion-test-with-host client
    (gemini-companion-host-review-test--visit "a.txt")
    (ignore client)
    (let ((prefix gemini-companion-test-host-prefix)
          (local (gemini-companion-test-file "local.txt" "mine\n")))
      (gemini-companion-test-host-unasked
        (dolist (name (list "/x|ssh:evil:/y" "/ssh:evil:/y" "/mock:evil:/y" "/:/etc/passwd"
                            "/p/a\nb" "/p/\e[31mred\e]0;x\a" "/p/%s%n" "/p/~root/x" "/~/x"
                            "/p/a\"b'c`d" "/p/$HOME/${x}" "/p/a b" "/p/日本\u202etxt.exe"
                            (concat "/p/" (make-string 4000 ?x)) "/p/a.gz" "/p/a.gpg"
                            "/p/x.tar" "/p/-*- mode: sh -*-" "/p/.dir-locals.el"))
          (let ((path (concat prefix name)))
            (gemini-companion-bridge-handle-event 'host-file path "one\n" "s" 1700000000)
            (gemini-companion-bridge-handle-event 'open-review 99 'gemini "x" path "two\n" "x" "1" nil)
            (let* ((review (gemini-companion-review-with-id 99))
                   (shown (gemini-companion-review-path-in-project review)))
              (should (string-prefix-p "build:" shown))
              (should-not (string-match-p "[[:cntrl:]\u202e]" shown))
              (should (< (length shown) 300))
              (should (< (length (gemini-companion-review-file review)) 300))
              (gemini-companion-review-show review 'select)
              (should (equal (gemini-companion-review-current-text review) "two\n"))
              (should-not (gemini-companion-review-effect-conflict review))
              (gemini-companion-review-list)
              (should-not (string-search "\u202e" (buffer-string)))
              (gemini-companion-history-list)
              (cl-letf (((symbol-function 'gemini-companion-bridge-accept) #'always))
                (gemini-companion-review-commands-accept review))
              (gemini-companion-bridge-handle-event 'host-file path "two\n" "t" 1700000001))
            (gemini-companion-review-remove-ended 'now)))
        ;; These are none.
        (dolist (name '("relative" "/a/../b" "/a//b" "/a/./b" "/a/" "/.." "" "/a\0b"))
          (let ((before (length gemini-companion-file--states)))
            (gemini-companion-bridge-handle-event 'host-file (concat prefix name) "one\n" "s" 1)
            (should (= (length gemini-companion-file--states) before))))
        (gemini-companion-bridge-handle-event 'host-file local "evil\n" "s" 1)
        (gemini-companion-bridge-handle-event 'host-file "/mock:evil:/y" "evil\n" "s" 1)
        (should-not (string-search "\u202e" (string-join (gemini-companion-log-last 200))))
        (should-not (gemini-companion-file-known local))
        (should-not (gemini-companion-file-known "/mock:evil:/y"))))))

(ert-deftest gemini-companion-host-review/odd-times-and-stamps-do-no-harm ()
  (gemini-companion-test-with-host client
    (let ((buffer (gemini-companion-host-review-test--visit "a.txt")))
      (dolist (modified (list nil -5 (expt 2 62) 1 (time-convert nil 'integer)))
        (gemini-companion-test-host-unasked
          (with-current-buffer buffer (set-visited-file-modtime 0))
          (gemini-companion-write-revert-when-written
           (gemini-companion-review-make :path (gemini-companion-test-host-file "a.txt")
                                         :host gemini-companion-test-host-prefix
                                         :proposed "" :text ""))
          (let ((text (format "%s\n" modified)))
            (gemini-companion-bridge-handle-event 'host-file (gemini-companion-test-host-file "a.txt")
                                                  text (format "%s" modified) modified)
            (gemini-companion-test-wait-followed)
            (should (equal (with-current-buffer buffer (buffer-string)) text))))))
    (ignore client)))

;;;; The history

(defun gemini-companion-host-review-test--change (client name text)
  "Have CLIENT change the file NAME to TEXT by an accepted proposal."
  ;; One is not UTF-8.
  (gemini-companion-test-with-answer 'yes
    (gemini-companion-host-review-test--accept client name text))
  (gemini-companion-test-host-write client name (encode-coding-string text 'utf-8-unix)))

(defmacro gemini-companion-host-review-test--answering (answer &rest body)
  "Evaluate BODY with ANSWER to each question; return the questions."
  (declare (indent 1) (debug t))
  `(gemini-companion-host-review-test--answer
    ,answer
    (lambda () ,@body)))

(defun gemini-companion-host-review-test--answer (answer function)
  "Call FUNCTION with ANSWER to each question; return the questions."
  (let ((asked nil))
    (cl-letf (((symbol-function 'y-or-n-p)
               (lambda (question)
                 (push question asked)
                 answer))
              ((symbol-function 'message) #'ignore))
      (funcall function))
    (nreverse asked)))

(ert-deftest gemini-companion-host-review/a-change-is-undone-through-tramp ()
  (gemini-companion-test-with-host client
    (pcase-dolist (`(,name ,before ,text)
                   '(("a.txt" "one\ntwo\n" "2\n") ("latin.txt" "caf\351\n" "x\n")
                     ("packed.gz" "not packed\n" "nor this\n") ("new/n.txt" nil "n\n")))
      (when before
        (let ((file-name-handler-alist nil)) (gemini-companion-test-write-bytes name before)))
      (make-directory (gemini-companion-test-file "new") t)
      (gemini-companion-host-review-test--change client name text)
      (let ((entry (car (gemini-companion-history-all)))
            (buffer (and before (not (string-suffix-p ".gz" name))
                         (gemini-companion-host-review-test--visit name)))
            (file (gemini-companion-test-file name)))
        (should (equal (gemini-companion-host-review-test--answering t
                         (gemini-companion-history-list-undo entry))
                       (let ((title (concat "build:" (file-name-nondirectory name))))
                         (list (concat (unless before (format "This deletes %s.  " title))
                                       (format "Undo the change to %s? " title))))))
        (if before (should (equal (gemini-companion-test-bytes file) before))
          (should-not (file-exists-p file)))
        (should (eq (gemini-companion-history-outcome entry) 'undone))
        (when buffer
          (with-current-buffer buffer
            (should (equal (encode-coding-string (buffer-string) buffer-file-coding-system)
                           before))
            (should-not (buffer-modified-p))
            (should (verify-visited-file-modtime))))
        ;; And made again.
        (should (= (length (gemini-companion-host-review-test--answering t
                             (gemini-companion-history-list-undo entry)))
                   1))
        (should (equal (gemini-companion-test-bytes file) text))
        (should (eq (gemini-companion-history-outcome entry) 'accepted))))))

(ert-deftest gemini-companion-host-review/undo-needs-a-yes-and-warns-of-later-changes ()
  (gemini-companion-test-with-host client
    (gemini-companion-host-review-test--change client "a.txt" "2\n")
    (let ((entry (car (gemini-companion-history-all))))
      (should (equal (gemini-companion-host-review-test--answering nil
                       (should-error (gemini-companion-history-list-undo entry)
                                     :type 'user-error))
                     '("Undo the change to build:a.txt? ")))
      (should (equal (gemini-companion-test-file-bytes "a.txt") "2\n"))
      ;; Tramp would wait for a host that is away.
      (let ((host (gemini-companion-host-of-name (gemini-companion-history-path entry))))
        (setf (gemini-companion-host-lost host) t)
        (should (equal (should-error (gemini-companion-history-list-undo entry))
                       '(user-error "The connection to build is lost; try again when it is back")))
        (setf (gemini-companion-host-lost host) nil))
      (gemini-companion-test-file "a.txt" "later\n")
      (should (equal (gemini-companion-host-review-test--answering nil
                       (should-error (gemini-companion-history-list-undo entry)
                                     :type 'user-error))
                     '("build:a.txt has changed since then; you would lose later changes, too.  \
Undo the change to build:a.txt? ")))
      (should (equal (gemini-companion-test-file-bytes "a.txt") "later\n"))
      ;; Tramp remembers that there was a file.
      (should (file-exists-p (gemini-companion-history-path entry)))
      (delete-file (gemini-companion-test-file "a.txt"))
      (should (equal (gemini-companion-host-review-test--answering nil
                       (should-error (gemini-companion-history-list-undo entry)
                                     :type 'user-error))
                     '("build:a.txt is gone.  Undo the change to build:a.txt? ")))
      (gemini-companion-test-file "a.txt" "one\ntwo\n")
      (gemini-companion-host-review-test--answering t
        (should-error (gemini-companion-history-list-undo entry) :type 'user-error)))))

(ert-deftest gemini-companion-host-review/all-changes-of-a-prompt-are-undone-there-too ()
  (gemini-companion-test-with-host client
    (cl-letf ((gemini-companion-history--entries nil)
              ((symbol-function 'gemini-companion-cli-prompt-of-process)
               (let ((prompt (cons "do it" (current-time)))) (lambda (_) prompt))))
      (gemini-companion-test-file "b.txt" "b\n")
      (gemini-companion-host-review-test--change client "a.txt" "2\n")
      (gemini-companion-host-review-test--change client "b.txt" "b2\n")
      (gemini-companion-host-review-test--change client "a.txt" "3\n")
      (gemini-companion-test-file "b.txt" "later\n")
      (should (string-match-p
               "\\`3 changes: build:[^,]*b\\.txt, .*  build:b\\.txt has changed since then; you would lose"
               (car (gemini-companion-host-review-test--answering t
                      (gemini-companion-history-list-undo-prompt
                       (gemini-companion-history-prompt
                        (car gemini-companion-history--entries)))))))
      (should (equal (gemini-companion-test-file-bytes "a.txt") "one\ntwo\n"))
      (should (equal (gemini-companion-test-file-bytes "b.txt") "b\n")))))

(ert-deftest gemini-companion-host-review/an-accepted-text-is-written-through-tramp ()
  (gemini-companion-test-with-host client
    (gemini-companion-host-review-test--accept client "a.txt" "2\n")
    (let ((entry (car (gemini-companion-history-all))))
      (should (equal (gemini-companion-host-review-test--answering t
                       (gemini-companion-history-list-write entry))
                     '("Write the text of this change to build:a.txt? ")))
      (should (equal (gemini-companion-test-file-bytes "a.txt") "2\n"))
      (gemini-companion-host-review-test--answering t
        (should-error (gemini-companion-history-list-write entry) :type 'user-error)))))

(ert-deftest gemini-companion-host-review/undo-reaches-no-other-file ()
  "Tramp does not know each name, and takes some for those of local files."
  (gemini-companion-test-with-host client
    (ignore client)
    (dolist (name '("/p/a\nb" "/p/a\rb"))
      (let ((path (concat gemini-companion-test-host-prefix name))
            (gemini-companion-history--entries nil))
        (gemini-companion-history-add
         :client "x" :path path :host gemini-companion-test-host-prefix
         :outcome 'accepted :before "before\n" :after "after\n")
        (cl-letf (((symbol-function 'write-region) (lambda (&rest _) (ert-fail "Written"))))
          (gemini-companion-host-review-test--answering t
            (should-error (gemini-companion-history-list-undo
                           (car gemini-companion-history--entries))
                          :type 'user-error)))))))

;;; gemini-companion-host-review-test.el ends here

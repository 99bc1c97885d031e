;;; files-test.el --- Reviews of unusual texts and files  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Large, binary and random texts; files with unusual names, links, and buffers
;; that are narrowed, read-only or modified.

;;; Code:

(require 'gemini-companion-test-fake-client)

;;;; Large texts

(defun gemini-companion-files-test--check-large (emacs client current proposed)
  "Check that a review of PROPOSED for the text CURRENT opens in time.
Until then EMACS must answer pings of CLIENT.  Then accept it."
  (let* ((file (gemini-companion-test-write
                (gemini-companion-test-project emacs "large.txt") current))
         (cli (gemini-companion-test-fake-client-cli client))
         (flag (gemini-companion-test-emacs-file emacs "shown"))
         (slowest 0)
         begun handle)
    ;; It may be left from another test.
    (delete-file flag)
    (gemini-companion-test-eval
     emacs `(advice-add 'gemini-companion-review-show :after
                        (lambda (&rest _)
                          (run-at-time 0 nil #'write-region "" nil ,flag nil 0))))
    (setq begun (float-time)
          handle (gemini-companion-test-client-open-diff client file proposed))
    (while (not (file-exists-p flag))
      (should (< (- (float-time) begun) 30))
      (let ((asked (float-time)))
        (fake-cli-request cli "ping")
        (setq slowest (max slowest (- (float-time) asked))))
      (accept-process-output nil 0.05))
    ;; It is on the screen, and Emacs responds.
    (should (gemini-companion-test-eval
             emacs gemini-companion-test-fake-review-frame))
    (message "A review of %d characters was shown after %.1f s; \
pings were answered within %.2f s"
             (length proposed) (- (float-time) begun) slowest)
    (should (< (- (float-time) begun) 30))
    (should (< slowest 3))
    (setq begun (float-time))
    (gemini-companion-test-accept emacs)
    (pcase (gemini-companion-test-client-wait-outcome client handle)
      (`(accepted . ,text)
       (unless (equal text proposed)
         (ert-fail "The accepted text is not the proposed one")))
      (outcome (ert-fail (format "It was not accepted: %S" (car outcome)))))
    (gemini-companion-test-wait-eval
     emacs '(null (gemini-companion-test-inner-views)))
    (message "It was accepted %.1f s later" (- (float-time) begun))
    (should (< (- (float-time) begun) 30))))

(ert-deftest gemini-companion-files/a-large-text ()
  "A text of 10 MB with a few changes opens in time."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (let ((lines (make-vector 300000 nil)))
      (dotimes (n 300000)
        (aset lines n (format "line %6d of a long text ......\n" n)))
      (let ((current (mapconcat #'identity lines "")))
        (dotimes (n 50)
          (aset lines (* n 6000) (format "another line %d\n" n)))
        (gemini-companion-files-test--check-large
         emacs client current (mapconcat #'identity lines ""))))))

(ert-deftest gemini-companion-files/a-long-line ()
  "A line of 10 MB opens in time."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (let ((half (mapconcat #'identity (make-list 500000 "0123456789") "")))
      (gemini-companion-files-test--check-large
       emacs client (concat half " was " half "\n")
       (concat half " is " half "\n")))))

;;;; Random texts

(ert-deftest gemini-companion-files/texts-are-returned-byte-for-byte ()
  "A hundred random texts are shown and accepted unchanged."
  (random "gemini-companion")
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    ;; The test shows them.  One that was selected automatically would ignore its key for a moment.
    (gemini-companion-test-eval emacs '(setq gemini-companion-diff-policy 'queue))
    (dotimes (batch 4)
      (let* ((before (length (gemini-companion-test-fake-outcomes client)))
             (proposed
              (cl-loop for n below 25
                       collect (list 'accepted (format "%d-%d.txt" batch n)
                                     (gemini-companion-test-random-text (1+ (random 40)))))))
        (pcase-dolist (`(,_ ,name ,text) proposed)
          (gemini-companion-test-client-open-diff
           client (gemini-companion-test-project emacs name) text))
        (gemini-companion-test-run
         emacs '(while (> (gemini-companion-review-count) 0)
                  (call-interactively #'gemini-companion-review-next)
                  (redisplay t)
                  (call-interactively #'gemini-companion-accept))
         120)
        (gemini-companion-test-wait
         "all outcomes"
         (lambda ()
           (= (+ before 25) (length (gemini-companion-test-fake-outcomes client)))))
        (let ((outcomes (nthcdr before (gemini-companion-test-fake-outcomes client))))
          (dolist (outcome proposed)
            (should (member outcome outcomes))))))))

;;;; Names and kinds of files

(ert-deftest gemini-companion-files/unusual-names ()
  "The client receives exactly the file name that it has given."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (dolist (name '("two words  and more.txt" "é\u0301à ü ß.txt" "漢字 かな 한글.txt"
                    "-n" "--help" "two\nlines.txt" "100%s %d %.txt" "~" "$HOME"
                    "a\\b\"c'd`e.el" "*star* [x] ?.c" "😀𝕏.md" "tab\there"))
      (ert-info ((format "%S" name))
        (let* ((file (gemini-companion-test-write
                      (gemini-companion-test-project emacs (concat "./" name))
                      "one\n"))
               (before (gemini-companion-test-fake-outcomes client)))
          (gemini-companion-test-fake-propose
           emacs client "two\n" (concat "./" name))
          (should (equal (alist-get 'current
                                    (gemini-companion-test-wait-review
                                     emacs "two\n"))
                         "one\n"))
          (gemini-companion-test-accept emacs)
          (gemini-companion-test-fake-wait-outcomes
           client (append before
                          `((accepted ,(file-name-nondirectory file) "two\n"))))
          (should (equal (alist-get 'filePath
                                    (fake-cli-find-notification
                                     (gemini-companion-test-fake-client-cli
                                      client)
                                     "ide/diffAccepted"))
                         file))
          (gemini-companion-test-fake-wait-restored emacs))))))

(defun gemini-companion-files-test--accept-and-write (emacs client name text)
  "Let the user of EMACS accept TEXT for the file NAME, and CLIENT write it."
  (let* ((file (gemini-companion-test-project emacs name))
         (handle (gemini-companion-test-fake-propose
                  emacs client text name)))
    (gemini-companion-test-wait-review emacs text)
    (gemini-companion-test-accept emacs)
    (should (equal (gemini-companion-test-client-wait-outcome client handle)
                   (cons 'accepted text)))
    (gemini-companion-test-write file text)
    (gemini-companion-test-wait-no-review emacs)))

(ert-deftest gemini-companion-files/read-only-file ()
  "A read-only file can be reviewed; its buffer stays read-only."
  (gemini-companion-test-with-fake-client
      (emacs client '(("a.txt" . "one\n") ("b.txt" . "one\n")))
    (set-file-modes (gemini-companion-test-project emacs "b.txt") #o444)
    (gemini-companion-test-visit emacs "b.txt")
    (gemini-companion-test-run
     emacs '(progn (read-only-mode 1) nil)) ; root may write any file
    (gemini-companion-test-client-open-diff
     client (gemini-companion-test-project emacs "b.txt") "two\n")
    (let ((review (gemini-companion-test-wait-review emacs "two\n")))
      (should-not (alist-get 'proposal-read-only review)))
    (gemini-companion-test-accept emacs "mine")
    (gemini-companion-test-fake-wait-outcomes
     client '((accepted "b.txt" "two\nmine")))
    ;; The client makes the file writable.
    (set-file-modes (gemini-companion-test-project emacs "b.txt") #o644)
    (gemini-companion-test-write
     (gemini-companion-test-project emacs "b.txt") "two\nmine")
    (gemini-companion-test-wait-eval
     emacs '(and (equal (buffer-name) "b.txt")
                 (equal (buffer-string) "two\nmine")
                 buffer-read-only
                 (not (buffer-modified-p))))))

(ert-deftest gemini-companion-files/symbolic-link ()
  "The review of a symbolic link is one of its target."
  (gemini-companion-test-with-fake-client
      (emacs client '(("a.txt" . "one\n") ("target.txt" . "one\n")))
    (make-symbolic-link "target.txt"
                        (gemini-companion-test-project emacs "link.txt"))
    (dolist (visited '("target.txt" "link.txt"))
      (ert-info (visited)
        (gemini-companion-test-visit emacs visited)
        (let ((text (concat "by way of " visited "\n")))
          (gemini-companion-files-test--accept-and-write
           emacs client "link.txt" text)
          (should (equal (file-symlink-p
                          (gemini-companion-test-project emacs "link.txt"))
                         "target.txt"))
          (gemini-companion-test-wait-eval
           emacs `(and (equal (buffer-name) ,visited)
                       (equal (buffer-string) ,text)
                       (not (buffer-modified-p))
                       (verify-visited-file-modtime)))
          (gemini-companion-test-run emacs '(progn (kill-buffer) nil)))))))

(ert-deftest gemini-companion-files/narrowed-and-indirect-buffers ()
  "Narrowed and indirect buffers of the file stay as they are."
  (gemini-companion-test-with-fake-client
      (emacs client '(("a.txt" . "one\ntwo\nthree\nfour\nfive\n")))
    (gemini-companion-test-run
     emacs '(progn
              (goto-char (point-min))
              (forward-line 3)
              (with-current-buffer (make-indirect-buffer
                                    (current-buffer) "indirect" t)
                (goto-char (point-min))
                (narrow-to-region (point) (line-end-position 2)))
              (narrow-to-region (point) (line-end-position))
              nil))
    (let* ((file (gemini-companion-test-project emacs "a.txt"))
           (texts '(mapcar (lambda (name)
                             (with-current-buffer name
                               (list (buffer-string) (buffer-narrowed-p))))
                           '("a.txt" "indirect")))
           (before (gemini-companion-test-eval emacs texts))
           (text "ONE\ntwo\nthree\nfour\nfive\nsix\n"))
      (should (equal before '(("four" t) ("one\ntwo" t))))
      ;; The review is of the whole file.
      (gemini-companion-test-fake-propose emacs client text)
      (should (equal (alist-get 'current
                                (gemini-companion-test-wait-review emacs text))
                     "one\ntwo\nthree\nfour\nfive\n"))
      (should (equal (gemini-companion-test-eval emacs texts) before))
      (gemini-companion-test-reject emacs)
      (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))
      (gemini-companion-test-fake-wait-restored emacs)
      (should (equal (gemini-companion-test-eval emacs texts) before))
      (should (gemini-companion-test-eval
               emacs '(and (equal (buffer-name) "a.txt")
                           (null (buffer-file-name (get-buffer "indirect"))))))
      (gemini-companion-files-test--accept-and-write emacs client "a.txt" text)
      (gemini-companion-test-wait-eval
       emacs `(equal ,texts '(("four" t) ("ONE\ntwo" t))))
      (should (equal (gemini-companion-test-read file) text))
      (should (gemini-companion-test-eval
               emacs `(save-restriction (widen)
                                        (equal (buffer-string) ,text)))))))

(ert-deftest gemini-companion-files/unsaved-edits-are-shown ()
  "The screen shows unsaved edits, whenever they are made."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (gemini-companion-test-type emacs "before")
    (gemini-companion-test-fake-show emacs client "two\n")
    (gemini-companion-test-wait-screen emacs "Unsaved edits  ")
    ;; The file's window is still selected.
    (gemini-companion-test-press emacs "C-x C-s" '(not (buffer-modified-p)))
    (gemini-companion-test-wait-screen emacs "Changed on disk  ")
    (gemini-companion-test-select-proposal emacs)
    (gemini-companion-test-wait-screen emacs "Changed on disk  C-c C-e merges")
    (gemini-companion-test-reject emacs)
    (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))
    (gemini-companion-test-wait-no-review emacs)
    (gemini-companion-test-fake-show emacs client "three\n")
    (should-not (string-match-p "Unsaved\\|Changed on" (gemini-companion-test-screen emacs)))
    (gemini-companion-test-type emacs "while")
    (gemini-companion-test-wait-screen emacs "Unsaved edits")
    (gemini-companion-test-select-proposal emacs)
    (gemini-companion-test-wait-screen emacs "Unsaved edits  C-c C-e merges")
    (gemini-companion-test-accept emacs)
    (gemini-companion-test-wait-screen emacs "\\[?c\\]?ancel")
    (gemini-companion-test-press emacs "c" "Not accepted")
    (gemini-companion-test-reject emacs)
    (gemini-companion-test-fake-wait-outcomes
     client '((rejected "a.txt") (rejected "a.txt")))))

;;; files-test.el ends here

;;; review-test.el --- Context and reviews, with both clients  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client connects to an interactive Emacs, receives the context and proposes
;; changes, which the test reviews by keys.  Each test runs with the IDE client
;; of the real CLI and with the fake one.

;;; Code:

(require 'gemini-companion-test-client)
(require 'gemini-companion-test-fake-client)
(require 'gemini-companion-test-review)

(defun gemini-companion-review-test--active (client)
  "Return the active file that CLIENT knows of, or nil."
  (let ((file (car (gemini-companion-test-client-files client))))
    (and (alist-get 'isActive file) file)))

(defun gemini-companion-review-test--names (client)
  "Return the names of the open files that CLIENT knows of, in order."
  (mapcar (lambda (file) (file-name-nondirectory (alist-get 'path file)))
          (gemini-companion-test-client-files client)))

(defun gemini-companion-review-test--wait-names (client &rest names)
  "Wait until the open files that CLIENT knows of are NAMES, in order."
  (gemini-companion-test-wait
   (lambda () (format "the open files %S; they are %S" names
                      (gemini-companion-review-test--names client)))
   (lambda () (equal (gemini-companion-review-test--names client) names))))

(defun gemini-companion-review-test--wait-cursor (client line character)
  "Wait until CLIENT knows the cursor to be at LINE and CHARACTER."
  (gemini-companion-test-wait
   (lambda () (format "the cursor at %d, %d; active is %S" line character
                      (gemini-companion-review-test--active client)))
   (lambda ()
     (let ((cursor (alist-get 'cursor
                              (gemini-companion-review-test--active client))))
       (and (equal (alist-get 'line cursor) line)
            (equal (alist-get 'character cursor) character))))))

(defmacro gemini-companion-review-test--with (spec &rest body)
  "Run BODY with an Emacs and a client that is connected to it.
SPEC is (EMACS CLIENT KIND FILES): two variables, the kind of
client, and files as (NAME . TEXT) pairs, of which Emacs visits the first."
  (declare (indent 1) (debug ((symbolp symbolp form form) body)))
  (pcase-let ((`(,emacs ,client ,kind ,files) spec)
              (list (make-symbol "files")))
    `(let ((,list ,files))
       (gemini-companion-test-with-emacs (,emacs :files ,list)
         (when ,list
           (gemini-companion-test-visit ,emacs (caar ,list)))
         (gemini-companion-test-with-client (,client ,kind ,emacs)
           ,@body)))))

(defmacro gemini-companion-review-test--with-change (spec old new &rest body)
  "Run BODY while EMACS shows the change of a.txt from OLD to NEW by CLIENT.
SPEC is (EMACS CLIENT KIND HANDLE), and perhaps a variable for the file."
  (declare (indent 3) (debug (sexp form form body)))
  (pcase-let ((`(,emacs ,client ,kind ,handle ,file) spec))
    `(gemini-companion-review-test--with (,emacs ,client ,kind (list (cons "a.txt" ,old)))
       (let* ((,(or file '_file) (gemini-companion-test-project ,emacs "a.txt"))
              (,handle (gemini-companion-test-client-open-diff
                        ,client (gemini-companion-test-project ,emacs "a.txt") ,new)))
         (gemini-companion-test-wait-review ,emacs)
         ,@body))))

;;;; Connecting and context

(gemini-companion-test-with-clients gemini-companion-review/a-client-connects-and-has-both-tools kind
  "A client finds Emacs, connects and lists both tools."
  (gemini-companion-review-test--with (emacs client kind '(("a.txt" . "a\n")))
    (should (gemini-companion-test-client-connected-p client))
    (gemini-companion-review-test--wait-names client "a.txt")))

(gemini-companion-test-with-clients gemini-companion-review/the-active-file-is-listed-first kind
  "The context lists open files, the active one first."
  (gemini-companion-review-test--with
      (emacs client kind '(("a.txt" . "a\n") ("b.txt" . "b\n")
                           ("c d.txt" . "c\n")))
    (gemini-companion-test-visit emacs "b.txt")
    (gemini-companion-test-visit emacs "c d.txt")
    (gemini-companion-review-test--wait-names client
                                              "c d.txt" "b.txt" "a.txt")
    (should (equal (alist-get 'path
                              (gemini-companion-review-test--active client))
                   (gemini-companion-test-project emacs "c d.txt")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-review-test--wait-names client
                                              "a.txt" "c d.txt" "b.txt")
    (gemini-companion-test-run
     emacs '(progn (kill-buffer "c d.txt") nil))
    (gemini-companion-review-test--wait-names client "a.txt" "b.txt")))

(gemini-companion-test-with-clients gemini-companion-review/unsaved-new-files-are-not-listed kind
  "A new file is listed once it has been saved."
  (gemini-companion-review-test--with (emacs client kind '(("a.txt" . "a\n")))
    (gemini-companion-review-test--wait-names client "a.txt")
    (gemini-companion-test-visit emacs "new.txt")
    (gemini-companion-test-type emacs "text")
    (gemini-companion-test-wait-eval emacs '(equal (buffer-string) "text"))
    (should (equal (gemini-companion-review-test--names client) '("a.txt")))
    (gemini-companion-test-keys emacs "C-x" "C-s")
    (gemini-companion-review-test--wait-names client "new.txt" "a.txt")
    (gemini-companion-review-test--wait-cursor client 1 5)))

(gemini-companion-test-with-clients gemini-companion-review/cursor-and-selection-follow kind
  "Cursor and selection in the active file follow the user's keys."
  (gemini-companion-review-test--with
      (emacs client kind '(("a.txt" . "one\nä𝕏 two\nthree\n")))
    (gemini-companion-review-test--wait-cursor client 1 1)
    (gemini-companion-test-keys emacs "C-n" "C-f" "C-f")
    ;; 𝕏 is two UTF-16 code units.
    (gemini-companion-review-test--wait-cursor client 2 4)
    (should-not (alist-get 'selectedText
                           (gemini-companion-review-test--active client)))
    (gemini-companion-test-keys emacs "C-Space" "C-n" "C-e")
    (gemini-companion-test-client-wait-context
     client (lambda (files)
              (equal (alist-get 'selectedText (car files)) " two\nthree")))
    (gemini-companion-review-test--wait-cursor client 3 6)
    (gemini-companion-test-keys emacs "C-g")
    (gemini-companion-test-client-wait-context
     client (lambda (files)
              (and files (not (alist-get 'selectedText (car files))))))))

(gemini-companion-test-with-clients gemini-companion-review/a-file-stays-active-in-other-buffers kind
  "Switching to a buffer without a file leaves the last file active."
  (gemini-companion-review-test--with
      (emacs client kind '(("a.txt" . "a\nb\n")))
    (gemini-companion-test-keys emacs "C-n")
    (gemini-companion-review-test--wait-cursor client 2 1)
    (gemini-companion-test-keys emacs "C-x" "b")
    (gemini-companion-test-type emacs "*scratch*" "Enter")
    (gemini-companion-test-wait-eval
     emacs '(equal (buffer-name (window-buffer)) "*scratch*"))
    (gemini-companion-test-type emacs "(ignore)")
    (gemini-companion-test-wait-screen emacs "(ignore)")
    (should (gemini-companion-test-client-connected-p client))
    (gemini-companion-review-test--wait-cursor client 2 1)))

;;;; Deciding in Emacs

(gemini-companion-test-with-clients gemini-companion-review/accept-as-proposed kind
  "The user sees the review with its keys, and accepts what is proposed."
  (gemini-companion-review-test--with
      (emacs client kind '(("a.txt" . "one\ntwo\n")))
    (let* ((file (gemini-companion-test-project emacs "a.txt"))
           (handle (gemini-companion-test-client-open-diff
                    client file "one\nzwei\n"))
           (review (gemini-companion-test-wait-review emacs))
           (screen (progn
                     ;; Where the user is, that is the only way.
                     (gemini-companion-test-wait-screen emacs "M-x gemini-companion-accept accepts")
                     (gemini-companion-test-select-proposal emacs)
                     (gemini-companion-test-wait-screen emacs "C-c C-c accepts"))))
      (should (equal (alist-get 'current review) "one\ntwo\n"))
      (should (equal (alist-get 'proposal review) "one\nzwei\n"))
      (should (alist-get 'current-read-only review))
      (should-not (alist-get 'proposal-read-only review))
      (dolist (text '("C-c C-c" "C-c C-k" "two" "zwei" "a\\.txt"))
        (should (string-match-p text screen)))
      (should-not (gemini-companion-test-client-outcome client handle))
      (gemini-companion-test-accept emacs)
      (should (equal (gemini-companion-test-client-wait-outcome client handle)
                     '(accepted . "one\nzwei\n")))
      (gemini-companion-test-wait-no-review emacs)
      (should (equal (gemini-companion-test-read file) "one\ntwo\n")))))

(gemini-companion-test-with-clients gemini-companion-review/accept-after-an-edit kind
  "Edits of the proposal arrive byte for byte."
  (gemini-companion-review-test--with-change (emacs client kind handle)
      "one\n" "eins\n\tzwei – 漢字 𝕏\nno newline"
    (gemini-companion-test-accept emacs " – grün ✓")
    (should (equal (gemini-companion-test-client-wait-outcome client handle)
                   '(accepted
                     . "eins\n\tzwei – 漢字 𝕏\nno newline – grün ✓")))
    (gemini-companion-test-wait-no-review emacs)))

(gemini-companion-test-with-clients gemini-companion-review/new-file kind
  "A file that does not exist can be proposed; it is shown alone."
  (gemini-companion-review-test--with (emacs client kind '(("a.txt" . "a\n")))
    (let* ((file (gemini-companion-test-project emacs "sub/new.txt"))
           (handle (gemini-companion-test-client-open-diff
                    client file "brand new\n"))
           (review (gemini-companion-test-wait-review emacs)))
      (should (equal review '((proposal . "brand new\n") (diff . "brand new\n"))))
      (gemini-companion-test-wait-screen emacs "sub/new\\.txt  new file \\+1")
      (gemini-companion-test-accept emacs)
      (should (equal (gemini-companion-test-client-wait-outcome client handle)
                     '(accepted . "brand new\n")))
      (gemini-companion-test-wait-no-review emacs)
      (should-not (file-exists-p file))
      (gemini-companion-review-test--wait-names client "a.txt"))))

(gemini-companion-test-with-clients gemini-companion-review/reject kind
  "The user rejects; the client is notified and the file stays unchanged."
  (gemini-companion-review-test--with-change (emacs client kind handle file) "one\n" "two\n"
    (gemini-companion-test-reject emacs)
    (should (equal (gemini-companion-test-client-wait-outcome client handle) '(rejected)))
    (gemini-companion-test-wait-no-review emacs)
    (should (equal (gemini-companion-test-read file) "one\n"))))

(gemini-companion-test-with-clients gemini-companion-review/quitting-asks-for-a-decision kind
  "Quitting Ediff by its own key asks what to do with the change."
  (gemini-companion-review-test--with
      (emacs client kind '(("a.txt" . "one\n")))
    (let ((file (gemini-companion-test-project emacs "a.txt")))
      (pcase-dolist (`(,key . ,outcome) '(("r" rejected)
                                          ("a" accepted . "two\n")))
        (let ((handle (gemini-companion-test-client-open-diff
                       client file "two\n")))
          (gemini-companion-test-wait-review emacs)
          (gemini-companion-test-select-panel emacs)
          (gemini-companion-test-press emacs "q" "Proposed change:")
          (gemini-companion-test-keys emacs key)
          (should (equal (gemini-companion-test-client-wait-outcome client handle) outcome))
          (gemini-companion-test-wait-no-review emacs))))))

(gemini-companion-test-with-clients gemini-companion-review/later-keeps-the-edits kind
  "A postponed review is shown again by command, with the user's edits."
  (gemini-companion-review-test--with-change (emacs client kind handle) "one\n" "two\n"
    (gemini-companion-test-append-to-proposal emacs "mine")
    (dolist (leave '(("C-x" "k" "Enter")       ; kill the proposal
                     ("q" "l")))               ; or say "later"
      (if (equal (car leave) "q")
          (gemini-companion-test-select-panel emacs)
        (gemini-companion-test-select-proposal emacs))
      (apply #'gemini-companion-test-keys emacs leave)
      (gemini-companion-test-wait-no-review emacs)
      (should-not (gemini-companion-test-client-outcome client handle))
      (gemini-companion-test-m-x emacs "gemini-companion-review-next")
      (gemini-companion-test-wait-review emacs "two\nmine"))
    (gemini-companion-test-accept emacs)
    (should (equal (gemini-companion-test-client-wait-outcome client handle)
                   '(accepted . "two\nmine")))
    (gemini-companion-test-wait-no-review emacs)))

(gemini-companion-test-with-clients gemini-companion-review/commands-work-in-other-buffers kind
  "The commands decide the review on the screen, called in any buffer."
  (gemini-companion-review-test--with
      (emacs client kind '(("a.txt" . "one\n")))
    (let ((file (gemini-companion-test-project emacs "a.txt"))
          handle)
      ;; This client does not write: the same change, proposed again, would be accepted again.
      (dolist (step '(("gemini-companion-accept" "two\n" accepted . "two\n")
                      ("gemini-companion-reject" "three\n" rejected)))
        (setq handle (gemini-companion-test-client-open-diff
                      client file (nth 1 step)))
        (gemini-companion-test-wait-review emacs)
        (gemini-companion-test-keys emacs "C-x" "4" "b")
        (gemini-companion-test-type emacs "*scratch*" "Enter")
        (gemini-companion-test-wait-eval
         emacs '(equal (buffer-name (window-buffer)) "*scratch*"))
        (gemini-companion-test-m-x emacs (car step))
        (should (equal (gemini-companion-test-client-wait-outcome client handle) (nthcdr 2 step)))
        (gemini-companion-test-wait-no-review emacs)))))

;;;; Deciding in the client

(gemini-companion-test-with-clients gemini-companion-review/yes-in-the-client kind
  "A yes in the client takes the edited text and closes the review."
  (gemini-companion-review-test--with
      (emacs client kind '(("a.txt" . "one\n")))
    (let* ((file (gemini-companion-test-project emacs "a.txt"))
           (before (gemini-companion-test-layout emacs))
           (handle (gemini-companion-test-client-open-diff
                    client file "two\n")))
      (gemini-companion-test-wait-review emacs)
      (gemini-companion-test-append-to-proposal emacs "drei ä")
      (gemini-companion-test-client-resolve client file "accepted")
      (should (equal (gemini-companion-test-client-wait-outcome client handle)
                     '(accepted . "two\ndrei ä")))
      (gemini-companion-test-wait-no-review emacs)
      (should (gemini-companion-test-client-connected-p client))
      (gemini-companion-review-test--wait-layout emacs before))))

(gemini-companion-test-with-clients gemini-companion-review/close-diff-sends-a-rejection kind
  "The tool closeDiff returns the text, and a rejection is sent."
  (gemini-companion-review-test--with-change (emacs client kind handle file) "one\n" "two\n"
    (should (equal (gemini-companion-test-client-close-diff client file nil)
                   "two\n"))
    (should (equal (gemini-companion-test-client-wait-outcome client handle) '(rejected)))
    (gemini-companion-test-wait-no-review emacs)
    ;; A client that did not get the answer asks again.
    (should (equal (gemini-companion-test-client-close-diff client file nil)
                   "two\n"))
    (should-not (gemini-companion-test-client-close-diff
                 client (gemini-companion-test-project emacs "other.txt") nil))))

(ert-deftest gemini-companion-review/the-death-of-a-client-closes-it/real-client ()
  "The review of a client whose process has ended is closed.
Only the real client has a process of its own."
  (gemini-companion-test-require-real-client)
  (gemini-companion-review-test--with
      (emacs client 'real '(("a.txt" . "one\n")))
    (gemini-companion-test-client-open-diff
     client (gemini-companion-test-project emacs "a.txt") "two\n")
    (gemini-companion-test-wait-review emacs)
    (gemini-companion-test-client-stop client)
    (gemini-companion-test-wait-no-review emacs)))

(gemini-companion-test-with-clients gemini-companion-review/yes-before-it-is-shown kind
  "A yes in the client accepts a review that has not been shown yet."
  (gemini-companion-review-test--with
      (emacs client kind '(("a.txt" . "one\n")))
    (let ((file (gemini-companion-test-project emacs "a.txt"))
          handle)
      (gemini-companion-test-press emacs "M-x" '(active-minibuffer-window))
      (setq handle (gemini-companion-test-client-open-diff
                    client file "two\n"))
      ;; The mode line counts it.
      (gemini-companion-test-wait-screen emacs "Gem:1!1")
      (gemini-companion-test-client-resolve client file "accepted")
      (should (equal (gemini-companion-test-client-wait-outcome client handle)
                     '(accepted . "two\n")))
      (gemini-companion-test-quit emacs)
      (gemini-companion-test-wait-screen emacs "Gem:1)")
      (should-not (gemini-companion-test-review emacs)))))

;;;; After a review

(defun gemini-companion-review-test--wait-layout (emacs layout)
  "Wait until windows, points and buffers of EMACS are those of LAYOUT."
  (gemini-companion-test-wait
   (lambda () (format "the layout\n%S\nbut it is\n%S" layout
                      (gemini-companion-test-layout emacs)))
   (lambda () (equal (gemini-companion-test-layout emacs) layout))))

(gemini-companion-test-with-clients gemini-companion-review/windows-and-points-are-restored kind
  "After a review windows, points and buffers are as before."
  (gemini-companion-review-test--with
      (emacs client kind '(("a.txt" . "one\ntwo\nthree\n")
                           ("b.txt" . "alpha\nbeta\n")))
    (gemini-companion-test-keys emacs "C-n" "C-f" "C-x" "3" "C-x" "o")
    (gemini-companion-test-visit emacs "b.txt")
    (gemini-companion-test-keys emacs "M->" "C-x" "2" "C-p")
    (gemini-companion-review-test--wait-cursor client 2 1)
    (let ((file (gemini-companion-test-project emacs "a.txt"))
          (before (gemini-companion-test-layout emacs))
          handle)
      ;; What was accepted and not written would be accepted again.
      (pcase-dolist (`(,text . ,decide)
                     '(("ONE\ntwo\nthree\n" . gemini-companion-test-accept)
                       ("one\nTWO\nthree\n" . gemini-companion-test-reject)))
        (setq handle (gemini-companion-test-client-open-diff client file text))
        (gemini-companion-test-wait-review emacs)
        (funcall decide emacs)
        (gemini-companion-test-client-wait-outcome client handle)
        (gemini-companion-test-wait-no-review emacs)
        (gemini-companion-review-test--wait-layout emacs before)))))

(gemini-companion-test-with-clients gemini-companion-review/the-buffer-is-reverted-to-the-file kind
  "Once the client has written the file its buffer is reverted, keeping point."
  (gemini-companion-review-test--with
      (emacs client kind '(("a.txt" . "one\ntwo\nthree\nfour\n")))
    (gemini-companion-test-keys emacs "C-n" "C-n" "C-f" "C-f")
    (gemini-companion-review-test--wait-cursor client 3 3)
    (let* ((file (gemini-companion-test-project emacs "a.txt"))
           (handle (gemini-companion-test-client-open-diff
                    client file "ONE and\nmore\ntwo\nthree\nfour\n")))
      (gemini-companion-test-wait-review emacs)
      (gemini-companion-test-accept emacs)
      (pcase (gemini-companion-test-client-wait-outcome client handle)
        (`(accepted . ,text) (gemini-companion-test-write file text)))
      (gemini-companion-test-wait-eval
       emacs '(with-current-buffer "a.txt"
                (and (equal (buffer-string)
                            "ONE and\nmore\ntwo\nthree\nfour\n")
                     (not (buffer-modified-p))
                     (looking-at "ree\nfour"))))
      (gemini-companion-review-test--wait-cursor client 4 3))))

(gemini-companion-test-with-clients gemini-companion-review/unsaved-changes-are-kept kind
  "A buffer with unsaved changes is not reverted."
  (gemini-companion-review-test--with
      (emacs client kind '(("a.txt" . "one\n")))
    (gemini-companion-test-type emacs "mine ")
    (gemini-companion-test-wait-eval emacs '(buffer-modified-p))
    (let* ((file (gemini-companion-test-project emacs "a.txt"))
           (handle (gemini-companion-test-client-open-diff
                    client file "two\n")))
      (gemini-companion-test-wait-review emacs "two\n")
      (gemini-companion-test-wait-screen emacs "Unsaved edits")
      (gemini-companion-test-accept emacs)
      (gemini-companion-test-wait-screen emacs "\\[?c\\]?ancel")
      (gemini-companion-test-keys emacs "a")
      (pcase (gemini-companion-test-client-wait-outcome client handle)
        (`(accepted . ,text) (gemini-companion-test-write file text)))
      (gemini-companion-test-wait-no-review emacs)
      ;; Idle long enough for anything that follows a review.
      (gemini-companion-test-wait-idle emacs)
      (should (equal (gemini-companion-test-eval
                      emacs '(with-current-buffer "a.txt" (buffer-string)))
                     "mine one\n")))))

;;;; Several reviews, and when they appear

(gemini-companion-test-with-clients gemini-companion-review/one-after-another kind
  "A second review waits until the first is decided."
  (gemini-companion-review-test--with
      (emacs first kind '(("a.txt" . "a\n") ("b.txt" . "b\n")))
    (gemini-companion-test-with-client (second kind emacs)
      (let (a b)
        (setq a (gemini-companion-test-client-open-diff
                 first (gemini-companion-test-project emacs "a.txt") "A\n"))
        (gemini-companion-test-wait-review emacs "A\n")
        (setq b (gemini-companion-test-client-open-diff
                 second (gemini-companion-test-project emacs "b.txt") "B\n"))
        (gemini-companion-test-wait-idle emacs)
        (should (equal (alist-get 'proposal (gemini-companion-test-review
                                             emacs))
                       "A\n"))
        (gemini-companion-test-accept emacs)
        (should (equal (gemini-companion-test-client-wait-outcome first a) '(accepted . "A\n")))
        (should-not (gemini-companion-test-client-outcome second b))
        (gemini-companion-test-wait-review emacs "B\n")
        (gemini-companion-test-reject emacs)
        (should (equal (gemini-companion-test-client-wait-outcome second b) '(rejected)))
        (gemini-companion-test-wait-no-review emacs)))))

(gemini-companion-test-with-clients gemini-companion-review/a-half-typed-command-is-not-interrupted kind
  "A review waits until the minibuffer is closed, and takes none of its keys."
  (gemini-companion-review-test--with
      (emacs client kind '(("a.txt" . "one\n")))
    (gemini-companion-test-press emacs "C-x C-f" '(active-minibuffer-window))
    (let ((handle (gemini-companion-test-client-open-diff
                   client (gemini-companion-test-project emacs "a.txt")
                   "two\n")))
      (gemini-companion-test-wait-idle emacs)
      (should-not (gemini-companion-test-review emacs))
      (gemini-companion-test-type emacs "abq")
      (gemini-companion-test-wait-screen emacs "Find file: .*abq")
      (gemini-companion-test-quit emacs)
      (gemini-companion-test-wait-review emacs "two\n")
      (gemini-companion-test-accept emacs)
      (should (equal (gemini-companion-test-client-wait-outcome client handle)
                     '(accepted . "two\n"))))))

(gemini-companion-test-with-clients gemini-companion-review/review-next-shows-it-at-once kind
  "In a recursive edit the review is shown by command."
  (gemini-companion-review-test--with
      (emacs client kind '(("a.txt" . "one\n")))
    (gemini-companion-test-m-x emacs "recursive-edit" '(> (recursion-depth) 0))
    (let ((handle (gemini-companion-test-client-open-diff
                   client (gemini-companion-test-project emacs "a.txt")
                   "two\n")))
      (gemini-companion-test-wait-idle emacs)
      (should-not (gemini-companion-test-review emacs))
      (gemini-companion-test-m-x emacs "gemini-companion-review-next")
      (gemini-companion-test-wait-review emacs "two\n")
      (gemini-companion-test-accept emacs)
      (should (equal (gemini-companion-test-client-wait-outcome client handle)
                     '(accepted . "two\n"))))))

;;;; Errors of clients

(gemini-companion-test-with-clients gemini-companion-review/impossible-reviews-are-refused-with-a-reason kind
  "A relative path and a directory are refused with a reason."
  (gemini-companion-review-test--with (emacs client kind '(("a.txt" . "a\n")))
    (pcase-dolist (`(,path . ,reason)
                   `(("a.txt" . "absolute")
                     (,(directory-file-name
                        (gemini-companion-test-project emacs))
                      . "directory")))
      (let ((outcome (gemini-companion-test-client-wait-outcome
                      client (gemini-companion-test-client-open-diff
                              client path "x"))))
        (should (eq (car outcome) 'error))
        (should (string-match-p reason (cdr outcome)))))
    (should (gemini-companion-test-client-connected-p client))
    (should-not (gemini-companion-test-review emacs))))

(ert-deftest gemini-companion-review/a-question-about-many-changes-names-all-files ()
  "On a screen of 80 columns and 24 lines, with long names."
  (gemini-companion-test-with-emacs (emacs :size '(80 . 24) :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-with-client (client 'fake emacs)
      (gemini-companion-test-fake-propose emacs client "x\n" ".envrc")
      (dotimes (number 29)
        (gemini-companion-test-fake-propose
         emacs client "x\n" (format "some/deeper/directory/of/the/project/name-%d.py" number)))
      (gemini-companion-test-wait-review emacs)
      (gemini-companion-test-run
       emacs '(progn (run-at-time 0 nil #'gemini-companion-accept-all) nil))
      (gemini-companion-test-wait-screen
       emacs "Accept 30 changes: .envrc, \\(.\\|\n\\)*\\? (y or n)")
      (gemini-companion-test-wait
       "all names"
       (lambda ()
         (let ((screen (replace-regexp-in-string "\\\\?\n" ""
                                                 (gemini-companion-test-screen emacs))))
           (cl-loop for number below 29
                    always (string-search (format "name-%d.py" number) screen)))))
      (gemini-companion-test-keys emacs "n"))))

(ert-deftest gemini-companion-review/no-words-are-compared-without-room-for-temporary-files ()
  "The change is shown all the same, where it was not, if a disk is full."
  (dolist (form '((setq temporary-file-directory "/nonexistent/")
                  (setq ediff-diff-program "/nonexistent/diff")))
    (gemini-companion-test-with-emacs (emacs :size '(160 . 47)
                                             :files '(("a.txt" . "one two\nthree\n")))
      (gemini-companion-test-visit emacs "a.txt")
      (gemini-companion-test-eval emacs '(require 'ediff))
      (gemini-companion-test-eval emacs form)
      (gemini-companion-test-with-client (client 'fake emacs)
        (gemini-companion-test-client-open-diff
         client (gemini-companion-test-project emacs "a.txt") "one four\nfive\n")
        (gemini-companion-test-wait-review emacs)
        (gemini-companion-test-wait-screen emacs "diff 1 of 1")
        (gemini-companion-test-accept emacs)
        (gemini-companion-test-wait-no-review emacs)))))

;;; review-test.el ends here

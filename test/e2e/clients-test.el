;;; clients-test.el --- Several reviews of several clients  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Each client of an interactive Emacs is notified of the outcomes of its own
;; reviews, once.  The clients are fake ones, unless their process has to be killed.

;;; Code:

(require 'gemini-companion-test-fake-client)

;;;; Several reviews of two clients

(defun gemini-companion-clients-test--end-review (emacs client name text end)
  "End the review of CLIENT on the screen of EMACS as END says.
It proposes TEXT for the file NAME.  Return the outcomes that CLIENT must
receive for it."
  (let ((cli (gemini-companion-test-fake-client-cli client))
        (file (gemini-companion-test-project emacs name)))
    (pcase-exhaustive end
      ('accept (gemini-companion-test-accept emacs)
               `((accepted ,name ,text)))
      ('edit (gemini-companion-test-accept emacs "mine")
             `((accepted ,name ,(concat text "mine"))))
      ('reject (gemini-companion-test-reject emacs)
               `((rejected ,name)))
      ('later (gemini-companion-test-select-panel emacs)
              (gemini-companion-test-press emacs "q" "Proposed change:")
              (gemini-companion-test-keys emacs "l")
              nil)
      ('kill (gemini-companion-test-select-proposal emacs)
             (gemini-companion-test-keys emacs "C-x" "k" "Enter")
             nil)
      ('close (should (equal (gemini-companion-test-client-close-diff
                              client file nil)
                             text))
              `((rejected ,name)))
      ('close-quietly (should (equal (gemini-companion-test-client-close-diff
                                      client file t)
                                     text))
                      nil)
      ('gone (fake-cli-terminate cli)
             nil))))

(defvar gemini-companion-clients-test--number 0
  "The number of the last proposal.
No two are the same: what was accepted and not written would be accepted again.")

(defun gemini-companion-clients-test--run (emacs clients reviews)
  "Let CLIENTS propose REVIEWS in EMACS at once, and end each as it says.
CLIENTS is an alist of names and clients.  Each of REVIEWS is (CLIENT
NAME END...); all but the last END leave it open.  Check that each client
receives the outcomes of its reviews, and nothing else."
  (let* ((open (mapcar (lambda (review)
                         (pcase-let* ((`(,client ,name . ,ends) review))
                           (list (alist-get client clients) name
                                 (format "%s %s %d\n" client name
                                         (cl-incf gemini-companion-clients-test--number))
                                 ends)))
                       reviews))
         (expected (mapcar (lambda (it)
                             (cons (cdr it)
                                   (gemini-companion-test-fake-outcomes (cdr it))))
                           clients))
         (gone nil)
         (first t))
    ;; None of them is shown before all have arrived.
    (gemini-companion-test-keys emacs "C-x")
    (pcase-dolist (`(,client ,name ,text . ,_) open)
      (gemini-companion-test-fake-propose emacs client text name))
    (gemini-companion-test-quit emacs)
    (while open
      (pcase-dolist (`(,client ,name ,text ,ends) open)
        (unless first
          (gemini-companion-test-m-x emacs "gemini-companion-review-next"))
        (gemini-companion-test-wait-review emacs text)
        (let ((outcomes (gemini-companion-clients-test--end-review
                         emacs client name text (car ends))))
          (setf (alist-get client expected)
                (append (alist-get client expected) outcomes)))
        (when (eq (car ends) 'gone)
          (push client gone))
        (gemini-companion-test-wait-eval
         emacs `(not (equal (alist-get 'proposal
                                       (gemini-companion-test-inner-review))
                            ,text))))
      (setq first nil
            open (delq nil (mapcar (pcase-lambda (`(,client ,name ,text ,ends))
                                     (and (cdr ends)
                                          (list client name text (cdr ends))))
                                   open))))
    (gemini-companion-test-wait-no-review emacs)
    (gemini-companion-test-wait-eval emacs
                                     '(zerop (gemini-companion-review-count)))
    (pcase-dolist (`(,client . ,outcomes) expected)
      (gemini-companion-test-fake-wait-outcomes client outcomes))
    (gemini-companion-test-fake-sync
     emacs (cl-set-difference (mapcar #'cdr clients) gone))
    (pcase-dolist (`(,client . ,outcomes) expected)
      (gemini-companion-test-fake-wait-outcomes client outcomes))
    ;; The next clients are of the same process, and would inherit outcomes of sessions that were lost.
    (dolist (client (cl-set-difference (mapcar #'cdr clients) gone))
      (fake-cli-terminate (gemini-companion-test-fake-client-cli client)))))

(defun gemini-companion-clients-test--run-all (view &rest scenarios)
  "Run SCENARIOS, lists of reviews, in one Emacs with two clients.
The names of the clients are `x' and `y'; VIEW is how reviews are shown."
  (gemini-companion-test-with-fake-client
      (emacs unused '(("a.txt" . "a\n") ("b.txt" . "b\n") ("c.txt" . "c\n")))
    (gemini-companion-test-client-stop unused)
    (gemini-companion-test-eval
     emacs `(setq gemini-companion-diff-function #',view))
    (dolist (reviews scenarios)
      (ert-info ((format "%S" reviews))
        (gemini-companion-test-with-client (x 'fake emacs)
          (gemini-companion-test-with-client (y 'fake emacs)
            (gemini-companion-clients-test--run
             emacs `((x . ,x) (y . ,y)) reviews)))))))

(eval-and-compile
  (defconst gemini-companion-clients-test--scenarios
    '((every-way-to-end-a-review
       ((x "a.txt" accept))
       ((x "a.txt" edit))
       ((y "a.txt" reject))
       ((x "b.txt" later accept))
       ((y "a.txt" kill reject))
       ((x "a.txt" close))
       ((y "a.txt" close-quietly))
       ((x "a.txt" gone)))
      (two-reviews-at-once
       ((x "a.txt" accept) (y "a.txt" reject))
       ((x "a.txt" close) (y "a.txt" edit))
       ((x "a.txt" gone) (y "a.txt" accept))
       ((x "a.txt" kill accept) (y "a.txt" later close))
       ((x "a.txt" close-quietly) (x "b.txt" reject)))
      (five-reviews-at-once
       ((x "a.txt" later accept) (y "a.txt" reject) (x "b.txt" close)
        (y "b.txt" kill edit) (x "c.txt" kill later close-quietly))
       ((x "a.txt" later reject) (y "c.txt" close-quietly)
        (x "b.txt" kill accept) (y "a.txt" edit) (y "b.txt" gone))))
    "Alist of names of tests and scenarios, lists of reviews."))

(defmacro gemini-companion-clients-test--define (&rest views)
  "Define a test for each list of scenarios in each of VIEWS.
In each a client receives the outcomes of its own reviews, once."
  `(progn
     ,@(cl-loop
        for (name . scenarios) in gemini-companion-clients-test--scenarios
        nconc
        (cl-loop
         for view in views
         collect
         `(ert-deftest ,(intern (format "gemini-companion-clients/%s-in-%s"
                                        name view)) ()
            (gemini-companion-clients-test--run-all
             ',(intern (format "gemini-companion-review-%s-show" view))
             ,@(mapcar #'macroexp-quote scenarios)))))))

(gemini-companion-clients-test--define ediff)

(ert-deftest gemini-companion-clients/reviews-end-with-their-client ()
  "All reviews of a client that disconnects end, shown or not."
  (gemini-companion-test-with-fake-client
      (emacs x '(("a.txt" . "a\n") ("b.txt" . "b\n")))
    (gemini-companion-test-with-client (y 'fake emacs)
      (gemini-companion-test-keys emacs "C-x")
      (gemini-companion-test-fake-propose emacs x "xa\n" "a.txt")
      (gemini-companion-test-fake-propose emacs y "ya\n" "a.txt")
      (gemini-companion-test-fake-propose emacs x "xb\n" "b.txt")
      (gemini-companion-test-quit emacs)
      (gemini-companion-test-wait-review emacs "xa\n")
      (fake-cli-terminate (gemini-companion-test-fake-client-cli x))
      (gemini-companion-test-wait-review emacs "ya\n")
      (should (= (gemini-companion-test-eval
                  emacs '(gemini-companion-review-count))
                 1))
      (gemini-companion-test-accept emacs)
      (gemini-companion-test-fake-wait-outcomes y '((accepted "a.txt" "ya\n")))
      (gemini-companion-test-fake-wait-restored emacs)
      (should-not (gemini-companion-test-fake-outcomes x)))))

(ert-deftest gemini-companion-clients/an-outcome-waits-for-a-lost-stream ()
  "A client that has lost its stream receives the outcome when it reconnects.
The other one receives nothing."
  (gemini-companion-test-with-fake-client (emacs x '(("a.txt" . "a\n")))
    (gemini-companion-test-with-client (y 'fake emacs)
      (let ((cli (gemini-companion-test-fake-client-cli x)))
        (gemini-companion-test-fake-propose emacs x "xa\n")
        (gemini-companion-test-wait-review emacs "xa\n")
        (fake-cli-disconnect cli)
        (gemini-companion-test-accept emacs)
        (gemini-companion-test-fake-wait-restored emacs)
        (gemini-companion-test-fake-sync emacs (list y))
        (should-not (gemini-companion-test-fake-outcomes y))
        (should-not (gemini-companion-test-fake-outcomes x))
        (fake-cli--open-stream cli)
        (gemini-companion-test-fake-wait-outcomes
         x '((accepted "a.txt" "xa\n")))
        (gemini-companion-test-fake-sync emacs (list x y))
        (should-not (gemini-companion-test-fake-outcomes y))))))

(ert-deftest gemini-companion-clients/only-reviews-of-a-dead-client-end ()
  "The review of a client that dies is closed; that of another one is shown.
Only the real client has a process of its own."
  (gemini-companion-test-require-real-client)
  (gemini-companion-test-with-fake-client
      (emacs living '(("a.txt" . "a\n")))
    (gemini-companion-test-with-client (dying 'real emacs)
      (gemini-companion-test-keys emacs "C-x")
      (gemini-companion-test-fake-propose emacs dying "dying a\n")
      (gemini-companion-test-fake-propose emacs living "living\n")
      (gemini-companion-test-quit emacs)
      (gemini-companion-test-wait-review emacs "dying a\n")
      (gemini-companion-test-client-stop dying)
      (gemini-companion-test-wait-review emacs "living\n")
      (gemini-companion-test-wait-eval
       emacs '(= (gemini-companion-review-count) 1))
      (gemini-companion-test-reject emacs)
      (gemini-companion-test-fake-wait-restored emacs)
      (gemini-companion-test-fake-wait-outcomes
       living '((rejected "a.txt"))))))

;;; clients-test.el ends here

;;; meanwhile-test.el --- The user's hands and a client at the same moment  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client closes a review while the user of an interactive Emacs is at a
;; prompt, in the middle of a question about it, or has put something else
;; into a window.  What is typed goes where the user sees it go, windows stay
;; as the user leaves them, and nothing is decided that was not on screen.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path
               (expand-file-name "../support"
                                 (file-name-directory (macroexp-file-name)))))
(require 'gemini-companion-test-client)
(require 'gemini-companion-test-review)

(defmacro gemini-companion-meanwhile-test--with (spec &rest body)
  "Run BODY with an Emacs and a fake client that is connected to it.
SPEC is (EMACS CLIENT KEY VALUE...), the keys as for
`gemini-companion-test-start'.  Emacs visits a.txt."
  (declare (indent 1) (debug ((symbolp symbolp &rest form) body)))
  (pcase-let ((`(,emacs ,client . ,keys) spec))
    `(gemini-companion-test-with-emacs
         (,emacs :files '(("a.txt" . "one\n") ("b.txt" . "bee\n") ("c.txt" . "sea\n"))
                 ,@keys)
       (gemini-companion-test-visit ,emacs "a.txt")
       (gemini-companion-test-with-client (,client 'fake ,emacs)
         ,@body))))

(defun gemini-companion-meanwhile-test--propose (emacs client text &optional name)
  "Let CLIENT propose TEXT for the file NAME, by default a.txt, in EMACS."
  (gemini-companion-test-client-open-diff
   client (gemini-companion-test-project emacs (or name "a.txt")) text)
  (gemini-companion-test-wait-eval
   emacs `(seq-some (lambda (review)
                      (equal (gemini-companion-review-proposed review) ,text))
                    (gemini-companion-review-list-open))))

(defun gemini-companion-meanwhile-test--close (emacs client &optional name)
  "Let CLIENT close the review of the file NAME, by default a.txt, in EMACS.
It is answered at once, whatever the user does."
  (gemini-companion-test-client-close-diff
   client (gemini-companion-test-project emacs (or name "a.txt")) t))

(defun gemini-companion-meanwhile-test--count (emacs count)
  "Wait until COUNT reviews are open in EMACS."
  (gemini-companion-test-wait-eval emacs `(= (gemini-companion-review-count) ,count)))

(defun gemini-companion-meanwhile-test--text (emacs name)
  "Return what the buffer NAME in EMACS says."
  (gemini-companion-test-eval emacs `(with-current-buffer ,name (buffer-string))))

(defun gemini-companion-meanwhile-test--told (client)
  "Return the methods of the outcomes that CLIENT has heard."
  (delq nil (mapcar (lambda (message)
                      (let ((method (alist-get 'method message)))
                        (and (member method '("ide/diffAccepted" "ide/diffRejected"))
                             method)))
                    (fake-cli-notifications
                     (gemini-companion-test-fake-client-cli client)))))

;;;; Prompts

(ert-deftest gemini-companion-meanwhile/a-half-typed-command-stays-in-the-minibuffer ()
  (gemini-companion-meanwhile-test--with (emacs client)
    (gemini-companion-meanwhile-test--propose emacs client "two\n")
    (gemini-companion-test-wait-review emacs "two\n")
    (gemini-companion-test-keys emacs "M-x" "emacs-vers")
    (gemini-companion-test-wait-screen emacs "M-x emacs-vers")
    (should (equal (gemini-companion-meanwhile-test--close emacs client) "two\n"))
    (gemini-companion-meanwhile-test--count emacs 0)
    (should (gemini-companion-test-eval
             emacs '(and (active-minibuffer-window)
                         (eq (active-minibuffer-window) (selected-window)))))
    (gemini-companion-test-keys emacs "ion" "Enter")
    (gemini-companion-test-wait-eval
     emacs '(with-current-buffer "*Messages*"
              (string-search "GNU Emacs" (buffer-string))))
    (gemini-companion-test-wait-no-review emacs)
    (should (equal (gemini-companion-meanwhile-test--text emacs "a.txt") "one\n"))
    (should (gemini-companion-test-eval
             emacs '(and (zerop (minibuffer-depth)) (one-window-p)
                         (equal (buffer-name) "a.txt"))))))

(ert-deftest gemini-companion-meanwhile/an-answer-goes-to-its-question ()
  (gemini-companion-meanwhile-test--with (emacs client)
    (gemini-companion-test-eval
     emacs '(progn (global-set-key [f5] (lambda ()
                                          (interactive)
                                          (insert (format "%s" (y-or-n-p "Sure? ")))))
                   nil))
    (gemini-companion-meanwhile-test--propose emacs client "two\n")
    (gemini-companion-test-wait-review emacs "two\n")
    (gemini-companion-test-keys emacs "F5")
    (gemini-companion-test-wait-screen emacs "Sure\\? (y or n)")
    (gemini-companion-meanwhile-test--close emacs client)
    (gemini-companion-meanwhile-test--count emacs 0)
    (gemini-companion-test-wait-screen emacs "Sure\\? (y or n)")
    (gemini-companion-test-keys emacs "y")
    (gemini-companion-test-wait-eval
     emacs '(equal (with-current-buffer "a.txt" (buffer-string)) "tone\n"))
    (gemini-companion-test-wait-no-review emacs)))

(ert-deftest gemini-companion-meanwhile/the-user-reads-what-became-of-it ()
  "The client does not say whether its user said yes: it writes, or does not."
  (gemini-companion-meanwhile-test--with (emacs client)
    (dolist (yes '(t nil))
      (gemini-companion-meanwhile-test--propose emacs client "two\n")
      (gemini-companion-test-wait-review emacs "two\n")
      (gemini-companion-meanwhile-test--close emacs client)
      (when yes
        (gemini-companion-test-write (gemini-companion-test-project emacs "a.txt") "two\n"))
      (gemini-companion-test-wait-screen
       emacs (if yes "a\\.txt: accepted in Gemini CLI" "a\\.txt: rejected in Gemini CLI"))
      (gemini-companion-test-wait-no-review emacs))))

;;;; Questions about a review that ends

(ert-deftest gemini-companion-meanwhile/q-decides-what-it-asked-about ()
  (gemini-companion-meanwhile-test--with (emacs client)
    (gemini-companion-test-with-client (other 'fake emacs)
      (gemini-companion-meanwhile-test--propose emacs client "two\n")
      (gemini-companion-test-wait-review emacs "two\n")
      (gemini-companion-meanwhile-test--propose emacs other "unseen\n" "b.txt")
      (gemini-companion-test-select-panel emacs)
      (gemini-companion-test-keys emacs "q")
      (gemini-companion-test-wait-screen emacs "Proposed change:")
      (gemini-companion-meanwhile-test--close emacs client)
      (gemini-companion-meanwhile-test--count emacs 1)
      (gemini-companion-test-wait-screen emacs "Proposed change:")
      (gemini-companion-test-keys emacs "a")
      (gemini-companion-test-wait-screen emacs "a\\.txt: decided in Gemini CLI")
      ;; Then the other one comes, and is still to be decided.
      (gemini-companion-test-wait-review emacs "unseen\n")
      (should-not (gemini-companion-meanwhile-test--told client))
      (should-not (gemini-companion-meanwhile-test--told other))
      (gemini-companion-meanwhile-test--count emacs 1))))

(ert-deftest gemini-companion-meanwhile/what-has-ended-is-not-shown-again ()
  (gemini-companion-meanwhile-test--with (emacs client)
    (gemini-companion-meanwhile-test--propose emacs client "two\n")
    (gemini-companion-test-wait-review emacs "two\n")
    (gemini-companion-test-type emacs "mine")
    (gemini-companion-test-wait-screen emacs "Unsaved edits")
    (gemini-companion-test-m-x emacs "gemini-companion-accept")
    (gemini-companion-test-wait-screen emacs "\\[?t\\]?hree-way")
    (gemini-companion-meanwhile-test--close emacs client)
    (gemini-companion-meanwhile-test--count emacs 0)
    (gemini-companion-test-keys emacs "t")
    (gemini-companion-test-wait-screen emacs "a\\.txt: decided in Gemini CLI")
    (gemini-companion-test-wait-no-review emacs)
    (should (equal (gemini-companion-meanwhile-test--text emacs "a.txt") "mineone\n"))
    (should-not (gemini-companion-meanwhile-test--told client))))

;;;; Windows

(defun gemini-companion-meanwhile-test--letters (emacs client act there)
  "The user of EMACS does ACT and types, while a review of CLIENT ends.
ACT is a list of keys; THERE is the name of the buffer to which they
lead.  All letters are in it, and it is still selected."
  (gemini-companion-meanwhile-test--propose emacs client "two\n")
  (gemini-companion-test-wait-review emacs "two\n")
  (apply #'gemini-companion-test-keys emacs act)
  (gemini-companion-test-wait-eval emacs `(equal (buffer-name (window-buffer)) ,there))
  (let ((before (gemini-companion-meanwhile-test--text emacs there)))
    (gemini-companion-test-type emacs "abcdefghij")
    (gemini-companion-meanwhile-test--close emacs client)
    (gemini-companion-test-type emacs "klmnopqrst")
    (gemini-companion-test-wait-no-review emacs)
    (gemini-companion-test-type emacs "uvwxyz")
    (gemini-companion-test-wait-eval
     emacs `(equal (with-current-buffer ,there (buffer-string))
                   ,(concat "abcdefghijklmnopqrstuvwxyz" before))))
  (should (gemini-companion-test-eval
           emacs `(equal (buffer-name (window-buffer)) ,there))))

(ert-deftest gemini-companion-meanwhile/another-buffer-in-the-kept-window-stays ()
  (gemini-companion-meanwhile-test--with (emacs client)
    (gemini-companion-meanwhile-test--letters
     emacs client '("C-x" "b" "*scratch*" "Enter") "*scratch*")
    (should (equal (gemini-companion-meanwhile-test--text emacs "a.txt") "one\n"))
    (should (gemini-companion-test-eval emacs '(one-window-p)))))

(ert-deftest gemini-companion-meanwhile/a-window-that-the-user-opens-stays ()
  (gemini-companion-meanwhile-test--with (emacs client)
    (gemini-companion-meanwhile-test--letters
     emacs client '("C-x" "4" "f" "c.txt" "Enter") "c.txt")
    (should (gemini-companion-test-eval emacs '(get-buffer-window "a.txt")))
    (should (= (gemini-companion-test-eval emacs '(length (window-list))) 2))))

(ert-deftest gemini-companion-meanwhile/nothing-of-it-is-left-in-another-tab ()
  (gemini-companion-meanwhile-test--with (emacs client)
    (dolist (view '(gemini-companion-ediff-show gemini-companion-diff-show))
      (gemini-companion-test-run
       emacs `(progn (setq gemini-companion-diff-function #',view) nil))
      (gemini-companion-test-keys emacs "C-x" "3")
      (let ((before (gemini-companion-test-eval
                     emacs '(mapcar (lambda (window) (buffer-name (window-buffer window)))
                                    (window-list)))))
        (gemini-companion-meanwhile-test--propose emacs client "two\n")
        (gemini-companion-test-wait-review emacs "two\n")
        (gemini-companion-test-keys emacs "C-x" "t" "2")
        (gemini-companion-test-wait-eval emacs '(one-window-p))
        (gemini-companion-meanwhile-test--close emacs client)
        (gemini-companion-meanwhile-test--count emacs 0)
        (gemini-companion-test-wait-no-review emacs)
        (should (gemini-companion-test-eval emacs '(one-window-p)))
        (gemini-companion-test-keys emacs "C-x" "t" "0")
        (gemini-companion-test-wait-eval
         emacs `(equal (mapcar (lambda (window) (buffer-name (window-buffer window)))
                               (window-list))
                       ',before)))
      (gemini-companion-test-keys emacs "C-x" "1"))))

(ert-deftest gemini-companion-meanwhile/a-terminal-that-was-hidden-stays-hidden ()
  (gemini-companion-meanwhile-test--with (emacs client)
    (gemini-companion-test-run
     emacs '(progn (select-window
                    (display-buffer-in-side-window (get-buffer-create "terminal")
                                                   '((side . right))))
                   nil))
    (gemini-companion-meanwhile-test--propose emacs client "two\n")
    (gemini-companion-test-wait-review emacs "two\n")
    (gemini-companion-test-keys emacs "C-x" "0")
    (gemini-companion-test-wait-eval emacs '(null (get-buffer-window "terminal")))
    (gemini-companion-meanwhile-test--close emacs client)
    (gemini-companion-test-wait-no-review emacs)
    (should (gemini-companion-test-eval
             emacs '(and (one-window-p) (equal (buffer-name) "a.txt"))))))

(ert-deftest gemini-companion-meanwhile/typing-in-a-proposal-that-ends-goes-nowhere-else ()
  "The client closes it while the user edits it."
  (gemini-companion-meanwhile-test--with (emacs client)
    (gemini-companion-meanwhile-test--propose emacs client "two\n")
    (gemini-companion-test-wait-review emacs "two\n")
    (gemini-companion-test-append-to-proposal emacs "mine")
    (gemini-companion-test-type emacs "k")
    (should (string-prefix-p "two\nmine" (gemini-companion-meanwhile-test--close
                                          emacs client)))
    (gemini-companion-test-type emacs "lost")
    (gemini-companion-test-wait-no-review emacs)
    (should (equal (gemini-companion-meanwhile-test--text emacs "a.txt") "one\n"))))

;;;; What was not on screen

(ert-deftest gemini-companion-meanwhile/what-waits-is-shown-before-it-is-decided ()
  (gemini-companion-meanwhile-test--with (emacs client)
    (gemini-companion-test-run
     emacs '(progn (setq gemini-companion-diff-policy 'queue) nil))
    (gemini-companion-meanwhile-test--propose emacs client "two\n")
    (dolist (command '("gemini-companion-accept" "gemini-companion-reject"))
      (gemini-companion-test-m-x emacs command)
      (gemini-companion-test-wait-review emacs "two\n")
      (gemini-companion-test-wait-screen emacs "a\\.txt was not on screen")
      (gemini-companion-meanwhile-test--count emacs 1)
      (gemini-companion-test-select-panel emacs)
      (gemini-companion-test-keys emacs "q")
      (gemini-companion-test-wait-screen emacs "Proposed change:")
      (gemini-companion-test-keys emacs "l")
      (gemini-companion-test-wait-no-review emacs))
    (should-not (gemini-companion-meanwhile-test--told client))))

(ert-deftest gemini-companion-meanwhile/the-list-stays-under-the-keys ()
  (gemini-companion-meanwhile-test--with (emacs client)
    (gemini-companion-meanwhile-test--propose emacs client "two\n")
    (gemini-companion-test-wait-review emacs "two\n")
    ;; The others do not come by themselves.
    (gemini-companion-test-run
     emacs '(progn (setq gemini-companion-diff-policy 'queue) nil))
    (gemini-companion-meanwhile-test--propose emacs client "unseen\n" "b.txt")
    (gemini-companion-meanwhile-test--propose emacs client "third\n" "c.txt")
    (gemini-companion-test-m-x emacs "gemini-companion-review-list")
    (gemini-companion-test-wait-eval
     emacs '(equal (buffer-name (window-buffer)) "*gemini reviews*"))
    (gemini-companion-test-keys emacs "a")
    (gemini-companion-meanwhile-test--count emacs 2)
    (gemini-companion-test-wait
     "the accept" (lambda () (equal (gemini-companion-meanwhile-test--told client)
                                    '("ide/diffAccepted"))))
    (should (gemini-companion-test-eval
             emacs '(equal (buffer-name (window-buffer)) "*gemini reviews*")))
    ;; The next line was never on screen: it is shown, and not accepted.
    (gemini-companion-test-keys emacs "a")
    (gemini-companion-test-wait-review emacs "unseen\n")
    (should (gemini-companion-test-eval
             emacs '(equal (buffer-name (window-buffer)) "*gemini reviews*")))
    (gemini-companion-test-keys emacs "r")
    (gemini-companion-meanwhile-test--count emacs 1)
    (should (gemini-companion-test-eval
             emacs '(equal (buffer-name (window-buffer)) "*gemini reviews*")))
    (gemini-companion-test-wait
     "the reject" (lambda () (equal (gemini-companion-meanwhile-test--told client)
                                    '("ide/diffRejected" "ide/diffAccepted"))))))

(ert-deftest gemini-companion-meanwhile/a-review-comes-to-the-terminal-that-asks ()
  (gemini-companion-meanwhile-test--with (emacs client)
    (gemini-companion-meanwhile-test--propose emacs client "two\n")
    (gemini-companion-test-wait-review emacs "two\n")
    (let ((gemini-companion-test-pane (gemini-companion-test-open-frame emacs "second"))
          (here '(seq-some (lambda (window)
                             (string-prefix-p "*gemini proposal"
                                              (buffer-name (window-buffer window))))
                           (window-list))))
      (gemini-companion-test-keys emacs "C-n")
      (gemini-companion-test-wait-eval emacs '(frame-parameter nil 'client))
      (should-not (gemini-companion-test-eval emacs here))
      (gemini-companion-test-m-x emacs "gemini-companion-review-next")
      (gemini-companion-test-wait-eval emacs here)
      (should (gemini-companion-test-eval emacs '(frame-parameter nil 'client)))
      (gemini-companion-test-wait-screen emacs "Ediff Control Panel")
      (gemini-companion-test-keys emacs "C-c" "C-k")
      (gemini-companion-meanwhile-test--count emacs 0))
    (gemini-companion-test-wait
     "the reject" (lambda () (equal (gemini-companion-meanwhile-test--told client)
                                    '("ide/diffRejected"))))))

;;;; Moments

(ert-deftest gemini-companion-meanwhile/a-repeat-map-holds-nothing-back ()
  (gemini-companion-meanwhile-test--with (emacs client)
    (gemini-companion-test-run emacs '(progn (repeat-mode 1) (split-window) nil))
    (gemini-companion-test-keys emacs "C-x" "o")
    (gemini-companion-test-wait-eval emacs 'overriding-terminal-local-map)
    (gemini-companion-meanwhile-test--propose emacs client "two\n")
    (gemini-companion-test-wait-review emacs "two\n")))

(ert-deftest gemini-companion-meanwhile/what-is-held-back-is-told ()
  (gemini-companion-meanwhile-test--with (emacs client)
    (gemini-companion-test-keys emacs "M-x")
    (gemini-companion-test-wait-eval emacs '(active-minibuffer-window))
    (gemini-companion-meanwhile-test--propose emacs client "two\n")
    (gemini-companion-test-wait-screen emacs "Gem:1!1 waits")
    (should (string-match-p "^M-x" (gemini-companion-test-screen emacs)))
    (gemini-companion-test-quit emacs)
    (gemini-companion-test-wait-review emacs "two\n")
    (gemini-companion-test-wait-screen emacs "Gem:1!1)")))

(ert-deftest gemini-companion-meanwhile/leaving-emacs-asks-first ()
  (gemini-companion-meanwhile-test--with (emacs client)
    (gemini-companion-meanwhile-test--propose emacs client "two\n")
    (gemini-companion-test-wait-review emacs "two\n")
    (gemini-companion-test-keys emacs "C-x" "C-c")
    (gemini-companion-test-wait-screen emacs "change waits for your decision")
    (gemini-companion-test-keys emacs "no" "Enter")
    (gemini-companion-test-wait-eval emacs '(zerop (minibuffer-depth)))
    (gemini-companion-meanwhile-test--count emacs 1)
    (gemini-companion-test-keys emacs "C-x" "C-c")
    (gemini-companion-test-wait-screen emacs "change waits for your decision")
    (gemini-companion-test-keys emacs "yes" "Enter")
    (gemini-companion-test-wait-gone emacs)
    (gemini-companion-test-wait
     "the reject" (lambda () (equal (gemini-companion-meanwhile-test--told client)
                                    '("ide/diffRejected"))))))

;;; meanwhile-test.el ends here

;;; interruption-test.el --- A client acts while the user is busy  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client closes a review while the user of an interactive Emacs is at a
;; prompt, or at a question about it, or has switched a window to another
;; buffer.  Keys go to what the user sees, windows stay as the user leaves them,
;; and no review is decided that was not on screen.

;;; Code:

(require 'gemini-companion-test-fake-client)

(defvar gemini-companion-interruption-test--views
  '(gemini-companion-review-ediff-show gemini-companion-review-inline-show)
  "The views in which each test is done.")

(defmacro gemini-companion-interruption-test--with (spec &rest body)
  "Run BODY with an Emacs that visits a.txt and a fake client, in each view.
SPEC is (EMACS CLIENT), two variables."
  (declare (indent 1) (debug ((symbolp symbolp) body)))
  `(dolist (view gemini-companion-interruption-test--views)
     (ert-info ((symbol-name view))
       (gemini-companion-test-with-fake-client
           (,@spec '(("a.txt" . "one\n") ("b.txt" . "bee\n") ("c.txt" . "sea\n")))
         (gemini-companion-test-eval
          ,(car spec) `(progn (setq gemini-companion-diff-function #',view
                                    ;; The fake client writes nothing.
                                    gemini-companion-write--decision-time 1.0)
                              nil))
         ,@body))))

(defun gemini-companion-interruption-test--close (emacs client &optional name)
  "Let CLIENT close the review of the file NAME, by default a.txt, in EMACS.
It is answered at once, even if the user is busy."
  (gemini-companion-test-client-close-diff
   client (gemini-companion-test-project emacs (or name "a.txt")) t))

(defun gemini-companion-interruption-test--count (emacs count)
  "Wait until COUNT reviews are open in EMACS."
  (gemini-companion-test-wait-eval emacs `(= (gemini-companion-review-count) ,count)))

(defun gemini-companion-interruption-test--text (emacs name)
  "Return the text of the buffer NAME in EMACS."
  (gemini-companion-test-eval emacs `(with-current-buffer ,name (buffer-string))))

;;;; Prompts

(ert-deftest gemini-companion-interruption/a-half-typed-command-stays-in-the-minibuffer ()
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-fake-show emacs client "two\n")
    (gemini-companion-test-press emacs "M-x emacs-vers" "M-x emacs-vers")
    (should (equal (gemini-companion-interruption-test--close emacs client) "two\n"))
    (gemini-companion-interruption-test--count emacs 0)
    (should (gemini-companion-test-eval
             emacs '(and (active-minibuffer-window)
                         (eq (active-minibuffer-window) (selected-window)))))
    (gemini-companion-test-keys emacs "ion" "Enter")
    (gemini-companion-test-wait-eval
     emacs '(with-current-buffer "*Messages*"
              (string-search "GNU Emacs" (buffer-string))))
    (gemini-companion-test-wait-no-review emacs)
    (should (equal (gemini-companion-interruption-test--text emacs "a.txt") "one\n"))
    (should (gemini-companion-test-eval
             emacs '(and (zerop (minibuffer-depth)) (one-window-p)
                         (equal (buffer-name) "a.txt"))))))

(ert-deftest gemini-companion-interruption/an-answer-goes-to-its-own-question ()
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-eval
     emacs '(progn (global-set-key [f5] (lambda ()
                                          (interactive)
                                          (insert (format "%s" (y-or-n-p "Sure? ")))))
                   nil))
    (gemini-companion-test-fake-show emacs client "two\n")
    (gemini-companion-test-press emacs "F5" "Sure\\? (y or n)")
    (gemini-companion-interruption-test--close emacs client)
    (gemini-companion-interruption-test--count emacs 0)
    (gemini-companion-test-wait-screen emacs "Sure\\? (y or n)")
    (gemini-companion-test-keys emacs "y")
    (gemini-companion-test-wait-eval
     emacs '(equal (with-current-buffer "a.txt" (buffer-string)) "tone\n"))
    (gemini-companion-test-wait-no-review emacs)))

(ert-deftest gemini-companion-interruption/the-echo-area-shows-the-outcome ()
  "Only whether the client writes the file shows that the user accepted there."
  (gemini-companion-interruption-test--with (emacs client)
    (dolist (yes '(t nil))
      (gemini-companion-test-fake-show emacs client "two\n")
      (gemini-companion-interruption-test--close emacs client)
      (when yes
        (gemini-companion-test-write (gemini-companion-test-project emacs "a.txt") "two\n"))
      (gemini-companion-test-wait-screen
       emacs (if yes "a\\.txt: accepted in Gemini CLI" "a\\.txt: rejected in Gemini CLI"))
      (gemini-companion-test-wait-no-review emacs))))

(ert-deftest gemini-companion-interruption/the-answer-to-a-command-stays ()
  "A message of ours is below it, or comes once a longer one is gone."
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-eval emacs '(progn (setq gemini-companion-diff-policy 'queue) nil))
    (let ((end (lambda (name)
                 (gemini-companion-test-fake-propose emacs client "two\n" name)
                 (gemini-companion-interruption-test--close emacs client name))))
      (gemini-companion-test-run emacs '(progn (message "The answer") nil))
      (funcall end "a.txt")
      (gemini-companion-test-wait-screen emacs "^The answer\na\\.txt: rejected in Gemini CLI")
      ;; The next one replaces ours alone.
      (funcall end "b.txt")
      (gemini-companion-test-wait-screen emacs "^The answer\nb\\.txt: rejected in Gemini CLI")
      (should (equal (gemini-companion-test-eval
                      emacs '(with-current-buffer "*Messages*"
                               (list (how-many "^The answer$" (point-min))
                                     (how-many "^[ab]\\.txt: rejected" (point-min)))))
                     '(1 2)))
      (gemini-companion-test-run emacs '(progn (message "A long\nanswer") nil))
      (funcall end "c.txt")
      (gemini-companion-test-wait-eval emacs '(and gemini-companion-ui--messages
                                                   (memq 'gemini-companion-ui--show-messages
                                                         (mapcar #'timer--function timer-list))
                                                   t))
      (should (equal (gemini-companion-test-eval emacs '(current-message)) "A long\nanswer"))
      (gemini-companion-test-keys emacs "C-f")
      (gemini-companion-test-wait-eval
       emacs '(equal (current-message) "c.txt: rejected in Gemini CLI"))
      (should-not (gemini-companion-test-eval emacs 'gemini-companion-ui--messages)))))

(ert-deftest gemini-companion-interruption/who-hears-emacs-is-told-of-a-change ()
  "Emacspeak silences what timers say, and lets `message' speak what it shows."
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-eval
     emacs '(progn (defvar emacspeak-speak-messages t)
                   (setq gemini-companion-test-spoken nil)
                   (advice-add 'timer-event-handler :around
                               (lambda (&rest call)
                                 (let ((emacspeak-speak-messages nil) (inhibit-message t))
                                   (apply call)))
                               '((name . silence)))
                   (advice-add 'message :after
                               (lambda (&rest _)
                                 (when (and emacspeak-speak-messages (not inhibit-message))
                                   (push (current-message) gemini-companion-test-spoken)))
                               '((name . speak)))
                   nil))
    (let ((words "Gemini CLI proposes a change to a.txt"))
      (gemini-companion-test-fake-propose emacs client "two\n")
      (gemini-companion-test-wait-screen emacs (regexp-quote words))
      (gemini-companion-test-wait-eval
       emacs `(seq-some (lambda (text) (string-prefix-p ,words text))
                        gemini-companion-test-spoken)))
    (gemini-companion-test-reject emacs)
    (gemini-companion-test-eval
     emacs '(progn (advice-remove 'timer-event-handler 'silence)
                   (advice-remove 'message 'speak)
                   (makunbound 'emacspeak-speak-messages)
                   nil))
    (gemini-companion-test-wait-no-review emacs)))

;;;; Questions about a review that has ended

;;;; Windows

(defun gemini-companion-interruption-test--letters (emacs client keys name)
  "Let the user of EMACS press KEYS and type, while a review of CLIENT ends.
KEYS select the buffer NAME.  Check that it has all letters, and is still
selected."
  (gemini-companion-test-fake-show emacs client "two\n")
  (apply #'gemini-companion-test-keys emacs keys)
  (gemini-companion-test-wait-eval emacs `(equal (buffer-name (window-buffer)) ,name))
  (let ((before (gemini-companion-interruption-test--text emacs name)))
    (gemini-companion-test-type emacs "abcdefghij")
    (gemini-companion-interruption-test--close emacs client)
    (gemini-companion-test-type emacs "klmnopqrst")
    (gemini-companion-test-wait-no-review emacs)
    (gemini-companion-test-type emacs "uvwxyz")
    (gemini-companion-test-wait-eval
     emacs `(equal (with-current-buffer ,name (buffer-string))
                   ,(concat "abcdefghijklmnopqrstuvwxyz" before))))
  (should (gemini-companion-test-eval
           emacs `(equal (buffer-name (window-buffer)) ,name))))

(ert-deftest gemini-companion-interruption/a-buffer-switched-to-stays ()
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-interruption-test--letters
     emacs client '("C-x" "b" "*scratch*" "Enter") "*scratch*")
    (should (equal (gemini-companion-interruption-test--text emacs "a.txt") "one\n"))
    (should (gemini-companion-test-eval emacs '(one-window-p)))))

(ert-deftest gemini-companion-interruption/a-window-opened-by-the-user-stays ()
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-interruption-test--letters
     emacs client '("C-x" "4" "f" "c.txt" "Enter") "c.txt")
    (should (gemini-companion-test-eval emacs '(get-buffer-window "a.txt")))
    (should (= (gemini-companion-test-eval emacs '(length (window-list))) 2))))

(ert-deftest gemini-companion-interruption/no-window-of-it-remains-in-another-tab ()
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-keys emacs "C-x" "3")
    (let ((before (gemini-companion-test-eval
                   emacs '(mapcar (lambda (window) (buffer-name (window-buffer window)))
                                  (window-list)))))
      (gemini-companion-test-fake-show emacs client "two\n")
      (gemini-companion-test-press emacs "C-x t 2" '(one-window-p))
      (gemini-companion-interruption-test--close emacs client)
      (gemini-companion-interruption-test--count emacs 0)
      (gemini-companion-test-wait-no-review emacs)
      (should (gemini-companion-test-eval emacs '(one-window-p)))
      (gemini-companion-test-keys emacs "C-x" "t" "0")
      (gemini-companion-test-wait-eval
       emacs `(equal (mapcar (lambda (window) (buffer-name (window-buffer window)))
                             (window-list))
                     ',before)))))

(ert-deftest gemini-companion-interruption/a-hidden-terminal-stays-hidden ()
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-run
     emacs '(progn (select-window
                    (display-buffer-in-side-window (get-buffer-create "terminal")
                                                   '((side . right))))
                   nil))
    (gemini-companion-test-fake-show emacs client "two\n")
    (gemini-companion-test-press emacs "C-x 0" '(null (get-buffer-window "terminal")))
    (gemini-companion-interruption-test--close emacs client)
    (gemini-companion-test-wait-no-review emacs)
    (should (gemini-companion-test-eval
             emacs '(and (one-window-p) (equal (buffer-name) "a.txt"))))))

(ert-deftest gemini-companion-interruption/keys-for-an-ended-proposal-go-nowhere-else ()
  "The client closes the review while the user edits it."
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-fake-show emacs client "two\n")
    (gemini-companion-test-append-to-proposal emacs "mine")
    (gemini-companion-test-type emacs "k")
    (should (string-prefix-p "two\nmine" (gemini-companion-interruption-test--close
                                          emacs client)))
    (gemini-companion-test-type emacs "lost")
    (gemini-companion-test-wait-no-review emacs)
    (should (equal (gemini-companion-interruption-test--text emacs "a.txt") "one\n"))))

;;;; Reviews that were not on screen

(ert-deftest gemini-companion-interruption/a-waiting-review-is-shown-before-it-is-decided ()
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-run
     emacs '(progn (setq gemini-companion-diff-policy 'queue) nil))
    (gemini-companion-test-fake-propose emacs client "two\n")
    (dolist (command '("gemini-companion-accept" "gemini-companion-reject"))
      (gemini-companion-test-m-x emacs command)
      (gemini-companion-test-wait-review emacs "two\n")
      (gemini-companion-test-wait-screen emacs "a\\.txt was not on screen")
      (gemini-companion-interruption-test--count emacs 1)
      (gemini-companion-test-select-panel emacs)
      (gemini-companion-test-press emacs "q" "Proposed change:")
      (gemini-companion-test-keys emacs "l")
      (gemini-companion-test-wait-no-review emacs))
    (should-not (gemini-companion-test-fake-outcomes client))))

(ert-deftest gemini-companion-interruption/the-list-stays-selected ()
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-fake-show emacs client "two\n")
    ;; The others are not shown automatically.
    (gemini-companion-test-run
     emacs '(progn (setq gemini-companion-diff-policy 'queue
                         gemini-companion-ui-reaction-time 0)
                   nil))
    (gemini-companion-test-fake-propose emacs client "unseen\n" "b.txt")
    (gemini-companion-test-fake-propose emacs client "third\n" "c.txt")
    (gemini-companion-test-m-x emacs "gemini-companion-review-list")
    (gemini-companion-test-wait-eval
     emacs '(equal (buffer-name (window-buffer)) "*gemini changes*"))
    (gemini-companion-test-keys emacs "a")
    (gemini-companion-interruption-test--count emacs 2)
    (gemini-companion-test-fake-wait-outcomes client '((accepted "a.txt" "two\n")))
    (should (gemini-companion-test-eval
             emacs '(equal (buffer-name (window-buffer)) "*gemini changes*")))
    ;; The next one was never on screen: it is shown, not accepted.
    (gemini-companion-test-keys emacs "a")
    (gemini-companion-test-wait-review emacs "unseen\n")
    (should (gemini-companion-test-eval
             emacs '(equal (buffer-name (window-buffer)) "*gemini changes*")))
    (gemini-companion-test-keys emacs "r")
    (gemini-companion-interruption-test--count emacs 1)
    (should (gemini-companion-test-eval
             emacs '(equal (buffer-name (window-buffer)) "*gemini changes*")))
    (gemini-companion-test-fake-wait-outcomes
     client '((accepted "a.txt" "two\n") (rejected "b.txt")))))

(ert-deftest gemini-companion-interruption/a-review-moves-to-the-frame-that-asks-for-it ()
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-fake-show emacs client "two\n")
    (let ((gemini-companion-test-pane (gemini-companion-test-open-frame emacs "second"))
          (here '(seq-some (lambda (window)
                             (string-match-p "\\`\\*gemini \\(?:proposal\\|review\\)"
                                             (buffer-name (window-buffer window))))
                           (window-list))))
      (gemini-companion-test-press emacs "C-n" '(frame-parameter nil 'client))
      (should-not (gemini-companion-test-eval emacs here))
      (gemini-companion-test-m-x emacs "gemini-companion-review-next")
      (gemini-companion-test-wait-eval emacs here)
      (should (gemini-companion-test-eval emacs '(frame-parameter nil 'client)))
      (gemini-companion-test-wait-screen emacs "Ediff Control Panel\\|hunk 1 of 1")
      (gemini-companion-test-keys emacs "C-c" "C-k")
      (gemini-companion-interruption-test--count emacs 0))
    (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))))

;;;; Waiting reviews, and leaving Emacs

(ert-deftest gemini-companion-interruption/a-repeat-map-delays-no-review ()
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-run emacs '(progn (repeat-mode 1) (split-window) nil))
    (gemini-companion-test-keys emacs "C-x" "o")
    (gemini-companion-test-wait-eval emacs 'overriding-terminal-local-map)
    (gemini-companion-test-fake-show emacs client "two\n")))

(ert-deftest gemini-companion-interruption/a-map-that-a-command-left-delays-no-review ()
  "The user has changed the size of the text, and looks at it."
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-m-x emacs "text-scale-adjust")
    (gemini-companion-test-wait-eval emacs 'overriding-terminal-local-map)
    (gemini-companion-test-fake-show emacs client "two\n")
    (should (gemini-companion-test-eval emacs 'overriding-terminal-local-map))))

(ert-deftest gemini-companion-interruption/the-mode-line-shows-that-a-review-waits ()
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-eval emacs '(setq gemini-companion-review-popup--held-after 0.5))
    (gemini-companion-test-press emacs "M-x" '(active-minibuffer-window))
    (gemini-companion-test-fake-propose emacs client "two\n")
    (gemini-companion-test-wait-screen emacs "Gem:1!1 waits")
    (should (string-match-p "^M-x" (gemini-companion-test-screen emacs)))
    (gemini-companion-test-quit emacs)
    (gemini-companion-test-wait-review emacs "two\n")
    (gemini-companion-test-wait-screen emacs "Gem:1!1)")))

(ert-deftest gemini-companion-interruption/leaving-emacs-asks-for-confirmation ()
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-fake-show emacs client "two\n")
    (gemini-companion-test-press emacs "C-x C-c" "change waits for your decision")
    (gemini-companion-test-press emacs "no Enter" '(zerop (minibuffer-depth)))
    (gemini-companion-interruption-test--count emacs 1)
    (gemini-companion-test-press emacs "C-x C-c" "change waits for your decision")
    (gemini-companion-test-keys emacs "yes" "Enter")
    (gemini-companion-test-wait-gone emacs)
    (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))))

(ert-deftest gemini-companion-interruption/desktop-saves-the-windows-as-before-it ()
  "In the next session, a window that shows it now would be missing."
  (gemini-companion-interruption-test--with (emacs client)
    (gemini-companion-test-run
     emacs '(progn (require 'desktop)
                   (desktop-save-mode 1)
                   (setq desktop-save t
                         desktop-dirname "~/")
                   (select-window (split-window-right))
                   (switch-to-buffer "*scratch*")
                   nil))
    (gemini-companion-test-fake-show emacs client "two\n")
    (gemini-companion-test-press emacs "C-x C-c" "change waits for your decision")
    (gemini-companion-test-keys emacs "yes" "Enter")
    (gemini-companion-test-wait-gone emacs)
    (let ((desktop (gemini-companion-test-read
                    (expand-file-name ".emacs.desktop" (gemini-companion-test-home emacs)))))
      (should (string-match-p "(buffer \"a.txt\"" desktop))
      (should-not (string-match-p "(buffer \"\\*\\(?:gemini\\|Ediff\\)" desktop)))))

;;; interruption-test.el ends here

;;; lists-test.el --- Lists, menu and mode line in a narrow terminal  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An interactive Emacs of 80 columns: the lists of open and decided changes,
;; the menu and the mode line, with keys and clicks.

;;; Code:

(require 'gemini-companion-test-client)
(require 'gemini-companion-test-review)

(defconst gemini-companion-lists-test--long
  "lib/quite/deep/in/the/project/with_a_rather_long_name.txt"
  "A file whose name does not fit.")

(defmacro gemini-companion-lists-test--with (spec &rest body)
  "Run BODY with an Emacs of 80 columns and a client.
SPEC is (EMACS CLIENT), two variables.  Changes are shown by command only,
and the mouse is enabled."
  (declare (indent 1) (debug ((symbolp symbolp) body)))
  (pcase-let ((`(,emacs ,client) spec))
    `(gemini-companion-test-with-emacs
         (,emacs :size '(80 . 24)
                 :files `(("a.txt" . "one\ntwo\n")
                          (,gemini-companion-lists-test--long . "one\n")))
       (gemini-companion-test-visit ,emacs "a.txt")
       (gemini-companion-test-eval ,emacs '(progn (setq gemini-companion-diff-policy 'queue)
                                                  (xterm-mouse-mode 1)
                                                  nil))
       (gemini-companion-test-with-client (,client 'fake ,emacs)
         ,@body))))

(defun gemini-companion-lists-test--propose (emacs client name text)
  "Let CLIENT propose TEXT for the file NAME, and wait until EMACS has received it.
Return the handle of the review."
  (prog1 (gemini-companion-test-client-open-diff
          client (gemini-companion-test-project emacs name) text)
    (gemini-companion-test-wait-eval
     emacs `(seq-some (lambda (review)
                        (string-suffix-p ,name (gemini-companion-review-path review)))
                      (gemini-companion-review-all-open)))))

(defun gemini-companion-lists-test--accept (emacs client name text)
  "Let CLIENT propose TEXT for the file NAME, accept it, and write it."
  (let ((handle (gemini-companion-lists-test--propose emacs client name text)))
    (gemini-companion-test-m-x emacs "gemini-companion-review-next")
    (gemini-companion-test-wait-review emacs text)
    (gemini-companion-test-accept emacs)
    (should (equal (gemini-companion-test-client-wait-outcome client handle)
                   (cons 'accepted text)))
    (gemini-companion-test-wait-no-review emacs)
    (gemini-companion-test-write (gemini-companion-test-project emacs name) text)))

(defun gemini-companion-lists-test--click (emacs regexp)
  "Click with the first button where the screen of EMACS matches REGEXP."
  (gemini-companion-lists-test--mouse emacs regexp 0 "M")
  (gemini-companion-lists-test--mouse emacs regexp 0 "m"))

(defun gemini-companion-lists-test--mouse (emacs regexp button way)
  "Press or release BUTTON where the screen of EMACS matches REGEXP.
BUTTON is 0 for the first, 2 for the last; WAY is M for press, m for release."
  (let* ((lines (split-string (gemini-companion-test-wait-screen emacs regexp) "\n"))
         (row (cl-position-if (lambda (line) (string-match-p regexp line)) lines))
         (column (string-match regexp (nth row lines))))
    (gemini-companion-test-type
     emacs (format "\e[<%d;%d;%d%s" button (+ column 2) (1+ row) way))))

(ert-deftest gemini-companion-lists/open-changes-in-80-columns ()
  "All useful columns and keys are visible, also in half a window."
  (gemini-companion-lists-test--with (emacs client)
    (gemini-companion-lists-test--propose emacs client "a.txt" "one\n2\nthree\n")
    (gemini-companion-lists-test--propose emacs client gemini-companion-lists-test--long "2\n")
    (gemini-companion-test-m-x emacs "gemini-companion-review-list")
    (let ((screen (gemini-companion-test-wait-screen emacs "with_a_rather_long_name")))
      (should (string-match-p "^ RET show  a accept  r reject  h history  q quit$" screen))
      (should (string-match-p "^File +Client +Age Change +State *$" screen))
      (should (string-match-p "^project/a\\.txt .* \\+2 -1 +queued$" screen))
      (should (string-match-p "^….*/project/with_a_rather_long_name\\.txt .* queued$" screen)))
    (gemini-companion-test-press emacs "C-x 1 C-x 3" "^…_name\\.txt fake-cli 1 ")
    (gemini-companion-test-keys emacs "C-x" "1")
    (gemini-companion-test-wait-screen
     emacs "^….*/project/with_a_rather_long_name\\.txt .* queued$")
    ;; A click acts as a key.
    (gemini-companion-lists-test--click emacs "with_a_rather_long_name")
    (gemini-companion-test-wait-review emacs "2\n")
    (should (string-suffix-p gemini-companion-lists-test--long
                             (gemini-companion-test-eval
                              emacs '(gemini-companion-review-path
                                      (gemini-companion-review-shown)))))))

(defconst gemini-companion-lists-test--windows
  '(mapcar (lambda (window) (buffer-name (window-buffer window)))
           (window-list nil 'no-minibuffer (frame-first-window)))
  "Form that returns the names of the buffers on screen.")

(defun gemini-companion-lists-test--show-beside (emacs commands &optional free)
  "Call each of COMMANDS in EMACS, which must leave what is on screen there.
It may take the window of FREE, the name of a buffer.  Then quit its window,
and check that the others are as before."
  (let ((windows (gemini-companion-test-eval emacs gemini-companion-lists-test--windows)))
    (dolist (command commands)
      (ert-info (command)
        (gemini-companion-test-m-x emacs command)
        (gemini-companion-test-wait-eval
         emacs `(member (buffer-name (window-buffer))
                        (seq-difference ,gemini-companion-lists-test--windows ',windows)))
        (should-not (seq-difference
                     (remove free windows)
                     (gemini-companion-test-eval emacs gemini-companion-lists-test--windows)))
        (should (= 1 (gemini-companion-test-eval emacs '(length (frame-list)))))
        (gemini-companion-test-keys emacs "q")
        (gemini-companion-test-wait-eval
         emacs `(equal ,gemini-companion-lists-test--windows ',windows))))))

(ert-deftest gemini-companion-lists/a-review-on-screen-stays-there ()
  "Also if it is alone, and if the user wants new frames."
  (gemini-companion-lists-test--with (emacs client)
    (gemini-companion-test-eval
     emacs '(setq gemini-companion-diff-function 'gemini-companion-review-ediff-show
                  pop-up-frames t))
    (gemini-companion-lists-test--propose emacs client "a.txt" "2\n")
    (gemini-companion-test-m-x emacs "gemini-companion-review-next")
    (gemini-companion-test-wait-review emacs "2\n")
    (gemini-companion-lists-test--show-beside
     emacs '("gemini-companion-review-list" "gemini-companion-history-list"
             "gemini-companion-show-context" "gemini-companion-log")
     "a.txt")
    (gemini-companion-test-run
     emacs '(progn (select-window (get-buffer-window "a.txt")) nil))
    (gemini-companion-lists-test--show-beside
     emacs '("gemini-companion-review-list") "a.txt")
    (gemini-companion-test-run
     emacs '(progn (mapc (lambda (window)
                           (unless (gemini-companion-ui--review-window-p window)
                             (delete-window window)))
                         (window-list))
                   nil))
    (gemini-companion-lists-test--show-beside
     emacs '("gemini-companion-review-list" "gemini-companion-status"
             "gemini-companion-doctor"))
    (gemini-companion-test-reject emacs)
    (gemini-companion-test-wait-no-review emacs)))

(ert-deftest gemini-companion-lists/a-review-beside-a-list-and-a-terminal-can-be-read ()
  (gemini-companion-lists-test--with (emacs client)
    (gemini-companion-test-eval
     emacs '(let ((selected (selected-window)))
              (setq gemini-companion-diff-function 'gemini-companion-review-inline-show)
              (select-window (display-buffer-in-side-window
                              (get-buffer-create "terminal")
                              '((side . bottom) (window-height . 0.45))))
              (select-window selected)
              nil))
    (gemini-companion-lists-test--propose emacs client "a.txt" "2\n")
    (gemini-companion-test-m-x emacs "gemini-companion-review-next")
    (gemini-companion-test-wait-review emacs "2\n")
    (gemini-companion-test-m-x emacs "gemini-companion-review-list")
    (gemini-companion-test-wait-eval emacs '(get-buffer-window "*gemini changes*"))
    (should (gemini-companion-test-eval
             emacs '(< (window-height (get-buffer-window "*gemini changes*"))
                       (window-height (get-buffer-window "*gemini review: a.txt*")))))))

(ert-deftest gemini-companion-lists/another-window-is-used-beside-a-review ()
  (gemini-companion-lists-test--with (emacs client)
    (gemini-companion-lists-test--propose emacs client "a.txt" "2\n")
    (gemini-companion-test-m-x emacs "gemini-companion-review-next")
    (gemini-companion-test-wait-review emacs "2\n")
    (let ((windows (gemini-companion-test-eval emacs gemini-companion-lists-test--windows)))
      (should (member "a.txt" windows))
      (gemini-companion-test-m-x emacs "gemini-companion-review-list")
      (gemini-companion-test-wait-eval
       emacs `(equal ,gemini-companion-lists-test--windows
                     ',(cl-substitute "*gemini changes*" "a.txt" windows :test #'equal))))))

(ert-deftest gemini-companion-lists/the-history-shows-and-undoes ()
  "By clicks and keys, also in the buffer with both texts."
  (gemini-companion-lists-test--with (emacs client)
    (gemini-companion-lists-test--accept emacs client "a.txt" "one\n2\nthree\n")
    (gemini-companion-test-m-x emacs "gemini-companion-history-list")
    ;; Until it is known what the client has written, that can be written again.
    (let ((screen (gemini-companion-test-wait-screen
                   emacs "^ RET before and after  u undo  q quit$")))
      (should (string-match-p "^Time +Outcome +File +Client +Change" screen))
      (should (string-match-p "^[0-9:]+ accepted +project/a\\.txt fake-cli 1 \\+2 -1$" screen)))
    (gemini-companion-lists-test--click emacs "project/a\\.txt")
    (gemini-companion-test-wait-screen
     emacs "^ u undo  n next  p previous  c comment  q quit  a\\.txt, accepted, ")
    (gemini-companion-test-wait-screen emacs "^\\+three")
    (gemini-companion-test-press emacs "u" "Undo the change to a\\.txt\\? (y or n)")
    (gemini-companion-test-press emacs "y" "^ u make again .*  a\\.txt, undone, ")
    (should (equal (gemini-companion-test-read (gemini-companion-test-project emacs "a.txt"))
                   "one\ntwo\n"))
    (gemini-companion-test-keys emacs "q")
    (gemini-companion-test-wait-eval emacs '(equal (buffer-name (window-buffer))
                                                   "*gemini history*"))
    (gemini-companion-test-wait-screen emacs "^[0-9:]+ undone ")
    ;; A key in the header line can be clicked.  After a click Emacs asks by a menu.
    (gemini-companion-lists-test--click emacs "u make again")
    (gemini-companion-test-wait-screen emacs "Make the change to a\\.txt again\\?")
    (gemini-companion-test-press emacs "Enter" "^[0-9:]+ accepted ")))

(ert-deftest gemini-companion-lists/a-long-question-after-a-click-can-be-read ()
  "A menu would cut it off."
  (gemini-companion-lists-test--with (emacs client)
    (gemini-companion-lists-test--accept emacs client gemini-companion-lists-test--long "2\n")
    (gemini-companion-test-write
     (gemini-companion-test-project emacs gemini-companion-lists-test--long) "3\n")
    (gemini-companion-test-m-x emacs "gemini-companion-history-list")
    (gemini-companion-lists-test--click emacs "u undo")
    (gemini-companion-test-wait-screen
     emacs "has changed since then; .*\n.*Undo the change to .*_long_name\\.txt. (y or n)")
    (gemini-companion-test-press emacs "n" "Left as it is")))

(ert-deftest gemini-companion-lists/the-menu-and-the-mode-line-in-80-columns ()
  "The menu shows the state and fits; a click on the mode line opens it."
  (gemini-companion-lists-test--with (emacs client)
    (gemini-companion-lists-test--click emacs "Gem:1")
    (let ((screen (gemini-companion-test-wait-screen emacs "diagnostic")))
      (should (string-match-p "^Gemini companion: 1 client, no change waits$" screen))
      (should (string-match-p "^The CLI +Send +Changes +Companion$" screen))
      (should (string-match-p "^ r run, show, hide +p prompt +v view next +c show context$"
                              screen))
      (should (string-match-p "^ o visit mentioned .* M turn off$" screen))
      ;; More lines would not fit beside a change.
      (should (= 9 (seq-count (lambda (line) (string-match-p "^ [^ ] [a-z]" line))
                              (split-string screen "\n")))))
    ;; There is nothing to accept: a message says that, and the menu stays.
    (gemini-companion-test-press emacs "a" "inapt\\|unavailable")
    (gemini-companion-test-quit emacs '(not (bound-and-true-p transient--prefix)))
    (gemini-companion-lists-test--propose emacs client "a.txt" "2\n")
    (gemini-companion-test-wait-screen emacs "Gem:1!1")
    (gemini-companion-test-m-x emacs "gemini-companion-menu")
    (gemini-companion-test-wait-screen
     emacs "^Gemini companion: 1 client, 1 change waits for you$")
    ;; This would reject the change.
    (gemini-companion-test-press emacs "M" "inapt\\|unavailable")
    (gemini-companion-test-quit emacs '(not (bound-and-true-p transient--prefix)))
    (gemini-companion-lists-test--click emacs "Gem:1!1")
    (gemini-companion-test-wait-review emacs "2\n")))

(ert-deftest gemini-companion-lists/the-mode-line-has-the-menu-of-the-menu-bar ()
  "It is complete; with the mode off there is none."
  (gemini-companion-lists-test--with (emacs client)
    (should (gemini-companion-test-client-connected-p client))
    (gemini-companion-test-eval emacs '(progn (menu-bar-mode 1) nil))
    (gemini-companion-test-wait-screen emacs "\\`.* Gemini .*Help")
    (gemini-companion-lists-test--mouse emacs "Gem:1" 2 "M")
    (let ((screen (gemini-companion-test-wait-screen emacs "Turn Off")))
      (should (string-match-p "Status: 1 client, no change waits" screen))
      (should (string-match-p "History" screen)))
    ;; Before it says so, Emacs discards the keys that were typed after it.
    (gemini-companion-test-quit emacs '(equal (current-message) "Quit"))
    (gemini-companion-test-m-x emacs "gemini-companion-mode" '(not gemini-companion-mode))
    (gemini-companion-test-wait "the menu to disappear"
                                (lambda ()
                                  (not (string-match-p
                                        "\\`.* Gemini "
                                        (gemini-companion-test-screen emacs)))))))

;;; lists-test.el ends here

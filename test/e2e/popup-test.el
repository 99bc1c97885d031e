;;; popup-test.el --- When a review is shown automatically  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A review arrives while the user of an interactive Emacs types, reads a prompt,
;; or is busy otherwise.

;;; Code:

(require 'gemini-companion-test-fake-client)

;;;; States in which nothing may be shown

(eval-and-compile
  (defconst gemini-companion-review-popup-test--states
    '((typing-a-command-name
       :enter ("M-x" "forwar") :begun "M-x forwar"
       :type ("d-line") :arrived "M-x forward-line"
       :finish ("Enter") :after (= (line-number-at-pos) 2))
      (completing-a-file-name
       :enter ("C-x" "C-f" "a" "Tab" "Tab")
       :begun (get-buffer-window "*Completions*")
       :type ("bc") :arrived "Find file: .*/abc"
       :finish ("C-g") :after (equal (buffer-name) "a.txt"))
      (in-another-window-during-a-prompt
       :enter ("M-x" "forw" "C-x" "o")
       :begun (and (active-minibuffer-window) (not (window-minibuffer-p)))
       :type ("mine") :arrived (looking-back "mine" 1)
       :finish ("C-]") :after (string-prefix-p "mineone" (buffer-string)))
      (answering-yes-or-no
       :enter ("F5") :begun "Sure\\? (y or n)"
       :finish ("y") :after (looking-back "it is t" 1))
      (choosing-an-answer
       :enter ("F6") :begun "Which\\?.*\\[?l\\]?eft"
       :finish ("l") :after (looking-back "it is left" 1))
      (answering-offers-to-save
       :enter ("mine" "C-x" "s") :begun "Save file .*a\\.txt"
       :finish ("y") :after (and (not (buffer-modified-p))
                                 (looking-back "mine" 1)))
      (searching
       :enter ("C-s" "th") :begun "I-search: th"
       :type ("re") :arrived "I-search: thre"
       :finish ("Enter") :after (looking-back "thre" 1))
      (typing-a-key-sequence
       :enter ("C-x") :begun "C-x-"
       :finish ("h") :after (and mark-active (= (mark) (point-max))))
      (typing-a-numeric-argument
       :enter ("C-u" "4") :begun "C-u 4-"
       :finish ("z") :after (looking-back "zzzz" 1))
      (describing-a-key
       :enter ("C-h" "k") :begun "Describe the following key"
       :finish ("C-f")
       :after (with-current-buffer "*Help*"
                (string-search "forward-char" (buffer-string))))
      (quoting-a-key
       :enter ("C-q") :begun "C-q-"
       :finish ("C-l") :after (looking-back "\f" 1))
      (replacing
       :enter ("M-%" "one" "Enter" "uno" "Enter") :begun "Query replacing"
       :type ("y") :arrived (string-prefix-p "uno\ntwo" (buffer-string))
       :finish ("q") :after (equal (buffer-string) "uno\ntwo\nthree\none\n"))
      (recording-a-macro
       :enter ("F3" "ab") :begun (looking-back "ab" 1)
       :type ("cd") :arrived (looking-back "abcd" 1)
       :finish ("F4") :after (equal (concat last-kbd-macro) "abcd"))
      (in-a-recursive-edit
       :enter ("M-x" "recursive-edit" "Enter")
       :begun (and (= (recursion-depth) 1) (not (active-minibuffer-window)))
       :type ("xy") :arrived (looking-back "xy" 1)
       :finish ("C-M-c") :after (zerop (recursion-depth)))
      (in-a-transient-menu
       :needs transient
       :enter ("F7") :begun "Test menu"
       :type ("i") :arrived (looking-back "menu" 1)
       :finish ("C-g") :after (not (bound-and-true-p transient--prefix)))
      (reading-a-character
       :enter ("F8") :begun "Character:"
       :finish ("k") :after (looking-back "it is 107" 1))
      (reading-a-key
       :enter ("F10") :begun "Key:"
       :finish ("k") :after (looking-back "it is 107" 1)))
    "Alist of states in which no review may be shown: names and plists.
A plist has keys that lead there, a sign that the state has begun, keys
to continue and a sign that they have arrived, keys that end the state,
and a form that holds then.  A sign is a form or a regexp for the screen.
Forms are evaluated in the buffer of the selected window.  :needs names a
library that the state requires."))

(defconst gemini-companion-review-popup-test--commands
  '(progn
     (defun gemini-companion-review-popup-test-insert (value)
       (insert (format "it is %s" value)))
     (pcase-dolist
         (`(,key . ,function)
          `(([f5] . ,(lambda () (y-or-n-p "Sure? ")))
            ([f6] . ,(lambda ()
                       (cadr (read-multiple-choice
                              "Which?" '((?l "left") (?r "right"))))))
            ([f8] . ,(lambda () (read-char "Character: ")))
            ([f10] . ,(lambda () (read-key "Key: ")))))
       (global-set-key key (lambda ()
                             (interactive)
                             (gemini-companion-review-popup-test-insert
                              (funcall function)))))
     (defun gemini-companion-review-popup-test-from-menu ()
       (interactive)
       (insert "menu"))
     (when (require 'transient nil t)
       ;; Its macros are unknown when this file is compiled.
       (eval '(progn
                (transient-define-prefix gemini-companion-review-popup-test-menu ()
                  ["Test menu"
                   ("i" "Insert" gemini-companion-review-popup-test-from-menu
                    :transient t)])
                (global-set-key [f7] 'gemini-companion-review-popup-test-menu))
             t)))
  "Form that binds keys to commands that ask questions.")

(defun gemini-companion-review-popup-test--wait-sign (emacs sign)
  "Wait in EMACS for SIGN, a form or a regexp for the screen."
  (if (stringp sign)
      (gemini-companion-test-wait-screen emacs sign)
    (gemini-companion-test-wait-eval emacs sign)))

(defun gemini-companion-review-popup-test--unchanged (emacs)
  "Return what must not change in EMACS when a review arrives.
That is the screen, without what the mode line says of the review, and
some state that is not visible."
  (list (replace-regexp-in-string
         "-+$" "" (replace-regexp-in-string
                   "!1\\(?: waits\\)?" "" (gemini-companion-test-screen emacs)))
        (gemini-companion-test-eval
         emacs '(list (gemini-companion-test-inner-layout)
                      (format "%S" (selected-window))
                      (recursion-depth)
                      defining-kbd-macro
                      (bound-and-true-p isearch-string)
                      mark-active))))

(defun gemini-companion-review-popup-test--check (emacs client state)
  "Check that a review of CLIENT does not disturb STATE in EMACS."
  (let ((all (cdr state))
        before handle)
    (gemini-companion-test-eval emacs gemini-companion-review-popup-test--commands)
    (apply #'gemini-companion-test-keys emacs (plist-get all :enter))
    (gemini-companion-review-popup-test--wait-sign emacs (plist-get all :begun))
    (gemini-companion-test-wait-eval
     emacs '(> (float-time (or (current-idle-time) 0)) 0.2))
    (setq before (gemini-companion-review-popup-test--unchanged emacs)
          handle (gemini-companion-test-fake-propose
                  emacs client "ONE\ntwo\nthree\none\n"))
    (gemini-companion-test-fake-wait-refused emacs)
    (should (equal (gemini-companion-review-popup-test--unchanged emacs) before))
    (when (plist-get all :type)
      (apply #'gemini-companion-test-keys emacs (plist-get all :type))
      (gemini-companion-review-popup-test--wait-sign emacs (plist-get all :arrived))
      (gemini-companion-test-fake-wait-refused emacs))
    (should-not (gemini-companion-test-client-outcome client handle))
    (if (equal (plist-get all :finish) '("C-g"))
        (gemini-companion-test-quit emacs (plist-get all :after))
      (apply #'gemini-companion-test-keys emacs (plist-get all :finish)))
    (gemini-companion-test-wait-review emacs)
    (should (gemini-companion-test-eval emacs (plist-get all :after)))
    (gemini-companion-test-reject emacs)
    (gemini-companion-test-fake-wait-restored emacs)
    (should (gemini-companion-test-eval emacs (plist-get all :after)))
    (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))))

(defmacro gemini-companion-review-popup-test--define ()
  "Define one test for each state."
  `(progn
     ,@(mapcar
        (lambda (state)
          `(ert-deftest ,(intern (format "gemini-companion-review-popup/waits-while-%s"
                                         (car state))) ()
             "A review takes no key and no window, and is shown afterwards."
             (gemini-companion-test-with-fake-client
                 (emacs client '(("a.txt" . "one\ntwo\nthree\none\n")
                                 ("ab.txt" . "")))
               ,@(when-let* ((library (plist-get (cdr state) :needs)))
                   `((unless (gemini-companion-test-eval
                              emacs '(require ',library nil t))
                       (ert-skip ,(format "This Emacs has no %s" library)))))
               (gemini-companion-review-popup-test--check emacs client ',state))))
        gemini-companion-review-popup-test--states)))

(gemini-companion-review-popup-test--define)

(ert-deftest gemini-companion-review-popup/the-user-is-told-what-waits ()
  "In the mode line, and why in the list of changes."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (gemini-companion-test-eval emacs '(setq gemini-companion-review-popup--held-after 0.2))
    (gemini-companion-test-press emacs "M-x recursive-edit Enter" '(= (recursion-depth) 1))
    (gemini-companion-test-fake-propose emacs client "two\n")
    (gemini-companion-test-wait-screen emacs "Gem:1!1 waits")
    (gemini-companion-test-m-x emacs "gemini-companion-review-list")
    (gemini-companion-test-wait-screen emacs "waiting: a recursive edit is open")
    (gemini-companion-test-keys emacs "q" "C-M-c")
    (gemini-companion-test-wait-review emacs "two\n")
    (gemini-companion-test-reject emacs)
    (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))))

;; A change that waited behind another one was said to wait for the user to pause.
(ert-deftest gemini-companion-review-popup/the-next-change-does-not-wait-for-long ()
  "The mode line says so only once it could have been shown for a while."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n") ("b.txt" . "one\n")))
    (gemini-companion-test-eval emacs '(setq gemini-companion-review-popup--held-after 0.5))
    (gemini-companion-test-fake-show emacs client "two\n")
    (gemini-companion-test-fake-propose emacs client "three\n" "b.txt")
    (gemini-companion-test-wait-eval
     emacs '(> (float-time (time-since (gemini-companion-review-created
                                        (cadr (gemini-companion-review-all-open)))))
               0.5))
    (should (equal " Gem:1!1"
                   (gemini-companion-test-eval
                    emacs '(progn (gemini-companion-review-reject (gemini-companion-review-shown))
                                  (gemini-companion--lighter)))))
    (gemini-companion-test-wait-review emacs "three\n")
    (gemini-companion-test-reject emacs)))

;;;; Keys and focus

(ert-deftest gemini-companion-review-popup/typing-in-a-file-continues ()
  "Each key typed before, while and after a review is shown is in the file."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (gemini-companion-test-eval emacs '(setq gemini-companion-ui--idle-time 0.5))
    (gemini-companion-test-fake-propose emacs client "two\n")
    (let ((pauses '(0.3 0.45 0.5 0.6))
          (typed ""))
      ;; Keys are typed at about the time when it would be shown.
      (while (not (gemini-companion-test-review emacs))
        (should (< (length typed) 100))
        (let ((key (string (+ ?a (% (length typed) 26))))
              (pause (nth (% (length typed) 4) pauses)))
          (gemini-companion-test-type emacs key)
          (setq typed (concat typed key))
          (gemini-companion-test-wait-eval
           emacs `(and (equal (with-current-buffer "a.txt" (buffer-string))
                              ,(concat typed "one\n"))
                       (> (float-time (or (current-idle-time) 0)) ,pause)))))
      (gemini-companion-test-type emacs "THE END")
      (setq typed (concat typed "THE END"))
      (gemini-companion-test-wait-eval
       emacs `(and (equal (buffer-name) "a.txt")
                   (equal (buffer-string) ,(concat typed "one\n"))))
      (should (equal (alist-get 'proposal (gemini-companion-test-review emacs))
                     "two\n"))
      (gemini-companion-test-m-x emacs "gemini-companion-reject")
      (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))
      (gemini-companion-test-wait-no-review emacs)
      (gemini-companion-test-wait-eval
       emacs `(and (equal (buffer-name) "a.txt")
                   (= (point) ,(1+ (length typed)))
                   (equal (buffer-string) ,(concat typed "one\n"))
                   (one-window-p))))))

(ert-deftest gemini-companion-review-popup/typing-in-a-terminal-continues ()
  "Keys typed into a terminal or a shell still arrive there."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (let ((file (gemini-companion-test-project emacs "a.txt")))
      (dolist (terminal '((term "/bin/sh") (shell)))
        (gemini-companion-test-run
         emacs `(progn (switch-to-buffer "a.txt")
                       (delete-other-windows)
                       (require ',(car terminal))
                       ,terminal
                       (delete-other-windows)
                       nil))
        (gemini-companion-test-wait-eval
         emacs '(string-match-p "[#$] \\'" (buffer-string)))
        (gemini-companion-test-type emacs "echo a''b")
        (gemini-companion-test-wait-screen emacs "echo a''b")
        (gemini-companion-test-fake-propose emacs client "two\n")
        (gemini-companion-test-wait-review emacs)
        (gemini-companion-test-type emacs "''c" "Enter")
        (gemini-companion-test-wait-eval
         emacs '(string-match-p "^abc *$" (buffer-string)))
        (should (equal (gemini-companion-test-client-close-diff client file nil)
                       "two\n"))
        (gemini-companion-test-wait-no-review emacs)
        (should (gemini-companion-test-eval emacs '(one-window-p)))
        (gemini-companion-test-type emacs "echo d''ef" "Enter")
        (gemini-companion-test-wait-eval
         emacs '(string-match-p "^def *$" (buffer-string)))))
    (gemini-companion-test-fake-wait-outcomes
     client '((rejected "a.txt") (rejected "a.txt")))))

(ert-deftest gemini-companion-review-popup/the-review-is-selected-if-wanted ()
  "With `select' the review is selected and takes most of the frame."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (gemini-companion-test-run
     emacs '(progn (setq gemini-companion-diff-focus 'select
                         gemini-companion-ui-reaction-time 0)
                   nil))
    (gemini-companion-test-fake-propose emacs client "two\n")
    (gemini-companion-test-wait-review emacs)
    (should (gemini-companion-test-eval
             emacs '(and (or (gemini-companion-test-inner-in-proposal-p)
                             (gemini-companion-test-inner-in-panel-p))
                         ;; The user's window is as small as possible.
                         (< (window-height (get-buffer-window "a.txt")) 6))))
    (gemini-companion-test-keys emacs "C-c" "C-k")
    (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))
    (gemini-companion-test-fake-wait-restored emacs)))

(ert-deftest gemini-companion-review-popup/the-first-difference-is-in-view-in-windows-made-smaller ()
  "As golden-ratio and Zoom do as soon as the change has its windows."
  :tags '(any-emacs)
  (let ((text (mapconcat #'number-to-string (number-sequence 100 160) "\n")))
    (gemini-companion-test-with-fake-client (emacs client `(("a.txt" . ,text)))
      (gemini-companion-test-run
       emacs '(progn (add-hook 'window-configuration-change-hook
                               (lambda ()
                                 (when (buffer-file-name (window-buffer))
                                   (ignore-errors (enlarge-window (- 33 (window-height)))))))
                     nil))              ; the hook may contain what cannot be read
      (gemini-companion-test-fake-propose emacs client (string-replace "110" "XYZZY" text))
      (gemini-companion-test-wait-review emacs)
      (gemini-companion-test-wait-screen emacs "XYZZY")
      (should (> (gemini-companion-test-eval emacs '(window-height (get-buffer-window "a.txt")))
                 30))
      (gemini-companion-test-reject emacs))))

(ert-deftest gemini-companion-review-popup/windows-come-back-after-a-long-message ()
  "It took lines when the windows changed, and no longer does when the review ends."
  :tags '(any-emacs)
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    ;; So many that the review puts them away.
    (gemini-companion-test-eval emacs '(progn (setq gemini-companion-diff-policy 'queue)
                                              (dotimes (_ 8) (split-window nil -5 'above))))
    (gemini-companion-test-fake-propose emacs client "two\n")
    (let ((before (car (gemini-companion-test-fake-layout emacs))))
      (should (= (length before) 9))
      (gemini-companion-test-run
       emacs '(progn (message "1\n2\n3\n4\n5")
                     (redisplay t)
                     (gemini-companion-review-show (car (gemini-companion-review-all-open)) 'keep)
                     (message nil)
                     (redisplay t)))
      (gemini-companion-test-keys emacs "M-x" "gemini-companion-reject" "Enter")
      (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))
      (should (= (length (car (gemini-companion-test-fake-layout emacs))) 9)))))

(ert-deftest gemini-companion-review-popup/keys-typed-for-another-window-are-ignored ()
  "Keys typed just when a review is selected neither change nor decide it."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (pcase-dolist (`(,name . ,text) '(("a.txt" . "two\n") ("new.txt" . "new\n")))
      (gemini-companion-test-run
       ;; So that all keys are typed in that time, however slow this machine is.
       emacs '(progn (setq gemini-companion-diff-focus 'select
                           gemini-companion-ui-reaction-time 1000)
                     nil))
      (gemini-companion-test-fake-propose emacs client text name)
      (gemini-companion-test-wait-review emacs)
      (gemini-companion-test-press emacs "a e k RET C-c C-c" "pause before you press a key")
      (should (equal (gemini-companion-test-eval
                      emacs '(let ((review (gemini-companion-review-shown)))
                               (list (gemini-companion-review-open-p review)
                                     (gemini-companion-review-current-text review))))
                     (list t text)))
      (gemini-companion-test-eval emacs '(setq gemini-companion-ui-reaction-time 0))
      (gemini-companion-test-keys emacs "C-c" "C-k")
      (gemini-companion-test-wait
       "the rejection"
       (lambda () (member (list 'rejected name)
                          (gemini-companion-test-fake-outcomes client))))
      (gemini-companion-test-fake-wait-restored emacs))))

(ert-deftest gemini-companion-review-popup/a-key-pressed-while-a-change-appears-does-not-decide-it ()
  "It would have shown the change, but that appeared by itself just before."
  :tags '(any-emacs)
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (gemini-companion-test-eval emacs '(progn (global-set-key [f7] #'gemini-companion-accept)
                                              (global-set-key [f8] #'gemini-companion-reject)
                                              (setq gemini-companion-ui-reaction-time 1000)))
    (gemini-companion-test-fake-propose emacs client "two\n")
    (gemini-companion-test-wait-review emacs)
    (dolist (key '("F7" "F8"))
      (gemini-companion-test-keys emacs key)
      (gemini-companion-test-wait-screen emacs "a\\.txt has just appeared: check it, then decide")
      (gemini-companion-test-run emacs '(message nil)))
    (should (gemini-companion-test-eval emacs '(and (gemini-companion-review-shown) t)))
    ;; The key shows one that is not on screen, whenever that was there first.
    (dolist (seen (list (float-time) 1))
      (gemini-companion-test-eval
       emacs `(let ((review (gemini-companion-review-shown)))
                (setf (gemini-companion-review-seen review) ,seen)
                (gemini-companion-review-postpone review)
                nil))
      (gemini-companion-test-press emacs "F7" "a\\.txt was not on screen: check it, then decide")
      (gemini-companion-test-press emacs "F7" "a\\.txt has just appeared: check it, then decide"))
    (gemini-companion-test-eval emacs '(setq gemini-companion-ui-reaction-time 0))
    (gemini-companion-test-keys emacs "F8")
    (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))
    ;; Others would read of these keys.
    (gemini-companion-test-eval emacs '(progn (global-unset-key [f7]) (global-unset-key [f8])))))

(ert-deftest gemini-companion-review-popup/keys-are-those-of-the-selected-window-in-any-view ()
  "Also in the manual's example: C-c C-c may do something else in the file."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (gemini-companion-test-eval
     emacs `(progn (require 'gemini-companion-review-buffer)
                   ,(with-temp-buffer
                      (insert-file-contents
                       (gemini-companion-test-path "docs" "gemini-companion.texi"))
                      (search-forward "(defun my-show-proposal")
                      (goto-char (match-beginning 0))
                      (read (current-buffer)))
                   (setq gemini-companion-diff-function #'my-show-proposal)
                   nil))
    (gemini-companion-test-fake-propose emacs client "two\n")
    (dolist (keys '("M-x gemini-companion-accept accepts" "C-c C-c accepts"
                    "M-x gemini-companion-accept accepts"))
      (gemini-companion-test-wait-screen emacs (concat "a\\.txt .*" keys))
      (gemini-companion-test-keys emacs "C-x" "o"))
    ;; A prompt does not change it.
    (gemini-companion-test-press emacs "M-x" "^M-x")
    (gemini-companion-test-eval emacs '(progn (force-mode-line-update t) (redisplay t) nil))
    (gemini-companion-test-wait-screen emacs "a\\.txt .*C-c C-c accepts")
    (gemini-companion-test-quit emacs)
    (gemini-companion-test-keys emacs "C-c" "C-k")
    (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))))

(ert-deftest gemini-companion-review-popup/announce-and-queue-wait-for-the-command ()
  "With `announce' and `queue' only the mode line shows it, and a message."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (pcase-dolist (`(,option . ,value) '((gemini-companion-diff-focus . announce)
                                         (gemini-companion-diff-policy . queue)))
      (ert-info ((symbol-name value))
        (gemini-companion-test-run
         emacs `(progn (setq gemini-companion-diff-focus 'keep
                             ,option ',value)
                       nil))
        (let ((before (gemini-companion-test-fake-layout emacs))
              (outcomes (gemini-companion-test-fake-outcomes client)))
          (gemini-companion-test-fake-propose emacs client "two\n")
          (gemini-companion-test-wait-screen emacs "Gem:1!1")
          (when (eq value 'announce)
            (gemini-companion-test-wait-screen
             emacs "proposes a change to a\\.txt, .*gemini-companion-review-next"))
          (gemini-companion-test-fake-wait-not-shown emacs)
          (should (equal (gemini-companion-test-fake-layout emacs) before))
          (gemini-companion-test-type emacs "x" "BSpace")
          (gemini-companion-test-fake-wait-not-shown emacs)
          (gemini-companion-test-m-x emacs "gemini-companion-review-next")
          (gemini-companion-test-wait-review emacs "two\n")
          (gemini-companion-test-reject emacs)
          ;; A client that proposes the file anew is told no earlier outcome.
          (gemini-companion-test-fake-wait-outcomes
           client (append outcomes '((rejected "a.txt"))))
          ;; The next one appears as soon as the option allows it.
          (gemini-companion-test-fake-propose emacs client "three\n")
          (gemini-companion-test-wait-screen emacs "Gem:1!1")
          (gemini-companion-test-fake-wait-not-shown emacs)
          (gemini-companion-test-run
           emacs '(progn (setq gemini-companion-diff-focus 'keep
                               gemini-companion-diff-policy 'pop-up)
                         nil))
          (gemini-companion-test-wait-review emacs "three\n")
          (gemini-companion-test-reject emacs)
          (gemini-companion-test-fake-wait-outcomes
           client (append outcomes '((rejected "a.txt") (rejected "a.txt"))))
          (gemini-companion-test-fake-wait-restored emacs)
          (gemini-companion-test-wait-screen emacs "Gem:1)"))))))

;;; popup-test.el ends here

;;; moments-test.el --- Reviews come when they may, and end as they should  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A review arrives while the user of an interactive Emacs is in the middle of
;; something, types, has several reviews, several frames or none, or files
;; with unusual texts and names.  The client is the fake one, but where its
;; process has to die.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path
               (expand-file-name "../support"
                                 (file-name-directory (macroexp-file-name)))))
(require 'gemini-companion-test-client)
(require 'gemini-companion-test-review)

(defconst gemini-companion-moments-test--observers
  '(progn
     (defvar gemini-companion-moments-test-refused 0)
     (defvar gemini-companion-moments-test-before nil)
     (advice-add 'gemini-companion-ui-windows-may-change-p :filter-return
                 (lambda (calm)
                   (when (and (not calm)
                              (gemini-companion-ui-idle-p
                               (+ 0.1 gemini-companion-ui--idle-time)))
                     (setq gemini-companion-moments-test-refused
                           (1+ gemini-companion-moments-test-refused)))
                   calm))
     (advice-add 'gemini-companion-review-show :before
                 (lambda (&rest _)
                   (setq gemini-companion-moments-test-before
                         (gemini-companion-moments-test-layout))))
     (defun gemini-companion-moments-test-layout ()
       (pcase-let ((`(,windows ,files ,buffers)
                    (gemini-companion-test-inner-layout)))
         ;; What the user made of a proposal that waits is in its buffer.
         (list windows files
               (seq-remove (lambda (name)
                             (string-prefix-p "*gemini proposal" name))
                           buffers)))))
  "Form that has the Emacs under test note two things.
How often a review was due though the user pressed no key, and yet
was not shown; and the layout before one was shown.")

(defmacro gemini-companion-moments-test--with (spec &rest body)
  "Run BODY with an Emacs and a fake client that is connected to it.
SPEC is (EMACS CLIENT FILES): two variables, and files as (NAME . TEXT)
pairs, of which Emacs visits the first."
  (declare (indent 1) (debug ((symbolp symbolp form) body)))
  (pcase-let ((`(,emacs ,client ,files) spec)
              (list (make-symbol "files")))
    `(let ((,list ,files))
       (gemini-companion-test-with-emacs (,emacs :files ,list)
         (gemini-companion-test-visit ,emacs (caar ,list))
         (gemini-companion-test-eval
          ,emacs gemini-companion-moments-test--observers)
         (gemini-companion-test-with-client (,client 'fake ,emacs)
           ,@body)))))

(defun gemini-companion-moments-test--propose (emacs client text &optional name)
  "Let CLIENT propose TEXT for the file NAME, by default a.txt, in EMACS.
Wait until EMACS knows of it; return the handle of the review."
  (let ((count (gemini-companion-test-eval
                emacs '(gemini-companion-review-count))))
    (prog1 (gemini-companion-test-client-open-diff
            client (gemini-companion-test-project emacs (or name "a.txt")) text)
      (gemini-companion-test-wait-eval
       emacs `(> (gemini-companion-review-count) ,count)))))

(defun gemini-companion-moments-test--wait-refused (emacs)
  "Wait until EMACS could have shown a review several times, and did not."
  (gemini-companion-test-eval
   emacs '(setq gemini-companion-moments-test-refused 0))
  (gemini-companion-test-wait-eval
   emacs '(or (> gemini-companion-moments-test-refused 2)
              (gemini-companion-test-inner-review)))
  (should-not (gemini-companion-test-review emacs)))

(defun gemini-companion-moments-test--wait-idle (emacs)
  "Wait until EMACS has been idle for longer than a review waits."
  (gemini-companion-test-wait-idle emacs)
  (should-not (gemini-companion-test-review emacs)))

(defun gemini-companion-moments-test--wait-restored (emacs)
  "Wait until EMACS looks as it did right before the review was shown."
  (gemini-companion-test-wait-no-review emacs)
  (gemini-companion-test-wait
   (lambda ()
     (format "the layout\n%S\nbut it is\n%S"
             (gemini-companion-test-eval
              emacs 'gemini-companion-moments-test-before)
             (gemini-companion-moments-test--layout emacs)))
   (lambda ()
     (gemini-companion-test-eval
      emacs '(equal (gemini-companion-moments-test-layout)
                    gemini-companion-moments-test-before)))))

(defun gemini-companion-moments-test--layout (emacs)
  "Return windows, points and buffers of EMACS, but for proposals."
  (gemini-companion-test-eval emacs '(gemini-companion-moments-test-layout)))

(defun gemini-companion-moments-test--told (client)
  "Return all that CLIENT, a fake one, was told of outcomes, oldest first.
Each is (accepted NAME TEXT) or (rejected NAME), or the whole message if
it is neither."
  (delq nil
        (mapcar
         (lambda (message)
           (let* ((params (alist-get 'params message))
                  (path (alist-get 'filePath params))
                  (name (and path (file-name-nondirectory path))))
             (pcase (alist-get 'method message)
               ("ide/contextUpdate" nil)
               ("ide/diffAccepted"
                (list 'accepted name (alist-get 'content params)))
               ("ide/diffRejected" (list 'rejected name))
               (_ message))))
         (reverse (fake-cli-notifications
                   (gemini-companion-test-fake-client-cli client))))))

(defun gemini-companion-moments-test--wait-told (client expected)
  "Wait until CLIENT was told what the list EXPECTED says, and no more."
  (gemini-companion-test-wait
   (lambda () (format "%S; it was told %S" expected
                      (gemini-companion-moments-test--told client)))
   (lambda () (>= (length (gemini-companion-moments-test--told client))
                  (length expected))))
  (should (equal (gemini-companion-moments-test--told client) expected)))

(defun gemini-companion-moments-test--fence (emacs clients)
  "Wait until all that EMACS had to tell CLIENTS before has reached them.
What is told last is where point in the selected buffer is."
  (let* ((position (gemini-companion-test-run
                    emacs '(progn (goto-char (if (= (point) 1) (point-max) 1))
                                  (list (line-number-at-pos)
                                        (1+ (current-column)))))))
    (dolist (client clients)
      (gemini-companion-test-client-wait-context
       client (lambda (files)
                (let ((cursor (alist-get 'cursor (car files))))
                  (equal (list (alist-get 'line cursor)
                               (alist-get 'character cursor))
                         position)))))))

;;;; Moments at which nothing may be shown

(eval-and-compile
  (defconst gemini-companion-moments-test--moments
    '((typing-a-command-name
       :enter ("M-x" "forwar") :begun "M-x forwar"
       :type ("d-line") :arrived "M-x forward-line"
       :finish ("Enter") :after (= (line-number-at-pos) 2))
      (completing-a-file-name
       :enter ("C-x" "C-f" "a" "Tab" "Tab")
       :begun (get-buffer-window "*Completions*")
       :type ("bc") :arrived "Find file: .*/abc"
       :finish ("C-g") :after (equal (buffer-name) "a.txt"))
      (minibuffer-left-for-another-window
       :enter ("M-x" "forw" "C-x" "o")
       :begun (and (active-minibuffer-window) (not (window-minibuffer-p)))
       :type ("mine") :arrived (looking-back "mine" 1)
       :finish ("C-]") :after (string-prefix-p "mineone" (buffer-string)))
      (yes-or-no
       :enter ("F5") :begun "Sure\\? (y or n)"
       :finish ("y") :after (looking-back "it is t" 1))
      (multiple-choice
       :enter ("F6") :begun "Which\\?.*\\[?l\\]?eft"
       :finish ("l") :after (looking-back "it is left" 1))
      (offers-to-save
       :enter ("mine" "C-x" "s") :begun "Save file .*a\\.txt"
       :finish ("y") :after (and (not (buffer-modified-p))
                                 (looking-back "mine" 1)))
      (searching
       :enter ("C-s" "th") :begun "I-search: th"
       :type ("re") :arrived "I-search: thre"
       :finish ("Enter") :after (looking-back "thre" 1))
      (half-a-key
       :enter ("C-x") :begun "C-x-"
       :finish ("h") :after (and mark-active (= (mark) (point-max))))
      (numeric-argument
       :enter ("C-u" "4") :begun "C-u 4-"
       :finish ("z") :after (looking-back "zzzz" 1))
      (asking-what-a-key-does
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
      (recursive-edit
       :enter ("M-x" "recursive-edit" "Enter")
       :begun (and (= (recursion-depth) 1) (not (active-minibuffer-window)))
       :type ("xy") :arrived (looking-back "xy" 1)
       :finish ("C-M-c") :after (zerop (recursion-depth)))
      (transient-menu
       :needs transient
       :enter ("F7") :begun "Moments of a menu"
       :type ("i") :arrived (looking-back "menu" 1)
       :finish ("C-g") :after (not (bound-and-true-p transient--prefix)))
      (reading-a-character
       :enter ("F8") :begun "Character:"
       :finish ("k") :after (looking-back "it is 107" 1))
      (reading-a-key
       :enter ("F10") :begun "Key:"
       :finish ("k") :after (looking-back "it is 107" 1)))
    "Moments at which nothing may be shown: a name, and what describes it.
That are the keys that lead there, a sign that it has begun, keys
to go on with and a sign that they arrived, keys that end it, and
a form that holds then.  A sign is a form or a regexp for the
screen.  Forms are evaluated in the buffer of the selected window.
:needs names a library without which there is no such moment."))

(defconst gemini-companion-moments-test--commands
  '(progn
     (defun gemini-companion-moments-test-insert (value)
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
                             (gemini-companion-moments-test-insert
                              (funcall function)))))
     (defun gemini-companion-moments-test-from-menu ()
       (interactive)
       (insert "menu"))
     (when (require 'transient nil t)
       ;; Its macros are not known when this file is compiled.
       (eval '(progn
                (transient-define-prefix gemini-companion-moments-test-menu ()
                  ["Moments of a menu"
                   ("i" "Insert" gemini-companion-moments-test-from-menu
                    :transient t)])
                (global-set-key [f7] 'gemini-companion-moments-test-menu))
             t)))
  "Form that binds keys to commands that ask.")

(defun gemini-companion-moments-test--wait-sign (emacs sign)
  "Wait in EMACS for SIGN, a form or a regexp for the screen."
  (if (stringp sign)
      (gemini-companion-test-wait-screen emacs sign)
    (gemini-companion-test-wait-eval emacs sign)))

(defun gemini-companion-moments-test--state (emacs)
  "Return what must not change in EMACS when a review arrives.
That is the screen, but for the mode line's word of the review, and
more of what there is than can be seen."
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

(defun gemini-companion-moments-test--check (emacs client moment)
  "Check that a review of CLIENT takes nothing from MOMENT in EMACS."
  (let ((all (cdr moment))
        state handle)
    (gemini-companion-test-eval emacs gemini-companion-moments-test--commands)
    (apply #'gemini-companion-test-keys emacs (plist-get all :enter))
    (gemini-companion-moments-test--wait-sign emacs (plist-get all :begun))
    (gemini-companion-test-wait-eval
     emacs '(> (float-time (or (current-idle-time) 0)) 0.2))
    (setq state (gemini-companion-moments-test--state emacs)
          handle (gemini-companion-moments-test--propose
                  emacs client "ONE\ntwo\nthree\none\n"))
    (gemini-companion-moments-test--wait-refused emacs)
    (should (equal (gemini-companion-moments-test--state emacs) state))
    (when (plist-get all :type)
      (apply #'gemini-companion-test-keys emacs (plist-get all :type))
      (gemini-companion-moments-test--wait-sign emacs (plist-get all :arrived))
      (gemini-companion-moments-test--wait-refused emacs))
    (should-not (gemini-companion-test-client-outcome client handle))
    (if (equal (plist-get all :finish) '("C-g"))
        (gemini-companion-test-quit emacs (plist-get all :after))
      (apply #'gemini-companion-test-keys emacs (plist-get all :finish)))
    (gemini-companion-test-wait-review emacs)
    (should (gemini-companion-test-eval emacs (plist-get all :after)))
    (gemini-companion-test-reject emacs)
    (gemini-companion-moments-test--wait-restored emacs)
    (should (gemini-companion-test-eval emacs (plist-get all :after)))
    (gemini-companion-moments-test--wait-told client '((rejected "a.txt")))))

(defmacro gemini-companion-moments-test--define ()
  "Define one test for each moment."
  `(progn
     ,@(mapcar
        (lambda (moment)
          `(ert-deftest ,(intern (format "gemini-companion-moments/waits-for-%s"
                                         (car moment))) ()
             "A review takes no key and no window, and appears afterwards."
             :tags '(e2e)
             (gemini-companion-moments-test--with
                 (emacs client '(("a.txt" . "one\ntwo\nthree\none\n")
                                 ("ab.txt" . "")))
               ,@(when-let* ((library (plist-get (cdr moment) :needs)))
                   `((unless (gemini-companion-test-eval
                              emacs '(require ',library nil t))
                       (ert-skip ,(format "This Emacs has no %s" library)))))
               (gemini-companion-moments-test--check emacs client ',moment))))
        gemini-companion-moments-test--moments)))

(gemini-companion-moments-test--define)

;;;; Where what is typed goes

(ert-deftest gemini-companion-moments/typing-goes-on-in-the-file ()
  "Each key typed before, while and after a review appears is in the file."
  :tags '(e2e)
  (gemini-companion-moments-test--with (emacs client '(("a.txt" . "one\n")))
    (gemini-companion-test-eval emacs '(setq gemini-companion-ui--idle-time 0.5))
    (gemini-companion-moments-test--propose emacs client "two\n")
    (let ((pauses '(0.3 0.45 0.5 0.6))
          (typed ""))
      ;; Keys come about when it would be shown, until it is.
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
      (gemini-companion-moments-test--wait-told client '((rejected "a.txt")))
      (gemini-companion-test-wait-no-review emacs)
      (gemini-companion-test-wait-eval
       emacs `(and (equal (buffer-name) "a.txt")
                   (= (point) ,(1+ (length typed)))
                   (equal (buffer-string) ,(concat typed "one\n"))
                   (one-window-p))))))

(ert-deftest gemini-companion-moments/typing-goes-on-in-terminals ()
  "What is typed into a terminal or a shell goes on arriving there."
  :tags '(e2e)
  (gemini-companion-moments-test--with (emacs client '(("a.txt" . "one\n")))
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
        (gemini-companion-moments-test--propose emacs client "two\n")
        (gemini-companion-test-wait-review emacs)
        (gemini-companion-test-type emacs "''c")
        (gemini-companion-test-keys emacs "Enter")
        (gemini-companion-test-wait-eval
         emacs '(string-match-p "^abc *$" (buffer-string)))
        (should (equal (gemini-companion-test-client-close-diff client file nil)
                       "two\n"))
        (gemini-companion-test-wait-no-review emacs)
        (should (gemini-companion-test-eval emacs '(one-window-p)))
        (gemini-companion-test-type emacs "echo d''ef")
        (gemini-companion-test-keys emacs "Enter")
        (gemini-companion-test-wait-eval
         emacs '(string-match-p "^def *$" (buffer-string)))))
    (gemini-companion-moments-test--wait-told
     client '((rejected "a.txt") (rejected "a.txt")))))

(ert-deftest gemini-companion-moments/focus-goes-to-the-review ()
  "With `select' the review has the focus and most of the frame."
  :tags '(e2e)
  (gemini-companion-moments-test--with (emacs client '(("a.txt" . "one\n")))
    (gemini-companion-test-run
     emacs '(progn (setq gemini-companion-diff-focus 'select
                         gemini-companion-popup--reaction-time 0)
                   nil))
    (gemini-companion-moments-test--propose emacs client "two\n")
    (gemini-companion-test-wait-review emacs)
    (should (gemini-companion-test-eval
             emacs '(and (or (gemini-companion-test-inner-in-proposal-p)
                             (gemini-companion-test-inner-in-panel-p))
                         ;; The user's own window is as small as may be.
                         (< (window-height (get-buffer-window "a.txt")) 6))))
    (gemini-companion-test-keys emacs "C-c" "C-k")
    (gemini-companion-moments-test--wait-told client '((rejected "a.txt")))
    (gemini-companion-moments-test--wait-restored emacs)))

(ert-deftest gemini-companion-moments/keys-for-another-window-do-not-count ()
  "What is typed just when a review selects itself neither changes nor decides it."
  :tags '(e2e)
  (gemini-companion-moments-test--with (emacs client '(("a.txt" . "one\n")))
    (pcase-dolist (`(,name . ,text) '(("a.txt" . "two\n") ("new.txt" . "new\n")))
      (gemini-companion-test-run
       ;; As if all were typed in that moment, however slow this machine is.
       emacs '(progn (setq gemini-companion-diff-focus 'select
                           gemini-companion-popup--reaction-time 1000)
                     nil))
      (gemini-companion-moments-test--propose emacs client text name)
      (gemini-companion-test-wait-review emacs)
      (gemini-companion-test-keys emacs "a" "e" "k" "RET" "C-c" "C-c")
      (gemini-companion-test-wait-screen emacs "keys count when you have paused")
      (should (equal (gemini-companion-test-eval
                      emacs '(let ((review (gemini-companion-review-shown)))
                               (list (gemini-companion-review-open-p review)
                                     (gemini-companion-review-current-text review))))
                     (list t text)))
      (gemini-companion-test-eval emacs '(setq gemini-companion-popup--reaction-time 0))
      (gemini-companion-test-keys emacs "C-c" "C-k")
      (gemini-companion-test-wait
       "the rejection"
       (lambda () (member (list 'rejected name)
                          (gemini-companion-moments-test--told client))))
      (gemini-companion-moments-test--wait-restored emacs))))

(ert-deftest gemini-companion-moments/waits-until-asked-for ()
  "With `announce' and `queue' the mode line tells of it, nothing else."
  :tags '(e2e)
  (gemini-companion-moments-test--with (emacs client '(("a.txt" . "one\n")))
    (pcase-dolist (`(,option . ,value) '((gemini-companion-diff-focus . announce)
                                         (gemini-companion-diff-policy . queue)))
      (ert-info ((symbol-name value))
        (gemini-companion-test-run
         emacs `(progn (setq gemini-companion-diff-focus 'keep
                             ,option ',value)
                       nil))
        (let ((before (gemini-companion-moments-test--layout emacs))
              (told (gemini-companion-moments-test--told client)))
          (gemini-companion-moments-test--propose emacs client "two\n")
          (gemini-companion-test-wait-screen emacs "Gem:1!1")
          (when (eq value 'announce)
            (gemini-companion-test-wait-screen
             emacs "proposes a change to a\\.txt, .*gemini-companion-review-next"))
          (gemini-companion-moments-test--wait-idle emacs)
          (should (equal (gemini-companion-moments-test--layout emacs) before))
          (gemini-companion-test-type emacs "x")
          (gemini-companion-test-keys emacs "BSpace")
          (gemini-companion-moments-test--wait-idle emacs)
          (gemini-companion-test-m-x emacs "gemini-companion-review-next")
          (gemini-companion-test-wait-review emacs "two\n")
          (gemini-companion-test-reject emacs)
          (gemini-companion-moments-test--wait-told
           client (append told '((rejected "a.txt"))))
          (gemini-companion-moments-test--wait-restored emacs)
          (gemini-companion-test-wait-screen emacs "Gem:1)"))))))

;;;; Several reviews of two clients

(defun gemini-companion-moments-test--end-review (emacs client name text fate)
  "Let the review of CLIENT that is on the screen of EMACS have FATE.
It proposes TEXT for the file NAME.  Return what CLIENT is to be told."
  (let ((cli (gemini-companion-test-fake-client-cli client))
        (file (gemini-companion-test-project emacs name)))
    (pcase-exhaustive fate
      ('accept (gemini-companion-test-accept emacs)
               `((accepted ,name ,text)))
      ('edit (gemini-companion-test-append-to-proposal emacs "mine")
             (gemini-companion-test-accept emacs)
             `((accepted ,name ,(concat text "mine"))))
      ('reject (gemini-companion-test-reject emacs)
               `((rejected ,name)))
      ('later (gemini-companion-test-select-panel emacs)
              (gemini-companion-test-keys emacs "q")
              (gemini-companion-test-wait-screen emacs "Proposed change:")
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

(defun gemini-companion-moments-test--play (emacs clients reviews)
  "Let CLIENTS ask EMACS for REVIEWS at once, and let each have its fates.
CLIENTS is an alist of names and clients.  Each of REVIEWS is (CLIENT
NAME FATE...); all but the last fate leave it open.  Check that each
client is told what it is to be told, and nothing else."
  (let* ((number 0)
         (open (mapcar (lambda (review)
                         (pcase-let* ((`(,client ,name . ,fates) review))
                           (list (alist-get client clients) name
                                 (format "%s %s %d\n" client name
                                         (cl-incf number))
                                 fates)))
                       reviews))
         (told (mapcar (lambda (it)
                         (cons (cdr it)
                               (gemini-companion-moments-test--told (cdr it))))
                       clients))
         (gone nil)
         (first t))
    ;; None of them is shown before all are there.
    (gemini-companion-test-keys emacs "C-x")
    (pcase-dolist (`(,client ,name ,text . ,_) open)
      (gemini-companion-moments-test--propose emacs client text name))
    (gemini-companion-test-quit emacs)
    (while open
      (pcase-dolist (`(,client ,name ,text ,fates) open)
        (unless first
          (gemini-companion-test-m-x emacs "gemini-companion-review-next"))
        (gemini-companion-test-wait-review emacs text)
        (let ((news (gemini-companion-moments-test--end-review
                     emacs client name text (car fates))))
          (setf (alist-get client told) (append (alist-get client told) news)))
        (when (eq (car fates) 'gone)
          (push client gone))
        (gemini-companion-test-wait-eval
         emacs `(not (equal (alist-get 'proposal
                                       (gemini-companion-test-inner-review))
                            ,text))))
      (setq first nil
            open (delq nil (mapcar (pcase-lambda (`(,client ,name ,text ,fates))
                                     (and (cdr fates)
                                          (list client name text (cdr fates))))
                                   open))))
    (gemini-companion-test-wait-no-review emacs)
    (gemini-companion-test-wait-eval emacs
                                     '(zerop (gemini-companion-review-count)))
    (pcase-dolist (`(,client . ,expected) told)
      (gemini-companion-moments-test--wait-told client expected))
    (gemini-companion-moments-test--fence
     emacs (cl-set-difference (mapcar #'cdr clients) gone))
    (pcase-dolist (`(,client . ,expected) told)
      (gemini-companion-moments-test--wait-told client expected))))

(defun gemini-companion-moments-test--play-all (view &rest plays)
  "Play each of PLAYS, lists of reviews, in one Emacs with two clients.
The name of the clients are `x' and `y'; VIEW is how reviews are shown."
  (gemini-companion-moments-test--with
      (emacs unused '(("a.txt" . "a\n") ("b.txt" . "b\n") ("c.txt" . "c\n")))
    (gemini-companion-test-client-stop unused)
    (gemini-companion-test-eval
     emacs `(setq gemini-companion-diff-function #',view))
    (dolist (reviews plays)
      (ert-info ((format "%S" reviews))
        (gemini-companion-test-with-client (x 'fake emacs)
          (gemini-companion-test-with-client (y 'fake emacs)
            (gemini-companion-moments-test--play
             emacs `((x . ,x) (y . ,y)) reviews)))))))

(eval-and-compile
  (defconst gemini-companion-moments-test--plays
    '((each-end-of-one-review
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
    "What becomes of reviews, by the name of a test."))

(defmacro gemini-companion-moments-test--define-plays (&rest views)
  "Define a test for each of the plays in each of VIEWS.
In each a client hears how its own reviews ended, each once."
  `(progn
     ,@(cl-loop
        for (name . plays) in gemini-companion-moments-test--plays
        nconc
        (cl-loop
         for view in views
         collect
         `(ert-deftest ,(intern (format "gemini-companion-moments/%s-in-%s"
                                        name view)) ()
            :tags '(e2e)
            (gemini-companion-moments-test--play-all
             ',(intern (format "gemini-companion-%s-show" view))
             ,@(mapcar #'macroexp-quote plays)))))))

(gemini-companion-moments-test--define-plays ediff diff)

(ert-deftest gemini-companion-moments/client-gone-with-reviews-that-wait ()
  "All reviews of a client that goes away go with it, shown or not."
  :tags '(e2e)
  (gemini-companion-moments-test--with
      (emacs x '(("a.txt" . "a\n") ("b.txt" . "b\n")))
    (gemini-companion-test-with-client (y 'fake emacs)
      (gemini-companion-test-keys emacs "C-x")
      (gemini-companion-moments-test--propose emacs x "xa\n" "a.txt")
      (gemini-companion-moments-test--propose emacs y "ya\n" "a.txt")
      (gemini-companion-moments-test--propose emacs x "xb\n" "b.txt")
      (gemini-companion-test-quit emacs)
      (gemini-companion-test-wait-review emacs "xa\n")
      (fake-cli-terminate (gemini-companion-test-fake-client-cli x))
      (gemini-companion-test-wait-review emacs "ya\n")
      (should (= (gemini-companion-test-eval
                  emacs '(gemini-companion-review-count))
                 1))
      (gemini-companion-test-accept emacs)
      (gemini-companion-moments-test--wait-told y '((accepted "a.txt" "ya\n")))
      (gemini-companion-moments-test--wait-restored emacs)
      (should-not (gemini-companion-moments-test--told x)))))

(ert-deftest gemini-companion-moments/lost-stream-hears-it-later ()
  "A client that has lost its stream hears of the outcome when it is back.
The other one hears nothing."
  :tags '(e2e)
  (gemini-companion-moments-test--with (emacs x '(("a.txt" . "a\n")))
    (gemini-companion-test-with-client (y 'fake emacs)
      (let ((cli (gemini-companion-test-fake-client-cli x)))
        (gemini-companion-moments-test--propose emacs x "xa\n")
        (gemini-companion-test-wait-review emacs "xa\n")
        (fake-cli-disconnect cli)
        (gemini-companion-test-accept emacs)
        (gemini-companion-moments-test--wait-restored emacs)
        (gemini-companion-moments-test--fence emacs (list y))
        (should-not (gemini-companion-moments-test--told y))
        (should-not (gemini-companion-moments-test--told x))
        (fake-cli--open-stream cli)
        (gemini-companion-moments-test--wait-told
         x '((accepted "a.txt" "xa\n")))
        (gemini-companion-moments-test--fence emacs (list x y))
        (should-not (gemini-companion-moments-test--told y))))))

(ert-deftest gemini-companion-moments/dead-client-beside-a-living-one ()
  "The review of a client that died goes; that of another one comes.
Only the real client has a process of its own."
  :tags '(e2e real)
  (gemini-companion-test-require-real-client)
  (gemini-companion-moments-test--with
      (emacs living '(("a.txt" . "a\n")))
    (gemini-companion-test-with-client (dying 'real emacs)
      (gemini-companion-test-keys emacs "C-x")
      (gemini-companion-moments-test--propose emacs dying "dying a\n")
      (gemini-companion-moments-test--propose emacs living "living\n")
      (gemini-companion-test-quit emacs)
      (gemini-companion-test-wait-review emacs "dying a\n")
      (gemini-companion-test-client-stop dying)
      (gemini-companion-test-wait-review emacs "living\n")
      (gemini-companion-test-wait-eval
       emacs '(= (gemini-companion-review-count) 1))
      (gemini-companion-test-reject emacs)
      (gemini-companion-moments-test--wait-restored emacs)
      (gemini-companion-moments-test--wait-told
       living '((rejected "a.txt"))))))

;;;; Frames

(defconst gemini-companion-moments-test--frame-of-review
  '(seq-some (lambda (buffer)
               (and (string-match-p "\\`\\*gemini proposal" (buffer-name buffer))
                    (get-buffer-window buffer t)
                    (window-frame (get-buffer-window buffer t))))
             (buffer-list))
  "Form that returns the frame on which a review is, or nil.")

(defun gemini-companion-moments-test--wake (emacs)
  "Press a key in EMACS until it has read one.
Emacs itself loses the first one after a terminal that hung up."
  (let ((before (gemini-companion-test-eval emacs 'num-nonmacro-input-events)))
    (gemini-companion-test-wait
     "a key to be read"
     (lambda ()
       (gemini-companion-test-keys emacs "C-l")
       (> (gemini-companion-test-eval emacs 'num-nonmacro-input-events) before)))))

(ert-deftest gemini-companion-moments/frame-that-closes-means-later ()
  "A review whose frame closes waits, and can be shown on another one."
  :tags '(e2e)
  (gemini-companion-moments-test--with (emacs client '(("a.txt" . "one\n")))
    (let ((before (gemini-companion-moments-test--layout emacs))
          (told nil))
      (dolist (close '(("C-x" "5" "0") ("C-x" "C-c") nil))
        (ert-info ((format "%S" close))
          (let ((pane (gemini-companion-test-open-frame emacs "second")))
            (let ((gemini-companion-test-pane pane))
              (gemini-companion-test-keys emacs "C-n")
              (gemini-companion-test-wait-eval
               emacs '(frame-parameter nil 'client)))
            (gemini-companion-moments-test--propose emacs client "two\n")
            (gemini-companion-test-wait-review emacs "two\n")
            ;; It comes where the user is.
            (should (gemini-companion-test-eval
                     emacs `(eq ,gemini-companion-moments-test--frame-of-review
                                (selected-frame))))
            (if (not close)
                (gemini-companion-test-kill-pane emacs pane)
              (let ((gemini-companion-test-pane pane))
                (apply #'gemini-companion-test-keys emacs close)))
            (gemini-companion-test-wait-eval emacs '(null (cdr (frame-list))))
            (gemini-companion-test-wait-no-review emacs)
            (gemini-companion-moments-test--wake emacs)
            (gemini-companion-moments-test--wait-idle emacs)
            (should (equal (gemini-companion-moments-test--layout emacs) before))
            (should (= (gemini-companion-test-eval
                        emacs '(gemini-companion-review-count))
                       1))
            (should (equal (gemini-companion-moments-test--told client) told))
            (gemini-companion-test-m-x emacs "gemini-companion-review-next")
            (gemini-companion-test-wait-review emacs "two\n")
            (gemini-companion-test-reject emacs)
            (setq told (append told '((rejected "a.txt"))))
            (gemini-companion-moments-test--wait-told client told)
            (gemini-companion-moments-test--wait-restored emacs)))))))

(ert-deftest gemini-companion-moments/daemon-shows-it-on-its-first-frame ()
  "Without a frame a review waits; it comes when there is one."
  :tags '(e2e)
  (gemini-companion-test-with-emacs (emacs :daemon t
                                           :files '(("a.txt" . "one\n")))
    (gemini-companion-test-eval emacs gemini-companion-moments-test--observers)
    (gemini-companion-test-eval
     emacs `(progn (find-file-noselect
                    ,(gemini-companion-test-project emacs "a.txt"))
                   nil))
    (gemini-companion-test-with-client (client 'fake emacs)
      (dotimes (time 2)
        (gemini-companion-moments-test--propose emacs client "two\n")
        (gemini-companion-moments-test--wait-due emacs)
        (let ((gemini-companion-test-pane
               (gemini-companion-test-open-frame emacs "client")))
          (gemini-companion-test-wait-review emacs "two\n")
          (should (gemini-companion-test-eval
                   emacs `(eq ,gemini-companion-moments-test--frame-of-review
                              (selected-frame))))
          (gemini-companion-test-wait-screen emacs "C-c C-c")
          (gemini-companion-test-reject emacs)
          (gemini-companion-moments-test--wait-told
           client (make-list (1+ time) '(rejected "a.txt")))
          (gemini-companion-moments-test--wait-restored emacs)
          (gemini-companion-test-keys emacs "C-x" "5" "0")
          (gemini-companion-test-wait-eval emacs
                                           '(null (cdr (frame-list)))))))))

(defun gemini-companion-moments-test--wait-due (emacs)
  "Wait until the daemon EMACS could have shown a review several times.
It is never idle when it has had no frame."
  (gemini-companion-test-wait-eval
   emacs '(progn (gemini-companion-popup--try)
                 (> (float-time (time-since (gemini-companion-review-created
                                             (gemini-companion-review-current))))
                    1.5)))
  (should-not (gemini-companion-test-review emacs)))

(ert-deftest gemini-companion-moments/daemon-that-loses-its-frame ()
  "A review on a daemon's only frame waits when that is closed."
  :tags '(e2e)
  (gemini-companion-test-with-emacs (emacs :daemon t
                                           :files '(("a.txt" . "one\n")))
    (gemini-companion-test-eval emacs gemini-companion-moments-test--observers)
    (gemini-companion-test-eval
     emacs `(progn (find-file-noselect
                    ,(gemini-companion-test-project emacs "a.txt"))
                   nil))
    (gemini-companion-test-with-client (client 'fake emacs)
      (let ((gemini-companion-test-pane
             (gemini-companion-test-open-frame emacs "client")))
        (gemini-companion-moments-test--propose emacs client "two\n")
        (gemini-companion-test-wait-review emacs "two\n")
        (gemini-companion-test-append-to-proposal emacs "mine")
        (gemini-companion-test-kill-pane emacs gemini-companion-test-pane)
        (gemini-companion-test-wait-eval emacs '(null (cdr (frame-list))))
        (gemini-companion-test-wait-no-review emacs))
      (should-not (gemini-companion-moments-test--told client))
      (let ((gemini-companion-test-pane
             (gemini-companion-test-open-frame emacs "again")))
        (gemini-companion-moments-test--wake emacs)
        (gemini-companion-test-m-x emacs "gemini-companion-review-next")
        (gemini-companion-test-wait-review emacs "two\nmine")
        (gemini-companion-test-accept emacs)
        (gemini-companion-moments-test--wait-told
         client '((accepted "a.txt" "two\nmine")))
        (gemini-companion-moments-test--wait-restored emacs)))))

;;;; Large texts

(defun gemini-companion-moments-test--check-large (emacs client current proposed)
  "Check that a review of PROPOSED for the text CURRENT opens soon enough.
Meanwhile EMACS answers pings of CLIENT.  Then accept it."
  (let* ((file (gemini-companion-test-write
                (gemini-companion-test-project emacs "large.txt") current))
         (cli (gemini-companion-test-fake-client-cli client))
         (flag (gemini-companion-test-emacs-file emacs "shown"))
         ;; Or it takes longer to hear of the outcome than Emacs to tell.
         (read-process-output-max (* 1024 1024))
         (slowest 0)
         begun handle)
    ;; Another test may have had this Emacs.
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
    ;; It is on the screen, and Emacs listens.
    (should (gemini-companion-test-eval
             emacs gemini-companion-moments-test--frame-of-review))
    (message "A review of %d characters was there after %.1f s; \
pings were answered within %.2f s"
             (length proposed) (- (float-time) begun) slowest)
    (should (< (- (float-time) begun) 30))
    (should (< slowest 3))
    (setq begun (float-time))
    (gemini-companion-test-accept emacs)
    (pcase (gemini-companion-test-client-wait-outcome client handle)
      (`(accepted . ,text)
       (unless (equal text proposed)
         (ert-fail "What was accepted is not what was proposed")))
      (outcome (ert-fail (format "It was not accepted but %S" (car outcome)))))
    (gemini-companion-test-wait-eval
     emacs '(null (gemini-companion-test-inner-views)))
    (message "It was accepted %.1f s later" (- (float-time) begun))
    (should (< (- (float-time) begun) 30))))

(ert-deftest gemini-companion-moments/large-text ()
  "A text of 10 MB with a few changes opens in time."
  :tags '(e2e)
  (gemini-companion-moments-test--with (emacs client '(("a.txt" . "one\n")))
    (let ((lines (make-vector 300000 nil)))
      (dotimes (n 300000)
        (aset lines n (format "line %6d of a long text ......\n" n)))
      (let ((current (mapconcat #'identity lines "")))
        (dotimes (n 50)
          (aset lines (* n 6000) (format "another line %d\n" n)))
        (gemini-companion-moments-test--check-large
         emacs client current (mapconcat #'identity lines ""))))))

(ert-deftest gemini-companion-moments/one-long-line ()
  "A line of 10 MB opens in time."
  :tags '(e2e)
  (gemini-companion-moments-test--with (emacs client '(("a.txt" . "one\n")))
    (let ((half (mapconcat #'identity (make-list 500000 "0123456789") "")))
      (gemini-companion-moments-test--check-large
       emacs client (concat half " was " half "\n")
       (concat half " is " half "\n")))))

;;;; Any text

(defun gemini-companion-moments-test--random-text ()
  "Return a random text with all that may go wrong."
  (let ((parts '("\n" "\r\n" "\r" "\0" "\t" " " "a" "word" "\ufeff" "ä" "漢字"
                 "𝕏" "👩‍👩‍👧" "\e[31m" "%s" "\\" "\"" "-*- mode: x -*-" "\u2028"
                 "\u200e" "\x7f" "a\u0301" "\f")))
    (apply #'concat
           (cl-loop repeat (1+ (random 40))
                    collect (nth (random (length parts)) parts)))))

(ert-deftest gemini-companion-moments/texts-come-back-byte-for-byte ()
  "A thousand random texts, shown and accepted as they are."
  :tags '(e2e)
  (random "gemini-companion")
  (gemini-companion-moments-test--with (emacs client '(("a.txt" . "one\n")))
    (dotimes (batch 20)
      (let* ((before (length (gemini-companion-moments-test--told client)))
             (proposed
              (cl-loop for n below 50
                       collect (list 'accepted (format "%d-%d.txt" batch n)
                                     (gemini-companion-moments-test--random-text)))))
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
           (= (+ before 50) (length (gemini-companion-moments-test--told client)))))
        (let ((told (nthcdr before (gemini-companion-moments-test--told client))))
          (dolist (outcome proposed)
            (should (member outcome told))))))))

;;;; Names and kinds of files

(ert-deftest gemini-companion-moments/unusual-names ()
  "The client hears of a file by the very name that it gave."
  :tags '(e2e)
  (gemini-companion-moments-test--with (emacs client '(("a.txt" . "one\n")))
    (dolist (name '("two words  and more.txt" "é\u0301à ü ß.txt" "漢字 かな 한글.txt"
                    "-n" "--help" "two\nlines.txt" "100%s %d %.txt" "~" "$HOME"
                    "a\\b\"c'd`e.el" "*star* [x] ?.c" "😀𝕏.md" "tab\there"))
      (ert-info ((format "%S" name))
        (let* ((file (gemini-companion-test-write
                      (gemini-companion-test-project emacs (concat "./" name))
                      "one\n"))
               (before (gemini-companion-moments-test--told client)))
          (gemini-companion-moments-test--propose
           emacs client "two\n" (concat "./" name))
          (should (equal (alist-get 'current
                                    (gemini-companion-test-wait-review
                                     emacs "two\n"))
                         "one\n"))
          (gemini-companion-test-accept emacs)
          (gemini-companion-moments-test--wait-told
           client (append before
                          `((accepted ,(file-name-nondirectory file) "two\n"))))
          (should (equal (alist-get 'filePath
                                    (fake-cli-find-notification
                                     (gemini-companion-test-fake-client-cli
                                      client)
                                     "ide/diffAccepted"))
                         file))
          (gemini-companion-moments-test--wait-restored emacs))))))

(defun gemini-companion-moments-test--accept-and-write (emacs client name text)
  "Let the user of EMACS accept TEXT for the file NAME, and CLIENT write it."
  (let* ((file (gemini-companion-test-project emacs name))
         (handle (gemini-companion-moments-test--propose
                  emacs client text name)))
    (gemini-companion-test-wait-review emacs text)
    (gemini-companion-test-accept emacs)
    (should (equal (gemini-companion-test-client-wait-outcome client handle)
                   (cons 'accepted text)))
    (gemini-companion-test-write file text)
    (gemini-companion-test-wait-no-review emacs)))

(ert-deftest gemini-companion-moments/read-only-file ()
  "A file that is read-only can be reviewed; its buffer stays read-only."
  :tags '(e2e)
  (gemini-companion-moments-test--with
      (emacs client '(("a.txt" . "one\n") ("b.txt" . "one\n")))
    (set-file-modes (gemini-companion-test-project emacs "b.txt") #o444)
    (gemini-companion-test-visit emacs "b.txt")
    (gemini-companion-test-run
     emacs '(progn (read-only-mode 1) nil)) ; root may write any file
    (gemini-companion-test-client-open-diff
     client (gemini-companion-test-project emacs "b.txt") "two\n")
    (let ((review (gemini-companion-test-wait-review emacs "two\n")))
      (should-not (alist-get 'proposal-read-only review)))
    (gemini-companion-test-append-to-proposal emacs "mine")
    (gemini-companion-test-accept emacs)
    (gemini-companion-moments-test--wait-told
     client '((accepted "b.txt" "two\nmine")))
    ;; The client takes the right to write.
    (set-file-modes (gemini-companion-test-project emacs "b.txt") #o644)
    (gemini-companion-test-write
     (gemini-companion-test-project emacs "b.txt") "two\nmine")
    (gemini-companion-test-wait-eval
     emacs '(and (equal (buffer-name) "b.txt")
                 (equal (buffer-string) "two\nmine")
                 buffer-read-only
                 (not (buffer-modified-p))))))

(ert-deftest gemini-companion-moments/symbolic-link ()
  "The review of a symbolic link is one of what it leads to."
  :tags '(e2e)
  (gemini-companion-moments-test--with
      (emacs client '(("a.txt" . "one\n") ("target.txt" . "one\n")))
    (make-symbolic-link "target.txt"
                        (gemini-companion-test-project emacs "link.txt"))
    (dolist (visited '("target.txt" "link.txt"))
      (ert-info (visited)
        (gemini-companion-test-visit emacs visited)
        (let ((text (concat "by way of " visited "\n")))
          (gemini-companion-moments-test--accept-and-write
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

(ert-deftest gemini-companion-moments/narrowed-and-indirect-buffers ()
  "Narrowed and indirect buffers of the file stay as they are."
  :tags '(e2e)
  (gemini-companion-moments-test--with
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
      ;; What is reviewed is the whole file.
      (gemini-companion-moments-test--propose emacs client text)
      (should (equal (alist-get 'current
                                (gemini-companion-test-wait-review emacs text))
                     "one\ntwo\nthree\nfour\nfive\n"))
      (should (equal (gemini-companion-test-eval emacs texts) before))
      (gemini-companion-test-reject emacs)
      (gemini-companion-moments-test--wait-told client '((rejected "a.txt")))
      (gemini-companion-moments-test--wait-restored emacs)
      (should (equal (gemini-companion-test-eval emacs texts) before))
      (should (gemini-companion-test-eval
               emacs '(and (equal (buffer-name) "a.txt")
                           (null (buffer-file-name (get-buffer "indirect"))))))
      (gemini-companion-moments-test--accept-and-write emacs client "a.txt" text)
      (gemini-companion-test-wait-eval
       emacs `(equal ,texts '(("four" t) ("ONE\ntwo" t))))
      (should (equal (gemini-companion-test-read file) text))
      (should (gemini-companion-test-eval
               emacs `(save-restriction (widen)
                                        (equal (buffer-string) ,text)))))))

(ert-deftest gemini-companion-moments/unsaved-edits-are-told ()
  "Unsaved edits are told on the screen, whenever they are made."
  :tags '(e2e)
  (gemini-companion-moments-test--with (emacs client '(("a.txt" . "one\n")))
    (gemini-companion-test-type emacs "before")
    (gemini-companion-moments-test--propose emacs client "two\n")
    (gemini-companion-test-wait-review emacs "two\n")
    (gemini-companion-test-wait-screen emacs "Unsaved edits  C-c C-e merges")
    ;; The focus is still in the file.
    (gemini-companion-test-keys emacs "C-x" "C-s")
    (gemini-companion-test-wait-eval emacs '(not (buffer-modified-p)))
    (gemini-companion-test-wait-screen emacs "Changed on disk  C-c C-e merges")
    (gemini-companion-test-reject emacs)
    (gemini-companion-moments-test--wait-told client '((rejected "a.txt")))
    (gemini-companion-test-wait-no-review emacs)
    (gemini-companion-moments-test--propose emacs client "three\n")
    (gemini-companion-test-wait-review emacs "three\n")
    (should-not (string-match-p "C-c C-e merges" (gemini-companion-test-screen emacs)))
    (gemini-companion-test-type emacs "while")
    (gemini-companion-test-wait-screen emacs "Unsaved edits  C-c C-e merges")
    (gemini-companion-test-accept emacs)
    (gemini-companion-test-wait-screen emacs "\\[?c\\]?ancel")
    (gemini-companion-test-keys emacs "c")
    (gemini-companion-test-wait-screen emacs "Not accepted")
    (gemini-companion-test-reject emacs)
    (gemini-companion-moments-test--wait-told
     client '((rejected "a.txt") (rejected "a.txt")))))

;;; moments-test.el ends here

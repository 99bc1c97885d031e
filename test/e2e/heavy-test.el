;;; heavy-test.el --- Texts that are heavy to display  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client proposes awkward texts for files of each kind for which Emacs brings a major mode.  A
;; timer in that Emacs notices for how long it was blocked, in time of its own processor: while the
;; change is shown, accepted, written and looked at again, and while the user goes to the end of
;; each buffer.
;;
;; With GEMINI_COMPANION_HEAVY_CASES so many texts are tried for each kind of file, otherwise one for
;; some of them; GEMINI_COMPANION_HEAVY_SEED selects others, and has all figures printed.

;;; Code:

(require 'gemini-companion-test-fake-client)

(defconst gemini-companion-heavy-e2e--limit 1.0
  "Seconds of its processor time for which Emacs may be blocked.")

(defconst gemini-companion-heavy-e2e--names
  '("x.c" "x.cpp" "x.java" "x.js" "x.json" "x.py" "x.rb" "x.pl" "x.sh" "x.el" "x.scm" "x.html"
    "x.xml" "x.css" "x.org" "x.tex" "x.bib" "x.txt" "x.conf" "x.sql" "x.f90" "x.pas" "x.m4" "Makefile"
    "x.awk" "x.tcl" "x.vhd" "x.v" "x.s" "x.diff" "x.m" "x.ps" "x.adoc")
  "A file name for each major mode that Emacs brings for a common kind of file.")

(defconst gemini-companion-heavy-e2e--units
  '("(" "{[" "$(" "\"" "'" "`" "/*" "/" "<a " "\\" "#" "((a" "א(" "e\u0301" "\u0301" "👩\u200d" "a,"
    "if x { " "%w(" "=begin\n" "<<E\n" "\u202e(" "\t" "\x00" "\u00a0" mixed)
  "What awkward texts are made of; `mixed' is another of these each time.")

(defconst gemini-companion-heavy-e2e--shapes
  '((5000000 nil) (5000000 80) (900000 80) (900000 9000) (90000 200) (90000 200) (90000 60))
  "The length of a text, and of its lines; nil if it has only one.")

(defconst gemini-companion-heavy-e2e--views
  '(gemini-companion-review-ediff-show gemini-companion-review-inline-show)
  "The functions that show a change.")

(defconst gemini-companion-heavy-e2e--known
  '(("x.txt" "👩\u200d" (5000000 nil) gemini-companion-review-ediff-show)
    ("x.txt" "👩\u200d" (5000000 nil) gemini-companion-review-inline-show)
    ("x.js" "\t" (5000000 80) gemini-companion-review-ediff-show))
  "Cases that once blocked Emacs for seconds.")

(defconst gemini-companion-heavy-e2e--observer
  '(progn
     (defvar gemini-companion-test-inner-beat (float-time (get-internal-run-time)))
     (defvar gemini-companion-test-inner-gaps nil)
     (defvar gemini-companion-test-inner-beating nil)
     (defvar gemini-companion-test-inner-phase nil)
     (defun gemini-companion-test-inner-note-beat ()
       (let* ((now (float-time (get-internal-run-time)))
              (gap (- now gemini-companion-test-inner-beat))
              (known (assq gemini-companion-test-inner-phase gemini-companion-test-inner-gaps)))
         (setq gemini-companion-test-inner-beat now)
         (cond ((null known)
                (push (cons gemini-companion-test-inner-phase gap)
                      gemini-companion-test-inner-gaps))
               ((> gap (cdr known)) (setcdr known gap)))))
     (setq gemini-companion-test-inner-beating
           (run-at-time 0 0.02 #'gemini-companion-test-inner-note-beat))
     (defun gemini-companion-test-inner-begin (phase)
       (gemini-companion-test-inner-note-beat)
       (setq gemini-companion-test-inner-phase phase))
     (defun gemini-companion-test-inner-walk ()
       "Go to the end of each buffer on screen, and back."
       (dolist (window (window-list nil 'nomini))
         (when (window-live-p window)
           (with-selected-window window
             (dolist (command '(end-of-buffer beginning-of-buffer))
               (ignore-errors (call-interactively command))
               (sit-for 0.03)))))))
  "Form that has the Emacs under test note how long it is blocked, by phase.")

(defun gemini-companion-heavy-e2e--text (unit shape)
  "Return a text of UNIT in SHAPE."
  (pcase-let* ((`(,length ,width) shape)
               (line (gemini-companion-heavy-e2e--fill unit (or width length))))
    (cond ((null width) line)
          ((eq unit 'mixed)
           (mapconcat (lambda (_) (gemini-companion-heavy-e2e--fill unit width))
                      (make-list (/ length (1+ width)) nil) "\n"))
          (t (mapconcat #'identity (make-list (/ length (1+ width)) line) "\n")))))

(defun gemini-companion-heavy-e2e--fill (unit length)
  "Return about LENGTH characters of UNIT, repeated."
  (if (stringp unit)
      (mapconcat #'identity (make-list (max 1 (/ length (length unit))) unit) "")
    (mapconcat (lambda (_) (gemini-companion-heavy-e2e--pick
                            (butlast gemini-companion-heavy-e2e--units)))
               (make-list (/ length 2) nil) "")))

(defun gemini-companion-heavy-e2e--pick (list)
  "Return a random element of LIST."
  (nth (random (length list)) list))

(defun gemini-companion-heavy-e2e--draw ()
  "Return random cases, each a list of a name, a unit, a shape and a view.
They are the same for the same seed."
  (random (or (getenv "GEMINI_COMPANION_HEAVY_SEED") emacs-version))
  (let ((count (getenv "GEMINI_COMPANION_HEAVY_CASES"))
        (names (getenv "GEMINI_COMPANION_HEAVY_NAMES")))
    (mapcan (lambda (name)
              (mapcar (lambda (_)
                        (cons name (mapcar #'gemini-companion-heavy-e2e--pick
                                           (list gemini-companion-heavy-e2e--units
                                                 gemini-companion-heavy-e2e--shapes
                                                 gemini-companion-heavy-e2e--views))))
                      (make-list (string-to-number (or count "1")) nil)))
            (cond (names (split-string names))
                  (count gemini-companion-heavy-e2e--names)
                  (t (seq-take (sort (copy-sequence gemini-companion-heavy-e2e--names)
                                     (lambda (_ _) (zerop (random 2))))
                               6))))))

(defun gemini-companion-heavy-e2e--run (emacs client name unit shape view)
  "Let CLIENT propose a text of UNIT in SHAPE for the file NAME in EMACS.
VIEW is the function that shows it.
Return the phases in which EMACS was blocked too long, with the seconds."
  (let* ((file (gemini-companion-test-project emacs name))
         (text (gemini-companion-heavy-e2e--text unit shape))
         (phase (lambda (name &rest forms)
                  (gemini-companion-test-run
                   emacs `(progn (gemini-companion-test-inner-begin ',name) ,@forms
                                 (sit-for 0.1) (gemini-companion-test-inner-walk))
                   120))))
    (gemini-companion-test-write file "one\n")
    (gemini-companion-test-run
     emacs `(progn (delete-other-windows) (find-file ,file)
                   ;; The mode has its own libraries to load, also without the package.
                   (font-lock-ensure) (redisplay t)
                   (setq gemini-companion-diff-function #',view)))
    (gemini-companion-test-run
     emacs '(progn (gemini-companion-test-inner-begin nil)
                   (setq gemini-companion-test-inner-gaps nil)))
    (gemini-companion-test-fake-propose emacs client text name)
    (gemini-companion-test-wait-eval emacs '(and (gemini-companion-test-inner-review) t) 120)
    (funcall phase 'shown)
    (funcall phase 'accept '(gemini-companion-accept))
    (gemini-companion-test-run emacs '(gemini-companion-test-inner-begin 'written))
    (gemini-companion-test-write file text)
    (gemini-companion-test-wait-eval
     emacs '(pcase gemini-companion-write--files
              ('nil t)                  ; long ago
              (`(,watched . ,_)
               (equal (gemini-companion-write--watched-before watched)
                      (gemini-companion-file-stamp (gemini-companion-write--watched-path watched)))))
     60)
    (funcall phase 'written)
    (funcall phase 'history
             '(gemini-companion-history-list)
             '(with-current-buffer (window-buffer)
                (goto-char (point-min))
                (re-search-forward "accepted\\|not written")
                (call-interactively (key-binding (kbd "RET")))))
    (prog1 (gemini-companion-test-eval
            emacs `(progn
                     (gemini-companion-test-inner-note-beat)
                     (seq-filter (lambda (gap) (> (cdr gap) ,gemini-companion-heavy-e2e--limit))
                                 gemini-companion-test-inner-gaps)))
      (gemini-companion-test-run
       emacs `(progn
                (dolist (buffer (buffer-list))
                  (when (string-match-p "\\`\\*gemini" (buffer-name buffer))
                    (kill-buffer buffer)))
                (with-current-buffer (find-buffer-visiting ,file)
                  (set-buffer-modified-p nil)
                  (kill-buffer))
                (setq gemini-companion-history--entries nil)
                (garbage-collect)
                nil)
       60))))

(ert-deftest gemini-companion-heavy/no-text-blocks-emacs ()
  "Emacs is never blocked for long, whatever a client proposes, for which file."
  (let ((cases (append gemini-companion-heavy-e2e--known (gemini-companion-heavy-e2e--draw)))
        (blocked nil))
    (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
      (gemini-companion-test-eval emacs gemini-companion-heavy-e2e--observer)
      (dolist (case cases)
        (let ((gaps (apply #'gemini-companion-heavy-e2e--run emacs client case)))
          (when (getenv "GEMINI_COMPANION_HEAVY_SEED")
            (message "%S %S" case gaps))
          (when gaps
            (push (cons case gaps) blocked))))
      (gemini-companion-test-eval emacs '(cancel-timer gemini-companion-test-inner-beating)))
    (should (equal blocked nil))))

(ert-deftest gemini-companion-heavy/a-text-looks-like-what-it-is ()
  "What turns text around, or cannot be seen, does not disguise a program."
  (gemini-companion-test-with-fake-client (emacs client '(("a.py" . "x = 1\n")))
    (dolist (view gemini-companion-heavy-e2e--views)
      (gemini-companion-test-eval emacs `(setq gemini-companion-diff-function #',view))
      (gemini-companion-test-fake-propose
       emacs client
       (concat "if u != \"user\u202e \u2066# only admins\u2069 \u2066\":\n    p\u3164 = 1\u2028\n"
               "    ad\u200bmin = a\u1160d\U000e0101min\n")
       "a.py")
      (gemini-companion-test-wait-review emacs)
      (gemini-companion-test-wait-screen
       emacs (regexp-quote "if u != \"user\\u202E \\u2066# only admins\\u2069 \\u2066\":"))
      (gemini-companion-test-wait-screen emacs (regexp-quote "p\\u3164 = 1\\u2028"))
      (gemini-companion-test-wait-screen
       emacs (regexp-quote "ad\\u200Bmin = a\\u1160d\\U0E0101min"))
      (gemini-companion-test-run emacs '(gemini-companion-reject))
      (gemini-companion-test-wait-eval emacs '(zerop (gemini-companion-review-count))))))

(ert-deftest gemini-companion-heavy/isolated-text-does-not-block-emacs ()
  "When its file shows it, that is up to Emacs, so this only looks at the change."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (gemini-companion-test-eval emacs gemini-companion-heavy-e2e--observer)
    (gemini-companion-test-run emacs '(gemini-companion-test-inner-begin 'shown))
    (gemini-companion-test-fake-propose
     emacs client (gemini-companion-heavy-e2e--text "\u2068" '(300000 990)))
    (gemini-companion-test-wait-review emacs)
    (gemini-companion-test-run
     emacs '(progn (gemini-companion-test-inner-walk) (gemini-companion-test-inner-note-beat)))
    (should (< (gemini-companion-test-eval
                emacs '(alist-get 'shown gemini-companion-test-inner-gaps))
               gemini-companion-heavy-e2e--limit))))

(ert-deftest gemini-companion-heavy/an-ordinary-text-is-fontified ()
  "All of it, soon after it is shown, and what the user adds."
  (let ((text (mapconcat (lambda (n) (format "def function_%d():\n    return %d\n" n n))
                         (number-sequence 1 1500) "\n"))
        (last '(with-current-buffer (gemini-companion-review-proposal
                                     (gemini-companion-review-shown))
                 (goto-char (point-max))
                 (re-search-backward "return\\|while")
                 (get-text-property (point) 'face))))
    (gemini-companion-test-with-fake-client (emacs client '(("a.py" . "x = 1\n")))
      (gemini-companion-test-eval
       emacs '(setq gemini-companion-diff-function #'gemini-companion-review-ediff-show))
      (gemini-companion-test-fake-propose emacs client text "a.py")
      (gemini-companion-test-wait-review emacs)
      (gemini-companion-test-wait-eval emacs `(eq ,last 'font-lock-keyword-face))
      (gemini-companion-test-append-to-proposal emacs "while 1: pass")
      (gemini-companion-test-wait-eval emacs `(eq ,last 'font-lock-keyword-face))
      (should (gemini-companion-test-eval
               emacs '(string-suffix-p "while 1: pass" (gemini-companion-review-current-text
                                                        (gemini-companion-review-shown))))))))

;;;; What differs in a long line

(defun gemini-companion-heavy-e2e--differs (name line new)
  "Have LINE changed to NEW, twice in the file NAME, in each view; NEW has \"XYZZY\".
Check that this is on screen at once, and after the key for the next hunk."
  (let* ((text (lambda (line) (concat "one\n\n" line "\n\ntwo\n\n" line "\n")))
         (old (funcall text line)))
    (dolist (view gemini-companion-heavy-e2e--views)
      (gemini-companion-test-with-fake-client (emacs client `((,name . ,old)))
        (gemini-companion-test-run emacs `(setq gemini-companion-diff-function #',view))
        (gemini-companion-test-fake-propose emacs client (funcall text new) name)
        (gemini-companion-test-wait-screen emacs "XYZZY")
        (gemini-companion-test-run emacs '(progn (gemini-companion-review-next) nil))
        (gemini-companion-test-keys emacs "n")
        (gemini-companion-test-wait-screen
         emacs "\\(?:hunk\\|diff\\) 2 of 2\\(?:.\\|\n\\)*XYZZY\\|XYZZY\\(?:.\\|\n\\)*diff 2 of 2")
        (gemini-companion-test-reject emacs)))))

(ert-deftest gemini-companion-heavy/what-differs-in-a-paragraph-is-on-screen ()
  "A paragraph in one line is higher than the window, so its beginning shows no difference."
  (let ((words (apply #'concat (make-list 200 "some words "))))
    ;; Org mode truncates lines.
    (dolist (name '("a.txt" "a.org"))
      (gemini-companion-heavy-e2e--differs name (concat words "end, " words)
                                           (concat words "XYZZY, " words)))))

(ert-deftest gemini-companion-heavy/what-differs-in-a-minified-file-is-on-screen ()
  "Only a part of a line that is very long is shown: that where it differs."
  (let ((data (apply #'concat (make-list 4000 "[1,2],"))))
    (gemini-companion-heavy-e2e--differs "a.txt" (concat data "[3]," data)
                                         (concat data "XYZZY," data))))

(provide 'heavy-test)
;;; heavy-test.el ends here

;;; gemini-companion-test-monkey-terminal.el --- Random keys in the CLI's terminal  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The part of `gemini-companion-test-monkey' that sits in the terminal of a
;; CLI.  A stand-in for the CLI (fake-terminal-cli.mjs) runs there, and logs the
;; keys that it reads and what becomes of its turns.  Three rules are added:
;;
;; 7. A key does what the screen says.  It never reaches the CLI instead, and
;;    no turn is cancelled unless the user sends ^C.
;; 8. When Emacs is idle, each open review of the CLI is one that it waits for.
;; 9. The history says what the CLI has written.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'gemini-companion-test-client)
(require 'gemini-companion-test-emacs)

(cl-defstruct (gemini-companion-monkey-terminal (:copier nil))
  "The stand-in for the CLI in a run."
  (directory nil :documentation "The directory of its files.")
  (events nil :documentation "What it has logged, the newest first.")
  (bytes 0 :documentation "How much of its log was read.")
  (allowed nil :documentation "The times at which the user has sent ^C, the oldest last.")
  (cancelled 0 :documentation "How many turns were known to be cancelled by ^C.")
  (promised nil :documentation "What the screen said of the last keys, or nil;
a cons of that text and the events until then."))

(defun gemini-companion-test-monkey-terminal--log (terminal)
  "Return the name of the log of TERMINAL."
  (expand-file-name "log" (gemini-companion-monkey-terminal-directory terminal)))

;;;; Starting

(defun gemini-companion-test-monkey-terminal-start (emacs)
  "Run a stand-in for the CLI in a terminal of EMACS; return it."
  (let* ((directory (gemini-companion-test-temp-directory))
         (terminal (make-gemini-companion-monkey-terminal :directory directory))
         (program (expand-file-name "cli" directory)))
    (gemini-companion-test-write
     program
     (format "#!/bin/sh\nexec %s %s %s\n"
             (shell-quote-argument (gemini-companion-test-node))
             (shell-quote-argument
              (gemini-companion-test-path "test" "support" "fake-terminal-cli.mjs"))
             (shell-quote-argument (gemini-companion-test-monkey-terminal--log terminal))))
    (set-file-modes program #o755)
    (gemini-companion-test-run
     emacs `(progn (setq gemini-companion-program ,program
                         gemini-companion-terminal 'term)
                   (gemini-companion-run)
                   nil))
    (gemini-companion-test-wait
     "the CLI to connect"
     (lambda ()
       (gemini-companion-test-monkey-terminal-read terminal)
       (gemini-companion-test-monkey-terminal--find terminal "state")))
    terminal))

(defun gemini-companion-test-monkey-terminal-stop (terminal)
  "Remove the files of TERMINAL."
  (ignore-errors
    (delete-directory (gemini-companion-monkey-terminal-directory terminal) t)))

(defun gemini-companion-test-monkey-terminal-submit (terminal prompt)
  "Submit PROMPT in TERMINAL, as if the user had typed it very quickly."
  (let ((socket (make-network-process
                 :name "prompt" :family 'local :noquery t :sentinel #'ignore
                 :service (concat (gemini-companion-test-monkey-terminal--log terminal) ".socket"))))
    (process-send-string socket (concat prompt "\n"))
    (delete-process socket)))

;;;; Its log

(defun gemini-companion-test-monkey-terminal-read (terminal)
  "Read what TERMINAL has logged; return the new events, the oldest first."
  (let* ((log (gemini-companion-test-monkey-terminal--log terminal))
         (bytes (if (file-exists-p log) (gemini-companion-test-bytes log) ""))
         (new (substring bytes (gemini-companion-monkey-terminal-bytes terminal)))
         ;; A line without a newline is still being written.
         (complete (substring new 0 (if (string-match "\n[^\n]*\\'" new) (match-beginning 0) 0)))
         (events (mapcar #'gemini-companion-test-json-decode (split-string complete "\n" t))))
    (unless (string-empty-p complete)
      (cl-incf (gemini-companion-monkey-terminal-bytes terminal) (1+ (length complete))))
    (setf (gemini-companion-monkey-terminal-events terminal)
          (append (reverse events) (gemini-companion-monkey-terminal-events terminal)))
    events))

(defun gemini-companion-test-monkey-terminal--find (terminal name &optional key value)
  "Return the newest event NAME of TERMINAL whose KEY, if given, is VALUE."
  (seq-find (lambda (it)
              (and (equal (alist-get 'event it) name)
                   (or (null key) (equal (alist-get key it) value))))
            (gemini-companion-monkey-terminal-events terminal)))

(defun gemini-companion-test-monkey-terminal--state (terminal key)
  "Return KEY of the last state of TERMINAL, or nil."
  (let ((value (alist-get key (gemini-companion-test-monkey-terminal--find terminal "state"))))
    (and (not (memq value '(:null :false))) value)))

(defun gemini-companion-test-monkey-terminal-free-p (terminal)
  "Return non-nil if TERMINAL takes a prompt, and has done so for a second.
Nobody types a prompt in less time."
  (and (gemini-companion-test-monkey-terminal--state terminal 'free)
       (let ((end (gemini-companion-test-monkey-terminal--find terminal "end")))
         (or (null end)
             (> (- (float-time) (/ (alist-get 'time end) 1000.0)) 1)))))

(defun gemini-companion-test-monkey-terminal--cancelled (terminal)
  "Return how many turns of TERMINAL were cancelled by ^C."
  (seq-count (lambda (it)
               (and (equal (alist-get 'event it) "end") (equal (alist-get 'how it) "^C")))
             (gemini-companion-monkey-terminal-events terminal)))

(defun gemini-companion-test-monkey-terminal-describe (terminal)
  "Return the last events of TERMINAL as text, the oldest first."
  (mapconcat (lambda (it)
               (concat "     " (mapconcat (lambda (pair) (format "%s" (cdr pair)))
                                          (assq-delete-all 'text (copy-sequence it)) " ")))
             (reverse (seq-take
                       (seq-remove (lambda (it) (equal 1 (length (alist-get 'key it))))
                                   (gemini-companion-monkey-terminal-events terminal))
                       30))
             "\n"))

(defun gemini-companion-test-monkey-terminal-summary (terminal)
  "Return the numbers of turns of TERMINAL, and how they ended, as text."
  (let ((count (lambda (name &optional key value)
                 (seq-count (lambda (it)
                              (and (equal (alist-get 'event it) name)
                                   (or (null key) (equal (alist-get key it) value))))
                            (gemini-companion-monkey-terminal-events terminal)))))
    (format "; %d turns, %d cancelled, %d changes, %d written"
            (funcall count "turn") (funcall count "end" 'how "^C")
            (funcall count "asks") (funcall count "written"))))

;;;; Keys

(defconst gemini-companion-test-monkey-terminal--promises
  (rx (group (or (seq "M-x " (+ (any "a-z-")))
                 (seq (or "C-c" "C-x") (** 1 2 (seq " " (or (seq "C-" (any "a-z")) (any "a-z?")))))))
      " " (group (or "accepts" "rejects" "goes there")) (group (? " all")))
  "Regexp for a key on screen and what it does.")

(defun gemini-companion-test-monkey-terminal-promises (emacs)
  "Return what the screen of EMACS says of keys, a list of (KEYS . WORD).
Wait until it says the same twice: a user needs some time to read."
  (let ((before nil) (now (gemini-companion-test-screen emacs)) (count 0))
    (while (and (not (equal before now)) (< (cl-incf count) 10))
      (sit-for 0.25)
      (setq before now now (gemini-companion-test-screen emacs)))
    (let ((promises nil) (start 0))
      (while (string-match gemini-companion-test-monkey-terminal--promises now start)
        (setq start (match-end 0))
        (when (string-empty-p (match-string 3 now))
          (cl-pushnew (cons (gemini-companion-test-monkey-terminal--keys (match-string 1 now))
                            (match-string 2 now))
                      promises :test #'equal)))
      (nreverse promises))))

(defun gemini-companion-test-monkey-terminal--keys (text)
  "Return the keys that TEXT names, as a list."
  (append (split-string text " ") (and (string-prefix-p "M-x" text) '("Enter"))))

(defun gemini-companion-test-monkey-terminal-note-promise (terminal word)
  "Record that keys of which the screen says WORD are about to reach TERMINAL."
  (setf (gemini-companion-monkey-terminal-promised terminal)
        (and word
             (cons word (length (gemini-companion-monkey-terminal-events terminal))))))

(defun gemini-companion-test-monkey-terminal-allow (terminal)
  "Record that the user sends ^C to TERMINAL now, and may cancel a turn."
  (push (float-time) (gemini-companion-monkey-terminal-allowed terminal)))

(defun gemini-companion-test-monkey-terminal--uncaused (terminal)
  "Return how many turns of TERMINAL were cancelled by a ^C that nobody sent.
It may come late: what Emacs was sending to the CLI comes first."
  (let* ((cancelled (gemini-companion-test-monkey-terminal--cancelled terminal))
         (new (- cancelled (gemini-companion-monkey-terminal-cancelled terminal)))
         (allowed (seq-filter (lambda (time) (< (- (float-time) time) 8))
                              (gemini-companion-monkey-terminal-allowed terminal))))
    (setf (gemini-companion-monkey-terminal-cancelled terminal) cancelled
          (gemini-companion-monkey-terminal-allowed terminal) (butlast allowed new))
    (max 0 (- new (length allowed)))))

;;;; What must hold

(defun gemini-companion-test-monkey-terminal-faults (terminal)
  "Return the faults of keys in TERMINAL since the last call, lists (RULE TEXT)."
  (delq nil
        (list (and (> (gemini-companion-test-monkey-terminal--uncaused terminal) 0)
                   (list 7 "A turn was cancelled, though the user did not send ^C"))
              (gemini-companion-test-monkey-terminal--broken-promise terminal)
              (when-let* ((fault (gemini-companion-test-monkey-terminal--find terminal "fault")))
                (list 5 (format "The CLI says: %s" (alist-get 'text fault)))))))

(defun gemini-companion-test-monkey-terminal--broken-promise (terminal)
  "Return a fault if keys have reached TERMINAL that meant something else."
  (pcase (gemini-companion-monkey-terminal-promised terminal)
    (`(,word . ,count)
     (setf (gemini-companion-monkey-terminal-promised terminal) nil)
     (let* ((events (gemini-companion-monkey-terminal-events terminal))
            (new (seq-take events (- (length events) count)))
            (keys (seq-filter (lambda (it) (equal (alist-get 'event it) "key")) new)))
       (when keys
         (list 7 (format "The screen said that the key %s, but the CLI got %S" word
                         (mapcar (lambda (it) (alist-get 'key it)) (reverse keys)))))))))

(defun gemini-companion-test-monkey-terminal-open (reviews)
  "Return the first of REVIEWS that is open and of the CLI.
They are lists (ID TAG OUTCOME)."
  (seq-find (pcase-lambda (`(,_ ,tag ,outcome))
              (and (null outcome) (string-match-p "\\`cli[0-9]" tag)))
            reviews))

(defun gemini-companion-test-monkey-terminal-orphan (terminal reviews)
  "Return text that says which of REVIEWS TERMINAL does not wait for, or nil.
REVIEWS are lists (ID TAG OUTCOME), where OUTCOME is nil while it is open."
  (let ((waits (gemini-companion-test-monkey-terminal--state terminal 'waits))
        (holds (gemini-companion-test-monkey-terminal--state terminal 'holds)))
    (cl-loop for (id tag outcome) in reviews
             if (and (null outcome)
                     (string-match-p "\\`cli[0-9]" tag)
                     (not (equal tag waits))
                     ;; It asks about another change, which it cannot propose yet.
                     (not (and waits (equal tag holds))))
             return (format "review %d (%s) is open, and the CLI waits for %s" id tag waits))))

(defun gemini-companion-test-monkey-terminal-unknown (terminal reviews)
  "Return text that says what TERMINAL waits for but is not among REVIEWS, or nil."
  (let ((waits (gemini-companion-test-monkey-terminal--state terminal 'waits)))
    (and waits
         (equal waits (gemini-companion-test-monkey-terminal--state terminal 'holds))
         (not (seq-find (pcase-lambda (`(,_ ,tag ,outcome)) (and (null outcome) (equal tag waits)))
                        reviews))
         (format "the CLI waits for %s, which is not open" waits))))

(defun gemini-companion-test-monkey-terminal-untrue (terminal reviews)
  "Return text that says which outcome of REVIEWS is not that of TERMINAL, or nil."
  (cl-loop with open = (gemini-companion-test-monkey-terminal-open reviews)
           for (id tag outcome) in reviews
           for written = (gemini-companion-test-monkey-terminal--find terminal "written" 'tag tag)
           if (and (string-match-p "\\`cli[0-9]" tag)
                   (not (pcase outcome
                          ('nil t)
                          ('closed nil)
                          ;; Until all of the CLI are decided, it may write later.
                          ((or 'accepted 'accepted-there) (or written open))
                          (_ (not written)))))
           return (format "review %d (%s) is %s in the history, and was %swritten" id tag outcome
                          (if written "" "not "))))

(provide 'gemini-companion-test-monkey-terminal)
;;; gemini-companion-test-monkey-terminal.el ends here

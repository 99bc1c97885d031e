;;; gemini-companion-test-monkey.el --- Random keys and clients, concurrently  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A monkey test: presses random keys in an interactive Emacs, as a user might,
;; while clients propose and close changes, connect and disconnect.  Whether a
;; step waits for the one before is random, too.  After each group of steps
;; these rules are checked:
;;
;; 1. Typed text goes to the selected window, and a prompt stays until the user
;;    ends it.
;; 2. An outcome was caused by the client, or by the user for a review that was
;;    visible; each review has one, and its text is the text that was visible.
;; 3. Windows that do not belong to the review stay as the user left them.
;; 4. Emacs and the server have the same open reviews; no buffers of other
;;    reviews remain; a review that may be shown is shown.
;; 5. There are no errors, and Emacs responds.
;; 6. An unmodified buffer has the text of its file; that was written only by the
;;    user, or by a client that was notified of an accept.
;; 10. A CLI does what its hooks have told last, and changes nothing else.  A new
;;     prompt ends the open reviews of its process, and no others.
;;
;; In some runs there is also the terminal of a CLI, with rules of its own; see
;; `gemini-companion-test-monkey-terminal'.
;;
;; What the user sees and does is checked inside the Emacs under test, by
;; `gemini-companion-test-monkey-inner'.
;;
;; A run depends only on a seed, the number of steps and the timing of Emacs.
;; Each step has random numbers of its own, so that a step that turns out
;; differently does not change later ones, as far as these are still possible.
;;
;;   (gemini-companion-test-monkey-run 7 40)
;;
;; returns nil, or a report that ends with the command that repeats the run.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'fake-cli)
(require 'gemini-companion-test-client)
(require 'gemini-companion-test-emacs)
(require 'gemini-companion-test-monkey-terminal)

(cl-defstruct (gemini-companion-monkey (:copier nil))
  "One run."
  (seed nil :documentation "The seed of all random numbers.")
  (emacs nil :documentation "The Emacs under test.")
  (step 0 :documentation "The number of the step.")
  (random 0 :documentation "The state of the random number generator.")
  (options nil :documentation "The random options of the whole run, a plist.")
  (events 0 :documentation "How many events Emacs must have read.")
  (state nil :documentation "The last state of Emacs, see `gemini-companion-monkey-state'.")
  (terminal nil :documentation "The terminal of a CLI, t before it is started, or nil.")
  (clients nil :documentation "The clients, living and dead.")
  (proposals nil :documentation "All proposals of all clients, the newest first.")
  (files nil :documentation "Alist of files and the text that they should have.")
  (saved nil :documentation "Non-nil if the user may have written a file.")
  (log nil :documentation "The steps as text, the newest first.")
  (faults nil :documentation "The violations of rules: lists of a rule and a text."))

(cl-defstruct (gemini-companion-monkey-client (:copier nil))
  "One client."
  (name nil :documentation "A letter.")
  (cli nil :documentation "The connection, see `fake-cli'; nil with a process of its own.")
  (process nil :documentation "That process.")
  (handled 0 :documentation "How many of its notifications were handled.")
  (state 'up :documentation "`up', `cut' without its stream, `brief' or `gone'."))

(cl-defstruct (gemini-companion-monkey-proposal (:copier nil))
  "A proposal of a client."
  client path
  (tag nil :documentation "Its name: that of its client and the step.")
  (outcome nil :documentation "The outcome of which the client was notified, or nil.")
  (closed nil :documentation "How the client closed it, or nil."))

(defconst gemini-companion-test-monkey--proposed-files '("a.txt" "b.txt" "lib/c.txt" "new.txt")
  "The files for which clients propose changes; the last does not exist.")

;;;; Random numbers

(defun gemini-companion-test-monkey--random (run count)
  "Return a random number of RUN below COUNT."
  (let ((state (mod (+ (* 1103515245 (gemini-companion-monkey-random run)) 12345) 2147483648)))
    (setf (gemini-companion-monkey-random run) state)
    (mod (ash state -12) count)))

(defun gemini-companion-test-monkey--pick (run list)
  "Return a random element of LIST for RUN."
  (and list (nth (gemini-companion-test-monkey--random run (length list)) list)))

(defun gemini-companion-test-monkey--begin-step (run)
  "Begin the next step of RUN, with random numbers of its own."
  (let ((step (cl-incf (gemini-companion-monkey-step run))))
    (setf (gemini-companion-monkey-random run)
          (mod (+ (* 7919 (gemini-companion-monkey-seed run)) (* 104729 step)) 2147483648))
    (dotimes (_ 3) (gemini-companion-test-monkey--random run 2))))

;;;; Keys

(defun gemini-companion-test-monkey--count-events (key)
  "Return as how many events Emacs reads KEY from a terminal."
  (cond ((member key '("Enter" "Space" "Tab" "Escape")) 1)
        ((string-prefix-p "M-" key) 2)
        ((string-prefix-p "C-" key) 1)
        (t (length key))))

(defun gemini-companion-test-monkey--press (run keys)
  "Press KEYS, a list, in the Emacs of RUN, without waiting."
  (cl-incf (gemini-companion-monkey-events run)
           (apply #'+ (mapcar #'gemini-companion-test-monkey--count-events keys)))
  (apply #'gemini-companion-test-keys (gemini-companion-monkey-emacs run) keys))

(defun gemini-companion-test-monkey--file (run name)
  "Return the file NAME in the project of RUN."
  (gemini-companion-test-project (gemini-companion-monkey-emacs run) name))

(defun gemini-companion-test-monkey--random-letters (run)
  "Return random letters to type in RUN, which are not bound to commands."
  (mapconcat (lambda (_) (gemini-companion-test-monkey--pick run '("x" "X" "Y")))
             (make-list (+ 2 (gemini-companion-test-monkey--random run 6)) nil) ""))

(defun gemini-companion-test-monkey--command (name)
  "Return the keys that call the command NAME."
  (list "M-x" name "Enter"))

;;;; What the user does

;; Each is (NAME WEIGHT WHERE KEYS).  WHERE is a list of kinds of buffers (see
;; `gemini-companion-monkey--kind') or a symbol; KEYS are a list, or a function
;; of the run that returns one.
(defconst gemini-companion-test-monkey--user-steps
  `((letters 12 (file scratch proposal)
             ,(lambda (run) (list (gemini-companion-test-monkey--random-letters run))))
    (undo 5 (file) ("C-x" "u"))
    (save 2 (file) ("C-x" "C-s"))
    ;; In Ediff's panel this is an error, which discards keys typed ahead.
    (other-buffer 6 (file scratch proposal diff inline list history other)
                  ,(lambda (run)
                     (list "C-x" "b"
                           (gemini-companion-test-monkey--pick
                            run '("a.txt" "b.txt" "mine.txt" "*scratch*"))
                           "Enter")))
    (file-other-window 3 any
                       ,(lambda (run)
                          (list "C-x" "4" "f" "C-a" "C-k"
                                (gemini-companion-test-monkey--file
                                 run (gemini-companion-test-monkey--pick
                                      run '("a.txt" "lib/c.txt" "mine.txt")))
                                "Enter")))
    (buffer-other-window 2 any ("C-x" "4" "b" "mine.txt" "Enter"))
    (other-window 8 any ("C-x" "o"))
    (delete-window 3 any ("C-x" "0"))
    (one-window 2 any ("C-x" "1"))
    (below 3 any ("C-x" "2"))
    (beside 2 any ("C-x" "3"))
    (new-tab 1 any ("C-x" "t" "2"))
    (other-tab 3 tabs ("C-x" "t" "o"))
    (close-tab 1 tabs ("C-x" "t" "0"))
    (new-frame 1 any ("C-x" "5" "2"))
    (other-frame 3 frames ("C-x" "5" "o"))
    (close-frame 2 frames ("C-x" "5" "0"))
    (half-a-command 5 any ("M-x" "forward-li"))
    (search 4 (file scratch) ("C-s" "l"))
    (yes-or-no 3 any ("C-c" "1"))
    (left-or-right 2 any ("C-c" "2"))
    (save-some 2 any ("C-x" "s"))
    (list 4 any ,(gemini-companion-test-monkey--command "gemini-companion-review-list"))
    (history 1 any ,(gemini-companion-test-monkey--command "gemini-companion-history-list"))
    (list-line 3 (list) ("n"))
    (list-visit 8 (list) ("Enter"))
    (list-accept 10 (list) ("a"))
    (list-reject 6 (list) ("r"))
    (accept-by-name 5 any ,(gemini-companion-test-monkey--command "gemini-companion-accept"))
    (reject-by-name 2 any ,(gemini-companion-test-monkey--command "gemini-companion-reject"))
    (next 12 any ,(gemini-companion-test-monkey--command "gemini-companion-review-next"))
    (accept 16 (proposal panel diff inline) ("C-c" "C-c"))
    (reject 10 (proposal panel diff inline) ("C-c" "C-k"))
    (quit 22 (panel diff inline) ("q"))
    (next-difference 4 (panel diff inline) ("n"))
    (previous-difference 2 (panel diff inline) ("p"))
    (other-side 1 (panel) ("a"))
    (drop 2 (inline) ("k"))
    (keep-hunk 2 (inline) ("y"))
    (undo-hunk 2 (inline) ("u"))
    (edit 2 (inline) ("e"))
    (go-back 2 (proposal) ("C-x" "C-s"))
    (other-view 3 (proposal panel diff inline) ("C-c" "C-v"))
    (quit-list 1 (list history other) ("q"))
    (show-old 1 (history) ("Enter"))
    (kill-proposal 2 (proposal) ("C-x" "k" "Enter"))
    (as-on-screen 25 cli ,(lambda (run) (gemini-companion-test-monkey--promised-keys run)))
    (show-cli 12 cli-elsewhere ,(gemini-companion-test-monkey--command "gemini-companion-run"))
    (panel-help 3 cli-panel ("?"))
    (panel-turn 3 cli-panel ("|"))
    (panel-edit 3 cli-panel ("e"))
    (hide-cli 1 (terminal) ("M-x" "gemini-companion-run" "Enter"))
    (leave-cli 5 (terminal) ("C-x" "o"))
    (only-cli 2 (terminal) ("C-c" "1"))
    (file-from-cli 2 (terminal) ("C-c" "4" "b" "mine.txt" "Enter"))
    (next-from-cli 5 (terminal) ("M-x" "gemini-companion-review-next" "Enter"))
    (prompt-cli 20 cli-free
                ,(lambda (run)
                   (append '("C-c" "C-u" "write")
                           (mapcan (lambda (name) (list "Space" name))
                                   (gemini-companion-test-monkey--names run))
                           '("Enter"))))
    (letters-to-cli 2 cli-free
                    ,(lambda (run) (list (gemini-companion-test-monkey--random-letters run))))
    (interrupt 8 (terminal) ("C-c" "C-c"))
    (decide-from-cli 15 cli-asks
                     ,(lambda (run)
                        (list "C-c" "C-c"
                              (gemini-companion-test-monkey--pick run '("a" "a" "r" "g" "q")))))
    (allow-in-cli 6 (terminal) ("Enter"))
    (escape-in-cli 4 (terminal) ("Escape" "Escape")))
  "What the user may do when the minibuffer is not active.")

(defun gemini-companion-test-monkey--names (run)
  "Return some of the files for which changes are proposed, in random order."
  (let ((names (copy-sequence gemini-companion-test-monkey--proposed-files)))
    (cl-loop repeat (1+ (gemini-companion-test-monkey--random run 3))
             for name = (gemini-companion-test-monkey--pick run names)
             collect name
             do (setq names (remove name names)))))

(defun gemini-companion-test-monkey--promised-keys (run)
  "Return keys that the screen of RUN names for accepting, rejecting and so on."
  (let ((promise (gemini-companion-test-monkey--pick
                  run (gemini-companion-test-monkey-terminal-promises
                       (gemini-companion-monkey-emacs run)))))
    (gemini-companion-test-monkey--update-state run)
    (gemini-companion-test-monkey-terminal-note-promise
     (gemini-companion-monkey-terminal run) (cdr promise))
    (car promise)))

(defun gemini-companion-test-monkey--cli-waits-p (run)
  "Return non-nil if Emacs has an open review of the CLI in the terminal of RUN."
  (gemini-companion-test-monkey-terminal-open
   (plist-get (gemini-companion-monkey-state run) :reviews)))

(defconst gemini-companion-test-monkey--prompt-steps
  `((letters-in-prompt 3 ,(lambda (run) (list (gemini-companion-test-monkey--random-letters run))))
    (complete 2 ("C-a" "C-k" "forward-line" "Enter"))
    (leave-prompt 2 ("C-]")))
  "What the user may do in a prompt: lists (NAME WEIGHT KEYS).")

(defconst gemini-companion-test-monkey--search-steps
  `((search-on 2 ("C-s"))
    (search-more 2 ("i"))
    (end-search 2 ("Enter")))
  "What the user may do in a search: lists (NAME WEIGHT KEYS).")

(defun gemini-companion-test-monkey--possible-p (run where keys)
  "Return non-nil if WHERE holds of the Emacs of RUN, and KEYS are for Emacs."
  (let* ((state (gemini-companion-monkey-state run))
         (ours (or (not (eq (plist-get state :kind) 'terminal))
                   (member (car-safe keys) '("C-x" "M-x")))))
    (pcase where
      ('any ours)
      ('tabs (and ours (> (plist-get state :tabs) 1)))
      ('frames (and ours (> (plist-get state :frames) 1)))
      ((and (pred symbolp)
            (let terminal (gemini-companion-monkey-terminal run)))
       (and terminal
            (pcase where
              ('cli (plist-get state :visible))
              ('cli-elsewhere (not (eq (plist-get state :kind) 'terminal)))
              ('cli-panel (eq (plist-get state :kind) 'panel))
              ('cli-asks (and (eq (plist-get state :kind) 'terminal)
                              (gemini-companion-test-monkey--cli-waits-p run)))
              ('cli-free (and (eq (plist-get state :kind) 'terminal)
                              (gemini-companion-test-monkey-terminal-free-p terminal))))))
      (_ (memq (plist-get state :kind) where)))))

(defun gemini-companion-test-monkey--user-step (run)
  "Return the next step of the user in RUN: a name and keys."
  (let* ((state (gemini-companion-monkey-state run))
         (asking (plist-get state :asking)))
    (cond (asking
           (let ((answer (gemini-companion-test-monkey--pick run asking)))
             (list (format "answer %s" (string-trim answer))
                   (if (string-suffix-p "\r" answer)
                       (list (string-trim answer) "Enter")
                     (list answer)))))
          ((> (plist-get state :depth) 0)
           (gemini-companion-test-monkey--pick-weighted run gemini-companion-test-monkey--prompt-steps))
          ((plist-get state :isearch)
           (gemini-companion-test-monkey--pick-weighted run gemini-companion-test-monkey--search-steps))
          (t
           (gemini-companion-test-monkey--pick-weighted
            run
            (delq nil (mapcar (lambda (it)
                                (and (gemini-companion-test-monkey--possible-p run (nth 2 it) (nth 3 it))
                                     (list (nth 0 it) (nth 1 it) (nth 3 it))))
                              gemini-companion-test-monkey--user-steps)))))))

(defun gemini-companion-test-monkey--pick-weighted (run entries)
  "Return the name and the keys of one of ENTRIES at random for RUN.
ENTRIES are lists (NAME WEIGHT KEYS)."
  (let* ((ticket (gemini-companion-test-monkey--random
                  run (apply #'+ (mapcar #'cadr entries))))
         (entry (seq-find (lambda (it) (< (setq ticket (- ticket (nth 1 it))) 0)) entries))
         (keys (nth 2 entry)))
    (list (symbol-name (car entry))
          (if (functionp keys) (funcall keys run) keys))))

;;;; What clients do

(defun gemini-companion-test-monkey--new-client (run name)
  "Connect a client NAME in RUN."
  (let ((emacs (gemini-companion-monkey-emacs run)))
    (push (make-gemini-companion-monkey-client
           :name name
           :cli (fake-cli-connect (gemini-companion-test-tmpdir emacs)
                                  (gemini-companion-test-project emacs)))
          (gemini-companion-monkey-clients run))))

(defun gemini-companion-test-monkey--clients (run state)
  "Return the clients of RUN that are in STATE."
  (seq-filter (lambda (it) (eq (gemini-companion-monkey-client-state it) state))
              (gemini-companion-monkey-clients run)))

(defun gemini-companion-test-monkey--waiting (run client)
  "Return the proposals of RUN whose outcome CLIENT awaits."
  (seq-filter (lambda (it)
                (and (eq (gemini-companion-monkey-proposal-client it) client)
                     (not (gemini-companion-monkey-proposal-outcome it))
                     (not (gemini-companion-monkey-proposal-closed it))))
              (gemini-companion-monkey-proposals run)))

(defun gemini-companion-test-monkey--client-step (run)
  "Return the next step of a client in RUN: a description and a function.
Beside a CLI in a terminal the others do less; then it may be nil."
  (let ((terminal (gemini-companion-monkey-terminal run)))
    (cond ((or (null terminal) (zerop (gemini-companion-test-monkey--random run 4)))
           (gemini-companion-test-monkey--other-client-step run))
          ((gemini-companion-test-monkey-terminal-free-p terminal)
           (gemini-companion-test-monkey--prompt-step run)))))


(defun gemini-companion-test-monkey--prompt-step (run)
  "Return a step of RUN in which the CLI in the terminal gets a prompt."
  (let ((text (string-join (cons "write" (gemini-companion-test-monkey--names run)) " ")))
    (if (< 0 (gemini-companion-test-monkey--random run 4))
        (list (format "the CLI gets: %s" text)
              (lambda ()
                (gemini-companion-test-monkey-terminal-submit
                 (gemini-companion-monkey-terminal run) text)))
      (list (format "Emacs sends: %s" text)
            (lambda ()
              (gemini-companion-test-eval
               (gemini-companion-monkey-emacs run)
               ;; The CLI may ask something.
               `(ignore-error user-error
                  (gemini-companion-cli-send-text ,text t))))))))

(defun gemini-companion-test-monkey--other-client-step (run)
  "Return the next step of a client in RUN that runs in no terminal."
  (let* ((up (gemini-companion-test-monkey--clients run 'up))
         (cut (gemini-companion-test-monkey--clients run 'cut))
         (client (gemini-companion-test-monkey--pick run up))
         (waiting (and client (gemini-companion-test-monkey--waiting run client)))
         (brief (car (gemini-companion-test-monkey--clients run 'brief)))
         (ticket (gemini-companion-test-monkey--random run 20)))
    (cond ((zerop (gemini-companion-test-monkey--random run 4))
           (gemini-companion-test-monkey--tell run brief))
          ((and brief (< 10 ticket 15)) (gemini-companion-test-monkey--kill run brief))
          ((and (not brief) (= ticket 16)) (gemini-companion-test-monkey--join-briefly run))
          ((and cut (< ticket 14)) (gemini-companion-test-monkey--reconnect run (car cut)))
          ((< (length (append up cut)) 2) (gemini-companion-test-monkey--join run))
          ((not client) (gemini-companion-test-monkey--reconnect run (car cut)))
          ((and waiting (< ticket 9))
           (gemini-companion-test-monkey--close
            run (gemini-companion-test-monkey--pick run waiting) (< ticket 7)))
          ((and (= ticket 17) (not cut)) (gemini-companion-test-monkey--disconnect run client))
          ((= ticket 18) (gemini-companion-test-monkey--leave run client))
          (t (gemini-companion-test-monkey--propose run client)))))

(defun gemini-companion-test-monkey--describe-step (client format &rest arguments)
  "Return the description of a step of CLIENT, by FORMAT and ARGUMENTS."
  (format "client %s %s" (gemini-companion-monkey-client-name client)
          (apply #'format format arguments)))

(defun gemini-companion-test-monkey--join (run)
  "Return a step of RUN in which another client connects."
  (let ((name (string (+ ?p (length (gemini-companion-monkey-clients run))))))
    (list (format "client %s connects" name)
          (lambda () (gemini-companion-test-monkey--new-client run name)))))

(defun gemini-companion-test-monkey--propose (run client)
  "Return a step of RUN in which CLIENT proposes a change of some file.
It has no two open proposals for one file."
  (let* ((taken (mapcar #'gemini-companion-monkey-proposal-path
                        (gemini-companion-test-monkey--waiting run client)))
         (path (gemini-companion-test-monkey--pick
                run (seq-difference
                     (mapcar (lambda (it) (gemini-companion-test-monkey--file run it))
                             gemini-companion-test-monkey--proposed-files)
                     taken)))
         (tag (format "%s%d" (gemini-companion-monkey-client-name client)
                      (gemini-companion-monkey-step run)))
         (text (gemini-companion-test-monkey--make-text run tag)))
    (if (not path)
        (gemini-companion-test-monkey--close
         run (car (gemini-companion-test-monkey--waiting run client)) t)
      (list (gemini-companion-test-monkey--describe-step client "proposes %s (%s)"
                                                         (file-name-nondirectory path) tag)
            (lambda ()
              (gemini-companion-test-monkey--record-proposal run client path tag)
              (fake-cli-call-tool (gemini-companion-monkey-client-cli client) "openDiff"
                                  `(:filePath ,path :newContent ,text)))))))

(defun gemini-companion-test-monkey--record-proposal (run client path tag)
  "Record in RUN that CLIENT proposes a change of PATH, called TAG."
  (push (make-gemini-companion-monkey-proposal :client client :path path :tag tag)
        (gemini-companion-monkey-proposals run)))

(defun gemini-companion-test-monkey--make-text (run tag)
  "Return a text to propose in RUN, which TAG distinguishes from others."
  (concat tag "\n"
          (mapconcat (lambda (n)
                       (if (zerop (gemini-companion-test-monkey--random run 4))
                           (format "changed %d\n" n)
                         (format "line %d\n" n)))
                     (number-sequence 2 20) "")))

(defun gemini-companion-test-monkey--close (run proposal quietly)
  "Return a step of RUN in which PROPOSAL is closed by its client.
With QUIETLY non-nil the user has answered there, perhaps with yes."
  (let* ((client (gemini-companion-monkey-proposal-client proposal))
         (path (gemini-companion-monkey-proposal-path proposal))
         (writes (and quietly (zerop (gemini-companion-test-monkey--random run 2)))))
    (list (gemini-companion-test-monkey--describe-step
           client "closes %s%s%s" (gemini-companion-monkey-proposal-tag proposal)
           (if quietly " quietly" "") (if writes " and writes it" ""))
          (lambda ()
            ;; Before the call, whose rejection may come before its answer.
            (setf (gemini-companion-monkey-proposal-closed proposal)
                  (if quietly 'quietly 'aloud))
            (let* ((result (fake-cli-call-tool
                            (gemini-companion-monkey-client-cli client) "closeDiff"
                            `(:filePath ,path ,@(and quietly '(:suppressNotification t)))))
                   (text (fake-cli-closed-text result)))
              (when (and writes text)
                (gemini-companion-test-monkey--write run path text)))))))

(defun gemini-companion-test-monkey--disconnect (_run client)
  "Return a step in which the stream of CLIENT breaks."
  (list (gemini-companion-test-monkey--describe-step client "loses its stream")
        (lambda ()
          (setf (gemini-companion-monkey-client-state client) 'cut)
          (fake-cli-disconnect (gemini-companion-monkey-client-cli client)))))

(defun gemini-companion-test-monkey--reconnect (run client)
  "Return a step of RUN in which CLIENT reopens its stream.
If the server has dropped its session, CLIENT is gone."
  (list (gemini-companion-test-monkey--describe-step client "reopens its stream")
        (lambda ()
          (condition-case nil
              (progn
                (fake-cli--open-stream (gemini-companion-monkey-client-cli client))
                (setf (gemini-companion-monkey-client-state client) 'up))
            (fake-cli-error
             (gemini-companion-test-monkey--mark-gone run client))))))

(defun gemini-companion-test-monkey--mark-gone (run client)
  "Record in RUN that CLIENT is gone, and awaits no outcomes."
  (dolist (proposal (gemini-companion-test-monkey--waiting run client))
    (setf (gemini-companion-monkey-proposal-closed proposal) 'gone))
  (setf (gemini-companion-monkey-client-state client) 'gone))

(defun gemini-companion-test-monkey--leave (run client)
  "Return a step of RUN in which CLIENT ends its session."
  (list (gemini-companion-test-monkey--describe-step client "ends its session")
        (lambda ()
          (fake-cli-terminate (gemini-companion-monkey-client-cli client))
          (gemini-companion-test-monkey--mark-gone run client))))

(defun gemini-companion-test-monkey--join-briefly (run)
  "Return a step of RUN in which a client with its own process connects.
It proposes one change and does nothing else until it is killed."
  (let* ((tag (format "brief%d" (gemini-companion-monkey-step run)))
         (path (gemini-companion-test-monkey--file
                run (gemini-companion-test-monkey--pick run gemini-companion-test-monkey--proposed-files)))
         (text (gemini-companion-test-monkey--make-text run tag)))
    (list (format "client %s connects and proposes %s" tag (file-name-nondirectory path))
          (lambda ()
            (let ((client (make-gemini-companion-monkey-client :name tag :state 'brief)))
              (push client (gemini-companion-monkey-clients run))
              (setf (gemini-companion-monkey-client-process client)
                    (gemini-companion-test-monkey--start-process run path text))
              (gemini-companion-test-monkey--record-proposal run client path tag))))))

(defun gemini-companion-test-monkey--start-process (run path text)
  "Start a process that proposes TEXT for PATH to the Emacs of RUN; return it."
  (let* ((emacs (gemini-companion-monkey-emacs run))
         (form `(progn
                  (require 'fake-cli)
                  (let ((cli (fake-cli-connect ,(gemini-companion-test-tmpdir emacs)
                                               ,(gemini-companion-test-project emacs))))
                    (fake-cli-call-tool cli "openDiff" '(:filePath ,path :newContent ,text))
                    ;; Unlike standard output, it is not buffered.
                    (message "ready")
                    (while t (accept-process-output nil 60)))))
         (output "")
         (process (make-process
                   :name "brief" :noquery t :connection-type 'pipe :sentinel #'ignore
                   :command (list (expand-file-name invocation-name invocation-directory)
                                  "-Q" "--batch" "-L" gemini-companion-test-support-directory
                                  "--eval" (let ((print-escape-newlines t))
                                             (prin1-to-string form)))
                   :filter (lambda (_process text) (setq output (concat output text))))))
    (gemini-companion-test-on-exit process #'delete-process)
    (gemini-companion-test-wait
     (lambda () (concat "a client to propose: " output))
     (lambda () (string-search "ready" output)))
    process))

(defun gemini-companion-test-monkey--kill (run client)
  "Return a step of RUN in which the process of CLIENT is killed."
  (list (gemini-companion-test-monkey--describe-step client "is killed")
        (lambda ()
          (signal-process (gemini-companion-monkey-client-process client) 'SIGKILL)
          (gemini-companion-test-monkey--mark-gone run client))))

(defun gemini-companion-test-monkey--write (run path text)
  "Write TEXT to PATH, as a client does in RUN."
  (setf (alist-get path (gemini-companion-monkey-files run) nil nil #'equal) text)
  (gemini-companion-test-write path text))

;;;; Hooks of clients

(defun gemini-companion-test-monkey--tell (run brief)
  "Return a step of RUN in which a hook tells what a client does.
That is BRIEF, if not nil, or those that run in this process."
  (let* ((brief (and brief (gemini-companion-test-monkey--pick run (list brief nil))))
         (process (if brief (process-id (gemini-companion-monkey-client-process brief))
                    (emacs-pid)))
         (event (gemini-companion-test-monkey--pick
                 run '("start" "prompt" "prompt" "prompt" "asks" "edit" "ran" "done" "end")))
         (text (pcase event
                 ("prompt" (format "prompt %d" (gemini-companion-monkey-step run)))
                 ("asks" "Run: rm")
                 ("end" (gemini-companion-test-monkey--pick run '("exit" "clear"))))))
    (list (format "a hook of %s tells %s %s"
                  (if brief (gemini-companion-monkey-client-name brief) "the others")
                  event (or text ""))
          (lambda ()
            (let ((result (gemini-companion-test-monkey--note-event run process event text)))
              (when (eq (alist-get 'isError result) t)
                (gemini-companion-test-monkey--fault run 10 "A hook was refused: %S" result)))))))

(defun gemini-companion-test-monkey--note-event (run process event text)
  "Tell the Emacs of RUN about EVENT of PROCESS, with TEXT; return its result."
  (let ((emacs (gemini-companion-monkey-emacs run)))
    (fake-cli-call-hidden-tool
     (gemini-companion-test-tmpdir emacs) (gemini-companion-test-project emacs) "noteEvent"
     `(:event ,event :session ,(format "conversation %d" process) :process ,process
              :directory ,(gemini-companion-test-project emacs)
              ,@(and text `(:text ,text))
              ,@(and (equal event "edit")
                     `(:path ,(gemini-companion-test-monkey--file
                               run (gemini-companion-test-monkey--pick
                                    run gemini-companion-test-monkey--proposed-files))))))))

;;;; Notifications of clients

(defun gemini-companion-test-monkey--read-notifications (run)
  "Handle new notifications of the clients of RUN.
A client that is notified of an accept writes the file, as the CLI does."
  (dolist (client (seq-filter #'gemini-companion-monkey-client-cli
                              (gemini-companion-monkey-clients run)))
    (let* ((cli (gemini-companion-monkey-client-cli client))
           (all (reverse (fake-cli-notifications cli)))
           (new (nthcdr (gemini-companion-monkey-client-handled client) all)))
      (setf (gemini-companion-monkey-client-handled client) (length all))
      (dolist (fault (fake-cli-faults cli))
        (gemini-companion-test-monkey--fault run 5 "A client got the invalid %S" fault))
      (dolist (message new)
        (let ((params (alist-get 'params message)))
          (pcase (alist-get 'method message)
            ("ide/diffAccepted"
             (gemini-companion-test-monkey--handle-outcome run client params 'accepted))
            ("ide/diffRejected"
             (gemini-companion-test-monkey--handle-outcome run client params 'rejected))))))))

(defun gemini-companion-test-monkey--handle-outcome (run client params outcome)
  "Handle the notification of CLIENT in RUN of OUTCOME, with PARAMS."
  (let* ((path (alist-get 'filePath params))
         (text (alist-get 'content params))
         (proposal (progn
                     ;; Emacs has recorded it by now.
                     (gemini-companion-test-monkey--update-state run)
                     (gemini-companion-test-monkey--find-proposal run client path outcome text))))
    (if (not proposal)
        (gemini-companion-test-monkey--fault
         run 2 "Client %s was notified that its change to %s was %s, which nobody caused: %S"
         (gemini-companion-monkey-client-name client) path outcome text)
      (unless (or (eq outcome 'rejected) (gemini-companion-monkey-proposal-outcome proposal))
        (gemini-companion-test-monkey--write run path text))
      (setf (gemini-companion-monkey-proposal-outcome proposal) outcome))))

(defun gemini-companion-test-monkey--find-proposal (run client path outcome text)
  "Return the proposal of RUN for PATH that has OUTCOME for CLIENT.
CLIENT may inherit from a session that is cut off.  Emacs has reported
the outcome, if accepted with the same TEXT, or the client itself has
rejected it, or was given a prompt.  Each proposal has one outcome, which
is sent to each session once."
  (seq-find (lambda (it)
              (and (if (eq (gemini-companion-monkey-proposal-client it) client)
                       (not (gemini-companion-monkey-proposal-outcome it))
                     ;; All clients are of one process.  That one may have got it just before.
                     (memq (gemini-companion-monkey-client-state
                            (gemini-companion-monkey-proposal-client it))
                           '(cut gone)))
                   (equal (gemini-companion-monkey-proposal-path it) path)
                   (if (eq outcome 'accepted)
                       (member text (gemini-companion-test-monkey--outcomes run it outcome))
                     (or (eq (gemini-companion-monkey-proposal-closed it) 'aloud)
                         (gemini-companion-test-monkey--outcomes run it outcome)
                         (gemini-companion-test-monkey--outcomes run it 'given-up)))))
            ;; Its own first: another client may have proposed the same file long ago.
            (seq-sort-by (lambda (it) (if (eq (gemini-companion-monkey-proposal-client it) client) 0 1))
                         #'< (reverse (gemini-companion-monkey-proposals run)))))

(defun gemini-companion-test-monkey--outcomes (run proposal outcome)
  "Return the texts with which Emacs reported OUTCOME of PROPOSAL in RUN.
For a rejection that is t."
  (cl-loop for (id what text _path) in (plist-get (gemini-companion-monkey-state run) :outcomes)
           if (and (eq what outcome)
                   (eq proposal (gemini-companion-test-monkey--proposal-by-id run id)))
           collect (or text t)))

(defun gemini-companion-test-monkey--proposal-by-id (run id)
  "Return the proposal of RUN whose review has ID, nil if it is of the terminal."
  (let ((tag (cadr (assq id (plist-get (gemini-companion-monkey-state run) :reviews)))))
    (seq-find (lambda (it) (equal (gemini-companion-monkey-proposal-tag it) tag))
              (gemini-companion-monkey-proposals run))))

;;;; State and faults

(defun gemini-companion-test-monkey--fault (run rule format &rest arguments)
  "Record that RULE is violated in RUN; FORMAT and ARGUMENTS say how."
  (gemini-companion-test-monkey--add-fault run (list rule (apply #'format format arguments))))

(defun gemini-companion-test-monkey--add-fault (run fault)
  "Record FAULT, a rule and a text, in RUN, unless it is to be ignored."
  (let ((ignored (getenv "GEMINI_COMPANION_MONKEY_IGNORE")))
    (unless (and ignored
                 (string-match-p ignored (format "Rule %d: %s" (car fault) (cadr fault))))
      (cl-pushnew fault (gemini-companion-monkey-faults run) :test #'equal))))

(defun gemini-companion-test-monkey--update-state (run)
  "Get the state of the Emacs of RUN, and return it."
  (let ((state (gemini-companion-test-eval (gemini-companion-monkey-emacs run)
                                           '(gemini-companion-monkey-state))))
    (dolist (fault (plist-get state :faults))
      (gemini-companion-test-monkey--add-fault run fault))
    (setf (gemini-companion-monkey-state run) state)))

(defun gemini-companion-test-monkey--settle (run calm)
  "Wait until Emacs has read all keys of RUN and handled all events.
With CALM non-nil, also until it has been idle long enough to show a
review; then check what must hold."
  (gemini-companion-test-monkey--wait
   run 5 "all keys to be read"
   (lambda (state)
     (and (or (>= (plist-get state :events) (gemini-companion-monkey-events run))
              ;; A command that fails discards keys typed ahead.
              (> (plist-get state :idle) 1))
          (not (plist-get state :pending)))))
  (setf (gemini-companion-monkey-events run)
        (plist-get (gemini-companion-monkey-state run) :events))
  (gemini-companion-test-monkey--wait
   run 4 "Emacs and the server to have the same open reviews"
   (lambda (state)
     (gemini-companion-test-monkey--read-notifications run)
     (= (length (plist-get state :open)) (plist-get state :served))))
  (gemini-companion-test-monkey--read-terminal run)
  (when calm
    (gemini-companion-test-monkey--wait
     run 5 "Emacs to be idle"
     (lambda (state) (> (plist-get state :idle) 0.9)))
    (gemini-companion-test-monkey--check-calm run)))

(defun gemini-companion-test-monkey--read-terminal (run)
  "Handle what the CLI in the terminal of RUN has logged, if there is one."
  (when-let* ((terminal (gemini-companion-monkey-terminal run)))
    (dolist (event (gemini-companion-test-monkey-terminal-read terminal))
      (when (equal (alist-get 'event event) "written")
        (setf (alist-get (alist-get 'path event) (gemini-companion-monkey-files run)
                         nil nil #'equal)
              (alist-get 'text event))))
    (dolist (fault (gemini-companion-test-monkey-terminal-faults terminal))
      (gemini-companion-test-monkey--add-fault run fault))))

(defun gemini-companion-test-monkey--check-terminal (run)
  "Record faults in RUN if Emacs and the CLI in the terminal disagree."
  (when-let* ((terminal (gemini-companion-monkey-terminal run)))
    (pcase-dolist (`(,rule ,what ,function)
                   '((8 "reviews that the CLI waits for"
                        gemini-companion-test-monkey-terminal-orphan)
                     (8 "what the CLI waits for" gemini-companion-test-monkey-terminal-unknown)
                     (9 "the history to be true" gemini-companion-test-monkey-terminal-untrue)))
      (let ((wrong nil))
        (gemini-companion-test-monkey--wait
         run rule (lambda () (format "%s: %s" what wrong))
         (lambda (state)
           (gemini-companion-test-monkey--read-terminal run)
           (null (setq wrong (funcall function terminal (plist-get state :reviews))))))))))

(defun gemini-companion-test-monkey--wait (run rule what predicate)
  "Wait until PREDICATE holds of the state of RUN, or record a fault of RULE.
WHAT describes what is waited for."
  (condition-case problem
      (gemini-companion-test-wait
       what
       (lambda ()
         (let ((state (gemini-companion-test-monkey--update-state run)))
           (or (gemini-companion-monkey-faults run)
               (funcall predicate state))))
       8)
    (error
     (gemini-companion-test-monkey--fault
      run rule "%s: %S" (error-message-string problem)
      (cl-loop for (key value) on (gemini-companion-monkey-state run) by #'cddr
               unless (memq key '(:outcomes :faults)) nconc (list key value))))))

;;;; What must hold when Emacs is idle

(defun gemini-companion-test-monkey--check-calm (run)
  "Record faults in RUN, while nothing is happening."
  (gemini-companion-test-monkey--check-terminal run)
  (gemini-companion-test-monkey--wait
   run 6 "unmodified buffers to have the text of their files"
   (lambda (state) (null (plist-get state :stale))))
  (gemini-companion-test-monkey--wait
   run 4 "the buffers of ended reviews to be killed"
   (lambda (state)
     (or (null (plist-get state :leftover))
         ;; Windows need not change while the user is busy.
         (gemini-companion-test-monkey--busy-p state))))
  (gemini-companion-test-monkey--wait
   run 10 "CLIs whose process has ended to be forgotten"
   (lambda (state) (null (plist-get state :dead))))
  (gemini-companion-test-monkey--check-shown run)
  (gemini-companion-test-monkey--check-files run)
  (gemini-companion-test-monkey--check-notified run))

(defun gemini-companion-test-monkey--busy-p (state)
  "Return non-nil if the user is busy in STATE."
  (or (> (plist-get state :depth) 0)
      (plist-get state :isearch)
      (plist-get state :asking)))

(defun gemini-companion-test-monkey--check-shown (run)
  "Record a fault if no review of RUN is shown though one may be."
  (gemini-companion-test-monkey--wait
   run 4 "a review to be shown"
   (lambda (state)
     (or (not (memq (plist-get (gemini-companion-monkey-options run) :focus) '(keep select)))
         (not (eq (plist-get (gemini-companion-monkey-options run) :policy) 'pop-up))
         (gemini-companion-test-monkey--busy-p state)
         (plist-get state :visible)
         (> (plist-get state :tabs) 1)
         ;; A review that was visible may have been postponed.
         (seq-intersection (plist-get state :open) (plist-get state :displayed))
         (null (plist-get state :open))))))

(defun gemini-companion-test-monkey--check-files (run)
  "Record a fault if a file of RUN was written unexpectedly."
  (dolist (name (cons "mine.txt" gemini-companion-test-monkey--proposed-files))
    (let* ((file (gemini-companion-test-monkey--file run name))
           (text (and (file-exists-p file) (gemini-companion-test-read file)))
           (known (alist-get file (gemini-companion-monkey-files run) nil nil #'equal)))
      (unless (or (equal text known) (gemini-companion-monkey-saved run))
        (gemini-companion-test-monkey--fault run 6 "%s was written unexpectedly: %S instead of %S"
                                             name text known))
      (setf (alist-get file (gemini-companion-monkey-files run) nil nil #'equal) text)))
  (setf (gemini-companion-monkey-saved run) nil))

(defun gemini-companion-test-monkey--check-notified (run)
  "Record a fault if a client of RUN was not notified of an outcome."
  (gemini-companion-test-monkey--wait
   run 2 "each connected client to be notified of each outcome"
   (lambda (state)
     (gemini-companion-test-monkey--read-notifications run)
     (cl-loop for (id _outcome _text path) in (plist-get state :outcomes)
              for proposal = (gemini-companion-test-monkey--proposal-by-id run id)
              do (unless (or (null proposal)
                             (equal path (gemini-companion-monkey-proposal-path proposal)))
                   (gemini-companion-test-monkey--fault run 2 "Review %d is of %s" id path))
              always (or (null proposal)
                         (gemini-companion-monkey-proposal-outcome proposal)
                         (not (eq (gemini-companion-monkey-client-state
                                   (gemini-companion-monkey-proposal-client proposal))
                                  'up)))))))

;;;; A run

(defun gemini-companion-test-monkey--choose-options (run)
  "Choose random options for the whole RUN."
  (setf (gemini-companion-monkey-random run) (* 6007 (gemini-companion-monkey-seed run)))
  (dotimes (_ 3) (gemini-companion-test-monkey--random run 2))
  (setf (gemini-companion-monkey-options run)
        (list :policy (gemini-companion-test-monkey--pick run '(pop-up pop-up pop-up queue))
              :focus (gemini-companion-test-monkey--pick run '(keep keep keep select announce))
              :view (gemini-companion-test-monkey--pick
                     run '(gemini-companion-review-ediff-show gemini-companion-review-inline-show
                                                              gemini-companion-review-inline-show))
              :repeat (zerop (gemini-companion-test-monkey--random run 4)))))

(defun gemini-companion-test-monkey--prepare (run)
  "Prepare the Emacs of RUN for its first step."
  (let ((emacs (gemini-companion-monkey-emacs run))
        (options (gemini-companion-monkey-options run)))
    (dolist (name '("b.txt" "mine.txt" "a.txt"))
      (gemini-companion-test-visit emacs name))
    (gemini-companion-test-eval
     emacs
     `(progn
        (load ,(gemini-companion-test-path "test" "support"
                                           "gemini-companion-test-monkey-inner.el")
              nil t)
        (setq gemini-companion-diff-policy ',(plist-get options :policy)
              gemini-companion-diff-focus ',(plist-get options :focus)
              gemini-companion-diff-function ',(plist-get options :view))
        (when ,(and (plist-get options :repeat) t) (repeat-mode 1))
        (gemini-companion-monkey-start)))
    (gemini-companion-test-wait-announced emacs (gemini-companion-test-project emacs))
    (gemini-companion-test-monkey--new-client run "p")
    (if (not (gemini-companion-monkey-terminal run))
        (gemini-companion-test-monkey--new-client run "q")
      (setf (gemini-companion-monkey-terminal run)
            (gemini-companion-test-monkey-terminal-start emacs)))
    (setf (gemini-companion-monkey-events run)
          (plist-get (gemini-companion-test-monkey--update-state run) :events))))

(defun gemini-companion-test-monkey--files ()
  "Return the files of a run and their texts."
  (let ((text (mapconcat (lambda (n) (format "line %d\n" n)) (number-sequence 1 20) "")))
    (mapcar (lambda (name) (cons name text)) '("a.txt" "b.txt" "lib/c.txt" "mine.txt"))))

(defun gemini-companion-test-monkey--perform (run step)
  "Perform STEP of RUN, a description with keys or a function; do not wait."
  (pcase-let ((`(,words ,what) step))
    (push (format "%3d  %s%s" (gemini-companion-monkey-step run) words
                  (if (functionp what) "" (format "  %s" (string-join what " "))))
          (gemini-companion-monkey-log run))
    (if (functionp what)
        (funcall what)
      (when (string-match-p "\\`\\(?:save\\|answer\\)" words)
        (setf (gemini-companion-monkey-saved run) t))
      (gemini-companion-test-monkey--expect-interrupt run words)
      (gemini-companion-test-monkey--press run what))))

(defun gemini-companion-test-monkey--expect-interrupt (run words)
  "Record in RUN if the step WORDS may cancel a turn of the CLI in its terminal."
  (when-let* ((terminal (gemini-companion-monkey-terminal run)))
    (when (or (equal words "answer c")
              (and (equal words "interrupt")
                   (not (gemini-companion-test-monkey--cli-waits-p run))))
      (gemini-companion-test-monkey-terminal-allow terminal))))

(defun gemini-companion-test-monkey--step (run)
  "Perform one step of RUN, or two concurrently, and check the result."
  (gemini-companion-test-monkey--begin-step run)
  (let* ((kind (gemini-companion-test-monkey--random run 10))
         (calm (< (gemini-companion-test-monkey--random run 10) 4))
         (open (plist-get (gemini-companion-monkey-state run) :open))
         (user (gemini-companion-test-monkey--user-step run))
         (client (gemini-companion-test-monkey--client-step run))
         (steps (cond ((and (null open) (< kind 6)) (list client))
                      ((< kind 5) (list user))
                      ((< kind 7) (list client))
                      ((= kind 7) (list client user))
                      (t (list user client)))))
    (setq steps (or (delq nil steps) (list user)))
    (condition-case problem
        (dolist (step steps) (gemini-companion-test-monkey--perform run step))
      (error
       (gemini-companion-test-monkey--fault run 5 "A step failed: %S" problem)))
    (when (cdr steps)
      (push "     (concurrently)" (gemini-companion-monkey-log run)))
    (gemini-companion-test-monkey--settle run calm)))

(defvar gemini-companion-test-monkey-last nil
  "The last run.")

(defun gemini-companion-test-monkey-summary ()
  "Return the numbers of proposals and outcomes of the last run, as text."
  (let ((outcomes (plist-get (gemini-companion-monkey-state gemini-companion-test-monkey-last)
                             :outcomes)))
    (format "%d proposed, %d shown, %d accepted, %d rejected%s"
            (length (gemini-companion-monkey-proposals gemini-companion-test-monkey-last))
            (length (plist-get (gemini-companion-monkey-state gemini-companion-test-monkey-last)
                               :displayed))
            (seq-count (lambda (it) (eq (nth 1 it) 'accepted)) outcomes)
            (seq-count (lambda (it) (eq (nth 1 it) 'rejected)) outcomes)
            (let ((terminal (gemini-companion-monkey-terminal gemini-companion-test-monkey-last)))
              (if terminal (gemini-companion-test-monkey-terminal-summary terminal) "")))))

(defun gemini-companion-test-monkey-run (seed steps &optional terminal)
  "Run STEPS random steps with SEED; return nil, or a report of faults.
With TERMINAL non-nil, a CLI runs in a terminal of Emacs."
  (let ((run (make-gemini-companion-monkey :seed seed :terminal (and terminal t))))
    (setq gemini-companion-test-monkey-last run)
    (gemini-companion-test-monkey--choose-options run)
    (gemini-companion-test-with-emacs (emacs :files (gemini-companion-test-monkey--files))
      (setf (gemini-companion-monkey-emacs run) emacs
            (gemini-companion-monkey-files run)
            (mapcar (lambda (it) (cons (gemini-companion-test-monkey--file run (car it)) (cdr it)))
                    (gemini-companion-test-monkey--files)))
      (unwind-protect
          (progn
            (gemini-companion-test-monkey--prepare run)
            (while (and (< (gemini-companion-monkey-step run) steps)
                        (not (gemini-companion-monkey-faults run)))
              (gemini-companion-test-monkey--step run))
            (unless (gemini-companion-monkey-faults run)
              (gemini-companion-test-monkey--settle run t))
            (and (gemini-companion-monkey-faults run)
                 (gemini-companion-test-monkey--report run)))
        (when (gemini-companion-monkey-terminal-p (gemini-companion-monkey-terminal run))
          (gemini-companion-test-monkey-terminal-stop (gemini-companion-monkey-terminal run)))
        (mapc #'gemini-companion-test-monkey--end-client
              (gemini-companion-monkey-clients run))))))

(defun gemini-companion-test-monkey--end-client (client)
  "Disconnect CLIENT, or end its process."
  (ignore-errors
    (if (gemini-companion-monkey-client-process client)
        (progn
          (delete-process (gemini-companion-monkey-client-process client))
          (gemini-companion-test-forget (gemini-companion-monkey-client-process client)))
      (fake-cli-disconnect (gemini-companion-monkey-client-cli client)))))

(defun gemini-companion-test-monkey--report (run)
  "Return a report of the faults of RUN, its steps, and how to repeat it."
  (let ((emacs (gemini-companion-monkey-emacs run)))
    (concat
     (mapconcat (lambda (fault) (format "Rule %d: %s\n" (car fault) (cadr fault)))
                (reverse (gemini-companion-monkey-faults run)) "")
     (format "Seed %d, step %d, %S\n" (gemini-companion-monkey-seed run)
             (gemini-companion-monkey-step run) (gemini-companion-monkey-options run))
     (string-join (reverse (gemini-companion-monkey-log run)) "\n")
     "\nThe last commands, the newest first:\n"
     (mapconcat (lambda (it) (concat "     " it))
                (ignore-errors (gemini-companion-test-eval
                                emacs '(seq-take gemini-companion-monkey--recent-commands 12)))
                "\n")
     (if (gemini-companion-monkey-terminal-p (gemini-companion-monkey-terminal run))
         (concat "\nThe CLI in the terminal:\n"
                 (gemini-companion-test-monkey-terminal-describe
                  (gemini-companion-monkey-terminal run)))
       "")
     (format "\n%s\n"
             (gemini-companion-test-squeeze (gemini-companion-test-screen emacs)))
     (format "To repeat: GEMINI_COMPANION_MONKEY_SEED=%d GEMINI_COMPANION_MONKEY_STEPS=%d \
%sEMACS=%s make test SUITE=e2e MATCH=monkey/replay\n"
             (gemini-companion-monkey-seed run) (gemini-companion-monkey-step run)
             (if (gemini-companion-monkey-terminal run) "GEMINI_COMPANION_MONKEY_TERMINAL=1 " "")
             (gemini-companion-test-emacs-program emacs)))))

(provide 'gemini-companion-test-monkey)
;;; gemini-companion-test-monkey.el ends here

;;; gemini-companion-test-hands.el --- Hands and clients that act at the same moment  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Presses keys in an interactive Emacs as a user might, while clients propose
;; and close changes, and come and go; what comes next is drawn by lot, and so
;; is whether it waits for what came before.  After each group of steps it is
;; looked at whether Emacs still keeps what it promises:
;;
;; 1. What is typed goes where the user is, and a prompt stays until he ends it.
;; 2. An outcome was asked for by a user, of a review that he saw, or by the
;;    client; there is one of each review, and its text is what he saw.
;; 3. Windows that are not the review's stay as the user left them.
;; 4. Emacs and the server know of the same reviews; nothing is left of others;
;;    a review that may be shown is shown.
;; 5. No error ends anywhere, and Emacs answers.
;; 6. A buffer that counts as saved says what its file says; only a client that
;;    heard an accept, or the user, has written that.
;;
;; What the user sees and does is watched from inside, by the functions of
;; `gemini-companion-test-hands-inner'.
;;
;; A run depends on a seed and the number of steps alone, but for the timing of
;; Emacs.  Each step draws from lots of its own; so one that turns out otherwise
;; leaves later ones as they were, as far as they are possible then.
;;
;;   (gemini-companion-test-hands-run 7 40)
;;
;; returns nil, or a report that ends with the command that plays it again.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'fake-cli)
(require 'gemini-companion-test-client)
(require 'gemini-companion-test-emacs)

(cl-defstruct (gemini-companion-hands (:copier nil))
  "One run."
  (seed nil :documentation "From which all is drawn.")
  (emacs nil :documentation "The Emacs under test.")
  (step 0 :documentation "The number of the step.")
  (lot 0 :documentation "From which the next number is drawn.")
  (options nil :documentation "What was drawn for the whole run, a plist.")
  (events 0 :documentation "How many events Emacs must have read.")
  (state nil :documentation "What it looked like at last; see the function in Emacs.")
  (clients nil :documentation "The clients, living and dead.")
  (proposals nil :documentation "All proposals of all clients, the newest first.")
  (disk nil :documentation "Alist of files and the text that they should have.")
  (saved nil :documentation "Non-nil if the user may have written a file.")
  (trail nil :documentation "The steps in words, the newest first.")
  (faults nil :documentation "What was found, lists of a rule and a text."))

(cl-defstruct (gemini-companion-hands-client (:copier nil))
  "One client."
  (name nil :documentation "A letter.")
  (cli nil :documentation "The connection, see `fake-cli'; nil with a process of its own.")
  (process nil :documentation "That process.")
  (heard 0 :documentation "How many of its notifications were understood.")
  (state 'up :documentation "`up', `cut' without its stream, `mortal' or `gone'."))

(cl-defstruct (gemini-companion-hands-proposal (:copier nil))
  "What a client proposed."
  client path
  (tag nil :documentation "What it is called: its client and the step.")
  (told nil :documentation "The outcomes that the client heard.")
  (closed nil :documentation "How the client closed it, or nil."))

(defconst gemini-companion-test-hands--names '("a.txt" "b.txt" "lib/c.txt" "new.txt")
  "The files that clients propose changes of; the last does not exist.")

;;;; Lots

(defun gemini-companion-test-hands--draw (run count)
  "Return a number below COUNT, drawn from the lot of RUN."
  (let ((lot (mod (+ (* 1103515245 (gemini-companion-hands-lot run)) 12345) 2147483648)))
    (setf (gemini-companion-hands-lot run) lot)
    (mod (ash lot -12) count)))

(defun gemini-companion-test-hands--pick (run list)
  "Return an element of LIST, drawn from the lot of RUN."
  (and list (nth (gemini-companion-test-hands--draw run (length list)) list)))

(defun gemini-companion-test-hands--begin-step (run)
  "Begin the next step of RUN, with a lot of its own."
  (let ((step (cl-incf (gemini-companion-hands-step run))))
    (setf (gemini-companion-hands-lot run)
          (mod (+ (* 7919 (gemini-companion-hands-seed run)) (* 104729 step)) 2147483648))
    (dotimes (_ 3) (gemini-companion-test-hands--draw run 2))))

;;;; Keys

(defun gemini-companion-test-hands--count (key)
  "Return how many events KEY is, as Emacs reads it from a terminal."
  (cond ((member key '("Enter" "Space" "Tab")) 1)
        ((string-prefix-p "M-" key) 2)
        ((string-prefix-p "C-" key) 1)
        (t (length key))))

(defun gemini-companion-test-hands--press (run keys)
  "Press KEYS, a list, in the Emacs of RUN and wait for nothing."
  (cl-incf (gemini-companion-hands-events run)
           (apply #'+ (mapcar #'gemini-companion-test-hands--count keys)))
  (apply #'gemini-companion-test-keys (gemini-companion-hands-emacs run) keys))

(defun gemini-companion-test-hands--file (run name)
  "Return the file NAME in the project of RUN."
  (gemini-companion-test-project (gemini-companion-hands-emacs run) name))

(defun gemini-companion-test-hands--letters (run)
  "Return letters to type in RUN; they are no commands where they are no text."
  (mapconcat (lambda (_) (gemini-companion-test-hands--pick run '("x" "X" "Y")))
             (make-list (+ 2 (gemini-companion-test-hands--draw run 6)) nil) ""))

(defun gemini-companion-test-hands--command (name)
  "Return the keys that call the command NAME."
  (list "M-x" name "Enter"))

;;;; What the user does

;; Each is (NAME WEIGHT WHERE KEYS).  WHERE is a list of what the user may be
;; in, `any' for anything but a prompt, and KEYS are a list or a function of
;; the run that returns one.
(defconst gemini-companion-test-hands--user-steps
  `((letters 12 (file scratch proposal)
             ,(lambda (run) (list (gemini-companion-test-hands--letters run))))
    (undo 5 (file) ("C-x" "u"))
    (save 2 (file) ("C-x" "C-s"))
    ;; Ediff's panel refuses, and what was typed ahead is lost.
    (other-buffer 6 (file scratch proposal diff list history other)
                  ,(lambda (run)
                     (list "C-x" "b"
                           (gemini-companion-test-hands--pick
                            run '("a.txt" "b.txt" "mine.txt" "*scratch*"))
                           "Enter")))
    (file-other-window 3 any
                       ,(lambda (run)
                          (list "C-x" "4" "f" "C-a" "C-k"
                                (gemini-companion-test-hands--file
                                 run (gemini-companion-test-hands--pick
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
    (list 4 any ,(gemini-companion-test-hands--command "gemini-companion-review-list"))
    (history 1 any ,(gemini-companion-test-hands--command "gemini-companion-review-history"))
    (list-line 3 (list) ("n"))
    (list-visit 8 (list) ("Enter"))
    (list-accept 10 (list) ("a"))
    (list-reject 6 (list) ("r"))
    (accept-by-name 5 any ,(gemini-companion-test-hands--command "gemini-companion-accept"))
    (reject-by-name 2 any ,(gemini-companion-test-hands--command "gemini-companion-reject"))
    (next 12 any ,(gemini-companion-test-hands--command "gemini-companion-review-next"))
    (accept 16 (proposal panel diff) ("C-c" "C-c"))
    (reject 10 (proposal panel diff) ("C-c" "C-k"))
    (quit 22 (panel diff) ("q"))
    (next-difference 4 (panel diff) ("n"))
    (previous-difference 2 (panel diff) ("p"))
    (other-side 1 (panel) ("a"))
    (drop 2 (diff) ("k"))
    (edit 2 (diff) ("e"))
    (quit-list 1 (list history other) ("q"))
    (show-old 1 (history) ("Enter"))
    (kill-proposal 2 (proposal) ("C-x" "k" "Enter")))
  "What the user may do when no prompt is open.")

(defconst gemini-companion-test-hands--prompt-steps
  `((letters-in-prompt 3 ,(lambda (run) (list (gemini-companion-test-hands--letters run))))
    (complete 2 ("C-a" "C-k" "forward-line" "Enter"))
    (leave-prompt 2 ("C-]")))
  "What the user may do in a prompt, as above, but for the place.")

(defconst gemini-companion-test-hands--search-steps
  `((search-on 2 ("C-s"))
    (search-more 2 ("i"))
    (end-search 2 ("Enter")))
  "What the user may do in a search.")

(defun gemini-companion-test-hands--possible-p (run where)
  "Return non-nil if the user of RUN is in WHERE."
  (let ((state (gemini-companion-hands-state run)))
    (pcase where
      ('any t)
      ('tabs (> (plist-get state :tabs) 1))
      ('frames (> (plist-get state :frames) 1))
      (_ (memq (plist-get state :kind) where)))))

(defun gemini-companion-test-hands--user-step (run)
  "Return what the user does next in RUN: a name and keys."
  (let* ((state (gemini-companion-hands-state run))
         (asking (plist-get state :asking)))
    (cond (asking
           (let ((answer (gemini-companion-test-hands--pick run asking)))
             (list (format "answer %s" (string-trim answer))
                   (if (string-suffix-p "\r" answer)
                       (list (string-trim answer) "Enter")
                     (list answer)))))
          ((> (plist-get state :depth) 0)
           (gemini-companion-test-hands--lot run gemini-companion-test-hands--prompt-steps))
          ((plist-get state :isearch)
           (gemini-companion-test-hands--lot run gemini-companion-test-hands--search-steps))
          (t
           (gemini-companion-test-hands--lot
            run
            (delq nil (mapcar (lambda (it)
                                (and (gemini-companion-test-hands--possible-p run (nth 2 it))
                                     (list (nth 0 it) (nth 1 it) (nth 3 it))))
                              gemini-companion-test-hands--user-steps)))))))

(defun gemini-companion-test-hands--lot (run entries)
  "Draw one of ENTRIES, lists (NAME WEIGHT KEYS), for RUN; return name and keys."
  (let* ((ticket (gemini-companion-test-hands--draw
                  run (apply #'+ (mapcar #'cadr entries))))
         (entry (seq-find (lambda (it) (< (setq ticket (- ticket (nth 1 it))) 0)) entries))
         (keys (nth 2 entry)))
    (list (symbol-name (car entry))
          (if (functionp keys) (funcall keys run) keys))))

;;;; What clients do

(defun gemini-companion-test-hands--new-client (run name)
  "Connect a client NAME in RUN."
  (let ((emacs (gemini-companion-hands-emacs run)))
    (push (make-gemini-companion-hands-client
           :name name
           :cli (fake-cli-connect (gemini-companion-test-tmpdir emacs)
                                  (gemini-companion-test-project emacs)))
          (gemini-companion-hands-clients run))))

(defun gemini-companion-test-hands--clients (run state)
  "Return the clients of RUN that are in STATE."
  (seq-filter (lambda (it) (eq (gemini-companion-hands-client-state it) state))
              (gemini-companion-hands-clients run)))

(defun gemini-companion-test-hands--waiting (run client)
  "Return the proposals of RUN for which CLIENT waits."
  (seq-filter (lambda (it)
                (and (eq (gemini-companion-hands-proposal-client it) client)
                     (not (gemini-companion-hands-proposal-told it))
                     (not (gemini-companion-hands-proposal-closed it))))
              (gemini-companion-hands-proposals run)))

(defun gemini-companion-test-hands--client-step (run)
  "Return what a client does next in RUN: words, and a function that does it."
  (let* ((up (gemini-companion-test-hands--clients run 'up))
         (cut (gemini-companion-test-hands--clients run 'cut))
         (client (gemini-companion-test-hands--pick run up))
         (waiting (and client (gemini-companion-test-hands--waiting run client)))
         (mortal (car (gemini-companion-test-hands--clients run 'mortal)))
         (ticket (gemini-companion-test-hands--draw run 20)))
    (cond ((and mortal (< 10 ticket 15)) (gemini-companion-test-hands--die run mortal))
          ((and (not mortal) (= ticket 16)) (gemini-companion-test-hands--bear run))
          ((and cut (< ticket 14)) (gemini-companion-test-hands--reconnect run (car cut)))
          ((< (length (append up cut)) 2) (gemini-companion-test-hands--join run))
          ((not client) (gemini-companion-test-hands--reconnect run (car cut)))
          ((and waiting (< ticket 9))
           (gemini-companion-test-hands--close
            run (gemini-companion-test-hands--pick run waiting) (< ticket 7)))
          ((and (= ticket 17) (not cut)) (gemini-companion-test-hands--cut run client))
          ((= ticket 18) (gemini-companion-test-hands--leave run client))
          (t (gemini-companion-test-hands--propose run client)))))

(defun gemini-companion-test-hands--words (client format &rest arguments)
  "Return what CLIENT does in words: FORMAT and ARGUMENTS."
  (format "client %s %s" (gemini-companion-hands-client-name client)
          (apply #'format format arguments)))

(defun gemini-companion-test-hands--join (run)
  "Return a step of RUN in which another client comes."
  (let ((name (string (+ ?p (length (gemini-companion-hands-clients run))))))
    (list (format "client %s comes" name)
          (lambda () (gemini-companion-test-hands--new-client run name)))))

(defun gemini-companion-test-hands--propose (run client)
  "Return a step of RUN in which CLIENT proposes a change of some file.
It does not ask twice for one file."
  (let* ((taken (mapcar #'gemini-companion-hands-proposal-path
                        (gemini-companion-test-hands--waiting run client)))
         (path (gemini-companion-test-hands--pick
                run (seq-difference
                     (mapcar (lambda (it) (gemini-companion-test-hands--file run it))
                             gemini-companion-test-hands--names)
                     taken)))
         (tag (format "%s%d" (gemini-companion-hands-client-name client)
                      (gemini-companion-hands-step run)))
         (text (gemini-companion-test-hands--change run tag)))
    (if (not path)
        (gemini-companion-test-hands--close
         run (car (gemini-companion-test-hands--waiting run client)) t)
      (list (gemini-companion-test-hands--words client "proposes %s (%s)"
                                                (file-name-nondirectory path) tag)
            (lambda ()
              (gemini-companion-test-hands--note-proposal run client path tag)
              (fake-cli-call-tool (gemini-companion-hands-client-cli client) "openDiff"
                                  `(:filePath ,path :newContent ,text)))))))

(defun gemini-companion-test-hands--note-proposal (run client path tag)
  "Note in RUN that CLIENT proposes a change of PATH, called TAG."
  (push (make-gemini-companion-hands-proposal :client client :path path :tag tag)
        (gemini-companion-hands-proposals run)))

(defun gemini-companion-test-hands--change (run tag)
  "Return a text to propose in RUN that TAG tells from others."
  (concat tag "\n"
          (mapconcat (lambda (n)
                       (if (zerop (gemini-companion-test-hands--draw run 4))
                           (format "changed %d\n" n)
                         (format "line %d\n" n)))
                     (number-sequence 2 20) "")))

(defun gemini-companion-test-hands--close (run proposal quietly)
  "Return a step of RUN in which PROPOSAL is closed by its client.
With QUIETLY non-nil its user has answered there; he may have said yes."
  (let* ((client (gemini-companion-hands-proposal-client proposal))
         (path (gemini-companion-hands-proposal-path proposal))
         (writes (and quietly (zerop (gemini-companion-test-hands--draw run 2)))))
    (list (gemini-companion-test-hands--words
           client "closes %s%s%s" (gemini-companion-hands-proposal-tag proposal)
           (if quietly " quietly" "") (if writes " and writes it" ""))
          (lambda ()
            ;; First: what it hears meanwhile may be the answer to this.
            (setf (gemini-companion-hands-proposal-closed proposal)
                  (if quietly 'quietly 'aloud))
            (let* ((result (fake-cli-call-tool
                            (gemini-companion-hands-client-cli client) "closeDiff"
                            `(:filePath ,path ,@(and quietly '(:suppressNotification t)))))
                   (text (gemini-companion-test-hands--closed-text result)))
              (when (and writes text)
                (gemini-companion-test-hands--write run path text)))))))

(defun gemini-companion-test-hands--closed-text (result)
  "Return the text in RESULT, that of a review that was closed, or nil."
  (and (not (alist-get 'isError result))
       (let ((text (alist-get 'content
                              (gemini-companion-test-json-decode
                               (encode-coding-string (fake-cli-result-text result) 'utf-8)))))
         (and (stringp text) text))))

(defun gemini-companion-test-hands--cut (_run client)
  "Return a step in which the stream of CLIENT breaks."
  (list (gemini-companion-test-hands--words client "loses its stream")
        (lambda ()
          (setf (gemini-companion-hands-client-state client) 'cut)
          (fake-cli-disconnect (gemini-companion-hands-client-cli client)))))

(defun gemini-companion-test-hands--reconnect (run client)
  "Return a step of RUN in which CLIENT opens its stream again.
If the server has forgotten it, it connects anew."
  (list (gemini-companion-test-hands--words client "opens its stream again")
        (lambda ()
          (condition-case nil
              (progn
                (fake-cli--open-stream (gemini-companion-hands-client-cli client))
                (setf (gemini-companion-hands-client-state client) 'up))
            (fake-cli-error
             (gemini-companion-test-hands--gone run client))))))

(defun gemini-companion-test-hands--gone (run client)
  "CLIENT is gone from RUN; nobody waits for its proposals."
  (dolist (proposal (gemini-companion-test-hands--waiting run client))
    (setf (gemini-companion-hands-proposal-closed proposal) 'gone))
  (setf (gemini-companion-hands-client-state client) 'gone))

(defun gemini-companion-test-hands--leave (run client)
  "Return a step of RUN in which CLIENT ends its session."
  (list (gemini-companion-test-hands--words client "ends its session")
        (lambda ()
          (fake-cli-terminate (gemini-companion-hands-client-cli client))
          (gemini-companion-test-hands--gone run client))))

(defun gemini-companion-test-hands--bear (run)
  "Return a step of RUN in which a client with a process of its own comes.
It proposes one change and does nothing else until it dies."
  (let* ((tag (format "mortal%d" (gemini-companion-hands-step run)))
         (path (gemini-companion-test-hands--file
                run (gemini-companion-test-hands--pick run gemini-companion-test-hands--names)))
         (text (gemini-companion-test-hands--change run tag)))
    (list (format "client %s comes and proposes %s" tag (file-name-nondirectory path))
          (lambda ()
            (let ((client (make-gemini-companion-hands-client :name tag :state 'mortal)))
              (push client (gemini-companion-hands-clients run))
              (setf (gemini-companion-hands-client-process client)
                    (gemini-companion-test-hands--start-mortal run path text))
              (gemini-companion-test-hands--note-proposal run client path tag))))))

(defun gemini-companion-test-hands--start-mortal (run path text)
  "Start a process that proposes TEXT for PATH to the Emacs of RUN; return it."
  (let* ((emacs (gemini-companion-hands-emacs run))
         (form `(progn
                  (require 'fake-cli)
                  (let ((cli (fake-cli-connect ,(gemini-companion-test-tmpdir emacs)
                                               ,(gemini-companion-test-project emacs))))
                    (fake-cli-call-tool cli "openDiff" '(:filePath ,path :newContent ,text))
                    ;; Unlike what is printed, it is not held back.
                    (message "ready")
                    (while t (accept-process-output nil 60)))))
         (said "")
         (process (make-process
                   :name "mortal" :noquery t :connection-type 'pipe :sentinel #'ignore
                   :command (list (expand-file-name invocation-name invocation-directory)
                                  "-Q" "--batch" "-L" gemini-companion-test-support-directory
                                  "--eval" (let ((print-escape-newlines t))
                                             (prin1-to-string form)))
                   :filter (lambda (_process text) (setq said (concat said text))))))
    (gemini-companion-test-on-exit process #'delete-process)
    (gemini-companion-test-wait
     (lambda () (concat "a client to propose: " said))
     (lambda () (string-search "ready" said)))
    process))

(defun gemini-companion-test-hands--die (run client)
  "Return a step of RUN in which CLIENT, a process, is killed."
  (list (gemini-companion-test-hands--words client "dies")
        (lambda ()
          (signal-process (gemini-companion-hands-client-process client) 'SIGKILL)
          (gemini-companion-test-hands--gone run client))))

(defun gemini-companion-test-hands--write (run path text)
  "Write TEXT to PATH, as a client does in RUN."
  (setf (alist-get path (gemini-companion-hands-disk run) nil nil #'equal) text)
  (gemini-companion-test-write path text))

;;;; What clients hear

(defun gemini-companion-test-hands--hear (run)
  "Let the clients of RUN understand what they were told.
One that hears of an accept writes the file, as the CLI does."
  (dolist (client (seq-filter #'gemini-companion-hands-client-cli
                              (gemini-companion-hands-clients run)))
    (let* ((cli (gemini-companion-hands-client-cli client))
           (all (reverse (fake-cli-notifications cli)))
           (new (nthcdr (gemini-companion-hands-client-heard client) all)))
      (setf (gemini-companion-hands-client-heard client) (length all))
      (dolist (fault (fake-cli-faults cli))
        (gemini-companion-test-hands--fault run 5 "A client refuses %S" fault))
      (dolist (message new)
        (let ((params (alist-get 'params message)))
          (pcase (alist-get 'method message)
            ("ide/diffAccepted"
             (gemini-companion-test-hands--told run client params 'accepted))
            ("ide/diffRejected"
             (gemini-companion-test-hands--told run client params 'rejected))))))))

(defun gemini-companion-test-hands--told (run client params outcome)
  "CLIENT of RUN was told by PARAMS of OUTCOME."
  (let* ((path (alist-get 'filePath params))
         (text (alist-get 'content params))
         (proposal (progn
                     ;; Emacs knows first.
                     (gemini-companion-test-hands--look run)
                     (gemini-companion-test-hands--meant run client path outcome text))))
    (if (not proposal)
        (gemini-companion-test-hands--fault
         run 2 "Client %s was told that its change of %s was %s, which nobody asked for: %S"
         (gemini-companion-hands-client-name client) path outcome text)
      (setf (gemini-companion-hands-proposal-told proposal) outcome)
      (when (eq outcome 'accepted)
        (gemini-companion-test-hands--write run path text)))))

(defun gemini-companion-test-hands--meant (run client path outcome text)
  "Return the proposal of RUN for PATH of whose OUTCOME CLIENT was told.
It got that in Emacs, if accepted with this very TEXT, or the client
itself rejected it.  Each proposal is told of once."
  (seq-find (lambda (it)
              (and (eq (gemini-companion-hands-proposal-client it) client)
                   (equal (gemini-companion-hands-proposal-path it) path)
                   (not (gemini-companion-hands-proposal-told it))
                   (if (eq outcome 'accepted)
                       (member text (gemini-companion-test-hands--outcomes run it outcome))
                     (or (eq (gemini-companion-hands-proposal-closed it) 'aloud)
                         (gemini-companion-test-hands--outcomes run it outcome)))))
            (reverse (gemini-companion-hands-proposals run))))

(defun gemini-companion-test-hands--outcomes (run proposal outcome)
  "Return the texts with which Emacs reported OUTCOME of PROPOSAL in RUN.
That of a rejection is t."
  (cl-loop for (id what text _path) in (plist-get (gemini-companion-hands-state run) :outcomes)
           if (and (eq what outcome)
                   (eq proposal (gemini-companion-test-hands--by-id run id)))
           collect (or text t)))

(defun gemini-companion-test-hands--by-id (run id)
  "Return the proposal of RUN that Emacs knows by ID.
Ids count the proposals from 1."
  (nth (1- id) (reverse (gemini-companion-hands-proposals run))))

;;;; Looking

(defun gemini-companion-test-hands--fault (run rule format &rest arguments)
  "Note that RULE is broken in RUN: FORMAT and ARGUMENTS say how."
  (gemini-companion-test-hands--add-fault run (list rule (apply #'format format arguments))))

(defun gemini-companion-test-hands--add-fault (run fault)
  "Note FAULT, a rule and a text, in RUN, unless such are to be ignored."
  (let ((ignored (getenv "GEMINI_COMPANION_HANDS_IGNORE")))
    (unless (and ignored
                 (string-match-p ignored (format "Rule %d: %s" (car fault) (cadr fault))))
      (cl-pushnew fault (gemini-companion-hands-faults run) :test #'equal))))

(defun gemini-companion-test-hands--look (run)
  "Look what RUN has come to, and return that."
  (let ((state (gemini-companion-test-eval (gemini-companion-hands-emacs run)
                                           '(gemini-companion-hands-state))))
    (dolist (fault (plist-get state :faults))
      (gemini-companion-test-hands--add-fault run fault))
    (setf (gemini-companion-hands-state run) state)))

(defun gemini-companion-test-hands--settle (run calm)
  "Wait until Emacs has read all keys of RUN, and done what follows from them.
With CALM non-nil, until the user has done nothing for so long that a
review comes."
  (gemini-companion-test-hands--until
   run 5 "all keys to be read"
   (lambda (state)
     (and (or (>= (plist-get state :events) (gemini-companion-hands-events run))
              ;; A command that fails has Emacs forget what was typed ahead.
              (> (plist-get state :idle) 1))
          (not (plist-get state :pending)))))
  (setf (gemini-companion-hands-events run)
        (plist-get (gemini-companion-hands-state run) :events))
  (gemini-companion-test-hands--until
   run 4 "Emacs and the server to know of the same reviews"
   (lambda (state)
     (gemini-companion-test-hands--hear run)
     (= (length (plist-get state :open)) (plist-get state :served))))
  (when calm
    (gemini-companion-test-hands--until
     run 5 "a calm moment"
     (lambda (state) (> (plist-get state :idle) 0.9)))
    (gemini-companion-test-hands--check-calm run)))

(defun gemini-companion-test-hands--until (run rule what predicate)
  "Wait until PREDICATE holds of the state of RUN; else RULE is broken.
WHAT says in words what was waited for."
  (condition-case problem
      (gemini-companion-test-wait
       what
       (lambda ()
         (let ((state (gemini-companion-test-hands--look run)))
           (or (gemini-companion-hands-faults run)
               (funcall predicate state))))
       8)
    (error
     (gemini-companion-test-hands--fault
      run rule "%s: %S" (error-message-string problem)
      (cl-loop for (key value) on (gemini-companion-hands-state run) by #'cddr
               unless (memq key '(:outcomes :faults)) nconc (list key value))))))

;;;; What must hold when all is calm

(defun gemini-companion-test-hands--check-calm (run)
  "Note what is wrong in RUN now that nothing is under way."
  (gemini-companion-test-hands--until
   run 6 "buffers that count as saved to say what their files say"
   (lambda (state) (null (plist-get state :untrue))))
  (gemini-companion-test-hands--until
   run 4 "the buffers of reviews that ended to be gone"
   (lambda (state)
     (or (null (plist-get state :left))
         ;; Windows need not change before the user is done.
         (gemini-companion-test-hands--busy-p state))))
  (gemini-companion-test-hands--check-shown run)
  (gemini-companion-test-hands--check-disk run)
  (gemini-companion-test-hands--check-told run))

(defun gemini-companion-test-hands--busy-p (state)
  "Return non-nil if in STATE the user is in the middle of something."
  (or (> (plist-get state :depth) 0)
      (plist-get state :isearch)
      (plist-get state :asking)))

(defun gemini-companion-test-hands--check-shown (run)
  "Note if no review of RUN is shown though one may be."
  (gemini-companion-test-hands--until
   run 4 "a review to be shown"
   (lambda (state)
     (or (not (memq (plist-get (gemini-companion-hands-options run) :focus) '(keep select)))
         (not (eq (plist-get (gemini-companion-hands-options run) :policy) 'pop-up))
         (gemini-companion-test-hands--busy-p state)
         (plist-get state :visible)
         (> (plist-get state :tabs) 1)
         ;; Once seen, it may have been put off.
         (seq-intersection (plist-get state :open) (plist-get state :displayed))
         (null (plist-get state :open))))))

(defun gemini-companion-test-hands--check-disk (run)
  "Note if a file of RUN was written by nobody who may."
  (dolist (name (cons "mine.txt" gemini-companion-test-hands--names))
    (let* ((file (gemini-companion-test-hands--file run name))
           (text (and (file-exists-p file) (gemini-companion-test-read file)))
           (known (alist-get file (gemini-companion-hands-disk run) nil nil #'equal)))
      (unless (or (equal text known) (gemini-companion-hands-saved run))
        (gemini-companion-test-hands--fault run 6 "%s was written by nobody: %S for %S"
                                            name text known))
      (setf (alist-get file (gemini-companion-hands-disk run) nil nil #'equal) text)))
  (setf (gemini-companion-hands-saved run) nil))

(defun gemini-companion-test-hands--check-told (run)
  "Note if a client of RUN did not hear of an outcome."
  (gemini-companion-test-hands--until
   run 2 "each living client to hear of each outcome"
   (lambda (state)
     (gemini-companion-test-hands--hear run)
     (cl-loop for (id _outcome _text path) in (plist-get state :outcomes)
              for proposal = (gemini-companion-test-hands--by-id run id)
              do (unless (equal path (gemini-companion-hands-proposal-path proposal))
                   (gemini-companion-test-hands--fault run 2 "Review %d is of %s" id path))
              always (or (gemini-companion-hands-proposal-told proposal)
                         (not (eq (gemini-companion-hands-client-state
                                   (gemini-companion-hands-proposal-client proposal))
                                  'up)))))))

;;;; A run

(defun gemini-companion-test-hands--draw-options (run)
  "Draw what holds for the whole RUN."
  (setf (gemini-companion-hands-lot run) (* 6007 (gemini-companion-hands-seed run)))
  (dotimes (_ 3) (gemini-companion-test-hands--draw run 2))
  (setf (gemini-companion-hands-options run)
        (list :policy (gemini-companion-test-hands--pick run '(pop-up pop-up pop-up queue))
              :focus (gemini-companion-test-hands--pick run '(keep keep keep select announce))
              :view (gemini-companion-test-hands--pick
                     run '(gemini-companion-ediff-show gemini-companion-diff-show))
              :repeat (zerop (gemini-companion-test-hands--draw run 4)))))

(defun gemini-companion-test-hands--prepare (run)
  "Bring the Emacs of RUN to where it begins."
  (let ((emacs (gemini-companion-hands-emacs run))
        (options (gemini-companion-hands-options run)))
    (dolist (name '("b.txt" "mine.txt" "a.txt"))
      (gemini-companion-test-visit emacs name))
    (gemini-companion-test-eval
     emacs
     `(progn
        (load ,(gemini-companion-test-path "test" "support"
                                           "gemini-companion-test-hands-inner.el")
              nil t)
        (setq gemini-companion-diff-policy ',(plist-get options :policy)
              gemini-companion-diff-focus ',(plist-get options :focus)
              gemini-companion-diff-function ',(plist-get options :view))
        (when ,(and (plist-get options :repeat) t) (repeat-mode 1))
        (gemini-companion-hands-watch)))
    (gemini-companion-test-wait-announced emacs (gemini-companion-test-project emacs))
    (gemini-companion-test-hands--new-client run "p")
    (gemini-companion-test-hands--new-client run "q")
    (setf (gemini-companion-hands-events run)
          (plist-get (gemini-companion-test-hands--look run) :events))))

(defun gemini-companion-test-hands--files ()
  "Return the files of a run and their texts."
  (let ((text (mapconcat (lambda (n) (format "line %d\n" n)) (number-sequence 1 20) "")))
    (mapcar (lambda (name) (cons name text)) '("a.txt" "b.txt" "lib/c.txt" "mine.txt"))))

(defun gemini-companion-test-hands--do (run step)
  "Let RUN do STEP, words and keys or a function, and wait for nothing."
  (pcase-let ((`(,words ,what) step))
    (push (format "%3d  %s%s" (gemini-companion-hands-step run) words
                  (if (functionp what) "" (format "  %s" (string-join what " "))))
          (gemini-companion-hands-trail run))
    (if (functionp what)
        (funcall what)
      (when (string-match-p "\\`\\(?:save\\|answer\\)" words)
        (setf (gemini-companion-hands-saved run) t))
      (gemini-companion-test-hands--press run what))))

(defun gemini-companion-test-hands--step (run)
  "Let RUN do one step, or two at once, and look."
  (gemini-companion-test-hands--begin-step run)
  (let* ((kind (gemini-companion-test-hands--draw run 10))
         (calm (< (gemini-companion-test-hands--draw run 10) 4))
         (open (plist-get (gemini-companion-hands-state run) :open))
         (user (gemini-companion-test-hands--user-step run))
         (client (gemini-companion-test-hands--client-step run))
         (steps (cond ((and (null open) (< kind 6)) (list client))
                      ((< kind 5) (list user))
                      ((< kind 7) (list client))
                      ((= kind 7) (list client user))
                      (t (list user client)))))
    (condition-case problem
        (dolist (step steps) (gemini-companion-test-hands--do run step))
      (error
       (gemini-companion-test-hands--fault run 5 "A step ended in %S" problem)))
    (when (cdr steps)
      (push "     (at once)" (gemini-companion-hands-trail run)))
    (gemini-companion-test-hands--settle run calm)))

(defvar gemini-companion-test-hands-last nil
  "The last run, to be asked what came of it.")

(defun gemini-companion-test-hands-tally ()
  "Return in words what came of the last run."
  (let ((outcomes (plist-get (gemini-companion-hands-state gemini-companion-test-hands-last)
                             :outcomes)))
    (format "%d proposed, %d shown, %d accepted, %d rejected"
            (length (gemini-companion-hands-proposals gemini-companion-test-hands-last))
            (length (plist-get (gemini-companion-hands-state gemini-companion-test-hands-last)
                               :displayed))
            (seq-count (lambda (it) (eq (nth 1 it) 'accepted)) outcomes)
            (seq-count (lambda (it) (eq (nth 1 it) 'rejected)) outcomes))))

(defun gemini-companion-test-hands-run (seed steps)
  "Run STEPS steps drawn from SEED; return nil, or a report of what is wrong."
  (let ((run (make-gemini-companion-hands :seed seed)))
    (setq gemini-companion-test-hands-last run)
    (gemini-companion-test-hands--draw-options run)
    (gemini-companion-test-with-emacs (emacs :files (gemini-companion-test-hands--files))
      (setf (gemini-companion-hands-emacs run) emacs
            (gemini-companion-hands-disk run)
            (mapcar (lambda (it) (cons (gemini-companion-test-hands--file run (car it)) (cdr it)))
                    (gemini-companion-test-hands--files)))
      (unwind-protect
          (progn
            (gemini-companion-test-hands--prepare run)
            (while (and (< (gemini-companion-hands-step run) steps)
                        (not (gemini-companion-hands-faults run)))
              (gemini-companion-test-hands--step run))
            (and (gemini-companion-hands-faults run)
                 (gemini-companion-test-hands--report run)))
        (mapc #'gemini-companion-test-hands--end-client
              (gemini-companion-hands-clients run))))))

(defun gemini-companion-test-hands--end-client (client)
  "End CLIENT, whatever it is."
  (ignore-errors
    (if (gemini-companion-hands-client-process client)
        (progn
          (delete-process (gemini-companion-hands-client-process client))
          (gemini-companion-test-forget (gemini-companion-hands-client-process client)))
      (fake-cli-disconnect (gemini-companion-hands-client-cli client)))))

(defun gemini-companion-test-hands--report (run)
  "Return what is wrong in RUN, what led there, and how to see it again."
  (let ((emacs (gemini-companion-hands-emacs run)))
    (concat
     (mapconcat (lambda (fault) (format "Rule %d: %s\n" (car fault) (cadr fault)))
                (reverse (gemini-companion-hands-faults run)) "")
     (format "Seed %d, step %d, %S\n" (gemini-companion-hands-seed run)
             (gemini-companion-hands-step run) (gemini-companion-hands-options run))
     (string-join (reverse (gemini-companion-hands-trail run)) "\n")
     "\nThe last commands, the newest first:\n"
     (mapconcat (lambda (it) (concat "     " it))
                (ignore-errors (gemini-companion-test-eval
                                emacs '(seq-take gemini-companion-hands--trail 12)))
                "\n")
     (format "\n%s\n"
             (gemini-companion-test-squeeze (gemini-companion-test-screen emacs)))
     (format "Again: GEMINI_COMPANION_HANDS_SEED=%d GEMINI_COMPANION_HANDS_STEPS=%d \
EMACS=%s make test SUITE=e2e MATCH=hands/replay\n"
             (gemini-companion-hands-seed run) (gemini-companion-hands-step run)
             (gemini-companion-test-emacs-program emacs)))))

(provide 'gemini-companion-test-hands)
;;; gemini-companion-test-hands.el ends here

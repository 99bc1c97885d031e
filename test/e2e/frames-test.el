;;; frames-test.el --- Reviews with several frames, or none  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Frames of an interactive Emacs, and of a daemon, are opened and closed while
;; there is a review.

;;; Code:

(require 'gemini-companion-test-fake-client)

;;;; Frames

(defun gemini-companion-frames-test--wake (emacs)
  "Press a key in EMACS until it has read one.
Emacs itself loses the first key after a terminal has hung up."
  (let ((before (gemini-companion-test-eval emacs 'num-nonmacro-input-events)))
    (gemini-companion-test-wait
     "a key to be read"
     (lambda ()
       (gemini-companion-test-keys emacs "C-l")
       (> (gemini-companion-test-eval emacs 'num-nonmacro-input-events) before)))))

(ert-deftest gemini-companion-frames/closing-its-frame-postpones-a-review ()
  "A review whose frame is closed waits, and can be shown on another one."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (let ((before (gemini-companion-test-fake-layout emacs))
          (outcomes nil))
      (dolist (close '(("C-x" "5" "0") ("C-x" "C-c") nil))
        (ert-info ((format "%S" close))
          (let ((pane (gemini-companion-test-open-frame emacs "second")))
            (let ((gemini-companion-test-pane pane))
              (gemini-companion-test-press emacs "C-n" '(frame-parameter nil 'client)))
            (gemini-companion-test-fake-show emacs client "two\n")
            ;; It is shown on the selected frame.
            (should (gemini-companion-test-eval
                     emacs `(eq ,gemini-companion-test-fake-review-frame
                                (selected-frame))))
            (if (not close)
                (gemini-companion-test-kill-pane emacs pane)
              (let ((gemini-companion-test-pane pane))
                (apply #'gemini-companion-test-keys emacs close)))
            (gemini-companion-test-wait-eval emacs '(null (cdr (frame-list))))
            (gemini-companion-test-wait-no-review emacs)
            (gemini-companion-frames-test--wake emacs)
            (gemini-companion-test-fake-wait-not-shown emacs)
            (should (equal (gemini-companion-test-fake-layout emacs) before))
            (should (= (gemini-companion-test-eval
                        emacs '(gemini-companion-review-count))
                       1))
            (should (equal (gemini-companion-test-fake-outcomes client) outcomes))
            (gemini-companion-test-m-x emacs "gemini-companion-review-next")
            (gemini-companion-test-wait-review emacs "two\n")
            (gemini-companion-test-reject emacs)
            (setq outcomes (append outcomes '((rejected "a.txt"))))
            (gemini-companion-test-fake-wait-outcomes client outcomes)
            (gemini-companion-test-fake-wait-restored emacs)))))))

(ert-deftest gemini-companion-frames/a-key-pressed-elsewhere-answers-no-question-of-a-closed-frame ()
  "Emacs still waits for the answer, and takes it from any terminal."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (let ((gemini-companion-test-pane (gemini-companion-test-open-frame emacs "second")))
      (gemini-companion-test-fake-propose emacs client "two\n")
      (gemini-companion-test-m-x emacs "gemini-companion-review-next")
      (gemini-companion-test-wait-review emacs "two\n")
      (gemini-companion-test-m-x emacs "gemini-companion-review-quit" "Proposed change:")
      (gemini-companion-test-kill-pane emacs gemini-companion-test-pane))
    (gemini-companion-test-wait-eval emacs '(null (cdr (frame-list))))
    (gemini-companion-test-wait
     "the question to end"
     (lambda ()
       (gemini-companion-test-keys emacs "a")
       (gemini-companion-test-eval emacs '(null (gemini-companion-ui-key-expected)))))
    (should-not (gemini-companion-test-fake-outcomes client))
    (gemini-companion-test-eval emacs '(gemini-companion-review-reject
                                        (gemini-companion-review-current)))
    (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))))

(defun gemini-companion-frames-test--manual-form ()
  "Return the form of the manual that shows changes in a frame of their own."
  (with-temp-buffer
    (insert-file-contents (gemini-companion-test-path "docs" "gemini-companion.texi"))
    (search-forward "(add-to-list 'display-buffer-alist")
    (goto-char (match-beginning 0))
    (read (current-buffer))))

(ert-deftest gemini-companion-frames/users-choose-a-frame-of-its-own ()
  "It goes with the review, and the others are as before."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (let ((outcomes nil))
      (dolist (view '(gemini-companion-review-ediff-show gemini-companion-review-inline-show))
        (ert-info ((symbol-name view))
          (gemini-companion-test-eval
           emacs `(progn (setq gemini-companion-diff-function ',view)
                         ,(gemini-companion-frames-test--manual-form)
                         nil))
          (gemini-companion-test-fake-propose emacs client "two\n")
          (gemini-companion-test-m-x emacs "gemini-companion-review-next")
          (gemini-companion-test-wait-review emacs "two\n")
          (should (= (gemini-companion-test-eval emacs '(length (frame-list))) 2))
          (should (gemini-companion-test-eval
                   emacs '(and (memq (window-buffer) (gemini-companion-test-inner-views))
                               (gemini-companion-review-intact-p
                                (gemini-companion-review-shown)))))
          (when (eq view 'gemini-companion-review-ediff-show)
            (let* ((left '(window-left-column
                           (get-buffer-window (gemini-companion-review-proposal
                                               (gemini-companion-review-shown)))))
                   (before (gemini-companion-test-eval emacs left)))
              (gemini-companion-test-press emacs "|" `(/= ,left ,before)))
            (should (= (gemini-companion-test-eval emacs '(length (frame-list))) 2)))
          (gemini-companion-test-keys emacs "C-c" "C-k")
          (setq outcomes (append outcomes '((rejected "a.txt"))))
          (gemini-companion-test-fake-wait-outcomes client outcomes)
          (gemini-companion-test-wait-eval emacs '(null (cdr (frame-list))))
          (gemini-companion-test-fake-wait-restored emacs)))
      (gemini-companion-test-eval emacs '(setq display-buffer-alist nil)))))

(ert-deftest gemini-companion-frames/behind-another-frame-it-is-out-of-sight ()
  "A text terminal shows one frame: the message says so, and a command shows it."
  :tags '(any-emacs) ; frames of text terminals have not changed
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (gemini-companion-test-eval emacs `(progn ,(gemini-companion-frames-test--manual-form) nil))
    (gemini-companion-test-fake-propose emacs client "two\n")
    ;; Keys that come while the frame appears may go there.
    (gemini-companion-test-wait-eval emacs '(gemini-companion-review-shown))
    (gemini-companion-test-wait-screen emacs "review-next shows it")
    (gemini-companion-test-m-x emacs "gemini-companion-accept" "a.txt was not on screen")
    (gemini-companion-test-wait-screen emacs "Proposed text +a.txt")
    (gemini-companion-test-keys emacs "C-c" "C-c")
    (gemini-companion-test-fake-wait-outcomes client '((accepted "a.txt" "two\n")))
    (gemini-companion-test-wait-eval emacs '(null (cdr (frame-list))))
    (gemini-companion-test-eval emacs '(setq display-buffer-alist nil))))

;; Emacs forgets point of the selected window when it restores the windows of another frame.
(ert-deftest gemini-companion-frames/point-on-another-frame-stays-when-it-is-removed ()
  :tags '(any-emacs)
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (gemini-companion-test-keys emacs "C-x" "b" "*scratch*" "Enter")
    (gemini-companion-test-fake-show emacs client "two\n")
    (should (equal (gemini-companion-test-run
                    emacs '(let ((frame (selected-frame)))
                             (select-frame (make-frame))
                             (switch-to-buffer "a.txt")
                             (delete-other-windows)
                             (select-window (split-window))
                             (insert "1234")
                             (unwind-protect
                                 (progn
                                   (gemini-companion-review-postpone (gemini-companion-review-shown))
                                   (list (point) (window-point (next-window))))
                               (delete-region 1 (point))
                               (delete-frame)
                               (select-frame frame))))
                   '(5 1)))))

(ert-deftest gemini-companion-frames/keys-go-to-the-frame-that-is-selected ()
  "A window manager gives the input focus to a new frame, and Emacs only on request.
In a terminal, we can see only the request."
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (gemini-companion-test-eval
     emacs `(progn ,(gemini-companion-frames-test--manual-form)
                   (advice-add 'select-frame-set-input-focus :after
                               (lambda (frame &rest _)
                                 (set-frame-parameter frame 'has-focus t))
                               '((name . note)))
                   ;; The terminal may say that it has lost it.
                   (advice-add 'frame-focus-state :override #'always '((name . note)))
                   nil))
    (dolist (focus '(keep select))
      (gemini-companion-test-fake-propose emacs client "two\n")
      (should (gemini-companion-test-run
               emacs `(let ((frame (selected-frame)))
                        (gemini-companion-review-show (car (gemini-companion-review-all-open))
                                                      ',focus)
                        (and (cdr (frame-list))
                             (eq (eq frame (selected-frame)) ,(eq focus 'keep))
                             (frame-parameter nil 'has-focus)))))
      (gemini-companion-test-run
       emacs '(progn (gemini-companion-review-reject (gemini-companion-review-shown))
                     (set-frame-parameter nil 'has-focus nil))))
    (gemini-companion-test-eval
     emacs '(progn (advice-remove 'select-frame-set-input-focus 'note)
                   (advice-remove 'frame-focus-state 'note)
                   (setq display-buffer-alist nil)))))

;; In a text terminal, a user sees one frame at a time, so the test says that this is none.
(ert-deftest gemini-companion-frames/a-terminal-in-another-frame-is-selected-there ()
  "A second window would make it smaller, and show it twice."
  :tags '(any-emacs)
  (gemini-companion-test-with-emacs (emacs)
    (gemini-companion-test-eval emacs '(require 'gemini-companion-cli-run))
    (should (equal (gemini-companion-test-run
                    emacs '(let* ((usual (selected-frame))
                                  (other (make-frame))
                                  (terminal (get-buffer-create "*terminal*")))
                             (select-frame other)
                             (switch-to-buffer terminal)
                             (select-frame usual)
                             (cl-letf (((symbol-function 'display-graphic-p) #'always))
                               (gemini-companion-cli-run-show terminal))
                             (prog1 (list (eq (selected-frame) other)
                                          (eq (current-buffer) terminal)
                                          (length (get-buffer-window-list terminal nil t)))
                               (delete-frame other)
                               (kill-buffer terminal))))
                   '(t t 1)))))

;; In a text terminal, there are no workspaces, so the test says what Emacs hears from i3.
(ert-deftest gemini-companion-frames/what-is-on-a-hidden-workspace-is-not-seen ()
  "Emacs takes such a frame for visible, and a change would be accepted unseen."
  :tags '(any-emacs)
  (gemini-companion-test-with-emacs (emacs)
    (should (equal (gemini-companion-test-run
                    emacs '(let ((usual (selected-frame))
                                 (other (make-frame '((outer-window-id . "7")))))
                             (select-frame other)
                             (switch-to-buffer "*other*")
                             (select-frame usual)
                             (prog1 (mapcar
                                     (lambda (state)
                                       (cl-letf (((symbol-function 'display-graphic-p) #'always)
                                                 ((symbol-function 'window-system)
                                                  (lambda (&rest _) 'x))
                                                 ((symbol-function 'x-window-property)
                                                  (lambda (&rest _) state)))
                                         (length (gemini-companion-ui-windows-of
                                                  (get-buffer "*other*")))))
                                     '([1 0] [0 0] nil))
                               (delete-frame other))))
                   '(1 0 1)))))

;; In a text terminal, each frame has a minibuffer of its own, so the test says that one has none.
(ert-deftest gemini-companion-frames/one-that-is-made-for-a-single-buffer-is-left-alone ()
  "Such as that of Speedbar, or of the control panel of the user's own Ediff session."
  :tags '(any-emacs)
  (gemini-companion-test-with-fake-client (emacs client '(("a.txt" . "one\n")))
    (gemini-companion-test-eval emacs '(setq gemini-companion-diff-policy 'queue))
    (gemini-companion-test-fake-propose emacs client "two\n")
    (dolist (view '(gemini-companion-review-ediff-show gemini-companion-review-inline-show))
      (ert-info ((symbol-name view))
        (should
         (equal (gemini-companion-test-run
                 emacs
                 `(let* ((usual (selected-frame))
                         (panel (make-frame))
                         (names (lambda (frame)
                                  (mapcar (lambda (it) (buffer-name (window-buffer it)))
                                          (window-list frame))))
                         (parameter (symbol-function 'frame-parameter))
                         (gemini-companion-diff-function #',view)
                         (review (car (gemini-companion-review-all-open))))
                    (select-frame panel)
                    (switch-to-buffer "*scratch*")
                    (set-window-dedicated-p nil t)
                    (cl-letf (((symbol-function 'frame-parameter)
                               (lambda (frame name)
                                 (if (and (eq frame panel) (eq name 'minibuffer))
                                     (minibuffer-window usual)
                                   (funcall parameter frame name)))))
                      (gemini-companion-review-show review 'keep))
                    (prog1 (list (eq (selected-frame) panel)
                                 (funcall names panel)
                                 (and (seq-find (lambda (it) (string-prefix-p "*gemini" it))
                                                (funcall names usual))
                                      t))
                      (gemini-companion-review-postpone review)
                      (delete-frame panel))))
                '(t ("*scratch*") t)))))
    (gemini-companion-test-m-x emacs "gemini-companion-reject" "was not on screen")
    (gemini-companion-test-reject emacs)
    (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))
    (gemini-companion-test-eval emacs '(setq gemini-companion-diff-policy 'pop-up))))

(defmacro gemini-companion-frames-test--with-daemon (emacs client &rest body)
  "Run BODY with a daemon EMACS that has opened a.txt, and CLIENT connected."
  (declare (indent 2) (debug (symbolp symbolp body)))
  `(gemini-companion-test-with-emacs (,emacs :daemon t
                                             :files '(("a.txt" . "one\n")))
     (gemini-companion-test-eval ,emacs gemini-companion-test-fake-observers)
     (gemini-companion-test-eval
      ,emacs (list 'ignore (list 'find-file-noselect
                                 (gemini-companion-test-project ,emacs "a.txt"))))
     (gemini-companion-test-with-client (,client 'fake ,emacs)
       ,@body)))

(ert-deftest gemini-companion-frames/a-daemon-shows-it-on-its-first-frame ()
  "Without a frame a review waits; it is shown once there is one."
  (gemini-companion-frames-test--with-daemon emacs client
    (dotimes (time 2)
      (gemini-companion-test-fake-propose emacs client "two\n")
      (gemini-companion-frames-test--wait-due emacs)
      (let ((gemini-companion-test-pane
             (gemini-companion-test-open-frame emacs "client")))
        (gemini-companion-test-wait-review emacs "two\n")
        (should (gemini-companion-test-eval
                 emacs `(eq ,gemini-companion-test-fake-review-frame
                            (selected-frame))))
        (gemini-companion-test-wait-screen emacs "gemini-companion-accept accepts")
        (gemini-companion-test-reject emacs)
        (gemini-companion-test-fake-wait-outcomes
         client (make-list (1+ time) '(rejected "a.txt")))
        (gemini-companion-test-fake-wait-restored emacs)
        (gemini-companion-test-press emacs "C-x 5 0" '(null (cdr (frame-list))))))))

;; Emacs then selects the invisible frame, until a key is pressed.
(ert-deftest gemini-companion-frames/of-two-terminals-of-a-daemon-the-one-that-is-left-shows-it ()
  (gemini-companion-frames-test--with-daemon emacs client
    (let ((left (gemini-companion-test-open-frame emacs "left"))
          (closed (gemini-companion-test-open-frame emacs "closed")))
      (let ((gemini-companion-test-pane closed))
        (gemini-companion-test-keys emacs "C-x" "C-c"))
      (gemini-companion-test-wait-eval emacs '(= (length (frame-list)) 2))
      (gemini-companion-test-fake-propose emacs client "two\n")
      (let ((gemini-companion-test-pane left))
        (gemini-companion-test-wait-screen emacs "gemini-companion-accept accepts")
        (gemini-companion-test-reject emacs)
        (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))))))

;; The user types C-z in one terminal and goes on in the other.
(ert-deftest gemini-companion-frames/a-terminal-that-is-suspended-shows-nothing ()
  "The other one does; when none is left, a review waits until the first continues."
  (gemini-companion-frames-test--with-daemon emacs client
    (let* ((other (gemini-companion-test-open-frame emacs "other"))
           (gemini-companion-test-pane (gemini-companion-test-open-frame emacs "suspended"))
           (terminal (progn (gemini-companion-frames-test--wake emacs)
                            (gemini-companion-test-eval emacs '(terminal-name)))))
      ;; Tmux continues a client that suspends itself.
      (gemini-companion-test-eval emacs `(let ((suspend-tty-functions nil))
                                           (suspend-tty (get-device-terminal ,terminal))))
      (gemini-companion-test-fake-propose emacs client "two\n")
      (let ((gemini-companion-test-pane other))
        (gemini-companion-test-wait-screen emacs "proposes a change to a.txt")
        (gemini-companion-test-reject emacs)
        (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))
        (gemini-companion-test-fake-wait-restored emacs)
        (gemini-companion-test-keys emacs "C-x" "C-c"))
      (gemini-companion-test-wait-eval emacs '(= (length (frame-list)) 2))
      (gemini-companion-test-fake-propose emacs client "three\n")
      (gemini-companion-frames-test--wait-due emacs)
      (gemini-companion-test-eval emacs `(resume-tty (get-device-terminal ,terminal)))
      (gemini-companion-test-wait-screen emacs "proposes a change to a.txt"))))

;; By emacsclient, for example, or by a click on a notification.
(ert-deftest gemini-companion-frames/commands-in-a-daemon-without-a-frame-show-and-accept-nothing ()
  "They say so, and the review is shown once there is a frame."
  (gemini-companion-frames-test--with-daemon emacs client
    (gemini-companion-test-fake-propose emacs client "two\n")
    (let ((unseen "a.txt was never on screen (waiting: Emacs has no frame); decide in Gemini CLI"))
      (pcase-dolist (`(,command ,text) `((gemini-companion-accept ,unseen)
                                         (gemini-companion-accept ,unseen)
                                         (gemini-companion-accept-all "Emacs has no frame")
                                         (gemini-companion-review-next "Emacs has no frame")))
        (should (equal (gemini-companion-test-eval
                        emacs `(condition-case error (,command)
                                 (user-error (error-message-string error))))
                       text))))
    (gemini-companion-test-eval emacs '(progn (require 'gemini-companion-notify)
                                              (gemini-companion-notify--visit)))
    (should (eq (gemini-companion-test-eval
                 emacs '(gemini-companion-review-state (gemini-companion-review-current)))
                'waiting))
    (let ((gemini-companion-test-pane (gemini-companion-test-open-frame emacs "client")))
      (gemini-companion-test-wait-review emacs "two\n")
      (should-not (gemini-companion-test-fake-outcomes client))
      (gemini-companion-test-reject emacs)
      (gemini-companion-test-fake-wait-outcomes client '((rejected "a.txt")))
      (gemini-companion-test-fake-wait-restored emacs))))

(defun gemini-companion-frames-test--wait-due (emacs)
  "Wait until the daemon EMACS could have shown a review several times.
It is never idle as long as it has had no frame."
  (gemini-companion-test-wait-eval
   emacs '(progn (gemini-companion-review-popup--try)
                 (> (float-time (time-since (gemini-companion-review-created
                                             (gemini-companion-review-current))))
                    1.5)))
  (should-not (gemini-companion-test-review emacs)))

(ert-deftest gemini-companion-frames/after-the-last-frame-of-a-daemon-the-next-one-shows-it ()
  "A review on a daemon's only frame, as when a connection by ssh dies."
  (gemini-companion-frames-test--with-daemon emacs client
    (let ((gemini-companion-test-pane
           (gemini-companion-test-open-frame emacs "client")))
      (gemini-companion-test-fake-show emacs client "two\n")
      (gemini-companion-test-append-to-proposal emacs "mine")
      (gemini-companion-test-kill-pane emacs gemini-companion-test-pane)
      (gemini-companion-test-wait-eval emacs '(null (cdr (frame-list))))
      (gemini-companion-test-wait-no-review emacs))
    (should-not (gemini-companion-test-fake-outcomes client))
    (let ((gemini-companion-test-pane
           (gemini-companion-test-open-frame emacs "again")))
      (gemini-companion-frames-test--wake emacs)
      (gemini-companion-test-wait-review emacs "two\nmine")
      (gemini-companion-test-accept emacs)
      (gemini-companion-test-fake-wait-outcomes
       client '((accepted "a.txt" "two\nmine")))
      (gemini-companion-test-fake-wait-restored emacs))))

(ert-deftest gemini-companion-frames/nothing-is-said-or-shown-on-the-invisible-frame-of-a-daemon ()
  "The next frame shows the newest message; a CLI would have stayed small."
  (gemini-companion-frames-test--with-daemon emacs client
    (should (equal (gemini-companion-test-eval
                    emacs '(progn (gemini-companion-ui-message 'one "This is old")
                                  (gemini-companion-ui-message 'other "This is new")
                                  (require 'gemini-companion-cli-run)
                                  (gemini-companion-cli-run-show (get-buffer-create "terminal"))
                                  (get-buffer-window-list "terminal" nil t)))
                   nil))
    (let ((gemini-companion-test-pane (gemini-companion-test-open-frame emacs "client")))
      (should (string-match-p "^ *This is new" (gemini-companion-test-wait-screen
                                                emacs "This is new"))))))

(ert-deftest gemini-companion-frames/keys-for-a-file-of-emacsclient-answer-no-question ()
  "`git commit' may show one; then the question is left, and the file keeps its window."
  (gemini-companion-frames-test--with-daemon emacs client
    (let ((gemini-companion-test-pane (gemini-companion-test-open-frame emacs "client"))
          (file (gemini-companion-test-project emacs "COMMIT_EDITMSG")))
      (gemini-companion-test-fake-show emacs client "two\n")
      (gemini-companion-test-m-x emacs "gemini-companion-review-quit" "Proposed change:")
      (start-process "git" nil (gemini-companion-test--emacsclient-program emacs)
                     "-s" (gemini-companion-test-emacs-file emacs "s") file)
      (gemini-companion-test-wait-eval
       emacs '(and (with-current-buffer "*Messages*" (string-search "\nQuit" (buffer-string)))
                   (equal (buffer-name (window-buffer)) "COMMIT_EDITMSG")))
      (gemini-companion-test-keys emacs "a" "r" "C-x" "C-s")
      (gemini-companion-test-wait
       "the text to be saved"
       (lambda () (and (file-exists-p file) (equal (gemini-companion-test-read file) "ar"))))
      (should-not (gemini-companion-test-fake-outcomes client)))))

;;; frames-test.el ends here

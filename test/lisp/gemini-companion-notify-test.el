;;; gemini-companion-notify-test.el --- Tests of notifications  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-notify)
(require 'gemini-companion-test-companion)
(require 'gemini-companion-test-desktop)

(declare-function dbus-call-method-asynchronously "dbus")

(defvar gemini-companion-notify-test--rings 0
  "How often the bell has rung.")

(defvar gemini-companion-notify-test--away t
  "Non-nil while the user is not looking at Emacs.")

(defmacro gemini-companion-notify-test--with (client bus &rest body)
  "Evaluate BODY with CLIENT connected and the user away.
BUS is the address of the desktop's bus."
  (declare (indent 2) (debug (symbolp form body)))
  `(let ((gemini-companion-notify--bus ,bus)
         (gemini-companion-notify--connected nil)
         (gemini-companion-notify--id 0)
         (gemini-companion-notify--subjects nil)
         (gemini-companion-notify-test--rings 0)
         (gemini-companion-notify-test--away t))
     (cl-letf (((symbol-function 'gemini-companion-notify--away-p)
                (lambda () gemini-companion-notify-test--away))
               ((symbol-function 'gemini-companion-notify--means) (lambda () 'dbus))
               ((symbol-function 'ding)
                (lambda (&optional keep-macro)
                  (should keep-macro)
                  (setq gemini-companion-notify-test--rings
                        (1+ gemini-companion-notify-test--rings)))))
       (unwind-protect
           (gemini-companion-test-with-client ,client ,@body)
         (gemini-companion-notify--answered)))))

(defmacro gemini-companion-notify-test--with-desktop (client desktop &rest body)
  "Evaluate BODY with CLIENT connected, the user away, and DESKTOP.
DESKTOP may be a list of the variable and a kind of desktop."
  (declare (indent 2) (debug (symbolp sexp body)))
  (let ((spec (ensure-list desktop)))
    `(gemini-companion-test-with-desktop ,spec
       ;; On a busy machine it may take long to answer.
       (let ((gemini-companion-notify--patience gemini-companion-test-timeout))
         (gemini-companion-notify-test--with ,client
             (gemini-companion-test-desktop-address ,(car spec))
           ,@body)))))

(defun gemini-companion-notify-test--wait (what predicate)
  "Wait for WHAT until PREDICATE holds, handling the messages of the bus."
  (gemini-companion-test-wait what (lambda ()
                                     (read-event nil nil 0.01)
                                     (funcall predicate))))

(defun gemini-companion-notify-test--wait-bell ()
  "Wait until the bell rings."
  (gemini-companion-notify-test--wait
   "the bell" (lambda () (> gemini-companion-notify-test--rings 0))))

(ert-deftest gemini-companion-notify/it-names-the-change-that-waits ()
  (gemini-companion-notify-test--with-desktop client desktop
    (gemini-companion-test-propose client "a.txt" "one\n2\nthree\n")
    (let-alist (gemini-companion-test-desktop-wait desktop "notify")
      (should (equal .title "Gemini CLI proposes a change"))
      (should (string-match-p "a\\.txt, \\+2 -1\\'" .body))
      (should (equal .actions '("default" "Show")))
      (should (equal .replaces 0)))
    (should (equal gemini-companion-notify-test--rings 0))))

(ert-deftest gemini-companion-notify/nothing-while-the-user-is-present ()
  (gemini-companion-notify-test--with-desktop client desktop
    (setq gemini-companion-notify-test--away nil)
    (gemini-companion-review-reject (gemini-companion-test-propose client "a.txt" "2\n"))
    (setq gemini-companion-notify-test--away t)
    (gemini-companion-test-propose client "new.txt" "2\n")
    (let-alist (gemini-companion-test-desktop-wait desktop "notify")
      (should (equal .title "Gemini CLI proposes a new file"))
      (should (string-match-p "new\\.txt, \\+1\\'" .body)))))

(ert-deftest gemini-companion-notify/a-change-shown-later-is-notified-of ()
  "The change came while the user was here and is shown after the user has left."
  (gemini-companion-notify-test--with-desktop client desktop
    (setq gemini-companion-notify-test--away nil)
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (setq gemini-companion-notify-test--away t)
      (gemini-companion-review-show review 'keep)
      (gemini-companion-test-desktop-wait desktop "notify")
      ;; It notifies only once.
      (gemini-companion-review-postpone review)
      (gemini-companion-review-show review 'keep)
      (gemini-companion-test-propose client "b.txt" "2\n")
      (let-alist (gemini-companion-test-desktop-wait desktop "notify" 2)
        (should (equal .title "2 changes wait for your decision"))
        (should (string-match-p "b\\.txt" .body))))))

(ert-deftest gemini-companion-notify/several-changes-are-one-notification ()
  "It is updated for each change and closed when the last one is decided."
  (gemini-companion-notify-test--with-desktop client desktop
    (let ((one (gemini-companion-test-propose client "a.txt" "2\n"))
          (two (gemini-companion-test-propose client "b.txt" "2\n")))
      (gemini-companion-test-desktop-wait desktop "notify")
      (gemini-companion-notify-test--wait
       "a notification of two changes"
       (lambda ()
         (let-alist (car (last (gemini-companion-test-desktop-events desktop "notify")))
           (equal .title "2 changes wait for your decision"))))
      (let ((three (gemini-companion-test-propose client "c.txt" "2\n")))
        (gemini-companion-notify-test--wait
         "a notification of three changes"
         (lambda ()
           (let-alist (car (last (gemini-companion-test-desktop-events desktop "notify")))
             (and (equal .title "3 changes wait for your decision")
                  (equal .replaces 7)))))
        (gemini-companion-review-reject two)
        (gemini-companion-review-reject three)
        (should-not (gemini-companion-test-desktop-events desktop "close"))
        (gemini-companion-review-reject one))
      (let-alist (gemini-companion-test-desktop-wait desktop "close")
        (should (equal .id 7)))
      ;; The next change gets a new notification.
      (gemini-companion-test-propose client "a.txt" "2\n")
      (gemini-companion-notify-test--wait
       "a notification of its own"
       (lambda ()
         (let-alist (car (last (gemini-companion-test-desktop-events desktop "notify")))
           (and (equal .replaces 0)
                (equal .title "Gemini CLI proposes a change"))))))))

(ert-deftest gemini-companion-notify/a-change-that-comes-while-connecting-is-included ()
  "D-Bus handles other events while it connects."
  (gemini-companion-notify-test--with-desktop client desktop
    (require 'dbus)
    (let ((register (symbol-function 'dbus-register-signal))
          (nested nil))
      (cl-letf (((symbol-function 'dbus-register-signal)
                 (lambda (&rest arguments)
                   (unless nested
                     (setq nested t)
                     (gemini-companion-test-propose client "b.txt" "2\n")
                     (gemini-companion-notify-test--wait
                      "what the second change has started"
                      (lambda () (not (processp gemini-companion-notify--awaited)))))
                   (apply register arguments))))
        (gemini-companion-test-propose client "a.txt" "2\n")
        (gemini-companion-test-desktop-wait desktop "notify"))
      (gemini-companion-notify-test--wait "the answer"
                                          (lambda () (not gemini-companion-notify--awaited)))
      (should nested)
      (should (equal (mapcar (lambda (event) (alist-get 'title event))
                             (gemini-companion-test-desktop-events desktop "notify"))
                     '("2 changes wait for your decision"))))))

(ert-deftest gemini-companion-notify/a-change-decided-early-is-closed-at-once ()
  (gemini-companion-notify-test--with-desktop client desktop
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (gemini-companion-test-desktop-wait desktop "notify")
      (gemini-companion-review-reject review)
      (gemini-companion-test-desktop-wait desktop "close"))))

(ert-deftest gemini-companion-notify/texts-are-escaped-and-shortened ()
  "It has no invisible characters either, and is not long."
  (gemini-companion-notify-test--with-desktop client desktop
    (let ((name (concat (make-string 150 ?x) "/a&<b>x</b>\n\u202e\u0085\u007f.txt")))
      (gemini-companion-test-propose client name "2\n")
      (let-alist (gemini-companion-test-desktop-wait desktop "notify")
        (should (string-match-p "\\`…x+/a&amp;&lt;b&gt;x&lt;/b&gt;\\^J\\\\u202e[?^]+\\.txt, \\+1\\'"
                                .body))
        (should (< (length .body) 170))))))

(ert-deftest gemini-companion-notify/invalid-unicode-does-not-reach-the-bus ()
  (should (equal (gemini-companion-notify--plain "a\x3fffe9\xd800\u0000ä𝕏") "a???ä𝕏")))

(ert-deftest gemini-companion-notify/without-a-desktop-the-bell-rings ()
  "There is no bus, a dead one, one that does not answer, or one without a desktop."
  (let ((gemini-companion-notify--patience 0.2))
    (dolist (address '("unix:path=/nonexistent/bus" "unix:abstract=nothing" ""))
      (gemini-companion-notify-test--with client address
        (gemini-companion-test-propose client "a.txt" "2\n")
        (gemini-companion-notify-test--wait-bell)
        (should (equal gemini-companion-notify-test--rings 1)))))
  (gemini-companion-notify-test--with-desktop client (desktop 'none)
    (gemini-companion-test-propose client "a.txt" "2\n")
    (gemini-companion-notify-test--wait-bell)))

(ert-deftest gemini-companion-notify/a-bus-that-hangs-up-at-once-is-no-error ()
  (gemini-companion-notify-test--with-desktop client desktop
    (cl-letf* ((send (symbol-function 'process-send-string))
               ((symbol-function 'process-send-string)
                (lambda (process text)
                  (if (string-prefix-p "gemini-companion-notify" (process-name process))
                      (error "No longer connected")
                    (funcall send process text)))))
      (gemini-companion-test-propose client "a.txt" "2\n")
      (gemini-companion-notify-test--wait-bell))
    (should (equal gemini-companion-notify-test--rings 1))
    (should-not gemini-companion-notify--awaited)))

(ert-deftest gemini-companion-notify/a-bus-that-does-not-answer-does-not-block ()
  "A change can be accepted while Emacs waits for the bus; then the bell rings."
  (gemini-companion-notify-test--with-desktop client desktop
    (gemini-companion-test-desktop-halt desktop)
    (let ((gemini-companion-notify--patience 1000))
      (gemini-companion-test-propose client "a.txt" "2\n")
      (gemini-companion-review-reject (gemini-companion-test-propose client "b.txt" "2\n"))
      (should gemini-companion-notify--awaited)
      (should (equal gemini-companion-notify-test--rings 0)))
    (gemini-companion-notify--give-up "for the test")
    (should (equal gemini-companion-notify-test--rings 1))
    ;; Once it answers again, it notifies of the next change.
    (gemini-companion-test-desktop-continue desktop)
    (gemini-companion-test-propose client "c.txt" "2\n")
    (gemini-companion-test-desktop-wait desktop "notify")))

(ert-deftest gemini-companion-notify/a-desktop-that-does-not-answer-does-not-block ()
  (gemini-companion-notify-test--with-desktop client (desktop 'silent)
    (let ((gemini-companion-notify--patience 1000))
      (gemini-companion-test-propose client "a.txt" "2\n")
      (gemini-companion-test-desktop-wait desktop "notify")
      (gemini-companion-review-reject (gemini-companion-test-propose client "b.txt" "2\n"))
      (should gemini-companion-notify--awaited)
      (should (equal (length (gemini-companion-test-desktop-events desktop "notify")) 1)))
    (gemini-companion-notify--give-up "for the test")
    (should (equal gemini-companion-notify-test--rings 1))))

(ert-deftest gemini-companion-notify/a-late-answer-is-not-that-to-a-later-call ()
  "The user is told of a change although the answer about another one comes."
  (let (handlers)
    (cl-letf (((symbol-function 'dbus-call-method-asynchronously)
               (lambda (_bus _service _path _interface method handler &rest _)
                 (when (equal method "Notify") (push handler handlers))
                 (list :serial :session (length handlers)))))
      (gemini-companion-notify-test--with client :session
        (let ((gemini-companion-notify--connected t)
              (gemini-companion-notify--patience 1000))
          (gemini-companion-test-propose client "a.txt" "2\n")
          (gemini-companion-notify--give-up "for the test")
          (should (equal gemini-companion-notify-test--rings 1))
          (setq gemini-companion-notify--connected t)
          (gemini-companion-test-propose client "b.txt" "2\n")
          (should (length= handlers 2))
          (funcall (cadr handlers) 7)
          (should gemini-companion-notify--awaited)
          (gemini-companion-notify--give-up "for the test")
          (should (equal gemini-companion-notify-test--rings 2)))))))

(ert-deftest gemini-companion-notify/a-click-shows-the-change ()
  (gemini-companion-notify-test--with-desktop client desktop
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n"))
          (click (lambda (id)
                   (dbus-call-method-asynchronously
                    gemini-companion-notify--bus gemini-companion-notify--service
                    gemini-companion-notify--path gemini-companion-notify--service
                    "Click" nil :uint32 id))))
      (gemini-companion-notify-test--wait
       "the notification" (lambda () (eql gemini-companion-notify--id 7)))
      ;; A click on the notification of another program.
      (funcall click 8)
      (funcall click 7)
      (gemini-companion-notify-test--wait
       "the change on screen" (lambda () (gemini-companion-review-shown-p review)))
      (should (eq (gemini-companion-review-current) review)))))

(ert-deftest gemini-companion-notify/options ()
  (let ((notified nil))
    (dolist (notify (list nil 'bell (lambda (review) (push review notified))))
      (gemini-companion-notify-test--with client ""
        (let* ((gemini-companion-notify notify)
               (review (gemini-companion-test-propose client "a.txt" "2\n")))
          (should (equal gemini-companion-notify-test--rings (if (eq notify 'bell) 1 0)))
          (should (equal notified (and (functionp notify) (list review))))
          (gemini-companion-review-show review 'keep)
          (should (equal gemini-companion-notify-test--rings (if (eq notify 'bell) 1 0)))
          (should (equal notified (and (functionp notify) (list review)))))))))

(ert-deftest gemini-companion-notify/the-hook-runs-with-and-without-the-focus ()
  (gemini-companion-notify-test--with client ""
    (setq gemini-companion-notify-test--away nil)
    (let* ((waiting nil)
           (gemini-companion-review-waiting-hook
            (list (lambda () (push gemini-companion-review-waiting waiting))
                  (lambda () (error "Not today"))))
           (review (gemini-companion-test-propose client "a.txt" "2\n")))
      (should (equal waiting (list review)))
      (gemini-companion-review-show review 'keep)
      (should (equal waiting (list review review)))
      (should-not gemini-companion-review-waiting))))

(ert-deftest gemini-companion-notify/text-terminals-have-a-bell ()
  (let ((terminals nil))
    (cl-letf (((symbol-function 'frame-list) (lambda () (mapcar #'car terminals)))
              ((symbol-function 'display-graphic-p)
               (lambda (frame) (eq (alist-get frame terminals) 'x)))
              ((symbol-function 'terminal-name)
               (lambda (frame) (format "%s" (alist-get frame terminals)))))
      (dolist (case '((((1 . /dev/tty)) bell)
                      (((1 . initial_terminal)) dbus)
                      (((1 . initial_terminal) (2 . /dev/pts/1)) dbus)
                      (((1 . /dev/pts/1) (2 . x)) dbus)))
        (setq terminals (car case))
        (ert-info ((format "%S" case))
          (should (eq (gemini-companion-notify--means) (cadr case))))))))

(ert-deftest gemini-companion-notify/when-the-user-is-away ()
  "If Emacs does not know which frame has the focus, the last key counts."
  (let ((states nil) (idle nil) (noninteractive nil))
    (cl-letf (((symbol-function 'frame-list) (lambda () states))
              ((symbol-function 'frame-focus-state) #'identity)
              ((symbol-function 'current-idle-time)
               (lambda () (and idle (seconds-to-time idle)))))
      (dolist (case '(((nil t) 100 nil) ((nil nil) nil t)
                      ((nil unknown) nil nil) ((unknown) 5 nil) ((unknown) 100 t)
                      ((unknown t) 100 nil)))
        (ert-info ((format "%S" case))
          (setq states (car case) idle (cadr case))
          (should (eq (and (gemini-companion-notify--away-p) t) (nth 2 case))))))))

;;; gemini-companion-notify-test.el ends here

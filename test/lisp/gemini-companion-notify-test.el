;;; gemini-companion-notify-test.el --- Tests of notifications  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The program notify-send is a script, test/support/fake-notify-send.sh.

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-notify)
(require 'gemini-companion-test-companion)

(defvar gemini-companion-notify-test--rings 0
  "How often the bell has rung.")

(defvar gemini-companion-notify-test--away t
  "Non-nil while the user is not looking at Emacs.")

(defvar gemini-companion-notify-test--directory nil
  "The directory of the program notify-send.")

(defmacro gemini-companion-notify-test--with (client &rest body)
  "Evaluate BODY with CLIENT connected, the user away, and a notify-send."
  (declare (indent 1) (debug (symbolp body)))
  `(let* ((gemini-companion-notify--shown nil)
          (gemini-companion-notify--subjects nil)
          (gemini-companion-notify-test--rings 0)
          (gemini-companion-notify-test--away t)
          (gemini-companion-notify-test--directory (gemini-companion-test-temp-directory))
          (exec-path (cons gemini-companion-notify-test--directory exec-path)))
     (make-symbolic-link (gemini-companion-test-path "test" "support" "fake-notify-send.sh")
                         (expand-file-name "notify-send" gemini-companion-notify-test--directory))
     (cl-letf (((symbol-function 'gemini-companion-notify--away-p)
                (lambda () gemini-companion-notify-test--away))
               ((symbol-function 'ding)
                (lambda (&optional keep-macro)
                  (should keep-macro)
                  (setq gemini-companion-notify-test--rings
                        (1+ gemini-companion-notify-test--rings)))))
       (unwind-protect
           (gemini-companion-test-with-client ,client ,@body)
         (gemini-companion-notify--close)
         ;; It writes to its log as it ends.
         (gemini-companion-test-wait
          "notify-send to end"
          (lambda () (not (seq-some (lambda (it) (string-search "notify-send" (process-name it)))
                                    (process-list)))))
         (delete-directory gemini-companion-notify-test--directory t)))))

(defun gemini-companion-notify-test--touch (name)
  "Make an empty file NAME in the directory of notify-send."
  (write-region "" nil (expand-file-name name gemini-companion-notify-test--directory) nil 0))

(defun gemini-companion-notify-test--log ()
  "Return the lines that notify-send has logged."
  (let ((log (expand-file-name "log" gemini-companion-notify-test--directory)))
    (and (file-exists-p log)
         (split-string (gemini-companion-test-read log) "\n" t))))

(defun gemini-companion-notify-test--wait (&rest regexps)
  "Wait until each line of notify-send's log matches one of REGEXPS, in order."
  (gemini-companion-test-wait
   (lambda () (format "%S; there is %S" regexps (gemini-companion-notify-test--log)))
   (lambda ()
     (let ((lines (gemini-companion-notify-test--log)))
       (and (length= lines (length regexps))
            (cl-every #'string-match-p regexps lines))))))

(defun gemini-companion-notify-test--wait-bell ()
  "Wait until the bell rings."
  (gemini-companion-test-wait
   "the bell" (lambda () (> gemini-companion-notify-test--rings 0))))

(ert-deftest gemini-companion-notify/it-names-the-change-that-waits ()
  (gemini-companion-notify-test--with client
    (gemini-companion-test-propose client "a.txt" "one\n2\nthree\n")
    (gemini-companion-notify-test--wait
     "--action=default=Show -- Gemini CLI proposes a change .*a\\.txt, \\+2 -1\\'")
    (should (equal gemini-companion-notify-test--rings 0))))

(ert-deftest gemini-companion-notify/nothing-while-the-user-is-present ()
  (gemini-companion-notify-test--with client
    (setq gemini-companion-notify-test--away nil)
    (gemini-companion-review-reject (gemini-companion-test-propose client "a.txt" "2\n"))
    (setq gemini-companion-notify-test--away t)
    (gemini-companion-test-propose client "new.txt" "2\n")
    (gemini-companion-notify-test--wait "proposes a new file .*new\\.txt, \\+1\\'")))

(ert-deftest gemini-companion-notify/a-change-shown-later-is-notified-of ()
  "The change came while the user was here and is shown after the user has left."
  (gemini-companion-notify-test--with client
    (setq gemini-companion-notify-test--away nil)
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (setq gemini-companion-notify-test--away t)
      (gemini-companion-review-show review 'keep)
      (gemini-companion-notify-test--wait "a\\.txt")
      ;; It notifies only once.
      (gemini-companion-review-postpone review)
      (gemini-companion-review-show review 'keep)
      (gemini-companion-notify-test--wait "a\\.txt"))))

(ert-deftest gemini-companion-notify/several-changes-are-one-notification ()
  "Each change replaces it, and it is closed when the last one is decided."
  (gemini-companion-notify-test--with client
    (let ((one (gemini-companion-test-propose client "a.txt" "2\n"))
          (two nil))
      (gemini-companion-notify-test--wait "a\\.txt")
      (setq two (gemini-companion-test-propose client "b.txt" "2\n"))
      (gemini-companion-test-wait
       "three lines" (lambda () (length= (gemini-companion-notify-test--log) 3)))
      (let ((lines (gemini-companion-notify-test--log)))
        (should (member "closed" lines))
        (should (seq-some (lambda (line)
                            (string-match-p "2 changes wait for your decision .*b\\.txt" line))
                          lines)))
      (gemini-companion-review-reject two)
      (should (processp gemini-companion-notify--shown))
      (gemini-companion-review-reject one)
      (should-not gemini-companion-notify--shown)
      (gemini-companion-test-wait
       "the end" (lambda () (equal (nth 3 (gemini-companion-notify-test--log)) "closed"))))))

(ert-deftest gemini-companion-notify/texts-are-escaped-and-shortened ()
  "It has no invisible characters either, and is not long."
  (gemini-companion-notify-test--with client
    (let ((name (concat (make-string 150 ?x) "/a&<b>x</b>\n\u202e\u0085\u007f.txt")))
      (gemini-companion-test-propose client name "2\n")
      (gemini-companion-notify-test--wait
       "…x+/a&amp;&lt;b&gt;x&lt;/b&gt;\\^J\\\\u202e[?^]+\\.txt, \\+1\\'"))))

(ert-deftest gemini-companion-notify/backslashes-are-shown-as-they-are ()
  "The program takes them for escapes, and crashes if the text is not UTF-8 then."
  (gemini-companion-notify-test--with client
    (gemini-companion-test-propose client "a\\nb \\377.txt" "2\n")
    (gemini-companion-notify-test--wait " a\\\\nb \\\\377\\.txt, \\+1\\'")))

(ert-deftest gemini-companion-notify/invalid-unicode-is-not-passed-on ()
  (should (equal (gemini-companion-notify--plain "a\x3fffe9\xd800\u0000ä𝕏") "a???ä𝕏")))

(ert-deftest gemini-companion-notify/an-old-notify-send-knows-no-actions ()
  (gemini-companion-notify-test--with client
    (gemini-companion-notify-test--touch "old")
    (gemini-companion-test-propose client "a.txt" "2\n")
    (gemini-companion-notify-test--wait "\\`--app-name=Emacs --icon=emacs -- Gemini CLI proposes")
    (gemini-companion-test-wait "its end" (lambda () (not gemini-companion-notify--shown)))
    (should (equal gemini-companion-notify-test--rings 0))))

(ert-deftest gemini-companion-notify/without-a-desktop-the-bell-rings ()
  "There is no bus, or no program."
  (gemini-companion-notify-test--with client
    (gemini-companion-notify-test--touch "broken")
    (gemini-companion-test-propose client "a.txt" "2\n")
    (gemini-companion-notify-test--wait-bell)
    (should-not gemini-companion-notify--shown))
  (gemini-companion-notify-test--with client
    (delete-file (expand-file-name "notify-send" gemini-companion-notify-test--directory))
    (let ((exec-path (list gemini-companion-notify-test--directory)))
      (gemini-companion-test-propose client "a.txt" "2\n"))
    (should (equal gemini-companion-notify-test--rings 1))))

(ert-deftest gemini-companion-notify/a-click-shows-the-change ()
  (gemini-companion-notify-test--with client
    (let ((review (gemini-companion-test-propose client "a.txt" "2\n")))
      (gemini-companion-notify-test--wait "a\\.txt")
      (gemini-companion-notify-test--touch "click")
      (gemini-companion-test-wait
       "the change on screen" (lambda () (gemini-companion-review-shown-p review)))
      (should (eq (gemini-companion-review-current) review)))))

(ert-deftest gemini-companion-notify/it-names-the-cli-that-asks-or-is-done ()
  "It shows the question, or else the prompt, and goes away with the next prompt."
  (gemini-companion-notify-test--with client
    (let ((gemini-companion-cli--all nil)
          (gemini-companion-notify-turn 0)
          (note (lambda (what text)
                  (gemini-companion-cli-note what 'gemini (emacs-pid) "id" default-directory text))))
      (funcall note 'prompt "Do\nit")
      (funcall note 'asks "Run rm?")
      (gemini-companion-notify-test--wait "-- Gemini CLI asks a question in .* Run rm\\?\\'")
      (funcall note 'prompt (make-string 200 ?x))
      (gemini-companion-notify-test--wait "Run rm" "\\`closed\\'")
      (funcall note 'done nil)
      (gemini-companion-notify-test--wait "Run rm" "closed" "-- Gemini CLI is done in .* x+…\\'"))))

(ert-deftest gemini-companion-notify/a-message-names-keys-that-answer-this-cli ()
  "Where the user is, the same keys may answer another one, in another project."
  (gemini-companion-test-with-project
    (let* ((gemini-companion-cli--all nil)
           (gemini-companion-notify nil)
           (said nil)
           (ask (lambda (terminal)
                  (with-current-buffer terminal ; as when Emacs has just looked at it
                    (gemini-companion-cli-note-screen terminal t 'gemini default-directory))
                  said))
           (terminals
            (mapcar (lambda (name)
                      (with-current-buffer (generate-new-buffer name)
                        (setq default-directory (file-name-as-directory
                                                 (expand-file-name name default-directory))
                              gemini-companion-cli-run-root default-directory)
                        (make-directory (expand-file-name ".git" default-directory) t)
                        (make-process :name "cli" :buffer (current-buffer) :command '("cat")
                                      :noquery t :sentinel #'ignore)
                        (current-buffer)))
                    '("one" "two"))))
      (cl-letf* (((symbol-function 'gemini-companion-ui-message)
                  (lambda (_topic format &rest arguments)
                    (setq said (apply #'format format arguments))))
                 (user (current-buffer))
                 ((symbol-function 'gemini-companion-ui-selected-buffer) (lambda (&rest _) user)))
        (unwind-protect
            (progn
              (setq default-directory (buffer-local-value 'default-directory (car terminals)))
              (should (string-search "in one; M-x gemini-companion-answer-yes answers yes"
                                     (funcall ask (car terminals))))
              (should (string-suffix-p "in two; M-x gemini-companion-next shows what waits"
                                       (funcall ask (cadr terminals))))
              (kill-buffer (car terminals))
              (setq gemini-companion-cli--all nil)
              (should (string-search "in two; M-x gemini-companion-answer-yes answers yes"
                                     (funcall ask (cadr terminals)))))
          (mapc #'gemini-companion-ui-kill-buffer terminals))))))

(ert-deftest gemini-companion-notify/what-runs-a-cli-is-not-loaded-for-the-first-change ()
  "The CLI may run in another terminal, and that takes 50 ms."
  (with-temp-buffer
    (call-process (expand-file-name invocation-name invocation-directory) nil t nil
                  "-Q" "--batch" "-L" (gemini-companion-test-path "lisp")
                  "-l" "gemini-companion-notify" "--eval"
                  "(princ (featurep 'gemini-companion-cli-run))")
    (should (equal (buffer-string) "nil"))))

(ert-deftest gemini-companion-notify/a-click-says-why-it-shows-nothing ()
  "A CLI may run in a terminal outside of Emacs."
  (gemini-companion-test-with-project
    (let* ((gemini-companion-cli--all nil)
           (cli (gemini-companion-cli-note 'prompt 'gemini (emacs-pid) "id" default-directory "Do"))
           (gemini-companion-notify--subjects (list cli)))
      (gemini-companion-test-with-answer nil
        (gemini-companion-notify--visit)
        (should (string-match-p "\\`Gemini CLI in .* runs in a terminal outside of Emacs (process "
                                (car gemini-companion-test-messages)))))))

(ert-deftest gemini-companion-notify/options ()
  (let ((notified nil))
    (dolist (notify (list nil 'bell (lambda (review) (push review notified))))
      (gemini-companion-notify-test--with client
        (let* ((gemini-companion-notify notify)
               (review (gemini-companion-test-propose client "a.txt" "2\n")))
          (should (equal gemini-companion-notify-test--rings (if (eq notify 'bell) 1 0)))
          (should (equal notified (and (functionp notify) (list review))))
          (gemini-companion-review-show review 'keep)
          (should (equal gemini-companion-notify-test--rings (if (eq notify 'bell) 1 0)))
          (should (equal notified (and (functionp notify) (list review)))))))))

(ert-deftest gemini-companion-notify/the-hook-runs-with-and-without-the-focus ()
  (gemini-companion-notify-test--with client
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
              ((symbol-function 'executable-find) #'identity)
              ((symbol-function 'frame-visible-p) #'identity)
              ((symbol-function 'display-graphic-p)
               (lambda (frame) (eq (alist-get frame terminals) 'x)))
              ((symbol-function 'terminal-name)
               (lambda (frame) (format "%s" (alist-get frame terminals)))))
      (dolist (case '((((1 . /dev/tty)) bell)
                      (((1 . initial_terminal)) notify-send)
                      (((1 . initial_terminal) (2 . /dev/pts/1)) bell)
                      (((1 . initial_terminal) (2 . /dev/pts/1) (3 . x)) notify-send)
                      (((1 . /dev/pts/1) (2 . x)) notify-send)))
        (setq terminals (car case))
        (ert-info ((format "%S" case))
          (should (eq (gemini-companion-notify--means) (cadr case)))))
      ;; Also in the Mac port, which lacks the feature `ns'.
      (let ((system-type 'darwin))
        (should (eq (gemini-companion-notify--means) 'osascript))))))

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

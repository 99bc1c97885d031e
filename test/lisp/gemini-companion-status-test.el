;;; gemini-companion-status-test.el --- Tests of the status buffer  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'cl-lib)
(require 'ert)
(require 'gemini-companion-status)
(require 'gemini-companion-test-companion)

(defun gemini-companion-status-test--text ()
  "Return the text of the status buffer."
  (with-current-buffer "*gemini status*"
    (revert-buffer)
    (buffer-substring-no-properties (point-min) (point-max))))

(defun gemini-companion-status-test--press (label)
  "Press the first button with LABEL."
  (with-current-buffer "*gemini status*"
    (revert-buffer)
    (goto-char (point-min))
    (search-forward (format "[%s]" label))
    (push-button (match-beginning 0))))

(ert-deftest gemini-companion-status/it-lists-clients-and-waiting-changes ()
  (gemini-companion-test-with-client client
    (let ((inhibit-message t))
      (gemini-companion-test-propose client "a.txt" "x\n")
      (gemini-companion-status)
      (let ((text (gemini-companion-status-test--text)))
        (dolist (expected (list (format "port %d" (gemini-companion-bridge-port))
                                "gemini-ide-server-"
                                (directory-file-name gemini-companion-test-project)
                                "Sessions: 1\n  fake-cli 1"
                                (format ", process %d" (emacs-pid))
                                "1 change not decided"
                                "that wait: 1"
                                (gemini-companion-test-file "a.txt")
                                (format "package %s, module %s"
                                        gemini-companion-native-version
                                        (gemini-companion-native-loaded-version))))
          (ert-info ((format "%s in\n%s" expected text))
            (should (string-search expected text))))
        (should-not (string-search "missing" text))
        (should-not (string-search (gemini-companion-bridge-token) text)))
      (gemini-companion-review-reject (car (gemini-companion-review-all-open)))
      (should (string-search "that wait: 0" (gemini-companion-status-test--text))))))

(ert-deftest gemini-companion-status/headings-have-a-face-of-their-own ()
  (gemini-companion-test-with-project
    (gemini-companion-status)
    (should (eq (get-text-property (point-min) 'face) 'gemini-companion-heading))
    (should (eq (face-attribute 'gemini-companion-heading :weight nil t) 'bold))))

(ert-deftest gemini-companion-status/buttons-work ()
  (gemini-companion-test-with-client client
    (let ((inhibit-message t))
      (gemini-companion-test-propose client "a.txt" "x\n")
      (gemini-companion-status)
      (gemini-companion-status-test--press "restart")
      (gemini-companion-status-test--press "disconnect")
      (gemini-companion-test-wait
       "the session to end"
       (lambda () (string-search "Sessions: 0\n  A running CLI connects" (gemini-companion-status-test--text))))
      (gemini-companion-test-wait "its review to be closed"
                                  (lambda () (zerop (gemini-companion-review-count))))
      (gemini-companion-status-test--press "turn off")
      (should (string-search "is off" (gemini-companion-status-test--text)))
      (gemini-companion-status-test--press "turn on")
      (should gemini-companion-mode))))

(ert-deftest gemini-companion-status/turning-off-asks-while-a-change-waits ()
  "As exiting Emacs does; Lisp and the command turn it off at once."
  (gemini-companion-test-with-client client
    (let* ((inhibit-message t)
           (review (gemini-companion-test-propose client "a.txt" "x\n"))
           (asked nil))
      (cl-letf (((symbol-function 'gemini-companion-ui-user-frame-p) #'always)
                ((symbol-function 'yes-or-no-p) (lambda (question) (push question asked) nil)))
        (gemini-companion-status)
        (gemini-companion-status-test--press "turn off")
        (call-interactively (lookup-key gemini-companion-menu-bar [Turn\ Off]))
        (should (gemini-companion-review-open-p review))
        (should (equal asked (make-list 2 "A proposed change waits for your decision.  \
Reject it and turn the companion off? ")))
        (gemini-companion-mode -1)
        (should-not (cddr asked))
        (should-not (gemini-companion-review-open-p review))))))

(ert-deftest gemini-companion-status/a-change-out-of-sight-is-shown ()
  (gemini-companion-test-with-client client
    (let ((inhibit-message t)
          (review (gemini-companion-test-propose client "a.txt" "x\n")))
      (gemini-companion-review-show review 'select)
      (switch-to-buffer "*scratch*")
      (delete-other-windows)
      (should-not (gemini-companion-review-on-screen-p review))
      (gemini-companion-status)
      (gemini-companion-status-test--press "show")
      (should (gemini-companion-review-on-screen-p review))
      (gemini-companion-review-reject review))))

(ert-deftest gemini-companion-status/point-stays-when-it-is-refreshed ()
  (gemini-companion-test-with-client client
    (should client)
    (gemini-companion-status)
    (goto-char (point-min))
    (forward-line 3)
    (forward-char 4)
    (let ((before (point)))
      (revert-buffer)
      (should (= (point) before)))))

;; It jumped each second, so that point was in the middle.
(ert-deftest gemini-companion-status/a-report-does-not-scroll-when-it-is-refreshed ()
  (gemini-companion-test-with-client client
    (should client)
    (save-window-excursion
      (gemini-companion-status)
      (let ((start (gemini-companion-ui-line-start 3)))
        (set-window-start nil start)
        (revert-buffer)
        (should (= (window-start) start))))))

(ert-deftest gemini-companion-status/a-region-stays-until-it-is-copied ()
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (gemini-companion-status)
    (let ((transient-mark-mode t))
      (goto-char (point-min))
      (push-mark (line-end-position) t t)
      (gemini-companion-mode -1)
      (gemini-companion-status--refresh)
      (should (string-search "listens on" (buffer-substring (region-beginning) (region-end))))
      (deactivate-mark)
      (gemini-companion-status--refresh)
      (should (string-search "is off" (buffer-string))))))

(defmacro gemini-companion-status-test--with-sessions (&rest body)
  "Evaluate BODY in the status buffer, while there are two sessions.
SESSIONS are their keys, and ENDED those that were disconnected."
  (declare (indent 0) (debug t))
  `(gemini-companion-test-with-project
     (gemini-companion-mode 1)
     (let ((inhibit-message t)
           (sessions (list "1" "2"))
           (ended nil))
       (cl-letf (((symbol-function 'gemini-companion-bridge-sessions)
                  (lambda ()
                    (mapcar (lambda (key)
                              (vector key (concat "client " key) nil 5 'open 0 0 nil nil))
                            sessions)))
                 ((symbol-function 'gemini-companion-bridge-disconnect)
                  (lambda (key)
                    (when (member key sessions)
                      (push key ended)
                      (setq sessions (remove key sessions))
                      t))))
         (gemini-companion-status)
         ,@body))))

(defun gemini-companion-status-test--go-to (client)
  "Move point into the button that disconnects CLIENT."
  (goto-char (point-min))
  (search-forward client)
  (search-forward "[disco"))

(ert-deftest gemini-companion-status/point-follows-a-session ()
  (gemini-companion-status-test--with-sessions
    (gemini-companion-status-test--go-to "client 2")
    (setq sessions (list "2"))
    (revert-buffer)
    (should (looking-at "\\[disco"))
    (should (looking-back "client 2.*" (line-beginning-position)))
    (setq sessions (list "3" "4" "2"))
    (revert-buffer)
    (push-button)
    (should (equal ended '("2")))
    ;; Nothing else takes its place.
    (should-not (button-at (point)))))

(ert-deftest gemini-companion-status/a-button-does-not-end-the-session-that-took-its-place ()
  (gemini-companion-status-test--with-sessions
    (gemini-companion-status-test--go-to "client 1")
    (setq sessions (list "2"))
    (revert-buffer)
    (should-not (button-at (point)))
    (gemini-companion-status-test--go-to "client 2")
    ;; It ends before the buffer shows that.
    (setq sessions (list "3"))
    (should (equal (cadr (should-error (push-button) :type 'user-error))
                   "This session has ended in the meantime"))
    (should-not ended)
    (should (string-search "client 3" (buffer-string)))))

;;; gemini-companion-status-test.el ends here

;;; gemini-companion-log-test.el --- Tests of the log  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-log)
(require 'gemini-companion-test-companion)

(ert-deftest gemini-companion-log/durations ()
  (pcase-dolist (`(,seconds ,words) '((-5 "0 s") (3.9 "3 s") (59 "59 s") (125 "2 min")
                                      (7300 "2 h") (200000 "2 d")))
    (should (equal (gemini-companion-ui-duration seconds) words))))

(defun gemini-companion-log-test--wait (pattern)
  "Wait until a line of the log matches PATTERN."
  (gemini-companion-test-wait
   (lambda () (format "%s in\n%s" pattern (string-join (gemini-companion-log-last 20) "\n")))
   (lambda () (seq-some (lambda (line) (string-match-p pattern line))
                        (gemini-companion-log-last 20)))))

(ert-deftest gemini-companion-log/messages-are-logged-on-demand ()
  (let ((inhibit-message t)
        (command (lambda ()
                   (with-current-buffer (gemini-companion-log--buffer)
                     (call-interactively (key-binding "p"))))))
    (gemini-companion-test-with-client client
      (gemini-companion-log-add "begin")
      (fake-cli-request client "ping")
      (funcall command)
      (unwind-protect
          (progn
            (fake-cli-request client "tools/list")
            (gemini-companion-log-test--wait
             "<- [0-9a-f]\\{8\\} POST {.*\"method\":\"tools/list\"")
            (gemini-companion-log-test--wait "-> [0-9a-f]\\{8\\} 200 {.*openDiff")
            (gemini-companion-test-propose client "a.txt" "secret\nä")
            (gemini-companion-log-test--wait "<- .*\"newContent\":\"secret\\\\nä\"")
            (gemini-companion-review-reject (car (gemini-companion-review-all-open)))
            (gemini-companion-log-test--wait "-> .* event {.*ide/diffRejected"))
        (funcall command))
      (gemini-companion-bridge-drain)
      (let ((last (gemini-companion-log-last 1)))
        (fake-cli-request client "ping")
        (gemini-companion-bridge-drain)
        (should (equal (gemini-companion-log-last 1) last)))
      (should-not (seq-some (lambda (line) (string-search "\"ping\"" line))
                            (gemini-companion-log-last 30))))))

(ert-deftest gemini-companion-log/it-is-bounded ()
  (let ((gemini-companion-log--max-size 1000))
    (dotimes (number 100)
      (gemini-companion-log-add "line %d" number))
    (should (< (buffer-size (gemini-companion-log--buffer)) 1100))
    (should (string-suffix-p "line 99" (car (gemini-companion-log-last 1))))))

(ert-deftest gemini-companion-log/what-fails-when-the-user-is-free-is-shown ()
  "And logged; no error leaves the timer."
  (gemini-companion-test-with-project
    (dolist (failure (list (lambda () (user-error "There is %s" "nothing"))
                           (lambda () (error "There is nothing"))))
      (cl-letf (((symbol-function 'gemini-companion-ui-busy) #'ignore))
        (gemini-companion-test-with-answer nil
          (gemini-companion-log-add "begin")
          (gemini-companion-log-when-free "a test" failure)
          (gemini-companion-test-wait
           "a message" (lambda () gemini-companion-test-messages))
          (should (equal gemini-companion-test-messages '("There is nothing")))
          (should (string-suffix-p "a test: There is nothing"
                                   (car (gemini-companion-log-last 1)))))))))

;; C-g had no effect until Eat was installed, or a large file visited.
(ert-deftest gemini-companion-log/what-is-done-when-the-user-is-free-can-be-quit ()
  "And the quit does not leave the timer."
  (gemini-companion-test-with-project
    (cl-letf (((symbol-function 'gemini-companion-ui-busy) #'ignore))
      (let ((began nil) (went-on nil))
        (gemini-companion-log-when-free "a test" (lambda ()
                                                   (setq began t
                                                         quit-flag t) ; as C-g does
                                                   (eval '(ignore) t)
                                                   (setq went-on t)))
        (gemini-companion-test-wait "the call" (lambda () began))
        (should-not went-on)))))

;;; gemini-companion-log-test.el ends here

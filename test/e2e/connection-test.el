;;; connection-test.el --- Connections survive restarts and a busy Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-client)
(require 'gemini-companion-test-review)

(ert-deftest gemini-companion-host-connection/a-client-does-not-notice-a-restart ()
  "The server restarts, and a review is decided during that."
  (gemini-companion-test-with-real-client emacs client
    (let ((handle (gemini-companion-test-propose emacs client "b\n")))
      (gemini-companion-test-run
       emacs '(progn (gemini-companion-restart) (gemini-companion-accept) nil))
      (should (equal (gemini-companion-test-client-wait-outcome client handle)
                     '(accepted . "b\n"))))
    (should (gemini-companion-test-client-connected-p client))
    (let ((handle (gemini-companion-test-propose emacs client "c\n")))
      (gemini-companion-test-reject emacs)
      (should (equal (gemini-companion-test-client-wait-outcome client handle)
                     '(rejected))))
    (should (gemini-companion-test-client-connected-p client))))

(ert-deftest gemini-companion-host-connection/a-busy-emacs-answers-clients ()
  "While Emacs is busy a client connects, proposes and stays connected.
The review is shown once Emacs responds again."
  (gemini-companion-test-with-real-client emacs client
    (let ((release (expand-file-name "release" (gemini-companion-test-tmpdir emacs)))
          (file (gemini-companion-test-project emacs "a.txt")))
      (gemini-companion-test-keep-busy emacs `(not (file-exists-p ,release)))
      (let ((handle (gemini-companion-test-client-open-diff client file "b\n")))
        (gemini-companion-test-with-client (second 'real emacs)
          (should (gemini-companion-test-client-connected-p second)))
        (should (gemini-companion-test-client-connected-p client))
        (gemini-companion-test-write release "")
        (gemini-companion-test-wait-review emacs "b\n")
        (gemini-companion-test-accept emacs)
        (should (equal (gemini-companion-test-client-wait-outcome client handle)
                       '(accepted . "b\n")))))))

(ert-deftest gemini-companion-host-connection/a-client-of-document-004-accepts ()
  "The review is closed, and the buffer has the text of the file."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "a\n")))
    (gemini-companion-test-eval emacs '(setq gemini-companion-accept-by-client 'seen))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-with-client (client 'fake emacs)
      (let ((handle (gemini-companion-test-propose emacs client "b\n")))
        (gemini-companion-test-append-to-proposal emacs "mine\n")
        (fake-cli-call-tool (gemini-companion-test-fake-client-cli client) "acceptDiff"
                            `(:filePath ,(gemini-companion-test-project emacs "a.txt")))
        (gemini-companion-test-wait-no-review emacs)
        (should (equal (gemini-companion-test-client-wait-outcome client handle)
                       '(accepted . "b\nmine\n")))
        (should (equal (gemini-companion-test-read
                        (gemini-companion-test-project emacs "a.txt"))
                       "b\nmine\n"))
        (should (equal (gemini-companion-test-eval
                        emacs '(list (buffer-name (window-buffer)) (buffer-modified-p)
                                     (buffer-string)))
                       '("a.txt" nil "b\nmine\n")))))))

;;; connection-test.el ends here

;;; connection-test.el --- What the connection survives  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-client)
(require 'gemini-companion-test-review)

(defmacro gemini-companion-connection-test--with (emacs client &rest body)
  "Evaluate BODY with EMACS, its file a.txt shown, and the real CLIENT."
  (declare (indent 2) (debug (symbolp symbolp body)))
  `(progn
     (gemini-companion-test-require-real-client)
     (gemini-companion-test-with-emacs (,emacs :files '(("a.txt" . "a\n")))
       (gemini-companion-test-visit ,emacs "a.txt")
       (gemini-companion-test-with-client (,client 'real ,emacs)
         ,@body))))

(defun gemini-companion-connection-test--propose (emacs client text)
  "Let CLIENT propose TEXT for a.txt in EMACS, and wait for the review."
  (prog1 (gemini-companion-test-client-open-diff
          client (gemini-companion-test-project emacs "a.txt") text)
    (gemini-companion-test-wait-review emacs text)))

(ert-deftest gemini-companion-connection/a-restart-goes-unnoticed ()
  "A restart of the server, and a review decided during it."
  :tags '(e2e)
  (gemini-companion-connection-test--with emacs client
    (let ((handle (gemini-companion-connection-test--propose emacs client "b\n")))
      (gemini-companion-test-run
       emacs '(progn (gemini-companion-restart) (gemini-companion-accept) nil))
      (should (equal (gemini-companion-test-client-wait-outcome client handle)
                     '(accepted . "b\n"))))
    (should (gemini-companion-test-client-connected-p client))
    (let ((handle (gemini-companion-connection-test--propose emacs client "c\n")))
      (gemini-companion-test-reject emacs)
      (should (equal (gemini-companion-test-client-wait-outcome client handle)
                     '(rejected))))
    (should (gemini-companion-test-client-connected-p client))))

(ert-deftest gemini-companion-connection/a-busy-emacs-answers ()
  "While Emacs is busy a client connects, proposes and stays connected.
The review opens when Emacs is back."
  :tags '(e2e)
  (gemini-companion-connection-test--with emacs client
    (let ((release (expand-file-name "release" (gemini-companion-test-tmpdir emacs)))
          (file (gemini-companion-test-project emacs "a.txt")))
      (gemini-companion-test-run
       emacs
       `(progn (run-at-time 0 nil
                            (lambda ()
                              (write-region "" nil ,(concat release ".busy"))
                              (while (not (file-exists-p ,release)))))
               nil))
      (gemini-companion-test-wait "Emacs to be busy"
                                  (lambda () (file-exists-p (concat release ".busy"))))
      (let ((handle (gemini-companion-test-client-open-diff client file "b\n")))
        (gemini-companion-test-with-client (second 'real emacs)
          (should (gemini-companion-test-client-connected-p second)))
        (should (gemini-companion-test-client-connected-p client))
        (gemini-companion-test-write release "")
        (gemini-companion-test-wait-review emacs "b\n")
        (gemini-companion-test-accept emacs)
        (should (equal (gemini-companion-test-client-wait-outcome client handle)
                       '(accepted . "b\n")))))))

;;; connection-test.el ends here

;;; embed-test.el --- Tests of the module in a program that is no Emacs  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The program, embed.c, can run where no Emacs can: in Wine, and in Valgrind without the errors of
;; Emacs itself.  The environment says how, see scripts/embed: GEMINI_COMPANION_TEST_EMBEDDER is a list of
;; words, GEMINI_COMPANION_TEST_ROOT what precedes absolute names there, "Z:" in Wine.

;;; Code:

(require 'ert)
(require 'fake-cli)

(defvar gemini-companion-embed-test--process nil
  "The process of the program.")

(defun gemini-companion-embed-test--start (directory)
  "Start the program, which works in DIRECTORY."
  (setq gemini-companion-embed-test--process
        (let ((default-directory directory))
          (make-process :name "embed" :buffer (generate-new-buffer "embed")
                        :command (read (getenv "GEMINI_COMPANION_TEST_EMBEDDER"))
                        :connection-type 'pipe :coding 'utf-8-unix
                        :stderr (get-buffer-create "embed-errors")))))

(defun gemini-companion-embed-test--call (function &rest arguments)
  "Let the program call FUNCTION of the module with ARGUMENTS; return its value.
An argument `@' is the companion."
  (let ((print-escape-newlines t))
    (with-current-buffer (process-buffer gemini-companion-embed-test--process)
      (erase-buffer)
      (process-send-string gemini-companion-embed-test--process
                           (format "%s %s\n" function (mapconcat #'prin1-to-string arguments " ")))
      (gemini-companion-test-wait
       (lambda () (format "%s: %s%s" function (buffer-string)
                          (with-current-buffer "embed-errors" (buffer-string))))
       (lambda () (eq (char-before (point-max)) ?\n)))
      (car (read-from-string (string-trim-right (buffer-string) "[\r\n]+"))))))

(defun gemini-companion-embed-test--await (event)
  "Wait until the program is told of EVENT, a symbol, and return that event."
  (gemini-companion-test-wait
   (lambda () (format "the event %s" event))
   (lambda ()
     (let ((found (gemini-companion-embed-test--call 'next-event '@)))
       (and found (eq (aref found 0) event) found)))))

(defun gemini-companion-embed-test--conform (port token)
  "Run the conformance suite against the server on PORT with TOKEN, if it is there."
  (if (not (file-directory-p ".cache/conformance"))
      (message "skipped: the conformance suite is not installed")
    (let ((process-environment
           (append (list (format "GEMINI_CLI_IDE_SERVER_PORT=%s" port)
                         (concat "GEMINI_CLI_IDE_AUTH_TOKEN=" token))
                   process-environment)))
      (with-temp-buffer
        (let ((status (call-process (expand-file-name "scripts/conformance") nil t nil
                                    "--serving" "server-initialize" "ping" "tools-list")))
          (message "%s" (buffer-string))
          (should (equal status 0)))))))

(defun gemini-companion-embed-test--start-companion (temporary)
  "Let the program start a companion that is announced in TEMPORARY."
  (let ((ide (concat (getenv "GEMINI_COMPANION_TEST_ROOT")
                     (expand-file-name "gemini/ide" temporary))))
    (should (eq (gemini-companion-embed-test--call
                 'start (vector (vector "gemini" "Gemini CLI" (vector ide)
                                        "gemini-ide-server-PID-PORT.json" nil []))
                 0 (vector temporary) 1000000)
                'companion))))

(ert-deftest gemini-companion-embed/texts-cross ()
  (gemini-companion-embed-test--start default-directory)
  (should (string-match-p "\\`[0-9.]+\\'" (gemini-companion-embed-test--call 'version)))
  (should (equal (gemini-companion-embed-test--call 'decode "ä\r\n\"b\"\\" t) "ä\n\"b\"\\"))
  (should (equal (gemini-companion-embed-test--call 'diff "a\nb\n" "a\nc\n" 1)
                 [1 1 2 "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"]))
  (should (equal (gemini-companion-embed-test--call 'merge "a\n\nb\n" "A\n\nb\n" "a\n\nB\n") "A\n\nB\n"))
  (pcase-dolist (`(,call ,symbol) '(((version 1) wrong-number-of-arguments)
                                    ((decode 1 t) wrong-type-argument)
                                    ((diff "a" "b" -1) rust-integer-out-of-range)))
    (should (equal (seq-take (apply #'gemini-companion-embed-test--call call) 2)
                   (list 'signal symbol)))))

(ert-deftest gemini-companion-embed/a-change-is-proposed-and-accepted ()
  (let* ((temporary (directory-file-name (gemini-companion-test-temp-directory)))
         (path (concat (getenv "GEMINI_COMPANION_TEST_ROOT") temporary "/new ä.txt"))
         (windows (not (equal (getenv "GEMINI_COMPANION_TEST_ROOT") ""))))
    (gemini-companion-embed-test--start default-directory)
    (gemini-companion-embed-test--start-companion temporary)
    (unless windows
      (gemini-companion-embed-test--call 'set-wake-pipe '@ t))
    (should-not (gemini-companion-embed-test--call 'discovery-fault '@))
    (should (equal (gemini-companion-embed-test--call 'damaged-files '@) []))
    (let ((client (fake-cli-connect temporary temporary)))
      (unless windows
        (should (gemini-companion-embed-test--call 'wake-up)))
      (should (equal (gemini-companion-embed-test--await 'clients) [clients 1]))
      (fake-cli-call-tool client "openDiff" (list :filePath path :newContent "new\n"))
      (let ((event (gemini-companion-embed-test--await 'open-review)))
        (should (equal (seq-take event 6)
                       (vector 'open-review 1 'gemini "fake-cli 1" path "new\n")))
        (should (gemini-companion-embed-test--call 'accept-review '@ 1 "newer\n" nil)))
      (let ((outcome (fake-cli-wait-notification client "ide/diffAccepted")))
        (should (equal (list (alist-get 'filePath outcome) (alist-get 'content outcome))
                       (list path "newer\n"))))
      (gemini-companion-embed-test--conform (gemini-companion-embed-test--call 'port '@)
                                            (gemini-companion-embed-test--call 'token '@ "gemini"))
      (gemini-companion-embed-test--call 'stop '@)
      (gemini-companion-test-wait "the end of the stream"
                                  (lambda () (eq (fake-cli-stream-state client) t)))
      (should-not (fake-cli-discover temporary temporary)))
    ;; It frees all, and what looks for faults, such as Valgrind, ends it with another status.
    (process-send-eof gemini-companion-embed-test--process)
    (gemini-companion-test-wait
     "the end of the program"
     (lambda () (not (process-live-p gemini-companion-embed-test--process))))
    (unless (equal (process-exit-status gemini-companion-embed-test--process) 0)
      (ert-fail (with-current-buffer "embed-errors" (buffer-string))))))

(provide 'embed-test)
;;; embed-test.el ends here

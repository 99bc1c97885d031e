;;; accept-test.el --- What an accept costs the model  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The real, interactive Gemini CLI with a stand-in for its model: what the
;; model receives after an accept, and what is in the file.  That depends on the
;; CLI and our messages, which are the same from any Emacs.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defconst gemini-companion-accept-test--lines
  (mapconcat (lambda (number) (format "%04d %s" number (make-string 67 ?x)))
             (number-sequence 1 1000) "\n")
  "The text of a file of 73 KB, without the last newline.")

(defun gemini-companion-accept-test--replaced (text)
  "Return TEXT as changed by the model."
  (string-replace "0500 " "FIVE " text))

(defun gemini-companion-accept-test--replace (emacs cli name)
  "Let the model of CLI replace \"0500 \" in the file NAME; wait for EMACS."
  (gemini-companion-test-cli-script
   cli `("replace" :file_path ,(gemini-companion-test-project emacs name)
         :instruction "Say it in words." :old_string "0500 " :new_string "FIVE ")
   "All done")
  (gemini-companion-test-cli-submit cli "please replace")
  (gemini-companion-test-wait-review emacs))

(defun gemini-companion-accept-test--write (emacs cli name text)
  "Let the model of CLI write TEXT to the file NAME; wait for EMACS."
  (gemini-companion-test-cli-script
   cli `("write_file" :file_path ,(gemini-companion-test-project emacs name) :content ,text)
   "All done")
  (gemini-companion-test-cli-submit cli "please write")
  (gemini-companion-test-wait-review emacs))

(defun gemini-companion-accept-test--response (cli)
  "Return the response to the call of the model of CLI, once that is done."
  (gemini-companion-test-cli-wait-screen cli "All done")
  (gemini-companion-test-json-encode
   (car (last (gemini-companion-test-request-responses
               (gemini-companion-test-cli-wait-requests cli 2))))))

(defun gemini-companion-accept-test--should-be-little (cli)
  "Check that the model of CLI receives little, and no edit of the user."
  (let ((response (gemini-companion-accept-test--response cli)))
    (should (< 0 (length response) 5000))
    (should-not (string-match-p "modified the" response))))

(defun gemini-companion-accept-test--should-be-whole (cli)
  "Check that the model of CLI receives an edit of the user."
  (should (string-match-p "modified the" (gemini-companion-accept-test--response cli))))

(defun gemini-companion-accept-test--should-hold (emacs name text)
  "Check that the file NAME in the project of EMACS has the bytes of TEXT."
  (should (equal (gemini-companion-test-bytes (gemini-companion-test-project emacs name))
                 (encode-coding-string text 'utf-8-unix))))

(defun gemini-companion-accept-test--should-be-content (emacs)
  "Check that EMACS has found the accepted text in the file."
  (should (string-suffix-p
           ": written as accepted"
           (gemini-companion-test-wait-eval
            emacs '(seq-find (lambda (line) (string-suffix-p "written as accepted" line))
                             (gemini-companion-log-last 100))))))

(ert-deftest gemini-companion-accept/an-unedited-replacement-costs-little ()
  "One line of 73 KB is replaced, and the model does not receive the file."
  :tags '(any-emacs)
  (let ((text (concat gemini-companion-accept-test--lines "\n")))
    (gemini-companion-test-with-emacs-and-cli (emacs cli `(("a.txt" . ,text)))
      (gemini-companion-accept-test--replace emacs cli "a.txt")
      (gemini-companion-test-accept emacs)
      (gemini-companion-accept-test--should-be-little cli)
      (gemini-companion-accept-test--should-hold
       emacs "a.txt" (gemini-companion-accept-test--replaced text)))))

(ert-deftest gemini-companion-accept/an-unedited-new-file-costs-little ()
  "A file of 73 KB is created in a new directory."
  :tags '(any-emacs)
  (let ((text (concat gemini-companion-accept-test--lines "\n")))
    (gemini-companion-test-with-emacs-and-cli (emacs cli '(("a.txt" . "one\n")))
      (gemini-companion-accept-test--write emacs cli "sub/new.txt" text)
      (gemini-companion-test-accept emacs)
      (let ((response (gemini-companion-accept-test--response cli)))
        (should-not (string-match-p "modified the" response)))
      (gemini-companion-accept-test--should-hold emacs "sub/new.txt" text))))

(ert-deftest gemini-companion-accept/yes-in-the-cli-costs-little ()
  "The CLI takes a text that Emacs has not changed for its own."
  :tags '(any-emacs)
  (let ((text (concat gemini-companion-accept-test--lines "\n")))
    (gemini-companion-test-with-emacs-and-cli (emacs cli `(("a.txt" . ,text)))
      (gemini-companion-accept-test--replace emacs cli "a.txt")
      (gemini-companion-test-cli-answer cli "Enter")
      (gemini-companion-accept-test--should-be-little cli)
      (gemini-companion-accept-test--should-hold
       emacs "a.txt" (gemini-companion-accept-test--replaced text))
      (gemini-companion-test-wait-screen emacs "a\\.txt: accepted in Gemini CLI")
      (gemini-companion-accept-test--should-be-content emacs))))

(ert-deftest gemini-companion-accept/an-edited-proposal-is-written-as-edited ()
  "The user's edits are in the file, and the model receives them."
  :tags '(any-emacs)
  (let ((text (concat gemini-companion-accept-test--lines "\n")))
    (gemini-companion-test-with-emacs-and-cli (emacs cli `(("a.txt" . ,text)))
      (gemini-companion-accept-test--replace emacs cli "a.txt")
      (gemini-companion-test-accept emacs "mine ä\n")
      (gemini-companion-accept-test--should-be-whole cli)
      (gemini-companion-accept-test--should-hold
       emacs "a.txt" (concat (gemini-companion-accept-test--replaced text) "mine ä\n")))))

(ert-deftest gemini-companion-accept/line-endings-and-byte-order-marks-stay ()
  "Files with CRLF and a byte order mark cost little, and keep both."
  :tags '(any-emacs)
  (dolist (text '("0400 a\r\n0500 b\r\n0600 ä\r\n" "\ufeff0400 a\n0500 b\n0600 ä"
                  "\ufeff0400 a\r\n0500 b\r\n0600 ä"))
    (ert-info ((format "%S" text))
      (gemini-companion-test-with-emacs-and-cli (emacs cli `(("a.txt" . ,text)))
        (gemini-companion-accept-test--replace emacs cli "a.txt")
        (gemini-companion-test-accept emacs)
        (gemini-companion-accept-test--should-be-little cli)
        (gemini-companion-accept-test--should-hold
         emacs "a.txt" (gemini-companion-accept-test--replaced text))
        (gemini-companion-accept-test--should-be-content emacs)))))

(ert-deftest gemini-companion-accept/the-accepted-text-is-written-even-if-the-file-has-changed ()
  "The CLI would apply its change to the new text, which was not accepted."
  :tags '(any-emacs)
  (gemini-companion-test-with-emacs-and-cli (emacs cli '(("a.txt" . "0500 b\n")))
    (gemini-companion-accept-test--replace emacs cli "a.txt")
    (gemini-companion-test-write (gemini-companion-test-project emacs "a.txt")
                                 "0500 b\nanother's\n")
    (gemini-companion-test-wait-screen emacs "Changed on disk")
    (gemini-companion-test-accept emacs)
    (gemini-companion-test-wait-screen emacs "\\[?c\\]?ancel")
    (gemini-companion-test-keys emacs "a")
    (gemini-companion-accept-test--should-be-whole cli)
    (gemini-companion-accept-test--should-hold emacs "a.txt" "FIVE b\n")))

(ert-deftest gemini-companion-accept/an-unknown-version-gets-the-text ()
  "Versions that are not known to need no text get it."
  :tags '(any-emacs)
  (gemini-companion-test-with-emacs-and-cli (emacs cli '(("a.txt" . "0500 b\n")))
    (gemini-companion-test-eval
     emacs '(progn (setf (plist-get (alist-get 'gemini gemini-companion-agent-profiles) :needs-no-text)
                         '(("streamable-http-client" "0.1" "0.2")))
                   nil))
    (gemini-companion-accept-test--replace emacs cli "a.txt")
    (gemini-companion-test-accept emacs)
    (gemini-companion-accept-test--should-be-whole cli)
    (gemini-companion-accept-test--should-hold emacs "a.txt" "FIVE b\n")))

(ert-deftest gemini-companion-accept/never-omits-no-text ()
  "With the option `never' the text is always sent, also after a yes in the CLI."
  :tags '(any-emacs)
  (gemini-companion-test-with-emacs-and-cli (emacs cli '(("a.txt" . "0500 b\n")))
    (gemini-companion-test-eval emacs '(progn (setq gemini-companion-accept-without-text 'never) nil))
    (gemini-companion-accept-test--replace emacs cli "a.txt")
    (gemini-companion-test-cli-answer cli "Enter")
    (gemini-companion-accept-test--should-be-whole cli)
    (gemini-companion-accept-test--should-hold emacs "a.txt" "FIVE b\n")))

(ert-deftest gemini-companion-accept/the-client-accepts-omitted-texts ()
  "Its schemas permit an accept without text, and a null in an answer.
It stays connected, and takes the text that it has proposed."
  :tags '(any-emacs)
  (gemini-companion-test-require-real-client)
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (gemini-companion-test-eval emacs '(progn (setq gemini-companion-accept-without-text 'always) nil))
    (gemini-companion-test-with-client (client 'real emacs)
      (let ((handle (gemini-companion-test-propose emacs client "two\n")))
        (gemini-companion-test-accept emacs)
        (should (equal (gemini-companion-test-client-wait-outcome client handle)
                       '(accepted . ""))))
      (gemini-companion-test-propose emacs client "three\n")
      (should (equal (gemini-companion-test-client-close-diff
                      client (gemini-companion-test-project emacs "a.txt") t)
                     nil))
      (should (gemini-companion-test-client-connected-p client)))))

;;; accept-test.el ends here

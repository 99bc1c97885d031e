;;; remote-test.el --- The real CLI on another host  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Emacs visits files on a host by Tramp, the pinned CLI runs there, and its
;; reviews are here.  Tests of hosts that are away are in remote-breaks-test.el,
;; tests of the hosts themselves in remote-host-test.el.

;;; Code:

(require 'gemini-companion-test-remote)

(ert-deftest gemini-companion-remote/connected-at-the-first-start ()
  "`gemini-companion-run' in a Tramp directory, and an edited review.
The CLI is told the host's own names, the file has the user's text byte for
byte, and the buffer that visits it follows, all without asking Tramp."
  (gemini-companion-test-require-far)
  (gemini-companion-test-with-far (far (gemini-companion-test-far-start "far"))
    (let ((file (gemini-companion-test-far-write far "a.txt" "one\ntwo\n")))
      (gemini-companion-test-with-far-emacs (emacs :files '(("a.txt" . "local\n")))
        (gemini-companion-test-visit emacs "a.txt")
        (gemini-companion-test-remote-visit emacs far "a.txt")
        (gemini-companion-test-keys emacs "C-n")
        (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-run far emacs))
          (gemini-companion-test-remote-count emacs)
          (gemini-companion-test-remote-review emacs cli file "one\nzwei 漢字\n")
          (should (equal (gemini-companion-test-request-context
                          (gemini-companion-test-cli-wait-requests cli 1))
                         `((activeFile (path . ,file)
                                       (cursor (line . 2) (character . 1))))))
          ;; In the terminal keys go to the CLI.
          (gemini-companion-test-run emacs '(progn (other-window 1) nil))
          (gemini-companion-test-accept emacs "drei ✓")
          (gemini-companion-test-remote-wait-file far "a.txt" "one\nzwei 漢字\ndrei ✓")
          (gemini-companion-test-wait-no-review emacs)
          (gemini-companion-test-remote-wait-buffer
           emacs far "a.txt" "one\nzwei 漢字\ndrei ✓")
          (should-not (gemini-companion-test-remote-sent emacs))
          (gemini-companion-test-remote-wait-done cli)
          ;; What is sent from here has the host's names.
          (gemini-companion-test-run emacs '(progn (select-window (frame-first-window))
                                                   (gemini-companion-send-file)
                                                   nil))
          (gemini-companion-test-wait-screen emacs "> +@a\\.txt"))
        ;; Saving it asks nothing: the buffer knows when its file was written.
        (gemini-companion-test-run
         emacs `(with-current-buffer (get-file-buffer ,(gemini-companion-test-far-tramp
                                                        far "a.txt"))
                  (goto-char (point-min))
                  (insert "zero\n")
                  (cl-letf (((symbol-function 'ask-user-about-supersession-threat)
                             (lambda (&rest _) (error "Asked")))
                            ((symbol-function 'yes-or-no-p)
                             (lambda (&rest _) (error "Asked"))))
                    (save-buffer))
                  t))
        (gemini-companion-test-remote-wait-file
         far "a.txt" "zero\none\nzwei 漢字\ndrei ✓\n")
        (should (equal (gemini-companion-test-read
                        (gemini-companion-test-project emacs "a.txt"))
                       "local\n"))))))

(ert-deftest gemini-companion-remote/files-of-all-kinds ()
  "New files, other encodings, CRLF: each is written as the CLI writes it here."
  :tags '(any-emacs)
  (gemini-companion-test-with-remote-cli (emacs far cli '(("a.txt" . "one\n")))
    (gemini-companion-test-far-write far "dos.txt" "one\r\ntwo\r\n")
    (let ((coding-system-for-write 'binary))
      (write-region "gr\374n\n" nil
                    (gemini-companion-test-far-local
                     far (gemini-companion-test-far-file far "latin.txt"))
                    nil 0))
    (pcase-dolist (`(,name ,text ,written)
                   '(("sub/new ä.txt" "hello\n" "hello\n")
                     ("dos.txt" "one\nzwei\n" "one\r\nzwei\r\n")
                     ("latin.txt" "grün ✓\n" "grün ✓\n")))
      (ert-info (name)
        (gemini-companion-test-remote-review
         emacs cli (gemini-companion-test-far-file far name) text)
        (gemini-companion-test-accept emacs)
        (when (equal name "latin.txt")
          (gemini-companion-test-wait-screen emacs "is not in UTF-8")
          (gemini-companion-test-keys emacs "y"))
        (gemini-companion-test-remote-wait-file far name written)
        (gemini-companion-test-wait-no-review emacs)
        (gemini-companion-test-remote-wait-done cli)
        (gemini-companion-test-cli-wait-screen cli "Type your message")))
    ;; And one that is rejected.
    (gemini-companion-test-remote-review
     emacs cli (gemini-companion-test-far-file far "a.txt") "two\n")
    (gemini-companion-test-reject emacs)
    (gemini-companion-test-cli-wait-screen cli "cancelled")
    (gemini-companion-test-wait-no-review emacs)
    (should (equal (gemini-companion-test-far-bytes far "a.txt") "one\n"))
    (should-not (gemini-companion-test-remote-sent emacs))))

(ert-deftest gemini-companion-remote/an-unedited-accept-costs-little ()
  "The CLI makes the model's change itself, and does not take it for the user's.
If the file has changed there meanwhile, that is kept, and the user is told."
  :tags '(any-emacs)
  (gemini-companion-test-with-remote-cli (emacs far cli '(("a.txt" . "one\ntwo\n")))
    (let ((replace (lambda (old new)
                     (gemini-companion-test-cli-script
                      cli `("replace" :file_path ,(gemini-companion-test-far-file far "a.txt")
                            :instruction "Say it louder." :old_string ,old :new_string ,new)
                      "All done")
                     (gemini-companion-test-cli-submit cli "please replace")
                     (gemini-companion-test-wait-review emacs))))
      (funcall replace "one" "ONE")
      (gemini-companion-test-accept emacs)
      (gemini-companion-test-remote-wait-done cli)
      (should-not (string-match-p
                   "modified the"
                   (gemini-companion-test-json-encode
                    (car (last (gemini-companion-test-request-responses
                                (gemini-companion-test-cli-wait-requests cli 2)))))))
      (should (equal (gemini-companion-test-far-bytes far "a.txt") "ONE\ntwo\n"))
      (gemini-companion-test-remote-wait-buffer emacs far "a.txt" "ONE\ntwo\n")
      (funcall replace "two" "TWO")
      (gemini-companion-test-far-wire-do far "cut")
      (gemini-companion-test-far-write far "a.txt" "ONE\ntwo\nthree\n")
      (gemini-companion-test-accept emacs)
      (gemini-companion-test-far-wire-do far "mend")
      (gemini-companion-test-remote-wait-file far "a.txt" "ONE\nTWO\nthree\n")
      (gemini-companion-test-wait-screen emacs "now differs from the text that you accepted")
      (gemini-companion-test-remote-wait-buffer emacs far "a.txt" "ONE\nTWO\nthree\n"))))

;; Characters that mean something to shells, or take several bytes; but none that the CLI itself refuses
;; or removes.
(ert-deftest gemini-companion-remote/a-project-with-an-odd-name ()
  "A project there may have a name of any characters, also with a noisy shell."
  (gemini-companion-test-require-far)
  (gemini-companion-test-with-far (far (gemini-companion-test-far-start "far"))
    (gemini-companion-test-write
     (concat (gemini-companion-test-far-home far) "/.bashrc")
     "echo welcome; echo warning >&2\n")
    (let* ((name "odd ü $HOME 'q' `echo`;/a b.txt")
           (file (gemini-companion-test-far-write far name "one\n")))
      (make-directory (concat (file-name-directory file) ".git"))
      (gemini-companion-test-with-far-emacs (emacs)
        (gemini-companion-test-remote-visit emacs far name)
        (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-run far emacs))
          (gemini-companion-test-remote-review emacs cli file "two\n")
          (gemini-companion-test-run emacs '(progn (select-window (frame-first-window)) nil))
          (gemini-companion-test-accept emacs "edited")
          (gemini-companion-test-remote-wait-file far name "two\nedited")
          (gemini-companion-test-remote-wait-buffer emacs far name "two\nedited"))))))

(ert-deftest gemini-companion-remote/an-answer-in-the-cli ()
  "Yes in the CLI writes what the user has edited here; no closes the review."
  :tags '(any-emacs)
  (gemini-companion-test-with-remote-cli (emacs far cli '(("a.txt" . "one\n")))
    (let ((file (gemini-companion-test-far-file far "a.txt")))
      (gemini-companion-test-remote-review emacs cli file "two\n")
      (gemini-companion-test-append-to-proposal emacs "edited")
      (gemini-companion-test-cli-answer cli "Enter")
      (gemini-companion-test-remote-wait-file far "a.txt" "two\nedited")
      (gemini-companion-test-wait-no-review emacs)
      (gemini-companion-test-remote-wait-buffer emacs far "a.txt" "two\nedited")
      (gemini-companion-test-remote-wait-done cli)
      (gemini-companion-test-remote-review emacs cli file "three\n")
      (gemini-companion-test-cli-answer cli "Escape")
      (gemini-companion-test-wait-no-review emacs)
      (should (equal (gemini-companion-test-far-bytes far "a.txt") "two\nedited"))
      (should-not (gemini-companion-test-remote-sent emacs)))))

(ert-deftest gemini-companion-remote/an-accepted-edit-is-undone ()
  "An accepted edit of a file there is undone from the history."
  (gemini-companion-test-with-remote-cli (emacs far cli '(("a.txt" . "one\r\ntwo\r\nthree")))
    (gemini-companion-test-remote-review
     emacs cli (gemini-companion-test-far-file far "a.txt") "another\n")
    (gemini-companion-test-accept emacs)
    (gemini-companion-test-remote-wait-done cli)
    (gemini-companion-test-wait-no-review emacs)
    (gemini-companion-test-m-x emacs "gemini-companion-history-list" "accepted ")
    (gemini-companion-test-press emacs "u" "(y or n)")
    (gemini-companion-test-keys emacs "y")
    (gemini-companion-test-remote-wait-file far "a.txt" "one\r\ntwo\r\nthree")
    (gemini-companion-test-wait-screen emacs "undone")
    ;; For each of these, Emacs waits until the answer of the host has come.
    (should (< (gemini-companion-test-eval emacs '(length gemini-companion-test-inner-sent)) 60))))

;;;; Several at once

(ert-deftest gemini-companion-remote/two-clis-there-and-one-here ()
  "Each is told only of its own files, and each gets its own outcome."
  :tags '(any-emacs)
  (gemini-companion-test-require-far)
  (gemini-companion-test-with-far (far (gemini-companion-test-far-start "far"))
    (gemini-companion-test-with-far-emacs (emacs :files '(("a.txt" . "here\n")))
      (gemini-companion-test-far-write far "b.txt" "b\n")
      (gemini-companion-test-remote-prepare emacs far '(("a.txt" . "there\n")))
      (gemini-companion-test-visit emacs "a.txt")
      (gemini-companion-test-with-cli (one (gemini-companion-test-far-cli-start far))
        (gemini-companion-test-with-cli (two (gemini-companion-test-far-cli-start far))
          (gemini-companion-test-with-cli (here (gemini-companion-test-cli-start emacs))
            (let ((there (gemini-companion-test-far-file far "a.txt"))
                  (local (gemini-companion-test-project emacs "a.txt")))
              (dolist (cli (list one two))
                (should (equal (alist-get 'path
                                          (alist-get 'activeFile
                                                     (gemini-companion-test-remote-context cli)))
                               there)))
              (should (equal (alist-get 'path
                                        (alist-get 'activeFile
                                                   (gemini-companion-test-remote-context here)))
                             local))
              (dolist (cli (list one two))
                (should-not (string-search local (gemini-companion-test-bytes
                                                  (gemini-companion-test-cli-file
                                                   cli "requests.jsonl")))))
              (should-not (string-search there (gemini-companion-test-bytes
                                                (gemini-companion-test-cli-file
                                                 here "requests.jsonl"))))
              (pcase-dolist (`(,cli ,file ,text)
                             `((,one ,there "one\n")
                               (,two ,(gemini-companion-test-far-file far "b.txt") "two\n")
                               (,here ,local "three\n")))
                (gemini-companion-test-cli-propose cli file text)
                (gemini-companion-test-cli-wait-screen cli "Allow once"))
              (gemini-companion-test-wait-eval emacs '(= 3 (gemini-companion-review-count)))
              (dotimes (_ 3)
                (let ((review (gemini-companion-test-wait-review emacs)))
                  (gemini-companion-test-accept emacs "edited")
                  (gemini-companion-test-wait
                   "the next review"
                   (lambda () (not (equal (alist-get 'proposal (gemini-companion-test-review emacs))
                                          (concat (alist-get 'proposal review) "edited")))))))
              (gemini-companion-test-remote-wait-file far "a.txt" "one\nedited")
              (gemini-companion-test-remote-wait-file far "b.txt" "two\nedited")
              (gemini-companion-test-wait
               "the local file"
               (lambda () (equal (gemini-companion-test-read local) "three\nedited")))
              (dolist (cli (list one two here))
                (gemini-companion-test-remote-wait-done cli)))))))))

;;; remote-test.el ends here

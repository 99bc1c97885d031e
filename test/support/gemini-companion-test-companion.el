;;; gemini-companion-test-companion.el --- A companion in this Emacs  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The unit suites run in a batch Emacs.  The server has a thread of its own, so
;; this Emacs can be both the companion and, with fake-cli.el, its client.  In
;; batch mode nothing is shown automatically; tests call the commands.

;;; Code:

(require 'gemini-companion)
(require 'gemini-companion-answer)
(require 'gemini-companion-review-ediff)
(require 'fake-cli)
(require 'gemini-companion-test-util)

;; Most tests are of Ediff, which a batch Emacs has no room for.
(setq gemini-companion-diff-function #'gemini-companion-review-ediff-show)

;; Of an empty .git, which makes a directory a project, git would be asked in vain at each visit.
(remove-hook 'find-file-hook #'vc-refresh-state)

;; Without a display no window is ever selected for header lines.
(defun gemini-companion-test--selected-buffer (&rest _)
  "Return the current buffer, to which the user's next key goes in a test."
  (current-buffer))
(advice-add 'gemini-companion-ui-selected-buffer :override
            #'gemini-companion-test--selected-buffer)

(defvar treesit-auto-install-grammar 'ask)

(define-derived-mode gemini-companion-test-grammar-mode prog-mode "Grammar"
  "A mode as those of Emacs 31, if its grammar is missing."
  (when treesit-auto-install-grammar
    (y-or-n-p "Tree-sitter grammar for `test' is missing; install it? ")))

(defun gemini-companion-test-grammar-mode-maybe ()
  "Enable the mode, as functions in `auto-mode-alist' of Emacs 31 do."
  (gemini-companion-test-grammar-mode))

(defvar gemini-companion-test-project nil
  "The project directory of the running test, with a slash.")

(defun gemini-companion-test-file (name &optional text)
  "Return the file NAME in the project of the test; write TEXT to it, if any."
  (let ((file (expand-file-name name gemini-companion-test-project)))
    (when text (gemini-companion-test-write file text))
    file))

(defvar gemini-companion-test--careless nil
  "Functions of timers that have changed the match data, or moved point.")

(defun gemini-companion-test--watch-timer (handle timer)
  "Call HANDLE with TIMER, and note whether that changes the match data or point."
  (save-match-data
    (set-match-data '(3 7))
    (let ((buffer (current-buffer))
          (tick (buffer-chars-modified-tick))
          ;; In another window that it is in, it may have another point.
          (place (and (memq (get-buffer-window) (list nil (selected-window))) (point))))
      (funcall handle timer)
      (when (and (gemini-companion-test--ours-p (timer--function timer))
                 (or (not (equal (match-data t) '(3 7)))
                     (and place
                          (buffer-live-p buffer)
                          (with-current-buffer buffer
                            (and (= (buffer-chars-modified-tick) tick) (/= (point) place))))))
        (push (timer--function timer) gemini-companion-test--careless)))))

(defun gemini-companion-test--ours-p (function)
  "Return non-nil if FUNCTION is of this package, whose Lisp is not compiled here."
  (if (symbolp function)
      (string-prefix-p "gemini-companion" (symbol-name function))
    (not (or (byte-code-function-p function) (subrp function)))))

(defun gemini-companion-test-call-with-watched-timers (function)
  "Call FUNCTION, and fail if a timer of ours changes what the user has then.
That is the match data, or point while the text stays.  Emacs keeps the
former for filters, but not for timers, which run in the middle of the
user's commands."
  (let ((gemini-companion-test--careless nil))
    (advice-add 'timer-event-handler :around #'gemini-companion-test--watch-timer)
    (unwind-protect
        (prog1 (funcall function)
          (when gemini-companion-test--careless
            (ert-fail (list "The match data, or point, was changed by" gemini-companion-test--careless))))
      (advice-remove 'timer-event-handler #'gemini-companion-test--watch-timer))))

(defmacro gemini-companion-test-with-project (&rest body)
  "Evaluate BODY with a new project directory, and no answers of the user yet.
Afterwards remove the directory and new buffers, and stop the companion."
  (declare (indent 0) (debug t))
  `(let* ((gemini-companion-test-project (gemini-companion-test-temp-directory))
          (default-directory gemini-companion-test-project)
          (gemini-companion-answer--file (gemini-companion-test-file "answers/answers.eld"))
          (gemini-companion-answer--unsaved nil)
          ;; Some commands set this, which nothing resets in batch mode.
          (this-command nil)
          (buffers (buffer-list)))
     (unwind-protect
         (save-window-excursion
           (gemini-companion-test-call-with-watched-timers (lambda () ,@body)))
       (gemini-companion-mode -1)
       ;; A process may still be running, about which Emacs would ask.
       (let ((kill-buffer-query-functions nil))
         (dolist (buffer (buffer-list))
           (unless (memq buffer buffers)
             (with-current-buffer buffer (set-buffer-modified-p nil))
             ;; Emacs only sends it a signal, and Tramp would use a shell that is about to end.
             (ignore-errors (delete-process buffer))
             (kill-buffer buffer))))
       ;; The thread that deletes the discovery files is not waited for if the disk is busy.
       (gemini-companion-test-wait
        "the project to be removed"
        (lambda () (ignore-errors (delete-directory gemini-companion-test-project t) t))))))

(defmacro gemini-companion-test-with-client (client &rest body)
  "Evaluate BODY with the mode on and CLIENT connected, in a new project.
The file a.txt in it is shown, and has two lines.  The client is in this
Emacs itself, so the directory that it works in is not known."
  (declare (indent 1) (debug (symbolp body)))
  `(gemini-companion-test-with-project
     (make-directory (gemini-companion-test-file ".git"))
     (switch-to-buffer
      (find-file-noselect (gemini-companion-test-file "a.txt" "one\ntwo\n")))
     (gemini-companion-mode 1)
     (let ((,client (fake-cli-connect temporary-file-directory
                                      gemini-companion-test-project)))
       (unwind-protect (progn ,@body)
         (fake-cli-disconnect ,client)))))

(defun gemini-companion-test-propose (client name text)
  "Let CLIENT propose TEXT for the file NAME; return the review."
  (gemini-companion-test-open-diff client (gemini-companion-test-file name) text))

(defun gemini-companion-test-open-diff (client path text &optional prefix arguments)
  "Let CLIENT propose TEXT for the file PATH; return the review.
If CLIENT is on a host, PREFIX is the prefix of that, and ARGUMENTS, a
plist, are what the relay adds to those of the CLI."
  ;; A test may accept the same text again and again, which no client writes.
  (gemini-companion-review-commands-forget)
  (let* ((old (gemini-companion-review-all-open))
         (result (fake-cli-call-tool client "openDiff"
                                     `(:filePath ,path :newContent ,text ,@arguments))))
    (unless (equal result '((content)))
      (error "The answer to openDiff is %S" result))
    (gemini-companion-test-wait
     (concat "a review of " path)
     (lambda ()
       (seq-find (lambda (review)
                   (and (not (memq review old)) ; the same text may have been proposed before
                        (equal (gemini-companion-review-path review) (concat prefix path))
                        (equal (gemini-companion-review-proposed review) text)))
                 (gemini-companion-review-all-open))))))

(defun gemini-companion-test-close-diff (client review)
  "Let CLIENT close REVIEW, which its user has decided there; return the result."
  (fake-cli-call-tool client "closeDiff" (list :filePath (gemini-companion-review-path review)
                                               :suppressNotification t)))

(defconst gemini-companion-test-three-hunks-old
  (concat "one\ntwo\n" (make-string 9 ?\n) "three\n" (make-string 9 ?\n) "four\nfive")
  "A text long enough for three hunks, without a newline at its end.")

(defconst gemini-companion-test-three-hunks-new
  (concat "one\n2\n2a\n" (make-string 9 ?\n) (make-string 9 ?\n) "four\nfive\n")
  "The same with three changes: a changed line, a removed line and a final newline.")

(defun gemini-companion-test-pop-up ()
  "Show what waits, as Emacs does when the user is not busy."
  (cl-letf (((symbol-function 'gemini-companion-ui-busy) #'ignore))
    (gemini-companion-review-popup--try)))

(defun gemini-companion-test-wait-removed ()
  "Wait until no review is on screen, since the user has closed its view."
  (gemini-companion-test-wait
   "the view to go" (lambda () (not (gemini-companion-review-shown)))))

(defun gemini-companion-test-wait-followed (&optional path)
  "Wait until Emacs has noticed what clients wrote to PATH, or to all files."
  (gemini-companion-test-wait
   "the file to be followed"
   (lambda ()
     (cl-loop for watched in gemini-companion-write--files
              for each = (gemini-companion-write--watched-path watched)
              always (or (and path (not (equal path each)))
                         (equal (gemini-companion-write--watched-before watched)
                                (gemini-companion-file-stamp each)))))))

(defun gemini-companion-test-kill-view ()
  "Kill the main buffer of the review on screen, and wait until all of it is gone."
  (kill-buffer (gemini-companion-review-front (gemini-companion-review-shown)))
  (gemini-companion-test-wait-removed))

(defmacro gemini-companion-test-with-told (places told &rest body)
  "Evaluate BODY while clients seem to work in PLACES, a variable with a list.
The variable TOLD has an alist of these and the files that were published
for them last."
  (declare (indent 2) (debug (symbolp symbolp body)))
  `(cl-letf (((symbol-function 'gemini-companion-bridge-places) (lambda () ,places))
             ((symbol-function 'gemini-companion-bridge-publish-contexts)
              (lambda (contexts)
                (dolist (context contexts)
                  (setf (alist-get (aref context 0) ,told nil nil #'equal)
                        (append (aref context 1) nil))))))
     ,@body))

;;;; Questions and messages

(defvar gemini-companion-test-questions nil
  "The questions that were asked, the newest first.")

(defvar gemini-companion-test-messages nil
  "The messages that were shown, the newest first.")

(defmacro gemini-companion-test-with-answer (answer &rest body)
  "Evaluate BODY with ANSWER as the answer to each question of `y-or-n-p'.
ANSWER is a form whose value is `yes', `no', or nil if a question makes
the test fail.  `gemini-companion-test-questions' collects the questions,
`gemini-companion-test-messages' the messages."
  (declare (indent 1) (debug t))
  `(let ((gemini-companion-test-questions nil)
         (gemini-companion-test-messages nil))
     (cl-letf (((symbol-function 'y-or-n-p)
                (lambda (question)
                  (push question gemini-companion-test-questions)
                  (eq 'yes (or ,answer (ert-fail (list "Asked" question))))))
               ((symbol-function 'message)
                (lambda (format &rest arguments)
                  (when format
                    (push (apply #'format-message format arguments)
                          gemini-companion-test-messages)))))
       ,@body)))

(provide 'gemini-companion-test-companion)
;;; gemini-companion-test-companion.el ends here

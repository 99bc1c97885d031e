;;; gemini-companion-test-fake-client.el --- An Emacs and a fake client  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Runs tests with an interactive Emacs and `fake-cli', and compares what the user
;; sees with what the client receives.

;;; Code:

(require 'gemini-companion-test-client)
(require 'gemini-companion-test-review)

(defconst gemini-companion-test-fake-observers
  '(progn
     (defvar gemini-companion-test-inner-refused 0)
     (defvar gemini-companion-test-inner-layout-before nil)
     (advice-add 'gemini-companion-ui-busy :filter-return
                 (lambda (reason) (when (and reason
                                             (gemini-companion-ui-idle-p
                                              (+ 0.1 gemini-companion-ui--idle-time)))
                                    (setq gemini-companion-test-inner-refused
                                          (1+ gemini-companion-test-inner-refused)))
                   reason))
     (advice-add 'gemini-companion-review-show :before
                 (lambda (&rest _)
                   ;; One that is on screen may be shown anew.
                   (unless (gemini-companion-review-shown)
                     (setq gemini-companion-test-inner-layout-before
                           (gemini-companion-test-inner-user-layout)))))
     (defun gemini-companion-test-inner-user-layout ()
       (pcase-let ((`(,windows ,files ,buffers)
                    (gemini-companion-test-inner-layout)))
         ;; The proposal of a postponed review keeps its buffer, with edits.
         (list windows files
               (seq-remove (lambda (name)
                             (string-prefix-p "*gemini proposal" name))
                           buffers)))))
  "Form that has the Emacs under test record two things.
How often a review was not shown though the user had paused, and the
layout before a review was shown.")

(defmacro gemini-companion-test-with-fake-client (spec &rest body)
  "Run BODY with an Emacs and a fake client that is connected to it.
SPEC is (EMACS CLIENT FILES): two variables, and files as (NAME . TEXT)
pairs, of which Emacs visits the first."
  (declare (indent 1) (debug ((symbolp symbolp form) body)))
  (pcase-let ((`(,emacs ,client ,files) spec)
              (list (make-symbol "files")))
    `(let ((,list ,files))
       (gemini-companion-test-with-emacs (,emacs :files ,list)
         (gemini-companion-test-visit ,emacs (caar ,list))
         (gemini-companion-test-eval
          ,emacs gemini-companion-test-fake-observers)
         (gemini-companion-test-with-client (,client 'fake ,emacs)
           ,@body)))))

(defun gemini-companion-test-fake-propose (emacs client text &optional name)
  "Let CLIENT propose TEXT for the file NAME, by default a.txt, in EMACS.
Wait until EMACS has received it; return the handle of the review."
  (let ((count (gemini-companion-test-eval
                emacs '(gemini-companion-review-count))))
    (prog1 (gemini-companion-test-client-open-diff
            client (gemini-companion-test-project emacs (or name "a.txt")) text)
      (gemini-companion-test-wait-eval
       emacs `(> (gemini-companion-review-count) ,count)))))

(defun gemini-companion-test-fake-show (emacs client text &optional name)
  "As `gemini-companion-test-fake-propose', but wait until EMACS shows TEXT, too."
  (prog1 (gemini-companion-test-fake-propose emacs client text name)
    (gemini-companion-test-wait-review emacs text)))

(defun gemini-companion-test-fake-wait-refused (emacs)
  "Wait until EMACS has refused several times to show a review."
  (gemini-companion-test-eval
   emacs '(setq gemini-companion-test-inner-refused 0))
  (gemini-companion-test-wait-eval
   emacs '(or (> gemini-companion-test-inner-refused 2)
              (gemini-companion-test-inner-review)))
  (should-not (gemini-companion-test-review emacs)))

(defun gemini-companion-test-fake-wait-not-shown (emacs)
  "Wait until EMACS has been idle long enough, and check that it shows no review."
  (gemini-companion-test-wait-idle emacs)
  (should-not (gemini-companion-test-review emacs)))

(defun gemini-companion-test-fake-wait-restored (emacs)
  "Wait until the layout of EMACS is as it was before the review was shown."
  (gemini-companion-test-wait-no-review emacs)
  (gemini-companion-test-wait
   (lambda ()
     (format "the layout\n%S\nbut it is\n%S"
             (gemini-companion-test-eval
              emacs 'gemini-companion-test-inner-layout-before)
             (gemini-companion-test-fake-layout emacs)))
   (lambda ()
     (gemini-companion-test-eval
      emacs '(equal (gemini-companion-test-inner-user-layout)
                    gemini-companion-test-inner-layout-before)))))

(defun gemini-companion-test-fake-layout (emacs)
  "Return windows, points and buffers of EMACS, except proposals."
  (gemini-companion-test-eval emacs '(gemini-companion-test-inner-user-layout)))

(defun gemini-companion-test-fake-outcomes (client)
  "Return the outcomes that CLIENT, a fake one, has received, oldest first.
Each is (accepted NAME TEXT) or (rejected NAME).  Include any other
message that is not a context."
  (delq nil
        (mapcar
         (lambda (message)
           (let* ((params (alist-get 'params message))
                  (path (alist-get 'filePath params))
                  (name (and path (file-name-nondirectory path))))
             (pcase (alist-get 'method message)
               ("ide/contextUpdate" nil)
               ("ide/diffAccepted"
                (list 'accepted name (alist-get 'content params)))
               ("ide/diffRejected" (list 'rejected name))
               (_ message))))
         (reverse (fake-cli-notifications
                   (gemini-companion-test-fake-client-cli client))))))

(defun gemini-companion-test-fake-wait-outcomes (client expected)
  "Wait until CLIENT has received the outcomes EXPECTED, and check them all."
  (gemini-companion-test-wait
   (lambda () (format "%S; it has received %S" expected
                      (gemini-companion-test-fake-outcomes client)))
   (lambda () (>= (length (gemini-companion-test-fake-outcomes client))
                  (length expected))))
  (should (equal (gemini-companion-test-fake-outcomes client) expected)))

(defun gemini-companion-test-fake-sync (emacs clients)
  "Wait until CLIENTS have received all that EMACS has sent before.
To that end, move point, and wait for the context with its position."
  (let* ((position (gemini-companion-test-run
                    emacs '(progn (goto-char (if (= (point) 1) (point-max) 1))
                                  (list (line-number-at-pos)
                                        (1+ (current-column)))))))
    (dolist (client clients)
      (gemini-companion-test-client-wait-context
       client (lambda (files)
                (let ((cursor (alist-get 'cursor (car files))))
                  (equal (list (alist-get 'line cursor)
                               (alist-get 'character cursor))
                         position)))))))

(defconst gemini-companion-test-fake-review-frame
  '(seq-some (lambda (buffer)
               (and (string-match-p "\\`\\*gemini proposal" (buffer-name buffer))
                    (get-buffer-window buffer t)
                    (window-frame (get-buffer-window buffer t))))
             (buffer-list))
  "Form that returns the frame that shows a review, or nil.")

(provide 'gemini-companion-test-fake-client)
;;; gemini-companion-test-fake-client.el ends here

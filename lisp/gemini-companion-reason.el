;;; gemini-companion-reason.el --- Reject with a reason -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A CLI that hears of a rejection ends its turn and tells its model nothing.  So the user's reason
;; becomes the next prompt, if the CLI runs in a terminal of this Emacs; else the user pastes it.
;; What was typed is never lost: what cannot be sent is in the kill ring.

;;; Code:

(require 'seq)
(require 'subr-x)
(require 'gemini-companion-queue)
(require 'gemini-companion-review)
(require 'gemini-companion-run)
(require 'gemini-companion-send)

(defvar gemini-companion-reason-history nil
  "Reasons that were given, the newest first.")

;;;###autoload
(defun gemini-companion-reason-reject (review)
  "Ask for a reason, reject REVIEW, and let its client know the reason.
Without a reason it is just rejected."
  (gemini-companion-review-check-open review)
  (let* ((reason (gemini-companion-reason--ask review))
         ;; Where the client is can be told while it is there.
         (terminal (gemini-companion-reason--terminal review)))
    (cond ((string-empty-p reason) (gemini-companion-review-reject review))
          ((not (gemini-companion-review-reject review))
           (gemini-companion-reason--keep review reason))
          (terminal (gemini-companion-reason--send review reason terminal))
          (t (gemini-companion-reason--keep review reason)))))

(defun gemini-companion-reason--ask (review)
  "Return why the user rejects REVIEW, a string.
If REVIEW has ended meanwhile signal a `user-error', and keep the reason."
  (let ((reason ""))
    (condition-case error
        (gemini-companion-review-ask
         review
         (lambda ()
           (setq reason (string-trim
                         (read-string (format "Reject %s because: "
                                              (gemini-companion-review-file review))
                                      nil 'gemini-companion-reason-history)))))
      (user-error
       (unless (string-empty-p reason)
         (kill-new reason)
         (user-error "%s; the reason is in %s" (error-message-string error)
                     (gemini-companion-reason--place)))
       (signal (car error) (cdr error))))
    reason))

(defun gemini-companion-reason--place ()
  "Return in words where a text is that was killed."
  (if (and (display-graphic-p) interprogram-cut-function)
      "the kill ring and the clipboard"
    "the kill ring"))

(defun gemini-companion-reason--terminal (review)
  "Return the terminal of Emacs in which the client of REVIEW runs, or nil.
If it is not known which process the client is, it is taken to run where
the file of REVIEW is."
  (let ((terminals (gemini-companion-run-terminals))
        (process (gemini-companion-review-process review))
        (path (gemini-companion-review-path review)))
    (if process
        (gemini-companion-run-terminal-of process (mapcar #'car terminals))
      (seq-some (lambda (agent)
                  (gemini-companion-reason--terminal-of-file
                   path (seq-filter (lambda (terminal)
                                      (eq (buffer-local-value 'gemini-companion-run-agent
                                                              (car terminal))
                                          agent))
                                    terminals)))
                ;; Of one that the user has started the agent is not known.
                (list (gemini-companion-review-agent review) nil)))))

(defun gemini-companion-reason--terminal-of-file (path terminals)
  "Return the one of TERMINALS whose directory is the innermost around PATH."
  (let ((file-name-handler-alist nil)
        (innermost nil))
    (pcase-dolist (`(,buffer . ,directory) terminals)
      (let ((directory (file-name-as-directory (file-truename directory))))
        (when (and (string-prefix-p directory path)
                   (length> directory (length (cdr innermost))))
          (setq innermost (cons buffer directory)))))
    (car innermost)))

(defun gemini-companion-reason--send (review reason terminal)
  "Send REASON, for which REVIEW was rejected, to the client in TERMINAL."
  (let ((title (gemini-companion-review-client-title review))
        (file (gemini-companion-review-file review)))
    (message "Change of %s rejected; %s is told why as soon as it listens" file title)
    (gemini-companion-send-at-rest
     reason terminal
     (lambda (outcome)
       (pcase outcome
         ('sent (gemini-companion-review-say review "Change of %s rejected; %s was told why"
                                             file title))
         ('put (gemini-companion-review-say
                review "The reason is in the prompt of %s, not sent: complete it, or send it, in %s"
                title (buffer-name terminal)))
         (_ (gemini-companion-reason--keep review reason)))))))

(defun gemini-companion-reason--keep (review reason)
  "Put REASON, for which the user rejects REVIEW, where it can be pasted."
  (kill-new reason)
  (gemini-companion-review-say
   review "%s: %s.  Paste the reason into %s: it is in %s"
   (gemini-companion-review-file review)
   (gemini-companion-review-ending review)
   (gemini-companion-review-client-title review)
   (gemini-companion-reason--place)))

(provide 'gemini-companion-reason)
;;; gemini-companion-reason.el ends here

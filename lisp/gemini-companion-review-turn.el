;;; gemini-companion-review-turn.el --- Accepting several changes of a turn -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; In one turn a CLI may propose several changes, one after the other.  The user can accept them
;; all with one answer; those that the CLI has not proposed yet are then accepted as they come.
;; And a change that was accepted, and is proposed once more since the CLI did not hear of that, is
;; accepted once more.

;;; Code:

(require 'gemini-companion-history)
(require 'gemini-companion-review)
(require 'gemini-companion-review-commands)
(require 'gemini-companion-review-effect)
(require 'gemini-companion-ui)
(require 'gemini-companion-write)

(defvar gemini-companion-review-turn--rest nil
  "The changes that the user has accepted before the client proposes them.
A list (REVIEW NAMES TIME): the review that was accepted with them, the
names of their files, and when the last one was accepted.")

(defvar gemini-companion-review-turn--memory 60
  "Seconds for which an accept is remembered.")

(defvar gemini-companion-review-turn--accepted nil
  "What was accepted in the last minute, the newest first.
Each element is (REVIEW TEXT TIME AGAIN); AGAIN is non-nil if REVIEW was
accepted because the user had accepted the same before.")

;;;###autoload
(defun gemini-companion-accept-all (&optional review)
  "Ask, naming the files, then accept all changes of this turn of the CLI.
REVIEW is a change of the turn, by default the current one.  This accepts
the changes that wait in Emacs, and those that the CLI will propose next if
its terminal in Emacs shows their files.  If accepting a change would lose
something, show it instead."
  (interactive)
  (let* ((review (or review (gemini-companion-review-current)))
         (open (cons review (gemini-companion-write-others review)))
         (rest (gemini-companion-review-queued review))
         (host (gemini-companion-review-host review))
         (names (mapcar (lambda (path) (gemini-companion-review-project-name path host))
                        (append (mapcar #'gemini-companion-review-path open) rest))))
    (gemini-companion-review-commands-confirm
     review (format "Accept %s: %s? " (gemini-companion-ui-count (length names) "change")
                    (string-join names ", ")))
    (dolist (each open)
      (when (and (gemini-companion-review-open-p each)
                 (or (eq each review) (gemini-companion-review-turn--plain-p each)))
        (gemini-companion-review-commands-accept-seen each)))
    ;; Not before, since the user may have quit when asked about one of them.
    (gemini-companion-review-turn--expect-rest review rest)))

(defun gemini-companion-review-turn--expect-rest (review names)
  "Accept changes of the files NAMES if they follow REVIEW."
  (setq gemini-companion-review-turn--rest (and names (list review names (float-time)))))

(defun gemini-companion-review-turn--plain-p (review)
  "Return non-nil if an accept of REVIEW would lose nothing, and ask nothing."
  (not (or (gemini-companion-review-effect-question review)
           (gemini-companion-review-effect-conflict review))))

(defun gemini-companion-review-turn-forget-rest (review)
  "If the user accepted others in advance with REVIEW, no longer do so."
  (when (eq review (car gemini-companion-review-turn--rest))
    (setq gemini-companion-review-turn--rest nil)))

(defun gemini-companion-review-turn-rest-of ()
  "Return the review with which the user has accepted others in advance, or nil."
  (car gemini-companion-review-turn--rest))

(defun gemini-companion-review-turn--accept-rest (review)
  "If the user has accepted REVIEW in advance, accept it, and return non-nil."
  (pcase-let ((`(,first ,names ,time) gemini-companion-review-turn--rest))
    (when (and first
               (gemini-companion-review-same-client-p first review)
               (< (- (float-time) time) 30))
      (let ((path (gemini-companion-review-path review)))
        (when (and (member path names)
                   (gemini-companion-review-turn--plain-p review))
          (gemini-companion-review-turn--expect-rest first (remove path names))
          (gemini-companion-review-commands-accept-seen review 'rule))))))

(defun gemini-companion-review-turn-last-accept ()
  "Return the review that was accepted last, within a minute, and when, or nil."
  (pcase (car gemini-companion-review-turn--accepted)
    (`(,review ,_ ,time . ,_) (cons review time))))

;;;###autoload
(defun gemini-companion-review-turn-remember (review outcome)
  "If the OUTCOME of REVIEW is that it was accepted, remember that.
If Emacs has written the file, that is not needed."
  (when (and (eq outcome 'accepted) (not (gemini-companion-review-request review)))
    (let ((accepted (list review (gemini-companion-review-current-text review) (float-time) nil)))
      (push accepted gemini-companion-review-turn--accepted)
      (run-at-time gemini-companion-review-turn--memory nil
                   #'gemini-companion-review-turn--forget-accept accepted))))
;;;###autoload (add-hook 'gemini-companion-review-end-functions #'gemini-companion-review-turn-remember)

(defun gemini-companion-review-turn--forget-accept (accepted)
  "Forget ACCEPTED, an element of `gemini-companion-review-turn--accepted'."
  (setq gemini-companion-review-turn--accepted
        (delq accepted gemini-companion-review-turn--accepted)))

(defun gemini-companion-review-turn--accept-again (review)
  "Accept REVIEW if the user has just accepted the same, which was not written.
A CLI that was interrupted when it asked does not say so, ignores the
accept, and may propose the same again.  Return non-nil if accepted."
  (when-let* ((before (seq-find (pcase-lambda (`(,earlier ,_ ,_ ,again))
                                  ;; Only once: a client may be unable to write.
                                  (and (not again)
                                       (gemini-companion-review-turn--same-p earlier review)))
                                gemini-companion-review-turn--accepted))
              ((null (gemini-companion-review-effect-conflict review))))
    (gemini-companion-review-turn--forget-accept before)
    (gemini-companion-history-note (gemini-companion-review-entry (car before)) 'cancelled)
    (setf (gemini-companion-review-text review) (nth 1 before))
    (prog1 (gemini-companion-review-commands-accept-seen review 'rule)
      (when-let* ((now (assq review gemini-companion-review-turn--accepted)))
        (setf (nth 3 now) t)))))

(defun gemini-companion-review-turn--same-p (one other)
  "Return non-nil if the reviews ONE and OTHER propose the same, to the same text."
  (and (gemini-companion-review-same-client-p one other)
       (equal (gemini-companion-review-path one) (gemini-companion-review-path other))
       (equal (gemini-companion-review-stamp one) (gemini-companion-review-stamp other))
       (equal (gemini-companion-review-proposed one) (gemini-companion-review-proposed other))))

(defun gemini-companion-review-turn-forget ()
  "Forget what the user has accepted, since the companion stops."
  (cancel-function-timers #'gemini-companion-review-turn--forget-accept)
  (setq gemini-companion-review-turn--rest nil
        gemini-companion-review-turn--accepted nil))

(add-hook 'gemini-companion-mode-off-hook #'gemini-companion-review-turn-forget)

;;;###autoload
(defun gemini-companion-review-turn-at-once (review)
  "Accept REVIEW, just proposed, if the user has decided so in advance.
Return non-nil if it was accepted."
  (or (gemini-companion-review-turn--accept-rest review)
      (gemini-companion-review-turn--accept-again review)))
;;;###autoload (add-hook 'gemini-companion-review-decide-functions #'gemini-companion-review-turn-at-once)

(provide 'gemini-companion-review-turn)
;;; gemini-companion-review-turn.el ends here

;;; gemini-companion-test-review.el --- Reviews in the Emacs under test  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Reads a review from the Emacs under test, and acts on it by keys.

;;; Code:

(require 'gemini-companion-test-emacs)

(defun gemini-companion-test-review (emacs)
  "Return an alist that describes the review on the screen of EMACS, or nil.
See `gemini-companion-test-inner-review'."
  (gemini-companion-test-eval emacs '(gemini-companion-test-inner-review)))

(defun gemini-companion-test-wait-review (emacs &optional proposal)
  "Wait until EMACS shows a review and return its description.
With the string PROPOSAL wait for one that proposes this text."
  (gemini-companion-test-wait
   (if proposal (format "a review of %S" proposal) "a review")
   (lambda ()
     (let ((review (gemini-companion-test-review emacs)))
       (and review
            (or (null proposal)
                (equal proposal (alist-get 'proposal review)))
            review)))))

(defun gemini-companion-test-wait-no-review (emacs)
  "Wait until EMACS shows no review, and has no buffers of one."
  (gemini-companion-test-wait-eval
   emacs '(null (gemini-companion-test-inner-views))))

(defun gemini-companion-test-wait-idle (emacs)
  "Wait until EMACS has been idle long enough to have shown a review."
  (gemini-companion-test-wait-eval
   emacs '(let ((idle (current-idle-time)))
            (and idle (> (float-time idle) (+ 0.2 gemini-companion-ui--idle-time
                                              (* 3 gemini-companion-review-popup--interval)))))))

(defun gemini-companion-test-accept (emacs &optional text)
  "Accept the review on the screen of EMACS by its key, with TEXT typed at its end."
  (when text (gemini-companion-test-append-to-proposal emacs text))
  (gemini-companion-test-select-proposal emacs)
  (gemini-companion-test-keys emacs "C-c" "C-c"))

(defun gemini-companion-test-reject (emacs)
  "Reject the review on the screen of EMACS by its key."
  (gemini-companion-test-select-proposal emacs)
  (gemini-companion-test-keys emacs "C-c" "C-k"))

(defun gemini-companion-test-select-proposal (emacs)
  "Select the window of the proposal in EMACS by the usual keys."
  (gemini-companion-test--other-window
   emacs '(gemini-companion-test-inner-in-proposal-p)))

(defun gemini-companion-test-select-panel (emacs)
  "Select the window of Ediff's panel in EMACS by the usual keys."
  (gemini-companion-test--other-window
   emacs '(gemini-companion-test-inner-in-panel-p)))

(defun gemini-companion-test--other-window (emacs there-p)
  "Select windows of EMACS one after the other until the form THERE-P holds."
  ;; Keys are ignored for a moment where a review was selected automatically.
  (gemini-companion-test-wait-eval
   emacs '(or (null gemini-companion-review-popup--unexpected)
              (> (- (float-time) (cdr gemini-companion-review-popup--unexpected))
                 gemini-companion-ui-reaction-time)))
  (let ((tries 0))
    (while (not (gemini-companion-test-eval emacs there-p))
      (when (> (cl-incf tries) 8)
        (error "No window where %S" there-p))
      (let ((window (gemini-companion-test-eval
                     emacs '(format "%s" (selected-window)))))
        (gemini-companion-test-keys emacs "C-x" "o")
        (gemini-companion-test-wait-eval
         emacs `(not (equal ,window (format "%s" (selected-window)))))))))

(defun gemini-companion-test-append-to-proposal (emacs text)
  "Type TEXT at the end of the proposal in EMACS."
  (gemini-companion-test-select-proposal emacs)
  (when (gemini-companion-test-eval
         emacs '(gemini-companion-test-inner-inline-p (window-buffer)))
    (gemini-companion-test-keys emacs "e"))
  (gemini-companion-test-keys emacs "M->")
  (gemini-companion-test-type emacs text)
  (gemini-companion-test-wait-eval
   emacs `(string-suffix-p ,text (gemini-companion-test-inner--text
                                  (window-buffer)))))

(defun gemini-companion-test-layout (emacs)
  "Return windows, points and buffers of EMACS, to be compared by `equal'."
  (gemini-companion-test-eval emacs '(gemini-companion-test-inner-layout)))

(provide 'gemini-companion-test-review)
;;; gemini-companion-test-review.el ends here

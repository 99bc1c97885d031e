;;; gemini-companion-answer.el --- What the user has answered -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Answers to questions that Emacs asks once.  They are not user options, since the user's init file
;; is for what the user customizes.  A file of their own holds them as data that is never evaluated,
;; one to a line, so that the user can delete one.  Emacs reads it each time, since another Emacs
;; may have written it.
;;
;; A question is a symbol, or a cons of a symbol and what the question is about.

;;; Code:

(require 'gemini-companion-file)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)

(defvar gemini-companion-answer--file
  (unless noninteractive
    (expand-file-name "gemini-companion/answers.eld" user-emacs-directory))
  "The file of the answers.
If nil, as in batch mode, they hold until Emacs exits.")

(defvar gemini-companion-answer--unsaved nil
  "Alist of the answers that are not in the file.")

(defun gemini-companion-answer-get (question)
  "Return the answer to QUESTION, `always' or `never', or nil if there is none."
  (cdr (assoc question (gemini-companion-answer-all))))

(defun gemini-companion-answer-all ()
  "Return all answers, an alist of questions and `always' or `never'."
  (let ((saved (gemini-companion-log-errors (format "%s is ignored" gemini-companion-answer--file)
                 (gemini-companion-answer--read))))
    (seq-filter #'cdr (seq-uniq (append gemini-companion-answer--unsaved saved)
                                (lambda (one other) (equal (car one) (car other)))))))

(defun gemini-companion-answer-set (question answer)
  "Store ANSWER, `always' or `never', to QUESTION; if nil, forget the earlier one.
If the file cannot be read or written, ANSWER holds until Emacs exits."
  (setf (alist-get question gemini-companion-answer--unsaved nil nil #'equal) answer)
  (when gemini-companion-answer--file
    (condition-case error
        (progn
          ;; The user may want to correct a file that is invalid.
          (gemini-companion-answer--read)
          ;; The file, and its directory if that is new, are private.
          (with-file-modes #o700
            (gemini-companion-file-write gemini-companion-answer--file
                                         (gemini-companion-answer--print)))
          (setq gemini-companion-answer--unsaved nil))
      (error
       (let ((text (concat "Your answer holds only until Emacs exits: "
                           (gemini-companion-ui-error-text error))))
         (gemini-companion-log-add "%s" text)
         ;; The user's command may have a message of its own.
         (gemini-companion-ui-message 'answer "%s" text))))))

(defun gemini-companion-answer-ask (question text again)
  "Ask the user TEXT, and store the reply as the answer to QUESTION.
Return non-nil if the user has just agreed.  Do not ask in batch mode, nor
if QUESTION was answered before, unless AGAIN is non-nil."
  (unless (or noninteractive
              (and (not again) (gemini-companion-answer-get question)))
    (let ((agreed (gemini-companion-ui-y-or-n-p text)))
      (gemini-companion-answer-set question (if agreed 'always 'never))
      agreed)))

;;;; The file

(defun gemini-companion-answer--read ()
  "Return the answers in the file, nil if there is none.
Signal an error if it cannot be read or is invalid."
  (when (and gemini-companion-answer--file (file-exists-p gemini-companion-answer--file))
    (let* ((bytes (or (gemini-companion-file-read gemini-companion-answer--file)
                      (error "Cannot read %s" gemini-companion-answer--file)))
           (read-circle nil)
           (answers (condition-case nil
                        (car (read-from-string (decode-coding-string bytes 'utf-8)))
                      (error 'invalid))))
      (unless (and (proper-list-p answers)
                   (seq-every-p (lambda (it) (memq (cdr-safe it) '(always never))) answers))
        (error "There is a mistake in %s: correct or delete it" gemini-companion-answer--file))
      answers)))

(defun gemini-companion-answer--print ()
  "Return all answers as the bytes of the file."
  (let ((print-length nil)
        (print-level nil)
        (print-escape-newlines t))
    (encode-coding-string
     (concat ";; Your answers to the questions of gemini-companion.  "
             "To be asked again, delete a line.  -*- coding: utf-8 -*-\n(\n"
             (mapconcat (lambda (entry) (format "%S\n" entry)) (gemini-companion-answer-all) "")
             ")\n")
     'utf-8)))

(provide 'gemini-companion-answer)
;;; gemini-companion-answer.el ends here

;;; gemini-companion-setup.el --- Let a CLI connect automatically -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A CLI connects when it starts if ide.enabled is true in its settings; otherwise it connects only
;; when the user tells it to.  This file adds that setting if the user wants it, after one question
;; for each program.  Nothing else in the user's file changes, not even its layout.  A file that
;; cannot be read with certainty stays as it is.
;;
;; A running CLI does not notice the change, and loses it when it saves its settings.  So
;; `gemini-companion-run' checks again each time.

;;; Code:

(require 'gemini-companion-agent)
(require 'gemini-companion-answer)
(require 'gemini-companion-cli-search)
(require 'gemini-companion-file)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-settings)
(require 'gemini-companion-ui)
(require 'gemini-companion-write)

(declare-function gemini-companion-host-setup "gemini-companion-host-setup")

(defvar gemini-companion-setup-functions nil
  "Functions that `gemini-companion-setup' calls after its own questions.
Each may ask another one, and returns the outcome as text, or nil.")

;;;; The command

;;;###autoload
(defun gemini-companion-setup ()
  "Let Gemini CLI connect automatically when it starts, after a question.
This adds ide.enabled to its settings, and leaves everything else in that
file alone.  Emacs asks for each program that is served and used here, even
if you have answered before.  In a buffer of a connected host, it asks for
the programs there."
  (interactive)
  (if (gemini-companion-host-of-name default-directory)
      (gemini-companion-host-setup default-directory)
    (gemini-companion-setup--here)))

(defun gemini-companion-setup--here ()
  "Let the programs that are used on this machine connect, after questions."
  (let ((default-directory (if (file-remote-p default-directory)
                               gemini-companion-agent-neutral-directory
                             default-directory))
        (done nil)
        (failed nil))
    (dolist (offer (append (mapcar (lambda (agent)
                                     (lambda () (gemini-companion-setup--offer agent)))
                                   (gemini-companion-setup--agents))
                           gemini-companion-setup-functions))
      (condition-case problem
          (when-let* ((text (funcall offer)))
            (push text done))
        (user-error (push (gemini-companion-ui-error-text problem) failed))))
    (when done
      (message "%s" (string-join (nreverse done) "\n")))
    (when failed
      (user-error "%s" (string-join (nreverse failed) "\n")))))

(defun gemini-companion-setup--agents ()
  "Return the programs that are served and used here and have known settings."
  (or (seq-filter (lambda (agent)
                    (and (gemini-companion-setup--file agent)
                         (gemini-companion-agent-directories agent)))
                  (gemini-companion-agent-served))
      (user-error "Type /ide enable in the CLI: Emacs does not know where its settings are")))

(defun gemini-companion-setup--file (agent)
  "Return the settings file of AGENT, started from this buffer, or nil."
  (gemini-companion-agent-settings-file agent process-environment))

(defun gemini-companion-setup--offer (agent)
  "Let AGENT connect automatically, after a question, unless it already does.
Return a message about the outcome."
  (let* ((file (gemini-companion-setup--file agent))
         (value (gemini-companion-setup--ide-enabled file))
         (name (abbreviate-file-name file))
         (question (format "Let %s connect by itself? (%s %s) "
                           (gemini-companion-agent-get agent :title)
                           (if value "turns on ide.enabled in" "adds ide.enabled to")
                           name)))
    (cond ((eq value t) (gemini-companion-setup--describe agent))
          ((y-or-n-p question) (gemini-companion-setup-do agent process-environment))
          (t (gemini-companion-answer-set (cons 'setup agent) 'never)
             (format "Left %s alone; M-x gemini-companion-setup asks again" name)))))

(defun gemini-companion-setup-do (agent environment)
  "Let AGENT, started with ENVIRONMENT, connect automatically.
Return a message about the outcome.  Signal a `user-error' if its settings
cannot be changed."
  (let* ((process-environment environment)
         (file (gemini-companion-setup--file agent)))
    (gemini-companion-setup--ide-enabled file 'enable)
    (gemini-companion-write-revert-now file)
    (gemini-companion-log-add "ide.enabled is now true in %s" file)
    (gemini-companion-answer-set (cons 'setup agent) 'always)
    (gemini-companion-setup--describe agent)))

(defun gemini-companion-setup--describe (agent)
  "Return a message that AGENT connects automatically."
  (format "%s connects by itself when it starts: ide.enabled is true in %s"
          (gemini-companion-agent-get agent :title)
          (abbreviate-file-name (gemini-companion-setup--file agent))))

;;;; Before each run

(defun gemini-companion-setup-before-run (agent)
  "Let AGENT, about to run in `default-directory', connect automatically.
Ask if the user was not asked before, except in batch mode.  Show a message
if the settings cannot be changed."
  (let ((file (gemini-companion-setup--file agent))
        (answer (gemini-companion-answer-get (cons 'setup agent))))
    (when (and file
               (not (eq answer 'never))
               (not (eq t (car (gemini-companion-cli-search-setting
                                (gemini-companion-cli-search-settings agent default-directory
                                                                      process-environment)
                                '(ide enabled))))))
      (condition-case problem
          (pcase (gemini-companion-setup--ide-enabled file)
            ('t nil)
            ;; The setting got lost.  If it is false, somebody has turned it off.
            ((and 'nil (guard (eq answer 'always)))
             (message "%s" (gemini-companion-setup-do agent process-environment)))
            ((guard (not noninteractive))
             (message "%s" (gemini-companion-setup--offer agent))))
        (user-error
         (gemini-companion-log-add "%s" (gemini-companion-ui-error-text problem))
         (message "%s" (gemini-companion-ui-error-text problem)))))))

;;;; The settings

(defun gemini-companion-setup--ide-enabled (file &optional enable)
  "Return what ide.enabled is in FILE: t, `false', or nil if it is not set.
If ENABLE is non-nil, make it true in FILE, which need not exist.  Signal a
`user-error', and change nothing, if it cannot be changed."
  (condition-case problem
      (pcase-let* ((file-name-handler-alist nil)
                   (old (gemini-companion-setup--read file))
                   (`(,value . ,new) (gemini-companion-settings-change old)))
        (unless (eq value t)
          (gemini-companion-setup--check-changeable file)
          (when enable
            (gemini-companion-setup--write (file-truename file) old new)))
        value)
    (error (user-error "Left %s alone: %s" (abbreviate-file-name file)
                       (gemini-companion-ui-error-text problem)))))

(defun gemini-companion-setup--check-changeable (file)
  "Signal an error if FILE is read-only, or a buffer has unsaved edits of it."
  (when (and (file-exists-p file) (not (file-writable-p file)))
    (gemini-companion-settings-refuse "it is read-only"))
  (when-let* ((buffer (find-buffer-visiting file))
              ((buffer-modified-p buffer)))
    (gemini-companion-settings-refuse "its buffer has edits; save or revert it first")))

(defun gemini-companion-setup--read (file)
  "Return the bytes in FILE, or nil if there is none."
  (when (file-attributes (file-truename file))
    (when-let* ((fault (gemini-companion-cli-search-unreadable file)))
      (gemini-companion-settings-refuse "it %s" fault))
    (gemini-companion-file-read-as-named file)))

(defun gemini-companion-setup--write (file old new)
  "Replace OLD, the bytes in FILE, by NEW.  OLD is nil if FILE does not exist."
  (unless old
    (with-file-modes #o700
      (make-directory (file-name-directory file) t)))
  (gemini-companion-file-replace
   file new
   (unless old #o600)                   ; a new file is private
   (lambda ()
     ;; A CLI saves its settings, too.
     (unless (equal old (gemini-companion-setup--read file))
       (gemini-companion-settings-refuse "it has just changed; try again")))))

(provide 'gemini-companion-setup)
;;; gemini-companion-setup.el ends here

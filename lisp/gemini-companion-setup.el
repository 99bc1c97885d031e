;;; gemini-companion-setup.el --- Let a CLI connect by itself -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A CLI connects when it starts if ide.enabled is true in its settings, and else only after a
;; command in it.  That is put there if the user wants it, who is asked once for each program.
;;
;; A CLI that runs meanwhile knows nothing of it, and when it saves some setting the new one is
;; gone.  So `gemini-companion-run' looks again each time.

;;; Code:

(require 'seq)
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-client)
(require 'gemini-companion-environment)
(require 'gemini-companion-log)
(require 'gemini-companion-settings)

(declare-function custom-file "cus-edit")

;;;###autoload (custom-add-load 'gemini-companion 'gemini-companion-setup)
(defcustom gemini-companion-setup-policy nil
  "What you answered when asked whether a program shall connect by itself.
An alist of names in `gemini-companion-agent-profiles' and `always' or
`never'.  You are asked about any other when `gemini-companion-run' first
runs it, and your answer is saved here.  With `always', ide.enabled is
also put into its settings again if it gets lost.  To be asked again type
\\[gemini-companion-setup]."
  :type '(alist :key-type (choice (const :tag "Gemini CLI" gemini)
                                  (const :tag "Qwen Code" qwen)
                                  (symbol :tag "Another"))
                :value-type (choice (const :tag "It connects by itself" always)
                                    (const :tag "Its settings are left alone" never)))
  :group 'gemini-companion
  :risky t)

;;;; The command

;;;###autoload
(defun gemini-companion-setup ()
  "Let Gemini CLI connect by itself when it starts, after a question.
That adds ide.enabled to its settings, and leaves all else in that file
as it is.  You are asked for each program that is served and used here;
see `gemini-companion-setup-policy'."
  (interactive)
  (let ((said nil)
        (failed nil))
    (dolist (agent (or (gemini-companion-setup--agents)
                       (user-error "Type /ide enable in the CLI: where those that are served \
have their settings is not known")))
      (condition-case problem
          (push (gemini-companion-setup--offer agent) said)
        (gemini-companion-settings-unusable
         (push (gemini-companion-log-reason problem) failed))))
    (when said
      (message "%s" (string-join (nreverse said) "\n")))
    (when failed
      (user-error "%s" (string-join (nreverse failed) "\n")))))

(defun gemini-companion-setup--agents ()
  "Return the programs that are served and used here and have known settings."
  (seq-filter (lambda (agent)
                (and (gemini-companion-setup--file agent)
                     (gemini-companion-environment-directories agent)))
              (gemini-companion-agent-served)))

(defun gemini-companion-setup--file (agent)
  "Return the settings of AGENT if it is started from the current buffer, or nil."
  (gemini-companion-environment-settings agent process-environment))

(defun gemini-companion-setup--offer (agent)
  "Ask whether AGENT shall connect by itself unless it does; return what to say."
  (let* ((file (gemini-companion-setup--file agent))
         (value (gemini-companion-settings-ide-enabled file)))
    (if (eq value t)
        (gemini-companion-setup--describe agent "connects by itself")
      (gemini-companion-setup--ask agent file value))))

(defun gemini-companion-setup--ask (agent file value)
  "Ask whether AGENT shall connect by itself, and have it; return what to say.
FILE has its settings, in which ide.enabled is VALUE."
  (cond ((y-or-n-p (gemini-companion-setup--question agent file value))
         (gemini-companion-setup-do agent process-environment))
        (t (gemini-companion-setup--remember agent 'never)
           (format "%s is left as it is; M-x gemini-companion-setup asks again"
                   (abbreviate-file-name file)))))

(defun gemini-companion-setup--question (agent file value)
  "Return what `gemini-companion-setup--ask' asks about AGENT, FILE and VALUE."
  (format "Let %s connect by itself? (%s %s) "
          (gemini-companion-agent-get agent :title)
          (if value "switches on ide.enabled in" "adds ide.enabled to")
          (abbreviate-file-name file)))

(defun gemini-companion-setup-do (agent environment)
  "Let AGENT, started with ENVIRONMENT, connect by itself; return what to say.
Signal `gemini-companion-settings-unusable' if that cannot be."
  (let* ((process-environment environment)
         (file (gemini-companion-setup--file agent))
         (stale (gemini-companion-settings-enable-ide file)))
    (gemini-companion-log-add "ide.enabled is now true in %s" file)
    (gemini-companion-setup--remember agent 'always)
    (concat (gemini-companion-setup--describe agent "connects by itself when it next starts")
            (if stale
                (format ".  The buffer %s shows the old text" (buffer-name stale))
              ""))))

(defun gemini-companion-setup--describe (agent words)
  "Return a text that AGENT does what WORDS say, and what keeps it from that."
  (let ((title (gemini-companion-agent-get agent :title))
        (file (gemini-companion-setup--file agent)))
    (pcase (gemini-companion-setup--effective agent)
      ((and `(,value . ,other) (guard (not (eq value t))))
       (format "%s does not connect by itself here: ide.enabled is true in %s, but not in %s, \
which comes first" title (abbreviate-file-name file) (abbreviate-file-name other)))
      (_ (format "%s %s: ide.enabled is true in %s" title words (abbreviate-file-name file))))))

(defun gemini-companion-setup--effective (agent)
  "Return (VALUE . FILE) for the ide.enabled that counts for AGENT here, or nil.
It is known only of Gemini CLI which files there may be besides the
user's."
  (when (and (eq agent 'gemini) (not (file-remote-p default-directory)))
    (gemini-companion-client-ide-mode
     default-directory process-environment
     (gemini-companion-client-settings default-directory process-environment))))

(defun gemini-companion-setup--remember (agent answer)
  "Save ANSWER, `always' or `never', as that for AGENT."
  (unless (eq answer (alist-get agent gemini-companion-setup-policy))
    (gemini-companion-setup-save
     'gemini-companion-setup-policy
     (cons (cons agent answer)
           (assq-delete-all agent (copy-alist gemini-companion-setup-policy))))))

(defun gemini-companion-setup-save (option value)
  "Save VALUE, which an answer gave, as that of OPTION.
Where nothing can be saved it holds until Emacs exits."
  (require 'cus-edit)
  (let ((file (custom-file t)))
    (gemini-companion-log-errors (symbol-name option)
      ;; To save into a file that is read-only would ask one more question.
      (funcall (if (and file (file-writable-p file))
                   #'customize-save-variable
                 #'customize-set-variable)
               option value))))

;;;; Before each run

(defun gemini-companion-setup-before-run (agent)
  "See to it that AGENT, about to run in `default-directory', connects by itself.
Ask if the user was not asked before; leave all as it is if that is not
wanted, and say so if it cannot be.  In batch mode nothing is asked."
  (when (and (gemini-companion-setup--file agent)
             (not (eq (alist-get agent gemini-companion-setup-policy) 'never))
             (not (eq (car (gemini-companion-setup--effective agent)) t)))
    (condition-case problem
        (when-let* ((text (gemini-companion-setup--look agent)))
          (message "%s" text))
      (gemini-companion-settings-unusable
       (gemini-companion-log-add "%s" (gemini-companion-log-reason problem))
       (message "%s" (gemini-companion-log-reason problem))))))

(defun gemini-companion-setup--look (agent)
  "Look whether AGENT connects by itself, and have it; return what to say, or nil."
  (let* ((file (gemini-companion-setup--file agent))
         (value (gemini-companion-settings-ide-enabled file)))
    (cond ((eq value t) nil)
          ;; Lost, since it was there.  But what is false somebody has switched off.
          ((and (null value) (eq (alist-get agent gemini-companion-setup-policy) 'always))
           (gemini-companion-setup-do agent process-environment))
          (noninteractive nil)
          (t (gemini-companion-setup--ask agent file value)))))

(provide 'gemini-companion-setup)
;;; gemini-companion-setup.el ends here

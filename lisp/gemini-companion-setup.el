;;; gemini-companion-setup.el --- Let a CLI connect automatically -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A CLI connects when it starts if ide.enabled is true in its settings; otherwise it connects only
;; after a command in it.  This file adds that setting if the user wants it, after one question for
;; each program.  Nothing else in the user's file changes, comments and layout included.  A file
;; that cannot be read with certainty is left alone.
;;
;; A running CLI does not notice the change, and loses it when it saves its settings.  So
;; `gemini-companion-run' checks again each time.

;;; Code:

(require 'json)
(require 'seq)
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-answer)
(require 'gemini-companion-cli-search)
(require 'gemini-companion-file)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)
(require 'gemini-companion-write)

(defvar gemini-companion-setup-functions nil
  "Functions that `gemini-companion-setup' calls after its own questions.
Each may ask another one, and returns the outcome as text, or nil.")

(defvar gemini-companion-setup--settings-file nil
  "The file that error messages name.")

;;;; The command

;;;###autoload
(defun gemini-companion-setup ()
  "Let Gemini CLI connect automatically when it starts, after a question.
This adds ide.enabled to its settings, and leaves everything else in that
file alone.  Emacs asks for each program that is served and used here, even
if you have answered before.  For another machine, `gemini-companion-run'
asks."
  (interactive)
  (let ((default-directory (if (file-remote-p default-directory)
                               gemini-companion-agent-neutral-directory
                             default-directory))
        (done nil)
        (failed nil))
    (dolist (agent (or (gemini-companion-setup--agents)
                       (user-error "Type /ide enable in the CLI: Emacs does not know where its \
settings are")))
      (condition-case problem
          (push (gemini-companion-setup--offer agent) done)
        (user-error (push (gemini-companion-ui-error-text problem) failed))))
    (run-hook-wrapped 'gemini-companion-setup-functions
                      (lambda (function)
                        (when-let* ((text (funcall function)))
                          (push text done))
                        nil))
    (when done
      (message "%s" (string-join (nreverse done) "\n")))
    (when failed
      (user-error "%s" (string-join (nreverse failed) "\n")))))

(defun gemini-companion-setup--agents ()
  "Return the programs that are served and used here and have known settings."
  (seq-filter (lambda (agent)
                (and (gemini-companion-setup--file agent)
                     (gemini-companion-agent-directories agent)))
              (gemini-companion-agent-served)))

(defun gemini-companion-setup--file (agent)
  "Return the settings file of AGENT, started from this buffer, or nil.
On another machine, whose environment is unknown, it is the default one."
  (if-let* ((machine (file-remote-p default-directory)))
      (pcase (gemini-companion-agent-get agent :settings)
        (`(,_ ,default ,file) (concat machine (file-name-as-directory default) file)))
    (gemini-companion-agent-settings-file agent process-environment)))

(defun gemini-companion-setup--question (agent)
  "Return the question about AGENT, started from this buffer."
  (let ((machine (file-remote-p default-directory)))
    (cons 'setup (if machine (cons agent machine) agent))))

(defun gemini-companion-setup--offer (agent &optional starting)
  "Let AGENT connect automatically, after a question, unless it does.
STARTING and the value are as in `gemini-companion-setup-do'."
  (let* ((file (gemini-companion-setup--file agent))
         (value (gemini-companion-setup--ide-enabled file))
         (name (abbreviate-file-name file))
         (question (format "Let %s connect by itself? (%s %s) "
                           (gemini-companion-agent-get agent :title)
                           (if value "turns on ide.enabled in" "adds ide.enabled to")
                           name)))
    (cond ((eq value t) (gemini-companion-setup--describe agent "connects by itself"))
          ((y-or-n-p question)
           (gemini-companion-setup-do agent process-environment starting))
          (t (gemini-companion-answer-set (gemini-companion-setup--question agent) 'never)
             (format "Left %s alone; M-x gemini-companion-setup asks again" name)))))

(defun gemini-companion-setup-do (agent environment &optional starting)
  "Let AGENT, started with ENVIRONMENT, connect automatically.
STARTING is non-nil if it is about to start.  Return the outcome, as text
for the user.  Signal a `user-error' if its settings cannot be changed."
  (let* ((process-environment environment)
         (file (gemini-companion-setup--file agent)))
    (gemini-companion-setup-enable-ide file)
    (gemini-companion-log-add "ide.enabled is now true in %s" file)
    (gemini-companion-answer-set (gemini-companion-setup--question agent) 'always)
    (gemini-companion-setup--describe
     agent (if starting "connects by itself" "connects by itself when it next starts"))))

(defun gemini-companion-setup--describe (agent predicate)
  "Return a sentence of AGENT and PREDICATE that names its settings."
  (format "%s %s: ide.enabled is true in %s" (gemini-companion-agent-get agent :title) predicate
          (abbreviate-file-name (gemini-companion-setup--file agent))))

(defun gemini-companion-setup--effective (agent)
  "Return (VALUE . FILE) for the ide.enabled that counts for AGENT here, or nil."
  (unless (file-remote-p default-directory)
    (gemini-companion-cli-search-setting
     (gemini-companion-cli-search-settings agent default-directory process-environment)
     '(ide enabled))))

;;;; Before each run

(defun gemini-companion-setup-before-run (agent)
  "Let AGENT, about to run in `default-directory', connect automatically.
Ask if the user was not asked before.  Show a message if the settings
cannot be changed.  In batch mode ask nothing."
  (let ((file (gemini-companion-setup--file agent))
        (answer (gemini-companion-answer-get (gemini-companion-setup--question agent))))
    (when (and file
               (not (eq answer 'never))
               (not (eq (car (gemini-companion-setup--effective agent)) t)))
      (condition-case problem
          (pcase (gemini-companion-setup--ide-enabled file)
            ('t nil)
            ;; It was there, and got lost.  If it is false, somebody has switched it off.
            ((and 'nil (guard (eq answer 'always)))
             (message "%s" (gemini-companion-setup-do agent process-environment 'starting)))
            ((guard (not noninteractive))
             (message "%s" (gemini-companion-setup--offer agent 'starting))))
        (user-error
         (gemini-companion-log-add "%s" (gemini-companion-ui-error-text problem))
         (message "%s" (gemini-companion-ui-error-text problem)))))))

;;;; The settings

(defun gemini-companion-setup--refuse (format &rest arguments)
  "Signal that the file is left alone, because of FORMAT with ARGUMENTS."
  (user-error "Left %s alone: %s" (abbreviate-file-name gemini-companion-setup--settings-file)
              (apply #'format format arguments)))

(defmacro gemini-companion-setup--with (file &rest body)
  "Evaluate BODY about FILE, without handlers of file names unless it is remote.
Signal errors as those of the user."
  (declare (indent 1) (debug t))
  `(let* ((gemini-companion-setup--settings-file ,file)
          (file-name-handler-alist (and (gemini-companion-host-remote-p
                                         gemini-companion-setup--settings-file)
                                        file-name-handler-alist))
          ;; A CLI changes the file, too.
          (remote-file-name-inhibit-cache t))
     (condition-case problem
         (progn ,@body)
       (user-error (signal (car problem) (cdr problem)))
       (error (gemini-companion-setup--refuse "%s" (gemini-companion-ui-error-text problem))))))

(defun gemini-companion-setup--ide-enabled (file)
  "Return what ide.enabled is in FILE: t, `false', or nil if it is not set.
Signal a `user-error' if it could not be changed."
  (gemini-companion-setup--with file
    (let ((value (car (gemini-companion-setup--change (gemini-companion-setup--read file)))))
      (unless (eq value t)
        (gemini-companion-setup--check-changeable file))
      value)))

(defun gemini-companion-setup-enable-ide (file)
  "Make ide.enabled true in FILE, which need not exist, and revert its buffer.
Signal a `user-error', and change nothing, if FILE cannot be changed."
  (gemini-companion-setup--with file
    (let* ((old (gemini-companion-setup--read file))
           (change (gemini-companion-setup--change old)))
      (unless (eq (car change) t)
        (gemini-companion-setup--check-changeable file)
        (gemini-companion-setup--write (file-truename file) old (cdr change)))))
  (gemini-companion-write-revert-now file))

(defun gemini-companion-setup--check-changeable (file)
  "Refuse to change FILE if it is read-only, or a buffer has edits of it."
  (when (and (file-exists-p file) (not (file-writable-p file)))
    (gemini-companion-setup--refuse "it is read-only"))
  (when-let* ((buffer (find-buffer-visiting file)))
    (when (buffer-modified-p buffer)
      (gemini-companion-setup--refuse "its buffer has edits; save or revert it first"))))

(defun gemini-companion-setup--read (file)
  "Return the bytes in FILE, or nil if there is none."
  (when (file-attributes (file-truename file))
    (when-let* ((fault (gemini-companion-cli-search-unreadable file)))
      (gemini-companion-setup--refuse "it %s" fault))
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
       (gemini-companion-setup--refuse "it was changed at this very moment; try again")))))

;;;; The change

(defun gemini-companion-setup--change (bytes)
  "Return what ide.enabled is in BYTES, and BYTES in which it is true, as a cons.
The former is t, `false', or nil if it is not set.  BYTES may be nil."
  (if (string-blank-p (or bytes ""))
      (cons nil "{\n  \"ide\": {\n    \"enabled\": true\n  }\n}\n")
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (insert bytes)
      (unless (listp (gemini-companion-cli-search-parse-buffer))
        (gemini-companion-setup--refuse "it holds no JSON object"))
      (goto-char (point-min))
      (json-skip-whitespace)
      (pcase-let ((`(,value ,start ,end ,new) (gemini-companion-setup--find)))
        (cons value (concat (substring bytes 0 (1- start)) new (substring bytes (1- end))))))))

(defun gemini-companion-setup--find ()
  "Return how to make ide.enabled true in the object at point.
The value is (VALUE START END NEW): what it is, and the text that replaces
what is between START and END."
  (if-let* ((ide (gemini-companion-setup--member "ide")))
      (progn
        (goto-char ide)
        (unless (looking-at-p "{")
          (gemini-companion-setup--refuse "\"ide\" is no object in it"))
        (if-let* ((enabled (gemini-companion-setup--member "enabled")))
            (progn
              (goto-char enabled)
              (unless (looking-at "true\\|false\\|null")
                (gemini-companion-setup--refuse "ide.enabled is neither true nor false in it"))
              (list (if (equal (match-string 0) "true") t 'false)
                    (match-beginning 0) (match-end 0) "true"))
          (gemini-companion-setup--insertion "\"enabled\": true")))
    (gemini-companion-setup--insertion "\"ide\": {\"enabled\": true}")))

(defun gemini-companion-setup--member (name)
  "Return where the value of NAME in the object at point begins, or nil.
Of several members with one name the last counts."
  (let ((found nil))
    (save-excursion
      (forward-char)
      (while (progn (skip-chars-forward " \t\r\n,")
                    (not (looking-at-p "}")))
        (let ((key (json-read-string)))
          (skip-chars-forward " \t\r\n:")
          (when (equal key name) (setq found (point)))
          (json-read))))
    found))

(defun gemini-companion-setup--insertion (member)
  "Return how to add MEMBER to the object at point, as its first.
For the value see `gemini-companion-setup--find'.  MEMBER gets a line of
its own if the member after it has one."
  (if (looking-at "{[ \t]*\\(\r?\n\\)\\(?:[ \t]*\r?\n\\)*\\([ \t]*\\)\"")
      (list nil (match-beginning 1) (match-beginning 1)
            (concat (match-string 1) (match-string 2) member ","))
    (looking-at "{[ \t\r\n]*\\(}\\)?")
    (if (match-beginning 1)
        (list nil (1+ (point)) (1+ (point)) member)
      (list nil (match-end 0) (match-end 0) (concat member ", ")))))

(provide 'gemini-companion-setup)
;;; gemini-companion-setup.el ends here

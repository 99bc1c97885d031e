;;; gemini-companion-setup.el --- Let a CLI connect automatically -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A CLI connects when it starts if ide.enabled is true in its settings; otherwise it connects only
;; when the user tells it to.  This file adds that setting if the user wants it, after one question
;; for each program, on this machine or on a host.  Nothing else in the user's file changes, not
;; even comments or layout.  A file that cannot be read with certainty stays as it is.
;;
;; A running CLI does not notice the change, and loses it when it saves its settings.  So
;; `gemini-companion-run' checks again each time.

;;; Code:

(require 'json)
(require 'gemini-companion-agent)
(require 'gemini-companion-answer)
(require 'gemini-companion-cli-search)
(require 'gemini-companion-file)
(require 'gemini-companion-host)
(require 'gemini-companion-host-connection)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)
(require 'gemini-companion-write)

(declare-function gemini-companion-tool-extension-offer "gemini-companion-tool-extension")

;;;; The command

;;;###autoload
(defun gemini-companion-setup ()
  "Ask whether Gemini CLI may connect by itself when it starts.
If you agree, add ide.enabled to its settings, and leave everything else in
that file alone.  Emacs asks about each program that is served and used here
but does not connect by itself yet, even if you have answered before; it also
offers what `gemini-companion-tools-enable' does.  In a buffer of a connected
host, it asks about the programs that can connect there."
  (interactive)
  (if-let* ((connection (gemini-companion-host-of-name default-directory)))
      (gemini-companion-setup--on-host connection)
    (gemini-companion-setup--here)))

(defun gemini-companion-setup--here ()
  "Let the programs that are used on this machine connect, after questions."
  (let ((default-directory (if (file-remote-p default-directory)
                               gemini-companion-agent-neutral-directory
                             default-directory))
        (outcomes nil)
        (tell #'message))
    (dolist (offer (append (mapcar (lambda (agent)
                                     (lambda () (gemini-companion-setup--offer agent)))
                                   (gemini-companion-setup--agents))
                           '(gemini-companion-tool-extension-offer)))
      (condition-case problem
          (when-let* ((text (funcall offer)))
            (push text outcomes))
        (user-error (push (gemini-companion-ui-error-text problem) outcomes)
                    (setq tell #'user-error))))
    (when outcomes
      (funcall tell "%s" (string-join (nreverse outcomes) "\n")))))

(defun gemini-companion-setup--agents ()
  "Return the programs that are served and used here and have known settings."
  (or (seq-filter (lambda (agent)
                    (and (gemini-companion-agent-settings-file agent process-environment)
                         (gemini-companion-agent-directories agent)))
                  (gemini-companion-agent-served))
      (user-error "Type /ide enable in the CLI: Emacs does not know where its settings are")))

(defun gemini-companion-setup--offer (agent)
  "Let AGENT connect automatically, after a question, unless it already does.
Return a message about the outcome."
  (let* ((file (gemini-companion-agent-settings-file agent process-environment))
         (value (gemini-companion-setup--ide-enabled file))
         (name (abbreviate-file-name file))
         (question (format "Let %s connect by itself? (%s %s) "
                           (gemini-companion-agent-get agent :title)
                           (if value "turns on ide.enabled in" "adds ide.enabled to")
                           name)))
    (cond ((eq value t) (gemini-companion-setup--describe agent file))
          ((gemini-companion-ui-y-or-n-p question) (gemini-companion-setup-do agent file))
          (t (gemini-companion-answer-set (cons 'setup agent) 'never)
             (format "Left %s alone; M-x gemini-companion-setup asks again" name)))))

(defun gemini-companion-setup-do (agent file)
  "Let AGENT, whose settings are in FILE, connect automatically; return a message.
Signal a `user-error' if FILE cannot be changed."
  (gemini-companion-setup--ide-enabled file 'enable)
  (gemini-companion-write-revert-now file)
  (gemini-companion-log-add "ide.enabled is now true in %s" file)
  (gemini-companion-answer-set (cons 'setup agent) 'always)
  (gemini-companion-setup--describe agent file))

(defun gemini-companion-setup--describe (agent file)
  "Return a message that AGENT, whose settings are in FILE, connects automatically."
  (format "%s connects by itself when it starts: ide.enabled is true in %s"
          (gemini-companion-agent-get agent :title) (abbreviate-file-name file)))

;;;; Before each run

(defun gemini-companion-setup-before-run (agent)
  "Let AGENT, about to run in `default-directory', connect automatically.
Ask, except in batch mode, if the user has not answered before, or somebody
has turned it off since.  Show a message if the settings cannot be changed."
  (let ((file (gemini-companion-agent-settings-file agent process-environment))
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
             (message "%s" (gemini-companion-setup-do agent file)))
            ((guard (not noninteractive))
             (message "%s" (gemini-companion-setup--offer agent))))
        (user-error
         (gemini-companion-log-add "%s" (gemini-companion-ui-error-text problem))
         (message "%s" (gemini-companion-ui-error-text problem)))))))

;;;; Settings on this machine

(defun gemini-companion-setup--ide-enabled (file &optional enable)
  "Return what ide.enabled is in FILE: t, `false', or nil if it is not set.
If ENABLE is non-nil, make it true in FILE, which need not exist.  Signal a
`user-error', and change nothing, if it cannot be changed."
  (condition-case problem
      (pcase-let* ((file-name-handler-alist nil)
                   (old (gemini-companion-setup--read file))
                   (`(,value . ,new) (gemini-companion-setup--change old)))
        (unless (eq value t)
          (when (and (file-exists-p file) (not (file-writable-p file)))
            (gemini-companion-setup--refuse
             "it is read-only; make it writable, or change its source"))
          (when-let* ((buffer (find-buffer-visiting file))
                      ((buffer-modified-p buffer)))
            (gemini-companion-setup--refuse
             "its buffer has unsaved edits; save or revert it first"))
          (when enable
            (gemini-companion-setup--write (file-truename file) old new)))
        value)
    (error (user-error "Left %s alone: %s" (abbreviate-file-name file)
                       (gemini-companion-ui-error-text problem)))))

(defun gemini-companion-setup--read (file)
  "Return the text in FILE, or nil if there is none."
  (when (file-attributes (file-truename file))
    (when-let* ((fault (gemini-companion-cli-search-unreadable file)))
      (gemini-companion-setup--refuse "it %s" fault))
    (gemini-companion-cli-search-text file)))

(defun gemini-companion-setup--write (file old new)
  "Replace OLD, the text in FILE, by NEW.  OLD is nil if FILE does not exist."
  (unless old
    (with-file-modes #o700
      (make-directory (file-name-directory file) t)))
  (gemini-companion-file-replace
   file (encode-coding-string new 'utf-8-unix)
   (unless old #o600)                   ; a new file is private
   (lambda ()
     ;; A CLI saves its settings, too.
     (unless (equal old (gemini-companion-setup--read file))
       (gemini-companion-setup--refuse "it has just changed; try again")))))

;;;; Hosts

;; The settings there are read and written through the connection, without Tramp.  So Emacs asks
;; before it knows what they say, and does not interrupt the user later.

(defun gemini-companion-setup--on-host (connection)
  "Let programs on the host of CONNECTION connect automatically, after questions."
  (dolist (agent (gemini-companion-agent-served))
    (when (gemini-companion-agent-get agent :stdio)
      (gemini-companion-setup-change-host
       connection agent (gemini-companion-setup-ask-host connection agent 'again) #'ignore))))

(defun gemini-companion-setup-ask-host (connection agent &optional again)
  "Ask whether AGENT on the host of CONNECTION may connect automatically.
AGAIN and the value are as in `gemini-companion-answer-ask'."
  (let ((prefix (gemini-companion-host-prefix connection)))
    (gemini-companion-answer-ask
     `(setup ,agent . ,prefix)
     (format "Turn on ide.enabled in the settings on %s, so that %s there connects by itself? "
             (gemini-companion-host-title prefix) (gemini-companion-agent-get agent :title))
     again)))

(defun gemini-companion-setup-change-host (connection agent agreed then)
  "Let AGENT on the host of CONNECTION connect automatically, then call THEN.
Change nothing without the user's consent.  AGREED is non-nil if the user
has just agreed; if not, and ide.enabled is false, somebody has turned it
off since."
  (let* ((file (gemini-companion-agent-get agent :settings))
         (question `(setup ,agent . ,(gemini-companion-host-prefix connection)))
         (done (lambda (answer outcome)
                 (let ((text (format "%s on %s: %s" (or (alist-get 'name answer) "Settings")
                                     (gemini-companion-host-connection-name connection) outcome)))
                   (gemini-companion-log-add "%s" text)
                   (gemini-companion-ui-message answer "%s" text))
                 (funcall then))))
    (if (not (and file (eq 'always (gemini-companion-answer-get question))))
        (funcall then)
      (gemini-companion-host-connection-read-file
       connection file
       (lambda (found)
         (pcase (or (alist-get 'error found)
                    (condition-case problem
                        (gemini-companion-setup--change (alist-get 'text found))
                      (error (gemini-companion-ui-error-text problem))))
           ((and (pred stringp) fault) (funcall done found fault))
           ((or `(t . ,_) (and `(false . ,_) (guard (not agreed)))) (funcall then))
           (`(,_ . ,text)
            (gemini-companion-host-connection-write-file
             connection file (alist-get 'text found) text
             (lambda (written)
               (funcall done written
                        (or (alist-get 'error written) "ide.enabled is now true")))))))))))

;;;; The text of settings

(defun gemini-companion-setup--refuse (format &rest arguments)
  "Signal an error that says, as FORMAT with ARGUMENTS, why nothing was changed."
  (signal 'error (list (apply #'format format arguments))))

(defun gemini-companion-setup--change (text)
  "Return (VALUE . NEW): ide.enabled in TEXT, and TEXT with it made true.
VALUE is t, `false', or nil if it is not set.  TEXT may be nil.  Signal an
error if TEXT cannot be read with certainty."
  (if (string-blank-p (or text ""))
      (cons nil "{\n  \"ide\": {\n    \"enabled\": true\n  }\n}\n")
    (with-temp-buffer
      (insert text)
      (unless (listp (gemini-companion-cli-search-parse-buffer))
        (gemini-companion-setup--refuse "it holds no JSON object"))
      (goto-char (point-min))
      (json-skip-whitespace)
      (pcase-let ((`(,value ,start ,end ,new) (gemini-companion-setup--find)))
        (cons value (concat (substring text 0 (1- start)) new (substring text (1- end))))))))

(defun gemini-companion-setup--find ()
  "Return how to make ide.enabled true in the object at point.
That is (VALUE START END NEW): its value; NEW replaces START to END."
  (cond ((not (gemini-companion-setup--go-to "ide"))
         (gemini-companion-setup--insertion "\"ide\": {\"enabled\": true}"))
        ((not (looking-at-p "{"))
         (gemini-companion-setup--refuse "\"ide\" in it is not an object"))
        ((not (gemini-companion-setup--go-to "enabled"))
         (gemini-companion-setup--insertion "\"enabled\": true"))
        ((looking-at "true\\|false\\|null")
         (list (if (equal (match-string 0) "true") t 'false)
               (match-beginning 0) (match-end 0) "true"))
        (t (gemini-companion-setup--refuse
            "ide.enabled is neither true nor false in it; correct that"))))

(defun gemini-companion-setup--go-to (name)
  "Go to the value of NAME in the object at point; return nil if there is none.
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
    (and found (goto-char found))))

(defun gemini-companion-setup--insertion (member)
  "Return how to add MEMBER to the object at point, as its first.
For the value see `gemini-companion-setup--find'.  Keep to the file's layout."
  (cond ((looking-at "{[ \t]*\\(\r?\n\\)\\(?:[ \t]*\r?\n\\)*\\([ \t]*\\)\"")
         (list nil (match-beginning 1) (match-beginning 1)
               (concat (match-string 1) (match-string 2) member ",")))
        ((looking-at-p "{[ \t\r\n]*}")
         (list nil (1+ (point)) (1+ (point)) member))
        ((looking-at "{[ \t\r\n]*")
         (list nil (match-end 0) (match-end 0) (concat member ", ")))))

(provide 'gemini-companion-setup)
;;; gemini-companion-setup.el ends here

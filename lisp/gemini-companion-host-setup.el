;;; gemini-companion-host-setup.el --- Let a CLI on a host connect automatically -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Does for hosts what `gemini-companion-setup' does for this machine.  It reads and writes the
;; settings there through the connection, without Tramp.  So it asks before it knows what they say,
;; and does not interrupt the user later.

;;; Code:

(require 'gemini-companion-agent)
(require 'gemini-companion-answer)
(require 'gemini-companion-host)
(require 'gemini-companion-host-connection)
(require 'gemini-companion-log)
(require 'gemini-companion-settings)
(require 'gemini-companion-ui)

;;;###autoload
(defun gemini-companion-host-setup (directory)
  "Let programs on the host of DIRECTORY connect automatically, after questions."
  (let ((connection (or (gemini-companion-host-connection-of-directory directory)
                        (user-error "%s is not connected"
                                    (gemini-companion-host-title (file-remote-p directory))))))
    (dolist (agent (gemini-companion-agent-served))
      (when (gemini-companion-agent-get agent :stdio)
        (gemini-companion-host-setup-apply
         connection agent (gemini-companion-host-setup-ask agent directory 'again) #'ignore)))))

(defun gemini-companion-host-setup-ask (agent directory &optional again)
  "Ask whether AGENT on the host of DIRECTORY may connect automatically.
AGAIN and the value are as in `gemini-companion-answer-ask'."
  (let ((machine (file-remote-p directory)))
    (gemini-companion-answer-ask
     (gemini-companion-host-setup--question agent machine)
     (format "Turn on ide.enabled in the settings on %s, so that %s there connects by itself? "
             (gemini-companion-host-title machine) (gemini-companion-agent-get agent :title))
     again)))

(defun gemini-companion-host-setup--question (agent machine)
  "Return the question about AGENT on MACHINE, a prefix of remote names."
  (cons 'setup (cons agent machine)))

(defun gemini-companion-host-setup-apply (connection agent agreed then)
  "Let AGENT on the host of CONNECTION connect automatically, then call THEN.
Change nothing without the user's consent.  AGREED is non-nil if the user
has just agreed; if not, and ide.enabled is false, somebody has turned it
off since."
  (let ((file (gemini-companion-agent-get agent :settings))
        (answer (gemini-companion-answer-get
                 (gemini-companion-host-setup--question
                  agent (gemini-companion-host-connection-prefix connection)))))
    (if (not (and file (eq answer 'always)))
        (funcall then)
      (gemini-companion-host-connection-read-file
       connection file
       (lambda (found)
         (pcase (gemini-companion-host-setup--change found)
           ((or `(t . ,_) (and `(false . ,_) (guard (not agreed)))) (funcall then))
           (`(,_ . ,text)
            (gemini-companion-host-connection-write-file
             connection file (alist-get 'text found) text
             (lambda (written)
               (gemini-companion-host-setup--report
                connection (or (alist-get 'error written) "ide.enabled is now true")
                written)
               (funcall then))))
           (fault
            (gemini-companion-host-setup--report connection fault found)
            (funcall then))))))))

(defun gemini-companion-host-setup--change (found)
  "Return how to change the settings in FOUND, an answer from a host.
The value is as that of `gemini-companion-settings-change', with text in
place of bytes, or a message that says why they cannot be changed."
  (let-alist found
    (or .error
        (condition-case problem
            (pcase-let ((`(,value . ,bytes)
                         (gemini-companion-settings-change
                          (and .text (encode-coding-string .text 'utf-8-unix t)))))
              (cons value (decode-coding-string bytes 'utf-8-unix t)))
          (error (gemini-companion-ui-error-text problem))))))

(defun gemini-companion-host-setup--report (connection outcome answer)
  "Show the OUTCOME for the file in ANSWER, from the host of CONNECTION."
  (let ((text (format "%s on %s: %s" (or (alist-get 'name answer) "Settings")
                      (gemini-companion-host-connection-name connection) outcome)))
    (gemini-companion-log-add "%s" text)
    (gemini-companion-ui-message answer "%s" text)))

(provide 'gemini-companion-host-setup)
;;; gemini-companion-host-setup.el ends here

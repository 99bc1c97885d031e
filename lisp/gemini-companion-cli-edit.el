;;; gemini-companion-cli-edit.el --- This Emacs as the editor of a CLI -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A CLI runs $VISUAL to let the user edit the prompt, or a plan.  In the terminals of this package,
;; that is the program editor.mjs of the module, which asks this Emacs by a socket to edit a text,
;; and ends once that is done.  The user need not start Emacs's own server.  The program and the
;; socket are in a directory that only the user can read; on a host, the keeper has them.

;;; Code:

(require 'json)
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-cli-compose)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-cli-screen)
(require 'gemini-companion-cli-send)
(require 'gemini-companion-file)
(require 'gemini-companion-heavy)
(require 'gemini-companion-host-connection)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)

;;;###autoload (custom-add-load 'gemini-companion-terminal 'gemini-companion-cli-edit)
(defcustom gemini-companion-edit-in-emacs t
  "Non-nil means that this Emacs is the editor of a CLI that runs in it.
Gemini CLI edits the prompt or a plan in an editor when you type Ctrl+G in it.
If this is nil, it uses the editor that the environment variable VISUAL or
EDITOR names.  If you have chosen an editor with its command /editor, it uses
that one in any case.  Takes effect for CLIs that you start afterwards."
  :type 'boolean
  :group 'gemini-companion-terminal)

(defvar gemini-companion-cli-edit--server nil
  "The process that listens to the editor of CLIs here, or nil.")

;;;###autoload
(defun gemini-companion-cli-edit-environment (agent &optional connection)
  "Return what to add to the environment of AGENT, so that it edits here.
If CONNECTION is non-nil, AGENT is to run on its host."
  (when-let* ((gemini-companion-edit-in-emacs)
              (editor (car (gemini-companion-agent-get agent :editor)))
              (program (if connection (gemini-companion-host-connection-editor connection)
                         (gemini-companion-cli-edit--start)))
              ;; The CLI would take it for several words.
              ((not (string-match-p "[ \t\n]" program))))
    (list (concat "VISUAL=" (string-replace "PROGRAM" program editor)))))
;;;###autoload (add-hook 'gemini-companion-cli-run-environment-functions #'gemini-companion-cli-edit-environment)

;;;; This machine

(defun gemini-companion-cli-edit--start ()
  "Listen to the editor of CLIs, and return the file name of its program, or nil."
  (when (featurep 'make-network-process '(:family local))
    (unless (and (process-live-p gemini-companion-cli-edit--server)
                 ;; Old files in temporary directories may be deleted.
                 (file-exists-p (process-get gemini-companion-cli-edit--server 'program)))
      (gemini-companion-cli-edit-stop)
      (let ((directory nil))
        ;; TMPDIR may be gone, or be too long for the name of a socket: CLIs run all the same.
        (unless (gemini-companion-log-errors "This Emacs cannot be the editor of CLIs"
                  (setq directory (make-temp-file "gemini-companion-edit-" t))
                  (gemini-companion-cli-edit--listen (expand-file-name "edit.mjs" directory)
                                                     (expand-file-name "socket" directory)))
          (when directory (delete-directory directory t)))))
    (and gemini-companion-cli-edit--server
         (process-get gemini-companion-cli-edit--server 'program))))

(defun gemini-companion-cli-edit--listen (program socket)
  "Write PROGRAM, an absolute file name, and listen to it at SOCKET."
  (gemini-companion-file-replace
   program
   (string-replace "'@SOCKET@'" (json-encode socket) (gemini-companion-bridge-host-program 'editor))
   #o700)
  (setq gemini-companion-cli-edit--server
        (make-network-process :name "gemini edit" :family 'local :server t
                              :service socket :noquery t :coding 'utf-8-unix
                              :filter #'gemini-companion-cli-edit--note-order
                              :sentinel #'ignore
                              :plist (list 'program program))))

(defun gemini-companion-cli-edit-stop ()
  "Stop listening to CLIs that want a text edited."
  (when-let* ((server gemini-companion-cli-edit--server))
    (setq gemini-companion-cli-edit--server nil)
    (delete-process server)
    (ignore-error file-missing
      (delete-directory (file-name-directory (process-get server 'program)) t))))

(defun gemini-companion-cli-edit--stop-with-mode ()
  "Stop listening, unless a CLI runs in a terminal: it may know no other editor."
  (unless (gemini-companion-cli-run-terminals)
    (gemini-companion-cli-edit-stop)))

(add-hook 'gemini-companion-mode-off-hook #'gemini-companion-cli-edit--stop-with-mode)
(add-hook 'kill-emacs-hook #'gemini-companion-cli-edit-stop)

(defun gemini-companion-cli-edit--note-order (client text)
  "Let the user edit what CLIENT asks for, once TEXT ends its line."
  (gemini-companion-log-errors "a text to edit"
    (let ((text (concat (process-get client 'text) text)))
      (process-put client 'text text)
      (when (string-suffix-p "\n" text)
        (gemini-companion-cli-edit--open
         (gemini-companion-ui-read-json text)
         ""
         (lambda () (process-live-p client))
         (lambda (edited)
           (process-send-string client (concat (json-encode edited) "\n"))
           (delete-process client)))))))

;;;; Hosts

(defvar gemini-companion-cli-edit--far nil
  "The texts that hosts want edited, an alist of keys and buffers.
A key is a list of connection, keeper and number.")

(defun gemini-companion-cli-edit--far-live-p (entry)
  "Return non-nil if ENTRY is in the list, and its keeper can still be told."
  (pcase-let ((`((,connection ,keeper ,_) . ,_) entry))
    (and (memq entry gemini-companion-cli-edit--far)
         (eq (gemini-companion-host-connection-state connection) 'ready)
         (equal (gemini-companion-host-connection-keeper connection) keeper))))

(defun gemini-companion-cli-edit--forget-far (entry)
  "Forget ENTRY, and kill its buffer unless the user has changed the text."
  (setq gemini-companion-cli-edit--far (delq entry gemini-companion-cli-edit--far))
  ;; Otherwise a hostile host could fill Emacs with them.
  (when (and (buffer-live-p (cdr entry)) (not (buffer-modified-p (cdr entry))))
    (gemini-companion-ui-kill-buffer (cdr entry))))

;;;###autoload
(defun gemini-companion-cli-edit-note-far (connection message)
  "Handle MESSAGE, an alist from the keeper of CONNECTION, about a text to edit."
  (let* ((id (alist-get 'id message))
         (key (list connection (gemini-companion-host-connection-keeper connection) id))
         (old (assoc key gemini-companion-cli-edit--far))
         (send (lambda (text)
                 (gemini-companion-host-connection-send
                  connection `((do . edited) (id . ,id) (text . ,text))))))
    (mapc #'gemini-companion-cli-edit--forget-far
          (seq-remove #'gemini-companion-cli-edit--far-live-p gemini-companion-cli-edit--far))
    (cond ((equal (alist-get 'say message) "unedited")
           (gemini-companion-cli-edit--forget-far old))
          ((or old (length> gemini-companion-cli-edit--far 7)) (funcall send nil))
          (t
           (let ((entry (list key)))
             (push entry gemini-companion-cli-edit--far)
             (setcdr entry
                     (gemini-companion-cli-edit--open
                      message
                      (gemini-companion-host-prefix connection)
                      (lambda () (gemini-companion-cli-edit--far-live-p entry))
                      (lambda (edited)
                        (when (length> edited 200000)
                          (user-error "This is too long for the connection, but you can copy it"))
                        (setq gemini-companion-cli-edit--far
                              (delq entry gemini-companion-cli-edit--far))
                        (funcall send edited)))))))))
;;;###autoload (add-hook 'gemini-companion-host-connection-edit-functions #'gemini-companion-cli-edit-note-far)

;;;; Editing

(defun gemini-companion-cli-edit--open (order prefix live-p answer)
  "Let the user edit the text in ORDER, an alist; show it soon, not now.
If ORDER is about a failure to write such a text, say that instead.
PREFIX is that of the CLI's host, or empty.  LIVE-P returns non-nil while the
CLI waits.  Call ANSWER with the text, or with nil if it stays as it is.
Return the buffer if the user can edit there."
  (let-alist order
    (cond
     ((stringp .failure)
      (gemini-companion-ui-message
       'edit "A CLI could not take the text that you edited: %s; %s brings it back"
       (gemini-companion-ui-one-line .failure)
       (substitute-command-keys "\\<gemini-companion-compose-mode-map>\
\\[gemini-companion-compose] \\[gemini-companion-compose-previous]")))
     ((not (and (stringp .name) (stringp .text))) (funcall answer nil))
     (t
      (let ((buffer (generate-new-buffer
                     (format "*edit %s*" (truncate-string-to-width
                                          (gemini-companion-ui-one-line .name) 60 nil nil t))))
            (terminal (gemini-companion-cli-run-terminal-named .terminal prefix)))
        (with-current-buffer buffer
          (gemini-companion-cli-edit--set-up .text terminal live-p answer))
        (run-at-time 0 nil #'gemini-companion-cli-edit--show buffer terminal)
        buffer)))))

(defun gemini-companion-cli-edit--show (buffer terminal)
  "Show BUFFER, of a CLI in TERMINAL, and select it if the user is in TERMINAL."
  (gemini-companion-log-errors "a text to edit"
    (cond ((not (buffer-live-p buffer)))
          ;; The user has pressed a key there.
          ((and terminal (eq terminal (window-buffer)))
           (gemini-companion-cli-compose-show buffer))
          (t
           (gemini-companion-ui-message buffer "A CLI wants you to edit %s" (buffer-name buffer))
           (gemini-companion-log-when-free
            "a text to edit"
            (lambda () (when (buffer-live-p buffer) (display-buffer buffer))))))))

(defun gemini-companion-cli-edit--set-up (text terminal live-p answer)
  "Let the user edit TEXT here, for a CLI in TERMINAL or nil; obey nothing in it.
For LIVE-P and ANSWER see `gemini-companion-cli-edit--open'."
  ;; A function in `text-mode-hook' may fail.
  (gemini-companion-log-errors "a text to edit" (gemini-companion-compose-mode))
  (insert text)
  (gemini-companion-heavy-show-hidden)
  (set-buffer-modified-p nil)
  (setq buffer-undo-list nil
        gemini-companion-cli-compose-finish-function
        (lambda (text)
          (unless (funcall live-p)
            (user-error "The CLI no longer waits for this text, but you can copy it"))
          (funcall answer text)))
  (when terminal
    (setq default-directory (gemini-companion-cli-send-directory terminal)
          gemini-companion-cli-compose-terminal terminal)
    (let ((buffer (current-buffer)))
      (setf (buffer-local-value 'gemini-companion-cli-send-editor-function terminal)
            (lambda () (and (funcall live-p) (buffer-name buffer))))))
  (add-hook 'kill-buffer-hook (lambda () (gemini-companion-cli-edit--end terminal live-p answer))
            nil t))

(defun gemini-companion-cli-edit--end (terminal live-p answer)
  "Call ANSWER with nil if LIVE-P says that the CLI waits; then wake TERMINAL."
  (gemini-companion-log-errors "a text to edit"
    (when (funcall live-p) (funcall answer nil)))
  (dolist (seconds '(0.5 2))
    (run-at-time seconds nil #'gemini-companion-cli-edit--wake terminal)))

(defun gemini-companion-cli-edit--wake (terminal)
  "Have the CLI in TERMINAL draw its screen if that is empty.
Gemini CLI 0.61.0 clears it after an editor, and if that has changed nothing,
draws it only after the next key.  It takes reports of the focus for one."
  (gemini-companion-log-errors "an empty screen"
    (when (process-live-p (get-buffer-process terminal))
      (with-current-buffer terminal
        (unless (or (gemini-companion-cli-screen-prompt) (gemini-companion-cli-screen-question-p))
          (gemini-companion-cli-send-key "\e[O" terminal)
          (run-at-time 0.2 nil #'gemini-companion-cli-send-key "\e[I" terminal))))))

(provide 'gemini-companion-cli-edit)
;;; gemini-companion-cli-edit.el ends here

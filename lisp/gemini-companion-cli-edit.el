;;; gemini-companion-cli-edit.el --- This Emacs as the editor of a CLI -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A CLI runs $VISUAL to let the user edit the prompt, or a plan.  In the terminals of this package,
;; that is a program that asks this Emacs by a socket to edit the file, and ends once that is done.
;; The user need not start Emacs's own server for that.  Both are in a directory that only the user
;; can read.

;;; Code:

(require 'seq)
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-cli-compose)
(require 'gemini-companion-cli-run)
(require 'gemini-companion-cli-screen)
(require 'gemini-companion-cli-send)
(require 'gemini-companion-file)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)

;;;###autoload (custom-add-load 'gemini-companion-terminal 'gemini-companion-cli-edit)
(defcustom gemini-companion-edit-in-emacs t
  "Non-nil means that this Emacs is the editor of a CLI that runs in it.
Gemini CLI edits the prompt or a plan in an editor when you type \\`C-g' in
it.  If this is nil, or if you have chosen another editor with its command
/editor, that is the one of the variables VISUAL and EDITOR, or your choice.
Takes effect for CLIs that are started afterwards."
  :type 'boolean
  :group 'gemini-companion-terminal
  :package-version '(gemini-companion . "0.1.0"))

(defconst gemini-companion-cli-edit--program
  "#!/usr/bin/env node
// Has Emacs edit the file that is the last argument, and ends when the user is done.
const { spawnSync } = require('node:child_process');
const { createConnection } = require('node:net');
const path = require('node:path');

const terminal = spawnSync('tty', { stdio: ['inherit', 'pipe', 'ignore'] }).stdout;
process.exitCode = 1;
createConnection(path.join(__dirname, 'socket'), function () {
  this.write(`${String(terminal).trim()}\\n${path.resolve(process.argv.at(-1))}\\n`);
}).on('data', () => { process.exitCode = 0; })
  .on('error', () => console.error('This Emacs is gone, or edits no longer'));
"
  "The program that a CLI takes for an editor.
It needs only Node, as CLIs do themselves.")

(defvar gemini-companion-cli-edit--server nil
  "The process that listens to `gemini-companion-cli-edit--program', or nil.")

;;;; The program and the socket

;;;###autoload
(defun gemini-companion-cli-edit-environment (agent)
  "Return what to add to the environment of AGENT, so that it edits here."
  (when-let* (((and gemini-companion-edit-in-emacs
                    (featurep 'make-network-process '(:family local))))
              (editor (car (gemini-companion-agent-get agent :editor)))
              (program (gemini-companion-cli-edit--start))
              ;; It would be several words.
              ((not (string-search " " program))))
    (list (concat "VISUAL=" (string-replace "PROGRAM" program editor)))))
;;;###autoload (add-hook 'gemini-companion-cli-run-environment-functions #'gemini-companion-cli-edit-environment)

(defun gemini-companion-cli-edit--start ()
  "Return the file name of the program, and listen to it."
  (unless (process-live-p gemini-companion-cli-edit--server)
    (let* ((directory (make-temp-file "gemini-companion-edit-" t))
           (program (expand-file-name "edit.cjs" directory)))
      (gemini-companion-file-replace program gemini-companion-cli-edit--program #o700)
      (setq gemini-companion-cli-edit--server
            (make-network-process :name "gemini edit" :family 'local :server t :noquery t
                                  :service (expand-file-name "socket" directory)
                                  :coding 'utf-8-unix
                                  :filter #'gemini-companion-cli-edit--note-request
                                  :sentinel #'ignore
                                  :plist (list 'program program)))
      (add-hook 'kill-emacs-hook #'gemini-companion-cli-edit-stop)))
  (process-get gemini-companion-cli-edit--server 'program))

(defun gemini-companion-cli-edit-stop ()
  "Listen no longer to CLIs that want something edited."
  (when-let* ((server gemini-companion-cli-edit--server))
    (setq gemini-companion-cli-edit--server nil)
    (delete-process server)
    (remove-hook 'kill-emacs-hook #'gemini-companion-cli-edit-stop)
    (delete-directory (file-name-directory (process-get server 'program)) t)))

(add-hook 'gemini-companion-mode-off-hook #'gemini-companion-cli-edit-stop)

(defun gemini-companion-cli-edit--note-request (client text)
  "Note that CLIENT, the program, has sent TEXT: its terminal, and the file."
  (gemini-companion-log-errors "A file to edit"
    (let ((text (concat (process-get client 'text) text)))
      (process-put client 'text text)
      (when (string-match "\\`\\([^\n]*\\)\n\\([^\n]+\\)\n\\'" text)
        (run-at-time 0 nil #'gemini-companion-cli-edit--open
                     client (match-string 1 text) (match-string 2 text))))))

;;;; Editing

(defvar-local gemini-companion-cli-edit--client nil
  "The process that waits until the text in this buffer is edited.")

(defun gemini-companion-cli-edit--open (client tty file)
  "Let the user edit FILE, for which CLIENT waits in the terminal TTY."
  (gemini-companion-log-errors "A file to edit"
    (let ((terminal (gemini-companion-cli-edit--find-terminal tty))
          (buffer (gemini-companion-cli-edit--buffer client file)))
      (cond ((not buffer) (delete-process client))
            ;; The user has pressed a key there.
            ((and terminal (eq terminal (window-buffer)))
             (with-current-buffer buffer
               (setq default-directory (gemini-companion-cli-send-directory terminal)
                     gemini-companion-cli-compose-terminal terminal))
             (gemini-companion-cli-compose-show buffer))
            (t
             (gemini-companion-ui-message client "A CLI wants you to edit %s"
                                          (buffer-name buffer))
             (gemini-companion-ui-when-free (lambda () (display-buffer buffer))))))))

(defun gemini-companion-cli-edit--find-terminal (tty)
  "Return the buffer whose process has the terminal TTY, or nil."
  (seq-some (lambda (process)
              (and (equal tty (process-tty-name process)) (process-buffer process)))
            (process-list)))

(defun gemini-companion-cli-edit--buffer (client file)
  "Return a new buffer with the text of FILE for CLIENT, or nil if it has none.
It does not visit FILE: nothing in that is obeyed."
  (when-let* ((bytes (gemini-companion-file-read file)))
    (with-current-buffer (generate-new-buffer (format "*edit %s*" (file-name-nondirectory file)))
      (gemini-companion-compose-mode)
      (insert (decode-coding-string bytes 'utf-8-unix t))
      (setq buffer-undo-list nil
            gemini-companion-cli-edit--client client
            gemini-companion-cli-compose-finish-function
            (lambda (text)
              (unless (process-live-p client)
                (user-error "The CLI no longer waits for this text, but you can copy it"))
              (gemini-companion-file-write file (gemini-companion-file-encode text bytes))))
      (add-hook 'kill-buffer-hook #'gemini-companion-cli-edit--release nil t)
      (current-buffer))))

(defun gemini-companion-cli-edit--release ()
  "Let the program that waits for the current buffer end.
The CLI reads the file then, whether or not it was written."
  (when (process-live-p gemini-companion-cli-edit--client)
    (process-send-string gemini-companion-cli-edit--client "done\n")
    (delete-process gemini-companion-cli-edit--client)
    (dolist (seconds '(0.5 2))
      (run-at-time seconds nil #'gemini-companion-cli-edit--wake
                   gemini-companion-cli-compose-terminal))))

(defun gemini-companion-cli-edit--wake (terminal)
  "Have the CLI in TERMINAL draw its screen if that is empty.
Gemini CLI 0.61.0 clears it after an editor, and if that has changed nothing,
draws it only after the next key.  It takes reports of the focus for one."
  (when (process-live-p (get-buffer-process terminal))
    (with-current-buffer terminal
      (unless (or (gemini-companion-cli-screen-prompt) (gemini-companion-cli-screen-question-p))
        (gemini-companion-cli-send-key "\e[O" terminal)
        (run-at-time 0.2 nil #'gemini-companion-cli-send-key "\e[I" terminal)))))

(provide 'gemini-companion-cli-edit)
;;; gemini-companion-cli-edit.el ends here

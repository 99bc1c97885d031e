;;; gemini-companion-ui.el --- Manners towards the user -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What all other files share: texts for the user, when a message or a window may appear without
;; disturbing what the user does, keys of major modes where Evil is used, and buffers that report
;; something.

;;; Code:

(require 'button)
(require 'subr-x)

(declare-function evil-emacs-state "ext:evil-states" t t)
(declare-function evil-initial-state "ext:evil-core")
(declare-function evil-initial-state-for-buffer "ext:evil-core")
(defvar evil-emacs-state-modes)
(defvar evil-insert-state-modes)
(defvar evil-state)

;;;; Texts

(defun gemini-companion-ui-one-line (text)
  "Return TEXT with control characters made visible: some are a client's."
  (replace-regexp-in-string "[[:cntrl:]]" (lambda (it) (text-char-description (aref it 0)))
                            text t t))

(defun gemini-companion-ui-error-text (error)
  "Return the words of ERROR, as caught by `condition-case'.
Without the quotes that `error-message-string' has for those of ours."
  (let ((words (delq nil (mapcar (lambda (part) (and (stringp part) part)) (cdr error)))))
    (if words
        (mapconcat #'identity words ": ")
      (error-message-string error))))

(defun gemini-companion-ui-duration (seconds)
  "Return SECONDS in words."
  (let ((seconds (max 0 (floor seconds))))
    (cond ((< seconds 60) (format "%d s" seconds))
          ((< seconds 3600) (format "%d min" (/ seconds 60)))
          ((< seconds 86400) (format "%d h" (/ seconds 3600)))
          (t (format "%d d" (/ seconds 86400))))))

;;;; What the user is doing

(defconst gemini-companion-ui--idle-time 0.5
  "Seconds for which the user must have pressed no key.")

(defun gemini-companion-ui-no-key-expected-p ()
  "Return non-nil if nothing waits for the user's next key.
That could be a prompt, the rest of a key sequence, or a search."
  (and (zerop (recursion-depth))
       (null this-command)
       (zerop (length (this-command-keys-vector)))
       (null prefix-arg)
       (not (active-minibuffer-window))
       (not (bound-and-true-p isearch-mode))
       (not defining-kbd-macro)
       (not executing-kbd-macro)
       (not (input-pending-p))
       (not throw-on-input)
       ;; The map of Repeat mode is there until another key is pressed, which may be in an hour.
       (or (null overriding-terminal-local-map)
           (bound-and-true-p repeat-in-progress))
       (not (bound-and-true-p transient--prefix))))

(defun gemini-companion-ui-idle-p (seconds)
  "Return non-nil if the user has pressed no key for SECONDS."
  (let ((idle (current-idle-time)))
    (or (null idle) (> (float-time idle) seconds))))

(defun gemini-companion-ui-windows-may-change-p ()
  "Return non-nil if windows may appear: the user is in the middle of nothing."
  (and (gemini-companion-ui-no-key-expected-p)
       (gemini-companion-ui-user-frame-p)
       (gemini-companion-ui-idle-p gemini-companion-ui--idle-time)))

(defun gemini-companion-ui-user-frame-p ()
  "Return non-nil if the selected frame is one that a user sees.
A daemon has a frame that nobody sees."
  (not (equal (terminal-name (frame-terminal)) "initial_terminal")))

;;;; Messages

(defconst gemini-companion-ui--interval 0.2
  "Seconds between tries to show the messages that wait.")

(defvar gemini-companion-ui--messages nil
  "Messages that wait until they can be shown, the newest first.
An alist of what each is about and its text.")

(defvar gemini-companion-ui--timer nil
  "The timer that tries to show the messages that wait, or nil.")

(defun gemini-companion-ui-message (about format &rest arguments)
  "Show a message as soon as it takes no prompt's place.
It is FORMAT with ARGUMENTS, as in `format-message'.  Of several messages
ABOUT one thing, an object, only the last is shown."
  (setf (alist-get about gemini-companion-ui--messages nil t)
        (apply #'format-message format arguments))
  (gemini-companion-ui--show-messages)
  (when (and gemini-companion-ui--messages (not gemini-companion-ui--timer))
    (setq gemini-companion-ui--timer
          (run-at-time gemini-companion-ui--interval gemini-companion-ui--interval
                       #'gemini-companion-ui--show-messages))))

(defun gemini-companion-ui--show-messages ()
  "Show the messages that wait, if the echo area is free."
  (when (and gemini-companion-ui--messages (gemini-companion-ui-no-key-expected-p))
    (let ((texts (mapcar #'cdr (nreverse gemini-companion-ui--messages))))
      (setq gemini-companion-ui--messages nil)
      (message "%s" (string-join texts "; "))))
  (when (and gemini-companion-ui--timer (not gemini-companion-ui--messages))
    (cancel-timer gemini-companion-ui--timer)
    (setq gemini-companion-ui--timer nil)))

;;;; Keys where Evil is used

(defun gemini-companion-ui-keep-keys (mode)
  "Let Evil begin in its Emacs state in buffers of MODE, whose keys work there.
MODE is the symbol of a major mode.  To be called before Evil looks at
the buffer, which is when the mode's hooks run.  A user who prefers
other keys can define them for that state, or set another state in the
hook of MODE."
  (when (boundp 'evil-emacs-state-modes)
    (add-to-list 'evil-emacs-state-modes mode)))

(defun gemini-companion-ui-start-in-insert-state (mode)
  "Let Evil begin in its insert state in buffers of MODE, the symbol of a mode.
Unless it was told in which one.  For the rest see
`gemini-companion-ui-keep-keys'."
  (when (and (boundp 'evil-insert-state-modes)
             (not (evil-initial-state mode)))
    (add-to-list 'evil-insert-state-modes mode)))

(add-hook 'gemini-companion-compose-mode-hook #'gemini-companion-ui--begin-to-compose)

(defun gemini-companion-ui--begin-to-compose ()
  "Let Evil begin in its insert state where a prompt is composed."
  (gemini-companion-ui-start-in-insert-state 'gemini-companion-compose-mode))

(defun gemini-companion-ui-pass-keys ()
  "Let Evil pass all keys to the program in the current buffer, a terminal.
Unless it was told in which state it begins there: by the user, by Evil
Collection, or by itself, as for Term."
  (when (and (eq (bound-and-true-p evil-state) 'normal)
             (not (evil-initial-state-for-buffer)))
    (evil-emacs-state)))

;;;; Keys in header lines

(defvar gemini-companion-ui--maps nil
  "Commands, and the keymaps that let a click on their keys call them.")

(defun gemini-companion-ui-header-key (command label)
  "Return the key of COMMAND and LABEL, on which one can click."
  (propertize (concat (substitute-command-keys (format "\\[%s]" command)) " " label)
              'mouse-face 'header-line-highlight
              'help-echo (format "mouse-1: %s" label)
              'keymap (gemini-companion-ui--map command)))

(defun gemini-companion-ui--map (command)
  "Return a keymap in which a click on a header line calls COMMAND."
  (or (alist-get command gemini-companion-ui--maps)
      (let ((map (make-sparse-keymap))
            (press (lambda (event)
                     (interactive "e")
                     (select-window (posn-window (event-start event)))
                     (call-interactively command))))
        (define-key map [header-line mouse-1] press)
        ;; Tabulated List mode takes the first for this one where there is a `mouse-face'.
        (define-key map [header-line mouse-2] press)
        (setf (alist-get command gemini-companion-ui--maps) map))))

;;;; Reports

(defface gemini-companion-heading
  '((t :inherit bold))
  "Face for headings in reports and lists."
  :group 'gemini-companion)

(define-derived-mode gemini-companion-report-mode special-mode "Gemini-Report"
  "Parent of the major modes of reports.
\\{gemini-companion-report-mode-map}"
  :interactive nil
  (buffer-disable-undo))

(set-keymap-parent gemini-companion-report-mode-map
                   (make-composed-keymap button-buffer-map special-mode-map))

(defun gemini-companion-ui-print (insert)
  "Print the current buffer anew by calling INSERT.
Point stays on its line, in each window."
  (let* ((inhibit-read-only t)
         (places (mapcar (lambda (window)
                           (cons window (gemini-companion-ui--line-and-column
                                         (window-point window))))
                         (get-buffer-window-list nil nil t)))
         (place (gemini-companion-ui--line-and-column (point))))
    (erase-buffer)
    (funcall insert)
    (set-buffer-modified-p nil)
    (pcase-dolist (`(,window . ,place) places)
      (set-window-point window (gemini-companion-ui--position place)))
    (goto-char (gemini-companion-ui--position place))))

(defun gemini-companion-ui--line-and-column (position)
  "Return the line and column of POSITION."
  (save-excursion
    (goto-char position)
    (cons (line-number-at-pos) (current-column))))

(defun gemini-companion-ui--position (place)
  "Return the position that PLACE, a line and column, is now."
  (save-excursion
    (goto-char (point-min))
    (forward-line (1- (car place)))
    (move-to-column (cdr place))
    (point)))

(defun gemini-companion-ui-line (format &rest arguments)
  "Insert a line: FORMAT with ARGUMENTS, some of which are a client's."
  (insert "  " (gemini-companion-ui-one-line (apply #'format format arguments)) "\n"))

(defun gemini-companion-ui-button (label function)
  "Insert a button with LABEL that calls FUNCTION."
  (insert-text-button (format "[%s]" label)
                      'follow-link t
                      'action (lambda (_) (funcall function))))

(provide 'gemini-companion-ui)
;;; gemini-companion-ui.el ends here

;;; gemini-companion-cli-link.el --- Files that a CLI mentions -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; In the terminals of this package, a click on a file that the CLI mentions, such as src/a.c:12,
;; visits it; a command does so, too.  Since others wrote that text, Emacs looks only for files of
;; the project while it displays it: to look elsewhere could make Emacs wait.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-cli-run)
(require 'gemini-companion-cli-send)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)

;;;; What is mentioned

(defun gemini-companion-cli-link--next (end)
  "Return the next mention of a file before END, or nil; move point after it.
It is (START END FILE LINE COLUMN); LINE and COLUMN may be nil."
  (cl-loop
   do (skip-chars-forward "^/." end)
   while (< (point) end)
   do (pcase-let* ((`(,start . ,stop) (gemini-companion-cli-link--word end))
                   (name (gemini-companion-ui-text start stop))
                   (`(,line ,column ,behind) (gemini-companion-cli-link--numbers stop))
                   (file (and (< 1 (length name) 500)
                              (gemini-companion-cli-link--resolve name line))))
        (when file
          (goto-char (max (point) (or behind stop)))
          (cl-return (list start (or behind stop) file line column))))))

(defun gemini-companion-cli-link--word (end)
  "Return where the word at point, perhaps a file name, begins and ends.
Move point after it and any punctuation, but not beyond END."
  ;; A regexp would be slow for a long word.
  (let* ((characters "[:alnum:]_.~/@$+-")
         (start (save-excursion
                  (while (progn (skip-chars-backward characters)
                                ;; Eat hides spaces beside wide characters.
                                (and (eq (char-before) ?\s) (invisible-p (1- (point)))))
                    (backward-char))
                  ;; A directory may be called [id] or (group).
                  (when (and (eq (char-after) ?/) (memq (char-before) '(?\] ?\))))
                    (skip-chars-backward (concat "][()" characters) (- (point) 500)))
                  (skip-chars-forward "@([")
                  (point))))
    (while (progn (skip-chars-forward characters end)
                  (and (< (point) end) (eq (char-after) ?\s) (invisible-p (point))))
      (forward-char))
    (cons start (save-excursion
                  (skip-chars-backward "^[:alnum:]_" start)
                  (point)))))

(defun gemini-companion-cli-link--numbers (position)
  "Return the line and the column that follow a file name which ends at POSITION.
The value is (LINE COLUMN END), or nil if there are none; COLUMN may be nil."
  (save-excursion
    (goto-char position)
    (when (looking-at (rx (or ":" "(" (seq (? "\"") ", line ")) (group (+ digit))
                          (? (any ":,") (group (+ digit)))))
      (list (string-to-number (match-string 1))
            (and (match-beginning 2) (string-to-number (match-string 2)))
            (match-end 0)))))

(defun gemini-companion-cli-link--resolve (name line)
  "Return the file that NAME means in the current terminal, or nil.
If NAME is not in a project here, it means a file only if LINE is non-nil."
  (let* ((root gemini-companion-cli-run-root)
         (prefix (or (gemini-companion-host-remote-p root) ""))
         (file-name-handler-alist nil)
         (local (substring root (length prefix)))
         ;; Only the host knows the homes there.  Here, to look for a user "2.5" could take long.
         (file (if (string-match-p (if (string-empty-p prefix) "\\`~[^/]" "\\`~") name) name
                 (expand-file-name name local))))
    (and (if (and (string-empty-p prefix) (string-prefix-p local file))
             (file-regular-p file)
           (and line (not (string-prefix-p "//" name)))) ; what follows https:
         (gemini-companion-host-name-here (concat prefix file)))))

;;;; Clicks

(define-button-type 'gemini-companion-cli-link
  'gemini-companion-cli-link t
  'face 'underline
  'follow-link t
  'help-echo "mouse-1: visit this file"
  ;; Other keys are for the CLI.
  'keymap (let ((map (make-sparse-keymap)))
            (define-key map [mouse-2] #'push-button)
            map)
  'action (lambda (button) (gemini-companion-cli-link--visit (button-get button 'mention))))

;;;###autoload
(defun gemini-companion-cli-link-watch (terminal)
  "Let clicks on files that TERMINAL mentions visit these."
  (with-current-buffer terminal
    (jit-lock-register #'gemini-companion-cli-link--mark)))
;;;###autoload (add-hook 'gemini-companion-cli-run-functions #'gemini-companion-cli-link-watch)

(defun gemini-companion-cli-link--mark (start end)
  "Mark the files that the current terminal mentions on the lines of START to END."
  (gemini-companion-log-errors "Files that a CLI mentions"
    (save-excursion
      (goto-char end)
      (let ((end (line-end-position)))
        (goto-char start)
        (forward-line 0)
        (remove-overlays (point) end 'gemini-companion-cli-link t)
        (cl-loop for mention = (gemini-companion-cli-link--next end)
                 while mention
                 do (make-button (car mention) (cadr mention)
                                 :type 'gemini-companion-cli-link 'mention mention))))))

;;;; The command

;;;###autoload
(defun gemini-companion-visit-mentioned ()
  "Visit a file that the CLI mentions in its terminal, the last one by default."
  (interactive)
  (let* ((mentions (with-current-buffer (gemini-companion-cli-send-terminal)
                     (gemini-companion-cli-link--all)))
         (names (or (mapcar #'car mentions) (user-error "The CLI mentions no file")))
         (table (gemini-companion-ui-completion-table
                 names '((display-sort-function . identity) (cycle-sort-function . identity)))))
    (gemini-companion-cli-link--visit
     (cdr (assoc (completing-read (format-prompt "Visit" (car names)) table nil t nil nil
                                  (car names))
                 mentions)))))

(defun gemini-companion-cli-link--all ()
  "Return the mentions on the last lines of this terminal, the last one first.
Each is (TEXT . MENTION)."
  (unless gemini-companion-cli-run-root
    (user-error "This terminal was not started by `gemini-companion-run'"))
  (save-excursion
    (goto-char (point-max))
    (forward-line -500)
    (let ((mentions nil))
      (cl-loop for mention = (gemini-companion-cli-link--next (point-max))
               while mention
               do (let ((text (gemini-companion-ui-text (car mention) (cadr mention))))
                    (setq mentions (cons (cons text mention) (assoc-delete-all text mentions)))))
      mentions)))

(defun gemini-companion-cli-link--visit (mention)
  "Visit the file of MENTION in a window other than the selected one."
  (pcase-let ((`(,_ ,_ ,file ,line ,column) mention))
    ;; Opening a pipe would block Emacs.
    (unless (file-regular-p file)
      (user-error "There is no file %s" file))
    (gemini-companion-ui-pop-to (find-file-noselect file))
    (when line
      (push-mark nil t)
      (let ((start (gemini-companion-ui-line-start line)))
        (unless (<= (point-min) start (point-max)) (widen))
        (goto-char start))
      (when column
        ;; Most programs count characters, of which a tab is one.
        (goto-char (min (+ (point) (max 0 (1- column))) (line-end-position)))))))

(provide 'gemini-companion-cli-link)
;;; gemini-companion-cli-link.el ends here

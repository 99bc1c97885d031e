;;; gemini-companion-test-init.el --- Init file of the Emacs under test  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Loaded by the interactive Emacs that `gemini-companion-test-emacs' starts.
;; It makes that Emacs quiet, starts its server, and defines the functions that
;; the outer Emacs calls through it.  It loads the package, but does not start
;; it.

;;; Code:

(require 'seq)
(require 'server)

;;;; Evaluating forms for the outer Emacs

(defvar gemini-companion-test-inner-done nil
  "Non-nil once this file has been loaded completely.")

(defvar gemini-companion-test-inner-task nil
  "Function that the key f9 calls, in the way of a user's command.")

(defun gemini-companion-test-inner--protect (function)
  "Call FUNCTION; return `(ok VALUE)' or `(error TEXT)'."
  (condition-case err
      (list 'ok (gemini-companion-test-inner--readable
                 (with-current-buffer (window-buffer (selected-window))
                   (funcall function))))
    ((error quit) (list 'error (error-message-string err)))))

(defun gemini-companion-test-inner--readable (value)
  "Return VALUE, or its printed representation if that cannot be read."
  (let ((text (prin1-to-string value)))
    (condition-case nil
        (progn (read text) value)
      (error text))))

(defun gemini-companion-test-inner--write (outcome file)
  "Write OUTCOME to FILE, atomically."
  (let ((temp (concat file "~"))
        (coding-system-for-write 'utf-8-emacs-unix)
        (print-length nil) (print-level nil) (print-circle t)
        (print-escape-newlines t))
    (with-temp-buffer
      (prin1 outcome (current-buffer))
      (write-region nil nil temp nil 0))
    (rename-file temp file t)))

(defun gemini-companion-test-inner-eval (file as-command)
  "Evaluate the form in FILE and write the result to FILE.out.
With AS-COMMAND non-nil the key f9 does so."
  (let* ((form (with-temp-buffer
                 (let ((coding-system-for-read 'utf-8-emacs-unix))
                   (insert-file-contents file))
                 (read (current-buffer))))
         (task (lambda ()
                 (gemini-companion-test-inner--write
                  (gemini-companion-test-inner--protect
                   (lambda () (eval form t)))
                  (concat file ".out")))))
    (if as-command
        (setq gemini-companion-test-inner-task task)
      (funcall task))
    nil))

(defun gemini-companion-test-inner-run-task ()
  "Call the function in `gemini-companion-test-inner-task'."
  (interactive)
  (let ((task gemini-companion-test-inner-task))
    (setq gemini-companion-test-inner-task nil)
    (when task (funcall task))))

(global-set-key [f9] #'gemini-companion-test-inner-run-task)

;; That key is never meant for another buffer.
(with-eval-after-load 'gemini-companion-review-popup
  (advice-add 'gemini-companion-review-popup--ignore-stray-key :before-while
              (lambda () (not (eq this-command #'gemini-companion-test-inner-run-task)))))

;; vterm passes function keys to its program.
(defvar vterm-mode-map)
(with-eval-after-load 'vterm
  (define-key vterm-mode-map [f9] #'gemini-companion-test-inner-run-task))

;;;; The review on screen

(defvar gemini-companion-review-of-buffer)
(declare-function gemini-companion-review-proposal "gemini-companion-review")
(declare-function gemini-companion-review-window-proposal "gemini-companion-review-window")

(defvar ediff-buffer-A)
(defvar ediff-buffer-B)

(defun gemini-companion-test-inner-views ()
  "Return a buffer for each review that is shown, in any view.
That is the control buffer of an Ediff session, or what takes the place
of the file."
  (seq-filter (lambda (buffer)
                (memq (buffer-local-value 'major-mode buffer)
                      '(ediff-mode gemini-companion-review-inline-mode)))
              (buffer-list)))

(defun gemini-companion-test-inner-review ()
  "Return an alist that describes the review on screen, or nil.
It has the text of the proposal, and in Ediff the texts, names and so on
of both buffers."
  (seq-some
   (lambda (view)
     (with-current-buffer view
       (and (or (get-buffer-window view t)
                (and (gemini-companion-test-inner-inline-p view)
                     (get-buffer-window (gemini-companion-review-proposal
                                         gemini-companion-review-of-buffer)
                                        t)))
            (cond ((gemini-companion-test-inner-inline-p view)
                   (gemini-companion-test-inner--diff))
                  (t (gemini-companion-test-inner--session))))))
   (gemini-companion-test-inner-views)))

(defun gemini-companion-test-inner--diff ()
  "Return an alist for the review that the current buffer shows hunk by hunk."
  `((proposal . ,(gemini-companion-test-inner--text
                  (gemini-companion-review-proposal
                   gemini-companion-review-of-buffer)))
    (diff . ,(gemini-companion-test-inner--text (current-buffer)))))

(defun gemini-companion-test-inner--session ()
  "Return an alist for the Ediff session of the current control buffer.
Return nil if the session is not visible."
  (let ((a ediff-buffer-A) (b ediff-buffer-B))
    (and (buffer-live-p a) (buffer-live-p b)
         (get-buffer-window a t) (get-buffer-window b t)
         `((current . ,(gemini-companion-test-inner--text a))
           (proposal . ,(gemini-companion-test-inner--text b))
           (current-read-only
            . ,(and (buffer-local-value 'buffer-read-only a) t))
           (proposal-read-only
            . ,(and (buffer-local-value 'buffer-read-only b) t))
           (current-name . ,(buffer-name a))
           (proposal-name . ,(buffer-name b))))))

(defun gemini-companion-test-inner--text (buffer)
  "Return the whole text of BUFFER without properties."
  (with-current-buffer buffer
    (save-restriction
      (widen)
      (buffer-substring-no-properties (point-min) (point-max)))))

(defun gemini-companion-test-inner-in-proposal-p ()
  "Return non-nil if the selected window shows a proposal."
  (seq-some (lambda (view)
              (eq (if (gemini-companion-test-inner-inline-p view) view
                    (buffer-local-value 'ediff-buffer-B view))
                  (window-buffer)))
            (gemini-companion-test-inner-views)))

(defun gemini-companion-test-inner-inline-p (buffer)
  "Return non-nil if BUFFER shows a review in the window of its file."
  (eq (buffer-local-value 'major-mode buffer) 'gemini-companion-review-inline-mode))

(defun gemini-companion-test-inner-in-panel-p ()
  "Return non-nil if the selected window is Ediff's panel or a change."
  (memq (window-buffer) (gemini-companion-test-inner-views)))

(defun gemini-companion-test-inner-layout ()
  "Return all that must be as before when a review has ended.
That is windows with their buffers and edges, point in each file, and
the names of all buffers but Emacs's own hidden ones."
  (list (mapcar (lambda (window)
                  (list (gemini-companion-test-inner-edges window)
                        (buffer-name (window-buffer window))
                        (window-point window)
                        (window-start window)
                        (eq window (selected-window))))
                (window-list nil 'nomini))
        (delq nil (mapcar (lambda (buffer)
                            (and (buffer-file-name buffer)
                                 (with-current-buffer buffer
                                   (list (buffer-name) (point)
                                         mode-line-format
                                         (length (overlays-in 1 (point-max)))))))
                          (sort (buffer-list)
                                (lambda (a b) (string< (buffer-name a)
                                                       (buffer-name b))))))
        (sort (seq-remove (lambda (name)
                            (string-match-p "\\` \\*\\(?:temp\\|server\\)"
                                            name))
                          (mapcar #'buffer-name (buffer-list)))
              #'string<)))

(defun gemini-companion-test-inner-edges (window)
  "Return the edges of WINDOW, without the bottom if that is the echo area.
A message in two lines moves that."
  (let ((edges (window-edges window)))
    (if (= (nth 3 edges)
           (nth 1 (window-edges (minibuffer-window (window-frame window)))))
        (seq-take edges 3)
      edges)))

;;;; A quiet Emacs

(setq inhibit-startup-screen t
      ;; Its overlays appear some time after a search.
      isearch-lazy-highlight nil
      initial-scratch-message nil
      ring-bell-function #'ignore
      make-backup-files nil
      auto-save-default nil
      create-lockfiles nil
      suggest-key-bindings nil
      enable-local-variables :safe
      vc-follow-symlinks t)
(menu-bar-mode -1)

;; As in many users' init files: a third of the time would be spent on collecting garbage.
(setq gc-cons-threshold (* 16 1024 1024))

(defvar gemini-companion-ui--idle-time)
(defvar gemini-companion-review-popup--held-after)
(defvar gemini-companion-review-popup--interval)
(defvar gemini-companion-diff-function)
(defvar gemini-companion-workspace--delay)

;; Most tests do not concern the settings of CLIs, and their extensions.
(defvar gemini-companion-answer--unsaved)
(setq gemini-companion-answer--unsaved
      '(((setup . gemini) . never) ((setup . qwen) . never) (tools . never)))

;; When an Emacs without windows loads this, it notes what it lacks, over the message of a test.
(require 'cus-start)

(setq server-socket-dir (getenv "GEMINI_COMPANION_TEST_DIRECTORY")
      server-name "s")
(server-start)

(let ((lisp (getenv "GEMINI_COMPANION_TEST_LISP")))
  (unless (equal lisp "")
    (add-to-list 'load-path lisp)
    (require 'gemini-companion)
    ;; Shorter than users want, since most tests only wait for them.
    (setq gemini-companion-ui--idle-time 0.1
          gemini-companion-workspace--delay 0.05
          gemini-companion-review-popup--interval 0.1
          ;; Longer: while a test waits on a busy machine, the screen must not change.
          gemini-companion-review-popup--held-after 60
          ;; Most tests are of Ediff, whatever the size of the frame.
          gemini-companion-diff-function 'gemini-companion-review-ediff-show)))

(declare-function gemini-companion-test-inner-remember "gemini-companion-test-inner-reset")
(load (expand-file-name "gemini-companion-test-inner-reset"
                        (file-name-directory load-file-name))
      nil t)
(gemini-companion-test-inner-remember)

(setq gemini-companion-test-inner-done t)

(provide 'gemini-companion-test-init)
;;; gemini-companion-test-init.el ends here

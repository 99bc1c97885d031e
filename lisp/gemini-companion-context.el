;;; gemini-companion-context.el --- What the user looks at -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Clients are told which files are open where they work, which one is active there, where point is
;; in it and what is selected.  A hook only notes that something may have changed; a timer gathers,
;; 50 ms after the last change.  While nobody wants to know, nothing at all is done: in which order
;; files were looked at before is then found out from Emacs's own list of buffers.
;;
;; A file becomes the active one when its buffer is shown in the selected window.  For a client that
;; is told of some files only, it is the one of those that was active last.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-bridge)
(require 'gemini-companion-position)
(require 'gemini-companion-private)
(require 'gemini-companion-scope)
(require 'gemini-companion-workspace)

(defcustom gemini-companion-active-file 'last
  "Which file is the active one while the selected window shows none.
If `last', the one you looked at last, as long as its buffer lives: while
you type in a terminal clients know where you come from.  If `visible',
that one only as long as a window shows it.  If nil, none."
  :type '(choice (const :tag "The last one" last)
                 (const :tag "The last one, if a window shows it" visible)
                 (const :tag "None" nil))
  :group 'gemini-companion)

(defcustom gemini-companion-share-selection t
  "Non-nil to tell clients what is selected, up to 16 384 characters."
  :type 'boolean
  :group 'gemini-companion)

(defvar gemini-companion-context-functions nil
  "Functions called without arguments whenever what clients are told may be new.
They ask `gemini-companion-context-gather' what it is.  Whoever adds or
removes one calls `gemini-companion-context-update'.")

(defconst gemini-companion-context--delay 0.05
  "Seconds of quiet before what the user looks at is published.")

(defconst gemini-companion-context--max-delays 5
  "Delays after which it is published even if there was no quiet.")

(defconst gemini-companion-context--lifetime 1.0
  "Seconds for which what is told elsewhere holds while only point moves.")

(defconst gemini-companion-context--max-files 10
  "Number of files published; the client looks at no more.")

(defconst gemini-companion-context--max-looks 50
  "Number of files of one scope looked at for those that can be published.")

(defconst gemini-companion-context--max-killed 20
  "Number of files remembered that were looked at and are not open any more.")

(defconst gemini-companion-context--max-selection 16384
  "Number of characters of a selection published; the client looks at no more.")

(defconst gemini-companion-context--hooks
  '((gemini-companion-context--note-focus
     window-selection-change-functions window-buffer-change-functions)
    (gemini-companion-context--note-file find-file-hook after-set-visited-file-name-hook)
    (gemini-companion-context--note-kill kill-buffer-hook)
    (gemini-companion-context--note-change post-command-hook)
    (gemini-companion-context--note-stir
     window-selection-change-functions window-buffer-change-functions
     find-file-hook kill-buffer-hook after-save-hook after-revert-hook
     after-set-visited-file-name-hook gemini-companion-workspace-functions))
  "Functions, and the hooks in which they are while somebody wants to know.")

;;;; State

(defvar gemini-companion-context-paused nil
  "Non-nil while clients are told that no file is open.")

(defvar gemini-companion-context--on nil
  "Non-nil while somebody wants to know what the user looks at.")

(defvar gemini-companion-context--recent nil
  "Buffers that visit a file, the one focused last first.
A string is the name of a file whose buffer was killed: while nothing else
was looked at there, no file is active.")

(defvar gemini-companion-context--active nil
  "The buffer of the active file, perhaps an indirect one or a killed one, or nil.")

(defvar-local gemini-companion-context--shown nil
  "Where the user looked at this buffer last, as (WINDOW . BUFFER), or nil.
The latter is this buffer or an indirect one of it.")
(put 'gemini-companion-context--shown 'permanent-local t) ; through a revert

(defvar-local gemini-companion-context--focused 0
  "When this buffer was focused last, in milliseconds since 1970; 0 if never.")
(put 'gemini-companion-context--focused 'permanent-local t) ; through a revert

(defvar gemini-companion-context--changes 0
  "Counts the notes of a change.")

(defvar gemini-companion-context--timer nil
  "The timer that publishes, or nil.")

(defvar gemini-companion-context--published nil
  "What was published last, as `gemini-companion-bridge-publish-contexts' has it.")

(defvar gemini-companion-context--stirred nil
  "Non-nil if more may have changed since then than where point is.")

(defvar gemini-companion-context--gathered 0
  "When all that was published was gathered last.")

;;;; On and off

(defun gemini-companion-context-follow ()
  "Publish to the clients while there are any."
  (add-hook 'gemini-companion-clients-functions #'gemini-companion-context-update)
  (gemini-companion-context-update))

(defun gemini-companion-context-unfollow ()
  "Undo `gemini-companion-context-follow'."
  (remove-hook 'gemini-companion-clients-functions #'gemini-companion-context-update)
  (gemini-companion-context--switch-off)
  (gemini-companion-scope-forget))

(defun gemini-companion-context-update (&rest _)
  "Gather from now on if somebody wants to know; and now."
  (let ((wanted (or gemini-companion-context-functions
                    (> (gemini-companion-bridge-clients) 0))))
    (cond ((not wanted) (gemini-companion-context--switch-off))
          (t (unless gemini-companion-context--on
               (gemini-companion-context--switch-on))
             ;; A new client gets what there is at once.
             (setq gemini-companion-context--published nil
                   gemini-companion-context--stirred t)
             (gemini-companion-context--publish)))))

;;;###autoload
(defun gemini-companion-toggle-context ()
  "Stop telling clients what you look at, or start again.
While it is stopped they are told that no file is open."
  (interactive)
  (setq gemini-companion-context-paused (not gemini-companion-context-paused))
  (gemini-companion-context-update)
  (force-mode-line-update t)
  (message (if gemini-companion-context-paused
               "Clients are told that no file is open"
             "Clients are told again what you look at")))

(defun gemini-companion-context--switch-on ()
  "Keep track of files and of changes."
  (setq gemini-companion-context--on t)
  (gemini-companion-context--recall)
  (gemini-companion-context--hook #'add-hook))

(defun gemini-companion-context--switch-off ()
  "Undo `gemini-companion-context--switch-on'."
  (gemini-companion-context--hook #'remove-hook)
  (when gemini-companion-context--timer
    (cancel-timer gemini-companion-context--timer)
    (setq gemini-companion-context--timer nil))
  (gemini-companion-context--activate nil)
  (setq gemini-companion-context--recent nil
        gemini-companion-context--published nil
        gemini-companion-context--on nil))

(defun gemini-companion-context--hook (change)
  "Call CHANGE, `add-hook' or `remove-hook', for all hooks."
  (pcase-dolist (`(,function . ,hooks) gemini-companion-context--hooks)
    (dolist (hook hooks)
      (funcall change hook function))))

;;;; Focus

(defun gemini-companion-context--recall ()
  "Find out in which order files were focused before we looked."
  ;; The list of buffers has the one selected last first.
  (setq gemini-companion-context--recent
        (cl-loop for buffer in (buffer-list)
                 if (gemini-companion-context--file buffer) collect buffer))
  (dolist (buffer gemini-companion-context--recent)
    (with-current-buffer buffer
      (when (and (zerop gemini-companion-context--focused) buffer-display-time)
        (setq gemini-companion-context--focused
              (gemini-companion-context--milliseconds buffer-display-time)))))
  (let ((last (car gemini-companion-context--recent)))
    ;; What was never shown was not looked at.
    (when (and last (> (buffer-local-value 'gemini-companion-context--focused last) 0))
      (gemini-companion-context--activate last)))
  (gemini-companion-context--note-focus))

(defun gemini-companion-context--note-focus (&rest _)
  "Note which file the user looks at now."
  (gemini-companion-log-errors "focus"
    (let* ((shown (window-buffer (selected-window)))
           (buffer (or (buffer-base-buffer shown) shown)))
      (cond ((eq buffer (gemini-companion-context--active-buffer))
             (setq gemini-companion-context--active shown)
             (gemini-companion-context--note-shown buffer shown))
            ((gemini-companion-context--file buffer)
             (gemini-companion-context--activate shown)
             (gemini-companion-context--note-shown buffer shown)
             (setq gemini-companion-context--recent
                   (cons buffer (delq buffer gemini-companion-context--recent)))
             (with-current-buffer buffer
               (setq gemini-companion-context--focused
                     (gemini-companion-context--milliseconds nil))))))))

(defun gemini-companion-context--note-shown (buffer shown)
  "Note that the selected window shows SHOWN, which is BUFFER or an indirect one."
  (with-current-buffer buffer
    (setq gemini-companion-context--shown (cons (selected-window) shown))))

(defun gemini-companion-context--activate (buffer)
  "Make the file of BUFFER, which may be an indirect one or nil, the active one."
  (when (buffer-live-p gemini-companion-context--active)
    (with-current-buffer gemini-companion-context--active
      (gemini-companion-position-unwatch)))
  (setq gemini-companion-context--active buffer
        gemini-companion-context--stirred t)
  (when buffer
    (with-current-buffer buffer
      (gemini-companion-position-watch))))

(defun gemini-companion-context--note-file ()
  "Note that the current buffer visits a file, though nobody may have looked at it."
  (let ((buffer (current-buffer)))
    (when (and buffer-file-name (not (memq buffer gemini-companion-context--recent)))
      (setq gemini-companion-context--recent
            (append gemini-companion-context--recent (list buffer))))))

(defun gemini-companion-context--note-kill ()
  "Note that the current buffer is being killed."
  (when buffer-file-name
    (let ((name (and (> gemini-companion-context--focused 0) buffer-file-name))
          (left gemini-companion-context--max-killed))
      (setq gemini-companion-context--recent
            (cl-loop for entry in gemini-companion-context--recent
                     for kept = (if (eq entry (current-buffer)) name entry)
                     if (or (bufferp kept) (and kept (>= (cl-decf left) 0)))
                     collect kept)))))

(defun gemini-companion-context--active-buffer ()
  "Return the buffer that visits the active file, or nil."
  (and (buffer-live-p gemini-companion-context--active)
       (or (buffer-base-buffer gemini-companion-context--active)
           gemini-companion-context--active)))

(defun gemini-companion-context--milliseconds (time)
  "Return TIME (nil: now) in milliseconds since 1970."
  (car (time-convert time 1000)))

(defun gemini-companion-context--file (buffer)
  "Return the local file that BUFFER visits, or nil."
  (let ((file (buffer-local-value 'buffer-file-name buffer)))
    (and file
         ;; Each remote name has one; to look closer takes time.
         (not (and (string-search ":" file) (file-remote-p file)))
         file)))

;;;; Changes

(defun gemini-companion-context--note-stir (&rest _)
  "Publish soon: more may have changed than where point is."
  (setq gemini-companion-context--stirred t)
  (gemini-companion-context--note-change))

(defun gemini-companion-context--note-change (&rest _)
  "Publish soon: something may have changed."
  (setq gemini-companion-context--changes (1+ gemini-companion-context--changes))
  (unless gemini-companion-context--timer
    (gemini-companion-context--wait gemini-companion-context--max-delays)))

(defun gemini-companion-context--wait (delays)
  "Publish after a moment without a change, or after DELAYS moments."
  (let ((changes gemini-companion-context--changes))
    (setq gemini-companion-context--timer
          (run-at-time gemini-companion-context--delay nil
                       (lambda ()
                         (if (or (= changes gemini-companion-context--changes)
                                 (<= delays 1))
                             (progn (setq gemini-companion-context--timer nil)
                                    (gemini-companion-context--publish))
                           (gemini-companion-context--wait (1- delays))))))))

(defun gemini-companion-context--publish ()
  "Tell the clients what the user looks at, as far as that is new.
Tell whoever else wants to know that it may be."
  (gemini-companion-log-errors "context"
    (gemini-companion-context--note-focus)
    (let* ((before gemini-companion-context--published)
           (places (gemini-companion-bridge-places))
           (contexts (gemini-companion-context--contexts
                      places (gemini-companion-context--still places)))
           (new (cl-loop for context in contexts
                         unless (member context before) collect context)))
      (setq gemini-companion-context--published contexts)
      (when new
        (gemini-companion-bridge-publish-contexts new))
      (run-hooks 'gemini-companion-context-functions))))

;;;; Gathering

(cl-defstruct (gemini-companion-context--tally
               (:constructor gemini-companion-context--make-tally (scope))
               (:copier nil))
  "What was gathered for a scope so far."
  scope
  (files nil :documentation "The vectors, the last one first.")
  (left gemini-companion-context--max-files :documentation "How many may follow.")
  (looks gemini-companion-context--max-looks :documentation "How many may be looked at.")
  (led nil :documentation "Non-nil if a file that was looked at later came before."))

(defun gemini-companion-context-gather (&optional directory)
  "Return what clients that work in DIRECTORY are told of what the user looks at.
Without DIRECTORY, clients of which it is not known.  The shape is that of
FILES in `gemini-companion-bridge-publish-contexts'."
  (gemini-companion-context--note-focus)
  (cdar (gemini-companion-context--contexts (list directory))))

(defun gemini-companion-context--contexts (directories &optional known)
  "Return what clients are told that work in DIRECTORIES.
The shape is that of `gemini-companion-bridge-publish-contexts'.  What is
in KNOWN, which is like that, is not gathered."
  (if gemini-companion-context-paused
      (mapcar #'list directories)
    (let* ((wanted (cl-loop for directory in directories
                            unless (assoc directory known) collect directory))
           (tallies (gemini-companion-context--gather
                     (mapcar #'gemini-companion-scope-of wanted))))
      (append known
              (cl-loop for directory in wanted
                       for tally in tallies
                       for files = (gemini-companion-context--tally-files tally)
                       collect (cons directory (reverse files)))))))

(defun gemini-companion-context--still (directories)
  "Return what was published for those of DIRECTORIES where nothing has changed.
That is where the user is not, if only point has moved, for a moment."
  (let ((now (float-time)))
    (if (or gemini-companion-context--stirred
            gemini-companion-context-paused
            (< gemini-companion-context--lifetime
               (abs (- now gemini-companion-context--gathered))))
        (ignore (setq gemini-companion-context--gathered now
                      gemini-companion-context--stirred nil))
      (pcase-let ((`(,file . ,truename) (gemini-companion-context--names
                                         (gemini-companion-context--active-buffer))))
        (cl-loop for context in gemini-companion-context--published
                 for directory = (car context)
                 if (and (member directory directories)
                         (not (and file
                                   (gemini-companion-scope-holds-p
                                    (gemini-companion-scope-of directory) file truename))))
                 collect context)))))

(defun gemini-companion-context--gather (scopes)
  "Return a tally for each of SCOPES, in one pass over the files."
  (let* ((tallies (mapcar #'gemini-companion-context--make-tally scopes))
         (hungry tallies)
         (entries gemini-companion-context--recent))
    (while (and entries hungry)
      (let ((entry (pop entries)))
        (when (or (stringp entry) (buffer-live-p entry))
          (gemini-companion-context--count entry hungry)
          (setq hungry (cl-loop for tally in hungry
                                unless (gemini-companion-context--full-p tally)
                                collect tally)))))
    tallies))

(defun gemini-companion-context--full-p (tally)
  "Return non-nil if TALLY needs no more files."
  (or (zerop (gemini-companion-context--tally-left tally))
      (zerop (gemini-companion-context--tally-looks tally))))

(defun gemini-companion-context--count (entry tallies)
  "Add ENTRY of the recent files to those of TALLIES to whose scopes it belongs."
  (pcase-let* ((`(,file . ,truename) (gemini-companion-context--names entry))
               (reason 'unknown)
               (active nil)
               (passive nil))
    (dolist (tally (and file tallies))
      (when (gemini-companion-scope-holds-p (gemini-companion-context--tally-scope tally)
                                            file truename)
        (cl-decf (gemini-companion-context--tally-looks tally))
        (when (eq reason 'unknown)
          (setq reason (or (stringp entry) (gemini-companion-context--reason entry))))
        (let ((leads (not (gemini-companion-context--tally-led tally))))
          (when (or (stringp entry)
                    (> (buffer-local-value 'gemini-companion-context--focused entry) 0))
            (setf (gemini-companion-context--tally-led tally) t))
          (unless reason
            (cl-decf (gemini-companion-context--tally-left tally))
            (push (if (and leads (gemini-companion-context--present-p entry))
                      (or active (setq active (gemini-companion-context--describe entry t)))
                    (or passive (setq passive (gemini-companion-context--describe entry nil))))
                  (gemini-companion-context--tally-files tally))))))))

(defun gemini-companion-context--names (entry)
  "Return the name of the file of ENTRY, with and without links, as a pair.
If ENTRY is nil both are nil."
  (if (not (bufferp entry)) (cons entry entry)
    (let ((file (buffer-local-value 'buffer-file-name entry))
          (truename (buffer-local-value 'buffer-file-truename entry))
          (file-name-handler-alist nil)) ; for a remote one these do much more
      (cons file (cond ((not truename) file)
                       ((string-prefix-p "~" truename) (expand-file-name truename))
                       (t truename))))))

(defun gemini-companion-context-withheld (&optional directory)
  "Return the open files that clients are not told of, as (FILE . REASON) pairs.
The clients are those that work in DIRECTORY, or of which it is not known."
  (let ((scope (gemini-companion-scope-of directory)))
    (cl-loop for entry in gemini-companion-context--recent
             for buffer = (and (bufferp entry) (buffer-live-p entry) entry)
             for (file . truename) = (and buffer (gemini-companion-context--names buffer))
             for reason = (and file (or (gemini-companion-context--reason buffer)
                                        (gemini-companion-scope-reason scope file truename)))
             if reason collect (cons file reason)
             and count t into found
             until (eql found gemini-companion-context--max-looks))))

(defun gemini-companion-context--reason (buffer)
  "Return why clients are not told of BUFFER, or nil if they are."
  (let ((file (gemini-companion-context--file buffer)))
    (cond ((not (buffer-file-name buffer)) "no file")
          ((not file) "remote")
          ;; That it is local is known.
          ((not (let ((file-name-handler-alist nil)) (file-exists-p file))) "not on disk")
          (t (with-current-buffer buffer (gemini-companion-private-reason))))))

(defun gemini-companion-context--present-p (buffer)
  "Return non-nil if BUFFER is there for the user, who looked at it last.
See `gemini-companion-active-file'."
  (let ((looked-at (buffer-local-value 'gemini-companion-context--shown buffer))
        (shown (window-buffer (selected-window))))
    (and (> (buffer-local-value 'gemini-companion-context--focused buffer) 0)
         (or (eq shown (gemini-companion-context--seen buffer))
             (pcase gemini-companion-active-file
               ('last (or (null looked-at) (buffer-live-p (cdr looked-at))))
               ('visible (get-buffer-window (gemini-companion-context--seen buffer)
                                            'visible)))))))

(defun gemini-companion-context--seen (buffer)
  "Return the buffer by which the user looked at BUFFER last.
That is BUFFER, or an indirect one of it, perhaps killed."
  (or (cdr (buffer-local-value 'gemini-companion-context--shown buffer)) buffer))

(defun gemini-companion-context--describe (buffer active)
  "Return the vector for the file that BUFFER visits.
ACTIVE is non-nil if it is the active one."
  (let ((file (buffer-local-value 'buffer-file-name buffer))
        (focused (buffer-local-value 'gemini-companion-context--focused buffer))
        (window (car (buffer-local-value 'gemini-companion-context--shown buffer))))
    (if (not active)
        (vector file focused nil nil nil nil)
      (with-current-buffer (gemini-companion-context--seen buffer)
        (let ((point (gemini-companion-context--point window)))
          (vector file focused t
                  (gemini-companion-position-line point)
                  (gemini-companion-position-character point)
                  (and gemini-companion-share-selection
                       (gemini-companion-position-selection
                        point gemini-companion-context--max-selection))))))))

(defun gemini-companion-context--point (window)
  "Return point of the current buffer, in WINDOW if that shows it still."
  (let ((window (if (and (window-live-p window)
                         (eq (window-buffer window) (current-buffer)))
                    window
                  (get-buffer-window nil t))))
    (if window (window-point window) (point))))

(provide 'gemini-companion-context)
;;; gemini-companion-context.el ends here

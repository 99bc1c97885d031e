;;; gemini-companion-context.el --- What the user looks at -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The context is a snapshot of what the user looks at: the open files, the active one, point and
;; what is selected there.  It is gathered when there was quiet for a moment, and published.
;;
;; A client passes on what it learns to a model far away: files that are private are withheld, and
;; each reason has words, for users who wonder.
;;
;; Lines, columns and selections take time that does not grow with the buffer: lines are counted from
;; one whose number is known, and a buffer that is watched keeps that knowledge through edits further
;; down.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-bridge)
(require 'gemini-companion-log)
(require 'gemini-companion-workspace)

(declare-function apply-on-rectangle "rect")
(declare-function evil-apply-on-block "ext:evil-common")
(declare-function evil-visual-range "ext:evil-states")
(declare-function extract-rectangle-line "rect")
(defvar evil-state)

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
     after-set-visited-file-name-hook gemini-companion-workspace-change-hook))
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
      (gemini-companion-context--unwatch-lines)))
  (setq gemini-companion-context--active buffer
        gemini-companion-context--stirred t)
  (when buffer
    (with-current-buffer buffer
      (gemini-companion-context--watch-lines))))

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
          (t (with-current-buffer buffer (gemini-companion-context-private-reason))))))

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
                  (gemini-companion-context--line point)
                  (gemini-companion-context--character point)
                  (and gemini-companion-share-selection
                       (gemini-companion-context--selection
                        point gemini-companion-context--max-selection))))))))

(defun gemini-companion-context--point (window)
  "Return point of the current buffer, in WINDOW if that shows it still."
  (let ((window (if (and (window-live-p window)
                         (eq (window-buffer window) (current-buffer)))
                    window
                  (get-buffer-window nil t))))
    (if window (window-point window) (point))))

;;;; Private files

(defcustom gemini-companion-private-files
  '(".env*" "*.env" ".netrc" "_netrc" "authinfo*" ".authinfo*" "*.gpg" "*.pgp" "*.age"
    "*.pem" "*.key" "*.p12" "*.pfx" "*.jks" "*.keystore" "*.kdbx" "*.kdb" "*.ovpn"
    "id_*" "*_rsa" "*_ed25519" ".git-credentials" ".npmrc" ".pypirc" ".pgpass" ".my.cnf"
    ".htpasswd" "credentials" "credentials.*" "secrets.*"
    ".ssh/*" ".gnupg/*" ".aws/*" ".kube/*" ".docker/config.json" ".password-store/*")
  "Files of which clients never learn, as a list of globs.
A glob with a slash is compared with the end of the whole name, one
without with the name of the file alone; case does not matter.  Clients
learn neither that such a file is open nor where you are in it."
  :type '(repeat (string :tag "Glob"))
  :group 'gemini-companion)

(defvar-local gemini-companion-private nil
  "Non-nil if clients may not learn of this buffer's file.
To be set in .dir-locals.el, for a project or a directory.  A revert or
another major mode does not take it off.")
;;;###autoload
(put 'gemini-companion-private 'safe-local-variable #'booleanp)
;; Another major mode must not publish what was marked by hand or by a hook.
(put 'gemini-companion-private 'permanent-local t)

(defvar gemini-companion-context--verdict-lifetime 1.0
  "Seconds for which a verdict on a file holds.")

(defconst gemini-companion-context--ignore-file ".geminiignore"
  "File in a workspace root that names files which clients ignore.")

(defconst gemini-companion-context--max-roots 16
  "Number of workspace roots around a file whose ignore files are looked at.")

(defvar-local gemini-companion-context--verdict nil
  "What was found out last, as (TIME FILE . REASON), or nil.")

(defvar gemini-companion-context--patterns nil
  "The globs that were compiled, and the regular expressions for names and paths.")

(defun gemini-companion-context-private-reason ()
  "Return in words why clients may not learn of the current buffer's file.
Return nil if they may.  The buffer visits a local file."
  (pcase gemini-companion-context--verdict
    ((and `(,time ,file . ,reason)
          (guard (and (equal file buffer-file-name)
                      (< (- (float-time) time) gemini-companion-context--verdict-lifetime))))
     reason)
    (_ (let ((reason (gemini-companion-context--judge)))
         (setq gemini-companion-context--verdict
               (cons (float-time) (cons buffer-file-name reason)))
         reason))))

(defun gemini-companion-context-private-reason-of (file)
  "Return why clients are not told of FILE, as far as its name and place say."
  (with-temp-buffer
    ;; The name comes from a client: it must not make Emacs open a connection.
    (setq buffer-file-truename (let ((file-name-handler-alist nil)) (file-truename file))
          buffer-file-name file)
    (unwind-protect (gemini-companion-context--judge)
      (setq buffer-file-name nil))))

(defun gemini-companion-context--judge ()
  "Return what `gemini-companion-context-private-reason' does, found out anew.
A file that cannot be judged is withheld, and others are not with it."
  (condition-case err
      (gemini-companion-context--find-reason)
    (error (format "cannot be judged: %s" (error-message-string err)))))

(defun gemini-companion-context--find-reason ()
  "Return why clients may not learn of the current buffer's file, or nil."
  (let ((names (delete-dups (list buffer-file-name
                                  (expand-file-name (or buffer-file-truename
                                                        buffer-file-name))))))
    (cond (gemini-companion-private "marked as private, perhaps in .dir-locals.el")
          ((memq 'eight-bit (find-charset-string buffer-file-name))
           "its name cannot be told: it is no text")
          ((gemini-companion-context--encrypted-p) "encrypted")
          ((cl-loop for name in names thereis (gemini-companion-context--named-p name))
           "named by `gemini-companion-private-files'")
          (t (gemini-companion-context--place-reason names)))))

(defun gemini-companion-context--encrypted-p ()
  "Return non-nil if the current buffer's text is encrypted in its file."
  (or (bound-and-true-p epa-file-encrypt-to)
      (memq (find-file-name-handler buffer-file-name 'insert-file-contents)
            '(epa-file-handler age-file-handler))))

(defun gemini-companion-context--named-p (file)
  "Return non-nil if `gemini-companion-private-files' names FILE."
  (unless (eq (car gemini-companion-context--patterns) gemini-companion-private-files)
    (setq gemini-companion-context--patterns
          (cons gemini-companion-private-files (gemini-companion-context--compile))))
  (pcase-let ((`(,_ ,name ,path) gemini-companion-context--patterns)
              (case-fold-search t))
    (or (string-match-p name (file-name-nondirectory file))
        (string-match-p path file))))

(defun gemini-companion-context--compile ()
  "Return regular expressions for names and paths that are private."
  (cl-loop for glob in gemini-companion-private-files
           for regexp = (substring (wildcard-to-regexp glob) 2 -2) ; without the anchors
           if (string-search "/" glob) collect regexp into paths
           else collect regexp into names
           finally return (list (gemini-companion-context--any "\\`" names)
                                (gemini-companion-context--any "/" paths))))

(defun gemini-companion-context--any (start regexps)
  "Return a regular expression for START, one of REGEXPS and the end."
  (if (null regexps) regexp-unmatchable
    (concat start "\\(?:" (string-join regexps "\\|") "\\)\\'")))

(defun gemini-companion-context--place-reason (names)
  "Return why the ignore files around the file with the NAMES make it private."
  (let ((roots (mapcan (lambda (name)
                         (mapcar (lambda (root) (cons name root))
                                 (gemini-companion-workspace-roots-of name)))
                       names)))
    (if (length> roots gemini-companion-context--max-roots)
        (format "inside more than %d workspace roots" gemini-companion-context--max-roots)
      (cl-loop for (name . root) in roots
               thereis (gemini-companion-context--ignore-reason name root)))))

(defun gemini-companion-context--ignore-reason (file root)
  "Return why FILE is private if the ignore file of ROOT names it."
  (let ((ignore (concat (file-name-as-directory root)
                        gemini-companion-context--ignore-file)))
    (pcase (gemini-companion-bridge-ignored ignore file)
      ('nil nil)
      ((and (pred stringp) fault) (format "%s %s" ignore fault))
      (_ (format "named by %s" ignore)))))

;;;; Positions and selections

(defconst gemini-companion-context--max-column 20000
  "Length of the text before point in its line up to which columns are exact.
Beyond, characters count as one, which those outside of Unicode's basic
plane are not.")

(defvar-local gemini-companion-context--known nil
  "A known line, as (TICK POSITION . LINE), or nil.
POSITION is its start, LINE its number; that holds while the text's
`buffer-chars-modified-tick' is TICK.")
(put 'gemini-companion-context--known 'permanent-local t) ; through a revert

;;;; Lines

(defun gemini-companion-context--watch-lines ()
  "Keep what is known of the current buffer's lines through edits below them."
  (add-hook 'before-change-functions #'gemini-companion-context--note-edit nil t)
  (add-hook 'after-change-functions #'gemini-companion-context--note-edit nil t))

(defun gemini-companion-context--unwatch-lines ()
  "Undo `gemini-companion-context--watch-lines'.
What is known holds until the next edit."
  (remove-hook 'before-change-functions #'gemini-companion-context--note-edit t)
  (remove-hook 'after-change-functions #'gemini-companion-context--note-edit t))

(defun gemini-companion-context--note-edit (start _end &optional length)
  "Forget the known line if a change at START concerns it.
With LENGTH, which is that of the text before, the change was made, and
the tick is a new one; without, it is about to be.  A change of which
nobody is told has another tick in between."
  (when gemini-companion-context--known
    (cond ((< start (cadr gemini-companion-context--known))
           (setq gemini-companion-context--known nil))
          (length
           (setcar gemini-companion-context--known (buffer-chars-modified-tick)))
          ((/= (car gemini-companion-context--known) (buffer-chars-modified-tick))
           (setq gemini-companion-context--known nil)))))

(defun gemini-companion-context--line (position)
  "Return the 1-based number of the line of POSITION in the whole buffer."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char position)
      (let* ((inhibit-field-text-motion t)
             (start (line-beginning-position))
             (line (gemini-companion-context--count-lines start)))
        (setq gemini-companion-context--known
              (cons (buffer-chars-modified-tick) (cons start line)))
        line))))

(defun gemini-companion-context--count-lines (start)
  "Return the number of the line that begins at START.
Count from the nearer of the known line and the first."
  (pcase-let ((`(,tick ,known . ,line) gemini-companion-context--known))
    (cond ((not (and (eql tick (buffer-chars-modified-tick))
                     (< (abs (- start known)) (- start (point-min)))))
           (1+ (gemini-companion-context--lines (point-min) start)))
          ((< start known) (- line (gemini-companion-context--lines start known)))
          (t (+ line (gemini-companion-context--lines known start))))))

(defun gemini-companion-context--lines (start end)
  "Return the number of lines from START to END, both at the start of one."
  (save-restriction
    (narrow-to-region start end)
    ;; This is many times as fast as to go there.
    (1- (line-number-at-pos end))))

(put 'gemini-companion-context--note-edit 'permanent-local-hook t)

;;;; Columns

(defun gemini-companion-context--character (position)
  "Return the 1-based column of POSITION in UTF-16 code units.
For its limit see `gemini-companion-context--max-column'."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char position)
      (let* ((inhibit-field-text-motion t)
             (start (line-beginning-position))
             (count (- position start)))
        (1+ (if (or (= count (- (position-bytes position) (position-bytes start)))
                    (> count gemini-companion-context--max-column))
                count                   ; all ASCII, or too much to look at
              (/ (string-bytes (encode-coding-string
                                (buffer-substring-no-properties start position)
                                'utf-16le t))
                 2)))))))

;;;; Selections

(defun gemini-companion-context--selection (point limit)
  "Return what is selected if point is at POINT, or nil if nothing is.
That is the active region, the rectangle if it is one, or what Evil's
visual state shows.  What is longer than LIMIT characters ends somewhere
beyond them."
  (cond ((and (eq (bound-and-true-p evil-state) 'visual) (fboundp 'evil-visual-range))
         ;; For blocks it switches Transient Mark mode off.
         (gemini-companion-context--evil-selection limit))
        ((not (and transient-mark-mode mark-active (mark t))) nil)
        ((= point (mark t)) nil)
        (t (let ((start (min point (mark t)))
                 (end (max point (mark t))))
             (if (bound-and-true-p rectangle-mark-mode)
                 (gemini-companion-context--rows
                  (lambda (collect) (apply-on-rectangle collect start end)) limit)
               (gemini-companion-context--text start end limit))))))

(defun gemini-companion-context--evil-selection (limit)
  "Return what Evil shows as selected; LIMIT is a number of characters."
  (pcase-let ((`(,start ,end ,type . ,_) (evil-visual-range)))
    (if (eq type 'block)
        (gemini-companion-context--rows
         (lambda (collect) (evil-apply-on-block collect start end t)) limit)
      (gemini-companion-context--text start end limit))))

(defun gemini-companion-context--text (start end limit)
  "Return the text from START to END, as far as it is accessible.
LIMIT is a number of characters beyond which nothing is needed."
  (let* ((start (max start (point-min)))
         (end (min end (point-max) (+ start limit))))
    (and (< start end) (buffer-substring-no-properties start end))))

(defun gemini-companion-context--rows (walk limit)
  "Return the rows of a rectangle as lines.
WALK calls a function at the start of each line with the two columns of
the rectangle.  LIMIT is a number of characters beyond which nothing is
needed."
  (require 'rect)
  (let ((rows (list nil)))
    (save-excursion
      (catch 'enough
        (funcall walk (lambda (from to)
                        (extract-rectangle-line from to rows)
                        (setq limit (- limit 1 (length (cadr rows))))
                        (when (< limit 0) (throw 'enough nil))))))
    (substring-no-properties (mapconcat #'identity (nreverse (cdr rows)) "\n"))))

(provide 'gemini-companion-context)
;;; gemini-companion-context.el ends here

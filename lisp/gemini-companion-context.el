;;; gemini-companion-context.el --- The context that clients are sent -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The context is a snapshot of what the user is working on: the open files, the active one, and
;; point and the selection there.  It is gathered and published after a short pause, and only while
;; a client is connected or a buffer shows it.
;;
;; Clients send the context to a remote model, so private files are withheld, each for a reason
;; that the user can see.  Files on hosts are told to clients there, by the names that they have
;; there; nothing is asked of a host for that.
;;
;; What this takes does not grow with the buffer: lines are counted from one whose number is known,
;; and in the active file that line stays known through edits below it.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-bridge)
(require 'gemini-companion-file)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-workspace)

(declare-function apply-on-rectangle "rect")
(declare-function evil-apply-on-block "ext:evil-common")
(declare-function evil-visual-range "ext:evil-states")
(declare-function extract-rectangle-line "rect")
(defvar evil-state)

;;;; Options

(defcustom gemini-companion-active-file 'last
  "Which file is the active one while the selected window shows no file.
If `last', the file of the buffer that you selected last, until you kill
that buffer: while you type in a terminal, clients know where you came
from.  If `visible', that file, but only while a window shows it.  If nil,
none."
  :type '(choice (const :tag "The last one" last)
                 (const :tag "The last one, if a window shows it" visible)
                 (const :tag "None" nil))
  :group 'gemini-companion-context
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-share-selection t
  "Non-nil means send clients the selected text, up to 16384 characters."
  :type 'boolean
  :group 'gemini-companion-context
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-private-files
  '(".env*" "*.env" ".netrc" "_netrc" "authinfo*" ".authinfo*" "*.gpg" "*.pgp" "*.age"
    "*.pem" "*.key" "*.p12" "*.pfx" "*.jks" "*.keystore" "*.kdbx" "*.kdb" "*.ovpn"
    "id_rsa*" "id_dsa*" "id_ecdsa*" "id_ed25519*" "*_rsa" "*_ed25519"
    ".git-credentials" ".npmrc" ".pypirc" ".pgpass" ".my.cnf" ".htpasswd"
    "credentials" "credentials.json" "credentials.y*ml*" "credentials.toml"
    "credentials.ini" "credentials.txt" "credentials.csv" "credentials.db" "secrets.*"
    ".ssh/*" ".gnupg/*" ".aws/*" ".kube/*" ".docker/config.json" ".password-store/*")
  "Globs for files that clients are never told of.
A glob with a slash is matched against the end of the absolute file name,
one without a slash against its last component; case is ignored.  Clients
learn neither that such a file is open nor where point is in it."
  :type '(repeat (string :tag "Glob"))
  :group 'gemini-companion-context
  :package-version '(gemini-companion . "0.1.0"))

(defcustom gemini-companion-trusted-roots nil
  "Workspace roots that clients are told to trust.
If nil, clients are told nothing, and decide that by their own settings.
Otherwise a list of directories: a client that works in one of them, or
below, is told that the user trusts it, as `isTrusted' of document 000.  If
`trusted-content', these are the directories in that variable of Emacs 30.

Gemini CLI, if its folder trust is on, then asks no question of its own and
ignores its own list of trusted folders.  If what it is told differs from
what it has assumed, it asks to be started again."
  :type '(choice (const :tag "Clients decide" nil)
                 (repeat :tag "These directories" directory)
                 (const :tag "Those that Emacs trusts" trusted-content))
  :group 'gemini-companion-context
  :risky t
  :package-version '(gemini-companion . "0.1.0"))

(defvar-local gemini-companion-private nil
  "Non-nil means never tell clients of this buffer's file.
Set it in .dir-locals.el for a project or a directory.  Reverting the
buffer or changing its major mode does not reset it.")
;; A repository may mark its files; to remove a mark of the user's, it needs a yes.
;;;###autoload
(put 'gemini-companion-private 'safe-local-variable #'identity)
;; Another major mode must not publish a file that was marked by hand or by a hook.
(put 'gemini-companion-private 'permanent-local t)

(defvar gemini-companion-context-change-hook nil
  "Hook run whenever the context may have changed.
Its functions get the context from `gemini-companion-context-gather'.  After you
add or remove one, call `gemini-companion-context-update'.")

;;;; Limits

(defconst gemini-companion-context--delay 0.05
  "Seconds without a change after which the context is published.")

(defconst gemini-companion-context--max-delay 0.25
  "Seconds after a change after which it is published even without a pause.")

(defvar gemini-companion-context--lifetime 1.0
  "Seconds for which contexts are reused while nothing but point changes.")

(defvar gemini-companion-context--max-others 8
  "Number of contexts without the active file that are gathered at once.
The others follow after a delay, so that Emacs is never busy for long.")

(defconst gemini-companion-context--max-files 10
  "Maximum number of files in a context; clients ignore more.")

(defconst gemini-companion-context--max-checks 50
  "Maximum number of files of a scope that are checked for a context.")

(defconst gemini-companion-context--max-killed 20
  "Maximum number of files remembered after their buffers were killed.")

(defconst gemini-companion-context--max-selection 16384
  "Maximum number of characters of a selection; clients ignore more.")

(defvar gemini-companion-context--verdict-lifetime 1.0
  "Seconds for which a file is known to be private or not.")

(defconst gemini-companion-context--ignore-files
  '(".geminiignore" ".qwenignore" ".llxprtignore")
  "Names of the ignore files of Gemini CLI and its forks.
Each counts for all clients, but on hosts only the first does.")

(defconst gemini-companion-context--max-ignore-files 16
  "Maximum number of ignore files that are read for a file.")

(defconst gemini-companion-context--max-column 20000
  "Number of characters before point in its line up to which columns are exact.
After more, each character counts as one, even outside of Unicode's basic
plane.")

;;;; State

(defvar gemini-companion-context-paused nil
  "Non-nil while clients are told that no file is open.")

(defvar gemini-companion-context--enabled nil
  "Non-nil while files are tracked.")

(defvar gemini-companion-context--recent nil
  "Buffers that visit files, the one focused last first.
A string is the name of a file whose buffer was killed: no file in its
scope is active until another one is focused there.")

(defvar gemini-companion-context--active nil
  "The buffer of the active file, perhaps an indirect or a killed one, or nil.")

(defvar-local gemini-companion-context--shown nil
  "Where this buffer was focused last, as (WINDOW . BUFFER), or nil.
BUFFER is this buffer or an indirect buffer of it.")
(put 'gemini-companion-context--shown 'permanent-local t) ; through a revert

(defvar-local gemini-companion-context--focused 0
  "When this buffer was focused last, in milliseconds since 1970; 0 if never.")
(put 'gemini-companion-context--focused 'permanent-local t) ; through a revert

(defvar gemini-companion-context--changes 0
  "Number of changes so far.")

(defvar gemini-companion-context--changed 0
  "When more than point may have changed last, in seconds since 1970.")

(defvar gemini-companion-context--timer nil
  "The timer that publishes the context, or nil.")

(cl-defstruct (gemini-companion-context--place
               (:constructor gemini-companion-context--make-place (directory))
               (:copier nil))
  "Where clients work."
  (directory nil :documentation "The directory, or nil if it is not known.")
  (scope nil :documentation "The scope of the clients there.")
  (scopes nil :documentation "That of `gemini-companion-workspace-scopes' with this scope.")
  (files nil :documentation "The context that was gathered last, a list of vectors.")
  (trusted nil :documentation "Non-nil if clients there are told that it is trusted.")
  (gathered nil :documentation "When that was, in seconds since 1970, or nil.")
  (published nil :documentation "Non-nil if the context was published."))

(defvar gemini-companion-context--places nil
  "The places where clients worked when contexts were published last.")

(defvar-local gemini-companion-context--scopes nil
  "The scopes that this buffer's file is in, as (STAMP FILE TRUENAME . SCOPES).
They are valid while STAMP is that of `gemini-companion-workspace-scopes-stamp',
and FILE and TRUENAME are those of the buffer.")

(defvar-local gemini-companion-context--verdict nil
  "Whether this buffer's file is private, as (TIME RULES FILE . REASON), or nil.
REASON is nil if FILE was not private at TIME.  It is valid while RULES is
the value of `gemini-companion-context--rules'.")

(defvar gemini-companion-context--rules (list nil)
  "An object that is replaced when ignore rules may have changed.")

(defvar-local gemini-companion-context--told-name nil
  "What clients are told the name of this buffer's file is, or nil.
It is (FILE HOST . NAME), valid for FILE on HOST.")

(defvar gemini-companion-context--patterns nil
  "Regular expressions for private files, as (GLOBS NAME PATH), or nil.
They were made from GLOBS, the value of `gemini-companion-private-files'.")

(defvar-local gemini-companion-context--known nil
  "A line whose number is known, as (TICK POSITION . LINE), or nil.
POSITION is its start and LINE its number while TICK is the value of
`buffer-chars-modified-tick'.")
(put 'gemini-companion-context--known 'permanent-local t) ; through a revert

;;;; Starting and stopping

(defun gemini-companion-context-start ()
  "Publish the context while clients are connected."
  (add-hook 'gemini-companion-clients-functions #'gemini-companion-context-update)
  (gemini-companion-context-update))

(defun gemini-companion-context-stop ()
  "Stop publishing the context."
  (remove-hook 'gemini-companion-clients-functions #'gemini-companion-context-update)
  (gemini-companion-context--disable))

(defun gemini-companion-context-update (&rest _)
  "Publish the context now, and after changes, if anything uses it."
  (if (not (or gemini-companion-context-change-hook
               (> (gemini-companion-bridge-clients) 0)))
      (gemini-companion-context--disable)
    (unless gemini-companion-context--enabled (gemini-companion-context--enable))
    ;; A new client is sent the present context at once.
    (dolist (place gemini-companion-context--places)
      (setf (gemini-companion-context--place-published place) nil))
    (when (gemini-companion-hosts) ; a client there may have told an ignore file
      (setq gemini-companion-context--rules (list nil)))
    (setq gemini-companion-context--changed (gemini-companion-context--now))
    (gemini-companion-context--publish)))

;;;###autoload
(defun gemini-companion-toggle-context ()
  "Pause telling clients which files you have open, or resume.
While this is paused, they are told that no file is open."
  (interactive)
  (setq gemini-companion-context-paused (not gemini-companion-context-paused))
  (gemini-companion-context-update)
  (force-mode-line-update t)
  (message (if gemini-companion-context-paused
               "Clients are told that no file is open"
             "Clients are told again which files are open")))

(defconst gemini-companion-context--hooks
  '((gemini-companion-context--record-focus
     window-selection-change-functions window-buffer-change-functions)
    (gemini-companion-context--file-opened find-file-hook after-set-visited-file-name-hook)
    (gemini-companion-context--buffer-killed kill-buffer-hook)
    (gemini-companion-context--hosts-changed gemini-companion-host-change-hook)
    (gemini-companion-context--file-saved after-save-hook)
    (gemini-companion-context--publish-soon post-command-hook)
    (gemini-companion-context--gather-soon
     window-selection-change-functions window-buffer-change-functions
     find-file-hook kill-buffer-hook after-revert-hook
     after-set-visited-file-name-hook gemini-companion-workspace-change-hook))
  "Functions, and the hooks that they are on while files are tracked.")

(defun gemini-companion-context--enable ()
  "Start tracking files, with those that were focused until now."
  (setq gemini-companion-context--enabled t)
  ;; The list of buffers starts with the one selected last.
  (setq gemini-companion-context--recent
        (cl-loop for buffer in (buffer-list)
                 if (buffer-file-name buffer) collect buffer))
  (dolist (buffer gemini-companion-context--recent)
    (with-current-buffer buffer
      (when (and (zerop gemini-companion-context--focused) buffer-display-time)
        (setq gemini-companion-context--focused (car (time-convert buffer-display-time 1000))))))
  ;; A buffer that was never displayed was not focused.
  (when-let* ((last (car gemini-companion-context--recent)))
    (when (gemini-companion-context--focused-p last) (gemini-companion-context--activate last)))
  (gemini-companion-context--record-focus)
  (gemini-companion-context--change-hooks #'add-hook))

(defun gemini-companion-context--disable ()
  "Stop tracking files, and forget them."
  (gemini-companion-context--change-hooks #'remove-hook)
  (when gemini-companion-context--timer
    (cancel-timer gemini-companion-context--timer)
    (setq gemini-companion-context--timer nil))
  (gemini-companion-context--activate nil)
  (setq gemini-companion-context--recent nil
        gemini-companion-context--places nil
        gemini-companion-context--enabled nil))

(defun gemini-companion-context--change-hooks (change)
  "Call CHANGE, `add-hook' or `remove-hook', for each hook and its function."
  (pcase-dolist (`(,function . ,hooks) gemini-companion-context--hooks)
    (dolist (hook hooks)
      (funcall change hook function))))

;;;; Recent files

(defun gemini-companion-context--record-focus (&rest _)
  "Record the file that the selected window shows, if any, as the active one."
  (gemini-companion-log-errors "focus"
    (let* ((shown (window-buffer (selected-window)))
           (buffer (or (buffer-base-buffer shown) shown))
           (same (eq buffer (gemini-companion-context--active-buffer))))
      (when (or same (buffer-file-name buffer))
        (with-current-buffer buffer
          (setq gemini-companion-context--shown (cons (selected-window) shown))
          (unless same
            (setq gemini-companion-context--focused (car (time-convert nil 1000)))))
        (if same
            (setq gemini-companion-context--active shown)
          (gemini-companion-context--activate shown)
          (setq gemini-companion-context--recent
                (cons buffer (delq buffer gemini-companion-context--recent))))))))

(defun gemini-companion-context--activate (buffer)
  "Make the file of BUFFER, which may be indirect, the active one; nil for none."
  (when (buffer-live-p gemini-companion-context--active)
    (with-current-buffer gemini-companion-context--active
      (gemini-companion-context--unwatch-lines)))
  (setq gemini-companion-context--active buffer
        gemini-companion-context--changed (gemini-companion-context--now))
  (when buffer
    (with-current-buffer buffer
      (gemini-companion-context--watch-lines))))

(defun gemini-companion-context--file-opened ()
  "Add the current buffer to the recent files, as one that was not focused."
  (when (and buffer-file-name (not (memq (current-buffer) gemini-companion-context--recent)))
    (setq gemini-companion-context--recent
          (append gemini-companion-context--recent (list (current-buffer))))))

(defun gemini-companion-context--buffer-killed ()
  "Replace the current buffer by its file name among the recent files.
Remove it if it was never focused; remove old names of killed buffers."
  (when buffer-file-name
    (let ((name (and (> gemini-companion-context--focused 0)
                     (not (gemini-companion-context--elsewhere-p (current-buffer)))
                     buffer-file-name))
          (remaining gemini-companion-context--max-killed))
      (setq gemini-companion-context--recent
            (cl-loop for entry in gemini-companion-context--recent
                     for kept = (if (eq entry (current-buffer)) name entry)
                     if (or (bufferp kept) (and kept (>= (cl-decf remaining) 0)))
                     collect kept)))))

(defun gemini-companion-context--active-buffer ()
  "Return the buffer that visits the active file, or nil."
  (let ((buffer gemini-companion-context--active))
    (and (buffer-live-p buffer)
         (or (buffer-base-buffer buffer) buffer))))

(defun gemini-companion-context--focused-p (buffer)
  "Return non-nil if BUFFER was ever focused."
  (> (buffer-local-value 'gemini-companion-context--focused buffer) 0))

(defun gemini-companion-context--shown-buffer (buffer)
  "Return the buffer that was shown when BUFFER was focused last.
It is BUFFER or an indirect buffer of it, perhaps a killed one."
  (or (cdr (buffer-local-value 'gemini-companion-context--shown buffer)) buffer))

(defun gemini-companion-context--elsewhere-p (buffer)
  "Return non-nil if the file of BUFFER is on a host that is not served."
  (and (not (gemini-companion-host-of-buffer buffer))
       (gemini-companion-host-remote-p (buffer-local-value 'buffer-file-name buffer))))

(defun gemini-companion-context--hosts-changed ()
  "Publish the context soon, as other hosts, or other roots of them, are served."
  (gemini-companion-log-errors "hosts"
    (setq gemini-companion-context--rules (list nil)
          gemini-companion-context--recent
          (cl-loop for entry in gemini-companion-context--recent
                   unless (and (stringp entry)
                               (not (gemini-companion-host-of-name entry))
                               (gemini-companion-host-remote-p entry))
                   collect entry))
    (gemini-companion-context--gather-soon)))

;;;; Publishing

(defun gemini-companion-context--gather-soon (&rest _)
  "Publish the context soon: more than point may have changed."
  (setq gemini-companion-context--changed (gemini-companion-context--now))
  (gemini-companion-context--publish-soon))

(defun gemini-companion-context--file-saved ()
  "Publish the context soon, as the current buffer was saved.
If it is an ignore file, no verdict so far holds: the user may now go to a
CLI elsewhere, and no command in Emacs would publish the context again."
  (when (and buffer-file-name
             (member (file-name-nondirectory buffer-file-name)
                     gemini-companion-context--ignore-files))
    (setq gemini-companion-context--rules (list nil)))
  (gemini-companion-context--gather-soon))

(defun gemini-companion-context--publish-soon ()
  "Publish the context soon: something may have changed."
  (setq gemini-companion-context--changes (1+ gemini-companion-context--changes))
  (unless gemini-companion-context--timer
    (gemini-companion-context--wait gemini-companion-context--delay
                                    gemini-companion-context--max-delay)))

(defun gemini-companion-context--wait (seconds remaining)
  "Publish the context after SECONDS, or later if something changes until then.
Publish it after REMAINING seconds in any case."
  (let ((changes gemini-companion-context--changes))
    (setq gemini-companion-context--timer
          (run-at-time seconds nil
                       (lambda ()
                         (let ((remaining (- remaining seconds))
                               (missing (if (= changes gemini-companion-context--changes) 0
                                          (gemini-companion-context--missing-delay))))
                           (if (and (> remaining 0) (> missing 0))
                               (gemini-companion-context--wait (min missing remaining) remaining)
                             (setq gemini-companion-context--timer nil)
                             (gemini-companion-context--publish))))))))

(defun gemini-companion-context--missing-delay ()
  "Return how many seconds remain of the delay after the last change.
That was made by the last command, after which Emacs became idle, or at
the time that was recorded.  To take the time after each command would
take longer than all else that is done then."
  (let ((idle (current-idle-time)))
    (- gemini-companion-context--delay
       (max 0 (min (if idle (float-time idle) 0)
                   (- (gemini-companion-context--now) gemini-companion-context--changed))))))

(defun gemini-companion-context--now ()
  "Return the seconds since 1970."
  (float-time))

(defun gemini-companion-context--publish ()
  "Publish the contexts that have changed, and run the hook for changes.
If it is not known yet which files are told to whom, do so when it is."
  (gemini-companion-log-errors "context"
    (gemini-companion-context--record-focus)
    (if (gemini-companion-workspace-pending-p) (gemini-companion-workspace-hasten)
      (gemini-companion-context--publish-known))
    (gemini-companion-log-run-hook 'gemini-companion-context-change-hook)))

(defun gemini-companion-context--publish-known ()
  "Publish the contexts that have changed, or some of them now and others soon."
  (setq gemini-companion-context--places (gemini-companion-context--present-places))
  (pcase-let ((`(,due . ,later) (gemini-companion-context--due)))
    (gemini-companion-context--gather-places due)
    (when-let* ((new (cl-loop for place in due
                              unless (gemini-companion-context--place-published place)
                              collect (list (gemini-companion-context--place-directory place)
                                            (gemini-companion-context--place-files place)
                                            (gemini-companion-context--place-trusted place)))))
      (gemini-companion-bridge-publish-contexts new)
      (dolist (place due)
        (setf (gemini-companion-context--place-published place) t)))
    (when later (gemini-companion-context--publish-soon))))

(defun gemini-companion-context--present-places ()
  "Return the places where clients work now."
  (let ((directories (gemini-companion-bridge-places))
        (places gemini-companion-context--places))
    (if (equal directories (mapcar #'gemini-companion-context--place-directory places)) places
      (let ((known (make-hash-table :test #'equal)))
        (dolist (place places)
          (puthash (gemini-companion-context--place-directory place) place known))
        (mapcar (lambda (directory)
                  (or (gethash directory known)
                      (gemini-companion-context--make-place directory)))
                directories)))))

(defun gemini-companion-context--due ()
  "Return the places whose contexts may have changed, as (DUE . LATER).
DUE are those to be gathered now: new ones, those with the active file, and
of the others the ones gathered longest ago.  LATER is non-nil if there
are more because of changes, and not only of their age."
  (let* ((active (gemini-companion-context--own-scopes))
         (due nil)
         (others nil)
         (old (- (gemini-companion-context--now) gemini-companion-context--lifetime))
         (stale (max old gemini-companion-context--changed)))
    (dolist (place gemini-companion-context--places)
      (let ((gathered (gemini-companion-context--place-gathered place)))
        (cond ((or (not gathered)
                   gemini-companion-context-paused
                   (memq (gemini-companion-context--place-scope place) active))
               (push place due))
              ((<= gathered stale) (push place others)))))
    (setq others (sort (nreverse others)
                       (lambda (a b)
                         (< (gemini-companion-context--place-gathered a)
                            (gemini-companion-context--place-gathered b)))))
    (let ((later (nth gemini-companion-context--max-others others)))
      (cons (nconc (nreverse due)
                   (cl-loop for place in others
                            repeat gemini-companion-context--max-others collect place))
            (and later
                 (<= (gemini-companion-context--place-gathered later)
                     gemini-companion-context--changed))))))

(defun gemini-companion-context--own-scopes ()
  "Return the scopes that the active file is in; update those of all places."
  (let ((scopes (gemini-companion-workspace-scopes))
        (active (gemini-companion-context--active-buffer)))
    (dolist (place gemini-companion-context--places)
      (unless (eq scopes (gemini-companion-context--place-scopes place))
        (setf (gemini-companion-context--place-scopes place) scopes
              (gemini-companion-context--place-scope place)
              (gemini-companion-workspace-scope-of
               (gemini-companion-context--place-directory place)))))
    (and active (gemini-companion-context--scopes-of active))))

(defun gemini-companion-context--gather-places (places)
  "Gather the contexts of PLACES."
  (let ((all (cl-loop for place in places
                      unless (gemini-companion-context--move-point place)
                      collect place))
        (now (gemini-companion-context--now)))
    (cl-loop for place in all
             for (_ . files) in (gemini-companion-context--contexts
                                 (mapcar #'gemini-companion-context--place-directory all))
             do (gemini-companion-context--set-files place files)
             (gemini-companion-context--set-trusted place)
             (setf (gemini-companion-context--place-gathered place) now))))

(defun gemini-companion-context--set-trusted (place)
  "Record whether PLACE is trusted; if that is new, its context is published."
  (let ((trusted (gemini-companion-context-trusted-p
                  (gemini-companion-context--place-directory place))))
    (unless (eq trusted (gemini-companion-context--place-trusted place))
      (setf (gemini-companion-context--place-trusted place) trusted
            (gemini-companion-context--place-published place) nil))))

(defvar trusted-content)

(defun gemini-companion-context-trusted-p (directory)
  "Return t if clients that work in DIRECTORY are told that it is trusted.
See `gemini-companion-trusted-roots'."
  (let ((roots (if (not (eq gemini-companion-trusted-roots 'trusted-content))
                   gemini-companion-trusted-roots
                 (and (boundp 'trusted-content) (default-value 'trusted-content))))
        ;; No host is asked.
        (file-name-handler-alist nil))
    (and roots directory
         (or (eq roots :all)
             (cl-loop with name = (gemini-companion-context--directory-truename directory)
                      for root in roots
                      thereis (and (or (directory-name-p root)
                                       ;; In `trusted-content' that would be a file.
                                       (listp gemini-companion-trusted-roots))
                                   (string-prefix-p
                                    (gemini-companion-context--directory-truename root) name)))))))

(defun gemini-companion-context--directory-truename (directory)
  "Return DIRECTORY without symbolic links, with a slash at the end."
  (file-name-as-directory (file-truename directory)))

(defun gemini-companion-context--set-files (place files)
  "Make FILES the context of PLACE, to be published if it is another one."
  (unless (equal files (gemini-companion-context--place-files place))
    (setf (gemini-companion-context--place-files place) files
          (gemini-companion-context--place-published place) nil)))

(defun gemini-companion-context--move-point (place)
  "Describe the active file in the context of PLACE again.
Return nil if that is not enough, as more than point may have changed."
  (let ((gathered (gemini-companion-context--place-gathered place))
        (file (car (gemini-companion-context--place-files place)))
        (buffer (gemini-companion-context--active-buffer)))
    (when (and gathered file buffer
               (> gathered gemini-companion-context--changed)
               (< -1 (- (gemini-companion-context--now) gathered)
                  gemini-companion-context--lifetime)
               (aref file 2)
               (eq (aref file 0) (gemini-companion-context--told-name-of buffer))
               (not gemini-companion-context-paused)
               (gemini-companion-context--active-p buffer)
               (not (gemini-companion-context--reason buffer)))
      (gemini-companion-context--set-files
       place (cons (gemini-companion-context--describe buffer t)
                   (cdr (gemini-companion-context--place-files place))))
      t)))

;;;; Gathering

(defun gemini-companion-context-gather (&optional directory)
  "Return the context of clients that work in DIRECTORY.
If DIRECTORY is nil, that of clients whose directory is unknown.  It is a
list of vectors, see FILES in `gemini-companion-bridge-publish-contexts'."
  (gemini-companion-context--record-focus)
  (cdar (gemini-companion-context--contexts (list directory))))

(defun gemini-companion-context--contexts (directories)
  "Return the contexts of clients that work in DIRECTORIES.
For the format see `gemini-companion-bridge-publish-contexts'."
  (if gemini-companion-context-paused
      (mapcar #'list directories)
    (cl-loop for directory in directories
             for listing in (gemini-companion-context--gather directories)
             collect (cons directory
                           (reverse (gemini-companion-context--listing-files listing))))))

(cl-defstruct (gemini-companion-context--listing
               (:constructor gemini-companion-context--make-listing (scope))
               (:copier nil))
  "The files gathered for a scope so far."
  scope
  (files nil :documentation "Their vectors, the last one first.")
  (remaining gemini-companion-context--max-files :documentation "How many more fit in.")
  (checks gemini-companion-context--max-checks :documentation "How many more may be checked.")
  (decided nil :documentation "Non-nil if no later file can be the active one."))

(defun gemini-companion-context--gather (directories)
  "Return a listing for each of DIRECTORIES, in one pass over the recent files."
  (let* ((listings (mapcar (lambda (directory)
                             (gemini-companion-context--make-listing
                              (gemini-companion-workspace-scope-of directory)))
                           directories))
         (unfinished (mapcar (lambda (listing)
                               (cons (gemini-companion-context--listing-scope listing) listing))
                             listings))
         (entries gemini-companion-context--recent))
    (while (and entries unfinished)
      (let ((entry (pop entries)))
        (when (or (stringp entry) (buffer-live-p entry))
          (when-let* ((its (cl-loop for scope in (gemini-companion-context--scopes-of entry)
                                    for found = (assq scope unfinished)
                                    if found collect found)))
            (gemini-companion-context--add entry (mapcar #'cdr its))
            (dolist (scope-and-listing its)
              (when (gemini-companion-context--full-p (cdr scope-and-listing))
                (setq unfinished (delq scope-and-listing unfinished))))))))
    listings))

(defun gemini-companion-context--full-p (listing)
  "Return non-nil if no more files can be added to LISTING."
  (or (zerop (gemini-companion-context--listing-remaining listing))
      (zerop (gemini-companion-context--listing-checks listing))))

(defun gemini-companion-context--scopes-of (entry)
  "Return the scopes that the file of ENTRY, one of the recent files, is in."
  (if (stringp entry) (gemini-companion-workspace-scopes-with entry entry)
    (pcase-let ((`(,stamp ,file ,truename . ,scopes)
                 (buffer-local-value 'gemini-companion-context--scopes entry)))
      (if (and file
               (eq stamp (gemini-companion-workspace-scopes-stamp))
               (eq file (buffer-local-value 'buffer-file-name entry))
               (eq truename (buffer-local-value 'buffer-file-truename entry)))
          scopes
        (gemini-companion-context--find-scopes entry)))))

(defun gemini-companion-context--find-scopes (buffer)
  "Return the scopes that the file of BUFFER is in, and remember them."
  (pcase-let ((`(,file . ,truename) (gemini-companion-context--names buffer)))
    (when file
      (let ((scopes (gemini-companion-workspace-scopes-with file truename)))
        (with-current-buffer buffer
          (setq gemini-companion-context--scopes
                `(,(gemini-companion-workspace-scopes-stamp)
                  ,file ,buffer-file-truename . ,scopes)))
        scopes))))

(defun gemini-companion-context--add (entry listings)
  "Add ENTRY of the recent files to LISTINGS, whose scopes it is in."
  (let ((withheld (or (stringp entry) (gemini-companion-context--reason entry)))
        (focused (or (stringp entry) (gemini-companion-context--focused-p entry)))
        (active nil)
        (inactive nil))
    (dolist (listing listings)
      (cl-decf (gemini-companion-context--listing-checks listing))
      (unless withheld
        (cl-decf (gemini-companion-context--listing-remaining listing))
        (push (if (and (not (gemini-companion-context--listing-decided listing))
                       (gemini-companion-context--active-p entry))
                  (or active (setq active (gemini-companion-context--describe entry t)))
                (or inactive (setq inactive (gemini-companion-context--describe entry nil))))
              (gemini-companion-context--listing-files listing)))
      (when focused
        (setf (gemini-companion-context--listing-decided listing) t)))))

(defun gemini-companion-context--names (entry)
  "Return the file name of ENTRY as (NAME . TRUENAME).
If ENTRY is nil, both are nil."
  (if (not (bufferp entry)) (cons entry entry)
    (cons (buffer-local-value 'buffer-file-name entry)
          (gemini-companion-file-truename entry))))

(defun gemini-companion-context--told-name-of (buffer)
  "Return the name by which clients know the file of BUFFER, the same object."
  (let ((file (buffer-local-value 'buffer-file-name buffer))
        (host (gemini-companion-host-of-buffer buffer))
        (known (buffer-local-value 'gemini-companion-context--told-name buffer)))
    (cond ((not host) file)
          ((and (eq file (car known)) (eq host (cadr known))) (cddr known))
          (t (with-current-buffer buffer
               (cddr (setq gemini-companion-context--told-name
                           `(,file ,host
                                   . ,(gemini-companion-host-local-name host file)))))))))

(defun gemini-companion-context--active-p (buffer)
  "Return non-nil if BUFFER, the one focused last, is active.
See `gemini-companion-active-file'."
  (let ((shown (gemini-companion-context--shown-buffer buffer)))
    (and (gemini-companion-context--focused-p buffer)
         (or (eq shown (window-buffer (selected-window)))
             (pcase gemini-companion-active-file
               ('last (buffer-live-p shown))
               ('visible (get-buffer-window shown 'visible)))))))

(defun gemini-companion-context--describe (buffer active)
  "Return the vector for the file that BUFFER visits.
ACTIVE is non-nil if it is the active file."
  (let ((file (gemini-companion-context--told-name-of buffer))
        (focused (buffer-local-value 'gemini-companion-context--focused buffer))
        (window (car (buffer-local-value 'gemini-companion-context--shown buffer))))
    (if (not active)
        (vector file focused nil nil nil nil)
      (with-current-buffer (gemini-companion-context--shown-buffer buffer)
        (pcase-let* ((point (gemini-companion-context--point window))
                     (`(,line ,character) (gemini-companion-context--line-and-character point)))
          (vector file focused t line character
                  (and gemini-companion-share-selection
                       (gemini-companion-context--selection
                        point gemini-companion-context--max-selection))))))))

(defun gemini-companion-context--point (window)
  "Return point of the current buffer, in WINDOW if that shows the buffer."
  (unless (and window (eq (window-buffer window) (current-buffer)))
    (setq window (get-buffer-window nil t)))
  (if window (window-point window) (point)))

;;;; Withheld files

(defun gemini-companion-context-withheld (&optional directory)
  "Return the open files that are not in the context, as (FILE . REASON) pairs.
The context is that of clients that work in DIRECTORY; nil if unknown."
  (let ((scope (gemini-companion-workspace-scope-of directory)))
    (cl-loop for entry in gemini-companion-context--recent
             for buffer = (and (bufferp entry) (buffer-live-p entry) entry)
             for (file . truename) = (and buffer (gemini-companion-context--names buffer))
             for reason = (and file
                               (or (gemini-companion-context--reason buffer)
                                   (gemini-companion-workspace-out-of-scope-reason
                                    file truename scope)))
             if reason collect (cons file reason)
             and count t into found
             until (eql found gemini-companion-context--max-checks))))

(defun gemini-companion-context--reason (buffer)
  "Return why clients are never told of BUFFER, as text for the user, or nil."
  (cond ((not (buffer-file-name buffer)) "no file")
        ((gemini-companion-context--elsewhere-p buffer) "remote")
        ((not (gemini-companion-context--on-disk-p buffer)) "not on disk")
        (t (with-current-buffer buffer (gemini-companion-context-private-reason)))))

(defun gemini-companion-context--on-disk-p (buffer)
  "Return non-nil if the file of BUFFER exists, as far as is known without asking."
  (if (gemini-companion-host-of-buffer buffer)
      ;; It was read or written there.
      (gemini-companion-file-visited-time buffer)
    (let ((file-name-handler-alist nil))
      (file-exists-p (buffer-file-name buffer)))))

(defun gemini-companion-context-private-reason ()
  "Return why the current buffer's file is private, as text for the user.
Return nil if it is not.  The buffer must visit a local file, or one on a
host that is served."
  (pcase-let ((`(,time ,rules ,file . ,reason) gemini-companion-context--verdict))
    (if (and time
             (not gemini-companion-private) ; which costs nothing to look at
             (eq rules gemini-companion-context--rules)
             (equal file buffer-file-name)
             (< (- (float-time) time) gemini-companion-context--verdict-lifetime))
        reason
      (cdddr (setq gemini-companion-context--verdict
                   `(,(float-time) ,gemini-companion-context--rules ,buffer-file-name
                     . ,(gemini-companion-context--judge)))))))

(defun gemini-companion-context-private-reason-of (file buffer)
  "Return why FILE, a local file, is private, or nil if it is not.
BUFFER visits it, or is nil; then its name and directory-local variables
tell."
  (if buffer (with-current-buffer buffer (gemini-companion-context-private-reason))
    (with-temp-buffer
      ;; The name comes from a client: it must not make Emacs open a connection.
      (setq buffer-file-truename (let ((file-name-handler-alist nil)) (file-truename file))
            buffer-file-name file
            default-directory (file-name-directory file))
      (unwind-protect
          (progn
            (when (gemini-companion-context--marked-private-p)
              (setq gemini-companion-private t))
            (gemini-companion-context--judge))
        (setq buffer-file-name nil)))))

(defun gemini-companion-context--marked-private-p ()
  "Return non-nil if directory-local variables mark the current buffer's file."
  (condition-case nil
      (let ((enable-local-variables :safe)
            (enable-local-eval nil))
        (hack-dir-local-variables)
        (alist-get 'gemini-companion-private file-local-variables-alist))
    (error t))) ; they cannot be read

(defun gemini-companion-context--judge ()
  "Return why the current buffer's file is private, or nil if it is not.
An error counts as a reason, so that only this file is withheld."
  (condition-case err
      (let* ((host (gemini-companion-host-of-buffer (current-buffer)))
             (names (delete-dups
                     (mapcar (lambda (name)
                               (if host (gemini-companion-host-local-name host name) name))
                             (list buffer-file-name
                                   (gemini-companion-file-truename (current-buffer))))))
             (file (car names)))
        (cond (gemini-companion-private "marked as private, perhaps in .dir-locals.el")
              ((memq 'eight-bit (find-charset-string file))
               "named with bytes that are not text")
              ((and host (not (string-match-p "\\`/\\(?:[^:]\\|\\'\\)" file)))
               "named in another way there")
              ((or (bound-and-true-p epa-file-encrypt-to)
                   (memq (find-file-name-handler file 'insert-file-contents)
                         '(epa-file-handler age-file-handler)))
               "encrypted")
              ((cl-loop for name in names thereis (gemini-companion-context--named-p name))
               "named by `gemini-companion-private-files'")
              (t (gemini-companion-context--ignored-reason names host))))
    (error (format "cannot be judged: %s" (error-message-string err)))))

(defun gemini-companion-context--named-p (file)
  "Return non-nil if `gemini-companion-private-files' matches FILE."
  (unless (eq (car gemini-companion-context--patterns) gemini-companion-private-files)
    (setq gemini-companion-context--patterns
          (cons gemini-companion-private-files (gemini-companion-context--compile))))
  (pcase-let ((`(,_ ,name ,path) gemini-companion-context--patterns)
              (case-fold-search t))
    (or (string-match-p name (file-name-nondirectory file))
        (string-match-p path file))))

(defun gemini-companion-context--compile ()
  "Return regular expressions for names and paths of private files, as a list."
  (cl-loop for glob in gemini-companion-private-files
           for regexp = (substring (wildcard-to-regexp glob) 2 -2) ; without the anchors
           if (string-search "/" glob) collect regexp into paths
           else collect regexp into names
           finally return (list (format "\\`\\(?:%s\\)\\'" (string-join names "\\|"))
                                (format "/\\(?:%s\\)\\'" (string-join paths "\\|")))))

(defun gemini-companion-context--ignored-reason (names host)
  "Return why ignore files make the file with NAMES private, or nil.
They are those in the workspace roots that it is in, on HOST or, if that is
nil, on this machine."
  (let* ((file-name-handler-alist nil)
         (around (if host
                     (apply-partially #'gemini-companion-context--host-ignore-files host)
                   #'gemini-companion-context--ignore-files-around))
         (pairs (cl-loop for name in names
                         nconc (cl-loop for ignore in (funcall around name)
                                        collect (cons name ignore)))))
    (if (length> pairs gemini-companion-context--max-ignore-files)
        (format "named below more than %d ignore files"
                gemini-companion-context--max-ignore-files)
      (cl-loop for (name . ignore) in pairs
               for result = (if host
                                (gemini-companion-bridge-host-ignored
                                 (gemini-companion-host-prefix host)
                                 (directory-file-name (file-name-directory ignore)) name)
                              (gemini-companion-bridge-ignored ignore name))
               if result
               return (if (stringp result) (format "%s %s" ignore result)
                        (format "named by %s" ignore))))))

(defun gemini-companion-context--host-ignore-files (host name)
  "Return the ignore files around the file NAME on HOST, which need not exist.
A host tells of those in its workspace roots."
  (mapcar (lambda (root)
            (concat (file-name-as-directory root) (car gemini-companion-context--ignore-files)))
          (gemini-companion-host-roots-of host name)))

(defun gemini-companion-context--ignore-files-around (file)
  "Return the ignore files in the directories around FILE, up to a workspace root.
Those below the root count, too: a client may work there, as in a submodule."
  (cl-loop for directory in (gemini-companion-workspace-directories-of file)
           nconc (cl-loop for name in gemini-companion-context--ignore-files
                          for ignore = (concat directory name)
                          ;; A link to a file that cannot be reached counts.
                          if (or (file-exists-p ignore) (file-symlink-p ignore))
                          collect ignore)))

;;;; Lines and columns

(defun gemini-companion-context--watch-lines ()
  "Keep the known line of the current buffer known through edits below it."
  (add-hook 'before-change-functions #'gemini-companion-context--text-changed nil t)
  (add-hook 'after-change-functions #'gemini-companion-context--text-changed nil t))

(defun gemini-companion-context--unwatch-lines ()
  "Undo `gemini-companion-context--watch-lines'.
The known line stays known until the next edit."
  (remove-hook 'before-change-functions #'gemini-companion-context--text-changed t)
  (remove-hook 'after-change-functions #'gemini-companion-context--text-changed t))

(defun gemini-companion-context--text-changed (start _end &optional length)
  "Keep the known line through a change at START, or forget it.
LENGTH is nil before the change.  A changed tick then tells of an earlier
change that ran no hooks."
  (when gemini-companion-context--known
    (cond ((< start (cadr gemini-companion-context--known))
           (setq gemini-companion-context--known nil))
          (length
           (setcar gemini-companion-context--known (buffer-chars-modified-tick)))
          ((/= (car gemini-companion-context--known) (buffer-chars-modified-tick))
           (setq gemini-companion-context--known nil)))))
(put 'gemini-companion-context--text-changed 'permanent-local-hook t)

(defun gemini-companion-context--line-and-character (position)
  "Return (LINE CHARACTER) for POSITION in the whole buffer, both from 1.
CHARACTER is its column in UTF-16 code units."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char position)
      (let* ((inhibit-field-text-motion t)
             (start (line-beginning-position)))
        (list (gemini-companion-context--line start)
              (1+ (gemini-companion-context--utf-16-length start position)))))))

(defun gemini-companion-context--line (start)
  "Return the number of the line that begins at START, which is then known.
Count from the known line or from the first one, whichever is nearer."
  (pcase-let* ((now (buffer-chars-modified-tick))
               (`(,tick ,known . ,line) gemini-companion-context--known))
    (unless (and (eql tick now)
                 (< (abs (- start known)) (- start (point-min))))
      (setq known (point-min)
            line 1))
    (setq line (if (< start known) (- line (gemini-companion-context--count-lines start known))
                 (+ line (gemini-companion-context--count-lines known start)))
          gemini-companion-context--known (cons now (cons start line)))
    line))

(defun gemini-companion-context--count-lines (start end)
  "Return the number of lines between START and END, both starts of lines."
  (save-restriction
    (narrow-to-region start end)
    ;; Many times faster than moving there.
    (1- (line-number-at-pos end))))

(defun gemini-companion-context--utf-16-length (start end)
  "Return the number of UTF-16 code units from START to END.
For its limit see `gemini-companion-context--max-column'."
  (let ((count (- end start)))
    (if (or (= count (- (position-bytes end) (position-bytes start))) ; all ASCII
            (> count gemini-companion-context--max-column))
        count
      (/ (string-bytes (encode-coding-string
                        (buffer-substring-no-properties start end) 'utf-16le t))
         2))))

;;;; Selections

(defun gemini-companion-context--selection (point limit)
  "Return the text that is selected when point is at POINT, or nil.
It is the region if that is active, as a rectangle in Rectangle Mark mode,
or the selection of Evil's visual state.  Of a text that is longer than
LIMIT characters, return at least that many."
  (pcase-let
      ((`(,start ,end ,type . ,_)
        (cond ((and (eq (bound-and-true-p evil-state) 'visual) (fboundp 'evil-visual-range))
               ;; For blocks Evil switches Transient Mark mode off.
               (evil-visual-range))
              ((and transient-mark-mode mark-active (mark t) (/= point (mark t)))
               (list (min point (mark t)) (max point (mark t))
                     (and (bound-and-true-p rectangle-mark-mode) 'rectangle))))))
    (pcase type
      ('block (gemini-companion-context--rows
               (lambda (collect) (evil-apply-on-block collect start end t)) limit))
      ('rectangle (gemini-companion-context--rows
                   (lambda (collect) (apply-on-rectangle collect start end)) limit))
      (_ (and start (gemini-companion-context--text start end limit))))))

(defun gemini-companion-context--text (start end limit)
  "Return the accessible text from START to END, at most LIMIT characters."
  (let* ((start (max start (point-min)))
         (end (min end (point-max) (+ start limit))))
    (and (< start end) (buffer-substring-no-properties start end))))

(defun gemini-companion-context--rows (walk limit)
  "Return the rows of a rectangle as lines of text.
WALK calls a function at the start of each line with the two columns of
the rectangle.  Stop after the row that reaches LIMIT characters."
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

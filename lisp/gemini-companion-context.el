;;; gemini-companion-context.el --- The context that clients are sent -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The context is a snapshot of what the user is working on: the open files, the active one, and
;; point and the selection there.  It is published soon after a change, and only while a client is
;; connected or a buffer shows it.
;;
;; Private files are withheld, see `gemini-companion-private.el'.  Clients on a host are told of its
;; files, by the names that these have there; Emacs asks the host nothing.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-bridge)
(require 'gemini-companion-file)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-private)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function apply-on-rectangle "rect")
(declare-function evil-apply-on-block "ext:evil-common")
(declare-function extract-rectangle-line "rect")

;;;; Options

(defcustom gemini-companion-share-selection t
  "Non-nil means send clients the selected text, up to 16384 characters."
  :type 'boolean
  :group 'gemini-companion-context)

(defcustom gemini-companion-trusted-roots nil
  "Workspace roots that clients should trust.
If nil, Emacs says nothing, and clients follow their own settings.
Otherwise a list of directories: Emacs tells a client that works in or below
one of them that you trust that directory.

If folder trust is on in Gemini CLI, it then asks nothing, and ignores its
own list of trusted folders.  If that list says otherwise, it asks to be
restarted."
  :type '(choice (const :tag "Clients decide" nil)
                 (repeat :tag "These directories" directory))
  :group 'gemini-companion-context
  :risky t)

(defvar gemini-companion-context-change-hook nil
  "Hook run whenever the context may have changed.
Its functions get the context from `gemini-companion-context-gather'.  After you
add one, call `gemini-companion-context-update'.")

;;;; State

(defvar gemini-companion-context-paused nil
  "Non-nil while clients are told that no file is open.")

(defvar gemini-companion-context--latest -1
  "When a file was focused last, in milliseconds since 1970; -1 if none was.")

(defvar-local gemini-companion-context--shown nil
  "Where this buffer was focused last, as (WINDOW . BUFFER), or nil.
BUFFER is this buffer or an indirect buffer of it.")
(put 'gemini-companion-context--shown 'permanent-local t) ; through a revert

(defvar-local gemini-companion-context--focused 0
  "When this buffer was focused last, in milliseconds since 1970; 0 if never.")
(put 'gemini-companion-context--focused 'permanent-local t) ; through a revert

(defvar-local gemini-companion-context--left nil
  "Non-nil if a click in another window has deactivated the mark of this buffer.")

(defvar gemini-companion-context--changed 0
  "When the context changed last, in seconds since 1970.")

(defconst gemini-companion-context--pause 0.05
  "Seconds without a change after which the context is published.")

(defvar gemini-companion-context--private (make-hash-table :test #'eq :weakness 'key)
  "Whether the files of buffers are private, as (FILE TIME TOOK . REASON).
TIME is when Emacs looked, in seconds since 1970, and TOOK for how long.")

(defvar gemini-companion-context--lifetime 1.0
  "Seconds for which Emacs remembers whether a file is private.
A hundred times as long as finding out took is added, at most ten minutes.")

;;;; Starting and stopping

(defun gemini-companion-context-start ()
  "Track files, and publish the context while anything uses it."
  (dolist (buffer (buffer-list))
    (with-current-buffer buffer
      (when (and buffer-file-name buffer-display-time (zerop gemini-companion-context--focused))
        (setq gemini-companion-context--focused (car (time-convert buffer-display-time 1000))))))
  (gemini-companion-context--change-hooks #'add-hook)
  ;; Before the hook by which Rectangle Mark mode ends.
  (add-hook 'deactivate-mark-hook #'gemini-companion-context--record-click -50)
  (gemini-companion-context-update))

(defun gemini-companion-context-stop ()
  "Stop publishing the context."
  (gemini-companion-context--change-hooks #'remove-hook)
  (remove-hook 'deactivate-mark-hook #'gemini-companion-context--record-click)
  (cancel-function-timers #'gemini-companion-context--publish-unless-changed))

(defun gemini-companion-context--used-p ()
  "Return non-nil if anything uses the context."
  (or gemini-companion-context-change-hook
      (> gemini-companion-bridge-clients 0)))

(defun gemini-companion-context-update (&rest _)
  "Publish the context now, if anything uses it."
  (when (gemini-companion-context--used-p)
    (gemini-companion-context--publish)))

(defun gemini-companion-context--change-hooks (change)
  "Call CHANGE, `add-hook' or `remove-hook', for each hook and its function."
  (pcase-dolist
      (`(,function . ,hooks)
       '((gemini-companion-context-update gemini-companion-bridge-clients-functions)
         (gemini-companion-context--record-focus
          window-selection-change-functions window-buffer-change-functions)
         (gemini-companion-context--forget-private after-save-hook)
         (gemini-companion-context--publish-soon
          post-command-hook window-selection-change-functions window-buffer-change-functions
          find-file-hook kill-buffer-hook after-revert-hook after-save-hook
          after-set-visited-file-name-hook gemini-companion-workspace-change-hook
          gemini-companion-host-change-hook)))
    (dolist (hook hooks)
      (funcall change hook function))))

;;;###autoload
(defun gemini-companion-toggle-context ()
  "Pause or resume telling clients which files you have open.
While this is paused, Emacs tells them that no file is open."
  (interactive)
  (setq gemini-companion-context-paused (not gemini-companion-context-paused))
  (gemini-companion-context-update)
  (force-mode-line-update t)
  (message (cond ((not (gemini-companion-bridge-running-p))
                  "Context %s, but `gemini-companion-mode' is off: no client sees anything")
                 (gemini-companion-context-paused "Context %s: clients see no open files")
                 (t "Context %s: clients see your open files again"))
           (if gemini-companion-context-paused "paused" "resumed")))

;;;; Recent files

(defun gemini-companion-context--record-focus (&rest _)
  "Record the file that the selected window shows, if any, as the one focused last."
  (gemini-companion-log-errors "focus"
    (let* ((shown (window-buffer (selected-window)))
           (buffer (or (buffer-base-buffer shown) shown)))
      (when (buffer-file-name buffer)
        (with-current-buffer shown (setq gemini-companion-context--left nil))
        (with-current-buffer buffer
          (setq gemini-companion-context--shown (cons (selected-window) shown))
          (unless (= gemini-companion-context--focused gemini-companion-context--latest)
            ;; Two may be focused in one millisecond, or the clock set back in between.
            (setq gemini-companion-context--latest (max (car (time-convert nil 1000))
                                                        (1+ gemini-companion-context--latest))
                  gemini-companion-context--focused gemini-companion-context--latest)))))))

(defun gemini-companion-context--record-click ()
  "Record whether a click in another window deactivates the mark.
The selection then stays, as it does if you leave its window by a key."
  (setq gemini-companion-context--left
        (and (mouse-event-p last-input-event)
             (not (eq (posn-window (event-start last-input-event)) (selected-window)))
             (not (bound-and-true-p rectangle-mark-mode)))))

;;;; Publishing

(defun gemini-companion-context--publish-soon (&rest _)
  "Publish the context once it has not changed for 50 ms.
This runs after each command, so it leaves all but the time to a timer."
  (when (gemini-companion-context--used-p)
    (setq gemini-companion-context--changed (float-time))
    (gemini-companion-ui-adjust-timer t gemini-companion-context--pause nil
                                      #'gemini-companion-context--publish-unless-changed)))

(defun gemini-companion-context--publish-unless-changed ()
  "Publish the context, or wait if it has changed a moment ago."
  (let ((left (- (+ gemini-companion-context--changed gemini-companion-context--pause)
                 (float-time))))
    ;; Hooks that run together count as one.
    (if (< 0.001 left gemini-companion-context--pause)
        (run-at-time left nil #'gemini-companion-context--publish-unless-changed)
      (gemini-companion-context-update))))

(defun gemini-companion-context--publish ()
  "Publish the context of each directory where clients work; run the hook for it.
While the workspace roots are not known, only run the hook."
  (gemini-companion-log-errors "context"
    (unless gemini-companion-workspace-pending
      (gemini-companion-context--record-focus)
      (let ((buffers (gemini-companion-context--buffers)))
        (gemini-companion-bridge-publish-contexts
         (mapcar (lambda (directory)
                   (vector directory
                           (vconcat (gemini-companion-context--in-scope buffers directory))
                           (gemini-companion-context-trusted-p directory)))
                 (gemini-companion-bridge-places)))))
    (gemini-companion-log-run-hook 'gemini-companion-context-change-hook)))

(defun gemini-companion-context-trusted-p (directory)
  "Return t if clients that work in DIRECTORY are told that it is trusted."
  (when-let* ((roots (and directory (ensure-list gemini-companion-trusted-roots))))
    (let* ((file-name-handler-alist nil) ; no host is asked
           (name (file-name-as-directory (file-truename directory))))
      (cl-loop for root in roots
               thereis (string-prefix-p (file-name-as-directory (file-truename root)) name)))))

;;;; Gathering

(defun gemini-companion-context-gather (&optional directory)
  "Return the context of clients that work in DIRECTORY.
If DIRECTORY is nil, that of clients whose directory is unknown.  It is a
list of vectors, see FILES in `gemini-companion-bridge-publish-contexts'."
  (gemini-companion-context--record-focus)
  (gemini-companion-context--in-scope (gemini-companion-context--buffers) directory))

(defun gemini-companion-context--buffers ()
  "Return the buffers that visit files.
Those that were focused come first, the one focused last before all others."
  (seq-sort-by (lambda (it) (buffer-local-value 'gemini-companion-context--focused it)) #'>
               (seq-filter (lambda (it) (and (buffer-file-name it) (not (buffer-base-buffer it))))
                           (buffer-list))))

(defun gemini-companion-context--in-scope (buffers directory)
  "Return vectors for those files of BUFFERS that clients in DIRECTORY are told of.
The active file is the one focused last, unless that is withheld."
  (let ((files nil)
        (decided nil))                  ; non-nil if no later file can be the active one
    (cl-loop with scope = (gemini-companion-workspace-scope-of directory)
             with host = (gemini-companion-workspace-scope-machine scope)
             for buffer in (and (not gemini-companion-context-paused) buffers)
             for file = (buffer-file-name buffer)
             for focused = (> (buffer-local-value 'gemini-companion-context--focused buffer) 0)
             until (length= files 10)   ; clients ignore more
             for truename = (gemini-companion-file-truename buffer)
             unless (gemini-companion-workspace-out-of-scope-reason file truename scope)
             do (unless (gemini-companion-context--reason buffer)
                  (push (gemini-companion-context--describe
                         buffer
                         (if (not host) file
                           (or (gemini-companion-host-name-there host file)
                               (gemini-companion-host-name-there host truename)))
                         (and focused (not decided)))
                        files))
             (setq decided (or decided focused)))
    (nreverse files)))

(defun gemini-companion-context--describe (buffer file active)
  "Return the vector for the file that BUFFER visits, which clients call FILE.
ACTIVE is non-nil if it is the active file."
  (pcase-let ((focused (buffer-local-value 'gemini-companion-context--focused buffer))
              (`(,window . ,shown) (buffer-local-value 'gemini-companion-context--shown buffer)))
    (if (not active)
        (vector file focused nil nil nil nil)
      (with-current-buffer (if (buffer-live-p shown) shown buffer)
        (pcase-let* ((window (if (and window (eq (window-buffer window) (current-buffer))) window
                               (get-buffer-window nil t)))
                     (point (if window (window-point window) (point)))
                     (`(,line ,character) (gemini-companion-context-line-and-character point)))
          (vector file focused t line character
                  (and gemini-companion-share-selection
                       ;; Clients ignore more.
                       (gemini-companion-context--selection point 16384))))))))

;;;; Withheld files

(defun gemini-companion-context-withheld (&optional directory)
  "Return the open files that are not in the context, as (FILE . REASON) pairs.
The context is that of clients that work in DIRECTORY; nil if unknown."
  (let ((scope (gemini-companion-workspace-scope-of directory)))
    (cl-loop for buffer in (gemini-companion-context--buffers)
             for file = (buffer-file-name buffer)
             for reason = (or (gemini-companion-context--reason buffer)
                              (gemini-companion-workspace-out-of-scope-reason
                               file (gemini-companion-file-truename buffer) scope 'exactly))
             if reason collect (cons file reason)
             and count t into found
             until (eql found 50))))

(defun gemini-companion-context--reason (buffer)
  "Return why clients are never told of the file of BUFFER, as text, or nil."
  (let* ((file (buffer-file-name buffer))
         (machine (gemini-companion-workspace-machine file)))
    (cond ((eq machine 'elsewhere) "remote")
          ((not (if machine (gemini-companion-file-visited-time buffer) ; known without asking
                  (let ((file-name-handler-alist nil)) (file-exists-p file))))
           "not on disk")
          ;; What a host has reported is quickly looked up.
          (machine (with-current-buffer buffer (gemini-companion-private-reason)))
          (t (gemini-companion-context--private-reason buffer)))))

(defun gemini-companion-context--private-reason (buffer)
  "Return why the file of BUFFER is private, or was a moment ago.
Looking for ignore files whenever the context is published would take long; on
a slow disk, such as a drive of Windows in WSL, so would doing it each second."
  (with-current-buffer buffer
    (let ((now (float-time)))
      (pcase (gethash buffer gemini-companion-context--private)
        ((and `(,file ,time ,took . ,reason)
              (guard (and (not gemini-companion-private) (equal file buffer-file-name)
                          (gemini-companion-ui-recent-p
                           time (* gemini-companion-context--lifetime
                                   (1+ (* 100 (min took 6))))))))
         reason)
        (_ (let ((reason (gemini-companion-private-reason)))
             (puthash buffer `(,buffer-file-name ,now ,(- (float-time) now) . ,reason)
                      gemini-companion-context--private)
             reason))))))

(defun gemini-companion-context--forget-private ()
  "Forget which files are private, since ignore rules may have changed."
  (clrhash gemini-companion-context--private))

;;;; Lines and columns

(defun gemini-companion-context-line-and-character (position)
  "Return (LINE CHARACTER) for POSITION in the whole buffer, both from 1.
CHARACTER is its column in UTF-16 code units."
  (gemini-companion-ui-widened
    (goto-char position)
    (let* ((inhibit-field-text-motion t)
           (line (line-number-at-pos))
           (start (goto-char (line-beginning-position)))
           (more 0))
      ;; Those that are not skipped take two code units.  Compiling a regexp for them takes 4 ms.
      (while (progn
               (skip-chars-forward "\0-\uFFFF\x3fff80-\x3fffff" position)
               (< (point) position))
        (forward-char)
        (cl-incf more))
      (list line (+ 1 (- position start) more)))))

;;;; Selections

(defun gemini-companion-context--selection (point limit)
  "Return the text that is selected when point is at POINT, or nil.
Of a text that is longer than LIMIT characters, return at least that many."
  (pcase-let
      ((`(,start ,end ,type . ,_)
        (cond ((and (eq (bound-and-true-p evil-state) 'visual) (fboundp 'evil-visual-range))
               ;; For blocks Evil switches Transient Mark mode off.
               (evil-visual-range))
              ((and transient-mark-mode (or mark-active gemini-companion-context--left)
                    (mark t) (/= point (mark t)))
               (list (min point (mark t)) (max point (mark t))
                     (and (bound-and-true-p rectangle-mark-mode) 'rectangle))))))
    (pcase type
      ('block (gemini-companion-context--rows
               (lambda (collect) (evil-apply-on-block collect start end t)) limit))
      ('rectangle (gemini-companion-context--rows
                   (lambda (collect) (apply-on-rectangle collect start end)) limit))
      (_ (when start
           (let ((start (max start (point-min))))
             (and (< start (min end (point-max)))
                  (buffer-substring-no-properties
                   start (min end (point-max) (+ start limit))))))))))

(defun gemini-companion-context--rows (walk limit)
  "Return the rows of a rectangle, until they reach LIMIT characters, as lines.
WALK calls a function at the start of each line with the two columns."
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

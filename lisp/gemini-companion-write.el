;;; gemini-companion-write.el --- What clients write -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; After an accept the client writes the file.  This library decides what the client must be sent
;; for that, checks whether it has written, which not every client reports, and updates the buffer.
;;
;; A buffer that visits the file then gets the new text: point and marks stay, and Emacs does not
;; ask about a file that "changed on disk".  Undo makes the buffer modified, since the file still
;; has the new text.  A buffer with unsaved edits is left alone.  All this happens in timers, where
;; nothing may ask a question.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-cli)
(require 'gemini-companion-file)
(require 'gemini-companion-heavy)
(require 'gemini-companion-history)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-review-effect)
(require 'gemini-companion-ui)

(declare-function gemini-companion--mod-decode "ext:gemini-companion-module" (bytes unix) t)

;; Emacs binds it while it reverts a buffer.
(defvar revert-buffer-preserve-modes)
(defvar lsp-bridge-revert-buffer-flag)

;;;; Options

(defcustom gemini-companion-accept-without-text 'tried
  "Whether to omit the text when you accept a change unedited.
Gemini CLI takes any text that Emacs sends for an edit of yours, and sends
its model the whole file, twice.  Without a text, it writes what it
proposed, and its model reads a few lines.

If `tried', omit the text for versions of clients with which this was
tested.  If `always', omit it for all clients; some might then write an
empty file.  If `never', send all clients the text.

After an accept without the text, Emacs checks that the file becomes what
you accepted, and warns you if it does not.  You can then write it with
\\[gemini-companion-history-list]."
  :type '(choice (const :tag "For tested versions" tried)
                 (const :tag "Always" always)
                 (const :tag "Never" never))
  :group 'gemini-companion-review)

;;;; Accepts without the text

(defun gemini-companion-write-may-omit-p (review text)
  "Return non-nil if the client of REVIEW writes TEXT without being sent it."
  (pcase-let (((cl-struct gemini-companion-review agent info proposed) review))
    (and (pcase gemini-companion-accept-without-text
           ('always t)
           ('tried (gemini-companion-agent-needs-no-text-p agent (car info) (cdr info))))
         (equal text proposed)
         ;; The user has been asked about an empty one.
         (not (string-empty-p text))
         ;; If the file has changed, the client would make its change in the new text.
         (not (gemini-companion-review-effect-file-changed-p review)))))

;;;; Whether it was written

(defvar gemini-companion-write--poll-interval 0.1
  "Seconds between checks of a file that a client may write.")

(defvar gemini-companion-write--slow-interval 1.0
  "Seconds between checks while the client is expected to write only later.")

(defvar gemini-companion-write--decision-time 3.0
  "Seconds within which a client writes the file after the user accepts there.")

(defvar gemini-companion-write--text-time 5.0
  "Seconds within which a client writes the text that was accepted in Emacs.")

(defvar gemini-companion-write--host-time 40.0
  "Seconds within which a connected host reports what a client has written there.
It takes that long until a connection that was cut is known to be lost.")

(defun gemini-companion-write-await-decision (review stamp text quietly)
  "Find out how REVIEW, which its client has closed, was decided there.
The client does not report that: either it writes the file, whose stamp
was STAMP, or it does not.  If TEXT is non-nil, it should write that,
which it may not have been sent.  Tell the user unless QUIETLY is non-nil."
  (let ((path (gemini-companion-review-path review))
        ;; Later proposals of the client belong to another turn.
        (others (gemini-companion-write-others review))
        (first-seen (gemini-companion-write--once #'float-time))
        (contains-p (gemini-companion-write--once #'gemini-companion-write--contains-p review)))
    (gemini-companion-write--poll
     gemini-companion-write--decision-time
     (lambda () (let* ((now (gemini-companion-file-stamp path))
                       (since (funcall first-seen now)))
                  (or (and now (not (equal now stamp))
                           (or (funcall contains-p now)
                               ;; Another CLI may be writing what the user has accepted from it.
                               (and (> (- (float-time) since) gemini-companion-write--poll-interval)
                                    (not (gemini-companion-write--saved-p path))
                                    (not (gemini-companion-write--of-another-p review)))))
                      (and (gemini-companion-write--later-p review others) 'busy))))
     (lambda (written)
       (gemini-companion-write--note-decision review written quietly)
       (when (and written text)
         (gemini-companion-write-await-text review text stamp nil))))))

(defun gemini-companion-write--note-decision (review written quietly)
  "Record that REVIEW was accepted in its client if WRITTEN, else rejected.
Tell the user unless QUIETLY is non-nil."
  (let* ((entry (gemini-companion-review-entry review))
         ;; The user may have undone it already, in the history.
         (written (or written (gemini-companion-history-written entry))))
    (gemini-companion-review-note-reason
     review (concat (if written "accepted in " "rejected in ")
                    (gemini-companion-review-agent-title review)
                    (unless written
                      (gemini-companion-review-where-edits-are review))))
    (gemini-companion-history-note entry (if written 'accepted-there 'rejected-there))
    (unless written
      (gemini-companion-cli-note-review-end review 'rejected))
    (unless quietly
      (gemini-companion-review-announce-ending review))))

(add-hook 'gemini-companion-review-end-functions #'gemini-companion-write--check-rejected)

(defun gemini-companion-write--check-rejected (review outcome)
  "If OUTCOME rejects REVIEW, warn if its client writes the file all the same.
Gemini CLI does so if it was told to accept edits, as by S-TAB, while it asked."
  (when (eq outcome 'rejected)
    (let* ((path (gemini-companion-review-path review))
           (stamp (gemini-companion-file-stamp path))
           (contains-p (gemini-companion-write--once #'gemini-companion-write--contains-p review)))
      (gemini-companion-write--poll
       gemini-companion-write--decision-time
       (lambda () (let ((now (gemini-companion-file-stamp path)))
                    (and (not (equal now stamp))
                         (funcall contains-p now)
                         (not (gemini-companion-write--of-another-p review)))))
       (lambda (written)
         (when written
           (gemini-companion-history-note (gemini-companion-review-entry review) 'accepted-there)
           (gemini-companion-write-revert-when-written
            review (gemini-companion-review-current-text review) stamp)
           (gemini-companion-ui-message
            review
            "%s has written the change to %s that you rejected; u in %s"
            (gemini-companion-review-agent-title review) (gemini-companion-review-file review)
            (gemini-companion-ui-key 'gemini-companion-history-list "undoes it"))))))))

(defun gemini-companion-write--contains-p (review)
  "Return non-nil if the file of REVIEW contains its text, or what was proposed."
  (when-let* ((path (gemini-companion-review-path review))
              (bytes (gemini-companion-file-read path)))
    (seq-some (lambda (text)
                (gemini-companion-file-text-p path bytes text 'loosely))
              (list (gemini-companion-review-current-text review)
                    (gemini-companion-review-proposed review)))))

(defun gemini-companion-write--of-another-p (review)
  "Return non-nil if the file of REVIEW is as before, or has another new change.
Another CLI may propose one, or the same CLI may try again."
  (let ((path (gemini-companion-review-path review)))
    (cl-loop for entry in (gemini-companion-history-all)
             while (gemini-companion-ui-recent-p
                    (float-time (gemini-companion-history-time entry)) 60)
             thereis (and (equal path (gemini-companion-history-path entry))
                          (if (eq entry (gemini-companion-review-entry review))
                              (equal (gemini-companion-file-read path)
                                     (gemini-companion-history-before entry))
                            (gemini-companion-file-written-p
                             path (gemini-companion-history-after entry)))))))

(defun gemini-companion-write-made-p (review)
  "Return non-nil if the file of REVIEW is on a host, and was written already.
While Emacs does not answer, a client there is not kept waiting, and takes
its own proposal."
  (and (gemini-companion-review-host review)
       (gemini-companion-review-effect-file-changed-p review)
       (gemini-companion-write--contains-p review)))

(defun gemini-companion-write-await-text (review text before sent)
  "Warn the user if the client of REVIEW does not write TEXT.
BEFORE is the stamp of the file before.  SENT is non-nil if the client was
certainly sent TEXT, and may thus write it in its own way.  The client may
first wait for decisions on other changes."
  (let* ((path (gemini-companion-review-path review))
         (written-p (gemini-companion-write--once #'gemini-companion-file-written-p path text)))
    (gemini-companion-write--poll
     (if (gemini-companion-review-host review) gemini-companion-write--host-time
       gemini-companion-write--text-time)
     (lambda ()
       (or (funcall written-p (gemini-companion-file-stamp path))
           (and (gemini-companion-write--later-p review (gemini-companion-write-others review))
                'busy)))
     (lambda (written)
       (gemini-companion-write--note-text
        review written (equal (gemini-companion-file-stamp path) before) sent)))))

(defun gemini-companion-write--note-text (review written unchanged sent)
  "Record whether the client of REVIEW has WRITTEN the accepted text, or warn.
If UNCHANGED, the file is as before; if SENT, the client may change the text."
  (let* ((entry (gemini-companion-review-entry review))
         ;; The client may have reported that, before a formatter wrote the file.
         (written (or written (gemini-companion-history-written entry))))
    (cond (written (gemini-companion-history-note-written entry))
          (unchanged
           (gemini-companion-history-note entry 'unwritten)
           (gemini-companion-ui-message
            review
            "%s has not written the change to %s that you accepted; w in %s"
            (gemini-companion-review-agent-title review) (gemini-companion-review-file review)
            (gemini-companion-ui-key 'gemini-companion-history-list "writes it")))
          ((or (not sent) (gemini-companion-write--cut-p entry))
           (gemini-companion-ui-message
            review
            "%s now differs from the text that you accepted; w in %s"
            (gemini-companion-review-file review)
            (gemini-companion-ui-key 'gemini-companion-history-list "writes your text"))))
    (gemini-companion-log-add "review %d: %s as accepted" (gemini-companion-review-id review)
                              (if written "written" "not written"))))

(defun gemini-companion-write--cut-p (entry)
  "Return non-nil if the file of ENTRY has only the beginning of the accepted text.
Its disk may be full, or the client may have been killed."
  (pcase-let (((cl-struct gemini-companion-history-entry path before after) entry))
    (when-let* ((bytes (gemini-companion-file-read path))
                (whole (gemini-companion-file-encode after before)))
      (and (string-prefix-p bytes whole)
           (not (string-blank-p (substring whole (length bytes))))))))

(defun gemini-companion-write--later-p (review others)
  "Return non-nil if the client of REVIEW cannot be expected to write yet.
Some write nothing until all questions of a turn are answered, also those about
OTHERS, which are other changes."
  (let* ((host (gemini-companion-review-host review))
         (process (gemini-companion-review-process review))
         (cli (gemini-companion-cli-of-process process)))
    (or (seq-some #'gemini-companion-review-open-p others)
        ;; The user has suspended it, perhaps to decide in an Emacs in the same terminal.
        (equal "T" (alist-get 'state (gemini-companion-agent-process process)))
        ;; The only client on a host may be cut off, but return.
        (when-let* ((sessions (and host (gemini-companion-bridge-host-sessions host))))
          (not (memq 'open (mapcar #'gemini-companion-bridge-session-stream sessions))))
        ;; Elsewhere, no hook reports a no to the question about a change.
        (and cli (gemini-companion-cli-terminal cli)
             (eq (gemini-companion-cli-state cli) 'asking)))))

(defun gemini-companion-write-others (review)
  "Return the other changes of the client of REVIEW that await a decision."
  (cl-loop for other in (gemini-companion-review-all-open)
           if (and (not (eq other review)) (gemini-companion-review-same-client-p other review))
           collect other))

(defun gemini-companion-write--once (function &rest arguments)
  "Return a function that returns the value of FUNCTION for ARGUMENTS.
Its argument is the stamp of a file, or nil, for which it returns nil.  It calls
FUNCTION, which may read the file, only when the stamp has changed.  So with
`float-time', it returns when the present stamp was first seen."
  (let ((last nil)
        (value nil))
    (lambda (stamp)
      (unless (equal stamp last)
        (setq value (apply function arguments)
              last stamp))
      value)))

(defun gemini-companion-write--poll (seconds check finish)
  "Call CHECK from timers until it is done, then FINISH with its last value.
While CHECK returns nil, go on for at most SECONDS.  These begin again after it
returns `held' or `busy'; the latter may take long, so call it less often then.
Any other value is the end: t, or `forgotten' if nothing waits for the file."
  (run-at-time gemini-companion-write--poll-interval nil
               #'gemini-companion-write--poll-now (float-time) seconds check finish))

(defun gemini-companion-write--poll-now (begun seconds check finish)
  "Call CHECK for `gemini-companion-write--poll', which was called at BEGUN.
SECONDS and FINISH are as there."
  (let* ((value (gemini-companion-log-errors "checking a file" (funcall check)))
         (busy (memq value '(busy held)))
         (now (float-time))
         ;; The clock may have been set back.
         (begun (if busy now (min begun now))))
    (if (or busy (not (or value (> (- now begun) seconds))))
        (run-at-time (if (eq value 'busy) gemini-companion-write--slow-interval
                       gemini-companion-write--poll-interval)
                     nil #'gemini-companion-write--poll-now begun seconds check finish)
      (gemini-companion-log-errors "a checked file" (funcall finish value))
      ;; For the history, if that is on screen.
      (gemini-companion-review-note-change))))

(defun gemini-companion-write-warn-of-lost-edits (review)
  "Warn if the client of REVIEW, which the user has answered there, drops edits.
Return nil if it drops none."
  (pcase-let (((cl-struct gemini-companion-review id agent client text proposed) review))
    (unless (or (gemini-companion-agent-get agent :takes-edits) (equal text proposed))
      (gemini-companion-log-add "the edits of review %d are in the history only" id)
      (gemini-companion-ui-message
       review
       "%s ignores your edits when you answer there; \
those to %s are in M-x gemini-companion-history-list"
       client (gemini-companion-review-file review))
      t)))

;;;; Buffers that visit the file

(defvar gemini-companion-write--revert-time 10.0
  "Seconds after which a client that has no open review is assumed not to write.")

(cl-defstruct (gemini-companion-write--watched (:copier nil))
  "A file that a client may write."
  (path nil :documentation "Its name.")
  (before nil :documentation "Its stamp when its buffer agreed with it last.")
  (merged nil :documentation "A value of `gemini-companion-review-effect-merged-state'.")
  (text nil :documentation "The text that the client should write, or nil."))

(defvar gemini-companion-write--files nil
  "The files that clients may write, the newest first.")

(defun gemini-companion-write-revert-when-written (review &optional text before)
  "Revert the buffer of the file of REVIEW once the client has written TEXT to it.
A buffer that begins to visit the file meanwhile counts.  BEFORE is the stamp
that the file had before, by default its present one."
  (let* ((path (gemini-companion-review-path review))
         (earlier (gemini-companion-write--find-watched path))
         (watched (make-gemini-companion-write--watched
                   :path path :text text
                   :merged (gemini-companion-review-effect-merged-state review)
                   ;; A write that is already awaited may just have happened.
                   :before (if earlier (gemini-companion-write--watched-before earlier)
                             (or before (gemini-companion-file-stamp path))))))
    (setq gemini-companion-write--files (cons watched (remq earlier gemini-companion-write--files)))
    (when-let* ((buffer (and text (gemini-companion-file-visiting path))))
      (with-current-buffer buffer
        (setq-local buffer-stale-function (or buffer-stale-function
                                              #'buffer-stale--default-function))
        (add-function :around (local 'buffer-stale-function) #'gemini-companion-write--stale-p)))
    (gemini-companion-write--follow watched review)))

(add-hook 'gemini-companion-review-end-functions #'gemini-companion-write--keep-merged)

(defun gemini-companion-write--keep-merged (review outcome)
  "If OUTCOME accepts REVIEW, add the unsaved edits in it to the text before.
So an undo keeps them, although the file did not have them."
  (when-let* (((memq outcome '(accepted closed)))
              (entry (gemini-companion-review-entry review))
              (buffer (car (gemini-companion-review-effect-merged-state review))))
    (let ((text (gemini-companion-review-text-of-buffer buffer))
          (coding (buffer-local-value 'buffer-file-coding-system buffer)))
      (setf (gemini-companion-history-before entry)
            ;; As Emacs would have saved it, if it could: the file need not be in UTF-8.
            (if (and coding (not (check-coding-systems-region text nil (list coding))))
                (encode-coding-string text coding)
              (gemini-companion-file-encode text (gemini-companion-history-before entry)))))))

(defun gemini-companion-write--saved-p (path)
  "Return non-nil if the file PATH is as the user has saved it in Emacs.
Hosts report times in seconds, so a different text is somebody else's."
  (when-let* ((buffer (gemini-companion-file-visiting path)))
    (if (not (gemini-companion-file-host path))
        (verify-visited-file-modtime buffer)
      (and (gemini-companion-file-agrees-p path buffer 'exactly)
           (or (buffer-modified-p buffer)
               (gemini-companion-file-written-p
                path (gemini-companion-review-text-of-buffer buffer)))))))

(defun gemini-companion-write--find-watched (path)
  "Return the record of the file PATH if a client may write it, or nil."
  (cl-loop for watched in gemini-companion-write--files
           if (equal path (gemini-companion-write--watched-path watched)) return watched))

(defun gemini-companion-write--stale-p (function &optional noconfirm)
  "Let Auto Revert mode leave this buffer alone while a client may write its file.
CLIs empty a file before they write it, and point would go to its beginning.
FUNCTION is another `buffer-stale-function', NOCONFIRM its argument."
  (unless (cl-loop for watched in gemini-companion-write--files
                   for path = (gemini-companion-write--watched-path watched)
                   thereis (and (gemini-companion-write--watched-text watched)
                                (eq (current-buffer) (gemini-companion-file-visiting path))))
    (funcall function noconfirm)))

(defun gemini-companion-write--follow (watched review)
  "Revert the buffer that visits the file WATCHED once that was written.
The client of REVIEW may first wait for decisions on others, or be cut off.
A host is not asked: its reports change what is known of the file."
  (pcase-let* (((cl-struct gemini-companion-write--watched path before text) watched)
               (host (gemini-companion-review-host review))
               (first-seen (gemini-companion-write--once #'float-time))
               (written-p
                (gemini-companion-write--once #'gemini-companion-file-written-p
                                              path text 'loosely)))
    (gemini-companion-write--poll
     (if host gemini-companion-write--host-time gemini-companion-write--revert-time)
     (lambda ()
       (let* ((now (gemini-companion-file-stamp path))
              (since (funcall first-seen now)))
         (cond ((not (and (memq watched gemini-companion-write--files)
                          (or (null host) (gemini-companion-host-named host))))
                'forgotten)
               ((gemini-companion-write-held-p path) 'held)
               ((and now (not (equal now before))
                     (or (and text (funcall written-p now))
                         (gemini-companion-write--settled-p path since))))
               ((gemini-companion-write--later-p review (gemini-companion-write-others review))
                'busy))))
     (lambda (written)
       (if (memq written '(nil forgotten))
           (setq gemini-companion-write--files (remq watched gemini-companion-write--files))
         (setf (gemini-companion-write--watched-before watched)
               (gemini-companion-file-stamp path))
         (when-let* ((entry (and text (gemini-companion-review-entry review)))
                     ((funcall written-p (gemini-companion-write--watched-before watched))))
           (gemini-companion-history-note-written entry))
         ;; What a host has reported may be too large.
         (when (or (null host) (gemini-companion-file-read path))
           (gemini-companion-write--update watched))
         ;; A formatter may write it again soon, but nothing else is known of that.
         (setf (gemini-companion-write--watched-text watched) nil
               (gemini-companion-write--watched-merged watched) nil)
         (gemini-companion-write--follow watched review))))))

(defun gemini-companion-write--settled-p (path since)
  "Return non-nil if PATH, unchanged SINCE then, is not as saved, nor half written."
  (and (not (gemini-companion-write--saved-p path))
       ;; Late timers run in quick succession, and on a busy machine a CLI that has emptied it may
       ;; take long to go on.
       (> (- (float-time) since) (if (equal (gemini-companion-file-read path) "") 2 0.15))))

(defun gemini-companion-write-revert-now (path)
  "Revert the buffer that visits PATH, a file that was just written.
Return nil if that was done, or if there is no such buffer.  Return the
buffer if it was left alone, because it has unsaved edits, or does not
show the text of the file, or the file no longer exists."
  (when-let* ((buffer (gemini-companion-file-visiting path)))
    (with-current-buffer buffer
      (unless (and (gemini-companion-file-stamp path) (gemini-companion-write--show path))
        (gemini-companion-write--keep-auto-saved)
        buffer))))

(defun gemini-companion-write-stop ()
  "Stop checking files."
  (cancel-function-timers #'gemini-companion-write--poll-now)
  (setq gemini-companion-write--files nil)
  (dolist (buffer (buffer-list))
    (with-current-buffer buffer
      (remove-function (local 'buffer-stale-function) #'gemini-companion-write--stale-p)))
  (gemini-companion-file-forget-all))

;;;; Reverting a buffer

(defun gemini-companion-write-held-p (path)
  "Return non-nil if a command that awaits a key may hold positions in PATH.
`query-replace' would replace something else if its text changed meanwhile."
  (and (or this-command (active-minibuffer-window))
       (let ((buffer (window-buffer (or (minibuffer-selected-window) (selected-window)))))
         (eq (gemini-companion-file-visiting path) (or (buffer-base-buffer buffer) buffer)))))

(defun gemini-companion-write--update (watched)
  "Revert the buffer of the file WATCHED, or say why it was left alone."
  (when-let* ((path (gemini-companion-write--watched-path watched))
              (buffer (gemini-companion-file-visiting path)))
    (with-current-buffer buffer
      (cond ((if (gemini-companion-file-host path)
                 (gemini-companion-file-newer-in-p path buffer)
               (verify-visited-file-modtime))) ; up to date
            ((gemini-companion-write--show
              path (let ((text (gemini-companion-write--watched-text watched)))
                     (and (equal (gemini-companion-write--watched-merged watched)
                                 (cons buffer (buffer-chars-modified-tick)))
                          (or (not text)
                              (gemini-companion-file-written-p path text 'loosely))))))
            ((buffer-modified-p)
             (gemini-companion-write--keep-auto-saved)
             (gemini-companion-ui-message
              buffer "%s changed on disk; its buffer keeps your edits" (buffer-name)))
            (t (gemini-companion-ui-message
                buffer "%s changed on disk; M-x revert-buffer shows it" (buffer-name)))))))

(defun gemini-companion-write--keep-auto-saved ()
  "Let Emacs recover the unsaved edits here, although their file was written.
It recovers nothing from an auto-save file that is older."
  (when (and buffer-auto-save-file-name ; no longer if the user has turned Auto Save mode off
             (recent-auto-save-p)
             (not (gemini-companion-file-host buffer-file-name)))
    (ignore-error file-error
      ;; The times of files may have a coarse unit.
      (set-file-times buffer-auto-save-file-name (time-add nil 1)))))

(defun gemini-companion-write--show (path &optional merged)
  "Revert the current buffer, which visits PATH, without a question.
But return nil if that may block Emacs, or lose edits that are not MERGED."
  (let ((buffer (current-buffer))
        (host (gemini-companion-file-host path))
        (tick (buffer-chars-modified-tick)))
    (unless (gemini-companion-file-converted-p path buffer)
      (with-temp-buffer
        (let ((source (current-buffer)))
          (with-current-buffer buffer
            (let* ((file (if host path buffer-file-name))
                   ;; Before the text is read: Emacs must notice what is written meanwhile.
                   (modtime (gemini-companion-file-modtime file))
                   (coding (gemini-companion-write--read file source)))
              (when (and (or merged
                             (not (buffer-modified-p))
                             (gemini-companion-write--same-text-p source))
                         ;; The new text may block Emacs, as the present one does not.
                         (not (with-current-buffer source
                                (gemini-companion-heavy-compared-p buffer)))
                         (gemini-companion-write--take-text source modtime host))
                (setq buffer-file-coding-system coding)
                (let ((changed (not (eql tick (buffer-chars-modified-tick)))))
                  (gemini-companion-write--forget-vc-state (and changed (not host)))
                  (when (or changed (not host))
                    (gemini-companion-log-errors "after-revert-hook"
                      ;; Where nothing changed, `before-revert-hook' was not run, by which Eglot
                      ;; tells its server that the text is closed.
                      (let ((revert-buffer-preserve-modes changed))
                        (run-hooks 'after-revert-hook)))))
                t))))))))

(defun gemini-companion-write--forget-vc-state (edited)
  "Let VC find out later in which state the file of the current buffer is.
If EDITED is non-nil, the mode line says so already, if that needs no process."
  (cl-flet ((known (property) (vc-file-getprop buffer-file-name property)))
    (when (and edited
               (eq (known 'vc-backend) 'Git)
               (eq (known 'vc-state) 'up-to-date)
               (known 'vc-git-symbolic-ref)) ; HEAD is not detached
      (vc-file-setprop buffer-file-name 'vc-state 'edited)
      (gemini-companion-log-errors "the mode line" (vc-mode-line buffer-file-name))))
  ;; Otherwise C-x v v would find nothing to commit.  In a large repository, it would take long to
  ;; find the state now, as when Emacs saves a file.
  (vc-file-setprop buffer-file-name 'vc-state nil))

(defun gemini-companion-write--chosen-coding (file)
  "Return the coding system that the user has chosen for FILE, of this buffer.
Return a kind of UTF-8 instead if FILE is in that, which clients write."
  (let ((chosen (car buffer-file-coding-system-explicit)))
    (if-let* ((chosen)
              ((not (memq (coding-system-type chosen) '(raw-text utf-8))))
              (bytes (gemini-companion-file-read file))
              ((string-match-p "[^[:ascii:]]" bytes))
              ((gemini-companion--mod-decode bytes nil)))
        (coding-system-change-text-conversion chosen 'utf-8)
      chosen)))

(defun gemini-companion-write--read (file buffer)
  "Read FILE into BUFFER, decoded as when the current buffer is reverted.
Return the coding system; what the text does not determine stays as it was."
  (let ((coding-system-for-read
         (if (or enable-multibyte-characters find-file-literally)
             (gemini-companion-write--chosen-coding file)
           'raw-text))
        (before buffer-file-coding-system)
        ;; These would act on what the text says.
        (format-alist nil)
        (after-insert-file-functions nil))
    (with-current-buffer buffer
      (gemini-companion-file-insert file)
      (if (or (and (coding-system-get before :bom)
                   (not (coding-system-get last-coding-system-used :bom)))
              ;; A text that is now in ASCII is no longer in UTF-16.
              (and (eq (coding-system-type before) 'utf-16)
                   (not (eq (coding-system-type last-coding-system-used) 'utf-16))))
          last-coding-system-used
        (merge-coding-systems last-coding-system-used before)))))

(defun gemini-companion-write--take-text (source modtime host)
  "Give the current buffer the text of its file, on HOST, from the buffer SOURCE.
It was written at MODTIME.  Return nil if a hook prevented the change."
  (let ((tick (buffer-chars-modified-tick))
        (auto-saved (recent-auto-save-p))
        (same (gemini-companion-write--same-text-p source)))
    (unless same
      (gemini-companion-log-run-hook 'before-revert-hook)
      (unless (or (gemini-companion-log-errors "reverting a buffer"
                    (gemini-companion-write--replace-text source)
                    t)
                  (= tick (buffer-chars-modified-tick)))
        ;; A hook may have failed when the old text was deleted, and the new one not yet inserted.
        (let ((inhibit-modification-hooks t))
          (gemini-companion-write--replace-text source))))
    (when (or same (/= tick (buffer-chars-modified-tick)))
      (set-visited-file-modtime modtime)
      ;; As Emacs does when it reverts a buffer.  Otherwise it would auto-save no text that has
      ;; shrunk, and make no backup of what the client wrote.
      (setq buffer-saved-size (buffer-size)
            buffer-backed-up nil)
      ;; As Emacs does when it saves: the file now has these edits.
      (when (and auto-saved (not host))
        (delete-auto-save-file-if-necessary 'force))
      (let ((modified (not (gemini-companion-write--same-text-p source)))
            ;; Tramp would ask the host for the lock.  If the buffer had edits, the lock stays there
            ;; until the next edits are saved.
            (buffer-file-truename (unless host buffer-file-truename)))
        (set-buffer-modified-p modified))
      t)))

(defun gemini-companion-write--replace-text (source)
  "Replace the text of the current buffer by that of SOURCE, keeping markers."
  (let ((inhibit-read-only t)
        ;; All or nothing, and it does not take long.
        (inhibit-quit t)
        ;; Otherwise Emacs would ask whether to edit a file that changed on disk, or that another
        ;; Emacs has locked, and Tramp would ask its host.
        (buffer-file-truename nil)
        ;; The region stays active.
        (deactivate-mark nil)
        ;; As in `revert-buffer'; otherwise, lsp-bridge would send the server this change twice.
        (lsp-bridge-revert-buffer-flag t)
        (modified (buffer-modified-p)))
    (undo-boundary)
    ;; Undo would mark a buffer as unmodified if it was so before the change, but the old text is no
    ;; longer on disk.
    (restore-buffer-modified-p t)
    (unwind-protect
        (save-restriction
          (widen)
          (gemini-companion-write--drop-stale-marks
           (lambda () (gemini-companion-heavy-replace-text source))))
      (restore-buffer-modified-p modified)
      (undo-boundary))))

(defun gemini-companion-write--drop-stale-marks (change)
  "Call CHANGE, which changes the text of the current buffer.
Then remove marks of words that it has corrected, and what is shown in place
of their old text: Emacs keeps these, since some characters stay."
  (cl-flet ((word (mark) (buffer-substring-no-properties (overlay-start mark) (overlay-end mark))))
    (let ((words (cl-loop for mark in (overlays-in (point-min) (point-max))
                          if (or (overlay-get mark 'flyspell-overlay)
                                 (eq 'macro (overlay-get mark 'TeX-fold-type)))
                          collect (cons mark (word mark)))))
      (funcall change)
      (pcase-dolist (`(,mark . ,word) words)
        (unless (and (overlay-buffer mark) (equal word (word mark)))
          (delete-overlay mark))))))

(defun gemini-companion-write--same-text-p (buffer)
  "Return non-nil if the current buffer has the same text as BUFFER."
  (gemini-companion-ui-widened
    (let ((case-fold-search nil))
      (zerop (compare-buffer-substrings nil nil nil buffer nil nil)))))

(provide 'gemini-companion-write)
;;; gemini-companion-write.el ends here

;;; gemini-companion-write.el --- What clients write -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; After an accept it is the client that writes the file.  Here is decided what it has to be told for
;; that, and found out whether it has written, which it does not say.
;;
;; A client that is told which text was accepted takes it for an edit of the user's, even if it is
;; what the client itself has proposed, and its model has to read the whole file, twice.  Told no
;; text, it writes its proposal, and the model reads a few lines.  Only versions that were tried are
;; known to do so: another one might write an empty file.
;;
;; A buffer that visits the file then shows the new text: point and marks stay, and Emacs does not ask
;; about a file that "changed on disk".  Undo takes the change back, and the buffer is modified then,
;; for the file still has the new text.  A buffer with edits of the user is left alone.  All this
;; happens in a timer, where nothing may ask.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x) ; `replace-region-contents', before Emacs 31
(require 'gemini-companion-agent)
(require 'gemini-companion-history)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)

;;;; Options

(defcustom gemini-companion-accept-without-text 'tried
  "When an accept of an unchanged proposal is told without the text.
Gemini CLI takes every text that it is told for an edit of yours, and
sends its model the whole file, twice.  If it is told none it writes what
it has proposed, and its model reads a few lines.

If `tried', the text is left out for the versions of clients with which
that was tried.  If `always', it is left out for all clients; one that
does not know this might write an empty file.  If `never', all clients are
told the text.

Whenever the text was left out Emacs looks whether the file becomes what
you accepted, and tells you if it does not.  You can then have it written
from \\[gemini-companion-review-history]."
  :type '(choice (const :tag "For versions that were tried" tried)
                 (const :tag "Always" always)
                 (const :tag "Never" never))
  :group 'gemini-companion)

;;;; Accepts without the text

(defun gemini-companion-write-may-omit-p (review text)
  "Return non-nil if the client of REVIEW need not be told TEXT to write it."
  (pcase-let ((`(,name . ,version) (gemini-companion-review-info review)))
    (and (gemini-companion-write--without-text-p (gemini-companion-review-agent review) name version)
         (gemini-companion-write--same-as-proposed-p text
                                                     (gemini-companion-review-proposed review)
                                                     (gemini-companion-review-base review))
         ;; In another file than it has read the client would make its change again.
         (not (gemini-companion-review-written-p review)))))

(defun gemini-companion-write--without-text-p (agent name version)
  "Return non-nil if a client may be told an accept without the text.
It is of AGENT; NAME and VERSION are what it says itself."
  (pcase gemini-companion-accept-without-text
    ('always t)
    ('tried (gemini-companion-agent-needs-no-text-p agent name version))))

(defun gemini-companion-write--same-as-proposed-p (text proposed base)
  "Return non-nil if a client that proposed PROPOSED writes the same for TEXT.
BASE are the bytes of the file, if there is one.  If they have a CRLF the
client makes each line end one.  An empty text is told as it is: the user
is asked about that."
  (and (not (string-empty-p text))
       (or (equal text proposed)
           (and (stringp base)
                (string-search "\r\n" base)
                (equal (string-replace "\r\n" "\n" text)
                       (string-replace "\r\n" "\n" proposed))))))

;;;; Whether it was written

(defconst gemini-companion-write--poll-interval 0.2
  "Seconds between looks at a file that a client may write.")

(defconst gemini-companion-write--decision-time 3.0
  "Seconds within which a client whose user said yes has written the file.")

(defconst gemini-companion-write--text-time 5.0
  "Seconds within which a client that was not told the text has written it.")

(defun gemini-companion-write-await-decision (review stamp text)
  "Tell the user which answer the client of REVIEW, closed there, has got.
The client does not say: it writes the file, whose stamp then is another
than STAMP, or it does not.  If TEXT is non-nil, the client was not told it
and must write it all the same."
  (let ((path (gemini-companion-review-path review))
        (there (gemini-companion-review-client-title review)))
    (gemini-companion-write--await
     gemini-companion-write--decision-time
     (lambda () (not (equal (gemini-companion-history-stamp path) stamp)))
     (lambda (written)
       (setf (gemini-companion-review-ending review)
             (concat (if written "accepted in " "rejected in ") there))
       (gemini-companion-review-announce-ending review)
       (when (and written text)
         (gemini-companion-write-await-text review text))))))

(defun gemini-companion-write-await-text (review text)
  "Tell the user if the client of REVIEW, not told TEXT, does not write it.
It may have other changes decided first."
  (let ((path (gemini-companion-review-path review))
        (last 'unknown))
    (gemini-companion-write--await
     gemini-companion-write--text-time
     (lambda ()
       (let ((stamp (gemini-companion-history-stamp path)))
         (cond ((and (not (equal stamp last))
                     (gemini-companion-history-written-p path text)))
               (t (setq last stamp)
                  (and (gemini-companion-write--others-open-p review) 'busy)))))
     (lambda (written)
       (gemini-companion-log-add "review %d: %s as accepted" (gemini-companion-review-id review)
                                 (if written "written" "not written"))
       (unless written
         (gemini-companion-write--warn-of-lost-text review))))))

(defun gemini-companion-write--others-open-p (review)
  "Return non-nil if the user has changes to decide of the client of REVIEW."
  (cl-loop for other in (gemini-companion-review-list-open)
           thereis (equal (gemini-companion-review-client other)
                          (gemini-companion-review-client review))))

(defun gemini-companion-write--await (seconds look finish)
  "Call the function LOOK until it returns non-nil, but for no more than SECONDS.
Then call FINISH with its last value.  While that is `busy' no time passes."
  (let ((left seconds)
        (timer nil))
    (setq timer
          (run-at-time
           gemini-companion-write--poll-interval gemini-companion-write--poll-interval
           (lambda ()
             (let ((seen (gemini-companion-log-errors "looking at a file" (funcall look))))
               (unless (eq seen 'busy)
                 (setq left (- left gemini-companion-write--poll-interval))
                 (when (or seen (<= left 0))
                   (cancel-timer timer)
                   (funcall finish seen)))))))))

(defun gemini-companion-write--warn-of-lost-text (review)
  "Say that the client of REVIEW did not write the text that was accepted."
  (gemini-companion-ui-message
   review
   "%s has not made %s what you accepted: M-x gemini-companion-review-history, there w, writes it"
   (gemini-companion-review-client-title review) (gemini-companion-review-file review)))

(defun gemini-companion-write-warn-of-lost-edits (review)
  "Say where the user's edits are if the client of REVIEW leaves them behind.
It closes the review, for the user answered there.  Return nil if it does
not leave any."
  (unless (or (gemini-companion-agent-get (gemini-companion-review-agent review) :takes-edits)
              (equal (gemini-companion-review-text review)
                     (gemini-companion-review-proposed review)))
    (gemini-companion-log-add "the edits of review %d are in the history only"
                              (gemini-companion-review-id review))
    (gemini-companion-ui-message
     review
     "%s takes no edits along when you say yes there: yours of %s are kept in \
M-x gemini-companion-review-history"
     (gemini-companion-review-client review) (gemini-companion-review-file review))
    t))

;;;; Buffers that visit the file

(defconst gemini-companion-write--interval 0.1
  "Seconds between looks at a file that a client is about to write.")

(defconst gemini-companion-write--max-polls 100
  "Looks after which the client is taken to have left the file alone.")

(defconst gemini-companion-write--max-unvisited 8
  "Files looked at beyond which those that no buffer visits yet are left out.")

(defconst gemini-companion-write--max-compare-time 1.0
  "Seconds to look for what differs, after which all of the text is replaced.")

(defvar gemini-companion-write--timers nil
  "The files that are looked at, a list of (FILE TIMER . STAMP).
STAMP is what FILE was when its buffer last agreed with it.")

(defun gemini-companion-write-revert (path &optional merged)
  "Let the buffer that visits PATH follow the client's next write to it.
That may be one which visits PATH by then.  MERGED is a buffer and its
`buffer-chars-modified-tick': as long as it has that, what is written
contains its unsaved edits."
  (when (or (gemini-companion-write--buffer path)
            (< (length gemini-companion-write--timers)
               gemini-companion-write--max-unvisited))
    ;; A write for which it waits already may just have been made.
    (let ((before (or (cddr (assoc path gemini-companion-write--timers))
                      (gemini-companion-history-stamp path))))
      (gemini-companion-write--stop-polling path)
      (push (cons path
                  (cons (run-at-time gemini-companion-write--interval
                                     gemini-companion-write--interval
                                     (gemini-companion-write--poll path before merged))
                        before))
            gemini-companion-write--timers))))

(defun gemini-companion-write--buffer (path)
  "Return the buffer that visits PATH, or nil."
  (let ((file-name-handler-alist nil))
    (find-buffer-visiting path)))

(defun gemini-companion-write--poll (path before merged)
  "Return a function that updates the buffer of PATH once that was written.
BEFORE is the stamp of the file until then.  For MERGED see
`gemini-companion-write-revert'."
  (let ((last nil)
        (looks gemini-companion-write--max-polls))
    (lambda ()
      (let ((now (gemini-companion-history-stamp path)))
        (setq looks (1- looks))
        (cond ((zerop looks)
               (gemini-companion-write--stop-polling path))
              ;; Written, and not being written any more.
              ((and now (not (equal now before)) (equal now last))
               (gemini-companion-write--stop-polling path)
               (when-let* ((buffer (gemini-companion-write--buffer path)))
                 (gemini-companion-log-errors "follow"
                   (gemini-companion-write--update buffer merged))))
              (t (setq last now)))))))

(defun gemini-companion-write-revert-now (path)
  "Let the buffer that visits PATH show what was just written there, if one does.
Return that buffer if it does not follow, for it has unsaved edits, or
shows something else than the file's text, or there is no file any more."
  (when-let* ((buffer (gemini-companion-write--buffer path)))
    (unless (and (gemini-companion-history-stamp path)
                 (with-current-buffer buffer (gemini-companion-write--show)))
      buffer)))

(defun gemini-companion-write-stop ()
  "Stop looking at files."
  (mapc #'gemini-companion-write--stop-polling (mapcar #'car gemini-companion-write--timers)))

(defun gemini-companion-write--stop-polling (path)
  "Do not look at the file PATH any more."
  (when-let* ((entry (assoc path gemini-companion-write--timers)))
    (cancel-timer (cadr entry))
    (setq gemini-companion-write--timers
          (delq entry gemini-companion-write--timers))))

(defun gemini-companion-write--update (buffer merged)
  "Make BUFFER show its file, or say why it does not.
For MERGED see `gemini-companion-write-revert'."
  (with-current-buffer buffer
    (cond ((verify-visited-file-modtime))
          ((gemini-companion-write--show
            (equal merged (cons buffer (buffer-chars-modified-tick)))))
          ((buffer-modified-p)
           (message "%s changed on disk; your edits in its buffer are kept" (buffer-name)))
          (t (message "%s changed on disk; M-x revert-buffer shows it" (buffer-name))))))

(defun gemini-companion-write--show (&optional merged)
  "Make the text of the current buffer that of its file.
Return nil, and leave all as it is, if that would lose edits, or if the
buffer shows something else than the file's text.  Ask nothing.  If MERGED
is non-nil the file contains the edits."
  (unless (gemini-companion-write--other-than-text-p)
    (let ((source (generate-new-buffer " *gemini-companion-file*" t)))
      (unwind-protect
          (save-match-data
            ;; Before the text is read: Emacs must notice what is written meanwhile.
            (let ((modtime (gemini-companion-write--modtime))
                  (coding (gemini-companion-write--read buffer-file-name source)))
              (when (and (or merged
                             (not (buffer-modified-p))
                             (gemini-companion-write--same-text-p source))
                         (gemini-companion-write--take-text source modtime))
                (setq buffer-file-coding-system coding)
                ;; Whoever shows something about the file (and the context) wants to know.
                (gemini-companion-log-errors "after-revert-hook"
                  (run-hooks 'after-revert-hook))
                t)))
        (kill-buffer source)))))

(defun gemini-companion-write--other-than-text-p ()
  "Return non-nil if the current buffer shows something else than its file's text.
A hex dump, for instance, or what was decrypted, for which Emacs would
ask for a passphrase."
  (or buffer-file-format
      (local-variable-p 'revert-buffer-function)
      (local-variable-p 'revert-buffer-insert-file-contents-function)
      (find-file-name-handler buffer-file-name 'insert-file-contents)))

(defun gemini-companion-write--modtime ()
  "Return when the file of the current buffer was written."
  (file-attribute-modification-time (file-attributes (file-truename buffer-file-name))))

(defun gemini-companion-write--read (file buffer)
  "Read FILE into BUFFER, decoded as when the current buffer is reverted.
Return the coding system: the client may have written other line ends, or
UTF-8 where there was something else.  What cannot be told from the new
text is as before."
  (let ((coding-system-for-read (car buffer-file-coding-system-explicit))
        (before buffer-file-coding-system)
        ;; These would obey what the text says.
        (format-alist nil)
        (after-insert-file-functions nil))
    (with-current-buffer buffer
      (insert-file-contents file)
      (merge-coding-systems last-coding-system-used before))))

(defun gemini-companion-write--take-text (source modtime)
  "Give the current buffer the text of the buffer SOURCE, that of its file.
The file was written at MODTIME.  Return nil if a hook of the user's kept
the text from changing."
  (let ((tick (buffer-chars-modified-tick))
        (same (gemini-companion-write--same-text-p source)))
    (unless same
      ;; In an after-change function of somebody's, perhaps: the text is there all the same.
      (gemini-companion-log-errors "follow" (gemini-companion-write--replace-text source)))
    (when (or same (/= tick (buffer-chars-modified-tick)))
      (set-visited-file-modtime modtime)
      (set-buffer-modified-p (not (gemini-companion-write--same-text-p source)))
      t)))

(defun gemini-companion-write--replace-text (source)
  "Replace the text of the current buffer by that of the buffer SOURCE, in place."
  (let ((inhibit-read-only t)
        ;; All of it or nothing, and it is soon done.
        (inhibit-quit t)
        ;; Else Emacs would ask whether to edit a file that changed on disk, or that another
        ;; Emacs has locked.
        (buffer-file-truename nil)
        ;; A region stays active.
        (deactivate-mark nil))
    (undo-boundary)
    ;; To undo what was done to an unmodified buffer leaves it unmodified, as long as the file has
    ;; the time that it had then.  But the old text is on no disk any more.
    (restore-buffer-modified-p t)
    (unwind-protect
        (save-restriction
          (widen)
          (let ((go-back (gemini-companion-write--lines)))
            (unless (replace-region-contents (point-min) (point-max) (lambda () source)
                                             gemini-companion-write--max-compare-time)
              (funcall go-back))))
      (restore-buffer-modified-p nil)
      (undo-boundary))))

(defun gemini-companion-write--lines ()
  "Return a function that goes back to the present line, in each window."
  (let ((line (line-number-at-pos))
        (windows (mapcar (lambda (window)
                           (list window
                                 (line-number-at-pos (window-start window))
                                 (line-number-at-pos (window-point window))))
                         (get-buffer-window-list nil nil t)))
        (start (lambda (line)
                 (save-excursion
                   (goto-char (point-min))
                   (line-beginning-position line)))))
    (lambda ()
      (goto-char (funcall start line))
      (pcase-dolist (`(,window ,first ,current) windows)
        (set-window-start window (funcall start first) t)
        (set-window-point window (funcall start current))))))

(defun gemini-companion-write--same-text-p (buffer)
  "Return non-nil if the current buffer has the same text as BUFFER."
  (save-restriction
    (widen)
    (let ((case-fold-search nil))
      (zerop (compare-buffer-substrings nil nil nil buffer nil nil)))))

(provide 'gemini-companion-write)
;;; gemini-companion-write.el ends here

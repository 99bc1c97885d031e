;;; gemini-companion-history.el --- Changes that were decided -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What became of the changes that clients proposed, with the file before and the text after, so
;; that the user can look at an accepted change again, and undo it byte for byte.  Kept in memory,
;; in bounded number and size.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-host)

(defconst gemini-companion-history--max-entries 100
  "Maximum number of changes that are kept, for each machine.")

(defconst gemini-companion-history--max-size (* 64 1024 1024)
  "Maximum length of all texts of the changes that are kept, for each machine.")

(defvar gemini-companion-history--entries nil
  "The decided changes, the newest first.")

(defvar gemini-companion-history-incomplete (make-hash-table :test #'eq :weakness 'key)
  "Prompts that led to changes which were made and are no longer kept.")

(cl-defstruct (gemini-companion-history-entry
               (:conc-name gemini-companion-history-)
               (:copier nil))
  "One decided change."
  (client nil :documentation "Name and version of the client.")
  (path nil :documentation "The absolute name of the file.")
  (host nil :documentation "The prefix of the host that the file is on, nil if it is local.")
  (truename nil :documentation "PATH without symbolic links when it was decided, nil on a host.")
  (time nil :documentation "When it was decided.")
  (prompt nil :documentation "The prompt that led to it, as in `gemini-companion-review'.")
  (outcome nil :documentation "`accepted' or `rejected' in Emacs; `accepted-there' or
`rejected-there' in the client, `closed' until it is known which;
`unwritten' (accepted, but the client did not write it), `cancelled' (the
client gave it up), `withdrawn' (the client has gone away, or proposed
something else), `unreviewed' (the client did not ask Emacs) or `undone'.")
  (written nil :documentation "Non-nil once the file was seen to contain AFTER.")
  (before nil :documentation "The contents of the file before, nil if there was none,
`unreadable' if they are not known.")
  (after nil :documentation "The text of the change when it was decided.")
  (size nil :documentation "The size of the change, as text, once it is known.")
  (undone nil :documentation "If undone, a cons of the outcome before that and the contents
of the file that the undo replaced, nil if there was no file."))

(defun gemini-companion-history-add (&rest slots)
  "Record a change that was decided now, and return its entry.
SLOTS are keywords and values as in `gemini-companion-history-entry'."
  (let ((entry (apply #'make-gemini-companion-history-entry :time (current-time) slots)))
    (setf (gemini-companion-history-truename entry) (gemini-companion-history--truename entry))
    (push entry gemini-companion-history--entries)
    (gemini-companion-history--trim (gemini-companion-history-host entry))
    entry))

(defun gemini-companion-history--truename (entry)
  "Return the local path of ENTRY without symbolic links, nil if it leads nowhere."
  (unless (gemini-companion-history-host entry)
    (let ((file-name-handler-alist nil))
      (ignore-errors (file-truename (gemini-companion-history-path entry))))))

(defun gemini-companion-history-target (entry)
  "Return what tells the file of ENTRY, of which its client may use several names."
  (or (gemini-companion-history-truename entry) (gemini-companion-history-path entry)))

(defun gemini-companion-history-moved-p (entry)
  "Return non-nil if the path of ENTRY leads to another file than it did then."
  (not (equal (gemini-companion-history-truename entry)
              (gemini-companion-history--truename entry))))

(defun gemini-companion-history-made-p (entry)
  "Return non-nil if the change of ENTRY was made, and not undone."
  (memq (gemini-companion-history-outcome entry) '(accepted accepted-there unreviewed)))

(defun gemini-companion-history-all ()
  "Return the decided changes, the newest first."
  (copy-sequence gemini-companion-history--entries))

(defun gemini-companion-history--trim (machine)
  "Remove the oldest entries of MACHINE, a host or nil, but never the newest.
A host must not crowd out changes elsewhere, which the user may want to undo."
  (setq gemini-companion-history--entries
        (cl-loop for entry in gemini-companion-history--entries
                 for own = (equal machine (gemini-companion-history-host entry))
                 count own into number
                 sum (if own (gemini-companion-history--characters entry) 0) into size
                 if (or (not own)
                        (= number 1)
                        (and (<= number gemini-companion-history--max-entries)
                             (<= size gemini-companion-history--max-size)))
                 collect entry
                 else if (gemini-companion-history-made-p entry)
                 do (puthash (gemini-companion-history-prompt entry) t
                             gemini-companion-history-incomplete))))

(defun gemini-companion-history--characters (entry)
  "Return the number of characters that ENTRY keeps."
  (cl-loop for text in (list (gemini-companion-history-before entry)
                             (gemini-companion-history-after entry)
                             (cdr (gemini-companion-history-undone entry)))
           if (stringp text) sum (length text)))

(defun gemini-companion-history-note (entry outcome)
  "Record OUTCOME as what became of the change of ENTRY.
If the user has undone it meanwhile, making it again restores OUTCOME."
  (if (eq (gemini-companion-history-outcome entry) 'undone)
      (setcar (gemini-companion-history-undone entry) outcome)
    (setf (gemini-companion-history-outcome entry) outcome)))

(defun gemini-companion-history-note-written (entry)
  "Record that the file of ENTRY was seen to contain its text."
  (setf (gemini-companion-history-written entry) t)
  (pcase (gemini-companion-history-outcome entry)
    ('unwritten (gemini-companion-history-note entry 'accepted))
    ;; Emacs may have stopped waiting for the client.
    ((or 'closed 'rejected-there) (gemini-companion-history-note entry 'accepted-there))))

(defun gemini-companion-history-count-unconfirmed ()
  "Return how many accepted changes hosts may not have heard of yet.
These were not reported as written, and were accepted less than 10 seconds
ago, or before the connection was lost: it takes that long to notice."
  (cl-loop for entry in gemini-companion-history--entries
           for host = (gemini-companion-history-host entry)
           for served = (and host (gemini-companion-host-named host))
           for end = (or (and served (gemini-companion-host-lost served)) (float-time))
           count (and host
                      (eq (gemini-companion-history-outcome entry) 'accepted)
                      (not (gemini-companion-history-written entry))
                      (< (- end (float-time (gemini-companion-history-time entry))) 10))))

(defun gemini-companion-history-note-undone (entry replaced)
  "Record that the change of ENTRY was undone.
REPLACED is what the file contained until then, nil if there was none."
  (setf (gemini-companion-history-undone entry)
        (cons (gemini-companion-history-outcome entry) replaced)
        (gemini-companion-history-outcome entry) 'undone)
  (gemini-companion-history--trim (gemini-companion-history-host entry)))

(defun gemini-companion-history-note-redone (entry)
  "Record that the change of ENTRY, which was undone, was made again."
  (setf (gemini-companion-history-outcome entry)
        (car (gemini-companion-history-undone entry))
        (gemini-companion-history-undone entry) nil))

(provide 'gemini-companion-history)
;;; gemini-companion-history.el ends here

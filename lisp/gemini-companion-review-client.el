;;; gemini-companion-review-client.el --- What clients do with reviews -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client opens a review, and closes it when the user has decided in the client, or when it goes
;; away.
;;
;; Clients of document 004 may also decide an open review as the user would, with the tools
;; `acceptDiff' and `rejectDiff'.  Then Emacs writes the file, so that its buffer and the file
;; agree.  Whoever has the token can call these tools, including programs that the CLI runs in a
;; sandbox, and must not bypass the user; see "What clients may not accept".

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-bridge)
(require 'gemini-companion-cli)
(require 'gemini-companion-file)
(require 'gemini-companion-private)
(require 'gemini-companion-review)
(require 'gemini-companion-review-effect)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)
(require 'gemini-companion-write)

(defcustom gemini-companion-accept-by-client 'ask
  "Whether clients of an older protocol may accept their own changes.
When you answer yes in such a client, it asks Emacs to write the file.  If
`ask', Emacs asks you each time whether to accept or reject the change.  If
`seen', it is enough that the change was on screen: then any program of
yours that knows the token can have Emacs write files of the project while
you are away.  If nil, only you can accept."
  :group 'gemini-companion-review
  :type '(choice (const :tag "Ask in Emacs each time" ask)
                 (const :tag "Changes that were on screen" seen)
                 (const :tag "None" nil))
  :risky t)

;;;; Opened and closed

(defun gemini-companion--handle-open-review (id agent client path text name version process)
  "Open the review ID: CLIENT, of AGENT, proposes TEXT for the file PATH.
NAME and VERSION are what the client reports; PROCESS is its id, or nil."
  (condition-case error
      (let ((host (gemini-companion-file-host path)))
        (unless (or (null host) (gemini-companion-file-known path))
          (error "Emacs does not know what %s contains" path))
        (gemini-companion-review-add
         (gemini-companion-review-make
          :id id :agent agent :client client :info (cons name version)
          :process process :path path :host host :proposed text :text text
          :created (current-time) :prompt (gemini-companion-cli-prompt-of-process process)
          :stamp (gemini-companion-file-stamp path)
          :base (gemini-companion-file-read path))))
    (error
     ;; Nobody would ever decide it.
     (gemini-companion-bridge-reject id)
     (gemini-companion-ui-message id "The change to %s was rejected: %s"
                                  (gemini-companion-ui-one-line path)
                                  (gemini-companion-ui-error-text error))
     (signal (car error) (cdr error)))))

(defun gemini-companion--handle-close-review (id call)
  "Close the review ID; if CALL is non-nil, answer it with the text."
  (let ((review (gemini-companion-review-with-id id)))
    (cond ((not review)
           (when call
             (gemini-companion-bridge-fail call "this diff is not open in Emacs any more")))
          (call (gemini-companion-review-client--close review call))
          (t
           (gemini-companion-review-end
            review 'withdrawn (gemini-companion-review-bytes review)
            (concat "withdrawn by " (gemini-companion-review-agent-title review)
                    (gemini-companion-review-where-edits-are review)))))))

(defun gemini-companion-review-client--close (review call)
  "End REVIEW, which the user has answered in the client, and answer CALL."
  (pcase-let* (((cl-struct gemini-companion-review path host) review)
               (text (gemini-companion-review-current-text review))
               (may-omit (gemini-companion-write-may-omit-p review text))
               ;; A client on a host does not wait long for our answer: it may have gone on.
               (made (gemini-companion-write-made-p review))
               ;; After the answer the client may write the file.
               (before (if made (gemini-companion-review-before review)
                         (gemini-companion-review-bytes review)))
               (stamp (if made (gemini-companion-review-stamp review)
                        (gemini-companion-file-stamp path))))
    (gemini-companion-write-revert-when-written review text stamp)
    (gemini-companion-bridge-answer call text may-omit)
    (gemini-companion-review-end
     review 'closed before (concat "decided in " (gemini-companion-review-agent-title review)))
    (gemini-companion-write-await-decision
     review stamp (and (or may-omit host) text)
     ;; The user has just been told something else.
     (or (gemini-companion-write-warn-of-lost-edits review)
         (gemini-companion-review-comments review)))))

;;;; Decided by a client of document 004

(defun gemini-companion--handle-decide-review (id accept call directory)
  "Accept the review ID if ACCEPT is non-nil, else reject it; answer CALL.
DIRECTORY is where the client works, or nil if that is not known."
  ;; A file name from a client must not make Emacs connect to another machine.
  (let ((file-name-handler-alist nil)
        (review (gemini-companion-review-with-id id)))
    (cond
     ;; The client has given up: nobody would know of the decision.
     ((not (gemini-companion-bridge-awaited-p call)))
     ((not review)
      (gemini-companion-bridge-fail call "this diff is not open in Emacs any more"))
     ((gemini-companion-review-host review)
      (gemini-companion-bridge-fail call "Only the user decides changes on another machine"))
     (t
      (condition-case error
          (if accept
              (gemini-companion-review-client--accept-for-client review call directory)
            (gemini-companion-review-decide review 'rejected 'client)
            (gemini-companion-review-client--answer-client review 'rejected call))
        (error (gemini-companion-bridge-fail call (gemini-companion-ui-error-text error))))))))

(defun gemini-companion-review-client--accept-for-client (review call directory)
  "Accept REVIEW for its client in DIRECTORY, or ask the user to; answer CALL."
  (unless gemini-companion-accept-by-client
    (error "In this Emacs only the user accepts"))
  (when (and (eq gemini-companion-accept-by-client 'seen)
             (not (gemini-companion-review-seen review)))
    (error "The user has not seen this diff in Emacs yet"))
  (let* ((file (gemini-companion-review-client--check-client review directory))
         (write (lambda (review text)
                  (gemini-companion-review-client--write-file review text file directory)))
         (answer (lambda (outcome)
                   (gemini-companion-review-client--answer-client review outcome call))))
    (if (not (eq gemini-companion-accept-by-client 'seen))
        (gemini-companion-review-request-accept review write answer)
      (let ((text (gemini-companion-review-current-text review)))
        (funcall answer
                 (and (gemini-companion-review-decide
                       review 'accepted 'client (lambda () (funcall write review text)))
                      'accepted))))))

(defun gemini-companion-review-client--answer-client (review outcome call)
  "Answer CALL: REVIEW has ended with OUTCOME, a symbol."
  (let ((path (gemini-companion-review-path review)))
    (pcase outcome
      ('accepted
       (gemini-companion-bridge-answer call (format "Accepted, and applied to %s" path)))
      ('rejected (gemini-companion-bridge-answer call (format "Rejected: %s" path)))
      (_ (gemini-companion-bridge-fail call "This diff was decided meanwhile")))))

(defun gemini-companion-review-client--write-file (review text file directory)
  "Write TEXT to FILE, that of REVIEW of a client in DIRECTORY, and report that.
Return nil if it was decided meanwhile; the file is then as before."
  (let* ((file-name-handler-alist nil)
         (before (gemini-companion-file-read file)))
    ;; The user may have been asked for minutes, in which a program can replace a directory by a
    ;; link.
    (unless (equal file (file-truename (gemini-companion-review-path review)))
      (error "%s now leads to another file: reject this change"
             (gemini-companion-review-file review)))
    (gemini-companion-review-client--check-place review directory)
    (gemini-companion-write-revert-when-written review text)
    ;; First, so that the report is true.
    (gemini-companion-file-write
     file (gemini-companion-file-encode text (gemini-companion-review-base review)))
    (or (gemini-companion-bridge-accept (gemini-companion-review-id review) text)
        (ignore (gemini-companion-file-write file before)))))

;;;; What clients may not accept

(defun gemini-companion-review-client--check-client (review directory)
  "Signal an error if only the user may accept REVIEW of a client in DIRECTORY.
Return the name of the file without symbolic links."
  (pcase (gemini-companion-review-effect-conflict review)
    ('unsaved (error "The user has unsaved edits of this file in Emacs"))
    ((or 'changed 'deleted) (error "The file has changed since this diff was opened")))
  (when (gemini-companion-review-effect-question review)
    (error "Only the user accepts this text: Emacs asks about it first"))
  (gemini-companion-review-client--check-place review directory))

(defun gemini-companion-review-client--check-place (review directory)
  "Signal an error if only the user may change the file of REVIEW.
For DIRECTORY and the value see `gemini-companion-review-client--check-client'."
  (let* ((path (gemini-companion-review-path review))
         (file (file-truename path))
         (root (gemini-companion-review-client--root file directory)))
    (when-let* ((reason (gemini-companion-private-reason-of
                         path (gemini-companion-review-visiting review))))
      (error "Only the user accepts a change to this file: it is %s" reason))
    (when-let* ((reason (or (gemini-companion-review-client--guard-reason path root)
                            (gemini-companion-review-client--guard-reason file root))))
      (error "Only the user accepts a change to this file: %s" reason))
    ;; If the report fails, what cannot be read cannot be restored.
    (when (or (eq (gemini-companion-review-bytes review) 'unreadable)
              (and (file-exists-p file) (not (file-writable-p file))))
      (error "This file cannot be read or written"))
    file))

(defun gemini-companion-review-client--root (file directory)
  "Return the root of FILE in which a client in DIRECTORY may accept changes.
If DIRECTORY is unknown or in no root, FILE may be in any project."
  (let ((names (gemini-companion-workspace-scope-names
                (gemini-companion-workspace-scope-of directory))))
    (cond ((cl-loop for name in names if (string-prefix-p name file) return name))
          (names
           (error "The client works in another project: only the user accepts this change"))
          ((cdr (gemini-companion-workspace-innermost file 'only-project)))
          (t (error "Outside of projects only the user accepts")))))

(defun gemini-companion-review-client--guard-reason (file root)
  "Return why FILE, in the workspace ROOT, can make programs run something, or nil."
  (let ((names (split-string file "/" t))
        (below (split-string (string-remove-prefix (file-name-as-directory root) file) "/" t)))
    (cond ((or (cl-loop for name in names
                        thereis (member (gemini-companion-private-downcase name)
                                        '(".git" ".hg" ".svn" ".bzr" ".jj")))
               (gemini-companion-file-in-repository-p file))
           "it is part of a repository")
          ((cl-loop for name in below thereis (string-prefix-p "." name))
           "a name that begins with a dot often configures programs")
          ;; What Git runs has no extension, unlike modules of a program in such a directory.
          ((and (string-search "hooks" (or (car (last names 2)) ""))
                (not (file-name-extension file)))
           "Git runs it")
          ((string-prefix-p (file-name-as-directory (file-truename user-emacs-directory))
                            (file-truename file))
           "Emacs loads such files"))))

(provide 'gemini-companion-review-client)
;;; gemini-companion-review-client.el ends here

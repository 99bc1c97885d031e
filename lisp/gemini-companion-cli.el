;;; gemini-companion-cli.el --- The CLIs, and what each of them does -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; One record for each process of a CLI that this Emacs knows of.  Emacs knows a CLI by its session
;; with Emacs, or by its hooks (see gemini-companion-tool-extension.el), which report what it does
;; in any terminal.  The process id connects hooks, sessions and reviews.  A CLI that Emacs has
;; started, and that has not connected yet, is known by its terminal.
;;
;; A CLI without hooks stays `idle' once it has started, except while its screen asks something.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)

;;;; The record

(cl-defstruct (gemini-companion-cli (:constructor gemini-companion-cli--make) (:copier nil))
  "A CLI."
  (agent nil :documentation "Its program, as in `gemini-companion-agent-profiles'.")
  (process nil :documentation "Its process id, as in `gemini-companion-bridge-session'.")
  (key nil :documentation "The key of its `gemini-companion-bridge-session', or nil.")
  (session nil :documentation "The id of its conversation, nil until its hooks report it.")
  (directory nil :documentation "Where it works, nil if that is not known.")
  (terminal nil :documentation "The buffer of its terminal, nil if unknown or not in Emacs.")
  (state 'idle :documentation "`starting', `idle' (no turn yet), `working', `asking' or `done'.")
  (since (float-time) :documentation "When it entered this state, in seconds since 1970.")
  (before nil :documentation "The state that it was in before this one.")
  (prompt nil :documentation "The last prompt, as in `gemini-companion-review', or nil.")
  (news nil :documentation "Non-nil if it is `done', and the user has not gone to it since.")
  (question nil :documentation "While it is `asking', what, as text; otherwise nil."))

(defvar gemini-companion-cli--all nil
  "The known CLIs, the oldest first.")

(defvar gemini-companion-cli-running-functions nil
  "Functions that return non-nil if a CLI is running in a terminal of Emacs.")

(defvar gemini-companion-cli-change-hook nil
  "Hook run when a CLI has started, ended or changed its state.")

(defvar gemini-companion-cli-state-functions nil
  "Functions called with a CLI that has entered another state.")

(defun gemini-companion-cli-all ()
  "Return the known CLIs, the oldest first."
  (copy-sequence gemini-companion-cli--all))

(defun gemini-companion-cli-in-state (state)
  "Return the CLIs in STATE, the one that has been in it for longest first.
A CLI whose change waits does not count as `working', whatever its hooks report."
  (seq-sort-by #'gemini-companion-cli-since #'<
               (seq-filter (lambda (cli)
                             (and (eq (gemini-companion-cli-state cli) state)
                                  (not (and (eq state 'working)
                                            (gemini-companion-cli-reviews cli)))))
                           gemini-companion-cli--all)))

(defun gemini-companion-cli-title (cli)
  "Return what CLI is called, for the user."
  (or (gemini-companion-agent-get (gemini-companion-cli-agent cli) :title) "A CLI"))

(defun gemini-companion-cli-of-process (process)
  "Return the CLI with the id PROCESS, or nil."
  (and process
       (cl-loop for cli in gemini-companion-cli--all
                if (equal process (gemini-companion-cli-process cli)) return cli)))

(defun gemini-companion-cli-prompt-of-process (process)
  "Return the last prompt of the CLI with the id PROCESS, or nil."
  (when-let* ((cli (gemini-companion-cli-of-process process)))
    (gemini-companion-cli-prompt cli)))

(defun gemini-companion-cli-project (cli)
  "Return the name of the project of CLI, for the user.
On another machine, that is the whole name of its directory."
  (let ((directory (and (gemini-companion-cli-directory cli)
                        (gemini-companion-host-name-here (gemini-companion-cli-directory cli)))))
    (gemini-companion-ui-one-line
     (cond ((null directory) "unknown")
           ((gemini-companion-host-remote-p directory) directory)
           (t (gemini-companion-workspace-title (directory-file-name directory) directory))))))

(defun gemini-companion-cli-reviews (cli)
  "Return the open reviews of CLI, the oldest first."
  (when-let* ((process (gemini-companion-cli-process cli)))
    (seq-filter (lambda (review) (equal process (gemini-companion-review-process review)))
                (gemini-companion-review-all-open))))

;;;; Sessions

(defun gemini-companion-cli--note-sessions (_count)
  "Find the CLIs of the current sessions, and forget those that have ended."
  (let* ((sessions (gemini-companion-bridge-sessions))
         (keys (mapcar #'gemini-companion-bridge-session-key sessions)))
    (mapc #'gemini-companion-cli--note-session sessions)
    (dolist (cli gemini-companion-cli--all)
      (setf (gemini-companion-cli-key cli) (car (member (gemini-companion-cli-key cli) keys))))
    (gemini-companion-cli-forget-ended)
    (gemini-companion-cli--changed)))

(defun gemini-companion-cli-forget-ended ()
  "Forget the CLIs whose processes have ended without a report."
  (setq gemini-companion-cli--all
        (cl-loop for cli in gemini-companion-cli--all
                 if (or (gemini-companion-cli-key cli) (gemini-companion-cli--lives-p cli))
                 collect cli)))

(add-hook 'gemini-companion-bridge-clients-functions #'gemini-companion-cli--note-sessions)

(defun gemini-companion-cli--note-session (session)
  "Record SESSION, a `gemini-companion-bridge-session', for its CLI."
  (let* ((process (gemini-companion-bridge-session-process session))
         (key (gemini-companion-bridge-session-key session))
         (cli (or (gemini-companion-cli-of-process process)
                  (cl-loop for cli in gemini-companion-cli--all
                           if (equal key (gemini-companion-cli-key cli)) return cli)
                  (gemini-companion-cli--add (gemini-companion-bridge-session-agent session)
                                             process))))
    (setf (gemini-companion-cli-key cli) key
          (gemini-companion-cli-directory cli)
          (or (gemini-companion-bridge-session-directory session)
              (gemini-companion-cli-directory cli)))))

(defun gemini-companion-cli--add (agent process &optional terminal directory)
  "Return the CLI in TERMINAL that has not connected, or a new one of AGENT.
It gets the id PROCESS; a new one works in DIRECTORY.  Each of them may be nil."
  (let* ((terminal (or terminal (gemini-companion-cli--find-terminal process)))
         (cli (seq-find (lambda (cli)
                          (and terminal (eq terminal (gemini-companion-cli-terminal cli))
                               (not (gemini-companion-cli-process cli))))
                        gemini-companion-cli--all)))
    (unless cli
      (setq cli (gemini-companion-cli--make :agent agent :terminal terminal :directory directory)
            gemini-companion-cli--all (append gemini-companion-cli--all (list cli))))
    (setf (gemini-companion-cli-process cli) process)
    cli))

(defun gemini-companion-cli--find-terminal (process)
  "Return the terminal of Emacs in which PROCESS, an id or nil, runs; or nil.
On a host, that is at first known only if the host is the sandbox of a CLI."
  (if (stringp process)
      (when-let* ((host (gemini-companion-host-of-name process)))
        (gemini-companion-host-sandbox host))
    (when-let* ((ids (gemini-companion-cli-ancestry process)))
      (seq-find (lambda (buffer)
                  (when-let* ((own (get-buffer-process buffer))) (memq (process-id own) ids)))
                (buffer-list)))))

(defun gemini-companion-cli-ancestry (process)
  "Return a list of PROCESS, an id on this machine, its parent, and so on.
Return nil if it is not such an id."
  (cl-loop for id = process then (gemini-companion-agent-parent-process id)
           while (and (integerp id) (> id 0) (not (memq id ids)))
           collect id into ids
           finally return ids))

(defun gemini-companion-cli--lives-p (cli)
  "Return non-nil if CLI, which has no session, may go on without one.
Its hooks then report what it does, or its terminal shows that it starts or
asks.  On a host, nothing but its session shows that it has ended."
  (if-let* ((process (gemini-companion-cli-process cli)))
      (when-let* (((gemini-companion-cli-session cli))
                  (attributes (gemini-companion-agent-process process)))
        ;; Its parent may not have noticed that it has ended.
        (not (equal (alist-get 'state attributes) "Z")))
    (and (process-live-p (get-buffer-process (gemini-companion-cli-terminal cli)))
         (or (eq (gemini-companion-cli-state cli) 'asking)
             (gemini-companion-cli-starting-p cli)))))

(defun gemini-companion-cli-open-session (cli)
  "Return the session of CLI if its stream is open, or nil."
  (when-let* ((key (gemini-companion-cli-key cli)))
    (seq-find (lambda (session)
                (and (equal key (gemini-companion-bridge-session-key session))
                     (eq 'open (gemini-companion-bridge-session-stream session))))
              (gemini-companion-bridge-sessions))))

(defun gemini-companion-cli-reviews-here-p (cli)
  "Return non-nil if CLI certainly proposes its changes in this Emacs.
It then asks here even if nobody is at its terminal."
  (when-let* ((session (gemini-companion-cli-open-session cli)))
    (and (not (gemini-companion-bridge-session-own-front session))
         (gemini-companion-bridge-session-knows-tools session))))

;;;; Events

(defun gemini-companion-cli-note (what agent process session directory &optional text)
  "Record that WHAT has happened to a CLI, as one of its hooks reports.
For WHAT and AGENT see `gemini-companion-agent-profiles'.  PROCESS is its
process id as in `gemini-companion-cli', SESSION the id of its
conversation, DIRECTORY where it works.  TEXT is the prompt, the question,
or the reason.  Return the CLI; but on a host, where only the number of
sessions is limited, return nil if it has no session."
  (when-let* ((cli (or (gemini-companion-cli-of-process process)
                       (unless (stringp process)
                         (or (gemini-companion-cli--of-conversation session process)
                             (gemini-companion-cli--add agent process))))))
    (setf (gemini-companion-cli-session cli) session
          (gemini-companion-cli-directory cli) (or directory (gemini-companion-cli-directory cli)))
    (pcase what
      ('prompt
       ;; It has given up what it had proposed before.
       (mapc #'gemini-companion-review-cancel (gemini-companion-cli-reviews cli))
       (setf (gemini-companion-cli-prompt cli) (cons (or text "") (current-time)))
       (gemini-companion-cli-enter cli 'working))
      ('asks (gemini-companion-cli-enter cli 'asking text))
      ('done (gemini-companion-cli-enter cli 'done))
      ((or 'edit 'edited 'ran) (gemini-companion-cli-enter cli 'working))
      ((and 'end (guard (equal text "clear"))) ; only the conversation
       (setf (gemini-companion-cli-prompt cli) nil)
       (gemini-companion-cli-enter cli 'idle))
      ('end (setq gemini-companion-cli--all (delq cli gemini-companion-cli--all))))
    (gemini-companion-cli--changed)
    cli))

(defun gemini-companion-cli--of-conversation (session process)
  "Return the CLI with the conversation SESSION, if PROCESS may be its process."
  (seq-find (lambda (cli)
              (and (equal session (gemini-companion-cli-session cli))
                   (not (and process (gemini-companion-cli-process cli)))))
            gemini-companion-cli--all))

(defun gemini-companion-cli-enter (cli state &optional question)
  "Record that CLI is in STATE, and if it is asking, its QUESTION."
  (setf (gemini-companion-cli-question cli) question)
  (unless (eq state (gemini-companion-cli-state cli))
    (setf (gemini-companion-cli-before cli) (gemini-companion-cli-state cli)
          (gemini-companion-cli-state cli) state
          (gemini-companion-cli-since cli) (float-time)
          (gemini-companion-cli-news cli) (eq state 'done))
    (gemini-companion-log-run-hook 'gemini-companion-cli-state-functions cli))
  (gemini-companion-cli--changed))

(defun gemini-companion-cli-note-visit (cli)
  "Record that the user has gone to CLI."
  (setf (gemini-companion-cli-news cli) nil)
  (gemini-companion-cli--changed))

(defun gemini-companion-cli--changed ()
  "Update what shows the CLIs."
  (force-mode-line-update t)
  (gemini-companion-log-run-hook 'gemini-companion-cli-change-hook))

;; While the companion is off, no hook reports the end of what a CLI does.
(add-hook 'gemini-companion-mode-off-hook
          (lambda ()
            (dolist (cli gemini-companion-cli--all)
              (gemini-companion-cli-enter cli 'idle))))

;;;; Screens

(defun gemini-companion-cli-note-start (terminal agent directory)
  "Record that Emacs has started AGENT in the buffer TERMINAL, in DIRECTORY."
  (gemini-companion-cli-enter (gemini-companion-cli--add agent nil terminal directory) 'starting))

(defun gemini-companion-cli-note-ready (terminal)
  "Record that the CLI in the buffer TERMINAL, if it was starting, is ready."
  (when-let* ((cli (gemini-companion-cli-in-terminal terminal))
              ((eq (gemini-companion-cli-state cli) 'starting)))
    (gemini-companion-cli-enter cli 'idle)
    (gemini-companion-cli-forget-ended)))

(defun gemini-companion-cli-starting-p (cli)
  "Return non-nil if CLI has just been started, and is not ready yet.
Emacs may not recognize the prompt of an unknown CLI, which is ready after
some seconds."
  (and (eq (gemini-companion-cli-state cli) 'starting)
       (gemini-companion-ui-recent-p (gemini-companion-cli-since cli) 15)))

(defun gemini-companion-cli-set-terminal (cli terminal)
  "Record that CLI, which is on a host, runs in the buffer TERMINAL.
Forget the record of TERMINAL from before CLI had connected."
  (unless (eq terminal (gemini-companion-cli-terminal cli))
    (setq gemini-companion-cli--all
          (seq-remove (lambda (other)
                        (and (eq terminal (gemini-companion-cli-terminal other))
                             (not (gemini-companion-cli-process other))))
                      gemini-companion-cli--all))
    (setf (gemini-companion-cli-terminal cli) terminal)))

(defun gemini-companion-cli-in-terminal (terminal)
  "Return the CLI that is known to run in the buffer TERMINAL, or nil."
  (cl-loop for cli in gemini-companion-cli--all
           if (eq terminal (gemini-companion-cli-terminal cli)) return cli))

(defun gemini-companion-cli-note-screen (terminal asks agent directory)
  "Record whether the CLI in TERMINAL ASKS something, as its screen shows.
AGENT runs there, in DIRECTORY.  A CLI that has not connected has a record
only while it starts or asks."
  (let ((cli (or (gemini-companion-cli-in-terminal terminal)
                 (and asks (gemini-companion-cli--add agent nil terminal directory)))))
    (cond ((null cli))
          (asks (gemini-companion-cli-enter cli 'asking (gemini-companion-cli-question cli)))
          ((eq (gemini-companion-cli-state cli) 'asking)
           ;; That is no news: the question may be a dialog of the user's, such as that of /model.
           ;; It may be `starting', if the user has trusted the folder.
           (setf (gemini-companion-cli-state cli) (gemini-companion-cli-before cli)
                 (gemini-companion-cli-since cli) (float-time)
                 (gemini-companion-cli-question cli) nil)
           (gemini-companion-cli-forget-ended)
           (gemini-companion-cli--changed)))))

(defun gemini-companion-cli-asking-unseen ()
  "Return a CLI that asks something in a terminal that is not visible, or nil."
  (seq-find (lambda (cli)
              (not (gemini-companion-ui-window-of (gemini-companion-cli-terminal cli))))
            (gemini-companion-cli-in-state 'asking)))

;;;; Reviews

(defun gemini-companion-cli-note-review-end (review outcome)
  "Record that REVIEW has ended with OUTCOME, which no hook reports.
If it was rejected or cancelled, that ends the turn, unless other changes wait."
  (when-let* (((memq outcome '(rejected cancelled)))
              (cli (gemini-companion-cli-of-process (gemini-companion-review-process review)))
              ((not (gemini-companion-cli-reviews cli)))
              ;; Emacs learns of a rejection in the client late: the next turn may have begun.
              ((eq (gemini-companion-cli-prompt cli) (gemini-companion-review-prompt review)))
              ((not (memq (gemini-companion-cli-state cli) '(starting idle)))))
    (gemini-companion-cli-enter cli 'done)))

(add-hook 'gemini-companion-review-end-functions #'gemini-companion-cli-note-review-end)

(provide 'gemini-companion-cli)
;;; gemini-companion-cli.el ends here

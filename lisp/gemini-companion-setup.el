;;; gemini-companion-setup.el --- Let a CLI connect by itself -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A CLI connects when it starts if ide.enabled is true in its settings; otherwise it connects only
;; after a command in it.  This file adds that setting if the user wants it, after one question for
;; each program.  Nothing else in the user's file changes, not even a blank: it may have comments,
;; members in some order, and an indentation of its own.  A file that cannot be read with certainty
;; is left alone.
;;
;; A CLI that is running knows nothing of the change, and when it saves its settings the new one is
;; lost.  So `gemini-companion-run' checks again each time.

;;; Code:

(require 'seq)
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-answer)
(require 'gemini-companion-client)
(require 'gemini-companion-file)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)
(require 'gemini-companion-write)

(defvar gemini-companion-setup-policy
  (gemini-companion-answer-saved 'gemini-companion-setup-policy nil)
  "Programs about which you need not be asked whether they connect by themselves.
The value is an alist of names in `gemini-companion-agent-profiles' and
`always' or `never'; for another machine it has (NAME . MACHINE) instead of
the name.  What you set in your init file comes before your answers, which
are kept elsewhere; what an earlier version has saved here comes after them.")
(put 'gemini-companion-setup-policy 'risky-local-variable t)

(define-error 'gemini-companion-setup-unusable
  "Settings of a CLI that are left alone" 'gemini-companion-error)

(defvar gemini-companion-setup-functions nil
  "Functions that `gemini-companion-setup' calls after its own questions.
Each may ask another one, and returns the outcome as text for the user, or
nil.")

(defvar gemini-companion-setup--settings-file nil
  "The file that error messages name.")

;;;; The command

;;;###autoload
(defun gemini-companion-setup ()
  "Let Gemini CLI connect by itself when it starts, after a question.
This adds ide.enabled to its settings, and leaves everything else in that
file alone.  You are asked for each program that is served and used here,
even if you have answered before.  For another machine, you are asked by
`gemini-companion-run'."
  (interactive)
  (let ((default-directory (if (file-remote-p default-directory)
                               gemini-companion-agent-neutral-directory
                             default-directory))
        (done nil)
        (failed nil))
    (dolist (agent (or (gemini-companion-setup--agents)
                       (user-error "Type /ide enable in the CLI: it is not known where the \
programs that are served have their settings")))
      (condition-case problem
          (push (gemini-companion-setup--offer agent) done)
        (gemini-companion-setup-unusable
         (push (gemini-companion-ui-error-text problem) failed))))
    (run-hook-wrapped 'gemini-companion-setup-functions
                      (lambda (function)
                        (when-let* ((text (funcall function)))
                          (push text done))
                        nil))
    (when done
      (message "%s" (string-join (nreverse done) "\n")))
    (when failed
      (user-error "%s" (string-join (nreverse failed) "\n")))))

(defun gemini-companion-setup--agents ()
  "Return the programs that are served and used here and have known settings."
  (seq-filter (lambda (agent)
                (and (gemini-companion-setup--file agent)
                     (gemini-companion-agent-directories agent)))
              (gemini-companion-agent-served)))

(defun gemini-companion-setup--file (agent)
  "Return the settings file of AGENT, started from this buffer, or nil.
On another machine, of whose environment nothing is known, it is where it
is by default."
  (if-let* ((machine (file-remote-p default-directory)))
      (pcase (gemini-companion-agent-get agent :settings)
        (`(,_ ,default ,file) (concat machine (file-name-as-directory default) file)))
    (gemini-companion-agent-settings-file agent process-environment)))

(defun gemini-companion-setup--key (agent)
  "Return what stands for AGENT, started from this buffer, among the answers."
  (if-let* ((machine (file-remote-p default-directory)))
      (cons agent machine)
    agent))

(defun gemini-companion-setup--question (agent)
  "Return the question about AGENT, started from this buffer."
  (cons 'setup (gemini-companion-setup--key agent)))

(defun gemini-companion-setup--answer (agent)
  "Return what the user wants of AGENT, started from this buffer, or nil.
It is `always' or `never'."
  (let ((set (cdr (assoc (gemini-companion-setup--key agent) gemini-companion-setup-policy)))
        (answer (gemini-companion-answer-get (gemini-companion-setup--question agent))))
    (if (equal gemini-companion-setup-policy
               (gemini-companion-answer-saved 'gemini-companion-setup-policy nil))
        ;; An answer of long ago.
        (or answer set)
      (or set answer))))

(defun gemini-companion-setup--offer (agent)
  "Ask whether AGENT shall connect by itself, unless it does.
Return the outcome, as text for the user."
  (let ((value (gemini-companion-setup--ide-enabled (gemini-companion-setup--file agent))))
    (if (eq value t)
        (gemini-companion-setup--describe agent "connects by itself")
      (gemini-companion-setup--ask agent value))))

(defun gemini-companion-setup--ask (agent value &optional starting)
  "Ask whether AGENT shall connect by itself, and if so let it.
VALUE is that of ide.enabled in its settings.  STARTING and the value are
as in `gemini-companion-setup-do'."
  (let* ((file (abbreviate-file-name (gemini-companion-setup--file agent)))
         (question (format "Let %s connect by itself? (%s %s) "
                           (gemini-companion-agent-get agent :title)
                           (if value "switches on ide.enabled in" "adds ide.enabled to")
                           file)))
    (cond ((y-or-n-p question)
           (gemini-companion-setup-do agent process-environment starting))
          (t (gemini-companion-setup--remember agent 'never)
             (format "%s is left as it is; M-x gemini-companion-setup asks again" file)))))

(defun gemini-companion-setup-do (agent environment &optional starting)
  "Let AGENT, started with ENVIRONMENT, connect by itself.
STARTING is non-nil if it is about to start.  Return the outcome, as text
for the user.  Signal `gemini-companion-setup-unusable' if its settings
cannot be changed."
  (let* ((process-environment environment)
         (file (gemini-companion-setup--file agent))
         (stale (gemini-companion-setup-enable-ide file)))
    (gemini-companion-log-add "ide.enabled is now true in %s" file)
    (gemini-companion-setup--remember agent 'always)
    (concat (gemini-companion-setup--describe
             agent (if starting "connects by itself" "connects by itself when it next starts"))
            (if stale
                (format ".  The buffer %s shows the old text" (buffer-name stale))
              ""))))

(defun gemini-companion-setup--describe (agent predicate)
  "Return a sentence of AGENT and PREDICATE, or what prevents that it is true."
  (let ((title (gemini-companion-agent-get agent :title))
        (file (gemini-companion-setup--file agent)))
    (pcase (gemini-companion-setup--effective agent)
      ((and `(,value . ,other) (guard (not (eq value t))))
       (format "%s does not connect by itself here: ide.enabled is true in %s, but not in %s, \
which takes precedence" title (abbreviate-file-name file) (abbreviate-file-name other)))
      (_ (format "%s %s: ide.enabled is true in %s" title predicate
                 (abbreviate-file-name file))))))

(defun gemini-companion-setup--effective (agent)
  "Return (VALUE . FILE) for the ide.enabled that counts for AGENT here, or nil.
Only for Gemini CLI is it known which files there are apart from the
user's."
  (when (and (eq agent 'gemini) (not (file-remote-p default-directory)))
    (gemini-companion-client-ide-mode
     default-directory process-environment
     (gemini-companion-client-settings default-directory process-environment))))

(defun gemini-companion-setup--remember (agent answer)
  "Keep ANSWER, `always' or `never', as that for AGENT."
  (unless (eq answer (gemini-companion-setup--answer agent))
    (gemini-companion-answer-set (gemini-companion-setup--question agent) answer)
    ;; Until Emacs exits, the user's last word counts.
    (setq gemini-companion-setup-policy
          (assoc-delete-all (gemini-companion-setup--key agent)
                            (copy-alist gemini-companion-setup-policy)))))

;;;; Before each run

(defun gemini-companion-setup-before-run (agent)
  "Let AGENT, about to run in `default-directory', connect by itself.
Ask if the user was not asked before.  Show a message if the settings
cannot be changed.  In batch mode ask nothing."
  (when (and (gemini-companion-setup--file agent)
             (not (eq (gemini-companion-setup--answer agent) 'never))
             (not (eq (car (gemini-companion-setup--effective agent)) t)))
    (condition-case problem
        (when-let* ((text (gemini-companion-setup--ensure agent)))
          (message "%s" text))
      (gemini-companion-setup-unusable
       (gemini-companion-log-add "%s" (gemini-companion-ui-error-text problem))
       (message "%s" (gemini-companion-ui-error-text problem))))))

(defun gemini-companion-setup--ensure (agent)
  "Let AGENT connect by itself if it does not; ask if necessary.
Return the outcome, as text for the user, or nil."
  (let ((value (gemini-companion-setup--ide-enabled (gemini-companion-setup--file agent))))
    (cond ((eq value t) nil)
          ;; It was there, and got lost.  If it is false, somebody has switched it off.
          ((and (null value) (eq (gemini-companion-setup--answer agent) 'always))
           (gemini-companion-setup-do agent process-environment 'starting))
          (noninteractive nil)
          (t (gemini-companion-setup--ask agent value 'starting)))))

;;;; The settings

(defun gemini-companion-setup--refuse (format &rest arguments)
  "Signal that the file is left alone, because of FORMAT with ARGUMENTS."
  (signal 'gemini-companion-setup-unusable
          (list (format "%s is left alone: %s"
                        (abbreviate-file-name gemini-companion-setup--settings-file)
                        (apply #'format format arguments)))))

(defmacro gemini-companion-setup--with (file &rest body)
  "Evaluate BODY about FILE, without handlers of files.
They are only used for a remote FILE.  Signal errors of the file
system, and of JSON, as refusals."
  (declare (indent 1) (debug t))
  `(let* ((gemini-companion-setup--settings-file ,file)
          (file-name-handler-alist (and (gemini-companion-host-remote-p
                                         gemini-companion-setup--settings-file)
                                        file-name-handler-alist))
          ;; A CLI changes the file, too.
          (remote-file-name-inhibit-cache t))
     (condition-case problem
         (progn ,@body)
       (json-error (gemini-companion-setup--refuse "it %s" (cadr problem)))
       (file-error
        (gemini-companion-setup--refuse
         "%s" (string-join (seq-filter #'stringp (cdr problem)) ", "))))))

(defun gemini-companion-setup--ide-enabled (file)
  "Return what ide.enabled is in FILE: t, `false', or nil if it is not set.
Signal `gemini-companion-setup-unusable' if it could not be changed."
  (gemini-companion-setup--with file
    (let ((value (gemini-companion-setup--value-in (gemini-companion-setup--read file))))
      (unless (eq value t)
        (gemini-companion-setup--check-changeable file))
      value)))

(defun gemini-companion-setup-enable-ide (file)
  "Make ide.enabled true in FILE, which need not exist.
A buffer that visits FILE is reverted; return it if it could not be.
Signal `gemini-companion-setup-unusable', and change nothing, if FILE
cannot be changed."
  (gemini-companion-setup--with file
    (let* ((target (gemini-companion-setup--target file))
           (old (gemini-companion-setup--read target)))
      (unless (eq (gemini-companion-setup--value-in old) t)
        (gemini-companion-setup--check-changeable file)
        (gemini-companion-setup--write target old
                                       (gemini-companion-setup--enabled old)))))
  (gemini-companion-write-revert-now file))

(defun gemini-companion-setup--check-changeable (file)
  "Refuse to change FILE if it is read-only, or a buffer has edits of it."
  (when (and (file-exists-p file) (not (file-writable-p file)))
    (gemini-companion-setup--refuse "it is read-only"))
  (when-let* ((buffer (find-buffer-visiting file)))
    (when (buffer-modified-p buffer)
      (gemini-companion-setup--refuse "its buffer has edits; save or revert it first"))))

(defun gemini-companion-setup--target (file)
  "Return FILE, or where it leads to if it is a symbolic link."
  (condition-case nil
      (file-truename file)
    (error (gemini-companion-setup--refuse "it is a link that leads to itself"))))

(defun gemini-companion-setup--read (file)
  "Return the bytes in FILE, or nil if there is none."
  (when (file-attributes (gemini-companion-setup--target file))
    (when-let* ((fault (gemini-companion-client-unreadable file)))
      (gemini-companion-setup--refuse "it %s" fault))
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (insert-file-contents-literally file)
      (buffer-string))))

(defun gemini-companion-setup--write (file old new)
  "Replace OLD, the bytes in FILE, by NEW.  OLD is nil if FILE does not exist."
  (unless old
    (with-file-modes #o700
      (make-directory (file-name-directory file) t)))
  (gemini-companion-file-replace
   file new
   (unless old #o600)                   ; a new file is private
   (lambda ()
     ;; A CLI saves its settings, too.
     (unless (equal old (gemini-companion-setup--read file))
       (gemini-companion-setup--refuse "it was changed at this very moment; try again")))))

;;;; The change

;; Values in the buffer are nodes, as `gemini-companion-client-json-node' returns them.

(defmacro gemini-companion-setup--with-bytes (bytes &rest body)
  "Evaluate BODY at the start of a temporary buffer of BYTES, which may be nil."
  (declare (indent 1) (debug t))
  `(with-temp-buffer
     (set-buffer-multibyte nil)
     (insert (or ,bytes ""))
     (goto-char (point-min))
     ,@body))

(defun gemini-companion-setup--value-in (bytes)
  "Return what ide.enabled is in BYTES: t, `false', or nil if it is not set."
  (gemini-companion-setup--with-bytes bytes
    (pcase (gemini-companion-setup--find)
      (`(set ,value . ,_) (if (eq value t) t 'false)))))

(defun gemini-companion-setup--enabled (bytes)
  "Return BYTES, the text of settings, with ide.enabled true."
  (gemini-companion-setup--with-bytes bytes
    (pcase (gemini-companion-setup--find)
      ('new
       (insert "{" (gemini-companion-setup--print '("ide" "enabled") "\n  " "  ") "\n}\n"))
      (`(set ,_ ,start ,end . ,_)
       (goto-char start)
       (delete-region start end)
       (insert "true"))
      (`(within ,root ,object . ,names)
       (gemini-companion-setup--insert-member root object names)))
    (buffer-string)))

(defun gemini-companion-setup--find ()
  "Return what is to be done in the current buffer to make ide.enabled true.
The value is `new' if the buffer is empty or blank; (set . NODE) if NODE is
its value; or (within ROOT OBJECT . NAMES) if OBJECT, a node in the node
ROOT or ROOT itself, lacks what NAMES lead to."
  (if (string-match-p "\\`[ \t\r\n]*\\'" (buffer-string))
      'new
    (let* ((root (gemini-companion-client-json-node))
           (ide (gemini-companion-setup--member "ide" root))
           (enabled (gemini-companion-setup--member "enabled" ide)))
      (cond ((not (listp (car root)))
             (gemini-companion-setup--refuse "it holds no JSON object"))
            ((null ide) (list 'within root root "ide" "enabled"))
            ((not (listp (car ide)))
             (gemini-companion-setup--refuse "\"ide\" is no object in it"))
            ((null enabled) (list 'within root ide "enabled"))
            ((not (memq (car enabled) '(t :json-false :null)))
             (gemini-companion-setup--refuse "ide.enabled is neither true nor false in it"))
            (t (cons 'set enabled))))))

(defun gemini-companion-setup--member (name object)
  "Return the node of the member NAME of the node OBJECT, or nil."
  (cddr (assoc name (nthcdr 3 object))))

(defun gemini-companion-setup--print (names line unit)
  "Return a member called by the first of NAMES, which contains one of the next.
The last one is true.  LINE is what each line begins with, a newline and
blanks, and UNIT is the indentation of each level.  If LINE is nil, the
member is on one line."
  (let ((within (and line (concat line unit))))
    (concat line "\"" (car names) "\": "
            (if (cdr names)
                (concat "{" (gemini-companion-setup--print (cdr names) within unit) line "}")
              "true"))))

(defun gemini-companion-setup--insert-member (root object names)
  "Insert a member, as printed for NAMES, at the start of OBJECT.
That is a node in the node ROOT."
  (let* ((unit (gemini-companion-setup--unit root))
         (line (gemini-companion-setup--line root object unit))
         (member (gemini-companion-setup--print names line unit)))
    (goto-char (1+ (nth 1 object)))
    (cond ((null line)
           (insert (gemini-companion-setup--on-one-line object member)))
          ((nthcdr 3 object)
           (gemini-companion-setup--skip-line)
           (insert member ","))
          (t
           (gemini-companion-setup--skip-line)
           (insert member
                   ;; The closing bracket gets a line of its own.
                   (if (gemini-companion-setup--same-line-p (point) (nth 2 object))
                       (gemini-companion-setup--line-of (nth 1 object))
                     ""))))))

(defun gemini-companion-setup--on-one-line (object member)
  "Return MEMBER as it is inserted at point, the start of the node OBJECT.
The blanks at point are repeated after it."
  (let ((blanks (and (looking-at "[ \t]*") (match-string 0))))
    (cond ((null (nthcdr 3 object)) member)
          ((string-empty-p blanks) (concat member ", "))
          (t (concat blanks member ",")))))

(defun gemini-companion-setup--line (root object unit)
  "Return what the line of a member of OBJECT begins with, a newline and blanks.
That is nil if they are all on one line.  OBJECT is a node in the node
ROOT, in which UNIT is the indentation of each level."
  (cond ((nthcdr 3 object)
         (let ((first (gemini-companion-setup--first-member object)))
           (unless (gemini-companion-setup--same-line-p (nth 1 object) first)
             (gemini-companion-setup--line-of first))))
        ((or (eq root object) (gemini-companion-setup--line root root unit))
         (concat (gemini-companion-setup--line-of (nth 1 object)) unit))))

(defun gemini-companion-setup--unit (root)
  "Return the blanks by which members of the node ROOT are indented."
  (let ((first (and (nthcdr 3 root) (gemini-companion-setup--first-member root))))
    (if (or (null first) (gemini-companion-setup--same-line-p (nth 1 root) first))
        "  "
      (gemini-companion-setup--indentation first))))

(defun gemini-companion-setup--first-member (object)
  "Return where the first member of the node OBJECT begins."
  (cadar (last (nthcdr 3 object))))

(defun gemini-companion-setup--same-line-p (one other)
  "Return non-nil if no line ends between the positions ONE and OTHER."
  (save-excursion
    (goto-char one)
    (<= one other (line-end-position))))

(defun gemini-companion-setup--indentation (position)
  "Return the blanks with which the line of POSITION begins."
  (save-excursion
    (goto-char position)
    (forward-line 0)
    (looking-at "[ \t]*")
    (match-string 0)))

(defun gemini-companion-setup--line-of (position)
  "Return a newline, as in this buffer, and the indentation of POSITION's line."
  (concat (save-excursion
            (goto-char (point-min))
            (end-of-line)
            (if (eq (char-before) ?\r) "\r\n" "\n"))
          (gemini-companion-setup--indentation position)))

(defun gemini-companion-setup--skip-line ()
  "Move over blanks and comments if nothing else follows on the line.
A closing bracket may follow them."
  (let ((start (point)))
    (while (progn (skip-chars-forward " \t")
                  (looking-at "//.*\\|/\\*\\(?:[^*\n]\\|\\*+[^*/\n]\\)*\\*+/"))
      (goto-char (match-end 0)))
    (when (and (eolp) (eq (char-before) ?\r))
      (backward-char))
    (unless (looking-at "\r?$\\|}")
      (goto-char start))))

(provide 'gemini-companion-setup)
;;; gemini-companion-setup.el ends here

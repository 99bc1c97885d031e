;;; gemini-companion-setup.el --- Let a CLI connect by itself -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A CLI connects when it starts if ide.enabled is true in its settings, and else only after a
;; command in it.  That is put there if the user wants it, who is asked once for each program.
;;
;; A CLI that runs meanwhile knows nothing of it, and when it saves some setting the new one is
;; gone.  So `gemini-companion-run' looks again each time.

;;; Code:

(require 'json)
(require 'seq)
(require 'subr-x)
(require 'gemini-companion-agent)
(require 'gemini-companion-client)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)
(require 'gemini-companion-write)

(declare-function custom-file "cus-edit")

;;;###autoload (custom-add-load 'gemini-companion 'gemini-companion-setup)
(defcustom gemini-companion-setup-policy nil
  "What you answered when asked whether a program shall connect by itself.
An alist of names in `gemini-companion-agent-profiles' and `always' or
`never'.  You are asked about any other when `gemini-companion-run' first
runs it, and your answer is saved here.  With `always', ide.enabled is
also put into its settings again if it gets lost.  To be asked again type
\\[gemini-companion-setup]."
  :type '(alist :key-type (choice (const :tag "Gemini CLI" gemini)
                                  (const :tag "Qwen Code" qwen)
                                  (symbol :tag "Another"))
                :value-type (choice (const :tag "It connects by itself" always)
                                    (const :tag "Its settings are left alone" never)))
  :group 'gemini-companion
  :risky t)

;;;; The command

;;;###autoload
(defun gemini-companion-setup ()
  "Let Gemini CLI connect by itself when it starts, after a question.
That adds ide.enabled to its settings, and leaves all else in that file
as it is.  You are asked for each program that is served and used here;
see `gemini-companion-setup-policy'."
  (interactive)
  (let ((said nil)
        (failed nil))
    (dolist (agent (or (gemini-companion-setup--agents)
                       (user-error "Type /ide enable in the CLI: where those that are served \
have their settings is not known")))
      (condition-case problem
          (push (gemini-companion-setup--offer agent) said)
        (gemini-companion-setup-unusable
         (push (gemini-companion-ui-error-text problem) failed))))
    (when said
      (message "%s" (string-join (nreverse said) "\n")))
    (when failed
      (user-error "%s" (string-join (nreverse failed) "\n")))))

(defun gemini-companion-setup--agents ()
  "Return the programs that are served and used here and have known settings."
  (seq-filter (lambda (agent)
                (and (gemini-companion-setup--file agent)
                     (gemini-companion-agent-directories agent)))
              (gemini-companion-agent-served)))

(defun gemini-companion-setup--file (agent)
  "Return the settings of AGENT if it is started from the current buffer, or nil."
  (gemini-companion-agent-settings-file agent process-environment))

(defun gemini-companion-setup--offer (agent)
  "Ask whether AGENT shall connect by itself unless it does; return what to say."
  (let* ((file (gemini-companion-setup--file agent))
         (value (gemini-companion-setup-ide-enabled file)))
    (if (eq value t)
        (gemini-companion-setup--describe agent "connects by itself")
      (gemini-companion-setup--ask agent file value))))

(defun gemini-companion-setup--ask (agent file value)
  "Ask whether AGENT shall connect by itself, and have it; return what to say.
FILE has its settings, in which ide.enabled is VALUE."
  (cond ((y-or-n-p (gemini-companion-setup--question agent file value))
         (gemini-companion-setup-do agent process-environment))
        (t (gemini-companion-setup--remember agent 'never)
           (format "%s is left as it is; M-x gemini-companion-setup asks again"
                   (abbreviate-file-name file)))))

(defun gemini-companion-setup--question (agent file value)
  "Return what `gemini-companion-setup--ask' asks about AGENT, FILE and VALUE."
  (format "Let %s connect by itself? (%s %s) "
          (gemini-companion-agent-get agent :title)
          (if value "switches on ide.enabled in" "adds ide.enabled to")
          (abbreviate-file-name file)))

(defun gemini-companion-setup-do (agent environment)
  "Let AGENT, started with ENVIRONMENT, connect by itself; return what to say.
Signal `gemini-companion-setup-unusable' if that cannot be."
  (let* ((process-environment environment)
         (file (gemini-companion-setup--file agent))
         (stale (gemini-companion-setup-enable-ide file)))
    (gemini-companion-log-add "ide.enabled is now true in %s" file)
    (gemini-companion-setup--remember agent 'always)
    (concat (gemini-companion-setup--describe agent "connects by itself when it next starts")
            (if stale
                (format ".  The buffer %s shows the old text" (buffer-name stale))
              ""))))

(defun gemini-companion-setup--describe (agent words)
  "Return a text that AGENT does what WORDS say, and what keeps it from that."
  (let ((title (gemini-companion-agent-get agent :title))
        (file (gemini-companion-setup--file agent)))
    (pcase (gemini-companion-setup--effective agent)
      ((and `(,value . ,other) (guard (not (eq value t))))
       (format "%s does not connect by itself here: ide.enabled is true in %s, but not in %s, \
which comes first" title (abbreviate-file-name file) (abbreviate-file-name other)))
      (_ (format "%s %s: ide.enabled is true in %s" title words (abbreviate-file-name file))))))

(defun gemini-companion-setup--effective (agent)
  "Return (VALUE . FILE) for the ide.enabled that counts for AGENT here, or nil.
It is known only of Gemini CLI which files there may be besides the
user's."
  (when (and (eq agent 'gemini) (not (file-remote-p default-directory)))
    (gemini-companion-client-ide-mode
     default-directory process-environment
     (gemini-companion-client-settings default-directory process-environment))))

(defun gemini-companion-setup--remember (agent answer)
  "Save ANSWER, `always' or `never', as that for AGENT."
  (unless (eq answer (alist-get agent gemini-companion-setup-policy))
    (gemini-companion-setup-save
     'gemini-companion-setup-policy
     (cons (cons agent answer)
           (assq-delete-all agent (copy-alist gemini-companion-setup-policy))))))

(defun gemini-companion-setup-save (option value)
  "Save VALUE, which an answer gave, as that of OPTION.
Where nothing can be saved it holds until Emacs exits."
  (require 'cus-edit)
  (let ((file (custom-file t)))
    (gemini-companion-log-errors (symbol-name option)
      ;; To save into a file that is read-only would ask one more question.
      (funcall (if (and file (file-writable-p file))
                   #'customize-save-variable
                 #'customize-set-variable)
               option value))))

;;;; Before each run

(defun gemini-companion-setup-before-run (agent)
  "See to it that AGENT, about to run in `default-directory', connects by itself.
Ask if the user was not asked before; leave all as it is if that is not
wanted, and say so if it cannot be.  In batch mode nothing is asked."
  (when (and (gemini-companion-setup--file agent)
             (not (eq (alist-get agent gemini-companion-setup-policy) 'never))
             (not (eq (car (gemini-companion-setup--effective agent)) t)))
    (condition-case problem
        (when-let* ((text (gemini-companion-setup--look agent)))
          (message "%s" text))
      (gemini-companion-setup-unusable
       (gemini-companion-log-add "%s" (gemini-companion-ui-error-text problem))
       (message "%s" (gemini-companion-ui-error-text problem))))))

(defun gemini-companion-setup--look (agent)
  "Look whether AGENT connects by itself, and have it; return what to say, or nil."
  (let* ((file (gemini-companion-setup--file agent))
         (value (gemini-companion-setup-ide-enabled file)))
    (cond ((eq value t) nil)
          ;; Lost, since it was there.  But what is false somebody has switched off.
          ((and (null value) (eq (alist-get agent gemini-companion-setup-policy) 'always))
           (gemini-companion-setup-do agent process-environment))
          (noninteractive nil)
          (t (gemini-companion-setup--ask agent file value)))))

;;;; Settings of a CLI

(define-error 'gemini-companion-setup-unusable
  "Settings of a CLI that are left alone" 'gemini-companion-error)

(defconst gemini-companion-setup--max-size (* 1024 1024)
  "Size in bytes of a file that cannot be settings.")

(defconst gemini-companion-setup--max-depth 60
  "Objects and arrays in each other beyond which a file is not read.")

(defvar gemini-companion-setup--settings-file nil
  "The name of the file that is worked on.")

(defun gemini-companion-setup--refuse (format &rest arguments)
  "Leave the file alone, because of FORMAT with ARGUMENTS."
  (signal 'gemini-companion-setup-unusable
          (list (format "%s is left alone: %s"
                        (abbreviate-file-name gemini-companion-setup--settings-file)
                        (apply #'format format arguments)))))

;;;; What others call

(defmacro gemini-companion-setup--with (file &rest body)
  "Evaluate BODY about FILE, with no handler or hook of files.
An error of the file system is one of the settings."
  (declare (indent 1) (debug t))
  `(let ((gemini-companion-setup--settings-file ,file)
         (file-name-handler-alist nil)
         (write-region-annotate-functions nil)
         (write-region-post-annotation-function nil)
         (create-lockfiles nil)
         ;; Each level of what is read takes some, more so if this is not compiled.
         (max-lisp-eval-depth (+ 10000 max-lisp-eval-depth)))
     (condition-case problem
         (progn ,@body)
       (file-error
        (gemini-companion-setup--refuse "%s" (string-join (seq-filter #'stringp (cdr problem))
                                                          ", "))))))

(defun gemini-companion-setup-ide-enabled (file)
  "Return what ide.enabled is in FILE: t, `false', or nil if it is not set.
Signal `gemini-companion-setup-unusable' if it could not be changed."
  (gemini-companion-setup--with file
    (let ((value (gemini-companion-setup--value-in (gemini-companion-setup--read file))))
      (unless (eq value t)
        (gemini-companion-setup--check-changeable file))
      value)))

(defun gemini-companion-setup-enable-ide (file)
  "Make ide.enabled true in FILE, which need not be there.
A buffer that visits it follows; return it if it does not.  Signal
`gemini-companion-setup-unusable', and change nothing, if that cannot
be."
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

;;;; The file

(defun gemini-companion-setup--target (file)
  "Return FILE, or where it leads to if it is a symbolic link."
  (condition-case nil
      (file-truename file)
    (error (gemini-companion-setup--refuse "it is a link that leads to itself"))))

(defun gemini-companion-setup--read (file)
  "Return the bytes in FILE, or nil if there is none."
  (let ((attributes (file-attributes (gemini-companion-setup--target file))))
    (cond ((null attributes) nil)
          ;; Anything else could make us wait.
          ((not (file-regular-p file))
           (gemini-companion-setup--refuse "it is no file"))
          ((> (file-attribute-size attributes) gemini-companion-setup--max-size)
           (gemini-companion-setup--refuse "it is far too large"))
          ((not (file-readable-p file))
           (gemini-companion-setup--refuse "it cannot be read"))
          (t (with-temp-buffer
               (set-buffer-multibyte nil)
               (insert-file-contents-literally file)
               (buffer-string))))))

(defun gemini-companion-setup--write (file old new)
  "Put NEW into FILE, whose bytes are OLD, or nil if it is not there.
There is no moment at which half of it is there."
  (unless old
    (with-file-modes #o700
      (make-directory (file-name-directory file) t)))
  (let ((temporary (make-temp-file (concat file ".")))
        (coding-system-for-write 'no-conversion)
        (write-region-inhibit-fsync nil))
    (unwind-protect
        (progn
          ;; So it has the same owner, mode and so on; a new one is for its owner only.
          (when old (copy-file file temporary t nil t t))
          (write-region new nil temporary nil 'silent)
          ;; A CLI saves its settings, too.
          (unless (equal old (gemini-companion-setup--read file))
            (gemini-companion-setup--refuse "it was changed at this very moment; try again"))
          (rename-file temporary file t))
      (when (file-exists-p temporary)
        (delete-file temporary)))))

;;;; The change

(defun gemini-companion-setup--value-in (bytes)
  "Return what ide.enabled is in BYTES, the text of settings or nil."
  (with-temp-buffer
    (gemini-companion-setup--insert bytes)
    (pcase (gemini-companion-setup--find)
      (`(set ,start ,end)
       (if (equal (buffer-substring start end) "true") t 'false)))))

(defun gemini-companion-setup--insert (bytes)
  "Insert BYTES, which may be nil, into the current buffer, and go to its start."
  (set-buffer-multibyte nil)
  (when bytes (insert bytes))
  (goto-char (point-min)))

(defun gemini-companion-setup--enabled (bytes)
  "Return BYTES, the text of settings, with ide.enabled true."
  (with-temp-buffer
    (gemini-companion-setup--insert bytes)
    (pcase (gemini-companion-setup--find)
      ('new (gemini-companion-setup--insert-all))
      (`(set ,start ,end)
       (goto-char start)
       (delete-region start end)
       (insert "true"))
      (`(within ,root ,object . ,names)
       (gemini-companion-setup--insert-member root object names)))
    (buffer-string)))

(defun gemini-companion-setup--find ()
  "Return where ide.enabled is to be put in the current buffer.
That is (set START END) if its value is there, (within ROOT OBJECT .
NAMES) if what NAMES say is to be put into OBJECT, which is in ROOT or is
that, or `new' if the buffer is as good as empty."
  (if (string-match-p "\\`[ \t\r\n]*\\'" (buffer-string))
      'new
    (let* ((root (gemini-companion-setup--parse))
           (ide (gemini-companion-setup--member "ide" root))
           (enabled (and ide (gemini-companion-setup--member "enabled" ide))))
      (cond ((not (eq (car root) 'object))
             (gemini-companion-setup--refuse "it holds no JSON object"))
            ((null ide) (list 'within root root "ide" "enabled"))
            ((not (eq (car ide) 'object))
             (gemini-companion-setup--refuse "\"ide\" is no object in it"))
            ((null enabled) (list 'within root ide "enabled"))
            ((not (member (gemini-companion-setup--text enabled) '("true" "false" "null")))
             (gemini-companion-setup--refuse "ide.enabled is neither true nor false in it"))
            (t (list 'set (nth 1 enabled) (nth 2 enabled)))))))

(defun gemini-companion-setup--insert-all ()
  "Insert settings in which ide.enabled is true."
  (insert "{" (gemini-companion-setup--print '("ide" "enabled") "\n  " "  ") "\n}\n"))

(defun gemini-companion-setup--print (names line unit)
  "Return a member called by the first of NAMES, which holds one of the next.
The last one is true.  LINE is what each line begins with, a newline and
blanks, and UNIT the blanks that are added for what is within; without
LINE all is on one line."
  (let ((within (and line (concat line unit))))
    (concat line "\"" (car names) "\": "
            (if (cdr names)
                (concat "{" (gemini-companion-setup--print (cdr names) within unit) line "}")
              "true"))))

(defun gemini-companion-setup--insert-member (root object names)
  "Put what NAMES say, as for the print, first into OBJECT, which is in ROOT.
Both are values as `gemini-companion-setup--parse' returns them."
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
                   ;; What closes it gets a line of its own.
                   (if (= (line-end-position)
                          (save-excursion (goto-char (nth 2 object)) (line-end-position)))
                       (gemini-companion-setup--line-of (nth 1 object))
                     ""))))))

(defun gemini-companion-setup--on-one-line (object member)
  "Return MEMBER as it is inserted at point, the start of what is in OBJECT.
The blanks at point are repeated behind it."
  (let ((blanks (and (looking-at "[ \t]*") (match-string 0))))
    (cond ((null (nthcdr 3 object)) member)
          ((string-empty-p blanks) (concat member ", "))
          (t (concat blanks member ",")))))

(defun gemini-companion-setup--line (root object unit)
  "Return what a line begins with on which a member of OBJECT is, in ROOT.
That is nil if they are all on one line.  UNIT is as for the print."
  (cond ((nthcdr 3 object)
         (let ((first (gemini-companion-setup--first-key object)))
           (unless (gemini-companion-setup--same-line-p (nth 1 object) first)
             (gemini-companion-setup--line-of first))))
        ((or (eq root object) (gemini-companion-setup--line root root unit))
         (concat (gemini-companion-setup--line-of (nth 1 object)) unit))))

(defun gemini-companion-setup--unit (root)
  "Return by which blanks members are indented in ROOT."
  (let ((first (and (nthcdr 3 root) (gemini-companion-setup--first-key root))))
    (if (or (null first) (gemini-companion-setup--same-line-p (nth 1 root) first))
        "  "
      (gemini-companion-setup--indentation first))))

(defun gemini-companion-setup--first-key (object)
  "Return where the first member of OBJECT begins."
  (cadar (last (nthcdr 3 object))))

(defun gemini-companion-setup--same-line-p (one other)
  "Return non-nil if the positions ONE and OTHER are on the same line."
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
  "Return the end of a line, as in this file, and the blanks before POSITION."
  (concat (save-excursion
            (goto-char (point-min))
            (end-of-line)
            (if (eq (char-before) ?\r) "\r\n" "\n"))
          (gemini-companion-setup--indentation position)))

(defun gemini-companion-setup--skip-line ()
  "Move over blanks and comments, if only these are left on the line.
What closes an object may come behind them."
  (let ((start (point)))
    (while (progn (skip-chars-forward " \t")
                  (looking-at "//.*\\|/\\*\\(?:[^*\n]\\|\\*+[^*/\n]\\)*\\*+/"))
      (goto-char (match-end 0)))
    (when (and (eolp) (eq (char-before) ?\r))
      (backward-char))
    (unless (looking-at "\r?$\\|}")
      (goto-char start))))

;;;; Reading

;; A value is (KIND START END . MEMBERS); KIND is `object', `array', `string' or `literal'.  Members
;; are (NAME POSITION . VALUE), the last one first: of several with one name the last counts.

(defun gemini-companion-setup--parse ()
  "Return the one value in the current buffer, JSON with comments."
  (goto-char (point-min))
  (gemini-companion-setup--skip-blank)
  (prog1 (gemini-companion-setup--value 0)
    (gemini-companion-setup--skip-blank)
    (unless (eobp)
      (gemini-companion-setup--refuse-here))))

(defun gemini-companion-setup--member (name object)
  "Return the value of the member NAME of OBJECT, or nil."
  (cddr (assoc name (nthcdr 3 object))))

(defun gemini-companion-setup--text (value)
  "Return the text of VALUE."
  (buffer-substring (nth 1 value) (nth 2 value)))

(defun gemini-companion-setup--refuse-here ()
  "Leave the file alone, because of what is at point."
  (gemini-companion-setup--refuse
   "it cannot be read as JSON, line %d" (line-number-at-pos)))

(defun gemini-companion-setup--skip-blank ()
  "Move over blanks and comments.
A comment of several lines may end with the file."
  (while (progn
           (skip-chars-forward " \t\r\n")
           (cond ((looking-at "//") (end-of-line) t)
                 ((looking-at "/\\*")
                  (goto-char (match-end 0))
                  (search-forward "*/" nil 'move))))))

(defun gemini-companion-setup--value (depth)
  "Move over the value at point, which is in DEPTH others, and return it."
  (when (> depth gemini-companion-setup--max-depth)
    (gemini-companion-setup--refuse "too much is within each other, line %d"
                                    (line-number-at-pos)))
  (let ((start (point)))
    (pcase (char-after)
      (?\{ (let ((members (gemini-companion-setup--items
                           ?\} #'gemini-companion-setup--pair depth)))
             `(object ,start ,(point) . ,members)))
      (?\[ (gemini-companion-setup--items ?\] #'gemini-companion-setup--value depth)
           (list 'array start (point)))
      (?\" (gemini-companion-setup--string)
           (list 'string start (point)))
      (_ (gemini-companion-setup--literal)
         (list 'literal start (point))))))

(defun gemini-companion-setup--items (close function depth)
  "Move over brackets, up to CLOSE; return what is in there, the last one first.
FUNCTION moves over an item, and returns it.  The brackets are in DEPTH
others."
  (let ((items nil))
    (forward-char)
    (gemini-companion-setup--skip-blank)
    (unless (eq (char-after) close)
      (while (progn
               (push (funcall function (1+ depth)) items)
               (gemini-companion-setup--skip-blank)
               (eq (char-after) ?,))
        (forward-char)
        (gemini-companion-setup--skip-blank)))
    (gemini-companion-setup--expect close)
    items))

(defun gemini-companion-setup--pair (depth)
  "Move over the member at point, in DEPTH objects and arrays, and return it."
  (let* ((start (point))
         (name (progn (gemini-companion-setup--string)
                      (json-read-from-string (buffer-substring start (point))))))
    (gemini-companion-setup--skip-blank)
    (gemini-companion-setup--expect ?:)
    (gemini-companion-setup--skip-blank)
    `(,name ,start . ,(gemini-companion-setup--value depth))))

(defun gemini-companion-setup--expect (char)
  "Move over CHAR, which must be at point."
  (unless (eq (char-after) char)
    (gemini-companion-setup--refuse-here))
  (forward-char))

(defun gemini-companion-setup--string ()
  "Move over the string at point."
  (gemini-companion-setup--expect ?\")
  (while (progn (skip-chars-forward "^\"\\\\\0-\x1f")
                (looking-at "\\\\\\(?:[\"\\/bfnrt]\\|u[[:xdigit:]]\\{4\\}\\)"))
    (goto-char (match-end 0)))
  (gemini-companion-setup--expect ?\"))

(defun gemini-companion-setup--literal ()
  "Move over the number or word at point."
  (unless (looking-at (concat "true\\|false\\|null\\|-?\\(?:0\\|[1-9][0-9]*\\)"
                              "\\(?:\\.[0-9]+\\)?\\(?:[eE][+-]?[0-9]+\\)?"))
    (gemini-companion-setup--refuse-here))
  (goto-char (match-end 0)))

(provide 'gemini-companion-setup)
;;; gemini-companion-setup.el ends here

;;; gemini-companion-settings.el --- One setting of a CLI's settings file -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Makes ide.enabled true in the settings.json of a CLI.  That file is the user's, who may have
;; comments in it, so it is not parsed and printed: one literal is replaced, or one member inserted
;; in the style of the lines around it, and every other byte stays.  What the CLI does not read, or
;; what means something else than expected, is left alone.
;;
;; The file is worked on as bytes.  All that has a meaning here is ASCII.

;;; Code:

(require 'json)
(require 'seq)
(require 'subr-x)
(require 'gemini-companion-follow)
(require 'gemini-companion-native)

(define-error 'gemini-companion-settings-unusable
  "Settings of a CLI that are left alone" 'gemini-companion-error)

(defconst gemini-companion-settings--max-size (* 1024 1024)
  "Size in bytes of a file that cannot be settings.")

(defconst gemini-companion-settings--max-depth 60
  "Objects and arrays in each other beyond which a file is not read.")

(defvar gemini-companion-settings--file nil
  "The name of the file that is worked on.")

(defun gemini-companion-settings--refuse (format &rest arguments)
  "Leave the file alone, because of FORMAT with ARGUMENTS."
  (signal 'gemini-companion-settings-unusable
          (list (format "%s is left alone: %s"
                        (abbreviate-file-name gemini-companion-settings--file)
                        (apply #'format format arguments)))))

;;;; What others call

(defmacro gemini-companion-settings--with (file &rest body)
  "Evaluate BODY about FILE, with no handler or hook of files.
An error of the file system is one of the settings."
  (declare (indent 1) (debug t))
  `(let ((gemini-companion-settings--file ,file)
         (file-name-handler-alist nil)
         (write-region-annotate-functions nil)
         (write-region-post-annotation-function nil)
         (create-lockfiles nil)
         ;; Each level of what is read takes some, more so if this is not compiled.
         (max-lisp-eval-depth (+ 10000 max-lisp-eval-depth)))
     (condition-case problem
         (progn ,@body)
       (file-error
        (gemini-companion-settings--refuse "%s" (string-join (seq-filter #'stringp (cdr problem))
                                                             ", "))))))

(defun gemini-companion-settings-ide-enabled (file)
  "Return what ide.enabled is in FILE: t, `false', or nil if it is not set.
Signal `gemini-companion-settings-unusable' if it could not be changed."
  (gemini-companion-settings--with file
    (let ((value (gemini-companion-settings--value-in (gemini-companion-settings--read file))))
      (unless (eq value t)
        (gemini-companion-settings--check-changeable file))
      value)))

(defun gemini-companion-settings-enable-ide (file)
  "Make ide.enabled true in FILE, which need not be there.
A buffer that visits it follows; return it if it does not.  Signal
`gemini-companion-settings-unusable', and change nothing, if that cannot
be."
  (gemini-companion-settings--with file
    (let* ((target (gemini-companion-settings--target file))
           (old (gemini-companion-settings--read target)))
      (unless (eq (gemini-companion-settings--value-in old) t)
        (gemini-companion-settings--check-changeable file)
        (gemini-companion-settings--write target old
                                          (gemini-companion-settings--enabled old)))))
  (gemini-companion-follow-now file))

(defun gemini-companion-settings--check-changeable (file)
  "Refuse to change FILE if it is read-only, or a buffer has edits of it."
  (when (and (file-exists-p file) (not (file-writable-p file)))
    (gemini-companion-settings--refuse "it is read-only"))
  (when-let* ((buffer (find-buffer-visiting file)))
    (when (buffer-modified-p buffer)
      (gemini-companion-settings--refuse "its buffer has edits; save or revert it first"))))

;;;; The file

(defun gemini-companion-settings--target (file)
  "Return FILE, or where it leads to if it is a symbolic link."
  (condition-case nil
      (file-truename file)
    (error (gemini-companion-settings--refuse "it is a link that leads to itself"))))

(defun gemini-companion-settings--read (file)
  "Return the bytes in FILE, or nil if there is none."
  (let ((attributes (file-attributes (gemini-companion-settings--target file))))
    (cond ((null attributes) nil)
          ;; Anything else could make us wait.
          ((not (file-regular-p file))
           (gemini-companion-settings--refuse "it is no file"))
          ((> (file-attribute-size attributes) gemini-companion-settings--max-size)
           (gemini-companion-settings--refuse "it is far too large"))
          ((not (file-readable-p file))
           (gemini-companion-settings--refuse "it cannot be read"))
          (t (with-temp-buffer
               (set-buffer-multibyte nil)
               (insert-file-contents-literally file)
               (buffer-string))))))

(defun gemini-companion-settings--write (file old new)
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
          (unless (equal old (gemini-companion-settings--read file))
            (gemini-companion-settings--refuse "it was changed at this very moment; try again"))
          (rename-file temporary file t))
      (when (file-exists-p temporary)
        (delete-file temporary)))))

;;;; The change

(defun gemini-companion-settings--value-in (bytes)
  "Return what ide.enabled is in BYTES, the text of settings or nil."
  (with-temp-buffer
    (gemini-companion-settings--insert bytes)
    (pcase (gemini-companion-settings--find)
      (`(set ,start ,end)
       (if (equal (buffer-substring start end) "true") t 'false)))))

(defun gemini-companion-settings--insert (bytes)
  "Insert BYTES, which may be nil, into the current buffer, and go to its start."
  (set-buffer-multibyte nil)
  (when bytes (insert bytes))
  (goto-char (point-min)))

(defun gemini-companion-settings--enabled (bytes)
  "Return BYTES, the text of settings, with ide.enabled true."
  (with-temp-buffer
    (gemini-companion-settings--insert bytes)
    (pcase (gemini-companion-settings--find)
      ('new (gemini-companion-settings--insert-all))
      (`(set ,start ,end)
       (goto-char start)
       (delete-region start end)
       (insert "true"))
      (`(within ,root ,object . ,names)
       (gemini-companion-settings--insert-member root object names)))
    (buffer-string)))

(defun gemini-companion-settings--find ()
  "Return where ide.enabled is to be put in the current buffer.
That is (set START END) if its value is there, (within ROOT OBJECT .
NAMES) if what NAMES say is to be put into OBJECT, which is in ROOT or is
that, or `new' if the buffer is as good as empty."
  (if (string-match-p "\\`[ \t\r\n]*\\'" (buffer-string))
      'new
    (let* ((root (gemini-companion-settings--parse))
           (ide (gemini-companion-settings--member "ide" root))
           (enabled (and ide (gemini-companion-settings--member "enabled" ide))))
      (cond ((not (eq (car root) 'object))
             (gemini-companion-settings--refuse "it holds no JSON object"))
            ((null ide) (list 'within root root "ide" "enabled"))
            ((not (eq (car ide) 'object))
             (gemini-companion-settings--refuse "\"ide\" is no object in it"))
            ((null enabled) (list 'within root ide "enabled"))
            ((not (member (gemini-companion-settings--text enabled) '("true" "false" "null")))
             (gemini-companion-settings--refuse "ide.enabled is neither true nor false in it"))
            (t (list 'set (nth 1 enabled) (nth 2 enabled)))))))

(defun gemini-companion-settings--insert-all ()
  "Insert settings in which ide.enabled is true."
  (insert "{" (gemini-companion-settings--print '("ide" "enabled") "\n  " "  ") "\n}\n"))

(defun gemini-companion-settings--print (names line unit)
  "Return a member called by the first of NAMES, which holds one of the next.
The last one is true.  LINE is what each line begins with, a newline and
blanks, and UNIT the blanks that are added for what is within; without
LINE all is on one line."
  (let ((within (and line (concat line unit))))
    (concat line "\"" (car names) "\": "
            (if (cdr names)
                (concat "{" (gemini-companion-settings--print (cdr names) within unit) line "}")
              "true"))))

(defun gemini-companion-settings--insert-member (root object names)
  "Put what NAMES say, as for the print, first into OBJECT, which is in ROOT.
Both are values as `gemini-companion-settings--parse' returns them."
  (let* ((unit (gemini-companion-settings--unit root))
         (line (gemini-companion-settings--line root object unit))
         (member (gemini-companion-settings--print names line unit)))
    (goto-char (1+ (nth 1 object)))
    (cond ((null line)
           (insert (gemini-companion-settings--on-one-line object member)))
          ((nthcdr 3 object)
           (gemini-companion-settings--skip-line)
           (insert member ","))
          (t
           (gemini-companion-settings--skip-line)
           (insert member
                   ;; What closes it gets a line of its own.
                   (if (= (line-end-position)
                          (save-excursion (goto-char (nth 2 object)) (line-end-position)))
                       (gemini-companion-settings--line-of (nth 1 object))
                     ""))))))

(defun gemini-companion-settings--on-one-line (object member)
  "Return MEMBER as it is inserted at point, the start of what is in OBJECT.
The blanks at point are repeated behind it."
  (let ((blanks (and (looking-at "[ \t]*") (match-string 0))))
    (cond ((null (nthcdr 3 object)) member)
          ((string-empty-p blanks) (concat member ", "))
          (t (concat blanks member ",")))))

(defun gemini-companion-settings--line (root object unit)
  "Return what a line begins with on which a member of OBJECT is, in ROOT.
That is nil if they are all on one line.  UNIT is as for the print."
  (cond ((nthcdr 3 object)
         (let ((first (gemini-companion-settings--first-key object)))
           (unless (gemini-companion-settings--same-line-p (nth 1 object) first)
             (gemini-companion-settings--line-of first))))
        ((or (eq root object) (gemini-companion-settings--line root root unit))
         (concat (gemini-companion-settings--line-of (nth 1 object)) unit))))

(defun gemini-companion-settings--unit (root)
  "Return by which blanks members are indented in ROOT."
  (let ((first (and (nthcdr 3 root) (gemini-companion-settings--first-key root))))
    (if (or (null first) (gemini-companion-settings--same-line-p (nth 1 root) first))
        "  "
      (gemini-companion-settings--indentation first))))

(defun gemini-companion-settings--first-key (object)
  "Return where the first member of OBJECT begins."
  (cadar (last (nthcdr 3 object))))

(defun gemini-companion-settings--same-line-p (one other)
  "Return non-nil if the positions ONE and OTHER are on the same line."
  (save-excursion
    (goto-char one)
    (<= one other (line-end-position))))

(defun gemini-companion-settings--indentation (position)
  "Return the blanks with which the line of POSITION begins."
  (save-excursion
    (goto-char position)
    (forward-line 0)
    (looking-at "[ \t]*")
    (match-string 0)))

(defun gemini-companion-settings--line-of (position)
  "Return the end of a line, as in this file, and the blanks before POSITION."
  (concat (save-excursion
            (goto-char (point-min))
            (end-of-line)
            (if (eq (char-before) ?\r) "\r\n" "\n"))
          (gemini-companion-settings--indentation position)))

(defun gemini-companion-settings--skip-line ()
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

(defun gemini-companion-settings--parse ()
  "Return the one value in the current buffer, JSON with comments."
  (goto-char (point-min))
  (gemini-companion-settings--skip-blank)
  (prog1 (gemini-companion-settings--value 0)
    (gemini-companion-settings--skip-blank)
    (unless (eobp)
      (gemini-companion-settings--refuse-here))))

(defun gemini-companion-settings--member (name object)
  "Return the value of the member NAME of OBJECT, or nil."
  (cddr (assoc name (nthcdr 3 object))))

(defun gemini-companion-settings--text (value)
  "Return the text of VALUE."
  (buffer-substring (nth 1 value) (nth 2 value)))

(defun gemini-companion-settings--refuse-here ()
  "Leave the file alone, because of what is at point."
  (gemini-companion-settings--refuse
   "it cannot be read as JSON, line %d" (line-number-at-pos)))

(defun gemini-companion-settings--skip-blank ()
  "Move over blanks and comments.
A comment of several lines may end with the file."
  (while (progn
           (skip-chars-forward " \t\r\n")
           (cond ((looking-at "//") (end-of-line) t)
                 ((looking-at "/\\*")
                  (goto-char (match-end 0))
                  (search-forward "*/" nil 'move))))))

(defun gemini-companion-settings--value (depth)
  "Move over the value at point, which is in DEPTH others, and return it."
  (when (> depth gemini-companion-settings--max-depth)
    (gemini-companion-settings--refuse "too much is within each other, line %d"
                                       (line-number-at-pos)))
  (let ((start (point)))
    (pcase (char-after)
      (?\{ (let ((members (gemini-companion-settings--items
                           ?\} #'gemini-companion-settings--pair depth)))
             `(object ,start ,(point) . ,members)))
      (?\[ (gemini-companion-settings--items ?\] #'gemini-companion-settings--value depth)
           (list 'array start (point)))
      (?\" (gemini-companion-settings--string)
           (list 'string start (point)))
      (_ (gemini-companion-settings--literal)
         (list 'literal start (point))))))

(defun gemini-companion-settings--items (close function depth)
  "Move over brackets, up to CLOSE; return what is in there, the last one first.
FUNCTION moves over an item, and returns it.  The brackets are in DEPTH
others."
  (let ((items nil))
    (forward-char)
    (gemini-companion-settings--skip-blank)
    (unless (eq (char-after) close)
      (while (progn
               (push (funcall function (1+ depth)) items)
               (gemini-companion-settings--skip-blank)
               (eq (char-after) ?,))
        (forward-char)
        (gemini-companion-settings--skip-blank)))
    (gemini-companion-settings--expect close)
    items))

(defun gemini-companion-settings--pair (depth)
  "Move over the member at point, in DEPTH objects and arrays, and return it."
  (let* ((start (point))
         (name (progn (gemini-companion-settings--string)
                      (json-read-from-string (buffer-substring start (point))))))
    (gemini-companion-settings--skip-blank)
    (gemini-companion-settings--expect ?:)
    (gemini-companion-settings--skip-blank)
    `(,name ,start . ,(gemini-companion-settings--value depth))))

(defun gemini-companion-settings--expect (char)
  "Move over CHAR, which must be at point."
  (unless (eq (char-after) char)
    (gemini-companion-settings--refuse-here))
  (forward-char))

(defun gemini-companion-settings--string ()
  "Move over the string at point."
  (gemini-companion-settings--expect ?\")
  (while (progn (skip-chars-forward "^\"\\\\\0-\x1f")
                (looking-at "\\\\\\(?:[\"\\/bfnrt]\\|u[[:xdigit:]]\\{4\\}\\)"))
    (goto-char (match-end 0)))
  (gemini-companion-settings--expect ?\"))

(defun gemini-companion-settings--literal ()
  "Move over the number or word at point."
  (unless (looking-at (concat "true\\|false\\|null\\|-?\\(?:0\\|[1-9][0-9]*\\)"
                              "\\(?:\\.[0-9]+\\)?\\(?:[eE][+-]?[0-9]+\\)?"))
    (gemini-companion-settings--refuse-here))
  (goto-char (match-end 0)))

(provide 'gemini-companion-settings)
;;; gemini-companion-settings.el ends here

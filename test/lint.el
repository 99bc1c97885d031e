;;; lint.el --- Check the Lisp files -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; emacs -Q --batch -L lisp -L test/support -l test/lint.el -- [CHECK...]
;;
;; Runs the CHECKs, all if none is named, prints each finding as FILE:LINE: [CHECK] TEXT, and
;; exits with status 1 if there is one.  A checker that is not installed is left out with a
;; line, which is a finding with CI=true.

;;; Code:

(require 'check-declare)
(require 'checkdoc)
(require 'ert)
(require 'seq)
(require 'subr-x)
(require 'transient) ; how its macros are indented

(declare-function gemini-companion-arrows-circle "../scripts/arrows" (uses))
(declare-function gemini-companion-arrows-draw "../scripts/arrows" (&optional only-check))
(declare-function gemini-companion-arrows-lisp "../scripts/arrows" ())
(declare-function gemini-companion-arrows-missing "../scripts/arrows" ())
(declare-function gemini-companion-arrows-rust "../scripts/arrows" ())
(declare-function gemini-companion-arrows-up "../scripts/arrows" ())
(declare-function package-lint-buffer "ext:package-lint" (&optional buffer) t)
(declare-function relint-buffer "ext:relint" (buffer) t)
(defvar package-lint-main-file)

(defconst gemini-companion-lint--checks
  '((compile package tests)
    (checkdoc package)
    (package-lint package)
    (relint package tests)
    (declare package)
    (prefix package)
    (size package)
    (obsolete package tests)
    (indent package tests)
    (whitespace package tests))
  "Each check, with the kinds of files that it is for.")

(defconst gemini-companion-lint--obsolete
  (let ((names (make-hash-table)))
    (with-temp-buffer
      (insert-file-contents
       (expand-file-name "obsolete.eld" (file-name-directory load-file-name)))
      (pcase-dolist (`(,version ,kind . ,entries) (read (current-buffer)))
        (pcase-dolist (`(,name . ,instead) entries)
          (push (list kind version instead) (gethash name names)))))
    names)
  "What newer Emacsen make obsolete: for each name lists (KIND VERSION INSTEAD).
The file of it says what these are.")

(defvar gemini-companion-lint--findings 0
  "How many findings were printed.")

(defun gemini-companion-lint (checks)
  "Run CHECKS, names as strings, on all Lisp files of the repository."
  (let ((files `((package . ,(seq-remove (lambda (file) (string-suffix-p "-autoloads.el" file))
                                         (file-expand-wildcards "lisp/*.el")))
                 (tests . ,(append (file-expand-wildcards "test/*.el")
                                   (file-expand-wildcards "test/*/*.el")
                                   (file-expand-wildcards "scripts/*.el"))))))
    (dolist (file (apply #'append (mapcar #'cdr files)))
      (gemini-companion-lint--learn-indentation file))
    (pcase-dolist (`(,check . ,kinds) gemini-companion-lint--checks)
      (when (and (or (null checks) (member (symbol-name check) checks))
                 (gemini-companion-lint--available-p check))
        (dolist (file (mapcan (lambda (kind) (copy-sequence (alist-get kind files))) kinds))
          (condition-case problem
              (gemini-companion-lint--check check file)
            (error (gemini-companion-lint--note check file 0 (error-message-string problem)))))))
    (when (or (null checks) (member "arrows" checks))
      (gemini-companion-lint--arrows))
    (message "Emacs %s: %d findings in %d files" emacs-version gemini-companion-lint--findings
             (apply #'+ (mapcar (lambda (kind) (length (cdr kind))) files)))
    (kill-emacs (if (zerop gemini-companion-lint--findings) 0 1))))

(defun gemini-companion-lint--available-p (check)
  "Return non-nil if CHECK can be done here, else say that it cannot."
  (pcase check
    ;; It changes from version to version; that of the oldest is ours.
    ('indent
     (or (= emacs-major-version 28)
         (ignore (message "Indentation is checked with Emacs 28 only"))))
    ((or 'package-lint 'relint)
     (or (require check nil t)
         (ignore (if (equal (getenv "CI") "true")
                     (gemini-companion-lint--note check "test/lint.el" 0 "is not installed")
                   (message "!!! %s is not installed and was left out" check)))))
    (_ t)))

(defun gemini-companion-lint--note (check file line text)
  "Print that CHECK found TEXT at LINE, a number or nil, of FILE."
  (setq gemini-companion-lint--findings (1+ gemini-companion-lint--findings))
  (princ (format "%s:%d: [%s] %s\n" file (or line 0) check text)
         ;; `message' is silent within some checks.
         #'external-debugging-output))

(defun gemini-companion-lint--check (check file)
  "Do CHECK on FILE."
  (if (eq check 'compile)
      (gemini-companion-lint--compile file)
    (with-current-buffer (find-file-noselect file t)
      (funcall (intern (format "gemini-companion-lint--%s" check))
               (lambda (line text) (gemini-companion-lint--note check file line text))))))

;;;; The checks.  Each calls NOTE with the line and the text of what it finds in the current buffer.

(defun gemini-companion-lint--compile (file)
  "Byte-compile FILE in a new Emacs: what others loaded would hide what it lacks."
  (let ((compiled (make-temp-file "lint" nil ".elc")))
    (unwind-protect
        (with-temp-buffer
          (let ((status (call-process
                         (expand-file-name invocation-name invocation-directory) nil t nil
                         "-Q" "--batch" "-L" "lisp" "-L" "test/support"
                         "--eval" (format "(setq load-prefer-newer t
                                                 byte-compile-dest-file-function
                                                 (lambda (_) %S))"
                                          compiled)
                         "-f" "batch-byte-compile" file))
                (before gemini-companion-lint--findings))
            (goto-char (point-min))
            (while (re-search-forward
                    "^[^ \n][^:\n]*:\\(?:\\([0-9]+\\):[0-9]+:\\)? *\\(?:Warning\\|Error\\): " nil t)
              (gemini-companion-lint--note
               'compile file (string-to-number (or (match-string 1) "0"))
               (gemini-companion-lint--paragraph)))
            (unless (or (eq status 0) (< before gemini-companion-lint--findings))
              (gemini-companion-lint--note 'compile file 0 (buffer-string)))))
      (delete-file compiled))))

(defun gemini-companion-lint--paragraph ()
  "Return the rest of the line and the indented lines after it as one line."
  (let ((start (point)))
    (forward-line)
    (while (looking-at "[ \t]+[^ \t\n]") (forward-line))
    (string-join (split-string (buffer-substring start (point))) " ")))

(defun gemini-companion-lint--checkdoc (note)
  "Check the style of documentation strings; see `gemini-companion-lint' for NOTE."
  (let ((checkdoc-create-error-function
         (lambda (text start _end &optional _unfixable)
           (funcall note (and start (line-number-at-pos start)) text)
           nil))
        ;; Takes each "what the user sees" for a verb at the wrong place.
        (checkdoc-verb-check-experimental-flag nil)
        (inhibit-message t))
    (cl-letf (((symbol-function 'checkdoc-show-diagnostics) #'ignore))
      (checkdoc-current-buffer t))))

(defun gemini-companion-lint--package-lint (note)
  "Check what package archives ask for; call NOTE."
  (setq-local package-lint-main-file (expand-file-name "../lisp/gemini-companion.el"))
  (pcase-dolist (`(,line ,_column ,_type ,text) (package-lint-buffer))
    ;; Debian 12's package-lint was made before Emacs 28 was released.
    (unless (string-match-p "uninstallable in all released Emacs versions" text)
      (funcall note line text))))

(defun gemini-companion-lint--relint (note)
  "Check regular expressions; call NOTE."
  (dolist (complaint (relint-buffer (current-buffer)))
    (funcall note (line-number-at-pos (or (nth 2 complaint) (nth 1 complaint)))
             (car complaint))))

(defun gemini-companion-lint--declare (note)
  "Check that declared functions are where it says; call NOTE."
  (let ((found (let ((inhibit-message t)) (check-declare-file buffer-file-name))))
    (pcase-dolist (`(,library . ,claims) found)
      (pcase-dolist (`(,_file ,function ,problem . ,_) claims)
        (save-excursion
          (goto-char (point-min))
          (search-forward (format "(declare-function %s" function) nil t)
          (funcall note (line-number-at-pos)
                   (format "%s in %s: %s" function (file-name-base library) problem)))))))

;; The byte compiler of an Emacs that knows says the same of what it sees compiled; but no such
;; Emacs may be there, and it sees no quoted names, and none of libraries that are not loaded.
(defun gemini-companion-lint--obsolete (note)
  "Check for names that some newer Emacs makes obsolete; call NOTE."
  (goto-char (point-min))
  (while (re-search-forward "\\_<\\(?:\\sw\\|\\s_\\)+\\_>" nil t)
    (when-let* ((start (match-beginning 0))
                (name (intern-soft (match-string 0)))
                (uses (gethash name gemini-companion-lint--obsolete)))
      (save-excursion
        (goto-char start)
        (let ((state (syntax-ppss)))
          (unless (nth 8 state) ; in a string or a comment
            (pcase-dolist (`(,kind ,version ,instead) uses)
              (when (and (gemini-companion-lint--used-p kind (nth 9 state))
                         (not (gemini-companion-lint--suppressed-p name (nth 9 state))))
                (funcall note (line-number-at-pos)
                         (format "`%s' is obsolete since Emacs %s%s" name version
                                 (if instead (concat ": write " instead) "")))))))))))

(defun gemini-companion-lint--used-p (kind parens)
  "Return non-nil if the symbol after point is used as what KIND says.
PARENS are the positions of the parentheses around it, outermost first."
  (pcase kind
    ('function (memq (char-before) '(?\( ?')))
    ('face (not (or (eq (char-before) ?')
                    (seq-some (lambda (paren) (memq (char-before paren) '(?' ?`))) parens))))
    ('place (looking-back "(setf (" (line-beginning-position)))
    ('library (looking-back "(require '" (line-beginning-position)))
    ('rx (and (not (eq (char-before) ?\())
              (seq-some (lambda (paren)
                          (save-excursion (goto-char paren) (looking-at-p "(rx\\_>")))
                        parens)))
    (_ t)))

(defun gemini-companion-lint--suppressed-p (name parens)
  "Return non-nil if a `with-suppressed-warnings' around point is about NAME.
PARENS are the positions of the parentheses around it."
  (seq-some (lambda (paren)
              (save-excursion
                (goto-char paren)
                (pcase (and (looking-at-p "(with-suppressed-warnings\\_>")
                            (read (current-buffer)))
                  (`(,_ ,warnings . ,_) (memq name (alist-get 'obsolete warnings))))))
            parens))

(defun gemini-companion-lint--indent (note)
  "Check that each line is indented as Emacs would; call NOTE."
  (let ((text (buffer-string)))
    (with-temp-buffer
      (insert text)
      (let ((inhibit-message t)
            (indent-tabs-mode nil)
            (lines (split-string text "\n"))
            (line 0))
        (delay-mode-hooks (emacs-lisp-mode))
        (indent-region (point-min) (point-max))
        (dolist (indented (split-string (buffer-string) "\n"))
          (setq line (1+ line))
          (unless (equal indented (pop lines))
            (funcall note line (format "should be indented as %S" indented))))))))

(defun gemini-companion-lint--learn-indentation (file)
  "Learn from FILE how macros are indented; to load it might do more."
  (with-temp-buffer
    (insert-file-contents file)
    (condition-case nil
        (while t
          (pcase (read (current-buffer))
            (`(,(or 'defmacro 'cl-defmacro 'defun) ,name ,_ . ,body)
             (dolist (how (alist-get 'declare (seq-filter #'consp body)))
               (when (eq (car-safe how) 'indent)
                 (put name 'lisp-indent-function (cadr how)))))))
      (end-of-file nil))))

(defun gemini-companion-lint--arrows ()
  "Check that no files use each other, and that ARCHITECTURE.md shows them all."
  (load (expand-file-name "scripts/arrows.el") nil t)
  (let ((note (lambda (text)
                (gemini-companion-lint--note 'arrows "ARCHITECTURE.md" 0 text))))
    (dolist (uses (list (gemini-companion-arrows-rust) (gemini-companion-arrows-lisp)))
      (when-let* ((circle (gemini-companion-arrows-circle uses)))
        (funcall note (concat "a circle: " (string-join circle " → ")))))
    (unless (gemini-companion-arrows-draw 'only-check)
      (funcall note "the arrows are out of date: run make arrows"))
    (dolist (name (gemini-companion-arrows-missing))
      (funcall note (format "the map lacks %s" name)))
    (dolist (name (gemini-companion-arrows-up))
      (funcall note (format "the core requires %s, which is above it" name)))))

;; A name leads to its file: `gemini-companion-review-show' is in gemini-companion-review.el.
;; Commands, options, faces, modes and keymaps have the names that users would look for.
(defun gemini-companion-lint--prefix (note)
  "Check that each public name has the prefix of its file; call NOTE.
If the names of several files are its beginning, the longest one counts."
  (let* ((library (file-name-base buffer-file-name))
         (libraries (mapcar #'file-name-base
                            (directory-files (file-name-directory buffer-file-name) nil
                                             "\\`gemini-companion[-a-z]*\\.el\\'"))))
    (gemini-companion-lint--each-definition
     (lambda (definition line)
       (when-let* ((name (gemini-companion-lint--inner-name definition))
                   (home (car (seq-sort-by #'length #'>
                                           (seq-filter (lambda (it)
                                                         (or (equal it name)
                                                             (string-prefix-p (concat it "-") name)))
                                                       libraries)))))
         (unless (equal home library)
           (funcall note line (format "%s should be in %s.el" name home))))))))

(defun gemini-companion-lint--inner-name (definition)
  "Return the name that DEFINITION, a form, defines for other files, or nil."
  (pcase definition
    ((or `(,(or 'defun 'cl-defun) ,name ,_ . ,body)
         (and `(,(or 'defmacro 'defsubst 'defvar 'defvar-local 'defconst 'cl-defgeneric) ,name ,_ . ,_)
              (let body nil))
         (and `(cl-defstruct (,name . ,_) . ,_) (let body nil)))
     (let ((text (symbol-name name)))
       (unless (or (string-match-p "--\\|-map\\'" text)
                   (assq 'interactive body))
         text)))))

(defun gemini-companion-lint--each-definition (function)
  "Call FUNCTION with each form of the current buffer and the line of its start."
  (goto-char (point-min))
  (condition-case nil
      (while t
        (let ((form (read (current-buffer))))
          (save-excursion
            (backward-sexp)
            (funcall function form (line-number-at-pos)))))
    (end-of-file nil)))

(defconst gemini-companion-lint--max-file 700
  "Maximum number of lines of a file.")

(defconst gemini-companion-lint--max-function 40
  "Maximum number of lines of a function.")

(defconst gemini-companion-lint--max-columns 100
  "Maximum number of columns of a line but the first one.")

(defun gemini-companion-lint--size (note)
  "Check the length of the file, its functions and its lines; call NOTE."
  (let ((lines (count-lines (point-min) (point-max))))
    (when (> lines gemini-companion-lint--max-file)
      (funcall note 1 (format "%d lines" lines))))
  (gemini-companion-lint--each-definition
   (lambda (form line)
     (let ((lines (count-lines (point) (save-excursion (forward-sexp) (point)))))
       (when (and (memq (car-safe form) '(defun cl-defun defmacro cl-defmethod))
                  (> lines gemini-companion-lint--max-function))
         (funcall note line (format "%s has %d lines" (cadr form) lines))))))
  (goto-char (point-min))
  (while (zerop (forward-line))
    (unless (or (looking-at-p ";;;###autoload")
                (<= (- (line-end-position) (point)) gemini-companion-lint--max-columns))
      (funcall note (line-number-at-pos)
               (format "%d columns" (- (line-end-position) (point)))))))

(defun gemini-companion-lint--whitespace (note)
  "Check for tabs, trailing spaces and the newline at the end; call NOTE."
  (goto-char (point-min))
  (while (re-search-forward "\t\\|[ \t]+$" nil t)
    (funcall note (line-number-at-pos)
             (if (equal (match-string 0) "\t") "tab" "trailing space")))
  (goto-char (point-max))
  (unless (looking-back "[^\n]\n" (- (point) 2))
    (funcall note (line-number-at-pos) "ends with no newline, or with several")))

;; Debian's packages of Lisp, which -Q leaves out, are found by EMACSLOADPATH (see scripts/lint);
;; the user's own must not be.
(setq load-prefer-newer t
      enable-local-variables :safe
      vc-handled-backends nil
      package-user-dir (make-temp-name (expand-file-name "lint-packages" temporary-file-directory)))
(package-initialize)

(let ((checks (remove "--" command-line-args-left)))
  (setq command-line-args-left nil)
  (gemini-companion-lint checks))

;;; lint.el ends here

;;; arrows.el --- Which files use which -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; emacs -Q --batch -l scripts/arrows.el -f gemini-companion-arrows-draw
;;
;; Draws in ARCHITECTURE.md, between two comments, which modules of Rust and which files of Lisp use
;; which others; without those that follow from the rest.  `make lint' checks that the drawing is up
;; to date, and that there is no circle.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)

(defconst gemini-companion-arrows--begin "<!-- begin arrows -->"
  "What is before the drawing.")

(defconst gemini-companion-arrows--end "<!-- end arrows -->"
  "What is after the drawing.")

;;;; What uses what, as alists of names and what they use

(defun gemini-companion-arrows-lisp ()
  "Return which files of Lisp require others, or declare functions of them."
  (mapcar
   (lambda (file)
     (let ((name (gemini-companion-arrows--title (file-name-base file))))
       (cons name
             (delete name
                     (gemini-companion-arrows--matches
                      file
                      (rx (or "(require '" (seq "(declare-function" (+ space) (+ (not space))
                                                (+ space) "\""))
                          (group "gemini-companion" (* (any "a-z" "-"))))
                      #'gemini-companion-arrows--title)))))
   (seq-remove (lambda (file) (string-suffix-p "-autoloads.el" file))
               (file-expand-wildcards "lisp/*.el"))))

(defun gemini-companion-arrows--title (library)
  "Return the name of LIBRARY without the prefix that all have."
  (if (equal library "gemini-companion") "(main)"
    (string-remove-prefix "gemini-companion-" library)))

(defun gemini-companion-arrows-rust ()
  "Return which modules of the library in Rust use others."
  (let* ((root "src/companion/")
         (files (mapcar (lambda (file) (string-remove-prefix root file))
                        (directory-files-recursively root "\\.rs\\'")))
         (names (seq-uniq (mapcar #'gemini-companion-arrows--module files)))
         (uses nil))
    (dolist (file files)
      (let ((name (gemini-companion-arrows--module file)))
        (dolist (used (gemini-companion-arrows--rust-uses root file names))
          (unless (equal used name)
            (cl-pushnew used (alist-get name uses nil nil #'equal) :test #'equal)))))
    (mapcar (lambda (name) (cons name (sort (alist-get name uses nil nil #'equal) #'string<)))
            (sort names #'string<))))

(defun gemini-companion-arrows--module (file)
  "Return the module of FILE, a name below the root, as in \"mcp/tools\"."
  (let ((parts (seq-take (split-string (file-name-sans-extension file) "/") 2)))
    (string-join (remove "mod" parts) "/")))

(defun gemini-companion-arrows--rust-uses (root file names)
  "Return which modules of NAMES the FILE below ROOT uses, but for its tests."
  (with-temp-buffer
    (insert-file-contents (concat root file))
    (when (re-search-forward (rx bol "#[cfg(" (? "all(") "test" (* nonl) "\n" (? "pub ") "mod tests {")
                             nil t)
      (delete-region (match-beginning 0) (point-max)))
    (goto-char (point-min))
    (let ((used nil)
          (above (split-string (or (file-name-directory (file-name-sans-extension file)) "") "/" t)))
      (while (re-search-forward (rx symbol-start (group (or "crate" "super" "self"))
                                    (group (+ "::" (or (+ (any "a-z" "_")) (seq "{" (+ (not "}")) "}")))))
                                nil t)
        (let ((base (pcase (match-string 1)
                      ("crate" nil)
                      ((guard (gemini-companion-arrows--in-module-p)) 'self)
                      ("super" (if (string-suffix-p "/mod.rs" file) (butlast above) above))
                      (_ 'self)))
              (rest (match-string 2)))
          (unless (eq base 'self)
            (dolist (path (gemini-companion-arrows--paths rest))
              (when-let* ((parts (append base (remove "super" path)))
                          (name (seq-find (lambda (it) (member it names))
                                          (list (string-join (seq-take parts 2) "/") (car parts)))))
                (cl-pushnew name used :test #'equal))))))
      used)))

(defun gemini-companion-arrows--in-module-p ()
  "Return whether point is in a module that is not a file of its own."
  (save-match-data
    (save-excursion
      (and (re-search-backward (rx bol (or "}" (seq (? "pub ") "mod " (+ (any "a-z" "_")) " {"))) nil t)
           (not (eq (char-after) ?\}))))))

(defun gemini-companion-arrows--paths (text)
  "Return the paths of modules in TEXT, as \"::a::{b, c}\", as lists."
  (if (string-match "{" text)
      (let ((base (split-string (substring text 0 (match-beginning 0)) "::" t)))
        (mapcar (lambda (it) (append base (split-string (string-trim it) "::" t)))
                (split-string (string-trim (substring text (match-end 0)) nil "}") "," t)))
    (list (split-string text "::" t))))

(defun gemini-companion-arrows--matches (file regexp function)
  "Return what FUNCTION makes of the first group of each match of REGEXP in FILE."
  (with-temp-buffer
    (insert-file-contents file)
    (let ((found nil))
      (while (re-search-forward regexp nil t)
        (cl-pushnew (funcall function (match-string 1)) found :test #'equal))
      (sort found #'string<))))

;;;; The drawing

(defun gemini-companion-arrows-circle (uses)
  "Return a circle in USES, an alist of names and what they use, or nil."
  (let ((done nil))
    (cl-labels ((visit (name path)
                       (cond ((member name path)
                              (throw 'circle (reverse (cons name path))))
                             ((not (member name done))
                              (dolist (used (cdr (assoc name uses)))
                                (visit used (cons name path)))
                              (push name done)))))
      (catch 'circle
        (dolist (use uses) (visit (car use) nil))
        nil))))

(defun gemini-companion-arrows--reach (uses names)
  "Return all that NAMES use, and what these use, and so on, by USES."
  (let ((seen nil))
    (while names
      (let ((name (pop names)))
        (unless (member name seen)
          (push name seen)
          (setq names (append (cdr (assoc name uses)) names)))))
    seen))

(defun gemini-companion-arrows--lines (uses)
  "Return lines that show USES, each name before those that it uses."
  (let* ((reduced (mapcar (pcase-lambda (`(,name . ,used))
                            (cons name
                                  (seq-remove
                                   (lambda (it)
                                     (seq-some (lambda (other)
                                                 (member it (gemini-companion-arrows--reach
                                                             uses (cdr (assoc other uses)))))
                                               (remove it used)))
                                   used)))
                          uses))
         (height (lambda (name) (length (gemini-companion-arrows--reach uses (list name))))))
    (mapconcat (pcase-lambda (`(,name . ,used))
                 (format "    %s → %s" name (string-join used ", ")))
               (seq-filter #'cdr
                           (sort reduced (lambda (one other)
                                           (> (funcall height (car one))
                                              (funcall height (car other))))))
               "\n")))

(defun gemini-companion-arrows-text ()
  "Return the drawing."
  (format "In Rust, the library:\n\n%s\n\nIn Lisp:\n\n%s\n"
          (gemini-companion-arrows--lines (gemini-companion-arrows-rust))
          (gemini-companion-arrows--lines (gemini-companion-arrows-lisp))))

(defun gemini-companion-arrows-draw (&optional only-check)
  "Put the drawing into ARCHITECTURE.md; if ONLY-CHECK, return whether it is there."
  (with-temp-buffer
    (insert-file-contents "ARCHITECTURE.md")
    (search-forward gemini-companion-arrows--begin)
    (let* ((start (progn (forward-line) (point)))
           (end (progn (search-forward gemini-companion-arrows--end) (line-beginning-position)))
           (text (concat "\n" (gemini-companion-arrows-text) "\n")))
      (if only-check
          (equal text (buffer-substring start end))
        (delete-region start end)
        (goto-char start)
        (insert text)
        (let ((coding-system-for-write 'utf-8-unix))
          (write-region nil nil "ARCHITECTURE.md" nil 'quiet))))))

(defun gemini-companion-arrows-missing ()
  "Return the files of Lisp that the map in ARCHITECTURE.md does not name."
  (with-temp-buffer
    (insert-file-contents "ARCHITECTURE.md")
    (seq-remove (lambda (name)
                  (goto-char (point-min))
                  (search-forward (format "`%s.el`" (if (equal name "(main)") "" (concat "-" name)))
                                  nil t))
                (mapcar #'car (gemini-companion-arrows-lisp)))))

(defun gemini-companion-arrows-up ()
  "Return what the core, as ARCHITECTURE.md lists it, requires from above it."
  (let ((core nil)
        (regexp (rx "`" (opt "-" (group (+ (any "a-z" "-")))) ".el`")))
    (with-temp-buffer
      (insert-file-contents "ARCHITECTURE.md")
      (search-forward "\n| core, ")
      (narrow-to-region (line-end-position) (progn (search-forward "\n\n") (point)))
      (goto-char (point-min))
      (while (re-search-forward regexp nil t)
        (push (concat "gemini-companion" (and (match-string 1) (concat "-" (match-string 1)))) core)))
    (mapcan (lambda (file)
              (seq-difference (gemini-companion-arrows--matches
                               (format "lisp/%s.el" file)
                               (rx bol "(require '" (group "gemini-companion" (* (any "a-z" "-"))))
                               #'identity)
                              core))
            core)))

(provide 'arrows)
;;; arrows.el ends here

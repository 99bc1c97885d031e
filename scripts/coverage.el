;;; coverage.el --- Which lines of the package's Lisp were run -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; scripts/coverage loads this into each Emacs of the tests, before the package.  Edebug instruments
;; the package's functions, but what it calls at each form only counts.  When Emacs exits, it writes
;; one line for each form to a new file in $COVERAGE_POINTS:
;;
;;   FILE LINE COLUMN COUNT
;;
;; undercover does the same, but visits the libraries in buffers and windows that an Emacs under test
;; must not have.

;;; Code:

(require 'edebug)

(defconst gemini-companion-coverage--lisp
  (expand-file-name "../lisp/" (file-name-directory load-file-name))
  "The directory of the package.")

(defvar gemini-companion-coverage--file nil
  "The name of the package's file that Emacs is loading.")

(defvar gemini-companion-coverage--counts nil
  "A vector: how often each form of the running definition ran.")

(defvar gemini-companion-coverage--definitions nil
  "The counts: a list of (FILE PLACES COUNTS).
PLACES are (LINE . COLUMN), or nil where there is nothing to count.")

;;;; Instrumenting

(defun gemini-companion-coverage--load (fullname file &rest arguments)
  "Load FILE as `load-with-code-conversion' does, instrumented if it is ours.
Tests copy the package, so its files are known by their names.  FULLNAME
and ARGUMENTS are as there."
  (let ((name (file-name-nondirectory fullname)))
    (if (file-exists-p (expand-file-name name gemini-companion-coverage--lisp))
        (gemini-companion-coverage--load-instrumented fullname name)
      (apply #'load-with-code-conversion fullname file arguments))))

(defun gemini-companion-coverage--load-instrumented (fullname name)
  "Load the file FULLNAME instrumented, as the package's file NAME."
  (let ((edebug-all-defs t)
        (edebug-new-definition-function #'gemini-companion-coverage--define)
        (gemini-companion-coverage--file name)
        (load-in-progress t)
        (load-file-name fullname)
        (load-true-file-name fullname))
    ;; Edebug instruments only what Lisp reads from the current buffer.
    (with-temp-buffer
      (insert-file-contents fullname)
      (eval-buffer nil nil fullname nil t)))
  (do-after-load-evaluation fullname)
  t)

(defun gemini-companion-coverage--define (name)
  "Prepare to count in the definition NAME, in the current buffer."
  (pcase-let* ((`(,start ,_ ,offsets) (get name 'edebug))
               (counts (make-vector (length offsets) 0)))
    (put name 'edebug-behavior 'gemini-companion-coverage)
    (put name 'gemini-companion-coverage counts)
    (push (list gemini-companion-coverage--file
                (mapcar (lambda (offset)
                          (gemini-companion-coverage--place (+ start offset)))
                        offsets)
                counts)
          gemini-companion-coverage--definitions)))

(defun gemini-companion-coverage--place (position)
  "Return the line and column of the form at POSITION.
That is where a list begins or a symbol ends.  Where a list ends there is
nothing to count: forms that throw or signal were run, too."
  (save-excursion
    (goto-char position)
    (unless (and (eq (char-before) ?\)) (not (eq (char-after) ?\()))
      (cons (line-number-at-pos) (current-column)))))

;;;; Counting

(defun gemini-companion-coverage--enter (name _arguments body)
  "Call BODY, the body of the definition NAME."
  (let ((gemini-companion-coverage--counts (get name 'gemini-companion-coverage)))
    (funcall body)))

(defun gemini-companion-coverage--before (index)
  "Count that the form at INDEX starts."
  (setf (aref gemini-companion-coverage--counts index)
        (1+ (aref gemini-companion-coverage--counts index)))
  index)

(defun gemini-companion-coverage--after (_before index value)
  "Count that the form at INDEX ended, and return its VALUE."
  (gemini-companion-coverage--before index)
  value)

(defun gemini-companion-coverage--write ()
  "Write the counts to a file."
  (with-temp-buffer
    (pcase-dolist (`(,file ,places ,counts) gemini-companion-coverage--definitions)
      (dotimes (index (length counts))
        (pcase (nth index places)
          (`(,line . ,column)
           (insert (format "%s %d %d %d\n" file line column (aref counts index)))))))
    (let ((coding-system-for-write 'utf-8-unix))
      (write-region nil nil (make-temp-name (expand-file-name
                                             (format "%d-" (emacs-pid))
                                             (getenv "COVERAGE_POINTS")))
                    nil 'silent))))

(defun gemini-companion-coverage--skip (index _frame next)
  "Let `called-interactively-p' see past the functions that count.
INDEX, and NEXT, a frame, are as in `called-interactively-p-functions'."
  (when (eq (nth 1 next) #'gemini-companion-coverage--enter)
    (let ((frames 1))
      (while (memq (nth 1 (backtrace-frame index 'called-interactively-p))
                   '(gemini-companion-coverage--enter edebug-enter))
        (setq frames (1+ frames)
              index (1+ index)))
      frames)))

;; These run at each form; and only compiled functions are one frame each.
(mapc #'byte-compile '(gemini-companion-coverage--enter
                       gemini-companion-coverage--before
                       gemini-companion-coverage--after
                       gemini-companion-coverage--skip))
(add-hook 'called-interactively-p-functions #'gemini-companion-coverage--skip)

(push '(gemini-companion-coverage gemini-companion-coverage--enter
                                  gemini-companion-coverage--before
                                  gemini-companion-coverage--after)
      edebug-behavior-alist)
;; Emacs 30 warns about unused arguments when it makes a closure; Edebug uses them all.
(defvar byte-compile-log-warning-function)
(setq load-source-file-function #'gemini-companion-coverage--load
      byte-compile-log-warning-function #'ignore
      ;; Instrumented code is nested more deeply.
      max-lisp-eval-depth (max max-lisp-eval-depth 20000))
(with-suppressed-warnings ((obsolete max-specpdl-size))
  (setq max-specpdl-size (max max-specpdl-size 50000)))
;; After all other hooks, which count, too.
(add-hook 'kill-emacs-hook #'gemini-companion-coverage--write 100)

(provide 'coverage)
;;; coverage.el ends here

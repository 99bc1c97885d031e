;;; demo.el --- Show a review from end to end  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Run by `make demo': a real Emacs in a terminal, a real client, and one edit
;; from the proposal to the file, reported step by step on standard output.
;; Both work on copies of some files of this repository, which are deleted at
;; the end.

;;; Code:

(require 'json)
(require 'gemini-companion-test-client)
(require 'gemini-companion-test-review)

(defconst gemini-companion-demo--files
  '("Cargo.toml" "src/lib.rs" "lisp/gemini-companion.el")
  "The files that are opened; an edit is proposed for the first one.")

(defconst gemini-companion-demo--size '(110 . 38)
  "Columns and lines of the terminal.")

(defvar gemini-companion-demo--step 0
  "Number of the last step.")

;;;; Output

(defun gemini-companion-demo--say (format &rest arguments)
  "Print FORMAT with ARGUMENTS as a line, indented under its step."
  (princ (replace-regexp-in-string
          "^" "   " (string-trim-right (apply #'format format arguments))))
  (terpri))

(defun gemini-companion-demo--step (format &rest arguments)
  "Begin a step and print its title, FORMAT with ARGUMENTS."
  (princ (format "\n%d. %s\n" (cl-incf gemini-companion-demo--step)
                 (apply #'format format arguments))))

(defun gemini-companion-demo--framed (text)
  "Return TEXT, a screen, in a frame."
  (let* ((width (car gemini-companion-demo--size))
         (bar (make-string width ?─)))
    (concat "┌" bar "┐\n"
            (mapconcat (lambda (line)
                         (concat "│" (truncate-string-to-width line width 0 ?\s)
                                 "│\n"))
                       (split-string (string-trim-right text "\n+") "\n")
                       "")
            "└" bar "┘")))

(defun gemini-companion-demo--json (value)
  "Return VALUE as indented JSON text."
  (with-temp-buffer
    (insert (decode-coding-string (gemini-companion-test-json-encode value)
                                  'utf-8))
    (json-pretty-print-buffer)
    (buffer-string)))

(defun gemini-companion-demo--diff (old new)
  "Return the diff of the files OLD and NEW."
  (with-temp-buffer
    (call-process "diff" nil t nil "-u" "--label" "before" "--label" "after"
                  old new)
    (buffer-string)))

;;;; The steps

(defun gemini-companion-demo--copies ()
  "Return the files to open as (NAME . TEXT) pairs."
  (mapcar (lambda (name)
            (cons name (gemini-companion-test-read
                        (gemini-companion-test-path name))))
          gemini-companion-demo--files))

(defun gemini-companion-demo--look-around (emacs)
  "Let the user of EMACS open the files and select some text."
  (dolist (name (reverse gemini-companion-demo--files))
    (gemini-companion-test-visit emacs name))
  (gemini-companion-test-keys emacs "M-<" "C-n" "C-Space" "C-e")
  (gemini-companion-test-wait-eval emacs '(region-active-p)))

(defun gemini-companion-demo--context (client)
  "Wait until CLIENT knows of all files and the selection; return it as text."
  (gemini-companion-test-client-wait-context
   client (lambda (files)
            (and (= (length files) (length gemini-companion-demo--files))
                 (alist-get 'selectedText (car files)))))
  (gemini-companion-demo--json
   `((openFiles
      . ,(vconcat (mapcar (lambda (file) (seq-filter #'cdr file))
                          (gemini-companion-test-client-files client)))))))

(defun gemini-companion-demo--proposal (text)
  "Return TEXT, a Cargo.toml, with the next version."
  (unless (string-match "^version = \"[0-9]+\\.[0-9]+\\.\\([0-9]+\\)\"" text)
    (error "There is no version in Cargo.toml"))
  (replace-match (number-to-string
                  (1+ (string-to-number (match-string 1 text))))
                 t t text 1))

(defun gemini-companion-demo--edit (emacs)
  "Let the user of EMACS add a remark to the proposal."
  (gemini-companion-test-select-proposal emacs)
  (gemini-companion-test-keys emacs "M-<" "C-s")
  (gemini-companion-test-type emacs "version = " "Enter" "C-e")
  (gemini-companion-test-type emacs " # by Gemini, edited by me")
  (gemini-companion-test-wait-screen emacs "edited by me"))

(defun gemini-companion-demo--review (emacs client file)
  "Let CLIENT propose an edit of FILE, and the user of EMACS accept it.
Return the text that CLIENT must write."
  (gemini-companion-demo--step "The client proposes an edit of %s"
                               (file-name-nondirectory file))
  (let ((handle (gemini-companion-test-client-open-diff
                 client file (gemini-companion-demo--proposal
                              (gemini-companion-test-read file)))))
    (gemini-companion-test-wait-review emacs)
    (gemini-companion-demo--step "The user adds a remark to the proposal")
    (gemini-companion-demo--edit emacs)
    (gemini-companion-demo--say "This is Emacs now:")
    (princ (gemini-companion-demo--framed
            (gemini-companion-test-screen emacs)))
    (terpri)
    (gemini-companion-demo--step "The user accepts: C-c C-c")
    (gemini-companion-test-accept emacs)
    (pcase (gemini-companion-test-client-wait-outcome client handle)
      (`(accepted . ,text)
       (gemini-companion-demo--say "The client is notified: accepted, %d characters."
                                   (length text))
       text)
      (outcome (error "The client got another outcome: %S" outcome)))))

(defun gemini-companion-demo--write (emacs file text)
  "Write TEXT to FILE as a client does, and show the result in EMACS."
  (let ((before (concat file ".before")))
    (copy-file file before)
    (gemini-companion-demo--step "The client writes the file; on disk")
    (gemini-companion-test-write file text)
    (gemini-companion-demo--say
     "%s" (gemini-companion-demo--diff before file))
    (delete-file before))
  (gemini-companion-demo--step "Emacs reverts its buffer of the file")
  (gemini-companion-test-wait-no-review emacs)
  (gemini-companion-test-wait-eval
   emacs `(with-current-buffer (get-file-buffer ,file)
            (and (not (buffer-modified-p))
                 (string-search "edited by me" (buffer-string)))))
  (gemini-companion-demo--say
   "%s" (gemini-companion-test-eval
         emacs `(with-current-buffer (get-file-buffer ,file)
                  (format "%s shows the new text, point is still on line %d."
                          (buffer-name) (line-number-at-pos))))))

(defun gemini-companion-demo--start ()
  "Start an Emacs with the mode on, and print that."
  (gemini-companion-demo--step
   "Emacs starts in a terminal, with M-x gemini-companion-mode")
  (let ((emacs (gemini-companion-test-start
                :files (gemini-companion-demo--copies)
                :size gemini-companion-demo--size)))
    (gemini-companion-demo--say
     "Emacs %s, process %d; for clients to find it:\n%s"
     (gemini-companion-test-eval emacs 'emacs-version)
     (gemini-companion-test-emacs-pid emacs)
     (file-relative-name
      (car (gemini-companion-test-discovery-files emacs))
      (gemini-companion-test-tmpdir emacs)))
    emacs))

(defun gemini-companion-demo--run ()
  "Perform all steps."
  (let* ((reason (gemini-companion-test-why-no-real-client))
         (emacs (gemini-companion-demo--start))
         (file (gemini-companion-test-project
                emacs (car gemini-companion-demo--files))))
    (unwind-protect
        (progn
          (gemini-companion-demo--step
           "The user opens %d files and selects a line of the last"
           (length gemini-companion-demo--files))
          (gemini-companion-demo--look-around emacs)
          (gemini-companion-demo--step
           "%s connects" (if reason
                             (format "The stand-in client (%s)" reason)
                           "The IDE client of Gemini CLI 0.61.0"))
          (gemini-companion-test-with-client
              (client (if reason 'fake 'real) emacs)
            (gemini-companion-demo--say
             "It receives what the user looks at:\n%s"
             (gemini-companion-demo--context client))
            (gemini-companion-demo--write
             emacs file (gemini-companion-demo--review emacs client file))))
      (gemini-companion-test-stop emacs))
    (gemini-companion-demo--step "Emacs and the client have ended")
    (gemini-companion-demo--say
     (if (or (gemini-companion-test-alive-p emacs)
             (file-exists-p (gemini-companion-test-emacs-directory emacs)))
         (error "They have left something behind")
       "They have left nothing behind.\n"))))

(defun gemini-companion-demo ()
  "Run the demo and end Emacs with its exit status."
  (setq locale-coding-system 'utf-8-unix)
  (condition-case err
      (gemini-companion-demo--run)
    ((error quit)
     (message "\nThe demo failed: %s" (error-message-string err))
     (kill-emacs 1)))
  (kill-emacs 0))

(provide 'demo)
;;; demo.el ends here

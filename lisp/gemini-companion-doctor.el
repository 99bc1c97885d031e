;;; gemini-companion-doctor.el --- Know why it does not work -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows what keeps a CLI from connecting, in a buffer or in batch mode.  Tokens are never shown,
;; and the home directory is written "~", so that the text can go into a bug report.

;;; Code:

(require 'seq)
(require 'subr-x)
(require 'gemini-companion-client)
(require 'gemini-companion-diagnosis)
(require 'gemini-companion-evil)
(require 'gemini-companion-native)
(require 'gemini-companion-report)

(defconst gemini-companion-doctor--name "*gemini doctor*"
  "Name of the buffer.")

(defconst gemini-companion-doctor--patience 15
  "Seconds for which a report in batch mode is waited for.")

;;;; The command

(define-derived-mode gemini-companion-doctor-mode gemini-companion-report-mode "Gemini-Doctor"
  "Major mode for what keeps a CLI from connecting.
\\{gemini-companion-doctor-mode-map}"
  :interactive nil
  (gemini-companion-evil-keep-keys 'gemini-companion-doctor-mode)
  (setq-local word-wrap t
              wrap-prefix "       ")
  (setq-local revert-buffer-function (lambda (&rest _) (gemini-companion-doctor--start))))

(defvar-local gemini-companion-doctor--subject nil
  "The buffer and the directory that are looked into, (BUFFER . DIRECTORY).")

(defvar-local gemini-companion-doctor--latest nil
  "Tells the look that was begun last from earlier ones.")

(defvar-local gemini-companion-doctor--shown nil
  "The case that is shown, its findings, and how many are still to come.")

;;;###autoload
(defun gemini-companion-doctor (&optional directory)
  "Show what a CLI that is started here would find, and what keeps it from us.
In a terminal that is a CLI in there, else one in a terminal that this
Emacs starts in the current project.  Interactively, a prefix argument
asks for another DIRECTORY."
  (interactive (list (and current-prefix-arg
                          (read-directory-name "Directory of the CLI: " nil nil t))))
  (let ((subject (cons (and (not directory) (current-buffer))
                       (expand-file-name (or directory default-directory))))
        (buffer (get-buffer-create gemini-companion-doctor--name)))
    (pop-to-buffer buffer)
    (unless (derived-mode-p 'gemini-companion-doctor-mode)
      (gemini-companion-doctor-mode))
    (setq gemini-companion-doctor--subject subject)
    (gemini-companion-doctor--start)))

(defun gemini-companion-doctor--start ()
  "Look into the subject of the current buffer, and print what is found."
  (pcase-let ((`(,terminal . ,directory) gemini-companion-doctor--subject)
              (buffer (current-buffer))
              (look (list nil)))
    (setq default-directory (file-name-as-directory directory)
          gemini-companion-doctor--latest look)
    (gemini-companion-diagnosis-look
     (gemini-companion-diagnosis-case-of terminal directory)
     (lambda (case findings left)
       (when (and (buffer-live-p buffer)
                  ;; What an earlier look still finds is of no interest.
                  (eq look (buffer-local-value 'gemini-companion-doctor--latest buffer)))
         (with-current-buffer buffer
           (setq gemini-companion-doctor--shown (list case findings left))
           (gemini-companion-doctor--print)))))))

(defun gemini-companion-doctor--print ()
  "Print what was found into the current buffer."
  (gemini-companion-report-print
   (lambda () (apply #'gemini-companion-doctor--insert gemini-companion-doctor--shown))))

;;;###autoload
(defun gemini-companion-doctor-batch ()
  "Print what a CLI that is started in the current directory would find.
Call Emacs in the terminal in which the CLI is started, with the options

  --batch -L PACKAGE-DIRECTORY -l gemini-companion-doctor \\
    -f gemini-companion-doctor-batch

Exit with 1 if there is a problem.  The text holds no secrets."
  (let ((deadline (+ (float-time) gemini-companion-doctor--patience))
        (left nil)
        shown)
    (gemini-companion-diagnosis-look
     (make-gemini-companion-diagnosis-case
      :directory default-directory :environment process-environment
      :process (emacs-pid) :place "the terminal in which this was called")
     (lambda (&rest arguments)
       (setq shown arguments
             left (nth 2 arguments))))
    (while (and (> left 0) (< (float-time) deadline))
      (accept-process-output nil 0.1))
    (with-temp-buffer
      (apply #'gemini-companion-doctor--insert shown)
      (princ (buffer-string)))
    (kill-emacs (if (gemini-companion-doctor--of-level 'problem (nth 1 shown)) 1 0))))

;;;; The report

(defun gemini-companion-doctor--of-level (level findings)
  "Return those of FINDINGS that are of LEVEL."
  (seq-filter (lambda (finding) (eq (gemini-companion-diagnosis-finding-level finding) level))
              findings))

(defun gemini-companion-doctor--insert (case findings left)
  "Insert FINDINGS about CASE; LEFT things are still being looked into."
  (let ((problems (length (gemini-companion-doctor--of-level 'problem findings))))
    (insert (propertize
             (pcase problems
               (0 (if (> left 0) "No problem was found so far"
                    "No problem: a CLI that is started here finds an Emacs"))
               (1 "One problem")
               (_ (format "%d problems; begin with the first" problems)))
             'face 'bold)
            (if (> left 0) ", still looking...\n" "\n"))
    (gemini-companion-doctor--line
     "for a CLI in %s, in %s"
     (gemini-companion-diagnosis-case-directory case)
     (gemini-companion-diagnosis-case-place case))
    (pcase-dolist (`(,level . ,heading) '((problem . "Problems") (note . "Notes")
                                          (fine . "As it should be")))
      (when-let* ((findings (gemini-companion-doctor--of-level level findings)))
        (insert "\n" (propertize heading 'face 'bold) "\n")
        (mapc #'gemini-companion-doctor--insert-finding findings)))
    (insert "\n" (propertize "What the CLI sees" 'face 'bold) "\n")
    (gemini-companion-doctor--insert-facts case)))

(defun gemini-companion-doctor--insert-finding (finding)
  "Insert FINDING, with its button."
  (gemini-companion-doctor--line "* %s" (gemini-companion-diagnosis-finding-text finding))
  (when-let* ((remedy (gemini-companion-diagnosis-finding-remedy finding)))
    (gemini-companion-doctor--line "  -> %s" remedy))
  (pcase (gemini-companion-diagnosis-finding-button finding)
    ((and `(,label . ,function) (guard (not noninteractive)))
     (insert "     ")
     (gemini-companion-report-button
      label (lambda () (gemini-companion-doctor--press function)))
     (insert "\n"))))

(defun gemini-companion-doctor--press (function)
  "Call FUNCTION for a button, and look again."
  (let ((buffer (current-buffer)))
    (funcall function)
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (gemini-companion-doctor--start)))))

(defun gemini-companion-doctor--insert-facts (case)
  "Insert what the CLI in CASE sees, and what this is."
  (let* ((search (gemini-companion-diagnosis-case-search case))
         (wanted (gemini-companion-client-search-wanted search)))
    (gemini-companion-doctor--line "looks in %s, for process %s"
                                   (gemini-companion-client-search-directory search)
                                   (or wanted "(any)"))
    (dolist (file (gemini-companion-client-search-files search))
      (gemini-companion-doctor--line
       "%s %s" (if (eq file (gemini-companion-client-search-chosen search)) "takes" "finds")
       (gemini-companion-doctor--describe-file file)))
    (dolist (name '("TMPDIR" "TMP" "TEMP" "GEMINI_CLI_IDE_SERVER_PORT" "GEMINI_CLI_IDE_PID"
                    "GEMINI_CLI_IDE_WORKSPACE_PATH" "NO_PROXY" "REMOTE_CONTAINERS"))
      (when-let* ((value (gemini-companion-diagnosis-variable case name)))
        (gemini-companion-doctor--line "%s=%s" name value)))
    (gemini-companion-doctor--line "package %s, Emacs %s on %s"
                                   gemini-companion-native-version emacs-version
                                   system-configuration)))

(defun gemini-companion-doctor--describe-file (file)
  "Return a line for the discovery FILE."
  (let ((ide (gemini-companion-client-ide file)))
    (concat (file-name-nondirectory (gemini-companion-client-file-name file))
            (cond ((gemini-companion-diagnosis-own-p file) ", this Emacs")
                  (ide (format ", %s" (cdr ide)))
                  (t ""))
            (cond ((gemini-companion-client-elsewhere-p file)
                   ", of another container or start of the machine")
                  ((gemini-companion-client-file-alive file) "")
                  (t ", its process is dead"))
            (if-let* ((fault (gemini-companion-client-file-fault file)))
                (concat ", " fault)
              (format ", roots: %s"
                      (string-join (or (gemini-companion-client-roots file) '("none"))
                                   ", "))))))

(defun gemini-companion-doctor--line (format &rest arguments)
  "Insert a line: FORMAT with ARGUMENTS, without what identifies the user."
  (let ((home (directory-file-name (expand-file-name "~")))
        (text (apply #'format format arguments)))
    (gemini-companion-report-line
     "%s"
     (if (< (length home) 2) text
       (replace-regexp-in-string
        (concat "\\(" (regexp-quote home) "\\)\\(?:[^[:alnum:]_.-]\\|\\'\\)")
        "~" text t t 1)))))

(provide 'gemini-companion-doctor)
;;; gemini-companion-doctor.el ends here

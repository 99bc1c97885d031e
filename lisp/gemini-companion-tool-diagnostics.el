;;; gemini-companion-tool-diagnostics.el --- What checkers find, for the model -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The tool getDiagnostics: what Flymake or Flycheck report about open files, once they have checked
;; the present text.  A timer waits for their reports.
;;
;; Flymake and Flycheck know when their own checkers have finished.  A language server publishes
;; diagnostics whenever it likes, and the checkers of Eglot and lsp-mode report the last ones.  So
;; this file records which text these have sent, and whether the server has published diagnostics
;; since.  If it cannot know that, the answer says that it may be out of date.
;;
;; A server that names no version of the text may publish in parts, first what it found in the old
;; text; so wait until it is quiet.  Some publish nothing as long as they find nothing new, like
;; those of TypeScript and Rust, or never publish; so do not wait long for that.
;;
;; Checkers of a remote file may make Emacs wait for its host.  So this file starts none of them,
;; and sends nothing to a language server there: what they report on their own counts.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'gemini-companion-log)
(require 'gemini-companion-tool)
(require 'gemini-companion-ui)

(declare-function eglot--managed-buffers "ext:eglot" (server) t)
(declare-function eglot--project "ext:eglot" (server) t)
(declare-function eglot-server-capable "ext:eglot" (&rest features))
(declare-function flycheck-buffer "ext:flycheck" ())
(declare-function flycheck-error-buffer "ext:flycheck" (error) t)
(declare-function flycheck-error-column "ext:flycheck" (error) t)
(declare-function flycheck-error-level "ext:flycheck" (error) t)
(declare-function flycheck-error-line "ext:flycheck" (error) t)
(declare-function flycheck-error-message "ext:flycheck" (error) t)
(declare-function flycheck-running-p "ext:flycheck" ())
(declare-function flycheck-stop "ext:flycheck" ())
(declare-function flymake-diagnostic-text "flymake" (diagnostic) t)
(declare-function flymake-diagnostic-type "flymake" (diagnostic) t)
(declare-function flymake-disabled-backends "flymake" ())
(declare-function flymake-reporting-backends "flymake" ())
(declare-function flymake-running-backends "flymake" ())
(declare-function flymake-start "flymake" (&optional deferred force))
(declare-function lsp--workspace-root "ext:lsp-mode" (workspace) t)
(declare-function lsp:publish-diagnostics-params-uri "ext:lsp-protocol" (object))
(declare-function lsp:publish-diagnostics-params-version? "ext:lsp-protocol" (object))
(declare-function project-root "project" (project))
(defvar flycheck-current-errors)
(defvar flycheck-last-status-change)
(defvar flymake-timer)

;;;; What language servers have checked

(defvar-local gemini-companion-tool-diagnostics--sent nil
  "The text that the server has, as (TICK . TIME), or nil.
That is its `buffer-chars-modified-tick', and when the server got it.")

(defvar-local gemini-companion-tool-diagnostics--published nil
  "What the server published last, as (TICK TIME KIND), or nil.
TICK is the `buffer-chars-modified-tick' of the text that it is about, or nil
if that is an older one.  KIND is `versioned' if it named the version of the
text, else nil; or `reopened' if it has published nothing since Eglot has
closed the text and opened it again.")

;; When the major mode is turned on again, Eglot closes the text and opens it again.
(put 'gemini-companion-tool-diagnostics--sent 'permanent-local t)

(defconst gemini-companion-tool-diagnostics--silence 6
  "Seconds until a server seems to have nothing to publish.")

(defun gemini-companion-tool-diagnostics-server ()
  "Return which package has a server for the current buffer: `eglot', `lsp' or nil."
  (cond ((and (fboundp 'eglot-managed-p) (eglot-managed-p)) 'eglot)
        ((bound-and-true-p lsp-managed-mode) 'lsp)))

(defun gemini-companion-tool-diagnostics--sent-p ()
  "Return non-nil if the language server has the text of the current buffer."
  (eql (buffer-chars-modified-tick) (car gemini-companion-tool-diagnostics--sent)))

(defun gemini-companion-tool-diagnostics--record-sent (&rest _)
  "Record that the language server has the text of the current buffer."
  (unless (gemini-companion-tool-diagnostics--sent-p)
    (setq gemini-companion-tool-diagnostics--sent
          (cons (buffer-chars-modified-tick) (float-time)))))

(defun gemini-companion-tool-diagnostics--record-opened (&rest _)
  "Record that the current buffer was opened in a language server."
  (setq gemini-companion-tool-diagnostics--published
        (and gemini-companion-tool-diagnostics--sent '(nil 0 reopened))
        gemini-companion-tool-diagnostics--sent nil)
  (gemini-companion-tool-diagnostics--record-sent))

(defun gemini-companion-tool-diagnostics--record-published (server method &rest parameters)
  "If METHOD and PARAMETERS say so, record that SERVER has checked a buffer."
  (when (eq method 'textDocument/publishDiagnostics)
    (gemini-companion-log-errors "diagnostics"
      (when-let* ((file (gemini-companion-tool-diagnostics-uri-file (plist-get parameters :uri)))
                  (machine (or (file-remote-p (project-root (eglot--project server))) ""))
                  ;; A server may publish for hundreds of files; asking for truenames would be slow.
                  (buffer (cl-loop for each in (eglot--managed-buffers server)
                                   for names = (list (buffer-file-name each)
                                                     (gemini-companion-file-truename each))
                                   if (member (concat machine file) names) return each)))
        (with-current-buffer buffer
          (let* ((version (plist-get parameters :version))
                 (present
                  (and (gemini-companion-tool-diagnostics--sent-p)
                       (if version
                           (eql version (or (bound-and-true-p eglot--docver) ; since Eglot 1.18
                                            (bound-and-true-p eglot--versioned-identifier)))
                         ;; This may be about the text that was closed.
                         (not (and (seq-empty-p (plist-get parameters :diagnostics))
                                   (eq 'reopened
                                       (nth 2 gemini-companion-tool-diagnostics--published))))))))
            (setq gemini-companion-tool-diagnostics--published
                  ;; Eglot shows what comes last even if it is for an older text.
                  (list (and present (buffer-chars-modified-tick)) (float-time)
                        (and version 'versioned)))))))))

(defun gemini-companion-tool-diagnostics--record-lsp (workspace report &rest _)
  "Record that WORKSPACE, a server of lsp-mode, has checked a buffer.
REPORT is what it published, or the file of which lsp-mode has asked it."
  (gemini-companion-log-errors "diagnostics"
    (pcase-let* ((`(,file ,version)
                  (if (stringp report) (list report nil)
                    (list (concat (file-remote-p (lsp--workspace-root workspace))
                                  (gemini-companion-tool-diagnostics-uri-file
                                   (lsp:publish-diagnostics-params-uri report)))
                          (lsp:publish-diagnostics-params-version? report))))
                 (buffer (cl-find file (buffer-list) :key #'buffer-file-name :test #'equal)))
      (when buffer
        (with-current-buffer buffer
          (setq gemini-companion-tool-diagnostics--published
                (list (and (or (not version) (eql version (bound-and-true-p lsp--cur-version)))
                           (buffer-chars-modified-tick))
                      (float-time)
                      nil)))))))        ; the buffer may have another server, too

(defun gemini-companion-tool-diagnostics-uri-file (uri)
  "Return the file name that URI, from a language server, has on its machine.
If URI names no file, the value is not an absolute file name."
  (let ((file-name-handler-alist nil))
    ;; The second one is that of Emacs 29.
    (funcall (seq-find #'fboundp '(eglot-uri-to-path eglot--uri-to-path lsp--uri-to-path)) uri)))

(defconst gemini-companion-tool-diagnostics--advice
  ;; Not a method: many users define one with the same specializers, which would replace it.
  '((eglot-handle-notification . gemini-companion-tool-diagnostics--record-published)
    (eglot--signal-textDocument/didOpen . gemini-companion-tool-diagnostics--record-opened)
    (eglot--signal-textDocument/didChange . gemini-companion-tool-diagnostics--record-sent)
    (lsp--on-diagnostics . gemini-companion-tool-diagnostics--record-lsp)
    (lsp-diagnostics--apply-pull-diagnostics . gemini-companion-tool-diagnostics--record-lsp)
    (lsp--text-document-did-open . gemini-companion-tool-diagnostics--record-opened)
    (lsp-on-change . gemini-companion-tool-diagnostics--record-sent))
  "Alist of functions of Eglot and lsp-mode, and the functions to call after them.")

(defvar-local gemini-companion-tool-diagnostics--begun nil
  "The `buffer-chars-modified-tick' of the text that Flycheck checked last, or nil.")

(defun gemini-companion-tool-diagnostics--record-begun ()
  "Record that Flycheck checks the text of the current buffer."
  (setq gemini-companion-tool-diagnostics--begun (buffer-chars-modified-tick)))

(defun gemini-companion-tool-diagnostics-observe ()
  "Record what Flycheck and language servers check, as long as the mode is on.
Assume that what servers published before is about the present text, unless
there are changes that Eglot has not sent."
  (add-hook 'flycheck-before-syntax-check-hook #'gemini-companion-tool-diagnostics--record-begun)
  (unless (advice-member-p #'gemini-companion-tool-diagnostics--record-published
                           'eglot-handle-notification)
    ;; If these are not loaded yet, this waits for them.
    (pcase-dolist (`(,function . ,record) gemini-companion-tool-diagnostics--advice)
      (advice-add function :after record))
    (dolist (buffer (buffer-list))
      (with-current-buffer buffer
        (when (and (gemini-companion-tool-diagnostics-server)
                   (not (bound-and-true-p eglot--recent-changes)))
          (gemini-companion-tool-diagnostics--record-sent)
          (setq gemini-companion-tool-diagnostics--published
                (list (buffer-chars-modified-tick) (float-time) 'versioned)))))))

(defun gemini-companion-tool-diagnostics-stop ()
  "Stop recording what Flycheck and language servers have checked."
  (remove-hook 'flycheck-before-syntax-check-hook #'gemini-companion-tool-diagnostics--record-begun)
  (pcase-dolist (`(,function . ,record) gemini-companion-tool-diagnostics--advice)
    (advice-remove function record)))

(add-hook 'gemini-companion-mode-off-hook #'gemini-companion-tool-diagnostics-stop)

(defun gemini-companion-tool-diagnostics-flush ()
  "Make Eglot send the changes of the current buffer now, not when Emacs is idle."
  (when (and (eq 'eglot (gemini-companion-tool-diagnostics-server))
             (fboundp 'eglot--signal-textDocument/didChange)
             (not (gemini-companion-tool-diagnostics--remote-p))
             ;; Emacs may be in the middle of a change.
             (not (and (fboundp 'track-changes-inconsistent-state-p)
                       (track-changes-inconsistent-state-p))))
    (gemini-companion-log-errors "sending changes to a language server"
      (eglot--signal-textDocument/didChange))))

(defun gemini-companion-tool-diagnostics--server-behind-p ()
  "Return non-nil if a language server has not checked the current buffer yet."
  (pcase-let ((`(,tick ,time ,kind) gemini-companion-tool-diagnostics--published))
    (and (gemini-companion-tool-diagnostics-server)
         ;; If Eglot asks for diagnostics, since 1.21, Flymake knows whether they have come.
         (not (and (eq 'eglot (gemini-companion-tool-diagnostics-server))
                   (fboundp 'eglot--flymake-pull)
                   (eglot-server-capable :diagnosticProvider)))
         (not (and (eql tick (buffer-chars-modified-tick))
                   ;; One that names no versions publishes the last part after some time.
                   (or (eq kind 'versioned) (<= (+ time 0.5) (float-time))))))))

(defun gemini-companion-tool-diagnostics--silent-p ()
  "Return non-nil if a language server seems to have nothing to publish."
  (and (gemini-companion-tool-diagnostics--server-behind-p)
       (gemini-companion-tool-diagnostics--sent-p)
       (> (float-time) (+ (cdr gemini-companion-tool-diagnostics--sent)
                          gemini-companion-tool-diagnostics--silence))))

;;;; Checkers

(defun gemini-companion-tool-diagnostics--remote-p ()
  "Return non-nil if the file of the current buffer is remote."
  (gemini-companion-host-remote-p (or buffer-file-name "")))

(defun gemini-companion-tool-diagnostics--checking-p ()
  "Return non-nil if checkers of the current buffer have not reported yet."
  (or (and (bound-and-true-p flycheck-mode) (flycheck-running-p))
      (and (bound-and-true-p flymake-mode)
           (or (cl-set-difference (flymake-running-backends)
                                  (append (flymake-reporting-backends)
                                          (flymake-disabled-backends)))
               ;; It will start soon.
               (and (gemini-companion-tool-diagnostics--remote-p) flymake-timer)))))

(defun gemini-companion-tool-diagnostics-begun-p ()
  "Return non-nil if checkers have ever begun to check the current buffer.
They do so automatically, but not in buffers that were never on screen."
  (not (or (and (bound-and-true-p flycheck-mode)
                (eq flycheck-last-status-change 'not-checked))
           (and (bound-and-true-p flymake-mode)
                (null (bound-and-true-p flymake-check-start-time))))))

(defun gemini-companion-tool-diagnostics--up-to-date-p ()
  "Return non-nil if checkers have begun to check the present text."
  (and (gemini-companion-tool-diagnostics-begun-p)
       (not (or (and (bound-and-true-p flycheck-mode)
                     (or (not (eql gemini-companion-tool-diagnostics--begun
                                   (buffer-chars-modified-tick)))
                         (eq flycheck-last-status-change 'interrupted)))
                (and (bound-and-true-p flymake-mode)
                     (or (bound-and-true-p flymake-timer)
                         ;; The user may want checks only of saved text.
                         (bound-and-true-p flymake--recent-changes)))))))

(defun gemini-companion-tool-diagnostics--disabled ()
  "Return the names of checkers of the current buffer that do not work."
  (append (and (bound-and-true-p flycheck-mode)
               (memq flycheck-last-status-change '(errored no-checker suspicious))
               (list (format "Flycheck (%s)" flycheck-last-status-change)))
          (and (bound-and-true-p flymake-mode)
               (mapcar (apply-partially #'format "%s") (flymake-disabled-backends)))))

(defun gemini-companion-tool-diagnostics-list (buffer)
  "Return the diagnostics of BUFFER, sorted by line.
Each is a list (LINE COLUMN SEVERITY TEXT)."
  (with-current-buffer buffer
    (gemini-companion-ui-widened
      (seq-sort-by #'car #'<
                   ;; Eglot turns on Flymake even if Flycheck is on.
                   (append (and (bound-and-true-p flycheck-mode)
                                (gemini-companion-tool-diagnostics--of-flycheck))
                           (and (bound-and-true-p flymake-mode)
                                (gemini-companion-tool-diagnostics--of-flymake)))))))

(defun gemini-companion-tool-diagnostics--of-flymake ()
  "Return the diagnostics of Flymake in the current buffer, a list of lists."
  (let ((inhibit-field-text-motion t)
        (line 1)
        (start (point-min)))
    ;; In Emacs 28, the positions in the diagnostics themselves ignore edits.
    (cl-loop for overlay in (sort (overlays-in (point-min) (point-max))
                                  (lambda (a b) (< (overlay-start a) (overlay-start b))))
             for diagnostic = (overlay-get overlay 'flymake-diagnostic)
             when diagnostic
             do (goto-char (overlay-start overlay))
             ;; Counting from the first line each time would be slow.
             and do (cl-incf line (count-lines start (line-beginning-position)))
             and do (setq start (line-beginning-position))
             and collect (list line
                               (1+ (- (point) start))
                               (gemini-companion-tool-diagnostics--severity
                                (flymake-diagnostic-type diagnostic))
                               (substring-no-properties
                                (or (flymake-diagnostic-text diagnostic) ""))))))

(defun gemini-companion-tool-diagnostics--of-flycheck ()
  "Return the errors of Flycheck in the current buffer, a list of lists."
  (cl-loop for found in flycheck-current-errors
           if (memq (flycheck-error-buffer found) (list nil (current-buffer)))
           collect (list (or (flycheck-error-line found) 1)
                         (or (flycheck-error-column found) 1)
                         (gemini-companion-tool-diagnostics--severity (flycheck-error-level found))
                         (substring-no-properties (or (flycheck-error-message found) "")))))

(defun gemini-companion-tool-diagnostics--severity (type)
  "Return the severity of TYPE, a type of Flymake or a level of Flycheck."
  (let ((name (format "%s" (or (and (symbolp type) (get type 'flymake-category)) type))))
    (cond ((string-search "error" name) "error")
          ((string-search "warning" name) "warning")
          (t "note"))))

;;;; Waiting until they are fresh

(defun gemini-companion-tool-diagnostics-when-fresh (call buffers patience callback &optional lazy)
  "Call CALLBACK for CALL once checkers have checked the present text of BUFFERS.
Do so from a timer, after PATIENCE seconds at the latest, unless CALL ends
before.  The argument of CALLBACK is a list of (BUFFER DIAGNOSTICS FRESH) for
the buffers that still have checkers.  For DIAGNOSTICS see
`gemini-companion-tool-diagnostics-list'; FRESH is non-nil if they are about
the present text.  If LAZY is non-nil, start only checks that the present
text needs."
  (gemini-companion-tool-diagnostics-observe)
  (let ((deadline (+ (float-time) patience))
        (waits (mapcar (lambda (buffer)
                         (with-current-buffer buffer
                           (cons buffer (gemini-companion-tool-diagnostics--wait lazy))))
                       buffers)))
    (gemini-companion-tool-poll
     call
     (lambda ()
       (let* ((late (> (float-time) deadline))
              (states (cl-loop for (buffer . wait) in waits
                               if (gemini-companion-tool-diagnostics-checked-p buffer)
                               collect (cons buffer
                                             (with-current-buffer buffer (funcall wait))))))
         (when (or late (not (rassq 'waiting states)))
           (funcall callback
                    (cl-loop for (buffer . state) in states
                             collect (list buffer
                                           (gemini-companion-tool-diagnostics-list buffer)
                                           (eq state 'fresh))))
           t))))))

(defun gemini-companion-tool-diagnostics--wait (lazy)
  "Start the checkers of the current buffer; return a function to call there.
That starts them again if needed, and returns `waiting', or `fresh' if all have
reported about the present text, or `stale' if that may never be so, or is not
known.  For LAZY see `gemini-companion-tool-diagnostics-when-fresh'."
  (gemini-companion-tool-diagnostics-flush)
  (let ((managed (gemini-companion-tool-diagnostics-server))
        (started (gemini-companion-tool-diagnostics--start lazy)))
    (lambda ()
      (let ((behind (gemini-companion-tool-diagnostics--server-behind-p))
            (idle (gemini-companion-ui-idle-p 0.5))) ; while the user types, nothing is sent again
        (when idle (gemini-companion-tool-diagnostics-flush))
        (cond ((gemini-companion-tool-diagnostics--checking-p) 'waiting)
              (behind (if (gemini-companion-tool-diagnostics--silent-p) 'stale 'waiting))
              ((eql started (buffer-chars-modified-tick))
               (if (gemini-companion-tool-diagnostics--known-p managed) 'fresh 'stale))
              (t
               ;; Other checkers can begin while a server is behind; but they get from it what was
               ;; published last, so they begin again.
               (when idle
                 (setq started (gemini-companion-tool-diagnostics--start)))
               'waiting))))))

(defun gemini-companion-tool-diagnostics--known-p (managed)
  "Return non-nil if Emacs knows which text the checkers here have checked.
MANAGED is non-nil if the buffer had a language server when they were started."
  (not (or (and managed (not (gemini-companion-tool-diagnostics-server))) ; it may have died
           ;; Nothing was started for a remote file.
           (and (gemini-companion-tool-diagnostics--remote-p)
                (not (gemini-companion-tool-diagnostics--up-to-date-p))))))

(defun gemini-companion-tool-diagnostics--start (&optional lazy)
  "Start the checkers of the current buffer; return the tick of its text.
If a language server has not checked that text yet, return `early'.  If LAZY
is non-nil, start none that have begun to check the present text."
  (prog1 (if (gemini-companion-tool-diagnostics--server-behind-p) 'early
           (buffer-chars-modified-tick))
    (unless (or (gemini-companion-tool-diagnostics--remote-p)
                (and lazy (gemini-companion-tool-diagnostics--up-to-date-p)))
      (gemini-companion-log-errors "starting a check"
        (when (bound-and-true-p flycheck-mode)
          ;; One that runs may be of an earlier text, and Flycheck would start no other.
          (flycheck-stop)
          (flycheck-buffer))
        (when (bound-and-true-p flymake-mode) (flymake-start))))))

;;;; The tool

(defun gemini-companion-tool-diagnostics--get (call path wait)
  "Answer CALL with the diagnostics of PATH, or of all open files, of 50 at most.
Wait WAIT seconds at most until they are fresh."
  (let* ((patience (max 0 (min gemini-companion-tool-patience
                               (or wait gemini-companion-tool-patience))))
         (path (unless (equal path "") path)) ; models write that for no argument
         (buffers (if path (list (gemini-companion-tool-open-buffer call path))
                    (seq-filter (lambda (buffer)
                                  (and (gemini-companion-tool-diagnostics-checked-p buffer)
                                       (gemini-companion-tool-visible-p
                                        call (buffer-file-name buffer)
                                        (length (gemini-companion-tool-diagnostics-list buffer)))))
                                (buffer-list)))))
    (mapc #'gemini-companion-tool-refresh-buffer buffers)
    (cond ((not buffers) "Neither Flymake nor Flycheck checks an open file.")
          ((not (gemini-companion-tool-diagnostics-checked-p (car buffers)))
           (user-error "Neither Flymake nor Flycheck checks this file in Emacs: %s" path))
          (t (gemini-companion-tool-diagnostics-when-fresh
              call (seq-take buffers 50) patience
              (lambda (found)
                (gemini-companion-tool-answer
                 call (gemini-companion-tool-diagnostics--text
                       call
                       (cl-loop for each in found ; their files may have other names meanwhile
                                if (gemini-companion-tool-visible-p
                                    call (buffer-file-name (car each)) (length (cadr each)))
                                collect each))))
              (not path))))))

(defun gemini-companion-tool-diagnostics-checked-p (buffer)
  "Return non-nil if BUFFER visits a file and has checkers."
  (and (buffer-live-p buffer)
       (buffer-file-name buffer)
       (with-current-buffer buffer
         (or (bound-and-true-p flycheck-mode) (bound-and-true-p flymake-mode)))))

(defun gemini-companion-tool-diagnostics--text (call found)
  "Return the answer to CALL for FOUND, a list of (BUFFER DIAGNOSTICS FRESH)."
  (unless found
    (user-error "Meanwhile, your user has closed the file, or Emacs no longer checks it"))
  (cl-loop for (buffer diagnostics fresh) in found
           for name = (gemini-companion-tool-file-name call (buffer-file-name buffer))
           append (cl-loop for (line column severity text) in diagnostics
                           collect (cons severity
                                         (gemini-companion-tool-line "%s:%d:%d: %s: %s" name
                                                                     line column severity text)))
           into lines
           append (gemini-companion-tool-diagnostics--notes name buffer fresh) into notes
           finally return
           (string-join (append (if lines (gemini-companion-tool-diagnostics--important lines)
                                  '("No diagnostics."))
                                notes)
                        "\n")))

(defun gemini-companion-tool-diagnostics--important (lines)
  "Return the texts of LINES, pairs of a severity and a text.
If there are too many for an answer, keep the most severe ones, errors first."
  (let* ((most (- gemini-companion-tool-max-lines 10))
         (more (- (length lines) most)))
    (if (<= more 0) (mapcar #'cdr lines)
      `(,@(mapcar #'cdr (seq-take
                         (seq-sort-by (lambda (line)
                                        (seq-position '("error" "warning" "note") (car line)))
                                      #'< lines)
                         most))
        ,(format "(%d more, none of them more severe)" more)))))

(defun gemini-companion-tool-diagnostics--notes (name buffer fresh)
  "Return lines about what was not checked in BUFFER, the file NAME.
FRESH is nil if some checkers may not have checked its present text."
  (with-current-buffer buffer
    (let ((disabled (gemini-companion-tool-diagnostics--disabled)))
      `(,@(unless fresh
            (list (format (if (gemini-companion-tool-diagnostics--silent-p)
                              "(%s: the language server has reported nothing about the present \
text; some do that if they find nothing new)"
                            "(%s: some checks are still running, so this may be out of date)")
                          name)))
        ,@(when disabled
            (list (gemini-companion-tool-line "(%s: these checkers do not work here: %s)"
                                              name (string-join disabled ", "))))))))

;;;###autoload
(defun gemini-companion-tool-diagnostics-define ()
  "Define the tool of this file, and observe checkers."
  (gemini-companion-tool-diagnostics-observe)
  (gemini-companion-tool-define "getDiagnostics"
    :description "Errors and warnings that Emacs's checkers and language servers report for an \
open file, or all open files.  Waits until the last change was checked."
    :arguments '(("path" string "File, by default all" optional)
                 ("wait" integer "Seconds to wait at most, by default 15" optional))
    :read-only t
    :hosts t
    :function #'gemini-companion-tool-diagnostics--get))
;;;###autoload (add-hook 'gemini-companion-tool-hook #'gemini-companion-tool-diagnostics-define -50)

(provide 'gemini-companion-tool-diagnostics)
;;; gemini-companion-tool-diagnostics.el ends here

;;; gemini-companion-tool-symbols.el --- Symbols of open files, for the model -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The tools findDefinition, findReferences and describeSymbol.  They send a request to a language
;; server through Eglot or lsp-mode, and answer when the server does: the commands of Emacs would
;; block it for seconds if the server is slow.  In Emacs Lisp, Emacs itself knows definitions and
;; documentation.

;;; Code:

(require 'cl-lib)
(require 'gemini-companion-tool)
(require 'gemini-companion-tool-diagnostics)
(require 'gemini-companion-ui)

(declare-function eglot--TextDocumentPositionParams "ext:eglot" ())
(declare-function eglot-current-server "ext:eglot" ())
(declare-function eglot-server-capable "ext:eglot" (&rest features))
(declare-function jsonrpc-async-request "ext:jsonrpc")
(declare-function lsp--text-document-position-params "ext:lsp-mode")
(declare-function lsp-feature? "ext:lsp-mode" (method))
(declare-function lsp-request-async "ext:lsp-mode")
(declare-function xref-item-location "xref" (item) t)

;;;; Where the symbol is

(defun gemini-companion-tool-symbols--asking (method capability answer &optional extra elisp)
  "Return the function of a tool that requests METHOD from a language server.
For CAPABILITY, ANSWER and EXTRA see `gemini-companion-tool-symbols--request'.
ELISP, if non-nil, returns the answer for a symbol of Emacs Lisp and a call."
  (lambda (call path line symbol)
    (let ((buffer (gemini-companion-tool-open-buffer call path)))
      (gemini-companion-tool-refresh-buffer buffer)
      (with-current-buffer buffer
        (gemini-companion-ui-widened
          (goto-char (gemini-companion-tool-symbols--position line symbol))
          (if (and elisp
                   (derived-mode-p 'emacs-lisp-mode)
                   (not (gemini-companion-tool-diagnostics-server)))
              (funcall elisp symbol call)
            (gemini-companion-tool-symbols--request call method capability answer extra)))))))

(defun gemini-companion-tool-symbols--position (line symbol)
  "Return the position of SYMBOL on LINE of the current buffer.
Signal a `user-error' if it is not there."
  (let* ((case-fold-search nil)
         (inhibit-field-text-motion t)
         (text (regexp-quote symbol)))
    (when (string-empty-p symbol) (user-error "The symbol is empty"))
    (goto-char (gemini-companion-ui-line-start line))
    (if (or (re-search-forward (concat "\\_<" text "\\_>") (line-end-position) t)
            (re-search-forward text (line-end-position) t))
        (match-beginning 0)
      (user-error "Line %d has no %s" line symbol))))

;;;; Language servers

(defun gemini-companion-tool-symbols--request (call method capability answer extra)
  "Request METHOD, a string, at point from the language server of the buffer.
Then answer CALL with the value of the function ANSWER, called with the
result and CALL.  CAPABILITY, a keyword, is what the server must be capable
of; EXTRA is a plist of more parameters."
  (let* ((done (lambda (result)
                 (gemini-companion-tool-go-on
                  call (lambda ()
                         (gemini-companion-tool-answer call (funcall answer result call))))))
         (fail (lambda (reason)
                 (gemini-companion-tool-fail call (format "The language server: %s" reason)))))
    (pcase (gemini-companion-tool-diagnostics-server)
      ('eglot (gemini-companion-tool-symbols--request-eglot method capability extra done fail))
      ('lsp (gemini-companion-tool-symbols--request-lsp method extra done fail))
      (_ (user-error "No language server in this buffer: use grep_search")))
    'later))

(defun gemini-companion-tool-symbols--request-eglot (method capability extra done fail)
  "Request METHOD with Eglot; call DONE with the result or FAIL with a reason.
For CAPABILITY and EXTRA see `gemini-companion-tool-symbols--request'."
  (unless (or (not (fboundp 'eglot-server-capable)) (eglot-server-capable capability))
    (user-error "The language server of this file cannot do that: use grep_search"))
  ;; A deferred request would replace one of another call.
  (gemini-companion-tool-diagnostics-flush)
  (jsonrpc-async-request
   (eglot-current-server) (intern (concat ":" method))
   (append (eglot--TextDocumentPositionParams) extra)
   :timeout gemini-companion-tool-patience
   :success-fn done
   :error-fn (lambda (problem) (funcall fail (plist-get problem :message)))
   :timeout-fn (lambda ()
                 (funcall fail (format "no answer for %d seconds"
                                       gemini-companion-tool-patience)))))

(defun gemini-companion-tool-symbols--request-lsp (method extra done fail)
  "Request METHOD with lsp-mode; call DONE with the result or FAIL with a reason.
For EXTRA see `gemini-companion-tool-symbols--request'."
  (unless (lsp-feature? method)
    (user-error "The language server of this file cannot do that: use grep_search"))
  (lsp-request-async
   method (append (lsp--text-document-position-params) extra) done
   :mode 'detached
   :error-handler (lambda (problem &rest _)
                    (funcall fail (gemini-companion-tool-symbols--get problem :message)))))

(defun gemini-companion-tool-symbols--get (object key)
  "Return the value of KEY, a keyword, in OBJECT, from a language server.
lsp-mode makes objects hash tables with strings as keys, or plists."
  (if (hash-table-p object)
      (gethash (substring (symbol-name key) 1) object)
    (plist-get object key)))

(defun gemini-companion-tool-symbols--list (value)
  "Return VALUE, one object or string or several from a server, as a list."
  (if (or (stringp value) (hash-table-p value)
          (and (consp value) (keywordp (car value))))
      (list value)
    (append value nil)))

;;;; Places

(defun gemini-companion-tool-symbols--locations (result call)
  "Return the answer to CALL for RESULT: a location, a sequence of some, or nil."
  (gemini-companion-tool-symbols--places
   call
   (cl-loop for location in (gemini-companion-tool-symbols--list result)
            for get = (lambda (key) (gemini-companion-tool-symbols--get location key))
            for range = (or (funcall get :range) (funcall get :targetSelectionRange))
            for start = (gemini-companion-tool-symbols--get range :start)
            collect (cons (gemini-companion-tool-diagnostics-uri-file
                           (or (funcall get :uri) (funcall get :targetUri)))
                          (1+ (gemini-companion-tool-symbols--get start :line))))))

(defun gemini-companion-tool-symbols--places (call places)
  "Return the answer to CALL for PLACES, each (FILE . LINE): 90 lines at most."
  (let* ((places (delete-dups places))
         (more (max 0 (- (length places) 1000)))
         (room 90)
         (lines nil))
    (pcase-dolist (`(,file . ,found) (seq-group-by #'car (seq-take places 1000)))
      (let ((kept (seq-take (sort (mapcar #'cdr found) #'<) room)))
        (when (or (null kept)
                  (gemini-companion-tool-visible-p call file (length found)))
          (setq more (+ more (- (length found) (length kept)))
                room (- room (length kept)))
          (when kept (push (gemini-companion-tool-symbols--lines call file kept) lines)))))
    (concat (if lines (string-join (nreverse lines) "\n") "Nothing was found.")
            (unless (zerop more) (format "\n(%d more)" more)))))

(defun gemini-companion-tool-symbols--lines (call file numbers)
  "Return lines for the answer to CALL: those of FILE with NUMBERS, in order."
  (let ((name (gemini-companion-tool-file-name call file)))
    (gemini-companion-tool-symbols--in-file
     file
     (lambda ()
       (let ((inhibit-field-text-motion t)
             (current 1))
         (mapconcat (lambda (number)
                      (forward-line (- number current))
                      (setq current number)
                      (gemini-companion-tool-line
                       "%s:%d: %s" name number
                       (buffer-substring-no-properties
                        (point) (min (line-end-position) (+ (point) 1000)))))
                    numbers "\n"))))))

(defun gemini-companion-tool-symbols--in-file (file function)
  "Call FUNCTION at the start of the text of FILE, and return its value.
If no buffer visits FILE, that is its first megabyte, empty if unreadable."
  (let ((buffer (gemini-companion-file-visiting file)))
    (with-temp-buffer
      (if buffer
          (set-buffer buffer)
        (let ((file-name-handler-alist nil)
              (format-alist nil)
              (after-insert-file-functions nil))
          (when (file-regular-p file)
            (ignore-errors
              (insert-file-contents file nil 0 (* 1024 1024))))))
      (gemini-companion-ui-widened
        (goto-char (point-min))
        (funcall function)))))

;;;; Emacs Lisp

(defun gemini-companion-tool-symbols--elisp-definitions (symbol call)
  "Return where SYMBOL is defined, as far as Emacs knows, as the answer to CALL.
Search the current buffer, too, which Emacs may not have loaded."
  (require 'xref)
  (let* ((here buffer-file-name)
         (files (cl-loop for item in (xref-backend-definitions 'elisp symbol)
                         for file = (xref-location-group (xref-item-location item))
                         if (file-name-absolute-p file) ; else it is part of Emacs's C
                         collect (replace-regexp-in-string "\\.elc\\'" ".el"
                                                           (expand-file-name file)))))
    (gemini-companion-tool-symbols--places
     call
     (cl-loop for file in (delete-dups (cons here files))
              append (mapcar (lambda (line) (cons file line))
                             (or (gemini-companion-tool-symbols--in-file
                                  file
                                  (lambda () (gemini-companion-tool-symbols--elisp-lines symbol)))
                                 (unless (equal file here) '(1))))))))

(defun gemini-companion-tool-symbols--elisp-lines (symbol)
  "Return the numbers of the lines after point that define SYMBOL, 100 at most."
  (let ((case-fold-search nil)
        ;; The numbers limit the time that a hostile text can take.
        (regexp (concat "^([^ \t\n()]\\{,40\\}def[^ \t\n()]\\{,40\\}[ \t]\\{1,40\\}['(]?"
                        (regexp-quote symbol)
                        "\\(?:[ \t\n()]\\|$\\)")))
    (cl-loop repeat 100
             while (re-search-forward regexp nil t)
             collect (line-number-at-pos (match-beginning 0)))))

(defun gemini-companion-tool-symbols--elisp-describe (name &optional _call)
  "Return what is known about the symbol of Emacs Lisp with NAME."
  (let* ((symbol (intern-soft name))
         (known (list (and (fboundp symbol)
                           (cons (gemini-companion-tool-symbols--signature symbol)
                                 (ignore-errors (documentation symbol))))
                      (and (or (get symbol 'variable-documentation)
                               (and (boundp symbol) (not (macroexp-const-p symbol))))
                           (cons (if (custom-variable-p symbol) "user option" "variable")
                                 (ignore-errors
                                   (documentation-property symbol 'variable-documentation))))
                      (and (facep symbol) (cons "face" (face-documentation symbol)))))
         (parts (cl-loop for (what . text) in (delq nil known)
                         collect (format "%s is a %s\n%s" name what (or text "Not documented.")))))
    (if parts (string-join parts "\n\n")
      "Nothing is known about it: its file may not be loaded in this Emacs.")))

(defun gemini-companion-tool-symbols--signature (symbol)
  "Return what kind of function SYMBOL is, and its arguments."
  (let ((arguments (help-function-arglist symbol t))
        (print-length nil)
        (print-level nil))
    (concat (cond ((or (macrop symbol) (special-form-p symbol)) "macro")
                  ((commandp symbol) "command")
                  (t "function"))
            (and (listp arguments) (format ": %S" (cons symbol arguments))))))

;;;; The tools

(defun gemini-companion-tool-symbols--hover-text (result &optional _call)
  "Return the text of RESULT, the answer of a language server to hover."
  (let* ((contents (and result (gemini-companion-tool-symbols--get result :contents)))
         (texts (cl-loop for part in (gemini-companion-tool-symbols--list contents)
                         for text = (if (stringp part) part
                                      (gemini-companion-tool-symbols--get part :value))
                         unless (string-blank-p (or text ""))
                         collect (gemini-companion-ui-trim text))))
    (if texts (string-join texts "\n\n") "Nothing is known about it.")))

;;;###autoload
(defun gemini-companion-tool-symbols-define ()
  "Define the tools of this file."
  (let ((arguments '(("path" string "File that is open in Emacs")
                     ("line" integer "Line with the symbol")
                     ("symbol" string "The symbol as it is written there"))))
    (gemini-companion-tool-define "findDefinition"
      :description "Where a symbol in an open file is defined, by its language server."
      :arguments arguments :read-only t
      :function (gemini-companion-tool-symbols--asking
                 "textDocument/definition" :definitionProvider
                 #'gemini-companion-tool-symbols--locations nil
                 #'gemini-companion-tool-symbols--elisp-definitions))
    (gemini-companion-tool-define "findReferences"
      :description "Where a symbol in an open file is used, by its language server; exact, \
unlike a search for text."
      :arguments arguments :read-only t
      :function (gemini-companion-tool-symbols--asking
                 "textDocument/references" :referencesProvider
                 #'gemini-companion-tool-symbols--locations
                 '(:context (:includeDeclaration t))))
    (gemini-companion-tool-define "describeSymbol"
      :description "Type, signature and documentation of a symbol in an open file."
      :arguments arguments :read-only t
      :function (gemini-companion-tool-symbols--asking
                 "textDocument/hover" :hoverProvider #'gemini-companion-tool-symbols--hover-text nil
                 #'gemini-companion-tool-symbols--elisp-describe))))
;;;###autoload (add-hook 'gemini-companion-tool-hook #'gemini-companion-tool-symbols-define -50)

(provide 'gemini-companion-tool-symbols)
;;; gemini-companion-tool-symbols.el ends here

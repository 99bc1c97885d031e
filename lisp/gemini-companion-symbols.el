;;; gemini-companion-symbols.el --- Symbols of open files, for the model -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The tools findDefinition, findReferences and describeSymbol.  Language servers are sent a request
;; and answer later, by Eglot or lsp-mode: the commands of Emacs for this would wait, and block it for
;; seconds if the server is slow.  In Emacs Lisp, Emacs itself knows definitions and documentation.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'gemini-companion-diagnostics)
(require 'gemini-companion-tools)
(require 'gemini-companion-ui)

(declare-function eglot--TextDocumentPositionParams "ext:eglot" ())
(declare-function eglot-current-server "ext:eglot" ())
(declare-function eglot-path-to-uri "ext:eglot" (path))
(declare-function eglot-server-capable "ext:eglot" (&rest features))
(declare-function help-function-arglist "help" (def &optional preserve-names))
(declare-function jsonrpc-async-request "ext:jsonrpc")
(declare-function lsp--text-document-position-params "ext:lsp-mode")
(declare-function lsp-feature? "ext:lsp-mode" (method))
(declare-function lsp-request-async "ext:lsp-mode")
(declare-function xref-backend-definitions "xref" (backend identifier))
(declare-function xref-item-location "xref" (item) t)
(declare-function xref-location-group "xref" (location))

(defconst gemini-companion-symbols--max-size (* 1024 1024)
  "Number of bytes of a file that are read to show lines of it.")

(defconst gemini-companion-symbols--max-places 90
  "Maximum number of places in an answer.")

(defconst gemini-companion-symbols--no-server
  "No language server in this buffer: use grep_search"
  "What is answered where only a language server would know.")

;;;; Where the symbol is

(defun gemini-companion-symbols--call (call path line symbol function)
  "Call FUNCTION at SYMBOL on LINE of the file PATH, and return its value.
CALL, PATH, LINE and SYMBOL are those of a tool."
  (let ((buffer (gemini-companion-tool-open-buffer call path)))
    (gemini-companion-diagnostics-take-file buffer)
    (with-current-buffer buffer
      (save-excursion
        (save-restriction
          (widen)
          (goto-char (gemini-companion-symbols--position line symbol))
          (funcall function))))))

(defun gemini-companion-symbols--position (line symbol)
  "Return the position of SYMBOL on LINE of the current buffer.
Signal a `user-error' if it is not there."
  (let* ((case-fold-search nil)
         (inhibit-field-text-motion t)
         (text (regexp-quote symbol)))
    (when (string-empty-p symbol) (user-error "The symbol is empty"))
    (goto-char (gemini-companion-ui-line-start line))
    (let ((end (line-end-position)))
      (if (or (save-excursion (re-search-forward (concat "\\_<" text "\\_>") end t))
              (save-excursion (re-search-forward text end t)))
          (match-beginning 0)
        (user-error "Line %d has no %s%s" line symbol
                    (if-let* ((nearest (gemini-companion-symbols--nearest text)))
                        (format "; line %d has" nearest)
                      ""))))))

(defun gemini-companion-symbols--nearest (regexp)
  "Return the number of the line nearest to point that matches REGEXP, or nil."
  (let ((start (line-number-at-pos))
        (lines (list (save-excursion
                       (and (re-search-forward regexp nil t) (line-number-at-pos)))
                     (save-excursion
                       (and (re-search-backward regexp nil t) (line-number-at-pos))))))
    (car (sort (delq nil lines)
               (lambda (a b) (< (abs (- a start)) (abs (- b start))))))))

;;;; Language servers

(defun gemini-companion-symbols--server ()
  "Return which package has a language server for the current buffer, or nil.
That is `eglot' or `lsp'."
  (cond ((and (fboundp 'eglot-current-server) (eglot-current-server)) 'eglot)
        ((and (bound-and-true-p lsp-managed-mode) (fboundp 'lsp-request-async)) 'lsp)))

(defun gemini-companion-symbols--request (call method capability extra answer)
  "Request METHOD, a string, at point from the language server of the buffer.
Then call the function ANSWER with the result; it answers CALL.
CAPABILITY is what the server needs for that, a keyword; EXTRA is a plist
of more parameters."
  (let* ((done (lambda (result)
                 (gemini-companion-tool-go-on call
                   (funcall answer result))))
         (fail (lambda (reason)
                 (gemini-companion-tool-fail call (format "The language server: %s" reason)))))
    (pcase (gemini-companion-symbols--server)
      ('eglot (gemini-companion-symbols--request-eglot method capability extra done fail))
      ('lsp (gemini-companion-symbols--request-lsp method extra done fail))
      (_ (user-error "%s" gemini-companion-symbols--no-server)))
    'later))

(defun gemini-companion-symbols--request-eglot (method capability extra done fail)
  "Request METHOD by Eglot; call DONE with the result or FAIL with a reason.
For CAPABILITY and EXTRA see `gemini-companion-symbols--request'."
  (unless (or (not (fboundp 'eglot-server-capable)) (eglot-server-capable capability))
    (user-error "The language server of this buffer does not offer that: use grep_search"))
  ;; A deferred request would replace one of another call.
  (gemini-companion-diagnostics-flush)
  (jsonrpc-async-request
   (eglot-current-server) (intern (concat ":" method))
   (append (gemini-companion-symbols--eglot-position) extra)
   :timeout gemini-companion-tools-patience
   :success-fn done
   :error-fn (lambda (problem) (funcall fail (plist-get problem :message)))
   :timeout-fn (lambda ()
                 (funcall fail (format "no answer for %d seconds"
                                       gemini-companion-tools-patience)))))

(defun gemini-companion-symbols--eglot-position ()
  "Return point as the parameters of a request by Eglot."
  (if (fboundp 'eglot--TextDocumentPositionParams)
      (eglot--TextDocumentPositionParams)
    (list :textDocument (list :uri (eglot-path-to-uri buffer-file-name))
          :position (list :line (1- (line-number-at-pos))
                          :character (gemini-companion-symbols--utf-16-column)))))

(defun gemini-companion-symbols--utf-16-column ()
  "Return the number of UTF-16 code units before point in its line."
  (/ (string-bytes (encode-coding-string
                    (buffer-substring-no-properties
                     (let ((inhibit-field-text-motion t)) (line-beginning-position)) (point))
                    'utf-16le t))
     2))

(defun gemini-companion-symbols--request-lsp (method extra done fail)
  "Request METHOD by lsp-mode; call DONE with the result or FAIL with a reason.
For EXTRA see `gemini-companion-symbols--request'."
  (unless (lsp-feature? method)
    (user-error "The language server of this buffer does not offer that: use grep_search"))
  (lsp-request-async
   method (append (lsp--text-document-position-params) extra) done
   :mode 'detached
   :error-handler (lambda (problem &rest _)
                    (funcall fail (gemini-companion-symbols--get problem :message)))))

(defun gemini-companion-symbols--get (object key)
  "Return the value of KEY, a keyword, in OBJECT, from a language server.
lsp-mode makes objects hash tables with strings as keys, or plists."
  (if (hash-table-p object)
      (gethash (substring (symbol-name key) 1) object)
    (plist-get object key)))

(defun gemini-companion-symbols--object-p (value)
  "Return non-nil if VALUE, from a language server, is one object."
  (or (hash-table-p value)
      (and (consp value) (keywordp (car value)))))

;;;; Places

(defun gemini-companion-symbols--locations (call result)
  "Answer CALL by RESULT, the locations that a server has found.
RESULT is one location, a vector or list of locations, or nil."
  (let ((locations (if (gemini-companion-symbols--object-p result) (list result)
                     (append result nil))))
    (gemini-companion-symbols--places
     call
     (cl-loop for location in locations
              for get = (lambda (&rest keys)
                          (cl-some (lambda (key) (gemini-companion-symbols--get location key))
                                   keys))
              for start = (gemini-companion-symbols--get
                           (funcall get :range :targetSelectionRange) :start)
              collect (cons (gemini-companion-diagnostics-uri-file (funcall get :uri :targetUri))
                            (1+ (gemini-companion-symbols--get start :line)))))))

(defun gemini-companion-symbols--places (call places)
  "Answer CALL by PLACES, each (FILE . LINE), of which there may be thousands."
  (let ((visible nil)
        (more 0))
    (gemini-companion-tool-each
     call (delete-dups places)
     (lambda (place)
       (if (length= visible gemini-companion-symbols--max-places)
           (setq more (1+ more))
         (when (gemini-companion-tool-visible-p call (car place))
           (push place visible))))
     (lambda ()
       (gemini-companion-symbols--read call (nreverse visible) more)))))

(defun gemini-companion-symbols--read (call places more)
  "Answer CALL by PLACES, and the text there; MORE is how many others there are."
  (let ((lines nil))
    (gemini-companion-tool-each
     call (seq-group-by #'car places)
     (pcase-lambda (`(,file . ,places))
       (push (gemini-companion-symbols--lines call file (sort (mapcar #'cdr places) #'<))
             lines))
     (lambda ()
       (gemini-companion-tool-answer
        call (concat (if lines (string-join (nreverse lines) "\n") "Nothing was found.")
                     (unless (zerop more) (format "\n(%d more)" more))))))))

(defun gemini-companion-symbols--lines (call file numbers)
  "Return lines for the answer to CALL: those of FILE with NUMBERS, in order."
  (let ((name (gemini-companion-tool-file-name call file))
        (buffer (gemini-companion-tool-buffer file)))
    (if buffer
        (with-current-buffer buffer
          (gemini-companion-symbols--lines-here name numbers))
      (with-temp-buffer
        (gemini-companion-symbols--insert file)
        (gemini-companion-symbols--lines-here name numbers)))))

(defun gemini-companion-symbols--lines-here (name numbers)
  "Return the lines of the current buffer with NUMBERS, in order; NAME is its file."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char (point-min))
      (let ((inhibit-field-text-motion t)
            (current 1))
        (mapconcat (lambda (number)
                     (forward-line (- number current))
                     (setq current number)
                     (gemini-companion-tool-line
                      "%s:%d: %s" name number
                      (buffer-substring-no-properties
                       (point) (min (line-end-position) (+ (point) 1000)))))
                   numbers "\n")))))

(defun gemini-companion-symbols--insert (file)
  "Insert the beginning of FILE, if that can be read."
  (let ((file-name-handler-alist nil)
        (format-alist nil)
        (after-insert-file-functions nil))
    (when (file-regular-p file)
      (ignore-errors
        (insert-file-contents file nil 0 gemini-companion-symbols--max-size)))))

;;;; Emacs Lisp

(defun gemini-companion-symbols--elisp-p ()
  "Return non-nil if the current buffer has Emacs Lisp."
  (derived-mode-p 'emacs-lisp-mode))

(defun gemini-companion-symbols--elisp-definitions (call symbol)
  "Answer CALL by where SYMBOL is defined, as far as Emacs knows.
The current buffer is searched as well: it may not have been loaded."
  (require 'xref)
  (let ((files (cl-loop for item in (xref-backend-definitions 'elisp symbol)
                        for file = (gemini-companion-symbols--source
                                    (xref-location-group (xref-item-location item)))
                        if file collect file)))
    (gemini-companion-symbols--places
     call
     (cl-loop for file in (delete-dups (cons buffer-file-name files))
              append (gemini-companion-symbols--elisp-places
                      file symbol (equal file buffer-file-name))))))

(defun gemini-companion-symbols--source (file)
  "Return the absolute name of the source FILE, or nil if it is part of Emacs's C."
  (and (file-name-absolute-p file)
       (replace-regexp-in-string "\\.elc\\'" ".el" (expand-file-name file))))

(defun gemini-companion-symbols--elisp-places (file symbol here)
  "Return the places in FILE, as (FILE . LINE), where SYMBOL is defined.
If there are none, return the start of FILE, unless HERE is non-nil."
  (let* ((buffer (gemini-companion-tool-buffer file))
         (lines (if buffer
                    (with-current-buffer buffer
                      (gemini-companion-symbols--elisp-lines symbol))
                  (with-temp-buffer
                    (gemini-companion-symbols--insert file)
                    (gemini-companion-symbols--elisp-lines symbol)))))
    (cond (lines (mapcar (lambda (line) (cons file line)) lines))
          ((not here) (list (cons file 1))))))

(defun gemini-companion-symbols--elisp-lines (symbol)
  "Return the numbers of the lines of the current buffer that define SYMBOL."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char (point-min))
      (let ((case-fold-search nil)
            ;; The numbers bound the time that a hostile text can take.
            (regexp (concat "^([^ \t\n()]\\{,40\\}def[^ \t\n()]\\{,40\\}[ \t]\\{1,40\\}['(]?"
                            (regexp-quote symbol)
                            "\\(?:[ \t\n()]\\|$\\)"))
            (line 1)
            (counted (point-min)))
        (cl-loop while (re-search-forward regexp nil t)
                 for start = (match-beginning 0)
                 ;; To count from the first line each time would take long for many definitions.
                 do (setq line (+ line (count-lines counted start))
                          counted start)
                 collect line)))))

(defun gemini-companion-symbols--elisp-describe (name)
  "Return what is known about the symbol of Emacs Lisp with NAME."
  (let ((symbol (intern-soft name)))
    (or (and symbol
             (let ((parts (delq nil (list (gemini-companion-symbols--describe-function symbol)
                                          (gemini-companion-symbols--describe-variable symbol)
                                          (gemini-companion-symbols--describe-face symbol)))))
               (and parts (string-join parts "\n\n"))))
        "Nothing is known about it: its file may not be loaded in this Emacs.")))

(defun gemini-companion-symbols--describe-function (symbol)
  "Return what is known about the function SYMBOL, or nil if it is none."
  (when (fboundp symbol)
    (let* ((arguments (help-function-arglist symbol t))
           (text (or (ignore-errors (documentation symbol)) "Not documented."))
           (kind (cond ((or (macrop symbol) (special-form-p symbol)) "macro")
                       ((commandp symbol) "command")
                       (t "function"))))
      (format "%s is a %s%s\n%s" symbol kind
              (if (listp arguments) (format ": %S" (cons symbol arguments)) "")
              text))))

(defun gemini-companion-symbols--describe-variable (symbol)
  "Return what is known about the variable SYMBOL, or nil if it is none."
  (when (or (get symbol 'variable-documentation)
            (and (boundp symbol) (not (keywordp symbol)) (symbol-value symbol)
                 (not (memq symbol '(t nil)))))
    (format "%s is a %s\n%s" symbol
            (if (custom-variable-p symbol) "user option" "variable")
            (or (ignore-errors (documentation-property symbol 'variable-documentation))
                "Not documented."))))

(defun gemini-companion-symbols--describe-face (symbol)
  "Return what is known about the face SYMBOL, or nil if it is none."
  (when (facep symbol)
    (format "%s is a face\n%s" symbol (or (face-documentation symbol) "Not documented."))))

;;;; The tools

(defun gemini-companion-symbols--find-definition (call path line symbol)
  "Answer CALL by where SYMBOL on LINE of the file PATH is defined."
  (gemini-companion-symbols--call
   call path line symbol
   (lambda ()
     (if (and (not (gemini-companion-symbols--server)) (gemini-companion-symbols--elisp-p))
         (gemini-companion-symbols--elisp-definitions call symbol)
       (gemini-companion-symbols--request
        call "textDocument/definition" :definitionProvider nil
        (lambda (result) (gemini-companion-symbols--locations call result)))))))

(defun gemini-companion-symbols--find-references (call path line symbol)
  "Answer CALL by where SYMBOL on LINE of the file PATH is used."
  (gemini-companion-symbols--call
   call path line symbol
   (lambda ()
     (gemini-companion-symbols--request
      call "textDocument/references" :referencesProvider
      '(:context (:includeDeclaration t))
      (lambda (result) (gemini-companion-symbols--locations call result))))))

(defun gemini-companion-symbols--describe (call path line symbol)
  "Answer CALL by what is known about SYMBOL on LINE of the file PATH."
  (gemini-companion-symbols--call
   call path line symbol
   (lambda ()
     (if (and (not (gemini-companion-symbols--server)) (gemini-companion-symbols--elisp-p))
         (gemini-companion-symbols--elisp-describe symbol)
       (gemini-companion-symbols--request
        call "textDocument/hover" :hoverProvider nil
        (lambda (result)
          (gemini-companion-tool-answer
           call (gemini-companion-symbols--hover-text result))))))))

(defun gemini-companion-symbols--hover-text (result)
  "Return the text of RESULT, the answer of a language server to hover."
  (let* ((contents (and result (gemini-companion-symbols--get result :contents)))
         (parts (cond ((or (stringp contents) (gemini-companion-symbols--object-p contents))
                       (list contents))
                      (t (append contents nil))))
         (texts (cl-loop for part in parts
                         for text = (if (stringp part) part
                                      (gemini-companion-symbols--get part :value))
                         unless (string-blank-p (or text ""))
                         collect (gemini-companion-tool-trim-end (string-trim-left text)
                                                                 " \t\n\r"))))
    (if texts (string-join texts "\n\n") "Nothing is known about it.")))

;;;###autoload
(defun gemini-companion-symbols-define ()
  "Define the tools of this file."
  (let ((arguments '(("path" string "File that is open in Emacs")
                     ("line" integer "Line with the symbol")
                     ("symbol" string "The symbol as it is written there"))))
    (gemini-companion-define-tool "findDefinition"
      :description "Where a symbol in an open file is defined, by its language server."
      :arguments arguments :read-only t
      :function #'gemini-companion-symbols--find-definition)
    (gemini-companion-define-tool "findReferences"
      :description "Where a symbol in an open file is used, by its language server; exact, \
unlike a search for text."
      :arguments arguments :read-only t
      :function #'gemini-companion-symbols--find-references)
    (gemini-companion-define-tool "describeSymbol"
      :description "Type, signature and documentation of a symbol in an open file."
      :arguments arguments :read-only t
      :function #'gemini-companion-symbols--describe)))
;;;###autoload (add-hook 'gemini-companion-tools-hook #'gemini-companion-symbols-define)

(provide 'gemini-companion-symbols)
;;; gemini-companion-symbols.el ends here

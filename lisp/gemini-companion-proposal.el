;;; gemini-companion-proposal.el --- The buffers of a review -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A review is shown in buffers of its own: the proposal, which the user may edit, and the text of the
;; file.  They visit no file, run no hooks of major modes, and read no local variables; the header line
;; says what the change is, and which keys decide it.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-decide)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)

;;;; The header line

(cl-defstruct (gemini-companion-proposal--piece
               (:constructor gemini-companion-proposal--make (text rank))
               (:copier nil))
  "A part of a header line."
  (text nil :documentation "What it says.")
  (rank 0 :documentation "Of several pieces the one with the highest rank is left out first;
with rank 0 it stays."))

(defconst gemini-companion-proposal--path-rank 2
  "Rank of the directories of the file, which are left out before its name.")

;;;; The line

(defun gemini-companion-proposal-header (review title keys)
  "Return the header line for a buffer of REVIEW in the window being displayed.
TITLE says what that shows, or is nil.  KEYS are (COMMAND LABEL), the most
important first; of the first two there is always room."
  (gemini-companion-proposal--fit
   (delq nil
         (append (gemini-companion-proposal--remarks review)
                 (list (and title (gemini-companion-proposal--make title 4))
                       (gemini-companion-proposal--path review)
                       (gemini-companion-proposal--size review))
                 (gemini-companion-proposal--keys keys)
                 (list (gemini-companion-proposal--make
                        (gemini-companion-review-client-title review) 20))))
   ;; For the space before it.
   (1- (window-width))))

(defun gemini-companion-proposal-header-title (review title)
  "Return a header line that says only TITLE and the file of REVIEW."
  (gemini-companion-proposal--fit (list (gemini-companion-proposal--make title 0)
                                        (gemini-companion-proposal--path review))
                                  (1- (window-width))))

(defun gemini-companion-proposal--remarks (review)
  "Return pieces that say what to be careful about with REVIEW.
For the first there is always room."
  (cl-loop for remark in (gemini-companion-review-remarks review)
           for rank = 0 then 3
           collect (gemini-companion-proposal--make (propertize remark 'face 'warning) rank)
           if (and (= rank 0) (gemini-companion-review-conflict review))
           collect (gemini-companion-proposal--make
                    (gemini-companion-ui-header-key #'gemini-companion-review-merge "merges")
                    0)))

(defun gemini-companion-proposal--path (review)
  "Return the piece that says which file REVIEW is of."
  (gemini-companion-proposal--make
   (propertize (gemini-companion-review-project-path review)
               'help-echo (gemini-companion-ui-one-line (gemini-companion-review-path review)))
   gemini-companion-proposal--path-rank))

(defun gemini-companion-proposal--size (review)
  "Return the piece that says how large the change of REVIEW is."
  (let ((change (gemini-companion-review-change review)))
    (gemini-companion-proposal--make
     (concat (if (gemini-companion-change-new change) "new file " "")
             (gemini-companion-change-size change))
     1)))

(defun gemini-companion-proposal--keys (keys)
  "Return a piece for each of KEYS, of the form (COMMAND LABEL)."
  (cl-loop for (command label) in keys
           for index from 0
           collect (gemini-companion-proposal--make
                    (gemini-companion-ui-header-key command label)
                    (if (< index 2) 0 (+ 4 index)))))

;;;; Room

(defun gemini-companion-proposal--fit (pieces width)
  "Return PIECES in one line, less of what matters least if WIDTH asks for that."
  (let ((pieces (copy-sequence pieces)))
    (while (when-let* ((excess (gemini-companion-proposal--excess pieces width))
                       (least (gemini-companion-proposal--least pieces)))
             (setq pieces (gemini-companion-proposal--spare pieces least excess))))
    (mapconcat #'gemini-companion-proposal--piece-text pieces "  ")))

(defun gemini-companion-proposal--spare (pieces least excess)
  "Return PIECES without LEAST, or with a path by EXCESS columns shorter."
  (if (= (gemini-companion-proposal--piece-rank least) gemini-companion-proposal--path-rank)
      (mapcar (lambda (piece)
                (if (eq piece least) (gemini-companion-proposal--shorten piece excess) piece))
              pieces)
    (delq least pieces)))

(defun gemini-companion-proposal--excess (pieces width)
  "Return for how many columns of PIECES WIDTH has no room, nil if it has for all."
  (let ((needed (cl-loop for piece in pieces
                         sum (+ 2 (string-width (gemini-companion-proposal--piece-text piece))))))
    (and (> needed (+ width 2))
         (- needed width 2))))

(defun gemini-companion-proposal--least (pieces)
  "Return of PIECES the one that can be left out first, or nil."
  (let ((least (car (sort (copy-sequence pieces)
                          (lambda (one other)
                            (> (gemini-companion-proposal--piece-rank one)
                               (gemini-companion-proposal--piece-rank other)))))))
    (and (> (gemini-companion-proposal--piece-rank least) 0)
         least)))

(defun gemini-companion-proposal--shorten (path excess)
  "Return a piece that says the end of PATH, a piece, by EXCESS columns shorter.
The name of the file stays."
  (let* ((text (gemini-companion-proposal--piece-text path))
         (name (string-width (file-name-nondirectory text)))
         (room (max name (- (string-width text) excess 1))))
    (gemini-companion-proposal--make
     (concat (and (> room name) "…") (truncate-string-to-width
                                      text (string-width text) (- (string-width text) room)))
     0)))

(defcustom gemini-companion-modal-modes
  '((evil-mode . evil-local-mode)
    (meow-global-mode . meow-mode)
    (modalka-global-mode . modalka-mode)
    (boon-mode . boon-local-mode)
    (god-global-mode . god-local-mode))
  "Modes in which letters are commands, to be there in reviews, too.
Each element is a pair: the variable of a global minor mode, and the
function that switches it on in a buffer.  In the texts of a review no
hooks run by which such a mode would come into a new buffer, and the
letters would be inserted into the proposal.  Viper is not named, for it
may change the text when it comes."
  :type '(alist :key-type (symbol :tag "Variable of the global mode")
                :value-type (function :tag "Function for a buffer"))
  :group 'gemini-companion
  :risky t)

(defconst gemini-companion-proposal--max-fontified 1000000
  "Size in characters beyond which text is shown without a major mode.")

(defconst gemini-companion-proposal--long-line 10000
  "Length of a line beyond which text is shown without a major mode.")

(defconst gemini-companion-proposal--modes '(prog-mode text-mode conf-mode)
  "Major modes for text; others may do anything with a client's.")

(defconst gemini-companion-proposal--substitutes '((org-mode . outline-mode))
  "Major modes that obey what a text says, and what stands for each.
Org's fontification calls any function that a text names.")

(defconst gemini-companion-proposal--modes-in-text
  '(org-src-fontify-natively markdown-fontify-code-blocks-natively
                             adoc-fontify-code-blocks)
  "Options to fontify parts of a text by the mode that the text names.")

(defvar major-mode-remap-alist) ; Emacs 29
(defvar warning-suppress-log-types)

(defvar-local gemini-companion-proposal--header nil
  "The function that returns the header line for the review of this buffer.")
(put 'gemini-companion-proposal--header 'permanent-local t)

(defvar gemini-companion-review-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'gemini-companion-accept)
    (define-key map (kbd "C-c C-k") #'gemini-companion-reject)
    (define-key map (kbd "C-c C-e") #'gemini-companion-review-merge)
    (define-key map (kbd "C-c C-t") #'gemini-companion-review-three-way)
    (define-key map [remap save-buffer] #'gemini-companion-proposal-save)
    map)
  "Keys in the buffers of a review.")

(define-minor-mode gemini-companion-review-mode
  "Keys to decide the review to which this buffer belongs."
  :interactive nil
  :lighter " Review"
  :keymap gemini-companion-review-mode-map)

(defun gemini-companion-proposal-save ()
  "Say that the client, not you, writes the file."
  (interactive)
  (message "%s" (substitute-command-keys
                 (format "\\<gemini-companion-review-mode-map>%s writes the file when you \
accept: \\[gemini-companion-accept]"
                         (gemini-companion-review-client-title
                          gemini-companion-review-of-buffer)))))

;;;; The buffers

(defun gemini-companion-proposal-buffer (review)
  "Return the buffer with the proposal of REVIEW, made if needed."
  (let ((buffer (gemini-companion-review-proposal review)))
    (if (buffer-live-p buffer)
        buffer
      (setq buffer (gemini-companion-proposal-make-buffer review "proposal"))
      (with-current-buffer buffer
        (gemini-companion-proposal--prepare
         review #'gemini-companion-proposal--proposal-header
         (lambda () (insert (gemini-companion-review-text review))))
        ;; To undo the insertion would leave an empty text.
        (setq buffer-undo-list nil)
        (add-hook 'kill-buffer-hook #'gemini-companion-proposal--keep nil t))
      (setf (gemini-companion-review-proposal review) buffer))))

(defun gemini-companion-proposal--keep ()
  "Keep what the proposal in the current buffer says, for it is being killed."
  (let ((review gemini-companion-review-of-buffer))
    (setf (gemini-companion-review-text review)
          (gemini-companion-review-current-text review))))

(defun gemini-companion-proposal-file-buffer (review)
  "Return a new buffer with the file of REVIEW as the user has it now.
That is what its buffer says if that has unsaved edits and REVIEW is
shown three-way, else what is on disk."
  (let ((visiting (gemini-companion-review-visiting review)))
    (if (and visiting (buffer-modified-p visiting)
             (gemini-companion-review-with-base review))
        (gemini-companion-proposal--read-only
         review "current" "Your unsaved buffer"
         (lambda () (insert-buffer-substring-no-properties visiting)))
      (let ((file-name-handler-alist nil)
            (there (gemini-companion-proposal-file-p review)))
        (gemini-companion-proposal--read-only
         review "current" (if there "On disk" "No file yet")
         (lambda ()
           (when there
             (gemini-companion-proposal--insert-file
              review (gemini-companion-review-path review)))))))))

(defun gemini-companion-proposal-file-p (review)
  "Return non-nil if there is a file of REVIEW on disk."
  (let ((file-name-handler-alist nil))
    (file-exists-p (gemini-companion-review-path review))))

(defun gemini-companion-proposal-base-buffer (review)
  "Return a new buffer with the text from which REVIEW was made."
  (gemini-companion-proposal--read-only
   review "base" "When proposed"
   (lambda ()
     (let ((bytes (gemini-companion-review-base review)))
       (when bytes
         (insert (gemini-companion-review-file-text
                  (gemini-companion-review-path review) bytes
                  (gemini-companion-review-proposed review))))))))

(defun gemini-companion-proposal--insert-file (review file)
  "Insert FILE, that of REVIEW, into the current buffer."
  (let ((inhibit-eol-conversion
         ;; Clients propose LF for a file with CRLF, and write CRLF again.
         (string-search "\r" (gemini-companion-review-proposed review)))
        (format-alist nil)
        (after-insert-file-functions nil)
        (enable-local-variables nil))
    ;; It was one when the client asked; a FIFO would have us wait.
    (unless (file-regular-p file)
      (error "It is no regular file any more"))
    (insert-file-contents file)))

(defun gemini-companion-proposal--read-only (review part header insert)
  "Return a new read-only buffer with a text of REVIEW.
PART is for its name, HEADER says what it is, INSERT inserts the text."
  (let ((buffer (gemini-companion-proposal-make-buffer review part)))
    (with-current-buffer buffer
      (condition-case error
          (gemini-companion-proposal--prepare
           review
           (lambda (review) (gemini-companion-proposal-header-title review header))
           insert)
        ((error quit)
         (kill-buffer buffer)
         (signal (car error) (cdr error))))
      (setq buffer-read-only t))
    buffer))

(defun gemini-companion-proposal-make-buffer (review part)
  "Return a new buffer named after the file of REVIEW and PART."
  (generate-new-buffer
   (format "*gemini %s: %s*" part (gemini-companion-review-project-path review))))

(defun gemini-companion-proposal--prepare (review header insert)
  "Set up the current buffer for REVIEW: looks, keys, HEADER and text.
HEADER is a function that returns the header line for REVIEW, INSERT one
that inserts the text."
  ;; Before there is a text: some modes obey what it says.
  (gemini-companion-proposal--set-major-mode (gemini-companion-review-path review))
  (funcall insert)
  (gemini-companion-proposal--show-syntax)
  (gemini-companion-proposal--enable-modal-modes)
  (set-buffer-modified-p nil)
  (goto-char (point-min))
  (gemini-companion-proposal-adopt review header))

(defun gemini-companion-proposal-adopt (review header)
  "Make the current buffer one of REVIEW: with its keys, and with HEADER.
HEADER is a function that returns the header line for REVIEW."
  (setq gemini-companion-review-of-buffer review
        gemini-companion-proposal--header header)
  (gemini-companion-proposal--dress)
  ;; The user may choose another major mode.
  (add-hook 'after-change-major-mode-hook #'gemini-companion-proposal--dress nil t))

(defun gemini-companion-proposal-set-header (header)
  "Give the proposal in the current buffer HEADER, nil for the usual one.
HEADER is as in `gemini-companion-proposal-adopt'."
  (setq gemini-companion-proposal--header (or header #'gemini-companion-proposal--proposal-header)))

(defun gemini-companion-proposal--dress ()
  "Give the current buffer the header line and the keys of a review."
  (setq header-line-format '(:eval (gemini-companion-proposal--header-line)))
  (gemini-companion-review-mode))
(put 'gemini-companion-proposal--dress 'permanent-local-hook t)

(defun gemini-companion-proposal--header-line ()
  "Return the header line of the current buffer."
  (let ((review gemini-companion-review-of-buffer))
    (concat " " (string-replace
                 "%" "%%"
                 (if (gemini-companion-review-open-p review)
                     (funcall gemini-companion-proposal--header review)
                   (propertize (gemini-companion-review-ending review) 'face 'warning))))))

(defun gemini-companion-proposal--proposal-header (review)
  "Return the header line for the proposal of REVIEW."
  (gemini-companion-proposal-header
   review "Proposal"
   `((gemini-companion-accept "accepts")
     (gemini-companion-reject "rejects")
     (gemini-companion-review-three-way
      ,(if (gemini-companion-review-with-base review) "shows two texts" "shows all texts")))))

;;;; Looks

(defun gemini-companion-proposal--set-major-mode (path)
  "Give the current buffer, still empty, the major mode of the file PATH."
  (setq-local bidi-inhibit-bpa t)
  (condition-case error
      (progn
        (gemini-companion-proposal-set-mode
         ;; Libraries of modes call modes when they are loaded.
         (lambda () (funcall (gemini-companion-proposal--major-mode path))))
        ;; These would have the text say which major modes to call.
        (dolist (option gemini-companion-proposal--modes-in-text)
          (set (make-local-variable option) nil)))
    (error
     (gemini-companion-proposal-set-mode #'fundamental-mode)
     (gemini-companion-log-add "the mode of %s: %s" path (error-message-string error)))))

(defun gemini-companion-proposal-set-mode (function)
  "Call FUNCTION, which sets the major mode of the current buffer.
No hooks run, which could start servers or have global minor modes change
the text, and no local variables are read: the text is a client's."
  (let ((change-major-mode-hook nil)
        (prog-mode-hook nil) ; `mhtml-mode' runs it by itself
        ;; Some modes read those of the directory by themselves.
        (enable-local-variables nil))
    ;; `delay-mode-hooks' would not do: some modes run others' hooks all the same.
    (cl-letf (((symbol-function 'run-mode-hooks) #'ignore))
      (funcall function))))

(defun gemini-companion-proposal--show-syntax ()
  "Fontify the current buffer, unless its text is too much for that."
  (if (gemini-companion-proposal-small-p)
      (font-lock-mode 1)
    (gemini-companion-proposal-set-mode #'fundamental-mode)))

(defun gemini-companion-proposal--enable-modal-modes ()
  "Switch on in the current buffer what `gemini-companion-modal-modes' says."
  (pcase-dolist (`(,global . ,local) gemini-companion-modal-modes)
    (when (and (boundp global) (default-value global) (functionp local))
      (gemini-companion-log-errors (format "%s" local)
        (funcall local)))))

(defun gemini-companion-proposal-small-p ()
  "Return non-nil if the current text is not too much for a major mode."
  (and (<= (buffer-size) gemini-companion-proposal--max-fontified)
       (save-excursion
         (goto-char (point-min))
         (let ((modest t))
           (while (and modest (not (eobp)))
             (let ((start (point)))
               (forward-line)
               (setq modest (< (- (point) start) gemini-companion-proposal--long-line))))
           modest))))

(defun gemini-companion-proposal--major-mode (path)
  "Return a major mode for PATH that is one for text, by its name alone."
  (let ((mode (assoc-default (file-name-nondirectory path) auto-mode-alist
                             #'gemini-companion-proposal--matches-p)))
    (or (and mode (symbolp mode)
             (or (gemini-companion-proposal--suitable (gemini-companion-proposal--remap mode))
                 (gemini-companion-proposal--suitable mode)))
        #'fundamental-mode)))

(defun gemini-companion-proposal--remap (mode)
  "Return the major mode that the user wants in place of MODE, or MODE."
  (cond ((fboundp 'major-mode-remap) (major-mode-remap mode)) ; Emacs 30
        ((boundp 'major-mode-remap-alist) (alist-get mode major-mode-remap-alist mode))
        (t mode)))

(defun gemini-companion-proposal--suitable (mode)
  "Return MODE, or what stands for it, if that is for text and can be had.
Otherwise return nil."
  (when (and mode (symbolp mode) (fboundp mode))
    (gemini-companion-log-errors (format "the mode %s" mode)
      (let ((warning-suppress-log-types '((treesit)))) ; a grammar may be missing
        (autoload-do-load (symbol-function mode) mode)
        (cond ((cdr (seq-find (lambda (it) (provided-mode-derived-p mode (car it)))
                              gemini-companion-proposal--substitutes)))
              ((and (apply #'provided-mode-derived-p mode gemini-companion-proposal--modes)
                    (gemini-companion-proposal--grammar-p mode))
               mode))))))

(defun gemini-companion-proposal--grammar-p (mode)
  "Return non-nil unless MODE needs a grammar of tree-sitter that is missing.
No variable says which one that is, so the mode is tried."
  (or (not (string-suffix-p "-ts-mode" (symbol-name mode)))
      (and (fboundp 'treesit-parser-list)
           (with-temp-buffer
             (gemini-companion-proposal-set-mode mode)
             (treesit-parser-list)))))

(defun gemini-companion-proposal--matches-p (pattern name)
  "Return non-nil if PATTERN, a key of `auto-mode-alist', fits the file name NAME."
  (let ((case-fold-search nil))
    (string-match-p pattern name)))

(provide 'gemini-companion-proposal)
;;; gemini-companion-proposal.el ends here

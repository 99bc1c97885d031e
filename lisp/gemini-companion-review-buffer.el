;;; gemini-companion-review-buffer.el --- The buffers of a review -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The buffers in which a review is shown: the proposal, which the user may edit, and those that it
;; is compared with.  They visit no files, run no hooks of major modes, and read no local variables.
;; Their header lines show what the change is, and which keys decide it.

;;; Code:

(require 'cl-lib)
(require 'gemini-companion-comment)
(require 'gemini-companion-file)
(require 'gemini-companion-heavy)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-review)
(require 'gemini-companion-review-commands)
(require 'gemini-companion-ui)

(defvar warning-suppress-log-types)
(declare-function undo-tree-mode "ext:undo-tree")

;;;###autoload (custom-add-load 'gemini-companion-review 'gemini-companion-review-buffer)
(defcustom gemini-companion-modal-modes
  '((evil-mode . evil-local-mode)
    (meow-global-mode . meow-mode)
    (modalka-global-mode . modalka-mode)
    (boon-mode . boon-local-mode)
    (god-global-mode . god-mode-maybe-activate))
  "Modal editing modes to enable in the buffers of changes, too.
Each element is a pair: the variable of a global minor mode, and the
function that enables it in a buffer.  The hooks that usually do this do not
run in these buffers, so letters would go into the proposed text.  Viper is
not included, because enabling it may change the text."
  :type '(alist :key-type (symbol :tag "Variable of the global mode")
                ;; A symbol: only some of the packages are installed.
                :value-type (symbol :tag "Function for a buffer"))
  :group 'gemini-companion-review
  :risky t)

(defvar-local gemini-companion-review-buffer--header nil
  "The function that returns the header line of this buffer, given the review.")
(put 'gemini-companion-review-buffer--header 'permanent-local t)

;;;; Faces

;; Those of Diff mode look purple and teal in dark terminals of 256 colors, so we use colors that
;; these have.  Their darkest green is too bright behind most text: where no difference is selected,
;; the text is colored instead.  Elsewhere, text as pale as its background gets another color.

(defface gemini-companion-removed
  '((((min-colors 257) (background dark)) :background "#3a1c1c" :extend t)
    (((min-colors 257)) :background "#ffeaea" :extend t)
    (((min-colors 88) (background dark)) :background "#262626" :foreground "#ff8787" :extend t)
    (((min-colors 88)) :background "#ffd7d7" :extend t)
    (t :foreground "red"))
  "Face for text that accepting the change removes."
  :group 'gemini-companion-review)

(defface gemini-companion-added
  '((((min-colors 257) (background dark)) :background "#1a331a" :extend t)
    (((min-colors 257)) :background "#e8f8e8" :extend t)
    (((min-colors 88) (background dark)) :background "#262626" :foreground "#87d787" :extend t)
    (((min-colors 88)) :background "#d7ffd7" :extend t)
    (t :foreground "green"))
  "Face for text that accepting the change adds."
  :group 'gemini-companion-review)

(defface gemini-companion-removed-current
  '((((min-colors 257) (background dark))
     :background "#6a2a2a" :distant-foreground "#fff" :extend t)
    (((min-colors 257)) :background "#ffcccc" :distant-foreground "#000" :extend t)
    (((min-colors 88) (background dark)) :background "#5f0000" :extend t)
    (((min-colors 88)) :background "#ffafaf" :extend t)
    (t :inverse-video t :foreground "red"))
  "Face for text that the current difference removes."
  :group 'gemini-companion-review)

(defface gemini-companion-added-current
  '((((min-colors 257) (background dark))
     :background "#1f4d26" :distant-foreground "#fff" :extend t)
    (((min-colors 257)) :background "#bfeebf" :distant-foreground "#000" :extend t)
    (((min-colors 88) (background dark)) :background "#005f00" :extend t)
    (((min-colors 88)) :background "#afffaf" :extend t)
    (t :inverse-video t :foreground "green"))
  "Face for text that the current difference adds."
  :group 'gemini-companion-review)

(defface gemini-companion-removed-word
  '((((min-colors 257) (background dark)) :background "#963838" :distant-foreground "#fff")
    (((min-colors 257)) :background "#ff9f9f" :distant-foreground "#000")
    (((min-colors 88) (background dark)) :background "#af0000" :foreground "white" :weight bold)
    (((min-colors 88)) :background "#ff8787" :weight bold)
    (t :inherit gemini-companion-removed-current :weight bold :underline t))
  "Face for words that accepting the change removes."
  :group 'gemini-companion-review)

(defface gemini-companion-added-word
  '((((min-colors 257) (background dark)) :background "#28632f" :distant-foreground "#fff")
    (((min-colors 257)) :background "#86d986" :distant-foreground "#000")
    (((min-colors 88) (background dark)) :background "#008700" :foreground "white" :weight bold)
    (((min-colors 88)) :background "#87ff5f" :weight bold)
    (t :inherit gemini-companion-added-current :weight bold :underline t))
  "Face for words that accepting the change adds."
  :group 'gemini-companion-review)

(defconst gemini-companion-review-buffer-diff-faces
  '((diff-removed gemini-companion-removed)
    (diff-added gemini-companion-added)
    (diff-indicator-removed gemini-companion-removed)
    (diff-indicator-added gemini-companion-added)
    (diff-refine-removed gemini-companion-removed-word)
    (diff-refine-added gemini-companion-added-word))
  "Value of `face-remapping-alist' for a buffer that shows a diff.")

(define-minor-mode gemini-companion-review-mode
  "Keys to decide the change that this buffer belongs to.
\\{gemini-companion-review-mode-map}"
  :interactive nil
  :keymap (make-sparse-keymap))

(gemini-companion-ui-bind gemini-companion-review-mode-map
  "C-c C-c" #'gemini-companion-accept
  "C-c C-a" #'gemini-companion-accept-all
  "C-c C-k" #'gemini-companion-reject
  "C-c C-e" #'gemini-companion-review-merge
  "C-c C-t" #'gemini-companion-review-three-way
  "C-c C-v" #'gemini-companion-review-other-view
  "C-c ;" #'gemini-companion-review-comment
  ;; A buffer that visited another file would no longer be the proposal.
  ("<remap> <save-buffer>" "<remap> <write-file>") #'gemini-companion-review-buffer-save)

(defun gemini-companion-review-buffer-save ()
  "Explain that the client, not you, writes the file."
  (interactive (gemini-companion-review-check-here gemini-companion-review-mode)
               gemini-companion-review-mode)
  (message "%s writes the file when you accept: %s"
           (gemini-companion-review-agent-title gemini-companion-review-of-buffer)
           (gemini-companion-ui-key 'gemini-companion-accept "does so")))

;;;; The proposal

(defun gemini-companion-review-buffer-proposal (review)
  "Return the buffer with the proposal of REVIEW; make it if needed."
  (unless (buffer-live-p (gemini-companion-review-proposal review))
    (with-current-buffer (gemini-companion-review-buffer-make-buffer review "proposal")
      (gemini-companion-review-buffer--fill review #'gemini-companion-review-buffer--proposal-header
                                            (gemini-companion-review-text review))
      ;; Undoing the insertion would leave the buffer empty.
      (setq buffer-undo-list nil)
      (add-hook 'kill-buffer-hook #'gemini-companion-review-buffer--keep nil t)
      (setf (gemini-companion-review-proposal review) (current-buffer)
            (gemini-companion-review-tick review) (buffer-chars-modified-tick))
      (gemini-companion-comment-show-saved review)))
  (gemini-companion-review-proposal review))

(defun gemini-companion-review-buffer--keep ()
  "Save the text and the comments of the proposal, which is being killed."
  (gemini-companion-review-current-text gemini-companion-review-of-buffer)
  (gemini-companion-comment-save gemini-companion-review-of-buffer))

(defun gemini-companion-review-buffer--proposal-header (review)
  "Return the header line for the proposal of REVIEW."
  (gemini-companion-review-buffer-header
   review "Proposed text"
   `((gemini-companion-accept "accepts")
     (gemini-companion-reject "rejects")
     ;; It has a key only in its mode.
     (gemini-companion-review-inline-return "goes back")
     (gemini-companion-accept-all "accepts all")
     ,@(cond ((gemini-companion-review-with-base review)
              '((gemini-companion-review-three-way "shows two texts")))
             ;; Without a conflict there are only two.
             ((gemini-companion-review-conflict review)
              '((gemini-companion-review-three-way "shows all texts")))))))

;;;; What it is compared with

(defun gemini-companion-review-buffer-file-buffer (review)
  "Return a new buffer with the file of REVIEW as the user has it now.
That is what is on disk; but if REVIEW is shown three-way, and a buffer with
unsaved edits visits the file, it is the text of that buffer."
  (let ((visiting (gemini-companion-review-visiting review)))
    (apply #'gemini-companion-review-buffer--read-only review "current"
           (cond ((and visiting (buffer-modified-p visiting)
                       (gemini-companion-review-with-base review))
                  (list "Your unsaved buffer"
                        (gemini-companion-review-text-of-visiting review visiting)))
                 ((gemini-companion-file-exists-p (gemini-companion-review-path review))
                  (let ((bytes (gemini-companion-review-bytes review)))
                    (unless (stringp bytes)
                      (error "It is too large, or no longer a file that Emacs can read"))
                    (list "On disk" (gemini-companion-review-text-of-file review bytes))))
                 (t '("No file yet" ""))))))

(defun gemini-companion-review-buffer-base-buffer (review)
  "Return a new buffer with the text from which REVIEW was made."
  (gemini-companion-review-buffer--read-only
   review "base" (if (gemini-companion-review-unmerged review) "When merged" "When proposed")
   (if-let* ((bytes (gemini-companion-review-base review)))
       (gemini-companion-review-text-of-file review bytes)
     "")))

(defun gemini-companion-review-buffer-positions (buffer regions slot)
  "Return where REGIONS start and end in BUFFER, as a list of conses.
SLOT is where `gemini-companion-change-regions' has the lines of BUFFER."
  (with-current-buffer buffer
    (gemini-companion-ui-widened
      (goto-char (point-min))
      (let* ((line 0)
             (cache-long-scans nil)     ; as in `gemini-companion-ui-line-start'
             (position (lambda (target)
                         (forward-line (- target line))
                         (setq line target)
                         (point))))
        (cl-loop for region across regions
                 collect (cons (funcall position (aref region slot))
                               (funcall position (aref region (1+ slot)))))))))

(defun gemini-companion-review-buffer--read-only (review part title text)
  "Return a new read-only buffer of REVIEW, which contains TEXT.
PART is for its name, and TITLE for its header line."
  (let ((buffer (gemini-companion-review-buffer-make-buffer review part)))
    (with-current-buffer buffer
      (gemini-companion-review-buffer--fill
       review
       (lambda (review)
         (gemini-companion-review-buffer--fit
          `((0 . ,title)
            ,(gemini-companion-review-buffer--path review))))
       text)
      (setq buffer-read-only t))
    buffer))

;;;; Any buffer of a review

(defconst gemini-companion-review-buffer-display-variables
  '(tab-width truncate-lines word-wrap bidi-paragraph-direction display-line-numbers line-spacing
              face-remapping-alist dimmer-buffer-face-remaps
              js-jsx-syntax             ; JavaScript mode looks for it in the text
              treesit-font-lock-settings) ; compiling them again may take 0.2 s
  "Variables with which text looks as in the buffer that visits its file.")

(defun gemini-companion-review-buffer-make-buffer (review part)
  "Return a new buffer named after PART and the file of REVIEW.
Programs that are started in it run in the directory of the file, if local."
  (let ((buffer (generate-new-buffer
                 (format "*gemini %s: %s*" part
                         ;; All of a long path would hide the mode line.
                         (gemini-companion-ui-shorten
                          (gemini-companion-review-path-in-project review) 40)))))
    (with-current-buffer buffer
      (setq gemini-companion-review-of-buffer review)
      (let ((directory (file-name-directory (gemini-companion-review-path review)))
            (file-name-handler-alist nil))
        (when (file-directory-p directory) ; it may be new, too
          (setq default-directory directory)))
      (when (gemini-companion-host-remote-p default-directory)
        (setq default-directory "~/")))
    buffer))

(defun gemini-companion-review-buffer--fill (review header text)
  "Set up the current buffer, still empty, for REVIEW, and insert TEXT.
HEADER is as in `gemini-companion-review-buffer-set-up'."
  ;; Before the text is inserted, since some modes obey what it says.
  (gemini-companion-review-buffer--set-major-mode review)
  ;; Those of CC mode may take seconds, or fail.
  (let ((inhibit-modification-hooks t))
    (erase-buffer) ; nXML mode may insert a declaration
    (insert text))
  (let ((heavy (gemini-companion-heavy-p)))
    (when heavy
      (gemini-companion-review-buffer-set-mode #'fundamental-mode))
    (gemini-companion-review-buffer--finish review header)
    (set-buffer-modified-p nil)
    (goto-char (point-min))
    (unless heavy
      (gemini-companion-heavy-fontify-in-steps
       (lambda ()
         (let ((faces face-remapping-alist)) ; a view may have added some
           (gemini-companion-review-buffer-set-mode #'fundamental-mode)
           (gemini-companion-review-buffer--finish review gemini-companion-review-buffer--header)
           (setq face-remapping-alist faces)))))))

(defun gemini-companion-review-buffer--finish (review header)
  "Set up the current buffer of REVIEW, which has its text and its major mode.
HEADER is as in `gemini-companion-review-buffer-set-up'."
  (if-let* ((visiting (gemini-companion-review-visiting review)))
      (gemini-companion-review-buffer-copy-variables
       (append gemini-companion-review-buffer-display-variables
               (gemini-companion-review-buffer--indentation-variables visiting))
       visiting)
    ;; A newline would indent the line above by a guess.
    (setq-local electric-indent-inhibit t)
    (when (buffer-live-p (gemini-companion-review-proposal review)) ; it has them already
      (gemini-companion-review-buffer-copy-variables '(treesit-font-lock-settings)
                                                     (gemini-companion-review-proposal review))))
  (gemini-companion-heavy-shorten-lines)
  (gemini-companion-review-buffer-enable-modal-modes)
  (when (bound-and-true-p global-undo-tree-mode)
    (gemini-companion-log-errors "undo-tree-mode"
      (undo-tree-mode)))                ; without it, Evil may undo nothing
  (gemini-companion-review-buffer-set-up header))

(defun gemini-companion-review-buffer--indentation-variables (buffer)
  "Return variables with which edits are indented as in BUFFER.
Hooks set them, or a major mode that finds out how its text is indented."
  `(indent-tabs-mode
    c-offsets-alist                     ; the style of CC mode
    ,@(cl-loop for pair in (buffer-local-variables buffer)
               if (and (integerp (cdr-safe pair))
                       (string-match-p "-\\(?:basic\\|indent\\|level\\|offset\\|shift-width\\)\\'"
                                       (symbol-name (car pair))))
               collect (car pair))))

(defun gemini-companion-review-buffer-copy-variables (variables buffer)
  "Give VARIABLES the values that they have in BUFFER, if they are local there."
  (dolist (variable variables)
    (when (local-variable-p variable buffer)
      (set (make-local-variable variable) (buffer-local-value variable buffer))))
  ;; Text Scale mode, for example, changes such a list in place.
  (setq-local face-remapping-alist (copy-alist face-remapping-alist)))

(defun gemini-companion-review-buffer-set-up (header)
  "Give the current buffer, of a review, the keys for that and a header line.
HEADER is a function that returns the header line, given the review."
  (setq gemini-companion-review-buffer--header header)
  (gemini-companion-review-buffer--enable-keys)
  ;; The user may choose another major mode.
  (add-hook 'after-change-major-mode-hook #'gemini-companion-review-buffer--enable-keys nil t))

(defun gemini-companion-review-buffer--enable-keys ()
  "Enable the header line and the keys of a review in the current buffer."
  (setq header-line-format '(:eval (gemini-companion-review-buffer--header-line)))
  ;; Emacs does not redraw it after each edit, but it says how many lines change.
  (add-hook 'after-change-functions (lambda (&rest _) (force-mode-line-update)) nil t)
  (setq-local bidi-inhibit-bpa t)
  (gemini-companion-log-errors 'gemini-companion-review-mode-hook
    (gemini-companion-review-mode)))
(put 'gemini-companion-review-buffer--enable-keys 'permanent-local-hook t)

(defun gemini-companion-review-buffer--header-line ()
  "Return the header line of the current buffer."
  (let ((review gemini-companion-review-of-buffer))
    (concat " " (string-replace
                 "%" "%%"
                 (if (gemini-companion-review-open-p review)
                     (funcall gemini-companion-review-buffer--header review)
                   (propertize (gemini-companion-review-reason review) 'face 'warning))))))

;;;; Header lines

;; A header line consists of pieces, each a cons (RANK . TEXT).  If the window is too narrow, those
;; of the highest rank are omitted first, from left to right, those of rank 0 never.  Of the file
;; name, which has rank 2, only directories are omitted, that of the project last.

(defun gemini-companion-review-buffer-header (review title keys)
  "Return the header line for a buffer of REVIEW in the window being displayed.
TITLE says what the buffer shows, as text or as a piece, or is nil.  KEYS
are (COMMAND LABEL), the most important first."
  (let ((change (gemini-companion-review-effect-change review))
        (position (gemini-companion-review-position review))
        (comments (gemini-companion-comment-count review)))
    (gemini-companion-review-buffer--fit
     `(,@(gemini-companion-review-buffer--remarks review)
       ,@(and position `((1 . ,(format "%d of %d" (car position) (cdr position)))))
       ,@(and title (list (if (consp title) title (cons 5 title))))
       ,@(and (> comments 0)
              `((1 . ,(gemini-companion-ui-count comments "comment"))))
       ,(gemini-companion-review-buffer--path review)
       (1 . ,(concat (if (gemini-companion-change-new change) "new file " "")
                     (gemini-companion-change-size change)))
       ,@(gemini-companion-review-buffer--keys review keys)))))

(defun gemini-companion-review-buffer--keys (review keys)
  "Return pieces with KEYS, (COMMAND LABEL), as they work where the user is.
Outside of the windows of REVIEW, these accept it, reject it and lead to it."
  (let* ((selected (gemini-companion-ui-selected-buffer 'displaying))
         (inside (eq review (buffer-local-value 'gemini-companion-review-of-buffer selected))))
    (cl-loop with ranks = '(0 0 3 4 6 7 8 9)
             for (command label) in (if inside keys
                                      '((gemini-companion-accept "accepts")
                                        (gemini-companion-reject "rejects")
                                        (gemini-companion-review-next "goes there")))
             for key = (gemini-companion-ui-key-of command selected)
             ;; There is room for only one M-x.
             if (pcase command
                  ('gemini-companion-accept t)
                  ('gemini-companion-accept-all
                   (and key (gemini-companion-review-position review)))
                  (_ key))
             collect (cons (or (pop ranks) 9)
                           (gemini-companion-ui-header-key
                            ;; The click alone leads there.
                            (if (eq command 'gemini-companion-review-next) #'ignore command)
                            label (or key (format "M-x %s" command)))))))

(defun gemini-companion-review-buffer--remarks (review)
  "Return pieces that warn about REVIEW, of which the first is always shown."
  (append
   (cl-loop for remark in (gemini-companion-review-effect-remarks review)
            for rank = 0 then 3
            collect (cons rank (propertize remark 'face 'warning)))
   (when-let* (((memq (gemini-companion-review-conflict review) '(unsaved changed)))
               (key (gemini-companion-ui-key-of
                     #'gemini-companion-review-merge
                     (gemini-companion-ui-selected-buffer 'displaying))))
     (list (cons 0 (gemini-companion-ui-header-key #'gemini-companion-review-merge
                                                   "merges" key))))))

(defun gemini-companion-review-buffer--path (review)
  "Return the piece with the file name of REVIEW."
  (let ((name (gemini-companion-review-effect-file review)))
    (cons 2 (propertize name
                        'gemini-companion-project
                        (string-remove-suffix (gemini-companion-review-path-in-project review) name)
                        'help-echo (gemini-companion-ui-one-line
                                    (gemini-companion-review-path review))))))

(defun gemini-companion-review-buffer--fit (pieces)
  "Return PIECES as one line, if possible no wider than the window."
  (let* ((line (string-join (mapcar #'cdr pieces) "  "))
         (excess (- (string-width line) (1- (window-width)))) ; a space precedes it
         (rank (apply #'max (mapcar #'car pieces)))
         (piece (assq rank pieces))
         (text (cdr piece)))
    (cond ((or (<= excess 0) (= rank 0)) line)
          ((/= rank 2) (gemini-companion-review-buffer--fit (remq piece pieces)))
          (t (let* ((name (1+ (string-width (gemini-companion-file-nondirectory text))))
                    (width (- (string-width text) excess))
                    (project (get-text-property 0 'gemini-companion-project text))
                    (fits (<= (+ (string-width project) name) width))
                    (other (and (not fits) (assq 1 pieces)))
                    (kept (substring text 0 (if fits (length project) 0))))
               (gemini-companion-review-buffer--fit
                (if other (remq other pieces)
                  (cl-substitute
                   (cons 0 (concat kept (gemini-companion-ui-shorten
                                         (substring text (length kept))
                                         (- (max width name) (string-width kept)))))
                   piece pieces))))))))

;;;; Major modes

(defvar rng-nxml-auto-validate-flag)
(defvar treesit-auto-install-grammar)

(defun gemini-companion-review-buffer--set-major-mode (review)
  "Set the major mode of the current buffer, still empty, for the file of REVIEW."
  (let* ((path (gemini-companion-review-path review))
         (name (gemini-companion-file-nondirectory path))
         (visiting (gemini-companion-review-visiting review)))
    (condition-case error
        (progn
          (gemini-companion-review-buffer-set-mode
           ;; Inside, since loading a library may call modes.
           (lambda ()
             ;; Web mode and others choose a language by it.  Without a directory, it leads nowhere.
             (let ((buffer-file-name name))
               (funcall (gemini-companion-review-buffer--major-mode name visiting)))))
          (when buffer-read-only        ; a mode for viewing, where letters are commands
            (setq buffer-read-only nil)
            (gemini-companion-review-buffer-set-mode (get major-mode 'derived-mode-parent)))
          (gemini-companion-review-buffer--distrust))
      (error
       (gemini-companion-review-buffer-set-mode #'fundamental-mode)
       (gemini-companion-log-add "the mode of %s: %s" path (error-message-string error))))))

(defun gemini-companion-review-buffer--distrust ()
  "Keep Emacs from running code in the text of the current buffer, or hiding some.
Completion may expand macros, and fontification call modes that it names."
  (setq-local org-src-fontify-natively nil adoc-fontify-code-blocks nil untrusted-content t
              markdown-fontify-code-blocks-natively nil
              markdown-hide-markup nil markdown-hide-urls nil
              buffer-invisibility-spec '(t (outline . t))) ; what the user folds
  (unless (fboundp 'trusted-content-p)
    (remove-hook 'completion-at-point-functions #'elisp-completion-at-point t)))

(defun gemini-companion-review-buffer-set-mode (function)
  "Call FUNCTION, which sets the major mode of the current buffer.
Run no hooks, which might start servers or let global minor modes change
the text, and read no local variables, since a client wrote the text."
  (let ((change-major-mode-hook nil)
        (prog-mode-hook nil) ; `mhtml-mode' runs it itself
        ;; Python mode says that it cannot guess the indentation, since there is no text yet, and
        ;; Emacs that Outline mode makes the hook above buffer-local.
        (inhibit-message t)
        (message-log-max nil)
        ;; A grammar may be missing; Emacs 31 would ask whether to install it.
        (warning-suppress-log-types '((treesit)))
        (treesit-auto-install-grammar nil)
        ;; Some modes read directory-local variables themselves.
        (enable-local-variables nil)
        ;; nXML mode would validate the text whenever Emacs is idle, which takes seconds.
        (rng-nxml-auto-validate-flag nil))
    ;; `delay-mode-hooks' would not do: some modes run the hooks of others anyway.
    (cl-letf (((symbol-function 'run-mode-hooks) #'ignore))
      (funcall function))))

(defun gemini-companion-review-buffer-enable-modal-modes ()
  "Enable the modes of `gemini-companion-modal-modes' in the current buffer."
  (pcase-dolist (`(,global . ,local) gemini-companion-modal-modes)
    (when (and (boundp global) (default-value global) (functionp local))
      (gemini-companion-log-errors (format "%s" local)
        (funcall local)))))

(defun gemini-companion-review-buffer--major-mode (name visiting)
  "Return the major mode of VISITING, the buffer that visits the file NAME.
If VISITING is nil, or its mode not suitable, return what NAME suggests."
  (let* ((case-fold-search nil)
         (mode (assoc-default name auto-mode-alist #'string-match-p))
         ;; The first one looks at the text; the others look for a grammar.
         (mode (cond ((eq mode 'c-or-c++-mode) 'c-mode)
                     ((symbolp mode) (intern (string-remove-suffix "-maybe" (symbol-name mode))))))
         (preferred (cond ((fboundp 'major-mode-remap) (major-mode-remap mode)) ; Emacs 30
                          ((boundp 'major-mode-remap-alist)
                           (alist-get mode major-mode-remap-alist)))))
    (or (seq-some #'gemini-companion-review-buffer--suitable
                  (list (and visiting (buffer-local-value 'major-mode visiting)) preferred mode))
        #'fundamental-mode)))

(defun gemini-companion-review-buffer--suitable (mode)
  "Return MODE, or its substitute, if that is for text and available, else nil."
  (when (and mode (symbolp mode) (fboundp mode))
    ;; An alias does not know the mode's parents.
    (while (symbolp (symbol-function mode))
      (setq mode (symbol-function mode)))
    (gemini-companion-log-errors (format "the mode %s" mode)
      (autoload-do-load (symbol-function mode) mode)
      (cond
       ;; Org's fontification calls any function that a text names.
       ((provided-mode-derived-p mode 'org-mode) #'outline-mode)
       ;; Others may do anything with a text.
       ((seq-some (apply-partially #'provided-mode-derived-p mode)
                  '(prog-mode text-mode conf-mode))
        mode)))))

(provide 'gemini-companion-review-buffer)
;;; gemini-companion-review-buffer.el ends here

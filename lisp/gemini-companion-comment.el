;;; gemini-companion-comment.el --- Comments on lines, for the model -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The user comments on lines of files.  All comments in the project of a CLI go along with the next
;; prompt that it gets, in any terminal, if its hooks report that (see
;; gemini-companion-tool-hooks.el).  A command sends them at once.
;;
;; Comments on lines of a change, in any view, are sent to its client together when the change is
;; decided: they are the reason for a rejection, or else the next prompt.
;;
;; A comment is an overlay, so it stays at its lines while the text changes, and shows itself below
;; them.  Those on a change are in its proposal.  One on removed lines is at the line that takes
;; their place, and quotes them.  Views that show the proposal in a buffer of their own have copies.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-bridge)
(require 'gemini-companion-cli)
(require 'gemini-companion-context)
(require 'gemini-companion-file)
(require 'gemini-companion-log)
(require 'gemini-companion-private)
(require 'gemini-companion-review)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function gemini-companion-cli-compose-read "gemini-companion-cli-compose")
(declare-function gemini-companion-cli-compose-send-comments "gemini-companion-cli-compose")
(declare-function gemini-companion-cli-send-directory "gemini-companion-cli-send")
(declare-function gemini-companion-cli-send-terminal "gemini-companion-cli-send")
(declare-function gemini-companion-cli-send-text "gemini-companion-cli-send")

(defface gemini-companion-comment
  '((((min-colors 88) (background light)) :background "#ffffd7" :foreground "#444444" :extend t)
    (((min-colors 88) (background dark)) :background "#444400" :foreground "#eeeeee" :extend t)
    (t :inherit highlight :extend t))
  "Face for your comments on lines."
  :group 'gemini-companion-review)

;;;; The comments in a buffer

(defvar-local gemini-companion-comment-overlays nil
  "The comments in this buffer, as overlays, some of which were deleted.")
(put 'gemini-companion-comment-overlays 'permanent-local t)

(defvar gemini-companion-comment--history nil
  "History of comments.")

(defun gemini-companion-comment-read (line before)
  "Read a comment on LINE and return it; BEFORE is the old comment, or nil."
  (substring-no-properties
   (gemini-companion-ui-trim (read-string (format "Comment on line %d: " line) before
                                          'gemini-companion-comment--history))))

(defun gemini-companion-comment-add (buffer first last text &optional quote words)
  "Add a comment, TEXT, on the lines FIRST to LAST of BUFFER.
While line FIRST contains WORDS, if non-nil, the comment is on these.  For
QUOTE, see `gemini-companion-comment-show'."
  (with-current-buffer buffer
    (gemini-companion-ui-widened
      (goto-char (gemini-companion-ui-line-start last))
      (gemini-companion-comment-show (gemini-companion-ui-line-start first) text quote)
      (overlay-put (car gemini-companion-comment-overlays) 'gemini-companion-words words))
    (add-hook 'after-change-functions #'gemini-companion-comment--align nil t)
    (when buffer-file-name
      (add-hook 'kill-emacs-query-functions #'gemini-companion-comment--query-exit)
      (add-hook 'kill-buffer-hook #'gemini-companion-comment--buffer-killed nil t))))

(defun gemini-companion-comment-show (start text quote)
  "Show a comment, TEXT, below the line at point.
It is on the text from START to the end of that line.  If it is on lines
that were removed here, QUOTE is their text."
  (let ((overlay (make-overlay start (line-end-position))))
    (setq gemini-companion-comment-overlays
          (cons overlay (seq-filter #'overlay-buffer gemini-companion-comment-overlays)))
    (overlay-put overlay 'gemini-companion-comment text)
    (overlay-put overlay 'gemini-companion-quote quote)
    (overlay-put overlay 'after-string
                 (concat (propertize " " 'cursor t) "\n" ; a graphical frame shows no cursor on that
                         (propertize (concat "» " (string-fill text 70)
                                             ;; As far as the line above is colored.
                                             (propertize " " 'display '(space :align-to right)))
                                     'face 'gemini-companion-comment
                                     'line-prefix "" 'wrap-prefix "  ")))))

(defun gemini-companion-comment-list (buffer)
  "Return the comments in BUFFER, in the order of its lines.
Each is (FIRST LAST REMOVED TEXT ON OVERLAY): the lines, the text of removed
lines or nil, the comment, and what it is on: the text of line FIRST, or some
words in it."
  ;; Not `overlays-in', since a difference in Ediff has several.
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (gemini-companion-ui-widened
        (cl-loop with last = (point-min) and number = 1 ; far less work than from the top each time
                 for it in
                 ;; A cloned indirect buffer has the list of its base.
                 (seq-sort-by #'overlay-start #'<
                              (seq-filter (lambda (it) (eq (overlay-buffer it) buffer))
                                          gemini-companion-comment-overlays))
                 for words = (overlay-get it 'gemini-companion-words)
                 for start = (progn (goto-char (overlay-start it)) (line-beginning-position))
                 for line = (buffer-substring-no-properties start (line-end-position))
                 for end = (progn (goto-char (overlay-end it)) (line-beginning-position))
                 do (cl-incf number (count-lines last start))
                 collect (list number
                               (+ number (count-lines start end))
                               (overlay-get it 'gemini-companion-quote)
                               (overlay-get it 'gemini-companion-comment)
                               (if (and words (string-search words line)) words line)
                               it)
                 do (setq last start))))))

(defun gemini-companion-comment-format (name first last line text &optional removed)
  "Return TEXT, a comment on the lines FIRST to LAST of the file NAME, for a model.
LINE is the text of the first, or, if REMOVED is non-nil, of all of them."
  (format "%s:%s%s `%s`: %s" name
          (if (= first last) first (format "%d-%d" first last))
          (if removed " (removed)" "")
          ;; Enough to find it.  A client may have written megabytes on it.
          (string-trim (truncate-string-to-width line 200 nil nil "…"))
          text))

;;;; Commenting on lines of files

(defvar-local gemini-companion-comment-place-function #'gemini-companion-comment--place-here
  "Function that returns which lines a comment in this buffer is on.
It is called with positions in the first and in the last line.  It returns
\(BUFFER FIRST LAST REMOVED): the buffer of the file or of the proposal, lines
there, and the text of lines that a change removes, or nil.")

(defun gemini-companion-comment--place ()
  "Return the place of a comment on the lines of the region, or the current one.
See `gemini-companion-comment-place-function'."
  (if (use-region-p)
      (funcall gemini-companion-comment-place-function
               (region-beginning) (max (region-beginning) (1- (region-end))))
    (funcall gemini-companion-comment-place-function (point) (point))))

(defun gemini-companion-comment--place-here (start end)
  "Return the place of a comment on the lines from START to END of this buffer."
  (let ((review gemini-companion-review-of-buffer))
    (unless (or (not review) (eq (current-buffer) (gemini-companion-review-proposal review)))
      (user-error "Comment on lines of the proposed text")))
  (list (or (and (not buffer-file-name) (buffer-base-buffer)) (current-buffer))
        (line-number-at-pos start t) (line-number-at-pos end t) nil))

;;;###autoload
(defun gemini-companion-comment ()
  "Comment on the line at point, or on the lines of the region.
If there is a comment already, edit it; to remove it, leave it empty.
Comments go to the model with your next prompt, if the CLI has the hooks
that `gemini-companion-tools-enable' installs.
\\[gemini-companion-comments-send] sends them at once."
  (interactive)
  (if gemini-companion-review-of-buffer
      (call-interactively 'gemini-companion-review-comment)
    (pcase-let ((`(,buffer ,first ,last ,_) (gemini-companion-comment--place)))
      (with-current-buffer buffer
        (gemini-companion-comment--edit first last)))))

(defun gemini-companion-comment--edit (first last)
  "Let the user comment on the lines FIRST to LAST, or edit the comment there."
  (gemini-companion-comment--check)
  (let* ((old (seq-find (pcase-lambda (`(,from ,to . ,_)) (<= from first to))
                        (gemini-companion-comment-list (current-buffer))))
         (text (gemini-companion-comment--replace (current-buffer) old first last)))
    (deactivate-mark)
    (if (string-empty-p text)
        (message (if old "Comment removed" "No comment"))
      (gemini-companion-comment--report))))

(defun gemini-companion-comment--replace (buffer old first last &optional quote review)
  "Read a comment on the lines FIRST to LAST of BUFFER, add and return it.
If it is empty, do not add it.  It replaces OLD, an element of
`gemini-companion-comment-list' or nil.  For QUOTE, see
`gemini-companion-comment-show'.  If non-nil, REVIEW must stay open meanwhile."
  (pcase-let* ((`(,from ,to ,quoted ,before ,_ ,overlay) old)
               ;; The text may change meanwhile.
               (marker-at (lambda (line)
                            (with-current-buffer buffer
                              (copy-marker (gemini-companion-ui-line-start line) t))))
               (start (funcall marker-at (or from first)))
               (end (funcall marker-at (or to last)))
               ;; A paragraph may be one line.
               (words (if (and (use-region-p) (eq (current-buffer) (window-buffer)))
                          (buffer-substring-no-properties (region-beginning) (region-end))
                        (and overlay (overlay-get overlay 'gemini-companion-words))))
               (read (lambda () (gemini-companion-comment-read first before)))
               (text (if review
                         (gemini-companion-cli-compose-read review "the comment" read)
                       (funcall read))))
    (unless (buffer-live-p buffer)
      (kill-new text)
      (user-error "The buffer was killed meanwhile; the comment is in the kill ring"))
    (when overlay (delete-overlay overlay))
    (unless (string-empty-p text)
      (with-current-buffer buffer
        (gemini-companion-ui-widened
          (gemini-companion-comment-add buffer (line-number-at-pos start) (line-number-at-pos end)
                                        text (or quoted quote) words))))
    text))

(defun gemini-companion-comment--check ()
  "Signal a `user-error' if the user cannot comment on the current buffer."
  (cond ((not buffer-file-name)
         (user-error "You can comment only on files, but this buffer visits none"))
        ((eq 'elsewhere (gemini-companion-workspace-machine buffer-file-name))
         (user-error "You can comment only on local files and on those of connected hosts"))
        ((gemini-companion-private-reason)
         (user-error "You cannot comment on a private file (%s)"
                     (gemini-companion-private-reason)))))

(defun gemini-companion-comment--align (start end before)
  "Make each comment begin after new lines above it, and end where a line ends.
START, END and BEFORE are as in `after-change-functions'."
  (gemini-companion-ui-widened
    (dolist (overlay (seq-filter #'overlay-buffer gemini-companion-comment-overlays))
      (when (and (= start (overlay-start overlay)) (< end (overlay-end overlay))
                 (zerop before) (eq (char-before end) ?\n))
        (move-overlay overlay end (overlay-end overlay)))
      (goto-char (overlay-end overlay))
      (unless (eolp)
        (move-overlay overlay (overlay-start overlay) (line-end-position))))))
(put 'gemini-companion-comment--align 'permanent-local-hook t)

(defun gemini-companion-comment--report ()
  "Show how many comments there are, and how they get to the model."
  (message "%s %s" (gemini-companion-ui-count (length (gemini-companion-comment--all)) "comment")
           (gemini-companion-comment--way)))

(defun gemini-companion-comment--way ()
  "Return text on how comments get to the model."
  ;; Only hooks report the id of a conversation.
  (if (and (not gemini-companion-context-paused)
           (seq-some #'gemini-companion-cli-session (gemini-companion-cli-all)))
      "for your next prompt"
    (substitute-command-keys "to send with \\[gemini-companion-comments-send]")))

;;;; All comments

(defvar gemini-companion-comment--gone nil
  "The comments that were sent or removed last, or were in buffers killed since.")

(defun gemini-companion-comment--all (&optional test)
  "Return the comments on files, or those in buffers that pass TEST.
Each is a cons of the file and an element of `gemini-companion-comment-list'."
  (cl-loop for buffer in (buffer-list)
           if (and (buffer-file-name buffer)
                   (buffer-local-value 'gemini-companion-comment-overlays buffer)
                   (or (null test) (funcall test buffer)))
           append (gemini-companion-comment--of-buffer buffer)))

(defun gemini-companion-comment--of-buffer (buffer)
  "Return the comments in BUFFER, as in `gemini-companion-comment--all'."
  (mapcar (lambda (it) (cons (buffer-file-name buffer) it))
          (gemini-companion-comment-list buffer)))

(defun gemini-companion-comment--remove (comments)
  "Remove COMMENTS, which the user may want back."
  (setq gemini-companion-comment--gone comments)
  (dolist (comment comments)
    (delete-overlay (car (last comment))))
  (gemini-companion-log-run-hook 'gemini-companion-context-change-hook))

(defun gemini-companion-comment--buffer-killed ()
  "Remember the comments in the current buffer, and tell the user."
  (when-let* ((comments (gemini-companion-comment--of-buffer (current-buffer))))
    (setq gemini-companion-comment--gone (append comments gemini-companion-comment--gone))
    (message "%s had %s, which M-x gemini-companion-comments-restore brings back" (buffer-name)
             (gemini-companion-ui-count (length comments) "comment"))))
(put 'gemini-companion-comment--buffer-killed 'permanent-local-hook t)

(defun gemini-companion-comment--query-exit ()
  "Return non-nil if Emacs may exit; ask if there are comments on files."
  (or (not (gemini-companion-ui-user-frame-p))
      (null (gemini-companion-comment--all))
      (yes-or-no-p (ngettext "You have a comment that you have not sent.  Lose it and exit? "
                             "You have comments that you have not sent.  Lose them and exit? "
                             (length (gemini-companion-comment--all))))))

;;;###autoload
(defun gemini-companion-comments-restore ()
  "Bring back the comments on files that you sent or removed last.
Also bring back those of buffers that you have killed since."
  (interactive)
  (unless gemini-companion-comment--gone (user-error "No comments to bring back"))
  (pcase-dolist ((and comment `(,file ,first ,last ,quote ,text ,line . ,_))
                 gemini-companion-comment--gone)
    (gemini-companion-log-errors file
      (gemini-companion-comment-add (find-file-noselect file) first last text quote line)
      (setq gemini-companion-comment--gone (remq comment gemini-companion-comment--gone))))
  (when gemini-companion-comment--gone
    (user-error "Could not bring back %s; M-x gemini-companion-log says why"
                (gemini-companion-ui-count (length gemini-companion-comment--gone) "comment")))
  (gemini-companion-comment--report))

;;;###autoload
(defun gemini-companion-comments-clear ()
  "Remove all comments on files."
  (interactive)
  (let ((comments (or (gemini-companion-comment--all) (user-error "There are no comments"))))
    (gemini-companion-comment--remove comments)
    (message "Removed %s" (gemini-companion-ui-count (length comments) "comment"))))

;;;; The comments for a CLI

(defun gemini-companion-comment--for (directory)
  "Return the comments in the project in which a CLI in DIRECTORY works.
Those in a project inside of that, as a worktree may be, are for a CLI there."
  (let* ((scope (gemini-companion-workspace-scope-of directory))
         (places (or (gemini-companion-workspace-scope-names scope)
                     (let ((file-name-handler-alist nil)) ; not Tramp's
                       (list (file-name-as-directory (or directory "/"))))))
         (in-p (lambda (places names)
                 (cl-loop for place in places
                          thereis (seq-some (apply-partially #'string-prefix-p place) names))))
         (inner (cl-loop for other in (gemini-companion-bridge-places)
                         for names = (gemini-companion-workspace-scope-names
                                      (gemini-companion-workspace-scope-of other))
                         if (funcall in-p places names) append (seq-difference names places))))
    (gemini-companion-comment--all
     (lambda (buffer)
       (let ((names (list (buffer-file-name buffer) (gemini-companion-file-truename buffer))))
         (and (not (gemini-companion-workspace-out-of-scope-reason (car names) (cadr names) scope))
              ;; A CLI may know other projects, but comments there are for other CLIs.
              (funcall in-p places names)
              (not (funcall in-p inner names))
              (not (with-current-buffer buffer (gemini-companion-private-reason)))))))))

(defun gemini-companion-comment--text (comments directory &optional typed)
  "Return COMMENTS as text for a model, whose CLI works in DIRECTORY.
If TYPED is non-nil, it is for the CLI's prompt, where an @ means a file.
The names have no @: Gemini CLI does not know the line numbers after them,
and would search the project for such a file."
  (mapconcat (pcase-lambda (`(,file ,first ,last ,_ ,text ,line . ,_))
               (let ((quote-at (if typed (apply-partially #'string-replace "@" "\\@") #'identity))
                     (name (gemini-companion-workspace-client-name file directory)))
                 (gemini-companion-comment-format (funcall quote-at name) first last
                                                  (funcall quote-at line) text)))
             comments "\n"))

;;;###autoload
(defun gemini-companion-comment-add-to-prompt (cli fits-p)
  "Return comments for a prompt of CLI, as text, or nil, and remove them.
The first line of the text is for the user, the rest for the model.  There
are as many as FITS-P accepts, a function of the text, but at least one; the
others stay for the next prompt."
  (let ((directory (gemini-companion-cli-directory cli)))
    (when-let* (((not gemini-companion-context-paused))
                (all (gemini-companion-comment--for directory)))
      (let* ((lines (mapcar (lambda (it) (gemini-companion-comment--text (list it) directory))
                            all))
             (text-of (lambda (count)
                        (concat (gemini-companion-ui-count count "comment") " from Emacs\n"
                                "Comments that the user has made in Emacs:\n"
                                (string-join (seq-take lines count) "\n"))))
             (count (cl-loop for count downfrom (length lines)
                             if (or (= count 1) (funcall fits-p (funcall text-of count)))
                             return count)))
        (gemini-companion-comment--remove (seq-take all count))
        (funcall text-of count)))))

;;;###autoload
(defun gemini-companion-comment-describe (directory)
  "Return text on the comments for the next prompt of CLIs in DIRECTORY."
  (when-let* (((not gemini-companion-context-paused))
              (comments (gemini-companion-comment--for directory)))
    (concat "\nComments " (gemini-companion-comment--way) "\n"
            (replace-regexp-in-string
             "^" "  " (gemini-companion-comment--text comments directory))
            "\n")))

;;;###autoload
(defun gemini-companion-comments-send ()
  "Send your comments on files of the project to its CLI, as a prompt."
  (interactive)
  (require 'gemini-companion-cli-send)
  (let* ((terminal (gemini-companion-cli-send-terminal))
         (directory (gemini-companion-cli-send-directory terminal))
         (comments (or (gemini-companion-comment--for directory)
                       (user-error "There are no comments on files of this project"))))
    (gemini-companion-cli-send-text
     (concat "My comments:\n" (gemini-companion-comment--text comments directory 'typed))
     t terminal)
    (gemini-companion-comment--remove comments)))

;;;; Comments on lines of a change

(defvar gemini-companion-comment-change-hook nil
  "Hook run in the buffer of a proposal when its comments have changed.")

;;;###autoload
(defun gemini-companion-review-comment ()
  "Comment on the line at point, or on the lines of the region.
If there is a comment already, edit it; to remove it, leave it empty.  Emacs
sends all comments on a change when you have accepted or rejected it."
  (interactive (gemini-companion-review-check-here gemini-companion-review-of-buffer)
               gemini-companion-review-mode)
  (gemini-companion-review-check-open gemini-companion-review-of-buffer)
  (pcase-let* ((review gemini-companion-review-of-buffer)
               (`(,proposal ,first ,last ,quote) (gemini-companion-comment--place))
               ;; One on several lines is shown below the last.
               (old (seq-find (pcase-lambda (`(,from ,to ,quoted . ,_))
                                (and (or (= from first) (= to last))
                                     (eq (null quoted) (null quote))
                                     (string-search (concat "\n" quote "\n")
                                                    (concat "\n" quoted "\n"))))
                              (gemini-companion-comment-list proposal))))
    (gemini-companion-comment--replace proposal old first last quote review)
    (deactivate-mark)
    (force-mode-line-update t)
    (with-current-buffer proposal
      (gemini-companion-log-run-hook 'gemini-companion-comment-change-hook))))

(defun gemini-companion-comment-mirror (proposal position-of)
  "Show the comments in the buffer PROPOSAL in the current buffer, too.
POSITION-OF is called with the last line of a comment in the proposal, and the
text of removed lines or nil; it returns a position in the last line here."
  (mapc #'delete-overlay gemini-companion-comment-overlays)
  (setq gemini-companion-comment-overlays nil)
  (pcase-dolist (`(,_ ,last ,quote ,text . ,_) (gemini-companion-comment-list proposal))
    (gemini-companion-ui-widened
      (goto-char (funcall position-of last quote))
      (gemini-companion-comment-show (line-beginning-position) text quote))))

(defun gemini-companion-comment-count (review)
  "Return the number of comments on REVIEW."
  (let ((proposal (gemini-companion-review-proposal review)))
    ;; A header line asks after each key, and the text may be large.
    (if (buffer-live-p proposal)
        (seq-count #'overlay-buffer
                   (buffer-local-value 'gemini-companion-comment-overlays proposal))
      0)))

(defun gemini-companion-comment-save (review)
  "Save the comments on REVIEW, so that they outlive its proposal."
  (setf (gemini-companion-review-comments review)
        (mapcar #'butlast
                (gemini-companion-comment-list (gemini-companion-review-proposal review)))))

(defun gemini-companion-comment-show-saved (review)
  "Show the comments on REVIEW that were saved in its proposal, which is new."
  (pcase-dolist (`(,first ,last ,quote ,text ,line) (gemini-companion-review-comments review))
    (gemini-companion-comment-add (gemini-companion-review-proposal review)
                                  first last text quote line)))

;;;###autoload
(defun gemini-companion-comment-review-ended (review outcome)
  "Send the comments on REVIEW, which has ended with OUTCOME."
  (when-let* ((prompt (gemini-companion-comment--prompt review)))
    (gemini-companion-cli-compose-send-comments review outcome prompt)))
;;;###autoload (add-hook 'gemini-companion-review-end-functions #'gemini-companion-comment-review-ended)

(defun gemini-companion-comment--prompt (review)
  "Return the comments on REVIEW as a prompt, or nil if there are none."
  (when (buffer-live-p (gemini-companion-review-proposal review))
    (gemini-companion-comment-save review))
  (when-let* ((comments (gemini-companion-review-comments review))
              (name (gemini-companion-review-path-in-project review)))
    (mapconcat
     (pcase-lambda (`(,first ,last ,quote ,text ,line))
       ;; For Gemini CLI an @ stands before the name of a file.
       (gemini-companion-comment-format name first last
                                        (string-replace "@" "\\@" (or quote line)) text quote))
     comments "\n")))

(provide 'gemini-companion-comment)
;;; gemini-companion-comment.el ends here

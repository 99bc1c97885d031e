;;; gemini-companion-review-hunk.el --- A proposal and what it removes -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The text of a buffer that shows a whole proposal and, between its lines, the lines that it
;; removes from the file; and how to find lines of the file and of the proposal in it.
;;
;; Nothing is fontified here.  When lines come into view, we copy faces from the two buffers that
;; they come from, and put signs into the fringe.  If the margin shows line numbers, the signs are
;; there, so that no text moves sideways.

;;; Code:

(require 'cl-lib)
(require 'diff-mode)                    ; bitmaps for the fringe
(require 'seq)
(require 'gemini-companion-heavy)
(require 'gemini-companion-review-buffer)
(require 'gemini-companion-ui)

(cl-defstruct (gemini-companion-review-hunk (:copier nil))
  "Lines that are removed, and then lines that are added.
LINES are a cons of the first one, counted from 1, and their number."
  (start nil :documentation "The position of the first removed line.")
  (middle nil :documentation "The position of the first added line.")
  (end nil :documentation "The position after the last added line.")
  (removed nil :documentation "LINES of the file.")
  (added nil :documentation "LINES of the proposal.")
  (words 'unknown :documentation "Where words differ, a list of (START END FACE)."))

(defvar-local gemini-companion-review-hunk-list nil
  "The hunks in this buffer, in order, each a `gemini-companion-review-hunk'.")

(defvar-local gemini-companion-review-hunk--numbers nil
  "Non-nil if the margin shows the numbers of lines.")

;;;; Inserting it

;; Each stretch of text has a property [KIND SOURCE OFFSET LINE START]: KIND is `context', `removed'
;; or `added'; it is from the buffer SOURCE, where it is OFFSET characters later and begins on LINE,
;; counted from 0; here, it begins at START.

(defun gemini-companion-review-hunk-fill (current proposal regions)
  "Replace the text by that of PROPOSAL, with the lines of CURRENT it removes.
REGIONS is a value of `gemini-companion-change-regions'."
  (let ((inhibit-read-only t)
        (inhibit-modification-hooks t)
        (inhibit-quit t))               ; half of the text would have no hunks
    (erase-buffer)
    (setq gemini-companion-review-hunk-list
          (gemini-companion-review-hunk--insert current proposal regions))
    (gemini-companion-review-hunk--mark-ending)
    (when (gemini-companion-heavy-shorten-lines)
      (mapc #'gemini-companion-review-hunk--reveal gemini-companion-review-hunk-list))))

(defun gemini-companion-review-hunk--mark-ending ()
  "If only one of the texts lacks a newline at its end, say so there.
The last lines might look the same."
  (remove-overlays nil nil 'gemini-companion-review-hunk-lacking t)
  (when-let* ((hunk (car (last gemini-companion-review-hunk-list)))
              (middle (gemini-companion-review-hunk-middle hunk))
              (end (gemini-companion-review-hunk-end hunk))
              (mark (propertize " (no newline at the end)" 'face 'shadow)))
    (pcase (cons (and (> middle 1)
                      (get-text-property (1- middle) 'gemini-companion-review-hunk-lacking))
                 (and (< middle end) (= end (point-max)) (not (bolp))))
      ('(t . nil) (put-text-property (1- middle) middle 'display (concat mark "\n")))
      ('(nil . t)
       (let ((overlay (make-overlay end end)))
         (overlay-put overlay 'gemini-companion-review-hunk-lacking t)
         (overlay-put overlay 'after-string mark))))))

(defun gemini-companion-review-hunk--insert (current proposal regions)
  "Insert the text of PROPOSAL, and what it removes of CURRENT.
Return the hunks.  REGIONS is as in `gemini-companion-review-hunk-fill'."
  (let ((done 1) (line 0) (hunks nil))
    (cl-loop
     for region across regions
     for (a-start . a-end) in (gemini-companion-review-buffer-positions current regions 0)
     for (b-start . b-end) in (gemini-companion-review-buffer-positions proposal regions 2)
     do (gemini-companion-review-hunk--add proposal done b-start 'context line)
     (push (make-gemini-companion-review-hunk
            :start (point)
            :middle
            (gemini-companion-review-hunk--add current a-start a-end 'removed (aref region 0))
            :end (gemini-companion-review-hunk--add proposal b-start b-end 'added (aref region 2))
            :removed (cons (1+ (aref region 0)) (- (aref region 1) (aref region 0)))
            :added (cons (1+ (aref region 2)) (- (aref region 3) (aref region 2))))
           hunks)
     (setq done b-end
           line (aref region 3)))
    (gemini-companion-review-hunk--add proposal done (1+ (buffer-size proposal)) 'context line)
    (nreverse hunks)))

(defun gemini-companion-review-hunk--add (source start end kind line)
  "Insert the text from START to END of the buffer SOURCE, of KIND; return point.
LINE is the number of its first line there."
  (when (< start end)
    (let ((from (point)))
      (insert (with-current-buffer source
                (gemini-companion-ui-widened
                  (buffer-substring-no-properties start end))))
      (unless (or (bolp) (not (eq kind 'removed)))
        (insert (propertize "\n" 'gemini-companion-review-hunk-lacking t)))
      (put-text-property from (point) 'gemini-companion-review-hunk
                         (vector kind source (- start from) line from))))
  (point))

;;;; Hunks and lines

(defun gemini-companion-review-hunk-file-position (line)
  "Return the position of LINE of the file."
  (gemini-companion-ui-line-start
   (cl-loop for hunk in gemini-companion-review-hunk-list
            for (first . number) = (gemini-companion-review-hunk-removed hunk)
            if (<= (+ first number) line)
            sum (cdr (gemini-companion-review-hunk-added hunk)) into added
            finally return (+ line added))))

(defun gemini-companion-review-hunk-position (line &optional removed)
  "Return the position of LINE of the proposal.
If REMOVED is non-nil, it is the text of lines that were removed before
LINE: return the position of the last of these, if it is there."
  (let ((hunk (and removed (seq-find (lambda (it)
                                       (= (car (gemini-companion-review-hunk-added it)) line))
                                     gemini-companion-review-hunk-list))))
    (or (and hunk
             (gemini-companion-ui-widened
               (goto-char (gemini-companion-review-hunk-start hunk))
               ;; Not a regexp, for which a line may be too long.
               (cl-loop with text = (car (last (split-string removed "\n")))
                        while (< (point) (gemini-companion-review-hunk-middle hunk))
                        if (equal text (gemini-companion-review-hunk-removed-line)) return (point)
                        do (forward-line))))
        (gemini-companion-ui-line-start
         (cl-loop for hunk in gemini-companion-review-hunk-list
                  if (<= (car (gemini-companion-review-hunk-added hunk)) line)
                  sum (cdr (gemini-companion-review-hunk-removed hunk)) into before
                  finally return (+ line before))))))

(defun gemini-companion-review-hunk-at (position)
  "Return the hunk at POSITION, or nil."
  (seq-find (lambda (it)
              (and (<= (gemini-companion-review-hunk-start it) position)
                   (< position (gemini-companion-review-hunk-end it))))
            gemini-companion-review-hunk-list))

(defun gemini-companion-review-hunk-difference (hunk)
  "Return the position of the first difference in HUNK, in added words if possible."
  (let* ((start (gemini-companion-review-hunk-start hunk))
         (words (save-excursion (gemini-companion-review-hunk--words-at start))))
    (cl-loop for wanted in '(gemini-companion-added-word gemini-companion-removed-word)
             thereis (cl-loop for (from _ face) in words if (eq face wanted) minimize from)
             finally return (gemini-companion-review-hunk--reveal hunk))))

(defun gemini-companion-review-hunk--reveal (hunk)
  "Return where the added text of HUNK differs first; show it if it is hidden."
  (pcase-let (((cl-struct gemini-companion-review-hunk start middle end) hunk)
              (here (current-buffer)))
    (cdr (gemini-companion-heavy-difference here start middle here middle end))))

(defun gemini-companion-review-hunk-line ()
  "Return the line of the proposal at point.
At a removed line, that is the one that takes its place."
  (gemini-companion-ui-widened
    (let ((position (min (point) (1- (point-max)))))
      (pcase (and (> position 0) (get-text-property position 'gemini-companion-review-hunk))
        (`[removed ,_ ,_ ,_ ,_]
         (car (gemini-companion-review-hunk-added (gemini-companion-review-hunk-at position))))
        (`[,_ ,_ ,_ ,line ,from] (+ 1 line (count-lines from (line-beginning-position))))
        (_ 1)))))

(defun gemini-companion-review-hunk-removed-line ()
  "Return the text of the line at point if it is a removed one, else nil."
  (pcase (get-text-property (line-beginning-position) 'gemini-companion-review-hunk)
    (`[removed ,_ ,_ ,_ ,_]
     (buffer-substring-no-properties (line-beginning-position) (line-end-position)))))

(defun gemini-companion-review-hunk-place (start end)
  "Return where in the proposal the lines from START to END are.
The value is (FIRST LAST TEXT), where TEXT is nil unless all are removed lines."
  (save-excursion
    (goto-char start)
    (let* ((from (line-beginning-position))
           (first (gemini-companion-review-hunk-line))
           (last (progn (goto-char end) (gemini-companion-review-hunk-line)))
           (hunk (gemini-companion-review-hunk-at end)))
      (cond ((not (gemini-companion-review-hunk-removed-line)) (list first last nil))
            ((<= (gemini-companion-review-hunk-start hunk) from)
             (list first first (buffer-substring-no-properties from (line-end-position))))
            ;; Above the last removed lines.
            (t (list first (1- last) nil))))))

(defun gemini-companion-review-hunk-without (hunk region)
  "Return the text of HUNK without its changes, or without those in REGION.
It has the faces of its source."
  (let ((text nil)
        (lacking nil))
    (gemini-companion-ui-widened
      (goto-char (gemini-companion-review-hunk-start hunk))
      (while (< (point) (gemini-companion-review-hunk-end hunk))
        (let ((next (min (gemini-companion-review-hunk-end hunk) (line-beginning-position 2))))
          ;; Restore removed lines in it, and keep added ones outside of it.
          (when (eq (or (null region)
                        (and (< (point) (cdr region)) (< (car region) next)))
                    (< (point) (gemini-companion-review-hunk-middle hunk)))
            (push (buffer-substring-no-properties (point) next) text)
            (gemini-companion-review-hunk--copy-faces (point) next (car text))
            (setq lacking (get-text-property (1- next) 'gemini-companion-review-hunk-lacking)))
          (goto-char next))))
    (when lacking
      (push (substring (pop text) 0 -1) text))
    (string-join (nreverse text))))

(defun gemini-companion-review-hunk-describe-place ()
  "Return which hunk point is at, for the header line."
  (let* ((hunks gemini-companion-review-hunk-list)
         (here (seq-position hunks (gemini-companion-review-hunk-at (line-beginning-position))))
         (count (length hunks)))
    (cond (here (format "hunk %d of %d" (1+ here) count))
          ((null hunks) "no hunk left")
          (t (gemini-companion-ui-count count "hunk")))))

(defun gemini-companion-review-hunk-go-to-removed ()
  "If a hunk without added lines ends at point, go to its start."
  (when-let* ((hunk (gemini-companion-review-hunk-at (1- (point))))
              ((= (point) (gemini-companion-review-hunk-middle hunk)
                  (gemini-companion-review-hunk-end hunk))))
    (goto-char (gemini-companion-review-hunk-start hunk))))

;;;; Lines of the two texts

(defun gemini-companion-review-hunk-lines (buffer lines)
  "Return the text of LINES, see `gemini-companion-review-hunk', of BUFFER."
  (with-current-buffer buffer
    (gemini-companion-ui-widened
      (apply #'buffer-substring-no-properties (gemini-companion-review-hunk--bounds lines)))))

(defun gemini-companion-review-hunk-replace (buffer replacements)
  "Make REPLACEMENTS in BUFFER, as one step for undo.
They are a list of (LINES . TEXT), the last lines first."
  (with-current-buffer buffer
    (gemini-companion-ui-widened
      ;; A hook may fail, or the user quit, when only a part is done.
      (atomic-change-group
        (pcase-dolist (`(,lines . ,text) replacements)
          (pcase-let ((`(,start ,end) (gemini-companion-review-hunk--bounds lines))
                      (inhibit-read-only t))
            ;; So that comments go to the new lines, not to those below.
            (combine-change-calls start end
              (delete-region start end)
              (goto-char start)
              (insert text)))))
      (undo-boundary))))

(defun gemini-companion-review-hunk--bounds (lines)
  "Return the start and the end of LINES of the current buffer."
  (let ((first (car lines)))
    (list (gemini-companion-ui-line-start first)
          (gemini-companion-ui-line-start (+ first (cdr lines))))))

(defun gemini-companion-review-hunk-all-undone-p ()
  "Return non-nil if there is nothing to undo in the current buffer.
In that case `undo-only' would undo the last undo."
  (let ((list buffer-undo-list))
    (while (consp list)
      ;; Skip boundaries; after an undo, go on with what it left to undo, t for nothing.
      (setq list (if (car list)
                     (gethash list undo-equiv-table 'no-undo)
                   (cdr list))))
    (memq list '(nil t))))

;;;; Faces, signs and numbers

(defun gemini-companion-review-hunk-decorate (lines &rest sources)
  "Show faces and signs, for LINES lines, where the text comes into view.
Copy faces again when the buffers SOURCES have been fontified further."
  (gemini-companion-review-hunk--set-margin lines)
  (jit-lock-register #'gemini-companion-review-hunk--fontify)
  (let ((buffer (current-buffer)))
    (dolist (source sources)
      (with-current-buffer source
        (add-hook 'gemini-companion-heavy-step-hook
                  (lambda ()
                    (when (buffer-live-p buffer)
                      (with-current-buffer buffer (jit-lock-refontify))))
                  nil t)))))

(defun gemini-companion-review-hunk--set-margin (lines)
  "Make the margin as wide as the numbers of LINES lines, or as signs need.
The numbers are those that the lines have in the proposal."
  (setq gemini-companion-review-hunk--numbers (eq display-line-numbers t)
        left-margin-width
        (cond (gemini-companion-review-hunk--numbers
               (+ 2 (max 2 (or display-line-numbers-width 0) (length (number-to-string lines)))))
              ((and (display-graphic-p)
                    ;; A narrower fringe cuts off the signs.
                    (<= 8 (or left-fringe-width (frame-parameter nil 'left-fringe) 8)))
               0)
              (t 2)))
  (when gemini-companion-review-hunk--numbers
    (setq-local display-line-numbers nil
                fringes-outside-margins t)))

(defun gemini-companion-review-hunk--fontify (start end)
  "Copy faces to the text from START to END from its sources, and show signs."
  (gemini-companion-ui-widened          ; a hunk may be visible only in part
    (goto-char start)
    (setq start (line-beginning-position))
    (while (< start end)
      (pcase-let ((`[,kind ,source ,_ ,line ,from]
                   (get-text-property start 'gemini-companion-review-hunk))
                  (stop (next-single-property-change
                         start 'gemini-companion-review-hunk nil end)))
        (when (buffer-live-p source)
          (remove-text-properties start stop '(face nil))
          (gemini-companion-review-hunk--copy-faces start stop)
          (gemini-companion-review-hunk--mark start stop kind)
          (when gemini-companion-review-hunk--numbers
            (cl-incf line (count-lines from start))
            (goto-char start)
            (while (< (point) stop)
              (put-text-property (point) (progn (forward-line) (min (point) stop)) 'line-prefix
                                 (gemini-companion-review-hunk--prefix kind (cl-incf line))))))
        (setq start stop)))))

(defun gemini-companion-review-hunk--copy-faces (start stop &optional text)
  "Copy the faces that the text from START to STOP has in its source.
Copy them to TEXT, a string of the same length, or else to the buffer."
  (pcase-let ((`[,_ ,source ,offset ,_ ,_]
               (get-text-property start 'gemini-companion-review-hunk)))
    (when (buffer-live-p source)
      (cl-loop with there = (with-current-buffer source
                              (gemini-companion-ui-widened
                                ;; A newline may be lacking there, and it may have been edited.
                                (buffer-substring (min (point-max) (+ start offset))
                                                  (min (point-max) (+ stop offset)))))
               ;; Web mode uses the other property.
               with char-property-alias-alist = '((face font-lock-face))
               with base = (if text 0 start)
               for from = 0 then next
               while (< from (length there))
               for next = (next-single-property-change from 'face there (length there))
               for face = (get-text-property from 'face there)
               if face do (put-text-property (+ base from) (+ base next) 'face face text)))))

(defun gemini-companion-review-hunk--mark (start stop kind)
  "Show that the text from START to STOP is of KIND."
  (unless (eq kind 'context)
    (add-face-text-property start stop (gemini-companion-review-hunk--face kind) t)
    (let ((prefix (gemini-companion-review-hunk--prefix kind nil)))
      (add-text-properties start stop `(line-prefix ,prefix wrap-prefix ,prefix)))
    (pcase-dolist (`(,from ,to ,face) (gemini-companion-review-hunk--words-at start))
      (when (and (< from stop) (< start to))
        (add-face-text-property (max from start) (min to stop) face)))))

(defun gemini-companion-review-hunk--face (kind)
  "Return the face of lines of KIND, or nil."
  (alist-get kind '((removed . gemini-companion-removed) (added . gemini-companion-added))))

(defun gemini-companion-review-hunk--prefix (kind line)
  "Return what precedes a line of KIND, with its number LINE unless that is nil."
  (let ((face (gemini-companion-review-hunk--face kind)))
    (propertize
     " " 'display
     (if (zerop left-margin-width)
         (if (eq kind 'removed) '(left-fringe diff-fringe-del diff-indicator-removed)
           '(left-fringe diff-fringe-add diff-indicator-added))
       `((margin left-margin)
         ,(propertize (format (format "%%s%%%ds " (- left-margin-width 2))
                              (pcase kind ('removed "-") ('added "+") (_ " "))
                              (if (and line (not (eq kind 'removed))) line ""))
                      'face `((:height gemini-companion-review-hunk--margin-height)
                              ,@(and face (list face)) ,@(and line '(line-number)))))))))

(defun gemini-companion-review-hunk--margin-height (height)
  "Return the height of what is in the margin, in a buffer whose text has HEIGHT.
Text Scale mode makes the text larger, but not the margin wider."
  (if (display-graphic-p)
      (min height (face-attribute 'default :height))
    height))

;;;; Words

(defun gemini-companion-review-hunk--words-at (position)
  "Return where words differ in the hunk at POSITION, a list of (START END FACE)."
  (when-let* ((hunk (gemini-companion-review-hunk-at position)))
    (pcase-let (((cl-struct gemini-companion-review-hunk start middle end words) hunk))
      (if (not (eq words 'unknown)) words
        (setf (gemini-companion-review-hunk-words hunk)
              (and (< start middle end)
                   (< (- end start) 20000) ; in a larger one it would take too long
                   (gemini-companion-review-hunk--words start middle end)))))))

(defun gemini-companion-review-hunk--words (start middle end)
  "Return where words differ in the hunk of START, MIDDLE and END, unless most do."
  (pcase-let* ((`(,a . ,a-text) (gemini-companion-heavy-words start middle))
               (`(,b . ,b-text) (gemini-companion-heavy-words middle end))
               (changed 0)
               (ranges nil))
    (seq-doseq (region (gemini-companion-change-regions a-text b-text))
      (pcase-let ((`[,a-start ,a-end ,b-start ,b-end ,_ ,_ ,_] region))
        (cl-incf changed (+ (- a-end a-start) (- b-end b-start)))
        (push (list (aref a a-start) (aref a a-end) 'gemini-companion-removed-word) ranges)
        (push (list (aref b b-start) (aref b b-end) 'gemini-companion-added-word) ranges)))
    (and (< changed (* 0.7 (+ (length a) (length b))))
         (mapcan #'gemini-companion-review-hunk--in-lines ranges))))

(defun gemini-companion-review-hunk--in-lines (range)
  "Return RANGE, (START END FACE), as parts of lines, without whole lines."
  (pcase-let ((`(,start ,end ,face) range))
    (goto-char start)
    (skip-chars-forward " \t" end)
    (if (= (point) end) (list range)     ; only blanks differ
      (cl-loop while (re-search-forward "[^ \t\n].*" end t)
               unless (and (eolp) (= (match-beginning 0) (save-excursion (back-to-indentation)
                                                                         (point))))
               collect (list (match-beginning 0) (point) face)))))

(provide 'gemini-companion-review-hunk)
;;; gemini-companion-review-hunk.el ends here

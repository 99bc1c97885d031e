;;; gemini-companion-position.el --- Where point is, as clients count -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Lines, columns and selections of the current buffer, in time that does not grow with it.  Lines
;; are counted from a line whose number is known; a buffer that is watched keeps that knowledge
;; through edits further down.

;;; Code:

(declare-function apply-on-rectangle "rect")
(declare-function extract-rectangle-line "rect")
(declare-function evil-apply-on-block "ext:evil-common")
(declare-function evil-visual-range "ext:evil-states")
(defvar evil-state)

(defconst gemini-companion-position--max-column 20000
  "Length of the text before point in its line up to which columns are exact.
Beyond, characters count as one, which those outside of Unicode's basic
plane are not.")

(defvar-local gemini-companion-position--known nil
  "A known line, as (TICK POSITION . LINE), or nil.
POSITION is its start, LINE its number; that holds while the text's
`buffer-chars-modified-tick' is TICK.")
(put 'gemini-companion-position--known 'permanent-local t) ; through a revert

;;;; Lines

(defun gemini-companion-position-watch ()
  "Keep what is known of the current buffer's lines through edits below them."
  (add-hook 'before-change-functions #'gemini-companion-position--note-change nil t)
  (add-hook 'after-change-functions #'gemini-companion-position--note-change nil t))

(defun gemini-companion-position-unwatch ()
  "Undo `gemini-companion-position-watch'.
What is known holds until the next edit."
  (remove-hook 'before-change-functions #'gemini-companion-position--note-change t)
  (remove-hook 'after-change-functions #'gemini-companion-position--note-change t))

(defun gemini-companion-position--note-change (start _end &optional length)
  "Forget the known line if a change at START concerns it.
With LENGTH, which is that of the text before, the change was made, and
the tick is a new one; without, it is about to be.  A change of which
nobody is told has another tick in between."
  (when gemini-companion-position--known
    (cond ((< start (cadr gemini-companion-position--known))
           (setq gemini-companion-position--known nil))
          (length
           (setcar gemini-companion-position--known (buffer-chars-modified-tick)))
          ((/= (car gemini-companion-position--known) (buffer-chars-modified-tick))
           (setq gemini-companion-position--known nil)))))

(defun gemini-companion-position-line (position)
  "Return the 1-based number of the line of POSITION in the whole buffer."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char position)
      (let* ((inhibit-field-text-motion t)
             (start (line-beginning-position))
             (line (gemini-companion-position--count start)))
        (setq gemini-companion-position--known
              (cons (buffer-chars-modified-tick) (cons start line)))
        line))))

(defun gemini-companion-position--count (start)
  "Return the number of the line that begins at START.
Count from the nearer of the known line and the first."
  (pcase-let ((`(,tick ,known . ,line) gemini-companion-position--known))
    (cond ((not (and (eql tick (buffer-chars-modified-tick))
                     (< (abs (- start known)) (- start (point-min)))))
           (1+ (gemini-companion-position--lines (point-min) start)))
          ((< start known) (- line (gemini-companion-position--lines start known)))
          (t (+ line (gemini-companion-position--lines known start))))))

(defun gemini-companion-position--lines (start end)
  "Return the number of lines from START to END, both at the start of one."
  (save-restriction
    (narrow-to-region start end)
    ;; This is many times as fast as to go there.
    (1- (line-number-at-pos end))))

(put 'gemini-companion-position--note-change 'permanent-local-hook t)

;;;; Columns

(defun gemini-companion-position-character (position)
  "Return the 1-based column of POSITION in UTF-16 code units.
For its limit see `gemini-companion-position--max-column'."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char position)
      (let* ((inhibit-field-text-motion t)
             (start (line-beginning-position))
             (count (- position start)))
        (1+ (if (or (= count (- (position-bytes position) (position-bytes start)))
                    (> count gemini-companion-position--max-column))
                count                   ; all ASCII, or too much to look at
              (/ (string-bytes (encode-coding-string
                                (buffer-substring-no-properties start position)
                                'utf-16le t))
                 2)))))))

;;;; Selections

(defun gemini-companion-position-selection (point limit)
  "Return what is selected if point is at POINT, or nil if nothing is.
That is the active region, the rectangle if it is one, or what Evil's
visual state shows.  What is longer than LIMIT characters ends somewhere
beyond them."
  (cond ((and (eq (bound-and-true-p evil-state) 'visual) (fboundp 'evil-visual-range))
         ;; For blocks it switches Transient Mark mode off.
         (gemini-companion-position--evil-selection limit))
        ((not (and transient-mark-mode mark-active (mark t))) nil)
        ((= point (mark t)) nil)
        (t (let ((start (min point (mark t)))
                 (end (max point (mark t))))
             (if (bound-and-true-p rectangle-mark-mode)
                 (gemini-companion-position--rows
                  (lambda (collect) (apply-on-rectangle collect start end)) limit)
               (gemini-companion-position--text start end limit))))))

(defun gemini-companion-position--evil-selection (limit)
  "Return what Evil shows as selected; LIMIT is a number of characters."
  (pcase-let ((`(,start ,end ,type . ,_) (evil-visual-range)))
    (if (eq type 'block)
        (gemini-companion-position--rows
         (lambda (collect) (evil-apply-on-block collect start end t)) limit)
      (gemini-companion-position--text start end limit))))

(defun gemini-companion-position--text (start end limit)
  "Return the text from START to END, as far as it is accessible.
LIMIT is a number of characters beyond which nothing is needed."
  (let* ((start (max start (point-min)))
         (end (min end (point-max) (+ start limit))))
    (and (< start end) (buffer-substring-no-properties start end))))

(defun gemini-companion-position--rows (walk limit)
  "Return the rows of a rectangle as lines.
WALK calls a function at the start of each line with the two columns of
the rectangle.  LIMIT is a number of characters beyond which nothing is
needed."
  (require 'rect)
  (let ((rows (list nil)))
    (save-excursion
      (catch 'enough
        (funcall walk (lambda (from to)
                        (extract-rectangle-line from to rows)
                        (setq limit (- limit 1 (length (cadr rows))))
                        (when (< limit 0) (throw 'enough nil))))))
    (substring-no-properties (mapconcat #'identity (nreverse (cdr rows)) "\n"))))

(provide 'gemini-companion-position)
;;; gemini-companion-position.el ends here

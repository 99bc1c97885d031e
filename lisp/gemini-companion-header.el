;;; gemini-companion-header.el --- The header line of a review -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Says in one line what a review is: what to be careful about, which file, how large the change is,
;; which keys decide it, whose it is.  What matters most stays where the window is narrow.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-compare)
(require 'gemini-companion-decide)
(require 'gemini-companion-log)
(require 'gemini-companion-review)

(cl-defstruct (gemini-companion-header--piece
               (:constructor gemini-companion-header--make (text rank))
               (:copier nil))
  "A part of a header line."
  (text nil :documentation "What it says.")
  (rank 0 :documentation "Of several pieces the one with the highest rank is left out first;
with rank 0 it stays."))

(defconst gemini-companion-header--path-rank 2
  "Rank of the directories of the file, which are left out before its name.")

(defvar gemini-companion-header--maps nil
  "Commands, and the keymaps that let a click on their keys call them.")

;;;; The line

(defun gemini-companion-header (review title keys)
  "Return the header line for a buffer of REVIEW in the window being displayed.
TITLE says what that shows, or is nil.  KEYS are (COMMAND LABEL), the most
important first; of the first two there is always room."
  (gemini-companion-header--fit
   (delq nil
         (append (gemini-companion-header--remarks review)
                 (list (and title (gemini-companion-header--make title 4))
                       (gemini-companion-header--path review)
                       (gemini-companion-header--size review))
                 (gemini-companion-header--keys keys)
                 (list (gemini-companion-header--make
                        (gemini-companion-review-client-title review) 20))))
   ;; For the space before it.
   (1- (window-width))))

(defun gemini-companion-header-title (review title)
  "Return a header line that says only TITLE and the file of REVIEW."
  (gemini-companion-header--fit (list (gemini-companion-header--make title 0)
                                      (gemini-companion-header--path review))
                                (1- (window-width))))

(defun gemini-companion-header--remarks (review)
  "Return pieces that say what to be careful about with REVIEW.
For the first there is always room."
  (cl-loop for remark in (gemini-companion-review-remarks review)
           for rank = 0 then 3
           collect (gemini-companion-header--make (propertize remark 'face 'warning) rank)
           if (and (= rank 0) (gemini-companion-review-conflict review))
           collect (gemini-companion-header--make
                    (gemini-companion-header-key #'gemini-companion-review-merge "merges")
                    0)))

(defun gemini-companion-header--path (review)
  "Return the piece that says which file REVIEW is of."
  (gemini-companion-header--make
   (propertize (gemini-companion-review-place review)
               'help-echo (gemini-companion-log-one-line (gemini-companion-review-path review)))
   gemini-companion-header--path-rank))

(defun gemini-companion-header--size (review)
  "Return the piece that says how large the change of REVIEW is."
  (let ((change (gemini-companion-review-change review)))
    (gemini-companion-header--make
     (concat (if (gemini-companion-change-new change) "new file " "")
             (gemini-companion-change-size change))
     1)))

(defun gemini-companion-header--keys (keys)
  "Return a piece for each of KEYS, of the form (COMMAND LABEL)."
  (cl-loop for (command label) in keys
           for index from 0
           collect (gemini-companion-header--make
                    (gemini-companion-header-key command label)
                    (if (< index 2) 0 (+ 4 index)))))

(defun gemini-companion-header-key (command label)
  "Return the key of COMMAND and LABEL, on which one can click."
  (propertize (concat (substitute-command-keys (format "\\[%s]" command)) " " label)
              'mouse-face 'header-line-highlight
              'help-echo (format "mouse-1: %s" label)
              'keymap (gemini-companion-header--map command)))

(defun gemini-companion-header--map (command)
  "Return a keymap in which a click on a header line calls COMMAND."
  (or (alist-get command gemini-companion-header--maps)
      (let ((map (make-sparse-keymap))
            (press (lambda (event)
                     (interactive "e")
                     (select-window (posn-window (event-start event)))
                     (call-interactively command))))
        (define-key map [header-line mouse-1] press)
        ;; Tabulated List mode takes the first for this one where there is a `mouse-face'.
        (define-key map [header-line mouse-2] press)
        (setf (alist-get command gemini-companion-header--maps) map))))

;;;; Room

(defun gemini-companion-header--fit (pieces width)
  "Return PIECES in one line, less of what matters least if WIDTH asks for that."
  (let ((pieces (copy-sequence pieces)))
    (while (when-let* ((excess (gemini-companion-header--excess pieces width))
                       (least (gemini-companion-header--least pieces)))
             (setq pieces (gemini-companion-header--spare pieces least excess))))
    (mapconcat #'gemini-companion-header--piece-text pieces "  ")))

(defun gemini-companion-header--spare (pieces least excess)
  "Return PIECES without LEAST, or with a path by EXCESS columns shorter."
  (if (= (gemini-companion-header--piece-rank least) gemini-companion-header--path-rank)
      (mapcar (lambda (piece)
                (if (eq piece least) (gemini-companion-header--shorten piece excess) piece))
              pieces)
    (delq least pieces)))

(defun gemini-companion-header--excess (pieces width)
  "Return for how many columns of PIECES WIDTH has no room, nil if it has for all."
  (let ((needed (cl-loop for piece in pieces
                         sum (+ 2 (string-width (gemini-companion-header--piece-text piece))))))
    (and (> needed (+ width 2))
         (- needed width 2))))

(defun gemini-companion-header--least (pieces)
  "Return of PIECES the one that can be left out first, or nil."
  (let ((least (car (sort (copy-sequence pieces)
                          (lambda (one other)
                            (> (gemini-companion-header--piece-rank one)
                               (gemini-companion-header--piece-rank other)))))))
    (and (> (gemini-companion-header--piece-rank least) 0)
         least)))

(defun gemini-companion-header--shorten (path excess)
  "Return a piece that says the end of PATH, a piece, by EXCESS columns shorter.
The name of the file stays."
  (let* ((text (gemini-companion-header--piece-text path))
         (name (string-width (file-name-nondirectory text)))
         (room (max name (- (string-width text) excess 1))))
    (gemini-companion-header--make
     (concat (and (> room name) "…") (truncate-string-to-width
                                      text (string-width text) (- (string-width text) room)))
     0)))

(provide 'gemini-companion-header)
;;; gemini-companion-header.el ends here

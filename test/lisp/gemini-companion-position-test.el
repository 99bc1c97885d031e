;;; gemini-companion-position-test.el --- Tests of lines, columns and selections  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'rect)
(require 'gemini-companion-context)

(defconst gemini-companion-position-test--alphabet
  [?a ?b ?\s ?\t ?\r ?é ?ü ?漢 ?字 ?😀 ?𝕏 ?\u0301 ?\u200d ?\n ?\n]
  "Characters that take one, two, three and four bytes, some no column.")

(defun gemini-companion-position-test--random-text (length)
  "Return a random text of LENGTH characters."
  (let ((alphabet gemini-companion-position-test--alphabet))
    (apply #'string (cl-loop repeat length
                             collect (aref alphabet (random (length alphabet)))))))

(defun gemini-companion-position-test--count (position)
  "Return line and character of POSITION, counted one by one."
  (save-restriction
    (widen)
    (let ((line 1) (character 1))
      (cl-loop for at from (point-min) below position
               for char = (char-after at)
               do (if (eq char ?\n)
                      (setq line (1+ line)
                            character 1)
                    (setq character (+ character (if (> char #xffff) 2 1)))))
      (list line character))))

(defun gemini-companion-position-test--random-edit ()
  "Edit the current buffer at random."
  (let* ((position (+ (point-min) (random (1+ (- (point-max) (point-min))))))
         (end (min (point-max) (+ position (random 8)))))
    (pcase (random 3)
      (0 (save-excursion
           (goto-char position)
           (insert (gemini-companion-position-test--random-text (random 8)))))
      (1 (delete-region position end))
      (_ (upcase-region position end)))))

(ert-deftest gemini-companion-position/agrees-with-counting-one-by-one ()
  "In 1 000 random buffers, edited and narrowed at random."
  (random "gemini-companion-context")
  (dotimes (n 1000)
    (with-temp-buffer
      (insert (gemini-companion-position-test--random-text (random 200)))
      (dotimes (_ 5)
        (let ((position (1+ (random (1+ (buffer-size))))))
          (when (zerop (random 2))
            (narrow-to-region position (min (point-max) (+ position (random 20)))))
          (ert-info ((format "buffer %d, position %d" n position))
            (should (equal (gemini-companion-context-line-and-character position)
                           (gemini-companion-position-test--count position))))
          (widen)
          (gemini-companion-position-test--random-edit))))))

(ert-deftest gemini-companion-position/agrees-in-indirect-buffers ()
  (with-temp-buffer
    (insert "1\n2\n3\n")
    (let ((indirect (make-indirect-buffer (current-buffer) "indirect")))
      (unwind-protect
          (let ((line (lambda () (with-current-buffer indirect
                                   (car (gemini-companion-context-line-and-character (point-max)))))))
            (should (= (funcall line) 4))
            (goto-char 1)
            (insert "0\n")
            (should (= (funcall line) 5)))
        (kill-buffer indirect)))))

(ert-deftest gemini-companion-position/fields-and-folds-do-not-matter ()
  (with-temp-buffer
    (insert (propertize "prompt> " 'field 'prompt) "text\n")
    (should (equal (gemini-companion-context-line-and-character 12) '(1 12)))
    (insert "folded\nlines\n")
    (put-text-property 14 20 'invisible t)
    (setq selective-display 1)
    (should (equal (gemini-companion-context-line-and-character (point-max)) '(4 1)))))

(ert-deftest gemini-companion-position/the-user-s-state-is-left-alone ()
  (with-temp-buffer
    (insert "one\ntwo é three\n")
    (goto-char 8)
    (push-mark 2 t t)
    (narrow-to-region 2 10)
    (string-match "b\\(c\\)" "abcd")
    (let ((state (lambda () (list (point) (mark t) mark-active (match-data) (point-min)
                                  (point-max) buffer-undo-list kill-ring)))
          (before (list (point) (mark t) mark-active (match-data) (point-min)
                        (point-max) buffer-undo-list kill-ring)))
      (gemini-companion-context-line-and-character 8)
      (let ((transient-mark-mode t))
        (gemini-companion-context--selection 8 100)
        (let ((rectangle-mark-mode t))
          (gemini-companion-context--selection 8 100)))
      (should (equal (funcall state) before)))))

;;;; Selections

(defmacro gemini-companion-position-test--with-region (text point mark &rest body)
  "Evaluate BODY with TEXT in a buffer, and the region from MARK to POINT active."
  (declare (indent 3) (debug t))
  `(with-temp-buffer
     (let ((transient-mark-mode t))
       (insert ,text)
       (goto-char ,point)
       (push-mark ,mark t t)
       ,@body)))

(ert-deftest gemini-companion-position/the-region-counts-in-both-directions ()
  (gemini-companion-position-test--with-region "one two three" 8 5
    (should (equal (gemini-companion-context--selection 8 100) "two")))
  (gemini-companion-position-test--with-region "one two three" 5 8
    (should (equal (gemini-companion-context--selection 5 100) "two"))
    (deactivate-mark)
    (should-not (gemini-companion-context--selection 5 100)))
  (gemini-companion-position-test--with-region "one" 2 2
    (should-not (gemini-companion-context--selection 2 100))))

(ert-deftest gemini-companion-position/a-region-beyond-the-narrowing-is-cut ()
  (gemini-companion-position-test--with-region "one two three" 8 1
    (narrow-to-region 5 10)
    (should (equal (gemini-companion-context--selection 8 100) "two"))))

(ert-deftest gemini-companion-position/long-selections-are-cut ()
  (gemini-companion-position-test--with-region (make-string 50000 ?x) 1 50001
    (should (= (length (gemini-companion-context--selection 1 16384)) 16384))))

(ert-deftest gemini-companion-position/rectangles-are-rows ()
  (gemini-companion-position-test--with-region "abcd\nefgh\nijkl\n" 9 2
    (let ((rectangle-mark-mode t))
      (should (equal (gemini-companion-context--selection 9 100) "bc\nfg"))
      (should (equal (gemini-companion-context--selection 9 100)
                     (mapconcat #'identity (extract-rectangle 2 9) "\n")))))
  (gemini-companion-position-test--with-region
      (mapconcat #'identity (make-list 20000 "abcd") "\n") 2 99999
    (let ((rectangle-mark-mode t))
      (should (<= 100 (length (gemini-companion-context--selection 2 100)) 110)))))

;;; gemini-companion-position-test.el ends here

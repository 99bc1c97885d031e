;;; gemini-companion-menu-test.el --- Tests of the menu and the keymap  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion)
(require 'gemini-companion-menu)

(defun gemini-companion-menu-test--keys ()
  "Return the keys and commands of the menu, sorted."
  (sort (gemini-companion-menu-test--suffixes
         (get 'gemini-companion-menu 'transient--layout))
        (lambda (a b) (string< (car a) (car b)))))

(defun gemini-companion-menu-test--suffixes (layout)
  "Return the keys and commands in LAYOUT.
How a suffix is kept there depends on the version of Transient."
  (cond ((vectorp layout)
         (gemini-companion-menu-test--suffixes (append layout nil)))
        ((not (proper-list-p layout)) nil)
        ((memq :command layout)
         (list (cons (cadr (memq :key layout)) (cadr (memq :command layout)))))
        (t (mapcan #'gemini-companion-menu-test--suffixes layout))))

(ert-deftest gemini-companion-menu/the-keymap-has-the-keys-of-the-menu ()
  (let (bound)
    (map-keymap (lambda (key command) (push (cons (key-description (vector key)) command) bound))
                gemini-companion-command-map)
    (should (equal (seq-remove (lambda (it) (eq (cdr it) 'gemini-companion-menu))
                               (sort bound (lambda (a b) (string< (car a) (car b)))))
                   (gemini-companion-menu-test--keys)))))

(ert-deftest gemini-companion-menu/all-are-commands-with-documentation ()
  (should (> (length (gemini-companion-menu-test--keys)) 10))
  (pcase-dolist (`(,_ . ,command) (gemini-companion-menu-test--keys))
    (ert-info ((format "%s" command))
      (should (commandp command))
      (should (documentation command)))))

(ert-deftest gemini-companion-menu/no-global-key-is-bound ()
  (map-keymap (lambda (_ binding)
                (should-not (string-prefix-p "gemini-companion" (format "%s" binding))))
              global-map))

;;; gemini-companion-menu-test.el ends here

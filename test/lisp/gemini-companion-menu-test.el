;;; gemini-companion-menu-test.el --- Tests of the menu and the keymap  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion)
(require 'gemini-companion-menu)
(require 'gemini-companion-test-companion)

(defun gemini-companion-menu-test--keys ()
  "Return the keys and commands of the menu, sorted."
  (sort (gemini-companion-menu-test--suffixes
         (get 'gemini-companion-menu 'transient--layout))
        (lambda (a b) (string< (car a) (car b)))))

(defun gemini-companion-menu-test--suffixes (layout)
  "Return the keys and commands in LAYOUT.
Its format depends on the version of Transient."
  (cond ((vectorp layout)
         (gemini-companion-menu-test--suffixes (append layout nil)))
        ((not (proper-list-p layout)) nil)
        ((memq :command layout)
         (list (cons (cadr (memq :key layout)) (cadr (memq :command layout)))))
        (t (mapcan #'gemini-companion-menu-test--suffixes layout))))

(defconst gemini-companion-menu-test--rare
  '(gemini-companion-setup gemini-companion-connect gemini-companion-disconnect
                           gemini-companion-comments-send
                           gemini-companion-log gemini-companion-mode gemini-companion-accept-all)
  "Commands of the menu that have no key below the prefix.")

(ert-deftest gemini-companion-menu/it-may-be-the-first-command ()
  "That is, of this package in a new Emacs, where there are only the autoloads."
  (with-temp-buffer
    (let ((directory (gemini-companion-test-path "lisp")))
      (call-process
       (expand-file-name invocation-name invocation-directory) nil t nil
       "-Q" "--batch" "-L" directory "-l" "gemini-companion-autoloads" "--eval"
       (prin1-to-string '(progn (call-interactively #'gemini-companion-menu)
                                (princ (with-current-buffer " *transient*" (buffer-string)))))))
    (should (string-match-p "^Gemini companion: off$" (buffer-string)))))

(ert-deftest gemini-companion-menu/the-keymap-has-the-keys-of-the-menu ()
  "But not those of commands that are rarely needed."
  (let (bound)
    ;; Each binding is a pair of a name and a command.
    (map-keymap (pcase-lambda (key `(,_ . ,command))
                  (push (cons (key-description (vector key)) command) bound))
                gemini-companion-command-map)
    (should (equal (seq-remove (lambda (it) (eq (cdr it) 'gemini-companion-menu))
                               (sort bound (lambda (a b) (string< (car a) (car b)))))
                   (seq-remove (lambda (it) (memq (cdr it) gemini-companion-menu-test--rare))
                               (gemini-companion-menu-test--keys))))))

(ert-deftest gemini-companion-menu/the-keymap-has-short-names ()
  (map-keymap (lambda (_ binding)
                (should (< 1 (length (car binding)) 17))
                (should (eq (lookup-key gemini-companion-command-map
                                        (car (where-is-internal
                                              (cdr binding)
                                              (list gemini-companion-command-map))))
                            (cdr binding))))
              gemini-companion-command-map)
  (should (equal (substring-no-properties
                  (substitute-command-keys
                   "\\<gemini-companion-command-map>\\[gemini-companion-review-list]"))
                 "l"))
  (should (string-match-p "^l[ \t]+gemini-companion-review-list$"
                          (substring-no-properties
                           (substitute-command-keys "\\{gemini-companion-command-map}")))))

(defun gemini-companion-menu-test--items (menu)
  "Return the items of MENU, a keymap, and of its submenus."
  (let (items)
    (map-keymap (lambda (_ item)
                  (pcase item
                    (`(menu-item ,_ ,(and inner (pred keymapp)) . ,_)
                     (setq items (append (gemini-companion-menu-test--items inner) items)))
                    (`(menu-item ,_ ,(pred identity) . ,_)
                     (push (cdr item) items))))
                menu)
    items))

(defun gemini-companion-menu-test--bar ()
  "Return an alist of the labels in the menu bar and whether they are enabled."
  (mapcar (pcase-lambda (`(,label ,_ . ,properties))
            (cons (eval label t)
                  (or (not (plist-member properties :enable))
                      (and (eval (plist-get properties :enable) t) t))))
          (gemini-companion-menu-test--items gemini-companion-menu-bar)))

(ert-deftest gemini-companion-menu/the-menu-bar-has-a-menu-while-the-mode-is-on ()
  (let ((shown (lambda () (lookup-key (make-composed-keymap (current-minor-mode-maps))
                                      [menu-bar gemini]))))
    (should-not (keymapp (funcall shown)))
    (gemini-companion-test-with-project
      (gemini-companion-mode 1)
      (should (keymapp (funcall shown)))
      (gemini-companion-mode -1)
      (should-not (keymapp (funcall shown))))))

(ert-deftest gemini-companion-menu/the-menu-bar-enables-what-makes-sense ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-wait "the client"
                                (lambda () (= gemini-companion-bridge-clients 1)))
    (let ((bar (gemini-companion-menu-test--bar)))
      (should (assoc "Status: 1 client, no change waits" bar))
      (should (cdr (assoc "Compose a Prompt" bar)))
      (should-not (cdr (assoc "Accept Change" bar))))
    (gemini-companion-test-propose client "a.txt" "x")
    (let ((bar (gemini-companion-menu-test--bar)))
      (should (assoc "Status: 1 client, 1 change waits for you" bar))
      (should (cdr (assoc "Accept Change" bar)))))
  (should-not (cdr (assoc "Compose a Prompt" (gemini-companion-menu-test--bar)))))

(ert-deftest gemini-companion-menu/the-menu-bar-has-the-commands-of-the-menu ()
  (let ((commands (cons 'gemini-companion-mode
                        (mapcar #'cadr (gemini-companion-menu-test--items
                                        gemini-companion-menu-bar)))))
    (pcase-dolist (`(,_ . ,command) (gemini-companion-menu-test--keys))
      (ert-info ((format "%s" command))
        (should (memq command commands))))))

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

;;; screenshot.el --- Screenshots of a review  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Run by `make screenshot': Gemini CLI in vterm in a graphical Emacs, with a
;; stand-in for its model, proposes a change; the frame with the review is
;; written to a file, in each view.  Needs DISPLAY, and an Emacs with
;; graphical frames in GEMINI_COMPANION_TEST_EMACS.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defconst gemini-companion-screenshot--file "src/greet.py"
  "The file to be changed.")

(defconst gemini-companion-screenshot--before
  "\"\"\"Greetings for people.\"\"\"

import sys


def greet(name):
    print(\"Hello \" + name)


def main():
    for name in sys.argv[1:]:
        greet(name)


if __name__ == \"__main__\":
    main()
"
  "The text of the file before the change.")

(defconst gemini-companion-screenshot--after
  "\"\"\"Greetings for people.\"\"\"

import sys


def greet(name: str, excited: bool = False) -> None:
    \"\"\"Greet somebody by NAME.\"\"\"
    end = \"!\" if excited else \".\"
    print(f\"Hello {name}{end}\")


def main() -> None:
    for name in sys.argv[1:]:
        greet(name, excited=len(name) > 4)


if __name__ == \"__main__\":
    main()
"
  "The proposed text of the file.")

(defconst gemini-companion-screenshot--prompt "add types, and some excitement"
  "The prompt of the user.")

(defvar gemini-companion-screenshot-size '(200 . 44)
  "Columns and lines of the frame.")

(defvar gemini-companion-screenshot-theme nil
  "Theme of the frame, or nil for that of Emacs.")

(defun gemini-companion-screenshot--open-frame (emacs)
  "Show the file in a graphical frame of EMACS, and select the frame."
  (gemini-companion-test-eval
   emacs `(progn
            ,(and gemini-companion-screenshot-theme
                  `(load-theme ',gemini-companion-screenshot-theme t))
            (select-frame
             (make-frame-on-display
              ,(getenv "DISPLAY")
              '((width . ,(car gemini-companion-screenshot-size))
                (height . ,(cdr gemini-companion-screenshot-size))
                (font . "DejaVu Sans Mono-11")
                (tool-bar-lines . 0) (menu-bar-lines . 0)
                (vertical-scroll-bars . nil))))
            (switch-to-buffer ,(file-name-nondirectory gemini-companion-screenshot--file))
            nil)))

(defun gemini-companion-screenshot--start (emacs)
  "Run a CLI beside the file in the selected frame of EMACS; return it."
  (let ((cli (gemini-companion-test-cli-make emacs (gemini-companion-test-project emacs)
                                             'inside)))
    (setf (gemini-companion-test-cli-emacs cli) emacs
          (gemini-companion-test-cli-pid cli)
          (gemini-companion-test-eval
           emacs
           `(progn
              (setq load-path (append ',(gemini-companion-test-terminal-directories 'vterm)
                                      load-path)
                    gemini-companion-program ,(gemini-companion-test-cli-file cli "launch")
                    gemini-companion-terminal 'vterm)
              (gemini-companion-run)
              (process-id (get-buffer-process (window-buffer))))))
    cli))

(defun gemini-companion-screenshot--take (emacs file)
  "Write an image of the graphical frame of EMACS to FILE."
  (gemini-companion-test-eval
   emacs `(progn
            (redisplay t)
            (let ((coding-system-for-write 'no-conversion))
              (write-region (x-export-frames nil 'png) nil ,file nil 'silent))
            nil)))

(defun gemini-companion-screenshot--wait-terminal (emacs text)
  "Wait until the window of the CLI of EMACS shows TEXT."
  (gemini-companion-test-wait-eval
   emacs `(let ((buffer (caar (gemini-companion-cli-run-terminals))))
            (with-current-buffer buffer
              (save-excursion
                (goto-char (window-start (get-buffer-window buffer t)))
                (search-forward ,text nil t))))))

(defun gemini-companion-screenshot--show (emacs view)
  "Show the proposed change in EMACS by the function VIEW."
  (gemini-companion-test-eval
   emacs `(let ((review (car (gemini-companion-review-all-open))))
            (when (gemini-companion-review-shown-p review)
              (gemini-companion-review-postpone review))
            (setq gemini-companion-diff-function ',view
                  gemini-companion-diff-focus 'keep)
            (gemini-companion-review-popup--show review)
            (gemini-companion-ui--show-messages)
            nil))
  ;; The CLI redraws its screen, since its terminal may have another size.
  (gemini-companion-screenshot--wait-terminal emacs "Allow once"))

(defun gemini-companion-screenshot (pictures)
  "Write PICTURES of a review, an alist of files and the functions that show it."
  (gemini-companion-test-with-emacs
      (emacs :files `((,gemini-companion-screenshot--file
                       . ,gemini-companion-screenshot--before))
             :size gemini-companion-screenshot-size)
    (gemini-companion-test-visit emacs gemini-companion-screenshot--file)
    (gemini-companion-test-eval
     emacs '(progn (global-set-key (kbd "C-c g") 'gemini-companion-command-map)
                   (setq gemini-companion-diff-focus 'announce)))
    (gemini-companion-screenshot--open-frame emacs)
    (let ((gemini-companion-test-cli-colors t))
      (gemini-companion-test-with-cli (cli (gemini-companion-screenshot--start emacs))
        (gemini-companion-test-cli-wait-log cli "Discovered [0-9]+ tools from IDE")
        (gemini-companion-screenshot--wait-terminal emacs "Type your message")
        (gemini-companion-test-cli-script
         cli `("write_file"
               :file_path ,(gemini-companion-test-project
                            emacs gemini-companion-screenshot--file)
               :content ,gemini-companion-screenshot--after)
         "Done")
        (gemini-companion-test-eval
         emacs `(progn (gemini-companion-send-prompt ,gemini-companion-screenshot--prompt) nil))
        (gemini-companion-test-wait-eval emacs '(= 1 (gemini-companion-review-count)))
        (gemini-companion-screenshot--wait-terminal emacs "Allow once")
        (pcase-dolist (`(,file . ,view) pictures)
          (gemini-companion-screenshot--show emacs view)
          (gemini-companion-screenshot--take emacs (expand-file-name file)))))))

(provide 'screenshot)
;;; screenshot.el ends here

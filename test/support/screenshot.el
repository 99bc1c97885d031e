;;; screenshot.el --- A picture of a review  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What `make screenshot' runs: Gemini CLI in a terminal of a graphical Emacs,
;; with a stand-in for its model, proposes a change; the frame with the review
;; is drawn into a file.  Expects DISPLAY, and in GEMINI_COMPANION_TEST_EMACS
;; an Emacs that can draw there.

;;; Code:

(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defconst gemini-companion-screenshot--file "src/greet.py"
  "The file that the change is of.")

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
  "The file before.")

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
  "The file as it is proposed.")

(defconst gemini-companion-screenshot--size '(150 . 48)
  "Columns and lines of the frame.")

(defun gemini-companion-screenshot--open-frame (emacs)
  "Show the terminal of EMACS in a graphical frame, and nowhere else."
  (gemini-companion-test-eval
   emacs `(let ((terminal (get-buffer "*terminal*")))
            (switch-to-buffer "*scratch*")
            (select-frame
             (make-frame-on-display
              ,(getenv "DISPLAY")
              '((width . ,(car gemini-companion-screenshot--size))
                (height . ,(cdr gemini-companion-screenshot--size))
                (font . "DejaVu Sans Mono-11")
                (tool-bar-lines . 0) (menu-bar-lines . 0)
                (vertical-scroll-bars . nil))))
            (switch-to-buffer terminal)
            nil)))

(defun gemini-companion-screenshot--take (emacs file)
  "Draw the graphical frame of EMACS into FILE."
  (gemini-companion-test-eval
   emacs `(progn
            (redisplay t)
            (let ((coding-system-for-write 'no-conversion))
              (write-region (x-export-frames nil 'png) nil ,file nil 'silent))
            nil)))

(defun gemini-companion-screenshot (file)
  "Take a picture of a review and write it to FILE."
  (gemini-companion-test-with-emacs
      (emacs :files `((,gemini-companion-screenshot--file
                       . ,gemini-companion-screenshot--before))
             :size gemini-companion-screenshot--size)
    (gemini-companion-test-visit emacs gemini-companion-screenshot--file)
    (gemini-companion-test-eval emacs '(setq gemini-companion-diff-policy 'queue))
    (gemini-companion-test-with-cli
        (cli (gemini-companion-test-cli-start-in-term emacs))
      (gemini-companion-screenshot--open-frame emacs)
      (gemini-companion-test-cli-script
       cli `("write_file"
             :file_path ,(gemini-companion-test-project
                          emacs gemini-companion-screenshot--file)
             :content ,gemini-companion-screenshot--after)
       "Done")
      (gemini-companion-test-eval
       emacs '(progn (term-send-raw-string "add types, and some excitement") nil))
      (gemini-companion-test-wait-eval
       emacs '(with-current-buffer "*terminal*"
                (string-search "excitement" (buffer-string))))
      (gemini-companion-test-eval emacs '(progn (term-send-raw-string "\r") nil))
      (gemini-companion-test-wait-eval
       emacs '(and (= 1 (gemini-companion-review-count))
                   (with-current-buffer "*terminal*"
                     (string-search "Allow once" (buffer-string)))))
      (gemini-companion-test-eval
       emacs '(progn (gemini-companion-review-show
                      (car (gemini-companion-review-list-open)) 'keep)
                     (message "Gemini CLI proposes a change of greet.py")
                     nil))
      ;; The terminal is smaller now, and the CLI draws itself anew.
      (gemini-companion-test-wait-eval
       emacs '(with-current-buffer "*terminal*"
                (save-excursion
                  (goto-char (window-start (get-buffer-window)))
                  (and (search-forward "Allow once" nil t)
                       (search-forward "╯" nil t)))))
      (gemini-companion-screenshot--take emacs file))))

(provide 'screenshot)
;;; screenshot.el ends here

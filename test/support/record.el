;;; record.el --- A recording of a review  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Run by `make record': in a real Emacs, Gemini CLI with a stand-in for its
;; model proposes a change, which is reviewed and accepted.  Each screen becomes
;; a frame of an SVG image, which is animated by CSS, without scripts, so that
;; it plays wherever images are shown.

;;; Code:

(require 'xml)
(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defconst gemini-companion-record--file "src/greet.py"
  "The file to be changed.")

(defconst gemini-companion-record--before
  "import sys


def greet(name):
    print(\"Hello \" + name)


for name in sys.argv[1:]:
    greet(name)
"
  "The text of the file before the change.")

(defconst gemini-companion-record--after
  "import sys


def greet(name: str, excited: bool = False) -> None:
    \"\"\"Greet somebody by NAME.\"\"\"
    end = \"!\" if excited else \".\"
    print(f\"Hello {name}{end}\")


for name in sys.argv[1:]:
    greet(name, excited=len(name) > 4)
"
  "The proposed text of the file.")

(defconst gemini-companion-record--prompt "add types, and some excitement"
  "The prompt of the user.")

(defconst gemini-companion-record--size '(110 . 32)
  "Columns and lines of the terminal.")

(defvar gemini-companion-record--frames nil
  "The frames taken so far, the last one first.
Each is (CAPTION SECONDS CURSOR . SCREEN): the cursor is (COLUMN . LINE), and
the screen text with escape sequences.")

;;;; What is recorded

(defun gemini-companion-record--take (emacs seconds caption)
  "Take the screen of EMACS as a frame, shown for SECONDS with CAPTION."
  (gemini-companion-test-eval emacs '(redisplay t))
  (let ((tmux (lambda (&rest arguments)
                (apply #'gemini-companion-test--tmux emacs
                       (append arguments (list "-t" gemini-companion-test-pane)))))
        screen)
    ;; A program may draw in several steps.
    (gemini-companion-test-wait
     "the screen to be still"
     (lambda () (equal screen (setq screen (funcall tmux "capture-pane" "-e" "-p" "-N")))))
    (push (cons caption
                (cons seconds
                      (cons (gemini-companion-record--cursor
                             (gemini-companion-test--tmux
                              emacs "display-message" "-p" "-t" gemini-companion-test-pane
                              "#{cursor_flag} #{cursor_x} #{cursor_y}"))
                            screen)))
          gemini-companion-record--frames)))

(defun gemini-companion-record--cursor (text)
  "Return the cursor, (COLUMN . LINE), in TEXT, three numbers; nil if it is hidden."
  (pcase (mapcar #'string-to-number (split-string text))
    (`(1 ,column ,line) (cons column line))))

(defun gemini-companion-record--terminal ()
  "Return the terminal emulator for the CLI: vterm if it is there."
  (if (file-expand-wildcards "/usr/share/emacs/site-lisp/elpa-src/vterm-*") 'vterm 'term))

(defun gemini-companion-record--look (emacs)
  "Set up the appearance of EMACS."
  (gemini-companion-test-eval
   emacs '(progn (load-theme 'modus-operandi t)
                 (global-set-key (kbd "C-c g") 'gemini-companion-command-map)
                 (setq gemini-companion-diff-function 'auto)
                 (require 'disp-table)
                 (setq frame-background-mode 'light)
                 (frame-set-background-mode nil)
                 (set-display-table-slot standard-display-table 'vertical-border ?│)
                 nil)))

(defun gemini-companion-record--in-terminal (emacs cli text)
  "Wait until the terminal of CLI in EMACS shows TEXT on the screen."
  (gemini-companion-test-cli-wait-terminal cli (regexp-quote text))
  (gemini-companion-test-wait-screen emacs (regexp-quote text)))

(defun gemini-companion-record--play (emacs cli)
  "Let CLI propose a change, and the user of EMACS accept it; take the frames."
  (gemini-companion-test-eval emacs '(message nil))
  (gemini-companion-record--take emacs 2 "M-x gemini-companion-run: Gemini CLI beside your file")
  (gemini-companion-test-cli-script
   cli `("write_file"
         :file_path ,(gemini-companion-test-project emacs gemini-companion-record--file)
         :content ,gemini-companion-record--after)
   "Done.")
  (gemini-companion-test-type emacs gemini-companion-record--prompt)
  (gemini-companion-record--in-terminal emacs cli "excitement")
  (gemini-companion-record--take emacs 1.5 "Ask it for a change")
  ;; A key right after text is taken as a part of it.
  (sleep-for 0.6)
  (gemini-companion-test-keys emacs "Enter")
  (gemini-companion-test-wait-review emacs)
  (gemini-companion-record--in-terminal emacs cli "Allow once")
  (gemini-companion-record--take emacs 3 "The change appears where your file is")
  (gemini-companion-test-keys emacs "C-c" "g" "v")
  (gemini-companion-test-keys emacs "n")
  (gemini-companion-record--take emacs 3 "n goes to the next difference, e edits the proposal")
  (gemini-companion-test-keys emacs "C-c" "C-c")
  (gemini-companion-test-wait-no-review emacs)
  (gemini-companion-test-wait-eval
   emacs '(with-current-buffer "greet.py" (string-search "excited" (buffer-string))))
  (gemini-companion-record--in-terminal emacs cli "Done.")
  (gemini-companion-record--take emacs 3 "C-c C-c accepts: the file is changed, and so is its buffer"))

(defun gemini-companion-record (file)
  "Record a review and write it to FILE."
  (setq gemini-companion-record--frames nil)
  (let ((terminal (gemini-companion-record--terminal)))
    (gemini-companion-test-with-emacs
        (emacs :files `((,gemini-companion-record--file . ,gemini-companion-record--before))
               :size gemini-companion-record--size
               :environment '("COLORTERM=truecolor"))
      (gemini-companion-record--look emacs)
      (gemini-companion-test-visit emacs gemini-companion-record--file)
      (let ((gemini-companion-test-cli-colors (eq terminal 'vterm)))
        (gemini-companion-test-with-cli
            (cli (gemini-companion-test-cli-start-by-command emacs terminal))
          (gemini-companion-record--play emacs cli)))))
  (gemini-companion-record--write file (reverse gemini-companion-record--frames)))

;;;; Rows of a screen

(defconst gemini-companion-record--cell '(8 . 17)
  "Width and height of a character.")

(defconst gemini-companion-record--palette
  ["#000000" "#a60000" "#005e00" "#6f5500" "#0031a9" "#721045" "#005077" "#c4c4c4"
   "#595959" "#d00000" "#008900" "#808000" "#3548cf" "#b60fa5" "#005f88" "#ffffff"]
  "The first 16 colors.")

(cl-defstruct (gemini-companion-record--style (:conc-name gemini-companion-record--style-))
  "The style of a text; nil stands for the default."
  foreground background bold dim italic underline inverse)

(defun gemini-companion-record--color (number)
  "Return the color NUMBER of 256."
  (cond ((< number 16) (aref gemini-companion-record--palette number))
        ((< number 232)
         (let ((level (lambda (it) (if (zerop it) 0 (+ 55 (* 40 it)))))
               (cube (- number 16)))
           (format "#%02x%02x%02x" (funcall level (/ cube 36))
                   (funcall level (% (/ cube 6) 6)) (funcall level (% cube 6)))))
        (t (let ((gray (+ 8 (* 10 (- number 232)))))
             (format "#%02x%02x%02x" gray gray gray)))))

(defun gemini-companion-record--apply (style codes)
  "Return STYLE after CODES, the numbers of a sequence for it."
  (let ((style (copy-gemini-companion-record--style style)))
    (while codes
      (pcase (pop codes)
        ('0 (setq style (make-gemini-companion-record--style)))
        ('1 (setf (gemini-companion-record--style-bold style) t))
        ('2 (setf (gemini-companion-record--style-dim style) t))
        ('3 (setf (gemini-companion-record--style-italic style) t))
        ('4 (setf (gemini-companion-record--style-underline style) t))
        ('7 (setf (gemini-companion-record--style-inverse style) t))
        ((and code (or 38 48))
         (let ((color (if (eql 5 (pop codes))
                          (gemini-companion-record--color (pop codes))
                        (format "#%02x%02x%02x" (pop codes) (pop codes) (pop codes)))))
           (if (= code 38)
               (setf (gemini-companion-record--style-foreground style) color)
             (setf (gemini-companion-record--style-background style) color))))
        ('39 (setf (gemini-companion-record--style-foreground style) nil))
        ('49 (setf (gemini-companion-record--style-background style) nil))
        ((and code (or (pred (lambda (it) (<= 30 it 37))) (pred (lambda (it) (<= 90 it 97)))))
         (setf (gemini-companion-record--style-foreground style)
               (gemini-companion-record--color (- code (if (< code 90) 30 82)))))
        ((and code (or (pred (lambda (it) (<= 40 it 47))) (pred (lambda (it) (<= 100 it 107)))))
         (setf (gemini-companion-record--style-background style)
               (gemini-companion-record--color (- code (if (< code 100) 40 92)))))))
    style))

(defun gemini-companion-record--rows (screen)
  "Return the rows of SCREEN, text with escape sequences, as markup."
  (let ((style (make-gemini-companion-record--style)))
    (mapcar
     (lambda (line)
       (let ((column 0)
             (markup nil))
         (dolist (part (gemini-companion-record--split line))
           (cond ((string-match "\\`\e\\[\\([0-9;]*\\)m\\'" part)
                  (setq style (gemini-companion-record--apply
                               style (mapcar #'string-to-number
                                             (split-string (match-string 1 part) ";")))))
                 ((string-prefix-p "\e" part))
                 (t (push (gemini-companion-record--text part column style) markup)
                    (setq column (+ column (string-width part))))))
         (apply #'concat (nreverse markup))))
     (split-string (string-remove-suffix "\n" screen) "\n"))))

(defun gemini-companion-record--split (line)
  "Return the parts of LINE: escape sequences, and text between them.
Characters that fonts may lack are separate parts, so that columns align."
  (let ((start 0)
        (parts nil))
    (while (string-match "\e\\[[0-9;:?]*[a-zA-Z]\\|\e[^[]\\|[ -~]+\\|[^\e -~]+" line start)
      (push (match-string 0 line) parts)
      (setq start (match-end 0)))
    (nreverse parts)))

(defun gemini-companion-record--text (text column style)
  "Return the markup of TEXT that begins in COLUMN, with STYLE."
  (pcase-let* ((`(,width . ,height) gemini-companion-record--cell)
               (`(,foreground . ,background) (gemini-companion-record--colors style))
               (trimmed (string-trim-right text " +"))
               (inner (string-trim-left trimmed " +")))
    (concat
     (when background
       (format "<path fill=\"%s\" d=\"M%d 0h%dv%dh-%dz\"/>" background (* width column)
               (* width (string-width text)) height (* width (string-width text))))
     (unless (string-empty-p inner)
       (format "<text x=\"%d\" y=\"13\" textLength=\"%d\"%s%s%s%s%s>%s</text>"
               (* width (+ column (- (length trimmed) (length inner))))
               (* width (string-width inner))
               (if foreground (format " fill=\"%s\"" foreground) "")
               (if (gemini-companion-record--style-bold style) " font-weight=\"bold\"" "")
               (if (gemini-companion-record--style-italic style) " font-style=\"italic\"" "")
               (if (gemini-companion-record--style-underline style)
                   " text-decoration=\"underline\"" "")
               (if (gemini-companion-record--style-dim style) " opacity=\".6\"" "")
               (xml-escape-string inner))))))

(defun gemini-companion-record--colors (style)
  "Return the colors (FOREGROUND . BACKGROUND) of STYLE, nil for the default."
  (let ((foreground (gemini-companion-record--style-foreground style))
        (background (gemini-companion-record--style-background style)))
    (if (gemini-companion-record--style-inverse style)
        (cons (or background "#ffffff") (or foreground "#000000"))
      (cons foreground background))))

;;;; The image

(defun gemini-companion-record--write (file frames)
  "Write FRAMES, the first one first, to FILE."
  (pcase-let* ((`(,columns . ,lines) gemini-companion-record--size)
               (`(,width . ,height) gemini-companion-record--cell)
               (rows (make-hash-table :test #'equal))
               (shown (cl-loop for frame in frames for number from 0
                               concat (gemini-companion-record--frame frame number rows)))
               (coding-system-for-write 'utf-8-unix))
    (with-temp-file file
      (insert
       (format "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" \
font-family=\"DejaVu Sans Mono,Menlo,Consolas,Liberation Mono,monospace\" font-size=\"13.3\" \
xml:space=\"preserve\">\n"
               (* width columns) (* height (+ lines 2)))
       "<title>A change that Gemini CLI proposes is reviewed in Emacs</title>\n"
       "<style>" (gemini-companion-record--style-sheet frames) "</style>\n"
       "<path fill=\"#ffffff\" d=\"M0 0h9999v9999h-9999z\"/>\n<defs>\n")
      (maphash (lambda (markup number)
                 (insert (format "<g id=\"r%d\">%s</g>\n" number markup)))
               rows)
      (insert "</defs>\n" shown "</svg>\n"))))

(defun gemini-companion-record--frame (frame number rows)
  "Return the markup of FRAME, which is the one with NUMBER.
ROWS has the numbers of rows by their markup; new ones are added."
  (pcase-let ((`(,caption ,_ ,cursor . ,screen) frame)
              (`(,width . ,height) gemini-companion-record--cell))
    (concat
     (format "<g class=\"f f%d\">" number)
     (cl-loop for row in (gemini-companion-record--rows screen) for line from 0
              unless (string-empty-p row)
              concat (format "<use href=\"#r%d\" y=\"%d\"/>"
                             (or (gethash row rows)
                                 (puthash row (hash-table-count rows) rows))
                             (* height line)))
     (pcase cursor
       (`(,column . ,line)
        (format "<path fill=\"#0031a9\" fill-opacity=\".5\" d=\"M%d %dh%dv%dh-%dz\"/>"
                (* width column) (* height line) width height width)))
     (format "<text x=\"%d\" y=\"%d\" class=\"c\">%s</text></g>\n"
             width (* height (+ 1.25 (cdr gemini-companion-record--size)))
             (xml-escape-string caption)))))

(defun gemini-companion-record--style-sheet (frames)
  "Return the CSS that shows FRAMES one after the other, in a loop.
Users who prefer no motion see the third one, the review."
  (let* ((total (cl-loop for (_ seconds . _) in frames sum seconds))
         (still (min 2 (1- (length frames))))
         (percent (lambda (seconds) (/ (* 100.0 seconds) total)))
         (begin 0))
    (concat
     (format "text{white-space:pre}path{shape-rendering:crispEdges}.c{font:bold 15px sans-serif}.f{visibility:hidden}\
.f%d{visibility:visible}@media(prefers-reduced-motion:no-preference){\
.f{animation:%ss step-end infinite}" still total)
     (cl-loop for (_ seconds . _) in frames for number from 0
              concat (format ".f%d{animation-name:f%d}@keyframes f%d{0%%{visibility:hidden}\
%.3f%%{visibility:visible}%.3f%%{visibility:hidden}}"
                             number number number (funcall percent begin)
                             (funcall percent (+ begin seconds)))
              do (setq begin (+ begin seconds)))
     "}")))

(provide 'record)
;;; record.el ends here

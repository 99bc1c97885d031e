;;; gemini-companion-cli-terminals.el --- Terminal emulators of Emacs -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A table of the terminal emulators in which a CLI can run; the manual has an example of another
;; entry.  Below it: choosing one, starting a program in each, and what some of them lack.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-agent)
(require 'gemini-companion-answer)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)

(declare-function eat-exec "ext:eat")
(declare-function eat-mode "ext:eat")
(declare-function ghostel-exec "ext:ghostel")
(declare-function term-char-mode "term")
(declare-function term-exec "term")
(declare-function term-mode "term")
(declare-function term-send-raw "term")
(declare-function term-send-raw-string "term")
(declare-function vterm-mode "ext:vterm")
(defvar ghostel-use-native-pty)
(defvar package-archive-contents)
(defvar package-archives)
(defvar term-home-marker)
(defvar term-raw-map)
(defvar vterm-kill-buffer-on-exit)
(defvar vterm-min-window-width)
(defvar vterm-shell)

;;;; The table

(defvar gemini-companion-cli-terminals
  '((eat
     :mode eat-mode
     :start gemini-companion-cli-terminals--start-eat
     :variables gemini-companion-cli-terminals--color-variables
     :cursor (lambda () (and eat-terminal (marker-position (eat-term-display-cursor eat-terminal))))
     :trackers (eat--handle-uic eat--t-set-cwd))
    (vterm
     :mode vterm-mode
     :start gemini-companion-cli-terminals--start-vterm
     :variables gemini-companion-cli-terminals--color-variables
     :frozen (lambda () vterm-copy-mode)
     :cursor (lambda ()
               ;; Where it has yet to draw, there may be no such position, or it inserts blanks.
               (unless (bound-and-true-p vterm--redraw-timer)
                 (ignore-errors (save-excursion (vterm-reset-cursor-point) (point)))))
     :trackers (vterm--eval vterm--set-directory))
    (ghostel
     :mode ghostel-mode
     :start gemini-companion-cli-terminals--start-ghostel
     :frozen (lambda () (eq ghostel--input-mode 'copy))
     :trackers (ghostel--osc52-eval ghostel--update-directory))
    (term
     :mode term-mode
     :start gemini-companion-cli-terminals--start-term
     :variables gemini-companion-cli-terminals--term-variables
     :trackers (term-command-hook term-handle-ansi-terminal-messages)))
  "Terminal emulators in which a CLI can run, the best one first.
Each element is (TERMINAL . PLIST), where TERMINAL, a symbol, is a value of
`gemini-companion-terminal' and names the library to load.  The buffer of a
terminal is that of the program's process, by `get-buffer-process', and its
text is what the terminal shows.  PLIST has these keys, of which the last
four are optional:

:mode       The major mode of its buffers.
:start      Function called with a program, its arguments and an environment.
            It runs the program in the current buffer, in the selected
            window.  It turns the mode on, if need be, before it binds
            `process-environment', since hooks may make that buffer-local.
            Those of Eat and vterm also answer queries for the background.
:variables  Function called with an environment.  Return what to add to it,
            a list as in `process-environment'.
:frozen     Function called in a buffer of the mode.  Return non-nil while it
            does not show what the program writes, as in a copy mode.
:cursor     Function called in a buffer of the mode.  Return the position of
            the terminal's cursor, or nil if that cannot be told; by
            default, it is the process mark.
:trackers   Functions that obey escape sequences by which a shell asks Emacs
            to change directories or to visit files.  They do nothing in the
            terminals of this package, since a CLI prints what others wrote.")
(put 'gemini-companion-cli-terminals 'risky-local-variable t)

(defun gemini-companion-cli-terminals-get (terminal key)
  "Return the value of KEY of TERMINAL, see `gemini-companion-cli-terminals'."
  (plist-get (alist-get terminal gemini-companion-cli-terminals) key))

(defun gemini-companion-cli-terminals--here (key)
  "Return the value of KEY of the terminal emulator of the current buffer, or nil."
  (cl-loop for (_ . plist) in gemini-companion-cli-terminals
           if (derived-mode-p (plist-get plist :mode)) return (plist-get plist key)))

(defun gemini-companion-cli-terminals-frozen ()
  "Return a message if the current buffer does not follow its terminal, or nil."
  (when-let* ((frozen (gemini-companion-cli-terminals--here :frozen))
              ((funcall frozen)))
    "The terminal is in copy mode: leave that first"))

;;;###autoload
(defun gemini-companion-cli-terminals-call-following (function)
  "Call FUNCTION, and return its value; keep windows of terminals at the cursor.
`read-multiple-choice' restores all windows, but runs no hook for that."
  (unwind-protect (funcall function)
    (dolist (window (window-list nil 'no-minibuffer))
      (with-selected-window window (gemini-companion-cli-terminals-follow-again)))))

(defun gemini-companion-cli-terminals-note-following (window)
  "Note whether WINDOW, of a terminal, is at the cursor, now and when last shown."
  (when-let* ((cursor (gemini-companion-cli-terminals--cursor (window-buffer window))))
    (let* ((noted (window-parameter window 'gemini-companion-following))
           ;; In a new window, others move to their cursor themselves.
           (last (if noted (car noted) (derived-mode-p 'term-mode 'eat-mode)))
           (now (= (window-point window) cursor)))
      (set-window-parameter window 'gemini-companion-following (cons now last))
      (unless (eq now last)
        ;; After this redisplay, which may be the last one for long.
        (run-at-time 0 nil #'set-window-parameter window 'gemini-companion-following
                     (cons now now))))))

(defun gemini-companion-cli-terminals-follow-again ()
  "Move to the cursor again in the selected window, which was moved away from it.
When Magit restores the windows after a commit, a minibuffer does so at its end,
or a tab comes back, emulators leave a window where it was then, even if the
program goes on.  But the user may have scrolled it before."
  (when-let* (((cdr (window-parameter nil 'gemini-companion-following)))
              (cursor (gemini-companion-cli-terminals--cursor (current-buffer)))
              ((/= (point) cursor)))
    (goto-char (point-max))
    (set-window-start nil (line-beginning-position (- 2 (window-body-height))) t)
    (goto-char cursor)
    (gemini-companion-cli-terminals-note-following (selected-window))))

(defun gemini-companion-cli-terminals--cursor (buffer)
  "Return the position of the cursor if BUFFER is that of a terminal, or nil."
  (with-current-buffer buffer
    (when-let* (((gemini-companion-cli-terminals--here :mode))
                (process (get-buffer-process buffer)))
      (if-let* ((function (gemini-companion-cli-terminals--here :cursor))) (funcall function)
        (marker-position (process-mark process))))))

;;;###autoload (custom-add-load 'gemini-companion-terminal 'gemini-companion-cli-terminals)
(defcustom gemini-companion-terminal 'auto
  "Terminal emulator in which `gemini-companion-run' runs its program.
If `auto', use the first of `gemini-companion-cli-terminals' that is installed:
Eat, vterm, Ghostel, or else Term, which comes with Emacs.  Before it falls
back to Term, `gemini-companion-run' asks once whether to install Eat, if a
package archive has it."
  :type `(choice (const :tag "The best one that is installed" auto)
                 ,@(mapcar (pcase-lambda (`(,terminal . ,_)) `(const ,terminal))
                           gemini-companion-cli-terminals)
                 (symbol :tag "Another of `gemini-companion-cli-terminals'"))
  :group 'gemini-companion-terminal)

;;;; Choosing one

(defvar gemini-companion-cli-terminals--offered nil
  "Non-nil if the user was asked to install Eat; `agreed' until that is tried.")

(defun gemini-companion-cli-terminals-choose ()
  "Load the terminal emulator to use, and return it."
  (cond ((and (eq gemini-companion-terminal 'auto) (eq system-type 'windows-nt))
         (user-error "No terminal emulator of Emacs runs a CLI on Windows: start it in another \
terminal, in this project"))
        ((eq gemini-companion-terminal 'auto)
         (when (eq gemini-companion-cli-terminals--offered 'agreed)
           (gemini-companion-cli-terminals--install-eat))
         (or (gemini-companion-cli-terminals--installed) 'term))
        ((not (assq gemini-companion-terminal gemini-companion-cli-terminals))
         (user-error "`gemini-companion-terminal' is `%s', which `gemini-companion-cli-terminals' \
does not describe" gemini-companion-terminal))
        ((require gemini-companion-terminal nil t))
        (t (user-error "`gemini-companion-terminal' is `%s', which is not installed"
                       gemini-companion-terminal))))

(defun gemini-companion-cli-terminals--installed ()
  "Load the best terminal emulator other than Term, and return it, or nil."
  (cl-loop for (terminal) in gemini-companion-cli-terminals
           thereis (and (not (eq terminal 'term))
                        (gemini-companion-log-errors terminal (require terminal nil t)))))

(defun gemini-companion-cli-terminals-offer ()
  "If there is only Term, ask whether to install a better terminal emulator.
In batch mode, do not ask."
  (when (and (eq gemini-companion-terminal 'auto)
             (not (eq system-type 'windows-nt))
             (not noninteractive)
             (not gemini-companion-cli-terminals--offered)
             (not (gemini-companion-answer-get 'eat))
             (not (gemini-companion-cli-terminals--installed)))
    (require 'package)
    (setq gemini-companion-cli-terminals--offered t)
    (cond ((not (and package-enable-at-startup ; else there is another package manager
                     (seq-some (pcase-lambda (`(,name . ,place))
                                 (string-search "nongnu" (concat name " " place)))
                               package-archives)))
           (message "Term shows few colors; the packages Eat and vterm show all of them"))
          ((y-or-n-p "Term shows few colors: download and install the terminal Eat? ")
           (setq gemini-companion-cli-terminals--offered 'agreed))
          (t
           (gemini-companion-answer-set 'eat 'never)
           (message "Using Term until you install a better terminal emulator")))))

(defun gemini-companion-cli-terminals--install-eat ()
  "Install Eat, and wait until that is done.
If it fails, or if the user quits, say so and what to do next."
  (setq gemini-companion-cli-terminals--offered t)
  (message "Installing Eat; type C-g to use Term instead...")
  (condition-case problem
      ;; The byte compiler shows its warnings in windows.
      (save-window-excursion
        (package-refresh-contents)
        (unless (assq 'eat package-archive-contents)
          (error "No readable package archive has it"))
        ;; Add it to `package-selected-packages' only once it is downloaded.
        (package-install 'eat 'dont-select)
        (package-install 'eat))
    ((error quit)
     (let ((reason (gemini-companion-ui-error-text problem)))
       (gemini-companion-log-add "Eat was not installed: %s" reason)
       (message "Using Term, because installing Eat failed: %s.  Eat is in NonGNU ELPA (see \
`package-archives'); to try again, type M-x package-install RET eat"
                reason)))))

;;;; Starting a program

(defvar-local gemini-companion-cli-terminals--ours nil
  "Non-nil in a buffer in which this package has started a program.")
(put 'gemini-companion-cli-terminals--ours 'permanent-local t)

(defun gemini-companion-cli-terminals-start (terminal program arguments environment)
  "Run PROGRAM with ARGUMENTS and ENVIRONMENT in the emulator TERMINAL.
It runs in the current buffer, which the selected window shows."
  (require terminal)
  (add-to-list 'gemini-companion-workspace-terminal-modes
               (gemini-companion-cli-terminals-get terminal :mode))
  (setq gemini-companion-cli-terminals--ours t)
  (dolist (function (gemini-companion-cli-terminals-get terminal :trackers))
    (when (fboundp function)
      (advice-add function :before-while #'gemini-companion-cli-terminals--not-ours-p)))
  (advice-add 'transient--delete-window :after #'gemini-companion-cli-terminals--dedicate)
  ;; CLIs use UTF-8 in any locale.  Emacs decodes it for Eat; Term and vterm do so themselves.
  (cl-letf ((default-process-coding-system '(utf-8-unix . utf-8-unix))
            ;; In hooks for terminals, it types a command for a shell.
            ((symbol-function 'with-editor-export-editor) #'ignore)
            ((symbol-function 'with-editor-export-git-editor) #'ignore)
            ((symbol-function 'with-editor-export-hg-editor) #'ignore))
    (funcall (gemini-companion-cli-terminals-get terminal :start) program arguments
             (append (gemini-companion-cli-terminals-variables terminal environment) environment)))
  ;; Packages for other CLIs advise the function for all terminals.
  (when-let* ((process (get-buffer-process (current-buffer)))
              (adjust (process-get process 'adjust-window-size-function)))
    (process-put process 'adjust-window-size-function (advice--cd*r (indirect-function adjust))))
  (add-hook 'window-buffer-change-functions #'gemini-companion-cli-terminals--dedicate nil t)
  (setq-local locale-coding-system 'utf-8-unix
              ;; Otherwise a box with Hebrew or Arabic in it would be mirrored.
              bidi-paragraph-direction 'left-to-right)
  ;; The characters of a box have one column for CLIs, but two for Emacs in an East Asian language.
  (make-local-variable 'char-width-table)
  (use-default-char-width-table)
  ;; Without a UTF-8 locale, Emacs in a terminal would write six characters for each of theirs.
  (unless (char-displayable-p ?─)
    (setq-local buffer-display-table (copy-sequence (or buffer-display-table standard-display-table
                                                        (make-display-table)))
                glyphless-char-display (copy-sequence glyphless-char-display))
    (set-char-table-range glyphless-char-display '(#x2010 . #x2bff) 'thin-space) ; no letters
    (cl-loop for character across "─│╭╮╰╯●›❯·" and ascii across "-|++++*>>."
             do (aset buffer-display-table character (vector ascii)))))

(defun gemini-companion-cli-terminals--dedicate (&rest _)
  "Make side windows that show a terminal of this package dedicated again.
Transient takes over such a window, and gives it back not dedicated, and out
of the reach of \\[other-window].  Then it runs a command, which may show a
buffer there."
  (dolist (window (window-list nil 'no-minibuffer))
    (when (and (buffer-local-value 'gemini-companion-cli-terminals--ours (window-buffer window))
               (window-parameter window 'window-side)
               (not (window-dedicated-p window)))
      (set-window-parameter window 'no-other-window nil)
      (set-window-dedicated-p window 'side))))

(defun gemini-companion-cli-terminals-variables (terminal environment)
  "Return what to add to ENVIRONMENT for programs in the emulator TERMINAL."
  (when-let* ((variables (gemini-companion-cli-terminals-get terminal :variables)))
    (funcall variables environment)))

;; Some of the escape sequences for trackers name files.  A remote name would make Emacs log in
;; somewhere and wait, and visiting a file runs hooks.  Removing the sequences from the output is
;; not enough, since the rest may form another one; and the emulators have options only for some.
;; Eat makes a name absolute, by Tramp, before it looks at its option.

(defun gemini-companion-cli-terminals--not-ours-p (&rest _)
  "Return nil if the current buffer is a terminal of this package."
  (not gemini-companion-cli-terminals--ours))

(defun gemini-companion-cli-terminals--remove-advice ()
  "Remove all advice made here, unless a terminal of this package is left."
  (unless (seq-some (lambda (buffer)
                      (and (buffer-local-value 'gemini-companion-cli-terminals--ours buffer)
                           (process-live-p (get-buffer-process buffer))))
                    (buffer-list))
    (advice-remove 'transient--delete-window #'gemini-companion-cli-terminals--dedicate)
    (pcase-dolist (`(,_ . ,plist) gemini-companion-cli-terminals)
      (dolist (function (plist-get plist :trackers))
        (advice-remove function #'gemini-companion-cli-terminals--not-ours-p)))))

(add-hook 'gemini-companion-mode-off-hook #'gemini-companion-cli-terminals--remove-advice)

(defun gemini-companion-cli-terminals--term-map ()
  "Return the keymap for Term's character mode, with what CLIs need there."
  (let ((map (make-sparse-keymap))
        (paste (lambda ()
                 (interactive)
                 (gemini-companion-cli-terminals--term-paste last-command-event))))
    ;; Keys that Term does not send.
    (pcase-dolist (`(,key . ,text) '(([backtab] . "\e[Z") ([f4] . "\eOS") ([f12] . "\e[24~")
                                     ;; On a graphical frame, where this key is no Meta.
                                     ([escape] . "\e")
                                     ;; Alt+Enter: without an extension of the terminal, CLIs know
                                     ;; no other key that adds a line.
                                     ([S-return] . "\e\r") ([C-return] . "\e\r")))
      (define-key map key (lambda () (interactive) (term-send-raw-string text))))
    ;; As in the other emulators, these are for Emacs.  If typed to the CLI by habit, the 1 of C-x 1
    ;; would answer its question, and after C-y, Gemini CLI would ask no more.
    (define-key map (kbd "M-x") (lookup-key (current-global-map) (kbd "M-x")))
    (pcase-dolist (`(,key . ,command) '(("C-h" . help-command) ("C-u" . universal-argument)
                                        ("M-:" . eval-expression) ("M-!" . shell-command)
                                        ("C-\\" . toggle-input-method)))
      (when (eq (lookup-key (current-global-map) (kbd key)) command)
        (define-key map (kbd key) command)))
    (define-key map (kbd "C-x C-x") #'term-send-raw)
    ;; On macOS, s-v is `yank'; in CUA mode, C-v is `cua-paste'.
    (dolist (key '("\C-y" [remap term-paste] [remap term--xterm-paste] [remap term-mouse-paste]
                   [remap yank] [remap cua-paste]))
      (define-key map key paste))
    ;; After C-c, Term has the keys of C-x, too: one of these, as Magit's, would hide our prefix.
    (when (keymapp (lookup-key term-raw-map (kbd "C-c")))
      (dolist (key '("C-c C-u" "C-c C-y"))
        (define-key map (kbd key) #'term-send-raw))
      (map-keymap (lambda (key binding)
                    (when (eq (indirect-function binding)
                              (indirect-function 'gemini-companion-command-map))
                      (define-key map (vector ?\C-c key) binding)))
                  mode-specific-map))
    (make-composed-keymap map term-raw-map)))

(defun gemini-companion-cli-terminals--term-paste (event)
  "Send the last kill, or what the terminal or the mouse pastes by EVENT.
The CLI takes it as one text.  Term would send keys, and a digit would answer a
question; in Emacs 28, Term would wait for the end of EVENT's text."
  (term-send-raw-string
   (concat "\e[200~"
           ;; An Escape could end the text, and press keys.
           (string-replace "\e" ""
                           (cond ((eq (car-safe event) 'xterm-paste) (nth 1 event))
                                 ((mouse-event-p event)
                                  (mouse-set-point event)
                                  (gui-get-primary-selection))
                                 (t (current-kill 0))))
           "\e[201~")))

(defun gemini-companion-cli-terminals--start-term (program arguments environment)
  "Run PROGRAM with ARGUMENTS and ENVIRONMENT in Term."
  (term-mode)
  ;; Otherwise its window hides the last lines or, once it has shrunk, those above them.
  (setq-local scroll-margin 0
              scroll-conservatively 101)
  ;; Term takes this very map for its character mode.
  (setq-local term-raw-map (gemini-companion-cli-terminals--term-map))
  (let ((process-environment environment))
    (term-exec (current-buffer) (buffer-name) program nil arguments))
  (add-function :around (process-filter (get-buffer-process (current-buffer)))
                #'gemini-companion-cli-terminals--term-write)
  (add-function :filter-args (process-filter (get-buffer-process (current-buffer)))
                (gemini-companion-cli-terminals--term-output))
  ;; Input methods do nothing where a buffer is read-only.
  (add-hook 'input-method-activate-hook
            (lambda ()
              (add-function :around (local 'input-method-function)
                            (lambda (function key)
                              (let ((inhibit-read-only t) (input-method-use-echo-area t))
                                (funcall function key)))))
            nil t)
  (term-char-mode))

(defun gemini-companion-cli-terminals--term-write (filter process output)
  "Call FILTER, Term's, with PROCESS and OUTPUT; look for links only afterwards.
Term moves by lines as Emacs displays them, and Emacs would search each line
that Term writes for links at once, several times."
  (when (buffer-live-p (process-buffer process))
    (with-current-buffer (process-buffer process)
      (let ((fontification-functions nil)
            ;; A line displayed in here would have no links.
            (inhibit-redisplay t))
        (funcall filter process output)))))

(defun gemini-companion-cli-terminals--start-eat (program arguments environment)
  "Run PROGRAM with ARGUMENTS and ENVIRONMENT in Eat."
  (eat-mode)
  (let ((process-environment environment))
    (eat-exec (current-buffer) (buffer-name) program nil arguments))
  (add-function :filter-args (process-filter (get-buffer-process (current-buffer)))
                (gemini-companion-cli-terminals--answer-background)))

(defun gemini-companion-cli-terminals--start-vterm (program arguments environment)
  "Run PROGRAM with ARGUMENTS and ENVIRONMENT in vterm."
  (let ((process-environment environment)
        (vterm-shell (mapconcat #'shell-quote-argument (cons program arguments) " "))
        ;; The default is 80, and what does not fit in the window cannot be seen.
        (vterm-min-window-width 20))
    (vterm-mode))
  (setq-local vterm-min-window-width 20
              ;; Vterm-toggle would take it for the user's shell, and delete the selected window
              ;; once it is killed.
              vterm-toggle--dedicated-p t
              vterm-toggle-reset-window-configration-after-exit nil)
  (let ((process (get-buffer-process (current-buffer))))
    (add-function :before (process-filter process) (gemini-companion-cli-terminals--fit-once))
    (add-function :filter-args (process-filter process)
                  (gemini-companion-cli-terminals--answer-background))
    (add-function :around (process-sentinel process)
                  (lambda (sentinel &rest arguments)
                    ;; The last output is worth reading.
                    (let ((vterm-kill-buffer-on-exit nil))
                      (apply sentinel arguments))))))

(defun gemini-companion-cli-terminals--start-ghostel (program arguments environment)
  "Run PROGRAM with ARGUMENTS and ENVIRONMENT in Ghostel."
  (let ((process-environment environment)
        ;; Otherwise the program does not read what Emacs sends to the buffer's process.
        (ghostel-use-native-pty nil))
    (ghostel-exec (current-buffer) program arguments))
  (setq-local ghostel-kill-buffer-on-exit nil
              ;; Emacs asks anyway.
              ghostel-query-before-killing nil))

;;;; What the emulators lack

(defun gemini-companion-cli-terminals--term-variables (environment)
  "Return what to add to ENVIRONMENT so that text is readable in Term.
Programs choose colors for a dark background; on a light one, ask for none.
With 8 colors, as in GNU Screen, what is chosen would be yellow on green."
  ;; An existing value is about the terminal around this Emacs.
  `(,(if (< emacs-major-version 29) "COLORTERM" "COLORTERM=truecolor")
    ,@(unless (or (and (eq (frame-parameter nil 'background-mode) 'dark)
                       (not (memq (display-color-cells) '(8 16))))
                  (gemini-companion-agent-environment-value "NO_COLOR" environment)
                  (gemini-companion-agent-environment-value "FORCE_COLOR" environment))
        '("NO_COLOR=1"))))

(defun gemini-companion-cli-terminals--color-variables (environment)
  "Return what to add to ENVIRONMENT so that programs use all available colors.
Not all programs conclude that from the value of TERM in Eat and vterm."
  (and (> (display-color-cells) 256)
       (not (gemini-companion-agent-environment-value "COLORTERM" environment))
       '("COLORTERM=truecolor")))

(defun gemini-companion-cli-terminals--change (regexp change)
  "Return a function for a filter's arguments that changes output by CHANGE.
REGEXP matches an incomplete end, which is kept for the next output; CHANGE
gets the process and what precedes that end."
  (let ((rest ""))
    (pcase-lambda (`(,process ,output))
      (let* ((output (concat rest output))
             (end (or (string-match regexp output) (length output))))
        (setq rest (substring output end))
        (list process (funcall change process (substring output 0 end)))))))

(defun gemini-companion-cli-terminals--term-output ()
  "Return a function for a filter's arguments, bytes, that corrects them for Term.
Term shows window titles as text, erases only the end of a line instead of
all of it, does not go to the next or previous line, and shows the bytes of
a character that arrives in parts."
  (gemini-companion-cli-terminals--change
   ;; The beginning of an escape sequence, or of a character.
   (concat "\\(?:\e\\(?:][^\a\e]\\{,1000\\}\e?\\|\\[2?\\)?"
           "\\|[\300-\337]\\|[\340-\357][\200-\277]?"
           "\\|[\360-\367][\200-\277]\\{,2\\}\\)\\'")
   (lambda (_process output)
     (pcase-dolist (`(,from . ,to) '(("\e[2K" . "\e[1K\e[K")
                                     ("\e[E" . "\e[B\r") ("\e[F" . "\e[A\r")))
       (setq output (string-replace from to output)))
     (replace-regexp-in-string "\e][^\a\e]*\\(?:\a\\|\e\\\\\\)" "" output t t))))

(defun gemini-companion-cli-terminals--fit-once ()
  "Return a filter that makes a terminal as large as its windows, once.
On a text terminal, vterm starts with one column too many."
  (let ((done nil))
    (lambda (process _text)
      (unless done
        (setq done t)
        (gemini-companion-log-errors "The size of a terminal"
          ;; vterm's module needs the variables of that buffer.
          (with-current-buffer (process-buffer process)
            (when-let* ((windows (get-buffer-window-list nil nil t))
                        (adjust (process-get process 'adjust-window-size-function))
                        (size (funcall adjust process windows)))
              (set-process-window-size process (cdr size) (car size)))))))))

(defun gemini-companion-cli-terminals--answer-background ()
  "Return a function for a filter's arguments that answers background queries.
It also removes them.  vterm does not answer them, and Eat does so wrongly on a
text terminal: programs would choose colors for a dark background."
  (gemini-companion-cli-terminals--change
   "\e\\(?:]\\(?:1\\(?:1\\(?:;\\(?:\\?\e?\\)?\\)?\\)?\\)?\\)?\\'"
   (lambda (process output)
     (let ((rest (replace-regexp-in-string "\e]11;\\?\\(?:\a\\|\e\\\\\\)" "" output t t)))
       (unless (equal rest output)
         (gemini-companion-log-errors "The color of the background"
           (process-send-string process (gemini-companion-cli-terminals--background-report))))
       rest))))

(defun gemini-companion-cli-terminals--background-report ()
  "Return the answer of a terminal to a query for its background color."
  (let ((color (or (color-values (face-background 'default nil 'default))
                   ;; Emacs uses the background of the terminal around it.
                   (if (eq (frame-parameter nil 'background-mode) 'dark) '(0 0 0)
                     '(#xffff #xffff #xffff)))))
    (format "\e]11;rgb:%s\e\\"
            ;; Gemini CLI in a terminal that was started in tmux does not believe pure white.
            (mapconcat (lambda (value) (format "%04x" (min value #xfefe))) color "/"))))

(provide 'gemini-companion-cli-terminals)
;;; gemini-companion-cli-terminals.el ends here

;;; gemini-companion-cli-screen.el --- What the screen of a CLI shows -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Reads the screen of a CLI in the buffer of a terminal emulator: whether the CLI asks a question,
;; what is in its prompt, and which changes wait behind the one that it asks about.  All functions
;; look only at the end of the current buffer, and change nothing.

;;; Code:

(require 'gemini-companion-ui)

;;;; Questions and prompts

(defmacro gemini-companion-cli-screen--at-end (&rest body)
  "Evaluate BODY with point at the end of what the current terminal shows."
  (declare (indent 0) (debug t))
  ;; Otherwise, in Turkish, Emacs would not find an I.
  `(let ((case-fold-search nil))
     (gemini-companion-ui-widened
       (goto-char (point-max))
       (skip-chars-backward " \t\n")
       ,@body)))

(defconst gemini-companion-cli-screen--prompt-box
  (concat
   ;; Lines are around it.  The first of these may be a column wider than the terminal; Qwen Code
   ;; writes the name of the session there.
   "^ *\\(?:[─▀▄]\\{8,\\}\\|─+ .* ──\\)\n\\(?:[─▀▄]+\n\\)?"
   ;; In Gemini CLI's voice mode, a microphone or three bars are in front of the sign.
   " *\\(?:[🎤▂-█][ ▂-█]*\\)?\\(?1:[>!*]\\(?: .*\\)?\n\\(?:.*\n\\)*?\\) *[─▀▄]\\{8\\}"
   ;; With 256 colors or fewer, the lines around it are blank, in the background color.
   "\\|^ \\{20,\\}\n\\(?: ?\\| *[🎤▂-█][ ▂-█]*\\)\\(?1:[>!*] .*\n\\(?:   .*\n\\)*\\) \\{20,\\}$"
   ;; In LLxprt Code it is in a box.  A prompt that was sent has another space there.
   "\\|^╭─\\{8,\\}.*\n│ \\(?1:[>!*] .*\n\\(?:│ .*\n\\)*\\)╰─\\{8\\}")
  "Regexp for the user's prompt, which is group 1, with what is around it.")

(defconst gemini-companion-cli-screen--dialog
  "^ *\\(?:╭\\|Chat Sessions (\\|Loading sessions…$\\|Press q to exit$\\)"
  "Regexp for a dialog that may be below a prompt that was sent.
With colors, such a prompt looks like the one that the user is typing.")

(defun gemini-companion-cli-screen--goto-prompt (lines)
  "Go back to the user's prompt if it is on the last LINES; set the match data.
Point is at the end of what the terminal shows."
  (let ((near (line-beginning-position -11)))
    ;; Its last line may seem to be empty.
    (goto-char (point-max))
    (or (re-search-backward gemini-companion-cli-screen--prompt-box
                            (line-beginning-position (- lines)) t)
        ;; For a screen reader, it has no lines around it, and is last; modes have names in place
        ;; of signs.  In a dialog, only one space follows the sign.
        (and (re-search-backward
              (concat "^\\(?2:> \\|\\(?:Shell\\|YOLO\\|Plan\\) mode\\|Accepting edits\\) "
                      "\\(?1:[^╭│╰─▀▄]*\\)\\'")
              near t)
             ;; With -p it has no prompt, and says this.
             (not (looking-at-p "YOLO mode is enabled\\."))))))

(defun gemini-companion-cli-screen--prompt-text ()
  "Return the sign and the lines of the prompt that was found, without its box."
  (let ((text (match-string-no-properties 1)))
    (cond ((eq (char-after (match-beginning 0)) ?╭)
           (replace-regexp-in-string "^│\\| *│ *$" "" text))
          ((match-beginning 2)
           (concat (if (equal (match-string 2) "Shell mode") "!" ">") (string-trim-right text)))
          (t text))))

(defun gemini-companion-cli-screen-question-p ()
  "Return t if the CLI in the current buffer asks the user to choose.
The choices are in the last box; in Qwen Code, they may be above a spinner
instead, and for a screen reader, at the end.  Return `text' if Gemini CLI
asks for a text, or shows the user's answers."
  (gemini-companion-cli-screen--at-end
    (when-let* ((bottom (gemini-companion-cli-screen--question-bottom)))
      (gemini-companion-cli-screen--goto-question)
      (cond ((or (looking-at-p "╭.*\n│ *│\n│ Enter Gemini API Key ")
                 ;; What a model asks can look like choices.
                 (save-excursion
                   (goto-char bottom)
                   (re-search-backward "^│ Enter to submit " (line-beginning-position -2) t)))
             'text)
            ((re-search-forward
              (concat "^ *\\(?:│ *[●›❯]\\|[›❯]\\|(checked)\\) *\\(?:\\[.\\] \\)?[0-9]+\\. "
                      ;; LLxprt Code may show only this where there is little room.
                      "\\|^ *│ *[0-9]\\. No, suggest changes (esc)")
              bottom t)
             t)))))

(defun gemini-companion-cli-screen--question-bottom ()
  "Go to the last lines of the question on screen, and return where they end.
Return nil if there is none.  Above the prompt, it counts only right above it."
  (let ((end (point)))
    (if-let* ((bottom
               (cond
                ;; Remarks, the rest of a prompt, or what a terminal did not erase may be below it.
                ((re-search-backward "^ *[╰⠀-⣿]" (line-beginning-position -6) t) (point))
                ((re-search-backward "^(checked) " (line-beginning-position -9) t) end)
                ;; Gemini CLI leaves its last lines there, below blank ones, after an answer that
                ;; did not fit on the screen.
                ((re-search-backward
                  "^ *╰.*\n\\(?: *\n\\)+\\(?: *[^ \n].*\n\\)\\{0,3\\} *[^ \n].*\\="
                  (line-beginning-position -200) t)
                 (point)))))
        ;; The prompt or its borders.  The last of these may be one that the CLI did not erase.
        (unless (save-excursion
                  (re-search-forward
                   "^ *\\(?:[>!*] \\|[─▀▄]\\{8\\}.*\n\\(?:.*\n\\)*? *[─▀▄]\\{8\\}\\)" nil t))
          bottom)
      (gemini-companion-cli-screen--question-above-prompt))))

(defun gemini-companion-cli-screen--question-above-prompt ()
  "Go to the last line of a question right above the prompt; return where it is.
There is one with Gemini CLI's setting collapseDrawerDuringApproval off; the
prompt then takes no text."
  (when (gemini-companion-cli-screen--goto-prompt 30)
    (let ((start (point)))
      ;; What a model writes is indented.  Below a long question there is a hint.
      (and (re-search-backward "^╰" (line-beginning-position -9) t)
           (looking-at ".*\n\\(?:[ \n]\\|Press .*\n\\)*\\(?:─.*\n[^─▀▄]*\\)?")
           (<= start (match-end 0))
           ;; Otherwise a tool or a command of the user's has printed what is in the box.
           (save-excursion
             (or (not (gemini-companion-cli-screen--goto-question)) ; it is very long
                 (looking-at-p ".*\n│ *\\(?:\\?\\|Action Req\\|Answer Q\\|Ready to start imp\\)")))
           (point)))))

(defun gemini-companion-cli-screen--goto-question ()
  "Go back to the beginning of a question, if it is on the 200 lines before point.
That is a box, or the title: Qwen Code draws no box since 0.21 or earlier, and
shows tools that wait below the question, whose title has an arrow.  An agent
that asks has another title there."
  (prog1 (re-search-backward
          (concat "^ *╭─+╮?[ █▀▄]*$"
                  ;; A command can contain such lines, but farther to the right.
                  (unless (save-excursion
                            (end-of-line)
                            (re-search-backward "^ *╰" (line-beginning-position -6) t))
                    (concat "\\|^ \\{,2\\}\\(?:\\?\\|Confirming:\\) .*←\\|^\\? "
                            "\\|^  [^ \n].*\n *Approval requested by ")))
          (line-beginning-position -200) 'move)
    (when (looking-at-p ".*\n *Approval requested by ")
      (forward-line))))

(defun gemini-companion-cli-screen-question-bounds ()
  "Return where the question on screen begins, if it is not too long, and ends."
  (gemini-companion-cli-screen--at-end
    (let ((end (point)))
      (gemini-companion-cli-screen--goto-question)
      (cons (point) end))))

(defun gemini-companion-cli-screen-question-title ()
  "Return the first line of the question on screen, or nil."
  (gemini-companion-cli-screen--at-end
    (when (gemini-companion-cli-screen--goto-question)
      (when (looking-at " *╭")
        (forward-line))
      (when (looking-at " *\\(?:│ *\\)?\\(?:\\?\\|Confirming:\\) +")
        (let ((start (match-end 0)))
          (end-of-line)
          ;; Qwen Code ends it with an arrow; a scroll bar may follow.
          (skip-chars-backward " │←█▀▄" start)
          (gemini-companion-ui-text start (point)))))))

(defun gemini-companion-cli-screen-no-key ()
  "Return the key that answers the question on screen with no.
That is Escape, unless the last choice, which a digit selects, is a plain no:
Gemini CLI then takes no Escape, or exits, as when it asks about a folder."
  (let ((choice "^ *│?[ ●›❯]*\\(?:(checked) \\)?\\([0-9]+\\)\\. "))
    (gemini-companion-cli-screen--at-end
      (if (and (re-search-backward choice (line-beginning-position -12) t)
               ;; The dialogs of /permissions and, in Qwen Code, /trust take it.
               (not (save-excursion
                      (re-search-forward "Esc to close\\|(Use Enter to select)" nil t)))
               (looking-at (concat choice "\\(?:No\\|No, deny .*?\\|Don't trust\\|Do not enable .*?"
                                   "\\|Stop\\(?: - .*?\\)?\\) *\\(?:[│█▀▄]\\|$\\)")))
          (match-string-no-properties 1)
        "\e"))))

(defun gemini-companion-cli-screen-shell-p ()
  "Return non-nil if the CLI in the current buffer is in shell mode.
It then runs what the user types, and commands in backquotes in that."
  (if-let* ((prompt (gemini-companion-cli-screen-prompt 'always)))
      (string-prefix-p "!" prompt)
    ;; For a screen reader, in place of the sign; there are no lines around the prompt.
    (gemini-companion-cli-screen--at-end
      (re-search-backward "^ *[Ss]hell mode " (line-beginning-position -9) t))))

(defun gemini-companion-cli-screen-shell-focused ()
  "Return non-nil if a shell command in the CLI here gets what the user types.
The CLI shows its prompt all the same; what it says is in the last box above
that.  Return `background' for a command in the background, whose box may have
no room to say whether it has the focus."
  (gemini-companion-cli-screen--at-end
    (and (gemini-companion-cli-screen--goto-prompt 30)
         (let ((limit (line-beginning-position -400)))
           ;; Newer versions of Qwen Code have no box, and "(Focused)" only once the command has
           ;; written something; but otherwise there is a spinner below the command.
           (cond ((save-excursion
                    (and (re-search-backward "^  [^ \n]" limit t)
                         (looking-at-p "  \\(?:[⊶⊷]\\|\\.[. ]\\) +Shell ")
                         (not (looking-at-p ".*esc to cancel"))))
                  t)
                 ;; With Gemini CLI's setting useAlternateBuffer, the rest of the screen is between.
                 ((and (re-search-backward "^ *[╰└]" limit t)
                       (re-search-backward
                        (concat "\\(\\(?:to unfocus)\\|(Focused)\\(?: +(?[0-9][^│\n]*\\)?\\) *│\\)"
                                "\\|^ *┌.*\n *│.*\\((PID: [0-9]+)\\)\\|^ *[╭┌]")
                        limit t))
                  (cond ((match-beginning 1) t)
                        ((match-beginning 2) 'background))))))))

(defun gemini-companion-cli-screen-prompt (&optional always)
  "Return what is in the prompt of the CLI in the current buffer, or nil.
The string begins with the sign of the prompt, and has no spaces, but a newline
after the sign if the first line is empty.  Return `works' if the CLI works,
unless ALWAYS is non-nil."
  (gemini-companion-cli-screen--at-end
    ;; The CLI shows its state in some lines above or below the prompt; a terminal whose size has
    ;; changed may show remains of other lines.
    (let ((limit (line-beginning-position -10)))
      (when (and (gemini-companion-cli-screen--goto-prompt 200)
                 (> (match-end 0) limit)
                 (not (save-match-data
                        (save-excursion
                          (goto-char (match-end 0))
                          (re-search-forward gemini-companion-cli-screen--dialog nil t)))))
        (let* ((text (gemini-companion-cli-screen--prompt-text))
               (typed (gemini-companion-cli-screen-without-spaces text)))
          (cond ((and (not always) (gemini-companion-cli-screen--works-p)) 'works)
                ((string-match-p "\\` *.[[:space:]]*\n" text)
                 (concat (substring typed 0 1) "\n" (substring typed 1)))
                (t typed)))))))

(defun gemini-companion-cli-screen--works-p ()
  "Return non-nil if the CLI works whose prompt begins at point."
  (let ((prompt (point)))
    ;; A spinner, in front of a line that may be cut, or what takes its place.
    (or (re-search-backward
         "esc to cancel\\|^ \\{,2\\}[⠀-⣿] \\|^Executing Hook\\|^ *! Shell awaiting input"
         (line-beginning-position -10) t)
        ;; Completions or the Debug Console may be between, but no prompt or question: what is above
        ;; that remains of another screen.
        (and (re-search-backward "^ *[⠀-⣿] .*(esc to cancel, [0-9]" (line-beginning-position -30) t)
             (not (re-search-forward (concat gemini-companion-cli-screen--prompt-box
                                             "\\|^ *│ *● [1-9]\\. ")
                                     prompt t)))
        (eq (gemini-companion-cli-screen-shell-focused) t))))

(defun gemini-companion-cli-screen-newline-p ()
  "Return non-nil if the last line in the prompt of the CLI here is empty."
  (gemini-companion-cli-screen--at-end
    (and (gemini-companion-cli-screen--goto-prompt 200)
         (string-match-p "\n[[:space:]]*\n\\'" (gemini-companion-cli-screen--prompt-text)))))

(defun gemini-companion-cli-screen-without-spaces (text)
  "Return TEXT without the whitespace that a terminal may add or change.
Characters that need no column, which it may drop, are not there either, nor
are backslashes, which Gemini CLI adds with its setting escapePastedAtSymbols."
  ;; In a buffer of a program, a newline ends a comment instead.
  (replace-regexp-in-string
   "\\(?:[[:space:]\n\\\u00a0\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]\\|\\c^\\)+"
   "" text))

;;;; The changes of a turn

(defun gemini-companion-cli-screen-queued-files ()
  "Return the names of the files whose changes follow the one in the question.
The CLI shows them in the lines above that, which are in a box with the
setting compactToolOutput off; Qwen Code shows them below the choices."
  (gemini-companion-cli-screen--at-end
    (let ((files nil))
      (cond
       ((not (gemini-companion-cli-screen--goto-question)))
       ((looking-at " *\\? +\\(?:WriteFile\\|Edit\\) .*←")
        (while (re-search-forward
                (concat "^ *\\? +\\(?:WriteFile +Writing to\\|Edit\\(?: +Create\\)?\\) +"
                        "\\([^:\n←]+?\\)\\(?:: [^\n←]*\\)? *$")
                nil t)
          (push (gemini-companion-ui-text (match-beginning 1) (match-end 1)) files))
        (setq files (nreverse files)))
       ((save-excursion
          (unless (looking-at "\\?")     ; for a screen reader, there is no box
            (forward-line))
          ;; After a long title, the numbers may be on two lines.
          (looking-at " *│? *\\? .*[ …][0-9]+[ │█▀▄\n]+of[ │█▀▄\n]+[0-9]+ *\\(?:│\\|$\\)"))
        (while (and (zerop (forward-line -1))
                    (looking-at "[ ╭─│]*o[ ─]+\\|[│╰][ ─]*[│╯] *[█▀▄]?$"))
          ;; Other tools wait there, too.
          (when (looking-at
                 (concat "[ ╭─│]*o[ ─]+\\(?:\\(?:WriteFile\\|write_file\\) +Writing to \\(?1:.+?\\)"
                         "\\|\\(?:Edit\\|Replace\\|replace\\) +\\(?1:.+?\\):.*\\)[ ─│╮]*[█▀▄]?$"))
            (push (gemini-companion-ui-text (match-beginning 1) (match-end 1)) files)))))
      files)))

(provide 'gemini-companion-cli-screen)
;;; gemini-companion-cli-screen.el ends here

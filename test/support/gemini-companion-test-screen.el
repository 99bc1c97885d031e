;;; gemini-companion-test-screen.el --- Screens of Gemini CLI  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; As Gemini CLI 0.61.0 shows them.

;;; Code:

(defconst gemini-companion-test-screen-prompt "
─────────────────────────────
 Shift+Tab to accept edits
▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄
 >   Type your message or @path/to/file
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
 workspace (/directory)
 /src/project
")

(defconst gemini-companion-test-screen-question "
  o  WriteFile  Writing to src/b.txt
  o  Edit  c.txt: one: 1 => two
  o  Shell  touch x
╭─────────────────────────────────────╮
│ ? WriteFile  Writing to a.txt  1 of 4 │
│ ╭───────────────────────────────╮   │
│ │  1 + ? x 7 of 9               │   │
│ ╰───────────────────────────────╯   │
│ Apply this change?                  │
│                                     │
│ ● 1. Allow once                     │
│   2. Allow for this session         │
│   3. No, suggest changes (esc)      │
╰─────────────────────────────────────╯
")

(defconst gemini-companion-test-screen-text-question "
╭─────────────────────────────────────────╮
│ Answer Questions                        │
│                                         │
│ ← □ Name │ □ Sure │ ≡ Review →          │
│                                         │
│ What name?                              │
│                                         │
│ > Enter your response                   │
│                                         │
│ Enter to submit · Esc to cancel         │
╰─────────────────────────────────────────╯
")

(defconst gemini-companion-test-screen-shell "
> go

╭────────────────────────────────────────────────╮
│ ⊶  Shell echo Who?; read x  (Shift+Tab to unfocus) │
│                                                │
│ Who?                                           │
╰────────────────────────────────────────────────╯


")

(defconst gemini-companion-test-screen-background-shell "
✦ Done.
┌────────────────────────────────────────────────┐
│  1: bash  (PID: 30231)  Close (Ctrl+B) | Kill  │
│ root@vm:~#                                     │
└────────────────────────────────────────────────┘


")

(provide 'gemini-companion-test-screen)
;;; gemini-companion-test-screen.el ends here

;;; gemini-companion-mode-line.el --- Mode line, menu bar and keys -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the user sees of the companion at all times, and the ways from there to its commands.  The
;; package itself binds no global key.

;;; Code:

(require 'gemini-companion-bridge)
(require 'gemini-companion-context)
(require 'gemini-companion-queue)

(defvar gemini-companion-mode)

;;;; Keys

(defvar gemini-companion-command-map
  (let ((map (make-sparse-keymap)))
    ;; The names are for packages like which-key.
    (define-key map "r" '("run, show, hide" . gemini-companion-run))
    (define-key map "R" '("run another" . gemini-companion-run-other))
    (define-key map "S" '("set up" . gemini-companion-setup))
    (define-key map "y" '("answer yes" . gemini-companion-answer-yes))
    (define-key map "n" '("answer no" . gemini-companion-answer-no))
    (define-key map "p" '("prompt" . gemini-companion-send-prompt))
    (define-key map "e" '("compose" . gemini-companion-compose))
    (define-key map "s" '("send region" . gemini-companion-send-region))
    (define-key map "f" '("send file" . gemini-companion-send-file))
    (define-key map "d" '("send diagnostic" . gemini-companion-send-diagnostic))
    (define-key map "v" '("next change" . gemini-companion-review-next))
    (define-key map "a" '("accept" . gemini-companion-accept))
    (define-key map "k" '("reject" . gemini-companion-reject))
    (define-key map "l" '("list" . gemini-companion-review-list))
    (define-key map "h" '("history" . gemini-companion-review-history))
    (define-key map "c" '("what is told" . gemini-companion-show-context))
    (define-key map "t" '("pause, resume" . gemini-companion-toggle-context))
    (define-key map "i" '("status" . gemini-companion-status))
    (define-key map "D" '("doctor" . gemini-companion-doctor))
    (define-key map "L" '("log" . gemini-companion-log))
    (define-key map "m" '("mode on, off" . gemini-companion-mode))
    (define-key map "?" '("menu" . gemini-companion-menu))
    map)
  "Keymap of all commands, for you to bind to a key of yours.
For instance (global-set-key (kbd \"C-c g\") \\='gemini-companion-command-map).")
;;;###autoload (autoload 'gemini-companion-command-map "gemini-companion-mode-line" nil nil 'keymap)
(fset 'gemini-companion-command-map gemini-companion-command-map)

;;;; The mode line

(defun gemini-companion-mode-line--lighter ()
  "Return what the mode line shows."
  (let ((clients (gemini-companion-bridge-clients))
        (reviews (gemini-companion-review-count)))
    (concat " Gem"
            (and (> clients 0) (format ":%d" clients))
            (and (> reviews 0) (format "!%d" reviews))
            (and (gemini-companion-review-held-p) " waits")
            (and gemini-companion-context-paused " off"))))

(defun gemini-companion-state ()
  "Return in words what the mode line shows."
  (if (not gemini-companion-mode) "off"
    (let ((clients (gemini-companion-bridge-clients))
          (reviews (gemini-companion-review-count)))
      (concat (pcase clients
                (0 "no client")
                (1 "1 client")
                (_ (format "%d clients" clients)))
              (pcase reviews
                (0 ", no change waits")
                (1 ", 1 change waits for you")
                (_ (format ", %d changes wait for you" reviews)))
              (and (gemini-companion-review-held-p) " to pause")
              (and gemini-companion-context-paused ", context paused")))))

(defun gemini-companion-mode-line--help-echo (&rest _)
  "Return what the mode line says where the mouse is."
  (format "Gemini companion: %s\nmouse-1: %s\nmouse-2: help\nmouse-3: menu, to switch it off, too"
          (gemini-companion-state)
          (if (gemini-companion-mode-line--reviews-p) "show the next change" "commands")))

(defun gemini-companion-mode-line-click (event)
  "Show the next change that awaits your decision; if there is none, the menu.
EVENT is the click."
  (interactive "e")
  (select-window (posn-window (event-start event)))
  (call-interactively (if (gemini-companion-mode-line--reviews-p)
                          'gemini-companion-review-next
                        'gemini-companion-menu)))

(defvar gemini-companion-mode-line
  (let ((map (make-sparse-keymap)))
    (define-key map [mode-line mouse-1] #'gemini-companion-mode-line-click)
    (define-key map [mode-line mouse-2] #'mode-line-minor-mode-help)
    (define-key map [mode-line down-mouse-3] #'mouse-minor-mode-menu)
    `(:propertize (:eval (gemini-companion-mode-line--lighter))
                  help-echo gemini-companion-mode-line--help-echo
                  mouse-face mode-line-highlight
                  local-map ,map))
  "What the mode line has of us; made once, for it is looked at often.")
(put 'gemini-companion-mode-line 'risky-local-variable t)

(defun gemini-companion-mode-line--reviews-p ()
  "Return non-nil if a change awaits a decision."
  (> (gemini-companion-review-count) 0))

(defvar gemini-companion-mode-line-cli-functions nil
  "Functions that return non-nil if a CLI runs in Emacs.")

(defun gemini-companion-cli-p ()
  "Return non-nil if there may be a CLI to talk to."
  (or (> (gemini-companion-bridge-clients) 0)
      (run-hook-with-args-until-success 'gemini-companion-mode-line-cli-functions)))

;;;; The menu bar

(defvar gemini-companion-mode-map (make-sparse-keymap)
  "Keymap of `gemini-companion-mode': a menu in the menu bar.")

;; Short enough for a terminal of 24 lines.
(easy-menu-define gemini-companion-menu-bar gemini-companion-mode-map
  "Menu in the menu bar while `gemini-companion-mode' is on."
  '("Gemini"
    ["State" gemini-companion-status
     :label (concat "Status: " (gemini-companion-state))]
    "--"
    ["Run, Show or Hide the CLI" gemini-companion-run]
    ("The CLI"
     ["Run Another Agent" gemini-companion-run-other]
     ["Set Up to Connect" gemini-companion-setup]
     ["Answer Yes" gemini-companion-answer-yes :active (gemini-companion-cli-p)]
     ["Answer No" gemini-companion-answer-no :active (gemini-companion-cli-p)])
    ("Say"
     ["Prompt..." gemini-companion-send-prompt :active (gemini-companion-cli-p)]
     ["Compose a Prompt" gemini-companion-compose :active (gemini-companion-cli-p)]
     ["Region" gemini-companion-send-region
      :active (and mark-active (gemini-companion-cli-p))]
     ["File" gemini-companion-send-file :active (gemini-companion-cli-p)]
     ["Diagnostic" gemini-companion-send-diagnostic :active (gemini-companion-cli-p)])
    "--"
    ["Show the Next Change" gemini-companion-review-next
     :active (gemini-companion-mode-line--reviews-p)]
    ["Accept Change" gemini-companion-accept :active (gemini-companion-mode-line--reviews-p)]
    ["Reject Change" gemini-companion-reject :active (gemini-companion-mode-line--reviews-p)]
    ["Changes That Wait" gemini-companion-review-list]
    ["History" gemini-companion-review-history]
    "--"
    ["What Clients Are Told" gemini-companion-show-context]
    ["Pause" gemini-companion-toggle-context
     :style toggle :selected gemini-companion-context-paused]
    ["Doctor" gemini-companion-doctor]
    ["Log" gemini-companion-log]
    ["Help" (describe-function 'gemini-companion-mode)]
    ["Switch Off" (gemini-companion-mode -1)]))

(provide 'gemini-companion-mode-line)
;;; gemini-companion-mode-line.el ends here

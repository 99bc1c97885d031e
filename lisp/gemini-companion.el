;;; gemini-companion.el --- IDE companion for Gemini CLI -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; Author: The gemini-companion authors <gemini-companion@users.noreply.github.com>
;; Maintainer: The gemini-companion authors <gemini-companion@users.noreply.github.com>
;; URL: https://github.com/gemini-companion/gemini-companion
;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: tools, convenience
;; Assisted-by: Claude
;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Gemini CLI, Google's coding agent for the terminal, connects to this Emacs: it learns which files
;; are open, where point is and what is selected, and each change that it proposes opens in Emacs,
;; where you can edit, accept or reject it.
;;
;; To start, visit a file of a project and type M-x gemini-companion-run.  For a CLI in a terminal
;; outside of Emacs, type M-x gemini-companion-mode first, and M-x gemini-companion-setup once.
;;
;; The server runs in a native module on a thread of its own, so clients stay connected however busy
;; Emacs is.  ARCHITECTURE.md describes how the parts fit.

;;; Code:

(require 'gemini-companion-agent)
(require 'gemini-companion-bridge)
(require 'gemini-companion-cli)
(require 'gemini-companion-context)
(require 'gemini-companion-file)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-native)
(require 'gemini-companion-review)
(require 'gemini-companion-review-client)
(require 'gemini-companion-review-popup)
(require 'gemini-companion-ui)
(require 'gemini-companion-workspace)
(require 'gemini-companion-write)

(declare-function gemini-companion-tool-extension-keep-current "gemini-companion-tool-extension")
(declare-function gemini-companion-install-instead "gemini-companion-install")

(defun gemini-companion--load-autoloads ()
  "Generate the autoloads of this checkout, and load them.
A file of them beside the others might be out of date after the next update."
  (let* ((temporary (file-name-as-directory (make-temp-file "gemini-companion-" 'directory)))
         (file (expand-file-name "gemini-companion-autoloads.el" temporary))
         (inhibit-message t)
         (message-log-max nil))
    (unwind-protect
        (progn
          (dolist (each (directory-files (file-name-directory (or load-file-name buffer-file-name))
                                         t "\\.el\\'"))
            (copy-file each temporary))
          ;; The first one is that of Emacs 29; the other one visits the file.
          (with-suppressed-warnings ((obsolete make-directory-autoloads))
            (funcall (if (fboundp 'loaddefs-generate) 'loaddefs-generate 'make-directory-autoloads)
                     temporary file))
          (gemini-companion-ui-kill-buffer (get-file-buffer file))
          (load file nil 'nomessage))
      (delete-directory temporary t))))

;; Package managers and `make build' generate a file of autoloads; package managers also load it.
;;;###autoload (put 'gemini-companion-mode 'gemini-companion-autoloads t)
(unless (or (get 'gemini-companion-mode 'gemini-companion-autoloads)
            (load "gemini-companion-autoloads" 'noerror 'nomessage))
  (gemini-companion--load-autoloads))

;;;; Options

;; The groups are here, but most options are in other files: `custom-add-load' names those that are
;; not loaded yet.

;;;###autoload (custom-add-load 'gemini-companion 'gemini-companion)
(defgroup gemini-companion nil
  "IDE companion for Gemini CLI."
  :group 'tools
  :prefix "gemini-companion-"
  :link '(url-link "https://github.com/gemini-companion/gemini-companion"))

(defgroup gemini-companion-review nil
  "How changes appear, and how you decide them."
  :group 'gemini-companion)

(defgroup gemini-companion-terminal nil
  "How a CLI runs in a terminal of Emacs."
  :group 'gemini-companion)

(defgroup gemini-companion-context nil
  "What Emacs tells clients, and what it withholds."
  :group 'gemini-companion)

(defgroup gemini-companion-clients nil
  "Which programs can connect, and how they find this Emacs."
  :group 'gemini-companion)

(defgroup gemini-companion-server nil
  "The server, its native module and its log."
  :group 'gemini-companion)

(defcustom gemini-companion-port 0
  "TCP port on 127.0.0.1 for clients; 0 means any free port.
Only clients of older protocols need one of 58767, 3000 and 8080.  If the
port is in use, Emacs takes a free one.  Takes effect when
`gemini-companion-mode' is next enabled."
  :type '(choice (const :tag "A free port" 0)
                 (integer :tag "Port"))
  :risky t
  :group 'gemini-companion-server)

(defcustom gemini-companion-max-message-size 64
  "Maximum size in MiB of a message from a client.
A proposed change is one message with the text of the whole file, so this
must exceed the size of your largest file.  Takes effect when
`gemini-companion-mode' is next enabled."
  :type '(natnum :tag "MiB")
  :risky t
  :group 'gemini-companion-server)

(defvar gemini-companion--wanted nil
  "Non-nil if the user wants the mode enabled, even if the module is missing.")

(defvar gemini-companion--died 0
  "When the server died last.")

(defvar gemini-companion-mode)

;;;; Keys

(defvar gemini-companion-command-map
  (let ((map (make-sparse-keymap)))
    ;; which-key and the like show the names.
    (define-key map "r" '("run, show, hide" . gemini-companion-run))
    (define-key map "R" '("run another" . gemini-companion-run-other))
    (define-key map "u" '("resume a session" . gemini-companion-resume))
    (define-key map "o" '("visit mentioned" . gemini-companion-visit-mentioned))
    (define-key map "y" '("answer yes" . gemini-companion-answer-yes))
    (define-key map "n" '("answer no" . gemini-companion-answer-no))
    (define-key map "p" '("prompt" . gemini-companion-send-prompt))
    (define-key map "e" '("compose" . gemini-companion-compose))
    (define-key map "s" '("send region" . gemini-companion-send-region))
    (define-key map "f" '("send file" . gemini-companion-send-file))
    (define-key map "d" '("send diagnostic" . gemini-companion-send-diagnostic))
    (define-key map "m" '("comment on line" . gemini-companion-comment))
    (define-key map "v" '("next change" . gemini-companion-review-next))
    (define-key map "a" '("accept" . gemini-companion-accept))
    (define-key map "k" '("reject" . gemini-companion-reject))
    (define-key map "l" '("list" . gemini-companion-review-list))
    (define-key map "h" '("history" . gemini-companion-history-list))
    (define-key map "c" '("show context" . gemini-companion-show-context))
    (define-key map "t" '("pause, resume" . gemini-companion-toggle-context))
    (define-key map "i" '("CLIs" . gemini-companion-cli-list))
    (define-key map "g" '("what a CLI wants" . gemini-companion-next))
    (define-key map "I" '("status" . gemini-companion-status))
    (define-key map "D" '("doctor" . gemini-companion-doctor))
    (define-key map "?" '("menu" . gemini-companion-menu))
    map)
  "Keymap of the main commands, to be bound to a prefix key of your choice.
For instance (global-set-key (kbd \"C-c g\") \\='gemini-companion-command-map).")
;;;###autoload (autoload 'gemini-companion-command-map "gemini-companion" nil nil 'keymap)
(fset 'gemini-companion-command-map gemini-companion-command-map)

(defun gemini-companion--keep-from-repeating ()
  "Keep Evil's key \\`.' from repeating our commands.
It would accept the next change, or answer yes to the next question."
  (when (fboundp 'evil-declare-not-repeat)
    (dolist (name (all-completions "gemini-companion-" obarray #'commandp))
      (evil-declare-not-repeat (intern name)))))
(add-hook 'evil-mode-hook #'gemini-companion--keep-from-repeating)
(gemini-companion--keep-from-repeating) ; Evil may be on already

;;;; The mode line

(defun gemini-companion--lighter ()
  "Return the text in the mode line."
  (let ((clients gemini-companion-bridge-clients)
        (reviews (gemini-companion-review-count)))
    (concat " Gem"
            (and (> clients 0) (format ":%d" clients))
            (and (> reviews 0) (format "!%d" reviews))
            (and (gemini-companion-cli-asking-unseen) "?")
            (and (gemini-companion-cli-in-state 'working) " works")
            (and (gemini-companion-review-popup-held-p) " waits")
            (and gemini-companion-context-paused " paused")
            (gemini-companion-host-mode-line default-directory))))

;; Also for the menu, which may be loaded first.
;;;###autoload
(defun gemini-companion-state ()
  "Return what the mode line shows as text for the user."
  (if (not gemini-companion-mode) "off"
    (let ((clients gemini-companion-bridge-clients)
          (reviews (gemini-companion-review-count)))
      (concat (if (zerop clients) "no client"
                (gemini-companion-ui-count clients "client"))
              (if (zerop reviews) ", no change waits"
                (format (ngettext ", %d change waits for you" ", %d changes wait for you" reviews)
                        reviews))
              (and (gemini-companion-review-popup-held-p) " to pause")
              (and (gemini-companion-cli-in-state 'asking) ", a CLI asks a question")
              (and (gemini-companion-cli-in-state 'working) ", a CLI is working")
              (and gemini-companion-context-paused ", context paused")
              (gemini-companion-host-mode-line "")))))

(defun gemini-companion--help-echo (&rest _)
  "Return the tooltip of the mode line."
  (format "Gemini companion: %s\nmouse-1: %s\nmouse-2: help\nmouse-3: menu"
          (gemini-companion-state)
          (cond ((gemini-companion-review-all-open) "show the next change")
                ((gemini-companion-cli-asking-unseen) "show the question")
                (t "commands"))))

(defun gemini-companion-mode-line-click (event)
  "Show the change or the question that waits for you, or the menu if none does.
EVENT is the click."
  (declare (completion ignore))
  (interactive "e")
  (select-window (posn-window (event-start event)))
  (call-interactively (cond ((gemini-companion-review-all-open) 'gemini-companion-review-next)
                            ((gemini-companion-cli-asking-unseen) 'gemini-companion-next)
                            (t 'gemini-companion-menu))))

(defvar gemini-companion-mode-line
  (let ((map (make-sparse-keymap)))
    (define-key map [mode-line mouse-1] #'gemini-companion-mode-line-click)
    (define-key map [mode-line mouse-2] #'mode-line-minor-mode-help)
    (define-key map [mode-line down-mouse-3] #'mouse-minor-mode-menu)
    `(:propertize (:eval (gemini-companion--lighter))
                  help-echo gemini-companion--help-echo
                  mouse-face mode-line-highlight
                  local-map ,map))
  "Lighter of `gemini-companion-mode', made once because Emacs displays it often.")
(put 'gemini-companion-mode-line 'risky-local-variable t)

;;;###autoload
(defun gemini-companion-any-cli-p ()
  "Return non-nil if there may be a CLI that takes prompts."
  (or (> gemini-companion-bridge-clients 0)
      (run-hook-with-args-until-success 'gemini-companion-cli-running-functions)))

;;;; The menu bar

(defvar gemini-companion-mode-map (make-sparse-keymap)
  "Keymap of `gemini-companion-mode'; it has only a menu in the menu bar.")

;; Short enough for a terminal with 24 lines.
(easy-menu-define gemini-companion-menu-bar gemini-companion-mode-map
  "Menu of `gemini-companion-mode' in the menu bar."
  '("Gemini"
    ["State" gemini-companion-status
     :label (concat "Status: " (gemini-companion-state))]
    "--"
    ["Run, Show or Hide the CLI" gemini-companion-run]
    ["List of CLIs" gemini-companion-cli-list]
    ["Go to What a CLI Wants" gemini-companion-next]
    ("The CLI"
     ["Run Another Program..." gemini-companion-run-other]
     ["Resume a Session..." gemini-companion-resume]
     ["Let the CLI Connect by Itself..." gemini-companion-setup]
     ["Connect to a Host..." gemini-companion-connect]
     ["Disconnect from a Host..." gemini-companion-disconnect
      :active gemini-companion-host-all]
     ["Let the Model Use Emacs..." gemini-companion-tools-enable]
     ["Visit a Mentioned File..." gemini-companion-visit-mentioned
      :active (gemini-companion-any-cli-p)]
     ["Answer Yes" gemini-companion-answer-yes :active (gemini-companion-any-cli-p)]
     ["Answer No" gemini-companion-answer-no :active (gemini-companion-any-cli-p)])
    ("Send"
     ["Prompt..." gemini-companion-send-prompt :active (gemini-companion-any-cli-p)]
     ["Compose a Prompt" gemini-companion-compose :active (gemini-companion-any-cli-p)]
     ["Region" gemini-companion-send-region
      :active (and mark-active (gemini-companion-any-cli-p))]
     ["File" gemini-companion-send-file :active (gemini-companion-any-cli-p)]
     ["Diagnostic" gemini-companion-send-diagnostic :active (gemini-companion-any-cli-p)]
     ["Comment on Line..." gemini-companion-comment]
     ["All Comments" gemini-companion-comments-send :active (gemini-companion-any-cli-p)])
    "--"
    ["Show the Next Change" gemini-companion-review-next
     :active (gemini-companion-review-all-open)]
    ["Accept Change" gemini-companion-accept :active (gemini-companion-review-all-open)]
    ["Accept All of the Turn..." gemini-companion-accept-all
     :active (gemini-companion-review-all-open)]
    ["Reject Change" gemini-companion-reject :active (gemini-companion-review-all-open)]
    ["Changes That Wait" gemini-companion-review-list]
    ["History" gemini-companion-history-list]
    "--"
    ["What Clients Are Told" gemini-companion-show-context]
    ["Pause the Context" gemini-companion-toggle-context
     :style toggle :selected gemini-companion-context-paused]
    ["Doctor" gemini-companion-doctor]
    ["Log" gemini-companion-log]
    ["Help" (describe-function 'gemini-companion-mode)]
    ["Turn Off" (when (gemini-companion-review-query-exit "turn the companion off")
                  (gemini-companion-mode -1))]))

;;;; The mode

;;;###autoload
(define-minor-mode gemini-companion-mode
  "Let Gemini CLI connect to this Emacs.
Emacs tells it which files you look at, and shows you the changes that it
proposes.

The mode line shows \"Gem\" and, for example, any of these:

  :2      two clients are connected
  !3      three changes wait for your decision
  ?       a CLI asks something in a terminal that you do not see
  works   a CLI is working, as its hooks report
  waits   a change will appear when you pause
  paused  clients see no open files; see `gemini-companion-toggle-context'
  @build  the current buffer is on the host build, which is connected
  lost@build  the connection to that host is lost

If the native module of this package is missing, and you enable the mode
with a command, Emacs asks how to get it.  The mode turns on, and its hooks
run again, when the module is there; see `gemini-companion-install-policy'."
  :global t
  :group 'gemini-companion-server
  :lighter gemini-companion-mode-line
  (setq gemini-companion--wanted gemini-companion-mode)
  (if gemini-companion-mode
      (gemini-companion--switch-on (or (called-interactively-p 'any)
                                       ;; Transient's advice hides that from the mode.
                                       (eq this-command 'gemini-companion-mode)))
    (gemini-companion--stop))
  (when (and gemini-companion-mode (called-interactively-p 'any))
    (message "Gemini companion is on; %s"
             (if (gemini-companion-any-cli-p) "in a CLI that already runs, type /ide enable"
               (gemini-companion-ui-key 'gemini-companion-run "starts the CLI here")))))

;;;###autoload
(defun gemini-companion-turn-on ()
  "Turn on `gemini-companion-mode' as the user would, unless the server runs.
So Emacs asks how to get the native module if that is missing."
  (unless (gemini-companion-bridge-running-p)
    ;; Native code would call `funcall-interactively' without a trace for `called-interactively-p'.
    (let ((current-prefix-arg 1))
      (call-interactively #'gemini-companion-mode))))

(defun gemini-companion--switch-on (ask)
  "Start the companion; if that fails, leave the mode off and say why.
If the native module is missing, and ASK is non-nil, ask how to get it."
  ;; The module may have to be installed first: the mode is on only while the companion runs.
  (gemini-companion--set-mode nil)
  (condition-case error
      (if (or (gemini-companion-bridge-running-p) (gemini-companion-native-load))
          (gemini-companion--start)
        (gemini-companion-install-instead
         (lambda () (when gemini-companion--wanted (gemini-companion-mode 1)))
         ask))
    (error
     (gemini-companion--stop)
     (let ((text (format "Gemini companion is off: %s" (gemini-companion-ui-error-text error))))
       ;; A signal would end the loading of an init file, and a message would soon be replaced.
       (if (not noninteractive) (gemini-companion--warn :error text)
         (gemini-companion-log-add "%s" text)
         (error "%s" text))))))

(defun gemini-companion--warn (level text)
  "Log TEXT and show it as a warning; for LEVEL see `display-warning'."
  (gemini-companion-log-add "%s" text)
  (let ((warn (lambda () (display-warning 'gemini-companion text level))))
    ;; While a daemon starts, a warning goes only to its log.
    (if (and (daemonp) (not after-init-time))
        (gemini-companion-log-when-free "a warning" warn)
      (funcall warn))))

(defun gemini-companion--set-mode (on)
  "Set the variables and the mode line to show that the mode is ON or off."
  (setq gemini-companion-mode on
        global-minor-modes (delq 'gemini-companion-mode global-minor-modes))
  (when on (push 'gemini-companion-mode global-minor-modes))
  (gemini-companion--put-lighter-first)
  (force-mode-line-update t))

(defun gemini-companion--put-lighter-first (&rest _)
  "Put our lighter before others, of which a narrow window cuts off the last."
  (when-let* ((entry (assq 'gemini-companion-mode minor-mode-alist)))
    (setq minor-mode-alist (cons entry (delq entry minor-mode-alist)))))

;; Other modes may have been loaded in the meantime.
(add-hook 'gemini-companion-review-change-hook #'gemini-companion--put-lighter-first)
(add-hook 'gemini-companion-bridge-clients-functions #'gemini-companion--put-lighter-first)

(defun gemini-companion--start ()
  "Start the companion, for which the native module must be loaded."
  (unless (gemini-companion-bridge-running-p)
    (setq gemini-companion-file-largest (* 1024 1024 gemini-companion-max-message-size))
    (gemini-companion-bridge-start (gemini-companion-agent-announcements)
                                   gemini-companion-port
                                   (gemini-companion-workspace-given-roots)
                                   gemini-companion-file-largest)
    (gemini-companion-workspace-start)
    (gemini-companion-agent-set-environment)
    (gemini-companion-context-start)
    (add-hook 'kill-emacs-query-functions #'gemini-companion-review-query-exit -50)
    (add-hook 'kill-emacs-hook #'gemini-companion--stop)
    (add-hook 'desktop-save-hook #'gemini-companion--keep-from-desktop)
    (run-with-idle-timer 10 nil #'gemini-companion-tool-extension-keep-current)
    (gemini-companion-log-add "listening on port %d" (gemini-companion-bridge-port))
    (gemini-companion--report-faults))
  (gemini-companion--set-mode t))

(defvar desktop-minor-mode-table)

(defun gemini-companion--keep-from-desktop ()
  "Keep Desktop from enabling the mode in a later session."
  (add-to-list 'desktop-minor-mode-table '(gemini-companion-mode nil)))

(defun gemini-companion--report-faults ()
  "Warn if something keeps clients from finding this Emacs."
  (when-let* ((fault (gemini-companion-bridge-port-fault)))
    (gemini-companion--warn
     :warning
     (format "%s.  Clients that look only there do not find this Emacs, which listens on port \
%d; free the port, or change `gemini-companion-port'" fault (gemini-companion-bridge-port))))
  (when-let* ((fault (gemini-companion-bridge-discovery-fault)))
    (gemini-companion--warn :warning (concat "Some clients will not find this Emacs: " fault))))

;;;###autoload
(defun gemini-companion-restart ()
  "Restart the server, in case it does not answer.
Clients keep their sessions and open changes.  This also writes discovery
files again that are missing or altered."
  (interactive)
  (gemini-companion-bridge-check)
  (gemini-companion--restart-server)
  (message "Gemini companion listens on port %d" (gemini-companion-bridge-port)))

;;;###autoload
(defun gemini-companion-ping ()
  "Ping each connected client, and show which clients answer."
  (interactive nil gemini-companion-status-mode gemini-companion-log-mode)
  (gemini-companion-bridge-check)
  (let ((asked (gemini-companion-bridge-ping)))
    (if (zerop asked)
        (message "No client is connected")
      (message "Pinged %s" (gemini-companion-ui-count asked "client")))))

(defun gemini-companion--handle-pong (client seconds)
  "Show that CLIENT has answered a ping after SECONDS."
  (gemini-companion-ui-message 'pong "%s answered after %.1f ms" client (* 1000 seconds)))

;;;###autoload
(defun gemini-companion-toggle-protocol-log ()
  "Start or stop logging each message between Emacs and its clients."
  (interactive)
  (gemini-companion-bridge-trace (not gemini-companion-bridge-tracing))
  (message (if gemini-companion-bridge-tracing
               "Logging each message from now on"
             "No longer logging messages")))

(defun gemini-companion--restart-server ()
  "Restart the server; if that fails, switch the mode off and signal an error."
  (condition-case error
      (progn
        (gemini-companion-bridge-restart)
        (gemini-companion-agent-set-environment))
    (error
     (gemini-companion--switch-off)
     (error "Gemini companion is off, because it could not restart its server: %s.  M-x \
gemini-companion-mode turns it on again" (gemini-companion-ui-error-text error)))))

(defun gemini-companion--switch-off ()
  "Switch the mode off because the companion cannot go on."
  ;; An error in a hook must not hide the reason.
  (gemini-companion-log-errors "gemini-companion-mode-hook"
    (gemini-companion-mode -1)))

(defun gemini-companion--handle-client-message (client text)
  "Show TEXT, a message of CLIENT to the user."
  (gemini-companion-log-add "%s says: %s" client text)
  (gemini-companion-ui-message 'client-message "%s says: %s" client
                               (gemini-companion-ui-one-line text)))

(defun gemini-companion--handle-server-died ()
  "Restart the server, unless it has died twice in a short time."
  (if (time-less-p (time-since gemini-companion--died) 60)
      (progn
        (gemini-companion--switch-off)
        (gemini-companion--warn :error "The server died twice, and the companion is off.  M-x \
gemini-companion-log tells you more, and M-x gemini-companion-mode turns it on again"))
    (setq gemini-companion--died (current-time))
    (condition-case error
        (progn
          (gemini-companion--restart-server)
          (gemini-companion--warn
           :warning "The server died; Emacs has restarted it, and clients can connect again"))
      (error (gemini-companion--warn :error (gemini-companion-ui-error-text error))))))

(defun gemini-companion--stop ()
  "Stop the companion, and undo all that `gemini-companion--start' did.
Reject open reviews.  Log an error in one step, and go on with the others."
  (remove-hook 'kill-emacs-query-functions #'gemini-companion-review-query-exit)
  (remove-hook 'kill-emacs-hook #'gemini-companion--stop)
  (remove-hook 'desktop-save-hook #'gemini-companion--keep-from-desktop)
  (cancel-function-timers #'gemini-companion-tool-extension-keep-current)
  (let ((outside inhibit-quit)
        (inhibit-quit t))
    (mapc #'gemini-companion--stop-part '(gemini-companion-context-stop
                                          gemini-companion-workspace-stop
                                          gemini-companion-agent-restore-environment))
    ;; Hooks of the buffers that are killed may fail, once for each review, and may be quit.
    (let ((inhibit-quit outside))
      (dolist (_ (cons 'all (gemini-companion-review-all-open)))
        (gemini-companion--stop-part #'gemini-companion-review-end-all)))
    (mapc #'gemini-companion--stop-part '(gemini-companion-write-stop
                                          gemini-companion-host-remove-all
                                          gemini-companion-bridge-stop)))
  (gemini-companion--set-mode nil))

(defun gemini-companion--stop-part (function)
  "Call FUNCTION, and log an error or a quit."
  (condition-case problem
      (funcall function)
    ((error quit)
     (gemini-companion-log-add "%s: %s" function (error-message-string problem)))))

(defun gemini-companion-unload-function ()
  "Switch the mode off, for `unload-feature'."
  (gemini-companion-mode -1)
  nil)

(provide 'gemini-companion)
;;; gemini-companion.el ends here

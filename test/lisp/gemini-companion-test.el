;;; gemini-companion-test.el --- Tests of the mode  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-test-companion)

(defvar desktop-base-file-name)
(defvar desktop-minor-mode-table)
(defvar gemini-companion-agent)
(defvar gemini-companion-mode-on-hook)

(declare-function gemini-companion--mod-stop "ext:gemini-companion-module" t t)

(defun gemini-companion-test--state (others)
  "Return all state of Emacs that a running companion changes.
OTHERS are processes of other tests, which may end at any time."
  (list (default-toplevel-value 'process-environment)
        (seq-difference (process-list) others)
        (length timer-list)
        (mapcar #'symbol-value
                '(post-command-hook
                  kill-emacs-hook find-file-hook kill-buffer-hook
                  after-save-hook after-set-visited-file-name-hook
                  window-selection-change-functions window-buffer-change-functions
                  gemini-companion-bridge-clients-functions))
        (directory-files (car (gemini-companion-agent-directories 'gemini)) nil "json")))

(defmacro gemini-companion-test--with-messages (texts &rest body)
  "Evaluate BODY while the list TEXTS collects the messages, newest first."
  (declare (indent 1) (debug (symbolp body)))
  `(let (,texts)
     (cl-letf (((symbol-function 'message)
                (lambda (format &rest arguments)
                  (when format
                    (push (apply #'format-message format arguments) ,texts)))))
       ,@body)))

(ert-deftest gemini-companion/off-undoes-on ()
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (gemini-companion-mode -1)
    (let* ((others (process-list))
           (before (gemini-companion-test--state others)))
      (gemini-companion-mode 1)
      (should gemini-companion-mode)
      (should-not (equal (gemini-companion-test--state others) before))
      (gemini-companion-mode -1)
      (should-not gemini-companion-mode)
      (should (equal (gemini-companion-test--state others) before)))))

(ert-deftest gemini-companion/switching-on-twice-starts-one-companion ()
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (let ((port (gemini-companion-bridge-port)))
      (gemini-companion-mode 1)
      (should gemini-companion-mode)
      (should (eql (gemini-companion-bridge-port) port)))))

(ert-deftest gemini-companion/what-turning-it-on-says-is-true-with-a-fork ()
  (gemini-companion-test-with-project
    (let ((gemini-companion-agent 'qwen))
      (gemini-companion-test-with-answer nil
        (call-interactively #'gemini-companion-mode)
        (should (member "Gemini companion is on; M-x gemini-companion-run starts the CLI here"
                        gemini-companion-test-messages))))))

;; Header lines always did.
(ert-deftest gemini-companion/messages-name-the-keys-that-the-user-has-bound ()
  (gemini-companion-test-with-project
    (let ((minor-mode-overriding-map-alist
           `((t . ,(let ((map (make-sparse-keymap)))
                     (define-key map (kbd "C-c g") gemini-companion-command-map)
                     map)))))
      (gemini-companion-test-with-answer nil
        (call-interactively #'gemini-companion-mode)
        (should (member "Gemini companion is on; C-c g r starts the CLI here"
                        gemini-companion-test-messages))
        (should (equal (cadr (should-error (gemini-companion-answer-yes)))
                       "No CLI runs in a terminal of Emacs; C-c g r starts one"))))))

(ert-deftest gemini-companion/turning-it-on-again-names-what-connects-a-cli-that-runs ()
  (gemini-companion-test-with-project
    (let ((gemini-companion-cli-running-functions (list #'always)))
      (gemini-companion-test-with-answer nil
        (call-interactively #'gemini-companion-mode)
        (should (member "Gemini companion is on; in a CLI that already runs, type /ide enable"
                        gemini-companion-test-messages))))))

(ert-deftest gemini-companion/native-code-turns-it-on-as-the-user-would ()
  "So Emacs asks how to get the module."
  (skip-unless (and (fboundp 'native-comp-available-p) (native-comp-available-p)))
  (gemini-companion-test-with-project
    (let ((asks nil))
      (cl-letf (((symbol-function 'gemini-companion-turn-on)
                 (symbol-function 'gemini-companion-turn-on))
                ((symbol-function 'gemini-companion--switch-on) (lambda (ask) (push ask asks))))
        (native-compile 'gemini-companion-turn-on)
        (gemini-companion-turn-on))
      (should (equal asks '(t))))))

(ert-deftest gemini-companion/processes-of-emacs-find-it ()
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (should (equal (shell-command-to-string
                    "echo $GEMINI_CLI_IDE_SERVER_PORT $GEMINI_CLI_IDE_PID")
                   (format "%d %d\n" (gemini-companion-bridge-port) (emacs-pid))))
    (should (equal (getenv "GEMINI_CLI_IDE_AUTH_TOKEN") (gemini-companion-bridge-token)))
    (gemini-companion-mode -1)
    (should-not (getenv "GEMINI_CLI_IDE_SERVER_PORT"))))

(ert-deftest gemini-companion/no-descriptor-leaks-into-processes ()
  (skip-unless (file-directory-p "/proc/self/fd"))
  (gemini-companion-test-with-project
    (let ((inherited (lambda () (shell-command-to-string "ls /proc/self/fd | wc -l"))))
      (let ((before (funcall inherited)))
        (gemini-companion-mode 1)
        (should (equal (funcall inherited) before))))))

(ert-deftest gemini-companion/threads-block-signals ()
  "Every thread of the module blocks SIGPIPE and the signals that Emacs handles."
  (skip-unless (file-directory-p "/proc/self/task"))
  (gemini-companion-test-with-client client
    ;; This starts the thread that watches the file system.
    (gemini-companion-test-propose client "a.txt" "x")
    (let* ((own (number-to-string (emacs-pid)))
           (threads (remove own (directory-files "/proc/self/task" nil "[0-9]")))
           (blocked (mapcar (lambda (thread)
                              (with-temp-buffer
                                (insert-file-contents
                                 (format "/proc/self/task/%s/status" thread))
                                (re-search-forward "^SigBlk:\t\\(.*\\)$")
                                (string-to-number (match-string 1) 16)))
                            threads)))
      (should threads)
      (dolist (mask blocked)
        ;; HUP, INT, USR1, PIPE, ALRM, TERM, CHLD, PROF, IO
        (dolist (signal '(1 2 10 13 14 15 17 27 29))
          (should (= 1 (logand 1 (ash mask (- 1 signal))))))))))

(ert-deftest gemini-companion/another-port-is-used-if-the-wanted-one-is-taken ()
  (let* ((taken (make-network-process :name "taken" :server t :host "127.0.0.1"
                                      :service t :noquery t))
         (gemini-companion-port (process-contact taken :service)))
    (unwind-protect
        (gemini-companion-test-with-project
          (let ((warnings nil)
                (port gemini-companion-port))
            (cl-letf (((symbol-function 'display-warning)
                       (lambda (_type text &rest _) (push text warnings))))
              (gemini-companion-mode 1))
            (should gemini-companion-mode)
            (should-not (= (gemini-companion-bridge-port) port))
            (should (= 1 (length warnings)))
            (should (string-match-p
                     (format "cannot listen on 127.0.0.1:%d: .*listens on port %d; free the port"
                             port (gemini-companion-bridge-port))
                     (car warnings)))))
      (delete-process taken))))

(ert-deftest gemini-companion/a-fixed-port-is-used ()
  (let* ((free (make-network-process :name "free" :server t :host "127.0.0.1"
                                     :service t :noquery t))
         (gemini-companion-port (process-contact free :service)))
    (delete-process free)
    (gemini-companion-test-with-project
      (gemini-companion-mode 1)
      (should (eql (gemini-companion-bridge-port) gemini-companion-port)))))

;; Emacs writes what it warns of while a daemon starts only where the daemon writes its log.
(ert-deftest gemini-companion/a-warning-while-a-daemon-starts-is-shown-on-its-first-frame ()
  (let ((warnings nil) (why "Emacs has no frame"))
    (cl-letf (((symbol-function 'display-warning)
               (lambda (_type text &rest _) (push text warnings)))
              ((symbol-function 'daemonp) #'always)
              ((symbol-function 'gemini-companion-ui-busy) (lambda () why)))
      (let ((after-init-time nil))
        (gemini-companion--warn :error "No module"))
      (should-not warnings)
      (setq why nil)
      (gemini-companion-test-wait "the warning" (lambda () (equal warnings '("No module")))))))

(ert-deftest gemini-companion/a-restart-keeps-port-sessions-and-reviews ()
  (gemini-companion-test-with-client client
    (let ((port (gemini-companion-bridge-port)))
      (gemini-companion-test-propose client "a.txt" "x")
      (gemini-companion-restart)
      (gemini-companion-test-wait "the proper end of the stream"
                                  (lambda () (eq (fake-cli-stream-state client) t)))
      (should (eql (gemini-companion-bridge-port) port))
      (should (equal (getenv "GEMINI_CLI_IDE_SERVER_PORT") (number-to-string port)))
      (gemini-companion-review-next)
      (gemini-companion-accept)
      (fake-cli--open-stream client)
      (should (equal (alist-get 'content
                                (fake-cli-wait-notification client "ide/diffAccepted"))
                     "x")))))

(ert-deftest gemini-companion/a-server-that-dies-is-replaced-once ()
  (gemini-companion-test-with-client client
    (let ((gemini-companion--died 0) warnings modes)
      (cl-letf (((symbol-function 'display-warning)
                 (lambda (_type text &rest _) (push text warnings))))
        (gemini-companion-bridge-handle-event 'server-died)
        (should gemini-companion-mode)
        (should (fake-cli-request client "tools/list"))
        (should (= (length warnings) 1))
        (let ((gemini-companion-mode-hook
               (list (lambda () (push gemini-companion-mode modes) (error "No hook today")))))
          (gemini-companion-bridge-handle-event 'server-died))
        (should-not gemini-companion-mode)
        (should (equal modes '(nil)))
        (should (= (length warnings) 2))
        (should (string-match-p "died twice.*M-x gemini-companion-mode" (car warnings)))))))

(ert-deftest gemini-companion/a-server-that-cannot-be-replaced-is-reported ()
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (let ((gemini-companion--died 0) warnings modes)
      (cl-letf (((symbol-function 'display-warning)
                 (lambda (_type text &rest _) (push text warnings)))
                ((symbol-function 'gemini-companion-bridge-restart)
                 (lambda () (error "No port today"))))
        (let ((gemini-companion-mode-hook
               (list (lambda () (push gemini-companion-mode modes)))))
          (gemini-companion-bridge-handle-event 'server-died)))
      (should (equal modes '(nil)))
      (should-not gemini-companion-mode)
      (should-not (gemini-companion-bridge-running-p))
      (should (= (length warnings) 1))
      (should (string-match-p "is off.*No port today.*M-x gemini-companion-mode turns it on"
                              (car warnings))))))

(ert-deftest gemini-companion/a-failed-restart-is-an-error ()
  (gemini-companion-test-with-project
    (gemini-companion-mode 1)
    (cl-letf (((symbol-function 'gemini-companion-bridge-restart)
               (lambda () (error "No port today"))))
      (should (string-match-p "is off.*No port today"
                              (error-message-string (should-error (gemini-companion-restart))))))
    (should-not gemini-companion-mode)))

(ert-deftest gemini-companion/errors-do-not-keep-it-from-stopping ()
  "Hooks of the user and functions of this package signal errors or quit."
  (dolist (failure (list (lambda (&rest _) (error "No end today"))
                         (lambda (&rest _) (signal 'quit nil))))
    (dolist (stop (list (lambda () (gemini-companion-mode -1))
                        #'gemini-companion--stop)) ; as `kill-emacs-hook' does
      (gemini-companion-test-with-project (gemini-companion-mode 1))
      ;; A global mode of another test may have left a function in `post-command-hook'.
      (run-hooks 'post-command-hook)
      (pcase-let* ((processes (process-list))
                   (`(,environment ,_ ,_timers . ,others) (gemini-companion-test--state processes))
                   (mod-stop (symbol-function 'gemini-companion--mod-stop)))
        (gemini-companion-test-with-client client
          (should (memq #'gemini-companion--stop kill-emacs-hook))
          (dolist (name '("a.txt" "b.txt" "c.txt"))
            (let ((review (gemini-companion-test-propose client name "x")))
              (with-current-buffer (gemini-companion-review-buffer-proposal review)
                (add-hook 'kill-buffer-hook failure nil t))))
          (let ((stop-workspace (symbol-function 'gemini-companion-workspace-stop)))
            (cl-letf (((symbol-function 'gemini-companion-workspace-stop)
                       (lambda () (funcall stop-workspace) (funcall failure)))
                      ((symbol-function 'gemini-companion--mod-stop)
                       (lambda (companion) (funcall mod-stop companion) (funcall failure))))
              (funcall stop)))
          (should-not gemini-companion-mode)
          (should-not (gemini-companion-bridge-running-p))
          (should-not (gemini-companion-test-timers #'gemini-companion-bridge--drain-soon))
          (should-not (gemini-companion-review-all-open))
          (dolist (buffer (buffer-list))
            (with-current-buffer buffer (remove-hook 'kill-buffer-hook failure t))))
        (run-hooks 'post-command-hook)
        (pcase-let ((`(,environment-after ,more-processes ,_timers . ,others-after)
                     (gemini-companion-test--state processes)))
          (should (equal environment-after environment))
          (should-not more-processes)
          (should (equal others-after others)))))))

(ert-deftest gemini-companion/mode-hooks-run-once-the-module-is-loaded ()
  (let ((continue nil) (modes nil) (ons 0))
    (gemini-companion-test-with-project
      (let ((gemini-companion-mode-hook (list (lambda () (push gemini-companion-mode modes))))
            (gemini-companion-mode-on-hook (list (lambda () (setq ons (1+ ons))))))
        (gemini-companion-test--with-messages texts
          (cl-letf (((symbol-function 'gemini-companion-native-load) #'ignore)
                    ((symbol-function 'gemini-companion-install-instead)
                     (lambda (function _ask) (setq continue function))))
            (funcall-interactively #'gemini-companion-mode 1))
          (should-not gemini-companion-mode)
          (should-not (memq 'gemini-companion-mode global-minor-modes))
          (should-not (seq-find (lambda (text) (string-search "enabled" text)) texts)))
        (should (equal (list modes ons) '((nil) 0)))
        (funcall continue)
        (should gemini-companion-mode)
        (should (memq 'gemini-companion-mode global-minor-modes))
        (should (equal (list modes ons) '((t nil) 1)))
        (gemini-companion-mode -1)
        (should-not (memq 'gemini-companion-mode global-minor-modes))
        ;; The mode was switched off while it waited.
        (funcall continue)
        (should-not gemini-companion-mode)))))

(ert-deftest gemini-companion/clients-answer-a-ping ()
  (gemini-companion-test-with-client client
    (gemini-companion-test--with-messages texts
      (gemini-companion-ping)
      (should (equal texts '("Pinged 1 client")))
      (gemini-companion-test-wait "the answer" (lambda () (cdr texts)))
      (should (string-match-p "\\`fake-cli 1 answered after [0-9.]+ ms\\'"
                              (car texts))))))

(ert-deftest gemini-companion/the-token-is-shown-nowhere ()
  (gemini-companion-test-with-client client
    (let ((token (gemini-companion-bridge-token)))
      (should (= (length token) 64))
      (gemini-companion-test--with-messages texts
        (gemini-companion-test-propose client "a.txt" "x")
        (gemini-companion-restart)
        (gemini-companion-review-next)
        (gemini-companion-accept)
        (gemini-companion-bridge-handle-event 'warning "something")
        (gemini-companion-log)
        (push (format "%S" gemini-companion-bridge--companion) texts)
        (dolist (buffer (buffer-list))
          (with-current-buffer buffer
            (push (save-restriction (widen) (buffer-string)) texts)))
        (should (> (length texts) 3))
        (dolist (text texts)
          (should-not (string-search token text)))))))

(ert-deftest gemini-companion/restart-needs-a-companion ()
  (should-error (gemini-companion-restart) :type 'user-error))

(ert-deftest gemini-companion/the-mode-line-counts-clients-and-reviews ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-wait "the client in the mode line"
                                (lambda () (equal (gemini-companion--lighter) " Gem:1")))
    ;; A narrow window cuts off what is behind the lighters of others.
    (let ((minor-mode-alist `((later-mode " Later") ,@minor-mode-alist)))
      (gemini-companion-test-propose client "a.txt" "x")
      (should (equal (gemini-companion--lighter) " Gem:1!1"))
      (should (eq (caar minor-mode-alist) 'gemini-companion-mode)))))

(defun gemini-companion-test--click ()
  "Click on the mode line of the selected window."
  (funcall (lookup-key (plist-get (cddr gemini-companion-mode-line) 'local-map)
                       [mode-line mouse-1])
           (list 'mouse-1 (list (selected-window) 'mode-line '(0 . 0) 0))))

(ert-deftest gemini-companion/the-mode-line-has-help-and-can-be-clicked ()
  (gemini-companion-test-with-client client
    (gemini-companion-test-wait "the client"
                                (lambda () (= gemini-companion-bridge-clients 1)))
    (should (string-match-p ": 1 client, no change waits\nmouse-1: commands"
                            (gemini-companion--help-echo)))
    (let (called)
      (cl-letf (((symbol-function 'gemini-companion-menu) (lambda () (interactive) (setq called t))))
        (gemini-companion-test--click))
      (should called))
    (let ((review (gemini-companion-test-propose client "a.txt" "x"))
          (gemini-companion-context-paused t))
      (gemini-companion-test-propose client "b.txt" "x")
      (should (string-match-p
               ": 1 client, 2 changes wait for you, context paused\nmouse-1: show the next change"
               (gemini-companion--help-echo)))
      (gemini-companion-test--click)
      (should (eq (gemini-companion-review-shown) review)))))

(ert-deftest gemini-companion/the-mode-line-allocates-only-its-text ()
  (should (eq (cadr (assq 'gemini-companion-mode minor-mode-alist))
              'gemini-companion-mode-line))
  (should (get 'gemini-companion-mode-line 'risky-local-variable))
  (pcase-let ((`(:propertize (:eval ,text) . ,properties) gemini-companion-mode-line))
    (should (equal (eval text t) " Gem"))
    (should (keymapp (plist-get properties 'local-map)))
    (should (functionp (plist-get properties 'help-echo)))))

(ert-deftest gemini-companion/a-saved-desktop-does-not-switch-it-on ()
  (require 'desktop)
  (gemini-companion-test-with-project
    (find-file (gemini-companion-test-file "a.txt" "one\n"))
    (gemini-companion-mode 1)
    (let ((inhibit-message t)
          (desktop-minor-mode-table desktop-minor-mode-table)
          (desktop-base-file-name "desktop"))
      (desktop-save gemini-companion-test-project t)
      (let ((saved (gemini-companion-test-read (gemini-companion-test-file "desktop"))))
        (should (string-search "a.txt" saved))
        (should-not (string-search "gemini-companion-mode" saved))))))

(ert-deftest gemini-companion/loading-has-no-side-effects ()
  (with-temp-buffer
    (let ((directory (gemini-companion-test-path "lisp")))
      (call-process
       (expand-file-name invocation-name invocation-directory) nil t nil
       "-Q" "--batch" "-L" directory "--eval"
       (prin1-to-string
        '(let ((before (list post-command-hook kill-emacs-hook find-file-hook
                             process-environment timer-list global-map)))
           (require 'gemini-companion)
           (princ (list (equal before (list post-command-hook kill-emacs-hook
                                            find-file-hook process-environment
                                            timer-list global-map))
                        (featurep 'gemini-companion-module)
                        (featurep 'ediff))))))
      (should (equal (buffer-string) "(t nil nil)")))))

;;; gemini-companion-test.el ends here

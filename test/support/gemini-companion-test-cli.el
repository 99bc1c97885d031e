;;; gemini-companion-test-cli.el --- The real Gemini CLI in a terminal  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Starts the pinned, interactive Gemini CLI with a stand-in for its model
;; (test/e2e/client/model.mjs), either in a tmux of its own or by a script that
;; a terminal inside Emacs can run.  The CLI has only the environment made here,
;; and a home with settings that avoid all dialogs.
;;
;; What the CLI does is best seen in its debug log; what the model received, in
;; the requests that the stand-in has recorded.

;;; Code:

(require 'gemini-companion-test-client)

(cl-defstruct (gemini-companion-test-cli
               (:constructor gemini-companion-test-cli--make)
               (:conc-name gemini-companion-test-cli-))
  "An interactive Gemini CLI and its model."
  (directory nil :documentation "The directory of all its files.")
  (model nil :documentation "The stand-in, a `gemini-companion-test-program'.")
  (pid nil :documentation "Its process id, once it has started.")
  (emacs nil :documentation "The Emacs whose terminal it runs in, or nil.")
  (home nil :documentation "Its home, unless that is in its directory."))

(defun gemini-companion-test-cli-file (cli name)
  "Return the file NAME in the directory of CLI."
  (expand-file-name name (gemini-companion-test-cli-directory cli)))

(defvar gemini-companion-test-cli-colors nil
  "Non-nil means that new CLIs use colors, for the terminal's background.
If it is `few', the terminal has only 256.")

(defvar gemini-companion-test-cli-ui nil
  "More settings of the user interface of a CLI that starts, an alist.")

;;;; The model

(defun gemini-companion-test-model-start (record)
  "Start the stand-in for the model, which writes requests to RECORD."
  (gemini-companion-test-program-start
   (list (gemini-companion-test-node)
         (expand-file-name "model.mjs" gemini-companion-test-client-directory)
         record)
   temporary-file-directory (list "LANG=C.UTF-8")))

(defun gemini-companion-test-model-port (model)
  "Return the port of MODEL, once it listens."
  (alist-get 'port
             (gemini-companion-test-wait
              "the model to listen"
              (lambda ()
                (gemini-companion-test-program-find
                 model (lambda (line)
                         (equal (alist-get 'event line) "listening")))))))

(defun gemini-companion-test-cli-script (cli &rest turns)
  "Let the model of CLI answer the next requests by TURNS.
A turn is a string or (FUNCTION-NAME . ARGUMENTS), with a plist; or a
vector of these."
  (dolist (turn turns)
    (gemini-companion-test-program-send
     (gemini-companion-test-cli-model cli)
     (if (vectorp turn)
         (vconcat (mapcar #'gemini-companion-test-cli--part turn))
       (gemini-companion-test-cli--part turn)))))

(defun gemini-companion-test-cli--part (turn)
  "Return the part of an answer of the model that TURN stands for."
  (if (stringp turn)
      `(:text ,turn)
    `(:functionCall (:name ,(car turn) :args ,(cdr turn)))))

(defun gemini-companion-test-cli-requests (cli)
  "Return the bodies of the streamed requests to the model of CLI, in order."
  (mapcar (lambda (record) (alist-get 'body record))
          (gemini-companion-test-cli-records cli)))

(defun gemini-companion-test-cli-records (cli)
  "Return the records of the streamed requests to the model of CLI, in order."
  (let ((lines
         ;; A line without a newline is still being written.
         (butlast (split-string
                   (gemini-companion-test-bytes
                    (gemini-companion-test-cli-file cli "requests.jsonl"))
                   "\n"))))
    (seq-filter (lambda (record)
                  (equal (alist-get 'method record) "streamGenerateContent"))
                (mapcar #'gemini-companion-test-json-decode lines))))

(defun gemini-companion-test-cli-wait-requests (cli count)
  "Wait until the model of CLI has had COUNT streamed requests; return the last."
  (nth (1- count)
       (gemini-companion-test-wait
        (format "%d requests to the model" count)
        (lambda ()
          (let ((requests (gemini-companion-test-cli-requests cli)))
            (and (>= (length requests) count) requests))))))

(defun gemini-companion-test-request-texts (request)
  "Return all texts of the user in REQUEST, oldest first."
  (mapcan (lambda (content)
            (and (equal (alist-get 'role content) "user")
                 (delq nil (mapcar (lambda (part) (alist-get 'text part))
                                   (alist-get 'parts content)))))
          (alist-get 'contents request)))

(defun gemini-companion-test-request-context (request)
  "Return the editor's context in REQUEST, decoded, or nil."
  (let ((text (seq-find (lambda (it) (string-match-p "editor context" it))
                        (gemini-companion-test-request-texts request))))
    (and text
         (string-match "```json\n\\(\\(?:.\\|\n\\)*?\\)\n```" text)
         (gemini-companion-test-json-decode
          (encode-coding-string (match-string 1 text) 'utf-8)))))

(defun gemini-companion-test-request-responses (request)
  "Return the results of functions in REQUEST, oldest first."
  (mapcan (lambda (content)
            (delq nil (mapcar (lambda (part)
                                (alist-get 'response
                                           (alist-get 'functionResponse part)))
                              (alist-get 'parts content))))
          (alist-get 'contents request)))

;;;; Starting and stopping

(defun gemini-companion-test-cli--settings ()
  "Return settings with which the CLI asks nothing when it starts."
  `((security (auth (selectedType . "gemini-api-key"))
              (folderTrust (enabled . :false)))
    (ide (enabled . t) (hasSeenNudge . t))
    (general (enableAutoUpdate . :false)
             (enableAutoUpdateNotification . :false))
    (privacy (usageStatisticsEnabled . :false))
    (telemetry (enabled . :false))
    (ui ,@(unless gemini-companion-test-cli-colors '((theme . "ANSI")))
        (hideBanner . t) (hideTips . t) ,@gemini-companion-test-cli-ui)
    (model (name . "gemini-2.5-flash"))))

(defun gemini-companion-test-cli--environment (cli emacs)
  "Return the environment of CLI, which is to find EMACS."
  (append
   (list (concat "HOME=" (or (gemini-companion-test-cli-home cli)
                             (gemini-companion-test-cli-file cli "home")))
         "GEMINI_API_KEY=none"
         (format "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:%d"
                 (gemini-companion-test-model-port
                  (gemini-companion-test-cli-model cli)))
         (concat "GEMINI_DEBUG_LOG_FILE="
                 (gemini-companion-test-cli-file cli "debug.log"))
         "GEMINI_CLI_NO_RELAUNCH=true" "GEMINI_CLI_TRUST_WORKSPACE=true"
         "GEMINI_TELEMETRY_ENABLED=false" "NO_BROWSER=1" "TERM=xterm-256color")
   (pcase gemini-companion-test-cli-colors
     ('nil '("NO_COLOR=1"))
     ('few nil)
     (_ '("COLORTERM=truecolor")))
   (cl-remove-if (lambda (it) (string-prefix-p "HOME=" it))
                 (gemini-companion-test-client-environment emacs))))

(defun gemini-companion-test-cli--write-launcher (cli emacs directory inside)
  "Write the script that starts CLI in DIRECTORY, to find EMACS.
Of its own environment it passes on only what the companion sets.  With
INSIDE, in a terminal of EMACS, that must suffice in a container, too."
  (gemini-companion-test-cli--write-script
   cli directory
   (cl-remove-if (lambda (it) (and inside (string-prefix-p "VSCODE_REMOTE" it)))
                 (gemini-companion-test-cli--environment cli emacs))
   (expand-file-name "node_modules/@google/gemini-cli/bundle/gemini.js"
                     gemini-companion-test-client-directory)))

(defun gemini-companion-test-cli--write-script (cli directory environment program)
  "Write the script that starts CLI in DIRECTORY with ENVIRONMENT.
PROGRAM is a file for Node."
  (let ((file (gemini-companion-test-cli-file cli "launch")))
    (gemini-companion-test-write
     file
     (concat
      "#!/bin/sh\ncd " (shell-quote-argument directory) " || exit\n"
      "exec env -i "
      (mapconcat (lambda (name) (format "${%s:+%s=\"$%s\"}" name name name))
                 '("GEMINI_CLI_IDE_SERVER_PORT" "GEMINI_CLI_IDE_PID"
                   "GEMINI_CLI_IDE_AUTH_TOKEN" "QWEN_CODE_IDE_SERVER_PORT"
                   "REMOTE_CONTAINERS" "VISUAL" "GEMINI_COMPANION_TERMINAL")
                 " ")
      " "
      (mapconcat #'shell-quote-argument
                 (append environment (list (gemini-companion-test-node) program))
                 " ")
      " \"$@\"\n"))
    (set-file-modes file #o755)
    file))

(defun gemini-companion-test-cli-make (emacs directory &optional inside home)
  "Prepare a CLI that runs in DIRECTORY and finds EMACS; return it.
Its model is started; its script \"launch\" starts the CLI, with INSIDE in
a terminal of EMACS.  If HOME is given, no settings are written to it."
  (let* ((cli (gemini-companion-test-cli--make
               :directory (gemini-companion-test-temp-directory) :home home))
         (record (gemini-companion-test-cli-file cli "requests.jsonl")))
    (gemini-companion-test-on-exit cli #'gemini-companion-test-cli-stop)
    (gemini-companion-test-wait-announced emacs directory)
    (unless home
      (gemini-companion-test-write
       (gemini-companion-test-cli-file cli "home/.gemini/settings.json")
       (decode-coding-string
        (gemini-companion-test-json-encode (gemini-companion-test-cli--settings))
        'utf-8)))
    (setf (gemini-companion-test-cli-model cli)
          (gemini-companion-test-model-start record))
    (gemini-companion-test-cli--write-launcher cli emacs directory inside)
    cli))

(defun gemini-companion-test-cli-start (emacs &optional directory)
  "Start a CLI in a tmux of its own and wait until it has found EMACS.
It runs in DIRECTORY, by default the project of EMACS."
  (gemini-companion-test-cli--start
   (gemini-companion-test-cli-make
    emacs (or directory (gemini-companion-test-project emacs)))
   #'gemini-companion-test-cli--start-in-tmux))

(defun gemini-companion-test-enable-tools (emacs)
  "Let the user of EMACS enable the tools, and the hooks that go with them."
  (gemini-companion-test-m-x emacs "gemini-companion-tools-enable")
  (gemini-companion-test-wait-screen emacs "Let the models of Gemini CLI.* use Emacs")
  (gemini-companion-test-press emacs "y" "The model of Gemini CLI can use Emacs"))

(defun gemini-companion-test-cli-make-at-home (emacs &optional settings inside)
  "Return a CLI that has the home of EMACS, and so its extension.
It is not started yet.  SETTINGS are added to its usual ones.  For INSIDE see
`gemini-companion-test-cli-make'."
  (gemini-companion-test-write
   (expand-file-name ".gemini/settings.json" (gemini-companion-test-home emacs))
   (decode-coding-string
    (gemini-companion-test-json-encode (append settings (gemini-companion-test-cli--settings)))
    'utf-8))
  (gemini-companion-test-cli-make emacs (gemini-companion-test-project emacs) inside
                                  (gemini-companion-test-home emacs)))

(defun gemini-companion-test-cli-start-at-home (emacs)
  "Start a CLI that has the home of EMACS, and so its extension.
It runs in a tmux of its own.  Return it once it is connected."
  (gemini-companion-test-cli--start (gemini-companion-test-cli-make-at-home emacs)
                                    #'gemini-companion-test-cli--start-in-tmux))

(defun gemini-companion-test-cli--start-in-tmux (cli)
  "Start CLI in a tmux of its own; return its process id."
  (gemini-companion-test-tmux-start
   (gemini-companion-test-cli-file cli "tmux") '(120 . 45)
   (list (shell-quote-argument (gemini-companion-test-cli-file cli "launch"))))
  (string-to-number
   (gemini-companion-test-cli--tmux cli "list-panes" "-a" "-F" "#{pane_pid}")))

(defconst gemini-companion-test-qwen-program
  (gemini-companion-test-path
   "test" "e2e" "qwen" "node_modules" "@qwen-code" "qwen-code" "cli.js")
  "The pinned Qwen Code, a file for Node.")

(defun gemini-companion-test-qwen-start (emacs)
  "Start Qwen Code in a tmux of its own, in the project of EMACS; return it.
Its home is below that of EMACS, where both find it."
  (let ((cli (gemini-companion-test-cli--make
              :directory (gemini-companion-test-temp-directory)))
        (home (expand-file-name ".qwen" (gemini-companion-test-home emacs))))
    (gemini-companion-test-on-exit cli #'gemini-companion-test-cli-stop)
    (make-directory (gemini-companion-test-cli-file cli "home"))
    (gemini-companion-test-write
     (expand-file-name "settings.json" home)
     (decode-coding-string
      (gemini-companion-test-json-encode
       '((security (auth (selectedType . "gemini")) (folderTrust (enabled . :false)))
         (ide (enabled . t) (hasSeenNudge . t))
         (general (disableAutoUpdate . t) (enableAutoUpdate . :false))
         (privacy (usageStatisticsEnabled . :false))
         (telemetry (enabled . :false))
         ;; Newer versions would ask the model for these after a turn.
         (ui (enableFollowupSuggestions . :false))
         (memory (enableManagedAutoMemory . :false) (enableManagedAutoDream . :false))
         (tools (approvalMode . "default"))
         (model (name . "gemini-2.5-flash"))))
      'utf-8))
    (setf (gemini-companion-test-cli-model cli)
          (gemini-companion-test-model-start
           (gemini-companion-test-cli-file cli "requests.jsonl")))
    (gemini-companion-test-cli--write-script
     cli (gemini-companion-test-project emacs)
     (append
      (list (concat "QWEN_HOME=" home) "GEMINI_MODEL=gemini-2.5-flash"
            "QWEN_CODE_NO_RELAUNCH=true" "NODE_NO_WARNINGS=1")
      (gemini-companion-test-cli--environment cli emacs))
     gemini-companion-test-qwen-program)
    (condition-case err
        (progn
          (setf (gemini-companion-test-cli-pid cli)
                (gemini-companion-test-cli--start-in-tmux cli))
          (gemini-companion-test-cli-wait-screen cli "Type your message"))
      (error (message "%s" (gemini-companion-test-cli-report cli))
             (gemini-companion-test-cli-stop cli)
             (signal (car err) (cdr err))))
    cli))

(defun gemini-companion-test-cli-start-in-term (emacs)
  "Start a CLI in a terminal inside of EMACS, in its project; return it."
  (gemini-companion-test-cli--start
   (gemini-companion-test-cli-make emacs (gemini-companion-test-project emacs) 'inside)
   (lambda (cli)
     (setf (gemini-companion-test-cli-emacs cli) emacs)
     (gemini-companion-test-run
      emacs `(progn (require 'term)
                    (term ,(gemini-companion-test-cli-file cli "launch"))
                    (process-id (get-buffer-process (current-buffer))))))))

(defun gemini-companion-test-cli-start-by-command (emacs terminal &optional at-home)
  "Start a CLI in the emulator TERMINAL in EMACS by `gemini-companion-run'.
If AT-HOME is non-nil, it has the home of EMACS, and so its extension."
  (gemini-companion-test-eval
   emacs `(setq load-path (append ',(gemini-companion-test-terminal-directories terminal)
                                  load-path)))
  (gemini-companion-test-cli--start
   (if at-home
       (gemini-companion-test-cli-make-at-home emacs nil 'inside)
     (gemini-companion-test-cli-make emacs (gemini-companion-test-project emacs) 'inside))
   (lambda (cli)
     (setf (gemini-companion-test-cli-emacs cli) emacs)
     (gemini-companion-test-run
      emacs `(progn (setq gemini-companion-program
                          ,(gemini-companion-test-cli-file cli "launch")
                          gemini-companion-terminal ',terminal)
                    (gemini-companion-run)
                    (process-id (get-buffer-process (window-buffer))))))))

(defun gemini-companion-test-cli-edit-prompt (emacs cli text more)
  "Type TEXT in CLI, in the selected terminal of EMACS, and MORE in its editor.
That is EMACS, too, and gives the prompt back to CLI."
  (gemini-companion-test-type emacs text)
  (gemini-companion-test-cli-wait-terminal cli (regexp-quote text))
  (gemini-companion-test-run emacs '(progn (gemini-companion-compose t) nil))
  (gemini-companion-test-wait-screen emacs "C-c C-c gives this back to the CLI, C-c C-k cancels")
  (gemini-companion-test-wait-eval emacs `(equal (buffer-string) ,text))
  (gemini-companion-test-type emacs more)
  (gemini-companion-test-keys emacs "C-c" "C-c")
  (gemini-companion-test-cli-wait-terminal cli (regexp-quote (concat text more))))

(defmacro gemini-companion-test-with-terminals (name terminal docstring &rest body)
  "Define tests NAME/term and NAME/vterm that run BODY.
In BODY the variable TERMINAL is the emulator.  DOCSTRING is that of the
tests, which need the real CLI."
  (declare (indent 2) (doc-string 3) (debug (symbolp symbolp stringp body)))
  `(progn
     ,@(mapcar (lambda (emulator)
                 `(ert-deftest ,(intern (format "%s/%s" name emulator)) ()
                    ,docstring
                    ;; vterm is the same library for each Emacs.
                    :tags ',(and (eq emulator 'vterm) '(any-emacs))
                    (let ((,terminal ',emulator)) ,@body)))
               '(term vterm))))

(defun gemini-companion-test-cli--start (cli function)
  "Start CLI by FUNCTION, which returns its process id; return CLI.
Wait until it is connected."
  (condition-case err
      (progn
        (setf (gemini-companion-test-cli-pid cli) (funcall function cli))
        (gemini-companion-test-cli-wait-ready cli))
    (error (message "%s" (gemini-companion-test-cli-report cli))
           (gemini-companion-test-cli-stop cli)
           (signal (car err) (cdr err))))
  cli)

(defun gemini-companion-test-cli-wait-ready (cli)
  "Wait until CLI is connected to its companion and accepts input."
  (gemini-companion-test-cli-wait-log cli "Discovered [0-9]+ tools from IDE")
  (gemini-companion-test-cli-wait-screen cli "Type your message"))

(defun gemini-companion-test-cli-stop (cli)
  "End CLI and its model, and remove their files.
The CLI writes to its home until it ends."
  (gemini-companion-test-end-process (gemini-companion-test-cli-pid cli)
                                     'SIGHUP)
  (unless (gemini-companion-test-cli-emacs cli)
    (gemini-companion-test-tmux-stop (gemini-companion-test-cli-file cli "tmux")))
  (when (gemini-companion-test-cli-model cli)
    (gemini-companion-test-program-stop (gemini-companion-test-cli-model cli)))
  (gemini-companion-test-forget cli)
  (ignore-errors
    (delete-directory (gemini-companion-test-cli-directory cli) t)))

(defmacro gemini-companion-test-with-cli (spec &rest body)
  "Run BODY with a CLI, which is stopped afterwards.
SPEC is (VARIABLE FORM), where FORM starts the CLI.  On failure, print
the CLI's screen and log."
  (declare (indent 1) (debug ((symbolp form) body)))
  (let ((passed (make-symbol "passed")))
    `(let ((,(car spec) ,(cadr spec)) (,passed nil))
       (unwind-protect (prog1 (progn ,@body) (setq ,passed t))
         (unless ,passed
           (message "%s" (gemini-companion-test-cli-report ,(car spec))))
         (gemini-companion-test-cli-stop ,(car spec))))))

(defmacro gemini-companion-test-with-emacs-and-cli (spec &rest body)
  "Run BODY with an Emacs and a CLI that is connected to it.
SPEC is (EMACS CLI FILES [START]): two variables, files as
\(NAME . TEXT) pairs, all of which Emacs visits, the first one
last, and the function that starts the CLI."
  (declare (indent 1) (debug ((symbolp symbolp form &optional form) body)))
  (pcase-let ((`(,emacs ,cli ,files ,start) spec)
              (list (make-symbol "files")))
    `(let ((,list ,files))
       (gemini-companion-test-require-real-client)
       ,(if start
            `(gemini-companion-test-with-emacs (,emacs :files ,list)
               (gemini-companion-test-cli--visit-all ,emacs ,list)
               (gemini-companion-test-with-cli (,cli (funcall ,start ,emacs))
                 ,@body))
          `(gemini-companion-test-cli--call-with-pair
            ,list (lambda (,emacs ,cli)
                    (ignore ,emacs ,cli)
                    ,@body))))))

(defun gemini-companion-test-cli--visit-all (emacs files)
  "Visit all FILES, pairs (NAME . TEXT), in EMACS, the first one last."
  (dolist (file (reverse files))
    (gemini-companion-test-visit emacs (car file))))

;;;; One CLI for several tests

(defvar gemini-companion-test-cli--spare nil
  "An Emacs and a CLI connected to it, both of an earlier test and reset.
Starting a CLI takes three seconds of processor time.")

(defun gemini-companion-test-cli--call-with-pair (files function)
  "Call FUNCTION with an Emacs that visits FILES, and a CLI connected to it."
  (let* ((spare (prog1 gemini-companion-test-cli--spare
                  (setq gemini-companion-test-cli--spare nil)))
         (emacs (or (car spare) (gemini-companion-test-start :files files)))
         (cli (cdr spare))
         (passed nil))
    (unwind-protect
        (progn
          (gemini-companion-test--write-files emacs files)
          (gemini-companion-test-cli--visit-all emacs files)
          (if cli
              (gemini-companion-test-wait-announced emacs (gemini-companion-test-project emacs))
            (setq cli (gemini-companion-test-cli-start emacs)))
          (funcall function emacs cli)
          (setq passed t))
      (unless passed
        (when cli (message "%s" (gemini-companion-test-cli-report cli)))
        (message "%s" (gemini-companion-test-report emacs)))
      (if (and passed
               (gemini-companion-test-cli--reset cli)
               (gemini-companion-test--reset emacs t))
          (setq gemini-companion-test-cli--spare (cons emacs cli))
        (when cli (gemini-companion-test-cli-stop cli))
        (gemini-companion-test-stop emacs)))))

(defun gemini-companion-test-cli--reset (cli)
  "Reset CLI and its model.  Return non-nil on success."
  (when (gemini-companion-test-process-alive-p (gemini-companion-test-cli-pid cli))
    (condition-case err
        (let ((model (gemini-companion-test-cli-model cli))
              (gemini-companion-test-timeout 5))
          (gemini-companion-test-cli-wait-screen cli "Type your message")
          (gemini-companion-test-cli-submit cli "/clear")
          (gemini-companion-test-wait
           "the CLI to clear its screen"
           (lambda ()
             (not (string-match-p "/clear\\|[Dd]one\\|cancelled\\|Accepted\\|please"
                                  (gemini-companion-test-cli-screen cli)))))
          (gemini-companion-test-program-send model "forget")
          (gemini-companion-test-wait
           "the model to forget"
           (lambda ()
             (equal (alist-get 'event (car (gemini-companion-test-program-lines model)))
                    "forgot")))
          t)
      (error (ignore (message "This CLI is not reused: %s" (error-message-string err)))))))

;;;; In another front

(defun gemini-companion-test-editor-start (emacs cli)
  "Start an editor in the project of EMACS that speaks ACP with CLI; return it."
  (let ((editor (gemini-companion-test-program-start
                 (list (gemini-companion-test-node)
                       (gemini-companion-test-path "test" "support" "acp-client.mjs")
                       (gemini-companion-test-cli-file cli "launch") "--acp")
                 (gemini-companion-test-project emacs) process-environment)))
    (gemini-companion-test-editor-wait editor "ready" 1)
    (gemini-companion-test-cli-wait-log cli "Discovered [0-9]+ tools from IDE")
    editor))

(defun gemini-companion-test-editor-wait (editor event count)
  "Wait until EDITOR has told COUNT times of EVENT; return the last."
  (gemini-companion-test-wait
   (format "%d %s of the editor" count event)
   (lambda ()
     (let ((seen 0))
       (gemini-companion-test-program-find
        editor (lambda (line)
                 (and (equal (alist-get 'event line) event)
                      (= (cl-incf seen) count))))))))

;;;; Its screen, log and keys

(defun gemini-companion-test-cli--tmux (cli &rest arguments)
  "Run tmux with ARGUMENTS on the server of CLI, or of the Emacs it runs in."
  (apply #'gemini-companion-test-tmux
         (if (gemini-companion-test-cli-emacs cli)
             (gemini-companion-test-emacs-file
              (gemini-companion-test-cli-emacs cli) "tmux")
           (gemini-companion-test-cli-file cli "tmux"))
         arguments))

(defun gemini-companion-test-cli-keys (cli &rest keys)
  "Press KEYS, named as in tmux, in CLI."
  (apply #'gemini-companion-test-cli--tmux
         cli "send-keys" "-t" "main" keys))

(defun gemini-companion-test-cli-press (cli key regexp)
  "Press KEY in CLI, and wait until its screen matches REGEXP."
  (gemini-companion-test-cli-keys cli key)
  (gemini-companion-test-cli-wait-screen cli regexp))

(defun gemini-companion-test-cli-answer (cli key)
  "Answer the question of CLI about an edit or a command with KEY.
A slow CLI, or Qwen Code, shows the question before it listens to keys."
  (gemini-companion-test-cli-wait-screen cli "llow once")
  (gemini-companion-test-wait
   (format "the CLI to take %s as its answer" key)
   (lambda ()
     (gemini-companion-test-cli-keys cli key)
     (ignore-errors
       (gemini-companion-test-wait
        "the question to go"
        (lambda ()
          (not (string-search "llow once" (gemini-companion-test-cli-screen cli))))
        10)))))

(defun gemini-companion-test-cli-submit (cli text &optional regexp)
  "Type TEXT into CLI and press Enter; with REGEXP, wait for that on its screen.
The CLI takes an Enter right after text as a part of pasted text, and
needs a moment to complete the name of a command.  These are the only
fixed pauses in the tests."
  (gemini-companion-test-wait
   (format "%S in the CLI's prompt" text)
   (lambda ()
     (gemini-companion-test-cli--tmux cli "send-keys" "-t" "main" "-l" text)
     ;; A busy CLI drops what is typed while it clears its screen.
     (ignore-errors
       (let ((gemini-companion-test-timeout 10))
         (gemini-companion-test-cli-wait-screen
          cli (regexp-quote (substring text 0 (min 20 (length text)))))))))
  (sleep-for (if (string-prefix-p "/" text) 1.2 0.6))
  (gemini-companion-test-cli-keys cli "Enter")
  (when regexp (gemini-companion-test-cli-wait-screen cli regexp)))

(defun gemini-companion-test-cli-propose (cli file text &optional emacs)
  "Let the model of CLI propose TEXT for FILE, then answer \"All done\".
With EMACS, wait until that shows TEXT."
  (gemini-companion-test-cli-script
   cli `("write_file" :file_path ,file :content ,text) "All done")
  (gemini-companion-test-cli-submit cli "please write")
  (when emacs (gemini-companion-test-wait-review emacs text)))

(defun gemini-companion-test-cli-screen (cli)
  "Return the screen of CLI as text."
  (condition-case err
      (gemini-companion-test-cli--tmux cli "capture-pane" "-p" "-t" "main")
    (error (error-message-string err))))

(defun gemini-companion-test-cli-wait-terminal (cli regexp)
  "Wait until REGEXP matches in the terminal of Emacs in which CLI runs.
The match need not be on the screen."
  (gemini-companion-test-wait-eval
   (gemini-companion-test-cli-emacs cli)
   `(with-current-buffer (gemini-companion-cli-run-buffer (gemini-companion-cli-run-project))
      (save-excursion
        (goto-char (point-max))
        (re-search-backward ,regexp nil t)))))

(defun gemini-companion-test-cli-log (cli)
  "Return the debug log of CLI."
  (let ((file (gemini-companion-test-cli-file cli "debug.log")))
    (if (file-exists-p file) (gemini-companion-test-read file) "")))

(defun gemini-companion-test-cli-wait-screen (cli regexp)
  "Wait until the screen of CLI matches REGEXP and return the screen."
  (gemini-companion-test-wait
   (format "%S on the CLI's screen" regexp)
   (lambda ()
     (let ((screen (gemini-companion-test-cli-screen cli)))
       (and (string-match-p regexp screen) screen)))))

(defun gemini-companion-test-cli-wait-log (cli regexp)
  "Wait until the debug log of CLI matches REGEXP."
  (gemini-companion-test-wait
   (format "%S in the CLI's log" regexp)
   (lambda () (string-match-p regexp (gemini-companion-test-cli-log cli)))))

(defun gemini-companion-test-cli-report (cli)
  "Return a report of what has happened in CLI."
  (let ((log (gemini-companion-test-cli-log cli)))
    (format "---- Screen of the CLI\n%s\n---- Its log\n%s\n----"
            (gemini-companion-test-squeeze
             (gemini-companion-test-cli-screen cli))
            (substring log (max 0 (- (length log) 3000))))))

(provide 'gemini-companion-test-cli)
;;; gemini-companion-test-cli.el ends here

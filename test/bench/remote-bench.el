;;; remote-bench.el --- Clients on another machine, by the length of the wire  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; How long it takes to connect to a host, and from a proposal there to the screen and from an accept
;; to the file, where a round trip takes 0, 30 and 100 ms; beside what Tramp takes to visit, revert
;; and save a file.  And how long a key waits at most while a host floods Emacs.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path (file-name-directory (macroexp-file-name))))
(require 'gemini-companion-bench)
(require 'gemini-companion-test-far)
(require 'gemini-companion-test-review)

(defconst gemini-companion-bench--round-trips '(0 30 100)
  "Milliseconds of a round trip.")

(defconst gemini-companion-bench--flood-seconds 20
  "Seconds for which a host floods Emacs.")

(defun gemini-companion-bench--far-form (far form)
  "Return FORM, in which `file' is a.txt on FAR and `directory' the project there."
  `(let ((file ,(gemini-companion-test-far-tramp far "a.txt"))
         (directory ,(gemini-companion-test-far-tramp far "")))
     (ignore file directory)
     ,form))

(defun gemini-companion-bench--far-time (emacs far form)
  "Return the milliseconds that EMACS takes for FORM on FAR.
See `gemini-companion-bench--far-form'."
  (gemini-companion-test-run
   emacs (gemini-companion-bench--far-form
          far `(let ((start (float-time)))
                 ,form
                 (* 1000 (- (float-time) start))))
   120))

(defun gemini-companion-bench--remote-name (what ms)
  "Return the name of the figure WHAT at a round trip of MS milliseconds."
  (format "%s, %d ms away" what ms))

;;;; Tramp alone

(defun gemini-companion-bench--tramp (emacs far ms)
  "Measure what Tramp takes in EMACS for files on FAR, MS milliseconds away."
  (let ((add (lambda (what samples)
               (gemini-companion-bench-add
                (gemini-companion-bench--remote-name (concat "Tramp: " what) ms) "ms" samples)))
        (visit '(progn (when (get-file-buffer file) (kill-buffer (get-file-buffer file)))
                       (tramp-flush-directory-properties (tramp-dissect-file-name file)
                                                         (file-local-name directory))
                       (find-file file))))
    (funcall add "find-file, the first on the host"
             (cl-loop repeat 3
                      collect (progn
                                (gemini-companion-test-eval
                                 emacs '(progn (require 'tramp-cmds)
                                               (tramp-cleanup-all-connections)
                                               nil))
                                (gemini-companion-bench--far-time emacs far visit))))
    (funcall add "find-file"
             (cl-loop repeat 5 collect (gemini-companion-bench--far-time emacs far visit)))
    (funcall add "revert-buffer"
             (cl-loop repeat 5 collect
                      (progn
                        (gemini-companion-test-far-write
                         far "a.txt" (format "%s\n" (float-time)))
                        (gemini-companion-bench--far-time
                         emacs far '(with-current-buffer (get-file-buffer file)
                                      (revert-buffer t t))))))
    (funcall add "save-buffer"
             (cl-loop repeat 5 collect
                      (gemini-companion-bench--far-time
                       emacs far '(with-current-buffer (get-file-buffer file)
                                    (insert "x")
                                    (save-buffer)))))))

;;;; Ours

(defun gemini-companion-bench--connect (emacs far)
  "Return the milliseconds that EMACS takes to connect with FAR."
  (gemini-companion-test-eval
   emacs
   (gemini-companion-bench--far-form
    far
    '(progn
       (require 'gemini-companion-host-connect)
       (gemini-companion-answer-set '(connect . "far") 'always)
       (setq gemini-companion-bench-connected nil)
       (let ((start (float-time)))
         (gemini-companion-host-connection-when-ready
          (gemini-companion-host-connect-to directory)
          (lambda (fault)
            (setq gemini-companion-bench-connected
                  (or fault (* 1000 (- (float-time) start)))))))
       nil)))
  (let ((took (gemini-companion-test-wait-eval emacs 'gemini-companion-bench-connected)))
    (unless (numberp took) (error "No connection: %s" took))
    took))

(defun gemini-companion-bench--disconnect (emacs)
  "End the connection of EMACS."
  (gemini-companion-test-eval
   emacs '(progn (gemini-companion-disconnect "far") nil))
  (gemini-companion-test-wait-eval
   emacs '(not (seq-some (lambda (it) (string-match-p "gemini-companion-ssh" (process-name it)))
                         (process-list)))))

(defun gemini-companion-bench--discovery-file (far)
  "Return the discovery file on FAR."
  (car (file-expand-wildcards
        (concat (gemini-companion-test-far-tmp far) "/gemini/ide/gemini-ide-server-*.json"))))

(defun gemini-companion-bench--config (far)
  "Return the configuration of the relay on FAR."
  (car (file-expand-wildcards
        (concat (gemini-companion-test-far-home far) "/.cache/gemini-companion/*-gemini.json"))))

(defun gemini-companion-bench--remote-review (emacs client far)
  "Let CLIENT on FAR propose a change, and accept it in EMACS.
Return the milliseconds from the proposal to the screen, from the accept to
the file, and from the file to the buffer that visits it."
  (gemini-companion-test-wait-eval emacs '(time-less-p 1 (or (current-idle-time) 0)))
  (gemini-companion-test-eval
   emacs '(progn (garbage-collect)
                 (setq gemini-companion-bench-shown nil gemini-companion-bench-followed nil)
                 nil))
  (process-send-string (gemini-companion-bench-program-process client)
                       (format "1000 %s\n" (gemini-companion-test-far-file far "a.txt")))
  (pcase-let* ((number (lambda (regexp)
                         (string-to-number
                          (cadr (split-string
                                 (gemini-companion-bench-program-line client regexp))))))
               (sent (funcall number "^answered"))
               (`(,shown) (gemini-companion-test-wait-eval emacs 'gemini-companion-bench-shown))
               (accepted (gemini-companion-test-run
                          emacs '(prog1 (round (* 1e6 (float-time)))
                                   (gemini-companion-accept))))
               (written (funcall number "^written"))
               (followed (gemini-companion-test-wait-eval
                          emacs 'gemini-companion-bench-followed)))
    (gemini-companion-test-wait-no-review emacs)
    (mapcar (lambda (it) (/ it 1000.0))
            (list (- shown sent) (- written accepted) (- followed written)))))

(defun gemini-companion-bench--note-remote (emacs far)
  "Let EMACS note when a review is on the screen, and a buffer of FAR has followed."
  (gemini-companion-test-eval
   emacs
   `(progn
      (defvar gemini-companion-bench-connected nil)
      (defvar gemini-companion-bench-shown nil)
      (defvar gemini-companion-bench-followed nil)
      (add-hook 'gemini-companion-review-waiting-hook
                (lambda ()
                  (when (gemini-companion-review-shown-p gemini-companion-review-waiting)
                    (redisplay t)
                    (push (round (* 1e6 (float-time))) gemini-companion-bench-shown))))
      (with-current-buffer (get-file-buffer ,(gemini-companion-test-far-tramp far "a.txt"))
        (add-hook 'after-change-functions
                  (lambda (&rest _)
                    (setq gemini-companion-bench-followed (round (* 1e6 (float-time)))))
                  nil t))
      nil)))

(defun gemini-companion-bench--remote (emacs far ms)
  "Measure the clients on FAR, which is MS milliseconds away from EMACS."
  (gemini-companion-bench-add
   (gemini-companion-bench--remote-name "connect" ms) "ms"
   (cl-loop repeat 5
            collect (prog1 (gemini-companion-bench--connect emacs far)
                      (gemini-companion-bench--disconnect emacs))))
  (gemini-companion-bench--connect emacs far)
  (gemini-companion-bench-with-program
      (client (list (gemini-companion-test-node)
                    (gemini-companion-bench-path "far-client.mjs")
                    (gemini-companion-bench--discovery-file far)))
    (gemini-companion-bench-program-line client "ready")
    (gemini-companion-bench--remote-review emacs client far) ; the first is another figure
    (let ((runs (cl-loop repeat 10
                         collect (gemini-companion-bench--remote-review emacs client far))))
      (cl-loop for (what baseline) in '(("openDiff to the screen" "find-file")
                                        ("accept to the file" "save-buffer")
                                        ("file to the buffer" "revert-buffer"))
               for n from 0
               do (gemini-companion-bench-add
                   (gemini-companion-bench--remote-name what ms) "ms"
                   (mapcar (lambda (run) (nth n run)) runs)
                   (gemini-companion-bench--remote-name (concat "Tramp: " baseline) ms)))))
  (gemini-companion-bench--disconnect emacs))

(defun gemini-companion-bench-remote ()
  "Measure a host at several distances."
  (gemini-companion-test-with-far (far (gemini-companion-test-far-start "far"))
    (gemini-companion-test-far-write
     far "a.txt" (mapconcat (lambda (n) (format "a line of text, its number %07d\n" n))
                            (number-sequence 1 30) ""))
    (gemini-companion-test-with-far-emacs (emacs :lisp (gemini-companion-bench-lisp))
      (dolist (ms gemini-companion-bench--round-trips)
        (gemini-companion-test-far-wire-do far "delay" :ms ms)
        (gemini-companion-bench--tramp emacs far ms)
        (gemini-companion-bench--note-remote emacs far)
        (gemini-companion-bench--remote emacs far ms)))))

;;;; A host that floods

(defun gemini-companion-bench--waits (emacs flood)
  "Type into EMACS for some seconds, and return the milliseconds that keys waited.
With FLOOD, a command, run that meanwhile."
  (let ((done (expand-file-name "done" (gemini-companion-test-tmpdir emacs))))
    (ignore-errors (delete-file done))
    (gemini-companion-test-eval
     emacs
     `(progn
        (defvar gemini-companion-bench-due nil)
        (defvar gemini-companion-bench-waits nil)
        (setq gemini-companion-bench-due nil gemini-companion-bench-waits nil)
        (switch-to-buffer "*typed*")
        ;; In a remote one, Emacs itself asks Tramp for the mode line.
        (setq default-directory "/")
        (defvar gemini-companion-bench-end)
        (setq gemini-companion-bench-end
              (+ (float-time) ,gemini-companion-bench--flood-seconds))
        ;; Each key asks for the next one, 20 ms later: what keeps Emacs then would keep a real key.
        (defun gemini-companion-bench-press ()
          (if (> (float-time) gemini-companion-bench-end)
              (write-region "" nil ,done nil 'silent)
            (setq gemini-companion-bench-due (+ (float-time) 0.02))
            (run-at-time 0.02 nil (lambda ()
                                    (setq unread-command-events
                                          (append unread-command-events (list ?x)))))))
        (local-set-key
         "x" (lambda ()
               (interactive)
               (insert "x")
               (redisplay)
               (push (* 1000 (- (float-time) gemini-companion-bench-due))
                     gemini-companion-bench-waits)
               (gemini-companion-bench-press)))
        (gemini-companion-bench-press)
        nil))
    (let ((process (and flood (apply #'start-process "flood" nil flood))))
      (gemini-companion-test-wait "the keys to be typed" (lambda () (file-exists-p done))
                                  (* 3 gemini-companion-bench--flood-seconds))
      (when process (delete-process process)))
    (gemini-companion-test-eval emacs 'gemini-companion-bench-waits)))

(defun gemini-companion-bench-flood ()
  "Measure how long keys wait while a host floods Emacs."
  (gemini-companion-test-with-far (far (gemini-companion-test-far-start "far"))
    (gemini-companion-test-far-write far "a.txt" "one\n")
    (gemini-companion-test-with-far-emacs (emacs :lisp (gemini-companion-bench-lisp))
      (gemini-companion-test-run
       emacs `(progn (find-file ,(gemini-companion-test-far-tramp far "a.txt")) nil) 60)
      (gemini-companion-bench--note-remote emacs far)
      (let ((waits (gemini-companion-bench--waits emacs nil)))
        (gemini-companion-bench-add "keys, nothing happens" "ms" waits)
        (gemini-companion-bench-add "keys, nothing happens, the longest wait" "ms"
                                    (list (apply #'max waits))))
      (gemini-companion-bench--connect emacs far)
      (gemini-companion-bench-with-program
          (client (list (gemini-companion-test-node)
                        (gemini-companion-bench-path "far-client.mjs")
                        (gemini-companion-bench--discovery-file far)))
        (gemini-companion-bench-program-line client "ready")
        ;; What is done when idle.
        (gemini-companion-test-wait-eval emacs '(time-less-p 3 (or (current-idle-time) 0)))
        (let ((waits (gemini-companion-bench--waits
                      emacs
                      (list (gemini-companion-test-node)
                            (gemini-companion-test-path "test" "support" "hostile-host.mjs")
                            (gemini-companion-bench--config far)
                            (number-to-string gemini-companion-bench--flood-seconds)))))
          (gemini-companion-bench-add "keys, a host floods" "ms" waits "keys, nothing happens")
          (gemini-companion-bench-add "keys, a host floods, the longest wait" "ms"
                                      (list (apply #'max waits))
                                      "keys, nothing happens, the longest wait"))))))

(gemini-companion-bench-remote)
(gemini-companion-bench-flood)

;;; remote-bench.el ends here

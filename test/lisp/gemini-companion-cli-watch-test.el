;;; gemini-companion-cli-watch-test.el --- Tests of watching CLIs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; In buffers whose process stands in for a terminal emulator's.

;;; Code:

(require 'ert)
(require 'gemini-companion-cli-compose)
(require 'gemini-companion-cli-watch)
(require 'gemini-companion-test-companion)
(require 'gemini-companion-test-screen)

(defmacro gemini-companion-cli-watch-test--with-terminal (client review &rest body)
  "Evaluate BODY in the terminal of CLIENT, which has proposed REVIEW.
The functions `show' and `look' have it show a text, and look at it as
after output; `free-for' pretends that it takes prompts for some seconds."
  (declare (indent 2) (debug (symbolp symbolp body)))
  `(gemini-companion-test-with-client ,client
     (let* ((,review (gemini-companion-test-propose ,client "a.txt" "2\n"))
            (buffer (generate-new-buffer "*terminal*"))
            (process (start-process "terminal" buffer "cat"))
            (gemini-companion-cli--all nil)
            (gemini-companion-review-commands--accepted nil))
       (set-process-query-on-exit-flag process nil)
       (setf (gemini-companion-review-process ,review) (process-id process))
       (gemini-companion-cli--add 'gemini (process-id process))
       (unwind-protect
           (with-current-buffer buffer
             (gemini-companion-cli-watch-start buffer)
             (cl-flet ((show (text) (erase-buffer) (insert text))
                       (look () (gemini-companion-cli-watch--look buffer))
                       (free-for (seconds)
                                 (setq gemini-companion-cli-watch--seen
                                       (cons 'done (- (float-time) seconds)))
                                 (setf (gemini-companion-review-created ,review)
                                       (time-subtract nil seconds))))
               (ignore #'show #'look #'free-for)
               ,@body))
         (gemini-companion-cli-watch-forget-all)
         (kill-buffer buffer)))))

(ert-deftest gemini-companion-cli-watch/enter-is-ignored-if-a-question-has-just-appeared ()
  "Also on a graphical frame in vterm, where it is the key `return'."
  (gemini-companion-cli-watch-test--with-terminal client review
    (gemini-companion-review-reject review)
    (cl-letf* ((gemini-companion-ui-reaction-time 1000)
               (this-command nil)
               ((symbol-function 'this-command-keys-vector) (lambda () [key]))
               (press (lambda (key)
                        (let ((last-command-event key))
                          (setq this-command 'send)
                          (gemini-companion-cli-watch--ignore-stray-key)
                          this-command))))
      (dolist (enter '(?\r return))
        (show "")
        (should (eq (funcall press ?a) 'send))
        (show gemini-companion-test-screen-question)
        (should (eq (funcall press enter) #'ignore))
        ;; The user may expect it after Enter.
        (show "")
        (should (eq (funcall press enter) 'send))
        (show gemini-companion-test-screen-question)
        (should (eq (funcall press ?2) 'send)))
      ;; There, keys move point.
      (dolist (state '(evil-state meow--current-state))
        (cl-progv (list state) '(normal)
          (show "")
          (should (eq (funcall press ?j) 'send))
          (show gemini-companion-test-screen-question)
          (should (eq (funcall press ?j) 'send))
          (should (eq (funcall press ?a) 'send))
          (show "")
          (setq gemini-companion-cli-watch--typed (float-time))
          (show gemini-companion-test-screen-question)
          (should (eq (funcall press ?\r) #'ignore)))))))

(ert-deftest gemini-companion-cli-watch/a-key-answers-no-change-that-came-while-emacs-was-busy ()
  "The user has pressed it before the change could be seen."
  (gemini-companion-cli-watch-test--with-terminal client review
    (cl-letf* ((gemini-companion-ui-reaction-time 1000)
               (this-command 'send)
               (last-command-event ?1)
               (came nil)
               ((symbol-function 'this-command-keys-vector) (lambda () [?1]))
               ((symbol-function 'gemini-companion-bridge-drain)
                (lambda () (setf (gemini-companion-review-created review)
                                 (time-subtract nil (if came 2000 0))))))
      (setf (gemini-companion-review-created review) (time-subtract nil 2000))
      (gemini-companion-cli-watch--ignore-stray-key)
      (should (eq this-command #'ignore))
      (setq came t
            this-command 'send
            gemini-companion-cli-watch--typed 0)
      (gemini-companion-cli-watch--ignore-stray-key)
      (should (eq this-command 'send)))))

(ert-deftest gemini-companion-cli-watch/no-name-on-the-screen-leads-to-another-machine ()
  (gemini-companion-cli-watch-test--with-terminal client review
    (let ((called nil))
      (cl-letf (((symbol-function 'tramp-file-name-handler)
                 (lambda (&rest arguments) (push arguments called) (error "No"))))
        (show (string-replace "src/b.txt" "/ssh:evil:~/x" gemini-companion-test-screen-question))
        (look))
      (should-not called)
      (should (equal (mapcar #'file-name-nondirectory (gemini-companion-review-queued review))
                     '("c.txt"))))))

(ert-deftest gemini-companion-cli-watch/names-on-the-screen-are-of-where-the-cli-works ()
  "On a host, its project may be a link to that."
  (gemini-companion-cli-watch-test--with-terminal client review
    (setq gemini-companion-cli-run-root "/ssh:build:/link/")
    (setf (gemini-companion-cli-directory (car gemini-companion-cli--all)) "/ssh:build:/real")
    (show gemini-companion-test-screen-question)
    (look)
    (should (equal (gemini-companion-review-queued review)
                   '("/ssh:build:/real/src/b.txt" "/ssh:build:/real/c.txt")))))

(ert-deftest gemini-companion-cli-watch/a-change-that-the-cli-gave-up-is-cancelled ()
  "It takes prompts for a while, and is told so that it goes on."
  (gemini-companion-cli-watch-test--with-terminal client review
    (show gemini-companion-test-screen-question)
    (look)
    (should (equal (gemini-companion-review-queued review)
                   (list (gemini-companion-test-file "src/b.txt")
                         (gemini-companion-test-file "c.txt"))))
    (should (equal (gemini-companion-review-position review) '(1 . 3)))
    (show gemini-companion-test-screen-prompt)
    (look)
    (should (gemini-companion-review-open-p review))
    (free-for 2)
    (look)
    (should-not (gemini-companion-review-open-p review))
    (should (equal (gemini-companion-review-reason review) "cancelled in Gemini CLI"))
    (should (equal (alist-get 'filePath (fake-cli-wait-notification client "ide/diffRejected"))
                   (gemini-companion-test-file "a.txt")))
    (should (eq (gemini-companion-history-outcome (car (gemini-companion-history-all)))
                'cancelled))))

(ert-deftest gemini-companion-cli-watch/a-change-stays-if-emacs-has-not-read-what-the-cli-asks ()
  "It was busy since the CLI proposed the change."
  (gemini-companion-cli-watch-test--with-terminal client review
    (show gemini-companion-test-screen-prompt)
    (look)
    (free-for 2)
    (cl-letf (((symbol-function 'accept-process-output)
               (lambda (&rest _) (show gemini-companion-test-screen-question) t)))
      (look)
      (look))
    (should (gemini-companion-review-open-p review))))

(ert-deftest gemini-companion-cli-watch/nothing-is-accepted-in-advance-once-the-turn-has-ended ()
  "The next one may change the same files.  Between two changes, the CLI rests for a moment."
  (gemini-companion-cli-watch-test--with-terminal client review
    (cl-letf (((symbol-function 'y-or-n-p) #'always)
              ;; Only the first one has the process of the terminal.
              ((symbol-function 'gemini-companion-review-same-client-p) #'always))
      (show gemini-companion-test-screen-question)
      (look)
      (save-current-buffer
        (gemini-companion-review-show review 'keep)
        (gemini-companion-accept-all review))
      (show gemini-companion-test-screen-prompt)
      (look)
      (pcase-dolist (`(,name . ,open) '(("src/b.txt" . nil) ("c.txt" . t)))
        (fake-cli-call-tool client "openDiff"
                            (list :filePath (gemini-companion-test-file name) :newContent "2\n"))
        (gemini-companion-bridge-drain)
        (should (eq (consp (gemini-companion-review-all-open)) open))
        (free-for 9)
        (look)))
    (gemini-companion-review-end-all)))

(ert-deftest gemini-companion-cli-watch/a-change-stays-while-that-is-not-certain ()
  "While the CLI asks, its screen is not recognized, or the change is new."
  (gemini-companion-cli-watch-test--with-terminal client review
    (dolist (screen (list gemini-companion-test-screen-question "$ ls\nfile\n" ""
                          ;; A question below a prompt that has scrolled.
                          (concat gemini-companion-test-screen-prompt
                                  gemini-companion-test-screen-question)))
      (show screen)
      (free-for 9)
      (look)
      (look)
      (should (gemini-companion-review-open-p review)))
    ;; It runs hooks before it asks.
    (show (concat " ⠧ Executing Hook: bell (esc to cancel, 9s)" gemini-companion-test-screen-prompt))
    (free-for 9)
    (setcar gemini-companion-cli-watch--seen 'working)
    (look)
    (should (gemini-companion-review-open-p review))
    (show gemini-companion-test-screen-prompt)
    (free-for 9)
    (setf (gemini-companion-review-created review) (current-time))
    (look)
    (should (gemini-companion-review-open-p review))
    ;; That of another process.
    (setf (gemini-companion-review-process review) 1)
    (free-for 9)
    (look)
    (should (gemini-companion-review-open-p review))))

(ert-deftest gemini-companion-cli-watch/a-change-stays-while-its-cli-draws-all-again ()
  "As when its terminal has another size: old prompts look as if it were at rest."
  (gemini-companion-cli-watch-test--with-terminal client review
    (cl-flet ((draw (screen)
                    (dotimes (_ 3)
                      (funcall (process-filter process) process (make-string 4000 ?\n)))
                    (show screen))
              (later ()
                     (when gemini-companion-cli-watch--rested
                       (cl-decf gemini-companion-cli-watch--rested 2))))
      (setf (gemini-companion-review-created review) (time-subtract nil 9))
      (dolist (screen (list gemini-companion-test-screen-prompt "" "\nhalf"
                            gemini-companion-test-screen-question
                            gemini-companion-test-screen-prompt ""))
        (draw screen)
        (look)
        (later)
        (should (gemini-companion-review-open-p review)))
      ;; Nor is that forgotten if it was slow.
      (show gemini-companion-test-screen-prompt)
      (look)
      (show gemini-companion-test-screen-question)
      (look)
      (later)
      (draw "")
      (look)
      (should (gemini-companion-review-open-p review)))))

(ert-deftest gemini-companion-cli-watch/what-is-asked-otherwise-is-known ()
  "But not what is asked about a change that waits in Emacs."
  (gemini-companion-cli-watch-test--with-terminal client review
    (show gemini-companion-test-screen-question)
    (look)
    (should-not (gemini-companion-cli-in-state 'asking))
    (gemini-companion-review-reject review)
    ;; Perhaps the CLI has not noticed yet.
    (look)
    (should-not (gemini-companion-cli-in-state 'asking))
    (look)
    (should (equal (mapcar #'gemini-companion-cli-terminal (gemini-companion-cli-in-state 'asking))
                   (list buffer)))
    (should (string-search "?" (gemini-companion--lighter)))
    (should (string-search "a CLI asks a question" (gemini-companion-state)))
    (show gemini-companion-test-screen-prompt)
    (look)
    (should-not (gemini-companion-cli-in-state 'asking))
    (should-not (string-search "?" (gemini-companion--lighter)))
    (dolist (screen (list gemini-companion-test-screen-text-question
                          gemini-companion-test-screen-prompt
                          gemini-companion-test-screen-question))
      (show screen)
      (look)
      (look)
      (should (eq (not (gemini-companion-cli-in-state 'asking))
                  (eq screen gemini-companion-test-screen-prompt))))
    (kill-buffer buffer)
    (should-not (gemini-companion-cli-in-state 'asking))))

(ert-deftest gemini-companion-cli-watch/what-is-asked-before-it-connects-is-known ()
  "It is the same CLI once it has connected."
  (gemini-companion-cli-watch-test--with-terminal client review
    (setf (gemini-companion-review-process review) 1)
    (setq gemini-companion-cli--all nil)
    (show gemini-companion-test-screen-question)
    (look)
    (look)
    (should (length= (gemini-companion-cli-in-state 'asking) 1))
    (gemini-companion-cli--add 'gemini (process-id process))
    (should (length= (gemini-companion-cli-all) 1))
    (setf (gemini-companion-cli-process (car (gemini-companion-cli-all))) nil)
    (show gemini-companion-test-screen-prompt)
    (look)
    (should-not (gemini-companion-cli-all))))

(ert-deftest gemini-companion-cli-watch/c-c-c-c-asks-only-while-a-change-waits ()
  "Also just after an accept, when the next change has not come yet."
  (gemini-companion-cli-watch-test--with-terminal client review
    (let ((key (lambda () (with-current-buffer buffer (key-binding (kbd "C-c C-c")))))
          (map (make-sparse-keymap)))
      (define-key map (kbd "C-c C-c") #'ignore)
      (define-key map (kbd "C-c o") #'other-window)
      (use-local-map map)
      (should (eq (funcall key) 'gemini-companion-terminal-interrupt))
      (should (eq (key-binding (kbd "C-c o")) 'other-window))
      (should (equal (gemini-companion-ui-key-of 'gemini-companion-accept) "C-c C-c a"))
      (gemini-companion-review-show review 'keep)
      (with-current-buffer buffer
        (cl-letf (((symbol-function 'read-multiple-choice) (lambda (&rest _) '(?a))))
          (call-interactively #'gemini-companion-terminal-interrupt)))
      (should-not (gemini-companion-review-open-p review))
      (should (eq (funcall key) 'gemini-companion-terminal-interrupt))
      ;; The key that would accept that one is not for the CLI's prompt.
      (with-current-buffer buffer
        (pcase-dolist (`(,pressed ,left) '((?a nil) (?x (?x))))
          (let ((unread-command-events (list pressed)))
            (call-interactively #'gemini-companion-terminal-interrupt)
            (should (equal unread-command-events left)))))
      (setf (nth 2 (car gemini-companion-review-commands--accepted)) (- (float-time) 9))
      (should (eq (funcall key) #'ignore)))))

(ert-deftest gemini-companion-cli-watch/a-prefix-argument-asks-for-the-reason-of-a-rejection ()
  "As everywhere else."
  (gemini-companion-cli-watch-test--with-terminal client review
    (gemini-companion-review-show review 'keep)
    (let ((current-prefix-arg '(4))
          (sent nil))
      (with-current-buffer buffer
        (cl-letf (((symbol-function 'read-multiple-choice) (lambda (&rest _) '(?r)))
                  ((symbol-function 'gemini-companion-cli-compose--read-reason)
                   (lambda (_) "Too long"))
                  ((symbol-function 'gemini-companion-cli-compose--send)
                   (lambda (_ text &rest _) (push text sent))))
          (call-interactively #'gemini-companion-terminal-interrupt)))
      (should-not (gemini-companion-review-open-p review))
      (should (equal sent '("Too long"))))))

;; `save-window-excursion' restores windows as Emacs does after a minibuffer.
(ert-deftest gemini-companion-cli-watch/off-leaves-nothing ()
  (gemini-companion-cli-watch-test--with-terminal client review
    (ignore review)
    (let ((filter (process-filter process)))
      (gemini-companion-cli-watch-forget-all)
      (should-not (equal (process-filter process) filter))
      (should-not gemini-companion-cli-watch--timer)
      (should-not gemini-companion-cli-watch--mode)
      (should-not (local-variable-p 'pre-redisplay-functions))
      (should-not (local-variable-p 'window-configuration-change-hook))
      (should-not gemini-companion-ui-local-keys))))

(provide 'gemini-companion-cli-watch-test)
;;; gemini-companion-cli-watch-test.el ends here

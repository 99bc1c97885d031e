;;; gemini-companion-review-client-test.el --- Tests of decisions of clients  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-review-commands)
(require 'gemini-companion-test-companion)

(defmacro gemini-companion-review-client-test--with (client &rest body)
  "Evaluate BODY with CLIENT, which may accept changes that were on screen."
  (declare (indent 1) (debug (symbolp body)))
  `(gemini-companion-test-with-client ,client
     (let ((gemini-companion-accept-by-client 'seen))
       ,@body)))

(ert-deftest gemini-companion-review-client/by-default-the-user-is-asked ()
  (should (eq (default-value 'gemini-companion-accept-by-client) 'ask)))

(defun gemini-companion-review-client-test--call (client tool)
  "Have CLIENT call TOOL for the file a.txt; return the text of the answer.
The text of an error is returned in a list."
  (let* ((result (fake-cli-call-tool client tool
                                     `(:filePath ,(gemini-companion-test-file "a.txt"))))
         (text (fake-cli-result-text result)))
    (if (eq (alist-get 'isError result) t) (list text) text)))

(defun gemini-companion-review-client-test--show (client name text)
  "Have CLIENT propose TEXT for the file NAME; show the review and return it."
  (let ((review (gemini-companion-test-propose client name text)))
    (gemini-companion-review-show review 'keep)
    review))

(defun gemini-companion-review-client-test--when-asked (review function)
  "Call FUNCTION, which stands for the user, once a client asks about REVIEW."
  (run-at-time 0 nil
               (lambda ()
                 (save-match-data
                   (gemini-companion-test-wait
                    "the question" (lambda () (gemini-companion-review-request review)))
                   (funcall function)))))

(ert-deftest gemini-companion-review-client/an-accept-is-written-and-shown ()
  (gemini-companion-review-client-test--with client
    (let ((inhibit-message t)
          (review (gemini-companion-review-client-test--show client "a.txt" "proposed\n")))
      (with-current-buffer (gemini-companion-review-proposal review)
        (goto-char 9)
        (insert ", edited ä"))
      (should (equal (gemini-companion-review-client-test--call client "acceptDiff")
                     (concat "Accepted, and applied to " (gemini-companion-test-file "a.txt"))))
      (should (equal (gemini-companion-test-read (gemini-companion-test-file "a.txt"))
                     "proposed, edited ä\n"))
      (gemini-companion-test-wait-followed)
      (should (equal (buffer-string) "proposed, edited ä\n"))
      (should-not (buffer-modified-p))
      (should (equal (alist-get 'content (fake-cli-wait-notification
                                          client "ide/diffAccepted"))
                     "proposed, edited ä\n"))
      (let ((entry (car (gemini-companion-history-all))))
        (should (eq (gemini-companion-history-outcome entry) 'accepted))
        (should (equal (gemini-companion-history-before entry) "one\ntwo\n")))
      (should (equal (gemini-companion-review-client-test--call client "acceptDiff")
                     (list (format "no diff of %s is open"
                                   (gemini-companion-test-file "a.txt"))))))))

(ert-deftest gemini-companion-review-client/edits-that-were-merged-are-no-longer-unsaved ()
  (gemini-companion-review-client-test--with client
    (let ((review (gemini-companion-review-client-test--show client "a.txt" "one\n2\n")))
      (let ((create-lockfiles nil)) (insert "mine\n"))
      (gemini-companion-test-file "a.txt")
      (gemini-companion-review-effect-merge review)
      (gemini-companion-review-client-test--call client "acceptDiff")
      (gemini-companion-test-wait-followed)
      (should (equal (buffer-string) "mine\none\n2\n"))
      (should-not (buffer-modified-p)))))

(ert-deftest gemini-companion-review-client/a-reject-leaves-the-file-unchanged ()
  (gemini-companion-review-client-test--with client
    (let ((inhibit-message t))
      (gemini-companion-test-propose client "a.txt" "proposed\n")
      (should (equal (gemini-companion-review-client-test--call client "rejectDiff")
                     (concat "Rejected: " (gemini-companion-test-file "a.txt"))))
      (should (equal (gemini-companion-test-read (gemini-companion-test-file "a.txt"))
                     "one\ntwo\n"))
      (fake-cli-wait-notification client "ide/diffRejected")
      (should (eq (gemini-companion-history-outcome (car (gemini-companion-history-all)))
                  'rejected)))))

(ert-deftest gemini-companion-review-client/a-change-not-yet-seen-is-not-accepted ()
  (gemini-companion-review-client-test--with client
    (let ((inhibit-message t)
          (review (gemini-companion-test-propose client "a.txt" "proposed\n")))
      (should (equal (gemini-companion-review-client-test--call client "acceptDiff")
                     '("The user has not seen this diff in Emacs yet")))
      (should (gemini-companion-review-open-p review))
      (gemini-companion-review-show review 'keep)
      (should (stringp (gemini-companion-review-client-test--call client "acceptDiff"))))))

(ert-deftest gemini-companion-review-client/the-user-can-be-asked-each-time ()
  "Also if the option has a value that means nothing."
  (pcase-dolist (`(,value ,decide ,answer ,text)
                 `((ask gemini-companion-accept "Accepted, and applied to" "proposed\n")
                   (t gemini-companion-reject "Rejected: " "one\ntwo\n")))
    (gemini-companion-review-client-test--with client
      (let ((inhibit-message t)
            (gemini-companion-accept-by-client value)
            (review (gemini-companion-review-client-test--show client "a.txt" "proposed\n"))
            (messages nil))
        (cl-letf (((symbol-function 'message)
                   (lambda (format &rest arguments)
                     (when format
                       (push (apply #'format-message format arguments) messages)))))
          (gemini-companion-review-client-test--when-asked review decide)
          (should (string-prefix-p answer (gemini-companion-review-client-test--call
                                           client "acceptDiff"))))
        (should (member "Gemini CLI asks you to accept the change to a.txt" messages))
        (should (equal (gemini-companion-test-read (gemini-companion-test-file "a.txt"))
                       text))))))

(ert-deftest gemini-companion-review-client/a-second-question-shows-a-change-again ()
  "The user may have put it off.  The first call ends then."
  (gemini-companion-review-client-test--with client
    (let* ((inhibit-message t)
           (gemini-companion-accept-by-client 'ask)
           (review (gemini-companion-review-client-test--show client "a.txt" "proposed\n"))
           (outcomes nil)
           (ask (lambda (name)
                  (gemini-companion-review-request-accept
                   review (lambda (&rest _) (push name outcomes))
                   (lambda (outcome) (push (cons name outcome) outcomes))))))
      (funcall ask 'first)
      (gemini-companion-review-postpone review)
      (should (eq (gemini-companion-review-state review) 'postponed))
      (funcall ask 'second)
      (should (eq (gemini-companion-review-state review) 'waiting))
      (should (equal outcomes '((first . asked-again))))
      (gemini-companion-review-show review 'keep)
      (gemini-companion-accept)
      (should (equal outcomes '((second . accepted) second (first . asked-again)))))))

(ert-deftest gemini-companion-review-client/what-has-changed-since-the-question-is-not-written ()
  "A program replaces a directory by a link before the user accepts, or makes it a repository."
  (dolist (trick '(link repository))
    (gemini-companion-review-client-test--with client
      (let* ((inhibit-message t)
             (gemini-companion-accept-by-client 'ask)
             (elsewhere (gemini-companion-test-temp-directory))
             (place (gemini-companion-test-file "d"))
             (refused nil))
        (unwind-protect
            (let ((file (gemini-companion-test-file "d/x.txt" "old\n"))
                  (review nil))
              (gemini-companion-test-write (expand-file-name "x.txt" elsewhere) "old\n")
              (setq review (gemini-companion-review-client-test--show
                            client "d/x.txt" "new\n"))
              (gemini-companion-review-client-test--when-asked
               review
               (lambda ()
                 (pcase trick
                   ('link (delete-directory place t)
                          (make-symbolic-link (directory-file-name elsewhere) place))
                   ('repository (dolist (name '("d/HEAD" "d/commondir"))
                                  (gemini-companion-test-file name "x\n"))))
                 (setq refused (cadr (should-error (gemini-companion-accept))))
                 (gemini-companion-reject)))
              (should (equal (fake-cli-result-text
                              (fake-cli-call-tool client "acceptDiff" `(:filePath ,file)))
                             (concat "Rejected: " file)))
              (should (equal refused
                             (pcase trick
                               ('link "x.txt now leads to another file: reject this change")
                               ('repository "Only the user accepts a change to this file: \
it is part of a repository"))))
              (dolist (name (list file (expand-file-name "x.txt" elsewhere)))
                (should (equal (gemini-companion-test-read name) "old\n"))))
          (delete-directory elsewhere t))))))

(ert-deftest gemini-companion-review-client/clients-can-be-refused ()
  (gemini-companion-review-client-test--with client
    (let ((inhibit-message t)
          (gemini-companion-accept-by-client nil))
      (gemini-companion-review-client-test--show client "a.txt" "proposed\n")
      (should (equal (gemini-companion-review-client-test--call client "acceptDiff")
                     '("In this Emacs only the user accepts"))))))

(defun gemini-companion-review-client-test--accept (client name)
  "Have CLIENT propose a change of the file NAME, then accept it once it was shown.
Return the text of the answer; the text of an error is returned in a list."
  (let* ((path (gemini-companion-test-file name))
         (review (gemini-companion-review-client-test--show client name "changed\n"))
         (result (fake-cli-call-tool client "acceptDiff" `(:filePath ,path)))
         (text (fake-cli-result-text result)))
    (when (gemini-companion-review-open-p review)
      (gemini-companion-review-reject review))
    (if (eq (alist-get 'isError result) t) (list text) text)))

(ert-deftest gemini-companion-review-client/files-that-run-programs-are-refused ()
  (gemini-companion-review-client-test--with client
    (let ((inhibit-message t)
          (user-emacs-directory (gemini-companion-test-file "emacs/")))
      (dolist (name '("bare/HEAD" "tree/HEAD" "tree/commondir"))
        (gemini-companion-test-file name "x\n"))
      (dolist (name '("bare/objects" "bare/refs"))
        (make-directory (gemini-companion-test-file name)))
      (gemini-companion-test-file ".git/config" "[core]\n")
      (make-symbolic-link ".git/config" (gemini-companion-test-file "link.txt"))
      (make-symbolic-link "plain.el" (gemini-companion-test-file ".dir-locals.el"))
      (dolist (name '(".git/config" ".git/hooks/pre-commit" "sub/.git" "sub/.GIT/config"
                      ".git/worktrees/w/config" ".git/modules/m/config" ".hg/hgrc"
                      "bare/config" "bare/hooks/new" "tree/config.worktree"
                      "link.txt" ".dir-locals.el" "sub/.dir-locals-2.el" ".envrc" ".env"
                      ".vscode/tasks.json" ".gemini/settings.json"
                      "hooks/pre-commit" "tools/githooks/post-checkout"
                      "emacs/init.el"))
        (ert-info (name)
          (let* ((file (gemini-companion-test-file name))
                 (before (and (file-exists-p file) (gemini-companion-test-read file))))
            (should (string-match-p "Only the user accepts a change to this file"
                                    (car-safe (gemini-companion-review-client-test--accept
                                               client name))))
            (should (equal before (and (file-exists-p file)
                                       (gemini-companion-test-read file))))))))))

(ert-deftest gemini-companion-review-client/a-client-accepts-in-its-own-project ()
  (gemini-companion-review-client-test--with client
    (let* ((inhibit-message t)
           (other (gemini-companion-test-temp-directory))
           (directory nil))
      (unwind-protect
          (cl-letf* ((decide (symbol-function 'gemini-companion--handle-decide-review))
                     ((symbol-function 'gemini-companion--handle-decide-review)
                      (lambda (id accept call _) (funcall decide id accept call directory))))
            (make-directory (expand-file-name ".git" other))
            (find-file-noselect (gemini-companion-test-write
                                 (expand-file-name "o.txt" other) "other\n"))
            (gemini-companion-test-wait
             "the other project"
             (lambda () (gemini-companion-workspace-innermost other)))
            (setq directory other)
            (should (equal (gemini-companion-review-client-test--accept client "a.txt")
                           '("The client works in another project: only the user accepts \
this change")))
            ;; A file of the client's own project.
            (let ((gemini-companion-test-project other))
              (should (stringp (gemini-companion-review-client-test--accept client "o.txt"))))
            ;; In a directory below it, or in one that Emacs does not know.
            (dolist (place (list (gemini-companion-test-file "sub/") "/nowhere/" nil))
              (setq directory place)
              (should (stringp (gemini-companion-review-client-test--accept client "n.txt")))
              (delete-file (gemini-companion-test-file "n.txt"))))
        (delete-directory other t)))))

(ert-deftest gemini-companion-review-client/outside-of-projects-only-clients-there-accept ()
  (gemini-companion-review-client-test--with client
    (let* ((inhibit-message t)
           (notes (gemini-companion-test-temp-directory))
           (gemini-companion-test-project notes)
           (directory nil))
      (unwind-protect
          (cl-letf* ((decide (symbol-function 'gemini-companion--handle-decide-review))
                     ((symbol-function 'gemini-companion--handle-decide-review)
                      (lambda (id accept call _) (funcall decide id accept call directory))))
            (find-file-noselect (gemini-companion-test-file "n.txt" "note\n"))
            (gemini-companion-test-wait
             "the directory" (lambda () (gemini-companion-workspace-innermost notes)))
            (should (equal (gemini-companion-review-client-test--accept client "n.txt")
                           '("Outside of projects only the user accepts")))
            (setq directory notes)
            (should (stringp (gemini-companion-review-client-test--accept client "n.txt"))))
        (delete-directory notes t)))))

(ert-deftest gemini-companion-review-client/new-files-in-new-directories ()
  (gemini-companion-review-client-test--with client
    (let ((inhibit-message t))
      (should (stringp (gemini-companion-review-client-test--accept client "new/deep/a.txt")))
      (should (equal (gemini-companion-test-read
                      (gemini-companion-test-file "new/deep/a.txt"))
                     "changed\n"))
      ;; Git runs no such program: it is not in a directory for hooks.
      (should (stringp (gemini-companion-review-client-test--accept client "src/hooks/use.ts")))
      (should (stringp (gemini-companion-review-client-test--accept client "src/update"))))))

(ert-deftest gemini-companion-review-client/a-failed-write-is-not-an-accept ()
  "The file becomes a FIFO before the client accepts."
  (gemini-companion-review-client-test--with client
    (let* ((inhibit-message t)
           (file (gemini-companion-test-file "new.txt"))
           (review (gemini-companion-review-client-test--show client "new.txt" "changed\n")))
      (should (zerop (call-process "mkfifo" nil nil nil file)))
      (let ((result (fake-cli-call-tool client "acceptDiff" `(:filePath ,file))))
        (should (eq (alist-get 'isError result) t)))
      (should-not (fake-cli-find-notification client "ide/diffAccepted"))
      ;; A FIFO opened for both directions does not block.
      (should (gemini-companion-review-open-p review))
      (gemini-companion-review-reject review)
      (fake-cli-wait-notification client "ide/diffRejected"))))

(ert-deftest gemini-companion-review-client/remote-names-are-refused ()
  (gemini-companion-review-client-test--with client
    (let ((inhibit-message t)
          (opened nil))
      (require 'tramp)                  ; it would define the function while that is another
      (cl-letf (((symbol-function 'tramp-file-name-handler)
                 (lambda (&rest arguments) (push arguments opened) nil)))
        (dolist (path '("/./ssh:localhost:/x" "/:/ssh:localhost:/x" "//ssh:localhost:/x"
                        "/tmp//ssh:localhost:/x" "/ssh:localhost:/x" "/localhost:/x"))
          (let ((result (fake-cli-call-tool client "openDiff"
                                            `(:filePath ,path :newContent "x\n"))))
            (should (eq (alist-get 'isError result) t))))
        (should-not opened)
        (should-not (gemini-companion-review-all-open))))))

(ert-deftest gemini-companion-review-client/changes-of-the-user-are-not-overwritten ()
  (gemini-companion-review-client-test--with client
    (let ((inhibit-message t)
          (file (gemini-companion-test-file "a.txt")))
      (gemini-companion-review-client-test--show client "a.txt" "proposed\n")
      (insert "mine")
      (should (equal (gemini-companion-review-client-test--call client "acceptDiff")
                     '("The user has unsaved edits of this file in Emacs")))
      (should (equal (gemini-companion-test-read file) "one\ntwo\n"))
      (save-buffer)
      (should (equal (gemini-companion-review-client-test--call client "acceptDiff")
                     '("The file has changed since this diff was opened")))
      (should (equal (gemini-companion-test-read file) "mineone\ntwo\n"))
      ;; The user decides.
      (should (= (gemini-companion-review-count) 1))
      (gemini-companion-reject))))

(ert-deftest gemini-companion-review-client/only-the-user-accepts-risky-changes ()
  "Outside of projects, for private files and if most of a file would be removed."
  (gemini-companion-review-client-test--with client
    (let ((inhibit-message t)
          (outside (make-temp-file "gemini-companion-outside-"))
          (private (gemini-companion-test-file ".env" "A=1\n"))
          (marked (gemini-companion-test-file "marked/m.txt" "m\n"))
          (long (gemini-companion-test-file
                 "long.txt" (apply #'concat (make-list 100 "line\n")))))
      (gemini-companion-test-file "marked/.dir-locals.el"
                                  "((nil . ((gemini-companion-private . t))))")
      (setq gemini-companion-private t)
      (unwind-protect
          (pcase-dolist (`(,file . ,reason) `((,outside . "Outside of projects")
                                              (,private . "it is named by")
                                              (,marked . "it is marked as private")
                                              (,(buffer-file-name) . "it is marked as private")
                                              (,long . "Emacs asks about it first")))
            (let ((before (gemini-companion-test-read file)))
              (fake-cli-call-tool client "openDiff" `(:filePath ,file :newContent "x\n"))
              (gemini-companion-test-wait "the review"
                                          (lambda () (= 1 (gemini-companion-review-count))))
              (gemini-companion-review-show (car (gemini-companion-review-all-open)) 'keep)
              (let ((result (fake-cli-call-tool client "acceptDiff" `(:filePath ,file))))
                (should (eq (alist-get 'isError result) t))
                (should (string-search reason (fake-cli-result-text result))))
              (should (equal (gemini-companion-test-read file) before))
              (gemini-companion-review-reject
               (car (gemini-companion-review-all-open)))))
        (delete-file outside)))))

(ert-deftest gemini-companion-review-client/a-change-decided-before-is-not-written ()
  (gemini-companion-review-client-test--with client
    (let ((inhibit-message t))
      (gemini-companion-review-client-test--show client "a.txt" "proposed\n")
      (cl-letf (((symbol-function 'gemini-companion-bridge-accept) #'ignore))
        (should (equal (gemini-companion-review-client-test--call client "acceptDiff")
                       '("This diff was decided meanwhile"))))
      (should (equal (gemini-companion-test-read (gemini-companion-test-file "a.txt"))
                     "one\ntwo\n"))
      ;; The client no longer waits for it, as after a time-out.
      (gemini-companion-bridge-handle-event
       'decide-review (gemini-companion-review-id (car (gemini-companion-review-all-open))) t 4711 nil)
      (should (equal (gemini-companion-test-read (gemini-companion-test-file "a.txt"))
                     "one\ntwo\n"))
      (should (= 1 (gemini-companion-review-count)))
      (gemini-companion-reject))))

(ert-deftest gemini-companion-review-client/line-endings-and-byte-order-marks-stay ()
  (pcase-dolist (`(,base ,text ,bytes) '((nil "a\n" "a\n")
                                         ("a\nb\n" "ä\n" "\303\244\n")
                                         ("a\r\nb\r\n" "c\nd\n" "c\r\nd\r\n")
                                         ("a\r\nb\r\n" "c\r\nd\n" "c\r\nd\n")
                                         ("a\rb\r\n" "a\rb\nc\n" "a\rb\r\nc\r\n")
                                         ("\357\273\277a\n" "b\n" "\357\273\277b\n")
                                         ("\357\273\277a\n" "\ufeffb\n" "\357\273\277b\n")
                                         (unreadable "b\n" "b\n")))
    (should (equal (gemini-companion-file-encode text base) bytes))))

(ert-deftest gemini-companion-review-client/messages-of-a-client-are-shown ()
  (gemini-companion-review-client-test--with client
    (let ((shown nil))
      (cl-letf (((symbol-function 'message)
                 (lambda (format &rest arguments)
                   (when format (push (apply #'format-message format arguments) shown)))))
        (fake-cli-post client (list :method "notifications/message"
                                    :params '(:level "info" :data "Hello\e[2J")))
        (gemini-companion-test-wait "the words"
                                    (lambda () (member "fake-cli 1 says: Hello^[[2J" shown)))))))

(ert-deftest gemini-companion-review-client/the-end-of-a-client-tells-where-edits-are ()
  (dolist (edit '("mine " ""))
    (gemini-companion-test-with-client client
      (let ((review (gemini-companion-review-client-test--show client "a.txt" "proposed\n"))
            (messages nil))
        (cl-letf (((symbol-function 'gemini-companion-ui-message)
                   (lambda (_ format &rest arguments)
                     (push (apply #'format-message format arguments) messages))))
          (with-current-buffer (gemini-companion-review-proposal review)
            (insert edit))
          (fake-cli-terminate client)
          (gemini-companion-test-wait "the end" (lambda () messages)))
        (should (equal messages
                       (list (concat "a.txt: withdrawn by Gemini CLI"
                                     (unless (string-empty-p edit)
                                       "; your edits are in M-x gemini-companion-history-list")))))
        (should (equal (gemini-companion-history-after (car (gemini-companion-history-all)))
                       (concat edit "proposed\n")))))))

;;; gemini-companion-review-client-test.el ends here

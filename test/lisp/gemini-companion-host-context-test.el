;;; gemini-companion-host-context-test.el --- Tests of which host is told what  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'ert)
(require 'gemini-companion-context)
(require 'gemini-companion-status)
(require 'gemini-companion-test-host)
(require 'gemini-companion-workspace)

(defmacro gemini-companion-host-context-test--with (&rest body)
  "Evaluate BODY while files are tracked; no host is served at first.
The module has no ignore rules of hosts, so none are in force."
  (declare (indent 0) (debug t))
  `(gemini-companion-test-with-project
     (let ((gemini-companion-context-change-hook (list #'ignore))
           (gemini-companion-context-paused nil)
           (gemini-companion-host-all nil))
       (gemini-companion-native-load)
       (make-directory (gemini-companion-test-file "here/.git") t)
       (clrhash gemini-companion-workspace--cache)
       (gemini-companion-context-start)
       (cl-letf (((symbol-function 'gemini-companion-bridge-host-ignored) #'ignore))
         (unwind-protect (progn ,@body)
           (gemini-companion-context-stop)
           (setq gemini-companion-workspace-known nil))))))

(ert-deftest gemini-companion-host-context/remote-names-have-several-syntaxes ()
  (let ((before tramp-syntax))
    (unwind-protect
        (progn
          (should-not (gemini-companion-host-remote-p "/src/a.c"))
          (should (equal (gemini-companion-host-remote-p "/ssh:build:/src/a.c") "/ssh:build:"))
          (tramp-change-syntax 'separate)
          (should-not (gemini-companion-host-remote-p "/ssh:build:/src/a.c"))
          (should (equal (gemini-companion-host-remote-p "/[ssh/build]/src/a.c")
                         "/[ssh/build]"))
          ;; It is on no machine that is served.
          (should (eq (gemini-companion-workspace-machine "/[ssh/build]/src/a.c") 'elsewhere))
          (should-not (gemini-companion-workspace-machine "/[a]/src/a.c")))
      (tramp-change-syntax before))))

(defun gemini-companion-host-context-test--serve (prefix &rest roots)
  "Serve the host with PREFIX, with workspace ROOTS as it names them."
  (gemini-companion-host-set-roots (gemini-companion-test-host-add prefix) roots))

(defun gemini-companion-host-context-test--pretend (file)
  "Show a buffer that visits FILE, a name on a host, as far as Emacs can tell.
No host is asked."
  (switch-to-buffer (generate-new-buffer (gemini-companion-file-nondirectory file)))
  (insert "1\n2\n3\n")
  (set-buffer-modified-p nil)
  (let ((default-directory temporary-file-directory))
    (setq buffer-file-name file
          buffer-file-truename file))
  (set-visited-file-modtime '(25000 0))
  (gemini-companion-context--publish-soon)
  (gemini-companion-context--record-focus)
  (current-buffer))

(defun gemini-companion-host-context-test--visit (name)
  "Show the file NAME of the project of the test on this machine."
  (let ((file (gemini-companion-test-file name)))
    (switch-to-buffer (or (get-file-buffer file)
                          (find-file-noselect (gemini-companion-test-write file "1\n2\n3\n")))))
  (gemini-companion-context--record-focus)
  (gemini-companion-workspace-roots)
  (current-buffer))

(defun gemini-companion-host-context-test--told (directory)
  "Return of which files a client in DIRECTORY is told; the active one has a star."
  (mapcar (lambda (file) (concat (aref file 0) (and (aref file 2) "*")))
          (gemini-companion-context-gather directory)))

(defun gemini-companion-host-context-test--reason (directory file)
  "Return why clients in DIRECTORY are not told of FILE."
  (cdr (assoc file (gemini-companion-context-withheld directory))))

;;;; Who is told what

(ert-deftest gemini-companion-host-context/each-machine-hears-of-its-own-files ()
  (gemini-companion-host-context-test--with
    (gemini-companion-host-context-test--serve "/mock:a:" "/p")
    (gemini-companion-host-context-test--serve "/mock:b:" "/p")
    (gemini-companion-test-host-unasked
      (let ((here (buffer-file-name (gemini-companion-host-context-test--visit "here/x")))
            (project (gemini-companion-test-file "here")))
        (gemini-companion-host-context-test--pretend "/mock:a:/p/x")
        (gemini-companion-host-context-test--pretend "/mock:b:/p/x")
        (gemini-companion-host-context-test--pretend "/mock:a:/p/y")
        (gemini-companion-host-context-test--pretend "/mock:c:/p/x")
        (should (equal (gemini-companion-host-context-test--told "/mock:a:/p")
                       '("/p/y*" "/p/x")))
        (should (equal (gemini-companion-host-context-test--told "/mock:b:/p") '("/p/x*")))
        (should-not (gemini-companion-host-context-test--told "/mock:c:/p"))
        (dolist (place (list project nil))
          (should (equal (gemini-companion-host-context-test--told place)
                         (list (concat here "*"))))
          (should (equal (gemini-companion-host-context-test--reason place "/mock:a:/p/x")
                         "on another machine"))
          (should (equal (gemini-companion-host-context-test--reason place "/mock:c:/p/x")
                         "remote")))
        (should (equal (gemini-companion-host-context-test--reason "/mock:a:/p" here)
                       "on another machine"))
        (should (equal (gemini-companion-host-context-test--reason "/mock:a:/p" "/mock:b:/p/x")
                       "on another machine"))
        (should (equal (gemini-companion-host-context-test--reason "/mock:a:/p" "/mock:c:/p/x")
                       "remote"))))))

(ert-deftest gemini-companion-host-context/no-option-tells-other-machines ()
  (gemini-companion-host-context-test--with
    (gemini-companion-host-context-test--serve "/mock:a:" "/")
    (let ((here (buffer-file-name (gemini-companion-host-context-test--visit "here/x"))))
      (gemini-companion-host-context-test--pretend "/mock:a:/p/x")
      (gemini-companion-host-context-test--pretend "/mock:b:/p/x")
      (dolist (gemini-companion-context-scope '(project all))
        (dolist (gemini-companion-share-outside-workspace '(nil t))
          (let ((gemini-companion-workspace-roots '("/")))
            (gemini-companion-workspace-roots)
            (should (equal (gemini-companion-host-context-test--told "/mock:a:/p") '("/p/x*")))
            (should-not (gemini-companion-host-context-test--told "/mock:b:/p"))
            (dolist (place (list nil "/" (gemini-companion-test-file "here")))
              (should (equal (gemini-companion-host-context-test--told place)
                             (list (concat here "*")))))))))))

(ert-deftest gemini-companion-host-context/a-container-hears-of-what-is-mounted-there ()
  (gemini-companion-host-context-test--with
    (gemini-companion-host-context-test--serve "/mock:a:" "/app")
    (gemini-companion-host-context-test--serve "/mock:b:" "/app")
    (let ((host (gemini-companion-host-named "/mock:a:"))
          (here (directory-file-name (gemini-companion-test-file "here"))))
      (setf (gemini-companion-host-mounts host)
            `(("/app" . ,here) ("/root/.config" . ,(gemini-companion-test-file "config"))))
      (gemini-companion-test-host-unasked
        (gemini-companion-host-context-test--visit "here/x")
        (gemini-companion-host-context-test--visit "hereafter/y")
        (gemini-companion-host-context-test--visit "config/z")
        (gemini-companion-host-context-test--pretend "/mock:a:/app/w")
        (dolist (gemini-companion-context-scope '(project all))
          (dolist (gemini-companion-share-outside-workspace '(nil t))
            (should (equal (gemini-companion-host-context-test--told "/mock:a:/app")
                           '("/app/w*" "/app/x")))
            (should-not (gemini-companion-host-context-test--told "/mock:b:/app"))))
        ;; A root may be above it, or below.
        (gemini-companion-host-context-test--serve "/mock:a:" "/")
        (should (equal (gemini-companion-host-context-test--told "/mock:a:/app")
                       '("/app/w*" "/root/.config/z" "/app/x")))
        (gemini-companion-host-context-test--serve "/mock:a:" "/app/sub")
        (gemini-companion-host-context-test--visit "here/sub/v")
        (should (equal (gemini-companion-host-context-test--told "/mock:a:/app/sub")
                       '("/app/sub/v*")))
        ;; Here they belong to this machine.
        (should (equal (gemini-companion-host-context-test--told here)
                       (mapcar #'gemini-companion-test-file '("here/sub/v*" "here/x"))))))))

(ert-deftest gemini-companion-host-context/what-is-mounted-has-two-names ()
  (let* ((gemini-companion-host-all nil)
         (host (gemini-companion-test-host-add "/mock:a:")))
    (setf (gemini-companion-host-mounts host)
          '(("/app" . "/home/me/p") ("/app" . "/real/p") ("/app/lib" . "/srv/lib")
            ("/app/volume" . "/mock:a:/app/volume")))
    (pcase-dolist (`(,there . ,here)
                   '(("/app/a" . "/home/me/p/a") ("/app" . "/home/me/p")
                     ("/app/lib/a" . "/srv/lib/a")))
      (should (equal (gemini-companion-host-name-here (concat "/mock:a:" there)) here))
      (should (equal (gemini-companion-host-name-there host here) there)))
    (should (equal (gemini-companion-host-name-here "/mock:a:/other/a") "/mock:a:/other/a"))
    (should (equal (gemini-companion-host-name-there host "/mock:a:/other/a") "/other/a"))
    (should (equal (gemini-companion-host-name-there host "/real/p/a") "/app/a"))
    ;; Something else is mounted there.
    (should-not (gemini-companion-host-name-there host "/home/me/p/lib/a"))
    (should-not (gemini-companion-host-name-there host "/home/me/p/volume/a"))
    (let ((file "/mock:a:/app/volume/a"))
      (should (equal (gemini-companion-host-name-here file) file))
      (should (equal (gemini-companion-host-name-there host file) "/app/volume/a")))
    (should (equal (gemini-companion-host-directory-names host "/app")
                   '("/mock:a:/app/" "/home/me/p/" "/real/p/" "/srv/lib/"
                     "/mock:a:/app/volume/")))
    (setf (gemini-companion-host-mounts host) '(("/app" . "/home/me/p")))
    (should-not (gemini-companion-host-name-there host "/home/me/pq/a"))))

(ert-deftest gemini-companion-host-context/the-scope-is-that-of-the-roots-there ()
  (gemini-companion-host-context-test--with
    (gemini-companion-host-context-test--serve "/mock:a:" "/p" "/p/inner" "/q")
    (dolist (name '("/p/1" "/p/inner/2" "/q/3" "/r/4"))
      (gemini-companion-host-context-test--pretend (concat "/mock:a:" name)))
    (pcase-dolist (`(,directory . ,told)
                   '(("/p" "/p/inner/2*" "/p/1") ("/p/sub" "/p/inner/2*" "/p/1")
                     ("/p/inner" "/p/inner/2*") ("/q" "/q/3*")
                     ;; Not known, or in no root.
                     ("/" "/q/3*" "/p/inner/2" "/p/1") ("/r" "/q/3*" "/p/inner/2" "/p/1")
                     ("/pp" "/q/3*" "/p/inner/2" "/p/1")))
      (should (equal (gemini-companion-host-context-test--told (concat "/mock:a:" directory))
                     told)))
    (should (equal (gemini-companion-host-context-test--reason "/mock:a:/p" "/mock:a:/q/3")
                   "in another project"))
    (should (equal (gemini-companion-host-context-test--reason "/mock:a:/p" "/mock:a:/r/4")
                   "outside of projects"))
    (let ((gemini-companion-context-scope 'all))
      (should (equal (gemini-companion-host-context-test--told "/mock:a:/q")
                     '("/q/3*" "/p/inner/2" "/p/1"))))
    (let ((gemini-companion-share-outside-workspace t))
      (should (equal (gemini-companion-host-context-test--told "/mock:a:/q") '("/r/4*" "/q/3"))))
    ;; Other roots count at once.
    (gemini-companion-host-context-test--serve "/mock:a:" "/r")
    (should (equal (gemini-companion-host-context-test--told "/mock:a:/p") '("/r/4*")))))

(ert-deftest gemini-companion-host-context/point-and-selection-are-told ()
  (gemini-companion-host-context-test--with
    (gemini-companion-host-context-test--serve "/mock:a:" "/p")
    (gemini-companion-host-context-test--pretend "/mock:a:/p/x")
    (goto-char 3)
    (push-mark 1 t t)
    (let ((transient-mark-mode t))
      (should (equal (append (substring (car (gemini-companion-context-gather "/mock:a:/p")) 2)
                             nil)
                     '(t 2 1 "1\n"))))))

;;;; What is withheld

(ert-deftest gemini-companion-host-context/private-files-there-are-withheld ()
  (gemini-companion-host-context-test--with
    (gemini-companion-host-context-test--serve "/mock:a:" "/p")
    (gemini-companion-test-host-unasked
      (pcase-dolist (`(,file . ,reason)
                     '(("/p/.env" . "named by `gemini-companion-private-files'")
                       ("/p/.ssh/config" . "named by `gemini-companion-private-files'")
                       ("/p/x.gpg" . "encrypted")
                       ("/p/caf\351" . "named with bytes that are not text")
                       ("/:/p/x" . "known to its host by another name")))
        (let ((file (concat "/mock:a:" (decode-coding-string file 'utf-8))))
          (gemini-companion-host-context-test--pretend file)
          (should (equal (gemini-companion-host-context-test--reason "/mock:a:/p" file) reason))))
      (gemini-companion-host-context-test--pretend "/mock:a:/p/mine")
      (setq gemini-companion-private t)
      (should (equal (gemini-companion-host-context-test--reason "/mock:a:/p" "/mock:a:/p/mine")
                     "marked as private, perhaps in .dir-locals.el"))
      ;; What a link leads to counts as well.
      (gemini-companion-host-context-test--pretend "/mock:a:/p/link")
      (setq buffer-file-truename "/mock:a:/home/me/id_rsa")
      (should (equal (gemini-companion-host-context-test--reason "/mock:a:/p" "/mock:a:/p/link")
                     "named by `gemini-companion-private-files'"))
      (should-not (gemini-companion-host-context-test--told "/mock:a:/p")))))

(ert-deftest gemini-companion-host-context/a-file-that-was-never-saved-is-withheld ()
  (gemini-companion-host-context-test--with
    (gemini-companion-host-context-test--serve "/mock:a:" "/p")
    (gemini-companion-test-host-unasked
      (gemini-companion-host-context-test--pretend "/mock:a:/p/new")
      ;; The last one is Tramp's.
      (dolist (flag '(0 -1 (-1 65535)))
        (set-visited-file-modtime flag)
        (should-not (gemini-companion-host-context-test--told "/mock:a:/p"))
        (should (equal (gemini-companion-host-context-test--reason "/mock:a:/p" "/mock:a:/p/new")
                       "not on disk")))
      ;; Saved.
      (set-visited-file-modtime '(25000 0))
      (should (equal (gemini-companion-host-context-test--told "/mock:a:/p") '("/p/new*"))))))

(ert-deftest gemini-companion-host-context/ignore-rules-are-those-that-the-host-tells ()
  (gemini-companion-host-context-test--with
    (gemini-companion-host-context-test--serve "/mock:a:" "/p" "/p/inner")
    (gemini-companion-host-context-test--pretend "/mock:a:/p/inner/x")
    (let ((asked nil)
          (rules '(("/p" . "not known"))))
      (cl-letf (((symbol-function 'gemini-companion-bridge-host-ignored)
                 (lambda (prefix root name)
                   (push (list prefix root name) asked)
                   (cdr (assoc root rules))))
                ((symbol-function 'gemini-companion-bridge-ignored)
                 (lambda (&rest _) (ert-fail "Asked here"))))
        (let ((reason (lambda ()
                        (gemini-companion-context-update)
                        (gemini-companion-host-context-test--reason
                         "/mock:a:/p" "/mock:a:/p/inner/x"))))
          (should (equal (funcall reason) "/p/.geminiignore not known"))
          (should (member '("/mock:a:" "/p" "/p/inner/x") asked))
          (setq rules '(("/p/inner" . t)))
          ;; An event of the module says that there are others.
          (should (equal (funcall reason) "named by /p/inner/.geminiignore"))
          (setq rules nil)
          (should-not (funcall reason))
          (should (equal (gemini-companion-host-context-test--told "/mock:a:/p")
                         '("/p/inner/x*"))))))))

;;;; Hosts come and go, and so do buffers

(ert-deftest gemini-companion-host-context/a-host-that-is-opened-later-is-told-what-is-open ()
  (gemini-companion-host-context-test--with
    (gemini-companion-host-context-test--pretend "/mock:a:/p/x")
    (gemini-companion-host-context-test--visit "here/x")
    (gemini-companion-host-context-test--pretend "/mock:a:/p/y")
    (should-not (gemini-companion-host-context-test--told "/mock:a:/p"))
    (gemini-companion-host-context-test--serve "/mock:a:" "/p")
    (should (equal (gemini-companion-host-context-test--told "/mock:a:/p") '("/p/y*" "/p/x")))
    (gemini-companion-host-remove (gemini-companion-host-named "/mock:a:"))
    (should-not (gemini-companion-host-context-test--told "/mock:a:/p"))
    ;; And again.
    (gemini-companion-host-context-test--serve "/mock:a:" "/p")
    (should (equal (gemini-companion-host-context-test--told "/mock:a:/p") '("/p/y*" "/p/x")))))

(ert-deftest gemini-companion-host-context/what-a-host-may-know-is-published-when-it-changes ()
  (gemini-companion-host-context-test--with
    (gemini-companion-host-context-test--pretend "/mock:a:/p/x")
    (let ((told nil))
      (cl-letf (((symbol-function 'gemini-companion-bridge-places)
                 (lambda () '("/mock:a:/p" "/mock:a:/q")))
                ((symbol-function 'gemini-companion-bridge-publish-contexts)
                 (lambda (contexts)
                   (pcase-dolist (`[,place ,files ,_] contexts)
                     (setf (alist-get place told nil nil #'equal)
                           (mapcar (lambda (file) (aref file 0)) files))))))
        (pcase-dolist (`(,roots . ,expected)
                       '((("/p" "/q") . (("/p/x") nil)) (("/r") . (nil nil))
                         (("/") . (("/p/x") ("/p/x"))) (nil . (nil nil))))
          ;; No key is pressed.
          (if roots (apply #'gemini-companion-host-context-test--serve "/mock:a:" roots)
            (gemini-companion-host-remove (gemini-companion-host-named "/mock:a:")))
          (gemini-companion-test-wait
           "the context"
           (lambda ()
             (equal expected (list (cdr (assoc "/mock:a:/p" told))
                                   (cdr (assoc "/mock:a:/q" told)))))))))))

(ert-deftest gemini-companion-host-context/a-host-that-is-closed-hears-nothing ()
  "Its clients are there for a moment, in a directory that looks like one here."
  (gemini-companion-host-context-test--with
    (gemini-companion-host-context-test--visit "here/x")
    (let ((gemini-companion-workspace-roots '("/")))
      (gemini-companion-workspace-roots)
      (dolist (place '("/mock:a:/p" "/mock:a:/" "/ssh:gone:/a\nb" "/x:y:/:"))
        (should-not (gemini-companion-host-context-test--told place))))))

(ert-deftest gemini-companion-host-context/a-buffer-is-followed-from-host-to-host ()
  (gemini-companion-host-context-test--with
    (gemini-companion-host-context-test--serve "/mock:a:" "/p")
    (gemini-companion-host-context-test--serve "/mock:b:" "/p")
    (let ((buffer (gemini-companion-host-context-test--pretend "/mock:a:/p/x"))
          (told (lambda ()
                  (list (gemini-companion-host-context-test--told "/mock:a:/p")
                        (gemini-companion-host-context-test--told "/mock:b:/p")
                        (gemini-companion-host-context-test--told
                         (gemini-companion-test-file "here"))))))
      (should (equal (funcall told) '(("/p/x*") nil nil)))
      (setq buffer-file-name "/mock:b:/p/x" buffer-file-truename "/mock:b:/p/x")
      (run-hooks 'after-set-visited-file-name-hook)
      (should (equal (funcall told) '(nil ("/p/x*") nil)))
      (let ((here (gemini-companion-test-file "here/z" "z\n")))
        (setq buffer-file-name here buffer-file-truename here)
        (run-hooks 'after-set-visited-file-name-hook)
        (gemini-companion-workspace-roots)
        (should (equal (funcall told) `(nil nil (,(concat here "*"))))))
      (kill-buffer buffer)
      (should (equal (funcall told) '(nil nil nil))))))

(ert-deftest gemini-companion-host-context/a-real-remote-buffer-is-told-without-asking ()
  "Visiting asks the host, of course, and saving; telling of it does not."
  (gemini-companion-test-with-host client
    (let ((name (gemini-companion-test-file "a.txt"))
          (files (lambda ()
                   (mapcar (lambda (file) (alist-get 'path file))
                           (fake-cli-open-files (fake-cli-context client))))))
      (fake-cli-call-tool client "ignoreRules"
                          `( :directory ,(directory-file-name gemini-companion-test-project)
                             :text "secret*\n"))
      (let ((buffer (find-file-noselect (gemini-companion-test-host-file "a.txt")))
            (new (find-file-noselect (gemini-companion-test-host-file "new.txt")))
            (secret (find-file-noselect
                     (progn (gemini-companion-test-file "secret.txt" "x\n")
                            (gemini-companion-test-host-file "secret.txt")))))
        (gemini-companion-test-host-unasked
          (dolist (shown (list secret new buffer))
            (switch-to-buffer shown)
            (run-hooks 'post-command-hook))
          (gemini-companion-test-wait
           (lambda () (format "the context, %S, %S" (funcall files)
                              (gemini-companion-context-withheld
                               (gemini-companion-test-host-file ""))))
           (lambda () (equal (funcall files) (list name))))
          (goto-char (point-max))
          (run-hooks 'post-command-hook)
          (gemini-companion-test-wait
           "point"
           (lambda ()
             (equal (alist-get 'cursor (car (fake-cli-open-files (fake-cli-context client))))
                    '((line . 3) (character . 1)))))
          (should (equal (gemini-companion-host-context-test--reason
                          (gemini-companion-test-host-file "") (buffer-file-name secret))
                         (format "named by %s.geminiignore" gemini-companion-test-project))))
        (with-current-buffer new
          (insert "new\n")
          (let ((inhibit-message t)) (save-buffer)))
        (gemini-companion-test-host-unasked
          (switch-to-buffer new)
          (run-hooks 'post-command-hook)
          (gemini-companion-test-wait
           "the new file"
           (lambda ()
             (equal (funcall files) (list (gemini-companion-test-file "new.txt") name)))))))))

;;;; What is shown to the user

(ert-deftest gemini-companion-host-context/each-place-is-shown ()
  (gemini-companion-host-context-test--with
    (gemini-companion-host-context-test--serve "/mock:a:" "/p" "/q")
    (gemini-companion-host-context-test--visit "here/x")
    (gemini-companion-host-context-test--pretend "/mock:a:/p/y")
    (let ((session (lambda (directory)
                     (vector "k" "Gemini CLI" nil 1 'open 0 0 directory nil)))
          (here (directory-file-name (gemini-companion-test-file "here"))))
      (gemini-companion-test-host-unasked
        (cl-letf (((symbol-function 'gemini-companion-bridge-sessions)
                   (lambda () (list (funcall session "/mock:a:/p") (funcall session "/mock:a:/r")
                                    (funcall session here) (funcall session "/mock:gone:/p")))))
          (let ((text (gemini-companion-status--context-text)))
            (dolist (part (list "\nWorkspace roots\n" "  /mock:a:/p\n  /mock:a:/q\n"
                                "Gemini CLI in /mock:a:/p: told about /mock:a:/p\n"
                                "Gemini CLI in /mock:a:/r: told about /mock:a:/p, /mock:a:/q\n"
                                (format "Gemini CLI in %s: told about %s\n" here here)
                                "Gemini CLI in /mock:gone:/p, in no workspace root: told about no file\n"
                                "\nOpen files\n  /p/y, active"
                                "\nWithheld\n  /mock:a:/p/y: on another machine\n"))
              (should (string-search part text)))))))))

;;;; It costs nothing

(ert-deftest gemini-companion-host-context/tramp-is-not-even-called-for-names ()
  "Its handlers take up to a millisecond, without asking a host for anything."
  (gemini-companion-host-context-test--with
    (gemini-companion-host-context-test--serve "/mock:a:" "/p")
    (let ((places (list "/mock:a:/p" (gemini-companion-test-file "here")))
          (asked 0)
          (count nil))
      (setq count (lambda (&rest _) (setq asked (1+ asked))))
      (gemini-companion-host-context-test--visit "here/x")
      (gemini-companion-host-context-test--pretend "/mock:elsewhere:/p/z")
      (gemini-companion-host-context-test--pretend "/mock:a:/p/y")
      (cl-letf (((symbol-function 'gemini-companion-bridge-places) (lambda () places))
                ((symbol-function 'gemini-companion-bridge-publish-contexts) #'ignore))
        (gemini-companion-context--publish)
        (advice-add 'tramp-file-name-handler :before count)
        (unwind-protect
            (progn
              (dotimes (n 6)
                (goto-char (1+ n))
                (run-hooks 'post-command-hook)
                (gemini-companion-context--publish))
              (gemini-companion-host-context-test--pretend "/mock:a:/p/new")
              (gemini-companion-context--publish))
          (advice-remove 'tramp-file-name-handler count))
        (should (zerop asked))))))

;;;; Isolation

(defconst gemini-companion-host-context-test--names
  '("/p/x" "/p/y" "/p/sub/x" "/q/x" "/r/x" "/p/.env" "/p/a:b" "/x|mock:b:/y"
    "/p/mock:b:/x" "/pp/x" "/p" "/p/ x" "/p/\n")
  "Names of files, the same on all machines.")

(defun gemini-companion-host-context-test--expected (place file)
  "Return what clients in PLACE may be told FILE is, nil if nothing.
This knows the rules in another way than the package does: it takes both
apart from the start, as lists of components."
  (let* ((split (lambda (name)
                  (if (string-match "\\`/mock:\\([ab]\\):\\(/\\(?:.\\|\n\\)*\\)" name)
                      (list (match-string 1 name) (split-string (match-string 2 name) "/" t))
                    (list nil (split-string name "/" t)))))
         (place (funcall split place))
         (file (funcall split file))
         (roots '(("p") ("q")))
         (in (lambda (root names) (and (< (length root) (length names))
                                       (equal root (seq-take names (length root))))))
         (own (seq-filter (lambda (root)
                            (equal root (seq-take (cadr place) (length root))))
                          roots)))
    (and (car place)
         (equal (car place) (car file))
         (gemini-companion-host-named (format "/mock:%s:" (car place)))
         (not (member ".env" (cadr file)))
         (seq-some (lambda (root) (funcall in root (cadr file))) (or own roots))
         (concat "/" (string-join (cadr file) "/")))))

(defun gemini-companion-host-context-test--act ()
  "Do at random one of the things that happen to buffers and hosts."
  (let ((name (seq-random-elt gemini-companion-host-context-test--names))
        (prefix (seq-random-elt '("/mock:a:" "/mock:b:"))))
    (pcase (random 9)
      ((or 0 1 2) (gemini-companion-host-context-test--pretend (concat prefix name)))
      (3 (gemini-companion-host-context-test--visit (concat "here/" (number-to-string (random 4)))))
      ((or 4 5)
       (when buffer-file-name
         (setq buffer-file-name (concat prefix name)
               buffer-file-truename buffer-file-name
               buffer-file-number nil)
         (set-visited-file-modtime '(25000 0))
         (run-hooks 'after-set-visited-file-name-hook)))
      (6 (when buffer-file-name
           (set-buffer-modified-p nil)
           (kill-buffer)))
      (7 (gemini-companion-host-context-test--serve prefix "/p" "/q"))
      (8 (when-let* ((host (gemini-companion-host-named prefix)))
           (gemini-companion-host-remove host))))
    (goto-char (1+ (random (1+ (buffer-size)))))
    (run-hook-with-args 'window-buffer-change-functions (selected-frame))
    (run-hooks 'post-command-hook)))

(ert-deftest gemini-companion-host-context/nobody-is-told-what-is-on-another-machine ()
  "Whatever buffers and hosts do, in whichever order."
  (gemini-companion-host-context-test--with
    (let* ((inhibit-message t)
           (seed (format "%s" (or (getenv "GEMINI_COMPANION_TEST_SEED") (random t))))
           (here (gemini-companion-test-file "here"))
           (remote '("/mock:a:/p" "/mock:a:/p/sub" "/mock:a:/" "/mock:b:/q" "/mock:b:/r"))
           (places (append (list nil here) remote))
           (told nil)
           (said 0))
      (random seed)
      (gemini-companion-test-with-told places told
        (gemini-companion-context-update)
        (ert-info ((format "GEMINI_COMPANION_TEST_SEED=%s" seed))
          (gemini-companion-test-host-unasked
            (dotimes (_ 300)
              (gemini-companion-host-context-test--act)
              (gemini-companion-context--publish)
              (dolist (place places)
                (let ((names (mapcar (lambda (file) (aref file 0))
                                     (alist-get place told nil nil #'equal)))
                      (files (delq nil (mapcar #'buffer-file-name (buffer-list)))))
                  (setq said (+ said (length names)))
                  (if (member place remote)
                      (let ((may (delq nil (mapcar
                                            (lambda (file)
                                              (gemini-companion-host-context-test--expected
                                               place file))
                                            files))))
                        (dolist (name names)
                          (should (member name may)))
                        ;; Nor is something lacking, up to the limit.
                        (should (or (>= (length names) 10)
                                    (null (seq-difference (delete-dups may) names)))))
                    (dolist (name names)
                      (should (string-prefix-p here name)))))))
            (should (> said 300))))))))

;;; gemini-companion-host-context-test.el ends here

;;; remote-tools-test.el --- Tools and hooks of CLIs on hosts  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The model of a CLI on a host uses Emacs, and the hooks there tell what the CLI does.

;;; Code:

(require 'gemini-companion-test-remote)

(defun gemini-companion-remote-tools-test--clis (emacs)
  "Return the state, the last prompt and the terminal of each CLI that EMACS knows."
  (gemini-companion-test-eval
   emacs '(mapcar (lambda (cli)
                    (list (gemini-companion-cli-state cli)
                          (car (gemini-companion-cli-prompt cli))
                          (and (gemini-companion-cli-terminal cli)
                               (buffer-name (gemini-companion-cli-terminal cli)))))
                  (gemini-companion-cli-all))))

(defun gemini-companion-remote-tools-test--wait-clis (emacs clis)
  "Wait until the CLIs that EMACS knows are CLIS.
See `gemini-companion-remote-tools-test--clis'."
  (gemini-companion-test-wait
   (lambda () (format "%S; there is %S" clis (gemini-companion-remote-tools-test--clis emacs)))
   (lambda () (equal clis (gemini-companion-remote-tools-test--clis emacs)))))

(defun gemini-companion-remote-tools-test--told (cli)
  "Return what CLI has told the model last, as text."
  (format "%s" (gemini-companion-test-request-responses
                (car (last (gemini-companion-test-cli-requests cli))))))

(ert-deftest gemini-companion-remote-tools/a-run-there ()
  "The model reads unsaved text there, and nothing of files here."
  :tags '(any-emacs)
  (gemini-companion-test-require-far)
  (gemini-companion-test-with-far (far (gemini-companion-test-far-start "far"))
    (let ((file (gemini-companion-test-far-write far "a.txt" "one\n")))
      (gemini-companion-test-with-far-emacs (emacs :files '(("here.txt" . "local\n")))
        (gemini-companion-test-visit emacs "here.txt")
        (gemini-companion-test-remote-visit emacs far "a.txt")
        (gemini-companion-test-run emacs '(progn (goto-char (point-max)) (insert "mine\n")))
        (gemini-companion-test-with-cli
            (cli (gemini-companion-test-far-cli-run far emacs 'tools))
          (gemini-companion-test-remote-count emacs)
          (gemini-companion-test-cli-script
           cli '("mcp_emacs_getOpenFiles") `("mcp_emacs_getUnsaved" :path ,file) "All done")
          (gemini-companion-test-cli-submit cli "please look")
          (gemini-companion-test-remote-wait-done cli)
          (let ((told (gemini-companion-remote-tools-test--told cli)))
            (should (string-search "a.txt (text, unsaved edits" told))
            (should-not (string-search "here.txt" told))
            (should-not (string-search "withheld" told))
            (should (string-match-p "one\nmine" told)))
          (gemini-companion-remote-tools-test--wait-clis
           emacs `((done "please look"
                         ,(gemini-companion-test-eval emacs '(buffer-name (window-buffer))))))
          ;; The CLI has this Emacs for its editor, too.
          (gemini-companion-test-cli-edit-prompt emacs cli "Say ä" " ö.")
          (gemini-companion-test-cli-script cli "All said")
          (gemini-companion-test-keys emacs "Enter")
          (gemini-companion-test-cli-wait-terminal cli "All said")
          (should (member "Say ä ö." (gemini-companion-test-request-texts
                                      (car (last (gemini-companion-test-cli-requests cli))))))
          (should-not (gemini-companion-test-remote-sent emacs))
          (gemini-companion-test-run
           emacs '(with-current-buffer "a.txt" (set-buffer-modified-p nil))))))))

(ert-deftest gemini-companion-remote-tools/an-edit-there-that-nobody-reviews ()
  "It is in the history and in the buffer, without asking Tramp.
Afterwards nothing is left there."
  :tags '(any-emacs)
  (gemini-companion-test-with-remote (emacs far '(("a.txt" . "one\n")))
    (let* ((file (gemini-companion-test-far-file far "a.txt"))
           (home (gemini-companion-test-far-home far))
           (there (lambda (name)
                    (file-exists-p (gemini-companion-test-far-local
                                    far (concat home "/.gemini/" name))))))
      (gemini-companion-test-far-run far "mkdir ~/.gemini && echo '{}' >~/.gemini/settings.json")
      (gemini-companion-test-m-x emacs "gemini-companion-tools-enable" "a policy for Gemini CLI)")
      (gemini-companion-test-press emacs "y" "The model of Gemini CLI on far can use Emacs")
      (should (funcall there "extensions/emacs/hooks/hooks.json"))
      (gemini-companion-test-with-cli (cli (gemini-companion-test-far-cli-start far))
        (gemini-companion-test-cli-press cli "C-y" "YOLO")
        (gemini-companion-test-cli-propose cli file "two\n")
        (gemini-companion-test-remote-wait-done cli)
        (gemini-companion-test-remote-wait-buffer emacs far "a.txt" "two\n")
        (gemini-companion-remote-tools-test--wait-clis emacs '((done "please write" nil)))
        (should-not (gemini-companion-test-remote-sent emacs))
        (gemini-companion-test-m-x emacs "gemini-companion-history-list" "please write")
        (gemini-companion-test-wait-screen emacs "unreviewed"))
      ;; It has ended.
      (gemini-companion-remote-tools-test--wait-clis emacs nil)
      (gemini-companion-test-remote-visit emacs far "a.txt")
      (gemini-companion-test-m-x emacs "gemini-companion-tools-disable")
      (gemini-companion-test-wait-screen emacs "Removed the tools of Emacs from Gemini CLI on far")
      (should-not (funcall there "extensions"))
      (should-not (funcall there "policies")))))

;;; remote-tools-test.el ends here

;;; trust-test.el --- What Emacs trusts, and Gemini CLI  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The real CLI with its folder trust on, and `gemini-companion-trusted-roots'.

;;; Code:

(require 'gemini-companion-test-cli)

(defun gemini-companion-trust-e2e--await (regexp own told)
  "Start a CLI with folder trust on, and wait until REGEXP is on its screen.
OWN is what its list of folders says of the project, and TOLD is non-nil if
Emacs says that the user trusts it."
  (gemini-companion-test-with-emacs (emacs :files '(("a.txt" . "one\n")))
    (gemini-companion-test-visit emacs "a.txt")
    (let* ((project (directory-file-name (gemini-companion-test-project emacs)))
           (cli (gemini-companion-test-cli-make emacs project))
           (launch (gemini-companion-test-cli-file cli "launch"))
           (settings (gemini-companion-test-cli-file cli "home/.gemini/settings.json")))
      (unwind-protect
          (progn
            (gemini-companion-test-eval
             emacs `(setq gemini-companion-trusted-roots ',(and told (list project))))
            (gemini-companion-test-write
             launch (string-replace "GEMINI_CLI_TRUST_WORKSPACE\\=true" ""
                                    (gemini-companion-test-read launch)))
            (set-file-modes launch #o755)
            (gemini-companion-test-write
             settings (string-replace "\"folderTrust\":{\"enabled\":false}"
                                      "\"folderTrust\":{\"enabled\":true}"
                                      (gemini-companion-test-read settings)))
            (gemini-companion-test-write
             (gemini-companion-test-cli-file cli "home/.gemini/trustedFolders.json")
             (format "{%S: %S}" project own))
            (gemini-companion-test-cli--start-in-tmux cli)
            (gemini-companion-test-cli-wait-screen cli regexp))
        (gemini-companion-test-cli-stop cli)))))

(ert-deftest gemini-companion-trust/what-emacs-trusts-is-trusted ()
  "If both say so, the CLI asks nothing; if only Emacs does, it wants to be restarted."
  :tags '(any-emacs)
  (gemini-companion-test-require-real-client)
  (gemini-companion-trust-e2e--await "1 open file" "TRUST_FOLDER" t)
  (gemini-companion-trust-e2e--await "This folder is untrusted" "DO_NOT_TRUST" nil)
  (gemini-companion-trust-e2e--await "Workspace trust has changed" "DO_NOT_TRUST" t))

(provide 'trust-test)
;;; trust-test.el ends here

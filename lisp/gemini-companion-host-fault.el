;;; gemini-companion-host-fault.el --- Why a host is not connected -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What may be wrong with a connection to a host, what the user can do about it, and what ssh prints
;; in such cases.

;;; Code:

(require 'seq)

(defconst gemini-companion-host-fault--kinds
  '((program "the program for it cannot be run"
             "Install it, or set `gemini-companion-ssh-program' or `gemini-companion-containers'")
    (authentication "ssh cannot log in without asking for a password"
                    "Add your key to ssh-agent, or visit a file there first")
    (host-key "ssh does not trust the key of the host"
              "Log in once by ssh in a terminal, and check the key")
    (unreachable "it cannot be reached" "Check its name and the network")
    (node "Node.js is missing there" "Install it where a shell that is not interactive finds it")
    (owner "a directory that a CLI looks into belongs to another user there"
           "Set TMPDIR there to a directory of your own, in a file that all shells read")
    (silent "it does not answer" "Log in by ssh in a terminal, to see what it waits for")
    (flood "it sends far more than it should"
           "Look at what the startup files of your shell there print")
    (broken "what it sends makes no sense"
            "Look at what the startup files of your shell there print")
    (keeper "it cannot announce this Emacs" "M-x gemini-companion-log says more")
    (ended "the program that leads there has ended" "M-x gemini-companion-log says more"))
  "Alist of kinds of faults, what they mean, and what to do.")

(defun gemini-companion-host-fault-text (fault)
  "Return what FAULT, (KIND . DETAIL), means, as text for the user, or nil."
  (pcase fault
    (`(,kind . ,detail)
     (concat (car (alist-get kind gemini-companion-host-fault--kinds))
             (and detail (format " (%s)" detail))))))

(defun gemini-companion-host-fault-remedy (fault)
  "Return what to do about FAULT, as text for the user, or nil."
  (cadr (alist-get (car fault) gemini-companion-host-fault--kinds)))

(defconst gemini-companion-host-fault--errors
  '((authentication . "Permission denied\\|Too many authentication failures\
\\|No more authentication methods\\|no mutual signature")
    (host-key . "Host key verification failed\\|HOST IDENTIFICATION HAS CHANGED\
\\|host key is known for\\|no matching host key")
    (unreachable . "Could not resolve\\|[Cc]onnection timed out\\|Connection refused\
\\|No route to host\\|Network is unreachable\\|Operation timed out\\|Name or service not known\
\\|[Cc]onnection closed by\\|Connection reset by\\|banner exchange"))
  "Alist of kinds of faults and regexps for what ssh prints then.")

(defun gemini-companion-host-fault-of-ssh (output)
  "Return the kind of fault that OUTPUT of ssh is about, or nil."
  (car (seq-find (lambda (entry) (string-match-p (cdr entry) output))
                 gemini-companion-host-fault--errors)))

(provide 'gemini-companion-host-fault)
;;; gemini-companion-host-fault.el ends here

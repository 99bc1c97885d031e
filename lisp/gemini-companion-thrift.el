;;; gemini-companion-thrift.el --- Accepts that cost the model little -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client that is told which text was accepted takes it for an edit of the user's, even if it is
;; what the client itself has proposed, and its model has to read the whole file, twice.  Told no
;; text, it writes its proposal, and the model reads a few lines.  Only versions that were tried
;; are known to do so: another one might write an empty file.  Which were is said in
;; `gemini-companion-agent-profiles'; here it is decided when to leave the text out.

;;; Code:

(require 'subr-x)
(require 'gemini-companion-agent)

(defcustom gemini-companion-thrifty-accept 'tried
  "When an accept of an unchanged proposal is told without the text.
Gemini CLI takes every text that it is told for an edit of yours, and
sends its model the whole file, twice.  If it is told none it writes what
it has proposed, and its model reads a few lines.

If `tried', the text is left out for the versions of clients with which
that was tried.  If `always', it is left out for all clients; one that
does not know this might write an empty file.  If `never', all clients are
told the text.

Whenever the text was left out Emacs looks whether the file becomes what
you accepted, and tells you if it does not.  You can then have it written
from \\[gemini-companion-review-history]."
  :type '(choice (const :tag "For versions that were tried" tried)
                 (const :tag "Always" always)
                 (const :tag "Never" never))
  :group 'gemini-companion)

(defun gemini-companion-thrift-p (agent name version)
  "Return non-nil if a client may be told an accept without the text.
It is of AGENT; NAME and VERSION are what it says itself."
  (pcase gemini-companion-thrifty-accept
    ('always t)
    ('tried (gemini-companion-agent-thrifty-p agent name version))))

(defun gemini-companion-thrift-untouched-p (text proposed base)
  "Return non-nil if a client that proposed PROPOSED writes the same for TEXT.
BASE are the bytes of the file, if there is one.  If they have a CRLF the
client makes each line end one.  An empty text is told as it is: the user
is asked about that."
  (and (not (string-empty-p text))
       (or (equal text proposed)
           (and (stringp base)
                (string-search "\r\n" base)
                (equal (string-replace "\r\n" "\n" text)
                       (string-replace "\r\n" "\n" proposed))))))

(provide 'gemini-companion-thrift)
;;; gemini-companion-thrift.el ends here

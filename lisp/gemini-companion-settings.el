;;; gemini-companion-settings.el --- The settings of a CLI, changed in place -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Makes ide.enabled true in the text of settings, and leaves everything else as it is, comments and
;; layout included.

;;; Code:

(require 'json)
(require 'gemini-companion-cli-search)

(defun gemini-companion-settings-refuse (format &rest arguments)
  "Signal an error that says why settings stay as they are.
Its message is FORMAT with ARGUMENTS."
  (signal 'error (list (apply #'format format arguments))))

(defun gemini-companion-settings-change (bytes)
  "Return (VALUE . NEW): ide.enabled in BYTES, and BYTES with it made true.
VALUE is t, `false', or nil if it is not set.  BYTES may be nil.  Signal an
error if BYTES cannot be read with certainty."
  (if (string-blank-p (or bytes ""))
      (cons nil "{\n  \"ide\": {\n    \"enabled\": true\n  }\n}\n")
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (insert bytes)
      (unless (listp (gemini-companion-cli-search-parse-buffer))
        (gemini-companion-settings-refuse "it holds no JSON object"))
      (goto-char (point-min))
      (json-skip-whitespace)
      (pcase-let ((`(,value ,start ,end ,new) (gemini-companion-settings--find)))
        (cons value (concat (substring bytes 0 (1- start)) new (substring bytes (1- end))))))))

(defun gemini-companion-settings--find ()
  "Return how to make ide.enabled true in the object at point.
The value is (VALUE START END NEW): its value, and the text NEW to replace
what is between START and END."
  (if-let* ((ide (gemini-companion-settings--member "ide")))
      (progn
        (goto-char ide)
        (unless (looking-at-p "{")
          (gemini-companion-settings-refuse "\"ide\" is no object in it"))
        (if-let* ((enabled (gemini-companion-settings--member "enabled")))
            (progn
              (goto-char enabled)
              (unless (looking-at "true\\|false\\|null")
                (gemini-companion-settings-refuse "ide.enabled is neither true nor false in it"))
              (list (if (equal (match-string 0) "true") t 'false)
                    (match-beginning 0) (match-end 0) "true"))
          (gemini-companion-settings--insertion "\"enabled\": true")))
    (gemini-companion-settings--insertion "\"ide\": {\"enabled\": true}")))

(defun gemini-companion-settings--member (name)
  "Return where the value of NAME in the object at point begins, or nil.
Of several members with one name the last counts."
  (let ((found nil))
    (save-excursion
      (forward-char)
      (while (progn (skip-chars-forward " \t\r\n,")
                    (not (looking-at-p "}")))
        (let ((key (json-read-string)))
          (skip-chars-forward " \t\r\n:")
          (when (equal key name) (setq found (point)))
          (json-read))))
    found))

(defun gemini-companion-settings--insertion (member)
  "Return how to add MEMBER to the object at point, as its first.
For the value see `gemini-companion-settings--find'.  MEMBER gets a line of
its own if the member after it has one."
  (if (looking-at "{[ \t]*\\(\r?\n\\)\\(?:[ \t]*\r?\n\\)*\\([ \t]*\\)\"")
      (list nil (match-beginning 1) (match-beginning 1)
            (concat (match-string 1) (match-string 2) member ","))
    (looking-at "{[ \t\r\n]*\\(}\\)?")
    (if (match-beginning 1)
        (list nil (1+ (point)) (1+ (point)) member)
      (list nil (match-end 0) (match-end 0) (concat member ", ")))))

(provide 'gemini-companion-settings)
;;; gemini-companion-settings.el ends here

;;; accept-bench.el --- What an accept costs the model  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The real, interactive CLIs, with a stand-in for their model: the bytes of the request to the model
;; after a change of a file, and of the function's response in it.  A figure for each way to decide,
;; tool and size of the file.  What is called whole is told as other companions do, that for VS Code
;; among them: always with the text.
;;
;; These are no times: a second run gives the same, but for the names of directories.

;;; Code:

(eval-and-compile
  (add-to-list 'load-path (file-name-directory (macroexp-file-name))))
(require 'gemini-companion-bench)
(require 'gemini-companion-test-cli)
(require 'gemini-companion-test-review)

(defconst gemini-companion-bench--files '(("1 KB" . 14) ("73 KB" . 1000) ("1 MB" . 14000))
  "The sizes of files: name, and how many lines of 73 bytes.")

(defconst gemini-companion-bench--ways '("untouched" "untouched, whole" "edited" "yes" "yes, whole")
  "How a change is decided.
In the client by \"yes\", else in Emacs; whole if the text is told.")

(defun gemini-companion-bench--file (count line)
  "Return a text of COUNT lines, the first of which is LINE."
  (concat line "\n"
          (mapconcat (lambda (number) (format "%05d %s\n" number (make-string 66 ?x)))
                     (number-sequence 2 count) "")))

(defun gemini-companion-bench--turns (tool file text)
  "Return turns of a model that makes FILE TEXT by TOOL.
Its first line is \"first\" before."
  (pcase-exhaustive tool
    ("replace" `((,tool :file_path ,file :instruction "Say it louder."
                        :old_string "first" :new_string "FIRST")
                 "All done"))
    ("write_file" `((,tool :file_path ,file :content ,text) "All done"))
    ;; Qwen Code changes nothing that it has not read.
    ("edit" `(("read_file" :file_path ,file :limit 1)
              (,tool :file_path ,file :old_string "first" :new_string "FIRST")
              "All done"))
    ("write_file after read_file" `(("read_file" :file_path ,file :limit 1)
                                    ("write_file" :file_path ,file :content ,text)
                                    "All done"))))

(defun gemini-companion-bench--decide (emacs cli way)
  "Decide the review in EMACS of CLI in WAY."
  (pcase way
    ((or "yes" "yes, whole")
     (gemini-companion-test-cli-answer cli "Enter"))
    (_ (when (equal way "edited")
         (gemini-companion-test-run
          emacs '(with-current-buffer (gemini-companion-review-proposal
                                       (gemini-companion-review-shown))
                   (goto-char (point-max))
                   (insert "mine\n"))))
       (gemini-companion-test-run emacs '(gemini-companion-accept) 60))))

(defun gemini-companion-bench--request (emacs cli file tool text way)
  "Let CLI change FILE into TEXT by TOOL, decided in EMACS in WAY.
Return the last request to the model, as it was recorded."
  (gemini-companion-test-eval
   emacs `(progn (setq gemini-companion-accept-without-text
                       ',(if (string-suffix-p "whole" way) 'never 'tried))
                 nil))
  (let ((turns (gemini-companion-bench--turns tool file text)))
    (apply #'gemini-companion-test-cli-script cli turns)
    (gemini-companion-test-cli-submit cli "please change it")
    (gemini-companion-test-wait-review emacs)
    (gemini-companion-bench--decide emacs cli way)
    (gemini-companion-test-cli-wait-requests cli (length turns))
    (gemini-companion-test-cli-wait-screen cli "All done")
    (nth (1- (length turns)) (gemini-companion-test-cli-records cli))))

(defun gemini-companion-bench--check (file text way)
  "Check that FILE is what the user accepted in WAY, made from TEXT."
  (unless (equal (gemini-companion-test-read file)
                 (concat text (and (equal way "edited") "mine\n")))
    (error "%s is not what was accepted: %s" file way)))

(defun gemini-companion-bench--response (request)
  "Return how long the last response of a function in REQUEST is."
  (length (gemini-companion-test-json-encode
           (car (last (gemini-companion-test-request-responses (alist-get 'body request)))))))

(defun gemini-companion-bench--accept (title start tool size way)
  "Measure the CLI with TITLE, started by START, with TOOL, a SIZE and a WAY."
  (pcase-let* ((`(,name . ,count) size)
               (before (gemini-companion-bench--file count "first"))
               (after (gemini-companion-bench--file count "FIRST"))
               (figure (format "%s, %s, %s: %s" title tool name way)))
    (gemini-companion-test-with-emacs
        (emacs :lisp (gemini-companion-bench-lisp) :mode nil :files `(("a.txt" . ,before)))
      (make-directory (expand-file-name ".qwen" (gemini-companion-test-home emacs)))
      (gemini-companion-test-visit emacs "a.txt")
      (gemini-companion-test-mode-on emacs)
      (gemini-companion-test-with-cli (cli (funcall start emacs))
        (let* ((file (gemini-companion-test-project emacs "a.txt"))
               (request (gemini-companion-bench--request emacs cli file tool after way)))
          (gemini-companion-bench--check file after way)
          (gemini-companion-bench-add figure "B" (list (alist-get 'bytes request))
                                      (concat figure ", whole"))
          (gemini-companion-bench-add (concat figure ", response") "B"
                                      (list (gemini-companion-bench--response request))))))))

(defun gemini-companion-bench-accept ()
  "Measure all CLIs, tools, sizes and ways."
  (pcase-dolist (`(,title ,start ,tools ,ways)
                 `(("Gemini CLI" gemini-companion-test-cli-start
                    ("replace" "write_file") ,gemini-companion-bench--ways)
                   ;; It is told the text in any case.
                   ("Qwen Code" gemini-companion-test-qwen-start
                    ("edit" "write_file after read_file") ("untouched" "edited" "yes"))))
    (dolist (tool tools)
      (dolist (size gemini-companion-bench--files)
        (dolist (way ways)
          (gemini-companion-bench--accept title start tool size way))))))

(gemini-companion-bench-accept)

;;; accept-bench.el ends here

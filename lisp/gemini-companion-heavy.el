;;; gemini-companion-heavy.el --- Texts that are heavy to display -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client may propose any text, and Emacs must not be blocked when it is displayed.
;;
;; Redisplay takes seconds in lines of some 100 kB, most of all if they are written from right to
;; left or combine characters.  So we show only the start of such lines.
;;
;; Fontification has no limit either: M-> after 100 kB of "((((" lines takes CC mode 38 s, and most
;; modes have such texts.  Nothing can interrupt it.  So we do not fontify a text that is large, has
;; long lines, is slow to parse, or repeats a few lines, as programs and hostile models do.  We
;; fontify any other text from its start on, a few lines at a time, never by redisplay.  If that
;; becomes slow, the buffer gets Fundamental mode.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'subr-x)
(require 'gemini-companion-change)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)

(declare-function treesit-parser-list "ext:treesit")
(declare-function treesit-parser-root-node "ext:treesit")

(defconst gemini-companion-heavy--max-fontified 300000
  "Maximum size in characters of a text that is fontified.")

(defconst gemini-companion-heavy--max-line 10000
  "Maximum length in characters of a line that is shown whole.")

(defconst gemini-companion-heavy--max-time 0.1
  "Seconds that Emacs may take to fontify a few lines.
If it is quick, it makes a pause after a fourth of that.")

(defconst gemini-companion-heavy--max-compared 50000
  "Maximum size in characters of two texts whose words are compared.")

(defun gemini-companion-heavy-p ()
  "Return non-nil if the text of the current buffer must not be fontified."
  (or (> (buffer-size) gemini-companion-heavy--max-fontified)
      (gemini-companion-heavy--long-line-p)
      (gemini-companion-heavy--repetitive-p)
      (gemini-companion-heavy--slow-to-parse-p)))

(defun gemini-companion-heavy--next-long-line (length)
  "Go to the next line of over LENGTH characters, from the beginning of a line on.
Return nil, with point anywhere, if there is none."
  (cl-loop for start = (point)
           while (> (- (point-max) start) length)
           do (goto-char (+ start length 1))
           (skip-chars-backward "^\n" start)
           if (= (point) start) return start))

(defun gemini-companion-heavy--long-line-p ()
  "Return non-nil if a line of the current buffer is too long."
  (save-excursion
    (goto-char (point-min))
    (gemini-companion-heavy--next-long-line gemini-companion-heavy--max-line)))

(defun gemini-companion-heavy--repetitive-p ()
  "Return non-nil if the current buffer has many lines, of which few differ.
Return nil if it is large, since finding out would take long."
  (unless (> (buffer-size) gemini-companion-heavy--max-fontified)
    (let ((count (count-lines (point-min) (point-max)))
          (lines (make-hash-table :test #'equal)))
      (and (>= count 100)
           (save-excursion
             (goto-char (point-min))
             (cl-loop until (eobp)
                      for start = (point)
                      do (forward-line)
                      (puthash (buffer-substring-no-properties start (point)) t lines)
                      always (> count (* 20 (hash-table-count lines)))))))))

(defun gemini-companion-heavy--slow-to-parse-p ()
  "Return non-nil if tree-sitter takes long to parse the current buffer.
Nothing can interrupt it, so it gets more of the text only while it is quick."
  (when (fboundp 'treesit-parser-list)
    (cl-loop with begun = (get-internal-run-time)
             for end = 4000 then (* 2 end)
             do (save-restriction
                  (narrow-to-region (point-min) (min end (point-max)))
                  (mapc #'treesit-parser-root-node (treesit-parser-list)))
             while (< end (point-max))
             thereis (time-less-p (* 2 gemini-companion-heavy--max-time)
                                  (time-subtract (get-internal-run-time) begun)))))

(defun gemini-companion-heavy-compared-p (buffer)
  "Return non-nil if the current buffer is heavy in a way in which BUFFER is not."
  (let ((size (buffer-size))
        (long (gemini-companion-heavy--long-line-p))
        (repetitive (gemini-companion-heavy--repetitive-p)))
    (with-current-buffer buffer
      (save-restriction
        (widen)
        (or (> (- size (buffer-size)) gemini-companion-heavy--max-fontified)
            (and long (not (gemini-companion-heavy--long-line-p)))
            (and repetitive (not (gemini-companion-heavy--repetitive-p))))))))

(defun gemini-companion-heavy-replace-text (source)
  "Replace the text of the current buffer by that of the buffer SOURCE.
Keep markers where their text is: in lines that both texts have and, up to a
limit, in words that changed lines have in common.  Beyond it, keep their lines."
  (let* ((old (buffer-substring-no-properties (point-min) (point-max)))
         (new (with-current-buffer source (widen) (goto-char (point-min)) (buffer-string)))
         (regions (append (gemini-companion-heavy--regions old new) nil))
         (skip (lambda (lines) (with-current-buffer source (forward-line lines) (point))))
         (line 0)
         (compared 0)
         (inhibit-field-text-motion t)) ; for `line-end-position'
    (unless (eq buffer-undo-list t)
      (push (point) buffer-undo-list))  ; an undo goes back there
    (when regions
      ;; For some modes, such as Org mode, changes of the whole buffer take seconds.
      (combine-change-calls
          (max (point-min) (1- (gemini-companion-ui-line-start (1+ (aref (car regions) 0)))))
          (gemini-companion-ui-line-start (1+ (aref (car (last regions)) 1)))
        (save-excursion
          (pcase-dolist (`[,first ,last ,from ,to ,_ ,_ ,_] regions)
            ;; Up to this line, the texts are the same by now.
            (let* ((start (goto-char (funcall skip (- from line))))
                   (end (progn (forward-line (- last first)) (point)))
                   (stop (funcall skip (- to from))))
              (setq line to
                    compared (+ compared (- end start) (- stop start)))
              (if (and (< start (min end stop))
                       (/= last most-positive-fixnum) ; the module could compare the lines
                       (<= compared gemini-companion-heavy--max-compared))
                  (gemini-companion-heavy--replace-words start end source stop)
                (gemini-companion-heavy--replace-lines start end source stop))
              (with-current-buffer source (goto-char stop)))))))
    (when (bound-and-true-p undo-tree-mode)
      (gemini-companion-heavy--drop-undo-markers))))

(defun gemini-companion-heavy--regions (old new)
  "Return where the texts OLD and NEW differ; all of both if that is not known.
For the native module, a character and the raw bytes that encode it are the
same, but positions after them differ.  ASCII texts have neither."
  (cl-flet ((have (regexp) (or (string-match-p regexp old) (string-match-p regexp new))))
    (if (or (not (fboundp 'gemini-companion--mod-regions)) ; the mode has not been on
            (and (not (and (gemini-companion-change-ascii-p old)
                           (gemini-companion-change-ascii-p new)))
                 (have "[\x3fff80-\x3fffff]") (have "[\u0080-\x3fff7f]")))
        `[[0 ,most-positive-fixnum 0 ,most-positive-fixnum nil nil nil]]
      (gemini-companion-change-regions old new))))

(defun gemini-companion-heavy--drop-undo-markers ()
  "Remove markers from the list in the last entry of the undo list.
Undo Tree would save them, and could then not read its file."
  (pcase buffer-undo-list
    (`((apply . ,entry) . ,_)
     (let ((changes (last entry)))
       (setcar changes (seq-remove (lambda (it) (markerp (car-safe it))) (car changes)))))))

(defun gemini-companion-heavy--replace-lines (start end source stop)
  "Replace the lines from START to END by those from START to STOP of SOURCE."
  (goto-char start)
  (while (< (point) (min end stop))
    (let* ((bol (point))
           (old (line-end-position))
           (new (with-current-buffer source (goto-char bol) (line-end-position))))
      ;; Before the old text is deleted, so that markers at both of its ends stay there.
      (insert-buffer-substring source bol new)
      (delete-region (point) (+ (point) (- old bol)))
      (setq end (+ end (- new old)))
      (forward-line)))
  (setq start (min (point) stop))
  ;; Insert lines at the end of the line before, so that markers stay at the beginning of the next.
  (let ((shift (if (and (= start end) (eq ?\n (char-before start))
                        (eq ?\n (with-current-buffer source (char-before stop))))
                   1 0)))
    (goto-char (- start shift))
    (insert-buffer-substring source (- start shift) (- stop shift))
    (delete-region (point) (+ (point) (- end start)))))

(defun gemini-companion-heavy--replace-words (start end source stop)
  "Replace the words from START to END by those from START to STOP of SOURCE."
  (pcase-let* ((table (syntax-table))
               (parse-sexp-lookup-properties nil) ; Emacs would run code of the mode
               (`(,a . ,a-text) (gemini-companion-heavy-words start end))
               (`(,b . ,b-text) (with-current-buffer source
                                  (with-syntax-table table
                                    (gemini-companion-heavy-words start stop)))))
    (pcase-dolist (`[,a-start ,a-end ,b-start ,b-end ,_ ,_ ,_]
                   (reverse (append (gemini-companion-change-regions a-text b-text) nil)))
      (goto-char (aref a a-start))
      ;; As above.
      (insert-buffer-substring source (aref b b-start) (aref b b-end))
      (delete-region (point) (+ (point) (- (aref a a-end) (aref a a-start)))))))

(defun gemini-companion-heavy-words (start end)
  "Return the words from START to END: a vector of positions, and a text.
That has one word in each line, since the module compares lines."
  (goto-char start)
  (let ((positions nil) (tokens nil))
    (while (< (point) end)
      (let ((from (point)))
        (push from positions)
        (or (> (skip-syntax-forward "w_" end) 0)
            (> (skip-chars-forward " \t" end) 0)
            (forward-char))
        (push (string-replace "\n" "" (buffer-substring-no-properties from (point))) tokens)))
    (cons (vconcat (nreverse (cons end positions)))
          (concat (string-join (nreverse tokens) "\n") "\n"))))

;;;; Long lines

(defun gemini-companion-heavy--ascii-p ()
  "Return non-nil if the text of the current buffer is ASCII, as most texts are."
  (= (position-bytes (point-max)) (point-max)))

(defun gemini-companion-heavy--slow-to-reorder-p ()
  "Return non-nil if a line of over 1000 characters has some from right to left.
Emacs takes 10 s to reorder 100 lines of 9000 such characters."
  (unless (gemini-companion-heavy--ascii-p)
    (save-excursion
      (goto-char (point-min))
      (save-match-data
        (cl-loop while (gemini-companion-heavy--next-long-line 1000)
                 thereis (re-search-forward "\\cR"
                                            (min (+ (point) gemini-companion-heavy--max-line)
                                                 (line-end-position))
                                            t)
                 do (forward-line))))))

(defun gemini-companion-heavy-show-hidden ()
  "Show `gemini-companion-ui-hidden-characters' by their codes.
With them, a program can look like one that does something else.  Do not
reorder text that has some: a screen of U+2068 would take Emacs minutes."
  (when (and (not (gemini-companion-heavy--ascii-p))
             (save-excursion
               (goto-char (point-min))
               (save-match-data
                 (re-search-forward (gemini-companion-ui-hidden-regexp "") nil t))))
    (setq-local bidi-display-reordering nil
                auto-composition-mode nil ; it would hide some in the character before
                glyphless-char-display (copy-sequence glyphless-char-display))
    (dolist (range gemini-companion-ui-hidden-characters)
      (set-char-table-range glyphless-char-display range 'hex-code))))

(defun gemini-companion-heavy-shorten-lines ()
  "Hide the ends of lines that are too long.  \\[visible-mode] shows them.
Show what cannot be seen, too.  Return non-nil if a line is too long."
  (gemini-companion-heavy-show-hidden)
  (when (gemini-companion-heavy--slow-to-reorder-p)
    (setq-local bidi-display-reordering nil))
  (let ((found nil))
    (save-excursion
      (goto-char (point-min))
      (while (gemini-companion-heavy--next-long-line gemini-companion-heavy--max-line)
        (setq found t)
        ;; These are slow there.
        (setq-local bidi-display-reordering nil
                    auto-composition-mode nil
                    truncate-lines t
                    word-wrap nil)
        (gemini-companion-heavy--hide (+ (point) gemini-companion-heavy--max-line)
                                      (line-end-position))
        (forward-line)))
    found))

(defun gemini-companion-heavy--hide (start end)
  "Show how many characters there are from START to END, in place of them."
  (when (< start end)
    (let ((overlay (make-overlay start end))
          (note (propertize (format " … %s%s"
                                    (gemini-companion-ui-count (- end start) "more character")
                                    (if (memq (char-after end) '(nil ?\n)) "" " … "))
                            'face 'warning)))
      (overlay-put overlay 'evaporate t)
      ;; Emacs 30 takes seconds to pass 5 MB that are invisible, but not 5 MB with this property.
      (overlay-put overlay 'display `(when buffer-invisibility-spec . ,note)))))

(defun gemini-companion-heavy-difference (buffer start end other from to)
  "Return where the text from START to END of BUFFER differs from that of OTHER.
That is from FROM to TO.  The value is a cons of the first positions in both;
if a line is hidden there, show that part of it in place of the one before."
  (with-current-buffer buffer
    (gemini-companion-ui-widened
      (with-current-buffer other
        (gemini-companion-ui-widened
          (let* ((case-fold-search nil)
                 (same (max 0 (1- (abs (compare-buffer-substrings
                                        buffer start end other from to))))))
            (gemini-companion-heavy--reveal (+ from same))
            (with-current-buffer buffer
              (gemini-companion-heavy--reveal (+ start same)))
            (cons (+ start same) (+ from same))))))))

(defun gemini-companion-heavy--reveal (position)
  "If the line at POSITION is hidden there, show that part of it."
  (save-excursion
    (goto-char position)
    ;; One line may be the beginning of the other.
    (pcase (get-char-property-and-overlay (if (and (eolp) (not (bobp))) (1- position) position)
                                          'display)
      (`((when buffer-invisibility-spec . ,_) . ,overlay)
       (delete-overlay overlay)
       ;; So little that no window must scroll sideways.  If a line began with the note, Emacs would
       ;; not show its prefix, which may be a sign in the margin.
       (gemini-companion-heavy--hide (+ (line-beginning-position) 5) (- position 20))
       (gemini-companion-heavy--hide (+ position gemini-companion-heavy--max-line)
                                     (line-end-position))))))

;;;; Fontification in parts

(defvar-local gemini-companion-heavy-step-hook nil
  "Hook run in a buffer after each step in which some of it was fontified.")
(put 'gemini-companion-heavy-step-hook 'permanent-local t)

(defun gemini-companion-heavy-fontify-in-steps (give-up)
  "Fontify the current buffer, which is not heavy, from its start on, in steps.
If that is slow, or fails, call the function GIVE-UP in the buffer."
  (font-lock-mode 1)
  ;; So that redisplay does not.
  (with-silent-modifications
    (put-text-property (point-min) (point-max) 'fontified t))
  (gemini-companion-heavy--step (current-buffer) (copy-marker (point-min)) 0 give-up))

(defun gemini-companion-heavy--step (buffer position slow give-up)
  "Fontify BUFFER from the marker POSITION on for a moment; go on after a pause.
If too many parts take too long, now SLOW ones, call GIVE-UP."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (let ((end (+ (float-time) (/ gemini-companion-heavy--max-time 4)))
            (unfinished (lambda () (and font-lock-mode (< position (point-max))))))
        (while (and (not quit-flag) (funcall unfinished) (< (float-time) end) (<= slow 2))
          (unless (gemini-companion-heavy--fontify-part position)
            (cl-incf slow)))
        (gemini-companion-log-run-hook 'gemini-companion-heavy-step-hook)
        (cond ((> slow 2)               ; the first one may have loaded libraries
               (gemini-companion-log-add "%s is not fontified: %s is too slow, or fails"
                                         (buffer-name) major-mode)
               (funcall give-up))
              ((funcall unfinished)
               ;; A key waits for a step, so take fewer while the user types.
               (run-at-time (if (gemini-companion-ui-idle-p 0.3) 0.01 0.2) nil
                            #'gemini-companion-heavy--step buffer position slow give-up)))))))

(defun gemini-companion-heavy--fontify-part (position)
  "Fontify some lines of the current buffer from the marker POSITION on; move that.
Return nil if that has taken too long, or failed."
  (let ((begun (get-internal-run-time)) ; on a busy machine, any mode takes long by the clock
        (start (marker-position position)))
    (gemini-companion-ui-widened        ; Font Lock may move point
      ;; Some modes take seconds for ten times as much.
      (goto-char (min (point-max) (+ start 500)))
      (set-marker position (line-beginning-position 2))
      (gemini-companion-log-errors "fontification"
        ;; In a large Emacs, a collection takes long, whatever the mode.
        (gemini-companion-ui-delay-gc
          ;; The timer must go on after a quit, or a key in `while-no-input'.
          (let ((throw-on-input nil)
                ;; CC mode would have redisplay fontify all places of a type that it finds.
                (font-lock-support-mode nil))
            ;; Not with a marker: tree-sitter modes with ranges, such as that of C, would fail.
            (with-local-quit (font-lock-fontify-region start (marker-position position))))
          (time-less-p (time-subtract (get-internal-run-time) begun)
                       gemini-companion-heavy--max-time))))))

(provide 'gemini-companion-heavy)
;;; gemini-companion-heavy.el ends here

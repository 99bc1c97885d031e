;;; gemini-companion-file.el --- Files as bytes -*- lexical-binding: t; -*-

;; Copyright (C) 2026 The gemini-companion authors

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Reads and writes files as bytes, and knows which buffer visits one.
;;
;; A file on a host is not read: its client reports what it contains, and that is remembered, in
;; bounded number and size.  Only what reads a file as named, or writes one, while the user waits,
;; asks a host for anything, or lets Tramp's handlers see a name.

;;; Code:

(eval-when-compile (require 'cl-lib))
(require 'gemini-companion-change)
(require 'gemini-companion-host)
(require 'gemini-companion-log)
(require 'gemini-companion-ui)

(declare-function tramp-dissect-file-name "tramp")
(declare-function tramp-flush-file-properties "tramp-cache")
(declare-function tramp-get-connection-property "tramp-cache")
(declare-function tramp-tramp-file-p "tramp")

;;;; What is known of files on hosts

(defconst gemini-companion-file--max-states 100
  "Number of files that are remembered for each host.")

(defvar gemini-companion-file--max-size (* 256 1024 1024)
  "Maximum number of bytes that are remembered for each host.")

(cl-defstruct (gemini-companion-file--state (:copier nil))
  "What is known of a file on a host."
  (host nil :documentation "The prefix of the host.")
  (bytes nil :documentation "Its contents, nil if there is no file, or `unreadable'.")
  (stamp nil :documentation "A string that changes when the file is written.")
  (modified nil :documentation "When it was written, in seconds since 1970, or nil."))

(defvar gemini-companion-file--states nil
  "What is known of files on hosts, an alist by their names in Emacs, newest first.")

(defun gemini-companion--handle-host-file (path bytes stamp modified)
  "Remember that the file PATH, on a host, contains BYTES.
BYTES are nil if there is no file, and `unreadable' if they are not known.
STAMP is a string that changes when the file is written, and MODIFIED the
time at which it was written, in seconds since 1970; nil without a file."
  (if (not (gemini-companion-file--on-host-p path))
      (gemini-companion-log-add "a client reported a file that is on no host: %s"
                                (gemini-companion-file--shorten path))
    (gemini-companion-file-note path bytes stamp modified)))

(defun gemini-companion-file--on-host-p (path)
  "Return non-nil if PATH is the proper name of a file on a host that is served."
  (when-let* ((host (gemini-companion-host-of-name path))
              (name (gemini-companion-host-local-name host path)))
    (and (string-prefix-p "/" name)
         (not (string-match-p "\0\\|/\\(?:\\.\\.?\\)?\\(?:/\\|\\'\\)" name)))))

(defun gemini-companion-file-note (path bytes stamp modified)
  "Remember that the file PATH, on a host, contains BYTES.
These, STAMP and MODIFIED are as in the event `host-file'."
  (let* ((before (gemini-companion-file-known path))
         (host (or (gemini-companion-file-host path)
                   ;; See `gemini-companion-file--flush'.
                   (let ((file-name-handler-alist (copy-sequence file-name-handler-alist)))
                     (file-remote-p path))))
         (stamp (and bytes (or stamp ""))))
    (unless (and before (equal stamp (gemini-companion-file--state-stamp before)))
      (gemini-companion-file--flush path host))
    (setf (alist-get path gemini-companion-file--states nil 'remove #'equal) nil)
    (push (cons path (make-gemini-companion-file--state
                      :host host :stamp stamp
                      :bytes (if (and (stringp bytes)
                                      (length> bytes gemini-companion-file--max-size))
                                 'unreadable
                               bytes)
                      :modified (and (integerp modified) (<= 0 modified (expt 2 40)) modified)))
          gemini-companion-file--states)
    (gemini-companion-file--limit host)))

(defun gemini-companion-file-known (path)
  "Return what a host has reported of the file PATH, or nil."
  (cdr (assoc path gemini-companion-file--states)))

(defun gemini-companion-file--limit (host)
  "Forget files on HOST, a prefix, that exceed the limits, the oldest first."
  (setq gemini-companion-file--states
        (cl-loop for (path . state) in gemini-companion-file--states
                 for bytes = (gemini-companion-file--state-bytes state)
                 for own = (equal host (gemini-companion-file--state-host state))
                 count own into files
                 sum (if (and own (stringp bytes)) (length bytes) 0) into size
                 if (or (not own)
                        (and (<= files gemini-companion-file--max-states)
                             (<= size gemini-companion-file--max-size)))
                 collect (cons path state))))

(defun gemini-companion-file--flush (path host)
  "Make Tramp, if loaded, forget what it knows of the file PATH on HOST, a prefix."
  (when-let* ((name (gemini-companion-file--dissect path)))
    (gemini-companion-log-errors "properties of a remote file"
      ;; Tramp's handler for archives must not see the name: in Emacs 28, it would remove other
      ;; handlers from the list for good, such as that for encryption.
      (let ((file-name-handler-alist nil))
        (tramp-flush-file-properties name (string-remove-prefix host path))))))

(defun gemini-companion-file--dissect (path)
  "Return the parts of PATH, a file on a host, as Tramp has them.
Return nil if Tramp is not loaded, or takes PATH for no remote name."
  (let (;; Otherwise Tramp would wait 30 seconds after an error, for the user to read it.
        (non-essential t))
    (and (featurep 'tramp)
         (tramp-tramp-file-p path)
         (gemini-companion-log-errors "the name of a remote file"
           (tramp-dissect-file-name path)))))

(defun gemini-companion-file-forget-all ()
  "Forget all files on hosts."
  (setq gemini-companion-file--states nil))

;;;; Names

(defun gemini-companion-file-host (path)
  "Return the prefix of the host that the file PATH is on, nil if it is local.
What is known of PATH decides this even after its host was closed."
  (if-let* ((state (gemini-companion-file-known path)))
      (gemini-companion-file--state-host state)
    (when-let* ((host (gemini-companion-host-of-name path)))
      (gemini-companion-host-prefix host))))

(defun gemini-companion-file-title (path prefix)
  "Return a short name for PATH, on the host with PREFIX: \"build:src/a.c\".
In a workspace root it is relative to that."
  (let* ((name (string-remove-prefix prefix path))
         (host (gemini-companion-host-named prefix))
         (root (and host (car (gemini-companion-host-roots-of host name)))))
    (concat (gemini-companion-host-title prefix) ":"
            (gemini-companion-file--shorten
             (if root (string-remove-prefix (file-name-as-directory root) name) name)))))

(defun gemini-companion-file-short-title (path prefix)
  "Return the name of the file PATH without its directory, for the user.
PREFIX is that of the host that it is on, or nil."
  (concat (and prefix (concat (gemini-companion-host-title prefix) ":"))
          (gemini-companion-file--shorten (gemini-companion-file-nondirectory path))))

(defun gemini-companion-file--shorten (name)
  "Return the file NAME, or the last 200 characters, as text that can be shown."
  (gemini-companion-ui-one-line
   (if (length> name 200) (concat "…" (substring name -200)) name)))

(defun gemini-companion-file-nondirectory (path)
  "Return the name of the file PATH without its directory; call no handlers."
  (let ((file-name-handler-alist nil))
    (file-name-nondirectory path)))

(defun gemini-companion-file-abbreviate (path)
  "Return PATH abbreviated for the user, without asking a host for directories."
  (let ((file-name-handler-alist nil))
    (abbreviate-file-name path)))

(defun gemini-companion-file-real-name (file)
  "Return FILE, a name from a client, without symbolic links; ask no host."
  (let ((file-name-handler-alist nil))
    (file-truename file)))

(defun gemini-companion-file-in-repository-p (file)
  "Return non-nil if FILE is in a repository of Git, not in a working tree there.
In its directory, Git runs programs that its configuration names."
  (let* ((has (lambda (directory &rest names)
                (seq-every-p (lambda (it) (file-exists-p (expand-file-name it directory))) names)))
         (top (locate-dominating-file file (lambda (it)
                                             (or (funcall has it ".git")
                                                 (funcall has it "HEAD" "commondir")
                                                 (funcall has it "HEAD" "objects/" "refs/"))))))
    (and top (not (funcall has top ".git")))))

(defun gemini-companion-file-truename (buffer)
  "Return the name without symbolic links of the file that BUFFER visits."
  (let ((file (buffer-local-value 'buffer-file-name buffer))
        (truename (buffer-local-value 'buffer-file-truename buffer))
        (file-name-handler-alist nil))
    (cond ((not truename) file)
          ((string-prefix-p "~" truename) (expand-file-name truename))
          ((gemini-companion-file--expand-home truename))
          (t truename))))

(defun gemini-companion-file--expand-home (truename)
  "Return TRUENAME, of a file on a host, with its home directory expanded.
Return nil unless Tramp has abbreviated it, and remembers the directory."
  (when-let* ((host (gemini-companion-host-of-name truename))
              (prefix (gemini-companion-host-prefix host))
              (name (string-remove-prefix prefix truename))
              ((string-prefix-p "~/" name))
              (parts (gemini-companion-file--dissect truename))
              (home (tramp-get-connection-property parts "~" nil))
              ((stringp home)))
    (concat prefix (directory-file-name home) (substring name 1))))

;;;; Buffers

(defun gemini-companion-file-visiting (path)
  "Return the buffer that visits the file PATH, or nil."
  (if-let* ((prefix (gemini-companion-file-host path)))
      (cl-loop for buffer in (buffer-list)
               for file = (buffer-local-value 'buffer-file-name buffer)
               if (and file
                       (or (equal file path)
                           (and (string-prefix-p prefix file)
                                (equal (gemini-companion-file-truename buffer) path))))
               return buffer)
    (let* ((file-name-handler-alist nil)
           (buffer (find-buffer-visiting path)))
      ;; Polymode says that indirect buffers visit the file, too.
      (or (and buffer (buffer-base-buffer buffer))
          buffer))))

(defun gemini-companion-file-agrees-p (path buffer &optional exactly)
  "Return non-nil if the file PATH was not written since BUFFER read or wrote it.
On a host, times less than two seconds apart are the same, as for Tramp,
unless EXACTLY is non-nil."
  (if (not (gemini-companion-file-host path))
      (verify-visited-file-modtime buffer)
    (let ((visited (gemini-companion-file-visited-time buffer))
          (modified (gemini-companion-file--state-modified
                     (gemini-companion-file--state-of path))))
      (or (eql 0 (with-current-buffer buffer (visited-file-modtime))) ; not known
          (not modified)
          (and visited (< (abs (- visited modified)) (if exactly 1 2)))))))

(defun gemini-companion-file-newer-in-p (path buffer)
  "Return non-nil if BUFFER has newer text of PATH than its host reported."
  (let ((visited (gemini-companion-file-visited-time buffer))
        (modified (gemini-companion-file--state-modified
                   (gemini-companion-file--state-of path))))
    (and visited modified (>= (- visited modified) 2))))

(defun gemini-companion-file-visited-time (buffer)
  "Return when the file of BUFFER was written, as far as Emacs knows.
The value is in seconds since 1970, nil if the file did not exist."
  (let ((time (with-current-buffer buffer (visited-file-modtime))))
    (unless (integerp time)
      (let ((seconds (float-time time)))
        ;; For a file that does not exist, Tramp has the time -1.
        (and (>= seconds 0) seconds)))))

(defun gemini-companion-file-decrypted-p ()
  "Return non-nil if a package has decrypted some text of the current buffer."
  (or (local-variable-p 'epa-file-encrypt-to) ; many users set it for all files
      (bound-and-true-p ansible-vault-mode)
      (memq 'sops-file buffer-file-format)
      (bound-and-true-p plstore-encoded) ; when they are decoded
      ;; This may take 0.2 s in a text of megabytes.
      (and (featurep 'org-crypt)
           (buffer-modified-p)
           (derived-mode-p 'org-mode)
           (gemini-companion-ui-widened ; of one entry
             (text-property-not-all (point-min) (point-max) 'org-crypt-text nil)))))

(defun gemini-companion-file-converted-p (path buffer)
  "Return non-nil if BUFFER, which visits the file PATH, does not show its text.
It may show a hex dump, for instance, or what was decrypted with a passphrase."
  (with-current-buffer buffer
    (or buffer-file-format
        (gemini-companion-file-decrypted-p)
        (local-variable-p 'revert-buffer-function)
        (local-variable-p 'revert-buffer-insert-file-contents-function)
        (bound-and-true-p auto-revert-tail-mode) ; it would append the same text once more
        ;; Code-cells shows notebooks as programs.
        (memq 'code-cells-write-ipynb (ensure-list write-file-functions))
        (find-file-name-handler
         (string-remove-prefix (or (gemini-companion-file-host path) "") buffer-file-name)
         'insert-file-contents))))

;;;; Reading and writing

(defvar gemini-companion-file-largest (* 64 1024 1024)
  "Number of bytes of the largest file that is read.
`gemini-companion-mode' makes this the size of the largest message: no
client can propose a longer text.")

(defun gemini-companion-file-read (path)
  "Return the contents of the file PATH as bytes.
Return nil if it cannot be read, or is too large: timers read files."
  (if-let* ((state (gemini-companion-file--state-of path)))
      (let ((bytes (gemini-companion-file--state-bytes state)))
        (and (stringp bytes) bytes))
    (let ((file-name-handler-alist nil))
      (ignore-errors
        (unless (gemini-companion-file--unreadable-p path)
          (gemini-companion-file-read-as-named path))))))

(defun gemini-companion-file--unreadable-p (path)
  "Return non-nil if the local file PATH is not regular, or is too large."
  (or (not (file-regular-p path))
      (> (file-attribute-size (file-attributes (file-truename path)))
         gemini-companion-file-largest)))

(defun gemini-companion-file-read-as-named (path)
  "Return the contents of the file PATH as bytes, or signal an error.
PATH may be remote, if its handlers are bound."
  (with-temp-buffer
    (set-buffer-multibyte nil)
    (insert-file-contents-literally path)
    (buffer-string)))

(defun gemini-companion-file--state-of (path)
  "Return what is known of the file PATH if it is on a host, else nil."
  (or (gemini-companion-file-known path)
      (when-let* ((prefix (gemini-companion-file-host path)))
        (make-gemini-companion-file--state :host prefix :bytes 'unreadable :stamp 'unknown))))

(defun gemini-companion-file-exists-p (path)
  "Return non-nil if there is a file PATH, or if only its host knows that."
  (if-let* ((state (gemini-companion-file--state-of path)))
      (and (gemini-companion-file--state-bytes state) t)
    (let ((file-name-handler-alist nil))
      (file-exists-p path))))

(defun gemini-companion-file-insert (path)
  "Insert the file PATH at point, decoded as by `insert-file-contents'."
  (if (not (gemini-companion-file-host path))
      (if (gemini-companion-file--unreadable-p path)
          (error "%s is too large, or not a regular file" path)
        (insert-file-contents path))
    (let ((start (point))
          ;; Decoding looks at the name, too.
          (file-name-handler-alist nil))
      (insert (or (gemini-companion-file-read path)
                  (error "The contents of %s are unknown" path)))
      (decode-coding-inserted-region start (point) path))))

(defun gemini-companion-file-write (path bytes)
  "Write BYTES to the file PATH; if they are nil, delete it.
An existing file is replaced as by `gemini-companion-file-replace'.  Use
handlers of file names: PATH may be remote."
  (when (and (file-exists-p path) (not (file-regular-p path)))
    (error "%s is not a regular file" path))
  (if (not bytes)
      (delete-file (file-truename path) t)
    (make-directory (file-name-directory path) t)
    (gemini-companion-file-replace path bytes)))

;;;; Replacing files

(defun gemini-companion-file-replace (file bytes &optional modes check)
  "Make BYTES the contents of FILE, so that nothing is lost if that fails.
Write them to another file, and rename that once it is complete.  With
MODES, FILE becomes a new file with these modes.  Otherwise an existing file
keeps its owner, modes and other names, and symbolic links are followed.
Call CHECK just before FILE changes; it may signal an error.  Use handlers
of file names."
  (let* ((create-lockfiles nil)
         (file (if modes (expand-file-name file) (file-truename file)))
         (kept (and (not modes) (file-exists-p file)))
         (check (or check #'ignore)))
    ;; Renaming would replace it if only its directory is writable.
    (when (and kept (not (file-writable-p file)))
      (signal 'file-error (list "Writing a file" "Permission denied" file)))
    (if (or (not kept) (file-writable-p (file-name-directory file)))
        (gemini-companion-file--replace-by-new file bytes modes kept check)
      (funcall check)
      (gemini-companion-file--write-over file bytes))))

(defun gemini-companion-file--replace-by-new (file bytes modes kept check)
  "Write BYTES to a new file, and rename it to FILE, or else write to FILE itself.
MODES and CHECK are as in `gemini-companion-file-replace'; if KEPT is non-nil,
FILE must keep its owner and other names."
  (let* ((name (file-name-nondirectory file))
         (new (make-temp-file
               ;; Names cannot be arbitrarily long.
               (expand-file-name (concat (substring name 0 (min (length name) 60)) ".")
                                 (file-name-directory file)))))
    (unwind-protect
        (progn
          (when kept
            ;; Some file systems have no modes, such as drives of Windows in WSL.
            (ignore-error file-error (copy-file file new t nil t t)))
          (gemini-companion-file--write-bytes bytes new)
          (unless kept
            (ignore-error file-error
              (set-file-modes new (or modes (logand #o666 (default-file-modes))))))
          (funcall check)
          (cond ((not kept) (rename-file new file t))
                ((and (gemini-companion-file--alike-p new file)
                      ;; A file that is mounted by itself, as in a container, cannot be replaced.
                      (ignore-error file-error
                        (rename-file new file t)
                        t)))
                (t (gemini-companion-file--write-over file bytes))))
      (when (file-exists-p new)
        (delete-file new)))))

(defun gemini-companion-file--write-bytes (bytes file)
  "Write BYTES to FILE, without hooks."
  (with-temp-buffer
    (let ((coding-system-for-write 'no-conversion)
          (write-region-annotate-functions nil)
          (write-region-post-annotation-function nil)
          ;; It must be on the disk before it is renamed.
          (write-region-inhibit-fsync nil)
          ;; With its own name, Emacs would ask whether to edit a buffer that visits the file, and
          ;; would release the lock of one with unsaved edits.
          (lock (make-temp-name (expand-file-name "gc-" temporary-file-directory))))
      (write-region bytes nil file nil 'quiet lock))))

(defun gemini-companion-file--alike-p (new file)
  "Return non-nil if NEW has the owner and modes of FILE, and that has one name."
  (let ((attributes (file-attributes file))
        (new (file-attributes new)))
    (and (= 1 (file-attribute-link-number attributes))
         (equal (file-attribute-modes attributes) (file-attribute-modes new))
         (equal (file-attribute-user-id attributes) (file-attribute-user-id new))
         (equal (file-attribute-group-id attributes) (file-attribute-group-id new)))))

(defun gemini-companion-file--write-over (file bytes)
  "Write BYTES to FILE, which exists, and has its old contents if that fails."
  (let* (;; Private, since only its own directory may protect FILE.
         (directory (make-temp-file "gemini-companion-old-" t))
         (old (concat (file-name-as-directory directory) (file-name-nondirectory file)))
         (needed nil))
    (unwind-protect
        (progn
          (copy-file file old)
          (setq needed t)
          (gemini-companion-file--write-bytes bytes file)
          (setq needed nil))
      (when needed
        (condition-case nil
            (copy-file old file t)
          (error (error "Cannot write %s; its old contents are in %s" file old))))
      (delete-directory directory t))))

;;;; When files were written

(defun gemini-companion-file-stamp (path)
  "Return a value that changes when the file PATH is written, nil without a file."
  (if-let* ((state (gemini-companion-file--state-of path)))
      (gemini-companion-file--state-stamp state)
    (let* ((file-name-handler-alist nil)
           (attributes (file-attributes path))
           ;; A write changes the target of a link, not the link.
           (attributes (if (stringp (file-attribute-type attributes))
                           (ignore-errors (file-attributes (file-truename path)))
                         attributes)))
      ;; Never open anything but a regular file: Emacs would wait for a FIFO.
      (and attributes
           (eq ?- (aref (file-attribute-modes attributes) 0))
           (list (file-attribute-modification-time attributes)
                 (file-attribute-size attributes)
                 (file-attribute-inode-number attributes))))))

(defun gemini-companion-file-modtime (path)
  "Return when the file PATH was written, for `set-visited-file-modtime'."
  (if-let* ((state (gemini-companion-file--state-of path)))
      (let ((modified (gemini-companion-file--state-modified state)))
        (if modified (time-convert modified 'list) 0))
    (file-attribute-modification-time (file-attributes (file-truename path)))))

;;;; Encoding

(defun gemini-companion-file-encode (text base)
  "Return TEXT as bytes for a file that contained BASE, bytes or nil.
Line ends and a byte order mark stay as they were."
  (let* ((base (if (stringp base) base ""))
         (dos (and (string-search "\r\n" base) (not (string-search "\r\n" text))))
         (mark (unibyte-string #xef #xbb #xbf))
         (bytes (encode-coding-string text (if dos 'utf-8-dos 'utf-8-unix) t)))
    (if (and (string-prefix-p mark base) (not (string-prefix-p mark bytes)))
        (concat mark bytes)
      bytes)))

(defun gemini-companion-file-plain (text)
  "Return TEXT without a byte order mark, and with LF line ends."
  (string-replace "\r\n" "\n" (string-remove-prefix "\ufeff" text)))

(defun gemini-companion-file-same-p (one other)
  "Return non-nil if the texts ONE and OTHER differ at most by a final newline.
Gemini CLI restores that of a file, whatever text it was sent."
  (equal (string-remove-suffix "\n" one) (string-remove-suffix "\n" other)))

(defun gemini-companion-file-written-p (path text &optional loosely)
  "Return non-nil if the file PATH contains TEXT, as a client writes it.
If LOOSELY is non-nil, a final newline does not matter."
  (when-let* ((bytes (gemini-companion-file-read path)))
    (gemini-companion-file-text-p path bytes text loosely)))

(defun gemini-companion-file-text-p (path bytes text &optional loosely)
  "Return non-nil if BYTES, contents of the file PATH, are TEXT from a client.
Qwen Code keeps the coding system of the file.  For LOOSELY, see
`gemini-companion-file-written-p'."
  (funcall (if loosely #'gemini-companion-file-same-p #'equal)
           (gemini-companion-file-plain (gemini-companion-change-decode path bytes text))
           (gemini-companion-file-plain text)))

(provide 'gemini-companion-file)
;;; gemini-companion-file.el ends here

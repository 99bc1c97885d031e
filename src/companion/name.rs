//! Names of files, as clients write them.

/// The longest name that a system accepts.
const MAX_LENGTH: usize = 4096;

/// Why `path` cannot be the name of a file of this machine, if it cannot be, whether there is such a
/// file or not. The reason completes a sentence that begins with the name.
pub fn fault(path: &str) -> Option<String> {
    fault_anywhere(path).or_else(|| {
        if !std::path::Path::new(path).is_absolute() {
            return Some("must be absolute".to_owned());
        }
        component_fault(path, std::path::is_separator)
    })
}

/// Why `path` cannot be the name of a file on a host. After the host's prefix it must not lead Emacs
/// anywhere else.
pub fn fault_on_host(path: &str) -> Option<String> {
    if path.contains(char::is_control) {
        return Some("contains control characters, with which Tramp cannot name a file".to_owned());
    }
    if path.starts_with("/~") {
        return Some("begins with \"~\", which Emacs would take for a home directory".to_owned());
    }
    if !path.starts_with('/') {
        return Some("must be absolute".to_owned()); // also if this machine has other rules
    }
    fault_anywhere(path).or_else(|| component_fault(path, |it| it == '/'))
}

fn fault_anywhere(path: &str) -> Option<String> {
    if path.len() > MAX_LENGTH {
        return Some(format!("is longer than {MAX_LENGTH} bytes"));
    }
    if path.contains('\0') {
        return Some("contains a NUL character".to_owned());
    }
    is_remote(path)
        .then(|| "looks like a remote name of Emacs: only local files can be reviewed".to_owned())
}

/// The fault of an absolute name, if it has a component by which it may name another file to Emacs than
/// to the system.
fn component_fault(path: &str, is_separator: fn(char) -> bool) -> Option<String> {
    let mut names = path[1..].split(is_separator).peekable();
    while let Some(name) = names.next() {
        match name {
            "" if names.peek().is_none() => return Some("is a directory".to_owned()),
            "" => return Some("must not contain \"//\"".to_owned()),
            "." | ".." => return Some(format!("must not contain {name:?}")),
            _ => {}
        }
    }
    None
}

/// Whether Emacs could take `path` for the name of a remote file, or for a quoted name. Depending
/// on `tramp-syntax` that is `/METHOD:HOST:...`, `/HOST:...` or `/[METHOD/HOST]...`; quoted,
/// `/:...`.
fn is_remote(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    path.starts_with('/') && (first.contains(':') || first.starts_with('['))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_on_a_host_leads_elsewhere() {
        for path in ["/home/me/a.txt", "/a", "/a b/\"c\"/ä", "/a~", "/dir/x|ssh:evil:/y"] {
            assert_eq!(fault_on_host(path), None, "{path}");
        }
        for path in [
            "",
            "a.txt",
            "C:\\a",
            "~/a",
            "/~/a",
            "/~root/a",
            "/:/a",
            "/ssh:evil:/a",
            "/a|ssh:evil:/a",
            "/[ssh/evil]/a",
            "//a",
            "/a//b",
            "/a/../b",
            "/../b",
            "/a/.",
            "/a/",
            "/",
            "/a\0b",
            "/a\nb",
        ] {
            assert!(fault_on_host(path).is_some(), "{path}");
        }
        assert!(fault_on_host(&"/a".repeat(MAX_LENGTH)).is_some());
    }
}

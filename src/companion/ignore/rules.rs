//! The lines of an ignore file, by the rules of gitignore.

use super::glob::{Budget, Glob, Path, TooCostly};

/// The lines in their order: the last that matches decides.
pub struct Rules(Vec<Rule>);

struct Rule {
    glob: Glob,
    /// It is negated by "!": it excepts files that earlier lines name.
    is_exception: bool,
    only_directories: bool,
}

impl Rules {
    pub fn parse(text: &[u8]) -> Rules {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        Rules(text.split(|&byte| byte == b'\n').filter_map(Rule::parse).collect())
    }

    /// Whether they name a file, or a directory above it, in which nothing can be excepted. The
    /// path is relative, with slashes.
    pub fn name(&self, path: &[u8], budget: &mut Budget) -> Result<bool, TooCostly> {
        let path = Path::new(path);
        // Which directories, by the length of their names, and whether the file.
        let mut excepted = vec![false; path.name.len() + 1];
        for rule in self.0.iter().rev() {
            let mut is_named = false;
            rule.glob.find(&path, budget, |length| {
                let is_file = length == path.name.len();
                if excepted[length] || is_file && rule.only_directories {
                    // A later line has decided, or this one is not about files.
                } else if rule.is_exception {
                    excepted[length] = true;
                } else {
                    is_named = true;
                }
            })?;
            if is_named {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Rule {
    /// `None` if the line matches nothing.
    fn parse(line: &[u8]) -> Option<Rule> {
        if line.starts_with(b"#") {
            return None;
        }
        let line = without_trailing_spaces(line.strip_suffix(b"\r").unwrap_or(line));
        let (line, is_exception) = strip(line.strip_prefix(b"!"), line);
        let (line, only_directories) = strip(line.strip_suffix(b"/"), line);
        let floats = !line.contains(&b'/');
        let line = line.strip_prefix(b"/").unwrap_or(line);
        if line.is_empty() {
            return None;
        }
        Some(Rule { glob: Glob::parse(line, floats)?, is_exception, only_directories })
    }
}

/// What is left if something was stripped, or else the whole, and whether it was.
fn strip<'a>(stripped: Option<&'a [u8]>, whole: &'a [u8]) -> (&'a [u8], bool) {
    (stripped.unwrap_or(whole), stripped.is_some())
}

/// A backslash keeps the space behind it.
fn without_trailing_spaces(line: &[u8]) -> &[u8] {
    let count = |line: &[u8], wanted| line.iter().rev().take_while(|&&byte| byte == wanted).count();
    let kept = line.len() - count(line, b' ');
    let is_escaped = count(&line[..kept], b'\\') % 2 == 1;
    &line[..line.len().min(kept + usize::from(is_escaped))]
}

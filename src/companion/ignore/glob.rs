//! Globs as in Git. The work to match one is bounded by the lengths of glob and path.
//!
//! A glob is a sequence of tokens. The path is read byte by byte, with the set of tokens that may
//! come next; each byte replaces a member of the set by itself, its successor, or nothing. There is
//! no backtracking, and the set is never larger than the glob. Most globs fail before that: they
//! end with bytes with which no name in the path ends.

use super::class::Class;

pub struct Glob(Box<[Part]>);

enum Part {
    /// This byte; a letter is in lower case.
    Byte(u8),
    /// One byte of `[a-z]`, or of `?`.
    Class(Box<Class>),
    /// Any part of a name: `*`.
    Name,
    /// Any number of directories: `**/`.
    Directories,
    /// Any part of a path: a `**` that nothing follows.
    Path,
}

/// Indices of the tokens that may come next, ascending; the length of the glob stands for its end.
type Expected = Vec<usize>;

/// A relative name of a file, in lower case.
pub struct Path {
    pub name: Vec<u8>,
    /// How long each directory in it is, and all of it.
    ends: Vec<usize>,
}

impl Path {
    pub fn new(name: &[u8]) -> Path {
        let ends = memchr::memchr_iter(b'/', name).chain([name.len()]).collect();
        Path { name: name.to_ascii_lowercase(), ends }
    }
}

/// How much work is left; matching one token against one byte is 1.
pub struct Budget(pub usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooCostly;

impl Budget {
    fn spend(&mut self, work: usize) -> Result<(), TooCostly> {
        self.0 = self.0.checked_sub(work).ok_or(TooCostly)?;
        Ok(())
    }
}

impl Glob {
    /// Parse a glob that fits whole paths or, if it `floats`, their last parts. `None` if it is
    /// malformed, for then it fits nothing.
    pub fn parse(text: &[u8], floats: bool) -> Option<Glob> {
        let mut tokens = Vec::new();
        if floats {
            tokens.push(Part::Directories);
        }
        let first_wildcard = text.iter().position(|byte| b"*?[\\".contains(byte));
        let mut at = 0;
        while at < text.len() {
            // For Git a name begins also at the first wildcard: it compares what is before that on
            // its own. What floats is a single name.
            let begins_name = !floats && (text[..at].ends_with(b"/") || Some(at) == first_wildcard);
            let (token, length) = Part::parse(&text[at..], begins_name)?;
            // A second one in a row adds nothing but work.
            if !matches!((tokens.last(), &token), (Some(Part::Directories), Part::Directories)) {
                tokens.push(token);
            }
            at += length;
        }
        Some(Glob(tokens.into()))
    }

    /// Calls `found` with the length of each directory in `path`, and of the whole, that this matches.
    pub fn find(
        &self,
        path: &Path,
        budget: &mut Budget,
        mut found: impl FnMut(usize),
    ) -> Result<(), TooCostly> {
        let Some(end) = self.last_end(path, budget)? else { return Ok(()) };
        let (mut expected, mut next) = (Expected::new(), Expected::new());
        self.expect(0, &mut expected);
        for (at, &byte) in path.name[..end].iter().enumerate() {
            if byte == b'/' && self.is_complete(&expected) {
                found(at);
            }
            budget.spend(expected.len())?;
            next.clear();
            for &index in &expected {
                self.read(byte, index, &mut next);
            }
            if next.is_empty() {
                return Ok(());
            }
            std::mem::swap(&mut expected, &mut next);
        }
        if self.is_complete(&expected) {
            found(end);
        }
        Ok(())
    }

    /// The last end in `path` that may be one of this glob, judging by the bytes before it.
    fn last_end(&self, path: &Path, budget: &mut Budget) -> Result<Option<usize>, TooCostly> {
        for &end in path.ends.iter().rev() {
            if self.may_end(&path.name[..end], budget)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    fn may_end(&self, part: &[u8], budget: &mut Budget) -> Result<bool, TooCostly> {
        for (token, &byte) in self.0.iter().rev().zip(part.iter().rev()) {
            budget.spend(1)?;
            match token {
                Part::Byte(wanted) if *wanted == byte => {}
                Part::Class(class) if class.contains(byte) => {}
                Part::Byte(_) | Part::Class(_) => return Ok(false),
                Part::Name | Part::Directories | Part::Path => return Ok(true),
            }
        }
        Ok(true)
    }

    fn is_complete(&self, expected: &Expected) -> bool {
        expected.last() == Some(&self.0.len())
    }

    /// Add to `next` what may follow after `byte`, where the token at `index` was expected.
    fn read(&self, byte: u8, index: usize, next: &mut Expected) {
        match self.0.get(index) {
            Some(Part::Byte(wanted)) if *wanted == byte => self.expect(index + 1, next),
            Some(Part::Class(class)) if class.contains(byte) => self.expect(index + 1, next),
            Some(Part::Name) if byte != b'/' => self.expect(index, next),
            // In the middle of a directory's name nothing else can begin.
            Some(Part::Directories) if byte != b'/' => next.push(index),
            Some(Part::Directories | Part::Path) => self.expect(index, next),
            _ => {}
        }
    }

    /// Add to `expected` the token at `index`, and those after it if it may be empty.
    fn expect(&self, mut index: usize, expected: &mut Expected) {
        // They come in order: what is not above the last one is there already.
        while expected.last().is_none_or(|&last| last < index) {
            expected.push(index);
            match self.0.get(index) {
                Some(Part::Name | Part::Directories | Part::Path) => index += 1,
                _ => break,
            }
        }
    }
}

impl Part {
    /// The token that `text` begins with, and its length, or `None` if it is malformed.
    fn parse(text: &[u8], begins_name: bool) -> Option<(Part, usize)> {
        Some(match text[0] {
            b'*' => Part::parse_stars(text, begins_name),
            b'?' => (Part::Class(Class::any().into()), 1),
            b'[' => {
                let (class, length) = Class::parse(text)?;
                (Part::Class(class.into()), length)
            }
            b'\\' => (Part::Byte(text.get(1)?.to_ascii_lowercase()), 2),
            byte => (Part::Byte(byte.to_ascii_lowercase()), 1),
        })
    }

    /// Two stars or more mean more than one only where a name begins.
    fn parse_stars(text: &[u8], begins_name: bool) -> (Part, usize) {
        let count = text.iter().take_while(|&&byte| byte == b'*').count();
        match &text[count..] {
            [b'/', ..] if begins_name && count > 1 => (Part::Directories, count + 1),
            [] | [b'\\', b'/', ..] if begins_name && count > 1 => (Part::Path, count),
            _ => (Part::Name, count),
        }
    }
}

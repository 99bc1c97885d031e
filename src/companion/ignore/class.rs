//! Classes of bytes in globs, like `[a-z]`.

/// A set of bytes, a bit for each: those below 128, and the others.
#[derive(Clone, Copy, Default)]
pub struct Class([u128; 2]);

impl Class {
    /// What `?` stands for: no glob but one with a slash fits a slash.
    pub fn any() -> Class {
        Class::default().negated().without_slash()
    }

    /// The class that `text` begins with, and its length, or `None` if it is malformed.
    pub fn parse(text: &[u8]) -> Option<(Class, usize)> {
        let is_negated = matches!(text.get(1), Some(b'!' | b'^'));
        let start = if is_negated { 2 } else { 1 };
        let mut parser = Parser { text, at: start, range_start: None, class: Class::default() };
        // A bracket that comes first does not close.
        while parser.at == start || *text.get(parser.at)? != b']' {
            parser.member()?;
        }
        let class = parser.class.with_lower_case();
        let class = if is_negated { class.negated() } else { class };
        Some((class.without_slash(), parser.at + 1))
    }

    pub fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 128)] >> (byte % 128) & 1 == 1
    }

    fn add(&mut self, first: u8, last: u8) {
        for (half, lowest) in self.0.iter_mut().zip([0, 128]) {
            let (first, last) = (first.max(lowest), last.min(lowest + 127));
            if first <= last {
                *half |= u128::MAX >> (127 - (last - first)) << (first - lowest);
            }
        }
    }

    fn negated(self) -> Class {
        Class(self.0.map(|half| !half))
    }

    /// Paths are compared in lower case.
    fn with_lower_case(self) -> Class {
        let mut upper = Class::default();
        upper.add(b'A', b'Z');
        let ([upper, _], [ascii, others]) = (upper.0, self.0);
        Class([ascii | (ascii & upper) << (b'a' - b'A'), others])
    }

    fn without_slash(self) -> Class {
        Class([self.0[0] & !(1 << b'/'), self.0[1]])
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    /// The byte with which a `-` at this place makes a range.
    range_start: Option<u8>,
    class: Class,
}

impl Parser<'_> {
    /// Parse a member of the class; `None` if it makes the class malformed.
    fn member(&mut self) -> Option<()> {
        match (&self.text[self.at..], self.range_start) {
            ([b'\\', byte, ..], _) => self.byte(*byte, 2),
            ([b'-', b'\\', last, ..], Some(first)) => self.range(first, *last, 3),
            ([b'-', last, ..], Some(first)) if !b"]\\".contains(last) => {
                self.range(first, *last, 2);
            }
            ([b'[', b':', ..], _) => self.named()?,
            ([byte, ..], _) => self.byte(*byte, 1),
            ([], _) => return None,
        }
        Some(())
    }

    fn byte(&mut self, byte: u8, length: usize) {
        self.class.add(byte, byte);
        self.range_start = Some(byte);
        self.at += length;
    }

    fn range(&mut self, first: u8, last: u8, length: usize) {
        self.class.add(first, last);
        self.range_start = None;
        self.at += length;
    }

    /// Parse `[:alpha:]` and the like. Without its end the bracket is a byte as any other.
    fn named(&mut self) -> Option<()> {
        let name = self.at + 2;
        let close = name + memchr::memchr(b']', &self.text[name..])?;
        match self.text[name..close].strip_suffix(b":") {
            None => self.byte(b'[', 1),
            Some(name) => {
                ranges(name)?.iter().for_each(|&(first, last)| self.class.add(first, last));
                self.range_start = None;
                self.at = close + 1;
            }
        }
        Some(())
    }
}

/// What is in the class `name`, by the C locale and, for spaces, Git.
fn ranges(name: &[u8]) -> Option<&'static [(u8, u8)]> {
    Some(match name {
        b"alnum" => &[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')],
        b"alpha" => &[(b'A', b'Z'), (b'a', b'z')],
        b"blank" => &[(b'\t', b'\t'), (b' ', b' ')],
        b"cntrl" => &[(0, 31), (127, 127)],
        b"digit" => &[(b'0', b'9')],
        b"graph" => &[(b'!', b'~')],
        b"lower" => &[(b'a', b'z')],
        b"print" => &[(b' ', b'~')],
        b"punct" => &[(b'!', b'/'), (b':', b'@'), (b'[', b'`'), (b'{', b'~')],
        b"space" => &[(b'\t', b'\n'), (b'\r', b'\r'), (b' ', b' ')],
        b"upper" => &[(b'A', b'Z')],
        b"xdigit" => &[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')],
        _ => return None,
    })
}

//! As much JSON as a header needs, read with the byte of every fault.

use crate::{Format, Result, bytes::Cursor};
use std::borrow::Cow;

/// Objects inside objects in a field that is skipped.
const MAX_DEPTH: usize = 32;

pub struct Json<'a>(pub Cursor<'a>);

impl<'a> Json<'a> {
    pub fn new(text: &'a [u8], base: u64) -> Json<'a> {
        Json(Cursor::new(text, Format::Safetensors).based(base))
    }

    /// The next character that is not white space.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.0.peek() {
            self.0.seek(self.0.position() + 1);
        }
        self.0.peek()
    }

    pub fn next_is(&mut self, c: u8) -> bool {
        let yes = self.peek() == Some(c);
        if yes {
            self.0.seek(self.0.position() + 1);
        }
        yes
    }

    pub fn expect(&mut self, c: u8, where_: &str) -> Result<()> {
        if self.next_is(c) {
            return Ok(());
        }
        Err(self.fault(&format!("`{}` {where_}", c as char)))
    }

    pub fn fault(&mut self, expected: &str) -> crate::Error {
        let found = match self.peek() {
            Some(c) if c.is_ascii_graphic() => format!("`{}`", c as char),
            Some(c) => format!("the byte {c:#04x}"),
            None => "the end of the header".into(),
        };
        self.0.fault(expected, found)
    }

    /// The members of an object: `member` is called with each key and reads its value.
    pub fn object(&mut self, mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>) -> Result<()> {
        self.expect(b'{', "of an object")?;
        if self.next_is(b'}') {
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.expect(b':', "after a key")?;
            member(self, key)?;
            if !self.next_is(b',') {
                return self.expect(b'}', "or `,` after a member");
            }
        }
    }

    /// The elements of an array: `element` is called to read each.
    pub fn array(&mut self, mut element: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.expect(b'[', "of an array")?;
        if self.next_is(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            if !self.next_is(b',') {
                return self.expect(b']', "or `,` after an element");
            }
        }
    }

    /// A number that is not negative and has no fraction.
    pub fn unsigned(&mut self) -> Result<u64> {
        self.peek();
        let digits = self.0.rest().iter().take_while(|c| c.is_ascii_digit()).count();
        let number = self.0.rest().get(..digits).and_then(|d| std::str::from_utf8(d).ok()?.parse().ok());
        match number {
            Some(n) => {
                self.0.seek(self.0.position() + digits);
                Ok(n)
            }
            None if digits == 0 => Err(self.fault("a whole number")),
            None => Err(self.0.fault("a number below 2^64", format!("one of {digits} digits"))),
        }
    }

    pub fn string(&mut self) -> Result<Cow<'a, str>> {
        self.expect(b'"', "of a string")?;
        let rest = self.0.rest();
        let Some(plain) = rest.iter().position(|&c| c == b'"' || c == b'\\' || c < 0x20) else {
            return Err(self.0.fault("the `\"` that ends a string", "the end of the header"));
        };
        if rest.get(plain) == Some(&b'"') {
            let text = self.utf8(rest.get(..plain).unwrap_or_default())?;
            self.0.seek(self.0.position() + plain + 1);
            return Ok(Cow::Borrowed(text));
        }
        self.escaped().map(Cow::Owned)
    }

    fn utf8(&self, bytes: &'a [u8]) -> Result<&'a str> {
        std::str::from_utf8(bytes).map_err(|e| self.0.fault("UTF-8 text", format!("{e}")))
    }

    /// The rest of a string that has escapes.
    fn escaped(&mut self) -> Result<String> {
        let mut out = String::new();
        loop {
            let rest = self.0.rest();
            let n = rest.iter().position(|&c| c == b'"' || c == b'\\' || c < 0x20).unwrap_or(rest.len());
            out.push_str(self.utf8(rest.get(..n).unwrap_or_default())?);
            self.0.seek(self.0.position() + n);
            match self.0.u8("a string")? {
                b'"' => return Ok(out),
                b'\\' => out.push(self.escape()?),
                c => return Err(self.0.fault("an escape for a control character", format!("the byte {c:#04x}"))),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        Ok(match self.0.u8("an escape")? {
            c @ (b'"' | b'\\' | b'/') => c as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let mut code = self.hex4()?;
                // Characters beyond 16 bits are written as two halves.
                if (0xd800..0xdc00).contains(&code) && self.0.rest().starts_with(b"\\u") {
                    self.0.seek(self.0.position() + 2);
                    let low = self.hex4()?;
                    if (0xdc00..0xe000).contains(&low) {
                        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                    }
                }
                match char::from_u32(code) {
                    Some(c) => c,
                    None => return Err(self.0.fault("a character's code", format!("half of one, {code:#x}"))),
                }
            }
            c => return Err(self.0.fault("an escape", format!("`\\` and the byte {c:#04x}"))),
        })
    }

    fn hex4(&mut self) -> Result<u32> {
        let digits = self.0.take(4, "hexadecimal digits")?;
        let code = digits.iter().try_fold(0, |n, &c| Some(n * 16 + char::from(c).to_digit(16)?));
        code.ok_or_else(|| self.0.fault("four hexadecimal digits", format!("{:?}", String::from_utf8_lossy(digits))))
    }

    /// Reads over any value.
    pub fn skip(&mut self, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.0.fault(format!("at most {MAX_DEPTH} values inside each other"), "more"));
        }
        match self.peek() {
            Some(b'{') => self.object(|j, _| j.skip(depth + 1)),
            Some(b'[') => self.array(|j| j.skip(depth + 1)),
            Some(b'"') => self.string().map(drop),
            _ => {
                let word = |c: &&u8| c.is_ascii_alphanumeric() || b"+-.".contains(c);
                let n = self.0.rest().iter().take_while(word).count();
                if n == 0 {
                    return Err(self.fault("a value"));
                }
                self.0.seek(self.0.position() + n);
                Ok(())
            }
        }
    }
}

/// A text as JSON writes it.
pub fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

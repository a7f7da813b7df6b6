//! The header's text: a Python dictionary with three keys.

use crate::{Error, Format, Result, error::shorten};

/// The type's description, whether it is column-major, and the shape.
pub fn parse(text: &[u8], format: Format, base: u64) -> Result<(String, bool, Vec<usize>)> {
    // Version 1 and 2 are latin-1 and version 3 is UTF-8; what is supported is ASCII in each.
    let mut p = Parser { text, at: 0, base, format };
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    p.expect(b'{', "of the header")?;
    while !p.next_is(b'}') {
        let start = p.at;
        let key = p.string()?;
        p.expect(b':', "after a key")?;
        match key {
            b"descr" => descr = Some(p.descr()?),
            b"fortran_order" => fortran = Some(p.boolean()?),
            b"shape" => shape = Some(p.shape()?),
            _ => {
                p.at = start;
                return Err(p.fault("descr, fortran_order or shape"));
            }
        }
        if !p.next_is(b',') {
            p.expect(b'}', "or `,` after a value")?;
            break;
        }
    }
    match (descr, fortran, shape) {
        (Some(d), Some(f), Some(s)) => Ok((d, f, s)),
        _ => Err(p.fault("descr, fortran_order and shape")),
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    base: u64,
    format: Format,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn fault(&self, expected: &str) -> Error {
        let rest = self.rest();
        let found = match rest.get(..rest.len().min(24)) {
            Some([]) | None => "the end of the header".to_string(),
            Some(some) => format!("`{}`", shorten(&String::from_utf8_lossy(some))),
        };
        Error::malformed(self.format, expected, found).at(self.base.saturating_add(self.at as u64))
    }

    fn peek(&mut self) -> Option<u8> {
        self.at += self.rest().iter().take_while(|c| c.is_ascii_whitespace()).count();
        self.rest().first().copied()
    }

    fn next_is(&mut self, c: u8) -> bool {
        let yes = self.peek() == Some(c);
        self.at += yes as usize;
        yes
    }

    fn expect(&mut self, c: u8, place: &str) -> Result<()> {
        if self.next_is(c) { Ok(()) } else { Err(self.fault(&format!("`{}` {place}", c as char))) }
    }

    fn string(&mut self) -> Result<&'a [u8]> {
        let Some(quote @ (b'\'' | b'"')) = self.peek() else { return Err(self.fault("a string")) };
        let inside = self.rest().get(1..).unwrap_or_default();
        let Some(len) = inside.iter().position(|&c| c == quote) else { return Err(self.fault("a string that ends")) };
        self.at += len + 2;
        Ok(inside.get(..len).unwrap_or_default())
    }

    fn descr(&mut self) -> Result<String> {
        if self.peek() == Some(b'[') {
            return Err(Error::unsupported(self.format, "a structured array: its elements are records")
                .at(self.base.saturating_add(self.at as u64))
                .hint("save each field as an array of its own"));
        }
        Ok(shorten(&String::from_utf8_lossy(self.string()?)))
    }

    fn boolean(&mut self) -> Result<bool> {
        self.peek();
        for (word, value) in [(&b"True"[..], true), (b"False", false)] {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.fault("True or False"))
    }

    fn shape(&mut self) -> Result<Vec<usize>> {
        self.expect(b'(', "of the shape")?;
        let mut dims = vec![];
        while !self.next_is(b')') {
            let digits = self.rest().iter().take_while(|c| c.is_ascii_digit()).count();
            let number = self.rest().get(..digits).and_then(|d| std::str::from_utf8(d).ok()?.parse().ok());
            let Some(n) = number else { return Err(self.fault("an extent")) };
            self.at += digits;
            self.next_is(b'L'); // Python 2 wrote long integers so
            dims.push(n);
            if !self.next_is(b',') {
                self.expect(b')', "or `,` after an extent")?;
                break;
            }
        }
        Ok(dims)
    }
}

//! Lines into fields (RFC 4180): quotes hold delimiters, line ends and, doubled, quotes.

use super::FORMAT;
use crate::{ReadError, ReadResult};
use std::borrow::Cow;

/// One row, with the line it starts in.
pub(super) struct Row<'a> {
    pub line: u64,
    pub fields: Vec<Cow<'a, str>>,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
    delimiter: u8,
}

/// How a field ended.
#[derive(PartialEq)]
enum End {
    Field,
    Row,
}

pub(super) fn rows(bytes: &[u8], delimiter: u8) -> ReadResult<Vec<Row<'_>>> {
    let mut r = Reader { bytes, at: 0, line: 1, delimiter };
    let mut rows: Vec<Row> = vec![];
    while r.at < bytes.len() {
        let line = r.line;
        let mut fields = vec![];
        loop {
            let (field, end) = r.field(fields.len() as u64 + 1)?;
            fields.push(field);
            if end == End::Row {
                break;
            }
        }
        // A line with nothing in it is no row, as pandas has it.
        if fields.len() > 1 || fields.first().is_some_and(|f| !f.is_empty()) {
            fields.shrink_to_fit();
            rows.push(Row { line, fields });
        }
    }
    Ok(rows)
}

impl<'a> Reader<'a> {
    fn field(&mut self, column: u64) -> ReadResult<(Cow<'a, str>, End)> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let line = self.line;
        let (content, used): (Cow<'a, [u8]>, usize) = if rest.first() == Some(&b'"') {
            self.quoted(rest, column)?
        } else {
            let stop = |&b: &u8| b == self.delimiter || b == b'\n' || b == b'\r' || b == b'"';
            let len = rest.iter().position(stop).unwrap_or(rest.len());
            let (content, after) = rest.split_at(len);
            if after.first() == Some(&b'"') {
                let e = ReadError::malformed(FORMAT, "a quote at the start of a field", "one inside it");
                return Err(e.at_cell(line, column).hint("put the whole field into quotes, and double those inside"));
            }
            (Cow::Borrowed(content), len)
        };
        self.at += used;
        let end = self.end(column)?;
        let wrong = || ReadError::malformed(FORMAT, "UTF-8", "other bytes").at_cell(line, column);
        let text = match content {
            Cow::Borrowed(b) => Cow::Borrowed(std::str::from_utf8(b).map_err(|_| wrong())?),
            Cow::Owned(b) => Cow::Owned(String::from_utf8(b).map_err(|_| wrong())?),
        };
        Ok((text, end))
    }

    /// A field in quotes, and the bytes it takes with them.
    fn quoted(&mut self, rest: &'a [u8], column: u64) -> ReadResult<(Cow<'a, [u8]>, usize)> {
        let line = self.line;
        let mut content: Cow<'a, [u8]> = Cow::Borrowed(&[]);
        let mut at = 1;
        loop {
            let from = rest.get(at..).unwrap_or_default();
            let Some(len) = from.iter().position(|&b| b == b'"') else {
                let e = ReadError::malformed(FORMAT, "a closing quote", "the end of the file");
                return Err(e.at_cell(line, column));
            };
            let piece = from.get(..len).unwrap_or_default();
            self.line += piece.iter().filter(|&&b| b == b'\n').count() as u64;
            at += len + 1;
            let doubled = rest.get(at) == Some(&b'"');
            match (&mut content, doubled) {
                (Cow::Borrowed([]), false) => content = Cow::Borrowed(piece),
                (all, _) => all.to_mut().extend_from_slice(piece),
            }
            if !doubled {
                return Ok((content, at));
            }
            content.to_mut().push(b'"');
            at += 1;
        }
    }

    /// What follows a field: a delimiter, a line end, or the end.
    fn end(&mut self, column: u64) -> ReadResult<End> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let (end, used) = match rest {
            [b, ..] if *b == self.delimiter => (End::Field, 1),
            [b'\r', b'\n', ..] => (End::Row, 2),
            [b'\n' | b'\r', ..] => (End::Row, 1),
            [] => (End::Row, 0),
            [other, ..] => {
                let found = format!("{:?}", char::from(*other));
                let e = ReadError::malformed(FORMAT, "a delimiter or a line end after the closing quote", found);
                return Err(e.at_cell(self.line, column));
            }
        };
        self.at += used;
        self.line += u64::from(end == End::Row);
        Ok(end)
    }
}

//! As much of zip as NumPy and PyTorch write: stored and deflated files, with 64-bit sizes, on one disk.

mod inflate;
mod write;

use crate::{Error, Format, Result, bytes::Cursor, error::shorten};
use std::borrow::Cow;

pub use write::Writer;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const LOCATOR64: u32 = 0x0706_4b50;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// Size of the end record without its comment.
const END_LEN: usize = 22;
/// No deflate stream grows by more than this.
const MAX_RATIO: u64 = 1032;

/// One file of an archive.
pub struct Record {
    name: String,
    method: u16,
    crc: u32,
    stored: u64,
    size: u64,
    local: u64,
    encrypted: bool,
}

impl Record {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its size when unpacked.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where it begins in the archive.
    pub fn offset(&self) -> u64 {
        self.local
    }
}

/// A zip archive in memory, its directory read and checked.
pub struct Archive<'a> {
    bytes: &'a [u8],
    format: Format,
    records: Vec<Record>,
}

impl<'a> Archive<'a> {
    pub fn open(bytes: &'a [u8], format: Format) -> Result<Archive<'a>> {
        let mut archive = Archive { bytes, format, records: vec![] };
        let (count, start) = archive.directory()?;
        let mut c = archive.cursor(start)?;
        let mut total = 0u64;
        for _ in 0..count {
            let record = archive.central(&mut c)?;
            // Entries that share bytes make small archives unpack to endless ones.
            total = total.saturating_add(record.stored);
            if total > bytes.len() as u64 {
                let found = format!("entries of {total} bytes together");
                return Err(Error::malformed(format, format!("entries inside {} bytes", bytes.len()), found).at(start));
            }
            if record.size > record.stored.saturating_mul(MAX_RATIO).saturating_add(64) {
                let expected = format!("at most {MAX_RATIO} times the {} stored bytes", record.stored);
                return Err(Error::malformed(format, expected, format!("{}", record.size)).at(record.local));
            }
            archive.records.push(record);
        }
        Ok(archive)
    }

    pub fn records(&self) -> &[Record] {
        &self.records
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.records.iter().map(Record::name)
    }

    fn cursor(&self, at: u64) -> Result<Cursor<'a>> {
        let mut c = Cursor::new(self.bytes, self.format);
        match usize::try_from(at) {
            Ok(at) if at <= self.bytes.len() => c.seek(at),
            _ => return Err(c.fault(format!("a place in {} bytes", self.bytes.len()), format!("{at}"))),
        }
        Ok(c)
    }

    /// What the first file is called, without a look at the directory, which a broken archive may lack.
    pub fn first_name(bytes: &[u8]) -> Option<&str> {
        let len = u16::from_le_bytes(*bytes.get(26..28)?.first_chunk()?);
        std::str::from_utf8(bytes.get(30..30 + usize::from(len))?).ok()
    }

    /// The number of entries and the place of the first, from the record at the file's end.
    fn directory(&self) -> Result<(u64, u64)> {
        let from = self.bytes.len().saturating_sub(END_LEN + usize::from(u16::MAX));
        let tail = self.bytes.get(from..).unwrap_or_default();
        let Some(end) = tail.windows(END_LEN).rposition(|w| w.starts_with(&END.to_le_bytes())) else {
            return Err(Error::malformed(self.format, "the end of a zip archive", "none")
                .at(self.bytes.len() as u64)
                .hint("the file was not written, or not copied, to its end"));
        };
        let end = from + end;
        let mut c = self.cursor(end as u64 + 10)?;
        let count = u64::from(c.u16("the number of entries")?);
        c.u32("the directory's size")?;
        let start = u64::from(c.u32("the directory's place")?);
        if count != 0xffff && start != 0xffff_ffff {
            return Ok((count, start));
        }
        // Too large for these fields: a second record holds them, and a locator before this one says where.
        let Some(locator) = end.checked_sub(20) else { return Ok((count, start)) };
        let mut c = self.cursor(locator as u64)?;
        if c.u32("a locator")? != LOCATOR64 {
            return Ok((count, start));
        }
        c.u32("a disk number")?;
        let mut c = self.cursor(c.u64("the place of the 64-bit end record")?)?;
        if c.u32("the 64-bit end record")? != END64 {
            return Err(c.fault("the 64-bit end record", "something else"));
        }
        c.take(28, "the 64-bit end record")?;
        let count = c.u64("the number of entries")?;
        c.u64("the directory's size")?;
        Ok((count, c.u64("the directory's place")?))
    }

    fn central(&self, c: &mut Cursor<'a>) -> Result<Record> {
        if c.u32("a directory entry")? != CENTRAL {
            return Err(c.fault("a directory entry", "something else"));
        }
        c.take(4, "versions")?;
        let flags = c.u16("flags")?;
        let method = c.u16("method")?;
        c.take(4, "time")?;
        let crc = c.u32("checksum")?;
        let mut stored = u64::from(c.u32("stored size")?);
        let mut size = u64::from(c.u32("size")?);
        let name_len = u64::from(c.u16("name length")?);
        let extra_len = u64::from(c.u16("extra length")?);
        let comment_len = u64::from(c.u16("comment length")?);
        c.take(8, "attributes")?;
        let mut local = u64::from(c.u32("place")?);
        let name = c.take(name_len, "name")?;
        let Ok(name) = std::str::from_utf8(name) else {
            return Err(c.fault("a name in UTF-8", format!("`{}`", shorten(&String::from_utf8_lossy(name)))));
        };
        let mut extra = Cursor::new(c.take(extra_len, "extra fields")?, self.format).based(c.offset() - extra_len);
        c.take(comment_len, "comment")?;
        while extra.rest().len() >= 4 {
            let (id, len) = (extra.u16("field")?, u64::from(extra.u16("field length")?));
            let mut field = Cursor::new(extra.take(len, "field")?, self.format).based(extra.offset() - len);
            if id != 1 {
                continue;
            }
            // The 64-bit field holds, in this order, those values whose 32-bit place is full.
            for value in [&mut size, &mut stored, &mut local] {
                if *value == 0xffff_ffff {
                    *value = field.u64("a 64-bit size")?;
                }
            }
        }
        Ok(Record { name: name.to_owned(), method, crc, stored, size, local, encrypted: flags & 1 != 0 })
    }

    /// A file's bytes as they are stored.
    fn stored(&self, r: &Record) -> Result<&'a [u8]> {
        if r.encrypted {
            return Err(Error::unsupported(self.format, format!("`{}` is encrypted", shorten(&r.name))).at(r.local));
        }
        let mut c = self.cursor(r.local)?;
        if c.u32("a file's header")? != LOCAL {
            return Err(c.fault(format!("the header of `{}`", shorten(&r.name)), "something else"));
        }
        c.take(22, "a file's header")?;
        let skip = u64::from(c.u16("name length")?) + u64::from(c.u16("extra length")?);
        c.take(skip, "name and extra fields")?;
        c.take(r.stored, "a file").map_err(|e| e.hint("the file was not written, or not copied, to its end"))
    }

    /// A file's content; borrowed where it is stored as it is. Its checksum is verified.
    pub fn read(&self, r: &Record) -> Result<Cow<'a, [u8]>> {
        let content = self.read_start(r, r.size)?;
        let fault = |expected: String, found: String| {
            let e = Error::malformed(self.format, format!("{expected} of `{}`", shorten(&r.name)), found).at(r.local);
            e.hint("the file is damaged: fetch or write it again")
        };
        if content.len() as u64 != r.size {
            return Err(fault(format!("{} bytes", r.size), format!("{}", content.len())));
        }
        let crc = crc32fast::hash(&content);
        if crc != r.crc {
            return Err(fault(format!("the checksum {:08x}", r.crc), format!("{crc:08x}")));
        }
        Ok(content)
    }

    /// Where a file's content is in the archive, for messages; its header's place when it had to be unpacked.
    pub fn place(&self, content: &[u8], r: &Record) -> u64 {
        let (start, at) = (self.bytes.as_ptr() as usize, content.as_ptr() as usize);
        match at.checked_sub(start) {
            Some(offset) if offset <= self.bytes.len() => offset as u64,
            _ => r.local,
        }
    }

    /// At most the first `limit` bytes of a file, unverified.
    pub fn read_start(&self, r: &Record, limit: u64) -> Result<Cow<'a, [u8]>> {
        let stored = self.stored(r)?;
        let limit = usize::try_from(limit.min(r.size)).unwrap_or(usize::MAX);
        match r.method {
            STORED if r.size == r.stored => Ok(Cow::Borrowed(stored.get(..limit).unwrap_or(stored))),
            STORED => {
                let expected = format!("a stored file of {} bytes", r.stored);
                Err(Error::malformed(self.format, expected, format!("{}", r.size)).at(r.local))
            }
            DEFLATED => inflate::inflate(stored, limit, self.format).map(Cow::Owned).map_err(|e| e.at(r.local)),
            m => {
                let what = format!("`{}` is compressed by method {m}; stored and deflated are read", shorten(&r.name));
                Err(Error::unsupported(self.format, what).at(r.local))
            }
        }
    }
}

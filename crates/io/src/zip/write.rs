//! Writing an archive front to back, so that any stream will do.

use super::{CENTRAL, DEFLATED, END, END64, LOCAL, LOCATOR64, STORED};
use crate::{Error, Format, Result};
use std::io::Write;

/// 1980-01-01: the same content gives the same bytes on any day.
const DATE: u16 = 0x21;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;

/// Writes an archive to a stream.
pub struct Writer<'a> {
    out: &'a mut dyn Write,
    at: u64,
    central: Vec<u8>,
    count: u64,
}

/// A value's 32-bit place: full when the 64-bit field holds it.
fn low(x: u64) -> [u8; 4] {
    u32::try_from(x).unwrap_or(u32::MAX).to_le_bytes()
}

/// Whether a value needs the 64-bit field (the full 32-bit value means "look there").
fn is_large(x: u64) -> bool {
    x >= u64::from(u32::MAX)
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut dyn Write) -> Writer<'a> {
        Writer { out, at: 0, central: vec![], count: 0 }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Adds a file of these parts, one after the other.
    pub fn add(&mut self, name: &str, parts: [&[u8]; 2], deflate: bool) -> Result<()> {
        let Ok(name_len) = u16::try_from(name.len()) else {
            return Err(Error::unsupported(Format::Npz, format!("a name of {} bytes is too long", name.len())));
        };
        let packed: Option<Vec<u8>> = deflate.then(|| miniz_oxide::deflate::compress_to_vec(&parts.concat(), 6));
        let packed = packed.as_deref().map(|p| [p]);
        let stored: &[&[u8]] = packed.as_ref().map_or(&parts, |p| p);
        let total = |parts: &[&[u8]]| parts.iter().map(|p| p.len() as u64).sum::<u64>();
        let (size, stored_len, local) = (total(&parts), total(stored), self.at);
        let mut crc = crc32fast::Hasher::new();
        parts.iter().for_each(|p| crc.update(p));

        // Version 4.5 reads 64-bit fields, 2.0 the rest.
        let large = is_large(size) || is_large(stored_len);
        let version: u16 = if large || is_large(local) { 45 } else { 20 };
        let mut common = vec![];
        common.extend(version.to_le_bytes());
        common.extend(FLAGS.to_le_bytes());
        common.extend(if deflate { DEFLATED } else { STORED }.to_le_bytes());
        common.extend([0, 0]); // time
        common.extend(DATE.to_le_bytes());
        common.extend(crc.finalize().to_le_bytes());
        // The 64-bit field has both sizes or none.
        let full = |x: u64| if large { [0xff; 4] } else { low(x) };
        common.extend(full(stored_len));
        common.extend(full(size));
        common.extend(name_len.to_le_bytes());
        let sizes: Vec<u64> = if large { vec![size, stored_len] } else { vec![] };

        let extra = field64(&sizes);
        self.put(&LOCAL.to_le_bytes())?;
        self.put(&common)?;
        self.put(&(extra.len() as u16).to_le_bytes())?;
        self.put(name.as_bytes())?;
        self.put(&extra)?;
        for part in stored {
            self.put(part)?;
        }

        let place = is_large(local).then_some(local);
        let extra = field64(&sizes.into_iter().chain(place).collect::<Vec<_>>());
        self.central.extend(CENTRAL.to_le_bytes());
        self.central.extend(version.to_le_bytes());
        self.central.extend(common);
        self.central.extend((extra.len() as u16).to_le_bytes());
        self.central.extend([0; 10]); // comment, disk, attributes
        self.central.extend(low(local));
        self.central.extend(name.as_bytes());
        self.central.extend(extra);
        self.count += 1;
        Ok(())
    }

    /// Writes the directory.
    pub fn finish(mut self) -> Result<()> {
        let (start, len, count) = (self.at, self.central.len() as u64, self.count);
        let central = std::mem::take(&mut self.central);
        self.put(&central)?;
        if is_large(start) || is_large(len) || count >= 0xffff {
            let end64 = self.at;
            let mut r = vec![];
            r.extend(END64.to_le_bytes());
            r.extend(44u64.to_le_bytes()); // what follows
            r.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]); // versions, disks
            for x in [count, count, len, start] {
                r.extend(x.to_le_bytes());
            }
            r.extend(LOCATOR64.to_le_bytes());
            r.extend([0; 4]);
            r.extend(end64.to_le_bytes());
            r.extend([1, 0, 0, 0]);
            self.put(&r)?;
        }
        let short = u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes();
        let mut r = vec![];
        r.extend(END.to_le_bytes());
        r.extend([0; 4]);
        r.extend(short);
        r.extend(short);
        r.extend(low(len));
        r.extend(low(start));
        r.extend([0, 0]);
        self.put(&r)
    }
}

fn field64(values: &[u64]) -> Vec<u8> {
    if values.is_empty() {
        return vec![];
    }
    let mut out = vec![1, 0];
    out.extend((values.len() as u16 * 8).to_le_bytes());
    out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    out
}

//! Checksums and lengths put right again, so that damage is not found by them alone.

fn le(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let part = bytes.get(at..at.checked_add(width)?)?;
    Some(part.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b)))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// Leaves the bytes as they are.
pub fn nothing(bytes: Vec<u8>, _: &[u8]) -> Vec<u8> {
    bytes
}

/// The length of a JSON header that grew or shrank.
pub fn safetensors(mut bytes: Vec<u8>, original: &[u8]) -> Vec<u8> {
    let grown = bytes.len() as i64 - original.len() as i64;
    if let Some(len) = le(original, 0, 8) {
        put(&mut bytes, 0, &(len as i64 + grown).to_le_bytes());
    }
    bytes
}

/// The length of a header line.
pub fn npy(mut bytes: Vec<u8>, original: &[u8]) -> Vec<u8> {
    let grown = bytes.len() as i64 - original.len() as i64;
    if let (Some(len), true) = (le(original, 8, 2), original.starts_with(b"\x93NUMPY\x01")) {
        put(&mut bytes, 8, &((len as i64 + grown) as u16).to_le_bytes());
    }
    bytes
}

/// The place of a zip's directory, and the checksums of what is stored.
pub fn zip(mut bytes: Vec<u8>, _: &[u8]) -> Vec<u8> {
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(4).position(|w| w == what);
    if let (Some(end), Some(directory)) =
        (bytes.windows(4).rposition(|w| w == b"PK\x05\x06"), find(&bytes, b"PK\x01\x02"))
    {
        put(&mut bytes, end + 16, &(directory as u32).to_le_bytes());
        let _ = checksums(&mut bytes, directory); // as far as the directory can be followed
    }
    bytes
}

fn checksums(bytes: &mut [u8], mut at: usize) -> Option<()> {
    while bytes.get(at..at + 4)? == b"PK\x01\x02" {
        let (stored, local) = (le(bytes, at + 20, 4)?, le(bytes, at + 42, 4)?);
        let data = local + 30 + le(bytes, local + 26, 2)? + le(bytes, local + 28, 2)?;
        if let Some(content) = bytes.get(data..data + stored) {
            let crc = crc32fast::hash(content).to_le_bytes();
            put(bytes, at + 16, &crc);
        }
        at += 46 + le(bytes, at + 28, 2)? + le(bytes, at + 30, 2)? + le(bytes, at + 32, 2)?;
    }
    Some(())
}

/// The checksum of each chunk, with lengths that lead to the next chunk's name where they do not.
pub fn png(mut bytes: Vec<u8>, _: &[u8]) -> Vec<u8> {
    let mut at = 8;
    while let Some(len) = bytes.get(at..at + 4).map(|b| b.iter().fold(0usize, |n, &b| n << 8 | usize::from(b))) {
        let Some(content) = bytes.get(at + 4..(at + 8).saturating_add(len)) else { break };
        let crc = crc32fast::hash(content).to_be_bytes();
        put(&mut bytes, at + 8 + len, &crc);
        at += 12 + len;
    }
    bytes
}

/// Packs a plain IDX file that was damaged, so that the damage lies under a right checksum; plain ones stay plain.
pub fn idx(bytes: Vec<u8>, original: &[u8]) -> Vec<u8> {
    match !original.starts_with(&[0x1f, 0x8b]) && bytes.len().is_multiple_of(2) {
        true => gzip(&bytes),
        false => bytes,
    }
}

/// A gzip file.
pub fn gzip(content: &[u8]) -> Vec<u8> {
    let mut f = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    f.extend(miniz_oxide::deflate::compress_to_vec(content, 6));
    f.extend(crc32fast::hash(content).to_le_bytes());
    f.extend((content.len() as u32).to_le_bytes());
    f
}

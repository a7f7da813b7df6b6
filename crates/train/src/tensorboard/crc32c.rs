//! CRC-32C (Castagnoli), as TFRecord files want it.

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut c = i as u32;
        let mut bit = 0;
        while bit < 8 {
            c = if c & 1 == 1 { (c >> 1) ^ 0x82f6_3b78 } else { c >> 1 };
            bit += 1;
        }
        table[i] = c;
        i += 1;
    }
    table
}

static TABLE: [u32; 256] = table();

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |c, b| (c >> 8) ^ TABLE[(c as u8 ^ b) as usize])
}

/// The sum, turned and shifted: a sum of data that holds sums is weak otherwise.
pub fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    #[test]
    fn known_sums() {
        // RFC 3720, appendix B.4.
        assert_eq!(super::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(super::crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
    }
}

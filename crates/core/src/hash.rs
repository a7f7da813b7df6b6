//! Hashes that stand for what they were taken of.

use std::hash::Hasher;

/// Two independent 64-bit mixes, so that a collision is out of the question.
pub struct Mix(u64, u64);

impl Default for Mix {
    fn default() -> Mix {
        Mix(1, 2)
    }
}

impl Mix {
    /// Both.
    pub fn both(&self) -> (u64, u64) {
        (self.0, self.1)
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for c in bytes.chunks(8) {
            let mut w = [0; 8];
            w[..c.len()].copy_from_slice(c);
            self.write_u64(u64::from_le_bytes(w));
        }
    }
    fn write_u64(&mut self, x: u64) {
        self.0 = (self.0 ^ x).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        self.1 = (self.1.rotate_left(23) ^ x).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    }
    fn write_usize(&mut self, x: usize) {
        self.write_u64(x as u64);
    }
    fn write_u8(&mut self, x: u8) {
        self.write_u64(x as u64);
    }
    fn write_isize(&mut self, x: isize) {
        self.write_u64(x as u64);
    }
}

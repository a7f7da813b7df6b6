//! The dropout masks of PyTorch's CPU generator: the samples were recorded right after `torch.manual_seed(42)`.

use crate::opinfo::OpError;
use gradus_core::Tensor;

const SEED: u32 = 42;
const N: usize = 624;
const M: usize = 397;

/// The Mersenne Twister (Matsumoto and Nishimura, 1998).
struct Mt19937 {
    state: [u32; N],
    next: usize,
}

impl Mt19937 {
    fn new(seed: u32) -> Self {
        let mut state = [seed; N];
        for i in 1..N {
            let before = state[i - 1];
            state[i] = (before ^ (before >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Self { state, next: N }
    }

    fn refill(&mut self) {
        for i in 0..N {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
            let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ (y >> 1) ^ odd;
        }
        self.next = 0;
    }

    fn next(&mut self) -> u32 {
        if self.next == N {
            self.refill();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// 53 bits of two words, the first one high.
    fn uniform(&mut self) -> f64 {
        let (high, low) = (u64::from(self.next()), u64::from(self.next()));
        let bits = ((high << 32) | low) & ((1 << 53) - 1);
        bits as f64 / (1u64 << 53) as f64
    }
}

/// Where dropout with probability `p` keeps an element, in row-major order.
pub fn keep_mask(shape: &[usize], p: f64) -> Result<Tensor, OpError> {
    let mut generator = Mt19937::new(SEED);
    let n = shape.iter().product();
    let keep: Vec<bool> = (0..n).map(|_| generator.uniform() < 1.0 - p).collect();
    Ok(Tensor::from_vec(keep, shape)?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_twister_gives_the_published_numbers() {
        // The C++ standard's check of mt19937: the 10000th number from the default seed 5489.
        let mut generator = super::Mt19937::new(5489);
        assert_eq!((0..10_000).map(|_| generator.next()).last(), Some(4_123_659_995));
    }
}

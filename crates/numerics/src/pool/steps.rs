//! Numbers at equal distances, as vectors.

use crate::simd::Simd;

/// Numbers of the plane from `at` on, `stride` apart; no others are read.
#[inline(always)]
pub(super) unsafe fn read<S: Simd>(x: &[f32], at: usize, stride: usize, n: usize) -> S::V {
    // SAFETY: the caller's numbers are inside the plane.
    unsafe {
        let from = x.as_ptr().add(at);
        match stride {
            1 if n == S::LANES => S::load(from),
            1 => S::load_first(from, n),
            2..=4 if n == S::LANES && at + stride * n <= x.len() => every::<S>(from, stride),
            2 => {
                let left = 2 * n - 1;
                let second = left.saturating_sub(S::LANES);
                S::evens(S::load_first(from, left.min(S::LANES)), S::load_first(from.wrapping_add(S::LANES), second))
            }
            _ => S::load_apart(from, stride, n),
        }
    }
}

/// A vector of numbers two to four apart: all between them are read too, which is several times faster than one by one.
///
/// # Safety
///
/// There are `stride` vectors from here on.
#[inline(always)]
pub(super) unsafe fn every<S: Simd>(from: *const f32, stride: usize) -> S::V {
    // Where number `3 i` of three vectors is: first in the first two of them, then in what was found there and the third.
    const fn thirds(lanes: usize, second: bool) -> [i32; 16] {
        let (mut at, mut i) = ([0; 16], 0);
        while i < lanes {
            let early = 3 * i < 2 * lanes;
            at[i] = if second && early {
                i as i32
            } else if second {
                (3 * i - lanes) as i32
            } else if early {
                3 * i as i32
            } else {
                0
            };
            i += 1;
        }
        at
    }
    // SAFETY: the caller's promise.
    unsafe {
        let at = |i: usize| S::load(from.add(i * S::LANES));
        match stride {
            2 => S::evens(at(0), at(1)),
            3 => {
                let [first, second] = const { [thirds(S::LANES, false), thirds(S::LANES, true)] };
                S::pick(S::pick(at(0), at(1), first.as_ptr()), at(2), second.as_ptr())
            }
            _ => S::evens(S::evens(at(0), at(1)), S::evens(at(2), at(3))),
        }
    }
}

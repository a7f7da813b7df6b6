//! Random programs on a device against the oracle.

use crate::{
    oracle,
    programs::{self, Mode},
};
use gradus_core::{DType, Device, Tensor};
use std::io::Write;

/// How programs came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Programs run.
    pub run: usize,
    /// With the oracle's bits.
    pub same: usize,
    /// Within rounding.
    pub close: usize,
    /// Of which both sides said that they cannot run.
    pub refused: usize,
    /// Different.
    pub wrong: usize,
}

/// Runs `count` programs drawn from `seed`, and prints the first different ones.
pub fn run(device: Device, seed: u64, count: usize, out: &mut impl Write) -> std::io::Result<Counts> {
    let mut c = Counts::default();
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    };
    for _ in 0..count {
        let list: Vec<u32> = (0..20 + next() % 70).map(|_| next()).collect();
        c.run += 1;
        match one(&list, device) {
            Ok(Verdict::Same) => c.same += 1,
            Ok(Verdict::Close) => c.close += 1,
            Ok(Verdict::Refused) => c.refused += 1,
            Err(why) => {
                c.wrong += 1;
                if c.wrong <= 5 {
                    writeln!(out, "{why}\n{}", programs::describe(&list))?;
                }
            }
        }
    }
    writeln!(
        out,
        "programs on {device}: {} run, {} with the oracle's bits, {} within rounding, {} refused by both, {} wrong",
        c.run, c.same, c.close, c.refused, c.wrong
    )?;
    Ok(c)
}

enum Verdict {
    Same,
    Close,
    Refused,
}

/// A result's type, bytes and numbers.
type Out = (DType, Vec<u8>, Vec<f64>);

fn results(list: &[u32], device: Device) -> gradus_core::Result<Vec<Out>> {
    let made = programs::run(list, device, Mode::Fused)?;
    Tensor::eval_all(&made.iter().collect::<Vec<_>>())?;
    made.iter().map(|t| Ok((t.dtype(), t.to_bytes()?, t.to_vec::<f64>()?))).collect()
}

fn one(list: &[u32], device: Device) -> Result<Verdict, String> {
    let (want, got) = match (results(list, oracle::device()), results(list, device)) {
        (Ok(w), Ok(g)) => (w, g),
        (Err(_), Err(_)) => return Ok(Verdict::Refused),
        (w, g) => return Err(format!("one failed: the oracle {:?}, the device {:?}", w.err(), g.err())),
    };
    let mut verdict = Verdict::Same;
    for ((dtype, wb, w), (_, gb, g)) in want.iter().zip(&got) {
        if wb == gb {
            continue;
        }
        // An f64 may have come from an f32 on the way.
        let tolerance = if *dtype == DType::F64 { 1e-6 } else { 2e-5 };
        let scale = w.iter().filter(|x| x.is_finite()).fold(1.0f64, |m, x| m.max(x.abs()));
        for (i, (w, g)) in w.iter().zip(g).enumerate() {
            let same = w == g || (w.is_nan() && g.is_nan());
            if !same && (w - g).abs().partial_cmp(&(tolerance * scale)) != Some(std::cmp::Ordering::Less) {
                return Err(format!("element {i} of {dtype}: {g}, not {w}"));
            }
        }
        verdict = Verdict::Close;
    }
    Ok(verdict)
}

//! Attention, forward and backward, in kernels of our own: tensor cores, and no matrix of weights in memory.
//!
//! Hopper has kernels of its own ([`hopper`]: TMA and `wgmma`) for rows that TMA can read, and everything else those by
//! `mma.sync` (`common.cu`). All sums have a fixed order, so two runs give the same bits.

mod hopper;

use crate::{
    backend::Cuda,
    graphs,
    module::{Function, Loaded},
    sys::driver,
};
use gradus_core::{
    DType, Result, Shape,
    kernel::emit::{Program, Stage},
    op::Attention,
};
use std::{
    collections::HashMap,
    ffi::c_void,
    sync::{Arc, Mutex},
};

const THREADS: usize = 256;
/// Shared memory is aligned by the kernels themselves.
const SLACK: usize = 1024;

/// The types that GPUs of a capability (90 is 9.0) have kernels for.
pub fn types(capability: i32) -> Vec<DType> {
    if capability >= 80 { vec![DType::BF16, DType::F16] } else { vec![] }
}

/// What a program is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    f16: bool,
    width: usize,
    causal: bool,
    aligned: bool,
    hopper: bool,
}

impl Key {
    /// Columns of a tile.
    fn columns(&self) -> usize {
        if self.width <= 64 { 64 } else { 128 }
    }

    fn text(&self) -> String {
        let Key { f16, width, causal, aligned, hopper } = *self;
        let [f16, causal, aligned] = [f16, causal, aligned].map(u8::from);
        let defined = [
            ("F16", f16 as usize),
            ("D", self.columns()),
            ("DIM", width),
            ("CAUSAL", causal as usize),
            ("ALIGNED", aligned as usize),
        ];
        let text: String = defined.iter().map(|(name, value)| format!("#define {name} {value}\n")).collect();
        let own = [include_str!("common.cu"), include_str!("forward.cu"), include_str!("backward.cu")];
        let own = if hopper { hopper::TEXTS } else { own };
        text + include_str!("rows.cu") + include_str!("delta.cu") + &own.concat()
    }

    /// Dynamic shared memory of forward and backward, in bytes.
    fn shared(&self) -> [usize; 2] {
        let d = self.columns();
        if self.hopper {
            return hopper::shared(d);
        }
        // Queries and two stages of keys and values; keys, values, two stages of queries and gradients, and the
        // weights' gradient with two stages of two numbers a query.
        [SLACK + (128 + 4 * 64) * d * 2, SLACK + (2 * 128 + 4 * 64) * d * 2 + 128 * 128 + 1024]
    }

    fn program(&self) -> Program {
        let stage = |entry: &str| Stage { entry: entry.into(), blocks: 0, threads: THREADS, shared: 0 };
        Program {
            text: self.text(),
            bindings: vec![],
            stages: ["flash_forward", "flash_delta", "flash_backward"].map(stage).to_vec(),
            scratch: 0,
            alignment: vec![],
            contract: true,
        }
    }
}

/// Programs by what they are for.
#[derive(Default)]
pub struct Kernels(Mutex<HashMap<Key, Arc<Loaded>>>);

/// `View` of `common.cu`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct View {
    at: u64,
    batch: i64,
    head: i64,
    row: i64,
}

impl View {
    /// An input with the strides a plan gives.
    fn of(a: &Attention, at: u64, k: usize) -> Option<View> {
        let strides = a.strides.get(k)?;
        let (row, lead) = match &strides[..] {
            [lead @ .., row, _] => (*row, lead),
            _ => return None,
        };
        let (batch, head) = match *lead {
            [] => (0, 0),
            [head] => (0, head),
            [batch, head] => (batch, head),
            _ => return None,
        };
        Some(View { at, batch: batch as i64, head: head as i64, row: row as i64 })
    }

    /// A result of `rows` rows as [`Attention::laid_out`] says.
    fn result(a: &Attention, at: u64, rows: usize, width: usize) -> View {
        let [_, heads] = lead(a);
        if a.heads_inside && a.lead.rank() == 2 {
            let row = heads * width;
            return View { at, batch: (rows * row) as i64, head: width as i64, row: row as i64 };
        }
        View { at, batch: (heads * rows * width) as i64, head: (rows * width) as i64, row: width as i64 }
    }

    /// The three gradients as [`Attention::joined`] says.
    fn joined(a: &Attention, at: u64, width: usize, size: usize) -> [View; 3] {
        let [_, heads] = lead(a);
        let row = 3 * heads * width;
        let part = |k: usize| View {
            at: at + (k * heads * width * size) as u64,
            batch: (a.sizes[0] * row) as i64,
            head: width as i64,
            row: row as i64,
        };
        [part(0), part(1), part(2)]
    }

    /// Whether rows start at multiples of 16 bytes.
    fn aligned(&self) -> bool {
        self.at.is_multiple_of(16) && [self.batch, self.head, self.row].iter().all(|s| s % 8 == 0)
    }
}

/// Batches and heads.
fn lead(a: &Attention) -> [usize; 2] {
    match *a.lead {
        [] => [1, 1],
        [heads] => [1, heads],
        _ => [a.lead[0], a.lead[1..].iter().product()],
    }
}

#[repr(C)]
struct Forward {
    q: View,
    k: View,
    v: View,
    out: View,
    lse: u64,
    heads: i32,
    queries: i32,
    keys: i32,
    scale: f32,
}

#[repr(C)]
struct Delta {
    out: View,
    grad: View,
    lse: u64,
    lse2: u64,
    delta: u64,
    turns: u64,
    heads: i32,
    queries: i32,
    padded: i32,
    turns_count: i32,
}

#[repr(C)]
struct Backward {
    q: View,
    k: View,
    v: View,
    grad: View,
    dq: View,
    dk: View,
    dv: View,
    lse2: u64,
    delta: u64,
    sums: u64,
    turns: u64,
    heads: i32,
    queries: i32,
    keys: i32,
    parts: i32,
    scale: f32,
}

/// Sizes that the kernels count in 32 bits.
fn countable(a: &Attention) -> bool {
    let [queries, keys, ..] = a.sizes;
    let most = a.batch() * queries.max(keys).div_ceil(64) * 2;
    let strides = a.strides.iter().flatten().all(|&s| s < 1 << 30);
    queries < 1 << 30 && keys < 1 << 30 && most < 1 << 30 && strides
}

/// Into how many blocks the tiles of a head's keys are shared out. One block a head goes faster through its steps, as
/// measured, but there must be enough heads for all multiprocessors; blocks that share them out even out among these.
fn parts(a: &Attention, multiprocessors: usize) -> usize {
    let tiles = a.sizes[1].div_ceil(128);
    let steps = |tile: usize| if a.causal { 2 * (tiles - tile) } else { a.sizes[0].div_ceil(64) };
    let head: usize = (0..tiles).map(steps).sum();
    let one = a.batch().div_ceil(multiprocessors) * head;
    let many = a.batch() * head / multiprocessors + steps(0) / 2;
    if one * 8 <= many * 9 { 1 } else { tiles }
}

impl Cuda {
    /// The kernels for an attention over these views, if there are any.
    fn flash(&self, a: &Attention, dtype: DType, views: &[View]) -> Result<Option<(Key, Arc<Loaded>)>> {
        let [_, _, width, value] = a.sizes;
        let capability = self.context.info.capability;
        // Weights are taken relative to the largest score, which is found before the factor.
        let ordered = f32::from_bits(a.scale) > 0.0;
        let known = types(capability).contains(&dtype) && width == value && width <= 128;
        let ours = known && ordered && !a.masked && countable(a);
        if !ours {
            return Ok(None);
        }
        let aligned = width.is_multiple_of(8) && views.iter().all(View::aligned);
        let tma = self.context.driver.tensor_map_encode_tiled.is_some();
        let hopper = capability == 90 && tma && aligned && views.iter().all(|v| hopper::readable(a, v));
        let key = Key { f16: dtype == DType::F16, width, causal: a.causal, aligned, hopper };
        let known = || self.flash.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(loaded) = known().get(&key) {
            return Ok(Some((key, loaded.clone())));
        }
        // wgmma is in the target of this very GPU alone.
        let target = if key.hopper { "sm_90a" } else { self.target() };
        let loaded = Arc::new(self.load_for(key.program(), target)?);
        let d = self.context.driver;
        for (f, bytes) in [loaded.functions[0], loaded.functions[2]].into_iter().zip(key.shared()) {
            // SAFETY: the function is loaded.
            let code = unsafe { (d.func_set_attribute)(f.0, driver::MAX_DYNAMIC_SHARED, bytes as i32) };
            d.check(code, "cuFuncSetAttribute")?;
        }
        known().insert(key, loaded.clone());
        Ok(Some((key, loaded)))
    }

    /// Launches a kernel that takes one structure.
    fn launch_struct<T>(
        &self,
        f: Function,
        [blocks, threads]: [usize; 2],
        shared: usize,
        mut argument: T,
    ) -> Result<()> {
        self.context.enter()?;
        let (c, d) = (&self.context, self.context.driver);
        let mut pointers: [*mut c_void; 1] = [(&raw mut argument).cast()];
        let _shared = self.stream_shared();
        graphs::launched();
        let (blocks, threads, none) = (blocks as u32, threads as u32, std::ptr::null_mut());
        // SAFETY: the argument has the layout that the kernel declares, and is copied by the call; the planner's buffers
        // have the sizes that the attention says.
        let code = unsafe {
            (d.launch_kernel)(f.0, blocks, 1, 1, threads, 1, 1, shared as u32, c.stream, pointers.as_mut_ptr(), none)
        };
        d.check(code, "cuLaunchKernel")
    }

    /// `(q, k, v) -> flat`; false where there is no kernel for it.
    pub(crate) fn attention(&self, a: &Attention, at: &[u64], types: &[(DType, Shape)]) -> Result<bool> {
        let ([q, k, v, to], Some(&(dtype, _))) = (at, types.first()) else { return Ok(false) };
        let [queries, keys, width, _] = a.sizes;
        let views = [View::of(a, *q, 0), View::of(a, *k, 1), View::of(a, *v, 2)];
        let [Some(q), Some(k), Some(v)] = views else { return Ok(false) };
        let out = View::result(a, *to, queries, width);
        let Some((key, loaded)) = self.flash(a, dtype, &[q, k, v, out])? else { return Ok(false) };
        let [_, heads] = lead(a);
        let lse = to + (a.packed(dtype).0 * dtype.size()) as u64;
        if key.hopper {
            return self.hopper_forward(a, (key, &loaded), [q, k, v, out], lse);
        }
        let argument = Forward {
            q,
            k,
            v,
            out,
            lse,
            heads: heads as i32,
            queries: queries as i32,
            keys: keys as i32,
            scale: f32::from_bits(a.scale) * std::f32::consts::LOG2_E,
        };
        let blocks = a.batch() * queries.div_ceil(128);
        self.launch_struct(loaded.functions[0], [blocks, THREADS], key.shared()[0], argument)?;
        Ok(true)
    }

    /// `(q, k, v, what forward gave, gradient) -> flat`; false where there is no kernel for it.
    pub(crate) fn attention_grad(&self, a: &Attention, at: &[u64], types: &[(DType, Shape)]) -> Result<bool> {
        let ([q, k, v, saved, g, to], Some(&(dtype, _))) = (at, types.first()) else { return Ok(false) };
        let [queries, keys, width, _] = a.sizes;
        let views = [View::of(a, *q, 0), View::of(a, *k, 1), View::of(a, *v, 2), View::of(a, *g, 4)];
        let [Some(q), Some(k), Some(v), Some(grad)] = views else { return Ok(false) };
        let out = View::result(a, *saved, queries, width);
        let bytes = |rows: usize| (a.batch() * rows * width * dtype.size()) as u64;
        let [dq, dk, dv] = if a.joined {
            View::joined(a, *to, width, dtype.size())
        } else {
            let dq = View::result(a, *to, queries, width);
            let dk = View::result(a, to + bytes(queries), keys, width);
            [dq, dk, View::result(a, dk.at + bytes(keys), keys, width)]
        };
        let Some((key, loaded)) = self.flash(a, dtype, &[q, k, v, grad, out, dq, dk, dv])? else { return Ok(false) };
        let tiles = queries.div_ceil(64);
        // For the steps of queries of each head: whose turn it is, and on Hopper the next item of work.
        let (padded, turns) = (tiles * 64, a.batch() * tiles * 2 + 1);
        // Two numbers a query, the turns, and the queries' gradient in f32.
        let row = a.batch() * padded * 4;
        let sums = a.batch() * tiles * 64 * key.columns() * 4;
        let scratch = self.scratch(2 * row + sums + turns * 4)?;
        let (lse2, delta, sums_at) = (scratch.raw, scratch.raw + row as u64, scratch.raw + 2 * row as u64);
        let turns_at = sums_at + sums as u64;
        let [_, heads] = lead(a);
        let (heads, queries, keys) = (heads as i32, queries as i32, keys as i32);
        let first = Delta {
            out,
            grad,
            lse: saved + (a.packed(dtype).0 * dtype.size()) as u64,
            lse2,
            delta,
            turns: turns_at,
            heads,
            queries,
            padded: padded as i32,
            turns_count: turns as i32,
        };
        let threads = a.batch() * padded * (key.columns() / 8);
        self.launch_struct(loaded.functions[1], [threads.div_ceil(THREADS), THREADS], 0, first)?;
        if key.hopper {
            let scratch = [lse2, delta, sums_at, turns_at];
            return self.hopper_backward(a, (key, &loaded), [q, k, v, grad], [dq, dk, dv], scratch);
        }
        let scale = f32::from_bits(a.scale);
        let parts = parts(a, self.context.info.multiprocessors);
        let second = Backward {
            q,
            k,
            v,
            grad,
            dq,
            dk,
            dv,
            lse2,
            delta,
            sums: sums_at,
            turns: turns_at,
            heads,
            queries,
            keys,
            parts: parts as i32,
            scale,
        };
        let blocks = a.batch() * parts;
        self.launch_struct(loaded.functions[2], [blocks, THREADS], key.shared()[1], second)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::nvrtc::Nvrtc;

    /// Every form of the kernels compiles, where there is a compiler; without one the test says that it skips.
    #[test]
    fn every_form_compiles() {
        let nvrtc = match Nvrtc::get() {
            Ok(n) => n,
            Err(e) => {
                println!("skipped: {e}");
                return;
            }
        };
        // Every setting both ways, and beside each other at least once.
        for (f16, width, causal, aligned, hopper) in [
            (false, 64, true, true, true),
            (true, 40, false, true, true),
            (true, 37, false, false, false),
            (false, 128, false, true, true),
            (true, 64, true, true, false),
            (false, 120, true, false, false),
        ] {
            let key = Key { f16, width, causal, aligned, hopper };
            let program = key.program();
            for target in if hopper { &["sm_90a"][..] } else { &["sm_80", "sm_90"] } {
                let code = nvrtc.build(&program.text, target, &program.options());
                assert!(code.is_ok(), "{key:?} for {target}: {}", code.unwrap_err());
            }
        }
    }
}

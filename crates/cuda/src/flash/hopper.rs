//! Hopper's kernels: what TMA is told of the arrays, and how the work is laid out.

use super::{Key, View, lead};
use crate::{backend::Cuda, module::Loaded, sys::driver};
use gradus_core::{Result, op::Attention};
use std::ffi::c_void;

/// The kernels' text.
pub const TEXTS: [&str; 3] =
    [include_str!("hopper/common.cu"), include_str!("hopper/forward.cu"), include_str!("hopper/backward.cu")];

const FORWARD_THREADS: usize = 256;
const BACKWARD_THREADS: usize = 384;
/// Keys and values of as many heads as this of the cache holds are gone through together.
const CACHED: usize = 16 << 20;

/// Dynamic shared memory of forward and backward with tiles of `d` columns, in bytes: as `forward.cu` and `backward.cu` lay
/// it out, and what their alignment may take.
pub fn shared(d: usize) -> [usize; 2] {
    let narrow = d == 64;
    let (stages, tiles) = if narrow { (4, 2) } else { (2, 1) };
    let forward = (128 + 2 * stages * 64) * d * 2 + 8 * (1 + 4 * stages);
    let steps = 2 * 2 * 64 * d * 2 + 2 * 512;
    let backward = 2 * tiles * 128 * d * 2 + steps + 128 * 128 + 2 * 64 * d * 4 + 16 + 8 * 16;
    [super::SLACK + forward, super::SLACK + backward]
}

/// How many matrices of an attention are next to each other in the order of work, if `most` of them may be: all groups
/// about alike.
fn group(batch: usize, most: usize) -> usize {
    batch.div_ceil(batch.div_ceil(most.max(1)).max(1)).max(1)
}

/// Whether TMA can read this: it wants a distance between any two.
pub fn readable(a: &Attention, view: &View) -> bool {
    let [batches, heads] = lead(a);
    view.row > 0 && (heads == 1 || view.head > 0) && (batches == 1 || view.batch > 0)
}

/// `CUtensorMap`.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Map([u64; 16]);

#[repr(C)]
struct Forward {
    q: Map,
    k: Map,
    v: Map,
    out: View,
    lse: u64,
    heads: i32,
    queries: i32,
    keys: i32,
    batch: i32,
    group: i32,
    scale: f32,
}

#[repr(C)]
struct Backward {
    q: Map,
    grad: Map,
    k: Map,
    v: Map,
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
    batch: i32,
    group: i32,
    scale: f32,
}

impl Cuda {
    /// What TMA is told of `rows` rows a head, of which it brings `tile` at a time.
    fn map(&self, a: &Attention, view: &View, rows: usize, tile: usize) -> Result<Map> {
        let [batches, heads] = lead(a);
        let sizes = [a.sizes[2], rows, heads, batches].map(|n| n as u64);
        // The stride of an axis of one does not matter, but must be there.
        let stride = |n: usize, stride: i64| if n > 1 { stride as u64 * 2 } else { 16 };
        let strides = [stride(rows, view.row), stride(heads, view.head), stride(batches, view.batch)];
        let (boxed, steps) = ([64, tile as u32, 1, 1], [1u32; 4]);
        let mut map = Map([0; 16]);
        let d = self.context.driver;
        let Some(encode) = d.tensor_map_encode_tiled else {
            return Err(crate::sys::device_error("this driver has no cuTensorMapEncodeTiled"));
        };
        // SAFETY: the map is 128 bytes at a multiple of 64; the arrays have the lengths that four axes want.
        let code = unsafe {
            encode(
                (&raw mut map).cast(),
                driver::MAP_U16,
                4,
                view.at as *mut c_void,
                sizes.as_ptr(),
                strides.as_ptr(),
                boxed.as_ptr(),
                steps.as_ptr(),
                0,
                driver::MAP_SWIZZLE_128B,
                driver::MAP_PROMOTION_256B,
                0,
            )
        };
        d.check(code, "cuTensorMapEncodeTiled")?;
        Ok(map)
    }

    pub(super) fn hopper_forward(
        &self,
        a: &Attention,
        (key, loaded): (Key, &Loaded),
        [q, k, v, out]: [View; 4],
        lse: u64,
    ) -> Result<bool> {
        let [queries, keys, ..] = a.sizes;
        let [_, heads] = lead(a);
        let most = if a.causal { CACHED / (keys * key.columns() * 4) } else { 1 };
        let argument = Forward {
            q: self.map(a, &q, queries, 128)?,
            k: self.map(a, &k, keys, 64)?,
            v: self.map(a, &v, keys, 64)?,
            out,
            lse,
            heads: heads as i32,
            queries: queries as i32,
            keys: keys as i32,
            batch: a.batch() as i32,
            group: group(a.batch(), most) as i32,
            scale: f32::from_bits(a.scale) * std::f32::consts::LOG2_E,
        };
        let blocks = a.batch() * queries.div_ceil(128);
        self.launch_struct(loaded.functions[0], [blocks, FORWARD_THREADS], key.shared()[0], argument)?;
        Ok(true)
    }

    pub(super) fn hopper_backward(
        &self,
        a: &Attention,
        (key, loaded): (Key, &Loaded),
        [q, k, v, grad]: [View; 4],
        [dq, dk, dv]: [View; 3],
        [lse2, delta, sums, turns]: [u64; 4],
    ) -> Result<bool> {
        let [queries, keys, ..] = a.sizes;
        let [_, heads] = lead(a);
        let multiprocessors = self.context.info.multiprocessors;
        let argument = Backward {
            q: self.map(a, &q, queries, 64)?,
            grad: self.map(a, &grad, queries, 64)?,
            k: self.map(a, &k, keys, 128)?,
            v: self.map(a, &v, keys, 128)?,
            dq,
            dk,
            dv,
            lse2,
            delta,
            sums,
            turns,
            heads: heads as i32,
            queries: queries as i32,
            keys: keys as i32,
            batch: a.batch() as i32,
            // So many that the tiles before are done when one's turn has come, and few enough for the cache: measured.
            group: group(a.batch(), multiprocessors * 2 / 3) as i32,
            scale: f32::from_bits(a.scale),
        };
        let blocks = multiprocessors.min(a.batch() * keys.div_ceil(128));
        self.launch_struct(loaded.functions[2], [blocks, BACKWARD_THREADS], key.shared()[1], argument)?;
        Ok(true)
    }
}

//! Matrix products through cuBLASLt; what it cannot do is a kernel of ours.
//!
//! cuBLASLt counts by columns and we by rows: `c = a b` by rows is `c' = b' a'` by columns, so the operands change
//! places and nothing is copied. An operand with a unit stride along rows or columns is read as it is, transposed or
//! not; any other is copied first.

use crate::{
    backend::{Cuda, Scratch},
    graphs,
    module::Prepared,
    sys::blas::{self, BlasLt, Handle, check},
    timer::Stopwatch,
};
use gradus_core::{
    DType, Result, Scalar,
    backend::Matmul,
    kernel::{Access, Arg, Inst, InstKind, Kernel, Level, Order, Source},
    op::{ReduceOp, ewise},
};
use std::{
    collections::HashMap,
    ffi::{c_int, c_void},
    sync::{Arc, Mutex, OnceLock},
};

/// Bytes that an algorithm may use beside its operands; what PyTorch gives it on Hopper.
const WORKSPACE: usize = 32 << 20;

/// Algorithms that are compared, how often each runs, and the operations from which on it is worth it.
const CANDIDATES: usize = 12;
const ROUNDS: usize = 4;
const MEASURED: u64 = 100_000_000;

/// An operand as cuBLASLt takes it, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Matrix {
    /// Whether memory runs along our rows' direction transposed.
    transposed: bool,
    /// Elements between the starts of two runs.
    ld: i64,
    /// Elements between matrices of the batch.
    batch: i64,
}

/// A product in cuBLASLt's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    dtype: DType,
    tf32: bool,
    mkn: [usize; 3],
    batch: usize,
    a: Matrix,
    b: Matrix,
    /// Powers of two that divide the addresses of a, b and c, up to 256.
    alignment: [u32; 3],
    /// Whether a vector is added to every row.
    bias: bool,
}

/// A description, layouts and the algorithm chosen for it.
struct Chosen {
    desc: Handle,
    layouts: [Handle; 3],
    /// Algorithms, the most promising first.
    algos: Vec<blas::Heuristic>,
    /// The one that was measured to be the fastest.
    fastest: OnceLock<usize>,
}

// SAFETY: descriptions are read only after they were made.
unsafe impl Send for Chosen {}
// SAFETY: as above.
unsafe impl Sync for Chosen {}

/// cuBLASLt with what was chosen so far.
pub struct Products {
    lib: &'static BlasLt,
    handle: Handle,
    workspace: u64,
    chosen: Mutex<HashMap<Key, Option<Arc<Chosen>>>>,
    kernels: Mutex<HashMap<KernelKey, Arc<Prepared>>>,
    biased: Mutex<()>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum KernelKey {
    Product(Matmul),
    Copy(DType, Vec<usize>, Vec<isize>),
    Bias(DType, [usize; 2]),
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for Products {}
// SAFETY: as above.
unsafe impl Sync for Products {}

impl Products {
    /// Loads the library for a GPU.
    pub fn new(cuda: &Cuda) -> Result<Products> {
        let lib = BlasLt::get()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer is to a local, and the GPU's context is current.
        check(unsafe { (lib.create)(&mut handle) }, "cublasLtCreate")?;
        let scratch = cuda.scratch(WORKSPACE)?;
        let workspace = scratch.raw;
        std::mem::forget(scratch); // one stream: all products share it, for good
        let (chosen, kernels, biased) = Default::default();
        Ok(Products { lib, handle, workspace, chosen, kernels, biased })
    }

    /// `c = a b` at these addresses, with a vector added to every row.
    pub fn run(&self, cuda: &Cuda, spec: &Matmul, addresses: [u64; 3], bias: Option<u64>) -> Result<()> {
        let [m, k, n] = spec.mkn;
        let batch: usize = spec.batch.iter().product();
        if m == 0 || n == 0 || batch == 0 {
            return Ok(());
        }
        let library = matches!(spec.dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16);
        if !library || k == 0 {
            self.own(cuda, spec, addresses)?;
            return self.add_bias(cuda, spec, addresses[2], bias);
        }
        let [a, b, c] = addresses;
        // Copies live until the product has been asked for.
        let (mut keep_a, mut keep_b) = (None, None);
        let (ma, a) = self.operand(cuda, spec, &spec.a, [m, k], a, &mut keep_a)?;
        let (mb, b) = self.operand(cuda, spec, &spec.b, [k, n], b, &mut keep_b)?;
        let alignment = [a, b, c].map(|p| 1 << p.trailing_zeros().min(8));
        let (dtype, mkn, tf32) = (spec.dtype, spec.mkn, crate::tf32());
        let key = Key { dtype, tf32, mkn, batch, a: ma, b: mb, alignment, bias: bias.is_some() };
        let known = self.chosen.lock().unwrap_or_else(|e| e.into_inner()).get(&key).cloned();
        let chosen = match known {
            Some(c) => c,
            None => {
                let made = self.choose(&key)?.map(Arc::new);
                self.chosen.lock().unwrap_or_else(|e| e.into_inner()).insert(key, made.clone());
                made
            }
        };
        let Some(chosen) = chosen else {
            if bias.is_some() {
                self.run(cuda, spec, addresses, None)?;
                return self.add_bias(cuda, spec, addresses[2], bias);
            }
            return self.own(cuda, spec, addresses);
        };
        let wide = spec.dtype == DType::F64;
        let (one32, zero32, one64, zero64) = (1f32, 0f32, 1f64, 0f64);
        let pick = |x: *const f32, y: *const f64| if wide { y.cast::<c_void>() } else { x.cast() };
        let [la, lb, lc] = chosen.layouts;
        // The address is part of the description: nobody else may use that until the product has been asked for.
        let _alone = bias.map(|_| self.biased.lock().unwrap_or_else(|e| e.into_inner()));
        if let Some(at) = bias {
            // SAFETY: the attribute is an address.
            let code = unsafe { (self.lib.desc_set)(chosen.desc, blas::DESC_BIAS_POINTER, (&raw const at).cast(), 8) };
            check(code, "cublasLtMatmulDescSetAttribute")?;
        }
        let _shared = cuda.stream_shared();
        // SAFETY: the operands have the layouts that were described, and scalars have the type of the accumulator.
        let ask = |algo: &blas::Heuristic| unsafe {
            (self.lib.matmul)(
                self.handle,
                chosen.desc,
                pick(&one32, &one64),
                b,
                lb,
                a,
                la,
                pick(&zero32, &zero64),
                c,
                lc,
                c,
                lc,
                &algo.algo,
                self.workspace,
                WORKSPACE,
                cuda.context.stream,
            )
        };
        let at = match chosen.fastest.get() {
            Some(&at) => at,
            None if crate::benchmark() && spec.flops() >= MEASURED && !graphs::recording() => {
                let at = fastest(cuda, &chosen.algos, &ask)?;
                *chosen.fastest.get_or_init(|| at)
            }
            None => 0,
        };
        check(ask(&chosen.algos[at]), "cublasLtMatmul")
    }

    /// An operand of `rows x cols` as it is, or a copy of it.
    fn operand<'a>(
        &self,
        cuda: &'a Cuda,
        spec: &Matmul,
        strides: &[isize],
        [rows, cols]: [usize; 2],
        at: u64,
        keep: &mut Option<Scratch<'a>>,
    ) -> Result<(Matrix, u64)> {
        if let Some(m) = matrix(&spec.batch, strides, rows, cols) {
            return Ok((m, at));
        }
        let dims: Vec<usize> = spec.batch.iter().copied().chain([rows, cols]).collect();
        let exe = self.kernel(cuda, KernelKey::Copy(spec.dtype, dims.clone(), strides.to_vec()))?;
        let scratch = cuda.scratch(dims.iter().product::<usize>() * spec.dtype.size())?;
        cuda.run(&exe, &[at, scratch.raw], &[], false)?;
        let to = scratch.raw;
        *keep = Some(scratch);
        Ok((Matrix { transposed: false, ld: cols as i64, batch: (rows * cols) as i64 }, to))
    }

    /// The product as a loop of ours: integers, and nothing to sum over.
    fn own(&self, cuda: &Cuda, spec: &Matmul, addresses: [u64; 3]) -> Result<()> {
        let exe = self.kernel(cuda, KernelKey::Product(spec.clone()))?;
        cuda.run(&exe, &addresses, &[], false)
    }

    /// Adds a vector to every row of a product, where the library has no way to do so.
    fn add_bias(&self, cuda: &Cuda, spec: &Matmul, c: u64, bias: Option<u64>) -> Result<()> {
        let Some(bias) = bias else { return Ok(()) };
        let [m, _, n] = spec.mkn;
        let exe = self.kernel(cuda, KernelKey::Bias(spec.dtype, [m, n]))?;
        cuda.run(&exe, &[bias, c, c], &[], false)
    }

    fn kernel(&self, cuda: &Cuda, key: KernelKey) -> Result<Arc<Prepared>> {
        let known = || self.kernels.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(exe) = known().get(&key) {
            return Ok(exe.clone());
        }
        let exe = cuda.prepare(&match &key {
            KernelKey::Product(spec) => product_kernel(spec),
            KernelKey::Copy(dtype, dims, strides) => copy_kernel(*dtype, dims, strides),
            KernelKey::Bias(dtype, shape) => bias_kernel(*dtype, *shape),
        })?;
        known().insert(key, exe.clone());
        Ok(exe)
    }

    /// Describes a product and asks for an algorithm; `None` where the library has none.
    fn choose(&self, key: &Key) -> Result<Option<Chosen>> {
        let (data, compute, scale) = match key.dtype {
            DType::F64 => (blas::R_64F, blas::COMPUTE_64F, blas::R_64F),
            DType::F16 => (blas::R_16F, blas::COMPUTE_32F, blas::R_32F),
            DType::BF16 => (blas::R_16BF, blas::COMPUTE_32F, blas::R_32F),
            _ if key.tf32 => (blas::R_32F, blas::COMPUTE_32F_FAST_TF32, blas::R_32F),
            _ => (blas::R_32F, blas::COMPUTE_32F, blas::R_32F),
        };
        let [m, k, n] = key.mkn.map(|x| x as u64);
        let set = |f: unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> c_int, h, what, value: &[u8]| {
            // SAFETY: the attribute has the size of the value.
            check(unsafe { f(h, what, value.as_ptr().cast(), value.len()) }, "cublasLt...SetAttribute")
        };
        let mut desc = std::ptr::null_mut();
        // SAFETY: the pointer is to a local.
        check(unsafe { (self.lib.desc_create)(&mut desc, compute, scale) }, "cublasLtMatmulDescCreate")?;
        // By columns our `b` is the first operand.
        for (which, transposed) in [(blas::DESC_TRANSA, key.b.transposed), (blas::DESC_TRANSB, key.a.transposed)] {
            if transposed {
                set(self.lib.desc_set, desc, which, &blas::OP_T.to_ne_bytes())?;
            }
        }
        if key.bias {
            set(self.lib.desc_set, desc, blas::DESC_EPILOGUE, &blas::EPILOGUE_BIAS.to_ne_bytes())?;
        }
        let layout = |rows: u64, cols: u64, x: Matrix| {
            let (rows, cols) = if x.transposed { (cols, rows) } else { (rows, cols) };
            let mut out = std::ptr::null_mut();
            // SAFETY: the pointer is to a local.
            check(unsafe { (self.lib.layout_create)(&mut out, data, rows, cols, x.ld) }, "cublasLtMatrixLayoutCreate")?;
            if key.batch > 1 {
                set(self.lib.layout_set, out, blas::LAYOUT_BATCH_COUNT, &(key.batch as i32).to_ne_bytes())?;
                set(self.lib.layout_set, out, blas::LAYOUT_BATCH_OFFSET, &x.batch.to_ne_bytes())?;
            }
            Ok(out)
        };
        let c = Matrix { transposed: false, ld: n as i64, batch: (m * n) as i64 };
        let layouts = [layout(k, m, key.a)?, layout(n, k, key.b)?, layout(n, m, c)?];
        let mut preference = std::ptr::null_mut();
        // SAFETY: the pointer is to a local.
        check(unsafe { (self.lib.preference_create)(&mut preference) }, "cublasLtMatmulPreferenceCreate")?;
        set(self.lib.preference_set, preference, blas::PREF_WORKSPACE, &(WORKSPACE as u64).to_ne_bytes())?;
        let [aa, ab, ac] = key.alignment;
        for (i, x) in [ab, aa, ac, ac].into_iter().enumerate() {
            set(self.lib.preference_set, preference, blas::PREF_ALIGNMENT_A + i as c_int, &x.to_ne_bytes())?;
        }
        let most = if crate::benchmark() { CANDIDATES } else { 1 };
        let (mut algos, mut found) = (vec![blas::Heuristic::default(); most], 0);
        let [la, lb, lc] = layouts;
        // SAFETY: all handles were made above; there is room for as many results as are asked for.
        let code = unsafe {
            let (room, to) = (most as c_int, algos.as_mut_ptr());
            let code = (self.lib.heuristic)(self.handle, desc, lb, la, lc, lc, preference, room, to, &mut found);
            (self.lib.preference_destroy)(preference);
            code
        };
        algos.truncate(found.max(0) as usize);
        Ok((code == 0 && found > 0).then_some(Chosen { desc, layouts, algos, fastest: OnceLock::new() }))
    }
}

/// The fastest of some algorithms on the operands at hand, which all of them leave with the same result.
fn fastest(cuda: &Cuda, algos: &[blas::Heuristic], ask: &dyn Fn(&blas::Heuristic) -> c_int) -> Result<usize> {
    let mut best = (f64::INFINITY, 0);
    for (i, algo) in algos.iter().enumerate() {
        if ask(algo) != 0 {
            continue;
        }
        let timer = Stopwatch::start(&cuda.context)?;
        let failed = (0..ROUNDS).any(|_| ask(algo) != 0);
        let ms = timer.stop(&cuda.context)?;
        if !failed && ms < best.0 {
            best = (ms, i);
        }
    }
    Ok(best.1)
}

/// An operand of `rows x cols` as cuBLASLt can read it, if it can.
fn matrix(batch: &[usize], strides: &[isize], rows: usize, cols: usize) -> Option<Matrix> {
    let r = batch.len();
    let (rs, cs) = (strides[r], strides[r + 1]);
    // An axis of extent one has any stride.
    let along = |inner: isize, outer: isize, run: usize, runs: usize| {
        let ld = if runs <= 1 { run as isize } else { outer };
        ((inner == 1 || run <= 1) && ld >= run.max(1) as isize).then_some(ld as i64)
    };
    let (transposed, ld) = match along(cs, rs, cols, rows) {
        Some(ld) => (false, ld),
        None => (true, along(rs, cs, rows, cols)?),
    };
    // One step for the whole batch.
    let mut step: Option<(isize, usize)> = None; // stride of the innermost axis, extent so far
    for d in (0..r).rev().filter(|&d| batch[d] > 1) {
        step = Some(match step {
            None => (strides[d], batch[d]),
            Some((s, n)) if strides[d] == s * n as isize => (s, n * batch[d]),
            Some(_) => return None,
        });
    }
    let step = step.map_or(0, |s| s.0);
    (step >= 0).then_some(Matrix { transposed, ld, batch: step as i64 })
}

fn elem(kind: InstKind, dtype: DType) -> Inst {
    Inst { kind, dtype, level: Level::Elem }
}

fn load(arg: usize, strides: Vec<isize>) -> InstKind {
    InstKind::Load { source: Source::Arg(arg), access: Access { strides, ..Access::default() } }
}

fn store(arg: usize, strides: Vec<isize>, value: usize) -> InstKind {
    InstKind::Store { arg, access: Access { strides, ..Access::default() }, value }
}

fn contiguous(dims: &[usize]) -> Vec<isize> {
    let mut out = vec![1isize; dims.len()];
    for d in (1..dims.len()).rev() {
        out[d - 1] = out[d] * dims[d] as isize;
    }
    out
}

fn copy_kernel(dtype: DType, dims: &[usize], strides: &[isize]) -> Kernel {
    Kernel {
        map: dims.to_vec(),
        reduce: vec![],
        args: vec![Arg { dtype, written: false }, Arg { dtype, written: true }],
        params: vec![],
        insts: vec![elem(load(0, strides.to_vec()), dtype), elem(store(1, contiguous(dims), 0), dtype)],
        order: Order::ROWS,
    }
}

/// `c[i, j] += bias[j]`: the second argument and the last are the same memory.
fn bias_kernel(dtype: DType, [m, n]: [usize; 2]) -> Kernel {
    let arg = |written| Arg { dtype, written };
    let whole = || contiguous(&[m, n]);
    let insts = vec![
        elem(load(0, vec![0, 1]), dtype),
        elem(load(1, whole()), dtype),
        elem(InstKind::Ewise(&ewise::ADD, [1, 0].into_iter().collect()), dtype),
        elem(store(2, whole(), 2), dtype),
    ];
    let args = vec![arg(false), arg(false), arg(true)];
    Kernel { map: vec![m, n], reduce: vec![], args, params: vec![], insts, order: Order::ROWS }
}

fn product_kernel(spec: &Matmul) -> Kernel {
    let [m, k, n] = spec.mkn;
    let r = spec.batch.len();
    let map: Vec<usize> = spec.batch.iter().copied().chain([m, n]).collect();
    let spread = |s: &[isize], row: isize, col: isize, inner: isize| {
        s[..r].iter().copied().chain([row, col, inner]).collect::<Vec<_>>()
    };
    let (a, b, d) = (&spec.a, &spec.b, spec.dtype);
    let mut out = contiguous(&map);
    out.push(0);
    let args = [false, false, true].map(|written| Arg { dtype: d, written }).to_vec();
    if k == 0 {
        out.pop();
        let zero = Inst { kind: InstKind::Const(Scalar::I(0).cast(d)), dtype: d, level: Level::Uniform };
        return Kernel {
            map,
            reduce: vec![],
            args,
            params: vec![],
            insts: vec![zero, elem(store(2, out, 0), d)],
            order: Order::ROWS,
        };
    }
    let insts = vec![
        elem(load(0, spread(a, a[r], 0, a[r + 1])), d),
        elem(load(1, spread(b, 0, b[r + 1], b[r])), d),
        elem(InstKind::Ewise(&ewise::MUL, [0, 1].into_iter().collect()), d),
        Inst { kind: InstKind::Reduce(ReduceOp::Sum, 2), dtype: d, level: Level::Row },
        Inst { kind: store(2, out, 3), dtype: d, level: Level::Row },
    ];
    Kernel { map, reduce: vec![k], args, params: vec![], insts, order: Order::COLUMNS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::kernel::{oracle, verify};

    #[test]
    fn layouts_that_need_no_copy() {
        let m = |t, ld, batch| Some(Matrix { transposed: t, ld, batch });
        assert_eq!(matrix(&[], &[5, 1], 4, 5), m(false, 5, 0));
        assert_eq!(matrix(&[], &[1, 4], 4, 5), m(true, 4, 0));
        assert_eq!(matrix(&[], &[9, 1], 4, 5), m(false, 9, 0)); // a slice of wider rows
        assert_eq!(matrix(&[], &[0, 1], 1, 5), m(false, 5, 0)); // one row
        assert_eq!(matrix(&[], &[1, 7], 4, 1), m(false, 1, 0)); // one column
        assert_eq!(matrix(&[2, 3], &[60, 20, 5, 1], 4, 5), m(false, 5, 20));
        assert_eq!(matrix(&[2, 1], &[20, 7, 5, 1], 4, 5), m(false, 5, 20));
        assert_eq!(matrix(&[6], &[0, 5, 1], 4, 5), m(false, 5, 0)); // one matrix for all
        assert_eq!(matrix(&[2, 3], &[0, 20, 5, 1], 4, 5), None); // the batch is not one step
        assert_eq!(matrix(&[], &[10, 2], 4, 5), None); // every second column
        assert_eq!(matrix(&[], &[0, 1], 4, 5), None); // one row repeated
        assert_eq!(matrix(&[], &[-5, 1], 4, 5), None); // upside down
    }

    #[test]
    fn own_products_are_products() {
        let bytes = |xs: &[i64]| xs.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
        for k in [0usize, 3] {
            let spec = Matmul { dtype: DType::I64, batch: vec![2], mkn: [2, k, 2], a: vec![0, 3, 1], b: vec![6, 2, 1] };
            let kernel = product_kernel(&spec);
            assert_eq!(verify(&kernel), Ok(()));
            let mut args = [bytes(&[1, 2, 3, 4, 5, 6]), bytes(&(1..13).collect::<Vec<_>>()), bytes(&[7; 8])];
            let mut slots: Vec<_> = args.iter_mut().map(|b| oracle::Bytes { bytes: b, offset: 0 }).collect();
            oracle::run(&kernel, &mut slots, &[]).unwrap();
            let want = if k == 0 { [0; 8] } else { [22, 28, 49, 64, 58, 64, 139, 154] };
            assert_eq!(args[2], bytes(&want));
        }
    }

    #[test]
    fn a_bias_can_be_added_afterwards() {
        let k = bias_kernel(DType::F32, [2, 3]);
        assert_eq!(verify(&k), Ok(()));
        assert!(k.may_overwrite(1, 2), "it is written where the product lies");
    }
}

//! Convolutions and their gradients through cuDNN, with algorithms that give the same bits every time.

use crate::{
    backend::Cuda,
    sys::{
        dnn::{self, Dnn, Handle, Perf, check},
        driver,
    },
};
use gradus_core::{
    DType, Result,
    op::{Conv, ConvKind},
};
use std::{
    collections::HashMap,
    ffi::{c_int, c_void},
    sync::{Arc, Mutex},
};

/// Algorithms may use this much memory beside their operands.
const MOST: usize = 1 << 30;

/// Descriptions and the algorithm for one geometry.
struct Chosen {
    kind: usize,
    /// Of the first operand, the second and the result.
    operands: [Handle; 3],
    conv: Handle,
    algo: c_int,
    workspace: usize,
}

// SAFETY: descriptions are read only after they were made.
unsafe impl Send for Chosen {}
// SAFETY: as above.
unsafe impl Sync for Chosen {}

type Key = (Conv, DType, bool);

/// cuDNN with what was chosen so far.
pub struct Convolutions {
    lib: &'static Dnn,
    handle: Handle,
    chosen: Mutex<HashMap<Key, Option<Arc<Chosen>>>>,
}

// SAFETY: the handle is used under the stream's order by one call at a time (see `run`).
unsafe impl Send for Convolutions {}
// SAFETY: as above.
unsafe impl Sync for Convolutions {}

fn ints(xs: &[usize]) -> Option<Vec<c_int>> {
    xs.iter().map(|&x| c_int::try_from(x).ok()).collect()
}

/// At least two spatial axes: cuDNN has no convolution over one.
fn padded(xs: impl Iterator<Item = usize>, fill: usize, n: usize) -> Vec<usize> {
    let xs: Vec<usize> = xs.collect();
    std::iter::repeat_n(fill, n.saturating_sub(xs.len())).chain(xs).collect()
}

/// Elements to step along each axis of `[n, c, ..]`, with the channels last if so.
fn strides_of(dims: &[c_int], channels_last: bool) -> Vec<c_int> {
    let order: Vec<usize> = if channels_last {
        std::iter::once(0).chain(2..dims.len()).chain([1]).collect()
    } else {
        (0..dims.len()).collect()
    };
    let mut steps = vec![1; dims.len()];
    let mut step: c_int = 1;
    for &axis in order.iter().rev() {
        steps[axis] = step;
        step = step.saturating_mul(dims[axis]);
    }
    steps
}

impl Convolutions {
    /// Loads the library for a GPU.
    pub fn new(stream: driver::Handle) -> Result<Convolutions> {
        let lib = Dnn::get()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer is to a local, and the GPU's context is current.
        unsafe {
            check((lib.create)(&mut handle), "cudnnCreate")?;
            check((lib.set_stream)(handle, stream), "cudnnSetStream")?;
        }
        Ok(Convolutions { lib, handle, chosen: Mutex::default() })
    }

    /// Runs a convolution at these addresses; `false` where cuDNN has no way.
    pub fn run(&self, cuda: &Cuda, spec: &Conv, dtype: DType, [a, b, c]: [u64; 3]) -> Result<bool> {
        let key = (spec.clone(), dtype, crate::tf32());
        let mut all = self.chosen.lock().unwrap_or_else(|e| e.into_inner());
        let chosen = match all.get(&key) {
            Some(c) => c.clone(),
            None => {
                let made = self.choose(spec, dtype)?.map(Arc::new);
                all.insert(key, made.clone());
                made
            }
        };
        let Some(x) = chosen else { return Ok(false) };
        let scratch = cuda.scratch(x.workspace)?;
        let (one32, zero32, one64, zero64) = (1f32, 0f32, 1f64, 0f64);
        let wide = dtype == DType::F64;
        let pick = |x: *const f32, y: *const f64| if wide { y.cast::<c_void>() } else { x.cast() };
        let [da, db, dc] = x.operands;
        // cuDNN takes the filter before the output's gradient, and the input before it.
        let (first, second) = match spec.kind {
            ConvKind::Forward => ((da, a), (db, b)),
            ConvKind::InputGrad | ConvKind::WeightGrad => ((db, b), (da, a)),
        };
        let _shared = cuda.stream_shared();
        // SAFETY: the operands have the shapes that were described; scalars have the type of the accumulator. The lock
        // on the algorithms is held: one call at a time uses the handle.
        let code = unsafe {
            (self.lib.run[x.kind])(
                self.handle,
                pick(&one32, &one64),
                first.0,
                first.1,
                second.0,
                second.1,
                x.conv,
                x.algo,
                scratch.raw,
                x.workspace,
                pick(&zero32, &zero64),
                dc,
                c,
            )
        };
        drop(all);
        check(code, "cudnnConvolution").map(|()| true)
    }

    fn choose(&self, spec: &Conv, dtype: DType) -> Result<Option<Chosen>> {
        let (data, computed) = match dtype {
            DType::F32 => (dnn::FLOAT, dnn::FLOAT),
            DType::F64 => (dnn::DOUBLE, dnn::DOUBLE),
            DType::F16 => (dnn::HALF, dnn::FLOAT),
            DType::BF16 => (dnn::BFLOAT16, dnn::FLOAT),
            DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => return Ok(None),
        };
        let even = spec.params.padding.iter().all(|(before, after)| before == after);
        let empty = [&spec.input, &spec.weight, &spec.output].iter().any(|s| s.numel() == 0);
        if !even || empty || spec.input.rank() > 5 {
            return Ok(None);
        }
        let n = spec.params.stride.len().max(2);
        let shape =
            |s: &[usize]| ints(&s[..2].iter().copied().chain(padded(s[2..].iter().copied(), 1, n)).collect::<Vec<_>>());
        let (Some(input), Some(weight), Some(output)) = (shape(&spec.input), shape(&spec.weight), shape(&spec.output))
        else {
            return Ok(None);
        };
        let p = &spec.params;
        let (pads, strides, dilations) = (
            ints(&padded(p.padding.iter().map(|x| x.0), 0, n)),
            ints(&padded(p.stride.iter().copied(), 1, n)),
            ints(&padded(p.dilation.iter().copied(), 1, n)),
        );
        let (Some(pads), Some(strides), Some(dilations)) = (pads, strides, dilations) else { return Ok(None) };
        let tensor = |dims: &[c_int]| {
            let steps = strides_of(dims, spec.channels_last);
            let mut out = std::ptr::null_mut();
            // SAFETY: pointers are to locals and lists of the length given.
            unsafe {
                check((self.lib.tensor_create)(&mut out), "cudnnCreateTensorDescriptor")?;
                let code = (self.lib.tensor_set)(out, data, dims.len() as c_int, dims.as_ptr(), steps.as_ptr());
                check(code, "cudnnSetTensorNdDescriptor")?;
            }
            Ok(out)
        };
        let (x, y) = (tensor(&input)?, tensor(&output)?);
        let (mut w, mut conv) = (std::ptr::null_mut(), std::ptr::null_mut());
        let half = dtype.size() == 2;
        let math = match (half, crate::tf32()) {
            (true, _) => dnn::TENSOR_OP_MATH,
            (false, true) => dnn::DEFAULT_MATH,
            (false, false) => dnn::FMA_MATH,
        };
        let format = if spec.channels_last { dnn::NHWC } else { dnn::NCHW };
        // SAFETY: as above.
        unsafe {
            check((self.lib.filter_create)(&mut w), "cudnnCreateFilterDescriptor")?;
            let code = (self.lib.filter_set)(w, data, format, weight.len() as c_int, weight.as_ptr());
            check(code, "cudnnSetFilterNdDescriptor")?;
            check((self.lib.conv_create)(&mut conv), "cudnnCreateConvolutionDescriptor")?;
            let lists = (pads.as_ptr(), strides.as_ptr(), dilations.as_ptr());
            let code =
                (self.lib.conv_set)(conv, n as c_int, lists.0, lists.1, lists.2, dnn::CROSS_CORRELATION, computed);
            check(code, "cudnnSetConvolutionNdDescriptor")?;
            check((self.lib.conv_groups)(conv, p.groups as c_int), "cudnnSetConvolutionGroupCount")?;
            check((self.lib.conv_math)(conv, math), "cudnnSetConvolutionMathType")?;
        }
        // As the functions take them, and (operands) as our steps name them: first, second, result.
        let (kind, lists, operands) = match spec.kind {
            ConvKind::Forward => (0, [x, w, conv, y], [x, w, y]),
            ConvKind::InputGrad => (1, [w, y, conv, x], [y, w, x]),
            ConvKind::WeightGrad => (2, [x, y, conv, w], [y, x, w]),
        };
        let mut found = [Perf::default(); 10];
        let mut count = 0;
        let [l0, l1, l2, l3] = lists;
        // In 16 bits algorithms lie far apart, and which one wins depends on the GPU: each is tried, on memory of its
        // own, the first time. While a plan is recorded nothing can be tried, but then it has run before.
        let find = if half && !crate::graphs::recording() { self.lib.measure[kind] } else { self.lib.find[kind] };
        // SAFETY: there is room for ten results.
        let code = unsafe { find(self.handle, l0, l1, l2, l3, 10, &mut count, found.as_mut_ptr()) };
        if code != 0 {
            return Ok(None);
        }
        for f in &found[..(count.max(0) as usize).min(10)] {
            let mut workspace = 0usize;
            let fits = f.status == 0 && f.determinism == dnn::DETERMINISTIC && f.memory <= MOST;
            // SAFETY: the pointer is to a local; the description takes the mathematics of the algorithm.
            if fits && unsafe { (self.lib.workspace[kind])(self.handle, l0, l1, l2, l3, f.algo, &mut workspace) } == 0 {
                // SAFETY: the description was made above.
                check(unsafe { (self.lib.conv_math)(conv, f.math) }, "cudnnSetConvolutionMathType")?;
                return Ok(Some(Chosen { kind, operands, conv, algo: f.algo, workspace }));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_axis_becomes_two() {
        assert_eq!(padded([7].into_iter(), 1, 2), [1, 7]);
        assert_eq!(padded([5, 7].into_iter(), 1, 2), [5, 7]);
        assert_eq!(ints(&[3, usize::MAX]), None);
    }

    #[test]
    fn the_channels_of_a_pixel_lie_side_by_side() {
        assert_eq!(strides_of(&[2, 3, 4, 5], false), [60, 20, 5, 1]);
        assert_eq!(strides_of(&[2, 3, 4, 5], true), [60, 1, 15, 3]);
    }
}

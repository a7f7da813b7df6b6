//! Random programs over tensors: views, broadcasts, reductions, look-ups and mixed types, from a list of numbers.
//!
//! The same numbers give the same program, so one list can be run on two devices and the results compared.

use gradus_core::{DType, Device, PadMode, Result, Tensor};

/// Reads choices off a list; when it is used up, everything is zero, which ends the program.
pub struct Choices<'a>(std::slice::Iter<'a, u32>);

impl<'a> Choices<'a> {
    /// From a list.
    pub fn new(list: &'a [u32]) -> Self {
        Choices(list.iter())
    }

    fn next(&mut self, below: usize) -> usize {
        self.0.next().map_or(0, |&c| c as usize % below.max(1))
    }
}

const DTYPES: [DType; 8] =
    [DType::F32, DType::F64, DType::I64, DType::I32, DType::Bool, DType::F32, DType::U8, DType::F32];

/// How the intermediate tensors are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything at once: the planner fuses what it can.
    Fused,
    /// Every operation computed on its own.
    StepByStep,
}

/// Runs the program that `list` spells on `device`; the last few tensors are its results.
pub fn run(list: &[u32], device: Device, mode: Mode) -> Result<Vec<Tensor>> {
    Ok(run_from(list, device, mode, false)?.1)
}

/// As [`run`], also with the tensors the program starts from; with `tracked`, those of floats are variables.
pub fn run_from(list: &[u32], device: Device, mode: Mode, tracked: bool) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let mut c = Choices::new(list);
    let mut pool: Vec<Tensor> = vec![];
    let leaves = 1 + c.next(3);
    for _ in 0..leaves {
        let t = leaf(&mut c, device)?;
        pool.push(if tracked && t.dtype().is_float() { t.requires_grad_() } else { t });
    }
    let start = pool.clone();
    let steps = 2 + c.next(9);
    for _ in 0..steps {
        let Some(t) = step(&mut c, &pool)? else { continue };
        // Large intermediates make the oracle slow and show nothing new.
        if t.numel() > 20_000 {
            continue;
        }
        if mode == Mode::StepByStep {
            t.eval()?;
        }
        pool.push(t);
    }
    let keep = 1 + c.next(2);
    let from = pool.len().saturating_sub(keep);
    Ok((start, pool.split_off(from)))
}

fn leaf(c: &mut Choices<'_>, device: Device) -> Result<Tensor> {
    // Mostly small; now and then long enough for blocks, chunks and threads.
    let sizes: [&[usize]; 20] = [
        &[3, 4],
        &[2, 3, 5],
        &[7],
        &[],
        &[1, 6],
        &[40, 33],
        &[5, 700],
        &[9000],
        &[2, 1, 3, 4],
        &[0, 3],
        // Short rows, lines that others share, and planes.
        &[4, 280, 9],
        &[280],
        &[4, 280],
        &[280, 1],
        &[30, 20, 16],
        &[16, 257],
        &[64, 65],
        &[3, 8, 8, 12],
        // Rows that are several lines.
        &[4, 6, 50],
        &[3, 5, 9, 40],
    ];
    let shape = sizes[c.next(sizes.len())];
    let dtype = DTYPES[c.next(DTYPES.len())];
    let n: usize = shape.iter().product();
    let seed = c.next(1000) as u64;
    // Small numbers with a few digits: products stay finite and comparisons meet ties.
    let values: Vec<f64> =
        (0..n as u64).map(|i| (((i + 1) * (2 * seed + 7919) * 104_729) % 41) as f64 / 8.0 - 2.5).collect();
    let t =
        Tensor::from_slice(&values, shape)?.to_dtype(if dtype.is_float() { dtype } else { DType::I64 }).to_dtype(dtype);
    t.eval()?;
    let t = t.to(&device);
    t.eval()?;
    Ok(t)
}

/// One more operation on what is there; `None` where the choice makes no sense for these shapes.
fn step(c: &mut Choices<'_>, pool: &[Tensor]) -> Result<Option<Tensor>> {
    let x = pool[pool.len() - 1 - c.next(pool.len().min(4))].clone();
    let y = pool[c.next(pool.len())].clone();
    let r = x.rank();
    let axis = c.next(r.max(1)) as i64;
    let n = x.dims().get(axis as usize).copied().unwrap_or(0);
    let number = c.next(9) as f64 / 4.0 - 1.0;
    Ok(Some(match c.next(30) {
        0 => x.tanh(),
        1 => x.exp().clamp(0.0, 50.0)?,
        2 => x.abs().sqrt(),
        3 => -x.to_dtype(if x.dtype() == DType::Bool { DType::I64 } else { x.dtype() }),
        4 => (&x * number).sin(),
        5 | 6 if x.shape().broadcast(y.shape()).is_some() => &x + &y,
        7 if x.shape().broadcast(y.shape()).is_some() => &x * &y,
        8 if x.shape().broadcast(y.shape()).is_some() => x.maximum(&y)?,
        9 if x.shape().broadcast(y.shape()).is_some() => x.gt(number)?.where_(&x, &y)?,
        10 => x.to_dtype(DTYPES[c.next(DTYPES.len())]),
        11 if r > 1 => x.transpose(0, -1)?,
        12 if r > 0 => x.flip(axis)?,
        13 if n > 1 => x.narrow(axis, 1, n - 1)?,
        14 if r < 4 => {
            let lead = 1 + c.next(3);
            x.expand([lead].iter().copied().chain(x.dims().iter().copied()).collect::<Vec<_>>())?
        }
        15 => x.view([-1])?,
        16 if r < 4 => x.unsqueeze(axis)?,
        17 if n >= 2 => x.unfold(axis, 2, 1 + c.next(2))?,
        18 if r > 0 => x.sum_dim(axis, c.next(2) == 1)?,
        19 if n > 0 => x.amax(axis, true)?,
        20 if r > 1 && x.numel() > 0 => x.amin([0, -1], false)?,
        21 if r > 0 => {
            let shifted = x.to_dtype(x.dtype().to_float());
            if n == 0 {
                return Ok(None);
            }
            let e = (&shifted - shifted.amax(axis, true)?).exp();
            &e / e.sum_dim(axis, true)?
        }
        22 => x.mean(),
        23 if r > 0 && y.shape() == x.shape() => Tensor::cat(&[&x, &y, &x], axis)?,
        24 if n > 0 && r > 0 => {
            // Positions from the data itself, brought into range.
            let at = x.to_dtype(DType::I64).remainder(n as i64)?;
            x.gather(axis, &at)?
        }
        25 if r == 2 && x.numel() < 3000 && x.dtype() == DType::F64 => {
            // Whole numbers, so that the order of the sums does not matter.
            let w = x.round().clamp(-9.0, 9.0)?;
            w.matmul(&w.t()?)? + 0.0 // and the sign of a zero neither
        }
        26 if r > 0 => x.narrow(axis, 0, n / 2)?.flip(axis)?.cumsum(axis)?,
        27 if r > 0 => {
            let last = x.dims()[r - 1] as i64;
            let amounts = [c.next(3) as i64, c.next(4) as i64 - 1, c.next(3) as i64, c.next(2) as i64];
            let constant = PadMode::Constant(if c.next(2) == 0 { 0.0 } else { number.round() });
            // Crops at most what is there.
            if last < 1 {
                return Ok(None);
            }
            x.pad(&amounts[..2 * r.min(2)], constant)?
        }
        28 if r > 2 => x.to_dtype(x.dtype().to_float()).sum_dim([0, -1], true)?,
        29 if r > 2 => {
            let d = x.to_dtype(x.dtype().to_float());
            let d = &d - d.mean_dim([0, -1], true)?;
            &d * ((&d * &d).mean_dim([0, -1], true)? + 1.0).rsqrt()
        }
        _ => x.lt(number)?,
    }))
}

/// The operations and kernels of a program, for a failure's message.
pub fn describe(list: &[u32]) -> String {
    let Ok(results) = run(list, Device::cpu(), Mode::Fused) else { return "(it fails while it is built)".into() };
    let roots: Vec<&Tensor> = results.iter().collect();
    let mut text = String::new();
    for t in gradus_core::graph::topological(&roots, |_| true) {
        let inputs: Vec<String> = t.node().inputs().iter().map(|i| format!("#{}", i.id())).collect();
        text += &format!("#{} {:?} {} {} {}\n", t.id(), t.node().op, t.dtype(), t.shape(), inputs.join(" "));
    }
    if let Ok(e) = Tensor::explain_all(&roots) {
        text += &format!("{e}\n");
        e.steps.iter().filter_map(|s| s.kernel.as_ref()).for_each(|k| text += &format!("{k}"));
    }
    text
}

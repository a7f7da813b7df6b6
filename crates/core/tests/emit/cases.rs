//! Kernels for every row, reduction, conversion and way of reading.

use gradus_core::{
    Bound, DType, Element, Scalar,
    kernel::{Access, Arg, Inst, InstKind, Kernel, Level, Lookup, Order, Source, oracle},
    op::{
        ReduceOp,
        ewise::{self, Ewise, Kind},
    },
    with_dtype,
};

/// A kernel with inputs, and how near the oracle its results must be.
pub struct Case {
    pub name: String,
    pub row: Option<&'static str>,
    pub kernel: Kernel,
    /// One buffer an argument; written ones are filled with a pattern.
    pub args: Vec<Vec<u8>>,
    pub offsets: Vec<isize>,
    pub params: Vec<Scalar>,
    /// Relative error allowed; 0 asks for the same bits.
    pub tolerance: f64,
    /// Bits that the run must raise (the oracle then fails, and values are not compared).
    pub raises: u32,
}

fn bytes_of(dtype: DType, values: &[Scalar]) -> Vec<u8> {
    with_dtype!(dtype, T => values.iter().flat_map(|x| {
        let x: T = if dtype.is_float() { T::from_f64(x.f64()) } else { T::from_i64(x.i64()) };
        // SAFETY: any element is plain bytes.
        unsafe { std::slice::from_raw_parts((&raw const x).cast::<u8>(), size_of::<T>()) }.to_vec()
    }).collect())
}

fn values_of(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    with_dtype!(dtype, T => bytes.chunks(size_of::<T>()).map(|b| {
        // SAFETY: each chunk holds one element.
        unsafe { b.as_ptr().cast::<T>().read_unaligned() }.to_f64()
    }).collect())
}

impl Case {
    /// The oracle's results against those of `run`.
    ///
    /// Without `order`, sums may have been taken in another order.
    pub fn compare(&self, order: bool, run: impl FnOnce(&mut [Vec<u8>], &mut u32)) -> Result<(), String> {
        let mut want = self.args.clone();
        let mut slots: Vec<oracle::Bytes<'_>> = want
            .iter_mut()
            .enumerate()
            .map(|(i, b)| oracle::Bytes { bytes: b, offset: self.offsets.get(i).copied().unwrap_or(0) })
            .collect();
        let defined = oracle::run(&self.kernel, &mut slots, &self.params);
        let (mut got, mut flags) = (self.args.clone(), 0u32);
        run(&mut got, &mut flags);
        if flags != self.raises || defined.is_err() != (self.raises != 0) {
            return Err(format!("{}: raised {flags}, oracle {defined:?}", self.name));
        }
        if self.raises != 0 {
            return Ok(());
        }
        for (a, arg) in self.kernel.args.iter().enumerate().filter(|(_, a)| a.written) {
            let (w, g) = (values_of(arg.dtype, &want[a]), values_of(arg.dtype, &got[a]));
            let top = w.iter().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(x.abs()));
            // A sum near zero has the rounding of its terms.
            let top = top.max(self.kernel.cols() as f64 * 1e-3);
            let loose = match arg.dtype {
                _ if order || self.row.is_some() => 0.0,
                DType::F32 => 1e-5,
                DType::F64 => 1e-13,
                DType::F16 => 2e-3,
                DType::BF16 => 1e-2,
                DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => 0.0,
            };
            for (i, (w, g)) in w.iter().zip(&g).enumerate() {
                let same = w == g || w.is_nan() && g.is_nan();
                let near = (w - g).abs() <= (self.tolerance * w.abs().max(1e-30)).max(loose * top);
                if !same && !near {
                    return Err(format!("{}: element {i}: {g:?}, not {w:?}", self.name));
                }
            }
        }
        Ok(())
    }
}

/// A kernel under construction.
struct Make(Case);

impl Make {
    fn new(name: impl Into<String>, map: &[usize], reduce: &[usize], order: Order) -> Make {
        let kernel =
            Kernel { map: map.to_vec(), reduce: reduce.to_vec(), args: vec![], params: vec![], insts: vec![], order };
        let (args, offsets, params) = (vec![], vec![], vec![]);
        Make(Case { name: name.into(), row: None, kernel, args, offsets, params, tolerance: 0.0, raises: 0 })
    }

    fn inst(&mut self, kind: InstKind, dtype: DType, level: Level) -> usize {
        self.0.kernel.insts.push(Inst { kind, dtype, level });
        self.0.kernel.insts.len() - 1
    }

    fn input(&mut self, dtype: DType, values: &[Scalar]) -> usize {
        self.0.kernel.args.push(Arg { dtype, written: false });
        self.0.args.push(bytes_of(dtype, values));
        self.0.args.len() - 1
    }

    fn load(&mut self, arg: usize, strides: &[isize]) -> usize {
        self.load_at(arg, Access { strides: strides.to_vec(), ..Access::default() })
    }

    fn load_at(&mut self, arg: usize, access: Access) -> usize {
        let dtype = self.0.kernel.args[arg].dtype;
        self.inst(InstKind::Load { source: Source::Arg(arg), access }, dtype, Level::Elem)
    }

    fn store(&mut self, value: usize, count: usize, strides: &[isize], level: Level) {
        let dtype = self.0.kernel.insts[value].dtype;
        self.0.kernel.args.push(Arg { dtype, written: true });
        self.0.args.push(vec![0; count * dtype.size()]);
        let access = Access { strides: strides.to_vec(), ..Access::default() };
        let arg = self.0.args.len() - 1;
        self.inst(InstKind::Store { arg, access, value }, dtype, level);
    }

    fn ewise(&mut self, row: &'static Ewise, vals: &[usize], dtype: DType, level: Level) -> usize {
        self.inst(InstKind::Ewise(row, vals.iter().copied().collect()), dtype, level)
    }

    fn done(self) -> Case {
        self.0
    }
}

/// Numbers to try in a type: edges first, then what lies in a domain.
fn samples(dtype: DType, (lo, hi): (f64, f64)) -> Vec<Scalar> {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    if dtype.is_float() {
        let edges = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-4, 30.0, -30.0, inf, -inf, nan];
        let inner = (0..12).map(|i| lo + (hi - lo) * (i as f64 + 0.37) / 12.0);
        return edges.into_iter().chain(inner).map(Scalar::F).collect();
    }
    if dtype == DType::Bool {
        return vec![Scalar::B(false), Scalar::B(true)];
    }
    let ends = match dtype {
        DType::I64 => [i64::MIN, i64::MAX],
        DType::I32 => [i32::MIN as i64, i32::MAX as i64],
        DType::I16 => [i16::MIN as i64, i16::MAX as i64],
        DType::I8 => [i8::MIN as i64, i8::MAX as i64],
        _ => [0, 255],
    };
    let all = ends.into_iter().chain([0, 1, 2, 3, 7, 12, 40, 70, 100, -1, -2, -3, -7, -12]);
    all.filter(|&x| dtype != DType::U8 || x >= 0).map(Scalar::I).collect()
}

/// One row over all combinations of samples.
fn row_case(row: &'static Ewise, dtype: DType) -> Case {
    let xs = samples(dtype, row.domain);
    let divides = row.divides() && dtype.is_int();
    let mut columns: Vec<Vec<Scalar>> = vec![vec![]; row.arity];
    let n = if row.arity == 3 { xs.len().min(6) } else { xs.len() };
    for i in 0..n.pow(row.arity as u32) {
        let mut rest = i;
        let tuple: Vec<Scalar> = (0..row.arity).map(|_| (xs[rest % n], rest /= n).0).collect();
        if divides && tuple[1].i64() == 0 {
            continue;
        }
        // The order of a derivative is a small whole number.
        let order = tuple[0].f64();
        if row.name == "polygamma" && !(order.trunc() == order && (0.0..6.0).contains(&order)) {
            continue;
        }
        tuple.into_iter().zip(&mut columns).for_each(|(x, c)| c.push(x));
    }
    let count = columns[0].len();
    let mut m = Make::new(format!("{} over {dtype}", row.name), &[count], &[], Order::ROWS);
    let mut vals = vec![];
    for (i, c) in columns.iter().enumerate() {
        let d = if row.kind == Kind::Select && i == 0 { DType::Bool } else { dtype };
        let c: Vec<Scalar> = c.iter().map(|x| x.cast(d)).collect();
        let a = m.input(d, &c);
        vals.push(m.load(a, &[1]));
    }
    let out = if row.kind == Kind::Compare { DType::Bool } else { dtype };
    let y = m.ewise(row, &vals, out, Level::Elem);
    m.store(y, count, &[1], Level::Elem);
    let mut c = m.done();
    c.row = Some(row.name);
    // Functions differ in their last digits; what is rounded to 16 bits may then fall the other way.
    c.tolerance = match dtype {
        DType::F32 => 4e-6,
        DType::F64 => 1e-12,
        DType::F16 => 1e-3,
        DType::BF16 => 8e-3,
        _ => 0.0,
    };
    c
}

fn cast_case(from: DType, to: DType) -> Case {
    let mut xs = samples(from, (-300.0, 300.0));
    if from.is_float() {
        let more = [255.9, 1e10, -1e10, 1e20, -1e20, 65504.0, 65520.0, 1e-8, 3e-8, -6.1e-5, 1e-40, 2049.0, 2051.0, 0.1];
        xs.extend(more.map(Scalar::F));
    }
    let mut m = Make::new(format!("cast {from} to {to}"), &[xs.len()], &[], Order::ROWS);
    let a = m.input(from, &xs);
    let x = m.load(a, &[1]);
    let y = m.inst(InstKind::Cast(x), to, Level::Elem);
    m.store(y, xs.len(), &[1], Level::Elem);
    m.done()
}

fn noise(dtype: DType, n: usize) -> Vec<Scalar> {
    let value = |i: usize| {
        let h = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        if dtype.is_float() {
            Scalar::F(h as f64 / (1 << 23) as f64 - 1.0)
        } else {
            Scalar::I(h as i64 % 200 - if dtype == DType::U8 { 0 } else { 150 }).cast(dtype)
        }
    };
    (0..n).map(value).collect()
}

/// `rows` reductions of `cols` elements, along memory or (with one lane) across it.
pub fn reduce(op: ReduceOp, dtype: DType, rows: usize, cols: usize, order: Order) -> Case {
    let mut m = Make::new(format!("{} of {rows} x {cols} {dtype} {order:?}", op.name()), &[rows], &[cols], order);
    let n = if rows * cols > 1 << 24 { 0 } else { rows * cols };
    let a = m.input(dtype, &noise(dtype, n));
    let strides = if order.lanes == 1 { [1, rows as isize] } else { [cols as isize, 1] };
    let x = m.load(a, &strides);
    let y = m.inst(InstKind::Reduce(op, x), dtype, Level::Row);
    m.store(y, if n == 0 && cols > 0 { 0 } else { rows }, &[1, 0], Level::Row);
    m.done()
}

/// Two stages and a store of elements: `(x - max) / sum(x - max)`.
fn stages(dtype: DType, rows: usize, cols: usize, order: Order) -> Case {
    let mut m = Make::new(format!("stages of {rows} x {cols} {dtype} {order:?}"), &[rows], &[cols], order);
    let a = m.input(dtype, &noise(dtype, rows * cols));
    let x = m.load(a, &[cols as isize, 1]);
    let top = m.inst(InstKind::Reduce(ReduceOp::Max, x), dtype, Level::Row);
    let low = m.inst(InstKind::Reduce(ReduceOp::Min, x), dtype, Level::Row);
    let d = m.ewise(&ewise::SUB, &[x, top], dtype, Level::Elem);
    let s = m.inst(InstKind::Reduce(ReduceOp::Sum, d), dtype, Level::Row);
    let y = m.ewise(&ewise::DIV, &[d, s], dtype, Level::Elem);
    let span = m.ewise(&ewise::SUB, &[top, low], dtype, Level::Row);
    m.store(y, rows * cols, &[cols as isize, 1], Level::Elem);
    m.store(span, rows, &[1, 0], Level::Row);
    m.done()
}

/// As [`stages`], along the first axis of what lies row by row.
fn stages_across(rows: usize, cols: usize) -> Case {
    let d = DType::F32;
    let mut m = Make::new(format!("stages across {rows} x {cols}"), &[rows], &[cols], Order::COLUMNS);
    let a = m.input(d, &noise(d, rows * cols));
    let scale = m.input(d, &noise(d, rows));
    let x = m.load(a, &[1, rows as isize]);
    let access = Access { strides: vec![1, 0], ..Access::default() };
    let w = m.inst(InstKind::Load { source: Source::Arg(scale), access }, d, Level::Row);
    let top = m.inst(InstKind::Reduce(ReduceOp::Max, x), d, Level::Row);
    let shift = m.ewise(&ewise::MUL, &[top, w], d, Level::Row);
    let y = m.ewise(&ewise::SUB, &[x, shift], d, Level::Elem);
    let s = m.inst(InstKind::Reduce(ReduceOp::Sum, y), d, Level::Row);
    let z = m.ewise(&ewise::SUB, &[y, s], d, Level::Elem);
    m.store(z, rows * cols, &[1, rows as isize], Level::Elem);
    m.store(shift, rows, &[1, 0], Level::Row);
    m.store(s, rows, &[1, 0], Level::Row);
    m.done()
}

/// A batch of transposed matrices plus a row.
fn transpose(rows: usize, cols: usize, size: usize) -> Case {
    let d = if size == 4 { DType::F32 } else { DType::F16 };
    let mut m = Make::new(format!("transpose {rows} x {cols} of {d}"), &[2, rows, cols], &[], Order::ROWS);
    let a = m.input(d, &noise(d, 2 * rows * cols));
    let b = m.input(d, &noise(d, cols));
    let x = m.load(a, &[(rows * cols) as isize, 1, rows as isize]);
    let y = m.load(b, &[0, 0, 1]);
    let z = m.ewise(&ewise::ADD, &[x, y], d, Level::Elem);
    m.store(z, 2 * rows * cols, &[(rows * cols) as isize, cols as isize, 1], Level::Elem);
    m.done()
}

/// A transposed, flipped read with padding, under a launch offset.
fn pad() -> Case {
    let mut m = Make::new("pad", &[5, 6], &[], Order::ROWS);
    let a = m.input(DType::F32, &noise(DType::F32, 2 + 12));
    // 3 x 4 elements, transposed to 4 x 3, the second axis flipped, one zero around each axis.
    let access = Access {
        strides: vec![1, -4],
        offset: 2 * 4 - 1 + 4,
        bounds: vec![
            Bound { coefs: [1, 0].into_iter().collect(), lo: 1, hi: 5 },
            Bound { coefs: [0, 1].into_iter().collect(), lo: 1, hi: 4 },
        ],
        lookup: vec![],
    };
    let x = m.load_at(a, access);
    m.store(x, 30, &[6, 1], Level::Elem);
    m.0.offsets = vec![2, 0];
    m.done()
}

/// Rows of a table by index; `bad` is written into the index.
fn gather(bad: Option<i64>) -> Case {
    let mut m = Make::new(format!("gather {bad:?}"), &[4, 3], &[], Order::ROWS);
    let table = m.input(DType::F32, &noise(DType::F32, 15));
    let index: Vec<Scalar> = [4, 0, bad.unwrap_or(2), 1].map(Scalar::I).to_vec();
    let i = m.input(DType::I64, &index);
    let v = m.load(i, &[1, 0]);
    let lookup = vec![Lookup { value: v, stride: 3, size: 5 }];
    let x = m.load_at(table, Access { strides: vec![0, 1], lookup, ..Access::default() });
    m.store(x, 12, &[3, 1], Level::Elem);
    m.0.raises = if bad.is_some() { 1 } else { 0 };
    m.done()
}

fn gather_from_nothing() -> Case {
    let mut m = Make::new("gather from nothing", &[4], &[], Order::ROWS);
    let table = m.input(DType::F32, &[]);
    let i = m.input(DType::I64, &[Scalar::I(0); 4]);
    let v = m.load(i, &[1]);
    let lookup = vec![Lookup { value: v, stride: 3, size: 0 }];
    let x = m.load_at(table, Access { strides: vec![0], lookup, ..Access::default() });
    m.store(x, 4, &[1], Level::Elem);
    m.0.raises = 1;
    m.done()
}

fn random(dtype: DType) -> Case {
    let mut m = Make::new(format!("random {dtype}"), &[50], &[], Order::ROWS);
    m.0.kernel.params = vec![DType::I64; 2];
    m.0.params = vec![Scalar::I(0x1234_5678_9abc_def0), Scalar::I(-7)];
    let access = Access { strides: vec![1], offset: 3, ..Access::default() };
    let x = m.inst(InstKind::Load { source: Source::Rand { seed: 0, stream: 1 }, access }, dtype, Level::Elem);
    m.store(x, 50, &[1], Level::Elem);
    m.done()
}

/// An iota and parameters of every kind.
fn iota() -> Case {
    let mut m = Make::new("iota and parameters", &[7, 9], &[], Order::ROWS);
    let access = Access { strides: vec![-2, 3], offset: 5, ..Access::default() };
    let i = m.inst(InstKind::Load { source: Source::Iota, access }, DType::I64, Level::Elem);
    let f = m.inst(InstKind::Cast(i), DType::F32, Level::Elem);
    m.0.kernel.params = vec![DType::F32, DType::Bool, DType::I32];
    m.0.params = vec![Scalar::F(1.5), Scalar::B(true), Scalar::I(-3)];
    let p = m.inst(InstKind::Param(0), DType::F32, Level::Uniform);
    let q = m.inst(InstKind::Param(1), DType::Bool, Level::Uniform);
    let n = m.inst(InstKind::Param(2), DType::I32, Level::Uniform);
    let n = m.inst(InstKind::Cast(n), DType::F32, Level::Uniform);
    let c = m.inst(InstKind::Const(Scalar::F(f64::NEG_INFINITY)), DType::F32, Level::Uniform);
    let y = m.ewise(&ewise::MUL, &[f, p], DType::F32, Level::Elem);
    let y = m.ewise(&ewise::ADD, &[y, n], DType::F32, Level::Elem);
    let y = m.ewise(&ewise::WHERE, &[q, y, c], DType::F32, Level::Elem);
    m.store(y, 63, &[9, 1], Level::Elem);
    m.done()
}

fn division_by_zero(row: &'static Ewise) -> Case {
    let mut m = Make::new(format!("{} by zero", row.name), &[3], &[], Order::ROWS);
    let a = m.input(DType::I32, &[1, 2, 3].map(Scalar::I));
    let b = m.input(DType::I32, &[1, 0, 3].map(Scalar::I));
    let (a, b) = (m.load(a, &[1]), m.load(b, &[1]));
    let y = m.ewise(row, &[a, b], DType::I32, Level::Elem);
    m.store(y, 3, &[1], Level::Elem);
    m.0.raises = 2;
    m.done()
}

/// Every case.
pub fn every() -> Vec<Case> {
    let mut out = vec![];
    for row in ewise::all() {
        for d in DType::ALL {
            let takes = match row.kind {
                Kind::Float => d.is_float(),
                Kind::Logic => d == DType::Bool,
                Kind::Arith | Kind::Compare | Kind::Bits | Kind::Select => true,
            };
            if takes && row.block(d).is_some() {
                out.push(row_case(row, d));
            }
        }
    }
    for from in DType::ALL {
        out.extend(DType::ALL.into_iter().map(|to| cast_case(from, to)));
    }
    let small = Order { lanes: 8, chunk: 16 };
    for op in ReduceOp::ALL {
        for d in DType::ALL {
            out.push(reduce(op, d, 5, 13, small)); // a thread a row, lanes
            out.push(reduce(op, d, 5, 100, small)); // a block a row, several chunks at once
        }
        out.push(reduce(op, DType::F32, 300, 1100, Order::COLUMNS)); // chunks combined by one thread
        out.push(reduce(op, DType::F32, 3, 2600, Order::COLUMNS)); // and by a block
        out.push(reduce(op, DType::F32, 4, 0, Order::ROWS));
        out.push(reduce(op, DType::F32, 4, 1, Order::ROWS));
    }
    let sum = |rows, cols, order| reduce(ReduceOp::Sum, DType::F32, rows, cols, order);
    out.push(sum(2, 64, Order::ROWS));
    out.push(sum(2, 5000, Order::ROWS));
    out.push(sum(1, 4096 * 3, Order::ROWS));
    out.push(sum(2, 512 * 10 + 5, Order { lanes: 512, chunk: 512 })); // rounds of two chunks
    out.push(sum(1, 40_000, Order { lanes: 64, chunk: 128 })); // rounds of sixteen
    out.push(sum(70, 31, Order { lanes: 4, chunk: 4 })); // many chunks in one thread
    for (rows, cols) in [(9, 20), (3, 1000)] {
        out.push(stages(DType::F32, rows, cols, Order::ROWS));
    }
    out.push(stages(DType::F64, 3, 500, small));
    // Rows in a few lanes, in a warp, in a block, in loops, in several blocks; odd lengths and vectors.
    for (rows, cols) in [(37, 8), (37, 24), (5, 96), (3, 1024), (3, 1300), (7, 4096), (2, 8193), (3, 20_000)] {
        out.push(sum(rows, cols, Order::ROWS));
        out.push(stages(DType::F32, rows, cols, Order::ROWS));
    }
    out.push(stages(DType::BF16, 9, 640, Order::ROWS));
    out.push(stages(DType::F64, 2, 9000, Order::ROWS));
    out.push(stages(DType::F32, 1, 70_000, Order::ROWS));
    // Across memory: strips, parts of strips, short reductions, and several stages.
    for (rows, cols) in [(7, 40), (64, 4096), (130, 700), (5, 5000), (1000, 3), (96, 2000)] {
        out.push(sum(rows, cols, Order::COLUMNS));
        out.push(stages_across(rows, cols));
    }
    out.extend([transpose(64, 64, 4), transpose(100, 36, 4), transpose(33, 65, 4), transpose(128, 64, 2)]);
    out.extend([pad(), gather(None), gather(Some(5)), gather(Some(-1)), gather_from_nothing()]);
    out.extend([random(DType::F32), random(DType::F64), iota()]);
    out.extend([&ewise::FLOOR_DIVIDE, &ewise::REMAINDER, &ewise::FMOD, &ewise::TRUNC_DIVIDE].map(division_by_zero));
    out
}

//! What a kernel means: a scalar interpreter, slow and plain. Every backend is tested against it.

use super::{Access, InstKind, Kernel, Level, Order, Source, rand};
use crate::{
    DType, Element, Error, ErrorKind, Result, Scalar,
    op::{ReduceOp, block::Isa, ewise},
    with_dtype,
};

/// One register: a value of a compute type (f32, f64, i64 or bool) in its low bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(8))]
pub struct Cell([u8; 8]);

impl Cell {
    /// A number in the compute type of `dtype`.
    pub fn of(x: Scalar, dtype: DType) -> Cell {
        let mut c = Cell::default();
        match dtype.compute() {
            DType::F32 => c.0[..4].copy_from_slice(&(x.f64() as f32).to_ne_bytes()),
            DType::F64 => c.0 = x.f64().to_ne_bytes(),
            DType::Bool => c.0[0] = x.bool() as u8,
            _ => c.0 = wrap(x.i64(), dtype).to_ne_bytes(),
        }
        c
    }

    /// Its bytes, as memory has them.
    pub fn bytes(self) -> [u8; 8] {
        self.0
    }

    /// The number in it.
    pub fn get(self, dtype: DType) -> Scalar {
        match dtype.compute() {
            DType::F32 => Scalar::F(f32::from_ne_bytes([self.0[0], self.0[1], self.0[2], self.0[3]]) as f64),
            DType::F64 => Scalar::F(f64::from_ne_bytes(self.0)),
            DType::Bool => Scalar::B(self.0[0] != 0),
            _ => Scalar::I(i64::from_ne_bytes(self.0)),
        }
    }
}

/// An i64 as the narrower integer type would hold it.
pub fn wrap(x: i64, dtype: DType) -> i64 {
    match dtype {
        DType::I32 => x as i32 as i64,
        DType::I16 => x as i16 as i64,
        DType::I8 => x as i8 as i64,
        DType::U8 => x as u8 as i64,
        _ => x,
    }
}

/// A buffer of a launch: its bytes, and the element its addresses count from.
pub struct Bytes<'a> {
    /// The whole buffer.
    pub bytes: &'a mut [u8],
    /// Elements to skip.
    pub offset: isize,
}

/// Runs `k` on `args` with `params`.
pub fn run(k: &Kernel, args: &mut [Bytes<'_>], params: &[Scalar]) -> Result<()> {
    let (rows, cols) = (k.rows(), k.cols());
    let mut cells: Vec<Vec<Cell>> = vec![vec![]; k.insts.len()];
    for row in 0..rows {
        for (i, inst) in k.insts.iter().enumerate() {
            let n = if inst.level == Level::Elem { cols } else { 1 };
            let at =
                |v: usize, c: usize, cells: &[Vec<Cell>]| cells[v][if k.insts[v].level == Level::Elem { c } else { 0 }];
            let mut out = Vec::with_capacity(n);
            for c in 0..n {
                out.push(match &inst.kind {
                    InstKind::Const(x) => Cell::of(*x, inst.dtype),
                    InstKind::Param(p) => Cell::of(params[*p], inst.dtype),
                    InstKind::Load { source, access } => {
                        match address(k, access, row, c, |v| at(v, c, &cells).get(DType::I64).i64())? {
                            None => Cell::of(Scalar::I(0), inst.dtype),
                            Some(a) => Cell::of(load(*source, a, inst.dtype, args, params), inst.dtype),
                        }
                    }
                    InstKind::Ewise(f, vals) => {
                        let over = if f.kind == ewise::Kind::Compare { k.insts[vals[0]].dtype } else { inst.dtype };
                        let mut src = [Cell::default(); 3];
                        for (s, &v) in src.iter_mut().zip(vals) {
                            *s = at(v, c, &cells);
                        }
                        if f.divides() && over.is_int() && src[1].get(over).i64() == 0 {
                            return Err(division_by_zero(f.name));
                        }
                        let block =
                            f.block(over).ok_or_else(|| crate::Tensor::bug("a kernel that was not verified"))?;
                        let mut dst = Cell::default();
                        let ptr = |i: usize| (&raw const src[i]).cast::<u8>();
                        // SAFETY: cells are 8 bytes, aligned to 8, and hold one value of the row's compute type.
                        unsafe { block.get(Isa::Base)((&raw mut dst).cast(), [ptr(0), ptr(1), ptr(2)], 1) };
                        if inst.dtype.is_int() {
                            dst = Cell::of(dst.get(inst.dtype), inst.dtype);
                        }
                        dst
                    }
                    InstKind::Cast(v) => cast(at(*v, c, &cells).get(k.insts[*v].dtype), inst.dtype),
                    InstKind::Reduce(op, v) => reduce(*op, &cells[*v], inst.dtype, k.order),
                    InstKind::Store { arg, access, value } => {
                        if let Some(a) = address(k, access, row, c, |_| 0)? {
                            store(
                                &mut args[*arg],
                                a,
                                at(*value, c, &cells).get(k.insts[*value].dtype),
                                k.args[*arg].dtype,
                            );
                        }
                        Cell::default()
                    }
                });
            }
            cells[i] = out;
        }
    }
    Ok(())
}

/// A conversion, as PyTorch's on the CPU: floats truncate to integers, narrower floats round.
pub fn cast(x: Scalar, to: DType) -> Cell {
    match to {
        // Through a float, as PyTorch does: of a double, 16 bits are the nearest to the nearest float.
        DType::F16 => Cell::of(Scalar::F(half::f16::from_f32(x.f64() as f32).to_f64()), to),
        DType::BF16 => Cell::of(Scalar::F(half::bf16::from_f32(x.f64() as f32).to_f64()), to),
        _ => Cell::of(x.cast(to), to),
    }
}

/// The reduction of `xs` in the order the language lays down.
pub fn reduce(op: ReduceOp, xs: &[Cell], dtype: DType, order: Order) -> Cell {
    let two = |a: Cell, b: Cell| combine(op, a, b, dtype);
    let start = Cell::of(op.identity(dtype), dtype);
    let mut chunks: Vec<Cell> = Vec::new();
    for chunk in xs.chunks(order.chunk) {
        let mut lanes = vec![start; order.lanes];
        for (j, &x) in chunk.iter().enumerate() {
            lanes[j % order.lanes] = two(lanes[j % order.lanes], x);
        }
        while lanes.len() > 1 {
            let half = lanes.len() / 2;
            lanes = (0..half).map(|i| two(lanes[i], lanes[i + half])).collect();
        }
        chunks.push(lanes[0]);
    }
    while chunks.len() > 1 {
        chunks = chunks.chunks(2).map(|p| if p.len() == 2 { two(p[0], p[1]) } else { p[0] }).collect();
    }
    chunks.first().copied().unwrap_or(start)
}

/// Two elements become one.
pub fn combine(op: ReduceOp, a: Cell, b: Cell, dtype: DType) -> Cell {
    let row = match op {
        ReduceOp::Sum => &ewise::ADD,
        ReduceOp::Prod => &ewise::MUL,
        ReduceOp::Max => &ewise::MAXIMUM,
        ReduceOp::Min => &ewise::MINIMUM,
    };
    let mut out = Cell::default();
    if let Some(block) = row.block(dtype) {
        let (a, b) = ((&raw const a).cast::<u8>(), (&raw const b).cast::<u8>());
        // SAFETY: as above: one value each in an aligned cell.
        unsafe { block.get(Isa::Base)((&raw mut out).cast(), [a, b, b], 1) };
    }
    if dtype.is_int() { Cell::of(out.get(dtype), dtype) } else { out }
}

/// The error of an integer division by zero.
pub fn division_by_zero(op: &str) -> Error {
    Error::new(op, ErrorKind::Numerical("integer division by zero".into()))
        .hint("convert to floats first if inf and NaN are what you want")
}

/// The error of an index outside its axis.
pub fn out_of_range(index: i64, size: usize) -> Error {
    Error::new("gather", ErrorKind::Index { index, size, why: String::new() })
}

/// Element address of point (row, col), or `None` outside the bounds.
fn address(k: &Kernel, a: &Access, row: usize, col: usize, lookup: impl Fn(usize) -> i64) -> Result<Option<isize>> {
    let mut index = vec![0isize; k.map.len() + k.reduce.len()];
    let unravel = |mut l: usize, dims: &[usize], index: &mut [isize]| {
        for d in (0..dims.len()).rev() {
            let n = dims[d].max(1); // an empty axis has no point, but rows still have values
            index[d] = (l % n) as isize;
            l /= n;
        }
    };
    unravel(row, &k.map, &mut index);
    unravel(col, &k.reduce, &mut index[k.map.len()..]);
    let dot = |c: &[isize]| c.iter().zip(&index).map(|(a, b)| a * b).sum::<isize>();
    if a.bounds.iter().any(|b| !(b.lo..b.hi).contains(&dot(&b.coefs))) {
        return Ok(None);
    }
    let mut at = a.offset + dot(&a.strides);
    for l in &a.lookup {
        let i = lookup(l.value);
        if i < 0 || i as u64 >= l.size as u64 {
            return Err(out_of_range(i, l.size));
        }
        at += i as isize * l.stride;
    }
    Ok(Some(at))
}

fn load(source: Source, at: isize, dtype: DType, args: &[Bytes<'_>], params: &[Scalar]) -> Scalar {
    match source {
        Source::Iota => Scalar::I(at as i64),
        Source::Rand { seed, stream } => {
            let (seed, stream) = (params[seed].i64() as u64, params[stream].i64() as u64);
            Scalar::F(match dtype {
                DType::F64 => rand::uniform_f64(at as u64, stream, seed),
                _ => rand::uniform_f32(at as u64, stream, seed) as f64,
            })
        }
        Source::Arg(a) => {
            let size = dtype.size();
            let at = (at + args[a].offset) as usize * size;
            let b = &args[a].bytes[at..at + size];
            with_dtype!(dtype, T => {
                // SAFETY: `b` holds exactly one T; bools are written as 0 or 1.
                let x = unsafe { b.as_ptr().cast::<T>().read_unaligned() };
                if dtype.is_float() { Scalar::F(x.to_f64()) } else { Scalar::I(x.to_i64()).cast(dtype) }
            })
        }
    }
}

fn store(arg: &mut Bytes<'_>, at: isize, x: Scalar, dtype: DType) {
    let size = dtype.size();
    let at = (at + arg.offset) as usize * size;
    let b = &mut arg.bytes[at..at + size];
    with_dtype!(dtype, T => {
        // By the trait: `half` has functions of the same name, and those look at the upper half of a double only.
        let x = if dtype.is_float() { <T as Element>::from_f64(x.f64()) } else { T::from_i64(x.i64()) };
        // SAFETY: `b` has room for exactly one T.
        unsafe { b.as_mut_ptr().cast::<T>().write_unaligned(x) }
    })
}

//! Whether a kernel is well-formed: run on every kernel that tests make, and by the plan in debug builds.

use super::{Access, InstKind, Kernel, Level, Order, Source};
use crate::{DType, op::ewise::Kind};

/// Checks the rules of the language; the error says which instruction breaks which.
pub fn verify(k: &Kernel) -> Result<(), String> {
    // Only lines that lie apart are chunks of any length.
    let whole = k.order.chunk.is_multiple_of(k.order.lanes) || k.order == Order::by_lines(k);
    if !k.order.lanes.is_power_of_two() || !whole || k.order.chunk == 0 {
        return Err(format!("bad reduction order {:?}", k.order));
    }
    for (i, inst) in k.insts.iter().enumerate() {
        one(k, i).map_err(|why| format!("instruction {i} ({:?}): {why}", inst.kind))?;
    }
    Ok(())
}

fn one(k: &Kernel, i: usize) -> Result<(), String> {
    let inst = &k.insts[i];
    let ensure = |ok: bool, why: &str| if ok { Ok(()) } else { Err(why.to_string()) };
    for v in k.operands(i) {
        ensure(v < i, "reads a value that is not defined yet")?;
        ensure(!matches!(k.insts[v].kind, InstKind::Store { .. }), "reads a store")?;
        if !matches!(inst.kind, InstKind::Reduce(..)) {
            ensure(k.insts[v].level <= inst.level, "reads a value of a deeper level")?;
        }
    }
    let dt = |v: usize| k.insts[v].dtype;
    match &inst.kind {
        InstKind::Const(_) => ensure(inst.level == Level::Uniform, "a constant is uniform"),
        InstKind::Param(p) => {
            ensure(inst.level == Level::Uniform, "a parameter is uniform")?;
            ensure(k.params.get(*p) == Some(&inst.dtype), "no such parameter, or of another type")
        }
        InstKind::Load { source, access } => {
            match *source {
                Source::Arg(a) => {
                    let arg = k.args.get(a).ok_or("no such buffer")?;
                    ensure(!arg.written, "loads from a buffer that is written")?;
                    ensure(arg.dtype == inst.dtype, "a load has its buffer's type")?;
                }
                Source::Iota => ensure(inst.dtype == DType::I64, "iota is i64")?,
                Source::Rand { seed, stream } => {
                    ensure(matches!(inst.dtype, DType::F32 | DType::F64), "random numbers are f32 or f64")?;
                    ensure(seed < k.params.len() && stream < k.params.len(), "no such parameter")?;
                }
            }
            self::access(k, access, inst.level)
        }
        InstKind::Ewise(row, vals) => {
            ensure(vals.len() == row.arity, "wrong number of operands")?;
            match row.kind {
                Kind::Arith | Kind::Float | Kind::Bits | Kind::Logic => {
                    ensure(vals.iter().all(|&v| dt(v) == inst.dtype), "operands have the type of the result")?
                }
                Kind::Compare => {
                    ensure(inst.dtype == DType::Bool && dt(vals[0]) == dt(vals[1]), "one type in, bool out")?
                }
                Kind::Select => ensure(
                    dt(vals[0]) == DType::Bool && dt(vals[1]) == inst.dtype && dt(vals[2]) == inst.dtype,
                    "(bool, T, T) -> T",
                )?,
            }
            let over = if row.kind == Kind::Compare { dt(vals[0]) } else { inst.dtype };
            ensure(row.block(over).is_some(), "the row does not take this type")
        }
        InstKind::Cast(_) => Ok(()),
        InstKind::Reduce(_, v) => {
            ensure(inst.level == Level::Row, "a reduction is a row")?;
            ensure(k.insts[*v].level == Level::Elem && dt(*v) == inst.dtype, "reduces an element of its own type")
        }
        InstKind::Store { arg, access, value } => {
            let a = k.args.get(*arg).ok_or("no such buffer")?;
            ensure(a.written, "stores to a buffer that is not written")?;
            ensure(a.dtype == dt(*value), "a store has its buffer's type")?;
            ensure(access.bounds.is_empty() && access.lookup.is_empty(), "a store has a plain address")?;
            self::access(k, access, inst.level)
        }
    }
}

fn access(k: &Kernel, a: &Access, level: Level) -> Result<(), String> {
    let n = k.map.len() + k.reduce.len();
    if a.strides.len() != n || a.bounds.iter().any(|b| b.coefs.len() != n) {
        return Err(format!("an address needs {n} strides"));
    }
    let varies = |from: usize, to: usize| {
        a.strides[from..to].iter().any(|&s| s != 0)
            || a.bounds.iter().any(|b| b.coefs[from..to].iter().any(|&c| c != 0))
    };
    if level < Level::Elem && varies(k.map.len(), n) || level < Level::Row && varies(0, n) {
        return Err("its address varies more than its level".into());
    }
    if a.lookup.iter().any(|l| k.insts[l.value].dtype != DType::I64) {
        return Err("a looked-up index is i64".into());
    }
    Ok(())
}

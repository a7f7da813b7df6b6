//! Kernels as text, for people and for snapshot tests.

use super::{Access, InstKind, Kernel, Level, Source};
use std::fmt;

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "map {:?} reduce {:?}", self.map, self.reduce)?;
        for (i, inst) in self.insts.iter().enumerate() {
            let level = match inst.level {
                Level::Uniform => "uni ",
                Level::Row => "row ",
                Level::Elem => "elem",
            };
            if let InstKind::Store { arg, access, value } = &inst.kind {
                writeln!(f, "  store {level} b{arg}[{access}] %{value}")?;
                continue;
            }
            write!(f, "  %{i} {level} {} = ", inst.dtype)?;
            match &inst.kind {
                InstKind::Const(c) => writeln!(f, "{c}")?,
                InstKind::Param(p) => writeln!(f, "p{p}")?,
                InstKind::Load { source: Source::Arg(a), access } => writeln!(f, "load b{a}[{access}]")?,
                InstKind::Load { source: Source::Iota, access } => writeln!(f, "iota[{access}]")?,
                InstKind::Load { source: Source::Rand { .. }, access } => writeln!(f, "rand[{access}]")?,
                InstKind::Ewise(row, vals) => {
                    write!(f, "{}", row.name)?;
                    for v in vals {
                        write!(f, " %{v}")?;
                    }
                    writeln!(f)?;
                }
                InstKind::Cast(v) => writeln!(f, "cast %{v}")?,
                InstKind::Reduce(op, v) => writeln!(f, "{} %{v}", op.name())?,
                InstKind::Store { .. } => {}
            }
        }
        Ok(())
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.strides)?;
        if self.offset != 0 {
            write!(f, " + {}", self.offset)?;
        }
        for b in &self.bounds {
            write!(f, " if {} <= {:?} < {}", b.lo, b.coefs.as_slice(), b.hi)?;
        }
        for l in &self.lookup {
            write!(f, " + {} * %{}", l.stride, l.value)?;
        }
        Ok(())
    }
}

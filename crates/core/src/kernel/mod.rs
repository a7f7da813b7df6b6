//! The loop language: what a plan hands to a backend.
//!
//! A [`Kernel`] is one loop nest. For each point of the *map* space it runs over all points of the *reduce* space; its
//! body is a list of instructions in SSA form (instruction `i` defines value `i`), and each value lives at a [`Level`]:
//! one for the whole kernel, one a map point ("row"), or one a point of both spaces ("element"). A reduction turns an
//! element into a row; using a row where an element is wanted broadcasts it. That is enough for elementwise chains
//! (no reduce space), for sums with what comes before and after them, and for softmax or layer norm and their gradients
//! (several reductions over one row).
//!
//! ```text
//! softmax over the last axis of [64, 1000]:   map [64], reduce [1000]
//!   %0 elem = load a[1000 r + c]
//!   %1 row  = max %0
//!   %2 elem = sub %0 %1
//!   %3 elem = exp %2
//!   %4 row  = sum %3
//!   %5 elem = div %3 %4
//!      store b[1000 r + c] %5
//! ```
//!
//! [`oracle`] defines what a kernel means, slowly; [`verify`] says whether one is well-formed; [`emit`] writes CUDA C and
//! WGSL. The order of every reduction is part of the meaning ([`Order`]), so results have the same bits on any number of
//! threads.

mod collapse;
pub mod emit;
pub mod oracle;
mod order;
mod overwrite;
pub mod rand;
mod show;
mod turn;
mod unroll;
mod verify;

pub use collapse::collapse;
pub use order::Order;
pub use turn::{along_memory, many_lines, turned};
pub use unroll::unrolled;
pub use verify::verify;

use crate::{
    DType, Scalar,
    op::{ReduceOp, ewise::Ewise},
    view::Bound,
};
use smallvec::SmallVec;

/// The number of an instruction, and of the value it defines.
pub type Val = usize;

/// How often a value exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Once.
    Uniform,
    /// Once for each map point.
    Row,
    /// Once for each map point and reduce point.
    Elem,
}

/// One loop nest. Its structure only: buffers, their offsets and scalar parameters come with each launch.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Kernel {
    /// Extents of the map space.
    pub map: Vec<usize>,
    /// Extents of the reduce space; empty means one point.
    pub reduce: Vec<usize>,
    /// The buffers it reads and writes.
    pub args: Vec<Arg>,
    /// Types of its scalar parameters.
    pub params: Vec<DType>,
    /// The body.
    pub insts: Vec<Inst>,
    /// In which order reductions combine.
    pub order: Order,
}

/// A buffer of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arg {
    /// Element type.
    pub dtype: DType,
    /// Whether it is written (then it is not read).
    pub written: bool,
}

/// An instruction; its index is the value it defines.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Inst {
    /// What it does.
    pub kind: InstKind,
    /// Type of the value. Arithmetic on f16 and bf16 happens in f32 and is rounded when it is stored.
    pub dtype: DType,
    /// How often the value exists.
    pub level: Level,
}

/// What an instruction does.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum InstKind {
    /// A constant that is part of the structure.
    Const(Scalar),
    /// A scalar parameter.
    Param(usize),
    /// An element of a source.
    Load {
        /// Where from.
        source: Source,
        /// Which element.
        access: Access,
    },
    /// A row of the elementwise table.
    Ewise(&'static Ewise, SmallVec<[Val; 3]>),
    /// A conversion to the instruction's type.
    Cast(Val),
    /// All elements of a row combined.
    Reduce(ReduceOp, Val),
    /// Writes a value; defines none.
    Store {
        /// The buffer.
        arg: usize,
        /// Where in it.
        access: Access,
        /// What.
        value: Val,
    },
}

/// Where a load reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A buffer.
    Arg(usize),
    /// The address itself: 0, 1, 2, ...
    Iota,
    /// Uniform numbers in [0, 1) by address, from Philox under two parameters (seed and stream, i64).
    Rand {
        /// Parameter that holds the seed.
        seed: usize,
        /// Parameter that holds the stream.
        stream: usize,
    },
}

/// An element address, affine in the map and reduce indices, with bounds (outside: zero) and looked-up parts.
#[derive(Clone, Debug, PartialEq, Hash, Default)]
pub struct Access {
    /// Elements a step, map axes first, then reduce axes.
    pub strides: Vec<isize>,
    /// Address at index zero, on top of the launch's own offset.
    pub offset: isize,
    /// Conditions on the same indices.
    pub bounds: Vec<Bound>,
    /// Parts of the address that are values.
    pub lookup: Vec<Lookup>,
}

/// `address += value * stride`, where `0 <= value < size` is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lookup {
    /// An i64 value.
    pub value: Val,
    /// Elements a step.
    pub stride: isize,
    /// The extent it must stay below.
    pub size: usize,
}

impl Kernel {
    /// Points of the map space.
    pub fn rows(&self) -> usize {
        self.map.iter().product()
    }

    /// Points of the reduce space.
    pub fn cols(&self) -> usize {
        self.reduce.iter().product()
    }

    /// The values an instruction reads.
    pub fn operands(&self, v: Val) -> SmallVec<[Val; 4]> {
        match &self.insts[v].kind {
            InstKind::Const(_) | InstKind::Param(_) => SmallVec::new(),
            InstKind::Load { access, .. } => access.lookup.iter().map(|l| l.value).collect(),
            InstKind::Ewise(_, vals) => vals.iter().copied().collect(),
            InstKind::Cast(x) | InstKind::Reduce(_, x) => SmallVec::from_slice(&[*x]),
            InstKind::Store { access, value, .. } => {
                std::iter::once(*value).chain(access.lookup.iter().map(|l| l.value)).collect()
            }
        }
    }

    /// The pass over its elements that each instruction belongs to: what needs a reduction waits for it.
    pub fn stages(&self) -> Vec<usize> {
        let mut stage = vec![0; self.insts.len()];
        for v in 0..self.insts.len() {
            let after = |&o: &Val| stage[o] + matches!(self.insts[o].kind, InstKind::Reduce(..)) as usize;
            stage[v] = self.operands(v).iter().map(after).max().unwrap_or(0);
        }
        stage
    }

    /// How often its elements are gone through.
    pub fn passes(&self) -> usize {
        let elems = self.insts.iter().zip(self.stages()).filter(|(i, _)| i.level == Level::Elem);
        elems.map(|(_, stage)| stage + 1).max().unwrap_or(1)
    }

    /// Whether the chunks of a row are lines that lie apart from each other.
    pub fn chunks_are_lines(&self) -> bool {
        matches!(self.reduce[..], [_, line] if line == self.order.chunk)
    }

    /// Elements from one chunk of a row to the next, where addresses step so through the map and the reduce space.
    pub fn chunk_step(&self, strides: &[isize]) -> isize {
        let step = strides.get(self.map.len()).copied().unwrap_or(0);
        if self.chunks_are_lines() { step } else { step * self.order.chunk as isize }
    }

    /// Arithmetic operations in one run: one an elementwise instruction or reduction step.
    pub fn flops(&self) -> u64 {
        let n = |l: Level| match l {
            Level::Uniform => 1,
            Level::Row => self.rows() as u64,
            Level::Elem => self.rows() as u64 * self.cols() as u64,
        };
        self.insts
            .iter()
            .map(|i| match &i.kind {
                InstKind::Ewise(..) => n(i.level),
                InstKind::Reduce(..) => n(Level::Elem),
                _ => 0,
            })
            .sum()
    }

    /// Bytes moved in one run, each load and store counted once.
    pub fn bytes(&self) -> u64 {
        self.insts
            .iter()
            .map(|i| {
                let (access, dtype) = match &i.kind {
                    InstKind::Load { source: Source::Arg(a), access } => (access, self.args[*a].dtype),
                    InstKind::Store { arg, access, .. } => (access, self.args[*arg].dtype),
                    _ => return 0,
                };
                let touched: u64 = self
                    .map
                    .iter()
                    .chain(&self.reduce)
                    .zip(&access.strides)
                    .map(|(&n, &s)| if s == 0 { 1 } else { n as u64 })
                    .product();
                touched * dtype.size() as u64
            })
            .sum()
    }
}

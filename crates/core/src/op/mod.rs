//! Operations: a table of elementwise rows, and a small closed set of structural ones.

mod call;
mod conv;
mod custom;
pub mod ewise;
mod host;

pub use gradus_math::block;

pub use call::{Call, Composite};
pub use conv::{Conv, ConvKind, ConvParams};
pub use custom::{Array, CustomOp, VjpRule};
pub use host::{Attention, GridSample, HostOp, Linalg, MaxPool, Rank, ScanOp, ScatterMode};

use crate::{DType, Scalar, VarId, graph::VarCell, view::ViewOp};
use ewise::Ewise;
use smallvec::SmallVec;
use std::{fmt, sync::Arc};

/// A variable as its snapshots know it.
#[derive(Debug)]
pub struct VarRef {
    /// Which variable.
    pub id: VarId,
    /// Its name, if it has one.
    pub name: Option<String>,
}

/// What a node does with its inputs.
#[derive(Clone)]
pub enum Op {
    /// Elements that were given.
    Data,
    /// One number everywhere; a plan takes it as an argument.
    Scalar(Scalar),
    /// 0, 1, 2, ... in row-major order.
    Iota,
    /// Uniform numbers in [0, 1), element `i` from counter `i` of stream `stream` under `seed`.
    Rand {
        /// The key.
        seed: u64,
        /// Which stream under that key.
        stream: u64,
    },
    /// A row of the elementwise table, over inputs of one shape.
    Ewise(&'static Ewise),
    /// To the node's element type.
    Cast,
    /// A movement of strides.
    View(ViewOp),
    /// A reduction that keeps its axes with extent 1.
    Reduce {
        /// How two elements become one.
        op: ReduceOp,
        /// The axes that go, ascending.
        axes: SmallVec<[usize; 6]>,
    },
    /// Batched matrix product `[..., m, k] @ [..., k, n]`, batch axes equal.
    Matmul,
    /// `out[.., i, ..] = x[.., index[.., i, ..], ..]` along an axis (inputs: x, index).
    Gather {
        /// The axis that is looked up.
        axis: usize,
    },
    /// Inputs one after the other along an axis.
    Cat {
        /// The axis along which they follow each other.
        axis: usize,
    },
    /// A convolution or one of its two gradients.
    Conv(Arc<Conv>),
    /// An operation that is a library routine on every device.
    Host(HostOp),
    /// A user's operation.
    Custom(Arc<dyn CustomOp>),
    /// The elements of the first input, with a gradient of the user's own for the others: what a composite function
    /// with its own backward pass ends in.
    WithVjp(Arc<dyn VjpRule>),
    /// The elements of the first input, read only once the second has been computed: what keeps work that is meant to
    /// be done late (a recomputation) from being done early.
    After,
    /// A function made of other operations; no gradient is asked through it.
    Call(Call),
    /// The handle of a variable (never an input of another node: those hold snapshots).
    Var(Arc<VarCell>),
    /// What a variable held at one moment; gradients end here.
    Snapshot(Arc<VarRef>),
    /// The same elements, constant for gradients.
    Detach,
    /// The same elements in row-major order in a buffer of their own.
    Contiguous,
    /// A copy on the node's device.
    Transfer,
}

impl Op {
    /// The name errors and graphs show.
    pub fn name(&self) -> &str {
        match self {
            Op::Data => "data",
            Op::Scalar(_) => "scalar",
            Op::Iota => "iota",
            Op::Rand { .. } => "rand",
            Op::Ewise(row) => row.name,
            Op::Cast => "cast",
            Op::View(ViewOp::Reshape(_)) => "reshape",
            Op::View(ViewOp::Permute(_)) => "permute",
            Op::View(ViewOp::Expand(_)) => "expand",
            Op::View(ViewOp::Slice { .. }) => "slice",
            Op::View(ViewOp::Unfold { .. }) => "unfold",
            Op::View(ViewOp::Pad(_)) => "pad",
            Op::Reduce { op, .. } => op.name(),
            Op::Matmul => "matmul",
            Op::Gather { .. } => "gather",
            Op::Cat { .. } => "cat",
            Op::Conv(c) => c.name(),
            Op::Host(h) => h.name(),
            Op::Custom(c) => c.name(),
            Op::WithVjp(r) => r.name(),
            Op::After => "after",
            Op::Call(c) => c.of.name,
            Op::Var(_) => "var",
            Op::Snapshot(_) => "snapshot",
            Op::Detach => "detach",
            Op::Contiguous => "contiguous",
            Op::Transfer => "transfer",
        }
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a reduction combines two elements. Maximum and minimum propagate NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// `a + b`, from 0.
    Sum,
    /// `a * b`, from 1.
    Prod,
    /// The larger.
    Max,
    /// The smaller.
    Min,
}

impl ReduceOp {
    /// Every reduction.
    pub const ALL: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min];

    /// The name graphs show.
    pub fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Prod => "prod",
            ReduceOp::Max => "amax",
            ReduceOp::Min => "amin",
        }
    }

    /// What it starts from.
    pub fn identity(self, dtype: DType) -> Scalar {
        // Of the type itself, not of the registers: what a narrow integer cannot hold would wrap around.
        let int = |lo: bool, min: i64, max: i64| Scalar::I(if lo { min } else { max });
        let ends = |lo: bool| match dtype {
            DType::Bool => Scalar::B(!lo),
            DType::U8 => int(lo, 0, u8::MAX as i64),
            DType::I8 => int(lo, i8::MIN as i64, i8::MAX as i64),
            DType::I16 => int(lo, i16::MIN as i64, i16::MAX as i64),
            DType::I32 => int(lo, i32::MIN as i64, i32::MAX as i64),
            DType::I64 => int(lo, i64::MIN, i64::MAX),
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => {
                Scalar::F(if lo { f64::NEG_INFINITY } else { f64::INFINITY })
            }
        };
        match self {
            ReduceOp::Sum => Scalar::I(0).cast(dtype),
            ReduceOp::Prod => Scalar::I(1).cast(dtype),
            ReduceOp::Max => ends(true),
            ReduceOp::Min => ends(false),
        }
    }
}

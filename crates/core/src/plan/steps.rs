//! What a plan is: steps over buffers known by number.

use crate::{
    DType, Device, Scalar, Shape,
    backend::{Executable, Matmul},
    kernel::Kernel,
    op::{Conv, CustomOp, HostOp},
    view::View,
};
use std::sync::Arc;

/// A buffer of a plan and the element its addresses count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ref {
    /// Which buffer.
    pub buffer: usize,
    /// Elements to skip, on top of a leaf's own offset.
    pub offset: isize,
}

/// Where a plan's buffer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The value of a node that has one (place in the linear graph).
    Leaf(usize),
    /// A buffer of its own, for a value that outlives the run.
    Own {
        /// Its size.
        bytes: usize,
    },
    /// A piece of the arena.
    Arena {
        /// Where in it.
        at: usize,
        /// Its size.
        bytes: usize,
    },
}

/// A loop and what it works on.
pub struct Part {
    /// What it computes.
    pub kernel: Kernel,
    /// Its buffers.
    pub args: Vec<Ref>,
    /// Which scalar arguments of the plan its parameters are.
    pub params: Vec<usize>,
    /// The nodes it computes (for `explain`).
    pub nodes: Vec<usize>,
}

/// What is done to a product or a convolution while it is still at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Numbers that are added: one a column, or one a channel.
    pub bias: Ref,
    /// Whether what is below zero then becomes zero.
    pub relu: bool,
}

/// One thing to run.
pub enum Step {
    /// A loop of ours.
    Kernel {
        /// As the backend made it ready.
        exe: Arc<dyn Executable>,
        /// The loop and what it works on.
        part: Part,
    },
    /// Loops of one body over different extents, as one launch.
    Kernels {
        /// As the backend made them ready.
        exe: Arc<dyn Executable>,
        /// The loops and what each works on.
        parts: Vec<Part>,
    },
    /// A matrix product.
    Matmul {
        /// Sizes and strides.
        spec: Matmul,
        /// a, b and the result.
        args: [Ref; 3],
        /// What is done to each row at the end.
        tail: Option<Tail>,
        /// The node.
        node: usize,
    },
    /// A convolution or a gradient of one.
    Conv {
        /// Geometry.
        spec: Arc<Conv>,
        /// Element type.
        dtype: DType,
        /// a, b and the result.
        args: [Ref; 3],
        /// What is done to each channel at the end.
        tail: Option<Tail>,
        /// The node.
        node: usize,
    },
    /// A library routine.
    Host {
        /// Which.
        op: HostOp,
        /// Inputs with their types and shapes, then the result.
        args: Vec<(Ref, DType, Shape)>,
        /// The node.
        node: usize,
    },
    /// A user's operation.
    Custom {
        /// Which.
        op: Arc<dyn CustomOp>,
        /// Inputs with their types and shapes, then the result.
        args: Vec<(Ref, DType, Shape)>,
        /// The node.
        node: usize,
    },
}

/// A value a plan leaves behind.
pub struct Output {
    /// The node that gets it.
    pub node: usize,
    /// Where it lies.
    pub buffer: usize,
    /// How; the offset is on top of a leaf's own.
    pub view: View,
}

/// A list of steps for one graph structure.
pub struct Plan {
    /// Its number: no two plans of a process have the same.
    pub id: u64,
    /// Where it runs.
    pub device: Device,
    /// What it does.
    pub steps: Vec<Step>,
    /// Which of the steps are kernels.
    pub kernels: Vec<usize>,
    /// Its buffers.
    pub buffers: Vec<Home>,
    /// Size of the arena.
    pub arena: usize,
    /// What it leaves behind.
    pub outputs: Vec<Output>,
    /// Scalar arguments after those of the graph: numbers inside calls.
    pub constants: Vec<Scalar>,
    /// Nodes after those of the graph: what each does, and the call it is a part of.
    pub inner: Vec<(String, usize)>,
}

impl Plan {
    /// Says that it will run many times.
    pub fn prepare(&self) {
        for step in &self.steps {
            match step {
                Step::Kernel { exe, .. } | Step::Kernels { exe, .. } => exe.prepare(),
                Step::Matmul { .. } | Step::Conv { .. } | Step::Host { .. } | Step::Custom { .. } => {}
            }
        }
    }
}

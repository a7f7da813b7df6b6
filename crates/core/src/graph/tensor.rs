//! The handle users hold.

use super::{Node, PLAIN, Value, VarCell, VarId, is_grad_enabled, node::Inputs, on_behalf_of, shown_line};
use crate::{
    DType, Device, Error, ErrorKind, Result, Scalar, Shape, autocast_dtype,
    op::{Call, Composite, Op, ewise::Ewise},
    replay,
    view::ViewOp,
};
use smallvec::SmallVec;
use std::{panic::Location, sync::Arc};

/// An n-dimensional array, computed when it is read.
///
/// Cloning is cheap: a tensor is a handle to an immutable node of the graph.
///
/// ```
/// use gradus_core::Tensor;
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// let y = (&x * 2.0 + 1.0).tanh(); // nothing has run yet
/// assert_eq!(y.dims(), [2, 2]);
/// assert!((y.to_vec::<f32>().unwrap()[0] - 3f32.tanh()).abs() < 1e-6); // reading runs the plan
/// ```
#[derive(Clone)]
pub struct Tensor(pub(crate) Arc<Node>);

impl Tensor {
    /// The node behind the handle.
    pub fn node(&self) -> &Node {
        &self.0
    }

    /// The node's number, unique in the process.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// Extents as a slice.
    pub fn dims(&self) -> &[usize] {
        &self.0.shape
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.0.shape.rank()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.0.shape.numel()
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Where it lives.
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// The line of the program that made it.
    pub fn location(&self) -> &'static Location<'static> {
        self.0.location
    }

    /// The name of the operation that makes it.
    pub fn op_name(&self) -> &str {
        self.0.op.name()
    }

    /// Whether a gradient can flow to a variable through this tensor.
    pub fn requires_grad(&self) -> bool {
        match &self.0.op {
            Op::Var(cell) => cell.current().0.requires_grad,
            _ => self.0.requires_grad,
        }
    }

    /// Whether its elements have been computed.
    pub fn is_realized(&self) -> bool {
        self.resolve().0.value().is_some()
    }

    /// For a variable, the tensor it holds now; for all others, itself.
    pub fn resolve(&self) -> Tensor {
        match &self.0.op {
            Op::Var(cell) => {
                let held = cell.current();
                replay::read(cell, &held);
                held
            }
            _ => self.clone(),
        }
    }

    /// The identity of the variable this is (a handle to, or a snapshot of), if it is one.
    pub fn var_id(&self) -> Option<VarId> {
        match &self.0.op {
            Op::Var(cell) => Some(cell.id),
            Op::Snapshot(v) => Some(v.id),
            _ => None,
        }
    }

    /// The variable's name, if this is a named variable.
    pub fn name(&self) -> Option<&str> {
        match &self.0.op {
            Op::Var(cell) => cell.name.as_deref(),
            Op::Snapshot(v) => v.name.as_deref(),
            _ => None,
        }
    }

    /// A named variable that starts as `init`: gradients are kept for it, and [`Tensor::set`] updates it.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let w = Tensor::var("w", Tensor::from([3.0f32]));
    /// let loss = (&w * &w).sum();
    /// assert_eq!(loss.backward().unwrap().wrt(&w).unwrap().to_vec::<f32>().unwrap(), [6.0]);
    /// ```
    #[track_caller]
    pub fn var(name: impl Into<String>, init: impl Into<Tensor>) -> Tensor {
        Tensor::variable(Some(name.into()), init.into(), Location::caller())
    }

    /// The same elements as an unnamed variable: gradients are kept for it.
    #[track_caller]
    pub fn requires_grad_(&self) -> Tensor {
        Tensor::variable(None, self.clone(), Location::caller())
    }

    fn variable(name: Option<String>, init: Tensor, at: &'static Location<'static>) -> Tensor {
        let init = init.resolve();
        let id = VarCell::fresh_id();
        let snap = init.snapshot(id, name.clone(), init.dtype().is_float(), at);
        let (shape, dtype, device) = (init.shape().clone(), init.dtype(), init.device());
        let cell = Arc::new(VarCell::new(id, name, snap));
        Tensor(Node::new(Op::Var(cell), Inputs::new(), shape, dtype, device, dtype.is_float(), None, at))
    }

    fn snapshot(&self, id: VarId, name: Option<String>, tracked: bool, at: &'static Location<'static>) -> Tensor {
        let op = Op::Snapshot(Arc::new(crate::op::VarRef { id, name }));
        let (shape, dtype, device) = (self.shape().clone(), self.dtype(), self.device());
        let value = self.0.value();
        let inputs = if value.is_some() { Inputs::new() } else { Inputs::from_iter([self.clone()]) };
        Tensor(Node::new(op, inputs, shape, dtype, device, tracked, value, at))
    }

    /// Whether gradients are kept for a variable from now on. Without them it is a buffer, or a frozen weight: what is
    /// computed from it counts as constant, and [`Tensor::set`] works as before.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let w = Tensor::var("w", Tensor::from([3.0f32]));
    /// w.set_requires_grad(false)?;
    /// assert!(!(&w * 2.0).requires_grad());
    /// # Ok::<(), gradus_core::Error>(())
    /// ```
    #[track_caller]
    pub fn set_requires_grad(&self, on: bool) -> Result<()> {
        let Op::Var(cell) = &self.0.op else {
            return Err(Error::value("set_requires_grad", "this tensor is not a variable")
                .operand(self)
                .hint("make it with Tensor::var"));
        };
        if on && !self.dtype().is_float() {
            let why = format!("gradients are of floats, and this variable is {}", self.dtype());
            return Err(Error::dtype("set_requires_grad", &[self.dtype()], why).operand(self));
        }
        let old = cell.current();
        if old.0.requires_grad != on {
            let new = old.snapshot(cell.id, cell.name.clone(), on, old.location());
            old.hooks().into_iter().for_each(|h| new.add_hook(h));
            replay::spoil("it switches the gradients of a variable", Location::caller());
            cell.replace(new);
        }
        Ok(())
    }

    /// Gives a variable a new content (of the same shape and type). Graphs built before keep what they read. A content
    /// that is not computed yet is computed by the next run on this thread, together with what that run is for.
    #[track_caller]
    pub fn set(&self, value: &Tensor) -> Result<()> {
        let Op::Var(cell) = &self.0.op else {
            return Err(Error::value("set", "this tensor is not a variable")
                .operand(self)
                .hint("make it with Tensor::var"));
        };
        let value = value.resolve();
        if value.shape() != self.shape() {
            let why = format!("a variable of shape {} cannot take {}", self.shape(), value.shape());
            return Err(Error::shape("set", &[self.shape(), value.shape()], why).operand(self).operand(&value));
        }
        if value.dtype() != self.dtype() {
            let why = format!("a variable of type {} cannot take {}", self.dtype(), value.dtype());
            return Err(Error::dtype("set", &[self.dtype(), value.dtype()], why).operand(self).operand(&value));
        }
        let old = cell.current();
        let new = value.snapshot(cell.id, cell.name.clone(), old.0.requires_grad, Location::caller());
        // Hooks belong to the variable, not to what it held when they were registered.
        old.hooks().into_iter().for_each(|h| new.add_hook(h));
        let unsettled = new.0.value().is_none();
        replay::set(cell, &new);
        cell.replace(new);
        if unsettled {
            super::var::note_unsettled(cell);
        }
        Ok(())
    }

    /// The next snapshot of a variable that holds this one: elements that exist already.
    pub(crate) fn next_snapshot(&self, cell: &VarCell, value: Value) -> Tensor {
        let elements = Tensor::from_value(value, self.dtype(), self.location());
        elements.snapshot(cell.id, cell.name.clone(), self.0.requires_grad, self.location())
    }

    /// The same elements, constant for gradients.
    #[track_caller]
    pub fn detach(&self) -> Tensor {
        let t = self.resolve();
        if !t.requires_grad() {
            return t;
        }
        t.make(Op::Detach, &[&t], t.shape().clone(), t.dtype())
    }

    // ---- building nodes: what the API and the gradient rules stand on -------------------------------------------

    /// A node on this tensor's device at the caller's line. Shapes have been checked by the caller.
    #[track_caller]
    pub(crate) fn make(&self, op: Op, inputs: &[&Tensor], shape: Shape, dtype: DType) -> Tensor {
        Tensor::build(op, inputs, shape, dtype, self.device(), Location::caller())
    }

    pub(crate) fn build(
        op: Op,
        inputs: &[&Tensor],
        shape: Shape,
        dtype: DType,
        device: Device,
        at: &'static Location<'static>,
    ) -> Tensor {
        if let Some(stand_in) = replay::in_place_of(&op, &shape, dtype) {
            return stand_in;
        }
        let inputs: Inputs = inputs.iter().map(|t| t.resolve()).collect();
        let tracked = dtype.is_float()
            && !matches!(op, Op::Detach)
            && is_grad_enabled()
            && inputs.iter().any(|t| t.requires_grad());
        // A view of something computed is computed: its offset is then an argument of the plans that read it.
        let value = match &op {
            Op::View(v) => inputs[0].0.value().and_then(|x| {
                x.view.apply(v).filter(|w| w.bounds.is_empty()).map(|view| Value { buffer: x.buffer, view })
            }),
            Op::Detach | Op::WithVjp(_) => inputs[0].0.value(),
            _ => None,
        };
        // A detached variable stays linked to it, so that a missing gradient can be explained; a variable has no history
        // that this would keep alive.
        let explains = matches!(op, Op::Detach) && inputs[0].var_id().is_some();
        let inputs = if value.is_some() && !tracked && !explains { Inputs::new() } else { inputs };
        Tensor(Node::new(op, inputs, shape, dtype, device, tracked, value, at))
    }

    /// A copy of a node on other inputs, tracked as it was.
    pub(crate) fn raw_node(node: &Node, inputs: Inputs) -> Tensor {
        let (op, shape) = (node.op.clone(), node.shape.clone());
        Tensor(Node::new(op, inputs, shape, node.dtype, node.device, node.requires_grad, None, node.location))
    }

    /// A tensor over elements that exist already.
    pub(crate) fn from_value(value: Value, dtype: DType, at: &'static Location<'static>) -> Tensor {
        let (shape, device) = (value.view.shape.clone(), value.buffer.device());
        Tensor(Node::new(Op::Data, Inputs::new(), shape, dtype, device, false, Some(value), at))
    }

    /// A rank-0 constant: an argument of the plan, not part of its structure.
    #[track_caller]
    pub(crate) fn constant(value: Scalar, dtype: DType, device: Device) -> Tensor {
        Tensor::full_on(Shape::default(), value, dtype, device)
    }

    /// One number everywhere: an argument of the plan, not part of its structure.
    #[track_caller]
    pub(crate) fn full_on(shape: Shape, value: Scalar, dtype: DType, device: Device) -> Tensor {
        Tensor::full_at(shape, value, dtype, device, Location::caller())
    }

    /// The same for a line of the user's.
    pub(crate) fn full_at(
        shape: Shape,
        value: Scalar,
        dtype: DType,
        device: Device,
        at: &'static Location<'static>,
    ) -> Tensor {
        let op = Op::Scalar(value.cast(dtype));
        if let Some(stand_in) = replay::in_place_of(&op, &shape, dtype) {
            return stand_in;
        }
        Tensor(Node::new(op, Inputs::new(), shape, dtype, device, false, None, at))
    }

    /// An elementwise operation over inputs of one shape and of the types the row wants.
    #[track_caller]
    pub(crate) fn ewise(row: &'static Ewise, inputs: &[&Tensor], dtype: DType) -> Tensor {
        let (op, at) = (Op::Ewise(row), Location::caller());
        if let Some(kept) = crate::api::layout::pointwise(&op, inputs, dtype, at) {
            return kept;
        }
        Tensor::build(op, inputs, inputs[0].shape().clone(), dtype, inputs[0].device(), at)
    }

    /// A function made of others, over inputs that were checked; the result has this shape and type. It is one node where
    /// nobody will want to know what is inside: no gradient, no recording, no device with ways of its own to lay things out.
    #[track_caller]
    pub(crate) fn composed(
        of: &'static Composite,
        inputs: &[&Tensor],
        settings: &[u64],
        shape: Shape,
        dtype: DType,
    ) -> Tensor {
        let device = inputs[0].device();
        let tracked = || is_grad_enabled() && inputs.iter().any(|t| t.requires_grad());
        if device != Device::cpu() || PLAIN.get() || !replay::idle() || autocast_dtype().is_some() || tracked() {
            let inputs: SmallVec<[Tensor; 4]> = inputs.iter().map(|t| t.resolve()).collect();
            return on_behalf_of(shown_line(Location::caller()), || (of.build)(&inputs, settings));
        }
        let op = Op::Call(Call { of, settings: SmallVec::from_slice(settings) });
        Tensor::build(op, inputs, shape, dtype, device, Location::caller())
    }

    /// A tensor like this one that is never computed: what a function is built over to see what it is made of.
    pub(crate) fn stand_in(&self) -> Tensor {
        let (shape, at) = (self.shape().clone(), self.location());
        Tensor(Node::new(Op::Data, Inputs::new(), shape, self.dtype(), self.device(), false, None, at))
    }

    /// A movement whose arguments have been checked.
    #[track_caller]
    pub(crate) fn view_op(&self, op: ViewOp) -> Tensor {
        let shape = op.shape(self.shape());
        self.make(Op::View(op), &[self], shape, self.dtype())
    }

    /// An internal error at the caller's line: for states that a defect alone can reach.
    #[track_caller]
    pub(crate) fn bug(what: impl Into<String>) -> Error {
        Error::new("gradus", ErrorKind::Internal(what.into()))
    }
}

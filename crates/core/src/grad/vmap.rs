//! A function of one example, over a batch of them: a pass that re-emits the function's graph with a batch axis in front.

use super::{
    functional::{Tensors, refill},
    substitute::{again, recorded_as},
};
use crate::{
    DType, Error, ErrorKind, Result, Shape, Tensor,
    api::axis,
    graph::{IdMap, plainly, topological},
    op::{Array, Conv, ConvKind, ConvParams, CustomOp, HostOp, Op, VjpRule},
    view::ViewOp,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// `f` over a batch: `f` is called once, on one example of each input, and what it builds is batched. `in_dims` names
/// the axis of each input that runs over examples (`None`: the same for all); the result has it at `out_dim`.
///
/// `f` may use gradients (then they are per example) and other `vmap`s. It must not read elements, for they differ
/// between examples: that is an error. Random numbers made inside `f` are the same for all examples; for others, pass
/// them in as an input.
///
/// ```
/// use gradus_core::{grad, Tensor};
/// let (a, b) = (Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]), Tensor::from([10.0f64, 1.0]));
/// let dot = |x: &[Tensor]| Ok((&x[0] * &x[1]).sum());
/// let y = grad::vmap(dot, &[&a, &b], &[Some(0), None], 0).unwrap();
/// assert_eq!(y.to_vec::<f64>().unwrap(), [12.0, 34.0]);
/// ```
#[track_caller]
pub fn vmap<O: Tensors>(
    f: impl FnOnce(&[Tensor]) -> Result<O>,
    inputs: &[&Tensor],
    in_dims: &[Option<i64>],
    out_dim: i64,
) -> Result<O> {
    let (fronted, size) = fronted(inputs, in_dims)?;
    let args: Vec<Tensor> =
        fronted.iter().map(|(x, batched)| if *batched { Example::of(x) } else { x.clone() }).collect();
    let y = plainly(|| f(&args))?;
    let mut batch = Batch { size, done: IdMap::default(), since: u64::MAX };
    for ((x, batched), arg) in fronted.iter().zip(&args) {
        if !batched {
            continue;
        }
        batch.since = batch.since.min(arg.id());
        batch.done.insert(arg.id(), x.clone());
    }
    let outputs = y.list();
    batch.emit(&outputs)?;
    let moved = outputs.iter().map(|t| to_axis(&batch.lift(&t.resolve()), out_dim)).collect::<Result<_>>()?;
    refill(y, moved)
}

/// Each input with its batch axis in front (and whether it has one), and the extent they agree on.
#[track_caller]
fn fronted(inputs: &[&Tensor], in_dims: &[Option<i64>]) -> Result<(Vec<(Tensor, bool)>, usize)> {
    if inputs.len() != in_dims.len() {
        let why = format!("{} inputs, but {} entries in in_dims", inputs.len(), in_dims.len());
        return Err(Error::value("vmap", why));
    }
    let mut size: Option<(usize, &Tensor)> = None;
    let mut out = vec![];
    for (&x, dim) in inputs.iter().zip(in_dims) {
        let Some(dim) = *dim else {
            out.push((x.resolve(), false));
            continue;
        };
        if x.rank() == 0 {
            let why = "has no examples: the tensor is a scalar".into();
            return Err(Error::new("vmap", ErrorKind::Axis { axis: dim, rank: 0, why }).operand(x));
        }
        let a = axis("vmap", dim, x.rank()).map_err(|e| e.operand(x))?;
        let n = x.dims()[a];
        match size {
            Some((have, first)) if have != n => {
                let why = format!("batches differ: {have} examples of {}, {n} of {}", first.shape(), x.shape());
                return Err(Error::shape("vmap", &[first.shape(), x.shape()], why).operand(first).operand(x));
            }
            _ => size = Some((n, x)),
        }
        let order = std::iter::once(a).chain((0..x.rank()).filter(|&d| d != a)).collect();
        out.push((x.permuted(order), true));
    }
    match size {
        Some((n, _)) => Ok((out, n)),
        None => Err(Error::value("vmap", "no input has a batch axis").hint("give in_dims at least one Some(axis)")),
    }
}

/// One example, as a node that stands for any of them: it has no elements, and no gradient goes on through it.
struct Example;

impl Example {
    #[track_caller]
    fn of(x: &Tensor) -> Tensor {
        x.make(Op::Custom(Arc::new(Example)), &[x], x.shape().without(0), x.dtype())
    }
}

impl CustomOp for Example {
    fn name(&self) -> &str {
        "vmap"
    }

    fn output(&self, inputs: &[(&Shape, DType)]) -> Result<(Shape, DType)> {
        Ok((inputs[0].0.without(0), inputs[0].1))
    }

    fn forward(&self, _: &[Array<'_>], _: &mut [u8]) -> Result<()> {
        let why = "the function reads elements that differ between examples";
        let hint = "keep to operations on whole tensors (where_ in place of if), and let nothing of one example out";
        Err(Error::value("vmap", why).hint(hint))
    }

    fn vjp(&self, _: &Tensor, _: &Tensor, _: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let why = "a gradient taken inside the function goes on to what its inputs were made from".to_string();
        let hint = "ask for the gradients of the function's inputs alone, with grad::grad or grad::vjp";
        Err(Error::new("vmap", ErrorKind::Gradient(why)).hint(hint))
    }
}

/// The first axis moved to `dim`.
#[track_caller]
fn to_axis(t: &Tensor, dim: i64) -> Result<Tensor> {
    let to = axis("vmap", dim, t.rank()).map_err(|e| e.operand(t))?;
    let mut order: SmallVec<[usize; 6]> = (1..t.rank()).collect();
    order.insert(to, 0);
    Ok(t.permuted(order))
}

/// The nodes that depend on an example, as they are for the whole batch.
struct Batch {
    size: usize,
    done: IdMap<Tensor>,
    /// Nodes are numbered in the order they were made: nothing older depends on an example.
    since: u64,
}

impl Batch {
    fn emit(&mut self, outputs: &[Tensor]) -> Result<()> {
        let roots: Vec<&Tensor> = outputs.iter().collect();
        for t in topological(&roots, |t| t.id() >= self.since && !self.done.contains_key(&t.id())) {
            let inputs = t.node().inputs();
            if !self.done.contains_key(&t.id()) && inputs.iter().any(|i| self.done.contains_key(&i.id())) {
                let new = recorded_as(&t, || self.node(&t, &inputs))?;
                self.done.insert(t.id(), new);
            }
        }
        Ok(())
    }

    /// `[size] + shape`.
    fn shape(&self, shape: &Shape) -> Shape {
        shape.inserted(0, self.size)
    }

    /// A tensor with the batch axis in front: its own, or one along which all examples are the same.
    fn lift(&self, t: &Tensor) -> Tensor {
        match self.done.get(&t.id()) {
            Some(b) => b.clone(),
            None => t.expand_to(&self.shape(t.shape())),
        }
    }

    /// One node for all examples.
    fn node(&self, t: &Tensor, inputs: &[Tensor]) -> Result<Tensor> {
        let node = t.node();
        let lifted = || inputs.iter().map(|i| self.lift(i)).collect::<Vec<_>>();
        let same = |op: Op| {
            let x = lifted();
            let refs: Vec<&Tensor> = x.iter().collect();
            Tensor::build(op, &refs, self.shape(&node.shape), node.dtype, node.device, node.location)
        };
        Ok(match &node.op {
            // Nothing comes in, so nothing depends on an example.
            Op::Data | Op::Scalar(_) | Op::Iota | Op::Rand { .. } | Op::Var(_) => t.clone(),
            Op::Ewise(_) | Op::Cast | Op::Contiguous | Op::Transfer | Op::After => same(node.op.clone()),
            // Gradients that end at a variable made inside are graph by now; they do not go on outside.
            Op::Snapshot(_) | Op::Detach => self.lift(&inputs[0]).detach(),
            Op::View(v) => self.view(v, &inputs[0]),
            Op::Reduce { op, axes } => same(Op::Reduce { op: *op, axes: axes.iter().map(|a| a + 1).collect() }),
            // Leading axes broadcast, so a side that is the same for all examples stays as it is.
            Op::Matmul => self.own(&inputs[0]).matmul(&self.own(&inputs[1]))?,
            Op::Gather { axis } => same(Op::Gather { axis: axis + 1 }),
            Op::Cat { axis } => same(Op::Cat { axis: axis + 1 }),
            Op::Conv(c) => self.conv(c, t, &inputs[0], &inputs[1])?,
            Op::Host(h) => match h {
                HostOp::Scan { op, axis } => same(Op::Host(HostOp::Scan { op: *op, axis: axis + 1 })),
                HostOp::Cascade { axis, back } => same(Op::Host(HostOp::Cascade { axis: axis + 1, back: *back })),
                HostOp::Argsort { axis, descending } => {
                    same(Op::Host(HostOp::Argsort { axis: axis + 1, descending: *descending }))
                }
                HostOp::Topk { axis, k, largest } => {
                    same(Op::Host(HostOp::Topk { axis: axis + 1, k: *k, largest: *largest }))
                }
                HostOp::Select { axis, rank } => same(Op::Host(HostOp::Select { axis: axis + 1, rank: *rank })),
                HostOp::Scatter { axis, mode } => same(Op::Host(HostOp::Scatter { axis: axis + 1, mode: *mode })),
                HostOp::SearchSorted { .. } => self.searchsorted(t, &inputs[0], &inputs[1])?,
                HostOp::Mode if inputs[0].rank() > 0 => same(node.op.clone()),
                HostOp::Mode => self.one_by_one(t, &lifted())?,
                HostOp::Linalg(_)
                | HostOp::MaxPool(..)
                | HostOp::MeanPool(_)
                | HostOp::MeanPoolGrad(_)
                | HostOp::Resample(_)
                | HostOp::Border(_)
                | HostOp::BorderGrad(_)
                | HostOp::OneHot(_) => same(node.op.clone()),
                HostOp::Shuffle
                | HostOp::TakeRows
                | HostOp::AddRows
                | HostOp::GridSample(..)
                | HostOp::Distance { .. }
                | HostOp::DistanceGrad { .. }
                | HostOp::Lstm(_)
                | HostOp::LstmGrad(_)
                | HostOp::Attention(_)
                | HostOp::AttentionGrad(_) => self.one_by_one(t, &lifted())?,
            },
            Op::Custom(_) | Op::Call(_) => self.one_by_one(t, &lifted())?,
            Op::WithVjp(rule) => same(Op::WithVjp(Arc::new(Batched(rule.clone())))),
        })
    }

    /// The batched tensor where there is one, the tensor itself otherwise.
    fn own(&self, t: &Tensor) -> Tensor {
        self.done.get(&t.id()).unwrap_or(t).clone()
    }

    fn view(&self, v: &ViewOp, x: &Tensor) -> Tensor {
        let b = self.lift(x);
        match v {
            ViewOp::Reshape(s) => b.reshape_to(&self.shape(s)),
            ViewOp::Permute(p) => b.permuted(std::iter::once(0).chain(p.iter().map(|a| a + 1)).collect()),
            ViewOp::Expand(s) => {
                // New axes come after the batch axis, so they are made before it is expanded.
                let ones = std::iter::repeat_n(1, s.rank() - x.rank());
                let wide: Shape = std::iter::once(self.size).chain(ones).chain(x.dims().iter().copied()).collect();
                b.reshape_to(&wide).expand_to(&self.shape(s))
            }
            ViewOp::Slice { axis, start, step, len } => b.sliced(axis + 1, *start, *step, *len),
            ViewOp::Unfold { axis, size, step } => {
                b.view_op(ViewOp::Unfold { axis: axis + 1, size: *size, step: *step })
            }
            ViewOp::Pad(amounts) => {
                b.view_op(ViewOp::Pad(std::iter::once((0, 0)).chain(amounts.iter().copied()).collect()))
            }
        }
    }

    /// One weight for all examples: they are more images. A weight each: they are groups of channels.
    fn conv(&self, c: &Conv, t: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let n = self.size;
        let scaled = |s: &Shape, axis: usize| s.with(axis, s[axis] * n);
        let build = |op: Conv, a: &Tensor, b: &Tensor| {
            let shape = op.shape();
            Tensor::build(Op::Conv(std::sync::Arc::new(op)), &[a, b], shape, t.dtype(), t.device(), t.location())
        };
        let one_weight = c.kind != ConvKind::WeightGrad && !self.done.contains_key(&b.id());
        if one_weight {
            let op = Conv { input: scaled(&c.input, 0), output: scaled(&c.output, 0), ..c.clone() };
            let images = self.lift(a).reshape(scaled(a.shape(), 0))?;
            return build(op, &images, b).reshape(self.shape(t.shape()));
        }
        if c.channels_last {
            return self.one_by_one(t, &[self.lift(a), self.lift(b)]);
        }
        let op = Conv {
            kind: c.kind,
            params: ConvParams { groups: c.params.groups * n, ..c.params.clone() },
            input: scaled(&c.input, 1),
            weight: scaled(&c.weight, 0),
            output: scaled(&c.output, 1),
            channels_last: false,
        };
        // [n, images, channels, ..] <-> [images, n * channels, ..]
        let swap = |t: &Tensor| t.transpose(0, 1);
        let channels = |x: &Tensor| swap(&self.lift(x))?.reshape(scaled(x.shape(), 1));
        let weights = |x: &Tensor| self.lift(x).reshape(scaled(x.shape(), 0));
        let images_out = |y: Tensor| swap(&y.reshape(t.shape().inserted(1, n))?);
        match c.kind {
            ConvKind::Forward | ConvKind::InputGrad => images_out(build(op, &channels(a)?, &weights(b)?)),
            ConvKind::WeightGrad => build(op, &channels(a)?, &channels(b)?).reshape(self.shape(t.shape())),
        }
    }

    /// One sorted row for all values of an example becomes one row an example.
    fn searchsorted(&self, t: &Tensor, sorted: &Tensor, values: &Tensor) -> Result<Tensor> {
        let (mut s, mut v) = (self.lift(sorted), self.lift(values));
        let row = sorted.dims().last().copied().unwrap_or(1);
        if sorted.numel() == row {
            s = s.reshape([self.size, row])?;
            v = v.reshape([self.size, values.numel()])?;
        }
        let y = Tensor::build(t.node().op.clone(), &[&s, &v], v.shape().clone(), t.dtype(), t.device(), t.location());
        y.reshape(self.shape(t.shape()))
    }

    /// An operation that knows no batches: each example on its own.
    fn one_by_one(&self, t: &Tensor, lifted: &[Tensor]) -> Result<Tensor> {
        if self.size == 0 {
            return Ok(Tensor::zeros_on(self.shape(t.shape()), t.dtype(), t.device()));
        }
        let each = (0..self.size)
            .map(|i| Ok(again(t, lifted.iter().map(|x| x.select(0, i as i64)).collect::<Result<_>>()?)))
            .collect::<Result<Vec<_>>>()?;
        Tensor::stack(&each.iter().collect::<Vec<_>>(), 0)
    }
}

/// A user's gradient rule, over a batch.
struct Batched(Arc<dyn VjpRule>);

impl VjpRule for Batched {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn vjp(&self, grad: &Tensor, output: &Tensor, inputs: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let all: Vec<&Tensor> = [grad, output].into_iter().chain(inputs).collect();
        let mut given = vec![];
        let rule = |x: &[Tensor]| {
            let parts = self.0.vjp(&x[0], &x[1], &x[2..])?;
            given = parts.iter().map(|p| p.is_some()).collect();
            Ok(parts.into_iter().flatten().collect::<Vec<_>>())
        };
        let mut parts = vmap(rule, &all, &vec![Some(0); all.len()], 0)?.into_iter();
        Ok(given.into_iter().map(|there| if there { parts.next() } else { None }).collect())
    }
}

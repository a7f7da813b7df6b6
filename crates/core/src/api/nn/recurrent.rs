//! Long short-term memory over a sequence: one routine for all steps, where the device has it.
//!
//! The composite, step by step, is its definition, and what gradients of its gradients are made of.

use crate::api::same_device;
use crate::{
    DType, Device, Error, Result, Shape, Tensor, autocast_dtype, enable_grad,
    grad::{custom::with_vjp, grad_of},
    is_grad_enabled,
    op::{HostOp, Op, VjpRule},
    view::ViewOp,
};
use gradus_numerics::recurrent::Lstm;
use std::{panic::Location, sync::Arc};

impl Tensor {
    /// Long short-term memory over a sequence. `self`, `[t, n, 4 hidden]`, is what the inputs add to the gates (input,
    /// forget, cell and output, as PyTorch has them), `weight_hh`, `[4 hidden, hidden]`, makes the rest of them from the state
    /// before, and `h0` and `c0`, `[n, hidden]`, are where it begins: at the last step, if `reverse`. Gives the states of all
    /// steps, `[t, n, hidden]`, and the last cell.
    ///
    /// ```
    /// use gradus_core::{DType, Tensor};
    /// let (gates, w) = (Tensor::randn([5, 2, 12]), Tensor::randn([12, 3]));
    /// let zero = Tensor::zeros([2, 3], DType::F32);
    /// let (y, c) = gates.lstm(&w, &zero, &zero, false)?;
    /// assert_eq!((y.dims(), c.dims()), (&[5, 2, 3][..], &[2, 3][..]));
    /// # Ok::<(), gradus_core::Error>(())
    /// ```
    #[track_caller]
    pub fn lstm(&self, weight_hh: &Tensor, h0: &Tensor, c0: &Tensor, reverse: bool) -> Result<(Tensor, Tensor)> {
        let given = [self, weight_hh, h0, c0];
        same_device("lstm", &given)?;
        let sizes = match (self.dims(), weight_hh.dims()) {
            (&[t, n, four], &[rows, hidden]) if four == rows && rows == 4 * hidden && t > 0 => Some((t, n, hidden)),
            _ => None,
        };
        let Some((steps, rows, hidden)) = sizes.filter(|s| [h0, c0].iter().all(|x| x.dims() == [s.1, s.2])) else {
            let why = format!(
                "takes gates [t, n, 4 h], a weight [4 h, h] and states [n, h], at least one step: not {}, {}, {} and {}",
                self.shape(),
                weight_hh.shape(),
                h0.shape(),
                c0.shape()
            );
            return Err(given.iter().fold(Error::shape("lstm", &given.map(Tensor::shape), why), |e, x| e.operand(x)));
        };
        let routine = self.device() == Device::cpu() && given.iter().all(|x| x.dtype() == DType::F32);
        if !routine || autocast_dtype().is_some() || rows * hidden == 0 {
            return composite(&given.map(Tensor::resolve), reverse);
        }
        let keep = is_grad_enabled() && given.iter().any(|x| x.requires_grad());
        let s = Lstm { steps, rows, hidden, reversed: reverse, keep };
        let constants = given.map(Tensor::detach);
        let packed = self.make(Op::Host(HostOp::Lstm(s)), &constants.each_ref(), s.packed().into(), DType::F32);
        let mut out = packed.sliced(0, 0, 1, (steps + 1) * s.state());
        if keep {
            let all: Vec<&Tensor> = given.into_iter().chain([&packed]).collect();
            out = with_vjp(Arc::new(Backward(s)), &out, &all, Location::caller());
        }
        Ok((states(&s, &out), part(&out, steps * s.state(), &[rows, hidden])))
    }
}

/// A part of a flat result.
fn part(flat: &Tensor, from: usize, dims: &[usize]) -> Tensor {
    let shape = Shape::from(dims);
    flat.sliced(0, from, 1, shape.numel()).reshape_to(&shape)
}

/// The states of all steps in a flat result.
fn states(s: &Lstm, flat: &Tensor) -> Tensor {
    part(flat, 0, &[s.steps, s.rows, s.hidden])
}

/// Step by step, from (gates, weight, h0, c0).
#[track_caller]
fn composite(x: &[Tensor; 4], reverse: bool) -> Result<(Tensor, Tensor)> {
    let [gates, weight, h0, c0] = x;
    let (steps, hidden) = (gates.dims()[0], weight.dims()[1]);
    let (mut h, mut c) = (h0.clone(), c0.clone());
    let mut all = vec![h0.clone(); steps];
    for i in 0..steps {
        let t = if reverse { steps - 1 - i } else { i };
        let (now, rest) = (gates.select(0, t as i64)?, h.linear(weight, None)?);
        // Cut first, then added: what is cut is in memory, and all the rest is one kernel.
        let gate = |q: usize| now.narrow(-1, q * hidden, hidden)?.add(&rest.narrow(-1, q * hidden, hidden)?);
        let (input, forget, cell, output) = (gate(0)?, gate(1)?, gate(2)?, gate(3)?);
        c = forget.sigmoid() * c + input.sigmoid() * cell.tanh();
        h = output.sigmoid() * c.tanh();
        all[t] = h.clone();
    }
    Ok((Tensor::stack(&all.iter().collect::<Vec<_>>(), 0)?, c))
}

/// The gradients of gates, h0 and c0 in the flat result of theirs.
fn gradients(s: &Lstm, flat: &Tensor) -> [Tensor; 3] {
    let (one, gates) = (s.state(), 4 * s.steps * s.state());
    [
        part(flat, 0, &[s.steps, s.rows, 4 * s.hidden]),
        part(flat, gates, &[s.rows, s.hidden]),
        part(flat, gates + one, &[s.rows, s.hidden]),
    ]
}

/// Gradients of a sequence, from (gates, weight, h0, c0, what was kept).
struct Backward(Lstm);

impl VjpRule for Backward {
    fn name(&self) -> &str {
        "lstm"
    }

    fn vjp(&self, grad: &Tensor, out: &Tensor, inputs: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let [gates, weight, h0, c0, packed] = inputs else { return Err(Tensor::bug("an lstm without inputs")) };
        let s = &self.0;
        let constants = [weight, c0, packed, grad].map(Tensor::detach);
        let op = Op::Host(HostOp::LstmGrad(*s));
        let flat = grad.make(op, &constants.each_ref(), s.gradients().into(), DType::F32);
        // Differentiated again, it is what the composite's gradient is.
        let flat = with_vjp(Arc::new(Twice(*s)), &flat, &[grad, gates, weight, h0, c0], grad.location());
        let [dgates, dh0, dc0] = gradients(s, &flat);
        // Every step's gates saw the state before it: the first one's saw the one it began with.
        let (y, first) = (states(s, out), h0.unsqueeze(0)?);
        let before = match (s.reversed, s.steps - 1) {
            (_, 0) => first,
            (false, n) => Tensor::cat(&[&first, &y.narrow(0, 0, n)?], 0)?,
            (true, n) => Tensor::cat(&[&y.narrow(0, 1, n)?, &first], 0)?,
        };
        let rows = s.steps * s.rows;
        let by_rows = |t: &Tensor, n: usize| t.reshape_to(&Shape::from([rows, n]));
        let dweight = by_rows(&dgates, 4 * s.hidden).t()?.matmul(&by_rows(&before, s.hidden))?;
        Ok(vec![Some(dgates), Some(dweight), Some(dh0), Some(dc0), None])
    }
}

/// Gradients of the gradients, from (gradient, gates, weight, h0, c0).
struct Twice(Lstm);

impl VjpRule for Twice {
    fn name(&self) -> &str {
        "lstm_grad"
    }

    fn vjp(&self, grad: &Tensor, _: &Tensor, inputs: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        enable_grad(|| {
            // Nodes of this rule's own: the gradient may depend on the others, and must not here.
            let fresh =
                |t: &Tensor| t.make(Op::View(ViewOp::Reshape(t.shape().clone())), &[t], t.shape().clone(), t.dtype());
            let own: Vec<Tensor> = inputs.iter().map(fresh).collect();
            let [g, gates, weight, h0, c0] = &own[..] else { return Err(Tensor::bug("a gradient without inputs")) };
            let (y, c) = composite(&[gates, weight, h0, c0].map(Tensor::clone), self.0.reversed)?;
            let flat = |t: &Tensor| t.reshape_to(&Shape::from(t.numel()));
            let y = Tensor::cat(&[&flat(&y), &flat(&c)], 0)?;
            let first = grad_of(&[(&y, g)], &[gates, h0, c0])?;
            let given = gradients(&self.0, grad);
            let pairs: Vec<(&Tensor, &Tensor)> =
                first.iter().zip(&given).filter_map(|(y, g)| y.as_ref().map(|y| (y, g))).collect();
            let targets: Vec<&Tensor> = own.iter().collect();
            let parts = grad_of(&pairs, &targets)?;
            Ok(parts.into_iter().zip(&targets).map(|(p, t)| Some(p.unwrap_or_else(|| t.zeros_like()))).collect())
        })
    }
}

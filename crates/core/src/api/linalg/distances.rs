//! Distances between rows: by a routine where the device has it, by the norms of differences that define them elsewhere.

use crate::api::{
    routine::{Routine, routine},
    same_device,
};
use crate::{
    DType, Device, Error, Result, Shape, Tensor, is_grad_enabled,
    op::{HostOp, Op},
};
use gradus_numerics::distance::{Order, Way};

impl Tensor {
    /// Distances in the `p`-norm between every row of this (`[.., n, d]`) and every row of `other` (`[.., m, d]`).
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let (a, b) = (Tensor::from([[0.0f32, 0.0]]), Tensor::from([[3.0f32, 4.0], [0.0, 1.0]]));
    /// assert_eq!(a.cdist(&b, 2.0).unwrap().to_vec::<f32>().unwrap(), [5.0, 1.0]);
    /// ```
    #[track_caller]
    pub fn cdist(&self, other: &Tensor, p: f64) -> Result<Tensor> {
        same_device("cdist", &[self, other])?;
        let shapes = [self.shape(), other.shape()];
        let columns = |t: &Tensor| t.dims().last().copied();
        if self.rank() < 2 || other.rank() < 2 || columns(self) != columns(other) {
            let why = format!("needs rows of one length: {} and {}", self.shape(), other.shape());
            return Err(Error::shape("cdist", &shapes, why).operand(self).operand(other));
        }
        check_order("cdist", p)?;
        self.check_float("cdist")?;
        let between = Between { p, pairs: false };
        let Some(order) = between.order(&[self, other]) else {
            return between.composite(&[self.clone(), other.clone()]);
        };
        let lead = |t: &Tensor| Shape::from(&t.dims()[..t.rank() - 2]);
        let (a, b) = (lead(self), lead(other));
        if a == b {
            return Ok(routine(Measure { between, order }, &[self, other]));
        }
        let Some(both) = a.broadcast(&b) else {
            return between.composite(&[self.clone(), other.clone()]);
        };
        let wide = |t: &Tensor| t.expand_to(&both.iter().chain(&t.dims()[t.rank() - 2..]).copied().collect());
        Ok(routine(Measure { between, order }, &[&wide(self), &wide(other)]))
    }

    /// Distances in the `p`-norm between the rows of a matrix, each pair once: (0, 1), (0, 2), ..., (1, 2), ...
    #[track_caller]
    pub fn pdist(&self, p: f64) -> Result<Tensor> {
        let &[n, d] = self.dims() else {
            let why = format!("needs a matrix, not {}", self.shape());
            return Err(Error::shape("pdist", &[self.shape()], why).operand(self));
        };
        check_order("pdist", p)?;
        self.check_float("pdist")?;
        if n < 2 || d == 0 {
            let count = n * n.saturating_sub(1) / 2;
            return Ok(Tensor::zeros_on(count.into(), self.dtype(), self.device()));
        }
        let between = Between { p, pairs: true };
        match between.order(&[self]) {
            Some(order) => Ok(routine(Measure { between, order }, &[self])),
            None => between.composite(std::slice::from_ref(self)),
        }
    }
}

/// Between which rows, and in which norm.
#[derive(Clone, Copy)]
struct Between {
    p: f64,
    /// Of one matrix, each pair once.
    pairs: bool,
}

impl Between {
    /// The norm, if the device has a routine for distances of such tensors in it.
    fn order(self, x: &[&Tensor]) -> Option<Order> {
        let dtype = x[0].dtype();
        let simple = x.iter().all(|x| x.device() == Device::cpu() && x.dtype() == dtype && x.numel() > 0);
        if !simple || !matches!(dtype, DType::F32 | DType::F64) {
            return None;
        }
        let traced = || is_grad_enabled() && x.iter().any(|x| x.requires_grad());
        match self.p {
            1.0 => Some(Order::One),
            2.0 => Some(Order::Two),
            // Largest differences share their gradient among equals, which takes another pass.
            f64::INFINITY if !traced() => Some(Order::Infinity),
            _ => None,
        }
    }

    /// The definition.
    #[track_caller]
    fn composite(self, x: &[Tensor]) -> Result<Tensor> {
        match (self.pairs, x) {
            (false, [a, b]) => {
                let difference = a.unsqueeze(-2)?.sub(&b.unsqueeze(-3)?)?;
                if a.dims().last() == Some(&0) {
                    return difference.sum_dim(-1, false);
                }
                difference.vector_norm(self.p, -1, false)
            }
            (true, [x]) => {
                let (n, d) = (x.dims()[0] as i64, x.dims()[1]);
                let (first, second): (Vec<i64>, Vec<i64>) =
                    (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).unzip();
                let rows = |at: Vec<i64>| {
                    let count = at.len();
                    let at = Tensor::from_vec(at, [count, 1])?.to(&x.device());
                    x.gather(0, &at.expand([count, d])?)
                };
                (rows(first)? - rows(second)?).vector_norm(self.p, -1, false)
            }
            _ => Err(Tensor::bug("inputs of distances")),
        }
    }
}

/// The routine.
#[derive(Clone, Copy)]
struct Measure {
    between: Between,
    order: Order,
}

impl Routine for Measure {
    fn name(&self) -> &'static str {
        if self.between.pairs { "pdist" } else { "cdist" }
    }

    fn value(&self, x: &[Tensor]) -> Tensor {
        let (rows, r) = (x[0].dims(), x[0].rank());
        let shape = match self.between.pairs {
            true => Shape::from(rows[0] * (rows[0] - 1) / 2),
            false => rows[..r - 1].iter().copied().chain([x[1].dims()[r - 2]]).collect(),
        };
        let op = HostOp::Distance { order: self.order, pairs: self.between.pairs };
        let all: Vec<&Tensor> = x.iter().collect();
        x[0].make(Op::Host(op), &all, shape, x[0].dtype())
    }

    fn gradients(&self, grad: &Tensor, y: &Tensor, x: &[Tensor]) -> Result<Vec<Tensor>> {
        // d|v|/dv = v / |v|, and zero where that is zero; of magnitudes it is their signs.
        let signs = self.order == Order::One;
        let zero = y.scalar_like(0.0);
        let w = if signs { grad.clone() } else { y.raw_eq(&zero).raw_where(&zero, &(grad / y)) };
        let pairs = self.between.pairs;
        let make = |inputs: &[&Tensor], turned: bool| {
            let op = HostOp::DistanceGrad { way: Way { signs, turned }, pairs };
            grad.make(Op::Host(op), inputs, inputs[0].shape().clone(), grad.dtype())
        };
        Ok(match x {
            [a, b] => vec![make(&[a, b, &w], false), make(&[b, a, &w], true)],
            _ => vec![make(&[&x[0], &w], false)],
        })
    }

    fn composite(&self, x: &[Tensor]) -> Result<Tensor> {
        self.between.composite(x)
    }
}

#[track_caller]
fn check_order(name: &str, p: f64) -> Result<()> {
    if p >= 0.0 {
        return Ok(());
    }
    Err(Error::value(name, format!("the order of a distance cannot be {p}")))
}

//! Derivatives as functions.

use super::{run, substitute::Substitution, vmap};
use crate::{
    Error, ErrorKind, Result, Shape, Tensor, enable_grad,
    graph::{IdMap, is_grad_enabled},
    view::ViewOp,
};

/// What a function of tensors returns: one tensor, a list of them, or a tuple.
pub trait Tensors: Clone {
    /// All of them, in order.
    fn list(&self) -> Vec<Tensor>;
    /// The same arrangement with `f` of each of them.
    fn each(self, f: &mut dyn FnMut(Tensor) -> Result<Tensor>) -> Result<Self>;
}

impl Tensors for Tensor {
    fn list(&self) -> Vec<Tensor> {
        vec![self.clone()]
    }
    fn each(self, f: &mut dyn FnMut(Tensor) -> Result<Tensor>) -> Result<Tensor> {
        f(self)
    }
}

impl Tensors for Vec<Tensor> {
    fn list(&self) -> Vec<Tensor> {
        self.clone()
    }
    fn each(self, f: &mut dyn FnMut(Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
        self.into_iter().map(f).collect()
    }
}

impl<A: Tensors, B: Tensors> Tensors for (A, B) {
    fn list(&self) -> Vec<Tensor> {
        [self.0.list(), self.1.list()].concat()
    }
    fn each(self, f: &mut dyn FnMut(Tensor) -> Result<Tensor>) -> Result<(A, B)> {
        Ok((self.0.each(f)?, self.1.each(f)?))
    }
}

/// Puts `new` tensors, in order, where those of `old` were.
pub(super) fn refill<O: Tensors>(old: O, new: Vec<Tensor>) -> Result<O> {
    let mut new = new.into_iter();
    old.each(&mut |_| new.next().ok_or_else(|| Tensor::bug("fewer tensors than before")))
}

/// The gradients of `output` (one number) for `inputs`: variables or intermediate tensors on the way.
///
/// ```
/// use gradus_core::{grad, Tensor};
/// let x = Tensor::from([1.0f32, 2.0]).requires_grad_();
/// let h = &x * &x;
/// let g = grad::grad(&h.sum(), &[&x, &h]).unwrap();
/// assert_eq!(g[0].to_vec::<f32>().unwrap(), [2.0, 4.0]);
/// assert_eq!(g[1].to_vec::<f32>().unwrap(), [1.0, 1.0]);
/// ```
#[track_caller]
pub fn grad(output: &Tensor, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    if output.numel() != 1 {
        let why = format!("grad needs one number, not {}", output.shape());
        let e = Error::shape("grad", &[output.shape()], why).operand(output);
        return Err(e.hint("use grad_of with a gradient for each element"));
    }
    let parts = grad_of(&[(output, &output.ones_like())], inputs)?;
    let all = parts.into_iter().zip(inputs);
    all.map(|(g, x)| {
        g.ok_or_else(|| {
            let why = "the output does not depend on this tensor, or not through differentiable operations".to_string();
            Error::new("grad", ErrorKind::Gradient(why)).operand(x)
        })
    })
    .collect()
}

/// The gradients for `inputs` of several outputs, each with its own gradient; `None` where no output depends on one.
#[track_caller]
pub fn grad_of(outputs: &[(&Tensor, &Tensor)], inputs: &[&Tensor]) -> Result<Vec<Option<Tensor>>> {
    for (y, g) in outputs {
        if y.shape() != g.shape() {
            let why = format!("an output of shape {} got a gradient of shape {}", y.shape(), g.shape());
            return Err(Error::shape("grad_of", &[y.shape(), g.shape()], why).operand(y).operand(g));
        }
    }
    if inputs.is_empty() {
        return Ok(vec![]);
    }
    let outputs: Vec<(Tensor, Tensor)> =
        outputs.iter().filter(|(y, _)| y.requires_grad()).map(|(y, g)| ((*y).clone(), (*g).clone())).collect();
    Ok(run(&outputs, inputs)?.targets)
}

/// The inputs of a function under differentiation, each a node of its own: the same tensor given twice counts as two
/// inputs, and what the function reads from outside is constant.
struct Scope {
    given: Vec<Tensor>,
    leaves: Vec<Tensor>,
    quiet: bool,
}

impl Scope {
    #[track_caller]
    fn open(inputs: &[&Tensor]) -> Scope {
        let given: Vec<Tensor> = inputs.iter().map(|x| x.resolve()).collect();
        let leaf = |x: &Tensor| match (x.dtype().is_float(), x.requires_grad()) {
            (false, _) => x.clone(),
            (true, true) => x.view_op(ViewOp::Reshape(x.shape().clone())), // the same elements, and x's gradient
            (true, false) => x.requires_grad_().resolve(),
        };
        let leaves = enable_grad(|| given.iter().map(leaf).collect());
        Scope { given, leaves, quiet: !is_grad_enabled() }
    }

    /// What was computed from the leaves as computed from the inputs: differentiable where those are.
    fn close(&self, results: &[Tensor]) -> Vec<Tensor> {
        let pairs = || self.leaves.iter().zip(&self.given).filter(|(leaf, x)| leaf.id() != x.id());
        let refs: Vec<&Tensor> = results.iter().collect();
        let pass = Substitution {
            since: pairs().map(|(leaf, _)| leaf.id()).min().unwrap_or(u64::MAX),
            replaced: pairs().map(|(leaf, x)| (leaf.id(), x.clone())).collect::<IdMap<Tensor>>(),
            outside: &|t| t.clone(),
            everything: false,
            same_values: true,
        };
        let closed = pass.apply(&refs);
        // Under no_grad everything that comes out is constant.
        if self.quiet { closed.iter().map(|t| t.detach()).collect() } else { closed }
    }

    /// Gradients for all leaves; zeros where the outputs do not depend on one.
    #[track_caller]
    fn gradients(&self, outputs: &[(&Tensor, &Tensor)]) -> Result<Vec<Tensor>> {
        let leaves: Vec<&Tensor> = self.leaves.iter().collect();
        let parts = enable_grad(|| grad_of(outputs, &leaves))?;
        Ok(parts.into_iter().zip(&self.leaves).map(|(g, x)| g.unwrap_or_else(|| x.zeros_like())).collect())
    }
}

/// The map from gradients of a function's outputs to gradients of its inputs, at one point.
pub type Pullback = Box<dyn Fn(&[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync>;

/// The outputs of `f` at `inputs`, and the map that takes a gradient for each output to one for each input.
///
/// ```
/// use gradus_core::{grad, Tensor};
/// let x = Tensor::from([1.0f64, 2.0]);
/// let (y, pullback) = grad::vjp(|x| Ok(&x[0] * &x[0]), &[&x]).unwrap();
/// assert_eq!(y.to_vec::<f64>().unwrap(), [1.0, 4.0]);
/// let g = pullback(&[&Tensor::from([1.0f64, 10.0])]).unwrap();
/// assert_eq!(g[0].to_vec::<f64>().unwrap(), [2.0, 40.0]);
/// ```
#[track_caller]
pub fn vjp<O: Tensors>(f: impl FnOnce(&[Tensor]) -> Result<O>, inputs: &[&Tensor]) -> Result<(O, Pullback)> {
    let scope = Scope::open(inputs);
    let y = enable_grad(|| f(&scope.leaves))?;
    let inner: Vec<Tensor> = y.list().iter().map(|t| t.resolve()).collect();
    let outer = refill(y, scope.close(&inner))?;
    let pullback = move |cotangents: &[&Tensor]| {
        if cotangents.len() != inner.len() {
            let why = format!("the function has {} outputs and got {} gradients", inner.len(), cotangents.len());
            return Err(Error::value("vjp", why));
        }
        let pairs: Vec<(&Tensor, &Tensor)> = inner.iter().zip(cotangents.iter().copied()).collect();
        Ok(scope.close(&scope.gradients(&pairs)?))
    };
    Ok((outer, Box::new(pullback)))
}

/// The outputs of `f` at `inputs`, and how they change when the inputs move along `tangents`: forward mode, as the
/// gradient of a gradient (`J^T u` is linear in `u`, and its gradient along the tangents is `J v`).
///
/// ```
/// use gradus_core::{grad, Tensor};
/// let (x, v) = (Tensor::from([1.0f64, 2.0]), Tensor::from([1.0f64, 10.0]));
/// let (y, dy) = grad::jvp(|x| Ok(x[0].square().sum()), &[&x], &[&v]).unwrap();
/// assert_eq!((y.item::<f64>().unwrap(), dy.item::<f64>().unwrap()), (5.0, 42.0));
/// ```
#[track_caller]
pub fn jvp<O: Tensors>(
    f: impl FnOnce(&[Tensor]) -> Result<O>,
    inputs: &[&Tensor],
    tangents: &[&Tensor],
) -> Result<(O, O)> {
    same_shapes("jvp", inputs, tangents)?;
    let scope = Scope::open(inputs);
    let y = enable_grad(|| f(&scope.leaves))?;
    let outputs: Vec<Tensor> = y.list().iter().map(|t| t.resolve()).collect();
    let zeros: Vec<Tensor> = outputs.iter().map(|t| t.zeros_like()).collect();
    let dual = Scope::open(&zeros.iter().collect::<Vec<_>>());
    let pairs: Vec<(&Tensor, &Tensor)> = outputs.iter().zip(&dual.leaves).collect();
    let pulled = scope.gradients(&pairs)?;
    let along: Vec<(&Tensor, &Tensor)> = pulled.iter().zip(tangents.iter().copied()).collect();
    let moved = dual.close(&dual.gradients(&along)?);
    let count = outputs.len();
    let mut values = scope.close(&[outputs, moved].concat());
    let moved = values.split_off(count);
    Ok((refill(y.clone(), values)?, refill(y, moved)?))
}

/// The value of `f` (one number) and its gradients for all inputs.
///
/// ```
/// use gradus_core::{grad, Tensor};
/// let x = Tensor::from([1.0f64, 2.0]);
/// let (y, g) = grad::value_and_grad(|x| Ok(x[0].square().sum()), &[&x]).unwrap();
/// assert_eq!(y.item::<f64>().unwrap(), 5.0);
/// assert_eq!(g[0].to_vec::<f64>().unwrap(), [2.0, 4.0]);
/// ```
#[track_caller]
pub fn value_and_grad(
    f: impl FnOnce(&[Tensor]) -> Result<Tensor>,
    inputs: &[&Tensor],
) -> Result<(Tensor, Vec<Tensor>)> {
    let (y, pullback) = vjp(f, inputs)?;
    one_number("value_and_grad", &y)?;
    let grads = pullback(&[&y.ones_like()])?;
    Ok((y, grads))
}

/// The value of `f` (one number) and the product of its Hessian with `vectors`: the gradient of the gradient's part
/// along them.
///
/// ```
/// use gradus_core::{grad, Tensor};
/// let (x, v) = (Tensor::from([1.0f64, 2.0]), Tensor::from([1.0f64, 10.0]));
/// let (_, hv) = grad::hvp(|x| x[0].pow(3.0).map(|c| c.sum()), &[&x], &[&v]).unwrap();
/// assert_eq!(hv[0].to_vec::<f64>().unwrap(), [6.0, 120.0]);
/// ```
#[track_caller]
pub fn hvp(
    f: impl FnOnce(&[Tensor]) -> Result<Tensor>,
    inputs: &[&Tensor],
    vectors: &[&Tensor],
) -> Result<(Tensor, Vec<Tensor>)> {
    same_shapes("hvp", inputs, vectors)?;
    let ((y, _), pullback) = vjp(|x| value_and_grad(f, &x.iter().collect::<Vec<_>>()), inputs)?;
    let zero = y.zeros_like();
    let seeds: Vec<&Tensor> = std::iter::once(&zero).chain(vectors.iter().copied()).collect();
    Ok((y, pullback(&seeds)?))
}

/// All first derivatives of `f` at `x`, in the shape of the output followed by the shape of `x`: one backward pass,
/// batched over the elements of the output.
///
/// ```
/// use gradus_core::{grad, Tensor};
/// let x = Tensor::from([1.0f64, 2.0]);
/// let j = grad::jacobian(|x| Ok(x.square()), &x).unwrap();
/// assert_eq!(j.to_vec::<f64>().unwrap(), [2.0, 0.0, 0.0, 4.0]);
/// ```
#[track_caller]
pub fn jacobian(f: impl FnOnce(&Tensor) -> Result<Tensor>, x: &Tensor) -> Result<Tensor> {
    let (y, pullback) = vjp(|x| f(&x[0]), &[x])?;
    let shape: Shape = y.dims().iter().chain(x.dims()).copied().collect();
    if !y.requires_grad() && !y.dtype().is_float() {
        let why = format!("the output is {}, and derivatives are of floats", y.dtype());
        return Err(Error::dtype("jacobian", &[y.dtype()], why).operand(&y));
    }
    let n = y.numel();
    let each = y.shape().inserted(0, n);
    let basis = Tensor::eye(n, n, y.dtype()).to(&y.device()).reshape(each)?;
    let rows = vmap(|g| Ok(pullback(&[&g[0]])?.swap_remove(0)), &[&basis], &[Some(0)], 0)?;
    rows.reshape(shape)
}

/// All second derivatives of `f` (one number) at `x`, in the shape of `x` twice.
///
/// ```
/// use gradus_core::{grad, Tensor};
/// let x = Tensor::from([1.0f64, 2.0]);
/// let h = grad::hessian(|x| Ok(x.square().prod()), &x).unwrap();
/// assert_eq!(h.to_vec::<f64>().unwrap(), [8.0, 8.0, 8.0, 2.0]);
/// ```
#[track_caller]
pub fn hessian(f: impl FnOnce(&Tensor) -> Result<Tensor>, x: &Tensor) -> Result<Tensor> {
    jacobian(|x| Ok(value_and_grad(|x| f(&x[0]), &[x])?.1.swap_remove(0)), x)
}

#[track_caller]
fn one_number(op: &str, y: &Tensor) -> Result<()> {
    if y.numel() == 1 {
        return Ok(());
    }
    let why = format!("{op} needs a function with one number as its result, not {}", y.shape());
    Err(Error::shape(op, &[y.shape()], why).operand(y).hint("use vjp, or jacobian for all of its derivatives"))
}

#[track_caller]
fn same_shapes(op: &str, inputs: &[&Tensor], along: &[&Tensor]) -> Result<()> {
    if inputs.len() != along.len() {
        let why = format!("{} inputs, but {} directions", inputs.len(), along.len());
        return Err(Error::value(op, why));
    }
    match inputs.iter().zip(along).find(|(x, v)| x.shape() != v.shape()) {
        None => Ok(()),
        Some((x, v)) => {
            let why = format!("an input of shape {} cannot move along {}", x.shape(), v.shape());
            Err(Error::shape(op, &[x.shape(), v.shape()], why).operand(x).operand(v))
        }
    }
}

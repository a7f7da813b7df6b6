//! Differences, integrals and slopes of sampled functions.

use crate::api::{axis, same_device};
use crate::{DType, Error, Result, Shape, Tensor};

/// Where a function was sampled along an axis.
#[derive(Clone, Debug)]
pub enum Spacing {
    /// At equal distances.
    Step(f64),
    /// At these places.
    Points(Tensor),
}

impl From<f64> for Spacing {
    fn from(step: f64) -> Self {
        Spacing::Step(step)
    }
}

impl From<&Tensor> for Spacing {
    fn from(points: &Tensor) -> Self {
        Spacing::Points(points.clone())
    }
}

impl Tensor {
    /// `self[1..] - self[..-1]` along a checked axis; bools differ where they are not equal.
    #[track_caller]
    fn steps(&self, a: usize) -> Result<Tensor> {
        let n = self.dims()[a].saturating_sub(1);
        let (from, to) = (self.sliced(a, 0, 1, n), self.sliced(a, self.dims()[a] - n, 1, n));
        if self.dtype() == DType::Bool { to.logical_xor(&from) } else { to.sub(&from) }
    }

    /// The `n`-th differences of neighbours along an axis, after putting `prepend` before and `append` behind it.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let d = Tensor::from([1, 4, 9]).diff(1, 0, None, None).unwrap();
    /// assert_eq!(d.to_vec::<i32>().unwrap(), [3, 5]);
    /// ```
    #[track_caller]
    pub fn diff(&self, n: usize, dim: i64, prepend: Option<&Tensor>, append: Option<&Tensor>) -> Result<Tensor> {
        if self.rank() == 0 {
            return Err(Error::shape("diff", &[self.shape()], "a scalar has no neighbours").operand(self));
        }
        let a = axis("diff", dim, self.rank())?;
        if n == 0 {
            return Ok(self.resolve());
        }
        let parts: Vec<&Tensor> = prepend.into_iter().chain([self]).chain(append).collect();
        let mut x = if parts.len() > 1 { Tensor::cat(&parts, a as i64)? } else { self.resolve() };
        for _ in 0..n.min(x.dims()[a]) {
            x = x.steps(a)?;
        }
        Ok(x)
    }

    /// Areas of the trapezoids between neighbours along an axis.
    #[track_caller]
    fn areas(&self, name: &str, at: Spacing, dim: i64) -> Result<(usize, Tensor)> {
        if self.rank() == 0 {
            return Err(Error::shape(name, &[self.shape()], "a scalar cannot be integrated").operand(self));
        }
        let a = axis(name, dim, self.rank())?;
        let y = self.floated();
        let n = y.dims()[a].saturating_sub(1);
        let pairs = y.sliced(a, 0, 1, n).add(y.sliced(a, y.dims()[a] - n, 1, n))?;
        let width = match at {
            Spacing::Step(h) => return Ok((a, pairs * (h * 0.5))),
            Spacing::Points(x) => {
                same_device(name, &[self, &x])?;
                let lined_up = match x.rank() {
                    // A vector lies along the axis, whichever that is.
                    1 if x.numel() == self.dims()[a] => {
                        let shape: Shape = (0..self.rank()).map(|d| if d == a { x.numel() } else { 1 }).collect();
                        Some(x.reshape_to(&shape))
                    }
                    1 => None,
                    r if r <= self.rank() => {
                        let shape: Shape =
                            std::iter::repeat_n(1, self.rank() - r).chain(x.dims().iter().copied()).collect();
                        Some(x.reshape_to(&shape)).filter(|x| x.shape().broadcast(self.shape()).is_some())
                    }
                    _ => None,
                };
                match lined_up.filter(|x| x.dims()[a] == self.dims()[a]) {
                    Some(x) => x.steps(a)?,
                    None => {
                        let why = format!("places {} do not fit values {} along axis {a}", x.shape(), self.shape());
                        let e = Error::shape(name, &[self.shape(), x.shape()], why);
                        return Err(e.operand(self).operand(&x));
                    }
                }
            }
        };
        Ok((a, pairs.mul(&width)? * 0.5))
    }

    /// The integral along an axis by the trapezoid rule.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let y = Tensor::from([1.0f64, 3.0, 5.0]);
    /// assert_eq!(y.trapezoid(1.0, -1).unwrap().item::<f64>().unwrap(), 6.0);
    /// ```
    #[track_caller]
    pub fn trapezoid(&self, at: impl Into<Spacing>, dim: i64) -> Result<Tensor> {
        let (a, areas) = self.areas("trapezoid", at.into(), dim)?;
        areas.sum_dim(a as i64, false)
    }

    /// [`Tensor::trapezoid`] under its old name.
    #[track_caller]
    pub fn trapz(&self, at: impl Into<Spacing>, dim: i64) -> Result<Tensor> {
        self.trapezoid(at, dim)
    }

    /// The running integral along an axis by the trapezoid rule; one element shorter than the axis.
    #[track_caller]
    pub fn cumulative_trapezoid(&self, at: impl Into<Spacing>, dim: i64) -> Result<Tensor> {
        let (a, areas) = self.areas("cumulative_trapezoid", at.into(), dim)?;
        areas.cumsum(a as i64)
    }

    /// The slopes along each of `dims`: central differences inside, one-sided ones of order `edge_order` (1 or 2) at
    /// the ends. One spacing holds for all axes, or there is one for each.
    ///
    /// ```
    /// use gradus_core::{Spacing, Tensor};
    /// let x = Tensor::from([1.0f64, 4.0, 9.0]);
    /// let g = x.gradient(&[Spacing::Step(1.0)], &[0], 1).unwrap();
    /// assert_eq!(g[0].to_vec::<f64>().unwrap(), [3.0, 4.0, 5.0]);
    /// ```
    #[track_caller]
    pub fn gradient(&self, spacing: &[Spacing], dims: &[i64], edge_order: usize) -> Result<Vec<Tensor>> {
        if !matches!(edge_order, 1 | 2) {
            return Err(Error::value("gradient", format!("edge_order must be 1 or 2, not {edge_order}")).operand(self));
        }
        if spacing.len() != 1 && spacing.len() != dims.len() {
            let why = format!("{} axes need one spacing or {} of them, not {}", dims.len(), dims.len(), spacing.len());
            return Err(Error::value("gradient", why).operand(self));
        }
        let mut out: Vec<Tensor> = vec![];
        let mut seen: Vec<usize> = vec![];
        for (k, &dim) in dims.iter().enumerate() {
            let a = axis("gradient", dim, self.rank())?;
            let n = self.shape().get(a).copied().unwrap_or(1);
            if n <= edge_order {
                let why = format!("axis {a} of {} is too short for edge_order {edge_order}", self.shape());
                return Err(Error::shape("gradient", &[self.shape()], why).operand(self));
            }
            if seen.contains(&a) {
                return Err(Error::value("gradient", format!("axis {dim} is named twice")).operand(self));
            }
            seen.push(a);
            let at = if spacing.len() == 1 { &spacing[0] } else { &spacing[k] };
            out.push(self.slope(a, at, edge_order)?);
        }
        Ok(out)
    }

    #[track_caller]
    fn slope(&self, a: usize, at: &Spacing, edge_order: usize) -> Result<Tensor> {
        let y = self.floated();
        let n = y.dims()[a];
        // The distances between neighbours, n - 1 of them along the axis.
        let gaps = match at {
            Spacing::Step(h) => y.scalar_like(*h).expand_to(&y.shape().with(a, n - 1)),
            Spacing::Points(x) => {
                same_device("gradient", &[self, x])?;
                if x.dims() != [n] {
                    let why = format!("axis {a} of {} needs {n} places, not {}", self.shape(), x.shape());
                    return Err(Error::shape("gradient", &[self.shape(), x.shape()], why).operand(self).operand(x));
                }
                let shape: Shape = (0..y.rank()).map(|d| if d == a { n } else { 1 }).collect();
                x.to_dtype(y.dtype()).reshape_to(&shape).steps(a)?
            }
        };
        let (part, gap) = (|from, len| y.sliced(a, from, 1, len), |from, len| gaps.sliced(a, from, 1, len));
        let linear = |from: usize| (part(from + 1, 1) - part(from, 1)) / gap(from, 1);
        // The slope of the parabola through three neighbours, at the first, the middle and the last of them.
        let three = |from: usize, len: usize| {
            let (l, r) = (gap(from, len), gap(from + 1, len));
            ((part(from, len), part(from + 1, len), part(from + 2, len)), l.clone(), r.clone(), l + r)
        };
        let first = if edge_order == 1 {
            linear(0)
        } else {
            let ((p, q, s), l, r, w) = three(0, 1);
            q * &w / (&l * &r) - p * (&l + &w) / (&l * &w) - s * &l / (&r * &w)
        };
        let last = if edge_order == 1 {
            linear(n - 2)
        } else {
            let ((p, q, s), l, r, w) = three(n - 3, 1);
            p * &r / (&l * &w) - q * &w / (&l * &r) + s * (&r + &w) / (&r * &w)
        };
        let mut parts = vec![first];
        if n > 2 {
            let ((p, q, s), l, r, w) = three(0, n - 2);
            parts.push(q * (&r - &l) / (&l * &r) - p * &r / (&l * &w) + s * &l / (&r * &w));
        }
        parts.push(last);
        Tensor::cat(&parts.iter().collect::<Vec<_>>(), a as i64)
    }
}

//! Index tensors: several of them looked up together, by NumPy's rules for advanced indexing.

use crate::api::{broadcast_all, same_device};
use crate::{DType, Error, ErrorKind, Result, Scalar, Shape, Tensor, op::Composite};
use gradus_numerics::unique;
use smallvec::SmallVec;

/// A tensor with the axes that are looked up side by side as one, and where each lookup lands on it.
struct Joined {
    /// `[before.., joined, after..]`.
    rows: Tensor,
    /// The joined axis.
    axis: usize,
    /// One place of the joined axis a lookup, flat.
    index: Tensor,
    /// The common shape of the index tensors.
    shape: Shape,
    /// The order of axes that brought them side by side, if they were not.
    order: Option<Vec<i64>>,
}

/// Index tensors of neighbouring axes as places of these axes as one, flat. A setting an index: twice its axis' extent, and
/// one more where all of it is known to be in range and not to count from the end.
static PLACES: Composite = Composite {
    name: "index",
    build: |given, settings| {
        let constant = |x: i64| Tensor::constant(Scalar::I(x), DType::I64, given[0].device());
        let (zero, poison) = (constant(0), constant(i64::MIN / 2));
        let sure = settings.iter().all(|s| s & 1 == 1);
        let mut all: Option<Tensor> = None;
        for (t, setting) in given.iter().zip(settings) {
            let (n, plain) = ((setting >> 1) as i64, setting & 1 == 1);
            let i = if plain { t.resolve() } else { wrapped(t, n as usize) };
            // A place out of range in one axis must not become a place in range of the joined one.
            let i = match plain || given.len() == 1 {
                true => i,
                false => zero.raw_gt(&i).raw_or(&i.raw_ge(&constant(n))).raw_where(&poison, &i),
            };
            all = Some(match all {
                None => i,
                Some(sum) if sure => &sum * n + &i,
                Some(sum) => {
                    let lost = zero.raw_gt(&sum).raw_or(&zero.raw_gt(&i));
                    lost.raw_where(&poison, &(&sum * n + &i))
                }
            });
        }
        let all = all.unwrap_or(zero);
        let refs: Vec<&Tensor> = given.iter().collect();
        // They were broadcast before: this does not fail.
        let shape = broadcast_all("index", &refs).unwrap_or_else(|_| all.shape().clone());
        all.expand_to(&shape).ravel()
    },
};

/// `i`, or `i + n` where it counts from the end; what is out of range stays so, for the lookup to report.
#[track_caller]
pub(crate) fn wrapped(index: &Tensor, n: usize) -> Tensor {
    let constant = |x: i64| Tensor::constant(Scalar::I(x), DType::I64, index.device());
    let from_end = constant(0).raw_gt(index).raw_and(&index.raw_ge(&constant(-(n as i64))));
    from_end.raw_where(&(index + n as i64), index)
}

impl Tensor {
    #[track_caller]
    fn joined_axes(&self, op: &str, lookups: Vec<Option<Tensor>>, apart: bool) -> Result<Option<Joined>> {
        let at: Vec<usize> = (0..lookups.len()).filter(|&a| lookups[a].is_some()).collect();
        let given: Vec<Tensor> = lookups.into_iter().flatten().collect();
        let Some(&first) = at.first() else { return Ok(None) };
        let refs: Vec<&Tensor> = given.iter().collect();
        same_device(op, &[&[self][..], &refs].concat())?;
        let shape = broadcast_all(op, &refs)?;
        if apart && at.len() > 1 {
            // The looked-up axes go first, and so does what the index tensors make of them.
            let rest = (0..self.rank()).filter(|a| !at.contains(a));
            let order: Vec<i64> = at.iter().copied().chain(rest).map(|a| a as i64).collect();
            let moved = self.permute(order.clone())?;
            let lookups = (0..self.rank()).map(|a| given.get(a).cloned()).collect();
            let joined = moved.joined_axes(op, lookups, false)?;
            return Ok(joined.map(|j| Joined { order: Some(order), ..j }));
        }
        let extents: Vec<usize> = at.iter().map(|&a| self.dims()[a]).collect();
        let mut settings: SmallVec<[u64; 4]> = SmallVec::new();
        for ((t, &a), &n) in given.iter().zip(&at).zip(&extents) {
            let plain = self.check_known(op, t, a, n)?;
            settings.push((n as u64) << 1 | u64::from(plain));
        }
        let index = match &refs[..] {
            // Nothing to do: a known index of one axis.
            [one] if settings[0] & 1 == 1 => one.ravel(),
            _ => Tensor::composed(&PLACES, &refs, &settings, shape.numel().into(), DType::I64),
        };
        let d = self.dims();
        let total = extents.iter().product();
        let rows: Shape =
            d[..first].iter().copied().chain([total]).chain(d[first + at.len()..].iter().copied()).collect();
        Ok(Some(Joined { rows: self.reshape_to(&rows), axis: first, index, shape, order: None }))
    }

    /// Reports a place out of range now, with its axis, if the index tensor is known already. Whether it is known that none
    /// is, and that none counts from the end.
    #[track_caller]
    fn check_known(&self, op: &str, index: &Tensor, axis: usize, n: usize) -> Result<bool> {
        if !index.is_realized() {
            return Ok(false);
        }
        let (low, high) = (-(n as i64), n as i64);
        let found = index.with_elements::<i64, _>(|x| match unique::extent(x) {
            (least, most) if least < low || most >= high => Err(x.iter().copied().find(|&i| i < low || i >= high)),
            (least, _) => Ok(least >= 0),
        })?;
        match found {
            Ok(plain) => Ok(plain),
            Err(i) => {
                let i = i.unwrap_or(high);
                let why = format!(" (axis {axis} of {})", self.shape());
                Err(Error::new(op, ErrorKind::Index { index: i, size: n, why }).operand(self).operand(index))
            }
        }
    }

    /// Elements at index tensors, one entry an axis.
    #[track_caller]
    pub(crate) fn lookup(&self, op: &str, lookups: Vec<Option<Tensor>>, apart: bool) -> Result<Tensor> {
        let Some(Joined { rows, axis, index, shape, .. }) = self.joined_axes(op, lookups, apart)? else {
            return Ok(self.resolve());
        };
        let found = rows.index_select(axis as i64, &index)?;
        let d = rows.dims();
        Ok(found.reshape_to(&d[..axis].iter().chain(shape.iter()).chain(&d[axis + 1..]).copied().collect()))
    }

    /// Elements at index tensors, one entry an axis (`None`: all of it; axes beyond are whole): PyTorch's `x[i, j]`.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([[1, 2], [3, 4]]);
    /// let (i, j) = (Tensor::from([0i64, 1]), Tensor::from([1i64, 0]));
    /// assert_eq!(x.index(&[Some(&i), Some(&j)]).unwrap().to_vec::<i32>().unwrap(), [2, 3]);
    /// ```
    #[track_caller]
    pub fn index(&self, indices: &[Option<&Tensor>]) -> Result<Tensor> {
        let (lookups, apart) = self.index_list("index", indices)?;
        self.lookup("index", lookups, apart)
    }

    /// A copy with `values` (broadcast) written, or added, at index tensors, one entry an axis.
    #[track_caller]
    pub fn index_put(&self, indices: &[Option<&Tensor>], values: &Tensor, accumulate: bool) -> Result<Tensor> {
        let (lookups, apart) = self.index_list("index_put", indices)?;
        if values.dtype() != self.dtype() {
            let why = format!("the values are {}, the target {}", values.dtype(), self.dtype());
            let e = Error::dtype("index_put", &[self.dtype(), values.dtype()], why);
            return Err(e.operand(self).operand(values).hint("convert with to_dtype"));
        }
        let joined = self.joined_axes("index_put", lookups, apart)?;
        let Some(Joined { rows, axis, index, shape, order }) = joined else {
            let wide = values.expand(self.shape())?;
            return Ok(if accumulate { self + &wide } else { wide });
        };
        let d = rows.dims();
        let places: Shape = d[..axis].iter().chain(shape.iter()).chain(&d[axis + 1..]).copied().collect();
        if !values.shape().expands_to(&places) {
            let why = format!("values of shape {} do not broadcast to the {places} places", values.shape());
            let e = Error::shape("index_put", &[self.shape(), values.shape()], why);
            return Err(e.operand(self).operand(values));
        }
        let flat = rows.shape().with(axis, index.numel());
        let values = values.expand_to(&places).reshape_to(&flat);
        let done = match accumulate {
            true => rows.index_add(axis as i64, &index, &values, 1.0)?,
            false => rows.index_copy(axis as i64, &index, &values)?,
        };
        let Some(order) = order else { return Ok(done.reshape_to(self.shape())) };
        let moved: Shape = order.iter().map(|&a| self.dims()[a as usize]).collect();
        let mut back = vec![0i64; order.len()];
        order.iter().enumerate().for_each(|(to, &from)| back[from as usize] = to as i64);
        done.reshape_to(&moved).permute(back)
    }

    /// One entry an axis: masks become the places where they are true.
    #[track_caller]
    fn index_list(&self, op: &str, indices: &[Option<&Tensor>]) -> Result<(Vec<Option<Tensor>>, bool)> {
        let mut lookups: Vec<Option<Tensor>> = vec![];
        for t in indices {
            match t {
                None => lookups.push(None),
                Some(t) if t.dtype() == DType::Bool && t.rank() == 0 => {
                    let why = "a single truth value names no axis";
                    return Err(Error::shape(op, &[self.shape(), t.shape()], why).operand(t).hint("use i"));
                }
                Some(t) if t.dtype() == DType::Bool => {
                    let from = lookups.len();
                    if self.dims().get(from..from + t.rank()) != Some(t.dims()) {
                        let why =
                            format!("a mask of shape {} does not fit axes {from}.. of {}", t.shape(), self.shape());
                        let e = Error::shape(op, &[self.shape(), t.shape()], why);
                        return Err(e.operand(self).operand(t));
                    }
                    lookups.extend(t.nonzero_tuple()?.into_iter().map(Some));
                }
                Some(t) => lookups.push(Some(t.as_index(op)?)),
            }
        }
        if lookups.len() > self.rank() {
            let why = format!("{} axes are indexed, and {} has {}", lookups.len(), self.shape(), self.rank());
            return Err(Error::shape(op, &[self.shape()], why).operand(self));
        }
        lookups.resize(self.rank(), None);
        let at: Vec<usize> = (0..lookups.len()).filter(|&a| lookups[a].is_some()).collect();
        let apart = at.windows(2).any(|w| w[1] != w[0] + 1);
        Ok((lookups, apart))
    }
}

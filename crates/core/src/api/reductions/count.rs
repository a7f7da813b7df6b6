//! Distinct elements and counts. Their sizes depend on the data, so these read it.

use crate::api::{axis, same_device};
use crate::{DType, Device, Error, ErrorKind, Result, Shape, Tensor};
use gradus_numerics::unique::{self, Groups};
use smallvec::SmallVec;

/// Distinct elements (or slices), and how the original is made of them.
#[derive(Clone, Debug)]
pub struct Unique {
    /// The distinct ones.
    pub values: Tensor,
    /// For each original element, the position of its equal in `values`.
    pub inverse: Tensor,
    /// How often each occurs.
    pub counts: Tensor,
}

impl Tensor {
    /// The distinct elements in ascending order, or with `dim` the distinct slices along it in lexicographic order.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let u = Tensor::from([3, 1, 3]).unique(None).unwrap();
    /// assert_eq!(u.values.to_vec::<i32>().unwrap(), [1, 3]);
    /// assert_eq!(u.inverse.to_vec::<i64>().unwrap(), [1, 0, 1]);
    /// assert_eq!(u.counts.to_vec::<i64>().unwrap(), [1, 2]);
    /// ```
    #[track_caller]
    pub fn unique(&self, dim: Option<i64>) -> Result<Unique> {
        self.distinct("unique", dim, unique::unique_rows, unique::unique_rows, unique::unique_rows)
    }

    /// As [`Tensor::unique`], where only neighbours count as repetitions, and the order stays.
    #[track_caller]
    pub fn unique_consecutive(&self, dim: Option<i64>) -> Result<Unique> {
        let (floats, doubles, ints) = (
            unique::unique_consecutive_rows::<f32>,
            unique::unique_consecutive_rows::<f64>,
            unique::unique_consecutive_rows::<i64>,
        );
        self.distinct("unique_consecutive", dim, floats, doubles, ints)
    }

    /// Groups rows as floats or as integers: both are exact for the types they serve.
    #[track_caller]
    fn distinct(
        &self,
        name: &str,
        dim: Option<i64>,
        floats: fn(&[f32], usize, usize) -> Groups,
        doubles: fn(&[f64], usize, usize) -> Groups,
        ints: fn(&[i64], usize, usize) -> Groups,
    ) -> Result<Unique> {
        let x = self.detach();
        let a = dim.map(|d| axis(name, d, x.rank())).transpose()?.filter(|_| x.rank() > 0);
        // The axis goes first: then a slice is a row.
        let moved = match a {
            Some(a) => x.permuted(std::iter::once(a).chain((0..x.rank()).filter(|&d| d != a)).collect()),
            None => x.reshape_to(&Shape::from(x.numel())),
        };
        let rows = moved.dims()[0];
        let cols: usize = moved.dims()[1..].iter().product();
        if cols == 0 {
            let why = format!("slices along axis {} of {} have no elements", a.unwrap_or(0), x.shape());
            return Err(Error::shape(name, &[x.shape()], why).operand(self));
        }
        let flat = moved.reshape_to(&Shape::from([rows, cols]));
        let g = if x.dtype() == DType::F64 {
            flat.with_elements(|x| doubles(x, rows, cols))?
        } else if x.dtype().is_float() {
            flat.to_dtype(DType::F32).with_elements(|x| floats(x, rows, cols))?
        } else {
            flat.to_dtype(DType::I64).with_elements(|x| ints(x, rows, cols))?
        };
        let k = g.first.len();
        let indices = |v: &[i64]| -> Result<Tensor> { Ok(Tensor::from_slice(v, v.len())?.to(&x.device())) };
        let first: Vec<i64> = g.first.iter().map(|&p| p as i64).collect();
        let pick = indices(&first)?.reshape_to(&Shape::from([k, 1])).expand_to(&Shape::from([k, cols]));
        let values = flat.gather(0, &pick)?.reshape_to(&moved.shape().with(0, k));
        let values = match a {
            Some(a) => {
                // And back: axis 0 to its place.
                let back: SmallVec<[usize; 6]> =
                    (0..x.rank()).map(|d| if d == a { 0 } else { d + (d < a) as usize }).collect();
                values.permuted(back)
            }
            None => values,
        };
        let inverse = indices(&g.inverse)?;
        let inverse = if a.is_some() { inverse } else { inverse.reshape_to(x.shape()) };
        Ok(Unique { values, inverse, counts: indices(&g.counts)? })
    }

    /// How many elements fall into each of `bins` equal parts of `min..=max`, in floats. Equal bounds mean the data's
    /// own; elements outside and NaN are not counted.
    #[track_caller]
    pub fn histc(&self, bins: usize, min: f64, max: f64) -> Result<Tensor> {
        let x = self.detach();
        // Asked for first, so that a number of bins that cannot be is an error and no abort.
        if Vec::<f64>::new().try_reserve_exact(bins).is_err() {
            return Err(Error::new("histc", ErrorKind::Alloc { bytes: bins as u128 * 8 }).operand(self));
        }
        let counts = match x.dtype() {
            DType::F32 => x.with_elements(|x: &[f32]| unique::histc(x, bins, min, max))?,
            _ => unique::histc(&x.to_vec::<f64>()?, bins, min, max),
        };
        let Some(counts) = counts else {
            let why = format!("{bins} bins over {min}..={max} (or over the data, where these are equal) make no sense");
            return Err(Error::value("histc", why).operand(self).hint("bounds must be finite and in order"));
        };
        Ok(Tensor::from_slice(&counts, bins)?.to_dtype(x.dtype().to_float()).to(&x.device()))
    }

    /// How often each of `0, 1, 2, ...` occurs in a vector of integers, or the sum of their weights; at least
    /// `minlength` entries.
    #[track_caller]
    pub fn bincount(&self, weights: Option<&Tensor>, minlength: usize) -> Result<Tensor> {
        if self.rank() != 1 {
            let why = format!("needs a vector, not {}", self.shape());
            return Err(Error::shape("bincount", &[self.shape()], why).operand(self));
        }
        let index = self.as_index("bincount")?;
        let here = self.device() == Device::cpu();
        let (least, most) = match self.numel() {
            0 => (0, -1),
            _ if here => index.with_elements(unique::extent)?,
            _ => (index.min()?.item::<i64>()?, index.max()?.item::<i64>()?),
        };
        if least < 0 {
            return Err(Error::value("bincount", format!("elements must not be negative: {least}")).operand(self));
        }
        let n = usize::try_from(most).map_or(0, |m| m.saturating_add(1)).max(minlength);
        if n > isize::MAX as usize / 16 {
            return Err(Error::new("bincount", ErrorKind::Alloc { bytes: n as u128 * 8 }).operand(self));
        }
        let source = match weights {
            None if here => {
                return index.with_elements(|x| {
                    Tensor::filled(Shape::from(n), |counts| {
                        counts.fill(0);
                        unique::count_into(x, counts);
                    })
                })?;
            }
            None => Tensor::full_on(self.shape().clone(), 1.into(), DType::I64, self.device()),
            Some(w) => {
                same_device("bincount", &[self, w])?;
                if w.shape() != self.shape() {
                    let why = format!("{} elements need as many weights, not {}", self.numel(), w.shape());
                    let e = Error::shape("bincount", &[self.shape(), w.shape()], why);
                    return Err(e.operand(self).operand(w));
                }
                w.to_dtype(if w.dtype() == DType::F32 { DType::F32 } else { DType::F64 })
            }
        };
        let zeros = Tensor::zeros_on(Shape::from(n), source.dtype(), self.device());
        zeros.scatter_add(0, &index, &source)
    }
}

//! Distinct elements and counts. Their sizes depend on the data, so these read it.

use crate::api::{axis, same_device};
use crate::op::ScanOp;
use crate::{DType, Device, Element, Error, ErrorKind, Result, Shape, Tensor, op::Composite};
use gradus_numerics::{Order, mask::Mask, unique};
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

/// A tensor as a matrix of what is to be distinct.
struct Slices {
    of: Tensor,
    /// The axis along which slices are taken; else there are elements.
    at: Option<usize>,
    /// The tensor with that axis first.
    moved: Tensor,
    /// And as a matrix.
    flat: Tensor,
    rows: usize,
    cols: usize,
}

impl Slices {
    /// Some of the slices, where they were.
    #[track_caller]
    fn pick(&self, rows: &Tensor) -> Result<Tensor> {
        let k = rows.numel();
        let pick = rows.reshape_to(&Shape::from([k, 1])).expand_to(&Shape::from([k, self.cols]));
        Ok(self.placed(&self.flat.gather(0, &pick)?, k))
    }

    /// So many slices as a matrix, in the tensor's own shape.
    #[track_caller]
    fn placed(&self, rows: &Tensor, k: usize) -> Tensor {
        let values = rows.reshape_to(&self.moved.shape().with(0, k));
        let Some(a) = self.at else { return values };
        // And back: axis 0 to its place.
        let back: SmallVec<[usize; 6]> =
            (0..self.of.rank()).map(|d| if d == a { 0 } else { d + (d < a) as usize }).collect();
        values.permuted(back)
    }

    /// A number for each slice, in the shape in which they are given.
    #[track_caller]
    fn inverse(&self, numbers: Tensor) -> Tensor {
        if self.at.is_some() { numbers } else { numbers.reshape_to(self.of.shape()) }
    }

    /// Runs of equal slices. What is asked for seldom, who is in which run and how long these are, follows only when it is.
    #[track_caller]
    fn runs<T: Element + Order>(&self) -> Result<Unique> {
        static INVERSE: Composite = Composite {
            name: "unique_inverse",
            build: |x, _| &x[0].to_dtype(DType::I64).scan(ScanOp::Sum, 0, DType::I64) - 1,
        };
        static COUNTS: Composite = Composite {
            name: "unique_counts",
            build: |x, _| {
                let k = x[0].numel() - 1;
                x[0].sliced(0, k.min(1), 1, k) - x[0].sliced(0, 0, 1, k)
            },
        };
        let (rows, cols, device) = (self.rows, self.cols, self.of.device());
        let found =
            self.flat.to_dtype(T::DTYPE).with_elements(|x: &[T]| -> Result<(Tensor, Tensor, Option<Tensor>)> {
                let new = Tensor::filled(Shape::from(rows), |new| unique::new_rows(x, cols, new))?;
                let (starts, values) = new.with_elements(|bits| {
                    let mask = Mask::new(bits);
                    let k = mask.count();
                    let starts = Tensor::filled(Shape::from(k + 1), |at| {
                        mask.positions(&mut at[..k]);
                        at[k] = rows as i64;
                    });
                    let values = || Tensor::filled(Shape::from([k, 1]), |out| mask.select(x, out));
                    (starts, (cols == 1).then(values).transpose())
                })?;
                Ok((new, starts?, values?))
            })??;
        let (new, starts) = (found.0.to(&device), found.1.to(&device));
        let k = starts.numel() - 1;
        let values = match found.2 {
            Some(values) => self.placed(&values.to_dtype(self.of.dtype()).to(&device), k),
            None => self.pick(&starts.sliced(0, 0, 1, k))?,
        };
        let inverse = Tensor::composed(&INVERSE, &[&new], &[], Shape::from(rows), DType::I64);
        let counts = Tensor::composed(&COUNTS, &[&starts], &[], Shape::from(k), DType::I64);
        Ok(Unique { values, inverse: self.inverse(inverse), counts })
    }
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
        let slices = self.slices("unique", dim)?;
        let (flat, rows, cols) = (&slices.flat, slices.rows, slices.cols);
        let g = if self.dtype() == DType::F64 {
            flat.with_elements(|x| unique::unique_rows::<f64>(x, rows, cols))?
        } else if self.dtype().is_float() {
            flat.to_dtype(DType::F32).with_elements(|x| unique::unique_rows::<f32>(x, rows, cols))?
        } else {
            flat.to_dtype(DType::I64).with_elements(|x| unique::unique_rows::<i64>(x, rows, cols))?
        };
        let indices = |v: &[i64]| -> Result<Tensor> { Ok(Tensor::from_slice(v, v.len())?.to(&self.device())) };
        let first: Vec<i64> = g.first.iter().map(|&p| p as i64).collect();
        let values = slices.pick(&indices(&first)?)?;
        Ok(Unique { values, inverse: slices.inverse(indices(&g.inverse)?), counts: indices(&g.counts)? })
    }

    /// As [`Tensor::unique`], where only neighbours count as repetitions, and the order stays.
    #[track_caller]
    pub fn unique_consecutive(&self, dim: Option<i64>) -> Result<Unique> {
        let slices = self.slices("unique_consecutive", dim)?;
        // Floats and integers are compared as they are served: both are exact.
        if self.dtype() == DType::F64 {
            slices.runs::<f64>()
        } else if self.dtype().is_float() {
            slices.runs::<f32>()
        } else {
            slices.runs::<i64>()
        }
    }

    /// This as rows, which are slices along an axis, or elements.
    #[track_caller]
    fn slices(&self, name: &str, dim: Option<i64>) -> Result<Slices> {
        let of = self.detach();
        let at = dim.map(|d| axis(name, d, of.rank())).transpose()?.filter(|_| of.rank() > 0);
        // The axis goes first: then a slice is a row.
        let moved = match at {
            Some(a) => of.permuted(std::iter::once(a).chain((0..of.rank()).filter(|&d| d != a)).collect()),
            None => of.reshape_to(&Shape::from(of.numel())),
        };
        let rows = moved.dims()[0];
        let cols: usize = moved.dims()[1..].iter().product();
        if cols == 0 {
            let why = format!("slices along axis {} of {} have no elements", at.unwrap_or(0), of.shape());
            return Err(Error::shape(name, &[of.shape()], why).operand(self));
        }
        let flat = moved.reshape_to(&Shape::from([rows, cols]));
        Ok(Slices { of, at, moved, flat, rows, cols })
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

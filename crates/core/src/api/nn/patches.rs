//! Windows as columns and back, and normalisation over neighbouring channels.

use crate::api::{sizes::Sizes, window::windows};
use crate::{Error, Result, Shape, Tensor, grad::unslice};
use gradus_numerics::pool::Window;
use smallvec::SmallVec;

/// Options of [`Tensor::im2col`] and [`Tensor::col2im`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PatchOptions {
    /// Distance between the elements of a window.
    pub dilation: Sizes,
    /// Zeros around the image.
    pub padding: Sizes,
    /// Step between windows.
    pub stride: Sizes,
}

impl Default for PatchOptions {
    fn default() -> PatchOptions {
        PatchOptions { dilation: 1.into(), padding: 0.into(), stride: 1.into() }
    }
}

/// The windows of an image of height and width `image`.
#[track_caller]
fn fit(op: &str, x: &Tensor, image: &[usize], kernel: &Sizes, o: &PatchOptions) -> Result<SmallVec<[Window; 2]>> {
    let size = kernel.spread_positive(op, "kernel_size", 2)?;
    let stride = o.stride.spread_positive(op, "stride", 2)?;
    let dilation = o.dilation.spread_positive(op, "dilation", 2)?;
    let padding = o.padding.spread(op, "padding", 2)?;
    (0..2)
        .map(|a| {
            Window::fit(image[a], size[a], stride[a], padding[a], dilation[a], false).ok_or_else(|| {
                let why = format!(
                    "a window of {} (dilation {}) does not fit axis {a}: {} elements with padding {}",
                    size[a], dilation[a], image[a], padding[a]
                );
                Error::shape(op, &[x.shape()], why).operand(x)
            })
        })
        .collect()
}

impl Tensor {
    /// The windows of images `[n, c, h, w]` as columns `[n, c * window, windows]`: `torch.nn.functional.unfold`.
    ///
    /// ```
    /// use gradus_core::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3, 5, 5], DType::F32);
    /// assert_eq!(x.im2col(2, Default::default()).unwrap().dims(), [2, 12, 16]);
    /// ```
    #[track_caller]
    pub fn im2col(&self, kernel: impl Into<Sizes>, options: PatchOptions) -> Result<Tensor> {
        let op = "im2col";
        if self.rank() != 3 && self.rank() != 4 {
            let why = format!("takes images [n, c, h, w] or [c, h, w], not {}", self.shape());
            return Err(Error::shape(op, &[self.shape()], why).operand(self));
        }
        let lead = self.rank() - 3;
        let ws = fit(op, self, &self.dims()[lead + 1..], &kernel.into(), &options)?;
        // [.., c, oh, ow, kh, kw] to [.., c, kh, kw, oh, ow]
        let seen = windows(self, &ws)?;
        let order: SmallVec<[usize; 6]> = (0..=lead).chain([3, 4, 1, 2].map(|d| lead + d)).collect();
        let rows = self.dims()[lead] * ws[0].size * ws[1].size;
        let shape = self.dims()[..lead].iter().copied().chain([rows, ws[0].out * ws[1].out]).collect();
        Ok(seen.permuted(order).reshape_to(&shape))
    }

    /// Columns `[n, c * window, windows]` added up into images `[n, c, h, w]`: `torch.nn.functional.fold`, the
    /// adjoint of [`Tensor::im2col`].
    #[track_caller]
    pub fn col2im(
        &self,
        output_size: impl Into<Sizes>,
        kernel: impl Into<Sizes>,
        options: PatchOptions,
    ) -> Result<Tensor> {
        let op = "col2im";
        if self.rank() != 2 && self.rank() != 3 {
            let why = format!("takes columns [n, c * window, windows] or [c * window, windows], not {}", self.shape());
            return Err(Error::shape(op, &[self.shape()], why).operand(self));
        }
        let image = output_size.into().spread_positive(op, "output_size", 2)?;
        let ws = fit(op, self, &image, &kernel.into(), &options)?;
        let lead = self.rank() - 2;
        let (rows, columns) = (self.dims()[lead], self.dims()[lead + 1]);
        let (window, count) = (ws[0].size * ws[1].size, ws[0].out * ws[1].out);
        if !rows.is_multiple_of(window) || columns != count {
            let why = format!(
                "{} has {rows} rows and {columns} columns; windows of {} x {} over {} x {} need a multiple of {window} \
                 rows and {count} columns",
                self.shape(),
                ws[0].size,
                ws[1].size,
                image[0],
                image[1]
            );
            return Err(Error::shape(op, &[self.shape()], why).operand(self));
        }
        let n: usize = self.dims()[..lead].iter().product();
        let c = rows / window;
        let all = Shape::from([n * c, ws[0].size, ws[1].size, ws[0].out, ws[1].out]);
        let tall = add_up(&self.reshape(all)?, 2, 4, &ws[1])?; // [n c, kh, oh, w]
        let image = add_up(&tall, 1, 2, &ws[0])?; // [n c, h, w]
        let shape = self.dims()[..lead].iter().copied().chain([c, ws[0].n, ws[1].n]).collect();
        Ok(image.reshape_to(&shape))
    }

    /// Each element over a power of the mean square of `size` neighbouring channels (axis 1):
    /// `x / (k + alpha * mean(x^2)) ^ beta`.
    #[track_caller]
    pub fn local_response_norm(&self, size: usize, alpha: f64, beta: f64, k: f64) -> Result<Tensor> {
        let op = "local_response_norm";
        if self.rank() < 3 {
            let why = format!("takes [n, c, ..] of at least 3 axes, not {}", self.shape());
            return Err(Error::shape(op, &[self.shape()], why).operand(self));
        }
        if size == 0 || !self.dtype().is_float() {
            let why = format!("needs floats and a size of at least 1, not {} and {size}", self.dtype());
            return Err(Error::value(op, why).operand(self));
        }
        if self.dims()[1] == 0 {
            return Ok(self.resolve());
        }
        let squares = self.square().pad_axis(1, size / 2, (size - 1) / 2)?;
        let mean = squares.unfold(1, size, 1)?.sum_dim(-1, false)? / size as f64;
        self.div((mean * alpha + k).pow(beta)?)
    }
}

/// Element `j` of every window (axis `window`) lands on its own grid of positions (axis `outs`); the grids are added.
#[track_caller]
fn add_up(x: &Tensor, window: usize, outs: usize, w: &Window) -> Result<Tensor> {
    let padded = w.n + 2 * w.padding;
    let mut sum: Option<Tensor> = None;
    for j in 0..w.size {
        let part = x.select(window as i64, j as i64)?;
        let part = unslice(&part, outs - 1, j * w.dilation, w.stride as isize, w.out, padded)?;
        sum = Some(match sum {
            Some(s) => s + part,
            None => part,
        });
    }
    let sum = sum.ok_or_else(|| Tensor::bug("an empty window"))?;
    Ok(sum.sliced(outs - 1, w.padding, 1, w.n))
}

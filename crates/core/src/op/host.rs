//! Operations that are library routines rather than loops of the kernel language: scans, sorting, scattering, searching
//! and matrix factorisations. They read contiguous arrays; a device without its own routine runs them on the host.

use crate::{DType, Shape};
use gradus_numerics::{
    border::Border,
    distance::{Order, Way},
    grid::Grid,
    pool::{MeanPool, Pool},
    recurrent::Lstm,
    resample::Resize,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// A library routine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostOp {
    /// A running combination along an axis.
    Scan {
        /// Which one.
        op: ScanOp,
        /// Along this axis.
        axis: usize,
    },
    /// `(x, factor)`: sums along an axis in which each is the one before times a factor, plus an element:
    /// `y[i] = x[i] + factor[i] y[i-1]`, or backwards `y[i] = x[i] + factor[i+1] y[i+1]`. Floats.
    Cascade {
        /// Along this axis.
        axis: usize,
        /// From the last element to the first.
        back: bool,
    },
    /// The stable order of an axis, as i64 indices; NaN counts as largest.
    Argsort {
        /// Along this axis.
        axis: usize,
        /// Largest first.
        descending: bool,
    },
    /// Where the first `k` of that order are.
    Topk {
        /// Along this axis.
        axis: usize,
        /// How many; no more than the axis has.
        k: usize,
        /// Largest first.
        largest: bool,
    },
    /// Where the element of a rank is in that order; the axis stays with extent 1.
    Select {
        /// Along this axis, which is not empty.
        axis: usize,
        /// Which element.
        rank: Rank,
    },
    /// (base, index, src): base with `src` combined in at `index` along an axis, in index order. Where the index has one
    /// element along all other axes, it says where whole rows go; then the source may be one number for all of them.
    Scatter {
        /// Along this axis.
        axis: usize,
        /// How.
        mode: ScatterMode,
    },
    /// (sorted rows, values): where each value would go.
    SearchSorted {
        /// After equal elements instead of before.
        right: bool,
    },
    /// The index of the most frequent value along the last axis (the smallest of equals, its last occurrence).
    Mode,
    /// The positions of a vector of f64 from 0 to 1, 1 excluded, in an order that these numbers say.
    Shuffle,
    /// A matrix routine on the last two axes.
    Linalg(Linalg),
    /// The maxima of windows over the last two axes, f32 or f64: see [`MaxPool`].
    MaxPool(MaxPool, Arc<Pool>),
    /// The means of bins over the last two axes, f32 or f64.
    MeanPool(Arc<MeanPool>),
    /// Its gradient: every element gets its parts of the gradients of its bins.
    MeanPoolGrad(Arc<MeanPool>),
    /// The last two axes at another size, f32: weighted sums of a few rows and columns.
    Resample(Arc<Resize>),
    /// The last axes with a border around them.
    Border(Arc<Border>),
    /// Its gradient, f32 or f64: every element gets what stands where it was put.
    BorderGrad(Arc<Border>),
    /// Values of images at positions, f32 or f64: see [`GridSample`].
    GridSample(GridSample, Arc<Grid>),
    /// `([.., n, d], [.., m, d]) -> [.., n, m]`: distances between rows, f32 or f64; of pairs, `([n, d])`, each pair of rows once.
    Distance {
        /// In which norm.
        order: Order,
        /// Each pair of one matrix' rows.
        pairs: bool,
    },
    /// `(a, b, weights) -> [.., n, d]`, of pairs `(x, weights)`: its gradient for the first, with all that follows from the
    /// distances alone in the weights.
    DistanceGrad {
        /// What is weighted.
        way: Way,
        /// As above.
        pairs: bool,
    },
    /// Indices, each as a row of this many numbers: a one at the index, zeros elsewhere.
    OneHot(usize),
    /// `([rows, n], [k]) -> [k, n]`: rows of a table.
    TakeRows,
    /// `([k, n], [k][, [rows, n]]) -> [rows, n]`: zeros, or the last input, with rows added up where the index says.
    AddRows,
    /// `(gates, weight, h0, c0) -> flat`: long short-term memory over a sequence, f32; see [`Lstm::packed`].
    Lstm(Lstm),
    /// `(weight, c0, what Lstm kept, gradient) -> flat`: the gradients of gates, h0 and c0, one after the other.
    LstmGrad(Lstm),
    /// `(q, k, v[, mask]) -> flat`: attention, then the logarithm of each row's sum: see [`Attention::packed`].
    Attention(Arc<Attention>),
    /// `(q, k, v[, mask], what Attention gave, gradient) -> flat`: the gradients for q, k and v one after the other.
    AttentionGrad(Arc<Attention>),
}

/// An element by its place in the order of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rank {
    /// The one with so many before it.
    At(usize),
    /// The middle one, the lower of two; the first NaN where there is one.
    Median,
    /// The middle one of those that are not NaN.
    NanMedian,
}

/// Which of the maps that belong to maximum pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaxPool {
    /// `(x)`: the largest of each window.
    Max,
    /// `(x, values)`: the value that stands where the largest of each window of x is.
    Pick,
    /// `(x)`: where the largest of each window is, counted through both axes, as i64.
    Places,
    /// `(x, gradient)`: each window's gradient at the place of its largest element.
    Grad,
}

/// Which of the maps that belong to sampling at positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GridSample {
    /// `(x, grid)`: the values.
    Values,
    /// `(grid, gradient)`: the gradient for the images.
    ImageGrad,
    /// `(x, grid, gradient)`: the gradient for the positions.
    GridGrad,
}

/// An attention's sizes. A mask is bool or f32.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// The axes before the last two, which all inputs share.
    pub lead: Shape,
    /// Queries, keys, numbers of a query, numbers of a value.
    pub sizes: [usize; 4],
    /// The factor of the scores, as bits.
    pub scale: u32,
    /// A query sees the keys up to its own position.
    pub causal: bool,
    /// Whether there is a mask.
    pub masked: bool,
    /// Results of two leading axes lie as `[batch, rows, heads, numbers]`: what the next layer wants side by side is.
    pub heads_inside: bool,
    /// The gradients of q, k and v lie as `[batch, rows, 3, heads, numbers]`: where the three are parts of one product, the
    /// gradient of that is there without a copy.
    pub joined: bool,
    /// The strides of the inputs, which a plan fills in.
    pub strides: Vec<SmallVec<[isize; 6]>>,
}

impl Attention {
    /// Matrices.
    pub fn batch(&self) -> usize {
        self.lead.numel()
    }

    /// Heads that lie side by side in a row of the results.
    pub fn heads(&self) -> usize {
        if self.heads_inside && self.lead.rank() == 2 { self.lead[1] } else { 1 }
    }

    /// Where the logarithms of the sums start in what [`HostOp::Attention`] gives, and its length, in elements of a
    /// type. The logarithms are f32: among numbers of 16 bits each takes the place of two.
    pub fn packed(&self, dtype: DType) -> (usize, usize) {
        let words = (size_of::<f32>() / dtype.size()).max(1);
        let rows = self.batch() * self.sizes[0];
        let start = (rows * self.sizes[3]).next_multiple_of(words);
        (start, start + rows * words)
    }

    /// The axes in which a result of `rows` rows of `width` numbers lies in memory.
    pub fn laid_out(&self, rows: usize, width: usize) -> Shape {
        match &self.lead[..] {
            &[batch, heads] if self.heads_inside => [batch, rows, heads, width].into(),
            lead => lead.iter().copied().chain([rows, width]).collect(),
        }
    }
}

/// A running combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanOp {
    /// Running sum.
    Sum,
    /// Running product.
    Prod,
    /// Running maximum.
    Max,
    /// Running minimum.
    Min,
    /// Position of the running maximum (the last of equals).
    ArgMax,
    /// Position of the running minimum (the last of equals).
    ArgMin,
    /// Running log of the sum of exponentials.
    LogSumExp,
}

/// What a scatter does where it lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterMode {
    /// The last one written stays.
    Assign,
    /// Sum.
    Add,
    /// Product.
    Mul,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
}

/// Matrix routines. Those with several results pack them along the last axis of one flat array a matrix;
/// `api::factor` cuts them apart again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linalg {
    /// `[.., n, n] -> [.., 2]`: sign and log |det|.
    Slogdet,
    /// `[.., n, n] -> [.., n, n]`.
    Inv,
    /// `([.., n, n], [.., n, k]) -> [.., n, k]`.
    Solve,
    /// `([.., n, n], [.., n, k]) -> [.., n, k]` with a triangular matrix.
    SolveTriangular {
        /// The upper triangle counts.
        upper: bool,
        /// The diagonal counts as ones.
        unit: bool,
    },
    /// Lower factor.
    Cholesky,
    /// `[.., m, n] -> [.., m*k + k*n]`: Q `[m, k]` then R `[k, n]`; k = m when complete, min(m, n) otherwise.
    Qr {
        /// The whole orthogonal matrix.
        complete: bool,
    },
    /// `[.., m, n] -> [.., m*u + k + v*n]`: U, S descending, Vh; u = m and v = n when full, k = min(m, n) otherwise.
    Svd {
        /// Whole orthogonal matrices.
        full: bool,
    },
    /// `[.., n, n] -> [.., n + n*n]`: ascending eigenvalues, then vectors in columns, of the lower triangle.
    Eigh,
    /// `[.., n, n] -> [.., n]`: ascending eigenvalues alone, of the lower triangle.
    Eigvalsh,
    /// `[.., m, n] -> [.., min(m, n)]`: singular values alone, descending.
    Svdvals,
    /// `[.., m, n] -> [.., m*m + m*k + k*n]`: P, L, U with `A = P L U`, k = min(m, n).
    Lu,
    /// `[.., n, n] -> [..]`.
    Det,
    /// `[.., n, n] -> [.., n, n]`: the gradient of the determinant, right for singular matrices too.
    Cofactor,
    /// `([.., m, n], [2]) -> [.., n, m]`: the pseudoinverse; the second input holds atol and rtol.
    Pinv,
    /// `[.., n, n] -> [.., n, n]`: the matrix exponential.
    Exp,
}

impl HostOp {
    /// Whether inputs may be views whose last axis is contiguous.
    pub fn takes_rows(&self) -> bool {
        matches!(self, HostOp::Attention(_) | HostOp::AttentionGrad(_))
    }

    /// The routine with the strides of its inputs, where it wants to know them.
    pub fn with_strides(&self, strides: impl Iterator<Item = SmallVec<[isize; 6]>>) -> HostOp {
        let fill = |a: &Arc<Attention>| Arc::new(Attention { strides: strides.collect(), ..(**a).clone() });
        match self {
            HostOp::Attention(a) => HostOp::Attention(fill(a)),
            HostOp::AttentionGrad(a) => HostOp::AttentionGrad(fill(a)),
            HostOp::Scan { .. }
            | HostOp::Cascade { .. }
            | HostOp::Argsort { .. }
            | HostOp::Topk { .. }
            | HostOp::Select { .. }
            | HostOp::Scatter { .. }
            | HostOp::SearchSorted { .. }
            | HostOp::Mode
            | HostOp::Shuffle
            | HostOp::Linalg(_)
            | HostOp::MaxPool(..)
            | HostOp::MeanPool(_)
            | HostOp::MeanPoolGrad(_)
            | HostOp::Resample(_)
            | HostOp::Border(_)
            | HostOp::BorderGrad(_)
            | HostOp::GridSample(..)
            | HostOp::Distance { .. }
            | HostOp::DistanceGrad { .. }
            | HostOp::OneHot(_)
            | HostOp::TakeRows
            | HostOp::AddRows
            | HostOp::Lstm(_)
            | HostOp::LstmGrad(_) => self.clone(),
        }
    }

    /// The name graphs show.
    pub fn name(&self) -> &'static str {
        match self {
            HostOp::Scan { op, .. } => match op {
                ScanOp::Sum => "cumsum",
                ScanOp::Prod => "cumprod",
                ScanOp::Max => "cummax",
                ScanOp::Min => "cummin",
                ScanOp::ArgMax => "argcummax",
                ScanOp::ArgMin => "argcummin",
                ScanOp::LogSumExp => "logcumsumexp",
            },
            HostOp::Cascade { .. } => "cascade",
            HostOp::Argsort { .. } => "argsort",
            HostOp::Topk { .. } => "topk",
            HostOp::Select { rank: Rank::At(_), .. } => "kthvalue",
            HostOp::Select { rank: Rank::Median, .. } => "median",
            HostOp::Select { rank: Rank::NanMedian, .. } => "nanmedian",
            HostOp::Scatter { .. } => "scatter",
            HostOp::SearchSorted { .. } => "searchsorted",
            HostOp::Mode => "mode",
            HostOp::Shuffle => "randperm",
            HostOp::Linalg(l) => match l {
                Linalg::Slogdet => "slogdet",
                Linalg::Inv => "inv",
                Linalg::Solve => "solve",
                Linalg::SolveTriangular { .. } => "solve_triangular",
                Linalg::Cholesky => "cholesky",
                Linalg::Qr { .. } => "qr",
                Linalg::Svd { .. } => "svd",
                Linalg::Eigh => "eigh",
                Linalg::Eigvalsh => "eigvalsh",
                Linalg::Svdvals => "svdvals",
                Linalg::Lu => "lu",
                Linalg::Det => "det",
                Linalg::Cofactor => "cofactor",
                Linalg::Pinv => "pinv",
                Linalg::Exp => "matrix_exp",
            },
            HostOp::MaxPool(MaxPool::Max, _) => "max_pool",
            HostOp::MaxPool(MaxPool::Pick, _) => "max_pool_pick",
            HostOp::MaxPool(MaxPool::Places, _) => "max_pool_places",
            HostOp::MaxPool(MaxPool::Grad, _) => "max_pool_grad",
            HostOp::MeanPool(_) => "mean_pool",
            HostOp::MeanPoolGrad(_) => "mean_pool_grad",
            HostOp::Resample(_) => "resample",
            HostOp::Border(_) => "pad",
            HostOp::BorderGrad(_) => "pad_grad",
            HostOp::GridSample(GridSample::Values, _) => "grid_sample",
            HostOp::GridSample(GridSample::ImageGrad | GridSample::GridGrad, _) => "grid_sample_grad",
            HostOp::Distance { pairs: false, .. } => "cdist",
            HostOp::Distance { pairs: true, .. } => "pdist",
            HostOp::DistanceGrad { .. } => "distance_grad",
            HostOp::OneHot(_) => "one_hot",
            HostOp::TakeRows => "take_rows",
            HostOp::AddRows => "add_rows",
            HostOp::Lstm(_) => "lstm",
            HostOp::LstmGrad(_) => "lstm_grad",
            HostOp::Attention(_) => "scaled_dot_product_attention",
            HostOp::AttentionGrad(_) => "attention_grad",
        }
    }
}

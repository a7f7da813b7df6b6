//! Operations that are library routines rather than loops of the kernel language: scans, sorting, scattering, searching
//! and matrix factorisations. They read contiguous arrays; a device without its own routine runs them on the host.

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
    /// The stable order of an axis, as i64 indices; NaN counts as largest.
    Argsort {
        /// Along this axis.
        axis: usize,
        /// Largest first.
        descending: bool,
    },
    /// (base, index, src): base with `src` combined in at `index` along an axis, in index order.
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
    /// A matrix routine on the last two axes.
    Linalg(Linalg),
}

/// A running combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanOp {
    /// Running sum.
    Sum,
    /// Running product.
    Prod,
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
    /// The name graphs show.
    pub fn name(&self) -> &'static str {
        match self {
            HostOp::Scan { op, .. } => match op {
                ScanOp::Sum => "cumsum",
                ScanOp::Prod => "cumprod",
                ScanOp::ArgMax => "cummax",
                ScanOp::ArgMin => "cummin",
                ScanOp::LogSumExp => "logcumsumexp",
            },
            HostOp::Argsort { .. } => "argsort",
            HostOp::Scatter { .. } => "scatter",
            HostOp::SearchSorted { .. } => "searchsorted",
            HostOp::Mode => "mode",
            HostOp::Linalg(l) => match l {
                Linalg::Slogdet => "slogdet",
                Linalg::Inv => "inv",
                Linalg::Solve => "solve",
                Linalg::SolveTriangular { .. } => "solve_triangular",
                Linalg::Cholesky => "cholesky",
                Linalg::Qr { .. } => "qr",
                Linalg::Svd { .. } => "svd",
                Linalg::Eigh => "eigh",
                Linalg::Lu => "lu",
                Linalg::Det => "det",
                Linalg::Cofactor => "cofactor",
                Linalg::Pinv => "pinv",
                Linalg::Exp => "matrix_exp",
            },
        }
    }
}

//! Matrix factorisations. A routine packs its results into one array a matrix; here they are cut apart.

use crate::{Error, Result, Shape, Tensor, op::Linalg};

/// Which parts of a QR factorisation to compute; `k` is the smaller of `m` and `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QrMode {
    /// `Q` is `m` by `k`, `R` is `k` by `n`.
    #[default]
    Reduced,
    /// `Q` is `m` by `m`, `R` is `m` by `n`.
    Complete,
    /// `Q` is empty, `R` is `k` by `n`.
    R,
}

/// The extents of each result of a routine for one `m` by `n` matrix, in the order in which they are packed.
fn extents(op: Linalg, m: usize, n: usize) -> Vec<Vec<usize>> {
    let k = m.min(n);
    match op {
        Linalg::Slogdet => vec![vec![], vec![]],
        Linalg::Qr { complete } => {
            let k = if complete { m } else { k };
            vec![vec![m, k], vec![k, n]]
        }
        Linalg::Svd { full: true } => vec![vec![m, m], vec![k], vec![n, n]],
        Linalg::Svd { full: false } => vec![vec![m, k], vec![k], vec![k, n]],
        Linalg::Eigh => vec![vec![n], vec![n, n]],
        Linalg::Eigvalsh | Linalg::Svdvals => vec![vec![k]],
        Linalg::Lu => vec![vec![m, m], vec![m, k], vec![k, n]],
        Linalg::Inv | Linalg::Cholesky | Linalg::Cofactor | Linalg::Exp => vec![vec![n, n]],
        Linalg::Pinv => vec![vec![n, m]],
        Linalg::Det => vec![vec![]],
        Linalg::Solve | Linalg::SolveTriangular { .. } => vec![vec![m, n]],
    }
}

/// The results packed in `t` by `op` for `m` by `n` matrices.
#[track_caller]
pub(crate) fn unpack<const N: usize>(op: Linalg, t: &Tensor, m: usize, n: usize) -> Result<[Tensor; N]> {
    let lead = &t.dims()[..t.rank() - 1];
    let mut at = 0;
    let mut parts = vec![];
    for tail in extents(op, m, n) {
        let len = tail.iter().product();
        let shape: Shape = lead.iter().copied().chain(tail).collect();
        parts.push(t.narrow(-1, at, len)?.reshape_to(&shape));
        at += len;
    }
    <[Tensor; N]>::try_from(parts).map_err(|p| Tensor::bug(format!("{} packed results, not {N}", p.len())))
}

impl Tensor {
    #[track_caller]
    fn factors<const N: usize>(&self, op: Linalg, name: &str, square: bool) -> Result<[Tensor; N]> {
        let (m, n) = self.check_matrix(name, square)?;
        let len = extents(op, m, n).iter().map(|e| e.iter().product::<usize>()).sum();
        let shape: Shape = self.dims()[..self.rank() - 2].iter().copied().chain([len]).collect();
        unpack(op, &self.linalg_op(op, &[], shape), m, n)
    }

    /// The lower triangular `L` (or upper `L^T`) with `A = L L^T` of positive definite matrices. Only the lower triangle
    /// is read (with `upper`, the upper one).
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let a = Tensor::from([[4.0f64, 2.0], [2.0, 5.0]]);
    /// assert_eq!(a.cholesky(false).unwrap().to_vec::<f64>().unwrap(), [2.0, 0.0, 1.0, 2.0]);
    /// ```
    #[track_caller]
    pub fn cholesky(&self, upper: bool) -> Result<Tensor> {
        self.check_matrix("cholesky", true)?;
        let a = if upper { self.mt() } else { self.resolve() };
        let l = a.linalg_op(Linalg::Cholesky, &[], self.shape().clone());
        Ok(if upper { l.mt() } else { l })
    }

    /// The solution `X` of `A X = self`, given the Cholesky factor of `A`.
    #[track_caller]
    pub fn cholesky_solve(&self, factor: &Tensor, upper: bool) -> Result<Tensor> {
        factor.check_matrix("cholesky_solve", true)?;
        self.check_matrix("cholesky_solve", false)?;
        let l = if upper { factor.mt() } else { factor.resolve() };
        l.mt().solve_triangular(&l.solve_triangular(self, false, false)?, true, false)
    }

    /// The inverse of `A`, given its Cholesky factor.
    #[track_caller]
    pub fn cholesky_inverse(&self, upper: bool) -> Result<Tensor> {
        let (n, _) = self.check_matrix("cholesky_inverse", true)?;
        self.identity(n).cholesky_solve(self, upper)
    }

    /// Ones on the diagonal of an `n` by `n` matrix, in this tensor's type and on its device.
    #[track_caller]
    pub(crate) fn identity(&self, n: usize) -> Tensor {
        let i = Tensor::arange_on(n, self.device());
        i.reshape_to(&Shape::from([n, 1])).raw_eq(&i).to_dtype(self.dtype())
    }

    /// `A = Q R` with orthonormal columns in `Q` and an upper triangular `R`, signs as LAPACK chooses them.
    ///
    /// ```
    /// use gradus_core::{QrMode, Tensor};
    /// let a = Tensor::from([[3.0f64, 1.0], [4.0, 2.0]]);
    /// let (q, r) = a.qr(QrMode::Reduced).unwrap();
    /// let back = q.matmul(&r).unwrap().to_vec::<f64>().unwrap();
    /// assert!(back.iter().zip([3.0, 1.0, 4.0, 2.0]).all(|(x, y)| (x - y).abs() < 1e-12));
    /// ```
    #[track_caller]
    pub fn qr(&self, mode: QrMode) -> Result<(Tensor, Tensor)> {
        let complete = mode == QrMode::Complete;
        let [q, r] = self.factors(Linalg::Qr { complete }, "qr", false)?;
        let q = if mode == QrMode::R { Tensor::zeros_on(0.into(), self.dtype(), self.device()) } else { q };
        Ok((q, r))
    }

    /// `A = U diag(S) Vh`, singular values descending. With `full`, `U` and `Vh` are square; their further columns and
    /// rows carry no gradient. The signs of the vectors are arbitrary.
    #[track_caller]
    pub fn svd(&self, full: bool) -> Result<(Tensor, Tensor, Tensor)> {
        let [u, s, vh] = self.factors(Linalg::Svd { full }, "svd", false)?;
        Ok((u, s, vh))
    }

    /// Singular values, descending.
    #[track_caller]
    pub fn svdvals(&self) -> Result<Tensor> {
        let [s] = self.factors(Linalg::Svdvals, "svdvals", false)?;
        Ok(s)
    }

    /// Ascending eigenvalues and the eigenvectors (columns) of symmetric matrices, of which one triangle is read.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let (w, _) = Tensor::from([[2.0f64, 1.0], [1.0, 2.0]]).eigh(false).unwrap();
    /// let w = w.to_vec::<f64>().unwrap();
    /// assert!((w[0] - 1.0).abs() < 1e-12 && (w[1] - 3.0).abs() < 1e-12);
    /// ```
    #[track_caller]
    pub fn eigh(&self, upper: bool) -> Result<(Tensor, Tensor)> {
        self.check_matrix("eigh", true)?;
        let a = if upper { self.mt() } else { self.resolve() };
        let [w, v] = a.factors(Linalg::Eigh, "eigh", true)?;
        Ok((w, v))
    }

    /// Ascending eigenvalues of symmetric matrices.
    #[track_caller]
    pub fn eigvalsh(&self, upper: bool) -> Result<Tensor> {
        self.check_matrix("eigvalsh", true)?;
        let a = if upper { self.mt() } else { self.resolve() };
        let [w] = a.factors(Linalg::Eigvalsh, "eigvalsh", true)?;
        Ok(w)
    }

    /// `A = P L U`: a permutation, a lower triangle with ones on its diagonal, an upper triangle.
    #[track_caller]
    pub fn lu(&self) -> Result<(Tensor, Tensor, Tensor)> {
        let [p, l, u] = self.factors(Linalg::Lu, "lu", false)?;
        Ok((p.detach(), l, u))
    }

    /// The sign of the determinant and the logarithm of its absolute value.
    #[track_caller]
    pub fn slogdet(&self) -> Result<(Tensor, Tensor)> {
        let [sign, log] = self.factors(Linalg::Slogdet, "slogdet", true)?;
        Ok((sign, log))
    }

    /// The first `q` principal components `(U, S, V)` of the rows, by an exact factorisation: `A = U diag(S) V^T` in
    /// those components. `q` is at most 6 if not given; `center` takes the mean of the columns off first.
    #[track_caller]
    pub fn pca_lowrank(&self, q: Option<usize>, center: bool) -> Result<(Tensor, Tensor, Tensor)> {
        let (m, n) = self.check_matrix("pca_lowrank", false)?;
        let most = m.min(n);
        let q = q.unwrap_or(most.min(6));
        if q > most {
            let why = format!("{q} components of {} do not exist: there are {most}", self.shape());
            return Err(Error::value("pca_lowrank", why).operand(self));
        }
        let a = if center { self - self.mean_dim(-2, true)? } else { self.resolve() };
        let (u, s, vh) = a.svd(false)?;
        Ok((u.narrow(-1, 0, q)?, s.narrow(-1, 0, q)?, vh.narrow(-2, 0, q)?.mt()))
    }
}

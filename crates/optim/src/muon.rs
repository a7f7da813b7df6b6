//! Muon: momentum, orthogonalised.

use crate::{Field, Optim, Rule, Slot, adam::decayed};
use gradus_core::{Error, Result, Tensor};

/// Muon (Jordan et al.), as PyTorch's `Muon`, for matrices: the momentum's singular values are all brought near 1.
///
/// PyTorch runs the Newton-Schulz iteration in bfloat16; here it runs in the variable's own type, so that nothing is
/// rounded away. Biases, norms and embeddings belong to another optimizer.
pub type Muon = Optim<MuonOptions>;

/// Options of [`Muon`].
#[derive(Clone, Debug)]
pub struct MuonOptions {
    /// Learning rate.
    pub lr: f64,
    /// How much of a weight goes in each step, times the learning rate.
    pub weight_decay: f64,
    /// Decay rate of the momentum.
    pub momentum: f64,
    /// Nesterov's look ahead.
    pub nesterov: bool,
    /// Coefficients of the iteration's odd polynomial.
    pub ns_coefficients: (f64, f64, f64),
    /// The least norm that is divided by.
    pub eps: f64,
    /// Iterations.
    pub ns_steps: usize,
    /// How a matrix' extents change the learning rate.
    pub adjust_lr: MuonScale,
}

/// How a matrix' extents change [`Muon`]'s learning rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MuonScale {
    /// By the root of rows over columns, where that is more than 1 (PyTorch's default).
    Original,
    /// By 0.2 times the root of the larger extent: steps as large as AdamW's, so that its learning rates can be used.
    MatchRmsAdamW,
}

impl Default for MuonOptions {
    fn default() -> Self {
        MuonOptions {
            lr: 1e-3,
            weight_decay: 0.1,
            momentum: 0.95,
            nesterov: true,
            ns_coefficients: (3.4445, -4.7750, 2.0315),
            eps: 1e-7,
            ns_steps: 5,
            adjust_lr: MuonScale::Original,
        }
    }
}

impl MuonOptions {
    /// A matrix with the same singular vectors, and singular values near 1: Newton-Schulz iterations.
    fn orthogonalize(&self, update: &Tensor, tall: bool) -> Result<Tensor> {
        let (a, b, c) = self.ns_coefficients;
        let wide = if tall { update.t()? } else { update.clone() };
        let norm = wide.square().sum().sqrt().clamp_min(self.eps)?;
        let mut x = wide / norm;
        for _ in 0..self.ns_steps {
            let gram = x.matmul(&x.t()?)?;
            let poly = &gram * b + gram.matmul(&gram)? * c;
            x = &x * a + poly.matmul(&x)?;
        }
        if tall { x.t() } else { Ok(x) }
    }
}

impl Rule for MuonOptions {
    const NAME: &'static str = "muon";

    fn with_lr(lr: f64) -> Self {
        MuonOptions { lr, ..Default::default() }
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("momentum", Field::Number(&mut self.momentum)),
            ("nesterov", Field::Flag(&mut self.nesterov)),
            ("ns_a", Field::Number(&mut self.ns_coefficients.0)),
            ("ns_b", Field::Number(&mut self.ns_coefficients.1)),
            ("ns_c", Field::Number(&mut self.ns_coefficients.2)),
            ("eps", Field::Number(&mut self.eps)),
            ("ns_steps", Field::Count(&mut self.ns_steps)),
        ]
    }

    fn next(&self, slot: &mut Slot, w: &Tensor, g: &Tensor) -> Result<Tensor> {
        let [rows, columns] = *w.dims() else {
            let why = format!("Muon is for matrices, and this variable is {}", w.shape());
            return Err(Error::shape("muon", &[w.shape()], why).operand(w).hint("give it to AdamW"));
        };
        let buffer = slot.average("momentum_buffer", g, self.momentum)?;
        let update = if self.nesterov { g * (1.0 - self.momentum) + buffer * self.momentum } else { buffer };
        let update = self.orthogonalize(&update, rows > columns)?;
        let scale = match self.adjust_lr {
            MuonScale::Original => (rows as f64 / columns.max(1) as f64).max(1.0).sqrt(),
            MuonScale::MatchRmsAdamW => 0.2 * (rows.max(columns) as f64).sqrt(),
        };
        Ok(decayed(w, self.lr, self.weight_decay) - update * (self.lr * scale))
    }
}

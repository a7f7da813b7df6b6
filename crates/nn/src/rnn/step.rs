//! One step in time.

use super::weights::Direction;
use gradus_core::{Result, Tensor};

/// What a plain recurrent layer does with the sum of its inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nonlinearity {
    /// The hyperbolic tangent.
    #[default]
    Tanh,
    /// `max(x, 0)`.
    Relu,
}
crate::parts::parts_plain!(Nonlinearity);

/// Which recurrence it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain(Nonlinearity),
    Lstm,
    Gru,
}
crate::parts::parts_plain!(Kind);

impl Kind {
    /// Rows of weights for one hidden number.
    pub fn gates(self) -> usize {
        match self {
            Kind::Plain(_) => 1,
            Kind::Lstm => 4,
            Kind::Gru => 3,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::Plain(_) => "Rnn",
            Kind::Lstm => "Lstm",
            Kind::Gru => "Gru",
        }
    }
}

/// Hidden state, and the cell's state for an LSTM.
#[derive(Clone)]
pub(crate) struct State {
    pub h: Tensor,
    pub c: Option<Tensor>,
}

/// What the inputs add to the gates: `[.., in]` to `[.., gates hidden]`, by one product. Where a gate only sees the sum
/// of both biases, that sum is added here, once for all steps.
#[track_caller]
pub(crate) fn project(kind: Kind, w: &Direction, x: &Tensor) -> Result<Tensor> {
    let bias = match (&w.bias_ih, &w.bias_hh, kind) {
        (Some(a), Some(b), Kind::Plain(_) | Kind::Lstm) => Some(a + b),
        (Some(a), _, _) => Some(a.resolve()),
        (None, _, _) => None,
    };
    x.linear(&w.weight_ih, bias.as_ref())
}

/// The state after a step whose inputs add `gates` (`[n, gates hidden]`).
#[track_caller]
pub(crate) fn step(kind: Kind, w: &Direction, gates: &Tensor, state: &State) -> Result<State> {
    match kind {
        Kind::Plain(f) => {
            let sum = gates.add(&state.h.linear(&w.weight_hh, None)?)?;
            let h = match f {
                Nonlinearity::Tanh => sum.tanh(),
                Nonlinearity::Relu => sum.relu(),
            };
            Ok(State { h, c: None })
        }
        Kind::Lstm => {
            // Cut first, then added: what is cut is in memory, and all the rest is one kernel.
            let recurrent = state.h.linear(&w.weight_hh, None)?;
            let ([xi, xf, xg, xo], [hi, hf, hg, ho]) = (parts(gates)?, parts(&recurrent)?);
            let (i, f, g, o) = (xi.add(&hi)?, xf.add(&hf)?, xg.add(&hg)?, xo.add(&ho)?);
            let c = i.sigmoid() * g.tanh();
            let c = match &state.c {
                Some(old) => f.sigmoid() * old + c,
                None => c,
            };
            let h = o.sigmoid() * c.tanh();
            let h = match &w.weight_hr {
                Some(project) => h.linear(project, None)?,
                None => h,
            };
            Ok(State { h, c: Some(c) })
        }
        Kind::Gru => {
            let recurrent = state.h.linear(&w.weight_hh, w.bias_hh.as_deref())?;
            let ([xr, xz, xn], [hr, hz, hn]) = (parts(gates)?, parts(&recurrent)?);
            let (r, z) = (xr.add(&hr)?.sigmoid(), xz.add(&hz)?.sigmoid());
            let n = (xn + r * hn).tanh();
            // (1 - z) n + z h, with one product less.
            let h = &n + z * (&state.h - &n);
            Ok(State { h, c: None })
        }
    }
}

/// The last axis in `N` equal parts.
#[track_caller]
fn parts<const N: usize>(x: &Tensor) -> Result<[Tensor; N]> {
    let width = x.dims().last().map_or(0, |n| n / N);
    let mut parts = vec![];
    for i in 0..N {
        parts.push(x.narrow(-1, i * width, width)?);
    }
    parts.try_into().map_err(|_| gradus_core::Error::value("rnn", "gates do not divide"))
}

//! One step of a recurrence as a module.

use super::{
    step::{Kind, Nonlinearity, State, project, step},
    weights::Direction,
};
use crate::Module;
use gradus_core::{Error, Result, Tensor};

macro_rules! cells {
    ($($(#[$doc:meta])* $name:ident $kind:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            #[module(flatten)]
            weights: Direction,
            kind: Kind,
        }

        impl $name {
            /// From inputs of this size to states of this size, with biases.
            #[track_caller]
            pub fn new(input_size: usize, hidden_size: usize) -> $name {
                $name { weights: Direction::new($kind, input_size, hidden_size, 0, true), kind: $kind }
            }

            /// With or without biases; the weights are drawn anew.
            #[track_caller]
            pub fn bias(self, bias: bool) -> $name {
                let (input, hidden) = (self.weights.weight_ih.dims()[1], self.weights.weight_hh.dims()[1]);
                $name { weights: Direction::new(self.kind, input, hidden, 0, bias), kind: self.kind }
            }

            /// The state after `x` (`[n, input]` or `[input]`), from zeros or from a state.
            #[track_caller]
            fn next(&self, x: &Tensor, h: Option<&Tensor>, c: Option<&Tensor>) -> Result<State> {
                let hidden = self.weights.weight_hh.dims()[1];
                let want: Vec<usize> =
                    x.dims().iter().take(x.rank().saturating_sub(1)).copied().chain([hidden]).collect();
                for given in [h, c].into_iter().flatten().filter(|t| t.dims() != want) {
                    let why = format!("the state for inputs {} must be {want:?}, not {}", x.shape(), given.shape());
                    return Err(Error::shape(stringify!($name), &[x.shape(), given.shape()], why).operand(x).operand(given));
                }
                let zeros = || x.new_zeros(want.clone());
                let h = h.map_or_else(zeros, Tensor::resolve);
                let c = Some(c.map_or_else(zeros, Tensor::resolve));
                step(self.kind, &self.weights, &project(self.kind, &self.weights, x)?, &State { h, c })
            }
        }
    )*};
}
cells! {
    /// `h' = tanh(W x + b + U h + c)`.
    RnnCell Kind::Plain(Nonlinearity::Tanh);
    /// One step of long short-term memory.
    LstmCell Kind::Lstm;
    /// One step of a gated recurrent unit.
    GruCell Kind::Gru;
}

impl RnnCell {
    /// With another function than tanh.
    pub fn nonlinearity(self, f: Nonlinearity) -> RnnCell {
        RnnCell { kind: Kind::Plain(f), ..self }
    }

    /// The next hidden state.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, h: Option<&Tensor>) -> Result<Tensor> {
        Ok(self.next(x, h, None)?.h)
    }
}

impl GruCell {
    /// The next hidden state.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, h: Option<&Tensor>) -> Result<Tensor> {
        Ok(self.next(x, h, None)?.h)
    }
}

impl LstmCell {
    /// The next hidden state and cell state.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<&(Tensor, Tensor)>) -> Result<(Tensor, Tensor)> {
        let State { h, c } = self.next(x, state.map(|s| &s.0), state.map(|s| &s.1))?;
        let c = c.ok_or_else(|| Error::value("LstmCell", "no cell state came out"))?;
        Ok((h, c))
    }
}

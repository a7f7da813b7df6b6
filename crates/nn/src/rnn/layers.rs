//! Recurrent layers.

use super::{
    RnnOptions,
    run::Run,
    step::{Kind, Nonlinearity},
    weights::Stack,
};
use crate::{Mode, Module};
use gradus_core::{Error, Result, Tensor};

crate::parts::parts_plain!(RnnOptions);

macro_rules! recurrent {
    ($($(#[$doc:meta])* $name:ident $kind:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        #[module(describe = Self::settings)]
        pub struct $name {
            #[module(flatten)]
            stack: Stack,
            kind: Kind,
            options: RnnOptions,
            mode: Mode,
        }

        impl $name {
            /// One layer in one direction, with biases: inputs `[t, n, input_size]`.
            #[track_caller]
            pub fn new(input_size: usize, hidden_size: usize) -> Result<$name> {
                $name::with(input_size, hidden_size, RnnOptions::default())
            }

            /// With settings.
            #[track_caller]
            pub fn with(input_size: usize, hidden_size: usize, options: RnnOptions) -> Result<$name> {
                let stack = Stack::new($kind, input_size, hidden_size, &options)?;
                Ok($name { stack, kind: $kind, options, mode: Mode::default() })
            }

            fn settings(&self) -> String {
                let Stack { input, hidden, .. } = &self.stack;
                let mut text = format!("{input} -> {hidden}");
                if self.options.num_layers > 1 {
                    text += &format!(", {} layers", self.options.num_layers);
                }
                if self.options.bidirectional {
                    text += ", both directions";
                }
                text
            }

            fn run<'a>(&'a self, lengths: Option<&'a [usize]>) -> Run<'a> {
                let Self { kind, stack, options, mode } = self;
                Run { kind: *kind, stack, options, training: mode.is_training(), lengths }
            }
        }
    )*};
}
recurrent! {
    /// `h' = tanh(W x + b + U h + c)`: the plain recurrence.
    Rnn Kind::Plain(Nonlinearity::Tanh);
    /// Long short-term memory.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// use gradus_nn::{Lstm, RnnOptions};
    /// let lstm = Lstm::with(3, 8, RnnOptions { num_layers: 2, batch_first: true, ..Default::default() })?;
    /// let (y, (h, c)) = lstm.forward(&Tensor::randn([4, 10, 3]), None)?;
    /// assert_eq!((y.dims(), h.dims(), c.dims()), (&[4, 10, 8][..], &[2, 4, 8][..], &[2, 4, 8][..]));
    /// let (next, _) = lstm.forward(&Tensor::randn([4, 1, 3]), Some(&(h, c)))?;
    /// assert_eq!(next.dims(), [4, 1, 8]);
    /// # Ok::<(), gradus_core::Error>(())
    /// ```
    Lstm Kind::Lstm;
    /// Gated recurrent units.
    Gru Kind::Gru;
}

impl Rnn {
    /// With another function than tanh.
    pub fn nonlinearity(self, f: Nonlinearity) -> Rnn {
        Rnn { kind: Kind::Plain(f), ..self }
    }
}

macro_rules! one_state {
    ($($name:ident),*) => {$(
        impl $name {
            /// Outputs for each step and the last hidden states `[layers directions, n, hidden]`, from zeros or from
            /// the states given.
            #[track_caller]
            pub fn forward(&self, x: &Tensor, h0: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
                let (y, h, _) = self.run(None).over(x, h0, None)?;
                Ok((y, h))
            }

            /// As `forward`, for sequences of these lengths: what comes after the end of one counts for nothing, and its
            /// outputs are 0.
            #[track_caller]
            pub fn forward_lengths(
                &self,
                x: &Tensor,
                lengths: &[usize],
                h0: Option<&Tensor>,
            ) -> Result<(Tensor, Tensor)> {
                let (y, h, _) = self.run(Some(lengths)).over(x, h0, None)?;
                Ok((y, h))
            }
        }
    )*};
}
one_state!(Rnn, Gru);

/// Hidden states and cell states.
type LstmState = (Tensor, Tensor);

impl Lstm {
    /// Outputs for each step and the last hidden and cell states `[layers directions, n, hidden]`, from zeros or from
    /// the states given.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<&LstmState>) -> Result<(Tensor, LstmState)> {
        self.go(x, None, state)
    }

    /// As `forward`, for sequences of these lengths: what comes after the end of one counts for nothing, and its outputs
    /// are 0.
    #[track_caller]
    pub fn forward_lengths(
        &self,
        x: &Tensor,
        lengths: &[usize],
        state: Option<&LstmState>,
    ) -> Result<(Tensor, LstmState)> {
        self.go(x, Some(lengths), state)
    }

    #[track_caller]
    fn go(&self, x: &Tensor, lengths: Option<&[usize]>, state: Option<&LstmState>) -> Result<(Tensor, LstmState)> {
        let (y, h, c) = self.run(lengths).over(x, state.map(|s| &s.0), state.map(|s| &s.1))?;
        let c = c.ok_or_else(|| Error::value("Lstm", "no cell state came out"))?;
        Ok((y, (h, c)))
    }
}

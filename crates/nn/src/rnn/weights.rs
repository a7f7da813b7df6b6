//! The parameters of recurrent layers, under PyTorch's names.

use super::{RnnOptions, step::Kind};
use crate::{
    Module, Param,
    init::within_one_over_sqrt,
    part::{Part, Variable, Visitor},
};
use gradus_core::{Error, Result};

/// The weights of one layer in one direction.
#[derive(Module)]
pub(crate) struct Direction {
    pub weight_ih: Param,
    pub weight_hh: Param,
    pub bias_ih: Option<Param>,
    pub bias_hh: Option<Param>,
    pub weight_hr: Option<Param>,
}

impl Direction {
    /// All uniform within `1 / sqrt(hidden)` of 0.
    #[track_caller]
    pub fn new(kind: Kind, input: usize, hidden: usize, proj: usize, bias: bool) -> Direction {
        let rows = kind.gates() * hidden;
        let out = if proj > 0 { proj } else { hidden };
        let draw = |shape: &[usize]| Param::new(within_one_over_sqrt(shape, hidden));
        Direction {
            weight_ih: draw(&[rows, input]),
            weight_hh: draw(&[rows, out]),
            bias_ih: bias.then(|| draw(&[rows])),
            bias_hh: bias.then(|| draw(&[rows])),
            weight_hr: (proj > 0).then(|| draw(&[proj, hidden])),
        }
    }
}

/// The weights of all layers and directions: `weight_ih_l0`, `weight_ih_l0_reverse`, ...
pub(crate) struct Stack {
    pub layers: Vec<Vec<Direction>>,
    pub input: usize,
    pub hidden: usize,
}

impl Stack {
    #[track_caller]
    pub fn new(kind: Kind, input: usize, hidden: usize, options: &RnnOptions) -> Result<Stack> {
        let fail = |why: String| Err(Error::value(kind.name(), why));
        if options.num_layers == 0 || hidden == 0 {
            return fail(format!("{} layers of {hidden} numbers have no state", options.num_layers));
        }
        if options.proj_size > 0 && (kind != Kind::Lstm || options.proj_size >= hidden) {
            let why = format!("proj_size {} is for an LSTM with more than that hidden, not", options.proj_size);
            return fail(format!("{why} {} with {hidden}", kind.name()));
        }
        if !(0.0..=1.0).contains(&options.dropout) {
            return fail(format!("a probability must be between 0 and 1, not {}", options.dropout));
        }
        let directions = if options.bidirectional { 2 } else { 1 };
        let out = if options.proj_size > 0 { options.proj_size } else { hidden };
        let layer = |k: usize| {
            let input = if k == 0 { input } else { out * directions };
            (0..directions).map(|_| Direction::new(kind, input, hidden, options.proj_size, options.bias)).collect()
        };
        Ok(Stack { layers: (0..options.num_layers).map(layer).collect(), input, hidden })
    }

    /// Numbers of an output of one direction, and of its hidden state.
    pub fn out(&self) -> usize {
        let projected = |d: &Direction| d.weight_hr.as_ref().map(|w| w.dims()[0]);
        self.layers.first().and_then(|l| l.first()).and_then(projected).unwrap_or(self.hidden)
    }

    pub fn directions(&self) -> usize {
        self.layers.first().map_or(1, Vec::len)
    }
}

impl Part for Stack {
    fn visit(&self, v: &mut Visitor<'_>) {
        for (k, layer) in self.layers.iter().enumerate() {
            for (w, direction) in layer.iter().zip(["", "_reverse"]) {
                let mut field = |name: &str, part: &dyn Part| v.field(&format!("{name}_l{k}{direction}"), part);
                field("weight_ih", &w.weight_ih);
                field("weight_hh", &w.weight_hh);
                field("bias_ih", &w.bias_ih);
                field("bias_hh", &w.bias_hh);
                field("weight_hr", &w.weight_hr);
            }
        }
    }

    fn update(&mut self, f: &mut dyn FnMut(&mut Variable<'_>)) {
        self.layers.iter_mut().flatten().for_each(|w| w.update(f));
    }
}

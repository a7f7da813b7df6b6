//! Layers over a whole sequence.

use super::{
    RnnOptions,
    step::{Kind, State, project, step},
    weights::{Direction, Stack},
};
use gradus_core::{DType, Error, Result, Tensor};

/// A stack of recurrences over `x`, with the states it starts from (`[layers directions, n, ..]`) and, where sequences
/// end early, their lengths. Gives the outputs and the last states, shaped alike.
pub(crate) struct Run<'a> {
    pub kind: Kind,
    pub stack: &'a Stack,
    pub options: &'a RnnOptions,
    pub training: bool,
    pub lengths: Option<&'a [usize]>,
}

/// Outputs, last hidden states, last cell states.
type Outcome = (Tensor, Tensor, Option<Tensor>);

impl Run<'_> {
    #[track_caller]
    pub fn over(&self, x: &Tensor, h0: Option<&Tensor>, c0: Option<&Tensor>) -> Result<Outcome> {
        let name = self.kind.name();
        if x.rank() == 2 {
            if self.lengths.is_some() {
                return Err(Error::value(name, "lengths are for batches: one sequence ends where it ends").operand(x));
            }
            let axis = if self.options.batch_first { 0 } else { 1 };
            let one = |t: Option<&Tensor>| t.map(|t| t.unsqueeze(1)).transpose();
            let (h0, c0) = (one(h0)?, one(c0)?);
            let (y, h, c) = self.over(&x.unsqueeze(axis)?, h0.as_ref(), c0.as_ref())?;
            return Ok((y.squeeze(axis)?, h.squeeze(1)?, c.map(|c| c.squeeze(1)).transpose()?));
        }
        if x.rank() != 3 || x.dims()[2] != self.stack.input {
            let order = if self.options.batch_first { "n, t" } else { "t, n" };
            let why = format!("takes [{order}, {}], not {}", self.stack.input, x.shape());
            return Err(Error::shape(name, &[x.shape()], why).operand(x));
        }
        let x = if self.options.batch_first { x.transpose(0, 1)? } else { x.resolve() };
        let (steps, n) = (x.dims()[0], x.dims()[1]);
        if steps == 0 {
            return Err(Error::shape(name, &[x.shape()], "a sequence of no steps has no last state").operand(&x));
        }
        let lengths = self.lengths.map(|l| self.check_lengths(&x, l)).transpose()?;
        let (y, h, c) = self.layers(x, [h0, c0], n, lengths.as_ref())?;
        let y = if self.options.batch_first { y.transpose(0, 1)? } else { y };
        Ok((y, h, c))
    }

    #[track_caller]
    fn layers(&self, x: Tensor, start: [Option<&Tensor>; 2], n: usize, lengths: Option<&Tensor>) -> Result<Outcome> {
        let (layers, directions) = (self.stack.layers.len(), self.stack.directions());
        self.check_state("hidden state", start[0], n, self.stack.out())?;
        self.check_state("cell state", start[1], n, self.stack.hidden)?;
        let zeros = |width: usize| x.new_zeros([n, width]);
        let mut y = x.clone();
        let mut last: Vec<State> = vec![];
        for (k, layer) in self.stack.layers.iter().enumerate() {
            let mut ways = vec![];
            for (d, w) in layer.iter().enumerate() {
                let at = (k * directions + d) as i64;
                let from = |t: Option<&Tensor>, width| t.map_or_else(|| Ok(zeros(width)), |t| t.select(0, at));
                let h = from(start[0], self.stack.out())?;
                let c = match self.kind {
                    Kind::Lstm => Some(from(start[1], self.stack.hidden)?),
                    Kind::Plain(_) | Kind::Gru => None,
                };
                let (outputs, state) = self.direction(w, &y, State { h, c }, d == 1, lengths)?;
                ways.push(outputs);
                last.push(state);
            }
            y = match &ways[..] {
                [only] => only.clone(),
                several => Tensor::cat(&several.iter().collect::<Vec<_>>(), -1)?,
            };
            if k + 1 < layers {
                y = y.dropout(self.options.dropout, self.training)?;
            }
        }
        let h = Tensor::stack(&last.iter().map(|s| &s.h).collect::<Vec<_>>(), 0)?;
        let cells: Vec<&Tensor> = last.iter().filter_map(|s| s.c.as_ref()).collect();
        let c = if cells.is_empty() { None } else { Some(Tensor::stack(&cells, 0)?) };
        Ok((y, h, c))
    }

    /// One layer in one direction: the outputs in the order of time, and the state after its last step.
    #[track_caller]
    fn direction(
        &self,
        w: &Direction,
        x: &Tensor,
        start: State,
        backwards: bool,
        lengths: Option<&Tensor>,
    ) -> Result<(Tensor, State)> {
        let steps = x.dims()[0];
        let gates = project(self.kind, w, x)?;
        if let (Kind::Lstm, None, None, Some(c)) = (self.kind, lengths, &w.weight_hr, &start.c) {
            // All steps at once.
            let (y, c) = gates.lstm(&w.weight_hh, &start.h, c, backwards)?;
            let h = y.select(0, if backwards { 0 } else { -1 })?;
            return Ok((y, State { h, c: Some(c) }));
        }
        let mut state = start;
        let mut outputs = vec![None; steps];
        for i in 0..steps {
            let t = if backwards { steps - 1 - i } else { i };
            let mut new = step(self.kind, w, &gates.select(0, t as i64)?, &state)?;
            let mut output = new.h.clone();
            if let Some(lengths) = lengths {
                // Past its end a sequence keeps its state, and says nothing.
                let inside = lengths.gt(t as i64)?;
                output = inside.where_(&new.h, 0.0)?;
                new.h = inside.where_(&new.h, &state.h)?;
                new.c = match (new.c, &state.c) {
                    (Some(c), Some(old)) => Some(inside.where_(&c, old)?),
                    (c, _) => c,
                };
            }
            outputs[t] = Some(output);
            state = new;
        }
        Ok((Tensor::stack(&outputs.iter().flatten().collect::<Vec<_>>(), 0)?, state))
    }

    #[track_caller]
    fn check_state(&self, what: &str, state: Option<&Tensor>, n: usize, width: usize) -> Result<()> {
        let Some(state) = state else { return Ok(()) };
        let want = [self.stack.layers.len() * self.stack.directions(), n, width];
        if state.dims() != want {
            let why = format!("the {what} must be {want:?}, not {}", state.shape());
            return Err(Error::shape(self.kind.name(), &[state.shape()], why).operand(state));
        }
        Ok(())
    }

    /// Lengths as a column.
    #[track_caller]
    fn check_lengths(&self, x: &Tensor, lengths: &[usize]) -> Result<Tensor> {
        let (steps, n) = (x.dims()[0], x.dims()[1]);
        if lengths.len() != n || lengths.iter().any(|l| *l == 0 || *l > steps) {
            let why = format!("lengths {lengths:?} do not fit {n} sequences of up to {steps} steps, at least one each");
            return Err(Error::value(self.kind.name(), why).operand(x));
        }
        let column: Vec<i64> = lengths.iter().map(|l| *l as i64).collect();
        Ok(Tensor::from_vec(column, [n, 1])?.to_dtype(DType::I64).to(&x.device()))
    }
}

//! Operations of the user's own, and rows of the elementwise table by name.

use super::{broadcast_all, same_device};
use crate::{
    DType, Error, ErrorKind, Result, Tensor,
    op::{
        CustomOp, Op,
        ewise::{Ewise, Kind},
    },
};
use std::sync::Arc;

impl Tensor {
    /// A custom operation on tensors; its own check says whether they fit, and what comes out.
    #[track_caller]
    pub fn custom(op: Arc<dyn CustomOp>, inputs: &[&Tensor]) -> Result<Tensor> {
        let name = op.name().to_string();
        let Some(first) = inputs.first() else {
            return Err(Error::value(name, "a custom operation needs at least one input"));
        };
        same_device(&name, inputs)?;
        let described: Vec<_> = inputs.iter().map(|t| (t.shape(), t.dtype())).collect();
        let (shape, dtype) = op.output(&described).map_err(|e| inputs.iter().fold(e, |e, t| e.operand(t)))?;
        if shape.checked_numel().and_then(|n| n.checked_mul(dtype.size())).is_none() {
            let why = format!("its result of shape {shape} has more elements than can be counted");
            return Err(Error::shape(name, &[&shape], why));
        }
        Ok(first.make(Op::Custom(op), inputs, shape, dtype))
    }
}

impl Ewise {
    /// This row over as many tensors as it takes: of the types it takes, broadcast to one shape. Tests walk the table
    /// with it; the methods of [`Tensor`] promote types as well.
    #[track_caller]
    pub fn apply(&'static self, inputs: &[&Tensor]) -> Result<Tensor> {
        if inputs.len() != self.arity {
            let why = format!("takes {} inputs, not {}", self.arity, inputs.len());
            return Err(Error::new(self.name, ErrorKind::Value(why)));
        }
        same_device(self.name, inputs)?;
        let last = inputs[inputs.len() - 1].dtype();
        let wanted = |k: usize| if self.kind == Kind::Select && k == 0 { DType::Bool } else { last };
        let types: Vec<DType> = inputs.iter().map(|t| t.dtype()).collect();
        if self.block(last).is_none() || types.iter().enumerate().any(|(k, &d)| d != wanted(k)) {
            let why = format!("does not take {types:?}");
            let e = Error::dtype(self.name, &types, why);
            return Err(inputs.iter().fold(e, |e, t| e.operand(t)));
        }
        let shape = broadcast_all(self.name, inputs)?;
        let wide: Vec<Tensor> = inputs.iter().map(|t| t.expand_to(&shape)).collect();
        let out = if self.kind == Kind::Compare { DType::Bool } else { last };
        Ok(Tensor::ewise(self, &wide.iter().collect::<Vec<_>>(), out))
    }
}

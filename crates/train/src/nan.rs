//! The operation that made the first NaN.

use gradus_core::{Result, Tensor, graph::topological};
use std::{collections::HashMap, fmt, panic::Location};

/// What is wrong with a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It has elements that are no number.
    Nan,
    /// It has infinite elements.
    Infinite,
}

/// An operation whose inputs were fine and whose result is not.
#[derive(Clone)]
pub struct Culprit {
    /// What is wrong with its result.
    pub fault: Fault,
    /// The operation, or for a variable its name.
    pub op: String,
    /// The line of the program that asked for it.
    pub location: &'static Location<'static>,
    /// Whether it computes: data and variables come as they are.
    pub computed: bool,
    /// The tensor itself.
    pub tensor: Tensor,
    /// Where an infinite input of it was made: often the real cause of a NaN.
    pub cause: Option<Box<Culprit>>,
}

/// Finds the first operation, in the order of computation, that made a NaN (or, if there is none, an infinity) on the
/// way to these tensors; none if they are all finite.
///
/// Infinities alone are no fault while a NaN is sought: masks are made of them.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_train::locate_nan;
/// let x = Tensor::from([1.0f32, 0.0]);
/// let loss = (x.log() * &x).sum(); // 0 * log 0
/// let culprit = locate_nan(&[&loss])?.unwrap();
/// assert_eq!((culprit.op.as_str(), culprit.cause.as_ref().unwrap().op.as_str()), ("mul", "log"));
/// assert!(culprit.location.file().ends_with("nan.rs"));
/// println!("{culprit}");
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub fn locate_nan(tensors: &[&Tensor]) -> Result<Option<Culprit>> {
    let order = topological(tensors, |_| true);
    // Nothing to do in the good case: read what was asked about, and no more.
    let mut bad = false;
    for t in tensors {
        bad |= fault(&t.resolve())?.is_some();
    }
    if !bad {
        return Ok(None);
    }
    // `order` holds every node, so each is computed once and stays.
    let mut faults: HashMap<u64, Fault> = HashMap::new();
    let mut first_infinite = None;
    for t in &order {
        let Some(f) = fault(t)? else { continue };
        faults.insert(t.id(), f);
        let inputs = t.node().inputs();
        let inherited = inputs.iter().any(|i| faults.get(&i.id()) == Some(&f));
        if inherited {
            continue;
        }
        match f {
            Fault::Nan => {
                let cause = inputs.iter().find_map(|i| origin(i, &order, &faults));
                return Ok(Some(culprit(t, f, cause)));
            }
            Fault::Infinite => first_infinite = first_infinite.or(Some(t)),
        }
    }
    Ok(first_infinite.map(|t| culprit(t, Fault::Infinite, None)))
}

fn culprit(t: &Tensor, fault: Fault, cause: Option<Culprit>) -> Culprit {
    let computed = t.var_id().is_none() && !t.node().inputs().is_empty();
    let op = match t.name() {
        Some(name) => format!("variable {name}"),
        None => t.op_name().to_string(),
    };
    Culprit { fault, op, location: t.location(), computed, tensor: t.clone(), cause: cause.map(Box::new) }
}

/// Where the infinity in a tensor was made.
fn origin(t: &Tensor, order: &[Tensor], faults: &HashMap<u64, Fault>) -> Option<Culprit> {
    if faults.get(&t.id()) != Some(&Fault::Infinite) {
        return None;
    }
    let mut at = order.iter().find(|o| o.id() == t.id())?.clone();
    while let Some(before) = at.node().inputs().iter().find(|i| faults.contains_key(&i.id())) {
        at = before.clone();
    }
    Some(culprit(&at, Fault::Infinite, None))
}

/// What is wrong with a tensor's elements.
fn fault(t: &Tensor) -> Result<Option<Fault>> {
    if !t.dtype().is_float() || t.numel() == 0 {
        return Ok(None);
    }
    let t = t.detach();
    let (nan, infinite) = (t.isnan().any(), t.isinf().any());
    Tensor::eval_all(&[&nan, &infinite])?;
    Ok(if nan.item::<bool>()? {
        Some(Fault::Nan)
    } else if infinite.item::<bool>()? {
        Some(Fault::Infinite)
    } else {
        None
    })
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.fault {
            Fault::Nan => "NaN",
            Fault::Infinite => "an infinity",
        };
        let (op, shape, at) = (&self.op, self.tensor.shape(), self.location);
        match self.computed {
            true => write!(f, "{op} {shape} at {at} made {what}")?,
            false => write!(f, "{op} {shape} from {at} holds {what}")?,
        }
        match &self.cause {
            Some(cause) => write!(f, ", after {cause}"),
            None if self.computed => write!(f, " from finite inputs"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

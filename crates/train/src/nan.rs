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
/// Infinities alone are no fault while a NaN is sought: masks are made of them. It computes every intermediate result
/// and keeps it until it is done, so it takes more memory than the run itself.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_train::locate_nan;
/// let x = Tensor::from([1.0f32, 0.0]);
/// let loss = (x.log() * &x).sum(); // 0 * log 0
/// let culprit = locate_nan(&[&loss])?.unwrap();
/// assert_eq!((culprit.op.as_str(), culprit.cause.as_ref().unwrap().op.as_str()), ("mul", "log"));
/// assert_eq!(culprit.location.line(), culprit.cause.as_ref().unwrap().location.line());
/// println!("{culprit}"); // mul [2] at src/main.rs:4:22 made NaN, after log [2] at src/main.rs:4:15 made an infinity ...
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub fn locate_nan(tensors: &[&Tensor]) -> Result<Option<Culprit>> {
    // Who reads what, before anything runs: a node that no gradient goes through lets go of its inputs once it has a
    // value. Held here, every node is computed once and stays.
    let nodes: Vec<Node> = topological(tensors, |_| true).into_iter().map(Node::new).collect();
    let mut bad = false;
    for t in tensors {
        bad |= fault(&t.resolve())?.is_some();
    }
    if !bad {
        return Ok(None);
    }
    let mut faults: HashMap<u64, Fault> = HashMap::new();
    let mut first_infinite = None;
    for node in &nodes {
        let Some(f) = fault(&node.tensor)? else { continue };
        faults.insert(node.tensor.id(), f);
        if node.inputs.iter().any(|i| faults.get(i) == Some(&f)) {
            continue; // inherited
        }
        match f {
            Fault::Nan => {
                let cause = node.inputs.iter().find_map(|i| origin(*i, &nodes, &faults));
                return Ok(Some(node.culprit(f, cause)));
            }
            Fault::Infinite => first_infinite = first_infinite.or(Some(node)),
        }
    }
    Ok(first_infinite.map(|node| node.culprit(Fault::Infinite, None)))
}

/// A node and the ids of what it reads.
struct Node {
    tensor: Tensor,
    inputs: Vec<u64>,
}

impl Node {
    fn new(tensor: Tensor) -> Node {
        let inputs = tensor.node().inputs().iter().map(Tensor::id).collect();
        Node { tensor, inputs }
    }

    fn culprit(&self, fault: Fault, cause: Option<Culprit>) -> Culprit {
        let t = &self.tensor;
        let computed = t.var_id().is_none() && !self.inputs.is_empty();
        let op = match t.name() {
            Some(name) => format!("variable {name}"),
            None => t.op_name().to_string(),
        };
        Culprit { fault, op, location: t.location(), computed, tensor: t.clone(), cause: cause.map(Box::new) }
    }
}

/// Where the infinity in a node was made.
fn origin(id: u64, nodes: &[Node], faults: &HashMap<u64, Fault>) -> Option<Culprit> {
    let infinite = |id: &u64| faults.get(id) == Some(&Fault::Infinite);
    let find = |id: u64| nodes.iter().find(|n| n.tensor.id() == id);
    let mut at = find(id).filter(|_| infinite(&id))?;
    while let Some(before) = at.inputs.iter().copied().find(infinite).and_then(find) {
        at = before;
    }
    Some(at.culprit(Fault::Infinite, None))
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

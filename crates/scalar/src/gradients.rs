//! The backward pass and what it gives.

use crate::op::Op;
use crate::rules;
use crate::slots::SlotMap;
use crate::tape::{self, Operands, Tape};
use crate::value::Value;
use std::error::Error;
use std::fmt;

/// The derivatives of one value with respect to everything it was computed from; see [`Value::backward`].
///
/// It keeps the graph it describes alive, so a question asked later has the same answer. Drop it to let the
/// graph go.
///
/// ```
/// use gradus_scalar::var;
///
/// let (x, y) = (var("x", 2.0), var("y", 3.0));
/// let grads = (&x * &y).backward();
/// assert_eq!(grads.wrt(&x), Some(3.0));
/// assert_eq!(grads.by_name("y"), Ok(2.0));
/// ```
pub struct Gradients {
    /// Also what keeps the slots below from being given to other nodes.
    root: Value,
    grads: SlotMap<f64>,
    variables: Vec<u32>,
}

/// Why a name has no one gradient; see [`Gradients::by_name`].
///
/// ```
/// use gradus_scalar::{NameError, var};
///
/// let grads = (var("a", 1.0) + var("a", 2.0)).backward();
/// let error = grads.by_name("a").unwrap_err();
/// assert_eq!(error, NameError::Ambiguous { name: "a".into(), count: 2 });
/// assert_eq!(error.to_string(), "2 variables in the graph are named \"a\": ask with wrt(&variable)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// No variable in the graph has the name.
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// Several variables in the graph have the name.
    Ambiguous {
        /// The name asked for.
        name: String,
        /// How many variables have it.
        count: usize,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Unknown { name } => write!(f, "no variable in the graph is named {name:?}"),
            NameError::Ambiguous { name, count } => {
                write!(f, "{count} variables in the graph are named {name:?}: ask with wrt(&variable)")
            }
        }
    }
}

impl Error for NameError {}

impl Value {
    /// Differentiates this value with respect to everything it was computed from, in one walk of its graph.
    ///
    /// The graph is left as it was: it can be differentiated again, or built upon.
    ///
    /// ```
    /// use gradus_scalar::var;
    ///
    /// let (a, b) = (var("a", 2.0), var("b", 3.0));
    /// let sum = &a + &b;
    /// let grads = (&sum * &sum).backward();
    /// assert_eq!(grads.wrt(&a), Some(10.0));
    /// assert_eq!(grads.wrt(&sum), Some(10.0)); // steps on the way have gradients too
    /// ```
    #[must_use]
    pub fn backward(&self) -> Gradients {
        let mut grads = SlotMap::new();
        let mut variables = Vec::new();
        *grads.entry(self.slot()) = 1.0;
        tape::with(|tape| {
            tape.walk(self.slot(), |tape, slot| {
                if tape.node(slot).op == Op::Var {
                    variables.push(slot);
                }
                propagate(tape, slot, &mut grads);
            });
        });
        Gradients { root: self.clone(), grads, variables }
    }
}

/// Hands the operands of `slot` their shares of its gradient, which is complete by now.
#[inline]
fn propagate(tape: &Tape, slot: u32, grads: &mut SlotMap<f64>) {
    let node = tape.node(slot);
    match node.operands() {
        Operands::None => {}
        Operands::One(a) => {
            let from = tape.node(a);
            if from.op != Op::Const
                && let Some(g) = grads.get(slot)
            {
                *grads.entry(a) += rules::unary(node.op, from.value, node.value, g);
            }
        }
        Operands::Two(a, b) => {
            let Some(g) = grads.get(slot) else { return };
            let (x, y) = (tape.node(a), tape.node(b));
            let (left, right) = rules::binary(node.op, x.value, y.value, node.value, g);
            if x.op != Op::Const {
                *grads.entry(a) += left;
            }
            if y.op != Op::Const {
                *grads.entry(b) += right;
            }
        }
    }
}

impl Gradients {
    /// The derivative with respect to `x`, which may be a variable or any step on the way.
    ///
    /// `None` if the differentiated value was not computed from `x`, or if `x` is a constant. That is not the
    /// same as `Some(0.0)`, where it was but does not change with it.
    ///
    /// ```
    /// use gradus_scalar::var;
    ///
    /// let (x, other) = (var("x", -1.0), var("other", 1.0));
    /// let grads = x.relu().backward();
    /// assert_eq!(grads.wrt(&x), Some(0.0));
    /// assert_eq!(grads.wrt(&other), None);
    /// ```
    #[inline]
    pub fn wrt(&self, x: &Value) -> Option<f64> {
        self.grads.get(x.slot())
    }

    /// The derivative with respect to the one variable of this name.
    ///
    /// # Errors
    ///
    /// [`NameError`] if the graph has no such variable, or has several: it never picks one of them.
    ///
    /// ```
    /// use gradus_scalar::var;
    ///
    /// let grads = var("x", 3.0).powi(2).backward();
    /// assert_eq!(grads.by_name("x"), Ok(6.0));
    /// assert_eq!(grads.by_name("y").unwrap_err().to_string(), "no variable in the graph is named \"y\"");
    /// ```
    pub fn by_name(&self, name: &str) -> Result<f64, NameError> {
        let matches: Vec<f64> = tape::with(|tape| {
            self.variables
                .iter()
                .filter(|&&slot| tape.label(slot) == name)
                .filter_map(|&slot| self.grads.get(slot))
                .collect()
        });
        match matches[..] {
            [] => Err(NameError::Unknown { name: name.to_owned() }),
            [grad] => Ok(grad),
            _ => Err(NameError::Ambiguous { name: name.to_owned(), count: matches.len() }),
        }
    }

    /// Every variable of the graph by name with its derivative, in order of name. A name that several
    /// variables share is listed once for each, in no particular order among them.
    ///
    /// ```
    /// use gradus_scalar::var;
    ///
    /// let grads = (var("b", 2.0) * var("a", 5.0)).backward();
    /// assert_eq!(grads.all_named_grads(), [("a".to_string(), 2.0), ("b".to_string(), 5.0)]);
    /// ```
    pub fn all_named_grads(&self) -> Vec<(String, f64)> {
        let mut all: Vec<(String, f64)> = tape::with(|tape| {
            self.variables
                .iter()
                .filter_map(|&slot| Some((tape.label(slot).to_owned(), self.grads.get(slot)?)))
                .collect()
        });
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }
}

impl fmt::Debug for Gradients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gradients of {} ", self.root)?;
        f.debug_map().entries(self.all_named_grads()).finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::{NameError, constant, live_nodes, var};

    #[test]
    fn product_plus_sine() {
        let (x, y) = (var("x", 2.0), var("y", 3.0));
        let z = &x * &y + x.sin();
        assert!((z.backward().wrt(&x).unwrap() - (3.0 + 2f64.cos())).abs() < 1e-12);
        assert_eq!(z.backward().wrt(&y), Some(2.0));
    }

    #[test]
    fn a_shared_sum_is_counted_for_both_uses() {
        let (a, b) = (var("a", 2.0), var("b", 3.0));
        let sum = &a + &b;
        let once = (&sum * &sum).backward();
        let twice = ((&a + &b) * (&a + &b)).backward();
        for grads in [once, twice] {
            assert_eq!((grads.wrt(&a), grads.wrt(&b)), (Some(10.0), Some(10.0)));
        }
    }

    #[test]
    fn ties_split_and_corners_are_flat() {
        let (x, y) = (var("x", 2.0), var("y", 2.0));
        for z in [x.max(&y), x.min(&y)] {
            let grads = z.backward();
            assert_eq!((grads.wrt(&x), grads.wrt(&y)), (Some(0.5), Some(0.5)));
        }
        assert_eq!(x.max(&x).backward().wrt(&x), Some(1.0), "both halves of a tie with itself");
        let zero = var("zero", 0.0);
        assert_eq!(zero.relu().backward().wrt(&zero), Some(0.0));
        assert_eq!(zero.abs().backward().wrt(&zero), Some(0.0));
    }

    #[test]
    fn powers_at_zero_and_below() {
        let x = var("x", 0.0);
        assert_eq!(x.powi(2).backward().wrt(&x), Some(0.0));
        assert_eq!(x.powi(0).backward().wrt(&x), Some(0.0));
        let (x, y) = (var("x", 0.0), var("y", 2.0));
        assert_eq!(x.pow(&y).backward().wrt(&y), Some(0.0));
        assert_eq!(x.pow(&x).backward().wrt(&x), Some(0.0));
        let x = var("x", -2.0);
        assert_eq!(x.powi(3).backward().wrt(&x), Some(12.0));
    }

    #[test]
    fn gradients_answer_the_same_after_handles_are_gone_and_slots_are_wanted() {
        let x = var("x", 3.0);
        let z = &x * &x;
        let grads = z.backward();
        drop(z);
        let later: Vec<_> = (0..10).map(|i| var("later", f64::from(i))).collect();
        assert!(later.iter().all(|v| grads.wrt(v).is_none()), "a new value is never taken for an old one");
        drop(x);
        assert_eq!(grads.by_name("x"), Ok(6.0));
        assert_eq!(format!("{grads:?}"), r#"Gradients of mul = 9 {"x": 6.0}"#);
    }

    #[test]
    fn constants_and_strangers_have_no_gradient() {
        let (x, c) = (var("x", 3.0), constant(2.0));
        let stranger = x.sin();
        let grads = (&x * &c).backward();
        assert_eq!(grads.wrt(&c), None);
        assert_eq!(grads.wrt(&stranger), None, "built from x, but not on the way to the result");
        assert_eq!((c.exp() * 1.0).backward().wrt(&c), None);
    }

    #[test]
    fn an_ambiguous_name_is_an_error() {
        let (first, second) = (var("a", 1.0), var("a", 2.0));
        let grads = (&first * &second).backward();
        assert_eq!(grads.by_name("a"), Err(NameError::Ambiguous { name: "a".into(), count: 2 }));
        assert_eq!((grads.wrt(&first), grads.wrt(&second)), (Some(2.0), Some(1.0)));
        assert_eq!(grads.all_named_grads().len(), 2);
    }

    #[test]
    fn a_training_loop_does_not_grow() {
        let (mut w, mut b) = (var("w", 0.1), var("b", 0.0));
        let before = live_nodes();
        for step in 0..1000 {
            let loss = (0..10)
                .map(|i| {
                    let x = f64::from(i) / 10.0;
                    let error = (&w * x + &b) - (3.0 * x + 1.0);
                    &error * &error
                })
                .sum::<crate::Value>();
            let grads = loss.backward();
            w = var("w", w.value() - 0.05 * grads.wrt(&w).unwrap());
            b = var("b", b.value() - 0.05 * grads.wrt(&b).unwrap());
            drop((loss, grads));
            assert_eq!(live_nodes(), before, "after step {step}");
        }
        assert!((w.value() - 3.0).abs() < 1e-3 && (b.value() - 1.0).abs() < 1e-3, "{w:?} {b:?}");
    }
}

//! The handle a user holds.

use crate::math::Arg;
use crate::op::Op;
use crate::rules::Number;
use crate::tape;
use std::fmt;
use std::marker::PhantomData;

/// A number that remembers how it was computed.
///
/// Made by [`var`] and [`constant`] and by arithmetic on other values. Operators work on values and on
/// references, with `f64` on either side:
///
/// ```
/// use gradus_scalar::var;
///
/// let x = var("x", 3.0);
/// let y = 1.0 - &x / 2.0;
/// let z = -y * &x;
/// assert_eq!(z.value(), 1.5);
/// ```
///
/// A `Value` is a small handle: a clone is the same node, not a copy of it. A node is freed once no handle and
/// no other node refers to it. The space freed is kept for later nodes of the same thread, so a thread holds as
/// much memory as its largest moment needed, and returns it when it ends.
///
/// # Threads
///
/// Every thread keeps its own nodes, which is what makes them cheap, so a `Value` cannot go to another thread:
///
/// ```compile_fail
/// let x = gradus_scalar::var("x", 1.0);
/// std::thread::spawn(move || x.value());
/// ```
///
/// Threads can each build and differentiate graphs of their own; send `f64`s between them.
///
/// # Panics
///
/// Making a value panics when the thread already holds 2³² - 1 live nodes (128 GiB of them), when one node has
/// that many references, or when called while the thread is taking down its thread-local storage.
pub struct Value {
    slot: u32,
    /// A slot means something on one thread only.
    not_send: PhantomData<*const ()>,
}

/// A variable: a value to differentiate with respect to.
///
/// The name serves printing and [`Gradients::by_name`](crate::Gradients::by_name). It need not be unique, but
/// only a unique name can be looked up.
///
/// ```
/// let x = gradus_scalar::var("x", 2.0);
/// assert_eq!((&x * &x).backward().wrt(&x), Some(4.0));
/// ```
#[inline]
pub fn var(name: &str, value: f64) -> Value {
    Value::own(tape::with(|tape| tape.variable(name, value)))
}

/// A number that is not to be differentiated with respect to.
///
/// A bare `f64` in a formula is turned into one; call this to name it first, or to share it.
///
/// ```
/// use gradus_scalar::{constant, var};
///
/// let (x, two) = (var("x", 3.0), constant(2.0));
/// let grads = (&x * &two).backward();
/// assert_eq!(grads.wrt(&x), Some(2.0));
/// assert_eq!(grads.wrt(&two), None);
/// ```
#[inline]
pub fn constant(value: f64) -> Value {
    Value::own(tape::with(|tape| tape.constant(value)))
}

/// How many nodes are alive on this thread: a way to see that a loop does not grow.
///
/// ```
/// use gradus_scalar::{live_nodes, var};
///
/// let x = var("x", 1.0);
/// let y = x.exp().ln();
/// assert_eq!(live_nodes(), 3);
/// drop(y);
/// assert_eq!(live_nodes(), 1);
/// ```
pub fn live_nodes() -> usize {
    tape::with(|tape| tape.live())
}

impl Value {
    /// The number, computed when the value was made.
    ///
    /// ```
    /// assert_eq!((gradus_scalar::var("x", 2.0) + 1.0).value(), 3.0);
    /// ```
    #[inline]
    pub fn value(&self) -> f64 {
        tape::with(|tape| tape.node(self.slot).value)
    }

    /// The name, if this is a variable.
    ///
    /// ```
    /// let x = gradus_scalar::var("x", 2.0);
    /// assert_eq!(x.name().as_deref(), Some("x"));
    /// assert_eq!(x.sin().name(), None);
    /// ```
    pub fn name(&self) -> Option<String> {
        tape::with(|tape| (tape.node(self.slot).op == Op::Var).then(|| tape.label(self.slot).to_owned()))
    }

    /// Whether both handles are the same node of the graph, as clones are.
    ///
    /// ```
    /// use gradus_scalar::var;
    ///
    /// let x = var("x", 2.0);
    /// assert!(x.is_same_node(&x.clone()));
    /// assert!(!x.is_same_node(&var("x", 2.0)));
    /// ```
    pub fn is_same_node(&self, other: &Value) -> bool {
        self.slot == other.slot
    }

    #[inline]
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    /// Takes over a reference that the tape has already counted.
    #[inline]
    fn own(slot: u32) -> Value {
        Value { slot, not_send: PhantomData }
    }

    /// A further handle to the node in `slot`, which must be alive.
    #[inline]
    pub(crate) fn from_slot(slot: u32) -> Value {
        tape::with(|tape| tape.retain(slot));
        Value::own(slot)
    }

    #[inline]
    pub(crate) fn unary(op: Op, a: &Value) -> Value {
        Value::own(tape::with(|tape| {
            tape.retain(a.slot);
            tape.unary(op, a.slot)
        }))
    }

    #[inline]
    pub(crate) fn binary(op: Op, a: Arg<'_, Value>, b: Arg<'_, Value>) -> Value {
        Value::own(tape::with(|tape| {
            // The new node's reference to an operand is the handle's own, if that was given away.
            let mut reference = |arg| match arg {
                Arg::Owned(value) => {
                    let value: Value = value;
                    let slot = value.slot;
                    std::mem::forget(value);
                    slot
                }
                Arg::Borrowed(value) => {
                    tape.retain(value.slot);
                    value.slot
                }
            };
            let (a, b) = (reference(a), reference(b));
            tape.binary(op, a, b)
        }))
    }
}

impl Clone for Value {
    #[inline]
    fn clone(&self) -> Value {
        Value::from_slot(self.slot)
    }
}

impl Drop for Value {
    #[inline]
    fn drop(&mut self) {
        tape::release(self.slot);
    }
}

impl From<f64> for Value {
    /// The same as [`constant`].
    fn from(value: f64) -> Value {
        constant(value)
    }
}

impl Number for Value {
    fn number(&self) -> f64 {
        self.value()
    }
    fn lift(value: f64) -> Value {
        constant(value)
    }
    fn apply(&self, op: Op) -> Value {
        Value::unary(op, self)
    }
    fn power(&self, exponent: &Value) -> Value {
        self.pow(exponent)
    }
    fn power_fixed(&self, exponent: f64) -> Value {
        self.powf(exponent)
    }
}

/// The name or operation, and the number: `x = 2`, `mul = 6`. A precision applies to the number.
///
/// ```
/// let x = gradus_scalar::var("x", 2.0);
/// assert_eq!(format!("{x}, {:.3}", x.sin()), "x = 2, sin = 0.909");
/// ```
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Copied out, because writing may run a user's code, which may use the tape.
        f.write_str(&tape::with(|tape| tape.label(self.slot).to_owned()))?;
        f.write_str(" = ")?;
        fmt::Display::fmt(&self.value(), f)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({self})")
    }
}

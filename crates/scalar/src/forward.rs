//! Forward mode: derivatives along one direction, carried from the operands to the results.

use crate::math::Arg;
use crate::op::Op;
use crate::rules;
use crate::slots::SlotMap;
use crate::tape::{self, Operands};
use crate::value::Value;

impl Value {
    /// The derivative of this value when each of the given values moves at the given speed (a Jacobian-vector
    /// product).
    ///
    /// For one direction this equals the sum of `gradient * speed` that [`Value::backward`] would give. A value
    /// listed twice moves at the sum of its speeds; one that is not in the graph, or is a constant, makes no
    /// difference.
    ///
    /// ```
    /// use gradus_scalar::var;
    ///
    /// let (x, y) = (var("x", 2.0), var("y", 3.0));
    /// let z = &x * &y;
    /// assert_eq!(z.jvp(&[(&x, 1.0)]), 3.0);
    /// assert_eq!(z.jvp(&[(&x, 1.0), (&y, 10.0)]), 23.0);
    /// ```
    #[must_use]
    pub fn jvp(&self, direction: &[(&Value, f64)]) -> f64 {
        // Absent means that nothing in `direction` reaches the node, so its partial derivatives, which may be
        // NaN or infinite, do not count.
        let mut speeds = SlotMap::<f64>::new();
        tape::with(|tape| {
            for (x, speed) in direction {
                if tape.node(x.slot()).op != Op::Const {
                    *speeds.entry(x.slot()) += speed;
                }
            }
            for slot in tape.order(self.slot()).into_iter().rev() {
                let node = tape.node(slot);
                let moved = match node.operands() {
                    Operands::None => None,
                    Operands::One(a) => {
                        speeds.get(a).map(|speed| rules::unary(node.op, tape.node(a).value, node.value, speed))
                    }
                    Operands::Two(a, b) => {
                        let (x, y) = (tape.node(a).value, tape.node(b).value);
                        let (dx, dy) = rules::binary(node.op, x, y, node.value, 1.0);
                        let left = speeds.get(a).map(|speed| speed * dx);
                        let right = speeds.get(b).map(|speed| speed * dy);
                        left.map_or(right, |left| Some(left + right.unwrap_or(0.0)))
                    }
                };
                if let Some(speed) = moved {
                    *speeds.entry(slot) += speed;
                }
            }
        });
        speeds.get(self.slot()).unwrap_or(0.0)
    }
}

/// A number together with its derivative along one direction: forward mode with no graph at all.
///
/// It has the arithmetic of [`Value`], is `Copy` and can cross threads. Use it for the derivative of a function
/// of one variable, or where the memory of a graph is too much.
///
/// ```
/// use gradus_scalar::Dual;
///
/// let x = Dual::variable(2.0);
/// let z = x * x + x.sin();
/// assert_eq!(z.value(), 4.0 + 2f64.sin());
/// assert_eq!(z.derivative(), 4.0 + 2f64.cos());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dual {
    value: f64,
    derivative: f64,
}

impl Dual {
    /// A number that moves at the given speed.
    ///
    /// ```
    /// use gradus_scalar::Dual;
    ///
    /// let (x, y) = (Dual::new(2.0, 1.0), Dual::new(3.0, 10.0));
    /// assert_eq!((x * y).derivative(), 23.0);
    /// ```
    #[inline]
    pub const fn new(value: f64, derivative: f64) -> Dual {
        Dual { value, derivative }
    }

    /// A number that moves at speed 1: the variable to differentiate with respect to.
    ///
    /// ```
    /// # use gradus_scalar::Dual;
    /// assert_eq!(Dual::variable(3.0).powi(2).derivative(), 6.0);
    /// ```
    #[inline]
    pub const fn variable(value: f64) -> Dual {
        Dual::new(value, 1.0)
    }

    /// A number that does not move. A bare `f64` in a formula is turned into one.
    ///
    /// ```
    /// # use gradus_scalar::Dual;
    /// assert_eq!(Dual::constant(3.0).exp().derivative(), 0.0);
    /// ```
    #[inline]
    pub const fn constant(value: f64) -> Dual {
        Dual::new(value, 0.0)
    }

    /// The number.
    ///
    /// ```
    /// # use gradus_scalar::Dual;
    /// assert_eq!((Dual::variable(3.0) * 2.0).value(), 6.0);
    /// ```
    #[inline]
    pub const fn value(&self) -> f64 {
        self.value
    }

    /// How fast the number moves.
    ///
    /// ```
    /// # use gradus_scalar::Dual;
    /// assert_eq!((Dual::variable(3.0) * 2.0).derivative(), 2.0);
    /// ```
    #[inline]
    pub const fn derivative(&self) -> f64 {
        self.derivative
    }

    #[inline]
    pub(crate) fn unary(op: Op, a: &Dual) -> Dual {
        let value = op.eval(a.value, 0.0);
        Dual::new(value, moving(a.derivative, |speed| rules::unary(op, a.value, value, speed)))
    }

    #[inline]
    pub(crate) fn binary(op: Op, a: Arg<'_, Dual>, b: Arg<'_, Dual>) -> Dual {
        let (Arg::Owned(a) | Arg::Borrowed(&a)) = a;
        let (Arg::Owned(b) | Arg::Borrowed(&b)) = b;
        let value = op.eval(a.value, b.value);
        let (da, db) = rules::binary(op, a.value, b.value, value, 1.0);
        let left = moving(a.derivative, |speed| speed * da);
        let right = moving(b.derivative, |speed| speed * db);
        Dual::new(value, left + right)
    }
}

impl From<f64> for Dual {
    /// The same as [`Dual::constant`].
    fn from(value: f64) -> Dual {
        Dual::constant(value)
    }
}

/// What stands still contributes nothing, even through a partial derivative that is NaN, such as that of
/// `(-2)^3` in the exponent.
#[inline]
fn moving(speed: f64, rule: impl FnOnce(f64) -> f64) -> f64 {
    if speed == 0.0 { 0.0 } else { rule(speed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::var;

    #[test]
    fn directions_add_up() {
        let (x, y, stranger) = (var("x", 2.0), var("y", 3.0), var("s", 1.0));
        let z = &x * &y + x.sin();
        assert_eq!(z.jvp(&[(&x, 1.0), (&x, 1.0)]), 2.0 * (3.0 + 2f64.cos()));
        assert_eq!(z.jvp(&[(&stranger, 1.0)]), 0.0);
        assert_eq!(z.jvp(&[]), 0.0);
        assert_eq!(z.jvp(&[(&z, 7.0)]), 7.0);
    }

    #[test]
    fn a_step_on_the_way_moves_by_itself_and_with_what_it_came_from() {
        let x = var("x", 2.0);
        let m = &x * 3.0;
        let z = &m * &m;
        let grads = z.backward();
        let expected = grads.wrt(&x).unwrap() + 5.0 * grads.wrt(&m).unwrap();
        assert_eq!(z.jvp(&[(&x, 1.0), (&m, 5.0)]), expected);
    }

    #[test]
    fn a_negative_base_does_not_poison_a_fixed_power() {
        let x = var("x", -2.0);
        assert_eq!(x.powi(3).jvp(&[(&x, 1.0)]), 12.0);
        assert_eq!(x.pow(&crate::constant(3.0)).jvp(&[(&x, 1.0)]), 12.0);
        assert_eq!(Dual::variable(-2.0).powi(3).derivative(), 12.0);
        assert_eq!(Dual::variable(-2.0).pow(&Dual::constant(3.0)).derivative(), 12.0);
    }
}

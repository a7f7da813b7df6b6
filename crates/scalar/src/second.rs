//! Derivatives of derivatives.

use crate::op::Op;
use crate::rules;
use crate::slots::SlotMap;
use crate::tape::{self, Operands};
use crate::value::{Value, constant};

impl Value {
    /// The derivatives with respect to `inputs`, as values that can themselves be differentiated.
    ///
    /// This does the walk of [`Value::backward`] but records it, as any other arithmetic. Do it again for the
    /// third derivative, and so on. An input this value does not depend on has the constant 0 as its derivative.
    ///
    /// ```
    /// use gradus_scalar::var;
    ///
    /// let x = var("x", 2.0);
    /// let z = x.powi(3);
    /// let first = &z.grad_graph(&[&x])[0];
    /// let second = &first.grad_graph(&[&x])[0];
    /// assert_eq!((first.value(), second.value()), (12.0, 12.0));
    /// assert_eq!(second.backward().wrt(&x), Some(6.0));
    /// ```
    #[must_use]
    pub fn grad_graph(&self, inputs: &[&Value]) -> Vec<Value> {
        let steps = self.steps_from(inputs);
        let mut place = SlotMap::<u32>::new();
        for (i, step) in steps.iter().enumerate() {
            *place.entry(step.slot) = i as u32; // a tape has fewer than 2^32 slots
        }
        let mut grads: Vec<Option<Value>> = vec![None; steps.len()];
        if let Some(first) = grads.first_mut() {
            *first = Some(constant(1.0));
        }
        for (i, step) in steps.iter().enumerate() {
            let Some(g) = grads[i].clone() else { continue };
            // Operands that no input reaches have no place, and their shares are let go.
            let mut give = |slot, share: Value| {
                if let Some(at) = place.get(slot) {
                    let grad = &mut grads[at as usize];
                    *grad = Some(match grad.take() {
                        Some(sum) => sum + share,
                        None => share,
                    });
                }
            };
            let out = Value::from_slot(step.slot);
            match step.operands {
                Operands::None => {}
                Operands::One(a) => give(a, rules::unary(step.op, Value::from_slot(a), out, g)),
                Operands::Two(a, b) => {
                    let (x, y) = (Value::from_slot(a), Value::from_slot(b));
                    let (left, right) = rules::binary(step.op, x, y, out, g);
                    give(a, left);
                    give(b, right);
                }
            }
        }
        let of = |x: &&Value| grads[place.get(x.slot())? as usize].clone();
        inputs.iter().map(|x| of(x).unwrap_or_else(|| constant(0.0))).collect()
    }

    /// All second derivatives with respect to `inputs`: row `i` is the gradient of the derivative in `inputs[i]`.
    ///
    /// ```
    /// use gradus_scalar::var;
    ///
    /// let (x, y) = (var("x", 2.0), var("y", 3.0));
    /// let z = &x * &x * &y;
    /// assert_eq!(z.hessian(&[&x, &y]), [[6.0, 4.0], [4.0, 0.0]]);
    /// ```
    #[must_use]
    pub fn hessian(&self, inputs: &[&Value]) -> Vec<Vec<f64>> {
        let row = |first: Value| {
            let second = first.backward();
            inputs.iter().map(|x| second.wrt(x).unwrap_or(0.0)).collect()
        };
        self.grad_graph(inputs).into_iter().map(row).collect()
    }

    /// The nodes between `inputs` and this value, results before operands. Copied out, since the tape cannot
    /// stay borrowed while new nodes are made.
    fn steps_from(&self, inputs: &[&Value]) -> Vec<Step> {
        tape::with(|tape| {
            let mut reached = SlotMap::<bool>::new();
            for x in inputs.iter().filter(|x| tape.node(x.slot()).op != Op::Const) {
                *reached.entry(x.slot()) = true;
            }
            let order = tape.order(self.slot());
            for &slot in order.iter().rev() {
                tape.node(slot).operands().each(|operand| {
                    if reached.get(operand).is_some() {
                        *reached.entry(slot) = true;
                    }
                });
            }
            let reached = order.into_iter().filter(|&slot| reached.get(slot).is_some());
            reached.map(|slot| Step { slot, op: tape.node(slot).op, operands: tape.node(slot).operands() }).collect()
        })
    }
}

struct Step {
    slot: u32,
    op: Op,
    operands: Operands,
}

#[cfg(test)]
mod tests {
    use crate::{constant, live_nodes, var};

    #[test]
    fn sine_four_times_over() {
        let x = var("x", 0.7);
        let mut z = x.sin();
        for expected in [0.7f64.cos(), -0.7f64.sin(), -0.7f64.cos(), 0.7f64.sin()] {
            z = z.grad_graph(&[&x]).remove(0);
            assert!((z.value() - expected).abs() < 1e-15, "{z} against {expected}");
        }
    }

    #[test]
    fn hessian_of_product_plus_sine() {
        let (x, y) = (var("x", 2.0), var("y", 3.0));
        let z = &x * &y + x.sin();
        assert_eq!(z.hessian(&[&x, &y]), [[-2f64.sin(), 1.0], [1.0, 0.0]]);
    }

    #[test]
    fn inputs_out_of_the_graph_and_constants_have_derivative_zero() {
        let (x, stranger, c) = (var("x", 2.0), var("s", 1.0), constant(2.0));
        let z = &x * &c;
        let values: Vec<f64> = z.grad_graph(&[&stranger, &c, &x]).iter().map(|v| v.value()).collect();
        assert_eq!(values, [0.0, 0.0, 2.0]);
        assert_eq!(z.hessian(&[&stranger]), [[0.0]]);
        assert!(z.grad_graph(&[]).is_empty());
    }

    #[test]
    fn powers_of_zero_to_the_third_order() {
        let x = var("x", 0.0);
        let first = x.powi(2).grad_graph(&[&x]).remove(0);
        let second = first.grad_graph(&[&x]).remove(0);
        assert_eq!((first.value(), second.value(), second.backward().wrt(&x)), (0.0, 2.0, Some(0.0)));
    }

    #[test]
    fn nothing_is_left_behind() {
        let (x, y) = (var("x", 2.0), var("y", 3.0));
        let z = x.pow(&y) / y.tanh();
        let before = live_nodes();
        let _ = z.hessian(&[&x, &y]);
        assert_eq!(live_nodes(), before);
    }
}

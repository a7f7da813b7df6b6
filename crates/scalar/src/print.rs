//! Pictures of a graph.

use crate::op::Op;
use crate::slots::SlotMap;
use crate::tape;
use crate::value::Value;
use std::fmt::{self, Write};

/// Indentation stops here. A chain of a million nodes indented to its full depth would be a terabyte of spaces.
const DEEPEST_INDENT: usize = 40;

/// The graph below a value, to be printed; see [`Value::graph`].
///
/// ```
/// let x = gradus_scalar::var("x", 2.0);
/// println!("{:.3}", x.exp().graph());
/// ```
pub struct Graph<'a> {
    root: &'a Value,
}

impl Value {
    /// The graph this value was computed by, as an indented tree, each result above its operands.
    ///
    /// A node used more than once gets a number, is shown in full the first time and referred to after that.
    /// Below 40 levels lines are no longer indented but say how deep they are. A precision applies to numbers.
    ///
    /// ```
    /// use gradus_scalar::var;
    ///
    /// let (a, b) = (var("a", 2.0), var("b", 3.0));
    /// let sum = &a + &b;
    /// let square = &sum * &sum;
    /// assert_eq!(
    ///     square.graph().to_string(),
    ///     "\
    /// mul = 25
    ///   add #1 = 5
    ///     a = 2
    ///     b = 3
    ///   add #1 (shown above)
    /// "
    /// );
    /// ```
    pub fn graph(&self) -> Graph<'_> {
        Graph { root: self }
    }

    /// The graph in the language of Graphviz: `dot -Tsvg` draws it. Edges run from operands to results.
    ///
    /// ```
    /// let x = gradus_scalar::var("x", 2.0);
    /// let dot = (&x * &x).to_dot();
    /// assert_eq!(
    ///     dot,
    ///     r#"digraph {
    ///   rankdir=BT;
    ///   n0 [label="mul\n4"];
    ///   n1 [label="x\n2", shape=box];
    ///   n1 -> n0;
    ///   n1 -> n0;
    /// }
    /// "#
    /// );
    /// ```
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("digraph {\n  rankdir=BT;\n");
        tape::with(|tape| {
            let order = tape.order(self.slot());
            // Numbered by place in the walk and not by slot, so that the same formula prints the same.
            let mut number = SlotMap::<usize>::new();
            for (i, &slot) in order.iter().enumerate() {
                *number.entry(slot) = i;
                let node = tape.node(slot);
                let label = tape.label(slot).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                let shape = if node.op == Op::Var { ", shape=box" } else { "" };
                let _ = writeln!(dot, "  n{i} [label=\"{label}\\n{}\"{shape}];", node.value);
            }
            for (i, &slot) in order.iter().enumerate() {
                tape.node(slot).operands().each(|operand| {
                    let from = number.get(operand).unwrap_or_default();
                    let _ = writeln!(dot, "  n{from} -> n{i};");
                });
            }
        });
        dot.push_str("}\n");
        dot
    }
}

/// How many results use a node, and the number it was shown with if that is more than one and it was shown.
#[derive(Clone, Copy, Default)]
struct Seen {
    uses: u32,
    number: u32,
}

impl fmt::Display for Graph<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seen = SlotMap::<Seen>::new();
        tape::with(|tape| {
            tape.walk(self.root.slot(), |tape, slot| {
                tape.node(slot).operands().each(|operand| seen.entry(operand).uses += 1);
            });
        });
        let mut shared = 0;
        let mut stack = vec![(self.root.slot(), 0)];
        while let Some((slot, depth)) = stack.pop() {
            // Copied out, because writing may run a user's code, which may use the tape.
            let (label, value, operands) =
                tape::with(|tape| (tape.label(slot).to_owned(), tape.node(slot).value, tape.node(slot).operands()));
            write!(f, "{:1$}{label}", "", 2 * depth.min(DEEPEST_INDENT))?;
            let seen = seen.entry(slot);
            let again = seen.number > 0;
            if seen.uses > 1 {
                if !again {
                    shared += 1;
                    seen.number = shared;
                }
                write!(f, " #{}", seen.number)?;
            }
            if again {
                f.write_str(" (shown above)")?;
            } else {
                f.write_str(" = ")?;
                fmt::Display::fmt(&value, f)?;
            }
            if depth > DEEPEST_INDENT {
                write!(f, " [depth {depth}]")?;
            }
            f.write_char('\n')?;
            if !again {
                let at = stack.len();
                operands.each(|operand| stack.push((operand, depth + 1)));
                stack[at..].reverse();
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Graph<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({})", self.root)
    }
}

#[cfg(test)]
mod tests {
    use crate::{constant, var};

    #[test]
    fn a_shared_operation_is_shown_once_with_its_operands() {
        let x = var("x", 1.0);
        let e = x.exp();
        let z = &e + e.ln() * &e;
        assert_eq!(z.graph().to_string().matches("exp #1 = ").count(), 1);
        assert_eq!(z.graph().to_string().matches("exp #1 (shown above)").count(), 2);
        assert_eq!(z.graph().to_string().matches("x = 1").count(), 1);
    }

    #[test]
    fn deep_lines_give_their_depth() {
        let z = (0..50).fold(var("x", 1.0), |z, _| z + 0.0);
        let text = z.graph().to_string();
        assert!(text.contains(&format!("\n{}x = 1 [depth 50]\n", " ".repeat(80))), "{text}");
        assert!(!text.contains("[depth 40]"), "{text}");
    }

    #[test]
    fn names_are_quoted_for_dot() {
        let dot = (var("a\"b\\", 1.0) + constant(2.0)).to_dot();
        assert!(dot.contains(r#"[label="a\"b\\\n1", shape=box]"#), "{dot}");
        assert!(dot.contains(r#"[label="const\n2"]"#), "{dot}");
    }
}

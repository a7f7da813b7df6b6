//! The graph behind a tensor as text: a tree for people, DOT for pictures.

use super::display::summary;
use crate::{
    Tensor, VarId,
    grad::Gradients,
    graph::{IdMap, topological},
    op::Op,
};
use std::{
    collections::BTreeMap,
    fmt::{self, Write},
};

/// Levels that are indented; deeper ones keep the indentation of the last.
const DEEPEST: usize = 40;
/// Lines (or nodes of a picture) shown unless [`Graph::limit`] says otherwise.
const LIMIT: usize = 200;

/// The graph of a tensor, to be printed. Printing computes nothing: it shows the values that are there.
///
/// ```
/// use gradus_core::Tensor;
/// let x = Tensor::var("x", 3.0f64);
/// let y = &x * &x;
/// let text = y.graph().to_string();
/// assert!(text.starts_with("mul f64 []"));
/// assert!(text.contains("x f64 [] = 3."));
/// ```
#[derive(Clone)]
pub struct Graph {
    root: Tensor,
    grads: BTreeMap<VarId, Tensor>,
    limit: usize,
}

impl Tensor {
    /// The graph that makes this tensor, as something to print: operation, type, shape, value where it has been
    /// computed, and the line of the program.
    pub fn graph(&self) -> Graph {
        Graph { root: self.resolve(), grads: BTreeMap::new(), limit: LIMIT }
    }

    /// As [`Tensor::graph`], with the gradient of each variable beside it.
    pub fn graph_with(&self, grads: &Gradients) -> Graph {
        let grads = grads.iter().map(|(id, g)| (id, g.clone())).collect();
        Graph { root: self.resolve(), grads, limit: LIMIT }
    }
}

impl Graph {
    /// Shows at most this many lines (or nodes of a picture).
    pub fn limit(mut self, lines: usize) -> Graph {
        self.limit = lines;
        self
    }

    /// What a node is: its name, type, shape, value if it has one, and gradient if one was given.
    fn describe(&self, t: &Tensor) -> String {
        let mut out = match (&t.node().op, t.name()) {
            (Op::Scalar(x), _) => format!("{x} {}", t.dtype()),
            (_, Some(name)) => format!("{name} {} {}", t.dtype(), t.shape()),
            (_, None) => format!("{} {} {}", t.op_name(), t.dtype(), t.shape()),
        };
        if let Some(v) = summary(t) {
            let _ = write!(out, " = {v}");
        }
        if let Some(g) = t.var_id().and_then(|id| self.grads.get(&id)) {
            match summary(g) {
                Some(v) => _ = write!(out, "  grad = {v}"),
                None => _ = write!(out, "  grad {} {}, not computed", g.dtype(), g.shape()),
            }
        }
        out
    }

    /// How often each node is read, the most distant inputs included.
    fn uses(&self) -> IdMap<usize> {
        let mut uses: IdMap<usize> = IdMap::default();
        for t in topological(&[&self.root], |_| true) {
            uses.entry(t.id()).or_default();
            t.node().peek(|inputs, _| inputs.iter().for_each(|i| *uses.entry(i.id()).or_default() += 1));
        }
        uses
    }

    /// The graph in DOT, for Graphviz.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let dot = (Tensor::from([1.0f32, 2.0]) * 2.0).graph().to_dot();
    /// assert!(dot.starts_with("digraph {"));
    /// ```
    pub fn to_dot(&self) -> String {
        let order = topological(&[&self.root], |_| true);
        let mut out = String::from("digraph {\n    rankdir=BT;\n    node [shape=box, fontname=monospace];\n");
        // The result and what is near it come last in the order, and are worth most.
        let from = order.len().saturating_sub(self.limit);
        let shown = &order[from..];
        let ids: IdMap<()> = shown.iter().map(|t| (t.id(), ())).collect();
        for t in shown {
            let label = format!("{}\n{}", self.describe(t), t.location());
            let style = if t.var_id().is_some() { ", style=bold" } else { "" };
            let _ = writeln!(out, "    n{} [label=\"{}\"{style}];", t.id(), escape(&label));
            for i in t.node().inputs() {
                if ids.contains_key(&i.id()) {
                    let _ = writeln!(out, "    n{} -> n{};", i.id(), t.id());
                }
            }
        }
        if from > 0 {
            let _ = writeln!(out, "    more [label=\"{from} more nodes\", shape=plaintext];");
        }
        out + "}\n"
    }
}

/// Text inside the quotes of DOT.
fn escape(s: &str) -> String {
    s.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uses = self.uses();
        let mut numbers: IdMap<usize> = IdMap::default();
        let (mut lines, mut nodes) = (0, 0);
        // (node, what stands before it, whether it is the last of its siblings, whether it is the root)
        let mut stack = vec![(self.root.clone(), String::new(), true, true)];
        while let Some((t, before, last, root)) = stack.pop() {
            if lines == self.limit {
                let more = uses.len() - nodes;
                return writeln!(f, "... {more} more of {} nodes (Graph::limit shows more)", uses.len());
            }
            lines += 1;
            let branch = match (root, last) {
                (true, _) => "",
                (false, true) => "└ ",
                (false, false) => "├ ",
            };
            write!(f, "{before}{branch}")?;
            if let Some(n) = numbers.get(&t.id()) {
                writeln!(f, "#{n}, see above")?;
                continue;
            }
            nodes += 1;
            if uses.get(&t.id()).is_some_and(|&n| n > 1) {
                let n = numbers.len() + 1;
                numbers.insert(t.id(), n);
                write!(f, "#{n} ")?;
            }
            writeln!(f, "{}  at {}", self.describe(&t), t.location())?;
            let deeper = match (root, last) {
                _ if before.chars().count() >= 2 * DEEPEST => before,
                (true, _) => before,
                (false, true) => before + "  ",
                (false, false) => before + "│ ",
            };
            let inputs = t.node().inputs();
            for (k, i) in inputs.iter().enumerate().rev() {
                stack.push((i.clone(), deeper.clone(), k + 1 == inputs.len(), false));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

//! A plan as text: what runs, what each kernel fuses, bytes, arithmetic and memory.

use super::{
    cache::plan_for,
    linear::linearize,
    run::{Lines, Read},
    steps::{Home, Ref, Step, Tail},
};
use crate::{DType, Result, Shape, Tensor, kernel::Kernel};
use std::fmt;

/// One step of a plan, described.
#[derive(Clone, Debug)]
pub struct StepInfo {
    /// `kernel`, `matmul`, `conv`, or the routine's name.
    pub what: String,
    /// The operations it does, in order.
    pub ops: Vec<String>,
    /// Bytes read and written.
    pub bytes: u64,
    /// Arithmetic operations.
    pub flops: u64,
    /// The loop itself, for kernels.
    pub kernel: Option<Kernel>,
}

/// What would run if a tensor were read now.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The steps, in order.
    pub steps: Vec<StepInfo>,
    /// Bytes of intermediate memory.
    pub arena: usize,
    /// Bytes that stay behind.
    pub kept: usize,
}

impl Explanation {
    /// Number of kernels and calls.
    pub fn launches(&self) -> usize {
        self.steps.len()
    }

    /// Bytes the run takes on top of what is alive before it: intermediates and results, all at once.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from(vec![1.0f32; 1024]);
    /// assert_eq!((&x + 1.0).explain().unwrap().peak_bytes(), 4096);
    /// ```
    pub fn peak_bytes(&self) -> usize {
        self.arena.saturating_add(self.kept)
    }
}

/// Plans the tensors without running anything.
pub fn explain(roots: &[&Tensor]) -> Result<Explanation> {
    let roots: Vec<Tensor> = roots.iter().map(|t| t.resolve()).filter(|t| !t.node().has_value()).collect();
    let Some(first) = roots.first() else {
        return Ok(Explanation { steps: vec![], arena: 0, kept: 0 });
    };
    let graph = linearize(&roots, first.device());
    let plan = plan_for(&graph)?;
    let size = |n: usize| (graph.nodes[n].tensor.numel() * graph.nodes[n].tensor.dtype().size()) as u64;
    let steps = plan.steps.iter().map(|s| describe(s, &Read { graph: &graph, plan: &plan })).collect();
    let kept = plan
        .outputs
        .iter()
        .filter(|o| matches!(plan.buffers[o.buffer], Home::Own { .. }))
        .map(|o| size(o.node) as usize)
        .sum();
    Ok(Explanation { steps, arena: plan.arena, kept })
}

/// What a step does.
pub(super) fn describe(step: &Step, lines: &dyn Lines) -> StepInfo {
    let name = |n: usize| lines.line(n).0.to_string();
    match step {
        Step::Kernel { part, .. } => StepInfo {
            what: "kernel".into(),
            ops: part.nodes.iter().map(|&n| name(n)).collect(),
            bytes: part.kernel.bytes(),
            flops: part.kernel.flops(),
            kernel: Some(part.kernel.clone()),
        },
        Step::Kernels { parts, .. } => StepInfo {
            what: format!("{} times one kernel", parts.len()),
            ops: parts[0].nodes.iter().map(|&n| name(n)).collect(),
            bytes: parts.iter().map(|p| p.kernel.bytes()).sum(),
            flops: parts.iter().map(|p| p.kernel.flops()).sum(),
            kernel: Some(Kernel { map: vec![parts.iter().map(|p| p.kernel.rows()).sum()], ..parts[0].kernel.clone() }),
        },
        Step::Matmul { spec, node, tail, .. } => {
            let [m, k, n] = spec.mkn;
            let batch: usize = spec.batch.iter().product();
            let bytes = ((m * k + k * n + m * n) * batch * spec.dtype.size()) as u64;
            StepInfo {
                what: format!("matmul {batch} x [{m}, {k}] @ [{k}, {n}]{}", at_the_end(tail)),
                ops: vec![name(*node)],
                bytes,
                flops: spec.flops(),
                kernel: None,
            }
        }
        Step::Conv { spec, dtype, tail, node, .. } => {
            let bytes = ((spec.input.numel() + spec.weight.numel() + spec.output.numel()) * dtype.size()) as u64;
            StepInfo {
                what: format!("conv {} * {}{}", spec.input, spec.weight, at_the_end(tail)),
                ops: vec![name(*node)],
                bytes,
                flops: spec.flops(),
                kernel: None,
            }
        }
        Step::Host { op, args, .. } => routine(op.name().to_string(), args),
        Step::Custom { node, args, .. } => routine(name(*node), args),
    }
}

fn routine(what: String, args: &[(Ref, DType, Shape)]) -> StepInfo {
    let bytes = args.iter().map(|(_, d, s)| (s.numel() * d.size()) as u64).sum();
    StepInfo { ops: vec![what.clone()], what, bytes, flops: 0, kernel: None }
}

/// What is done to a product at its end.
fn at_the_end(tail: &Option<Tail>) -> &'static str {
    match tail {
        None => "",
        Some(Tail { relu: false, .. }) => " + bias",
        Some(Tail { relu: true, .. }) => " + bias, relu",
    }
}

impl fmt::Display for StepInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(k) = &self.kernel {
            write!(f, " {:?}", k.map)?;
            if !k.reduce.is_empty() {
                write!(f, " over {:?}", k.reduce)?;
            }
            write!(f, ": {}", self.ops.join(" "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, s) in self.steps.iter().enumerate() {
            writeln!(f, "{i:3}  {s}  ({}, {} flop)", human(s.bytes), s.flops)?;
        }
        let bytes: u64 = self.steps.iter().map(|s| s.bytes).sum();
        let flops: u64 = self.steps.iter().map(|s| s.flops).sum();
        write!(
            f,
            "{} steps, {} moved, {flops} flop; memory: {} for intermediates, {} for results",
            self.steps.len(),
            human(bytes),
            human(self.arena as u64),
            human(self.kept as u64)
        )
    }
}

/// Bytes as people read them.
fn human(b: u64) -> String {
    match b {
        0..1024 => format!("{b} B"),
        1024..1_048_576 => format!("{:.1} KiB", b as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", b as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", b as f64 / 1_073_741_824.0),
    }
}

//! One training run on the CPU and on a GPU: do the loss curves agree, and does the GPU's memory stay flat?
//!
//! `gradus-bench --curve 2000 --device cuda:0` trains gpt_small from one seed on both, in f32 (TF32 off), on a stream of
//! tokens of which each is mostly a function of the two before it. Every step has a batch of its own.

use crate::models::{self, GptShape, Params, VOCAB};
use gradus_core::{Device, Error, Result, Tensor, manual_seed};
use gradus_optim::Adam;
use gradus_train::{Callback, Flow, Run, Trainer};
use std::time::Instant;

const SHAPE: GptShape = GptShape { layers: 4, heads: 4, width: 128, block: 64 };
const BATCH: usize = 12;
/// Steps after which memory is reported.
const LOOKS: [u64; 3] = [2, 100, 2000];

/// Tokens of a batch and their successors, from a generator of 64 bits.
fn batch(state: &mut u64) -> Result<(Tensor, Tensor)> {
    let mut random = move || {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize
    };
    let (mut x, mut y) = (vec![], vec![]);
    for _ in 0..BATCH {
        let (mut a, mut b) = (random() % VOCAB, random() % VOCAB);
        for _ in 0..SHAPE.block {
            let next = if random().is_multiple_of(5) { random() % VOCAB } else { (5 * b + 3 * a) % VOCAB };
            x.push(b as i64);
            y.push(next as i64);
            (a, b) = (b, next);
        }
    }
    Ok((Tensor::from_vec(x, [BATCH, SHAPE.block])?, Tensor::from_vec(y, [BATCH * SHAPE.block])?))
}

/// Reports after the steps of interest.
struct Look<'a>(&'a mut dyn FnMut(u64) -> Result<()>);

impl Callback for Look<'_> {
    fn on_step(&mut self, run: &Run<'_>) -> Result<Flow> {
        (self.0)(run.step)?;
        Ok(Flow::Continue)
    }
}

/// The losses of a run on a device; `look` is called after each step.
fn train(device: &Device, steps: u64, mut look: impl FnMut(u64) -> Result<()>) -> Result<Vec<f64>> {
    manual_seed(0);
    let mut p = Params::on(device);
    let model = models::gpt(&mut p, SHAPE)?;
    let mut stream = 1;
    let report = Trainer::new(Adam::new(&p.all, 1e-3).decoupled(0.01)).on(Look(&mut look)).fit_compiled(
        |_| {
            let made = (0..steps).map(|_| batch(&mut stream)).collect::<Vec<_>>();
            made.into_iter().map(|b| b.map(|(x, y)| [x.to(device), y.to(device)]))
        },
        |[x, y]| model(x)?.reshape([BATCH * SHAPE.block, VOCAB])?.cross_entropy(y),
    )?;
    Ok(report.history.loss.points().iter().map(|p| p.1).collect())
}

/// Means over stretches: one batch's loss says little.
fn smooth(losses: &[f64]) -> Vec<f64> {
    losses.chunks(50).map(|c| c.iter().sum::<f64>() / c.len() as f64).collect()
}

/// The largest difference and where it is.
fn apart(a: &[f64], b: &[f64]) -> (f64, usize) {
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs()).enumerate();
    differences.fold((0.0, 0), |(most, at), (i, d)| if d > most { (d, i) } else { (most, at) })
}

/// Both runs, and what they show.
pub fn run(device: &Device, steps: u64) -> Result<()> {
    if !(1..4096).contains(&steps) {
        return Err(Error::value("--curve", "wants 1 to 4,095 steps"));
    }
    gradus_cuda::set_tf32(false);
    let began = Instant::now();
    let mut held = vec![];
    let gpu = train(device, steps, |step| {
        if *device != Device::cpu() && (LOOKS.contains(&step) || step == steps) {
            held.push((step, gradus_cuda::memory_stats(device)?));
        }
        Ok(())
    })?;
    println!("{steps} steps of gpt_small on {device}: {:.1} s", began.elapsed().as_secs_f64());
    for (step, m) in held {
        println!("after step {step}: {} bytes in use, {} held, {} at the most", m.used, m.held, m.peak);
    }
    let began = Instant::now();
    let cpu = train(&Device::cpu(), steps, |_| Ok(()))?;
    println!("{steps} steps on the CPU: {:.1} s", began.elapsed().as_secs_f64());
    for at in [0, 1, 9, 99, 499, 999, 1999].into_iter().filter(|&at| at < cpu.len()) {
        println!("loss of step {}: {:.6} and {:.6} on the CPU", at + 1, gpu[at], cpu[at]);
    }
    let early = 100.min(cpu.len());
    let ((first, at), (all, late)) = (apart(&gpu[..early], &cpu[..early]), apart(&gpu, &cpu));
    println!("largest difference in the first {early} steps: {first:.2e} (step {})", at + 1);
    println!("largest difference in all {steps}: {all:.2e} (step {}, loss {:.4})", late + 1, cpu[late]);
    let ((means, at), last) = (apart(&smooth(&gpu), &smooth(&cpu)), smooth(&cpu));
    println!("largest difference of means over 50 steps: {means:.2e} (of {:.4})", last[at]);
    Ok(())
}

//! An LSTM reads a sequence and remembers: the adding problem. A sequence has random numbers, two of which are marked;
//! the answer is the sum of the two, and everything between them has to be ignored.
//!
//! cargo run --release --example 08_lstm

use gradus::{nn::RnnOptions, optim::clip_grad_norm, prelude::*};

const LENGTH: usize = 16;
const BATCH: usize = 64;

#[derive(Module)]
struct Adder {
    lstm: nn::Lstm,
    out: nn::Linear,
}

impl Adder {
    fn new(hidden: usize) -> Result<Adder> {
        let options = RnnOptions { batch_first: true, ..Default::default() };
        Ok(Adder { lstm: nn::Lstm::with(2, hidden, options)?, out: nn::Linear::new(hidden, 1) })
    }

    /// `[n, time, 2]` -> `[n]`: what the state knows after the last step.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (_, (hidden, _)) = self.lstm.forward(x, None)?; // hidden: [layers, n, hidden]
        self.out.forward(&hidden.select(0, -1)?)?.squeeze(1)
    }
}

/// Sequences `[n, LENGTH, 2]` of a number and a mark, and their answers `[n]`.
fn problems(n: usize) -> Result<(Tensor, Tensor)> {
    let numbers = Tensor::rand([n, LENGTH]);
    let half = LENGTH / 2;
    // A mark in the first half and one in the second: the place as a row with a single 1.
    let mark = || Tensor::randint(0, half as i64, [n], DType::I64)?.one_hot(Some(half));
    let marks = Tensor::cat(&[&mark()?, &mark()?], 1)?;
    let marks = marks.to_dtype(DType::F32);
    let answers = (&numbers * &marks).sum_dim(1, false)?;
    Ok((Tensor::stack(&[&numbers, &marks], 2)?, answers))
}

fn main() -> Result<()> {
    let error = learn(1500)?;
    println!("mean square error {error:.4}; always saying 1, the mean, gives 1/6 = 0.1667");
    Ok(())
}

/// Learns for so many steps; the error on new sequences.
pub fn learn(steps: usize) -> Result<f64> {
    manual_seed(0);
    let model = Adder::new(32)?;
    println!("{}", model.summary());
    let mut opt = Adam::new(&model.parameters(), 1e-2);
    let mut schedule = LrScheduler::new(&mut opt, Schedule::Cosine { t_max: steps as u64, eta_min: 1e-4 })?;
    let mut mean = 0.0;
    for step in 1..=steps {
        let (x, y) = problems(BATCH)?; // never the same twice: there is nothing to learn by heart
        let loss = (model.forward(&x)? - y).square().mean();
        let (grads, _) = clip_grad_norm(&loss.backward()?, 1.0, 2.0)?; // gradients through time can be steep
        opt.step(&grads)?;
        schedule.step(&mut opt)?;
        mean += loss.item::<f64>()?;
        if step % 150 == 0 {
            println!("step {step:4}: mean loss {:.4}", mean / 150.0);
            mean = 0.0;
        }
    }
    let (x, y) = problems(500)?;
    let said = no_grad(|| model.forward(&x))?;
    println!("answers {}\nsaid    {}", y.narrow(0, 0, 5)?, said.narrow(0, 0, 5)?);
    (said - y).square().mean().item()
}

//! A small fit, watched in every way there is: a bar, the terminal, SVG and PNG, CSV and JSON, TensorBoard, checkpoints.
//!
//! `cargo run --release -p gradus-train --example watched_run -- FOLDER`. Stop it with Ctrl-C, start it again, and it
//! goes on. `tools/check_tensorboard.py FOLDER` opens its event files with TensorBoard itself.

use gradus_core::{Result, Tensor, manual_seed, no_grad};
use gradus_optim::{AdamW, LrScheduler, Schedule};
use gradus_train::{
    Checkpoints, CsvLog, Curve, EarlyStopping, JsonLog, LossCurve, Per, Progress, TensorBoard, Trainer,
    metrics::Regression,
};

fn main() -> Result<()> {
    let folder = std::path::PathBuf::from(std::env::args().nth(1).unwrap_or("watched_run".into()));
    manual_seed(1);
    let x = Tensor::rand([1024, 1]) * 6.0 - 3.0;
    let y = x.sin() + Tensor::randn([1024, 1]) * 0.05;
    let var = |name: &str, shape: [usize; 2], scale: f64| Tensor::var(name, Tensor::randn(shape) * scale);
    let (w1, b1) = (var("w1", [1, 64], 1.0), var("b1", [1, 64], 1.0));
    let (w2, b2) = (var("w2", [64, 1], 0.1), var("b2", [1, 1], 0.0));
    Tensor::eval_all(&[&x, &y, &w1, &b1, &w2, &b2])?;
    let forward = |x: &Tensor| -> Result<Tensor> { Ok((x.matmul(&w1)? + &b1).tanh().matmul(&w2)? + &b2) };

    let mut opt = AdamW::new([&w1, &b1, &w2, &b2], 1e-2);
    let schedule = LrScheduler::new(&mut opt, Schedule::warmup_cosine(20, 600, 1e-4))?;
    let report = Trainer::new(opt)
        .epochs(20)
        .schedule(schedule, Per::Step)
        .validate(|| {
            let mut errors = Regression::default();
            errors.update(&forward(&x)?, &x.sin())?;
            Ok(vec![("val_loss".into(), errors.mse()), ("r2".into(), errors.r2())])
        })
        .on(EarlyStopping::new("val_loss").patience(10))
        .on(CsvLog::new(folder.join("log.csv")))
        .on(JsonLog::new(folder.join("log.jsonl")))
        .on(TensorBoard::new(folder.join("events")))
        .on(LossCurve::new(folder.join("loss.svg")))
        .on(LossCurve::new(folder.join("loss.png")))
        .on(Progress::new())
        .checkpoints(Checkpoints::open(folder.join("checkpoints"))?, 100)
        .fit(
            |_epoch| {
                let order = Tensor::randperm(1024);
                (0..32).map(move |i| order.narrow(0, 32 * i, 32))
            },
            |rows| {
                let rows = rows?;
                Ok((forward(&x.index_select(0, &rows)?)? - y.index_select(0, &rows)?).square().mean())
            },
        )?;
    println!("{}", Curve::of_history(&report.history).log_y(true).to_terminal(76, 16));
    let at_one = no_grad(|| forward(&Tensor::from([[1.0f32]])))?.item::<f32>()?;
    println!("{} steps, {:?}; sin(1) = {:.4}, the model says {at_one:.4}", report.steps, report.stop, 1f32.sin());
    Ok(())
}

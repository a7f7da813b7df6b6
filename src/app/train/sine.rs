//! The first network of every course: one hidden layer that learns a sine.

use super::{Settings, finish};
use crate::app::{fail::Done, json::Json, out::Out, plot::Plot};
use gradus::{
    DType, Result, Tensor,
    nn::{Layer, Linear, Module, Sequential, Tanh},
    no_grad,
    optim::{Adam, LrScheduler, Schedule},
    train::{Per, Trainer},
};
use std::time::Instant;

/// Steps over all points that count as an epoch.
const EPOCH: u64 = 100;

/// `gradus train sine`
pub fn run(s: &Settings, out: &Out) -> Done {
    let mut model = Sequential::from((Linear::new(1, 64), Tanh, Linear::new(64, 1)));
    model.to(&s.device)?;
    let x = Tensor::linspace(-std::f64::consts::PI, std::f64::consts::PI, s.batch_size, DType::F32)
        .unsqueeze(1)?
        .to(&s.device);
    let y = x.sin();
    Tensor::eval_all(&[&x, &y])?;
    out.say(format!("sine: {} points, a network 1-64-1 of {} parameters", s.batch_size, model.num_parameters()));
    let mut opt = Adam::new(&model.parameters(), s.lr);
    let schedule = LrScheduler::new(&mut opt, Schedule::Cosine { t_max: s.epochs * EPOCH, eta_min: 0.0 })?;
    let began = Instant::now();
    let trainer = Trainer::new(opt).schedule(schedule, Per::Step);
    let report = s.equip(trainer, || model.state_dict(), |state| model.load_state_dict(state), 500)?.fit_compiled(
        |_| (0..EPOCH).map(|_| Ok([x.clone(), y.clone()])),
        |[x, y]| Ok((model.forward(x)? - y).square().mean()),
    )?;
    let seconds = began.elapsed().as_secs_f64();
    let fit = no_grad(|| model.forward(&x))?;
    let worst = (&fit - &y).abs().max()?.item::<f64>()?;
    let points = |t: &Tensor| -> Result<Vec<(f64, f64)>> {
        Ok(x.to_vec::<f64>()?.into_iter().zip(t.to_vec::<f64>()?).collect())
    };
    let plot = Plot {
        title: "what it learned, over the sine".into(),
        x_label: "x".into(),
        y_label: "y".into(),
        log: false,
        series: vec![("sine".into(), points(&y)?), ("network".into(), points(&fit)?)],
    };
    out.say(plot.text(60, 10));
    out.say(format!("largest error {worst:.5} after {seconds:.1} s"));
    let mut state = model.state_dict();
    state.metadata_mut().insert("model".into(), "sine-mlp".into());
    let result: Vec<(&str, Json)> = vec![("largest_error", worst.into()), ("seconds", seconds.into())];
    finish(s, &report, &state, result, out)
}

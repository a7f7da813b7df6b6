//! Training on the embedded digits: progress, a result, a saved model.

use super::{Options, model::Convnet};
use gradus::{Error, data, io, prelude::*};
use std::{
    io::{IsTerminal, Write},
    time::Instant,
};

const BATCH: usize = 64;
const PEAK_RATE: f64 = 3e-3;

/// The whole run.
pub fn run(options: &Options) -> Result<()> {
    // Better to say so now than after the training.
    if let Some(folder) = options.out.parent()
        && !folder.as_os_str().is_empty()
        && !folder.is_dir()
    {
        let why = format!("there is no folder {} to save the model in", folder.display());
        return Err(Error::value("save", why).hint("make it first, or name another file with --out"));
    }
    manual_seed(options.seed);
    let d = data::digits()?;
    let model = Convnet::new()?;
    let n = d.train_labels.numel();
    println!(
        "digits: {n} images to learn from, {} to test; a convnet of {} parameters",
        d.test_labels.numel(),
        model.num_parameters()
    );
    let mut opt = Adam::new(&model.parameters(), PEAK_RATE);
    let batches = n / BATCH;
    let total = options.epochs * batches;
    let start = Instant::now();
    for epoch in 0..options.epochs {
        let order = Tensor::randperm(n);
        order.eval()?;
        let mut sum = 0.0;
        for b in 0..batches {
            let done = epoch * batches + b;
            // Down to zero along half a cosine.
            let phase = std::f64::consts::PI * done as f64 / total as f64;
            opt.set_lr(PEAK_RATE * 0.5 * (1.0 + phase.cos()));
            let at = order.narrow(0, b * BATCH, BATCH)?;
            let (x, y) = (d.train_images.index_select(0, &at)?, d.train_labels.index_select(0, &at)?);
            let loss = model.forward(&x)?.cross_entropy(&y)?;
            opt.step(&loss.backward()?)?;
            sum += loss.item::<f64>()?;
            progress(done + 1, total, sum / (b + 1) as f64, start);
        }
        let (right, _) = test(&model, &d.test_images, &d.test_labels)?;
        let accuracy = right as f64 / d.test_labels.numel() as f64;
        clear_line();
        let epochs = options.epochs;
        println!("epoch {:2}/{epochs}  loss {:.4}  test accuracy {accuracy:.4}", epoch + 1, sum / batches as f64);
    }
    let seconds = start.elapsed().as_secs_f64();
    let (right, confusion) = test(&model, &d.test_images, &d.test_labels)?;
    print_confusion(&confusion);
    let tested = d.test_labels.numel();
    println!("test accuracy {:.4} ({right} of {tested}) after {seconds:.1} s", right as f64 / tested as f64);
    save(&model, options)
}

/// How many are right, and how often digit `i` was read as `j` (at `10 i + j`).
fn test(model: &Convnet, images: &Tensor, labels: &Tensor) -> Result<(usize, Vec<usize>)> {
    model.eval();
    let read = no_grad(|| model.forward(images))?.argmax_dim(1, false)?.to_vec::<i64>()?;
    model.train();
    let labels = labels.to_vec::<i64>()?;
    let mut confusion = vec![0; 100];
    for (&r, &l) in read.iter().zip(&labels) {
        confusion[(10 * l + r) as usize] += 1;
    }
    Ok(((0..10).map(|i| confusion[11 * i]).sum(), confusion))
}

fn print_confusion(confusion: &[usize]) {
    println!("\n  read as   0   1   2   3   4   5   6   7   8   9");
    for (digit, row) in confusion.chunks(10).enumerate() {
        let cells: String = row.iter().map(|&n| if n == 0 { "   .".into() } else { format!("{n:4}") }).collect();
        println!("  digit {digit}{cells}");
    }
    println!();
}

fn progress(done: usize, total: usize, loss: f64, start: Instant) {
    if !std::io::stdout().is_terminal() {
        return;
    }
    let rate = done as f64 / start.elapsed().as_secs_f64();
    let bar = "#".repeat(30 * done / total);
    print!(
        "\r[{bar:30}] {done}/{total}  loss {loss:.4}  {rate:.0} steps/s  {:.0} s left ",
        (total - done) as f64 / rate
    );
    let _ = std::io::stdout().flush(); // a progress line that does not show harms nobody
}

fn clear_line() {
    if std::io::stdout().is_terminal() {
        print!("\r{:90}\r", "");
    }
}

/// Writes the model beside its target and renames it: an old file is never half overwritten.
fn save(model: &Convnet, options: &Options) -> Result<()> {
    io::save(&options.out, &model.state_dict()).map_err(|e| Error::value("save", e.to_string()))?;
    println!("saved {}", options.out.display());
    Ok(())
}

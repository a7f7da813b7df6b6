//! A small GPT on any text.

use super::{Settings, finish};
use crate::app::{
    fail::{Done, Failure},
    models::{Gpt, GptOptions, Reader, reader},
    out::Out,
};
use clap::ArgMatches;
use gradus::{
    Error, Result, Tensor, autocast,
    data::{
        DataLoader, LoaderOptions, Rng,
        text::{self, TextDataset},
    },
    nn::Module,
    no_grad,
    optim::{AdamW, LrScheduler, Schedule},
    train::{Per, Trainer},
};
use std::{path::PathBuf, time::Instant};

/// Steps that count as an epoch: a text has as many windows as characters.
const EPOCH: usize = 250;
/// Batches of the validation.
const VALIDATION: usize = 40;

/// `gradus train char-gpt`
pub fn run(s: &Settings, m: &ArgMatches, out: &Out) -> Done {
    let path = m.get_one::<PathBuf>("text").cloned().unwrap_or_default();
    let count = |name: &str| m.get_one::<usize>(name).copied().unwrap_or(1);
    let bytes = text::load(&path)?;
    let wrong = |e: Error| Failure::Usage(format!("{}: {e}", path.display()));
    let reader = reader(m.get_one::<String>("tokenizer").map_or("char", String::as_str), &bytes).map_err(wrong)?;
    let tokens = reader.tokenizer().encode(&bytes).map_err(wrong)?;
    let prompt = m.get_one::<String>("prompt");
    // Better to say so now than after the training.
    if let Some(prompt) = prompt {
        reader.tokenizer().encode(prompt.as_bytes()).map_err(|e| Failure::Usage(format!("--prompt: {e}")))?;
    }
    let vocab = reader.tokenizer().vocab_size();
    let options = GptOptions {
        vocab,
        context: count("context"),
        width: count("width"),
        heads: count("heads"),
        layers: count("layers"),
    };
    let mut gpt = Gpt::new(options).map_err(|e| Failure::Usage(e.to_string()))?;
    gpt.to(&s.device)?;
    // The last tenth is for testing.
    let cut = tokens.len() * 9 / 10;
    let (train, rest) = tokens.split_at_checked(cut).unwrap_or((&tokens, &[]));
    let windows = |t: &[u32], stride| TextDataset::with_stride(t.to_vec(), options.context, stride).map_err(wrong);
    let (train, rest) = (windows(train, 1)?, windows(rest, options.context)?);
    out.say(format!(
        "char-gpt: {} tokens of {vocab} kinds; {} layers of {} heads, width {}, context {}: {} parameters",
        tokens.len(),
        options.layers,
        options.heads,
        options.width,
        options.context,
        gpt.num_parameters()
    ));
    let batches = |data, shuffle, drop_last| {
        DataLoader::new(
            data,
            LoaderOptions { batch_size: s.batch_size, shuffle, drop_last, seed: s.seed, ..LoaderOptions::default() },
        )
    };
    let (train, rest) = (batches(train, true, true)?, batches(rest, false, false)?);
    if train.is_empty() {
        return Err(Failure::Usage(format!("{}: too short for a batch of {}", path.display(), s.batch_size)));
    }
    let loss = |x: &Tensor, y: &Tensor| gpt.forward(x)?.reshape([x.numel(), vocab])?.cross_entropy(&y.flatten(0, -1)?);
    let validation = || {
        rest.set_epoch(0);
        // All of them before the first is read: a device of its own need not wait.
        let losses = rest.iter().take(VALIDATION).map(|b| {
            let (x, y) = b?;
            let loss = autocast(s.amp, || loss(&x.to(&s.device), &y.to(&s.device)))?;
            Ok(loss.eval()?.clone())
        });
        let losses = losses.collect::<Result<Vec<_>>>()?;
        let sum = losses.iter().map(Tensor::item::<f64>).sum::<Result<f64>>()?;
        let mean = sum / losses.len().max(1) as f64;
        Ok(vec![("val_loss".to_string(), mean), ("perplexity".to_string(), mean.exp())])
    };
    let total = s.epochs * EPOCH.min(train.len()) as u64;
    let mut opt = AdamW::new(&gpt.parameters(), s.lr).betas(0.9, 0.99);
    let warm = Schedule::Sequential {
        schedules: vec![
            Schedule::Linear { start_factor: 0.01, end_factor: 1.0, total_iters: total.div_ceil(20).min(100) },
            Schedule::Cosine { t_max: total, eta_min: s.lr / 10.0 },
        ],
        milestones: vec![total.div_ceil(20).min(100)],
    };
    let schedule = LrScheduler::new(&mut opt, warm)?;
    let began = Instant::now();
    let trainer = Trainer::new(opt).schedule(schedule, Per::Step).clip_grad_norm(1.0).validate(validation);
    let report = s.equip(trainer, || gpt.state(&reader), |state| gpt.load_state_dict(state), 100)?.fit_compiled(
        |epoch| {
            train.set_epoch(epoch);
            train.iter().take(EPOCH).map(|batch| batch.map(|(x, y)| [x.to(&s.device), y.to(&s.device)]))
        },
        |[x, y]| loss(x, y),
    )?;
    let seconds = began.elapsed().as_secs_f64();
    let prompt = prompt.map_or("\n", String::as_str);
    let sample = write(&gpt, &reader, &Written { prompt, length: count("samples"), temperature: 0.8, seed: s.seed })?;
    out.say(format!("\n{}\n", sample.trim_matches('\n')));
    let last = report.history.epochs.last().and_then(|e| e.get("val_loss"));
    out.say(format!("validation loss {:.4} after {} steps, {seconds:.1} s", last.unwrap_or(f64::NAN), report.steps));
    let result = vec![
        ("val_loss", last.unwrap_or(f64::NAN).into()),
        ("seconds", seconds.into()),
        ("parameters", gpt.num_parameters().into()),
        ("sample", sample.into()),
    ];
    finish(s, &report, &gpt.state(&reader), result, out)
}

/// What is to be written.
pub struct Written<'a> {
    pub prompt: &'a str,
    pub length: usize,
    pub temperature: f64,
    pub seed: u64,
}

/// Lets a model write.
pub fn write(gpt: &Gpt, reader: &Reader, w: &Written<'_>) -> Result<String> {
    let context = gpt.options().context;
    let vocab = gpt.options().vocab;
    let mut tokens = reader.tokenizer().encode(w.prompt.as_bytes()).unwrap_or_default();
    if tokens.is_empty() {
        tokens.push(0);
    }
    let mut rng = Rng::new(w.seed, 0);
    let device = gpt.device();
    for _ in 0..w.length {
        // Always a whole window, so that one plan serves all: what is behind the last token cannot be seen by it.
        let seen = tokens.get(tokens.len().saturating_sub(context)..).unwrap_or_default();
        let mut window: Vec<i64> = seen.iter().map(|&t| i64::from(t)).collect();
        let last = window.len() - 1;
        window.resize(context, 0);
        let scores =
            no_grad(|| gpt.forward(&Tensor::from_slice(&window, [1, context])?.to(&device)))?.to_vec::<f32>()?;
        let scores = scores.get(last * vocab..(last + 1) * vocab).unwrap_or_default();
        let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |s: &f32| (f64::from(s - most) / w.temperature).exp();
        let sum: f64 = scores.iter().map(weight).sum();
        let mut at = rng.uniform() * sum;
        let drawn = scores.iter().position(|s| {
            at -= weight(s);
            at < 0.0
        });
        tokens.push(drawn.unwrap_or(0) as u32);
    }
    reader.tokenizer().decode_lossy(&tokens)
}

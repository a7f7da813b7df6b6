//! Killed with no warning at random moments, and resumed each time, a run ends with the bytes of one that nobody disturbed.
//!
//! `GRADUS_KILLS=200 GRADUS_STEPS=20000 cargo test -p gradus-train --test kill` is the long form.
#![cfg(unix)]

use gradus_core::{Tensor, manual_seed};
use gradus_optim::{AdamW, Ema, LrScheduler, Schedule};
use gradus_train::{Checkpoints, EarlyStopping, Per, Trainer};
use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    thread::sleep,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

fn number(name: &str, usual: u64) -> u64 {
    env::var(name).map_or(usual, |x| x.parse().unwrap())
}

/// A run with everything that must be remembered: shuffling and dropout by random numbers, an optimizer with state, a
/// schedule, an average, early stopping, validation.
fn train(folder: &Path) {
    manual_seed(7);
    let (x, y) = (Tensor::randn([96, 6]), Tensor::randn([96, 2]));
    let (w1, w2) = (Tensor::var("w1", Tensor::randn([6, 16]) * 0.4), Tensor::var("w2", Tensor::randn([16, 2]) * 0.2));
    Tensor::eval_all(&[&x, &y, &w1, &w2]).unwrap();
    let steps = number("GRADUS_STEPS", 600);
    let mut opt = AdamW::new([&w1, &w2], 3e-3);
    let schedule = LrScheduler::new(&mut opt, Schedule::warmup_cosine(steps / 10, steps, 1e-5)).unwrap();
    let ema = Ema::new([&w1, &w2], 0.99);
    let forward = |x: &Tensor, training| x.matmul(&w1)?.tanh().dropout(0.2, training)?.matmul(&w2);
    println!("ready");
    Trainer::new(opt)
        .epochs(u64::MAX)
        .max_steps(steps)
        .schedule(schedule, Per::Step)
        .ema(ema)
        .clip_grad_norm(1.0)
        .validate(|| Ok(vec![("val_loss".into(), (forward(&x, false)? - &y).square().mean().item()?)]))
        .on(EarlyStopping::new("val_loss").patience(u64::MAX))
        .checkpoints(Checkpoints::open(folder).unwrap().keep(2), 3)
        .fit(
            |_| {
                let order = Tensor::randperm(96);
                (0..6).map(move |i| order.narrow(0, 16 * i, 16))
            },
            |rows| {
                let rows = rows?;
                let (x, y) = (x.index_select(0, &rows)?, y.index_select(0, &rows)?);
                Ok((forward(&x, true)? - y).square().mean())
            },
        )
        .unwrap();
}

/// A run in another process, and the other end of what it prints.
fn spawn(folder: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "killed_at_random_moments_it_ends_with_the_same_bytes", "--nocapture", "--test-threads=1"])
        .env("GRADUS_KILL_CHILD", folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Not before it has begun to train.
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.ends_with("ready\n") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "the child says that it is ready");
    }
    (child, out)
}

#[test]
fn killed_at_random_moments_it_ends_with_the_same_bytes() {
    if let Some(folder) = env::var_os("GRADUS_KILL_CHILD") {
        return train(Path::new(&folder));
    }
    let dir = tempfile::tempdir().unwrap();
    let (calm, wild) = (dir.path().join("calm"), dir.path().join("wild"));
    train(&calm);

    let (kills, steps) = (number("GRADUS_KILLS", 20), number("GRADUS_STEPS", 600));
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let mut state = seed | 1;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below.max(1)
    };
    let mut when: Vec<u64> = (0..kills).map(|_| random(steps * 9 / 10)).collect();
    when.sort_unstable();
    let reached = || Checkpoints::open(&wild).unwrap().steps().last().copied().unwrap_or(0);
    let mut at = vec![];
    for step in when {
        let (mut child, _out) = spawn(&wild);
        while reached() < step {
            assert!(child.try_wait().unwrap().is_none(), "it runs until it is killed");
            sleep(Duration::from_millis(1));
        }
        // Then at any moment: in a step, in a checkpoint, in a validation.
        sleep(Duration::from_micros(random(15_000)));
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success(), "it was killed, not done");
        at.push(reached());
    }
    let (mut child, mut out) = spawn(&wild);
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success());
    println!("killed {kills} times, resumed at steps {at:?}");
    let mut distinct = at.clone();
    distinct.dedup();
    assert!(distinct.len() > kills as usize / 4, "kills came at too few places: {at:?}");

    let files = |folder: &Path| {
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(files(&calm), files(&wild), "the same files, and nothing half-written");
    let last = *Checkpoints::open(&calm).unwrap().steps().last().unwrap();
    assert_eq!(last, number("GRADUS_STEPS", 600));
    for step in Checkpoints::open(&calm).unwrap().steps() {
        let bytes = |folder: &Path| fs::read(Checkpoints::open(folder).unwrap().path(step)).unwrap();
        assert!(bytes(&calm) == bytes(&wild), "step {step}: weights, optimizer, history or random state differ");
    }
}

//! Every training on another device than the CPU: the same weights, and checkpoints that go on there.

use super::*;
use crate::app::cli;
use gradus_conformance::relay;
use std::fs;

fn matches(task: &str, args: &[&str]) -> ArgMatches {
    let start = ["gradus", "train", task];
    let m = cli::command().try_get_matches_from(start.iter().chain(args)).unwrap();
    m.subcommand_matches("train").unwrap().subcommand_matches(task).unwrap().clone()
}

/// Trains, and gives what was saved.
fn train(task: &str, args: &[&str], out: &Path, device: Device) -> StateDict {
    let out_text = out.display().to_string();
    let args: Vec<&str> = args.iter().copied().chain(["--out", &out_text]).collect();
    let m = matches(task, &args);
    let defaults = Defaults { epochs: 1, batch_size: 32, lr: 3e-3, out: "unused.safetensors" };
    let mut s = Settings::new(task, &m, defaults).unwrap();
    s.device = device;
    let quiet = Out::new(true);
    let done = match task {
        "sine" => sine::run(&s, &quiet),
        "digits" => classify::digits(&s, &quiet),
        _ => gpt::run(&s, &m, &quiet),
    };
    done.unwrap();
    io::load(out).unwrap()
}

fn same(a: &StateDict, b: &StateDict) {
    assert_eq!(a.len(), b.len());
    for (name, t) in a.iter() {
        assert_eq!(t.to_bytes().unwrap(), b.tensor(name).unwrap().to_bytes().unwrap(), "{name}");
    }
}

/// Random numbers and Ctrl-C belong to the process: one test for all.
#[test]
fn every_training_runs_on_another_device() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let text = path("text.txt");
    fs::write(&text, "the cat sat on the mat, and the rat sat on the cat. ".repeat(40)).unwrap();
    let text = text.display().to_string();
    let sizes = ["--layers", "1", "--heads", "2", "--width", "16", "--context", "8", "--samples", "3"];
    let gpt: Vec<&str> = ["--text", &text, "--batch-size", "4"].into_iter().chain(sizes).collect();
    for (task, args) in [("sine", &[][..]), ("digits", &[]), ("char-gpt", &gpt)] {
        let here = train(task, args, &path("here.safetensors"), Device::cpu());
        let there = train(task, args, &path("there.safetensors"), relay::device());
        same(&here, &there);
        // Mixed precision is another way to weights of the same kind.
        let amp: Vec<&str> = args.iter().copied().chain(["--amp", "bf16"]).collect();
        let low = train(task, &amp, &path("low.safetensors"), relay::device());
        assert!(low.iter().zip(there.iter()).all(|((a, t), (b, u))| a == b && t.dtype() == u.dtype()));
    }
}

//! `gradus-conformance opinfo DIR`: runs PyTorch's operator samples.
//! `gradus-conformance programs`: runs random programs against the oracle.
//! `gradus-conformance fuzz READER`: damages files.
//!
//! The first two take `--device`: `cpu`, `oracle`, `cuda:N`.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use gradus_conformance::against;
use gradus_conformance::devices::by_name;
use gradus_conformance::fuzz;
use gradus_conformance::opinfo::folder::{Options, run_folder};
use gradus_conformance::opinfo::gradus::Gradus;

const USAGE: &str = "usage: gradus-conformance opinfo DIR [--device NAME] [--only NAME,NAME] [--shard I/N] [--verbose]\n\
                     or:    gradus-conformance programs [--device NAME] [--count N] [--seed N]";

/// What to do.
#[derive(Debug)]
enum Task {
    /// PyTorch's samples in a folder.
    Opinfo { dir: PathBuf, device: String, options: Options },
    /// Random programs against the oracle.
    Programs { device: String, count: usize, seed: u64 },
}

#[global_allocator]
static ALLOCATOR: fuzz::alloc::Counting = fuzz::alloc::Counting;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("fuzz", rest)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return fuzz::command::run(rest);
    }
    let task = match parse(args.into_iter()) {
        Ok(task) => task,
        Err(reason) => {
            eprintln!("{reason}; {USAGE}, or {}", fuzz::command::USAGE);
            return ExitCode::from(2);
        }
    };
    match perform(task) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::from(2)
        }
    }
}

/// Whether everything was right.
fn perform(task: Task) -> Result<bool, String> {
    let mut out = BufWriter::new(io::stdout().lock());
    let right = match task {
        Task::Opinfo { dir, device, options } => {
            let device = by_name(&device)?;
            // A panic of an operator is reported as its case's failure.
            std::panic::set_hook(Box::new(|_| {}));
            run_folder(&Gradus { device }, &dir, &options, &mut out)?.all_right()
        }
        Task::Programs { device, count, seed } => {
            let counts = against::run(by_name(&device)?, seed, count, &mut out).map_err(|e| e.to_string())?;
            counts.wrong == 0
        }
    };
    out.flush().map_err(|e| e.to_string())?;
    Ok(right)
}

fn number<T: std::str::FromStr>(option: &str, text: Option<String>) -> Result<T, String> {
    text.and_then(|t| t.parse().ok()).ok_or(format!("{option} needs a number"))
}

fn shard(text: Option<String>) -> Option<(usize, usize)> {
    let (i, n) = text.as_deref()?.split_once('/')?;
    let (i, n) = (i.parse().ok()?, n.parse().ok()?);
    (i < n).then_some((i, n))
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Task, String> {
    let opinfo = match args.next().as_deref() {
        Some("opinfo") => true,
        Some("programs") => false,
        Some(other) => return Err(format!("no subcommand {other}")),
        None => return Err("no subcommand given".to_string()),
    };
    let (mut dir, mut device, mut count, mut seed) = (None, "cpu".to_string(), 1000, 1);
    let mut options = Options::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--device" => device = args.next().ok_or("--device needs a name")?,
            "--count" if !opinfo => count = number("--count", args.next())?,
            "--seed" if !opinfo => seed = number("--seed", args.next())?,
            "--shard" if opinfo => {
                options.shard = Some(shard(args.next()).ok_or("--shard needs I/N with I below N")?);
            }
            "--verbose" if opinfo => options.verbose = true,
            "--only" if opinfo => {
                let names = args.next().ok_or("--only needs names")?;
                let names = names.split(',').filter(|n| !n.is_empty());
                options.only.extend(names.map(str::to_string));
                if options.only.is_empty() {
                    return Err("--only needs names".to_string());
                }
            }
            option if option.starts_with('-') => return Err(format!("no option {option}")),
            _ if dir.is_some() || !opinfo => return Err(format!("one folder too many: {arg}")),
            _ => dir = Some(PathBuf::from(arg)),
        }
    }
    if !opinfo {
        return Ok(Task::Programs { device, count, seed });
    }
    Ok(Task::Opinfo { dir: dir.ok_or("no folder given")?, device, options })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        parse(line.split_whitespace().map(str::to_string))
    }

    #[test]
    fn good_lines() {
        let task = parsed("opinfo some/dir --only add,mul --verbose --shard 1/3 --device cuda").unwrap();
        let Task::Opinfo { dir, device, options } = task else { panic!("{task:?}") };
        assert_eq!((dir, &device[..]), (PathBuf::from("some/dir"), "cuda"));
        assert_eq!((&options.only[..], options.shard), (&["add".to_string(), "mul".into()][..], Some((1, 3))));
        assert!(options.verbose);
        let task = parsed("programs --count 7 --seed 3 --device oracle").unwrap();
        assert!(matches!(&task, Task::Programs { device, count: 7, seed: 3 } if device == "oracle"), "{task:?}");
    }

    #[test]
    fn bad_lines() {
        for line in [
            "",
            "sing",
            "opinfo",
            "opinfo a b",
            "opinfo a --only",
            "opinfo a --only ,",
            "opinfo --loud a",
            "programs x",
            "opinfo a --shard 3/3",
            "programs --count many",
            "opinfo a --count 3",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}

//! `gradus-conformance opinfo DIR` runs PyTorch's operator samples; `gradus-conformance fuzz READER` damages files.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use gradus_conformance::fuzz;
use gradus_conformance::opinfo::folder::{Options, run_folder};
use gradus_conformance::opinfo::gradus::Gradus;

const USAGE: &str = "usage: gradus-conformance opinfo DIR [--only NAME,NAME] [--verbose]";

#[global_allocator]
static ALLOCATOR: fuzz::alloc::Counting = fuzz::alloc::Counting;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("fuzz", rest)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return fuzz::command::run(rest);
    }
    let (dir, options) = match parse(args.into_iter()) {
        Ok(parsed) => parsed,
        Err(reason) => {
            eprintln!("{reason}; {USAGE}, or {}", fuzz::command::USAGE);
            return ExitCode::from(2);
        }
    };
    // A panic of an operator is reported as its case's failure.
    std::panic::set_hook(Box::new(|_| {}));
    let mut out = BufWriter::new(io::stdout().lock());
    let report = run_folder(&Gradus, &dir, &options, &mut out);
    let report = report.and_then(|r| out.flush().map(|()| r).map_err(|e| e.to_string()));
    match report {
        Ok(report) if report.all_right() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<(PathBuf, Options), String> {
    match args.next().as_deref() {
        Some("opinfo") => {}
        Some(other) => return Err(format!("no subcommand {other}")),
        None => return Err("no subcommand given".to_string()),
    }
    let mut dir = None;
    let mut options = Options::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--verbose" => options.verbose = true,
            "--only" => {
                let names = args.next().ok_or("--only needs names")?;
                let names = names.split(',').filter(|n| !n.is_empty());
                options.only.extend(names.map(str::to_string));
                if options.only.is_empty() {
                    return Err("--only needs names".to_string());
                }
            }
            option if option.starts_with('-') => return Err(format!("no option {option}")),
            _ if dir.is_some() => return Err(format!("one folder too many: {arg}")),
            _ => dir = Some(PathBuf::from(arg)),
        }
    }
    Ok((dir.ok_or("no folder given")?, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<(PathBuf, Options), String> {
        parse(line.split_whitespace().map(str::to_string))
    }

    #[test]
    fn good_lines() {
        let (dir, options) = parsed("opinfo some/dir --only add,mul --verbose").unwrap();
        assert_eq!(dir, PathBuf::from("some/dir"));
        assert_eq!(options.only, ["add", "mul"]);
        assert!(options.verbose);
    }

    #[test]
    fn bad_lines() {
        for line in ["", "sing", "opinfo", "opinfo a b", "opinfo a --only", "opinfo a --only ,", "opinfo --loud a"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}

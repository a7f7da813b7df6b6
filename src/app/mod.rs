//! What the command does.

mod bench;
mod cli;
mod devices;
mod fail;
mod files;
mod json;
mod models;
mod out;
mod plot;
mod predict;
mod scaling;
mod train;

use clap::error::ErrorKind;
use fail::Failure;
use out::Out;
use std::{ffi::OsString, process::ExitCode};

/// Parses the arguments, runs what they ask for, and says what went wrong in one line.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = match cli::command().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(e) if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            print!("{e}");
            return ExitCode::SUCCESS;
        }
        Err(e) => return Failure::Usage(fail::of_clap(&e)).report(),
    };
    let out = Out::new(matches.get_flag("json"));
    let done = match matches.subcommand() {
        None => train::run("digits", &matches, &out),
        Some(("train", m)) => match m.subcommand() {
            Some((task, m)) => train::run(task, m, &out),
            None => Err(Failure::Usage("train needs a task: sine, digits, mnist, cifar10 or char-gpt".into())),
        },
        Some(("predict", m)) => predict::run(m, &out),
        Some(("info", m)) => files::info(m, &out),
        Some(("convert", m)) => files::convert(m, &out),
        Some(("bench", m)) => bench::run(m, &out),
        Some(("scaling", m)) => scaling::run(m, &out),
        Some(("devices", _)) => devices::run(&out),
        Some((other, _)) => Err(Failure::Usage(format!("there is no command {other}"))),
    };
    match done {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

//! The `gradus` command: trains, predicts, looks into files, measures. `gradus --help` says more.

mod app;

use std::process::ExitCode;

fn main() -> ExitCode {
    app::main(std::env::args_os())
}

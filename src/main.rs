//! The `gradus` command: trains a small convnet on the handwritten digits inside the binary, and saves it.

mod app;

use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match app::Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{}", app::HELP);
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("gradus: {why} (try --help)");
            return ExitCode::from(2);
        }
    };
    match app::digits::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("gradus: {e}");
            ExitCode::FAILURE
        }
    }
}

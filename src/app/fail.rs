//! What went wrong, in one line and a number: 2 for what the user can put right, 1 for the rest.

use std::process::ExitCode;

/// Why the command ends without success.
#[derive(Debug)]
pub enum Failure {
    /// Wrong flags, wrong files.
    Usage(String),
    /// Anything else.
    Run(String),
}

pub type Done = Result<ExitCode, Failure>;

impl Failure {
    /// Says it, and gives the number.
    pub fn report(&self) -> ExitCode {
        let (text, code) = match self {
            Failure::Usage(text) => (text, 2),
            Failure::Run(text) => (text, 1),
        };
        eprintln!("gradus: {}", one_line(text));
        ExitCode::from(code)
    }

    /// A file that cannot be used.
    pub fn file(e: impl std::fmt::Display) -> Failure {
        Failure::Usage(e.to_string())
    }
}

impl From<gradus::Error> for Failure {
    fn from(e: gradus::Error) -> Failure {
        // Settings that differ from those of the checkpoint are the user's to put right.
        match e.op() {
            "resume" => Failure::Usage(e.to_string()),
            _ => Failure::Run(e.to_string()),
        }
    }
}

impl From<gradus::io::Error> for Failure {
    fn from(e: gradus::io::Error) -> Failure {
        Failure::file(e)
    }
}

impl From<gradus::data::ReadError> for Failure {
    fn from(e: gradus::data::ReadError) -> Failure {
        Failure::file(e)
    }
}

/// The library's errors have lines of their own for where and for the way out: the way out is kept.
fn one_line(text: &str) -> String {
    let mut lines = text.lines();
    let mut line = lines.next().unwrap_or_default().to_string();
    for hint in lines.filter_map(|l| l.trim().strip_prefix("hint: ")) {
        line.push_str(&format!(" ({hint})"));
    }
    line
}

/// What clap says in a paragraph, in a line.
pub fn of_clap(e: &clap::Error) -> String {
    if e.kind() == clap::error::ErrorKind::MissingSubcommand {
        return "train needs a task: sine, digits, mnist, cifar10 or char-gpt (try --help)".into();
    }
    let text = e.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let said = words.join(" ");
    let tip = text.lines().find_map(|l| l.trim().strip_prefix("tip: "));
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    match tip {
        Some(tip) => format!("{said} ({tip}; try --help)"),
        None => format!("{said} (try --help)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_one_line_with_the_way_out() {
        assert_eq!(one_line("load: no\n  at x.rs:1:2\n  hint: fetch it"), "load: no (fetch it)");
        let of = |args: &[&str]| {
            let e = super::super::cli::command().try_get_matches_from(args).unwrap_err();
            of_clap(&e)
        };
        assert_eq!(
            of(&["gradus", "--epoch", "3"]),
            "unexpected argument '--epoch' found (a similar argument exists: '--epochs'; try --help)"
        );
        assert_eq!(
            of(&["gradus", "info"]),
            "the following required arguments were not provided: <FILE>... (try --help)"
        );
        let e = of(&["gradus", "--epochs", "many"]);
        assert_eq!(e, "invalid value 'many' for '--epochs <N>': invalid digit found in string (try --help)");
        assert!(of(&["gradus", "trian"]).starts_with("unrecognized subcommand 'trian' ("));
        assert!(of(&["gradus", "train"]).starts_with("train needs a task: sine, "));
        assert!(of(&["gradus", "--lr", "-1"]).contains("a number above 0"));
    }
}

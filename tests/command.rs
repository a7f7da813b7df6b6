//! The command as its users run it.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

fn gradus(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gradus")).args(args).current_dir(dir).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs, and wants success.
fn ok(dir: &Path, args: &[&str]) -> String {
    let o = gradus(dir, args);
    assert_eq!(o.status.code(), Some(0), "{args:?}: {}{}", text(&o.stdout), text(&o.stderr));
    text(&o.stdout)
}

/// Runs, and wants exit code 2 and one line.
fn refused(dir: &Path, args: &[&str], why: &str) {
    let o = gradus(dir, args);
    let said = text(&o.stderr);
    assert_eq!(o.status.code(), Some(2), "{args:?}: {said}");
    assert!(said.lines().count() == 1 && said.starts_with("gradus: ") && said.contains(why), "{args:?}: {said}");
}

fn data(name: &str) -> String {
    format!("{}/crates/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn help_teaches() {
    let dir = tempfile::tempdir().unwrap();
    let help = ok(dir.path(), &["--help"]);
    for word in [
        "handwritten digits",
        "train",
        "predict",
        "info",
        "convert",
        "bench",
        "scaling",
        "devices",
        "--json",
        "examples:",
    ] {
        assert!(help.contains(word), "{word}");
    }
    for command in ["train", "predict", "info", "convert", "bench", "scaling", "devices"] {
        assert!(ok(dir.path(), &[command, "--help"]).contains("Usage: gradus"), "{command}");
    }
    for task in ["sine", "digits", "mnist", "cifar10", "char-gpt"] {
        let help = ok(dir.path(), &["train", task, "--help"]);
        for flag in
            ["--seed", "--epochs", "--batch-size", "--lr", "--out", "--checkpoint", "--resume", "--device", "--amp"]
        {
            assert!(help.contains(flag), "{task} {flag}");
        }
    }
    assert!(ok(dir.path(), &["--version"]).starts_with("gradus "));
}

#[test]
fn mistakes_get_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    fs::write(d.join("page.safetensors"), "<!doctype html>").unwrap();
    fs::write(d.join("short.txt"), "abc").unwrap();
    fs::write(d.join("latin.txt"), b"caf\xe9".repeat(400)).unwrap();
    let pt = data("io/tests/data/checkpoint.pt");
    refused(d, &["--fast"], "unexpected argument '--fast'");
    refused(d, &["--epochs", "0"], "it must be at least 1");
    refused(d, &["--lr", "nan"], "a number above 0");
    refused(d, &["--out", "model.txt"], "--out must end in .safetensors");
    refused(d, &["--out", "no/model.safetensors"], "there is no folder no");
    refused(d, &["--curve", "a.png"], "--curve must end in .svg");
    refused(d, &["--device", "tpu"], "there is no device tpu here");
    refused(d, &["--device", "cuda:99"], "no device cuda:99");
    refused(d, &["--amp", "f8"], "invalid value 'f8'");
    refused(d, &["--resume"], "--checkpoint");
    refused(d, &["--checkpoint", "none", "--resume"], "none has no checkpoint to go on from");
    refused(d, &["train"], "train needs a task");
    refused(d, &["train", "mnist"], "--data <DIR>");
    refused(d, &["train", "mnist", "--data", "."], "cannot find MNIST here");
    refused(d, &["train", "cifar10", "--data", "."], "data_batch_1.bin: cannot open");
    refused(d, &["train", "char-gpt", "--text", "none.txt"], "none.txt: cannot open");
    refused(d, &["train", "char-gpt", "--text", "short.txt"], "too few");
    refused(d, &["train", "char-gpt", "--text", "latin.txt"], "not UTF-8 from byte 3 on (try --tokenizer byte)");
    refused(d, &["train", "char-gpt", "--text", "short.txt", "--heads", "3"], "does not divide into 3 heads");
    refused(d, &["info", "none"], "none: cannot open");
    refused(d, &["info", "page.safetensors"], "a web page");
    refused(d, &["convert", &pt, "x.npz"], "add --drop-metadata");
    refused(d, &["convert", &pt, "x.npz", "--drop-metadata"], "add --dtype f32");
    refused(d, &["convert", &pt, "x.txt"], "the extension must be");
    refused(d, &["convert", &pt, "x.pt"], "read, not written");
    refused(d, &["predict", "three.png"], "run `gradus` once to make it");
    refused(d, &["predict", "x.png", "--model", "page.safetensors"], "a web page");
    refused(d, &["bench", "teleport"], "there are: matmul 1024;");
    assert!(fs::read_dir(d).unwrap().all(|f| !f.unwrap().file_name().to_string_lossy().starts_with("gradus")));
}

#[test]
fn files_are_described_and_converted() {
    let dir = tempfile::tempdir().unwrap();
    let pt = data("io/tests/data/checkpoint.pt");
    let shown = ok(dir.path(), &["info", &pt]);
    assert!(shown.starts_with("PyTorch: ") && shown.contains("epoch = 7"), "{shown}");
    let json = ok(dir.path(), &["info", "--json", &pt]);
    assert!(json.contains(r#""format": "PyTorch""#) && json.contains(r#""epoch": 7"#), "{json}");
    ok(dir.path(), &["convert", &pt, "m.safetensors"]);
    ok(dir.path(), &["convert", "m.safetensors", "m.npz", "--drop-metadata", "--dtype", "f32", "--compress"]);
    let again = ok(dir.path(), &["convert", "m.npz", "n.safetensors", "--json"]);
    assert!(again.contains(r#""to": "n.safetensors""#), "{again}");
    let names =
        |file: &str| gradus::io::load(dir.path().join(file)).unwrap().names().map(str::to_string).collect::<Vec<_>>();
    assert_eq!(names("m.safetensors"), names("n.safetensors"));
}

#[test]
fn trains_on_digits_and_reads_them() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let said = ok(d, &["--epochs", "4", "--curve", "loss.svg"]);
    assert!(said.contains("1438 images to learn from, 359 to test") && said.contains("read as"), "{said}");
    assert!(said.contains("test accuracy 0.9") && said.contains("saved gradus-digits.safetensors"), "{said}");
    assert!(fs::read_to_string(d.join("loss.svg")).unwrap().contains("<polyline"));
    assert!(ok(d, &["info", "gradus-digits.safetensors"]).contains("model = digits-convnet"));
    // The first test images are a 4, a 9 and a 4.
    let digits = gradus::data::digits().unwrap();
    gradus::io::npy::save(d.join("three.npy"), &digits.test_images.narrow(0, 0, 3).unwrap()).unwrap();
    let read = ok(d, &["predict", "three.npy"]);
    let read: Vec<&str> = read.lines().filter_map(|l| l.split(": ").nth(1)?.get(..1)).collect();
    assert_eq!(read, ["4", "9", "4"]);
    // A picture of another size, dark on light.
    let png = data("data/tests/data/grey8.png");
    let json = ok(d, &["predict", "--json", &png]);
    assert!(json.contains(r#""probabilities": ["#), "{json}");
    gradus::io::npy::save(d.join("odd.npy"), &gradus::Tensor::from([1.0f32, 2.0])).unwrap();
    refused(d, &["predict", "odd.npy"], "a picture has 2 to 4 axes, not [2]");
    refused(d, &["predict"], "predict needs a picture");
    gradus::io::save(d.join("other.safetensors"), &gradus::io::StateDict::new()).unwrap();
    refused(d, &["predict", "odd.npy", "--model", "other.safetensors"], "does not say which model it is");
}

#[test]
fn the_same_seed_gives_the_same_model() {
    let dir = tempfile::tempdir().unwrap();
    let run = |seed: &str, out: &str| {
        ok(dir.path(), &["train", "digits", "--epochs", "1", "--seed", seed, "--out", out]);
        fs::read(dir.path().join(out)).unwrap()
    };
    let first = run("5", "a.safetensors");
    assert_eq!(first, run("5", "b.safetensors"));
    assert_ne!(first, run("6", "c.safetensors"));
}

#[test]
fn sine_and_json() {
    let dir = tempfile::tempdir().unwrap();
    let json = ok(dir.path(), &["train", "sine", "--json"]);
    assert!(json.starts_with(r#"{"task": "sine", "largest_error": 0.0"#) && json.lines().count() == 1, "{json}");
    assert!(ok(dir.path(), &["devices"]).starts_with("cpu"));
    assert!(ok(dir.path(), &["devices", "--json"]).contains(r#""name": "cpu""#));
    let scaling = ok(dir.path(), &["scaling", "--points", "10,20", "--out", "s.svg"]);
    assert!(scaling.contains("scalars") && scaling.contains("drew s.svg"), "{scaling}");
    assert!(ok(dir.path(), &["bench", "sum", "--seconds", "0.01"]).contains("GB/s"));
}

const VERSE: &str = "Tell me, where is fancy bred, or in the heart or in the head? How begot, how nourished?\n";

#[test]
fn a_small_gpt_learns_and_writes() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    fs::write(d.join("verse.txt"), VERSE.repeat(60)).unwrap();
    let small = ["--layers", "1", "--heads", "2", "--width", "16", "--context", "16", "--epochs", "1", "--lr", "0.01"];
    for kind in ["char", "byte", "bpe"] {
        let args = [&["train", "char-gpt", "--text", "verse.txt", "--tokenizer", kind, "--samples", "20"][..], &small]
            .concat();
        let said = ok(d, &args);
        assert!(said.contains("validation loss") && said.contains("saved gradus-gpt.safetensors"), "{said}");
        let wrote = ok(d, &["predict", "--model", "gradus-gpt.safetensors", "--prompt", "Tell", "--length", "12"]);
        assert!(wrote.starts_with("Tell") && wrote.len() > 10, "{wrote}");
    }
    refused(d, &["predict", "--model", "gradus-gpt.safetensors", "x.png"], "give it --prompt TEXT");
    refused(d, &[&["train", "char-gpt", "--text", "verse.txt", "--prompt", "Ω"][..], &small].concat(), "has no 'Ω'");
}

/// Stops a run by a signal once it has said something.
#[cfg(unix)]
fn stopped(dir: &Path, args: &[&str], signal: &str) -> Output {
    use std::io::{BufRead, BufReader};
    let mut child = Command::new(env!("CARGO_BIN_EXE_gradus"))
        .args(args)
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    lines.find(|l| l.as_ref().is_ok_and(|l| l.starts_with("epoch 2/")));
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    // What it still says must have somewhere to go.
    lines.for_each(drop);
    child.wait_with_output().unwrap()
}

#[cfg(unix)]
#[test]
fn ctrl_c_saves_and_resuming_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let base = ["train", "digits", "--epochs", "6", "--seed", "3"];
    ok(d, &[&base[..], &["--out", "whole.safetensors"]].concat());
    let whole = fs::read(d.join("whole.safetensors")).unwrap();
    for signal in ["-INT", "-TERM"] {
        let folder = format!("run{signal}");
        let kept = [&base[..], &["--out", "part.safetensors", "--checkpoint", &folder]].concat();
        let o = stopped(d, &kept, signal);
        let said = text(&o.stdout);
        assert_eq!(o.status.code(), Some(130), "{said}");
        assert!(said.contains("stopped early by Ctrl-C") && said.contains("add --resume to go on"), "{said}");
        assert_ne!(fs::read(d.join("part.safetensors")).unwrap(), whole);
        refused(d, &kept, "add --resume to go on with it");
        let other = [&kept[..], &["--resume", "--batch-size", "32"]].concat();
        refused(d, &other, "made with --batch-size 64, not 32");
        ok(d, &[&kept[..], &["--resume"]].concat());
        assert_eq!(fs::read(d.join("part.safetensors")).unwrap(), whole, "resumed after {signal}");
    }
    // Without checkpoints, what was learned so far is saved all the same.
    let o = stopped(d, &[&base[..], &["--out", "early.safetensors"]].concat(), "-INT");
    assert_eq!(o.status.code(), Some(130));
    assert!(d.join("early.safetensors").exists());
}

//! A run over a folder of sample files.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::file::OpFile;
use super::report::Report;
use super::run::{Backend, run_file};

/// What to run, and how much to print.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only these operators; all if empty.
    pub only: Vec<String>,
    /// Print also what is right.
    pub verbose: bool,
    /// Only every n-th file, from this one on: `(first, n)`.
    pub shard: Option<(usize, usize)>,
}

/// Runs every sample file in `dir`, in the order of their names, and prints to
/// `out`; the last line is the count. An error if there is nothing to run.
pub fn run_folder<B: Backend>(
    backend: &B,
    dir: &Path,
    options: &Options,
    out: &mut impl Write,
) -> Result<Report, String> {
    let mut wanted: BTreeSet<&str> = options.only.iter().map(String::as_str).collect();
    let only = wanted.clone();
    let mut report = Report::default();
    let (first, step) = options.shard.unwrap_or((0, 1));
    for path in files(dir)?.into_iter().skip(first).step_by(step.max(1)) {
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or("");
        let printed = match OpFile::read(&path) {
            Ok(file) => {
                if !only.is_empty() && !only.contains(file.op.as_str()) {
                    continue;
                }
                wanted.remove(file.op.as_str());
                let outcomes = run_file(backend, &file);
                report.op(out, &file.op, &outcomes, options.verbose)
            }
            // The name within the file is the operator's, but it cannot be had.
            Err(reason) if only.is_empty() || only.contains(stem) => {
                wanted.remove(stem);
                report.unreadable(out, &reason)
            }
            Err(_) => continue,
        };
        printed.map_err(|e| format!("printing: {e}"))?;
    }
    if let Some(name) = wanted.first() {
        return Err(format!("{} has no samples of {name}", dir.display()));
    }
    writeln!(out, "{report}").map_err(|e| format!("printing: {e}"))?;
    Ok(report)
}

fn files(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let name = dir.display();
    let entries = std::fs::read_dir(dir).map_err(|e| format!("{name}: {e}"))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| format!("{name}: {e}"))?.path();
        if path.extension().is_some_and(|e| e == "safetensors") {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(format!("{name} has no .safetensors files"));
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::super::gradus::Gradus;
    use super::super::testing::{file, write};
    use super::*;

    const CASE: &str = r#"[{"args": [], "kwargs": {}, "outs": 0, "grads": []}]"#;

    fn run(dir: &Path, only: &[&str]) -> (Result<Report, String>, String) {
        let options = Options { only: only.iter().map(|s| s.to_string()).collect(), verbose: false, shard: None };
        let mut out = Vec::new();
        let report = run_folder(&Gradus::default(), dir, &options, &mut out);
        (report, String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_folder() {
        let files = [
            ("b.safetensors", file("b", CASE, &[])),
            ("a.safetensors", file("a", CASE, &[])),
            ("c.safetensors", b"junk".to_vec()),
            ("index.json", b"{}".to_vec()),
        ];
        let dir = write("a_folder", &files);
        let (report, out) = run(&dir, &[]);
        assert!(!report.unwrap().all_right());
        let lines: Vec<_> = out.lines().collect();
        assert_eq!(lines[0], "a: no such op");
        assert!(lines[2].contains("c.safetensors: not a safetensors file"));
        assert_eq!(lines[3], "opinfo: 0 of 3 ops, 0 of 2 cases");

        let (report, out) = run(&dir, &["b"]);
        report.unwrap();
        assert!(out.ends_with("opinfo: 0 of 1 ops, 0 of 1 cases\n"), "{out}");
        let (report, _) = run(&dir, &["b", "zz"]);
        assert!(report.unwrap_err().ends_with("has no samples of zz"));
    }

    #[test]
    fn nothing_to_run() {
        let dir = write("nothing_to_run", &[]);
        let (report, _) = run(&dir, &[]);
        assert!(report.unwrap_err().contains("no .safetensors files"));
        let (report, _) = run(&dir.join("absent"), &[]);
        assert!(report.is_err());
    }
}

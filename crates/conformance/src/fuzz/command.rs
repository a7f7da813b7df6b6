//! `gradus-conformance fuzz READER [--seconds N] [--seed N]`.

use super::{Seeds, check, readers};
use std::{
    env, fs,
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

/// What the command takes.
pub const USAGE: &str = "gradus-conformance fuzz all|READER [--seconds N] [--seed N]";
/// Set for the child: the file where it notes the number of each case before it reads it.
const NOTE: &str = "GRADUS_FUZZ_NOTE";

struct Options {
    readers: Vec<&'static readers::Reader>,
    seconds: f64,
    seed: u64,
    from: u64,
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut o = Options { readers: vec![], seconds: 60.0, seed: 0, from: 0 };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || {
            args.next().and_then(|a| a.parse::<f64>().ok()).filter(|n| *n >= 0.0).ok_or(format!("{arg} needs a number"))
        };
        match arg.as_str() {
            "--seconds" => o.seconds = number()?,
            "--seed" => o.seed = number()? as u64,
            "--from" => o.from = number()? as u64,
            "all" => o.readers.extend(&readers::READERS),
            name => match readers::READERS.iter().find(|r| r.name == name) {
                Some(r) => o.readers.push(r),
                None => {
                    let names: Vec<&str> = readers::READERS.iter().map(|r| r.name).collect();
                    return Err(format!("no reader {name}; there are {}", names.join(", ")));
                }
            },
        }
    }
    if o.readers.is_empty() { Err("no reader given".into()) } else { Ok(o) }
}

/// Runs the command.
pub fn run(args: &[String]) -> ExitCode {
    let outcome = parse(args).and_then(|o| match env::var_os(NOTE) {
        Some(note) => child(&o, Path::new(&note)),
        None => parent(&o),
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}; usage: {USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parent(o: &Options) -> Result<bool, String> {
    let mut clean = true;
    for reader in &o.readers {
        let seeds = Seeds::new(reader)?;
        let end = Instant::now() + Duration::from_secs_f64(o.seconds);
        let note = env::temp_dir().join(format!("gradus-fuzz-{}-{}", reader.name, std::process::id()));
        let (mut from, mut found) = (o.from, 0);
        loop {
            let left = end.saturating_duration_since(Instant::now()).as_secs_f64();
            let program = env::current_exe().map_err(|e| e.to_string())?;
            let numbers = [left.to_string(), o.seed.to_string(), from.to_string()];
            let flags = ["--seconds", "--seed", "--from"].into_iter().zip(&numbers).flat_map(|(f, n)| [f, n.as_str()]);
            let status = Command::new(program).args(["fuzz", reader.name]).args(flags).env(NOTE, &note).status();
            let code = status.map_err(|e| e.to_string())?.code();
            let at = noted(&note).unwrap_or(from);
            if code == Some(0) {
                println!("{:12} {} damaged files read, {found} found", reader.name, at + 1 - o.from);
                break;
            }
            // 1 is a finding that the child described; anything else is its death.
            let path = keep(reader, &seeds.case(o.seed, at))?;
            let how = if code == Some(1) { "" } else { "the process died; " };
            println!("{:12} case {at}: {how}kept as {}", reader.name, path.display());
            (from, found, clean) = (at + 1, found + 1, false);
        }
        let _ = fs::remove_file(&note); // a note that stays in the temporary folder harms nobody
    }
    Ok(clean)
}

fn noted(note: &Path) -> Option<u64> {
    Some(u64::from_le_bytes(fs::read(note).ok()?.try_into().ok()?))
}

fn keep(reader: &readers::Reader, bytes: &[u8]) -> Result<PathBuf, String> {
    let folder = readers::root().join(reader.corpus);
    let path = folder.join(format!("{}-{:08x}", reader.name, crc32fast::hash(bytes)));
    fs::create_dir_all(&folder).and_then(|()| fs::write(&path, bytes)).map_err(|e| e.to_string())?;
    Ok(path)
}

fn child(o: &Options, note: &Path) -> Result<bool, String> {
    let reader = o.readers.first().ok_or("no reader")?;
    let seeds = Seeds::new(reader)?;
    std::panic::set_hook(Box::new(|_| {}));
    let wrong = |e: io::Error| e.to_string();
    let mut file = fs::File::create(note).map_err(wrong)?;
    let start = Instant::now();
    let (mut number, mut accepted) = (o.from, 0u64);
    loop {
        file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&number.to_le_bytes())).map_err(wrong)?;
        match check(reader, &seeds.case(o.seed, number)) {
            Ok(ok) => accepted += u64::from(ok),
            Err(why) => {
                println!("{:12} case {number}: {why}", reader.name);
                return Ok(false);
            }
        }
        if start.elapsed().as_secs_f64() >= o.seconds {
            println!("{:12} {accepted} of {} were still valid files", reader.name, number + 1 - o.from);
            return Ok(true);
        }
        number += 1;
    }
}

//! Two processes that take turns at every case, ours and PyTorch's: the machine changes within seconds, so one whole list after the
//! other compares minutes, not programs.
//!
//! Each side says `ready NAME` and waits. `go` makes it time the case and print `NAME MS`, as often as it is said; `next` sends it on.

use crate::phase;
use std::{
    io::{BufRead, BufReader, Lines, Write, stdin, stdout},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

/// Tells a process to take turns.
pub const VARIABLE: &str = "GRADUS_BENCH_TURNS";

/// Threads of the side that just went wait awake for a while.
const REST: Duration = Duration::from_millis(6);

/// How long a side runs before it is timed, where sides take turns: the system takes some milliseconds to give every thread a core again.
pub const WAKING: Duration = Duration::from_millis(10);

/// Whether this process takes turns.
pub fn asked() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// One side's end: says that a case is ready, and times it as often as it is told to.
pub fn serve<E>(name: &str, mut time: impl FnMut() -> Result<f64, E>) -> Result<(), E> {
    println!("ready {name}");
    for line in stdin().lines() {
        match line.as_deref() {
            Ok("go") => println!("{name} {:.5}", time()?),
            _ => break,
        }
        // The other end may be gone, and then the next line will say so.
        _ = stdout().flush();
    }
    Ok(())
}

/// The other end of a side.
pub struct Side {
    what: String,
    child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Side {
    pub fn start(mut command: Command) -> Result<Side, String> {
        let what = command.get_program().display().to_string();
        command.env(VARIABLE, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("{what}: {e}"))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{what}: no pipes"));
        };
        Ok(Side { what, child, to, from: BufReader::new(from).lines() })
    }

    /// The next line, if there is one.
    fn line(&mut self) -> Result<Option<String>, String> {
        self.from.next().transpose().map_err(|e| format!("{}: {e}", self.what))
    }

    fn say(&mut self, word: &str) -> Result<(), String> {
        writeln!(self.to, "{word}").map_err(|e| format!("{}: {e}", self.what))
    }

    /// The case that comes next; none at the end.
    fn ready(&mut self) -> Result<Option<String>, String> {
        if let Some(line) = self.line()? {
            let name = line.strip_prefix("ready ").ok_or_else(|| format!("{}: what is {line:?}?", self.what))?;
            return Ok(Some(name.into()));
        }
        let status = self.child.wait().map_err(|e| format!("{}: {e}", self.what))?;
        if status.success() { Ok(None) } else { Err(format!("{}: {status}", self.what)) }
    }

    /// Milliseconds of one turn.
    fn turn(&mut self) -> Result<f64, String> {
        std::thread::sleep(REST);
        self.say("go")?;
        let line = self.line()?.ok_or_else(|| format!("{}: ended in the middle of a case", self.what))?;
        let ms = line.rsplit_once(' ').and_then(|(_, ms)| ms.parse().ok());
        ms.ok_or_else(|| format!("{}: no figure in {line:?}", self.what))
    }
}

/// A case as both sides timed it.
pub struct Timed {
    pub name: String,
    /// The medians of both sides' turns.
    pub theirs: f64,
    pub ours: f64,
    /// The median over the turns of PyTorch's time over ours.
    pub ratio: f64,
    /// Nanoseconds from core to core, just after.
    pub distance: Option<f64>,
}

/// Turns of a case in which ours was behind after the first ones, at least.
const AGAIN: usize = 7;

/// Takes `rounds` turns at every case, and more of them where ours is behind: one turn may have met a neighbour.
pub fn take(mut ours: Side, mut theirs: Side, rounds: usize) -> Result<Vec<Timed>, String> {
    let mut all = vec![];
    loop {
        let name = match (ours.ready()?, theirs.ready()?) {
            (None, None) => return Ok(all),
            (Some(a), Some(b)) if a == b => a,
            (a, b) => {
                let name = |x: Option<String>| x.unwrap_or_else(|| "nothing".into());
                return Err(format!("ours comes to {}, PyTorch to {}", name(a), name(b)));
            }
        };
        let (mut o, mut t, mut ratios) = (vec![], vec![], vec![]);
        let mut go = || -> Result<f64, String> {
            // Who goes second finds what the first left in the caches: each does in its turn.
            let (a, b) = if ratios.len() % 2 == 0 {
                let a = ours.turn()?;
                (a, theirs.turn()?)
            } else {
                let b = theirs.turn()?;
                (ours.turn()?, b)
            };
            o.push(a);
            t.push(b);
            ratios.push(b / a);
            Ok(crate::median(&ratios))
        };
        let mut ratio = 0.0;
        for _ in 0..rounds {
            ratio = go()?;
        }
        if ratio < 1.0 {
            for _ in rounds..AGAIN.max(2 * rounds) {
                ratio = go()?;
            }
        }
        ours.say("next")?;
        theirs.say("next")?;
        all.push(Timed { name, theirs: crate::median(&t), ours: crate::median(&o), ratio, distance: phase::latency() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A side that has two cases, and is twice as slow at the second.
    fn side(second: &str) -> Side {
        let script = format!(
            "echo ready a; while read w && [ $w = go ]; do echo a 2.0; done
             echo ready {second}; while read w && [ $w = go ]; do echo {second} 4.0; done"
        );
        let mut c = Command::new("sh");
        c.args(["-c", &script]);
        Side::start(c).unwrap()
    }

    #[test]
    #[cfg(unix)]
    fn sides_go_in_step() {
        let _alone = crate::allocations::alone();
        let all = take(side("b"), side("b"), 2).unwrap();
        let names: Vec<&str> = all.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!((all[1].theirs, all[1].ours, all[1].ratio), (4.0, 4.0, 1.0));
        let error = take(side("b"), side("c"), 1).err().unwrap();
        assert!(error.contains("ours comes to b, PyTorch to c"), "{error}");
    }

    #[test]
    #[cfg(unix)]
    fn a_side_that_fails_is_said() {
        let _alone = crate::allocations::alone();
        let mut c = Command::new("sh");
        c.args(["-c", "echo ready a; exit 3"]);
        let error = take(side("b"), Side::start(c).unwrap(), 1).err().unwrap();
        assert!(error.starts_with("sh:"), "{error}");
    }
}

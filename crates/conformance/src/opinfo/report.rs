//! Counting and printing results.

use std::fmt;
use std::io::{self, Write};

use super::run::Outcome;

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    ops: usize,
    ops_right: usize,
    cases: usize,
    cases_right: usize,
}

impl Report {
    /// Counts the outcomes of an operator's cases and prints its lines: each
    /// failure, and with `verbose` that it is `ok`.
    pub fn op(&mut self, out: &mut impl Write, op: &str, outcomes: &[Outcome], verbose: bool) -> io::Result<()> {
        let right = outcomes.iter().filter(|o| **o == Outcome::Right).count();
        self.ops += 1;
        self.cases += outcomes.len();
        self.cases_right += right;
        if outcomes.is_empty() {
            return writeln!(out, "{op}: FAIL the file has no cases");
        }
        if right == outcomes.len() {
            self.ops_right += 1;
            if verbose {
                writeln!(out, "{op}: ok ({right} cases)")?;
            }
            return Ok(());
        }
        if outcomes.contains(&Outcome::NoSuchOp) {
            return writeln!(out, "{op}: no such op");
        }
        for (k, outcome) in outcomes.iter().enumerate() {
            if let Outcome::Wrong(reason) = outcome {
                writeln!(out, "{op}: FAIL case {k}: {reason}")?;
            }
        }
        Ok(())
    }

    /// Counts a file that could not be read as an operator that fails.
    pub fn unreadable(&mut self, out: &mut impl Write, reason: &str) -> io::Result<()> {
        self.ops += 1;
        writeln!(out, "FAIL {reason}")
    }

    /// Whether everything was right.
    pub fn all_right(&self) -> bool {
        self.ops == self.ops_right
    }
}

/// The last line of a run.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "opinfo: {} of {} ops, {} of {} cases", self.ops_right, self.ops, self.cases_right, self.cases)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_lines() {
        let mut report = Report::default();
        let mut out = Vec::new();
        let wrong = || Outcome::Wrong("too long".to_string());
        report.op(&mut out, "a", &[Outcome::Right], true).unwrap();
        report.op(&mut out, "b", &[Outcome::Right], false).unwrap();
        assert!(report.all_right());
        report.op(&mut out, "c", &[Outcome::Right, wrong()], false).unwrap();
        report.op(&mut out, "d", &vec![Outcome::NoSuchOp; 3], false).unwrap();
        report.op(&mut out, "e", &[], false).unwrap();
        report.unreadable(&mut out, "f: junk").unwrap();
        assert!(!report.all_right());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "a: ok (1 cases)\nc: FAIL case 1: too long\nd: no such op\n\
             e: FAIL the file has no cases\nFAIL f: junk\n"
        );
        assert_eq!(report.to_string(), "opinfo: 2 of 6 ops, 3 of 7 cases");
    }
}

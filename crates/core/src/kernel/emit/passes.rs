//! The passes of a kernel over its rows, and the order in which reductions combine.

use super::{
    body::{Body, Dialect, shared_name},
    schedule::Pass,
};
use crate::{
    Result,
    kernel::{InstKind, Val},
};

/// A pass's own name for something: passes share a scope.
fn own(p: &Pass, name: &str) -> String {
    p.reduces.first().map_or(name.into(), |v| format!("{name}{v}"))
}

impl<D: Dialect> Body<'_, D> {
    /// One pass: what becomes known before it, then its loop.
    pub fn pass(&mut self, p: &Pass) -> Result<()> {
        for &v in &p.rows {
            self.inst(v)?;
        }
        if p.elems.is_empty() {
            return Ok(());
        }
        if p.reduces.is_empty() {
            return self.elements(p);
        }
        let rounds = self.s.rounds();
        if rounds == 1 {
            let done = self.round(p, "0")?;
            for (&v, value) in p.reduces.iter().zip(done) {
                let text = self.d.define(self.register(v), &format!("v{v}"), &value);
                self.line(&text);
            }
            return self.release(p);
        }
        // Rounds are combined pairwise, neighbours first, as they come: level `n` of the stack holds 2^n of them.
        let depth = rounds.ilog2() as usize + 1;
        for &v in &p.reduces {
            let text = self.d.array(self.register(v), &format!("n{v}"), depth);
            self.line(&text);
        }
        let head = self.d.count("k", "0", &rounds.to_string(), "1");
        self.open(&head);
        let done = self.round(p, "k")?;
        for (&v, value) in p.reduces.iter().zip(done) {
            let text = self.d.variable(self.register(v), &format!("t{v}"), &value);
            self.line(&text);
        }
        self.release(p)?;
        let text = self.d.variable(self.d.index(), "level", "0");
        self.line(&text);
        let text = self.d.variable(self.d.index(), "full", "k");
        self.line(&text);
        self.open("while ((full & 1) != 0)");
        for &v in &p.reduces {
            let both = self.combine(v, &format!("n{v}[level]"), &format!("t{v}"))?;
            self.line(&format!("t{v} = {both};"));
        }
        self.line("level = level + 1;");
        self.line("full = full / 2;");
        self.close();
        for &v in &p.reduces {
            self.line(&format!("n{v}[level] = t{v};"));
        }
        self.close();
        for &v in &p.reduces {
            let mut left = (0..depth).filter(|l| rounds >> l & 1 == 1);
            let start = left.next().unwrap_or(0);
            let text = self.d.variable(self.register(v), &format!("v{v}"), &format!("n{v}[{start}]"));
            self.line(&text);
            for l in left {
                let both = self.combine(v, &format!("n{v}[{l}]"), &format!("v{v}"))?;
                self.line(&format!("v{v} = {both};"));
            }
        }
        Ok(())
    }

    /// A pass that only stores.
    fn elements(&mut self, p: &Pass) -> Result<()> {
        if self.s.cols == 1 && self.s.kernel.reduce.is_empty() && !self.s.reduces() {
            return p.elems.iter().try_for_each(|&v| self.inst(v));
        }
        let cols = self.s.cols.to_string();
        let head = match self.s.by_block {
            true => self.d.count("c", "tid", &cols, &self.s.threads.to_string()),
            false => self.d.count("c", "0", &cols, "1"),
        };
        self.open(&head);
        self.unravel(false);
        for &v in &p.elems {
            self.inst(v)?;
        }
        self.close();
        Ok(())
    }

    /// One round of chunks: expressions for its results.
    fn round(&mut self, p: &Pass, round: &str) -> Result<Vec<String>> {
        match self.s.by_block {
            true => self.round_by_block(p, round),
            false => self.round_by_thread(p, round),
        }
    }

    /// The columns of one chunk: `(first, below)`.
    fn chunk_ends(&mut self, p: &Pass, number: &str) -> (String, String) {
        let s = self.s;
        if s.chunks == 1 {
            return ("0".into(), s.cols.to_string());
        }
        let (from, to) = (own(p, "from"), own(p, "to"));
        self.define_index(&from, &format!("{number} * {}", s.chunk));
        if s.cols.is_multiple_of(s.chunk) && s.chunks.is_multiple_of(s.groups) {
            self.define_index(&to, &format!("{from} + {}", s.chunk));
            return (from, to);
        }
        let end = self.d.variable(self.d.index(), &to, &format!("{from} + {}", s.chunk));
        self.line(&end);
        self.line(&format!("if ({to} > {0}) {{ {to} = {0}; }}", s.cols));
        (from, to)
    }

    fn round_by_thread(&mut self, p: &Pass, round: &str) -> Result<Vec<String>> {
        let lanes = self.s.lanes;
        let (from, to) = self.chunk_ends(p, round);
        for &v in &p.reduces {
            let (ty, start) = (self.register(v), self.identity(v));
            if lanes == 1 {
                let text = self.d.variable(ty, &format!("a{v}"), &start);
                self.line(&text);
            } else {
                let text = self.d.array(ty, &format!("a{v}"), lanes);
                self.line(&text);
                let head = self.d.count("l", "0", &lanes.to_string(), "1");
                self.line(&format!("{head} {{ a{v}[l] = {start}; }}"));
            }
        }
        let head = self.d.count("c", &from, &to, "1");
        let lane = |v: Val| if lanes == 1 { format!("a{v}") } else { format!("a{v}[c % {lanes}]") };
        self.walk(p, &head, lane)?;
        if lanes > 1 {
            let half = own(p, "half");
            let text = self.d.variable(self.d.index(), &half, &(lanes / 2).to_string());
            self.line(&text);
            self.open(&format!("while ({half} > 0)"));
            let head = self.d.count("l", "0", &half, "1");
            self.open(&head);
            for &v in &p.reduces {
                let both = self.combine(v, &format!("a{v}[l]"), &format!("a{v}[l + {half}]"))?;
                self.line(&format!("a{v}[l] = {both};"));
            }
            self.close();
            self.line(&format!("{half} = {half} / 2;"));
            self.close();
        }
        let done = |&v: &Val| if lanes == 1 { format!("a{v}") } else { format!("a{v}[0]") };
        Ok(p.reduces.iter().map(done).collect())
    }

    /// The loop over elements of a chunk, each reduction into its accumulator.
    fn walk(&mut self, p: &Pass, head: &str, accumulator: impl Fn(Val) -> String) -> Result<()> {
        self.open(head);
        self.unravel(false);
        for &v in &p.elems {
            if let InstKind::Reduce(_, x) = self.s.kernel.insts[v].kind {
                let a = accumulator(v);
                let both = self.combine(v, &a, &format!("v{x}"))?;
                self.line(&format!("{a} = {both};"));
            } else {
                self.inst(v)?;
            }
        }
        self.close();
        Ok(())
    }

    fn shared(&self, p: &Pass, v: Val) -> String {
        let slot = p.reduces.iter().position(|&u| u == v).unwrap_or(0);
        shared_name(self.register(v), slot)
    }

    fn round_by_block(&mut self, p: &Pass, round: &str) -> Result<Vec<String>> {
        let s = self.s;
        // A thread is a lane of a group; where there is one of either, the other is the thread itself.
        let (lane, group) = match (s.lanes, s.groups) {
            (_, 1) => ("tid", "0"),
            (1, _) => ("0", "tid"),
            _ => ("lane", "group"),
        };
        let number = match (s.groups, round) {
            (1, _) => round.to_string(),
            (_, "0") => group.into(),
            (g, _) => format!("({round} * {g} + {group})"),
        };
        let (from, to) = self.chunk_ends(p, &number);
        for &v in &p.reduces {
            let text = self.d.variable(self.register(v), &format!("a{v}"), &self.identity(v));
            self.line(&text);
        }
        let first = match (&from[..], lane) {
            ("0", _) => lane.into(),
            (_, "0") => from,
            _ => format!("{from} + {lane}"),
        };
        let head = self.d.count("c", &first, &to, &s.lanes.to_string());
        self.walk(p, &head, |v| format!("a{v}"))?;
        for &v in &p.reduces {
            let sh = self.shared(p, v);
            self.line(&format!("{sh}[tid] = a{v};"));
        }
        self.line(self.d.barrier());
        if s.lanes > 1 {
            let half = own(p, "half");
            let text = self.d.variable(self.d.index(), &half, &(s.lanes / 2).to_string());
            self.line(&text);
            self.open(&format!("while ({half} > 0)"));
            self.open(&format!("if ({lane} < {half})"));
            self.meet(p, &format!("tid + {half}"))?;
            self.close();
            self.line(self.d.barrier());
            self.line(&format!("{half} = {half} / 2;"));
            self.close();
        }
        if s.groups > 1 {
            let near = own(p, "near");
            let text = self.d.variable(self.d.index(), &near, "1");
            self.line(&text);
            self.open(&format!("while ({near} < {})", s.groups));
            let (leads, by) = match s.lanes {
                1 => (String::new(), String::new()),
                n => ("lane == 0 && ".into(), format!(" * {n}")),
            };
            self.open(&format!("if ({leads}{group} % (2 * {near}) == 0 && {number} + {near} < {})", s.chunks));
            self.meet(p, &format!("tid + {near}{by}"))?;
            self.close();
            self.line(self.d.barrier());
            self.line(&format!("{near} = {near} * 2;"));
            self.close();
        }
        Ok(p.reduces.iter().map(|&v| format!("{}[0]", self.shared(p, v))).collect())
    }

    /// Each thread's shared values combined with those of another.
    fn meet(&mut self, p: &Pass, other: &str) -> Result<()> {
        for &v in &p.reduces {
            let sh = self.shared(p, v);
            let both = self.combine(v, &format!("{sh}[tid]"), &format!("{sh}[{other}]"))?;
            self.line(&format!("{sh}[tid] = {both};"));
        }
        Ok(())
    }

    /// Shared memory has been read by all: it may be written again.
    fn release(&mut self, p: &Pass) -> Result<()> {
        if self.s.by_block && !p.reduces.is_empty() {
            self.line(self.d.barrier());
        }
        Ok(())
    }
}

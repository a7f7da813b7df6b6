//! Finding the pairs to join.

use super::bpe::pieces;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
};

type Pair = (u32, u32);

/// A word as tokens, and how often it comes.
struct Word {
    tokens: Vec<u32>,
    count: i64,
}

/// How often each pair comes, and in which words.
#[derive(Default)]
struct Pairs {
    counts: HashMap<Pair, i64>,
    words: HashMap<Pair, HashSet<usize>>,
    /// Counts that were right once, the largest first; one that is not right any more is skipped.
    queue: BinaryHeap<(i64, Reverse<Pair>)>,
}

impl Pairs {
    fn add(&mut self, word: usize, tokens: &[u32], by: i64, changed: &mut Vec<Pair>) {
        for pair in tokens.windows(2).filter_map(|w| Some((*w.first()?, *w.get(1)?))) {
            *self.counts.entry(pair).or_insert(0) += by;
            if by > 0 {
                self.words.entry(pair).or_default().insert(word);
            }
            changed.push(pair);
        }
    }

    fn requeue(&mut self, mut changed: Vec<Pair>) {
        changed.sort_unstable();
        changed.dedup();
        for pair in changed {
            match self.counts.get(&pair) {
                Some(&n) if n > 0 => self.queue.push((n, Reverse(pair))),
                _ => {
                    self.counts.remove(&pair);
                    self.words.remove(&pair);
                }
            }
        }
    }

    /// The most frequent pair; of equal ones, the smallest.
    fn best(&mut self) -> Option<(Pair, i64)> {
        while let Some((n, Reverse(pair))) = self.queue.pop() {
            if self.counts.get(&pair) == Some(&n) {
                return Some((pair, n));
            }
        }
        None
    }
}

/// At most `count` pairs, in the order of joining; pairs that come once are not worth a token.
pub(super) fn train(text: &[u8], count: usize) -> Vec<Pair> {
    let mut distinct: HashMap<&[u8], i64> = HashMap::new();
    pieces(text).for_each(|p| *distinct.entry(p).or_insert(0) += 1);
    let word = |(p, count): (&[u8], i64)| Word { tokens: p.iter().map(|&b| u32::from(b)).collect(), count };
    let mut words: Vec<Word> = distinct.into_iter().map(word).collect();
    let mut pairs = Pairs::default();
    let mut changed = vec![];
    for (i, w) in words.iter().enumerate() {
        pairs.add(i, &w.tokens, w.count, &mut changed);
    }
    pairs.requeue(changed);
    let mut merges = vec![];
    while merges.len() < count {
        let Some((pair, n)) = pairs.best() else { break };
        if n < 2 {
            break;
        }
        let new = 256 + merges.len() as u32;
        merges.push(pair);
        let mut changed = vec![];
        for i in pairs.words.get(&pair).cloned().unwrap_or_default() {
            let Some(word) = words.get_mut(i) else { continue };
            pairs.add(i, &word.tokens, -word.count, &mut changed);
            word.tokens = joined(&word.tokens, pair, new);
            pairs.add(i, &word.tokens, word.count, &mut changed);
        }
        pairs.requeue(changed);
    }
    merges
}

fn joined(tokens: &[u32], pair: Pair, new: u32) -> Vec<u32> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while let Some(&t) = tokens.get(at) {
        let joins = tokens.get(at + 1).is_some_and(|&u| (t, u) == pair);
        out.push(if joins { new } else { t });
        at += if joins { 2 } else { 1 };
    }
    out
}

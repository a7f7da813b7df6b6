//! Byte-pair encoding over bytes: any content has tokens, and they give it back.

use super::{Tokenizer, bpe_train, no_token};
use gradus_core::{Error, Result};
use std::collections::HashMap;

/// The longest piece that is encoded as a unit, and so the longest token.
pub(super) const LONGEST: usize = 128;

/// Byte-pair encoding, trained on a text: tokens 0 to 255 are the bytes, each further one is two earlier ones joined.
///
/// Text is cut into words first (a word takes the space before it; letters, digits and signs stay apart), and tokens do
/// not cross the cuts, as in GPT-2.
///
/// ```
/// use gradus_data::text::{Bpe, Tokenizer};
/// let bpe = Bpe::train("low lower lowest", 259)?;
/// assert_eq!(bpe.token(256), Some(&b"lo"[..]));
/// assert_eq!(bpe.encode(b"low")?, [257]); // low
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bpe {
    merges: Vec<(u32, u32)>,
    ranks: HashMap<(u32, u32), u32>,
    tokens: Vec<Vec<u8>>,
}

impl Bpe {
    /// Joins the most frequent pair of tokens again and again until there are `vocab_size` tokens, or no pair comes twice.
    /// Of equally frequent pairs the one with the smaller numbers is joined: the same text gives the same tokens.
    #[track_caller]
    pub fn train(text: impl AsRef<[u8]>, vocab_size: usize) -> Result<Bpe> {
        if !(256..=1 << 24).contains(&vocab_size) {
            let why = format!("a vocabulary has the 256 bytes and at most 2^24 tokens, not {vocab_size}");
            return Err(Error::value("Bpe", why));
        }
        let merges = bpe_train::train(text.as_ref(), vocab_size - 256);
        Bpe::from_merges(merges).map_err(|(i, why)| Error::value("Bpe", format!("merge {i}: {why}")))
    }

    /// Checks the merges; an error names the one that is wrong.
    pub(super) fn from_merges(merges: Vec<(u32, u32)>) -> Result<Bpe, (usize, String)> {
        let mut tokens: Vec<Vec<u8>> = (0..=255u8).map(|b| vec![b]).collect();
        let mut ranks = HashMap::with_capacity(merges.len());
        for (i, &(a, b)) in merges.iter().enumerate() {
            let new = tokens.len();
            let part = |t: u32| tokens.get(t as usize).ok_or((i, format!("{t} is no token below {new}")));
            let joined = [part(a)?.as_slice(), part(b)?].concat();
            if joined.len() > LONGEST {
                return Err((i, format!("a token of {} bytes, and {LONGEST} is the most", joined.len())));
            }
            if ranks.insert((a, b), new as u32).is_some() {
                return Err((i, format!("the pair {a} {b} for the second time")));
            }
            tokens.push(joined);
        }
        Ok(Bpe { merges, ranks, tokens })
    }

    /// The pairs that were joined, in order; the first makes token 256.
    pub fn merges(&self) -> &[(u32, u32)] {
        &self.merges
    }

    /// The bytes of a token.
    pub fn token(&self, token: u32) -> Option<&[u8]> {
        self.tokens.get(token as usize).map(Vec::as_slice)
    }

    /// Joins the pair that was learned first, wherever it is, until no pair is known.
    fn encode_piece(&self, piece: &[u8], out: &mut Vec<u32>) {
        let mut parts: Vec<u32> = piece.iter().map(|&b| u32::from(b)).collect();
        let pair = |w: &[u32]| match w {
            &[a, b] => self.ranks.get(&(a, b)).copied(),
            _ => None,
        };
        while let Some(best) = parts.windows(2).filter_map(pair).min() {
            let mut kept = Vec::with_capacity(parts.len());
            let mut at = 0;
            while let Some(&token) = parts.get(at) {
                let joins = parts.get(at..at + 2).and_then(pair) == Some(best);
                kept.push(if joins { best } else { token });
                at += if joins { 2 } else { 1 };
            }
            parts = kept;
        }
        out.extend(parts);
    }
}

impl Tokenizer for Bpe {
    fn encode(&self, text: &[u8]) -> Result<Vec<u32>> {
        let mut out = Vec::with_capacity(text.len() / 3);
        // Words repeat: each is looked at once, with a limit on what is kept.
        let mut known: HashMap<&[u8], Vec<u32>> = HashMap::new();
        for piece in pieces(text) {
            if let Some(tokens) = known.get(piece) {
                out.extend_from_slice(tokens);
                continue;
            }
            let start = out.len();
            self.encode_piece(piece, &mut out);
            if known.len() < 1 << 16 {
                known.insert(piece, out.get(start..).unwrap_or_default().to_vec());
            }
        }
        Ok(out)
    }

    fn decode(&self, tokens: &[u32]) -> Result<Vec<u8>> {
        let mut out = vec![];
        for &t in tokens {
            out.extend_from_slice(self.token(t).ok_or_else(|| no_token(t, self.tokens.len()))?);
        }
        Ok(out)
    }

    fn vocab_size(&self) -> usize {
        self.tokens.len()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Class {
    Letter,
    Digit,
    Space,
    Sign,
}

fn class(b: u8) -> Class {
    match b {
        b'a'..=b'z' | b'A'..=b'Z' | 0x80.. | b'\'' => Class::Letter,
        b'0'..=b'9' => Class::Digit,
        b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => Class::Space,
        _ => Class::Sign,
    }
}

/// The pieces of a text: together they are the text.
pub(super) fn pieces(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let run = |from: usize, kind: Class| {
            rest.get(from..).unwrap_or_default().iter().take_while(|&&b| class(b) == kind).count()
        };
        // One space goes with the word behind it.
        let next = rest.get(1).map(|&b| class(b));
        let len = match (class(first), next) {
            (Class::Space, Some(kind)) if first == b' ' && kind != Class::Space => 1 + run(1, kind),
            (Class::Space, _) => {
                let spaces = run(0, Class::Space);
                let before_word = spaces < rest.len() && rest.get(spaces - 1) == Some(&b' ');
                if before_word && spaces > 1 { spaces - 1 } else { spaces }
            }
            (kind, _) => run(0, kind),
        };
        let (piece, after) = rest.split_at_checked(len.clamp(1, LONGEST)).unwrap_or((rest, &[]));
        rest = after;
        Some(piece)
    })
}

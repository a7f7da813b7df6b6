//! Each character that a text has is a token.

use super::{Tokenizer, no_token};
use gradus_core::{Error, Result};
use std::collections::BTreeMap;

/// The characters of a text, numbered in their order, as nanoGPT's character model does.
///
/// ```
/// use gradus_data::text::{CharTokenizer, Tokenizer};
/// let chars = CharTokenizer::new("hello")?;
/// assert_eq!(chars.vocabulary(), "ehlo");
/// assert_eq!(chars.encode(b"hole")?, [1, 3, 2, 0]);
/// assert!(chars.encode(b"help").is_err()); // there is no p
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CharTokenizer {
    chars: Vec<char>,
    numbers: BTreeMap<char, u32>,
}

impl CharTokenizer {
    /// The characters of a text, which must be UTF-8. [`CharTokenizer::vocabulary`] is such a text too.
    #[track_caller]
    pub fn new(text: impl AsRef<[u8]>) -> Result<CharTokenizer> {
        let text = utf8(text.as_ref(), "CharTokenizer")?;
        let mut numbers: BTreeMap<char, u32> = text.chars().map(|c| (c, 0)).collect();
        numbers.values_mut().zip(0..).for_each(|(n, i)| *n = i);
        Ok(CharTokenizer { chars: numbers.keys().copied().collect(), numbers })
    }

    /// All characters, by their numbers.
    pub fn vocabulary(&self) -> String {
        self.chars.iter().collect()
    }
}

#[track_caller]
fn utf8<'a>(text: &'a [u8], op: &str) -> Result<&'a str> {
    std::str::from_utf8(text).map_err(|e| {
        let why = format!("the text is not UTF-8 from byte {} on", e.valid_up_to());
        Error::value(op, why).hint("convert it, or use bytes or a Bpe as tokens")
    })
}

impl Tokenizer for CharTokenizer {
    fn encode(&self, text: &[u8]) -> Result<Vec<u32>> {
        let number = |(at, c): (usize, char)| {
            self.numbers
                .get(&c)
                .copied()
                .ok_or_else(|| Error::value("encode", format!("the vocabulary has no {c:?}, which is at byte {at}")))
        };
        utf8(text, "encode")?.char_indices().map(number).collect()
    }
    fn decode(&self, tokens: &[u32]) -> Result<Vec<u8>> {
        let char = |&t: &u32| self.chars.get(t as usize).copied().ok_or_else(|| no_token(t, self.chars.len()));
        Ok(tokens.iter().map(char).collect::<Result<String>>()?.into_bytes())
    }
    fn vocab_size(&self) -> usize {
        self.chars.len()
    }
}

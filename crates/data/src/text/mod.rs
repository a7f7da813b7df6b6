//! Texts as tokens: bytes, characters, or pieces found by byte-pair encoding; and windows of them to learn from.
//!
//! ```
//! use gradus_data::text::{Bpe, TextDataset, Tokenizer};
//! use gradus_data::Dataset;
//! let text = "to be or not to be, that is the question";
//! let bpe = Bpe::train(text, 270)?;
//! let tokens = bpe.encode(text.as_bytes())?;
//! assert!(tokens.len() < text.len());
//! assert_eq!(bpe.decode(&tokens)?, text.as_bytes());
//! let windows = TextDataset::new(tokens, 8)?;
//! let (x, y) = windows.get(0)?; // y is x, one token on
//! assert_eq!(x[1..], y[..7]);
//! # Ok::<(), gradus_core::Error>(())
//! ```

mod bpe;
mod bpe_file;
mod bpe_train;
mod chars;
mod windows;

use crate::{ReadResult, file};
use gradus_core::{Error, Result};
use std::path::Path;

pub use bpe::Bpe;
pub use chars::CharTokenizer;
pub use windows::TextDataset;

/// Text to numbers and back.
pub trait Tokenizer: Send + Sync {
    /// The tokens of a text.
    fn encode(&self, text: &[u8]) -> Result<Vec<u32>>;

    /// The text of tokens; a number that is no token is an error.
    fn decode(&self, tokens: &[u32]) -> Result<Vec<u8>>;

    /// How many tokens there are: they are the numbers below.
    fn vocab_size(&self) -> usize;

    /// The text of tokens to show; bytes that are no UTF-8 become `U+FFFD`.
    fn decode_lossy(&self, tokens: &[u32]) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.decode(tokens)?).into_owned())
    }
}

/// Each byte is its own token: 256 of them, for any content.
///
/// ```
/// use gradus_data::text::{ByteTokenizer, Tokenizer};
/// assert_eq!(ByteTokenizer.encode("é".as_bytes())?, [0xc3, 0xa9]);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteTokenizer;

impl Tokenizer for ByteTokenizer {
    fn encode(&self, text: &[u8]) -> Result<Vec<u32>> {
        Ok(text.iter().map(|&b| u32::from(b)).collect())
    }
    fn decode(&self, tokens: &[u32]) -> Result<Vec<u8>> {
        tokens.iter().map(|&t| u8::try_from(t).map_err(|_| no_token(t, 256))).collect()
    }
    fn vocab_size(&self) -> usize {
        256
    }
}

#[track_caller]
fn no_token(token: u32, size: usize) -> Error {
    Error::value("decode", format!("{token} is no token of a vocabulary of {size}"))
}

/// A text file's bytes, whatever their encoding.
pub fn load(path: impl AsRef<Path>) -> ReadResult<Vec<u8>> {
    file::read(path.as_ref())
}

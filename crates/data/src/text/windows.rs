//! Windows of a text: so many tokens, and the same ones shifted by one.

use crate::{Dataset, dataset::outside};
use gradus_core::{Error, Result};

/// Each item is a window of `block` tokens and what comes one token later: what a language model learns from.
#[derive(Clone, Debug)]
pub struct TextDataset {
    tokens: Vec<u32>,
    block: usize,
    stride: usize,
}

impl TextDataset {
    /// A window at every place.
    #[track_caller]
    pub fn new(tokens: Vec<u32>, block: usize) -> Result<TextDataset> {
        TextDataset::with_stride(tokens, block, 1)
    }

    /// A window every `stride` tokens; `stride` equal to `block` makes them touch and not overlap.
    #[track_caller]
    pub fn with_stride(tokens: Vec<u32>, block: usize, stride: usize) -> Result<TextDataset> {
        if block == 0 || stride == 0 {
            return Err(Error::value("TextDataset", "block and stride must be at least 1"));
        }
        if tokens.len() <= block {
            let why = format!("{} tokens are too few for a window of {block} and its successor", tokens.len());
            return Err(Error::value("TextDataset", why).hint("take a longer text or a smaller block"));
        }
        Ok(TextDataset { tokens, block, stride })
    }

    /// All tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

impl Dataset for TextDataset {
    type Item = (Vec<i64>, Vec<i64>);
    fn len(&self) -> usize {
        (self.tokens.len() - self.block - 1) / self.stride + 1
    }
    fn get(&self, index: usize) -> Result<Self::Item> {
        let start = index.checked_mul(self.stride).filter(|_| index < self.len());
        let window = start.and_then(|s| self.tokens.get(s..s + self.block + 1));
        let window = window.ok_or_else(|| outside("get", index, self.len()))?;
        let part = |w: Option<&[u32]>| w.unwrap_or_default().iter().map(|&t| i64::from(t)).collect();
        Ok((part(window.get(..self.block)), part(window.get(1..))))
    }
}

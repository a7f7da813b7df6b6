//! A small GPT: blocks of causal attention and dense layers, normalised before each.

use gradus::{
    AttentionOptions, Device, Error, Result, Tensor,
    data::text::{Bpe, ByteTokenizer, CharTokenizer, Tokenizer},
    io::{Meta, StateDict},
    nn::{Embedding, Layer, LayerNorm, Linear, Module, Param, init},
};

/// The sizes of a [`Gpt`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GptOptions {
    pub vocab: usize,
    pub context: usize,
    pub width: usize,
    pub heads: usize,
    pub layers: usize,
}

#[derive(Module)]
struct Block {
    norm1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
    heads: usize,
}

impl Block {
    fn new(o: &GptOptions) -> Result<Block> {
        let d = o.width;
        let block = Block {
            norm1: LayerNorm::new(d),
            qkv: Linear::new(d, 3 * d),
            proj: Linear::new(d, d),
            norm2: LayerNorm::new(d),
            up: Linear::new(d, 4 * d),
            down: Linear::new(4 * d, d),
            heads: o.heads,
        };
        // GPT-2's start: 0.02, and less where a residual sum of all layers is fed.
        let last = 0.02 / (2.0 * o.layers as f64).sqrt();
        for (linear, std) in [(&block.qkv, 0.02), (&block.proj, last), (&block.up, 0.02), (&block.down, last)] {
            normal(linear, std)?;
        }
        Ok(block)
    }

    fn attention(&self, x: &Tensor) -> Result<Tensor> {
        let &[b, t, d] = x.dims() else {
            return Err(Error::shape("attention", &[x.shape()], "takes [batch, time, width]").operand(x));
        };
        let qkv = self.qkv.forward(x)?.reshape([b, t, 3, self.heads, d / self.heads])?.permute([2, 0, 3, 1, 4])?;
        let part = |i| qkv.select(0, i);
        let causal = AttentionOptions { is_causal: true, ..Default::default() };
        let y = part(0)?.scaled_dot_product_attention(&part(1)?, &part(2)?, &causal)?;
        self.proj.forward(&y.permute([0, 2, 1, 3])?.reshape([b, t, d])?)
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.add(&self.attention(&self.norm1.forward(x)?)?)?;
        let h = self.up.forward(&self.norm2.forward(&x)?)?.gelu();
        x.add(&self.down.forward(&h)?)
    }
}

fn normal(linear: &Linear, std: f64) -> Result<()> {
    init::normal_(&linear.weight, 0.0, std)?;
    linear.bias.as_deref().map_or(Ok(()), init::zeros_)
}

/// Scores of the next token at every place of `[batch, time]` tokens.
#[derive(Module)]
pub struct Gpt {
    tokens: Embedding,
    places: Param,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
    #[module(skip)]
    options: GptOptions,
}

impl Gpt {
    pub fn new(options: GptOptions) -> Result<Gpt> {
        let o = &options;
        if !o.width.is_multiple_of(o.heads) {
            return Err(Error::value("gpt", format!("a width of {} does not divide into {} heads", o.width, o.heads)));
        }
        let tokens = Embedding::new(o.vocab, o.width);
        init::normal_(&tokens.weight, 0.0, 0.02)?;
        let head = Linear::new(o.width, o.vocab).bias(false);
        normal(&head, 0.02)?;
        Ok(Gpt {
            tokens,
            places: Param::new(Tensor::randn([o.context, o.width]) * 0.02),
            blocks: (0..o.layers).map(|_| Block::new(o)).collect::<Result<_>>()?,
            norm: LayerNorm::new(o.width),
            head,
            options,
        })
    }

    pub fn options(&self) -> &GptOptions {
        &self.options
    }

    /// Where it lives.
    pub fn device(&self) -> Device {
        self.places.device()
    }

    pub fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        let time = tokens.dims().last().copied().unwrap_or(0);
        let mut x = self.tokens.forward(tokens)?.add(&self.places.narrow(0, 0, time)?)?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        self.head.forward(&self.norm.forward(&x)?)
    }

    /// Its weights, its sizes and how it reads.
    pub fn state(&self, reader: &Reader) -> StateDict {
        let mut state = self.state_dict();
        let o = &self.options;
        let (kind, vocabulary) = match reader {
            Reader::Char(c) => ("char", c.vocabulary()),
            Reader::Byte(_) => ("byte", String::new()),
            Reader::Bpe(b) => ("bpe", b.to_text()),
        };
        let meta = state.metadata_mut();
        for (key, n) in [("context", o.context), ("width", o.width), ("heads", o.heads), ("layers", o.layers)] {
            meta.insert(key.into(), Meta::Int(n as i64));
        }
        for (key, text) in [("model", "char-gpt"), ("tokenizer", kind), ("vocabulary", &vocabulary)] {
            meta.insert(key.into(), text.into());
        }
        state
    }
}

/// How a text becomes tokens.
pub enum Reader {
    Char(CharTokenizer),
    Byte(ByteTokenizer),
    Bpe(Bpe),
}

/// Tokens that `--tokenizer bpe` learns, with the 256 bytes.
const BPE_TOKENS: usize = 512;

/// The tokenizer of a kind, for a text.
pub fn reader(kind: &str, text: &[u8]) -> Result<Reader> {
    Ok(match kind {
        "byte" => Reader::Byte(ByteTokenizer),
        "bpe" => Reader::Bpe(Bpe::train(text, BPE_TOKENS)?),
        _ => Reader::Char(CharTokenizer::new(text).map_err(|e| e.hint("try --tokenizer byte"))?),
    })
}

impl Reader {
    pub fn tokenizer(&self) -> &dyn Tokenizer {
        match self {
            Reader::Char(c) => c,
            Reader::Byte(b) => b,
            Reader::Bpe(b) => b,
        }
    }
}

/// A GPT from what [`Gpt::state`] gave.
pub fn restore(state: &StateDict) -> Result<(Gpt, Reader)> {
    let number = |key: &str| {
        let n = state.metadata().get(key).and_then(Meta::as_i64).and_then(|n| usize::try_from(n).ok());
        n.filter(|n| (1..=1 << 20).contains(n))
            .ok_or_else(|| Error::value("gpt", format!("the file does not say its {key}")))
    };
    let text = |key: &str| state.metadata().get(key).and_then(Meta::as_str).unwrap_or_default();
    let reader = match text("tokenizer") {
        "bpe" => Reader::Bpe(Bpe::from_text(text("vocabulary"))?),
        "byte" => Reader::Byte(ByteTokenizer),
        _ => Reader::Char(CharTokenizer::new(text("vocabulary"))?),
    };
    let vocab = reader.tokenizer().vocab_size();
    let options = GptOptions {
        vocab,
        context: number("context")?,
        width: number("width")?,
        heads: number("heads")?,
        layers: number("layers")?,
    };
    // Sizes come from a file: the tensors must be there before a model of that size is made.
    let shape = state.tensor("places")?.dims().to_vec();
    let blocks = state.names().filter(|n| n.ends_with(".qkv.weight")).count();
    if shape != [options.context, options.width] || blocks != options.layers {
        return Err(Error::value("gpt", "the sizes that the file states are not those of its tensors"));
    }
    let gpt = Gpt::new(options)?;
    gpt.load_state_dict(state)?;
    gpt.eval();
    Ok((gpt, reader))
}

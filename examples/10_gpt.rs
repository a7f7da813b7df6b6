//! A small GPT over characters: it learns to continue a text, then writes one. Layers from the library, and a cache of
//! keys and values so that writing a character costs one position and not all.
//!
//! cargo run --release --example 10_gpt [TEXT_FILE]      (without a file: the first act of Hamlet)

use gradus::{
    data::{
        DataLoader, LoaderOptions,
        text::{CharTokenizer, TextDataset, Tokenizer},
    },
    nn::{AttentionMasks, Embedding, FeedForwardActivation, LayerNorm, Linear, TransformerEncoder, TransformerOptions},
    optim::OneCycle,
    prelude::*,
};

const HAMLET: &str = include_str!("data/hamlet.txt");
/// Characters it looks back.
const CONTEXT: usize = 32;
const WIDTH: usize = 64;

#[derive(Module)]
struct Gpt {
    chars: Embedding,
    places: nn::Param,
    blocks: TransformerEncoder,
    head: Linear,
}

impl Gpt {
    fn new(vocab: usize) -> Result<Gpt> {
        let options = TransformerOptions {
            dim_feedforward: 4 * WIDTH,
            dropout: 0.0,
            activation: FeedForwardActivation::Gelu,
            batch_first: true,
            norm_first: true,
            ..Default::default()
        };
        let chars = Embedding::new(vocab, WIDTH);
        // Small, as the places are: PyTorch's start of 1 would drown them.
        nn::init::normal_(&chars.weight, 0.0, 0.02)?;
        Ok(Gpt {
            chars,
            places: nn::Param::new(Tensor::randn([CONTEXT, WIDTH]) * 0.02),
            // A decoder without a memory to look at is an encoder with a causal mask.
            blocks: TransformerEncoder::new(WIDTH, 4, 2, options)?.norm(LayerNorm::new(WIDTH)),
            head: Linear::new(WIDTH, vocab),
        })
    }

    /// Scores of the next character after each of `[n, t]`.
    fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        let x = self.chars.forward(tokens)?.add(&self.places.narrow(0, 0, tokens.dims()[1])?)?;
        self.head.forward(&self.blocks.forward(&x, &AttentionMasks::causal())?)
    }

    /// Continues `start` until the context is full.
    fn write(&self, start: &[u32], temperature: f64) -> Result<Vec<u32>> {
        let mut text = start.to_vec();
        let mut cache = self.blocks.cache(CONTEXT);
        for at in 0..CONTEXT {
            let token = Tensor::from([[i64::from(text[at])]]);
            let x = self.chars.forward(&token)?.add(&self.places.narrow(0, at, 1)?)?;
            let scores = self.head.forward(&self.blocks.forward_cached(&x, &mut cache)?)?.flatten(0, -1)?;
            if at + 1 == text.len() {
                let chances = (scores / temperature).softmax(0)?;
                text.push(chances.multinomial(1, true)?.item::<i64>()? as u32);
            }
        }
        Ok(text)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = match std::env::args().nth(1) {
        Some(path) => std::fs::read_to_string(path)?,
        None => HAMLET.to_string(),
    };
    let (loss, sample) = learn(&text, 600)?;
    println!("\n{sample}\n\nvalidation loss {loss:.3} nats a character");
    Ok(())
}

/// Learns a text for so many steps; the loss on its last tenth, and a sample.
pub fn learn(text: &str, steps: usize) -> Result<(f64, String)> {
    manual_seed(0);
    let chars = CharTokenizer::new(text)?;
    let vocab = chars.vocab_size();
    let tokens = chars.encode(text.as_bytes())?;
    let (train, test) = tokens.split_at(tokens.len() * 9 / 10);
    let batches = |tokens: &[u32], batch_size, shuffle| {
        let windows = TextDataset::new(tokens.to_vec(), CONTEXT)?;
        DataLoader::new(windows, LoaderOptions { batch_size, shuffle, drop_last: true, ..Default::default() })
    };
    let model = Gpt::new(vocab)?;
    println!("{} characters of {vocab} kinds, {} parameters", tokens.len(), model.num_parameters());
    let loss_of = |(x, y): &(Tensor, Tensor)| model.forward(x)?.flatten(0, 1)?.cross_entropy(&y.flatten(0, -1)?);
    let mut opt = AdamW::new(&model.parameters(), 3e-3);
    let mut schedule = LrScheduler::new(&mut opt, Schedule::OneCycle(OneCycle::new(3e-3, steps as u64)))?;
    for (step, batch) in batches(train, 16, true)?.iter().take(steps).enumerate() {
        let loss = loss_of(&batch?)?;
        opt.step(&loss.backward()?)?;
        schedule.step(&mut opt)?;
        if step % 100 == 0 {
            println!("step {step:4}: loss {:.3}", loss.item::<f64>()?);
        }
    }
    model.eval();
    let rest = batches(test, 32, true)?;
    let losses = rest.iter().take(10).map(|b| no_grad(|| loss_of(&b?))?.item::<f64>());
    let losses = losses.collect::<Result<Vec<_>>>()?;
    // Whole windows, one after the other; each begins where a line might.
    let lines = (0..8).map(|_| no_grad(|| model.write(&chars.encode(b"\n")?, 0.7)));
    let lines = lines.collect::<Result<Vec<_>>>()?.concat();
    Ok((losses.iter().sum::<f64>() / losses.len().max(1) as f64, chars.decode_lossy(&lines)?))
}

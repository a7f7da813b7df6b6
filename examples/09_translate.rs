//! Translation by an encoder-decoder transformer. The language is synthetic, with what makes translation hard: the order
//! of words changes, lengths differ, and adjectives take the ending of a noun that comes later.
//!
//!     the big old dog sees  ->  vedi lo kano bigo oldo        the old moon sleeps  ->  dormi lo luna olda
//!
//! cargo run --release --example 09_translate

use gradus::{
    data::Rng,
    nn::{Embedding, Linear, SinusoidalPosition, Transformer, TransformerMasks, TransformerOptions},
    prelude::*,
};

const NOUNS: [[&str; 2]; 6] =
    [["dog", "kano"], ["moon", "luna"], ["house", "kasa"], ["book", "libro"], ["tree", "arbo"], ["star", "stela"]];
const ADJECTIVES: [[&str; 2]; 5] = [["big", "big"], ["old", "old"], ["red", "rug"], ["wet", "mol"], ["new", "nov"]];
const VERBS: [[&str; 2]; 4] = [["sees", "vedi"], ["sleeps", "dormi"], ["falls", "kadi"], ["waits", "speri"]];
const LENGTH: usize = 7; // words of a sentence with its end; shorter ones are filled up

/// A sentence and its translation, words apart by spaces.
type Pair = (String, String);

fn sentence(rng: &mut Rng) -> Pair {
    let (noun, verb) = (NOUNS[rng.below(6)], VERBS[rng.below(4)]);
    let ending = &noun[1][noun[1].len() - 1..]; // o or a
    let (mut before, mut after) = (String::new(), String::new());
    for adjective in (0..rng.below(3)).map(|_| ADJECTIVES[rng.below(5)]) {
        before += &format!("{} ", adjective[0]);
        after += &format!("{}{ending} ", adjective[1]);
    }
    (format!("the {before}{} {} .", noun[0], verb[0]), format!("{} lo {} {after}.", verb[1], noun[1]))
}

/// All words of both languages; 0 fills up, 1 starts.
fn vocabulary() -> Vec<String> {
    let mut words: Vec<String> = ["", "<start>", ".", "the", "lo"].map(String::from).into();
    words.extend([&NOUNS[..], &VERBS].concat().iter().flatten().map(|w| w.to_string()));
    words.extend(ADJECTIVES.iter().flat_map(|[a, b]| [a.to_string(), format!("{b}o"), format!("{b}a")]));
    words
}

#[derive(Module)]
struct Translator {
    words: Embedding,
    position: SinusoidalPosition,
    transformer: Transformer,
    out: Linear,
}

impl Translator {
    fn new(vocab: usize, width: usize) -> Result<Translator> {
        let o = TransformerOptions { dim_feedforward: 96, dropout: 0.0, batch_first: true, ..Default::default() };
        Ok(Translator {
            words: Embedding::new(vocab, width),
            position: SinusoidalPosition::new(width)?.batch_first(true),
            transformer: Transformer::new(width, 4, 2, 2, o)?,
            out: Linear::new(width, vocab),
        })
    }

    /// Scores of the next word at each place of `to`, given `from`. Fillings of `from` are not looked at.
    fn forward(&self, from: &Tensor, to: &Tensor) -> Result<Tensor> {
        let embed = |t: &Tensor| self.position.forward(&self.words.forward(t)?);
        let masks = TransformerMasks::causal(Some(&from.eq(0)?));
        self.out.forward(&self.transformer.forward(&embed(from)?, &embed(to)?, &masks)?)
    }

    /// Word by word: what was said so far is the input for the next.
    fn translate(&self, from: &Tensor) -> Result<Tensor> {
        let mut said = Tensor::ones([from.dims()[0], 1], DType::I64);
        for _ in 0..LENGTH {
            let next = no_grad(|| self.forward(from, &said))?.select(1, -1)?.argmax_dim(-1, true)?;
            said = Tensor::cat(&[&said, &next], 1)?;
        }
        said.narrow(1, 1, LENGTH)
    }
}

fn main() -> Result<()> {
    learn(400).map(|right| println!("{right:.3} of new sentences are translated without a mistake"))
}

/// Learns for so many steps; the share of sentences it never saw that it translates without a mistake.
pub fn learn(steps: usize) -> Result<f64> {
    manual_seed(0);
    let vocab = vocabulary();
    let number = |w: &str| vocab.iter().position(|v| v == w).unwrap_or(0) as i64;
    let row = |s: &str| Tensor::from(s.split(' ').map(number).chain([0; LENGTH]).take(LENGTH).collect::<Vec<_>>());
    let batch = |pairs: &[Pair]| -> Result<(Tensor, Tensor)> {
        let (from, to): (Vec<_>, Vec<_>) = pairs.iter().map(|(from, to)| (row(from), row(to))).unzip();
        Ok((Tensor::stack(&from.iter().collect::<Vec<_>>(), 0)?, Tensor::stack(&to.iter().collect::<Vec<_>>(), 0)?))
    };
    // Half of the sentences with "red" are never learned from: their words are known, their combinations are not.
    let held_out = |(from, _): &Pair| from.contains("red") && from.len() % 2 == 0;
    let mut rng = Rng::new(0, 0);
    let mut draw = |n: usize, test: bool| -> Vec<Pair> {
        std::iter::repeat_with(|| sentence(&mut rng)).filter(|p| held_out(p) == test).take(n).collect()
    };
    let model = Translator::new(vocab.len(), 48)?;
    let mut opt = Adam::new(&model.parameters(), 2e-3);
    for step in 1..=steps {
        let (from, to) = batch(&draw(32, false))?;
        // The decoder gets the answer moved on by one: "<start> vedi lo" for "vedi lo kano".
        let moved = Tensor::cat(&[&Tensor::ones([32, 1], DType::I64), &to.narrow(1, 0, LENGTH - 1)?], 1)?;
        let loss = model.forward(&from, &moved)?.flatten(0, 1)?.cross_entropy(&to.flatten(0, -1)?)?;
        opt.step(&loss.backward()?)?;
        if step % 50 == 0 {
            println!("step {step:4}: loss {:.4}", loss.item::<f64>()?);
        }
    }
    let test = draw(200, true);
    let (from, to) = batch(&test)?;
    let said = model.translate(&from)?;
    for ((from, _), said) in test.iter().zip(said.to_vec::<i64>()?.chunks(LENGTH)).take(4) {
        let words: Vec<&str> = said.iter().map(|&i| vocab[i as usize].as_str()).collect();
        println!("{from:30} -> {}", words.join(" ").trim());
    }
    said.eq(&to)?.all_dim(1, false)?.to_dtype(DType::F64).mean().item()
}

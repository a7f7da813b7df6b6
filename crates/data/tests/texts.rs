//! Tokenizers and windows of text.

use gradus_data::{
    DataLoader, Dataset, LoaderOptions,
    text::{self, Bpe, ByteTokenizer, CharTokenizer, TextDataset, Tokenizer},
};
use proptest::prelude::*;

const TEXT: &str = "O Romeo, Romeo! wherefore art thou Romeo?\n  Deny thy father and refuse thy name;\n\n\
    Or, if thou wilt not, be but sworn my love, And I'll no longer be a Capulet. 1597 1597 naïve naïve\n";

#[test]
fn bpe_learns_and_gives_back() {
    let bpe = Bpe::train(TEXT, 300).unwrap();
    assert_eq!(bpe, Bpe::train(TEXT, 300).unwrap(), "the same text, the same tokens");
    assert!(bpe.vocab_size() > 280 && bpe.vocab_size() <= 300);
    let tokens = bpe.encode(TEXT.as_bytes()).unwrap();
    assert!(tokens.len() < TEXT.len() * 2 / 3, "{} of {}", tokens.len(), TEXT.len());
    assert_eq!(bpe.decode_lossy(&tokens).unwrap(), TEXT);
    assert!(bpe.decode(&[300]).unwrap_err().to_string().contains("300 is no token of a vocabulary of"));
    assert!(Bpe::train(TEXT, 255).is_err());
    assert_eq!(Bpe::train("", 300).unwrap().vocab_size(), 256);
    assert_eq!(Bpe::train("abcdef", 300).unwrap().vocab_size(), 256, "no pair comes twice");
    // " c", "cd" and "ab" come three times each: of equal ones, the pair with the smaller numbers.
    let small = Bpe::train("ab cd ab cd ab cd xy xy", 258).unwrap();
    assert_eq!((small.token(256).unwrap(), small.token(257).unwrap()), (&b" c"[..], &b"ab"[..]));
}

/// The merges by counting everything anew each time: what the quick way must give.
fn slow_train(text: &str, count: usize) -> Vec<(u32, u32)> {
    // Words as the tokenizer cuts them, seen through a Bpe that knows nothing: cut at spaces, letters only.
    let words: Vec<String> = text
        .split_inclusive(' ')
        .collect::<Vec<_>>()
        .join("")
        .split(' ')
        .enumerate()
        .map(|(i, w)| if i == 0 { w.to_string() } else { format!(" {w}") })
        .collect();
    let mut words: Vec<Vec<u32>> = words.iter().map(|w| w.bytes().map(u32::from).collect()).collect();
    let mut merges = vec![];
    while merges.len() < count {
        let mut counts = std::collections::BTreeMap::new();
        words.iter().for_each(|w| w.windows(2).for_each(|p| *counts.entry((p[0], p[1])).or_insert(0) += 1));
        let Some((&pair, &n)) = counts.iter().rev().max_by_key(|(_, n)| **n) else { break };
        if n < 2 {
            break;
        }
        let new = 256 + merges.len() as u32;
        merges.push(pair);
        for w in &mut words {
            let mut i = 0;
            while i + 1 < w.len() {
                if (w[i], w[i + 1]) == pair {
                    w.splice(i..i + 2, [new]);
                }
                i += 1;
            }
        }
    }
    merges
}

#[test]
fn bpe_learns_what_counting_anew_finds() {
    let mut rng = gradus_data::Rng::new(1, 0);
    for _ in 0..20 {
        let words: Vec<String> =
            (0..200).map(|_| (0..1 + rng.below(6)).map(|_| (b'a' + rng.below(4) as u8) as char).collect()).collect();
        let text = words.join(" ");
        assert_eq!(Bpe::train(&text, 256 + 40).unwrap().merges(), slow_train(&text, 40), "{text}");
    }
}

#[test]
fn bpe_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("b.bpe");
    let bpe = Bpe::train(TEXT, 300).unwrap();
    bpe.save(&path).unwrap();
    assert_eq!(Bpe::load(&path).unwrap(), bpe);
    let bad = |text: &str, why: &str| {
        let e = Bpe::from_text(text).unwrap_err().to_string();
        assert!(e.contains(why), "{e}");
    };
    bad("", "expected the line `gradus-bpe 1`, found `` (line 1, column 1)");
    bad("gradus-bpe 2\n", "found `gradus-bpe 2`");
    bad("gradus-bpe 1\n97 98\n97\n", "expected two numbers, found `97` (line 3, column 1)");
    bad("gradus-bpe 1\n97 256\n", "256 is no token below 256 (line 2, column 1)");
    bad("gradus-bpe 1\n97 98\n97 98\n", "the pair 97 98 for the second time (line 3");
    // Each line doubles the longest token: stopped before it takes memory.
    let doubling: String = (0..40)
        .map(|i| {
            let t = if i == 0 { 97 } else { 255 + i };
            format!("{t} {t}\n")
        })
        .collect();
    bad(&format!("gradus-bpe 1\n{doubling}"), "a token of 256 bytes, and 128 is the most");
    assert!(Bpe::from_text(b"gradus-bpe 1\n\xff").is_err());
    assert!(Bpe::load(dir.path().join("none")).unwrap_err().to_string().contains("none: cannot open"));
}

proptest! {
    #[test]
    fn any_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..300), word in "[a-c \n]{0,200}") {
        let bpe = Bpe::train(TEXT.as_bytes().iter().chain(word.as_bytes()).copied().collect::<Vec<u8>>(), 320).unwrap();
        for t in [&bytes[..], word.as_bytes()] {
            prop_assert_eq!(bpe.decode(&bpe.encode(t).unwrap()).unwrap(), t);
            prop_assert_eq!(ByteTokenizer.decode(&ByteTokenizer.encode(t).unwrap()).unwrap(), t);
        }
        prop_assert_eq!(Bpe::from_text(bpe.to_text()).unwrap(), bpe);
    }
}

#[test]
fn long_runs_are_cut() {
    let text = "a".repeat(1000) + &" ".repeat(1000);
    let bpe = Bpe::train(&text, 400).unwrap();
    assert!((0..bpe.vocab_size() as u32).all(|t| bpe.token(t).unwrap().len() <= 128));
    assert_eq!(bpe.decode(&bpe.encode(text.as_bytes()).unwrap()).unwrap(), text.as_bytes());
    assert_eq!(Bpe::from_text(bpe.to_text()).unwrap(), bpe);
}

#[test]
fn characters_and_bytes() {
    let chars = CharTokenizer::new("naïve 👍").unwrap();
    assert_eq!((chars.vocab_size(), chars.vocabulary()), (7, " aenvï👍".to_string()));
    let tokens = chars.encode("vïa👍".as_bytes()).unwrap();
    assert_eq!(tokens, [4, 5, 1, 6]);
    assert_eq!(chars.decode_lossy(&tokens).unwrap(), "vïa👍");
    assert_eq!(CharTokenizer::new(chars.vocabulary()).unwrap(), chars);
    assert!(chars.encode("nï!".as_bytes()).unwrap_err().to_string().contains("no '!', which is at byte 3"));
    assert!(chars.encode(b"n\xff").unwrap_err().to_string().contains("not UTF-8 from byte 1 on"));
    assert!(chars.decode(&[7]).is_err() && ByteTokenizer.decode(&[256]).is_err());
    assert_eq!(ByteTokenizer.vocab_size(), 256);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("t"), b"\xffabc").unwrap();
    assert_eq!(text::load(dir.path().join("t")).unwrap(), b"\xffabc");
}

#[test]
fn windows_of_text() {
    let d = TextDataset::new((0..10).collect(), 4).unwrap();
    assert_eq!((d.len(), d.tokens().len()), (6, 10));
    assert_eq!(d.get(5).unwrap(), (vec![5, 6, 7, 8], vec![6, 7, 8, 9]));
    assert!(d.get(6).is_err() && d.get(usize::MAX).is_err());
    let apart = TextDataset::with_stride((0..10).collect(), 4, 4).unwrap();
    assert_eq!((apart.len(), apart.get(1).unwrap().0), (2, vec![4, 5, 6, 7]));
    assert!(
        TextDataset::new(vec![1, 2], 2).unwrap_err().to_string().contains("2 tokens are too few for a window of 2")
    );
    assert!(TextDataset::new(vec![1, 2], 0).is_err());
    let loader = DataLoader::new(d, LoaderOptions { batch_size: 3, ..LoaderOptions::default() }).unwrap();
    let (x, y) = loader.iter().next().unwrap().unwrap();
    assert_eq!((x.dims(), y.dims(), y.to_vec::<i64>().unwrap()[4]), (&[3, 4][..], &[3, 4][..], 2));
}

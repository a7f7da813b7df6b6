//! The samples that travel with the repository, forward and gradient.

use gradus_conformance::opinfo::{
    folder::{Options, run_folder},
    gradus::Gradus,
};

/// `hash_tensor` makes unsigned 64-bit numbers, which gradus does not have.
const WITHOUT: [&str; 1] = ["hash_tensor"];

#[test]
fn the_small_samples_are_right() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/opinfo");
    let mut out = Vec::new();
    run_folder(&Gradus::default(), dir.as_ref(), &Options::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let bad: Vec<&str> = text
        .lines()
        .filter(|l| l.contains("FAIL") || l.ends_with("no such op"))
        .filter(|l| !WITHOUT.iter().any(|w| l.starts_with(&format!("{w}:"))))
        .collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert!(text.trim_end().lines().last().is_some_and(|l| l.starts_with("opinfo: ")), "{text}");
}

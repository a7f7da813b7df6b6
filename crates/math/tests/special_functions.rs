//! Double-precision special functions against values of mpmath.
//! Run with `--nocapture` to see the largest error of each.

use std::collections::BTreeMap;

use gradus_math::f64 as d;

fn call(name: &str, a: &[f64]) -> f64 {
    match (name, a) {
        ("erf", &[x]) => d::erf(x),
        ("erfc", &[x]) => d::erfc(x),
        ("erfcx", &[x]) => d::erfcx(x),
        ("erfinv", &[x]) => d::erfinv(x),
        ("ndtr", &[x]) => d::ndtr(x),
        ("log_ndtr", &[x]) => d::log_ndtr(x),
        ("ndtri", &[x]) => d::ndtri(x),
        ("lgamma", &[x]) => d::lgamma(x),
        ("digamma", &[x]) => d::digamma(x),
        ("trigamma", &[x]) => d::trigamma(x),
        ("polygamma", &[n, x]) => d::polygamma(n as u32, x),
        ("zeta", &[s, q]) => d::zeta(s, q),
        ("igamma", &[a, x]) => d::igamma(a, x),
        ("igammac", &[a, x]) => d::igammac(a, x),
        ("i0", &[x]) => d::i0(x),
        ("i1", &[x]) => d::i1(x),
        ("i0e", &[x]) => d::i0e(x),
        ("i1e", &[x]) => d::i1e(x),
        ("j0", &[x]) => d::bessel_j0(x),
        ("j1", &[x]) => d::bessel_j1(x),
        ("y0", &[x]) => d::bessel_y0(x),
        ("y1", &[x]) => d::bessel_y1(x),
        ("mvlgamma", &[x, p]) => d::mvlgamma(x, p as u32),
        ("sinc", &[x]) => d::sinc(x),
        ("entr", &[x]) => d::entr(x),
        ("logaddexp", &[x, y]) => d::logaddexp(x, y),
        ("logaddexp2", &[x, y]) => d::logaddexp2(x, y),
        other => panic!("no function for {other:?}"),
    }
}

/// The relative error each function is held to: for the incomplete gamma functions with what an
/// error of half an ULP in x makes of them.
fn bound(name: &str, args: &[f64]) -> f64 {
    match name {
        "igamma" | "igammac" => 1e-14 + args[0] * f64::EPSILON,
        _ => 1e-14,
    }
}

#[test]
fn close_to_mpmath() {
    let mut worst: BTreeMap<&str, (f64, Vec<f64>)> = BTreeMap::new();
    let mut rows = 0;
    let mut bad = Vec::new();
    for line in include_str!("data/special_f64.csv").lines() {
        let (name, numbers) = line.split_once(',').unwrap();
        let numbers: Vec<f64> = numbers.split(',').map(|s| s.parse().unwrap()).collect();
        let (want, args) = numbers.split_last().unwrap();
        let got = call(name, args);
        let error = ((got - want) / want).abs();
        rows += 1;
        if error.is_nan() || error > bound(name, args) {
            bad.push(format!("{name}{args:?} = {got:e}, want {want:e}, error {error:.2e}"));
        }
        let w = worst.entry(name).or_insert((0.0, Vec::new()));
        if error > w.0 {
            *w = (error, args.to_vec());
        }
    }
    for (name, (error, at)) in &worst {
        println!("{name:12} {error:.2e} at {at:?}");
    }
    assert!(rows > 900, "only {rows} rows");
    assert_eq!(worst.len(), 27);
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

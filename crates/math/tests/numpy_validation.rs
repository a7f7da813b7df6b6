//! NumPy's own validation set for single-precision functions, with NumPy's tolerances.

use gradus_math::f32 as m;

type Function = fn(f32) -> f32;

fn function(name: &str) -> Function {
    match name {
        "arccos" => m::acos,
        "arccosh" => m::acosh,
        "arcsin" => m::asin,
        "arcsinh" => m::asinh,
        "arctan" => m::atan,
        "arctanh" => m::atanh,
        "cbrt" => m::cbrt,
        "cos" => m::cos,
        "cosh" => m::cosh,
        "exp" => m::exp,
        "exp2" => m::exp2,
        "expm1" => m::expm1,
        "log" => m::ln,
        "log10" => m::log10,
        "log1p" => m::log1p,
        "log2" => m::log2,
        "sin" => m::sin,
        "sinh" => m::sinh,
        "tan" => m::tan,
        "tanh" => m::tanh,
        other => panic!("no function for {other}"),
    }
}

/// The place of a number on the line of all `f32`, so that neighbours differ by one.
fn place(x: f32) -> i64 {
    let b = x.to_bits() as i64;
    if b < 0x8000_0000 { b } else { 0x8000_0000 - b }
}

#[test]
fn within_numpy_tolerance() {
    let mut lines = include_str!("data/numpy_umath_f32.csv").lines();
    let (mut functions, mut rows) = (0, 0);
    while let Some(head) = lines.next() {
        let head: Vec<&str> = head.split(',').collect();
        let f = function(head[0]);
        let tolerance: i64 = head[1].parse().unwrap();
        let count: usize = head[2].parse().unwrap();
        functions += 1;
        for line in lines.by_ref().take(count) {
            let (x, want) = line.split_once(',').unwrap();
            let x = f32::from_bits(u32::from_str_radix(x, 16).unwrap());
            let want = f32::from_bits(u32::from_str_radix(want, 16).unwrap());
            let got = f(x);
            rows += 1;
            let good = if want.is_nan() { got.is_nan() } else { (place(got) - place(want)).abs() <= tolerance };
            assert!(good, "{}({x:e}) = {got:e}, want {want:e} within {tolerance} ULP", head[0]);
        }
    }
    assert_eq!((functions, rows), (20, 13181));
}

//! Every row of the elementwise table: gradients to second order, zeros where the table says zero, and the same bits from
//! every SIMD version, from tensors and from the scalar function.

use gradus_core::{
    DType, Tensor,
    grad::{GradcheckOptions, gradcheck_with},
    op::{
        block::Isa,
        ewise::{self, Ewise, Kind, Vjp},
    },
};

/// Distinct numbers in a row's domain, different for each input.
fn inside(row: &Ewise, k: usize, n: usize) -> Tensor {
    let (lo, hi) = row.domain;
    let at = |i: usize| lo + (hi - lo) * ((i * 3 + k * 7 + 1) as f64 * 0.618_033_988_749_895).fract();
    Tensor::from((0..n).map(at).collect::<Vec<f64>>())
}

fn bools(n: usize) -> Tensor {
    Tensor::from((0..n).map(|i| i % 2 == 0).collect::<Vec<bool>>())
}

/// Which inputs the row has gradients for.
fn differentiable(row: &Ewise) -> Vec<bool> {
    match row.vjp {
        // The order of a polygamma function is no number to differentiate by.
        Vjp::Rules(_) if row.name == "polygamma" => vec![false, true],
        Vjp::Rules(_) => (0..row.arity).map(|k| row.kind != Kind::Select || k > 0).collect(),
        Vjp::Partial(rules) => rules.iter().map(|r| r.is_some()).collect(),
        Vjp::Zero | Vjp::Missing | Vjp::NotFloat => vec![false; row.arity],
    }
}

#[test]
fn gradients_to_second_order() {
    let options = GradcheckOptions { order: 2, ..Default::default() };
    let mut checked = 0;
    for row in ewise::all().filter(|r| matches!(r.vjp, Vjp::Rules(_) | Vjp::Partial(_))) {
        let n = 4;
        let wanted = differentiable(row);
        let whole = |t: Tensor| if row.name == "polygamma" { t.floor() } else { t };
        let all: Vec<Tensor> = (0..row.arity)
            .map(|k| match (wanted[k], row.kind, k) {
                (_, Kind::Select, 0) => bools(n),
                (true, ..) => inside(row, k, n),
                (false, ..) => whole(inside(row, k, n)),
            })
            .collect();
        let vary: Vec<&Tensor> = all.iter().zip(&wanted).filter(|(_, w)| **w).map(|(t, _)| t).collect();
        let f = |x: &[Tensor]| {
            let mut x = x.iter();
            let args: Vec<&Tensor> =
                all.iter().zip(&wanted).map(|(t, w)| if *w { x.next().unwrap() } else { t }).collect();
            row.apply(&args)
        };
        if let Err(e) = gradcheck_with(f, &vary, &options) {
            panic!("{}: {e}", row.name);
        }
        checked += 1;
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn rows_that_are_constant_almost_everywhere_have_zero_gradients() {
    for row in ewise::all().filter(|r| matches!(r.vjp, Vjp::Zero) && r.f64.is_some()) {
        let vars: Vec<Tensor> = (0..row.arity).map(|k| Tensor::var(format!("{k}"), inside(row, k, 3))).collect();
        let y = row.apply(&vars.iter().collect::<Vec<_>>()).unwrap();
        let g = y.sum().backward().unwrap_or_else(|e| panic!("{}: {e}", row.name));
        for v in &vars {
            assert_eq!(g.wrt(v).unwrap().to_vec::<f64>().unwrap(), [0.0; 3], "{}", row.name);
        }
    }
}

#[test]
fn rows_without_a_gradient_say_so() {
    let mut missing = 0;
    for row in ewise::all().filter(|r| matches!(r.vjp, Vjp::Missing | Vjp::Partial(_))) {
        let vars: Vec<Tensor> = (0..row.arity).map(|k| Tensor::var(format!("{k}"), inside(row, k, 3))).collect();
        let y = row.apply(&vars.iter().collect::<Vec<_>>()).unwrap();
        let e = y.sum().backward().err().unwrap_or_else(|| panic!("{}", row.name)).to_string();
        assert!(e.contains(&format!("{} has no gradient", row.name)), "{e}");
        missing += 1;
    }
    assert!(missing >= 3);
    for row in ewise::all().filter(|r| matches!(r.vjp, Vjp::NotFloat)) {
        let float = row.f64.is_some() && row.kind != Kind::Compare;
        assert!(!float, "{} makes floats", row.name);
    }
}

fn isas() -> Vec<Isa> {
    match Isa::detect() {
        Isa::Avx512 => vec![Isa::Avx512, Isa::Avx2, Isa::Base],
        Isa::Avx2 => vec![Isa::Avx2, Isa::Base],
        Isa::Base => vec![Isa::Base],
    }
}

/// Input `k` of a row as bytes: numbers of its domain and far beyond it, zeros of both signs, infinities, NaN.
fn raw(row: &Ewise, k: usize, dtype: DType, n: usize) -> Vec<u8> {
    let (lo, hi) = row.domain;
    let special = [0.0, -0.0, 1.0, -1.0, 0.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e30, -1e-30, 1e-42, 88.8];
    let unit = |i: usize| ((i * 3 + k * 7 + 1) as f64 * 0.618_033_988_749_895).fract();
    let number = |i: usize| match i % 4 {
        // The iterations of incomplete gamma and zeta take long far outside: their domain is enough for the bits.
        0..2 => lo + (hi - lo) * unit(i),
        2 => (unit(i) - 0.5) * 40.0,
        _ => special[(i / 4 + k * 5) % special.len()],
    };
    let int = |i: usize| match i % 3 {
        0 => (unit(i) * 40.0) as i64 - 20,
        1 => (unit(i) * 1e12) as i64,
        _ => [1, 2, -1, i64::MAX, i64::MIN, 7][(i / 3 + k) % 6],
    };
    // Zero divisors and shifts beyond the width have no answer, and kernels stop before they reach the row.
    let int = |i: usize| match (row.divides(), row.name.ends_with("shift"), k) {
        (true, _, 1) => int(i) % 1000 + 2000,
        (_, true, 1) => int(i).rem_euclid(64),
        _ => int(i),
    };
    match dtype {
        DType::F32 => (0..n).flat_map(|i| (number(i) as f32).to_ne_bytes()).collect(),
        DType::F64 => (0..n).flat_map(|i| number(i).to_ne_bytes()).collect(),
        DType::Bool => (0..n).map(|i| (i / (k + 1) % 2) as u8).collect(),
        _ => (0..n).flat_map(|i| int(i).to_ne_bytes()).collect(),
    }
}

/// Elements as bits; all NaNs are one.
fn bits(bytes: &[u8], dtype: DType) -> Vec<u64> {
    match dtype {
        DType::F32 => bytes
            .chunks_exact(4)
            .map(|c| f32::from_ne_bytes(c.try_into().unwrap()))
            .map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() as u64 })
            .collect(),
        DType::F64 => bytes
            .chunks_exact(8)
            .map(|c| f64::from_ne_bytes(c.try_into().unwrap()))
            .map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() })
            .collect(),
        DType::Bool => bytes.iter().map(|&b| b as u64).collect(),
        _ => bytes.chunks_exact(8).map(|c| u64::from_ne_bytes(c.try_into().unwrap())).collect(),
    }
}

#[test]
fn every_version_of_every_row_gives_the_same_bits() {
    let n = 1003; // several blocks and a tail
    for row in ewise::all() {
        for dtype in [DType::F32, DType::F64, DType::I64, DType::Bool] {
            let Some(block) = row.block(dtype) else { continue };
            let type_of = |k: usize| if row.kind == Kind::Select && k == 0 { DType::Bool } else { dtype };
            let out_type = if row.kind == Kind::Compare { DType::Bool } else { dtype };
            let inputs: Vec<Vec<u8>> = (0..row.arity).map(|k| raw(row, k, type_of(k), n)).collect();
            let run = |isa: Isa, from: usize, len: usize, out: &mut [u8]| {
                let at = |k: usize| match inputs.get(k) {
                    Some(x) => x[from * type_of(k).size()..].as_ptr(),
                    None => std::ptr::null(),
                };
                let dst = out[from * out_type.size()..].as_mut_ptr();
                // SAFETY: all arrays hold `n >= from + len` elements of the row's types, and the machine has the ISA.
                // (The bytes may be unaligned for their type only on a system whose allocator aligns to less than 8.)
                unsafe { block.get(isa)(dst, [at(0), at(1), at(2)], len) }
            };
            let mut scalar = vec![0u8; n * out_type.size()];
            (0..n).for_each(|i| run(Isa::Base, i, 1, &mut scalar));
            let want = bits(&scalar, out_type);
            for isa in isas() {
                let mut out = vec![0u8; n * out_type.size()];
                run(isa, 0, n, &mut out);
                let got = bits(&out, out_type);
                for i in 0..n {
                    let x: Vec<u64> = (0..row.arity).map(|k| bits(&inputs[k], type_of(k))[i]).collect();
                    assert_eq!(got[i], want[i], "{} {dtype} {isa:?} element {i} of bits {x:x?}", row.name);
                }
            }
            let tensors: Vec<Tensor> =
                (0..row.arity).map(|k| Tensor::from_bytes(&inputs[k], [n], type_of(k)).unwrap()).collect();
            let y = row.apply(&tensors.iter().collect::<Vec<_>>()).unwrap();
            assert_eq!(bits(&y.to_bytes().unwrap(), out_type), want, "{} {dtype} as a tensor", row.name);
        }
    }
}

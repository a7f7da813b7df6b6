use super::{
    body::{Body, Folding, Vop},
    build::assemble,
    functions, memory,
};
use crate::op::{
    block::Isa,
    ewise::{self, Ewise},
};

fn run(body: &Body, tables: &[*mut u8], n: usize) {
    let (code, constants) = assemble(body).expect("enough registers");
    let sealed = memory::Sealed::new(&code).expect("memory");
    let mut table: Vec<usize> = tables.iter().map(|&p| p as usize).collect();
    table.push(constants.as_ptr() as usize);
    // SAFETY: the tests give arrays of n elements.
    unsafe { (sealed.code())(table.as_ptr(), n & !63, (1 << (n % 64)) - 1) };
}

/// Ordinary numbers, edges, and every pattern of high bits.
fn numbers() -> Vec<f32> {
    let edges = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, 1e-45, f32::MAX];
    let bits = (0..1u32 << 16).map(|b| f32::from_bits(b << 16 | b.wrapping_mul(40503) & 0xffff));
    let fine = (-20_000..20_000).map(|i| i as f32 * 0.0055);
    edges.into_iter().chain(bits).chain(fine).collect()
}

fn rows() -> Vec<&'static Ewise> {
    ewise::all().filter(|r| r.f32.is_some() && functions::knows(r.name)).collect()
}

#[test]
fn every_function_gives_the_bits_of_its_row() {
    if !super::available() {
        return eprintln!("skipped: loops need AVX-512");
    }
    let x = numbers();
    let y: Vec<f32> = x.iter().rev().copied().collect();
    let z: Vec<f32> = x.iter().map(|x| x * 0.5 + 1.0).collect();
    let known = rows();
    assert!(known.len() >= 17, "{}", known.len());
    for r in known {
        if r.kind == ewise::Kind::Compare || r.name == "where" {
            continue; // masks: see below
        }
        let mut b = Body::default();
        let ins: Vec<_> = (0..r.arity)
            .map(|_| {
                let p = b.pointer();
                b.push(Vop::In(p))
            })
            .collect();
        let v = functions::row(&mut b, r.name, &ins).expect("known");
        let p = b.pointer();
        b.push(Vop::Out(p, v));
        for n in (1..200).chain([x.len()]) {
            let (mut got, mut want) = (vec![7.0f32; n + 1], vec![7.0f32; n]);
            let sources = [&x, &y, &z].map(|s| s.as_ptr() as *mut u8);
            let mut tables = sources[..r.arity].to_vec();
            tables.push(got.as_mut_ptr().cast());
            run(&b, &tables, n);
            let f = r.block(crate::DType::F32).expect("f32").get(Isa::detect());
            // SAFETY: all arrays hold n floats.
            unsafe { f(want.as_mut_ptr().cast(), sources.map(|s| s as *const u8), n) };
            for i in 0..n {
                let same = got[i].to_bits() == want[i].to_bits() || (got[i].is_nan() && want[i].is_nan());
                assert!(same, "{} of {} {}: {} against {}", r.name, x[i], y[i], got[i], want[i]);
            }
            assert_eq!(got[n], 7.0, "{} wrote past {n}", r.name);
        }
    }
}

#[test]
fn masks_choose() {
    if !super::available() {
        return eprintln!("skipped: loops need AVX-512");
    }
    let x = numbers();
    let y: Vec<f32> = x.iter().rev().copied().collect();
    let c: Vec<u8> = (0..x.len()).map(|i| (i % 3 == 0) as u8).collect();
    type Compare = fn(f32, f32) -> bool;
    let all: [(&str, Compare); 6] = [
        ("eq", |a, b| a == b),
        ("ne", |a, b| a != b),
        ("lt", |a, b| a < b),
        ("le", |a, b| a <= b),
        ("gt", |a, b| a > b),
        ("ge", |a, b| a >= b),
    ];
    for (name, f) in all {
        // where(c, where(x ? y, x, y), 3)
        let mut b = Body::default();
        let (px, py, pc, po) = (b.pointer(), b.pointer(), b.pointer(), b.pointer());
        let (vx, vy, vc) = (b.push(Vop::In(px)), b.push(Vop::In(py)), b.push(Vop::InMask(pc)));
        let m = functions::row(&mut b, name, &[vx, vy]).expect("known");
        let inner = b.push(Vop::Select(m, vx, vy));
        let three = b.number(3.0);
        let v = b.push(Vop::Select(vc, inner, three));
        b.push(Vop::Out(po, v));
        for n in [1, 15, 16, 17, 63, 64, 65, 1000] {
            let mut got = vec![7.0f32; n + 1];
            let at = |s: &[f32]| s.as_ptr() as *mut u8;
            run(&b, &[at(&x), at(&y), c.as_ptr() as *mut u8, got.as_mut_ptr().cast()], n);
            for i in 0..n {
                let want = if c[i] == 0 {
                    3.0
                } else if f(x[i], y[i]) {
                    x[i]
                } else {
                    y[i]
                };
                assert!(got[i].to_bits() == want.to_bits(), "{name} {} {}: {}", x[i], y[i], got[i]);
            }
            assert_eq!(got[n], 7.0);
        }
    }
}

#[test]
fn lanes_are_reduced_in_their_places() {
    if !super::available() {
        return eprintln!("skipped: loops need AVX-512");
    }
    let x: Vec<f32> = (0..1000).map(|i| ((i * 7919) % 1000) as f32 * 0.37 - 100.0).collect();
    for (how, f, start) in [
        (Folding::Sum, (|a, b| a + b) as fn(f32, f32) -> f32, 0.0),
        (Folding::Max, f32::max, f32::NEG_INFINITY),
        (Folding::Min, f32::min, f32::INFINITY),
    ] {
        let mut b = Body::default();
        let (px, pa) = (b.pointer(), b.pointer());
        let v = b.push(Vop::In(px));
        b.push(Vop::Fold(how, pa, v));
        for n in [1, 16, 63, 64, 65, 100, 128, 999] {
            let mut got = [start; 64];
            let mut want = [start; 64];
            run(&b, &[x.as_ptr() as *mut u8, got.as_mut_ptr().cast()], n);
            for i in 0..n {
                want[i % 64] = f(want[i % 64], x[i]);
            }
            assert_eq!(got.map(f32::to_bits), want.map(f32::to_bits), "{how:?} of {n}");
        }
    }
}

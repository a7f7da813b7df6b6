use super::{
    body::{Body, Folding, Vop},
    build::assemble,
    functions, memory,
    width::Width,
};
use crate::{
    DType,
    op::{block::Isa, ewise},
};

fn run(body: &Body, tables: &[*mut u8], n: usize) {
    let (code, constants) = assemble(body).expect("enough registers");
    let narrow: Vec<u32> = constants.iter().map(|&c| c as u32).collect();
    let pool = if body.wide() { constants.as_ptr().cast() } else { narrow.as_ptr() };
    let sealed = memory::Sealed::new(&code).expect("memory");
    let mut table: Vec<usize> = tables.iter().map(|&p| p as usize).collect();
    table.push(pool as usize);
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

#[test]
fn every_function_gives_the_bits_of_its_row() {
    if !super::available() {
        return eprintln!("skipped: loops need AVX-512");
    }
    let x = numbers();
    // A double keeps the exponent and the first bits, so that all kinds of them come up.
    let double = |x: &f32| f64::from_bits((x.to_bits() as u64) << 32 | x.to_bits().wrapping_mul(40503) as u64);
    let ordinary: Vec<f64> = x.iter().map(|&x| x as f64).collect();
    let doubles: Vec<f64> = x.iter().map(double).chain(ordinary).collect();
    let known = every_function(DType::F32, &x, |x| x.to_bits() as u64, f32::is_nan);
    assert!(known >= 17, "{known}");
    let known = every_function(DType::F64, &doubles, f64::to_bits, f64::is_nan);
    assert!(known >= 15, "{known}");
}

fn every_function<T: Copy + Default + PartialEq + std::fmt::Debug>(
    dtype: DType,
    x: &[T],
    bits: fn(T) -> u64,
    is_nan: fn(T) -> bool,
) -> usize {
    let y: Vec<T> = x.iter().rev().copied().collect();
    let z: Vec<T> = x.iter().skip(7).chain(x).copied().collect();
    let mut known = 0;
    for r in ewise::all().filter(|r| r.kind != ewise::Kind::Compare && r.name != "where") {
        let mut b = Body::new(if dtype == DType::F64 { Width::Double } else { Width::Single });
        let ins: Vec<_> = (0..r.arity)
            .map(|_| {
                let p = b.pointer();
                b.push(Vop::In(p))
            })
            .collect();
        let (Some(v), Some(f)) = (functions::row(&mut b, r.name, &ins), r.block(dtype)) else { continue };
        known += 1;
        let p = b.pointer();
        b.push(Vop::Out(p, v));
        for n in (1..200).chain([x.len()]) {
            let (mut got, mut want) = (vec![x[0]; n + 1], vec![x[0]; n]);
            let sources = [x, &y, &z].map(|s| s.as_ptr() as *mut u8);
            let mut tables = sources[..r.arity].to_vec();
            tables.push(got.as_mut_ptr().cast());
            run(&b, &tables, n);
            // SAFETY: all arrays hold n numbers.
            unsafe { f.get(Isa::detect())(want.as_mut_ptr().cast(), sources.map(|s| s as *const u8), n) };
            for i in 0..n {
                let same = bits(got[i]) == bits(want[i]) || (is_nan(got[i]) && is_nan(want[i]));
                assert!(same, "{} of {:?} {:?}: {:?} against {:?}", r.name, x[i], y[i], got[i], want[i]);
            }
            assert_eq!(got[n], x[0], "{} wrote past {n}", r.name);
        }
    }
    known
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

/// Every type that lanes can hold, loaded, converted to every other and stored: as the interpreter does it.
#[test]
fn types_convert_as_outside() {
    use crate::{
        DType::*,
        backend::cpu::{
            convert,
            transfer::{self, Run},
        },
        kernel::{Inst, InstKind, Kernel, Level, Order},
    };
    if !super::available() {
        return eprintln!("skipped: loops need AVX-512");
    }
    let n = 1000 + 37;
    let bytes: Vec<u8> = (0..8 * n as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let truths: Vec<u8> = bytes.iter().map(|b| b & 1).collect();
    let types = [F32, F64, F16, BF16, I64, I32, I16, I8, U8, Bool];
    let mut made = 0;
    let pairs = types.iter().flat_map(|&a| types.iter().map(move |&b| (a, b)));
    for (width, (from, to)) in
        pairs.flat_map(|p| [Width::Byte, Width::Word, Width::Single, Width::Double].map(|w| (w, p)))
    {
        let inst = |kind, dtype| Inst { kind, dtype, level: Level::Elem };
        let first = inst(InstKind::Param(0), from);
        let k = Kernel {
            map: vec![n],
            reduce: vec![],
            args: vec![],
            params: vec![],
            insts: vec![first, inst(InstKind::Cast(0), to)],
            order: Order::ROWS,
        };
        let mut b = Body::new(width);
        let p = b.pointer();
        let Some(x) = super::values::load(&mut b, from, p) else { continue };
        let Some(y) = super::values::compute(&mut b, &k, 1, &[x]) else { continue };
        let p = b.pointer();
        super::values::store(&mut b, to, p, y).expect("a type of lanes");
        made += 1;
        let source = if from == Bool { &truths } else { &bytes };
        let (mut got, mut want) = (vec![9u8; 8 * n + 8], vec![9u8; 8 * n + 8]);
        run(&b, &[source.as_ptr().cast_mut(), got.as_mut_ptr()], n);
        let (mut loaded, mut cast) = (vec![0u64; n], vec![0u64; n]);
        let all = Run { start: 0, step: 1, len: n, lo: 0, hi: n };
        // SAFETY: all arrays hold n elements of the widest type.
        unsafe {
            transfer::load(from, source.as_ptr(), all, loaded.as_mut_ptr().cast());
            convert::cast(from, to, loaded.as_ptr().cast(), cast.as_mut_ptr().cast(), n);
            transfer::store(to, want.as_mut_ptr(), all, cast.as_ptr().cast());
        }
        let nan = |x: &[u8], i: usize| match to {
            F32 => f32::from_ne_bytes(x[4 * i..][..4].try_into().unwrap()).is_nan(),
            F64 => f64::from_ne_bytes(x[8 * i..][..8].try_into().unwrap()).is_nan(),
            F16 => half::f16::from_ne_bytes(x[2 * i..][..2].try_into().unwrap()).is_nan(),
            BF16 => half::bf16::from_ne_bytes(x[2 * i..][..2].try_into().unwrap()).is_nan(),
            _ => false,
        };
        let size = DType::size(to);
        for i in 0..n {
            let same = got[i * size..][..size] == want[i * size..][..size] || (nan(&got, i) && nan(&want, i));
            assert!(same, "{from} to {to} at {i}: {:?} {:?}", &got[i * size..][..size], &want[i * size..][..size]);
        }
        assert_eq!(got[n * size..], want[n * size..], "{from} to {to} wrote past the end");
    }
    assert!(made >= 100, "{made}");
}

/// All pairs of bytes through every function of bytes.
#[test]
fn bytes_are_those_of_their_rows() {
    if !super::available() {
        return eprintln!("skipped: loops need AVX-512");
    }
    let n = (1 << 16) + 37;
    let (x, y): (Vec<u8>, Vec<u8>) = (0..n).map(|i| ((i & 255) as u8, (i >> 8) as u8)).unzip();
    let mut known = 0;
    for (dtype, r) in [DType::I8, DType::U8].into_iter().flat_map(|d| ewise::all().map(move |r| (d, r))) {
        let mut b = Body::new(Width::Byte);
        let mut operand = || {
            let p = b.pointer();
            b.push(Vop::In(p))
        };
        let ins: Vec<_> = (0..r.arity).map(|_| operand()).collect();
        let (Some(v), Some(f)) = (super::bytes::row(&mut b, r.name, dtype, &ins), r.block(dtype)) else { continue };
        known += 1;
        let compares = b.ops[v].is_mask();
        let p = b.pointer();
        super::values::store(&mut b, if compares { DType::Bool } else { dtype }, p, v).expect("bytes");
        let mut got = vec![9u8; n + 1];
        let mut tables = [&x, &y][..r.arity].iter().map(|s| s.as_ptr() as *mut u8).collect::<Vec<_>>();
        tables.push(got.as_mut_ptr());
        run(&b, &tables, n);
        let whole = |x: &u8| if dtype == DType::I8 { *x as i8 as i64 } else { *x as i64 };
        let (xs, ys): (Vec<i64>, Vec<i64>) = (x.iter().map(whole).collect(), y.iter().map(whole).collect());
        let (mut want, mut truths) = (vec![0i64; n], vec![0u8; n]);
        let dst = if compares { truths.as_mut_ptr() } else { want.as_mut_ptr().cast() };
        // SAFETY: all arrays hold n numbers.
        unsafe { f.get(Isa::detect())(dst, [xs.as_ptr().cast(), ys.as_ptr().cast(), ys.as_ptr().cast()], n) };
        for i in 0..n {
            let want = if compares { truths[i] } else { want[i] as u8 };
            assert_eq!(got[i], want, "{} of {dtype} {} and {}", r.name, xs[i], ys[i]);
        }
        assert_eq!(got[n], 9, "{} wrote past the end", r.name);
    }
    assert!(known >= 30, "{known}");
}

/// Pairs of words, with all signs and magnitudes, through every function of words.
#[test]
fn words_are_those_of_their_rows() {
    use crate::{
        DType::*,
        backend::cpu::transfer::{self, Run},
        kernel::{Inst, InstKind, Kernel, Level, Order},
    };
    if !super::available() {
        return eprintln!("skipped: loops need AVX-512");
    }
    let n = (1 << 16) + 37;
    let (x, y): (Vec<i16>, Vec<i16>) = (0..n as u32).map(|i| (i as i16, (i.wrapping_mul(40_503) >> 7) as i16)).unzip();
    let mut known = vec![];
    for (dtype, r) in [I16, F16, BF16].into_iter().flat_map(|d| ewise::all().map(move |r| (d, r))) {
        let inst = |kind, dtype| Inst { kind, dtype, level: Level::Elem };
        let compares = r.kind == ewise::Kind::Compare;
        let to = if compares { Bool } else { dtype };
        let mut insts: Vec<_> = (0..r.arity).map(|i| inst(InstKind::Param(i), dtype)).collect();
        insts.push(inst(InstKind::Ewise(r, (0..r.arity).collect()), to));
        let (map, order) = (vec![n], Order::ROWS);
        let k = Kernel { map, reduce: vec![], args: vec![], params: vec![], insts, order };
        let mut b = Body::new(Width::Word);
        let mut operand = || {
            let p = b.pointer();
            super::values::load(&mut b, dtype, p).expect("words")
        };
        let ins: Vec<_> = (0..r.arity.min(2)).map(|_| operand()).collect();
        if r.arity > 2 {
            continue;
        }
        let Some(v) = super::values::compute(&mut b, &k, r.arity, &ins) else { continue };
        known.push((r.name, dtype));
        let p = b.pointer();
        super::values::store(&mut b, to, p, v).expect("words");
        let mut got = vec![9u8; 2 * n + 2];
        let mut tables = [&x, &y][..r.arity].iter().map(|s| s.as_ptr() as *mut u8).collect::<Vec<_>>();
        tables.push(got.as_mut_ptr());
        run(&b, &tables, n);
        let all = Run { start: 0, step: 1, len: n, lo: 0, hi: n };
        let (mut loaded, mut out, mut want) = ([vec![0u64; n], vec![0u64; n]], vec![0u64; n], vec![9u8; 2 * n + 2]);
        // SAFETY: all arrays hold n numbers.
        unsafe {
            for (to, from) in loaded.iter_mut().zip([&x, &y]) {
                transfer::load(dtype, from.as_ptr().cast(), all, to.as_mut_ptr().cast());
            }
            let [p, q] = [0, 1].map(|i| loaded[i].as_ptr().cast::<u8>());
            r.block(dtype).expect("a row").get(Isa::detect())(out.as_mut_ptr().cast(), [p, q, q], n);
            transfer::store(to, want.as_mut_ptr(), all, out.as_ptr().cast());
        }
        let nan = |x: &[u8], i: usize| match to {
            F16 => half::f16::from_ne_bytes(x[2 * i..][..2].try_into().unwrap()).is_nan(),
            BF16 => half::bf16::from_ne_bytes(x[2 * i..][..2].try_into().unwrap()).is_nan(),
            _ => false,
        };
        let size = DType::size(to);
        for i in 0..n {
            let same = got[i * size..][..size] == want[i * size..][..size] || (nan(&got, i) && nan(&want, i));
            assert!(same, "{} of {dtype} {} and {}", r.name, x[i], y[i]);
        }
        assert_eq!(got[n * size..], want[n * size..], "{} of {dtype} wrote past the end", r.name);
    }
    assert!(known.len() >= 20 && known.contains(&("neg", BF16)) && known.contains(&("abs", F16)), "{known:?}");
}

/// One number of each type, written without touching its neighbours.
#[test]
fn single_numbers_are_written_alone() {
    use crate::DType::*;
    if !super::available() {
        return eprintln!("skipped: loops need AVX-512");
    }
    let x = [-3.0f32; 16];
    for (dtype, want) in [
        (F32, (-3f32).to_ne_bytes().to_vec()),
        (F16, half::f16::from_f32(-3.0).to_ne_bytes().to_vec()),
        (BF16, half::bf16::from_f32(-3.0).to_ne_bytes().to_vec()),
        (I16, vec![0, 0]),
        (U8, vec![0]),
    ] {
        let mut b = Body::default();
        let p = b.pointer();
        let v = b.push(Vop::In(p));
        let p = b.pointer();
        super::values::store_one(&mut b, dtype, p, v).expect("a type of lanes");
        let mut got = vec![7u8; 64];
        run(&b, &[x.as_ptr() as *mut u8, got.as_mut_ptr()], 16);
        assert_eq!(got[..want.len()], want, "{dtype}");
        assert!(got[want.len()..].iter().all(|&b| b == 7), "{dtype}: {got:?}");
    }
}

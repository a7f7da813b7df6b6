//! Kernels of one body as one launch.

use super::{TARGET, host, nvrtc};
use gradus_core::{
    DType, Scalar,
    kernel::{Access, Arg, Inst, InstKind, Kernel, Level, Order, Source, emit, oracle, verify},
    op::ewise,
};
use std::ffi::c_void;

/// `m' = m * p0 + g * s`, `x' = x + m' * p1 + p2`, with `s` one number: two results of `low` and f32.
fn update(low: DType, extent: usize) -> Kernel {
    let mut insts: Vec<Inst> = vec![];
    let mut inst = |kind, dtype, level| {
        insts.push(Inst { kind, dtype, level });
        insts.len() - 1
    };
    let at = |stride: isize| Access { strides: vec![stride], ..Access::default() };
    let load = |arg, stride| InstKind::Load { source: Source::Arg(arg), access: at(stride) };
    let binary = |row, a, b| InstKind::Ewise(row, [a, b].into_iter().collect());
    let f = DType::F32;
    let x = inst(load(0, 1), f, Level::Elem);
    let m = inst(load(1, 1), f, Level::Elem);
    let g = inst(load(2, 1), low, Level::Elem);
    let g = inst(InstKind::Cast(g), f, Level::Elem);
    let s = inst(load(3, 0), f, Level::Elem);
    let p0 = inst(InstKind::Param(0), f, Level::Uniform);
    let p1 = inst(InstKind::Param(1), DType::I64, Level::Uniform);
    let p1 = inst(InstKind::Cast(p1), f, Level::Uniform);
    let p2 = inst(InstKind::Param(2), DType::Bool, Level::Uniform);
    let p2 = inst(InstKind::Cast(p2), f, Level::Uniform);
    let a = inst(binary(&ewise::MUL, m, p0), f, Level::Elem);
    let b = inst(binary(&ewise::MUL, g, s), f, Level::Elem);
    let m = inst(binary(&ewise::ADD, a, b), f, Level::Elem);
    let y = inst(binary(&ewise::MUL, m, p1), f, Level::Elem);
    let y = inst(binary(&ewise::ADD, x, y), f, Level::Elem);
    let y = inst(binary(&ewise::ADD, y, p2), f, Level::Elem);
    let z = inst(InstKind::Cast(y), low, Level::Elem);
    inst(InstKind::Store { arg: 4, access: at(1), value: m }, f, Level::Elem);
    inst(InstKind::Store { arg: 5, access: at(1), value: z }, low, Level::Elem);
    let arg = |dtype, written| Arg { dtype, written };
    let args = vec![arg(f, false), arg(f, false), arg(low, false), arg(f, false), arg(f, true), arg(low, true)];
    let k = Kernel {
        map: vec![extent],
        reduce: vec![],
        args,
        params: vec![f, DType::I64, DType::Bool],
        insts,
        order: Order::ROWS,
    };
    assert_eq!(verify(&k), Ok(()));
    k
}

/// Extents with and without rests, with none at all, and more of them than a table has room for.
fn extents() -> Vec<usize> {
    let mut all = vec![0, 1, 3, 4096, 1024, 1025, 0, 7, 2500, 16, 0];
    all.extend((0..60).map(|i| 100 + 37 * i));
    all
}

fn params(part: usize) -> Vec<Scalar> {
    vec![Scalar::F(0.25 * (part % 7) as f64), Scalar::I(part as i64 % 3 - 1), Scalar::B(part.is_multiple_of(2))]
}

fn programs() -> Vec<(Vec<Kernel>, emit::Many)> {
    let mut out = vec![];
    for low in [DType::F32, DType::BF16] {
        for aligned in [true, false] {
            let kernels: Vec<Kernel> = extents().into_iter().map(|n| update(low, n)).collect();
            let target = emit::CudaTarget { aligned, ..TARGET };
            let many = emit::cuda_many(&kernels, &target).unwrap().unwrap();
            out.push((kernels, many));
        }
    }
    out
}

#[test]
fn they_compile() {
    let Some(rtc) = nvrtc::Nvrtc::find() else { return };
    for (_, m) in programs() {
        for arch in ["sm_80", "sm_90"] {
            rtc.compile(&m.program.text, arch).unwrap_or_else(|log| panic!("{log}\n{}", m.program.text));
        }
    }
}

/// What is not one body, or would not fit, is refused; the table stays below what every driver takes.
#[test]
fn what_cannot_go_as_one_is_refused() {
    let many = |k: &[Kernel]| emit::cuda_many(k, &TARGET).unwrap();
    assert!(many(&[]).is_none());
    assert!(many(&[update(DType::F32, 8), update(DType::BF16, 8)]).is_none());
    assert!(many(&[update(DType::F32, 8), update(DType::F32, 1 << 30)]).is_none());
    let two = Kernel { map: vec![2, 4], ..update(DType::F32, 8) };
    assert!(many(&[two.clone(), two]).is_none());
    let all: Vec<Kernel> = (0..1000).map(|n| update(DType::F32, n)).collect();
    let table = many(&all).unwrap().table;
    assert!(table.words * 8 <= 4080 && table.parts > 40, "{table:?}");
    // Whole vectors need no code for what is left over.
    let text = |n| many(&[update(DType::F32, n), update(DType::F32, 64)]).unwrap().program.text;
    assert!(text(63).contains("else") && !text(60).contains("else"));
}

/// Bytes of a buffer: small numbers that every type holds.
fn fill(d: DType, n: usize, seed: usize) -> Vec<u8> {
    let value = |i: usize| ((i * 31 + seed * 17) % 64) as f32 * 0.125 - 3.0;
    match d {
        // The upper half of an f32 that has no lower one.
        DType::BF16 => (0..n).flat_map(|i| ((value(i).to_bits() >> 16) as u16).to_ne_bytes()).collect(),
        _ => (0..n).flat_map(|i| value(i).to_ne_bytes()).collect(),
    }
}

#[test]
fn they_agree_with_the_oracle() {
    let cases = programs();
    // The number of blocks is a matter of the launch: each chunk of parts is a program of its own here.
    let mut programs = vec![];
    let mut runs = vec![];
    for (c, (kernels, m)) in cases.iter().enumerate() {
        let parts: Vec<usize> = (0..kernels.len()).collect();
        for chunk in parts.chunks(m.table.parts) {
            let blocks = chunk.iter().map(|&p| m.table.blocks(kernels[p].rows())).sum();
            let mut program = m.program.clone();
            program.stages[0].blocks = blocks;
            programs.push(program);
            runs.push((c, chunk.to_vec(), blocks));
        }
    }
    let Some(lib) = host::Library::build(&programs) else { return };
    for (i, (c, chunk, blocks)) in runs.iter().enumerate() {
        let (kernels, m) = &cases[*c];
        let mut words = vec![];
        m.table.clear(&mut words, *blocks);
        // Buffers of 16-byte words, and room behind the last element that must stay as it is.
        let mut memory: Vec<Vec<Vec<[u64; 2]>>> = vec![];
        let mut first = 0;
        for (n, &p) in chunk.iter().enumerate() {
            let k = &kernels[p];
            let own: Vec<Vec<[u64; 2]>> = (0..k.args.len())
                .map(|a| {
                    let bytes = fill(k.args[a].dtype, k.rows() + 8, p + a);
                    let mut words = vec![[0u64; 2]; bytes.len().div_ceil(16)];
                    // SAFETY: the words have room for the bytes.
                    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), words.as_mut_ptr().cast(), bytes.len()) };
                    words
                })
                .collect();
            let addresses: Vec<u64> = own.iter().map(|b| b.as_ptr() as u64).collect();
            memory.push(own);
            m.table.set_part(&mut words, n, &addresses, k.rows(), first);
            m.table.set_params(&mut words, n, &params(p));
            first += m.table.blocks(k.rows());
        }
        let mut list: Vec<*mut c_void> = vec![words.as_mut_ptr().cast()];
        lib.call(i, &programs[i], &mut list);
        for (own, &p) in memory.iter().zip(chunk) {
            let k = &kernels[p];
            let mut want: Vec<Vec<u8>> =
                (0..k.args.len()).map(|a| fill(k.args[a].dtype, k.rows() + 8, p + a)).collect();
            let mut slots: Vec<oracle::Bytes<'_>> =
                want.iter_mut().map(|bytes| oracle::Bytes { bytes, offset: 0 }).collect();
            oracle::run(k, &mut slots, &params(p)).unwrap();
            for (a, (w, g)) in want.iter().zip(own).enumerate() {
                // SAFETY: the words hold at least these bytes.
                let g = unsafe { std::slice::from_raw_parts(g.as_ptr().cast::<u8>(), w.len()) };
                assert!(w == g, "part {p} of {} elements, buffer {a}", k.rows());
            }
        }
    }
    println!("{} launches of {} parts ran", runs.len(), extents().len());
}

//! Rows that are kept in shared memory.

use super::{cases::Case, host, nvrtc, planned};
use gradus_core::{DType, Tensor, kernel::emit};

/// One multiprocessor: four rows are not split.
const SMALL: emit::CudaTarget = emit::CudaTarget { multiprocessors: 1, shared: 228 << 10, aligned: true };

/// A scaled softmax of rows, or their gradient-like difference from a second operand that is read in two passes as well.
fn rows(dtype: DType, cols: usize, two: bool) -> Case {
    let leaf = || {
        let t = Tensor::zeros([4, cols], dtype).contiguous();
        t.eval().unwrap();
        t
    };
    let (x, g) = (leaf(), leaf());
    let (wide, other) = (x.to_dtype(DType::F32), g.to_dtype(DType::F32));
    let e = (&wide - wide.amax(1, true).unwrap()).exp();
    let mut y = &e / &e.sum_dim(1, true).unwrap();
    if two {
        y = (&other - (&other * &y).sum_dim(1, true).unwrap()) * &y;
    }
    let y = (y * 100.0).to_dtype(dtype);
    drop((e, wide, other));
    let kernel = planned(&y);
    let value = |i: usize| ((i * 7919 + i / 13) % 4001) as f32 / 500.0 - 4.0;
    let bytes = |n: usize| -> Vec<u8> {
        match dtype {
            DType::BF16 => (0..n).flat_map(|i| ((value(i).to_bits() >> 16) as u16).to_ne_bytes()).collect(),
            _ => (0..n).flat_map(|i| value(i).to_ne_bytes()).collect(),
        }
    };
    Case {
        name: format!("{dtype} rows of {cols}, {}", if two { "two operands" } else { "one operand" }),
        row: None,
        args: kernel.args.iter().map(|_| bytes(4 * cols)).collect(),
        offsets: vec![],
        params: kernel.params.iter().map(|_| 100.0.into()).collect(),
        tolerance: 1e-5,
        raises: 0,
        kernel,
    }
}

fn every() -> Vec<(Case, emit::Program)> {
    let mut out = vec![];
    for (dtype, cols) in [(DType::BF16, 20_000), (DType::BF16, 20_001), (DType::F32, 16_500), (DType::F32, 17_003)] {
        for (two, aligned) in [(false, true), (true, true), (false, false)] {
            let case = rows(dtype, cols, two);
            let p = emit::cuda_program(&case.kernel, &emit::CudaTarget { aligned, ..SMALL }).unwrap();
            out.push((case, p));
        }
    }
    out
}

#[test]
fn they_are_where_two_fit_a_multiprocessor() {
    for (case, p) in every() {
        let [stage] = &p.stages[..] else { panic!("{}: {:?}", case.name, p.stages) };
        let row = case.kernel.args[0].dtype.size() * case.kernel.cols();
        let kept = (1..=2).map(|n| n * row.next_multiple_of(16)).find(|&n| n == stage.shared);
        // Two operands of f32 are too much for two blocks; registers keep what they can then.
        let expected = case.name.starts_with("bf16") || case.name.ends_with("one operand");
        assert_eq!(kept.is_some(), expected, "{}: {stage:?}", case.name);
        assert!(stage.shared <= 110 << 10 && (stage.shared == 0 || stage.threads == 512), "{}: {stage:?}", case.name);
        assert_eq!(p.text.contains("g_copy_16(kept"), expected && p.alignment[0] == 16, "{}", case.name);
    }
    // A GPU with less of it goes without.
    let long = rows(DType::BF16, 50_304, false);
    for (shared, fits) in [(228 << 10, true), (164 << 10, false)] {
        let p = emit::cuda_program(&long.kernel, &emit::CudaTarget { shared, ..SMALL }).unwrap();
        assert_eq!(p.stages[0].shared > 0, fits);
    }
    // Shorter rows leave room for several blocks as they are.
    let short = rows(DType::BF16, 8192, false);
    assert_eq!(emit::cuda_program(&short.kernel, &SMALL).unwrap().stages[0].shared, 0);
}

#[test]
fn they_compile() {
    let Some(rtc) = nvrtc::Nvrtc::find() else { return };
    for arch in ["sm_75", "sm_80", "sm_90"] {
        let text: String = every().iter().enumerate().map(|(i, (_, p))| host::in_namespace(i, p)).collect();
        rtc.compile(&text, arch).unwrap_or_else(|log| panic!("{log}\n{text}"));
    }
}

#[test]
fn they_agree_with_the_oracle() {
    let all = every();
    let programs: Vec<emit::Program> = all.iter().map(|(_, p)| p.clone()).collect();
    let Some(lib) = host::Library::build(&programs) else { return };
    for (n, (c, p)) in all.iter().enumerate() {
        c.compare(false, |args, flags| lib.run(n, p, c, args, flags)).unwrap();
    }
}

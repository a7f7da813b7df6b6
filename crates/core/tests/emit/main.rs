//! Emitted source: readable (snapshots), valid (naga for WGSL, NVRTC for CUDA C where it is installed), and right (the
//! CUDA C runs on the CPU through a shim, where there is a C++ compiler, and is compared with the oracle).

mod cases;
mod host;
mod kept;
mod many;
mod nvrtc;

use cases::{Case, every};
use gradus_core::{
    DType, Error, ErrorKind, Tensor,
    kernel::{Kernel, Order, emit, verify},
    op::{ReduceOp, ewise},
};

fn planned(t: &Tensor) -> Kernel {
    let plan = t.explain().unwrap();
    assert_eq!(plan.launches(), 1, "{plan}");
    plan.steps[0].kernel.clone().unwrap()
}

fn softmax() -> Kernel {
    let x = Tensor::zeros([64, 1000], DType::F32).contiguous();
    x.eval().unwrap();
    let e = (&x - x.amax(1, true).unwrap()).exp();
    let y = &e / &e.sum_dim(1, true).unwrap();
    drop(e);
    planned(&y)
}

fn chain() -> Kernel {
    let x = Tensor::zeros([32, 100], DType::F32).contiguous();
    let b = Tensor::zeros([100], DType::F32).contiguous();
    Tensor::eval_all(&[&x, &b]).unwrap();
    let h = &x * 2.0 + b;
    let y = h.tanh() * 0.5 + &x;
    drop(h);
    planned(&y)
}

fn column_sum() -> Kernel {
    let x = Tensor::zeros([5000, 300], DType::F32).contiguous();
    x.eval().unwrap();
    planned(&x.sum_dim(0, false).unwrap())
}

#[test]
fn snapshots() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emit/snapshots");
    for (name, k) in [("softmax", softmax()), ("fused_chain", chain()), ("column_sum", column_sum())] {
        let (cuda, wgsl) = (emit::cuda(&k).unwrap(), emit::wgsl(&k).unwrap());
        for (file, s) in [(format!("{name}.cu"), cuda), (format!("{name}.wgsl"), wgsl)] {
            let now = format!("// {:?}, {} threads a block\n{}", s.launch, s.block, s.text);
            let path = dir.join(&file);
            if std::env::var_os("GRADUS_BLESS").is_some() {
                std::fs::write(&path, &now).unwrap();
            }
            let then = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(now == then, "{file} differs from its snapshot (GRADUS_BLESS=1 accepts this):\n{now}");
        }
    }
}

fn validate(name: &str, s: &emit::Source) {
    let module = naga::front::wgsl::parse_str(&s.text)
        .unwrap_or_else(|e| panic!("{name}: {}\n{}", e.emit_to_string(&s.text), s.text));
    let caps = naga::valid::Capabilities::SHADER_FLOAT16;
    naga::valid::Validator::new(naga::valid::ValidationFlags::all(), caps)
        .validate(&module)
        .unwrap_or_else(|e| panic!("{name}: {}\n{}", e.emit_to_string(&s.text), s.text));
}

#[test]
fn every_wgsl_is_valid_or_names_what_is_missing() {
    let (mut valid, mut refused) = (0, 0);
    for c in every() {
        assert_eq!(verify(&c.kernel), Ok(()), "{}\n{}", c.name, c.kernel);
        match emit::wgsl_with(&c.kernel, emit::Features { f16: true }) {
            Ok(s) => {
                validate(&c.name, &s);
                valid += 1;
            }
            Err(e) => {
                let ErrorKind::DType { dtypes, .. } = e.kind() else { panic!("{}: {e}", c.name) };
                let lacks = |d: &DType| !matches!(d, DType::F32 | DType::I32 | DType::F16);
                let untold = c.row.is_some_and(|r| e.to_string().contains(r));
                assert!(dtypes.iter().any(lacks) || untold, "{}: {e}", c.name);
                assert!(dtypes.iter().all(|d| e.to_string().contains(d.name())), "{}: {e}", c.name);
                refused += 1;
            }
        }
    }
    println!("{valid} kernels valid, {refused} refused");
    assert!(valid > 100);
    for k in [softmax(), chain(), column_sum()] {
        validate("planned", &emit::wgsl(&k).unwrap());
    }
}

/// A GPU as programs are written for it; few multiprocessors would never split a row.
const TARGET: emit::CudaTarget = emit::CudaTarget { multiprocessors: 132, shared: 228 << 10, aligned: true };

/// The programs of a case: the plain one, the fast one, and (but for single rows of the table, which share their loops)
/// the fast one that trusts no address.
fn programs(c: &Case) -> Vec<emit::Program> {
    let fast = |aligned| emit::cuda_program(&c.kernel, &emit::CudaTarget { aligned, ..TARGET }).unwrap();
    let mut out = vec![host::plain(&c.kernel), fast(true)];
    if c.row.is_none() && !c.name.starts_with("cast") {
        out.push(fast(false));
    }
    out
}

#[test]
fn every_cuda_compiles() {
    let Some(rtc) = nvrtc::Nvrtc::find() else { return };
    // Many kernels a text: a compilation costs far more than a kernel in it. The plain programs for an older GPU, the
    // fast ones for a newer.
    let mut all: Vec<(bool, emit::Program)> =
        every().iter().flat_map(|c| programs(c).into_iter().enumerate().map(|(n, p)| (n > 0, p))).collect();
    all.extend([softmax(), chain(), column_sum()].map(|k| (true, emit::cuda_program(&k, &TARGET).unwrap())));
    for (fast, arch) in [(false, "sm_80"), (true, "sm_90")] {
        let these: Vec<&emit::Program> = all.iter().filter(|p| p.0 == fast).map(|p| &p.1).collect();
        for (n, part) in these.chunks(64).enumerate() {
            let text: String = part.iter().enumerate().map(|(i, p)| host::in_namespace(i, p)).collect();
            rtc.compile(&text, arch).unwrap_or_else(|log| panic!("part {n} for {arch}: {log}"));
        }
        println!("{} programs compiled for {arch}", these.len());
    }
}

#[test]
fn cuda_on_the_cpu_agrees_with_the_oracle() {
    let cases: Vec<Case> = every().into_iter().filter(|c| !host::LACKS.iter().any(|r| c.row == Some(r))).collect();
    let programs: Vec<(usize, bool, emit::Program)> = cases
        .iter()
        .enumerate()
        .flat_map(|(i, c)| programs(c).into_iter().enumerate().map(move |(n, p)| (i, n == 0, p)))
        .collect();
    let texts: Vec<emit::Program> = programs.iter().map(|p| p.2.clone()).collect();
    let Some(lib) = host::Library::build(&texts) else { return };
    let mut wrong = vec![];
    for (n, (i, plain, p)) in programs.iter().enumerate() {
        let c = &cases[*i];
        if let Err(e) = c.compare(*plain, |args, flags| lib.run(n, p, c, args, flags)) {
            wrong.push(format!("{e} ({})", if *plain { "plain" } else { "fast" }));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), programs.len(), wrong.join("\n"));
    println!("{} programs of {} kernels ran", programs.len(), cases.len());
}

#[test]
fn every_row_has_cuda_text_for_the_types_it_takes() {
    for row in ewise::all() {
        let ints = row.i64.is_some() || row.bool.is_some();
        assert_eq!(row.f32.is_some(), !row.c.is_empty(), "{}", row.name);
        assert_eq!(ints, !row.c_int.is_empty(), "{}", row.name);
        assert!(row.wgsl.is_empty() || row.f32.is_some(), "{}", row.name);
    }
}

#[test]
fn wgsl_names_the_type_it_lacks() {
    let fails = |k: &Kernel, d: DType| {
        let e: Error = emit::wgsl(k).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::DType { dtypes, .. } if dtypes[..] == [d]), "{e}");
        assert!(e.to_string().contains(d.name()), "{e}");
    };
    for d in [DType::F64, DType::I16, DType::I8, DType::U8, DType::Bool, DType::BF16, DType::F16] {
        fails(&cases::reduce(ReduceOp::Max, d, 2, 3, Order::ROWS).kernel, d);
    }
    // A sum of loaded i64 may overflow an i32; their maximum cannot.
    fails(&cases::reduce(ReduceOp::Sum, DType::I64, 2, 3, Order::ROWS).kernel, DType::I64);
    assert!(emit::wgsl(&cases::reduce(ReduceOp::Max, DType::I64, 2, 3, Order::ROWS).kernel).is_ok());
    // Addresses beyond an i32.
    let big = cases::reduce(ReduceOp::Max, DType::F32, 1 << 20, 1 << 12, Order::ROWS).kernel;
    fails(&big, DType::I64);
    assert!(emit::cuda(&big).unwrap().text.contains("long long r"));
}

#[test]
fn launches_and_uniforms() {
    let s = emit::cuda(&softmax()).unwrap();
    assert_eq!((s.launch, s.block), (emit::Launch::Blocks { points: 64 }, 64));
    assert_eq!((s.blocks(1 << 20), s.blocks(10)), (64, 10));
    let k = chain();
    let s = emit::wgsl(&k).unwrap();
    assert_eq!(s.launch, emit::Launch::Threads { points: 3200 });
    assert_eq!(s.blocks(65535), 13);
    let offsets = vec![3; k.args.len()];
    let bytes = s.uniform_bytes(&k, &offsets, &vec![2.0.into(); k.params.len()]).unwrap();
    assert_eq!(bytes.len(), s.uniform.unwrap().1);
    assert_eq!(bytes[..4], 3i32.to_le_bytes());
    let at = 4 * k.args.len();
    assert_eq!(bytes[at..at + 4], 2f32.to_le_bytes());
    let e = s.uniform_bytes(&k, &vec![1 << 40; k.args.len()], &vec![2.0.into(); k.params.len()]).unwrap_err();
    assert!(e.to_string().contains("1099511627776 does not fit"), "{e}");
}

#[test]
fn raised_bits_become_errors() {
    assert!(emit::raised(0).is_ok());
    assert!(matches!(emit::raised(emit::FLAG_INDEX).unwrap_err().kind(), ErrorKind::Value(_)));
    assert!(matches!(emit::raised(emit::FLAG_DIVISION).unwrap_err().kind(), ErrorKind::Numerical(_)));
    assert!(matches!(emit::raised(emit::FLAG_NARROW).unwrap_err().kind(), ErrorKind::DType { .. }));
}

//! CUDA C.

use super::{
    At, Binding, Launch, Source, What,
    body::{self, Dialect, shared_arrays, shared_name},
    no_text,
    prelude::{fill, needed},
    prelude_cuda, prelude_special,
    schedule::Schedule,
};
use crate::{
    DType, Result, Scalar,
    kernel::{Kernel, oracle},
    op::ewise::Ewise,
};

/// Threads a block may have.
const MAX_THREADS: usize = 1024;
pub(super) const ENTRY: &str = "gradus_kernel";

pub(super) fn emit(k: &Kernel) -> Result<Source> {
    let s = Schedule::new(k, MAX_THREADS);
    let d = Cuda { index: if s.wide { "long long" } else { "int" }, approximate: false };
    let (first, step) = match (s.by_block, s.wide) {
        (true, _) => (format!("({})blockIdx.x", d.index), format!("({})gridDim.x", d.index)),
        (false, false) => {
            (format!("(int)(blockIdx.x * {0} + threadIdx.x)", s.threads), format!("(int)(gridDim.x * {})", s.threads))
        }
        (false, true) => (
            format!("(long long)blockIdx.x * {0} + threadIdx.x", s.threads),
            format!("(long long)gridDim.x * {}", s.threads),
        ),
    };
    let body = body::write(&d, &s, &first, &step)?;
    let mut args: Vec<(What, String)> = vec![];
    for (i, a) in k.args.iter().enumerate() {
        let constant = if a.written { "" } else { "const " };
        args.push((What::Buffer(i), format!("{constant}{}* __restrict__ b{i}", stored(a.dtype))));
    }
    for (i, &p) in k.params.iter().enumerate() {
        let ty = if p == DType::Bool { "unsigned char" } else { d.register(p) };
        args.push((What::Param(i), format!("const {ty} p{i}")));
    }
    if body.contains(", err)") {
        args.push((What::Flags, "unsigned int* err".into()));
    }
    let mut head = String::new();
    if s.by_block {
        for (dtype, slot) in shared_arrays(&s) {
            let ty = d.register(dtype);
            head += &format!("    __shared__ {ty} {}[{}];\n", shared_name(ty, slot), s.threads);
        }
        head += &format!("    const {} tid = threadIdx.x;\n", d.index);
    }
    let list: Vec<&str> = args.iter().map(|(_, text)| &text[..]).collect();
    let main = format!(
        "extern \"C\" __global__ void __launch_bounds__({}) {ENTRY}({}) {{\n{head}{body}}}\n",
        s.threads,
        list.join(", ")
    );
    let text = needed(&[prelude_cuda::HELPERS, prelude_special::HELPERS], &main) + &main;
    let bindings = args.iter().enumerate().map(|(n, (what, _))| Binding { what: *what, at: At::Argument(n) }).collect();
    let launch = match s.by_block {
        true => Launch::Blocks { points: s.rows },
        false => Launch::Threads { points: s.rows },
    };
    Ok(Source { text, entry: ENTRY, block: s.threads, launch, bindings, uniform: None })
}

/// The type of an element in memory.
pub(super) fn stored(d: DType) -> &'static str {
    match d {
        DType::Bool | DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::I16 => "short",
        DType::I32 => "int",
        DType::I64 => "long long",
        DType::F16 | DType::BF16 => "unsigned short",
        DType::F32 => "float",
        DType::F64 => "double",
    }
}

pub(super) struct Cuda {
    pub index: &'static str,
    /// Whether functions need no more digits than 16-bit floats show.
    pub approximate: bool,
}

impl Cuda {
    /// An integer expression as the narrower type would hold it: registers are 64 bits wide.
    fn wrap(&self, x: String, d: DType) -> String {
        match d {
            DType::U8 | DType::I8 | DType::I16 | DType::I32 => format!("({}){x}", stored(d)),
            DType::Bool | DType::I64 | DType::F16 | DType::BF16 | DType::F32 | DType::F64 => x,
        }
    }
}

impl Dialect for Cuda {
    fn register(&self, d: DType) -> &'static str {
        match d {
            DType::Bool => "bool",
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => "long long",
            DType::F16 | DType::BF16 | DType::F32 => "float",
            DType::F64 => "double",
        }
    }

    fn index(&self) -> &'static str {
        self.index
    }

    fn define(&self, ty: &str, name: &str, value: &str) -> String {
        format!("const {ty} {name} = {value};")
    }

    fn variable(&self, ty: &str, name: &str, value: &str) -> String {
        format!("{ty} {name} = {value};")
    }

    fn array(&self, ty: &str, name: &str, len: usize) -> String {
        format!("{ty} {name}[{len}];")
    }

    fn count(&self, name: &str, from: &str, below: &str, step: &str) -> String {
        format!("for ({} {name} = {from}; {name} < {below}; {name} += {step})", self.index)
    }

    fn number(&self, x: Scalar, d: DType) -> String {
        match d.compute() {
            DType::F32 => match x.f64() as f32 {
                f if f.is_finite() => format!("{f:?}f"),
                f => format!("__int_as_float(0x{:08x})", f.to_bits()),
            },
            DType::F64 => match x.f64() {
                f if f.is_finite() => format!("{f:?}"),
                f => format!("__longlong_as_double(0x{:016x}ll)", f.to_bits()),
            },
            DType::Bool => x.bool().to_string(),
            _ => match oracle::wrap(x.i64(), d) {
                i64::MIN => "(-9223372036854775807ll - 1)".into(),
                i => format!("{i}ll"),
            },
        }
    }

    fn unpack(&self, d: DType, x: &str) -> String {
        match d {
            DType::F16 => format!("g_f16_to_f32({x})"),
            DType::BF16 => format!("g_bf16_to_f32({x})"),
            DType::Bool => format!("({x} != 0)"),
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::F32 | DType::F64 => x.into(),
        }
    }

    fn pack(&self, d: DType, value: &str) -> String {
        match d {
            DType::F16 => format!("g_f32_to_f16({value})"),
            DType::BF16 => format!("g_f32_to_bf16({value})"),
            DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::I32 => format!("({}){value}", stored(d)),
            DType::I64 | DType::F32 | DType::F64 => value.into(),
        }
    }

    fn load(&self, arg: usize, d: DType, at: &str) -> String {
        self.unpack(d, &format!("b{arg}[{at}]"))
    }

    fn store(&self, arg: usize, d: DType, at: &str, value: &str) -> String {
        format!("b{arg}[{at}] = {};", self.pack(d, value))
    }

    fn iota(&self, at: &str) -> String {
        format!("(long long)({at})")
    }

    fn random(&self, d: DType, at: &str, seed: usize, stream: usize) -> String {
        let f = if d == DType::F64 { "g_rand_f64" } else { "g_rand_f32" };
        format!("{f}((unsigned long long)({at}), (unsigned long long)p{stream}, (unsigned long long)p{seed})")
    }

    fn param(&self, p: usize, d: DType) -> String {
        if d == DType::Bool { format!("(p{p} != 0)") } else { format!("p{p}") }
    }

    fn cast(&self, x: &str, from: DType, to: DType) -> String {
        let from = from.compute();
        match to {
            DType::Bool if from == DType::Bool => x.into(),
            DType::Bool => format!("({x} != 0)"),
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
                let x = if from.is_float() { format!("g_to_i64({x})") } else { format!("(long long){x}") };
                self.wrap(x, to)
            }
            // Through f64, as the oracle goes: the roundings are part of the meaning.
            DType::F32 if from == DType::I64 => format!("(float)(double){x}"),
            DType::F32 => format!("(float){x}"),
            DType::F64 => format!("(double){x}"),
            DType::F16 | DType::BF16 => {
                let wide = if from == DType::F32 { "f32" } else { "f64" };
                let x = if from == DType::I64 || from == DType::Bool { format!("(double){x}") } else { x.into() };
                format!("g_{to}_to_f32(g_{wide}_to_{to}({x}))")
            }
        }
    }

    fn ewise(&self, row: &Ewise, over: DType, x: &[String]) -> Result<String> {
        let quick = if self.approximate && over.compute() == DType::F32 { quick(row.name) } else { None };
        let text = match (over, row.name) {
            _ if quick.is_some() => quick.unwrap_or_default(),
            (DType::Bool, "bitwise_not") => "(!{0})",
            _ if over.is_float() => row.c,
            _ => row.c_int,
        };
        if text.is_empty() {
            return Err(no_text("cuda", row, over));
        }
        let made_bool = row.kind == crate::op::ewise::Kind::Compare;
        let value = fill(text, x);
        Ok(if made_bool { value } else { self.wrap(value, over) })
    }

    fn looked_up(&self, value: &str, size: usize) -> String {
        format!("g_index({value}, {size}, err)")
    }

    fn divisor(&self, value: &str) -> String {
        format!("g_divisor({value}, err)")
    }

    fn barrier(&self) -> &'static str {
        "__syncthreads();"
    }
}

/// A row's text where a relative error of 2^-11 does no harm: one or a few instructions of the hardware.
fn quick(row: &str) -> Option<&'static str> {
    Some(match row {
        "exp" => "g_quick_exp({0})",
        "tanh" => "g_quick_tanh({0})",
        "sigmoid" => "g_quick_reciprocal(1.0f + g_quick_exp(-{0}))",
        "maximum" => "g_quick_maximum({0}, {1})",
        "div" => "g_quick_divide({0}, {1})",
        _ => return None,
    })
}

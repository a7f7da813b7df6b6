//! WGSL.

use super::{
    At, Binding, Launch, Source, What,
    body::{self, Dialect, shared_arrays, shared_name},
    no_text,
    prelude::{fill, needed},
    prelude_wgsl,
    range::{check_narrow, identity},
    schedule::Schedule,
};
use crate::{
    DType, Error, Result, Scalar,
    kernel::{InstKind, Kernel, Source as From},
    op::ewise::{Ewise, Kind},
};

/// Threads a workgroup may have on every device.
const MAX_THREADS: usize = 256;
const ENTRY: &str = "gradus_kernel";

/// Extensions of WGSL that an emitted program may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `enable f16;`: buffers of f16.
    pub f16: bool,
}

pub(super) fn emit(k: &Kernel, features: Features) -> Result<Source> {
    check_types(k, features)?;
    check_narrow(k)?;
    let s = Schedule::new(k, MAX_THREADS);
    if s.wide {
        let why =
            format!("wgsl has no i64, and an address of map {:?} reduce {:?} does not fit an i32", k.map, k.reduce);
        return Err(Error::dtype("wgsl", &[DType::I64], why).hint("split the tensor, or run it on the CPU"));
    }
    let seeds: Vec<usize> = k
        .insts
        .iter()
        .filter_map(|i| match i.kind {
            InstKind::Load { source: From::Rand { seed, stream }, .. } => Some([seed, stream]),
            _ => None,
        })
        .flatten()
        .collect();
    let d = Wgsl;
    let (first, step) = match s.by_block {
        true => ("i32(workgroup.x)".to_string(), "i32(workgroups.x)".to_string()),
        false => (format!("i32(workgroup.x) * {} + tid", s.threads), format!("i32(workgroups.x) * {}", s.threads)),
    };
    let body = body::write(&d, &s, &first, &step)?;

    let mut bindings = vec![];
    let mut globals = String::new();
    for (i, a) in k.args.iter().enumerate() {
        let access = if a.written { "read_write" } else { "read" };
        globals += &format!("@group(0) @binding({i}) var<storage, {access}> b{i}: array<{}>;\n", stored(a.dtype));
        bindings.push(Binding { what: What::Buffer(i), at: At::Slot(i) });
    }
    let mut fields = String::new();
    let mut bytes = 0;
    let mut field = |what: What, text: String, size: usize| {
        fields += &text;
        bindings.push(Binding { what, at: At::Uniform { offset: bytes, bytes: size } });
        bytes += size;
    };
    for i in 0..k.args.len() {
        field(What::Offset(i), format!("    o{i}: i32,\n"), 4);
    }
    for (i, &p) in k.params.iter().enumerate() {
        if seeds.contains(&i) {
            field(What::Param(i), format!("    p{i}_low: u32,\n    p{i}_high: u32,\n"), 8);
        } else {
            let ty = if p == DType::Bool { "u32" } else { d.register(p) };
            field(What::Param(i), format!("    p{i}: {ty},\n"), 4);
        }
    }
    let slot = k.args.len();
    let mut uniform = None;
    if bytes > 0 {
        globals += &format!("@group(0) @binding({slot}) var<uniform> u: Uniforms;\n");
        globals = format!("struct Uniforms {{\n{fields}}}\n\n{globals}");
        uniform = Some((slot, bytes.next_multiple_of(16)));
    }
    let flags = ["g_index(", "g_divisor(", "g_narrow("].iter().any(|f| body.contains(f));
    if flags {
        let n = slot + 1;
        globals += &format!("@group(0) @binding({n}) var<storage, read_write> err: atomic<u32>;\n");
        bindings.push(Binding { what: What::Flags, at: At::Slot(n) });
    }
    for (dtype, slot) in shared_arrays(&s) {
        let ty = d.register(dtype);
        globals += &format!("var<workgroup> {}: array<{ty}, {}>;\n", shared_name(ty, slot), s.threads);
    }
    let enable = if k.args.iter().any(|a| a.dtype == DType::F16) { "enable f16;\n\n" } else { "" };
    let helpers = needed(&[prelude_wgsl::HELPERS], &body);
    let text = format!(
        "{enable}{globals}\n{helpers}@compute @workgroup_size({})\nfn {ENTRY}(\n    @builtin(local_invocation_index) local: u32,\n    @builtin(workgroup_id) workgroup: vec3<u32>,\n    @builtin(num_workgroups) workgroups: vec3<u32>,\n) {{\n    let tid: i32 = i32(local);\n{body}}}\n",
        s.threads
    );
    let launch = match s.by_block {
        true => Launch::Blocks { points: s.rows },
        false => Launch::Threads { points: s.rows },
    };
    Ok(Source { text, entry: ENTRY, block: s.threads, launch, bindings, uniform })
}

/// An error that names the first type which WGSL lacks.
fn check_types(k: &Kernel, features: Features) -> Result<()> {
    let missing = |d: DType, why: &str| {
        Err(Error::dtype("wgsl", &[d], format!("wgsl has no {d}{why}")).hint("convert it first, or run it on the CPU"))
    };
    let register = |d: DType| match d {
        DType::Bool | DType::I32 | DType::I64 | DType::F32 | DType::F16 => Ok(()),
        DType::U8 | DType::I8 | DType::I16 | DType::BF16 | DType::F64 => missing(d, ""),
    };
    for a in &k.args {
        match a.dtype {
            DType::F16 if !features.f16 => missing(a.dtype, " without its extension")?,
            DType::Bool => missing(a.dtype, " in buffers")?,
            d => register(d)?,
        }
    }
    k.params.iter().try_for_each(|&d| register(d))?;
    for inst in &k.insts {
        register(inst.dtype)?;
        if inst.dtype == DType::F16 && matches!(inst.kind, InstKind::Cast(_)) && !features.f16 {
            missing(DType::F16, " without its extension")?;
        }
        if let InstKind::Load { source: From::Rand { seed, stream }, .. } = inst.kind
            && k.insts.iter().any(|i| matches!(i.kind, InstKind::Param(p) if p == seed || p == stream))
        {
            return Err(crate::Tensor::bug("a seed of random numbers is also a number of the kernel"));
        }
    }
    Ok(())
}

/// The type of an element in memory.
fn stored(d: DType) -> &'static str {
    match d {
        DType::F16 => "f16",
        DType::I64 => "vec2<i32>",
        DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::I32 => "i32",
        DType::BF16 | DType::F32 | DType::F64 => "f32",
    }
}

/// The text of a row over bools: WGSL has no arithmetic and no order for them.
fn over_bools(name: &str, text: &'static str) -> &'static str {
    match name {
        "add" | "maximum" | "fmax" | "bitwise_or" => "({0} || {1})",
        "mul" | "minimum" | "fmin" | "bitwise_and" => "({0} && {1})",
        "bitwise_xor" => "({0} != {1})",
        "bitwise_not" => "(!{0})",
        "abs" | "sign" => "{0}",
        "lt" => "(!{0} && {1})",
        "le" => "(!{0} || {1})",
        "gt" => "({0} && !{1})",
        "ge" => "({0} || !{1})",
        _ => text,
    }
}

struct Wgsl;

impl Dialect for Wgsl {
    fn register(&self, d: DType) -> &'static str {
        match d {
            DType::Bool => "bool",
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => "i32",
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => "f32",
        }
    }

    fn index(&self) -> &'static str {
        "i32"
    }

    fn define(&self, ty: &str, name: &str, value: &str) -> String {
        format!("let {name}: {ty} = {value};")
    }

    fn variable(&self, ty: &str, name: &str, value: &str) -> String {
        format!("var {name}: {ty} = {value};")
    }

    fn array(&self, ty: &str, name: &str, len: usize) -> String {
        format!("var {name}: array<{ty}, {len}>;")
    }

    fn count(&self, name: &str, from: &str, below: &str, step: &str) -> String {
        format!("for (var {name}: i32 = {from}; {name} < {below}; {name} += {step})")
    }

    fn number(&self, x: Scalar, d: DType) -> String {
        match d.compute() {
            DType::Bool => x.bool().to_string(),
            DType::I64 => match identity(x) as i32 {
                i32::MIN => "(-2147483647 - 1)".into(),
                i => i.to_string(),
            },
            // A constant that is not finite is an error in WGSL, so these are made when the program runs.
            _ => match x.f64() as f32 {
                f if f.is_nan() => "g_bits(0x7fc00000u)".into(),
                f if f.is_infinite() => format!("g_bits(0x{:08x}u)", f.to_bits()),
                f => format!("{f:?}f").replace(".0f", ".0"),
            },
        }
    }

    fn unpack(&self, d: DType, x: &str) -> String {
        match d {
            DType::I64 => format!("g_narrow({x})"),
            DType::F16 => format!("f32({x})"),
            DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::I32 => x.into(),
            DType::BF16 | DType::F32 | DType::F64 => x.into(),
        }
    }

    fn pack(&self, d: DType, value: &str) -> String {
        match d {
            DType::I64 => format!("vec2<i32>({value}, {value} >> 31u)"),
            DType::F16 => format!("f16({value})"),
            DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::I32 => value.into(),
            DType::BF16 | DType::F32 | DType::F64 => value.into(),
        }
    }

    fn load(&self, arg: usize, d: DType, at: &str) -> String {
        self.unpack(d, &format!("b{arg}[u.o{arg} + {at}]"))
    }

    fn store(&self, arg: usize, d: DType, at: &str, value: &str) -> String {
        format!("b{arg}[u.o{arg} + {at}] = {};", self.pack(d, value))
    }

    fn iota(&self, at: &str) -> String {
        at.into()
    }

    fn random(&self, _: DType, at: &str, seed: usize, stream: usize) -> String {
        let word = |p: usize| format!("vec2<u32>(u.p{p}_low, u.p{p}_high)");
        format!("g_rand_f32(u32({at}), {}, {})", word(stream), word(seed))
    }

    fn param(&self, p: usize, d: DType) -> String {
        if d == DType::Bool { format!("(u.p{p} != 0u)") } else { format!("u.p{p}") }
    }

    fn cast(&self, x: &str, from: DType, to: DType) -> String {
        let from = from.compute();
        match to {
            DType::Bool if from == DType::Bool => x.into(),
            DType::Bool if from == DType::I64 => format!("({x} != 0)"),
            DType::Bool => format!("({x} != 0.0)"),
            DType::I32 if from == DType::F32 => format!("g_to_i32({x})"),
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => format!("i32({x})"),
            DType::F16 => format!("f32(f16({x}))"),
            DType::BF16 | DType::F32 | DType::F64 => format!("f32({x})"),
        }
    }

    fn ewise(&self, row: &Ewise, over: DType, x: &[String]) -> Result<String> {
        let text = match over {
            DType::Bool if row.kind != Kind::Select => over_bools(row.name, row.wgsl_int),
            _ if over.is_float() => row.wgsl,
            _ => row.wgsl_int,
        };
        if text.is_empty() {
            return Err(no_text("wgsl", row, over));
        }
        Ok(fill(text, x))
    }

    fn looked_up(&self, value: &str, size: usize) -> String {
        format!("g_index({value}, {size})")
    }

    fn divisor(&self, value: &str) -> String {
        format!("g_divisor({value})")
    }

    fn barrier(&self) -> &'static str {
        "workgroupBarrier();"
    }
}

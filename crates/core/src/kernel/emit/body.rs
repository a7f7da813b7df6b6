//! The loops and statements of a kernel: what CUDA C and WGSL share. A [`Dialect`] says how each is spelled.

use super::schedule::Schedule;
use crate::{
    DType, Result, Scalar,
    kernel::{Access, InstKind, Level, Source, Val},
    op::{
        ReduceOp,
        ewise::{self, Ewise, Kind},
    },
};
use std::{collections::HashMap, fmt::Write};

/// The spelling of a language.
pub(super) trait Dialect {
    /// The type of a register.
    fn register(&self, d: DType) -> &'static str;
    /// The type of positions and addresses.
    fn index(&self) -> &'static str;
    /// A name for a value.
    fn define(&self, ty: &str, name: &str, value: &str) -> String;
    /// A variable.
    fn variable(&self, ty: &str, name: &str, value: &str) -> String;
    /// An array of a thread's own.
    fn array(&self, ty: &str, name: &str, len: usize) -> String;
    /// The head of a loop `from .. below` by `step`.
    fn count(&self, name: &str, from: &str, below: &str, step: &str) -> String;
    /// A number in a register.
    fn number(&self, x: Scalar, d: DType) -> String;
    /// An element as memory has it, in a register.
    fn unpack(&self, d: DType, x: &str) -> String;
    /// A register's value as memory has it.
    fn pack(&self, d: DType, value: &str) -> String;
    /// An element of a buffer, in a register.
    fn load(&self, arg: usize, d: DType, at: &str) -> String;
    /// A register's value into a buffer.
    fn store(&self, arg: usize, d: DType, at: &str, value: &str) -> String;
    /// An address as a value.
    fn iota(&self, at: &str) -> String;
    /// A random number by address.
    fn random(&self, d: DType, at: &str, seed: usize, stream: usize) -> String;
    /// A parameter, in a register.
    fn param(&self, p: usize, d: DType) -> String;
    /// A conversion.
    fn cast(&self, x: &str, from: DType, to: DType) -> String;
    /// A row of the table over values of type `over`.
    fn ewise(&self, row: &Ewise, over: DType, x: &[String]) -> Result<String>;
    /// An index, clamped into `0 .. size` with the flag raised.
    fn looked_up(&self, value: &str, size: usize) -> String;
    /// A divisor, 1 with the flag raised where it is 0.
    fn divisor(&self, value: &str) -> String;
    /// Waits for the block.
    fn barrier(&self) -> &'static str;
}

/// The text so far.
pub(super) struct Body<'a, D> {
    pub d: &'a D,
    pub s: &'a Schedule,
    pub depth: usize,
    pub out: String,
    /// The axis whose index is called `x` here: an element of a vector.
    pub element: Option<usize>,
    /// Loads whose value is at hand, as an expression of the type in memory, and stores that go to a place at hand.
    pub at_hand: HashMap<Val, String>,
    /// Under which conditions stores of a level happen.
    pub guards: Guards,
}

/// Conditions for stores by level; nothing means always.
#[derive(Clone, Debug, Default)]
pub(super) struct Guards {
    pub uniform: Option<String>,
    pub row: Option<String>,
    pub elem: Option<String>,
}

impl Guards {
    /// One thread writes what is one for all.
    fn of(s: &Schedule) -> Guards {
        let text = |t: &str| Some(t.to_string());
        match s.by_block {
            true => Guards { uniform: text("r == 0 && tid == 0"), row: text("tid == 0"), elem: None },
            false => Guards { uniform: text("r == 0"), row: None, elem: None },
        }
    }

    fn at(&self, level: Level) -> Option<&str> {
        match level {
            Level::Uniform => self.uniform.as_deref(),
            Level::Row => self.row.as_deref(),
            Level::Elem => self.elem.as_deref(),
        }
    }
}

/// The array of shared memory that reduction `slot` of a pass uses for values of a register type.
pub(super) fn shared_name(register: &str, slot: usize) -> String {
    format!("s{slot}_{}", register.replace(' ', "_"))
}

/// The shared arrays of a schedule: register type and slot, each once.
pub(super) fn shared_arrays(s: &Schedule) -> Vec<(DType, usize)> {
    let mut out: Vec<(DType, usize)> = vec![];
    if s.by_block {
        for p in &s.passes {
            for (slot, &v) in p.reduces.iter().enumerate() {
                let key = (s.kernel.insts[v].dtype.compute(), slot);
                if !out.contains(&key) {
                    out.push(key);
                }
            }
        }
    }
    out
}

/// The statements of the entry point, given names for the first row and for the step between rows of one worker.
pub(super) fn write<D: Dialect>(d: &D, s: &Schedule, first: &str, step: &str) -> Result<String> {
    let mut b = Body::new(d, s);
    for &v in &s.uniforms {
        b.inst(v)?;
    }
    if s.by_block && s.groups > 1 && s.lanes > 1 && s.reduces() {
        b.define_index("lane", &format!("tid % {}", s.lanes));
        b.define_index("group", &format!("tid / {}", s.lanes));
    }
    b.open(&d.count("r", first, &s.rows.to_string(), step));
    b.unravel(true);
    for p in &s.passes {
        b.pass(p)?;
    }
    b.close();
    Ok(b.out)
}

impl<'a, D: Dialect> Body<'a, D> {
    /// Nothing yet.
    pub fn new(d: &'a D, s: &'a Schedule) -> Body<'a, D> {
        Body { d, s, depth: 1, out: String::new(), element: None, at_hand: HashMap::new(), guards: Guards::of(s) }
    }

    pub fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", self.depth * 4);
    }

    pub fn open(&mut self, head: &str) {
        self.line(&format!("{head} {{"));
        self.depth += 1;
    }

    pub fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    pub fn define_index(&mut self, name: &str, value: &str) {
        let text = self.d.define(self.d.index(), name, value);
        self.line(&text);
    }

    pub fn register(&self, v: Val) -> &'static str {
        self.d.register(self.s.kernel.insts[v].dtype)
    }

    // ---- indices -------------------------------------------------------------------------------------------------

    /// The name of the index along axis `d` of the map and reduce spaces.
    pub fn axis(&self, d: usize) -> String {
        if self.element == Some(d) {
            return "x".into();
        }
        let k = &self.s.kernel;
        let nm = k.map.len();
        match (d < nm, if d < nm { nm } else { k.reduce.len() }) {
            (true, 1) => "r".into(),
            (false, 1) => "c".into(),
            (true, _) => format!("i{d}"),
            (false, _) => format!("j{}", d - nm),
        }
    }

    /// Whether any address moves along axis `d`.
    fn moves(&self, d: usize) -> bool {
        self.s.kernel.insts.iter().any(|i| match &i.kind {
            InstKind::Load { access: a, .. } | InstKind::Store { access: a, .. } => {
                a.strides[d] != 0 || a.bounds.iter().any(|b| b.coefs[d] != 0)
            }
            _ => false,
        })
    }

    /// Indices of the map space from `r`, or of the reduce space from `c`.
    pub fn unravel(&mut self, map: bool) {
        let k = &self.s.kernel;
        let (dims, first, from) = if map { (&k.map, 0, "r") } else { (&k.reduce, k.map.len(), "c") };
        if dims.len() < 2 {
            return;
        }
        for d in 0..dims.len() {
            if !self.moves(first + d) {
                continue;
            }
            let inner: usize = dims[d + 1..].iter().product();
            let div = if inner == 1 { String::new() } else { format!(" / {inner}") };
            let rem = if d == 0 { String::new() } else { format!(" % {}", dims[d]) };
            let name = self.axis(first + d);
            self.define_index(&name, &format!("{from}{div}{rem}"));
        }
    }

    /// `sum(coefs * index) + start`.
    fn affine(&self, coefs: &[isize], start: isize) -> String {
        let mut out = String::new();
        let mut term = |positive: bool, text: String| {
            match (out.is_empty(), positive) {
                (true, true) => {}
                (true, false) => out.push('-'),
                (false, true) => out.push_str(" + "),
                (false, false) => out.push_str(" - "),
            }
            out.push_str(&text);
        };
        for (d, &c) in coefs.iter().enumerate() {
            let name = self.axis(d);
            match c {
                0 => {}
                1 | -1 => term(c > 0, name),
                _ => term(c > 0, format!("{} * {name}", c.unsigned_abs())),
            }
        }
        if start != 0 {
            term(start > 0, start.unsigned_abs().to_string());
        }
        if out.is_empty() { "0".into() } else { out }
    }

    pub fn address(&self, a: &Access) -> String {
        let mut out = self.affine(&a.strides, a.offset);
        for l in &a.lookup {
            let i = self.d.looked_up(&format!("v{}", l.value), l.size);
            if out == "0" {
                out.clear();
            }
            let (sign, stride) = (l.stride < 0, l.stride.unsigned_abs());
            let lead = match (out.is_empty(), sign) {
                (true, false) => "",
                (true, true) => "-",
                (false, false) => " + ",
                (false, true) => " - ",
            };
            let by = if stride == 1 { i } else { format!("{stride} * {i}") };
            out = format!("{out}{lead}{by}");
        }
        out
    }

    /// The conditions of an address, or nothing where there are none.
    fn inside(&self, a: &Access) -> Option<String> {
        let one = |b: &crate::view::Bound| {
            let at = self.affine(&b.coefs, 0);
            format!("{at} >= {} && {at} < {}", b.lo, b.hi)
        };
        let all: Vec<String> = a.bounds.iter().map(one).collect();
        (!all.is_empty()).then(|| all.join(" && "))
    }

    // ---- statements ----------------------------------------------------------------------------------------------

    pub fn inst(&mut self, v: Val) -> Result<()> {
        let k = &self.s.kernel;
        let inst = &k.insts[v];
        let (name, ty) = (format!("v{v}"), self.register(v));
        let value = match &inst.kind {
            InstKind::Const(x) => self.d.number(*x, inst.dtype),
            InstKind::Param(p) => self.d.param(*p, inst.dtype),
            InstKind::Load { .. } if self.at_hand.contains_key(&v) => self.d.unpack(inst.dtype, &self.at_hand[&v]),
            InstKind::Load { source, access } => {
                if access.lookup.iter().any(|l| l.size == 0) {
                    // There is nothing to read; the flag is all that can come of it.
                    let raise = self.d.looked_up("-1", 0);
                    let zero = self.d.number(Scalar::I(0), inst.dtype);
                    let text = self.d.variable(ty, &name, &zero);
                    self.line(&text);
                    let head = self.inside(access).map_or(String::new(), |c| format!("if ({c})"));
                    self.open(head.trim());
                    self.define_index("none", &raise);
                    self.close();
                    return Ok(());
                }
                let at = self.address(access);
                let value = match *source {
                    Source::Arg(a) => self.d.load(a, inst.dtype, &at),
                    Source::Iota => self.d.iota(&at),
                    Source::Rand { seed, stream } => self.d.random(inst.dtype, &at, seed, stream),
                };
                if let Some(inside) = self.inside(access) {
                    // Outside the bounds the element is zero, and its address is not to be touched.
                    let zero = self.d.number(Scalar::I(0), inst.dtype);
                    let text = self.d.variable(ty, &name, &zero);
                    self.line(&text);
                    self.line(&format!("if ({inside}) {{ {name} = {value}; }}"));
                    return Ok(());
                }
                value
            }
            InstKind::Ewise(row, vals) => {
                let over = if row.kind == Kind::Compare { k.insts[vals[0]].dtype } else { inst.dtype };
                let mut x: Vec<String> = vals.iter().map(|o| format!("v{o}")).collect();
                if row.divides() && over.is_int() {
                    let d = self.d.divisor(&x[1]);
                    let text = self.d.define(ty, &format!("d{v}"), &d);
                    self.line(&text);
                    x[1] = format!("d{v}");
                }
                self.d.ewise(row, over, &x)?
            }
            InstKind::Cast(x) => self.d.cast(&format!("v{x}"), k.insts[*x].dtype, inst.dtype),
            InstKind::Reduce(..) => return Ok(()),
            InstKind::Store { arg, access, value } => {
                let name = format!("v{}", self.unrounded(*value, k.args[*arg].dtype));
                if let Some(place) = self.at_hand.get(&v) {
                    let text = format!("{place} = {};", self.d.pack(k.args[*arg].dtype, &name));
                    self.line(&text);
                    return Ok(());
                }
                let at = self.address(access);
                let text = self.d.store(*arg, k.args[*arg].dtype, &at, &name);
                match self.guards.at(inst.level) {
                    Some(cond) => self.line(&format!("if ({cond}) {{ {text} }}")),
                    None => self.line(&text),
                }
                return Ok(());
            }
        };
        let text = self.d.define(ty, &name, &value);
        self.line(&text);
        Ok(())
    }

    /// The value that packing into `stored` rounds in any case, where a conversion to that type is all that follows.
    fn unrounded(&self, v: Val, stored: DType) -> Val {
        let insts = &self.s.kernel.insts;
        match insts[v].kind {
            InstKind::Cast(x)
                if insts[v].dtype == stored
                    && matches!(stored, DType::F16 | DType::BF16)
                    && insts[x].dtype.compute() == DType::F32 =>
            {
                x
            }
            _ => v,
        }
    }

    /// `a` combined with `b`, as an expression.
    pub fn combine(&self, v: Val, a: &str, b: &str) -> Result<String> {
        let inst = &self.s.kernel.insts[v];
        let InstKind::Reduce(op, _) = inst.kind else {
            return Err(crate::Tensor::bug("a pass reduces a non-reduction"));
        };
        let row = match op {
            ReduceOp::Sum => &ewise::ADD,
            ReduceOp::Prod => &ewise::MUL,
            ReduceOp::Max => &ewise::MAXIMUM,
            ReduceOp::Min => &ewise::MINIMUM,
        };
        self.d.ewise(row, inst.dtype, &[a.into(), b.into()])
    }

    pub fn identity(&self, v: Val) -> String {
        let inst = &self.s.kernel.insts[v];
        match inst.kind {
            InstKind::Reduce(op, _) => self.d.number(op.identity(inst.dtype), inst.dtype),
            _ => self.d.number(Scalar::I(0), inst.dtype),
        }
    }
}

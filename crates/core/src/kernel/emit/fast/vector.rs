//! Vectors: several elements along one axis, loaded and stored as one.

use super::super::{
    body::{Body, Dialect},
    cuda::{Cuda, stored},
    schedule::Schedule,
};
use crate::{
    Result,
    kernel::{Access, InstKind, Kernel, Source, Val},
};

/// The type of a vector in memory.
pub(super) const PACK: &str = "\
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) g_pack {
    T x[N];
};

";

/// Along which axis, how many, and what may go as a whole.
pub(super) struct Vectors {
    pub axis: usize,
    pub n: usize,
    /// Loads and stores that go as a whole.
    pub whole: Vec<bool>,
    /// Values that differ between the elements of a vector.
    pub varies: Vec<bool>,
}

impl Vectors {
    /// The widest vectors along `axis`, of at most 16 bytes of the narrowest type; one element where `aligned` is not.
    pub fn new(s: &Schedule, axis: usize, aligned: bool) -> Vectors {
        let k = &s.kernel;
        let extent = k.map.iter().chain(&k.reduce).nth(axis).copied().unwrap_or(1);
        let varies = varies(k, axis);
        let narrowest = (0..k.insts.len())
            .filter_map(|v| access(k, v).filter(|(a, _)| a.strides.get(axis) == Some(&1)).map(|(_, arg)| arg))
            .map(|arg| k.args[arg].dtype.size())
            .min();
        let mut n = match narrowest {
            Some(size) if aligned => (16 / size).min(8),
            _ => 1,
        };
        while n > 1 {
            let fits = extent.is_multiple_of(n);
            // Worth it where something large goes as a whole.
            let whole = |v: Val| access(k, v).is_some_and(|(a, _)| goes_whole(k, a, axis, n, &varies));
            if fits && largest(k).is_none_or(whole) {
                break;
            }
            n /= 2;
        }
        Vectors::of(k, axis, n, varies)
    }

    fn of(k: &Kernel, axis: usize, n: usize, varies: Vec<bool>) -> Vectors {
        let whole =
            (0..k.insts.len()).map(|v| access(k, v).is_some_and(|(a, _)| goes_whole(k, a, axis, n, &varies))).collect();
        Vectors { axis, n, whole, varies }
    }

    /// Vectors of exactly `n`.
    pub fn exactly(k: &Kernel, axis: usize, n: usize) -> Vectors {
        Vectors::of(k, axis, n, varies(k, axis))
    }

    /// Buffers and what their addresses must be multiples of.
    pub fn alignment<'a>(&'a self, k: &'a Kernel) -> impl Iterator<Item = (usize, usize)> + 'a {
        (0..k.insts.len()).filter(|&v| self.whole[v]).filter_map(move |v| {
            let (_, arg) = access(k, v)?;
            Some((arg, (k.args[arg].dtype.size() * self.n).min(16)))
        })
    }

    /// `g_pack<float, 4>` for the buffer of a load or store.
    pub fn pack(&self, k: &Kernel, v: Val) -> String {
        let arg = access(k, v).map_or(0, |a| a.1);
        format!("g_pack<{}, {}>", stored(k.args[arg].dtype), self.n)
    }
}

/// The address of a load from a buffer or of a store, and the buffer.
pub(super) fn access(k: &Kernel, v: Val) -> Option<(&Access, usize)> {
    match &k.insts[v].kind {
        InstKind::Load { source: Source::Arg(a), access } => Some((access, *a)),
        InstKind::Store { arg, access, .. } => Some((access, *arg)),
        _ => None,
    }
}

/// Whether `n` elements along `axis` lie side by side from an address that is a multiple of `n`.
fn goes_whole(k: &Kernel, a: &Access, axis: usize, n: usize, varies: &[bool]) -> bool {
    let dims: Vec<usize> = k.map.iter().chain(&k.reduce).copied().collect();
    let step = |x: isize| x.unsigned_abs().is_multiple_of(n);
    let beside = n == 1 || a.strides.get(axis) == Some(&1);
    beside
        && a.bounds.is_empty()
        && step(a.offset)
        && (0..dims.len()).all(|d| d == axis || dims[d] == 1 || step(a.strides[d]))
        && a.lookup.iter().all(|l| !varies[l.value] && step(l.stride) && l.size > 0)
}

/// The load or store that touches most elements.
fn largest(k: &Kernel) -> Option<Val> {
    let touched = |v: &Val| {
        let dims = k.map.iter().chain(&k.reduce);
        access(k, *v).map_or(0, |(a, _)| dims.zip(&a.strides).map(|(&n, &s)| if s == 0 { 1 } else { n }).product())
    };
    // The last of equals: stores come after loads.
    (0..k.insts.len()).filter(|&v| access(k, v).is_some()).max_by_key(touched)
}

/// Values that differ along an axis.
pub(super) fn varies(k: &Kernel, axis: usize) -> Vec<bool> {
    let mut out = vec![false; k.insts.len()];
    for v in 0..k.insts.len() {
        let own = match &k.insts[v].kind {
            InstKind::Load { access: a, .. } | InstKind::Store { access: a, .. } => {
                a.strides.get(axis).is_some_and(|&s| s != 0)
                    || a.bounds.iter().any(|b| b.coefs.get(axis).is_some_and(|&c| c != 0))
            }
            InstKind::Reduce(..) if axis >= k.map.len() => {
                out[v] = false;
                continue;
            }
            _ => false,
        };
        out[v] = own || k.operands(v).iter().any(|&o| out[o]);
    }
    out
}

/// What a chunk of code does with its vectors.
pub(super) struct Chunk<'a> {
    pub vectors: &'a Vectors,
    /// Values to compute, in order; reductions among them go into their accumulators.
    pub values: &'a [Val],
    /// Names for values that are known, as `(value, expression)` of `e`, the element.
    pub given: &'a [(Val, String)],
    /// Loads that are in registers, as an expression for the vector; those marked are loaded now.
    pub cached: &'a [(Val, String, bool)],
}

impl Body<'_, Cuda> {
    /// The code of one vector, whose first element's index along the axis is the axis' own name.
    pub(super) fn chunk(&mut self, c: &Chunk<'_>) -> Result<()> {
        let k = &self.s.kernel;
        let v = c.vectors;
        let mut inner: Vec<Val> = vec![];
        let mut stores: Vec<Val> = vec![];
        for &i in c.values {
            let inst = &k.insts[i];
            let store = matches!(inst.kind, InstKind::Store { .. });
            let cached = c.cached.iter().find(|x| x.0 == i);
            if let Some((_, name, load)) = cached {
                if *load {
                    let text = self.whole(v, i);
                    self.line(&format!("{name} = {text};"));
                }
                self.at_hand.insert(i, format!("{name}.x[e]"));
                inner.push(i);
            } else if v.n > 1 && v.whole[i] && v.varies[i] && !store {
                let text = format!("const {} w{i} = {};", v.pack(k, i), self.whole(v, i));
                self.line(&text);
                self.at_hand.insert(i, format!("w{i}.x[e]"));
                inner.push(i);
            } else if v.n > 1 && v.whole[i] && store {
                let text = format!("{} w{i};", v.pack(k, i));
                self.line(&text);
                self.at_hand.insert(i, format!("w{i}.x[e]"));
                inner.push(i);
                stores.push(i);
            } else if v.varies[i] || store || matches!(inst.kind, InstKind::Reduce(..)) || stands_on(k, i, c.given) {
                inner.push(i);
            } else {
                self.inst(i)?;
            }
        }
        let name = self.axis(v.axis);
        self.line("#pragma unroll");
        self.open(&format!("for (int e = 0; e < {}; ++e)", v.n));
        self.define_index("x", &format!("{name} + e"));
        self.element = Some(v.axis);
        for (i, text) in c.given {
            let text = self.d.define(self.register(*i), &format!("v{i}"), text);
            self.line(&text);
        }
        for &i in &inner {
            if let InstKind::Reduce(_, x) = k.insts[i].kind {
                let a = format!("a{i}[e]");
                let both = self.combine(i, &a, &format!("v{x}"))?;
                self.line(&format!("{a} = {both};"));
            } else {
                self.inst(i)?;
            }
        }
        self.element = None;
        self.close();
        for i in inner {
            self.at_hand.remove(&i);
        }
        for i in stores {
            let text = format!("{} = w{i};", self.whole(v, i));
            match self.guards.elem.clone() {
                Some(cond) => self.line(&format!("if ({cond}) {{ {text} }}")),
                None => self.line(&text),
            }
        }
        Ok(())
    }

    /// A vector in memory, as an expression.
    fn whole(&self, v: &Vectors, i: Val) -> String {
        let k = &self.s.kernel;
        let Some((a, arg)) = access(k, i) else { return String::new() };
        let constant = if k.args[arg].written { "" } else { "const " };
        format!("*({constant}{}*)(b{arg} + ({}))", v.pack(k, i), self.address(a))
    }
}

/// Whether a value stands on one that is given an element at a time.
fn stands_on(k: &Kernel, v: Val, given: &[(Val, String)]) -> bool {
    let mut stack = vec![v];
    let mut seen = vec![false; k.insts.len()];
    while let Some(v) = stack.pop() {
        if given.iter().any(|g| g.0 == v) {
            return true;
        }
        if !std::mem::replace(&mut seen[v], true) {
            stack.extend(k.operands(v));
        }
    }
    false
}

//! Tensors as text, laid out as PyTorch does: aligned columns, four digits, and dots where there are many elements.

use crate::{DType, Element, Result, Tensor, graph::Value, plan, with_dtype};
use std::{
    fmt::{self, Write},
    sync::RwLock,
};

/// How tensors are printed. See [`set_print_options`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintOptions {
    /// Digits after the point.
    pub precision: usize,
    /// Tensors with more elements than this are shortened.
    pub threshold: usize,
    /// Elements shown at either end of a shortened axis.
    pub edgeitems: usize,
    /// Characters a line.
    pub linewidth: usize,
    /// Whether to write exponents; `None` decides by the numbers.
    pub sci_mode: Option<bool>,
}

impl PrintOptions {
    const DEFAULT: PrintOptions =
        PrintOptions { precision: 4, threshold: 1000, edgeitems: 3, linewidth: 80, sci_mode: None };
}

impl Default for PrintOptions {
    fn default() -> Self {
        PrintOptions::DEFAULT
    }
}

static OPTIONS: RwLock<PrintOptions> = RwLock::new(PrintOptions::DEFAULT);

/// Sets how tensors are printed from now on, in the whole process.
///
/// ```
/// use gradus_core::{PrintOptions, Tensor, set_print_options};
/// let x = Tensor::from([1.0f32 / 3.0, 0.5]);
/// set_print_options(PrintOptions { precision: 2, ..Default::default() });
/// assert_eq!(x.to_string(), "[0.33, 0.50]");
/// # set_print_options(PrintOptions::default());
/// ```
pub fn set_print_options(options: PrintOptions) {
    *OPTIONS.write().unwrap_or_else(|e| e.into_inner()) = options;
}

/// How tensors are printed now.
pub fn print_options() -> PrintOptions {
    *OPTIONS.read().unwrap_or_else(|e| e.into_inner())
}

/// The elements. Reading them runs the plan; if it fails, the error is shown in their place.
///
/// ```
/// use gradus_core::Tensor;
/// let x = Tensor::from([[1.0f32, -2.5], [0.125, 30.0]]);
/// assert_eq!(x.to_string(), "[[ 1.0000, -2.5000],\n [ 0.1250, 30.0000]]");
/// assert_eq!(format!("{x:.1}"), "[[ 1.0, -2.5],\n [ 0.1, 30.0]]"); // digits, as for a number
/// ```
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(self, f.precision(), 0))
    }
}

/// The elements, then shape, type and device.
///
/// ```
/// use gradus_core::Tensor;
/// assert_eq!(format!("{:?}", Tensor::from([1i64, 20])), "tensor([ 1, 20], shape [2], i64, cpu)");
/// ```
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = shown(self, f.precision(), "tensor(".len());
        write!(f, "tensor({body}, shape {}, {}, {}", self.shape(), self.dtype(), self.device())?;
        match (self.name(), self.var_id(), self.requires_grad()) {
            (Some(name), ..) => write!(f, ", variable {name}")?,
            (None, Some(_), _) => f.write_str(", variable")?,
            (None, None, true) => write!(f, ", made by {}", self.op_name())?,
            (None, None, false) => {}
        }
        f.write_str(")")
    }
}

fn shown(t: &Tensor, precision: Option<usize>, indent: usize) -> String {
    let mut options = print_options();
    options.precision = precision.unwrap_or(options.precision);
    match computed(t).and_then(|v| layout(t, &v, &options, indent)) {
        Ok(text) => text,
        Err(e) => format!("<{e}>"),
    }
}

fn computed(t: &Tensor) -> Result<Value> {
    let t = t.resolve();
    plan::realize(&[&t])?;
    t.node().value().ok_or_else(|| Tensor::bug("a run left no value"))
}

/// A few elements on one line, for a tensor that is computed already.
pub(crate) fn summary(t: &Tensor) -> Option<String> {
    let v = t.resolve().node().value()?;
    let options = PrintOptions { threshold: 6, edgeitems: 2, linewidth: usize::MAX, ..print_options() };
    let text = layout(t, &v, &options, 0).ok()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// One element, as far as printing goes.
#[derive(Clone, Copy)]
enum Item {
    Float(f64),
    Int(i64),
    Bool(bool),
}

/// The elements that are shown, as text in nested brackets.
fn layout(t: &Tensor, v: &Value, options: &PrintOptions, indent: usize) -> Result<String> {
    if t.numel() == 0 {
        return Ok("[]".into());
    }
    let short = t.numel() > options.threshold;
    // Along each axis: the positions shown, and after how many of them the dots come.
    let axes: Vec<(Vec<usize>, Option<usize>)> = t
        .dims()
        .iter()
        .map(|&n| {
            let edge = options.edgeitems;
            if short && n > 2 * edge {
                ((0..edge).chain(n - edge..n).collect(), Some(edge))
            } else {
                ((0..n).collect(), None)
            }
        })
        .collect();
    let items = read(t, v, &axes, short)?;
    let format = Format::of(&items, options);
    let cells: Vec<String> = items.iter().map(|&i| format.one(i)).collect();
    let width = cells.iter().map(|c| c.len()).max().unwrap_or(0);
    if axes.is_empty() {
        return Ok(cells.concat());
    }
    let cells: Vec<String> = cells.into_iter().map(|c| format!("{c:>width$}")).collect();
    let mut out = String::new();
    nest(&mut out, &axes, &cells, options.linewidth, width, indent);
    Ok(out)
}

/// The elements at the cross product of positions, in row-major order.
fn read(t: &Tensor, v: &Value, axes: &[(Vec<usize>, Option<usize>)], short: bool) -> Result<Vec<Item>> {
    let dtype = t.dtype();
    if !short {
        return Ok(items(dtype, &t.read_bytes()?));
    }
    crate::replay::spoil("it shows a tensor", t.location());
    let (size, backend) = (dtype.size(), v.buffer.device().backend());
    let mut at = vec![v.view.offset];
    for ((positions, _), &stride) in axes.iter().zip(&v.view.strides) {
        at = at.iter().flat_map(|&a| positions.iter().map(move |&p| a + p as isize * stride)).collect();
    }
    // One element at a time: there are few, and the rest may be large.
    let mut bytes = vec![0u8; at.len() * size];
    for (place, a) in bytes.chunks_mut(size).zip(at) {
        backend.download(&v.buffer, a as usize * size, place)?;
    }
    Ok(items(dtype, &bytes))
}

fn items(dtype: DType, bytes: &[u8]) -> Vec<Item> {
    with_dtype!(dtype, T => {
        let one = |b: &[u8]| {
            // SAFETY: each chunk holds one element of T; bools are stored as 0 or 1.
            let x = unsafe { b.as_ptr().cast::<T>().read_unaligned() };
            match dtype.compute() {
                DType::Bool => Item::Bool(x.to_i64() != 0),
                DType::I64 => Item::Int(x.to_i64()),
                _ => Item::Float(x.to_f64()),
            }
        };
        bytes.chunks_exact(size_of::<T>()).map(one).collect()
    })
}

/// Brackets, commas and line ends, as PyTorch sets them.
fn nest(
    out: &mut String,
    axes: &[(Vec<usize>, Option<usize>)],
    cells: &[String],
    line: usize,
    width: usize,
    at: usize,
) {
    let Some(((positions, dots), rest)) = axes.split_first() else { return };
    let break_line = |out: &mut String, blank: usize| {
        out.push(',');
        out.extend(std::iter::repeat_n('\n', blank));
        out.extend(std::iter::repeat_n(' ', at + 1));
    };
    out.push('[');
    if rest.is_empty() {
        let per_line = (line.saturating_sub(at) / (width + 2)).max(1);
        let mut parts: Vec<&str> = cells.iter().map(|c| &c[..]).collect();
        if let Some(d) = dots {
            parts.insert(*d, "...");
        }
        for (i, p) in parts.iter().enumerate() {
            if i > 0 && i % per_line == 0 {
                break_line(out, 1);
            } else if i > 0 {
                out.push_str(", ");
            }
            out.push_str(p);
        }
    } else {
        let step = cells.len() / positions.len().max(1);
        for i in 0..positions.len() {
            if i > 0 {
                break_line(out, rest.len());
            }
            if *dots == Some(i) {
                out.push_str("...");
                break_line(out, rest.len());
            }
            nest(out, rest, &cells[i * step..(i + 1) * step], line, width, at + 1);
        }
        if *dots == Some(positions.len()) {
            // No element is to be shown.
            out.push_str("...");
        }
    }
    out.push(']');
}

/// How the numbers of one tensor are written: all alike.
struct Format {
    precision: usize,
    exponent: bool,
    whole: bool,
}

impl Format {
    /// PyTorch's rule: whole numbers without digits, exponents where the sizes differ by more than a thousand.
    fn of(items: &[Item], options: &PrintOptions) -> Format {
        let sizes = items.iter().filter_map(|i| match i {
            Item::Float(x) if x.is_finite() && *x != 0.0 => Some(x.abs()),
            Item::Float(_) | Item::Int(_) | Item::Bool(_) => None,
        });
        let (mut lo, mut hi, mut whole) = (f64::INFINITY, 0f64, true);
        for x in sizes {
            (lo, hi) = (lo.min(x), hi.max(x));
            whole &= x == x.trunc();
        }
        let spread = hi > 0.0 && (hi / lo > 1000.0 || hi > 1e8 || (!whole && lo < 1e-4));
        Format { precision: options.precision, exponent: options.sci_mode.unwrap_or(spread), whole }
    }

    fn one(&self, item: Item) -> String {
        match item {
            Item::Bool(b) => b.to_string(),
            Item::Int(i) => i.to_string(),
            Item::Float(x) if x.is_nan() => "nan".into(),
            Item::Float(x) if x.is_infinite() => if x > 0.0 { "inf" } else { "-inf" }.into(),
            Item::Float(x) if self.exponent => exponent(x, self.precision),
            Item::Float(x) if self.whole => format!("{x:.0}."),
            Item::Float(x) => format!("{x:.*}", self.precision),
        }
    }
}

/// `1.5e-05`: the exponent with its sign and at least two digits.
fn exponent(x: f64, precision: usize) -> String {
    let text = format!("{x:.precision$e}");
    let Some((digits, e)) = text.split_once('e') else { return text };
    let (sign, e) = e.strip_prefix('-').map_or(('+', e), |e| ('-', e));
    let mut out = String::new();
    let _ = write!(out, "{digits}e{sign}{e:0>2}");
    out
}

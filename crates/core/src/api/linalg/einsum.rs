//! Einstein summation: any product of tensors with named axes, contracted pair by pair through matrix products.
//!
//! An operand is a tensor and one label for each of its axes. Axes of extent 1 are taken off at the start (they
//! broadcast against anything) and put back at the end, repeated labels become diagonals, and labels that nobody else
//! needs are summed away at once. Two operands then meet as a batched matrix product: labels of both that are still
//! needed are the batch, those that are not are the inner axis, the rest are rows and columns.

use crate::api::same_device;
use crate::{DType, Error, Result, Shape, Tensor};
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::Location,
};

/// One axis in the list form of einsum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sub {
    /// A label.
    Axis(u32),
    /// All axes that are not named.
    Ellipsis,
}

impl From<u32> for Sub {
    fn from(label: u32) -> Self {
        Sub::Axis(label)
    }
}

/// A name of an axis: those of the ellipsis come first, counted from the last axis backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    /// Ordered so that outer axes come first.
    Rest(i64),
    Named(u32),
}

#[derive(Clone)]
struct Operand {
    tensor: Tensor,
    labels: Vec<Label>,
}

impl Tensor {
    /// The sum of products that an equation describes: `"bij,bjk->bik"`, `"ii"` (trace), `"...ij->...ji"`.
    ///
    /// Without `->`, the labels that occur once make the result, in alphabetical order (capitals first) after the
    /// ellipsis. An extent of 1 broadcasts.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let y = Tensor::einsum("ij,kj->ik", &[&a, &a]).unwrap();
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [5.0, 11.0, 11.0, 25.0]);
    /// assert_eq!(Tensor::einsum("ii", &[&a]).unwrap().item::<f32>().unwrap(), 5.0);
    /// ```
    #[track_caller]
    pub fn einsum(equation: &str, operands: &[&Tensor]) -> Result<Tensor> {
        let (inputs, output) = match equation.split_once("->") {
            Some((i, o)) => (i, Some(o)),
            None => (equation, None),
        };
        let at = Location::caller();
        let terms = |t: &str| parse(equation, t).map_err(|e| e.at(at));
        let inputs = inputs.split(',').map(terms).collect::<Result<Vec<_>>>()?;
        let output = output.map(terms).transpose()?;
        if inputs.len() != operands.len() {
            let why = format!("\"{equation}\" names {} operands, and there are {}", inputs.len(), operands.len());
            return Err(operands.iter().fold(Error::value("einsum", why), |e, t| e.operand(t)));
        }
        let pairs: Vec<(&Tensor, &[Sub])> = operands.iter().zip(&inputs).map(|(t, s)| (*t, &s[..])).collect();
        Tensor::einsum_lists(&pairs, output.as_deref())
    }

    /// Einsum with lists of labels: each operand with its axes, then the axes of the result (or the labels that occur
    /// once, ascending).
    ///
    /// ```
    /// use gradus_core::{Sub, Tensor};
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let (i, j) = (Sub::Axis(0), Sub::Axis(1));
    /// let t = Tensor::einsum_lists(&[(&a, &[i, j])], Some(&[j, i])).unwrap();
    /// assert_eq!(t.to_vec::<f32>().unwrap(), [1.0, 3.0, 2.0, 4.0]);
    /// ```
    #[track_caller]
    pub fn einsum_lists(operands: &[(&Tensor, &[Sub])], output: Option<&[Sub]>) -> Result<Tensor> {
        let tensors: Vec<&Tensor> = operands.iter().map(|(t, _)| *t).collect();
        let blame = |e: Error| tensors.iter().fold(e, |e, t| e.operand(t));
        let Some((first, others)) = tensors.split_first() else {
            return Err(Error::value("einsum", "there are no operands"));
        };
        same_device("einsum", &tensors)?;
        if let Some(t) = others.iter().find(|t| t.dtype() != first.dtype()) {
            let why = format!("element types differ: {} and {}", first.dtype(), t.dtype());
            return Err(blame(Error::dtype("einsum", &[first.dtype(), t.dtype()], why)));
        }
        let mut all = vec![];
        for (tensor, subs) in operands {
            all.push(Operand { tensor: tensor.resolve(), labels: labels(tensor, subs)? });
        }
        let extents = extents(&all).map_err(blame)?;
        let output = result_labels(&all, &extents, output).map_err(blame)?;
        let dtype = first.dtype();
        let all = all.into_iter().map(|o| o.squeezed()?.diagonals()).collect::<Result<Vec<_>>>()?;
        let last = contract(all, &output)?.summed(|l| output.contains(&l))?;
        // In the order asked for, with the axes of extent 1 put back.
        let order: Vec<i64> =
            output.iter().filter_map(|l| last.labels.iter().position(|m| m == l)).map(|p| p as i64).collect();
        let shape: Shape = output.iter().map(|l| extents[l]).collect();
        Ok(last.tensor.permute(order)?.reshape(shape)?.to_dtype(dtype))
    }
}

/// The labels of one term of an equation.
#[track_caller]
fn parse(equation: &str, term: &str) -> Result<Vec<Sub>> {
    let mut out = vec![];
    let mut rest = term.trim();
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("...") {
            out.push(Sub::Ellipsis);
            rest = after.trim_start();
        } else if c.is_ascii_alphabetic() {
            out.push(Sub::Axis(c as u32));
            rest = rest[1..].trim_start();
        } else {
            let why = format!("unexpected '{c}' in \"{equation}\"");
            return Err(Error::value("einsum", why).hint("labels are letters; ... stands for all other axes"));
        }
    }
    Ok(out)
}

/// One label an axis.
#[track_caller]
fn labels(t: &Tensor, subs: &[Sub]) -> Result<Vec<Label>> {
    let named = subs.iter().filter(|s| **s != Sub::Ellipsis).count();
    let dots = subs.len() - named;
    if dots > 1 || named > t.rank() || (dots == 0 && named != t.rank()) {
        let why = match dots {
            0 => format!("{named} labels for {}", t.shape()),
            1 => format!("{named} labels and an ellipsis for {}", t.shape()),
            _ => "more than one ellipsis in a term".into(),
        };
        return Err(Error::shape("einsum", &[t.shape()], why).operand(t));
    }
    let rest = (t.rank() - named) as i64;
    let mut out = vec![];
    for s in subs {
        match s {
            Sub::Axis(l) => out.push(Label::Named(*l)),
            Sub::Ellipsis => out.extend((0..rest).map(|i| Label::Rest(i - rest))),
        }
    }
    Ok(out)
}

/// How a label is shown in errors.
fn show(l: Label) -> String {
    match l {
        Label::Rest(i) => format!("{i} of the ellipsis"),
        Label::Named(c) => match char::from_u32(c) {
            Some(c) if c.is_ascii_alphabetic() => format!("'{c}'"),
            _ => c.to_string(),
        },
    }
}

/// The extent of each label, which must agree where it is not 1.
#[track_caller]
fn extents(all: &[Operand]) -> Result<BTreeMap<Label, usize>> {
    let mut out = BTreeMap::new();
    for o in all {
        for (&l, &n) in o.labels.iter().zip(o.tensor.dims()) {
            let have = out.entry(l).or_insert(n);
            if *have != n && *have != 1 && n != 1 {
                let shapes: Vec<&Shape> = all.iter().map(|o| o.tensor.shape()).collect();
                return Err(Error::shape("einsum", &shapes, format!("label {} has extents {have} and {n}", show(l))));
            }
            if *have == 1 {
                *have = n;
            }
        }
    }
    Ok(out)
}

/// The labels of the result.
#[track_caller]
fn result_labels(all: &[Operand], extents: &BTreeMap<Label, usize>, output: Option<&[Sub]>) -> Result<Vec<Label>> {
    let rest = extents.keys().copied().filter(|l| matches!(l, Label::Rest(_)));
    let Some(subs) = output else {
        let count = |l: &Label| all.iter().flat_map(|o| &o.labels).filter(|m| *m == l).count();
        let once = extents.keys().copied().filter(|l| matches!(l, Label::Named(_)) && count(l) == 1);
        return Ok(rest.chain(once).collect());
    };
    let mut out = vec![];
    for s in subs {
        match s {
            Sub::Ellipsis => out.extend(rest.clone()),
            Sub::Axis(l) => out.push(Label::Named(*l)),
        }
    }
    for (i, l) in out.iter().enumerate() {
        if !extents.contains_key(l) {
            return Err(Error::value("einsum", format!("label {} of the result is in no operand", show(*l))));
        }
        if out[..i].contains(l) {
            return Err(Error::value("einsum", format!("label {} occurs twice in the result", show(*l))));
        }
    }
    Ok(out)
}

impl Operand {
    fn size(&self) -> f64 {
        self.tensor.numel() as f64
    }

    /// Without axes of extent 1.
    #[track_caller]
    fn squeezed(self) -> Result<Operand> {
        let wide: Vec<usize> = (0..self.labels.len()).filter(|&i| self.tensor.dims()[i] != 1).collect();
        let shape: Shape = wide.iter().map(|&i| self.tensor.dims()[i]).collect();
        Ok(Operand { tensor: self.tensor.reshape_to(&shape), labels: wide.iter().map(|&i| self.labels[i]).collect() })
    }

    /// With each label once: axes that share one become their diagonal.
    #[track_caller]
    fn diagonals(mut self) -> Result<Operand> {
        let twice = |labels: &[Label]| {
            (1..labels.len()).find_map(|j| labels[..j].iter().position(|l| *l == labels[j]).map(|i| (i, j)))
        };
        while let Some((i, j)) = twice(&self.labels) {
            let label = self.labels[i];
            let n = self.tensor.dims()[i];
            let kept: Vec<usize> = (0..self.labels.len()).filter(|&d| d != i && d != j).collect();
            let square = self.tensor.permuted(kept.iter().copied().chain([i, j]).collect());
            let lead: Vec<usize> = kept.iter().map(|&d| self.tensor.dims()[d]).collect();
            // In a square laid out flat, the diagonal is every (n + 1)-th element.
            let flat = square.reshape_to(&lead.iter().copied().chain([n.saturating_mul(n)]).collect());
            self.tensor = flat.sliced(lead.len(), 0, n as isize + 1, n);
            self.labels = kept.iter().map(|&d| self.labels[d]).chain([label]).collect();
        }
        Ok(self)
    }

    /// With the labels summed away that are not needed.
    #[track_caller]
    fn summed(self, needed: impl Fn(Label) -> bool) -> Result<Operand> {
        let gone: Vec<usize> = (0..self.labels.len()).filter(|&i| !needed(self.labels[i])).collect();
        if gone.is_empty() {
            return Ok(self);
        }
        let labels = self.labels.into_iter().filter(|&l| needed(l)).collect();
        Ok(Operand { tensor: keep_type(&self.tensor, self.tensor.sum_dim(gone, false)?), labels })
    }

    /// Axes in the order of `groups`, each group as one axis.
    #[track_caller]
    fn grouped(&self, groups: [&[Label]; 3]) -> Result<Tensor> {
        let at = |l: &Label| self.labels.iter().position(|m| m == l);
        let order = groups.iter().flat_map(|g| g.iter().filter_map(at)).collect();
        let size = |g: &[Label]| g.iter().filter_map(at).map(|d| self.tensor.dims()[d]).product::<usize>();
        let shape = Shape::from([size(groups[0]), size(groups[1]), size(groups[2])]);
        self.tensor.permuted(order).reshape(shape)
    }
}

/// Sums of small integers are i64; here they stay what they were.
fn keep_type(like: &Tensor, x: Tensor) -> Tensor {
    let d: DType = like.dtype();
    x.to_dtype(d)
}

/// Contracts operands two at a time, always the pair whose result is the smallest against what goes in.
#[track_caller]
fn contract(mut all: Vec<Operand>, output: &[Label]) -> Result<Operand> {
    loop {
        if all.len() == 1
            && let Some(last) = all.pop()
        {
            return Ok(last);
        }
        let (i, j) = if all.len() == 2 { (0, 1) } else { cheapest(&all, output) };
        let b = all.remove(j);
        let a = all.remove(i);
        let needed = needed(&all, output);
        all.insert(i, pair(a, b, &needed)?);
    }
}

/// Labels of the result and of these operands.
fn needed(all: &[Operand], output: &[Label]) -> BTreeSet<Label> {
    output.iter().chain(all.iter().flat_map(|o| &o.labels)).copied().collect()
}

fn cheapest(all: &[Operand], output: &[Label]) -> (usize, usize) {
    let mut best = (f64::INFINITY, 0, 1);
    for j in 1..all.len() {
        for i in 0..j {
            let (a, b) = (&all[i], &all[j]);
            let elsewhere = |l: &Label| {
                output.contains(l) || all.iter().enumerate().any(|(k, o)| k != i && k != j && o.labels.contains(l))
            };
            let axes: BTreeMap<Label, usize> =
                [a, b].iter().flat_map(|o| o.labels.iter().copied().zip(o.tensor.dims().iter().copied())).collect();
            let result: f64 = axes.iter().filter(|(l, _)| elsewhere(l)).map(|(_, &n)| n as f64).product();
            let gain = result - a.size() - b.size();
            if gain < best.0 {
                best = (gain, i, j);
            }
        }
    }
    (best.1, best.2)
}

/// The product of two operands, with labels summed that nobody needs.
#[track_caller]
fn pair(a: Operand, b: Operand, needed: &BTreeSet<Label>) -> Result<Operand> {
    let in_b: BTreeSet<Label> = b.labels.iter().copied().collect();
    let in_a: BTreeSet<Label> = a.labels.iter().copied().collect();
    let a = a.summed(|l| needed.contains(&l) || in_b.contains(&l))?;
    let b = b.summed(|l| needed.contains(&l) || in_a.contains(&l))?;
    let pick = |from: &Operand, keep: &dyn Fn(&Label) -> bool| {
        from.labels.iter().copied().filter(|l| keep(l)).collect::<Vec<Label>>()
    };
    let batch = pick(&a, &|l| in_b.contains(l) && needed.contains(l));
    let inner = pick(&a, &|l| in_b.contains(l) && !needed.contains(l));
    let rows = pick(&a, &|l| !in_b.contains(l));
    let cols = pick(&b, &|l| !in_a.contains(l));
    let extent = |o: &Operand, l: &Label| o.labels.iter().position(|m| m == l).map_or(1, |i| o.tensor.dims()[i]);
    let shape: Shape =
        batch.iter().chain(&rows).map(|l| extent(&a, l)).chain(cols.iter().map(|l| extent(&b, l))).collect();
    let product = if inner.is_empty() {
        // Nothing to sum: an elementwise product, which fuses with what is around it.
        let (x, y) = (a.grouped([&batch, &rows, &[]])?, b.grouped([&batch, &[], &cols])?);
        x.mul(&y)?
    } else if rows.is_empty() && cols.is_empty() {
        let (x, y) = (a.grouped([&batch, &inner, &[]])?, b.grouped([&batch, &inner, &[]])?);
        keep_type(&x, x.mul(&y)?.sum_dim(1, false)?)
    } else {
        a.grouped([&batch, &rows, &inner])?.matmul(&b.grouped([&batch, &inner, &cols])?)?
    };
    Ok(Operand { tensor: product.reshape(shape)?, labels: batch.into_iter().chain(rows).chain(cols).collect() })
}

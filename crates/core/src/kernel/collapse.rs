//! A kernel over fewer axes, with the same meaning: what every backend wants before it counts indices.

use super::{Access, InstKind, Kernel};

/// Drops unit axes and merges neighbours that every address steps through as one.
pub fn collapse(k: &Kernel) -> Kernel {
    let mut out = k.clone();
    let nm = k.map.len();
    let mut groups: Vec<(usize, Vec<usize>)> = vec![]; // (extent, axes)
    let mut map_groups = 0;
    let dims: Vec<usize> = k.map.iter().chain(&k.reduce).copied().collect();
    let vectors: Vec<&[isize]> = k
        .insts
        .iter()
        .filter_map(|i| match &i.kind {
            InstKind::Load { access, .. } | InstKind::Store { access, .. } => Some(access),
            _ => None,
        })
        .flat_map(|a| std::iter::once(&a.strides[..]).chain(a.bounds.iter().map(|b| &b.coefs[..])))
        .collect();
    for (d, &n) in dims.iter().enumerate() {
        if d == nm {
            map_groups = groups.len();
        }
        if n == 1 {
            continue;
        }
        let first_of_space = groups.len() == if d < nm { 0 } else { map_groups };
        if !first_of_space && let Some((extent, axes)) = groups.last_mut() {
            let prev = axes[axes.len() - 1];
            if vectors.iter().all(|s| s[prev] == s[d] * n as isize) {
                *extent *= n;
                axes.push(d);
                continue;
            }
        }
        groups.push((n, vec![d]));
    }
    if nm == dims.len() {
        map_groups = groups.len();
    }
    let pick = |s: &[isize]| groups.iter().map(|(_, axes)| s[axes[axes.len() - 1]]).collect::<Vec<_>>();
    out.map = groups[..map_groups].iter().map(|g| g.0).collect();
    out.reduce = groups[map_groups..].iter().map(|g| g.0).collect();
    let remap = |a: &mut Access| {
        a.strides = pick(&a.strides);
        for b in &mut a.bounds {
            b.coefs = pick(&b.coefs).into();
        }
    };
    for i in &mut out.insts {
        if let InstKind::Load { access, .. } | InstKind::Store { access, .. } = &mut i.kind {
            remap(access);
        }
    }
    out
}

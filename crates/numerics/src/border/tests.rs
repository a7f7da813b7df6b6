use super::*;
use crate::testing::{Random, bits, close, same_on_any_threads, wide};

/// Where an element comes from, by walking: a step back at each mirror, around the ring, or no further than the end.
fn walked(edge: Edge, a: &Axis, i: usize) -> Option<usize> {
    let (n, at) = (a.n as i64, i as i64 - a.before as i64);
    let inside = (0..n).contains(&at);
    Some(match edge {
        Edge::Fill if !inside => return None,
        Edge::Fill => at,
        Edge::Reflect if at < 0 => -at,
        Edge::Reflect if at >= n => 2 * (n - 1) - at,
        Edge::Reflect => at,
        Edge::Replicate => at.clamp(0, n - 1),
        Edge::Circular => at.rem_euclid(n),
    } as usize)
}

fn expected(b: &Border, lead: usize, mut each: impl FnMut(usize, Option<usize>)) {
    let out: usize = b.axes.iter().map(Axis::out).product();
    let inputs: usize = b.axes.iter().map(|a| a.n).product();
    for at in 0..lead * out {
        let (mut r, mut from, mut step) = (at, Some(0), 1);
        for a in b.axes.iter().rev() {
            from = from.and_then(|f| walked(b.edge, a, r % a.out()).map(|i| f + step * i));
            (r, step) = (r / a.out(), step * a.n);
        }
        each(at, from.map(|f| f + r * inputs));
    }
}

#[test]
fn all_edges_match_the_definition_forward_and_backward() {
    let mut r = Random(3);
    for case in 0..400 {
        let edge = [Edge::Fill, Edge::Reflect, Edge::Replicate, Edge::Circular][case % 4];
        let axes: Vec<Axis> = (0..1 + r.below(3))
            .map(|_| {
                let n = 1 + r.below(12);
                let most = match edge {
                    Edge::Fill | Edge::Replicate => 15,
                    Edge::Reflect => n,
                    Edge::Circular => n + 1,
                };
                Axis { n, before: r.below(most), after: r.below(most) }
            })
            .collect();
        let lead = r.below(4);
        let b = Border { edge, axes, fill: 0 };
        let inputs = lead * b.axes.iter().map(|a| a.n).product::<usize>();
        let outputs = lead * b.axes.iter().map(Axis::out).product::<usize>();
        let (x, g) = (r.f32s(inputs), r.f32s(outputs));
        let (mut y, mut dx) = (vec![f32::NAN; outputs], vec![f32::NAN; inputs]);
        border(&b, &x, 7.5, &mut y);
        border_grad(&b, &g, &mut dx);
        let (mut want, mut want_dx) = (vec![0f32; outputs], vec![0f64; inputs]);
        expected(&b, lead, |at, from| {
            want[at] = from.map_or(7.5, |f| x[f]);
            from.into_iter().for_each(|f| want_dx[f] += f64::from(g[at]));
        });
        assert_eq!(bits(&y), bits(&want), "{b:?}");
        close(&wide(&dx), &want_dx, 1e-3);
    }
}

#[test]
fn nothing_in_an_axis_leaves_the_number() {
    let b = Border { edge: Edge::Fill, axes: vec![Axis { n: 0, before: 2, after: 1 }], fill: 0 };
    let mut y = [0u8; 6];
    border(&b, &[], 9, &mut y);
    assert_eq!(y, [9; 6]);
    border_grad::<f32>(&b, &[1.0; 6], &mut []);
}

#[test]
fn threads_change_nothing() {
    let axis = |n| Axis { n, before: 3, after: 2 };
    let b = Border { edge: Edge::Replicate, axes: vec![axis(40), axis(41)], fill: 0 };
    let g = Random(4).f32s(20 * 45 * 46);
    same_on_any_threads(|| {
        let mut x = vec![0f32; 20 * 40 * 41];
        border_grad(&b, &g, &mut x);
        let mut y = vec![0f32; g.len()];
        border(&b, &x, 0.0, &mut y);
        (bits(&x), bits(&y))
    });
}

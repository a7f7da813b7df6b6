use super::*;
use crate::testing::{Random, bits, same_on_any_threads};
use proptest::prelude::*;

/// The definition: element by element, for one plane.
fn definition(p: &Pool, x: &[f32]) -> Vec<usize> {
    let [h, w] = &p.windows;
    let mut out = Vec::new();
    for o in 0..h.out * w.out {
        let mut best = None;
        for r in 0..h.size * w.size {
            let row = (o / w.out * h.stride + r / w.size * h.dilation).checked_sub(h.padding);
            let column = (o % w.out * w.stride + r % w.size * w.dilation).checked_sub(w.padding);
            let (Some(row), Some(column)) = (row, column) else { continue };
            if row < h.n && column < w.n {
                let at = row * w.n + column;
                if best.is_none_or(|b: usize| x[at] > x[b] || x[at].is_nan()) {
                    best = Some(at);
                }
            }
        }
        out.push(best.unwrap());
    }
    out
}

fn window(n: usize, size: usize, stride: usize, padding: usize, dilation: usize) -> Option<Window> {
    let reach = (size - 1) * dilation + 1;
    let padding = padding.min(size / 2);
    let out = (n + 2 * padding).checked_sub(reach)? / stride + 1;
    // A dilated window may see nothing at the ends: not for these functions.
    (padding == 0 || dilation == 1).then_some(Window { n, size, stride, padding, dilation, out })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn all_windows_match_the_definition(
        seed: u64,
        planes in 1usize..4,
        n in [1usize..12, 1usize..70],
        size in [1usize..5, 1usize..5],
        stride in [1usize..4, 1usize..4],
        padding in [0usize..3, 0usize..3],
        dilation in [1usize..3, 1usize..3],
        pairs: bool,
    ) {
        let pick = |d: usize| {
            if pairs { window(n[d], 2, 2, 0, 1) } else { window(n[d], size[d], stride[d], padding[d], dilation[d]) }
        };
        let (Some(h), Some(w)) = (pick(0), pick(1)) else { return Ok(()) };
        let p = Pool { windows: [h, w] };
        let (plane, outputs) = (h.n * w.n, h.out * w.out);
        let mut r = Random(seed);
        let (x, values, grad) = (r.ties(planes * plane), r.f32s(planes * plane), r.f32s(planes * outputs));
        let (mut y, mut picked, mut dx) = (vec![7.0; grad.len()], vec![7.0; grad.len()], vec![7.0; x.len()]);
        let mut indices = vec![-1; grad.len()];
        max_pool(&p, &x, &mut y);
        max_pool_pick(&p, &x, &values, &mut picked);
        max_pool_grad(&p, &x, &grad, &mut dx);
        max_pool_indices(&p, &x, &mut indices);
        let mut expected = vec![0.0f32; x.len()];
        for i in 0..planes {
            for (o, at) in definition(&p, &x[i * plane..][..plane]).into_iter().enumerate() {
                prop_assert_eq!(y[i * outputs + o].to_bits(), x[i * plane + at].to_bits());
                prop_assert_eq!(picked[i * outputs + o], values[i * plane + at]);
                prop_assert_eq!(indices[i * outputs + o], at as i64);
                expected[i * plane + at] += grad[i * outputs + o];
            }
        }
        prop_assert_eq!(&dx, &expected);
        // The other widths of vectors.
        for isa in Isa::every() {
            for i in 0..planes {
                let mut one = vec![7.0; outputs];
                // SAFETY: the plane and its outputs have the sizes of `p`.
                unsafe { forward(isa, &p, &x[i * plane..][..plane], &mut one) };
                prop_assert_eq!(bits(&one), bits(&y[i * outputs..][..outputs]));
                if p.is_pairs() {
                    // Over the plane itself.
                    let mut one = x[i * plane..][..plane].to_vec();
                    let at = one.as_mut_ptr();
                    // SAFETY: as above.
                    unsafe { pairs_grad(isa, &p, at, &grad[i * outputs..][..outputs], at) };
                    prop_assert_eq!(&one, &expected[i * plane..][..plane]);
                }
            }
        }
        if p.is_pairs() {
            let mut over = x.clone();
            max_pool_grad_over(&p, &mut over, &grad);
            prop_assert_eq!(&over, &expected);
        }
    }
}

#[test]
fn nothing_to_do() {
    let w = Window { n: 2, size: 2, stride: 2, padding: 0, dilation: 1, out: 1 };
    let p = Pool { windows: [w, w] };
    max_pool(&p, &[], &mut []);
    max_pool_grad(&p, &[], &[], &mut []);
    max_pool_indices(&p, &[], &mut []);
}

#[test]
fn threads_do_not_change_a_bit() {
    let w = Window { n: 65, size: 3, stride: 2, padding: 1, dilation: 1, out: 33 };
    let p = Pool { windows: [w, w] };
    let mut r = Random(2);
    let (x, g) = (r.f32s(40 * 65 * 65), r.f32s(40 * 33 * 33));
    same_on_any_threads(|| {
        let (mut y, mut dx) = (g.clone(), x.clone());
        max_pool(&p, &x, &mut y);
        max_pool_grad(&p, &x, &g, &mut dx);
        (bits(&y), bits(&dx))
    });
}

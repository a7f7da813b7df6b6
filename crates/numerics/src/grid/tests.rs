use super::*;

fn numbers(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729 + 13) % 10007) as f64 / 5003.5 - 1.0).collect()
}

fn narrow(x: &[f64]) -> Vec<f32> {
    x.iter().map(|x| *x as f32).collect()
}

#[track_caller]
fn close(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{i}: {a} {b}");
    }
}

/// The definition: a position's value is a sum over all elements, each by how near it is along every axis.
fn expected(g: &Grid, x: &[f64], grid: &[f64]) -> Vec<f64> {
    let axes = g.axes();
    let mut y = vec![0.0; g.images * g.channels * g.count];
    for (o, y) in y.iter_mut().enumerate() {
        let (p, c, image) = (o % g.count, o / g.count, o / g.count / g.channels);
        for at in 0..g.plane() {
            let places = [at / (g.size[1] * g.size[2]), at / g.size[2] % g.size[1], at % g.size[2]];
            let mut weight = 1.0;
            for a in 3 - axes..3 {
                let n = g.size[a] as f64;
                let v = grid[(image * g.count + p) * axes + 2 - a];
                let mut v = if g.align { (v + 1.0) / 2.0 * (n - 1.0) } else { ((v + 1.0) * n - 1.0) / 2.0 };
                if g.outside == Outside::Reflection {
                    let (low, high) = if g.align { (0.0, n - 1.0) } else { (-0.5, n - 0.5) };
                    while high > low && !(low..=high).contains(&v) {
                        v = if v < low { 2.0 * low - v } else { 2.0 * high - v };
                    }
                }
                if g.outside != Outside::Zeros {
                    v = v.clamp(0.0, n - 1.0);
                }
                let k = places[a] as f64;
                weight *= if g.nearest {
                    f64::from(u8::from(v.round_ties_even() == k))
                } else {
                    (1.0 - (v - k).abs()).max(0.0)
                };
            }
            *y += weight * x[c * g.plane() + at];
        }
    }
    y
}

fn grids() -> Vec<Grid> {
    let mut all = vec![];
    for outside in [Outside::Zeros, Outside::Border, Outside::Reflection] {
        for (align, nearest) in [(false, false), (true, false), (false, true), (true, true)] {
            let g =
                Grid { images: 2, channels: 3, size: [1, 5, 7], volume: false, count: 150, nearest, outside, align };
            all.push(g);
            all.push(Grid { images: 1, channels: 9, size: [3, 4, 6], volume: true, count: 40, ..g });
            all.push(Grid { images: 1, channels: 2, size: [1, 1, 2], count: 600, ..g });
        }
    }
    all
}

fn inputs(g: &Grid) -> [Vec<f64>; 3] {
    let grid = numbers(g.images * g.count * g.axes(), 2).iter().map(|x| x * 1.7).collect();
    [numbers(g.images * g.channels * g.plane(), 1), grid, numbers(g.images * g.channels * g.count, 3)]
}

#[test]
fn values_are_sums_over_near_elements() {
    for g in grids() {
        let [x, grid, _] = inputs(&g);
        let want = expected(&g, &x, &grid);
        let (mut y, mut yy) = (vec![0f32; want.len()], vec![0f64; want.len()]);
        f64::sample(&g, &x, &grid, &mut yy);
        close(&yy, &want, 1e-12);
        f32::sample(&g, &narrow(&x), &narrow(&grid), &mut y);
        // Rounding may choose the other one of two elements that are as near.
        let off = y.iter().zip(&want).filter(|(a, b)| (f64::from(**a) - **b).abs() > 1e-4).count();
        assert!(off <= if g.nearest { y.len() / 50 } else { 0 }, "{g:?}: {off}");
    }
}

#[test]
fn gradients_are_slopes() {
    for g in grids() {
        let [x, grid, seed] = inputs(&g);
        let loss = |x: &[f64], grid: &[f64]| {
            let mut y = vec![0.0; seed.len()];
            f64::sample(&g, x, grid, &mut y);
            y.iter().zip(&seed).map(|(a, b)| a * b).sum::<f64>()
        };
        let slope = |v: &[f64], f: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
            let mut v = v.to_vec();
            (0..v.len())
                .map(|i| {
                    let before = v[i];
                    v[i] = before + 1e-6;
                    let above = f(&v);
                    v[i] = before - 1e-6;
                    let below = f(&v);
                    v[i] = before;
                    (above - below) / 2e-6
                })
                .collect()
        };
        let (mut dx, mut dgrid) = (vec![9.0; x.len()], vec![9.0; grid.len()]);
        f64::image_grad(&g, &grid, &seed, &mut dx);
        close(&dx, &slope(&x, &|x| loss(x, &grid)), 1e-6);
        f64::grid_grad(&g, &x, &grid, &seed, &mut dgrid);
        let want = if g.nearest { vec![0.0; grid.len()] } else { slope(&grid, &|v| loss(&x, v)) };
        close(&dgrid, &want, 1e-5);
        let (mut dx32, mut dgrid32) = (vec![9f32; x.len()], vec![9f32; grid.len()]);
        let [x, grid, seed] = [&x, &grid, &seed].map(|v| narrow(v));
        f32::grid_grad(&g, &x, &grid, &seed, &mut dgrid32);
        close(&dgrid32.iter().map(|x| f64::from(*x)).collect::<Vec<_>>(), &dgrid, 1e-3);
        if !g.nearest {
            f32::image_grad(&g, &grid, &seed, &mut dx32);
            close(&dx32.iter().map(|x| f64::from(*x)).collect::<Vec<_>>(), &dx, 1e-3);
        }
    }
}

#[test]
fn what_is_outside_is_not_read_and_what_is_no_number_is_no_place() {
    let g = Grid {
        images: 1,
        channels: 1,
        size: [1, 1, 2],
        volume: false,
        count: 5,
        nearest: false,
        outside: Outside::Zeros,
        align: true,
    };
    let grid = [f32::NAN, 0.0, 1e30, 0.0, -1e30, 0.0, f32::INFINITY, 0.0, 1.0, 0.0];
    let mut y = [0.0; 5];
    f32::sample(&g, &[f32::INFINITY, 2.0], &grid, &mut y);
    assert_eq!((y[1], y[2], y[4]), (0.0, 0.0, 2.0));
    for outside in [Outside::Border, Outside::Reflection] {
        f32::sample(&Grid { outside, ..g }, &[1.0, 2.0], &grid, &mut y);
        f32::image_grad(&Grid { outside, ..g }, &grid, &[1.0; 5], &mut [0.0; 2]);
    }
}

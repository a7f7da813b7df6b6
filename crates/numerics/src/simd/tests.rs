use super::*;
#[inline(always)]
unsafe fn shuffle<S: Simd>(x: &[f32], parts: &mut [f32], back: &mut [f32]) {
    // SAFETY: the slices hold four vectors.
    unsafe {
        let v = S::deinterleave4(x.as_ptr());
        let w = S::interleave4(v);
        for j in 0..4 {
            S::store(parts.as_mut_ptr().add(j * S::LANES), v[j]);
            S::store(back.as_mut_ptr().add(j * S::LANES), w[j]);
        }
    }
}
dispatch!(unsafe fn shuffled = shuffle(x: &[f32], parts: &mut [f32], back: &mut [f32]));

#[test]
fn interleaving_inverts() {
    for isa in Isa::every() {
        let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
        let (mut parts, mut back) = (vec![0.0; 64], vec![0.0; 64]);
        let n = isa.lanes();
        // SAFETY: 64 numbers are at least four vectors.
        unsafe { shuffled(isa, &x, &mut parts, &mut back) };
        assert_eq!(&back[..4 * n], &x[..4 * n], "{isa:?}");
        for (i, &part) in parts.iter().enumerate().take(4 * n) {
            assert_eq!(part, (i % n * 4 + i / n) as f32, "{isa:?}");
        }
    }
}

#[inline(always)]
unsafe fn transpose<S: Simd>(x: &[f32], y: &mut [f32]) {
    // SAFETY: the slices hold 16 rows of 20 numbers.
    unsafe { S::transpose(x.as_ptr(), 20, y.as_mut_ptr(), 18) }
}
dispatch!(unsafe fn transposed = transpose(x: &[f32], y: &mut [f32]));

#[test]
fn squares_are_transposed() {
    for isa in Isa::every() {
        let x: Vec<f32> = (0..320).map(|i| i as f32).collect();
        let mut y = vec![-1.0; 320];
        // SAFETY: the sizes are as the kernel expects.
        unsafe { transposed(isa, &x, &mut y) };
        for i in 0..isa.lanes() {
            for j in 0..isa.lanes() {
                assert_eq!(y[i * 18 + j], x[j * 20 + i], "{isa:?}");
            }
        }
    }
}

#[inline(always)]
unsafe fn sums<S: Simd>(x: &[f32], together: &mut [f32], apart: &mut [f32]) {
    // SAFETY: the slice holds four vectors.
    unsafe {
        let v = std::array::from_fn(|i| S::load(x.as_ptr().add(i * S::LANES)));
        together.copy_from_slice(&S::sums(v));
        apart.iter_mut().zip(v).for_each(|(to, v)| *to = fold::<S>(v, |a, b| a + b));
    }
}
dispatch!(unsafe fn summed = sums(x: &[f32], together: &mut [f32], apart: &mut [f32]));

#[test]
fn four_sums_are_those_of_each() {
    for isa in Isa::every() {
        // Numbers of which the order of additions shows.
        let x: Vec<f32> = (0..64).map(|i| (i as f32 * 0.7).sin() * 10f32.powi(i % 5)).collect();
        let (mut together, mut apart) = ([0.0; 4], [0.0; 4]);
        // SAFETY: 64 numbers are at least four vectors.
        unsafe { summed(isa, &x, &mut together, &mut apart) };
        assert_eq!(together, apart, "{isa:?}");
    }
}

#[inline(always)]
unsafe fn exps<S: Simd>(x: &[f32], y: &mut [f32]) {
    for i in (0..x.len()).step_by(S::LANES) {
        // SAFETY: the length is a multiple of 16.
        unsafe { S::store(y.as_mut_ptr().add(i), exp::<S>(S::load(x.as_ptr().add(i)))) }
    }
}
dispatch!(unsafe fn exps_of = exps(x: &[f32], y: &mut [f32]));

#[test]
fn exponentials() {
    let mut x: Vec<f32> = (0..160_000).map(|i| i as f32 * (-87.0 / 160_000.0)).collect();
    x[..4].copy_from_slice(&[f32::NEG_INFINITY, f32::NAN, -1e30, 0.0]);
    for isa in Isa::every() {
        let mut y = vec![0.0; x.len()];
        // SAFETY: the length is a multiple of 16.
        unsafe { exps_of(isa, &x, &mut y) };
        assert!(y[0] == 0.0 && y[1].is_nan() && y[2] == 0.0 && y[3] == 1.0, "{isa:?} {:?}", &y[..4]);
        for (x, y) in x.iter().zip(&y).skip(4) {
            let expected = f64::from(*x).exp();
            assert!((f64::from(*y) - expected).abs() <= 1.5e-7 * expected, "{isa:?} {x}: {y} {expected}");
        }
    }
}

//! Finite differences: slow and rough, but with no rule in them to get wrong.

/// The gradient of `f` at `at` by central differences of step `h`.
///
/// The error is about `h²` from the method and `1e-16 / h` from rounding, times the size of `f`; `h = 1e-5` is a
/// fair start.
///
/// ```
/// use gradus_scalar::finite_diff_grad;
///
/// let grad = finite_diff_grad(|v| v[0] * v[1] + v[0].sin(), &[2.0, 3.0], 1e-5);
/// assert!((grad[0] - (3.0 + 2f64.cos())).abs() < 1e-8);
/// assert!((grad[1] - 2.0).abs() < 1e-8);
/// ```
pub fn finite_diff_grad(f: impl Fn(&[f64]) -> f64, at: &[f64], h: f64) -> Vec<f64> {
    let mut point = at.to_vec();
    (0..at.len())
        .map(|i| {
            let (up, down) = (at[i] + h, at[i] - h);
            point[i] = up;
            let above = f(&point);
            point[i] = down;
            let below = f(&point);
            point[i] = at[i];
            // Not 2h: `at ± h` are rounded, and what matters is how far apart they came out.
            (above - below) / (up - down)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_on_a_quadratic_and_leaves_other_places_alone() {
        let grad = finite_diff_grad(|v| v[0] * v[0] + 3.0 * v[1] * v[2], &[1.0, 2.0, 4.0], 0.5);
        assert_eq!(grad, [2.0, 12.0, 6.0]);
        assert!(finite_diff_grad(|_| 1.0, &[], 1e-5).is_empty());
    }
}

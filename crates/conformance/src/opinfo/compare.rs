//! Judging an array against the expected one.

use super::host::{HostArray, HostDType};

/// How far apart two numbers may be: `|actual - expected| <= atol + rtol * |expected|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// The relative part.
    pub rtol: f64,
    /// The absolute part.
    pub atol: f64,
}

impl Tolerance {
    /// The tolerance for results of type `dtype`; integers must be equal.
    pub fn of(dtype: HostDType) -> Self {
        let (rtol, atol) = match dtype {
            HostDType::F64 => (1e-6, 1e-8),
            HostDType::F32 => (1.3e-6, 1e-5),
            HostDType::F16 => (1e-3, 1e-5),
            HostDType::BF16 => (1.6e-2, 1e-5),
            _ => (0.0, 0.0),
        };
        Self { rtol, atol }
    }

    /// Whether `actual` is near enough to `expected`. NaN is near NaN only, an
    /// infinity near itself only.
    pub fn accepts(self, expected: f64, actual: f64) -> bool {
        if expected.is_nan() || actual.is_nan() {
            return expected.is_nan() && actual.is_nan();
        }
        expected == actual
            || (expected.is_finite() && (actual - expected).abs() <= self.atol + self.rtol * expected.abs())
    }
}

/// Compares `actual` with `expected`: type, shape and every element. The error
/// says what differs.
pub fn compare(expected: &HostArray, actual: &HostArray) -> Result<(), String> {
    if expected.dtype() != actual.dtype() {
        return Err(format!("dtype {} instead of {}", actual.dtype(), expected.dtype()));
    }
    if expected.shape() != actual.shape() {
        return Err(format!("shape {:?} instead of {:?}", actual.shape(), expected.shape()));
    }
    if expected.dtype().is_float() {
        return floats(expected, actual);
    }
    exact(expected, actual)
}

fn floats(expected: &HostArray, actual: &HostArray) -> Result<(), String> {
    let tolerance = Tolerance::of(expected.dtype());
    let (e, a) = (expected.to_f64(), actual.to_f64());
    let bad = |&(_, (&e, &a)): &(usize, (&f64, &f64))| !tolerance.accepts(e, a);
    let mut bad = e.iter().zip(&a).enumerate().filter(bad).peekable();
    let Some(&(first, _)) = bad.peek() else {
        return Ok(());
    };
    let (mut count, mut abs, mut rel) = (0, 0.0_f64, 0.0_f64);
    for (_, (&e, &a)) in bad {
        count += 1;
        // A NaN on one side is as far away as can be.
        let distance = (a - e).abs();
        let distance = if distance.is_nan() { f64::INFINITY } else { distance };
        abs = abs.max(distance);
        let relative = distance / e.abs();
        rel = rel.max(if relative.is_nan() { f64::INFINITY } else { relative });
    }
    Err(format!(
        "{count} of {} elements differ, first {:?}: {:?} instead of {:?}; \
         largest error {abs:.3e}, relative {rel:.3e}",
        e.len(),
        index(first, expected.shape()),
        a[first],
        e[first],
    ))
}

fn exact(expected: &HostArray, actual: &HostArray) -> Result<(), String> {
    let (e, a) = (expected.to_i128(), actual.to_i128());
    let differ = e.iter().zip(&a).enumerate().filter(|(_, (e, a))| e != a);
    let differ: Vec<usize> = differ.map(|(i, _)| i).collect();
    let Some(&first) = differ.first() else {
        return Ok(());
    };
    let far = differ.iter().map(|&i| a[i].abs_diff(e[i])).max();
    Err(format!(
        "{} of {} elements differ, first {:?}: {} instead of {}; largest error {}",
        differ.len(),
        e.len(),
        index(first, expected.shape()),
        a[first],
        e[first],
        far.unwrap_or(0),
    ))
}

/// The index of the `flat`-th element of an array of `shape`.
fn index(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, &n) in index.iter_mut().zip(shape).rev() {
        *i = flat % n;
        flat /= n;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAN: f64 = f64::NAN;
    const INF: f64 = f64::INFINITY;

    #[test]
    fn equal_and_near() {
        let e = HostArray::from_f64(&[2, 2], &[NAN, INF, -INF, 1e9]);
        let a = HostArray::from_f64(&[2, 2], &[-NAN, INF, -INF, 1e9 + 900.0]);
        compare(&e, &a).unwrap();
        let e = HostArray::from_f64(&[2], &[0.0, 0.0]);
        let a = HostArray::from_f64(&[2], &[-0.0, 9e-9]);
        compare(&e, &a).unwrap();
        compare(&HostArray::from_f64(&[0, 3], &[]), &HostArray::from_f64(&[0, 3], &[])).unwrap();
    }

    #[test]
    fn one_sided_nan_and_inf() {
        let tolerance = Tolerance::of(HostDType::F64);
        for (e, a) in [(NAN, 0.0), (0.0, NAN), (INF, 1.0), (1.0, INF), (INF, -INF)] {
            assert!(!tolerance.accepts(e, a), "{e} {a}");
        }
    }

    #[test]
    fn the_message() {
        let e = HostArray::from_f64(&[2, 2], &[1.0, 2.0, 4.0, 0.0]);
        let a = HostArray::from_f64(&[2, 2], &[1.0, 2.0, 5.0, 2.0]);
        let error = compare(&e, &a).unwrap_err();
        assert_eq!(
            error,
            "2 of 4 elements differ, first [1, 0]: 5.0 instead of 4.0; \
             largest error 2.000e0, relative inf"
        );
        let e = HostArray::from_i64(&[3], &[1, i64::MIN, 3]);
        let a = HostArray::from_i64(&[3], &[1, i64::MAX, 3]);
        let error = compare(&e, &a).unwrap_err();
        assert!(error.starts_with("1 of 3 elements differ, first [1]: "));
        assert!(error.ends_with("largest error 18446744073709551615"));
    }

    #[test]
    fn form_counts() {
        let e = HostArray::from_i64(&[1], &[1]);
        let error = compare(&e, &HostArray::from_i32(&[1], &[1])).unwrap_err();
        assert_eq!(error, "dtype i32 instead of i64");
        let error = compare(&e, &HostArray::from_i64(&[], &[1])).unwrap_err();
        assert_eq!(error, "shape [] instead of [1]");
    }

    #[test]
    fn large_integers_are_exact() {
        let e = HostArray::from_u64(&[1], &[u64::MAX]);
        let a = HostArray::from_u64(&[1], &[u64::MAX - 1]);
        assert!(compare(&e, &a).is_err());
    }
}

//! From numbers to places, and round numbers to write beside an axis.

/// A range of numbers, straight or logarithmic.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    /// The range of some numbers; logarithmic only if all are positive.
    pub fn of(numbers: impl Iterator<Item = f64> + Clone, log: bool) -> Axis {
        let (low, high) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
        let log = log && low > 0.0;
        match (low <= high, low == high) {
            (false, _) => Axis { low: 0.0, high: 1.0, log: false },
            // A single value gets room on both sides.
            (true, true) => {
                let room = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
                Axis { low: low - room, high: high + room, log }
            }
            (true, false) => Axis { low, high, log },
        }
    }

    /// The part of the way from low to high, 0 to 1.
    pub fn place(&self, x: f64) -> f64 {
        let (low, high, x) = if self.log { (self.low.ln(), self.high.ln(), x.ln()) } else { (self.low, self.high, x) };
        // Halves first: the difference of two huge numbers may have no finite value.
        ((x / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0)).clamp(0.0, 1.0)
    }

    /// About `n` round numbers in the range, with their texts.
    pub fn ticks(&self, n: usize) -> Vec<(f64, String)> {
        if self.log && self.high / self.low >= 10.0 {
            let powers = self.low.log10().ceil() as i32..=self.high.log10().floor() as i32;
            let count = powers.clone().count();
            let step = count.div_ceil(n.max(1)).max(1);
            let ticks: Vec<_> = powers.step_by(step).map(|p| 10f64.powi(p)).map(|x| (x, label(x, x))).collect();
            if ticks.len() > 1 {
                return ticks;
            }
        }
        let step = round_step((self.high / 2.0 - self.low / 2.0) * 2.0 / n.max(1) as f64);
        if !step.is_finite() || step <= 0.0 {
            return vec![(self.low, label(self.low, self.low))];
        }
        let first = (self.low / step).ceil();
        let ticks = (0..=2 * n).map(|i| (first + i as f64) * step).take_while(|x| *x <= self.high + step * 1e-9);
        ticks.map(|x| (x, label(x, step))).collect()
    }
}

/// 1, 2 or 5 times a power of ten, at least as large.
fn round_step(x: f64) -> f64 {
    let power = 10f64.powf(x.log10().floor());
    let round = [1.0, 2.0, 5.0].into_iter().find(|m| m * power >= x * 0.999).unwrap_or(10.0);
    round * power
}

/// A number with as many digits as the step between numbers asks for.
fn label(x: f64, step: f64) -> String {
    // Minus zero looks odd.
    let x = if x == 0.0 || x.abs() < step.abs() * 1e-9 { 0.0 } else { x };
    let size = x.abs().max(step.abs());
    if size >= 1e6 || (size > 0.0 && size < 1e-3) {
        return format!("{x:.1e}").replace(".0e", "e");
    }
    let decimals = (-step.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{x:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(a: &Axis) -> Vec<String> {
        a.ticks(5).into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn round_numbers() {
        assert_eq!(texts(&Axis::of([0.0, 1.0].into_iter(), false)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(texts(&Axis::of([0.0, 1200.0].into_iter(), false)), ["0", "500", "1000"]);
        assert_eq!(texts(&Axis::of([1e-4, 10.0].into_iter(), true)), ["1e-4", "0.01", "1"]);
        assert_eq!(texts(&Axis::of([-1.0, 1.0].into_iter(), true)).len(), 5);
    }

    #[test]
    fn odd_ranges() {
        for numbers in [vec![], vec![0.0], vec![5.0], vec![-1e308, 1e308], vec![1e-320, 2e-320], vec![1.0, 1.0 + 1e-15]]
        {
            for log in [false, true] {
                let a = Axis::of(numbers.iter().copied(), log);
                assert!(a.ticks(5).len() <= 11, "{numbers:?}");
                assert!(numbers.iter().all(|x| (0.0..=1.0).contains(&a.place(*x))), "{numbers:?}");
            }
        }
    }
}

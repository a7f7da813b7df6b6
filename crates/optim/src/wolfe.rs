//! A step length that meets the strong Wolfe conditions, found as PyTorch (and minFunc before it) does.

use crate::lbfgs::Point;
use gradus_core::{Result, Tensor};

const ARMIJO: f64 = 1e-4;
const CURVATURE: f64 = 0.9;
const LEAST_CHANGE: f64 = 1e-9;

/// Where a search ended.
pub struct Found {
    pub point: Point,
    pub length: f64,
    pub evaluations: usize,
}

/// A length that was tried: the point there and the slope along the direction.
#[derive(Clone)]
struct Trial {
    t: f64,
    point: Point,
    slope: f64,
}

/// Looks along `d` from `start`, where the slope is `slope`, beginning with length `t`.
pub fn search(
    mut at: impl FnMut(f64) -> Result<Point>,
    t: f64,
    d: &Tensor,
    start: Point,
    slope: f64,
    budget: usize,
) -> Result<Found> {
    let reach = d.abs().max()?.item::<f64>()?;
    let mut evaluations = 0;
    let mut attempt = |t: f64| -> Result<Trial> {
        evaluations += 1;
        let point = at(t)?;
        let slope = (&point.1 * d).sum().item::<f64>()?;
        Ok(Trial { t, point, slope })
    };
    let loss = start.0;
    let too_high = |x: &Trial| x.point.0 > loss + ARMIJO * x.t * slope;
    let flat_enough = |x: &Trial| x.slope.abs() <= -CURVATURE * slope;

    // First a bracket around a good length, by stepping out.
    let begin = Trial { t: 0.0, point: start, slope };
    let mut last = begin.clone();
    let mut now = attempt(t)?;
    let (mut tries, mut done) = (0, false);
    let mut bracket = None;
    while tries < budget {
        if too_high(&now) || (tries > 1 && now.point.0 >= last.point.0) || (now.slope >= 0.0 && !flat_enough(&now)) {
            bracket = Some([last.clone(), now.clone()]);
            break;
        }
        if flat_enough(&now) {
            (bracket, done) = (Some([now.clone(), now.clone()]), true);
            break;
        }
        let bounds = (now.t + 0.01 * (now.t - last.t), now.t * 10.0);
        let next = attempt(interpolate(&last, &now, Some(bounds)))?;
        last = std::mem::replace(&mut now, next);
        tries += 1;
    }
    let mut bracket = bracket.unwrap_or([begin, now]);

    // Then smaller brackets, until one end is good.
    let mut stuck = false;
    let order = |b: &[Trial; 2]| if b[0].point.0 <= b[1].point.0 { (0, 1) } else { (1, 0) };
    let (mut low, mut high) = order(&bracket);
    while !done && tries < budget {
        let (from, to) = (bracket[0].t.min(bracket[1].t), bracket[0].t.max(bracket[1].t));
        if (to - from) * reach < LEAST_CHANGE {
            break;
        }
        let mut t = interpolate(&bracket[0], &bracket[1], None);
        let margin = 0.1 * (to - from);
        if (to - t).min(t - from) < margin {
            if stuck || t >= to || t <= from {
                t = if (t - to).abs() < (t - from).abs() { to - margin } else { from + margin };
                stuck = false;
            } else {
                stuck = true;
            }
        } else {
            stuck = false;
        }
        let new = attempt(t)?;
        tries += 1;
        if too_high(&new) || new.point.0 >= bracket[low].point.0 {
            bracket[high] = new;
            (low, high) = order(&bracket);
        } else {
            if flat_enough(&new) {
                done = true;
            } else if new.slope * (bracket[high].t - bracket[low].t) >= 0.0 {
                bracket[high] = bracket[low].clone();
            }
            bracket[low] = new;
        }
    }
    let [a, b] = bracket;
    let best = if low == 0 { a } else { b };
    Ok(Found { point: best.point, length: best.t, evaluations })
}

/// The minimum of the cubic through two points with their slopes, kept within bounds.
fn interpolate(a: &Trial, b: &Trial, bounds: Option<(f64, f64)>) -> f64 {
    let (from, to) = bounds.unwrap_or((a.t.min(b.t), a.t.max(b.t)));
    let d1 = a.slope + b.slope - 3.0 * (a.point.0 - b.point.0) / (a.t - b.t);
    let square = d1 * d1 - a.slope * b.slope;
    if square < 0.0 || square.is_nan() {
        return (from + to) / 2.0;
    }
    let d2 = square.sqrt();
    let (near, far) = if a.t <= b.t { (a, b) } else { (b, a) };
    let part = (far.slope + d2 - d1) / (far.slope - near.slope + 2.0 * d2);
    let t = far.t - (far.t - near.t) * part;
    t.max(from).min(to)
}

//! Every operation against finite differences, to second order.

use gradus_scalar::{Dual, Value, finite_diff_grad, var};

/// An operation of two operands as the engine, forward mode and plain numbers have it.
struct Case {
    name: &'static str,
    value: fn(&Value, &Value) -> Value,
    dual: fn(Dual, Dual) -> Dual,
    plain: fn(f64, f64) -> f64,
    points: &'static [[f64; 2]],
}

macro_rules! case {
    ($name:literal, $points:expr, |$x:ident, $y:ident| $formula:expr, $plain:expr) => {
        Case {
            name: $name,
            value: |$x: &Value, $y: &Value| {
                let _ = $y;
                $formula
            },
            dual: |$x: Dual, $y: Dual| {
                let ($x, $y) = (&$x, &$y);
                let _ = $y;
                $formula
            },
            plain: $plain,
            points: $points,
        }
    };
}

/// Anywhere, but not on a corner.
const ANY: &[[f64; 2]] = &[[0.7, 1.3], [-0.6, 0.4], [1.2, -0.9], [-1.4, -0.3]];
const POSITIVE: &[[f64; 2]] = &[[0.7, 1.3], [0.3, -0.8], [2.5, 2.0]];
const UNIT: &[[f64; 2]] = &[[0.7, 1.3], [-0.6, 0.4], [0.05, 1.0]];

fn cases() -> Vec<Case> {
    vec![
        case!("add", ANY, |x, y| x + y, |x, y| x + y),
        case!("sub", ANY, |x, y| x - y, |x, y| x - y),
        case!("mul", ANY, |x, y| x * y, |x, y| x * y),
        case!("div", ANY, |x, y| x / y, |x, y| x / y),
        case!("number on the right", ANY, |x, y| ((x + 2.0) * 3.0 - 1.0) / 2.0, |x, _| ((x + 2.0) * 3.0 - 1.0) / 2.0),
        case!("number on the left", ANY, |x, y| 2.0 - 3.0 * (1.0 / (0.5 + x * x)), |x, _| 2.0 - 3.0 / (0.5 + x * x)),
        case!("operator neg", ANY, |x, y| -(x * y), |x, y| -(x * y)),
        case!("neg", ANY, |x, y| (x * y).neg(), |x, y| -(x * y)),
        case!("pow", POSITIVE, |x, y| x.pow(y), f64::powf),
        case!("powf", POSITIVE, |x, y| x.powf(2.5), |x, _| x.powf(2.5)),
        case!("powi", ANY, |x, y| x.powi(3), |x, _| x.powi(3)),
        case!("powi below 0", ANY, |x, y| x.powi(-2), |x, _| x.powi(-2)),
        case!("exp", ANY, |x, y| x.exp(), |x, _| x.exp()),
        case!("ln", POSITIVE, |x, y| x.ln(), |x, _| x.ln()),
        case!("log2", POSITIVE, |x, y| x.log2(), |x, _| x.log2()),
        case!("log10", POSITIVE, |x, y| x.log10(), |x, _| x.log10()),
        case!("sin", ANY, |x, y| x.sin(), |x, _| x.sin()),
        case!("cos", ANY, |x, y| x.cos(), |x, _| x.cos()),
        case!("tan", ANY, |x, y| x.tan(), |x, _| x.tan()),
        case!("asin", UNIT, |x, y| x.asin(), |x, _| x.asin()),
        case!("acos", UNIT, |x, y| x.acos(), |x, _| x.acos()),
        case!("atan", ANY, |x, y| x.atan(), |x, _| x.atan()),
        case!("sinh", ANY, |x, y| x.sinh(), |x, _| x.sinh()),
        case!("cosh", ANY, |x, y| x.cosh(), |x, _| x.cosh()),
        case!("tanh", ANY, |x, y| x.tanh(), |x, _| x.tanh()),
        case!("sigmoid", ANY, |x, y| x.sigmoid(), |x, _| 1.0 / (1.0 + (-x).exp())),
        case!("sqrt", POSITIVE, |x, y| x.sqrt(), |x, _| x.sqrt()),
        case!("abs", ANY, |x, y| x.abs(), |x, _| x.abs()),
        case!("relu", ANY, |x, y| x.relu(), |x, _| x.max(0.0)),
        case!("max", ANY, |x, y| x.max(y), f64::max),
        case!("min", ANY, |x, y| x.min(y), f64::min),
    ]
}

#[track_caller]
fn assert_near(what: &str, got: f64, expected: f64, tolerance: f64) {
    assert!((got - expected).abs() <= tolerance * (1.0 + expected.abs()), "{what}: {got}, expected {expected}");
}

#[test]
fn values_are_those_of_plain_numbers() {
    for case in cases() {
        for &[x, y] in case.points {
            let expected = (case.plain)(x, y);
            assert_near(case.name, (case.value)(&var("x", x), &var("y", y)).value(), expected, 1e-14);
            assert_near(case.name, (case.dual)(Dual::variable(x), Dual::constant(y)).value(), expected, 1e-14);
        }
    }
}

#[test]
fn first_derivatives_agree_by_every_way() {
    for case in cases() {
        for &[x, y] in case.points {
            let expected = finite_diff_grad(|v| (case.plain)(v[0], v[1]), &[x, y], 1e-5);
            let (vx, vy) = (var("x", x), var("y", y));
            let z = (case.value)(&vx, &vy);
            let grads = z.backward();
            let graphs = z.grad_graph(&[&vx, &vy]);
            for (i, v) in [&vx, &vy].into_iter().enumerate() {
                let what = format!("{} at ({x}, {y}) in {v}", case.name);
                let reverse = grads.wrt(v).unwrap_or(0.0);
                assert_near(&what, reverse, expected[i], 1e-7);
                assert_near(&what, z.jvp(&[(v, 1.0)]), reverse, 1e-14);
                assert_near(&what, graphs[i].value(), reverse, 1e-14);
                let speed = |j| if i == j { 1.0 } else { 0.0 };
                let dual = (case.dual)(Dual::new(x, speed(0)), Dual::new(y, speed(1)));
                assert_near(&what, dual.derivative(), reverse, 1e-14);
            }
        }
    }
}

#[test]
fn second_derivatives_agree_with_differences_of_the_first() {
    for case in cases() {
        for &[x, y] in case.points {
            let (vx, vy) = (var("x", x), var("y", y));
            let hessian = (case.value)(&vx, &vy).hessian(&[&vx, &vy]);
            for (i, row) in hessian.iter().enumerate() {
                let first = |v: &[f64]| {
                    let inputs = [var("x", v[0]), var("y", v[1])];
                    (case.value)(&inputs[0], &inputs[1]).backward().wrt(&inputs[i]).unwrap_or(0.0)
                };
                let expected = finite_diff_grad(first, &[x, y], 1e-5);
                for (j, (&got, expected)) in row.iter().zip(expected).enumerate() {
                    assert_near(&format!("{} at ({x}, {y}), entry {i}{j}", case.name), got, expected, 1e-7);
                }
            }
        }
    }
}

#[test]
fn operators_work_on_values_and_references_and_assign() {
    let (x, y) = (var("x", 6.0), var("y", 3.0));
    let all = [&x + &y, x.clone() + &y, &x + y.clone(), x.clone() + y.clone(), &x + 3.0, x.clone() + 3.0];
    assert!(all.iter().all(|z| z.value() == 9.0));
    assert_eq!([3.0 - &x, 3.0 - x.clone(), -&x + 3.0].map(|z| z.value()), [-3.0; 3]);
    let mut z = x.clone();
    z += &y;
    z *= 2.0;
    z -= y.clone();
    z /= &y;
    assert_eq!((z.value(), z.backward().wrt(&x)), (5.0, Some(2.0 / 3.0)));
    assert_eq!([&x, &y].into_iter().sum::<Value>().value(), 9.0);
    assert_eq!([x, y].into_iter().product::<Value>().value(), 18.0);
    assert_eq!(Vec::<Value>::new().into_iter().sum::<Value>().value(), 0.0);
}

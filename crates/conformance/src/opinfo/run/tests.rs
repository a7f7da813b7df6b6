use super::super::args::KW;
use super::super::testing::{f64s, file};
use super::*;

/// Knows `scale` (`x * factor`), wrongly differentiated as `bad_scale`, and
/// `crash`.
struct Toy;

#[derive(Clone)]
struct Value {
    array: HostArray,
    slope: Option<f64>,
}

impl Backend for Toy {
    type Tensor = Value;

    fn load(&self, array: &HostArray, _: bool) -> Result<Value, OpError> {
        let array = array.clone();
        Ok(Value { array, slope: None })
    }

    fn call(&self, op: &str, a: &Args<'_, Value>) -> Option<Result<Vec<Value>, OpError>> {
        let scale = |slope: fn(f64) -> Option<f64>| {
            let x = a.tensor(0, "input")?.array;
            let factor = a.float_or(KW, "factor", 1.0)?;
            let values: Vec<f64> = x.to_f64().iter().map(|v| v * factor).collect();
            let array = HostArray::from_f64(x.shape(), &values);
            let slope = slope(factor);
            Ok(vec![Value { array, slope }])
        };
        match op {
            "scale" => Some(scale(Some)),
            "bad_scale" => Some(scale(|f| Some(f + 1.0))),
            "flat_scale" => Some(scale(|_| None)),
            "crash" => panic!("out of {}", "cheese"),
            _ => None,
        }
    }

    fn store(&self, value: &Value) -> Result<HostArray, OpError> {
        Ok(value.array.clone())
    }

    fn grad(&self, outs: &[(Value, Value)], wrt: &[Value]) -> Result<Vec<Option<Value>>, OpError> {
        let (out, ct) = &outs[0];
        let grad = out.slope.map(|slope| {
            let values: Vec<f64> = ct.array.to_f64().iter().map(|v| v * slope).collect();
            let array = HostArray::from_f64(ct.array.shape(), &values);
            Value { array, slope: None }
        });
        Ok(vec![grad; wrt.len()])
    }
}

fn outcome(op: &str, kwargs: &str, out: &[f64], grad: f64) -> Outcome {
    let cases = format!(r#"[{{"args": [{{"t": "0"}}], "kwargs": {kwargs}, "outs": 1, "grads": ["0"]}}]"#);
    let n = out.len();
    let tensors = [
        ("0.in.0", f64s(&[1], &[2.0])),
        ("0.out.0", f64s(&[n], out)),
        ("0.ct.0", f64s(&[n], &vec![1.0; n])),
        ("0.grad.0", f64s(&[1], &[grad])),
    ];
    let file = OpFile::parse(&file(op, &cases, &tensors)).unwrap();
    run_file(&Toy, &file).remove(0)
}

fn reason(outcome: Outcome) -> String {
    match outcome {
        Outcome::Wrong(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn right_and_wrong() {
    let three = r#"{"factor": 3}"#;
    assert_eq!(outcome("scale", three, &[6.0], 3.0), Outcome::Right);
    let wrong = reason(outcome("scale", three, &[7.0], 3.0));
    assert!(wrong.starts_with("output 0: 1 of 1 elements differ"), "{wrong}");
    let wrong = reason(outcome("bad_scale", three, &[6.0], 3.0));
    assert!(wrong.starts_with("gradient of 0: 1 of 1"), "{wrong}");
    let wrong = reason(outcome("scale", three, &[6.0, 6.0], 3.0));
    assert_eq!(wrong, "output 0: shape [1] instead of [2]");
}

#[test]
fn no_gradient_is_zero() {
    let three = r#"{"factor": 3}"#;
    let wrong = reason(outcome("flat_scale", three, &[6.0], 3.0));
    assert_eq!(wrong, "gradient of 0: there is none");
    assert_eq!(outcome("flat_scale", three, &[6.0], 0.0), Outcome::Right);
}

#[test]
fn unused_arguments_fail() {
    let wrong = reason(outcome("scale", r#"{"mode": "x"}"#, &[2.0], 1.0));
    assert_eq!(wrong, "argument `mode` (\"x\") of the sample was not used");
    let wrong = reason(outcome("scale", r#"{"factor": "x"}"#, &[2.0], 1.0));
    assert_eq!(wrong, "argument `factor` is \"x\", not a number");
}

#[test]
fn panics_and_unknown_ops() {
    let wrong = reason(outcome("crash", "{}", &[2.0], 1.0));
    assert_eq!(wrong, "panicked: out of cheese");
    assert_eq!(outcome("sing", "{}", &[2.0], 1.0), Outcome::NoSuchOp);
}

//! Random programs: the CPU's fused kernels give the oracle's bits, and fusion changes nothing but rounding.

use gradus_conformance::{
    oracle,
    programs::{Mode, run, run_from},
};
use gradus_core::{DType, Device, Tensor};
use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};

fn fail(e: gradus_core::Error) -> TestCaseError {
    TestCaseError::fail(e.to_string())
}

fn same_bits(a: &Tensor, b: &Tensor) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.shape(), b.shape());
    prop_assert_eq!(a.dtype(), b.dtype());
    let (x, y) = (a.to_bytes().map_err(fail)?, b.to_bytes().map_err(fail)?);
    if x != y {
        let (x, y) = (a.to_vec::<f64>().map_err(fail)?, b.to_vec::<f64>().map_err(fail)?);
        let bad = x.iter().zip(&y).position(|(p, q)| p.to_bits() != q.to_bits() && !(p.is_nan() && q.is_nan()));
        if let Some(i) = bad {
            let what = format!("element {i} of {} {}: {} vs {}", a.dtype(), a.shape(), x[i], y[i]);
            return Err(TestCaseError::fail(what));
        }
    }
    Ok(())
}

/// Fusing chooses the order of reductions by what is loaded, so sums may differ in the last digits.
fn close(a: &Tensor, b: &Tensor) -> Result<(), TestCaseError> {
    within(a, b, if a.dtype() == DType::F64 { 1e-12 } else { 2e-5 })
}

fn within(a: &Tensor, b: &Tensor, tol: f64) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.shape(), b.shape());
    prop_assert_eq!(a.dtype(), b.dtype());
    let (x, y) = (a.to_vec::<f64>().map_err(fail)?, b.to_vec::<f64>().map_err(fail)?);
    let scale = x.iter().filter(|x| x.is_finite()).fold(1.0f64, |m, x| m.max(x.abs()));
    for (i, (p, q)) in x.iter().zip(&y).enumerate() {
        let same = p == q || (p.is_nan() && q.is_nan()) || (p - q).abs() <= tol * scale;
        prop_assert!(same, "element {} of {} {}: {} fused, {} step by step", i, a.dtype(), a.shape(), p, q);
    }
    Ok(())
}

fn programs() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(any::<u32>(), 20..90)
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

fn report(result: Result<(), proptest::test_runner::TestError<Vec<u32>>>) {
    match result {
        Ok(()) => {}
        Err(proptest::test_runner::TestError::Fail(why, list)) => {
            panic!("{why}\nprogram {list:?}\n{}", gradus_conformance::programs::describe(&list))
        }
        Err(e) => panic!("{e}"),
    }
}

/// One program on both devices.
fn same_on_both(list: &[u32], cpu: Device, oracle: Device) -> Result<(), TestCaseError> {
    match (run(list, cpu, Mode::Fused), run(list, oracle, Mode::Fused)) {
        (Ok(a), Ok(b)) => {
            prop_assert_eq!(a.len(), b.len());
            let (ra, rb): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
            match (Tensor::eval_all(&ra), Tensor::eval_all(&rb)) {
                (Ok(()), Ok(())) => {
                    for (x, y) in a.iter().zip(&b) {
                        same_bits(x, y)?;
                    }
                }
                (Err(x), Err(y)) => prop_assert_eq!(x.kind(), y.kind()),
                (x, y) => prop_assert!(false, "one failed: {:?} vs {:?}", x.err(), y.err()),
            }
        }
        (Err(_), Err(_)) => {}
        (a, b) => prop_assert!(false, "one failed: {:?} vs {:?}", a.err(), b.err()),
    }
    Ok(())
}

#[test]
fn cpu_gives_the_oracles_bits() {
    let (cpu, oracle) = (Device::cpu(), oracle::with_layouts());
    let result = runner(4000).run(&programs(), |list| {
        // Small kernels have machine code from the second time on.
        (0..2).try_for_each(|_| same_on_both(&list, cpu, oracle))
    });
    report(result);
}

#[test]
fn fusion_changes_only_rounding() {
    let cpu = Device::cpu();
    let result = runner(4000).run(&programs(), |list| {
        if let (Ok(a), Ok(b)) = (run(&list, cpu, Mode::Fused), run(&list, cpu, Mode::StepByStep)) {
            let ra: Vec<_> = a.iter().collect();
            Tensor::eval_all(&ra).map_err(fail)?;
            for (x, y) in a.iter().zip(&b) {
                close(x, y)?;
            }
        }
        Ok(())
    });
    report(result);
}

/// Gradients of the sum of a program's results for its floats.
fn gradients(list: &[u32], mode: Mode, read_first: bool) -> gradus_core::Result<Vec<Tensor>> {
    let (start, results) = run_from(list, Device::cpu(), mode, true)?;
    let mut loss = None;
    for r in results.iter().filter(|r| r.requires_grad()) {
        let sum = r.to_dtype(DType::F64).sin().sum();
        loss = Some(match loss {
            None => sum,
            Some(l) => l + sum,
        });
    }
    let Some(loss) = loss else { return Ok(vec![]) };
    drop(results);
    if read_first {
        loss.item::<f64>()?;
    }
    let grads = loss.backward()?;
    Ok(start.iter().filter_map(|x| grads.wrt(x).ok()).collect())
}

#[test]
fn gradients_do_not_depend_on_what_was_read_before() {
    let result = runner(4000).run(&programs(), |list| {
        let Ok(want) = gradients(&list, Mode::Fused, false) else { return Ok(()) };
        for (mode, read_first) in [(Mode::Fused, true), (Mode::StepByStep, true)] {
            let got = gradients(&list, mode, read_first).map_err(fail)?;
            prop_assert_eq!(got.len(), want.len());
            for (x, y) in want.iter().zip(&got) {
                // Some step on the way may have been in f32.
                within(x, y, 2e-4)
                    .map_err(|e| TestCaseError::fail(format!("{e} (read first: {read_first}, {mode:?})")))?;
            }
        }
        Ok(())
    });
    report(result);
}

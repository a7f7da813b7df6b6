//! Tensors and graphs as text.

use gradus_core::{DType, PrintOptions, Tensor, set_print_options};
use std::sync::{Mutex, MutexGuard};

/// Print options belong to the process: tests that print take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let guard = TURN.lock().unwrap_or_else(|e| e.into_inner());
    set_print_options(PrintOptions::default());
    guard
}

fn show(t: impl Into<Tensor>) -> String {
    t.into().to_string()
}

#[test]
fn numbers_line_up() {
    let _turn = turn();
    assert_eq!(show([[1.0f32, -2.5], [0.125, 30.0]]), "[[ 1.0000, -2.5000],\n [ 0.1250, 30.0000]]");
    assert_eq!(show([1.0f64, 20.0, -3.0]), "[ 1., 20., -3.]");
    assert_eq!(show([0.0f32, -0.0]), "[ 0., -0.]");
    assert_eq!(show([1i32, -20, 300]), "[  1, -20, 300]");
    assert_eq!(show([true, false]), "[ true, false]");
    assert_eq!(show([f32::NAN, f32::INFINITY, -f32::INFINITY, 0.5]), "[   nan,    inf,   -inf, 0.5000]");
    assert_eq!(show([f32::NAN, 2.0]), "[nan,  2.]");
}

#[test]
fn exponents_where_sizes_differ() {
    let _turn = turn();
    assert_eq!(show([1e-5f64, 0.5]), "[1.0000e-05, 5.0000e-01]");
    assert_eq!(show([1e9f64, 2.0]), "[1.0000e+09, 2.0000e+00]");
    assert_eq!(show([1.0f64, 1001.0]), "[1.0000e+00, 1.0010e+03]");
    assert_eq!(show([0.5f64, -1e200]), "[  5.0000e-01, -1.0000e+200]");
    set_print_options(PrintOptions { sci_mode: Some(false), precision: 1, ..Default::default() });
    assert_eq!(show([1e-5f64, 0.5]), "[0.0, 0.5]");
}

#[test]
fn scalars_and_empties() {
    let _turn = turn();
    assert_eq!(show(2.5f32), "2.5000");
    assert_eq!(show(7i64), "7");
    assert_eq!(show(true), "true");
    assert_eq!(Tensor::zeros([0], DType::F32).to_string(), "[]");
    assert_eq!(format!("{:?}", Tensor::zeros([2, 0], DType::I8)), "tensor([], shape [2, 0], i8, cpu)");
}

#[test]
fn three_axes_are_set_apart() {
    let _turn = turn();
    let x = Tensor::arange(0, 8, 1, DType::I64).unwrap().view([2, 2, 2]).unwrap();
    assert_eq!(x.to_string(), "[[[0, 1],\n  [2, 3]],\n\n [[4, 5],\n  [6, 7]]]");
    let text = "tensor([[[0, 1],\n         [2, 3]],\n\n        [[4, 5],\n         [6, 7]]], shape [2, 2, 2], i64, cpu)";
    assert_eq!(format!("{x:?}"), text);
}

#[test]
fn many_elements_are_shortened() {
    let _turn = turn();
    let x = Tensor::arange(0, 1001, 1, DType::I64).unwrap();
    assert_eq!(x.to_string(), "[   0,    1,    2, ...,  998,  999, 1000]");
    let m = Tensor::arange(0, 10_000, 1, DType::F32).unwrap().view([100, 100]).unwrap();
    // A view that is not contiguous shows its own elements.
    let text = m.t().unwrap().to_string();
    assert!(text.starts_with("[[0.0000e+00, 1.0000e+02, 2.0000e+02, ..., 9.7000e+03,"), "{text}");
    assert_eq!(text.lines().filter(|l| l.trim() == "...,").count(), 1, "{text}");
    assert_eq!(Tensor::arange(0, 1000, 1, DType::I64).unwrap().to_string().matches("...").count(), 0);
    set_print_options(PrintOptions { threshold: 4, edgeitems: 1, ..Default::default() });
    assert_eq!(show([[1i32, 2, 3], [4, 5, 6], [7, 8, 9]]), "[[1, ..., 3],\n ...,\n [7, ..., 9]]");
    set_print_options(PrintOptions { threshold: 2, edgeitems: 0, ..Default::default() });
    assert_eq!(show([[1i32, 2], [4, 5]]), "[...]");
}

#[test]
fn lines_are_broken_at_their_width() {
    let _turn = turn();
    set_print_options(PrintOptions { linewidth: 12, ..Default::default() });
    assert_eq!(show([10i32, 20, 30, 40]), "[10, 20, 30,\n 40]");
}

#[test]
fn half_types_variables_and_digits() {
    let _turn = turn();
    let h = Tensor::from([0.5f32, 1.0 / 3.0]).to_dtype(DType::BF16);
    assert_eq!(h.to_string(), "[0.5000, 0.3340]");
    let w = Tensor::var("w", Tensor::from([1.5f32]));
    assert_eq!(format!("{w:?}"), "tensor([1.5000], shape [1], f32, cpu, variable w)");
    assert_eq!(format!("{:?}", &w * 2.0), "tensor([3.], shape [1], f32, cpu, made by mul)");
    assert_eq!(format!("{:.1}", Tensor::from(0.25f64)), "0.2");
}

#[test]
fn a_plan_that_fails_is_shown_not_thrown() {
    let _turn = turn();
    let x = Tensor::from([1i64, 2]).floor_divide(Tensor::from([0i64, 1])).unwrap();
    let text = x.to_string();
    assert!(text.starts_with('<') && text.contains("integer division by zero"), "{text}");
    assert!(format!("{x:?}").ends_with("shape [2], i64, cpu)"));
}

#[test]
fn a_graph_names_operations_values_and_lines() {
    let _turn = turn();
    let x = Tensor::var("x", Tensor::from([1.0f64, 2.0]));
    let h = &x * 3.0;
    let loss = (&h + &h).sum();
    let text = loss.graph().to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("reshape f64 []") || lines[0].starts_with("sum f64 "), "{text}");
    assert!(lines.iter().all(|l| l.contains("display.rs:") || l.contains("see above")), "{text}");
    assert!(text.contains("x f64 [2] = [1., 2.]"), "{text}");
    assert!(text.contains("#1 mul f64 [2]  at "), "{text}");
    assert_eq!(text.matches("#1, see above").count(), 1, "{text}");
    let grads = loss.backward().unwrap();
    assert!(loss.graph_with(&grads).to_string().contains("grad f64 [2], not computed"));
    Tensor::eval_all(&[&loss, &grads.wrt(&x).unwrap()]).unwrap();
    let text = loss.graph_with(&grads).to_string();
    assert!(text.contains("= 18."), "{text}");
    assert!(text.contains("x f64 [2] = [1., 2.]  grad = [6., 6.]"), "{text}");
}

#[test]
fn a_graph_as_dot() {
    let _turn = turn();
    let x = Tensor::var("a \"b\"", Tensor::from([1.0f32]));
    let y = x.exp();
    let dot = (&y + &y).graph().to_dot();
    assert!(dot.contains("a \\\"b\\\" f32 [1] = [1.]\\n"), "{dot}");
    assert_eq!(dot.matches(" -> ").count(), 3, "{dot}");
    assert!(dot.starts_with("digraph {") && dot.ends_with("}\n"));
}

#[test]
fn a_deep_graph_is_cut_not_overflown() {
    let _turn = turn();
    let n = if cfg!(debug_assertions) { 200_000 } else { 1_000_000 };
    let x = Tensor::var("x", Tensor::from([0.5f64]));
    let mut y = x.clone();
    for _ in 0..n {
        y = y.exp();
    }
    let text = y.graph().to_string();
    assert_eq!(text.lines().count(), 201);
    assert!(
        text.ends_with(&format!("... {} more of {} nodes (Graph::limit shows more)\n", n + 1 - 200, n + 1)),
        "{}",
        &text[text.len() - 200..]
    );
    assert_eq!(y.graph().limit(10).to_string().lines().count(), 11);
    let dot = y.graph().to_dot();
    assert!(dot.contains(&format!("{} more nodes", n + 1 - 200)));
}

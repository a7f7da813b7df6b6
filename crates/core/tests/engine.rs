//! The engine's promises: plans are made once, nothing leaks, threads share, long chains are fine.
//!
//! Counters of live nodes and bytes are process-wide, so these tests take turns.

use gradus_core::{DType, Tensor, live_bytes, live_nodes, no_grad, plan};
use std::sync::Mutex;

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|e| e.into_inner())
}

fn weights() -> [Tensor; 4] {
    let w = |name: &str, shape: [usize; 2], scale: f64| {
        let t = Tensor::arange(0, (shape[0] * shape[1]) as i64, 1, DType::F32).unwrap();
        Tensor::var(name, (t.view([shape[0] as i64, shape[1] as i64]).unwrap().sin() * scale).eval().unwrap())
    };
    [w("w1", [1, 32], 1.0), w("b1", [1, 32], 0.1), w("w2", [32, 1], 0.3), w("b2", [1, 1], 0.1)]
}

fn loss(p: &[Tensor; 4], x: &Tensor, y: &Tensor) -> Tensor {
    let h = (x.matmul(&p[0]).unwrap() + &p[1]).tanh();
    let out = h.matmul(&p[2]).unwrap() + &p[3];
    (out - y).square().mean()
}

fn step(p: &[Tensor; 4], x: &Tensor, y: &Tensor, lr: f64) -> Tensor {
    let l = loss(p, x, y);
    let g = l.backward().unwrap();
    no_grad(|| {
        for w in p {
            w.set(&(w - g.wrt(w).unwrap() * lr)).unwrap();
        }
    });
    let mut all: Vec<Tensor> = p.iter().map(|w| w.resolve()).collect();
    all.push(l.clone());
    Tensor::eval_all(&all.iter().collect::<Vec<_>>()).unwrap();
    l
}

fn data() -> (Tensor, Tensor) {
    let x = Tensor::linspace(-3.0, 3.0, 200, DType::F32).view([200, 1]).unwrap();
    let y = x.sin();
    Tensor::eval_all(&[&x, &y]).unwrap();
    (x, y)
}

#[test]
fn a_training_loop_plans_once_and_leaks_nothing() {
    let _turn = turn();
    let (p, (x, y)) = (weights(), data());
    let first = step(&p, &x, &y, 0.05).item::<f32>().unwrap();
    step(&p, &x, &y, 0.05);
    let (nodes, bytes, plans) = (live_nodes(), live_bytes(), plan::plans_made());
    let mut last = 0.0;
    for i in 0..1000 {
        // A learning rate that changes every step is an argument of the plan, not part of it.
        last = step(&p, &x, &y, 0.05 / (1.0 + i as f64 * 1e-3)).item::<f32>().unwrap();
    }
    assert_eq!(live_nodes(), nodes);
    assert_eq!(live_bytes(), bytes);
    assert_eq!(plan::plans_made(), plans, "a step was planned again");
    assert!(last < first / 4.0, "the loss went from {first} to {last}");
}

#[test]
fn another_shape_plans_again_and_is_right() {
    let _turn = turn();
    let p = weights();
    for n in [10usize, 20, 10] {
        let x = Tensor::linspace(0.0, 1.0, n, DType::F32).view([n as i64, 1]).unwrap();
        let l = loss(&p, &x, &x.sin()).item::<f32>().unwrap();
        let by_hand: f32 = {
            let (w1, b1) = (p[0].to_vec::<f32>().unwrap(), p[1].to_vec::<f32>().unwrap());
            let (w2, b2) = (p[2].to_vec::<f32>().unwrap(), p[3].to_vec::<f32>().unwrap());
            let one = |x: f32| {
                let out: f32 = (0..32).map(|j| (x * w1[j] + b1[j]).tanh() * w2[j]).sum::<f32>() + b2[0];
                (out - x.sin()).powi(2)
            };
            (0..n).map(|i| one(i as f32 / (n - 1) as f32)).sum::<f32>() / n as f32
        };
        assert!((l - by_hand).abs() < 1e-5, "{l} vs {by_hand}");
    }
}

#[test]
fn a_graph_built_before_an_update_keeps_what_it_read() {
    let _turn = turn();
    let w = Tensor::var("w", Tensor::from([1.0f32, 2.0]));
    let before = &w * 10.0;
    w.set(&Tensor::from([5.0f32, 6.0])).unwrap();
    let after = &w * 10.0;
    assert_eq!(before.to_vec::<f32>().unwrap(), [10.0, 20.0]);
    assert_eq!(after.to_vec::<f32>().unwrap(), [50.0, 60.0]);
}

#[test]
fn held_tensors_are_computed_in_the_same_run() {
    let _turn = turn();
    let x = Tensor::from([1.0f32, 2.0, 3.0]);
    let h = x.exp();
    let s = h.sum();
    s.eval().unwrap();
    assert!(h.is_realized(), "somebody holds it");
    let before = plan::kernel_launches();
    h.to_vec::<f32>().unwrap();
    assert_eq!(plan::kernel_launches(), before, "nothing is computed twice");
}

#[test]
fn matmuls_of_a_read_loss_are_not_computed_again_for_its_gradient() {
    let _turn = turn();
    let (p, (x, y)) = (weights(), data());
    let l = loss(&p, &x, &y);
    l.item::<f32>().unwrap();
    let g = l.backward().unwrap();
    let grads: Vec<Tensor> = p.iter().map(|w| g.wrt(w).unwrap()).collect();
    let plan = Tensor::explain_all(&grads.iter().collect::<Vec<_>>()).unwrap();
    let products = plan.steps.iter().filter(|s| s.what.starts_with("matmul")).count();
    // dW1 = x^T dh, dh = dout W2^T, dW2 = h^T dout: the two forward products are at hand.
    assert!(products <= 3, "{plan}");
}

#[test]
fn eight_threads_share_a_model() {
    let _turn = turn();
    let (p, (x, y)) = (weights(), data());
    let want = loss(&p, &x, &y).item::<f32>().unwrap();
    let want_grad = loss(&p, &x, &y).backward().unwrap().by_name("w2").unwrap().to_vec::<f32>().unwrap();
    std::thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                for _ in 0..50 {
                    let l = loss(&p, &x, &y);
                    let g = l.backward().unwrap().by_name("w2").unwrap();
                    assert_eq!(g.to_vec::<f32>().unwrap(), want_grad);
                    assert_eq!(l.item::<f32>().unwrap(), want);
                }
            });
        }
    });
}

#[test]
fn a_million_operations() {
    let _turn = turn();
    let x = Tensor::var("x", Tensor::from([0.5f64, 1.5]));
    let mut y = &x * 1.0;
    for i in 0..1_000_000 {
        y = if i % 2 == 0 { &y + 0.001 } else { -y };
    }
    let loss = y.sum();
    let g = loss.backward().unwrap();
    let want = g.wrt(&x).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(want, [1.0, 1.0]);
    assert!(loss.item::<f64>().unwrap().is_finite());
    drop((g, loss, y)); // by loops, not recursion: the stack of a test thread is small
    // Each the input of the next twice, and of nobody else.
    let mut z = Tensor::from([1.0f64]);
    for _ in 0..200_000 {
        z = &z * &z;
    }
    drop(z);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let _turn = turn();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let x = (Tensor::arange(0, 300_000, 1, DType::F32).unwrap() * 0.37).sin();
            let m = x.view([300, 1000]).unwrap();
            let parts = [
                x.sum(),
                m.sum_dim(0, false).unwrap(),
                m.sum_dim(1, false).unwrap(),
                (m.exp() / m.exp().sum_dim(0, true).unwrap()).sum_dim(1, false).unwrap(),
                m.matmul(&m.t().unwrap()).unwrap(),
                x.mean(),
            ];
            parts.iter().map(|t| t.to_bytes().unwrap()).collect::<Vec<_>>()
        })
    };
    let one = run(1);
    for threads in [2, 4, 8] {
        assert_eq!(run(threads), one, "{threads} threads");
    }
}

#[test]
fn reading_a_loss_first_does_not_change_its_gradient() {
    let _turn = turn();
    let filled = |name: &str, k: f64| {
        let t = (Tensor::arange(0, 64, 1, DType::F64).unwrap() * k).sin().view([8, 8]).unwrap();
        Tensor::var(name, t.eval().unwrap())
    };
    let (w, v) = (filled("w", 0.7), filled("v", 1.3));
    let gradient = |read_first: bool| {
        // The flip moves before the product and the exponential, whose group reduces another axis already.
        let b = v.mean_dim(0, true).unwrap();
        let loss = (&w * &b).exp().flip(0).unwrap().sum_dim(1, false).unwrap().sin().sum();
        if read_first {
            loss.item::<f64>().unwrap();
        }
        loss.backward().unwrap().wrt(&w).unwrap().to_vec::<f64>().unwrap()
    };
    let (plain, after) = (gradient(false), gradient(true));
    assert!(plain.iter().zip(&after).all(|(a, b)| (a - b).abs() < 1e-12), "{plain:?}\n{after:?}");
}

#[test]
fn long_chains_of_checkpoints_drop_without_recursion() {
    let _turn = turn();
    let x = Tensor::var("x", Tensor::from([0.5f64]));
    let mut y = &x * 1.0;
    for _ in 0..20_000 {
        y = gradus_core::grad::checkpoint(|a| Ok(a[0].sin()), &[&y]).unwrap();
    }
    drop(y);
}

#[test]
fn a_frozen_variable_gets_no_gradient_and_keeps_its_place() {
    let _turn = turn();
    let (w, b) = (Tensor::var("w", Tensor::from([2.0f32])), Tensor::var("b", Tensor::from([1.0f32])));
    w.set_requires_grad(false).unwrap();
    assert!(!w.requires_grad() && b.requires_grad());
    w.set(&Tensor::from([3.0f32])).unwrap(); // a new content stays frozen
    let grads = (&w * &b).sum().backward().unwrap();
    assert_eq!(grads.wrt(&b).unwrap().to_vec::<f32>().unwrap(), [3.0]);
    assert!(grads.wrt(&w).is_err());
    assert!(grads.missing().is_empty(), "none was expected: {:?}", grads.missing());
    w.set_requires_grad(true).unwrap();
    let grads = (&w * &b).sum().backward().unwrap();
    assert_eq!(grads.wrt(&w).unwrap().to_vec::<f32>().unwrap(), [1.0]);
    let counts = Tensor::var("n", Tensor::from([1i64]));
    assert!(counts.set_requires_grad(true).unwrap_err().to_string().contains("gradients are of floats"));
    assert!((&w * 2.0).set_requires_grad(false).unwrap_err().to_string().contains("not a variable"));
}

#[test]
fn a_variable_set_to_something_pending_is_computed_with_the_next_run() {
    let _turn = turn();
    let mean = Tensor::var("mean", Tensor::zeros([4], DType::F32).eval().unwrap());
    let x = Tensor::from([[1f32, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0]]);
    let pass = || {
        let h = x.exp();
        no_grad(|| mean.set(&(&mean * 0.5 + h.mean_dim(0, false).unwrap() * 0.5)).unwrap());
        h.sum().item::<f32>().unwrap()
    };
    pass();
    let (nodes, launches) = (live_nodes(), plan::kernel_launches());
    for _ in 0..100 {
        pass();
        assert!(mean.is_realized(), "the run that read the sum computed the mean as well");
    }
    assert_eq!(live_nodes(), nodes, "no graph of an earlier step hangs behind the variable");
    assert_eq!(
        plan::kernel_launches() - launches,
        200,
        "a kernel for each reduction, with exp before and the update after"
    );
    let want = (1f32.exp() + 3f32.exp()) / 2.0;
    assert!((mean.to_vec::<f32>().unwrap()[0] - want).abs() < 1e-5);
}

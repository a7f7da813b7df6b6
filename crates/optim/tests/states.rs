//! Saved, written to a file, read and loaded in the middle: every optimizer then goes on bit for bit.

mod common;

use common::{Problem, fixture};
use gradus_core::Tensor;
use gradus_io::{StateDict, safetensors};
use gradus_optim::*;

type Make = fn(&[Tensor; 3]) -> Box<dyn Optimizer>;

fn all() -> Vec<Make> {
    vec![
        |p| Box::new(Sgd::new(p, 0.05).momentum(0.9)),
        |p| Box::new(Adam::new(p, 0.02).configure(|o| o.amsgrad = true)),
        |p| Box::new(AdamW::new(p, 0.02)),
        |p| Box::new(NAdam::new(p, 0.02)),
        |p| Box::new(RAdam::new(p, 0.02)),
        |p| Box::new(RmsProp::new(p, 0.01).configure(|o| (o.centered, o.momentum) = (true, 0.5))),
        |p| Box::new(Adagrad::new(p, 0.1)),
        |p| Box::new(Adadelta::new(p, 1.0)),
        |p| Box::new(Adamax::new(p, 0.02)),
        |p| Box::new(Lion::new(p, 0.01)),
        |p| Box::new(Lamb::new(p, 0.02)),
        |p| Box::new(Muon::new([&p[0], &p[2]], 0.02)),
        |p| Box::new(Lbfgs::new(p, LbfgsOptions { lr: 0.1, ..Default::default() })),
    ]
}

fn steps(p: &Problem, opt: &mut dyn Optimizer, n: usize) {
    for _ in 0..n {
        opt.step(&p.loss().unwrap().backward().unwrap()).unwrap();
    }
}

fn bits(p: &Problem) -> Vec<u64> {
    p.flat().into_iter().map(f64::to_bits).collect()
}

#[test]
fn an_optimizer_goes_on_bit_for_bit_from_its_file() {
    let data = fixture("optim.safetensors");
    for (k, make) in all().into_iter().enumerate() {
        let whole = Problem::new(&data, "f32");
        steps(&whole, &mut make(&whole.params), 11);

        let first = Problem::new(&data, "f32");
        let mut opt = make(&first.params);
        steps(&first, &mut opt, 5);
        let second = Problem::new(&data, "f32");
        for (to, from) in second.params.iter().zip(&first.params) {
            to.set(&from.resolve().detach()).unwrap();
        }
        let file = safetensors::to_bytes(&opt.state()).unwrap();
        let mut opt = make(&second.params);
        opt.set_lr(123.0); // the state knows better
        opt.load_state(&safetensors::from_bytes(&file).unwrap()).unwrap();
        steps(&second, &mut opt, 6);
        assert_eq!(bits(&whole), bits(&second), "optimizer {k}");
    }
}

#[test]
fn a_state_that_does_not_fit_changes_nothing() {
    let data = fixture("optim.safetensors");
    let p = Problem::new(&data, "f64");
    let mut adam = Adam::new(&p.params, 0.02);
    steps(&p, &mut adam, 2);
    let good = adam.state();

    let e = Adam::new(&p.params[..2], 0.02).load_state(&good).unwrap_err().to_string();
    assert!(e.contains("group 0 has 3 variables in the state and 2 here"), "{e}");
    let e = AdamW::new(&p.params, 0.02).load_state(&good).unwrap_err().to_string();
    assert!(e.contains("the state is of adam, not of adamw"), "{e}");
    let e = adam.load_state(&StateDict::new()).unwrap_err().to_string();
    assert!(e.contains("something else"), "{e}");
    let other = Problem::new(&data, "f32");
    let e = Adam::new(&other.params, 0.02).load_state(&good).unwrap_err().to_string();
    assert!(e.contains("`exp_avg` is f64 in the state and f32 here"), "{e}");

    // The last variable's state is bad: the first ones must not have been taken over.
    let mut bad = good.clone();
    bad.insert("state.2.exp_avg", Tensor::from([1.0f64]));
    let mut fresh = Adam::new(&p.params, 0.5);
    assert!(fresh.load_state(&bad).is_err());
    assert_eq!((fresh.lr(), fresh.state().len()), (0.5, 0));
}

#[test]
fn a_step_that_fails_changes_nothing() {
    let (a, b) = (Tensor::var("a", Tensor::from([[1.0f32]])), Tensor::var("b", Tensor::from([2.0f32])));
    let grads = (&a * &b).sum().backward().unwrap();
    let mut muon = Muon::new([&a, &b], 0.5);
    let e = muon.step(&grads).unwrap_err().to_string();
    assert!(e.contains("Muon is for matrices, and this variable is [1]"), "{e}");
    assert_eq!((a.item::<f32>().unwrap(), muon.state().len()), (1.0, 0));

    let twice = Sgd::new([&a, &a], 0.5).step(&grads).unwrap_err().to_string();
    assert!(twice.contains("the variable a is in the optimizer twice"), "{twice}");
    let constant = Sgd::new([&Tensor::from([1.0f32])], 0.5).step(&grads).unwrap_err().to_string();
    assert!(constant.contains("parameter 0 of group 0 is not a variable"), "{constant}");
}

#[test]
fn what_the_loss_does_not_touch_stays() {
    let (a, b) = (Tensor::var("a", Tensor::from([1.0f32])), Tensor::var("b", Tensor::from([2.0f32])));
    let mut opt = Sgd::new([&a, &b], 0.5).momentum(0.9);
    opt.step(&a.sum().backward().unwrap()).unwrap();
    assert_eq!((a.item::<f32>().unwrap(), b.item::<f32>().unwrap()), (0.5, 2.0));
}

#[test]
fn an_average_and_its_state() {
    let w = Tensor::var("w", Tensor::from([1.0f64]));
    let mut ema = Ema::new([&w], 0.5);
    ema.update().unwrap();
    w.set(&Tensor::from([3.0f64])).unwrap();
    ema.update().unwrap();
    let mut other = Ema::new([&w], 0.9);
    other.load_state(&ema.state()).unwrap();
    for e in [&mut ema, &mut other] {
        e.update().unwrap();
        assert_eq!(e.averages()[0].to_vec::<f64>().unwrap(), [2.5]);
        let failed = e.with(|| Err::<(), _>(gradus_core::Error::value("test", "stop")));
        assert!(failed.is_err());
        assert_eq!(w.item::<f64>().unwrap(), 3.0, "put back after an error too");
    }
    assert!(Ema::new([&w, &w], 0.5).load_state(&ema.state()).is_err());
}

#[test]
fn an_accumulated_batch_is_the_whole_batch() {
    let data = fixture("optim.safetensors");
    let p = Problem::new(&data, "f64");
    let whole = p.loss().unwrap().backward().unwrap();
    let mut sum = Accumulator::new();
    assert!(sum.take_mean().is_err());
    for i in 0..4 {
        let half = |t: &Tensor| t.narrow(0, 2 * i, 2).unwrap();
        let part = Problem { x: half(&p.x), y: half(&p.y), params: p.params.clone() };
        sum.add(&part.loss().unwrap().backward().unwrap()).unwrap();
    }
    assert_eq!(sum.count(), 4);
    let mean = sum.take_mean().unwrap();
    for w in &p.params {
        let (a, b) = (whole.wrt(w).unwrap().to_vec::<f64>().unwrap(), mean.wrt(w).unwrap().to_vec::<f64>().unwrap());
        assert!(common::distance(&a, &b) < 1e-12);
    }
    assert_eq!(sum.count(), 0);
}

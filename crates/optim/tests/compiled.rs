//! Compiled training steps: the same numbers as the plain loop, bit for bit, and never a stale one.

use gradus_core::{
    DType, Device, Result, Tensor, autocast, compile, manual_seed, no_grad,
    plan::{kernel_launches, plans_made},
};
use gradus_optim::*;
use std::sync::{Mutex, MutexGuard};

/// Random numbers are the process's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

fn params() -> Vec<Tensor> {
    manual_seed(3);
    let p: Vec<Tensor> = [[3usize, 8], [8, 8], [8, 1]]
        .iter()
        .enumerate()
        .map(|(i, s)| Tensor::var(format!("w{i}"), Tensor::randn(*s) * 0.4))
        .chain([Tensor::var("b", Tensor::randn([8]) * 0.1)])
        .collect();
    Tensor::eval_all(&p.iter().collect::<Vec<_>>()).unwrap();
    p
}

fn loss(p: &[Tensor], x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let h = (x.matmul(&p[0])? + &p[3]).tanh();
    let h = h.matmul(&p[1])?.dropout(0.2, true)?.tanh();
    Ok((h.matmul(&p[2])? - y).square().mean())
}

fn batch(i: usize, n: usize) -> (Tensor, Tensor) {
    let x = (Tensor::linspace(-1.0, 1.0, 3 * n, DType::F32).reshape([n, 3]).unwrap() + i as f64 * 0.1).sin();
    let y = x.sum_dim(1, true).unwrap();
    Tensor::eval_all(&[&x, &y]).unwrap();
    (x, y)
}

type Make = fn(&[Tensor]) -> Box<dyn Optimizer>;

/// Losses and weights after some steps with changing batches and learning rates; how many steps were replays.
fn train(make: Make, compiled: bool) -> (Vec<u32>, Vec<Vec<u8>>, usize) {
    let p = params();
    let mut opt = make(&p);
    manual_seed(11);
    let mut losses = vec![];
    let mut step = compile(|opt: &mut Box<dyn Optimizer>, [x, y]| {
        let l = loss(&p, x, y)?;
        opt.step(&l.backward()?)?;
        Ok(l)
    });
    for i in 0..24 {
        // Every so often, a batch of another size.
        let (x, y) = batch(i, if i % 5 == 4 { 3 } else { 6 });
        let l = if compiled {
            step.call(&mut opt, [&x, &y]).unwrap()
        } else {
            let l = loss(&p, &x, &y).unwrap();
            opt.step(&l.backward().unwrap()).unwrap();
            l
        };
        losses.push(l.item::<f32>().unwrap().to_bits());
        if i == 12 {
            opt.set_lr(opt.lr() * 0.3);
        }
    }
    let status = step.status();
    assert_eq!(status.obstacle, None);
    (losses, p.iter().map(|t| t.to_bytes().unwrap()).collect(), status.replays)
}

#[test]
fn every_optimizer_steps_as_without() {
    let _alone = alone();
    let makes: [(&str, Make); 13] = [
        ("sgd", |p| Box::new(Sgd::new(p, 0.1))),
        ("momentum", |p| Box::new(Sgd::new(p, 0.1).momentum(0.9).weight_decay(0.01))),
        ("adam", |p| Box::new(Adam::new(p, 0.01))),
        ("amsgrad", |p| Box::new(Adam::new(p, 0.01).configure(|o| o.amsgrad = true))),
        ("adamw", |p| Box::new(AdamW::new(p, 0.01))),
        ("nadam", |p| Box::new(NAdam::new(p, 0.01))),
        ("adamax", |p| Box::new(Adamax::new(p, 0.01))),
        ("adadelta", |p| Box::new(Adadelta::new(p, 1.0))),
        ("adagrad", |p| Box::new(Adagrad::new(p, 0.05))),
        ("rmsprop", |p| Box::new(RmsProp::new(p, 0.01))),
        ("lion", |p| Box::new(Lion::new(p, 0.01))),
        ("lamb", |p| Box::new(Lamb::new(p, 0.01))),
        // Its first steps are other formulas: they are recorded again.
        ("radam", |p| Box::new(RAdam::new(p, 0.01))),
    ];
    for (name, make) in makes {
        let (losses, weights, _) = train(make, false);
        let (losses2, weights2, replays) = train(make, true);
        assert_eq!(losses, losses2, "{name}");
        assert!(weights == weights2, "{name}");
        assert!(replays >= if name == "radam" { 10 } else { 16 }, "{name}: {replays} replays");
    }
}

#[test]
fn groups_under_options_that_part_later_are_told_apart() -> Result<()> {
    let _alone = alone();
    let run = |compiled: bool| -> Result<Vec<Vec<u8>>> {
        let p = params();
        let options = AdamOptions { lr: 0.01, ..Default::default() };
        let mut opt = Adam::new(&p[..2], 0.01).group(&p[2..], options);
        let (x, y) = batch(0, 6);
        manual_seed(5);
        let mut step = compile(|opt: &mut Adam, [x, y]| {
            let l = loss(&p, x, y)?;
            opt.step(&l.backward()?)?;
            Ok(l)
        });
        for i in 0..14 {
            if compiled {
                step.call(&mut opt, [&x, &y])?;
            } else {
                opt.step(&loss(&p, &x, &y)?.backward()?)?;
            }
            if i == 6 {
                opt.set_option(1, "lr", 0.002);
            }
            if i == 9 {
                opt.set_option(0, "weight_decay", 0.1);
            }
        }
        assert!(!compiled || step.status().replays >= 6, "{}", step.status());
        p.iter().map(|t| t.to_bytes()).collect()
    };
    assert!(run(true)? == run(false)?);
    Ok(())
}

#[test]
fn a_step_is_computed_at_the_end_of_its_call() -> Result<()> {
    let _alone = alone();
    let p = params();
    let mut opt = Adam::new(&p, 0.01);
    let (x, y) = batch(0, 6);
    // What initial values take is done before.
    p.iter().try_for_each(|p| p.eval().map(drop))?;
    let mut inside = vec![];
    let mut step = compile(|opt: &mut Adam, [x, y]| {
        let before = kernel_launches();
        let l = loss(&p, x, y)?;
        opt.step(&l.backward()?)?;
        inside.push(kernel_launches() - before);
        Ok(l)
    });
    for _ in 0..6 {
        step.call(&mut opt, [&x, &y])?;
    }
    assert!(step.status().replays >= 1, "{}", step.status());
    // Nothing ran while the gradients were held.
    assert!(inside.iter().all(|&n| n == 0), "{inside:?}");
    Ok(())
}

#[test]
fn a_state_that_is_loaded_and_a_weight_that_is_set_are_seen() -> Result<()> {
    let _alone = alone();
    let p = params();
    let mut opt = Adam::new(&p, 0.01);
    let (x, y) = batch(0, 6);
    let mut step = compile(|opt: &mut Adam, [x, y]| {
        let l = loss(&p, x, y)?;
        opt.step(&l.backward()?)?;
        Ok(l)
    });
    for _ in 0..5 {
        step.call(&mut opt, [&x, &y])?;
    }
    let (saved, weights) = (opt.state(), p.iter().map(|t| t.resolve().detach()).collect::<Vec<_>>());
    let mut go_on = |opt: &mut Adam| -> Result<Vec<u32>> {
        manual_seed(1);
        (0..5).map(|_| Ok(step.call(opt, [&x, &y])?.item::<f32>()?.to_bits())).collect()
    };
    let first = go_on(&mut opt)?;
    // What was held before a replay is what it was.
    opt.load_state(&saved)?;
    p.iter().zip(&weights).try_for_each(|(p, w)| p.set(w))?;
    assert_eq!(go_on(&mut opt)?, first);
    // Another optimizer, in the same state.
    let mut other = Adam::new(&p, 0.01);
    other.load_state(&saved)?;
    p.iter().zip(&weights).try_for_each(|(p, w)| p.set(w))?;
    assert_eq!(go_on(&mut other)?, first);
    assert!(step.status().replays >= 8, "{}", step.status());
    Ok(())
}

#[test]
fn what_a_call_returned_stays() -> Result<()> {
    let _alone = alone();
    let w = Tensor::var("w", Tensor::from([1.0f32]));
    let mut step = compile(|_: &mut (), []| {
        w.set(&(&w * 2.0))?;
        Ok((w.resolve() + 0.5, &w * 3.0))
    });
    let kept = (0..8).map(|_| step.call(&mut (), [])).collect::<Result<Vec<_>>>()?;
    let seen: Vec<_> = kept.iter().map(|(a, b)| (a.item::<f32>().unwrap(), b.item::<f32>().unwrap())).collect();
    let wanted: Vec<_> = (1..=8).map(|i| (f32::exp2(i as f32) + 0.5, 3.0 * f32::exp2(i as f32))).collect();
    assert_eq!(seen, wanted);
    assert_eq!((w.item::<f32>()?, step.status().replays), (256.0, 5));
    // A snapshot that somebody holds is not written over.
    let held = w.resolve().detach();
    step.call(&mut (), [])?;
    assert_eq!((held.item::<f32>()?, w.item::<f32>()?), (256.0, 512.0));
    Ok(())
}

#[test]
fn what_cannot_be_replayed_runs_and_says_why() -> Result<()> {
    let _alone = alone();
    let x = Tensor::from([1.0f32, 2.0]);
    let mut reads = compile(|_: &mut (), [x]: [&Tensor; 1]| Ok(x * x.sum().item::<f64>()?));
    let mut counter = 0.0;
    let mut counts = compile(|_: &mut (), [x]: [&Tensor; 1]| {
        counter += 1.0;
        Ok(x * counter)
    });
    let mut uploads = compile(|_: &mut (), [x]: [&Tensor; 1]| Ok(x + Tensor::from([1.0f32, 1.0])));
    let other = x.clone();
    let mut captured = compile(|_: &mut (), [x]: [&Tensor; 1]| Ok(x - &other));
    for i in 1..16 {
        let x = if i == 10 { Tensor::from([2.0f32, 2.0]) } else { x.clone() };
        let sum = if i == 10 { 4.0 } else { 3.0 };
        let first = x.to_vec::<f32>()?[0];
        assert_eq!(reads.call(&mut (), [&x])?.to_vec::<f32>()?[0], first * sum);
        assert_eq!(counts.call(&mut (), [&x])?.to_vec::<f32>()?[1], 2.0 * i as f32);
        assert_eq!(uploads.call(&mut (), [&x])?.to_vec::<f32>()?[0], first + 1.0);
        // The argument is not mistaken for the tensor that the function holds itself.
        assert_eq!(captured.call(&mut (), [&x])?.to_vec::<f32>()?[0], first - 1.0);
    }
    let why = |s: gradus_core::replay::Status| s.obstacle.unwrap();
    assert!(why(reads.status()).contains("reads a tensor (") && why(reads.status()).contains("compiled.rs"));
    assert!(why(counts.status()).contains("a number in it changes"), "{}", why(counts.status()));
    assert!(why(uploads.status()).contains("numbers from the host"));
    assert_eq!((captured.status().obstacle, captured.status().replays), (None, 12));
    Ok(())
}

#[test]
fn a_captured_content_is_not_mistaken_for_its_variable() -> Result<()> {
    let _alone = alone();
    let v = Tensor::var("v", Tensor::from([1.0f32]));
    let start = v.resolve().detach();
    let mut f = compile(|_: &mut (), []| Ok(&v * 10.0 + &start));
    for _ in 0..5 {
        assert_eq!(f.call(&mut (), [])?.item::<f32>()?, 11.0);
    }
    v.set(&Tensor::from([2.0f32]))?;
    for _ in 0..5 {
        assert_eq!(f.call(&mut (), [])?.item::<f32>()?, 21.0);
    }
    assert!(f.status().replays > 0, "{}", f.status());
    Ok(())
}

#[test]
fn modes_of_the_thread_are_part_of_the_call() -> Result<()> {
    let _alone = alone();
    let w = Tensor::var("w", Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]));
    let mut f = compile(|_: &mut (), [x]: [&Tensor; 1]| x.linear(&w, None));
    let x = Tensor::from([[1.0f32, 1.0]]);
    for _ in 0..6 {
        assert_eq!(f.call(&mut (), [&x])?.dtype(), DType::F32);
        assert_eq!(autocast(DType::BF16, || f.call(&mut (), [&x]))?.dtype(), DType::BF16);
        assert_eq!(no_grad(|| f.call(&mut (), [&x]))?.to_vec::<f32>()?, [3.0, 7.0]);
    }
    assert_eq!((f.status().replays, f.status().recordings), (9, 3));
    // A transposed argument, and an integer one, are calls of another kind.
    let t = Tensor::from([[1.0f32, 5.0], [2.0, 6.0]]);
    for _ in 0..5 {
        assert_eq!(f.call(&mut (), [&t])?.to_vec::<f32>()?, [11.0, 23.0, 14.0, 30.0]);
        assert_eq!(f.call(&mut (), [&t.t()?])?.to_vec::<f32>()?, [5.0, 11.0, 17.0, 39.0]);
    }
    Ok(())
}

#[test]
fn a_replay_makes_no_plan_and_no_node() -> Result<()> {
    let _alone = alone();
    let p = params();
    let mut opt = Adam::new(&p, 0.01);
    let (x, y) = batch(0, 6);
    let mut step = compile(|opt: &mut Adam, [x, y]| {
        let l = loss(&p, x, y)?;
        opt.step(&l.backward()?)?;
        Ok(l)
    });
    for _ in 0..4 {
        step.call(&mut opt, [&x, &y])?;
    }
    let (plans, place) = (plans_made(), p[0].resolve().node().value().map(|v| v.buffer.raw()));
    let first = step.call(&mut opt, [&x, &y])?.id();
    for _ in 0..5 {
        assert_eq!(step.call(&mut opt, [&x, &y])?.id(), first, "the same tensor, once nobody holds it");
    }
    assert_eq!(plans_made(), plans);
    assert_eq!(p[0].resolve().node().value().map(|v| v.buffer.raw()), place, "weights are written where they are");
    assert_eq!(x.device(), Device::cpu());
    Ok(())
}

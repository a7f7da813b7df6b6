//! Learning rates against PyTorch's own (see `fixtures/make.py`), for two groups, and plateaus.

mod common;

use common::{distance, fixture};
use gradus_core::Tensor;
use gradus_optim::*;
use std::sync::Arc;

fn optimizer() -> Sgd {
    let (a, b) = (Tensor::var("a", 0.0f32), Tensor::var("b", 0.0f32));
    let options = |lr| SgdOptions { lr, momentum: 0.9, ..Default::default() };
    Sgd::with([&a], options(0.1)).group([&b], options(0.02))
}

fn follow(name: &str, schedule: Schedule) {
    let want = fixture("schedules.safetensors").tensor(name).unwrap().clone();
    let (rows, columns) = (want.dims()[0], want.dims()[1]);
    let want = want.to_vec::<f64>().unwrap();
    let mut opt = optimizer();
    let mut s = LrScheduler::new(&mut opt, schedule.clone()).unwrap();
    for t in 0..rows {
        let names: &[&str] = if columns == 4 { &["lr", "momentum"] } else { &["lr"] };
        let have: Vec<f64> =
            (0..2).flat_map(|g| names.iter().map(move |n| (g, n))).map(|(g, n)| opt.option(g, n).unwrap()).collect();
        let want = &want[t * columns..][..columns];
        let off = distance(&have, want);
        assert!(off < 1e-12, "{name} at step {t}: {have:?}, PyTorch has {want:?}");
        if t + 1 == rows {
            break;
        }
        if t == rows / 2 {
            // In the middle: written down, and taken up by others.
            let (opt_state, state) = (opt.state(), s.state());
            opt = optimizer();
            s = LrScheduler::new(&mut opt, schedule.clone()).unwrap();
            opt.load_state(&opt_state).unwrap();
            s.load_state(&state).unwrap();
        }
        s.step(&mut opt).unwrap();
        assert_eq!(s.last_lr(), [opt.option(0, "lr").unwrap(), opt.option(1, "lr").unwrap()]);
    }
}

#[test]
fn every_schedule_follows_pytorch() {
    follow("constant", Schedule::Constant { factor: 0.25, total_iters: 7 });
    follow("linear", Schedule::Linear { start_factor: 0.1, end_factor: 0.9, total_iters: 20 });
    follow("step", Schedule::Step { step_size: 7, gamma: 0.5 });
    follow("multistep", Schedule::MultiStep { milestones: vec![3, 10, 10, 40], gamma: 0.3 });
    follow("exponential", Schedule::Exponential { gamma: 0.93 });
    follow("cosine", Schedule::Cosine { t_max: 25, eta_min: 0.001 });
    follow("restarts", Schedule::CosineRestarts { t_0: 8, t_mult: 2, eta_min: 0.001 });
    follow("one_cycle", Schedule::OneCycle(OneCycle::new(0.4, 60)));
    let three = OneCycle { pct_start: 0.4, anneal: Anneal::Linear, three_phase: true, ..OneCycle::new(0.4, 60) };
    follow("one_cycle_three", Schedule::OneCycle(three));
    follow("polynomial", Schedule::Polynomial { total_iters: 30, power: 2.0 });
    follow("lambda", Schedule::lambda(|e| 1.0 / (1.0 + 0.3 * e as f64)));
    follow("multiplicative", Schedule::Multiplicative(Arc::new(|e| 0.9 + 0.001 * e as f64)));
    let schedules = vec![
        Schedule::Linear { start_factor: 0.1, end_factor: 1.0, total_iters: 5 },
        Schedule::Cosine { t_max: 30, eta_min: 0.0 },
        Schedule::Constant { factor: 0.1, total_iters: 10 },
    ];
    follow("sequential", Schedule::Sequential { schedules, milestones: vec![5, 35] });
    let chained = vec![Schedule::Constant { factor: 0.1, total_iters: 4 }, Schedule::Exponential { gamma: 0.9 }];
    follow("chained", Schedule::Chained(chained));
}

#[test]
fn plateaus_follow_pytorch() {
    for (name, mode, threshold) in [
        ("plateau_min_rel", Goal::Min, PlateauThreshold::Relative(0.01)),
        ("plateau_min_abs", Goal::Min, PlateauThreshold::Absolute(0.01)),
        ("plateau_max_rel", Goal::Max, PlateauThreshold::Relative(0.01)),
        ("plateau_max_abs", Goal::Max, PlateauThreshold::Absolute(0.01)),
    ] {
        let want = fixture("schedules.safetensors").tensor(name).unwrap().to_vec::<f64>().unwrap();
        let w = Tensor::var("w", 0.0f32);
        let mut opt = Sgd::new([&w], 0.1);
        let options =
            PlateauOptions { mode, threshold, factor: 0.5, patience: 2, cooldown: 1, min_lr: 0.004, eps: 1e-8 };
        let mut s = ReduceLrOnPlateau::new(options.clone()).unwrap();
        for (t, row) in want.chunks(2).enumerate() {
            s.step(row[0], &mut opt);
            assert!((opt.lr() - row[1]).abs() < 1e-12, "{name} at {t}: {} and {}", opt.lr(), row[1]);
            let state = s.state();
            s = ReduceLrOnPlateau::new(options.clone()).unwrap();
            s.load_state(&state).unwrap();
        }
    }
}

#[test]
fn what_makes_no_schedule_is_an_error() {
    let bad = [
        (Schedule::Step { step_size: 0, gamma: 0.5 }, "step_size must be at least 1"),
        (Schedule::Linear { start_factor: 0.0, end_factor: 1.0, total_iters: 5 }, "start_factor must be between"),
        (Schedule::Chained(vec![]), "at least one schedule"),
        (Schedule::Sequential { schedules: vec![], milestones: vec![] }, "one milestone fewer"),
        (Schedule::OneCycle(OneCycle { pct_start: 1.5, ..OneCycle::new(0.1, 10) }), "cannot be"),
    ];
    for (schedule, why) in bad {
        let e = LrScheduler::new(&mut optimizer(), schedule).err().unwrap();
        assert!(e.to_string().contains(why), "{e}");
        assert!(e.to_string().contains("schedules.rs"), "{e}");
    }
    let mut opt = optimizer();
    let mut s = LrScheduler::new(&mut opt, Schedule::OneCycle(OneCycle::new(0.1, 2))).unwrap();
    s.step(&mut opt).unwrap();
    s.step(&mut opt).unwrap();
    assert!(s.step(&mut opt).unwrap_err().to_string().contains("step 3 of one cycle of 2 steps"));
    let e = s.load_state(
        &LrScheduler::new(&mut opt, Schedule::Chained(vec![Schedule::Exponential { gamma: 0.5 }])).unwrap().state(),
    );
    assert!(e.unwrap_err().to_string().contains("another schedule"));
}

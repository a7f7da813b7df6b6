//! Training on another device than the CPU: the same numbers, few readings, and checkpoints that go both ways.

use gradus_conformance::relay;
use gradus_core::{DType, Device, Error, Result, Tensor, manual_seed, plan::plans_made};
use gradus_nn::{BatchNorm1d, Dropout, Layer, Linear, Module, Relu, Sequential};
use gradus_optim::*;
use gradus_train::*;
use std::sync::{Mutex, MutexGuard};

/// Random numbers, plans and readings belong to the process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

fn model(device: &Device) -> Result<Sequential> {
    manual_seed(4);
    let mut net =
        Sequential::from((Linear::new(6, 16), BatchNorm1d::new(16), Relu, Dropout::new(0.1), Linear::new(16, 3)));
    net.to(device)?;
    Ok(net)
}

/// A batch, made on the CPU from its number.
fn batch(k: u64) -> Result<(Tensor, Tensor)> {
    let x: Vec<f32> = (0..8 * 6).map(|i| ((i as u64 * 37 + k * 11) % 29) as f32 / 14.0 - 1.0).collect();
    let y: Vec<i64> = x.chunks(6).map(|r| (r.iter().sum::<f32>().abs() * 2.0) as i64 % 3).collect();
    Ok((Tensor::from_vec(x, [8, 6])?, Tensor::from_vec(y, [8])?))
}

/// A run of `epochs` times 20 steps on a device, and what becomes of the trainer before it starts.
fn run(device: &Device, epochs: u64, with: impl FnOnce(Trainer<'_>) -> Trainer<'_>) -> Result<(Report, StateDict)> {
    let net = model(device)?;
    let mut opt = AdamW::new(&net.parameters(), 0.02);
    let schedule = LrScheduler::new(&mut opt, Schedule::Cosine { t_max: 60, eta_min: 0.0 })?;
    let trainer = Trainer::new(opt).epochs(epochs).clip_grad_norm(1.0).schedule(schedule, Per::Step);
    let report = with(trainer).fit(
        |epoch| (0..20).map(move |k| batch(20 * epoch + k)),
        |made| {
            let (x, y) = made?;
            net.forward(&x.to(device))?.cross_entropy(&y.to(device))
        },
    )?;
    Ok((report, net.state_dict()))
}

fn numbers(state: &StateDict) -> Vec<(String, Vec<f64>)> {
    state.iter().map(|(n, t)| (n.to_string(), t.to_vec::<f64>().unwrap())).collect()
}

#[test]
fn another_device_gives_the_same_bits_and_is_seldom_read() {
    let _alone = alone();
    let (cpu, there) = (Device::cpu(), relay::device());
    let (here, weights) = run(&cpu, 3, |t| t).unwrap();
    let before = relay::downloads();
    let (report, others) = run(&there, 3, |t| t).unwrap();
    let read = relay::downloads() - before;
    assert_eq!(here.history, report.history);
    assert_eq!(numbers(&weights), numbers(&others));
    assert!(others.iter().all(|(_, t)| t.device() == there));
    assert_eq!(read, 3, "an epoch of 20 is read once, at its end");
    let before = relay::downloads();
    run(&there, 3, |t| t.read_loss_every(4)).unwrap();
    assert_eq!(relay::downloads() - before, 15);
    let before = relay::downloads();
    run(&there, 3, |t| t.read_loss_every(1)).unwrap();
    assert_eq!(relay::downloads() - before, 60);
}

#[test]
fn one_plan_serves_all_steps_although_losses_wait() {
    let _alone = alone();
    struct Plans(Vec<usize>);
    impl Callback for Plans {
        fn on_step(&mut self, _: &Run<'_>) -> Result<Flow> {
            self.0.push(plans_made());
            Ok(Flow::Continue)
        }
    }
    let mut plans = Plans(vec![]);
    let net = model(&relay::device()).unwrap();
    Trainer::new(Adam::new(&net.parameters(), 0.01))
        .on(&mut plans)
        .fit(
            |_| (0..40).map(batch),
            |made| {
                let (x, y) = made?;
                net.forward(&x.to(&relay::device()))?.cross_entropy(&y.to(&relay::device()))
            },
        )
        .unwrap();
    assert_eq!(plans.0[1], plans.0[39], "{:?}", plans.0);
}

#[test]
fn a_checkpoint_goes_on_elsewhere() {
    let _alone = alone();
    let (cpu, there) = (Device::cpu(), relay::device());
    let (whole, weights) = run(&cpu, 3, |t| t).unwrap();
    for (first, second) in [(&there, &cpu), (&cpu, &there)] {
        let dir = tempfile::tempdir().unwrap();
        let with_model = |device: &Device, most: u64| {
            let net = model(device)?;
            let mut opt = AdamW::new(&net.parameters(), 0.02);
            let schedule = LrScheduler::new(&mut opt, Schedule::Cosine { t_max: 60, eta_min: 0.0 })?;
            let report = Trainer::new(opt)
                .epochs(3)
                .max_steps(most)
                .clip_grad_norm(1.0)
                .schedule(schedule, Per::Step)
                .part("model", FnState::new(|| net.state_dict(), |s: &StateDict| net.load_state_dict(s)))
                .checkpoints(Checkpoints::open(dir.path()).map_err(Error::from)?, 7)
                .fit(
                    |epoch| (0..20).map(move |k| batch(20 * epoch + k)),
                    |made| {
                        let (x, y) = made?;
                        net.forward(&x.to(device))?.cross_entropy(&y.to(device))
                    },
                )?;
            Ok::<_, Error>((report, net.state_dict()))
        };
        assert_eq!(with_model(first, 25).unwrap().0.steps, 25);
        let (report, others) = with_model(second, 1000).unwrap();
        assert!(report.resumed.is_some());
        assert_eq!((report.steps, &report.history), (60, &whole.history));
        assert_eq!(numbers(&others), numbers(&weights));
        assert!(others.iter().all(|(_, t)| t.device() == *second));
    }
}

#[test]
fn a_batch_left_behind_is_an_error_and_not_a_silent_copy() {
    let _alone = alone();
    let net = model(&relay::device()).unwrap();
    let e = Trainer::new(Sgd::new(&net.parameters(), 0.1))
        .fit(|_| (0..1).map(batch), |made| net.forward(&made?.0).map(|y| y.sum()))
        .unwrap_err();
    assert!(e.to_string().contains("different devices: cpu and relay"), "{e}");
}

#[test]
fn a_loss_that_is_not_finite_is_found_when_it_is_read() {
    let _alone = alone();
    let fit = |with: &dyn Fn(Trainer<'_>) -> Trainer<'_>| {
        let w = Tensor::var("w", Tensor::from([1.0f32]).to(&relay::device()));
        let bad = |k: i32| if k == 40 { f64::NAN } else { 1.0 };
        let trainer = with(Trainer::new(Sgd::new([&w], 0.0)));
        trainer.fit(|_| 0..100, |k| Ok((&w * bad(k)).sum())).unwrap_err().to_string()
    };
    let e = fit(&|t| t);
    assert!(e.contains("the loss was NaN at step 40 (epoch 0), seen at step 63"), "{e}");
    assert!(e.contains("read_loss_every(1)"), "{e}");
    let e = fit(&|t| t.read_loss_every(1));
    assert!(e.contains("the loss is NaN at step 40") && e.contains("holds NaN"), "{e}");
}

#[test]
fn mixed_precision_trains_and_its_checkpoint_holds_the_scaler() {
    let _alone = alone();
    let (exact, _) = run(&Device::cpu(), 3, |t| t).unwrap();
    for low in [DType::BF16, DType::F16] {
        for device in [Device::cpu(), relay::device()] {
            let (report, state) = run(&device, 3, |t| t.amp(low)).unwrap();
            let (loss, wide) = (report.history.epochs[2].loss, exact.history.epochs[2].loss);
            assert!((loss - wide).abs() < 0.02 && loss != wide, "{low}: {loss}, and {wide} in f32");
            assert!(
                state.iter().all(|(n, t)| n.contains("num_batches") || t.dtype() == DType::F32),
                "weights stay f32"
            );
        }
    }
    // A scale far too large at first: steps are left out until it fits, in the checkpoint too.
    let dir = tempfile::tempdir().unwrap();
    let w = Tensor::var("w", Tensor::from([[1.0f32]]));
    let x = Tensor::from([[1.0f32]]);
    let go = |most: u64| {
        Trainer::new(Sgd::new([&w], 0.1))
            .amp(DType::F16)
            .grad_scaler(GradScaler::new().init_scale(2f64.powi(20)))
            .max_steps(most)
            .checkpoints(Checkpoints::open(dir.path()).unwrap(), 100)
            .fit(|_| 0..8, |_| x.linear(&w, None).map(|y| y.sum()))
            .unwrap()
    };
    go(2);
    assert_eq!(w.item::<f32>().unwrap(), 1.0, "2^20 and 2^19 are too much for f16");
    go(8);
    // 2^18, 2^17 and 2^16 are too much as well; 2^15 is not.
    assert!((w.item::<f32>().unwrap() - 0.7).abs() < 1e-5, "{}", w.item::<f32>().unwrap());
}

//! The loop: what it calls, when it stops, what it writes, and what a resumed run remembers.

use gradus_core::{Error, Result, Tensor, manual_seed, plan::plans_made};
use gradus_io::StateDict;
use gradus_optim::*;
use gradus_train::*;
use std::{
    cell::RefCell,
    fs,
    io::Write,
    rc::Rc,
    sync::{Mutex, MutexGuard},
};

/// Random numbers, plans and Ctrl-C belong to the process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

fn weight() -> Tensor {
    Tensor::var("w", Tensor::from([4.0f32]))
}

fn off(w: &Tensor, target: f64) -> Result<Tensor> {
    Ok((w - target).square().sum())
}

/// Writes where the test can read.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Notes what it is told, and may want to stop.
#[derive(Default)]
struct Notes {
    calls: Vec<String>,
    stop_at: Option<u64>,
}

impl Callback for Notes {
    fn on_start(&mut self, run: &Run<'_>) -> Result<()> {
        self.calls.push(format!("start {}", run.step));
        Ok(())
    }
    fn on_step(&mut self, run: &Run<'_>) -> Result<Flow> {
        self.calls.push(format!("{}.{}/{:?}", run.epoch, run.batch, run.batches));
        Ok(if self.stop_at == Some(run.step) { Flow::Stop("enough".into()) } else { Flow::Continue })
    }
    fn on_epoch(&mut self, run: &Run<'_>) -> Result<Flow> {
        self.calls.push(format!("epoch {}", run.epoch));
        Ok(Flow::Continue)
    }
    fn on_end(&mut self, run: &Run<'_>) -> Result<()> {
        self.calls.push(format!("end {}", run.step));
        Ok(())
    }
}

#[test]
fn callbacks_hear_everything_in_order() {
    let _alone = alone();
    let w = weight();
    let mut notes = Notes::default();
    let report =
        Trainer::new(Sgd::new([&w], 0.1)).epochs(2).on(&mut notes).fit(|_| [0.0, 1.0], |t| off(&w, t)).unwrap();
    let want = ["start 0", "0.1/Some(2)", "0.2/Some(2)", "epoch 0", "1.1/Some(2)", "1.2/Some(2)", "epoch 1", "end 4"];
    assert_eq!(notes.calls, want);
    assert_eq!((report.steps, report.stop, report.resumed), (4, Stop::Finished, None));
    assert_eq!(report.history.loss.points().len(), 4);

    let mut notes = Notes { stop_at: Some(3), ..Default::default() };
    let report =
        Trainer::new(Sgd::new([&w], 0.1)).epochs(9).on(&mut notes).fit(|_| [0.0, 1.0], |t| off(&w, t)).unwrap();
    assert_eq!((report.steps, report.stop), (3, Stop::Early("enough".into())));
    assert_eq!(notes.calls.last().unwrap(), "end 3");
}

#[test]
fn it_does_what_the_bare_loop_does_under_one_plan() {
    let _alone = alone();
    let (a, b) = (weight(), weight());
    let mut opt = Adam::new([&a], 0.1);
    for t in [0.5, 1.5, 2.0].into_iter().cycle().take(12) {
        opt.step(&off(&a, t).unwrap().backward().unwrap()).unwrap();
    }
    let mut plans = vec![];
    Trainer::new(Adam::new([&b], 0.1))
        .epochs(4)
        .fit(
            |_| [0.5, 1.5, 2.0],
            |t| {
                plans.push(plans_made());
                off(&b, t)
            },
        )
        .unwrap();
    assert_eq!(a.item::<f32>().unwrap().to_bits(), b.item::<f32>().unwrap().to_bits());
    assert_eq!(plans[1], plans[11], "the first step's plan serves all: {plans:?}");
}

#[test]
fn accumulation_makes_one_step_of_several_batches() {
    let _alone = alone();
    let w = Tensor::var("w", Tensor::from([0.0f32]));
    let mut notes = Notes::default();
    let report = Trainer::new(Sgd::new([&w], 0.5))
        .accumulate(2)
        .on(&mut notes)
        .fit(|_| [1.0, 3.0, 5.0], |t| off(&w, t))
        .unwrap();
    // Mean of 1 and 3, then the one that is left.
    assert_eq!((report.steps, w.item::<f32>().unwrap()), (2, 5.0));
    assert_eq!(notes.calls[1..3], ["0.2/Some(3)", "0.3/Some(3)"]);
}

#[test]
fn early_stopping_and_plateau_watch_a_metric() {
    let _alone = alone();
    let w = weight();
    let mut left = [1.0, 0.8, 0.9, 0.85, 0.8, 0.7].into_iter();
    let mut opt = Sgd::new([&w], 0.1);
    let plateau = ReduceLrOnPlateau::new(PlateauOptions { patience: 0, factor: 0.5, ..Default::default() }).unwrap();
    let mut stop = EarlyStopping::new("val_loss").patience(3);
    let report = Trainer::new(&mut opt)
        .epochs(100)
        .plateau(plateau, "val_loss")
        .validate(|| Ok(vec![("val_loss".into(), left.next().unwrap())]))
        .on(&mut stop)
        .fit(|_| [0.0], |t| off(&w, t))
        .unwrap();
    let Stop::Early(why) = report.stop else { panic!("{:?}", report.stop) };
    assert_eq!(why, "val_loss has not improved on 0.8 for 3 epochs");
    assert_eq!((report.history.epochs.len(), stop.best(), opt.lr()), (5, Some(0.8), 0.1 * 0.125));

    let e = Trainer::new(&mut opt).on(EarlyStopping::new("acc")).fit(|_| [0.0], |t| off(&w, t)).unwrap_err();
    assert!(e.to_string().contains("gives no `acc`"), "{e}");
}

#[test]
fn a_nan_is_traced_to_its_line() {
    let _alone = alone();
    let w = weight();
    let line = line!() + 3;
    let e = Trainer::new(Sgd::new([&w], 1.0))
        .epochs(9)
        .fit(|_| [1.0], |t| Ok((&w - 4.0).log().sum() + off(&w, t)?))
        .unwrap_err()
        .to_string();
    assert!(e.contains("the loss is -inf at step 0 (epoch 0, batch 1)"), "{e}");
    assert!(e.contains("log [1] at") && e.contains("made an infinity from finite inputs"), "{e}");
    assert!(e.contains(&format!("trainer.rs:{line}:")), "{e}");

    // The loss is fine, and its gradient is not: sqrt at 0.
    let w = Tensor::var("w", Tensor::from([0.0f32]));
    let e = Trainer::new(Sgd::new([&w], 1.0))
        .detect_anomaly(true)
        .fit(|_| [1.0], |_| Ok((&w * 0.0).sqrt().sum()))
        .unwrap_err()
        .to_string();
    assert!(e.contains("a gradient is not finite after step 0"), "{e}");
    assert!(e.contains(file!()), "{e}");
    assert_eq!(w.item::<f32>().unwrap(), 0.0, "the weights are from before");

    // What comes as it is: a variable, and data.
    let bad = Tensor::var("bad", Tensor::from([f32::NAN]));
    let c = locate_nan(&[&(&bad + 1.0)]).unwrap().unwrap();
    assert!(c.to_string().starts_with("variable bad [1] from") && c.to_string().ends_with("holds NaN"), "{c}");
    assert!(locate_nan(&[&w.exp()]).unwrap().is_none());
    // Infinities of a mask are no fault while the result is fine, nor while a NaN is sought elsewhere.
    let mask = Tensor::from([f32::NEG_INFINITY, 0.0]);
    let masked = (Tensor::from([1.0f32, 2.0]) + &mask).softmax(0).unwrap();
    assert!(locate_nan(&[&masked]).unwrap().is_none());
    let c = locate_nan(&[&(masked.sum() + (&w - 1.0).sqrt().sum())]).unwrap().unwrap();
    assert_eq!((c.op.as_str(), c.fault, c.cause.is_none()), ("sqrt", Fault::Nan, true));
}

#[test]
fn memory_is_forecast_before_the_first_step() {
    let _alone = alone();
    let w = Tensor::var("w", Tensor::from(vec![1.0f32; 1 << 16]));
    let grads = w.square().sum().backward().unwrap();
    let opt = Adam::new([&w], 0.1);
    let f = forecast_step(&opt, &grads).unwrap();
    // Two moments, the new weights and the gradient, which is held, at least.
    assert!(f.step >= 4 << 18 && f.step < 8 << 18, "{f}");
    let before = gradus_core::live_bytes() as u64;
    let mut opt = opt;
    opt.step(&grads).unwrap();
    let after = gradus_core::live_bytes() as u64;
    assert!(after - before <= f.step, "{before} to {after}, {f}");

    // A step that cannot fit is refused before it runs: 4 TiB of intermediates.
    if available_memory().is_some() {
        let e = Trainer::new(Sgd::new([&w], 0.1))
            .fit(
                |_| [0],
                |_| {
                    let big = w.narrow(0, 0, 1)?.expand([1 << 20, 1 << 20])?;
                    let sum = big.exp().matmul(&big.tanh())?.sum();
                    Ok(sum)
                },
            )
            .unwrap_err()
            .to_string();
        assert!(e.contains("cannot allocate") && e.contains("smaller batches"), "{e}");
    }
}

#[test]
fn logs_curves_and_progress_are_written() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let lines = Shared::default();
    let w = weight();
    let run = |epochs| {
        let mut accuracy = 0.5;
        Trainer::new(Sgd::new([&w], 0.1))
            .epochs(epochs)
            .validate(move || {
                accuracy += 0.1;
                Ok(vec![("accuracy".into(), accuracy), ("val_loss".into(), 1.0 - accuracy)])
            })
            .on(Progress::lines(lines.clone()))
            .on(CsvLog::new(at("log.csv")))
            .on(JsonLog::new(at("log.jsonl")))
            .on(LossCurve::new(at("loss.svg")))
            .on(LossCurve::new(at("loss.png")))
            .on(TensorBoard::new(at("events")))
            .checkpoints(Checkpoints::open(at("run")).unwrap(), 100)
            .fit(|_| [0.0, 1.0], |t| off(&w, t))
            .unwrap()
    };
    run(2);
    // A line that a crash cut in half goes when the run is resumed.
    fs::OpenOptions::new().append(true).open(at("log.csv")).unwrap().write_all(b"2,6,0.1").unwrap();
    let report = run(3);
    assert!(report.resumed.is_some());
    assert_eq!((report.steps, report.history.epochs.len()), (6, 3));

    let csv = fs::read_to_string(at("log.csv")).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!(rows[0], ["epoch", "step", "loss", "lr", "accuracy", "val_loss", "seconds"], "{csv}");
    assert_eq!(rows[1..].iter().map(|r| r[..2].join(":")).collect::<Vec<_>>(), ["0:2", "1:4", "2:6"], "{csv}");
    assert!(rows.iter().all(|r| r.len() == 7), "{csv}");
    let json = fs::read_to_string(at("log.jsonl")).unwrap();
    assert_eq!(json.lines().count(), 3);
    assert!(json.lines().all(|l| l.starts_with("{\"epoch\":") && l.ends_with('}')), "{json}");
    let svg = fs::read_to_string(at("loss.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains(">val_loss<") && svg.matches("<polyline").count() == 2, "{svg}");
    assert!(fs::read(at("loss.png")).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
    assert_eq!(fs::read_dir(at("events")).unwrap().count(), 2);
    let said = String::from_utf8(lines.0.borrow().clone()).unwrap();
    assert!(said.contains("epoch 1/2 batch 1/2: loss 16.0000, "), "{said}");
    assert!(said.contains("epoch 3/3: loss ") && said.contains(", accuracy 0.6000, val_loss 0.4000 ("), "{said}");
}

#[test]
fn interrupted_it_saves_and_goes_on_exactly() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let run = |folder: &str, ask_at: Option<u64>, epochs: u64| {
        manual_seed(3);
        let w = Tensor::var("w", Tensor::from([4.0f32, 5.0, 6.0]));
        let mut steps = 0;
        let report = Trainer::new(Adam::new([&w], 0.1))
            .epochs(epochs)
            .accumulate(2)
            .checkpoints(Checkpoints::open(dir.path().join(folder)).unwrap(), 1000)
            .fit(
                |_| {
                    let order = Tensor::randperm(4).to_vec::<f64>().unwrap();
                    order.into_iter()
                },
                |t| {
                    steps += 1;
                    if ask_at == Some(steps) {
                        interrupt::request();
                    }
                    Ok((&w - t).square().dropout(0.3, true)?.sum())
                },
            )
            .unwrap();
        (w.to_vec::<f32>().unwrap(), report)
    };
    let (whole, report) = run("calm", None, 3);
    assert_eq!((report.steps, report.stop), (6, Stop::Finished));
    for ask_at in 1..12 {
        let folder = format!("wild{ask_at}");
        let (_, report) = run(&folder, Some(ask_at), 3);
        let Stop::Interrupted(Some(path)) = report.stop else { panic!("{ask_at}: {:?}", report.stop) };
        assert!(path.exists());
        let (w, report) = run(&folder, None, 3);
        assert_eq!((report.steps, report.resumed), (6, Some(path)));
        assert_eq!(w, whole, "interrupted in batch {ask_at}");
    }
}

#[test]
fn parts_of_a_model_are_saved_and_a_foreign_state_is_refused() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let w = weight();
    let seen = RefCell::new(0.0f32);
    let run = || {
        let save = || StateDict::from_iter([("w", w.resolve().detach()), ("seen", Tensor::from([*seen.borrow()]))]);
        let load = |state: &StateDict| {
            *seen.borrow_mut() = state.tensor("seen")?.item::<f32>()?;
            w.set(state.tensor("w")?)
        };
        Trainer::new(Sgd::new([&w], 0.1))
            .epochs(2)
            .part("model", FnState::new(save, load))
            .checkpoints(Checkpoints::open(dir.path()).unwrap(), 1)
            .fit(
                |_| [1.0],
                |t| {
                    *seen.borrow_mut() += 1.0;
                    off(&w, t)
                },
            )
    };
    run().unwrap();
    let trained = w.item::<f32>().unwrap();
    w.set(&Tensor::from([0.0f32])).unwrap();
    *seen.borrow_mut() = 0.0;
    assert!(run().unwrap().resumed.is_some());
    assert_eq!((w.item::<f32>().unwrap(), *seen.borrow()), (trained, 2.0));

    let other = Trainer::new(Adam::new([&w], 0.1)).checkpoints(Checkpoints::open(dir.path()).unwrap(), 1);
    let e: Error = other.fit(|_| [1.0], |t| off(&w, t)).unwrap_err();
    assert!(e.to_string().contains("`seen`") || e.to_string().contains("not of adam"), "{e}");
}

#[test]
fn a_compiled_run_is_the_plain_one_to_the_bit() {
    let _alone = alone();
    let run = |compiled: bool| {
        manual_seed(4);
        let w = Tensor::var("w", Tensor::randn([3, 2]));
        let x = Tensor::randn([10, 4, 3]);
        Tensor::eval_all(&[&w, &x]).unwrap();
        let loss = |x: &Tensor| Ok(x.matmul(&w)?.dropout(0.3, true)?.square().mean());
        let mut opt = Adam::new([&w], 0.1);
        let schedule = LrScheduler::new(&mut opt, Schedule::Exponential { gamma: 0.9 }).unwrap();
        let trainer =
            Trainer::new(opt).epochs(2).schedule(schedule, Per::Step).clip_grad_norm(0.5).ema(Ema::new([&w], 0.9));
        let batches = |_| (0..10).map(|i| x.select(0, i));
        let report = if compiled {
            trainer.fit_compiled(|e| batches(e).map(|b| Ok([b?])), |[x]| loss(x))
        } else {
            trainer.fit(batches, |b| loss(&b?))
        };
        (report.unwrap().history.loss.points().to_vec(), w.to_bytes().unwrap())
    };
    assert_eq!(run(true), run(false));
}

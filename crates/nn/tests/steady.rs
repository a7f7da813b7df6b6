//! Loops in which nothing grows: neither nodes nor plans. The counters are process-wide, so these tests take turns.

use gradus_core::{Result, Tensor, live_nodes, no_grad, plan};
use gradus_nn::*;
use gradus_optim::{Adam, Optimizer};
use std::sync::Mutex;

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|e| e.into_inner())
}

#[test]
fn running_statistics_drag_no_graph_behind_them() -> Result<()> {
    let _turn = turn();
    let model = Sequential::from((
        Conv2d::new(1, 4, 3)?,
        BatchNorm2d::new(4),
        Relu,
        Flatten::default(),
        Linear::new(4 * 36, 8),
        BatchNorm1d::new(8).momentum(None),
        Dropout::new(0.2),
        Linear::new(8, 3),
    ));
    let mut opt = Adam::new(&model.parameters(), 1e-3);
    let (x, y) = (Tensor::randn([6, 1, 8, 8]), Tensor::from([0i64, 1, 2, 0, 1, 2]));
    Tensor::eval_all(&[&x, &y])?;
    let mut step = || opt.step(&model.forward(&x)?.cross_entropy(&y)?.backward()?);
    for _ in 0..4 {
        step()?;
    }
    let (nodes, plans) = (live_nodes(), plan::plans_made());
    for _ in 0..50 {
        step()?;
        assert_eq!(live_nodes(), nodes, "no step hangs behind a running mean");
    }
    assert_eq!(plan::plans_made(), plans, "and all run one plan");
    let state = model.state_dict();
    assert_eq!(state.tensor("1.num_batches_tracked")?.item::<i64>()?, 54);
    // In evaluation, and without gradients, nothing grows either.
    model.eval();
    let run = || no_grad(|| model.forward(&x)?.to_vec::<f32>());
    let first = run()?;
    let nodes = live_nodes();
    for _ in 0..10 {
        assert_eq!(run()?, first);
    }
    assert_eq!(live_nodes(), nodes);
    Ok(())
}

#[test]
fn a_decoding_loop_plans_once_and_fills_its_cache() -> Result<()> {
    let _turn = turn();
    no_grad(|| {
        let options = TransformerOptions { dim_feedforward: 16, dropout: 0.0, batch_first: true, ..Default::default() };
        let model = TransformerEncoder::new(8, 2, 2, options)?;
        let mut cache = model.cache(40);
        let token = Tensor::randn([1, 1, 8]);
        token.eval()?;
        let mut made = vec![];
        for _ in 0..40 {
            model.forward_cached(&token, &mut cache)?.to_vec::<f32>()?;
            made.push((plan::plans_made(), live_nodes()));
        }
        assert_eq!(made[3], made[39], "{made:?}");
        let e = model.forward_cached(&token, &mut cache).unwrap_err().to_string();
        assert!(e.contains("KvCache: 1 more positions do not fit: 40 of 40 are taken"), "{e}");
        cache.clear();
        assert!(cache.is_empty());
        model.forward_cached(&token, &mut cache)?.eval()?;
        Ok(())
    })
}

#[test]
fn an_lstm_step_is_one_product_and_one_kernel() -> Result<()> {
    let _turn = turn();
    let lstm = Lstm::new(6, 8)?;
    let launches = |steps: usize| -> Result<usize> {
        let x = Tensor::randn([steps, 3, 6]);
        x.eval()?;
        no_grad(|| Ok(lstm.forward(&x, None)?.1.0.explain()?.launches()))
    };
    let (short, long) = (launches(4)?, launches(12)?);
    // A matrix product for all gates and what comes after it in one kernel, for each step.
    assert!(long - short <= 2 * 8, "{short} launches for 4 steps, {long} for 12");
    Ok(())
}

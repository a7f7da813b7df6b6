//! Loss scaling: growth, backoff, and steps that are left out.

use gradus_core::{DType, Result, Tensor, autocast, plan::plans_made};
use gradus_optim::*;

fn weight() -> Tensor {
    Tensor::var("w", Tensor::from([[1.0f32]]))
}

#[test]
fn a_step_that_overflows_is_left_out_and_the_scale_halved() -> Result<()> {
    let w = weight();
    let (mut opt, mut scaler) = (Adam::new([&w], 0.1), GradScaler::new());
    // The gradient of w is 2, and 2 * 65536 is more than f16 holds.
    let x = Tensor::from([[2.0f32]]);
    let loss = || autocast(DType::F16, || Ok::<_, gradus_core::Error>(x.linear(&w, None)?.sum()));
    let mut stepped = vec![];
    for _ in 0..4 {
        let grads = scaler.scale(&loss()?).backward()?;
        stepped.push(scaler.step(&mut opt, &grads)?);
        scaler.update();
    }
    assert_eq!(stepped, [false, false, true, true]);
    assert_eq!(scaler.get_scale(), 65536.0 / 4.0);
    // As if the steps left out had never been: Adam's first steps have the length of the rate.
    assert!((w.item::<f32>()? - 0.8).abs() < 1e-5, "{}", w.item::<f32>()?);
    Ok(())
}

#[test]
fn it_grows_after_enough_good_steps_without_a_new_plan() -> Result<()> {
    let w = weight();
    let (mut opt, mut scaler) = (Sgd::new([&w], 0.1), GradScaler::new().init_scale(4.0).growth_interval(2));
    let mut plans = vec![];
    for _ in 0..6 {
        let grads = scaler.scale(&w.square().sum()).backward()?;
        assert!(scaler.step(&mut opt, &grads)?);
        scaler.update();
        plans.push(plans_made());
    }
    assert_eq!(scaler.get_scale(), 32.0);
    assert_eq!(plans[1], plans[5], "{plans:?}");
    assert!((w.item::<f32>()? - 0.8f32.powi(6)).abs() < 1e-6);

    // Where it was goes into a checkpoint.
    let mut other = GradScaler::new();
    other.load_state(&scaler.state())?;
    assert_eq!(other.get_scale(), 32.0);
    other.update();
    other.update();
    assert_eq!(other.get_scale(), 64.0);
    Ok(())
}

#[test]
fn gradients_are_clipped_in_their_own_measure() -> Result<()> {
    let w = weight();
    let (mut opt, mut scaler) = (Sgd::new([&w], 1.0), GradScaler::new());
    let grads = scaler.scale(&(&w * 3.0).sum()).backward()?;
    let grads = scaler.unscale(&grads)?;
    assert!(scaler.unscale(&grads).is_err(), "twice is a mistake");
    let (clipped, norm) = clip_grad_norm(&grads, 0.5, 2.0)?;
    assert!(scaler.step(&mut opt, &clipped)?);
    assert_eq!(norm.item::<f32>()?, 3.0);
    assert!((w.item::<f32>()? - 0.5).abs() < 1e-5);
    // An infinity is found although clipping by value would hide it.
    scaler.update();
    let grads = scaler.scale(&(&w * f64::INFINITY).sum()).backward()?;
    let unscaled = scaler.unscale(&grads)?;
    assert!(!scaler.step(&mut opt, &clip_grad_value(&unscaled, 1.0)?)?);
    Ok(())
}

//! A physics-informed fit: a network learns a differential equation without seeing its solution. The loss has second
//! derivatives in it, and is differentiated once more to learn.
//!
//!     u'' + 0.4 u' + u = 0,   u(0) = 1,   u'(0) = 0        (a pendulum that slows down)
//!
//! cargo run --release --example 07_pinn

use gradus::{grad::grad, prelude::*};

const DAMPING: f64 = 0.2;
const END: f64 = 6.0;

fn main() -> Result<()> {
    println!("largest distance from the exact solution: {:.5}", learn(3000)?);
    Ok(())
}

fn exact(t: f64) -> f64 {
    let w = (1.0 - DAMPING * DAMPING).sqrt();
    (-DAMPING * t).exp() * ((w * t).cos() + DAMPING / w * (w * t).sin())
}

/// Learns for so many steps; how far the network is from the exact solution at most.
pub fn learn(steps: usize) -> Result<f64> {
    manual_seed(3);
    let net = nn::Sequential::from((
        nn::Linear::new(1, 32),
        nn::Tanh,
        nn::Linear::new(32, 32),
        nn::Tanh,
        nn::Linear::new(32, 1),
    ));
    // A form that fits the start by itself: u(0) = 1 and u'(0) = 0, whatever the network says.
    let u_of = |t: &Tensor| -> Result<Tensor> { Ok(t.square() / (t.square() + 1.0) * net.forward(&(t / END))? + 1.0) };

    // Times at which the equation must hold.
    let t = Tensor::linspace(0.0, END, 64, DType::F32).unsqueeze(1)?.requires_grad_();
    let mut opt = Adam::new(&net.parameters(), 1e-2);
    let mut schedule = LrScheduler::new(&mut opt, Schedule::Cosine { t_max: steps as u64, eta_min: 0.0 })?;
    for step in 0..steps {
        let u = u_of(&t)?;
        let du = grad(&u.sum(), &[&t])?.remove(0); // each u depends on its own t alone, so the sum gives all u'
        let ddu = grad(&du.sum(), &[&t])?.remove(0);
        let residual = ddu + &du * (2.0 * DAMPING) + &u;
        let loss = residual.square().mean();
        opt.step(&loss.backward()?)?; // the gradient of second derivatives
        schedule.step(&mut opt)?;
        if step % 500 == 0 {
            println!("step {step:4}: mean square of u'' + 0.4 u' + u = {:.6}", loss.item::<f64>()?);
        }
    }

    let u = no_grad(|| u_of(&t))?.to_vec::<f64>()?;
    let times = t.to_vec::<f64>()?;
    println!("\n     t   network     exact");
    for (t, u) in times.iter().zip(&u).step_by(9) {
        println!("{t:6.2}  {u:8.4}  {:8.4}", exact(*t));
    }
    Ok(times.iter().zip(&u).map(|(&t, &u)| (u - exact(t)).abs()).fold(0.0, f64::max))
}

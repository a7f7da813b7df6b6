//! The first network of every course: 1-64-1 learns a sine. First with the chain rule written out on whole arrays, as a
//! NumPy course does it; then the same with a layer for each line.
//!
//! cargo run --release --example 03_sine

use gradus::prelude::*;

fn main() -> Result<()> {
    let (by_hand, by_layers) = (by_hand(3000)?, with_layers(1500)?);
    println!("mean squared error: by hand {by_hand:.6}, with layers and Adam {by_layers:.6}");
    Ok(())
}

/// 256 points of a sine, `[256, 1]` each.
fn points() -> Result<(Tensor, Tensor)> {
    let x = Tensor::linspace(-3.0, 3.0, 256, DType::F32).unsqueeze(1)?;
    let y = x.sin();
    Ok((x, y))
}

/// Forward and backward pass by hand. No variable and no `backward` in sight: these are plain arrays.
pub fn by_hand(steps: usize) -> Result<f64> {
    manual_seed(1);
    let (x, y) = points()?;
    let n = x.numel() as f64;
    let (mut w1, mut b1) = (Tensor::randn([1, 64]), Tensor::randn([64]));
    let (mut w2, mut b2) = (Tensor::randn([64, 1]) * 0.1, Tensor::zeros([1], DType::F32));
    let rate = 0.02; // much more, and the steps overshoot further each time
    let mut last = f64::NAN;
    for step in 0..steps {
        // Forward.
        let h = (x.matmul(&w1)? + &b1).tanh(); //       [256, 64]
        let out = h.matmul(&w2)? + &b2; //              [256, 1]
        let loss = (&out - &y).square().mean();
        // Backward: each line is the derivative of the loss with respect to what its name says.
        let d_out = (&out - &y) * (2.0 / n); //         of the mean of squares
        let d_w2 = h.t()?.matmul(&d_out)?; //           a product hands each factor the other, transposed
        let d_b2 = d_out.sum_dim(0, false)?; //         what was broadcast is summed
        let d_h = d_out.matmul(&w2.t()?)?;
        let d_a = d_h * (1.0 - h.square()); //          tanh' = 1 - tanh^2
        let d_w1 = x.t()?.matmul(&d_a)?;
        let d_b1 = d_a.sum_dim(0, false)?;
        if step == 0 {
            compare(&[&w1, &b1, &w2, &b2], &[&d_w1, &d_b1, &d_w2, &d_b2])?;
        }
        // One step downhill.
        (w1, b1) = (w1 - d_w1 * rate, b1 - d_b1 * rate);
        (w2, b2) = (w2 - d_w2 * rate, b2 - d_b2 * rate);
        // All of the step is one run: nothing has been computed before this line.
        Tensor::eval_all(&[&w1, &b1, &w2, &b2, &loss])?;
        last = loss.item()?;
        if step % 500 == 0 {
            println!("by hand, step {step:4}: {last:.6}");
        }
    }
    Ok(last)
}

/// What `backward` gives for the same network: the same numbers.
fn compare(weights: &[&Tensor; 4], by_hand: &[&Tensor; 4]) -> Result<()> {
    let (x, y) = points()?;
    let [w1, b1, w2, b2] = weights.map(|w| w.requires_grad_());
    let out = (x.matmul(&w1)? + &b1).tanh().matmul(&w2)? + &b2;
    let grads = (out - &y).square().mean().backward()?;
    for (w, hand) in [w1, b1, w2, b2].iter().zip(by_hand) {
        let off = (grads.wrt(w)? - *hand).abs().max()?.item::<f64>()?;
        println!("gradient {} by hand and by backward(): {off:.1e} apart", hand.shape());
    }
    Ok(())
}

/// The same network as layers. `Linear` makes and names the weights, `backward` does the middle part, Adam steps.
pub fn with_layers(steps: usize) -> Result<f64> {
    manual_seed(1);
    let (x, y) = points()?;
    let model = nn::Sequential::from((nn::Linear::new(1, 64), nn::Tanh, nn::Linear::new(64, 1)));
    let mut opt = Adam::new(&model.parameters(), 1e-2);
    println!("{}", model.summary());
    let mut last = f64::NAN;
    for step in 0..steps {
        let loss = (model.forward(&x)? - &y).square().mean();
        opt.step(&loss.backward()?)?;
        last = loss.item()?;
        if step % 250 == 0 {
            println!("with layers, step {step:4}: {last:.6}");
        }
    }
    Ok(last)
}

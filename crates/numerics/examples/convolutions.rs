//! Times of convolutions: `cargo run --release -p gradus-numerics --example convolutions FILE [threads] [filter]`.
//!
//! A line of FILE is a case: name, images, channels, height, width, outputs, kernel's height and
//! width, stride, groups, padding of height and width. Printed are the milliseconds (the least
//! of many runs) of the convolution, the input's and the weight's gradient.

mod common;

use common::random;
use gradus_numerics::conv::{ConvParams, conv_forward, conv_input_grad, conv_weight_grad};
use std::time::Instant;

fn time(mut f: impl FnMut()) -> f64 {
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < 0.03 {
        f();
    }
    let (mut times, start) = (vec![], Instant::now());
    while times.len() < 5 || (times.len() < 400 && start.elapsed().as_secs_f64() < 0.15) {
        let t = Instant::now();
        f();
        times.push(t.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    times[0]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let file = args.get(1).ok_or("which file has the cases?")?;
    let threads = args.get(2).and_then(|a| a.parse().ok()).unwrap_or(2);
    let filter = args.get(3).map_or("", String::as_str);
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    for line in std::fs::read_to_string(file)?.lines() {
        let (name, sizes) = line.split_once(' ').ok_or("a case has a name and sizes")?;
        let sizes: Vec<usize> = sizes.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [n, c, h, w, o, kh, kw, s, groups, ph, pw] = sizes[..] else { return Err("eleven sizes a case".into()) };
        if !name.contains(filter) {
            continue;
        }
        let stride = [1, if h > 1 { s } else { 1 }, s];
        let p = ConvParams { stride, padding: [(0, 0), (ph, ph), (pw, pw)], groups, ..ConvParams::default() };
        let (xs, ws) = ([n, c, 1, h, w], [o, c / groups, 1, kh, kw]);
        let [_, oh, ow] = p.output_size([1, h, w], [1, kh, kw]).ok_or("no output")?;
        let (x, weight, grad) = (random(n * c * h * w, 1), random(ws.iter().product(), 2), random(n * o * oh * ow, 3));
        let (mut y, mut dx, mut dw) = (grad.clone(), x.clone(), weight.clone());
        let forward = time(|| conv_forward(&x, xs, &weight, ws, &p, &mut y));
        let input = time(|| conv_input_grad(&grad, &weight, ws, xs, &p, &mut dx));
        let back = time(|| conv_weight_grad(&x, xs, &grad, ws, &p, &mut dw));
        println!("{name:12} {forward:9.4} {input:9.4} {back:9.4}");
    }
    Ok(())
}

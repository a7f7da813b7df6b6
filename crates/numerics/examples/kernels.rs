//! Times of the kernels: `cargo run --release -p gradus-numerics --example kernels [threads] [name]`.
//!
//! Prints the least of many runs, in milliseconds, and GFLOP/s where that says something.

mod common;

use common::random;
use gradus_numerics::attention::{Attention, Rows, Saved, attention, attention_grad};
use gradus_numerics::conv::{ConvParams, conv_forward, conv_input_grad, conv_weight_grad};
use gradus_numerics::gemm::{Dims, Layout, Operand, gemm, gemm_fused};
use gradus_numerics::pool::{Pool, Window, max_pool, max_pool_grad};
use gradus_numerics::scatter::{Negative, select_rows};
use gradus_numerics::tasks::for_tasks;
use gradus_numerics::transpose::Transposition;
use gradus_numerics::{Activation, Epilogue, Lanes};
use std::time::Instant;

/// Seconds this process has worked: what others do on the machine does not count.
fn work_time() -> f64 {
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanos: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, t: *mut Timespec) -> i32;
    }
    let mut t = Timespec { seconds: 0, nanos: 0 };
    // SAFETY: the structure is what Linux fills in for CLOCK_PROCESS_CPUTIME_ID.
    unsafe { clock_gettime(2, &mut t) };
    t.seconds as f64 + t.nanos as f64 * 1e-9
}

/// The least time of a call, in milliseconds: of the process' own work on one thread, of the
/// clock on several.
fn time(mut f: impl FnMut()) -> f64 {
    f();
    if rayon::current_num_threads() == 1 {
        let (start, mut best, mut runs) = (work_time(), f64::INFINITY, 0);
        while runs < 5 || (runs < 400 && work_time() - start < 0.4) {
            let t = work_time();
            f();
            best = best.min((work_time() - t) * 1e3);
            runs += 1;
        }
        return best;
    }
    let (start, mut best, mut runs) = (Instant::now(), f64::INFINITY, 0);
    while runs < 5 || (runs < 400 && start.elapsed().as_secs_f64() < 0.6) {
        let t = Instant::now();
        f();
        best = best.min(t.elapsed().as_secs_f64() * 1e3);
        runs += 1;
    }
    best
}

struct Case {
    name: &'static str,
    x: [usize; 4],
    o: usize,
    kernel: usize,
    stride: usize,
    groups: usize,
}

fn convolutions(filter: &str) {
    let c = |name, x, o, kernel, stride| Case { name, x, o, kernel, stride, groups: 1 };
    let cases = [
        c("conv3x3", [16, 64, 56, 56], 64, 3, 1),
        c("conv1x1", [16, 256, 28, 28], 64, 1, 1),
        c("cnn1", [64, 1, 28, 28], 32, 3, 1),
        c("cnn2", [64, 32, 14, 14], 64, 3, 1),
        c("stem", [32, 3, 32, 32], 64, 3, 1),
        c("r64", [32, 64, 32, 32], 64, 3, 1),
        c("r128s2", [32, 64, 32, 32], 128, 3, 2),
        c("r128", [32, 128, 16, 16], 128, 3, 1),
        c("r256s2", [32, 128, 16, 16], 256, 3, 2),
        c("r256", [32, 256, 8, 8], 256, 3, 1),
        c("r512s2", [32, 256, 8, 8], 512, 3, 2),
        c("r512", [32, 512, 4, 4], 512, 3, 1),
        c("d128", [32, 64, 32, 32], 128, 1, 2),
        c("d512", [32, 256, 8, 8], 512, 1, 2),
        c("b1_stem", [1, 3, 32, 32], 64, 3, 1),
        c("b1_64", [1, 64, 32, 32], 64, 3, 1),
        c("b1_128s2", [1, 64, 32, 32], 128, 3, 2),
        c("b1_128", [1, 128, 16, 16], 128, 3, 1),
        c("b1_256s2", [1, 128, 16, 16], 256, 3, 2),
        c("b1_256", [1, 256, 8, 8], 256, 3, 1),
        c("b1_512s2", [1, 256, 8, 8], 512, 3, 2),
        c("b1_512", [1, 512, 4, 4], 512, 3, 1),
        c("b1_d512", [1, 256, 8, 8], 512, 1, 2),
        c("k5", [8, 32, 30, 30], 48, 5, 1),
        c("k7s2", [4, 3, 112, 112], 64, 7, 2),
        Case { name: "depthwise", x: [8, 128, 28, 28], o: 128, kernel: 3, stride: 1, groups: 128 },
        Case { name: "grouped", x: [8, 128, 28, 28], o: 128, kernel: 3, stride: 1, groups: 4 },
    ];
    for Case { name, x, o, kernel, stride, groups } in cases {
        if !name.contains(filter) {
            continue;
        }
        let pad = kernel / 2;
        let p = ConvParams {
            stride: [1, stride, stride],
            padding: [(0, 0), (pad, pad), (pad, pad)],
            groups,
            ..ConvParams::default()
        };
        let xs = [x[0], x[1], 1, x[2], x[3]];
        let ws = [o, x[1] / groups, 1, kernel, kernel];
        let Some([_, h, w]) = p.output_size([1, x[2], x[3]], [1, kernel, kernel]) else { continue };
        let input = random(xs.iter().product(), 1);
        let weight = random(ws.iter().product(), 2);
        let grad = random(x[0] * o * h * w, 3);
        let (mut y, mut dx, mut dw) = (grad.clone(), input.clone(), weight.clone());
        let flops = 2.0 * (grad.len() * x[1] / groups * kernel * kernel) as f64 * 1e-6;
        let f = time(|| conv_forward(&input, xs, &weight, ws, &p, &mut y));
        let i = time(|| conv_input_grad(&grad, &weight, ws, xs, &p, &mut dx));
        let g = time(|| conv_weight_grad(&input, xs, &grad, ws, &p, &mut dw));
        println!(
            "{name:10} forward {f:8.3} ({:4.0})  input {i:8.3} ({:4.0})  weight {g:8.3} ({:4.0})",
            flops / f,
            flops / i,
            flops / g
        );
    }
}

fn attentions(filter: &str) {
    for (b, t, d) in [(48, 64, 32), (24, 256, 64), (6, 256, 64), (8, 1024, 64)] {
        for causal in [true, false] {
            let name = format!("attention {b} {t} {d} {causal}");
            if !name.contains(filter) {
                continue;
            }
            let a = Attention { batch: b, queries: t, keys: t, width: d, value: d, scale: 0.1, causal, heads: 1 };
            let n = b * t * d;
            let data: Vec<Vec<f32>> = (0..4).map(|i| random(n, i)).collect();
            let starts: Vec<usize> = (0..b).map(|i| i * t * d).collect();
            let rows = |i: usize| Rows { data: &data[i], starts: &starts, row: d };
            let (mut out, mut sums) = (vec![0.0; n], vec![0.0; b * t]);
            let f = time(|| attention(&a, rows(0), rows(1), rows(2), None, &mut out, &mut sums));
            let saved = Saved { q: rows(0), k: rows(1), v: rows(2), mask: None, out: &out, sums: &sums };
            let (mut dq, mut dk, mut dv) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
            let g = time(|| attention_grad(&a, &saved, rows(3), &mut dq, &mut dk, &mut dv));
            println!("{name:30} forward {f:8.3}  gradients {g:8.3}");
        }
    }
}

fn pools(filter: &str) {
    for (planes, n) in [(16 * 64, 56), (64 * 32, 28), (64 * 64, 14)] {
        let name = format!("maxpool {planes} {n}");
        if !name.contains(filter) {
            continue;
        }
        let w = Window { n, size: 2, stride: 2, padding: 0, dilation: 1, out: n / 2 };
        let p = Pool { windows: [w.into(), w.into()], inner: 1 };
        let x = random(planes * n * n, 1);
        let mut y = random(planes * n * n / 4, 2);
        let g = y.clone();
        let mut dx = x.clone();
        let f = time(|| max_pool(&p, &x, &mut y));
        let b = time(|| max_pool_grad(&p, &x, &g, &mut dx));
        println!("{name:30} forward {f:8.3}  gradient {b:8.3}");
    }
}

fn products(filter: &str) {
    let large = random(4096 * 4096, 1);
    for m in [1, 2, 4, 8, 16, 32, 64, 256] {
        let name = format!("thin {m}");
        if !name.contains(filter) {
            continue;
        }
        let x = random(m * 4096, 2);
        let mut y = vec![0.0; m * 4096];
        let d = Dims::new(m, 4096, 4096);
        let row = Layout::row_major(4096);
        let (x, w) = (Operand::new(&x[..], row), Operand::new(&large[..], row));
        let plain = time(|| gemm(d, 1.0, x, w, 0.0, &mut y, row));
        let wt = Operand::new(w.data, row.transposed());
        let turned = time(|| gemm(d, 1.0, x, wt, 0.0, &mut y, row));
        println!("{name:30} x W {plain:8.3}  x W^T {turned:8.3}");
    }
    for (m, k, n) in [
        (64, 784, 128),
        (256, 784, 1024),
        (256, 1024, 1024),
        (768, 128, 512),
        (1024, 384, 1536),
        (32, 128, 512),
        (256, 512, 512),
        (64, 1024, 1024),
        (1024, 1024, 1024),
    ] {
        let name = format!("gemm {m} {k} {n}");
        if !name.contains(filter) {
            continue;
        }
        let (a, b, bias) = (random(m * k, 1), random(k * n, 2), random(n, 3));
        let mut c = vec![0.0; m * n];
        let d = Dims::new(m, n, k);
        let (a, b) = (Operand::new(&a[..], Layout::row_major(k)), Operand::new(&b[..], Layout::row_major(n)));
        let plain = time(|| gemm(d, 1.0, a, b, 0.0, &mut c, Layout::row_major(n)));
        let e = Epilogue { bias: Some(&bias), activation: Activation::Relu, ..Epilogue::default() };
        let fused = time(|| gemm_fused(d, a, b, &mut c, &e));
        let flops = 2e-6 * (m * k * n) as f64;
        let bt = Operand::new(b.data, Layout::row_major(k).transposed());
        let turned = time(|| gemm(d, 1.0, a, bt, 0.0, &mut c, Layout::row_major(n)));
        let at = Operand::new(a.data, Layout::row_major(m).transposed());
        let left = time(|| gemm(d, 1.0, at, b, 0.0, &mut c, Layout::row_major(n)));
        println!(
            "{name:20} plain {plain:8.3} ({:4.0})  with epilogue {fused:8.3} ({:4.0})  B^T {turned:8.3} ({:4.0})  A^T {left:8.3} ({:4.0})",
            flops / plain,
            flops / fused,
            flops / turned,
            flops / left
        );
    }
}

fn tables(filter: &str) {
    if !"embedding".contains(filter) {
        return;
    }
    let (rows, width, n) = (50257, 768, 8192);
    let table = random(rows * width, 1);
    let index: Vec<i64> = (0..n).map(|i: i64| i * 7919 % rows as i64).collect();
    let mut out = vec![0.0; index.len() * width];
    let l = Lanes { outer: 1, n: rows, inner: width };
    let f = time(|| select_rows(l, &table, &index, &mut out, Negative::Reject).unwrap_or_default());
    println!("{:30} forward {f:8.3}", "embedding");
}

/// Memory as the engine's allocator gives it: aligned, on huge pages where there are some. It stays
/// for the length of the program.
fn buffer(n: usize) -> &'static mut [f32] {
    unsafe extern "C" {
        fn madvise(addr: *mut u8, len: usize, advice: i32) -> i32;
    }
    let bytes = (4 * n).next_multiple_of(2 << 20);
    let Ok(layout) = std::alloc::Layout::from_size_align(bytes, 2 << 20) else { return &mut [] };
    // SAFETY: the size is not zero; the advice changes no content; zeros are numbers.
    unsafe {
        let p = std::alloc::alloc(layout);
        madvise(p, bytes, 14);
        p.write_bytes(0, bytes);
        std::slice::from_raw_parts_mut(p.cast(), n)
    }
}

fn copies(filter: &str) {
    for (planes, n, m) in [(1, 4096, 4096), (1, 1000, 3000), (64, 64, 784), (96, 64, 128)] {
        let name = format!("transpose {planes} {n} {m}");
        if !name.contains(filter) {
            continue;
        }
        let (x, y) = (buffer(planes * n * m), buffer(planes * n * m));
        x.copy_from_slice(&random(x.len(), 1));
        let out = y.as_mut_ptr() as usize;
        for stream in [false, true] {
            let f = time(|| {
                let strips = n.div_ceil(64);
                for_tasks(planes * strips, true, |t| {
                    let (plane, c) = (t / strips * n * m, t % strips * 64);
                    let t = Transposition { rows: m, columns: 64.min(n - c), from: m as isize, to: n as isize };
                    // SAFETY: tasks write different columns of `y`, which has this size.
                    unsafe { t.run(x.as_ptr().add(plane + c * m), (out as *mut f32).add(plane + c), stream) };
                });
            });
            println!("{name:30} past the caches {stream:5} {f:8.3}");
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let threads = args.get(1).and_then(|a| a.parse().ok()).unwrap_or(1);
    let filter = args.get(2).map_or("", String::as_str);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    match pool {
        Ok(pool) => pool.install(|| {
            convolutions(filter);
            attentions(filter);
            pools(filter);
            products(filter);
            tables(filter);
            copies(filter);
        }),
        Err(e) => eprintln!("{e}"),
    }
}

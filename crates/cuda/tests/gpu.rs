//! On a GPU, against the CPU. Where there is none, every test says that it skips, and why.

use gradus_core::{ConvOptions, DType, Device, Result, Tensor, manual_seed};
use gradus_cuda::{CudaDevice, graph_stats, memory_stats};
use gradus_optim::{Adam, Optimizer};

/// The first GPU, or a line that says why there is none.
fn gpu() -> Option<Device> {
    match Device::cuda(0) {
        Ok(d) => Some(d),
        Err(e) => {
            println!("skipped: {e}");
            None
        }
    }
}

/// `f` on both devices, within `tolerance` of the largest number.
fn same(what: &str, inputs: &[&Tensor], tolerance: f64, f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let Some(gpu) = gpu() else { return };
    let there: Vec<Tensor> = inputs.iter().map(|t| t.to(&gpu)).collect();
    let here: Vec<Tensor> = inputs.iter().map(|&t| t.clone()).collect();
    let (want, got) = (f(&here).unwrap(), f(&there).unwrap());
    assert_eq!((want.shape(), want.dtype()), (got.shape(), got.dtype()), "{what}");
    let (want, got) = (want.to_vec::<f64>().unwrap(), got.to_vec::<f64>().unwrap());
    let top = want.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    for (i, (w, g)) in want.iter().zip(&got).enumerate() {
        assert!((w - g).abs() <= tolerance * top, "{what}: element {i}: {g}, not {w}");
    }
}

#[test]
fn what_is_missing_is_named() {
    match gradus_cuda::devices() {
        Ok(all) => println!("{all:?}"),
        Err(e) => assert!(e.to_string().contains("driver") || e.to_string().contains("cuInit"), "{e}"),
    }
}

#[test]
fn sums_at_indices_are_the_cpus_to_the_bit() {
    for (outer, rows, n, inner) in [(6, 16, 36, 1), (3, 5, 7, 4), (1, 65, 1024, 384), (2, 3, 16, 1), (6, 17, 37, 2)] {
        let (base, src) = (Tensor::randn([outer, rows, inner]), Tensor::randn([outer, n, inner]));
        let index: Vec<i64> = (0..outer * n * inner).map(|i| ((i * 7919 + 13) % rows) as i64).collect();
        let index = Tensor::from_slice(&index, [outer, n, inner]).unwrap();
        same("scatter_add", &[&base, &index, &src], 0.0, |x| x[0].scatter_add(1, &x[1], &x[2]));
    }
}

#[test]
fn products_in_every_layout() {
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F64, 1e-12), (DType::F16, 2e-3), (DType::BF16, 1e-2)] {
        let t = |shape: &[usize]| Tensor::randn(shape).to_dtype(dtype);
        let (a, b) = (t(&[40, 24]), t(&[24, 56]));
        same("plain", &[&a, &b], tolerance, |x| x[0].matmul(&x[1]));
        let (at, bt) = (t(&[24, 40]), t(&[56, 24]));
        same("transposed", &[&at, &bt], tolerance, |x| x[0].t()?.matmul(&x[1].t()?));
        same("every second", &[&t(&[40, 48]), &b], tolerance, |x| x[0].slice(1, None, None, 2)?.matmul(&x[1]));
        let (p, q) = (t(&[3, 1, 8, 5]), t(&[1, 4, 5, 6]));
        same("batches against each other", &[&p, &q], tolerance, |x| x[0].matmul(&x[1]));
        same("heads", &[&t(&[2, 7, 3, 8])], tolerance, |x| {
            let h = x[0].transpose(1, 2)?;
            h.matmul(&h.transpose(-2, -1)?)
        });
        same("nothing to sum", &[&t(&[3, 0]), &t(&[0, 4])], 0.0, |x| x[0].matmul(&x[1]));
    }
    let i = Tensor::from([[1i64, 2], [3, 4]]);
    same("integers", &[&i], 0.0, |x| x[0].matmul(&x[0]));
}

#[test]
fn convolutions_and_their_gradients() {
    let (x, w) = (Tensor::randn([2, 6, 9, 11]), Tensor::randn([8, 3, 3, 3]));
    let options = ConvOptions { stride: 2.into(), padding: 1.into(), groups: 2, ..Default::default() };
    same("forward", &[&x, &w], 1e-5, |t| t[0].conv2d(&t[1], None, options.clone()));
    for k in [0, 1] {
        same("gradient", &[&x, &w], 1e-5, |t| {
            let t: Vec<Tensor> = t.iter().map(|t| t.requires_grad_()).collect();
            t[0].conv2d(&t[1], None, options.clone())?.square().sum().backward()?.wrt(&t[k])
        });
    }
}

#[test]
fn long_rows_of_several_passes() {
    for (dtype, tolerance) in [(DType::BF16, 1e-2), (DType::F32, 1e-5)] {
        // Rows that registers hold, that shared memory holds twice, that it does not, and odd ones.
        for cols in [8192, 16_400, 20_001, 50_257, 50_304, 60_000] {
            let x = (Tensor::randn([600, cols]) * 3.0).to_dtype(dtype);
            same(&format!("softmax of {cols}"), &[&x], tolerance, |t| t[0].softmax(1));
            let g = Tensor::randn([600, cols]).to_dtype(dtype);
            same(&format!("gradient over {cols}"), &[&x, &g], tolerance, |t| {
                let y = t[0].to_dtype(DType::F32).softmax(1)?;
                let g = t[1].to_dtype(DType::F32);
                Ok(((&g - (&g * &y).sum_dim(1, true)?) * &y * 1e3).to_dtype(dtype))
            });
        }
    }
}

#[test]
fn functions_of_16_bits_at_the_ends_of_their_range() {
    let Some(gpu) = gpu() else { return };
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let x = [0.0, -0.0, 1.0, -3.0, 1e-38, 3e-39, 1e38, -3e38, 88.0, -87.0, 200.0, -200.0, inf, -inf, nan];
    let n = x.len();
    let a = Tensor::from_slice(&x, [n, 1]).unwrap().to_dtype(DType::BF16);
    let f = |d: &Device| -> Vec<Vec<f32>> {
        let a = a.to(d);
        let b = a.reshape([1, n]).unwrap();
        let all = [&a / &b, a.sigmoid() + &b * 0.0, a.exp() + &b * 0.0, a.maximum(&b).unwrap()];
        all.iter().map(|t| t.to_vec::<f32>().unwrap()).collect()
    };
    for (op, (want, got)) in f(&Device::cpu()).iter().zip(&f(&gpu)).enumerate() {
        for (i, (w, g)) in want.iter().zip(got).enumerate() {
            let same = w == g || w.is_nan() && g.is_nan() || (w - g).abs() <= 0.01 * w.abs() + 2e-38;
            assert!(same, "{op} of {} and {}: {g}, not {w}", x[i / n], x[i % n]);
        }
    }
}

#[test]
fn an_index_out_of_range_is_found_when_something_is_read() {
    let Some(gpu) = gpu() else { return };
    let table = Tensor::randn([5, 3]).to(&gpu);
    let bad = table.embedding(&Tensor::from([1i64, 5]).to(&gpu)).unwrap();
    assert!(bad.to_vec::<f32>().unwrap_err().to_string().contains("out of range"));
    // And it is over then.
    assert_eq!(table.sum_dim(1, false).unwrap().to_vec::<f32>().unwrap().len(), 5);
}

#[test]
fn random_numbers_are_the_cpus() {
    let Some(gpu) = gpu() else { return };
    let like = Tensor::zeros([1000], DType::F32);
    manual_seed(7);
    let want = like.rand_like().unwrap().to_vec::<f32>().unwrap();
    manual_seed(7);
    let got = like.to(&gpu).rand_like().unwrap().to_vec::<f32>().unwrap();
    assert_eq!(want, got);
}

/// Losses of a small network under Adam.
fn train(device: Device, steps: usize, mut after: impl FnMut(usize)) -> Vec<f32> {
    manual_seed(3);
    let var = |shape: &[usize]| (Tensor::randn(shape) * 0.3).to(&device).requires_grad_();
    let (w1, b1, w2) = (var(&[32, 8]), var(&[32]), var(&[1, 32]));
    let (x, y) = (Tensor::randn([64, 8]).to(&device), Tensor::randn([64, 1]).to(&device));
    let mut adam = Adam::new([&w1, &b1, &w2], 1e-2);
    let mut out = vec![];
    for step in 0..steps {
        let h = x.linear(&w1, Some(&b1)).unwrap().tanh().linear(&w2, None).unwrap();
        let loss = (h - &y).square().mean();
        adam.step(&loss.backward().unwrap()).unwrap();
        out.push(loss.item::<f32>().unwrap());
        after(step);
    }
    out
}

#[test]
fn training_replays_and_its_memory_is_flat() {
    let Some(gpu) = gpu() else { return };
    let before = graph_stats(&gpu).unwrap();
    let mut used = vec![];
    let got = train(gpu, 60, |_| used.push(memory_stats(&gpu).unwrap().held));
    let want = train(Device::cpu(), 60, |_| {});
    for (i, (w, g)) in want.iter().zip(&got).enumerate() {
        assert!((w - g).abs() < 1e-3 * w.abs().max(0.1), "step {i}: {g}, not {w}");
    }
    let after = graph_stats(&gpu).unwrap();
    println!("{before:?} {after:?}");
    assert!(after.hits > before.hits + 40 && after.failed == 0, "{before:?} {after:?}");
    assert_eq!(used[20], used[59]);
}

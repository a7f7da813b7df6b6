//! 16-bit convolutions and mixed precision on a GPU, against the CPU; without a GPU they say so and pass.

use gradus_core::{
    BatchNormOptions, ConvOptions, ConvTransposeOptions, DType, Device, Result, Tensor, autocast, grad, manual_seed,
};
use gradus_cuda::CudaDevice;

fn gpu() -> Option<Device> {
    match Device::cuda(0) {
        Ok(d) => Some(d),
        Err(e) => {
            eprintln!("skipped, no GPU: {e}");
            None
        }
    }
}

fn apart(a: &Tensor, b: &Tensor) -> f64 {
    let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
    let most = b.iter().fold(1e-30f64, |m, x| m.max(x.abs()));
    a.iter().zip(&b).fold(0f64, |m, (x, y)| m.max((x - y).abs())) / most
}

fn options(stride: usize, padding: usize, groups: usize) -> ConvOptions {
    ConvOptions { stride: stride.into(), padding: padding.into(), groups, ..Default::default() }
}

#[test]
fn convolutions_of_16_bits() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    manual_seed(1);
    for low in [DType::BF16, DType::F16] {
        let unit = if low == DType::BF16 { 1.0 / 256.0 } else { 1.0 / 2048.0 };
        for (x, w, o) in [
            ([4, 16, 12, 10], [24, 16, 3, 3], options(1, 1, 1)),
            ([3, 3, 9, 9], [8, 3, 3, 3], options(2, 1, 1)),
            ([2, 8, 7, 6], [5, 8, 1, 1], options(2, 0, 1)),
            ([2, 8, 9, 9], [8, 4, 3, 3], options(1, 1, 2)),
        ] {
            let (x, w) = (Tensor::randn(x).to_dtype(low), Tensor::randn(w).to_dtype(low));
            let run = |d: &Device, dtype: DType| -> Result<Vec<Tensor>> {
                let (x, w) = (x.to_dtype(dtype).to(d).requires_grad_(), w.to_dtype(dtype).to(d).requires_grad_());
                let y = x.conv2d(&w, None, o.clone())?;
                manual_seed(9);
                let g = Tensor::randn(y.shape().clone()).to_dtype(low).to_dtype(dtype).to(d);
                let grads = grad::grad_of(&[(&y, &g)], &[&x, &w])?;
                Ok(grads.into_iter().flatten().chain([y]).collect())
            };
            let (wide, there) = (run(&Device::cpu(), DType::F32)?, run(&gpu, low)?);
            for (i, (t, e)) in there.iter().zip(&wide).enumerate() {
                assert_eq!(t.dtype(), low);
                assert!(apart(t, e) < 2.0 * unit, "{low} {} {i}: {}", x.shape(), apart(t, e));
            }
        }
        let (x, w) = (Tensor::randn([2, 8, 6, 5]).to_dtype(low), Tensor::randn([8, 4, 3, 3]).to_dtype(low));
        let o = ConvTransposeOptions { stride: 2.into(), padding: 1.into(), ..Default::default() };
        let y = x.to(&gpu).conv_transpose2d(&w.to(&gpu), None, o.clone())?;
        let e = x.to_dtype(DType::F32).conv_transpose2d(&w.to_dtype(DType::F32), None, o)?;
        assert!(apart(&y, &e) < 2.0 * unit);
    }
    Ok(())
}

/// A residual block with a stride, over images that are wide enough for sums to be split.
#[test]
fn a_block_and_its_gradients() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    manual_seed(2);
    let x = Tensor::randn([64, 16, 24, 24]);
    let shapes: [&[usize]; 5] = [&[32, 16, 3, 3], &[32], &[32, 32, 3, 3], &[32], &[32, 16, 1, 1]];
    let start: Vec<Tensor> = shapes.iter().map(|s| Tensor::randn(*s) * 0.2 + 0.1).collect();
    Tensor::eval_all(&start.iter().collect::<Vec<_>>())?;
    let run = |d: &Device, low: Option<DType>| -> Result<Vec<Tensor>> {
        let p: Vec<Tensor> = start.iter().map(|t| t.to(d).requires_grad_()).collect();
        let x = x.to(d);
        let loss = autocast(low, || -> Result<Tensor> {
            let training = BatchNormOptions { training: true, ..Default::default() };
            let h = x.conv2d(&p[0], None, options(2, 1, 1))?.batch_norm(None, Some(&p[1]), None, &training)?.0.relu();
            let h = h.conv2d(&p[2], None, options(1, 1, 1))?.batch_norm(None, Some(&p[3]), None, &training)?.0;
            let y = (h + x.conv2d(&p[4], None, options(2, 0, 1))?).relu();
            Ok(y.square().mean_dim([2, 3], false)?.to_dtype(DType::F32).sum() * 1e-2)
        })?;
        let g = loss.backward()?;
        p.iter().map(|v| g.wrt(v)).chain([Ok(loss)]).collect()
    };
    let exact = run(&Device::cpu(), None)?;
    let near = run(&gpu, None)?;
    let low = run(&gpu, Some(DType::BF16))?;
    let low_cpu = run(&Device::cpu(), Some(DType::BF16))?;
    for (i, e) in exact.iter().enumerate() {
        assert!(apart(&near[i], e) < 1e-4, "f32 {i}: {}", apart(&near[i], e));
        let (there, here) = (apart(&low[i], e), apart(&low_cpu[i], e));
        assert!(there < 1.5 * here + 0.01, "bf16 {i}: {there} on the GPU, {here} on the CPU");
    }
    Ok(())
}

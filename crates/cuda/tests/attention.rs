//! Attention and tables of rows on a GPU, against the composite in f64 on the CPU. Where there is no GPU, every test says
//! that it skips, and why.

use gradus_core::{AttentionOptions, DType, Device, Result, Tensor, grad::grad_of, manual_seed};
use gradus_cuda::CudaDevice;

fn gpu() -> Option<Device> {
    match Device::cuda(0) {
        Ok(d) => Some(d),
        Err(e) => {
            println!("skipped: {e}");
            None
        }
    }
}

/// How far apart, in norms.
fn apart(got: &Tensor, want: &Tensor) -> f64 {
    assert_eq!(got.shape(), want.shape());
    let (got, want) = (got.to_vec::<f64>().unwrap(), want.to_vec::<f64>().unwrap());
    let square = |x: f64| x * x;
    let off: f64 = got.iter().zip(&want).map(|(g, w)| square(g - w)).sum();
    (off / want.iter().map(|w| square(*w)).sum::<f64>()).sqrt()
}

/// The result and the gradients of q, k and v.
fn both_ways(x: &[Tensor; 4], options: &AttentionOptions) -> Result<Vec<Tensor>> {
    let [q, k, v] = [0, 1, 2].map(|i| x[i].requires_grad_());
    let y = q.scaled_dot_product_attention(&k, &v, options)?;
    let grads = grad_of(&[(&y, &x[3])], &[&q, &k, &v])?;
    Ok([Some(y)].into_iter().chain(grads).flatten().collect())
}

#[test]
fn attention_is_the_composite_of_f64() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    manual_seed(5);
    // Batches, heads, queries, keys, width: whole tiles, parts of tiles, widths that are no multiple of 8.
    for (b, h, t, s, d) in
        [(2, 3, 256, 256, 64), (1, 2, 300, 300, 64), (1, 3, 65, 200, 32), (2, 1, 200, 65, 128), (1, 2, 70, 70, 37)]
    {
        for dtype in [DType::BF16, DType::F16] {
            for is_causal in [true, false] {
                let part = |n: usize| Tensor::randn([b, n, h, d]).to_dtype(dtype).transpose(1, 2);
                let x = [part(t)?, part(s)?, part(s)?, part(t)?];
                let wide = [0, 1, 2, 3].map(|i| x[i].to_dtype(DType::F64).contiguous());
                let options = AttentionOptions { is_causal, ..Default::default() };
                let want = both_ways(&wide, &options)?;
                let there = [0, 1, 2, 3].map(|i| x[i].to(&gpu));
                let tolerance = if dtype == DType::BF16 { 5e-3 } else { 1e-3 };
                for (k, (got, want)) in both_ways(&there, &options)?.iter().zip(&want).enumerate() {
                    let off = apart(got, want);
                    assert!(off < tolerance, "{b} x {h} x {t} x {s} x {d} {dtype} causal {is_causal}, part {k}: {off}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn attention_of_many_heads_gives_the_same_bits_again() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    manual_seed(7);
    // More heads than multiprocessors: they are gone through in groups, and blocks take one item after the other.
    let (b, h, t, d) = (5, 40, 256, 64);
    for is_causal in [true, false] {
        let part = || Tensor::randn([b, h, t, d]).to_dtype(DType::BF16);
        let x = [part(), part(), part(), part()];
        let wide = [0, 1, 2, 3].map(|i| x[i].to_dtype(DType::F64).contiguous());
        let options = AttentionOptions { is_causal, ..Default::default() };
        let want = both_ways(&wide, &options)?;
        let there = [0, 1, 2, 3].map(|i| x[i].to(&gpu));
        let bytes = |x: &[Tensor]| x.iter().map(|t| t.to_dtype(DType::F32).to_vec::<f32>()).collect::<Result<Vec<_>>>();
        let first = both_ways(&there, &options)?;
        for (k, (got, want)) in first.iter().zip(&want).enumerate() {
            let off = apart(got, want);
            assert!(off < 5e-3, "causal {is_causal}, part {k}: {off}");
        }
        for _ in 0..3 {
            assert!(bytes(&both_ways(&there, &options)?)? == bytes(&first)?, "causal {is_causal}");
        }
    }
    Ok(())
}

#[test]
fn attention_of_shared_heads_and_any_factor() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    manual_seed(8);
    let (b, h, t, d) = (2, 3, 100, 64);
    for scale in [0.3, 0.0, -0.2] {
        // Keys and values that all heads share: no distance between them in memory.
        let part = |n: usize| Tensor::randn([b, n, t, d]).to_dtype(DType::BF16);
        let x = [part(h), part(1), part(1), part(h)];
        let f = |d0: &Device, dtype: DType| -> Result<Vec<Tensor>> {
            let x = [0, 1, 2, 3].map(|i| x[i].to(d0).to_dtype(dtype));
            let [q, k, v] = [0, 1, 2].map(|i| x[i].requires_grad_());
            let options = AttentionOptions { scale: Some(scale), is_causal: true, ..Default::default() };
            let wide = |t: &Tensor| t.expand([b as i64, h as i64, t.shape()[2] as i64, d as i64]);
            let y = q.scaled_dot_product_attention(&wide(&k)?, &wide(&v)?, &options)?;
            let grads = grad_of(&[(&y, &x[3])], &[&v])?;
            Ok([Some(y)].into_iter().chain(grads).flatten().collect())
        };
        for (k, (got, want)) in f(&gpu, DType::BF16)?.iter().zip(&f(&Device::cpu(), DType::F64)?).enumerate() {
            let off = apart(got, want);
            assert!(off < 1e-2, "factor {scale}, part {k}: {off}");
        }
    }
    Ok(())
}

#[test]
fn attention_of_slices_and_its_second_gradient() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    manual_seed(6);
    let (b, h, t, d) = (2, 2, 40, 16);
    let f = |x: &Tensor, dtype: DType| -> Result<Tensor> {
        let x = x.requires_grad_();
        let part = |i: usize| {
            x.to_dtype(dtype).narrow(2, i * h * d, h * d)?.view([b, t as i64, h as i64, -1])?.transpose(1, 2)
        };
        let options = AttentionOptions { is_causal: true, ..Default::default() };
        let y = part(0)?.scaled_dot_product_attention(&part(1)?, &part(2)?, &options)?.to_dtype(DType::F32);
        let of = |y: &Tensor| -> Result<Tensor> {
            let parts = grad_of(&[(y, &y.ones_like())], &[&x])?;
            Ok(parts.into_iter().flatten().next().expect("x is in it"))
        };
        of(&of(&y.square().sum())?.square().sum())
    };
    let x = Tensor::randn([b as usize, t, 3 * h * d]);
    let off = apart(&f(&x.to(&gpu), DType::BF16)?, &f(&x.to_dtype(DType::F64), DType::F64)?);
    assert!(off < 5e-2, "{off}");
    Ok(())
}

#[test]
fn rows_are_taken_and_added_up_as_on_the_cpu() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    for (rows, width, n) in [(65, 384, 1024), (5000, 300, 700), (3, 1, 4000), (7, 513, 1)] {
        let table = Tensor::randn([rows, width]);
        let index: Vec<i64> = (0..n).map(|i| (i * 7919 + 13) % rows as i64).collect();
        let index = Tensor::from_slice(&index, [n as usize])?;
        let g = Tensor::randn([n as usize, width]);
        let f = |d: &Device| -> Result<[Vec<f32>; 2]> {
            let table = table.to(d).requires_grad_();
            let y = table.embedding(&index.to(d))?;
            let grads = (&y * g.to(d)).sum().backward()?;
            Ok([y.to_vec::<f32>()?, grads.wrt(&table)?.to_vec::<f32>()?])
        };
        assert!(f(&gpu)? == f(&Device::cpu())?, "{rows} x {width}, {n}");
    }
    Ok(())
}

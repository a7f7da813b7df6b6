//! Kernels that run as whole functions of machine code (rows, lines, chunks, groups of reduce points) on sizes around
//! their edges: the CPU gives the oracle's bits.

use gradus_conformance::oracle;
use gradus_core::{Device, Result, Tensor};

/// Numbers without a pattern, some of them equal, with edges among them where `edges`.
fn numbers(count: usize, seed: u32, edges: bool) -> Vec<f32> {
    let edge = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0, -0.0, 1e-40, -3e38];
    let mut x = seed;
    let next = |i: usize| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if edges && i % 97 == 13 { edge[x as usize / 7 % edge.len()] } else { (x >> 12) as f32 / 65536.0 - 8.0 }
    };
    (0..count).map(next).collect()
}

fn tensor(shape: &[usize], seed: u32, edges: bool, device: Device) -> Result<Tensor> {
    let x = Tensor::from_vec(numbers(shape.iter().product(), seed, edges), shape.to_vec())?;
    Ok(x.to(&device))
}

/// The same work on both devices: the results bit for bit.
fn compare(what: &str, f: impl Fn(Device) -> Result<Vec<Tensor>>) -> Result<()> {
    let oracle = f(oracle::device())?;
    // Small kernels have machine code from the second time on.
    for time in ["first", "second"] {
        let cpu = f(Device::cpu())?;
        assert_eq!(cpu.len(), oracle.len());
        for (n, (a, b)) in cpu.iter().zip(&oracle).enumerate() {
            assert_eq!(a.shape(), b.shape(), "{what}, result {n}");
            let (x, y) = (a.to_vec::<f32>()?, b.to_vec::<f32>()?);
            let same = |p: &f32, q: &f32| p.to_bits() == q.to_bits() || (p.is_nan() && q.is_nan());
            let bad = x.iter().zip(&y).position(|(p, q)| !same(p, q));
            let found = bad.map(|i| (x[i], y[i]));
            assert!(bad.is_none(), "{what}, the {time} time, result {n}, element {bad:?}: {found:?}");
        }
    }
    Ok(())
}

/// Around a vector, a group of four, a block, a chunk and two.
const LENGTHS: [usize; 15] = [48, 49, 63, 64, 65, 80, 127, 130, 333, 512, 1000, 2048, 4096, 4097, 9001];

#[test]
fn rows() -> Result<()> {
    for (n, rows) in LENGTHS.into_iter().flat_map(|n| [(n, 1), (n, 5)]) {
        for edges in [false, true] {
            compare(&format!("{rows} rows of {n}, edges {edges}"), |d| {
                let x = tensor(&[rows, n], 1, edges, d)?;
                let (w, b) = (tensor(&[n], 2, false, d)?, tensor(&[n], 3, false, d)?);
                let (y, mean, rstd) = x.native_layer_norm([n], Some(&w), Some(&b), 1e-5)?;
                let (top, low) = (x.amax(1, false)?, x.amin(1, true)?);
                Ok(vec![x.softmax(-1)?, y, mean, rstd, x.sum_dim(1, false)?, top, low, x.sum()])
            })?;
        }
    }
    Ok(())
}

#[test]
fn rows_along_several_axes() -> Result<()> {
    for n in LENGTHS {
        compare(&format!("[2, 3, 2] rows of {n}"), |d| {
            let x = tensor(&[2, 3, 2, n], 4, false, d)?;
            // One number a row, the same one for some rows, and a mask.
            let (a, b) = (tensor(&[2, 1, 2, 1], 5, false, d)?, tensor(&[3, 1, n], 6, false, d)?);
            let y = (&x * &a).softmax(-1)?;
            let m = x.gt(&b)?.where_(&x, &a)?;
            let t = x.transpose(0, 2)?;
            Ok(vec![y, m.sum_dim(-1, false)?, m.layer_norm([n], None, None, 1e-5)?, (&t + 1.0).amax(-1, true)?])
        })?;
    }
    Ok(())
}

#[test]
fn lines() -> Result<()> {
    for n in LENGTHS.into_iter().chain([3, 17, 20_000]) {
        compare(&format!("lines of {n}"), |d| {
            let x = tensor(&[3, 2, n], 7, true, d)?;
            let (a, b) = (tensor(&[n], 8, false, d)?, tensor(&[2, 1], 9, false, d)?);
            let y = (&(&x + &a) * &b).exp();
            let part = x.narrow(2, 1, n - 1)?;
            Ok(vec![&x + &a, y, &part * 2.0, x.sigmoid(), &x.flatten(0, -1)? - 0.5])
        })?;
    }
    Ok(())
}

#[test]
fn columns() -> Result<()> {
    for rows in [2, 3, 4, 7, 8, 9, 13, 16, 511, 512, 513, 1030] {
        for n in [1, 17, 64, 100, 600, 4097] {
            compare(&format!("{rows} rows of {n} columns"), |d| {
                let x = tensor(&[rows, n], 10, n == 100, d)?;
                let (w, g) = (tensor(&[n], 11, false, d)?, tensor(&[rows, 1], 12, false, d)?);
                let y = &(&x * &w) + &g;
                let sums = vec![x.sum_dim(0, false)?, x.amax(0, false)?, y.sum_dim(0, false)?, y];
                Tensor::eval_all(&sums.iter().collect::<Vec<_>>())?;
                Ok(sums)
            })?;
        }
    }
    Ok(())
}

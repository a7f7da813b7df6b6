//! Gradients of matrix routines against finite differences, first and second order.

use gradus_core::{DType, NormOrd, QrMode, Result, Tensor, grad};

/// Numbers that look random and are the same every time.
fn numbers(seed: u64, n: usize) -> Vec<f64> {
    let mut s = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        (s >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn random(seed: u64, shape: &[usize]) -> Tensor {
    Tensor::from_vec(numbers(seed, shape.iter().product()), shape).unwrap()
}

/// A weighted sum of all results, so that every element counts differently.
fn weighted(parts: &[Tensor]) -> Tensor {
    let each = parts.iter().enumerate().map(|(i, t)| (t * random(100 + i as u64, t.dims())).sum());
    each.reduce(|a, b| a + b).unwrap()
}

type F<'a> = &'a dyn Fn(&Tensor) -> Result<Vec<Tensor>>;

fn gradient(f: F<'_>, x: &Tensor) -> Tensor {
    grad::grad(&weighted(&f(x).unwrap()), &[x]).unwrap().remove(0)
}

/// Central differences of a number that depends on `x`.
fn differences(x: &[f64], shape: &[usize], value: impl Fn(&Tensor) -> f64) -> Vec<f64> {
    let h = 1e-5;
    let at = |i: usize, d: f64| {
        let mut x = x.to_vec();
        x[i] += d;
        value(&Tensor::from_vec(x, shape).unwrap().requires_grad_())
    };
    (0..x.len()).map(|i| (at(i, h) - at(i, -h)) / (2.0 * h)).collect()
}

fn close(what: &str, have: &[f64], want: &[f64]) {
    assert_eq!(have.len(), want.len(), "{what}");
    for (i, (x, y)) in have.iter().zip(want).enumerate() {
        assert!((x - y).abs() <= 2e-6 * (1.0 + y.abs()), "{what}: element {i}: {x} vs {y}\n{have:?}\n{want:?}");
    }
}

fn check(what: &str, x: Tensor, f: F<'_>) {
    let (shape, at) = (x.dims().to_vec(), x.to_vec::<f64>().unwrap());
    let x = x.requires_grad_();
    let g = gradient(f, &x);
    let want = differences(&at, &shape, |x| weighted(&f(x).unwrap()).item::<f64>().unwrap());
    close(&format!("{what}, first order"), &g.to_vec::<f64>().unwrap(), &want);
    // Second order: the gradient of <gradient, a fixed direction>.
    let along = random(77, &shape);
    let product = (&g * &along).sum();
    let gg = grad::grad_of(&[(&product, &product.ones_like())], &[&x]).unwrap().remove(0);
    let gg = gg.unwrap_or_else(|| x.zeros_like()); // a linear function has none
    let want = differences(&at, &shape, |x| (gradient(f, x) * &along).sum().item::<f64>().unwrap());
    close(&format!("{what}, second order"), &gg.to_vec::<f64>().unwrap(), &want);
}

fn eye(n: usize) -> Tensor {
    Tensor::eye(n, n, DType::F64)
}

fn symmetric(x: &Tensor) -> Result<Tensor> {
    Ok((x + x.transpose(-2, -1)?) * 0.5)
}

#[test]
fn cholesky() {
    for upper in [false, true] {
        check("cholesky", random(1, &[2, 3, 3]), &|x| {
            let a = x.matmul(&x.transpose(-2, -1)?)? + eye(3) * 2.0;
            let l = a.cholesky(upper)?;
            Ok(vec![l.cholesky_inverse(upper)?, l])
        });
    }
    check("cholesky_solve", random(2, &[3, 3]), &|x| {
        let a = x.matmul(&x.t()?)? + eye(3) * 2.0;
        Ok(vec![random(3, &[3, 2]).cholesky_solve(&a.cholesky(false)?, false)?])
    });
}

#[test]
fn qr() {
    for shape in [&[4, 3][..], &[3, 3], &[3, 5], &[2, 3, 2]] {
        check(&format!("qr {shape:?}"), random(4, shape), &|x| {
            let (q, r) = x.qr(QrMode::Reduced)?;
            Ok(vec![q, r])
        });
    }
    check("qr complete", random(5, &[3, 4]), &|x| Ok(vec![x.qr(QrMode::Complete)?.0]));
    check("qr r", random(6, &[4, 3]), &|x| Ok(vec![x.qr(QrMode::R)?.1]));
    let x = random(7, &[4, 3]).requires_grad_();
    let e = x.qr(QrMode::Complete).unwrap().0.sum().backward().err().unwrap().to_string();
    assert!(e.contains("qr has no gradient in complete mode"), "{e}");
}

#[test]
fn svd() {
    for shape in [&[3, 3][..], &[4, 3], &[3, 4], &[2, 3, 2]] {
        check(&format!("svd {shape:?}"), random(8, shape), &|x| {
            // Products that do not depend on the arbitrary signs.
            let (u, s, vh) = x.svd(false)?;
            let k = u.dims()[u.rank() - 1];
            let w = random(9, &[k]);
            Ok(vec![(&u * w).matmul(&vh)?, &u * &u, &vh * &vh, s])
        });
        check("svdvals", random(10, shape), &|x| Ok(vec![x.svdvals()?]));
    }
    check("svd full", random(11, &[4, 2]), &|x| {
        let (u, s, vh) = x.svd(true)?;
        Ok(vec![s, u.narrow(-1, 0, 2)?.square(), vh.square()])
    });
    check("pca_lowrank", random(12, &[5, 4]), &|x| {
        let (u, s, v) = x.pca_lowrank(Some(2), true)?;
        Ok(vec![u.matmul(&v.t()?)?, s, &v * &v])
    });
}

#[test]
fn singular_values_that_coincide() {
    // A loss of the values alone is smooth enough for a gradient: the nuclear norm of the identity has gradient I.
    let x = eye(3).requires_grad_();
    let g = x.svdvals().unwrap().sum().backward().unwrap().wrt(&x).unwrap();
    close("nuclear", &g.to_vec::<f64>().unwrap(), &eye(3).to_vec::<f64>().unwrap());
    let x = Tensor::zeros([3, 2], DType::F64).requires_grad_();
    let g = x.svdvals().unwrap().sum().backward().unwrap().wrt(&x).unwrap();
    assert!(g.to_vec::<f64>().unwrap().iter().all(|v| v.is_finite()));
    let g = eye(3).requires_grad_();
    let w = g.eigvalsh(false).unwrap().sum().backward().unwrap().wrt(&g).unwrap();
    close("eigenvalues", &w.to_vec::<f64>().unwrap(), &eye(3).to_vec::<f64>().unwrap());
}

#[test]
fn eigh() {
    for upper in [false, true] {
        check("eigh", random(13, &[2, 3, 3]), &|x| {
            let (w, v) = symmetric(x)?.eigh(upper)?;
            Ok(vec![w, &v * &v, v.select(-1, 0)?.square()])
        });
    }
}

#[test]
fn lu() {
    for shape in [&[3, 3][..], &[4, 3], &[3, 5], &[2, 2, 2]] {
        check(&format!("lu {shape:?}"), random(14, shape), &|x| {
            let (_, l, u) = x.lu()?;
            Ok(vec![l, u])
        });
    }
}

#[test]
fn determinants() {
    for n in 1..5 {
        check(&format!("det {n}"), random(15, &[2, n, n]), &|x| Ok(vec![x.det()?]));
    }
    check("slogdet", random(16, &[2, 3, 3]), &|x| Ok(vec![x.slogdet()?.1]));
    check("logdet", random(17, &[3, 3]), &|x| Ok(vec![(x.matmul(&x.t()?)? + eye(3)).logdet()?]));
    // Singular of every rank, and orthogonal: determinants are polynomials, smooth everywhere.
    let row = [1.0f64, 2.0, 3.0];
    for (name, x) in [
        ("rank 2", Tensor::from([row, [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])),
        ("rank 1", Tensor::from([row, row, row])),
        ("rank 0", Tensor::zeros([3, 3], DType::F64)),
        ("identity", eye(3)),
        ("rank 1 of 2", Tensor::from([[1.0f64, 2.0], [2.0, 4.0]])),
    ] {
        check(name, x, &|x| Ok(vec![x.det()?]));
    }
}

#[test]
fn systems() {
    let b = random(18, &[3, 2]);
    check("inv", random(19, &[2, 3, 3]), &|x| Ok(vec![x.inv()?, x.inv_ex()?.0]));
    check("solve", random(20, &[2, 3, 3]), &|x| Ok(vec![x.solve(&b)?, x.solve_ex(&b)?.0]));
    check("solve for b", random(21, &[3, 2]), &|x| Ok(vec![random(22, &[3, 3]).solve(x)?]));
    check("solve right", random(23, &[3, 3]), &|x| Ok(vec![x.solve_right(&random(24, &[2, 3]))?]));
    for (upper, unit) in [(true, false), (false, false), (true, true), (false, true)] {
        check("triangular", random(25, &[3, 3]) + eye(3) * 2.0, &|x| {
            let right = x.solve_triangular_right(&random(26, &[2, 3]), upper, unit)?;
            Ok(vec![x.solve_triangular(&b, upper, unit)?, right, b.triangular_solve(x, upper, true, unit)?.0])
        });
    }
    for shape in [&[3, 3][..], &[4, 2], &[2, 4]] {
        check(&format!("pinv {shape:?}"), random(27, shape), &|x| Ok(vec![x.pinv(None, None)?]));
        check(&format!("lstsq {shape:?}"), random(28, shape), &|x| {
            let l = x.lstsq(&random(29, &[x.dims()[0], 2]), None)?;
            Ok(vec![l.solution, l.residuals, l.singular_values])
        });
    }
    check("matrix_exp", random(30, &[2, 3, 3]), &|x| Ok(vec![x.matrix_exp()?]));
    for n in [-2, 0, 1, 3] {
        check("matrix_power", random(31, &[3, 3]), &|x| Ok(vec![x.matrix_power(n)? + x * 0.0]));
    }
}

#[test]
fn norms() {
    for p in [0.5, 1.0, 1.5, 2.0, 3.0, 3.5, -1.0, -2.5, f64::INFINITY, f64::NEG_INFINITY] {
        check(&format!("vector_norm {p}"), random(32, &[2, 4]), &|x| Ok(vec![x.vector_norm(p, 1, true)?]));
    }
    let p = NormOrd::P;
    for ord in [NormOrd::Fro, NormOrd::Nuc, p(1.0), p(-1.0), p(2.0), p(-2.0), p(f64::INFINITY), p(f64::NEG_INFINITY)] {
        check(&format!("matrix_norm {ord:?}"), random(33, &[3, 2, 3]), &|x| {
            Ok(vec![x.matrix_norm(ord, [-1, 0], true)?])
        });
        check(&format!("cond {ord:?}"), random(34, &[3, 3]), &|x| Ok(vec![x.cond(Some(ord))?]));
    }
    check("cdist", random(35, &[3, 2]), &|x| Ok(vec![x.cdist(&random(36, &[4, 2]), 2.0)?, x.pdist(3.0)?]));
}

#[test]
fn norms_of_zero_have_gradient_zero_twice() {
    for p in [-1.5, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY] {
        let x = Tensor::zeros([3], DType::F64).requires_grad_();
        let y = x.vector_norm(p, .., false).unwrap();
        let g = grad::grad(&y, &[&x]).unwrap().remove(0);
        assert_eq!(y.item::<f64>().unwrap(), 0.0, "{p}");
        assert_eq!(g.to_vec::<f64>().unwrap(), [0.0; 3], "{p}");
        if g.requires_grad() {
            let gg = grad::grad(&g.sum(), &[&x]).unwrap().remove(0);
            assert!(gg.to_vec::<f64>().unwrap().iter().all(|v| v.is_finite()), "{p}");
        }
    }
}

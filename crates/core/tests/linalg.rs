//! Matrix products, einsum and routines: values, shapes, and errors with their numbers.

use gradus_core::{DType, NormOrd, QrMode, Sub, Tensor};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn vec(t: &Tensor) -> Vec<f64> {
    t.to_vec::<f64>().unwrap()
}

fn close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len(), "{a:?} vs {b:?}");
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() <= 1e-9 * (1.0 + y.abs()), "{a:?} vs {b:?}");
    }
}

fn count(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let all: Vec<f64> = (0..n).map(|i| ((i * 7 + 3) % 11) as f64 - 4.0).collect();
    Tensor::from_vec(all, shape).unwrap()
}

fn fails(r: gradus_core::Result<Tensor>, text: &str) {
    let e = match r.and_then(|t| t.to_bytes().map(|_| t)) {
        Ok(t) => panic!("gave {}", t.shape()),
        Err(e) => e.to_string(),
    };
    assert!(e.contains(text), "{e}");
}

/// The definition: one loop over all labels.
fn naive(inputs: &[Vec<char>], output: &[char], operands: &[Tensor]) -> Vec<f64> {
    let mut extents: BTreeMap<char, usize> = BTreeMap::new();
    for (labels, t) in inputs.iter().zip(operands) {
        for (&l, &n) in labels.iter().zip(t.dims()) {
            let e = extents.entry(l).or_insert(n);
            *e = if *e == 1 { n } else { *e };
        }
    }
    let data: Vec<Vec<f64>> = operands.iter().map(vec).collect();
    let labels: Vec<char> = extents.keys().copied().collect();
    let total: usize = extents.values().product();
    let mut out = vec![0.0; output.iter().map(|l| extents[l]).product()];
    for mut p in 0..total {
        let mut at = BTreeMap::new();
        for l in labels.iter().rev() {
            at.insert(*l, p % extents[l]);
            p /= extents[l];
        }
        let mut product = 1.0;
        for ((term, t), data) in inputs.iter().zip(operands).zip(&data) {
            let place = term.iter().zip(t.dims()).fold(0, |s, (l, &n)| s * n + if n == 1 { 0 } else { at[l] });
            product *= data[place];
        }
        out[output.iter().fold(0, |s, l| s * extents[l] + at[l])] += product;
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn einsum_is_its_definition(
        terms in prop::collection::vec(prop::collection::vec(0usize..4, 0..4), 1..4),
        extents in prop::collection::vec(1usize..4, 4),
        ones in prop::collection::vec(prop::bool::weighted(0.15), 16),
        order in Just(vec![0usize, 1, 2, 3]).prop_shuffle(),
        kept in 0usize..5,
    ) {
        let letters = ['a', 'b', 'C', 'd'];
        let inputs: Vec<Vec<char>> = terms.iter().map(|t| t.iter().map(|&i| letters[i]).collect()).collect();
        let mut one = ones.iter().cycle();
        let operands: Vec<Tensor> = terms
            .iter()
            .map(|t| {
                // A label repeated in one term keeps one extent there; elsewhere it may be 1 and broadcast.
                let mut here = extents.clone();
                here.iter_mut().for_each(|e| if *one.next().unwrap() { *e = 1 });
                count(&t.iter().map(|&i| here[i]).collect::<Vec<_>>())
            })
            .collect();
        let output: Vec<char> =
            order.iter().map(|&i| letters[i]).filter(|l| inputs.iter().any(|t| t.contains(l))).take(kept).collect();
        let term = |t: &Vec<char>| t.iter().collect::<String>();
        let left: Vec<String> = inputs.iter().map(term).collect();
        let equation = format!("{} -> {}", left.join(", "), term(&output));
        let have = Tensor::einsum(&equation, &operands.iter().collect::<Vec<_>>()).unwrap();
        close(&vec(&have), &naive(&inputs, &output, &operands));
    }
}

#[test]
fn einsum_forms() {
    let (a, b) = (count(&[2, 3]), count(&[3, 4]));
    let product = vec(&a.matmul(&b).unwrap());
    close(&vec(&Tensor::einsum("ij,jk", &[&a, &b]).unwrap()), &product); // implicit
    // Capitals come before small letters: "jA" gives [A, j].
    assert_eq!(Tensor::einsum("jA", &[&a]).unwrap().dims(), [3, 2]);
    let batch = count(&[2, 5, 2, 3]);
    let y = Tensor::einsum("...ij,jk", &[&batch, &b]).unwrap();
    close(&vec(&y), &vec(&batch.matmul(&b).unwrap()));
    assert_eq!(Tensor::einsum("...ij,...jk->ik...", &[&batch, &b]).unwrap().dims(), [2, 4, 2, 5]);
    close(&vec(&Tensor::einsum("...->", &[&a]).unwrap()), &vec(&a.sum()));
    let c = count(&[3, 3, 2]);
    let d: Vec<f64> = vec(&c);
    close(&vec(&Tensor::einsum("iij->ij", &[&c]).unwrap()), &[d[0], d[1], d[8], d[9], d[16], d[17]]);
    let s = |i| Sub::Axis(i);
    let lists =
        Tensor::einsum_lists(&[(&a, &[s(7), s(1)]), (&b, &[s(1), Sub::Ellipsis])], Some(&[s(7), Sub::Ellipsis]));
    close(&vec(&lists.unwrap()), &product);
    // Integers stay integers, zero extents sum to zero.
    let i = Tensor::from([[1i32, 2], [3, 4]]);
    assert_eq!(Tensor::einsum("ij->", &[&i]).unwrap().dtype(), DType::I32);
    let none = Tensor::zeros([2, 0], DType::F64);
    close(&vec(&Tensor::einsum("ij,kj->ik", &[&none, &none]).unwrap()), &[0.0; 4]);
}

#[test]
fn einsum_multiplies_matrices_with_one_product() {
    let (a, b) = (Tensor::rand([4, 5, 6]).eval().unwrap().clone(), Tensor::rand([6, 7]).eval().unwrap().clone());
    let plan = Tensor::einsum("bij,jk->bik", &[&a, &b]).unwrap().explain().unwrap();
    assert_eq!(plan.launches(), 1, "{plan}");
}

#[test]
fn einsum_errors() {
    let a = count(&[2, 3]);
    fails(Tensor::einsum("ij,jk->ik", &[&a]), "names 2 operands, and there are 1");
    fails(Tensor::einsum("ij,jk->ik", &[&a, &a]), "label 'j' has extents 3 and 2");
    fails(Tensor::einsum("ijk->i", &[&a]), "3 labels for [2, 3]");
    fails(Tensor::einsum("i...j...->i", &[&a]), "more than one ellipsis");
    fails(Tensor::einsum("ij->iz", &[&a]), "label 'z' of the result is in no operand");
    fails(Tensor::einsum("ij->ii", &[&a]), "label 'i' occurs twice in the result");
    fails(Tensor::einsum("i1->i", &[&a]), "unexpected '1'");
    fails(Tensor::einsum("i.j->i", &[&a]), "unexpected '.'");
    fails(Tensor::einsum("ij,ij->", &[&a, &a.to_dtype(DType::F32)]), "element types differ: f64 and f32");
    fails(Tensor::einsum_lists(&[], None), "no operands");
    fails(Tensor::einsum("\u{e9}", &[&a]), "unexpected");
}

#[test]
fn products() {
    let (a, b) = (count(&[2, 3]), count(&[3, 4]));
    close(
        &vec(&Tensor::multi_dot(&[&a, &b, &count(&[4])]).unwrap()),
        &vec(&a.matmul(&b).unwrap().mv(&count(&[4])).unwrap()),
    );
    assert_eq!(a.tensordot(&b, 0).unwrap().dims(), [2, 3, 3, 4]);
    close(&vec(&a.tensordot(&b, 1).unwrap()), &vec(&a.matmul(&b).unwrap()));
    let k = Tensor::from([[1.0f64, 2.0]]).kron(&Tensor::from([[1.0f64], [3.0]])).unwrap();
    assert_eq!(k.dims(), [2, 2]);
    close(&vec(&k), &[1.0, 2.0, 3.0, 6.0]);
    // beta 0 ignores even NaN.
    let nan = Tensor::full([2, 4], f64::NAN, DType::F64);
    close(&vec(&nan.addmm(&a, &b, 0.0, 2.0).unwrap()), &vec(&(a.matmul(&b).unwrap() * 2.0)));
    let e = a.mm(&a).unwrap_err();
    assert!(e.location().file().ends_with("linalg.rs") && e.location().line() == line!() - 1, "{e}");
    fails(a.mm(&a), "inner dimensions differ: [2, 3] x [2, 3] (3 vs 2)");
    fails(a.bmm(&b), "needs 3 axes, not [2, 3]");
    fails(count(&[2, 3, 3]).bmm(&count(&[1, 3, 3])), "batch sizes differ");
    fails(a.addmm(&a, &b, 1, 1), "[2, 3] does not broadcast to the product's [2, 4]");
    fails(Tensor::multi_dot(&[&a]), "at least two");
    fails(Tensor::multi_dot(&[]), "nothing to multiply");
    fails(a.cross(&a.t().unwrap(), None), "do not broadcast");
    fails(a.cross(&a, Some(0)), "needs an axis of extent 3");
    fails(a.tensordot_dims(&b, &[0], &[0]), "(2 vs 3)");
    fails(a.tensordot(&b, 3), "3 axes of [2, 3] and [3, 4] cannot be contracted");
    fails(a.tensordot_dims(&b, &[1, 1], &[0, 1]), "is named twice");
    let i = Tensor::from([[1i64, 2], [3, 4]]);
    assert_eq!(i.addmm(&i, &i, 2, 1).unwrap().to_vec::<i64>().unwrap(), [9, 14, 21, 30]);
    fails(i.addmm(&i, &i, 0.5, 1), "cannot be scaled by the float 0.5");
}

#[test]
fn singular_matrices_are_named() {
    let good = [[1.0f64, 0.0], [0.0, 1.0]];
    let a = Tensor::from([good, good, [[1.0, 2.0], [2.0, 4.0]]]);
    fails(a.inv(), "matrix 2 of the batch is singular: pivot 1 is zero");
    fails(a.solve(&Tensor::from([1.0f64, 1.0])), "matrix 2 of the batch is singular");
    fails((-&a).cholesky(false), "matrix 0 of the batch is not positive definite");
    let (x, info) = a.inv_ex().unwrap();
    assert_eq!((info.to_vec::<i32>().unwrap(), info.dtype()), (vec![0, 0, 2], DType::I32));
    assert!(vec(&x)[8..].iter().all(|v| v.is_nan()) && vec(&x)[..4] == [1.0, 0.0, 0.0, 1.0]);
    let (x, info) = a.solve_ex(&Tensor::from([1.0f64, 1.0])).unwrap();
    assert_eq!((x.dims(), info.to_vec::<i32>().unwrap()), (&[3, 2][..], vec![0, 0, 2]));
    close(&vec(&a.det().unwrap()), &[1.0, 1.0, 0.0]);
    assert_eq!(vec(&a.slogdet().unwrap().0), [1.0, 1.0, 0.0]);
    assert_eq!(vec(&a.cond(Some(NormOrd::P(1.0))).unwrap()), [1.0, 1.0, f64::INFINITY]);
    assert_eq!(a.matrix_rank(None, None).unwrap().to_vec::<i64>().unwrap(), [2, 2, 1]);
    assert!(vec(&Tensor::from([[-1.0f64]]).logdet().unwrap())[0].is_nan());
}

#[test]
fn wrong_matrices_are_errors() {
    let (wide, vector, ints) = (count(&[2, 3]), count(&[3]), Tensor::from([[1i64]]));
    fails(wide.det(), "needs square matrices, not [2, 3]");
    fails(wide.inv(), "needs square matrices, not [2, 3]");
    fails(wide.matrix_exp(), "needs square matrices, not [2, 3]");
    fails(vector.svdvals(), "needs matrices, not [3]");
    fails(ints.det(), "needs f32 or f64, not i64");
    fails(ints.vector_norm(2.0, .., false), "needs floats, not i64");
    fails(wide.matrix_norm(3, [0, 1], false), "no norm of order 3");
    fails(wide.matrix_norm(2, [0, 0], false), "is named twice");
    fails(count(&[2, 2]).solve(&Tensor::scalar(1.0, DType::F64)), "2 equations");
    fails(count(&[2, 2]).solve(&wide.t().unwrap()), "2 equations, but the right-hand side is [3, 2]");
    fails(wide.lstsq(&vector, None).map(|l| l.solution), "2 equations");
    fails(wide.pca_lowrank(Some(3), false).map(|t| t.0), "3 components");
    fails(wide.cdist(&count(&[2, 2]), 2.0), "rows of one length: [2, 3] and [2, 2]");
    fails(wide.cdist(&wide, -1.0), "cannot be -1");
    fails(vector.pdist(2.0), "needs a matrix");
    fails(Tensor::zeros([0], DType::F64).vector_norm(f64::INFINITY, .., false), "nothing to choose from");
    fails(count(&[2, 2, 2]).linalg_norm(Some(NormOrd::Nuc), .., false), "over 3 axes");
    fails(Tensor::from([[f64::NAN]]).svdvals(), "matrix 0 of the batch");
}

#[test]
fn empty_matrices() {
    let none = Tensor::zeros([2, 0, 0], DType::F64);
    assert_eq!(vec(&none.det().unwrap()), [1.0, 1.0]);
    assert_eq!(vec(&none.logdet().unwrap()), [0.0, 0.0]);
    assert_eq!(none.inv_ex().unwrap().1.to_vec::<i32>().unwrap(), [0, 0]);
    assert_eq!(none.svdvals().unwrap().to_bytes().unwrap().len(), 0);
    assert_eq!(none.pinv(None, None).unwrap().to_bytes().unwrap().len(), 0);
    assert_eq!(vec(&none.matrix_norm(NormOrd::Nuc, [-2, -1], false).unwrap()), [0.0, 0.0]);
    let (q, r) = Tensor::zeros([3, 0], DType::F64).qr(QrMode::Complete).unwrap();
    assert_eq!((q.dims(), r.dims(), vec(&q).len()), (&[3, 3][..], &[3, 0][..], 9));
    let none = Tensor::zeros([0, 3], DType::F64);
    assert_eq!(vec(&none.vecdot(&none, 0).unwrap()), [0.0; 3]);
    assert_eq!(none.cdist(&count(&[2, 3]), 2.0).unwrap().dims(), [0, 2]);
    assert_eq!(count(&[1, 3]).pdist(2.0).unwrap().dims(), [0]);
}

#[test]
fn factors_multiply_back() {
    for (m, n) in [(3, 3), (4, 2), (2, 4)] {
        let a = count(&[2, m, n]) + Tensor::eye(m, n, DType::F64);
        let (p, l, u) = a.lu().unwrap();
        close(&vec(&p.matmul(&l).unwrap().matmul(&u).unwrap()), &vec(&a));
        for mode in [QrMode::Reduced, QrMode::Complete] {
            let (q, r) = a.qr(mode).unwrap();
            close(&vec(&q.matmul(&r).unwrap()), &vec(&a));
        }
        let (u, s, vh) = a.svd(false).unwrap();
        close(&vec(&(u * s.unsqueeze(-2).unwrap()).matmul(&vh).unwrap()), &vec(&a));
        let b = count(&[m, 3]);
        let l = a.lstsq(&b, None).unwrap();
        let normal = a.transpose(-2, -1).unwrap();
        let (left, right) = (normal.matmul(&a).unwrap().matmul(&l.solution).unwrap(), normal.matmul(&b).unwrap());
        close(&vec(&left), &vec(&right));
    }
    let f = count(&[3, 3]).to_dtype(DType::F32);
    assert_eq!(f.svdvals().unwrap().dtype(), DType::F32);
}

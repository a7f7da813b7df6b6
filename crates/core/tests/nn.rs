//! Neural functions where PyTorch's samples do not look: extremes, empties, errors.

use gradus_core::{
    AttentionOptions, BagMode, BatchNormOptions, CrossEntropyOptions, CtcOptions, DType, EmbeddingBagOptions,
    EmbeddingOptions, Error, ErrorKind, Reduction, Tensor, manual_seed,
};

fn v(t: &Tensor) -> Vec<f64> {
    t.to_vec::<f64>().unwrap()
}

#[track_caller]
fn close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len(), "{a:?} vs {b:?}");
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() <= 1e-9 * (1.0 + y.abs()) || (x.is_nan() && y.is_nan()), "{a:?} vs {b:?}");
    }
}

#[track_caller]
fn says(e: Error, what: &str) {
    assert!(e.to_string().contains(what), "{e}");
}

fn grad(f: impl Fn(&Tensor) -> Tensor, at: &[f64]) -> Vec<f64> {
    let x = Tensor::var("x", Tensor::from(at));
    v(&f(&x).sum().backward().unwrap().wrt(&x).unwrap())
}

#[test]
fn softmax_at_extremes() {
    let x = Tensor::from([[1e308, 0.0, -1e308], [f64::NEG_INFINITY, 0.0, 0.0]]);
    close(&v(&x.softmax(1).unwrap()), &[1.0, 0.0, 0.0, 0.0, 0.5, 0.5]);
    let ln = v(&Tensor::from([1000.0f64, 0.0]).log_softmax(0).unwrap());
    close(&ln, &[0.0, -1000.0]);
    assert!(v(&Tensor::from([f64::NEG_INFINITY; 2]).softmax(0).unwrap()).iter().all(|x| x.is_nan()));
    assert_eq!(Tensor::zeros([0, 3], DType::F32).softmax(0).unwrap().to_vec::<f32>().unwrap().len(), 0);
    assert_eq!(v(&Tensor::from(3.0f64).softmax(-1).unwrap()), [1.0]);
    says(x.softmax(2).unwrap_err(), "axis 2 is out of range -2..2");
    // Half precision adds up in f32: 4096 equal numbers.
    let h = Tensor::zeros([4096], DType::F16).softmax(0).unwrap();
    assert_eq!((h.dtype(), h.to_vec::<f32>().unwrap()[0]), (DType::F16, 1.0 / 4096.0));
}

#[test]
fn activations_at_their_corners() {
    // PyTorch's one-sided choices.
    close(&grad(|x| x.elu(2.0), &[0.0, 1000.0]), &[2.0, 1.0]);
    close(&grad(Tensor::relu6, &[0.0, 3.0, 6.0]), &[0.0, 1.0, 0.0]);
    close(&grad(|x| x.leaky_relu(0.1), &[0.0]), &[0.1]);
    close(&grad(Tensor::logsigmoid, &[0.0, -1e4, 1e4]), &[0.5, 1.0, 0.0]);
    close(&grad(|x| x.softplus(2.0, 20.0).unwrap(), &[0.0, 1e4, -1e4]), &[0.5, 1.0, 0.0]);
    close(&v(&Tensor::from([-1e4f64, 1e4]).logsigmoid()), &[-1e4, 0.0]);
    close(&v(&Tensor::from([f64::NAN]).softshrink(0.5).unwrap()), &[f64::NAN]);
    close(&grad(Tensor::hardswish, &[-3.0, 0.0, 3.0]), &[0.0, 0.5, 1.0]);
    // The second derivative of softplus at 0 is sigmoid'(0).
    let x = Tensor::var("x", 0.0f64);
    let g = x.logsigmoid().backward().unwrap().wrt(&x).unwrap();
    close(&v(&g.backward().unwrap().wrt(&x).unwrap()), &[-0.25]);
    says(x.softshrink(-1.0).unwrap_err(), "lambda cannot be -1");
    says(Tensor::zeros([2, 3], DType::F32).glu(1).unwrap_err(), "axis 1 of [2, 3] has 3");
    says(Tensor::zeros([2, 3], DType::F32).prelu(&Tensor::from([1.0f32, 2.0])).unwrap_err(), "3 channels");
}

#[test]
fn dropout_keeps_its_promise() {
    manual_seed(3);
    let x = Tensor::ones([4, 50, 7], DType::F64);
    let y = v(&x.dropout(0.25, true).unwrap());
    let kept = y.iter().filter(|&&y| y != 0.0).count();
    assert!(y.iter().all(|&y| y == 0.0 || (y - 4.0 / 3.0).abs() < 1e-12) && (950..1150).contains(&kept), "{kept}");
    assert_eq!(v(&x.dropout(0.25, false).unwrap()), vec![1.0; 1400]);
    assert_eq!(v(&x.dropout(1.0, true).unwrap()), vec![0.0; 1400]);
    let c = v(&x.feature_dropout(0.5, true).unwrap());
    assert!(c.chunks(7).all(|c| c.iter().all(|&y| y == c[0])));
    says(x.dropout(1.5, true).unwrap_err(), "not 1.5");
    says(x.dropout_with(&Tensor::from([true, false]), 0.5).unwrap_err(), "[2]");
    // Alpha dropout keeps mean 0 and variance 1.
    let n = Tensor::randn([20_000]).to_dtype(DType::F64).alpha_dropout(0.3, true).unwrap();
    let (mean, square) = (n.mean().item::<f64>().unwrap(), n.square().mean().item::<f64>().unwrap());
    assert!(mean.abs() < 0.05 && (square - 1.0).abs() < 0.06, "{mean} {square}");
}

#[test]
fn norms_reject_and_survive() {
    let x = Tensor::zeros([2, 3], DType::F64);
    says(x.layer_norm([4], None, None, 1e-5).unwrap_err(), "[2, 3] does not end with the shape to normalise, [4]");
    says(x.layer_norm([3], Some(&Tensor::from([1.0f64])), None, 1e-5).unwrap_err(), "the weight must be [3], not [1]");
    says(x.group_norm(2, None, None, 1e-5).unwrap_err(), "3 channels, which 2 groups");
    let train = BatchNormOptions { training: true, ..Default::default() };
    let one = Tensor::zeros([1, 3], DType::F64);
    says(one.batch_norm(None, None, None, &train).unwrap_err(), "more than one value");
    says(x.batch_norm(None, None, None, &Default::default()).unwrap_err(), "running statistics");
    // A large mean does not eat the variance.
    let y = v(&Tensor::from([1e8f64, 1e8 + 2.0]).layer_norm([2], None, None, 0.0).unwrap());
    close(&y, &[-1.0, 1.0]);
    assert_eq!(x.narrow(0, 0, 0).unwrap().layer_norm([3], None, None, 1e-5).unwrap().to_vec::<f64>().unwrap().len(), 0);
    // Running statistics: the unbiased variance goes in.
    let stats = (Tensor::zeros([1], DType::F64), Tensor::ones([1], DType::F64));
    let data = Tensor::from([[1.0f64], [3.0]]);
    let (_, new) = data.batch_norm(Some(&stats), None, None, &train).unwrap();
    let (mean, var) = new.unwrap();
    close(&v(&mean), &[0.2]);
    close(&v(&var), &[0.9 + 0.1 * 2.0]);
}

#[test]
fn cross_entropy_of_labels() {
    let x = Tensor::from([[1.0f64, 2.0, 3.0], [0.0, 0.0, 0.0]]);
    let none = CrossEntropyOptions { reduction: Reduction::None, ..Default::default() };
    let ln3 = 3f64.ln();
    let first = v(&x.cross_entropy_with(&Tensor::from([2i64, -100]), &none).unwrap());
    close(&first, &[0.407_605_964_444_380_2, 0.0]);
    close(&v(&x.cross_entropy(&Tensor::from([-100i64, 1])).unwrap()), &[ln3]);
    // All ignored, or no rows: 0 / 0, as in PyTorch.
    assert!(x.cross_entropy(&Tensor::from([-100i64; 2])).unwrap().item::<f64>().unwrap().is_nan());
    let empty = Tensor::zeros([0, 3], DType::F64).cross_entropy(&Tensor::zeros([0], DType::I64)).unwrap();
    assert!(empty.item::<f64>().unwrap().is_nan());
    // Certain and right, far from zero: no loss of digits.
    let far = Tensor::from([[1e6f64, 1e6 - 30.0]]).cross_entropy(&Tensor::from([0i64])).unwrap();
    let far = far.item::<f64>().unwrap();
    assert!((far / (-30f64).exp() - 1.0).abs() < 1e-2, "{far}");
    // Smoothed labels are soft targets.
    let smooth = CrossEntropyOptions { label_smoothing: 0.3, ..Default::default() };
    let hard = x.cross_entropy_with(&Tensor::from([2i64, 0]), &smooth).unwrap();
    let soft = x.cross_entropy(&Tensor::from([[0.1f64, 0.1, 0.8], [0.8, 0.1, 0.1]])).unwrap();
    close(&v(&hard), &v(&soft));
}

#[test]
fn cross_entropy_gradient_to_second_order() {
    // d/dx = (softmax - onehot) / N, and the second derivative of one logit is p (1 - p) / N.
    let x = Tensor::var("x", Tensor::from([[0.5f64, -0.5], [1.0, 2.0]]));
    let g = x.cross_entropy(&Tensor::from([0i64, 1])).unwrap().backward().unwrap().wrt(&x).unwrap();
    let p = v(&x.softmax(1).unwrap());
    close(&v(&g), &[(p[0] - 1.0) / 2.0, p[1] / 2.0, p[2] / 2.0, (p[3] - 1.0) / 2.0]);
    let first = g.select(0, 0).unwrap().select(0, 0).unwrap();
    let h = v(&first.backward().unwrap().wrt(&x).unwrap());
    close(&h, &[p[0] * p[1] / 2.0, -p[0] * p[1] / 2.0, 0.0, 0.0]);
}

#[test]
fn wrong_labels_are_named() {
    let x = Tensor::zeros([2, 3], DType::F64);
    let e = x.cross_entropy(&Tensor::from([0i64, 7])).unwrap().item::<f64>().unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Index { index: 7, size: 3, .. }), "{e}");
    says(x.cross_entropy(&Tensor::from([0i64])).unwrap_err(), "must be [2], not [1]");
    says(x.cross_entropy(&Tensor::from([0.5f64, 0.5])).unwrap_err(), "labels must be integers");
    let bad = CrossEntropyOptions { label_smoothing: 2.0, ..Default::default() };
    says(x.cross_entropy_with(&Tensor::from([0i64, 0]), &bad).unwrap_err(), "not 2");
    let e = x.embedding(&Tensor::from([2i64])).unwrap().eval().unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Index { index: 2, size: 2, .. }), "{e}");
}

#[test]
fn bce_at_the_edges() {
    let y = Tensor::from([1.0f64, 0.0, 1.0]);
    let f = |x: &Tensor| x.binary_cross_entropy(&y, None, Reduction::Sum).unwrap();
    close(&v(&f(&Tensor::from([0.0f64, 1.0, 1.0]))), &[200.0]);
    close(&grad(f, &[0.0, 1.0, 1.0]), &[-1e12, 1e12, 0.0]);
    let logits = Tensor::from([-1e4f64, 1e4, 0.0]);
    let loss = logits.binary_cross_entropy_with_logits(&y, None, None, Reduction::None).unwrap();
    close(&v(&loss), &[1e4, 1e4, 2f64.ln()]);
    says(
        logits.binary_cross_entropy(&Tensor::from([1.0f64]), None, Reduction::Mean).unwrap_err(),
        "differ in shape: [3] and [1]",
    );
}

#[test]
fn attention_with_nothing_to_see() {
    let q = Tensor::var("q", Tensor::from([[1.0f64, 0.0], [0.0, 1.0]]));
    let value = Tensor::from([[1.0f64], [3.0]]);
    let mask = Tensor::from([[false, false], [true, false]]);
    let o = AttentionOptions { attn_mask: Some(mask), ..Default::default() };
    let out = q.scaled_dot_product_attention(&q, &value, &o).unwrap();
    close(&v(&out), &[0.0, 1.0]);
    let g = v(&out.sum().backward().unwrap().wrt(&q).unwrap());
    assert!(g.iter().all(|g| g.is_finite()), "{g:?}");
    let both = AttentionOptions { is_causal: true, ..o };
    says(q.scaled_dot_product_attention(&q, &value, &both).unwrap_err(), "exclude each other");
    says(q.scaled_dot_product_attention(&value, &value, &Default::default()).unwrap_err(), "last axis (2 vs 1)");
}

#[test]
fn shared_heads_are_repeated_heads() {
    manual_seed(9);
    let r = |s: [usize; 4]| Tensor::randn(s).to_dtype(DType::F64);
    let (q, k, w) = (r([2, 4, 3, 5]), r([2, 2, 6, 5]), r([2, 2, 6, 7]));
    let shared = AttentionOptions { enable_gqa: true, ..Default::default() };
    let a = q.scaled_dot_product_attention(&k, &w, &shared).unwrap();
    let repeat = |t: &Tensor| {
        let heads: Vec<Tensor> = (0..4).map(|h| t.narrow(1, h / 2, 1).unwrap()).collect();
        Tensor::cat(&heads.iter().collect::<Vec<_>>(), 1).unwrap()
    };
    let b = q.scaled_dot_product_attention(&repeat(&k), &repeat(&w), &Default::default()).unwrap();
    assert_eq!(a.dims(), [2, 4, 3, 7]);
    close(&v(&a), &v(&b));
    let odd = r([2, 3, 3, 5]);
    says(odd.scaled_dot_product_attention(&k, &w, &shared).unwrap_err(), "3 heads of queries cannot share 2");
}

#[test]
fn embeddings_and_bags() {
    let table = Tensor::var("t", Tensor::from([[1.0f64, 2.0], [3.0, 4.0], [5.0, 6.0]]));
    let o = EmbeddingOptions { padding_idx: Some(-1), scale_grad_by_freq: true, ..Default::default() };
    let rows = table.embedding_with(&Tensor::from([0i64, 0, 2, 1]), &o).unwrap();
    close(&v(&rows), &[1.0, 2.0, 1.0, 2.0, 5.0, 6.0, 3.0, 4.0]);
    close(&v(&rows.sum().backward().unwrap().wrt(&table).unwrap()), &[1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    let bag = |mode, index: &[i64], offsets: &[i64]| {
        let offsets = Some(Tensor::from(offsets));
        let o = EmbeddingBagOptions { mode, offsets, padding_idx: Some(1), ..Default::default() };
        v(&table.embedding_bag(&Tensor::from(index), &o).unwrap())
    };
    // Bags [0, 1], [] and [2, 0]; row 1 does not count.
    close(&bag(BagMode::Sum, &[0, 1, 2, 0], &[0, 2, 2]), &[1.0, 2.0, 0.0, 0.0, 6.0, 8.0]);
    close(&bag(BagMode::Mean, &[0, 1, 2, 0], &[0, 2, 2]), &[1.0, 2.0, 0.0, 0.0, 3.0, 4.0]);
    close(&bag(BagMode::Max, &[0, 1, 2, 0], &[0, 2, 2]), &[1.0, 2.0, 0.0, 0.0, 5.0, 6.0]);
    says(table.embedding_bag(&Tensor::from([0i64]), &Default::default()).unwrap_err(), "[B, L]");
    let short = EmbeddingOptions { max_norm: Some(1.0), ..Default::default() };
    let y = v(&table.embedding_with(&Tensor::from([1i64]), &short).unwrap());
    assert!((y[0] - 0.6).abs() < 1e-6 && (y[1] - 0.8).abs() < 1e-6);
}

#[test]
fn ctc_counts_alignments() {
    // Two steps, three classes, target [1]: paths 11, 01, 10 of 9, all of probability 1/9.
    let x = Tensor::var("x", Tensor::zeros([2, 1, 3], DType::F64)).log_softmax(2).unwrap();
    let none = CtcOptions { reduction: Reduction::None, ..Default::default() };
    let target = Tensor::from([[1i64]]);
    close(&v(&x.ctc_loss(&target, &[2], &[1], &none).unwrap()), &[3f64.ln()]);
    // An empty target is blanks only; one step is one path.
    close(&v(&x.ctc_loss(&target, &[2], &[0], &none).unwrap()), &[9f64.ln()]);
    close(&v(&x.ctc_loss(&target, &[1], &[1], &none).unwrap()), &[3f64.ln()]);
    // 1 1 needs a blank between: it does not fit in two steps.
    let twice = Tensor::from([[1i64, 1]]);
    assert_eq!(v(&x.ctc_loss(&twice, &[2], &[2], &none).unwrap()), [f64::INFINITY]);
    let zero = CtcOptions { zero_infinity: true, ..none };
    assert_eq!(v(&x.ctc_loss(&twice, &[2], &[2], &zero).unwrap()), [0.0]);
    says(x.ctc_loss(&target, &[3], &[1], &none).unwrap_err(), "length of 3 is more than the 2 steps");
}

#[test]
fn ctc_gradient_matches_differences() {
    manual_seed(5);
    let at = Tensor::randn([4, 2, 3]).to_dtype(DType::F64);
    let base = v(&at);
    let loss = |x: &Tensor| {
        let p = x.log_softmax(2).unwrap();
        p.ctc_loss(&Tensor::from([1i64, 2, 2]), &[4, 3], &[2, 1], &Default::default()).unwrap()
    };
    let x = Tensor::var("x", Tensor::from_slice(&base, [4, 2, 3]).unwrap());
    let g = v(&loss(&x).backward().unwrap().wrt(&x).unwrap());
    for i in 0..base.len() {
        let at = |d: f64| {
            let mut b = base.clone();
            b[i] += d;
            loss(&Tensor::from_slice(&b, [4, 2, 3]).unwrap()).item::<f64>().unwrap()
        };
        let want = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!((g[i] - want).abs() < 1e-8, "{i}: {} vs {want}", g[i]);
    }
}

#[test]
fn distances_at_zero() {
    close(&grad(|x| x.normalize(2.0, 0, 1e-12).unwrap(), &[0.0, 0.0]), &[1e12, 1e12]);
    let zero = Tensor::from([0.0f64, 0.0]);
    close(&grad(|x| x.pairwise_distance(&zero, 2.0, 0.0, false).unwrap(), &[0.0, 0.0]), &[0.0, 0.0]);
    close(&grad(|x| x.cosine_similarity(&Tensor::from([1.0f64, 0.0]), 0, 1e-8).unwrap(), &[0.0, 0.0]), &[1e8, 0.0]);
    says(zero.mse_loss(&Tensor::from([1.0f64; 3]), Reduction::Mean).unwrap_err(), "[2] and [3]");
    says(zero.huber_loss(&zero, 0.0, Reduction::Mean).unwrap_err(), "delta cannot be 0");
}

#[test]
fn linear_names_its_shapes() {
    let (x, w) = (Tensor::zeros([4, 3], DType::F32), Tensor::zeros([5, 2], DType::F32));
    says(x.linear(&w, None).unwrap_err(), "linear: a weight [5, 2] does not fit inputs [4, 3]");
    says(x.bilinear(&x, &w, None).unwrap_err(), "bilinear: a weight [5, 2]");
}

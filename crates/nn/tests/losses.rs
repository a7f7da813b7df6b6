//! Every loss against PyTorch: values and gradients, under every reduction.

mod common;

use common::Fixtures;
use gradus_core::{CtcOptions, Reduction, Result, Tensor, TripletMarginOptions};
use gradus_nn::{Identity, loss::*};

const REDUCTIONS: [(&str, Reduction); 3] =
    [("none", Reduction::None), ("mean", Reduction::Mean), ("sum", Reduction::Sum)];

/// Two inputs, under every reduction.
fn pairs<L: Loss>(f: &Fixtures, name: &str, make: impl Fn(Reduction) -> L) {
    for (suffix, reduction) in REDUCTIONS {
        let loss = make(reduction);
        f.check(&format!("{name}_{suffix}"), &Identity, |x| Ok(vec![loss.forward(&x[0], &x[1])?]));
    }
}

fn fixtures() -> Fixtures {
    Fixtures::load("losses.safetensors")
}

fn class_weights() -> Option<Tensor> {
    Some(Tensor::from([0.5f32, 1.0, 2.0, 1.5]))
}

fn signs() -> Tensor {
    Tensor::from([1.0f32, -1.0, 1.0])
}

fn signs_of_rows() -> Tensor {
    signs().unsqueeze(1).unwrap().expand([3, 4]).unwrap()
}

#[test]
fn of_elements() {
    let f = fixtures();
    pairs(&f, "mse", |reduction| MseLoss { reduction });
    pairs(&f, "l1", |reduction| L1Loss { reduction });
    pairs(&f, "smooth_l1", |reduction| SmoothL1Loss { beta: 0.6, reduction });
    pairs(&f, "huber", |reduction| HuberLoss { delta: 0.6, reduction });
    pairs(&f, "bce", |reduction| BceLoss { weight: None, reduction });
    pairs(&f, "bce_logits", |reduction| BceWithLogitsLoss { weight: None, pos_weight: class_weights(), reduction });
    pairs(&f, "poisson", |reduction| PoissonNllLoss { full: true, reduction, ..Default::default() });
    let log_kl = |reduction| {
        move |x: &Tensor, y: &Tensor| KlDivLoss { log_target: false, reduction }.forward(&x.log_softmax(1)?, y)
    };
    pairs(&f, "kl", log_kl);
    let batch_mean = log_kl(Reduction::BatchMean);
    f.check("kl_batchmean", &Identity, |x| Ok(vec![batch_mean.forward(&x[0], &x[1])?]));
}

#[test]
fn of_classes() {
    let f = fixtures();
    pairs(&f, "cross_entropy", |reduction| CrossEntropyLoss {
        weight: class_weights(),
        ignore_index: 3,
        label_smoothing: 0.1,
        reduction,
    });
    pairs(&f, "nll", |reduction| {
        let loss = NllLoss { weight: class_weights(), reduction, ..Default::default() };
        move |x: &Tensor, y: &Tensor| loss.forward(&x.log_softmax(1)?, y)
    });
    let soft = CrossEntropyLoss { label_smoothing: 0.2, ..Default::default() };
    f.check("cross_entropy_soft", &Identity, |x| Ok(vec![soft.forward(&x[0], &x[1])?]));
    let plain = CrossEntropyLoss::default();
    f.check("cross_entropy_images", &Identity, |x| Ok(vec![plain.forward(&x[0], &x[1])?]));
}

#[test]
fn of_several_tensors() {
    let f = fixtures();
    type Run = Box<dyn Fn(&[Tensor], Reduction) -> Result<Tensor>>;
    let cases: [(&str, Run); 7] = [
        (
            "gaussian",
            Box::new(|x, reduction| {
                GaussianNllLoss { full: true, reduction, ..Default::default() }.forward(&x[0], &x[1], &x[2])
            }),
        ),
        ("soft_margin", Box::new(|x, reduction| SoftMarginLoss { reduction }.forward(&x[0], &signs_of_rows()))),
        (
            "hinge",
            Box::new(|x, reduction| HingeEmbeddingLoss { margin: 0.8, reduction }.forward(&x[0], &signs_of_rows())),
        ),
        (
            "ranking",
            Box::new(|x, reduction| MarginRankingLoss { margin: 0.3, reduction }.forward(&x[0], &x[1], &signs())),
        ),
        (
            "triplet",
            Box::new(|x, reduction| {
                let options = TripletMarginOptions { margin: 1.2, swap: true, reduction, ..Default::default() };
                TripletMarginLoss { options }.forward(&x[0], &x[1], &x[2])
            }),
        ),
        (
            "cosine",
            Box::new(|x, reduction| CosineEmbeddingLoss { margin: -0.9, reduction }.forward(&x[0], &x[1], &signs())),
        ),
        (
            "ctc",
            Box::new(|x, reduction| {
                let options = CtcOptions { reduction, ..Default::default() };
                CtcLoss { options }.forward(&x[0].log_softmax(2)?, &x[1], &[5, 4], &[2, 1])
            }),
        ),
    ];
    for (name, run) in &cases {
        for (suffix, reduction) in REDUCTIONS {
            f.check(&format!("{name}_{suffix}"), &Identity, |x| Ok(vec![run(x, reduction)?]));
        }
    }
}

#[test]
fn a_distance_of_ones_own() -> Result<()> {
    let [a, p, n] = [0, 1, 2].map(|_| Tensor::randn([3, 4]));
    let own = TripletMarginWithDistanceLoss::new(|x, y| x.pairwise_distance(y, 2.0, 1e-6, false));
    let usual = TripletMarginLoss::default();
    common::near("triplet", &own.forward(&a, &p, &n)?, &usual.forward(&a, &p, &n)?);
    Ok(())
}

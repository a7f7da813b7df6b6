//! Metrics against numbers worked out by hand (and, where noted, scikit-learn's).

use gradus_core::Tensor;
use gradus_train::metrics::*;

#[test]
fn top_k_counts_ties_and_nan_once() {
    let scores = Tensor::from([[0.1f32, 0.5, 0.4], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [f32::NAN, 1.0, 0.0]]);
    let target = Tensor::from([2i64, 0, 1, 0]);
    assert_eq!(accuracy(&scores, &target).unwrap(), 0.25);
    assert_eq!(top_k_accuracy(&scores, &target, 2).unwrap(), 0.75);
    assert!(TopK::new(1).value().is_nan());
    for (target, why) in [
        (Tensor::from([0i64, 1, 2, 3]), "a target is 3, and there are 3 classes"),
        (Tensor::from([0i64, -1, 2, 1]), "a target is -1"),
        (Tensor::from([0i64]), "4 rows need as many"),
        (Tensor::from([0.0f32, 1.0, 1.0, 1.0]), "whole numbers"),
    ] {
        let e = accuracy(&scores, &target).unwrap_err().to_string();
        assert!(e.contains(why) && e.contains("metrics"), "{e}");
    }
}

#[test]
fn a_confusion_matrix_in_numbers_and_print() {
    // scikit-learn's example for f1_score: macro 0.26..., weighted 0.26..., micro 0.33...
    let (target, predicted) = (Tensor::from([0i64, 1, 2, 0, 1, 2]), Tensor::from([0i64, 2, 1, 0, 0, 1]));
    let mut m = ConfusionMatrix::new(4).labels(["cat", "dog", "bird", "unseen"]);
    m.update(&predicted.narrow(0, 0, 4).unwrap(), &target.narrow(0, 0, 4).unwrap()).unwrap();
    m.update(&predicted.narrow(0, 4, 2).unwrap(), &target.narrow(0, 4, 2).unwrap()).unwrap();
    assert_eq!((m.count(0, 0), m.count(1, 2), m.count(2, 1), m.count(9, 9)), (2, 1, 2, 0));
    let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(near(m.accuracy(), 1.0 / 3.0) && near(m.precision(0), 2.0 / 3.0) && near(m.recall(0), 1.0));
    assert!(near(m.f1_score(Average::Macro), 0.8 / 3.0) && near(m.f1_score(Average::Weighted), 0.8 / 3.0));
    assert!(near(m.f1_score(Average::Micro), 1.0 / 3.0) && near(m.precision_score(Average::Macro), 2.0 / 9.0));
    assert!(near(m.recall_score(Average::Macro), 1.0 / 3.0) && m.precision(3) == 0.0);
    let text = m.to_string();
    assert!(text.contains("target │    cat    dog   bird unseen │ recall"), "{text}");
    assert!(text.contains("  bird │      ·      2      ·      · │   0.0%"), "{text}");
    assert!(text.ends_with("accuracy 0.3333, macro F1 0.2667"), "{text}");
    assert!(m.update(&Tensor::from([[1.0f32, 2.0]]), &Tensor::from([0i64])).is_err());
}

#[test]
fn regression_over_batches_is_that_of_all_at_once() {
    let (p, t) = (Tensor::randn([100]), Tensor::randn([100]) + 1e6);
    let (mut whole, mut parts) = (Regression::default(), Regression::default());
    whole.update(&p, &t).unwrap();
    for i in 0..4 {
        parts.update(&p.narrow(0, 25 * i, 25).unwrap(), &t.narrow(0, 25 * i, 25).unwrap()).unwrap();
    }
    assert_eq!((whole.mae(), whole.rmse(), whole.r2()), (parts.mae(), parts.rmse(), parts.r2()));
    let mut same = Regression::default();
    same.update(&Tensor::from([1.0f32, 1.0]), &Tensor::from([1.0f32, 1.0])).unwrap();
    assert_eq!(same.r2(), 1.0);
    assert!(same.update(&Tensor::from([1.0f32]), &Tensor::from([[1.0f32]])).is_err());
    let uniform = Tensor::from([[0.0f32; 8]; 2]);
    assert!((perplexity(&uniform, &Tensor::from([3i64, 5])).unwrap() - 8.0).abs() < 1e-5);
}

//! Every example runs here, with little of everything: that it still works and goes the right way. What each one reaches
//! in its full length is in docs/training.md.

/// The examples as modules: their `main` is for people.
macro_rules! examples {
    ($($name:ident $path:literal;)*) => {$(
        #[allow(dead_code)]
        #[path = $path]
        mod $name;
    )*};
}
examples! {
    tensors "../examples/01_tensors.rs";
    autograd "../examples/02_autograd.rs";
    sine "../examples/03_sine.rs";
    mlp_digits "../examples/04_mlp_digits.rs";
    convnet "../examples/05_convnet.rs";
    custom_op "../examples/06_custom_op.rs";
    pinn "../examples/07_pinn.rs";
    lstm "../examples/08_lstm.rs";
    translate "../examples/09_translate.rs";
    gpt "../examples/10_gpt.rs";
    load_pytorch "../examples/11_load_pytorch.rs";
    scalar "../examples/12_scalar.rs";
}

#[test]
fn e01_tensors() {
    assert_eq!(tensors::tour().unwrap(), 2.0 + 6.0 + 5.0 + 12.0);
}

#[test]
fn e02_autograd() {
    let off = autograd::tour(200).unwrap();
    assert!(off < 1e-6, "{off}");
}

#[test]
fn e03_sine() {
    let (by_hand, layers) = (sine::by_hand(100).unwrap(), sine::with_layers(100).unwrap());
    assert!(by_hand < 0.2 && layers < 0.1, "{by_hand} {layers}");
}

#[test]
fn e04_mlp_digits() {
    let accuracy = mlp_digits::learn(3).unwrap();
    assert!(accuracy > 0.7, "{accuracy}");
}

#[test]
fn e05_convnet() {
    let folder = tempfile::tempdir().unwrap();
    let accuracy = convnet::learn(1, &folder.path().join("model.safetensors")).unwrap();
    assert!(accuracy > 0.7, "{accuracy}");
}

#[test]
fn e06_custom_op() {
    let x = custom_op::fit(40).unwrap();
    assert!((x - 1f64.exp()).abs() < 1e-3, "{x}");
}

#[test]
fn e07_pinn() {
    let off = pinn::learn(150).unwrap();
    assert!(off < 1.0, "{off}");
}

#[test]
fn e08_lstm() {
    let error = lstm::learn(60).unwrap();
    assert!(error < 0.25, "{error}");
}

#[test]
fn e09_translate() {
    let right = translate::learn(3).unwrap();
    assert!((0.0..=1.0).contains(&right), "{right}");
}

#[test]
fn e10_gpt() {
    let text = "to be, or not to be: that is the question.\n".repeat(60);
    let (loss, sample) = gpt::learn(&text, 30).unwrap();
    assert!(loss < 2.5, "{loss}"); // knowing nothing is ln 17 = 2.8
    assert_eq!(sample.chars().count(), 8 * 33);
}

#[test]
fn e11_load_pytorch() {
    let (right, there, apart) = load_pytorch::compare().unwrap();
    assert_eq!(right, there);
    assert!(apart < 1e-4, "{apart}");
}

#[test]
fn e12_scalar() {
    let worst = scalar::xor(400);
    assert!(worst < 0.2, "{worst}");
}

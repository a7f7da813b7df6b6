//! Modules: names, states, modes, moves, and the table of a summary.

use gradus_core::{DType, Result, Tensor};
use gradus_io::StateDict;
use gradus_nn::*;
use std::collections::HashMap;

#[derive(Module)]
struct Block {
    conv: Conv1d,
    norm: BatchNorm1d,
    activation: Relu,
}

#[derive(Module)]
enum Head {
    One(Linear),
    Two { first: Linear, second: Linear },
    None,
}

#[derive(Module)]
struct Pair(Linear, Option<Linear>);

#[derive(Module)]
struct Net<L> {
    blocks: Vec<Block>,
    #[module(rename = "classifier")]
    head: Head,
    pair: Pair,
    named: HashMap<String, Linear>,
    tuple: (Linear, Relu),
    scale: Param,
    seen: Buffer,
    table: Option<Buffer>,
    inner: L,
    boxed: Box<dyn Layer>,
    #[module(flatten)]
    flat: Bilinear,
    r#type: [Param; 2],
    #[module(skip)]
    anything: std::cell::RefCell<Vec<Tensor>>,
    width: usize,
    dropout: Dropout,
}

fn net() -> Net<Sequential> {
    let linear = || Linear::new(2, 2);
    Net {
        blocks: (0..2)
            .map(|_| Block {
                conv: Conv1d::new(1, 1, 1).unwrap().bias(false),
                norm: BatchNorm1d::new(1),
                activation: Relu,
            })
            .collect(),
        head: Head::One(linear()),
        pair: Pair(linear().bias(false), None),
        named: ["b", "a"].map(|k| (k.to_string(), linear().bias(false))).into(),
        tuple: (linear().bias(false), Relu),
        scale: Param::new(Tensor::from([1.0f32])),
        seen: Buffer::new(Tensor::from([0i64])),
        table: Some(Buffer::temporary(Tensor::from([3.0f32]))),
        inner: Sequential::from((Relu, linear().bias(false))),
        boxed: Box::new(linear().bias(false)),
        flat: Bilinear::new(1, 1, 1),
        r#type: [Param::new(Tensor::from(1.0f32)), Param::new(Tensor::from(2.0f32))],
        anything: Default::default(),
        width: 2,
        dropout: Dropout::new(0.5),
    }
}

fn names<T>(of: Vec<(String, T)>) -> Vec<String> {
    of.into_iter().map(|(n, _)| n).collect()
}

#[test]
fn names_are_those_of_pytorch() {
    let net = net();
    assert_eq!(
        names(net.named_parameters()),
        [
            "blocks.0.conv.weight",
            "blocks.0.norm.weight",
            "blocks.0.norm.bias",
            "blocks.1.conv.weight",
            "blocks.1.norm.weight",
            "blocks.1.norm.bias",
            "classifier.weight",
            "classifier.bias",
            "pair.0.weight",
            "named.a.weight",
            "named.b.weight",
            "tuple.0.weight",
            "scale",
            "inner.1.weight",
            "boxed.weight",
            "weight",
            "bias",
            "type.0",
            "type.1",
        ]
    );
    let buffers = names(net.named_buffers());
    assert_eq!(
        buffers[..3],
        ["blocks.0.norm.running_mean", "blocks.0.norm.running_var", "blocks.0.norm.num_batches_tracked"]
    );
    assert_eq!(buffers[6..], ["seen", "table"]);
    // What can be made again is not saved.
    let state = net.state_dict();
    assert!(state.contains("seen") && !state.contains("table"));
    assert_eq!(net.num_parameters(), 2 * 3 + 6 + 4 + 4 * 2 + 4 + 1 + 4 + 4 + 2 + 2);
    assert_eq!((net.width, net.anything.borrow().len()), (2, 0));
    let two = Head::Two { first: Linear::new(1, 1), second: Linear::new(1, 1) };
    assert_eq!(names(two.named_parameters())[2], "second.weight");
    assert!(Head::None.parameters().is_empty());
}

#[test]
fn a_state_goes_from_one_model_to_another() -> Result<()> {
    let (a, b) = (net(), net());
    b.load_state_dict(&a.state_dict())?;
    for ((name, x), (_, y)) in a.named_parameters().iter().zip(b.named_parameters()) {
        assert!(x.equal(&y)?, "{name}");
    }
    Ok(())
}

#[test]
fn a_state_that_does_not_fit_says_all_that_is_wrong_and_changes_nothing() -> Result<()> {
    let model = Sequential::from((Linear::new(3, 4), Relu, Linear::new(4, 2)));
    let before = model.state_dict();
    let mut state = StateDict::new();
    for (name, t) in before.iter() {
        state.insert(name, t + 1.0);
    }
    state.remove("0.bias");
    state.insert("2.weight", Tensor::randn([2, 5]));
    state.insert("head.weight", Tensor::randn([1]));
    let e = model.load_state_dict(&state).unwrap_err().to_string();
    for part in [
        "load_state_dict: 1 missing: `0.bias`; 1 unexpected: `head.weight`; ",
        "1 of another shape: `2.weight` is [2, 4] here and [2, 5] there",
    ] {
        assert!(e.contains(part), "{e}");
    }
    for (name, t) in model.state_dict().iter() {
        assert!(t.equal(before.tensor(name)?)?, "{name} changed");
    }
    assert!(model.load_state_dict_partial(&state).is_err(), "shapes must agree");
    state.remove("2.weight");
    let report = model.load_state_dict_partial(&state)?;
    assert_eq!(report.missing, ["0.bias", "2.weight"]);
    assert_eq!(report.unexpected, ["head.weight"]);
    assert!(model.state_dict().tensor("0.weight")?.equal(&(before.tensor("0.weight")? + 1.0))?);
    Ok(())
}

#[test]
fn old_checkpoints_do_without_a_counter_of_batches() -> Result<()> {
    let norm = BatchNorm1d::new(2);
    let mut state = norm.state_dict();
    state.remove("num_batches_tracked");
    norm.load_state_dict(&state)
}

#[test]
fn modes_reach_every_layer() -> Result<()> {
    let net = net();
    let x = Tensor::ones([4, 1, 3], DType::F32);
    assert!(!net.dropout.forward(&x)?.equal(&x)?);
    net.eval();
    assert!(net.dropout.forward(&x)?.equal(&x)?);
    let before = net.blocks[1].norm.state_dict();
    net.blocks[1].norm.forward(&x)?.eval()?;
    assert!(before.tensor("running_mean")?.equal(net.blocks[1].norm.state_dict().tensor("running_mean")?)?);
    net.train();
    net.blocks[1].norm.forward(&x)?.eval()?;
    let after = net.blocks[1].norm.state_dict();
    assert_eq!(after.tensor("num_batches_tracked")?.item::<i64>()?, 1);
    assert!((after.tensor("running_mean")?.item::<f32>()? - 0.1).abs() < 1e-6);
    Ok(())
}

#[test]
fn frozen_layers_get_no_gradient() -> Result<()> {
    let model = Sequential::from((Linear::new(3, 4), Tanh, Linear::new(4, 2)));
    let x = Tensor::randn([5, 3]);
    let first = model.iter().next().unwrap();
    first.freeze();
    let grads = model.forward(&x)?.sum().backward()?;
    assert_eq!(names(model.named_gradients(&grads)), ["2.weight", "2.bias"]);
    assert!(grads.missing().is_empty());
    assert!(model.summary().contains("(10 trained, 16 frozen)"), "{}", model.summary());
    first.unfreeze();
    let grads = model.forward(&x)?.sum().backward()?;
    assert_eq!(model.named_gradients(&grads).len(), 4);
    Ok(())
}

#[test]
fn other_types_keep_shared_weights_shared_and_frozen_ones_frozen() -> Result<()> {
    #[derive(Module)]
    struct Tied {
        embedding: Embedding,
        out: Linear,
        count: Buffer,
    }
    let embedding = Embedding::new(5, 3);
    let mut out = Linear::new(3, 5);
    out.weight = embedding.weight.clone();
    let mut model = Tied { embedding, out, count: Buffer::new(Tensor::from([1i64])) };
    assert_eq!(names(model.named_parameters()), ["embedding.weight", "out.bias"]);
    assert_eq!(model.num_parameters(), 20);
    assert_eq!(model.state_dict().len(), 4, "a state has both names");
    model.out.bias.as_ref().unwrap().set_trainable(false);
    model.to_dtype(DType::F64)?;
    assert_eq!(names(model.named_parameters()), ["embedding.weight", "out.bias"]);
    assert_eq!((model.embedding.weight.dtype(), model.count.dtype()), (DType::F64, DType::I64));
    assert!(!model.out.bias.as_ref().unwrap().is_trainable() && model.out.weight.is_trainable());
    let scores = model.out.forward(&model.embedding.forward(&Tensor::from([1i64]))?)?;
    assert_eq!(scores.dtype(), DType::F64);
    let e = model.to_dtype(DType::I64).unwrap_err().to_string();
    assert!(e.contains("to_dtype: parameters are floats, and i64 is not"), "{e}");
    Ok(())
}

#[test]
fn a_summary_is_a_table() {
    let model = Sequential::from((
        Conv2d::new(1, 16, 3).unwrap().padding(1),
        BatchNorm2d::new(16),
        Relu,
        MaxPool2d::new(2),
        Flatten::default(),
        Sequential::from((Linear::new(256, 64), Dropout::new(0.1), Linear::new(64, 10).bias(false))),
    ));
    model.iter().nth(1).unwrap().freeze();
    assert_eq!(
        model.summary(),
        "\
name  layer                      parameters                                                numbers
--------------------------------------------------------------------------------------------------
      Sequential
0     Conv2d(1 -> 16, 3x3)       weight [16, 1, 3, 3], bias [16]                               160
1     BatchNorm2d(16)            weight [16] (frozen), bias [16] (frozen) + 33 in buffers       32
2     Relu
3     MaxPool2d
4     Flatten
5     Sequential
  0   Linear(256 -> 64)          weight [64, 256], bias [64]                                16,448
  1   Dropout(0.1)
  2   Linear(64 -> 10, no bias)  weight [10, 64]                                               640
--------------------------------------------------------------------------------------------------
17,280 parameters (17,248 trained, 32 frozen), 33 numbers in buffers, 67.6 KiB
"
    );
}

#[test]
fn mistakes_name_the_layer_and_the_numbers() -> Result<()> {
    let model = Sequential::from((Linear::new(3, 4), Relu, Linear::new(5, 2)));
    let e = model.forward(&Tensor::randn([2, 3])).unwrap_err();
    let text = e.to_string();
    assert!(text.starts_with("linear: a weight [2, 5] and bias [2] does not fit inputs [2, 4]"), "{text}");
    assert!(text.contains("in layer 2 (Linear)"), "{text}");
    assert!(e.location().file().ends_with("modules.rs"), "{text}");
    let e = Conv2d::new(3, 8, [3, 3, 3]).err().unwrap().to_string();
    assert!(e.contains("kernel [3, 3, 3] has 3 numbers for 2 spatial axes") && e.contains("modules.rs"), "{e}");
    let e = Conv2d::new(3, 8, 3)?.groups(2).err().unwrap().to_string();
    assert!(e.contains("conv2d: 2 groups do not divide 3 input and 8 output channels"), "{e}");
    let e = GroupNorm::new(3, 8).err().unwrap().to_string();
    assert!(e.contains("3 groups do not divide 8 channels"), "{e}");
    let e = BatchNorm2d::new(3).forward(&Tensor::randn([2, 3])).unwrap_err().to_string();
    assert!(e.starts_with("BatchNorm2d: takes [n, c, h, w], not [2, 3]") && e.contains("modules.rs"), "{e}");
    let e = BatchNorm1d::new(3).forward(&Tensor::randn([1, 3])).unwrap_err().to_string();
    assert!(e.contains("more than one value for each channel, and [1, 3] has one"), "{e}");
    let e = Embedding::new(4, 2).padding_idx(7).err().unwrap().to_string();
    assert!(e.contains("index 7 is out of range for size 4"), "{e}");
    let e =
        Embedding::new(4, 2).forward(&Tensor::from([4i64])).and_then(|y| y.to_vec::<f32>()).unwrap_err().to_string();
    assert!(e.contains('4'), "{e}");
    let e = ConvTranspose2d::new(1, 1, 3)?.stride(2).forward_to(&Tensor::randn([1, 1, 4, 4]), &[20, 9]).unwrap_err();
    assert!(e.to_string().contains("axis 0 can come out as 9 to 10, not 20"), "{e}");
    Ok(())
}

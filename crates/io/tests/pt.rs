//! PyTorch checkpoints, made by PyTorch (tests/data/make.py).

use gradus_core::{DType, Tensor};
use gradus_io::{ErrorKind, Format, Meta, StateDict, UNNAMED, inspect, load};
use std::path::PathBuf;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn f32s(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}

fn check(state: &StateDict) {
    let t = |n: &str| state.tensor(n).unwrap();
    let base: Vec<f32> = (0..24).map(|x| x as f32).collect();
    assert_eq!((t("model.linear.weight").dims(), f32s(t("model.linear.weight"))), (&[4, 6][..], base.clone()));
    let transposed: Vec<f32> = (0..24).map(|i| base[i % 4 * 6 + i / 4]).collect();
    assert_eq!((t("model.linear.t").dims(), f32s(t("model.linear.t"))), (&[6, 4][..], transposed));
    assert_eq!(f32s(t("model.linear.part")), [6.0, 8.0, 10.0, 12.0, 14.0, 16.0]);
    assert_eq!(t("model.linear.part").dims(), [2, 3]);
    assert_eq!((t("model.linear.expanded").dims(), f32s(t("model.linear.expanded"))), (&[3, 4][..], vec![7.0; 12]));
    assert_eq!(t("model.tied.a").dtype(), DType::BF16);
    assert_eq!(f32s(t("model.tied.a")), [1.5, -2.0, 3.0]);
    assert_eq!(t("model.tied.a").id(), t("model.tied.b").id(), "tied tensors load as one");
    assert_eq!(t("model.param").to_vec::<f64>().unwrap(), [0.25, 0.5]);
    assert_eq!((t("types.f16").dtype(), f32s(t("types.f16"))), (DType::F16, vec![1.0, 65504.0]));
    assert_eq!((t("types.i8").dtype(), t("types.i8").to_vec::<i8>().unwrap()), (DType::I8, vec![-128, 127]));
    assert_eq!(t("types.i16").to_vec::<i16>().unwrap(), [i16::MIN, i16::MAX]);
    assert_eq!(t("types.i32").to_vec::<i32>().unwrap(), [i32::MIN, i32::MAX]);
    assert_eq!(t("types.i64").to_vec::<i64>().unwrap(), [i64::MIN, i64::MAX]);
    assert_eq!(t("types.u8").to_vec::<u8>().unwrap(), [0, 255]);
    assert_eq!(t("types.bool").to_vec::<bool>().unwrap(), [true, false, true]);
    assert_eq!((t("types.scalar").dims(), f32s(t("types.scalar"))), (&[][..], vec![3.5]));
    assert_eq!((t("types.empty").dims(), f32s(t("types.empty"))), (&[0, 3][..], vec![]));
    assert_eq!((f32s(t("history.0")), f32s(t("history.1"))), (vec![1.0], vec![2.0]));
    assert_eq!(f32s(t("optimizer.state.0.step")), [5.0]);
    assert_eq!(state.names().next(), Some("model.linear.weight"), "the file's order is kept");
    assert_eq!(state.len(), 19);

    let m = state.metadata();
    assert_eq!(m["epoch"], Meta::Int(7));
    assert_eq!(m["loss"], Meta::Float(0.125));
    assert_eq!(m["name"], Meta::Str("tiny é".into()));
    assert_eq!((&m["done"], &m["none"]), (&Meta::Bool(false), &Meta::None));
    assert_eq!(m["seed"], Meta::Str("18446744073709551615".into()));
    assert_eq!(m["dtype"], Meta::Str("torch.bfloat16".into()));
    assert_eq!(m["device"], Meta::Str("cuda:1".into()));
    assert_eq!(m["size"], Meta::List(vec![2.into(), 3.into()]));
    assert_eq!((&m["np"], &m["np32"]), (&Meta::Float(0.5), &Meta::Int(-3)));
    assert_eq!(m["optimizer.param_groups.0.lr"], Meta::Float(1e-3));
    assert_eq!(m["optimizer.param_groups.0.betas"], Meta::List(vec![0.9.into(), 0.999.into()]));
}

#[test]
fn a_zip_checkpoint_loads() {
    check(&load(data("checkpoint.pt")).unwrap());
}

#[test]
fn a_legacy_checkpoint_loads() {
    check(&load(data("checkpoint_legacy.pt")).unwrap());
}

#[test]
fn protocol_4_loads() {
    check(&load(data("checkpoint_protocol4.pt")).unwrap());
    check(&load(data("checkpoint_legacy_protocol4.pt")).unwrap());
}

#[test]
fn a_checkpoint_zipped_anew_loads() {
    check(&load(data("deflated.pt")).unwrap());
}

#[test]
fn a_state_dict_has_its_names_in_order() {
    let state = load(data("state_dict.pt")).unwrap();
    let names: Vec<&str> = state.names().collect();
    let batch_norm = ["1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"];
    assert_eq!(names, [&["0.weight", "0.bias"][..], &batch_norm].concat());
    assert_eq!(state.tensor("1.num_batches_tracked").unwrap().dtype(), DType::I64);
    assert!(state.metadata().is_empty(), "{:?}", state.metadata());
}

#[test]
fn a_bare_tensor_gets_a_name() {
    let state = load(data("tensor.pt")).unwrap();
    assert_eq!(state.tensor(UNNAMED).unwrap().to_vec::<i64>().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn types_we_do_not_have_are_named_and_listed() {
    for (file, tensor, dtype) in [("complex.pt", "c", "torch.complex64"), ("float8.pt", "q", "torch.float8_e4m3fn")] {
        let e = load(data(file)).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::DType { tensor: t, dtype: d } if t == tensor && d == dtype), "{e}");
        assert!(e.to_string().contains(file), "{e}");
        let info = inspect(data(file)).unwrap();
        assert_eq!(info.entry(tensor).unwrap().dtype, None);
        assert_eq!(info.entry("w").unwrap().dtype, Some(DType::F32));
    }
}

#[test]
fn a_class_is_refused_by_name() {
    let e = load(data("module.pt")).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Global { name } if name == "torch.nn.modules.container.Sequential"), "{e}");
    assert!(e.offset().is_some() && e.to_string().contains("state_dict()"), "{e}");
}

#[test]
fn an_attack_is_refused_by_name() {
    // What `pickle.loads` would run: os.system("true"), after the header of a legacy file.
    let legacy = std::fs::read(data("checkpoint_legacy.pt")).unwrap();
    let facts_end = legacy.windows(2).position(|w| w == b"u.").unwrap() + 2;
    let mut bytes = legacy[..facts_end].to_vec();
    bytes.extend(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.");
    let e = gradus_io::from_bytes(&bytes).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Global { name } if name == "os.system"), "{e}");
}

/// A legacy file whose object is this pickle, without storages.
fn legacy(pickle: &[u8]) -> Vec<u8> {
    let magic = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.";
    [magic, &b"\x80\x02"[..], pickle, b".\x80\x02]."].concat()
}

#[test]
fn cycles_depth_and_laughter_have_an_end() {
    let cycle = gradus_io::from_bytes(&legacy(b"]q\x00h\x00a")).unwrap_err();
    assert!(cycle.to_string().contains("at most 64 objects inside each other"), "{cycle}");
    let deep = gradus_io::from_bytes(&legacy(&[vec![b']'; 100_000], vec![b'a'; 99_999]].concat())).unwrap_err();
    assert!(deep.to_string().contains("at most 64 objects inside each other"), "{deep}");
    // l = [1, {}]; ten times: l = [l, l, l, l, l, l, l, l]: a thousand million leaves in a few hundred bytes.
    let mut pickle = b"](K\x01}e".to_vec();
    for i in 0..10 {
        pickle.extend([b'q', i]);
        pickle.extend(b"](");
        pickle.extend([b'h', i].repeat(8));
        pickle.push(b'e');
    }
    let laughs = gradus_io::from_bytes(&legacy(&pickle)).unwrap_err();
    assert!(laughs.to_string().contains("contain each other many times"), "{laughs}");
}

#[test]
fn two_ways_to_one_name_are_an_error() {
    let e = gradus_io::from_bytes(&legacy(b"}(X\x03\x00\x00\x00a.bK\x01X\x01\x00\x00\x00a}X\x01\x00\x00\x00bK\x02su"));
    assert!(e.as_ref().unwrap_err().to_string().contains("`a.b` twice"), "{e:?}");
}

#[test]
fn a_listing_needs_no_elements() {
    let info = inspect(data("checkpoint.pt")).unwrap();
    assert_eq!((info.format, info.entries.len()), (Format::Pt, 19));
    let e = info.entry("model.linear.t").unwrap();
    assert_eq!((e.dtype_name.as_str(), &e.shape[..], e.bytes), ("torch.float32", &[6, 4][..], 96));
    assert!(info.to_string().contains("epoch = 7"), "{info}");
}

#[test]
fn a_damaged_byte_is_found_by_its_checksum() {
    let mut bytes = std::fs::read(data("tensor.pt")).unwrap();
    let at = bytes.windows(16).position(|w| w == [1u8, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    bytes[at] = 9;
    let e = gradus_io::from_bytes(&bytes).unwrap_err();
    assert!(e.to_string().contains("checksum"), "{e}");
}

#[test]
fn a_file_cut_short_says_so() {
    for name in ["checkpoint.pt", "checkpoint_legacy.pt"] {
        let bytes = std::fs::read(data(name)).unwrap();
        let e = gradus_io::from_bytes(&bytes[..bytes.len() - 3]).unwrap_err();
        assert!(e.to_string().contains("damaged PyTorch file"), "{e}");
        assert!(e.to_string().contains("not copied, to its end"), "{e}");
    }
}

/// A legacy file with one storage of floats 0, 1, .. and tensors `t0`, `t1`, .. over it: offset, shape and strides.
fn views(numel: i64, views: &[(i64, &[i64], &[i64])]) -> Vec<u8> {
    let int = |i: &i64| [b"\x8a\x08", &i.to_le_bytes()[..]].concat();
    let text = |s: &str| [b"X", &(s.len() as u32).to_le_bytes()[..], s.as_bytes()].concat();
    let tuple = |items: &[i64]| [b"(", &items.iter().flat_map(int).collect::<Vec<_>>()[..], b"t"].concat();
    let storage =
        [b"(", &text("storage")[..], b"ctorch\nFloatStorage\n", &text("k"), &text("cpu"), &int(&numel), b"NtQ"];
    let storage = storage.concat();
    let mut pickle = b"}(".to_vec();
    for (i, (offset, shape, strides)) in views.iter().enumerate() {
        pickle.extend(text(&format!("t{i}")));
        pickle.extend(b"ctorch._utils\n_rebuild_tensor_v2\n(");
        pickle.extend([&storage[..], &int(offset), &tuple(shape), &tuple(strides), b"\x89}tR"].concat());
    }
    pickle.push(b'u');
    let mut bytes = legacy(&pickle);
    bytes.truncate(bytes.len() - 2); // the empty list of keys
    bytes.extend([b"](", &text("k")[..], b"e.", &numel.to_le_bytes()].concat());
    bytes.extend((0..numel).flat_map(|x| (x as f32).to_le_bytes()));
    bytes
}

#[test]
fn views_are_held_to_their_storage() {
    let windows = gradus_io::from_bytes(&views(4, &[(0, &[3, 2], &[1, 1]), (1, &[2], &[2])])).unwrap();
    assert_eq!(f32s(windows.tensor("t0").unwrap()), [0.0, 1.0, 1.0, 2.0, 2.0, 3.0]);
    assert_eq!(f32s(windows.tensor("t1").unwrap()), [1.0, 3.0]);
    for view in [
        (0, &[5][..], &[1][..]),
        (4, &[1], &[1]),
        (0, &[2], &[4]),
        (0, &[2, 2], &[1]),
        (-1, &[1], &[1]),
        (0, &[-1], &[1]),
        (0, &[2], &[-1]),
        (0, &[i64::MAX, i64::MAX], &[0, 0]),
        (0, &[2], &[i64::MAX]),
    ] {
        let e = gradus_io::from_bytes(&views(4, &[view])).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Malformed { .. }), "{view:?}: {e}");
    }
}

#[test]
fn an_expanded_tensor_takes_no_memory_before_it_is_read() {
    let state = gradus_io::from_bytes(&views(4, &[(3, &[1 << 40, 1], &[0, 1])])).unwrap();
    let t = state.tensor("t0").unwrap();
    assert_eq!(t.dims(), [1 << 40, 1]);
    assert_eq!(t.select(0, 1 << 39).unwrap().item::<f32>().unwrap(), 3.0);
}

#[test]
fn views_do_not_multiply_a_storage_without_end() {
    // 1000 different views of nearly all of 40,000 bytes.
    let shapes: Vec<[i64; 1]> = (0..1000).map(|i| [10_000 - i]).collect();
    let many: Vec<(i64, &[i64], &[i64])> = shapes.iter().map(|s| (0, &s[..], &[1i64][..])).collect();
    let e = gradus_io::from_bytes(&views(10_000, &many)).unwrap_err();
    assert!(e.to_string().contains("at most 8 times a storage's bytes") && e.to_string().contains("clone()"), "{e}");
    assert!(gradus_io::from_bytes(&views(10_000, &many[..8])).is_ok());
}

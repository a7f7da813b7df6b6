//! Safetensors: files of the reference implementation, and ours read by it.

use gradus_core::{DType, Tensor};
use gradus_io::{ErrorKind, Format, Meta, StateDict, inspect, load, safetensors, save};
use proptest::prelude::*;
use std::path::PathBuf;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[test]
fn a_file_of_the_reference_loads() {
    let state = load(data("tensors.safetensors")).unwrap();
    let t = |n: &str| state.tensor(n).unwrap();
    assert_eq!((t("bf16").dtype(), t("bf16").to_vec::<f32>().unwrap()), (DType::BF16, vec![1.5, -2.0]));
    assert_eq!((t("w").dims(), t("w").to_vec::<f32>().unwrap()), (&[2, 3][..], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
    assert_eq!(t("b").to_vec::<bool>().unwrap(), [true, false]);
    assert_eq!(t("i").to_vec::<i64>().unwrap(), [1, -2]);
    assert_eq!((t("f16").dims(), t("f16").item::<f32>().unwrap()), (&[][..], 0.5));
    assert_eq!(t("empty").dims(), [0, 2]);
    assert!(state.contains("naïve \"name\"\n"));
    assert_eq!(state.metadata()["quote"], Meta::Str("\"\\\u{1} é 😀".into()));
}

#[test]
fn types_we_do_not_have_are_named_and_listed() {
    let e = load(data("foreign.safetensors")).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::DType { dtype, .. } if dtype == "F8_E4M3" || dtype == "U16"), "{e}");
    let info = inspect(data("foreign.safetensors")).unwrap();
    assert_eq!((info.format, info.entries.len()), (Format::Safetensors, 3));
    let file = safetensors::File::open(data("foreign.safetensors")).unwrap();
    assert_eq!(file.tensor("w").unwrap().to_vec::<f32>().unwrap(), [1.0], "the others can be had one by one");
    assert_eq!(file.load_where(|n| n == "w").unwrap().len(), 1);
    assert!(matches!(file.tensor("nope").unwrap_err().kind(), ErrorKind::Missing { .. }));
}

#[test]
fn the_content_counts_and_not_the_extension() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.pt");
    std::fs::copy(data("tensors.safetensors"), &path).unwrap();
    assert_eq!(inspect(&path).unwrap().format, Format::Safetensors);
    for (content, what) in [
        (&b""[..], "an empty file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "git lfs pull"),
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"\x80\x04\x95\x00", "a plain pickle"),
        (b"\x01\x02\x03", "the bytes 01 02 03"),
    ] {
        std::fs::write(&path, content).unwrap();
        let e = load(&path).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::UnknownFormat { .. }) && e.to_string().contains(what), "{e}");
        assert!(e.to_string().starts_with(&path.display().to_string()), "{e}");
    }
    assert!(load(dir.path()).unwrap_err().to_string().contains("it is a folder"));
}

#[test]
fn a_large_file_is_mapped_and_loads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    let x = Tensor::arange(0, 100_000, 1, DType::I64).unwrap();
    save(&path, &StateDict::from_iter([("x", x.clone()), ("y", &x * 2)])).unwrap();
    let back = load(&path).unwrap();
    assert_eq!(back.tensor("y").unwrap().to_vec::<i64>().unwrap()[99_999], 199_998);
}

/// A file with this header and this many bytes of elements.
fn file(header: &str, n: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; n]].concat()
}

#[test]
fn a_wrong_header_is_told_from_a_right_one() {
    let one = r#""a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#;
    assert!(safetensors::from_bytes(&file(&format!("{{{one}}}  "), 8)).is_ok());
    let extra =
        r#"{"a":{"new":[{"x":[1.5,null]}],"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":null}"#;
    assert!(safetensors::from_bytes(&file(extra, 8)).is_ok(), "fields of later versions are passed over");
    for (header, n, what) in [
        (format!("{{{one}}}"), 7, "expected a file of"),
        (format!("{{{one}}}"), 9, "expected a file of"),
        (format!("{{{one},{one}}}"), 8, "`a` twice"),
        (format!("{{{}}}", one.replace("[2]", "[3]")), 8, "expected 12 bytes for `a`, f32 [3], found 8"),
        (format!("{{{}}}", one.replace("[0,8]", "[8,16]")), 16, "to begin where those before end, at 0"),
        (format!("{{{}}}", one.replace("[0,8]", "[8,0]")), 8, "to begin where those before end"),
        (format!("{{{},{one}}}", one.replace("\"a\"", "\"b\"")), 8, "to begin where those before end, at 8"),
        (format!("{{{}}}", one.replace("[2]", "[4611686018427387904,4]")), 8, "more than 2^64"),
        (format!("{{{}}}", one.replace("[2]", "[-2]")), 8, "expected a whole number, found `-`"),
        (format!("{{{}}}", one.replace("[2]", "[99999999999999999999]")), 8, "a number below 2^64"),
        (r#"{"a":{"dtype":"F32"}}"#.into(), 0, "dtype, shape and data_offsets of `a`"),
        (r#"{"a":1}"#.into(), 0, "`{` of an object"),
        (r#"{"a"#.into(), 0, "the end of the header"),
        (r#"{"\ud800":1}"#.into(), 0, "half of one"),
        ("{} x".into(), 0, "only spaces"),
        (format!("{{\"a\":{{\"x\":{}", "[".repeat(1000)), 0, "at most 32 values inside each other"),
    ] {
        let e = safetensors::from_bytes(&file(&header, n)).unwrap_err().to_string();
        assert!(e.contains(what) && e.contains("(at byte "), "{header}: {e}");
    }
    let mut long = file("{}", 0);
    long[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(safetensors::from_bytes(&long).unwrap_err().to_string().contains("18446744073709551615"));
    long[..8].copy_from_slice(&1000u64.to_le_bytes());
    assert!(safetensors::from_bytes(&long).unwrap_err().to_string().contains("1000 bytes of header"));
}

#[test]
fn a_bool_that_is_none_names_its_tensor() {
    let mut bytes = file(r#"{"flag":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}}"#, 1);
    *bytes.last_mut().unwrap() = 2;
    let e = safetensors::from_bytes(&bytes).unwrap_err();
    assert!(e.to_string().contains("tensor `flag`") && e.to_string().contains("not 2"), "{e}");
}

#[test]
fn an_error_becomes_the_engines() {
    fn f() -> gradus_core::Result<StateDict> {
        Ok(load("no/such/file")?)
    }
    assert!(f().unwrap_err().to_string().starts_with("io: no/such/file: cannot open"));
}

fn tensor() -> impl Strategy<Value = Tensor> {
    let shape = prop::collection::vec(0usize..4, 0..4);
    (shape, prop::sample::select(DType::ALL.to_vec()), any::<u64>()).prop_map(|(shape, dtype, seed)| {
        let n = shape.iter().product::<usize>() * dtype.size();
        let byte = |i: usize| (seed.rotate_left(i as u32 * 7 % 64) as u8) ^ i as u8;
        let bytes: Vec<u8> = (0..n).map(|i| if dtype == DType::Bool { byte(i) & 1 } else { byte(i) }).collect();
        Tensor::from_bytes(&bytes, shape, dtype).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// What is written comes back, in order, and the reference implementation reads the same.
    #[test]
    fn it_comes_back(
        tensors in prop::collection::vec((".{0,6}", tensor()), 0..5),
        metadata in prop::collection::btree_map(".{0,6}", ".{0,6}", 0..3),
    ) {
        let mut state = StateDict::from_iter(tensors);
        state.metadata_mut().extend(metadata.iter().map(|(k, v)| (k.clone(), v.as_str().into())));
        let bytes = safetensors::to_bytes(&state).unwrap();
        let back = safetensors::from_bytes(&bytes).unwrap();
        assert_eq!(state.names().collect::<Vec<_>>(), back.names().collect::<Vec<_>>());
        assert_eq!(state.metadata(), back.metadata());
        let theirs = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(theirs.len(), state.len());
        for (name, t) in state.iter() {
            let (u, v) = (back.tensor(name).unwrap(), theirs.tensor(name).unwrap());
            let data = t.to_bytes().unwrap();
            assert_eq!((u.dims(), u.dtype(), &u.to_bytes().unwrap()), (t.dims(), t.dtype(), &data));
            assert_eq!((v.shape(), v.data()), (t.dims(), &data[..]));
            assert_eq!(v.data().as_ptr() as usize % t.dtype().size(), bytes.as_ptr() as usize % t.dtype().size());
        }
    }
}

//! `.npy` and `.npz`: files of NumPy, and round trips.

use gradus_core::{DType, Tensor};
use gradus_io::{ErrorKind, Format, StateDict, UNNAMED, inspect, load, npy, npz, save};
use half::f16;
use proptest::prelude::*;
use std::path::PathBuf;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

const SIX: [f64; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];

#[test]
fn arrays_of_numpy_load() {
    for (file, dtype) in [
        ("f4.npy", DType::F32),
        ("big_endian.npy", DType::I32),
        ("fortran.npy", DType::F64),
        ("version2.npy", DType::I16),
        ("version3.npy", DType::I16),
    ] {
        let t = npy::load(data(file)).unwrap();
        assert_eq!((t.dims(), t.dtype(), t.to_vec::<f64>().unwrap()), (&[2, 3][..], dtype, SIX.to_vec()), "{file}");
    }
    let t = npy::load(data("fortran_big.npy")).unwrap();
    assert_eq!((t.dims(), t.dtype()), (&[2, 3, 4][..], DType::F16));
    assert_eq!(t.to_vec::<f64>().unwrap(), (0..24).map(f64::from).collect::<Vec<_>>());
    let t = npy::load(data("scalar.npy")).unwrap();
    assert_eq!((t.dims(), t.item::<f32>().unwrap()), (&[][..], 2.5));
    let t = npy::load(data("empty.npy")).unwrap();
    assert_eq!((t.dims(), t.dtype()), (&[0, 3][..], DType::I64));
    assert_eq!(npy::load(data("bool.npy")).unwrap().to_vec::<bool>().unwrap(), [true, false, true]);
}

#[test]
fn types_we_do_not_have_are_named() {
    for (file, dtype) in [("complex.npy", "<c8"), ("string.npy", "<U2")] {
        let e = load(data(file)).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::DType { dtype: d, .. } if d == dtype), "{e}");
        assert_eq!(inspect(data(file)).unwrap().entries[0].dtype, None);
    }
    let e = load(data("record.npy")).unwrap_err();
    assert!(e.to_string().contains("structured array"), "{e}");
}

#[test]
fn archives_of_numpy_load() {
    for (file, n) in [("stored.npz", 4), ("deflated.npz", 5)] {
        let state = load(data(file)).unwrap();
        assert_eq!(state.len(), n, "{file}");
        assert_eq!(state.tensor("w").unwrap().to_vec::<f64>().unwrap(), SIX);
        assert_eq!(state.tensor("layer.0/b").unwrap().dtype(), DType::U8);
        assert_eq!(state.tensor("h").unwrap().to_vec::<f16>().unwrap(), SIX.map(f16::from_f64));
        assert_eq!(state.tensor("s").unwrap().item::<f64>().unwrap(), 1.5);
        let info = inspect(data(file)).unwrap();
        assert_eq!((info.format, info.entry("w").unwrap().bytes), (Format::Npz, 24));
    }
    assert_eq!(load(data("deflated.npz")).unwrap().tensor("z").unwrap().numel(), 64 * 64);
}

#[test]
fn the_front_gives_an_array_a_name() {
    assert_eq!(load(data("f4.npy")).unwrap().tensor(UNNAMED).unwrap().dims(), [2, 3]);
}

#[test]
fn what_numpy_cannot_hold_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.npz");
    let mut state = StateDict::from_iter([("h", Tensor::from([1.0f32]).to_dtype(DType::BF16))]);
    let e = save(&path, &state).unwrap_err();
    assert!(e.to_string().contains("`h` is bf16") && e.path() == Some(&path), "{e}");
    state.insert("h", Tensor::from([1.0f32]));
    state.metadata_mut().insert("epoch".into(), 3.into());
    let e = save(&path, &state).unwrap_err();
    assert!(e.to_string().contains("metadata `epoch`"), "{e}");
    state.metadata_mut().clear();
    state.insert("g", Tensor::from([1.0f32]));
    let e = save(dir.path().join("x.npy"), &state).unwrap_err();
    assert!(e.to_string().contains("exactly one tensor, and the state has 2"), "{e}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was left behind");
}

#[test]
fn sizes_are_compared_with_the_file() {
    let mut bytes = npy::to_bytes(&Tensor::from([1.0f32, 2.0])).unwrap();
    bytes.push(0);
    let e = npy::from_bytes(&bytes).unwrap_err();
    assert!(e.to_string().contains("expected 8 bytes for f32 [2], found 9"), "{e}");
    bytes.truncate(130);
    assert!(npy::from_bytes(&bytes).is_err());
    let huge = npy::to_bytes(&Tensor::from([1.0f32, 2.0])).unwrap();
    let huge = String::from_utf8_lossy(&huge[10..]).replace("(2,)", "(9223372036854775807, 9223372036854775807)");
    let huge = [b"\x93NUMPY\x01\x00", &(huge.len() as u16).to_le_bytes()[..], huge.as_bytes()].concat();
    assert!(npy::from_bytes(&huge).unwrap_err().to_string().contains("more than 2^64"));
}

/// Any tensor that NumPy can hold, of a few elements.
fn tensor() -> impl Strategy<Value = Tensor> {
    let types: Vec<DType> = DType::ALL.into_iter().filter(|&d| d != DType::BF16).collect();
    (prop::collection::vec(0usize..4, 0..4), prop::sample::select(types), any::<u64>()).prop_map(
        |(shape, dtype, seed)| {
            let n = shape.iter().product::<usize>() * dtype.size();
            let byte = |i: usize| (seed.rotate_left(i as u32 * 7 % 64) as u8) ^ i as u8;
            let bytes: Vec<u8> = (0..n).map(|i| if dtype == DType::Bool { byte(i) & 1 } else { byte(i) }).collect();
            Tensor::from_bytes(&bytes, shape, dtype).unwrap()
        },
    )
}

fn assert_same(a: &Tensor, b: &Tensor) {
    assert_eq!((a.dims(), a.dtype(), a.to_bytes().unwrap()), (b.dims(), b.dtype(), b.to_bytes().unwrap()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn npy_comes_back(t in tensor()) {
        assert_same(&npy::from_bytes(&npy::to_bytes(&t).unwrap()).unwrap(), &t);
    }

    #[test]
    fn npz_comes_back(tensors in prop::collection::vec(("[a-z./é]{1,8}", tensor()), 0..4), deflate: bool) {
        let state = StateDict::from_iter(tensors);
        let compression = if deflate { npz::Compression::Deflated } else { npz::Compression::Stored };
        let back = npz::from_bytes(&npz::to_bytes(&state, compression).unwrap()).unwrap();
        assert_eq!(state.names().collect::<Vec<_>>(), back.names().collect::<Vec<_>>());
        for (name, t) in state.iter() {
            assert_same(back.tensor(name).unwrap(), t);
        }
    }
}

#[test]
fn many_files_need_64_bit_counts() {
    let t = Tensor::from([1u8]);
    let state = StateDict::from_iter((0..65_600).map(|i| (format!("t{i}"), t.clone())));
    let bytes = npz::to_bytes(&state, npz::Compression::Stored).unwrap();
    assert_eq!(npz::from_bytes(&bytes).unwrap().len(), 65_600);
}

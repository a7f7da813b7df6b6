//! What the tests share: small sample files, built in memory.

use std::collections::HashMap;
use std::path::PathBuf;

use safetensors::tensor::TensorView;

use super::host::{HostArray, HostDType};

pub(crate) fn f64s(shape: &[usize], values: &[f64]) -> HostArray {
    HostArray::from_f64(shape, values)
}

/// The bytes of a sample file.
pub(crate) fn file(op: &str, cases: &str, tensors: &[(&str, HostArray)]) -> Vec<u8> {
    let views = tensors.iter().map(|(name, array)| {
        let dtype = match array.dtype() {
            HostDType::F64 => safetensors::Dtype::F64,
            HostDType::I64 => safetensors::Dtype::I64,
            HostDType::Bool => safetensors::Dtype::BOOL,
            other => panic!("the tests write no {other}"),
        };
        let view = TensorView::new(dtype, array.shape().to_vec(), array.bytes()).unwrap();
        (*name, view)
    });
    let metadata = HashMap::from([("op".to_string(), op.to_string()), ("cases".to_string(), cases.to_string())]);
    safetensors::serialize(views, Some(metadata)).unwrap()
}

/// A fresh folder with these files.
pub(crate) fn write(test: &str, files: &[(&str, Vec<u8>)]) -> PathBuf {
    let name = format!("gradus-conformance-{}-{test}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
    dir
}

//! cuDNN: convolutions.

use super::{Library, device_error};
use gradus_core::Result;
use std::{
    ffi::{c_int, c_void},
    sync::OnceLock,
};

/// An opaque handle or description.
pub type Handle = *mut c_void;

/// `cudnnConvolutionFwdAlgoPerf_t`, and its two like.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Perf {
    pub algo: c_int,
    pub status: c_int,
    pub time: f32,
    pub memory: usize,
    pub determinism: c_int,
    pub math: c_int,
    reserved: [c_int; 3],
}

type Create = unsafe extern "C" fn(*mut Handle) -> c_int;
/// Which algorithms fit four descriptions: room for, number found, list.
pub type Find = unsafe extern "C" fn(Handle, Handle, Handle, Handle, Handle, c_int, *mut c_int, *mut Perf) -> c_int;
/// The bytes an algorithm needs beside its operands.
pub type Workspace = unsafe extern "C" fn(Handle, Handle, Handle, Handle, Handle, c_int, *mut usize) -> c_int;
/// `alpha, a, a's values, b, b's values, convolution, algorithm, workspace, its size, beta, c, c's values`.
pub type Convolve = unsafe extern "C" fn(
    Handle,
    *const c_void,
    Handle,
    u64,
    Handle,
    u64,
    Handle,
    c_int,
    u64,
    usize,
    *const c_void,
    Handle,
    u64,
) -> c_int;

/// Functions of libcudnn, under their names without `cudnn`.
pub struct Dnn {
    pub create: Create,
    pub set_stream: unsafe extern "C" fn(Handle, Handle) -> c_int,
    pub tensor_create: Create,
    pub tensor_set: unsafe extern "C" fn(Handle, c_int, c_int, *const c_int, *const c_int) -> c_int,
    pub filter_create: Create,
    pub filter_set: unsafe extern "C" fn(Handle, c_int, c_int, c_int, *const c_int) -> c_int,
    pub conv_create: Create,
    #[allow(clippy::type_complexity)] // the signature is NVIDIA's
    pub conv_set: unsafe extern "C" fn(Handle, c_int, *const c_int, *const c_int, *const c_int, c_int, c_int) -> c_int,
    pub conv_groups: unsafe extern "C" fn(Handle, c_int) -> c_int,
    pub conv_math: unsafe extern "C" fn(Handle, c_int) -> c_int,
    /// Finding, measuring, sizing and running: forward, for the input, for the filter.
    pub find: [Find; 3],
    pub measure: [Find; 3],
    pub workspace: [Workspace; 3],
    pub run: [Convolve; 3],
}

/// `CUDNN_DATA_FLOAT`.
pub const FLOAT: c_int = 0;
/// `CUDNN_DATA_DOUBLE`.
pub const DOUBLE: c_int = 1;
/// `CUDNN_DATA_HALF`.
pub const HALF: c_int = 2;
/// `CUDNN_DATA_BFLOAT16`.
pub const BFLOAT16: c_int = 9;
/// `CUDNN_TENSOR_NCHW`.
pub const NCHW: c_int = 0;
/// `CUDNN_TENSOR_NHWC`.
pub const NHWC: c_int = 1;
/// `CUDNN_CROSS_CORRELATION`.
pub const CROSS_CORRELATION: c_int = 1;
/// `CUDNN_DEFAULT_MATH`: TF32 where it helps.
pub const DEFAULT_MATH: c_int = 0;
/// `CUDNN_TENSOR_OP_MATH`: matrix units, in the operands' types.
pub const TENSOR_OP_MATH: c_int = 1;
/// `CUDNN_FMA_MATH`: f32 throughout.
pub const FMA_MATH: c_int = 3;
/// `CUDNN_DETERMINISTIC`.
pub const DETERMINISTIC: c_int = 1;

impl Dnn {
    /// The library, loaded once; or why there is none.
    pub fn get() -> Result<&'static Dnn> {
        static LIB: OnceLock<Result<Dnn>> = OnceLock::new();
        LIB.get_or_init(Dnn::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Dnn> {
        let names: &[&str] = if cfg!(windows) { &["cudnn64_9.dll"] } else { &["libcudnn.so.9", "libcudnn.so"] };
        let lib = Library::find("cuDNN", "GRADUS_CUDNN", names)?;
        // SAFETY: the types are those of cudnn_cnn.h and cudnn_ops.h.
        let dnn = unsafe {
            Dnn {
                create: lib.function(c"cudnnCreate")?,
                set_stream: lib.function(c"cudnnSetStream")?,
                tensor_create: lib.function(c"cudnnCreateTensorDescriptor")?,
                tensor_set: lib.function(c"cudnnSetTensorNdDescriptor")?,
                filter_create: lib.function(c"cudnnCreateFilterDescriptor")?,
                filter_set: lib.function(c"cudnnSetFilterNdDescriptor")?,
                conv_create: lib.function(c"cudnnCreateConvolutionDescriptor")?,
                conv_set: lib.function(c"cudnnSetConvolutionNdDescriptor")?,
                conv_groups: lib.function(c"cudnnSetConvolutionGroupCount")?,
                conv_math: lib.function(c"cudnnSetConvolutionMathType")?,
                find: [
                    lib.function(c"cudnnGetConvolutionForwardAlgorithm_v7")?,
                    lib.function(c"cudnnGetConvolutionBackwardDataAlgorithm_v7")?,
                    lib.function(c"cudnnGetConvolutionBackwardFilterAlgorithm_v7")?,
                ],
                measure: [
                    lib.function(c"cudnnFindConvolutionForwardAlgorithm")?,
                    lib.function(c"cudnnFindConvolutionBackwardDataAlgorithm")?,
                    lib.function(c"cudnnFindConvolutionBackwardFilterAlgorithm")?,
                ],
                workspace: [
                    lib.function(c"cudnnGetConvolutionForwardWorkspaceSize")?,
                    lib.function(c"cudnnGetConvolutionBackwardDataWorkspaceSize")?,
                    lib.function(c"cudnnGetConvolutionBackwardFilterWorkspaceSize")?,
                ],
                run: [
                    lib.function(c"cudnnConvolutionForward")?,
                    lib.function(c"cudnnConvolutionBackwardData")?,
                    lib.function(c"cudnnConvolutionBackwardFilter")?,
                ],
            }
        };
        std::mem::forget(lib);
        Ok(dnn)
    }
}

/// An error that names the call.
pub fn check(code: c_int, call: &str) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(device_error(format!("{call} failed with cudnnStatus_t {code}"))) }
}

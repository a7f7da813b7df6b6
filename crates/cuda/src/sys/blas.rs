//! cuBLASLt: matrix products.

use super::{Library, device_error};
use gradus_core::Result;
use std::{
    ffi::{c_int, c_void},
    sync::OnceLock,
};

/// An opaque handle, description, layout or preference.
pub type Handle = *mut c_void;

/// `cublasLtMatmulAlgo_t`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Algo([u64; 8]);

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Heuristic {
    pub algo: Algo,
    pub workspace: usize,
    pub state: c_int,
    pub waves: f32,
    reserved: [c_int; 4],
}

type Set = unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> c_int;

/// Functions of libcublasLt, under their names without `cublasLt`.
pub struct BlasLt {
    pub create: unsafe extern "C" fn(*mut Handle) -> c_int,
    pub desc_create: unsafe extern "C" fn(*mut Handle, c_int, c_int) -> c_int,
    pub desc_set: Set,
    pub layout_create: unsafe extern "C" fn(*mut Handle, c_int, u64, u64, i64) -> c_int,
    pub layout_set: Set,
    pub preference_create: unsafe extern "C" fn(*mut Handle) -> c_int,
    pub preference_set: Set,
    pub preference_destroy: unsafe extern "C" fn(Handle) -> c_int,
    pub heuristic: unsafe extern "C" fn(
        Handle,
        Handle,
        Handle,
        Handle,
        Handle,
        Handle,
        Handle,
        c_int,
        *mut Heuristic,
        *mut c_int,
    ) -> c_int,
    #[allow(clippy::type_complexity)] // the signature is NVIDIA's
    pub matmul: unsafe extern "C" fn(
        Handle,
        Handle,
        *const c_void,
        u64,
        Handle,
        u64,
        Handle,
        *const c_void,
        u64,
        Handle,
        u64,
        Handle,
        *const Algo,
        u64,
        usize,
        Handle,
    ) -> c_int,
}

/// `CUBLAS_COMPUTE_32F`.
pub const COMPUTE_32F: c_int = 68;
/// `CUBLAS_COMPUTE_64F`.
pub const COMPUTE_64F: c_int = 70;
/// `CUBLAS_COMPUTE_32F_FAST_TF32`.
pub const COMPUTE_32F_FAST_TF32: c_int = 77;
/// `CUDA_R_32F`.
pub const R_32F: c_int = 0;
/// `CUDA_R_64F`.
pub const R_64F: c_int = 1;
/// `CUDA_R_16F`.
pub const R_16F: c_int = 2;
/// `CUDA_R_16BF`.
pub const R_16BF: c_int = 14;
/// `CUBLASLT_MATMUL_DESC_TRANSA`, and the next is `TRANSB`.
pub const DESC_TRANSA: c_int = 3;
/// `CUBLASLT_MATMUL_DESC_TRANSB`.
pub const DESC_TRANSB: c_int = 4;
/// `CUBLASLT_MATMUL_DESC_EPILOGUE`.
pub const DESC_EPILOGUE: c_int = 7;
/// `CUBLASLT_MATMUL_DESC_BIAS_POINTER`.
pub const DESC_BIAS_POINTER: c_int = 8;
/// `CUBLASLT_EPILOGUE_BIAS`: a vector is added to every column (our rows).
pub const EPILOGUE_BIAS: c_int = 4;
/// `CUBLAS_OP_T`.
pub const OP_T: c_int = 1;
/// `CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT`.
pub const LAYOUT_BATCH_COUNT: c_int = 5;
/// `CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET`.
pub const LAYOUT_BATCH_OFFSET: c_int = 6;
/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`.
pub const PREF_WORKSPACE: c_int = 1;
/// `CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES`; B, C and D follow.
pub const PREF_ALIGNMENT_A: c_int = 5;

impl BlasLt {
    /// The library, loaded once; or why there is none.
    pub fn get() -> Result<&'static BlasLt> {
        static LIB: OnceLock<Result<BlasLt>> = OnceLock::new();
        LIB.get_or_init(BlasLt::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<BlasLt> {
        let names: &[&str] = if cfg!(windows) {
            &["cublasLt64_13.dll", "cublasLt64_12.dll"]
        } else {
            &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"]
        };
        let lib = Library::find("cuBLASLt", "GRADUS_CUBLASLT", names)?;
        // SAFETY: the types are those of cublasLt.h.
        let blas = unsafe {
            BlasLt {
                create: lib.function(c"cublasLtCreate")?,
                desc_create: lib.function(c"cublasLtMatmulDescCreate")?,
                desc_set: lib.function(c"cublasLtMatmulDescSetAttribute")?,
                layout_create: lib.function(c"cublasLtMatrixLayoutCreate")?,
                layout_set: lib.function(c"cublasLtMatrixLayoutSetAttribute")?,
                preference_create: lib.function(c"cublasLtMatmulPreferenceCreate")?,
                preference_set: lib.function(c"cublasLtMatmulPreferenceSetAttribute")?,
                preference_destroy: lib.function(c"cublasLtMatmulPreferenceDestroy")?,
                heuristic: lib.function(c"cublasLtMatmulAlgoGetHeuristic")?,
                matmul: lib.function(c"cublasLtMatmul")?,
            }
        };
        std::mem::forget(lib);
        Ok(blas)
    }
}

/// An error that names the call.
pub fn check(code: c_int, call: &str) -> Result<()> {
    let why = match code {
        0 => return Ok(()),
        1 => "not initialised",
        3 => "out of memory",
        7 => "an invalid value",
        8 => "not supported on this GPU",
        13 => "execution failed",
        14 => "an internal error",
        15 => "not supported",
        _ => "see cublasStatus_t",
    };
    Err(device_error(format!("{call} failed with code {code}: {why}")))
}

//! The driver: devices, contexts, memory, modules, launches, graphs.

use super::{Library, device_error};
use gradus_core::{Error, ErrorKind, Result};
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    sync::OnceLock,
};

/// A context, stream, event, module, function, graph, node or instantiated graph: all opaque pointers.
pub type Handle = *mut c_void;

type F<A> = unsafe extern "C" fn(A) -> c_int;
type F2<A, B> = unsafe extern "C" fn(A, B) -> c_int;
type F3<A, B, C> = unsafe extern "C" fn(A, B, C) -> c_int;
type F4<A, B, C, D> = unsafe extern "C" fn(A, B, C, D) -> c_int;

type LaunchKernel = unsafe extern "C" fn(
    Handle,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    Handle,
    *mut *mut c_void,
    *mut *mut c_void,
) -> c_int;

type TensorMapEncodeTiled = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_uint,
    *mut c_void,
    *const u64,
    *const u64,
    *const u32,
    *const u32,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;

type CaptureInfo =
    unsafe extern "C" fn(Handle, *mut c_uint, *mut u64, *mut Handle, *mut *const Handle, *mut usize) -> c_int;

/// Functions of libcuda, under their names without `cu`.
pub struct Driver {
    pub device_get_count: F<*mut c_int>,
    pub device_get: F2<*mut c_int, c_int>,
    pub device_get_name: F3<*mut c_char, c_int, c_int>,
    pub device_get_attribute: F3<*mut c_int, c_int, c_int>,
    pub device_total_mem: F2<*mut usize, c_int>,
    pub primary_ctx_retain: F2<*mut Handle, c_int>,
    pub ctx_set_current: F<Handle>,
    pub stream_create: F2<*mut Handle, c_uint>,
    pub stream_synchronize: F<Handle>,
    pub mem_alloc: F2<*mut u64, usize>,
    pub mem_free: F<u64>,
    pub mem_get_info: F2<*mut usize, *mut usize>,
    pub mem_host_alloc: F3<*mut *mut c_void, usize, c_uint>,
    pub memcpy_htod_async: F4<u64, *const c_void, usize, Handle>,
    pub memcpy_dtoh_async: F4<*mut c_void, u64, usize, Handle>,
    pub memcpy_dtod_async: F4<u64, u64, usize, Handle>,
    pub module_load_data: F2<*mut Handle, *const c_void>,
    pub module_get_function: F3<*mut Handle, Handle, *const c_char>,
    pub func_set_attribute: F3<Handle, c_int, c_int>,
    pub launch_kernel: LaunchKernel,
    pub event_create: F2<*mut Handle, c_uint>,
    pub event_destroy: F<Handle>,
    pub event_record: F2<Handle, Handle>,
    pub event_query: F<Handle>,
    pub event_synchronize: F<Handle>,
    pub event_elapsed_time: F3<*mut f32, Handle, Handle>,
    pub stream_begin_capture: F2<Handle, c_int>,
    pub stream_end_capture: F2<Handle, *mut Handle>,
    pub stream_get_capture_info: CaptureInfo,
    pub graph_instantiate: F3<*mut Handle, Handle, u64>,
    pub graph_launch: F2<Handle, Handle>,
    pub graph_exec_destroy: F<Handle>,
    pub graph_destroy: F<Handle>,
    pub graph_exec_kernel_node_set_params: F3<Handle, Handle, *const KernelNodeParams>,
    /// Not in drivers before CUDA 12.
    pub tensor_map_encode_tiled: Option<TensorMapEncodeTiled>,
    get_error_name: F2<c_int, *mut *const c_char>,
    get_error_string: F2<c_int, *mut *const c_char>,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
pub struct KernelNodeParams {
    pub func: Handle,
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub shared: c_uint,
    pub params: *mut *mut c_void,
    pub extra: *mut *mut c_void,
    pub kernel: Handle,
    pub ctx: Handle,
}

/// `CUDA_SUCCESS`.
pub const SUCCESS: c_int = 0;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: c_int = 2;
/// `CUDA_ERROR_NOT_READY`.
pub const NOT_READY: c_int = 600;
/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
pub const MULTIPROCESSORS: c_int = 16;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`.
pub const CAPABILITY_MAJOR: c_int = 75;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`.
pub const CAPABILITY_MINOR: c_int = 76;
/// `CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR`.
pub const SHARED_MEMORY: c_int = 81;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
pub const MAX_DYNAMIC_SHARED: c_int = 8;
/// `CU_TENSOR_MAP_DATA_TYPE_UINT16`: what the 16 bits mean does not matter to a copy.
pub const MAP_U16: c_int = 1;
/// `CU_TENSOR_MAP_SWIZZLE_128B`.
pub const MAP_SWIZZLE_128B: c_int = 3;
/// `CU_TENSOR_MAP_L2_PROMOTION_L2_256B`.
pub const MAP_PROMOTION_256B: c_int = 3;
/// `CU_STREAM_NON_BLOCKING`.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`: other threads may go on allocating.
pub const CAPTURE_RELAXED: c_int = 2;
/// `CU_EVENT_DISABLE_TIMING`.
pub const EVENT_DISABLE_TIMING: c_uint = 2;
/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`.
pub const HOST_MAPPED: c_uint = 3;

// SAFETY: the library is thread-safe, and the table is never written after it was loaded.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

impl Driver {
    /// The driver, loaded once; or why there is none.
    pub fn get() -> Result<&'static Driver> {
        static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Driver::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Driver> {
        let names: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };
        let lib = Library::find("the NVIDIA driver", "GRADUS_LIBCUDA", names)?;
        // SAFETY: the types are those of cuda.h.
        let driver = unsafe {
            let init: F<c_uint> = lib.function(c"cuInit")?;
            let d = Driver {
                device_get_count: lib.function(c"cuDeviceGetCount")?,
                device_get: lib.function(c"cuDeviceGet")?,
                device_get_name: lib.function(c"cuDeviceGetName")?,
                device_get_attribute: lib.function(c"cuDeviceGetAttribute")?,
                device_total_mem: lib.function(c"cuDeviceTotalMem_v2")?,
                primary_ctx_retain: lib.function(c"cuDevicePrimaryCtxRetain")?,
                ctx_set_current: lib.function(c"cuCtxSetCurrent")?,
                stream_create: lib.function(c"cuStreamCreate")?,
                stream_synchronize: lib.function(c"cuStreamSynchronize")?,
                mem_alloc: lib.function(c"cuMemAlloc_v2")?,
                mem_free: lib.function(c"cuMemFree_v2")?,
                mem_get_info: lib.function(c"cuMemGetInfo_v2")?,
                mem_host_alloc: lib.function(c"cuMemHostAlloc")?,
                memcpy_htod_async: lib.function(c"cuMemcpyHtoDAsync_v2")?,
                memcpy_dtoh_async: lib.function(c"cuMemcpyDtoHAsync_v2")?,
                memcpy_dtod_async: lib.function(c"cuMemcpyDtoDAsync_v2")?,
                module_load_data: lib.function(c"cuModuleLoadData")?,
                module_get_function: lib.function(c"cuModuleGetFunction")?,
                func_set_attribute: lib.function(c"cuFuncSetAttribute")?,
                launch_kernel: lib.function(c"cuLaunchKernel")?,
                event_create: lib.function(c"cuEventCreate")?,
                event_destroy: lib.function(c"cuEventDestroy_v2")?,
                event_record: lib.function(c"cuEventRecord")?,
                event_query: lib.function(c"cuEventQuery")?,
                event_synchronize: lib.function(c"cuEventSynchronize")?,
                event_elapsed_time: lib.function(c"cuEventElapsedTime")?,
                stream_begin_capture: lib.function(c"cuStreamBeginCapture_v2")?,
                stream_end_capture: lib.function(c"cuStreamEndCapture")?,
                stream_get_capture_info: lib.function(c"cuStreamGetCaptureInfo_v2")?,
                graph_instantiate: lib.function(c"cuGraphInstantiateWithFlags")?,
                graph_launch: lib.function(c"cuGraphLaunch")?,
                graph_exec_destroy: lib.function(c"cuGraphExecDestroy")?,
                graph_destroy: lib.function(c"cuGraphDestroy")?,
                graph_exec_kernel_node_set_params: lib.function(c"cuGraphExecKernelNodeSetParams_v2")?,
                tensor_map_encode_tiled: lib.function(c"cuTensorMapEncodeTiled").ok(),
                get_error_name: lib.function(c"cuGetErrorName")?,
                get_error_string: lib.function(c"cuGetErrorString")?,
            };
            d.check(init(0), "cuInit")
                .map_err(|e| e.hint(format!("{} was loaded, and finds no usable GPU", lib.path)))?;
            d
        };
        // The functions live as long as the process, and so must the library.
        std::mem::forget(lib);
        Ok(driver)
    }

    /// An error that names the call and the driver's reason.
    pub fn check(&self, code: c_int, call: &str) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        let text = |f: F2<c_int, *mut *const c_char>| {
            let mut p: *const c_char = std::ptr::null();
            // SAFETY: the driver gives a static string, or leaves null for a code it does not know.
            unsafe {
                f(code, &mut p);
                if p.is_null() { format!("code {code}") } else { CStr::from_ptr(p).to_string_lossy().into_owned() }
            }
        };
        if code == OUT_OF_MEMORY {
            return Err(Error::new("cuda", ErrorKind::Alloc { bytes: 0 }));
        }
        Err(device_error(format!("{call} failed: {} ({})", text(self.get_error_name), text(self.get_error_string))))
    }
}

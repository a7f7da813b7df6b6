//! NVRTC: CUDA C to machine code.

use super::{Library, device_error};
use gradus_core::Result;
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    sync::OnceLock,
};

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;

/// Functions of libnvrtc.
pub struct Nvrtc {
    /// Major and minor version.
    pub version: (i32, i32),
    archs: Vec<i32>,
    create: Create,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ptx_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    ptx: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
}

impl Nvrtc {
    /// The compiler, loaded once; or why there is none.
    pub fn get() -> Result<&'static Nvrtc> {
        static NVRTC: OnceLock<Result<Nvrtc>> = OnceLock::new();
        NVRTC.get_or_init(Nvrtc::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Nvrtc> {
        let names: &[&str] = if cfg!(windows) {
            &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"]
        } else {
            &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
        };
        let lib = Library::find("NVRTC, CUDA's run-time compiler,", "GRADUS_NVRTC", names)?;
        // SAFETY: the types are those of nvrtc.h.
        let nvrtc = unsafe {
            let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int = lib.function(c"nvrtcVersion")?;
            let (mut major, mut minor) = (0, 0);
            version(&mut major, &mut minor);
            let count: unsafe extern "C" fn(*mut c_int) -> c_int = lib.function(c"nvrtcGetNumSupportedArchs")?;
            let list: unsafe extern "C" fn(*mut c_int) -> c_int = lib.function(c"nvrtcGetSupportedArchs")?;
            let mut n = 0;
            count(&mut n);
            let mut archs = vec![0; n.max(0) as usize];
            list(archs.as_mut_ptr());
            Nvrtc {
                version: (major, minor),
                archs,
                create: lib.function(c"nvrtcCreateProgram")?,
                compile: lib.function(c"nvrtcCompileProgram")?,
                destroy: lib.function(c"nvrtcDestroyProgram")?,
                log_size: lib.function(c"nvrtcGetProgramLogSize")?,
                log: lib.function(c"nvrtcGetProgramLog")?,
                cubin_size: lib.function(c"nvrtcGetCUBINSize")?,
                cubin: lib.function(c"nvrtcGetCUBIN")?,
                ptx_size: lib.function(c"nvrtcGetPTXSize")?,
                ptx: lib.function(c"nvrtcGetPTX")?,
            }
        };
        std::mem::forget(lib);
        Ok(nvrtc)
    }

    /// What to compile for on a GPU of this capability (90 is 9.0): its own machine code, or the newest intermediate
    /// code that this compiler knows, which the driver finishes.
    pub fn target(&self, capability: i32) -> String {
        if self.archs.contains(&capability) {
            return format!("sm_{capability}");
        }
        let newest = self.archs.iter().copied().filter(|&a| a <= capability).max().unwrap_or(capability);
        format!("compute_{newest}")
    }

    /// Compiles for a target of [`Nvrtc::target`].
    pub fn build(&self, text: &str, target: &str, options: &[&str]) -> Result<Vec<u8>> {
        let c = |s: &str| CString::new(s).map_err(|_| device_error("a program with a zero byte"));
        let text = c(text)?;
        let mut list = vec![c(&format!("--gpu-architecture={target}"))?];
        for o in options {
            list.push(c(o)?);
        }
        let pointers: Vec<*const c_char> = list.iter().map(|o| o.as_ptr()).collect();
        let mut program: Program = std::ptr::null_mut();
        // SAFETY: all pointers live through the calls, buffers have the sizes that the library asks for, and the program
        // is destroyed once.
        unsafe {
            let none = std::ptr::null();
            let made = (self.create)(&mut program, text.as_ptr(), c"gradus.cu".as_ptr(), 0, none, none);
            if made != 0 {
                return Err(device_error(format!("nvrtcCreateProgram failed with code {made}")));
            }
            let code = (self.compile)(program, pointers.len() as c_int, pointers.as_ptr());
            let out = if code == 0 {
                let ptx = target.starts_with("compute_");
                let (size, read) = if ptx { (self.ptx_size, self.ptx) } else { (self.cubin_size, self.cubin) };
                let mut n = 0usize;
                size(program, &mut n);
                let mut bytes = vec![0u8; n];
                let read = read(program, bytes.as_mut_ptr().cast());
                if read == 0 { Ok(bytes) } else { Err(device_error(format!("NVRTC gave no code: {read}"))) }
            } else {
                let mut n = 0usize;
                (self.log_size)(program, &mut n);
                let mut bytes = vec![0u8; n + 1];
                (self.log)(program, bytes.as_mut_ptr().cast());
                let log =
                    CStr::from_bytes_until_nul(&bytes).map_or(String::new(), |s| s.to_string_lossy().into_owned());
                let why = format!("NVRTC refuses a kernel (code {code}): {log}\n{}", text.to_string_lossy());
                Err(gradus_core::Error::new("cuda", gradus_core::ErrorKind::Internal(why)))
            };
            (self.destroy)(&mut program);
            out
        }
    }
}

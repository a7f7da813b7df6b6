//! NVRTC, loaded where it can be found.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    path::PathBuf,
};

type Program = *mut c_void;

pub struct Nvrtc(libloading::Library);

impl Nvrtc {
    /// The library, or a line that says where it was looked for.
    pub fn find() -> Option<Nvrtc> {
        let (files, looked) = candidates();
        for f in &files {
            // SAFETY: loading NVIDIA's library runs its initialisers, which is what is wanted.
            match unsafe { libloading::Library::new(f) } {
                Ok(lib) => {
                    println!("libnvrtc: {}", f.display());
                    return Some(Nvrtc(lib));
                }
                Err(e) => println!("{} does not load: {e}", f.display()),
            }
        }
        println!("skipped: libnvrtc not found (looked in {})", looked.join(", "));
        None
    }

    /// Compiles for an architecture; the log where that fails.
    pub fn compile(&self, text: &str, arch: &str) -> Result<(), String> {
        let text = CString::new(text).unwrap();
        let mut options = vec![CString::new(format!("--gpu-architecture={arch}")).unwrap()];
        options.extend(gradus_core::kernel::emit::NVRTC_OPTIONS.iter().map(|o| CString::new(*o).unwrap()));
        let options: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: the signatures are those of nvrtc.h, all pointers live through the calls, and the program is
        // destroyed once.
        unsafe {
            type Create = unsafe extern "C" fn(
                *mut Program,
                *const c_char,
                *const c_char,
                c_int,
                *const *const c_char,
                *const *const c_char,
            ) -> c_int;
            let create = self.0.get::<Create>(b"nvrtcCreateProgram").unwrap();
            let compile = self
                .0
                .get::<unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int>(b"nvrtcCompileProgram")
                .unwrap();
            let log_size =
                self.0.get::<unsafe extern "C" fn(Program, *mut usize) -> c_int>(b"nvrtcGetProgramLogSize").unwrap();
            let log = self.0.get::<unsafe extern "C" fn(Program, *mut c_char) -> c_int>(b"nvrtcGetProgramLog").unwrap();
            let destroy = self.0.get::<unsafe extern "C" fn(*mut Program) -> c_int>(b"nvrtcDestroyProgram").unwrap();
            let mut program: Program = std::ptr::null_mut();
            assert_eq!(
                create(&mut program, text.as_ptr(), c"kernel.cu".as_ptr(), 0, std::ptr::null(), std::ptr::null()),
                0
            );
            let status = compile(program, options.len() as c_int, options.as_ptr());
            let mut size = 0usize;
            log_size(program, &mut size);
            let mut bytes = vec![0u8; size + 1];
            log(program, bytes.as_mut_ptr().cast());
            let said = CStr::from_bytes_until_nul(&bytes).unwrap().to_string_lossy().into_owned();
            destroy(&mut program);
            if status == 0 { Ok(()) } else { Err(format!("status {status}: {said}")) }
        }
    }
}

/// Files to try, and the places searched.
fn candidates() -> (Vec<PathBuf>, Vec<String>) {
    let mut dirs: Vec<PathBuf> = vec![];
    let (mut files, mut looked) = (vec![], vec!["GRADUS_NVRTC".to_string()]);
    if let Some(f) = std::env::var_os("GRADUS_NVRTC") {
        files.push(PathBuf::from(f));
    }
    looked.push("LD_LIBRARY_PATH".into());
    if let Some(paths) = std::env::var_os("LD_LIBRARY_PATH") {
        dirs.extend(std::env::split_paths(&paths));
    }
    looked.push("CUDA_HOME".into());
    let homes = std::env::var_os("CUDA_HOME").map(PathBuf::from).into_iter().chain([PathBuf::from("/usr/local/cuda")]);
    dirs.extend(homes.flat_map(|h| [h.join("lib64"), h.join("lib")]));
    looked.push("/usr/local/cuda".into());
    let ask = "import site, sysconfig; print(*{sysconfig.get_paths()['purelib'], *site.getsitepackages()}, sep='\\n')";
    match std::process::Command::new("python3").args(["-c", ask]).output() {
        Ok(o) => {
            for site in String::from_utf8_lossy(&o.stdout).lines() {
                looked.push(format!("{site}/nvidia/*/lib"));
                let packages = std::fs::read_dir(PathBuf::from(site).join("nvidia"));
                dirs.extend(
                    packages
                        .into_iter()
                        .flatten()
                        .flatten()
                        .flat_map(|p| [p.path().join("lib"), p.path().join("lib64")]),
                );
            }
        }
        Err(_) => looked.push("site-packages (no python3)".into()),
    }
    for d in dirs {
        for f in std::fs::read_dir(d).into_iter().flatten().flatten() {
            let name = f.file_name().to_string_lossy().into_owned();
            if name.starts_with("libnvrtc.so") || name.starts_with("libnvrtc.dylib") {
                files.push(f.path());
            }
        }
    }
    (files, looked)
}

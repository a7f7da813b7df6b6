//! NVIDIA's libraries, found and loaded at run time: nothing of CUDA is needed to build.

pub mod blas;
pub mod dnn;
pub mod driver;
pub mod nvrtc;

use gradus_core::{Error, ErrorKind, Result};
use std::{
    collections::BTreeSet,
    ffi::CStr,
    path::{Path, PathBuf},
};

/// A loaded library and where it was found.
pub struct Library {
    lib: libloading::Library,
    /// The file, or the name the system's loader resolved.
    pub path: String,
}

/// An error of a missing or failing device.
#[track_caller]
pub fn device_error(why: impl Into<String>) -> Error {
    Error::new("cuda", ErrorKind::Device(why.into()))
}

impl Library {
    /// Loads the first of `names` (best first) that is in a folder of the list below or known to the system's loader.
    ///
    /// Looked in, in this order: the file that the variable `own` names, the folders of `GRADUS_CUDA_PATH`, the
    /// system's loader, `CUDA_HOME`, `CUDA_PATH`, `/usr/local/cuda*`, and the pip packages of the Python on the PATH.
    pub fn find(what: &str, own: &str, names: &[&str]) -> Result<Library> {
        let mut failed: Vec<String> = vec![];
        let mut attempt = |file: &Path| {
            // SAFETY: loading NVIDIA's library runs its initialisers, which is what is wanted.
            match unsafe { libloading::Library::new(file) } {
                Ok(lib) => Some(Library { lib, path: file.display().to_string() }),
                Err(e) => {
                    failed.push(format!("{}: {e}", file.display()));
                    None
                }
            }
        };
        if let Some(file) = std::env::var_os(own)
            && let Some(lib) = attempt(Path::new(&file))
        {
            return Ok(lib);
        }
        let given: Vec<PathBuf> = path_list("GRADUS_CUDA_PATH");
        for file in files(&given, names) {
            if let Some(lib) = attempt(&file) {
                return Ok(lib);
            }
        }
        for name in names {
            if let Some(lib) = attempt(Path::new(name)) {
                return Ok(lib);
            }
        }
        let folders = folders();
        for file in files(&folders, names) {
            if let Some(lib) = attempt(&file) {
                return Ok(lib);
            }
        }
        let looked: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
        let why = format!(
            "{what} is missing: none of {} loads from {own}, GRADUS_CUDA_PATH, the system's loader{}{}",
            names.join(", "),
            if looked.is_empty() { String::new() } else { format!(", {}", looked.join(", ")) },
            failed.last().map_or(String::new(), |f| format!(" (last error: {f})")),
        );
        Err(device_error(why).hint(format!("install it, or name its folder in GRADUS_CUDA_PATH or its file in {own}")))
    }

    /// A function of the library.
    ///
    /// # Safety
    /// `T` is the function's type.
    pub unsafe fn function<T: Copy>(&self, name: &CStr) -> Result<T> {
        // SAFETY: the caller's promise.
        match unsafe { self.lib.get::<T>(name.to_bytes_with_nul()) } {
            Ok(f) => Ok(*f),
            Err(e) => Err(device_error(format!("{} has no {}: {e}", self.path, name.to_string_lossy()))),
        }
    }
}

fn path_list(var: &str) -> Vec<PathBuf> {
    std::env::var_os(var).map_or(vec![], |v| std::env::split_paths(&v).filter(|p| p.is_dir()).collect())
}

/// Files in `folders` with one of these names, best name first.
fn files(folders: &[PathBuf], names: &[&str]) -> Vec<PathBuf> {
    names.iter().flat_map(|n| folders.iter().map(move |f| f.join(n))).filter(|f| f.is_file()).collect()
}

/// Folders that exist and may hold CUDA's libraries.
fn folders() -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = vec![];
    let mut homes: Vec<PathBuf> =
        ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os).map(PathBuf::from).collect();
    homes.extend(children(Path::new("/usr/local")).into_iter().filter(|p| {
        p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("cuda") || n.to_string_lossy() == "nvidia")
    }));
    out.extend(homes.iter().flat_map(|h| [h.join("lib64"), h.join("lib"), h.join("targets/x86_64-linux/lib")]));
    // A Python on the PATH with NVIDIA's packages: <prefix>/lib/python3.x/site-packages/nvidia/<package>/lib.
    let bins =
        path_list("PATH").into_iter().chain(std::env::var_os("VIRTUAL_ENV").map(|v| PathBuf::from(v).join("bin")));
    let prefixes: BTreeSet<PathBuf> =
        bins.filter(|b| b.join("python3").exists()).filter_map(|b| b.parent().map(Path::to_path_buf)).collect();
    for prefix in prefixes {
        for python in children(&prefix.join("lib")) {
            for packages in ["site-packages", "dist-packages"] {
                let nvidia = python.join(packages).join("nvidia");
                out.extend(children(&nvidia).into_iter().map(|p| p.join("lib")));
            }
        }
    }
    out.retain(|f| f.is_dir());
    out
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    all.sort();
    all
}

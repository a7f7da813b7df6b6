//! Files appear whole or not at all.

use crate::{Error, Result};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Writes a file so that its path holds the old content or the new one, never a part.
///
/// What `write` gives goes to a temporary file in the target's folder, is flushed to the disk, and takes the target's
/// name in one step. When anything fails (also when `write` returns an error or panics) the temporary file is removed
/// and the target is as it was; a process that is killed can leave the temporary file (`.name.PID-N.tmp`) behind.
///
/// A link is followed, an existing file's permissions are kept, and a target that is no regular file (`/dev/stdout`,
/// a pipe) is written directly.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("log.txt");
/// gradus_io::atomic_write(&path, |w| Ok(w.write_all(b"first")?))?;
/// let failed = gradus_io::atomic_write(&path, |w| {
///     w.write_all(b"sec")?;
///     Err(std::io::Error::other("the machine is on fire").into())
/// });
/// assert!(failed.is_err());
/// assert_eq!(std::fs::read(&path).unwrap(), b"first");
/// # Ok::<(), gradus_io::Error>(())
/// ```
pub fn atomic_write(path: impl AsRef<Path>, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let path = path.as_ref();
    replace(path, write).map_err(|e| e.with_path(path))
}

fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    // Renaming over a link would replace the link, not the file behind it.
    let is_link = fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink());
    let target = if is_link { fs::canonicalize(path).unwrap_or_else(|_| path.into()) } else { path.into() };
    let old = fs::metadata(&target).ok();
    if let Some(old) = &old {
        if old.is_dir() {
            let e = io::Error::new(io::ErrorKind::IsADirectory, "it is a folder");
            return Err(Error::io("cannot write", e).hint("give the name of a file in it"));
        }
        if !old.is_file() {
            let file = OpenOptions::new().write(true).open(&target).map_err(|e| Error::io("cannot open", e))?;
            return fill(file, write).map(drop);
        }
    }
    let (temp, file) = Temp::create(&target)?;
    let file = fill(file, write)?;
    if let Some(old) = old {
        // Some file systems have no permissions to set; the content is what matters.
        let _ = file.set_permissions(old.permissions());
    }
    file.sync_all().map_err(|e| Error::io("cannot flush to the disk", e))?;
    drop(file);
    temp.rename_to(&target)
}

fn fill(file: File, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<File> {
    let mut out = BufWriter::with_capacity(1 << 16, file);
    write(&mut out)?;
    out.into_inner().map_err(|e| Error::io("cannot write", e.into_error()))
}

/// A temporary file; removed on drop, unless it was renamed.
struct Temp {
    path: PathBuf,
    renamed: bool,
}

impl Temp {
    fn create(target: &Path) -> Result<(Temp, File)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let Some(name) = target.file_name() else {
            let e = io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
            return Err(Error::io("cannot write", e));
        };
        // Names are limited to 255 bytes nearly everywhere: a long one gives only its beginning to the temporary.
        let stem: String = name.to_string_lossy().chars().take(40).collect();
        loop {
            let temp = format!(".{stem}.{}-{}.tmp", process::id(), COUNT.fetch_add(1, Relaxed));
            let path = target.with_file_name(temp);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((Temp { path, renamed: false }, file)),
                // Another process with our number (in another container) may be writing it: leave it, take the next.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(beside_error(e, &path)),
            }
        }
    }

    fn rename_to(mut self, target: &Path) -> Result<()> {
        fs::rename(&self.path, target).map_err(|e| Error::io("cannot replace the old file", e))?;
        self.renamed = true;
        // Makes the new name itself last. Not every system lets a folder be opened or flushed; the file is whole anyway.
        if let Ok(folder) = File::open(folder_of(target)) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.renamed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn beside_error(e: io::Error, temp: &Path) -> Error {
    let folder = folder_of(temp);
    let hint = match e.kind() {
        io::ErrorKind::NotFound => format!("the folder {} does not exist: make it first", folder.display()),
        io::ErrorKind::NotADirectory => format!("{} is not a folder", folder.display()),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            format!("the folder {} must be writable: the file is written beside its target first", folder.display())
        }
        _ => return Error::io("cannot create a file beside it", e),
    };
    Error::io("cannot create a file beside it", e).hint(hint)
}

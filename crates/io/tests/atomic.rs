//! Files appear whole or not at all.

use gradus_core::Tensor;
use gradus_io::{ErrorKind, StateDict, atomic_write, load, save};
use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::Command,
};

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|f| f.unwrap().file_name().to_string_lossy().into()).collect();
    names.sort();
    names
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    atomic_write(&path, |w| Ok(w.write_all(b"old")?)).unwrap();
    let e = atomic_write(&path, |w| {
        w.write_all(&[1; 100_000])?;
        Err(std::io::Error::other("no more").into())
    });
    assert!(e.unwrap_err().to_string().ends_with("x: cannot write: no more"));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        atomic_write(&path, |w| {
            w.write_all(&[1; 100_000])?;
            panic!("in the middle");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!((fs::read(&path).unwrap(), names(dir.path())), (b"old".to_vec(), vec!["x".to_string()]));
    atomic_write(&path, |w| Ok(w.write_all(b"new")?)).unwrap();
    assert_eq!((fs::read(&path).unwrap(), names(dir.path())), (b"new".to_vec(), vec!["x".to_string()]));
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDict::from_iter([("x", Tensor::from([1.0f32]))]);
    let file = dir.path().join("file");
    fs::write(&file, "a file").unwrap();
    let e = save(file.join("x.safetensors"), &state).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Io { .. }) && e.to_string().contains("is not a folder"), "{e}");
    let e = save(dir.path().join("none/x.safetensors"), &state).unwrap_err();
    assert!(e.to_string().contains("does not exist: make it first"), "{e}");
    let e = atomic_write(dir.path(), |_| Ok(())).unwrap_err();
    assert!(e.to_string().contains("it is a folder"), "{e}");

    let locked = dir.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::write(locked.join("x.npz"), "old").unwrap();
    let mut permissions = fs::metadata(&locked).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&locked, permissions).unwrap();
    if fs::write(locked.join("probe"), "").is_ok() {
        println!("skipped: this user writes to read-only folders");
        return;
    }
    let e = save(locked.join("x.npz"), &state).unwrap_err();
    assert!(e.to_string().contains("must be writable"), "{e}");
    assert_eq!(fs::read(locked.join("x.npz")).unwrap(), b"old");
}

#[test]
fn a_full_disk_is_an_error() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        println!("skipped: this system has no /dev/full");
        return;
    }
    let e = atomic_write(full, |w| Ok(w.write_all(b"small, so it fails when the buffer is flushed")?)).unwrap_err();
    let ErrorKind::Io { source, .. } = e.kind() else { panic!("{e}") };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert!(e.to_string().starts_with("/dev/full: cannot write: "), "{e}");
    assert!(atomic_write(full, |w| Ok(w.write_all(&[0; 1 << 20])?)).is_err());
    assert!(full.exists() && !fs::metadata(full).unwrap().is_file(), "a device is not replaced by a file");
}

/// A child that is killed in the middle of a write: see `a_killed_write_leaves_the_old_file`.
#[test]
fn child_that_dies() {
    if let Ok(path) = std::env::var("GRADUS_TEST_DIE_AT") {
        let _ = atomic_write(path, |w| {
            w.write_all(&[1; 1_000_000])?;
            std::process::abort();
        });
    }
}

#[test]
fn a_killed_write_leaves_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    save(&path, &StateDict::from_iter([("x", Tensor::from([1.0f32, 2.0]))])).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_dies"])
        .env("GRADUS_TEST_DIE_AT", &path)
        .output()
        .unwrap();
    assert!(!child.status.success(), "the child was meant to die");
    assert_eq!(names(dir.path()).len(), 2, "it died while the temporary file was there");
    assert_eq!(load(&path).unwrap().tensor("x").unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
    save(&path, &StateDict::from_iter([("x", Tensor::from([3.0f32]))])).unwrap();
    assert_eq!(load(&path).unwrap().tensor("x").unwrap().to_vec::<f32>().unwrap(), [3.0]);
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_permissions_kept() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::write(&real, "old").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&real, &link).unwrap();
    atomic_write(&link, |w| Ok(w.write_all(b"new")?)).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read(&real).unwrap(), b"new");
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn extensions_say_the_format() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDict::from_iter([("x", Tensor::from([1.0f32]))]);
    for (name, what) in
        [("x.pt", "are read, not written"), ("x.bin", "the extension \"bin\""), ("x", "the extension \"\"")]
    {
        let e = save(dir.path().join(name), &state).unwrap_err();
        assert!(e.to_string().contains(what) && e.to_string().contains("hint: save as .safetensors"), "{e}");
    }
    for name in ["x.safetensors", "x.npz", "x.NPY"] {
        save(dir.path().join(name), &state).unwrap();
        assert_eq!(load(dir.path().join(name)).unwrap().len(), 1);
    }
}

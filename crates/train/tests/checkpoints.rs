//! Checkpoints: damage is found, the one before steps in, and a disk that fails loses nothing.

use gradus_core::{Tensor, get_rng_state, manual_seed};
use gradus_io::StateDict;
use gradus_optim::{Adam, Optimizer};
use gradus_train::{Checkpoint, Checkpoints, LoaderState, Params};
use std::{fs, path::Path};

fn checkpoint(x: f32) -> Checkpoint {
    let state = StateDict::from_iter([("w", Tensor::from([x; 1000]))]);
    Checkpoint::new().with_state("model", &state).with_loader(LoaderState { epoch: 1, batch: 2, seed: u64::MAX })
}

fn first(c: &Checkpoint) -> f32 {
    c.part("model").unwrap().tensor("w").unwrap().to_vec::<f32>().unwrap()[0]
}

#[test]
fn everything_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.safetensors");
    let w = Tensor::var("w", Tensor::from([1.0f32, -2.0]));
    let mut opt = Adam::new([&w], 0.1);
    opt.step(&w.square().sum().backward().unwrap()).unwrap();
    manual_seed(u64::MAX - 1);
    let _ = Tensor::rand([3]);
    let saved = get_rng_state();
    let loader = LoaderState { epoch: 3, batch: 17, seed: u64::MAX };
    Checkpoint::new()
        .with("model", &Params::of([&w]))
        .with("optimizer", &opt)
        .with_loader(loader)
        .with_value("note", "abc \"quoted\"")
        .save(&path)
        .unwrap();
    manual_seed(0);
    let c = Checkpoint::load(&path).unwrap();
    c.restore_rng().unwrap();
    assert_eq!((get_rng_state(), c.loader().unwrap()), (saved, loader));
    assert_eq!(c.value("note").unwrap().as_str(), Some("abc \"quoted\""));
    let before = w.to_vec::<f32>().unwrap();
    w.set(&Tensor::from([0.0f32, 0.0])).unwrap();
    c.restore("model", &mut Params::of([&w])).unwrap();
    assert_eq!(w.to_vec::<f32>().unwrap(), before);
    let e = c.part("mdoel").unwrap_err().to_string();
    assert!(e.contains("no part `mdoel`; it has: model, optimizer"), "{e}");
    // Others read it too.
    assert!(gradus_io::load(&path).unwrap().contains("model.w"));
}

#[test]
fn any_damaged_byte_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.safetensors");
    checkpoint(1.0).save(&path).unwrap();
    let good = fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(7).chain([good.len() - 1]) {
        let mut bad = good.clone();
        bad[at] ^= 0x20;
        fs::write(&path, &bad).unwrap();
        let e = Checkpoint::load(&path).unwrap_err().to_string();
        assert!(e.contains("c.safetensors: damaged file"), "byte {at}: {e}");
    }
    for length in [0, 1, 20, 40, good.len() / 2, good.len() - 1] {
        fs::write(&path, &good[..length]).unwrap();
        assert!(Checkpoint::load(&path).is_err(), "cut at {length}");
    }
    let mut bad = good.clone();
    bad[good.len() - 1] ^= 1;
    fs::write(&path, &bad).unwrap();
    let e = Checkpoint::load(&path).unwrap_err().to_string();
    let sums: Vec<&str> = e.split_whitespace().filter(|w| w.len() == 8 && u32::from_str_radix(w, 16).is_ok()).collect();
    assert!(sums.len() == 2 && sums[0] != sums[1], "both sums are named: {e}");
    fs::write(&path, &good).unwrap();
    assert_eq!(first(&Checkpoint::load(&path).unwrap()), 1.0);
    gradus_io::save(&path, &StateDict::from_iter([("w", Tensor::from([1.0f32]))])).unwrap();
    let e = Checkpoint::load(&path).unwrap_err().to_string();
    assert!(e.contains("without a checksum"), "{e}");
}

#[test]
fn the_last_whole_one_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let store = Checkpoints::open(dir.path().join("a/b")).unwrap().keep(3);
    assert!(store.load_latest().unwrap().is_none());
    for step in 1..=5 {
        store.save(step, &checkpoint(step as f32)).unwrap();
    }
    assert_eq!(store.steps(), [3, 4, 5]);
    fs::write(store.path(5), b"").unwrap();
    let bytes = fs::read(store.path(4)).unwrap();
    fs::write(store.path(4), &bytes[..bytes.len() / 2]).unwrap();
    let latest = store.load_latest().unwrap().unwrap();
    assert_eq!((latest.step, latest.damaged.len(), first(&latest.checkpoint)), (3, 2, 3.0));
    // Going on from there, the damaged ones go.
    store.save(4, &checkpoint(4.5)).unwrap();
    assert_eq!(store.steps(), [3, 4]);
    for step in [3, 4] {
        fs::write(store.path(step), b"nothing").unwrap();
    }
    let e = store.load_latest().err().unwrap().to_string();
    assert!(e.contains("none of the 2 checkpoints can be used"), "{e}");
}

#[test]
fn parts_of_killed_writers_are_swept() {
    let dir = tempfile::tempdir().unwrap();
    let of = |pid: u32| dir.path().join(format!(".step-0000000003.safetensors.{pid}-0.tmp"));
    // A process number beyond any system's, and our own, which is alive.
    for pid in [999_999_999, std::process::id()] {
        fs::write(of(pid), b"half").unwrap();
    }
    Checkpoints::open(dir.path()).unwrap();
    assert_eq!(of(999_999_999).exists(), !cfg!(target_os = "linux"));
    assert!(of(std::process::id()).exists());
}

/// Runs this test anew in another process, where `GRADUS_CHILD` is the folder.
#[cfg(unix)]
fn again(test: &str, folder: &Path, prepare: impl FnOnce(&mut std::process::Command)) -> std::process::Output {
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg("trap '' XFSZ; ulimit -f ${LIMIT:-unlimited}; exec \"$0\" \"$@\"");
    command.arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]).env("GRADUS_CHILD", folder);
    prepare(&mut command);
    command.output().unwrap()
}

/// What a failing disk must not do: lose the checkpoint that is there, leave anything behind, or say nothing.
#[cfg(unix)]
fn nothing_is_lost(store: &Checkpoints, out: &std::process::Output, said: &str) {
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}\n{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("step-0000000002.safetensors: ") && text.contains(said), "{text}");
    assert_eq!(fs::read_dir(store.folder()).unwrap().count(), 1, "nothing half-written is left");
    assert_eq!(first(&store.load_latest().unwrap().unwrap().checkpoint), 1.0);
}

#[cfg(unix)]
fn child_saves(folder: &std::ffi::OsStr) {
    let store = Checkpoints::open(folder).unwrap();
    let state = StateDict::from_iter([("w", Tensor::from(vec![2.0f32; 100_000]))]);
    let e = store.save(2, &Checkpoint::new().with_state("model", &state)).unwrap_err();
    println!("{e}");
    assert_eq!(first(&store.load_latest().unwrap().unwrap().checkpoint), 1.0);
}

#[cfg(unix)]
#[test]
fn a_disk_that_is_full_loses_nothing() {
    if let Some(folder) = std::env::var_os("GRADUS_CHILD") {
        return child_saves(&folder);
    }
    let dir = tempfile::tempdir().unwrap();
    let store = Checkpoints::open(dir.path()).unwrap().keep(1);
    store.save(1, &checkpoint(1.0)).unwrap();
    // No file may grow beyond 16 blocks: a write then fails in its middle, as on a full disk.
    let out = again("a_disk_that_is_full_loses_nothing", dir.path(), |c| {
        c.env("LIMIT", "16");
    });
    nothing_is_lost(&store, &out, "cannot write: ");

    // And the words of a full disk itself.
    if Path::new("/dev/full").exists() {
        let e = checkpoint(1.0).save("/dev/full").unwrap_err().to_string();
        assert!(e.contains("/dev/full: cannot write: No space left on device"), "{e}");
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_is_read_only_loses_nothing() {
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};
    if let Some(folder) = std::env::var_os("GRADUS_CHILD") {
        return child_saves(&folder);
    }
    let dir = tempfile::tempdir().unwrap();
    let store = Checkpoints::open(dir.path()).unwrap();
    store.save(1, &checkpoint(1.0)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    // Root may write everywhere: then somebody else must try.
    let root = fs::write(dir.path().join("probe"), b"").is_ok();
    let _ = fs::remove_file(dir.path().join("probe"));
    let out = again("a_folder_that_is_read_only_loses_nothing", dir.path(), |c| {
        if root {
            c.uid(65534);
        }
    });
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    nothing_is_lost(&store, &out, "must be writable");
}

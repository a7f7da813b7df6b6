//! CIFAR-10 and CIFAR-100 in their binary versions: records of one or two labels and 3,072 bytes of pixels.

use crate::{LabeledImages, ReadError, ReadResult, error::shorten, file};
use std::path::{Path, PathBuf};

const PIXELS: usize = 3 * 32 * 32;

/// Which of the two sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cifar {
    /// Ten classes.
    Ten,
    /// A hundred classes (the finer of the two labels).
    Hundred,
}

impl Cifar {
    fn format(self) -> &'static str {
        match self {
            Cifar::Ten => "CIFAR-10",
            Cifar::Hundred => "CIFAR-100",
        }
    }

    fn classes(self) -> usize {
        match self {
            Cifar::Ten => 10,
            Cifar::Hundred => 100,
        }
    }

    /// Bytes before the pixels; the last of them is the label.
    fn labels(self) -> usize {
        match self {
            Cifar::Ten => 1,
            Cifar::Hundred => 2,
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Cifar::Ten => "cifar-10-batches-bin",
            Cifar::Hundred => "cifar-100-binary",
        }
    }

    fn files(self, train: bool) -> Vec<String> {
        match (self, train) {
            (Cifar::Ten, true) => (1..=5).map(|i| format!("data_batch_{i}.bin")).collect(),
            (Cifar::Ten, false) => vec!["test_batch.bin".into()],
            (Cifar::Hundred, true) => vec!["train.bin".into()],
            (Cifar::Hundred, false) => vec!["test.bin".into()],
        }
    }

    fn names(self) -> &'static str {
        match self {
            Cifar::Ten => "batches.meta.txt",
            Cifar::Hundred => "fine_label_names.txt",
        }
    }
}

/// Labels and pixels of a file's records.
fn records(set: Cifar, bytes: &[u8], labels: &mut Vec<u8>, pixels: &mut Vec<u8>) -> ReadResult<()> {
    let record = set.labels() + PIXELS;
    if bytes.is_empty() || !bytes.len().is_multiple_of(record) {
        let expected = format!("records of {record} bytes");
        let found = format!("{} bytes, {} of them beyond whole records", bytes.len(), bytes.len() % record);
        let e = ReadError::malformed(set.format(), expected, found).at((bytes.len() / record * record) as u64);
        return Err(e.hint("the binary version is read, not the one for Python or Matlab"));
    }
    labels.reserve(bytes.len() / record);
    pixels.reserve(bytes.len() / record * PIXELS);
    for (i, r) in bytes.chunks_exact(record).enumerate() {
        let (head, image) = r.split_at(set.labels());
        let label = head.last().copied().unwrap_or(0);
        if usize::from(label) >= set.classes() {
            let at = (i * record + set.labels() - 1) as u64;
            let expected = format!("a label below {}", set.classes());
            return Err(ReadError::malformed(set.format(), expected, format!("{label}")).at(at));
        }
        labels.push(label);
        pixels.extend_from_slice(image);
    }
    Ok(())
}

fn numbered(set: Cifar) -> Vec<String> {
    (0..set.classes()).map(|c| c.to_string()).collect()
}

/// Reads one file that is in memory; classes are named by their numbers.
pub fn from_bytes(set: Cifar, bytes: &[u8]) -> ReadResult<LabeledImages> {
    let (mut labels, mut pixels) = (vec![], vec![]);
    records(set, bytes, &mut labels, &mut pixels)?;
    Ok(LabeledImages::new([3, 32, 32], pixels, labels, numbered(set))?)
}

/// Reads the training or the test images from the folder with the binary files, or the folder above it.
///
/// ```no_run
/// use gradus_data::cifar::{Cifar, load};
/// let train = load(Cifar::Ten, "data/cifar-10-batches-bin", true)?; // 50,000 images [3, 32, 32]
/// # Ok::<(), gradus_data::ReadError>(())
/// ```
pub fn load(set: Cifar, folder: impl AsRef<Path>, train: bool) -> ReadResult<LabeledImages> {
    let folder = folder.as_ref();
    let inner = folder.join(set.folder());
    let folder: PathBuf = if inner.is_dir() { inner } else { folder.to_path_buf() };
    let (mut labels, mut pixels) = (vec![], vec![]);
    for name in set.files(train) {
        let path = folder.join(name);
        let bytes = file::read(&path)?;
        records(set, &bytes, &mut labels, &mut pixels).map_err(|e| e.with_path(&path))?;
    }
    let classes = names(set, &folder)?;
    Ok(LabeledImages::new([3, 32, 32], pixels, labels, classes)?)
}

/// The names of the classes, where the file with them is there.
fn names(set: Cifar, folder: &Path) -> ReadResult<Vec<String>> {
    let path = folder.join(set.names());
    if !path.is_file() {
        return Ok(numbered(set));
    }
    let bytes = file::read(&path)?;
    let text = String::from_utf8_lossy(&bytes);
    let names: Vec<String> = text.lines().map(str::trim).filter(|l| !l.is_empty()).map(shorten).collect();
    if names.len() != set.classes() {
        let expected = format!("{} names of classes", set.classes());
        return Err(ReadError::malformed(set.format(), expected, format!("{}", names.len())).at(0).with_path(path));
    }
    Ok(names)
}

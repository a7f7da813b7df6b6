//! The readers, the valid files they are tried with, and what they may take.

use super::mend;
use gradus_data::{
    Dataset, ReadResult,
    cifar::{self, Cifar},
    csv::{self, CsvOptions, Values},
    idx,
    image::{self, ImageOptions},
    text::{Bpe, Tokenizer},
};
use gradus_io::StateDict;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A reader under trial.
pub struct Reader {
    /// Its name on the command line.
    pub name: &'static str,
    /// The folder, from the root of the repository, that keeps what was found.
    pub corpus: &'static str,
    /// Valid files.
    pub seeds: fn() -> Result<Vec<Vec<u8>>, String>,
    /// Reads bytes and looks at what came out; whether they were accepted. An error is a defect of the reader.
    pub read: fn(&[u8]) -> Result<bool, String>,
    /// The most bytes that may be held for a file.
    pub bound: fn(&[u8]) -> usize,
    /// Puts checksums and lengths right.
    pub mend: fn(Vec<u8>, &[u8]) -> Vec<u8>,
}

const IO: &str = "crates/io/tests/data/regression";
const DATA: &str = "crates/data/tests/data/corpus";
/// What may be held for the smallest file.
const BASE: usize = 4 << 20;

/// In proportion to the file.
fn plain(bytes: &[u8]) -> usize {
    BASE + 256 * bytes.len()
}

/// A deflated file may grow a thousandfold, and is copied a few times.
fn deflated(bytes: &[u8]) -> usize {
    BASE + 4500 * bytes.len()
}

const MAX_PIXELS: usize = 1 << 20;

/// A deflated byte may be 8,000 pixels of one bit; each becomes three floats. Beyond the limit on pixels nothing grows.
fn picture(bytes: &[u8]) -> usize {
    BASE + (120_000 * bytes.len()).min(40 * MAX_PIXELS)
}

/// All readers.
pub static READERS: [Reader; 12] = [
    Reader {
        name: "safetensors",
        corpus: IO,
        seeds: || io(&["tensors.safetensors", "foreign.safetensors"]),
        read: tensors,
        bound: plain,
        mend: mend::safetensors,
    },
    Reader {
        name: "pt-zip",
        corpus: IO,
        seeds: || io(&["checkpoint.pt", "state_dict.pt", "tensor.pt", "deflated.pt", "checkpoint_protocol4.pt"]),
        read: tensors,
        bound: deflated,
        mend: mend::zip,
    },
    Reader {
        name: "pt-legacy",
        corpus: IO,
        seeds: || io(&["checkpoint_legacy.pt", "checkpoint_legacy_protocol4.pt"]),
        read: tensors,
        bound: plain,
        mend: mend::nothing,
    },
    Reader {
        name: "npy",
        corpus: IO,
        seeds: || {
            io(&[
                "f4.npy",
                "big_endian.npy",
                "fortran.npy",
                "fortran_big.npy",
                "scalar.npy",
                "bool.npy",
                "version2.npy",
                "version3.npy",
            ])
        },
        read: tensors,
        bound: plain,
        mend: mend::npy,
    },
    Reader {
        name: "npz",
        corpus: IO,
        seeds: || io(&["stored.npz", "deflated.npz"]),
        read: tensors,
        bound: deflated,
        mend: mend::zip,
    },
    Reader { name: "idx", corpus: DATA, seeds: idx_seeds, read: read_idx, bound: deflated, mend: mend::idx },
    Reader {
        name: "cifar10",
        corpus: DATA,
        seeds: || Ok(vec![cifar_seed(1, 10)]),
        read: |b| read_cifar(Cifar::Ten, b),
        bound: plain,
        mend: mend::nothing,
    },
    Reader {
        name: "cifar100",
        corpus: DATA,
        seeds: || Ok(vec![cifar_seed(2, 100)]),
        read: |b| read_cifar(Cifar::Hundred, b),
        bound: plain,
        mend: mend::nothing,
    },
    Reader {
        name: "csv",
        corpus: DATA,
        seeds: csv_seeds,
        read: read_csv,
        bound: |b| BASE + 512 * b.len(),
        mend: mend::nothing,
    },
    Reader { name: "png", corpus: DATA, seeds: || data("png"), read: read_image, bound: picture, mend: mend::png },
    Reader { name: "jpeg", corpus: DATA, seeds: || data("jpg"), read: read_image, bound: picture, mend: mend::nothing },
    Reader {
        name: "bpe",
        corpus: DATA,
        seeds: bpe_seeds,
        read: read_bpe,
        bound: |b| BASE + 512 * b.len(),
        mend: mend::nothing,
    },
];

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn file(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn io(names: &[&str]) -> Result<Vec<Vec<u8>>, String> {
    names.iter().map(|n| file(&root().join("crates/io/tests/data").join(n))).collect()
}

fn data(extension: &str) -> Result<Vec<Vec<u8>>, String> {
    let folder = root().join("crates/data/tests/data");
    let list = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut paths: Vec<PathBuf> = list.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == extension));
    paths.sort();
    paths.iter().map(|p| file(p)).collect()
}

fn tensors(bytes: &[u8]) -> Result<bool, String> {
    let show = |e: gradus_io::Error| match format!("{e}{e:?}").len() {
        0 => Err("an error without a text".to_string()),
        _ => Ok(false),
    };
    let look = |state: StateDict| {
        for (name, t) in state.iter().filter(|(_, t)| t.numel() <= 4096) {
            let len = t.to_bytes().map_err(|e| format!("`{name}` cannot be read: {e}"))?.len();
            if len != t.numel() * t.dtype().size() {
                return Err(format!("`{name}` gives {len} bytes"));
            }
        }
        Ok(true)
    };
    // By format too: a damaged magic must not save the reader.
    for info in [
        gradus_io::safetensors::inspect(bytes),
        gradus_io::pt::inspect(bytes),
        gradus_io::npy::inspect(bytes),
        gradus_io::npz::inspect(bytes),
    ] {
        match info {
            Ok(info) if info.to_string().is_empty() => return Err("a description without a text".into()),
            Ok(_) => {}
            Err(e) => drop(show(e)?),
        }
    }
    gradus_io::from_bytes(bytes).map_or_else(show, look)
}

/// An error must say something; a value is looked at.
fn outcome<T>(got: ReadResult<T>, look: impl FnOnce(T) -> Result<(), String>) -> Result<bool, String> {
    match got {
        Ok(value) => look(value).map(|()| true),
        Err(e) if format!("{e}{e:?}").is_empty() => Err("an error without a text".into()),
        Err(_) => Ok(false),
    }
}

fn read_idx(bytes: &[u8]) -> Result<bool, String> {
    outcome(idx::from_bytes(bytes), |t| match t.to_bytes() {
        Ok(b) if b.len() == t.numel() * t.dtype().size() => Ok(()),
        other => Err(format!("a tensor that gives {:?}", other.map(|b| b.len()))),
    })
}

fn read_cifar(set: Cifar, bytes: &[u8]) -> Result<bool, String> {
    outcome(cifar::from_bytes(set, bytes), |images| {
        let last = images.get(images.len() - 1).map_err(|e| e.to_string())?;
        if last.0.pixels().len() == 3072 { Ok(()) } else { Err("an image of another size".into()) }
    })
}

fn read_csv(bytes: &[u8]) -> Result<bool, String> {
    let look = |t: csv::Table| {
        let len = |v: &Values| match v {
            Values::I64(v) => v.len(),
            Values::F64(v) => v.len(),
            Values::Bool(v) => v.len(),
            Values::Text(v) => v.len(),
        };
        match t.columns().iter().find(|c| len(&c.values) != t.len()) {
            Some(c) => Err(format!("column {c} has another length")),
            None => t.columns().first().map_or(Ok(()), |c| t.labels(&c.name).map(drop).map_err(|e| e.to_string())),
        }
    };
    let bare = CsvOptions { header: false, ..CsvOptions::default() };
    outcome(csv::parse(bytes, &bare), look)?;
    outcome(csv::parse(bytes, &CsvOptions::default()), look)
}

fn read_image(bytes: &[u8]) -> Result<bool, String> {
    let mut accepted = Ok(false);
    for channels in [None, Some(3)] {
        let options = ImageOptions { channels, max_pixels: MAX_PIXELS };
        accepted = Ok(outcome(image::decode(bytes, &options), |i| {
            match i.pixels().iter().find(|p| !(0.0..=1.0).contains(*p)) {
                Some(p) => Err(format!("a pixel of {p}")),
                None => Ok(()),
            }
        })?);
    }
    accepted
}

fn read_bpe(bytes: &[u8]) -> Result<bool, String> {
    outcome(Bpe::from_text(bytes), |bpe| {
        let text = bytes.get(..bytes.len().min(500)).unwrap_or_default();
        let back = bpe.encode(text).and_then(|t| bpe.decode(&t)).map_err(|e| e.to_string())?;
        let same = Bpe::from_text(bpe.to_text()).is_ok_and(|again| again == bpe);
        if back == text && same { Ok(()) } else { Err("it does not give back what it took".into()) }
    })
}

fn idx_seeds() -> Result<Vec<Vec<u8>>, String> {
    let make = |kind: u8, shape: &[u32], size: usize| {
        let mut f = vec![0, 0, kind, shape.len() as u8];
        shape.iter().for_each(|d| f.extend(d.to_be_bytes()));
        let count = shape.iter().product::<u32>() as usize * size;
        f.extend((0..count).map(|i| (i * 7) as u8));
        f
    };
    let plain = [make(8, &[3, 4, 5], 1), make(0x0d, &[6], 4), make(0x0e, &[2, 2], 8), make(0x0b, &[5, 2], 2)];
    Ok(plain.iter().cloned().chain(plain.iter().map(|p| mend::gzip(p))).collect())
}

fn cifar_seed(labels: usize, classes: usize) -> Vec<u8> {
    let record =
        |i: usize| (0..labels + 3072).map(move |k| if k < labels { (i * 3 % classes) as u8 } else { (i + k) as u8 });
    (0..3).flat_map(record).collect()
}

fn csv_seeds() -> Result<Vec<Vec<u8>>, String> {
    let texts = [
        "id,size,name\n1,2.5,\"a, \"\"b\"\"\"\n-2,NA,\"two\nlines\"\n",
        "a;b\r\n1,2\r\n",
        "\u{feff}x,y,ok\n1,1e3,true\n2,,false\n",
        "5.1,3.5,1.4,0.2,setosa\n4.9,3.0,1.4,0.2,setosa\n6.3,3.3,6.0,2.5,virginica\n",
    ];
    Ok(texts.map(|t| t.as_bytes().to_vec()).to_vec())
}

fn bpe_seeds() -> Result<Vec<Vec<u8>>, String> {
    let text = "O Romeo, Romeo! wherefore art thou Romeo? Deny thy father and refuse thy name; or, if thou wilt not";
    let long = "a".repeat(600);
    [Bpe::train(text, 300), Bpe::train(long, 270)]
        .map(|b| b.map(|b| b.to_text().into_bytes()).map_err(|e| e.to_string()))
        .into_iter()
        .collect()
}

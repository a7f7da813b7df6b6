//! IDX, CIFAR and CSV: files as they are, and as they should not be.

use gradus_core::DType;
use gradus_data::{
    Dataset, Place, ReadResult,
    cifar::{self, Cifar},
    csv::{self, ColumnType, CsvOptions, Values},
    idx,
};
use std::{fs, path::Path};

fn idx_file(kind: u8, shape: &[u32], data: &[u8]) -> Vec<u8> {
    let mut f = vec![0, 0, kind, shape.len() as u8];
    shape.iter().for_each(|d| f.extend(d.to_be_bytes()));
    f.extend(data);
    f
}

/// A gzip file with a name in its header, as `gzip` makes them.
fn gzip(content: &[u8]) -> Vec<u8> {
    let mut f = vec![0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3];
    f.extend(b"name\0");
    f.extend(miniz_oxide::deflate::compress_to_vec(content, 6));
    f.extend(crc32fast::hash(content).to_le_bytes());
    f.extend((content.len() as u32).to_le_bytes());
    f
}

fn fails<T>(got: ReadResult<T>, parts: &[&str]) -> gradus_data::ReadError {
    let Err(e) = got else { panic!("no error, but {parts:?} was expected") };
    let text = e.to_string();
    parts.iter().for_each(|p| assert!(text.contains(p), "`{p}` is not in: {text}"));
    e
}

#[test]
fn idx_of_every_type() {
    let t = idx::from_bytes(&idx_file(0x0b, &[2, 2], &[0, 1, 0xff, 0xff, 1, 0, 0x80, 0])).unwrap();
    assert_eq!((t.dtype(), t.to_vec::<i16>().unwrap()), (DType::I16, vec![1, -1, 256, -32768]));
    let t = idx::from_bytes(&idx_file(0x0e, &[1], &1.5f64.to_be_bytes())).unwrap();
    assert_eq!((t.dtype(), t.to_vec::<f64>().unwrap()), (DType::F64, vec![1.5]));
    let t = idx::from_bytes(&idx_file(0x0d, &[1], &(-2.5f32).to_be_bytes())).unwrap();
    assert_eq!((t.dtype(), t.to_vec::<f32>().unwrap()), (DType::F32, vec![-2.5]));
    let t = idx::from_bytes(&idx_file(0x0c, &[1], &7i32.to_be_bytes())).unwrap();
    assert_eq!((t.dtype(), t.to_vec::<i32>().unwrap()), (DType::I32, vec![7]));
    let t = idx::from_bytes(&gzip(&idx_file(0x09, &[3, 0], &[]))).unwrap();
    assert_eq!((t.dtype(), t.dims()), (DType::I8, &[3, 0][..]));
}

#[test]
fn idx_that_is_damaged() {
    fails(idx::from_bytes(b""), &["damaged IDX file: expected a magic of 4 bytes, found a file of 0", "at byte 0"]);
    fails(idx::from_bytes(b"\x89PNG"), &["expected two zero bytes, found 89 50"]);
    fails(idx::from_bytes(&[0, 0, 7, 1]), &["element type", "found 07 (at byte 2)"]);
    fails(idx::from_bytes(&[0, 0, 8, 3, 0, 0]), &["3 extents of 4 bytes"]);
    let e = fails(idx::from_bytes(&idx_file(8, &[3], &[1, 2])), &["expected 3 bytes for u8 [3], found 2"]);
    assert_eq!(e.place(), Some(Place::Byte(8)));
    fails(idx::from_bytes(&idx_file(8, &[u32::MAX; 4], &[])), &["more than 2^64"]);
    fails(idx::from_bytes(&idx_file(8, &[u32::MAX], &[])), &["expected 4294967295 bytes", "found 0"]);
    // Gzipped files that promise more than they can hold, are cut off, or are changed.
    fails(idx::from_bytes(&gzip(&idx_file(8, &[u32::MAX], &[]))), &["gzipped bytes can hold"]);
    let good = gzip(&idx_file(8, &[3000], &[7; 3000]));
    assert_eq!(idx::from_bytes(&good).unwrap().dims(), [3000]);
    fails(idx::from_bytes(&good[..good.len() - 1]), &["damaged gzip file"]);
    let mut changed = good.clone();
    *changed.last_mut().unwrap() ^= 1;
    fails(idx::from_bytes(&changed), &["fits its checksum"]);
    fails(idx::load(Path::new("no/such/file")), &["no/such/file: cannot open"]);
    fails(idx::load(std::env::temp_dir()), &["it is a folder"]);
}

#[test]
fn mnist_folders() {
    let dir = tempfile::tempdir().unwrap();
    fails(idx::mnist(dir.path(), idx::Part::Train), &["cannot find MNIST here", "train-images-idx3-ubyte"]);
    let images = idx_file(8, &[2, 2, 3], &[0, 51, 102, 153, 204, 255, 1, 2, 3, 4, 5, 6]);
    fs::write(dir.path().join("train-images-idx3-ubyte"), &images).unwrap();
    fs::write(dir.path().join("train-labels.idx1-ubyte.gz"), gzip(&idx_file(8, &[2], &[9, 3]))).unwrap();
    let d = idx::mnist(dir.path(), idx::Part::Train).unwrap();
    assert_eq!((d.len(), d.size(), d.classes().len()), (2, [1, 2, 3], 10));
    let (image, label) = d.get(0).unwrap();
    assert_eq!((image.pixels(), label), (&[0.0, 0.2, 0.4, 0.6, 0.8, 1.0][..], 9));
    assert!(d.get(2).is_err());
    let (x, y) = d.tensors().unwrap();
    assert_eq!((x.dims(), y.to_vec::<i64>().unwrap()), (&[2, 1, 2, 3][..], vec![9, 3]));
    assert_eq!(x.narrow(0, 0, 1).unwrap().to_vec::<f32>().unwrap(), image.pixels());
    fs::write(dir.path().join("train-labels-idx1-ubyte"), idx_file(8, &[3], &[9, 3, 1])).unwrap();
    fails(idx::mnist(dir.path(), idx::Part::Train), &["train-labels", "expected u8 labels [2], found u8 [3]"]);
    fs::write(dir.path().join("train-images-idx3-ubyte"), idx_file(8, &[2], &[1, 2])).unwrap();
    fails(idx::mnist(dir.path(), idx::Part::Train), &["train-images", "[n, height, width]", "u8 [2]"]);
}

#[test]
fn cifar_folders() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("cifar-10-batches-bin");
    fs::create_dir(&folder).unwrap();
    let record = |labels: &[u8], fill: u8| [labels, &[fill; 1024], &[fill + 1; 1024], &[fill + 2; 1024]].concat();
    for i in 1..=5 {
        fs::write(folder.join(format!("data_batch_{i}.bin")), [record(&[i], 10 * i), record(&[0], 0)].concat())
            .unwrap();
    }
    let d = cifar::load(Cifar::Ten, dir.path(), true).unwrap();
    assert_eq!((d.len(), d.size(), d.labels()), (10, [3, 32, 32], &[1, 0, 2, 0, 3, 0, 4, 0, 5, 0][..]));
    let (image, label) = d.get(4).unwrap();
    assert_eq!((label, image.at(2, 31, 31)), (3, Some(32.0 / 255.0)));
    fails(cifar::load(Cifar::Ten, dir.path(), false), &["test_batch.bin: cannot open"]);
    fs::write(folder.join("test_batch.bin"), record(&[10], 0)).unwrap();
    fails(cifar::load(Cifar::Ten, dir.path(), false), &["test_batch.bin", "a label below 10, found 10 (at byte 0)"]);
    fs::write(folder.join("test_batch.bin"), [record(&[1], 0), vec![0; 7]].concat()).unwrap();
    fails(cifar::load(Cifar::Ten, &folder, false), &["records of 3073 bytes", "7 of them", "(at byte 3073)"]);
    fs::write(folder.join("test_batch.bin"), record(&[1], 0)).unwrap();
    fs::write(
        folder.join("batches.meta.txt"),
        "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n",
    )
    .unwrap();
    assert_eq!(cifar::load(Cifar::Ten, &folder, false).unwrap().classes()[1], "automobile");
    fs::write(folder.join("batches.meta.txt"), "one\n").unwrap();
    fails(cifar::load(Cifar::Ten, &folder, false), &["batches.meta.txt", "10 names of classes, found 1"]);

    let d = cifar::from_bytes(Cifar::Hundred, &record(&[3, 99], 5)).unwrap();
    assert_eq!((d.labels(), d.classes().len()), (&[99][..], 100));
    fails(cifar::from_bytes(Cifar::Hundred, &record(&[3, 100], 5)), &["CIFAR-100", "(at byte 1)"]);
    fails(cifar::from_bytes(Cifar::Hundred, b""), &["0 bytes"]);
}

#[test]
fn csv_with_quotes_types_and_line_ends() {
    let text = "\u{feff}id, size ,name,ok,note\r\n1,2.5,\"a, \"\"b\"\"\",true,\r\n\r\n-2,NA,\"two\nlines\",FALSE, x \r\n3,1e3,c,True,\"\"";
    let t = csv::parse(text, &CsvOptions::default()).unwrap();
    let names: Vec<String> = t.columns().iter().map(|c| c.to_string()).collect();
    assert_eq!(names, ["id: i64", "size: f64", "name: text", "ok: bool", "note: text"]);
    assert_eq!((t.len(), t.is_empty()), (3, false));
    assert_eq!(t.column("id").unwrap().values, Values::I64(vec![1, -2, 3]));
    assert_eq!(t.column("ok").unwrap().values, Values::Bool(vec![true, false, true]));
    assert_eq!(
        t.column("name").unwrap().values,
        Values::Text(vec!["a, \"b\"".into(), "two\nlines".into(), "c".into()])
    );
    assert_eq!(t.column("note").unwrap().values, Values::Text(vec!["".into(), " x ".into(), "".into()]));
    let x = t.tensor(&["size", "id", "ok"]).unwrap().to_vec::<f32>().unwrap();
    assert!(x[3].is_nan());
    assert_eq!([&x[..3], &x[4..]].concat(), [2.5, 1.0, 1.0, -2.0, 0.0, 1000.0, 3.0, 1.0]);
    let (labels, classes) = t.labels("id").unwrap();
    assert_eq!(
        (labels.to_vec::<i64>().unwrap(), classes),
        (vec![1, 0, 2], vec!["-2".into(), "1".into(), "3".to_string()])
    );
    fails(t.tensor(&["name"]), &["column `name` holds texts"]);
    fails(t.column("nope"), &["no column `nope`, but id, size, name"]);

    let plain = CsvOptions { header: false, delimiter: b';', ..CsvOptions::default() };
    let t = csv::parse("1;2\n3;4", &plain).unwrap();
    assert_eq!((t.len(), t.columns()[1].name.as_str()), (2, "column_2"));
    let typed = CsvOptions { types: [("a".to_string(), ColumnType::F64)].into(), ..CsvOptions::default() };
    assert_eq!(csv::parse("a\n1\n", &typed).unwrap().columns()[0].values, Values::F64(vec![1.0]));
    assert!(csv::parse("a,b\n", &CsvOptions::default()).unwrap().is_empty());
}

#[test]
fn csv_that_is_damaged() {
    let bad = |text: &[u8], options: &CsvOptions, parts: &[&str]| fails(csv::parse(text, options), parts);
    let o = CsvOptions::default();
    bad(b"", &o, &["at least one line", "(line 1, column 1)"]);
    bad(b"a,b\n1,2\n3\n", &o, &["expected 2 fields, found 1 (line 3, column 2)"]);
    bad(b"a,b\n1,2,3\n", &o, &["expected 2 fields, found 3 (line 2, column 3)"]);
    bad(b"a,b\n1,\"2\n", &o, &["a closing quote, found the end of the file (line 2, column 2)"]);
    bad(b"a,b\n\"x\ny\",\"2\"3\n", &o, &["after the closing quote, found '3' (line 3, column 2)"]);
    bad(b"a,b\n1,2\"3\n", &o, &["a quote at the start of a field", "(line 2, column 2)"]);
    bad(b"a,b\n1,\xff\n", &o, &["UTF-8", "(line 2, column 2)"]);
    bad(b"a,b,a\n", &o, &["`a` twice (line 1, column 3)"]);
    let typed = CsvOptions { types: [("b".to_string(), ColumnType::I64)].into(), ..o.clone() };
    bad(b"a,b\n1,2\n3,4.5\n", &typed, &["a whole number in column `b`, found `4.5` (line 3, column 2)"]);
    let typed = CsvOptions { types: [("b".to_string(), ColumnType::Bool)].into(), ..o.clone() };
    bad(b"a,b\n1,yes\n", &typed, &["true or false in column `b`, found `yes`"]);
    let typed = CsvOptions { types: [("b".to_string(), ColumnType::F64)].into(), ..o.clone() };
    bad(b"a,b\n1,yes\n", &typed, &["a number in column `b`, found `yes`"]);
    bad(b"a\n1\n", &typed, &["the column `b`, which is not there"]);
    bad(b"a\n1\n", &CsvOptions { delimiter: b'"', ..o }, &["cannot separate fields"]);
    fails(csv::load("no/such.csv", &CsvOptions::default()), &["no/such.csv: cannot open"]);
}

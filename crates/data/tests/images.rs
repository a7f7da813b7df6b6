//! Images: what Pillow reads is what we read; folders; transforms against PyTorch's figures.

use gradus_data::{
    DataLoader, Dataset, Image, LoaderOptions, Rng,
    image::{self, ImageFolder, ImageFolderOptions, ImageOptions},
    transform::*,
};
use std::{fs, path::PathBuf};

fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn plain() -> ImageOptions {
    ImageOptions { channels: None, ..ImageOptions::default() }
}

/// The largest difference from what Pillow read, in steps of 1/255.
fn difference(name: &str, extension: &str) -> f32 {
    let got = image::load(data().join(format!("{name}.{extension}")), &plain()).unwrap();
    let want = gradus_io::npy::load(data().join(format!("{name}.npy"))).unwrap();
    assert_eq!(want.dims(), [got.height(), got.width(), got.channels()], "{name}");
    let want = want.permute([2, 0, 1]).unwrap().to_vec::<f32>().unwrap();
    got.pixels().iter().zip(&want).map(|(g, w)| (g * 255.0 - w).abs()).fold(0.0, f32::max)
}

#[test]
fn png_of_every_kind() {
    for name in [
        "grey1",
        "grey2",
        "grey4",
        "grey8",
        "grey16",
        "rgb8",
        "rgb16",
        "grey_alpha8",
        "rgba8",
        "rgba8_interlaced",
        "grey2_interlaced",
        "palette4",
        "palette4_alpha",
        "rgb8_key",
    ] {
        assert!(difference(name, "png") < 1e-3, "{name}");
    }
}

#[test]
fn jpeg_of_every_kind() {
    for name in ["colour420", "colour444", "progressive", "grey"] {
        // Decoders differ in rounding and in how they stretch the colour planes.
        let d = difference(name, "jpg");
        assert!(d <= 6.0, "{name}: {d}");
    }
}

#[test]
fn channels_as_wanted() {
    let load = |name: &str, channels| image::load(data().join(name), &ImageOptions { channels, ..plain() });
    assert_eq!(load("grey8.png", Some(3)).unwrap().channels(), 3);
    assert_eq!(load("rgba8.png", Some(3)).unwrap().channels(), 3);
    let grey = load("rgb8.png", Some(1)).unwrap();
    assert_eq!(grey, load("rgb8.png", None).unwrap().to_grey());
    assert_eq!(load("grey8.png", None).unwrap().to_grey(), load("grey8.png", None).unwrap());
    assert!(load("rgb8.png", Some(7)).unwrap_err().to_string().contains("3 channels cannot become 7"));
    let e = image::load(data().join("make.py"), &plain()).unwrap_err().to_string();
    assert!(e.contains("make.py") && e.contains("expected a PNG or JPEG file, found the bytes 22 22 22"), "{e}");
    for name in ["rgb8.png", "colour420.jpg"] {
        let small = ImageOptions { max_pixels: 100, ..plain() };
        let e = image::load(data().join(name), &small).unwrap_err().to_string();
        assert!(e.contains("at most 100 pixels"), "{e}");
        // Cut anywhere: an error, never a picture.
        let bytes = fs::read(data().join(name)).unwrap();
        for cut in (0..bytes.len() - 2).step_by(7) {
            assert!(image::decode(&bytes[..cut], &plain()).is_err(), "{name} cut at {cut}");
        }
    }
}

#[test]
fn folders_of_classes() {
    let dir = tempfile::tempdir().unwrap();
    let put = |from: &str, to: &str| {
        let to = dir.path().join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(data().join(from), to).unwrap();
    };
    let e = ImageFolder::open(dir.path()).unwrap_err().to_string();
    assert!(e.contains("one folder a class, found no folder at all"), "{e}");
    put("rgb8.png", "dog/b.PNG");
    put("grey8.png", "dog/a.png");
    put("colour420.jpg", "cat/deep/er/x.jpeg");
    put("make.py", "cat/notes.txt");
    let d = ImageFolder::open(dir.path()).unwrap();
    assert_eq!((d.classes(), d.len()), (&["cat".to_string(), "dog".into()][..], 3));
    let labels: Vec<i64> = (0..3).map(|i| d.get(i).unwrap().1).collect();
    assert_eq!(labels, [0, 1, 1]);
    assert!(d.files()[1].0.ends_with("dog/a.png") && d.files()[2].0.ends_with("dog/b.PNG"));
    // Sizes differ, so a batch needs a transform.
    let options = LoaderOptions { batch_size: 3, num_workers: 2, ..LoaderOptions::default() };
    let e = DataLoader::new(d.clone(), options.clone()).unwrap().iter().next().unwrap().unwrap_err().to_string();
    assert!(e.contains("items of a batch must agree: item 1 has [3, 13, 11]"), "{e}");
    let loader = DataLoader::new(d.transform(Resize::new(8, 8)), options).unwrap();
    let (x, y) = loader.iter().next().unwrap().unwrap();
    assert_eq!((x.dims(), y.to_vec::<i64>().unwrap()), (&[3, 3, 8, 8][..], vec![0, 1, 1]));
    fs::write(dir.path().join("dog/c.png"), b"not an image").unwrap();
    let e = ImageFolder::open(dir.path()).unwrap().get(3).unwrap_err().to_string();
    assert!(e.contains("c.png"), "{e}");
    fs::create_dir(dir.path().join("empty")).unwrap();
    let e = ImageFolder::open(dir.path()).unwrap_err().to_string();
    assert!(e.contains("a .png or .jpg in class empty, found none"), "{e}");
    let lenient = ImageFolderOptions { allow_empty: true, ..ImageFolderOptions::default() };
    assert_eq!(ImageFolder::with_options(dir.path(), lenient).unwrap().classes().len(), 3);
}

/// The numbers 0 to 29 to the power 1.3, over 10: 5 x 6.
fn slope() -> Image {
    Image::new(1, 5, 6, (0..30).map(|i| (i as f32).powf(1.3) / 10.0).collect()).unwrap()
}

fn close(got: &Image, want: &[f32]) {
    assert_eq!(got.pixels().len(), want.len());
    for (g, w) in got.pixels().iter().zip(want) {
        assert!((g - w).abs() < 2e-5, "{got:?} against {want:?}");
    }
}

#[test]
fn sizes_as_pytorch_makes_them() {
    // torch.nn.functional.interpolate(x, size, mode="bilinear", antialias=...)
    let mut rng = Rng::new(0, 0);
    let mut apply = |r: Resize| r.apply(slope(), &mut rng).unwrap();
    close(&apply(Resize::new(3, 2)), &[0.65128, 1.15189, 2.93202, 3.65011, 5.80658, 6.64743]);
    close(&apply(Resize::new(3, 2).antialias(false)), &[0.48498, 1.06928, 2.80625, 3.67583, 5.90954, 6.92606]);
    let aa = [1.18965, 1.3919, 1.61466, 1.8506, 2.09734, 2.35347, 4.3553, 4.66429, 4.97854, 5.29783, 5.62197, 5.95077];
    close(&apply(Resize::new(2, 6)), &aa);
    let larger = apply(Resize::new(7, 9));
    close(
        &larger.clone().make_row(1),
        &[0.58689, 0.67343, 0.79308, 0.92548, 1.06578, 1.21081, 1.36215, 1.51891, 1.63783],
    );
    assert_eq!(larger, apply(Resize::new(7, 9).antialias(false)));
    let edge = apply(Resize::smaller_edge(10));
    assert_eq!((edge.height(), edge.width()), (10, 12));
    assert!(
        Resize::new(0, 3).apply(slope(), &mut Rng::new(0, 0)).unwrap_err().to_string().contains("no size may be 0")
    );
}

trait Row {
    fn make_row(self, y: usize) -> Image;
}

impl Row for Image {
    fn make_row(self, y: usize) -> Image {
        let w = self.width();
        Image::new(1, 1, w, self.pixels()[y * w..(y + 1) * w].to_vec()).unwrap()
    }
}

#[test]
fn crops_and_flips() {
    let image = Image::new(1, 3, 4, (1..=12).map(|x| x as f32).collect()).unwrap();
    let mut rng = Rng::new(3, 0);
    // torchvision.transforms.functional.center_crop
    let centre = |h, w| CenterCrop::new(h, w).apply(image.clone(), &mut Rng::new(0, 0)).unwrap().pixels().to_vec();
    assert_eq!(centre(1, 2), [6.0, 7.0]);
    assert_eq!(centre(2, 2), [2.0, 3.0, 6.0, 7.0]); // (3 - 2) / 2 rounds to the even 0
    assert_eq!(centre(5, 2), [0.0, 0.0, 2.0, 3.0, 6.0, 7.0, 10.0, 11.0, 0.0, 0.0]);
    assert_eq!(centre(1, 7), [0.0, 5.0, 6.0, 7.0, 8.0, 0.0, 0.0]);
    let seen: std::collections::BTreeSet<i64> =
        (0..200).map(|_| RandomCrop::new(2, 2).apply(image.clone(), &mut rng).unwrap().pixels()[0] as i64).collect();
    assert_eq!(seen, [1, 2, 3, 5, 6, 7].into());
    let padded = RandomCrop::new(5, 6).padding(1).apply(image.clone(), &mut rng).unwrap();
    assert_eq!((padded.at(0, 0, 0), padded.at(0, 1, 1), padded.at(0, 3, 4)), (Some(0.0), Some(1.0), Some(12.0)));
    let e = RandomCrop::new(4, 4).apply(image.clone(), &mut rng).unwrap_err().to_string();
    assert!(e.contains("an image of 3 x 4 has no window of 4 x 4"), "{e}");
    let flip = |p| RandomHorizontalFlip { p }.apply(image.clone(), &mut Rng::new(0, 0)).unwrap();
    assert_eq!((flip(0.0), flip(1.0).at(0, 0, 0)), (image.clone(), Some(4.0)));
    let over = RandomVerticalFlip { p: 1.0 }.apply(image.clone(), &mut rng).unwrap();
    assert_eq!(over.pixels()[..4], [9.0, 10.0, 11.0, 12.0]);
    let times = (0..1000).filter(|_| RandomHorizontalFlip::default().apply(image.clone(), &mut rng).unwrap() != image);
    assert!((450..550).contains(&times.count()));
}

#[test]
fn rotation_normalising_and_composing() {
    let mut pixels = vec![0.0f32; 81];
    pixels[4 * 9 + 7] = 1.0; // right of the middle
    let image = Image::new(1, 9, 9, pixels).unwrap();
    let still = RandomRotation { degrees: 0.0 }.apply(image.clone(), &mut Rng::new(0, 0)).unwrap();
    assert_eq!(still, image);
    for stream in 0..20 {
        let turned = RandomRotation { degrees: 20.0 }.apply(image.clone(), &mut Rng::new(0, stream)).unwrap();
        let (mut sum, mut y, mut x) = (0.0, 0.0, 0.0);
        for (i, &p) in turned.pixels().iter().enumerate() {
            sum += p;
            y += p * ((i / 9) as f32 - 4.0);
            x += p * ((i % 9) as f32 - 4.0);
        }
        let angle = (y / sum).atan2(x / sum).to_degrees();
        let radius = (y / sum).hypot(x / sum);
        assert!(angle.abs() <= 21.0 && (radius - 3.0).abs() < 0.2, "{angle} {radius}");
    }
    let two = Image::new(2, 1, 2, vec![0.0, 1.0, 0.0, 1.0]).unwrap();
    let norm = Normalize::new([0.5, 0.0], [0.5, 2.0]).unwrap();
    let all = Compose::new().then(norm.clone()).then(RandomHorizontalFlip { p: 1.0 });
    assert_eq!(all.apply(two.clone(), &mut Rng::new(0, 0)).unwrap().pixels(), [1.0, -1.0, 0.5, 0.0]);
    assert!(norm.apply(image, &mut Rng::new(0, 0)).unwrap_err().to_string().contains("1 channels, and means for 2"));
    assert!(Normalize::new([0.0], [0.0]).unwrap_err().to_string().contains("channel 0 must be finite and not 0"));
    assert!(Normalize::new([0.0], []).is_err());
    assert!(Image::new(1, 2, 2, vec![0.0; 3]).unwrap_err().to_string().contains("3 pixels do not fill 1 x 2 x 2"));
    let tensor = two.to_tensor().unwrap();
    assert_eq!(Image::from_tensor(&tensor).unwrap(), two);
    assert!(Image::from_tensor(&tensor.flatten(0, -1).unwrap()).is_err());
}

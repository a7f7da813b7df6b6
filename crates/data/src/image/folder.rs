//! A folder of images, one folder a class.

use super::{Image, ImageOptions, load};
use crate::{Dataset, ReadError, ReadResult, dataset::outside};
use gradus_core::Result;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folders inside folders are followed this deep; links that lead back up end here.
const DEPTH: usize = 16;
const EXTENSIONS: [&str; 3] = ["png", "jpg", "jpeg"];

/// How a folder of images is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImageFolderOptions {
    /// How each file is read.
    pub image: ImageOptions,
    /// Whether classes without any image are accepted.
    pub allow_empty: bool,
}

/// `root/class/name.png` and `.jpg`: classes and files in the order of their names, as torchvision's `ImageFolder`.
///
/// Files are opened when their index is asked for, in the loader's workers if it has some.
///
/// ```no_run
/// use gradus_data::{DataLoader, Dataset, LoaderOptions, image::ImageFolder, transform::Resize};
/// let pets = ImageFolder::open("pets/train")?;
/// println!("{:?}", pets.classes());
/// let small = pets.transform(Resize::new(64, 64));
/// let loader = DataLoader::new(small, LoaderOptions { batch_size: 32, num_workers: 2, ..Default::default() })?;
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageFolder {
    classes: Vec<String>,
    files: Vec<(PathBuf, usize)>,
    options: ImageFolderOptions,
}

impl ImageFolder {
    /// Lists a folder, with the default options: colours, no empty class.
    pub fn open(root: impl AsRef<Path>) -> ReadResult<ImageFolder> {
        ImageFolder::with_options(root, ImageFolderOptions::default())
    }

    /// Lists a folder.
    pub fn with_options(root: impl AsRef<Path>, options: ImageFolderOptions) -> ReadResult<ImageFolder> {
        let root = root.as_ref();
        let mut classes = vec![];
        let mut files = vec![];
        for folder in list(root)?.into_iter().filter(|p| p.is_dir()) {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let before = files.len();
            collect(&folder, DEPTH, &mut |file| files.push((file, classes.len())))?;
            if files.len() == before && !options.allow_empty {
                let e = ReadError::malformed("image folder", format!("a .png or .jpg in class {name}"), "none");
                return Err(e.with_path(&folder).hint("remove the folder, or set allow_empty"));
            }
            classes.push(name);
        }
        if classes.is_empty() {
            let e = ReadError::malformed("image folder", "one folder a class", "no folder at all");
            return Err(e.with_path(root).hint("images lie as ROOT/class/name.png"));
        }
        Ok(ImageFolder { classes, files, options })
    }

    /// The names of the classes: their indices are the labels.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The files with their labels.
    pub fn files(&self) -> &[(PathBuf, usize)] {
        &self.files
    }
}

impl Dataset for ImageFolder {
    type Item = (Image, i64);
    fn len(&self) -> usize {
        self.files.len()
    }
    fn get(&self, index: usize) -> Result<(Image, i64)> {
        let (path, class) = self.files.get(index).ok_or_else(|| outside("get", index, self.files.len()))?;
        Ok((load(path, &self.options.image)?, *class as i64))
    }
}

/// What is in a folder, by name.
fn list(folder: &Path) -> ReadResult<Vec<PathBuf>> {
    let wrong = |e| ReadError::io("cannot list", e).with_path(folder);
    let mut all =
        fs::read_dir(folder).map_err(wrong)?.map(|e| Ok(e?.path())).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    all.sort();
    Ok(all)
}

fn collect(folder: &Path, depth: usize, found: &mut dyn FnMut(PathBuf)) -> ReadResult<()> {
    for path in list(folder)? {
        if path.is_dir() {
            if depth > 0 {
                collect(&path, depth - 1, found)?;
            }
            continue;
        }
        let ext = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        if ext.is_some_and(|e| EXTENSIONS.contains(&e.as_str())) {
            found(path);
        }
    }
    Ok(())
}
